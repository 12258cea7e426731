"""The changes of an upgrade or a downgrade, made or only planned."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.common.table.table_summary import SummaryTable
from hoodie.table.repair.repaired_table import RepairResult


@attrs.frozen
class ChangedProperty:
    """One property of the table.

    Attributes:
        key: Its key.
        before: Its value before; None where it was not there.
        after: Its value now; None where it was removed.
    """

    key: str
    before: str | None
    after: str | None


@attrs.frozen(repr=False)
class TableVersionChange(RepairResult):
    """An upgrade or a downgrade; prints as one line with the changed properties below it.

    Attributes:
        base_path: The table.
        from_version: The table's version before.
        to_version: The table's version now; after a dry run, the one that it would have.
        instants: Instants of the active timeline whose files were written anew; 0 where the layout stays.
        archived_instants: Archived instants that were written anew.
        compacted_file_groups: File groups of a merge-on-read table whose log files were compacted first; after a dry
            run, those that have log files.
        compactions: The instant times of these compactions; after a dry run, those that are pending.
        metadata_partitions: The partitions of the metadata table that was switched off; () without one.
        properties: The properties that changed.
        notes: Facts that a user should know about the table in its new version.
        finished_earlier_run: Whether files of an earlier run that had died were deleted first.
        is_dry_run: Whether nothing was changed.
    """

    base_path: str
    from_version: int
    to_version: int
    instants: int = 0
    archived_instants: int = 0
    compacted_file_groups: int = 0
    compactions: tuple[str, ...] = ()
    metadata_partitions: tuple[str, ...] = ()
    properties: tuple[ChangedProperty, ...] = ()
    notes: tuple[str, ...] = ()
    finished_earlier_run: bool = False
    is_dry_run: bool = False

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        would = "would be " if self.is_dry_run else ""
        parts = []
        if self.finished_earlier_run:
            parts.append(f"what an earlier run left {would or 'was '}deleted")
        if self.from_version == self.to_version:
            parts.append(f"{self.base_path} is of version {self.to_version}: nothing to do")
            return "; ".join(parts[::-1])
        done = "upgraded" if self.to_version > self.from_version else "downgraded"
        text = f"{self.base_path} {would or 'was '}{done} from version {self.from_version} to {self.to_version}"
        if self.compacted_file_groups or self.compactions:
            by = f" ({', '.join(self.compactions)})" if self.compactions else ""
            be = "would be" if self.is_dry_run else "were"
            parts.append(f"the log files of {self.compacted_file_groups} file groups {be} compacted first{by}")
        if self.instants or self.archived_instants:
            parts.append(f"{self.instants} active and {self.archived_instants} archived instants {would}written anew")
        if self.metadata_partitions:
            parts.append(f"the metadata table ({', '.join(self.metadata_partitions)}) {would or 'was '}switched off")
        return "; ".join([text, *parts, *self.notes])

    @property
    def table(self) -> SummaryTable[ChangedProperty]:
        """See `RepairResult`."""
        return SummaryTable(ChangedProperty, self.properties)


def changed_properties(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[ChangedProperty, ...]:
    """The properties that differ, sorted.

    Args:
        before: Properties.
        after: Other ones, without the checksum.
    """
    keys = sorted((before.keys() | after.keys()) - {"hoodie.table.checksum"})
    return tuple(
        ChangedProperty(key, before.get(key), after.get(key)) for key in keys if before.get(key) != after.get(key)
    )
