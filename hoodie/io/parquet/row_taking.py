"""Reader of few rows of a row group, which avoids to decode the other rows.

form of the column                         method
numbers and strings of one length, plain   pages with wanted rows are decompressed, and the values copied out
strings that are all in a dictionary       the numbers of the dictionary's entries are decoded, no strings
any other                                  pyarrow decodes the column, some rows at a time

If most pages are needed, a column whose stored bytes are those of another one, as a record key has that is a column of
the user, is taken once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.util.arrow_buffers import numbers_of, rows_of
from hoodie.io.parquet.key_search import is_searchable, only_length
from hoodie.io.parquet.plain_pages import LENGTH_BYTES, OtherPageForm, stored_bytes, take_numbers, take_strings

MOST_FEW_ROWS = 1 << 12
"""The limit of rows of a file that count as few."""
_PAGE_BYTES = 1 << 20
"""The usual size of a page, before compression."""
_BATCH_ROWS = 1 << 15
"""The number of rows of a column that pyarrow decodes at a time."""
_NUMBERS: Mapping[pa.DataType, str] = {
    pa.int32(): "INT32",
    pa.date32(): "INT32",
    pa.int64(): "INT64",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
"""Types whose stored values equal their bytes in memory, with the type in Parquet."""


@attrs.define(eq=False)
class _Twins:
    """The column of some with one form that was taken last.

    Attributes:
        content: The bytes of its chunk; None before the first one.
        values: Its values.
    """

    content: pa.Buffer | None = None
    values: pa.Array | None = None

    def has(self, content: pa.Buffer) -> bool:
        """Whether the column has these bytes."""
        return self.content is not None and bool(content.equals(self.content))


class RowTaker:
    """Takes rows of an open file.

    Memory: the compressed pages of two columns of a row group, or some decoded rows of a row group; and the rows.

    Args:
        stream: The file.
        file: The same file, open for pyarrow.
        buffer_bytes: The steps in which pyarrow reads a column.
    """

    def __init__(self, stream: pa.NativeFile, file: pq.ParquetFile, buffer_bytes: int) -> None:
        self._stream = stream
        self._file = file
        self._types = {field.name: field.type for field in file.schema_arrow}
        columns = [file.metadata.schema.column(number) for number in range(file.metadata.num_columns)]
        # A column that is not nested has its name as its path; a name with a dot may be the path of another column.
        self._numbers = {
            column.path: number
            for number, column in enumerate(columns)
            if column.path in self._types and "." not in column.path
        }
        as_dictionaries = [name for name in self._numbers if self._types[name] == pa.string()]
        self._dictionaries = pq.ParquetFile(
            stream, metadata=file.metadata, buffer_size=buffer_bytes, pre_buffer=False, read_dictionary=as_dictionaries,
            page_checksum_verification=True,
        )  # fmt: skip

    def take(self, row_group: int, columns: Sequence[str], places: npt.NDArray[np.int64]) -> list[pa.Array]:
        """The given rows of a row group.

        Args:
            row_group: Its number.
            columns: Names of columns of the file.
            places: Rows of the row group from 0, ascending and distinct; at least one.

        Returns:
            The columns in the types of the file; strings may be in dictionaries.

        Raises:
            OSError: Storage failed, or the file is damaged.
        """
        found: dict[str, pa.Array] = {}
        in_dictionaries, others = [], []
        twins = self._alike(row_group, columns, len(places))
        for name in columns:
            if (column := self._from_pages(row_group, name, places, twins.get(name))) is not None:
                found[name] = column
            elif self._is_in_dictionary(row_group, name):
                in_dictionaries.append(name)
            else:
                others.append(name)
        for file, names in ((self._dictionaries, in_dictionaries), (self._file, others)):
            if names:
                found |= _decoded(file, row_group, names, places)
        return [found[name] for name in columns]

    def _is_in_dictionary(self, row_group: int, name: str) -> bool:
        if name not in self._numbers or self._types[name] != pa.string():
            return False
        return is_only_dictionary(self._file.metadata.row_group(row_group).column(self._numbers[name]))

    def _alike(self, row_group: int, columns: Sequence[str], count: int) -> dict[str, _Twins]:
        """The columns of strings of one length whose stored bytes may be those of another one.

        They are compared as a whole, which takes longer than to take values out of a few pages.

        Args:
            row_group: The row group.
            columns: The wanted columns.
            count: The number of wanted rows, which are in as many pages at most.
        """
        by_form: dict[object, list[str]] = {}
        for name in columns:
            if name in self._numbers and self._types[name] == pa.string():
                number = self._numbers[name]
                chunk = self._file.metadata.row_group(row_group).column(number)
                if is_searchable(chunk) and 2 * count * _PAGE_BYTES >= chunk.total_uncompressed_size:
                    levels = self._file.metadata.schema.column(number).max_definition_level
                    sizes = (chunk.total_compressed_size, chunk.total_uncompressed_size, chunk.num_values)
                    by_form.setdefault((*sizes, chunk.compression, levels), []).append(name)
        alike = [names for names in by_form.values() if len(names) > 1]
        return {name: twins for names in alike for twins in [_Twins()] for name in names}

    def _from_pages(
        self, row_group: int, name: str, places: npt.NDArray[np.int64], twins: _Twins | None
    ) -> pa.Array | None:
        """The values, copied out of the pages; None if the pages have another form."""
        if name not in self._numbers:
            return None
        number = self._numbers[name]
        metadata = self._file.metadata
        column = metadata.schema.column(number)
        chunk = metadata.row_group(row_group).column(number)
        if column.max_repetition_level or column.max_definition_level > 1:
            return None
        if chunk.num_values != metadata.row_group(row_group).num_rows or chunk.physical_type != column.physical_type:
            return None
        data_type = self._types[name]
        is_nullable = column.max_definition_level == 1
        try:
            if data_type == pa.string() and (length := only_length(chunk)) > 0:
                content = None if twins is None else stored_bytes(self._stream, chunk)
                if twins is not None and content is not None and twins.has(content):
                    return twins.values
                stored = take_strings(self._stream, chunk, length, is_nullable, places, content)
                values = rows_of(stored[:, LENGTH_BYTES:], pa.string())
                if twins is not None:
                    twins.content, twins.values = content, values
                return values
            if column.physical_type != _stored_type(data_type, column):
                return None
            width = data_type.bit_width // 8
            values = take_numbers(self._stream, chunk, width, is_nullable, places)
            return numbers_of(values, data_type)
        except OtherPageForm:
            return None


def is_only_dictionary(chunk: pq.ColumnChunkMetaData) -> bool:
    """Whether all values of a column chunk are in its dictionary.

    Args:
        chunk: The column chunk.
    """
    return bool(chunk.has_dictionary_page and "PLAIN" not in chunk.encodings)


def _stored_type(data_type: pa.DataType, column: pq.ColumnSchema) -> str | None:
    """The Parquet type of numbers whose stored values equal their bytes in memory; None for others."""
    if pa.types.is_timestamp(data_type):
        is_in_micros = data_type.unit == "us" and "timeUnit=microseconds" in str(column.logical_type)
        return "INT64" if is_in_micros else None
    return _NUMBERS.get(data_type)


def _decoded(
    file: pq.ParquetFile, row_group: int, columns: Sequence[str], places: npt.NDArray[np.int64]
) -> dict[str, pa.Array]:
    """The given rows of columns. pyarrow decodes the columns up to the last of these rows."""
    parts: dict[str, list[pa.Array]] = {name: [] for name in columns}
    first = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, row_groups=[row_group], columns=list(columns)):
        low, high = np.searchsorted(places, [first, first + batch.num_rows]).tolist()
        if low < high:
            wanted = places[low:high] - first
            for name, values in parts.items():
                values.append(_rows_of(batch.column(name), wanted))
        if high == len(places):
            break
        first += batch.num_rows
    else:
        raise pa.ArrowInvalid(f"row {places[-1]} of row group {row_group} is not there: {first} could be read")
    return {name: _joined(values) for name, values in parts.items()}


def _rows_of(column: pa.Array, rows: npt.NDArray[np.int64]) -> pa.Array:
    try:
        return column.take(numbers_of(rows, pa.int64()))
    except pa.ArrowNotImplementedError:
        # Arrow's take does not support view types, nor what is nested around them.
        return pa.concat_arrays([column.slice(row, 1) for row in rows.tolist()])


def _joined(parts: Sequence[pa.Array]) -> pa.Array:
    """The columns joined one after the other; each dictionary has its own entries."""
    if len(parts) == 1:
        return parts[0]
    plain = [part.dictionary_decode() if pa.types.is_dictionary(part.type) else part for part in parts]
    return pa.concat_arrays(plain)
