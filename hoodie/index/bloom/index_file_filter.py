"""Which files can hold which keys, by the smallest and largest key of the files.

Hudi: org.apache.hudi.index.bloom.{IndexFileFilter, IntervalTreeBasedIndexFileFilter, ListBasedIndexFileFilter}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.index.bloom.key_ranges import BloomIndexFileInfo
from hoodie.index.bloom.sorted_keys import SortedKeys

__all__ = [
    "IndexFileFilter",
    "IntervalTreeBasedIndexFileFilter",
    "KeySlices",
    "ListBasedIndexFileFilter",
    "count_keys",
    "create_index_file_filter",
]

KeySlices = tuple[tuple[int, int], ...]
"""Some of sorted keys: pairs of first and end, growing, that do not touch."""


class IndexFileFilter(ABC):
    """Finds the keys within ranges.

    A file's keys are those within the range of its footer and within that of one of its row groups. The footer's range
    is passed over where it depends on the order of the file's writer whether a key is within it, the statistics of
    row groups never: their order is that of UTF-8 bytes.

    Hudi: org.apache.hudi.index.bloom.IndexFileFilter. Differs: answers for all keys of a partition at once; sees row
    groups.
    """

    @abstractmethod
    def within(self, keys: SortedKeys, lows: Sequence[bytes], highs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        """The keys within ranges: for each range the first, and the end.

        Args:
            keys: The keys.
            lows: The smallest key of each range, UTF-8.
            highs: The largest.
        """

    def candidates(self, keys: SortedKeys, files: Sequence[BloomIndexFileInfo]) -> list[KeySlices]:
        """For each file the keys that it can hold.

        Args:
            keys: The keys.
            files: What the files' footers say.
        """
        lows: list[bytes] = []
        highs: list[bytes] = []
        for info in files:
            for low, high in [(info.min_key, info.max_key), *((g.min_key, g.max_key) for g in info.row_groups or ())]:
                if low is not None and high is not None:
                    lows.append(low)
                    highs.append(high)
        starts, ends = self.within(keys, lows, highs)
        found = zip(starts.tolist(), ends.tolist(), strict=True)
        everything = (0, len(keys))
        candidates = []
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
            candidates.append(_joined(slices))
        return candidates


class IntervalTreeBasedIndexFileFilter(IndexFileFilter):
    """Searches the ends of ranges in the sorted keys: cost grows with the ranges, and the logarithm of the keys.

    Hudi: org.apache.hudi.index.bloom.IntervalTreeBasedIndexFileFilter. Differs: keys are sorted, not ranges; there is
    no tree.
    """

    def within(self, keys: SortedKeys, lows: Sequence[bytes], highs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        return keys.before(lows, with_equal=False), keys.before(highs, with_equal=True)


class ListBasedIndexFileFilter(IndexFileFilter):
    """Compares every key with every range.

    Hudi: org.apache.hudi.index.bloom.ListBasedIndexFileFilter.
    """

    def within(self, keys: SortedKeys, lows: Sequence[bytes], highs: Sequence[bytes]) -> tuple[np.ndarray, np.ndarray]:
        texts = keys.keys.cast(pa.binary())
        starts = np.zeros(len(lows), dtype=np.int64)
        ends = np.zeros(len(lows), dtype=np.int64)
        for number, (low, high) in enumerate(zip(lows, highs, strict=True)):
            starts[number] = pc.sum(pc.less(texts, low)).as_py() or 0
            ends[number] = pc.sum(pc.less_equal(texts, high)).as_py() or 0
        return starts, ends


def create_index_file_filter(is_tree_based: bool) -> IndexFileFilter:
    """The filter that ``hoodie.bloom.index.use.treebased.filter`` asks for.

    Args:
        is_tree_based: Its value.
    """
    return IntervalTreeBasedIndexFileFilter() if is_tree_based else ListBasedIndexFileFilter()


def count_keys(slices: KeySlices) -> int:
    """How many keys there are.

    Args:
        slices: Of sorted keys.
    """
    return sum(end - start for start, end in slices)


def _joined(slices: list[tuple[int, int]]) -> KeySlices:
    """The same keys in slices that do not touch."""
    if len(slices) < 2:
        return tuple(slices)
    joined: list[tuple[int, int]] = []
    for start, end in sorted(slices):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return tuple(joined)
