"""Merge of all entries of a key into one by a merge mode that merges fields, without a step for each entry.

The result is that of `MergingByMode.merge`, called for one entry after the other. Two facts make this possible::

    entries        u10      u20      u15      d30      u40      u25
    wins           yes      yes      no       yes      yes      no        by a running maximum
    has effect     ------- no effect on the resulting row -------   u40, u25

Ordering values alone decide which entries win. And each field of the resulting row comes from one of few entries: from
the last winner with a value there, or else from the first other row with one. Rows before the last delete that won have
no effect.

Hudi: merges pair by pair.
"""

from __future__ import annotations

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.merge.mode_rules import MergeEntries

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@attrs.frozen(eq=False)
class RunningWinners:
    """The entries of log files that win against all earlier ones of their key; arrays with one item for each entry.

    Attributes:
        starts: The first entry of each key.
        wins: True for entries that win.
        last: The last winning entry of each key.
        says: True for rows that contribute to the resulting row.
    """

    starts: Numbers
    wins: Flags
    last: Numbers
    says: Flags

    @classmethod
    def of(
        cls, starts: Numbers, entries: MergeEntries | None, is_delete: Flags, is_in_delete_block: Flags
    ) -> RunningWinners:
        """Find them as `later_log_entry_wins` decides of each pair.

        Args:
            starts: The first entry of each key; its others follow it, in their order.
            entries: The compared values; None if the later entry always wins.
            is_delete: Flags of the entries that delete their key.
            is_in_delete_block: Flags of the entries that are records of delete blocks.
        """
        count = len(is_delete)
        numbers = np.arange(count)
        counts = np.diff(np.append(starts, count))
        first = np.repeat(starts, counts)
        wins = np.ones(count, dtype=np.bool_)
        if entries is not None:
            wins = _by_order(entries, numbers, first, is_in_delete_block)
        winner = np.maximum.accumulate(np.where(wins, numbers, -1))
        # A row that wins against no row, or against a delete, takes nothing over.
        before = np.where(numbers > first, winner[numbers - 1], -1)
        begins = wins & ((before < 0) | is_delete[before])
        begin = np.maximum.accumulate(np.where(begins, numbers, -1))
        ends = starts + counts - 1
        says = ~is_delete & (numbers >= np.repeat(begin[ends], counts))
        return cls(starts, wins, winner[ends], says)

    def source_of(self, known: Flags | None, is_empty: Flags | None) -> Numbers:
        """The entry of each key from which the value of a column comes; -1 if no entry has a known value.

        Args:
            known: True for entries that store the column; None if all do.
            is_empty: True for values that give way to another one; None if none does.
        """
        count = len(self.says)
        says = self.says if known is None else self.says & known
        full = says if is_empty is None else says & ~is_empty
        numbers = np.arange(count)
        last_winner = self._last(np.where(full & self.wins, numbers, -1))
        first_full = self._first(np.where(full, numbers, count))
        # All empty values of a column are the same.
        first_known = self._first(np.where(says, numbers, count))
        first = np.where(first_full < count, first_full, np.where(first_known < count, first_known, -1))
        found = np.where(last_winner >= 0, last_winner, first)
        # A delete is not filled.
        return np.where(self.says[self.last], found, -1)

    def _last(self, numbers: Numbers) -> Numbers:
        return np.maximum.reduceat(numbers, self.starts)

    def _first(self, numbers: Numbers) -> Numbers:
        return np.minimum.reduceat(numbers, self.starts)


def _by_order(entries: MergeEntries, numbers: Numbers, first: Numbers, is_in_delete_block: Flags) -> Flags:
    """True for entries that win against all earlier ones of their key, by ordering values."""
    is_hard = entries.is_hard
    hard = np.maximum.accumulate(np.where(is_hard, numbers, -1))
    is_behind_hard = hard >= first
    # After a hard delete the first row wins; deletes of delete blocks before that row do not.
    is_row = ~is_hard & ~is_in_delete_block
    rows = np.cumsum(is_row)
    counts = ~is_hard & (~is_behind_hard | (rows > rows[np.maximum(hard, 0)]))
    ranks = np.unique(entries.ordering, return_inverse=True)[1].reshape(-1) + 1
    ranks = np.where(counts, ranks, 0)
    # Entries are compared with those since the last hard delete, or with all of their key.
    segments = np.cumsum(is_hard | (numbers == first)) * (int(ranks.max(initial=0)) + 1)
    largest = np.maximum.accumulate(segments + ranks)
    wins: Flags = is_hard | (counts & (segments + ranks == largest))
    return wins
