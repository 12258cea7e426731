"""Time zones: names as Java knows them, and offsets."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.util.time_zones import offset_from_local, offsets_at, time_zone

HOUR = 3_600_000
MOMENTS = st.integers(-2_000_000_000_000, 4_000_000_000_000)


@given(st.lists(MOMENTS, max_size=20), st.sampled_from(["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]))
def test_offsets_are_those_of_the_tz_database(moments: list[int], name: str) -> None:
    zone = ZoneInfo(name)
    expected = [
        (datetime.datetime.fromtimestamp(0, zone) + datetime.timedelta(0)).utcoffset() and
        datetime.datetime.fromtimestamp(moment / 1000, zone).utcoffset() // datetime.timedelta(milliseconds=1)
        for moment in moments
    ]  # fmt: skip
    assert offsets_at(zone, np.array(moments, np.int64)).tolist() == expected


def test_offsets_go_on_where_python_ends() -> None:
    berlin = time_zone("Europe/Berlin")
    january_and_july_of_12000 = np.array([316_516_204_800_000, 316_516_204_800_000 + 182 * 24 * HOUR], np.int64)
    assert offsets_at(berlin, january_and_july_of_12000).tolist() == [HOUR, 2 * HOUR]
    assert len(offsets_at(berlin, np.array([-(2**62)], np.int64))) == 1


def test_names_are_those_of_java() -> None:
    january = np.array([0], np.int64)
    for name, hours in {"UTC": 0, "GMT+8": 8, "GMT-03:30": -3.5, "PST": -8, "EST": -5, "Asia/Tokyo": 9}.items():
        assert offsets_at(time_zone(name), january).tolist() == [hours * HOUR]
    for name, hint in {
        "+08:00": "GMT\\+08:00",
        "Mars/Base": "Europe/Berlin",
        "GMT+25": "tz database",
        "../x": "tz",
    }.items():
        with pytest.raises(ValueError, match=hint):
            time_zone(name)


def test_local_times_left_out_have_no_offset_and_doubled_ones_the_first() -> None:
    berlin = time_zone("Europe/Berlin")
    left_out = 1_711_852_200_000  # 2024-03-31 02:30
    doubled = 1_729_996_200_000  # 2024-10-27 02:30
    assert offset_from_local(berlin, left_out) is None
    assert offset_from_local(berlin, doubled) == 2 * HOUR
