"""Make and parse the names of base files, log files and markers.

A name is matched as a whole, never in part: the names of Hadoop's checksum files (``.<name>.crc``) contain a valid
    name.

::

    base file   <file id>_<write token>_<instant>.parquet        7d4c-0_3-0-17_20261121101500123.parquet
    log file    .<file id>_<instant>.log.<version>_<token>       .7d4c-0_20261121101500123.log.1_3-0-17
    marker      <data file name>.marker.<CREATE|MERGE|APPEND>    7d4c-0_3-0-17_20261121101500123.parquet.marker.MERGE

Hudi: org.apache.hudi.common.fs.FSUtils (the part about names).
"""

from __future__ import annotations

import re
import uuid

import attrs

BASE_FILE_EXTENSIONS = (".parquet", ".orc", ".hfile", ".lance")
"""Extensions of the base file formats that Hudi knows; hoodie writes the first."""
LOG_FILE_EXTENSION = ".log"
MARKER_IO_TYPES = ("CREATE", "MERGE", "APPEND")
"""The allowed suffixes after ``.marker.``; the values of `hoodie.common.model.write_operation_type.IOType`."""

_BUCKET_DIGITS = 8
"""The number of digits at the start of the bucket index's file ids."""
_MARKER_INFIX = ".marker."
_CDC_SUFFIX = ".cdc"
# The file ids of a record index by partitions hold escaped paths of partitions.
_FILE_ID = r"[A-Za-z0-9-]+|record-index-[^/_]+"
_NAME_PART = re.compile(_FILE_ID)
_WRITE_TOKEN = re.compile(r"[0-9]+-[0-9]+-[0-9]+")
_INSTANT_TIME = re.compile(r"[0-9]+")
_BASE_FILE_NAME = re.compile(
    rf"(?P<file_id>{_FILE_ID})_(?P<write_token>[A-Za-z0-9-]+)_(?P<instant_time>[0-9]+)(?P<extension>\.[a-z]+)"
)
_LOG_FILE_NAME = re.compile(
    r"\.(?P<file_id>[^/]+)_(?P<instant_time>[^/_]*)\.(?P<kind>log|archive)\.(?P<version>[0-9]{1,18})"
    r"(?:_(?P<write_token>[0-9]+-[0-9]+-[0-9]+)(?P<cdc>\.cdc)?)?"
)


@attrs.frozen
class BaseFileName:
    """The parts of a base file's name.

    Attributes:
        file_id: The file group.
        write_token: ``<partition>-<stage>-<attempt>`` of the task that wrote it.
        instant_time: The instant that wrote it.
        extension: The extension with its dot, one of `BASE_FILE_EXTENSIONS`.
    """

    file_id: str
    write_token: str
    instant_time: str
    extension: str


@attrs.frozen
class LogFileName:
    """The parts of a log file's name.

    Attributes:
        file_id: The file group (``commits`` for a file of the archived timeline).
        instant_time: Table version 6: the base instant of its slice. Versions 8 and 9: the delta commit that wrote it.
            "" for a file of the archived timeline.
        version: 1 for the first log file of a slice (version 6) or of a delta commit, and so on.
        write_token: See `BaseFileName`; None in very old names.
        is_cdc: Whether the file holds change data instead of records.
        is_archive: Whether it is a file of the archived timeline (``.archive.`` instead of ``.log.``).
    """

    file_id: str
    instant_time: str
    version: int
    write_token: str | None
    is_cdc: bool = False
    is_archive: bool = False


@attrs.frozen
class MarkerName:
    """The parts of a marker's name.

    Attributes:
        file_name: The name of the data file that the marker announces.
        io_type: One of `MARKER_IO_TYPES`.
    """

    file_name: str
    io_type: str


def new_file_id_prefix() -> str:
    """A new random prefix of file ids: a version 4 UUID in lower case that does not look like a bucket's file id."""
    while True:
        prefix = str(uuid.uuid4())
        if not prefix[:_BUCKET_DIGITS].isdigit():
            return prefix


def make_file_id(prefix: str, number: int) -> str:
    """The file id of a writer's ``number``-th new file group, counted from 0, with a prefix."""
    if number < 0:
        raise ValueError(f"Cannot make a file id of prefix {prefix!r}: the number {number} is negative")
    return f"{prefix}-{number}"


def file_id_prefix(file_id: str) -> str:
    """The prefix of a file id that `make_file_id` made with number 0.

    Raises:
        ValueError: The id has another number, or no number.
    """
    if not file_id.endswith("-0"):
        raise ValueError(f"{file_id!r} is not the first file id of a prefix")
    return file_id[:-2]


def make_base_file_name(file_id: str, write_token: str, instant_time: str, extension: str = ".parquet") -> str:
    """Make the name of a base file.

    Args:
        file_id: The file group; letters, digits and hyphens.
        write_token: ``<partition>-<stage>-<attempt>``, which makes the name unique for each attempt of a task.
        instant_time: The instant that writes the file.
        extension: The extension with its dot.

    Raises:
        ValueError: A part contains a character that would make the name impossible to parse.
    """
    name = f"{file_id}_{write_token}_{instant_time}{extension}"
    if not _WRITE_TOKEN.fullmatch(write_token) or parse_base_file_name(name) is None:
        raise ValueError(
            f"Cannot make a base file name of file id {file_id!r}, write token {write_token!r}, instant "
            f"{instant_time!r} and extension {extension!r}: the result {name!r} could not be parsed again"
        )
    return name


def parse_base_file_name(name: str) -> BaseFileName | None:
    """Parse the name of a base file; None if it is not one."""
    match = _BASE_FILE_NAME.fullmatch(name)
    if match is None or match["extension"] not in BASE_FILE_EXTENSIONS:
        return None
    return BaseFileName(match["file_id"], match["write_token"], match["instant_time"], match["extension"])


def make_log_file_name(file_id: str, instant_time: str, version: int, write_token: str, is_cdc: bool = False) -> str:
    """Make the name of a log file.

    Args:
        file_id: The file group; letters, digits and hyphens, or that of a record index by partitions.
        instant_time: Table version 6: the base instant of the slice. Versions 8 and 9: the delta commit that writes it.
        version: At least 1. Table version 6: one more than the largest among the slice's log files with any write
            token. Versions 8 and 9: 1 for the first one of the delta commit.
        write_token: ``<partition>-<stage>-<attempt>``.
        is_cdc: Whether the file holds change data.

    Raises:
        ValueError: A part contains a character that would make the name impossible to parse, or the version is below 1.
    """
    valid = (
        _NAME_PART.fullmatch(file_id)
        and _INSTANT_TIME.fullmatch(instant_time)
        and _WRITE_TOKEN.fullmatch(write_token)
        and version >= 1
    )
    if not valid:
        raise ValueError(
            f"Cannot make a log file name of file id {file_id!r}, instant {instant_time!r}, version "
            f"{version} and write token {write_token!r}"
        )
    suffix = _CDC_SUFFIX if is_cdc else ""
    return f".{file_id}_{instant_time}{LOG_FILE_EXTENSION}.{version}_{write_token}{suffix}"


def parse_log_file_name(name: str) -> LogFileName | None:
    """Parse the name of a log file; None if it is not one (the ``.crc`` file of a log file is not)."""
    match = _LOG_FILE_NAME.fullmatch(name)
    if match is None:
        return None
    return LogFileName(
        file_id=match["file_id"],
        instant_time=match["instant_time"],
        version=int(match["version"]),
        write_token=match["write_token"],
        is_cdc=match["cdc"] is not None,
        is_archive=match["kind"] == "archive",
    )


def is_data_file_name(name: str) -> bool:
    """Whether a name is that of a base file or of a file group's log file."""
    match = _BASE_FILE_NAME.fullmatch(name)
    if match is not None and match["extension"] in BASE_FILE_EXTENSIONS:
        return True
    log_file = parse_log_file_name(name)
    return log_file is not None and not log_file.is_archive


def make_marker_name(file_name: str, io_type: str) -> str:
    """Make the name of the marker that announces a data file.

    Args:
        file_name: The name of the data file.
        io_type: One of `MARKER_IO_TYPES` (an ``IOType`` is such a string).

    Raises:
        ValueError: The IO type is unknown, or the name is not a file name (empty, or with a slash).
    """
    if io_type not in MARKER_IO_TYPES:
        raise ValueError(f"Cannot make a marker of {file_name!r}: IO type {io_type!r} is none of {MARKER_IO_TYPES}")
    if not file_name or "/" in file_name:
        raise ValueError(f"Cannot make a marker of {file_name!r}: it is not the name of a file")
    return f"{file_name}{_MARKER_INFIX}{io_type}"


def parse_marker_name(name: str) -> MarkerName | None:
    """Parse the name of a marker; None if it is not one."""
    file_name, infix, io_type = name.rpartition(_MARKER_INFIX)
    if not infix or not file_name or "/" in name or io_type not in MARKER_IO_TYPES:
        return None
    return MarkerName(file_name, io_type)
