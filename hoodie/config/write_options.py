"""Properties of a writer: what operations do with their input, and how instants are made and guarded."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

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

_OPERATIONS = (
    WriteOperationType.UPSERT,
    WriteOperationType.INSERT,
    WriteOperationType.BULK_INSERT,
    WriteOperationType.DELETE,
    WriteOperationType.INSERT_OVERWRITE,
    WriteOperationType.INSERT_OVERWRITE_TABLE,
    WriteOperationType.DELETE_PARTITION,
)
_PREPPED = "it takes rows that carry their location: call a client's {} with them"
_SERVICE = "it does not write rows"
_UNSUPPORTED = {
    str(other): _SERVICE for other in WriteOperationType if other not in (*_OPERATIONS, WriteOperationType.UNKNOWN)
} | {
    WriteOperationType.UPSERT_PREPPED.value: _PREPPED.format("upsert_prepped_records"),
    WriteOperationType.INSERT_PREPPED.value: _PREPPED.format("insert_prepped_records"),
    WriteOperationType.BULK_INSERT_PREPPED.value: _PREPPED.format("bulk_insert_prepped_records"),
    WriteOperationType.DELETE_PREPPED.value: _PREPPED.format("delete_prepped_records"),
    WriteOperationType.BOOTSTRAP.value: "tables are not bootstrapped from other folders: bulk_insert the rows",
}
"""Hudi's other operations, and what to do instead."""


class WriteConcurrencyMode(StrEnum):
    """The number of writers of a table, and the way in which several of them share it.

    Hudi: org.apache.hudi.common.model.WriteConcurrencyMode.
    """

    SINGLE_WRITER = "SINGLE_WRITER"
    OPTIMISTIC_CONCURRENCY_CONTROL = "OPTIMISTIC_CONCURRENCY_CONTROL"
    NON_BLOCKING_CONCURRENCY_CONTROL = "NON_BLOCKING_CONCURRENCY_CONTROL"


class FailedWritesPolicy(StrEnum):
    """The rollback of failed writes: by the next commit (EAGER), by the cleaner (LAZY), or by nobody (NEVER).

    Hudi: org.apache.hudi.common.model.HoodieFailedWritesCleaningPolicy.
    """

    EAGER = "EAGER"
    LAZY = "LAZY"
    NEVER = "NEVER"


class BulkInsertSortMode(StrEnum):
    """The spreading and sorting of rows by a bulk insert.

    Hudi: org.apache.hudi.execution.bulkinsert.BulkInsertSortMode.
    """

    NONE = "NONE"
    GLOBAL_SORT = "GLOBAL_SORT"
    PARTITION_SORT = "PARTITION_SORT"
    PARTITION_PATH_REPARTITION = "PARTITION_PATH_REPARTITION"
    PARTITION_PATH_REPARTITION_AND_SORT = "PARTITION_PATH_REPARTITION_AND_SORT"


class InsertDupPolicy(StrEnum):
    """The treatment of records whose key is in the table, by an insert.

    Hudi: the values of org.apache.hudi.DataSourceWriteOptions.INSERT_DUP_POLICY.
    """

    NONE = "NONE"
    DROP = "DROP"
    FAIL = "FAIL"


class MarkerType(StrEnum):
    """The way in which markers are stored.

    Hudi: org.apache.hudi.common.table.marker.MarkerType.
    """

    DIRECT = "DIRECT"


class KeylessUpsert(StrEnum):
    """The treatment of rows that an upsert brings without a stored key, to a table that generates its keys."""

    FAIL = "FAIL"
    INSERT = "INSERT"


class InputPersistence(StrEnum):
    """Whether the Spark engine keeps the rows of an upsert or delete between its two readings of them."""

    AUTO = "AUTO"
    ALWAYS = "ALWAYS"
    NEVER = "NEVER"


class ProgressMode(StrEnum):
    """Whether a progress bar is shown for a long write."""

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


STAGED_MAX_BYTES_KEY: Final = "hoodie.datasource.write.staged.max.bytes"
_AVRO_SCHEMA = text("the JSON of an Avro record", _check_json_object)
_PARALLELISM: Parser[int] = integer(minimum=0, maximum=2**31 - 1)


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteOptions(PropertyGroup):
    """Options of a writer's operations.

    Hudi: org.apache.hudi.config.HoodieWriteConfig (and a few of org.apache.hudi.DataSourceWriteOptions,
    HoodieCleanConfig and HoodieMetadataConfig).
    """

    operation: WriteOperationType = property_field(
        "hoodie.datasource.write.operation",
        choice(_OPERATIONS, unsupported=_UNSUPPORTED),
        WriteOperationType.UPSERT,
    )
    """The operation of `hoodie.spark.write`, and of `hoodie.write_table` if the call names none. Clients ignore it:
    each method is an operation."""
    partitions_to_delete: tuple[str, ...] = property_field(
        "hoodie.datasource.write.partitions.to.delete", column_names("partition paths"), ()
    )
    """The partition paths that the operation delete_partition deletes; `*` stands for any text, slashes included.
    Default: the partitions that its rows go to. Other operations ignore it, with a warning."""
    auto_commit: bool = property_field("hoodie.auto.commit", boolean(), True)
    """Complete the instant at the end of each write. With false the caller does it with `client.commit`."""
    combine_before_insert: bool = property_field("hoodie.combine.before.insert", boolean(), False)
    """Keep one record per key of the input of insert and bulk_insert."""
    combine_before_upsert: bool = property_field("hoodie.combine.before.upsert", boolean(), True)
    """Keep one record per key of the input of upsert. Set to false only for input without duplicates."""
    combine_before_delete: bool = property_field("hoodie.combine.before.delete", boolean(), True)
    """Keep each key of the input of delete only once."""
    merge_allow_duplicate_on_inserts: bool = property_field("hoodie.merge.allow.duplicate.on.inserts", boolean(), True)
    """With true, an insert into an existing file is added even if the file has its key. With false it replaces that
    record, and of several inserts with the same key into one existing file the last one counts."""
    keyless_upsert: KeylessUpsert = property_field(
        "hoodie.write.keyless.upsert", choice(KeylessUpsert), KeylessUpsert.FAIL, is_ours=True
    )
    """The treatment of an upsert into a table whose keys are generated, if its rows do not carry `_hoodie_record_key`
    and `_hoodie_partition_path`: FAIL, or INSERT, which adds all of them as Hudi does. Rows that carry both change the
    stored rows in any case. See `docs/keyless-tables.md`."""
    input_persistence: InputPersistence = property_field(
        "hoodie.write.input.persist", choice(InputPersistence), InputPersistence.AUTO, is_ours=True
    )
    """Spark only: whether an upsert, insert or delete keeps its input with `persist()` between reading its keys and
    writing its rows. AUTO: not where reading again costs less: Parquet and ORC files with filters and projections,
    joins and aggregations, whose shuffles are done once, and rows that you have cached. NEVER: only where the write
    cannot do without. If a second reading finds other keys than the first, the input is read anew and kept."""
    insert_shuffle_parallelism: int = property_field("hoodie.insert.shuffle.parallelism", _PARALLELISM, 0)
    """The number of shuffle partitions of insert; with 0 as many as the input has."""
    upsert_shuffle_parallelism: int = property_field("hoodie.upsert.shuffle.parallelism", _PARALLELISM, 0)
    """The number of shuffle partitions of upsert; with 0 as many as the input has."""
    bulk_insert_shuffle_parallelism: int = property_field("hoodie.bulkinsert.shuffle.parallelism", _PARALLELISM, 0)
    """The number of shuffle partitions of bulk_insert; with 0 as many as the input has."""
    delete_shuffle_parallelism: int = property_field("hoodie.delete.shuffle.parallelism", _PARALLELISM, 0)
    """The number of shuffle partitions of delete; with 0 as many as the input has."""
    bulk_insert_sort_mode: BulkInsertSortMode = property_field(
        "hoodie.bulkinsert.sort.mode", choice(BulkInsertSortMode), BulkInsertSortMode.NONE
    )
    """How bulk_insert spreads and sorts its rows. NONE: as they come. GLOBAL_SORT: all rows by partition path and key.
    PARTITION_SORT: the rows of each task. PARTITION_PATH_REPARTITION: all rows of a partition path go to one task; with
    _AND_SORT also one partition path after the other."""
    bulk_insert_partitioner_class: str | None = property_field(
        "hoodie.bulkinsert.user.defined.partitioner.class", text("a class"), None
    )
    """Your own `BulkInsertPartitioner` as package.module.Class, instead of a sort mode. Hudi's own classes are accepted
    by their names."""
    bulk_insert_sort_columns: tuple[str, ...] = property_field(
        "hoodie.bulkinsert.user.defined.partitioner.sort.columns", column_names(), ()
    )
    """The columns that CustomColumnsSortPartitioner (Hudi: RDDCustomColumnsSortPartitioner) sorts by."""
    insert_drop_duplicates: bool = property_field("hoodie.datasource.write.insert.drop.duplicates", boolean(), False)
    """insert and bulk_insert drop records whose key is in the table, and keep one record per key of the input. This
    costs the look-up of an upsert. It concerns inserts: the `upsert` method of clients ignores it, and `write_table`
    does an insert instead of an upsert unless the call names the operation."""
    insert_dup_policy: InsertDupPolicy = property_field(
        "hoodie.datasource.insert.dup.policy",
        choice(InsertDupPolicy, aliases={"INSERT": InsertDupPolicy.NONE}),
        InsertDupPolicy.NONE,
    )
    """What insert and bulk_insert do with records whose key is in the table: NONE adds them, DROP drops them (like
    hoodie.datasource.write.insert.drop.duplicates), FAIL refuses the write. It concerns inserts, as that property
    does."""
    write_buffer_limit_bytes: int = property_field(
        "hoodie.write.buffer.limit.bytes", integer(minimum=1), 4 * 1024 * 1024
    )
    """How many bytes of records reading may be ahead of writing, for each file that is being written."""
    staged_max_bytes: int = property_field(STAGED_MAX_BYTES_KEY, integer(minimum=1), 256 * 1024 * 1024, is_ours=True)
    """The most bytes of rows, by their size in memory, that a write or a batch of a stream may have with
    `format("hoodie")` of PySpark. Its tasks stage their rows in files, and one process on the driver's host writes them
    to the table; with small rows it needs up to 15 times this memory. Above, nothing is written, and the error names
    the call of hoodie.spark that lets tasks do all the work. A bulk_insert that neither sorts, combines nor looks up,
    of a table without buckets, holds only a few batches at a time, and has no limit unless this is given."""
    avro_schema: str | None = property_field("hoodie.avro.schema", _AVRO_SCHEMA, None)
    """The schema of input without a schema (dicts and `HoodieRecord`s), as Avro JSON."""
    set_null_for_missing_columns: bool = property_field(
        "hoodie.write.set.null.for.missing.columns", boolean(), False, since="0.14.1"
    )
    """Write null to columns of the table that the input does not have, instead of refusing the input."""
    reconcile_schema: bool = property_field("hoodie.datasource.write.reconcile.schema", boolean(), False)
    """The older name of hoodie.write.set.null.for.missing.columns: either of them writes the nulls. Columns that the
    table does not have are added, and the table's wider types are kept, with and without it."""
    schema_widen_lossy: bool = property_field("hoodie.write.schema.widen.lossy", boolean(), False, is_ours=True)
    """Where the input has floats, let an integer column become float or double for good, as Hudi does, and round
    integers of the input that a float or double column cannot hold. A warning names each such column. Without this,
    whole floats are stored as the table's integers, and any other value that would lose something is refused. Key
    columns are never rounded."""
    allow_empty_commit: bool = property_field("hoodie.allow.empty.commit", boolean(), True)
    """Complete an instant even if nothing was written."""
    commit_on_errors: bool = property_field("hoodie.write.commit.on.errors", boolean(), False, is_ours=True)
    """With auto-commit, commit the good records of a write even if other records failed."""
    allow_other_files: bool = property_field("hoodie.table.create.allow.other.files", boolean(), False, is_ours=True)
    """Create a new table even if its folder is that of a Delta or Iceberg table, or holds other files. These files are
    not touched; readers may take those in partition folders for the table's."""
    static_overwrite_partition_paths: tuple[str, ...] = property_field(
        "hoodie.static.overwrite.partition.paths", column_names("partition paths"), ()
    )
    """The partition paths that insert_overwrite replaces, including those that get no records; records for other
    partitions are refused. Default: the partitions that the records go to."""
    commit_metadata_key_prefix: str = property_field("hoodie.datasource.write.commitmeta.key.prefix", text(), "_")
    """Properties whose key starts with this prefix, Hudi's own included, are stored in the extra metadata of the
    commit. Secrets and `schema` are refused there."""
    rollback_using_markers: bool = property_field("hoodie.rollback.using.markers", boolean(), True)
    """Find the files of a failed write by its markers; with false, by listing the table."""
    markers_type: MarkerType = property_field(
        "hoodie.write.markers.type",
        choice(MarkerType, aliases={"TIMELINE_SERVER_BASED": MarkerType.DIRECT}),
        MarkerType.DIRECT,
    )
    """How markers are stored. There is no timeline server: TIMELINE_SERVER_BASED, Hudi's default, is accepted and means
    DIRECT. Markers of both kinds are read."""
    concurrency_mode: WriteConcurrencyMode = property_field(
        "hoodie.write.concurrency.mode",
        choice(WriteConcurrencyMode),
        WriteConcurrencyMode.SINGLE_WRITER,
    )
    """How many writers the table has. With SINGLE_WRITER one process writes at a time, see
    hoodie.write.lock.single.writer.enable, and a commit is refused if somebody else committed meanwhile. With
    OPTIMISTIC_CONCURRENCY_CONTROL several processes may write at once: of two writers that change the same file group,
    the one that commits first wins. With NON_BLOCKING_CONCURRENCY_CONTROL upserts, inserts and deletes of keys that
    change the same file group are both committed, and readers and compactions merge their rows: for merge-on-read
    tables of versions 8 and 9 with hoodie.index.type=BUCKET. Both modes need hoodie.write.lock.provider, and set
    hoodie.cleaner.policy.failed.writes to LAZY."""
    conflict_resolution_strategy: str | None = property_field(
        "hoodie.write.lock.conflict.resolution.strategy", text("a class"), None
    )
    """Which writes conflict: `SimpleConcurrentFileWritesConflictResolutionStrategy` (writes to the same file group),
    `BucketIndexConcurrentFileWritesConflictResolutionStrategy` (writes to the same bucket; the default for a bucket
    index), `PreferWriterConflictResolutionStrategy` (pending table services do not count), by these names or Hudi's
    full class names, or your own `ConflictResolutionStrategy`."""
    failed_writes_policy: FailedWritesPolicy = property_field(
        "hoodie.cleaner.policy.failed.writes",
        choice(FailedWritesPolicy),
        FailedWritesPolicy.EAGER,
        alternatives=("hoodie.clean.failed.writes.policy",),
    )
    """Who rolls back failed writes: with EAGER the next commit, which must be the only writer; with LAZY the cleaner
    and `client.rollback_failed_writes()`, once the writer's heartbeat has expired; with NEVER nobody."""
    heartbeat_interval_ms: int = property_field("hoodie.client.heartbeat.interval_in_ms", integer(minimum=1), 60_000)
    """The time between two heartbeats of a writer, in milliseconds."""
    heartbeat_tolerable_misses: int = property_field(
        "hoodie.client.heartbeat.tolerable.misses", integer(minimum=0, maximum=2**31 - 1), 2
    )
    """The number of heartbeats that may be missing before a writer counts as dead."""
    table_services_enabled: bool = property_field("hoodie.table.services.enabled", boolean(), True)
    """With false no table service (cleaning, archiving) runs after commits; only `client.clean()` and
    `client.archive()` run them."""
    early_conflict_detection: bool = property_field(
        "hoodie.write.concurrency.early.conflict.detection.enable", boolean(), False, since="0.13.0"
    )
    """Before a file is written, look for markers of other live writers of the same file group, and fail at once instead
    of at the end. Only with OPTIMISTIC_CONCURRENCY_CONTROL; NON_BLOCKING_CONCURRENCY_CONTROL refuses it. Costs a few
    listings for each file."""
    record_key_max_bytes: int = property_field(
        "hoodie.write.record.key.max.bytes", integer(minimum=1, maximum=2**31 - 1), 64 * 1024, is_ours=True
    )
    """The maximum size of a record key, in bytes of UTF-8; a write with a longer key is refused. Deletes take keys of
    any length. Each key is hashed up to 30 times for bloom filters, which takes about half a second for a key of 1
    MB. A record index takes keys of up to 32767 bytes."""
    unique_keys: bool = property_field("hoodie.write.concurrency.unique.keys", boolean(), False, is_ours=True)
    """With several writers: compare the keys of new records with those that other writers added
    since the write began. Without it, a key that two writers insert at the same time is stored twice."""

    record_positions: bool = property_field("hoodie.write.record.positions", boolean(), False)
    """Tables of versions 8 and 9: store in each block of a log file at which rows of the base file its records stand.
    Readers then find these rows without their keys. A block gets positions only if the index knew the position of each
    of its records; a bucket index never does. Hudi's own default is true."""
    progress_enable: ProgressMode = property_field(
        "hoodie.write.progress.enable", choice(ProgressMode), ProgressMode.AUTO, is_ours=True
    )
    """Show the current step and its tasks in one line on a terminal (standard error) or in a notebook, once a call has
    taken 2 seconds. `auto` shows nothing if the environment variable CI is set, or if Spark draws its own bar. Files,
    pipes and logs never get the line."""

    @property
    def duplicates_of_inserts(self) -> InsertDupPolicy:
        """The treatment of keys that the table has by insert and bulk_insert, from both of Hudi's properties."""
        if self.insert_drop_duplicates and self.insert_dup_policy is InsertDupPolicy.NONE:
            return InsertDupPolicy.DROP
        return self.insert_dup_policy

    @property
    def nulls_missing_columns(self) -> bool:
        """Whether columns of the table that the input does not have become null, from both of Hudi's properties."""
        return self.set_null_for_missing_columns or self.reconcile_schema

    @property
    def has_several_writers(self) -> bool:
        """Whether other writers may write at the same time, so that locks are needed."""
        return self.concurrency_mode is not WriteConcurrencyMode.SINGLE_WRITER

    @property
    def is_non_blocking(self) -> bool:
        """Whether writers append to the same file groups at the same time, and readers merge their rows."""
        return self.concurrency_mode is WriteConcurrencyMode.NON_BLOCKING_CONCURRENCY_CONTROL

    @property
    def failed_writes(self) -> FailedWritesPolicy:
        """The policy in force for failed writes: always LAZY if there may be several writers."""
        return FailedWritesPolicy.LAZY if self.has_several_writers else self.failed_writes_policy

    @property
    def heartbeat_tolerance_ms(self) -> int:
        """The age of a heartbeat, in milliseconds, above which its writer counts as dead."""
        return self.heartbeat_interval_ms * max(1, self.heartbeat_tolerable_misses)
