"""Assign the records of a write to buckets.

Hudi: org.apache.hudi.table.action.commit.UpsertPartitioner, AverageRecordSizeUtils.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.murmur_hash import hash_keys
from hoodie.common.data.grouped_rows import rows_by_value
from hoodie.common.fs.file_names import file_id_prefix, new_file_id_prefix
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, PARTITION_PATH, RECORD_KEY, reserved_field
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting, WeightedBuckets
from hoodie.exception import HoodieIndexException
from hoodie.index.bucket.bucket_identifier import bucket_of_file_id
from hoodie.io.base_file_handle import FULL_SHARE
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.partition_path_encoding import unescape_path_name
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType
from hoodie.table.workload_profile import WorkloadProfile

FILL = 0.97
"""Share of the maximum size for which a new bucket is planned: an estimate off by a few percent still fits."""


def recorded_record_size(commits: Iterable[HoodieCommitMetadata], config: HoodieWriteConfig) -> int | None:
    """Bytes of a record in base files, by the newest commit that is large enough; None when there is none.

    Log files do not count: their records are stored in another way.

    Args:
        commits: Metadata of completed commits, the newest first; read only until one is large enough, and no more of
            them than ``_hoodie.record.size.estimator.max.commits``.
        config: Says which commit is large enough.

    Source: AverageRecordSizeUtils.averageBytesPerRecord.
    """
    threshold = config.compaction.record_size_estimation_threshold * config.compaction.parquet_small_file_limit
    for metadata in islice(commits, config.compaction.record_size_estimator_max_commits):
        stats = [stat for stat in metadata.write_stats if not stat.is_log_file]
        written, records = sum(s.total_write_bytes for s in stats), sum(s.num_writes for s in stats)
        if written > threshold and records > 0:
            return math.ceil(written / records)
    return None


def planned_file_size(config: HoodieWriteConfig) -> int:
    """Bytes for which the records of a new file group are planned."""
    maximum = config.storage.parquet_max_file_size
    halfway = (config.compaction.parquet_small_file_limit / maximum + FULL_SHARE) / 2
    return int(max(FILL, halfway) * maximum)


def needs_record_size(profile: WorkloadProfile, config: HoodieWriteConfig) -> bool:
    """Whether the size of a record changes the buckets of a write: some partition gets more than one new file."""
    compaction = config.compaction
    if not compaction.copy_on_write_insert_auto_split:
        return False
    most = max((stat.num_free for stat in profile.stats.values()), default=0)
    return most * compaction.copy_on_write_record_size_estimate > planned_file_size(config)


@attrs.frozen
class _Codes:
    """A column of text as codes: ``values[codes[row]]``, None for a null."""

    codes: np.ndarray
    values: list[str | None]

    @classmethod
    def of(cls, column: pa.Array) -> _Codes:
        encoded = column.dictionary_encode()
        values = encoded.dictionary.to_pylist()
        return cls(pc.fill_null(encoded.indices, len(values)).to_numpy(), [*values, None])


@attrs.frozen
class BucketAssigner:
    """Gives each row of a batch its bucket; a pure function of the row, so a retried task assigns the same buckets.

    Attributes:
        update_buckets: (partition path, file id) to bucket number.
        insert_buckets: Partition path to the buckets of its inserts.
        drops_unknown: Whether rows that the workload profile did not count are left out, instead of failing the task.
            The caller then finds out that rows are missing.
    """

    update_buckets: Mapping[tuple[str, str], int]
    insert_buckets: Mapping[str, WeightedBuckets]
    drops_unknown: bool = False

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with its bucket column (int32)."""
        numbers = self.numbers(batch)
        dealt = batch.append_column(reserved_field(BUCKET), pa.array(numbers))
        return dealt.filter(pa.array(numbers >= 0)) if self.drops_unknown and (numbers < 0).any() else dealt

    def numbers(self, batch: pa.RecordBatch) -> npt.NDArray[np.int32]:
        """The bucket of each row; negative for a row that the workload profile did not count, if such are left out.

        Args:
            batch: Record key, partition path and, if keys were looked up, current file id.
        """
        numbers = np.full(batch.num_rows, -1, dtype=np.int32)
        if batch.num_rows:
            located = CURRENT_FILE_ID in batch.schema.names
            files = _Codes.of(batch.column(CURRENT_FILE_ID)) if located else None
            for partition_path, rows in rows_by_value(batch.column(PARTITION_PATH)):
                if files is not None:
                    rows = self._assign_updates(numbers, rows, partition_path, files)
                if len(rows):
                    self._assign_inserts(numbers, rows, partition_path, batch.column(RECORD_KEY))
        return numbers

    def _assign_updates(self, numbers: np.ndarray, rows: np.ndarray, partition_path: str, files: _Codes) -> np.ndarray:
        """Fill in the rows with a location; the other rows are returned."""
        present, places = np.unique(files.codes[rows], return_inverse=True)
        file_ids = [files.values[code] for code in present.tolist()]
        bucket_of = [-2 if i is None else self.update_buckets.get((partition_path, i), -1) for i in file_ids]
        if -1 in bucket_of and not self.drops_unknown:
            raise HoodieIndexException(
                f"file group {file_ids[bucket_of.index(-1)]} of partition {partition_path!r} is not in the workload "
                "profile"
            )
        found = np.array(bucket_of, dtype=np.int32)[places]
        numbers[rows] = found
        without_location: np.ndarray = rows[found == -2]
        return without_location

    def _assign_inserts(self, numbers: np.ndarray, rows: np.ndarray, partition_path: str, keys: pa.Array) -> None:
        target = self.insert_buckets.get(partition_path)
        if target is None and self.drops_unknown:
            return
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

    New groups are planned full, but for one remainder a partition; where a small file is being filled, the remainder
    goes to the same task, which opens a further group when the file is full. Buckets are numbered by their size.

    Args:
        profile: The records to be written, by partition and file group.
        config: File sizes.
        file_slices: Partition path to its latest file slices, for every partition of the profile.
        record_size: Average bytes of a record.

    Attributes:
        buckets: The work of each bucket number.
        bucket_bytes: The bytes that each bucket is expected to write, the largest first.
        record_size: Average bytes of a record.
        inserts_into: Partition path to the inserts that go to the buckets of existing file groups, by location.

    Hudi: org.apache.hudi.table.action.commit.UpsertPartitioner. Differs: inserts are dealt by Murmur hash of the key,
    or by a hash of the engine, not by MD5 (no part of the format); the remainder.
    """

    def __init__(
        self,
        profile: WorkloadProfile,
        config: HoodieWriteConfig,
        file_slices: Mapping[str, Sequence[FileSlice]],
        record_size: int,
    ) -> None:
        self._config = config
        self.record_size = max(1, record_size)
        self._update_buckets: dict[tuple[str, str], int] = {}
        self._insert_buckets: dict[str, WeightedBuckets] = {}
        self.buckets: list[BucketInfo] = []
        self.inserts_into: dict[str, dict[HoodieRecordLocation, int]] = {}
        self._file_slices = {
            partition_path: {file_slice.file_id: file_slice for file_slice in group}
            for partition_path, group in file_slices.items()
        }
        self._expected_bytes: list[int] = []
        self._assign(profile)
        self._order_by_size()

    def assigner(self, drops_unknown: bool = False) -> BucketAssigner:
        """The function that tasks apply to batches.

        Args:
            drops_unknown: See `BucketAssigner`.
        """
        return BucketAssigner(dict(self._update_buckets), dict(self._insert_buckets), drops_unknown)

    def insert_routing(self, key_generator: KeyGenerator) -> InsertRouting | None:
        """The buckets of inserts for an engine that makes keys itself; None where only tasks can make them.

        Args:
            key_generator: Makes the keys of the rows.
        """
        columns = key_generator.key_columns
        if columns is None:
            return None
        paths = self._insert_buckets
        labels = [unescape_path_name(path) if key_generator.url_encode else path for path in paths]
        dealt = dict(zip(labels, paths.values(), strict=True))
        return InsertRouting(columns, dealt) if len(dealt) == len(paths) else None

    def bucket_numbers(self, routing: BucketRouting, key_generator: KeyGenerator) -> BucketNumbers | None:
        """The numbers of all buckets, for an engine that makes keys itself, where the index names file groups.

        None where two partition paths are equal before they are escaped, or a file group is of no bucket.

        Args:
            routing: The rule of the index.
            key_generator: Makes the keys of the rows.
        """
        numbers: dict[str, dict[int, int]] = {}
        paths: dict[str, str] = {}
        for (path, file_id), number in self._update_buckets.items():
            label, bucket = unescape_path_name(path) if key_generator.url_encode else path, bucket_of_file_id(file_id)
            if bucket is None or bucket >= routing.num_buckets or paths.setdefault(label, path) != path:
                return None
            numbers.setdefault(label, {})[bucket] = number
        return BucketNumbers(routing, numbers)

    def _assign(self, profile: WorkloadProfile) -> None:
        """One UPDATE bucket for each file group that holds an incoming key, then the buckets of inserts.

        Inserts open the file groups that the index wants, fill small files up to the maximum size, then open others.
        """
        for partition_path, stat in profile.stats.items():
            for location, count in stat.updates.items():
                self._update_bucket(partition_path, location.file_id, count)
        for partition_path, stat in profile.stats.items():
            for file_id, count in stat.placed.items():
                self._update_buckets[partition_path, file_id] = len(self.buckets)
                self.buckets.append(BucketInfo(BucketType.INSERT, file_id_prefix(file_id), partition_path))
                self._expected_bytes.append(count * self.record_size)
            if stat.num_free:
                self._assign_inserts(partition_path, stat.num_free)

    def _assign_inserts(self, partition_path: str, num_inserts: int) -> None:
        numbers: list[int] = []
        counts: list[int] = []
        remaining = num_inserts
        maximum = self._config.storage.parquet_max_file_size
        for file_slice in self._small_slices(partition_path):
            room = min((maximum - self._size(file_slice)) // self.record_size, remaining)
            if room > 0:
                numbers.append(self._update_bucket(partition_path, file_slice.file_id))
                counts.append(room)
                remaining -= room
            if remaining <= 0:
                break
        filling = len(numbers)
        new_groups = self._new_group_counts(remaining)
        if (
            filling
            and self._overflows
            and new_groups
            and self._splits_by_size
            and new_groups[-1] < self._records_per_new_bucket()
        ):
            # The task that fills the last small file opens a group for what does not fit: it knows the sizes.
            counts[-1] += new_groups.pop()
        for count in new_groups:
            numbers.append(len(self.buckets))
            counts.append(count)
            self.buckets.append(BucketInfo(BucketType.INSERT, new_file_id_prefix(), partition_path))
            self._expected_bytes.append(count * self.record_size)
        for number, count in zip(numbers[:filling], counts, strict=False):
            filled = self.buckets[number].file_slice
            assert filled is not None
            self.inserts_into.setdefault(partition_path, {})[filled.location] = count
            self._expected_bytes[number] += count * self.record_size
        weights = np.cumsum(np.array(counts, dtype=np.float64) / num_inserts)
        self._insert_buckets[partition_path] = WeightedBuckets(np.array(numbers, dtype=np.int32), weights)

    def _new_group_counts(self, inserts: int) -> list[int]:
        """Records of each bucket of new file groups: full buckets, and one with the remainder."""
        per_bucket = self._records_per_new_bucket()
        full, rest = divmod(inserts, per_bucket)
        if self._splits_by_size and full and rest <= (FULL_SHARE - FILL) / 2 * per_bucket * full:
            return [per_bucket + rest // full + (number < rest % full) for number in range(full)]
        return [per_bucket] * full + [rest] * (rest > 0)

    def _order_by_size(self) -> None:
        """Number the buckets by what they will write, the largest first.

        Tasks start in this order: no core is idle behind a large one that started last.
        """
        order = sorted(range(len(self.buckets)), key=lambda number: -self._expected_bytes[number])
        rank = np.empty(len(order), dtype=np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        self.buckets = [self.buckets[number] for number in order]
        self.bucket_bytes = [self._expected_bytes[number] for number in order]
        self._update_buckets = {key: int(rank[number]) for key, number in self._update_buckets.items()}
        self._insert_buckets = {
            path: WeightedBuckets(rank[dealt.buckets], dealt.cumulative_weights)
            for path, dealt in self._insert_buckets.items()
        }

    def _small_slices(self, partition_path: str) -> list[FileSlice]:
        """Slices of a partition whose base file is below ``hoodie.parquet.small.file.limit``, the smallest first."""
        return self._smallest(self._file_slices.get(partition_path, {}).values())

    def _smallest(self, slices: Iterable[FileSlice]) -> list[FileSlice]:
        limit = self._config.compaction.parquet_small_file_limit
        small = [file_slice for file_slice in slices if self._size(file_slice) < limit]
        return sorted(small, key=lambda file_slice: (self._size(file_slice), file_slice.file_id))

    def _size(self, file_slice: FileSlice) -> int:
        """The size of a slice, which inserts may fill up to the maximum."""
        return file_slice.sole_base_file.size_bytes

    @property
    def _overflows(self) -> bool:
        """Whether the task that fills a file opens a further group for what does not fit."""
        return True

    @property
    def _splits_by_size(self) -> bool:
        return self._config.compaction.copy_on_write_insert_auto_split

    def _records_per_new_bucket(self) -> int:
        if self._splits_by_size:
            return max(1, math.ceil(planned_file_size(self._config) / self.record_size))
        return max(1, self._config.compaction.copy_on_write_insert_split_size)

    def _update_bucket(self, partition_path: str, file_id: str, count: int = 0) -> int:
        number = self._update_buckets.get((partition_path, file_id))
        if number is None:
            file_slice = self._file_slices.get(partition_path, {}).get(file_id)
            if file_slice is None:
                raise HoodieIndexException(
                    f"the index found keys in file group {file_id} of partition {partition_path!r}, which has no "
                    "files now"
                )
            number = self._update_buckets[partition_path, file_id] = len(self.buckets)
            self.buckets.append(BucketInfo(BucketType.UPDATE, file_id, partition_path, file_slice))
            self._expected_bytes.append(self._update_bytes(file_slice, count))
        return number

    def _update_bytes(self, file_slice: FileSlice, count: int) -> int:
        """The number of bytes that the changes of a file group are expected to write.

        Args:
            file_slice: The latest slice of the file group.
            count: The number of changes, among them the new rows of an index that names file groups.
        """
        return file_slice.sole_base_file.size_bytes + count * self.record_size
