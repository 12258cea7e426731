"""Properties of the index, and of the bloom filters in base files."""

from __future__ import annotations

import re
from enum import StrEnum

import attrs

from hoodie.common.config.property import boolean, choice, decimal, integer, property_field, text

__all__ = ["BloomFilterType", "HoodieIndexConfig", "IndexType"]

_UNSUPPORTED_INDEXES = (
    "BLOOM",
    "GLOBAL_BLOOM",
    "BUCKET",
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
    INMEMORY = "INMEMORY"


class BloomFilterType(StrEnum):
    """The kind of a base file's bloom filter; the value is the name on storage.

    Hudi: org.apache.hudi.common.bloom.BloomFilterTypeCode.
    """

    SIMPLE = "SIMPLE"
    DYNAMIC_V0 = "DYNAMIC_V0"


@attrs.frozen(kw_only=True)
class HoodieIndexConfig:
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
        "all partitions, and keeps a key unique in the whole table; INMEMORY keeps locations in this process and "
        "forgets them when it ends (local client only).",
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
