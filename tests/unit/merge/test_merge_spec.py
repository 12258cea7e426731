"""Which record of a key stays, held against a plain dict."""

from __future__ import annotations

import datetime
import logging
import math
import pickle
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.record_columns import OPERATION, ORDERING_VALUE, PARTITION_PATH, RECORD_KEY, ROW_NUMBER
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import HoodieException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.merge.merge_spec import (
    DEFAULT_PAYLOAD,
    DELETE_STORED,
    KEEP_STORED,
    OVERWRITE_WITH_LATEST_PAYLOAD,
    TAKE_INCOMING,
    MergeSpec,
)
from hoodie.merge.ordering_values import null_ordering_count, null_ordering_message
from hoodie.merge.payload_rules import PAYLOADS

UPSERT, FLAGGED, DELETE = RecordOperation.UPSERT, RecordOperation.DELETE_FLAGGED, RecordOperation.DELETE
DEFAULT = MergeSpec("ts", PAYLOADS[DEFAULT_PAYLOAD])
OVERWRITE = MergeSpec("ts", PAYLOADS[OVERWRITE_WITH_LATEST_PAYLOAD])


@attrs.frozen
class Config:
    ordering_fields: tuple[str, ...] = ()
    payload_class: str | None = None
    table_name: str = "trips"
    properties: Mapping[str, str] = attrs.field(factory=dict)
    table_version: int = 6


def resolve(spec: MergeSpec, stored: pa.Array, incoming: pa.Array | None, operations: np.ndarray) -> list[int]:
    """The codes for rows of which only the ordering column ``ts`` matters."""
    columns = {RECORD_KEY: [f"k{number}" for number in range(len(operations))], OPERATION: operations}
    if incoming is not None:
        columns |= {"ts": incoming, ORDERING_VALUE: incoming}
    outcome = spec.merge(pa.record_batch({"ts": stored}), pa.record_batch(columns))
    assert outcome.codes.dtype == np.uint8
    return list(outcome.codes.tolist())


def operations(*values: int) -> np.ndarray:
    return np.array(values, dtype=np.int8)


# ---------------------------------------------------------------------------------------------------------- choosing


def test_the_payload_class_of_the_table_decides() -> None:
    assert MergeSpec.from_table_config(Config(("ts",), DEFAULT_PAYLOAD)) == DEFAULT
    assert MergeSpec.from_table_config(Config(("ts",), OVERWRITE_WITH_LATEST_PAYLOAD)) == OVERWRITE
    assert DEFAULT.stored_columns(pa.schema([("a", pa.int64()), ("ts", pa.int64())])) == ["ts"]
    assert OVERWRITE.stored_columns(pa.schema([("a", pa.int64()), ("ts", pa.int64())])) == []


def test_a_table_without_payload_class_takes_the_incoming_row_and_warns_once(caplog: pytest.LogCaptureFixture) -> None:
    config = Config(("ts",), None, "old_trips")
    with caplog.at_level(logging.WARNING):
        assert MergeSpec.from_table_config(config) == OVERWRITE
        assert MergeSpec.from_table_config(config) == OVERWRITE
    (record,) = caplog.records
    assert "old_trips" in record.getMessage()
    assert "hoodie.compaction.payload.class" in record.getMessage()
    assert DEFAULT_PAYLOAD in record.getMessage()


def test_without_an_ordering_field_there_is_nothing_to_warn_about(caplog: pytest.LogCaptureFixture) -> None:
    assert MergeSpec.from_table_config(Config((), None, "plain_trips")) == MergeSpec()
    assert not caplog.records


def test_other_payloads_are_refused_by_property_and_value() -> None:
    payload = "org.acme.OurOwnPayload"
    with pytest.raises(HoodieNotSupportedException, match=rf"hoodie\.compaction\.payload\.class = {payload}"):
        MergeSpec.from_table_config(Config(("ts",), payload))


def test_several_ordering_fields_are_refused() -> None:
    with pytest.raises(HoodieNotSupportedException, match="ts, seq"):
        MergeSpec.from_table_config(Config(("ts", "seq"), DEFAULT_PAYLOAD))


def test_a_merge_spec_is_picklable() -> None:
    assert pickle.loads(pickle.dumps(DEFAULT)) == DEFAULT


# --------------------------------------------------------------------------------------- incoming rows against stored


def test_overwrite_with_latest_always_takes_the_incoming_row() -> None:
    stored, incoming = pa.array([9, 9, 9]), pa.array([5, 5, 5])
    codes = resolve(OVERWRITE, stored, incoming, operations(UPSERT, FLAGGED, DELETE))
    assert codes == [TAKE_INCOMING, DELETE_STORED, DELETE_STORED]


def test_the_default_payload_keeps_a_stored_row_that_is_newer() -> None:
    stored, incoming = pa.array([100, 100, 100]), pa.array([50, 100, 150])
    assert resolve(DEFAULT, stored, incoming, operations(UPSERT, UPSERT, UPSERT)) == [
        KEEP_STORED,
        TAKE_INCOMING,
        TAKE_INCOMING,
    ]
    assert resolve(DEFAULT, stored, incoming, operations(FLAGGED, FLAGGED, FLAGGED)) == [
        KEEP_STORED,
        DELETE_STORED,
        DELETE_STORED,
    ]


def test_a_plain_delete_deletes_whatever_is_stored() -> None:
    assert resolve(DEFAULT, pa.array([100]), pa.array([None], pa.int64()), operations(DELETE)) == [DELETE_STORED]
    nothing = pa.nulls(2, pa.int64())
    assert resolve(DEFAULT, nothing, None, operations(DELETE, DELETE)) == [DELETE_STORED, DELETE_STORED]


def test_a_stored_row_without_ordering_value_loses() -> None:
    stored = pa.array([None, None, 5], pa.int64())
    incoming = pa.array([-(2**63), None, None], pa.int64())
    assert resolve(DEFAULT, stored, incoming, operations(UPSERT, UPSERT, UPSERT)) == [
        TAKE_INCOMING,
        TAKE_INCOMING,
        KEEP_STORED,
    ]


def test_the_smallest_value_is_larger_than_a_null() -> None:
    stored = pa.array([-(2**63), None], pa.int64())
    assert resolve(DEFAULT, stored, pa.array([None, -(2**63)], pa.int64()), operations(UPSERT, UPSERT)) == [
        KEEP_STORED,
        TAKE_INCOMING,
    ]


def test_ordering_values_that_are_not_there_are_an_error() -> None:
    with pytest.raises(HoodieException, match="'ts': the incoming rows"):
        resolve(DEFAULT, pa.array([1]), None, operations(UPSERT))


def java_order(value: Any) -> Any:
    """A Python value that compares as compareTo of the Java value does that Hudi has for it."""
    if isinstance(value, float):
        return (
            math.isnan(value),
            0.0 if math.isnan(value) else value,
            math.copysign(1.0, value) * (not math.isnan(value)),
        )
    if isinstance(value, str):
        return value.encode()  # Avro's strings compare by their bytes
    return value


VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int": (pa.int32(), st.integers(-3, 3) | st.integers(-(2**31), 2**31 - 1)),
    "long": (pa.int64(), st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1)),
    "double": (pa.float64(), st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]) | st.floats()),
    "float": (pa.float32(), st.sampled_from([0.0, -0.0, math.nan]) | st.floats(width=32)),
    "decimal": (pa.decimal128(20, 4), st.decimals(-(10**15), 10**15, places=4)),
    "string": (pa.string(), st.text(max_size=3) | st.text("a\u07ff\ud7ff\ue000\uffff\U00010000\U0010ffff", max_size=3)),
    "boolean": (pa.bool_(), st.booleans()),
    "date": (pa.date32(), st.dates()),
    "timestamp": (pa.timestamp("us", tz="UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
}


@pytest.mark.parametrize("kind", VALUES)
@given(data=st.data())
def test_every_ordering_type_compares_as_in_java(kind: str, data: st.DataObject) -> None:
    data_type, values = VALUES[kind]
    pairs = data.draw(st.lists(st.tuples(values, values), min_size=1, max_size=20))
    stored = pa.array([pair[0] for pair in pairs], data_type)
    incoming = pa.array([pair[1] for pair in pairs], data_type)
    expected = [KEEP_STORED if java_order(old) > java_order(new) else TAKE_INCOMING for old, new in pairs]
    assert resolve(DEFAULT, stored, incoming, operations(*[UPSERT] * len(pairs))) == expected


def test_types_of_one_kind_compare_with_each_other() -> None:
    upsert = operations(UPSERT)
    assert resolve(DEFAULT, pa.array([7], pa.int64()), pa.array([6], pa.int32()), upsert) == [KEEP_STORED]
    assert resolve(
        DEFAULT,
        pa.array([Decimal("1.5")], pa.decimal128(3, 1)),
        pa.array([Decimal("1.49")], pa.decimal128(5, 2)),
        upsert,
    ) == [KEEP_STORED]


def test_types_that_do_not_compare_are_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="string"):
        resolve(DEFAULT, pa.array([1]), pa.array(["1"]), operations(UPSERT))
    with pytest.raises(HoodieSchemaException, match="list"):
        resolve(DEFAULT, pa.array([[1]]), pa.array([[1]]), operations(UPSERT))


# ---------------------------------------------------------------------------------------------------- within the input

Row = tuple[str, str, int | None, int]


def table_of(rows: list[Row], numbers: list[int] | None = None) -> pa.Table:
    return pa.table(
        {
            "value": pa.array(range(len(rows))),
            RECORD_KEY: pa.array([row[0] for row in rows], pa.string()),
            PARTITION_PATH: pa.array([row[1] for row in rows], pa.string()),
            ORDERING_VALUE: pa.array([row[2] for row in rows], pa.int64()),
            OPERATION: pa.array([row[3] for row in rows], pa.int8()),
            ROW_NUMBER: pa.array(range(len(rows)) if numbers is None else numbers, pa.int64()),
        }
    )


def combined_by_dict(rows: list[Row], numbers: list[int]) -> list[int]:
    """Row indices that stay: rows put into a dict one after the other, as Hudi's preCombine does with two payloads."""
    kept: dict[tuple[str, str], int] = {}
    for index in sorted(range(len(rows)), key=lambda row: numbers[row]):
        key, path, ordering, operation = rows[index]
        other = kept.get((key, path))
        if other is None or operation == DELETE or rows[other][3] == DELETE:
            kept[key, path] = index
            continue
        previous = rows[other][2]
        if not (previous is not None and (ordering is None or previous > ordering)):
            kept[key, path] = index
    return sorted(kept.values(), key=lambda row: numbers[row])


rows_strategy = st.lists(
    st.tuples(
        st.sampled_from("abc"),
        st.sampled_from(["p", "q", ""]),
        st.none() | st.integers(0, 4),
        st.sampled_from([UPSERT, UPSERT, FLAGGED, DELETE]),
    ),
    max_size=30,
)


@given(rows=rows_strategy, data=st.data())
def test_combining_gives_the_rows_that_a_dict_would_hold(rows: list[Row], data: st.DataObject) -> None:
    numbers = data.draw(st.permutations([number * 7 for number in range(len(rows))]))
    result = OVERWRITE.combine_duplicates(table_of(rows, numbers))
    assert result["value"].to_pylist() == combined_by_dict(rows, numbers)
    assert result.schema == table_of(rows, numbers).schema


@given(rows=rows_strategy)
def test_combining_twice_changes_nothing(rows: list[Row]) -> None:
    once = DEFAULT.combine_duplicates(table_of(rows))
    assert DEFAULT.combine_duplicates(once).equals(once)


def test_without_ordering_values_the_later_row_wins() -> None:
    rows = table_of([("a", "p", None, UPSERT), ("b", "p", None, UPSERT), ("a", "p", None, UPSERT)])
    result = MergeSpec().combine_duplicates(rows.drop_columns([ORDERING_VALUE, OPERATION]))
    assert result["value"].to_pylist() == [1, 2]


def test_a_late_row_loses_within_the_input_whatever_the_payload() -> None:
    rows = table_of([("a", "p", 9, UPSERT), ("a", "p", 5, UPSERT), ("b", "p", 5, FLAGGED), ("b", "p", 5, UPSERT)])
    for spec in (DEFAULT, OVERWRITE):
        assert spec.combine_duplicates(rows)["value"].to_pylist() == [0, 3]


def test_rows_in_several_chunks_are_combined_together() -> None:
    rows = table_of([("a", "p", 9, UPSERT)])
    later = table_of([("a", "p", 9, UPSERT), ("b", "p", 1, UPSERT)], [1, 2])
    assert pa.concat_tables([rows, later]).num_rows == 3
    assert DEFAULT.combine_duplicates(pa.concat_tables([rows, later]))[ROW_NUMBER].to_pylist() == [1, 2]


# --------------------------------------------------------------------------------------------------- nulls in the input


def test_null_ordering_values_are_counted_but_for_plain_deletes() -> None:
    ordering = pa.array([1, None, None, None], pa.int64())
    assert null_ordering_count(ordering) == 3
    assert null_ordering_count(ordering, operations(UPSERT, UPSERT, FLAGGED, DELETE)) == 2
    assert null_ordering_count(pa.array([1]), operations(UPSERT)) == 0
    assert "2 records" in null_ordering_message(["ts"], 2)
    assert "'ts'" in null_ordering_message(["ts"], 2)
