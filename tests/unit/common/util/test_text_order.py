"""The order of many texts is that of their bytes."""

from __future__ import annotations

import random
import uuid

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.util import text_order
from hoodie.common.util.text_order import sorted_places, words_behind

TEXTS = st.lists(st.text(alphabet="ab\0é😀", max_size=12), min_size=2, max_size=60)


def places_one_by_one(texts: list[str]) -> list[int]:
    return sorted(range(len(texts)), key=lambda place: texts[place].encode())


@pytest.fixture
def sorts_few_by_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_order, "_FEW_TEXTS", 0)
    monkeypatch.setattr(text_order, "_MOST_TIED", 1.0)


def check(texts: list[str], data_type: pa.DataType, skipped: int = 0) -> None:
    found = sorted_places(pa.array(["x"] * skipped + texts, pa.string()).cast(data_type)[skipped:])
    expected = places_one_by_one(texts)
    assert (list(range(len(texts))) if found is None else found.to_pylist()) == expected


@pytest.mark.usefixtures("sorts_few_by_words")
@pytest.mark.parametrize("data_type", [pa.string(), pa.binary(), pa.large_string()])
@given(texts=TEXTS, beginning=st.sampled_from(["", "a", "trip_2024_"]), skipped=st.integers(0, 2))
def test_texts_of_any_length_are_sorted_and_equal_ones_keep_their_order(
    data_type: pa.DataType, texts: list[str], beginning: str, skipped: int
) -> None:
    check([beginning + text for text in texts], data_type, skipped)


@pytest.mark.parametrize("share_tied", [0.0, 0.1, 0.9])
def test_many_texts_are_sorted_whether_few_or_most_agree_in_eight_bytes(share_tied: float) -> None:
    dice = random.Random(5)
    texts = [str(uuid.UUID(int=dice.getrandbits(128))) for _ in range(10_000)]
    tied = [f"{text[:8]}{dice.getrandbits(4):x}" for text in dice.choices(texts[:50], k=int(share_tied * len(texts)))]
    texts = texts[: len(texts) - len(tied)] + tied
    dice.shuffle(texts)
    check(texts, pa.string())


def test_sorted_texts_have_no_places() -> None:
    assert sorted_places(pa.array([f"{number:05}" for number in range(10_000)])) is None
    assert sorted_places(pa.array(["same"] * 10_000)) is None
    assert sorted_places(pa.array([], pa.string())) is None


def test_words_of_short_texts_are_padded_with_zeros() -> None:
    content, ends = b"abcdefghijabab1", np.array([10, 12, 15])
    begins = np.array([0, 10, 12])
    assert words_behind(content, begins, ends, 2).tolist() == [
        int.from_bytes(word, "big") for word in (b"cdefghij", bytes(8), b"1".ljust(8, b"\0"))
    ]
