"""Base files, log files, file slices and file groups: values that describe the result of a listing.

Hudi: org.apache.hudi.common.model.{HoodieBaseFile, HoodieLogFile, FileSlice, HoodieFileGroup, HoodieFileGroupId}.
"""

from __future__ import annotations

from typing import Self

import attrs

from hoodie.common.fs.file_names import LogFileName, parse_base_file_name, parse_log_file_name
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.exception import HoodieIOException, HoodieNotSupportedException
from hoodie.storage.storage import FileStatus


@attrs.frozen(order=True)
class HoodieFileGroupId:
    """A file group: a partition path and a file id."""

    partition_path: str
    file_id: str


@attrs.frozen
class HoodieBaseFile:
    """One Parquet file of a file group.

    Attributes:
        path: The full path.
        file_id: The file group's id.
        write_token: ``<partition>-<stage>-<attempt>`` of the task that wrote it.
        instant_time: The instant that wrote it.
        size_bytes: Its size.
        modification_time_ms: The time in a listing of storage; 0 if it is not known. It does not count in comparisons.
    """

    path: str
    file_id: str
    write_token: str
    instant_time: str
    size_bytes: int
    modification_time_ms: int = attrs.field(default=0, eq=False, repr=False)

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@attrs.frozen
class HoodieLogFile:
    """One log file of a file slice.

    Attributes:
        path: The full path.
        file_id: The file group's id.
        instant_time: Table version 6: the base instant of its slice. Versions 8 and 9: the delta commit that wrote it.
        version: 1 for the first log file of a slice (version 6) or of a delta commit, and so on.
        write_token: See `HoodieBaseFile`; None in very old names.
        size_bytes: Its size.
        is_cdc: Whether it holds change data instead of records.
        modification_time_ms: See `HoodieBaseFile`.
        committed_bytes: The largest size by completed commits, if it was looked up, otherwise 0; see
            `hoodie.common.table.view.committed_log_files`. It is ignored in comparisons.
    """

    path: str
    file_id: str
    instant_time: str
    version: int
    write_token: str | None
    size_bytes: int
    is_cdc: bool = False
    modification_time_ms: int = attrs.field(default=0, eq=False, repr=False)
    committed_bytes: int = attrs.field(default=0, eq=False, repr=False)

    @classmethod
    def of(cls, name: LogFileName, status: FileStatus) -> Self:
        """A log file of a listing.

        Args:
            name: Its parsed name.
            status: Its entry.
        """
        return cls(
            path=status.path,
            file_id=name.file_id,
            instant_time=name.instant_time,
            version=name.version,
            write_token=name.write_token,
            size_bytes=status.size_bytes,
            is_cdc=name.is_cdc,
            modification_time_ms=status.modification_time_ms,
        )

    @property
    def file_name(self) -> str:
        """The last part of the path."""
        return self.path.rsplit("/", 1)[-1]


@attrs.frozen
class FileSlice:
    """A base file and the log files on top of it: one version of a file group."""

    partition_path: str
    file_id: str
    base_instant_time: str
    base_file: HoodieBaseFile | None = None
    log_files: tuple[HoodieLogFile, ...] = ()

    @classmethod
    def of_base_file(cls, partition_path: str, path: str, size_bytes: int) -> Self:
        """The slice of one base file, which its name describes.

        Args:
            partition_path: The partition.
            path: Full path of the file.
            size_bytes: Its length.

        Raises:
            HoodieIOException: It is not the name of a base file.
        """
        name = parse_base_file_name(path.rsplit("/", 1)[-1])
        if name is None:
            raise HoodieIOException(f"{path} was written by a commit, but its name is not that of a base file")
        base_file = HoodieBaseFile(path, name.file_id, name.write_token, name.instant_time, size_bytes)
        return cls(partition_path, name.file_id, name.instant_time, base_file)

    def with_log_file(self, path: str, size_bytes: int) -> Self:
        """The slice with one more log file, which its name describes.

        Args:
            path: Full path of the file.
            size_bytes: Its length.

        Raises:
            HoodieIOException: It is not the name of a log file.
        """
        name = parse_log_file_name(path.rsplit("/", 1)[-1])
        if name is None:
            raise HoodieIOException(f"{path} was written by a commit, but its name is not that of a log file")
        log_file = HoodieLogFile(
            path, name.file_id, name.instant_time, name.version, name.write_token, size_bytes, name.is_cdc
        )
        return attrs.evolve(self, log_files=(*self.log_files, log_file))

    @property
    def location(self) -> HoodieRecordLocation:
        """The location of its records, without positions."""
        return HoodieRecordLocation(self.base_instant_time, self.file_id)

    @property
    def shown_path(self) -> str:
        """Full path of one of its files: the base file, or its last log file where there is none."""
        return self.base_file.path if self.base_file is not None else self.log_files[-1].path

    @property
    def is_base_file_alone(self) -> bool:
        """Whether the base file holds all of its records: log files hold at most change data."""
        return self.base_file is not None and all(log_file.is_cdc for log_file in self.log_files)

    @property
    def record_log_files(self) -> tuple[HoodieLogFile, ...]:
        """Its log files with records: all but those of change data."""
        return tuple(log_file for log_file in self.log_files if not log_file.is_cdc)

    @property
    def record_files(self) -> tuple[HoodieBaseFile | HoodieLogFile, ...]:
        """All files that hold its records."""
        return (*(() if self.base_file is None else (self.base_file,)), *self.record_log_files)

    @property
    def size_bytes(self) -> int:
        """The size of the files that hold its records."""
        return sum(file.size_bytes for file in self.record_files)

    @property
    def key_file(self) -> HoodieBaseFile:
        """Its base file, in which an index searches keys: its log files hold changes of these records.

        Raises:
            HoodieNotSupportedException: The slice has no base file.
        """
        if self.base_file is None:
            raise HoodieNotSupportedException(
                f"file group {self.file_id} of partition '{self.partition_path}' consists of log files, where this "
                "index does not look for keys: they would be stored a second time. Write with the index that made the "
                "file group, such as BUCKET, or compact the table first; nothing was written"
            )
        return self.base_file

    @property
    def sole_base_file(self) -> HoodieBaseFile:
        """Its base file, which holds all of its records: a slice of a copy-on-write table has no other files.

        Raises:
            HoodieNotSupportedException: Log files hold records too.
        """
        if self.base_file is None or not self.is_base_file_alone:
            raise HoodieNotSupportedException(
                f"file group {self.file_id} of partition '{self.partition_path}' has log files at "
                f"{self.base_instant_time}, and its base file alone does not hold its records: they would be lost. "
                "Compact the table first; nothing was written"
            )
        return self.base_file


@attrs.frozen
class HoodieFileGroup:
    """All committed slices of one file group, newest first."""

    file_group_id: HoodieFileGroupId
    slices: tuple[FileSlice, ...]
