"""What an index did to find keys: which file groups it thought of, what settled each of them, what it read.

Every index notes its work on the `IndexWork` of the `hoodie.index.index.IndexedTable` that it is given, on the driver;
tasks give their counts back with their results. `explain_upsert` shows it, and tests and benchmarks count by it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import attrs

from hoodie.common.model.file_slice import FileSlice

__all__ = ["Decision", "FileGroupLook", "IndexReport", "IndexWork"]


class Decision(StrEnum):
    """What settled whether a file group holds incoming keys."""

    RANGE = "range"
    """The smallest and largest key of its footer: it can hold none, and was not read."""
    FILTER = "filter"
    """Its bloom filter: it holds none, and its keys were not read."""
    KEY_CHECK = "key check"
    """Its keys were compared with the incoming ones."""
    HASH = "hash"
    """Computed from the key; no file was read to find it."""
    MEMORY = "memory"
    """Keys that the client keeps."""
    DATABASE = "database"
    """A store outside of the table that knows the locations of keys."""


@attrs.frozen
class FileGroupLook:
    """How the index judged one file group.

    Attributes:
        partition_path: Its partition.
        file_id: Its id.
        decided_by: What settled it: a `Decision`, or the word of an index of the user's.
        keys: Incoming keys that were compared with it in that step: of a key check those that its key column was
            searched for.
        found: Keys that it holds, as many as stored records where one stands twice; None where the index had not
            counted when it answered (a join by the engine counts later).
        row_groups: Row groups of the file, where it was opened.
        row_groups_read: Of them those whose keys were read.
    """

    partition_path: str
    file_id: str
    decided_by: str
    keys: int = 0
    found: int | None = None
    row_groups: int = 0
    row_groups_read: int = 0

    @property
    def was_read(self) -> bool:
        """Whether keys of its base file were read, or are read by a join of the engine."""
        return self.row_groups_read > 0 or (self.decided_by == Decision.KEY_CHECK and self.found is None)


@attrs.frozen
class IndexReport:
    """The work of one look-up of keys.

    Attributes:
        file_groups: All that the index had to judge, in no order.
        footers_read: Footers of base files that were read for ranges of keys; those in a cache are not among them.
        filters_read: Bloom filters that were read.
    """

    file_groups: tuple[FileGroupLook, ...] = ()
    footers_read: int = 0
    filters_read: int = 0

    @property
    def decided(self) -> dict[str, int]:
        """What settled it, to the number of file groups."""
        return dict(Counter(look.decided_by for look in self.file_groups))

    @property
    def files_read(self) -> int:
        """Base files whose keys were read, some or all of them."""
        return sum(look.was_read for look in self.file_groups)

    @property
    def row_groups_read(self) -> int:
        """Row groups whose keys were read."""
        return sum(look.row_groups_read for look in self.file_groups)

    @property
    def row_groups_skipped(self) -> int:
        """Row groups of files that were read, which were passed over by their statistics."""
        return sum(look.row_groups - look.row_groups_read for look in self.file_groups if look.was_read)

    @property
    def keys_compared(self) -> int:
        """Incoming keys that the files' key columns were searched for, each as often as files were."""
        return sum(look.keys for look in self.file_groups if look.was_read)


class IndexWork:
    """Takes note, on the driver, while an index looks keys up. Not for several threads at once."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], FileGroupLook] = {}
        self._footers_read = 0
        self._filters_read = 0

    def note(self, look: FileGroupLook) -> None:
        """How a file group was judged; what was noted of it before is replaced.

        Args:
            look: The verdict.
        """
        self._looks[look.partition_path, look.file_id] = look

    def note_all(self, slices: Iterable[FileSlice], decided_by: str) -> None:
        """Several file groups of one verdict, of which no more is known.

        Args:
            slices: Of the file groups.
            decided_by: What settled it.
        """
        for file_slice in slices:
            self.note(FileGroupLook(file_slice.partition_path, file_slice.file_id, decided_by))

    def note_reads(self, footers: int = 0, filters: int = 0) -> None:
        """Add to what was read.

        Args:
            footers: Footers, for ranges of keys.
            filters: Bloom filters.
        """
        self._footers_read += footers
        self._filters_read += filters

    def report(self) -> IndexReport:
        """All of it."""
        return IndexReport(tuple(self._looks.values()), self._footers_read, self._filters_read)
