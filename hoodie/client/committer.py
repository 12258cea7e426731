"""Complete instants that were written; `hoodie.table.action.completion` makes the completed file.

Hudi: org.apache.hudi.client.BaseHoodieClient, BaseHoodieWriteClient (commitStats, finalizeWrite, preCommit).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack, nullcontext

import attrs

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallbackMessage
from hoodie.client.streaming_checkpoint import refuse_repeated_batch
from hoodie.client.unknown_writes import refuse_unknown_writes
from hoodie.client.write_operations import action_of, key_look_up
from hoodie.client.write_result import CommitState, HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.config.write_options import FailedWritesPolicy
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieIndexException,
    HoodieIOException,
    HoodieLockException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
)
from hoodie.index.bucket.layout_check import check_layout
from hoodie.index.index import HoodieIndex, IndexedTable, TagRequest
from hoodie.metadata.metadata_table import MetadataTableUpkeep
from hoodie.storage.side_by_side import side_by_side
from hoodie.table.action.attempted_files import reconcile_with_markers
from hoodie.table.action.cluster.updates_strategy import make_way
from hoodie.table.action.completion import (
    compact_metadata_table,
    complete_after_others,
    complete_instant,
    complete_later,
)
from hoodie.table.action.listeners import CompletionListeners
from hoodie.table.action.rollback.rollback_service import RollbackService, rolled_back_by
from hoodie.table.open_table import refuse_moved_commits
from hoodie.table.table_session import TableSession
from hoodie.table.table_state import being_rolled_back, refuse_pending_restore
from hoodie.transaction.concurrent_operation import ConcurrentOperation, WriteStart
from hoodie.transaction.conflict_resolver import ConflictResolver
from hoodie.transaction.lock.single_writer_lock import SEVERAL_WRITERS
from hoodie.transaction.planned_beside import compactions_beside, compactions_without

logger = logging.getLogger(__name__)

SHOWN_ERRORS = 3
ONE_AT_A_TIME = "Make sure that only one writer is active at a time"


@attrs.define(eq=False, repr=False, slots=False)
class Committer:
    """Completes instants that were written, and remembers the state of the table when each write began.

    Args:
        session: The writer's configuration, index, engine, lock and heartbeats.
        validate: Raises if the write must not be completed; None without validators.
        listeners: Are told of each completed instant.
        rollbacks: Rolls back instants that must not be completed.
    """

    _session: TableSession
    _validate: Callable[[TableSnapshot, HoodieWriteResult, HoodieCommitMetadata], None] | None
    _listeners: CompletionListeners
    _rollbacks: RollbackService
    _made_resolver: tuple[HoodieIndex, ConflictResolver] | None = attrs.field(init=False, default=None)
    _written_to: dict[str, WriteStart] = attrs.field(init=False, factory=dict)
    """Instant that is being written -> the writes of the table when its write began."""
    _failures: list[str] = attrs.field(init=False, factory=list)
    known: frozenset[str] | None = attrs.field(init=False, default=None)
    """The completed writes that writes of this client may replace; None for all."""
    last_check: Callable[[TableSnapshot, str], None] | None = attrs.field(init=False, default=None)
    """Takes the table, and the instant to be completed, while any lock is held; raises if it must not be completed."""

    @property
    def _resolver(self) -> ConflictResolver:
        """The resolver for the index that the table has."""
        index = self._session.index
        if self._made_resolver is None or self._made_resolver[0] is not index:
            self._made_resolver = index, ConflictResolver(self._session.config, index.is_global)
        return self._made_resolver[1]

    def begin_write(
        self,
        snapshot: TableSnapshot,
        instant_time: str,
        action: Action,
        reads_table: bool = False,
        expires: bool = False,
    ) -> None:
        """Remember the state of the table as the write of an instant begins.

        Args:
            snapshot: The table, just loaded.
            instant_time: The instant.
            action: Its action.
            reads_table: Whether the write computes its rows from the table's rows, so that any rows that other writers
                commit meanwhile are a conflict.
            expires: Whether it deletes partitions because nobody wrote to them for long, so that any rows that other
                writers commit to these meanwhile are a conflict.

        Raises:
            HoodieCommitException: The instant is not in the state ``requested``.
            HoodieWriteConflictException: The table has writes that are not among `known`.
            HoodieNotSupportedException: The configuration asks to compare keys, and the table stores none.
        """
        instant = snapshot.active_timeline.find(instant_time, action)
        if instant is None or instant.state is not State.REQUESTED:
            raise HoodieCommitException(self._why_not(snapshot, instant_time, action, "be written to"))
        if self._session.config.write.unique_keys and not snapshot.table_config.populate_meta_fields:
            raise HoodieNotSupportedException(
                f"{snapshot.base_path} stores no record keys (hoodie.populate.meta.fields=false), so those of two "
                "writers cannot be compared: leave hoodie.write.concurrency.unique.keys out"
            )
        refuse_unknown_writes(snapshot, self.known)
        schema = snapshot.load_avro_schema() if self._session.config.write.has_several_writers else None
        mode = snapshot.table_config.logging_mode
        self._written_to[instant_time] = WriteStart.of(snapshot.active_timeline, schema, reads_table, expires, mode)

    def take_failures(self) -> list[str]:
        """Return the failures after instants were completed, since the last call of this method; one line each."""
        failures, self._failures = self._failures, []
        return failures

    def forget(self, instant_time: str) -> None:
        """Drop the state of an instant that was completed or rolled back."""
        self._written_to.pop(instant_time, None)
        self._session.heartbeats.stop(instant_time)
        self._resolver.forget()

    def complete(
        self,
        instant_time: str,
        result: HoodieWriteResult,
        extra_metadata: Mapping[str, str],
        written_to: TableSnapshot | None = None,
    ) -> bool:
        """Complete a write, step by step.

        Args:
            instant_time: The instant.
            result: The outcome of the write.
            extra_metadata: Extra metadata of the commit, in addition to that of the result.
            written_to: The table that the write has just written to, as it was when it began; None for one that was
                written by an earlier call. Everything that must be true is checked again under the lock.

        Returns:
            Whether it was completed. False for an empty write with ``hoodie.allow.empty.commit=false``, and for a
            delete from a table that was never written.

        Raises:
            HoodieCommitException: The instant or the table has changed since the write began.
            HoodieWriteConflictException: Another writer committed meanwhile.
            HoodieValidationException: A validator rejects the commit.
            HoodieAmbiguousKeyException: Keys would be in more file groups than the record index can name.
        """
        is_empty = not (
            result.statuses or result.partition_to_replace_file_ids or self._session.config.write.allow_empty_commit
        )
        is_plain = not (is_empty or self._validate is not None or self._session.config.write.has_several_writers)
        if written_to is not None and is_plain and result.commit_metadata.schema:
            snapshot = written_to
        else:
            # Validators see what others have committed, and most conflicts are found before the lock is taken.
            snapshot = self._session.now()
        action = action_of(result.operation, snapshot.table_config.table_type)
        if not result.commit_metadata.schema:
            self._withdraw_delete(snapshot, instant_time, action)
            return False
        if snapshot is not written_to:
            self._check_inflight(snapshot, instant_time, action)
        with self._session.metrics.step("reconcile with markers") as step:
            step.count(files=reconcile_with_markers(snapshot, instant_time, result.statuses))
        if is_empty:
            self._rollbacks.rollback(snapshot, instant_time)
            self.forget(instant_time)
            return False
        metadata = attrs.evolve(
            result.commit_metadata, extra_metadata={**result.commit_metadata.extra_metadata, **extra_metadata}
        )
        if self._validate is not None:
            self._validate(snapshot, result, metadata)
        operation = ConcurrentOperation.of_commit(HoodieInstant(instant_time, action, State.INFLIGHT), metadata)
        if self._session.config.write.has_several_writers:
            # Most conflicts are found without the lock, and then the lock need not be taken.
            with self._session.metrics.step("look for conflicts"):
                self._resolver.check(snapshot, operation, metadata, self._start_of(instant_time))
        self._update_index(snapshot, instant_time, result)
        with ExitStack() as stack:
            takes_lock = self._session.config.write.has_several_writers
            with self._session.metrics.step("take the lock") if takes_lock else nullcontext():
                transaction = stack.enter_context(self._session.transactions.held(snapshot, instant_time))
            with self._session.metrics.step("check the table again"):
                snapshot = self._check_again(snapshot, operation, metadata)
                if not transaction.has_lock and self._session.transactions.takes_lock(snapshot):
                    # A metadata table was made meanwhile, which writers share.
                    transaction = stack.enter_context(self._session.transactions.held(snapshot, instant_time))
                    snapshot = self._check_again(snapshot, operation, metadata)
            with self._session.metrics.step("complete the instant"):
                start, timeline = self._written_to.get(instant_time), snapshot.active_timeline
                looked_up = key_look_up(result.operation, self._session.index, start, timeline)
                upkeep = MetadataTableUpkeep.of(self._session.config, self._session.context, looked_up, result.statuses)
                check, is_locked = transaction.check_held, transaction.has_lock
                done = complete_instant(snapshot, instant_time, action, metadata, check, upkeep, is_current=is_locked)
                is_compacted_next = done is not None and done.to_compact is not None
                was_held = (transaction.tells_at_release and not is_compacted_next) or transaction.is_held()
            if done is not None and is_compacted_next and was_held:
                with self._session.metrics.step("compact the metadata table"):
                    self._failures += compact_metadata_table(done, transaction.check_held, upkeep)
        if transaction.tells_at_release and not is_compacted_next:
            was_held = transaction.is_held() if transaction.was_held is None else transaction.was_held
        if done is None:
            raise HoodieCommitException(
                f"instant {instant_time} of {snapshot.base_path} was just completed by another writer"
            )
        completed = done.instant
        result.commit_state.is_committed = True
        result.commit_state.completion_time = completed.completion_time
        if not was_held:
            self._look_again(snapshot, completed, operation, metadata, result.commit_state)
        after = self._look_for_compactions(snapshot, completed, metadata, result.commit_state, was_held)
        self._session.heartbeats.stop(instant_time)
        logger.info("committed %s %s to %s: %r", result.operation.value, instant_time, snapshot.base_path, result)
        others: list[str] = []
        is_undone = False
        markers = WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)

        def delete_markers() -> None:
            # The instant is completed, so a failure must not look like a failed write; nor hide the look beside it.
            try:
                markers.delete_all(is_closed=True)
            except HoodieIOException as error:
                logger.warning("after instant %s was completed: %s", instant_time, error)

        try:
            with self._session.metrics.step("delete markers"):
                is_single = not self._session.config.write.has_several_writers
                looks = is_single and after is None
                _, listed = side_by_side(
                    snapshot.storage, delete_markers, snapshot.refreshed if looks else lambda: after
                )
                if is_single and listed is not None:
                    snapshot = listed
                    others = self._writes_of_others(snapshot.active_timeline, operation)
                    is_undone = self._was_undone(snapshot, operation.instant)
        except HoodieIOException as error:
            text = f"after instant {instant_time} was completed: {error}"
            logger.warning("%s", text)
            self._failures.append(f"the look for other writers {text}")
        self.forget(instant_time)
        if is_undone:
            result.commit_state.is_committed = False
            raise HoodieCommitException(
                f"instant {instant_time} of {snapshot.base_path} was rolled back by another writer while it was being "
                f"completed; nothing was committed. {ONE_AT_A_TIME}, and write again. "
                f"{SEVERAL_WRITERS}"
            )
        name = snapshot.table_config.table_name
        self._listeners.completed(
            HoodieWriteCommitCallbackMessage(instant_time, name, snapshot.base_path, str(action), metadata)
        )
        if others:
            # Without a lock nothing prevents this. Both writers look after they have completed their own instants, so
            # at least one of them sees the other.
            raise HoodieWriteConflictException(
                f"{instant_time} was completed on {snapshot.base_path}, and another writer's "
                f"{', '.join(others[:SHOWN_ERRORS])} at the same moment: rows of one may hide rows of the other. "
                f"{ONE_AT_A_TIME}, and upsert the records of both again. {SEVERAL_WRITERS}",
                instant_time=instant_time,
                other_instants=others,
            )
        return True

    def _withdraw_delete(self, snapshot: TableSnapshot, instant_time: str, action: Action) -> None:
        """Remove the instant of a delete from a table without columns.

        A commit would give the table an empty schema, and then other readers cannot open it. Hudi refuses such deletes.
        """
        instant = snapshot.active_timeline.find(instant_time, action)
        if instant is None or instant.is_completed:
            raise HoodieCommitException(self._why_not(snapshot, instant_time, action, "be committed"))
        self._rollbacks.give_up(snapshot, instant_time)
        self.forget(instant_time)
        logger.info("nothing to delete: %s was never written, so no commit was made", snapshot.base_path)

    def _was_undone(self, snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
        """Whether another writer, which ignores this one, rolled the instant back while it was being completed."""
        timeline = snapshot.active_timeline
        ways_back = timeline.filter_actions(Action.ROLLBACK, Action.RESTORE)
        if not len(ways_back.after(instant.requested_time)):
            return False
        found = timeline.find(instant.requested_time, instant.action)
        if found is not None and found.is_completed and snapshot.storage.exists(timeline.path_of(instant)):
            # Rollbacks of other writers are their own: a problem with them is not a failure of this commit.
            try:
                undone = being_rolled_back(timeline)
            except HoodieException as error:
                logger.warning("after instant %s was completed: %s", instant.requested_time, error)
                return False
            if instant.requested_time not in undone:
                return False
        with self._session.transactions.transaction(snapshot, f"looking for {instant.requested_time}"):
            return self._rollbacks.unless_undone(snapshot, instant) is None

    def _look_again(
        self,
        snapshot: TableSnapshot,
        completed: HoodieInstant,
        operation: ConcurrentOperation,
        metadata: HoodieCommitMetadata,
        state: CommitState,
    ) -> None:
        """Check an instant that was completed while the lock was perhaps already lost.

        Meanwhile another writer may have had the lock. It may have rolled this instant back, taking its writer for
        dead, or may have committed without knowing of it. The other writer's work stands: on a conflict this instant is
        rolled back, unless others have built on it.

        Raises:
            HoodieLockException: The instant had been rolled back; nothing is committed.
            HoodieWriteConflictException: The instant conflicts with another write, and nothing is committed. If the
                rollback failed, the instant stays committed, and its rows must be compared with those of the others.
        """
        instant_time = completed.requested_time
        where = f"{instant_time} of {snapshot.base_path}"
        lost = "the lock was lost while it was being completed: this process may have been suspended"
        logger.warning("looking at %s again: %s", where, lost)
        try:
            with (
                self._session.metrics.step("look at the commit again"),
                self._session.transactions.transaction(snapshot, f"looking again at {instant_time}"),
            ):
                snapshot = snapshot.refreshed()
                refuse_pending_restore(snapshot)
                now = self._rollbacks.unless_undone(snapshot, operation.instant)
                if now is None:
                    state.is_committed = False
                    raise HoodieLockException(
                        f"{where} was rolled back by another writer, which took this writer for dead; {lost}. Nothing "
                        "was committed; write again",
                        was_lost=True,
                    )
                try:
                    ended = attrs.evolve(operation, instant=completed)
                    self._resolver.check(now, ended, metadata, self._start_of(instant_time), is_completed=True)
                    self._check_log_places(now.active_timeline, instant_time, metadata)
                except HoodieWriteConflictException as conflict:
                    self._rollbacks.take_back(now, completed)
                    state.is_committed = False
                    conflict.add_note(f"{where} was completed for a moment, and taken back; {lost}")
                    raise
                self._put_last(now, completed, operation, state)
        except HoodieException as error:
            if isinstance(error, HoodieWriteConflictException) or (
                isinstance(error, HoodieLockException) and error.was_lost
            ):
                raise
            raise HoodieWriteConflictException(
                f"{where} was completed, but {lost}, and it could not be taken back ({error}): its rows may hide rows "
                "that other writers committed in that time, or be hidden by them. Compare them, and upsert the records "
                "of both writers again",
                instant_time=instant_time,
            ) from error

    def _put_last(
        self, snapshot: TableSnapshot, completed: HoodieInstant, operation: ConcurrentOperation, state: CommitState
    ) -> None:
        """Let readers that go on from the newest completion time read a commit that came late, in layout 2.

        A commit that others have built on, or archived, was seen in time.
        """
        if not snapshot.active_timeline.layout.has_completion_times:
            return
        instant_time = completed.requested_time
        built_on = self._resolver.built_on(snapshot.active_timeline, operation, self._start_of(instant_time))
        if built_on == {instant_time} and not snapshot.archived_timeline.completed_writes().contains(instant_time):
            state.completion_time = complete_after_others(snapshot, completed).completion_time

    def _look_for_compactions(
        self,
        snapshot: TableSnapshot,
        completed: HoodieInstant,
        metadata: HoodieCommitMetadata,
        state: CommitState,
        was_held: bool,
    ) -> TableSnapshot | None:
        """Take a later completion time if a compaction was planned after the first one was chosen.

        It was chosen before the completed file was there. A compaction that was planned in between rewrites the slices
        of that time without the log files of this write: with a later time they belong to the slices that it makes.

        Returns:
            The table as it was listed for that, after the instant was completed; None if it was not, or there was one.

        Raises:
            HoodieWriteConflictException: There is such a compaction, or there may be one as the lock was lost, and
                storage failed.
        """
        completed = attrs.evolve(completed, completion_time=state.completion_time)
        if completed.completion_time is None or not any(stat.is_log_file for stat in metadata.write_stats):
            return None
        met: list[str] = []
        try:
            listed = snapshot.refreshed()
            met = compactions_without(listed.active_timeline, completed, metadata)
            if not met:
                return listed
            what = f"completing {completed.requested_time} later"
            with self._session.metrics.step(what), self._session.transactions.transaction(snapshot, what):
                snapshot = snapshot.refreshed()
                if completed in snapshot.active_timeline:
                    state.completion_time = complete_later(snapshot, completed).completion_time
        except HoodieException as error:
            if was_held and not met:
                logger.warning("after instant %s was completed: %s", completed.requested_time, error)
                return None
            raise HoodieWriteConflictException(
                f"{completed.requested_time} of {snapshot.base_path} was completed at {completed.completion_time}, and "
                f"whether a compaction was planned without it ({', '.join(met) or 'not found out'}) or a later "
                f"completion time could not be settled ({error}): its rows may be lost with the slices that the "
                "compaction replaces. Compare them, and upsert them again",
                instant_time=completed.requested_time,
                other_instants=met,
            ) from error
        logger.warning(
            "%s of %s counts as completed at %s: compaction %s was planned without its log files before others could "
            "see that it was completed at %s", completed, snapshot.base_path, state.completion_time, ", ".join(met),
            completed.completion_time,
        )  # fmt: skip
        return None

    def _update_index(self, snapshot: TableSnapshot, instant_time: str, result: HoodieWriteResult) -> None:
        """Update the index with the written files, because the instant may be completed at any moment from now on."""
        with self._session.metrics.step("update index") as step:
            step.count(files=len(result.statuses))
            table = IndexedTable(snapshot.storage, {}, snapshot.base_path, request=TagRequest(instant_time))
            self._session.index.update_location(result.statuses, self._session.context, table)

    def _check_again(
        self, snapshot: TableSnapshot, operation: ConcurrentOperation, metadata: HoodieCommitMetadata
    ) -> TableSnapshot:
        """Check again, while any lock is held, everything that must be true when the instant is completed."""
        instant_time = operation.instant.requested_time
        snapshot = self._read_again(snapshot)
        timeline = snapshot.active_timeline
        self._check_inflight(snapshot, instant_time, operation.instant.action)
        if self._session.config.write.failed_writes is FailedWritesPolicy.LAZY:
            self._session.heartbeats.check_alive(instant_time, snapshot.base_path)
        if make_way(self._session.config, snapshot, operation.file_groups, self._rollbacks.rollback):
            snapshot = snapshot.refreshed()
            timeline = snapshot.active_timeline
        if self._session.config.write.has_several_writers:
            start = self._start_of(instant_time)
            self._resolver.check(snapshot, operation, metadata, start)
            if start.reads_table:
                self._check_nobody_committed(timeline, operation)
            self._check_layout(snapshot, instant_time)
        else:
            self._check_nobody_committed(timeline, operation)
        self._check_log_places(timeline, instant_time, metadata)
        self._check_change_data(snapshot, instant_time, metadata)
        refuse_repeated_batch(snapshot, metadata.extra_metadata, instant_time)
        if self.last_check is not None:
            self.last_check(snapshot, instant_time)
        refuse_pending_restore(snapshot, "nothing is committed until it is finished")
        undone = being_rolled_back(timeline)
        if instant_time in undone:
            raise HoodieCommitException(
                f"instant {instant_time} of {snapshot.base_path} is being rolled back by another writer; "
                "nothing was committed. Start a new one with start_commit() and write again"
            )
        known = self._written_to.get(instant_time)
        undone &= known.completed if known is not None else frozenset()
        if undone:
            raise HoodieWriteConflictException(
                f"{', '.join(in_order(undone))} of {snapshot.base_path}, which {instant_time} builds on, is being "
                f"rolled back by another writer; nothing of {instant_time} was committed. Write again: that is safe",
                instant_time=instant_time,
                other_instants=in_order(undone),
                is_retry_safe=True,
            )
        return snapshot

    def _read_again(self, snapshot: TableSnapshot) -> TableSnapshot:
        """The table as it is now; refused if its version changed during the write.

        The timeline is where the known properties say. Where they turn out to be others, it is listed again.
        """
        storage, meta_path = snapshot.storage, snapshot.meta_path
        if not (storage.is_remote and snapshot.active_timeline.layout.has_completion_times):
            return refuse_moved_commits(self._with_same_properties(snapshot).refreshed())
        now, listed, names = side_by_side(
            storage,
            lambda: self._with_same_properties(snapshot),
            snapshot.refreshed,
            lambda: storage.list_names(meta_path),
        )
        if now.table_config != snapshot.table_config:
            return refuse_moved_commits(now.refreshed())
        return refuse_moved_commits(listed, names)

    def _check_log_places(
        self, timeline: HoodieActiveTimeline, instant_time: str, metadata: HoodieCommitMetadata
    ) -> None:
        """Refuse log files whose slice is replaced by a compaction that was planned since the write began."""
        compactions = compactions_beside(timeline, instant_time, metadata, self._written_to.get(instant_time))
        if compactions:
            raise HoodieWriteConflictException(
                f"compaction {', '.join(compactions)} of {self._session.config.base_path} was planned, or given up, "
                f"while {instant_time} was being written, so its log files would not be read; nothing of "
                f"{instant_time} was committed. Write again: that is safe",
                instant_time=instant_time,
                other_instants=compactions,
                is_retry_safe=True,
            )

    def _check_change_data(self, snapshot: TableSnapshot, instant_time: str, metadata: HoodieCommitMetadata) -> None:
        """Refuse a write whose changes could not be read, because the table began to store change data meanwhile."""
        mode, start = snapshot.table_config.logging_mode, self._written_to.get(instant_time)
        if start is None:
            is_stored = all(stat.tells_its_changes for stat in metadata.write_stats)
        else:
            is_stored = start.logging_mode is mode
        if mode is not None and not is_stored:
            raise HoodieCommitException(
                f"{snapshot.base_path} began to store change data ({mode}) while {instant_time} was being written, "
                f"without or with another part of it; nothing of {instant_time} was committed. Write again: that is "
                "safe"
            )

    def _check_layout(self, snapshot: TableSnapshot, instant_time: str) -> None:
        """Refuse to commit if another writer, with a contradicting index, has committed meanwhile."""
        others = in_order(snapshot.active_timeline.completed_writes().times - self._start_of(instant_time).completed)
        if not others:
            return
        keys = snapshot.table_config.record_key_fields or tuple(self._session.config.table.record_key_fields or ())
        try:
            check_layout(self._session.index, snapshot, keys)
        except HoodieIndexException as error:
            raise HoodieWriteConflictException(
                f"{', '.join(others[:SHOWN_ERRORS])} was committed to {snapshot.base_path} while "
                f"{instant_time} was being written, with an index that contradicts this writer's; nothing of "
                f"{instant_time} was committed: {error}",
                instant_time=instant_time,
                other_instants=others,
            ) from error

    def conflict_of_missing_file(self, instant_time: str, error: BaseException) -> HoodieWriteConflictException | None:
        """Find the conflict behind a missing file: another write replaced the file, and a clean deleted it.

        Args:
            instant_time: The write that was to read the file.
            error: The error that ended the write, perhaps in a task.

        Returns:
            The error for the caller; None if there was no such conflict.
        """
        start = self._written_to.get(instant_time)
        if not isinstance(error, HoodieMissingFileException):
            return None
        if start is None or not self._session.config.write.has_several_writers:
            return None
        try:
            others = in_order(self._session.now().active_timeline.completed_writes().times - start.completed)
        except HoodieException as failure:
            logger.warning("whether others committed beside %s could not be found out: %s", instant_time, failure)
            return None
        if not others:
            return None
        return HoodieWriteConflictException(
            f"{', '.join(others[:SHOWN_ERRORS])} was committed to {self._session.config.base_path} while "
            f"{instant_time} was being written, and a file that {instant_time} was to change was cleaned; nothing of "
            f"{instant_time} was committed. Write again: that is safe",
            instant_time=instant_time,
            other_instants=others,
            is_retry_safe=True,
        )

    def _start_of(self, instant_time: str) -> WriteStart:
        start = self._written_to.get(instant_time)
        if start is None:
            raise HoodieCommitException(
                f"instant {instant_time} of {self._session.config.base_path} was not written by this client, so it is "
                "unknown what others wrote since its start; nothing was committed. Commit with the client that wrote it"
            )
        return start

    def _check_nobody_committed(self, timeline: HoodieActiveTimeline, operation: ConcurrentOperation) -> None:
        """Refuse to complete a write if another writer has committed since it began.

        The write replaces the file versions of that time: beside another commit its rows would hide the other's, or be
        hidden by them.
        """
        instant_time = operation.instant.requested_time
        others = self._writes_of_others(timeline, operation)
        if others:
            way_out = f"{ONE_AT_A_TIME}, and write again: that is safe. {SEVERAL_WRITERS}"
            if self._session.config.write.has_several_writers:
                way_out = (
                    "What it wrote was computed from the rows of the table, which are others now. Write again: that is "
                    "safe; hoodie.write.lock.wait.retry=true does so by itself"
                )
            raise HoodieWriteConflictException(
                f"another writer changed {self._session.config.base_path} by {', '.join(others[:SHOWN_ERRORS])} while "
                f"{instant_time} was being written; nothing of {instant_time} was committed. {way_out}",
                instant_time=instant_time,
                other_instants=others,
                is_retry_safe=True,
            )

    def _writes_of_others(self, timeline: HoodieActiveTimeline, operation: ConcurrentOperation) -> list[str]:
        """Instants that are completed and newer than this one, or completed or rolled back since its write began.

        Compactions that were pending then do not count, nor do clusterings of other file groups.
        """
        instant_time = operation.instant.requested_time
        others = set(timeline.completed_writes().after(instant_time).times)
        known = self._written_to.get(instant_time)
        if known is not None:
            others |= timeline.completed_writes().times - known.completed - {instant_time}
            # Its log files are not in the slices that these compactions rewrite.
            others -= known.compactions
            others.update(timeline.undone_since(known.completed, held={*timeline.savepoint_times, instant_time}))
        return self._without_clusterings(timeline, operation, in_order(others))

    def _without_clusterings(
        self, timeline: HoodieActiveTimeline, operation: ConcurrentOperation, others: Iterable[str]
    ) -> list[str]:
        """The instants without clusterings that were pending when the write began, and rewrote other file groups."""
        known = self._written_to.get(operation.instant.requested_time)
        pending = frozenset() if known is None else known.clusterings

        def is_apart(time: str) -> bool:
            found = timeline.find(time, Action.REPLACE_COMMIT) if time in pending else None
            if found is None or not found.is_completed:
                return False
            other = ConcurrentOperation.load(timeline, found)
            is_clustering = other.operation_type is WriteOperationType.CLUSTER
            return is_clustering and not other.file_groups & operation.file_groups

        return [time for time in others if not is_apart(time)]

    def _with_same_properties(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Load the table's properties again; refuse if version or layout changed during the write."""
        before = snapshot.table_config
        snapshot = snapshot.with_properties_reloaded()
        after = snapshot.table_config
        try:
            after.check_writable()
        except HoodieNotSupportedException as error:
            raise HoodieNotSupportedException(
                f"the table {snapshot.base_path} changed while it was being written; nothing was committed: {error}"
            ) from error
        if (before.table_version, before.timeline_layout_version) != (
            after.table_version,
            after.timeline_layout_version,
        ):
            raise HoodieCommitException(
                f"the version of {snapshot.base_path} changed while it was being written; nothing was committed: write "
                "again"
            )
        return snapshot

    def _check_inflight(self, snapshot: TableSnapshot, instant_time: str, action: Action) -> None:
        instant = snapshot.active_timeline.find(instant_time, action)
        if instant is None or instant.state is not State.INFLIGHT:
            raise HoodieCommitException(self._why_not(snapshot, instant_time, action, "be committed"))

    def _why_not(self, snapshot: TableSnapshot, instant_time: str, action: Action, wish: str) -> str:
        timeline = snapshot.active_timeline
        instant = timeline.find(instant_time)
        subject = f"instant {instant_time} of {snapshot.base_path} cannot {wish}: "
        if instant is None:
            rolled_back = any(
                instant_time in rolled_back_by(snapshot, rollback)
                for rollback in timeline.filter_actions(Action.ROLLBACK).filter_completed_instants()
            )
            if rolled_back:
                return subject + "it was rolled back. Start a new one with start_commit() and write again"
            restored = timeline.filter_actions(Action.RESTORE).filter_completed_instants().after(instant_time)
            if restored.last_instant is not None:
                return subject + (
                    f"restore {restored.last_instant.requested_time} undid it, or it was never started. Start a new "
                    "one with start_commit() and write again"
                )
            return subject + "it was never started. Start one with start_commit()"
        if instant.state is State.COMPLETED:
            return subject + "it is completed already"
        if instant.action is not action:
            name = "an insert_overwrite or delete_partition" if action is Action.REPLACE_COMMIT else "that operation"
            return subject + (
                f"it was started as a {instant.action}, and this operation needs a {action}: for {name} give the "
                "operation to start_commit(operation)"
            )
        if instant.state is State.INFLIGHT:
            return subject + "it was written to already. Start a new one with start_commit()"
        return subject + "nothing was written to it yet"
