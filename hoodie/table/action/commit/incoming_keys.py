"""The keys of a write's input, where they fit in the driver's memory.

Everything that is decided before the first file is written (do keys repeat, where do they live, how many rows go
where) is decided by the keys; with the keys at hand it costs no pass over the rows.
"""

from __future__ import annotations

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.data import HoodieData
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.index.index import KeyLocations, tag_batch

__all__ = ["IncomingKeys", "collect_keys", "without_deletes_of_nothing"]

KEY_BYTES = 64 << 20
"""Arrow bytes of keys up to which they are brought to the driver and shared with tasks."""


@attrs.frozen
class IncomingKeys:
    """One row for each row of the input.

    Attributes:
        table: Record key, partition path and operation.
    """

    table: pa.Table

    def count_by_partition(self) -> pa.Table:
        """Partition path and ``count``; the rows that could not be prepared have a null path."""
        counted = self.table.group_by(PARTITION_PATH).aggregate([([], "count_all")])
        return counted.rename_columns([PARTITION_PATH, "count"])

    @property
    def has_duplicates(self) -> bool:
        """Whether two rows have the same record key and partition path."""
        count = self.table.num_rows
        if count < 2 or pc.count_distinct(self.table[RECORD_KEY], mode="all").as_py() == count:
            return False
        return bool(self.table.group_by([RECORD_KEY, PARTITION_PATH]).aggregate([]).num_rows < count)

    def count_by_location(self, locations: KeyLocations) -> pa.Table:
        """Rows that will be written: partition path, current file id and instant time, ``count``."""
        columns = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
        tagged = pa.Table.from_batches(
            [
                without_deletes_of_nothing(tag_batch(batch, locations)).select(columns)
                for batch in self.table.combine_chunks().to_batches()
            ],
            pa.schema([(name, pa.string()) for name in columns]),
        )
        counted = tagged.group_by(columns).aggregate([([], "count_all")])
        return counted.rename_columns([*columns, "count"])


def collect_keys(records: HoodieData) -> IncomingKeys | None:
    """The keys of batches in flight, None when they are too many. An action."""
    table = records.select([RECORD_KEY, PARTITION_PATH, OPERATION]).collect(max_bytes=KEY_BYTES)
    return None if table is None else IncomingKeys(table)


def without_deletes_of_nothing(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A tagged batch without deletes whose key is not in the table."""
    is_upsert = pc.equal(batch.column(OPERATION), int(RecordOperation.UPSERT))
    wanted = pc.or_(is_upsert, batch.column(CURRENT_FILE_ID).is_valid())
    return batch if pc.all(wanted).as_py() is not False else batch.filter(wanted)
