"""The index that opens only files whose key range and bloom filter can hold incoming keys.

Hudi: org.apache.hudi.index.bloom.HoodieBloomIndex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.index import IndexedTable
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.index.stored_keys import LOCATION_SCHEMA, FoundKeys, StoredKeys

MOST_COMPARISONS = 2
"""Keys are brought to the files up to this many comparisons of keys with files for each incoming and stored row."""


class HoodieBloomIndex(HoodieSimpleIndex):
    """Looks keys up in their partitions in three steps, each in the files that the step before could not exclude.

    The steps compare keys with the key ranges of footers, then with bloom filters, then with the stored keys. A client
    keeps the ranges (`hoodie.index.bloom.key_ranges`), so its later writes read the footers of new files only. A file
    whose footer has no range, or whose filter is missing or damaged, goes on to the next step.

    Hudi: org.apache.hudi.index.bloom.HoodieBloomIndex. Differs: skips row groups as well, and gives the row of a key.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._helper = BloomIndexHelper(config.index)

    def _find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        return self._helper.find(keys, groups, context, table)

    def _candidates(
        self, key_ranges: Mapping[str, Sequence[tuple[str, str]]], context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        return self._helper.within_ranges(key_ranges, context, table)

    def _stored_keys(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """The locations of the keys that the table has; the keys stay in tasks.

        Random keys are within the ranges of many files. Bringing each of them to each file would cost more than a join
        with all keys of these files, so the engine joins them.
        """
        search = self._helper.search(records, context, table, is_global=False)
        if search.comparisons <= MOST_COMPARISONS * (search.rows + search.stored_rows):
            return self._helper.exchange(search, records, context, table)
        return context.generate(search.slices, StoredKeys(table.storage), LOCATION_SCHEMA)
