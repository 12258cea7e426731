"""The errors of a round, in memory while they are few, and in a temporary file beyond that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa

from hoodie.io.spill_file import SpillFile
from hoodie.utilities.ingestion.error_event import ERROR_SCHEMA

_HELD_BYTES: Final = 16 << 20


class ErrorSpool:
    """Keeps batches of errors in their order. A topic of bad messages takes disk, not memory.

    Args:
        held_bytes: The most bytes in memory.
    """

    def __init__(self, held_bytes: int = _HELD_BYTES) -> None:
        self._most = held_bytes
        self._held: list[pa.RecordBatch] = []
        self._bytes = 0
        self._file: SpillFile | None = None
        self._spilled = 0
        self.count = 0
        """The number of errors."""

    def add(self, errors: pa.RecordBatch) -> None:
        """Keep a batch.

        Args:
            errors: Errors, of `hoodie.utilities.ingestion.error_event.ERROR_SCHEMA`.

        Raises:
            HoodieIOException: The temporary file could not be written.
        """
        self.count += len(errors)
        self._held.append(errors)
        self._bytes += errors.nbytes
        if self._bytes <= self._most:
            return
        if self._file is None:
            self._file = SpillFile(None, ERROR_SCHEMA, "errors of a round")
        for batch in self._held:
            self._file.write(batch)
        self._spilled += len(self._held)
        self._held, self._bytes = [], 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, from the first one; nothing may be added after that."""
        if self._file is not None:
            self._file.finish()
            for number in range(self._spilled):
                yield self._file.read(number)
        yield from self._held

    def close(self) -> None:
        """Forget all errors, and delete the file; may be called twice."""
        file, self._file = self._file, None
        self._held, self._bytes, self._spilled = [], 0, 0
        if file is not None:
            file.close()
