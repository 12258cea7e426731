"""Properties of clustering: the time, the file groups, and the order of their rows."""

from __future__ import annotations

from enum import StrEnum

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, column_names, integer, property_field, text

SIZE_BASED_PLAN = "SparkSizeBasedClusteringPlanStrategy"
SORT_AND_SIZE = "SparkSortAndSizeExecutionStrategy"


class ClusteringPartitionFilterMode(StrEnum):
    """The choice of the partitions that a clustering looks at.

    Hudi: org.apache.hudi.table.action.cluster.ClusteringPlanPartitionFilterMode.
    """

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


@attrs.frozen(kw_only=True, repr=False)
class HoodieClusteringConfig(PropertyGroup):
    """The file groups that a clustering rewrites, the time at which it does, and the fate of plans that writers meet.

    Hudi: org.apache.hudi.config.HoodieClusteringConfig.
    """

    inline: bool = property_field(
        "hoodie.clustering.inline", boolean(), False, alternatives=("hoodie.datasource.clustering.inline.enable",)
    )
    """Cluster after a commit, in the same call, where a clustering is due; pending plans are carried out first."""
    inline_max_commits: int = property_field(
        "hoodie.clustering.inline.max.commits", integer(minimum=1, maximum=2**31 - 1), 4
    )
    """The number of commits after which a clustering is due, with hoodie.clustering.inline."""
    schedule_inline: bool = property_field("hoodie.clustering.schedule.inline", boolean(), False)
    """Only plan a clustering after a commit, where one is due by hoodie.clustering.async.max.commits and none is
    pending. Another process carries it out with `client.cluster()`. Has no effect with hoodie.clustering.inline."""
    run_async: bool = property_field(
        "hoodie.clustering.async.enabled", boolean(), False, alternatives=("hoodie.datasource.clustering.async.enable",)
    )
    """Plan a clustering after a commit where one is due, and carry it out in a thread of the client, while the next
    write runs; `client.close()` waits for it. Errors are logged. Has no effect with hoodie.clustering.inline."""
    async_max_commits: int = property_field(
        "hoodie.clustering.async.max.commits", integer(minimum=1, maximum=2**31 - 1), 4
    )
    """The number of commits after which a clustering is due, with hoodie.clustering.async.enabled and
    hoodie.clustering.schedule.inline."""
    plan_strategy_class: str = property_field("hoodie.clustering.plan.strategy.class", text("a class"), SIZE_BASED_PLAN)
    """Which file groups a clustering takes together: `SparkSizeBasedClusteringPlanStrategy` (small files of a
    partition), `SparkRecentDaysClusteringPlanStrategy` and `SparkSelectedPartitionsClusteringPlanStrategy` (the same
    with a filter of partitions), `SparkSingleFileSortPlanStrategy` (each file alone), by these names, the same names
    with Flink or Java, or Hudi's full class names, or your own `ClusteringPlanStrategy`."""
    execution_strategy_class: str = property_field(
        "hoodie.clustering.execution.strategy.class", text("a class"), SORT_AND_SIZE
    )
    """How a group is rewritten: `SparkSortAndSizeExecutionStrategy` (sorted, in files up to
    hoodie.clustering.plan.strategy.target.file.max.bytes) or `SparkSingleFileSortExecutionStrategy` (sorted, in one
    file), by these names, the same names with Java, or Hudi's full class names. The plan stores it."""
    partition_filter_mode: ClusteringPartitionFilterMode = property_field(
        "hoodie.clustering.plan.partition.filter.mode",
        choice(ClusteringPartitionFilterMode),
        ClusteringPartitionFilterMode.NONE,
    )
    """Which partitions a plan looks at. NONE: all. RECENT_DAYS: sorted descending as text, some after some that are
    skipped (hoodie.clustering.plan.strategy.daybased.*). SELECTED_PARTITIONS: those from
    hoodie.clustering.plan.strategy.cluster.begin.partition to ...end.partition. DAY_ROLLING: every 24th partition, by
    the hour of the day."""
    partition_selected: tuple[str, ...] = property_field(
        "hoodie.clustering.plan.strategy.partition.selected", column_names("partition paths"), ()
    )
    """The partitions that a plan looks at, instead of a listing; the filter mode is applied to them."""
    partition_regex: str | None = property_field(
        "hoodie.clustering.plan.strategy.partition.regex.pattern", text("a regular expression"), None
    )
    """A regular expression of Python; a plan looks only at partitions whose whole path matches it."""
    lookback_partitions: int = property_field(
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions", integer(), 2
    )
    """How many partitions RECENT_DAYS takes; 0 or less for all."""
    skip_from_latest_partitions: int = property_field(
        "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions", integer(minimum=0), 0
    )
    """How many of the last partitions RECENT_DAYS skips."""
    begin_partition: str | None = property_field(
        "hoodie.clustering.plan.strategy.cluster.begin.partition", text("a partition path"), None
    )
    """The first partition of SELECTED_PARTITIONS, compared as text."""
    end_partition: str | None = property_field(
        "hoodie.clustering.plan.strategy.cluster.end.partition", text("a partition path"), None
    )
    """The last partition of SELECTED_PARTITIONS, compared as text."""
    small_file_limit: int = property_field(
        "hoodie.clustering.plan.strategy.small.file.limit", integer(minimum=0), 300 * 1024 * 1024
    )
    """File slices whose base file has fewer bytes than this are rewritten."""
    max_bytes_per_group: int = property_field(
        "hoodie.clustering.plan.strategy.max.bytes.per.group", integer(minimum=1), 2 * 1024 * 1024 * 1024
    )
    """The most bytes of base files that are rewritten together, by one task."""
    target_file_max_bytes: int = property_field(
        "hoodie.clustering.plan.strategy.target.file.max.bytes", integer(minimum=1), 1024 * 1024 * 1024
    )
    """The size up to which rows are put into one new file, in bytes."""
    binary_copy_row_group_min_bytes: int = property_field(
        "hoodie.clustering.binary.copy.row.group.min.bytes", integer(minimum=1), 8 * 1024 * 1024, is_ours=True
    )
    """Without sort columns, row groups of base files that have at least this size on storage are copied as they are
    stored; rows of smaller ones are joined into row groups of hoodie.parquet.block.size. Row groups with another schema
    or codec than new files have, and slices with log files, are decoded. A large number turns copies off."""
    max_num_groups: int = property_field(
        "hoodie.clustering.plan.strategy.max.num.groups", integer(minimum=1, maximum=2**31 - 1), 30
    )
    """The most groups of one plan."""
    single_group_clustering_enabled: bool = property_field(
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled", boolean(), True
    )
    """Rewrite a file slice that is alone in its group, too. With sort columns it always is."""
    file_slices_sort_by: str = property_field(
        "hoodie.clustering.plan.strategy.file.slices.sort.by", text("INSTANT_TIME, SIZE or both"), "SIZE"
    )
    """The order in which file slices are put into groups: `SIZE` (descending), `INSTANT_TIME` (ascending), or both,
    separated by a comma."""
    sort_columns: tuple[str, ...] = property_field("hoodie.clustering.plan.strategy.sort.columns", column_names(), ())
    """The columns by which rows are ordered, separated by commas; none keeps the order in which they are stored."""
    updates_strategy: str | None = property_field("hoodie.clustering.updates.strategy", text("a class"), None)
    """What becomes of an upsert or delete that changes file groups of a pending plan. Without it the write wins against
    plans of hoodie: it withdraws them, or the file groups in question are left out; it is refused for plans of Hudi.
    `SparkRejectUpdateStrategy` refuses it for all plans. `SparkAllowUpdateStrategy`, together with
    hoodie.clustering.rollback.pending.replacecommit.on.conflict, rolls all such plans back."""
    rollback_pending_on_conflict: bool = property_field(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict", boolean(), False
    )
    """Roll back pending plans whose file groups a write changes, with SparkAllowUpdateStrategy."""
    enable_expirations: bool = property_field("hoodie.clustering.enable.expirations", boolean(), False)
    """Roll back, for good, plans of dead processes that are older than hoodie.clustering.expiration.threshold.mins."""
    expiration_threshold_mins: int = property_field(
        "hoodie.clustering.expiration.threshold.mins", integer(minimum=0, maximum=2**31 - 1), 60
    )
    """The age at which a plan without a living process expires, in minutes."""
