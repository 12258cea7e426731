"""The index that looks incoming keys up in the key columns of all base files; a key is unique in the whole table.

Hudi: org.apache.hudi.index.simple.HoodieGlobalSimpleIndex.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.global_tagging import (
    CURRENT_PARTITION_PATH,
    DecideGroups,
    GlobalKeyLocations,
    PartitionMoves,
    one_batch,
)
from hoodie.index.index import BaseFileIndex, IndexedTable, KeysInTasks, tag_with_locations, with_location_columns
from hoodie.index.index_report import Decision
from hoodie.index.merged_keys import MergedKeys, MergedLocations, filtered, find_in_merged, without_deleted_copies
from hoodie.index.stored_keys import (
    SHARED_KEY_BYTES,
    FoundKeys,
    ReadStored,
    StoredColumns,
    StoredKeys,
    StoredValues,
    find_in_key_columns,
)

_DECIDED = "__hoodie_decided"


class HoodieGlobalSimpleIndex(BaseFileIndex):
    """Reads the key column of every latest base file of the table.

    A record whose key lives in another partition moves or stays by ``hoodie.simple.index.update.partition.path``; see
    `hoodie.index.global_tagging`. The cost grows with the table, not with the touched partitions.

    Hudi: org.apache.hudi.index.simple.HoodieGlobalSimpleIndex. Differs: copies of a key in several partitions become
    one record where records move; Hudi would insert the incoming row once for each copy.

    Args:
        config: The writer's configuration.
        update_partition_path: Replaces the property; for other indexes, which search fewer files in the same way.
    """

    searches_slices = True

    def __init__(self, config: HoodieWriteConfig, update_partition_path: bool | None = None) -> None:
        super().__init__(config)
        if update_partition_path is None:
            update_partition_path = config.index.simple_index_update_partition_path
        self._update_partition_path = update_partition_path

    @property
    def is_global(self) -> bool:
        return True

    def decides_by_keys(self, table: IndexedTable) -> bool:
        return not self.moves_of(table).needs_rows

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> GlobalKeyLocations:
        moves = self.moves_of(table)
        stored = StoredColumns(moves.stored_columns, table.records.schema)
        in_base, merged = table.split(merges_all=bool(stored.names))
        slices = in_base.slices
        schema = pa.schema([("key", pa.string()), ("file", pa.int32()), ("position", pa.int64()), *stored.fields])
        parts = [schema.empty_table()]
        if (slices or merged) and keys.num_rows:
            distinct = distinct_keys(keys)
            found, values = self._find(distinct, stored, context, in_base) if slices else ([], {})
            all_keys = {"": distinct[RECORD_KEY].combine_chunks()}
            reading = MergedKeys.of(table, stored) if merged else None
            more, columns_of_merged = find_in_merged(all_keys, [""] * len(merged), merged, context, table, reading)
            values |= {len(slices) + number: columns for number, columns in enumerate(columns_of_merged)}
            found = [*found, *more]
            parts_of = [*slices, *merged]
            kept = without_deleted_copies(found, [""] * len(parts_of), parts_of, context, table)
            found = [filtered(*pair) for pair in zip(found, kept, strict=True)]
            values = {n: [c.filter(pa.array(kept[n])) for c in columns] for n, columns in values.items()}
            if stored.names:
                values = values | _read_others(distinct, found, values, stored, context, [*slices, *merged], table)
            for number, (held, positions) in enumerate(found):
                if len(held):
                    file = pa.array(np.full(len(held), number, dtype=np.int32))
                    columns = values.get(number) or [pa.nulls(len(held), field.type) for field in stored.fields]
                    parts.append(pa.Table.from_arrays([held, file, pa.array(positions), *columns], schema=schema))
        return GlobalKeyLocations(pa.concat_tables(parts).combine_chunks(), [*slices, *merged], moves)

    def slices_to_search(
        self, keys: KeysInTasks, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[FileSlice, bool]]:
        in_base, merged = table.split()
        table.work.note_all(merged, Decision.KEY_CHECK)
        candidates = self._candidates([pair for ranges in keys.ranges.values() for pair in ranges], context, in_base)
        return [*((part, False) for part in candidates), *((part, True) for part in merged)]

    def _candidates(
        self, key_ranges: Sequence[tuple[str, str]], context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        """The slices whose base file can hold incoming keys of some ranges; every slice is noted."""
        table.work.note_all(table.slices, Decision.KEY_CHECK)
        return table.slices

    def _find(
        self, keys: pa.Table, stored: StoredColumns, context: HoodieEngineContext, table: IndexedTable
    ) -> tuple[list[FoundKeys], StoredValues]:
        """The keys that each slice holds, and the stored columns that were read in the same tasks.

        Args:
            keys: Distinct record keys, each with its incoming partition path; null if it comes with several.
            stored: The stored columns.
            context: The engine.
            table: The table's slices; judgements are noted there.
        """
        record_keys, homes = (keys[name].combine_chunks() for name in (RECORD_KEY, PARTITION_PATH))
        return find_in_key_columns({"": record_keys}, [""] * len(table.slices), context, table, stored, homes)

    def _slices_to_join(
        self, records: HoodieData, keys: pa.Array | None, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[FileSlice]:
        """The slices whose keys are joined with the records, if keys alone do not decide.

        Args:
            records: With record key and partition path.
            keys: Their distinct record keys; None if they are too many.
            context: The engine.
            table: The table's slices; judgements are noted there.
        """
        table.work.note_all(table.slices, Decision.KEY_CHECK)
        return table.slices

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """See `HoodieIndex`; partition paths and operations are the ones to be written."""
        columns = [RECORD_KEY, PARTITION_PATH]
        keys = records.select(columns).collect(max_bytes=SHARED_KEY_BYTES) if table.slices else None
        if not table.slices or (keys is not None and self.decides_by_keys(table)):
            known = keys if keys is not None else pa.schema([reserved_field(name) for name in columns]).empty_table()
            return tag_with_locations(records, table.notes.share(context, self.find_locations(known, context, table)))
        return self._join(records, context, table, None if keys is None else distinct_keys(keys))

    def _join(
        self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable, keys: pa.Table | None
    ) -> HoodieData:
        """Join the records with all stored keys, or with those among the given keys."""
        wanted_keys = None if keys is None else keys[RECORD_KEY].combine_chunks()
        moves = self.moves_of(table)
        in_base, merged = table.split(merges_all=bool(moves.stored_columns))
        slices = self._slices_to_join(records, wanted_keys, context, in_base) if in_base.slices else []
        shared = None if keys is None else table.notes.share(context, keys)
        columns = tuple(records.schema.names)
        stored = StoredColumns(moves.stored_columns, table.records.schema)
        schema = pa.schema([reserved_field(RECORD_KEY), pa.field(CURRENT_PARTITION_PATH, pa.string())])
        schema = pa.schema([*with_location_columns(schema), *stored.fields])
        located = context.generate(slices, StoredKeys(table.storage, schema, stored, shared), schema)
        if merged:
            table.work.note_all(merged, Decision.KEY_CHECK)
            reading = MergedLocations(MergedKeys.of(table, stored), schema, shared)
            located = located.union(context.generate(merged, reading, schema))
        joined = records.join(located, [RECORD_KEY], "left")
        # All locations of a key must be in one task, so the locations of keys with several are brought together.
        decide = DecideGroups(moves, columns)
        flagged = joined.map_batches(_flag, joined.schema.append(pa.field(_DECIDED, pa.bool_())))
        decided = flagged.combine_by_key([RECORD_KEY], _DecideRepeated(decide, flagged.schema))
        target = with_location_columns(records.schema)
        return decided.map_batches(_DecideOthers(decide, target), target)

    def moves_of(self, table: IndexedTable) -> PartitionMoves:
        """The rule for records whose key lives in another partition.

        Args:
            table: The table.
        """
        moves = self._update_partition_path and not table.request.stays
        return PartitionMoves.of(moves, table.records.merge_spec, table.records.schema)


def _flag(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.append_column(pa.field(_DECIDED, pa.bool_()), pa.repeat(False, batch.num_rows))


@attrs.frozen
class _DecideRepeated:
    """Decides about the rows of keys that occur more than once; the result has the same columns."""

    decide: DecideGroups
    schema: pa.Schema

    def __call__(self, rows: pa.Table) -> pa.Table:
        outcomes = [self._decided(batch) for batch in rows.combine_chunks().to_batches()]
        return pa.Table.from_batches(outcomes, self.schema)

    def _decided(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        written = self.decide(batch.drop_columns([_DECIDED]))
        count = written.num_rows
        made = dict(zip(written.schema.names, written.columns, strict=True)) | {_DECIDED: pa.repeat(True, count)}
        columns = [made[f.name].cast(f.type) if f.name in made else pa.nulls(count, f.type) for f in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


@attrs.frozen
class _DecideOthers:
    """Decides about each of the other rows alone."""

    decide: DecideGroups
    target: pa.Schema

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        decided = batch.column(_DECIDED)
        parts = [batch.filter(decided).select(self.target.names)]
        open_rows = batch.filter(pc.invert(decided)).drop_columns([_DECIDED])
        if open_rows.num_rows:
            parts.append(self.decide(open_rows).select(self.target.names))
        return one_batch(pa.Table.from_batches([part.cast(self.target) for part in parts], self.target), self.target)


def _read_others(
    keys: pa.Table,
    found: Sequence[FoundKeys],
    known: StoredValues,
    stored: StoredColumns,
    context: HoodieEngineContext,
    slices: Sequence[FileSlice],
    table: IndexedTable,
) -> StoredValues:
    """Read the stored columns of further slices that hold a moving key: copies in the partition that it moves to.

    All copies of a key are needed, because the newest of them decides.

    Args:
        keys: Distinct record keys, each with its incoming partition path; null if it comes with several.
        found: For each slice the keys that it holds.
        known: The stored columns that have been read.
        stored: The stored columns.
        context: The engine.
        slices: The slices.
        table: The table.
    """
    owners = np.repeat(np.arange(len(found)), [len(held) for held, _ in found])
    places = pc.index_in(
        pa.chunked_array([held for held, _ in found], pa.string()).combine_chunks(),
        value_set=keys[RECORD_KEY].combine_chunks(),
    )
    homes = keys[PARTITION_PATH].combine_chunks().take(places)
    paths = pa.array([file_slice.partition_path for file_slice in slices], pa.string()).take(pa.array(owners))
    stays = pc.fill_null(pc.equal(homes, paths), False).to_numpy(zero_copy_only=False)
    # Of the copies of a key in several partitions at most one is at home.
    is_moving = np.zeros(keys.num_rows, dtype=bool)
    is_moving[places.to_numpy()[~stays]] = True
    numbers = [n for n in np.unique(owners[is_moving[places.to_numpy()]]).tolist() if n not in known]
    items = [(slices[number], found[number][1]) for number in numbers]
    tables = context.run_tasks(items, ReadStored(table.storage, stored))
    return {number: values.columns for number, values in zip(numbers, tables, strict=True)}


def distinct_keys(keys: pa.Table) -> pa.Table:
    """Each record key once, with its partition path; null if the key comes with several.

    Args:
        keys: Record key and partition path.
    """
    table = keys.select([RECORD_KEY, PARTITION_PATH]).combine_chunks()
    codes = table[RECORD_KEY].combine_chunks().dictionary_encode().indices.to_numpy()
    _, first, counts = np.unique(codes, return_index=True, return_counts=True)
    if len(first) == table.num_rows:
        return table
    paths = table[PARTITION_PATH].combine_chunks().take(pa.array(first, mask=counts > 1))
    return pa.table({RECORD_KEY: table[RECORD_KEY].combine_chunks().take(pa.array(first)), PARTITION_PATH: paths})
