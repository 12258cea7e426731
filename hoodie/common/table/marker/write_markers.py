"""Markers: empty files that announce each data file before it is written.

With markers, a rollback finds every file that an instant may have left, without listing the table. So does the step
that removes the files of lost task attempts. hoodie writes one marker for each file (Hudi's type DIRECT), and reads
those and the batched form of Hudi's timeline server (TIMELINE_SERVER_BASED).

Hudi: org.apache.hudi.table.marker.{WriteMarkers, DirectWriteMarkers}, org.apache.hudi.common.util.MarkerUtils.
"""

from __future__ import annotations

import logging
import re

import attrs

from hoodie.common.fs.file_names import (
    is_data_file_name,
    make_marker_name,
    parse_base_file_name,
    parse_log_file_name,
    parse_marker_name,
)
from hoodie.common.model.write_operation_type import IOType
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.common.table.timeline.instant_time import is_instant_time
from hoodie.exception import HoodieCommitException, HoodieCorruptedDataException, HoodieIOException
from hoodie.storage import storage_path
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_clock import is_older

logger = logging.getLogger(__name__)

TEMP_FOLDER_NAME = ".temp"
"""The folder below ``.hoodie`` with one folder of markers for each instant that is being written."""

OPEN_SUFFIX = ".open"
"""The suffix of a file beside an instant's marker folder; while that file exists, tasks may write.

The file is not inside the folder, because Hudi takes every file there for a marker.
"""

_TYPE_FILE_NAME = "MARKERS.type"
_BATCH_FILE_NAME = re.compile(r"MARKERS[0-9]+")
_MARKER_TYPES = ("DIRECT", "TIMELINE_SERVER_BASED")


@attrs.frozen(order=True)
class Marker:
    """The announcement of one data file.

    Attributes:
        partition_path: The file's partition.
        file_name: The file's name.
        io_type: CREATE for the first base file of a group, MERGE for a later one, APPEND for a log file.
    """

    partition_path: str
    file_name: str
    io_type: IOType


@attrs.frozen
class WriteMarkers:
    """The markers of one instant. Picklable: tasks create markers, the driver lists and deletes them.

    Attributes:
        storage: The table's storage.
        meta_path: The table's ``.hoodie`` folder.
        instant_time: The instant being written.
    """

    storage: HoodieStorage
    meta_path: str
    instant_time: str

    @property
    def folder(self) -> str:
        """The full path of the instant's marker folder; it need not exist."""
        return storage_path.join(self.meta_path, TEMP_FOLDER_NAME, self.instant_time)

    @property
    def open_path(self) -> str:
        """The full path of the file that allows tasks to write."""
        return self.folder + OPEN_SUFFIX

    def open(self) -> bool:
        """Allow tasks to write. Without it they refuse to begin a file, and drop a file that they finish.

        Returns:
            False if they were allowed already.
        """
        return self.storage.create_if_absent(self.open_path, self.instant_time.encode())

    @property
    def is_open(self) -> bool:
        """Whether tasks may still write."""
        return self.storage.is_file(self.open_path)

    def refuse_if_closed(self, path: str) -> None:
        """Stop an attempt of a task that came too late.

        Args:
            path: The file that it writes.

        Raises:
            HoodieCommitException: Tasks may not write any more.
        """
        if not self.is_open:
            raise HoodieCommitException(
                f"{path} was not written: instant {self.instant_time} is being completed or rolled back, or was. This "
                "attempt of the task came too late, and nothing of it counts"
            )

    def close(self) -> None:
        """Stop tasks from writing: from now on they delete the files that they announce.

        Call this before the markers are listed. An attempt that is still running either has its marker in that list, or
        finds at its end that it came too late.
        """
        self.storage.delete_files([self.open_path])

    def create(self, partition_path: str, file_name: str, io_type: IOType) -> bool:
        """Announce a data file. Call this before the file is created; a second call for the same file is no error.

        Args:
            partition_path: The data file's partition.
            file_name: The data file's name.
            io_type: The way in which the file is written.

        Returns:
            True when this call created the marker.

        Raises:
            HoodieIOException: The marker would leave the instant's folder, or storage failed.
        """
        return self.storage.create_if_absent(self._path(partition_path, file_name, io_type), b"")

    def exists(self, partition_path: str, file_name: str, io_type: IOType) -> bool:
        """Whether a data file has a marker of its own (batched markers are ignored).

        Raises:
            HoodieIOException: The marker would leave the instant's folder, or storage failed.
        """
        return self.storage.is_file(self._path(partition_path, file_name, io_type))

    def delete(self, partition_path: str, file_name: str, io_type: IOType) -> bool:
        """Delete a marker; False if there was none.

        Raises:
            HoodieIOException: The marker would leave the instant's folder, or storage failed.
        """
        return self.storage.delete_file(self._path(partition_path, file_name, io_type))

    def delete_all(self, *, is_closed: bool = False) -> bool:
        """Stop tasks from writing and delete the instant's marker folder; False if there was none.

        Args:
            is_closed: Whether the caller has called `close`.
        """
        if not is_closed:
            self.close()
        return self.storage.delete_directory(self.folder)

    def list_markers(self) -> list[Marker]:
        """All data files that the instant may have created, sorted, from both kinds of markers.

        All names are data files of this table; base files among them belong to this instant. So it is safe to delete
        them when the instant is rolled back.

        Raises:
            HoodieCorruptedDataException: A batch of markers, or the file that holds their type, is damaged; or a marker
                names something outside of the table, something that is not a data file, or a base file of another
                instant.
            HoodieIOException: Storage failed.
        """
        markers = set()
        for status in self.storage.list_files(self.folder):
            relative_path = storage_path.relative_to(self.folder, status.path)
            if relative_path == _TYPE_FILE_NAME:
                self._check_type(status)
            elif _BATCH_FILE_NAME.fullmatch(relative_path):
                markers.update(self._read_batch(status))
            elif (marker := self._parse(relative_path, status.path)) is not None:
                markers.add(marker)
        # Tuples are compared much faster than markers.
        return sorted(markers, key=lambda marker: (marker.partition_path, marker.file_name, marker.io_type))

    def _path(self, partition_path: str, file_name: str, io_type: IOType) -> str:
        try:
            marker_name = make_marker_name(file_name, io_type)
        except ValueError as error:
            raise HoodieIOException(f"Cannot place a marker in {self.folder}: {error}") from error
        return storage_path.join(self.folder, check_partition_path(partition_path), marker_name)

    def _check_type(self, status: FileStatus) -> None:
        content = self.storage.read(status.path).decode("utf-8", "replace").strip()
        if content not in _MARKER_TYPES:
            raise HoodieCorruptedDataException(
                f"Cannot list the markers of instant {self.instant_time}: {status.path} holds {content[:80]!r}, "
                f"not one of {', '.join(_MARKER_TYPES)}"
            )

    def _read_batch(self, status: FileStatus) -> list[Marker]:
        try:
            text = self.storage.read(status.path).decode("utf-8")
        except UnicodeDecodeError as error:
            raise HoodieCorruptedDataException(
                f"Cannot list the markers of instant {self.instant_time}: {status.path} is not UTF-8 text"
            ) from error
        *whole_lines, rest = text.split("\n")
        markers = []
        for line in (*whole_lines, rest):
            name = line.removesuffix("\r")
            marker = self._parse(name, status.path) if name else None
            if marker is not None:
                markers.append(marker)
            elif name and line is rest:
                # The line was cut short while it was written. Its writer had no answer yet, so the file does not exist.
                logger.warning("Ignored the unfinished last line of %s", status.path)
            elif name:
                raise HoodieCorruptedDataException(
                    f"Cannot list the markers of instant {self.instant_time}: {status.path} has a line that is not a "
                    f"marker: {name[:200]!r}"
                )
        return markers

    def _parse(self, relative_path: str, source_path: str) -> Marker | None:
        """The marker at a path relative to the folder; None if the name is not that of a marker."""
        partition_path, _, name = relative_path.rpartition("/")
        parsed = parse_marker_name(name)
        if parsed is None:
            return None
        if relative_path.startswith("/"):
            raise HoodieCorruptedDataException(f"Marker {relative_path!r} in {source_path} is an absolute path")
        try:
            check_partition_path(partition_path)
        except HoodieIOException as error:
            raise HoodieCorruptedDataException(
                f"Marker {relative_path!r} in {source_path} is refused: {error}"
            ) from error
        base_file = parse_base_file_name(parsed.file_name)
        log_file = parse_log_file_name(parsed.file_name)
        io_type = IOType(parsed.io_type)
        if not is_data_file_name(parsed.file_name):
            raise HoodieCorruptedDataException(f"Marker {relative_path!r} in {source_path} does not name a data file")
        # An APPEND marker of Hudi 0.14 names the slice's base file, which belongs to an older instant.
        # An APPEND marker names a log file of version 6, whose name holds the base instant of its slice.
        named = base_file or log_file
        if named is not None and io_type is not IOType.APPEND and named.instant_time != self.instant_time:
            raise HoodieCorruptedDataException(
                f"Marker {relative_path!r} in {source_path} names a file of instant {named.instant_time}, not of "
                f"{self.instant_time}"
            )
        return Marker(partition_path, parsed.file_name, io_type)


def find_rival(
    storage: HoodieStorage,
    meta_path: str,
    instant_time: str,
    partition_path: str,
    file_id: str,
    heartbeat_tolerance_ms: int,
) -> str | None:
    """The instant of another live writer that announced a file of the same file group; None if there is none.

    This is not certain: two writers that look at the same time miss each other. The commit checks again, under the
    lock. Batched markers of Hudi's timeline server are ignored.

    Args:
        storage: The table's storage.
        meta_path: The table's ``.hoodie`` folder.
        instant_time: The caller's own instant.
        partition_path: The file group's partition.
        file_id: The file group's id.
        heartbeat_tolerance_ms: The age of a heartbeat above which its writer counts as dead.

    Raises:
        HoodieIOException: Storage failed.

    Hudi: org.apache.hudi.table.marker.SimpleDirectMarkerBasedDetectionStrategy.
    """
    folder = storage_path.join(meta_path, TEMP_FOLDER_NAME)
    for entry in storage.list_directory(folder):
        if not entry.is_directory or entry.name == instant_time or not is_instant_time(entry.name):
            continue
        heartbeat = storage.file_status(storage_path.join(meta_path, storage_path.HEARTBEAT_FOLDER_NAME, entry.name))
        if heartbeat is None or is_older(storage, heartbeat, heartbeat_tolerance_ms):
            continue
        markers = storage_path.join(entry.path, partition_path) if partition_path else entry.path
        # Names of log files begin with a dot.
        if any(marker.name.removeprefix(".").startswith(f"{file_id}_") for marker in storage.list_directory(markers)):
            return entry.name
    return None
