"""Commits that a table's timeline lacks because another program moved them to the timeline of the other layout.

Hudi upgrades and downgrades a table by moving the files of the timeline, one after the other. If it dies in between,
half of the commits are in each folder. A writer that has not noticed an upgrade leaves such commits, too. None of them
may be deleted or overwritten: their rows would be lost.

hoodie copies the files. The copies that an upgrade leaves stay when their commits are archived or undone; these commits
are not missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodie.avro.service_metadata import HoodieRestoreMetadata, HoodieRestorePlan
from hoodie.avro.timeline_metadata import HoodieRollbackMetadata, HoodieRollbackPlan
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.common.table.timeline.lsm_timeline import archive_of
from hoodie.common.table.timeline.timeline_layout import TimelineLayout, timeline_layout
from hoodie.storage.storage import HoodieStorage


def moved_commits(
    storage: HoodieStorage, meta_path: str, table_config: HoodieTableConfig, names: Iterable[str] | None = None
) -> list[str]:
    """Times of commits that only the folder of the other layout holds, the first first.

    Commits that the table's archive holds, and those that a rollback or a restore has undone, are left out.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        table_config: The table's properties as they are now.
        names: The names in the folder of the other layout; None if they are to be listed.

    Raises:
        HoodieCorruptedDataException: A rollback, a restore or the archive is damaged.
        HoodieIOException: Storage failed.
    """
    layout = layout_of(table_config)
    other = other_layout(table_config)
    names = storage.list_names(other.active_path(meta_path)) if names is None else names
    elsewhere = _commits(found for name in names if (found := other.parse_file_name(name)) is not None)
    if not elsewhere:
        return []
    files = _files(storage, meta_path, layout)
    # Hudi moves the file of each state by itself: pending states may be left.
    missing = elsewhere - _commits(files)
    if missing:
        missing -= set(_undone(storage, layout, files))
    if missing:
        archived = archive_of(layout).load(storage, meta_path, table_config.archive_folder, layout)
        missing -= {instant.requested_time for instant in archived if instant.is_completed}
    return list(in_order(missing))


def refusal_of_moved_commits(meta_path: str, table_config: HoodieTableConfig, commits: list[str]) -> str:
    """The error message about such commits.

    Args:
        meta_path: The table's ``.hoodie`` folder.
        table_config: The table's properties.
        commits: The commits.
    """
    folder = other_layout(table_config).active_path(meta_path)
    return (
        f"the table is of version {table_config.table_version}, but {len(commits)} of its commits, {commits[0]} the "
        f"first, are in {folder} only. Either another program's upgrade or downgrade has not ended: let it finish. Or "
        "a writer made them that takes the table for one of another version: stop that writer, delete the files of "
        "these instants there, and write their rows again"
    )


def layout_of(table_config: HoodieTableConfig) -> TimelineLayout:
    """The layout of a table's timeline.

    Args:
        table_config: The table's properties.
    """
    return timeline_layout(
        table_config.timeline_layout_version, table_config.timeline_folder, table_config.timeline_timezone
    )


def other_layout(table_config: HoodieTableConfig) -> TimelineLayout:
    """The layout that an upgrade or a downgrade would bring.

    Args:
        table_config: The table's properties.
    """
    return timeline_layout(3 - table_config.timeline_layout_version, timezone=table_config.timeline_timezone)


def _files(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> Mapping[HoodieInstant, str]:
    found = (
        (layout.instant_of(status), status.path) for status in storage.list_directory(layout.active_path(meta_path))
    )
    return {instant: path for instant, path in found if instant is not None}


def _commits(files: Iterable[HoodieInstant]) -> set[str]:
    return {one.requested_time for one in files if one.is_completed and one.action in COMMIT_ACTIONS}


def _undone(storage: HoodieStorage, layout: TimelineLayout, files: Mapping[HoodieInstant, str]) -> Iterable[str]:
    """The instants that rollbacks and restores have undone, or are about to undo."""
    for instant, path in files.items():
        if instant.action not in (Action.ROLLBACK, Action.RESTORE) or instant.state is State.INFLIGHT:
            continue
        content = storage.read(path)
        if not content:
            continue
        if instant.action is Action.ROLLBACK:
            if instant.is_completed:
                yield from layout.decode(content, HoodieRollbackMetadata, path).commits_rollback
            else:
                undone = layout.decode(content, HoodieRollbackPlan, path).instant_to_rollback
                yield from () if undone is None else (undone.commit_time,)
        elif instant.is_completed:
            yield from layout.decode(content, HoodieRestoreMetadata, path).instants_to_rollback
        else:
            plan = layout.decode(content, HoodieRestorePlan, path)
            yield from (one.commit_time for one in plan.instants_to_rollback)
