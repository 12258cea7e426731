"""Merge a DataFrame into a table: update, delete and insert in one commit.

Hudi: MERGE INTO (org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand). Spark: pyspark.sql.MergeIntoWriter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import attrs
import pyarrow as pa
from pyspark.sql import DataFrame

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.chosen_operation import operation_to_do
from hoodie.client.merge_condition import KeyPair, check_pairs, pairs_of_columns, parse_condition
from hoodie.client.merge_index import config_by_record_key, has_plain_paths
from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator, Validator, check_validators
from hoodie.client.write_input import MadeOfTable
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.config.property import check_properties
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.read_config import QueryType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.data import Rereading
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieValidationException,
)
from hoodie.index.bucket.table_layout import TableLayout, config_of_table
from hoodie.index.index import HoodieIndex
from hoodie.index.index_factory import create_index
from hoodie.metrics.progress import ProgressCallback, check_callback
from hoodie.query.planner import plan_of
from hoodie.query.table_query import TableQuery
from hoodie.spark.merge_plan import Clause, ClauseKind, Expressions, MergeCounts, MergeRules, merged_rows
from hoodie.spark.reader import frame_of
from hoodie.spark.spark_compatibility import check_running, is_frame
from hoodie.spark.spark_plans import in_few_tasks, rereading_of
from hoodie.spark.spark_rdd_write_client import SparkRDDWriteClient
from hoodie.spark.spark_scan import scan_files
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.open_table import look_at_table
from hoodie.table.table import HoodieTable


def merge_into(
    target: str,
    source: DataFrame,
    on: str | Sequence[str],
    options: Mapping[str, Any] | None = None,
    *,
    target_alias: str = "t",
    source_alias: str = "s",
    storage_options: StorageOptions | None = None,
    on_progress: ProgressCallback | None = None,
    validators: Sequence[Validator | HoodiePreCommitValidator] = (),
) -> MergeIntoWriter:
    """Merge a DataFrame into a table, as ``MERGE INTO target t USING source s ON ... WHEN ...`` of Hudi's SQL.

    Clauses are added as to PySpark's ``DataFrame.mergeInto``, and `MergeIntoWriter.merge` writes::

        (
            hoodie.spark.merge_into("/data/trips", changes, "t.uuid = s.uuid AND t.city = s.city")
            .whenMatched("s.is_cancelled").delete()
            .whenMatched("s.fare <> t.fare").update({"fare": "s.fare", "ts": "s.ts"})
            .whenNotMatched().insertAll()
            .merge()
        )

    Conditions and values are SQL text or Columns, over the columns of both sides: ``t.fare`` is the stored value,
    ``s.fare`` that of the source.

    Args:
        target: The table's folder.
        source: The rows to merge. At most one of them may apply to each key.
        on: The condition of equal rows: an AND of equalities that names each record key field, such as
            ``t.uuid = s.id``, and all partition fields or none of them. Without partition fields a key is matched in
            whatever partition it is stored, whatever ``hoodie.index.type`` says; it must not be stored in several. With
            a global index they are left out. Or the field, or a list of fields, that both sides have by that name. Both
            sides must have the same types. Null equals null. Where keys are generated, any columns, as SQL compares
            them: a row of the source changes all stored rows that it matches.
        options: Hudi's options, as for `hoodie.spark.write`; they must not contradict the table.
        target_alias: The name of the table in expressions.
        source_alias: The name of the source in expressions.
        storage_options: Options of the storage, for hoodie and its tasks.
        on_progress: Called with every `ProgressEvent`; see `SparkRDDWriteClient`.
        validators: Asked before the commit; see `SparkRDDWriteClient`.

    Returns:
        The merge, without clauses.

    Raises:
        HoodieConfigException: The condition has another form, or options are unknown, contradict each other or a merge.
        HoodieSchemaException: The source is not a Spark DataFrame, or is a stream.
        HoodieException: The session was stopped.

    Hudi: MERGE INTO. Differs: of the clauses that apply to a row, the first one counts (Hudi tries updates before the
    delete); several rows of the source for one key are an error (Hudi keeps the one with the largest ordering value);
    there may be several deletes. As in Hudi 1.2, an update with a smaller ordering value than the stored one is ignored
    if the table's payload class says so (Hudi 0.15 does so with each class), a delete is not, and an insert has nulls
    in columns that it does not assign.
    """
    if not is_frame(source):
        raise HoodieSchemaException(
            f"source is {shown_value(source)}, and a merge takes a Spark DataFrame: create one with "
            "spark.createDataFrame(source)"
        )
    if source.isStreaming:
        raise HoodieSchemaException(
            "source is a streaming DataFrame, and a merge takes a batch: merge the stream's batches in foreachBatch"
        )
    check_properties(options, "options")
    check_running(source.sparkSession)
    check_callback(on_progress)
    check_validators(validators)
    for argument, alias in (("target_alias", target_alias), ("source_alias", source_alias)):
        if not isinstance(alias, str) or not alias.isidentifier():
            raise HoodieConfigException(f"{argument} is {shown_value(alias)}: give a plain name")
    if target_alias.lower() == source_alias.lower():
        raise HoodieConfigException(f"target and source have the same alias, {source_alias!r}: give two names")
    config = HoodieWriteConfig.from_properties(target, options or {}, storage_options)
    operation_to_do("upsert", config)
    if config.payload.partial_update:
        raise HoodieConfigException(
            "hoodie.write.partial.update = true, and a merge writes whole rows, with the stored values of columns that "
            "it does not assign: leave it out"
        )
    pairs = parse_condition(on, target_alias, source_alias)
    return MergeIntoWriter(source, config, pairs, (target_alias, source_alias), (), on_progress, tuple(validators))


@attrs.frozen(eq=False, repr=False)
class MergeIntoWriter:
    """A merge with its clauses; made by `merge_into`.

    Of the clauses that apply to a row the first one counts. Rows of the target that none applies to stay as they are,
    and rows of the source that none applies to are left out. Each method returns another merge; this one stays as it
    is.

    Spark: pyspark.sql.MergeIntoWriter. Differs: there is no ``whenNotMatchedBySource``, and no schema evolution.
    """

    _source: DataFrame
    _config: HoodieWriteConfig
    _pairs: tuple[KeyPair, ...]
    _aliases: tuple[str, str]
    _clauses: tuple[Clause, ...]
    _on_progress: ProgressCallback | None
    _validators: tuple[Validator | HoodiePreCommitValidator, ...]

    def whenMatched(self, condition: Any = None) -> WhenMatched:
        """Begin a clause for rows of the source that match a row of the target.

        Args:
            condition: SQL text or a Column over both sides; None for all such rows. Null counts as false.
        """
        return WhenMatched(self, condition)

    def whenNotMatched(self, condition: Any = None) -> WhenNotMatched:
        """Begin a clause for rows of the source that match no row of the target.

        Args:
            condition: SQL text or a Column over the source; None for all such rows. Null counts as false.
        """
        return WhenNotMatched(self, condition)

    def merge(self) -> HoodieWriteResult:
        """Run the merge, in one commit; it is an upsert.

        The target is read as it is when the write begins. If another writer commits before the merge does, the merge
        fails with a conflict, and nothing of it is committed; ``hoodie.write.lock.wait.retry=true`` runs it again on
        the newer rows.

        Returns:
            The outcome, which is committed.

        Raises:
            TableNotFoundException: There is no table at the path.
            HoodieConfigException: There is no clause; the condition does not compare the fields of the key; a clause
                assigns to a column that the table does not have, or lacks one; or options contradict the table.
            HoodieSchemaException: An expression cannot be resolved, or its type does not fit the column.
            HoodieKeyException: Several rows of the source apply to one key, a clause would change the key of a row, a
                key is null, or a key is stored more than once.
            HoodieWriteConflictException: Another writer committed meanwhile; merging again is safe.
            HoodieNotSupportedException: The table was never written.
            HoodieException: Any error of an upsert.
        """
        check = _MergeCheck()
        config, is_scanned = self._check()
        source = self._source
        with ExitStack() as kept:
            if (
                any(clause.kind is ClauseKind.INSERT for clause in self._clauses)
                and rereading_of(source) < Rereading.CHEAP
            ):
                # It is read twice, for the rows that match and for the others: both must see the same rows.
                source = source.persist()
                kept.callback(source.unpersist)

            def make(table: HoodieTable) -> DataFrame:
                rules = self._rules(table.snapshot, table.index)
                merged = merged_rows(self._rows_of(table.snapshot, is_empty=False), source, rules)
                frame = in_few_tasks(merged.frame).persist()
                kept.callback(frame.unpersist)
                merged = attrs.evolve(merged, frame=frame)
                if rules.is_scanned:
                    merged.check_scanned()
                    return merged.to_upsert
                check.counts, check.is_global = merged.check(), table.index.is_global
                check.has_plain_paths = has_plain_paths(table.snapshot)
                if table.snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ:
                    # The index finds keys in base files, also of rows that a log file deletes.
                    stored = self._rows_of(table.snapshot, is_empty=False, query_type=QueryType.READ_OPTIMIZED)
                    check.count_deleted = partial(merged.inserts_among, stored)
                return merged.to_upsert

            with SparkRDDWriteClient(
                self._source.sparkSession,
                config,
                on_progress=self._on_progress,
                validators=self._validators if is_scanned else (check, *self._validators),
            ) as client:
                if is_scanned:
                    return client.upsert_prepped_records(MadeOfTable(make))
                return client.upsert(MadeOfTable(make))

    def _check(self) -> tuple[HoodieWriteConfig, bool]:
        """Refuse clauses that do not fit the table, before an instant is started. No job runs.

        Returns:
            The configuration of the write, whose index is the one that the condition needs; and whether stored rows are
            found by any columns, see `MergeRules`.
        """
        config = self._config
        snapshot = look_at_table(config)
        snapshot.table_config.check_version(to_write=True)
        config.check_against_table(snapshot.table_config)
        config = config_of_table(config, TableLayout(snapshot))
        if snapshot.load_avro_schema() is None:
            raise HoodieNotSupportedException(
                f"the table at {config.base_path} was never written, so it has no columns that a merge could assign: "
                "write the first rows with hoodie.spark.write"
            )
        rules = self._rules(snapshot, create_index(config))
        merged_rows(self._rows_of(snapshot, is_empty=True), self._source, rules)
        if rules.is_scanned:
            return config, True
        return config_by_record_key(config, snapshot) if rules.partition_fields else config, False

    def _rules(self, snapshot: TableSnapshot, index: HoodieIndex) -> MergeRules:
        table = snapshot.table_config
        partition_fields = [field.partition(":")[0] for field in table.partition_fields]
        if table.is_keyless:
            pairs = pairs_of_columns(self._pairs, snapshot.load_schema(), snapshot.base_path)
            return MergeRules(
                self._clauses, pairs, *self._aliases, len(pairs), tuple(partition_fields), False, is_scanned=True
            )
        pairs = check_pairs(self._pairs, table.record_key_fields, partition_fields, index.is_global)
        key_count = len(table.record_key_fields)
        not_compared = partition_fields if len(pairs) == key_count else ()
        return MergeRules(
            self._clauses, pairs, *self._aliases, key_count, tuple(not_compared), not index.names_file_groups
        )

    def _rows_of(
        self, snapshot: TableSnapshot, is_empty: bool, query_type: QueryType = QueryType.SNAPSHOT
    ) -> DataFrame:
        """The target's rows with their meta columns; or none of them, with these columns."""
        if not is_empty:
            plan = plan_of(snapshot, TableQuery.of(query_type=query_type), reads_footers=False)
            return frame_of(self._source.sparkSession, self._config.base_path, plan)
        avro_schema = snapshot.load_avro_schema()
        columns = [] if avro_schema is None else list(to_arrow(avro_schema))
        schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *columns])
        return scan_files(self._source.sparkSession, snapshot, self._config.base_path, [], schema)

    def _with(self, clause: Clause) -> MergeIntoWriter:
        return attrs.evolve(self, clauses=(*self._clauses, clause))


@attrs.frozen(eq=False, repr=False)
class WhenMatched:
    """A clause of a merge for rows that match.

    Spark: pyspark.sql.MergeIntoWriter.WhenMatched.
    """

    _merge: MergeIntoWriter
    _condition: Any

    def update(self, assignments: Expressions) -> MergeIntoWriter:
        """Assign values to some columns; the others keep theirs.

        Args:
            assignments: Column of the target -> SQL text or Column over both sides, or a Python value that is not text.
                The fields of the key keep their values; they may only be assigned what the condition compares them
                with.
        """
        return self._merge._with(Clause(ClauseKind.UPDATE, self._condition, _checked(assignments, "update")))

    def updateAll(self) -> MergeIntoWriter:
        """Assign each column of the target the value of the source's column of this name; others are left out."""
        return self._merge._with(Clause(ClauseKind.UPDATE, self._condition))

    def delete(self) -> MergeIntoWriter:
        """Delete the rows of the target."""
        return self._merge._with(Clause(ClauseKind.DELETE, self._condition))


@attrs.frozen(eq=False, repr=False)
class WhenNotMatched:
    """A clause of a merge for rows of the source without a match.

    Spark: pyspark.sql.MergeIntoWriter.WhenNotMatched.
    """

    _merge: MergeIntoWriter
    _condition: Any

    def insert(self, assignments: Expressions) -> MergeIntoWriter:
        """Insert rows with these values; columns that are not assigned are null.

        Args:
            assignments: Column of the target -> SQL text or Column over the source, or a Python value that is not text.
                The fields of the key are assigned what the condition compares them with.
        """
        return self._merge._with(Clause(ClauseKind.INSERT, self._condition, _checked(assignments, "insert")))

    def insertAll(self) -> MergeIntoWriter:
        """Insert the rows, with each column of the target taken from the source's column of this name."""
        return self._merge._with(Clause(ClauseKind.INSERT, self._condition))


def _checked(assignments: object, method: str) -> Expressions:
    if not isinstance(assignments, Mapping) or not assignments:
        raise HoodieConfigException(
            f"{method} takes a dict of column and expression, such as {{'fare': 's.fare'}}, not "
            f"{shown_value(assignments)}; {method}All takes all columns"
        )
    return dict(assignments)


@attrs.define(repr=False)
class _MergeCheck:
    """Refuse to commit if the upsert changed other stored rows than those that the condition matched.

    This happens if two values that differ make one key, such as times of one day in a partition path of days, or if a
    clause applies to one of several stored rows of a key.

    Attributes:
        counts: The number of changes of the merge, by its condition.
        is_global: Whether updates may move rows to other partitions, where they count as inserts.
        has_plain_paths: Whether partition paths are the plain values of the columns.
        count_deleted: The count of keys to insert that base files hold and log files delete: the upsert counts them as
            updates.
    """

    counts: MergeCounts = attrs.field(factory=MergeCounts)
    is_global: bool = False
    has_plain_paths: bool = True
    count_deleted: Callable[[], int] = int

    def __repr__(self) -> str:
        return "the condition of the merge"

    def __call__(self, commit: PendingCommit) -> None:
        others = self._others(commit.result, 0)
        if others > 0 and (deleted := self.count_deleted()):
            others = self._others(commit.result, deleted)
        if others > 0:
            raise HoodieValidationException(
                f"it did not match {others} stored rows that have the keys of the merge. Either keys are stored more "
                "than once, and hoodie.table.repair.drop_duplicates removes the others; or record key or partition "
                "path are not the plain values of the columns that the condition compares (times of one day; an empty "
                "text beside null): then compare the record key alone, or upsert the rows with hoodie.spark.write"
            )

    def _others(self, result: HoodieWriteResult, deleted: int) -> int:
        """The number of stored rows that were changed and not matched, beside ``deleted`` rows."""
        counts = self.counts
        matched_count = result.updated_count + result.deleted_count + result.ignored_count + result.kept_count
        others = matched_count - counts.others - deleted
        if result.appended_count:
            # These rows were written without a look-up. The condition finds the stored rows with their key only if
            # paths are plain values.
            others = 0 if self.has_plain_paths else result.appended_count
        elif not self.is_global:
            left_out = result.unmatched_delete_count + result.error_count
            others = max(others, abs(counts.inserts - deleted - result.inserted_count) - left_out)
        return others
