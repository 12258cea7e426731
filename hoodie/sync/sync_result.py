"""The outcome of a sync."""

from __future__ import annotations

import attrs

from hoodie.common.util.shown_table import plural


@attrs.frozen
class SyncedEntry:
    """One entry of a catalog after a sync; printed, one line.

    Attributes:
        name: Database and name.
        is_created: Whether there was no entry before.
        is_recreated: Whether the entry was made anew.
        is_dropped: Whether the entry was removed, as the table has no such view.
        columns: The changes of columns, one line each.
        parameters: The changes of parameters, formats and serde parameters, one line each.
        added: The partition paths that were added.
        moved: The partition paths whose location was changed.
        dropped: The values of the partitions that were removed from the catalog; no data is deleted.
        touched: The partition paths that were written anew as they are.
        differences: The differences that a check found, one line each; a check changes nothing.
    """

    name: str
    is_created: bool = False
    is_recreated: bool = False
    is_dropped: bool = False
    columns: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    added: tuple[str, ...] = attrs.field(default=(), repr=False)
    moved: tuple[str, ...] = attrs.field(default=(), repr=False)
    dropped: tuple[tuple[str, ...], ...] = attrs.field(default=(), repr=False)
    touched: tuple[str, ...] = attrs.field(default=(), repr=False)
    differences: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        """Whether the sync changed the entry beyond the time of its commit."""
        lists = (self.columns, self.parameters, self.added, self.moved, self.dropped, self.touched)
        return self.is_created or self.is_recreated or self.is_dropped or any(lists)

    @property
    def summary(self) -> str:
        """One line."""
        if self.differences:
            return f"{self.name}: {plural(len(self.differences), 'difference')}"
        parts = []
        if self.is_created or self.is_recreated:
            parts.append("created" if self.is_created else "made anew")
        elif self.columns or self.parameters:
            parts.append("changed")
        if self.is_dropped:
            parts.append("removed")
        for count, verb in (
            (len(self.added), "added"), (len(self.moved), "moved"), (len(self.dropped), "dropped"),
            (len(self.touched), "touched"),
        ):  # fmt: skip
            if count:
                parts.append(f"{plural(count, 'partition')} {verb}")
        return f"{self.name}: {', '.join(parts) if parts else 'up to date'}"

    def __str__(self) -> str:
        return "\n  ".join([self.summary, *self.differences])


@attrs.frozen
class SyncResult:
    """The outcome of one sync of a table with one catalog; printed, one line for each entry.

    Attributes:
        catalog: The catalog.
        base_path: The table's folder.
        commit: The requested time of the newest commit.
        entries: The entries, one for each name of the table.
        is_check: Whether nothing was changed, as a check was asked for.
    """

    catalog: str
    base_path: str
    commit: str
    entries: tuple[SyncedEntry, ...]
    is_check: bool = False

    @property
    def has_differences(self) -> bool:
        """Whether a check found differences."""
        return any(entry.differences for entry in self.entries)

    @property
    def headline(self) -> str:
        """One line."""
        if self.is_check:
            count = sum(len(entry.differences) for entry in self.entries)
            found = f"{plural(count, 'difference')}" if count else "no difference"
            return f"{self.catalog}: {found} between {plural(len(self.entries), 'name')} and {self.base_path}"
        return f"{self.catalog}: {'; '.join(entry.summary for entry in self.entries)} (commit {self.commit})"

    def __str__(self) -> str:
        return "\n".join([self.headline, *(str(entry) for entry in self.entries if entry.differences)])
