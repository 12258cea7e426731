"""The index that keeps the keys of the table in memory, for a long-lived in-process client.

Hudi: org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_status import WriteStatus
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.index import IndexedTable, KeyLocations, tag_with_locations
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.inmemory.kept_slice_keys import KeptSliceKeys, ReadsNewLogFiles
from hoodie.index.merged_keys import KeysOfSlices, MergedKeys
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.index.stored_keys import NOTHING_FOUND, FoundKeys, keys_among
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.written_keys import WrittenKeys, compact_keys, is_of_instant
from hoodie.storage.storage_path import join


class HoodieInMemoryHashIndex(HoodieSimpleIndex):
    """Keeps the key column of every base file that it has searched or that its own client writes.

    A base file never changes, so its keys are valid as long as the file is among the latest ones, whoever wrote it. If
    another writer's commit or rollback replaces it, its keys are dropped when its partition is searched again. The keys
    of the client's own new files are kept as they are written, and not read again. Memory: the record keys of the
    partitions that were written, as Arrow stores them (their bytes, and 4 more for each key).

    For a file group whose log files may hold new keys, the keys of the whole slice are kept (`KeptSliceKeys`).

    Hudi: org.apache.hudi.index.inmemory.HoodieInMemoryHashIndex. Differs: reads the table at its first use instead of
    knowing only what this process wrote; a key is looked for in its partition.
    """

    searches_slices = False

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._keys: dict[str, pa.ChunkedArray] = {}
        self._written = WrittenKeys()
        self._of_slices = KeptSliceKeys()
        self._lock = threading.Lock()

    @property
    def puts_inserts_into_logs(self) -> bool:
        return self._config.index.in_memory_insert_into_logs

    @property
    def written_keys(self) -> WrittenKeys:
        return self._written

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        keys = records.select([RECORD_KEY, PARTITION_PATH]).collect()
        assert keys is not None
        return tag_with_locations(records, table.notes.share(context, self.find_locations(keys, context, table)))

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> KeyLocations:
        # A partition that is looked into may have no slices, or none with log files.
        self._of_slices.forget_replaced(set(pc.unique(keys[PARTITION_PATH]).to_pylist()), table.slices)
        return super().find_locations(keys, context, table)

    def _find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        self._drop_replaced(table)

        def look_up(task: TaskIdentity, item: tuple[str, FileSlice]) -> tuple[FoundKeys, int]:
            group, file_slice = item
            incoming = keys.get(group)
            if incoming is None:
                return NOTHING_FOUND, 0
            stored, row_groups_read = self._load(table, file_slice.key_file)
            return keys_among(stored, incoming), row_groups_read

        looked_up = context.run_tasks(list(zip(groups, table.slices, strict=True)), look_up)
        for group, file_slice, (found, read) in zip(groups, table.slices, looked_up, strict=True):
            path, count = file_slice.partition_path, len(keys.get(group, ()))
            look = FileGroupLook(path, file_slice.file_id, Decision.MEMORY, count, len(found[0]), read, read)
            table.work.note(look)
        return [found for found, _ in looked_up]

    def _reading(self, table: IndexedTable) -> KeysOfSlices:
        return ReadsNewLogFiles(self._of_slices, MergedKeys.of(table))

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Keep the keys of new files as they were written; missing ones are read when they are needed."""
        for status in statuses:
            path = join(table.base_path, str(status.stat.path))
            keys = self._written.take(path, self._keys)
            if keys is not None:
                with self._lock:
                    self._keys[path] = keys
        self._written.forget(table.instant_time)

    def rollback_commit(self, instant_time: str) -> None:
        """Drop the keys of the instant's files."""
        self._written.forget(instant_time)
        with self._lock:
            for path in [path for path in self._keys if is_of_instant(path, instant_time)]:
                del self._keys[path]

    def _load(self, table: IndexedTable, base_file: HoodieBaseFile) -> tuple[pa.ChunkedArray, int]:
        """The keys of a file, and the number of row groups that were read for them: 0 if the keys were kept."""
        with self._lock:
            keys = self._keys.get(base_file.path)
        if keys is not None:
            return keys, 0
        with HoodieParquetReader(table.storage, base_file.path) as reader:
            keys = compact_keys(reader.read_record_keys())
            row_groups = reader.num_row_groups
        with self._lock:
            self._keys[base_file.path] = keys
        return keys, row_groups

    def _drop_replaced(self, table: IndexedTable) -> None:
        """Forget files of the table's partitions that are not among the latest ones."""
        live = {file_slice.key_file.path for file_slice in table.slices}
        folders = {path.rsplit("/", 1)[0] for path in live}
        with self._lock:
            for path in [p for p in self._keys if p not in live and p.rsplit("/", 1)[0] in folders]:
                del self._keys[path]
