"""Record keys of files that this process writes, for an index that keeps them in memory."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hoodie.common.fs.file_names import parse_base_file_name

MOST_JOINED_BYTES = 1 << 30
"""Up to this size chunks are joined to one array, whose offsets have 32 bits."""


class WrittenKeys:
    """Record keys of base files by path, in the order of the rows. Safe for the threads of one process."""

    def __init__(self) -> None:
        self._keys: dict[str, tuple[Sequence[pa.Array | range], str | None]] = {}
        self._lock = threading.Lock()

    def put(self, path: str, chunks: Sequence[pa.Array | range], older_path: str | None = None) -> None:
        """Note the record keys of a file.

        Args:
            path: Full path of the file.
            chunks: Its record keys; a range stands for the keys of these rows of an older version.
            older_path: Full path of the older version.
        """
        with self._lock:
            self._keys[path] = chunks, older_path

    def take(self, path: str, known: Mapping[str, pa.ChunkedArray]) -> pa.ChunkedArray | None:
        """Remove the keys of a file and return them.

        Args:
            path: Full path of the file.
            known: The keys of older versions.

        Returns:
            The keys; None if they were not stored here, or if the keys of the older version are not known.
        """
        with self._lock:
            chunks, older_path = self._keys.pop(path, ((), None))
        found: list[pa.Array] = []
        for chunk in chunks:
            if isinstance(chunk, range):
                older = known.get(older_path or "")
                if older is None or len(older) < chunk.stop:
                    return None
                found += older.slice(chunk.start, len(chunk)).chunks
            else:
                found.append(chunk)
        return compact_keys(pa.chunked_array(found, pa.string())) if chunks else None

    def forget(self, instant_time: str) -> None:
        """Drop the files of an instant."""
        with self._lock:
            for path in [path for path in self._keys if is_of_instant(path, instant_time)]:
                del self._keys[path]


def is_of_instant(path: str, instant_time: str) -> bool:
    """Whether an instant wrote a base file, by the name of the file."""
    name = parse_base_file_name(path.rsplit("/", 1)[-1])
    return name is not None and name.instant_time == instant_time


def compact_keys(keys: pa.ChunkedArray) -> pa.ChunkedArray:
    """Copy keys to buffers of the needed size, because a slice keeps the whole buffers alive from which it was cut."""
    if keys.nbytes > MOST_JOINED_BYTES:
        return keys
    return pa.chunked_array([pa.concat_arrays([*keys.chunks, pa.array([], keys.type)])], keys.type)
