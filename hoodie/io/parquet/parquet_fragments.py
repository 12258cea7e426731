"""Several Parquet files of one schema as one scan, on all cores and some batches ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from hoodie.common.model.record_columns import COMMIT_TIME_META
from hoodie.exception import HoodieException, HoodieIOException
from hoodie.io.parquet.footer_tail import missing_base_file
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, check_size, translated_errors
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    import pyarrow.dataset as ds

BATCH_READAHEAD = 2
"""Batches of a file that are decoded ahead. Memory grows with it, speed hardly does."""
FRAGMENT_READAHEAD = 2
"""Files that are opened ahead."""
_COUNTED_ROWS = 1 << 16


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
        return self.storage.open_input_file(path)

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
        storage: Its storage.
        fragment: The open file for pyarrow; it is closed when it is no longer referenced.
    """

    path: str
    storage: HoodieStorage
    fragment: ds.ParquetFileFragment

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
        with translated_errors(path):
            try:
                # Opened here: threads of pyarrow that call back to Python may wait for a thread that waits for them.
                source = storage.open_input_file(path)
            except FileNotFoundError as error:
                raise missing_base_file(storage, path) from error
            check_size(path, source, size_bytes)
            fragment = parquet_format().make_fragment(source)
            fragment.ensure_complete_metadata()
        return cls(path, storage, fragment)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the file in its own types."""
        return self.fragment.physical_schema

    @property
    def num_row_groups(self) -> int:
        """Row groups of the whole file."""
        return int(self.fragment.metadata.num_row_groups)

    @property
    def num_rows(self) -> int:
        """Rows of the row groups that are scanned."""
        return sum(int(group.num_rows) for group in self.fragment.row_groups)

    @property
    def row_counts(self) -> list[int]:
        """Rows of each row group of the whole file."""
        metadata = self.fragment.metadata
        return [int(metadata.row_group(number).num_rows) for number in range(metadata.num_row_groups)]

    @property
    def entries(self) -> dict[bytes, bytes]:
        """Key/value pairs of the footer."""
        return self.fragment.metadata.metadata or {}

    def stores(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> bool:
        """Whether columns of the file have the types of a schema. A column that the file lacks counts as yes.

        Args:
            schema: The wanted types.
            columns: The columns; None for all of the schema.
        """
        stored = self.schema
        known = set(stored.names)
        names = [name for name in columns or schema.names if name in known]
        return all(stored.field(name).type == schema.field(name).type for name in names)

    def row_groups_of(self, condition: pc.Expression, schema: pa.Schema) -> list[int]:
        """Numbers of the row groups that may hold rows of a condition, by their statistics.

        Args:
            condition: A condition that statistics can decide; see `hoodie.common.data.row_filter`.
            schema: The columns; the file must store these types.
        """
        with translated_errors(self.path):
            return [group.id for group in self.fragment.subset(filter=condition, schema=schema).row_groups]

    def stored_bytes(self, columns: Sequence[str], row_groups: Sequence[int] | None = None) -> int:
        """The stored bytes of columns.

        Args:
            columns: Names; columns that the file lacks have no bytes.
            row_groups: Numbers of row groups; None for all.
        """
        metadata = self.fragment.metadata
        wanted = set(columns)
        numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
        chunks = [
            metadata.row_group(number).column(column) for number in numbers for column in range(metadata.num_columns)
        ]
        return sum(
            int(chunk.total_compressed_size) for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted
        )

    def subset(self, row_groups: Sequence[int]) -> ParquetFragment:
        """The given row groups of the file.

        Args:
            row_groups: Their numbers.
        """
        return ParquetFragment(self.path, self.storage, self.fragment.subset(row_group_ids=list(row_groups)))


def scan_fragments(
    fragments: Sequence[ParquetFragment],
    schema: pa.Schema,
    columns: Sequence[str],
    pushed: pc.Expression | None,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Rows of files in their order. Row groups without rows of the filter are skipped.

    Memory: some batches, and the buffers of some row groups.

    Args:
        fragments: The files. Each has the columns in exactly the types of the schema, or lacks them; a missing column
            is null.
        schema: The columns.
        columns: Names, in the order of the result.
        pushed: The filter; see `hoodie.common.data.row_filter` for its form. None for all rows.
        batch_rows: The most rows of a batch.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    read = list(columns)
    if pushed is not None and len(read) == 1:
        read += [name for name in _small_columns(fragments, schema) if name not in columns][:1]
    scanner = _dataset_of(fragments, schema).scanner(
        columns=read, filter=pushed, batch_size=batch_rows,
        batch_readahead=BATCH_READAHEAD, fragment_readahead=FRAGMENT_READAHEAD,
    )  # fmt: skip
    batches = iter(scanner.to_reader())
    rows_read = 0
    while True:
        try:
            batch = next(batches, None)
        except HoodieException:
            raise
        except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
            raise _named(error, fragments, columns) from error
        if batch is None:
            break
        rows_read += batch.num_rows
        if batch.num_rows:
            yield batch if len(read) == len(columns) else batch.select(list(columns))
    if pushed is None and rows_read != (expected_rows := sum(fragment.num_rows for fragment in fragments)):
        raise _named(
            pa.ArrowInvalid(f"they have {expected_rows} rows, but {rows_read} could be read"), fragments, columns
        )


def count_rows(fragments: Sequence[ParquetFragment], schema: pa.Schema, pushed: pc.Expression | None) -> int:
    """The number of rows of files. Without a filter, no column is read.

    Args:
        fragments: See `scan_fragments`.
        schema: See `scan_fragments`.
        pushed: See `scan_fragments`.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    if pushed is None:
        return sum(fragment.num_rows for fragment in fragments)
    columns = _small_columns(fragments, schema)[:2] or schema.names[:1]
    return sum(batch.num_rows for batch in scan_fragments(fragments, schema, columns, pushed, _COUNTED_ROWS))


def _small_columns(fragments: Sequence[ParquetFragment], schema: pa.Schema) -> list[str]:
    """The columns that all files store, the cheapest to decode first.

    Headers of pages have no checksum, and pyarrow ends a column without an error at a damaged one. If it reads two
    columns, it notices that their lengths differ. Missing rows could not be counted afterwards, because it filters
    them.
    """
    known = set(schema.names).intersection(*(set(fragment.schema.names) for fragment in fragments))
    return sorted(known, key=lambda name: _decoding_cost(schema.field(name)))


def _decoding_cost(field: pa.Field) -> tuple[int, int, str]:
    # Of texts, a commit time is the shortest that every file has, and one of few values.
    if pa.types.is_primitive(field.type):
        return 0, int(field.type.bit_width), str(field.name)
    return (1 if field.name == COMMIT_TIME_META else 3 if pa.types.is_nested(field.type) else 2), 0, str(field.name)


def _dataset_of(fragments: Sequence[ParquetFragment], schema: pa.Schema) -> ds.FileSystemDataset:
    # Imported here for the same reason as in `parquet_format`.
    import pyarrow.dataset as ds

    return ds.FileSystemDataset([found.fragment for found in fragments], schema, parquet_format())


def _named(error: Exception, fragments: Sequence[ParquetFragment], columns: Sequence[str]) -> Exception:
    """The error with the name of its file, which pyarrow does not give: the files are read one by one to find it."""
    for found in fragments:
        try:
            with HoodieParquetReader(found.storage, found.path) as reader:
                known = set(reader.file_schema.names)
                names = [name for name in columns if name in known]
                for _ in reader.iter_batches(names, reader.file_schema):
                    pass
        except HoodieException as one:
            return one
    paths = ", ".join(f.path for f in fragments)
    return HoodieIOException(f"reading {paths} failed: {error}")
