"""Compact a slice of a metadata table into a new base file.

Hudi: org.apache.hudi.table.action.compact.HoodieCompactor, for metadata tables.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import attrs

from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat, RuntimeStats
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.hfile.block_codec import SMALL_LEVEL
from hoodie.io.hfile.hfile_writer import HFileWriter
from hoodie.metadata.reader.merged_record_stream import MergedRecordStream
from hoodie.metadata.reader.metadata_record_reader import MetadataSliceReader
from hoodie.metadata.records.metadata_records import encode_values
from hoodie.metadata.writer.file_group_writer import HFILE
from hoodie.storage.storage_path import METAFOLDER_NAME, join
from hoodie.storage.written_file import written_file


@attrs.frozen
class CompactMetadataSlice:
    """Task: merges one slice into a base file; picklable.

    Memory: that of `MergedRecordStream` and of `HFileWriter`.

    Attributes:
        readers: A reader of slices for each partition.
        instant_time: The compaction.
        avro_schema: The schema of the records to write, meta fields included.
    """

    readers: Mapping[str, MetadataSliceReader]
    instant_time: str
    avro_schema: str

    def __call__(self, task: TaskIdentity, file_slice: FileSlice) -> HoodieWriteStat | None:
        """Write the base file.

        Returns:
            Its statistics; None if the slice has no base file and no live record: then no file is written.

        Raises:
            HoodieCommitException: The compaction accepts no more files, because another attempt of the task was faster.
            HoodieException: A file is missing or damaged, or storage failed.
        """
        reader = self.readers[file_slice.partition_path]
        storage, payload = reader.storage, reader.payload
        markers = WriteMarkers(storage, join(reader.base_path, METAFOLDER_NAME), self.instant_time)
        name = make_base_file_name(file_slice.file_id, task.write_token, self.instant_time, HFILE)
        path = join(reader.base_path, file_slice.partition_path, name)
        markers.refuse_if_closed(path)
        started = time.monotonic()
        stream = MergedRecordStream(reader, file_slice)
        parts = (part for part in stream.batches() if len(part.keys))
        first = next(parts, None)
        if first is None and file_slice.base_file is None:
            return None
        try:
            with written_file(storage, path) as sink:
                writer = HFileWriter(sink, path, self.avro_schema, level=SMALL_LEVEL)
                while first is not None:
                    writer.write(first.keys, encode_values(first.rows, self.avro_schema, payload, name))
                    first = next(parts, None)
                writer.finish()
            markers.refuse_if_closed(path)
        except BaseException:
            storage.delete_file(path)
            raise
        elapsed_ms = int((time.monotonic() - started) * 1000)
        return _stat(file_slice, join(file_slice.partition_path, name), writer, stream, elapsed_ms)


def _stat(
    file_slice: FileSlice, path: str, writer: HFileWriter, stream: MergedRecordStream, elapsed_ms: int
) -> HoodieWriteStat:
    base_file, counts = file_slice.base_file, stream.counts
    return HoodieWriteStat(
        file_id=file_slice.file_id,
        partition_path=file_slice.partition_path,
        path=path,
        prev_commit=NULL_COMMIT if base_file is None else file_slice.base_instant_time,
        prev_base_file=None if base_file is None else base_file.file_name,
        num_writes=writer.entry_count,
        num_inserts=writer.entry_count if base_file is None else 0,
        num_update_writes=0 if base_file is None else stream.log_records,
        total_write_bytes=writer.size_bytes,
        file_size_bytes=writer.size_bytes,
        total_log_records=stream.log_records,
        total_updated_records_compacted=stream.log_records,
        total_log_files_compacted=counts.log_files,
        total_log_size_compacted=sum(log_file.size_bytes for log_file in file_slice.log_files),
        total_log_blocks=counts.log_blocks,
        total_corrupt_log_block=counts.corrupt_blocks,
        total_rollback_blocks=counts.rollback_blocks,
        runtime_stats=RuntimeStats(total_create_time=elapsed_ms),
    )
