"""The flags of the streamer: those of Hudi's command line, and a few of hoodie's own.

Hudi: org.apache.hudi.utilities.streamer.HoodieStreamer.Config.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import attrs

from hoodie.exception import HoodieConfigException

OPERATIONS: Final = (
    "UPSERT",
    "INSERT",
    "BULK_INSERT",
    "INSERT_OVERWRITE",
    "INSERT_OVERWRITE_TABLE",
    "DELETE_PARTITION",
    "DELETE",
)
TABLE_TYPES: Final = ("COPY_ON_WRITE", "MERGE_ON_READ")
NO_PROPS: Final = "src/test/resources/streamer-config/dfs-source.properties"
"""The end of the default of ``--props`` in Hudi; a file of that name stands for none."""
MOST: Final = 2**63 - 1

Kind = Literal["text", "switch", "number", "list", "refused", "ignored"]


@attrs.frozen
class Flag:
    """One flag.

    Attributes:
        names: Its spellings, the usual one first.
        kind: ``text``; ``switch``, which takes no value; ``number``; ``list``, which may be given several times;
            ``refused``, a flag of Hudi for what hoodie does not have; ``ignored``, one without a meaning here.
        help: One line; of a refused flag the way out.
        field: The field of `StreamerConfig`; "" for none.
        choices: The values that are allowed, in upper case.
        is_ours: Whether Hudi has no such flag.
    """

    names: tuple[str, ...]
    kind: Kind
    help: str
    field: str = ""
    choices: tuple[str, ...] = ()
    is_ours: bool = False


_NO_BOOTSTRAP = (
    "hoodie does not bootstrap tables: write the files once, with --source-class ParquetDFSSource --op BULK_INSERT"
)
_POOLS = "a pool of Spark's scheduler; set spark.scheduler.pool yourself"

FLAGS: Final[tuple[Flag, ...]] = (
    Flag(("--target-base-path",), "text", "The folder of the table; created if it is not there.", "target_base_path"),
    Flag(("--target-table",), "text", "The name of the table; by default that of the folder.", "target_table"),
    Flag(
        ("--table-type",), "text", "By default that of the table; COPY_ON_WRITE for a new one.", "table_type",
        TABLE_TYPES,
    ),
    Flag(("--base-file-format",), "text", "PARQUET.", "base_file_format", ("PARQUET",)),
    Flag(("--props",), "text", "A file of properties, on any storage.", "props"),
    Flag(("--hoodie-conf",), "list", "A property, KEY=VALUE; beats --props. May be repeated.", "hoodie_conf"),
    Flag(("--source-class",), "text", "The source: a name of Hudi, or module:Class of yours.", "source_class"),
    Flag(
        ("--source-ordering-fields", "--source-ordering-field"), "text",
        "Columns whose larger value wins, separated by commas.", "source_ordering_fields",
    ),
    Flag(("--payload-class",), "text", "An old way to say how records merge; see --merge-mode.", "payload_class"),
    Flag(("--merge-mode", "--record-merge-mode"), "text", "EVENT_TIME_ORDERING or COMMIT_TIME_ORDERING.", "merge_mode"),
    Flag(
        ("--merge-strategy-id", "--record-merge-strategy-id"), "text", "With the merge mode CUSTOM.",
        "merge_strategy_id",
    ),
    Flag(
        ("--merge-impl-classes", "--record-merge-custom-implementation-classes"), "text",
        "With the merge mode CUSTOM.", "merge_impl_classes",
    ),
    Flag(("--schemaprovider-class",), "text", "The schema provider.", "schema_provider_class"),
    Flag(("--transformer-class",), "list", "Transformers, separated by commas; id:Class.", "transformer_classes"),
    Flag(("--source-limit",), "number", "The most of a round: bytes, events or rows.", "source_limit"),
    Flag(("--op",), "text", f"One of {', '.join(OPERATIONS)}.", "op", OPERATIONS),
    Flag(("--filter-dupes",), "switch", "Drop rows whose key is in the table; not with UPSERT.", "filter_dupes"),
    Flag(("--enable-sync", "--enable-hive-sync"), "switch", "Sync catalogs after each commit.", "enable_sync"),
    Flag(("--sync-tool-classes",), "text", "The tools of --enable-sync.", "sync_tool_classes"),
    Flag(("--force-empty-sync",), "switch", "Sync catalogs after rounds without a commit, too.", "force_empty_sync"),
    Flag(("--continuous",), "switch", "Round after round, until it is stopped.", "continuous"),
    Flag(
        ("--min-sync-interval-seconds",), "number", "The least time from start to start of two rounds.",
        "min_sync_interval_seconds",
    ),
    Flag(("--max-pending-compactions",), "number", "Rounds wait while so many are pending.", "max_pending_compactions"),
    Flag(("--max-pending-clustering",), "number", "Rounds wait while so many are pending.", "max_pending_clustering"),
    Flag(("--disable-compaction",), "switch", "Do not compact a merge-on-read table.", "disable_compaction"),
    Flag(
        ("--retry-last-pending-inline-clustering", "-rc"), "switch", "Carry out pending clusterings first.",
        "retry_pending_clustering",
    ),
    Flag(
        ("--retry-last-pending-inline-compaction",), "switch", "Carry out pending compactions first.",
        "retry_pending_compaction",
    ),
    Flag(("--commit-on-errors",), "switch", "Commit although some rows could not be written.", "commit_on_errors"),
    Flag(("--checkpoint",), "text", "Begin at this position; it acts once.", "checkpoint"),
    Flag(
        ("--ignore-checkpoint",), "text", "Begin as a new table does; a value acts once, so give another each time.",
        "ignore_checkpoint",
    ),
    Flag(
        ("--initial-checkpoint-provider",), "text", "A class that tells the position of the first round.",
        "initial_checkpoint_provider",
    ),
    Flag(
        ("--allow-commit-on-no-checkpoint-change",), "switch", "Commit although the position has not moved.",
        "allow_commit_on_no_checkpoint_change",
    ),
    Flag(
        ("--retry-on-source-failures",), "switch", "Try a round again after a time-out of the source.",
        "retry_on_source_failures",
    ),
    Flag(("--retry-interval-seconds",), "number", "The pause before that.", "retry_interval_seconds"),
    Flag(("--max-retry-count",), "number", "The most tries.", "max_retry_count"),
    Flag(
        ("--post-write-termination-strategy-class",), "text", "Ends continuous mode: NoNewDataTerminationStrategy.",
        "termination_strategy_class",
    ),
    Flag(("--ingestion-metrics-class",), "ignored", "hoodie has one class of metrics."),
    Flag(
        ("--config-hot-update-strategy-class",), "text",
        "module:Class with update(properties) -> new properties or None, asked before each round.",
        "config_hot_update_strategy_class",
    ),
    Flag(("--run-bootstrap",), "refused", _NO_BOOTSTRAP),
    Flag(("--bootstrap-overwrite",), "refused", _NO_BOOTSTRAP),
    Flag(("--bootstrap-index-class",), "refused", _NO_BOOTSTRAP),
    Flag(("--spark-master",), "text", "The master of Spark; implies --engine spark.", "spark_master"),
    Flag(("--spark-app-name",), "text", "By default streamer-<table>.", "spark_app_name"),
    Flag(("--enable-hive-support",), "ignored", "Spark's own catalog is not used."),
    Flag(("--delta-sync-scheduling-weight",), "ignored", _POOLS),
    Flag(("--compact-scheduling-weight",), "ignored", _POOLS),
    Flag(("--cluster-scheduling-weight",), "ignored", _POOLS),
    Flag(("--delta-sync-scheduling-minshare",), "ignored", _POOLS),
    Flag(("--compact-scheduling-minshare",), "ignored", _POOLS),
    Flag(("--cluster-scheduling-minshare",), "ignored", _POOLS),
    Flag(("--engine",), "text", "local (in this process, the default) or spark.", "engine", ("LOCAL", "SPARK"), True),
    Flag(("--from",), "text", "kafka://HOST:PORT/TOPIC, or files: s3://bucket/in/*.json.", "from_", is_ours=True),
    Flag(("--record-key",), "text", "The columns that identify a row.", "record_key", is_ours=True),
    Flag(("--partition",), "text", "The columns of the partition path.", "partition", is_ours=True),
    Flag(("--ordering",), "text", "See --source-ordering-fields.", "ordering", is_ours=True),
    Flag(("--schema",), "text", "A file with the Avro schema of the rows.", "schema", is_ours=True),
    Flag(("--storage", "-s"), "list", "An option of the storage, KEY=VALUE. May be repeated.", "storage", is_ours=True),
    Flag(
        ("--metrics-address",), "text", "HOST:PORT of /metrics and /health; :PORT is on loopback.",
        "metrics_address", is_ours=True,
    ),
    Flag(("--dry-run",), "switch", "Show options, position, lag and rows; write nothing.", "dry_run", is_ours=True),
)  # fmt: skip
"""All flags. Those of Hudi's scheduler pools and of its Hive session have no meaning here, and cost a line."""


@attrs.frozen(kw_only=True)
class StreamerConfig:
    """The flags of one run, with Hudi's defaults. `hoodie.utilities.streamer.arguments` makes it of a command line.

    Attributes:
        target_base_path: The folder of the table.
        target_table: The name of the table; None for that of the folder.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``; None for that of the table, or the first of a new one.
        base_file_format: ``PARQUET``.
        props: A file of properties; None for none.
        hoodie_conf: Properties; they beat those of ``props``.
        source_class: The source.
        source_ordering_fields: The ordering fields, separated by commas.
        payload_class: The payload class.
        merge_mode: The merge mode.
        merge_strategy_id: The id of a custom merge.
        merge_impl_classes: The classes of a custom merge.
        schema_provider_class: The schema provider.
        transformer_classes: The transformers, each with its id, if any.
        source_limit: The most of one round; None for the source's default.
        op: The operation.
        filter_dupes: Whether rows whose key is in the table are dropped.
        enable_sync: Whether catalogs are brought up to date.
        sync_tool_classes: The tools for that; None for HiveSyncTool.
        force_empty_sync: Whether also after rounds without a commit; in continuous mode, after the first of several.
        continuous: Whether rounds follow each other.
        min_sync_interval_seconds: From start to start of two rounds.
        max_pending_compactions: Rounds wait while so many are pending.
        max_pending_clustering: Rounds wait while so many are pending.
        disable_compaction: Whether a merge-on-read table is not compacted.
        retry_pending_clustering: Whether pending clusterings are carried out before a round.
        retry_pending_compaction: Whether pending compactions are carried out before a round.
        commit_on_errors: Whether a round is committed although rows could not be written.
        checkpoint: A position to begin at; it acts once.
        ignore_checkpoint: A text; once for each text, a run begins as with a new table.
        initial_checkpoint_provider: A class that tells the position of the first round.
        allow_commit_on_no_checkpoint_change: Whether rows are committed although the position has not moved.
        retry_on_source_failures: Whether a round is tried again after a time-out of the source.
        retry_interval_seconds: The pause before that.
        max_retry_count: The most tries.
        termination_strategy_class: Ends continuous mode.
        config_hot_update_strategy_class: Gives new properties between rounds.
        spark_master: The master of Spark.
        spark_app_name: The name of Spark's application.
        engine: ``local``, ``spark``, or None for what the other flags imply.
        storage: Options of the storage.
        metrics_address: The address of the HTTP endpoint; None for none.
        dry_run: Whether nothing is written.
    """

    target_base_path: str
    target_table: str | None = None
    table_type: str | None = None
    base_file_format: str = "PARQUET"
    props: str | None = None
    hoodie_conf: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    source_class: str = "JsonDFSSource"
    source_ordering_fields: str | None = None
    payload_class: str | None = None
    merge_mode: str | None = None
    merge_strategy_id: str | None = None
    merge_impl_classes: str | None = None
    schema_provider_class: str | None = None
    transformer_classes: tuple[str, ...] = ()
    source_limit: int | None = None
    op: str = "UPSERT"
    filter_dupes: bool = False
    enable_sync: bool = False
    sync_tool_classes: str | None = None
    force_empty_sync: bool = False
    continuous: bool = False
    min_sync_interval_seconds: int = 0
    max_pending_compactions: int = 5
    max_pending_clustering: int = 5
    disable_compaction: bool = False
    retry_pending_clustering: bool = False
    retry_pending_compaction: bool = False
    commit_on_errors: bool = False
    checkpoint: str | None = None
    ignore_checkpoint: str | None = None
    initial_checkpoint_provider: str | None = None
    allow_commit_on_no_checkpoint_change: bool = False
    retry_on_source_failures: bool = False
    retry_interval_seconds: int = 30
    max_retry_count: int = 3
    termination_strategy_class: str | None = None
    config_hot_update_strategy_class: str | None = None
    spark_master: str | None = None
    spark_app_name: str | None = None
    engine: str | None = None
    storage: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    metrics_address: str | None = None
    dry_run: bool = False

    def __attrs_post_init__(self) -> None:
        problems = contradictions(self)
        if problems:
            raise HoodieConfigException("; ".join(problems))

    @property
    def table_name(self) -> str:
        """The name of the table."""
        return self.target_table or self.target_base_path.rstrip("/").rpartition("/")[2]

    def with_(self, **changes: Any) -> StreamerConfig:
        """These flags with some changed.

        Args:
            changes: Field -> value.
        """
        return attrs.evolve(self, **changes)


def contradictions(config: StreamerConfig) -> list[str]:
    """Flags that contradict each other, one sentence each.

    Args:
        config: The flags.
    """
    found = []
    if config.op not in OPERATIONS:
        found.append(f"--op {config.op}: must be one of {', '.join(OPERATIONS)}")
    if config.table_type is not None and config.table_type not in TABLE_TYPES:
        found.append(f"--table-type {config.table_type}: must be one of {', '.join(TABLE_TYPES)}")
    if config.filter_dupes and config.op not in ("INSERT", "BULK_INSERT"):
        found.append(
            f"--filter-dupes with --op {config.op}: it drops rows whose key is in the table, so give --op INSERT or "
            "BULK_INSERT; or leave it out"
        )
    if config.engine == "local" and config.spark_master:
        found.append("--engine local with --spark-master: leave one of them out")
    if config.checkpoint is not None and not config.checkpoint:
        found.append("--checkpoint is empty: give a position")
    if config.source_limit is not None and config.source_limit < 1:
        found.append("--source-limit must be at least 1")
    for name in ("min_sync_interval_seconds", "retry_interval_seconds", "max_retry_count"):
        if getattr(config, name) < 0:
            found.append(f"--{name.replace('_', '-')} must not be negative")
    for name in ("max_pending_compactions", "max_pending_clustering"):
        if getattr(config, name) < 1:
            found.append(f"--{name.replace('_', '-')} must be at least 1: with 0 no round could ever begin")
    return found
