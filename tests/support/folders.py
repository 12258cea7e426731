"""Folders of tables in which writers, services or other processes may be at work meanwhile."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["files_below", "make_older"]


def files_below(folder: Path | str) -> Iterator[Path]:
    """All files below a folder, which others may change meanwhile: what vanishes is passed over.

    `Path.rglob` and `Path.glob` raise on Python 3.11 and 3.12 when a folder vanishes under them.
    """
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names)


def make_older(files: Iterable[Path | str], seconds: float = 100_000) -> None:
    """Let files look as if nobody had touched them for so long; others may delete or replace them meanwhile."""
    modified = time.time() - seconds
    for file in files:
        with suppress(FileNotFoundError):
            os.utime(file, (modified, modified))
