"""Properties that decide how records are packed into files, and when log files are compacted."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, decimal, integer, property_field, text


class CompactionTriggerStrategy(StrEnum):
    """The rule by which a compaction becomes due.

    Hudi: org.apache.hudi.table.action.compact.CompactionTriggerStrategy.
    """

    NUM_COMMITS = "NUM_COMMITS"
    NUM_COMMITS_AFTER_LAST_REQUEST = "NUM_COMMITS_AFTER_LAST_REQUEST"
    TIME_ELAPSED = "TIME_ELAPSED"
    NUM_AND_TIME = "NUM_AND_TIME"
    NUM_OR_TIME = "NUM_OR_TIME"


@attrs.frozen(kw_only=True, repr=False)
class HoodieCompactionConfig(PropertyGroup):
    """Small files, the number of records in a new file, and compaction of merge-on-read tables.

    Hudi: org.apache.hudi.config.HoodieCompactionConfig.
    """

    parquet_small_file_limit: int = property_field("hoodie.parquet.small.file.limit", integer(), 100 * 1024 * 1024)
    """Inserts first fill base files that are smaller than this, in bytes, up to `hoodie.parquet.max.file.size`. With 0
    or less, inserts always go to new files."""
    copy_on_write_insert_split_size: int = property_field(
        "hoodie.copyonwrite.insert.split.size", integer(minimum=1, maximum=2**31 - 1), 500_000
    )
    """The number of records in a new file, when `hoodie.copyonwrite.insert.auto.split` is false."""
    copy_on_write_insert_auto_split: bool = property_field("hoodie.copyonwrite.insert.auto.split", boolean(), True)
    """Compute the number of records in a new file from the average record size in earlier commits."""
    copy_on_write_record_size_estimate: int = property_field(
        "hoodie.copyonwrite.record.size.estimate", integer(minimum=1, maximum=2**31 - 1), 1024
    )
    """The size of a record in a file, in bytes, until a commit gives the real size."""
    record_size_estimation_threshold: float = property_field(
        "hoodie.record.size.estimation.threshold", decimal(above=0.0), 1.0
    )
    """The record size is computed from the newest commit that wrote more bytes than this share of
    `hoodie.parquet.small.file.limit`."""
    record_size_estimator_max_commits: int = property_field(
        "_hoodie.record.size.estimator.max.commits", integer(minimum=1), 5
    )
    """How many of the newest commits are read to find one that is large enough."""
    logfile_to_parquet_compression_ratio: float = property_field(
        "hoodie.logfile.to.parquet.compression.ratio", decimal(above=0.0), 0.35
    )
    """The size that the records of a log file would have in a base file, as a share of the log file. It judges which
    file groups are small, with `hoodie.index.inmemory.insert.into.logs`."""
    merge_small_file_group_candidates_limit: int = property_field(
        "hoodie.merge.small.file.group.candidates.limit", integer(minimum=0), 1
    )
    """Of a merge-on-read table: how many small files of a partition inserts fill; each is rewritten. Files with updates
    in log files are not filled."""
    inline: bool = property_field("hoodie.compact.inline", boolean(), False)
    """Of a merge-on-read table: compact after a commit, in the same call, where a compaction is due. `write_table` and
    `hoodie.spark.write` do so unless this is given; clients only if it is true."""
    schedule_inline: bool = property_field("hoodie.compact.schedule.inline", boolean(), False)
    """Of a merge-on-read table: only plan a compaction after a commit, where one is due and none is pending. Another
    process carries it out with `client.compact()`. Has no effect with hoodie.compact.inline."""
    run_async: bool = property_field("hoodie.datasource.compaction.async.enable", boolean(), False)
    """Of a merge-on-read table: plan a compaction after a commit where one is due, and carry it out in a thread of the
    client, while the next write runs; `client.close()` waits for it. Errors are logged. Has no effect with
    hoodie.compact.inline. Hudi's default is true, which has no effect on its batch writes."""
    max_delta_commits: int = property_field(
        "hoodie.compact.inline.max.delta.commits", integer(minimum=1, maximum=2**31 - 1), 5
    )
    """The number of delta commits after which a compaction is due, with the trigger strategies that count commits."""
    max_delta_seconds: int = property_field(
        "hoodie.compact.inline.max.delta.seconds", integer(minimum=0, maximum=2**31 - 1), 3600
    )
    """The seconds after which a compaction is due, with the trigger strategies that look at the time."""
    trigger_strategy: CompactionTriggerStrategy = property_field(
        "hoodie.compact.inline.trigger.strategy",
        choice(CompactionTriggerStrategy),
        CompactionTriggerStrategy.NUM_COMMITS,
    )
    """When a compaction after a commit is due. NUM_COMMITS: after so many delta commits since the last completed
    compaction. NUM_COMMITS_AFTER_LAST_REQUEST: since the last one that was planned. TIME_ELAPSED: after so many seconds
    since the last completed compaction, or since the first delta commit. NUM_AND_TIME: both NUM_COMMITS and
    TIME_ELAPSED. NUM_OR_TIME: one of them."""
    strategy: str = property_field("hoodie.compaction.strategy", text("a class"), "LogFileSizeBasedCompactionStrategy")
    """Which file groups a compaction takes: `LogFileSizeBasedCompactionStrategy` (those with the largest log files
    first), `LogFileNumBasedCompactionStrategy` (with the most log files first), `BoundedIOCompactionStrategy` (in the
    order of the table), all three up to hoodie.compaction.target.io; `DayBasedCompactionStrategy` (the newest days),
    `BoundedPartitionAwareCompactionStrategy` (the last days up to today), `UnBoundedPartitionAwareCompactionStrategy`
    (the days before these), `PartitionRegexBasedCompactionStrategy`, `UnBoundedCompactionStrategy` (all), by these
    names or Hudi's full class names, or your own `CompactionStrategy`."""
    target_io_mb: int = property_field("hoodie.compaction.target.io", integer(minimum=0), 500 * 1024)
    """The most that one compaction reads and writes, in MB, with the strategies that have a limit. The file group that
    exceeds it is the last one."""
    log_file_size_threshold: int = property_field("hoodie.compaction.logfile.size.threshold", integer(minimum=0), 0)
    """`LogFileSizeBasedCompactionStrategy` takes file groups whose log files have at least so many bytes."""
    log_file_num_threshold: int = property_field("hoodie.compaction.logfile.num.threshold", integer(minimum=0), 0)
    """`LogFileNumBasedCompactionStrategy` takes file groups with at least so many log files."""
    day_based_target_partitions: int = property_field(
        "hoodie.compaction.daybased.target.partitions", integer(minimum=1, maximum=2**31 - 1), 10
    )
    """The number of partitions, or of days, that the strategies by day take."""
    partition_path_regex: str | None = property_field(
        "hoodie.compaction.partition.path.regex", text("a regular expression"), None
    )
    """`PartitionRegexBasedCompactionStrategy` takes the partitions whose whole path matches."""
    log_compaction_inline: bool = property_field("hoodie.log.compaction.inline", boolean(), False)
    """Of a merge-on-read table: after a commit, in the same call, where enough delta commits were made since the last
    compaction and log compaction, merge the log files of a file group into one. It is cheaper than a compaction, and
    leaves base files as they are."""
    log_compaction_blocks_threshold: int = property_field(
        "hoodie.log.compaction.blocks.threshold", integer(minimum=1, maximum=2**31 - 1), 5
    )
    """The number of delta commits after which a log compaction is due, and the number of blocks in the log files of a
    file group from which on it takes the file group."""
