"""Parquet files in memory, for the contents of log blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, translated_errors

if TYPE_CHECKING:
    from hoodie.common.config.storage_config import HoodieStorageConfig

_BATCH_ROWS = 1 << 16


def encode_parquet(rows: pa.RecordBatch, schema: pa.Schema, config: HoodieStorageConfig, avro_schema: str) -> bytes:
    """Encode rows as a Parquet file like a base file, but with neither a bloom filter nor a range of keys.

    Memory: the rows, and the file twice.

    Args:
        rows: The columns of the schema; strings may be dictionary-encoded.
        schema: The columns of the file, Hudi's five meta columns first.
        config: The encoding.
        avro_schema: Avro schema for the footer, meta columns included.

    Raises:
        HoodieSchemaException: Columns do not fit the schema, or a column that is not nullable holds a null.
    """
    # Imported here: readers write no files, and start earlier without.
    from hoodie.io.parquet.parquet_writer import HoodieParquetWriter

    sink = pa.BufferOutputStream()
    name = "a Parquet block"
    with HoodieParquetWriter(sink, schema, config, bloom_filter=None, avro_schema=avro_schema, path=name) as writer:
        writer.write(rows)
        writer.close()
    content: bytes = sink.getvalue().to_pybytes()
    return content


def metadata_of_parquet(content: bytes, source: str) -> pq.FileMetaData:
    """The metadata of a file that is in memory.

    Args:
        content: The file.
        source: The block or file that holds it, for messages.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
    """
    with translated_errors(source):
        return pq.read_metadata(pa.BufferReader(content))


def read_parquet(content: bytes, source: str, wanted: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file in memory; columns that it lacks are null.

    Args:
        content: The file.
        source: The block or file that holds it, for messages.
        wanted: The columns and types of the result.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
        SchemaCompatibilityException: A column cannot be converted to its type.
    """
    with _opened(content, source) as reader:
        yield from reader.iter_batches(None, wanted, batch_rows=_BATCH_ROWS)


def read_parquet_rows_with(
    content: bytes, source: str, wanted: pa.Schema, values: pa.Array, columns: Sequence[str]
) -> tuple[list[pa.RecordBatch], npt.NDArray[np.int64], int]:
    """The rows of a Parquet file in memory that have one of some values in one of some columns.

    Args:
        content: See `read_parquet`.
        source: See `read_parquet`.
        wanted: See `read_parquet`.
        values: Distinct values (string).
        columns: Columns of strings; those that the file lacks hold no value.

    Returns:
        The rows, their numbers in the file, ascending, and the number of all rows of the file.

    Raises:
        HoodieException: See `read_parquet`.
    """
    with _opened(content, source) as reader:
        stored = set(reader.file_schema.names)
        found = [reader.find_record_keys(values, None, column)[1] for column in columns if column in stored]
        numbers = np.unique(np.concatenate([np.zeros(0, np.int64), *found]))
        return list(reader.take_rows(None, wanted, numbers)), numbers, reader.num_rows


@contextmanager
def _opened(content: bytes, source: str) -> Iterator[HoodieParquetReader]:
    """The file, open; errors name the block or file that holds it."""
    try:
        with HoodieParquetReader(None, source, content=content) as reader:
            yield reader
    except HoodieCorruptedDataException as error:
        raise HoodieCorruptedDataException(
            f"Cannot read the Parquet rows of {source}: {error.__cause__ or 'there are none'}"
        ) from error
