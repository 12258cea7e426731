"""Read the records of file groups of a metadata table: base file and log files, merged.

Hudi: org.apache.hudi.metadata.HoodieMetadataMergedLogRecordScanner, and its use in HoodieBackedTableMetadata.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.hfile.hfile_reader import open_hfile
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_records import LogDeletes
from hoodie.io.log.metadata_log_scanner import MetadataLogScanner, chosen_entries
from hoodie.metadata.reader.metadata_table_files import REBUILD, MetadataTableFiles
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from hoodie.metadata.records.record_merging import merge_records
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name


@attrs.frozen(eq=False)
class MetadataRecords:
    """Records of a partition of a metadata table, without deleted ones.

    Attributes:
        keys: Their keys (string), ascending within each file group.
        rows: One for each key; of the payload's schema.
    """

    keys: pa.Array
    rows: pa.RecordBatch

    @classmethod
    def joined(cls, parts: Sequence[MetadataRecords], payload: MetadataPayload) -> MetadataRecords:
        """The records of several file groups."""
        return cls(
            pa.concat_arrays([pa.array([], pa.string()), *(part.keys for part in parts)]),
            one_batch([part.rows for part in parts], payload.schema),
        )


@attrs.frozen(eq=False)
class SliceQuery:
    """What is wanted of one file slice.

    Attributes:
        file_slice: The slice.
        keys: The keys that are wanted (string).
        prefixes: What wanted keys begin with (string). With neither, all records come.
    """

    file_slice: FileSlice
    keys: pa.Array | None = None
    prefixes: pa.Array | None = None


def read_records(
    files: MetadataTableFiles, payload: MetadataPayload, queries: Sequence[SliceQuery]
) -> list[MetadataRecords]:
    """The records of some slices, several of which are read at the same time.

    Memory: the answer, and what `HFileReader` and `MetadataLogScanner` say for each of 16 slices.

    Args:
        files: The metadata table.
        payload: The payload of the records.
        queries: What is wanted.

    Returns:
        The records of each query.

    Raises:
        HoodieMissingFileException: A file is gone.
        HoodieCorruptedDataException: A file is damaged.
        HoodieIOException: Storage failed.
    """
    return list(map_concurrently(MetadataSliceReader.of(files, payload).read, queries))


def one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """The rows of some batches of a schema, as one."""
    if len(batches) == 1:
        return batches[0]
    found = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=schema)


@attrs.frozen(eq=False)
class MetadataSliceReader:
    """Reads the records of slices of a metadata table; crosses to tasks.

    Attributes:
        storage: Where the files are.
        base_path: The folder of the metadata table.
        timeline: The timeline of the metadata table.
        block_filter: Which log blocks count.
        payload: The payload of the records.
    """

    storage: HoodieStorage
    base_path: str
    timeline: HoodieActiveTimeline
    block_filter: LogBlockFilter
    payload: MetadataPayload

    @classmethod
    def of(cls, files: MetadataTableFiles, payload: MetadataPayload) -> Self:
        """What reads slices of a metadata table.

        Args:
            files: The metadata table.
            payload: The payload of the records.
        """
        snapshot = files.snapshot
        return cls(snapshot.storage, snapshot.base_path, snapshot.active_timeline, files.block_filter, payload)

    def read(self, query: SliceQuery) -> MetadataRecords:
        """The records of a slice, and their keys.

        Args:
            query: What is wanted.

        Raises:
            HoodieException: See `read_records`.
        """
        keys: list[pa.Array] = [pa.array([], pa.string())]
        rows: list[pa.RecordBatch] = []
        deleted: list[npt.NDArray[np.bool_]] = []
        payload = self.payload

        def add(entries: pa.Table, avro_schema: str | None, source: str) -> None:
            if entries.num_rows and avro_schema is None:
                raise HoodieCorruptedDataException(f"Cannot read records of {source}: it has no schema. {REBUILD}")
            for batch in entries.combine_chunks().to_batches():
                keys.append(batch.column("key"))
                rows.append(decode_values(batch.column("value"), str(avro_schema), payload, source))
                deleted.append(np.zeros(batch.num_rows, np.bool_))

        file_slice = query.file_slice
        if file_slice.base_file is not None:
            path = file_slice.base_file.path
            with open_hfile(self.storage, path, file_slice.base_file.size_bytes) as reader:
                for entries in chosen_entries(reader, query.keys, query.prefixes):
                    add(entries, reader.avro_schema, path)
        scanner = MetadataLogScanner(self.storage, file_slice.log_files, self.block_filter)
        for part in scanner.scan(query.keys, query.prefixes):
            if not isinstance(part, LogDeletes):
                source = f"instant {part.instant_time} in the log files of {file_slice.file_id}"
                add(part.entries, part.avro_schema, source)
                continue
            gone = part.record_keys
            if query.keys is not None and query.prefixes is None:
                gone = gone.filter(pc.is_in(gone, value_set=query.keys))
            keys.append(gone)
            empty = [pa.nulls(len(gone), field.type) for field in payload.schema]
            rows.append(pa.RecordBatch.from_arrays(empty, schema=payload.schema))
            deleted.append(np.ones(len(gone), np.bool_))
        if scanner.counts.corrupt_blocks:
            self.refuse_lost_blocks(file_slice, scanner)
        if not rows:
            return MetadataRecords(keys[0], one_batch([], payload.schema))
        found = one_batch(rows, payload.schema)
        merged = merge_records(payload, pa.concat_arrays(keys), found, np.concatenate(deleted), drop_tombstones=True)
        return MetadataRecords(merged.keys, merged.rows)

    def refuse_lost_blocks(self, file_slice: FileSlice, scanner: MetadataLogScanner) -> None:
        """Raise if a torn block belongs to an instant that counts. Otherwise its writer died, and wrote it again.

        Args:
            file_slice: A slice whose log files have a torn block.
            scanner: What has read them.

        Raises:
            HoodieCorruptedDataException: It does.
            HoodieIOException: Storage failed.
        """
        names = {log_file.file_name for log_file in file_slice.log_files}
        for instant in self.timeline.completed_writes():
            time = instant.requested_time
            if time in scanner.instant_times or not self.block_filter.counts(time):
                continue
            for stat in self.timeline.read_commit_metadata(instant).write_stats:
                if file_name(stat.path or "") in names:
                    raise HoodieCorruptedDataException(
                        f"Cannot read the log file {stat.path} of {self.base_path}: the block that the completed "
                        f"instant {time} wrote is torn or gone. {REBUILD}"
                    )
