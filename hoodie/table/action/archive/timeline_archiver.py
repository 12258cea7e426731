"""Move old instants from the active timeline to the archive.

`hoodie.table.action.archive.archive_files` has what differs between timeline layouts. An instant is written there
first and deleted from the active timeline afterwards, pending states before completed ones, completed ones oldest
first. A process that lists the timeline meanwhile finds each instant either completed or gone, and the oldest ones go
first.

Hudi: org.apache.hudi.client.HoodieTimelineArchiver, org.apache.hudi.client.utils.ArchivalUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hoodie.common.fs.file_names import parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.commit_marks import POSITION_KEYS, position_keys_in
from hoodie.common.table.compaction_plans import delta_commits_to_compact, last_completed_compaction
from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME, WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import (
    is_after,
    is_before,
    is_instant_time,
    newest,
    oldest,
    parse_instant_time,
)
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.config.clean_config import CleaningPolicy
from hoodie.config.compaction_config import CompactionTriggerStrategy
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException, HoodieCorruptedDataException, HoodieSavepointException
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join
from hoodie.table.action.action import no_check
from hoodie.table.action.archive.archive_files import ArchiveFiles, LogArchiveFiles
from hoodie.table.action.archive.lsm_archive_files import LsmArchiveFiles
from hoodie.table.action.clean.clean_planner import earliest_instant_to_retain, read_last_clean
from hoodie.table.table_state import being_rolled_back

logger = logging.getLogger(__name__)

_Key = tuple[str, Action]
_COUNTED_APART = (Action.CLEAN, Action.ROLLBACK)
"""Actions whose instants are counted apart from commits, each action by itself; in timeline layout 2 they go along with
the commits that are younger."""
_FILES: Mapping[int, type[LogArchiveFiles] | type[LsmArchiveFiles]] = {1: LogArchiveFiles, 2: LsmArchiveFiles}
"""The files of the archive of each timeline layout."""
_KEPT_FOR_STREAMERS = 10
"""A position of a streamer keeps its commit in the active timeline up to this many times the most commits there."""
_POSITIONS = tuple(key.encode() for key in POSITION_KEYS)
_MOVED_AT_ONCE_BYTES = 64 << 20
"""Bytes of entries that are written at once: a timeline that was not archived for long does not fit in memory."""


class HoodieTimelineArchiver:
    """Archives one table.

    Args:
        config: The number of instants that are kept.
        snapshot: The table, its timeline freshly loaded.
        check: Called right before each step that only one archiver at a time may do; raises where its lock was lost.
        first_needed: Nothing from this instant on is archived; None for no such bound.

    Hudi: org.apache.hudi.client.HoodieTimelineArchiver. Differs: a replace commit is archived once a listing shows that
    the files that it replaced are gone, not once cleans report so; entries are not written again when an archiver died
    after it had written them.
    """

    def __init__(
        self,
        config: HoodieWriteConfig,
        snapshot: TableSnapshot,
        check: Callable[[], None] = no_check,
        first_needed: str | None = None,
    ) -> None:
        self._config = config
        self._check = check
        self._first_needed = first_needed
        self._snapshot = snapshot
        self._timeline = snapshot.active_timeline
        self._archive: ArchiveFiles[Any] = _FILES[self._timeline.layout.version](
            snapshot.storage,
            join(snapshot.meta_path, snapshot.table_config.archive_folder),
            self._timeline.layout,
            config.archival,
            check,
            self._timeline.timezone,
        )

    def archive_if_required(self) -> int:
        """Archive what is due, and merge small files of the archive where that is switched on.

        Returns:
            How many instants left the active timeline.

        Raises:
            HoodieCorruptedDataException: The first instant that is due is damaged, or a file that decides about it is.
            HoodieIOException: Storage failed; call again.
            HoodieLockException: The lock was lost; another archiver finishes what was begun.
        """
        instants = self.instants_to_archive()
        if instants:
            instants = self._archive_instants(instants, keeps_positions=True)
        self._archive.tidy_up()
        return len(instants)

    def archive_commit(self, instant_time: str) -> None:
        """Archive one completed commit, whatever its age: a savepoint has kept it while younger ones were archived.

        Raises:
            HoodieSavepointException: Files that the commit replaced are still there, and would be seen again.
            HoodieCorruptedDataException: It is damaged.
            HoodieIOException: Storage failed; call again.
        """
        instant = self._timeline.completed_writes().find(instant_time)
        if instant is None:
            return
        if instant.action is Action.REPLACE_COMMIT and self._has_replaced_files(instant):
            raise HoodieSavepointException(
                f"savepoint {instant_time} of {self._snapshot.base_path} cannot be deleted yet: younger commits "
                "were archived past it (hoodie.archive.beyond.savepoint), so its commit must be archived with it, and "
                "the files that it replaced still exist. Let clean() delete them first"
            )
        self._archive_instants([instant])

    def _look(self) -> None:
        self._snapshot = self._snapshot.refreshed()
        self._timeline = self._snapshot.active_timeline

    # --- what is due --------------------------------------------------------------------------------------------

    def instants_to_archive(self) -> list[HoodieInstant]:
        """The instants that are due, oldest first."""
        minimum, maximum = self._kept()
        found = self._commits_to_archive(minimum, maximum)
        last = found[-1].requested_time if found else ""
        for action in _COUNTED_APART:
            completed = self._timeline.filter_actions(action).filter_completed_instants().instants
            if self._timeline.layout.has_completion_times:
                found += [instant for instant in completed if is_before(instant.requested_time, last)]
            elif len(completed) > maximum:
                bound = self._needed_elsewhere()
                due = completed[: len(completed) - minimum]
                found += [one for one in due if bound is None or is_before(one.requested_time, bound)]
        return sorted(found, key=lambda instant: instant.sort_key)

    def _kept(self) -> tuple[int, int]:
        """The number of commits that stay, and the number that starts an archiving; raised to the cleaner's needs."""
        archival, timeline = self._config.archival, self._timeline
        completed = timeline.completed_writes()
        last = completed.last_instant
        now = timeline.clock()
        if last is not None and is_instant_time(last.requested_time):
            now = parse_instant_time(last.requested_time, timeline.timezone)
        earliest = earliest_instant_to_retain(timeline, self._config.clean, now, timeline.timezone)
        minimum, maximum = archival.min_commits, archival.max_commits
        if earliest is not None:
            needed = len(completed.after(earliest.requested_time)) + 2
        elif self._config.clean.policy is CleaningPolicy.KEEP_LATEST_COMMITS:
            # Nothing is cleaned before there are more commits than are retained: archiving must let these accumulate.
            needed = self._config.clean.commits_retained + 1
        else:
            return minimum, maximum
        if minimum >= needed:
            return minimum, maximum
        logger.info(
            "hoodie.keep.min.commits=%d is too small for the cleaner of %s, which keeps the table readable from %s on: "
            "archiving with %d",
            minimum,
            self._snapshot.base_path,
            "the beginning" if earliest is None else earliest.requested_time,
            needed,
        )
        return needed, maximum + needed - minimum

    def _commits_to_archive(self, minimum: int, maximum: int) -> list[HoodieInstant]:
        writes = self._timeline.completed_writes()
        if len(writes) <= maximum:
            return []
        completed, savepoints = writes.instants, self._timeline.savepoint_times
        bound = self._bound(writes)
        due: list[HoodieInstant] = []
        # Readers take the first commit without a savepoint for the table's beginning: the newest such commit stays.
        unsaved = [instant for instant in completed if instant.requested_time not in savepoints]
        for instant in completed[: len(completed) - minimum]:
            if (bound is not None and not is_before(instant.requested_time, bound)) or instant is unsaved[-1]:
                break
            if instant.requested_time in savepoints:
                if not self._config.archival.beyond_savepoint:
                    break
                continue
            if instant.action is Action.REPLACE_COMMIT and self._has_replaced_files(instant):
                logger.info(
                    "archiving of %s stops at %s: the files that it replaced still exist",
                    self._snapshot.base_path,
                    instant,
                )
                break
            due.append(instant)
        return self._before_what_explains(due, completed)

    def _stays_for_streamers(self, instant: HoodieInstant) -> bool:
        """Whether a commit holds the newest position of a streamer.

        Hudi's streamer looks for its position in the active timeline only. Without it, it begins anew, and by default
        passes over all that its source has. hoodie looks into the archive too, so a streamer that has not written for
        long does not keep the timeline from being archived for ever.

        Source: format 15.3; Hudi's archiver has no such guard.
        """
        keys = self._positions_in(instant)
        later = 0
        for other in reversed(self._timeline.completed_writes().instants):
            if not keys or not is_after(other.requested_time, instant.requested_time):
                break
            keys -= self._positions_in(other)
            later += 1
        if not keys:
            return False
        if later < _KEPT_FOR_STREAMERS * self._config.archival.max_commits:
            return True
        logger.warning(
            "%s: the position of a streamer in %s is archived after %d later commits. A streamer of hoodie finds it "
            "there; one of Hudi does not, and needs --checkpoint", self._snapshot.base_path, instant, later,
        )  # fmt: skip
        return False

    def _positions_in(self, instant: HoodieInstant) -> set[str]:
        """The keys of positions in a commit; none if it is damaged, which shows when it is archived."""
        try:
            return position_keys_in(self._timeline.read_commit_metadata(instant).extra_metadata)
        except HoodieCorruptedDataException:
            return set()

    def _before_what_explains(
        self, due: list[HoodieInstant], completed: Iterable[HoodieInstant]
    ) -> list[HoodieInstant]:
        """The instants that are due, up to a replace commit that explains why files of a later one that stays are gone.

        A clustering may have been requested before a commit whose files it replaced: a dead process had begun it.
        """
        if not any(instant.action is Action.REPLACE_COMMIT for instant in due):
            return due
        going = set(due)
        written = {
            (path, stat.file_id)
            for instant in completed
            if instant not in going and is_after(instant.requested_time, due[0].requested_time)
            for path, stats in self._timeline.read_commit_metadata(instant).partition_to_write_stats.items()
            for stat in stats
        }
        for number, instant in enumerate(due):
            if instant.action is Action.REPLACE_COMMIT:
                replaced = self._timeline.read_commit_metadata(instant).replaced_file_groups
                if not written.isdisjoint(replaced):
                    return due[:number]
        return due

    def _bound(self, writes: HoodieTimeline) -> str | None:
        """The time of the first instant that must stay; None when none must."""
        bounds: list[str | None] = [self._needed_elsewhere()]
        if not self._config.archival.beyond_savepoint:
            bounds += self._timeline.savepoint_times
        # An indexing looks at files, not at instants.
        pending = self._timeline.filter_pending().filter(
            lambda instant: instant.action not in (Action.SAVEPOINT, Action.INDEXING)
        )
        if pending.first_instant is not None:
            first = pending.first_instant.requested_time
            # The commit before it stays: by it readers tell a pending instant's files from those of archived ones.
            before = writes.before(first).last_instant
            bounds.append(first if before is None else before.requested_time)
            # A write is compared with those that were completed since it began, whenever they were requested.
            bounds += [instant.requested_time for instant in writes if is_after(instant.newest_time, first)]
        bounds += self._needed_by_compaction()
        if self._config.archival.block_on_latest_clean:
            last = read_last_clean(self._timeline)
            if last is not None and last.earliest_commit_to_retain:
                bounds.append(last.earliest_commit_to_retain)
        return oldest(bounds)

    def _needed_by_compaction(self) -> list[str]:
        """The instants by which the delta commits are counted that make a compaction due: the oldest of them.

        Hudi: org.apache.hudi.common.util.CompactionUtils.getOldestInstantToRetainForCompaction.
        """
        compaction = self._config.compaction
        is_merge_on_read = self._snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ
        if not is_merge_on_read or compaction.trigger_strategy is CompactionTriggerStrategy.TIME_ELAPSED:
            return []
        last = last_completed_compaction(self._timeline)
        waiting = delta_commits_to_compact(self._timeline)
        if len(waiting) >= compaction.max_delta_commits:
            return [waiting[len(waiting) - compaction.max_delta_commits].requested_time]
        # In timeline layout 2 one that began before the compaction may have been completed after it was requested.
        return [instant.requested_time for instant in (last, *waiting[:1]) if instant is not None]

    def _needed_elsewhere(self) -> str | None:
        """The first instant that must stay for another timeline: the caller's, or that of the table's metadata table.

        The latter needs those whose records are in its log files only: Hudi 0.15 ignores these if the instant is
        archived, so its readers would miss files. These are the ones from the last compaction on; in timeline layout 2
        those that were completed after it was requested; without a compaction all.
        """
        if not self._snapshot.table_config.metadata_partitions:
            return self._first_needed
        last = last_completed_compaction(MetadataTableFiles.load(self._snapshot).snapshot.active_timeline)
        if last is None:
            return oldest(instant.requested_time for instant in self._timeline)
        return oldest(
            instant.requested_time for instant in self._timeline if is_after(instant.newest_time, last.requested_time)
        )

    def _has_replaced_files(self, instant: HoodieInstant) -> bool:
        """Whether a file that a replace commit hides is still there: without the commit it would be seen again."""
        metadata = self._timeline.read_commit_metadata(instant)
        if not isinstance(metadata, HoodieReplaceCommitMetadata):
            return False
        replaced = {path: set(ids) for path, ids in metadata.partition_to_replace_file_ids.items() if ids}
        listed = self._snapshot.table_metadata.list_files_of(sorted(replaced))
        return any(
            _file_id(status.name) in replaced[partition_path]
            for partition_path, statuses in listed.items()
            for status in statuses
        )

    # --- moving them --------------------------------------------------------------------------------------------

    def _archive_instants(self, instants: list[HoodieInstant], *, keeps_positions: bool = False) -> list[HoodieInstant]:
        files = self._files_of(instants)
        self._archive.prepare({state for states in files.values() for state in states})
        waiting: list[Any] = []
        size_bytes = 0
        part: list[HoodieInstant] = []
        done: list[HoodieInstant] = []
        for instant in instants:
            has_position = False

            def read(state: HoodieInstant) -> bytes:
                nonlocal has_position
                content = self._timeline.read_details(state)
                # Avro and JSON store text unchanged, so most commits need not be decoded for this.
                has_position = has_position or any(key in content for key in _POSITIONS)
                return content

            try:
                entries = self._archive.entries_of(files.get(instant.key, {}), read)
            except HoodieCorruptedDataException as error:
                if not done and not part:
                    raise
                logger.warning("archiving of %s stops before %s: %s", self._snapshot.base_path, instant, error)
                break
            if keeps_positions and has_position and self._stays_for_streamers(instant):
                break
            part.append(instant)
            waiting += entries
            size_bytes += sum(map(self._archive.size_bytes, entries))
            if size_bytes >= _MOVED_AT_ONCE_BYTES:
                self._move(part, files, waiting)
                done += part
                part, waiting, size_bytes = [], [], 0
        self._move(part, files, waiting)
        self._look()
        return [*done, *part]

    def _move(
        self, instants: list[HoodieInstant], files: dict[_Key, dict[HoodieInstant, FileStatus]], entries: list[Any]
    ) -> None:
        """Write entries, then delete their instants: all the instants that are due, or the first of them."""
        if entries:
            # An instant that was undone meanwhile would stay in the archive for ever.
            self._refuse_changes(instants)
            path = self._archive.append(entries)
            logger.info("archived %d instants of %s to %s", len(instants), self._snapshot.base_path, path)
        self._check()
        self._refuse_changes(instants)
        self._delete_markers({instant.requested_time for instant in instants})
        self._timeline.delete_archived([state for instant in instants for state in files.get(instant.key, ())])

    def _refuse_changes(self, instants: list[HoodieInstant]) -> None:
        """Stop where another process restored the table, or deleted or made a savepoint, since the timeline was listed.

        Such a process looks at the archive once others can see its action, and this looks at the timeline once others
        can see the archive: so one of the two sees the other.
        """
        before, now = self._timeline, self._snapshot.refreshed().active_timeline
        going = frozenset(instant.requested_time for instant in instants if instant.action in COMMIT_ACTIONS)
        restores = now.filter_actions(Action.RESTORE).times - before.filter_actions(Action.RESTORE).times
        deleted = before.savepoint_times - now.savepoint_times - going
        made = now.savepoint_times - before.savepoint_times & going
        following = now.completed_after(newest(going) or "").times - now.savepoint_times - being_rolled_back(now)
        reason = None
        if restores:
            reason = f"restore {oldest(restores)} began meanwhile"
        elif deleted or made:
            reason = f"savepoint {oldest(deleted | made)} was taken away or made meanwhile"
        elif going and not following:
            reason = "the commits after it were rolled back meanwhile"
        if reason is not None:
            raise HoodieCommitException(
                f"archiving of {self._snapshot.base_path} stops, and leaves the active timeline as it is: {reason}"
            )

    def _files_of(self, instants: Iterable[HoodieInstant]) -> dict[_Key, dict[HoodieInstant, FileStatus]]:
        """Instant to its states, the first state first, each with its file."""
        files: dict[_Key, list[tuple[HoodieInstant, FileStatus]]] = {instant.key: [] for instant in instants}
        layout = self._timeline.layout
        for status in self._snapshot.storage.list_directory(layout.active_path(self._snapshot.meta_path)):
            state = layout.instant_of(status)
            if state is not None and state.key in files:
                files[state.key].append((state, status))
        return {key: dict(sorted(found, key=lambda entry: entry[0].state)) for key, found in files.items()}

    def _delete_markers(self, instant_times: set[str]) -> None:
        storage, meta_path = self._snapshot.storage, self._snapshot.meta_path
        for entry in storage.list_directory(join(meta_path, TEMP_FOLDER_NAME)):
            if entry.name in instant_times:
                WriteMarkers(storage, meta_path, entry.name).delete_all()


def _file_id(name: str) -> str | None:
    base = parse_base_file_name(name)
    if base is not None:
        return base.file_id
    log = parse_log_file_name(name)
    return None if log is None else log.file_id
