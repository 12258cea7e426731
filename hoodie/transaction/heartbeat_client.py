"""Signs of life: a file for each instant that is being written, rewritten from time to time.

Hudi: org.apache.hudi.client.heartbeat.HoodieHeartbeatClient.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Callable

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.write_options import HoodieWriteOptions
from hoodie.exception import HoodieException, HoodieHeartbeatException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_clock import age_ms, is_older
from hoodie.threads import start_thread

logger = logging.getLogger(__name__)


def heartbeat_age_ms(snapshot: TableSnapshot, instant_time: str) -> float:
    """The age of an instant's newest heartbeat in milliseconds; infinite if there is none.

    The clock of the storage counts, since it also sets the file's modification time.
    """
    status = snapshot.storage.file_status(snapshot.heartbeat_path(instant_time))
    return float("inf") if status is None else age_ms(snapshot.storage, status)


def is_heartbeat_expired(snapshot: TableSnapshot, instant_time: str, options: HoodieWriteOptions) -> bool:
    """Whether an instant's writer counts as dead, by its file and this writer's interval and tolerable misses."""
    status = snapshot.storage.file_status(snapshot.heartbeat_path(instant_time))
    return status is None or is_older(snapshot.storage, status, options.heartbeat_tolerance_ms)


@attrs.define
class _Heartbeat:
    """The heartbeat of one instant.

    Attributes:
        storage: The storage of the file.
        path: Its file.
        content: The file's content, unique to this writer: if the response of a write is lost, it tells who made it.
        stopped: Set when the heartbeat ends.
        beaten_ms: The start of the newest successful write of the file, on the monotonic clock.
    """

    storage: HoodieStorage
    path: str
    content: bytes
    beaten_ms: float
    stopped: threading.Event = attrs.field(factory=threading.Event)
    mutex: threading.Lock = attrs.field(factory=threading.Lock)


class HoodieHeartbeatClient:
    """The heartbeats of the instants that one client writes.

    Each is a file ``.hoodie/.heartbeat/<instant>``; its modification time counts. A thread rewrites it every
    ``hoodie.client.heartbeat.interval_in_ms``. Other writers take the writer for dead when the file is older than that
    times ``hoodie.client.heartbeat.tolerable.misses``. So does the writer itself, which then must not commit.

    Args:
        options: Interval and tolerable misses.
        monotonic_ms: The present; for tests.

    Hudi: org.apache.hudi.client.heartbeat.HoodieHeartbeatClient.
    """

    def __init__(self, options: HoodieWriteOptions, monotonic_ms: Callable[[], float] | None = None) -> None:
        self._options = options
        self._monotonic_ms = monotonic_ms or (lambda: time.monotonic() * 1000)
        self._heartbeats: dict[str, _Heartbeat] = {}

    def start(self, snapshot: TableSnapshot, instant_time: str) -> bool:
        """Write the first heartbeat of an instant, and keep beating. Call this before others can see the instant.

        The file is created only if absent: if two writers try the same instant time, only one gets the heartbeat, and
        the other cannot end it.

        Returns:
            False when another writer has a heartbeat of that instant time; this writer must not take the time.

        Raises:
            HoodieIOException: Storage failed; there is no heartbeat.
            HoodieException: No thread could be started that beats regularly; there is no heartbeat.
        """
        if instant_time in self._heartbeats:
            return True
        heartbeat = _Heartbeat(
            snapshot.storage,
            snapshot.heartbeat_path(instant_time),
            uuid.uuid4().hex.encode(),
            beaten_ms=self._monotonic_ms(),
        )
        if not heartbeat.storage.create_if_absent(heartbeat.path, heartbeat.content):
            return False
        self._heartbeats[instant_time] = heartbeat
        name = f"hoodie-heartbeat-{instant_time}"
        try:
            start_thread(threading.Thread(target=self._beat_regularly, args=(heartbeat,), name=name, daemon=True))
        except HoodieException:
            del self._heartbeats[instant_time]
            heartbeat.storage.delete_file(heartbeat.path)
            raise
        return True

    def beat(self, instant_time: str) -> None:
        """Write the heartbeat now, as the thread does regularly.

        Raises:
            HoodieIOException: Storage failed.
        """
        self._beat(self._heartbeats[instant_time])

    def is_expired(self, instant_time: str) -> bool:
        """Whether this writer counts as dead to others, or has no heartbeat."""
        heartbeat = self._heartbeats.get(instant_time)
        return heartbeat is None or (self._monotonic_ms() - heartbeat.beaten_ms > self._options.heartbeat_tolerance_ms)

    def check_alive(self, instant_time: str, base_path: str) -> None:
        """Refuse to go on when others may have rolled the instant back already.

        Raises:
            HoodieHeartbeatException: The heartbeat has expired, or was never started.
        """
        heartbeat = self._heartbeats.get(instant_time)
        if heartbeat is None:
            raise HoodieHeartbeatException(
                f"instant {instant_time} of {base_path} has no heartbeat in this client, so others may roll it back: "
                "commit with the client that started it. Nothing was committed"
            )
        if self.is_expired(instant_time):
            age = (self._monotonic_ms() - heartbeat.beaten_ms) / 1000
            raise HoodieHeartbeatException(
                f"the heartbeat of instant {instant_time} of {base_path} has expired: {heartbeat.path} was written "
                f"{age:.0f} s ago, and others may be rolling the instant back. Nothing was committed: write again; if "
                "this happens often, raise hoodie.client.heartbeat.interval_in_ms or "
                "hoodie.client.heartbeat.tolerable.misses for all writers"
            )

    def stop(self, instant_time: str) -> None:
        """End the heartbeat of an instant and delete its file; nothing when there is none.

        A file that cannot be deleted stays: it means nothing once its instant has ended. The file of an expired
        heartbeat stays as well: another writer may have deleted it and taken the instant time.
        """
        is_expired = self.is_expired(instant_time)
        heartbeat = self._heartbeats.pop(instant_time, None)
        if heartbeat is None:
            return
        heartbeat.stopped.set()
        if is_expired:
            return
        try:
            with heartbeat.mutex:
                heartbeat.storage.delete_file(heartbeat.path)
        except HoodieException as error:
            logger.warning("the heartbeat %s was not deleted: %s", heartbeat.path, error)

    def abandon(self, instant_time: str) -> None:
        """End the heartbeat of an instant and leave its file to expire, so that others roll the instant back."""
        heartbeat = self._heartbeats.pop(instant_time, None)
        if heartbeat is not None:
            heartbeat.stopped.set()

    def close(self) -> None:
        """End all heartbeats. The files of instants that are pending stay, and expire."""
        for heartbeat in self._heartbeats.values():
            heartbeat.stopped.set()
        self._heartbeats.clear()

    def _beat_regularly(self, heartbeat: _Heartbeat) -> None:
        while not heartbeat.stopped.wait(self._options.heartbeat_interval_ms / 1000):
            try:
                self._beat(heartbeat)
            except HoodieException as error:
                # The thread tries again after the interval. If that is too late, `check_alive` refuses to commit.
                logger.warning("the heartbeat %s was not written: %s", heartbeat.path, error)

    def _beat(self, heartbeat: _Heartbeat) -> None:
        began = self._monotonic_ms()
        with heartbeat.mutex:
            # A heartbeat that has ended must not come back.
            if heartbeat.stopped.is_set():
                return
            if began - heartbeat.beaten_ms > self._options.heartbeat_tolerance_ms:
                # Other writers may already count this one as dead, and a heartbeat now would not undo that.
                return
            heartbeat.storage.replace(heartbeat.path, heartbeat.content)
            heartbeat.beaten_ms = began
