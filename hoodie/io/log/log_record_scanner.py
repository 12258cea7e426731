"""A scanner of the records in a file slice's log files that count, in the order in which they are merged.

See `hoodie.io.log.log_block_scanner` for the blocks that count.

Hudi: org.apache.hudi.common.table.log.{BaseHoodieLogRecordReader, HoodieMergedLogRecordReader}.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_converters import fields_in_millis
from hoodie.common.data.column_values import ColumnValues
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.util.arrow_buffers import booleans_of, flags_in
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.log.data_block import DataBlockReader
from hoodie.io.log.delete_block import decode_delete_block
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import EVERY_BLOCK, LogBlockScanner, LogScanCounts
from hoodie.io.log.log_records import LogDeletes, LogEntries, LogRows
from hoodie.io.log.record_positions import decode_positions
from hoodie.storage.storage import HoodieStorage

logger = logging.getLogger(__name__)

EntriesT = TypeVar("EntriesT", LogRows, LogDeletes)


class HoodieLogRecordScanner:
    """A scanner of the rows and deletes of one slice's log files, the oldest first.

    Log files are read by ranges: first the headers of all blocks, then the contents of those that count. CDC files and
    blocks are left out. So are torn blocks of dead writers, with a warning that names file and byte.

    Memory: one block, the headers of all, and up to 32 MiB of small blocks that were read together with their headers.

    Args:
        storage: The storage of the files.
        log_files: The log files of the slice, in any order.
        schema: The types to read columns in, meta columns included.
        columns: The columns of the rows, in this order, at least one; None for all of the schema.
        block_filter: The rule which blocks count.
        base_instant_time: The instant of the slice's base file, if positions of records in it are wanted. Blocks with
            positions in another base file lose them. None: all blocks do.
        committed: See `LogBlockScanner`.
        searched: Only the records whose key is one of these values are given; None: all records. The records' keys are
            stored then, and the column of the values is among ``columns``.

    Hudi: org.apache.hudi.common.table.log.BaseHoodieLogRecordReader. Differs: merges nothing.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        log_files: Iterable[HoodieLogFile],
        schema: pa.Schema,
        columns: Sequence[str] | None = None,
        block_filter: LogBlockFilter = EVERY_BLOCK,
        base_instant_time: str | None = None,
        committed: CommittedLogFiles | None = None,
        searched: ColumnValues | None = None,
    ) -> None:
        self._searched = searched
        self._has_other_keys = False
        self._block_scanner = LogBlockScanner(storage, log_files, block_filter, base_instant_time, committed=committed)
        self._data_blocks = DataBlockReader(schema, columns)
        self._base_instant_time = base_instant_time

    @property
    def counts(self) -> LogScanCounts:
        """The counts, once a scan has begun."""
        return self._block_scanner.counts

    @property
    def has_other_keys(self) -> bool:
        """Whether a row that was met has one of the searched values, and a record key that is none of them."""
        return self._has_other_keys

    def scan(self, blocks: Sequence[StoredLogBlock] | None = None) -> Iterator[LogEntries]:
        """The records of the blocks that count, in the order in which they are merged.

        Later entries are newer. The rows of one block come in the order of the block; a large block may come as several
        entries.

        Args:
            blocks: The result of `blocks`; None if it was not called.

        Raises:
            HoodieMissingFileException: A log file is missing.
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: A block is damaged; the message names the file and the byte.
            HoodieNotSupportedException: A block has a type or version that hoodie does not read.
            HoodieSchemaException: A column of a block cannot be read in the type of the schema.
        """
        for block in self._block_scanner.loaded(self.blocks() if blocks is None else blocks):
            if block.block_type is HoodieLogBlockType.DELETE:
                yield from self._deletes(block)
            else:
                yield from self._rows(block)

    def blocks(self) -> list[StoredLogBlock]:
        """The data and delete blocks that count, in the order in which they are merged.

        Raises:
            HoodieException: See `scan`.
        """
        counted = self._block_scanner.blocks()
        for block in counted:
            if block.block_type is HoodieLogBlockType.HFILE_DATA:
                raise HoodieNotSupportedException(
                    f"Cannot read {block.source}: it is an HFile block, met outside a metadata table. Hudi writes such "
                    "blocks into tables whose base files are HFiles, which hoodie does not read"
                )
        return counted

    def _rows(self, block: HoodieLogBlock) -> Iterator[LogRows]:
        is_partial = block.headers.get(HeaderMetadataType.IS_PARTIAL, "").lower() == "true"
        partial_columns = frozenset(self._data_blocks.written_schema(block).names) if is_partial else None
        if self._searched is not None:
            yield self._searched_rows(block, partial_columns, self._searched)
            return
        batches: Iterable[pa.RecordBatch] = self._data_blocks.read(block)
        positions = None
        if HeaderMetadataType.RECORD_POSITIONS in block.headers:
            batches = list(batches)
            positions = _positions(block, sum(batch.num_rows for batch in batches))
        first = 0
        for batch in batches:
            entries = LogRows(str(block.instant_time), batch, partial_columns)
            yield self._positioned(entries, positions, first, batch.num_rows)
            first += batch.num_rows

    def _searched_rows(
        self, block: HoodieLogBlock, partial_columns: frozenset[str] | None, searched: ColumnValues
    ) -> LogRows:
        """The rows whose key is searched; none, with positions if the block has them, if it holds no such row."""
        some = self._data_blocks.read_rows_with(block, searched)
        is_searched = _is_among(some.rows.column(RECORD_KEY_META), searched.values)
        if searched.column != RECORD_KEY_META:
            has_value = _is_among(some.rows.column(searched.column), searched.values)
            self._has_other_keys |= bool((has_value & ~is_searched).any())
        entries = LogRows(str(block.instant_time), some.rows.filter(booleans_of(is_searched)), partial_columns)
        positions = None
        if HeaderMetadataType.RECORD_POSITIONS in block.headers:
            positions = _positions(block, some.count)
        if positions is None:
            return entries
        return self._positioned(entries, positions[some.numbers[is_searched]], 0, entries.rows.num_rows)

    def _deletes(self, block: HoodieLogBlock) -> Iterator[LogDeletes]:
        deletes = decode_delete_block(block)
        positions = None
        if HeaderMetadataType.RECORD_POSITIONS in block.headers:
            positions = _positions(block, sum(len(entries.record_keys) for entries in deletes))
        first = 0
        in_millis = fields_in_millis(block.schema) if block.schema is not None else frozenset()
        for entries in deletes:
            if in_millis:
                entries = attrs.evolve(entries, fields_in_millis=in_millis)
            first, start = first + len(entries.record_keys), first
            entries = self._positioned(entries, positions, start, first - start)
            yield entries if self._searched is None else _with_keys(entries, self._searched.values)

    def _positioned(
        self, entries: EntriesT, positions: npt.NDArray[np.int64] | None, first: int, count: int
    ) -> EntriesT:
        """Entries with their part of the positions of a block."""
        if positions is None:
            return entries
        some = positions[first : first + count]
        return attrs.evolve(entries, positions=some, positions_of=self._base_instant_time)


def _is_among(column: pa.Array, values: pa.Array) -> npt.NDArray[np.bool_]:
    return flags_in(pc.is_in(column, value_set=values))


def _with_keys(deletes: LogDeletes, keys: pa.Array) -> LogDeletes:
    """The deletes of some keys."""
    is_wanted = _is_among(deletes.record_keys, keys)
    columns = (deletes.record_keys, deletes.partition_paths, deletes.ordering)
    record_keys, partition_paths, ordering = (column.filter(booleans_of(is_wanted)) for column in columns)
    positions = deletes.positions[is_wanted] if deletes.positions is not None else None
    return attrs.evolve(
        deletes, record_keys=record_keys, partition_paths=partition_paths, ordering=ordering, positions=positions
    )


def _positions(block: HoodieLogBlock, count: int) -> npt.NDArray[np.int64] | None:
    """The positions of a block's records; None if the header is wrong: the keys suffice."""
    try:
        return decode_positions(block.headers[HeaderMetadataType.RECORD_POSITIONS], count)
    except ValueError as error:
        logger.warning("The positions of the records in %s are ignored: %s", block.source, error)
        return None
