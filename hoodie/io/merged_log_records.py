"""The records of the log files of one slice, merged to one entry for each key.

Hudi: org.apache.hudi.common.table.log.HoodieMergedLogRecordScanner. Differs: keys, ordering values and places are
columns, and decide before any row is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, NoReturn, Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.util.arrow_buffers import indices_of, numbers_in
from hoodie.common.util.shown_value import short_repr
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieCorruptedDataException, HoodieException
from hoodie.io.log.log_records import LogDeletes, LogEntries, LogRows
from hoodie.io.log_row_store import LogRowStore
from hoodie.merge.log_merge import (
    LogEntryColumns,
    delete_columns,
    entries_that_win,
    last_entries,
    ordering_of_deletes,
    ordering_of_rows,
    requested_deletes,
    rules_of_logs,
    without_order,
)
from hoodie.merge.log_pair_merge import MergingByMode, MergingByPayload, PairEntries, PairMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.ordering_values import one_array, ordering_column, ordering_key, ordering_type
from hoodie.merge.payload_rules import PayloadRules, StoredRule
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED, TAKE_INCOMING

if TYPE_CHECKING:
    from hoodie.keygen.base_key_generator import KeyGenerator

_FOLDED_AT_ONCE = 1 << 17
"""The number of entries whose rows are in memory at a time while they are merged pair by pair."""


@attrs.frozen(eq=False)
class LogMergeRules:
    """The rules and the schema for merging slices; made once for a reader.

    Attributes:
        spec: The table's rules.
        schema: The table's schema, including meta columns.
        key_generator: Makes record keys, in a table that stores none.
    """

    spec: MergeSpec
    schema: pa.Schema
    key_generator: KeyGenerator | None = None

    @property
    def by_mode(self) -> PayloadRules | None:
        """See `rules_of_logs`."""
        return rules_of_logs(self.spec)

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering fields that decide; empty if the newer entry always wins."""
        rules = self.by_mode
        if rules is not None and rules.stored_rule is StoredRule.NEVER:
            return ()
        return self.spec.ordering_fields

    @property
    def ordering_columns(self) -> list[str]:
        """The columns of the ordering fields."""
        return list(dict.fromkeys(top_level_name(self.schema, field) for field in self.ordering_fields))

    @property
    def takes_whole_rows(self) -> bool:
        """Whether the winning row is taken as a whole, except for a block of a partial update."""
        rules = self.by_mode
        return rules is not None and rules.field_rule is None

    @property
    def key_columns(self) -> list[str]:
        """The columns that hold the record key, or from which it is made."""
        generator = self.key_generator
        if generator is None:
            return [RECORD_KEY_META]
        if generator.reads_all_columns:
            return list(self.schema.names)
        return list(dict.fromkeys(top_level_name(self.schema, field) for field in generator.record_key_fields))

    def columns_of_log(self, columns: Sequence[str]) -> list[str]:
        """The columns of log rows that are needed for a result with the given columns, in the order of the schema.

        Args:
            columns: The columns of a log file's row that the result needs.
        """
        needed = {*columns, *self.key_columns, *self.ordering_columns, *delete_columns(self.spec, self.schema)}
        return [name for name in self.schema.names if name in needed]

    def keys_of(self, rows: pa.RecordBatch) -> pa.Array:
        """The record keys of rows (string); null for a row without one.

        Args:
            rows: Rows with the columns of `key_columns`.
        """
        if self.key_generator is not None:
            return self.key_generator.record_keys(rows)
        return one_array(rows.column(RECORD_KEY_META))

    def pair_merging(self) -> PairMerging:
        """The merge of entries that are not taken as a whole."""
        rules = self.by_mode
        return MergingByPayload(self.spec) if rules is None else MergingByMode(self.spec, rules)


@attrs.frozen(eq=False)
class MergedRows:
    """The result of merging stored rows with their log entries.

    Attributes:
        codes: ``KEEP_STORED``, ``TAKE_INCOMING`` or ``DELETE_STORED`` for each stored row (uint8).
        rows: The rows that replace stored ones, one for each ``TAKE_INCOMING``.
    """

    codes: npt.NDArray[np.uint8]
    rows: pa.RecordBatch


class MergedLogRecords:
    """One entry for each key of the log files of a slice; a context manager.

    Made by `collect`. Memory: keys, ordering values and places of all entries, and the rows of a `LogRowStore`.

    Args:
        rules: The rules for merging.
        columns: The columns of rows in the result.
        config: The limit of memory for rows.
        base_instant: The instant of the base file. Positions in this file are used; None: no positions are used.
        place: The slice, for messages.
    """

    def __init__(
        self,
        rules: LogMergeRules,
        columns: Sequence[str],
        config: HoodieLogMergeConfig,
        base_instant: str | None,
        place: str,
    ) -> None:
        self._rules = rules
        # A payload class or a user's merger gets all columns.
        wanted = set(columns)
        self._columns = [name for name in rules.schema.names if name in wanted or rules.by_mode is None]
        self._config = config
        self._base_instant = base_instant
        self._place = place
        self._resources = ExitStack()
        self._ordering_type = ordering_type(rules.schema, rules.ordering_fields)
        self._merging: PairMerging | None = None
        self.keys: pa.Array = pa.nulls(0, pa.string())
        self.positions: npt.NDArray[np.int64] | None = None
        self.record_count = 0
        self.delete_count = 0
        self._unlike_key: set[str] = set()
        self._merged_entries = _EntryColumns.nothing(self._ordering_type)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drop the rows; a second call does nothing."""
        self._resources.close()

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._merged_entries.is_delete)

    @property
    def columns(self) -> list[str]:
        """The columns of the rows."""
        return self._columns

    @property
    def stored_columns(self) -> list[str]:
        """The columns of stored rows that `merge` needs."""
        columns = self._columns if self._merging is not None else []
        return list(dict.fromkeys([*columns, *self._rules.ordering_columns]))

    @property
    def replaces_only(self) -> bool:
        """Whether each winning entry replaces a stored row as a whole, and none deletes one."""
        return self._merging is None and not self.delete_count

    @property
    def are_whole(self) -> bool:
        """Whether each winning entry is a whole row or a delete, so that nothing of the stored row stays."""
        return self._merging is None and self._rules.by_mode is not None

    @property
    def least_ordering(self) -> pa.Scalar | None:
        """The least ordering value of the entries; None if statistics of a base file cannot tell whether it wins.

        They cannot if an entry has no value that compares. A stored null is smaller than all values, but counts as 0
        among 32-bit integers.
        """
        entries, kind = self._merged_entries, self._ordering_type
        if kind is None or not (pa.types.is_integer(kind) or pa.types.is_temporal(kind)):
            return None
        if entries.ordering is None or len(without_order(entries.ordering, entries.is_delete)):
            return None
        least = pc.min(entries.ordering)
        return least if least.is_valid and (kind != pa.int32() or least.as_py() >= 0) else None

    @property
    def columns_like_key(self) -> set[str]:
        """The string columns that equal the record key in every row of the log files."""
        strings = {name for name in self._columns if self._rules.schema.field(name).type == pa.string()}
        return strings - self._unlike_key

    # --- collecting --------------------------------------------------------------------------------------------------

    def collect(self, entries: Iterable[LogEntries]) -> Self:
        """Read all entries, and merge them to one for each key.

        Args:
            entries: The entries of a scan, in the order of merging; rows have the columns of
                `LogMergeRules.columns_of_log`.

        Raises:
            HoodieException: Storage failed, a block is damaged, or entries do not compare.
        """
        schema = pa.schema([self._rules.schema.field(name) for name in self._columns])
        store = self._resources.enter_context(LogRowStore(schema, self._config))
        collected = _Collected()
        for entry in entries:
            if isinstance(entry, LogRows):
                self._add_rows(collected, entry, store)
            else:
                self._add_deletes(collected, entry)
        store.finish()
        if not any(map(len, collected.keys)):
            return self
        everything = collected.joined(self._ordering_type)
        self.record_count, self.delete_count = len(everything.is_delete), int(everything.is_delete.sum())
        keys = pa.chunked_array(collected.keys, pa.string())
        codes = self._codes(collected, keys)
        columns = LogEntryColumns(codes, everything.ordering, everything.is_delete, everything.places < 0)

        def refuse(number: int) -> NoReturn:
            self._refuse(keys[number].as_py())

        if self._rules.takes_whole_rows and not collected.has_parts:
            numbers = last_entries(columns, refuse)
            self._merged_entries = everything.take(numbers, store)
            self.keys = _taken(keys, numbers)
        else:
            self._merging = self._rules.pair_merging()
            if self._rules.by_mode is not None:
                last_entries(columns, refuse)
            numbers = self._fold(self._merging, everything.with_store(store), keys, codes)
            store.close()
        if self.positions is not None:
            self.positions = self.positions[numbers]
        return self

    def _add_rows(self, found: _Collected, entry: LogRows, store: LogRowStore) -> None:
        rows, rules = entry.rows, self._rules
        keys = rules.keys_of(rows)
        if keys.null_count:
            raise HoodieCorruptedDataException(
                f"a data block of instant {entry.instant_time} in {self._place} has {keys.null_count} rows without a "
                "record key"
            )
        self._unlike_key.update(name for name in self.columns_like_key if not rows.column(name).equals(keys))
        deletes = requested_deletes(rules.spec, rows)
        ordering = None
        if self._ordering_type is not None:
            values = ordering_column(rows, rules.ordering_fields)
            assert values is not None
            ordering = ordering_of_rows(rules.spec, rows, values, deletes)
        first = store.append(rows.select(self._columns))
        parts = None
        if entry.partial_columns is not None:
            parts = np.array([name in entry.partial_columns for name in self._columns], dtype=np.bool_)
        places = first + np.arange(rows.num_rows, dtype=np.int64)
        found.add(keys, ordering, deletes, places, self._positions_of(entry), parts)

    def _add_deletes(self, found: _Collected, entry: LogDeletes) -> None:
        count = len(entry.record_keys)
        ordering = None
        if self._ordering_type is not None:
            in_millis = [field in entry.fields_in_millis for field in self._rules.ordering_fields]
            ordering = ordering_of_deletes(one_array(entry.ordering), self._ordering_type, in_millis)
        places = np.full(count, -1, dtype=np.int64)
        found.add(entry.record_keys, ordering, np.ones(count, dtype=np.bool_), places, self._positions_of(entry), None)

    def _positions_of(self, entry: LogEntries) -> npt.NDArray[np.int64] | None:
        is_of_base = self._base_instant is not None and entry.positions_of == self._base_instant
        return entry.positions if is_of_base else None

    def _codes(self, found: _Collected, keys: pa.ChunkedArray) -> npt.NDArray[np.int64]:
        """A number for each distinct key. If all entries have a position, the positions tell keys apart."""
        positions = found.all_positions()
        if positions is not None:
            self.positions = positions
            codes: npt.NDArray[np.int64] = np.unique(positions, return_inverse=True)[1].astype(np.int64)
            return codes
        encoded = keys.dictionary_encode()
        # All chunks share one dictionary.
        return np.concatenate([numbers_in(chunk.indices, np.int32) for chunk in encoded.chunks]).astype(np.int64)

    def _fold(
        self, merging: PairMerging, everything: _EntryColumns, keys: pa.ChunkedArray, codes: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """Merge the entries of each key pair by pair; returns the number of the first entry of each key."""
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
        firsts = order[starts]
        ends = np.append(starts[1:], len(order))
        store = self._resources.enter_context(LogRowStore(everything.schema, self._config))
        parts: list[_EntryColumns] = []
        begin = 0
        while begin < len(starts):
            end = max(begin + 1, int(np.searchsorted(ends, starts[begin] + _FOLDED_AT_ONCE, side="right")))
            numbers = order[starts[begin] : ends[end - 1]]
            entries = everything.take(numbers).pair_entries(_taken(keys, numbers))
            folded = merging.fold(entries, starts[begin:end] - starts[begin])
            first = store.append(folded.rows)
            places = np.where(folded.has_row, first + np.arange(len(folded)), -1)
            parts.append(_EntryColumns(folded.ordering, folded.is_delete, places, folded.known))
            begin = end
        store.finish()
        back = np.argsort(firsts, kind="stable")
        self._merged_entries = _EntryColumns.concat(parts).with_store(store).take(back)
        self.keys = _taken(keys, firsts[back])
        return firsts[back]

    def _refuse(self, key: str | None) -> NoReturn:
        fields = self._rules.ordering_fields
        raise HoodieException(
            f"{self._place}: the log record of key {short_repr(key)} has a null in the ordering field "
            f"'{', '.join(fields)}' ({ordering_key(fields)}), and there is another record of this key: Hudi's readers "
            "do not agree which of them counts. Write the record again with an ordering value, or delete it by its key"
        )

    # --- without the base file ---------------------------------------------------------------------------------------

    @property
    def has_unordered(self) -> bool:
        """Whether a row is left whose ordering value is null, so that readers do not agree whether it wins."""
        return bool(len(without_order(self._merged_entries.ordering, self._merged_entries.is_delete)))

    def row_entries(self) -> pa.RecordBatch:
        """The entries that are rows of data blocks, in the order of the log files; also those that ask for a delete.

        Only if `are_whole`.
        """
        return self._merged_entries.rows(self._merged_entries.places >= 0)

    def delete_entries(self) -> tuple[pa.Array, pa.Array | None]:
        """The entries that are records of delete blocks: their keys, and their ordering values, null for hard deletes.

        Ordering values are None if the rules compare none. Only if `are_whole`.
        """
        chosen = indices_of(np.flatnonzero(self._merged_entries.places < 0))
        ordering = self._merged_entries.ordering
        return self.keys.take(chosen), None if ordering is None else ordering.take(chosen)

    # --- meeting the base file ---------------------------------------------------------------------------------------

    def merge(self, stored: pa.RecordBatch, numbers: npt.NDArray[np.int64]) -> MergedRows:
        """Merge stored rows with the entries of their keys.

        Args:
            stored: Rows of the base file, with the columns of `stored_columns`.
            numbers: The number of the entry of each row.

        Raises:
            HoodieException: The ordering values of a row and its entry cannot be compared.
        """
        log_entries = self._merged_entries.take(numbers)
        rules = self._rules.by_mode
        if rules is not None:
            unordered = without_order(log_entries.ordering, log_entries.is_delete)
            if len(unordered):
                self._refuse(self.keys[int(numbers[unordered[0]])].as_py())
        if self._merging is not None:
            entries = log_entries.pair_entries(self.keys.take(indices_of(numbers)))
            outcome = self._merging.merge_with_stored(stored, entries)
            assert outcome.rows is not None
            return MergedRows(
                outcome.codes, outcome.rows.take(indices_of(np.flatnonzero(outcome.codes == TAKE_INCOMING)))
            )
        assert rules is not None
        ordering = ordering_column(stored, self._rules.ordering_fields)
        wins = entries_that_win(rules, ordering, log_entries.ordering, log_entries.is_delete)
        codes = np.where(wins, np.where(log_entries.is_delete, DELETE_STORED, TAKE_INCOMING), KEEP_STORED).astype(
            np.uint8
        )
        return MergedRows(codes, log_entries.rows(codes == TAKE_INCOMING))

    def new_rows(self, is_met: npt.NDArray[np.bool_], batch_rows: int) -> Iterator[pa.RecordBatch]:
        """The rows of keys that the base file lacks, in the order of the log files.

        Args:
            is_met: True for each entry whose key is in the base file.
            batch_rows: The most rows of a batch.
        """
        numbers = np.flatnonzero(~is_met & ~self._merged_entries.is_delete)
        for start in range(0, len(numbers), batch_rows):
            log_entries = self._merged_entries.take(numbers[start : start + batch_rows])
            yield log_entries.rows(np.ones(len(log_entries.is_delete), dtype=np.bool_))


@attrs.frozen(eq=False)
class _EntryColumns:
    """The columns of entries: arrays with one item for each entry.

    Attributes:
        ordering: See `PairEntries`.
        is_delete: See `PairEntries`.
        places: The number of the row in the store; -1 for a record of a delete block.
        known: See `PairEntries`.
        store: The store with the rows.
    """

    ordering: pa.Array | None
    is_delete: npt.NDArray[np.bool_]
    places: npt.NDArray[np.int64]
    known: npt.NDArray[np.bool_] | None = None
    store: LogRowStore | None = None

    @classmethod
    def nothing(cls, kind: pa.DataType | None) -> _EntryColumns:
        """No entries."""
        ordering = None if kind is None else pa.nulls(0, kind)
        return cls(ordering, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.int64))

    @classmethod
    def concat(cls, parts: Sequence[_EntryColumns]) -> _EntryColumns:
        """The entries of several parts."""
        ordering = [part.ordering for part in parts if part.ordering is not None]
        known = [part.known for part in parts if part.known is not None]
        return cls(
            pa.concat_arrays(ordering) if ordering else None,
            np.concatenate([part.is_delete for part in parts]),
            np.concatenate([part.places for part in parts]),
            np.concatenate(known) if known else None,
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        assert self.store is not None
        return self.store.schema

    def with_store(self, store: LogRowStore) -> _EntryColumns:
        """The same entries with a store of rows."""
        return attrs.evolve(self, store=store)

    def take(self, numbers: npt.NDArray[np.int64], store: LogRowStore | None = None) -> _EntryColumns:
        """The entries with the given numbers."""
        return _EntryColumns(
            self.ordering.take(indices_of(numbers)) if self.ordering is not None else None,
            self.is_delete[numbers],
            self.places[numbers],
            self.known[numbers] if self.known is not None else None,
            store or self.store,
        )

    def rows(self, chosen: npt.NDArray[np.bool_]) -> pa.RecordBatch:
        """The rows of the chosen entries."""
        assert self.store is not None
        return self.store.take(self.places[chosen])

    def pair_entries(self, keys: pa.Array) -> PairEntries:
        """The entries with their rows; nulls for records of delete blocks."""
        assert self.store is not None
        has_row = self.places >= 0
        rows = self.store.take(self.places[has_row])
        if not has_row.all():
            indices = np.cumsum(has_row) - 1
            rows = rows.take(pa.array(indices, mask=~has_row))
        return PairEntries(rows, keys, self.ordering, self.is_delete, has_row, self.known)


class _Collected:
    """The entries of a scan so far."""

    def __init__(self) -> None:
        self.keys: list[pa.Array] = []
        self._ordering: list[pa.Array] = []
        self._deletes: list[npt.NDArray[np.bool_]] = []
        self._places: list[npt.NDArray[np.int64]] = []
        self._positions: list[npt.NDArray[np.int64] | None] = []
        self._parts: list[npt.NDArray[np.bool_] | None] = []

    @property
    def has_parts(self) -> bool:
        """Whether some block is of a partial update."""
        return any(part is not None for part in self._parts)

    def add(
        self,
        keys: pa.Array,
        ordering: pa.Array | None,
        deletes: npt.NDArray[np.bool_],
        places: npt.NDArray[np.int64],
        positions: npt.NDArray[np.int64] | None,
        parts: npt.NDArray[np.bool_] | None,
    ) -> None:
        """Add the entries of a block."""
        self.keys.append(keys)
        if ordering is not None:
            self._ordering.append(ordering)
        self._deletes.append(deletes)
        self._places.append(places)
        self._positions.append(positions)
        self._parts.append(parts)

    def all_positions(self) -> npt.NDArray[np.int64] | None:
        """The position of each entry; None if an entry has none."""
        known = [positions for positions in self._positions if positions is not None]
        return np.concatenate(known) if len(known) == len(self._positions) else None

    def joined(self, kind: pa.DataType | None) -> _EntryColumns:
        """All entries as columns."""
        known = None
        if self.has_parts:
            width = next(len(part) for part in self._parts if part is not None)
            whole = np.ones(width, dtype=np.bool_)
            parts = [whole if part is None else part for part in self._parts]
            known = np.repeat(np.stack(parts), [len(deletes) for deletes in self._deletes], axis=0)
        ordering = pa.chunked_array(self._ordering, kind) if kind is not None else None
        return _EntryColumns(
            one_array(ordering) if ordering is not None else None,
            np.concatenate(self._deletes),
            np.concatenate(self._places),
            known,
        )


def _taken(keys: pa.ChunkedArray, numbers: npt.NDArray[np.int64]) -> pa.Array:
    return one_array(keys.take(indices_of(numbers)))
