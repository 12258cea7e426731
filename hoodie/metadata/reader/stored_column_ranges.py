"""The ranges of columns of one data file: of a base file from its footer, of a log file from its rows.

Hudi: HoodieTableMetadataUtil.{readColumnRangeMetadataFrom, getLogFileColumnRangeMetadata}. Differs: a log file whose
rows may lack columns has no ranges; Hudi's readers would skip a slice whose values are partly in its other files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

import attrs
import pyarrow as pa

from hoodie.avro.columnar_block import decode_avro_block
from hoodie.avro.schema_converters import fields_in_millis
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.column_range import HoodieColumnRange, RangeValue, StoredColumnRanges, widest_range
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.log.damaged_log_file import whole_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import HoodieLogFileReader, open_log_file
from hoodie.io.parquet.column_ranges import larger, load_metadata, read_column_ranges, smaller
from hoodie.io.parquet.parquet_bytes import metadata_of_parquet
from hoodie.metadata.records.column_stats_records import column_ranges_of_rows, leaf_columns
from hoodie.storage.storage import FileStatus, HoodieStorage

_DATA_BLOCKS = (HoodieLogBlockType.AVRO_DATA, HoodieLogBlockType.PARQUET_DATA, HoodieLogBlockType.HFILE_DATA)


def load_stored_column_ranges(
    storage: HoodieStorage,
    path: str,
    table_version: int,
    columns: Collection[str] | None = None,
    committed: CommittedLogFiles | None = None,
) -> StoredColumnRanges | None:
    """The ranges of columns of a stored data file.

    Memory: a footer, or one block of a log file and its rows.

    Args:
        storage: Its storage.
        path: Its path.
        table_version: 6, 8 or 9: it decides which types of a log file have ranges.
        columns: The columns, nested ones as a path with dots; None for all.
        committed: The sizes of completed log files, to tell damaged ones from torn ones; None: torn blocks are skipped.

    Returns:
        The ranges; None for a file whose values are not known: a log file with partial rows, or with blocks of a kind
        that hoodie does not write.

    Raises:
        HoodieMissingFileException: There is no such file.
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    name = parse_log_file_name(path.rpartition("/")[2])
    if name is None:
        metadata = load_metadata(storage, path)
        return StoredColumnRanges(metadata.num_rows, tuple(read_column_ranges(metadata, columns)))
    with open_log_file(storage, path) as reader:
        found = StoredColumnRanges(0, ())
        for block in data_blocks(reader, HoodieLogFile.of(name, FileStatus(path, 0, 0)), committed):
            ranges = _ranges_of_block(block, table_version, columns)
            if ranges is None:
                return None
            found = united_ranges(found, ranges) if found.row_count else ranges
        return found


def data_blocks(
    reader: HoodieLogFileReader, log_file: HoodieLogFile, committed: CommittedLogFiles | None
) -> Iterator[HoodieLogBlock]:
    """The blocks of a log file that hold rows.

    Args:
        reader: An open reader of the file.
        log_file: The file.
        committed: See `load_stored_column_ranges`.

    Raises:
        HoodieCorruptedDataException: The file is damaged.
    """
    for stored in whole_blocks(reader, log_file, committed):
        if stored.block_type in _DATA_BLOCKS:
            yield reader.read(stored)


def has_whole_rows(block: HoodieLogBlock) -> bool:
    """Whether a block holds whole rows, in a form that hoodie reads.

    Args:
        block: A block of `data_blocks`.
    """
    is_partial = block.headers.get(HeaderMetadataType.IS_PARTIAL, "").lower() == "true"
    return not is_partial and block.block_type is not HoodieLogBlockType.HFILE_DATA


def _ranges_of_block(
    block: HoodieLogBlock, table_version: int, columns: Collection[str] | None
) -> StoredColumnRanges | None:
    if not has_whole_rows(block):
        return None
    if block.block_type is HoodieLogBlockType.PARQUET_DATA:
        metadata = metadata_of_parquet(block.content, block.source)
        ranges = read_column_ranges(metadata, columns)
        unsized = (attrs.evolve(found, total_size=0, total_uncompressed_size=0) for found in ranges)
        return StoredColumnRanges(metadata.num_rows, tuple(unsized))
    if block.schema is None:
        raise HoodieCorruptedDataException(f"Cannot read records of {block.source}: it has no schema")
    batch = decode_avro_block(block.content, block.schema, source=block.source)
    rows = pa.Table.from_batches([batch])
    wanted = leaf_columns(rows.schema) if columns is None else columns
    found = column_ranges_of_rows(rows, wanted, table_version, fields_in_millis(block.schema))
    return StoredColumnRanges(rows.num_rows, tuple(found))


def united_ranges(one: StoredColumnRanges, other: StoredColumnRanges) -> StoredColumnRanges:
    """The ranges of two blocks together. A column that only one block has is null in the other.

    Args:
        one: The ranges of the older block.
        other: The ranges of the newer block.
    """
    of_one, of_other = ({found.column_name: found for found in part.ranges} for part in (one, other))
    united = []
    for name in dict.fromkeys([*of_one, *of_other]):
        first = of_one.get(name) or _all_null(of_other[name], one.row_count)
        second = of_other.get(name) or _all_null(of_one[name], other.row_count)
        united.append(united_range(first, second))
    return StoredColumnRanges(one.row_count + other.row_count, tuple(united))


def _all_null(like: HoodieColumnRange, row_count: int) -> HoodieColumnRange:
    return attrs.evolve(like, min_value=None, max_value=None, value_count=row_count, null_count=row_count)


def united_range(one: HoodieColumnRange, other: HoodieColumnRange) -> HoodieColumnRange:
    """The range of a column in two sets of rows together.

    Args:
        one: The range in the older rows.
        other: The range in the newer rows.
    """
    values = one.value_count + other.value_count
    nulls = one.null_count + other.null_count
    if one.min_value is None or other.min_value is None:
        found = other if one.min_value is None else one
        return attrs.evolve(found, value_count=values, null_count=nulls)
    low: RangeValue | None = smaller(one.min_value, other.min_value)
    high: RangeValue | None = larger(one.max_value, other.max_value)
    if (one.value_type, one.precision, one.scale) != (other.value_type, other.precision, other.scale):
        # The blocks have different types: readers take the type of the later one.
        low, high = widest_range(other.value_type, other.precision)
    return attrs.evolve(other, min_value=low, max_value=high, value_count=values, null_count=nulls)
