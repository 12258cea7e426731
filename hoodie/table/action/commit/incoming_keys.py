"""The keys of a write's input, where they fit in the driver's memory.

Everything that is decided before the first file is written (do keys repeat, where do they live, how many rows go
where) is decided by the keys; with the keys at hand it costs no pass over the rows.
"""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.data import HoodieData
from hoodie.common.engine.engine_context import Shared
from hoodie.common.model.merge_spec import MergeSpec
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.index.index import Locations

__all__ = ["IncomingKeys", "WithoutRows", "collect_keys", "without_deletes_of_nothing"]

KEY_BYTES = 64 << 20
"""Arrow bytes of keys up to which they are brought to the driver and shared with tasks."""


@attrs.frozen
class IncomingKeys:
    """One row for each row of the input.

    Attributes:
        table: Record key, partition path, operation, row number, and the ordering value where there is one.
    """

    table: pa.Table

    def combine(self, merge_spec: MergeSpec, is_global: bool = False) -> tuple[IncomingKeys, pa.Table]:
        """One row for each key.

        Args:
            merge_spec: The table's rules.
            is_global: Whether the record key alone is the key; else it is with the partition path.

        Returns:
            The rows that win, and the row numbers and record keys of those that lose.
        """
        winners = merge_spec.combine_duplicates(self.table.drop_columns([PARTITION_PATH]) if is_global else self.table)
        wins = pc.is_in(self.table[ROW_NUMBER], value_set=winners[ROW_NUMBER].combine_chunks())
        losers = self.table.filter(pc.invert(wins)).select([ROW_NUMBER, RECORD_KEY]).combine_chunks()
        return IncomingKeys(self.table.filter(wins)), losers

    def count_by_partition(self) -> pa.Table:
        """Partition path and ``count``; the rows that could not be prepared have a null path."""
        counted = self.table.group_by(PARTITION_PATH).aggregate([([], "count_all")])
        return counted.rename_columns([PARTITION_PATH, "count"])

    def has_duplicates(self, is_global: bool = False) -> bool:
        """Whether two rows have the same record key and partition path; with ``is_global`` the same record key."""
        count = self.table.num_rows
        if count < 2 or pc.count_distinct(self.table[RECORD_KEY], mode="all").as_py() == count:
            return False
        if is_global:
            return True
        return bool(self.table.group_by([RECORD_KEY, PARTITION_PATH]).aggregate([]).num_rows < count)

    def count_by_location(self, locations: Locations) -> pa.Table:
        """Rows that will be written: partition path, current file id and instant time, ``count``."""
        columns = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
        tagged = pa.Table.from_batches(
            [
                without_deletes_of_nothing(locations.tag(batch)).select(columns)
                for batch in self.table.combine_chunks().to_batches()
            ],
            pa.schema([(name, pa.string()) for name in columns]),
        )
        counted = tagged.group_by(columns).aggregate([([], "count_all")])
        return counted.rename_columns([*columns, "count"])


def collect_keys(records: HoodieData) -> IncomingKeys | None:
    """The keys of numbered batches in flight, None when they are too many. An action."""
    columns = [RECORD_KEY, PARTITION_PATH, OPERATION, ROW_NUMBER]
    if ORDERING_VALUE in records.schema.names:
        columns.append(ORDERING_VALUE)
    table = records.select(columns).collect(max_bytes=KEY_BYTES)
    return None if table is None else IncomingKeys(table)


@attrs.frozen
class WithoutRows:
    """Drops rows by number; a pure function of a batch that crosses to tasks.

    A row is dropped only if its key is the one that was decided about: input that is not deterministic may be computed
    again with other keys.

    Attributes:
        losers: Of a table of row numbers and record keys.
    """

    losers: Shared

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that stay."""
        losers: pa.Table = self.losers.value
        entries = pc.index_in(batch.column(ROW_NUMBER), value_set=losers[ROW_NUMBER].combine_chunks())
        if entries.null_count == batch.num_rows:
            return batch
        keys = losers[RECORD_KEY].combine_chunks().take(entries)
        return batch.filter(pc.invert(pc.fill_null(pc.equal(keys, batch.column(RECORD_KEY)), False)))


def without_deletes_of_nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A tagged batch without deletes whose key is not in the table."""
    is_upsert = pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))
    wanted = pc.or_(is_upsert, batch.column(CURRENT_FILE_ID).is_valid())
    return batch if pc.all(wanted).as_py() is not False else batch.filter(wanted)
