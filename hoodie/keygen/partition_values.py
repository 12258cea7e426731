"""What a partition path says about the columns of its rows: a key generator in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.key_generator_type import KEY_GENERATOR_PACKAGE
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.keygen.partition_path_encoding import DEFAULT_PARTITION

INVERTIBLE_GENERATORS = frozenset(
    {"SimpleKeyGenerator", "SimpleAvroKeyGenerator", "ComplexKeyGenerator", "ComplexAvroKeyGenerator"}
)
"""Key generators whose levels are values. Levels of others may be times, or anything that a user's class makes."""


def partition_expression(partition_path: str, table: HoodieTableConfig, schema: pa.Schema) -> pc.Expression:
    """A condition that every row of a partition fulfils, as far as its path says; ``true`` if it says nothing.

    Args:
        partition_path: The relative path.
        table: How the table's paths are made.
        schema: The columns' types. Only strings, integers, booleans and dates can be read from a path.

    Example: ``region=emea/day=2026-01-01`` gives ``region == "emea" and day == 2026-01-01``.
    """
    whole = pc.scalar(True)
    fields: Sequence[str] = table.partition_fields
    levels = partition_path.split("/") if partition_path else []
    generator = (table.key_generator_class or "").removeprefix(KEY_GENERATOR_PACKAGE)
    if generator not in INVERTIBLE_GENERATORS or len(levels) != len(fields):
        return whole
    for field, level in zip(fields, levels, strict=True):
        prefix = f"{field}="
        value = level.removeprefix(prefix) if table.hive_style_partitioning else level
        if value == DEFAULT_PARTITION or field not in schema.names:
            continue
        text = unquote(value) if table.url_encode_partitioning else value
        data_type = schema.field(field).type
        if not (
            pa.types.is_string(data_type)
            or pa.types.is_integer(data_type)
            or pa.types.is_boolean(data_type)
            or pa.types.is_date32(data_type)
        ):
            continue
        try:
            scalar = pa.scalar(text).cast(data_type)
        except pa.ArrowInvalid:
            continue
        whole = whole & (pc.field(field) == scalar)
    return whole
