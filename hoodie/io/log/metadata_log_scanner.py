"""A scanner of log files of a metadata table's file slice: encoded records and deleted keys, the oldest first.

See `hoodie.io.log.log_block_scanner` for the blocks that count.

Hudi: org.apache.hudi.metadata.HoodieMetadataLogRecordReader.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import attrs
import pyarrow as pa

from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.exception import HoodieNotSupportedException
from hoodie.io.hfile.hfile_reader import HFileReader
from hoodie.io.log.hfile_block import open_hfile_block
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType, StoredLogBlock
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import EVERY_BLOCK, KnownLogBlocks, LogBlockScanner, LogScanCounts
from hoodie.io.log.log_records import LogDeletes
from hoodie.storage.storage import HoodieStorage


@attrs.frozen(eq=False)
class LogEncodedRecords:
    """Records of one HFile block, still encoded.

    Attributes:
        instant_time: The instant that wrote the block.
        entries: Their keys (string, ascending) and values (binary), see `hoodie.io.hfile.data_block.ENTRY_SCHEMA`.
        avro_schema: The schema of the values as JSON; None if the block has none.
    """

    instant_time: str
    entries: pa.Table
    avro_schema: str | None


@attrs.frozen(eq=False, slots=False)
class LogHFile:
    """The records of one HFile block, not read yet.

    Attributes:
        instant_time: The instant that wrote the block.
        block: The block.
        avro_schema: See `LogEncodedRecords`.
    """

    instant_time: str
    block: HoodieLogBlock
    avro_schema: str | None

    @cached_property
    def reader(self) -> HFileReader:
        """Its records.

        Raises:
            HoodieCorruptedDataException: The block is damaged.
        """
        return open_hfile_block(self.block)


class MetadataLogScanner:
    """A scanner of the records and deletes of one slice's log files in a metadata table, the oldest first.

    Memory: see `LogBlockScanner`, and the wanted records of one block.

    Args:
        storage: The storage of the files.
        log_files: The log files of the slice, in any order.
        block_filter: The rule which blocks count.
        known_blocks: See `LogBlockScanner`.

    Hudi: org.apache.hudi.metadata.HoodieMetadataLogRecordReader. Differs: merges nothing.
    """

    def __init__(
        self,
        storage: HoodieStorage,
        log_files: Iterable[HoodieLogFile],
        block_filter: LogBlockFilter = EVERY_BLOCK,
        known_blocks: KnownLogBlocks | None = None,
        committed: CommittedLogFiles | None = None,
    ) -> None:
        self._block_scanner = LogBlockScanner(
            storage, log_files, block_filter, known_blocks=known_blocks, committed=committed
        )
        self._blocks: list[StoredLogBlock] | None = None

    @property
    def counts(self) -> LogScanCounts:
        """The counts, once a scan has begun."""
        return self._block_scanner.counts

    def scan(
        self, keys: pa.StringArray | None = None, prefixes: pa.StringArray | None = None
    ) -> Iterator[LogEncodedRecords | LogDeletes]:
        """The records and deletes of the blocks that count, in the order in which they are merged.

        Deletes are always given whole. A block without any of the wanted keys gives nothing.

        Args:
            keys: The wanted keys, in any order.
            prefixes: Beginnings of the wanted keys, in any order. With neither, all records are given; with both, those
                of the keys, then those of the prefixes.

        Raises:
            HoodieMissingFileException: A log file is missing.
            HoodieIOException: Storage failed.
            HoodieCorruptedDataException: A block is damaged; the message names the file and the byte.
            HoodieNotSupportedException: A block has a type or version that metadata tables do not have.
        """
        for part in self.blocks():
            if isinstance(part, LogDeletes):
                yield part
                continue
            for entries in chosen_entries(part.reader, keys, prefixes):
                if entries.num_rows:
                    yield LogEncodedRecords(part.instant_time, entries, part.avro_schema)

    def blocks(self, start: int = 0) -> Iterator[LogHFile | LogDeletes]:
        """The blocks that count, in the order in which they are merged.

        Memory: the stored bytes of each block, as long as the caller holds it.

        Args:
            start: The number of `counted_blocks` to leave out at the beginning.

        Raises:
            HoodieException: See `scan`.
        """
        for block in self._block_scanner.loaded(self.counted_blocks()[start:]):
            if block.block_type is HoodieLogBlockType.DELETE:
                # Imported here: few metadata tables have delete blocks, and reads of others start earlier without.
                from hoodie.io.log.delete_block import decode_delete_block

                yield from decode_delete_block(block)
                continue
            if block.block_type is not HoodieLogBlockType.HFILE_DATA:
                raise HoodieNotSupportedException(
                    f"Cannot read {block.source}: it is of type {block.block_type.name}, and data blocks of metadata "
                    "tables are HFiles"
                )
            yield LogHFile(str(block.instant_time), block, block.schema)

    def counted_blocks(self) -> Sequence[StoredLogBlock]:
        """The blocks that count, in the order in which they are merged; their headers are read once.

        Raises:
            HoodieException: See `scan`.
        """
        if self._blocks is None:
            self._blocks = self._block_scanner.blocks()
        return self._blocks


def chosen_entries(
    reader: HFileReader, keys: pa.StringArray | None, prefixes: pa.StringArray | None, most: int | None = None
) -> Iterator[pa.Table]:
    """Entries of an HFile; see `MetadataLogScanner.scan`.

    Args:
        reader: The file.
        keys: The wanted keys.
        prefixes: Beginnings of the wanted keys.
        most: The most entries with such prefixes that are wanted; None for any number.

    Raises:
        TooManyEntriesError: More entries match.
        HoodieException: See `HFileReader`.
    """
    if keys is None and prefixes is None:
        yield from (pa.Table.from_batches([batch]) for batch in reader.batches())
    if keys is not None:
        yield reader.look_up(keys)
    if prefixes is not None:
        yield reader.look_up_prefixes(prefixes, most)
