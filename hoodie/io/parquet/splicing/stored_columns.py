"""Columns of a Parquet file as they are stored, to be copied to another file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import pyarrow as pa

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.splicing.column_chunks import (
    ColumnChunk,
    located_chunk,
    read_footer_struct,
    row_group_sizes,
    string_columns,
)

__all__ = ["StoredChunks", "StoredColumns"]


@attrs.frozen(eq=False)
class StoredChunks:
    """Some columns of a row group as they are stored.

    Attributes:
        rows: Rows of the row group.
        chunks: Name -> the column's bytes, and what the footer says of them.
    """

    rows: int = 0
    chunks: Mapping[str, ColumnChunk] = attrs.field(factory=dict)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the columns."""
        return sum(chunk.stored_bytes for chunk in self.chunks.values())

    @property
    def plain_bytes(self) -> int:
        """Bytes of the columns before compression."""
        return sum(chunk.plain_bytes for chunk in self.chunks.values())


class StoredColumns:
    """The columns of a Parquet file as they are stored.

    Args:
        stream: The file; read at places, so others may read it at the same time.
        path: For messages.

    Raises:
        HoodieCorruptedDataException: The file does not end in a footer.
    """

    def __init__(self, stream: pa.NativeFile, path: str) -> None:
        self._stream = stream
        self._path = path
        self._footer = read_footer_struct(stream, path)

    @property
    def row_groups(self) -> list[tuple[int, int]]:
        """Rows of each row group, and its bytes before compression."""
        return row_group_sizes(self._footer)

    def copies_of(self, key: pa.Field, others: Iterable[pa.Field], compression: str) -> list[str]:
        """The columns that a new file can copy: one, and those that may be equal to it; none when it cannot be.

        The footer decides; `chunks` compares the bytes.

        Args:
            key: A column of strings, as the new file has it.
            others: Others, likewise.
            compression: Codec of the new file, in pyarrow's spelling.
        """
        keys = self._copyable(key, compression)
        if keys is None:
            return []
        found = [key.name]
        for field in others:
            chunks = self._copyable(field, compression)
            if chunks is not None and all(chunk.may_equal(like) for chunk, like in zip(chunks, keys, strict=True)):
                found.append(field.name)
        return found

    def chunks(self, row_group: int, names: Sequence[str]) -> StoredChunks | None:
        """Columns of a row group that all have the same bytes; None when they differ, or are not in this file.

        Args:
            row_group: Its number.
            names: Of top-level columns.

        Raises:
            HoodieCorruptedDataException: The file ends within a column.
        """
        found: dict[str, ColumnChunk] = {}
        for name in names:
            chunk = self._chunk(row_group, name)
            first = next(iter(found.values()), chunk)
            if chunk is None or first is None or not (chunk is first or chunk.has_pages_of(first)):
                return None
            found[name] = first
        return StoredChunks(self.row_groups[row_group][0], found)

    def _copyable(self, field: pa.Field, compression: str) -> list[ColumnChunk] | None:
        """What the footer says of a column of strings, for each row group; None where it cannot be copied."""
        if field.type != pa.string() or field.name not in string_columns(self._footer, field.nullable):
            return None
        chunks = []
        for number in range(len(self.row_groups)):
            located = located_chunk(self._footer, number, field.name)
            if located is None or not located[1].suits(compression):
                return None
            chunks.append(located[1])
        return chunks

    def _chunk(self, row_group: int, name: str) -> ColumnChunk | None:
        located = located_chunk(self._footer, row_group, name)
        if located is None:
            return None
        start, chunk = located
        pages = pa.py_buffer(self._stream.read_at(chunk.stored_bytes, start))
        if pages.size != chunk.stored_bytes:
            raise HoodieCorruptedDataException(f"{self._path} ends within column {name}; restore it from a copy")
        return attrs.evolve(chunk, pages=(pages,))
