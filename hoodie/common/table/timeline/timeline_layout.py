"""Where a timeline lies, and how its files are named and written: what differs between table versions.

Layout 1 (table versions up to 6) keeps all state files of an instant side by side in ``.hoodie``:

    20250126040823628.commit.requested      20250126040823628.clean.requested
    20250126040823628.inflight              20250126040823628.clean.inflight
    20250126040823628.commit                20250126040823628.clean
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.exception import HoodieNotSupportedException

__all__ = ["TimelineLayout", "TimelineLayoutV1", "timeline_layout"]


class TimelineLayout(ABC):
    """File names, folder and serialisation of a timeline; stateless.

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
            action: A pending action may be given for the completed state as well: COMPACTION gives ``<t>.commit``.
            state: The state.
            completion_time: The completion time, in layouts whose names hold it.

        Raises:
            ValueError: There is no such file: a savepoint is never requested.
        """

    @abstractmethod
    def parse_file_name(self, name: str) -> HoodieInstant | None:
        """The instant in the state that a file name stands for; None when the name is not of the timeline."""

    @abstractmethod
    def encode_commit_metadata(self, metadata: HoodieCommitMetadata) -> bytes:
        """The content of a completed or inflight commit, deltacommit or replacecommit."""

    @abstractmethod
    def decode_commit_metadata(self, data: bytes, action: Action) -> HoodieCommitMetadata:
        """Read what `encode_commit_metadata` writes.

        Args:
            data: The content of the file, not empty.
            action: REPLACE_COMMIT gives a `HoodieReplaceCommitMetadata`.

        Raises:
            HoodieCorruptedDataException: The content is cut short or damaged.
        """


class TimelineLayoutV1(TimelineLayout):
    """Layout 1: files in ``.hoodie``, JSON commit metadata, no completion times.

    Two names are out of line, and kept because Hudi does: the inflight file of a commit lacks the action
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

    def encode_commit_metadata(self, metadata: HoodieCommitMetadata) -> bytes:
        """JSON."""
        return metadata.to_json()

    def decode_commit_metadata(self, data: bytes, action: Action) -> HoodieCommitMetadata:
        """Read JSON; see `TimelineLayout.decode_commit_metadata`."""
        if action.completed_action is Action.REPLACE_COMMIT:
            return HoodieReplaceCommitMetadata.from_json(data)
        return HoodieCommitMetadata.from_json(data)


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
