"""Some columns of some keys are changed, and the others keep their values."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieRecord, HoodieTableMetaClient
from hoodie.exception import (
    HoodieKeyException,
    HoodieSchemaException,
    HoodieUpsertException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)
from tests.support.table_builder import local_client

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("tip", pa.float64()),
        pa.field("driver", pa.string(), nullable=False),
    ]
)
STORED = [
    {"id": "a", "region": "x", "ts": 5, "fare": 1.0, "tip": 0.1, "driver": "ann"},
    {"id": "b", "region": "x", "ts": 5, "fare": 2.0, "tip": None, "driver": "bob"},
    {"id": "c", "region": "y", "ts": 5, "fare": 3.0, "tip": 0.3, "driver": "cy"},
]
PARTIAL = {"hoodie.write.partial.update": True}
PAYLOAD = "hoodie.compaction.payload.class"


def create(tmp_path: Path, payload: str = "DefaultHoodieRecordPayload") -> str:
    base_path = str(tmp_path / "trips")
    HoodieTableMetaClient.init_table(
        base_path,
        table_name="trips",
        record_key_fields="id",
        partition_fields="region",
        ordering_fields="ts",
        schema=SCHEMA,
        properties={PAYLOAD: payload},
    )
    hoodie.write_table(pa.Table.from_pylist(STORED, SCHEMA), base_path)
    return base_path


def read(base_path: str) -> dict[str, dict[str, Any]]:
    return {row.pop("id"): row for row in hoodie.read_table(base_path, columns=SCHEMA.names).to_pylist()}


def stored(key: str, **changes: Any) -> dict[str, Any]:
    (row,) = [row for row in STORED if row["id"] == key]
    return {name: value for name, value in {**row, **changes}.items() if name != "id"}


def test_two_columns_of_two_keys_are_changed(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = pa.table({"region": ["x", "y"], "id": ["b", "c"], "tip": [9.0, 8.0], "fare": [7.0, 6.0]})
    result = hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert (result.updated_count, result.inserted_count) == (2, 0)
    assert read(base_path)["a"] == stored("a")
    assert read(base_path)["b"] == stored("b", tip=9.0, fare=7.0)
    assert read(base_path)["c"] == stored("c", tip=8.0, fare=6.0)


def test_a_null_that_is_given_is_written_and_a_column_that_is_not_given_stays(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    hoodie.write_table([{"id": "a", "region": "x", "fare": None}], base_path, properties=PARTIAL)
    assert read(base_path)["a"] == stored("a", fare=None)


def test_the_ordering_field_decides_where_it_is_given(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [{"id": "a", "region": "x", "ts": 4, "fare": 9.0}, {"id": "b", "region": "x", "ts": 6, "fare": 9.0}]
    hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert read(base_path)["a"] == stored("a")
    assert read(base_path)["b"] == stored("b", ts=6, fare=9.0)


def test_of_two_changes_of_one_key_the_newer_counts_and_without_ordering_the_later(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [{"id": "a", "region": "x", "fare": 8.0}, {"id": "a", "region": "x", "fare": 9.0}]
    hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert read(base_path)["a"] == stored("a", fare=9.0)
    ordered = [{**changes[0], "ts": 7}, {**changes[1], "ts": 6}]
    hoodie.write_table(ordered, base_path, properties=PARTIAL)
    assert read(base_path)["a"] == stored("a", fare=8.0, ts=7)


def test_a_key_that_is_not_in_the_table_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [{"id": "a", "region": "x", "fare": 9.0}, {"id": "new", "region": "x", "fare": 9.0}]
    with pytest.raises(HoodieKeyException, match="1 of the keys .* not in the table, among them 'new'; nothing was"):
        hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert read(base_path) == {key: stored(key) for key in "abc"}
    assert len(list(Path(base_path).rglob("*.parquet"))) == 2


def test_a_key_that_is_not_in_the_table_is_inserted_where_that_is_wanted(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    wanted = {**PARTIAL, "hoodie.write.partial.update.missing.keys": "INSERT"}
    changes = [{"id": "new", "region": "x", "driver": "dee"}, {"id": "a", "region": "x", "driver": "al"}]
    result = hoodie.write_table(changes, base_path, properties=wanted)
    assert (result.updated_count, result.inserted_count) == (1, 1)
    assert read(base_path)["new"] == {"region": "x", "ts": None, "fare": None, "tip": None, "driver": "dee"}
    assert read(base_path)["a"] == stored("a", driver="al")


def test_a_record_is_not_inserted_without_a_column_that_is_never_null(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    wanted = {**PARTIAL, "hoodie.write.partial.update.missing.keys": "INSERT"}
    with pytest.raises(HoodieUpsertException, match="new: column driver is null"):
        hoodie.write_table([{"id": "new", "region": "x", "fare": 1.0}], base_path, properties=wanted)


def test_a_delete_among_changes_deletes(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    hoodie.write_table(
        [
            {"id": "a", "region": "x", "_hoodie_is_deleted": True},
            {"id": "b", "region": "x", "_hoodie_is_deleted": False},
        ],
        base_path,
        properties=PARTIAL,
    )
    assert read(base_path) == {"b": stored("b"), "c": stored("c")}


def test_a_misspelt_column_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    for changes in (
        [{"id": "a", "region": "x", "fair": 9.0}],
        pa.table({"id": ["a"], "region": ["x"], "fair": [9.0]}),
        pa.table({"id": ["a"], "region": ["x"], "fair": pa.nulls(1, pa.float64())}),
    ):
        with pytest.raises(
            SchemaCompatibilityException, match=r"'fair' \(nearest: 'fare'\); nothing was written.*=ADD"
        ):
            hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert "fair" not in hoodie.read_table(base_path).schema.names
    assert read(base_path) == {key: stored(key) for key in "abc"}


def test_all_misspelt_columns_are_named_beside_those_that_are_there(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [{"id": "a", "REGION": "x", "TIP": 2.0, "Fares": 9.0, "drivr": "al"}]
    with pytest.raises(SchemaCompatibilityException) as caught:
        hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert "'Fares' (nearest: 'fare'), 'drivr' (nearest: 'driver')" in str(caught.value)
    assert "TIP" not in str(caught.value)


def test_a_partial_update_with_all_columns_adds_none_either(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    with pytest.raises(SchemaCompatibilityException, match="'rating'"):
        hoodie.write_table([{**STORED[0], "rating": 5}], base_path, properties=PARTIAL)
    hoodie.write_table([{**STORED[0], "rating": 5}], base_path)
    assert "rating" in hoodie.read_table(base_path).schema.names


def test_a_new_column_can_be_given_for_some_keys_where_that_is_wanted(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    wanted = {**PARTIAL, "hoodie.write.partial.update.new.columns": "ADD"}
    hoodie.write_table([{"id": "a", "region": "x", "rating": 5}], base_path, properties=wanted)
    ratings = hoodie.read_table(base_path, columns=["id", "rating", "driver"]).sort_by("id").to_pylist()
    assert ratings[0] == {"id": "a", "rating": 5, "driver": "ann"}
    assert [row["rating"] for row in ratings[1:]] == [None, None]


def test_a_misspelt_member_of_a_struct_is_refused_with_the_nearest_one(tmp_path: Path) -> None:
    base_path = str(tmp_path / "places")
    place = {"name": "rome", "zone": 1}
    rows = [{"id": "a", "place": place, "visits": [place], "by_day": [("mo", place)], "n": 1}]
    inner = pa.struct([("name", pa.string()), ("zone", pa.int64())])
    schema = pa.schema(
        [("id", pa.string()), ("place", inner), ("visits", pa.list_(inner)), ("by_day", pa.map_(pa.string(), inner)),
         ("n", pa.int64())]
    )  # fmt: skip
    hoodie.write_table(pa.Table.from_pylist(rows, schema), base_path, table_name="places", record_key_fields="id")
    wrong = pa.struct([*inner, ("zome", pa.int64())])
    for name, kind, path in (
        ("place", wrong, "place.zome"),
        ("visits", pa.large_list(wrong), "visits.element.zome"),
        ("by_day", pa.map_(pa.string(), wrong), "by_day.value.zome"),
    ):
        changes = pa.table({"id": ["a"], name: pa.nulls(1, kind)})
        nearest = path.replace("zome", "zone")
        with pytest.raises(SchemaCompatibilityException, match=rf"'{path}' \(nearest: '{nearest}'\)"):
            hoodie.write_table(changes, base_path, properties=PARTIAL)
    assert hoodie.read_table(base_path).schema.field("place").type == inner


def test_a_partial_update_can_be_the_first_write(tmp_path: Path) -> None:
    base_path = str(tmp_path / "new")
    wanted = {**PARTIAL, "hoodie.write.partial.update.missing.keys": "INSERT"}
    hoodie.write_table([{"id": "a", "n": 1}], base_path, table_name="new", record_key_fields="id", properties=wanted)
    assert hoodie.read_table(base_path, columns=["id", "n"]).to_pylist() == [{"id": "a", "n": 1}]


@pytest.mark.parametrize("payload", ["PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"])
def test_a_payload_that_merges_fields_adds_columns_only_where_none_is_lacking(payload: str, tmp_path: Path) -> None:
    base_path = create(tmp_path, payload)
    with pytest.raises(SchemaCompatibilityException, match=r"'fair' \(nearest: 'fare'\)"):
        hoodie.write_table([{"id": "a", "region": "x", "fair": 5.0}], base_path)
    assert "fair" not in hoodie.read_table(base_path).schema.names
    hoodie.write_table([{**STORED[0], "rating": 5}], base_path)
    wanted = {"hoodie.write.partial.update.new.columns": "ADD"}
    hoodie.write_table([{"id": "a", "region": "x", "stars": 6}], base_path, properties=wanted)
    assert {"rating", "stars"} < set(hoodie.read_table(base_path).schema.names)


def test_records_with_different_columns_are_refused_because_nobody_knows_what_is_absent(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [{"id": "a", "region": "x", "fare": 1.0}, {"id": "b", "region": "x", "tip": 1.0}]
    with pytest.raises(HoodieSchemaException, match="records 0 and 1 .* different columns, fare, tip"):
        hoodie.write_table(changes, base_path, properties=PARTIAL)


def test_a_record_without_data_changes_nothing_to_null(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    changes = [HoodieRecord(HoodieKey("a", "x"), {"tip": 9.0}), HoodieRecord(HoodieKey("b", "x"))]
    with local_client(base_path, PARTIAL) as client:
        with pytest.raises(HoodieSchemaException, match="records 0 and 1 .* different columns, tip"):
            client.upsert(changes)
        client.upsert([changes[0], HoodieRecord(HoodieKey("b", "x"), operation="delete")])  # type: ignore[arg-type]
    assert list(read(base_path)) == ["a", "c"]


def test_records_with_keys_change_the_columns_of_their_data(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    with local_client(base_path, PARTIAL) as client:
        client.upsert([HoodieRecord(HoodieKey("a", "x"), {"tip": None})])
    assert read(base_path)["a"] == stored("a", tip=None)


def test_a_key_column_is_needed(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    with pytest.raises(HoodieKeyException, match="region"):
        hoodie.write_table([{"id": "a", "fare": 1.0}], base_path, properties=PARTIAL)


def test_without_the_option_a_missing_column_is_refused(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    with pytest.raises(MissingSchemaFieldException, match="tip"):
        hoodie.write_table([{"id": "a", "region": "x", "ts": 9, "fare": 1.0, "driver": "x"}], base_path)


def test_an_insert_is_no_partial_update(tmp_path: Path) -> None:
    base_path = create(tmp_path)
    with pytest.raises(MissingSchemaFieldException):
        hoodie.write_table([{"id": "d", "region": "x"}], base_path, operation="insert", properties=PARTIAL)


def test_a_delete_is_no_partial_update_and_says_so(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    base_path = create(tmp_path)
    keys = pa.table({"id": ["a", "nobody"], "region": ["x", "x"]})
    with caplog.at_level(logging.DEBUG, "hoodie"):
        result = hoodie.write_table(keys, base_path, operation="delete", properties=PARTIAL)
    assert result.deleted_count == 1
    assert read(base_path) == {key: stored(key) for key in "bc"}
    said = [record.levelname for record in caplog.records if "hoodie.write.partial.update = true" in record.message]
    assert said == ["WARNING", "DEBUG"]


@pytest.mark.parametrize("payload", ["PartialUpdateAvroPayload", "OverwriteNonDefaultsWithLatestAvroPayload"])
def test_a_table_whose_payload_merges_fields_takes_fewer_columns_without_being_asked(
    payload: str, tmp_path: Path
) -> None:
    base_path = create(tmp_path, payload)
    hoodie.write_table([{"id": "a", "region": "x", "fare": None, "tip": 5.0}], base_path)
    assert read(base_path)["a"] == stored("a", tip=5.0), "a null is no value for this payload"


@pytest.mark.parametrize("moves", [True, False])
def test_a_key_that_changes_its_partition_is_not_missing(moves: bool, tmp_path: Path) -> None:
    base_path = create(tmp_path)
    options = {
        **PARTIAL, "hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": moves
    }  # fmt: skip
    hoodie.write_table([{"id": "a", "region": "z", "fare": 9.0}], base_path, properties=options)
    assert read(base_path)["a"] == stored("a", region="z", fare=9.0)
    partitions = hoodie.read_table(base_path, columns=["id", "_hoodie_partition_path"]).to_pylist()
    assert {row["id"]: row["_hoodie_partition_path"] for row in partitions}["a"] == ("z" if moves else "x")
    with pytest.raises(HoodieKeyException, match="1 of the keys .* 'new'"):
        hoodie.write_table(
            [{"id": "b", "region": "z", "fare": 1.0}, {"id": "new", "region": "z", "fare": 1.0}],
            base_path,
            properties=options,
        )
