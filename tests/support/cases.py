"""Which cases of the tests a run takes: all of them, or by rotation as many as fit in its minutes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import pytest

_ALL = "all"
_OF_TABLES = ("--table-type", "--table-version", "--zone")


def add_options(parser: pytest.Parser) -> None:
    """Add ``--cases`` and ``--one-in``."""
    parser.addoption(
        "--cases",
        default=_ALL,
        type=_seed,
        metavar="SEED",
        help="run one case of each parametrized test: the next one with each seed, a whole number; 'all' runs all",
    )
    parser.addoption(
        "--one-in", default=1, type=int, metavar="N", help="run one in N tests, the next ones with each seed of --cases"
    )


def _seed(text: str) -> int | None:
    """A seed; None for all cases."""
    return None if text == _ALL else int(text)


def not_chosen(items: Sequence[pytest.Item], seed: int, one_in: int) -> set[pytest.Item]:
    """The cases that are left to runs with other seeds.

    Runs with as many seeds in a row as a test has cases take each of them once, if `one_in` is 1. A test with the mark
    ``one_in(N)`` has its turn once in N seeds, or once in `one_in` if that is more.

    Args:
        items: The cases that were collected, all of one test in a row or not.
        seed: Of the run.
        one_in: Take one in so many tests.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        cases.setdefault(name_of_test(item.nodeid), []).append(item)
    left = set()
    for name, its_cases in cases.items():
        turn = seed + zlib.crc32(name.encode())
        seeds = max([one_in, *(mark.args[0] for item in its_cases for mark in item.iter_markers("one_in"))])
        chosen = its_cases[turn // seeds % len(its_cases)] if turn % seeds == 0 else None
        left.update(item for item in its_cases if item is not chosen)
    return left


def name_of_test(node_id: str) -> str:
    """The part of a node's name that all cases of a test share."""
    return node_id.partition("[")[0]


def last_lines(config: pytest.Config, failed: Iterable[str]) -> list[str]:
    """What a run says at its end: its seed, and the commands that repeat what failed.

    Args:
        config: Of the run.
        failed: The names of the nodes of failed tests.
    """
    lines = [
        f"to repeat it: python -m pytest {' '.join([*_options_of_tables(config), repr(name)])}"
        for name in dict.fromkeys(failed)
    ]
    seed = config.getoption("--cases")
    if seed is not None:
        one_in = config.getoption("--one-in")
        tests = "each test" if one_in == 1 else f"one in {one_in} tests"
        lines.append(f"one case of {tests} by the seed {seed}; --cases=all runs all")
    return lines


def _options_of_tables(config: pytest.Config) -> list[str]:
    given = [str(part) for part in config.invocation_params.args]
    found = []
    for part, following in zip(given, [*given[1:], ""], strict=True):
        if part.startswith(_OF_TABLES):
            found += [part] if "=" in part else [part, following]
    return found
