"""The rows that a merge writes: the source matched with the stored rows by key, and the values that the clauses give.

Hudi: org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand and its ExpressionPayload. Differs: the clauses are
evaluated before the write, which is a plain upsert then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.client.key_input import KeyInput
from hoodie.client.merge_condition import KeyPair
from hoodie.common.data.stored_types import field_finder, spelled_otherwise
from hoodie.common.model.field_path import top_level_name, type_at
from hoodie.common.model.record_columns import (
    CURRENT_INSTANT_TIME,
    META_COLUMN_SET,
    META_COLUMNS,
    OPERATION,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.shown_value import short_repr, shown_value
from hoodie.engine.data import HoodieData
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieSchemaException
from hoodie.index.bloom.bloom_index import HoodieBloomIndex
from hoodie.index.bloom.global_bloom_index import HoodieGlobalBloomIndex
from hoodie.interface.row_update import fitting
from hoodie.table.key_lookup import KeyLookup
from hoodie.table.table import HoodieTable

SOURCE, TARGET = "s", "t"
"""The names of the source and of the table in conditions and values."""
_NUMBER = "number"
_PLACE = "place"
_PLACE_PATH = "path"
_SHOWN_KEYS = 3
_SIDE_IN_TEXT = re.compile(rf"([{SOURCE}{TARGET}])\.(\w+)(\.\w+)*")
_WIDTHS = {pa.int32(): 0, pa.int64(): 1}


class ClauseKind(Enum):
    """The kind of a clause: inserts are for rows of the source that match no stored row, the others for matches."""

    UPDATE = "update"
    DELETE = "delete"
    INSERT = "insert"


class OfSource(Enum):
    """The value of the source's column of the same name."""

    SAME_NAME = "the source's column of this name"


@attrs.frozen(eq=False)
class MergeClause:
    """One clause of a merge.

    Attributes:
        kind: The kind.
        condition: An expression over ``s`` and ``t``; None for all rows of the kind.
        values: Column -> a value, an expression, or `OfSource`; None for all columns of the source.
    """

    kind: ClauseKind
    condition: pc.Expression | None = None
    values: Mapping[str, Any] | None = None

    def name(self, number: int) -> str:
        """The clause in a message."""
        method = "when_not_matched" if self.kind is ClauseKind.INSERT else "when_matched"
        return f"clause {number + 1} ({method}, {self.kind.value})"

    @property
    def reads_target(self) -> bool:
        """Whether expressions of the clause may name stored columns."""
        given = [self.condition, *(self.values or {}).values()]
        expressions = [str(value) for value in given if isinstance(value, pc.Expression)]
        return any(f"Name({TARGET})" in text for text in expressions)


@attrs.frozen(eq=False)
class MergeRows:
    """A merge of a source into the rows of a table, as they are when the write begins.

    Attributes:
        source: The rows to merge, in stored types.
        clauses: The clauses; the first of those that apply to a row counts.
        pairs: The fields of the key, and the columns of the source that they are compared with.
        record_key_count: The number of record key fields among the pairs, which come first.
        partition_fields: The partition fields, if the pairs are the record key alone: then a row is found in any
            partition.
        has_plain_paths: Whether partition paths are the values of the partition fields as they are.
    """

    source: pa.Table
    clauses: tuple[MergeClause, ...]
    pairs: tuple[KeyPair, ...]
    record_key_count: int
    partition_fields: tuple[str, ...]
    has_plain_paths: bool

    def check(self, schema: pa.Schema) -> None:
        """Refuse clauses and a source that do not fit the columns of the table.

        Args:
            schema: The table's columns.

        Raises:
            HoodieConfigException: A clause assigns to a column that the table does not have, or lacks one.
            HoodieSchemaException: The source lacks a column of the key, or has it in another type.
        """
        for number in range(len(self.clauses)):
            self._values(number, schema)
        self._key_columns(schema)

    def __call__(self, table: HoodieTable) -> pa.Table:
        """The rows to upsert, with the operation of each.

        Args:
            table: The table as the write sees it.

        Raises:
            HoodieKeyException: Several rows apply to one key, a key is stored more than once, or a row would get
                another key.
            HoodieSchemaException: An expression cannot be computed, or a value does not fit its column.
            HoodieConfigException: See `check`.
        """
        schema = table.snapshot.load_schema()
        values = [self._values(number, schema) for number in range(len(self.clauses))]
        key_columns = self._key_columns(schema)
        searched = self._searched(table)
        keyed = KeyInput(searched).keyed(table.context.to_data(key_columns, None))
        keys = _collected(keyed.keys).append_column(_NUMBER, pa.array(np.arange(self.source.num_rows)))
        matches = self._matches(table, searched, keys, self._needed(table, schema, values))
        taken = list(self._clauses_of_rows(matches))
        parts = []
        for number, rows in taken:
            columns = self._columns(number, schema, values[number], key_columns, rows, matches.stored)
            parts.append(columns.append_column(reserved_field(OPERATION), self._operations(number, len(rows))))
        if not parts:
            empty = pa.schema([*(field.with_nullable(True) for field in schema), reserved_field(OPERATION)])
            return empty.empty_table()
        found = pa.concat_tables([rows.table for _, rows in taken])
        written = pa.concat_tables(parts)
        self._check_keys(table, keys, matches, found, written)
        return written

    # --- names and types ----------------------------------------------------------------------------------------

    def _values(self, number: int, schema: pa.Schema) -> dict[str, Any]:
        """The values that a clause assigns, by the names of the table; those of the source's columns as expressions."""
        clause, where = self.clauses[number], self.clauses[number].name(number)
        if clause.kind is ClauseKind.DELETE:
            return {}
        find, of_key = field_finder(schema), self._flat_keys(schema)
        given: dict[str, Any] = {}
        if clause.values is None:
            given = {name: OfSource.SAME_NAME for name in schema.names if name not in of_key}
        for name, value in (clause.values or {}).items():
            field = find(name)
            if field is None or field.name in META_COLUMN_SET:
                raise HoodieConfigException(
                    f"{where} assigns to {name!r}, which is no column of the table"
                    f"{spelled_otherwise(schema.names, [name])}; its columns are {', '.join(schema.names)}; nothing "
                    "was written"
                )
            if field.name in given:
                raise HoodieConfigException(f"{where} assigns to {field.name} twice: assign it once")
            given[field.name] = value
        found = field_finder(self.source.schema)
        lacking = [name for name, value in given.items() if value is OfSource.SAME_NAME and found(name) is None]
        if lacking:
            raise HoodieConfigException(
                f"{where} takes {', '.join(lacking)} from the source, which lacks "
                f"{'it' if len(lacking) == 1 else 'them'}; its columns are {', '.join(self.source.column_names)}. Give "
                "a dict of columns and values instead; nothing was written"
            )
        for name, value in given.items():
            self._refuse_name_as_text(where, name, value, schema)
        if clause.kind is ClauseKind.INSERT:
            fields = (*(pair.target for pair in self.pairs), *self.partition_fields)
            for field in fields:
                top = top_level_name(schema, field)
                if top not in given and top not in of_key:
                    part = "a partition field" if field in self.partition_fields else "part of the key"
                    raise HoodieConfigException(f"{where} does not assign {top}, which is {part}; nothing was written")
        return {
            name: pc.field(SOURCE, found(name).name) if value is OfSource.SAME_NAME else value  # type: ignore[union-attr]
            for name, value in given.items()
        }

    def _refuse_name_as_text(self, where: str, name: str, value: Any, schema: pa.Schema) -> None:
        """Refuse a text that is the name of a column: text is a value, and it would be stored."""
        match = _SIDE_IN_TEXT.fullmatch(value) if isinstance(value, str) else None
        if match is not None and match[2] in (self.source.column_names if match[1] == SOURCE else schema.names):
            raise HoodieConfigException(
                f"{where} gives {name} the text {value!r}, which looks like a column: give hoodie.col({value!r}) for "
                f"the column, or pyarrow.compute.scalar({value!r}) for the text; nothing was written"
            )

    def _flat_keys(self, schema: pa.Schema) -> dict[str, KeyPair]:
        """Columns that are fields of the key; their values are those of the source, as the keys are equal."""
        pairs = self.pairs if self.has_plain_paths else self.pairs[: self.record_key_count]
        return {pair.target: pair for pair in pairs if pair.target in schema.names}

    def _key_columns(self, schema: pa.Schema) -> pa.Table:
        """The columns of the source that keys are made of, with the names and types of the table."""
        find = field_finder(self.source.schema)
        columns: dict[str, pa.ChunkedArray] = {}
        for pair in self.pairs:
            if pair.target in schema.names:
                columns[pair.target] = self._key_column(pair, schema.field(pair.target).type)
                continue
            # A field of a struct: the struct of the source has it at the same place.
            top = top_level_name(schema, pair.target)
            field = find(str(top))
            if field is None or ".".join(pair.source) != pair.target or type_at(schema, pair.target) is None:
                raise HoodieConfigException(
                    f"the condition compares {pair.target}, a field of a struct, with {'.'.join(pair.source)}: give "
                    f"the source a struct {top} like the table's; nothing was written"
                )
            columns[str(top)] = self.source[field.name]
        return pa.table(columns)

    def _key_column(self, pair: KeyPair, wanted: pa.DataType) -> pa.ChunkedArray:
        field = field_finder(self.source.schema)(pair.source[0])
        if field is None:
            raise HoodieSchemaException(
                f"the source lacks the column {pair.source[0]}, which the merge compares with {pair.target} of the "
                f"table; its columns are {', '.join(self.source.column_names)}"
                f"{spelled_otherwise(self.source.column_names, [pair.source[0]])}; nothing was written"
            )
        column = self.source[field.name]
        for name in pair.source[1:]:
            if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
                raise HoodieSchemaException(f"the source lacks the column {'.'.join(pair.source)}; nothing was written")
            column = pc.struct_field(column, name)
        widens = _WIDTHS.get(column.type, 2) < _WIDTHS.get(wanted, -1)
        if column.type != wanted and not widens:
            raise HoodieSchemaException(
                f"the merge compares {pair.target} of type {wanted} with {'.'.join(pair.source)} of the source, of "
                f"type {column.type}: cast it in the source, so that both give the same keys; nothing was written"
            )
        return column.cast(wanted)

    # --- matching -----------------------------------------------------------------------------------------------

    def _needed(self, table: HoodieTable, schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> list[str]:
        """The stored columns that the clauses need."""
        of_key, wanted = self._flat_keys(schema), set[str | None]()
        partitions = {top_level_name(schema, field) for field in self.partition_fields}
        for clause, given in zip(self.clauses, values, strict=True):
            if clause.kind is not ClauseKind.INSERT and clause.reads_target:
                return list(schema.names)
            if clause.kind is ClauseKind.UPDATE:
                wanted |= set(schema.names) - set(given) - set(of_key)
            elif clause.kind is ClauseKind.DELETE:
                fields = (*table.merge_spec.ordering_fields, *(pair.target for pair in self.pairs))
                wanted |= ({top_level_name(schema, field) for field in fields} | partitions) - set(of_key)
        return [name for name in schema.names if name in wanted]

    def _searched(self, table: HoodieTable) -> HoodieTable:
        """The table with an index that finds the keys where the merge looks for them."""
        if not self.partition_fields or table.index.is_global:
            return table
        index = HoodieGlobalBloomIndex(table.config)
        return HoodieTable(table.context, table.config, table.snapshot, index, table.metrics)

    def _matches(self, table: HoodieTable, searched: HoodieTable, keys: pa.Table, needed: Sequence[str]) -> Matches:
        """Find the stored rows of the source's keys, by the table's index."""
        schema, index = table.snapshot.load_schema(), searched.index
        usable = keys.filter(keys[PARTITION_PATH].is_valid()).select([RECORD_KEY, PARTITION_PATH, _NUMBER])
        if not usable.num_rows:
            return Matches.none(self.source, schema, needed)
        exact = (HoodieGlobalBloomIndex if index.is_global else HoodieBloomIndex)(table.config)
        given = table.context.to_data(usable, None)
        look = KeyLookup(searched, KeyInput(searched).keyed(given), exact, None)
        if searched is table:
            table.found_locations = look.locations_for_write
        if not needed:
            located = _collected(look.located())
            found = located.filter(located[CURRENT_INSTANT_TIME].is_valid())
            return Matches.of(self.source, found[_NUMBER], None, found[PARTITION_PATH_META], schema.empty_table())
        names = [RECORD_KEY_META, PARTITION_PATH_META, *needed]
        columns = pa.schema([*((name, pa.string()) for name in META_COLUMNS), *schema])
        stored = _collected(look.stored_rows(columns, names))
        by = {RECORD_KEY: stored[RECORD_KEY_META]}
        if not index.is_global:
            by[PARTITION_PATH] = stored[PARTITION_PATH_META]
        places = pa.table({**by, _PLACE: pa.array(np.arange(stored.num_rows))})
        joined = usable.select([*by, _NUMBER]).join(places, list(by), join_type="inner")
        paths = stored[PARTITION_PATH_META].take(joined[_PLACE])
        return Matches.of(self.source, joined[_NUMBER], joined[_PLACE], paths, stored.select(needed))

    def _clauses_of_rows(self, matches: Matches) -> Iterator[tuple[int, RowsOfClause]]:
        """Each clause that counts for some rows, and these rows."""
        for kinds, rows in (
            ((ClauseKind.UPDATE, ClauseKind.DELETE), matches.matched),
            ((ClauseKind.INSERT,), matches.unmatched),
        ):
            left = rows
            for number, clause in enumerate(self.clauses):
                if clause.kind not in kinds or not len(left):
                    continue
                if clause.condition is None:
                    yield number, left
                    break
                where = f"the condition of {clause.name(number)}"
                applies = _computed(self._sides(left, matches.stored), clause.condition, where)
                if not pa.types.is_boolean(applies.type) and not pa.types.is_null(applies.type):
                    raise HoodieSchemaException(
                        f"{where} has the type {applies.type}: give one that is true or false; nothing was written"
                    )
                applies = pc.fill_null(applies.cast(pa.bool_()), False)
                chosen = left.filter(applies)
                if len(chosen):
                    yield number, chosen
                left = left.filter(pc.invert(applies))

    # --- values -------------------------------------------------------------------------------------------------

    def _sides(self, rows: RowsOfClause, stored: pa.Table) -> pa.Table:
        """Rows of both sides as two columns of structs; of rows that match nothing, the source's alone."""
        sides = {SOURCE: _taken(self.source, rows.numbers).to_struct_array()}
        if rows.places is not None and stored.num_columns:
            sides[TARGET] = _taken(stored, rows.places).to_struct_array()
        return pa.table(sides)

    def _columns(
        self,
        number: int,
        schema: pa.Schema,
        values: Mapping[str, Any],
        key_columns: pa.Table,
        rows: RowsOfClause,
        stored: pa.Table,
    ) -> pa.Table:
        """The rows of a clause, in the columns of the table."""
        clause, where = self.clauses[number], self.clauses[number].name(number)
        sides = None
        columns, of_key = [], self._flat_keys(schema)
        plain = {str(pc.field(SOURCE, name)): name for name in self.source.column_names}
        for field in schema:
            if field.name in values:
                value = values[field.name]
                computed = pa.chunked_array([pa.nulls(len(rows))])
                if isinstance(value, pc.Expression):
                    copied = plain.get(str(value))
                    if copied is not None:
                        computed = _column_taken(self.source[copied], rows.numbers)
                    else:
                        sides = self._sides(rows, stored) if sides is None else sides
                        computed = _computed(sides, value, f"the value of {field.name} in {where}")
                    _refuse_other_kind(field, computed.type, where)
                column = fitting(field, value, computed, where)
            elif field.name in of_key:
                column = _column_taken(key_columns[field.name], rows.numbers)
            elif rows.places is not None and field.name in stored.column_names:
                column = _column_taken(stored[field.name], rows.places)
            else:
                column = pa.chunked_array([pa.nulls(len(rows), field.type)])
                if clause.kind is ClauseKind.INSERT and not field.nullable:
                    raise HoodieSchemaException(
                        f"{where} does not assign {field.name}, and the table takes no nulls there; nothing was written"
                    )
            columns.append(column)
        return pa.Table.from_arrays(columns, schema=pa.schema([field.with_nullable(True) for field in schema]))

    def _operations(self, number: int, count: int) -> pa.Array:
        is_delete = self.clauses[number].kind is ClauseKind.DELETE
        operation = RecordOperation.DELETE if is_delete else RecordOperation.UPSERT
        return pa.array(np.full(count, int(operation), dtype=np.int8))

    # --- keys ---------------------------------------------------------------------------------------------------

    def _check_keys(
        self, table: HoodieTable, keys: pa.Table, matches: Matches, found: pa.Table, written: pa.Table
    ) -> None:
        """Refuse keys with several rows on a side, and rows that would get another key.

        Args:
            table: The table.
            keys: Record key and partition path of each row of the source; nulls for unusable keys.
            matches: The matches.
            found: The rows that clauses apply to: number, and partition path where it is stored.
            written: The rows to write, in the same order.
        """
        numbers = found[_NUMBER]
        several = numbers.filter(pc.is_in(numbers, value_set=matches.repeated))
        if len(several):
            count = pc.count_distinct(several).as_py()
            text = f"{count} keys that the merge changes are stored more than once, such as {self._shown(several)}"
            if not self.partition_fields:
                raise HoodieKeyException(
                    f"{text}, so it is not known which row is meant; nothing was written. "
                    "hoodie.table.repair.drop_duplicates removes the others"
                )
            places = matches.matched.table
            paths = places.filter(pc.equal(places[_NUMBER], several[0]))[_PLACE_PATH].unique().to_pylist()
            raise HoodieKeyException(
                f"{text} in {' and '.join(map(repr, sorted(paths)[:_SHOWN_KEYS]))}, and the record key alone is "
                f"compared; nothing was written. Compare the partition fields too ({', '.join(self.partition_fields)}) "
                "with an index that is not global, or delete the rows that are too many first: "
                "table.delete([HoodieKey(record_key, partition_path)])"
            )
        names = [RECORD_KEY] if self.partition_fields or table.index.is_global else [RECORD_KEY, PARTITION_PATH]
        acting = keys.take(numbers)
        usable = acting.filter(acting[RECORD_KEY].is_valid())
        counted = usable.group_by(names).aggregate([(_NUMBER, "count"), (_NUMBER, "min")])
        repeated = counted.filter(pc.greater(counted[f"{_NUMBER}_count"], 1))
        if repeated.num_rows:
            raise HoodieKeyException(
                f"several rows of the source apply to each of {repeated.num_rows} keys, such as "
                f"{self._shown(repeated[f'{_NUMBER}_min'])}; nothing was written. Keep one row for each key, for "
                "example the newest"
            )
        columns = written.select([name for name in written.column_names if name in self._made_of(table, written)])
        given = KeyInput(table).keyed(table.context.to_data(columns, None))
        made = _collected(given.keys)
        differs = pc.not_equal(made[RECORD_KEY], acting[RECORD_KEY])
        if PARTITION_PATH in names:
            differs = pc.or_(differs, pc.not_equal(made[PARTITION_PATH], acting[PARTITION_PATH]))
        wrong = numbers.filter(pc.fill_null(differs, False))
        if len(wrong):
            raise HoodieKeyException(
                f"{len(wrong)} rows would get another key than they were found by, such as {self._shown(wrong)}; "
                f"nothing was written. The fields {', '.join(pair.target for pair in self.pairs)} keep their values. "
                "To give a row another key, delete it and insert it anew"
            )
        if self.partition_fields and table.index.names_file_groups:
            moves = pc.fill_null(pc.not_equal(made[PARTITION_PATH], found[_PLACE_PATH]), False)
            moved = numbers.filter(moves)
            if len(moved):
                raise HoodieKeyException(
                    f"{len(moved)} rows would move to another partition, such as {self._shown(moved)}, and the table's "
                    "index (hoodie.index.type=BUCKET) moves no rows; nothing was written. Let an update keep "
                    f"{', '.join(self.partition_fields)}, or delete the row and insert it anew"
                )

    def _made_of(self, table: HoodieTable, rows: pa.Table) -> set[str | None]:
        config = table.snapshot.table_config
        fields = [*config.record_key_fields, *(field.partition(":")[0] for field in config.partition_fields)]
        return {top_level_name(rows.schema, field) for field in fields}

    def _shown(self, numbers: pa.ChunkedArray) -> str:
        """Some keys of the source, as text."""
        rows = self.source.take(numbers.unique()[:_SHOWN_KEYS]).to_pylist()
        find = field_finder(self.source.schema)
        shown = []
        for row in rows:
            texts = []
            for pair in self.pairs:
                field = find(pair.source[0])
                value = None if field is None else row[field.name]
                for name in pair.source[1:]:
                    value = None if value is None else value[name]
                texts.append(f"{pair.target} = {short_repr(value)}")
            shown.append(", ".join(texts))
        return "; ".join(shown)


@attrs.frozen(eq=False)
class RowsOfClause:
    """Rows of the source, for a clause, with the stored rows that they match.

    Attributes:
        table: The number of the row in the source, the place of the stored row among those that were read (null if
            none were read), and its partition path (null for rows that match nothing).
        is_matched: Whether they match.
    """

    table: pa.Table
    is_matched: bool

    def __len__(self) -> int:
        return int(self.table.num_rows)

    @property
    def numbers(self) -> pa.ChunkedArray:
        return self.table[_NUMBER]

    @property
    def places(self) -> pa.ChunkedArray | None:
        return self.table[_PLACE] if self.is_matched else None

    def filter(self, mask: pa.ChunkedArray) -> RowsOfClause:
        return attrs.evolve(self, table=self.table.filter(mask))


@attrs.frozen(eq=False)
class Matches:
    """The rows of a source, by whether they match a stored row.

    Attributes:
        matched: The pairs of a row of the source and a stored row with its key.
        unmatched: The other rows of the source.
        stored: The stored rows, in the columns that were read.
        repeated: The rows that match several stored rows.
    """

    matched: RowsOfClause
    unmatched: RowsOfClause
    stored: pa.Table
    repeated: pa.Array

    @classmethod
    def none(cls, source: pa.Table, schema: pa.Schema, needed: Sequence[str]) -> Matches:
        nothing = pa.chunked_array([pa.array([], pa.int64())])
        paths = pa.chunked_array([pa.array([], pa.string())])
        stored = pa.schema([schema.field(name) for name in needed]).empty_table()
        return cls.of(source, nothing, nothing, paths, stored)

    @classmethod
    def of(
        cls,
        source: pa.Table,
        numbers: pa.ChunkedArray,
        places: pa.ChunkedArray | None,
        paths: pa.ChunkedArray,
        stored: pa.Table,
    ) -> Matches:
        if places is None:
            places = pa.chunked_array([pa.nulls(len(numbers), pa.int64())])
        matched = pa.table({_NUMBER: numbers, _PLACE: places, _PLACE_PATH: paths.cast(pa.string())})
        matched = matched.take(pc.sort_indices(matched[_NUMBER])) if matched.num_rows else matched
        ordered = matched[_NUMBER].to_numpy()
        is_matched = np.zeros(source.num_rows, dtype=bool)
        is_matched[ordered] = True
        others = np.flatnonzero(~is_matched)
        unmatched = pa.table(
            {
                _NUMBER: pa.array(others, pa.int64()),
                _PLACE: pa.nulls(len(others), pa.int64()),
                _PLACE_PATH: pa.nulls(len(others), pa.string()),
            }
        )
        repeated = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        return cls(RowsOfClause(matched, True), RowsOfClause(unmatched, False), stored, pa.array(repeated, pa.int64()))


def _collected(data: HoodieData) -> pa.Table:
    rows = data.collect()
    return data.schema.empty_table() if rows is None else rows


def _column_taken(column: pa.ChunkedArray, numbers: pa.ChunkedArray) -> pa.ChunkedArray:
    taken = column.take(numbers)
    return taken if isinstance(taken, pa.ChunkedArray) else pa.chunked_array([taken])


def _taken(rows: pa.Table, numbers: pa.ChunkedArray) -> pa.Table:
    return rows.take(numbers)


def _computed(sides: pa.Table, expression: pc.Expression, where: str) -> pa.ChunkedArray:
    """The values of an expression over both sides.

    Raises:
        HoodieSchemaException: It cannot be computed.
    """
    # Imported here because it imports pandas, which takes longer than the rest of hoodie.
    import pyarrow.dataset as ds

    try:
        return ds.dataset(sides).to_table(columns={"value": expression})["value"]
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowKeyError) as error:
        columns = [f"{side}.{field.name}" for side in sides.column_names for field in sides.schema.field(side).type]
        raise HoodieSchemaException(
            f"{where} cannot be computed: {str(error).partition(chr(10))[0]}. The columns are {', '.join(columns)}; "
            "nothing was written"
        ) from error


def _refuse_other_kind(field: pa.Field, given: pa.DataType, where: str) -> None:
    """Refuse text for a column that is none: casting would parse it."""
    if pa.types.is_string(given) and not pa.types.is_string(field.type):
        raise HoodieSchemaException(
            f"{where} gives column {field.name!r}, which is {field.type}, an expression of {shown_value(str(given))}: "
            "cast it in the source; nothing was written"
        )
