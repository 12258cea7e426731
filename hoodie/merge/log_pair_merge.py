"""Merge of entries of log files pair by pair, where rows are not taken as a whole.

This is needed for partial updates (blocks with part of the columns, and partial update modes), for payload classes
other than the two that have a merge mode, and for users' mergers. The second entry of each key is merged into its
first, then its third, and so on: in the n-th step only keys with n entries are processed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import (
    META_COLUMN_SET,
    OPERATION,
    ORDERING_VALUE,
    RECORD_KEY,
    reserved_field,
    user_column_names,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.arrow_buffers import indices_of
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieException
from hoodie.merge.log_fold import RunningWinners
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import MergeEntries, later_log_entry_wins, later_row_wins
from hoodie.merge.ordering_values import ordering_column, sortable
from hoodie.merge.payload_rules import PayloadRules, StoredRule
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED, TAKE_INCOMING, MergeOutcome


@attrs.frozen(eq=False)
class PairEntries:
    """Entries of log files, or merge results of several: arrays with one item for each.

    Attributes:
        rows: The rows, Hudi's columns included; nulls for records of delete blocks.
        keys: The record keys (string).
        ordering: The ordering values; null for hard deletes. None if the rules compare none.
        is_delete: True for entries that delete their key.
        has_row: True for rows of data blocks.
        known: True for each entry and column that the entry stores; None: all entries store all columns.
    """

    rows: pa.RecordBatch
    keys: pa.Array
    ordering: pa.Array | None
    is_delete: npt.NDArray[np.bool_]
    has_row: npt.NDArray[np.bool_]
    known: npt.NDArray[np.bool_] | None = None

    def __len__(self) -> int:
        """The number of entries."""
        return len(self.is_delete)

    def take(self, numbers: npt.NDArray[np.int64]) -> PairEntries:
        """The entries with the given numbers."""
        places = indices_of(numbers)
        return PairEntries(
            self.rows.take(places),
            self.keys.take(places),
            self.ordering.take(places) if self.ordering is not None else None,
            self.is_delete[numbers],
            self.has_row[numbers],
            self.known[numbers] if self.known is not None else None,
        )

    @classmethod
    def concat(cls, parts: list[PairEntries]) -> PairEntries:
        """All entries of the parts, one part after the other."""
        if len(parts) == 1:
            return parts[0]
        schema = parts[0].rows.schema
        columns = [pa.concat_arrays([part.rows.column(index) for part in parts]) for index in range(len(schema))]
        ordering = [part.ordering for part in parts if part.ordering is not None]
        known = None
        if any(part.known is not None for part in parts):
            width = len(schema)
            known = [np.ones((len(p), width), dtype=np.bool_) if p.known is None else p.known for p in parts]
        return cls(
            pa.RecordBatch.from_arrays(columns, schema=schema),
            pa.concat_arrays([part.keys for part in parts]),
            pa.concat_arrays(ordering) if ordering else None,
            np.concatenate([part.is_delete for part in parts]),
            np.concatenate([part.has_row for part in parts]),
            np.concatenate(known) if known else None,
        )

    def or_newer(self, newer: PairEntries, takes_newer: npt.NDArray[np.bool_]) -> PairEntries:
        """One entry of each pair."""
        count = len(self)
        numbers = np.arange(count)
        return PairEntries.concat([self, newer]).take(np.where(takes_newer, count + numbers, numbers))


class PairMerging(ABC):
    """The merge of two entries of one key, and of the result with the stored row."""

    def fold(self, entries: PairEntries, starts: npt.NDArray[np.int64]) -> PairEntries:
        """Merge the entries of each key into one.

        Args:
            entries: Entries, those of one key together and in their order.
            starts: The first entry of each key.

        Returns:
            One entry for each key, in the order of the keys.

        Raises:
            HoodieException: Records cannot be merged.
        """
        counts = np.diff(np.append(starts, len(entries)))
        by_count = np.argsort(-counts, kind="stable")
        firsts, ends = starts[by_count], -counts[by_count]
        merged, finished = entries.take(firsts), []
        for step in range(1, int(counts.max(initial=0))):
            # Keys with that many entries come first.
            going_on = int(np.searchsorted(ends, -step))
            if going_on < len(merged):
                finished.append(merged.take(np.arange(going_on, len(merged))))
                merged = merged.take(np.arange(going_on))
            merged = self.merge(merged, entries.take(firsts[:going_on] + step))
        back = np.empty(len(starts), dtype=np.int64)
        back[by_count] = np.arange(len(starts))
        return PairEntries.concat([merged, *finished[::-1]]).take(back)

    @abstractmethod
    def merge(self, older: PairEntries, newer: PairEntries) -> PairEntries:
        """Merge pairs of entries of log files.

        Args:
            older: The merged earlier entries.
            newer: The next entry of each.

        Raises:
            HoodieException: Records cannot be merged.
        """

    @abstractmethod
    def merge_with_stored(self, stored: pa.RecordBatch, newer: PairEntries) -> MergeOutcome:
        """Merge stored rows with the merged entries.

        Args:
            stored: Rows of the base file, with the columns of the entries.
            newer: The entry of each.

        Returns:
            The outcome for each stored row; the rows have the columns of the entries.

        Raises:
            HoodieException: Records cannot be merged.
        """


class MergingByMode(PairMerging):
    """Merge by the rules of a merge mode: the winner of two entries takes unknown values from the other one.

    A delete gives and takes nothing.

    Args:
        spec: The table's rules, which decide which values are empty.
        rules: The rules of the mode.
    """

    def __init__(self, spec: MergeSpec, rules: PayloadRules) -> None:
        self._spec = spec
        self._rules = rules

    def fold(self, entries: PairEntries, starts: npt.NDArray[np.int64]) -> PairEntries:
        """See `PairMerging.fold`; a key with many entries takes no longer than as many keys."""
        if not len(entries):
            return entries
        compared = None
        if entries.ordering is not None and self._rules.stored_rule is not StoredRule.NEVER:
            (compared,) = MergeEntries.of([entries.ordering], [entries.is_delete])
        winners = RunningWinners.of(starts, compared, entries.is_delete, ~entries.has_row)
        last_winners = entries.take(winners.last)
        columns, known_now = [], []
        for index, name in enumerate(entries.rows.schema.names):
            column = entries.rows.column(index)
            known = entries.known[:, index] if entries.known is not None else None
            is_empty = None
            if self._rules.field_rule is not None and name not in META_COLUMN_SET:
                is_empty = self._spec.is_empty(column, name)
            sources = winners.source_of(known, is_empty)
            columns.append(column.take(pa.array(np.where(sources >= 0, sources, winners.last))))
            known_now.append(sources >= 0)
        rows = pa.RecordBatch.from_arrays(columns, schema=entries.rows.schema)
        if last_winners.known is not None:
            known_now_of_rows = np.stack(known_now, axis=1)
            last_winners = attrs.evolve(
                last_winners, known=np.where(last_winners.is_delete[:, None], last_winners.known, known_now_of_rows)
            )
        return attrs.evolve(last_winners, rows=rows)

    def merge(self, older: PairEntries, newer: PairEntries) -> PairEntries:
        """See `PairMerging.merge`."""
        old, new = self._compared(older.ordering, older.is_delete, newer)
        wins = later_log_entry_wins(self._rules, old, new, ~newer.has_row)
        winners = older.or_newer(newer, wins)
        joined, _, known = self._joined(older.rows, older.known, newer, wins, older.is_delete | newer.is_delete)
        return attrs.evolve(winners, rows=joined, known=known)

    def merge_with_stored(self, stored: pa.RecordBatch, newer: PairEntries) -> MergeOutcome:
        """See `PairMerging.merge_with_stored`."""
        nothing = np.zeros(len(newer), dtype=np.bool_)
        ordering = None
        if newer.ordering is not None:
            ordering = ordering_column(stored, self._spec.ordering_fields)
        old, new = self._compared(ordering, nothing, newer)
        wins = later_row_wins(self._rules, old, new)
        rows, mixed, _ = self._joined(stored, None, newer, wins, newer.is_delete)
        codes = np.where(wins, np.where(newer.is_delete, DELETE_STORED, TAKE_INCOMING), KEEP_STORED)
        codes[~wins & ~newer.is_delete & mixed] = TAKE_INCOMING
        return MergeOutcome(codes.astype(np.uint8), rows)

    def _compared(
        self, ordering: pa.Array | None, is_delete: npt.NDArray[np.bool_], newer: PairEntries
    ) -> list[MergeEntries]:
        if ordering is None or newer.ordering is None:
            zeros = pa.array(np.zeros(len(newer), dtype=np.int64))
            return MergeEntries.of([zeros, zeros], [is_delete, newer.is_delete])
        return MergeEntries.of([ordering, newer.ordering], [is_delete, newer.is_delete])

    def _joined(
        self,
        older: pa.RecordBatch,
        known: npt.NDArray[np.bool_] | None,
        newer: PairEntries,
        wins: npt.NDArray[np.bool_],
        without_row: npt.NDArray[np.bool_],
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_], npt.NDArray[np.bool_] | None]:
        """Rows of winners, completed by the losers; which have values of both; and the columns that they know.

        Args:
            older: The older rows.
            known: The columns that they know.
            newer: The newer entries.
            wins: Flags of the pairs in which the newer entry wins.
            without_row: Flags of the pairs in which one of the two is a delete.
        """
        count, schema = len(newer), newer.rows.schema
        numbers = np.arange(count)
        columns, of_both, mixed = [], [], np.zeros(count, dtype=np.bool_)
        everything = np.ones(count, dtype=np.bool_)
        has_parts = known is not None or newer.known is not None
        for index, name in enumerate(schema.names):
            old, new = older.column(name), newer.rows.column(index)
            old_known = known[:, index] if known is not None else everything
            new_known = newer.known[:, index] if newer.known is not None else everything
            of_winner, of_loser = np.where(wins, new_known, old_known), np.where(wins, old_known, new_known)
            takes_other = ~of_winner
            if self._rules.field_rule is not None and name not in META_COLUMN_SET:
                takes_other |= np.where(wins, self._spec.is_empty(new, name), self._spec.is_empty(old, name))
            takes_other &= of_loser & ~without_row
            mixed |= takes_other
            of_both.append(of_winner | (of_loser & ~without_row))
            takes_new = takes_other != wins
            if takes_new.all():
                columns.append(new)
            else:
                both = pa.concat_arrays([old, new])
                columns.append(both.take(pa.array(np.where(takes_new, count + numbers, numbers))))
        known_now = np.stack(of_both, axis=1) if has_parts else None
        return pa.RecordBatch.from_arrays(columns, schema=schema), mixed, known_now


class MergingByPayload(PairMerging):
    """Merge by `MergeSpec.merge`, the rules of a payload class or of a user's merger, one pair after the other.

    A row replaces an earlier delete. A record of a delete block deletes the earlier row, unless the rules let deletes
    compete and its ordering value is smaller.

    Args:
        spec: The table's rules.
    """

    def __init__(self, spec: MergeSpec) -> None:
        self._spec = spec

    def merge(self, older: PairEntries, newer: PairEntries) -> PairEntries:
        """See `PairMerging.merge`."""
        takes_newer = np.ones(len(newer), dtype=np.bool_)
        deletes = newer.is_delete.copy()
        rows, ordering = newer.rows, newer.ordering
        by_rows = np.flatnonzero(~older.is_delete & newer.has_row)
        if len(by_rows):
            pairs = newer.take(by_rows)
            outcome = self._outcome(older.rows.take(pa.array(by_rows)), pairs)
            takes_newer[by_rows] = outcome.codes != KEEP_STORED
            deletes[by_rows] = outcome.codes == DELETE_STORED
            rows = _with_rows(rows, by_rows, outcome.rows)
            if ordering is not None and self._spec.ordering_fields:
                # Merged field by field, a row may have taken the older row's ordering value.
                of_rows = ordering_column(rows, self._spec.ordering_fields)
                assert of_rows is not None
                ordering = pc.if_else(pa.array(newer.has_row & ~newer.is_delete), of_rows, ordering)
        by_deletes = ~older.is_delete & ~newer.has_row
        if by_deletes.any():
            takes_newer[by_deletes & self._delete_loses(older.ordering, newer)] = False
        merged = attrs.evolve(newer, rows=rows, is_delete=deletes, ordering=ordering)
        return older.or_newer(merged, takes_newer)

    def merge_with_stored(self, stored: pa.RecordBatch, newer: PairEntries) -> MergeOutcome:
        """See `PairMerging.merge_with_stored`."""
        codes = np.full(len(newer), DELETE_STORED, dtype=np.uint8)
        rows = newer.rows
        by_rows = np.flatnonzero(newer.has_row)
        if len(by_rows):
            outcome = self._outcome(stored.take(pa.array(by_rows)), newer.take(by_rows))
            codes[by_rows] = outcome.codes
            rows = _with_rows(rows, by_rows, outcome.rows)
        if newer.ordering is not None and not newer.has_row.all():
            ordering = ordering_column(stored, self._spec.ordering_fields)
            codes[~newer.has_row & self._delete_loses(ordering, newer)] = KEEP_STORED
        return MergeOutcome(codes, rows)

    def _delete_loses(self, ordering: pa.Array | None, newer: PairEntries) -> npt.NDArray[np.bool_]:
        """True where a record of a delete block has a smaller ordering value than the row that it would delete."""
        rule = self._spec.rules.stored_rule
        if (
            ordering is None
            or newer.ordering is None
            or not self._spec.rules.deletes_compete
            or rule not in (StoredRule.LARGER, StoredRule.LARGER_OR_EQUAL)
        ):
            return np.zeros(len(newer), dtype=np.bool_)
        old, new = sortable([ordering, newer.ordering])
        loses: npt.NDArray[np.bool_] = (old > new) & newer.ordering.is_valid().to_numpy(zero_copy_only=False)
        return loses

    def _outcome(self, stored: pa.RecordBatch, newer: PairEntries) -> MergeOutcome:
        """Merge pairs of rows; the result has Hudi's columns too."""
        names = user_column_names(newer.rows.schema)
        operations = np.where(newer.is_delete, RecordOperation.DELETE_FLAGGED, RecordOperation.UPSERT)
        columns = [newer.rows.column(name) for name in names]
        fields = [newer.rows.schema.field(name) for name in names]
        columns += [newer.keys, pa.array(operations.astype(np.int8))]
        fields += [reserved_field(RECORD_KEY), reserved_field(OPERATION)]
        if self._spec.ordering_fields and newer.ordering is not None:
            columns.append(newer.ordering)
            fields.append(reserved_field(ORDERING_VALUE, newer.ordering.type))
        incoming = pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
        outcome = self._spec.merge(stored.select(names), incoming)
        for number, reason in outcome.errors.items():
            raise HoodieException(
                f"merging the log records of key {short_repr(newer.keys[number].as_py())} failed: {reason}; its rows "
                "are as they were written, and no result would be right"
            )
        assert outcome.rows is not None
        merged = outcome.rows
        columns = [
            merged.column(name) if name in names else newer.rows.column(name) for name in newer.rows.schema.names
        ]
        return MergeOutcome(outcome.codes, pa.RecordBatch.from_arrays(columns, schema=newer.rows.schema))


def _with_rows(rows: pa.RecordBatch, numbers: npt.NDArray[np.int64], new: pa.RecordBatch | None) -> pa.RecordBatch:
    """Rows, some of which are replaced."""
    assert new is not None
    if len(numbers) == rows.num_rows:
        return new
    places = np.arange(rows.num_rows)
    places[numbers] = rows.num_rows + np.arange(len(numbers))
    indices = indices_of(places)
    columns = [pa.concat_arrays([old, new.column(index)]).take(indices) for index, old in enumerate(rows.columns)]
    return pa.RecordBatch.from_arrays(columns, schema=rows.schema)
