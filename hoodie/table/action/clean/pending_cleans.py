"""The files that pending cleans are going to delete: they are there now, and no action may rely on them.

Hudi has nothing like it: a restore or rollback beside a clean may take a table back to files that the clean deletes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from hoodie.avro.service_metadata import HoodieCleanerPlan
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.storage.storage_path import file_name


def files_being_cleaned(timeline: HoodieActiveTimeline) -> Mapping[tuple[str, str], str]:
    """(Partition path, file name) to the instant time of the pending clean whose plan names the file.

    Call this before files are listed: the listing then lacks the files of a clean that was completed since.

    Args:
        timeline: The table's timeline, freshly loaded.

    Raises:
        HoodieCorruptedDataException: A plan is damaged; it is named.
        HoodieIOException: Storage failed.
    """
    found: dict[tuple[str, str], str] = {}
    for clean in timeline.filter_actions(Action.CLEAN).filter_pending():
        requested = clean.in_state(State.REQUESTED)
        path = timeline.path_of(requested)
        if not timeline.storage.exists(path):
            # The clean has lost its plan: no process can carry it out.
            continue
        content = timeline.read_details(requested)
        if not content:
            # Its writer died while it wrote the plan.
            continue
        plan = timeline.layout.decode(content, HoodieCleanerPlan, path)
        named: list[tuple[str, Collection[str]]] = [
            (partition_path, [file.file_path for file in files])
            for partition_path, files in plan.file_paths_to_be_deleted_per_partition.items()
        ]
        named += (plan.files_to_be_deleted_per_partition or {}).items()
        for partition_path, names in named:
            found.update(((partition_path, file_name(name)), clean.requested_time) for name in names)
    return found


def way_out_of_clean(timeline: HoodieActiveTimeline, clean_time: str) -> str:
    """Advice for a user about a pending clean, as the end of an error message.

    Args:
        timeline: The table's timeline.
        clean_time: The instant time of the clean.
    """
    inflight, requested = (
        timeline.path_of(HoodieInstant(clean_time, Action.CLEAN, state)) for state in (State.INFLIGHT, State.REQUESTED)
    )
    return (
        f"clean {clean_time} is pending, and may be deleting files. Let it end, or finish it by clean(); when its "
        f"writer is dead and the files are to stay, delete {inflight} and then {requested}"
    )
