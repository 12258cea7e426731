"""The metadata table: listings, statistics and indexes of a table, kept beside its files."""

from hoodie.metadata.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.metadata_validation import (
    MetadataDifference,
    MetadataDifferenceKind,
    MetadataTableValidation,
)
from hoodie.metadata.table_description import MetadataStatement, MetadataTableDescription, describe
from hoodie.metadata.table_validator import validate

__all__ = [
    "HoodieBackedTableMetadata",
    "MetadataDifference",
    "MetadataDifferenceKind",
    "MetadataStatement",
    "MetadataTableDescription",
    "MetadataTableValidation",
    "describe",
    "validate",
]
