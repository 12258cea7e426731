"""A handle that finds keys in one base file.

Hudi: org.apache.hudi.io.HoodieKeyLookupHandle.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np
import pyarrow as pa

from hoodie.io.parquet.key_search import find_keys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage


@attrs.frozen
class KeyMatches:
    """The rows with given keys: pairs at equal positions of two arrays.

    Attributes:
        key_indices: int32, index into the keys that were looked up.
        row_positions: int64, row of the base file, from 0. A key that occurs twice in the file has two pairs.
        row_groups: The number of row groups of the file, all of which were read.
    """

    key_indices: np.ndarray
    row_positions: np.ndarray
    row_groups: int = 0


class HoodieKeyLookupHandle:
    """Looks keys up in the key column of a base file; reads that column only.

    Args:
        storage: The storage of the file.
        path: Full path of the base file.
        size_bytes: See `HoodieParquetReader`.

    Hudi: org.apache.hudi.io.HoodieKeyLookupHandle. Differs: returns the rows, so that a merge need not search again.
    """

    def __init__(self, storage: HoodieStorage, path: str, size_bytes: int = 0) -> None:
        self._storage = storage
        self._path = path
        self._size_bytes = size_bytes

    def lookup(self, keys: pa.Array, check: Callable[[pa.ChunkedArray], object] | None = None) -> KeyMatches:
        """The rows whose key is among ``keys``.

        Args:
            keys: Distinct record keys (string).
            check: Called with all record keys of the file; its errors are passed on.

        Raises:
            HoodieIOException: The file is missing.
            HoodieCorruptedDataException: It cannot be read.
        """
        with HoodieParquetReader(self._storage, self._path, size_bytes=self._size_bytes) as reader:
            if check is None:
                return KeyMatches(*reader.find_record_keys(keys), reader.num_row_groups)
            stored = reader.read_record_keys()
            row_groups = reader.num_row_groups
        check(stored)
        return KeyMatches(*find_keys(stored, keys), row_groups)
