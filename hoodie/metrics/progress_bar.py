"""One line that shows the progress of a long write: on a terminal, or in a notebook's cell."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any, Protocol, TextIO

from hoodie.metrics.progress import ProgressEvent, ProgressListener, ProgressState

DELAY_SECONDS = 2.0
"""Calls that end sooner show nothing."""
BAR_CELLS = 20
NOTEBOOK_COLUMNS = 100


class Display(Protocol):
    """A place for one line of text that is replaced often."""

    @property
    def columns(self) -> int:
        """The number of characters that fit in the line."""

    def show(self, line: str) -> None:
        """Put a line in place of the one before."""

    def clear(self) -> None:
        """Take the line away."""

    def leave(self, line: str) -> None:
        """Put a line that stays in place of the one before."""


class TerminalDisplay:
    """The current line of a terminal, rewritten by carriage returns.

    Args:
        stream: A text stream that is a terminal.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._length = 0

    @property
    def columns(self) -> int:
        """One less than the terminal has, because many terminals begin a new line in the last column."""
        try:
            return max(1, os.get_terminal_size(self._stream.fileno()).columns or 80) - 1
        except (OSError, ValueError):
            return 79

    def show(self, line: str) -> None:
        """Put a line in place of the one before."""
        self._write("\r" + line.ljust(min(self._length, self.columns)))
        self._length = len(line)

    def clear(self) -> None:
        """Take the line away."""
        self._write("\r" + " " * min(self._length, self.columns) + "\r")
        self._length = 0

    def leave(self, line: str) -> None:
        """Put a line that stays in place of the one before."""
        self.clear()
        self._write(line + "\n")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            """The terminal is gone; the write goes on."""


class NotebookDisplay:
    """A text below a notebook's cell, replaced in place.

    Args:
        display: ``IPython.display.display``.
    """

    columns = NOTEBOOK_COLUMNS

    def __init__(self, display: Any) -> None:
        self._display = display
        self._handle: Any = None

    def show(self, line: str) -> None:
        """Put a line in place of the one before."""
        content = {"text/plain": line}
        if self._handle is None:
            self._handle = self._display(content, raw=True, display_id=True)
        else:
            self._handle.update(content, raw=True)

    def clear(self) -> None:
        """Take the line away."""
        if self._handle is not None:
            self.show("")

    def leave(self, line: str) -> None:
        """Put a line that stays in place of the one before."""
        self.show(line)
        self._handle = None


class ProgressBar(ProgressListener):
    """Shows the step of a client's call, its tasks and the time, once the call has taken a while.

    The line disappears at the end. After a successful call, one line with the result stays.

    Args:
        display: The display that shows the line.
        delay_seconds: Calls that end sooner show nothing.
    """

    def __init__(self, display: Display, delay_seconds: float = DELAY_SECONDS) -> None:
        self._display = display
        self._delay_seconds = delay_seconds
        self._lock = threading.Lock()
        self._running: list[ProgressEvent] = []
        self._operation = ""
        self._started = 0.0
        self._is_shown = False

    def begin(self, operation: str) -> None:
        """A call begins."""
        self._operation, self._started = operation, time.monotonic()
        self._running, self._is_shown = [], False

    def on_event(self, event: ProgressEvent) -> None:
        """Remember the running steps."""
        with self._lock:
            del self._running[event.depth :]
            if event.state in (ProgressState.STARTED, ProgressState.ADVANCED):
                self._running.append(event)

    def tick(self) -> None:
        """Draw the line, once the call has taken a while."""
        with self._lock:
            event = self._running[-1] if self._running else None
        seconds = time.monotonic() - self._started
        if event is not None and seconds >= self._delay_seconds:
            self._is_shown = True
            self._display.show(bar_line(self._operation, event, seconds, self._display.columns))

    def end(self, summary: str) -> None:
        """Take the line away, if there is one."""
        if not self._is_shown:
            return
        self._is_shown = False
        if summary:
            self._display.leave(f"hoodie: {summary} in {_duration(time.monotonic() - self._started)}")
        else:
            self._display.clear()


def bar_line(operation: str, event: ProgressEvent, seconds: float, columns: int) -> str:
    """The text of the line, shortened to the room that there is; the step is the last part to go.

    Args:
        operation: The client's call.
        event: The innermost running step.
        seconds: The time since the call began.
        columns: The number of characters that fit.

    Returns:
        For example ``hoodie upsert: write buckets (12) [=======>    ] 7/12 tasks, 0:42``.
    """
    step, elapsed = event.title, _duration(seconds)
    candidates = [f"hoodie {operation}: {step}, {elapsed}", f"{step}, {elapsed}", step]
    if event.total:
        filled = BAR_CELLS * event.done // event.total
        bar = ("=" * filled + ">" * (filled < BAR_CELLS)).ljust(BAR_CELLS)
        tasks = f"{event.done}/{event.total}"
        candidates = [
            f"hoodie {operation}: {step} [{bar}] {tasks} tasks, {elapsed}",
            f"{step} [{bar}] {tasks} tasks, {elapsed}",
            f"{step} {tasks}, {elapsed}",
            f"{step} {tasks}",
        ]
    return next((line for line in candidates if len(line) <= columns), candidates[-1][:columns])


def progress_bar(
    force: bool = False,
    terminal_is_taken: bool = False,
    stream: TextIO | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProgressBar | None:
    """Make a bar if a person would see it.

    Args:
        force: Draw in continuous integration, and beside the engine's own bar, as well.
        terminal_is_taken: Whether the engine draws a bar on the terminal.
        stream: Standard error when it is None.
        environment: Environment variables; those of the process when it is None.

    Returns:
        None if nobody would see the bar or there is no place for it: standard error is no terminal and there is no
        notebook, or the terminal has no cursor, belongs to continuous integration, or has another bar.
    """
    variables = os.environ if environment is None else environment
    target = sys.stderr if stream is None else stream
    if variables.get("CI", "").lower() not in ("", "0", "false") and not force:
        return None
    notebook = _notebook_display()
    if notebook is not None:
        return ProgressBar(NotebookDisplay(notebook))
    if variables.get("TERM") == "dumb" or (terminal_is_taken and not force) or not _is_terminal(target):
        return None
    return ProgressBar(TerminalDisplay(target))


def _is_terminal(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty()
    except ValueError:  # closed
        return False


def _notebook_display() -> Any:
    """IPython's ``display`` if this process is the kernel of a notebook, else None. Imports nothing."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return getattr(sys.modules.get("IPython.display"), "display", None)


def _duration(seconds: float) -> str:
    """``0:42``, ``1:02:03``."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
