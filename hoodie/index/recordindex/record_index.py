"""The indexes RECORD_INDEX and RECORD_LEVEL_INDEX: the metadata table says in which file group each key is.

Hudi: org.apache.hudi.index.{SparkMetadataTableRecordIndex, SparkMetadataTablePartitionedRecordIndex}.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import CURRENT_FILE_ID, PARTITION_PATH, RECORD_KEY
from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.index.global_tagging import CURRENT_PARTITION_PATH, DecideGroups, GlobalKeyLocations, PartitionMoves
from hoodie.index.index import (
    BaseFileIndex,
    IndexedTable,
    KeyLocations,
    KeysInTasks,
    Locations,
    tag_with_locations,
    with_location_columns,
)
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.recordindex.record_index_lookup import (
    RECORD_INDEX_PATH,
    FoundEntries,
    IndexedPlaces,
    NamedEntries,
    RecordIndexLookup,
)
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex, distinct_keys
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.index.stored_keys import SHARED_KEY_BYTES, StoredColumns, keys_by_partition
from hoodie.metadata.reader.metadata_listing import is_record_index_used

logger = logging.getLogger(__name__)

_KEY_COLUMNS = (RECORD_KEY, PARTITION_PATH)
_FIRST_VERSION_BY_PARTITION = 9
_KEYS_FOR_A_SAMPLE = 10_000
"""Fewer keys are looked up at once."""
_GROUPS_FOR_A_SAMPLE = 4
"""In an index of fewer file groups, a sample costs as much as the look-up."""
_NEARLY_ALL = 0.9
_BYTES_OF_A_KEY = 192 << 10
"""The bytes of base files whose keys are read in the time that one key takes in the index: a block of 64 KiB of the
index is decompressed for it, and keys are about a third of a base file."""
_KEYS_FOR_BASE_FILES = 500
"""Fewer keys are looked up in the index, however small the table is."""
_KEYS_OF_A_PARTITION = 10
"""With fewer keys for each partition, listing all partitions takes longer than the look-up."""


def _are_small(slices: Sequence[FileSlice], num_keys: int) -> bool:
    """Whether the keys of base files are read in less time than a number of keys takes in the index."""
    return sum(part.size_bytes for part in slices) <= num_keys * _BYTES_OF_A_KEY


class _RecordIndex(BaseFileIndex):
    """The common base of both record indexes.

    They read the record index of the metadata table, which every write keeps up to date.

    The index names the file group of a key. The task that writes the file group finds the row of the key there; if the
    file group does not have the key, its row is added to it. So a wrong entry loses no row.

    While the table has no record index that is ready, an index over base files takes its place, as in Hudi.
    """

    @property
    def puts_inserts_into_logs(self) -> bool:
        return self._config.index.record_index_insert_into_logs

    @property
    def knows_positions(self) -> bool:
        return False

    def _open(self, table: IndexedTable) -> RecordIndexLookup | None:
        """The record index; None if there is none that is ready."""
        if table.listing.snapshot is None:
            raise HoodieIndexException("a record index is looked up in a table, and no snapshot of it was given")
        if not table.listing.snapshot.table_config.populate_meta_fields:
            raise HoodieNotSupportedException(
                f"{table.base_path} stores no record keys (hoodie.populate.meta.fields=false), and so has no record "
                "index: set another hoodie.index.type"
            )
        paths = [path for path, slices in table.file_slices.items() if slices]
        found = RecordIndexLookup.open(table.listing.snapshot, paths, is_by_partition=not self.is_global)
        if found is None and table.slices:
            planned = planned_partitions(table.listing.snapshot.active_timeline).get(RECORD_INDEX_PATH)
            logger.warning(
                "%s has no record index that can be used (hoodie.table.metadata.partitions does not list %s, or the "
                "metadata table is to be built anew): keys are looked up in its base files, as %s does. %s",
                table.base_path, RECORD_INDEX_PATH, self._stand_in_name,
                f"client.index('{planned}') builds one" if planned is not None
                else f"A write with hoodie.metadata.enable=true and {self._enabling_key}=true makes one",
            )  # fmt: skip
        return found

    @property
    def _stand_in_name(self) -> str:
        return "GLOBAL_SIMPLE" if self.is_global else "SIMPLE"

    @property
    def _enabling_key(self) -> str:
        level = "global.record.level" if self.is_global else "record.level"
        return f"hoodie.metadata.{level}.index.enable"

    @staticmethod
    def _note(found: FoundEntries, slices: Sequence[FileSlice], table: IndexedTable) -> None:
        counts = np.bincount(found.files, minlength=len(slices)).tolist()
        for file_slice, count in zip(slices, counts, strict=True):
            path, file_id = file_slice.partition_path, file_slice.file_id
            table.work.note(FileGroupLook(path, file_id, Decision.RECORD_INDEX, keys=count, found=count))

    @staticmethod
    def _named(found: FoundEntries, slices: Sequence[FileSlice], table: IndexedTable) -> IndexedTable:
        """The table with the file groups that the index names; the others are noted as judged."""
        named = set(np.unique(found.files).tolist())
        table.work.note_all((s for n, s in enumerate(slices) if n not in named), Decision.RECORD_INDEX)
        return table.narrowed_to(file_slice for number, file_slice in enumerate(slices) if number in named)


class HoodieRecordIndex(_RecordIndex):
    """A record key is unique in the whole table, and has one entry in the index.

    A record whose key lives in another partition moves or stays by ``hoodie.record.index.update.partition.path``; see
    `hoodie.index.global_tagging`. If it may move, its stored row is read where the table's rules compare rows.

    If there are so many keys that nearly all base files hold some, they are looked up in these files, as without an
    index: that reads less.

    Hudi: org.apache.hudi.index.SparkMetadataTableRecordIndex. Differs: where GLOBAL_SIMPLE takes its place, records
    move by the same property.
    """

    searches_slices = True

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._base_files = HoodieGlobalSimpleIndex(config, config.index.record_index_update_partition_path)

    @property
    def is_global(self) -> bool:
        return True

    def names_partitions(self, snapshot: TableSnapshot) -> bool:
        return is_record_index_used(snapshot)

    def decides_by_keys(self, table: IndexedTable) -> bool:
        return self._base_files.decides_by_keys(table)

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        index = self._open(table)
        if index is None:
            return self._base_files.find_locations(keys, context, table)
        to_search = self._table_to_search(index, keys[RECORD_KEY].combine_chunks(), table)
        if to_search is not None:
            return self._base_files.find_locations(keys, context, to_search)
        distinct = distinct_keys(keys)
        named = index.find(distinct[RECORD_KEY].combine_chunks(), context)
        table = table.with_partitions(named.partition_paths)
        slices = table.slices
        found = IndexedPlaces(table.base_path, slices).found(named)
        if table.request.exact:
            return self._base_files.find_locations(keys, context, self._named(found, slices, table))
        self._note(found, slices, table)
        moves = self._base_files.moves_of(table)
        stored = StoredColumns(moves.stored_columns, table.records.schema)
        moving = self._moving(found, distinct, slices) if stored.names else np.zeros(len(found.keys), dtype=bool)
        schema = pa.schema([("key", pa.string()), ("file", pa.int32()), ("position", pa.int64()), *stored.fields])
        staying_keys = found.keys.filter(pa.array(~moving))
        empty = [pa.nulls(len(staying_keys), field.type) for field in stored.fields]
        positions = pa.array(np.full(len(staying_keys), -1, np.int64))
        parts = [pa.Table.from_arrays([staying_keys, pa.array(found.files[~moving]), positions, *empty], schema=schema)]
        if moving.any():
            those = FoundEntries(found.keys.filter(pa.array(moving)), found.files[moving])
            homes = distinct.filter(pc.is_in(distinct[RECORD_KEY], value_set=those.keys))
            numbers = sorted(set(those.files.tolist()))
            read = self._base_files.find_locations(homes, context, table.narrowed_to(slices[n] for n in numbers))
            slices = [*slices, *read.files]
            files = pa.array(read.table["file"].to_numpy() + np.int32(len(slices) - len(read.files)), pa.int32())
            # A position would mean that the file was searched for all keys.
            unknown = pa.array(np.full(read.table.num_rows, -1, np.int64))
            placed = read.table.set_column(1, schema.field(1), files).set_column(2, schema.field(2), unknown)
            parts.append(placed.cast(schema))
        return GlobalKeyLocations(pa.concat_tables(parts).combine_chunks(), slices, moves)

    def slices_to_search(
        self, keys: KeysInTasks, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[FileSlice, bool]] | None:
        """See `HoodieIndex`: none if base files are not small beside the keys, and the index names few of them."""
        index = self._open(table)
        to_search: IndexedTable | None = table
        if index is not None and len(keys.sample):
            to_search = self._small_table(keys.num_rows, table) or self._table_by_sample(index, keys.sample, table)
        return None if to_search is None else self._base_files.slices_to_search(keys, context, to_search)

    @staticmethod
    def _table_to_search(index: RecordIndexLookup, keys: pa.Array, table: IndexedTable) -> IndexedTable | None:
        """The table with all of its partitions, if its base files are small beside the number of keys, or if nearly
        all of them hold some of many keys; otherwise None.

        Then the index saves nothing: the tasks that write these files read their keys anyway, and the key columns take
        less time than the index.

        Args:
            index: The index, which is asked for a sample of the keys.
            keys: Record keys (string); they may repeat.
            table: The table.
        """
        if len(keys) >= _KEYS_FOR_A_SAMPLE and len(index.slices) >= _GROUPS_FOR_A_SAMPLE:
            return HoodieRecordIndex._table_by_sample(index, keys, table)
        return HoodieRecordIndex._small_table(len(keys), table)

    @staticmethod
    def _small_table(num_keys: int, table: IndexedTable) -> IndexedTable | None:
        """See `_table_to_search`: the table if its base files are small beside a number of keys."""
        if num_keys < _KEYS_FOR_BASE_FILES or table.request.exact or table.listing.snapshot is None:
            return None
        partitions = set(table.listing.snapshot.view().list_partitions())
        if len(partitions) * _KEYS_OF_A_PARTITION > num_keys:
            return None
        whole = HoodieRecordIndex._whole_table(partitions, table)
        return whole if whole is not None and _are_small(whole.slices, num_keys) else None

    @staticmethod
    def _table_by_sample(index: RecordIndexLookup, keys: pa.Array, table: IndexedTable) -> IndexedTable | None:
        """See `_table_to_search`; the keys may be a sample, with at least one."""
        if table.request.exact or table.listing.snapshot is None:
            # Only files that the index names are searched then.
            return None
        named = index.sample(keys)
        partitions = set(table.listing.snapshot.view().list_partitions())
        if not partitions or partitions - named.partition_paths:
            return None
        whole = HoodieRecordIndex._whole_table(partitions, table)
        if whole is None:
            return None
        groups = set(named.groups)
        held = sum(part.size_bytes for part in whole.slices if (part.partition_path, part.file_id) in groups)
        return whole if held >= _NEARLY_ALL * sum(part.size_bytes for part in whole.slices) else None

    @staticmethod
    def _whole_table(partitions: set[str], table: IndexedTable) -> IndexedTable | None:
        """The table with all of its partitions; None if some are not listed, or if there are log files, whose changes
        would have to be merged.
        """
        table = table.with_partitions(partitions)
        if partitions - table.file_slices.keys() or not all(part.is_base_file_alone for part in table.slices):
            return None
        return table

    @staticmethod
    def _moving(found: FoundEntries, keys: pa.Table, slices: Sequence[FileSlice]) -> np.ndarray:
        """True for keys that are stored in another partition than they come with.

        Args:
            found: The keys that the index has.
            keys: Distinct record keys, each with its incoming partition path; null if it comes with several.
            slices: The slices that the entries name.
        """
        places = pc.index_in(found.keys, value_set=keys[RECORD_KEY].combine_chunks())
        homes = keys[PARTITION_PATH].combine_chunks().take(places)
        paths = pa.array([part.partition_path for part in slices], pa.string()).take(pa.array(found.files))
        stays: np.ndarray = pc.fill_null(pc.equal(homes, paths), False).to_numpy(zero_copy_only=False)
        return ~stays

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """See `HoodieIndex`; partition paths and operations are the ones to be written."""
        index = self._open(table)
        if index is None:
            return self._base_files.tag_location(records, context, table)
        columns = records.select(_KEY_COLUMNS)
        keys = columns.collect(max_bytes=SHARED_KEY_BYTES)
        if keys is not None and self.decides_by_keys(table):
            return tag_with_locations(records, table.notes.share(context, self.find_locations(keys, context, table)))
        table = self._with_partitions_of(index, keys, context, table)
        slices = table.slices
        places = table.notes.share(context, IndexedPlaces(table.base_path, slices))
        located = index.locate(columns, context, places, CURRENT_PARTITION_PATH)
        moves = self._base_files.moves_of(table)
        named = self._groups_to_read(columns.join(located, [RECORD_KEY], "left"), table, moves)
        if named is not None:
            table.work.note_all(slices, Decision.RECORD_INDEX)
            kept = [part for part in slices if (part.partition_path, part.file_id) in named]
            return self._base_files.tag_location(records, context, table.narrowed_to(kept))
        table.work.note_all(slices, Decision.RECORD_INDEX)
        joined = records.join(located, [RECORD_KEY], "left")
        decide = DecideGroups(attrs.evolve(moves, stored_columns=()), tuple(records.schema.names))
        return joined.map_batches(decide, with_location_columns(records.schema))

    @staticmethod
    def _with_partitions_of(
        index: RecordIndexLookup, keys: pa.Table | None, context: HoodieEngineContext, table: IndexedTable
    ) -> IndexedTable:
        """The table with the partitions of some keys; with all of them if there are more keys than fit in memory."""
        if table.listing.list_more is None or table.listing.snapshot is None:
            return table
        if keys is None:
            return table.with_partitions(table.listing.snapshot.view().list_partitions())
        return table.with_partitions(index.find(keys[RECORD_KEY].combine_chunks().unique(), context).partition_paths)

    @staticmethod
    def _groups_to_read(joined: HoodieData, table: IndexedTable, moves: PartitionMoves) -> set[tuple[str, str]] | None:
        """Partition path and file id of the file groups that the index names, if their rows are needed; else None.

        Args:
            joined: The incoming keys with their locations.
            table: The table.
            moves: Its rules.
        """
        if not (table.request.exact or moves.stored_columns):
            return None
        counts = joined.count_by([PARTITION_PATH, CURRENT_PARTITION_PATH, CURRENT_FILE_ID])
        counts = counts.filter(counts[CURRENT_FILE_ID].is_valid())
        is_moving = pc.not_equal(counts[PARTITION_PATH], counts[CURRENT_PARTITION_PATH])
        if not table.request.exact and not pc.any(is_moving, min_count=0).as_py():
            return None
        return {*zip(counts[CURRENT_PARTITION_PATH].to_pylist(), counts[CURRENT_FILE_ID].to_pylist(), strict=True)}


class HoodieRecordLevelIndex(_RecordIndex):
    """A record key is unique in its partition; the index has file groups for each partition. Table version 9.

    Keys that are too many for the driver are looked up in base files if these are small beside the keys.

    Hudi: org.apache.hudi.index.SparkMetadataTablePartitionedRecordIndex.
    """

    searches_slices = True

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._base_files = HoodieSimpleIndex(config)

    @property
    def is_global(self) -> bool:
        return False

    def slices_to_search(
        self, keys: KeysInTasks, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[FileSlice, bool]] | None:
        """See `HoodieIndex`: none if the index reads less than base files, or if there are log files."""
        if self._open(table) is not None:
            is_merged = not all(part.is_base_file_alone for part in table.slices)
            if is_merged or not _are_small(table.slices, keys.num_rows):
                return None
        return self._base_files.slices_to_search(keys, context, table)

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        index = self._open(table)
        if index is None:
            return self._base_files.find_locations(keys, context, table)
        slices = table.slices
        places = IndexedPlaces(table.base_path, slices)
        named = {
            path: index.find(of_path, context, path)
            for path, of_path in keys_by_partition(keys).items()
            if path in index.groups.parts
        }
        every = places.found(NamedEntries.joined(list(named.values())))
        if table.request.exact:
            return self._base_files.find_locations(keys, context, self._named(every, slices, table))
        self._note(every, slices, table)
        tables = {
            path: pa.table(
                {"key": part.keys, "file": places.found(part).files, "position": np.full(len(part.keys), -1, np.int64)}
            )
            for path, part in named.items()
        }
        return KeyLocations(tables, [file_slice.location for file_slice in slices])

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        index = self._open(table)
        if index is None:
            return self._base_files.tag_location(records, context, table)
        columns = records.select(_KEY_COLUMNS)
        keys = columns.collect(max_bytes=SHARED_KEY_BYTES)
        if keys is not None:
            return tag_with_locations(records, table.notes.share(context, self.find_locations(keys, context, table)))
        places = table.notes.share(context, IndexedPlaces(table.base_path, table.slices))
        located = index.locate(columns, context, places, PARTITION_PATH)
        table.work.note_all(table.slices, Decision.RECORD_INDEX)
        if table.request.exact:
            counts = located.count_by([PARTITION_PATH, CURRENT_FILE_ID])
            named = {*zip(counts[PARTITION_PATH].to_pylist(), counts[CURRENT_FILE_ID].to_pylist(), strict=True)}
            kept = [part for part in table.slices if (part.partition_path, part.file_id) in named]
            return self._base_files.tag_location(records, context, table.narrowed_to(kept))
        return records.join(located, _KEY_COLUMNS, "left")

    def _open(self, table: IndexedTable) -> RecordIndexLookup | None:
        snapshot = table.listing.snapshot
        if snapshot is not None and snapshot.table_config.table_version < _FIRST_VERSION_BY_PARTITION:
            raise HoodieNotSupportedException(
                f"hoodie.index.type=RECORD_LEVEL_INDEX is for tables of version {_FIRST_VERSION_BY_PARTITION}, and "
                f"{table.base_path} has version {snapshot.table_config.table_version}: use RECORD_INDEX, or "
                "upgrade the table"
            )
        return super()._open(table)
