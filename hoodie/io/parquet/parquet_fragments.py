"""Several Parquet files of one schema as one scan, on all cores and some batches ahead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
from pyarrow import fs

from hoodie.common.data.expression_tree import Node, columns_of
from hoodie.exception import HoodieException
from hoodie.io.parquet.batches_ahead import batches_ahead
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_BYTES_AHEAD = 32 << 20
"""The bytes of decoded batches that wait for the caller of a scan."""


class StorageHandler(fs.FileSystemHandler):  # type: ignore[misc]
    """The storage as a file system for pyarrow's datasets, with only the methods that they call."""

    def __init__(self, storage: HoodieStorage) -> None:
        self.storage = storage

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageHandler) and self.storage is other.storage

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def get_type_name(self) -> str:
        """A name for messages."""
        return "hoodie"

    def normalize_path(self, path: str) -> str:
        """The path itself."""
        return path

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Open a file for random access reads."""
        return self.storage.open_input_file(path)

    def open_input_stream(self, path: str) -> pa.NativeFile:
        """Open a file for reading."""
        return self.storage.open_input_stream(path)

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """Sizes of files."""
        found = []
        for path in paths:
            status = self.storage.file_status(path)
            kind = fs.FileType.NotFound if status is None else fs.FileType.File
            found.append(fs.FileInfo(path, kind, size=status.size_bytes if status is not None else None))
        return found

    def _refuse(self, *_: object) -> Any:
        raise HoodieException("files of a table are written by its commits only: use a write client")

    get_file_info_selector = delete_dir_contents = delete_root_dir_contents = create_dir = delete_dir = _refuse
    delete_file = move = copy_file = open_output_stream = open_append_stream = _refuse


@cache
def parquet_format() -> ds.ParquetFileFormat:
    """The options for reading base files."""
    # Imported here because it imports pandas, which takes longer than the rest of hoodie.
    import pyarrow.dataset as ds

    return ds.ParquetFileFormat(
        read_options=ds.ParquetReadOptions(coerce_int96_timestamp_unit="us"),
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True),
    )


@attrs.frozen(eq=False)
class ParquetFragment:
    """A Parquet file whose footer was read, to be scanned together with others.

    Attributes:
        path: Full path of the file.
        reader: The open file; it is closed when it is no longer referenced.
        row_groups: Numbers of the row groups that are scanned.
    """

    path: str
    reader: HoodieParquetReader
    row_groups: tuple[int, ...]

    @classmethod
    def open(cls, storage: HoodieStorage, path: str, size_bytes: int = 0) -> ParquetFragment:
        """Read a file's footer.

        Args:
            storage: The storage of the file.
            path: Full path of the file.
            size_bytes: See `HoodieParquetReader`.

        Raises:
            HoodieMissingFileException: There is no such file.
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: It is not a complete Parquet file.
        """
        reader = HoodieParquetReader(storage, path, size_bytes=size_bytes).open()
        return cls(path, reader, tuple(range(reader.num_row_groups)))

    @property
    def row_counts(self) -> list[int]:
        """Rows of each row group of the whole file."""
        counts: list[int] = self.reader.row_group_rows.tolist()
        return counts

    @property
    def num_rows(self) -> int:
        """Rows of the row groups that are scanned."""
        counts = self.row_counts
        return sum(counts[number] for number in self.row_groups)

    def subset(self, row_groups: Sequence[int]) -> ParquetFragment:
        """The given row groups of the file.

        Args:
            row_groups: Their numbers.
        """
        return attrs.evolve(self, row_groups=tuple(row_groups))

    def row_groups_of(self, condition: Node, schema: pa.Schema) -> list[int]:
        """The row groups of the scan that may hold rows of a condition; see `HoodieParquetReader.row_groups_of`."""
        if not self.reader.stores(schema, sorted(columns_of(condition))):
            return list(self.row_groups)
        may_hold = set(self.reader.row_groups_of(condition, schema))
        return [number for number in self.row_groups if number in may_hold]


RowsOfGroup = Callable[[HoodieParquetReader, int, bool], Iterator[pa.RecordBatch]]
"""The rows of a row group by its file and number; the last argument is that of `HoodieParquetReader.iter_batches`."""


def scan_fragments(
    fragments: Sequence[ParquetFragment], rows_of: RowsOfGroup, *, keeps_all: bool = False
) -> Iterator[pa.RecordBatch]:
    """Rows of files in their order, decoded on all cores.

    Memory: `_BYTES_AHEAD` of batches, one batch for each core, and a buffer for each column that is decoded.

    Args:
        fragments: The files.
        rows_of: Reads the rows of a row group; called on several threads.
        keeps_all: Whether the caller keeps all batches, so that no thread has to wait for it.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    groups = [(fragment.reader, number) for fragment in fragments for number in fragment.row_groups]
    # With enough row groups for all cores, each of them is decoded by one core.
    on_all_cores = not keeps_all or len(groups) < pa.cpu_count()
    return batches_ahead(
        [partial(rows_of, *group, on_all_cores) for group in groups], None if keeps_all else _BYTES_AHEAD
    )
