"""Properties of a writer: what an operation does with its input, and how instants are made and guarded."""

from __future__ import annotations

import json
from enum import StrEnum

import attrs

from hoodie.common.config.property import (
    Parser,
    PropertyGroup,
    boolean,
    choice,
    column_names,
    integer,
    property_field,
    text,
)
from hoodie.common.model.write_operation_type import WriteOperationType

__all__ = [
    "BulkInsertSortMode",
    "FailedWritesPolicy",
    "HoodieWriteOptions",
    "InsertDupPolicy",
    "MarkerType",
    "ProgressMode",
    "WriteConcurrencyMode",
]

_OPERATIONS = (
    WriteOperationType.UPSERT,
    WriteOperationType.INSERT,
    WriteOperationType.BULK_INSERT,
    WriteOperationType.DELETE,
    WriteOperationType.INSERT_OVERWRITE,
    WriteOperationType.INSERT_OVERWRITE_TABLE,
)


class WriteConcurrencyMode(StrEnum):
    """How many writers a table has.

    Hudi: org.apache.hudi.common.model.WriteConcurrencyMode.
    """

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"


class FailedWritesPolicy(StrEnum):
    """Who rolls back what a failed writer left: the next commit (EAGER), the cleaner (LAZY), or nobody (NEVER).

    Hudi: org.apache.hudi.common.model.HoodieFailedWritesCleaningPolicy.
    """

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class BulkInsertSortMode(StrEnum):
    """How a bulk insert spreads and sorts its rows.

    Hudi: org.apache.hudi.execution.bulkinsert.BulkInsertSortMode.
    """

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


class InsertDupPolicy(StrEnum):
    """What an insert does with records whose key is in the table.

    Hudi: the values of org.apache.hudi.DataSourceWriteOptions.INSERT_DUP_POLICY.
    """

    NONE = "NONE"
    DROP = "DROP"
    FAIL = "FAIL"


class MarkerType(StrEnum):
    """How markers are stored.

    Hudi: org.apache.hudi.common.table.marker.MarkerType.
    """

    DIRECT = "DIRECT"


class ProgressMode(StrEnum):
    """Whether a bar shows the progress of a long write."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


def _check_json_object(value: str) -> None:
    try:
        schema = json.loads(value)
    except ValueError as error:
        raise ValueError(f"must be the JSON of an Avro record: {error}") from error
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError


_AVRO_SCHEMA = text("the JSON of an Avro record", _check_json_object)
_COLUMNS: Parser[tuple[str, ...]] = column_names()
_PARALLELISM: Parser[int] = integer(minimum=0, maximum=2**31 - 1)


def _parallelism(key: str, operation: str) -> int:
    return property_field(
        key, _PARALLELISM, 0, f"Partitions of the shuffles of {operation}; 0 takes as many as the input has."
    )


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteOptions(PropertyGroup):
    """What a writer does.

    Hudi: org.apache.hudi.config.HoodieWriteConfig (and a few of org.apache.hudi.DataSourceWriteOptions,
    HoodieCleanConfig and HoodieMetadataConfig).
    """

    operation: WriteOperationType = property_field(
        "hoodie.datasource.write.operation",
        choice(
            _OPERATIONS,
            unsupported={str(other): "" for other in WriteOperationType if other not in (*_OPERATIONS, "UNKNOWN")},
        ),
        WriteOperationType.UPSERT,
        "What `hoodie.write_table` does where the call names no operation; the methods of clients name theirs.",
    )
    auto_commit: bool = property_field(
        "hoodie.auto.commit",
        boolean(),
        True,
        "Complete the instant at the end of each write. With false the caller does it by `client.commit`.",
    )
    combine_before_insert: bool = property_field(
        "hoodie.combine.before.insert",
        boolean(),
        False,
        "Keep one record of each key of the input of insert and bulk_insert.",
    )
    combine_before_upsert: bool = property_field(
        "hoodie.combine.before.upsert",
        boolean(),
        True,
        "Keep one record of each key of the input of upsert. Give false only for input without duplicates.",
    )
    combine_before_delete: bool = property_field(
        "hoodie.combine.before.delete", boolean(), True, "Keep one of each key of the input of delete."
    )
    merge_allow_duplicate_on_inserts: bool = property_field(
        "hoodie.merge.allow.duplicate.on.inserts",
        boolean(),
        True,
        "With true, an insert that lands in an existing file is added though the file has its key; with false it "
        "replaces that record, and of several inserts of one key that land in one existing file the last counts.",
    )
    insert_shuffle_parallelism: int = _parallelism("hoodie.insert.shuffle.parallelism", "insert")
    upsert_shuffle_parallelism: int = _parallelism("hoodie.upsert.shuffle.parallelism", "upsert")
    bulk_insert_shuffle_parallelism: int = _parallelism("hoodie.bulkinsert.shuffle.parallelism", "bulk_insert")
    delete_shuffle_parallelism: int = _parallelism("hoodie.delete.shuffle.parallelism", "delete")
    bulk_insert_sort_mode: BulkInsertSortMode = property_field(
        "hoodie.bulkinsert.sort.mode",
        choice(BulkInsertSortMode),
        BulkInsertSortMode.NONE,
        "How bulk_insert spreads and sorts its rows: NONE as they come; GLOBAL_SORT all by partition path and key; "
        "PARTITION_SORT each task's; PARTITION_PATH_REPARTITION all rows of a partition path to one task, with "
        "_AND_SORT one partition path after the other.",
    )
    bulk_insert_partitioner_class: str | None = property_field(
        "hoodie.bulkinsert.user.defined.partitioner.class",
        text("a class"),
        None,
        "A `BulkInsertPartitioner` of your own as package.module.Class, instead of a sort mode. Hudi's own classes are "
        "taken by their names.",
    )
    bulk_insert_sort_columns: tuple[str, ...] = property_field(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns",
        _COLUMNS,
        (),
        "Columns that CustomColumnsSortPartitioner (Hudi: RDDCustomColumnsSortPartitioner) sorts by.",
    )
    insert_drop_duplicates: bool = property_field(
        "hoodie.datasource.write.insert.drop.duplicates",
        boolean(),
        False,
        "Let insert and bulk_insert pass over records whose key is in the table, and keep one of each key of the "
        "input. Costs the look-up of an upsert. It concerns inserts: the method `upsert` of clients does not look at "
        "it, and `write_table` makes an insert of an upsert that the call does not name.",
    )
    insert_dup_policy: InsertDupPolicy = property_field(
        "hoodie.datasource.insert.dup.policy",
        choice(InsertDupPolicy, aliases={"INSERT": InsertDupPolicy.NONE}),
        InsertDupPolicy.NONE,
        "What insert and bulk_insert do with records whose key is in the table: NONE adds them, DROP passes over them "
        "(as hoodie.datasource.write.insert.drop.duplicates), FAIL refuses the write. It concerns inserts, as that "
        "property does.",
    )
    write_buffer_limit_bytes: int = property_field(
        "hoodie.write.buffer.limit.bytes",
        integer(minimum=1),
        4 * 1024 * 1024,
        "Bytes of records that reading may be ahead of writing, for each file being written.",
    )
    avro_schema: str | None = property_field(
        "hoodie.avro.schema",
        _AVRO_SCHEMA,
        None,
        "Schema of input that carries none (dicts and `HoodieRecord`s), as Avro JSON.",
    )
    set_null_for_missing_columns: bool = property_field(
        "hoodie.write.set.null.for.missing.columns",
        boolean(),
        False,
        "Write null to columns of the table that the input does not have, instead of refusing the input.",
        since="0.14.1",
    )
    schema_widen_lossy: bool = property_field(
        "hoodie.write.schema.widen.lossy",
        boolean(),
        False,
        "Let a column of integers become float or double for good where the input has floats, as Hudi does, and round "
        "integers of the input that a float or double column cannot hold. Each such column is named in a warning. "
        "Without it whole floats are taken as the table's integers, and any other value that would lose something is "
        "refused. Columns that make keys are never rounded.",
        is_ours=True,
    )
    allow_empty_commit: bool = property_field(
        "hoodie.allow.empty.commit",
        boolean(),
        True,
        "Complete an instant though nothing was written.",
    )
    commit_on_errors: bool = property_field(
        "hoodie.write.commit.on.errors",
        boolean(),
        False,
        "Auto-commit the good records of a write though some records failed.",
        is_ours=True,
    )
    static_overwrite_partition_paths: tuple[str, ...] = property_field(
        "hoodie.static.overwrite.partition.paths",
        column_names(),
        (),
        "Partition paths that insert_overwrite replaces, whatever comes in, also those that get no records; records of "
        "other partitions are refused. Not given: the partitions that records go to.",
    )
    commit_metadata_key_prefix: str = property_field(
        "hoodie.datasource.write.commitmeta.key.prefix",
        text(),
        "_",
        "Properties whose key starts with this, Hudi's own too, are stored in the commit's extra metadata. Secrets and "
        "`schema` are refused there.",
    )
    rollback_using_markers: bool = property_field(
        "hoodie.rollback.using.markers",
        boolean(),
        True,
        "Find the files of a failed write by its markers; with false, by listing the table.",
    )
    markers_type: MarkerType = property_field(
        "hoodie.write.markers.type",
        choice(MarkerType, aliases={"TIMELINE_SERVER_BASED": MarkerType.DIRECT}),
        MarkerType.DIRECT,
        "How markers are stored. There is no timeline server: TIMELINE_SERVER_BASED, Hudi's default, is accepted and "
        "means DIRECT. Markers of both kinds are read.",
    )
    concurrency_mode: WriteConcurrencyMode = property_field(
        "hoodie.write.concurrency.mode",
        choice(
            tuple(mode for mode in WriteConcurrencyMode if mode != "NON_BLOCKING_CONCURRENCY_CONTROL"),
            unsupported={
                "NON_BLOCKING_CONCURRENCY_CONTROL": "it is for merge-on-read tables; give "
                "OPTIMISTIC_CONCURRENCY_CONTROL"
            },
        ),
        WriteConcurrencyMode.SINGLE_WRITER,
        "How many writers the table has. With SINGLE_WRITER one process writes at a time, see "
        "hoodie.write.lock.single.writer.enable, and a commit is refused when somebody else made one meanwhile. With "
        "OPTIMISTIC_CONCURRENCY_CONTROL several may write at once: who changed the same file group as "
        "another one that committed first loses. It needs hoodie.write.lock.provider, and makes "
        "hoodie.cleaner.policy.failed.writes LAZY.",
    )
    conflict_resolution_strategy: str | None = property_field(
        "hoodie.write.lock.conflict.resolution.strategy",
        text("a class"),
        None,
        "Which writes conflict: `SimpleConcurrentFileWritesConflictResolutionStrategy` (of the same file group), "
        "`BucketIndexConcurrentFileWritesConflictResolutionStrategy` (of the same bucket; used with a bucket index "
        "when nothing is given), `PreferWriterConflictResolutionStrategy` (pending table services do not count), by "
        "these names or Hudi's full class names, or a `ConflictResolutionStrategy` of your own.",
    )
    failed_writes_policy: FailedWritesPolicy = property_field(
        "hoodie.cleaner.policy.failed.writes",
        choice(FailedWritesPolicy),
        FailedWritesPolicy.EAGER,
        "Who rolls back failed writes: EAGER the next commit, which must be the only writer; LAZY the cleaner and "
        "`client.rollback_failed_writes()`, once the writer's heartbeat has expired; NEVER nobody.",
        alternatives=("hoodie.clean.failed.writes.policy",),
    )
    heartbeat_interval_ms: int = property_field(
        "hoodie.client.heartbeat.interval_in_ms",
        integer(minimum=1),
        60_000,
        "Time between two signs of life of a writer, in milliseconds.",
    )
    heartbeat_tolerable_misses: int = property_field(
        "hoodie.client.heartbeat.tolerable.misses",
        integer(minimum=0, maximum=2**31 - 1),
        2,
        "Signs of life that may be missing before a writer counts as dead.",
    )
    table_services_enabled: bool = property_field(
        "hoodie.table.services.enabled",
        boolean(),
        True,
        "With false no table service (cleaning, archiving) runs after commits; `client.clean()` and "
        "`client.archive()` do.",
    )
    early_conflict_detection: bool = property_field(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        boolean(),
        False,
        "Look, before a file is written, for markers of other live writers of the same file group, and lose at once "
        "instead of at the end. Only with OPTIMISTIC_CONCURRENCY_CONTROL. Costs a few listings for each file.",
        since="0.13.0",
    )
    record_key_max_bytes: int = property_field(
        "hoodie.write.record.key.max.bytes",
        integer(minimum=1, maximum=2**31 - 1),
        64 * 1024,
        "Bytes of a record key, in UTF-8, at most: a write with a longer one is refused. Deletes take keys of any "
        "length. Each key is hashed up to 30 times for bloom filters, which costs about half a second for a key of "
        "1 MB.",
        is_ours=True,
    )
    unique_keys: bool = property_field(
        "hoodie.write.concurrency.unique.keys",
        boolean(),
        False,
        "Only with OPTIMISTIC_CONCURRENCY_CONTROL: compare the keys of new records with those that other writers added "
        "since the write began. Without it a key that two writers insert at once lives twice.",
        is_ours=True,
    )
    metadata_enable: bool | None = property_field(
        "hoodie.metadata.enable",
        boolean(),
        None,
        "Metadata tables are not written yet: a table that has one with nothing but file listings goes on without it. "
        "Give false to allow that for a metadata table that holds more (indexes, column statistics). True is the same "
        "as not given.",
    )

    progress_enable: ProgressMode = property_field(
        "hoodie.write.progress.enable",
        choice(ProgressMode),
        ProgressMode.AUTO,
        "A line on a terminal (standard error) or in a notebook that shows the step and its tasks, once a call has "
        "taken 2 seconds. With `auto` not where the environment variable CI is set, nor where Spark draws its own bar. "
        "Files, pipes and logs never get one.",
        is_ours=True,
    )

    @property
    def duplicates_of_inserts(self) -> InsertDupPolicy:
        """What insert and bulk_insert do with records whose key is in the table, by both of Hudi's properties."""
        if self.insert_drop_duplicates and self.insert_dup_policy is InsertDupPolicy.NONE:
            return InsertDupPolicy.DROP
        return self.insert_dup_policy

    @property
    def has_several_writers(self) -> bool:
        """Whether other writers may be at work at the same time, so that locks are needed."""
        return self.concurrency_mode is not WriteConcurrencyMode.SINGLE_WRITER

    @property
    def failed_writes(self) -> FailedWritesPolicy:
        """Who rolls back failed writes: LAZY where several writers are at work, whatever was given."""
        return FailedWritesPolicy.LAZY if self.has_several_writers else self.failed_writes_policy

    @property
    def heartbeat_tolerance_ms(self) -> int:
        """The age of a heartbeat, in milliseconds, above which its writer counts as dead."""
        return self.heartbeat_interval_ms * max(1, self.heartbeat_tolerable_misses)
