"""Merge columns of stored rows with columns of incoming rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.data.equal_rows import comparison_cost, equal_rows
from hoodie.common.model.record_columns import COMMIT_TIME_META, CURRENT_ROW_POSITION, META_COLUMNS
from hoodie.io.write_handle import constant_column

MOST_BYTES = 1 << 30
"""Larger updates are merged in several pieces, so that a column of updates and stored rows fits into one array."""

_COMMIT_TIME = META_COLUMNS.index(COMMIT_TIME_META)
_VALUES_AT_ONCE = 1 << 12
_POSITIONS_PER_ROW = 8
"""Rows are put in order without comparing them if there are no more positions for each."""


def last_at_each_position(positions: np.ndarray, numbers: np.ndarray | None) -> np.ndarray:
    """The places of the rows that count, in the order of their positions: of one position, the last row.

    Args:
        positions: The position of each row.
        numbers: The numbers that order the rows; None if they are in order.
    """
    if numbers is not None and (numbers[1:] >= numbers[:-1]).all():
        numbers = None
    is_dense = len(positions) and positions.min() >= 0 and positions.max() < _POSITIONS_PER_ROW * len(positions)
    if numbers is None and is_dense:
        last = np.full(positions.max() + 1, -1)
        last[positions] = np.arange(len(positions))
        return last[last >= 0]
    order = np.argsort(positions, kind="stable") if numbers is None else np.lexsort((numbers, positions))
    positions = positions[order]
    return order[np.append(positions[1:] != positions[:-1], True)] if len(order) else order


class PlacedUpdates:
    """Incoming rows with their positions among the stored rows.

    Args:
        rows: Incoming rows, sorted by their position; one for each position.
    """

    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows
        self._positions = rows[CURRENT_ROW_POSITION].to_numpy() if rows.num_rows else np.zeros(0, dtype=np.int64)

    @property
    def positions(self) -> np.ndarray:
        """The positions (int64), ascending."""
        return self._positions

    @property
    def last_position(self) -> int:
        """The greatest position; -1 without rows."""
        return int(self._positions[-1]) if len(self._positions) else -1

    def bytes_instead(self, start: int, count: int) -> int | None:
        """The bytes of the incoming rows for a range of stored rows; None if a stored row has none.

        Args:
            start: The position of the first stored row.
            count: The number of stored rows.
        """
        low, high = np.searchsorted(self._positions, [start, start + count])
        return self._rows.slice(low, count).nbytes if high - low == count else None

    def pieces(self, start: int, count: int) -> Iterator[tuple[int, int]]:
        """Ranges of stored rows, as offset and length, so short that the updates of each fit into one array.

        Args:
            start: The position of the first stored row.
            count: The number of stored rows.
        """
        open_ranges = [(0, count)]
        while open_ranges:
            low, length = open_ranges.pop()
            first, end = np.searchsorted(self._positions, [start + low, start + low + length])
            if length > 1 and end - first > 1 and self._rows.slice(first, end - first).nbytes > MOST_BYTES:
                half = length // 2
                open_ranges += [(low + half, length - half), (low, half)]
            else:
                yield low, length

    def of_rows(self, start: int, count: int) -> tuple[pa.RecordBatch, np.ndarray] | None:
        """The incoming rows for a range of stored rows, and their places in it; None if there are none.

        Args:
            start: The position of the first stored row.
            count: The number of stored rows: a range of `pieces`.
        """
        low, high = np.searchsorted(self._positions, [start, start + count])
        if low == high:
            return None
        (rows,) = self._rows.slice(low, high - low).combine_chunks().to_batches()
        return rows, self._positions[low:high] - start


@attrs.frozen(eq=False)
class MergedRows:
    """Stored rows that a merge replaces or deletes.

    Attributes:
        new: The columns of the rows that take the place of stored ones; None for no rows.
        replaced: The numbers of these stored rows, ascending.
        deleted: The numbers of the stored rows that go, ascending.
    """

    new: list[pa.Array] | None
    replaced: np.ndarray
    deleted: np.ndarray

    def places(self, count: int) -> np.ndarray:
        """For each row of the result, its number among the stored rows followed by the new rows.

        Args:
            count: The number of stored rows.
        """
        places = np.arange(count)
        places[self.replaced] = count + np.arange(len(self.replaced))
        return np.delete(places, self.deleted) if len(self.deleted) else places


def merged_columns(
    stored: Sequence[pa.Array | None], new: Sequence[pa.Array] | None, places: np.ndarray
) -> list[pa.Array]:
    """Columns of stored and new rows, in a given order.

    Args:
        stored: Columns of base files; dictionaries are constants, except for the commit time. None for columns that
            were not read, because new rows take the place of all stored ones.
        new: The same columns of new rows; None for no rows.
        places: For each row of the result, its number among the stored rows followed by the new rows.
    """
    indices = pa.array(places)
    replaces_all = new is not None and is_replaced(places, len(new[0]))
    merged = []
    for number, column in enumerate(stored):
        addition = new[number] if new is not None else None
        if column is None:
            assert addition is not None and replaces_all
            merged.append(addition)
        elif number == _COMMIT_TIME and pa.types.is_dictionary(column.type) and not column.null_count:
            merged.append(_merged_dictionary(column, addition, places))
        elif number != _COMMIT_TIME and pa.types.is_dictionary(column.type):
            merged.append(constant_column(column.dictionary[0].as_py(), len(places)))
        elif addition is None:
            merged.append(_plain(column).take(indices))
        elif replaces_all:
            merged.append(_plain(addition))
        else:
            merged.append(pa.concat_arrays([_plain(column), _plain(addition)]).take(indices))
    return merged


def is_replaced(places: np.ndarray, count: int) -> bool:
    """Whether new rows take the places of all stored rows, in their order.

    Args:
        places: See `merged_columns`; as many as there are stored rows, if none is deleted.
        count: The number of new rows.
    """
    return len(places) == count and np.array_equal(places, np.arange(count, 2 * count))


def _merged_dictionary(column: pa.DictionaryArray, addition: pa.Array | None, places: np.ndarray) -> pa.Array:
    """Merge commit times: all new rows have the same one, which no old row has."""
    values, codes = column.dictionary, column.indices.to_numpy()
    if addition is None:
        return pa.DictionaryArray.from_arrays(pa.array(codes[places]), values)
    if not pa.types.is_dictionary(addition.type):
        return pa.concat_arrays([_plain(column), addition]).take(pa.array(places))
    codes = np.append(codes, np.full(len(addition), len(values), dtype=codes.dtype))[places]
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.concat_arrays([values, addition.dictionary]))


def _plain(column: pa.Array) -> pa.Array:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def columns_to_compare(schema: pa.Schema, ordering_fields: Sequence[str]) -> list[str]:
    """The user's columns, in the order of the cost of comparing them.

    Args:
        schema: The user's columns.
        ordering_fields: The columns that order records of one key.
    """
    return sorted(
        schema.names, key=lambda name: (name not in ordering_fields, comparison_cost(schema.field(name).type))
    )


def count_unchanged(
    stored: pa.RecordBatch, incoming: pa.RecordBatch, positions: np.ndarray, columns: Sequence[str]
) -> int:
    """Count the incoming rows that equal the stored rows that they replace.

    Rows that differ in one column are not compared in the next one, so usually one column is compared.

    Args:
        stored: Stored rows. Columns that are missing here are copied as they are stored, so they are equal.
        incoming: Incoming rows.
        positions: The number of the stored row for each incoming row.
        columns: The names of the columns to compare, in this order.
    """
    known = set(stored.schema.names)
    names = [name for name in columns if name in known]
    alike = np.arange(len(positions))
    done = 0
    while done < len(names) and len(alike):
        # Few rows are taken from many columns at once, because each call takes its time.
        block = names[done : done + 1 + (done and _VALUES_AT_ONCE // len(alike))]
        old = stored.select(block).take(pa.array(positions[alike]))
        new = incoming.select(block).take(pa.array(alike))
        same = np.ones(len(alike), dtype=np.bool_)
        for one, other in zip(old.columns, new.columns, strict=True):
            same &= equal_rows(one, other)
        alike = alike[same]
        done += len(block)
    return len(alike)
