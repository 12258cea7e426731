"""The places of many keys, found by tasks that exchange hashes of keys.

    input partition    keys          -> hashes, by range of the hash
    file slice         stored keys   -> hashes, by range of the hash
    range              which incoming hashes are stored, and in which slice  -> a function of hashes
    driver             the functions of all ranges                           -> `HashedPlaces`

Neither keys nor rows are moved, and the driver holds about one byte for each key, in a `StaticFunction`. Where tasks
share its memory, it may hold the hashes too, in a `SortedFunction`, which takes less time, and the position of each
stored key in its base file. Hashes decide places, not which keys are equal: a task that writes a file group compares
the keys of its rows with those at their positions, or looks them up, so that two keys of one hash are two rows still.

Hudi has no counterpart: it joins the keys of all rows with all stored keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum
from itertools import chain

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.key_blocks import UInt64Array, quick_hashes
from hoodie.common.data.grouped_rows import rows_by_value
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen
from hoodie.common.util.arrow_buffers import pieces_of
from hoodie.common.util.static_function import SortedFunction, StaticFunction
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.fingerprint import of_hashes
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.index import KeysInTasks, append_numbered_locations
from hoodie.index.merged_keys import MergedKeys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

RANGE_BITS = 7
NUM_RANGES = 1 << RANGE_BITS
"""The hashes of a range are held at once: 31,000 of 4 million, 312,000 of 40 million."""

BYTES_FOR_NUMBER = 1.4
"""The size of the functions for each key and byte of its number."""
MOST_KEPT_BYTES = 128 << 20
"""The most bytes of hashes and positions that the driver keeps where tasks share its memory."""
SAMPLED_KEYS = 100
"""The keys of a batch that the driver gets to see."""

_HASH_BYTES = 8
_POSITION = np.dtype(np.int32)
_UNKNOWN = -1
"""The position of a hash that is not stored, or at several positions, or in a slice whose log files are read."""
_SHIFT = np.uint64(64 - RANGE_BITS)
_ODD, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(32)
_INSERT, _NOWHERE, _FIRST_SLICE = 0, 1, 2
"""The numbers of a hash: its row is new, is a delete of nothing, or belongs to the slice of the number less 2."""

KIND, RANGE, NUMBER, COUNT, FINGERPRINT, DATA = "kind", "range", "number", "count", "fingerprint", "data"
POSITIONS = "positions"
LOW, HIGH = "low", "high"


class Kind(IntEnum):
    """The contents of a row of `HASHES`."""

    UPSERTS = 0
    """Hashes of incoming rows of one partition path."""
    DELETES = 1
    """The same of rows that ask for a delete."""
    STORED = 2
    """Hashes of the keys of a slice, which ``number`` names, and their positions in its base file if these are kept."""
    KEYS = 3
    """A partition path, the number of its rows in some batches, and their smallest and largest key."""
    WITHOUT_KEY = 4
    """The number of rows without a key."""
    FUNCTION = 5
    """The function of a range; ``number`` is its seed, or null: then the data has its sorted hashes first."""
    UPDATED = 6
    """The number of distinct keys that a slice has."""
    INSERTED = 7
    """The number of distinct new keys of a partition path."""
    ROWS = 8
    """The rows that are to come to the tasks that write: their number and fingerprint."""
    UNMATCHED = 9
    """The rows that delete nothing: their number and fingerprint."""
    REPEATED = 10
    """The number of rows whose hash another row has."""
    UNCLEAR = 11
    """The number of hashes whose rows no single place takes: they are stored in several slices, or move."""
    READ = 12
    """The rows of some batches: their number and fingerprint."""
    SAMPLE = 13
    """A key, in ``low``."""


HASHES = pa.schema(
    [
        (KIND, pa.int8()),
        (RANGE, pa.int32()),
        (NUMBER, pa.int32()),
        (PARTITION_PATH, pa.string()),
        (COUNT, pa.int64()),
        (LOW, pa.string()),
        (HIGH, pa.string()),
        (FINGERPRINT, pa.int64()),
        (DATA, pa.binary()),
        (POSITIONS, pa.binary()),
    ]
)


def hashes_of_rows(keys: pa.Array, partition_paths: pa.Array, is_global: bool) -> UInt64Array:
    """A 64-bit hash of each key with its partition path; of the key alone if it is unique in the whole table.

    Args:
        keys: Record keys (string), without nulls.
        partition_paths: Partition paths (string), without nulls.
        is_global: Whether the key alone counts.
    """
    hashes = _mixed(quick_hashes(keys))
    if not is_global:
        paths = partition_paths.dictionary_encode()
        hashes ^= _hashes_of_paths(paths.dictionary)[paths.indices.to_numpy()]
    return hashes


def _hashes_in_partition(keys: pa.Array | pa.ChunkedArray, partition_path: str, is_global: bool) -> UInt64Array:
    """The same hashes of keys of one partition."""
    hashes = _mixed(quick_hashes(keys))
    if not is_global:
        hashes ^= _hashes_of_paths(pa.repeat(partition_path, 1))[0]
    return hashes


def _hashes_of_paths(paths: pa.Array) -> UInt64Array:
    # Mixed a second time: hashes of short texts are alike where the texts are.
    return _mixed(_mixed(quick_hashes(paths)))


def _mixed(hashes: UInt64Array) -> UInt64Array:
    hashes = hashes * _ODD
    hashes ^= hashes >> _HALF
    return hashes * _ODD


@attrs.frozen
class HashIncoming:
    """Task: the hashes of the rows of an input partition, and what the driver must know of them.

    Attributes:
        is_global: Whether the record key alone is the key; else it is with the partition path.
    """

    is_global: bool

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `HASHES`.

        Args:
            task: The task.
            batches: Record key, partition path and operation; the path is null where a row has no key.
        """
        numbers: dict[str, int] = {}
        hashes: list[UInt64Array] = []
        groups: list[npt.NDArray[np.int64]] = []
        notes: list[dict[str, object]] = []
        without_key = 0
        for batch in batches:
            usable = batch.filter(pc.is_valid(batch.column(PARTITION_PATH)))
            without_key += batch.num_rows - usable.num_rows
            if not usable.num_rows:
                continue
            keys, paths = usable.column(RECORD_KEY), usable.column(PARTITION_PATH)
            hashes.append(hashes_of_rows(keys, paths, self.is_global))
            codes = np.empty(usable.num_rows, dtype=np.int64)
            for path, rows in rows_by_value(paths):
                codes[rows] = numbers.setdefault(path, len(numbers))
                ends = pc.min_max(keys.take(pa.array(rows)) if len(rows) < len(keys) else keys).as_py()
                notes.append(
                    {KIND: Kind.KEYS, PARTITION_PATH: path, COUNT: len(rows), LOW: ends["min"], HIGH: ends["max"]}
                )
            notes.append(_seen(Kind.READ, rows_seen_by_hash(usable) if self.is_global else _rows_seen(hashes[-1])))
            # At random, but the same rows if the batch is read again.
            chosen = np.random.default_rng(len(keys)).choice(len(keys), min(SAMPLED_KEYS, len(keys)), replace=False)
            sample = keys.take(pa.array(chosen))
            notes += [{KIND: Kind.SAMPLE, LOW: key} for key in sample.to_pylist()]
            is_delete = usable.column(OPERATION).to_numpy() != RecordOperation.UPSERT
            groups.append(2 * codes + is_delete)
        if without_key:
            notes.append({KIND: Kind.WITHOUT_KEY, COUNT: without_key})
        if notes:
            yield _rows_of(notes)
        if hashes:
            yield _cells(np.concatenate(hashes), np.concatenate(groups), list(numbers))


@attrs.frozen
class HashStored:
    """Task: the hashes of the keys of a slice.

    Attributes:
        storage: The storage of the files.
        is_global: See `HashIncoming`.
        merged: Reads the keys of slices whose log files may have some; None where there are none.
        keeps_positions: Whether the driver is to know the positions of the keys.
    """

    storage: HoodieStorage
    is_global: bool
    merged: MergedKeys | None = None
    keeps_positions: bool = False

    def __call__(self, task: TaskIdentity, item: tuple[int, FileSlice, bool]) -> Iterator[pa.RecordBatch]:
        """Rows of `HASHES`.

        Args:
            task: The task.
            item: The number of the slice, the slice, and whether its log files are read.
        """
        number, file_slice, reads_logs = item
        if reads_logs:
            assert self.merged is not None
            keys = self.merged.read(file_slice)[RECORD_KEY]
        else:
            base_file = file_slice.key_file
            with HoodieParquetReader(self.storage, base_file.path, size_bytes=base_file.size_bytes) as reader:
                keys = reader.read_record_keys()
        hashes = _hashes_in_partition(keys, file_slice.partition_path, self.is_global)
        if len(hashes):
            keeps_positions = self.keeps_positions and not reads_logs
            yield _cells(hashes, None, [file_slice.partition_path], number, keeps_positions)


def _cells(
    hashes: UInt64Array,
    groups: npt.NDArray[np.int64] | None,
    paths: Sequence[str],
    number: int | None = None,
    keeps_positions: bool = False,
) -> pa.RecordBatch:
    """One row of `HASHES` for each range and group.

    Args:
        hashes: The hashes.
        groups: For incoming rows, twice the number of the partition path, and 1 more for a delete; None for a slice.
        paths: The partition paths.
        number: The number of the slice; None for incoming rows.
        keeps_positions: Whether the place of each hash among the hashes is its position.
    """
    width = 2 * len(paths)
    cells = (hashes >> _SHIFT).astype(np.int64) * width
    if groups is not None:
        cells += groups
    order = np.argsort(cells.astype(np.int16) if width * NUM_RANGES < 1 << 15 else cells, kind="stable")
    cells = cells[order]
    starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
    ends = np.append(starts[1:], len(cells))
    found = cells[starts]
    group = found % width
    kinds = np.full(len(found), Kind.STORED) if groups is None else group % 2
    bounds = np.append(starts, len(cells))
    numbers = pa.nulls(len(found), pa.int32()) if number is None else pa.array(np.full(len(found), number, np.int32))
    columns = {
        KIND: pa.array(kinds.astype(np.int8)),
        RANGE: pa.array((found // width).astype(np.int32)),
        NUMBER: numbers,
        PARTITION_PATH: pa.array(paths, pa.string()).take(pa.array(group // 2)),
        COUNT: pa.array(ends - starts),
        DATA: pieces_of(hashes[order], (bounds * _HASH_BYTES).astype(np.int32), pa.binary()),
    }
    if keeps_positions:
        positions = order.astype(_POSITION)
        columns[POSITIONS] = pieces_of(positions, (bounds * _POSITION.itemsize).astype(np.int32), pa.binary())
    return _batch(columns, len(found))


def _seen(kind: Kind, rows: RowsSeen) -> dict[str, object]:
    """A row of `HASHES` with the number and fingerprint of rows."""
    number = rows.fingerprint
    return {KIND: kind, COUNT: rows.count, FINGERPRINT: number - (1 << 64) if number >> 63 else number}


def _sum_of_seen(rows: pa.Table, kind: Kind) -> RowsSeen:
    """The sum of the rows of one kind that `_seen` makes."""
    rows = rows.filter(pc.equal(rows[KIND], int(kind)))
    counts, numbers = rows[COUNT].to_pylist(), rows[FINGERPRINT].to_pylist()
    return sum((RowsSeen(count, number) for count, number in zip(counts, numbers, strict=True)), RowsSeen())


def _rows_of(notes: Sequence[Mapping[str, object]]) -> pa.RecordBatch:
    """Rows of `HASHES` with the given values; they come to the first range."""
    rows = [{RANGE: 0, **note} for note in notes]
    return pa.RecordBatch.from_pylist(rows, HASHES)


def _batch(columns: Mapping[str, pa.Array], count: int) -> pa.RecordBatch:
    arrays = [columns.get(field.name, pa.nulls(count, field.type)) for field in HASHES]
    return pa.RecordBatch.from_arrays(arrays, schema=HASHES)


@attrs.frozen
class MatchHashes:
    """Task: find the incoming hashes of ranges among the stored ones.

    Attributes:
        paths: The partition path of each slice.
        is_global: See `HashIncoming`.
        keeps_hashes: See `locate`.
    """

    paths: tuple[str, ...]
    is_global: bool
    keeps_hashes: bool = False

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Rows of `HASHES`.

        Args:
            task: The task.
            batches: Rows of `HASHES`, sorted by range.
        """
        held: list[pa.RecordBatch] = []
        for batch in chain.from_iterable(map(_by_range, batches)):
            if held and held[0].column(RANGE)[0] != batch.column(RANGE)[0]:
                yield from self._match(held)
                held = []
            held.append(batch)
        if held:
            yield from self._match(held)

    def _match(self, batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        cells = pa.Table.from_batches(batches)
        cells = cells.filter(pc.less_equal(cells[KIND], int(Kind.STORED)))
        kinds, counts = cells[KIND].to_numpy(), cells[COUNT].to_numpy()
        is_stored = kinds == Kind.STORED
        if is_stored.all():
            return
        stored, incoming = cells.filter(pa.array(is_stored)), cells.filter(pa.array(~is_stored))
        paths = incoming[PARTITION_PATH].combine_chunks().dictionary_encode()
        hashes = _joined(incoming)
        order = np.argsort(hashes)
        hashes = hashes[order]
        starts = np.flatnonzero(np.append(True, hashes[1:] != hashes[:-1]))
        distinct, copies = hashes[starts], np.diff(np.append(starts, len(hashes)))
        deletes = np.repeat(kinds[~is_stored] == Kind.DELETES, counts[~is_stored])[order]
        path_codes = np.repeat(paths.indices.to_numpy(), counts[~is_stored])[order]
        slices, positions, several = self._slices(distinct, stored)
        # Within partitions, only keys of two partitions with one hash move.
        several |= self._moving(slices, path_codes, starts, paths.dictionary)
        values = slices + _FIRST_SLICE
        only_deletes = np.logical_and.reduceat(deletes, starts)
        values[(slices < 0) & only_deletes] = _NOWHERE
        values[(slices < 0) & ~only_deletes] = _INSERT
        comes = np.repeat(values != _NOWHERE, copies)
        if self.is_global:
            # A row that comes with another partition path is another row.
            hashes ^= _hashes_of_paths(paths.dictionary)[path_codes]
        numbers = values.astype(_kind_of_numbers(len(self.paths)))
        function: dict[str, object]
        if self.keeps_hashes:
            function = {DATA: distinct.tobytes() + numbers.tobytes(), POSITIONS: positions.tobytes()}
        else:
            static = StaticFunction.of(distinct, numbers)
            function = {NUMBER: static.seed, DATA: static.numbers.tobytes()}
        range_number = batches[0].column(RANGE)[0].as_py()
        notes: list[dict[str, object]] = [
            {KIND: Kind.FUNCTION, RANGE: range_number, COUNT: len(distinct), **function},
            _seen(Kind.ROWS, _rows_seen(hashes[comes])),
            _seen(Kind.UNMATCHED, _rows_seen(hashes[~comes])),
            {KIND: Kind.REPEATED, COUNT: len(hashes) - len(distinct)},
            {KIND: Kind.UNCLEAR, COUNT: int(several.sum())},
        ]
        for slice_number, count in enumerate(np.bincount(slices[slices >= 0], minlength=0).tolist()):
            if count:
                notes.append({KIND: Kind.UPDATED, NUMBER: slice_number, COUNT: count})
        new = np.bincount(path_codes[starts][values == _INSERT], minlength=len(paths.dictionary)).tolist()
        for path, count in zip(paths.dictionary.to_pylist(), new, strict=True):
            if count:
                notes.append({KIND: Kind.INSERTED, PARTITION_PATH: path, COUNT: count})
        yield _rows_of(notes)

    @staticmethod
    def _slices(
        distinct: UInt64Array, stored: pa.Table
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
        """The slice of each hash, -1 where it is in none; its position there; and whether it is in several slices."""
        slices = np.full(len(distinct), -1, dtype=np.int64)
        positions = np.full(len(distinct), _UNKNOWN, dtype=_POSITION)
        several = np.zeros(len(distinct), dtype=np.bool_)
        if not stored.num_rows:
            return slices, positions, several
        hashes = _joined(stored)
        numbers = np.repeat(stored[NUMBER].to_numpy(), stored[COUNT].to_numpy())
        places = np.minimum(np.searchsorted(distinct, hashes), len(distinct) - 1)
        is_wanted = distinct[places] == hashes
        places, numbers = places[is_wanted], numbers[is_wanted]
        slices[places] = numbers
        several[places[slices[places] != numbers]] = True
        if stored[POSITIONS].null_count < stored.num_rows:
            stored_at = _joined_positions(stored)[is_wanted]
            positions[places] = stored_at
            positions[places[positions[places] != stored_at]] = _UNKNOWN
        return slices, positions, several

    def _moving(
        self,
        slices: npt.NDArray[np.int64],
        path_codes: npt.NDArray[np.int64],
        starts: npt.NDArray[np.int64],
        paths: pa.Array,
    ) -> npt.NDArray[np.bool_]:
        """Whether rows of a hash have several partition paths, or another one than where it is stored."""
        first = path_codes[starts]
        moves: npt.NDArray[np.bool_] = np.minimum.reduceat(path_codes, starts) != np.maximum.reduceat(
            path_codes, starts
        )
        found = slices >= 0
        code_of = {path: code for code, path in enumerate(paths.to_pylist())}
        homes = np.array([code_of.get(path, -1) for path in self.paths], dtype=np.int64)
        moves[found] |= homes[slices[found]] != first[found]
        return moves


def _by_range(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The runs of rows of one range."""
    ranges = batch.column(RANGE).to_numpy()
    ends = [*(np.flatnonzero(np.diff(ranges)) + 1).tolist(), len(ranges)]
    for start, end in zip([0, *ends], ends, strict=False):
        if end > start:
            yield batch.slice(start, end - start)


def _joined(cells: pa.Table) -> UInt64Array:
    """The hashes of all rows, one after the other."""
    return np.concatenate([np.frombuffer(cell.as_buffer(), dtype=np.uint64) for cell in cells[DATA]])


def _joined_positions(cells: pa.Table) -> npt.NDArray[np.int32]:
    """The positions of the hashes of all rows, one after the other."""
    parts = [
        np.frombuffer(cell.as_buffer(), dtype=_POSITION) if cell.is_valid else np.full(count, _UNKNOWN, dtype=_POSITION)
        for cell, count in zip(cells[POSITIONS], cells[COUNT].to_pylist(), strict=True)
    ]
    return np.concatenate(parts)


def _kind_of_numbers(num_slices: int) -> np.dtype:
    return np.min_scalar_type(num_slices + _FIRST_SLICE)


def _rows_seen(hashes: UInt64Array) -> RowsSeen:
    return RowsSeen(len(hashes), int(of_hashes(hashes).sum(dtype=np.uint64)))


@attrs.frozen(eq=False)
class HashedPlaces:
    """The place of each row of an input; crosses to tasks.

    Attributes:
        is_global: See `HashIncoming`.
        files: The location of each slice.
        numbers: The numbers of the functions of all ranges, one after the other.
        seeds: The seed of each range.
        starts: The start of the numbers of each range; the last entry is their end.
        known_hashes: The hash of each number, if they are kept; then no seed counts.
        known_positions: The position of each of these hashes in its file, -1 if it is not known.
    """

    is_global: bool
    files: tuple[HoodieRecordLocation, ...]
    numbers: np.ndarray
    seeds: tuple[int, ...]
    starts: npt.NDArray[np.int64]
    known_hashes: UInt64Array | None = None
    known_positions: npt.NDArray[np.int32] | None = None

    def hashes(self, batch: pa.RecordBatch) -> UInt64Array:
        """The hash of each row.

        Args:
            batch: Rows with record key and partition path, without nulls.
        """
        return hashes_of_rows(batch.column(RECORD_KEY), batch.column(PARTITION_PATH), self.is_global)

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """See `Locations`; positions are not known. Rows that were not looked up get an arbitrary place, or none.

        Args:
            batch: Rows with record key and partition path, without nulls.
        """
        slices = self._codes(self.hashes(batch))[0] - _FIRST_SLICE
        slices[slices >= len(self.files)] = -1
        return append_numbered_locations(batch, self.files, slices, np.full(batch.num_rows, -1, dtype=np.int64))

    def placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Key, partition path and current file id of each row that goes somewhere, and its number in the batch.

        Rows that were not looked up get an arbitrary place. If hashes are kept, the row position comes before the
        number: null for a new key, -1 if it is not known.

        Args:
            batch: Rows with record key and partition path.
        """
        rows = np.flatnonzero(batch.column(PARTITION_PATH).is_valid().to_numpy(zero_copy_only=False))
        usable = batch.select([RECORD_KEY, PARTITION_PATH])
        if len(rows) < batch.num_rows:
            usable = usable.take(pa.array(rows))
        codes, positions = self._codes(self.hashes(usable))
        goes = (codes != _NOWHERE) & (codes < len(self.files) + _FIRST_SLICE)
        if not goes.all():
            kept = np.flatnonzero(goes)
            rows, codes, positions, usable = rows[kept], codes[kept], positions[kept], usable.take(pa.array(kept))
        slices = pa.array((codes - _FIRST_SLICE).astype(np.int32), mask=codes < _FIRST_SLICE)
        ids = pa.DictionaryArray.from_arrays(slices, pa.array([file.file_id for file in self.files], pa.string()))
        placed = usable.append_column(pa.field(CURRENT_FILE_ID, ids.type), ids)
        if self.known_positions is not None:
            column = pa.array(positions.astype(np.int64), mask=codes < _FIRST_SLICE)
            placed = placed.append_column(reserved_field(CURRENT_ROW_POSITION), column)
        return placed.append_column(ROW_IN_BATCH, pa.array(rows))

    def _codes(self, hashes: UInt64Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """The number of each hash, and its position if it is known."""
        ranges = (hashes >> _SHIFT).astype(np.int8)
        order = np.argsort(ranges, kind="stable")
        bounds = np.searchsorted(ranges[order], np.arange(NUM_RANGES + 1))
        codes = np.full(len(hashes), _NOWHERE, dtype=np.int64)
        positions = np.full(len(hashes), _UNKNOWN, dtype=_POSITION)
        for number, (low, high) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
            start, end = self.starts[number], self.starts[number + 1]
            if high == low or start == end:
                continue
            rows = order[low:high]
            if self.known_hashes is None:
                codes[rows] = StaticFunction(self.numbers[start:end], self.seeds[number])(hashes[rows])
                continue
            entries = start + SortedFunction(self.known_hashes[start:end])(hashes[rows])
            codes[rows] = self.numbers[entries]
            if self.known_positions is not None:
                positions[rows] = self.known_positions[entries]
        return codes, positions


ROW_IN_BATCH = pa.field("__hoodie_row_in_batch", pa.int64())


@attrs.frozen(eq=False)
class LocatedKeys:
    """The outcome of a look-up of many keys.

    Attributes:
        places: The place of each row; None if no single place takes all rows of some key, so that the rows themselves
            must be looked up.
        updates: For each slice, the number of distinct keys that it has.
        inserts: Partition path to the number of distinct new keys.
        unmatched_deletes: Rows that delete nothing.
        repeated: Rows whose hash another row has: at least those whose key another row has.
        seen: The rows that go somewhere.
        looked_up: All rows that were looked up.
    """

    places: HashedPlaces | None
    updates: npt.NDArray[np.int64]
    inserts: Mapping[str, int]
    unmatched_deletes: int
    repeated: int
    seen: RowsSeen
    looked_up: RowsSeen

    def counts(self, slices: Sequence[FileSlice]) -> pa.Table:
        """The distinct keys of each place, as `WorkloadProfile.from_counts` takes them.

        Args:
            slices: The slices in which keys were looked for.
        """
        rows: list[tuple[str, str | None, str | None, int]] = [
            (part.partition_path, part.location.file_id, part.location.instant_time, count)
            for part, count in zip(slices, self.updates.tolist(), strict=True)
            if count
        ]
        rows += [(path, None, None, count) for path, count in self.inserts.items()]
        names = [PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME]
        schema = pa.schema([*((name, pa.string()) for name in names), (COUNT, pa.int64())])
        columns = [[row[place] for row in rows] for place in range(len(schema))]
        return pa.table(columns, schema=schema)


def notes_of(incoming: HoodieData) -> pa.Table:
    """The rows that are no hashes, without data. An action.

    Args:
        incoming: The rows of `HashIncoming`, persisted.
    """
    narrow = incoming.select([KIND, PARTITION_PATH, COUNT, LOW, HIGH, FINGERPRINT])
    found = narrow.map_batches(_only_notes, narrow.schema).collect()
    assert found is not None
    return found


def _only_notes(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pc.greater(batch.column(KIND), int(Kind.STORED)))


def locate(
    incoming: HoodieData,
    slices: Sequence[tuple[FileSlice, bool]],
    stored: HashStored,
    context: HoodieEngineContext,
    keeps_hashes: bool = False,
) -> LocatedKeys:
    """Find which keys are stored, and in which slice.

    Args:
        incoming: The rows of `HashIncoming`.
        slices: The slices that may have the keys, and whether log files of theirs are read.
        stored: Reads the keys of a slice.
        context: The engine.
        keeps_hashes: Whether the driver holds hashes, which takes more memory and less time.
    """
    items = [(number, part, reads_logs) for number, (part, reads_logs) in enumerate(slices)]
    cells = incoming.union(context.generate(items, stored, HASHES)) if items else incoming
    tasks = min(NUM_RANGES, 4 * context.default_parallelism)
    routed = cells.map_batches(_AddTask(tasks), HASHES.append(_TASK)).route(_TASK.name, tasks).sort_within([RANGE])
    match = MatchHashes(tuple(part.partition_path for part, _ in slices), stored.is_global, keeps_hashes)
    found = routed.map_partitions_with_index(match, HASHES).collect()
    assert found is not None
    return _located(found, slices, stored.is_global)


_TASK = pa.field("__hoodie_task", pa.int32())


@attrs.frozen
class _AddTask:
    """Adds the number of the task that a range belongs to."""

    tasks: int

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.append_column(_TASK, pa.array(batch.column(RANGE).to_numpy() % np.int32(self.tasks)))


def _located(found: pa.Table, slices: Sequence[tuple[FileSlice, bool]], is_global: bool) -> LocatedKeys:
    by_kind = {kind: found.filter(pc.equal(found[KIND], int(kind))) for kind in Kind if kind > Kind.WITHOUT_KEY}

    def total(kind: Kind) -> int:
        return int(sum(by_kind[kind][COUNT].to_pylist()))

    updates = np.zeros(len(slices), dtype=np.int64)
    np.add.at(updates, by_kind[Kind.UPDATED][NUMBER].to_numpy(), by_kind[Kind.UPDATED][COUNT].to_numpy())
    inserts: dict[str, int] = {}
    new = by_kind[Kind.INSERTED]
    for path, count in zip(new[PARTITION_PATH].to_pylist(), new[COUNT].to_pylist(), strict=True):
        inserts[path] = inserts.get(path, 0) + count
    places = None
    if not total(Kind.UNCLEAR):
        places = _places_of(by_kind[Kind.FUNCTION], [part.location for part, _ in slices], is_global)
    seen = _sum_of_seen(found, Kind.ROWS)
    looked_up = seen + _sum_of_seen(found, Kind.UNMATCHED)
    return LocatedKeys(places, updates, inserts, total(Kind.UNMATCHED), total(Kind.REPEATED), seen, looked_up)


def _places_of(functions: pa.Table, files: Sequence[HoodieRecordLocation], is_global: bool) -> HashedPlaces:
    kind = _kind_of_numbers(len(files))
    arrays = [np.zeros(0, dtype=kind)] * NUM_RANGES
    known = [np.zeros(0, dtype=np.uint64)] * NUM_RANGES
    known_at = [np.zeros(0, dtype=_POSITION)] * NUM_RANGES
    seeds = [0] * NUM_RANGES
    for number, seed, count, data, positions in zip(
        *(functions[name].to_pylist() for name in (RANGE, NUMBER, COUNT)),
        functions[DATA],
        functions[POSITIONS],
        strict=True,
    ):
        buffer = data.as_buffer()
        if seed is None:
            known[number] = np.frombuffer(buffer, dtype=np.uint64, count=count)
            arrays[number] = np.frombuffer(buffer, dtype=kind, offset=known[number].nbytes)
            known_at[number] = np.frombuffer(positions.as_buffer(), dtype=_POSITION)
        else:
            arrays[number], seeds[number] = np.frombuffer(buffer, dtype=kind), seed
    starts = np.cumsum([0, *map(len, arrays)])
    hashes = np.concatenate(known)
    return HashedPlaces(
        is_global,
        tuple(files),
        np.concatenate(arrays),
        tuple(seeds),
        starts,
        known_hashes=hashes if len(hashes) else None,
        known_positions=np.concatenate(known_at) if len(hashes) else None,
    )


def rows_read(incoming: pa.Table) -> RowsSeen:
    """The number and fingerprint of the incoming rows with a key.

    Args:
        incoming: The rows of `notes_of`.
    """
    return _sum_of_seen(incoming, Kind.READ)


def fits_driver(incoming: pa.Table, num_slices: int, max_bytes: int) -> bool:
    """Whether the driver can hold and share the places of all keys.

    Args:
        incoming: The rows of `notes_of`.
        num_slices: The number of slices that are searched.
        max_bytes: The most bytes to share.
    """
    return rows_read(incoming).count * BYTES_FOR_NUMBER * _kind_of_numbers(num_slices).itemsize <= max_bytes


def may_keep_hashes(incoming: pa.Table, context: HoodieEngineContext) -> bool:
    """Whether the driver keeps the hashes of all keys, and their positions.

    Args:
        incoming: The rows of `notes_of`.
        context: The engine.
    """
    most = rows_read(incoming).count * (_HASH_BYTES + _POSITION.itemsize)
    return context.shares_memory and most <= MOST_KEPT_BYTES


def keys_in_tasks(incoming: pa.Table) -> KeysInTasks:
    """The facts about incoming keys that an index needs.

    Args:
        incoming: The rows of `notes_of`.
    """
    ranges: dict[str, list[tuple[str, str]]] = {}
    for row in incoming.filter(pc.equal(incoming[KIND], int(Kind.KEYS))).to_pylist():
        ranges.setdefault(row[PARTITION_PATH], []).append((row[LOW], row[HIGH]))
    sample = incoming.filter(pc.equal(incoming[KIND], int(Kind.SAMPLE)))[LOW].combine_chunks()
    return KeysInTasks(ranges, sample, rows_read(incoming).count)


def counts_by_partition(incoming: pa.Table) -> pa.Table:
    """Partition path and ``count`` of incoming rows; the path of rows without a key is null.

    Args:
        incoming: The rows of `notes_of`.
    """
    incoming = incoming.filter(pc.is_in(incoming[KIND], value_set=pa.array([Kind.KEYS, Kind.WITHOUT_KEY], pa.int8())))
    counts: dict[str | None, int] = {}
    for path, count in zip(incoming[PARTITION_PATH].to_pylist(), incoming[COUNT].to_pylist(), strict=True):
        counts[path] = counts.get(path, 0) + count
    schema = pa.schema([reserved_field(PARTITION_PATH), (COUNT, pa.int64())])
    return pa.table([list(counts), list(counts.values())], schema=schema)


def rows_seen_by_hash(batch: pa.RecordBatch) -> RowsSeen:
    """The number and fingerprint of rows by hashes of their keys and partition paths, as `LocatedKeys.seen` has them.

    Args:
        batch: Rows with a key.
    """
    hashes = hashes_of_rows(batch.column(RECORD_KEY), batch.column(PARTITION_PATH), is_global=False)
    return _rows_seen(hashes)
