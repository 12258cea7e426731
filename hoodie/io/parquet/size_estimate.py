"""Estimate the stored size of the rows that a writer holds, and of the footer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.common.config.storage_config import HoodieStorageConfig
from hoodie.common.model.record_columns import COMMIT_TIME_META, FILE_NAME_META, PARTITION_PATH_META

_TRIAL_ROWS = 1 << 13
"""Rows of a batch that are written to memory to estimate the stored size of the batch."""
_TRIAL_SLICES = 16
"""Number of places in the batch from which these rows come."""
_TRIAL_BYTES = 64 << 20
"""Bytes of these rows at most, if they are long."""
_FOOTER_BYTES = 2048
_FOOTER_BYTES_PER_CHUNK = 200
_PAGE_BYTES = 64
"""Size of a page's header, without statistics."""
_LEVELS_BYTES = 0.25
"""Most bytes for the levels of a value: whether it is null, and where lists start."""
REPEATED_COLUMNS = frozenset({COMMIT_TIME_META, PARTITION_PATH_META, FILE_NAME_META})
"""Hudi's columns with hardly more than one value in a file."""
_LONGEST_STATISTIC = 4096
"""Arrow stores no smallest or largest value of a chunk or page that has more bytes than this."""


@attrs.frozen
class Trial:
    """The estimated size of some rows on storage.

    Attributes:
        row_bytes: Bytes that grow with the number of rows.
        fixed_bytes: Bytes that every row group takes once: page headers, with the smallest and largest value.
        statistics_bytes: Bytes of the row group's smallest and largest values, which the footer repeats.
    """

    row_bytes: float
    fixed_bytes: float
    statistics_bytes: int


class SizeEstimate:
    """Estimates sizes from rows that are encoded to memory, and from row groups that were written.

    Args:
        schema: Columns of the file.
        settings: The encoding.
        encode: Takes a batch and slices of it, encodes the slices to memory as the file would hold them, and returns
            the metadata.
    """

    def __init__(
        self,
        schema: pa.Schema,
        settings: HoodieStorageConfig,
        encode: Callable[[pa.RecordBatch, Sequence[pa.RecordBatch]], pq.FileMetaData],
    ) -> None:
        self._schema = schema
        self._settings = settings
        self._encode = encode
        self._held: list[pa.RecordBatch] = []
        self._trials: list[Trial | None] = []
        self._held_plain_bytes = 0.0
        self._row_groups = 0
        self._leaf_count, self._text_leaf_count = _leaf_counts(schema)
        self._measured: tuple[pa.RecordBatch, float] | None = None
        self._statistics_bytes = 0
        self._correction: float | None = None

    @property
    def correction(self) -> float | None:
        """The size of the last row group as a share of its estimate; None if there was no estimate."""
        return self._correction

    def hold(self, batch: pa.RecordBatch) -> None:
        """Add rows to the next row group.

        Args:
            batch: The rows, with the columns of the schema.
        """
        self._held.append(batch)
        self._trials.append(None)
        self._held_plain_bytes += self._plain_bytes(batch)

    def row_group_is_written(self, stored_bytes: int) -> None:
        """Compare the estimate with the size of the row group that now holds the rows, and drop the rows.

        Args:
            stored_bytes: The stored size of the row group.
        """
        tried = [trial for trial in self._trials if trial is not None]
        if tried and len(tried) == len(self._trials):
            fixed = max(trial.fixed_bytes for trial in tried)
            self._correction = max(stored_bytes - fixed, 1.0) / sum(trial.row_bytes for trial in tried)
        self._row_groups += 1
        self._statistics_bytes += _longest_statistics(self._held)
        self._drop_held()

    def _drop_held(self) -> None:
        self._held = []
        self._trials = []
        self._held_plain_bytes = 0.0
        self._measured = None

    def row_group_is_edited(self, statistics_bytes: int) -> None:
        """Drop the rows, which are in a row group now behind others that were not held.

        Args:
            statistics_bytes: Bytes of the smallest and largest values of the others.
        """
        self._statistics_bytes += statistics_bytes + _longest_statistics(self._held)
        self._row_groups += 1
        self._drop_held()

    def row_group_is_copied(self, statistics_bytes: int) -> None:
        """Count a row group whose rows were not held.

        Args:
            statistics_bytes: Bytes of its smallest and largest values.
        """
        self._row_groups += 1
        self._statistics_bytes += statistics_bytes

    def footer_bytes(self, coming: Trial | None = None) -> int:
        """The estimated size of column chunks and schema in the footer.

        Args:
            coming: The trial of rows that will be appended.
        """
        chunks = self._leaf_count * (self._row_groups + 1)
        held = [trial.statistics_bytes for trial in (*self._trials, coming) if trial is not None]
        return _FOOTER_BYTES + chunks * _FOOTER_BYTES_PER_CHUNK + self._statistics_bytes + max(held, default=0)

    def most_bytes(self, batch: pa.RecordBatch | None = None) -> float:
        """An upper limit of the row group's size with more rows.

        Args:
            batch: The rows to append, if any.
        """
        plain = self._held_plain_bytes + (self._plain_bytes(batch) if batch is not None else 0)
        # A row group stores a smallest and a largest value for each page, and once more in the footer.
        pages = plain / self._settings.parquet_page_size + self._leaf_count
        texts = self._text_leaf_count and self._text_leaf_count + 1 + plain / self._settings.parquet_page_size
        return plain + pages * _PAGE_BYTES + 2 * _LONGEST_STATISTIC * texts

    def held_bytes(self, coming: Trial | None = None) -> float:
        """The estimated size of the held rows on storage.

        Args:
            coming: The trial of further rows for the same row group; only its fixed bytes count.
        """
        for number, trial in enumerate(self._trials):
            if trial is None:
                self._trials[number] = self.trial(self._held[number])
        trials = [trial for trial in (*self._trials, coming) if trial is not None]
        fixed = max((trial.fixed_bytes for trial in trials), default=0.0)
        held = sum(trial.row_bytes for trial in self._trials if trial is not None)
        return held * (self._correction or 1.0) + fixed

    def trial(self, batch: pa.RecordBatch) -> Trial:
        """The size of a batch on storage, estimated by encoding some rows from all parts of it.

        Args:
            batch: The rows.
        """
        count = batch.num_rows
        slices = [batch]
        if count > 2 * _TRIAL_ROWS:
            length = _TRIAL_ROWS // _TRIAL_SLICES
            slices = [batch.slice(count * number // _TRIAL_SLICES, length) for number in range(_TRIAL_SLICES)]
        if (long := sum(piece.nbytes for piece in slices)) > _TRIAL_BYTES:
            slices = [piece.slice(0, max(1, piece.num_rows * _TRIAL_BYTES // long)) for piece in slices]
        chunks = self._encode(batch, slices).row_group(0)
        columns = [chunks.column(number) for number in range(chunks.num_columns)]
        stored = sum(column.total_compressed_size for column in columns)
        statistics = sum(_statistics_length(column.statistics) for column in columns)
        fixed = min(statistics + len(columns) * _PAGE_BYTES, stored)
        encoded_rows = sum(piece.num_rows for piece in slices)
        row_bytes = max(1.0, (stored - fixed) * count / max(encoded_rows, 1))
        return Trial(row_bytes=row_bytes, fixed_bytes=float(fixed), statistics_bytes=statistics)

    def _plain_bytes(self, batch: pa.RecordBatch) -> float:
        """Bytes of rows without compression, and without dictionaries except those of Hudi's constant columns."""
        # Rows are measured when they are offered, and again when they are held.
        if self._measured is not None and self._measured[0] is batch:
            return self._measured[1]
        plain = batch.num_rows * self._leaf_count * _LEVELS_BYTES
        for field, column in zip(self._schema, batch.columns, strict=True):
            plain += column.nbytes
            repeated = self._settings.parquet_dictionary_enabled and field.name in REPEATED_COLUMNS
            if pa.types.is_dictionary(column.type) and not repeated:
                plain += _expanded_bytes(column)
        self._measured = batch, float(plain)
        return float(plain)


def leaves(path: str, column: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """Parquet's path and the values of each leaf of a column."""
    column_type = column.type
    if not column_type.num_fields:
        yield path, column
    elif pa.types.is_struct(column_type):
        for field, child in zip(column_type, column.flatten(), strict=True):
            yield from leaves(f"{path}.{field.name}", child)
    elif pa.types.is_map(column_type):
        yield from leaves(f"{path}.key_value.key", column.keys)
        yield from leaves(f"{path}.key_value.value", column.items)
    elif isinstance(column, pa.ListArray | pa.LargeListArray | pa.FixedSizeListArray):
        yield from leaves(f"{path}.list.element", column.flatten())
    else:
        yield path, column


@lru_cache(maxsize=16)
def _leaf_counts(schema: pa.Schema) -> tuple[int, int]:
    """The numbers of leaves, and of leaves of text."""
    types = [leaf for field in schema for leaf in _leaf_types(field.type)]
    return len(types), sum(map(is_text, types))


def _leaf_types(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """Types of a column's leaves; each leaf is a column in Parquet."""
    if not pa.types.is_nested(data_type):
        yield data_type
        return
    for number in range(data_type.num_fields):
        yield from _leaf_types(data_type.field(number).type)


def is_text(data_type: pa.DataType) -> bool:
    """Whether values, and so their statistics, may have any length."""
    return bool(
        pa.types.is_string(data_type)
        or pa.types.is_large_string(data_type)
        or pa.types.is_binary(data_type)
        or pa.types.is_large_binary(data_type)
    )


def _expanded_bytes(column: pa.DictionaryArray) -> int:
    """Bytes of a dictionary column's values when each is written out, with its length if it is text."""
    values = column.dictionary
    if not len(values):
        return 0
    if len(values) == 1:
        return int(len(column) * values.nbytes)
    if not is_text(values.type):
        return int(len(column) * (values.nbytes // len(values) + 1))
    lengths = pc.binary_length(values).cast(pa.int64())
    return int(pc.sum(lengths.take(column.indices)).as_py() or 0) + 4 * len(column)


def _longest_statistics(batches: list[pa.RecordBatch]) -> int:
    """An upper limit of the bytes of a row group's smallest and largest values."""
    longest: dict[str, int] = {}
    for batch in batches:
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            for path, leaf in leaves(name, column):
                values = leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf
                if is_text(values.type):
                    length = pc.max(pc.binary_length(values)).as_py() or 0
                    longest[path] = max(longest.get(path, 0), min(length, _LONGEST_STATISTIC))
    return 2 * sum(longest.values())


def _statistics_length(statistics: pq.Statistics | None) -> int:
    """Bytes of the smallest and the largest value of a text column; 0 if they are not stored."""
    if statistics is None or not statistics.has_min_max or statistics.physical_type != "BYTE_ARRAY":
        return 0
    values = (statistics.min_raw, statistics.max_raw)
    return sum(len(value.encode()) if isinstance(value, str) else len(value) for value in values)
