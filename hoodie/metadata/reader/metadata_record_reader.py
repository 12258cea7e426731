"""Reader of the records of file groups of a metadata table: base file and log files, merged.

Hudi: org.apache.hudi.metadata.HoodieMetadataMergedLogRecordScanner, and its use in HoodieBackedTableMetadata.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.instant_time import is_after, is_before, newest
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.common.util.arrow_buffers import texts_of
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.hfile_reader import HFileReader, open_hfile
from hoodie.io.log.log_block import StoredLogBlock
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import compacted_instants
from hoodie.io.log.log_records import LogDeletes
from hoodie.io.log.metadata_log_scanner import LogHFile, MetadataLogScanner, chosen_entries
from hoodie.metadata.reader.decoded_files import DECODED_FILES, SMALL_BYTES, DecodedEntries
from hoodie.metadata.reader.empty_log_files import without_empty_log_files
from hoodie.metadata.reader.metadata_table_files import REBUILD, MetadataTableFiles, is_initial_time
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.records.record_merging import merge_records
from hoodie.storage.storage import HoodieStorage


@attrs.frozen(eq=False)
class MetadataRecords:
    """The live records of a partition of a metadata table.

    Attributes:
        keys: Their keys (string), ascending within each file group.
        rows: One for each key; of the payload's schema.
    """

    keys: pa.Array
    rows: pa.RecordBatch

    @classmethod
    def joined(cls, parts: Sequence[MetadataRecords], payload: MetadataPayload) -> MetadataRecords:
        """The records of several file groups as one value."""
        return cls(
            pa.concat_arrays([texts_of([]), *(part.keys for part in parts)]),
            one_batch([part.rows for part in parts], payload.schema),
        )


@attrs.frozen(eq=False)
class SliceQuery:
    """A query for records of one file slice.

    Attributes:
        file_slice: The slice.
        keys: The keys that are wanted (string).
        prefixes: Beginnings of the wanted keys (string). With neither keys nor prefixes, all records are read.
        most: The most records with such prefixes in a file or log block, deleted ones included; None for any
            number. Small files are read anyway.
    """

    file_slice: FileSlice
    keys: pa.Array | None = None
    prefixes: pa.Array | None = None
    most: int | None = None


@attrs.frozen(eq=False)
class SlicePart:
    """The matching records of one file or log block.

    Attributes:
        keys: Record keys (string).
        rows: One for each key; of the payload's schema. Nulls where the keys are deleted.
        is_deleted: Whether the keys are deleted.
    """

    keys: pa.Array
    rows: pa.RecordBatch
    is_deleted: bool = False


def read_records(
    files: MetadataTableFiles, payload: MetadataPayload, queries: Sequence[SliceQuery]
) -> list[MetadataRecords]:
    """The records of several slices, some of which are read at the same time.

    Memory: the answer, and the memory of `HFileReader` and `MetadataLogScanner` for each of 16 slices.

    Args:
        files: The metadata table.
        payload: The payload of the records.
        queries: The wanted slices and keys.

    Returns:
        The records of each query.

    Raises:
        TooManyEntriesError: More records match than a query allows.
        HoodieMissingFileException: A file is gone.
        HoodieCorruptedDataException: A file is damaged.
        HoodieIOException: Storage failed.
    """
    return list(map_concurrently(MetadataSliceReader.of(files, payload).read, queries))


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of several batches of a schema as one batch."""
    if len(batches) == 1:
        return batches[0]
    joined = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return joined[0] if joined else pa.RecordBatch.from_pylist([], schema=schema)


def _chosen(entries: DecodedEntries, query: SliceQuery) -> Iterator[SlicePart]:
    """The entries of a file or block that a query wants."""
    keys, rows = entries.keys, entries.rows
    if (query.keys is None and query.prefixes is None) or not len(keys):
        yield SlicePart(keys, rows)
        return
    places = [np.empty(0, np.int64)]
    if query.keys is not None:
        places.append(np.flatnonzero(pc.is_in(keys, value_set=query.keys).to_numpy(zero_copy_only=False)))
    if query.prefixes is not None:
        places.append(_places_of_prefixes(keys, query.prefixes))
    chosen = np.unique(np.concatenate(places))
    if len(chosen) == len(keys):
        yield SlicePart(keys, rows)
    elif len(chosen):
        taken = pa.array(chosen)
        yield SlicePart(keys.take(taken), rows.take(taken))


def _places_of_prefixes(keys: pa.Array, prefixes: pa.Array) -> npt.NDArray[np.int64]:
    """The places of keys that begin with one of the prefixes."""
    # Python compares strings in the order of their UTF-8 bytes.
    texts: list[str] = keys.to_pylist()
    places: list[int] = []
    for prefix in prefixes.to_pylist():
        place = bisect_left(texts, prefix)
        while place < len(texts) and texts[place].startswith(prefix):
            places.append(place)
            place += 1
    return np.array(places, np.int64)


def _counted_blocks(scanner: MetadataLogScanner) -> Sequence[StoredLogBlock]:
    return scanner.counted_blocks()


def _is_between(first: str | None, instant_time: str, last: str) -> bool:
    return first is not None and is_after(instant_time, first) and is_before(instant_time, last)


@attrs.frozen(eq=False)
class MetadataSliceReader:
    """Reads the records of slices of a metadata table; crosses to tasks.

    Attributes:
        storage: The storage of the files.
        committed: The sizes that completed instants give for log files; they tell damaged files from torn ones.
        block_filter: The rule which log blocks count.
        payload: The payload of the records.
        log_compactions: The log compactions that count, by which `without_unneeded_log_files` leaves out log files.
    """

    storage: HoodieStorage
    committed: CommittedLogFiles
    block_filter: LogBlockFilter
    payload: MetadataPayload
    log_compactions: frozenset[str] = frozenset()

    @classmethod
    def of(cls, files: MetadataTableFiles, payload: MetadataPayload) -> Self:
        """A reader of slices of a metadata table.

        Args:
            files: The metadata table.
            payload: The payload of the records.
        """
        storage, committed = files.snapshot.storage, files.committed_log_files
        return cls(storage, committed, files.block_filter, payload, files.log_compactions)

    @property
    def base_path(self) -> str:
        """The folder of the metadata table."""
        return self.committed.base_path

    def read(self, query: SliceQuery) -> MetadataRecords:
        """The records of a slice that a query wants, with their keys.

        Args:
            query: The slice and the wanted keys.

        Raises:
            HoodieException: See `read_records`.
        """
        query = attrs.evolve(query, file_slice=self.without_unneeded_log_files(query.file_slice))
        if query.file_slice.size_bytes > SMALL_BYTES:
            return self._merged(self._parts_at_once(query, self.log_scanner(query.file_slice)))
        for part in _chosen(self._whole(query.file_slice), query):
            return MetadataRecords(part.keys, part.rows)
        return self._merged([])

    def _whole(self, file_slice: FileSlice) -> DecodedEntries:
        """All records of a small slice.

        The merge result of its first blocks is kept, and later blocks are merged into it.

        A compaction after the first blocks would have written the same records, and later blocks would be merged into
        those.
        """
        query, scanner = SliceQuery(file_slice), self.log_scanner(file_slice)
        base_file, known, count = file_slice.base_file, None, 0
        if base_file is None or DECODED_FILES.find_entries(base_file, 0, self.payload) is not None:
            blocks = scanner.counted_blocks()
            if not scanner.counts.corrupt_blocks:
                known, count = DECODED_FILES.find_merged(file_slice, blocks, self.payload)
            if known is not None and count == len(blocks):
                return known
        if known is None:
            parts = self._parts_at_once(query, scanner)
        else:
            parts = [SlicePart(known.keys, known.rows), *self.log_parts(query, scanner, count)]
        merged = self._merged(parts)
        entries = DecodedEntries(merged.keys, merged.rows)
        if not scanner.counts.corrupt_blocks:
            DECODED_FILES.keep_merged(file_slice, scanner.counted_blocks(), self.payload, entries)
        return entries

    def _merged(self, parts: Sequence[SlicePart]) -> MetadataRecords:
        """The live records of parts, the oldest part first."""
        if not parts:
            return MetadataRecords(pa.array([], pa.string()), one_batch([], self.payload.schema))
        rows = one_batch([part.rows for part in parts], self.payload.schema)
        deleted = np.concatenate([np.full(len(part.keys), part.is_deleted) for part in parts])
        keys = pa.concat_arrays([part.keys for part in parts])
        merged = merge_records(self.payload, keys, rows, deleted, drop_tombstones=True)
        return MetadataRecords(merged.keys, merged.rows)

    def without_unneeded_log_files(self, file_slice: FileSlice) -> FileSlice:
        """A slice without the log files that need not be read: empty ones, and those that a log compaction replaced.

        The log file of a log compaction names the instants whose blocks it replaces. In versions 8 and 9 the names of
        log files tell their instants, so only those of log compactions have to be opened. Nothing is left out where
        another log file belongs between one of these and the ones that it replaces.

        Raises:
            HoodieException: See `read_records`.
        """
        file_slice = without_empty_log_files(file_slice)
        merged = tuple(log_file for log_file in file_slice.log_files if log_file.instant_time in self.log_compactions)
        if not merged:
            return file_slice
        # One that a later one replaced still tells what it replaced itself.
        scanners = [self.log_scanner(attrs.evolve(file_slice, log_files=(log_file,))) for log_file in merged]
        listed = [compacted_instants(blocks) for blocks in map_concurrently(_counted_blocks, scanners)]
        replaced = frozenset(time for times in listed for time in times)
        # Log files of version 6, in upgraded tables, have the time of a build or a compaction.
        kept = tuple(
            log_file
            for log_file in file_slice.log_files
            if log_file.instant_time not in replaced or is_initial_time(log_file.instant_time)
        )
        for log_file, times in zip(merged, listed, strict=True):
            if any(_is_between(newest(times), one.instant_time, log_file.instant_time) for one in kept):
                return file_slice
        return attrs.evolve(file_slice, log_files=kept)

    def log_scanner(self, file_slice: FileSlice) -> MetadataLogScanner:
        """A scanner of the log blocks of a slice."""
        return MetadataLogScanner(self.storage, file_slice.log_files, self.block_filter, DECODED_FILES, self.committed)

    def _parts_at_once(self, query: SliceQuery, scanner: MetadataLogScanner) -> list[SlicePart]:
        """`parts` as a list. Base file and log files are read at the same time unless they are kept."""
        file_slice = query.file_slice
        base_file = file_slice.base_file
        are_known = all(DECODED_FILES.find(log_file) is not None for log_file in file_slice.log_files)
        if base_file is None or are_known or DECODED_FILES.find_entries(base_file, 0, self.payload) is not None:
            return list(self.parts(query, scanner))
        readers: tuple[Callable[[], Iterator[SlicePart]], ...] = (
            partial(self._base_parts, base_file, query),
            partial(self.log_parts, query, scanner),
        )
        return [part for parts in map_concurrently(lambda read: list(read()), readers) for part in parts]

    def parts(self, query: SliceQuery, scanner: MetadataLogScanner) -> Iterator[SlicePart]:
        """The wanted records of the base file and of each log block, the oldest first.

        Args:
            query: The slice and the wanted keys.
            scanner: `log_scanner` of the slice.

        Raises:
            HoodieException: See `read_records`.
        """
        if query.file_slice.base_file is not None:
            yield from self._base_parts(query.file_slice.base_file, query)
        yield from self.log_parts(query, scanner)

    def log_parts(self, query: SliceQuery, scanner: MetadataLogScanner, start: int = 0) -> Iterator[SlicePart]:
        """The wanted records of each log block, the oldest first.

        Args:
            query: The slice and the wanted keys.
            scanner: `log_scanner` of the slice.
            start: The number of blocks to leave out at the beginning.

        Raises:
            HoodieException: See `read_records`.
        """
        payload = self.payload
        log_files = {log_file.path: log_file for log_file in query.file_slice.log_files}
        for part in scanner.blocks(start):
            if not isinstance(part, LogDeletes):
                yield from self._block_parts(part, log_files[part.block.path], query)
                continue
            deleted_keys = part.record_keys
            if query.keys is not None and query.prefixes is None:
                deleted_keys = deleted_keys.filter(pc.is_in(deleted_keys, value_set=query.keys))
            empty = [pa.nulls(len(deleted_keys), field.type) for field in payload.schema]
            yield SlicePart(deleted_keys, pa.RecordBatch.from_arrays(empty, schema=payload.schema), is_deleted=True)

    def _base_parts(self, base_file: HoodieBaseFile, query: SliceQuery) -> Iterator[SlicePart]:
        path, is_small = base_file.path, base_file.size_bytes <= SMALL_BYTES
        known = DECODED_FILES.find_entries(base_file, 0, self.payload) if is_small else None
        if known is not None:
            yield from _chosen(known, query)
            return
        with open_hfile(self.storage, path, base_file.size_bytes) as reader:
            if is_small:
                known = self._all_entries(reader, reader.avro_schema, path)
                DECODED_FILES.keep_entries(base_file, 0, self.payload, known)
                yield from _chosen(known, query)
            else:
                for entries in chosen_entries(reader, query.keys, query.prefixes, query.most):
                    yield from self._decoded(entries, reader.avro_schema, path)

    def _block_parts(self, part: LogHFile, log_file: HoodieLogFile, query: SliceQuery) -> Iterator[SlicePart]:
        source, offset_bytes = str(part.block.source), part.block.offset_bytes
        if len(part.block.content) > SMALL_BYTES:
            for entries in chosen_entries(part.reader, query.keys, query.prefixes, query.most):
                yield from self._decoded(entries, part.avro_schema, source)
            return
        known = DECODED_FILES.find_entries(log_file, offset_bytes, self.payload)
        if known is None:
            known = self._all_entries(part.reader, part.avro_schema, source)
            DECODED_FILES.keep_entries(log_file, offset_bytes, self.payload, known)
        yield from _chosen(known, query)

    def _all_entries(self, reader: HFileReader, avro_schema: str | None, source: str) -> DecodedEntries:
        parts = [part for batch in reader.batches() for part in self._decoded(batch, avro_schema, source)]
        records = MetadataRecords.joined([MetadataRecords(part.keys, part.rows) for part in parts], self.payload)
        return DecodedEntries(records.keys, records.rows)

    def _decoded(self, entries: pa.Table | pa.RecordBatch, avro_schema: str | None, source: str) -> Iterator[SlicePart]:
        if entries.num_rows and avro_schema is None:
            raise HoodieCorruptedDataException(f"Cannot read records of {source}: it has no schema. {REBUILD}")
        batches = [entries] if isinstance(entries, pa.RecordBatch) else entries.combine_chunks().to_batches()
        for batch in batches:
            rows = decode_values(batch.column("value"), str(avro_schema), self.payload, source)
            yield SlicePart(batch.column("key"), rows)
