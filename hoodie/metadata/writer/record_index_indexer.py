"""Records of the partition ``record_index``: the file group of every record key.

They are made from files, see `hoodie.metadata.writer.slice_keys`. The gained and lost keys of file groups are brought
together by key, in the file group of the index that the hash of the key names:

    file group F1 lost k1, F2 gained k1     k1 -> F2 (it moved)
    F1 lost k2, and k2 -> F1 in the index   delete of k2
    F1 lost k3, and k3 -> F3 in the index   nothing: there is another record of that key

Rows that are only updated keep their entries, with the instant of the first entry. A key that is gained must not be in
another file group: see `hoodie.metadata.writer.ambiguous_keys`.

Hudi: org.apache.hudi.metadata.index.record.RecordIndexer, HoodieTableMetadataUtil (readRecordKeysFromFileSlices,
convertMetadataToRecordIndexRecords).
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.arrow_buffers import numbers_of
from hoodie.common.util.text_order import sorted_places
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.reader.metadata_record_reader import MetadataSliceReader, SliceQuery
from hoodie.metadata.records.index_records import deleted_record_index_entries, record_index_entries
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, record_index_group_count
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.record_index_groups import RecordIndexGroups
from hoodie.metadata.records.record_index_location import instant_millis
from hoodie.metadata.records.record_merging import run_starts
from hoodie.metadata.writer.ambiguous_keys import (
    KEY_PLACES,
    MOST_KEYS,
    OnePlaceRule,
    SuspectKeys,
)
from hoodie.metadata.writer.file_group_writer import MetadataFileGroupWriter
from hoodie.metadata.writer.key_sizes import check_key_sizes
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    PartitionRecords,
)
from hoodie.metadata.writer.slice_keys import FileGroupChange, SliceKeys, changes_of
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, TableDifference
from hoodie.storage.storage import FileStatus, HoodieStorage

_PAYLOAD = MetadataPayload.RECORD_INDEX
_FEW_ROWS = 10_000
"""Up to this number of rows is indexed on the driver: a job of the engine takes longer."""
_FEW_FILE_GROUPS = 16
_DRIVER_TOKEN = "1-0-0"
"""Another token than 0-0-0, which the first log file of a new file group has."""
_KIND = MetadataPartitionType.RECORD_INDEX
_KEY, _PLACE, _IS_LOST, _GROUP = "key", "place", "is_lost", "group"
_COUNT = f"{_PLACE}_count"
_KEY_CHANGES = pa.schema([(_KEY, pa.string()), (_PLACE, pa.int32()), (_IS_LOST, pa.bool_()), (_GROUP, pa.int32())])
"""A key that a file group gained or lost: the number of the file group, and the file group of the index."""
_WRITTEN = pa.schema([("group", pa.binary())])


class RecordIndexIndexer(CatchingUpIndexer):
    """Computes the records of ``record_index``, of the whole table or partitioned.

    Hudi: org.apache.hudi.metadata.index.record.RecordIndexer.
    """

    def definition(self, context: IndexingContext) -> HoodieIndexDefinition | None:
        """See `MetadataPartitionIndexer.definition`."""
        if not context.table.active_timeline.layout.has_completion_times:
            return None
        return HoodieIndexDefinition(
            self.partition_path, self.partition_path, is_partitioned=self.is_by_partition(context)
        )

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        table, config = context.table, context.config
        is_by_partition = self.is_by_partition(context)
        view = table.view()
        paths = [path for path, listed in files.items() if listed]
        view.load_partitions(paths)
        slices = [part for path in paths for part in view.latest_file_slices(path)]
        counts = context.engine.run_tasks(slices, _CountRows(table.storage)) if slices else []
        changes = tuple(
            FileGroupChange(part.partition_path, part.file_id, None, part, row_count=count)
            for part, count in zip(slices, counts, strict=True)
        )
        if is_by_partition:
            groups, new_file_ids = _new_parts(changes, config, {}, 0)
            group_count = 0
        else:
            limits = config.record_index_min_file_groups, config.record_index_max_file_groups
            group_count, new_file_ids = record_index_group_count(sum(counts), *limits), ()
            groups = RecordIndexGroups({None: (0, group_count)})
        if not changes:
            return InitialRecords(group_count, EntriesOnDriver(_nothing()))
        places = _Places.of(table, changes, [part.base_instant_time for part in slices])
        reading = _ReadKeyChanges(SliceKeys.of(table, changes, merger=context.merger), groups)
        rule = OnePlaceRule(table, is_by_partition, merger=context.merger)
        return InitialRecords(
            group_count, RecordIndexChanges(changes, places, reading, None, sum(counts), rule, new_file_ids)
        )

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        changes = tuple(changes_of(context.table, change))
        return self._of_changes(context, changes, [change.instant_time] * len(changes), change)

    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """See `CatchingUpIndexer.of_difference`."""
        slices_after = [slice_after for _, slice_after in difference.slices.values() if slice_after is not None]
        storage = context.table.storage
        found = context.engine.run_tasks(slices_after, _CountRows(storage)) if slices_after else []
        counts = {(part.partition_path, part.file_id): count for part, count in zip(slices_after, found, strict=True)}
        changes = tuple(
            FileGroupChange(*group, slice_before, slice_after, row_count=counts.get(group, 0))
            for group, (slice_before, slice_after) in difference.slices.items()
        )
        parts = [slice_after or slice_before for slice_before, slice_after in difference.slices.values()]
        times = [part.base_instant_time for part in parts if part is not None]
        return self._of_changes(context, changes, times, None)

    def _of_changes(
        self,
        context: IndexingContext,
        changes: tuple[FileGroupChange, ...],
        instant_times: Sequence[str],
        change: CommittedChange | None,
    ) -> PartitionRecords:
        """The records of changes to file groups.

        Args:
            context: The table.
            changes: The changes.
            instant_times: The instant of the entries of each change.
            change: The action, if it is inflight.
        """
        if not changes:
            return EntriesOnDriver(_nothing())
        assert context.metadata is not None
        files, new_file_ids = context.metadata.files, tuple[str, ...]()
        by_part = files.file_groups(self.partition_path)
        slices = tuple(file_slice for group in by_part.values() for file_slice in group)
        is_by_partition = self.is_by_partition(context)
        if is_by_partition:
            known, first = {}, 0
            for part, group in by_part.items():
                known[part] = first, len(group)
                first += len(group)
            groups, new_file_ids = _new_parts(changes, context.config, known, first)
        else:
            groups = RecordIndexGroups({None: (0, len(slices))})
        places = _Places.of(context.table, changes, instant_times)
        reading = _ReadKeyChanges(SliceKeys.of(context.table, changes, change, merger=context.merger), groups)
        rule = OnePlaceRule(context.table, is_by_partition, change, context.merger)
        index = _StoredEntries(MetadataSliceReader.of(files, _PAYLOAD), slices, rule.needs_entries)
        is_few = all(one.after is not None for one in changes) and len(changes) <= _FEW_FILE_GROUPS
        count = sum(one.row_count for one in changes) if is_few else _FEW_ROWS + 1
        return RecordIndexChanges(changes, places, reading, index, count, rule, new_file_ids)

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """No records: a clean deletes no row."""
        return EntriesOnDriver(_nothing())

    def is_by_partition(self, context: IndexingContext) -> bool:
        """Whether each partition of the table has file groups of its own, or will have once the index is built.

        Args:
            context: The table.

        Raises:
            HoodieException: The metadata table cannot be read.
        """
        table, config = context.table, context.config
        definition = context.definitions.get(self.partition_path)
        if self.partition_path in table.table_config.metadata_partitions and context.metadata is not None:
            return context.metadata.is_record_index_by_partition
        if config.record_index_enable:
            return False
        if config.partitioned_record_index_enable is None:
            return definition is not None and definition.is_partitioned
        return config.partitioned_record_index_enable


def _new_parts(
    changes: Sequence[FileGroupChange],
    config: HoodieMetadataConfig,
    known: Mapping[str | None, tuple[int, int]],
    first: int,
) -> tuple[RecordIndexGroups, tuple[str, ...]]:
    """The file groups of a partitioned record index, new ones included for partitions that get their first
    rows.

    Args:
        changes: The changes to the file groups of the table.
        config: The limits for the number of file groups of a partition.
        known: The first number and the count of the present file groups, by the part in their file ids.
        first: The number of the first new file group.

    Returns:
        The file groups, and the file ids of the new ones.
    """
    parts: dict[str | None, tuple[int, int]] = {}
    new_file_ids: list[str] = []
    for path in dict.fromkeys(one.partition_path for one in changes):
        part = _KIND.file_id(0, data_partition=path).removeprefix(_KIND.file_id_prefix).removesuffix("-0000-0")
        if part in known:
            parts[path] = known[part]
            continue
        gains = [one.row_count for one in changes if one.partition_path == path and one.after is not None]
        if not gains:
            continue
        limits = config.partitioned_record_index_min_file_groups, config.partitioned_record_index_max_file_groups
        count = record_index_group_count(sum(gains), *limits)
        parts[path] = first + len(new_file_ids), count
        new_file_ids += [_KIND.file_id(number, data_partition=path) for number in range(count)]
    return RecordIndexGroups(parts), tuple(new_file_ids)


@attrs.frozen(eq=False)
class RecordIndexChanges:
    """The keys that file groups gained and lost; the engine brings those of one file group of the index
    together.

    Attributes:
        changes: The changes to the file groups of the table.
        places: These file groups as the entries name them.
        reading: Reads the keys.
        index: The index before the action; None while it is being built.
        row_count: About the number of rows that were added or deleted.
        rule: Refuses keys in several file groups.
        new_file_ids: File groups that the index gets by this action, after its present ones.
    """

    changes: tuple[FileGroupChange, ...]
    places: _Places
    reading: _ReadKeyChanges
    index: _StoredEntries | None
    row_count: int
    rule: OnePlaceRule
    new_file_ids: tuple[str, ...] = ()

    def write(self, writer: MetadataFileGroupWriter, engine: HoodieEngineContext) -> list[HoodieWriteStat]:
        """See `PartitionRecords.write`.

        Raises:
            HoodieException: See there, and `OnePlaceRule.check`.
        """
        written = self._write(writer, engine)
        self.rule.check([one.suspects for one in written], engine)
        return [stat for one in written for stat in one.stats]

    def _write(self, writer: MetadataFileGroupWriter, engine: HoodieEngineContext) -> list[_WrittenGroup]:
        writer = writer.with_new_groups(self.new_file_ids)
        items = list(enumerate(self.changes))
        if self.row_count <= _FEW_ROWS and len(items) <= _FEW_FILE_GROUPS:
            parts = list(map_concurrently(self.reading.read, items))
            found = pa.Table.from_batches([batch for part in parts for batch in part], _KEY_CHANGES)
            writing = _WriteGroup(writer, self.places, self.index, self.rule.option)
            groups = [(number, _rows_of(found, number)) for number in _groups_in(found)]
            token = _DRIVER_TOKEN if self.new_file_ids else None
            return [writing.write(rows, number, token) for number, rows in groups]
        shared = engine.share(self.places)
        try:
            read: HoodieData = engine.generate(items, self.reading, _KEY_CHANGES)
            routed = read.route(_GROUP, writer.group_count)
            task = _WriteGroups(writer, shared, self.index, self.rule.option)
            written = routed.map_partitions_with_index(task, _WRITTEN).collect()
        finally:
            shared.release()
        # Tasks of this application packed the values.
        return [pickle.loads(value) for value in written["group"].to_pylist()] if written is not None else []


@attrs.frozen(eq=False)
class _Places:
    """File groups of the table as entries name them; crosses to tasks.

    Attributes:
        partition_paths: string.
        file_ids: string.
        millis: The instants of new entries (int64).
    """

    partition_paths: pa.Array
    file_ids: pa.Array
    millis: pa.Array

    @classmethod
    def of(cls, table: TableSnapshot, changes: Sequence[FileGroupChange], instant_times: Sequence[str]) -> _Places:
        timezone = table.table_config.timeline_timezone
        millis = {time: instant_millis(time, timezone) for time in set(instant_times)}
        return cls(
            pa.array([one.partition_path for one in changes], pa.string()),
            pa.array([one.file_id for one in changes], pa.string()),
            pa.array([millis[time] for time in instant_times], pa.int64()),
        )

    def of_keys(self, keys: pa.Array, places: pa.Array) -> pa.Table:
        """Keys with their places, as `KEY_PLACES`.

        Args:
            keys: string.
            places: The number of the file group of each key.
        """
        return pa.Table.from_arrays(
            [keys, self.partition_paths.take(places), self.file_ids.take(places)], schema=KEY_PLACES
        )


@attrs.frozen(eq=False)
class _StoredEntries:
    """The entries of the index before the action. Crosses to tasks.

    Attributes:
        reader: Reads slices of the index.
        slices: The slices by the numbers of their file groups.
        for_gained: Whether gained keys are looked up, too.
    """

    reader: MetadataSliceReader
    slices: tuple[FileSlice, ...]
    for_gained: bool

    def find(self, keys: pa.Array, number: int, may_repeat: bool) -> pa.Table | None:
        """The place that the entry of each key names, as `KEY_PLACES`; nulls for keys without an entry.

        Args:
            keys: Record keys (string).
            number: The file group of the index.
            may_repeat: Whether a key may be there several times.

        Returns:
            The places; None if no key has an entry.
        """
        if number >= len(self.slices) or not len(keys):
            return None
        found = self.reader.read(SliceQuery(self.slices[number], keys=keys.unique() if may_repeat else keys))
        if not len(found.keys):
            return None
        entries = pc.index_in(keys, value_set=found.keys)
        named = [found.rows.column(name).take(entries) for name in KEY_PLACES.names[1:]]
        return pa.Table.from_arrays([keys, *named], schema=KEY_PLACES)


@attrs.frozen(eq=False)
class _ReadKeyChanges:
    """Task: the keys that a file group gained and lost, as `_KEY_CHANGES`.

    Attributes:
        keys: Reads keys.
        groups: The file groups of the index.
    """

    keys: SliceKeys
    groups: RecordIndexGroups

    def __call__(self, task: TaskIdentity, item: tuple[int, FileGroupChange]) -> Iterator[pa.RecordBatch]:
        yield from self.read(item)

    def read(self, item: tuple[int, FileGroupChange]) -> list[pa.RecordBatch]:
        """See the class.

        Args:
            item: The number of the file group, and the change to it.
        """
        place, change = item
        batches = []
        for keys, is_lost in zip(self.keys.changed(change), (False, True), strict=True):
            if len(keys):
                groups = self.groups.numbers_of(keys, change.partition_path).astype(np.int32)
                count = len(keys)
                places = pa.array(np.full(count, place, np.int32))
                columns = [keys, places, pa.repeat(is_lost, count), pa.array(groups)]
                batch = pa.RecordBatch.from_arrays(columns, schema=_KEY_CHANGES)
                # The index has no entries of keys without a file group.
                batches.append(batch if groups.min() >= 0 else batch.filter(pa.array(groups >= 0)))
        return batches


@attrs.frozen(eq=False)
class _WrittenGroup:
    """The result for one file group of the index. Crosses to the driver.

    Attributes:
        stats: The statistics of its file; empty if its changes cancelled out.
        suspects: Its keys that may be in several places.
    """

    stats: tuple[HoodieWriteStat, ...]
    suspects: SuspectKeys


@attrs.frozen(eq=False)
class _WriteGroup:
    """Writes the file of one file group of the index."""

    writer: MetadataFileGroupWriter
    places: _Places
    index: _StoredEntries | None
    option: str

    def write(self, rows: pa.Table, number: int, write_token: str | None = None) -> _WrittenGroup:
        """Write the entries that follow from the changes to one file group.

        Args:
            rows: All its changes (`_KEY_CHANGES`).
            number: The number of the file group.
            write_token: See `MetadataFileGroupWriter.write`.

        Raises:
            HoodieKeyException: A key is too long.
        """
        entries, suspects = self._entries(rows.combine_chunks(), number)
        check_key_sizes(
            entries.keys,
            "the record index holds record keys",
            f"Store a hash of such keys; or write without the index, with {self.option}=false, which drops it",
        )
        stats = () if entries.is_empty else (self.writer.write(number, entries, write_token),)
        return _WrittenGroup(stats, suspects)

    def _entries(self, rows: pa.Table, number: int) -> tuple[MetadataEntries, SuspectKeys]:
        is_lost = _column(rows, _IS_LOST)
        has_lost = pc.any(is_lost).as_py()
        lost = rows.filter(is_lost).combine_chunks() if has_lost else rows.slice(0, 0)
        gained = (rows.filter(pc.invert(is_lost)) if has_lost else rows).select([_KEY, _PLACE]).combine_chunks()
        order = sorted_places(_column(gained, _KEY))
        if order is not None:
            gained = gained.take(order)
        suspects, repeated = SuspectKeys(), pa.array([], pa.string())
        keys = _column(gained, _KEY)
        starts = run_starts(keys)
        if len(starts) < len(keys):
            # If several file groups gained a key, the last one is named: the same one whenever tasks run again.
            gained = gained.sort_by([(_KEY, "ascending"), (_PLACE, "ascending")]).combine_chunks()
            suspects, repeated = self._in_several(gained, lost)
            gained = gained.take(numbers_of(np.append(starts[1:], len(keys)) - 1, pa.int64())).combine_chunks()
            keys = _column(gained, _KEY)
        places, known = _column(gained, _PLACE), self.places
        deleted, named = self._compared(keys, places, lost, repeated, number)
        gains = record_index_entries(keys, known.partition_paths, known.file_ids, known.millis, places)
        entries = MetadataEntries.joined([gains, deleted_record_index_entries(deleted)])
        if named is not None:
            taken = pc.index_in(named[_KEY].slice(0, MOST_KEYS), value_set=keys)
            suspects = attrs.evolve(
                suspects,
                named=named.slice(0, MOST_KEYS),
                named_at=known.of_keys(keys.take(taken), places.take(taken)),
                named_count=named.num_rows,
            )
        return entries, suspects

    def _compared(
        self, gained: pa.Array, places: pa.Array, lost: pa.Table, repeated: pa.Array, number: int
    ) -> tuple[pa.Array, pa.Table | None]:
        """Compare keys with the index.

        Args:
            gained: Distinct keys that file groups gained.
            places: The number of the file group of each of these keys.
            lost: The lost keys (`_KEY_CHANGES`).
            repeated: Gained keys that are in several places anyway.
            number: The file group of the index.

        Returns:
            The keys that the table does not hold any more, each once. And the gained keys whose entries name other
            places (`KEY_PLACES`); None if there are none.
        """
        if self.index is None:
            return pa.array([], pa.string()), None
        removed = lost
        if lost.num_rows:
            removed = lost.filter(pc.invert(pc.is_in(lost[_KEY], value_set=gained))).combine_chunks()
        removed_keys, new_keys, new_places = _column(removed, _KEY), gained.slice(0, 0), places.slice(0, 0)
        if self.index.for_gained:
            new_keys, new_places = gained, places
            if lost.num_rows or len(repeated):
                is_new = pc.invert(pc.is_in(gained, value_set=pa.concat_arrays([_column(lost, _KEY), repeated])))
                new_keys, new_places = gained.filter(is_new), places.filter(is_new)
        wanted = pa.concat_arrays([removed_keys, new_keys])
        entries = self.index.find(wanted, number, may_repeat=bool(len(removed_keys)))
        if entries is None:
            return pa.array([], pa.string()), None
        places_of_keys = self.places.of_keys(entries[_KEY], pa.concat_arrays([_column(removed, _PLACE), new_places]))
        is_same = pc.and_(
            *(pc.equal(entries[name], places_of_keys[name]) for name in KEY_PLACES.names[1:])
        ).combine_chunks()
        deleted = removed_keys.filter(pc.fill_null(is_same.slice(0, len(removed_keys)), False)).unique()
        is_elsewhere = pc.fill_null(pc.invert(is_same.slice(len(removed_keys))), False)
        elsewhere = entries.slice(len(removed_keys)).filter(is_elsewhere)
        return deleted, elsewhere if elsewhere.num_rows else None

    def _in_several(self, gained: pa.Table, lost: pa.Table) -> tuple[SuspectKeys, pa.Array]:
        """Keys that are in several places, and in more than before.

        Args:
            gained: The gained keys (`_KEY_CHANGES`), sorted.
            lost: The lost keys (`_KEY_CHANGES`).

        Returns:
            Some of these keys with their places, for the driver; and all of these keys.
        """
        counts = gained.group_by(_KEY).aggregate([(_PLACE, "count")])
        counts = counts.filter(pc.greater(counts[_COUNT], 1))
        before = lost.group_by(_KEY).aggregate([(_PLACE, "count")])
        count_before = before[_COUNT].take(pc.index_in(counts[_KEY], value_set=before[_KEY]))
        keys = counts.filter(pc.greater(counts[_COUNT], pc.fill_null(count_before, 0)))[_KEY].combine_chunks()
        rows = gained.filter(pc.is_in(gained[_KEY], value_set=keys.slice(0, MOST_KEYS))).combine_chunks()
        return SuspectKeys(self.places.of_keys(rows[_KEY], _column(rows, _PLACE)), len(keys)), keys


@attrs.frozen(eq=False)
class _WriteGroups:
    """Task: writes the file groups of the index whose changes it gets; yields packed `_WrittenGroup`."""

    writer: MetadataFileGroupWriter
    places: Shared
    index: _StoredEntries | None
    option: str

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = pa.Table.from_batches([batch for batch in batches if batch.num_rows], _KEY_CHANGES)
        writing = _WriteGroup(self.writer, self.places.value, self.index, self.option)
        for number in _groups_in(found):
            written = writing.write(_rows_of(found, number), number, task.write_token)
            yield pa.record_batch([pa.array([pickle.dumps(written)], pa.binary())], schema=_WRITTEN)


@attrs.frozen
class _CountRows:
    """Task: about the number of rows of a slice: the rows of its base file."""

    storage: HoodieStorage

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> int:
        if file_slice.base_file is None:
            return 0
        with HoodieParquetReader(self.storage, file_slice.base_file.path) as reader:
            return reader.num_rows


def _nothing() -> MetadataEntries:
    return MetadataEntries.none(_KIND.partition_path, _PAYLOAD)


def _groups_in(rows: pa.Table) -> list[int]:
    return sorted(pc.unique(rows[_GROUP]).to_pylist())


def _rows_of(rows: pa.Table, number: int) -> pa.Table:
    return rows.filter(pc.equal(rows[_GROUP], number))


def _column(rows: pa.Table, name: str) -> pa.Array:
    column = rows[name]
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
