"""Reader of Parquet base files of any writer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hoodie.common.data.expression_tree import Node, columns_of
from hoodie.common.data.range_matching import may_match
from hoodie.common.model.record_columns import (
    COMMIT_TIME_META,
    FILE_NAME_META,
    PARTITION_PATH_META,
    RECORD_KEY_META,
)
from hoodie.common.util.arrow_buffers import array_of, structs_of
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    MissingSchemaFieldException,
)
from hoodie.io.parquet.column_adaptation import adapt_batch, chosen_schema
from hoodie.io.parquet.footer_tail import missing_base_file
from hoodie.io.parquet.key_search import FoundRows, KeySearch, find_keys, is_searchable, known_range, merged_rows
from hoodie.io.parquet.parquet_footer import Footer, KeyRange, parse_footer
from hoodie.io.parquet.repeated_texts import RepeatedTexts
from hoodie.io.parquet.row_taking import RowTaker, is_only_dictionary
from hoodie.io.parquet.stored_ranges import StoredRanges
from hoodie.storage.listed_files import open_listed_file
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    from hoodie.io.parquet.splicing import CopiedForm, ReadAt, StoredColumns, StoredRowGroup

_BUFFER_BYTES = 1 << 20
"""A column of a row group is read in steps of this size, not at once."""
_BATCH_BYTES = 64 << 20
"""Batches of longer rows have fewer of them, so that they take no more than this."""


@attrs.frozen
class RowGroupKeys:
    """The statistics of a row group about its record keys.

    Attributes:
        rows: Rows of the row group.
        min_key: UTF-8; no key has smaller bytes. None when the statistics lack it, as for very long keys.
        max_key: UTF-8; no key has larger bytes. None likewise.
    """

    rows: int
    min_key: bytes | None
    max_key: bytes | None


class HoodieParquetReader:
    """One base file, open for reading; a context manager.

    Memory: a buffer for each column and one batch while iterating; otherwise the columns that are read.

    Args:
        storage: The storage of the file; None for a file in memory.
        path: Full path of the file; for a file in memory, its name in messages.
        dictionaries: Top-level columns of strings that `iter_batches` yields as dictionaries.
        content: The bytes of a file in memory.
        size_bytes: Its size by a commit or a listing; a file of another size is damaged. 0 if it is not known.

    Hudi: org.apache.hudi.io.hadoop.HoodieAvroParquetReader. Differs: reads batches.
    """

    def __init__(
        self,
        storage: HoodieStorage | None,
        path: str,
        dictionaries: Sequence[str] = (),
        *,
        content: bytes | None = None,
        size_bytes: int = 0,
    ) -> None:
        self._storage = storage
        self._content = content
        self._told_bytes = size_bytes
        self._dictionaries = list(dictionaries)
        self._path = path
        self._stream: pa.NativeFile | None = None
        self._file: pq.ParquetFile | None = None
        self._entries: Mapping[bytes, bytes] | None = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Open the file and read its footer.

        Raises:
            HoodieMissingFileException: There is no such file.
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: It is not a complete Parquet file.
        """
        if self._file is not None:
            return self
        if self._storage is None:
            self._stream = pa.BufferReader(self._content or b"")
        else:
            self._stream = _open_stream(self._storage, self._path, self._told_bytes)
        try:
            with translated_errors(self._path):
                if self._stream.size() == 0:
                    raise _corrupted(self._path, "it is empty")
                check_size(self._path, self._stream, self._told_bytes)
                try:
                    self._file = self._opened_file(self._dictionaries)
                except KeyError:  # the file lacks such a column
                    file = self._opened_file([])
                    self._dictionaries = [name for name in self._dictionaries if name in file.schema_arrow.names]
                    self._file = self._opened_file(self._dictionaries)
        except BaseException:
            self.close()
            raise
        return self

    def _opened_file(self, dictionaries: Sequence[str]) -> pq.ParquetFile:
        return pq.ParquetFile(
            self._stream, buffer_size=_BUFFER_BYTES, pre_buffer=False, coerce_int96_timestamp_unit="us",
            read_dictionary=dictionaries, page_checksum_verification=True,
        )  # fmt: skip

    def close(self) -> None:
        """Close the file; does nothing if it is closed."""
        self._file = self._entries = None
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(OSError):
                stream.close()

    @property
    def path(self) -> str:
        """Full path of the file."""
        return self._path

    @property
    def num_rows(self) -> int:
        """Rows of the file."""
        return int(self._opened.metadata.num_rows)

    @property
    def num_row_groups(self) -> int:
        """Row groups of the file."""
        return int(self._opened.metadata.num_row_groups)

    @property
    def row_group_rows(self) -> npt.NDArray[np.int64]:
        """Rows of each row group."""
        return np.array([rows for rows, _ in self.row_groups], dtype=np.int64)

    @cached_property
    def row_groups(self) -> list[tuple[int, int]]:
        """Rows of each row group, and its bytes before compression."""
        metadata = self._opened.metadata
        groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
        return [(int(group.num_rows), int(group.total_byte_size)) for group in groups]

    @property
    def file_schema(self) -> pa.Schema:
        """The columns of the file in its own types, meta columns included."""
        with translated_errors(self._path):
            return self._opened.schema_arrow

    def dictionary_columns(self) -> frozenset[str]:
        """Paths of the leaf columns that at least one row group stores only as a dictionary."""
        metadata = self._opened.metadata
        with translated_errors(self._path):
            chunks = [
                metadata.row_group(group).column(number)
                for group in range(metadata.num_row_groups)
                for number in range(metadata.num_columns)
            ]
            return frozenset(chunk.path_in_schema for chunk in chunks if is_only_dictionary(chunk))

    def stored_columns(self) -> StoredColumns:
        """The columns as they are stored; they can be read during an iteration over other columns.

        Raises:
            HoodieCorruptedDataException: The footer is damaged.
        """
        if self._stream is None:
            raise HoodieException(f"{self._path} is not open")
        # Imported here: reads of rows copy nothing, and start earlier without.
        from hoodie.io.parquet.splicing import StoredColumns

        with translated_errors(self._path):
            return StoredColumns(self._stream, self._path)

    def row_groups_to_copy(self, form: CopiedForm) -> dict[int, StoredRowGroup]:
        """The row groups that another file can take as they are stored, by their numbers.

        Args:
            form: The form of the other file.
        """
        if self._stream is None:
            raise HoodieException(f"{self._path} is not open")
        # Taking a footer apart takes longer than asking pyarrow whether a row group is large enough.
        if self._stream.size() < form.min_bytes or not any(size >= form.min_bytes for size in self._row_group_sizes()):
            return {}
        # Imported here: reads of rows copy nothing, and start earlier without.
        from hoodie.io.parquet.splicing import row_groups_to_copy

        try:
            with translated_errors(self._path):
                return row_groups_to_copy(self._stream, self._path, form)
        except HoodieCorruptedDataException:
            # pyarrow has read this footer. Whoever decodes the rows says what is damaged.
            return {}

    def read_at(self, count: int, offset: int) -> bytes:
        """Bytes of the file; they can be read during an iteration.

        Args:
            count: Their number; at the end of the file there are fewer.
            offset: The place of the first one.
        """
        if self._stream is None:
            raise HoodieException(f"{self._path} is not open")
        with translated_errors(self._path):
            found: bytes = self._stream.read_at(count, offset)
            return found

    def _row_group_sizes(self) -> Iterator[int]:
        """The stored bytes of each row group."""
        metadata = self._opened.metadata
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            yield sum(int(group.column(column).total_compressed_size) for column in range(group.num_columns))

    @property
    def entries(self) -> Mapping[bytes, bytes]:
        """Key/value pairs of the footer."""
        opened = self._opened
        if self._entries is None:
            self._entries = opened.metadata.metadata or {}
        return self._entries

    def footer(self) -> Footer:
        """Hudi's part of the footer. Each call returns a new value, so its bloom filter belongs to the caller.

        Raises:
            HoodieCorruptedDataException: An entry is not text.
        """
        return parse_footer(self._path, self.entries)

    def may_hold_keys(self, keys: pa.Array) -> bool:
        """Whether the bloom filter may know one of some record keys. A filter that cannot be read excludes nothing.

        Args:
            keys: The keys (string); no row has an empty one.
        """
        try:
            bloom_filter = self.footer().bloom_filter
        except (HoodieCorruptedDataException, HoodieNotSupportedException):
            return True
        # Python compares, since Arrow's comparison with a Python value imports pandas.
        filled = [key for key in keys.to_pylist() if key]
        return bloom_filter is None or (
            bool(filled) and bool(bloom_filter.might_contain(array_of(filled, pa.string())).any())
        )

    def names_only_its_keys(self) -> bool:
        """Whether both ends of the key range in the footer are keys of rows, as far as statistics tell.

        A file that continues the range of an older version may name the key of a row that was deleted.
        """
        key_range, metadata = self.footer().key_range, self._opened.metadata
        if key_range is None or RECORD_KEY_META not in self.file_schema.names:
            return key_range is None
        column = next(
            number for number in range(metadata.num_columns) if metadata.schema.column(number).path == RECORD_KEY_META
        )
        found = [metadata.row_group(number).column(column).statistics for number in range(metadata.num_row_groups)]
        if not all(one is not None and one.has_min_max for one in found):
            return bool(found)
        if not found or KeyRange(min(one.min for one in found), max(one.max for one in found)) == key_range:
            return bool(found)
        if key_range.is_of_any_order:
            return False
        # Statistics have the order of UTF-8 bytes.
        ends = pa.array([key_range.min_key, key_range.max_key])
        return bool(pc.all(pc.is_in(ends, self.read_columns([RECORD_KEY_META])[RECORD_KEY_META])).as_py())

    def read_columns(self, columns: Sequence[str]) -> pa.Table:
        """Whole columns, in the types of the file.

        Args:
            columns: Names, in the order of the result.

        Raises:
            MissingSchemaFieldException: The file lacks such a column.
            HoodieCorruptedDataException: The file is damaged.
        """
        names = self.file_schema.names
        missing = [name for name in columns if name not in names]
        if missing:
            raise MissingSchemaFieldException(
                f"reading {self._path}: it has no column {', '.join(missing)}; its columns are {', '.join(names)}"
            )
        with translated_errors(self._path):
            found = self._opened.read(columns=list(columns)).select(list(columns))
        self._check_rows(found.num_rows, None)
        return found

    def largest_text(self, column: str) -> str | None:
        """The largest value of a column of strings, by statistics where the file has them; None without values.

        Args:
            column: Name of the column.

        Raises:
            MissingSchemaFieldException: The file lacks it.
            HoodieCorruptedDataException: The file is damaged.
        """
        found: list[str] = []
        with translated_errors(self._path):
            metadata = self._opened.metadata
            number = _column_number(self._path, metadata, column)
            for group in range(metadata.num_row_groups):
                _, high = known_range(metadata.row_group(group).column(number), "BYTE_ARRAY")
                if high is None:
                    largest: str | None = pc.max(self.read_columns([column]).column(0)).as_py()
                    return largest
                found.append(high.decode())
        return max(found, default=None)

    def row_group_keys(self) -> list[RowGroupKeys]:
        """The statistics about the record keys of each row group.

        Statistics may be truncated: then the smallest key is too low and the largest too high, as Parquet demands.

        Raises:
            MissingSchemaFieldException: There is no column of record keys.
            HoodieCorruptedDataException: The file is damaged.
        """
        with translated_errors(self._path):
            return row_group_keys(self._path, self._opened.metadata)

    def read_record_keys(
        self, row_groups: Sequence[int] | None = None, column: str = RECORD_KEY_META
    ) -> pa.ChunkedArray:
        """The record keys (string) in the order of the rows; nulls when the table has no meta fields.

        Args:
            row_groups: Numbers of the row groups to read, in ascending order; None for all.
            column: The column of strings that holds them.

        Raises:
            MissingSchemaFieldException: There is no such column, so it is not a base file of a Hudi table.
            HoodieCorruptedDataException: The file is damaged.
        """
        if row_groups is None:
            keys = self.read_columns([column]).column(0)
        else:
            with translated_errors(self._path):
                keys = self._opened.read_row_groups(list(row_groups), columns=[column]).column(0)
            self._check_rows(len(keys), row_groups)
        return keys if pa.types.is_string(keys.type) else keys.cast(pa.string())

    def find_record_keys(
        self, keys: pa.Array, row_groups: Sequence[int] | None = None, column: str = RECORD_KEY_META
    ) -> FoundRows:
        """The rows whose record key is among the given keys. Faster than `read_record_keys`, because few keys
        are decoded.

        Args:
            keys: Distinct keys (string).
            row_groups: Numbers of the row groups to search, in ascending order; None for all.
            column: The column of strings that is searched.

        Returns:
            Pairs of an index into ``keys`` (int32) and a row of the file (int64), in the order of the rows.

        Raises:
            MissingSchemaFieldException: See `read_record_keys`.
            HoodieCorruptedDataException: The file is damaged.
        """
        with translated_errors(self._path):
            metadata = self._opened.metadata
            number_of_column = _column_number(self._path, metadata, column)
            rows = self.row_group_rows
            if rows.sum() != metadata.num_rows:
                raise _corrupted(
                    self._path, f"its row groups have {rows.sum()} rows, but its footer says {metadata.num_rows}"
                )
            firsts = np.cumsum(rows) - rows
            search, others = KeySearch(keys), []
            levels = metadata.schema.column(number_of_column).max_definition_level
            has_known_form = self.file_schema.field(column).type == pa.string() and levels <= 1
            for number in range(len(rows)) if row_groups is None else row_groups:
                chunk = metadata.row_group(number).column(number_of_column)
                is_whole = has_known_form and chunk.num_values == rows[number]
                if not (is_whole and search.read(self._stream, chunk, levels == 1, int(firsts[number]))):
                    others.append(number)
        if not others:
            return search.found()
        entries, places = find_keys(self.read_record_keys(others, column), keys)
        ends = np.cumsum(rows[others])
        shifts = firsts[others] - (ends - rows[others])
        return merged_rows([search.found(), (entries, places + shifts[np.searchsorted(ends, places, side="right")])])

    def searches_pages(self, column: str, row_group: int) -> bool:
        """Whether `find_record_keys` finds values of a column in a row group without decoding all of them.

        Args:
            column: The column.
            row_group: The number of the row group.
        """
        numbers = self.top_level_columns()
        if column not in numbers or self.file_schema.field(column).type != pa.string():
            return False
        with translated_errors(self._path):
            return is_searchable(self._opened.metadata.row_group(row_group).column(numbers[column]))

    def iter_batches(
        self,
        columns: Sequence[str] | None,
        schema: pa.Schema,
        row_groups: Sequence[int] | None = None,
        batch_rows: int = 65536,
        *,
        on_all_cores: bool = True,
        keeps_dictionaries: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Rows in the types of a schema.

        Columns that the file lacks are null; see `hoodie.io.parquet.column_adaptation` for the others.

        Args:
            columns: Names from ``schema``, in the order of the result; None for all.
            schema: The types of the result. A field of a batch is nullable if it is nullable here.
            row_groups: Numbers of the row groups to read; None for all.
            batch_rows: Most rows of a batch; it has fewer if they are long.
            on_all_cores: Whether columns are decoded side by side. If not, several threads may iterate at the same
                time.
            keeps_dictionaries: Whether columns of strings that are stored only as dictionaries are given as such.

        Yields:
            Batches in the order of the file. Equal values of a column may share their bytes in memory.

        Raises:
            MissingSchemaFieldException: A column is not in ``schema``.
            SchemaCompatibilityException: A column cannot be converted to its type in ``schema``.
            HoodieCorruptedDataException: The file is damaged.
        """
        wanted = chosen_schema(schema, columns)
        stored = set(self.file_schema.names)
        present = [name for name in wanted.names if name in stored]
        numbers = range(self.num_row_groups) if row_groups is None else row_groups
        kept = [*self._dictionaries, *(self._stored_as_dictionaries(present, numbers) if keeps_dictionaries else ())]
        file, texts = self._with_dictionaries(present, kept), RepeatedTexts(kept)
        for number in numbers:
            if not present:
                with translated_errors(self._path):
                    rows = file.metadata.row_group(number).num_rows
                for start in range(0, rows, batch_rows):
                    count = min(batch_rows, rows - start)
                    yield _nulls(wanted, count)
                continue
            with translated_errors(self._path):
                count = _rows_of_batch(file.metadata.row_group(number), present, batch_rows)
                batches = file.iter_batches(
                    batch_size=count, row_groups=[number], columns=present, use_threads=on_all_cores
                )
            found = 0
            while True:
                with translated_errors(self._path):
                    batch = next(batches, None)
                if batch is None:
                    break
                found += batch.num_rows
                yield self._adapted(batch, wanted, texts, kept)
            self._check_rows(found, [number])

    def stores(self, schema: pa.Schema, columns: Sequence[str] | None = None) -> bool:
        """Whether columns of the file have the types of a schema. A column that the file lacks counts as yes.

        Args:
            schema: The wanted types.
            columns: The columns; None for all of the schema.
        """
        stored = self.file_schema
        known = set(stored.names)
        names = [name for name in columns or schema.names if name in known]
        return all(stored.field(name).type == schema.field(name).type for name in names)

    def row_groups_of(self, condition: Node, schema: pa.Schema) -> list[int]:
        """Numbers of the row groups that may hold rows of a condition, by their statistics.

        Args:
            condition: A condition that statistics can decide; see `hoodie.common.data.row_filter`.
            schema: The columns; the file must store these types.
        """
        with translated_errors(self._path):
            columns = self.top_level_columns()
            names = [name for name in columns_of(condition) if name in columns]
            groups = [self._opened.metadata.row_group(number) for number in range(self.num_row_groups)]
            ranges = {
                name: StoredRanges.of(
                    [group.column(columns[name]) for group in groups],
                    self._opened.metadata.schema.column(columns[name]),
                    schema.field(name).type,
                )
                for name in names
            }
        return np.flatnonzero(may_match(condition, ranges, len(groups))).tolist()

    def stored_bytes(self, columns: Sequence[str], row_groups: Sequence[int] | None = None) -> int:
        """The stored bytes of columns.

        Args:
            columns: Names; columns that the file lacks have no bytes.
            row_groups: Numbers of row groups; None for all.
        """
        metadata = self._opened.metadata
        wanted = set(columns)
        numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
        chunks = [
            metadata.row_group(number).column(column) for number in numbers for column in range(metadata.num_columns)
        ]
        return sum(
            int(chunk.total_compressed_size) for chunk in chunks if chunk.path_in_schema.partition(".")[0] in wanted
        )

    def top_level_columns(self) -> dict[str, int]:
        """The number of each column that is not nested, as metadata counts columns."""
        metadata, names = self._opened.metadata, set(self.file_schema.names)
        paths = [metadata.schema.column(number).path for number in range(metadata.num_columns)]
        # A column that is not nested has its name as its path; a name with a dot may be the path of another column.
        return {path: number for number, path in enumerate(paths) if path in names and "." not in path}

    def take_rows(
        self, columns: Sequence[str] | None, schema: pa.Schema, rows: npt.NDArray[np.int64]
    ) -> Iterator[pa.RecordBatch]:
        """Few rows in the types of a schema. Most columns are not decoded as a whole; see
        `hoodie.io.parquet.row_taking`.

        Memory: see `hoodie.io.parquet.row_taking`.

        Args:
            columns: See `iter_batches`.
            schema: See `iter_batches`.
            rows: Rows of the file from 0, ascending and distinct.

        Yields:
            A batch for each row group that has some of the rows.

        Raises:
            HoodieException: See `iter_batches`.
        """
        wanted = chosen_schema(schema, columns)
        stored = set(self.file_schema.names)
        present = [name for name in wanted.names if name in stored]
        with translated_errors(self._path):
            taker = RowTaker(self._stream, self._opened, _BUFFER_BYTES)
        ends = np.cumsum(self.row_group_rows)
        owners = np.searchsorted(ends, rows, side="right")
        for number in np.unique(owners).tolist():
            places = rows[owners == number] - (ends[number] - self.row_group_rows[number])
            with translated_errors(self._path):
                found = taker.take(number, present, places)
            if not found:
                yield _nulls(wanted, len(places))
            else:
                yield self._adapted(pa.RecordBatch.from_arrays(found, names=present), wanted)

    @property
    def _opened(self) -> pq.ParquetFile:
        if self._file is None:
            raise HoodieException(f"{self._path} is not open")
        return self._file

    def _check_rows(self, found: int, row_groups: Sequence[int] | None) -> None:
        """Refuse fewer rows than in the footer: pyarrow ends a column without an error at a damaged page header."""
        metadata = self._opened.metadata
        numbers = range(metadata.num_row_groups) if row_groups is None else row_groups
        expected_rows = sum(metadata.row_group(number).num_rows for number in numbers)
        if found != expected_rows:
            raise _corrupted(self._path, f"its footer tells of {expected_rows} rows where {found} could be read")

    def _stored_as_dictionaries(self, columns: Sequence[str], row_groups: Iterable[int]) -> list[str]:
        """The columns of strings that some row groups store only as dictionaries."""
        metadata, numbers, schema = self._opened.metadata, self.top_level_columns(), self.file_schema
        names = [name for name in columns if name in numbers and schema.field(name).type == pa.string()]
        with translated_errors(self._path):
            groups = [metadata.row_group(number) for number in row_groups]
            return [name for name in names if all(is_only_dictionary(group.column(numbers[name])) for group in groups)]

    def _with_dictionaries(self, columns: Sequence[str], kept: Sequence[str]) -> pq.ParquetFile:
        """The file, to be read with dictionaries of some columns, and of the meta columns that have few values in a
        file.
        """
        file, schema = self._opened, self.file_schema
        names = [
            name
            for name in (COMMIT_TIME_META, PARTITION_PATH_META, FILE_NAME_META)
            if name in columns and name not in kept and pa.types.is_string(schema.field(name).type)
        ]
        if not names and len(kept) == len(self._dictionaries):
            return file
        with translated_errors(self._path):
            return pq.ParquetFile(
                self._stream, metadata=file.metadata, buffer_size=_BUFFER_BYTES, pre_buffer=False,
                coerce_int96_timestamp_unit="us", read_dictionary=[*kept, *names],
                page_checksum_verification=True,
            )  # fmt: skip

    def _adapted(
        self,
        batch: pa.RecordBatch,
        wanted: pa.Schema,
        texts: RepeatedTexts | None = None,
        dictionaries: Sequence[str] | None = None,
    ) -> pa.RecordBatch:
        with translated_errors(self._path):
            check_indices(batch.columns)
            if texts is not None:
                batch = texts.in_batch(batch)
        kept = self._dictionaries if dictionaries is None else dictionaries
        return adapt_batch(batch, wanted, self._path, kept)


@contextmanager
def bytes_of_base_file(storage: HoodieStorage, path: str, size_bytes: int) -> Iterator[ReadAt]:
    """A function that reads bytes of a base file at offsets; a context.

    Args:
        storage: The storage of the file.
        path: Its full path.
        size_bytes: See `HoodieParquetReader`.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieCorruptedDataException: It has another size.
        HoodieIOException: Storage failed, also while reading.
    """
    stream = _open_stream(storage, path, size_bytes)

    def read_at(count: int, offset: int) -> bytes:
        with translated_errors(path):
            found: bytes = stream.read_at(count, offset)
            return found

    try:
        check_size(path, stream, size_bytes)
        yield read_at
    finally:
        with suppress(OSError):
            stream.close()


def _open_stream(storage: HoodieStorage, path: str, size_bytes: int) -> pa.NativeFile:
    try:
        return open_listed_file(storage, path, size_bytes or None)
    except FileNotFoundError as error:
        raise missing_base_file(storage, path) from error


def _corrupted(path: str, problem: object) -> HoodieCorruptedDataException:
    return HoodieCorruptedDataException(
        f"base file {path} is cut short or damaged: {problem}. If no completed commit wrote it, a rollback "
        "of the failed write removes it; otherwise restore it from a copy, or the table to a savepoint before it"
    )


def _rows_of_batch(group: pq.RowGroupMetaData, columns: Sequence[str], most: int) -> int:
    """The number of rows of a row group that are decoded at a time."""
    most = min(most, max(1, group.num_rows))
    if group.total_byte_size * most <= _BATCH_BYTES * group.num_rows:
        return most
    wanted = set(columns)
    chunks = (group.column(number) for number in range(group.num_columns))
    plain = sum(one.total_uncompressed_size for one in chunks if one.path_in_schema.partition(".")[0] in wanted)
    return max(1, min(most, int(_BATCH_BYTES * group.num_rows // max(1, plain))))


def _nulls(schema: pa.Schema, count: int) -> pa.RecordBatch:
    """Rows of nulls; without columns, they still have their number."""
    columns = [pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_struct_array(structs_of(columns, pa.struct(list(schema)), count))


def check_indices(columns: Iterable[pa.Array]) -> None:
    """Refuse dictionaries with indices out of range: pyarrow reads such ones after a damaged page header.

    Args:
        columns: Columns as they were read.

    Raises:
        pa.ArrowException: An index is out of range.
    """
    for column in columns:
        if pa.types.is_dictionary(column.type):
            column.validate(full=True)


def check_size(path: str, stream: pa.NativeFile, told_bytes: int) -> None:
    """Refuse a file of another size than a commit or a listing gives. The actual size is known from opening it.

    Args:
        path: The file, for the message.
        stream: The file, opened.
        told_bytes: The expected size; 0 if it is not known.

    Raises:
        HoodieCorruptedDataException: The size differs.
    """
    size = int(stream.size())
    if told_bytes and size != told_bytes:
        raise _corrupted(path, f"it has {size} bytes, and its commit completed it with {told_bytes}")


@contextmanager
def translated_errors(path: str) -> Iterator[None]:
    """Translate pyarrow's errors. An error number tells failed storage from a damaged file.

    Args:
        path: The file; the context may read no other file.

    Raises:
        HoodieIOException: Storage failed.
        HoodieCorruptedDataException: The file is damaged.
    """
    try:
        yield
    except HoodieException:
        raise
    except OSError as error:
        if error.errno is not None:
            raise HoodieIOException(f"reading {path} failed: {error}") from error
        raise _corrupted(path, error) from error
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise _corrupted(path, error) from error


def row_group_keys(path: str, metadata: pq.FileMetaData) -> list[RowGroupKeys]:
    """The statistics about the record keys of each row group; see `HoodieParquetReader.row_group_keys`.

    Args:
        path: The file.
        metadata: The file's metadata.

    Raises:
        MissingSchemaFieldException: There is no column of record keys.
    """
    groups = []
    column = _column_number(path, metadata, RECORD_KEY_META)
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        low, high = known_range(group.column(column), metadata.schema.column(column).physical_type)
        groups.append(RowGroupKeys(group.num_rows, low, high))
    return groups


def _column_number(path: str, metadata: pq.FileMetaData, name: str) -> int:
    schema = metadata.schema
    for number in range(len(schema)):
        if schema.column(number).path == name:
            return number
    raise MissingSchemaFieldException(f"reading {path}: it has no column {name}; it is not a base file of a Hudi table")


def read_footer(storage: HoodieStorage, path: str) -> Footer:
    """Hudi's part of the footer of a base file; reads only the end of the file.

    Args:
        storage: The storage of the file.
        path: Full path of the file.

    Raises:
        HoodieIOException: There is no such file, or storage failed.
        HoodieCorruptedDataException: It is not a complete Parquet file.
    """
    with HoodieParquetReader(storage, path) as reader:
        return reader.footer()
