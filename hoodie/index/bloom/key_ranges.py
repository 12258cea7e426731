"""The smallest and largest keys of base files and of their row groups, read once and cached.

Hudi: org.apache.hudi.index.bloom.BloomIndexFileInfo.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence

import attrs

from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException, HoodieException
from hoodie.io.parquet.footer_tail import read_key_range, read_short_metadata
from hoodie.io.parquet.parquet_footer import Footer, parse_footer
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, RowGroupKeys, row_group_keys
from hoodie.storage.storage import HoodieStorage

logger = logging.getLogger(__name__)

CACHE_BYTES = 64 << 20
"""The approximate memory of a cache: enough for the ranges of some 50,000 files with short keys."""
_OBJECT_BYTES = 150
"""The approximate memory of a range without its keys."""


@attrs.frozen
class BloomIndexFileInfo:
    """The key ranges in the footer of a base file.

    Attributes:
        min_key: UTF-8; no key is smaller in the order of the file's writer (Java's, or that of UTF-8 bytes). None if
            the footer has no range.
        max_key: Likewise, the largest key.
        row_groups: The statistics of each row group; None if the range was found at the end of the file, and no more
            was read.

    Hudi: org.apache.hudi.index.bloom.BloomIndexFileInfo. Differs: knows row groups.
    """

    min_key: bytes | None
    max_key: bytes | None
    row_groups: tuple[RowGroupKeys, ...] | None

    @property
    def nbytes(self) -> int:
        """The approximate memory that it takes."""
        ends = [(self.min_key, self.max_key), *((group.min_key, group.max_key) for group in self.row_groups or ())]
        return sum(_OBJECT_BYTES + len(low or b"") + len(high or b"") for low, high in ends)

    @property
    def rows(self) -> int:
        """The number of rows of the file; 0 if only its end was read."""
        return sum(group.rows for group in self.row_groups or ())

    @classmethod
    def read_range(cls, storage: HoodieStorage, path: str) -> BloomIndexFileInfo:
        """Read the range from the end of the file if it is there; otherwise see `read`."""
        found = read_key_range(storage, path)
        return cls(*found, None) if found is not None else cls.read(storage, path)

    @classmethod
    def read(cls, storage: HoodieStorage, path: str) -> BloomIndexFileInfo:
        """Read the footer of a base file.

        Args:
            storage: Its storage.
            path: Full path of the file.

        Raises:
            HoodieIOException: The file is missing.
            HoodieCorruptedDataException: It is not a whole Parquet file.
        """
        try:
            metadata = read_short_metadata(storage, path)
            if metadata is not None:
                return cls._of(tuple(row_group_keys(path, metadata)), parse_footer(path, metadata.metadata))
        except (OSError, HoodieException):
            logger.debug("reading the whole footer of %s", path, exc_info=True)
        with HoodieParquetReader(storage, path) as reader:
            row_groups = tuple(reader.row_group_keys())
            try:
                return cls._of(row_groups, reader.footer())
            except HoodieCorruptedDataException as error:
                logger.warning("%s; its keys are looked for without range and filter", error)
                return cls(None, None, row_groups)

    @classmethod
    def _of(cls, row_groups: tuple[RowGroupKeys, ...], footer: Footer) -> BloomIndexFileInfo:
        if footer.min_record_key is None or footer.max_record_key is None:
            return cls(None, None, row_groups)
        return cls(footer.min_record_key.encode(), footer.max_record_key.encode(), row_groups)


@attrs.frozen
class ReadFileInfos:
    """Task: read the key ranges in the footers of base files.

    Attributes:
        storage: The storage of the files.
        whole: Whether the ranges of row groups are needed, too.
    """

    storage: HoodieStorage
    whole: bool = True

    def __call__(self, task: TaskIdentity, paths: Sequence[str]) -> list[BloomIndexFileInfo]:
        read = BloomIndexFileInfo.read if self.whole else BloomIndexFileInfo.read_range
        return [read(self.storage, path) for path in paths]


class KeyRangeCache:
    """The key ranges of files by path; base files never change. It is safe for several threads.

    Args:
        max_bytes: The approximate limit of its memory; the entries that were used least recently go first.
    """

    def __init__(self, max_bytes: int = CACHE_BYTES) -> None:
        self._max_bytes = max_bytes
        self._infos: OrderedDict[str, BloomIndexFileInfo] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """The number of files in the cache."""
        return len(self._infos)

    @property
    def nbytes(self) -> int:
        """The approximate memory that it takes."""
        return self._bytes

    def get(self, path: str) -> BloomIndexFileInfo | None:
        """The ranges of a file; None if they are not in the cache.

        Args:
            path: Full path.
        """
        with self._lock:
            info = self._infos.get(path)
            if info is not None:
                self._infos.move_to_end(path)
            return info

    def put(self, path: str, info: BloomIndexFileInfo) -> None:
        """Keep the ranges of a file.

        Args:
            path: Full path.
            info: The ranges.
        """
        with self._lock:
            known = self._infos.pop(path, None)
            self._bytes += _size(path, info) - (_size(path, known) if known is not None else 0)
            self._infos[path] = info
            while self._bytes > self._max_bytes and self._infos:
                oldest, dropped = self._infos.popitem(last=False)
                self._bytes -= _size(oldest, dropped)


def _size(path: str, info: BloomIndexFileInfo) -> int:
    return len(path) + info.nbytes
