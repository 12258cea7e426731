"""Numbers that a listing tells: sizes of files, of partitions and of slices, and what holds old versions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import attrs

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.common.table.timeline.instant_time import in_order, newest
from hoodie.common.util.quantile import quantile
from hoodie.stats.commit_numbers import PartitionWrite

SMALLEST_BIN = 1024
"""Files below this size stand in one bin."""
ALL = "ALL"
"""The group of all files, as ``CALL stats_file_sizes`` names it."""


@attrs.frozen
class SizeBin:
    """The files whose sizes are in one range, a power of two to the next.

    Attributes:
        from_bytes: The smallest size.
        to_bytes: The first size that is too large.
        base_file_count: Base files of the newest slices.
        log_file_count: Log files of the newest slices.
        size_bytes: Their size together.
    """

    from_bytes: int
    to_bytes: int
    base_file_count: int
    log_file_count: int
    size_bytes: int


@attrs.frozen
class SizeSpread:
    """The sizes of a group of files, in bytes.

    Attributes:
        group: A commit or a partition; ``ALL`` for all files.
        min_bytes: The smallest.
        p10_bytes: A tenth of the files are smaller.
        p50_bytes: The median.
        mean_bytes: The mean.
        p95_bytes: A twentieth of the files are larger.
        max_bytes: The largest.
        file_count: Their number.
        deviation_bytes: The standard deviation of a sample.

    Hudi: the columns of ``CALL stats_file_sizes``.
    """

    group: str
    min_bytes: int
    p10_bytes: float
    p50_bytes: float
    mean_bytes: float
    p95_bytes: float
    max_bytes: int
    file_count: int
    deviation_bytes: float

    @classmethod
    def of(cls, group: str, sizes: Iterable[int]) -> SizeSpread:
        """The spread of some sizes.

        Args:
            group: Their name.
            sizes: At least one size.
        """
        values = sorted(sizes)
        count, mean = len(values), sum(values) / len(values)
        squares = math.fsum((value - mean) ** 2 for value in values)
        return cls(
            group,
            values[0],
            quantile(values, 0.1),
            quantile(values, 0.5),
            mean,
            quantile(values, 0.95),
            values[-1],
            count,
            math.sqrt(squares / (count - 1)) if count > 1 else 0.0,
        )


@attrs.frozen
class PartitionSize:
    """A partition: what it holds, and what the active timeline wrote into it.

    Attributes:
        partition_path: Its path, "" in a table without partitions.
        file_group_count: The number of file groups.
        size_bytes: The size of the newest slices.
        share: That size as a part of the whole table's, from 0 to 1; None for a table without bytes.
        newest_instant_time: The newest slice's instant; None if it has none.
        write_count: The writes of the active timeline that wrote into it.
        bytes_written: The size of their files.
    """

    partition_path: str
    file_group_count: int
    size_bytes: int
    share: float | None
    newest_instant_time: str | None
    write_count: int
    bytes_written: int


@attrs.frozen
class SliceSize:
    """The newest slice of a file group.

    Attributes:
        partition_path: Its partition.
        file_id: Its file group.
        base_bytes: The size of its base file; 0 without one.
        log_bytes: The size of its log files.
        log_file_count: Their number.
        read_amplification: Bytes that a read of the slice takes for each byte of the base file; None without one.
        base_instant_time: The instant of the slice.
        writes_since: The completed writes that are newer than that.
    """

    partition_path: str
    file_id: str
    base_bytes: int
    log_bytes: int
    log_file_count: int
    read_amplification: float | None
    base_instant_time: str
    writes_since: int


@attrs.frozen
class HeldBytes:
    """Files that stay, or would go, for one reason.

    Attributes:
        held_by: ``newest slices``; ``savepoint`` and its instant; ``a clean would delete them``; ``kept by
            hoodie.clean.*``.
        file_count: The number of files. A file that several savepoints hold counts for the oldest.
        size_bytes: Their size.
    """

    held_by: str
    file_count: int
    size_bytes: int


def size_bins(slices: Iterable[FileSlice]) -> list[SizeBin]:
    """The base and log files of slices by size; bins between the smallest and the largest file may be empty.

    Args:
        slices: The newest slices.
    """
    bases: Counter[int] = Counter()
    logs: Counter[int] = Counter()
    sizes: Counter[int] = Counter()
    for file_slice in slices:
        if file_slice.base_file is not None:
            number = _bin_of(file_slice.base_file.size_bytes)
            bases[number] += 1
            sizes[number] += file_slice.base_file.size_bytes
        for log_file in file_slice.record_log_files:
            number = _bin_of(log_file.size_bytes)
            logs[number] += 1
            sizes[number] += log_file.size_bytes
    if not sizes:
        return []
    return [
        SizeBin(_start_of(number), _start_of(number + 1), bases[number], logs[number], sizes[number])
        for number in range(min(sizes), max(sizes) + 1)
    ]


def _bin_of(size_bytes: int) -> int:
    return max(0, (size_bytes // SMALLEST_BIN).bit_length())


def _start_of(number: int) -> int:
    return SMALLEST_BIN << (number - 1) if number else 0


def spreads(sizes: Iterable[tuple[str, int]]) -> list[SizeSpread]:
    """The spread of sizes by group, then that of all; empty without files.

    Args:
        sizes: Group and size of each file.
    """
    groups: dict[str, list[int]] = defaultdict(list)
    for group, size in sizes:
        groups[group].append(size)
    if not groups:
        return []
    everything = [size for found in groups.values() for size in found]
    return [*(SizeSpread.of(group, groups[group]) for group in sorted(groups)), SizeSpread.of(ALL, everything)]


def sizes_by_commit(slices: Iterable[FileSlice]) -> list[tuple[str, int]]:
    """Instant in the name, and size, of each file.

    Args:
        slices: All committed slices, old ones too.
    """
    return [(file.instant_time, file.size_bytes) for file_slice in slices for file in _files(file_slice)]


def sizes_by_partition(slices: Iterable[FileSlice]) -> list[tuple[str, int]]:
    """Partition and size of each file.

    Args:
        slices: The newest slices.
    """
    return [(part.partition_path, file.size_bytes) for part in slices for file in part.record_files]


def partition_sizes(
    partitions: Sequence[str], slices: Iterable[FileSlice], writes: Iterable[PartitionWrite]
) -> list[PartitionSize]:
    """The partitions, the largest first.

    Args:
        partitions: Their paths.
        slices: The newest slices.
        writes: The writes of the active timeline.
    """
    found: dict[str, list[FileSlice]] = {path: [] for path in partitions}
    for file_slice in slices:
        found[file_slice.partition_path].append(file_slice)
    counts: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for write in writes:
        counts[write.partition_path] += 1
        written[write.partition_path] += write.bytes_written
    sizes = {path: sum(part.size_bytes for part in parts) for path, parts in found.items()}
    total = sum(sizes.values())
    rows = [
        PartitionSize(
            path,
            len(parts),
            sizes[path],
            sizes[path] / total if total else None,
            newest(part.base_instant_time for part in parts),
            counts[path],
            written[path],
        )
        for path, parts in found.items()
    ]
    return sorted(rows, key=lambda row: (-row.size_bytes, row.partition_path))


def slice_sizes(slices: Iterable[FileSlice], writes_since: Callable[[str], int]) -> list[SliceSize]:
    """The newest slices, those with the most bytes of log files first.

    Args:
        slices: The newest slices.
        writes_since: Counts the completed writes after an instant.
    """
    known: dict[str, int] = {}
    rows = []
    for file_slice in slices:
        time = file_slice.base_instant_time
        if time not in known:
            known[time] = writes_since(time)
        base = file_slice.base_file.size_bytes if file_slice.base_file is not None else 0
        logs = [log_file.size_bytes for log_file in file_slice.record_log_files]
        ratio = (base + sum(logs)) / base if base else None
        rows.append(
            SliceSize(
                file_slice.partition_path, file_slice.file_id, base, sum(logs), len(logs), ratio, time, known[time]
            )
        )
    return sorted(rows, key=lambda row: (-row.log_bytes, -row.base_bytes, row.partition_path, row.file_id))


def held_bytes(
    live: Iterable[FileSlice],
    every: Iterable[FileSlice],
    savepoints: Mapping[str, Mapping[str, Sequence[str]]],
    cleaned: Iterable[str],
) -> list[HeldBytes]:
    """The committed files by what holds them.

    Args:
        live: The newest slices.
        every: All committed slices.
        savepoints: Instant -> partition -> the names of the files that its savepoint holds.
        cleaned: The full paths of the files that a clean would delete.
    """
    sizes = {file.path: file.size_bytes for part in every for file in _files(part)}
    paths = {(part.partition_path, file.file_name): file.path for part in every for file in _files(part)}
    newest_paths = {file.path for part in live for file in _files(part)}
    rows = [_held("newest slices", newest_paths, sizes)]
    left = sizes.keys() - newest_paths
    for time in in_order(savepoints):
        named = {paths.get((path, name)) for path, names in savepoints[time].items() for name in names}
        rows.append(_held(f"savepoint {time}", left & named, sizes))
        left = left - named
    gone = left & set(cleaned)
    return [
        *rows,
        _held("a clean would delete them", gone, sizes),
        _held("kept by hoodie.clean.*", left - gone, sizes),
    ]


def _files(part: FileSlice) -> list[HoodieBaseFile | HoodieLogFile]:
    return [*([part.base_file] if part.base_file is not None else []), *part.log_files]


def _held(reason: str, paths: Iterable[str], sizes: Mapping[str, int]) -> HeldBytes:
    found = list(paths)
    return HeldBytes(reason, len(found), sum(sizes[path] for path in found))
