"""The types of an Avro schema as a tree, for code that works on a column at a time."""

from __future__ import annotations

import functools

import attrs
import pyarrow as pa

from hoodie.avro.avro_type import AvroType
from hoodie.avro.schema_reader import AvroReader, parse_record

_MAX_DEPTH = 64
"""Code that walks through nested types calls itself nine times for a level; Python allows 1,000 calls."""
_VARIANT_COLUMNS = {
    "boolean": ("integer", pa.bool_()),
    "int": ("integer", pa.int32()),
    "long": ("integer", pa.int64()),
    "float": ("floating", pa.float32()),
    "double": ("floating", pa.float64()),
    "bytes": ("binary", pa.binary()),
    "string": ("binary", pa.string()),
}


@functools.lru_cache(maxsize=64)
def type_tree(
    avro_schema: str, has_variants: bool = False, has_members: bool = False, ignores_logical_types: bool = False
) -> AvroType:
    """The types of a record.

    Fields of the type null, which `to_arrow` refuses, have Arrow's type null.

    Args:
        avro_schema: JSON of the record.
        has_variants: Whether unions of several types are read as `VARIANT`; else they are refused.
        has_members: Whether they are read as structs of members instead, see
            `hoodie.avro.schema_reader.member_name`.
        ignores_logical_types: Whether logical types that are not known do not matter; else they are refused.

    Raises:
        HoodieSchemaException: It is not the schema of a record, a field's type has no Arrow type that hoodie knows, or
            the items of an array take no bytes, so that an announced number of them would not end.
    """
    reader = AvroReader(
        has_variants,
        has_members=has_members,
        ignores_logical_types=ignores_logical_types,
        has_nulls=True,
        max_depth=_MAX_DEPTH,
    )
    return reader.read(parse_record(avro_schema))


def variant_column(branch: AvroType) -> tuple[str, AvroType | None]:
    """The column of a `VARIANT` for the values of a branch, and the type in which they are coded.

    Returns:
        The column, and a type without logical type; None for a branch whose Avro bytes are kept.
    """
    leaf = branch.inner[0] if branch.kind == "record" and len(branch.inner) == 1 else branch
    found = _VARIANT_COLUMNS.get(leaf.kind)
    if found is None:
        return "binary", None
    column, arrow_type = found
    return column, attrs.evolve(leaf, logical=None, arrow_type=arrow_type)
