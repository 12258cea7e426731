"""Carry out a write operation, from records in flight to files on storage and their statuses, without a commit.

Hudi: org.apache.hudi.table.action.commit.BaseCommitActionExecutor.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
    reserved_field,
)
from hoodie.common.model.unprepared_rows import SAMPLED_BAD_ROWS, failure_of
from hoodie.common.model.write_operation_type import (
    ADDS_WITHOUT_BLOCKING,
    HoodieTableType,
    RecordOperation,
    WriteOperationType,
)
from hoodie.common.model.write_status import (
    STATUS_SCHEMA,
    RowsSeen,
    TaskFailure,
    TaskResult,
    WithoutEffect,
    WriteStatus,
    unpack,
)
from hoodie.common.table.clustering_plans import PendingClustering, pending_clusterings, planned_file_groups
from hoodie.common.table.compaction_plans import pending_compactions
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.timeline.instant import Action, commit_action
from hoodie.common.util.class_loading import error_of_class
from hoodie.config.write_options import InputPersistence, InsertDupPolicy
from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting
from hoodie.engine.data import HoodieData, PartitionFunction, Rereading, RowNumbers
from hoodie.engine.engine_context import Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCommitException,
    HoodieDuplicateKeyException,
    HoodieKeyException,
)
from hoodie.execution.insert_handler import upserts_only
from hoodie.index.index import (
    IndexedRecords,
    IndexedTable,
    IndexNotes,
    Locations,
    SnapshotListing,
    TagRequest,
    tag_with_locations,
)
from hoodie.index.places_by_hash import rows_seen_by_hash
from hoodie.io.append_handle import LogPlaces
from hoodie.io.write_context import WriteContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.merge.merge_spec import MergeSpec
from hoodie.metrics.metrics import Step
from hoodie.table.action.cluster.updates_strategy import clusterings_met, look_again
from hoodie.table.action.commit.bucket_info import BucketInfo
from hoodie.table.action.commit.copy_on_write_bucket_handler import CopyOnWriteBucketHandler
from hoodie.table.action.commit.hashed_rows import PlaceRows
from hoodie.table.action.commit.incoming_keys import IncomingKeys, collect_keys
from hoodie.table.action.commit.merge_on_read_bucket_handler import MergeOnReadBucketHandler
from hoodie.table.action.commit.merge_on_read_partitioner import AppendedRecords, MergeOnReadPartitioner
from hoodie.table.action.commit.missing_keys import FirstRows
from hoodie.table.action.commit.named_rows import COUNTS, CountNamed, OwnInserts, OwnRows, added_up
from hoodie.table.action.commit.record_size_sampler import measure_record_size
from hoodie.table.action.commit.small_file_joiner import join_small_files, plan_chains
from hoodie.table.action.commit.two_readings import CountRows, InputReadOtherwise, check_rows_seen, usable_rows
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner, needs_record_size, recorded_record_size
from hoodie.table.action.commit.write_tasks import WriteTasks
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.new_keys_in_logs import groups_with_new_keys
from hoodie.table.table import HoodieTable
from hoodie.table.workload_profile import WorkloadProfile

logger = logging.getLogger(__name__)

_PLACES = (PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME)
BUCKET_HANDLERS = {
    HoodieTableType.COPY_ON_WRITE: CopyOnWriteBucketHandler,
    HoodieTableType.MERGE_ON_READ: MergeOnReadBucketHandler,
}


class BaseCommitActionExecutor(ABC):
    """One write operation on one instant.

    Args:
        table: The table at the start of the write.
        write_context: The context of the tasks.
        key_generator: Explains rows without a key; None when the input brought its keys.

    Hudi: org.apache.hudi.table.action.commit.BaseCommitActionExecutor. Differs: never commits.
    """

    operation: ClassVar[WriteOperationType]
    replaces: ClassVar[bool] = False
    """Whether the operation replaces file groups: then its action is a replacecommit in tables of any type."""
    rewrites: ClassVar[bool] = False
    """Whether stored records are changed by rewriting their base file in tables of any type."""

    def __init__(self, table: HoodieTable, write_context: WriteContext, key_generator: KeyGenerator | None) -> None:
        self._table = table
        self._context = table.context
        self._config = table.config
        self._write_context = write_context
        self._key_generator = key_generator
        self._metrics = table.metrics
        self._shared: list[Shared] = []
        self._without_effect = WithoutEffect()
        self._has_saved_profile = False
        self._clusterings: list[PendingClustering] = []

    @classmethod
    def action_on(cls, table_type: HoodieTableType) -> Action:
        """The action of the operation's instants.

        Args:
            table_type: The type of the table.
        """
        return Action.REPLACE_COMMIT if cls.replaces else commit_action(table_type)

    @property
    def action(self) -> Action:
        """The action of the instant."""
        return self.action_on(self._write_context.table_config.table_type)

    @abstractmethod
    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        """Write the records.

        Args:
            records: Batches in flight as `RecordPreparer` makes them.

        Raises:
            HoodieKeyException: Rows have no usable key; no file was written, or the caller rolls back.
        """

    def _save_workload_profile(self, profile: WorkloadProfile, partitioner: UpsertPartitioner | None) -> None:
        """Save what is going to be written: from here on the instant is inflight, and files may exist.

        Of an input that is planned twice the first profile stays: it only informs.
        """
        if self._has_saved_profile:
            return
        filling = partitioner.inserts_into if partitioner is not None else {}
        content = profile.to_commit_metadata(filling)
        instant_time = self._write_context.instant_time
        snapshot = self._table.snapshot
        # Before the instant is inflight: a rollback meanwhile closes the markers after the instant's files are gone.
        markers = WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)
        is_opened = markers.open()
        is_inflight = False
        try:
            is_inflight = snapshot.active_timeline.transition_requested_to_inflight(instant_time, self.action, content)
        finally:
            if is_opened and not is_inflight:
                markers.close()
        if not is_inflight:
            raise HoodieCommitException(
                f"instant {instant_time} is not waiting to be written: it was written, completed or rolled back "
                "before; start a new one with start_commit()"
            )
        self._table.has_begun = self._has_saved_profile = True
        look_again(self._config, snapshot, self._clusterings)

    def _refuse_rows_without_key(self, records: HoodieData, counts: pa.Table) -> None:
        """Fail when the counted partition paths include nulls: rows whose key or partition cannot be made."""
        missing = counts.filter(pc.is_null(counts[PARTITION_PATH]))
        count = sum(missing["count"].to_pylist())
        if not count:
            return
        sample = records.map_partitions_with_index(_first_bad_rows, records.schema).collect()
        failure = failure_of(sample)
        if failure is not None:
            raise failure
        raise HoodieKeyException(
            f"{count} of the records to {self.operation.value.lower()} have no usable key; nothing was written. "
            + self._explain(sample)
        )

    def _read_input(
        self, records: HoodieData, columns: Sequence[str], collects: bool = True, keys_only: bool = False
    ) -> tuple[IncomingKeys | None, pa.Table, int]:
        """Read the input for the first time; rows without a key are refused.

        Args:
            records: The rows.
            columns: The columns to count the rows by, the partition path among them. Where the keys are at hand, rows
                are counted by the partition path alone.
            collects: Whether keys are wanted.
            keys_only: Whether only keys are wanted: if they are too many, nothing is counted.

        Returns:
            The keys, None where they are too many or not wanted; the counts; and their sum.
        """
        with self._metrics.step("read the input and its keys") as step:
            keys = collect_keys(records) if collects else None
            if keys is None and keys_only:
                return None, pa.table({PARTITION_PATH: [], "count": []}), 0
            counts = keys.count_by_partition() if keys is not None else records.count_by(columns)
            number = sum(counts["count"].to_pylist())
            step.count(records=number)
            self._refuse_rows_without_key(records, counts)
        return keys, counts, number

    def _explain(self, rows: pa.Table | None) -> str:
        if rows is None or not rows.num_rows or self._key_generator is None:
            return "Their record key is null, empty or NaN, or their partition path cannot be made."
        batch = rows.slice(0, SAMPLED_BAD_ROWS).combine_chunks().to_batches()[0]
        return self._key_generator.explain_bad_rows(batch)

    def _combine(self, records: HoodieData, wanted: bool) -> HoodieData:
        """One row for each key and partition path, if wanted; for each key alone where the index is global."""
        if not wanted:
            return records
        with self._metrics.step("combine records of one key"):
            spec = self._table.merge_spec
            if self._table.index.is_global:
                return records.combine_by_key([RECORD_KEY], CombineByRecordKey(spec))
            return records.combine_by_key([RECORD_KEY, PARTITION_PATH], spec.combine_duplicates)

    def _indexed(self, counts: pa.Table, exact: bool = False) -> IndexedTable:
        """The files that the index looks into: those of the partitions that were counted, of all where it is global.

        A global index that names partitions has them listed when it knows them.
        """
        paths = set(counts[PARTITION_PATH].to_pylist())
        names_partitions = self._table.index.names_partitions(self._table.snapshot)
        if self._table.index.is_global and not names_partitions:
            paths.update(self._table.view.list_partitions())
        looks_up = exact or not self._table.index.names_file_groups

        def listed(paths: Sequence[str]) -> tuple[dict[str, Sequence[FileSlice]], frozenset[tuple[str, str]]]:
            found = self._latest_file_slices(paths)
            slices = [part for group in found.values() for part in group if not part.is_base_file_alone]
            return found, groups_with_new_keys(self._table.snapshot, slices if looks_up else ())

        file_slices, new_keys = listed(sorted(paths))
        snapshot, written = self._table.snapshot, self._write_context.records
        return IndexedTable(
            snapshot.storage,
            file_slices,
            self._write_context.base_path,
            IndexedRecords(written.schema, self._table.record_key_fields, written.merge_spec, written.log_merging),
            TagRequest(
                self._write_context.instant_time,
                snapshot.active_timeline.filter_pending().times,
                exact,
                replaced_file_groups=self._replaced_file_groups(),
            ),
            SnapshotListing(snapshot, new_keys, listed if names_partitions else None),
            IndexNotes(metrics=self._metrics, shared=self._shared),
        )

    def _replaced_file_groups(self) -> Mapping[str, frozenset[str]] | None:
        """See `TagRequest`. An operation that replaces file groups must not give new ones the same ids."""
        if not self._config.write.is_non_blocking or self.replaces:
            return None
        replaced: dict[str, set[str]] = {}
        for group in self._table.view.replaced_file_groups():
            replaced.setdefault(group.partition_path, set()).add(group.file_id)
        return {path: frozenset(file_ids) for path, file_ids in replaced.items()}

    def _release_shared(self) -> None:
        """Free the values that tasks were given beside their rows: no such task runs any more."""
        for shared in self._shared:
            shared.release()
        self._shared.clear()

    def _placed(self, records: HoodieData, counts: pa.Table) -> HoodieData:
        """The records of an insert, with their file groups where the index decides these.

        Args:
            records: The rows.
            counts: Their partition paths.
        """
        index = self._table.index
        if not index.names_file_groups:
            return records
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            indexed = self._indexed(counts)
            step.count(files=len(indexed.slices))
            return index.tag_location(records, self._context, indexed)

    def _write_inserts(self, records: HoodieData, given: int | None, by_key: bool = False) -> HoodieWriteMetadata:
        """Write new records to buckets; deletes among them go nowhere.

        Args:
            records: As `_placed` gives them.
            given: The number of records before they were combined; None if it is not known.
            by_key: Whether each bucket is to be sorted by record key.
        """
        with self._metrics.step("build workload profile") as step:
            places = [name for name in _PLACES if name in records.schema.names]
            counted = records.count_by([*places, OPERATION])
            counts = counted.filter(pc.equal(counted[OPERATION], int(RecordOperation.UPSERT))).drop_columns([OPERATION])
            records = records.map_batches(upserts_only, records.schema)
            partitioner = self._plan_buckets(records, counts, step)
        combined, written = sum(counted["count"].to_pylist()), sum(counts["count"].to_pylist())
        self._without_effect += WithoutEffect(
            unmatched_deletes=combined - written, combined=None if given is None else given - combined
        )
        statuses = self._write_buckets(records, partitioner, by_key)
        return HoodieWriteMetadata(self.operation, statuses, without_effect=self._without_effect)

    def _without_keeping(
        self, records: HoodieData, execute: Callable[[HoodieData], HoodieWriteMetadata | None]
    ) -> HoodieWriteMetadata | None:
        """Write an input that is read twice, if that costs less than keeping its rows; see `two_readings`.

        Args:
            records: The rows.
            execute: Writes them; None if it needs rows that are kept.

        Returns:
            None if nothing counts that was written: the rows must be kept.
        """
        if not self._reads_twice(records):
            return None
        try:
            return execute(records)
        except InputReadOtherwise as error:
            logger.warning(
                "%s: %s. The input is read anew and kept; set hoodie.write.input.persist=ALWAYS for such an input",
                self._table.snapshot.base_path,
                error,
            )
            self._without_effect = WithoutEffect()
            return None
        finally:
            self._release_shared()

    def _reads_twice(self, records: HoodieData) -> bool:
        """Whether to read the input twice rather than keep its rows."""
        policy = self._config.write.input_persistence
        if policy is InputPersistence.ALWAYS or records.rereading is Rereading.NO:
            return False
        # Keys that are made of all columns are not cheap.
        keys = records.select([RECORD_KEY, PARTITION_PATH])
        return keys.rereading >= (Rereading.POSSIBLE if policy is InputPersistence.NEVER else Rereading.CHEAP)

    def _count_named(
        self, records: HoodieData, places: Shared, step: Step, routing: BucketRouting | None = None
    ) -> pa.Table:
        """Count rows by the places that their keys name, as `COUNTS`; rows without a key are refused.

        Args:
            records: The rows.
            places: The shared `Locations`, which name one place for each key.
            step: The step that reads the rows.
            routing: See `CountNamed`.
        """
        incoming = records.select([RECORD_KEY, PARTITION_PATH, OPERATION])
        by_task = incoming.map_partitions_with_index(CountNamed(places, routing), COUNTS).collect()
        assert by_task is not None
        found = added_up(by_task)
        step.count(records=sum(found["count"].to_pylist()))
        self._refuse_rows_without_key(records, found)
        return found

    def _count_by_names(self, records: HoodieData) -> tuple[pa.Table, Locations, Shared] | None:
        """Count rows by the file groups that the index names for their keys.

        Args:
            records: The rows, of which the keys are read.

        Returns:
            The counts, as `COUNTS`; and the locations by the table's files, at hand and shared. None if the index needs
            the keys to name file groups.
        """
        index = self._table.index
        with self._metrics.step("read the input and its keys") as step:
            nothing = self._indexed(pa.table({PARTITION_PATH: pa.array([], pa.string())}))
            locations = index.locations_without_keys(self._context, nothing)
            if locations is None:
                return None
            shared = nothing.notes.share(self._context, locations)
            found = self._count_named(records, shared, step, self._bucket_routing)
        indexed = self._indexed(found)
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            step.count(files=len(indexed.slices))
            locations = index.locations_without_keys(self._context, indexed)
            assert locations is not None
        return found, locations, indexed.notes.share(self._context, locations)

    @property
    def _bucket_routing(self) -> BucketRouting | None:
        """The buckets of keys in terms of the engine; None if there are none."""
        return None if self._key_generator is None else self._table.index.bucket_routing(self._key_generator)

    def _bucket_numbers(self, partitioner: UpsertPartitioner, found: pa.Table) -> BucketNumbers | None:
        """The numbers of the buckets of a write in terms of the engine; None if only tasks can tell some.

        Args:
            partitioner: The buckets.
            found: The counts of `_count_by_names`.
        """
        routing = self._bucket_routing
        if routing is None or self._key_generator is None or pc.any(found["has_odd_keys"]).as_py():
            return None
        return partitioner.bucket_numbers(routing, self._key_generator)

    def _write_by_keys(
        self,
        records: HoodieData,
        bucket_of: RowNumbers,
        buckets: tuple[BucketInfo, ...],
        tasks: WriteTasks,
        handler: PartitionFunction,
        seen: RowsSeen,
        is_kept: bool = False,
        row_numbers: str | None = None,
        place_rows: PlaceRows | None = None,
        dealer: InsertRouting | BucketNumbers | None = None,
    ) -> list[WriteStatus]:
        """Send rows to the tasks of their buckets, by a function of their keys; see `_write_buckets`.

        Args:
            records: The rows, which are read a second time.
            bucket_of: The bucket of rows with record key, partition path and operation; null for rows that go nowhere.
            buckets: The work of each bucket number.
            tasks: The tasks of the buckets.
            handler: Writes the rows of a bucket.
            seen: The rows that must come to the tasks.
            is_kept: Whether the rows are kept, so that both readings give the same.
            row_numbers: The column of row numbers, if the handler needs them.
            place_rows: Adds their positions too, where nothing is moved; then the handler needs no row numbers.
            dealer: The buckets in terms of the engine, which may bring rows there itself.

        Raises:
            InputReadOtherwise: See `_write_buckets`.
        """
        with self._metrics.step("write buckets", str(len(buckets))) as step:
            added = row_numbers if row_numbers not in records.schema.names else None
            # Rows that are kept in the memory of this process cannot differ.
            are_sure = is_kept and self._context.shares_memory
            write = handler if are_sure else CountRows(handler, rows_seen_by_hash)
            number, task_of = tasks.count, tasks.task_of
            dealt = None if dealer is None else records.route_in_engine(dealer, BUCKET, number, added, task_of)
            if dealt is not None:
                is_new = isinstance(dealer, InsertRouting)
                run = tasks.running(OwnInserts(write, buckets) if is_new else OwnRows(write, bucket_of))
                written = dealt.map_partitions_with_index(run, STATUS_SCHEMA)
            else:
                if place_rows is not None:
                    placed = records.map_batches(place_rows, place_rows.schema(records.schema))
                    routed = placed.route(BUCKET, number, task_of)
                else:
                    columns = [RECORD_KEY, PARTITION_PATH, OPERATION]
                    routed = records.route_by(columns, bucket_of, BUCKET, number, added, task_of)
                usable = routed.map_batches(usable_rows, routed.schema)
                written = usable.map_partitions_with_index(tasks.running(write), STATUS_SCHEMA)
            statuses = self._statuses(written, step, None if are_sure else seen, is_kept)
        return self._join_small_files(statuses)

    def _without_stored(
        self, records: HoodieData, policy: InsertDupPolicy, keys: IncomingKeys | None, counts: pa.Table, number: int
    ) -> tuple[HoodieData, int | None]:
        """Drop or refuse rows whose key is in the table, as the policy says.

        Args:
            records: The rows, numbered and persisted.
            policy: The treatment of such rows; NONE keeps them.
            keys: See `_read_input`.
            counts: See `_read_input`.
            number: See `_read_input`.

        Returns:
            The remaining rows; and their number, None if that is not known.

        Raises:
            HoodieDuplicateKeyException: The policy refuses such rows, and there are some.
        """
        if policy is InsertDupPolicy.NONE:
            return records, number
        indexed = self._indexed(counts, exact=True)
        indexed = attrs.evolve(indexed, request=attrs.evolve(indexed.request, stays=True))
        new_count: int | None
        with self._metrics.step("tag location", self._config.index.index_name) as step:
            step.count(files=len(indexed.slices))
            if keys is not None:
                locations = self._table.index.find_locations(keys.table, self._context, indexed)
                tagged = tag_with_locations(records, indexed.notes.share(self._context, locations))
                located = keys.count_by_location(locations)
                matches = _found_rows(located.counts)
                new_count = sum(located.counts["count"].to_pylist()) - matches + located.unmatched_deletes
            else:
                tagged = self._table.index.tag_location(records, self._context, indexed)
                new_count = number if policy is InsertDupPolicy.FAIL else None
                matches = _found_rows(tagged.count_by([CURRENT_FILE_ID])) if policy is InsertDupPolicy.FAIL else 0
        self._refuse_known_keys(policy, matches)
        if new_count is not None:
            self._without_effect += WithoutEffect(kept=number - new_count)
        return tagged.map_batches(NotFound(tuple(records.schema.names)), records.schema), new_count

    def _refuse_known_keys(self, policy: InsertDupPolicy, matches: int) -> None:
        """Fail an insert of rows whose key is in the table, if the policy says so."""
        if policy is InsertDupPolicy.FAIL and matches:
            raise HoodieDuplicateKeyException(
                f"the keys of {matches} of the records to {self.operation.value.lower()} are in the table; nothing was "
                "written. Give hoodie.datasource.insert.dup.policy=drop to pass over them, none to add them again, or "
                "upsert them"
            )

    def _limited(self, records: HoodieData, parallelism: int) -> HoodieData:
        """The records, their shuffles done, in at most ``parallelism`` tasks; with 0, in as many as they come in."""
        if records.has_shuffles:
            with self._metrics.step("shuffle the input"):
                records = records.shuffled()
        return records.coalesce(parallelism) if parallelism else records

    def _plan_buckets(
        self, records: HoodieData, counts: pa.Table, step: Step, begins: bool = True
    ) -> UpsertPartitioner:
        """Decide which buckets the rows go to.

        Args:
            records: The rows.
            counts: The rows by partition path and location, as `WorkloadProfile.from_counts` takes them.
            step: The step that counts them.
            begins: Whether the plan is saved, which makes the instant inflight.
        """
        profile = WorkloadProfile.from_counts(self.operation, counts)
        partitioner = self._partitioner(profile, records)
        if begins:
            self._save_workload_profile(profile, partitioner)
        step.count(records=sum(counts["count"].to_pylist()))
        return partitioner

    def _partitioner(self, profile: WorkloadProfile, records: HoodieData) -> UpsertPartitioner:
        is_copy_on_write = self._write_context.table_config.table_type is HoodieTableType.COPY_ON_WRITE
        record_size = None
        if any(stat.num_free for stat in profile.stats.values()):
            record_size = recorded_record_size(self._table.completed_commits_newest_first(), self._config)
        if record_size is None and needs_record_size(profile, self._config):
            with self._metrics.step("measure the size of records"):
                record_size = measure_record_size(records, self._write_context)
        if record_size is None:
            record_size = self._config.compaction.copy_on_write_record_size_estimate
        slices = self._slices_to_fill(profile)
        if is_copy_on_write:
            return UpsertPartitioner(profile, self._config, slices, record_size)
        timeline = self._table.snapshot.active_timeline
        places = LogPlaces(
            self._write_context.instant_time,
            timeline.layout.has_completion_times,
            names_slices=self._write_context.logging_mode is not None,
            compactions=pending_compactions(timeline),
        )
        appended = AppendedRecords(
            updates=not self.rewrites,
            inserts=self._table.index.puts_inserts_into_logs,
            new_groups=self._config.write.is_non_blocking and self.operation in ADDS_WITHOUT_BLOCKING,
        )
        return MergeOnReadPartitioner(profile, self._config, slices, record_size, places, appended)

    def _slices_to_fill(self, profile: WorkloadProfile) -> Mapping[str, Sequence[FileSlice]]:
        """Partition path to the file slices that rows may go to: the latest ones."""
        return self._not_clustered(profile, self._table.latest_file_slices(profile.stats))

    def _not_clustered(
        self, profile: WorkloadProfile, slices: dict[str, Sequence[FileSlice]]
    ) -> dict[str, Sequence[FileSlice]]:
        """The slices without those that a pending clustering rewrites, which inserts must not fill.

        Those that updates change, and that the clustering will leave out, stay.

        Raises:
            HoodieClusteringUpdateException: Stored records of such files are to be changed, and the clustering wins.
        """
        pending = pending_clusterings(self._table.snapshot.active_timeline)
        if not pending:
            return slices
        clustered = {group for one in pending for group in planned_file_groups(one.plan)}
        touched = {(path, location.file_id) for path, stat in profile.stats.items() for location in stat.updates}
        self._clusterings = clusterings_met(self._config.clustering, self._table.snapshot, pending, touched)
        return {
            path: [part for part in group if (path, part.file_id) in touched or (path, part.file_id) not in clustered]
            for path, group in slices.items()
        }

    def _write_buckets(
        self,
        records: HoodieData,
        partitioner: UpsertPartitioner,
        by_key: bool = False,
        expected: RowsSeen | None = None,
    ) -> list[WriteStatus]:
        """Send rows to the tasks of their buckets, which write them.

        Args:
            records: The rows.
            partitioner: The buckets.
            by_key: Whether each bucket is to be sorted by record key.
            expected: The rows that must come to the tasks, if the input is read again for them; None if it was kept.

        Raises:
            InputReadOtherwise: Other rows came to the tasks. Files were written, of which the commit must not know.
        """
        number = len(partitioner.buckets)
        if not number:
            return []
        with self._metrics.step("write buckets", str(number)) as step:
            assigner = partitioner.assigner(drops_unknown=expected is not None)
            dealt = records.map_batches(assigner, records.schema.append(reserved_field(BUCKET)))
            tasks = self._write_tasks(partitioner)
            routed = dealt.route(BUCKET, tasks.count, tasks.task_of)
            if by_key:
                routed = routed.sort_within([BUCKET, RECORD_KEY])
            handler_class = BUCKET_HANDLERS[self._write_context.table_config.table_type]
            handler: PartitionFunction = handler_class(self._write_context, tuple(partitioner.buckets))
            if expected is not None:
                handler = CountRows(handler)
            written = routed.map_partitions_with_index(tasks.running(handler), STATUS_SCHEMA)
            statuses = self._statuses(written, step, expected)
        return self._join_small_files(statuses)

    def _write_tasks(self, partitioner: UpsertPartitioner) -> WriteTasks:
        """The tasks that write the buckets of a write."""
        return WriteTasks.of(partitioner.bucket_bytes, self._context.least_write_tasks)

    def _join_small_files(self, statuses: list[WriteStatus]) -> list[WriteStatus]:
        """Leave at most one small file a partition, where the size of records was not what was expected."""
        if self._table.index.names_file_groups or not plan_chains(statuses, self._config):
            return statuses
        with self._metrics.step("join small files") as step:
            joined = join_small_files(statuses, self._write_context, self._context)
            step.count(files=len(statuses) - len(joined))
            return joined

    def _statuses(
        self, written: HoodieData, step: Step, expected: RowsSeen | None = None, is_kept: bool = False
    ) -> list[WriteStatus]:
        """Run the writing tasks, as a step.

        Args:
            written: The results of the tasks.
            step: The step.
            expected: See `check_rows_seen`.
            is_kept: See `check_rows_seen`.

        Raises:
            HoodieException: A task failed; the failure names the class.
            InputReadOtherwise: See `_write_buckets`.
        """
        results = unpack(written.collect())
        check_rows_seen(results, expected, is_kept)
        return self._written(results, step)

    def _written(self, results: Sequence[TaskResult], step: Step) -> list[WriteStatus]:
        """The statuses among the results of writing tasks; see `_statuses`."""
        failures = [result for result in results if isinstance(result, TaskFailure)]
        if failures:
            count = sum(failure.count for failure in failures)
            raise error_of_class(
                failures[0].error_class,
                f"{count} of the records to {self.operation.value.lower()} cannot be written. {failures[0].message}",
            )
        statuses = [result for result in results if isinstance(result, WriteStatus)]
        self._without_effect += sum((r for r in results if isinstance(r, WithoutEffect)), WithoutEffect())
        step.count(
            records=sum(status.stat.num_writes for status in statuses),
            files=len(statuses),
            bytes=sum(status.stat.total_write_bytes for status in statuses),
        )
        return statuses

    def _latest_file_slices(self, partition_paths: Sequence[str]) -> dict[str, Sequence[FileSlice]]:
        """The latest file slices of partitions."""
        with self._metrics.step("list base files") as step:
            slices = self._table.latest_file_slices(partition_paths)
            listed = [file_slice.base_file for group in slices.values() for file_slice in group]
            sizes = [base_file.size_bytes for base_file in listed if base_file is not None]
            step.count(files=len(sizes), bytes=sum(sizes))
        return slices


@attrs.frozen
class CombineByRecordKey:
    """One row for each record key, whatever its partition path; crosses to tasks.

    Attributes:
        spec: The table's rules.
    """

    spec: MergeSpec

    def __call__(self, rows: pa.Table) -> pa.Table:
        """The rows that remain, in the columns given."""
        combined = self.spec.combine_duplicates(rows.drop_columns([PARTITION_PATH]))
        places = pc.index_in(combined[ROW_NUMBER], value_set=rows[ROW_NUMBER].combine_chunks())
        paths = rows[PARTITION_PATH].combine_chunks().take(places.combine_chunks())
        return combined.append_column(PARTITION_PATH, paths).select(rows.column_names)


@attrs.frozen
class NotFound:
    """Tagged rows whose key is not in the table, in the columns that they came with."""

    columns: tuple[str, ...]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(batch.column(CURRENT_FILE_ID).is_null()).select(self.columns)


def _found_rows(counts: pa.Table) -> int:
    """The number of counted rows that have a location."""
    return sum(counts.filter(counts[CURRENT_FILE_ID].is_valid())["count"].to_pylist())


def _first_bad_rows(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    bad = (batch.filter(batch.column(PARTITION_PATH).is_null()) for batch in batches)
    return FirstRows(SAMPLED_BAD_ROWS)(task, bad)
