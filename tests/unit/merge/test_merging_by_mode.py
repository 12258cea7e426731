"""Merging by the modes of versions 8 and 9, held against one record after the other."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.record_columns import (
    IS_DELETED_FIELD,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_definition import TableDefinition
from hoodie.exception import HoodieNotSupportedException, HoodieSchemaException
from hoodie.merge.merge_modes import PartialUpdateMode
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.ordering_values import null_ordering_count, ordering_column, ordering_type, sortable
from hoodie.merge.payload_rules import PAYLOADS, TOASTED_VALUE, MergeMode, StoredRule
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED

UPSERT, FLAGGED, DELETE = RecordOperation.UPSERT, RecordOperation.DELETE_FLAGGED, RecordOperation.DELETE
MODE = "hoodie.record.merge.mode"
PAYLOAD_OF = {
    (MergeMode.EVENT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS): "PartialUpdateAvroPayload",
    (MergeMode.COMMIT_TIME_ORDERING, PartialUpdateMode.IGNORE_DEFAULTS): "OverwriteNonDefaultsWithLatestAvroPayload",
    (MergeMode.EVENT_TIME_ORDERING, PartialUpdateMode.FILL_UNAVAILABLE): "PostgresDebeziumAvroPayload",
    (MergeMode.EVENT_TIME_ORDERING, None): "DefaultHoodieRecordPayload",
    (MergeMode.COMMIT_TIME_ORDERING, None): "OverwriteWithLatestAvroPayload",
}


def spec_of(version: int = 9, **arguments: Any) -> MergeSpec:
    given_ = {"table_name": "t", "record_key_fields": "id", "table_version": version} | arguments
    return MergeSpec.from_table_config(HoodieTableConfig(TableDefinition(**given_).to_properties()))


# --- which rules --------------------------------------------------------------------------------------------------


def test_the_spec_says_which_set_of_rules_is_at_work() -> None:
    assert not spec_of(6, ordering_fields="ts").rules.by_mode
    for version in (8, 9):
        spec = spec_of(version, ordering_fields="ts")
        assert (spec.rules.by_mode, spec.rules.mode) == (True, MergeMode.EVENT_TIME_ORDERING)
        assert (spec.rules.stored_rule, spec.ordering_fields) == (StoredRule.LARGER, ("ts",))
        spec = spec_of(version, ordering_fields="ts", properties={MODE: "COMMIT_TIME_ORDERING"})
        assert (spec.rules.stored_rule, spec.ordering_fields) == (StoredRule.NEVER, ())
        # CUSTOM goes by the class, with the rules of version 6.
        spec = spec_of(version, ordering_fields="ts", payload_class="FirstValueAvroPayload")
        assert spec.rules is PAYLOADS["org.apache.hudi.common.model.FirstValueAvroPayload"]
    partial = {"ordering_fields": "ts", "payload_class": "PartialUpdateAvroPayload"}
    assert spec_of(9, **partial).rules.by_mode and not spec_of(8, **partial).rules.by_mode


def test_a_spec_of_a_mode_crosses_to_tasks() -> None:
    spec = spec_of(payload_class="PostgresDebeziumAvroPayload")
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert (spec.delete_field, spec.delete_marker) == ("_change_operation_type", "d")
    assert spec.unavailable_value == TOASTED_VALUE


def test_what_the_table_says_wrongly_about_merging_is_refused() -> None:
    properties = TableDefinition(
        table_name="t", record_key_fields="id", ordering_fields="ts", table_version=9
    ).to_properties()
    for changed in ({MODE: "NEWEST"}, {MODE: "CUSTOM"}, {"hoodie.record.merge.property.x": "y"}):
        (key,) = changed
        with pytest.raises(HoodieNotSupportedException, match=f"how table 't' merges .*{key}="):
            MergeSpec.from_table_config(HoodieTableConfig(properties | changed))


# --- one record after the other -----------------------------------------------------------------------------------


@attrs.frozen
class Record:
    """A row, or a delete; a plain delete has no ordering value."""

    ordering: tuple[int, ...] | None
    is_delete: bool
    fields: Mapping[str, Any]

    @property
    def is_hard(self) -> bool:
        return self.ordering is None


def merged(older: Record, newer: Record, mode: MergeMode, partial: PartialUpdateMode | None) -> Record:
    wins = mode is MergeMode.COMMIT_TIME_ORDERING or older.is_hard or newer.is_hard or newer.ordering >= older.ordering
    winner, other = (newer, older) if wins else (older, newer)
    if partial is None or winner.is_delete or other.is_delete:
        return winner
    empty = None if partial is PartialUpdateMode.IGNORE_DEFAULTS else TOASTED_VALUE
    return attrs.evolve(
        winner, fields={name: other.fields[name] if value == empty else value for name, value in winner.fields.items()}
    )


records = st.builds(
    lambda orderings, operation, a, b: (orderings, operation, {"a": a, "b": b}),
    st.tuples(st.integers(0, 2), st.integers(0, 1)),
    st.sampled_from([UPSERT, UPSERT, UPSERT, FLAGGED, DELETE]),
    st.sampled_from([None, "x", "y", TOASTED_VALUE]),
    st.sampled_from([None, "v", "w", TOASTED_VALUE]),
)


@given(
    rows=st.lists(st.tuples(st.sampled_from("klm"), records), min_size=1, max_size=16),
    how=st.sampled_from(list(PAYLOAD_OF)),
    has_two=st.booleans(),
    olds=st.tuples(records, records, records),
)
def test_input_and_stored_rows_merge_as_one_record_after_the_other(
    rows: list[tuple[str, Any]], how: tuple[MergeMode, PartialUpdateMode | None], has_two: bool, olds: tuple[Any, ...]
) -> None:
    mode, partial = how
    fields = ("ts", "more") if has_two else ("ts",)
    spec = attrs.evolve(spec_of(payload_class=PAYLOAD_OF[how], ordering_fields=fields), delete_field=None)
    spec = attrs.evolve(spec, ordering_fields=fields if spec.ordering_fields else ())

    def record(value: Any) -> Record:
        orderings, operation, data = value
        is_hard = operation == DELETE
        values = None if is_hard else orderings[: len(fields)]
        data = {**data, "ts": orderings[0], "more": orderings[1]}
        return Record(values, operation != UPSERT, data)

    table = pa.table(
        {
            "id": pa.array([key for key, _ in rows]),
            "ts": pa.array([value[0][0] for _, value in rows], pa.int64()),
            "more": pa.array([value[0][1] for _, value in rows], pa.int64()),
            "a": pa.array([value[2]["a"] for _, value in rows], pa.string()),
            "b": pa.array([value[2]["b"] for _, value in rows], pa.string()),
            IS_DELETED_FIELD: pa.array([True if value[1] == FLAGGED else None for _, value in rows]),
            RECORD_KEY: pa.array([key for key, _ in rows]),
            PARTITION_PATH: pa.array([""] * len(rows)),
            OPERATION: pa.array([int(value[1]) for _, value in rows], pa.int8()),
            ROW_NUMBER: pa.array(range(len(rows)), pa.int64()),
        }
    )
    if spec.ordering_fields:
        table = table.append_column(ORDERING_VALUE, ordering_column(table, spec.ordering_fields))
    combined = spec.combine_duplicates(table).combine_chunks()
    expected: dict[str, Record] = {}
    for key, value in rows:
        new = record(value)
        expected[key] = merged(expected[key], new, mode, partial) if key in expected else new
    assert len(expected) == combined.num_rows

    keys = combined["id"].to_pylist()
    stored = {key: attrs.evolve(record((old[0], UPSERT, old[2]))) for key, old in zip("klm", olds, strict=True)}
    batch = pa.RecordBatch.from_pylist(
        [{"id": key, **stored[key].fields, IS_DELETED_FIELD: None} for key in keys],
        table.schema.remove(table.schema.get_field_index(OPERATION)),
    ).select(["id", "ts", "more", "a", "b", IS_DELETED_FIELD])
    names = spec.stored_columns(batch.schema)
    outcome = spec.merge(batch.select(names), combined.to_batches()[0])
    found = outcome.rows.to_pylist() if outcome.rows is not None else []
    for number, key in enumerate(keys):
        left = merged(stored[key], expected[key], mode, partial)
        code = outcome.codes[number]
        if code == DELETE_STORED:
            assert left.is_delete
        elif code == KEEP_STORED:
            assert left.fields == stored[key].fields and not left.is_delete
        else:
            assert {name: found[number][name] for name in left.fields} == left.fields and not left.is_delete


# --- ordering values of several fields ----------------------------------------------------------------------------

value_strategy = st.tuples(st.none() | st.integers(-3, 3), st.none() | st.sampled_from(["", "a", "b"]))


@given(first=st.lists(value_strategy), second=st.lists(value_strategy))
def test_several_ordering_fields_compare_from_left_to_right(
    first: list[tuple[Any, Any]], second: list[tuple[Any, Any]]
) -> None:
    columns = []
    for values in (first, second):
        numbers, texts = [value[0] for value in values], [value[1] for value in values]
        batch = pa.record_batch({"n": pa.array(numbers, pa.int64()), "t": pa.array(texts, pa.string())})
        columns.append(ordering_column(batch, ["n", "t"]))
        assert columns[-1].type == ordering_type(batch.schema, ["n", "t"])
        assert null_ordering_count(columns[-1]) == sum(None in value for value in values)
    found = np.concatenate(sortable(columns)).tolist()
    values = [*first, *second]
    for one, other in zip(range(len(values)), range(1, len(values)), strict=False):
        left, right = values[one], values[other]
        if None in left or None in right:
            assert (found[one] < found[other], found[one] == found[other]) == (
                None in left and None not in right,
                None in left and None in right,
            )
        else:
            assert (found[one] < found[other], found[one] == found[other]) == (left < right, left == right)


def test_a_users_struct_has_no_order() -> None:
    structs = pa.array([{"x": 1, "y": 2}])
    with pytest.raises(HoodieSchemaException, match="have no order"):
        sortable([structs])
    pair = ordering_column(pa.record_batch({"x": [1], "y": [2]}), ["x", "y"])
    with pytest.raises(HoodieSchemaException, match="one field and of several"):
        sortable([pair, pa.array([1])])
