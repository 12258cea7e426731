"""Load a table for those who change it; the one place that does so.

Readers load it by `TableSnapshot.load`, with the options of their query.
"""

from __future__ import annotations

from collections.abc import Iterable

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.moved_commits import moved_commits, refusal_of_moved_commits
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitException, TableNotFoundException
from hoodie.metadata.reader.metadata_listing import MetadataListingChoice
from hoodie.transaction.lock.lock_manager import clock_skew_ms


def find_table(config: HoodieWriteConfig) -> TableSnapshot | None:
    """The table of a writer's configuration, as it is now; None if there is none.

    Whether it can be written is not checked; see `load_table`.

    Args:
        config: The configuration.

    Raises:
        HoodieNotSupportedException: The table has a version that hoodie does not know.
        HoodieIOException: Storage failed.
    """
    try:
        return look_as_writer(config)
    except TableNotFoundException:
        return None


def load_table(config: HoodieWriteConfig, found: TableSnapshot | None = None) -> TableSnapshot:
    """The table of a writer's configuration, as it is now.

    Args:
        config: The configuration.
        found: The result of `find_table`, if it was just called; None loads the table.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: The table needs a feature that hoodie does not have.
        HoodieConfigException: The configuration contradicts the table, or names it by globs.
        HoodieCommitException: Commits of the table are in the timeline of another version.
    """
    snapshot = found or look_as_writer(config)
    snapshot.check_named_by(config.base_path)
    snapshot.table_config.check_writable()
    config.check_against_table(snapshot.table_config)
    return refuse_moved_commits(snapshot, snapshot.meta_names)


def look_as_writer(config: HoodieWriteConfig) -> TableSnapshot:
    """The table as its writers see it: a metadata table lists the files, unless the configuration turns that off.

    Args:
        config: The configuration.

    Raises:
        HoodieException: See `look_at_table`.
    """
    return look_at_table(config, MetadataListingChoice(config.metadata.enable is not False))


def look_at_table(
    config: HoodieWriteConfig, choice: MetadataListingChoice | None = None, folder: str | None = None
) -> TableSnapshot:
    """The table of a writer's configuration, as it is now, whether or not it can be written.

    Args:
        config: The configuration.
        choice: Whether its metadata table lists the files; None lists the storage, for those who look for what a
            metadata table may miss.
        folder: The folder of another table of the same writer, such as the one that takes its place.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: The table has a version that hoodie does not know.
        HoodieIOException: Storage failed.
    """
    return TableSnapshot.load(
        config.base_path if folder is None else folder,
        config.storage_options,
        retry=config.retry.policy,
        clock_skew_ms=clock_skew_ms(config),
        listing_choice=choice,
        lists_names=choice is not None,
    )


def refuse_moved_commits(snapshot: TableSnapshot, names: Iterable[str] | None = None) -> TableSnapshot:
    """Refuse to write to a table of version 8 or 9 whose commits are partly in the folder of version 6.

    A write would build on older files, and the rows of these commits would be gone. (In version 6, each listing of the
    timeline looks for such commits.)

    Args:
        snapshot: The table.
        names: The names in ``.hoodie``, if they were listed with the timeline.

    Returns:
        The table, with the names in ``.hoodie`` that were listed for that.

    Raises:
        HoodieCommitException: There are such commits.
    """
    if not snapshot.active_timeline.layout.has_completion_times:
        return snapshot
    names = snapshot.storage.list_names(snapshot.meta_path) if names is None else names
    moved = moved_commits(snapshot.storage, snapshot.meta_path, snapshot.table_config, names)
    if moved:
        why = refusal_of_moved_commits(snapshot.meta_path, snapshot.table_config, moved)
        raise HoodieCommitException(f"{snapshot.base_path}: {why}; nothing was written")
    return snapshot.with_meta_names(names)
