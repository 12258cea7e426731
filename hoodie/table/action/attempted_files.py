"""The files that the task attempts of an instant wrote: those that count, and those of attempts that lost.

Hudi: org.apache.hudi.table.HoodieTable (reconcileAgainstMarkers).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from hoodie.common.model.write_operation_type import IOType
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieCommitException
from hoodie.io.log.log_file_owner import is_log_file_of
from hoodie.storage.storage_path import join
from hoodie.table.action.action import no_check

logger = logging.getLogger(__name__)


def reconcile_with_markers(
    snapshot: TableSnapshot,
    instant_time: str,
    statuses: Iterable[WriteStatus],
    check: Callable[[], None] = no_check,
) -> int:
    """Delete the files of losing task attempts; check that every file that counts has a marker.

    Args:
        snapshot: The table.
        instant_time: The instant; it takes no more files from here on.
        statuses: The files that count.
        check: Called before each deletion; raises where the instant is another process's by now.

    Returns:
        The number of deleted files.

    Raises:
        HoodieCommitException: A file has no marker.
        HoodieIOException: Storage failed.
    """
    markers = WriteMarkers(snapshot.storage, snapshot.meta_path, instant_time)
    # Task attempts that the engine gave up may still run: they delete files that they announce after this.
    markers.close()
    announced = {(marker.partition_path, marker.file_name): marker for marker in markers.list_markers()}
    written = {
        (status.partition_path, path.rsplit("/", 1)[-1])
        for status in statuses
        for path in (str(status.stat.path), *(status.stat.cdc_stats or ()))
    }
    unannounced = written - announced.keys()
    if unannounced:
        raise HoodieCommitException(
            f"{len(unannounced)} files of instant {instant_time} have no marker, such as {sorted(unannounced)[0]}: "
            "the instant was rolled back, or its marker folder was removed; write again on a new instant"
        )
    deleted = 0
    for key in sorted(announced.keys() - written):
        partition_path, file_name = key
        # The file is deleted before its marker, so that a rollback in between still finds it. A task that is still
        # writing this file finds at its end that the instant takes no more files, and deletes it.
        path = join(snapshot.base_path, partition_path, file_name)
        is_log_file = announced[key].io_type is IOType.APPEND
        # Another writer's log file may have the name that an attempt announced and did not get.
        is_own = not is_log_file or is_log_file_of(snapshot.storage, path, instant_time)
        check()
        if is_own and snapshot.storage.delete_file(path):
            deleted += 1
            logger.info("deleted %s, which a losing task attempt left", path)
        markers.delete(partition_path, file_name, announced[key].io_type)
    return deleted
