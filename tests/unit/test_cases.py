"""The rotation of cases by ``--cases`` and ``--one-in``."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.support.cases import last_lines, not_chosen

NAMES = ["a.py::one", *(f"a.py::three[{case}]" for case in "xyz"), *(f"b.py::two[{case}]" for case in "pq")]


class Item:
    def __init__(self, nodeid: str, *marks: pytest.Mark) -> None:
        self.nodeid = nodeid
        self.marks = marks

    def iter_markers(self, name: str) -> list[pytest.Mark]:
        return [mark for mark in self.marks if mark.name == name]


class Config:
    """What pytest tells of a command line."""

    def __init__(self, *given: str, seed: int | None = None, one_in: int = 1) -> None:
        self.invocation_params = self
        self.args = given
        self._options = {"--cases": seed, "--one-in": one_in}

    def getoption(self, name: str) -> int | None:
        return self._options[name]


def chosen(names: list[str], seed: int, one_in: int = 1) -> list[str]:
    items: list[Any] = [Item(name) for name in names]
    left = not_chosen(items, seed, one_in)
    return [item.nodeid for item in items if item not in left]


@pytest.mark.parametrize("seed", [0, 1, 331, 10**6])
def test_each_test_runs_one_case(seed: int) -> None:
    tests = [name.partition("[")[0] for name in chosen(NAMES, seed)]
    assert tests == ["a.py::one", "a.py::three", "b.py::two"]


def test_seeds_in_a_row_run_each_case() -> None:
    taken = Counter(name for seed in range(331, 337) for name in chosen(NAMES, seed))
    assert taken == dict(zip(NAMES, [6, 2, 2, 2, 3, 3], strict=True))


def test_seeds_in_a_row_run_each_case_of_one_test_in_five() -> None:
    names = [f"a.py::test_{number}[{case}]" for number in range(40) for case in "xyz"]
    taken = Counter(name for seed in range(331, 331 + 5 * 3) for name in chosen(names, seed, one_in=5))
    assert taken == dict.fromkeys(names, 1)
    assert all(len(chosen(names, seed, one_in=5)) in range(3, 14) for seed in range(5))


def test_a_test_of_seconds_has_its_turn_once_in_so_many_seeds() -> None:
    items: list[Any] = [Item(name, pytest.mark.one_in(4).mark) for name in ("a.py::long[x]", "a.py::long[y]")]
    items.append(Item("a.py::short"))
    runs = [[item.nodeid for item in items if item not in not_chosen(items, seed, 1)] for seed in range(331, 339)]
    assert Counter(name for names in runs for name in names) == {
        "a.py::long[x]": 1, "a.py::long[y]": 1, "a.py::short": 8
    }  # fmt: skip
    rare = [item.nodeid for seed in range(8) for item in items if item not in not_chosen(items, seed, 8)]
    assert len(rare) == 2


def test_a_run_says_how_to_repeat_it() -> None:
    config: Any = Config("-q", "--table-version", "6", "--zone=Asia/Tokyo", "tests", seed=331, one_in=3)
    assert last_lines(config, ["a.py::three[x y]", "a.py::three[x y]"]) == [
        "to repeat it: python -m pytest --table-version 6 --zone=Asia/Tokyo 'a.py::three[x y]'",
        "one case of one in 3 tests by the seed 331; --cases=all runs all",
    ]
    of_all: Any = Config("-q")
    assert last_lines(of_all, []) == []
