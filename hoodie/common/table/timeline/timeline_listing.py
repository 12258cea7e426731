"""Listing of the instants of a timeline from its files, also while an archiver or an upgrade deletes some of them."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta

from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import format_instant_time, is_instant_time, parse_instant_time
from hoodie.common.table.timeline.timeline_layout import TIMELINE_FOLDER, TimelineLayout, timeline_layout
from hoodie.exception import HoodieIOException, InvalidTableException, TableNotFoundException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join, parent

logger = logging.getLogger(__name__)

_MAX_LISTINGS = 10
_LISTED_AT_ONCE = 300
_WRITTEN_WITHIN = timedelta(minutes=1)
"""The longest time between the requested time of an instant and the writing of its first file."""


UPGRADE_FILE_NAME = ".hoodie_upgrade"
"""A file in the folder of layout 2 while hoodie upgrades or downgrades the table.

It is made before the first file of the other timeline is written, and deleted after the last file of the old one is
deleted. Meanwhile the properties decide which timeline counts, and that one is whole. A listing in pages has this name
first.
"""


class TimelineMovedException(HoodieIOException):
    """The files of a timeline are being moved to the folder of another layout, or were."""


class TimelineStates(list[HoodieInstant]):
    """The states of a timeline by one listing: one entry per file, in no particular order.

    Args:
        states: The entries.
        folders: The names of the folders that were listed beside the files. A folder without files may be missing.
        log_compactions: The requested times of log compactions that were listed, whose completed files name delta
            commits; None for those among the entries.
    """

    def __init__(
        self,
        states: Iterable[HoodieInstant],
        folders: Iterable[str] = (),
        log_compactions: Iterable[str] | None = None,
    ) -> None:
        super().__init__(states)
        self.folders = frozenset(folders)
        if log_compactions is None:
            log_compactions = (one.requested_time for one in self if one.action is Action.LOG_COMPACTION)
        self.log_compactions = frozenset(log_compactions)


def list_states(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> TimelineStates:
    """One entry per file of a timeline, in no particular order.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.

    Raises:
        TimelineMovedException: The table is being upgraded or downgraded to a version of another layout, or was.
        HoodieIOException: Storage failed.
    """
    folder = layout.active_path(meta_path)
    names = storage.list_names(folder)
    # Names of directories end in a slash, which no name of an instant has.
    instants = [instant for name in names if (instant := layout.parse_file_name(name)) is not None]
    if any(instant.has_legacy_name for instant in instants):
        # It was completed when its file was last changed.
        found = (layout.instant_of(status) for status in storage.list_directory(folder))
        instants = [instant for instant in found if instant is not None]
    sign = TIMELINE_FOLDER if layout.version == 1 else UPGRADE_FILE_NAME
    is_moved = sign in names or f"{sign}/" in names
    if layout.version == 1 and is_moved:
        _refuse_moved_to_layout_2(storage, meta_path)
    elif layout.version == 2 and (is_moved or not instants):
        _refuse_unless_current(storage, meta_path, layout)
    return TimelineStates(instants, (name[:-1] for name in names if name.endswith("/")))


def pending_action(states: Mapping[State, HoodieInstant], action: Action) -> Action:
    """The action that the pending files of an instant name; the completed file of a clustering names another one.

    Args:
        states: The instant in each state that has a file.
        action: The action in the name of its completed file, or of its pending files if there is none yet.
    """
    pending = states.get(State.INFLIGHT) or states.get(State.REQUESTED)
    return action if pending is None else pending.action


def _refuse_moved_to_layout_2(storage: HoodieStorage, meta_path: str) -> None:
    """Refuse a listing of layout 1 if there are instants in the folder of layout 2 beside it.

    Hudi's upgrade moves all files, and then says so in the table's properties. Until then commits seem to be missing.
    hoodie's upgrade copies them first; if it was given up, Hudi may have begun to move them since. (A table that was
    downgraded again has an empty folder.)
    """
    layout = timeline_layout(2)
    statuses = storage.list_directory(layout.active_path(meta_path))
    if any(status.name == UPGRADE_FILE_NAME for status in statuses):
        # Imported here: few upgrades are given up, and reads start earlier without.
        from hoodie.common.table.timeline.moved_commits import moved_commits, refusal_of_moved_commits

        table_config = _refuse_unless_current(storage, meta_path, timeline_layout(1))
        moved = moved_commits(storage, meta_path, table_config) if table_config is not None else []
        if table_config is not None and moved:
            raise TimelineMovedException(
                f"{parent(meta_path)}: {refusal_of_moved_commits(meta_path, table_config, moved)}"
            )
        return
    for status in statuses:
        if layout.instant_of(status) is not None:
            raise TimelineMovedException(
                f"{layout.active_path(meta_path)} has instants such as {status.name}, though the table was of version "
                "6 when it was loaded: it was upgraded, or is being upgraded. Load it again; if it still is of version "
                "6, wait until the upgrade is done, or let Hudi finish it if its writer died"
            )


def _refuse_unless_current(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> HoodieTableConfig | None:
    """Refuse a listing if the table's properties name another layout: what was listed may be half of a timeline.

    The files of the old timeline are deleted only after the properties were changed. So if these still name the layout,
    the listing that came before was whole.

    Returns:
        The table's properties; None if there are none.
    """
    try:
        table_config = HoodieTableConfig.load(storage, parent(meta_path))
    except TableNotFoundException:
        # A timeline without properties, such as that of a table that is being made, or repaired.
        return None
    except InvalidTableException as error:
        raise TimelineMovedException(f"the timeline of {meta_path} may be one that was moved: {error}") from error
    stored = table_config.timeline_layout_version
    if stored != layout.version:
        raise TimelineMovedException(
            f"the table of {meta_path} was upgraded or downgraded to a version of timeline layout {stored} since it "
            "was loaded: load it again"
        )
    return table_config


def completion_times(
    storage: HoodieStorage,
    meta_path: str,
    layout: TimelineLayout,
    timezone: str,
    *,
    only_sure: bool = False,
    actions: Collection[Action] = COMMIT_ACTIONS,
) -> dict[str, str]:
    """Requested time to the time at which an instant was completed, for the completed instants of a timeline.

    Timelines of layout 1 hold no such times: it is when the completed file was last modified, which tools that copy
    tables must keep.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.
        timezone: The table's ``hoodie.table.timeline.timezone``.
        only_sure: Only of instants whose time is in the file's name, or whose first file was written at the requested
            time: the files of a copied table have the time of the copy.
        actions: The actions of the files that count.

    Raises:
        HoodieIOException: Storage failed.

    Hudi: HoodieInstant.getStateTransitionTime.
    """
    found: dict[str, str] = {}
    sure: set[str] = set()
    for status in storage.list_directory(layout.active_path(meta_path)):
        instant = layout.instant_of(status)
        if instant is None or instant.action not in actions:
            continue
        moment = datetime.fromtimestamp(status.modification_time_ms / 1000, UTC)
        if instant.is_completed:
            found[instant.requested_time] = instant.completion_time or format_instant_time(moment, timezone)
        requested = instant.requested_time
        if instant.completion_time is not None or (
            instant.is_requested
            and is_instant_time(requested)
            and abs(moment - parse_instant_time(requested, timezone)) < _WRITTEN_WITHIN
        ):
            sure.add(requested)
    return {time: ended for time, ended in found.items() if time in sure} if only_sure else found


def list_instants(storage: HoodieStorage, meta_path: str, layout: TimelineLayout) -> TimelineStates:
    """Each instant of a timeline once, in its highest state.

    Archivers may delete instants during a listing. The function lists again until the result is consistent.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.

    Raises:
        HoodieIOException: Storage failed.
    """
    states = TimelineStates(())
    for _ in range(_MAX_LISTINGS):
        states = list_states(storage, meta_path, layout)
        if is_listing_whole(storage, meta_path, layout, states):
            break
        logger.info("The timeline of %s is being archived; listing it again", meta_path)
    return TimelineStates(effective_instants(states), states.folders, states.log_compactions)


def is_listing_whole(storage: HoodieStorage, meta_path: str, layout: TimelineLayout, states: TimelineStates) -> bool:
    """Whether no archiver deleted instants during a listing; see `list_instants`.

    Args:
        storage: The storage of the table.
        meta_path: The table's ``.hoodie`` folder.
        layout: The table's timeline layout.
        states: The listed states.

    Raises:
        HoodieIOException: Storage failed.
    """
    folder = layout.active_path(meta_path)
    doubtful = _doubtful(states, effective_instants(states))
    return all(storage.is_file(join(folder, layout.name_of(instant))) for instant in doubtful)


def _doubtful(states: list[HoodieInstant], instants: list[HoodieInstant]) -> list[HoodieInstant]:
    """Instants whose absence from storage now would show that the listing is inconsistent.

    Archivers delete pending states first, then completed ones, oldest first. If the oldest completed commit still
    exists, no later one was deleted before the listing ended. The oldest one is checked if its pending states are gone,
    which is how archiving begins, or if the listing is so long that storage returns it in several parts. An older
    instant that looks pending is checked as well: it may have been completed and archived while its files were listed.
    """
    saved = {i.requested_time for i in instants if i.action is Action.SAVEPOINT}
    oldest = min(
        (i for i in instants if i.is_completed and i.action in COMMIT_ACTIONS and i.requested_time not in saved),
        key=lambda i: i.requested_time,
        default=None,
    )
    if oldest is None:
        return []
    doubtful = [i for i in instants if i.is_pending and i.requested_time < oldest.requested_time]
    is_whole = any(s.is_requested and s.requested_time == oldest.requested_time for s in states)
    return doubtful if is_whole and len(states) <= _LISTED_AT_ONCE else [oldest, *doubtful]


def effective_instants(states: Iterable[HoodieInstant]) -> list[HoodieInstant]:
    """Each instant once, in its highest state; a compaction and the commit that completes it are one instant.

    Writers that hold no lock can complete a clean of layout 2 twice, at two times: the later one counts.

    Args:
        states: One entry per file of a timeline.
    """
    highest: dict[tuple[str, Action], HoodieInstant] = {}
    for found in states:
        known = highest.get(found.key)
        if known is None or (found.state, found.completion_time or "") > (known.state, known.completion_time or ""):
            highest[found.key] = found
    return list(highest.values())
