"""Patterns of dates; what real Hudi makes of them is in the golden keys (`tests.unit.keygen.test_golden_keys`)."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.util.date_pattern import DatePattern, ParsedTime

MOMENT = 1_709_166_309_042
"""2024-02-29 00:25:09.042."""


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("yyyy/MM/dd", "2024/02/29"),
        ("yy-M-d", "24-2-29"),
        ("EEEE, d MMMM; E MMM", "Thursday, 29 February; Thu Feb"),
        ("xxxx-'W'ww-e D DDD", "2024-W09-4 60 060"),
        ("H k K h a", "0 24 0 12 AM"),
        ("HH:mm:ss.S SS SSSSS", "00:25:09.0 04 04200"),
        ("Z ZZ", "-0330 -03:30"),
        ("'year''s' yyyyy ''", "year's 02024 '"),
        ("C G Y", "20 AD 2024"),
    ],
)
def test_times_are_written(pattern: str, expected: str) -> None:
    assert DatePattern.of(pattern).write(MOMENT, -12_600_000) == expected


def test_years_have_no_end() -> None:
    pattern = DatePattern.of("yyyy-MM-dd")
    assert pattern.write(253_402_300_800_000) == "10000-01-01"
    assert pattern.write(-62_198_755_200_001) == "-0002-12-31"
    assert DatePattern.of("Y G").write(-62_198_755_200_001) == "3 BC"


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("yyyy-QQ", "letter 'Q'"),
        ("yyyyTHH", "text stands in quotes"),
        ("z", "name of the time zone"),
        ("ZZZ", "id of the time zone"),
        ("", "empty"),
    ],
)
def test_letters_that_cannot_be_done_are_refused_by_name(pattern: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DatePattern.of(pattern)


def test_eras_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="'G' in the pattern"):
        DatePattern.of("yyyy G").check_readable()


@given(st.datetimes(datetime.datetime(1, 1, 2), datetime.datetime(9999, 12, 30)))
def test_what_is_written_is_read_again(moment: datetime.datetime) -> None:
    local_ms = (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(milliseconds=1)
    for text in ("yyyy-MM-dd HH:mm:ss.SSS", "yyyyMMdd hhmmss SSS a", "xxxx ww e k m s SSS", "yyyy DDD K m s SSS a"):
        pattern = DatePattern.of(text)
        assert pattern.read(pattern.write(local_ms)) == ParsedTime(local_ms, None)


def test_texts_of_another_form_are_not_read_and_impossible_times_are_errors() -> None:
    pattern = DatePattern.of("yyyy-MM-dd")
    for text in ("", "2024", "2024-01-02 ", "2024/01/02", "x2024-01-02"):
        assert pattern.read(text) is None
    for text in ("2024-13-01", "2023-02-29", "2024-00-01"):
        with pytest.raises(ValueError, match="no"):
            pattern.read(text)


def test_times_of_one_step_are_written_alike() -> None:
    assert DatePattern.of("yyyy/MM/dd").step_ms == 86_400_000
    assert DatePattern.of("yyyy HH").step_ms == 3_600_000
    assert DatePattern.of("a").step_ms == 43_200_000
    assert DatePattern.of("HH.S").step_ms == 1


@pytest.mark.parametrize(
    ("pattern", "text", "first", "after"),
    [
        ("yyyy", "2024", (2024, 1, 1), (2025, 1, 1)),
        ("MM/yyyy", "12/2024", (2024, 12, 1), (2025, 1, 1)),
        ("dd-MMMM-yyyy", "29-February-2024", (2024, 2, 29), (2024, 3, 1)),
        ("yyyyMMddHH", "2024123123", (2024, 12, 31, 23), (2025, 1, 1)),
    ],
)
def test_a_whole_text_tells_its_times(pattern: str, text: str, first: tuple[int, ...], after: tuple[int, ...]) -> None:
    found = DatePattern.of(pattern).times_of(text)
    assert found == tuple(
        int(datetime.datetime(*moment, tzinfo=datetime.UTC).timestamp()) * 1000  # type: ignore[arg-type, misc]
        for moment in (first, after)
    )


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("yyyy-MM-dd", "2023-02-29"),
        ("yyyy-MM-dd", "2023-13-01"),
        ("yyyy-MM-dd", "12023-01-01"),
        ("yyyy-MM-dd", "2023-1-1"),
        ("yyyyMMddHH", "2024123124"),
        ("yyyy-dd", "2023-01"),
        ("yy-MM", "23-01"),
        ("MM", "01"),
        ("'all'", "all"),
    ],
)
def test_other_texts_tell_no_times(pattern: str, text: str) -> None:
    assert DatePattern.of(pattern).times_of(text) is None
