"""The active timeline of one layout, written again as that of another layout, beside it.

Nothing is deleted or changed of the timeline that is read.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, is_instant_time, parse_instant_time
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

_Key = tuple[str, Action]


@attrs.frozen
class TimelineFiles:
    """The files of an active timeline.

    Attributes:
        layout: Its layout.
        folder: Full path of its folder.
        instants: Instant -> its states, each with its file. Several completed files can belong to one clean.
    """

    layout: TimelineLayout
    folder: str
    instants: Mapping[_Key, Mapping[HoodieInstant, FileStatus]]

    @classmethod
    def of(cls, storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> TimelineFiles:
        """List the files; nothing else of the table is looked at.

        Args:
            storage: The storage of the table.
            meta_path: The table's ``.hoodie`` folder.
            layout: The layout.

        Raises:
            HoodieIOException: Storage failed.
        """
        found: dict[_Key, dict[HoodieInstant, FileStatus]] = defaultdict(dict)
        folder = layout.active_path(meta_path)
        for status in storage.list_directory(folder):
            state = layout.instant_of(status)
            if state is not None:
                found[state.key][state] = status
        return cls(layout, folder, found)

    @property
    def names(self) -> frozenset[str]:
        """The names of all files."""
        return frozenset(status.name for states in self.instants.values() for status in states.values())

    @property
    def pending(self) -> list[HoodieInstant]:
        """The instants without a completed file, in their highest state, the first first."""
        highest = (max(states, key=lambda state: state.state) for states in self.instants.values())
        return sorted((state for state in highest if state.is_pending), key=lambda state: state.sort_key)

    @property
    def completed(self) -> dict[HoodieInstant, FileStatus]:
        """The completed instants with their files, the first first; of several files of one instant the latest."""
        found: dict[_Key, tuple[HoodieInstant, FileStatus]] = {}
        for key, states in self.instants.items():
            for state, status in states.items():
                known = found.get(key)
                if state.is_completed and (
                    known is None or is_after(state.completion_time or "", known[0].completion_time or "")
                ):
                    found[key] = state, status
        return dict(sorted(found.values(), key=lambda entry: entry[0].sort_key))

    def deletion_order(self) -> tuple[list[str], list[str]]:
        """Paths of the files of pending states, and those of completed ones, the newest first."""
        states = [(state, status.path) for states in self.instants.values() for state, status in states.items()]
        states.sort(key=lambda entry: entry[0].sort_key, reverse=True)
        return (
            [path for state, path in states if state.is_pending],
            [path for state, path in states if state.is_completed],
        )


@attrs.frozen
class TimelineCopy:
    """Copies completed instants of an active timeline into another layout.

    Attributes:
        timeline: The timeline; nothing of it is pending.
        files: Its files.
        target: The other layout.
        target_folder: The folder of that layout's timeline. It holds no instants.
        times: Completion times of the instants.
        keeps_times: Whether the files are to say when the instants were completed by the times of their last change,
            because their names do not.
    """

    timeline: HoodieActiveTimeline
    files: TimelineFiles
    target: TimelineLayout
    target_folder: str
    times: Mapping[_Key, str]
    keeps_times: bool

    def write(self) -> frozenset[str]:
        """Write all files of the new timeline.

        Returns:
            Their names.

        Raises:
            HoodieCorruptedDataException: A file of the timeline is damaged.
            HoodieIOException: Storage failed, or another process writes to the folder.
        """
        return frozenset(
            name for names in map_concurrently(self._write_instant, list(self.files.completed)) for name in names
        )

    def _write_instant(self, completed: HoodieInstant) -> list[str]:
        states = self.files.instants[completed.key]
        content, is_clustering = self._completed_content(completed)
        contents = {
            state: b"" if status.size_bytes == 0 else self._pending_content(state)
            for state, status in states.items()
            if state.is_pending
        }
        if completed.action is Action.CLEAN and not self.target.has_completion_times:
            # Hudi 0.15 reads the plan from either file when it archives the clean.
            plans = [plan for plan in contents.values() if plan]
            contents = {state: plan or (plans[0] if plans else b"") for state, plan in contents.items()}
        names = [
            self._create(self._name(state, is_clustering), pending_content)
            for state, pending_content in contents.items()
        ]
        time = self.times[completed.key]
        name = self.target.file_name(completed.requested_time, completed.action, State.COMPLETED, time)
        self._create(name, content)
        if self.keeps_times and is_instant_time(time):
            moment = parse_instant_time(time, self.timeline.timezone).astimezone(UTC)
            self.timeline.storage.set_modification_time(
                join(self.target_folder, name), round(moment.timestamp() * 1000)
            )
        return [*names, name]

    def _name(self, state: HoodieInstant, is_clustering: bool) -> str:
        action = state.action
        if action.completed_action is Action.REPLACE_COMMIT:
            has_clustering = self.target.has_completion_times and is_clustering
            action = Action.CLUSTERING if has_clustering else Action.REPLACE_COMMIT
        return self.target.file_name(state.requested_time, action, state.state)

    def _completed_content(self, completed: HoodieInstant) -> tuple[bytes, bool]:
        """The content of the completed file in the other layout, and whether the instant is a clustering."""
        if completed.action not in COMMIT_ACTIONS:
            content = self.timeline.read_details(completed)
            if not content:
                raise HoodieCorruptedDataException(
                    f"{self.timeline.path_of(completed)} is empty: its writer died while completing it. Delete the "
                    "file, which makes the instant pending, and let the next write finish it"
                )
            return content, False
        metadata = self.timeline.read_commit_metadata(completed)
        return self.target.encode(metadata), metadata.operation_type is WriteOperationType.CLUSTER

    def _pending_content(self, state: HoodieInstant) -> bytes:
        """The content of the file of a pending state in the other layout; that of no reader's interest may be lost."""
        content = self.timeline.read_details(state)
        if state.state is State.REQUESTED or state.action.completed_action not in COMMIT_ACTIONS or not content:
            return content
        path = self.timeline.path_of(state)
        try:
            return self.target.encode(self.files.layout.decode(content, HoodieCommitMetadata, path))
        except HoodieCorruptedDataException as error:
            # Readers of completed instants do not need it, and it may be empty.
            logger.warning("%s is damaged, and is left empty in the new timeline: %s", path, error)
            return b""

    def _create(self, name: str, content: bytes) -> str:
        path = join(self.target_folder, name)
        if not self.timeline.storage.create_if_absent(path, content):
            raise HoodieIOException(
                f"{path} was made by another process meanwhile; the table is as it was. See that nobody else writes to "
                "it, and call again"
            )
        return name
