"""The index that looks incoming keys up in the key columns of all base files: a key is unique in the whole table.

Hudi: org.apache.hudi.index.simple.HoodieGlobalSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.global_tagging import (
    CURRENT_PARTITION_PATH,
    STORED_PREFIX,
    DecideGroups,
    GlobalKeyLocations,
    PartitionMoves,
)
from hoodie.index.index import HoodieIndex, IndexedTable, Locations, tag_with_locations
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.simple.simple_index import SHARED_KEY_BYTES, key_check
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.base_key_generator import field_column
from hoodie.storage.storage import HoodieStorage

__all__ = ["HoodieGlobalSimpleIndex", "StoredColumns", "files_with_copies"]

_DECIDED = "__hoodie_decided"
BATCH_ROWS = 1 << 16
_LOCATION_COLUMNS = (CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION)


class HoodieGlobalSimpleIndex(HoodieIndex):
    """Reads the key column of every latest base file of the table.

    A record whose key lives in another partition moves or stays by ``hoodie.simple.index.update.partition.path``; see
    `hoodie.index.global_tagging`. The cost grows with the table, not with what is touched.

    Hudi: org.apache.hudi.index.simple.HoodieGlobalSimpleIndex. Differs: copies of a key in several partitions become
    one record where records move; Hudi would insert the incoming row once for each copy.

    Args:
        config: The writer's configuration.
        update_partition_path: Instead of the property, for indexes that narrow down the files and look into them so.
    """

    def __init__(self, config: HoodieWriteConfig, update_partition_path: bool | None = None) -> None:
        super().__init__(config)
        if update_partition_path is None:
            update_partition_path = config.index.simple_index_update_partition_path
        self._update_partition_path = update_partition_path

    @property
    def is_global(self) -> bool:
        return True

    def decides_by_keys(self, table: IndexedTable) -> bool:
        return not self._moves(table).needs_rows

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        files = table.files
        moves = self._moves(table)
        stored = StoredColumns(moves.stored_columns, table.schema)
        found = self._find(_distinct(keys), context, table, stored) if files and keys.num_rows else []
        numbered = [
            part.add_column(1, "file", pa.array(np.full(part.num_rows, number, dtype=np.int32)))
            for number, part in enumerate(found)
            if part.num_rows
        ]
        schema = pa.schema([("key", pa.string()), ("file", pa.int32()), ("position", pa.int64()), *stored.fields])
        return GlobalKeyLocations(pa.concat_tables([schema.empty_table(), *numbered]).combine_chunks(), files, moves)

    def _find(
        self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable, stored: StoredColumns
    ) -> list[pa.Table]:
        """For each file what it holds: ``key``, ``position`` and the stored columns, null for keys that do not move.

        Args:
            keys: Distinct record keys, and the partition path that they come with; null where they come with several.
            context: The engine.
            table: The table's files.
            stored: The stored columns.
        """
        files = table.files
        shared = context.share(keys)
        try:
            lookup = _GlobalLookup(table.storage, shared, stored)
            looked_up = context.run_tasks(files, lookup)
            found = [part for part, _ in looked_up]
            # What lies in its own partition has no stored columns yet: to tell the newest copy they are needed.
            again = files_with_copies(found, files) if stored.names else []
            if again:
                with_values = context.run_tasks(
                    [files[number] for number in again], attrs.evolve(lookup, reads_all=True)
                )
                for number, (part, _) in zip(again, with_values, strict=True):
                    found[number] = part
        finally:
            shared.release()
        for _, look in looked_up:
            table.work.note(look)
        return found

    def _files_to_join(
        self, records: HoodieData, keys: pa.Table | None, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[str, HoodieBaseFile]]:
        """The files whose keys are joined with the records, where keys alone do not decide.

        Args:
            records: With record key and partition path.
            keys: Their distinct record keys, None where they are too many.
            context: The engine.
            table: The table's files; judgements are noted there.
        """
        table.work.note_all(table.files, Decision.KEY_CHECK)
        return table.files

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """As of `HoodieIndex`; partition paths and operations are as they are to be written."""
        columns = [RECORD_KEY, PARTITION_PATH]
        keys = records.select(columns).collect(max_bytes=SHARED_KEY_BYTES) if table.files else None
        if not table.files or (keys is not None and self.decides_by_keys(table)):
            known = keys if keys is not None else pa.schema([reserved_field(name) for name in columns]).empty_table()
            return tag_with_locations(records, table.share(context, self.find_locations(known, context, table)))
        return self._join(records, context, table, None if keys is None else _distinct(keys))

    def _join(
        self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable, keys: pa.Table | None
    ) -> HoodieData:
        """Join with the stored keys: all of them, or those that are among the given ones."""
        files = self._files_to_join(records, keys, context, table)
        shared = None if keys is None else table.share(context, keys)
        moves = self._moves(table)
        columns = tuple(records.schema.names)
        locations = _StoredLocations(table.storage, StoredColumns(moves.stored_columns, table.schema), shared)
        joined = records.join(context.generate(files, locations, locations.schema), [RECORD_KEY], "left")
        # All locations of a key must meet: those of keys that have several are brought together, and decided there.
        decide = DecideGroups(moves, columns)
        flagged = joined.map_batches(_flag, joined.schema.append(pa.field(_DECIDED, pa.bool_())))
        decided = flagged.combine_by_key([RECORD_KEY], _DecideRepeated(decide, flagged.schema))
        target = pa.schema([*records.schema, *(reserved_field(name) for name in _LOCATION_COLUMNS)])
        return decided.map_batches(_DecideOthers(decide, target), target)

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Nothing: the base files are the index."""

    def rollback_commit(self, instant_time: str) -> None:
        """Nothing: the base files are the index."""

    def _moves(self, table: IndexedTable) -> PartitionMoves:
        moves = self._update_partition_path and not table.stays
        return PartitionMoves.of(moves, table.merge_spec, table.schema)


@attrs.frozen
class StoredColumns:
    """Columns of stored records that a merge wants; a dotted name leads into structs."""

    names: tuple[str, ...]
    schema: pa.Schema

    @property
    def fields(self) -> list[pa.Field]:
        """Their fields, with the prefix."""
        empty = pa.RecordBatch.from_pylist([], schema=self._read_schema)
        return [pa.field(STORED_PREFIX + name, field_column(empty, name).type) for name in self.names]

    @property
    def _read_schema(self) -> pa.Schema:
        tops = dict.fromkeys(n if n in self.schema.names else n.partition(".")[0] for n in self.names)
        return pa.schema([self.schema.field(name).with_nullable(True) for name in tops])

    def read(self, reader: HoodieParquetReader) -> pa.Table:
        """The values of all rows of a file."""
        schema = pa.schema(self.fields)
        batches = [
            pa.RecordBatch.from_arrays([field_column(batch, name) for name in self.names], schema=schema)
            for batch in reader.iter_batches(None, self._read_schema)
        ]
        return pa.Table.from_batches(batches, schema)


@attrs.frozen
class _GlobalLookup:
    """Task: which incoming keys a base file holds; ``key``, ``position`` and the stored columns of keys that move.

    Attributes:
        reads_all: Whether the stored columns are wanted of all keys.
    """

    storage: HoodieStorage
    keys: Shared
    stored: StoredColumns
    reads_all: bool = False

    def __call__(self, task: TaskIdentity, item: tuple[str, HoodieBaseFile]) -> tuple[pa.Table, FileGroupLook]:
        partition_path, base_file = item
        incoming: pa.Table = self.keys.value
        keys = incoming[RECORD_KEY].combine_chunks()
        matches = HoodieKeyLookupHandle(self.storage, base_file.path).lookup(keys)
        look = key_check(partition_path, base_file, len(keys), matches)
        indices = pa.array(matches.key_indices)
        found = pa.table({"key": keys.take(indices), "position": matches.row_positions})
        if not self.stored.names:
            return found, look
        homes = incoming[PARTITION_PATH].combine_chunks().take(indices).to_pylist()
        if self.reads_all or any(home != partition_path for home in homes):
            with HoodieParquetReader(self.storage, base_file.path) as reader:
                values = self.stored.read(reader).take(pa.array(matches.row_positions))
        else:
            values = pa.table([pa.nulls(len(homes), f.type) for f in self.stored.fields], pa.schema(self.stored.fields))
        for name in values.column_names:
            found = found.append_column(name, values[name])
        return found, look


@attrs.frozen
class _StoredLocations:
    """Task: keys of one base file with their locations and stored columns: all, or those among shared ones."""

    storage: HoodieStorage
    stored: StoredColumns
    keys: Shared | None

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""
        locations = [reserved_field(name) for name in _LOCATION_COLUMNS]
        path = pa.field(CURRENT_PARTITION_PATH, pa.string())
        return pa.schema([reserved_field(RECORD_KEY), path, *locations, *self.stored.fields])

    def __call__(self, task: TaskIdentity, item: tuple[str, HoodieBaseFile]) -> Iterator[pa.RecordBatch]:
        partition_path, base_file = item
        with HoodieParquetReader(self.storage, base_file.path) as reader:
            keys = reader.read_record_keys()
            positions = np.arange(len(keys), dtype=np.int64)
            if self.keys is not None:
                wanted = pc.is_in(keys, value_set=self.keys.value[RECORD_KEY].combine_chunks())
                positions = np.flatnonzero(wanted.to_numpy())
            values = self.stored.read(reader) if self.stored.names and len(positions) else None
        taken = pa.array(positions)
        count = len(positions)
        columns = [
            keys.take(taken),
            pa.repeat(partition_path, count),
            pa.repeat(base_file.instant_time, count),
            pa.repeat(base_file.file_id, count),
            taken,
            *([pa.nulls(0, f.type) for f in self.stored.fields] if values is None else values.take(taken).columns),
        ]
        yield from pa.Table.from_arrays(columns, schema=self.schema).to_batches(max_chunksize=BATCH_ROWS)


def _flag(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(pa.field(_DECIDED, pa.bool_()), pa.repeat(False, batch.num_rows))


@attrs.frozen
class _DecideRepeated:
    """Decides for the rows of keys that occur more than once; the outcome has the same columns."""

    decide: DecideGroups
    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> pa.Table:
        outcomes = [self._decided(batch) for batch in rows.combine_chunks().to_batches()]
        return pa.Table.from_batches(outcomes, self.schema)

    def _decided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        written = self.decide(batch.drop_columns([_DECIDED]))
        columns = []
        for field in self.schema:
            if field.name == _DECIDED:
                columns.append(pa.repeat(True, written.num_rows))
            elif field.name in written.schema.names:
                columns.append(written.column(field.name).cast(field.type))
            else:
                columns.append(pa.nulls(written.num_rows, field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@attrs.frozen
class _DecideOthers:
    """Decides for the rows that have not been decided yet, each alone."""

    decide: DecideGroups
    target: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        decided = batch.column(_DECIDED)
        parts = [batch.filter(decided).select(self.target.names)]
        open_rows = batch.filter(pc.invert(decided)).drop_columns([_DECIDED])
        if open_rows.num_rows:
            parts.append(self.decide(open_rows).select(self.target.names))
        whole = pa.Table.from_batches([part.cast(self.target) for part in parts], self.target).combine_chunks()
        batches = whole.to_batches()
        return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=self.target)


def files_with_copies(found: Sequence[pa.Table], files: Sequence[tuple[str, HoodieBaseFile]]) -> list[int]:
    """Numbers of the files with keys that were found in several partitions.

    Args:
        found: For each file the keys that it holds, as ``key``.
        files: (partition path, base file).
    """
    held = [part["key"] for part in found if part.num_rows]
    keys = pa.chunked_array([chunk for column in held for chunk in column.chunks], pa.string()).combine_chunks()
    if pc.count_distinct(keys).as_py() == len(keys):
        return []
    owners = np.repeat(np.arange(len(found)), [part.num_rows for part in found])
    paths = np.unique([path for path, _ in files], return_inverse=True)[1][owners]
    codes = keys.dictionary_encode().indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    first, last = np.minimum.reduceat(paths[order], starts), np.maximum.reduceat(paths[order], starts)
    return sorted(set(owners[(first != last)[codes]].tolist()))


def _distinct(keys: pa.Table) -> pa.Table:
    """Each record key once, with its partition path; null where it comes with several."""
    table = keys.select([RECORD_KEY, PARTITION_PATH]).combine_chunks()
    codes = table[RECORD_KEY].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    if len(first) == table.num_rows:
        return table
    paths = table[PARTITION_PATH].combine_chunks().take(pa.array(first, mask=counts > 1))
    return pa.table({RECORD_KEY: table[RECORD_KEY].combine_chunks().take(pa.array(first)), PARTITION_PATH: paths})
