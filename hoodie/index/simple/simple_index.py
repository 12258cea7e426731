"""The index that looks incoming keys up in the key columns of the base files of their partitions.

Hudi: org.apache.hudi.index.simple.HoodieSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.index import BaseFileIndex, IndexedTable, KeyLocations, KeysInTasks, tag_with_locations
from hoodie.index.index_report import Decision
from hoodie.index.merged_keys import (
    KeysOfSlices,
    MergedKeys,
    MergedLocations,
    filtered,
    find_in_merged,
    without_deleted_copies,
)
from hoodie.index.stored_keys import (
    LOCATION_SCHEMA,
    SHARED_KEY_BYTES,
    FoundKeys,
    StoredKeys,
    find_in_key_columns,
    gather_locations,
    keys_by_partition,
)

_KEY_COLUMNS = (RECORD_KEY, PARTITION_PATH)


class HoodieSimpleIndex(BaseFileIndex):
    """Reads the key column of every latest base file of the touched partitions.

    A few incoming keys (up to `SHARED_KEY_BYTES`) are sent to tasks. Each task searches one base file and returns the
    positions of the keys that it finds. More keys are joined by the engine with the keys and positions of the files.

    Other indexes that look for a key in its partition derive from this one, and find keys in another way.

    Hudi: org.apache.hudi.index.simple.HoodieSimpleIndex.
    """

    searches_slices = True

    @property
    def is_global(self) -> bool:
        return False

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> KeyLocations:
        if not table.slices or not keys.num_rows:
            return KeyLocations({}, [])
        by_partition = keys_by_partition(keys)
        in_base, merged = table.split()
        slices = in_base.slices
        found = self._find(by_partition, [part.partition_path for part in slices], context, in_base) if slices else []
        paths = [part.partition_path for part in merged]
        reading = self._reading(table) if merged else None
        more, _ = find_in_merged(by_partition, paths, merged, context, table, reading)
        slices, found = [*slices, *merged], [*found, *more]
        groups = [part.partition_path for part in slices]
        kept = without_deleted_copies(found, groups, slices, context, table)
        return gather_locations(slices, [filtered(*pair) for pair in zip(found, kept, strict=True)])

    def slices_to_search(
        self, keys: KeysInTasks, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[FileSlice, bool]]:
        in_base, merged = table.split()
        table.work.note_all(merged, Decision.KEY_CHECK)
        candidates = self._candidates(keys.ranges, context, in_base)
        return [*((part, False) for part in candidates), *((part, True) for part in merged)]

    def _candidates(
        self, key_ranges: Mapping[str, Sequence[tuple[str, str]]], context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        """The slices whose base file can hold incoming keys; every slice is noted."""
        table.work.note_all(table.slices, Decision.KEY_CHECK)
        return table.slices

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        if not table.slices:
            return tag_with_locations(records, table.notes.share(context, KeyLocations({}, [])))
        keys = records.select(_KEY_COLUMNS).collect(max_bytes=SHARED_KEY_BYTES)
        if keys is None:
            in_base, merged = table.split()
            stored = self._stored_keys(records, context, in_base)
            if merged:
                table.work.note_all(merged, Decision.KEY_CHECK)
                more = context.generate(merged, MergedLocations(MergedKeys.of(table)), LOCATION_SCHEMA)
                stored = stored.union(more)
            return records.join(stored, _KEY_COLUMNS, "left")
        return tag_with_locations(records, table.notes.share(context, self.find_locations(keys, context, table)))

    def _find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        """The keys in each slice; see `find_in_key_columns`."""
        return find_in_key_columns(keys, groups, context, table)[0]

    def _reading(self, table: IndexedTable) -> KeysOfSlices:
        """The reader of keys of slices with log files."""
        return MergedKeys.of(table)

    def _stored_keys(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """The locations of stored keys: at least those of all keys of the records.

        Args:
            records: More than fit in the driver's memory.
            context: The engine.
            table: The table's slices; judgements are noted there.
        """
        table.work.note_all(table.slices, Decision.KEY_CHECK)
        return context.generate(table.slices, StoredKeys(table.storage), LOCATION_SCHEMA)
