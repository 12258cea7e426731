"""Look record keys up in the record index of a table's metadata table, on the driver and in tasks.

The hash of a key names the file group of the index that may have its entry. So a look-up sends each key to the task of
one file group, which reads the blocks of that group that may hold its keys.

Hudi: org.apache.hudi.index.SparkMetadataTableRecordIndex (RecordIndexFileGroupLookupFunction).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieIndexException
from hoodie.index.index import append_numbered_locations, keys_by_partition_path, with_location_columns
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_listing import is_record_index_used
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords, MetadataSliceReader, SliceQuery
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.records.record_index_groups import RecordIndexGroups

RECORD_INDEX_PATH = MetadataPartitionType.RECORD_INDEX.partition_path
"""The partition of the metadata table."""
_KEYS_WITHOUT_TASKS = 1000
"""Up to this many keys are looked up without a job of the engine, which takes longer than they do."""
_SAMPLED_KEYS = 1000
_GROUP = "__hoodie_index_group"
_TASK = "__hoodie_index_task"
_TASKS_PER_CORE = 4
REBUILD = (
    "Compare them with hoodie.metadata.validate; to build the index anew, write once with "
    "hoodie.metadata.global.record.level.index.enable=false (hoodie.metadata.record.level.index.enable=false of an "
    "index by partitions), and then with true"
)
"""The advice for a record index that does not fit its table."""


@attrs.frozen
class FoundEntries:
    """Keys that the index has, and the file slices that it names.

    Attributes:
        keys: Record keys (string), each once.
        files: For each key an index into the slices (int32).
    """

    keys: pa.Array
    files: npt.NDArray[np.int32]


@attrs.frozen(eq=False)
class NamedEntries:
    """Keys that the index has, and the file groups that it names, which the table may not have.

    Attributes:
        keys: Record keys (string), each once.
        numbers: For each key an index into the file groups (int32).
        groups: Partition path and file id of each; distinct.
    """

    keys: pa.Array
    numbers: npt.NDArray[np.int32]
    groups: Sequence[tuple[str, str]]

    @classmethod
    def of(cls, found: MetadataRecords) -> NamedEntries:
        """Entries of the index."""
        columns = [found.rows.column(name).dictionary_encode() for name in ("partition_path", "file_id")]
        paths, file_ids = (column.dictionary.to_pylist() for column in columns)
        count = max(len(file_ids), 1)
        codes = columns[0].indices.to_numpy().astype(np.int64) * count + columns[1].indices.to_numpy()
        distinct, numbers = np.unique(codes, return_inverse=True)
        groups = [(paths[code // count], file_ids[code % count]) for code in distinct.tolist()]
        return cls(found.keys, numbers.astype(np.int32), groups)

    @classmethod
    def joined(cls, parts: Sequence[NamedEntries]) -> NamedEntries:
        """The entries of several parts, which have no key in common."""
        places: dict[tuple[str, str], int] = {}
        numbers = [np.empty(0, np.int32)]
        for part in parts:
            own = np.array([places.setdefault(group, len(places)) for group in part.groups], np.int32)
            numbers.append(own[part.numbers])
        return cls(
            pa.concat_arrays([pa.array([], pa.string()), *(part.keys for part in parts)]),
            np.concatenate(numbers),
            list(places),
        )

    @property
    def partition_paths(self) -> set[str]:
        """The partitions that are named."""
        return {path for path, _ in self.groups}


@attrs.frozen(eq=False)
class IndexedPlaces:
    """The file slices that entries of the index may name; crosses to tasks.

    Attributes:
        base_path: The table's folder.
        slices: The latest slices of the table, or of part of its partitions.
    """

    base_path: str
    slices: Sequence[FileSlice]
    _known: list[dict[tuple[str, str], int]] = attrs.field(init=False, factory=list, repr=False)

    def found(self, named: NamedEntries) -> FoundEntries:
        """The entries with the slices of their file groups.

        Args:
            named: The entries.

        Raises:
            HoodieIndexException: The table has no such file group.
        """
        if not self._known:
            numbered = enumerate(self.slices)
            self._known.append({(part.partition_path, part.file_id): number for number, part in numbered})
        known = self._known[0]
        numbers = np.array([known.get(group, -1) for group in named.groups], np.int32)
        files: npt.NDArray[np.int32] = numbers[named.numbers]
        wrong = np.flatnonzero(files < 0)
        if len(wrong):
            path, file_id = named.groups[int(named.numbers[wrong[0]])]
            raise HoodieIndexException(
                f"The record index of {self.base_path} says that {len(wrong)} of the keys are in file groups which the "
                f"table does not have, such as {short_repr(named.keys[int(wrong[0])].as_py())} in {file_id} of "
                f"partition '{path}': the index is wrong, and nothing was written. {REBUILD}"
            )
        return FoundEntries(named.keys, files)


@attrs.frozen(eq=False)
class RecordIndexLookup:
    """The record index of a table as of a snapshot. Lives on the driver.

    Attributes:
        groups: The file groups of its keys.
        slices: Its file slices, by the numbers of `groups`.
        reader: Reads them.
    """

    groups: RecordIndexGroups
    slices: Sequence[FileSlice]
    reader: MetadataSliceReader

    @classmethod
    def open(
        cls, snapshot: TableSnapshot, partition_paths: Iterable[str], *, is_by_partition: bool
    ) -> RecordIndexLookup | None:
        """Open the record index of a table.

        Args:
            snapshot: The table.
            partition_paths: The partitions of the table, with files, in which an index by partitions is asked.
            is_by_partition: Whether an index by partitions is wanted.

        Returns:
            None if the table has no record index that can be used, see `is_record_index_used`.

        Raises:
            HoodieIndexException: It is of the other kind, or lacks a partition of the table.
            HoodieException: It cannot be read.
        """
        if not is_record_index_used(snapshot):
            return None
        metadata = HoodieBackedTableMetadata.open(snapshot)
        definition = metadata.definitions.get(RECORD_INDEX_PATH)
        by_part = metadata.files.file_groups(RECORD_INDEX_PATH)
        is_partitioned = bool(set(by_part) - {None}) or (definition is not None and definition.is_partitioned)
        if is_partitioned is not is_by_partition:
            kind, wanted = (
                ("RECORD_LEVEL_INDEX", "RECORD_INDEX") if is_partitioned else ("RECORD_INDEX", "RECORD_LEVEL_INDEX")
            )
            shown = "by partitions" if is_partitioned else "of the whole table"
            raise HoodieIndexException(
                f"the record index of {snapshot.base_path} is one {shown}, which hoodie.index.type={wanted} does not "
                f"use: set hoodie.index.type={kind}"
            )
        slices: list[FileSlice] = []
        counts: dict[str | None, int] = {}
        for path in sorted(set(partition_paths)) if is_partitioned else [None]:
            found = [one for group in metadata.slices_of(RECORD_INDEX_PATH, path) for one in group]
            if not found:
                where = f"partition '{path}'" if is_partitioned else "the table"
                raise HoodieIndexException(
                    f"the record index of {snapshot.base_path} has no file groups for {where}. {REBUILD}"
                )
            counts[path] = len(found)
            slices += found
        reader = MetadataSliceReader.of(metadata.files, MetadataPayload.RECORD_INDEX)
        return cls(RecordIndexGroups.of_counts(counts), slices, reader)

    def find(self, keys: pa.Array, context: HoodieEngineContext, partition_path: str | None = None) -> NamedEntries:
        """Look up keys that fit in memory.

        Args:
            keys: Distinct record keys (string).
            context: The engine.
            partition_path: Their partition; None in an index of the whole table.

        Raises:
            HoodieException: The index cannot be read.
        """
        numbers = self.groups.numbers_of(keys, partition_path)
        order = np.argsort(numbers, kind="stable")
        bounds = np.searchsorted(numbers[order], np.arange(len(self.slices) + 1))
        wanted = [number for number in range(len(self.slices)) if bounds[number] < bounds[number + 1]]
        by_group = {number: keys.take(pa.array(order[bounds[number] : bounds[number + 1]])) for number in wanted}
        if len(keys) <= _KEYS_WITHOUT_TASKS:
            items = [(self.slices[number], by_group[number]) for number in wanted]
            return NamedEntries.joined([*map_concurrently(lambda item: find_entries(self.reader, *item), items)])
        shared = context.share(by_group)
        try:
            look_up = _FindSharedKeys(self.reader, shared)
            return NamedEntries.joined(context.run_tasks([(n, self.slices[n]) for n in wanted], look_up))
        finally:
            shared.release()

    def sample(self, keys: pa.Array) -> NamedEntries:
        """The entries of some of many keys, of one file group of an index of the whole table.

        Args:
            keys: Record keys (string), at least one; they may repeat.

        Raises:
            HoodieException: The index cannot be read.
        """
        numbers = self.groups.numbers_of(keys, None)
        rows = np.flatnonzero(numbers == numbers[0])
        chosen = rows[:: max(1, len(rows) // _SAMPLED_KEYS)]
        return find_entries(self.reader, self.slices[int(numbers[0])], keys.take(pa.array(chosen)).unique())

    def locate(
        self, keys: HoodieData, context: HoodieEngineContext, shared_places: Shared, path_column: str
    ) -> HoodieData:
        """The locations of more keys than fit in memory: the engine brings the keys of a file group to one task.

        Args:
            keys: Record key and partition path; keys may repeat.
            context: The engine.
            shared_places: The shared `IndexedPlaces`.
            path_column: The name of the column for the partition where a key is.

        Returns:
            For each key that is found one row: record key, that column, and the CURRENT columns without position.
        """
        count = max(1, min(len(self.slices), _TASKS_PER_CORE * context.default_parallelism))
        numbered = keys.map_batches(_WithGroup(self.groups, count), _routed_schema(keys.schema))
        routed = numbered.route(_TASK, count)
        schema = located_schema(keys.schema, path_column)
        return routed.map_partitions_with_index(
            _LocateKeys(self.reader, tuple(self.slices), shared_places, schema), schema
        )


def has_record_index_of_table(snapshot: TableSnapshot) -> bool:
    """Whether a table has a record index of the whole table that is ready.

    Args:
        snapshot: The table.

    Raises:
        HoodieException: The metadata table cannot be read.
    """
    if RECORD_INDEX_PATH not in snapshot.table_config.metadata_partitions:
        return False
    return None in HoodieBackedTableMetadata.open(snapshot).files.file_groups(RECORD_INDEX_PATH)


def _routed_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([schema.field(RECORD_KEY), pa.field(_GROUP, pa.int32()), pa.field(_TASK, pa.int32())])


def located_schema(schema: pa.Schema, path_column: str) -> pa.Schema:
    """The schema of `RecordIndexLookup.locate`.

    Args:
        schema: The schema of the keys.
        path_column: See there.
    """
    return with_location_columns(pa.schema([schema.field(RECORD_KEY), pa.field(path_column, pa.string())]))


def find_entries(reader: MetadataSliceReader, file_slice: FileSlice, keys: pa.Array) -> NamedEntries:
    """The keys that one file slice of the index has.

    Args:
        reader: Reads it.
        file_slice: The slice.
        keys: Distinct record keys (string).

    Raises:
        HoodieException: The index cannot be read.
    """
    return NamedEntries.of(reader.read(SliceQuery(file_slice, keys=keys)))


@attrs.frozen
class _FindSharedKeys:
    """Task: find the keys of a file group of the index."""

    reader: MetadataSliceReader
    shared: Shared

    def __call__(self, task: TaskIdentity, item: tuple[int, FileSlice]) -> NamedEntries:
        number, file_slice = item
        return find_entries(self.reader, file_slice, self.shared.value[number])


@attrs.frozen
class _WithGroup:
    """Record keys with the file group of the index and the task that looks them up; those without a group are left out.

    Attributes:
        groups: The file groups of the index.
        count: The number of tasks.
    """

    groups: RecordIndexGroups
    count: int

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = self._numbers(batch).astype(np.int32)
        columns = [batch.column(RECORD_KEY), pa.array(numbers), pa.array(numbers % self.count, pa.int32())]
        numbered = pa.RecordBatch.from_arrays(columns, schema=_routed_schema(batch.schema))
        return numbered.filter(pa.array(numbers >= 0)) if len(numbers) and numbers.min() < 0 else numbered

    def _numbers(self, batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        if not self.groups.is_by_partition:
            return self.groups.numbers_of(batch.column(RECORD_KEY), None)
        numbers = np.empty(batch.num_rows, np.int64)
        for path, rows, keys in keys_by_partition_path(batch):
            numbers[rows] = self.groups.numbers_of(keys, path)
        return numbers


@attrs.frozen
class _LocateKeys:
    """Task: the locations of keys in file groups of the index."""

    reader: MetadataSliceReader
    slices: tuple[FileSlice, ...]
    places: Shared
    schema: pa.Schema

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        keys = pa.Table.from_batches([batch for batch in batches if batch.num_rows], _routed_schema(self.schema))
        if not keys.num_rows:
            return
        places: IndexedPlaces = self.places.value
        names = pa.array([part.partition_path for part in places.slices], pa.string())
        locations = [part.location for part in places.slices]
        numbers = keys[_GROUP].to_numpy()
        for number in np.unique(numbers).tolist():
            wanted = keys[RECORD_KEY].filter(pa.array(numbers == number)).combine_chunks().unique()
            found = places.found(find_entries(self.reader, self.slices[number], wanted))
            if not len(found.keys):
                continue
            columns = [found.keys, names.take(pa.array(found.files))]
            batch = pa.RecordBatch.from_arrays(columns, names=self.schema.names[:2])
            located = append_numbered_locations(batch, locations, found.files, np.full(len(found.keys), -1, np.int64))
            yield located.cast(self.schema)
