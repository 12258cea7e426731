"""The folder, file names and serialisation of a timeline, which differ between table versions.

Layout 1 (table versions up to 6) keeps all state files of an instant side by side in ``.hoodie``:

    20250126040823628.commit.requested      20250126040823628.clean.requested
    20250126040823628.inflight              20250126040823628.clean.inflight
    20250126040823628.commit                20250126040823628.clean

Layout 2 (table versions 8 and 9) keeps them in ``.hoodie/timeline``, and names the time of the completion:

    20250126040823628.commit.requested
    20250126040823628.inflight
    20250126040823628_20250126040825104.commit
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from contextlib import suppress
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import attrs

from hoodie.avro import timeline_metadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import join

ContentT = TypeVar("ContentT", bound=attrs.AttrsInstance)

_ARCHIVE_FILE = re.compile(r"\.commits_\.archive\.(\d+)(_.*)?")
_WRITE_TOKEN = "1-0-1"
_AVRO_MAGIC = b"Obj\x01"
_NAMES_KEPT = 4096
TIMELINE_FOLDER = "timeline"
"""The folder of a timeline of layout 2 in ``.hoodie``, unless ``hoodie.timeline.path`` names another one."""


class TimelineLayout(ABC):
    """File names, folder and serialisation of a timeline and of its archive; stateless.

    Hudi: org.apache.hudi.common.table.timeline.TimelineLayout, with InstantFileNameGenerator, InstantFileNameParser and
    CommitMetadataSerDe of one layout in one class.
    """

    version: int
    has_completion_times: bool
    """Whether each completed instant has a time at which it was completed."""

    @abstractmethod
    def active_path(self, meta_path: str) -> str:
        """The folder of the active timeline.

        Args:
            meta_path: The table's ``.hoodie`` folder.
        """

    @abstractmethod
    def file_name(self, requested_time: str, action: Action, state: State, completion_time: str | None = None) -> str:
        """The name of the file that puts an instant into a state.

        Args:
            requested_time: The instant time.
            action: The action; a pending one works for the completed state as well: COMPACTION gives ``<t>.commit``.
            state: The state.
            completion_time: The completion time, for layouts whose names hold it.

        Raises:
            ValueError: There is no such file; a savepoint, for instance, is never requested.
        """

    def name_of(self, instant: HoodieInstant) -> str:
        """The name of the file for the present state of an instant.

        Args:
            instant: An instant of a listing, or a pending one.
        """
        return self.file_name(instant.requested_time, instant.action, instant.state, instant.completion_time)

    @abstractmethod
    def parse_file_name(self, name: str) -> HoodieInstant | None:
        """The instant and state of a file name; None for a file that is not of the timeline."""

    def instant_of(self, status: FileStatus) -> HoodieInstant | None:
        """The instant and state of an entry of the timeline's folder; None for any other entry."""
        return None if status.is_directory else self.parse_file_name(status.name)

    def may_be_empty(self, instant: HoodieInstant) -> bool:
        """Whether the file of an instant in its state can be whole and empty: that of a pending commit."""
        return instant.is_pending and instant.action.completed_action in COMMIT_ACTIONS

    @abstractmethod
    def encode(self, content: attrs.AttrsInstance) -> bytes:
        """The content of a file.

        Args:
            content: Commit metadata, or the plan or the metadata of another action.
        """

    @abstractmethod
    def decode(self, data: bytes, record: type[ContentT], source: str) -> ContentT:
        """Read what `encode` writes.

        Args:
            data: The content of the file, not empty.
            record: The class of the value.
            source: The path of the file, for the error message.

        Raises:
            HoodieCorruptedDataException: The content is truncated, damaged or another record.
        """

    @staticmethod
    def decode_fields(data: bytes, source: str) -> dict[str, Any]:
        """The content of any file, JSON or Avro, by the names that its writer gave.

        Args:
            data: The content of the file; {} if it is empty.
            source: The path of the file, for the error message.

        Raises:
            HoodieCorruptedDataException: It is neither.
        """
        if not data:
            return {}
        if data.startswith(_AVRO_MAGIC):
            return timeline_metadata.decode_as_written(data, timeline_metadata.RECORDS_OF_LAYOUT_2, source)
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise HoodieCorruptedDataException(f"Cannot read {source} as JSON: {error}") from error
        if not isinstance(found, dict):
            raise HoodieCorruptedDataException(f"Cannot read {source}: its JSON is no object")
        return found

    def archive_file_name(self, number: int) -> str:
        """The name of a file of the archive.

        Args:
            number: The place of the file in the order of the archive's files.

        Raises:
            HoodieNotSupportedException: Files of archives of this layout have no numbers.
        """
        raise self._without_numbers()

    def archive_file_number(self, name: str) -> int | None:
        """The number of a file of the archive; None for other files.

        Raises:
            HoodieNotSupportedException: Files of archives of this layout have no numbers.
        """
        raise self._without_numbers()

    def encode_archived(self, state: HoodieInstant, content: bytes, transition_time: str, source: str) -> bytes:
        """The record of one instant in one state, as the archive holds it; see `encode_archived_entry`.

        Raises:
            HoodieNotSupportedException: Archives of this layout have one entry for all states of an instant.
        """
        raise self._without_numbers()

    def _without_numbers(self) -> HoodieNotSupportedException:
        return HoodieNotSupportedException(
            f"The archive of timeline layout {self.version} has no numbered files with an entry for each state; see "
            "hoodie.common.table.timeline.lsm_archive"
        )


class TimelineLayoutV1(TimelineLayout):
    """Layout 1: files in ``.hoodie``, JSON commit metadata, no completion times.

    Two actions break the pattern, as they do in Hudi: the inflight file of a commit lacks the action
    (``<t>.inflight``), and a savepoint has no requested file.
    """

    version = 1
    has_completion_times = False

    def active_path(self, meta_path: str) -> str:
        """The ``.hoodie`` folder itself."""
        return meta_path

    def file_name(self, requested_time: str, action: Action, state: State, completion_time: str | None = None) -> str:
        """See `TimelineLayout.file_name`; the completion time is not part of the name."""
        if state is State.COMPLETED:
            return f"{requested_time}.{action.completed_action}"
        if action is Action.CLUSTERING:
            raise ValueError("Timeline layout 1 has no clustering action: clustering is a replacecommit there")
        if action is Action.SAVEPOINT and state is State.REQUESTED:
            raise ValueError("A savepoint is never requested; it starts inflight")
        if action is Action.COMMIT and state is State.INFLIGHT:
            return f"{requested_time}.inflight"
        return f"{requested_time}.{action}.{state.name.lower()}"

    def parse_file_name(self, name: str) -> HoodieInstant | None:
        """See `TimelineLayout.parse_file_name`."""
        return _parsed_v1(name)

    def encode(self, content: attrs.AttrsInstance) -> bytes:
        """JSON for commit metadata, Avro for all other content."""
        return content.to_json() if isinstance(content, HoodieCommitMetadata) else timeline_metadata.encode(content)

    def decode(self, data: bytes, record: type[ContentT], source: str) -> ContentT:
        """See `TimelineLayout.decode`."""
        if issubclass(record, HoodieCommitMetadata):
            return record.from_json(data, source)
        return timeline_metadata.decode(data, record, source)

    def archive_file_name(self, number: int) -> str:
        """See `TimelineLayout.archive_file_name`."""
        return f".commits_.archive.{number}_{_WRITE_TOKEN}"

    def archive_file_number(self, name: str) -> int | None:
        """See `TimelineLayout.archive_file_number`."""
        match = _ARCHIVE_FILE.fullmatch(name)
        return int(match[1]) if match and not name.endswith(".crc") else None

    def encode_archived(self, state: HoodieInstant, content: bytes, transition_time: str, source: str) -> bytes:
        """Avro; see `TimelineLayout.encode_archived`."""
        # Imported here: readers archive nothing, and start earlier without.
        from hoodie.common.table.timeline.archived_entry import encode_archived_entry

        return encode_archived_entry(state, content, transition_time, source)


@attrs.frozen
class TimelineLayoutV2(TimelineLayout):
    """Layout 2: files in a folder of ``.hoodie``, completion times in names, Avro commit metadata.

    A pending clustering has an action of its own; its completed file is that of a replacecommit. A completed file whose
    name lacks the completion time was written by an early release, as JSON. It counts as completed when it was last
    changed.

    Attributes:
        folder: The timeline's folder in ``.hoodie`` (``hoodie.timeline.path``).
        timezone: ``hoodie.table.timeline.timezone`` of the table, for the times of last changes.

    Hudi: org.apache.hudi.common.table.timeline.versioning.v2.{InstantFileNameGeneratorV2, InstantFileNameParserV2,
    CommitMetadataSerDeV2}.
    """

    version = 2
    has_completion_times = True

    folder: str = TIMELINE_FOLDER
    timezone: str = "UTC"

    def active_path(self, meta_path: str) -> str:
        """The timeline's own folder."""
        return join(meta_path, self.folder)

    def file_name(self, requested_time: str, action: Action, state: State, completion_time: str | None = None) -> str:
        """See `TimelineLayout.file_name`; the name of a completed file needs the completion time."""
        if state is State.COMPLETED:
            if completion_time is None:
                raise ValueError(f"The name of the completed file of {action} {requested_time} needs a completion time")
            return f"{requested_time}_{completion_time}.{action.completed_action}"
        if action is Action.CLUSTERING:
            return f"{requested_time}.{action}.{state.name.lower()}"
        return _LAYOUT_1.file_name(requested_time, action, state)

    def name_of(self, instant: HoodieInstant) -> str:
        """See `TimelineLayout.name_of`."""
        if instant.has_legacy_name:
            return f"{instant.requested_time}.{instant.action.completed_action}"
        return self.file_name(instant.requested_time, instant.action, instant.state, instant.completion_time)

    def parse_file_name(self, name: str) -> HoodieInstant | None:
        """See `TimelineLayout.parse_file_name`; `instant_of` knows the completion time of a legacy name too."""
        return _parsed_v2(name)

    def instant_of(self, status: FileStatus) -> HoodieInstant | None:
        """See `TimelineLayout.instant_of`."""
        instant = None if status.is_directory else self.parse_file_name(status.name)
        if instant is None or not instant.has_legacy_name:
            return instant
        moment = datetime.fromtimestamp(status.modification_time_ms / 1000, UTC)
        return attrs.evolve(instant, completion_time=format_instant_time(moment, self.timezone))

    def may_be_empty(self, instant: HoodieInstant) -> bool:
        """See `TimelineLayout.may_be_empty`; inflight files of all actions can be empty."""
        return instant.state is State.INFLIGHT or TimelineLayout.may_be_empty(self, instant)

    def encode(self, content: attrs.AttrsInstance) -> bytes:
        """Avro, with Hudi's schemas."""
        if isinstance(content, HoodieCommitMetadata):
            return timeline_metadata.encode_record(type(content).__name__, content.to_avro_value(), self.version)
        return timeline_metadata.encode(content)

    def decode(self, data: bytes, record: type[ContentT], source: str) -> ContentT:
        """Avro in any schema of its writer; JSON if the file may have a legacy name."""
        if not issubclass(record, HoodieCommitMetadata):
            return timeline_metadata.decode(data, record, source)
        if data and not data.startswith(_AVRO_MAGIC):
            return record.from_json(data, source)
        # The class may lack fields of the record, but the record must have the fields of the class.
        names = {record.__name__, HoodieReplaceCommitMetadata.__name__}
        return record.from_value(timeline_metadata.decode_as_written(data, names, source), source)


def _suffixes(layout: TimelineLayout) -> dict[str, tuple[Action, State]]:
    suffixes: dict[str, tuple[Action, State]] = {}
    for action in Action:
        for state in State:
            if state is State.COMPLETED and action.completed_action is not action:
                continue
            with suppress(ValueError):
                suffixes[layout.file_name("", action, state, "").lstrip("_.")] = action, state
    return suffixes


# A write lists its timeline a dozen times, and between two listings most names stay.
@lru_cache(maxsize=_NAMES_KEPT)
def _parsed_v1(name: str) -> HoodieInstant | None:
    requested_time, _, suffix = name.partition(".")
    found = _SUFFIXES_V1.get(suffix)
    if found is None or not requested_time.isdecimal() or not requested_time.isascii():
        return None
    return HoodieInstant(requested_time, *found)


@lru_cache(maxsize=_NAMES_KEPT)
def _parsed_v2(name: str) -> HoodieInstant | None:
    times, _, suffix = name.partition(".")
    requested_time, separator, completion_time = times.partition("_")
    found = _SUFFIXES_V2.get(suffix)
    numbers = (requested_time, completion_time) if separator else (requested_time,)
    if found is None or not all(number.isdecimal() and number.isascii() for number in numbers):
        return None
    action, state = found
    if state is State.COMPLETED:
        return HoodieInstant(requested_time, action, state, completion_time or None, not separator)
    return None if separator else HoodieInstant(requested_time, action, state)


_LAYOUT_1 = TimelineLayoutV1()
_SUFFIXES_V1 = _suffixes(_LAYOUT_1)
_SUFFIXES_V2 = _suffixes(TimelineLayoutV2())


def timeline_layout(version: int, folder: str = TIMELINE_FOLDER, timezone: str = "UTC") -> TimelineLayout:
    """The layout of a version number.

    Args:
        version: ``hoodie.timeline.layout.version`` of the table.
        folder: ``hoodie.timeline.path`` of the table, for layout 2.
        timezone: ``hoodie.table.timeline.timezone`` of the table, for layout 2.

    Raises:
        HoodieNotSupportedException: hoodie does not have that layout.
    """
    if version not in (1, 2):
        raise HoodieNotSupportedException(
            f"hoodie.timeline.layout.version={version} is not supported: hoodie has layout 1 (tables of "
            "hoodie.table.version=6) and layout 2 (tables of 8 and 9)"
        )
    return _LAYOUT_1 if version == 1 else TimelineLayoutV2(folder, timezone)
