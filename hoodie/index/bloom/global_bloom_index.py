"""The index BLOOM over all partitions; a key is unique in the whole table.

Hudi: org.apache.hudi.index.bloom.HoodieGlobalBloomIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.bloom.bloom_index_helper import BloomIndexHelper
from hoodie.index.index import IndexedTable
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.index.stored_keys import FoundKeys, StoredColumns, StoredValues


class HoodieGlobalBloomIndex(HoodieGlobalSimpleIndex):
    """Looks keys up in all partitions, as `hoodie.index.bloom.bloom_index.HoodieBloomIndex` does in one.

    A record whose key lives in another partition moves or stays by ``hoodie.bloom.index.update.partition.path``, as
    with GLOBAL_SIMPLE. The first write of a client reads the footer of every file of the table.

    Hudi: org.apache.hudi.index.bloom.HoodieGlobalBloomIndex.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config, config.index.bloom_update_partition_path)
        self._helper = BloomIndexHelper(config.index)

    def _find(
        self, keys: pa.Table, stored: StoredColumns, context: HoodieEngineContext, table: IndexedTable
    ) -> tuple[list[FoundKeys], StoredValues]:
        return self._find_keys(keys[RECORD_KEY].combine_chunks(), context, table), {}

    def _find_keys(self, keys: pa.Array, context: HoodieEngineContext, table: IndexedTable) -> list[FoundKeys]:
        return self._helper.find({"": keys}, [""] * len(table.slices), context, table)

    def _candidates(
        self, key_ranges: Sequence[tuple[str, str]], context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        return self._helper.within_ranges(dict.fromkeys(table.file_slices, key_ranges), context, table)

    def _slices_to_join(
        self, records: HoodieData, keys: pa.Array | None, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        """The slices with some of the keys; if there are too many keys, the slices whose key ranges may hold some."""
        if keys is None:
            return self._helper.search(records, context, table, is_global=True).slices
        found = self._find_keys(keys, context, table)
        return [file_slice for file_slice, (held, _) in zip(table.slices, found, strict=True) if len(held)]
