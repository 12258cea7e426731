"""The keys of a write's input, where they fit in the driver's memory.

The keys decide everything that must be known before the first file is written: whether keys repeat, where they live,
and how many rows go where. With the keys at hand this needs no pass over the rows.
"""

from __future__ import annotations

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import are_surely_distinct
from hoodie.common.data.grouped_rows import group_by
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    DECIDING_COLUMNS,
    KEY_PARTS,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import Shared
from hoodie.engine.fingerprint import fingerprint
from hoodie.exception import HoodieWriteException
from hoodie.index.index import Locations
from hoodie.merge.merge_spec import MergeSpec

_PLACES = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
KEY_BYTES = 64 << 20
"""Arrow bytes of keys up to which they are brought to the driver and shared with tasks."""


@attrs.frozen
class IncomingKeys:
    """One row for each row of the input.

    Attributes:
        table: Record key, partition path, operation, row number, and the ordering value where there is one. Without
            the row number if the input is read twice: rows may come in another order.
    """

    table: pa.Table

    def combine(self, merge_spec: MergeSpec, is_global: bool = False) -> tuple[IncomingKeys, pa.RecordBatch]:
        """One row for each key.

        Args:
            merge_spec: The table's rules.
            is_global: Whether the record key alone is the key; else it is with the partition path.

        Returns:
            The rows that win; and the row numbers of the rows that lose, with the values that decided, as one batch.
        """
        winners = merge_spec.combine_duplicates(self.table.drop_columns([PARTITION_PATH]) if is_global else self.table)
        return self._split(pc.is_in(self.table[ROW_NUMBER], value_set=winners[ROW_NUMBER].combine_chunks()))

    def without_deleted(self, is_global: bool = False) -> tuple[IncomingKeys, pa.RecordBatch]:
        """All rows but those that a later row of their key deletes.

        Args:
            is_global: See `combine`.

        Returns:
            See `combine`.
        """
        return self._split(pa.array(~DropDeleted(is_global).is_deleted(self.table)))

    def not_found(self, locations: Locations) -> tuple[IncomingKeys, int]:
        """The rows to insert whose key has no location, and the number of rows whose key has one.

        Args:
            locations: The locations of the keys.
        """
        tagged = [locations.tag(batch) for batch in self.table.combine_chunks().to_batches()]
        is_new = [batch.column(CURRENT_FILE_ID).is_null() for batch in tagged]
        found = sum(len(one) - (pc.sum(one).as_py() or 0) for one in is_new)
        new = [
            batch.filter(pc.and_(one, pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))))
            for batch, one in zip(tagged, is_new, strict=True)
        ]
        names = self.table.schema.names
        return IncomingKeys(pa.Table.from_batches([batch.select(names) for batch in new], self.table.schema)), found

    def seen(self) -> RowsSeen:
        """A fingerprint of the rows, as the tasks that write them see them."""
        return sum(map(rows_seen, self.table.combine_chunks().to_batches()), RowsSeen())

    def _split(self, stays: pa.Array | pa.ChunkedArray) -> tuple[IncomingKeys, pa.RecordBatch]:
        lost = self.table.filter(pc.invert(stays))
        columns = [column.combine_chunks() for column in lost.columns]
        return IncomingKeys(self.table.filter(stays)), pa.RecordBatch.from_arrays(columns, schema=lost.schema)

    def count_by_partition(self) -> pa.Table:
        """Partition path and ``count``; the rows that could not be prepared have a null path."""
        counted = group_by(self.table, [PARTITION_PATH], [(None, "count_all")])
        return counted.rename_columns([PARTITION_PATH, "count"])

    def has_duplicates(self, is_global: bool = False) -> bool:
        """Whether two rows have the same record key and partition path; with ``is_global`` the same record key."""
        count, keys = self.table.num_rows, self.table[RECORD_KEY]
        if count < 2 or (not keys.null_count and are_surely_distinct(keys)) or len(pc.unique(keys)) == count:
            return False
        if is_global:
            return True
        return bool(group_by(self.table, [RECORD_KEY, PARTITION_PATH], []).num_rows < count)

    def count_by_location(self, locations: Locations, sees_rows: bool = False) -> LocatedRows:
        """Count the rows for each place.

        Args:
            locations: The locations of the keys.
            sees_rows: Whether to fingerprint the rows that are written.
        """
        tagged = [locations.tag(batch) for batch in self.table.combine_chunks().to_batches()]
        written = [without_deletes_of_nothing(batch) for batch in tagged]
        kept = pa.Table.from_batches(
            [batch.select(_PLACES) for batch in written], pa.schema([(name, pa.string()) for name in _PLACES])
        )
        counted = group_by(kept, _PLACES, [(None, "count_all")])
        return LocatedRows(
            counted.rename_columns([*_PLACES, "count"]),
            sum(batch.num_rows for batch in tagged) - kept.num_rows,
            sum(map(rows_seen, written), RowsSeen()) if sees_rows else None,
        )


@attrs.frozen
class LocatedRows:
    """The number of tagged rows for each place.

    Attributes:
        counts: The rows that are written: partition path, current file id and instant time, ``count``.
        unmatched_deletes: Deletes of keys that are not in the table; they are not written.
        seen: A fingerprint of these rows; None if `count_by_location` was not asked for it.
    """

    counts: pa.Table
    unmatched_deletes: int
    seen: RowsSeen | None = None

    @classmethod
    def of(cls, tagged: HoodieData) -> LocatedRows:
        """Count rows as an index tagged them. An action.

        Args:
            tagged: With partition path, operation and the CURRENT columns; persisted.
        """
        counts = tagged.count_by([*_PLACES, OPERATION])
        wanted = _goes_somewhere(counts)
        kept = group_by(counts.filter(wanted), _PLACES, [("count", "sum")])
        return cls(
            kept.select([*_PLACES, "count_sum"]).rename_columns([*_PLACES, "count"]),
            pc.sum(counts.filter(pc.invert(wanted))["count"]).as_py() or 0,
        )


@attrs.frozen
class DropDeleted:
    """Keeps, of rows of one key that are not combined, those from the last delete on; crosses to tasks.

    Attributes:
        is_global: Whether the record key alone is the key; else it is with the partition path.
    """

    is_global: bool

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows that stay.

        Args:
            rows: With record key, partition path, operation and row number; all rows of each key.
        """
        return rows.filter(pa.array(~self.is_deleted(rows)))

    def is_deleted(self, rows: pa.Table) -> np.ndarray:
        """Whether a later row of its key is a delete, for each row."""
        columns = [RECORD_KEY] if self.is_global else [RECORD_KEY, PARTITION_PATH]
        keys = np.zeros(rows.num_rows, dtype=np.int64)
        for name in columns:
            codes = rows[name].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
            _, keys = np.unique(keys * (int(codes.max(initial=0)) + 1) + codes, return_inverse=True)
        numbers = rows[ROW_NUMBER].to_numpy()
        deletes = rows[OPERATION].to_numpy() != RecordOperation.UPSERT
        last_delete = np.full(int(keys.max(initial=0)) + 1, np.iinfo(np.int64).min, dtype=np.int64)
        np.maximum.at(last_delete, keys[deletes], numbers[deletes])
        is_deleted: np.ndarray = numbers < last_delete[keys]
        return is_deleted


def collect_keys(records: HoodieData) -> IncomingKeys | None:
    """The keys of batches in flight; None when they are too many. An action."""
    optional = [name for name in (ROW_NUMBER, ORDERING_VALUE, KEY_PARTS) if name in records.schema.names]
    columns = [RECORD_KEY, PARTITION_PATH, OPERATION, *optional]
    table = records.select(columns).collect(max_bytes=KEY_BYTES)
    return None if table is None else IncomingKeys(table)


@attrs.frozen
class WithoutRows:
    """Drops rows by number; a pure function of a batch that crosses to tasks.

    An engine may compute rows again in another order, so that a number means another row: then the task fails.

    Attributes:
        losers: A shared table of row numbers, with the values that decided against these rows.
    """

    losers: Shared

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that stay."""
        losers: pa.RecordBatch = self.losers.value
        entries = pc.index_in(batch.column(ROW_NUMBER), value_set=losers.column(ROW_NUMBER))
        if entries.null_count == batch.num_rows:
            return batch
        lost = entries.is_valid()
        decided = losers.schema.names
        if fingerprint(batch.filter(lost), decided) != fingerprint(losers.take(entries.drop_null()), decided):
            raise HoodieWriteException(
                "an executor was lost that kept rows of the input, and the input was computed again in another order. "
                "For the order before, the write had chosen which of several records of one key it keeps. Nothing was "
                "committed: write again, or call checkpoint() on the input first"
            )
        return batch.filter(pc.invert(lost))


def rows_seen(batch: pa.RecordBatch) -> RowsSeen:
    """Count and fingerprint rows."""
    columns = [name for name in DECIDING_COLUMNS if name in batch.schema.names]
    return RowsSeen(batch.num_rows, fingerprint(batch, columns))


def without_deletes_of_nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A tagged batch without deletes whose key is not in the table, or whose file group does not exist."""
    wanted = _goes_somewhere(batch)
    return batch if pc.all(wanted).as_py() is not False else batch.filter(wanted)


def _goes_somewhere(rows: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
    is_upsert = pc.equal(rows.column(OPERATION), int(RecordOperation.UPSERT))
    return pc.or_(is_upsert, rows.column(CURRENT_INSTANT_TIME).is_valid())
