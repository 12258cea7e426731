"""Delete a table: its folder, if that is a table and nothing else.

1. ``hoodie.properties`` says that the table is being dropped (`OverwritePhase.DROPPING`). From here on readers and
   writers refuse it, and no write that is under way can be completed.
2. The timeline, the metadata table and the data are deleted, in this order.
3. Locks are deleted, and ``hoodie.properties`` as the last file; then the folders, if they are empty.

A process that dies in between leaves a folder whose properties tell that: a second call goes on.

Hudi has nothing like it: catalogs delete the folder.
"""

from __future__ import annotations

import logging
import os
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime

import attrs

from hoodie.common.fs.pending_overwrite import (
    PROPERTIES_FILE_NAME,
    OverwritePhase,
    PendingOverwrite,
    overwrite_folder,
)
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_folder import files_of_others
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.common.util.shown_table import format_bytes, plural
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieHeartbeatException,
)
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_path import METAFOLDER_NAME, file_name, join, normalise_path, parent, relative_to, scheme
from hoodie.table.open_table import look_at_table
from hoodie.table.repair.repaired_table import RepairResult
from hoodie.table.table_overwrite import TableOverwrite, living_writers, old_table, read_pending
from hoodie.transaction.transaction_manager import TransactionManager

logger = logging.getLogger(__name__)

_SHOWN = 5


@attrs.frozen
class RemovedFolder:
    """The files of one folder of a table.

    Attributes:
        folder: ``.hoodie``, or the path of a partition; "" for files in the table's folder.
        files: Their number, those of folders below ``.hoodie`` included.
        size_bytes: Their size.
    """

    folder: str
    files: int
    size_bytes: int


@attrs.frozen(repr=False)
class TableRemoval(RepairResult):
    """The files of a table that was deleted, or would be.

    Attributes:
        base_path: The table's folder.
        folders: Its folders, sorted.
        others: Files that are not the table's, which prevent it; relative paths.
        is_dry_run: Whether nothing was changed.
    """

    base_path: str
    folders: tuple[RemovedFolder, ...]
    others: tuple[str, ...] = ()
    is_dry_run: bool = True

    @property
    def files(self) -> int:
        """The number of files."""
        return sum(folder.files for folder in self.folders)

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        size = format_bytes(sum(folder.size_bytes for folder in self.folders))
        text = (
            f"drop: {'would delete' if self.is_dry_run else 'deleted'} {self.base_path}, {plural(self.files, 'file')}"
        )
        return f"{text}, {size}" + (f"; prevented: {self.problem}" if self.others else "")

    @property
    def problem(self) -> str:
        """The sentence about files of others."""
        more = f" and {len(self.others) - _SHOWN} more" if len(self.others) > _SHOWN else ""
        return f"files that are not the table's are in its folder: {', '.join(self.others[:_SHOWN])}{more}"

    @property
    def table(self) -> SummaryTable[RemovedFolder]:
        """See `RepairResult`."""
        return SummaryTable(RemovedFolder, self.folders)


def drop_table(
    config: HoodieWriteConfig, *, dry_run: bool = False, before: Callable[[], None] = lambda: None
) -> TableRemoval:
    """Delete a table, or go on with a deletion that stopped half-way.

    Args:
        config: The configuration of its writers.
        dry_run: Delete nothing, and list the files.
        before: Called when nothing stands against it, before the first change; if it raises, the table stays.

    Raises:
        TableNotFoundException: There is no table.
        HoodieConfigException: Other files are in its folder, the path is a link, or it is that of a metadata table;
            nothing was deleted.
        HoodieHeartbeatException: A writer is at work; nothing was deleted.
        HoodiePendingOverwriteException: A new table is taking its place.
        HoodieLockException: The lock was not given.
        HoodieIOException: A link is in its folder, and nothing was deleted; or storage failed: call again.
    """
    base_path = normalise_path(config.base_path)
    _refuse_path(base_path)
    storage = open_storage(base_path, config.storage_options, config.retry.policy)
    found = read_pending(storage, base_path)
    if found is None:
        table = look_at_table(config)
    elif found[0].phase is OverwritePhase.DROPPING:
        table = old_table(config, storage, base_path, found[0])
    else:
        raise found[0].refusal(base_path)
    plan = _plan(storage, base_path)
    if dry_run:
        return plan
    _refuse_others(plan)
    transactions = TransactionManager(config)
    try:
        with transactions.alone(), transactions.transaction(table, "drop") as transaction:
            plan = _plan(storage, base_path)
            _refuse_others(plan)
            found = read_pending(storage, base_path)
            if found is None:
                _refuse_living(table, config)
            before()
            content = _announce(table, config) if found is None else found[1]
            storage.delete_directory(overwrite_folder(base_path))
            logger.warning("deleting the table %s", base_path)
            TableOverwrite(storage, base_path, "", transaction.check_held).delete_old(content)
    finally:
        transactions.close()
    _delete_rest(storage, base_path)
    return attrs.evolve(plan, is_dry_run=False)


def _refuse_path(base_path: str) -> None:
    """Refuse a path whose deletion would delete, or break, something else."""
    if scheme(base_path) == "file" and os.path.islink(base_path):
        raise HoodieConfigException(
            f"{base_path} is a link, and nothing was deleted: name the folder itself, {os.path.realpath(base_path)}"
        )
    if file_name(parent(base_path)) == METAFOLDER_NAME:
        raise HoodieConfigException(
            f"{base_path} is in the folder of the table {parent(parent(base_path))}, and nothing was deleted. A "
            "write with hoodie.metadata.enable=false deletes a metadata table"
        )


def _plan(storage: HoodieStorage, base_path: str) -> TableRemoval:
    meta_path = join(base_path, METAFOLDER_NAME)
    sizes: dict[str, list[int]] = defaultdict(list)
    for file in storage.list_files(base_path):
        is_meta = f"{file.path}/".startswith(f"{meta_path}/")
        sizes[METAFOLDER_NAME if is_meta else relative_to(base_path, parent(file.path))].append(file.size_bytes)
    folders = (RemovedFolder(folder, len(found), sum(found)) for folder, found in sorted(sizes.items()))
    return TableRemoval(base_path, tuple(folders), tuple(files_of_others(storage, base_path)))


def _refuse_others(plan: TableRemoval) -> None:
    if plan.others:
        raise HoodieConfigException(
            f"{plan.base_path} is not dropped, and nothing was deleted, because {plan.problem}. Move or delete them "
            "first"
        )


def _announce(table: TableSnapshot, config: HoodieWriteConfig) -> bytes:
    """Let the properties tell that the table is being dropped; returns their content.

    Raises:
        HoodieHeartbeatException: A writer is at work.
    """
    storage, base_path = table.storage, table.base_path
    _refuse_living(table, config)
    # A backup would be read in place of the file.
    properties = HoodieTableConfig.update(storage, base_path, {}).properties
    before = storage.read(join(base_path, METAFOLDER_NAME, PROPERTIES_FILE_NAME))
    pending = PendingOverwrite(format_instant_time(datetime.now(UTC)), OverwritePhase.DROPPING, properties)
    content = pending.to_bytes()
    HoodieTableConfig.exchange(storage, base_path, content, before)
    try:
        # From here on nobody completes a write.
        _refuse_living(table, config)
    except HoodieHeartbeatException:
        HoodieTableConfig.exchange(storage, base_path, HoodieTableConfig(properties).to_bytes(), content)
        raise
    return content


def _refuse_living(table: TableSnapshot, config: HoodieWriteConfig) -> None:
    completed = table.refreshed().active_timeline.completed_writes().times
    if alive := living_writers(table, config, completed):
        raise HoodieHeartbeatException(
            f"{table.base_path} is not dropped, and nothing was deleted, because writers are at work: "
            f"{', '.join(alive)} have living heartbeats in {parent(table.heartbeat_path('0'))}. Wait for them, and "
            "call again"
        )


def _delete_rest(storage: HoodieStorage, base_path: str) -> None:
    """Delete what is left in ``.hoodie``, the properties last."""
    meta_path = join(base_path, METAFOLDER_NAME)
    properties = join(meta_path, PROPERTIES_FILE_NAME)
    for child in storage.list_directory(meta_path):
        if child.is_directory:
            storage.delete_directory(child.path)
        elif child.path != properties:
            storage.delete_file(child.path)
    HoodieTableConfig.forget_fence(storage, base_path)
    storage.delete_leftovers(meta_path, 0)
    storage.delete_file(properties)
    storage.delete_empty_directory(meta_path)
    storage.delete_empty_directory(base_path)
