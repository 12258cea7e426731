"""Take over actions that take long, so that one process at a time carries out each of them.

Compactions and indexings do their work without the lock, while others write. The process that carries one out has its
heartbeat. Another process leaves the action alone while that process lives. Once it is dead, the other process undoes
its attempt, and begins anew under the same instant.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import ClassVar, TypeVar

import attrs

from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieException
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_clock import is_older
from hoodie.table.table_session import TableSession
from hoodie.transaction.begun_instants import is_begun_here
from hoodie.transaction.heartbeat_client import is_heartbeat_expired

logger = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")


@attrs.frozen(eq=False)
class Takeover:
    """Takes over the long actions of one kind, and gives them up if they fail.

    Attributes:
        kind: The action's name on the timeline.
        missing_error: Is raised where there is no such action.
        taken_error: Is raised where another process is carrying it out.
        is_alone: Whether a single writer keeps its lock as long as it carries out the action: then whoever has that
            lock knows that no other process is doing so.
        session: The table's lock, and the heartbeats of this process.
        undo: Undoes a failed attempt of an instant that is inflight, and keeps its plan. None where the next attempt
            does that as it begins.
    """

    kind: ClassVar[Action]
    missing_error: ClassVar[type[HoodieException]]
    taken_error: ClassVar[type[HoodieException]]
    is_alone: ClassVar[bool] = True

    session: TableSession
    undo: Callable[[TableSnapshot, str], object] | None = None

    def carry_out(
        self, snapshot: TableSnapshot, instant_time: str, work: Callable[[Callable[[], None]], ResultT]
    ) -> ResultT | None:
        """Carry out an action while no other process does.

        Args:
            snapshot: The table.
            instant_time: The action's instant.
            work: Carries it out. It is given a check that raises where others may have taken this process for dead.

        Returns:
            The result of the work; None if the action is completed already.

        Raises:
            HoodieException: `missing_error` or `taken_error`, or an error of the work.
        """
        if not self._take(snapshot, instant_time):
            return None
        try:
            return work(partial(self.session.heartbeats.check_alive, instant_time, snapshot.base_path))
        except Exception as error:
            self._give_up(instant_time, error)
            raise
        except BaseException:
            # It was interrupted. The heartbeat, which ends, tells the next attempt that this one is dead.
            self.session.heartbeats.abandon(instant_time)
            raise
        finally:
            self.session.heartbeats.stop(instant_time)
            self.session.transactions.drop(instant_time)

    def refuse_if_alive(self, table: TableSnapshot, instant: HoodieInstant) -> None:
        """Refuse to go on while the process that carries out an action is alive, or may be.

        Args:
            table: The table, loaded under its lock.
            instant: A pending instant.

        Raises:
            HoodieException: `taken_error`.
        """
        time, path = instant.requested_time, table.heartbeat_path(instant.requested_time)
        if table.storage.exists(path):
            is_ours = is_begun_here(table.base_path, time)
            may_be_alive = is_ours or not (self.is_alone and self.session.transactions.keeps_processes_apart)
            if may_be_alive and not is_heartbeat_expired(table, time, self.session.config.write):
                raise self._taken(table, time, f"its heartbeat {path} is fresh")
        elif instant.state is State.INFLIGHT:
            # Hudi's attempts have no heartbeat.
            tolerance = self.session.config.write.heartbeat_tolerance_ms
            for status in self.files_of_attempt(table, instant):
                if not is_older(table.storage, status, tolerance):
                    raise self._taken(table, time, f"it has no heartbeat, as with Hudi, and {status.path} is new")

    # --- what differs by action -------------------------------------------------------------------------------------

    @contextmanager
    def locked(self, snapshot: TableSnapshot, what: str) -> Iterator[TableSnapshot]:
        """Hold the lock for a block; gives the table as it is then.

        Args:
            snapshot: The table.
            what: A name of the work, for the log.
        """
        with self.session.transactions.transaction(snapshot, what):
            yield snapshot.refreshed()

    def rivals(self, table: TableSnapshot, instant: HoodieInstant) -> Iterable[HoodieInstant]:
        """The pending instants whose processes must be dead before an action is carried out, itself included.

        Args:
            table: The table, loaded under its lock.
            instant: The action's instant, pending.
        """
        return (instant,)

    def files_of_attempt(self, table: TableSnapshot, instant: HoodieInstant) -> Iterable[FileStatus]:
        """Files that a living process without a heartbeat makes from time to time: the inflight file and its markers.

        Args:
            table: The table.
            instant: The action's instant, inflight.
        """
        begun = table.storage.file_status(table.active_timeline.path_of(instant))
        markers = table.storage.list_files(WriteMarkers(table.storage, table.meta_path, instant.requested_time).folder)
        return [*([] if begun is None else [begun]), *markers]

    def another_way(self, instant_time: str) -> str:
        """Advice on an action that a process has taken, other than to wait; ends an error message.

        Args:
            instant_time: The action's instant.
        """
        return f", or roll its attempt back with rollback({instant_time!r}), which keeps the plan"

    # --- steps ------------------------------------------------------------------------------------------------------

    def _take(self, snapshot: TableSnapshot, instant_time: str) -> bool:
        """Take an action over: undo the attempt of a dead process, and start the heartbeat; False if completed."""
        with self.locked(snapshot, f"beginning of {self.kind} {instant_time}") as table:
            found = table.active_timeline.find(instant_time, self.kind)
            if found is None:
                raise self.missing_error(
                    f"there is no {self.kind} {instant_time} in the active timeline of {table.base_path}: it was never "
                    "scheduled, or was taken back, or is archived"
                )
            if found.is_completed:
                logger.info("%s %s of %s is completed already", self.kind, instant_time, table.base_path)
                return False
            for rival in self.rivals(table, found):
                self.refuse_if_alive(table, rival)
            if self.undo is not None and found.state is State.INFLIGHT:
                logger.warning(
                    "rolling back an attempt of %s %s of %s: its process failed", self.kind, instant_time,
                    table.base_path,
                )  # fmt: skip
                self.undo(table, instant_time)
            table.storage.delete_file(table.heartbeat_path(instant_time))
            if not self.session.heartbeats.start(table, instant_time):
                raise self._taken(table, instant_time, "another process was faster")
            self.session.transactions.announce(instant_time)
        return True

    def _give_up(self, instant_time: str, error: Exception) -> None:
        """Undo a failed attempt; the plan stays, and a later call runs it again."""
        # Of an expired one: another process may be carrying it out by now.
        if self.undo is None or self.session.heartbeats.is_expired(instant_time):
            return
        try:
            table = self.session.now()
            found = table.active_timeline.find(instant_time, self.kind)
            if found is not None and found.state is State.INFLIGHT:
                self.undo(table, instant_time)
        except Exception as second:
            # The heartbeat tells the next attempt that this one was of hoodie, and is dead.
            self.session.heartbeats.abandon(instant_time)
            text = (
                f"the attempt of {self.kind} {instant_time} could not be rolled back ({second}): the next one does so"
            )
            logger.warning("%s", text)
            error.add_note(text)

    def _taken(self, table: TableSnapshot, instant_time: str, reason: str) -> HoodieException:
        seconds = self.session.config.write.heartbeat_tolerance_ms / 1000
        return self.taken_error(
            f"{self.kind} {instant_time} of {table.base_path} is being carried out: {reason}. Let that process "
            f"finish; if it is dead, call again in {seconds:.0f} s{self.another_way(instant_time)}"
        )
