"""Show output by a pager, where a person asks for one."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from hoodie.exception import HoodieConfigException

PAGER_VARIABLE = "HOODIE_PAGER"
"""The program of ``--pager``; where it is set, each command on a terminal has a pager."""


@contextmanager
def paged(is_asked: bool) -> Iterator[None]:
    """Send what a block prints to a pager, if standard output is a terminal.

    The pager starts with the first output, so that a question can be answered before. Output to a pager has the form
    of output to the terminal.

    Args:
        is_asked: Whether ``--pager`` was given; without it, `PAGER_VARIABLE` decides.

    Raises:
        HoodieConfigException: There is no such program.
    """
    program = os.environ.get(PAGER_VARIABLE) or (is_asked and (os.environ.get("PAGER") or "less"))
    if not program or not sys.stdout.isatty():
        yield
        return
    words: list[str] = []
    with suppress(ValueError):
        words = shlex.split(program)
    if not words or shutil.which(words[0]) is None:
        raise HoodieConfigException(
            f"the pager {program!r} is no program that is installed: set {PAGER_VARIABLE} or PAGER to one, such as less"
        )
    terminal, entry = sys.stdout, _PagerInput(words)
    encoding = terminal.encoding or "utf-8"
    sys.stdout = io.TextIOWrapper(io.BufferedWriter(entry), encoding=encoding, errors="backslashreplace")
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        """The person has seen enough."""
    finally:
        with suppress(BrokenPipeError):
            sys.stdout.close()
        sys.stdout = terminal
        entry.wait()


class _PagerInput(io.RawIOBase):
    """The input of a pager, which is started by the first output."""

    def __init__(self, words: list[str]) -> None:
        self._words = words
        self._process: subprocess.Popen[bytes] | None = None

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return True

    def write(self, data: object) -> int:
        if self._process is None:
            self._process = subprocess.Popen(self._words, stdin=subprocess.PIPE)
        assert self._process.stdin is not None
        written = self._process.stdin.write(data)  # type: ignore[call-overload]
        self._process.stdin.flush()
        return int(written)

    def wait(self) -> None:
        """Wait until the person leaves the pager; Ctrl-C is for the pager meanwhile."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        while True:
            with suppress(KeyboardInterrupt):
                self._process.wait()
                return
