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

__all__ = ["BloomFilterType", "BucketEngine", "BucketKeyRule", "HoodieIndexConfig", "IndexType"]

_UNSUPPORTED_INDEXES = (
    "HBASE",
    "FLINK_STATE",
    "RECORD_INDEX",
    "GLOBAL_RECORD_LEVEL_INDEX",
    "RECORD_LEVEL_INDEX",
)


_PREFIX = re.compile(r"[a-z][a-z0-9_]{0,39}")


def _check_class_name(value: str) -> None:
    if "." not in value or not all(part.isidentifier() for part in value.split(".")):
        raise ValueError


def _check_prefix(value: str) -> None:
    if _PREFIX.fullmatch(value) is None:
        raise ValueError


class IndexType(StrEnum):
    """How the file group of a key is found.

    Hudi: org.apache.hudi.index.HoodieIndex.IndexType.
    """

    SIMPLE = "SIMPLE"
    GLOBAL_SIMPLE = "GLOBAL_SIMPLE"
    BLOOM = "BLOOM"
    GLOBAL_BLOOM = "GLOBAL_BLOOM"
    INMEMORY = "INMEMORY"
    BUCKET = "BUCKET"


class BucketEngine(StrEnum):
    """How the buckets of a partition are laid out.

    Hudi: org.apache.hudi.index.HoodieIndex.BucketIndexEngineType.
    """

    SIMPLE = "SIMPLE"
    CONSISTENT_HASHING = "CONSISTENT_HASHING"


class BucketKeyRule(StrEnum):
    """Whose bucket a record key gets for which Hudi's releases have different ones.

    The bucket index takes keys apart at colons and commas, where several fields make a key (``id:7,day:3``). Keys of
    one field that hold a colon themselves, and values that hold a comma, are taken apart differently by 0.15 and 1.x.
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
    """How records are found, and what base files carry to help.

    Hudi: org.apache.hudi.config.HoodieIndexConfig (the filters: org.apache.hudi.common.config.HoodieStorageConfig).
    """

    index_type: IndexType = property_field(
        "hoodie.index.type",
        choice(
            IndexType,
            unsupported=dict.fromkeys(_UNSUPPORTED_INDEXES, ""),
        ),
        IndexType.SIMPLE,
        "How the location of a key is found. SIMPLE reads the keys of the touched partitions; GLOBAL_SIMPLE those of "
        "all partitions, and keeps a key unique in the whole table; BLOOM and GLOBAL_BLOOM do the same, but read keys "
        "only of files whose key range and bloom filter can hold incoming keys; INMEMORY keeps locations in this "
        "process and forgets them when it ends (local client only); BUCKET computes the file group from the key.",
    )
    simple_index_update_partition_path: bool = property_field(
        "hoodie.simple.index.update.partition.path",
        boolean(),
        True,
        "What GLOBAL_SIMPLE does with a record whose key is in another partition: with true it moves to its new "
        "partition, with false it is updated where it is.",
    )
    index_class: str | None = property_field(
        "hoodie.index.class",
        text("package.module.Class", _check_class_name),
        None,
        "A class of yours, or one that hoodie ships, that finds records, whatever ``hoodie.index.type`` is: a subclass "
        "of hoodie.HoodieIndex, as package.module.Class. Taken from the writer's configuration only.",
    )
    database_url: str | None = property_field(
        "hoodie.index.database.url",
        text("sqlite:///path/of/a/file, a local path, or postgresql://user@host/database"),
        None,
        "Where hoodie.index.external.database_index.HoodieDatabaseIndex keeps keys. Without it: SQLite, in the file "
        "``.hoodie/.index/keys.sqlite`` of a table on a local disk. Leave passwords to libpq (``PGPASSFILE``, "
        "``PGPASSWORD``).",
        is_ours=True,
    )
    database_table: str | None = property_field(
        "hoodie.index.database.table",
        text("lower-case letters, digits and underscores, at most 40, a letter first", _check_prefix),
        None,
        "Begins the names of the tables in that database. Without it: made of the table's path.",
        is_ours=True,
    )
    database_update_partition_path: bool = property_field(
        "hoodie.index.database.update.partition.path",
        boolean(),
        True,
        "What HoodieDatabaseIndex does with a record whose key is in another partition: with true it moves to its new "
        "partition, with false it is updated where it is.",
        is_ours=True,
    )
    bucket_engine: BucketEngine = property_field(
        "hoodie.index.bucket.engine",
        choice(BucketEngine),
        BucketEngine.SIMPLE,
        "How BUCKET finds the bucket of a key: SIMPLE by a fixed number of buckets; CONSISTENT_HASHING by ranges of "
        "hashes that can be split. As in Hudi, the latter is for MERGE_ON_READ tables.",
    )
    bucket_num_buckets: int = property_field(
        "hoodie.bucket.index.num.buckets",
        integer(minimum=1, maximum=99_999_999),
        256,
        "Buckets, and so file groups, of each partition with BUCKET. It cannot change for a table that has records.",
    )
    bucket_hash_fields: tuple[str, ...] = property_field(
        "hoodie.bucket.index.hash.field",
        column_names(),
        (),
        "Which of the record key fields BUCKET hashes; all of them where it is not given.",
    )
    bucket_key_rule: BucketKeyRule = property_field(
        "hoodie.bucket.index.key.rule",
        choice(BucketKeyRule),
        BucketKeyRule.REFUSE,
        "What BUCKET does with record keys that go to one bucket in Hudi 0.15 and to another in Hudi 1.x (keys of one "
        "field that hold a colon; values of composite keys that hold a comma): REFUSE them, or follow 0.15 or 1.x.",
        is_ours=True,
    )
    bloom_prune_by_ranges: bool = property_field(
        "hoodie.bloom.index.prune.by.ranges",
        boolean(),
        True,
        "Whether BLOOM and GLOBAL_BLOOM pass over files by the smallest and largest key of their footers. With false "
        "no footer is read for that; worth it only where keys are random.",
    )
    bloom_use_treebased_filter: bool = property_field(
        "hoodie.bloom.index.use.treebased.filter",
        boolean(),
        True,
        "How incoming keys are compared with key ranges: with true by a search in sorted keys, with false every key "
        "with every range. The answer is the same.",
    )
    bloom_use_caching: bool = property_field(
        "hoodie.bloom.index.use.caching",
        boolean(),
        True,
        "Whether a client keeps the key ranges that it read from footers for its later writes (64 MiB of them at most; "
        "base files never change).",
    )
    bloom_bucketized_checking: bool = property_field(
        "hoodie.bloom.index.bucketized.checking",
        boolean(),
        True,
        "Whether the comparisons of keys with files are dealt to tasks by their number, several files to a task or "
        "several tasks to a file; with false each file is a task.",
    )
    bloom_keys_per_bucket: int = property_field(
        "hoodie.bloom.index.keys.per.bucket",
        integer(minimum=1, maximum=2**31 - 1),
        10_000_000,
        "With hoodie.bloom.index.bucketized.checking: most keys of one file that one task compares.",
    )
    bloom_parallelism: int = property_field(
        "hoodie.bloom.index.parallelism",
        integer(minimum=0, maximum=2**31 - 1),
        0,
        "With hoodie.bloom.index.bucketized.checking: tasks that the comparisons are dealt to; 0 lets the engine's "
        "cores decide.",
    )
    bloom_update_partition_path: bool = property_field(
        "hoodie.bloom.index.update.partition.path",
        boolean(),
        True,
        "What GLOBAL_BLOOM does with a record whose key is in another partition: with true it moves to its new "
        "partition, with false it is updated where it is.",
    )
    bloom_num_entries: int = property_field(
        "hoodie.index.bloom.num_entries",
        integer(minimum=1, maximum=2**31 - 1),
        60_000,
        "Keys that a bloom filter is made for. A DYNAMIC_V0 filter starts with this and grows.",
    )
    bloom_fpp: float = property_field(
        "hoodie.index.bloom.fpp",
        decimal(above=0.0, below=1.0),
        0.000000001,
        "Share of false positives that a bloom filter is made for.",
    )
    bloom_filter_type: BloomFilterType = property_field(
        "hoodie.bloom.index.filter.type",
        choice(BloomFilterType),
        BloomFilterType.DYNAMIC_V0,
        "Kind of the bloom filter in a base file's footer.",
    )
    bloom_dynamic_max_entries: int = property_field(
        "hoodie.bloom.index.filter.dynamic.max.entries",
        integer(minimum=1, maximum=2**31 - 1),
        100_000,
        "Keys after which a DYNAMIC_V0 filter stops growing.",
    )

    @property
    def index_name(self) -> str:
        """The index in a word, for people."""
        return str(self.index_type) if self.index_class is None else self.index_class.rpartition(".")[2]
