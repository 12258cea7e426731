"""A cache keeps what was asked for last, within its bytes."""

from __future__ import annotations

from hoodie.common.util.bounded_cache import BoundedCache


def test_what_was_not_asked_for_the_longest_is_forgotten() -> None:
    cache: BoundedCache[str] = BoundedCache(max_bytes=10, max_bytes_of_value=5)
    cache.put("a", "1", 4)
    cache.put("b", "2", 4)
    assert cache.get("a") == "1"
    cache.put("c", "3", 4)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == ("1", None, "3")
    assert cache.size_bytes == 8


def test_a_value_that_comes_again_counts_once() -> None:
    cache: BoundedCache[str] = BoundedCache(max_bytes=10, max_bytes_of_value=5)
    for value in "123":
        cache.put("a", value, 4)
    assert (cache.get("a"), cache.size_bytes) == ("3", 4)


def test_large_values_are_not_kept() -> None:
    cache: BoundedCache[str] = BoundedCache(max_bytes=10, max_bytes_of_value=5)
    cache.put("a", "1", 6)
    assert (cache.get("a"), cache.size_bytes) == (None, 0)


def test_it_can_be_emptied() -> None:
    cache: BoundedCache[str] = BoundedCache(max_bytes=10, max_bytes_of_value=5)
    cache.put("a", "1", 5)
    cache.clear()
    assert (cache.get("a"), cache.size_bytes) == (None, 0)
