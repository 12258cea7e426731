"""The keys of file slices whose log files must be read to know them.

Usually the base file has all keys of its slice, since log files hold changes of its records. Three cases differ:

- some engines store new records in log files, and even make file groups without a base file;
- a log file may have deleted a key, which matters where the question is whether the key is stored;
- the stored columns of a record are those of its latest change.

Hudi: org.apache.hudi.io.HoodieMergedReadHandle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY
from hoodie.common.util.arrow_buffers import indices_of
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.index import IndexedTable
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.stored_keys import LOCATION_SCHEMA, FoundKeys, StoredColumns, keys_among, located_keys
from hoodie.io.file_group_reader import READ_BATCH_ROWS, HoodieFileGroupReader
from hoodie.io.merged_log_records import LogMergeRules
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.storage.storage import HoodieStorage


@attrs.frozen
class MergedKeys:
    """Reads the keys of slices with log files, and stored columns; crosses to tasks.

    Attributes:
        storage: The storage of the files.
        schema: The table's columns, without meta columns.
        log_merging: The rule by which log files are merged.
        exact: Whether only keys of live records are wanted. Else keys of the base file that log files delete count too:
            their next insert must go to the same file group, where other writers look for them.
        stored: The stored columns.
    """

    storage: HoodieStorage
    schema: pa.Schema
    log_merging: LogMerging
    exact: bool = False
    stored: StoredColumns = attrs.field(factory=StoredColumns)

    @classmethod
    def of(cls, table: IndexedTable, stored: StoredColumns | None = None) -> MergedKeys:
        """A reader for an index of a table.

        Args:
            table: The table.
            stored: The stored columns; None for no columns.
        """
        assert table.records.log_merging is not None
        return cls(
            table.storage,
            table.records.schema,
            table.records.log_merging,
            table.request.exact,
            stored or StoredColumns(),
        )

    def read(self, file_slice: FileSlice) -> pa.Table:
        """The keys (string), each once, and the stored columns, null for deleted records.

        Args:
            file_slice: A slice with log files.
        """
        return self.read_with_deletes(file_slice)[0]

    def read_with_deletes(self, file_slice: FileSlice) -> tuple[pa.Table, int]:
        """The result of `read`, and the number of deletes in the log files.

        Args:
            file_slice: A slice with log files.
        """
        meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
        all_columns = pa.schema([*meta, *self.schema])
        rules = LogMergeRules(self.log_merging.merge_spec, all_columns, self.log_merging.key_generator)
        names = list(dict.fromkeys([*rules.key_columns, *self.stored.top_level_names]))
        context = HoodieReaderContext(self.storage, all_columns, names, self.log_merging)
        reader = HoodieFileGroupReader(context, file_slice).merged_rows()
        schema = pa.schema([pa.field(RECORD_KEY, pa.string()), *self.stored.fields])
        parts = []
        for batch in reader.batches(READ_BATCH_ROWS):
            keys = rules.keys_of(batch).cast(pa.string())
            parts.append(pa.RecordBatch.from_arrays([keys, *self.stored.columns_of(batch)], schema=schema))
        merged = pa.Table.from_batches(parts, schema)
        deletes = reader.counts.log_deletes
        if self.exact or file_slice.base_file is None:
            return merged, deletes
        with HoodieParquetReader(self.storage, file_slice.base_file.path) as base:
            keys = base.read_record_keys()
        deleted = keys.filter(pc.invert(pc.is_in(keys, value_set=merged[RECORD_KEY].combine_chunks())))
        nothing = [pa.nulls(len(deleted), field.type) for field in self.stored.fields]
        return pa.concat_tables([merged, pa.Table.from_arrays([deleted, *nothing], schema=schema)]), deletes


class KeysOfSlices(Protocol):
    """Knows the keys of slices with log files."""

    def read(self, file_slice: FileSlice) -> pa.Table:
        """See `MergedKeys.read`."""


def find_in_merged(
    keys: Mapping[str, pa.Array],
    groups: Sequence[str],
    slices: Sequence[FileSlice],
    context: HoodieEngineContext,
    table: IndexedTable,
    reading: KeysOfSlices | None = None,
) -> tuple[list[FoundKeys], list[list[pa.ChunkedArray]]]:
    """Find the keys that slices with log files hold, and note every slice on ``table.work``.

    Args:
        keys: Distinct keys (string) by the name of their group.
        groups: For each slice the group of keys that is looked for in it.
        slices: The slices.
        context: The engine.
        table: The table.
        reading: The reader of the slices, and its stored columns; None for a `MergedKeys` without columns.

    Returns:
        The keys of each slice, without positions (-1), and their stored columns.
    """
    if not slices:
        return [], []
    shared = context.share(keys)
    try:
        look_up = _LookUpMerged(reading or MergedKeys.of(table), shared)
        looked_up = context.run_tasks(list(zip(groups, slices, strict=True)), look_up)
    finally:
        shared.release()
    for file_slice, (found, _, key_count) in zip(slices, looked_up, strict=True):
        look = FileGroupLook(
            file_slice.partition_path, file_slice.file_id, Decision.KEY_CHECK, keys=key_count, found=len(found[0])
        )
        table.work.note(look)
    return [found for found, _, _ in looked_up], [columns for _, columns, _ in looked_up]


def without_deleted_copies(
    found: Sequence[FoundKeys],
    groups: Sequence[str],
    slices: Sequence[FileSlice],
    context: HoodieEngineContext,
    table: IndexedTable,
) -> list[npt.NDArray[np.bool_]]:
    """For each found key, whether it counts, if log files deleted other copies of its record.

    A record that a log file deletes stays in its base file. If it is inserted again without a look-up, or if it moves
    to another partition, two base files hold its key::

        file group 1    base: a    log: delete of a
        file group 2    base: a                         an upsert of a must go here alone

    A row that went to both would be read twice.

    Args:
        found: The keys found in each slice.
        groups: The group of keys that was looked for in each slice.
        slices: The slices.
        context: The engine.
        table: The table.

    Returns:
        For each slice, true for keys that count. If all copies of a key are deleted, the newest one counts.
    """
    counts = [len(held) for held, _ in found]
    ends = np.cumsum(counts)[:-1]
    kept = np.ones(sum(counts), dtype=np.bool_)
    owners = np.repeat(np.arange(len(found)), counts)
    has_logs = np.array([not file_slice.is_base_file_alone for file_slice in slices], dtype=np.bool_)
    if not has_logs[owners].any():
        return np.split(kept, ends)
    keys = pa.chunked_array([held for held, _ in found], pa.string()).combine_chunks()
    if pc.count_distinct(keys).as_py() == len(keys):
        return np.split(kept, ends)
    group_codes = pa.array(groups, pa.string()).dictionary_encode().indices.to_numpy().astype(np.int64)
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    codes = codes * (group_codes.max(initial=0) + 1) + group_codes[owners]
    _, codes, copies = np.unique(codes, return_inverse=True, return_counts=True)
    repeated = copies[codes] > 1
    slice_numbers = np.unique(owners[repeated & has_logs[owners]]).tolist()
    if not slice_numbers:
        return np.split(kept, ends)
    # One name for each slice, because each is asked for keys of its own.
    shared = context.share({str(n): keys.filter(pa.array(repeated & (owners == n))) for n in slice_numbers})
    try:
        look_up = _LookUpMerged(attrs.evolve(MergedKeys.of(table), exact=True), shared)
        looked_up = context.run_tasks([(str(n), slices[n]) for n in slice_numbers], look_up)
    finally:
        shared.release()
    for number, ((live, _), _, _) in zip(slice_numbers, looked_up, strict=True):
        places = np.flatnonzero(repeated & (owners == number))
        kept[places] = pc.is_in(keys.take(indices_of(places)), value_set=live).to_numpy(zero_copy_only=False)
    lives = np.zeros(len(copies), dtype=np.bool_)
    lives[codes[kept]] = True
    ages = pc.rank(pa.array([file_slice.base_instant_time for file_slice in slices], pa.string())).to_numpy()
    newest = np.zeros(len(copies), dtype=np.int64)
    order = np.argsort(ages[owners], kind="stable")
    newest[codes[order]] = order
    kept[newest[~lives]] = True
    return np.split(kept, ends)


def filtered(found: FoundKeys, kept: npt.NDArray[np.bool_]) -> FoundKeys:
    """The kept ones of the keys that were found in a slice.

    Args:
        found: The keys and their positions.
        kept: True for keys to keep.
    """
    held, positions = found
    return found if kept.all() else (held.filter(pa.array(kept)), positions[kept])


@attrs.frozen
class _LookUpMerged:
    """Task: find the incoming keys of a group in a slice."""

    merged: KeysOfSlices
    keys: Shared

    def __call__(self, task: TaskIdentity, item: tuple[str, FileSlice]) -> tuple[FoundKeys, list[pa.ChunkedArray], int]:
        group, file_slice = item
        keys = self.keys.value.get(group, pa.nulls(0, pa.string()))
        stored_rows = self.merged.read(file_slice) if len(keys) else pa.table({RECORD_KEY: pa.nulls(0, pa.string())})
        found, places = keys_among(stored_rows[RECORD_KEY], keys)
        columns = stored_rows.take(indices_of(places)).columns[1:] if len(keys) else []
        return (found, np.full(len(found), -1, dtype=np.int64)), columns, len(keys)


@attrs.frozen
class MergedLocations:
    """Task: the keys of one slice with log files, with its location, without positions.

    Attributes:
        merged: Reads them.
        schema: See `hoodie.index.stored_keys.StoredKeys`.
        keys: A shared table of the keys that are wanted; None for all keys.
    """

    merged: MergedKeys
    schema: pa.Schema = LOCATION_SCHEMA
    keys: Shared | None = None

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> Iterator[pa.RecordBatch]:
        stored_rows = self.merged.read(file_slice)
        if self.keys is not None:
            stored_rows = stored_rows.filter(
                pc.is_in(stored_rows[RECORD_KEY], value_set=self.keys.value[RECORD_KEY].combine_chunks())
            )
        if stored_rows.num_rows:
            positions = np.full(stored_rows.num_rows, -1, dtype=np.int64)
            yield from located_keys(
                file_slice, stored_rows[RECORD_KEY], positions, self.schema, stored_rows.columns[1:]
            )
