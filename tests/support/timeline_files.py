"""The files of a timeline and of its archive, whatever the version of the table.

| to | use |
|---|---|
| know the folder | `timeline_folder`, `archive_folder` |
| find, damage or delete the file of an instant in a state | `state_file`, `state_files`, `delete_instant` |
| make one by hand | `make_state` |
| know what messages call a completed file that is lost | `name_of_lost` |
| know what a call of the storage is about | `instant_of_path`, `is_completed_file` |
| read what was written after a commit | `begin_after` |
| read or change what a commit says | `read_commit`, `write_commit` |
| give an instant another time | `rename_instant`, `next_time` |
| see what the archive consists of | `archive_files`, `archived_entries` |
| plan a clustering | `action_of_clustering` |
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pyarrow.parquet as pq

from hoodie import HoodieTableMetaClient
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.archived_timeline import read_archive_file
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import newest, next_instant_time
from hoodie.common.table.timeline.timeline_layout import timeline_layout

__all__ = [
    "action_of_clustering",
    "archive_files",
    "archive_folder",
    "archived_entries",
    "begin_after",
    "delete_instant",
    "instant_of_path",
    "is_completed_file",
    "is_in_metadata_table",
    "make_state",
    "name_of_lost",
    "read_commit",
    "next_time",
    "rename_instant",
    "state_file",
    "state_files",
    "timeline_folder",
    "write_commit",
]

_LAYOUTS = timeline_layout(1), timeline_layout(2)


def timeline_folder(base_path: str | Path) -> Path:
    """The folder of the active timeline: ``.hoodie``, or a folder in it."""
    timeline = _timeline(base_path)
    return Path(timeline.layout.active_path(timeline.meta_path))


def archive_folder(base_path: str | Path) -> Path:
    """The folder of the archived timeline."""
    table = HoodieTableMetaClient.load(str(base_path))
    return Path(table.meta_path, table.table_config.archive_folder)


def archive_files(base_path: str | Path) -> list[Path]:
    """The files of the archive that hold instants, in the order of their names."""
    folder = archive_folder(base_path)
    return sorted([*folder.glob(".commits_.archive.*"), *folder.glob("*.parquet")])


def archived_entries(base_path: str | Path) -> list[HoodieInstant]:
    """The instants in the files of the archive that count: in each of their states up to version 6, else once.

    An entry that two files hold is there twice.
    """
    table = HoodieTableMetaClient.load(str(base_path))
    if not table.active_timeline.layout.has_completion_times:
        files = archive_files(base_path)
        return [state for path in files for state, _ in read_archive_file(table.storage, str(path))]
    folder = archive_folder(base_path)
    if not (folder / "_version_").exists():
        return []
    manifest = json.loads((folder / f"manifest_{(folder / '_version_').read_text()}").read_text())
    return [
        HoodieInstant(row["instantTime"], Action(row["action"]), State.COMPLETED, row["completionTime"])
        for file in manifest["files"]
        for row in pq.read_table(folder / file["fileName"]).to_pylist()
    ]


def action_of_clustering(base_path: str | Path) -> Action:
    """The action of a pending clustering: one of its own from version 8 on."""
    return Action.CLUSTERING if _timeline(base_path).layout.has_completion_times else Action.REPLACE_COMMIT


def state_file(
    base_path: str | Path, instant_time: str, action: str = "commit", state: State = State.COMPLETED
) -> Path:
    """The file that puts an instant into a state.

    Args:
        base_path: The table.
        instant_time: Its requested time.
        action: What is done, as in file names.
        state: The state.

    Raises:
        FileNotFoundError: The name would hold a completion time, and there is no such file to know it from. The file of
            any other state is named whether it is there or not.
    """
    layout = _timeline(base_path).layout
    if state is State.COMPLETED and layout.has_completion_times:
        for file in state_files(base_path, instant_time):
            found = layout.parse_file_name(file.name)
            if found is not None and found.is_completed and found.action is Action(action).completed_action:
                return file
        raise FileNotFoundError(f"{action} {instant_time} of {base_path} is not completed")
    return timeline_folder(base_path) / layout.file_name(instant_time, Action(action), state)


def name_of_lost(completed: Path) -> str:
    """What messages call a completed file that is not there any more: nobody knows its time of completion then."""
    return re.sub(r"^(\d+)_\d+", r"\1_<completion time>", completed.name)


def state_files(base_path: str | Path, instant_time: str | None = None) -> list[Path]:
    """All files of the timeline, or those of the instants of one time, in the order of their names."""
    layout = _timeline(base_path).layout
    found = ((file, layout.parse_file_name(file.name)) for file in timeline_folder(base_path).iterdir())
    return sorted(
        file
        for file, instant in found
        if instant is not None and instant_time in (None, instant.requested_time) and file.is_file()
    )


def delete_instant(base_path: str | Path, instant_time: str, action: str) -> None:
    """Delete all files of an instant, which must be there."""
    files = [file for file in state_files(base_path, instant_time) if _is_of(file, Action(action))]
    assert files, f"no {action} {instant_time} in {base_path}"
    for file in files:
        file.unlink()


def make_state(
    base_path: str | Path,
    instant_time: str,
    action: str,
    state: State,
    content: bytes = b"",
    completion_time: str | None = None,
) -> Path:
    """Write the file that puts an instant into a state, over one that is there, and no other one.

    Args:
        base_path: The table.
        instant_time: Its requested time.
        action: What is done, as in file names.
        state: The state.
        content: Of the file.
        completion_time: Of a completed one, where names have it; by default `next_time`.
    """
    layout = _timeline(base_path).layout
    end = None
    if state is State.COMPLETED and layout.has_completion_times:
        end = completion_time or next_time(base_path)
    file = timeline_folder(base_path) / layout.file_name(instant_time, Action(action), state, end)
    file.write_bytes(content)
    return file


def next_time(base_path: str | Path) -> str:
    """A time that is later than now and than all times of the active timeline."""
    timeline = _timeline(base_path)
    return next_instant_time(datetime.now(UTC), newest(found.newest_time for found in timeline), timeline.timezone)


def rename_instant(
    base_path: str | Path,
    instant_time: str,
    new_time: str,
    action: str | None = None,
    completion_time: str | None = None,
) -> None:
    """Give files of a time another one.

    Args:
        base_path: The table.
        instant_time: The requested time of the files.
        new_time: That which they get.
        action: The files of one action; of all by default.
        completion_time: The new time of completion, where names have it; by default a millisecond after the new time.
    """
    layout = _timeline(base_path).layout
    for file in state_files(base_path, instant_time):
        found = layout.parse_file_name(file.name)
        assert found is not None
        if action is not None and found.action.completed_action is not Action(action).completed_action:
            continue
        end = completion_time or str(int(new_time) + 1)
        file.rename(file.with_name(layout.file_name(new_time, found.action, found.state, end)))


def instant_of_path(path: str | Path) -> HoodieInstant | None:
    """The instant in the state that a path stands for in a timeline of either layout; None for other paths."""
    name = Path(path).name
    return next((found for found in (layout.parse_file_name(name) for layout in _LAYOUTS) if found is not None), None)


def is_in_metadata_table(path: str | Path) -> bool:
    """Whether a path lies in a table's metadata table."""
    return "/.hoodie/metadata/" in str(path)


def is_completed_file(path: str | Path, action: str | None = None, instant_time: str | None = None) -> bool:
    """Whether a path is that of the completed file of an instant: of any one, or of that of a time.

    By default an action is that of upserts and inserts, of either type of table. Instants of metadata tables do not
    count: they have the times of the table's.
    """
    found = instant_of_path(path)
    actions = (Action.COMMIT, Action.DELTA_COMMIT) if action is None else (Action(action).completed_action,)
    return (
        found is not None
        and not is_in_metadata_table(path)
        and found.is_completed
        and found.action in actions
        and instant_time in (None, found.requested_time)
    )


def read_commit(base_path: str | Path, instant_time: str) -> HoodieCommitMetadata:
    """What a commit of the active timeline says; of a pending one, what is foreseen."""
    timeline = _timeline(base_path)
    (instant,) = [found for found in timeline.commits_timeline() if found.requested_time == instant_time]
    return timeline.read_commit_metadata(instant)


def begin_after(base_path: str | Path, instant_time: str) -> str:
    """The ``begin`` of an incremental query of what was written after a commit.

    From version 8 on that is the time of its completion.
    """
    (instant,) = [found for found in _timeline(base_path).completed_writes() if found.requested_time == instant_time]
    return instant.completion_time or instant.requested_time


def write_commit(base_path: str | Path, instant_time: str, metadata: HoodieCommitMetadata) -> None:
    """Let a completed commit of the active timeline say something else."""
    timeline = _timeline(base_path)
    (instant,) = [found for found in timeline.commits_timeline() if found.requested_time == instant_time]
    assert instant.is_completed
    Path(timeline.path_of(instant)).write_bytes(timeline.layout.encode(metadata))


def _timeline(base_path: str | Path) -> HoodieActiveTimeline:
    return HoodieTableMetaClient.load(str(base_path)).active_timeline


def _is_of(file: Path, action: Action) -> bool:
    found = instant_of_path(file)
    return found is not None and found.action.completed_action is action.completed_action
