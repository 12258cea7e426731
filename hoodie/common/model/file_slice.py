"""Base files, log files, file slices and file groups: values that describe the result of a listing.

Hudi: org.apache.hudi.common.model.{HoodieBaseFile, HoodieLogFile, FileSlice, HoodieFileGroup, HoodieFileGroupId}.
"""

from __future__ import annotations

from typing import Self

import attrs

from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.exception import HoodieIOException, HoodieNotSupportedException


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
    """

    path: str
    file_id: str
    write_token: str
    instant_time: str
    size_bytes: int

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
    """

    path: str
    file_id: str
    instant_time: str
    version: int
    write_token: str | None
    size_bytes: int
    is_cdc: bool = False

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

    @property
    def location(self) -> HoodieRecordLocation:
        """Where its records live, without their positions."""
        return HoodieRecordLocation(self.base_instant_time, self.file_id)

    @property
    def sole_base_file(self) -> HoodieBaseFile:
        """Its base file, which holds all of its records: a slice of a copy-on-write table is nothing else.

        Raises:
            HoodieNotSupportedException: Log files hold records too.
        """
        if self.base_file is None or not all(log_file.is_cdc for log_file in self.log_files):
            raise HoodieNotSupportedException(
                f"file group {self.file_id} of partition '{self.partition_path}' has log files at "
                f"{self.base_instant_time}, which hoodie neither reads nor writes yet: their records would be lost. "
                "Compact the table with the writer that made them; nothing was written"
            )
        return self.base_file


@attrs.frozen
class HoodieFileGroup:
    """All committed slices of one file group, newest first."""

    file_group_id: HoodieFileGroupId
    slices: tuple[FileSlice, ...]
