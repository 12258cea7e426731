"""The index that looks incoming keys up in the key columns of the base files of their partitions.

Hudi: org.apache.hudi.index.simple.HoodieSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    PARTITION_PATH,
    RECORD_KEY,
    reserved_field,
)
from hoodie.common.model.write_status import WriteStatus
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.index import HoodieIndex, IndexedTable, KeyLocations, tag_with_locations, with_location_columns
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle, KeyMatches
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

__all__ = ["HoodieSimpleIndex", "StoredKeys", "gather_locations", "key_check", "keys_by_partition"]

SHARED_KEY_BYTES = 64 << 20
"""Arrow bytes of incoming keys up to which every task gets them all; beyond, the lookup is a join by the engine."""


class HoodieSimpleIndex(HoodieIndex):
    """Reads the key column of every latest base file of the touched partitions.

    Few incoming keys (below `SHARED_KEY_BYTES`) are handed to tasks that each look through one base file; what they
    find comes back as positions. Many are joined with the keys and positions of the files by the engine.

    Hudi: org.apache.hudi.index.simple.HoodieSimpleIndex.
    """

    @property
    def is_global(self) -> bool:
        return False

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> KeyLocations:
        files = table.files
        if not files or not keys.num_rows:
            return KeyLocations({}, [])
        shared = context.share(keys_by_partition(keys))
        try:
            looked_up = context.run_tasks(files, _Lookup(table.storage, shared))
        finally:
            shared.release()
        for _, _, look in looked_up:
            table.work.note(look)
        return gather_locations(files, [(found, positions) for found, positions, _ in looked_up])

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        keys = records.select([RECORD_KEY, PARTITION_PATH]).collect(max_bytes=SHARED_KEY_BYTES) if table.files else None
        if keys is not None or not table.files:
            locations = KeyLocations({}, []) if keys is None else self.find_locations(keys, context, table)
            return tag_with_locations(records, table.share(context, locations))
        table.work.note_all(table.files, Decision.KEY_CHECK)
        return self._join(records, context, table.storage, table.files)

    def _join(
        self,
        records: HoodieData,
        context: HoodieEngineContext,
        storage: HoodieStorage,
        files: Sequence[tuple[str, HoodieBaseFile]],
    ) -> HoodieData:
        schema = with_location_columns(pa.schema([reserved_field(RECORD_KEY), reserved_field(PARTITION_PATH)]))
        stored = context.generate(files, StoredKeys(storage), schema)
        return records.join(stored, [RECORD_KEY, PARTITION_PATH], "left")

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Nothing: the base files are the index."""

    def rollback_commit(self, instant_time: str) -> None:
        """Nothing: the base files are the index."""


def key_check(partition_path: str, base_file: HoodieBaseFile, keys: int, matches: KeyMatches) -> FileGroupLook:
    """What a key check of a file came to.

    Args:
        partition_path: Of the file.
        base_file: The file.
        keys: How many keys were looked for.
        matches: Those that it holds.
    """
    return FileGroupLook(
        partition_path,
        base_file.file_id,
        Decision.KEY_CHECK,
        keys,
        len(matches.key_indices),
        matches.row_groups,
        matches.row_groups_read,
    )


def keys_by_partition(keys: pa.Table) -> dict[str, pa.Array]:
    """Partition path to its distinct incoming keys.

    Args:
        keys: Record key and partition path.
    """
    partitions = keys[PARTITION_PATH].combine_chunks().dictionary_encode()
    codes = partitions.indices.to_numpy()
    record_keys = keys[RECORD_KEY].combine_chunks()
    values = partitions.dictionary.to_pylist()
    if len(values) == 1:
        return {values[0]: record_keys.unique()}
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(len(values) + 1))
    return {
        value: record_keys.take(pa.array(order[bounds[code] : bounds[code + 1]])).unique()
        for code, value in enumerate(values)
    }


def gather_locations(
    files: Sequence[tuple[str, HoodieBaseFile]], found: Sequence[tuple[pa.Array, np.ndarray]]
) -> KeyLocations:
    """What tasks found, as one value.

    Args:
        files: (partition path, base file) for each task.
        found: For each of them the keys it found and their row positions.
    """
    schema = pa.schema([("key", pa.string()), ("file", pa.int32()), ("position", pa.int64())])
    parts: dict[str, list[pa.Table]] = {}
    for number, ((partition_path, _), (keys, positions)) in enumerate(zip(files, found, strict=True)):
        if len(keys):
            file = pa.array(np.full(len(keys), number, dtype=np.int32))
            part = pa.table([keys, file, pa.array(positions)], schema=schema)
            parts.setdefault(partition_path, []).append(part)
    tables = {partition_path: pa.concat_tables(tables).combine_chunks() for partition_path, tables in parts.items()}
    return KeyLocations(tables, [base_file for _, base_file in files])


@attrs.frozen
class _Lookup:
    """Task: the incoming keys of a partition that one of its base files holds."""

    storage: HoodieStorage
    keys: Shared

    def __call__(
        self, task: TaskIdentity, item: tuple[str, HoodieBaseFile]
    ) -> tuple[pa.Array, np.ndarray, FileGroupLook]:
        partition_path, base_file = item
        by_partition: Mapping[str, pa.Array] = self.keys.value
        keys = by_partition.get(partition_path)
        if keys is None:
            nothing = FileGroupLook(partition_path, base_file.file_id, Decision.KEY_CHECK, found=0)
            return pa.array([], pa.string()), np.zeros(0, dtype=np.int64), nothing
        matches = HoodieKeyLookupHandle(self.storage, base_file.path).lookup(keys)
        look = key_check(partition_path, base_file, len(keys), matches)
        return keys.take(pa.array(matches.key_indices)), matches.row_positions, look


@attrs.frozen
class StoredKeys:
    """Task: all keys of one base file with their locations."""

    storage: HoodieStorage

    def __call__(self, task: TaskIdentity, item: tuple[str, HoodieBaseFile]) -> Iterator[pa.RecordBatch]:
        partition_path, base_file = item
        with HoodieParquetReader(self.storage, base_file.path) as reader:
            keys = reader.read_record_keys()
        names = [RECORD_KEY, PARTITION_PATH, CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION]
        start = 0
        for chunk in keys.chunks:
            count = len(chunk)
            columns = [
                chunk,
                pa.repeat(partition_path, count),
                pa.repeat(base_file.instant_time, count),
                pa.repeat(base_file.file_id, count),
                pa.array(np.arange(start, start + count, dtype=np.int64)),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=names)
            start += count
