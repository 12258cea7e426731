"""Assign the records of a delta commit to buckets.

Hudi: org.apache.hudi.table.action.deltacommit.SparkUpsertDeltaCommitPartitioner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from hoodie.common.fs.file_names import make_file_id
from hoodie.common.model.file_slice import FileSlice
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.io.append_handle import LogPlaces
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.action.commit.upsert_partitioner import UpsertPartitioner
from hoodie.table.workload_profile import WorkloadProfile


@attrs.frozen
class AppendedRecords:
    """The records of a delta commit that go to log files; the others go to base files.

    Attributes:
        updates: Changes of stored records.
        inserts: New records too, of small file groups.
        new_groups: Also the first records of a file group that the index names.
    """

    updates: bool = True
    inserts: bool = False
    new_groups: bool = False


class MergeOnReadPartitioner(UpsertPartitioner):
    """Decides the buckets of a delta commit: changes are appended to their file groups, inserts go to base files.

    Inserts fill the smallest files of a partition that have no log files. Such a file is rewritten, with the changes of
    its stored records. Where the index finds keys in log files, inserts may be appended to small file groups.

    Args:
        profile, config, file_slices, record_size: See `UpsertPartitioner`.
        log_places: The places where changes are appended.
        appended: The records that are appended.

    Hudi: org.apache.hudi.table.action.deltacommit.SparkUpsertDeltaCommitPartitioner.
    """

    def __init__(
        self,
        profile: WorkloadProfile,
        config: HoodieWriteConfig,
        file_slices: Mapping[str, Sequence[FileSlice]],
        record_size: int,
        log_places: LogPlaces,
        appended: AppendedRecords,
    ) -> None:
        self._log_places = log_places
        self._begins_logs = appended.new_groups
        self._fills_logs = appended.updates and appended.inserts
        super().__init__(profile, config, file_slices, record_size)
        if appended.updates:
            filled = {(path, place.file_id) for path, places in self.inserts_into.items() for place in places}
            self.buckets = [
                bucket
                if (bucket.partition_path, bucket.file_id) in filled and not self._fills_logs
                else self._appended(bucket)
                for bucket in self.buckets
            ]

    def _appended(self, bucket: BucketInfo) -> BucketInfo:
        if bucket.bucket_type is BucketType.INSERT and self._begins_logs:
            place = self._log_places.first(bucket.partition_path, make_file_id(bucket.file_id, 0))
            return attrs.evolve(bucket, log_place=place)
        if bucket.bucket_type is not BucketType.UPDATE or bucket.file_slice is None:
            return bucket
        return attrs.evolve(bucket, log_place=self._log_places.of(bucket.file_slice))

    def _update_bytes(self, file_slice: FileSlice, count: int) -> int:
        return count * self.record_size

    def _small_slices(self, partition_path: str) -> list[FileSlice]:
        """The smallest small slices without log files, as many as may be filled; see `UpsertPartitioner`."""
        slices = self._file_slices.get(partition_path, {}).values()
        if self._fills_logs:
            return self._smallest(slices)
        free = [part for part in slices if part.is_base_file_alone and not self._log_places.is_compacted(part)]
        return self._smallest(free)[: self._config.compaction.merge_small_file_group_candidates_limit]

    def _size(self, file_slice: FileSlice) -> int:
        """The expected size of the slice's base file after a compaction."""
        base_bytes = file_slice.base_file.size_bytes if file_slice.base_file is not None else 0
        log_bytes = sum(log_file.size_bytes for log_file in file_slice.log_files if not log_file.is_cdc)
        return base_bytes + int(log_bytes * self._config.compaction.logfile_to_parquet_compression_ratio)

    @property
    def _overflows(self) -> bool:
        return not self._fills_logs
