"""Set a metadata table aside whose times are no moments of its table, so that nobody reads it.

`hoodie.metadata.reader.misplaced_times` tells them. A write does this before it begins, under the table's lock:

1. It plans an indexing of the indexes of keys, which take long to build, and of no others.
2. It deletes the definitions of secondary indexes, since writers of Hudi build what is defined.
3. It lists the other partitions as those that are to be built, and deletes the metadata table.
4. It builds these, unless instants are pending; then a later write does.

A run that died is finished by the next one: until step 3 the metadata table is listed, and its times are wrong.
"""

from __future__ import annotations

import logging

from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieException
from hoodie.metadata.reader.index_definitions import load_index_definitions
from hoodie.metadata.reader.metadata_table_files import MetadataTableFiles
from hoodie.metadata.reader.misplaced_times import MisplacedTime, first_misplaced_time
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, is_secondary_index
from hoodie.metadata.writer.index_definition_writer import delete_index_definition
from hoodie.metadata.writer.planned_indexes import plan_indexing
from hoodie.metadata.writer.set_aside import set_aside_metadata_table
from hoodie.metadata.writer.switched_off import CONTINUED

logger = logging.getLogger(__name__)


def misplaced_time_of(snapshot: TableSnapshot) -> MisplacedTime | None:
    """The first sign that the times of the metadata table are no moments of the table; None for one that is right.

    One that is missing, or cannot be read, has no such sign: whoever needs it says so.

    Args:
        snapshot: The table.
    """
    if not snapshot.table_config.metadata_partitions:
        return None
    try:
        return first_misplaced_time(MetadataTableFiles.opened(snapshot))
    except HoodieException as error:
        logger.debug("the times of the metadata table of %s cannot be told: %s", snapshot.base_path, error)
        return None


def set_aside_misplaced_metadata_table(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> TableSnapshot:
    """Set a metadata table aside whose times are no moments of the table (`hoodie.metadata.reader.misplaced_times`).

    A writer of Hudi that is at work may have opened it: then it stays for now, and readers of hoodie do not use it.

    What indexes keys takes long to build, and is left to an indexing, which is planned first. A run that died is
    finished by the next one.

    Args:
        snapshot: The table, under its lock; its properties and timeline are read again.
        config: The writer's options for the metadata table.

    Returns:
        The table as it is then.

    Raises:
        HoodieIOException: Storage failed; call again.
    """
    snapshot = snapshot.with_properties_reloaded().refreshed()
    misplaced = misplaced_time_of(snapshot)
    if misplaced is None:
        return snapshot
    at_work = _instant_at_work(snapshot)
    if at_work is not None:
        logger.warning(
            "the metadata table of %s may hide rows (%s), and is not built anew while %s %s is at work",
            snapshot.base_path, misplaced, at_work.action, at_work.requested_time,
        )  # fmt: skip
        return snapshot
    columns = _indexes_of_keys(snapshot, config)
    planned = planned_partitions(snapshot.active_timeline)
    due = {path: column for path, column in columns.items() if path not in planned}
    times = {planned[path] for path in columns if path in planned}
    if due:
        times.add(plan_indexing(snapshot, due))
    for path in filter(is_secondary_index, columns):
        # Writers of Hudi build what is defined. The plan says what it indexes.
        delete_index_definition(snapshot, path)
    calls = " and ".join(f"client.index('{time}')" for time in in_order(times))
    more = f"; {', '.join(columns)} is missing until you call {calls}, which builds it beside writers" if calls else ""
    return set_aside_metadata_table(snapshot, beside=columns, why=f": {misplaced}{more}")


def _instant_at_work(snapshot: TableSnapshot) -> HoodieInstant | None:
    """A pending instant whose writer may be one of Hudi that has opened the metadata table; None if there is none."""
    timeline = MetadataTableFiles.load(snapshot).snapshot.active_timeline
    begun = timeline.filter_actions(Action.DELTA_COMMIT).filter_pending().times
    for instant in snapshot.active_timeline.filter_pending():
        if instant.action in CONTINUED or instant.action is Action.INDEXING:
            continue
        if not instant.is_requested or instant.requested_time in begun:
            return instant
    return None


def _indexes_of_keys(snapshot: TableSnapshot, config: HoodieMetadataConfig) -> dict[str, str | None]:
    """The indexes of keys that are listed and that the writer does not drop, and the columns of secondary ones."""
    if config.record_index_enable is False and not config.partitioned_record_index_enable:
        return {}
    defined = load_index_definitions(snapshot.storage, snapshot.meta_path)
    found: dict[str, str | None] = {}
    for path in snapshot.table_config.listed_metadata_partitions:
        if path == MetadataPartitionType.RECORD_INDEX.partition_path:
            found[path] = None
        elif is_secondary_index(path) and path in defined and len(defined[path].source_fields) == 1:
            found[path] = defined[path].source_fields[0]
    return found
