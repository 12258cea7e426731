"""Deal the records of a write out to buckets.

Hudi: org.apache.hudi.table.action.commit.UpsertPartitioner, AverageRecordSizeUtils.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.common.fs.file_names import new_file_id_prefix
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieIndexException
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.workload_profile import WorkloadProfile

__all__ = ["BucketAssigner", "UpsertPartitioner", "average_record_size"]

logger = logging.getLogger(__name__)


def average_record_size(commits: Iterable[HoodieCommitMetadata], config: HoodieWriteConfig) -> int:
    """Bytes of a record in base files, from what earlier commits wrote.

    Args:
        commits: Metadata of completed commits, the newest first; read only until one is large enough to tell.
        config: The threshold and the estimate for a table that has no such commit.

    Source: AverageRecordSizeUtils.averageBytesPerRecord.
    """
    threshold = config.compaction.record_size_estimation_threshold * config.compaction.parquet_small_file_limit
    for metadata in commits:
        written, records = metadata.total_bytes_written, metadata.total_records_written
        if written > threshold and records > 0:
            return math.ceil(written / records)
    return config.compaction.copy_on_write_record_size_estimate


@attrs.frozen
class _InsertBuckets:
    """Where a partition's inserts go: a key whose hash is below ``cumulative_weights[i]`` goes to ``buckets[i]``."""

    buckets: np.ndarray
    cumulative_weights: np.ndarray


@attrs.frozen
class BucketAssigner:
    """Gives each row of a batch its bucket; a pure function of the row, so a retried task deals alike.

    Attributes:
        update_buckets: (partition path, file id) to bucket number.
        insert_buckets: Partition path to the buckets of its inserts.
    """

    update_buckets: Mapping[tuple[str, str], int]
    insert_buckets: Mapping[str, _InsertBuckets]

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its bucket column (int32)."""
        numbers = np.full(batch.num_rows, -1, dtype=np.int32)
        if batch.num_rows:
            located = CURRENT_FILE_ID in batch.schema.names
            partitions = batch.column(PARTITION_PATH).dictionary_encode()
            codes = partitions.indices.to_numpy()
            files = batch.column(CURRENT_FILE_ID).dictionary_encode() if located else None
            for code, partition_path in enumerate(partitions.dictionary.to_pylist()):
                rows = np.flatnonzero(codes == code) if len(partitions.dictionary) > 1 else np.arange(batch.num_rows)
                if files is not None:
                    rows = self._assign_updates(numbers, rows, partition_path, files)
                if len(rows):
                    self._assign_inserts(numbers, rows, partition_path, batch.column(RECORD_KEY))
        return batch.append_column(reserved_field(BUCKET), pa.array(numbers))

    def _assign_updates(
        self, numbers: np.ndarray, rows: np.ndarray, partition_path: str, files: pa.DictionaryArray
    ) -> np.ndarray:
        """Fill in the rows with a location; the other rows are returned."""
        bucket_of = np.array(
            [self.update_buckets.get((partition_path, file_id), -1) for file_id in files.dictionary.to_pylist()] + [-2],
            dtype=np.int32,
        )
        codes = pc.fill_null(files.indices, len(bucket_of) - 1).to_numpy()[rows]
        found = bucket_of[codes]
        if (found == -1).any():
            file_id = files.dictionary[int(codes[found == -1][0])].as_py()
            raise HoodieIndexException(
                f"file group {file_id} of partition {partition_path!r} is not in the workload profile"
            )
        numbers[rows] = found
        without_location: np.ndarray = rows[found == -2]
        return without_location

    def _assign_inserts(self, numbers: np.ndarray, rows: np.ndarray, partition_path: str, keys: pa.Array) -> None:
        target = self.insert_buckets.get(partition_path)
        if target is None:
            raise HoodieIndexException(
                f"partition {partition_path!r} has inserts that the workload profile did not count"
            )
        if len(target.buckets) == 1:
            numbers[rows] = target.buckets[0]
            return
        hashes = hash_keys(keys.take(pa.array(rows)) if len(rows) < len(keys) else keys)
        places = np.searchsorted(target.cumulative_weights, hashes / 2.0**32, side="right")
        numbers[rows] = target.buckets[np.minimum(places, len(target.buckets) - 1)]


class UpsertPartitioner:
    """Decides the buckets of a write: updates to their file group's, inserts first to small files, the rest to new
    ones.

    Args:
        profile: What is to be written.
        config: File sizes.
        base_files: Partition path to its latest base files, for every partition of the profile.
        record_size: Average bytes of a record.
        closed_file_ids: File groups that may take no inserts.

    Attributes:
        buckets: What each bucket number does.
        inserts_into: Partition path to the inserts that fill existing file groups, by location.

    Hudi: org.apache.hudi.table.action.commit.UpsertPartitioner. Differs: inserts are dealt by Murmur hash of the key,
    not by MD5 (no part of the format).
    """

    def __init__(
        self,
        profile: WorkloadProfile,
        config: HoodieWriteConfig,
        base_files: Mapping[str, Sequence[HoodieBaseFile]],
        record_size: int,
        closed_file_ids: frozenset[str] = frozenset(),
    ) -> None:
        self._config = config
        self._record_size = max(1, record_size)
        self._closed_file_ids = closed_file_ids
        self._update_buckets: dict[tuple[str, str], int] = {}
        self._insert_buckets: dict[str, _InsertBuckets] = {}
        self.buckets: list[BucketInfo] = []
        self.inserts_into: dict[str, dict[HoodieRecordLocation, int]] = {}
        self._base_files = {
            partition_path: {base_file.file_id: base_file for base_file in files}
            for partition_path, files in base_files.items()
        }
        self.assign_updates(profile)
        self.assign_inserts(profile)

    @property
    def num_buckets(self) -> int:
        """How many buckets, and so write tasks, there are."""
        return len(self.buckets)

    def assigner(self) -> BucketAssigner:
        """The function that tasks apply to batches."""
        return BucketAssigner(dict(self._update_buckets), dict(self._insert_buckets))

    def assign_updates(self, profile: WorkloadProfile) -> None:
        """One UPDATE bucket for each file group that holds an incoming key."""
        for partition_path, stat in profile.stats.items():
            for location in stat.updates:
                self._update_bucket(partition_path, location.file_id)

    def assign_inserts(self, profile: WorkloadProfile) -> None:
        """Fill small files up to the maximum size, then open new file groups."""
        for partition_path, stat in profile.stats.items():
            if stat.num_inserts:
                self._assign_inserts(partition_path, stat.num_inserts)

    def _assign_inserts(self, partition_path: str, num_inserts: int) -> None:
        numbers: list[int] = []
        counts: list[int] = []
        left = num_inserts
        maximum = self._config.storage.parquet_max_file_size
        for small_file in self.small_files(partition_path):
            room = min((maximum - small_file.size_bytes) // self._record_size, left)
            if room > 0:
                numbers.append(self._update_bucket(partition_path, small_file.file_id))
                counts.append(room)
                location = HoodieRecordLocation(small_file.instant_time, small_file.file_id)
                self.inserts_into.setdefault(partition_path, {})[location] = room
                left -= room
            if left <= 0:
                break
        if left > 0:
            per_bucket = self._records_per_new_bucket()
            new_buckets = math.ceil(left / per_bucket)
            for number in range(new_buckets):
                numbers.append(len(self.buckets))
                counts.append(per_bucket if number < new_buckets - 1 else left - per_bucket * (new_buckets - 1))
                self.buckets.append(BucketInfo(BucketType.INSERT, new_file_id_prefix(), partition_path))
        weights = np.cumsum(np.array(counts, dtype=np.float64) / num_inserts)
        self._insert_buckets[partition_path] = _InsertBuckets(np.array(numbers, dtype=np.int32), weights)

    def small_files(self, partition_path: str) -> list[HoodieBaseFile]:
        """Base files of a partition that are below ``hoodie.parquet.small.file.limit``, the smallest first."""
        limit = self._config.compaction.parquet_small_file_limit
        files = self._base_files.get(partition_path, {}).values()
        small = [f for f in files if f.size_bytes < limit and f.file_id not in self._closed_file_ids]
        return sorted(small, key=lambda base_file: (base_file.size_bytes, base_file.file_id))

    def _records_per_new_bucket(self) -> int:
        compaction = self._config.compaction
        if compaction.copy_on_write_insert_auto_split:
            return max(1, math.ceil(self._config.storage.parquet_max_file_size / self._record_size))
        return max(1, compaction.copy_on_write_insert_split_size)

    def _update_bucket(self, partition_path: str, file_id: str) -> int:
        number = self._update_buckets.get((partition_path, file_id))
        if number is None:
            base_file = self._base_files.get(partition_path, {}).get(file_id)
            if base_file is None:
                raise HoodieIndexException(
                    f"the index found keys in file group {file_id} of partition {partition_path!r}, which has no base "
                    "file now"
                )
            number = self._update_buckets[partition_path, file_id] = len(self.buckets)
            self.buckets.append(BucketInfo(BucketType.UPDATE, file_id, partition_path, base_file))
        return number
