"""The keys that files may hold, by the smallest and largest key of the files.

Hudi: org.apache.hudi.index.bloom.{IndexFileFilter, IntervalTreeBasedIndexFileFilter, ListBasedIndexFileFilter}.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.index.bloom.key_ranges import BloomIndexFileInfo
from hoodie.index.bloom.sorted_keys import SortedKeys

KeySlices = tuple[tuple[int, int], ...]
"""Ranges of sorted keys: (start, end), ascending, with a gap between each two."""


def candidates(
    keys: Mapping[str, SortedKeys],
    groups: Sequence[str],
    files: Sequence[BloomIndexFileInfo | None],
    is_tree_based: bool = True,
) -> list[KeySlices]:
    """The keys of its group that each file may hold.

    These are the keys within the range of the footer and within the range of one of the row groups. The range of the
    footer does not count if the result would depend on the order of strings that the file's writer used. The statistics
    of row groups always count: their order is that of UTF-8 bytes.

    Args:
        keys: The keys by the name of their group.
        groups: The group of keys to look for, for each file.
        files: The ranges of the files' footers; None if the footer was not read, so that the file may hold any key.
        is_tree_based: Whether the ends of ranges are searched in the sorted keys (there is no tree): the cost grows
            with the number of ranges and the logarithm of the number of keys. Otherwise every key is compared with
            every range.
    """
    found: list[KeySlices] = [()] * len(files)
    by_group: dict[str, list[tuple[int, BloomIndexFileInfo]]] = {}
    for number, (group, info) in enumerate(zip(groups, files, strict=True)):
        if group in keys and info is not None:
            by_group.setdefault(group, []).append((number, info))
        elif group in keys:
            found[number] = ((0, len(keys[group])),)
    for group, members in by_group.items():
        slices_of_files = _of_group(keys[group], [info for _, info in members], is_tree_based)
        for (number, _), slices in zip(members, slices_of_files, strict=True):
            found[number] = slices
    return found


def _of_group(keys: SortedKeys, files: Sequence[BloomIndexFileInfo], is_tree_based: bool) -> list[KeySlices]:
    """The keys of the group that each of its files may hold."""
    lows: list[bytes] = []
    highs: list[bytes] = []
    for info in files:
        for low, high in [(info.min_key, info.max_key), *((g.min_key, g.max_key) for g in info.row_groups or ())]:
            if low is not None and high is not None:
                lows.append(low)
                highs.append(high)
    starts, ends = _within(keys, lows, highs, is_tree_based)
    found = zip(starts.tolist(), ends.tolist(), strict=True)
    everything = (0, len(keys))
    slices_of_files = []
    for info in files:
        start, end = everything
        if info.min_key is not None and info.max_key is not None:
            bounds = next(found)
            if info.min_key <= info.max_key and keys.order_is_certain(info.min_key, info.max_key):
                start, end = bounds
        slices = [(start, end)] if info.row_groups is None and start < end else []
        for group in info.row_groups or ():
            known = group.min_key is not None and group.max_key is not None
            first, last = next(found) if known else everything
            if group.rows and max(first, start) < min(last, end):
                slices.append((max(first, start), min(last, end)))
        slices_of_files.append(_joined(slices))
    return slices_of_files


def _within(
    keys: SortedKeys, lows: Sequence[bytes], highs: Sequence[bytes], is_tree_based: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The start and the end of the keys within each range."""
    if is_tree_based:
        return keys.before(lows, with_equal=False), keys.before(highs, with_equal=True)
    texts = keys.keys.cast(pa.binary())
    starts = [pc.sum(pc.less(texts, low)).as_py() or 0 for low in lows]
    ends = [pc.sum(pc.less_equal(texts, high)).as_py() or 0 for high in highs]
    return np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64)


def count_keys(slices: KeySlices) -> int:
    """The number of keys in ranges of sorted keys.

    Args:
        slices: Ranges of sorted keys.
    """
    return sum(end - start for start, end in slices)


def _joined(slices: list[tuple[int, int]]) -> KeySlices:
    """Join slices that overlap or touch."""
    if len(slices) < 2:
        return tuple(slices)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(slices):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
