"""Look up more keys than the driver can hold: count the files that they may be in, and route them to these files.

The driver gets one number for each file; keys go from task to task::

    incoming keys --> (key, file) for each file that can hold it --> the file's task: filter, then keys --> locations

Hudi: org.apache.hudi.index.bloom.BucketizedBloomCheckPartitioner.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, groupby, pairwise
from operator import itemgetter

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.common.model.record_columns import BUCKET, PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext, Shared
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.bloom.bloom_index_check_function import check_file
from hoodie.index.bloom.index_file_filter import KeySlices, candidates, count_keys
from hoodie.index.bloom.sorted_keys import SortedKeys
from hoodie.index.index import IndexedTable
from hoodie.index.stored_keys import LOCATION_SCHEMA, located_keys
from hoodie.storage.storage import HoodieStorage

FILE_COST = 20_000
"""The cost of opening a file, as the number of keys that can be compared in that time."""

_FILE = "__hoodie_file"
_COUNT = "__hoodie_count"
_COUNTED_SCHEMA = pa.schema([(_FILE, pa.int32()), (_COUNT, pa.int64())])
_PAIR_SCHEMA = pa.schema([reserved_field(RECORD_KEY), (_FILE, pa.int32()), reserved_field(BUCKET)])
_ROWS = -1
"""The number that stands in place of a file's for the count of rows."""


@attrs.frozen
class FileCandidates:
    """Finds the files that can hold given keys; a pure function that crosses to tasks.

    Attributes:
        files: A list of (group, key range of the footer or None if it was not read).
        is_global: Whether all keys are looked for in all files. Otherwise the keys of a partition are looked for in its
            files, and the groups are partition paths.
        is_tree_based: See `candidates`.
    """

    files: Shared
    is_global: bool
    is_tree_based: bool

    def of(self, batch: pa.RecordBatch) -> Iterator[tuple[SortedKeys, list[tuple[int, KeySlices]]]]:
        """Groups of keys, each with the files that may hold some of its keys.

        Args:
            batch: Rows with record key and partition path.
        """
        keys = dict(self._grouped(batch))
        found: dict[str, list[tuple[int, KeySlices]]] = {group: [] for group in keys}
        groups = [group for group, _ in self.files.value]
        for number, slices in enumerate(candidates(keys, groups, [i for _, i in self.files.value], self.is_tree_based)):
            if slices:
                found[groups[number]].append((number, slices))
        for group, some in keys.items():
            yield some, found[group]

    def _grouped(self, batch: pa.RecordBatch) -> Iterator[tuple[str, SortedKeys]]:
        keys = batch.column(RECORD_KEY)
        if self.is_global:
            yield "", SortedKeys.of(keys.drop_null())
            return
        paths = batch.column(PARTITION_PATH)
        for path in paths.unique().drop_null().to_pylist():
            yield path, SortedKeys.of(keys.filter(pc.equal(paths, path)).drop_null())


def count_candidates(records: HoodieData, candidates: FileCandidates, file_count: int) -> tuple[np.ndarray, int]:
    """The number of incoming keys that each file may hold (int64), and the number of incoming rows. Runs a job.

    Args:
        records: Rows with record key and partition path.
        candidates: Finds the keys that each file can hold.
        file_count: The number of files.
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
        candidates: Finds the keys that each of the table's slices can hold.
        tasks: For each file with candidates the tasks that its keys are dealt to.
        num_tasks: The number of tasks.
        context: The engine.
        table: The table; values that tasks share are released with it.

    Returns:
        Lazily, record key, partition path and the three CURRENT columns: a row for each location.
    """
    pairs = records.select([RECORD_KEY, PARTITION_PATH]).map_partitions_with_index(
        _Explode(candidates, table.notes.share(context, dict(tasks))), _PAIR_SCHEMA
    )
    routed = pairs.route(BUCKET, num_tasks).sort_within([_FILE])
    return routed.map_partitions_with_index(
        _CheckRouted(table.storage, table.notes.share(context, table.slices)), LOCATION_SCHEMA
    )


def deal(counts: Sequence[int], num_tasks: int, file_cost: int = FILE_COST) -> list[int]:
    """The task of each piece of work: the largest piece first, each to the task with the least work so far.

    Args:
        counts: For each piece the number of keys that are compared.
        num_tasks: The number of tasks.
        file_cost: The cost of opening a file, in keys.
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
    """Deal the comparisons to tasks of about the same cost.

    Args:
        counts: For each file the number of keys that are compared with it.
        keys_per_task: Most keys of one file that one task compares; None for one task a file.
        num_tasks: The number of tasks.
        file_cost: The cost of opening a file, in keys.

    Returns:
        For each file with keys the tasks that the keys are dealt to.
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
    """Task: count the keys of a partition that each file can hold; a key that occurs twice may count twice."""

    candidates: FileCandidates

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counts = Counter({_ROWS: 0})
        for batch in batches:
            counts[_ROWS] += batch.num_rows
            for _, files in self.candidates.of(batch):
                for number, slices in files:
                    counts[number] += count_keys(slices)
        yield _counted(counts)


def _sum_counts(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    counts: Counter[int] = Counter()
    for batch in batches:
        for number, count in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
            counts[number] += count
    yield _counted(counts)


def _counted(counts: Mapping[int, int]) -> pa.RecordBatch:
    columns = [pa.array(list(counts), pa.int32()), pa.array(list(counts.values()), pa.int64())]
    return pa.RecordBatch.from_arrays(columns, schema=_COUNTED_SCHEMA)


@attrs.frozen
class _Explode:
    """Task: repeat each key for every file that can hold it, and add the task that compares them."""

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
    """Task: find the locations of keys, which are sorted by the file that may hold them."""

    storage: HoodieStorage
    files: Shared

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        pieces = chain.from_iterable(map(_split_by_file, batches))
        for number, group in groupby(pieces, key=itemgetter(0)):
            file_slice = self.files.value[number]
            parts = (keys for _, keys in group)
            checked = check_file(self.storage, file_slice.key_file.path, parts, are_sorted=False)
            yield from located_keys(file_slice, *checked.found)


def _split_by_file(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Array]]:
    """(file, its keys) of a batch that is sorted by file."""
    files, keys = batch.column(_FILE).to_numpy(), batch.column(RECORD_KEY)
    starts = np.flatnonzero(np.diff(files, prepend=-1)).tolist()
    for start, end in pairwise([*starts, len(files)]):
        yield int(files[start]), keys.slice(start, end - start)
