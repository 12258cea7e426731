"""The instants that clients of this process have begun; all others belong to other processes."""

from __future__ import annotations

import os

_begun: set[tuple[str, str]] = set()
"""Base path and instant time. An instant that never ends stays here for the life of the process."""


def note_instant(base_path: str, instant_time: str) -> None:
    """Register an instant; call this before other writers can see it."""
    _begun.add((base_path, instant_time))


def forget_instant(base_path: str, instant_time: str) -> None:
    """Remove an instant that has ended or was never made."""
    _begun.discard((base_path, instant_time))


def is_begun_here(base_path: str, instant_time: str) -> bool:
    """Whether a client of this process began the instant; a forked child forgets those of its parent."""
    return (base_path, instant_time) in _begun


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begun.clear)
