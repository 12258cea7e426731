"""Lines of the log for questions that another system does not answer, long before they are given up."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hoodie.threads import start_thread

logger = logging.getLogger(__name__)

_FIRST_LINE_S = 3.0
_NEXT_LINE_S = 30.0


class Unanswered:
    """A question that waits for its answer: a warning after 3 seconds, and one every 30 seconds after that.

    Args:
        whom: The system with its address, as the beginning of a sentence: ``Kafka at host:9092``.
        what: The question: ``the partitions of topic trips``.
        gives_up_s: The seconds after which one gives up.
    """

    def __init__(self, whom: str, what: str, gives_up_s: float) -> None:
        self._whom = whom
        self._what = what
        self._gives_up_s = gives_up_s
        self.begin()

    def begin(self) -> None:
        """Begin to wait anew, as something came."""
        self._begun = time.monotonic()
        self._next_line = self._begun + _FIRST_LINE_S

    def look(self, detail: str | None = None) -> None:
        """Warn, if it is time for that; to be called now and then while one waits.

        Args:
            detail: The problem, as far as it is known.
        """
        now = time.monotonic()
        if now < self._next_line:
            return
        self._next_line = now + _NEXT_LINE_S
        waited = now - self._begun
        logger.warning(
            "%s has not answered for %.0f s%s: it was asked for %s, and it is tried for %.0f s more",
            self._whom, waited, f" ({detail})" if detail else "", self._what, max(0.0, self._gives_up_s - waited),
        )  # fmt: skip

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Let a thread look while the block waits for an answer by itself."""
        is_answered = threading.Event()

        def run() -> None:
            while not is_answered.wait(max(0.0, self._next_line - time.monotonic())):
                self.look()

        watching = threading.Thread(target=run, name="hoodie-unanswered", daemon=True)
        start_thread(watching)
        try:
            yield
        finally:
            is_answered.set()
            watching.join()
