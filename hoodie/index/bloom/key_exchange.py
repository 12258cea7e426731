"""Keys that do not fit in one place: count which files they may be in, and bring them to tasks that compare them.

The driver learns one number for each file; keys go from task to task::

    incoming keys --> (key, file) for each file that can hold it --> the file's task: filter, then keys --> locations

Hudi: org.apache.hudi.index.bloom.BucketizedBloomCheckPartitioner.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.common.model.record_columns import BUCKET, PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.bloom.bloom_index_check_function import check_keys, may_contain, open_filter
from hoodie.index.bloom.index_file_filter import KeySlices, candidates, count_keys
from hoodie.index.bloom.key_ranges import BloomIndexFileInfo
from hoodie.index.bloom.sorted_keys import SortedKeys
from hoodie.index.index import IndexedTable
from hoodie.index.stored_keys import LOCATION_SCHEMA, located_keys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

__all__ = ["FILE_COST", "FileCandidates", "count_candidates", "deal", "deal_files", "exchange_keys"]

FILE_COST = 20_000
"""Opening a file costs about what comparing this many keys costs."""

_FILE = "__hoodie_file"
_COUNT = "__hoodie_count"
_COUNTED_SCHEMA = pa.schema([(_FILE, pa.int32()), (_COUNT, pa.int64())])
_PAIR_SCHEMA = pa.schema([reserved_field(RECORD_KEY), (_FILE, pa.int32()), reserved_field(BUCKET)])
_ROWS = -1
"""In place of a file: counts the rows themselves."""


@attrs.frozen
class FileCandidates:
    """Says of keys which files can hold them; a pure function that crosses to tasks.

    Attributes:
        files: Of a list of (group, what the footer says or None where it was not asked).
        is_global: Whether all keys are looked for in all files, or those of a partition in its files (then the groups
            are partition paths).
        is_tree_based: How keys are compared with ranges.
    """

    files: Shared
    is_global: bool
    is_tree_based: bool

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[SortedKeys, list[tuple[int, KeySlices]]]]:
        """Groups of keys, and for each of them the files that can hold some of its keys.

        Args:
            batch: With record key and partition path.
        """
        by_group: dict[str, list[tuple[int, BloomIndexFileInfo | None]]] = {}
        for number, (group, info) in enumerate(self.files.value):
            by_group.setdefault(group, []).append((number, info))
        for group, keys in self._grouped(batch):
            members = by_group.get(group, [])
            known = [(number, info) for number, info in members if info is not None]
            slices_of_files = candidates(keys, [info for _, info in known], self.is_tree_based)
            found = [(number, slices) for (number, _), slices in zip(known, slices_of_files, strict=True) if slices]
            found += [(number, ((0, len(keys)),)) for number, info in members if info is None]
            yield keys, found

    def _grouped(self, batch: pa.RecordBatch) -> Iterator[tuple[str, SortedKeys]]:
        keys = batch.column(RECORD_KEY)
        if self.is_global:
            yield "", SortedKeys.of(keys.drop_null())
            return
        paths = batch.column(PARTITION_PATH)
        for path in paths.unique().drop_null().to_pylist():
            yield path, SortedKeys.of(keys.filter(pc.equal(paths, path)).drop_null())


def count_candidates(records: HoodieData, candidates: FileCandidates, file_count: int) -> tuple[np.ndarray, int]:
    """For each file how many incoming keys it can hold (int64), and the number of incoming rows. An action.

    Args:
        records: With record key and partition path.
        candidates: Says which.
        file_count: How many files there are.
    """
    counted = records.select([RECORD_KEY, PARTITION_PATH]).map_partitions_with_index(
        _CountCandidates(candidates), _COUNTED_SCHEMA
    )
    tasks = max(1, min(counted.num_partitions, file_count))
    summed = counted.repartition_by([_FILE], tasks).map_partitions_with_index(_sum_counts, _COUNTED_SCHEMA)
    table = summed.collect()
    assert table is not None
    keys = np.zeros(file_count, dtype=np.int64)
    files, counts = table[_FILE].to_numpy(), table[_COUNT].to_numpy()
    np.add.at(keys, files[files != _ROWS], counts[files != _ROWS])
    return keys, int(counts[files == _ROWS].sum())


def exchange_keys(
    records: HoodieData,
    candidates: FileCandidates,
    tasks: Mapping[int, Sequence[int]],
    num_tasks: int,
    context: HoodieEngineContext,
    table: IndexedTable,
) -> HoodieData:
    """Locations of the keys that the table has.

    Args:
        records: With record key and partition path.
        candidates: Says which keys each of the table's slices can hold.
        tasks: Of each file with candidates the tasks that its keys are dealt to.
        num_tasks: How many tasks there are.
        context: The engine.
        table: The table; what is shared with the tasks is released with it.

    Returns:
        Lazily, record key, partition path and the three CURRENT columns: a row for each location.
    """
    pairs = records.select([RECORD_KEY, PARTITION_PATH]).map_partitions_with_index(
        _Explode(candidates, table.share(context, dict(tasks))), _PAIR_SCHEMA
    )
    routed = pairs.route(BUCKET, num_tasks).sort_within([_FILE])
    return routed.map_partitions_with_index(
        _CheckRouted(table.storage, table.share(context, table.slices)), LOCATION_SCHEMA
    )


def deal(counts: Sequence[int], num_tasks: int, file_cost: int = FILE_COST) -> list[int]:
    """The task of each piece of work: the dearest first, each to the task that has least so far.

    Args:
        counts: Of each piece the keys that are compared.
        num_tasks: How many tasks there are.
        file_cost: What opening a file costs, in keys.
    """
    loads = [(0, task) for task in range(num_tasks)]
    tasks = [0] * len(counts)
    for piece in sorted(range(len(counts)), key=lambda number: -counts[number]):
        load, tasks[piece] = heapq.heappop(loads)
        heapq.heappush(loads, (load + file_cost + counts[piece], tasks[piece]))
    return tasks


def deal_files(
    counts: np.ndarray, keys_per_task: int | None, num_tasks: int, file_cost: int = FILE_COST
) -> dict[int, list[int]]:
    """Deal what there is to compare to tasks of about the same cost.

    Args:
        counts: For each file how many keys are compared with it.
        keys_per_task: Keys of one file that one task compares at most; None for one task a file.
        num_tasks: How many tasks there are.
        file_cost: What opening a file costs, in keys.

    Returns:
        Of each file with keys the tasks that they are dealt to.
    """
    parts = []
    for number in np.flatnonzero(counts).tolist():
        count = int(counts[number])
        pieces = 1 if keys_per_task is None else -(-count // keys_per_task)
        parts += [(number, count // pieces)] * pieces
    tasks: dict[int, list[int]] = {}
    for (number, _), task in zip(parts, deal([count for _, count in parts], num_tasks, file_cost), strict=True):
        tasks.setdefault(number, []).append(task)
    return tasks


@attrs.frozen
class _CountCandidates:
    """Task: how many keys of a partition each file can hold; a key that comes twice may count twice."""

    candidates: FileCandidates

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts: dict[int, int] = {_ROWS: 0}
        for batch in batches:
            counts[_ROWS] += batch.num_rows
            for _, files in self.candidates.of(batch):
                for number, slices in files:
                    counts[number] = counts.get(number, 0) + count_keys(slices)
        yield _counted(counts)


def _sum_counts(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts: dict[int, int] = {}
    for batch in batches:
        for number, count in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            counts[number] = counts.get(number, 0) + count
    yield _counted(counts)


def _counted(counts: Mapping[int, int]) -> pa.RecordBatch:
    columns = [pa.array(list(counts), pa.int32()), pa.array(list(counts.values()), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=_COUNTED_SCHEMA)


@attrs.frozen
class _Explode:
    """Task: each key once for every file that can hold it, and the task that will compare them."""

    candidates: FileCandidates
    tasks: Shared

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for keys, files in self.candidates.of(batch):
                for number, slices in files:
                    for start, end in slices:
                        yield self._pairs(keys.keys.slice(start, end - start), number)

    def _pairs(self, keys: pa.Array, number: int) -> pa.RecordBatch:
        tasks = np.array(self.tasks.value[number], dtype=np.int32)
        part = hash_keys(keys) % np.uint32(len(tasks)) if len(tasks) > 1 else np.zeros(len(keys), dtype=np.int64)
        columns = [keys, pa.repeat(pa.scalar(number, pa.int32()), len(keys)), pa.array(tasks[part])]
        return pa.RecordBatch.from_arrays(columns, schema=_PAIR_SCHEMA)


@attrs.frozen
class _CheckRouted:
    """Task: the locations of keys that come sorted by the file that may hold them."""

    storage: HoodieStorage
    files: Shared

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number, parts in _by_file(batches):
            yield from self._check(number, parts)

    def _check(self, number: int, parts: Iterable[pa.Array]) -> Iterator[pa.RecordBatch]:
        file_slice = self.files.value[number]
        with HoodieParquetReader(self.storage, file_slice.sole_base_file.path) as reader:
            bloom_filter, _ = open_filter(reader)
            possible = []
            for keys in parts:
                some = keys if bloom_filter is None else keys.take(pa.array(may_contain(bloom_filter, keys)))
                possible.append(some)
            keys = SortedKeys.of(pa.concat_arrays(possible)).keys
            if not len(keys):
                return
            checked = check_keys(reader, number, keys)
        yield from located_keys(file_slice, *checked.found)


def _by_file(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, Iterator[pa.Array]]]:
    """Of rows sorted by file, each file and its keys."""
    runs = _Runs(batches)
    while runs.file is not None:
        yield runs.file, runs.keys_of(runs.file)


class _Runs:
    """Cuts batches where the file changes; each file's keys are to be read before the next file is asked for."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._pieces: Iterator[Any] = (piece for batch in batches for piece in self._cut(batch))
        self._next: tuple[int, pa.Array] | None = next(self._pieces, None)

    @property
    def file(self) -> int | None:
        """The file that comes next; None at the end."""
        return None if self._next is None else self._next[0]

    def keys_of(self, file: int) -> Iterator[pa.Array]:
        """The keys of that file."""
        while self._next is not None and self._next[0] == file:
            keys = self._next[1]
            self._next = next(self._pieces, None)
            yield keys

    @staticmethod
    def _cut(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
        files = batch.column(_FILE).to_numpy()
        keys = batch.column(RECORD_KEY)
        starts = np.flatnonzero(np.diff(files, prepend=-1))
        for start, end in zip(starts.tolist(), [*starts[1:].tolist(), len(files)], strict=True):
            yield int(files[start]), keys.slice(start, end - start)
