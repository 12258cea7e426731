"""Look-up of keys in base files by key ranges, bloom filters and keys, for the indexes BLOOM and GLOBAL_BLOOM.

Hudi: org.apache.hudi.index.bloom.{BaseHoodieBloomIndexHelper, SparkHoodieBloomIndexHelper}.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.util.arrow_buffers import array_of
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.bloom.bloom_index_check_function import CheckedFile, CheckFiles, FileToCheck
from hoodie.index.bloom.index_file_filter import KeySlices, candidates, count_keys
from hoodie.index.bloom.key_exchange import (
    FileCandidates,
    count_candidates,
    deal,
    deal_files,
    exchange_keys,
)
from hoodie.index.bloom.key_ranges import CACHE_BYTES, BloomIndexFileInfo, KeyRangeCache, ReadFileInfos
from hoodie.index.bloom.metadata_look import filters_by_metadata, holds_none, infos_by_metadata
from hoodie.index.bloom.sorted_keys import SortedKeys
from hoodie.index.index import IndexedTable
from hoodie.index.index_report import Decision, FileGroupLook
from hoodie.index.stored_keys import NOTHING_FOUND, FoundKeys

logger = logging.getLogger(__name__)

FOOTERS_PER_TASK = 64
TASKS_PER_CORE = 4
_LOGGED_FILES = 10_000
"""Most warnings that are remembered, so that none is repeated."""


@attrs.frozen(eq=False)
class KeySearch:
    """A search for keys that stay in tasks.

    Attributes:
        slices: The slices that can hold keys.
        counts: For each slice of the table the number of keys that it can hold (int64).
        rows: The number of incoming rows.
        stored_rows: The number of rows of the files that can hold keys; 0 if no footers were read.
        candidates: Finds the keys that each file can hold.
    """

    slices: list[FileSlice]
    counts: np.ndarray
    rows: int
    stored_rows: int
    candidates: FileCandidates

    @property
    def comparisons(self) -> int:
        """The number of comparisons: each key counts once for each file that can hold it."""
        return int(self.counts.sum())


class BloomIndexHelper:
    """Finds keys, and keeps the key ranges of the footers that it has read, for the life of a client.

    Args:
        config: The writer's options.

    Hudi: org.apache.hudi.index.bloom.SparkHoodieBloomIndexHelper. Differs: one for all engines.
    """

    def __init__(self, config: HoodieIndexConfig) -> None:
        self._config = config
        self._cache = KeyRangeCache(CACHE_BYTES if config.bloom_use_caching else 0)
        self._logged: set[str] = set()

    def file_infos(
        self,
        slices: Sequence[FileSlice],
        context: HoodieEngineContext,
        table: IndexedTable,
        whole: bool = True,
    ) -> list[BloomIndexFileInfo]:
        """The key ranges of files; reads the footers that are not in the cache.

        Args:
            slices: The slices of the files.
            context: The engine.
            table: Their table; the reads are noted there.
            whole: Whether the ranges of row groups are needed, besides those of files.
        """
        paths = [file_slice.key_file.path for file_slice in slices]
        infos = {path: self._cache.get(path) for path in paths}
        if self._config.bloom_use_metadata and not whole:
            unknown = [file_slice for file_slice in slices if infos[file_slice.key_file.path] is None]
            infos.update(infos_by_metadata(table, unknown))
        missing = [path for path, info in infos.items() if info is None or (whole and info.row_groups is None)]
        if missing:
            per_task = max(1, min(FOOTERS_PER_TASK, len(missing) // (TASKS_PER_CORE * context.default_parallelism)))
            tasks = [missing[start : start + per_task] for start in range(0, len(missing), per_task)]
            with table.notes.metrics.step("read key ranges") as step:
                step.count(files=len(missing))
                parts = context.run_tasks(tasks, ReadFileInfos(table.storage, whole))
            read = dict(zip(missing, (info for part in parts for info in part), strict=True))
            table.work.note_reads(footers=len(missing))
            infos.update(read)
            for path, info in read.items():
                self._cache.put(path, info)
        return [known for path in paths if (known := infos[path]) is not None]

    def find(
        self, keys: Mapping[str, pa.Array], groups: Sequence[str], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FoundKeys]:
        """The keys in each slice, and their rows; every slice is noted on ``table.work``.

        Args:
            keys: Keys (string) by the name of their group.
            groups: The group of keys to look for, for each slice of the table.
            context: The engine.
            table: The table.
        """
        with table.notes.metrics.step("compare keys with ranges") as step:
            slices = table.slices
            in_order = {group: SortedKeys.of(some) for group, some in keys.items()}
            infos: list[BloomIndexFileInfo | None] = [None] * len(slices)
            if self._config.bloom_prune_by_ranges:
                wanted = [number for number, group in enumerate(groups) if group in keys]
                read_infos = self.file_infos([slices[number] for number in wanted], context, table, whole=False)
                for number, info in zip(wanted, read_infos, strict=True):
                    infos[number] = info
            possible = candidates(in_order, groups, infos, self._config.bloom_use_treebased_filter)
            step.count(records=sum(map(count_keys, possible)), files=sum(map(bool, possible)))
        remaining: list[KeySlices | None] = list(possible)
        if self._config.bloom_use_metadata:
            remaining = self._by_filters_of_metadata(possible, in_order, groups, table)
        found = [NOTHING_FOUND] * len(slices)
        pieces = []
        for number, (some, group, file_slice) in enumerate(zip(remaining, groups, slices, strict=True)):
            if some is None:
                # Its filter in the metadata table was asked.
                continue
            if some:
                path = file_slice.key_file.path
                pieces += [FileToCheck(number, path, group, part) for part in self._parts(some)]
            else:
                compared = len(in_order[group]) if group in in_order else 0
                look = FileGroupLook(file_slice.partition_path, file_slice.file_id, Decision.RANGE, compared, 0)
                table.work.note(look)
        if not pieces:
            return found
        with table.notes.metrics.step("ask filters and keys") as step:
            shared = context.share({group: some.keys for group, some in in_order.items()})
            try:
                tasks = self._dealt(pieces, context.default_parallelism)
                parts = context.run_tasks(tasks, CheckFiles(table.storage, shared))
            finally:
                shared.release()
            checked = list(zip(chain.from_iterable(tasks), chain.from_iterable(parts), strict=True))
            read = {piece.number for piece, part in checked if part.row_groups_read}
            step.count(records=sum(len(part.found[0]) for _, part in checked), files=len(read))
        by_slice: dict[int, list[CheckedFile]] = {}
        for piece, part in checked:
            by_slice.setdefault(piece.number, []).append(part)
        for number, of_slice in by_slice.items():
            found[number] = self._gathered(slices[number], of_slice, table)
        return found

    def _by_filters_of_metadata(
        self,
        possible: Sequence[KeySlices],
        keys: Mapping[str, SortedKeys],
        groups: Sequence[str],
        table: IndexedTable,
    ) -> list[KeySlices | None]:
        """The candidates of each file; None of one whose filter in the metadata table excludes all of them.

        These files are noted.
        """
        remaining: list[KeySlices | None] = list(possible)
        slices = table.slices
        chosen = [number for number, some in enumerate(possible) if some]
        with table.notes.metrics.step("ask filters of the metadata table") as step:
            filter_count = 0
            for place, bloom_filter in filters_by_metadata(table, [slices[number] for number in chosen]):
                number = chosen[place]
                filter_count += 1
                group = keys[groups[number]].keys
                parts = [group.slice(start, end - start) for start, end in possible[number]]
                if holds_none(bloom_filter, parts):
                    remaining[number] = None
                    part, count = slices[number], count_keys(possible[number])
                    table.work.note(FileGroupLook(part.partition_path, part.file_id, Decision.FILTER, count, 0))
            step.count(files=filter_count)
        return remaining

    def search(
        self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable, is_global: bool
    ) -> KeySearch:
        """Count the keys that each slice can hold, if the keys do not fit in the driver's memory; note every slice.

        Args:
            records: Rows with record key and partition path.
            context: The engine.
            table: The table.
            is_global: Whether keys are looked for in all slices, and not only in those of their partition.
        """
        slices = table.slices
        known: list[BloomIndexFileInfo] | list[None] = [None] * len(slices)
        if self._config.bloom_prune_by_ranges:
            known = self.file_infos(slices, context, table)
        groups = ["" if is_global else file_slice.partition_path for file_slice in slices]
        with table.notes.metrics.step("compare keys with ranges") as step:
            shared = table.notes.share(context, list(zip(groups, known, strict=True)))
            possible = FileCandidates(shared, is_global, self._config.bloom_use_treebased_filter)
            counts, rows = count_candidates(records, possible, len(slices))
            chosen = np.flatnonzero(counts).tolist()
            step.count(records=int(counts.sum()), files=len(chosen))
        for file_slice, count in zip(slices, counts.tolist(), strict=True):
            decided_by, found = (Decision.KEY_CHECK, None) if count else (Decision.RANGE, 0)
            table.work.note(FileGroupLook(file_slice.partition_path, file_slice.file_id, decided_by, count, found))
        stored_rows = sum(info.rows for number in chosen if (info := known[number]) is not None)
        return KeySearch([slices[number] for number in chosen], counts, rows, stored_rows, possible)

    def within_ranges(
        self, key_ranges: Mapping[str, Sequence[tuple[str, str]]], context: HoodieEngineContext, table: IndexedTable
    ) -> list[FileSlice]:
        """The slices whose range of keys meets a range of incoming keys; every slice is noted on ``table.work``.

        Args:
            key_ranges: Partition path to smallest and largest keys of parts of the incoming rows.
            context: The engine.
            table: The table.
        """
        slices = table.slices
        known: list[BloomIndexFileInfo] | list[None] = [None] * len(slices)
        if self._config.bloom_prune_by_ranges:
            known = self.file_infos(slices, context, table, whole=False)
        chosen = []
        with table.notes.metrics.step("compare keys with ranges") as step:
            ends = {
                path: SortedKeys.of(array_of([key for ends in ranges for key in ends], pa.string()))
                for path, ranges in key_ranges.items()
            }
            for file_slice, info in zip(slices, known, strict=True):
                path = file_slice.partition_path
                if _meet(key_ranges.get(path, ()), ends.get(path), info):
                    chosen.append(file_slice)
                else:
                    table.work.note(FileGroupLook(path, file_slice.file_id, Decision.RANGE, found=0))
            step.count(files=len(chosen))
        table.work.note_all(chosen, Decision.KEY_CHECK)
        return chosen

    def exchange(
        self, search: KeySearch, records: HoodieData, context: HoodieEngineContext, table: IndexedTable
    ) -> HoodieData:
        """Locations of keys that do not fit in the driver's memory, found by tasks; see `exchange_keys`.

        Args:
            search: For this table and these records.
            records: With record key and partition path.
            context: The engine.
            table: The table.
        """
        config = self._config
        limit = config.bloom_keys_per_bucket if config.bloom_bucketized_checking else None
        wanted = config.bloom_parallelism or max(records.num_partitions, TASKS_PER_CORE * context.default_parallelism)
        num_tasks = max(1, wanted if limit is not None else len(search.slices))
        tasks = deal_files(search.counts, limit, num_tasks)
        return exchange_keys(records, search.candidates, tasks, num_tasks, context, table)

    def _gathered(self, file_slice: FileSlice, parts: Sequence[CheckedFile], table: IndexedTable) -> FoundKeys:
        """The keys that the tasks of one slice found."""
        decisions = {part.decided_by for part in parts}
        decided_by = next(d for d in (Decision.KEY_CHECK, Decision.FILTER, Decision.RANGE) if d in decisions)
        table.work.note(
            FileGroupLook(
                file_slice.partition_path,
                file_slice.file_id,
                decided_by,
                sum(part.compared for part in parts if part.decided_by is decided_by),
                sum(len(part.found[0]) for part in parts),
                max(part.row_groups for part in parts),
                max(part.row_groups_read for part in parts),
            )
        )
        table.work.note_reads(filters=sum(part.has_filter for part in parts))
        self._log_problems(part.problem for part in parts)
        if len(parts) == 1:
            return parts[0].found
        keys, positions = zip(*(part.found for part in parts), strict=True)
        return pa.concat_arrays(keys), np.concatenate(positions)

    def _parts(self, slices: KeySlices) -> list[KeySlices]:
        """The keys of one file, divided into one part for each task that compares them."""
        limit = self._config.bloom_keys_per_bucket
        if not self._config.bloom_bucketized_checking or count_keys(slices) <= limit:
            return [slices]
        pieces = [(low, min(low + limit, end)) for start, end in slices for low in range(start, end, limit)]
        parts: list[list[tuple[int, int]]] = [[]]
        room = limit
        for start, end in pieces:
            if parts[-1] and end - start > room:
                parts.append([])
                room = limit
            parts[-1].append((start, end))
            room -= end - start
        return [tuple(part) for part in parts]

    def _dealt(self, pieces: Sequence[FileToCheck], cores: int) -> list[list[FileToCheck]]:
        """Tasks of about the same cost; see `deal`."""
        if not self._config.bloom_bucketized_checking:
            return [[piece] for piece in pieces]
        count = min(len(pieces), self._config.bloom_parallelism or TASKS_PER_CORE * cores)
        tasks: list[list[FileToCheck]] = [[] for _ in range(count)]
        for piece, number in zip(pieces, deal([count_keys(piece.slices) for piece in pieces], count), strict=True):
            tasks[number].append(piece)
        return tasks

    def _log_problems(self, problems: Iterable[str | None]) -> None:
        """Log a warning for each damaged filter, once."""
        for problem in problems:
            if problem is not None and problem not in self._logged and len(self._logged) < _LOGGED_FILES:
                self._logged.add(problem)
                logger.warning("%s; its keys are compared without the filter", problem)


def _meet(ranges: Sequence[tuple[str, str]], ends: SortedKeys | None, info: BloomIndexFileInfo | None) -> bool:
    """Whether a file can hold keys of some ranges; see `candidates` for ranges whose order is not certain.

    Args:
        ranges: Smallest and largest keys.
        ends: All of them; None without ranges.
        info: The range of the file; None if it is not known.
    """
    if ends is None:
        return False
    if info is None or info.min_key is None or info.max_key is None or info.min_key > info.max_key:
        return True
    if not ends.order_is_certain(info.min_key, info.max_key):
        return True
    return any(low.encode() <= info.max_key and high.encode() >= info.min_key for low, high in ranges)
