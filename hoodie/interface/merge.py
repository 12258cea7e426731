"""Merge rows into a table, in this process: update, delete and insert in one commit.

Hudi: MERGE INTO (org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand).
deltalake: deltalake.table.TableMerger.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.local_write_client import HoodieLocalWriteClient
from hoodie.client.merge_condition import KeyPair, check_pairs, pairs_of_columns, parse_condition
from hoodie.client.merge_index import config_by_record_key, has_plain_paths
from hoodie.client.write_input import MadeOfTable
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.data.normalise import normalise_batch
from hoodie.common.data.stored_types import field_finder, normalise_schema
from hoodie.common.model.record_columns import RESERVED_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.index.bucket.table_layout import TableLayout, config_of_table
from hoodie.index.index_factory import create_index
from hoodie.interface.merge_rows import SOURCE, TARGET, ClauseKind, MergeClause, MergeRows, OfSource
from hoodie.interface.queued_calls import one_after_another
from hoodie.interface.scanned_merge_rows import ScannedMergeRows
from hoodie.query.filter_text import parse_filter
from hoodie.table.open_table import find_table, look_at_table

Condition: TypeAlias = str | pc.Expression | None
Values: TypeAlias = Mapping[str, Any] | str | Sequence[str]


def col(name: str) -> pc.Expression:
    """A column, for values and conditions: ``hoodie.col("s.fare") * 2``.

    Args:
        name: The name; a dot leads to a side of a merge, or to a field of a struct.

    Returns:
        The expression of pyarrow, ``pyarrow.compute.field("s", "fare")``.

    Raises:
        HoodieConfigException: It is no name.
    """
    if not isinstance(name, str) or not name:
        raise HoodieConfigException(f"the column is {shown_value(name)}: give its name")
    return pc.field(*name.split("."))


@attrs.frozen(eq=False, repr=False)
class TableMerge:
    """A merge with its clauses; made by `Table.merge`.

    Of the clauses that apply to a row the first one counts. Stored rows that none applies to stay as they are, and rows
    of the source that none applies to are left out. Each method returns another merge; this one stays as it is.

    In conditions and values, ``s`` is the source and ``t`` the stored row: ``s.fare``, ``t.fare``. A column
    of the source whose name differs from the table's only in upper and lower case has the table's spelling. A condition
    is text
    (``"s.fare > t.fare and not s.is_cancelled"``; the grammar is that of `Table.read`, and it compares columns too), or
    an expression of pyarrow. A value is a Python value, where text is text, or an expression, such as
    ``hoodie.col("s.fare") * 2``.

    deltalake: deltalake.table.TableMerger. Differs: there are no clauses for stored rows that the source lacks.
    """

    _config: HoodieWriteConfig
    _source: Any
    _on: str | Sequence[str] | None
    _clauses: tuple[MergeClause, ...] = ()

    def __repr__(self) -> str:
        clauses = ", ".join(clause.name(number) for number, clause in enumerate(self._clauses))
        return f"<merge into {self._config.base_path}: {clauses or 'no clauses yet'}>"

    def when_matched(self, condition: Condition = None) -> WhenMatched:
        """Begin a clause for rows of the source whose key is stored.

        Args:
            condition: Over both sides; None for all such rows. Null counts as false.

        Raises:
            HoodieConfigException: The condition is not understood.
        """
        return WhenMatched(self, _parsed(condition))

    def when_not_matched(self, condition: Condition = None) -> WhenNotMatched:
        """Begin a clause for rows of the source whose key is not stored.

        Args:
            condition: Over the source; None for all such rows. Null counts as false.

        Raises:
            HoodieConfigException: The condition is not understood.
        """
        return WhenNotMatched(self, _parsed(condition))

    def run(self) -> HoodieWriteResult:
        """Run the merge, in one commit; it is an upsert.

        The stored rows are read as they are when the write begins: those of the source's keys, found by the table's
        index, and held in memory. In a table whose keys are generated they are found by a scan for the columns of
        ``on``, and a row of the source changes all stored rows that it matches. If another writer commits before the
        merge does, it fails with a conflict and nothing of it is committed; ``hoodie.write.lock.wait.retry=true`` runs
        it again on the newer rows.

        Returns:
            The outcome, which is committed.

        Raises:
            TableNotFoundException: There is no table.
            HoodieConfigException: There is no clause; ``on`` does not compare the fields of the key; or a clause
                assigns to a column that the table does not have, or lacks one.
            HoodieSchemaException: An expression cannot be computed, or a value does not fit its column.
            HoodieKeyException: Several rows of the source apply to one key, a clause would change the key of a row, a
                key to insert is null, or a key is stored more than once.
            HoodieWriteConflictException: Another writer committed meanwhile; merging again is safe.
            HoodieNotSupportedException: The table has no columns yet.
            HoodieException: See `HoodieLocalWriteClient.upsert`.
        """
        if not self._clauses:
            raise HoodieConfigException(
                "a merge without clauses does nothing: add when_matched() or when_not_matched()"
            )
        with one_after_another(self._config):
            snapshot = find_table(self._config) or look_at_table(self._config)
            config, rows = self._planned(snapshot)
            with HoodieLocalWriteClient(config) as client:
                client.go_on_from(snapshot)
                if isinstance(rows, ScannedMergeRows):
                    return client.upsert_prepped_records(MadeOfTable(rows))
                return client.upsert(MadeOfTable(rows))

    def _planned(self, snapshot: TableSnapshot) -> tuple[HoodieWriteConfig, MergeRows]:
        """The configuration of the write, whose index is the one that the key needs, and the merge."""
        table, config = snapshot.table_config, self._config
        table.check_version(to_write=True)
        config.check_against_table(table)
        config = config_of_table(config, TableLayout(snapshot))
        if config.payload.partial_update:
            raise HoodieConfigException(
                "hoodie.write.partial.update = true, and a merge writes whole rows, with the stored values of columns "
                "that it does not assign: leave it out"
            )
        avro = snapshot.load_avro_schema()
        if avro is None:
            raise HoodieNotSupportedException(
                f"the table at {config.base_path} has no columns that a merge could assign: upsert the first rows"
            )
        source = _stored_rows(self._source, to_arrow(avro))
        if table.is_keyless:
            return config, self._scanning(source, snapshot)
        partition_fields = tuple(field.partition(":")[0] for field in table.partition_fields)
        is_global = create_index(config).is_global
        pairs = check_pairs(
            self._pairs(source, table.record_key_fields, () if is_global else partition_fields),
            table.record_key_fields,
            partition_fields,
            is_global,
        )
        not_compared = partition_fields if len(pairs) == len(table.record_key_fields) else ()
        if not_compared:
            config = config_by_record_key(config, snapshot)
        rows = MergeRows(
            source, self._clauses, pairs, len(table.record_key_fields), not_compared, has_plain_paths(snapshot)
        )
        rows.check(snapshot.load_schema())
        return config, rows

    def _scanning(self, source: pa.Table, snapshot: TableSnapshot) -> ScannedMergeRows:
        """The merge of a table whose keys are generated: it compares any columns."""
        if self._on is None:
            raise HoodieConfigException(
                f"{snapshot.base_path} has no record key fields, its keys are generated, so a merge must tell which "
                "columns to compare: give on='t.id = s.id', or a list of names"
            )
        schema = snapshot.load_schema()
        pairs = pairs_of_columns(parse_condition(self._on, TARGET, SOURCE), schema, snapshot.base_path)
        rows = ScannedMergeRows(source, self._clauses, pairs, len(pairs), (), False)
        rows.check(schema)
        return rows

    def _pairs(
        self, source: pa.Table, record_key_fields: Sequence[str], partition_fields: Sequence[str]
    ) -> tuple[KeyPair, ...]:
        if self._on is None:
            find = field_finder(source.schema)
            has_partitions = all(find(field.partition(".")[0]) is not None for field in partition_fields)
            on: str | Sequence[str] = [*record_key_fields, *(partition_fields if has_partitions else ())]
        else:
            on = self._on
        return parse_condition(on, TARGET, SOURCE)

    def _with(self, kind: ClauseKind, condition: pc.Expression | None, values: Any = None) -> TableMerge:
        return attrs.evolve(self, clauses=(*self._clauses, MergeClause(kind, condition, values)))


@attrs.frozen(eq=False, repr=False)
class WhenMatched:
    """A clause of a merge for rows of the source whose key is stored.

    deltalake: deltalake.table.TableMerger.when_matched_update and others.
    """

    _merge: TableMerge
    _condition: pc.Expression | None

    def update(self, values: Values) -> TableMerge:
        """Set some columns; the others keep their stored values.

            .update(["fare", "tip"])
            .update({"fare": hoodie.col("s.fare") + hoodie.col("t.tip"), "state": "paid"})

        Args:
            values: Names of columns, or one name, which take the value of the source's column of that name; or column
                -> value. The fields of the key keep their values.

        Raises:
            HoodieConfigException: It is neither.
        """
        return self._merge._with(ClauseKind.UPDATE, self._condition, _assigned(values, "update"))

    def update_all(self) -> TableMerge:
        """Set each column of the table to the source's column of that name; other columns of the source are ignored."""
        return self._merge._with(ClauseKind.UPDATE, self._condition)

    def delete(self) -> TableMerge:
        """Delete the stored rows."""
        return self._merge._with(ClauseKind.DELETE, self._condition)


@attrs.frozen(eq=False, repr=False)
class WhenNotMatched:
    """A clause of a merge for rows of the source whose key is not stored.

    deltalake: deltalake.table.TableMerger.when_not_matched_insert and others.
    """

    _merge: TableMerge
    _condition: pc.Expression | None

    def insert(self, values: Values) -> TableMerge:
        """Insert rows with these values, and the key they were looked up by; other columns are null.

        Args:
            values: As for `WhenMatched.update`, over the source.

        Raises:
            HoodieConfigException: See `WhenMatched.update`.
        """
        return self._merge._with(ClauseKind.INSERT, self._condition, _assigned(values, "insert"))

    def insert_all(self) -> TableMerge:
        """Insert the rows, with each column of the table taken from the source's column of that name."""
        return self._merge._with(ClauseKind.INSERT, self._condition)


def _parsed(condition: Condition) -> pc.Expression | None:
    if condition is None or isinstance(condition, pc.Expression):
        return condition
    if not isinstance(condition, str):
        raise HoodieConfigException(
            f"the condition is {shown_value(condition)}: give text such as 's.fare > t.fare', or an expression of "
            "pyarrow"
        )
    return parse_filter(condition, compares_columns=True)


def _assigned(values: object, method: str) -> dict[str, Any]:
    if isinstance(values, Mapping) and values and all(isinstance(name, str) for name in values):
        return dict(values)
    names = [values] if isinstance(values, str) else values
    if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
        return dict.fromkeys(names, OfSource.SAME_NAME)
    raise HoodieConfigException(
        f"{method} takes names of columns, such as ['fare'], or a dict of columns and values, such as {{'fare': 9.5}}, "
        f"not {shown_value(values)}; {method}_all takes all columns"
    )


def _stored_rows(source: Any, table_schema: pa.Schema) -> pa.Table:
    """The rows of a source, in the types in which they would be stored."""
    data = LocalEngineContext().to_data(source, table_schema)
    if reserved := set(RESERVED_COLUMNS) & set(data.schema.names):
        raise HoodieSchemaException(
            f"the source has hoodie's own columns {', '.join(sorted(reserved))}: give rows with columns of the table"
        )
    schema = normalise_schema(data.schema, table_schema)
    rows = data.collect()
    batches = [] if rows is None else rows.combine_chunks().to_batches()
    relaxed = pa.schema([field.with_nullable(True) for field in schema])
    return pa.Table.from_batches([normalise_batch(batch, relaxed) for batch in batches], relaxed)
