"""The rules of every payload class on columns, held against one record at a time in plain Python.

The classes below say for single records what Hudi's classes of the same names do: `pre_combine` with an earlier record
of the input, `combine` with the stored one. None stands for "deleted".
"""

from __future__ import annotations

from typing import Any, ClassVar

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.common.model.record_columns import OPERATION, ORDERING_VALUE, PARTITION_PATH, RECORD_KEY, ROW_NUMBER
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.payload_rules import PAYLOADS, TOASTED_VALUE, canonical_payload_class
from hoodie.merge.record_merger import DELETE_STORED, KEEP_STORED

Fields = dict[str, Any]
SCHEMA = pa.schema(
    [
        ("ord", pa.int64()),
        ("text", pa.string()),
        ("number", pa.int32()),
        ("nested", pa.struct([("x", pa.int32())])),
        ("Op", pa.string()),
        ("_change_operation_type", pa.string()),
        ("_event_seq", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
UPSERT, FLAGGED, DELETE = RecordOperation.UPSERT, RecordOperation.DELETE_FLAGGED, RecordOperation.DELETE


@attrs.frozen
class OverwriteWithLatestAvroPayload:
    fields: Fields
    with_marker: ClassVar[bool] = False

    @property
    def order(self) -> Any:
        return self.fields["ord"]

    @property
    def is_deleted(self) -> bool:
        return self.fields["_hoodie_is_deleted"] is True

    def pre_combine(self, earlier: Any) -> Any:
        return earlier if earlier.order > self.order else self

    def combine(self, stored: Fields) -> Fields | None:
        return None if self.is_deleted else self.fields


class DefaultHoodieRecordPayload(OverwriteWithLatestAvroPayload):
    def wins(self, stored: Fields) -> bool:
        return stored["ord"] is None or stored["ord"] <= self.order

    def combine(self, stored: Fields) -> Fields | None:
        if not self.wins(stored):
            return stored
        return None if self.is_deleted else self.fields


class EventTimeAvroPayload(DefaultHoodieRecordPayload):
    def combine(self, stored: Fields) -> Fields | None:
        return None if self.is_deleted else super().combine(stored)


class FirstValueAvroPayload(DefaultHoodieRecordPayload):
    def pre_combine(self, earlier: Any) -> Any:
        return earlier if earlier.order >= self.order else self

    def wins(self, stored: Fields) -> bool:
        return stored["ord"] is None or stored["ord"] < self.order


class OverwriteNonDefaultsWithLatestAvroPayload(OverwriteWithLatestAvroPayload):
    def combine(self, stored: Fields) -> Fields | None:
        return None if self.is_deleted else merged(self.fields, stored)


class PartialUpdateAvroPayload(OverwriteWithLatestAvroPayload):
    def pre_combine(self, earlier: Any) -> Any:
        first, second = (earlier, self) if earlier.order > self.order else (self, earlier)
        if first.is_deleted:
            return self
        return PartialUpdateAvroPayload(merged(first.fields, second.fields))

    def combine(self, stored: Fields) -> Fields | None:
        if self.is_deleted:
            return None
        is_late = stored["ord"] is not None and stored["ord"] > self.order
        result = merged(stored, self.fields) if is_late else merged(self.fields, stored)
        return None if result["_hoodie_is_deleted"] else result


class AWSDmsAvroPayload(OverwriteWithLatestAvroPayload):
    @property
    def is_deleted(self) -> bool:
        return (self.fields["Op"] or "").upper() == "D" or self.fields["_hoodie_is_deleted"] is True


class MySqlDebeziumAvroPayload(OverwriteWithLatestAvroPayload):
    @property
    def is_deleted(self) -> bool:
        operation = (self.fields["_change_operation_type"] or "").lower()
        return operation == "d" or self.fields["_hoodie_is_deleted"] is True

    def loses(self, stored: Fields) -> bool:
        if stored["_event_seq"] is None:
            return False
        old, new = ([int(part) for part in row["_event_seq"].split(".")] for row in (stored, self.fields))
        return new <= old

    def combine(self, stored: Fields) -> Fields | None:
        if self.loses(stored):
            return stored
        return None if self.is_deleted else self.fields


class PostgresDebeziumAvroPayload(MySqlDebeziumAvroPayload):
    def loses(self, stored: Fields) -> bool:
        return stored["_event_lsn"] is not None and self.fields["_event_lsn"] < stored["_event_lsn"]

    def combine(self, stored: Fields) -> Fields | None:
        result = super().combine(stored)
        if result is None or result is stored:
            return result
        return {name: stored[name] if value == TOASTED_VALUE else value for name, value in result.items()}


def merged(first: Fields, second: Fields) -> Fields:
    return {name: second[name] if value is None else value for name, value in first.items()}


ORACLES = [
    OverwriteWithLatestAvroPayload,
    DefaultHoodieRecordPayload,
    EventTimeAvroPayload,
    FirstValueAvroPayload,
    OverwriteNonDefaultsWithLatestAvroPayload,
    PartialUpdateAvroPayload,
    AWSDmsAvroPayload,
    MySqlDebeziumAvroPayload,
    PostgresDebeziumAvroPayload,
]

fields_strategy = st.fixed_dictionaries(
    {
        "ord": st.integers(1, 4),
        "text": st.sampled_from([None, "a", "b", TOASTED_VALUE]),
        "number": st.none() | st.integers(0, 9),
        "nested": st.sampled_from([None, {"x": None}, {"x": 1}]),
        "Op": st.sampled_from([None, "I", "U", "D", "d"]),
        "_change_operation_type": st.sampled_from([None, "c", "u", "d", "D"]),
        "_event_seq": st.sampled_from(["1.9", "1.10", "2.1", "2.01"]),
        "_event_lsn": st.integers(1, 3),
        "_hoodie_is_deleted": st.sampled_from([None, False, False, True]),
    }
)
stored_strategy = fields_strategy.flatmap(
    lambda fields: st.fixed_dictionaries(
        {
            **{name: st.just(value) for name, value in fields.items()},
            "ord": st.none() | st.just(fields["ord"]),
            "_event_seq": st.none() | st.just(fields["_event_seq"]),
            "_event_lsn": st.none() | st.just(fields["_event_lsn"]),
            "_hoodie_is_deleted": st.sampled_from([None, False]),
        }
    )
)


def spec_of(oracle: type[OverwriteWithLatestAvroPayload]) -> MergeSpec:
    return MergeSpec("ord", PAYLOADS[canonical_payload_class(oracle.__name__)])


def in_flight(spec: MergeSpec, keys: list[str], rows: list[Fields], deletes: list[bool]) -> pa.RecordBatch:
    data = pa.RecordBatch.from_pylist(rows, SCHEMA)
    operations = np.where(spec.flagged_deletes(data), FLAGGED, UPSERT)
    operations = np.where(np.array(deletes, dtype=bool), DELETE, operations).astype(np.int8)
    columns = dict(zip(data.schema.names, data.columns, strict=True))
    return pa.record_batch(
        {
            **columns,
            RECORD_KEY: pa.array(keys, pa.string()),
            PARTITION_PATH: pa.array([""] * len(keys), pa.string()),
            ORDERING_VALUE: data["ord"],
            OPERATION: operations,
            ROW_NUMBER: pa.array(np.arange(len(keys))),
        }
    )


@pytest.mark.parametrize("oracle", ORACLES)
@settings(max_examples=25)
@given(data=st.data())
def test_rows_of_one_key_become_what_records_would_become(
    oracle: type[OverwriteWithLatestAvroPayload], data: st.DataObject
) -> None:
    entries = data.draw(st.lists(st.tuples(st.sampled_from("ab"), fields_strategy, st.booleans()), max_size=14))
    spec = spec_of(oracle)
    # One of eight rows is a plain delete.
    deletes = [is_delete and fields["ord"] == 1 for _, fields, is_delete in entries]
    kept: dict[str, Any] = {}
    for (key, fields, _), is_delete in zip(entries, deletes, strict=True):
        earlier = kept.get(key)
        if is_delete:
            kept[key] = None
        elif earlier is None:
            kept[key] = oracle(fields)
        else:
            kept[key] = oracle(fields).pre_combine(earlier)
    rows = in_flight(spec, [key for key, _, _ in entries], [fields for _, fields, _ in entries], deletes)
    result = spec.combine_duplicates(pa.Table.from_batches([rows]))
    assert sorted(result[RECORD_KEY].to_pylist()) == sorted(kept)
    assert result.schema == rows.schema
    for row in result.to_pylist():
        expected = kept[row[RECORD_KEY]]
        if expected is None:
            assert row[OPERATION] == DELETE
        else:
            assert {name: row[name] for name in SCHEMA.names} == expected.fields
            assert row[OPERATION] == (FLAGGED if expected.is_deleted else UPSERT)


@pytest.mark.parametrize("oracle", ORACLES)
@settings(max_examples=25)
@given(data=st.data())
def test_a_stored_row_and_an_incoming_one_become_what_records_would_become(
    oracle: type[OverwriteWithLatestAvroPayload], data: st.DataObject
) -> None:
    pairs = data.draw(st.lists(st.tuples(stored_strategy, fields_strategy, st.integers(0, 7)), min_size=1, max_size=12))
    spec = spec_of(oracle)
    deletes = [draw == 0 for _, _, draw in pairs]
    rows = in_flight(spec, ["k"] * len(pairs), [new for _, new, _ in pairs], deletes)
    stored = pa.RecordBatch.from_pylist([old for old, _, _ in pairs], SCHEMA).select(spec.stored_columns(SCHEMA))
    outcome = spec.merge(stored, rows)
    assert not outcome.errors
    assert outcome.rows is not None
    results = outcome.rows.select(SCHEMA.names).to_pylist()
    for (old, new, _), is_delete, code, result in zip(pairs, deletes, outcome.codes, results, strict=True):
        expected = None if is_delete else oracle(new).combine(old)
        if expected is None:
            assert code == DELETE_STORED
        elif expected is old:
            assert code == KEEP_STORED
        else:
            assert code not in (KEEP_STORED, DELETE_STORED)
            assert result == expected


@pytest.mark.parametrize("oracle", ORACLES)
def test_a_column_that_the_input_lacks_keeps_its_stored_values(oracle: type[OverwriteWithLatestAvroPayload]) -> None:
    old = {"ord": 1, "text": "old", "number": 5, "nested": None, "Op": "U", "_event_seq": "1.1", "_event_lsn": 1}
    new = {"ord": 2, "text": None, "number": 6, "nested": {"x": 1}, "Op": "U", "_event_seq": "1.2", "_event_lsn": 2}
    spec = attrs.evolve(spec_of(oracle), absent_columns=frozenset({"text", "nested"}))
    rows = in_flight(spec, ["k"], [new], [False])
    stored = pa.RecordBatch.from_pylist([old], SCHEMA).select(spec.stored_columns(SCHEMA))
    outcome = spec.merge(stored, rows)
    assert outcome.rows is not None
    assert outcome.rows.select(["text", "number", "nested"]).to_pylist() == [
        {"text": "old", "number": 6, "nested": None}
    ]


def test_a_default_value_leaves_the_stored_one_in_place() -> None:
    defaults = {"number": 7, "text": None}
    spec = attrs.evolve(spec_of(OverwriteNonDefaultsWithLatestAvroPayload), default_values=defaults)
    old = [{"ord": 1, "number": 1, "text": "old"}] * 3
    new = [{"ord": 1, "number": 7, "text": "new"}, {"ord": 1, "number": None, "text": None}, {"ord": 1, "number": 2}]
    rows = in_flight(spec, ["k"] * 3, new, [False] * 3)
    outcome = spec.merge(pa.RecordBatch.from_pylist(old, SCHEMA), rows)
    assert outcome.rows is not None
    assert outcome.rows.select(["number", "text"]).to_pylist() == [
        {"number": 1, "text": "new"},
        {"number": None, "text": None},
        {"number": 2, "text": None},
    ]
