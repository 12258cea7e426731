"""Positions in a topic, and the ranges of offsets that a round reads."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import attrs

_POSITION = re.compile(r"[^,]+(,[0-9]{1,10}:[0-9]{1,19})+", re.ASCII)


@attrs.frozen(order=True)
class OffsetRange:
    """Offsets of a partition, of which some may hold no message.

    Attributes:
        partition: The partition.
        start: The first offset.
        end: The offset after the last one.
    """

    partition: int
    start: int
    end: int

    @property
    def count(self) -> int:
        """The number of offsets."""
        return self.end - self.start


@attrs.frozen
class TopicOffsets:
    """A position: the offset of each partition that is read next.

    Attributes:
        topic: The topic.
        offsets: Partition -> offset.
    """

    topic: str
    offsets: Mapping[int, int]

    @classmethod
    def parse(cls, position: str) -> TopicOffsets | None:
        """The position that a commit holds, such as ``impressions,0:12,1:34``.

        Args:
            position: The text.

        Returns:
            The position; None if the text is none, or names a partition twice.
        """
        if not _POSITION.fullmatch(position):
            return None
        topic, *parts = position.split(",")
        pairs = [part.split(":") for part in parts]
        offsets = {int(partition): int(offset) for partition, offset in pairs}
        return cls(topic, offsets) if len(offsets) == len(pairs) else None

    def __str__(self) -> str:
        parts = [f"{partition}:{self.offsets[partition]}" for partition in sorted(self.offsets)]
        return ",".join([self.topic, *parts])


def compute_offset_ranges(
    starts: Mapping[int, int], ends: Mapping[int, int], limit: int, min_partitions: int = 0
) -> list[OffsetRange]:
    """The ranges of a round, as Hudi deals them.

    The messages of the round, all new ones or as many as the limit, are divided by the number of ranges wanted. Each
    partition in turn gets a range of that size, until all are dealt. Partitions that get none have an empty range.

        starts {0: 0, 1: 0}, ends {0: 100, 1: 500}, limit 600, 3 ranges   0: 0-100   1: 0-200, 200-400, 400-500

    Args:
        starts: Partition -> the first offset to read.
        ends: Partition -> the offset after the last one; the same partitions, none before its start.
        limit: The most offsets.
        min_partitions: The least number of ranges.

    Returns:
        The ranges, by partition and offset.
    """
    total = min(sum(ends[partition] - starts[partition] for partition in ends), limit)
    each = max(1, total // max(min_partitions, len(ends), 1))
    dealt: dict[int, list[OffsetRange]] = {partition: [] for partition in sorted(ends)}
    reached = dict(starts)
    left = total
    while left:
        for partition, ranges in dealt.items():
            start = reached[partition]
            count = min(each, left, ends[partition] - start)
            if count:
                ranges.append(OffsetRange(partition, start, start + count))
                reached[partition] += count
                left -= count
    for partition, ranges in dealt.items():
        if not ranges:
            ranges.append(OffsetRange(partition, starts[partition], starts[partition]))
    return [one for ranges in dealt.values() for one in ranges]


def merged_ranges(ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
    """One range for each partition.

    Args:
        ranges: The ranges; those of a partition follow each other without gaps.
    """
    found: dict[int, OffsetRange] = {}
    for one in ranges:
        known = found.get(one.partition, one)
        found[one.partition] = OffsetRange(one.partition, min(known.start, one.start), max(known.end, one.end))
    return sorted(found.values())


def position_after(topic: str, ranges: Sequence[OffsetRange]) -> TopicOffsets:
    """The position after all ranges are read.

    Args:
        topic: The topic.
        ranges: The ranges, empty ones too.
    """
    return TopicOffsets(topic, {one.partition: one.end for one in merged_ranges(ranges)})
