"""Prepare the metadata table of a table before a write, a service or a rollback begins.

Readers that trust a metadata table miss changes that are made without it. So a writer that does not want one deletes it
first, and a writer that cannot keep it up to date does not begin.
"""

from __future__ import annotations

from collections.abc import Collection

import attrs

from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import HoodieInstant
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metadata.reader.index_definition_file import DEFINITIONS_FOLDER
from hoodie.storage.storage_path import join, parent
from hoodie.table.action.rollback.failed_writes import FailedWrites
from hoodie.table.table_session import TableSession


@attrs.frozen(eq=False)
class TablePreparation:
    """Prepares one table for the actions of one client.

    Attributes:
        session: The writer's configuration and engine, and the table's lock, held while the metadata table is changed.
    """

    session: TableSession

    def for_action(self, snapshot: TableSnapshot, given_up: Collection[str] = ()) -> TableSnapshot:
        """Delete a metadata table that the writer does not want, and refuse one that hoodie cannot keep up to date.

        Args:
            snapshot: The table, just loaded.
            given_up: Times of pending writes that their writers have given up.

        Returns:
            The table as it is then.

        Raises:
            HoodieException: See `MetadataTable.refuse_unwritable`.
            HoodieCommitException: It would be deleted, and instants are pending.
            HoodieHeartbeatException: Likewise, EAGER, and the writer of a pending write is alive.
            HoodieLockException: The lock was not given.
        """
        metadata_table = self._metadata_table(snapshot)
        if self.session.config.metadata.enable is not False:
            if not metadata_table.is_to_be_adapted():
                metadata_table.refuse_unwritable()
                return snapshot
            with self.session.transactions.transaction(snapshot, "adapting the metadata table"):
                return metadata_table.adapt()
        if not metadata_table.is_there():
            return snapshot
        failed = FailedWrites(self.session.config.write)

        def is_dead(snapshot: TableSnapshot, instant: HoodieInstant) -> bool:
            return instant.requested_time in given_up or failed.is_dead(snapshot, instant)

        with self.session.transactions.transaction(snapshot, "deleting the metadata table"):
            return metadata_table.switch_off(is_asked_for=True, is_dead=is_dead)

    def for_write(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Give a table the metadata table that its writer wants; failed writes were rolled back.

        A metadata table whose times are no moments of the table is set aside, so that it is built anew.

        Args:
            snapshot: The table, just loaded.

        Returns:
            The table as it is then.

        Raises:
            HoodieException: See `for_action` and `build_metadata_table`.
        """
        if self.session.config.metadata.enable is not False:
            # Opens the metadata table, which tells whether it is there; what was opened is asked again below.
            self._metadata_table(snapshot).is_misplaced()
        snapshot = self.for_action(snapshot)
        metadata_table = self._metadata_table(snapshot)
        if self.session.config.metadata.enable is not False and metadata_table.is_misplaced():
            with self.session.transactions.transaction(snapshot, "setting the metadata table aside"):
                snapshot = metadata_table.set_aside_if_misplaced()
        return self.build_metadata_table(snapshot)

    def build_metadata_table(self, snapshot: TableSnapshot) -> TableSnapshot:
        """Build and drop the partitions of the metadata table that are due.

        Args:
            snapshot: The table, just loaded.

        Returns:
            The table as it is then.

        Raises:
            HoodieException: A file of the table cannot be read, or storage failed; call again.
        """
        if not self._metadata_table(snapshot).is_build_due():
            return snapshot
        with (
            self.session.metrics.step("build the metadata table"),
            self.session.transactions.transaction(snapshot, "building the metadata table"),
        ):
            return MetadataTable(snapshot, MetadataTableUpkeep.of(self.session.config, self.session.context)).build()

    def _metadata_table(self, snapshot: TableSnapshot) -> MetadataTable:
        """The metadata table, for all that needs no record merger, which is loaded once something is built."""
        return MetadataTable(snapshot, MetadataTableUpkeep(self.session.config.metadata, self.session.context))


def temporary_file_folders(snapshot: TableSnapshot) -> tuple[str, ...]:
    """The folders in which writers that died may have left temporary files; of partitions, only the metadata table's.

    Args:
        snapshot: The table.
    """
    folders = (
        snapshot.meta_path,
        parent(snapshot.heartbeat_path("0")),
        snapshot.active_timeline.layout.active_path(snapshot.meta_path),
        join(snapshot.meta_path, TEMP_FOLDER_NAME),
        *([join(snapshot.meta_path, DEFINITIONS_FOLDER)] if snapshot.may_have(DEFINITIONS_FOLDER) else []),
        join(snapshot.meta_path, snapshot.table_config.archive_folder),
        *MetadataTable(snapshot).folders(),
    )
    return tuple(dict.fromkeys(folders))
