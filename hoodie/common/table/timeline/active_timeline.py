"""The instants that are not archived, and the only place that creates and completes them.

An instant goes through three files: requested, inflight, completed. Each is created if absent, in this order, and an
inflight file never stands without its requested one: Hudi's next write would fail on it. The creation of the completed
file is the commit point.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Any, ClassVar

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import (
    format_instant_time,
    is_after,
    is_instant_time,
    newest,
    next_instant_time,
)
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_layout import ContentT, TimelineLayout
from hoodie.common.table.timeline.timeline_listing import (
    TimelineStates,
    effective_instants,
    is_listing_whole,
    list_instants,
    list_states,
    pending_action,
)
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.common.table.timeline.whole_files import read_whole_file
from hoodie.exception import (
    HoodieCommitException,
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
)
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

Content = attrs.AttrsInstance | bytes
"""The content of an instant's file: a plan or metadata as a value, or its bytes."""

_MAX_ATTEMPTS = 200
_KEPT_COMMITS = 64
_KEPT_BYTES = 1 << 22
_KEPT_BYTES_EACH = 1 << 18
_SUSPICIOUS_LEAD = timedelta(hours=2)  # More than the hour that daylight saving repeats.


def _utc_now() -> datetime:
    return datetime.now(UTC)


def _no_archive() -> None:
    pass


def _not_archived(instant: HoodieInstant) -> None:
    pass


def _agreed(instant_time: str) -> bool:
    return True


def no_check() -> None:
    """Does nothing; takes the place of the check of a lock where there is no lock."""


class CommitsRead(dict[str, HoodieCommitMetadata]):
    """Completed commits that were read or written, by their paths: such a file never changes. Not pickled.

    Threads that read several commits at once share it.
    """

    _mutex: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self) -> None:
        super().__init__()
        self._sizes: dict[str, int] = {}

    def keep(self, path: str, metadata: HoodieCommitMetadata, size_bytes: int) -> None:
        """Keep a small commit; the oldest ones go where they are many.

        Args:
            path: Its file.
            metadata: The metadata that it holds.
            size_bytes: The size of the file.
        """
        if size_bytes <= _KEPT_BYTES_EACH:
            with self._mutex:
                self[path], self._sizes[path] = metadata, size_bytes
                while len(self) > _KEPT_COMMITS or sum(self._sizes.values()) > _KEPT_BYTES:
                    oldest = next(iter(self))
                    del self[oldest], self._sizes[oldest]

    def __reduce__(self) -> tuple[type[CommitsRead], tuple[()]]:
        return CommitsRead, ()


@attrs.frozen(slots=False, repr=False, eq=False)
class HoodieActiveTimeline(HoodieTimeline):
    """The active timeline as it was listed, and the steps that change it on storage.

    The instants are a value: a step does not change them, `reload` lists them again. A method that loses a race returns
    False instead of raising.

    Attributes:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        layout: File names and serialisation.
        timezone: ``hoodie.table.timeline.timezone``: ``UTC`` or ``LOCAL``.
        clock: The present, as an aware datetime.
        newest_archived_time: Returns the greatest instant time of the archived timeline, None if that is empty. Called
            for every new instant.
        archive_name: The name of the folder of the archive, where it is in the folder of the timeline: a listing that
            does not show it tells that the archive is empty. None where it is elsewhere.
        folders: The names of the folders that were listed beside the instants.
        log_compactions: The requested times of the log compactions among the instants. A completed one is a delta
            commit otherwise.
        commits_read: Metadata of completed commits that was read, and on object stores also of those that were written;
            timelines of one client share it. Only in layout 2, where the name of a file holds the time of its
            completion.
        read_archived: Returns the metadata of an archived completed commit, None for any other instant. Called if the
            file of a commit is missing.
        clock_skew_ms: The largest difference of writers' clocks, in milliseconds. In layout 2 a step that takes a time
            lasts that long, so that writers that trust their clocks, as Hudi does, take later ones under the same lock.

    Hudi: org.apache.hudi.common.table.timeline.HoodieActiveTimeline.
    """

    storage: HoodieStorage = attrs.field(kw_only=True)
    meta_path: str = attrs.field(kw_only=True)
    layout: TimelineLayout = attrs.field(kw_only=True)
    timezone: str = attrs.field(kw_only=True, default="UTC")
    clock: Callable[[], datetime] = attrs.field(kw_only=True, default=_utc_now)
    newest_archived_time: Callable[[], str | None] = attrs.field(kw_only=True, default=_no_archive)
    archive_name: str | None = attrs.field(kw_only=True, default=None)
    folders: frozenset[str] = attrs.field(kw_only=True, default=frozenset())
    log_compactions: frozenset[str] = attrs.field(kw_only=True, default=frozenset())
    commits_read: CommitsRead = attrs.field(kw_only=True, factory=CommitsRead)
    read_archived: Callable[[HoodieInstant], HoodieCommitMetadata | None] = attrs.field(
        kw_only=True, default=_not_archived
    )
    clock_skew_ms: int = attrs.field(kw_only=True, default=1)

    @classmethod
    def load(
        cls,
        storage: HoodieStorage,
        meta_path: str,
        layout: TimelineLayout,
        *,
        timezone: str = "UTC",
        newest_archived_time: Callable[[], str | None] = _no_archive,
        archive_name: str | None = None,
        read_archived: Callable[[HoodieInstant], HoodieCommitMetadata | None] = _not_archived,
        clock: Callable[[], datetime] = _utc_now,
        clock_skew_ms: int = 1,
        listed: TimelineStates | None = None,
    ) -> HoodieActiveTimeline:
        """List the timeline: each instant once, in the highest state of its files.

        Args:
            storage: The storage of the table.
            meta_path: The table's ``.hoodie`` folder.
            layout: The table's timeline layout.
            timezone: The table's ``hoodie.table.timeline.timezone``.
            newest_archived_time: Returns the greatest archived instant time; called when an instant is made.
            archive_name: See the class.
            read_archived: Returns the metadata of an archived commit; called when a commit's file is gone.
            clock: The present; for tests.
            clock_skew_ms: See the class.
            listed: The instants of a timeline that was just listed, each once; None lists it.

        Raises:
            HoodieIOException: Storage failed.
        """
        listed = list_instants(storage, meta_path, layout) if listed is None else listed
        return cls(
            listed,
            folders=listed.folders,
            log_compactions=listed.log_compactions,
            storage=storage,
            meta_path=meta_path,
            layout=layout,
            timezone=timezone,
            clock=clock,
            newest_archived_time=newest_archived_time,
            archive_name=archive_name,
            read_archived=read_archived,
            clock_skew_ms=clock_skew_ms,
        )

    def reload(self) -> HoodieActiveTimeline:
        """The timeline in its present state.

        Raises:
            HoodieIOException: Storage failed.
        """
        listed = list_instants(self.storage, self.meta_path, self.layout)
        return attrs.evolve(self, instants=listed, folders=listed.folders, log_compactions=listed.log_compactions)

    @property
    def has_archive(self) -> bool:
        """Whether there may be archived instants; False where the listing of the timeline showed no archive."""
        return self.archive_name is None or self.archive_name in self.folders

    def is_archived_past(self, instant_time: str) -> bool:
        """Whether the archive holds an instant that was requested after the given one.

        Raises:
            HoodieIOException: Storage failed.
        """
        archived = self.newest_archived_time()
        return archived is not None and is_after(archived, instant_time)

    # --- making instants ------------------------------------------------------------------------------------------

    def create_new_instant_time(
        self, action: Action, content: Content = b"", announce: Callable[[str], bool] = _agreed
    ) -> str:
        """Take a new instant time and make its requested file; see `take_new_instant`.

        Returns:
            The instant time, 17 digits.
        """
        return self.take_new_instant(action, content, announce)[0]

    def take_new_instant(
        self, action: Action, content: Content = b"", announce: Callable[[str], bool] = _agreed
    ) -> tuple[str, HoodieActiveTimeline]:
        """Take a new instant time and make its requested file.

        The time is greater than that of every instant, active or archived, of any action, even when the clock is behind
        them; in layout 2 greater than their completion times too. File names of different actions differ, so "create if
        absent" alone does not stop two writers from taking the same time. The writer therefore lists the timeline again
        after it has created the file. If it finds another instant with its time or a later one, it gives up its own and
        takes a new one. The writer with the greatest time always succeeds. It lists it before, too: a file
        with the time of another action's instant must never be there, as its writer may die before it withdraws it.

        Args:
            action: The action to come.
            content: The content of the requested file: a plan, or nothing.
            announce: Called with each candidate time, before other writers can see it. If it returns False, that time
                is not taken.

        Returns:
            The instant time, 17 digits, and the timeline as it was listed after the file was made.

        Raises:
            InvalidTableException: The newest instant of the table has a time from which no next time can be computed.
            HoodieCommitException: Other writers were faster in every attempt.
            HoodieIOException: Storage failed; a requested file may be left behind, which the next write rolls back.
        """
        refused: list[str] = []
        for attempt in range(_MAX_ATTEMPTS):
            instant_time = self._next_time(self._list_states(), refused)
            taken_at = time.monotonic()
            if not announce(instant_time):
                refused.append(instant_time)
            elif (claimed := self._claim(instant_time, action, content)) is not None:
                self._let_clocks_pass(taken_at)
                return instant_time, claimed
            # Two writers that have given way to each other must not collide again.
            time.sleep(random.uniform(0, 0.002 * min(attempt + 1, 25)))
        raise HoodieCommitException(
            f"Taking an instant time for a {action} in {self.meta_path} failed {_MAX_ATTEMPTS} times: other "
            "writers were faster each time; try again"
        )

    def create_requested_at(self, instant_time: str, action: Action, content: Content = b"") -> bool:
        """Make the requested file of an instant time that the caller chose; see `take_instant_at`.

        Returns:
            False when another writer took the time, or a later one, meanwhile.
        """
        return self.take_instant_at(instant_time, action, content) is not None

    def take_instant_at(self, instant_time: str, action: Action, content: Content = b"") -> HoodieActiveTimeline | None:
        """Make the requested file of an instant time that the caller chose; see `take_new_instant`.

        Args:
            instant_time: 17 digits, a date in the table's time zone, later than every instant, active or archived.
            action: The action to begin.
            content: The content of the requested file.

        Returns:
            The timeline as it was listed after the file was made; None when another writer took the time, or a later
            one, meanwhile.

        Raises:
            HoodieConfigException: It is not an instant time.
            HoodieCommitException: It is not later than every instant of the table.
            HoodieIOException: Storage failed.
        """
        if len(instant_time) != 17 or not is_instant_time(instant_time):
            raise HoodieConfigException(
                f"The instant time {instant_time!r} is not of the form yyyyMMddHHmmssSSS, 17 digits that are a date; "
                "let start_commit() choose it"
            )
        last = self._newest_time(self._list_states())
        if last is not None and instant_time <= last:
            raise HoodieCommitException(
                f"The instant time {instant_time} is not later than the newest instant {last} of {self.meta_path}: "
                "choose a later one, or let start_commit() choose"
            )
        return self._claim(instant_time, action, content)

    def create_requested(self, instant_time: str, action: Action, content: Content = b"") -> bool:
        """Make the requested file of an instant, without looking at other instants.

        Args:
            instant_time: The instant time.
            action: The action to come.
            content: The content of the requested file: a plan, or nothing.

        Returns:
            False when that file exists.

        Raises:
            ValueError: The action has no requested file: a savepoint.
            HoodieIOException: Storage failed.
        """
        return self.storage.create_if_absent(self._path(instant_time, action, State.REQUESTED), self._encoded(content))

    def transition_requested_to_inflight(self, instant_time: str, action: Action, content: Content = b"") -> bool:
        """Make the inflight file of a requested instant; for a savepoint, which is never requested, its first file.

        Args:
            instant_time: The instant time.
            action: The action that begins.
            content: The content: a workload profile, a plan, or nothing.

        Returns:
            False when that file exists: another writer has started the instant.

        Raises:
            HoodieCommitException: There is no requested file: the instant was never started, or was rolled back.
            HoodieIOException: Storage failed.
        """
        inflight_path = self._path(instant_time, action, State.INFLIGHT)
        if action is Action.SAVEPOINT:
            return self.storage.create_if_absent(inflight_path, self._encoded(content))
        requested_path = self._path(instant_time, action, State.REQUESTED)
        if self.storage.is_file(requested_path):
            if not self.storage.create_if_absent(inflight_path, self._encoded(content)):
                return False
            if self.storage.is_file(requested_path):
                return True
            # Another writer rolled it back in between: an inflight file must not stay without its requested one.
            self.storage.delete_file(inflight_path)
        raise HoodieCommitException(
            f"Starting {action} {instant_time} failed: {requested_path} does not exist. The instant was never started, "
            "or another writer has rolled it back; start a new one"
        )

    def save_as_complete(
        self,
        instant_time: str,
        action: Action,
        content: Content,
        check: Callable[[], None] = no_check,
        *,
        is_current: bool = False,
        is_sole_writer: bool = False,
    ) -> HoodieInstant | None:
        """Make the completed file of an inflight instant: the commit point.

        In layout 2 its completion time is greater than all times of the timeline. Call this under the table's lock.

        Args:
            instant_time: The instant time.
            action: The finished action; COMPACTION completes as a commit.
            content: The metadata of the action; never empty.
            check: Called right before the file is made; if it raises, the instant stays as it is.
            is_current: Whether this timeline was listed under the lock of all writers, which `check` finds held. Then
                it is not listed again.
            is_sole_writer: Whether in addition all times of its archive are older than those of its instants, as in a
                metadata table, which is written under the table's lock.

        Returns:
            The completed instant; None if it was complete already.

        Raises:
            HoodieCommitException: There is no inflight file: the instant was never started, or was rolled back.
            HoodieIOException: Storage failed; nothing was completed.
            ValueError: The content is empty.
        """
        if not content:
            raise ValueError(f"The completed file of {action} {instant_time} needs content")
        inflight_path = self._path(instant_time, action, State.INFLIGHT)
        is_sole_writer = is_sole_writer and bool(self.instants)
        is_current = is_current or is_sole_writer
        has_times = self.layout.has_completion_times
        is_listed = has_times and not is_current
        states = self._list_states() if is_listed else TimelineStates(self.instants, self.folders, self.log_compactions)
        if has_times:
            is_inflight = is_sole_writer or any(self.path_of(found) == inflight_path for found in states)
        else:
            is_inflight = self.storage.is_file(inflight_path)
        if not is_inflight:
            states = states if has_times else self._list_states()
            if any(found.is_completed and found.key == (instant_time, action.completed_action) for found in states):
                return None
            raise HoodieCommitException(
                f"Completing {action} {instant_time} failed: {inflight_path} does not exist. The instant was never "
                "started, or another writer has rolled it back; write again with a new one"
            )
        encoded = self._encoded(content)
        completed = HoodieInstant(instant_time, action.completed_action, State.COMPLETED)
        if has_times:
            if any(found.is_completed and found.key == completed.key for found in states):
                return None
            completed = attrs.evolve(
                completed,
                # Archived instants are older than active ones.
                completion_time=next_instant_time(
                    self.clock(), newest([*(one.newest_time for one in states), instant_time]), self.timezone
                )
                if is_sole_writer
                else self._next_time(states),
            )
        taken_at = time.monotonic()
        check()  # Nothing that may take long comes between it and the file.
        if not self.storage.create_if_absent(self.path_of(completed), encoded):
            return None
        if not is_current and not self._is_only_one(completed):
            return None
        if self.storage.is_remote and isinstance(content, HoodieCommitMetadata):
            # The next write of this client needs it, and would ask for it.
            self._keep(completed, self.layout.decode(encoded, type(content), "commit metadata"), len(encoded))
        self._let_clocks_pass(taken_at)
        logger.info("Completed %s %s of %s", action, instant_time, self.meta_path)
        return completed

    def is_inflight(self, instant_time: str, action: Action) -> bool:
        """Whether the inflight file of an instant is there now.

        Raises:
            HoodieIOException: Storage failed.
        """
        return self.storage.is_file(self._path(instant_time, action, State.INFLIGHT))

    # --- undoing instants -----------------------------------------------------------------------------------------

    def delete_pending(self, instant_time: str, action: Action, *, keeps_plan: bool = False) -> None:
        """Delete the files of a pending instant, the inflight one first; missing files are ignored.

        Args:
            instant_time: The instant time.
            action: The action of the instant.
            keeps_plan: Whether the requested file stays, so that the plan can be carried out again.

        Raises:
            HoodieCommitException: The instant is complete: `revert_completed_to_inflight` comes first.
            HoodieIOException: Storage failed; call again.
        """
        states = self._states_of(instant_time, action)
        completed = states.get(State.COMPLETED)
        if completed is not None:
            raise HoodieCommitException(
                f"{action} {instant_time} is complete ({self.path_of(completed)} exists) and was not deleted; roll it "
                "back, or restore"
            )
        self._delete_pending_files(instant_time, pending_action(states, action), keeps_plan)

    def delete_in_any_state(self, instant_time: str, action: Action) -> None:
        """Delete the files of an instant; a completed one becomes pending first, see `revert_completed_to_inflight`.

        Args:
            instant_time: The instant time.
            action: The action of the instant.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        self._delete_pending_files(instant_time, self._revert(instant_time, action))

    def withdraw_requested(self, instant_time: str, action: Action) -> bool:
        """Withdraw a plan, unless another writer has begun to carry it out: such a plan stays visible to all writers.

        A writer that begins creates the inflight file first and then checks the requested one. This method deletes the
        requested file first and then checks the inflight one.

        Args:
            instant_time: The instant time.
            action: The planned action.

        Returns:
            False when it is being carried out, or has been.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        requested_path = self._path(instant_time, action, State.REQUESTED)
        try:
            content = self.storage.read(requested_path)
        except FileNotFoundError:
            return False
        self.storage.delete_file(requested_path)
        try:
            is_taken = bool(self._states_of(instant_time, action).keys() & {State.INFLIGHT, State.COMPLETED})
        except BaseException:
            self.storage.create_if_absent(requested_path, content)
            raise
        if is_taken:
            self.storage.create_if_absent(requested_path, content)
            logger.warning(
                "%s %s of %s is not withdrawn: it is being carried out", action, instant_time, self.meta_path
            )
            return False
        logger.info("Withdrew %s %s of %s", action, instant_time, self.meta_path)
        return True

    def revert_completed_to_inflight(self, instant_time: str, action: Action) -> None:
        """Make a completed instant pending again, the first step of undoing it; a pending one is not changed.

        Missing requested and inflight files are created first, empty.

        Args:
            instant_time: The instant time.
            action: The action of the instant.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        self._revert(instant_time, action)

    def delete_archived(self, states: Iterable[HoodieInstant]) -> None:
        """Delete the files of instants that are in the archive; missing files are ignored.

        Pending states are deleted before completed ones, and completed ones oldest first. A concurrent listing of the
        timeline then shows each instant as completed or not at all, and misses none that is newer than one it shows.

        Args:
            states: All states of the instants.

        Raises:
            HoodieIOException: Storage failed; call again.
        """
        for state in sorted(states, key=lambda state: (state.is_completed, state.requested_time, -state.state)):
            self.storage.delete_file(self.path_of(state))

    # --- reading instants -----------------------------------------------------------------------------------------

    def read_details(self, instant: HoodieInstant) -> bytes:
        """The content of the file of an instant in its state; may be empty.

        On a local file system, Hudi creates a file before it fills it. This method waits for a file that Hudi is
        writing at the moment, and returns any other incomplete file as it is.

        Raises:
            HoodieIOException: There is no such file (any more), or storage failed.
        """
        path = self.path_of(instant)
        first = State.INFLIGHT if instant.action is Action.SAVEPOINT else State.REQUESTED
        begun = self._path(instant.requested_time, instant.action, first)
        try:
            return read_whole_file(self.storage, path, begun, may_be_empty=self.layout.may_be_empty(instant))
        except FileNotFoundError as error:
            raise HoodieIOException(
                f"Reading {instant} failed: {path} does not exist. The instant was archived or rolled back since the "
                "timeline was loaded; load it again"
            ) from error

    def stored_states(self) -> dict[tuple[str, Action], dict[State, HoodieInstant]]:
        """Key of an instant -> state -> the instant in that state, for each file that the timeline has now.

        Raises:
            HoodieIOException: Storage failed.
        """
        found: dict[tuple[str, Action], dict[State, HoodieInstant]] = {}
        for instant in self._list_states():
            found.setdefault(instant.key, {})[instant.state] = instant
        return found

    def read_fields(self, instant: HoodieInstant) -> dict[str, Any]:
        """The content of the file of an instant in its state, by the names that its writer gave; {} of an empty file.

        Args:
            instant: The instant.

        Raises:
            HoodieCorruptedDataException: The content is neither JSON nor Avro of a timeline.
            HoodieIOException: There is no such file (any more), or storage failed.
        """
        return self.layout.decode_fields(self.read_details(instant), self.path_of(instant))

    def read_as(self, instant: HoodieInstant, record: type[ContentT]) -> ContentT:
        """The content of the file of an instant in its state, as a value.

        Args:
            instant: The instant; for a plan, in its requested state.
            record: The class of the plan or of the metadata.

        Raises:
            HoodieCorruptedDataException: The content is empty, damaged, or not of that class.
            HoodieIOException: There is no such file (any more), or storage failed.
        """
        return self.layout.decode(self.read_details(instant), record, self.path_of(instant))

    def read_commit_metadata(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        """The metadata of a commit, deltacommit or replacecommit; for an inflight one, its workload profile.

        If a completed one was archived since the timeline was loaded, it is read from the archive, which does not keep
        everything: see `HoodieArchivedTimeline.read_commit_metadata`.

        Args:
            instant: An instant of one of these actions, COMPLETED or INFLIGHT.

        Returns:
            The metadata, a `HoodieReplaceCommitMetadata` for a completed replacecommit; empty for an empty inflight
            file.

        Raises:
            HoodieCorruptedDataException: The file, which the message names, is damaged, or completed and empty.
            HoodieIOException: There is no such file, or storage failed.
            ValueError: Instants of that action or state hold no commit metadata.
        """
        if instant.action.completed_action not in COMMIT_ACTIONS or instant.is_requested:
            raise ValueError(f"{instant} holds no commit metadata")
        path = self.path_of(instant)
        known = self.commits_read.get(path)
        if known is not None:
            return known
        try:
            data = self.read_details(instant)
        except HoodieIOException as error:
            is_gone = instant.is_completed and isinstance(error.__cause__, FileNotFoundError)
            archived = self.read_archived(instant) if is_gone else None
            if archived is None:
                raise
            return archived
        if not data and instant.is_pending:
            return HoodieCommitMetadata()
        if not data:
            raise HoodieCorruptedDataException(
                f"Cannot read {path}: it is empty, so its writer died while completing {instant.action} "
                f"{instant.requested_time}. Delete the file, which makes the instant pending, and roll it back"
            )
        try:
            is_replace = instant.action.completed_action is Action.REPLACE_COMMIT and instant.is_completed
            record = HoodieReplaceCommitMetadata if is_replace else HoodieCommitMetadata
            metadata = self.layout.decode(data, record, "commit metadata")
        except HoodieCorruptedDataException as error:
            raise HoodieCorruptedDataException(f"Cannot read {path}: {error}") from error
        self._keep(instant, metadata, len(data))
        return metadata

    def _keep(self, instant: HoodieInstant, metadata: HoodieCommitMetadata, size_bytes: int) -> None:
        if instant.completion_time is not None:
            self.commits_read.keep(self.path_of(instant), metadata, size_bytes)

    def path_of(self, instant: HoodieInstant) -> str:
        """The path of the file that puts an instant into its state."""
        return join(self.layout.active_path(self.meta_path), self.layout.name_of(instant))

    @cached_property
    def visible_instants(self) -> VisibleInstants:
        """The instants of this timeline whose files readers see."""
        return VisibleInstants.of(self.instants, has_completion_times=self.layout.has_completion_times)

    # --- inside ---------------------------------------------------------------------------------------------------

    def _encoded(self, content: Content) -> bytes:
        return content if isinstance(content, bytes) else self.layout.encode(content)

    def _claim(self, instant_time: str, action: Action, content: Content) -> HoodieActiveTimeline | None:
        """Make the requested file, and withdraw it if another writer has taken the same time or a later one, or if that
        cannot be found out.

        Returns:
            The timeline as it was listed after the file was made; None without the instant.
        """
        if not self.create_requested(instant_time, action, content):
            return None
        try:
            states = self._list_states()
        except BaseException:
            with suppress(HoodieException, OSError):
                self.withdraw_requested(instant_time, action)
            raise
        rival = newest(
            found.newest_time
            for found in states
            if found.newest_time >= instant_time and (found.requested_time, found.action) != (instant_time, action)
        )
        if rival is None:
            if not is_listing_whole(self.storage, self.meta_path, self.layout, states):
                return self.reload()
            return attrs.evolve(
                self,
                instants=effective_instants(states),
                folders=states.folders,
                log_compactions=states.log_compactions,
            )
        # A plan that another writer already carries out stays, and the caller takes a later time for its own.
        self.withdraw_requested(instant_time, action)
        logger.debug("Gave up %s %s for %s of another writer", action, instant_time, rival)
        return None

    def _is_only_one(self, completed: HoodieInstant) -> bool:
        """Whether no other writer completed an instant at the same moment; the file with the earlier time stays.

        Names of layout 2 hold completion times, so "create if absent" succeeds for two writers of one instant.
        """
        if not self.layout.has_completion_times:
            return True
        try:
            rivals = [found for found in self._list_states() if found.key == completed.key and found.is_completed]
        except HoodieIOException as error:
            # The instant is complete, so this must not look like a failure.
            logger.warning("whether others completed %s too could not be found out: %s", completed, error)
            rivals = []
        if any((found.completion_time or "") < (completed.completion_time or "") for found in rivals):
            self.storage.delete_file(self.path_of(completed))
            return False
        return True

    def _next_time(self, states: TimelineStates, further: Iterable[str] = ()) -> str:
        """A time that is greater than all times of a timeline, active and archived, and than further times."""
        last, now = self._newest_time(states, further), self.clock()
        if last is not None and last[:17] >= format_instant_time(now + _SUSPICIOUS_LEAD, self.timezone):
            logger.warning(
                "The newest instant of %s is %s, far in the future; new instants follow it by milliseconds. "
                "Check the clocks of the writers", self.meta_path, last,
            )  # fmt: skip
        return next_instant_time(now, last, self.timezone)

    def _newest_time(self, states: TimelineStates, further: Iterable[str] = ()) -> str | None:
        """The greatest of all times of a timeline, active and archived, and of further times."""
        has_archive = self.archive_name is None or self.archive_name in states.folders
        archived = self.newest_archived_time() if has_archive else None
        return newest([newest(found.newest_time for found in states), archived, *further])

    def _let_clocks_pass(self, taken_at: float) -> None:
        """Wait until the clocks of all writers have passed a time that was taken at a moment of `time.monotonic`."""
        if self.layout.has_completion_times:
            time.sleep(max(taken_at + self.clock_skew_ms / 1000 - time.monotonic(), 0))

    def _revert(self, instant_time: str, action: Action) -> Action:
        """See `revert_completed_to_inflight`; the action of the pending files."""
        states = [state for state in self._list_states() if state.key == (instant_time, action.completed_action)]
        action = pending_action({state.state: state for state in states}, action)
        # Several writers that completed it at once can have left a file each.
        completed = [state for state in states if state.is_completed]
        if not completed:
            return action
        if action is not Action.SAVEPOINT:
            self.storage.create_if_absent(self._path(instant_time, action, State.REQUESTED), b"")
        self.storage.create_if_absent(self._path(instant_time, action, State.INFLIGHT), b"")
        for state in completed:
            self.storage.delete_file(self.path_of(state))
        logger.info("Made %s %s of %s pending again", action, instant_time, self.meta_path)
        return action

    def _delete_pending_files(self, instant_time: str, action: Action, keeps_plan: bool = False) -> None:
        self.storage.delete_file(self._path(instant_time, action, State.INFLIGHT))
        if action is not Action.SAVEPOINT and not keeps_plan:
            self.storage.delete_file(self._path(instant_time, action, State.REQUESTED))
        logger.info("Deleted pending %s %s of %s", action, instant_time, self.meta_path)

    def _states_of(self, instant_time: str, action: Action) -> dict[State, HoodieInstant]:
        """An instant in each state that has a file now; listed, as layouts may have completed names that vary."""
        return self.stored_states().get((instant_time, action.completed_action), {})

    def _list_states(self) -> TimelineStates:
        return list_states(self.storage, self.meta_path, self.layout)

    def _path(self, instant_time: str, action: Action, state: State) -> str:
        return join(self.layout.active_path(self.meta_path), self.layout.file_name(instant_time, action, state))
