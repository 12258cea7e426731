"""The values of one column of one data file: of a base file, or of all blocks of a log file.

Hudi: SparkMetadataWriterUtils.getExpressionIndexRecordsIterator. Differs: blocks of a log file are not merged.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from hoodie.avro.columnar_block import decode_avro_block
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.io.parquet.parquet_bytes import read_parquet
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.metadata.reader.stored_column_ranges import data_blocks, has_whole_rows
from hoodie.storage.storage import FileStatus, HoodieStorage


class PartialRowsError(Exception):
    """A log file does not hold whole rows, or holds them in a form that hoodie does not read."""


def iter_column_values(
    storage: HoodieStorage, path: str, field: pa.Field, committed: CommittedLogFiles | None = None
) -> Iterator[pa.Array]:
    """The values of a column on the top level, in the order of the rows.

    Memory: a batch of a base file, or one block of a log file.

    Args:
        storage: The storage of the file.
        path: Its path.
        field: The column, and the type of the result. In a file without the column it is null.
        committed: See `hoodie.metadata.reader.stored_column_ranges.load_stored_column_ranges`.

    Yields:
        Arrays of that type.

    Raises:
        PartialRowsError: The values of the rows are not in this file alone.
        HoodieMissingFileException: There is no such file.
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    name, wanted = parse_log_file_name(path.rpartition("/")[2]), pa.schema([field])
    if name is None:
        with HoodieParquetReader(storage, path) as base_file:
            for batch in base_file.iter_batches(None, wanted, on_all_cores=False):
                yield batch.column(0)
        return
    with open_log_file(storage, path) as log_file:
        for block in data_blocks(log_file, HoodieLogFile.of(name, FileStatus(path, 0, 0)), committed):
            if not has_whole_rows(block):
                raise PartialRowsError(f"{block.source} does not hold whole rows")
            yield from _values_of(block, wanted)


def _values_of(block: HoodieLogBlock, wanted: pa.Schema) -> Iterator[pa.Array]:
    if block.block_type is HoodieLogBlockType.PARQUET_DATA:
        for batch in read_parquet(block.content, block.source, wanted):
            yield batch.column(0)
        return
    if block.schema is None:
        raise HoodieCorruptedDataException(f"Cannot read records of {block.source}: it has no schema")
    yield decode_avro_block(block.content, block.schema, wanted, source=block.source).column(0)
