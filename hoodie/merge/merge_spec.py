"""The rules that merge records with the same key: within the input, and between the input and stored records.

`MergeSpec` is built once from a table's properties, and every step that merges uses it. It works on whole columns.
`MergeSpec.rules` is the set of rules that applies: in tables of version 6, and in later ones whose merge mode is
CUSTOM, those of a payload class (`hoodie.merge.payload_rules`) or of a user's class (`hoodie.merge.record_merger`); in
other tables of versions 8 and 9 those of the merge mode (`hoodie.merge.mode_rules`).

A row with ``_hoodie_is_deleted`` (or another mark that the payload class knows) competes like any other row with its
ordering value. A plain delete (a key without data) has no ordering value: it deletes any stored row, and within the
input its position decides::

    input, in order    a5, delete a         -> delete a
                       delete a, a5         -> a5
                       a9, delete a, a5, a3 -> a5

These are the rules of Hudi 0.15.0 for copy-on-write tables, and those of Hudi 1.2.0 for merge modes.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import name_in_any_case, top_level_name
from hoodie.common.model.key_parts import refuse_ambiguous_rows
from hoodie.common.model.record_columns import (
    IS_DELETED_FIELD,
    MERGE_ERROR,
    OPERATION,
    ORDERING_VALUE,
    RECORD_KEY,
    ROW_NUMBER,
    user_column_names,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import HoodieException, HoodieNotSupportedException, MissingSchemaFieldException
from hoodie.merge import field_merge
from hoodie.merge.combining import Places, fold, replace_column, replace_columns, rows_since_last_delete, winners
from hoodie.merge.merge_modes import checked_merging, is_by_mode
from hoodie.merge.merge_properties import DELETE_FIELD_KEYS, DELETE_MARKER_KEYS, MergeProperties
from hoodie.merge.mode_rules import MergeEntries, hard_deletes, later_row_wins, rules_of_mode
from hoodie.merge.ordering_values import one_array, ordering_column, sortable
from hoodie.merge.payload_rules import (
    DEFAULT_PAYLOAD,
    MERGER_PREFIX,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    PAYLOADS,
    TOASTED_VALUE,
    FieldRule,
    MergeMode,
    PayloadRules,
    StoredRule,
    canonical_payload_class,
)
from hoodie.merge.record_merger import (
    DELETE_STORED,
    KEEP_STORED,
    TAKE_INCOMING,
    HoodieRecordMerger,
    MergeOutcome,
    merge_pairs,
    merger_class_name,
)

logger = logging.getLogger(__name__)

PAYLOAD_PROPERTY = "hoodie.compaction.payload.class"

_warned_tables: set[str] = set()


class MergeTableConfig(Protocol):
    """The table properties that decide how records merge."""

    @property
    def table_name(self) -> str:
        """The table's name, for messages."""

    @property
    def table_version(self) -> int:
        """The table's version; 0 if the properties name none."""

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering (precombine) fields."""

    @property
    def payload_class(self) -> str | None:
        """The payload class with its package; None if the table stores none."""

    @property
    def properties(self) -> Mapping[str, str]:
        """All properties of the table."""


def _similar(name: str, names: Iterable[str]) -> str:
    """A hint at a column whose name is nearly the same."""
    found = difflib.get_close_matches(name, list(names), 1, 0.75)
    return f" (did you mean {found[0]!r}?)" if found else ""


def _as_names(value: str | Iterable[str] | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(value)


@attrs.frozen
class MergeSpec:
    """The rules by which records with the same key become one record.

    Attributes:
        ordering_fields: The columns that order records with the same key, from left to right; dotted paths into
            structs. None if the table has none, or merges by COMMIT_TIME_ORDERING, which ignores them.
        rules: The rules of the table's payload class or merge mode.
        delete_field: The column that marks deletes, for payload classes that use markers.
        delete_marker: The value of that column that marks a delete, as text.
        merger: A user's merger, which decides instead of the rules.
        absent_columns: Columns of the table that the input lacks; they keep their stored values.
        default_values: Columns with a default other than null -> the default as text. The rules of some payload classes
            treat these values as absent.
        unavailable_value: The marker text for an unknown value, for rules that replace it.

    Hudi: org.apache.hudi.common.model.{HoodieRecordPayload, HoodieAvroRecordMerger, HoodiePreCombineAvroRecordMerger}.
    Differs: works on columns, and holds no records.
    """

    ordering_fields: tuple[str, ...] = attrs.field(default=(), converter=_as_names)
    rules: PayloadRules = PAYLOADS[OVERWRITE_WITH_LATEST_PAYLOAD]
    delete_field: str | None = None
    delete_marker: str | None = None
    merger: HoodieRecordMerger | None = None
    absent_columns: frozenset[str] = frozenset()
    default_values: Mapping[str, object] = attrs.field(factory=dict)
    unavailable_value: str | None = TOASTED_VALUE

    @classmethod
    def from_table_config(
        cls,
        table_config: MergeTableConfig,
        *,
        delete_field: str | None = None,
        delete_marker: str | None = None,
        merger: HoodieRecordMerger | None = None,
    ) -> MergeSpec:
        """Read the rules of a table.

        A table may store no payload class (Hudi 0.x stored none for copy-on-write). It is written as Hudi 0.15.0 does:
        the incoming row wins. If the table has an ordering field, Hudi 1.2 would keep the row with the larger value
        instead; a warning says so once for each table. Merge-on-read tables go by Hudi 1.2.

        Args:
            table_config: The table's properties.
            delete_field: The writer's ``hoodie.payload.delete.field``, used if the table has none.
            delete_marker: The writer's ``hoodie.payload.delete.marker``, used if the table has none.
            merger: The record merger that the writer names.

        Raises:
            HoodieNotSupportedException: hoodie does not know the payload class or merge mode, or it stands for another
                merger than the writer's, or a table of version 6 has several ordering fields.
        """
        name = table_config.table_name
        fields = tuple(table_config.ordering_fields)
        # Without a payload class, Hudi 1.2 reads the log files of a table with an ordering field by the default one.
        is_copy_on_write = table_config.properties.get("hoodie.table.type") != "MERGE_ON_READ"
        unnamed = OVERWRITE_WITH_LATEST_PAYLOAD if is_copy_on_write or not fields else DEFAULT_PAYLOAD
        payload = canonical_payload_class(table_config.payload_class or unnamed)
        merging = None
        if is_by_mode(table_config.table_version):
            merging = checked_merging(name, table_config.properties, table_config.table_version)
        if merging is not None:
            payload = merging.known_as
        elif len(fields) > 1:
            raise HoodieNotSupportedException(
                f"table '{name}' orders records by several fields ({', '.join(fields)}), property "
                "hoodie.table.precombine.field; tables of version 6 have only one ordering field"
            )
        if payload.startswith(MERGER_PREFIX):
            _check_merger(name, payload, merger)
            return cls(fields, merger=merger)
        if merger is not None:
            raise HoodieNotSupportedException(
                f"the writer merges records by {merger_class_name(type(merger))}, and table '{name}' by "
                f"{PAYLOAD_PROPERTY} = {payload}: leave the merger out, or write to a table made for it"
            )
        if payload not in PAYLOADS:
            raise HoodieNotSupportedException(
                f"table '{name}' merges records by {PAYLOAD_PROPERTY} = {payload}; hoodie knows "
                f"{', '.join(PAYLOADS)}. Write to this table with Hudi, or create one with one of these"
            )
        if merging is None and not table_config.payload_class and fields and is_copy_on_write:
            _warn_about_missing_payload(name, fields[0])
        rules = PAYLOADS[payload]
        unavailable: str | None = TOASTED_VALUE
        if merging is not None and merging.mode is not MergeMode.CUSTOM:
            rules, unavailable = rules_of_mode(merging, bool(fields)), merging.unavailable_value
            fields = fields if rules.stored_rule is StoredRule.LARGER else ()
        stored = MergeProperties.of(table_config.properties)
        field, marker = stored.delete_field or delete_field, stored.delete_marker or delete_marker
        if not (rules.takes_markers and field):
            return cls(fields, rules, unavailable_value=unavailable)
        if not marker:
            raise HoodieNotSupportedException(
                f"table '{name}': {DELETE_FIELD_KEYS[0]} = {field} names the column that marks deletes, but not the "
                f"value that marks them: give {DELETE_MARKER_KEYS[0]} as well"
            )
        return cls(fields, rules, field, marker, unavailable_value=unavailable)

    # --- data for the steps
    # --------------------------------------------------------------------------------------------

    @property
    def combines_rows(self) -> bool:
        """Whether `combine_duplicates` needs all columns of the rows, because it builds new rows."""
        return self.merger is not None or self.rules.combines_fields

    @property
    def can_fail_for_records(self) -> bool:
        """Whether `combine_duplicates` needs the column ``MERGE_ERROR``, to report records that could not be merged."""
        return self.merger is not None

    @property
    def keeps_absent_columns(self) -> bool:
        """Whether the rules ignore nulls, and so keep the stored values of columns that the input lacks."""
        return self.rules.field_rule in (FieldRule.NULLS, FieldRule.DEFAULTS) and self.merger is None

    def stored_columns(self, schema: pa.Schema) -> list[str]:
        """The columns of stored rows that `merge` needs.

        Args:
            schema: The table's columns.
        """
        names = user_column_names(schema)
        if self.merger is not None or self.rules.field_rule is not None or self.absent_columns:
            return names
        if self.rules.stored_rule in (StoredRule.LARGER, StoredRule.LARGER_OR_EQUAL):
            return list(dict.fromkeys(top_level_name(schema, field) for field in self.ordering_fields))
        return [name for name in (self.rules.sequence_column,) if name is not None]

    def age_of_stored(self, stored: pa.RecordBatch, count: int) -> npt.NDArray[np.int64]:
        """Numbers that order stored rows with the same key by age, if the rules compare ordering values.

        Args:
            stored: The columns that `stored_columns` returns.
            count: The number of rows.

        Returns:
            Int64, larger for newer rows; all equal if the rules do not use ordering values.
        """
        compares = self.rules.stored_rule in (StoredRule.LARGER, StoredRule.LARGER_OR_EQUAL) and self.merger is None
        if compares and self.ordering_fields:
            values = ordering_column(stored, self.ordering_fields)
            if values is not None:
                (numbers,) = sortable([values])
                return numbers
        return np.zeros(count, dtype=np.int64)

    def for_input(
        self, schema: pa.Schema, absent_columns: frozenset[str], default_values: Mapping[str, object]
    ) -> MergeSpec:
        """The rules for one write.

        Args:
            schema: The columns that are written.
            absent_columns: Columns that the input lacks; they keep their stored values.
            default_values: Columns with a default other than null -> the default.

        Raises:
            MissingSchemaFieldException: A column is missing that the rules need.
        """
        self._check_columns(schema)
        delete_field = self._delete_field_in(schema)
        defaults = default_values if self.rules.field_rule is FieldRule.DEFAULTS else {}
        if self.rules.by_mode:
            defaults = field_merge.boxed_defaults(defaults, schema)
        return attrs.evolve(
            self, absent_columns=absent_columns, default_values=dict(defaults), delete_field=delete_field
        )

    def _delete_field_in(self, schema: pa.Schema) -> str | None:
        """The column that marks deletes, in the schema's spelling; where it is absent, no row is marked."""
        if self.delete_field is None:
            return None
        found = name_in_any_case(schema.names, self.delete_field)
        if found is None:
            logger.warning(
                "%s = %s names a column that neither the input nor the table has, so no record of this write is a "
                "delete%s; the columns are: %s", DELETE_FIELD_KEYS[0], self.delete_field, _similar(
                    self.delete_field, schema.names), ", ".join(user_column_names(schema)),
            )  # fmt: skip
        return found or self.delete_field

    @property
    def delete_marks(self) -> frozenset[str]:
        """Columns that mark deletes. No input needs them: where one is absent, it counts as null."""
        return frozenset(
            name for name in (IS_DELETED_FIELD, self.delete_field, self.rules.delete_column) if name is not None
        )

    def _check_columns(self, schema: pa.Schema) -> None:
        """Refuse a write without columns that the rules need.

        Args:
            schema: The columns that are written.

        Raises:
            MissingSchemaFieldException: A column is missing; Hudi fails as well.
        """
        missing = [name for name in self.rules.required_columns if name not in schema.names]
        if missing and self.merger is None:
            raise MissingSchemaFieldException(
                f"the table merges records by {self.rules.short_name}, which needs the column{'s'[: len(missing) - 1]} "
                f"{', '.join(missing)}; the columns are: {', '.join(schema.names)}"
            )

    # --- deletes -----------------------------------------------------------------------------------------------------

    def flagged_deletes(self, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        """True for data rows that ask for a delete.

        Args:
            rows: The table's columns.
        """
        flagged = _is_true(rows, IS_DELETED_FIELD)
        if self.delete_field is not None:
            # With a marker payload classes ignore the flag; but EventTimeAvroPayload fails for a new record with it.
            # By merge modes both delete.
            marked = self._marked(rows)
            if self.rules.by_mode or not self.rules.deletes_compete:
                marked |= flagged
            return marked
        column, value = self.rules.delete_column, self.rules.delete_value
        if self.merger is None and column is not None and value is not None and column in rows.schema.names:
            texts = one_array(rows.column(column)).cast(pa.string())
            equal = pc.equal(pc.ascii_lower(texts), value.lower())
            flagged |= pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        return flagged

    def hard_deletes(self, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        """True for rows that, if they ask for a delete, delete like a plain delete, whatever their ordering value.

        Args:
            rows: The table's columns.
        """
        if not self.rules.by_mode:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        return hard_deletes(rows, self.ordering_fields)

    def delete_columns(self, schema: pa.Schema) -> set[str]:
        """The columns of a schema that `flagged_deletes` reads."""
        wanted = {name.lower() for name in self.delete_marks}
        return {name for name in schema.names if name.lower() in wanted}

    def _marked(self, rows: pa.RecordBatch | pa.Table) -> npt.NDArray[np.bool_]:
        if self.delete_field not in rows.schema.names:
            return np.zeros(rows.num_rows, dtype=np.bool_)
        texts = _java_texts(one_array(rows.column(self.delete_field)))
        marked = pc.fill_null(pc.equal(texts, self.delete_marker), False)
        flags: npt.NDArray[np.bool_] = marked.to_numpy(zero_copy_only=False)
        return flags.copy()

    # --- within the input --------------------------------------------------------------------------------------------

    def combine_duplicates(self, rows: pa.Table) -> pa.Table:
        """Reduce the input to one row per (record key, partition path).

        Among rows with the same key the largest ordering value wins; among equal ones the last row (or the first, if
        the rules say so). A null is smaller than any value. For plain deletes their position decides; see the module
        docstring.

        Args:
            rows: Columns ``RECORD_KEY``, ``PARTITION_PATH`` and ``ROW_NUMBER``; ``ORDERING_VALUE`` and ``OPERATION``
                are used if present. If `combines_rows` is true, all columns, with ``MERGE_ERROR``.

        Returns:
            Rows of the same schema, in the order of their row numbers.

        Raises:
            HoodieSchemaException: The ordering values have a type without an order.
            HoodieKeyException: Rows have the same key and different values in its fields.
        """
        if rows.num_rows < 2:
            return rows
        places = Places.of(rows)
        refuse_ambiguous_rows(rows, places.keys)
        if not self.combines_rows:
            return winners(rows, places, self.rules.first_of_equals)
        rows, keys, ordering = rows_since_last_delete(rows, places)
        if self.merger is not None:
            merged = fold(self.merger, rows, keys, self._with_operations)
        elif self.rules.by_mode:
            deletes = rows[OPERATION].to_numpy() != RecordOperation.UPSERT
            names = user_column_names(rows.schema)
            merged = field_merge.combine_by_mode(rows, keys, ordering, deletes, names, self.is_empty)
        else:
            merged = field_merge.combine_fields(rows, keys, ordering, user_column_names(rows.schema))
            merged = self._with_operations(merged)
        numbers = merged[ROW_NUMBER].to_numpy()
        return merged.take(pa.array(np.argsort(numbers, kind="stable")))

    def _with_operations(self, rows: pa.Table) -> pa.Table:
        """Set the operation of merged rows by their fields."""
        operations = rows[OPERATION].to_numpy()
        flagged = self.flagged_deletes(rows)
        wanted = np.where(flagged, RecordOperation.DELETE_FLAGGED, RecordOperation.UPSERT)
        wanted = np.where(operations == RecordOperation.DELETE, operations, wanted).astype(np.int8)
        return replace_column(rows, OPERATION, pa.array(wanted))

    # --- against stored rows -----------------------------------------------------------------------------------------

    def may_delete(self, incoming: pa.Table) -> bool:
        """Whether `merge` may delete the stored row of some of these rows; True if that is not known.

        Args:
            incoming: Rows in the form for `merge`.
        """
        if self.merger is not None or (incoming[OPERATION].to_numpy() != RecordOperation.UPSERT).any():
            return True
        return (
            name_in_any_case(incoming.schema.names, IS_DELETED_FIELD) is not None
            and (self.rules.field_rule in (FieldRule.NULLS, FieldRule.DEFAULTS) or self.delete_field is not None)
            and not self.rules.by_mode
        )

    def merge(self, stored: pa.RecordBatch, incoming: pa.RecordBatch) -> MergeOutcome:
        """Merge incoming rows with the stored rows of their keys, pair by pair.

        Args:
            stored: The columns that `stored_columns` returns; row ``i`` is the stored row of incoming row ``i``. A null
                ordering value means that the row is older than the column: any incoming row wins.
            incoming: Rows in flight: the user's columns, then ``RECORD_KEY``, ``OPERATION`` and, if there is an
                ordering field, ``ORDERING_VALUE`` of a type that compares with the stored one. User columns may be
                absent if every row is a plain delete.

        Returns:
            What happens to each stored row. ``rows`` has the columns of ``incoming``, and the row to write for each
            pair with ``TAKE_INCOMING``.

        Raises:
            HoodieException: Ordering values are needed, but rows that are not plain deletes have none.
            HoodieSchemaException: The ordering values have a type without an order, or types that do not compare.
        """
        operations = incoming.column(OPERATION).to_numpy()
        plain = operations == RecordOperation.DELETE
        if plain.all():
            return MergeOutcome(np.full(incoming.num_rows, DELETE_STORED, dtype=np.uint8), incoming)
        rows = self._completed(stored, incoming)
        if self.merger is not None:
            outcome = self._merge_by_merger(self.merger, stored, rows)
        else:
            outcome = self._merge_by_rules(stored, rows, operations)
        codes = outcome.codes.copy()
        codes[plain] = DELETE_STORED
        if MERGE_ERROR in incoming.schema.names and incoming.column(MERGE_ERROR).null_count < incoming.num_rows:
            earlier = incoming.column(MERGE_ERROR)
            errors = {int(i): earlier[int(i)].as_py() for i in np.flatnonzero(earlier.is_valid().to_numpy(False))}
            outcome = attrs.evolve(outcome, errors={**outcome.errors, **errors})
        errors = {number: text for number, text in outcome.errors.items() if not plain[number]}
        codes[list(errors)] = KEEP_STORED
        return MergeOutcome(codes, outcome.rows, errors)

    def _merge_by_rules(
        self, stored: pa.RecordBatch, rows: pa.RecordBatch, operations: npt.NDArray[np.int8]
    ) -> MergeOutcome:
        errors: dict[int, str] = {}
        stored_wins = self._stored_wins(stored, rows, operations != RecordOperation.DELETE, errors)
        deletes = self._deletes_stored(rows, operations)
        codes = np.where(deletes, DELETE_STORED, TAKE_INCOMING).astype(np.uint8)
        rule = self.rules.field_rule
        if rule is not None and self.rules.by_mode:
            rows, mixed = field_merge.fill_from_stored(stored, rows, stored_wins, self.is_empty)
            codes[stored_wins & (deletes | ~mixed)] = KEEP_STORED
            return MergeOutcome(codes, rows, errors)
        if rule in (FieldRule.NULLS, FieldRule.DEFAULTS):
            rows, _ = field_merge.fill_from_stored(stored, rows, stored_wins, self.is_empty)
            # The flag is a field like others: a null keeps the stored value.
            codes[_is_true(rows, IS_DELETED_FIELD)] = DELETE_STORED
            return MergeOutcome(codes, rows, errors)
        if rule is FieldRule.TOASTED:
            nobody = np.zeros(rows.num_rows, dtype=np.bool_)
            rows, _ = field_merge.fill_from_stored(stored, rows, nobody, self.is_empty)
        codes[stored_wins if self.rules.deletes_compete else stored_wins & ~deletes] = KEEP_STORED
        return MergeOutcome(codes, rows, errors)

    def is_empty(self, column: pa.Array, name: str) -> npt.NDArray[np.bool_]:
        """True for values of a column that are taken from the other one of two rows.

        Args:
            column: The values.
            name: The column's name.
        """
        if self.rules.field_rule is FieldRule.TOASTED:
            return field_merge.empty_by_marker(self.unavailable_value)(column, name)
        defaults = self.default_values if self.rules.field_rule is FieldRule.DEFAULTS else {}
        return field_merge.empty_by_defaults(defaults)(column, name)

    def _deletes_stored(self, rows: pa.RecordBatch, operations: npt.NDArray[np.int8]) -> npt.NDArray[np.bool_]:
        """True for rows that delete the stored row of their key if they win."""
        if self.delete_field is not None and not self.rules.deletes_compete:
            # EventTimeAvroPayload checks the marker only for new records, and the flag for updates of stored ones.
            return _is_true(rows, IS_DELETED_FIELD)
        flagged: npt.NDArray[np.bool_] = operations == RecordOperation.DELETE_FLAGGED
        return flagged

    def _stored_wins(
        self,
        stored: pa.RecordBatch,
        rows: pa.RecordBatch,
        competing: npt.NDArray[np.bool_],
        errors: dict[int, str],
    ) -> npt.NDArray[np.bool_]:
        rule = self.rules.stored_rule
        nobody = np.zeros(rows.num_rows, dtype=np.bool_)
        if rule is StoredRule.BINLOG:
            return field_merge.binlog_wins(stored, rows, competing, errors)
        if rule is StoredRule.LOG_SEQUENCE:
            return field_merge.log_sequence_wins(stored, rows, competing, errors)
        if rule is StoredRule.NEVER or not self.ordering_fields:
            return nobody
        if any(top_level_name(stored.schema, field) in self.absent_columns for field in self.ordering_fields):
            return nobody
        stored_ordering = ordering_column(stored, self.ordering_fields)
        if stored_ordering is None or ORDERING_VALUE not in rows.schema.names:
            side = "incoming" if stored_ordering is not None else "stored"
            fields = ", ".join(self.ordering_fields)
            raise HoodieException(f"merging by ordering field '{fields}': the {side} rows come without it")
        if self.rules.by_mode:
            older, newer = MergeEntries.of([stored_ordering, rows.column(ORDERING_VALUE)], [nobody, ~competing])
            return ~later_row_wins(self.rules, older, newer) & competing
        old, new = sortable([stored_ordering, rows.column(ORDERING_VALUE)])
        nobody |= (old > new) & competing
        if rule is StoredRule.LARGER_OR_EQUAL:
            nobody |= (old == new) & stored_ordering.is_valid().to_numpy(zero_copy_only=False) & competing
        return nobody

    def _merge_by_merger(
        self, merger: HoodieRecordMerger, stored: pa.RecordBatch, rows: pa.RecordBatch
    ) -> MergeOutcome:
        names = user_column_names(rows.schema)
        outcome = merge_pairs(merger, stored.select(names), rows.select(names), rows.column(RECORD_KEY))
        merged = replace_columns(rows, outcome.rows)
        codes = outcome.codes.copy()
        codes[(codes == TAKE_INCOMING) & _is_true(merged, IS_DELETED_FIELD)] = DELETE_STORED
        return MergeOutcome(codes, merged, outcome.errors)

    def _completed(self, stored: pa.RecordBatch, incoming: pa.RecordBatch) -> pa.RecordBatch:
        """The incoming rows with the stored values of columns that the input lacks."""
        if not self.absent_columns:
            return incoming
        columns = [
            stored.column(name) if name in self.absent_columns else incoming.column(name)
            for name in incoming.schema.names
        ]
        return pa.RecordBatch.from_arrays(columns, schema=incoming.schema)


def _check_merger(table_name: str, payload: str, merger: HoodieRecordMerger | None) -> None:
    wanted = payload.removeprefix(MERGER_PREFIX)
    given = merger_class_name(type(merger)) if merger is not None else None
    if given == wanted:
        return
    writer_choice = f"the writer names {given}" if given else "the writer names none"
    raise HoodieNotSupportedException(
        f"table '{table_name}' merges records by the Python class {wanted} ({PAYLOAD_PROPERTY} = {payload}), and "
        f"{writer_choice}: set hoodie.write.record.merge.custom.implementation.classes={wanted}"
    )


def _warn_about_missing_payload(table_name: str, ordering_field: str) -> None:
    if table_name in _warned_tables:
        return
    _warned_tables.add(table_name)
    logger.warning(
        "table '%s' has the ordering field '%s' but stores no %s: incoming records replace stored ones even when they "
        "are older, as in Hudi 0.15.0; Hudi 1.2 would keep the record with the larger value of '%s'. To have one rule "
        "for all writers set %s in hoodie.properties: %s (incoming wins) or %s (larger ordering value wins)",
        table_name,
        ordering_field,
        PAYLOAD_PROPERTY,
        ordering_field,
        PAYLOAD_PROPERTY,
        OVERWRITE_WITH_LATEST_PAYLOAD,
        DEFAULT_PAYLOAD,
    )


def _is_true(rows: pa.RecordBatch | pa.Table, name: str) -> npt.NDArray[np.bool_]:
    """True where a boolean column is true; nowhere if there is no such column (in any case), or it is not boolean."""
    column = name_in_any_case(rows.schema.names, name)
    index = rows.schema.get_field_index(column) if column is not None else -1
    if index < 0 or not pa.types.is_boolean(rows.schema.field(index).type):
        return np.zeros(rows.num_rows, dtype=np.bool_)
    values: npt.NDArray[np.bool_] = pc.fill_null(one_array(rows.column(index)), False).to_numpy(zero_copy_only=False)
    return values.copy()


def _java_texts(column: pa.Array) -> pa.Array:
    """Values in the format of Java's toString, for types where it is known."""
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return column.cast(pa.string())
    raise HoodieNotSupportedException(
        f"{DELETE_FIELD_KEYS[0]} names a column of type {column.type}: use a string, boolean or integer column"
    )
