"""Positions in topics, and ranges of offsets: Hudi's own vectors."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.utilities.sources.helpers.kafka_offset_ranges import (
    OffsetRange,
    TopicOffsets,
    compute_offset_ranges,
    merged_ranges,
    position_after,
)

VECTORS = [
    ({0: 200_000, 1: 250_000, 2: 0}, {0: 200_010, 1: 350_000, 2: 10_000}, 100_000, 0,
     {0: [10], 1: [33_333, 33_333, 23_324], 2: [10_000]}),
    (dict.fromkeys(range(5), 0), {0: 100, 1: 1000, 2: 1000, 3: 1000, 4: 1000}, 1001, 0,
     {0: [100], 1: [200, 101], 2: [200], 3: [200], 4: [200]}),
    ({0: 0}, {0: 100}, 600, 3, {0: [33, 33, 33, 1]}),
    ({0: 0}, {0: 2}, 600, 3, {0: [1, 1]}),
    ({0: 100, 1: 0}, {0: 100, 1: 600}, 600, 3, {0: [0], 1: [200, 200, 200]}),
    ({0: 0, 1: 0}, {0: 100, 1: 500}, 600, 3, {0: [100], 1: [200, 200, 100]}),
    ({0: 7, 1: 9}, {0: 7, 1: 9}, 600, 0, {0: [0], 1: [0]}),
]  # fmt: skip


@pytest.mark.parametrize(("starts", "ends", "limit", "wanted", "counts"), VECTORS)
def test_ranges_are_those_of_hudi(
    starts: Mapping[int, int], ends: Mapping[int, int], limit: int, wanted: int, counts: Mapping[int, list[int]]
) -> None:
    found = compute_offset_ranges(starts, ends, limit, wanted)
    assert {p: [one.count for one in found if one.partition == p] for p in ends} == counts


partitions = st.dictionaries(
    st.integers(0, 9), st.tuples(st.integers(0, 50), st.integers(0, 200)), min_size=1, max_size=6
)


@given(partitions, st.integers(1, 400), st.integers(0, 20))
def test_ranges_cover_the_oldest_offsets_of_each_partition_once(
    given_offsets: dict[int, tuple[int, int]], limit: int, wanted: int
) -> None:
    starts = {p: start for p, (start, _) in given_offsets.items()}
    ends = {p: start + count for p, (start, count) in given_offsets.items()}
    found = compute_offset_ranges(starts, ends, limit, wanted)
    total = sum(ends[p] - starts[p] for p in ends)
    assert sum(one.count for one in found) == min(total, limit)
    for p in ends:
        own = [one for one in found if one.partition == p]
        assert [one.start for one in own] == [starts[p], *(one.end for one in own[:-1])]
        assert own[-1].end <= ends[p]
    assert set(position_after("t", found).offsets) == set(ends)


def test_positions_are_written_as_hudi_writes_them() -> None:
    ranges = [OffsetRange(10, 0, 5), OffsetRange(2, 3, 3), OffsetRange(2, 3, 7), OffsetRange(0, 0, 2**40)]
    assert str(position_after("im.pre-ss_ions", ranges)) == "im.pre-ss_ions,0:1099511627776,2:7,10:5"


def test_positions_are_read_back() -> None:
    text = "impressions,0:12,1:34,10:0"
    found = TopicOffsets.parse(text)
    assert found == TopicOffsets("impressions", {0: 12, 1: 34, 10: 0})
    assert str(found) == text


@pytest.mark.parametrize("text", ["", "impressions", "impressions,", "impressions,0", "t,0:x", "t,a:1", "1700000000000",
                                  "t,0:-1", "t,0:1,", "20240101000000000", "t,0:1:2", "t,0:1,0:5", "t,0:1,00:1",
                                  "t,0:" + "9" * 5000])  # fmt: skip
def test_other_texts_are_no_positions(text: str) -> None:
    assert TopicOffsets.parse(text) is None


def test_ranges_of_a_partition_become_one() -> None:
    assert merged_ranges([OffsetRange(1, 5, 7), OffsetRange(0, 0, 0), OffsetRange(1, 7, 9)]) == [
        OffsetRange(0, 0, 0),
        OffsetRange(1, 5, 9),
    ]
