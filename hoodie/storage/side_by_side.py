"""Calls of a storage that do not wait for each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from hoodie.storage.storage import HoodieStorage
from hoodie.threads import ThreadPool

_A = TypeVar("_A")
_B = TypeVar("_B")
_C = TypeVar("_C")


@overload
def side_by_side(
    storage: HoodieStorage, first: Callable[[], _A], second: Callable[[], _B], /
) -> tuple[_A, _B]: ...  # pragma: no cover


@overload
def side_by_side(
    storage: HoodieStorage, first: Callable[[], _A], second: Callable[[], _B], third: Callable[[], _C], /
) -> tuple[_A, _B, _C]: ...  # pragma: no cover


def side_by_side(storage: HoodieStorage, /, *calls: Callable[[], Any]) -> tuple[Any, ...]:
    """Make calls at once where the storage waits for a network; elsewhere one after the other, in their order.

    None of them may need that another one was made before it. Each has ended when this function returns or raises.

    Args:
        storage: The storage that they ask.
        calls: The calls.

    Returns:
        Their answers, in their order.

    Raises:
        BaseException: The error of the first call that failed, by their order.
    """
    if not storage.is_remote:
        return tuple(call() for call in calls)
    with ThreadPool(len(calls) - 1, "hoodie-request") as pool:
        others = [pool.submit(call) for call in calls[1:]]
        return (calls[0](), *(other.result() for other in others))
