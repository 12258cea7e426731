"""Small files of metadata tables, decoded once for each process.

A writer reads the newest slices of its metadata table several times in a commit. In the next commit it reads the same
files and one more. No file of a metadata table changes after it was written, except by an append, which changes its
size. A name may come again after a rollback, with another write token or time of modification.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import attrs
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.common.util.bounded_cache import BoundedCache
from hoodie.io.log.log_block import StoredLogBlock
from hoodie.metadata.records.metadata_records import MetadataPayload

_MAX_BYTES = 32 << 20
_MAX_BYTES_OF_VALUE = 1 << 20
_BLOCK_BYTES = 500
"""The memory of a log block beside its content."""
SMALL_BYTES = 128 << 10
"""Larger files and log blocks are not decoded whole: only the wanted entries are read."""


@attrs.frozen(eq=False)
class DecodedEntries:
    """All entries of an HFile or of an HFile block, or the live records of a slice.

    Attributes:
        keys: Their keys (string), ascending.
        rows: One for each key; of the payload's schema.
    """

    keys: pa.Array
    rows: pa.RecordBatch


class DecodedFiles:
    """A cache of the decoded small files of metadata tables. Safe for threads."""

    def __init__(self) -> None:
        self._blocks: BoundedCache[tuple[StoredLogBlock, ...]] = BoundedCache(_MAX_BYTES, _MAX_BYTES_OF_VALUE)
        self._entries: BoundedCache[DecodedEntries] = BoundedCache(_MAX_BYTES, _MAX_BYTES_OF_VALUE)
        self._merged: BoundedCache[DecodedEntries] = BoundedCache(_MAX_BYTES, _MAX_BYTES_OF_VALUE)

    def find(self, log_file: HoodieLogFile) -> Sequence[StoredLogBlock] | None:
        """See `hoodie.io.log.log_block_scanner.KnownLogBlocks`."""
        return self._blocks.get(_identity(log_file)) if log_file.modification_time_ms else None

    def keep(self, log_file: HoodieLogFile, blocks: Sequence[StoredLogBlock]) -> None:
        """Keep the blocks of a log file; see `find`."""
        if log_file.modification_time_ms and all(block.content is not None for block in blocks):
            size_bytes = sum(_BLOCK_BYTES + block.content_bytes for block in blocks)
            self._blocks.put(_identity(log_file), tuple(blocks), size_bytes)

    def find_entries(
        self, file: HoodieBaseFile | HoodieLogFile, offset_bytes: int, payload: MetadataPayload
    ) -> DecodedEntries | None:
        """The entries of a base file, or of a block of a log file; None if they are not kept.

        Args:
            file: The file.
            offset_bytes: The offset of the block in the file; 0 for a base file.
            payload: The payload of the rows.
        """
        return self._entries.get((_identity(file), offset_bytes, payload)) if file.modification_time_ms else None

    def keep_entries(
        self, file: HoodieBaseFile | HoodieLogFile, offset_bytes: int, payload: MetadataPayload, entries: DecodedEntries
    ) -> None:
        """Keep the entries of a base file or of a block; see `find_entries`."""
        if file.modification_time_ms:
            size_bytes = entries.keys.nbytes + entries.rows.nbytes
            self._entries.put((_identity(file), offset_bytes, payload), entries, size_bytes)

    def find_merged(
        self, file_slice: FileSlice, blocks: Sequence[StoredLogBlock], payload: MetadataPayload
    ) -> tuple[DecodedEntries | None, int]:
        """The kept merge result of the base file and the first log blocks of a slice.

        Args:
            file_slice: The slice.
            blocks: The log blocks of the slice that count, in the order in which they are merged.
            payload: The payload of the rows.

        Returns:
            The merged records for the largest number of blocks that is kept, and that number; None and 0 if nothing is
            kept.
        """
        places = _places(file_slice, blocks)
        if places is None:
            return None, 0
        for count in range(len(blocks), -1, -1):
            found = self._merged.get((places[: count + 1], payload))
            if found is not None:
                return found, count
        return None, 0

    def keep_merged(
        self,
        file_slice: FileSlice,
        blocks: Sequence[StoredLogBlock],
        payload: MetadataPayload,
        merged: DecodedEntries,
    ) -> None:
        """Keep the merge result of the base file and all of the given blocks; see `find_merged`."""
        places = _places(file_slice, blocks)
        if places is not None:
            size_bytes = merged.keys.nbytes + merged.rows.nbytes + _BLOCK_BYTES * len(places)
            self._merged.put((places, payload), merged, size_bytes)

    def clear(self) -> None:
        """Forget everything."""
        self._blocks.clear()
        self._entries.clear()
        self._merged.clear()


DECODED_FILES = DecodedFiles()
"""The cache of this process."""


def _identity(file: HoodieBaseFile | HoodieLogFile) -> tuple[str, int, int]:
    return file.path, file.size_bytes, file.modification_time_ms


def _places(file_slice: FileSlice, blocks: Sequence[StoredLogBlock]) -> tuple[Hashable, ...] | None:
    """A key of the base file of a slice and its log blocks, in order; None if a file has no time of
    modification.
    """
    base_file, log_files = file_slice.base_file, file_slice.log_files
    times = [log_file.modification_time_ms for log_file in log_files]
    if base_file is not None:
        times.append(base_file.modification_time_ms)
    if not all(times):
        return None
    known = {log_file.path: _identity(log_file) for log_file in log_files}
    base = None if base_file is None else _identity(base_file)
    return base, *((known[block.path], block.offset_bytes) for block in blocks)
