"""Build partitions of the metadata table beside writers.

========  ====  ====================================================  ===================================
step      lock  what happens                                          what a death leaves
========  ====  ====================================================  ===================================
begin     held  the instant becomes inflight, the place is cleared,   a plan
                and the table is listed
build     free  base files of the table as it was listed              files of an instant that nobody knows
finish    held  what has changed since then is added; the             the same; or partitions that are
                partitions are listed                                 ready
complete  held  the instant                                           partitions that are ready, and a plan
                                                                      that the next attempt completes
========  ====  ====================================================  ===================================

Readers and writers use a partition once it is listed. Then it holds every completed action, and all that completes an
action later records it, because `complete_instant` reads the properties under the lock. So writers need not know of the
building, and an attempt that died is begun anew.

Hudi: org.apache.hudi.table.action.index.RunIndexActionExecutor. Differs: writers record nothing in partitions that are
being built, and nothing is caught up one action after the other; ``docs/decisions/0112-partitions-beside-writers.md``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import attrs

from hoodie.avro.service_metadata import HoodieIndexCommitMetadata, HoodieIndexPartitionInfo
from hoodie.common.table.index_plans import read_index_plan
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.exception import HoodieException, HoodieIndexException, HoodieRollbackException
from hoodie.metadata.metadata_indexes import BuildingSite, MetadataIndexes
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metadata.reader.metadata_table_files import metadata_folder
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join
from hoodie.table.action.completion import complete_instant
from hoodie.table.action.takeover import Takeover

logger = logging.getLogger(__name__)

_FILES = MetadataPartitionType.FILES.partition_path
_ATTEMPTS = 4
"""How often the building is begun anew where files that it reads were deleted meanwhile."""


class IndexTakeover(Takeover):
    """Takes over indexings; nothing is undone in between, as the next attempt clears the place when it begins."""

    kind = Action.INDEXING
    missing_error = HoodieIndexException
    taken_error = HoodieIndexException
    is_alone = False

    @contextmanager
    def locked(self, snapshot: TableSnapshot, what: str) -> Iterator[TableSnapshot]:
        """See `Takeover.locked`; the metadata table may be changed."""
        with self.session.transactions.held(snapshot, what):
            yield snapshot.with_properties_reloaded().refreshed()

    def rivals(self, table: TableSnapshot, instant: HoodieInstant) -> Iterable[HoodieInstant]:
        """All pending indexings: one process at a time builds partitions of a table."""
        return table.active_timeline.filter_actions(Action.INDEXING).filter_pending()

    def files_of_attempt(self, table: TableSnapshot, instant: HoodieInstant) -> Iterable[FileStatus]:
        """Hudi's indexings list what they build: the inflight file, and the files of these partitions."""
        plan = read_index_plan(table.active_timeline, instant)
        paths = set(plan.partition_paths) & set(table.table_config.metadata_partitions_inflight)
        if not paths:
            return []
        begun = table.storage.file_status(table.active_timeline.path_of(instant))
        files = [file for name in paths for file in table.storage.list_directory(join(metadata_folder(table), name))]
        return [*([] if begun is None else [begun]), *files]

    def another_way(self, instant_time: str) -> str:
        """None: a rollback takes the plan back, too, and refuses while a process lives."""
        return ""


@attrs.frozen(eq=False)
class RunIndexActionExecutor:
    """Carries an indexing out, or takes it back. Lives on the driver.

    Attributes:
        snapshot: The table.
        upkeep: The upkeep of its metadata table; runs the tasks.
        takeover: Sees to it that one process at a time builds partitions; has the table's lock.

    Hudi: org.apache.hudi.table.action.index.RunIndexActionExecutor.
    """

    snapshot: TableSnapshot
    upkeep: MetadataTableUpkeep
    takeover: IndexTakeover

    def execute(self, instant_time: str) -> HoodieIndexCommitMetadata | None:
        """Build what the plan names.

        Args:
            instant_time: The indexing.

        Returns:
            What was built; None if it was completed already.

        Raises:
            HoodieException: See `BaseHoodieTableServiceClient.index`.
        """

        def work(check_alive: Callable[[], None]) -> HoodieIndexCommitMetadata:
            for attempt in range(1, _ATTEMPTS + 1):
                site = self._begin(instant_time, check_alive)
                try:
                    return self._build(instant_time, site, check_alive)
                except HoodieException as error:
                    if attempt == _ATTEMPTS or site is None or not self._has_lost_files(site):
                        raise
                    logger.warning("building %s anew: %s", ", ".join(site.partitions), error)
            raise AssertionError("unreachable")

        return self.takeover.carry_out(self.snapshot, instant_time, work)

    def take_back(self, instant_time: str) -> bool:
        """Take an indexing back that is not completed: delete what was built, and then the instant.

        Partitions that it has listed already stay: they are right.

        Args:
            instant_time: The indexing.

        Returns:
            False if there is no such pending indexing.

        Raises:
            HoodieRollbackException: It is completed.
            HoodieIndexException: A process that is alive is carrying it out.
            HoodieIOException: Storage failed; call again.
        """
        with self._locked(f"taking back indexing {instant_time}") as (table, _):
            found = table.active_timeline.find(instant_time, Action.INDEXING)
            if found is None:
                return False
            if found.is_completed:
                raise HoodieRollbackException(
                    f"indexing {instant_time} of {table.base_path} is completed: a write with the option of an index "
                    "set to false drops it"
                )
            self.takeover.refuse_if_alive(table, found)
            plan = read_index_plan(table.active_timeline, found)
            table = MetadataIndexes(table, self.upkeep).delete_unlisted(instant_time, plan)
            table.active_timeline.delete_pending(instant_time, Action.INDEXING)
            table.storage.delete_file(table.heartbeat_path(instant_time))
        return True

    # --- steps ------------------------------------------------------------------------------------------------------

    def _begin(self, instant_time: str, check_alive: Callable[[], None]) -> BuildingSite | None:
        """Make the instant inflight, and clear the place; None if its partitions are listed already."""
        with self._locked(f"beginning of indexing {instant_time}") as (table, check):
            check()
            check_alive()
            timeline = table.active_timeline
            found = timeline.find(instant_time, Action.INDEXING)
            if found is None or found.is_completed:
                raise HoodieIndexException(f"indexing {instant_time} of {table.base_path} was taken back meanwhile")
            plan = read_index_plan(timeline, found)
            if not plan.partition_paths:
                raise HoodieIndexException(
                    f"indexing {instant_time} of {table.base_path} has no plan, since its process died: take it back "
                    f"with client.rollback('{instant_time}')"
                )
            if _FILES not in table.table_config.metadata_partitions:
                raise HoodieIndexException(
                    f"{table.base_path} has no metadata table now, of which {', '.join(plan.partition_paths)} would be "
                    "part: the next write builds it anew; then call again"
                )
            MetadataTable(table).refuse_misplaced_times(", ".join(plan.partition_paths))
            timeline.transition_requested_to_inflight(instant_time, Action.INDEXING)
            return MetadataIndexes(table, self.upkeep).begin_building(instant_time, plan)

    def _build(
        self, instant_time: str, site: BuildingSite | None, check_alive: Callable[[], None]
    ) -> HoodieIndexCommitMetadata:
        """Build without the lock; then finish and complete the instant under it."""
        stats = []
        if site is not None:
            indexes = MetadataIndexes(site.listed.table, self.upkeep)
            stats = indexes.build(site, check_alive)
        with self._locked(f"end of indexing {instant_time}") as (table, lock_check):

            def check() -> None:
                lock_check()
                check_alive()

            check()
            found = table.active_timeline.find(instant_time, Action.INDEXING)
            if found is None or found.is_completed:
                raise HoodieIndexException(f"indexing {instant_time} of {table.base_path} was taken back meanwhile")
            plan = read_index_plan(table.active_timeline, found)
            if site is not None:
                if _FILES not in table.table_config.metadata_partitions:
                    raise HoodieIndexException(
                        f"the metadata table of {table.base_path} was dropped while {', '.join(site.partitions)} was "
                        "built: the next write builds it anew; then call again"
                    )
                table = MetadataIndexes(table, self.upkeep).finish_building(site, stats, plan, check)
            last = table.active_timeline.completed_writes().last_instant
            upto = plan.index_partition_infos[0].index_upto_instant if last is None else last.requested_time
            infos = tuple(HoodieIndexPartitionInfo(path, upto) for path in plan.partition_paths)
            metadata = HoodieIndexCommitMetadata(infos)
            complete_instant(table, instant_time, Action.INDEXING, metadata, check, self.upkeep)
        return metadata

    # --- parts ------------------------------------------------------------------------------------------------------

    @contextmanager
    def _locked(self, what: str) -> Iterator[tuple[TableSnapshot, Callable[[], None]]]:
        """Hold the lock for a block; gives the table as it is then, and what raises where the lock was lost."""
        with self.takeover.session.transactions.held(self.snapshot, what) as transaction:
            yield self.snapshot.with_properties_reloaded().refreshed(), transaction.check_held

    def _has_lost_files(self, site: BuildingSite) -> bool:
        """Whether files of the table that was listed are not committed any more."""
        table = self.snapshot.with_properties_reloaded().refreshed()
        return MetadataIndexes(table, self.upkeep).has_lost_files(site)
