"""Load a table for a write."""

from __future__ import annotations

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.moved_commits import moved_commits, refusal_of_moved_commits
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException
from hoodie.metadata.reader.metadata_listing import MetadataListingChoice
from hoodie.transaction.lock.lock_manager import clock_skew_ms


def load_table(config: HoodieWriteConfig) -> TableSnapshot:
    """The table of a writer's configuration, as it is now.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        HoodieConfigException: The configuration contradicts the table, or names it by globs.
        HoodieCommitException: Commits of the table are in the timeline of another version.
    """
    snapshot = TableSnapshot.load(
        config.base_path,
        config.storage_options,
        retry=config.retry.policy,
        clock_skew_ms=clock_skew_ms(config),
        listing_choice=MetadataListingChoice(config.metadata.enable is not False),
    )
    snapshot.check_named_by(config.base_path)
    snapshot.table_config.check_writable()
    config.check_against_table(snapshot.table_config)
    _refuse_moved_commits(snapshot)
    return snapshot


def _refuse_moved_commits(snapshot: TableSnapshot) -> None:
    """Refuse to write to a table of version 8 or 9 whose commits are partly in the folder of version 6.

    A write would build on older files, and the rows of these commits would be gone. (In version 6, each listing of the
    timeline looks for such commits.)
    """
    if not snapshot.active_timeline.layout.has_completion_times:
        return
    moved = moved_commits(snapshot.storage, snapshot.meta_path, snapshot.table_config)
    if moved:
        why = refusal_of_moved_commits(snapshot.meta_path, snapshot.table_config, moved)
        raise HoodieCommitException(f"{snapshot.base_path}: {why}; nothing was written")
