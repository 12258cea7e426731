"""The instants that clients of this process have begun, so that those of other processes can be told from them."""

from __future__ import annotations

import os

__all__ = ["forget_instant", "is_begun_here", "note_instant"]

_begun: set[tuple[str, str]] = set()
"""Base path and instant time; what is never ended stays for as long as the process lives."""


def note_instant(base_path: str, instant_time: str) -> None:
    """To be called before the instant can be seen."""
    _begun.add((base_path, instant_time))


def forget_instant(base_path: str, instant_time: str) -> None:
    """It has ended, or was never made."""
    _begun.discard((base_path, instant_time))


def is_begun_here(base_path: str, instant_time: str) -> bool:
    """Whether a client of this process began it; False in a forked child for those of its parent."""
    return (base_path, instant_time) in _begun


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begun.clear)
