"""The interface of indexes: they find the locations of keys.

Hudi: org.apache.hudi.index.HoodieIndex.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from typing import ClassVar, Protocol, TypeAlias

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import UInt64Array, are_surely_distinct, quick_hashes
from hoodie.common.data.grouped_rows import rows_by_value
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    PARTITION_PATH,
    RECORD_KEY,
    reserved_field,
)
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.arrow_buffers import array_of, booleans_of, flags_in, indices_of, numbers_in, scalar_of
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.bucket_routing import BucketRouting
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.exception import HoodieNotSupportedException
from hoodie.index.index_report import IndexWork
from hoodie.io.merging_reader import LogMerging
from hoodie.io.record_placement import RecordPlacement
from hoodie.io.written_keys import WrittenKeys
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.merge.merge_spec import MergeSpec
from hoodie.metrics.metrics import HoodieMetrics
from hoodie.storage.storage import HoodieStorage

_LOCATION_COLUMNS = (CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION)

MANY_ENTRIES = 2
"""With more locations than this for each row of a batch, they are hashed once for all batches."""

ListMore: TypeAlias = Callable[[Sequence[str]], tuple[Mapping[str, Sequence[FileSlice]], frozenset[tuple[str, str]]]]


@attrs.frozen
class IndexedRecords:
    """The records of a table, as far as an index reads or merges them; picklable.

    Attributes:
        schema: The table's columns as they are written.
        record_key_fields: The table's.
        merge_spec: Decides between a stored record and one that would move to another partition; only global indexes
            use it.
        log_merging: The merge of log files; None refuses slices with log files.
    """

    schema: pa.Schema = attrs.field(factory=lambda: pa.schema([]))
    record_key_fields: tuple[str, ...] = ()
    merge_spec: MergeSpec = attrs.field(factory=MergeSpec)
    log_merging: LogMerging | None = None


@attrs.frozen
class TagRequest:
    """A request for the locations of records: the write that asks, and the records.

    Attributes:
        instant_time: The instant that is written; "" where nothing is.
        pending_instants: Instants that were not completed when the write began, this one among them.
        exact: Whether each key must be looked up, even if the index could name its file group without that.
        stays: Whether a global index only gives the location of a key that would move, and does not move it.
        reads_only: Whether nothing may be written, not even to the index's own store, because an upsert is only being
            planned.
        replaced_file_groups: Partition path to ids of file groups that were replaced, where all writers must give a new
            file group the same id; None: ids are random.
    """

    instant_time: str = ""
    pending_instants: frozenset[str] = frozenset()
    exact: bool = False
    stays: bool = False
    reads_only: bool = False
    replaced_file_groups: Mapping[str, frozenset[str]] | None = None


@attrs.frozen(eq=False)
class SnapshotListing:
    """The facts about a table's files that a snapshot knows beside their slices; they stay on the driver.

    Attributes:
        snapshot: The table, for an index in its metadata table; None where no index asks for it.
        groups_with_new_keys: Partition path and file id of file groups whose log files may hold keys that their base
            file lacks.
        list_more: Lists the latest slices of more partitions, and which of their groups may have new keys in log files,
            for a global index that names the partitions of keys; None: all that the index may look into is listed.
    """

    snapshot: TableSnapshot | None = None
    groups_with_new_keys: frozenset[tuple[str, str]] = frozenset()
    list_more: ListMore | None = None


@attrs.frozen(eq=False)
class IndexNotes:
    """The notes that an index makes while it works; they stay on the driver.

    Attributes:
        work: The work of the index: what it judged and read.
        metrics: Times the index's own steps.
        shared: The values that the index shares with tasks that run after it has answered. Who asked the index releases
            them when the write is done.
    """

    work: IndexWork = attrs.field(factory=IndexWork)
    metrics: HoodieMetrics = attrs.field(factory=HoodieMetrics)
    shared: list[Shared] = attrs.field(factory=list)

    def share(self, context: HoodieEngineContext, value: object) -> Shared:
        """Share a value with tasks until the write is done.

        Args:
            context: The engine.
            value: Picklable.
        """
        shared = context.share(value)
        self.shared.append(shared)
        return shared


@attrs.frozen
class IndexedTable:
    """The latest file slices of a table, and the way their records are read: an index searches them.

    Attributes:
        storage: The storage of the files; picklable.
        file_slices: The latest file slices by partition path: of the partitions of the incoming records, or of all
            partitions for a global index.
        base_path: The table's folder.
        records: The table's records.
        request: The request: who asks for locations, and for which ones.
        listing: The other facts in the snapshot of the table.
        notes: The notes of the index about its work.
    """

    storage: HoodieStorage
    file_slices: Mapping[str, Sequence[FileSlice]]
    base_path: str = ""
    records: IndexedRecords = attrs.field(factory=IndexedRecords)
    request: TagRequest = TagRequest()
    listing: SnapshotListing = attrs.field(factory=SnapshotListing, eq=False, repr=False)
    notes: IndexNotes = attrs.field(factory=IndexNotes, eq=False, repr=False)

    @property
    def work(self) -> IndexWork:
        """The index notes here what it judged and read."""
        return self.notes.work

    @property
    def instant_time(self) -> str:
        """The instant that is written; "" where nothing is."""
        return self.request.instant_time

    @property
    def slices(self) -> list[FileSlice]:
        """The slices of all partitions."""
        return [file_slice for group in self.file_slices.values() for file_slice in group]

    def split(self, merges_all: bool = False) -> tuple[IndexedTable, list[FileSlice]]:
        """The slices whose base file has all their keys, as a table, and the slices whose log files must be read, too.

        Args:
            merges_all: Whether the log files of every slice must be read.

        Raises:
            HoodieNotSupportedException: There are log files, and it is not known how they are merged.
        """
        merged = [part for part in self.slices if not part.is_base_file_alone]
        if not merged:
            return self, []
        if self.records.log_merging is None:
            raise HoodieNotSupportedException(
                f"file group {merged[0].file_id} of partition '{merged[0].partition_path}' has log files, in which "
                "keys are not looked for here: compact the table first"
            )
        if not (merges_all or self.request.exact):
            new_keys = self.listing.groups_with_new_keys
            merged = [
                part for part in merged if part.base_file is None or (part.partition_path, part.file_id) in new_keys
            ]
        chosen = {(part.partition_path, part.file_id) for part in merged}
        return self.narrowed_to(s for s in self.slices if (s.partition_path, s.file_id) not in chosen), merged

    def narrowed_to(self, slices: Iterable[FileSlice]) -> IndexedTable:
        """The table with the given slices only; keys are looked up in these.

        Args:
            slices: The slices to keep.
        """
        kept: dict[str, list[FileSlice]] = {}
        for file_slice in slices:
            kept.setdefault(file_slice.partition_path, []).append(file_slice)
        return attrs.evolve(self, file_slices=kept)

    def with_partitions(self, partition_paths: Iterable[str]) -> IndexedTable:
        """The table with the latest slices of more partitions, if not all are listed.

        Args:
            partition_paths: The partitions; those that are listed are not listed again.

        Raises:
            HoodieIOException: A partition path would leave the table, or storage failed.
        """
        missing = sorted({*map(check_partition_path, partition_paths)} - self.file_slices.keys())
        if self.listing.list_more is None or not missing:
            return self
        slices, groups = self.listing.list_more(missing)
        listing = attrs.evolve(self.listing, groups_with_new_keys=self.listing.groups_with_new_keys | groups)
        return attrs.evolve(self, file_slices={**self.file_slices, **slices}, listing=listing)


@attrs.frozen(eq=False)
class KeysInTasks:
    """The facts about keys that are too many for the driver.

    Attributes:
        ranges: Partition path to smallest and largest keys (string) of parts of the incoming rows.
        sample: Some record keys (string); they may repeat.
        num_rows: The number of rows that have them.
    """

    ranges: Mapping[str, Sequence[tuple[str, str]]]
    sample: pa.Array
    num_rows: int


class HoodieIndex(ABC):
    """Finds where the keys of incoming records live.

    Hudi: org.apache.hudi.index.HoodieIndex.
    """

    searches_slices: ClassVar[bool] = False
    """Whether `slices_to_search` may be called: the keys of a slice are those that its files hold."""

    def __init__(self, config: HoodieWriteConfig) -> None:
        self._config = config

    @property
    @abstractmethod
    def is_global(self) -> bool:
        """Whether a record key is unique in the whole table; otherwise it is within its partition."""

    @property
    def names_file_groups(self) -> bool:
        """Whether the key alone decides the file group of a record, also of a new one (bucket indexes).

        Then every operation asks the index, inserts too. Rows are tagged with the file group of their key; the current
        instant time is null if the file group does not exist yet. File groups are not limited in size.

        Hudi: HoodieIndex.requiresTagging of inserts, and HoodieStorageLayout.determinesNumFileGroups.
        """
        return False

    @property
    def puts_inserts_into_logs(self) -> bool:
        """Whether new records of a merge-on-read table go to log files of small file groups, and not to base files.

        Hudi: HoodieIndex.canIndexLogFiles.
        """
        return False

    @property
    def knows_positions(self) -> bool:
        """Whether tagged rows have the row position of their key in the base file.

        If not, the row position is null or negative, unless `TagRequest.exact` is set. The task that writes the file
        group then finds out whether it holds a key, and at which row. A position that is given nevertheless says that
        the base file was searched for all incoming keys.
        """
        return not self.names_file_groups

    def record_placement(self, record_key_fields: Sequence[str]) -> RecordPlacement:
        """The placement of records for the tasks of a write. Locations of a user's index are checked by stored keys.

        Args:
            record_key_fields: The table's record key fields.
        """
        is_of_user = not type(self).__module__.startswith("hoodie.")
        return RecordPlacement(self.names_file_groups, self.knows_positions, is_of_user, written_keys=self.written_keys)

    def locations_without_keys(self, context: HoodieEngineContext, table: IndexedTable) -> Locations | None:
        """Locations that name the file group of any key without a lookup; None if the index cannot do that.

        With them, the first bulk insert of a table streams its rows to new file groups. And an upsert of many rows
        counts these before it knows which partitions they are in: keys of one file group have one location, whatever
        files are given.

        Args:
            context: The engine.
            table: The table's files, or none of them.
        """
        return None

    def bucket_routing(self, key_generator: KeyGenerator) -> BucketRouting | None:
        """The function from keys to file groups, by which an engine can bring their rows together; None if
        there is none.

        Args:
            key_generator: The table's key generator.
        """
        return None

    def commit_metadata(self, record_key_fields: Sequence[str]) -> Mapping[str, str]:
        """Entries about the index for the extra metadata of a commit: settings that later writers must share.

        Args:
            record_key_fields: The table's.
        """
        return {}

    @property
    def written_keys(self) -> WrittenKeys | None:
        """Gets the record keys of files that handles of the in-process engine write; None if the index needs none."""
        return None

    def names_partitions(self, snapshot: TableSnapshot) -> bool:
        """Whether a global index names the partitions of keys without the table's files.

        Then these are listed when it has named them, see `IndexedTable.with_partitions`, and before that only the
        partitions of the incoming records.

        Args:
            snapshot: The table.
        """
        return False

    def decides_by_keys(self, table: IndexedTable) -> bool:
        """Whether `find_locations` can answer; otherwise whole records are needed, and `tag_location` is called."""
        return True

    def slices_to_search(
        self, keys: KeysInTasks, context: HoodieEngineContext, table: IndexedTable
    ) -> Sequence[tuple[FileSlice, bool]] | None:
        """The slices that can hold keys which are too many for the driver; note file groups like `find_locations`.

        Args:
            keys: The keys.
            context: The engine.
            table: The table's files.

        Returns:
            The slices, and whether log files of theirs can hold further keys. None if `tag_location` finds the keys by
            reading less.
        """
        raise HoodieNotSupportedException(f"{type(self).__name__} does not find keys in slices")

    @abstractmethod
    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        """Find where keys live now, for keys that fit in memory; note every judged file group on ``table.work``.

        Args:
            keys: Record key and partition path.
            context: The engine.
            table: The table's files.
        """

    @abstractmethod
    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        """Add to each record where its key lives now; note file groups like `find_locations`.

        Args:
            records: With record key and partition path; keys are distinct unless the caller did not combine them.
            context: The engine.
            table: The table's files.

        Returns:
            The same rows with current instant time, file id and row position: one row for each live location of a
            key, and one row of nulls for a key that is not in the table. It is a pure function of records and table:
            computed again, it gives the same rows.
        """

    @abstractmethod
    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Note the written files, before the commit. It is safe to repeat, and `rollback_commit` undoes it.

        The commit may still fail, and the writer may die before it reports that. Until the instant is completed, the
        index must not believe these notes, and must still find the older locations. Indexes that read locations from
        the table's files have nothing to do.

        Args:
            statuses: The statuses of all new files; deleted and updated keys are found by reading these files.
            context: The engine.
            table: Storage, base path and instant; no file slices.

        Raises:
            HoodieIndexException: It cannot be done; the write is rolled back.
        """

    @abstractmethod
    def rollback_commit(self, instant_time: str) -> None:
        """Forget the notes of `update_location` for an instant that was rolled back.

        If another writer rolled the instant back, this is not called.

        Args:
            instant_time: The instant.
        """


class BaseFileIndex(HoodieIndex):
    """An index that keeps no state of its own: it reads the base files."""

    def update_location(
        self, statuses: Sequence[WriteStatus], context: HoodieEngineContext, table: IndexedTable
    ) -> None:
        """Nothing to do: the base files are the index."""

    def rollback_commit(self, instant_time: str) -> None:
        """Nothing to do: the base files are the index."""


@attrs.frozen(eq=False)
class HashedKeys:
    """Stored keys with their hashes in ascending order: a batch of incoming keys is looked up at the cost of the batch.

    Attributes:
        keys: string; a key may occur several times.
        hashes: The hashes of the keys, sorted.
        entries: int64, for each hash the index of its key.
        are_distinct: Whether no hash occurs twice.
    """

    keys: pa.Array
    hashes: UInt64Array
    entries: np.ndarray
    are_distinct: bool

    @classmethod
    def of(cls, keys: pa.Array) -> HashedKeys:
        """Hash keys, once.

        Args:
            keys: Strings, at least one.
        """
        hashes = _hashes_of(keys)
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        return cls(keys, hashes, order, bool((hashes[1:] != hashes[:-1]).all()))

    def match(self, wanted: pa.Array) -> tuple[np.ndarray, np.ndarray]:
        """Pairs (row of ``wanted``, index of an equal key or -1), each row at least once, in the order of the rows.

        Args:
            wanted: Strings.
        """
        hashes = _hashes_of(wanted)
        first = np.searchsorted(self.hashes, hashes, side="left")
        rows = np.flatnonzero(self.hashes[np.minimum(first, len(self.hashes) - 1)] == hashes)
        places = first[rows]
        if not self.are_distinct:
            counts = np.searchsorted(self.hashes, hashes[rows], side="right") - places
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            rows, places = np.repeat(rows, counts), np.repeat(places, counts) + within
        entries = self.entries[places]
        equal = pc.equal(wanted.take(indices_of(rows)), self.keys.take(indices_of(entries)))
        is_same = flags_in(equal)
        rows, entries = rows[is_same], entries[is_same]
        is_new = np.ones(len(wanted), dtype=bool)
        is_new[rows] = False
        new = np.flatnonzero(is_new)
        rows, entries = np.concatenate([rows, new]), np.concatenate([entries, np.full(len(new), -1, dtype=np.int64)])
        order = np.argsort(rows, kind="stable")
        return rows[order], entries[order]


def _hashes_of(keys: pa.Array) -> UInt64Array:
    return quick_hashes(pc.fill_null(keys, "") if keys.null_count else keys)


class Locations(Protocol):
    """Locations of keys, as one value that tasks share."""

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with the three CURRENT columns; see `HoodieIndex.tag_location`.

        Args:
            batch: With record key and partition path.
        """


@attrs.frozen
class KeyLocations:
    """Locations of keys within their partitions.

    Attributes:
        tables: Partition path to a table of record key (string), file (int32, index into ``files``) and position
            (int64), sorted by nothing; a key may occur several times.
        files: The locations of the file slices.
    """

    tables: Mapping[str, pa.Table]
    files: Sequence[HoodieRecordLocation]
    _hashed: dict[str, HashedKeys] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `Locations`: one row for each location of a key in its partition, or one row of nulls."""
        rows, positions, files = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int32)]
        for partition_path, row_numbers, keys in keys_by_partition_path(batch):
            table = self.tables.get(partition_path)
            if table is None or table.num_rows == 0:
                rows.append(row_numbers)
                positions.append(np.full(len(row_numbers), -1, dtype=np.int64))
                files.append(np.full(len(row_numbers), -1, dtype=np.int32))
                continue
            row, entry = match_keys(keys, table["key"].combine_chunks(), self._hashed, partition_path)
            found = entry >= 0
            rows.append(row_numbers[row])
            positions.append(np.where(found, _numbers(table["position"], np.int64)[entry], -1))
            files.append(np.where(found, _numbers(table["file"], np.int32)[entry], -1).astype(np.int32))
        row_numbers = np.concatenate(rows)
        order = np.argsort(row_numbers, kind="stable")
        tagged = batch if len(order) == batch.num_rows else batch.take(indices_of(row_numbers[order]))
        return append_numbered_locations(
            tagged, self.files, np.concatenate(files)[order], np.concatenate(positions)[order]
        )


def with_location_columns(schema: pa.Schema) -> pa.Schema:
    """The schema with the three CURRENT columns."""
    return pa.schema([*schema, *map(reserved_field, _LOCATION_COLUMNS)])


def tag_with_locations(records: HoodieData, locations: Shared) -> HoodieData:
    """Attach locations to rows by their key.

    Args:
        records: With record key and partition path.
        locations: The shared `Locations`.
    """
    return records.map_batches(_Tagger(locations), with_location_columns(records.schema))


@attrs.frozen
class _Tagger:
    locations: Shared

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        locations: Locations = self.locations.value
        return locations.tag(batch)


def append_locations(
    batch: pa.RecordBatch, instants: pa.Array, file_ids: pa.Array, positions: pa.Array
) -> pa.RecordBatch:
    """The batch with the three CURRENT columns.

    Args:
        batch: The rows.
        instants: For each row the current instant time.
        file_ids: The current file id.
        positions: The row position.
    """
    for name, column in zip(_LOCATION_COLUMNS, (instants, file_ids, positions), strict=True):
        batch = batch.append_column(reserved_field(name), column)
    return batch


def append_numbered_locations(
    batch: pa.RecordBatch, files: Sequence[HoodieRecordLocation], file_numbers: np.ndarray, positions: np.ndarray
) -> pa.RecordBatch:
    """The batch with the three CURRENT columns.

    Args:
        batch: The rows.
        files: Locations of file slices.
        file_numbers: For each row an index into ``files``, negative where its key is not in the table.
        positions: For each row its position in that file.
    """
    missing = file_numbers < 0
    indices = _null_at(file_numbers, missing)
    instants = array_of([location.instant_time for location in files], pa.string())
    ids = array_of([location.file_id for location in files], pa.string())
    return append_locations(batch, instants.take(indices), ids.take(indices), _null_at(positions, missing))


def _numbers(column: pa.ChunkedArray, data_type: type[np.generic]) -> np.ndarray:
    """The numbers of a column without nulls."""
    return np.concatenate([numbers_in(chunk, data_type) for chunk in column.chunks])


def _null_at(values: np.ndarray, missing: np.ndarray) -> pa.Array:
    """The numbers as int64, null where they are missing."""
    numbers = indices_of(values)
    if not missing.any():
        return numbers
    return pc.if_else(booleans_of(missing), scalar_of(None, pa.int64()), numbers)


def match_keys(
    keys: pa.Array, table_keys: pa.Array, hashed: MutableMapping[str, HashedKeys] | None = None, name: str = ""
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs (row of ``keys``, entry of ``table_keys`` or -1), each row at least once, in the order of the rows.

    Args:
        keys: Strings.
        table_keys: Strings, in which a key may occur several times.
        hashed: Keeps the hashes of many ``table_keys`` for the next batch.
        name: The name of ``table_keys`` in it.
    """
    if hashed is not None and len(table_keys) > MANY_ENTRIES * len(keys):
        known = hashed.get(name)
        if known is None:
            known = hashed[name] = HashedKeys.of(table_keys)
        return known.match(keys)
    if (table_keys.null_count or not are_surely_distinct(table_keys)) and len(table_keys.unique()) < len(table_keys):
        return HashedKeys.of(table_keys).match(keys)
    entries = pc.index_in(keys, value_set=table_keys)
    return np.arange(len(keys)), np.where(flags_in(entries.is_valid()), numbers_in(entries, np.int32), -1).astype(
        np.int64
    )


def keys_by_partition_path(batch: pa.RecordBatch) -> Iterator[tuple[str, np.ndarray, pa.Array]]:
    """(partition path, row numbers, their record keys) of a batch.

    Args:
        batch: With record key and partition path.
    """
    keys = batch.column(RECORD_KEY)
    for value, rows in rows_by_value(batch.column(PARTITION_PATH)):
        yield value, rows, keys if len(rows) == len(keys) else keys.take(indices_of(rows))
