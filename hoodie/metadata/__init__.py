"""The metadata table: listings, statistics and indexes of a table, stored beside its files.

The names below are imported on first use: writers need the modules of this package without its readers. Those of
`hoodie.validation`, which stands above this package, are public here; the imports for types tell type checkers so.
"""

import importlib as _importlib
import typing as _typing

if _typing.TYPE_CHECKING:
    from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
    from hoodie.validation.metadata_validation import (
        MetadataDifference,
        MetadataDifferenceKind,
        MetadataTableValidation,
    )
    from hoodie.validation.table_description import MetadataStatement, MetadataTableDescription, describe
    from hoodie.validation.table_validator import validate

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

_MODULES = {
    "HoodieBackedTableMetadata": "hoodie.metadata.reader.backed_table_metadata",
    "MetadataDifference": "hoodie.validation.metadata_validation",
    "MetadataDifferenceKind": "hoodie.validation.metadata_validation",
    "MetadataStatement": "hoodie.validation.table_description",
    "MetadataTableDescription": "hoodie.validation.table_description",
    "MetadataTableValidation": "hoodie.validation.metadata_validation",
    "describe": "hoodie.validation.table_description",
    "validate": "hoodie.validation.table_validator",
}


def __getattr__(name: str) -> _typing.Any:
    """Import a public name when it is asked for."""
    if name not in _MODULES:
        raise AttributeError(f"module 'hoodie.metadata' has no attribute {name!r}")
    value = globals()[name] = getattr(_importlib.import_module(_MODULES[name]), name)
    return value
