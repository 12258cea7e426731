"""The index that opens only files whose key range and bloom filter can hold incoming keys.

Hudi: org.apache.hudi.index.bloom.HoodieBloomIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_status import WriteStatus
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.bloom.key_exchange import LOCATION_SCHEMA
from hoodie.index.index import HoodieIndex, IndexedTable, KeyLocations, tag_with_locations
from hoodie.index.simple.simple_index import SHARED_KEY_BYTES, StoredKeys, gather_locations, keys_by_partition

__all__ = ["HoodieBloomIndex"]

MOST_COMPARISONS = 2
"""Comparisons of keys with files, for each incoming and each stored row, up to which keys are brought to the files."""
_KEY_COLUMNS = (RECORD_KEY, PARTITION_PATH)


class HoodieBloomIndex(HoodieIndex):
    """Looks keys up in their partitions: first in the ranges of keys that footers tell, then in the bloom filters of
    the files that are left, then in the keys of the files that are left after that.

    A client keeps the ranges (`hoodie.index.bloom.key_ranges`), so that its later writes read the footers of new files
    only. A file whose footer tells no range, or has no filter or a damaged one, is not passed over for that.

    Hudi: org.apache.hudi.index.bloom.HoodieBloomIndex. Differs: passes over row groups as well, and says at which row
    a key stands.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._helper = BloomIndexHelper(config.index)

    @property
    def is_global(self) -> bool:
        return False

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> KeyLocations:
        files = table.files
        if not files or not keys.num_rows:
            return KeyLocations({}, [])
        groups = [partition_path for partition_path, _ in files]
        return gather_locations(files, self._helper.find(files, groups, keys_by_partition(keys), context, table))

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        keys = records.select([RECORD_KEY, PARTITION_PATH]).collect(max_bytes=SHARED_KEY_BYTES) if table.files else None
        if keys is not None or not table.files:
            locations = KeyLocations({}, []) if keys is None else self.find_locations(keys, context, table)
            return tag_with_locations(records, table.share(context, locations))
        return self._tag_many(records, context, table)

    def _tag_many(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """Join with the locations of the keys that the table has, which tasks find among themselves.

        Where most keys are within the ranges of many files (random keys), bringing each key to each file would cost
        more than to join with all keys of these files: then that is done.
        """
        files = table.files
        search = self._helper.search(files, records, context, table, is_global=False)
        if search.comparisons <= MOST_COMPARISONS * (search.counts.rows + search.stored_rows):
            located = self._helper.exchange(search, files, records, context, table)
        else:
            chosen = [files[number] for number in search.files]
            located = context.generate(chosen, StoredKeys(table.storage), LOCATION_SCHEMA)
        return records.join(located, _KEY_COLUMNS, "left")

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Nothing: the base files are the index."""

    def rollback_commit(self, instant_time: str) -> None:
        """Nothing: the base files are the index."""
