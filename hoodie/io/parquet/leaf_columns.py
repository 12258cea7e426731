"""The leaves of columns, each of which is a column of Parquet, and what they and their statistics take."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

__all__ = [
    "LONGEST_STATISTIC",
    "expanded_bytes",
    "is_text",
    "leaf_types",
    "leaves",
    "longest_statistics",
    "statistics_length",
]

LONGEST_STATISTIC = 4096
"""Bytes of the longest smallest or largest value that Arrow notes for a chunk and for each of its pages."""


def leaves(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's path and the values of every leaf of a column."""
    column_type = column.type
    if pa.types.is_struct(column_type):
        for field, child in zip(column_type, column.flatten(), strict=True):
            yield from leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(column_type):
        yield from leaves(f"{path}.key_value.key", column.keys)
        yield from leaves(f"{path}.key_value.value", column.items)
    elif isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from leaves(f"{path}.list.element", column.flatten())
    else:
        yield path, column


def leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Types of the leaves of a column, each of which is a column of Parquet."""
    if not pa.types.is_nested(data_type):
        yield data_type
        return
    for number in range(data_type.num_fields):
        yield from leaf_types(data_type.field(number).type)


def is_text(data_type: pa.DataType) -> bool:
    """Whether values, and with them statistics, may be of any length."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
    )


def expanded_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of the values of a dictionary column, each written out, with its length or nothing more."""
    values = column.dictionary
    if not len(values):
        return 0
    if len(values) == 1:
        return int(len(column) * values.nbytes)
    if not is_text(values.type):
        return int(len(column) * (values.nbytes // len(values) + 1))
    lengths = pc.binary_length(values).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0) + 4 * len(column)


def longest_statistics(batches: list[pa.RecordBatch]) -> int:
    """Most bytes that the smallest and largest values of a row group take."""
    longest: dict[str, int] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, leaf in leaves(name, column):
                values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf
                if is_text(values.type):
                    length = pc.max(pc.binary_length(values)).as_py() or 0
                    longest[path] = max(longest.get(path, 0), min(length, LONGEST_STATISTIC))
    return 2 * sum(longest.values())


def statistics_length(statistics: pq.Statistics | None) -> int:
    """Bytes of the smallest and the largest value of a text column, as far as they are noted."""
    if statistics is None or not statistics.has_min_max or statistics.physical_type != "BYTE_ARRAY":
        return 0
    values = (statistics.min_raw, statistics.max_raw)
    return sum(len(value.encode()) if isinstance(value, str) else len(value) for value in values)
