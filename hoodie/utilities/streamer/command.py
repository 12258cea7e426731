"""The command line of the streamer: ``hoodie streamer``, ``python -m hoodie.utilities.streamer``."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

from hoodie.common.util.shown_table import plural
from hoodie.exception import HoodieStreamerException
from hoodie.utilities.streamer.arguments import for_the_streamer, help_text, parse_arguments
from hoodie.utilities.streamer.hoodie_streamer import HoodieStreamer
from hoodie.utilities.streamer.multi_table import HoodieMultiTableStreamer, parse_multi_arguments
from hoodie.utilities.streamer.sync_result import SyncResult

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def run_command(arguments: Sequence[str], say: Callable[[str], None], show: Callable[[str], None]) -> None:
    """Run the streamer as a command line says.

    Args:
        arguments: The words after ``hoodie streamer``.
        say: Takes lines about the run, for a person.
        show: Takes the outcome.

    Raises:
        HoodieConfigException: The command line or the properties are wrong.
        HoodieException: A round failed, or a table of several did.
    """
    words, is_multi = for_the_streamer(arguments, say)
    if not words or "--help" in words or "-h" in words:
        show(help_text(is_multi))
        return
    with _logging():
        if is_multi:
            _run_several(words, say, show)
            return
        config = parse_arguments(words, say)
        with _stopping() as stopped:
            streamer = HoodieStreamer(config)
            if config.dry_run:
                show(str(streamer.dry_run()))
                return
            stopped.let_stop(streamer)
            result = streamer.sync()
        if result is not None and not config.continuous:
            show(describe(result))


def describe(result: SyncResult) -> str:
    """The outcome of a round in one line.

    Args:
        result: The outcome.
    """
    if not result.is_committed:
        at = "" if result.position_after is None else f" at {result.position_after!r}"
        return f"nothing new{at}; nothing was committed"
    errors = f", {plural(result.error_count, 'error')}" if result.error_count else ""
    position = "" if result.position_after is None else f"; position {result.position_after!r}"
    return f"committed {result.instant_time}: {plural(result.rows, 'row')}{errors}{position}"


class _Stoppable(Protocol):
    def shutdown_gracefully(self) -> None:
        """Let the present round be the last one."""


def _run_several(words: Sequence[str], say: Callable[[str], None], show: Callable[[str], None]) -> None:
    with _stopping() as stopped:
        runs, parallelism = parse_multi_arguments(words, say)
        streamer = HoodieMultiTableStreamer(runs, parallelism)
        stopped.let_stop(streamer)
        outcomes = streamer.sync()
    for outcome in outcomes:
        if outcome.dry_run is not None:
            show(f"{outcome.name}:\n{outcome.dry_run}")
        elif outcome.error is not None:
            show(f"{outcome.name}: failed: {outcome.error}")
        else:
            show(f"{outcome.name}: {'not begun' if outcome.result is None else describe(outcome.result)}")
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        raise HoodieStreamerException(
            f"{len(failed)} of {len(outcomes)} tables failed: {', '.join(outcome.name for outcome in failed)}"
        )


class _Stop:
    """The receiver of signals: it stops the streamer, once there is one."""

    def __init__(self) -> None:
        self._streamer: _Stoppable | None = None
        self._is_asked = False

    def let_stop(self, streamer: _Stoppable) -> None:
        """Let signals stop a streamer; one that came before stops it before its first round."""
        self._streamer = streamer
        if self._is_asked:
            streamer.shutdown_gracefully()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Hear a signal: the first one finishes the round, the second one ends the process at once."""
        if self._is_asked:
            raise KeyboardInterrupt
        self._is_asked = True
        if self._streamer is not None:
            self._streamer.shutdown_gracefully()


@contextmanager
def _stopping() -> Iterator[_Stop]:
    """Let SIGTERM and SIGINT finish the round; the second one ends the process at once."""
    stop = _Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, stop) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _logging() -> Iterator[None]:
    """Show what hoodie logs on standard error, unless the program has set up logging."""
    if logging.getLogger().handlers:
        yield
        return
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    ours = logging.getLogger("hoodie.utilities")
    others = logging.getLogger("hoodie")
    level = ours.level
    ours.setLevel(logging.INFO)
    others.addHandler(handler)
    try:
        yield
    finally:
        others.removeHandler(handler)
        ours.setLevel(level)
