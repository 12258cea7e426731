"""The bucket layout of a table, found from its files, for writers that do not configure it.

The newest commit of hoodie stores its layout. Real Hudi stores none. Then file ids show that there are buckets, and
the record keys in them show how many. A key with the hash ``h`` in bucket ``b`` of ``n`` means that ``n`` divides
``h - b``. So ``n`` divides the greatest common divisor of all these differences, which is ``n`` itself once some dozens
of keys are known.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.config.property import read_group
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import BucketEngine, HoodieIndexConfig, IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieKeyException, HoodieMissingFileException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, are_bucket_ids, bucket_of_file_id
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

TYPE_KEY = "hoodie.index.type"
BUCKETS_KEY = "hoodie.bucket.index.num.buckets"
FIELDS_KEY = "hoodie.bucket.index.hash.field"
RULE_KEY = "hoodie.bucket.index.key.rule"
_ATTRIBUTES = {
    TYPE_KEY: "index_type",
    BUCKETS_KEY: "bucket_num_buckets",
    FIELDS_KEY: "bucket_hash_fields",
    RULE_KEY: "bucket_key_rule",
}
_COMPACTIONS = (WriteOperationType.COMPACT, WriteOperationType.LOG_COMPACT)
_SAMPLED_KEYS = 1000
_SAMPLED_FILES = 16
_ENOUGH_KEYS = 256
"""With this many keys, the common divisor is not larger by chance."""


@attrs.frozen(slots=False, eq=False)
class TableLayout:
    """The layout of a table's files; read once, when it is asked for.

    Attributes:
        snapshot: The table.
    """

    snapshot: TableSnapshot
    # Not cached_property: until Python 3.12 all instances share its lock, and this reads storage.
    _newest: list[tuple[list[HoodieWriteStat], Mapping[str, str]]] = attrs.field(init=False, factory=list)

    @property
    def newest(self) -> tuple[list[HoodieWriteStat], Mapping[str, str]]:
        """The files of the newest completed commit that wrote any, and the extra metadata with the layout.

        Compactions are skipped: they keep the buckets, and do not store the layout. If other commits without files have
        pushed that commit into the archive, some of the present files are returned.
        """
        if not self._newest:
            self._newest.append(self._load_newest())
        return self._newest[0]

    def _load_newest(self) -> tuple[list[HoodieWriteStat], Mapping[str, str]]:
        timeline = self.snapshot.active_timeline
        instants = timeline.completed_writes().instants
        layout: Mapping[str, str] = {}
        for instant in reversed(instants):
            metadata = timeline.read_commit_metadata(instant)
            stats = list(metadata.write_stats)
            if stats and metadata.operation_type not in _COMPACTIONS:
                return stats, metadata.extra_metadata
            if not layout and TYPE_KEY in metadata.extra_metadata:
                layout = metadata.extra_metadata
        return (self.some_files() if instants else []), layout

    @property
    def has_buckets(self) -> bool:
        """Whether the table was written with a bucket index."""
        stats, stored = self.newest
        return bool(stats) and (
            stored.get(TYPE_KEY) == IndexType.BUCKET.value or are_bucket_ids([str(stat.file_id) for stat in stats])
        )

    def some_files(self) -> list[HoodieWriteStat]:
        """The latest base files of the first partition that has any."""
        view = self.snapshot.view()
        for partition_path in view.list_partitions():
            slices = view.latest_file_slices(partition_path)
            if slices:
                return [
                    HoodieWriteStat(
                        file_id=file_slice.file_id,
                        partition_path=partition_path,
                        path=join(partition_path, name) if partition_path else name,
                        num_writes=1,
                    )
                    for file_slice in slices
                    for name in [file_slice.shown_path.rsplit("/", 1)[-1]]
                ]
        return []

    def options(self, key_fields: Sequence[str]) -> dict[str, str]:
        """The options of the bucket index that wrote the files; empty if there is none, or it cannot be found out.

        Args:
            key_fields: The table's record key fields.
        """
        if not self.has_buckets:
            return {}
        stats, stored = self.newest
        if stored.get(TYPE_KEY) == IndexType.BUCKET.value:
            return {key: stored[key] for key in _ATTRIBUTES if stored.get(key)}
        if not self.snapshot.table_config.populate_meta_fields:
            return {}
        try:
            count = self._count_of_keys(stats, tuple(key_fields))
        except HoodieMissingFileException:
            # A compaction has written the file anew, or a commit has replaced it, and a clean has deleted it.
            count = self._count_of_keys(self.some_files(), tuple(key_fields))
        return {} if count is None else {TYPE_KEY: IndexType.BUCKET.value, BUCKETS_KEY: str(count)}

    def _count_of_keys(self, stats: Sequence[HoodieWriteStat], key_fields: tuple[str, ...]) -> int | None:
        """The number of buckets that fits the record keys of files, hashed by all key fields; None if several fit."""
        identifier = BucketIdentifier(1, key_fields, key_fields)
        schema = pa.schema([(RECORD_KEY_META, pa.string())])
        files = [stat for stat in stats if stat.num_writes and str(stat.path).endswith(".parquet")]
        divisor = seen = 0
        for stat in sorted(files, key=lambda stat: -stat.num_writes)[:_SAMPLED_FILES]:
            path = join(self.snapshot.base_path, str(stat.path))
            with HoodieParquetReader(self.snapshot.storage, path) as reader:
                batch = next(reader.iter_batches([RECORD_KEY_META], schema, batch_rows=_SAMPLED_KEYS), None)
            keys = pa.array([], pa.string()) if batch is None else batch.column(0).drop_null()
            try:
                hashes = identifier.hashes(keys).astype(np.int64)
            except HoodieKeyException:
                return None
            differences = hashes - (bucket_of_file_id(str(stat.file_id)) or 0)
            divisor = math.gcd(divisor, int(np.gcd.reduce(differences)) if len(differences) else 0)
            seen += len(keys)
            if seen >= _ENOUGH_KEYS:
                break
        largest = max((bucket_of_file_id(str(stat.file_id)) or 0 for stat in stats), default=0)
        # It may be any divisor with room for all buckets.
        found = [number for number in _divisors(divisor) if number > largest]
        return found[0] if len(found) == 1 else None


def _divisors(number: int) -> list[int]:
    small = [part for part in range(1, math.isqrt(number) + 1) if number % part == 0]
    return sorted({*small, *(number // part for part in small)})


def config_of_table(config: HoodieWriteConfig, layout: TableLayout) -> HoodieWriteConfig:
    """A writer's configuration, completed by the index that wrote the table's files.

    Args:
        config: The writer's configuration.
        layout: The table's files.

    Returns:
        The configuration itself if it names the index, or if the files do not show it.
    """
    index = config.index
    not_given = {key for key in _ATTRIBUTES if not _is_given(config, key)}
    is_bucket = index.index_type is IndexType.BUCKET and index.bucket_engine is BucketEngine.SIMPLE
    if index.index_class is not None or not not_given or not (is_bucket or TYPE_KEY in not_given):
        return config
    table = layout.snapshot.table_config
    key_fields = table.record_key_fields or tuple(config.table.record_key_fields or ())
    layout_options = {key: value for key, value in layout.options(key_fields).items() if key in not_given}
    parsed = read_group(HoodieIndexConfig, layout_options, [])
    changed = attrs.evolve(index, **{_ATTRIBUTES[key]: getattr(parsed, _ATTRIBUTES[key]) for key in layout_options})
    if changed == index:
        return config
    logger.info(
        "%s: taken from the files of the table: %s", config.base_path,
        ", ".join(f"{key}={value}" for key, value in sorted(layout_options.items())),
    )  # fmt: skip
    return attrs.evolve(config, index=changed)


def _is_given(config: HoodieWriteConfig, key: str) -> bool:
    if any(given.lower() == key for given in config.properties):
        return True
    name = _ATTRIBUTES[key]
    return bool(getattr(config.index, name) != getattr(HoodieIndexConfig(), name))
