"""What a partition path says about the columns of its rows: the key generator backwards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.keygen.partition_path_encoding import DEFAULT_PARTITION

__all__ = ["PartitionedTable", "partition_expression"]

_PACKAGE = "org.apache.hudi.keygen."
INVERTIBLE_GENERATORS = frozenset(
    {"SimpleKeyGenerator", "SimpleAvroKeyGenerator", "ComplexKeyGenerator", "ComplexAvroKeyGenerator"}
)
"""Their levels are values. Those of others may be times, or whatever a user's class makes: they tell nothing here."""


class PartitionedTable(Protocol):
    """The table properties that say how partition paths were made."""

    @property
    def key_generator_class(self) -> str | None:
        """The class with its package."""

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """Fields of the partition path, in their order."""

    @property
    def hive_style_partitioning(self) -> bool:
        """Whether a level is ``<field>=<value>``."""

    @property
    def url_encode_partitioning(self) -> bool:
        """Whether values are escaped in paths."""


def partition_expression(partition_path: str, table: PartitionedTable, schema: pa.Schema) -> pc.Expression:
    """What is true of every row of a partition, as far as its path tells; ``true`` where it tells nothing.

    Args:
        partition_path: Relative path.
        table: How paths were made.
        schema: Types of the columns. Strings, integers, booleans and dates can be told from a path; other values
            cannot.

    Example: ``region=emea/day=2026-01-01`` gives ``region == "emea" and day == 2026-01-01``.
    """
    whole = pc.scalar(True)
    fields: Sequence[str] = table.partition_fields
    levels = partition_path.split("/") if partition_path else []
    generator = (table.key_generator_class or "").removeprefix(_PACKAGE)
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
