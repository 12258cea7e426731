from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.table.timeline.instant_time import (
    format_instant_time,
    is_instant_time,
    next_instant_time,
    parse_instant_time,
)
from hoodie.exception import InvalidTableException


@pytest.fixture
def in_new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def utc(*fields: int) -> datetime:
    return datetime(*fields, tzinfo=UTC)  # type: ignore[arg-type,misc]


def test_a_moment_is_seventeen_digits_of_its_zone(in_new_york: None) -> None:
    moment = utc(2025, 1, 26, 4, 8, 23, 628_999)
    assert format_instant_time(moment) == "20250126040823628"
    assert format_instant_time(moment, "LOCAL") == "20250125230823628"
    assert format_instant_time(moment.astimezone(timezone(timedelta(hours=9)))) == "20250126040823628"


def test_an_instant_time_is_a_moment_of_its_zone(in_new_york: None) -> None:
    assert parse_instant_time("20250126040823628") == utc(2025, 1, 26, 4, 8, 23, 628_000)
    assert parse_instant_time("20250125230823628", "LOCAL") == utc(2025, 1, 26, 4, 8, 23, 628_000)


def test_fourteen_digits_are_the_last_millisecond_of_their_second() -> None:
    assert parse_instant_time("20250126040823") == utc(2025, 1, 26, 4, 8, 23, 999_000)


@pytest.mark.parametrize(
    "text", ["", "2025", "20251301000000000", "2025010100000000x", "202501010000000000", "00000000000001"]
)
def test_what_is_no_date_is_refused(text: str) -> None:
    assert not is_instant_time(text)
    with pytest.raises(ValueError):
        parse_instant_time(text)


def test_a_moment_needs_a_zone() -> None:
    with pytest.raises(ValueError, match="no time zone"):
        format_instant_time(datetime(2025, 1, 1))


@given(st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)))
def test_what_is_formatted_is_parsed_again(moment: datetime) -> None:
    assert parse_instant_time(format_instant_time(moment)) == moment.replace(
        microsecond=moment.microsecond // 1000 * 1000
    )


@pytest.mark.parametrize(
    ("newest", "expected"),
    [
        (None, "20250101080000005"),
        ("20250101080000004", "20250101080000005"),
        ("20250101080000005", "20250101080000006"),
        ("20250101080000999", "20250101080001000"),
        ("20251231235959999", "20260101000000000"),
        ("20250101080000", "20250101080000005"),
        ("20250101080001", "20250101080002000"),
        ("20250101080000005001", "20250101080000006"),
        ("00000000000001", "20250101080000005"),
    ],
)
def test_the_next_instant_time_is_now_or_a_millisecond_after_the_newest(newest: str | None, expected: str) -> None:
    found = next_instant_time(utc(2025, 1, 1, 8, 0, 0, 5_000), newest)
    assert found == expected
    assert newest is None or found > newest


@pytest.mark.parametrize("newest", ["99999999999999999", "99991231235959999", "9"])
def test_a_newest_time_that_cannot_be_counted_on_from_is_named(newest: str) -> None:
    with pytest.raises(InvalidTableException, match=newest):
        next_instant_time(utc(2025, 1, 1), newest)


def test_times_grow_through_the_hour_that_daylight_saving_repeats(in_new_york: None) -> None:
    # On 2025-11-02 New York's clocks go from 01:59:59 (06:00 UTC) back to 01:00:00.
    newest = None
    clock = utc(2025, 11, 2, 5, 30)
    times = []
    while clock < utc(2025, 11, 2, 7, 30):
        newest = next_instant_time(clock, newest, "LOCAL")
        times.append(newest)
        clock += timedelta(minutes=7)
    assert times == sorted(set(times))
    assert times[0].startswith("2025110201300") and times[-1].startswith("2025110202")
    assert format_instant_time(utc(2025, 11, 2, 6, 5), "LOCAL") < times[4], "the wall clock itself went back"


@given(
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.datetimes(datetime(2000, 1, 1), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.sampled_from([14, 17]),
)
def test_the_next_instant_time_is_greater_than_any(now: datetime, newest: datetime, digits: int) -> None:
    text = format_instant_time(newest)[:digits]
    found = next_instant_time(now, text)
    assert found > text and found >= format_instant_time(now) and len(found) == 17
