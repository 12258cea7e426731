"""The folder, file names and serialisation of a timeline, which differ between table versions.

Layout 1 (table versions up to 6) keeps all state files of an instant side by side in ``.hoodie``:

    20250126040823628.commit.requested      20250126040823628.clean.requested
    20250126040823628.inflight              20250126040823628.clean.inflight
    20250126040823628.commit                20250126040823628.clean
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import suppress
from typing import TypeVar

import attrs

from hoodie.avro import timeline_metadata
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.archived_entry import encode_archived_entry
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieNotSupportedException

ContentT = TypeVar("ContentT", bound=attrs.AttrsInstance)

_ARCHIVE_FILE = re.compile(r"\.commits_\.archive\.(\d+)(_.*)?")
_WRITE_TOKEN = "1-0-1"


class TimelineLayout(ABC):
    """File names, folder and serialisation of a timeline and of its archive; stateless.

    Hudi: org.apache.hudi.common.table.timeline.TimelineLayout, with InstantFileNameGenerator, InstantFileNameParser and
    CommitMetadataSerDe of one layout in one class.
    """

    version: int

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

    @abstractmethod
    def parse_file_name(self, name: str) -> HoodieInstant | None:
        """The instant in the state that a file name stands for; None for a file that is not of the timeline."""

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
            source: Where it comes from (a path), for the error message.

        Raises:
            HoodieCorruptedDataException: The content is truncated, damaged or another record.
        """

    @abstractmethod
    def archive_file_name(self, number: int) -> str:
        """The name of a file of the archive.

        Args:
            number: The place of the file in the order of the archive's files.
        """

    @abstractmethod
    def archive_file_number(self, name: str) -> int | None:
        """The number of a file of the archive; None for other files."""

    @abstractmethod
    def encode_archived(self, state: HoodieInstant, content: bytes, transition_time: str, source: str) -> bytes:
        """The record of one instant in one state, as the archive holds it; see `encode_archived_entry`."""


class TimelineLayoutV1(TimelineLayout):
    """Layout 1: files in ``.hoodie``, JSON commit metadata, no completion times.

    Two actions break the pattern, as they do in Hudi: the inflight file of a commit lacks the action
    (``<t>.inflight``), and a savepoint has no requested file.
    """

    version = 1

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
        requested_time, _, suffix = name.partition(".")
        found = _SUFFIXES_V1.get(suffix)
        if found is None or not requested_time.isdecimal() or not requested_time.isascii():
            return None
        return HoodieInstant(requested_time, *found)

    def encode(self, content: attrs.AttrsInstance) -> bytes:
        """JSON for commit metadata, Avro for all else."""
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
        return encode_archived_entry(state, content, transition_time, source)


def _suffixes(layout: TimelineLayout) -> dict[str, tuple[Action, State]]:
    suffixes: dict[str, tuple[Action, State]] = {}
    for action in Action:
        for state in State:
            if state is State.COMPLETED and action.completed_action is not action:
                continue
            with suppress(ValueError):
                suffixes[layout.file_name("", action, state).removeprefix(".")] = action, state
    return suffixes


_SUFFIXES_V1 = _suffixes(TimelineLayoutV1())
_LAYOUTS: dict[int, TimelineLayout] = {1: TimelineLayoutV1()}


def timeline_layout(version: int) -> TimelineLayout:
    """The layout of a version number.

    Args:
        version: ``hoodie.timeline.layout.version`` of the table.

    Raises:
        HoodieNotSupportedException: hoodie does not have that layout.
    """
    layout = _LAYOUTS.get(version)
    if layout is None:
        raise HoodieNotSupportedException(
            f"hoodie.timeline.layout.version={version} is not supported: hoodie has layout "
            f"{', '.join(map(str, sorted(_LAYOUTS)))} (tables of hoodie.table.version=6)"
        )
    return layout
