"""A local file of batches that do not fit into memory. It has no name, so it ends with the process, however that ends.

Hudi: org.apache.hudi.common.util.collection.BitCaskDiskMap. Differs: holds batches by number, without keys.
"""

from __future__ import annotations

import mmap
import tempfile
from typing import IO, Self

import pyarrow as pa

from hoodie.exception import HoodieIOException


class SpillFile:
    """Batches that are written once and then read by their numbers; a context manager.

    Memory: the batch that is written or read.

    Args:
        folder: The local folder; None for the system's folder for temporary files.
        schema: The columns.
        content: The rows and the property by which they are too many, for messages: ``rows of more than 10 bytes (k)``.
        is_compressed: Whether to compress with lz4. `mapped` is of use for files that are not compressed.

    Attributes:
        num_batches: The number of batches that were written.
    """

    def __init__(self, folder: str | None, schema: pa.Schema, content: str, *, is_compressed: bool = False) -> None:
        self._folder = folder
        self._schema = schema
        self._content = content
        self._options = pa.ipc.IpcWriteOptions(compression="lz4" if is_compressed else None)
        self._file: IO[bytes] | None = None
        self._writer: pa.RecordBatchFileWriter | None = None
        self._reader: pa.RecordBatchFileReader | None = None
        self.num_batches = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, batch: pa.RecordBatch) -> None:
        """Add a batch at the end.

        Args:
            batch: Rows with the columns of the file.

        Raises:
            HoodieIOException: The file cannot be made or written.
        """
        try:
            if self._writer is None:
                self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115  # `close` closes it.
                self._writer = pa.ipc.new_file(self._file, self._schema, options=self._options)
            self._writer.write_batch(batch)
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error
        self.num_batches += 1

    def finish(self) -> None:
        """End writing; batches can be read from now on.

        Raises:
            HoodieIOException: The file cannot be written.
        """
        if self._writer is None or self._file is None:
            return
        try:
            self._writer.close()
            self._file.flush()
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error) from error

    def read(self, number: int) -> pa.RecordBatch:
        """A batch, in memory of its own.

        Args:
            number: The number of the batch, from 0.

        Raises:
            HoodieIOException: The file cannot be read.
        """
        assert self._file is not None, "the file is closed"
        try:
            if self._reader is None:
                self._reader = pa.ipc.open_file(pa.PythonFile(self._file, "r"))
            return self._reader.get_batch(number)
        except (OSError, pa.ArrowException) as error:
            raise self._failed(error, "read") from error

    def mapped(self) -> list[pa.RecordBatch]:
        """All batches, in memory that the system reads from the file when it is looked at, and drops at will.

        Raises:
            HoodieIOException: The file cannot be read.
        """
        if self._file is None:
            return []
        try:
            content = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except OSError as error:
            raise self._failed(error, "read") from error
        reader = pa.ipc.open_file(pa.BufferReader(pa.py_buffer(content)))
        return [reader.get_batch(number) for number in range(reader.num_record_batches)]

    def close(self) -> None:
        """Remove the file; a second call does nothing. Mapped batches stay."""
        file, self._file, self._writer, self._reader = self._file, None, None, None
        if file is not None:
            file.close()

    def _failed(self, error: Exception, verb: str = "written") -> HoodieIOException:
        return HoodieIOException(
            f"{self._content} go to a file in {self._folder or tempfile.gettempdir()} "
            f"(hoodie.memory.spillable.map.path), which cannot be {verb}: {error}; give more memory, or a folder with "
            "more room"
        )
