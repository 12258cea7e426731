"""The work of an index: the judged file groups, what decided about each of them, and the files that were read.

Every index notes its work on the driver, on the `IndexWork` of its `hoodie.index.index.IndexedTable`. Tasks return
their counts with their results. `explain_upsert` shows the work; tests and benchmarks count it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

import attrs

from hoodie.common.model.file_slice import FileSlice


class Decision(StrEnum):
    """The means that decided whether a file group holds incoming keys."""

    RANGE = "range"
    """The key range of its footer excludes all keys, so it was not read."""
    FILTER = "filter"
    """Its bloom filter excludes all keys, so its keys were not read."""
    KEY_CHECK = "key check"
    """Its keys were compared with the incoming ones."""
    HASH = "hash"
    """The file group is computed from the key, without reading a file."""
    MEMORY = "memory"
    """The client keeps the keys of the file group in memory."""
    RECORD_INDEX = "record index"
    """The metadata table has the locations of keys."""
    DATABASE = "database"
    """A store outside of the table has the locations of keys."""


@attrs.frozen
class FileGroupLook:
    """The judgement of an index about one file group.

    Attributes:
        partition_path: Its partition.
        file_id: Its id.
        decided_by: The reason: a `Decision`, or a word that an index of the user's gives.
        keys: The number of incoming keys that were compared with it in that step. In a key check these are the keys
            that its key column was searched for.
        found: The number of stored records with such keys; None if the index did not count them (a join by the engine
            counts later).
        row_groups: The number of row groups of the file, if it was opened.
        row_groups_read: The number of row groups whose keys were read.
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
        file_groups: All file groups that the index had to judge, in no order.
        footers_read: The number of footers that were read for key ranges; cached ranges do not count.
        filters_read: The number of bloom filters that were read.
    """

    file_groups: tuple[FileGroupLook, ...] = ()
    footers_read: int = 0
    filters_read: int = 0

    @property
    def decided(self) -> dict[str, int]:
        """The number of file groups by the deciding means."""
        return dict(Counter(look.decided_by for look in self.file_groups))

    @property
    def files_read(self) -> int:
        """The number of base files from which keys were read."""
        return sum(look.was_read for look in self.file_groups)

    @property
    def row_groups_read(self) -> int:
        """The number of row groups whose keys were read."""
        return sum(look.row_groups_read for look in self.file_groups)

    @property
    def row_groups_skipped(self) -> int:
        """The number of row groups that were skipped by their statistics, in files that were read."""
        return sum(look.row_groups - look.row_groups_read for look in self.file_groups if look.was_read)

    @property
    def keys_compared(self) -> int:
        """The number of incoming keys that key columns were searched for; each key counts once for each file."""
        return sum(look.keys for look in self.file_groups if look.was_read)


class IndexWork:
    """Collects the work of an index on the driver. It is not safe for several threads."""

    def __init__(self) -> None:
        self._looks: dict[tuple[str, str], FileGroupLook] = {}
        self._footers_read = 0
        self._filters_read = 0

    def note(self, look: FileGroupLook) -> None:
        """Note the judgement about a file group, in place of an earlier one.

        Args:
            look: The judgement.
        """
        self._looks[look.partition_path, look.file_id] = look

    def note_all(self, slices: Iterable[FileSlice], decided_by: str) -> None:
        """Note the same judgement about several file groups.

        Args:
            slices: The slices of the file groups.
            decided_by: The means that decided.
        """
        for file_slice in slices:
            self.note(FileGroupLook(file_slice.partition_path, file_slice.file_id, decided_by))

    def note_reads(self, footers: int = 0, filters: int = 0) -> None:
        """Add to the numbers of reads.

        Args:
            footers: The number of footers that were read for key ranges.
            filters: The number of bloom filters that were read.
        """
        self._footers_read += footers
        self._filters_read += filters

    def report(self) -> IndexReport:
        """The work so far."""
        return IndexReport(tuple(self._looks.values()), self._footers_read, self._filters_read)
