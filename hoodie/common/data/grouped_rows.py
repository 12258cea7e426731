"""Rows of a batch by the value of a column, and rows by number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from hoodie.common.data.acero_plans import aggregated
from hoodie.common.util.arrow_buffers import numbers_in

_ROWS_FOR_THREADS = 1 << 16


def rows_by_value(column: pa.Array) -> Iterator[tuple[str, np.ndarray]]:
    """Each value, in the order of first appearance, and the numbers of its rows (integers, ascending).

    Args:
        column: Strings without nulls, few of them distinct.
    """
    encoded = column.dictionary_encode()
    values = encoded.dictionary.to_pylist()
    if len(values) == 1:
        yield values[0], np.arange(len(column))
        return
    codes = numbers_in(encoded.indices.cast(pa.int32()), np.int32)
    if len(values) <= np.iinfo(np.int16).max:
        codes = codes.astype(np.int16)  # numpy sorts 16 bits by counting
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
    for code, value in enumerate(values):
        yield value, order[bounds[code] : bounds[code + 1]]


def group_by(rows: pa.Table, columns: Sequence[str], aggregations: Sequence[tuple[str | None, str]]) -> pa.Table:
    """One row for each group of rows with equal values; few rows are grouped on the thread of the caller.

    Waiting for another thread takes longer than grouping some rows.

    Args:
        rows: The rows.
        columns: The columns to group by.
        aggregations: See `aggregated`.
    """
    return aggregated(rows, columns, aggregations, use_threads=rows.num_rows >= _ROWS_FOR_THREADS)


def take_rows(batch: pa.RecordBatch, rows: pa.Array) -> pa.RecordBatch:
    """Some rows of a batch; columns that share their bytes are taken once, and share them again.

    A record key that is a column of the user shares that column's bytes.

    Args:
        batch: The rows.
        rows: The numbers of the wanted rows; a null gives a row of nulls.
    """
    taken: dict[object, pa.Array] = {}
    columns = []
    for column in batch.columns:
        identity = _identity(column)
        if identity not in taken:
            taken[identity] = column.take(rows)
        columns.append(taken[identity])
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def joined_chunks(table: pa.Table) -> pa.Table:
    """A table with its chunks joined, as ``combine_chunks`` does; columns that share their bytes are joined once.

    Args:
        table: The rows. A column of more than 2 GiB keeps several chunks.
    """
    chunks = [column.chunks for column in table.columns]  # held, so that no two of them have one identity
    places: dict[object, int] = {}
    numbers = []
    for number, parts in enumerate(chunks):
        identity = tuple((len(part), _identity(part)) for part in parts)
        numbers.append(places.setdefault(identity or number, number))
    distinct = list(places.values())
    joined = pa.Table.from_arrays([table.column(number) for number in distinct], list(map(str, distinct)))
    columns = dict(zip(distinct, joined.combine_chunks().columns, strict=True))
    return pa.Table.from_arrays([columns[number] for number in numbers], schema=table.schema)


def _identity(column: pa.Array) -> object:
    """A value that is equal only for columns with the same values.

    For nested columns and dictionaries the buffers are not enough. An extension type may be either, and shows no
    fields.
    """
    kind = column.type
    if kind.num_fields or pa.types.is_dictionary(kind) or isinstance(kind, pa.BaseExtensionType):
        return id(column)
    buffers = tuple(buffer.address if buffer is not None else None for buffer in column.buffers())
    return kind, column.offset, buffers
