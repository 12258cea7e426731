"""The merged records of one file slice of a metadata table, piece by piece.

A slice of a record index may have many millions of entries. Base file and log blocks are sorted by key, so they are
merged like sorted lists: only a piece of each is in memory at any moment.

Hudi: the iterator of org.apache.hudi.metadata.HoodieBackedTableMetadata over a whole slice, as compactions use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.hfile_reader import open_hfile
from hoodie.io.log.log_block_scanner import LogScanCounts
from hoodie.io.log.log_records import LogDeletes
from hoodie.metadata.reader.decoded_files import SMALL_BYTES
from hoodie.metadata.reader.metadata_record_reader import MetadataRecords, MetadataSliceReader, SliceQuery, one_batch
from hoodie.metadata.reader.metadata_table_files import REBUILD
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.records.record_merging import merge_records


class MergedRecordStream:
    """A stream of the live records of a slice in the order of their keys. Works in tasks.

    Memory: the log blocks as they are stored, and a piece of 1 MiB of the base file and of each log block.

    Args:
        reader: The reader of slices of the metadata table.
        file_slice: The slice.
    """

    def __init__(self, reader: MetadataSliceReader, file_slice: FileSlice) -> None:
        self._reader = reader
        self._file_slice = reader.without_unneeded_log_files(file_slice)
        self._payload = reader.payload
        self._scanner = reader.log_scanner(self._file_slice)
        self._log_records = 0

    @property
    def log_records(self) -> int:
        """The number of records and deletes that were read from log blocks so far."""
        return self._log_records

    @property
    def counts(self) -> LogScanCounts:
        """Counts of the blocks in the log files, once `batches` has begun."""
        return self._scanner.counts

    def batches(self) -> Iterator[MetadataRecords]:
        """The records, in batches; keys ascend, also from one batch to the next.

        Raises:
            HoodieMissingFileException: A file is gone.
            HoodieCorruptedDataException: A file is damaged, or has records without a schema; or the block of an instant
                that counts is torn.
            HoodieNotSupportedException: A block or record is of a kind that hoodie does not know.
            HoodieIOException: Storage failed.
        """
        if self._file_slice.size_bytes <= SMALL_BYTES:
            yield from self._whole()
            return
        with ExitStack() as files:
            # The oldest source comes first: records of one key are merged in that order.
            sources = [*self._base(files), *self._logs()]
            while True:
                unfinished = [source for source in sources if source.fill()]
                if not unfinished:
                    return
                # Every source has been read up to this key.
                until = min((source.last_key for source in unfinished), key=lambda key: key.encode("utf-8"))
                parts = [part for source in unfinished if (part := source.take(until)) is not None]
                yield self._merged(parts)

    def _whole(self) -> Iterator[MetadataRecords]:
        """All records of a small slice, whose decoded files are kept."""
        parts = list(self._reader.parts(SliceQuery(self._file_slice), self._scanner))
        has_base = self._file_slice.base_file is not None
        self._log_records = sum(len(part.keys) for part in parts[has_base:])
        if parts:
            yield self._merged([(part.keys, part.rows, part.is_deleted) for part in parts])

    def _base(self, files: ExitStack) -> Iterator[_Source]:
        base_file = self._file_slice.base_file
        if base_file is not None:
            reader = files.enter_context(open_hfile(self._reader.storage, base_file.path))
            yield _Source(reader.batches(), self._payload, reader.avro_schema, base_file.path)

    def _logs(self) -> Iterator[_Source]:
        for part in self._scanner.blocks():
            name = f"instant {part.instant_time} in the log files of {self._file_slice.file_id}"
            if isinstance(part, LogDeletes):
                self._log_records += len(part.record_keys)
                yield _Source(iter([_deletes(part.record_keys)]), self._payload, None, name, is_deleted=True)
                continue
            self._log_records += part.reader.entry_count
            yield _Source(part.reader.batches(), self._payload, part.avro_schema, name)

    def _merged(self, parts: Sequence[tuple[pa.Array, pa.RecordBatch, bool]]) -> MetadataRecords:
        keys = pa.concat_arrays([keys for keys, _, _ in parts])
        rows = one_batch([rows for _, rows, _ in parts], self._payload.schema)
        deleted = np.concatenate([np.full(len(keys), is_deleted) for keys, _, is_deleted in parts])
        merged = merge_records(self._payload, keys, rows, deleted, drop_tombstones=True)
        return MetadataRecords(merged.keys, merged.rows)


class _Source:
    """The entries of the base file or of one log block."""

    def __init__(
        self,
        batches: Iterator[pa.RecordBatch],
        payload: MetadataPayload,
        avro_schema: str | None,
        name: str,
        *,
        is_deleted: bool = False,
    ) -> None:
        self._batches = batches
        self._payload = payload
        self._avro_schema = avro_schema
        self._name = name
        self._is_deleted = is_deleted
        self._rest: pa.RecordBatch | None = None

    def fill(self) -> bool:
        """Read the next piece if the current one is used up; False at the end."""
        while self._rest is None or not self._rest.num_rows:
            self._rest = next(self._batches, None)
            if self._rest is None:
                return False
        return True

    @property
    def last_key(self) -> str:
        """The greatest key of the current piece."""
        assert self._rest is not None
        key: str = self._rest.column("key")[-1].as_py()
        return key

    def take(self, until: str) -> tuple[pa.Array, pa.RecordBatch, bool] | None:
        """Keys and rows of the piece up to a key, and whether they are deletes; None if the piece has none."""
        assert self._rest is not None
        count = pc.sum(pc.less_equal(self._rest.column("key"), pa.scalar(until, pa.string()))).as_py()
        if not count:
            return None
        taken, self._rest = self._rest.slice(0, count), self._rest.slice(count)
        keys = taken.column("key")
        if self._is_deleted:
            empty = [pa.nulls(count, field.type) for field in self._payload.schema]
            return keys, pa.RecordBatch.from_arrays(empty, schema=self._payload.schema), True
        if self._avro_schema is None:
            raise HoodieCorruptedDataException(f"Cannot read records of {self._name}: it has no schema. {REBUILD}")
        return keys, decode_values(taken.column("value"), self._avro_schema, self._payload, self._name), False


def _deletes(keys: pa.Array) -> pa.RecordBatch:
    """Deleted keys, sorted."""
    return pa.record_batch({"key": keys.take(pc.array_sort_indices(keys))})
