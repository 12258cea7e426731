"""The index that opens only files whose key range and bloom filter can hold incoming keys.

Hudi: org.apache.hudi.index.bloom.HoodieBloomIndex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.index import IndexedTable
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.index.stored_keys import LOCATION_SCHEMA, FoundKeys, StoredKeys

__all__ = ["HoodieBloomIndex"]

MOST_COMPARISONS = 2
"""Comparisons of keys with files, for each incoming and each stored row, up to which keys are brought to the files."""


class HoodieBloomIndex(HoodieSimpleIndex):
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

    def _find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        return self._helper.find(keys, groups, context, table)

    def _stored_keys(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """The locations of the keys that the table has, which tasks find among themselves.

        Where most keys are within the ranges of many files (random keys), bringing each key to each file would cost
        more than to join with all keys of these files: then that is done.
        """
        search = self._helper.search(records, context, table, is_global=False)
        if search.comparisons <= MOST_COMPARISONS * (search.rows + search.stored_rows):
            return self._helper.exchange(search, records, context, table)
        return context.generate(search.slices, StoredKeys(table.storage), LOCATION_SCHEMA)
