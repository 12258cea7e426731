"""Products of parameters: quick runs try each pair of values, `soak` all combinations.

A fault that needs three values at once is rare; where one is to be expected, name all combinations.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any

import pytest

__all__ = ["each_pair", "with_each_pair"]


def each_pair(indirect: Sequence[str] = (), **values: Sequence[Any]) -> pytest.MarkDecorator:
    """Parametrizes a test; the combinations that bring no new pair of values are for ``soak``.

    Args:
        indirect: Parameters that are fixtures.
        values: The values of each parameter, which can be hashed.
    """
    cases = list(product(*values.values()))
    chosen = with_each_pair(cases)
    given = [pytest.param(*case, marks=[] if case in chosen else [pytest.mark.soak]) for case in cases]
    return pytest.mark.parametrize(tuple(values), given, indirect=list(indirect))


def with_each_pair(cases: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Some of the cases, in which each two values stand together that do so in any.

    Args:
        cases: The values of each case.
    """
    pairs_of = {case: set(combinations(enumerate(case), 2)) for case in cases}
    missing = set().union(*pairs_of.values())
    chosen = []
    while missing:
        best = max(cases, key=lambda case: len(pairs_of[case] & missing))
        chosen.append(best)
        missing -= pairs_of[best]
    return chosen
