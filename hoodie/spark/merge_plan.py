"""The rows that a merge writes: the source joined with the target, and the values that the clauses give.

Hudi: org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand and its ExpressionPayload. Differs: the clauses are
evaluated by Spark before the write, which is a plain upsert then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import reduce
from operator import and_, or_
from typing import Any

import attrs
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from hoodie.client.merge_condition import KeyPair
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    META_COLUMN_SET,
    OPERATION,
    PARTITION_PATH_META,
    RECORD_KEY_META,
    TAGS,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieSchemaException
from hoodie.spark.spark_types import quoted

_ACTION = "__hoodie_merge_clause"
_KEY = "__hoodie_merge_key_"
_PLACE = "__hoodie_merge_place"
_PARTITION = "__hoodie_merge_partition"
_STAYS = "__hoodie_merge_stays_"
_VALUE = "__hoodie_merge_value_"
_MISFIT = "__hoodie_merge_misfit"
_STORED = "__hoodie_merge_stored"
_SHOWN_KEYS = 3
_INTEGERS = (st.ByteType, st.ShortType, st.IntegerType, st.LongType)
_FLOATS = (st.FloatType, st.DoubleType)
_WIDTHS = {kind: width for width, kind in enumerate(_INTEGERS)}
_AS_TEXT = (*_INTEGERS, *_FLOATS, st.DecimalType, st.BooleanType, st.DateType)

Expressions = Mapping[str, Any]
"""Column of the target -> SQL text, `Column`, or a Python value."""


class ClauseKind(Enum):
    """The kind of a clause."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


@attrs.frozen(eq=False)
class Clause:
    """One WHEN ... THEN ... of a merge.

    Attributes:
        kind: The kind. Inserts are for rows of the source that match no row of the target; the other kinds are for rows
            that match one.
        condition: SQL text or a `Column`; None for all such rows.
        assignments: The values of an update or insert; None for all columns of the source.
    """

    kind: ClauseKind
    condition: Any = None
    assignments: Expressions | None = None

    def name(self, number: int) -> str:
        """The clause in a message."""
        matched = "whenNotMatched" if self.kind is ClauseKind.INSERT else "whenMatched"
        return f"clause {number + 1} ({matched}, {self.kind.value})"


@attrs.frozen(eq=False)
class MergeRules:
    """A merge of any source into any rows of a target.

    Attributes:
        clauses: The clauses; the first of those that apply to a row counts.
        pairs: The fields of the target's key, and the columns of the source that they are compared with.
        target_alias: The name of the target in expressions.
        source_alias: The name of the source.
        record_key_count: The number of record key fields among the pairs, which come first; the others are partition
            fields.
        partition_fields: The target's partition fields, if the pairs are only its record key: then a row is found in
            any partition.
        moves_rows: Whether updates may give such a row other values of its partition fields.
        is_scanned: Whether the pairs are any columns, because the keys of the table are generated. A row of the source
            may match several stored rows then, which keep their keys and places; null equals nothing.
    """

    clauses: tuple[Clause, ...]
    pairs: tuple[KeyPair, ...]
    target_alias: str
    source_alias: str
    record_key_count: int
    partition_fields: tuple[str, ...] = ()
    moves_rows: bool = True
    is_scanned: bool = False

    @property
    def fixed_fields(self) -> tuple[str, ...]:
        """The partition fields that updates must not change, although the condition does not compare them."""
        return () if self.moves_rows else self.partition_fields

    @property
    def tags(self) -> tuple[str, ...]:
        """The meta columns that lead back to a stored row, if it is not found by its key."""
        return tuple(TAGS) if self.is_scanned else ()


@attrs.frozen(eq=False)
class MergedRows:
    """The rows to write.

    Attributes:
        frame: The target's columns, then helpers; one row for each row of the source that a clause applies to.
        columns: The target's columns.
        rules: The rules that they were made by.
        assigned: For each assignment whose type may not hold a number: the problem of such a number.
    """

    frame: DataFrame
    columns: tuple[str, ...]
    rules: MergeRules
    assigned: tuple[str, ...]

    @property
    def to_upsert(self) -> DataFrame:
        """The rows as the input of an upsert, which deletes rows by the operation column."""
        deletes = [number for number, clause in enumerate(self.rules.clauses) if clause.kind is ClauseKind.DELETE]
        operation = sf.lit(int(RecordOperation.UPSERT))
        if deletes:
            is_delete = sf.col(_ACTION).isin(deletes)
            operation = sf.when(is_delete, int(RecordOperation.DELETE)).otherwise(operation)
        acting = self.frame.where(sf.col(_ACTION).isNotNull())
        names = (*self.columns, *self.rules.tags)
        return acting.select(*map(quoted, names), operation.cast("tinyint").alias(OPERATION))

    def check_scanned(self) -> None:
        """Refuse rows that make no valid merge into a table whose keys are generated; one job, and more for a message.

        Raises:
            HoodieKeyException: Several rows of the source apply to one stored row, or a row would leave its partition.
            HoodieSchemaException: A number does not fit its column.
        """
        fixed = [~_path(field).eqNullSafe(sf.col(f"{_STAYS}{n}")) for n, field in enumerate(self.rules.fixed_fields)]
        is_moved = reduce(or_, fixed, sf.lit(False)) & sf.col(_PLACE).isNotNull()
        keys = self._keys
        # New rows have no place: each is a group of its own.
        place = sf.coalesce(sf.col(_PLACE), sf.monotonically_increasing_id().cast("string"))
        by_place = self.frame.groupBy(place.alias(_PLACE)).agg(
            sf.count(_ACTION).alias("rows"),
            sf.sum(is_moved.cast("bigint")).alias("moved"),
            sf.count(_MISFIT).alias("misfits"),
            sf.min(_MISFIT).alias("misfit"),
            *(sf.first(key).alias(f"{_KEY}{number}") for number, key in enumerate(keys)),
        )
        found = by_place.agg(
            sf.sum((sf.col("rows") > 1).cast("bigint")), sf.sum("moved"), sf.sum("misfits"), sf.min("misfit")
        ).collect()[0]
        repeated, moving, misfits, misfit = (int(value or 0) for value in found)
        if repeated:
            raise HoodieKeyException(
                f"several rows of the source apply to each of {repeated} stored rows, such as "
                f"{self._shown(by_place.where('rows > 1'), keys)}; nothing was written. Keep one row of the source for "
                "each of them, for example the newest: source.dropDuplicates, or row_number() over a window"
            )
        if moving:
            raise HoodieKeyException(
                f"{moving} rows would get another {PARTITION_PATH_META}, such as "
                f"{self._shown(by_place.where('moved > 0'), keys)}; nothing was written. Let an update keep "
                f"{', '.join(self.rules.fixed_fields)}, or delete the rows and insert them anew"
            )
        if misfits:
            raise self._misfitting(misfit, misfits, by_place, keys)

    def _misfitting(self, misfit: int, count: int, rows: DataFrame, keys: Sequence[Column]) -> HoodieSchemaException:
        return HoodieSchemaException(
            f"{self.assigned[misfit]}, in {count} rows, such as "
            f"{self._shown(rows.where('misfits > 0'), keys)}; nothing was written. Cast it in the expression"
        )

    def check(self) -> MergeCounts:
        """Count the rows, and refuse those that make no valid merge; one job, and more for a message.

        Raises:
            HoodieKeyException: Several rows have one key, or a clause would change the key of a row.
            HoodieSchemaException: A number does not fit its column.
        """
        keys, is_insert = self._keys, self._is_insert
        changed = reduce(
            or_, (~_path(pair.target).eqNullSafe(key) for pair, key in zip(self.rules.pairs, keys, strict=True))
        )
        fixed = enumerate(self.rules.fixed_fields)
        moved = reduce(or_, (~_path(field).eqNullSafe(sf.col(f"{_STAYS}{n}")) for n, field in fixed), sf.lit(False))
        has_key = reduce(or_, (key.isNotNull() for key in keys[: self.rules.record_key_count]))
        acts = sf.col(_ACTION).isNotNull()
        is_changed = sf.count(_ACTION) > 0
        by_key = self.frame.groupBy(*keys).agg(
            sf.count(_ACTION).alias("rows"),
            (has_key & (sf.count(_ACTION) > 1)).alias("is_repeated"),
            (is_changed & (sf.min(_PLACE) != sf.max(_PLACE))).alias("is_stored_twice"),
            (is_changed & (sf.min(_PARTITION) != sf.max(_PARTITION))).alias("is_spread"),
            sf.sum((acts & is_insert).cast("bigint")).alias("inserts"),
            sf.sum((acts & changed).cast("bigint")).alias("changed"),
            sf.sum((acts & ~is_insert & moved).cast("bigint")).alias("moved"),
            sf.count(_MISFIT).alias("misfits"),
            sf.min(_MISFIT).alias("misfit"),
        )
        totals = by_key.agg(
            sf.sum("rows"), sf.sum("inserts"), sf.sum("changed"), sf.sum("moved"), sf.sum("misfits"), sf.min("misfit"),
            sf.sum(sf.col("is_repeated").cast("bigint")), sf.sum(sf.col("is_stored_twice").cast("bigint")),
            sf.sum(sf.col("is_spread").cast("bigint")),
        ).collect()[0]  # fmt: skip
        rows, inserted, renamed, moving, misfits, misfit, repeated, stored_twice, spread = (
            int(value or 0) for value in totals
        )
        if spread:
            raise HoodieKeyException(
                f"{spread} keys that the merge changes are stored in several partitions, such as "
                f"{self._shown_places(by_key.where('is_spread'), keys)}, and the condition compares the record key "
                "alone; nothing was written. Compare the partition fields too "
                f"({', '.join(self.rules.partition_fields)}), or delete the rows that are too many first: "
                "client.delete([HoodieKey(record_key, partition_path)])"
            )
        if stored_twice:
            shown = self._shown(by_key.where("is_stored_twice"), keys)
            raise HoodieKeyException(
                f"{stored_twice} keys that the merge changes are stored more than once, such as {shown}, so it is not "
                "known which row is meant; nothing was written. hoodie.table.repair.drop_duplicates removes the others"
            )
        if repeated:
            raise HoodieKeyException(
                f"several rows of the source apply to each of {repeated} keys of the target, such as "
                f"{self._shown(by_key.where('is_repeated'), keys)}; nothing was written. Keep one row for each key, "
                "for example the newest: source.dropDuplicates, or row_number() over a window"
            )
        if renamed:
            raise HoodieKeyException(
                f"{renamed} rows would get another key than they were found by, such as "
                f"{self._shown(by_key.where('changed > 0'), keys)}; nothing was written. The fields "
                f"{', '.join(pair.target for pair in self.rules.pairs)} keep their values in an update, and have those "
                "of the condition in an insert. To give a row another key, delete it and insert it anew"
            )
        if moving:
            fields = ", ".join(self.rules.fixed_fields)
            raise HoodieKeyException(
                f"{moving} rows would move to another partition, such as "
                f"{self._shown(by_key.where('moved > 0'), keys)}, and the table's index (hoodie.index.type=BUCKET) "
                f"moves no rows; nothing was written. Let an update keep {fields} (update with a dict that leaves it "
                "out), or delete the row and insert it anew"
            )
        if misfits:
            raise self._misfitting(misfit, misfits, by_key, keys)
        return MergeCounts(inserts=inserted, others=rows - inserted)

    def inserts_among(self, stored: DataFrame) -> int:
        """Count rows that have the key of a row to insert; one job.

        Args:
            stored: Rows of the target, with its columns.
        """
        fields = [_path(pair.target).alias(f"{_STORED}{number}") for number, pair in enumerate(self.rules.pairs)]
        is_same = reduce(and_, (key.eqNullSafe(sf.col(f"{_STORED}{n}")) for n, key in enumerate(self._keys)))
        inserted = self.frame.where(self._is_insert).select(*self._keys)
        return int(stored.select(*fields).join(inserted, is_same, "left_semi").count())

    @property
    def _keys(self) -> list[Column]:
        return [sf.col(f"{_KEY}{number}") for number in range(len(self.rules.pairs))]

    @property
    def _is_insert(self) -> Column:
        inserts = [number for number, clause in enumerate(self.rules.clauses) if clause.kind is ClauseKind.INSERT]
        return sf.col(_ACTION).isin(inserts) if inserts else sf.lit(False)

    def _shown(self, by_key: DataFrame, keys: Sequence[Column]) -> str:
        """Some of the keys, as text."""
        return "; ".join(map(self._shown_key, by_key.select(*keys).limit(_SHOWN_KEYS).collect()))

    def _shown_places(self, by_key: DataFrame, keys: Sequence[Column]) -> str:
        """Some of the keys, each with some of the partitions that store it, as text."""
        names = [f"{_KEY}{number}" for number in range(len(keys))]
        some = by_key.select(*keys).limit(_SHOWN_KEYS)
        places = self.frame.select(*keys, _PARTITION).join(sf.broadcast(some), names, "left_semi")
        found = places.groupBy(*names).agg(sf.sort_array(sf.collect_set(_PARTITION))).collect()
        return "; ".join(f"{self._shown_key(row[:-1])} in {' and '.join(row[-1][:_SHOWN_KEYS])}" for row in found)

    def _shown_key(self, values: Sequence[Any]) -> str:
        names = [pair.target for pair in self.rules.pairs]
        return ", ".join(f"{name} = {short_repr(value)}" for name, value in zip(names, values, strict=True))


@attrs.frozen
class MergeCounts:
    """The number of changes of a merge, counted before it is written.

    Attributes:
        inserts: Rows to insert.
        others: Rows to update or delete.
    """

    inserts: int = 0
    others: int = 0


def merged_rows(target: DataFrame, source: DataFrame, rules: MergeRules) -> MergedRows:
    """The rows that a merge writes; no job runs.

    Args:
        target: The rows of the table, with their meta columns.
        source: The rows of the source.
        rules: The merge.

    Raises:
        HoodieConfigException: A clause assigns to a column that the target does not have, or lacks a column.
        HoodieSchemaException: An expression cannot be resolved, or its type does not fit the target's column.
    """
    try:
        merged = _Planner(target, source, rules).rows()
        # Spark Connect resolves a frame when its schema is asked for.
        merged.frame.schema  # noqa: B018
    except PySparkException as error:
        raise HoodieSchemaException(f"the clauses of the merge cannot be resolved: {_first_line(error)}") from error
    return merged


class _Planner:
    """Resolves the clauses against the columns of both sides."""

    def __init__(self, target: DataFrame, source: DataFrame, rules: MergeRules) -> None:
        self._rules = rules
        self._assigned: list[str] = []
        self._checked: dict[int, list[tuple[Column, Column]]] = {}
        """Clause -> its numbers to check: the value as a column, and the number of its entry in `_assigned` if it does
        not fit."""
        self._fields = [field for field in target.schema.fields if field.name not in META_COLUMN_SET]
        keys = [self._key(source, target, pair).alias(f"{_KEY}{n}") for n, pair in enumerate(rules.pairs)]
        self._source_columns = [name for name in source.columns if name not in META_COLUMN_SET]
        self._source = source.select("*", *keys).alias(rules.source_alias)
        self._target = target.alias(rules.target_alias)
        self._matched = self._source.join(self._target, self._is_same_key(), "inner")

    def rows(self) -> MergedRows:
        rules = self._rules
        if not rules.clauses:
            raise HoodieConfigException("a merge without clauses does nothing: add whenMatched or whenNotMatched")
        values = [self._values(number, clause) for number, clause in enumerate(rules.clauses)]
        inserts = [number for number, clause in enumerate(rules.clauses) if clause.kind is ClauseKind.INSERT]
        others = [number for number in range(len(rules.clauses)) if number not in inserts]
        parts = []
        if others:
            stored = {field.name: self._target_column(field.name) for field in self._fields}
            place = RECORD_KEY_META if rules.is_scanned else COMMIT_SEQNO_META
            places = [self._target_column(place), self._target_column(PARTITION_PATH_META)]
            tags = [self._target_column(name) for name in rules.tags]
            stays = [self._target_column(field) for field in rules.fixed_fields]
            # All copies of a key count, also those that no clause applies to: the write would find them.
            keeps_all = bool(rules.partition_fields) and not rules.is_scanned
            parts.append(self._part(self._matched, others, values, stored, [*places, *stays], tags, keeps_all))
        if inserts:
            nothing = {field.name: sf.lit(None).cast(field.dataType) for field in self._fields}
            nowhere = [sf.lit(None).cast("string")] * 2
            paths = [_path(field) for field in rules.fixed_fields]
            unknown = [sf.lit(None).cast(f.dataType) for f in self._target.select(*paths).schema] if paths else []
            untagged = [sf.lit(None).cast("string") for _ in rules.tags]
            parts.append(self._part(self._unmatched(), inserts, values, nothing, [*nowhere, *unknown], untagged))
        columns = tuple(field.name for field in self._fields)
        return MergedRows(reduce(DataFrame.union, parts), columns, rules, tuple(self._assigned))

    def _is_same_key(self) -> Column:
        stored = [self._target_column(pair.target) for pair in self._rules.pairs]
        return self._all_equal(stored, [sf.col(f"{_KEY}{n}") for n in range(len(stored))])

    def _all_equal(self, stored: Sequence[Column], given: Sequence[Column]) -> Column:
        """Whether the keys of both sides are equal.

        Null equals null, as it does in record keys of several fields and in partition paths. A record key of one field
        is never null, so that plain equality does. Columns that are no key are compared as SQL compares them.
        """
        if self._rules.is_scanned:
            return reduce(and_, (a == b for a, b in zip(stored, given, strict=True)))
        count = self._rules.record_key_count
        same = zip(stored, given, strict=True)
        return reduce(and_, (a == b if n == 0 and count == 1 else a.eqNullSafe(b) for n, (a, b) in enumerate(same)))

    def _unmatched(self) -> DataFrame:
        """The rows of the source without a match.

        This is no outer join: Spark would move all columns of the target for it, even if the source is small.
        """
        names = [f"{_KEY}{n}" for n in range(len(self._rules.pairs))]
        keys = self._source.select(*names)
        found = self._target.join(keys, self._is_same_key(), "left_semi")
        stored = found.select(
            *(self._target_column(p.target).alias(n) for p, n in zip(self._rules.pairs, names, strict=True))
        )
        given = [sf.col(f"{quoted(self._rules.source_alias)}.{name}") for name in names]
        is_same = self._all_equal([sf.col(f"{_STORED}.{name}") for name in names], given)
        return self._source.join(stored.alias(_STORED), is_same, "left_anti")

    def _part(
        self,
        frame: DataFrame,
        numbers: Sequence[int],
        values: Sequence[Mapping[str, Column]],
        otherwise: Mapping[str, Column],
        place: Sequence[Column],
        tags: Sequence[Column],
        keeps_all: bool = False,
    ) -> DataFrame:
        """The rows to which the given clauses apply, with their final columns and helpers.

        Args:
            frame: The rows that match the kind of these clauses.
            numbers: The numbers of the clauses, in their order.
            values: The values that each clause of the merge assigns.
            otherwise: The columns to which the clause assigns no value.
            place: Columns that identify stored rows, then those of their partition, then the values that updates must
                keep.
            tags: The columns that lead back to a stored row, as `MergeRules.tags` names them.
            keeps_all: Whether the other rows are kept, too, without values.
        """
        chosen: Column | None = None
        for number in numbers:
            clause = self._rules.clauses[number]
            applies = sf.lit(True) if clause.condition is None else self._condition(number, clause)
            chosen = sf.when(applies, number) if chosen is None else chosen.when(applies, number)
        assert chosen is not None
        checked = [pair for number in numbers for pair in self._checked.get(number, ())]
        acting = frame.withColumn(_ACTION, chosen)
        acts = sf.col(_ACTION).isNotNull()
        acting = acting if keeps_all else acting.where(acts)
        acting = acting.select("*", *(value for value, _ in checked))
        columns = []
        for field in self._fields:
            final: Column | None = None
            for number in numbers:
                if field.name in values[number]:
                    is_this, value = sf.col(_ACTION) == number, values[number][field.name]
                    final = sf.when(is_this, value) if final is None else final.when(is_this, value)
            rest = otherwise[field.name]
            value = rest if final is None else final.otherwise(rest)
            columns.append((sf.when(acts, value) if keeps_all else value).alias(field.name))
        keys = [sf.col(f"{_KEY}{n}") for n in range(len(self._rules.pairs))]
        misfit = sf.coalesce(*(found for _, found in checked), sf.lit(None).cast("int"))
        names = [_PLACE, _PARTITION, *(f"{_STAYS}{n}" for n in range(len(place) - 2))]
        helpers = [value.alias(name) for value, name in zip(place, names, strict=True)]
        helpers += [value.alias(name) for value, name in zip(tags, self._rules.tags, strict=True)]
        return acting.select(*columns, *keys, *helpers, misfit.alias(_MISFIT), sf.col(_ACTION))

    def _key(self, source: DataFrame, target: DataFrame, pair: KeyPair) -> Column:
        """A column of the source as a field of the target's key, in its type."""
        column = sf.col(".".join(map(quoted, pair.source)))
        given = self._resolved(source, {pair.target: column}, "the condition")[pair.target]
        path = ".".join(map(quoted, pair.target.split(".")))
        wanted = self._resolved(target, {pair.target: sf.col(path)}, "the condition")[pair.target]
        if given.simpleString() == wanted.simpleString():
            return column
        widens = type(given) in _WIDTHS and _WIDTHS[type(given)] < _WIDTHS.get(type(wanted), -1)
        if not widens:
            raise HoodieSchemaException(
                f"the condition compares {pair.target} of type {wanted.simpleString()} with "
                f"{'.'.join(pair.source)} of the source, of type {given.simpleString()}: cast it in the source, so "
                "that both give the same keys"
            )
        return column.cast(wanted)

    def _values(self, number: int, clause: Clause) -> dict[str, Column]:
        """The values that a clause assigns, in the types of the target's columns."""
        if clause.kind is ClauseKind.DELETE:
            return {}
        where = clause.name(number)
        keys = {pair.target: n for n, pair in enumerate(self._rules.pairs)}
        if clause.assignments is None:
            given = self._all_columns(where, clause.kind, keys)
        else:
            given = {}
            for name, value in clause.assignments.items():
                column = self._field_named(name, where).name
                if column in given:
                    raise HoodieConfigException(f"{where} assigns to {column} more than once: assign it once")
                given[column] = _expression(value)
        frame = self._source if clause.kind is ClauseKind.INSERT else self._matched
        types = self._resolved(frame, given, where)
        values = {}
        for field in self._fields:
            if field.name in given:
                values[field.name] = self._stored(number, given[field.name], types[field.name], field, where)
            elif clause.kind is ClauseKind.INSERT:
                self._refuse_missing_key(field, keys, where)
                values[field.name] = sf.lit(None).cast(field.dataType)
        return values

    def _stored(self, number: int, value: Column, given: st.DataType, field: st.StructField, where: str) -> Column:
        """A value in the type of the target's column; numbers that would become others are found by `MergedRows`."""
        wanted = field.dataType
        if _fits(given, wanted):
            return value if given.simpleString() == wanted.simpleString() else value.cast(wanted)
        if not isinstance(given, st.NumericType) or not isinstance(wanted, st.NumericType):
            raise HoodieSchemaException(
                f"{where} assigns a value of type {given.simpleString()} to {field.name}, which has the type "
                f"{wanted.simpleString()}: cast it in the expression"
            )
        index = len(self._assigned)
        name = f"{_VALUE}{index}"
        cast = f"try_cast({name} AS {wanted.simpleString()})"
        differs = f"NOT try_cast({cast} AS {given.simpleString()}) <=> {name}"
        if isinstance(wanted, _FLOATS) and isinstance(given, _FLOATS):
            differs = f"abs({cast}) = double('Infinity') AND abs({name}) <> double('Infinity')"
        # Only for the rows of the clause: for others the expression may fail.
        of_clause = sf.when(sf.col(_ACTION) == number, value).alias(name)
        self._checked.setdefault(number, []).append((of_clause, sf.when(sf.expr(differs), sf.lit(index))))
        self._assigned.append(
            f"{where} assigns a value of type {given.simpleString()} to {field.name}, which as "
            f"{wanted.simpleString()} is another number"
        )
        return sf.expr(cast)

    def _all_columns(self, where: str, kind: ClauseKind, keys: Mapping[str, int]) -> dict[str, Column]:
        """Each of the target's columns from the source's column of that name; those of the key from the condition."""
        found: dict[str, Column] = {}
        missing = []
        # If Spark is case sensitive, the same spelling takes precedence.
        by_name = {name.lower(): name for name in self._source_columns} | {name: name for name in self._source_columns}
        for field in self._fields:
            name = by_name.get(field.name, by_name.get(field.name.lower()))
            if field.name in keys:
                if kind is ClauseKind.INSERT:
                    found[field.name] = sf.col(f"{_KEY}{keys[field.name]}")
            elif name is None:
                missing.append(field.name)
            else:
                found[field.name] = sf.col(f"{quoted(self._rules.source_alias)}.{quoted(name)}")
        if missing:
            raise HoodieConfigException(
                f"{where} takes all columns from the source, which lacks {', '.join(missing)}; its columns are: "
                f"{', '.join(self._source_columns)}. Give a dict of column and expression instead"
            )
        return found

    def _refuse_missing_key(self, field: st.StructField, keys: Mapping[str, int], where: str) -> None:
        partition_fields = () if self._rules.is_scanned else self._rules.partition_fields
        lacking = [name for name in (*keys, *partition_fields) if name.partition(".")[0] == field.name]
        if lacking:
            part = "part of the key" if lacking[0] in keys else "a partition field"
            raise HoodieConfigException(f"{where} does not assign {field.name}, which is {part}")

    def _field_named(self, name: str, where: str) -> st.StructField:
        """The target's column that a user names, with or without the target's alias."""
        if not isinstance(name, str):
            raise HoodieConfigException(f"{where} assigns to {name!r}: give the names of columns of the target")
        plain = name.strip()
        prefix = f"{self._rules.target_alias}."
        if plain.lower().startswith(prefix.lower()):
            plain = plain[len(prefix) :]
        plain = plain.strip("`")
        for field in self._fields:
            if field.name.lower() == plain.lower():
                return field
        names = [field.name for field in self._fields]
        raise HoodieConfigException(
            f"{where} assigns to {name!r}, which is not a column of the target{spelled_otherwise(names, [plain])}; its "
            f"columns are: {', '.join(names)}"
        )

    def _condition(self, number: int, clause: Clause) -> Column:
        condition = _expression(clause.condition)
        frame = self._source if clause.kind is ClauseKind.INSERT else self._matched
        found = self._resolved(frame, {"condition": condition}, clause.name(number))["condition"]
        if not isinstance(found, st.BooleanType):
            raise HoodieSchemaException(
                f"the condition of {clause.name(number)} has the type {found.simpleString()}: give one that is true "
                "or false"
            )
        return condition

    def _target_column(self, path: str) -> Column:
        return sf.col(f"{quoted(self._rules.target_alias)}.{'.'.join(map(quoted, path.split('.')))}")

    def _resolved(self, frame: DataFrame, expressions: Mapping[str, Column], where: str) -> dict[str, st.DataType]:
        """The types of expressions over a frame."""
        if not expressions:
            return {}
        try:
            fields = frame.select(*expressions.values()).schema.fields
        except PySparkException as error:
            raise HoodieSchemaException(f"{where} of the merge cannot be resolved: {_first_line(error)}") from error
        return {name: field.dataType for name, field in zip(expressions, fields, strict=True)}


def _expression(value: Any) -> Column:
    """SQL text, a `Column` of any kind of session, or a Python value as an expression."""
    if isinstance(value, str):
        return sf.expr(value)
    if hasattr(value, "eqNullSafe"):
        column: Column = value
        return column
    return sf.lit(value)


def _first_line(error: PySparkException) -> str:
    return str(error).strip().partition("\n")[0]


def _path(field: str) -> Column:
    return sf.col(".".join(map(quoted, field.split("."))))


def _fits(given: st.DataType, wanted: st.DataType) -> bool:
    """Whether each value of a type can be cast to another one."""
    if isinstance(given, st.NullType) or given.simpleString() == wanted.simpleString():
        return True
    if isinstance(wanted, st.StringType):
        return isinstance(given, (*_AS_TEXT, st.CharType, st.VarcharType))
    if isinstance(given, st.DateType):
        return isinstance(wanted, st.TimestampType | st.TimestampNTZType)
    return isinstance(given, st.DecimalType) and isinstance(wanted, _FLOATS)
