"""Properties of the metadata table: whether there is one, what it holds, and its own services."""

from __future__ import annotations

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, column_names, integer, property_field


@attrs.frozen(kw_only=True, repr=False)
class HoodieMetadataConfig(PropertyGroup):
    """Partitions of the metadata table. Every writer keeps those up to date that the table has.

    Hudi: org.apache.hudi.common.config.HoodieMetadataConfig.
    """

    enable: bool | None = property_field("hoodie.metadata.enable", boolean(), None)
    """True makes a metadata table at the next write, with listings of files. False deletes it, with all of its indexes.
    Without it, the first write of a new table of version 8 or 9 makes one; later, one that is there is kept up to date,
    and none is made."""
    column_stats_enable: bool | None = property_field("hoodie.metadata.index.column.stats.enable", boolean(), None)
    """With a metadata table: ranges of columns of each file, by which queries skip files; of tables of versions 8 and 9
    with partitions those of partitions, too. False deletes them; without it they stay as they are, and the Spark engine
    makes them for new tables of versions 8 and 9."""
    column_stats_columns: tuple[str, ...] = property_field(
        "hoodie.metadata.index.column.stats.column.list", column_names(), ()
    )
    """The columns whose ranges are kept, separated by commas, nested ones as a path with dots. Without it, the first
    ones; see `hoodie.metadata.index.column.stats.max.columns.to.index`."""
    column_stats_max_columns: int = property_field(
        "hoodie.metadata.index.column.stats.max.columns.to.index", integer(minimum=1), 32
    )
    """Without a list of columns: how many of the table's columns have ranges, beside three meta columns. In tables of
    version 6 all have."""
    column_stats_file_groups: int = property_field(
        "hoodie.metadata.index.column.stats.file.group.count", integer(minimum=1, maximum=10_000), 2
    )
    """Over how many file groups the ranges of columns are spread, when they are first made."""
    partition_stats_enable: bool | None = property_field(
        "hoodie.metadata.index.partition.stats.enable", boolean(), None
    )
    """False leaves out the ranges of columns of partitions, which come with
    `hoodie.metadata.index.column.stats.enable`."""
    bloom_filter_enable: bool | None = property_field("hoodie.metadata.index.bloom.filter.enable", boolean(), None)
    """With a metadata table: the bloom filters of all base files, for the index BLOOM with
    `hoodie.bloom.index.use.metadata`. False deletes them; without it they stay as they are."""
    bloom_filter_file_groups: int = property_field(
        "hoodie.metadata.index.bloom.filter.file.group.count", integer(minimum=1, maximum=10_000), 4
    )
    """Over how many file groups the bloom filters are spread, when they are first made."""
    record_index_enable: bool | None = property_field(
        "hoodie.metadata.global.record.level.index.enable",
        boolean(),
        None,
        alternatives=("hoodie.metadata.record.index.enable",),
    )
    """With a metadata table: the file group of every record key, for the index RECORD_INDEX and for look-ups. False
    deletes it; without it, it stays as it is. An index by partitions is not touched, unless that one is false, too."""
    partitioned_record_index_enable: bool | None = property_field(
        "hoodie.metadata.record.level.index.enable", boolean(), None
    )
    """As `hoodie.metadata.global.record.level.index.enable`, with keys that are unique in their partitions only, in
    tables of version 9."""
    record_index_min_file_groups: int = property_field(
        "hoodie.metadata.global.record.level.index.min.filegroup.count",
        integer(minimum=1, maximum=10_000),
        10,
        alternatives=("hoodie.metadata.record.index.min.filegroup.count",),
    )
    """The fewest file groups of a new record index."""
    record_index_max_file_groups: int = property_field(
        "hoodie.metadata.global.record.level.index.max.filegroup.count",
        integer(minimum=1, maximum=10_000),
        10_000,
        alternatives=("hoodie.metadata.record.index.max.filegroup.count",),
    )
    """The most file groups of a new record index."""
    partitioned_record_index_min_file_groups: int = property_field(
        "hoodie.metadata.record.level.index.min.filegroup.count",
        integer(minimum=1, maximum=10_000),
        1,
        alternatives=("hoodie.metadata.partitioned.record.index.min.filegroup.count",),
    )
    """The fewest file groups of a partition of the table in a record index by partitions."""
    partitioned_record_index_max_file_groups: int = property_field(
        "hoodie.metadata.record.level.index.max.filegroup.count",
        integer(minimum=1, maximum=10_000),
        10,
        alternatives=("hoodie.metadata.partitioned.record.index.max.filegroup.count",),
    )
    """The most file groups of a partition of the table in a record index by partitions."""
    index_drop: tuple[str, ...] = property_field(
        "hoodie.metadata.index.drop", column_names("partitions of indexes"), ()
    )
    """Indexes that the next write or service deletes, by their partitions of the metadata table, separated by commas:
    secondary indexes (also by their names alone), and those of kinds that hoodie does not know."""
    compact_max_delta_commits: int = property_field("hoodie.metadata.compact.max.delta.commits", integer(minimum=1), 10)
    """The metadata table is compacted after this many of its delta commits."""
    log_compaction_enable: bool = property_field("hoodie.metadata.log.compaction.enable", boolean(), False)
    """Merge the log files of a file group of the metadata table into one, where enough delta commits were made since
    the last compaction and the last log compaction of it: fewer files are read until the next compaction. Nothing is
    merged while other instants of the table are pending. Ranges of columns are left to compactions."""
    log_compaction_blocks_threshold: int = property_field(
        "hoodie.metadata.log.compaction.blocks.threshold", integer(minimum=1, maximum=2**31 - 1), 5
    )
    """The number of delta commits after which a log compaction of the metadata table is due, and the number of them
    with log files in a file group that it takes. It has effect below
    `hoodie.metadata.compact.max.delta.commits`."""
    max_delta_commits_when_pending: int = property_field(
        "hoodie.metadata.max.deltacommits.when_pending", integer(minimum=1), 1000
    )
    """A pending instant of the table keeps the metadata table from being compacted. After this many delta commits
    writes fail with an error that names the instant."""
