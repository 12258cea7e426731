"""A store of rows in memory up to a limit, and in a local file above it.

Hudi: org.apache.hudi.common.util.collection.ExternalSpillableMap. Differs: holds rows by number, without keys.
"""

from __future__ import annotations

from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.grouped_rows import take_rows
from hoodie.common.util.arrow_buffers import indices_of
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.io.spill_file import SpillFile

_PART_BYTES = 16 << 20
"""Smaller batches are joined up to this size, so that rows are taken from few parts."""


class LogRowStore:
    """Rows that are appended in batches and taken by their numbers; a context manager.

    Memory: the rows up to the limit. Above it, the part that is being filled, and the system's cache of the file.

    Args:
        schema: The columns.
        config: The limit, and the folder of the file.
    """

    def __init__(self, schema: pa.Schema, config: HoodieLogMergeConfig) -> None:
        self._schema = schema
        self._config = config
        self._parts: list[pa.RecordBatch] = []
        self._ends: list[int] = []
        self._open: list[pa.RecordBatch] = []
        self._open_bytes = 0
        self._held_bytes = 0
        self._rows = 0
        self._file: SpillFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def schema(self) -> pa.Schema:
        """The columns."""
        return self._schema

    @property
    def is_spilled(self) -> bool:
        """Whether the rows are in a local file."""
        return self._file is not None

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return self._rows

    def append(self, rows: pa.RecordBatch) -> int:
        """Add rows.

        Args:
            rows: Rows with the columns of the store.

        Returns:
            The number of the first of these rows.

        Raises:
            HoodieIOException: The local file cannot be written.
        """
        first = self._rows
        if rows.num_rows:
            # A field may be nullable in only one of the two schemas.
            self._open.append(pa.RecordBatch.from_arrays(rows.columns, schema=self._schema))
            self._open_bytes += rows.nbytes
            self._rows += rows.num_rows
            if self._open_bytes >= _PART_BYTES:
                self._close_part()
        return first

    def finish(self) -> None:
        """End adding rows; they can be taken from now on.

        Raises:
            HoodieIOException: The local file cannot be written.
        """
        self._close_part()
        if self._file is not None:
            self._file.finish()
            self._parts = self._file.mapped()

    def take(self, numbers: npt.NDArray[np.int64]) -> pa.RecordBatch:
        """The rows with the given numbers, in the order of the array.

        Args:
            numbers: Numbers of rows.
        """
        if len(self._parts) == 1:
            return take_rows(self._parts[0], indices_of(numbers))
        if not len(numbers):
            return pa.RecordBatch.from_arrays([pa.nulls(0, f.type) for f in self._schema], schema=self._schema)
        owners = np.searchsorted(self._ends, numbers, side="right")
        order = np.argsort(owners, kind="stable")
        bounds = np.flatnonzero(np.append(True, np.diff(owners[order]) != 0))
        pieces = []
        for start, end in zip(bounds, [*bounds[1:], len(order)], strict=True):
            chosen = order[start:end]
            part = int(owners[chosen[0]])
            first = self._ends[part - 1] if part else 0
            pieces.append(take_rows(self._parts[part], indices_of(numbers[chosen] - first)))
        joined = concat_rows(pieces)
        if (order[1:] > order[:-1]).all():
            return joined
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        return take_rows(joined, indices_of(back))

    def close(self) -> None:
        """Drop the rows and the file; a second call does nothing."""
        self._parts, self._open = [], []
        if self._file is not None:
            self._file.close()

    def _close_part(self) -> None:
        """Make one part of the rows that were added since the last part."""
        if not self._open:
            return
        part = concat_rows(self._open)
        self._open, self._open_bytes = [], 0
        self._ends.append(self._rows)
        if self._file is not None:
            self._file.write(part)
            return
        self._parts.append(part)
        self._held_bytes += part.nbytes
        if self._held_bytes > self._config.merge_max_size:
            held, self._parts = self._parts, []
            limit = f"{self._config.merge_max_size} bytes (hoodie.memory.merge.max.size)"
            content = f"log records of more than {limit}"
            self._file = SpillFile(self._config.spillable_map_path, self._schema, content)
            for batch in held:
                self._file.write(batch)


def concat_rows(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of several batches, one batch after the other.

    Args:
        batches: Batches of one schema, at least one.
    """
    if len(batches) == 1:
        return batches[0]
    columns = [pa.concat_arrays(columns) for columns in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def with_replaced_rows(rows: pa.RecordBatch, new: pa.RecordBatch, places: npt.NDArray[np.int64]) -> pa.RecordBatch:
    """Rows, some of which are replaced. An unchanged column is passed on without a copy: updates change few columns.

    Args:
        rows: The rows.
        new: The replacements, with the same columns.
        places: The place of the replaced row for each replacement.
    """
    replaced = indices_of(places)
    indices = np.arange(rows.num_rows)
    indices[places] = rows.num_rows + np.arange(len(places))
    chosen = indices_of(indices)
    columns = [
        old if _is_same(old.take(replaced), column) else pa.concat_arrays([old, column]).take(chosen)
        for old, column in zip(rows.columns, new.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)


_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Whether two columns hold the same values to the last bit; False for nested columns, which are not compared."""
    if one.type.num_fields or isinstance(one.type, pa.BaseExtensionType):
        return False
    bits = _BITS.get(one.type)
    return bool(one.view(bits).equals(other.view(bits)) if bits is not None else one.equals(other))
