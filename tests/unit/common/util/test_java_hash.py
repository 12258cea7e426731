"""Java's hash of strings, many at once."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.util import java_hash
from hoodie.common.util.java_hash import contain_ascii, hash_strings


def hash_one(text: str) -> int:
    """As the Java specification writes it."""
    outcome = 0
    units = text.encode("utf-16-be")
    for place in range(0, len(units), 2):
        outcome = (31 * outcome + (units[place] << 8 | units[place + 1])) & 0xFFFFFFFF
    return outcome


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("abc", 96354), ("Aa", 2112), ("BB", 2112), ("polygenelubricants", 1 << 31), ("😀", 1772899)],
)
def test_the_hash_is_that_of_java(text: str, expected: int) -> None:
    assert hash_strings(pa.array([text])).tolist() == [expected]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=30), st.integers(0, 5)
)
def test_each_string_is_hashed_on_its_own_in_slices_and_beside_nulls(texts: list[str | None], start: int) -> None:
    array = pa.array(texts, pa.string()).slice(start)
    assert hash_strings(array).tolist() == [0 if text is None else hash_one(text) for text in texts[start:]]


@settings(max_examples=200, deadline=None)
@given(
    st.integers(1, 40).flatmap(
        lambda size: st.lists(st.text("aZ~\x00\x7f:é", min_size=size, max_size=size), max_size=9)
    ),
    st.integers(0, 3),
    st.booleans(),
)
def test_strings_of_one_length_are_hashed_like_others(texts: list[str], start: int, with_null: bool) -> None:
    array = pa.array([*texts, *([None] if with_null else [])], pa.string()).slice(start)
    expected = [hash_one(text) for text in texts[start:]]
    assert hash_strings(array).tolist()[: len(expected)] == expected
    ascii_texts = [text.replace("é", "e") for text in texts]
    assert hash_strings(pa.array(ascii_texts, pa.string()).slice(start)).tolist() == [
        hash_one(text) for text in ascii_texts[start:]
    ]


@given(st.lists(st.text(max_size=5), max_size=5), st.integers(0, 3), st.integers(0, 3))
def test_a_character_is_found_in_slices(texts: list[str], start: int, size: int) -> None:
    texts = [*texts, ":a", "é:"]
    found = contain_ascii(pa.array(texts, pa.string()).slice(start, size), ":")
    assert found == any(":" in text for text in texts[start : start + size])


def test_strings_are_hashed_in_chunks_and_ones_that_are_longer_than_a_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_hash, "_CHUNK_BYTES", 100)
    java_hash._usual_powers.cache_clear()
    texts = ["x" * length for length in range(0, 350, 7)] + ["ü" * 90, "", "a"]
    try:
        assert hash_strings(pa.array(texts)).tolist() == [hash_one(text) for text in texts]
    finally:
        java_hash._usual_powers.cache_clear()
