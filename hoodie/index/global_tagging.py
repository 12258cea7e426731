"""Decide about records whose key lives in another partition, for all global indexes.

Hudi: org.apache.hudi.index.HoodieIndexUtils.tagGlobalLocationBackToRecords and mergeForPartitionUpdatesIfNeeded.

    table             incoming          update.partition.path   written
    k1 in p1, ts 5    k1 in p2, ts 9    true                    delete of k1 in p1, insert of k1 in p2
    k1 in p1, ts 5    k1 in p2, ts 9    false                   update of k1 in p1
    k1 in p1, ts 5    k1 in p2, ts 3    either                  p1 meets the late row, and the table's rules decide
    k1 in p1          delete of k1      either                  delete of k1 in p1

Inserts may have stored a key in several partitions. If records move, these copies count as one record, the newest of
them (by the ordering value if the table's rules compare it, then by the instant that wrote the file). The incoming row
meets that one, and the upsert leaves one record of the key. If records do not move, every copy meets the incoming row
in its place.

    k1 in p1, ts 5    k1 in p3, ts 9    true                    deletes of k1 in p1 and p2, insert of k1 in p3
      and p2, ts 7    k1 in p3, ts 6    true                    delete of k1 in p1; p2 meets the late row
                      k1 in p1, ts 6    true                    the same: the record that was in p1 is an older one
                      k1 in p1, ts 9    true                    update of k1 in p1, delete of k1 in p2
                      k1 in p3, ts 6    false                   update of k1 in p1; p2 meets the late row
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.index.index import HashedKeys, append_numbered_locations, match_keys
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.record_merger import TAKE_INCOMING

CURRENT_PARTITION_PATH = "__hoodie_current_partition_path"
"""While tagging: the partition that a key lives in."""
STORED_PREFIX = "__hoodie_stored_"
"""While tagging: the prefix of the stored columns that the merge needs; they are null where nothing moves."""


@attrs.frozen
class PartitionMoves:
    """Decides for rows and the locations of their keys; a pure function that crosses to tasks.

    Attributes:
        update_partition_path: Whether records move to their new partition.
        merge_spec: Decides between a stored record and an incoming one that would move.
        stored_columns: The columns of stored records that it needs for that.
    """

    update_partition_path: bool
    merge_spec: MergeSpec
    stored_columns: tuple[str, ...] = ()

    @classmethod
    def of(cls, update_partition_path: bool, merge_spec: MergeSpec, schema: pa.Schema) -> PartitionMoves:
        """The rules of a table.

        Args:
            update_partition_path: Whether records move to their new partition.
            merge_spec: The merge spec of the write.
            schema: The table's columns.
        """
        return cls(
            update_partition_path,
            merge_spec,
            tuple(merge_spec.stored_columns(schema)) if update_partition_path and len(schema) else (),
        )

    @property
    def needs_rows(self) -> bool:
        """Whether the decision needs whole records, and not only their keys and ordering values."""
        spec = self.merge_spec
        whole = bool(set(self.stored_columns) - set(spec.ordering_fields)) or spec.combines_rows
        return self.update_partition_path and (whole or spec.delete_field is not None)

    def decide(self, batch: pa.RecordBatch, rows: np.ndarray, locations: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are written: for each incoming row those of all its locations.

        Args:
            batch: The incoming rows.
            rows: For each entry of ``locations`` the row that it belongs to (int64); every row occurs.
            locations: The three CURRENT columns, `CURRENT_PARTITION_PATH` and the stored columns, with their prefix;
                all null for a row whose key is not in the table.

        Returns:
            The batch's columns, with partition path and operation as they are to be written, and the CURRENT columns.
        """
        found = locations.column(CURRENT_FILE_ID).is_valid().to_numpy(zero_copy_only=False)
        current = locations.column(CURRENT_PARTITION_PATH)
        own = batch.column(PARTITION_PATH).take(pa.array(rows))
        at_home = found & pc.fill_null(pc.equal(own, current), False).to_numpy(zero_copy_only=False)
        operations = batch.column(OPERATION).to_numpy()[rows]
        moving = found & ~at_home & (operations == RecordOperation.UPSERT) & self.update_partition_path
        values = pa.Table.from_batches([batch])
        source = rows.copy()
        deleted = np.zeros(len(rows), dtype=bool)
        arrives = deleted
        if moving.any():
            newest = self._newest(rows, locations, at_home, _any_of_row(rows, moving))
            taken, merged = self._merge(batch, rows, locations, np.flatnonzero(newest & moving))
            wins = _any_of_row(rows, taken)
            # A row that loses against the newest copy goes to its partition, is merged there, and moves no record.
            stays = newest & moving & ~wins
            deleted = (moving | _any_of_row(rows, stays)) & ~stays
            arrives = _first_of_row(rows, wins & ~_any_of_row(rows, at_home))
            if merged is not None:
                source_of_row = np.arange(batch.num_rows)
                source_of_row[rows[taken]] = batch.num_rows + np.arange(len(merged))
                source[wins & (at_home | arrives)] = source_of_row[rows[wins & (at_home | arrives)]]
                values = pa.concat_tables([values, merged]).combine_chunks()
        entries = np.concatenate([np.arange(len(rows)), np.flatnonzero(arrives)])
        is_arrival = np.arange(len(entries)) >= len(rows)
        order = np.argsort(rows[entries], kind="stable")
        entries, is_arrival = entries[order], is_arrival[order]
        # Deletes write no row, so they may carry any row of their key.
        chosen = np.where(is_arrival | at_home[entries], source[entries], rows[entries])
        written = one_batch(values.take(pa.array(chosen)), batch.schema)
        elsewhere = (found & ~at_home)[entries] & ~is_arrival
        paths = pc.if_else(pa.array(elsewhere), current.take(pa.array(entries)), written.column(PARTITION_PATH))
        operations = np.where(deleted[entries] & ~is_arrival, int(RecordOperation.DELETE), operations[entries])
        written = _replaced(written, PARTITION_PATH, paths)
        written = _replaced(written, OPERATION, pa.array(operations.astype(np.int8)))
        places = pa.array(entries, mask=is_arrival)
        for name in (CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION):
            written = written.append_column(locations.schema.field(name), locations.column(name).take(places))
        return written

    def _newest(
        self, rows: np.ndarray, locations: pa.RecordBatch, at_home: np.ndarray, asked: np.ndarray
    ) -> np.ndarray:
        """For each row in question, a flag on one entry: the newest copy of its key."""
        places = np.flatnonzero(asked)
        newest = np.zeros(len(rows), dtype=bool)
        if len(np.unique(rows[places])) == len(places):
            newest[places] = True
            return newest
        entries = pa.array(places)
        stored = pa.RecordBatch.from_arrays(
            [locations.column(STORED_PREFIX + name).take(entries) for name in self.stored_columns],
            names=list(self.stored_columns),
        )
        ordering = self.merge_spec.age_of_stored(stored, len(places))
        instants = pc.rank(locations.column(CURRENT_INSTANT_TIME).take(entries), tiebreaker="min").to_numpy()
        order = np.lexsort((at_home[places], instants, ordering, rows[places]))
        last = np.append(np.diff(rows[places][order]) != 0, True)
        newest[places[order[last]]] = True
        return newest

    def _merge(
        self, batch: pa.RecordBatch, rows: np.ndarray, locations: pa.RecordBatch, places: np.ndarray
    ) -> tuple[np.ndarray, pa.Table | None]:
        """The entries that win over the stored record; and the rows that they write, if these differ from the input."""
        taken = np.zeros(len(rows), dtype=bool)
        if not self.stored_columns:
            taken[places] = True
            return taken, None
        entries = pa.array(places)
        current = locations.column(CURRENT_PARTITION_PATH).take(entries)
        # The partition path is a field like others: where fields are merged, the stored one may stay.
        stored = pa.RecordBatch.from_arrays(
            [*(locations.column(STORED_PREFIX + name).take(entries) for name in self.stored_columns), current],
            names=[*self.stored_columns, PARTITION_PATH],
        )
        outcome = self.merge_spec.merge(stored, batch.take(pa.array(rows[places])))
        wins = outcome.codes == TAKE_INCOMING
        if outcome.rows is not None:
            wins &= pc.not_equal(outcome.rows.column(PARTITION_PATH), current).to_numpy(zero_copy_only=False)
        taken[places[wins]] = True
        if not self.needs_rows or outcome.rows is None:
            return taken, None
        return taken, pa.Table.from_batches([outcome.rows.filter(pa.array(wins))]).select(batch.schema.names)


@attrs.frozen
class GlobalKeyLocations:
    """Locations of keys in the whole table, as one value that tasks share.

    Attributes:
        table: Record key (``key``), file (int32, index into ``files``), position (int64) and, when the moves need it,
            the stored ordering field, with its prefix; a key may occur several times.
        files: The file slices.
        moves: Decides what becomes of keys that live in another partition.
    """

    table: pa.Table
    files: Sequence[FileSlice]
    moves: PartitionMoves
    _hashed: dict[str, HashedKeys] = attrs.field(factory=dict, init=False, eq=False, repr=False)

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `hoodie.index.index.Locations`; partition paths and operations are the ones to be written."""
        rows, entries = match_keys(batch.column(RECORD_KEY), self.table["key"].combine_chunks(), self._hashed)
        found = entries >= 0
        files = np.where(found, _taken(self.table["file"], entries), -1).astype(np.int32)
        positions = np.where(found, _taken(self.table["position"], entries), -1)
        paths = pa.array([file_slice.partition_path for file_slice in self.files], pa.string())
        current = paths.take(pa.array(files, mask=~found))
        locations = pa.RecordBatch.from_arrays([current], names=[CURRENT_PARTITION_PATH])
        for name in self.table.column_names:
            if name.startswith(STORED_PREFIX):
                stored = self.table[name].combine_chunks().take(pa.array(entries, mask=~found))
                locations = locations.append_column(name, stored)
        places = [file_slice.location for file_slice in self.files]
        located = append_numbered_locations(locations, places, files, positions)
        return self.moves.decide(batch, rows, located)


@attrs.frozen
class DecideGroups:
    """Decides about joined rows; all locations of an incoming row must be in one batch.

    Attributes:
        moves: The rules.
        columns: The incoming rows' columns.
    """

    moves: PartitionMoves
    columns: tuple[str, ...]

    def __call__(self, joined: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are written, given the rows of a join: one for each location of an incoming row."""
        _, first, rows = np.unique(joined.column(ROW_NUMBER).to_numpy(), return_index=True, return_inverse=True)
        batch = joined.select(self.columns).take(pa.array(first))
        names = [name for name in joined.schema.names if name not in self.columns]
        return self.moves.decide(batch, rows.astype(np.int64), joined.select(names))


def _taken(column: pa.ChunkedArray, entries: np.ndarray) -> np.ndarray:
    """The values at the entries; any value for the entry -1."""
    values = column.to_numpy()
    return values[np.maximum(entries, 0)] if len(values) else np.zeros(len(entries), dtype=np.int64)


def _any_of_row(rows: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """True for each entry whose row has an entry with the flag."""
    marked = np.zeros(int(rows.max()) + 1 if len(rows) else 0, dtype=bool)
    marked[rows[flags]] = True
    any_of_row: np.ndarray = marked[rows]
    return any_of_row


def _first_of_row(rows: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """The flags, kept only for the first flagged entry of each row."""
    places = np.flatnonzero(flags)
    _, first = np.unique(rows[places], return_index=True)
    kept = np.zeros(len(rows), dtype=bool)
    kept[places[first]] = True
    return kept


def one_batch(table: pa.Table, schema: pa.Schema) -> pa.RecordBatch:
    """The rows of a table as one batch; without rows an empty batch of the schema."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=schema)


def _replaced(batch: pa.RecordBatch, name: str, column: pa.Array) -> pa.RecordBatch:
    index = batch.schema.get_field_index(name)
    return batch.set_column(index, batch.schema.field(index).with_type(column.type), column)
