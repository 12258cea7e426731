"""The index that computes the file group of a key: a fixed number of buckets in each partition.

Hudi: org.apache.hudi.index.bucket.{HoodieBucketIndex, HoodieSimpleBucketIndex}.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from itertools import pairwise

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.config.index_config import BucketKeyRule
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.bucket_routing import BucketRouting
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.exception import HoodieIndexException
from hoodie.index.bucket.bucket_identifier import (
    BucketIdentifier,
    bucket_of_file_id,
    new_bucket_file_ids,
    shared_bucket_file_id,
)
from hoodie.index.bucket.misplaced_keys import WAY_OUT, CheckSampledKeys, MisplacedKeyCheck
from hoodie.index.index import (
    BaseFileIndex,
    IndexedTable,
    Locations,
    append_locations,
    tag_with_locations,
)
from hoodie.index.index_report import Decision
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.io.record_placement import RecordPlacement
from hoodie.keygen.base_key_generator import KeyGenerator

SAMPLED_BY_DRIVER = 4
"""Up to this many partitions the driver reads the keys, without tasks of the engine."""


class HoodieSimpleBucketIndex(BaseFileIndex):
    """Computes the bucket of each key, and so its file group, without reading a file.

    It gives the file group of a key, even if the key is not in it yet, and no row position: the task that writes the
    file group looks for the keys in it. A bucket without a file group gets one, whose id is known before it is written.

    Hudi: org.apache.hudi.index.bucket.HoodieSimpleBucketIndex.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        self._sampled: set[tuple[str, str]] = set()

    @property
    def is_global(self) -> bool:
        return False

    @property
    def names_file_groups(self) -> bool:
        return True

    def record_placement(self, record_key_fields: Sequence[str]) -> RecordPlacement:
        placement = super().record_placement(record_key_fields)
        if placement.verifies_positions:
            # A subclass of the user's may name other buckets.
            return placement
        return attrs.evolve(placement, key_check=MisplacedKeyCheck(self.identifier(record_key_fields)))

    def locations_without_keys(self, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        return self.locations(table, context)

    def bucket_routing(self, key_generator: KeyGenerator) -> BucketRouting | None:
        identifier = self.identifier(key_generator.record_key_fields)
        columns = key_generator.key_columns
        if columns is None or (columns.is_composite and len(columns.key_columns) == 1):
            # Releases of Hudi hash composite keys of one column differently.
            return None
        return BucketRouting(
            columns,
            identifier.hash_fields,
            identifier.num_buckets,
            has_plain_colons=identifier.rule is not BucketKeyRule.HUDI_0_15,
        )

    def commit_metadata(self, record_key_fields: Sequence[str]) -> Mapping[str, str]:
        identifier = self.identifier(record_key_fields)
        return {
            "hoodie.index.type": "BUCKET",
            "hoodie.index.bucket.engine": "SIMPLE",
            "hoodie.bucket.index.num.buckets": str(identifier.num_buckets),
            "hoodie.bucket.index.hash.field": ",".join(identifier.hash_fields),
            "hoodie.bucket.index.key.rule": identifier.rule.value,
        }

    def find_locations(self, keys: pa.Table, context: HoodieEngineContext, table: IndexedTable) -> Locations:
        locations = self.locations(table, context)
        return (
            HoodieSimpleIndex(self._config).find_locations(keys, context, table) if table.request.exact else locations
        )

    def tag_location(self, records: HoodieData, context: HoodieEngineContext, table: IndexedTable) -> HoodieData:
        locations = self.locations(table, context)
        if table.request.exact:
            return HoodieSimpleIndex(self._config).tag_location(records, context, table)
        return tag_with_locations(records, table.notes.share(context, locations))

    def identifier(self, key_fields: Sequence[str]) -> BucketIdentifier:
        """The computation of buckets by the configuration.

        Args:
            key_fields: The table's record key fields.
        """
        index = self._config.index
        hash_fields = index.bucket_hash_fields or tuple(key_fields)
        return BucketIdentifier(index.bucket_num_buckets, tuple(key_fields), hash_fields, index.bucket_key_rule)

    def locations(self, table: IndexedTable, context: HoodieEngineContext) -> BucketLocations:
        """The file groups of all buckets; see `BucketLocations`.

        Args:
            table: The table's files.
            context: The engine.

        Raises:
            HoodieIndexException: The files are not those of buckets, of another number of buckets, or a bucket has two
                of them.
        """
        identifier = self.identifier(table.records.record_key_fields)
        groups = {
            path: _locations_of_buckets(path, slices, identifier)
            for path, slices in table.file_slices.items()
            if slices
        }
        self._check_keys(table, identifier, context)
        table.work.note_all(table.slices, Decision.HASH)
        return BucketLocations(identifier, groups, uuid.uuid4().hex, table.request.replaced_file_groups)

    def _check_keys(self, table: IndexedTable, identifier: BucketIdentifier, context: HoodieEngineContext) -> None:
        """Hash keys of each partition that this client has not checked yet: they must be in their buckets."""
        unknown = {}
        for partition_path, slices in table.file_slices.items():
            if slices and not any((partition_path, part.file_id) in self._sampled for part in slices):
                unknown[partition_path] = [
                    (part.base_file.path, part.file_id) for part in slices if part.base_file is not None
                ]
        check = CheckSampledKeys(table.storage, identifier)
        if len(unknown) <= SAMPLED_BY_DRIVER:
            for paths in unknown.values():
                check(None, paths)
        else:
            context.run_tasks(list(unknown.values()), check)
        for partition_path, paths in unknown.items():
            self._sampled.update((partition_path, file_id) for _, file_id in paths)


@attrs.frozen
class BucketLocations:
    """The file group of each key; new file groups get their names here, before they are written.

    Attributes:
        identifier: Computes buckets.
        groups: Partition path to the locations of the file groups that exist, by bucket.
        seed: The seed of the ids of new file groups.
        replaced: See `TagRequest.replaced_file_groups`.
    """

    identifier: BucketIdentifier
    groups: Mapping[str, Mapping[int, HoodieRecordLocation]]
    seed: str
    replaced: Mapping[str, frozenset[str]] | None = None

    def tag(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the three CURRENT columns, one row for each of its rows.

        Each row has a file id. Its instant is null where that file group does not exist yet. Positions are null.

        Raises:
            HoodieKeyException: Keys whose bucket is not sure.
        """
        count, num_buckets = batch.num_rows, self.identifier.num_buckets
        paths = batch.column(PARTITION_PATH).dictionary_encode()
        buckets = self.identifier.bucket_ids(batch.column(RECORD_KEY))
        numbers, places = _distinct(
            paths.indices.to_numpy() * np.int64(num_buckets) + buckets, len(paths.dictionary) * num_buckets
        )
        file_ids: list[str] = []
        instants: list[str | None] = []
        firsts = np.arange(len(paths.dictionary) + 1) * np.int64(num_buckets)
        bounds = pairwise(np.searchsorted(numbers, firsts).tolist())
        for partition_path, first, (low, high) in zip(paths.dictionary.to_pylist(), firsts[:-1], bounds, strict=True):
            found = numbers[low:high] - first
            ids = self._new_ids(found, partition_path)
            times: list[str | None] = [None] * len(ids)
            known = self.groups.get(partition_path, {})
            for number, bucket in enumerate(found.tolist() if known else ()):
                location = known.get(bucket)
                if location is not None:
                    ids[number], times[number] = location.file_id, location.instant_time
            file_ids += ids
            instants += times
        taken = pa.array(places)
        is_new = instants.count(None) == len(instants)
        return append_locations(
            batch,
            pa.nulls(count, pa.string()) if is_new else pa.array(instants, pa.string()).take(taken),
            pa.array(file_ids, pa.string()).take(taken),
            pa.nulls(count, pa.int64()),
        )

    def _new_ids(self, buckets: np.ndarray, partition_path: str) -> list[str]:
        """The ids of the first file groups of buckets."""
        if self.replaced is None:
            return new_bucket_file_ids(buckets, self.seed, partition_path)
        replaced = self.replaced.get(partition_path, frozenset())
        return [shared_bucket_file_id(bucket, replaced) for bucket in buckets.tolist()]


def _distinct(numbers: np.ndarray, end: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers that occur, ascending, and the place of each among them; all are in [0, end)."""
    if end > len(numbers):
        found, places = np.unique(numbers, return_inverse=True)
        return found, places
    found = np.flatnonzero(np.bincount(numbers, minlength=end))
    place_of = np.zeros(end, dtype=np.int64)
    place_of[found] = np.arange(len(found))
    return found, place_of[numbers]


def _locations_of_buckets(
    partition_path: str, slices: Sequence[FileSlice], identifier: BucketIdentifier
) -> dict[int, HoodieRecordLocation]:
    """The locations of the file groups of a partition by bucket."""
    by_bucket: dict[int, FileSlice] = {}
    for file_slice in slices:
        bucket, path = bucket_of_file_id(file_slice.file_id), file_slice.shown_path
        if bucket is None or bucket >= identifier.num_buckets:
            more = "is not that of a bucket" if bucket is None else f"is that of bucket {bucket}"
            raise HoodieIndexException(
                f"cannot write partition '{partition_path}' with hoodie.index.type=BUCKET and "
                f"hoodie.bucket.index.num.buckets={identifier.num_buckets}: {path} is there, and its id "
                f"{more}. Keys would be stored a second time. {WAY_OUT}"
            )
        other = by_bucket.setdefault(bucket, file_slice)
        if other is not file_slice:
            raise HoodieIndexException(
                f"partition '{partition_path}' has two file groups of bucket {bucket}: "
                f"{other.shown_path} and {path}; two writers made them. Keys may be stored twice; "
                "nothing was written. Roll back the later of the two instants, or save the records of one file, delete "
                "it, and upsert them"
            )
    return {bucket: file_slice.location for bucket, file_slice in by_bucket.items()}
