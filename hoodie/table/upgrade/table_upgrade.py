"""Upgrade a table of version 6 to 8 or 9, or 8 to 9, and downgrade it, such that it is whole at every moment.

The steps, under the table's lock:

1. What an earlier run left is deleted. Pending instants and living writers are refused, and log files that must be
   compacted first (`hoodie.client.table_version` does so).
2. The metadata table is switched off.
3. The folder of layout 2 gets a file that announces the change (`UPGRADE_FILE_NAME`). Then all files of the new
   timeline and of the new archive are written, beside the old ones.
4. The properties are replaced, at once. Until then the table is what it was; from then on it has the new version.
5. The files of the old timeline are deleted, pending states first, completed ones newest first; then the announcement.

A run that dies in step 3 leaves a table of the old version, with files that no reader uses. One that dies in step 5
leaves a table of the new version, likewise. The next run, in either direction, deletes these files first.

Hudi: org.apache.hudi.table.upgrade.UpgradeDowngrade. Differs: Hudi moves one file after the other, and writes the
properties last.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise

import attrs

from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.clustering_plans import PendingClustering, pending_clusterings
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import format_instant_time, in_order, is_after
from hoodie.common.table.timeline.moved_commits import moved_commits, other_layout, refusal_of_moved_commits
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER, TimelineLayout
from hoodie.common.table.timeline.timeline_listing import UPGRADE_FILE_NAME
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieHeartbeatException,
    HoodieNotSupportedException,
)
from hoodie.metadata.metadata_table import MetadataTable
from hoodie.metadata.reader.index_definition_file import adapt_index_definitions
from hoodie.storage.storage_path import file_name, join, parent
from hoodie.table.open_table import look_at_table
from hoodie.table.repair.repaired_table import check_flags
from hoodie.table.upgrade.archive_copy import ArchiveCopy, ArchiveOfHistory, HistoryOfArchive
from hoodie.table.upgrade.completion_order import CompletedInstant, completion_times_of, time_of_change
from hoodie.table.upgrade.log_files import (
    LogFilesLeftException,
    UncompactedTable,
    misplaced_log_file,
    savepoint_with_log_files,
)
from hoodie.table.upgrade.timeline_copy import TimelineCopy, TimelineFiles
from hoodie.table.upgrade.version_change import TableVersionChange, changed_properties
from hoodie.table.upgrade.version_properties import (
    LAYOUT_OF_VERSION,
    key_generator_problem,
    properties_in_version,
)
from hoodie.transaction.heartbeat_client import is_heartbeat_expired
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_HISTORY = join(TIMELINE_FOLDER, "history")
_FINISHED_BY: Mapping[Action, str] = {
    Action.CLEAN: "clean() of a write client finishes it",
    Action.ROLLBACK: "rollback_failed_writes() of a write client, or its next write, finishes it",
    Action.RESTORE: "restore_to_instant() or restore_to_savepoint() of a write client, called again, finishes it",
    Action.COMPACTION: "compact() of a write client carries it out",
    Action.LOG_COMPACTION: "log_compact() of a write client carries it out",
    Action.SAVEPOINT: "savepoint() of a write client, called again, finishes it, and delete_savepoint() removes it",
}
_INCREMENTAL_READERS = (
    "incremental readers that begin at the requested time of the last commit that they have seen get that commit "
    "again: begin at its time of completion, which history() tells"
)
_OLD_LOG_FILES = (
    "time travel of Hudi 0.15 to a moment before this finds only rows of the last log file of a file group, where log "
    "files of that time are left: use hoodie for it, or clean them away"
)
_BY_HUDI = "let Hudi finish it, or roll it back"


def change_table_version(
    config: HoodieWriteConfig, to_version: int, *, is_upgrade: bool, dry_run: bool = False
) -> TableVersionChange:
    """Upgrade or downgrade a table whose slices have no log files that stand against it.

    Args:
        config: The configuration of the table's writers.
        to_version: 6, 8 or 9.
        is_upgrade: Whether the caller asks for an upgrade; False asks for a downgrade.
        dry_run: Change nothing.

    Raises:
        LogFilesLeftException: The table must be compacted first.
        HoodieException: See `HoodieTableMetaClient.upgrade`.
    """
    check_flags(dry_run=dry_run)
    if not isinstance(to_version, int) or to_version not in LAYOUT_OF_VERSION:
        raise HoodieConfigException(
            f"to_version is {to_version!r}: give one of {', '.join(map(str, LAYOUT_OF_VERSION))}; nothing was changed"
        )
    snapshot = _load(config)
    snapshot.check_named_by(config.base_path)
    change = partial(_VersionChange, config, to_version, is_upgrade)
    if dry_run:
        return change(snapshot, _no_check, is_dry_run=True).run()
    transactions = TransactionManager(config)
    try:
        transactions.check(snapshot)
        name = f"{'upgrade' if is_upgrade else 'downgrade'} to version {to_version}"
        with transactions.transaction(snapshot, name) as transaction:
            result = change(_load(config), transaction.check_held).run()
            HoodieTableConfig.forget_fence(snapshot.storage, snapshot.base_path)
            return result
    finally:
        transactions.close()


def _load(config: HoodieWriteConfig) -> TableSnapshot:
    return look_at_table(config)


def _no_check() -> None:
    pass


class _VersionChange:
    """One run.

    Args:
        config: The configuration of the table's writers.
        to_version: The version that the table is to have.
        is_upgrade: Whether the caller asks for an upgrade; False asks for a downgrade.
        snapshot: The table, loaded under its lock.
        check_held: Checks the lock, right before a step that cannot be taken back.
        is_dry_run: Whether nothing is changed.
    """

    def __init__(
        self,
        config: HoodieWriteConfig,
        to_version: int,
        is_upgrade: bool,
        snapshot: TableSnapshot,
        check_held: Callable[[], None],
        is_dry_run: bool = False,
    ) -> None:
        self._config = config
        self._to_version = to_version
        self._is_upgrade = is_upgrade
        self._snapshot = snapshot
        self._check_held = check_held
        self._is_dry_run = is_dry_run
        self._storage = snapshot.storage
        self._announcement = join(snapshot.meta_path, TIMELINE_FOLDER, UPGRADE_FILE_NAME)

    def run(self) -> TableVersionChange:
        stored = self._snapshot.table_config
        version = stored.table_version
        self._check_direction(version)
        result = TableVersionChange(self._snapshot.base_path, version, self._to_version, is_dry_run=self._is_dry_run)
        if self._storage.exists(self._announcement):
            result = attrs.evolve(result, finished_earlier_run=True)
            if self._is_dry_run:
                self._refuse_moved_commits()
            else:
                # From here on a process that is still at work there cannot switch over to what is deleted.
                stored.fence(self._storage, self._snapshot.base_path)
                self._delete_old(self._other_layout())
                logger.warning(
                    "deleted what an upgrade or downgrade of %s that had died left behind", self._snapshot.base_path
                )
        else:
            self._refuse_files_of_others()
        if version == self._to_version:
            return result
        self._refuse()
        changed = properties_in_version(stored, self._to_version)
        if changed.problems:
            raise self._not_possible(changed.problems)
        target = HoodieTableConfig({**changed.properties, **stored.without_metadata_table()})
        result = attrs.evolve(
            result, metadata_partitions=stored.listed_metadata_partitions, notes=changed.notes,
            properties=changed_properties(stored.properties, self._with_metadata_keys(changed.properties)),
        )  # fmt: skip
        target.check_writable()
        uncompacted = UncompactedTable.of(self._snapshot) if self._needs_compacted_table else UncompactedTable()
        if uncompacted:
            if not self._is_dry_run:
                raise self._uncompacted(uncompacted, result.finished_earlier_run)
            count = len({(part.partition_path, part.file_id) for part in uncompacted.slices})
            result = attrs.evolve(result, compacted_file_groups=count, compactions=uncompacted.pending)
        if self._has_same_layout:
            if not self._is_dry_run:
                self._switch_off_metadata_table()
                self._switch(changed.properties, self._fence())
        else:
            result = self._move(result, changed.properties)
        if not self._is_dry_run:
            logger.info("%s", result.headline)
        return result

    # --- what is refused ----------------------------------------------------------------------------------------

    def _check_direction(self, version: int) -> None:
        if self._is_upgrade and version > self._to_version:
            wrong, right = "upgraded", "downgrade"
        elif not self._is_upgrade and version < self._to_version:
            wrong, right = "downgraded", "upgrade"
        else:
            return
        raise HoodieConfigException(
            f"{self._snapshot.base_path} is of version {version}, and cannot be {wrong} to {self._to_version}: use "
            f"HoodieTableMetaClient.{right}; nothing was changed"
        )

    def _refuse(self) -> None:
        """Refuse a table that cannot be changed as it is.

        Raises:
            HoodieNotSupportedException: A property stands against it, or an index of the metadata table.
            HoodieCommitException: Instants are pending.
            HoodieHeartbeatException: A writer is alive.
        """
        self._snapshot.table_config.check_writable()
        if self._config.metadata.enable is not False:
            MetadataTable(self._snapshot).refuse_loss_of_indexes()
        problem = key_generator_problem(self._snapshot.table_config, self._config.properties)
        if problem is not None:
            raise self._not_possible([problem])
        pending = self._snapshot.active_timeline.filter_pending()
        compactions = pending.filter_actions(Action.COMPACTION).times if self._needs_compacted_table else frozenset()
        clusterings = {one.instant: one for one in pending_clusterings(self._snapshot.active_timeline)}
        withdrawn = [instant for instant, one in clusterings.items() if self._may_be_withdrawn(one)]
        others = [one for one in pending if one.requested_time not in compactions and one not in withdrawn]
        if others:
            listed = ", ".join(f"{i.action} {i.requested_time} ({self._way_out(i, i in clusterings)})" for i in others)
            raise HoodieCommitException(
                f"the version of {self._snapshot.base_path} cannot be changed while instants are pending: {listed}; "
                "nothing was changed"
            )
        folder = parent(self._snapshot.heartbeat_path("0"))
        alive = [
            status.name
            for status in self._storage.list_directory(folder)
            # Who carries compactions out asks whether somebody else does; and what is completed has no writer any more.
            if status.name not in compactions | self._snapshot.active_timeline.completed_writes().times
            and not status.is_directory
            and not is_heartbeat_expired(self._snapshot, status.name, self._config.write)
        ]
        if alive:
            raise HoodieHeartbeatException(
                f"the version of {self._snapshot.base_path} cannot be changed while writers are at work: "
                f"{', '.join(alive)} have living heartbeats in {folder}. Stop these writers, and call again once the "
                "heartbeats have expired; nothing was changed"
            )
        problem = savepoint_with_log_files(self._snapshot) if self._needs_compacted_table else None
        if problem is not None:
            raise self._not_possible([problem])
        if withdrawn and not self._is_dry_run:
            for instant in withdrawn:
                self._snapshot.active_timeline.withdraw_requested(instant.requested_time, instant.action)
            self._snapshot = self._snapshot.refreshed()

    def _may_be_withdrawn(self, clustering: PendingClustering) -> bool:
        """Whether a pending clustering is a plan of hoodie that nobody carries out: it can be planned again."""
        instant = clustering.instant
        is_dead = is_heartbeat_expired(self._snapshot, instant.requested_time, self._config.write)
        return clustering.gives_way and instant.is_requested and is_dead

    def _uncompacted(self, uncompacted: UncompactedTable, finished_earlier_run: bool) -> LogFilesLeftException:
        return LogFilesLeftException(
            f"the version of {self._snapshot.base_path} cannot be changed from {self._version} to {self._to_version} "
            f"while {uncompacted.told}. Compact the table first: call compact() of a write client until it returns "
            "None, then call again; the version was not changed",
            finished_earlier_run,
        )

    @property
    def _is_merge_on_read(self) -> bool:
        return self._snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ

    @property
    def _needs_compacted_table(self) -> bool:
        """Whether log files have other names in the other version."""
        return self._is_merge_on_read and not self._has_same_layout

    @property
    def _version(self) -> int:
        return self._snapshot.table_config.table_version

    @property
    def _has_same_layout(self) -> bool:
        return LAYOUT_OF_VERSION[self._version] == LAYOUT_OF_VERSION[self._to_version]

    def _way_out(self, instant: HoodieInstant, is_clustering: bool) -> str:
        action, time = instant.action, instant.requested_time
        if is_clustering:
            return f"client.cluster({time!r}) carries it out, client.rollback({time!r}) gives it up"
        if action in COMMIT_ACTIONS:
            return "rollback_failed_writes() of a write client rolls it back, once its writer is dead"
        return _FINISHED_BY.get(action, _BY_HUDI)

    def _not_possible(self, problems: tuple[str, ...] | list[str]) -> HoodieNotSupportedException:
        return HoodieNotSupportedException(
            f"{self._snapshot.base_path} cannot be brought to version {self._to_version}, and nothing was changed: "
            f"{'; '.join(problems)}"
        )

    def _refuse_files_of_others(self) -> None:
        """Refuse what an upgrade or downgrade of Hudi left half-way: its files are moved one by one."""
        files = TimelineFiles.of(self._storage, self._snapshot.meta_path, self._other_layout())
        if files.completed:
            raise HoodieCommitException(
                f"{files.folder} has completed instants, such as {next(iter(files.completed))}, though the table "
                f"{self._snapshot.base_path} is of version {self._snapshot.table_config.table_version}: another "
                "program's upgrade or downgrade has not ended. Let it finish, or run it again; nothing was changed"
            )

    def _refuse_moved_commits(self) -> None:
        """Refuse to go on where the table's timeline lacks commits that are in the other one."""
        table_config = HoodieTableConfig.load(self._storage, self._snapshot.base_path)
        moved = moved_commits(self._storage, self._snapshot.meta_path, table_config)
        if moved:
            why = refusal_of_moved_commits(self._snapshot.meta_path, table_config, moved)
            raise HoodieCommitException(f"{self._snapshot.base_path}: {why}. Nothing was deleted")

    # --- steps --------------------------------------------------------------------------------------------------

    def _other_layout(self) -> TimelineLayout:
        return other_layout(self._snapshot.table_config)

    def _move(self, result: TableVersionChange, properties: Mapping[str, str]) -> TableVersionChange:
        """Write the timeline and the archive of the other layout, and switch over to them."""
        meta_path, timeline = self._snapshot.meta_path, self._snapshot.active_timeline
        files = TimelineFiles.of(self._storage, meta_path, timeline.layout)
        target = self._other_layout()
        archive = self._archive_copy(target, properties)
        archived = [self._as_completed(one) for one in archive.completed()]
        active = files.completed
        times = completion_times_of(
            [
                *(one for one in archived if one.instant.key not in files.instants),
                *(
                    self._as_completed(
                        CompletedInstant(instant, time_of_change(status.modification_time_ms, timeline.timezone))
                    )
                    for instant, status in active.items()
                ),
            ],
            format_instant_time(datetime.now(UTC), timeline.timezone),
        )
        if timeline.layout.has_completion_times:
            times |= {one.instant.key: one.changed_at for one in archived if one.changed_at}
            times |= {i.key: i.completion_time for i in active if i.completion_time is not None}
            old = [_OLD_LOG_FILES] if self._is_merge_on_read else []
            result = attrs.evolve(result, notes=(*result.notes, *self._order_notes(times), *old))
        else:
            result = attrs.evolve(result, notes=(*result.notes, _INCREMENTAL_READERS))
        if self._is_merge_on_read and not result.compacted_file_groups and not result.compactions:
            problem = misplaced_log_file(self._snapshot, times)
            if problem is not None:
                raise self._not_possible([problem])
        skipped = files.instants.keys()
        result = attrs.evolve(
            result,
            instants=len(active),
            archived_instants=len({one.instant.key for one in archived} - skipped),
        )
        if self._is_dry_run:
            return result
        self._check_held()
        self._switch_off_metadata_table()
        fenced = self._fence()
        self._announce(result)
        strays = self._delete_strays(target, skipped)
        if target.has_completion_times:
            self._storage.create_directory(join(meta_path, _HISTORY))
        archive.write(times, skipped)
        copy = TimelineCopy(
            timeline, files, target, target.active_path(meta_path), times, not target.has_completion_times
        )
        written = copy.write()
        self._refuse_changes(files, target, written | strays)
        self._switch(properties, fenced)
        self._carry_over(files, target)
        self._delete_old(timeline.layout)
        return result

    def _switch_off_metadata_table(self) -> None:
        is_asked_for = self._config.metadata.enable is False
        self._snapshot = MetadataTable(self._snapshot).switch_off(is_asked_for=is_asked_for)
        adapt_index_definitions(self._storage, self._snapshot.meta_path, self._to_version)

    def _as_completed(self, one: CompletedInstant) -> CompletedInstant:
        """An instant with the time by which its completion time is computed.

        In a merge-on-read table of version 6 all earlier writes were completed when a compaction was requested, but a
        copied table has files that were all changed later. A log file whose write was completed after the request would
        belong to the slice that the compaction made, and its rows would be merged a second time.
        """
        is_upgrade = not self._snapshot.active_timeline.layout.has_completion_times
        return attrs.evolve(one, changed_at="") if self._is_merge_on_read and is_upgrade else one

    def _archive_copy(self, target: TimelineLayout, properties: Mapping[str, str]) -> ArchiveCopy:
        meta_path, source = self._snapshot.meta_path, self._snapshot.active_timeline.layout
        folders = [
            join(meta_path, HoodieTableConfig(found).archive_folder)
            for found in (self._snapshot.table_config.properties, properties)
        ]
        if target.has_completion_times:
            return HistoryOfArchive(self._storage, folders[0], source, folders[1], target, self._check_held)
        return ArchiveOfHistory(
            self._storage, folders[0], source, folders[1], target, self._check_held, self._config.archival
        )

    def _order_notes(self, times: Mapping[tuple[str, Action], str]) -> list[str]:
        """Tell of commits that were completed in another order than they were requested in."""
        ends = {key[0]: end for key, end in times.items() if key[1] in COMMIT_ACTIONS}
        late = [one for one, following in pairwise(in_order(ends)) if is_after(ends[one], ends[following])]
        notes = [
            "incremental readers must begin at requested times from now on: a time of completion that they have kept "
            "is not one"
        ]
        if late:
            notes.append(
                f"{len(late)} commits, {late[0]} the first, were completed after a later one: a reader between the "
                "two has not seen them, and must begin before them"
            )
        return notes

    def _announce(self, result: TableVersionChange) -> None:
        content = {"from": result.from_version, "to": result.to_version, "by": "hoodie"}
        self._storage.replace(self._announcement, json.dumps(content).encode())

    def _delete_strays(self, layout: TimelineLayout, copied: Collection[tuple[str, Action]]) -> frozenset[str]:
        """Delete pending instants of writers that had not seen the last change of the version, but for their writes.

        Writes stay pending, so that somebody rolls them back: see `_carry_over`.

        Returns:
            The names of the files that are left.
        """
        files = TimelineFiles.of(self._storage, self._snapshot.meta_path, layout)
        writes = [key for key in files.instants if key[1].completed_action in COMMIT_ACTIONS and key not in copied]
        writes_left = frozenset(status.name for key in writes for status in files.instants[key].values())
        pending, _ = files.deletion_order()
        self._storage.delete_files([path for path in pending if file_name(path) not in writes_left])
        if layout.has_completion_times:
            # Of a downgrade by Hudi: its rows are in the archive of version 6 too.
            self._storage.delete_directory(join(self._snapshot.meta_path, _HISTORY))
        return writes_left

    def _refuse_changes(self, files: TimelineFiles, target: TimelineLayout, written: frozenset[str]) -> None:
        """Look once more before the switch: nothing must have changed that was copied."""
        meta_path = self._snapshot.meta_path
        now = TimelineFiles.of(self._storage, meta_path, files.layout)
        copied = TimelineFiles.of(self._storage, meta_path, target)
        changed = sorted((now.names ^ files.names) | (copied.names ^ written))
        if changed:
            raise HoodieCommitException(
                f"the timeline of {self._snapshot.base_path} changed while it was copied ({changed[0]}): a writer does "
                f"not respect the table's lock. The table is of version {self._snapshot.table_config.table_version} as "
                "before; stop that writer, and call again"
            )

    def _carry_over(self, files: TimelineFiles, target: TimelineLayout) -> None:
        """Make instants pending in the new timeline that were begun in the old one since it was copied.

        Without its instant, nobody would roll back such a write, and its files would count as committed as soon as
        older instants are archived.
        """
        now = TimelineFiles.of(self._storage, self._snapshot.meta_path, files.layout)
        for pending in now.pending:
            if pending.key in files.instants:
                continue
            for state, status in now.instants[pending.key].items():
                is_profile = state.action in COMMIT_ACTIONS and not state.is_requested
                content = b"" if is_profile or not status.size_bytes else self._storage.read(status.path)
                name = target.file_name(state.requested_time, state.action, state.state)
                self._storage.create_if_absent(join(target.active_path(self._snapshot.meta_path), name), content)
            logger.warning(
                "%s of %s was begun while the version of the table was changed; it is pending in version %s", pending,
                self._snapshot.base_path, self._to_version,
            )  # fmt: skip

    def _fence(self) -> str | None:
        """The version of the properties; no other process has it from before."""
        return self._snapshot.table_config.fence(self._storage, self._snapshot.base_path)

    def _switch(self, properties: Mapping[str, str], fenced: str | None) -> None:
        """Replace the properties, unless another process has touched them."""
        self._check_held()
        target = HoodieTableConfig(self._with_metadata_keys(properties))
        target.switch(self._storage, self._snapshot.base_path, fenced)

    def _with_metadata_keys(self, properties: Mapping[str, str]) -> dict[str, str]:
        """The properties with those of the metadata table as they are when it is switched off."""
        off = self._snapshot.table_config.without_metadata_table()
        return {key: off.get(key, value) for key, value in properties.items()}

    def _delete_old(self, layout: TimelineLayout) -> None:
        """Delete the files of the timeline that the table does not use, then the announcement."""
        meta_path = self._snapshot.meta_path
        pending, completed = TimelineFiles.of(self._storage, meta_path, layout).deletion_order()
        self._check_held()
        # After the listing: what comes later is not deleted.
        self._refuse_moved_commits()
        self._storage.delete_files(pending)
        for path in completed:
            self._storage.delete_file(path)
        if layout.has_completion_times:
            self._storage.delete_directory(join(meta_path, _HISTORY))
        self._storage.delete_file(self._announcement)
        if layout.has_completion_times:
            self._storage.delete_empty_directory(join(meta_path, TIMELINE_FOLDER))
