"""Properties of the index, and of the bloom filters in base files."""

from __future__ import annotations

import re
from enum import StrEnum

import attrs

from hoodie.common.config.property import (
    PropertyGroup,
    boolean,
    choice,
    column_names,
    decimal,
    integer,
    property_field,
    text,
)

_UNSUPPORTED_INDEXES = (
    "HBASE",
    "FLINK_STATE",
)


_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _check_class_name(value: str) -> None:
    if "." not in value or not all(part.isidentifier() for part in value.split(".")):
        raise ValueError


def _check_prefix(value: str) -> None:
    if _PREFIX.fullmatch(value) is None:
        raise ValueError


class IndexType(StrEnum):
    """The way in which the index finds the file group of a key.

    Hudi: org.apache.hudi.index.HoodieIndex.IndexType.
    """

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"
    RECORD_INDEX = "RECORD_INDEX"
    GLOBAL_RECORD_LEVEL_INDEX = "GLOBAL_RECORD_LEVEL_INDEX"
    RECORD_LEVEL_INDEX = "RECORD_LEVEL_INDEX"


class BucketEngine(StrEnum):
    """The layout of the buckets of a partition.

    Hudi: org.apache.hudi.index.HoodieIndex.BucketIndexEngineType. Differs: has no CONSISTENT_HASHING.
    """

    SIMPLE = "SIMPLE"


class BucketKeyRule(StrEnum):
    """The bucket of a record key where Hudi's releases disagree.

    The bucket index splits keys at colons and commas, because these separate the fields of a composite key
    (``id:7,day:3``). Hudi 0.15 and 1.x split two kinds of keys differently: keys of one field that contain a colon, and
    values that contain a comma.
    """

    REFUSE = "REFUSE"
    HUDI_0_15 = "0.15"
    HUDI_1_X = "1.x"


class BloomFilterType(StrEnum):
    """The kind of a base file's bloom filter; the value is the name on storage.

    Hudi: org.apache.hudi.common.bloom.BloomFilterTypeCode.
    """

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


@attrs.frozen(kw_only=True, repr=False)
class HoodieIndexConfig(PropertyGroup):
    """The index that finds records, and what base files store for it.

    Hudi: org.apache.hudi.config.HoodieIndexConfig (the filters: org.apache.hudi.common.config.HoodieStorageConfig).
    """

    index_type: IndexType = property_field(
        "hoodie.index.type",
        choice(
            IndexType,
            unsupported=dict.fromkeys(_UNSUPPORTED_INDEXES, ""),
        ),
        IndexType.SIMPLE,
    )
    """How the location of a key is found. SIMPLE reads the keys of the touched partitions. GLOBAL_SIMPLE reads the keys
    of all partitions, and keeps a key unique in the whole table. BLOOM and GLOBAL_BLOOM do the same, but only read the
    keys of files whose key range and bloom filter may contain incoming keys. INMEMORY keeps locations in this process
    and forgets them when it ends (local client only). BUCKET computes the file group from the key. RECORD_INDEX, which
    Hudi 1.x also calls GLOBAL_RECORD_LEVEL_INDEX, asks the record index of the metadata table
    (``hoodie.metadata.global.record.level.index.enable``), and keeps a key unique in the whole table.
    RECORD_LEVEL_INDEX asks one by partitions (``hoodie.metadata.record.level.index.enable``, table version 9)."""
    simple_index_update_partition_path: bool = property_field(
        "hoodie.simple.index.update.partition.path", boolean(), True
    )
    """What GLOBAL_SIMPLE does with a record whose key is in another partition: with true the record moves to its new
    partition, with false it is updated where it is."""
    index_class: str | None = property_field(
        "hoodie.index.class", text("package.module.Class", _check_class_name), None
    )
    """An index class, your own or one that hoodie ships, used instead of ``hoodie.index.type``: a subclass of
    hoodie.HoodieIndex, as package.module.Class. Read from the writer's configuration only."""
    database_url: str | None = property_field(
        "hoodie.index.database.url",
        text("sqlite:///path/of/a/file, a local path, or postgresql://user@host/database"),
        None,
        is_ours=True,
    )
    """Where hoodie.index.external.database_index.HoodieDatabaseIndex keeps keys. Default: SQLite, in the file
    ``.hoodie/.index/keys.sqlite`` of a table on a local disk. Leave passwords to libpq (``PGPASSFILE``,
    ``PGPASSWORD``)."""
    database_table: str | None = property_field(
        "hoodie.index.database.table",
        text("lower-case letters, digits and underscores, at most 40, a letter first", _check_prefix),
        None,
        is_ours=True,
    )
    """Prefix of the names of the tables in that database. Default: made from the table's path."""
    database_update_partition_path: bool = property_field(
        "hoodie.index.database.update.partition.path", boolean(), True, is_ours=True
    )
    """What HoodieDatabaseIndex does with a record whose key is in another partition: with true the record moves to its
    new partition, with false it is updated where it is."""
    in_memory_insert_into_logs: bool = property_field(
        "hoodie.index.inmemory.insert.into.logs", boolean(), False, is_ours=True
    )
    """With INMEMORY and a merge-on-read table: put new records into log files of file groups that are small, instead of
    rewriting a base file. hoodie finds their keys with any index that it takes for such a table. Hudi's indexes SIMPLE
    and BLOOM do not look into log files: a writer that uses them stores these keys a second time."""
    record_index_update_partition_path: bool = property_field(
        "hoodie.record.index.update.partition.path", boolean(), False
    )
    """What RECORD_INDEX does with a record whose key is in another partition: with true the record moves to its new
    partition, with false it is updated where it is."""
    record_index_insert_into_logs: bool = property_field(
        "hoodie.record.index.insert.into.logs", boolean(), False, is_ours=True
    )
    """With a record index and a merge-on-read table: put new records into log files of file groups that are small,
    instead of rewriting a base file. hoodie finds their keys with any index that it takes for such a table. Hudi's
    indexes SIMPLE and BLOOM do not look into log files: a writer that uses them stores these keys a second time."""
    bucket_engine: BucketEngine = property_field(
        "hoodie.index.bucket.engine",
        choice(BucketEngine, unsupported={"CONSISTENT_HASHING": "leave the option out for a new table"}),
        BucketEngine.SIMPLE,
    )
    """How BUCKET finds the bucket of a key: by a fixed number of buckets. Tables with CONSISTENT_HASHING are read
    only."""
    bucket_num_buckets: int = property_field(
        "hoodie.bucket.index.num.buckets", integer(minimum=1, maximum=99_999_999), 256
    )
    """Buckets, and so file groups, in each partition with BUCKET. It cannot change once a table has records."""
    bucket_hash_fields: tuple[str, ...] = property_field("hoodie.bucket.index.hash.field", column_names(), ())
    """The record key fields that BUCKET hashes; default: all of them."""
    bucket_key_rule: BucketKeyRule = property_field(
        "hoodie.bucket.index.key.rule", choice(BucketKeyRule), BucketKeyRule.REFUSE, is_ours=True
    )
    """What BUCKET does with record keys for which Hudi 0.15 and Hudi 1.x choose different buckets (keys of one field
    with a colon; values of composite keys with a comma): REFUSE them, or follow 0.15 or 1.x."""
    bloom_prune_by_ranges: bool = property_field("hoodie.bloom.index.prune.by.ranges", boolean(), True)
    """Whether BLOOM and GLOBAL_BLOOM skip files by the smallest and largest key in their footers. With false the
    footers are not read for that, which pays off only if keys are random."""
    bloom_use_metadata: bool = property_field("hoodie.bloom.index.use.metadata", boolean(), False)
    """BLOOM and GLOBAL_BLOOM take key ranges and bloom filters from the metadata table, if it has `column_stats` and
    `bloom_filters`: files that these exclude are not opened. Keys that do not fit in the driver's memory are compared
    with footers all the same."""
    bloom_use_treebased_filter: bool = property_field("hoodie.bloom.index.use.treebased.filter", boolean(), True)
    """How incoming keys are compared with key ranges: with true by a search in the sorted keys, with false each key
    with each range. The result is the same."""
    bloom_use_caching: bool = property_field("hoodie.bloom.index.use.caching", boolean(), True)
    """Whether a client caches the key ranges that it reads from footers for its later writes (at most 64 MiB; base
    files never change)."""
    bloom_bucketized_checking: bool = property_field("hoodie.bloom.index.bucketized.checking", boolean(), True)
    """Whether the comparisons of keys with files are spread over tasks evenly, with several files in a task or one file
    in several tasks; with false each file is a task."""
    bloom_keys_per_bucket: int = property_field(
        "hoodie.bloom.index.keys.per.bucket", integer(minimum=1, maximum=2**31 - 1), 10_000_000
    )
    """With hoodie.bloom.index.bucketized.checking: the maximum number of keys of one file that a task compares."""
    bloom_parallelism: int = property_field("hoodie.bloom.index.parallelism", integer(minimum=0, maximum=2**31 - 1), 0)
    """With hoodie.bloom.index.bucketized.checking: the number of tasks for the comparisons; with 0 the number of the
    engine's cores decides."""
    bloom_update_partition_path: bool = property_field("hoodie.bloom.index.update.partition.path", boolean(), True)
    """What GLOBAL_BLOOM does with a record whose key is in another partition: with true the record moves to its new
    partition, with false it is updated where it is."""
    bloom_num_entries: int = property_field(
        "hoodie.index.bloom.num_entries", integer(minimum=1, maximum=2**31 - 1), 60_000
    )
    """The number of keys that a bloom filter is sized for. A DYNAMIC_V0 filter starts with this size and grows."""
    bloom_fpp: float = property_field("hoodie.index.bloom.fpp", decimal(above=0.0, below=1.0), 0.000000001)
    """The share of false positives that a bloom filter is sized for."""
    bloom_filter_type: BloomFilterType = property_field(
        "hoodie.bloom.index.filter.type", choice(BloomFilterType), BloomFilterType.DYNAMIC_V0
    )
    """The kind of the bloom filter in a base file's footer."""
    bloom_dynamic_max_entries: int = property_field(
        "hoodie.bloom.index.filter.dynamic.max.entries", integer(minimum=1, maximum=2**31 - 1), 100_000
    )
    """The number of keys at which a DYNAMIC_V0 filter stops growing."""

    @property
    def index_name(self) -> str:
        """A short name of the index, for messages."""
        return str(self.index_type) if self.index_class is None else self.index_class.rpartition(".")[2]
