"""The batches of a source, one after another; in continuous mode, the next one while this one is written.

    fetched = batches.fetch(position)     the batch of a round: the one that was fetched ahead, if it is the right one
    batches.begin_ahead(fetched)          a thread fetches what follows, once this batch is decoded
    batches.tell_source(position)         a commit holds the rows up to it

One thread at a time uses the source. Nobody waits for a source that does not answer, but for a round that needs rows.
"""

from __future__ import annotations

import logging
import threading
from typing import Final

import attrs

from hoodie.threads import start_thread
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import InputBatch, Source
from hoodie.utilities.streamer.streamer_engine import BegunBatch, StreamerEngine

logger = logging.getLogger(__name__)

_GRACE_SECONDS = 2.0
"""The time that the end of a run, or a failed round, waits for a source that is fetching."""
_LOOK_SECONDS = 0.2


class StoppedWaiting(Exception):
    """A round that waits for its source is not wanted any more: a signal of `BatchesAhead.fetch`."""


@attrs.frozen(eq=False)
class FetchedBatch:
    """A batch that the engine has begun to read.

    Attributes:
        asked: The position that it was asked for.
        batch: The batch.
        begun: The reading of it; None for a batch without rows.
    """

    asked: Checkpoint | None
    batch: InputBatch
    begun: BegunBatch | None

    def close(self) -> None:
        """Stop reading; may be called twice."""
        if self.begun is not None:
            self.begun.close()


class BatchesAhead:
    """Fetches the batches of the rounds of a run. Not thread safe, apart from `stop_waiting`.

    Args:
        source: The source; `close_source` closes it.
        engine: Begins to read batches.
        schema_provider: Refreshed before each fetch; None for none.
        source_limit: The most of a batch, in the unit of the source; None for the source's default.
        prefetch_bytes: The most that is decoded before it is written.
    """

    def __init__(
        self,
        source: Source,
        engine: StreamerEngine,
        schema_provider: SchemaProvider | None,
        source_limit: int | None,
        prefetch_bytes: int,
    ) -> None:
        self._source: Final = source
        self._engine: Final = engine
        self._schema_provider: Final = schema_provider
        self._source_limit: Final = source_limit
        self._prefetch_bytes: Final = prefetch_bytes
        self._source_lock: Final = threading.Lock()
        self._is_stopping: Final = threading.Event()
        self._is_closed = False
        self._last: BegunBatch | None = None
        self._ahead: threading.Thread | None = None
        self._next: FetchedBatch | None = None
        self._to_tell: Checkpoint | None = None
        """A position of a commit that the source was not told of yet, as it is busy."""

    def fetch(self, checkpoint: Checkpoint | None) -> FetchedBatch:
        """The next batch: the one that was fetched ahead, if it is the right one. Reading of the one before ends.

        Args:
            checkpoint: The position to read from; None for a table without one.

        Raises:
            StoppedWaiting: The source has not answered yet, and nobody waits for it any more.
            HoodieException: The source or the schema provider failed; see `Source.fetch`.
        """
        fetched = self._take_next()
        if fetched is not None and (fetched.batch.is_empty or fetched.asked != checkpoint):
            fetched.close()
            fetched = None
        if fetched is None:
            fetched = self._fetch_anew(checkpoint)
        self._last = fetched.begun
        return fetched

    def begin_ahead(self, fetched: FetchedBatch) -> None:
        """Let a thread fetch the batch after one, as soon as the latter is decoded.

        Args:
            fetched: The batch of the round. One without a position, or without rows, has no batch after it.
        """
        following, begun = fetched.batch.checkpoint, fetched.begun
        if following is None or begun is None:
            return

        def fetch() -> None:
            begun.wait()
            if self._is_closed:
                return
            try:
                fetched = self._fetch_anew(attrs.evolve(following, is_given=False))
            except Exception as error:
                # The next round fetches again, and tells its own error.
                logger.info("the next batch could not be fetched ahead: %s", error)
                fetched = None
            if fetched is not None and self._ahead is threading.current_thread():
                self._next = fetched
            elif fetched is not None:
                fetched.close()
            if self._is_closed:
                self.close_source()

        self._ahead = threading.Thread(target=fetch, name="hoodie-streamer-ahead", daemon=True)
        start_thread(self._ahead)

    def tell_source(self, checkpoint: Checkpoint) -> None:
        """Tell the source that a commit holds the rows up to a position; a source that fetches hears of it later.

        Args:
            checkpoint: The position.
        """
        self._to_tell = checkpoint
        # A source that fetches the next batch hears of the commit before the fetch after that.
        if self._source_lock.acquire(blocking=False):
            try:
                self._tell_what_waits()
            finally:
                self._source_lock.release()

    def stop_waiting(self) -> None:
        """Let a `fetch` that waits for the batch ahead end with `StoppedWaiting`."""
        self._is_stopping.set()

    def drop(self) -> None:
        """End what is being read, and what reads ahead; a source that does not answer is not waited for."""
        ahead, self._ahead = self._ahead, None
        last, self._last = self._last, None
        if last is not None:
            last.close()
        if ahead is not None:
            ahead.join(_GRACE_SECONDS)
        fetched, self._next = self._next, None
        if fetched is not None:
            fetched.close()

    def close(self) -> None:
        """End what is being read. The source stays open until `close_source`."""
        self._is_closed = True
        self.drop()

    def close_source(self) -> None:
        """Close the source; one that is still fetching is closed by the thread that fetches, once that ends."""
        if not self._source_lock.acquire(timeout=_GRACE_SECONDS):
            logger.warning("the source is still fetching; it is closed when that ends, and nobody waits for it")
            return
        try:
            self._tell_what_waits()
            self._source.close()
        finally:
            self._source_lock.release()

    # --- the source -----------------------------------------------------------------------------------------------

    def _fetch_anew(self, checkpoint: Checkpoint | None) -> FetchedBatch:
        with self._source_lock:
            self._tell_what_waits()
            if self._schema_provider is not None:
                self._schema_provider.refresh()
            batch = self._source.fetch(checkpoint, self._source_limit)
        begun = None if batch.is_empty else self._engine.begin(batch, self._prefetch_bytes)
        return FetchedBatch(checkpoint, batch, begun)

    def _take_next(self) -> FetchedBatch | None:
        """The batch that was fetched ahead; ends what reads the batch before it."""
        last, self._last = self._last, None
        if last is not None:
            last.close()
        ahead = self._ahead
        while ahead is not None and ahead.is_alive():
            ahead.join(_LOOK_SECONDS)
            if self._is_stopping.is_set() and ahead.is_alive():
                raise StoppedWaiting
        self._ahead = None
        fetched, self._next = self._next, None
        return fetched

    def _tell_what_waits(self) -> None:
        """Tell the source of the newest commit, if it was not told yet; called with its lock."""
        checkpoint, self._to_tell = self._to_tell, None
        if checkpoint is None:
            return
        try:
            self._source.on_commit(checkpoint)
        except Exception as error:
            # The rows are committed, whatever the source makes of that.
            logger.warning("the source could not be told of the commit of %r: %s", checkpoint.position, error)
