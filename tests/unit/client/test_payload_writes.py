"""Tables of version 6 of every payload class, written in-process, hold what real Hudi 0.15.0 made of the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieUpsertException,
    HoodieWriteException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)
from tests.support.payload_cases import GOLDEN, SCHEMA, TABLES, PayloadTable, commits_of, outcome, steps_of
from tests.support.table_builder import local_client

pytestmark = pytest.mark.table_version(6)
MYSQL = "org.apache.hudi.common.model.debezium.MySqlDebeziumAvroPayload"


def create(base_path: Path, table: PayloadTable) -> HoodieTableMetaClient:
    return HoodieTableMetaClient.init_table(
        str(base_path),
        table_name=table.name,
        record_key_fields="id",
        ordering_fields=table.ordering_field,
        properties={"hoodie.compaction.payload.class": table.payload, **table.properties},
    )


def upsert(base_path: Path, rows: pa.Table, **properties: str) -> None:
    given = {key.replace("_", "."): value for key, value in properties.items()}
    with local_client(base_path, given) as client:
        client.upsert(rows)


@pytest.fixture(scope="module")
def golden() -> pa.Table:
    return pq.read_table(GOLDEN)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_what_hudi_made_of_the_same_rows(name: str, golden: pa.Table, tmp_path: Path) -> None:
    table = TABLES[name]
    create(tmp_path / "t", table)
    expected = golden.filter(pc.equal(golden["table"], name))
    for step, rows in enumerate(steps_of(table)):
        upsert(tmp_path / "t", rows)
        mine = outcome(hoodie.read_table(str(tmp_path / "t")), commits_of(tmp_path / "t"))
        theirs = expected.filter(pc.equal(expected["step"], step)).select(mine.column_names)
        assert mine.num_rows > 50
        assert mine.to_pylist() == theirs.to_pylist()


def rows(*values: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{"Op": "U", "ord": 1, **value} for value in values], SCHEMA)


@pytest.mark.parametrize("name", TABLES)
def test_a_null_in_the_ordering_field_is_refused_as_hudi_does(name: str, tmp_path: Path) -> None:
    table = TABLES[name]
    create(tmp_path / "t", table)
    with pytest.raises(HoodieWriteException, match=f"ordering field '{table.ordering_field}'"):
        upsert(tmp_path / "t", rows({"id": "k", table.ordering_field: None}))


@pytest.mark.parametrize(("name", "column"), [("mysql", "_event_seq"), ("postgres", "_event_lsn")])
def test_a_column_that_the_payload_needs_is_asked_for(name: str, column: str, tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES[name])
    with pytest.raises(MissingSchemaFieldException, match=f"AvroPayload, which needs the columns? .*{column}"):
        upsert(tmp_path / "t", rows({"id": "k"}).drop_columns([column]))


@pytest.mark.parametrize(
    ("name", "column", "value", "reason"),
    [
        ("mysql", "_event_seq", None, "_event_seq of the incoming record is null"),
        ("mysql", "_event_seq", "mysql-bin", "is 'mysql-bin', not the numbers 'file.offset'"),
        ("postgres", "_event_lsn", None, "_event_lsn of the incoming record is null"),
    ],
)
def test_a_record_without_a_position_fails_where_it_meets_a_stored_one(
    name: str, column: str, value: object, reason: str, tmp_path: Path
) -> None:
    create(tmp_path / "t", TABLES[name])
    good = {"_event_seq": "1.5", "_event_lsn": 7, "_change_operation_type": "c"}
    upsert(tmp_path / "t", rows({"id": "k", **good}, {"id": "l", **good}))
    update = rows({"id": "k", **good, "no": 2, column: value}, {"id": "l", **good, "_event_seq": "1.6", "no": 2})
    with pytest.raises(HoodieUpsertException, match=rf"1 records of instant .* \(k: .*{reason}"):
        upsert(tmp_path / "t", update)
    upsert(tmp_path / "t", update, hoodie_write_commit_on_errors="true")
    stored = hoodie.read_table(str(tmp_path / "t"), columns=["id", "no"]).to_pylist()
    assert stored == [{"id": "k", "no": None}, {"id": "l", "no": 2}]


def test_a_merge_mode_makes_the_payload_class_that_it_means(tmp_path: Path) -> None:
    for number, (mode, payload) in enumerate(
        {
            "COMMIT_TIME_ORDERING": "OverwriteWithLatestAvroPayload",
            "event_time_ordering": "DefaultHoodieRecordPayload",
        }.items()
    ):
        path = str(tmp_path / str(number))
        properties = {"hoodie.write.record.merge.mode": mode}
        hoodie.write_table(
            [{"id": "a", "ts": 1}], path, record_key_fields="id", ordering_fields="ts", properties=properties
        )
        stored = HoodieTableMetaClient.load(path).table_config
        assert stored.payload_class == f"org.apache.hudi.common.model.{payload}"
        assert "hoodie.record.merge.mode" not in stored.properties
        hoodie.write_table([{"id": "a", "ts": 1}], path, properties=properties)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}, "EVENT_TIME_ORDERING: .*means COMMIT_TIME_ORDER"),
        ({"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}, r"\(EVENT_TIME_ORDERING\)"),
        (
            {"hoodie.datasource.write.payload.class": "AWSDmsAvroPayload"},
            "AWSDmsAvroPayload': the table merges records",
        ),
        ({"hoodie.compaction.payload.type": "MYSQL_DEBEZIUM_AVRO"}, "MySqlDebeziumAvroPayload': the table merges"),
        (
            {"hoodie.payload.delete.field": "Op", "hoodie.payload.delete.marker": "D"},
            "OverwriteWithLatestAvroPayload ignores it",
        ),
        ({"hoodie.payload.delete.field": "Op"}, "delete.marker is missing"),
    ],
)
def test_a_writer_that_contradicts_the_table_is_refused_with_both_values(
    properties: dict[str, str], message: str, tmp_path: Path
) -> None:
    create(tmp_path / "t", TABLES["overwrite"])
    config = HoodieWriteConfig.from_properties(str(tmp_path / "t"), properties)
    with pytest.raises(HoodieConfigException, match=message), HoodieLocalWriteClient(config) as client:
        client.upsert(rows({"id": "k"}))


@pytest.mark.parametrize(
    "properties",
    [
        {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"},
        {"hoodie.datasource.write.payload.class": "com.uber.hoodie.common.model.OverwriteWithLatestAvroPayload"},
        {"hoodie.compaction.payload.type": "OVERWRITE_LATEST_AVRO"},
        {"hoodie.datasource.write.record.merger.impls": "org.apache.hudi.common.model.HoodieAvroRecordMerger"},
    ],
)
def test_a_writer_that_says_what_the_table_says_is_taken(properties: dict[str, str], tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["overwrite"])
    with local_client(tmp_path / "t", properties) as client:
        assert client.upsert(rows({"id": "k"})).is_committed


def test_a_writer_may_bring_the_delete_marker_that_a_table_does_not_store(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["default"])
    upsert(tmp_path / "t", rows({"id": "k"}, {"id": "l"}))
    markers = {"hoodie_payload_delete_field": "Op", "hoodie_payload_delete_marker": "D"}
    upsert(tmp_path / "t", rows({"id": "k", "Op": "D", "ord": 2}, {"id": "l", "Op": "D", "ord": 0}), **markers)
    assert hoodie.read_table(str(tmp_path / "t"), columns=["id"])["id"].to_pylist() == ["l"]


def test_the_column_of_the_marker_is_found_in_any_case(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["default"])
    upsert(tmp_path / "t", rows({"id": "k"}, {"id": "l"}))
    markers = {"hoodie_payload_delete_field": "oP", "hoodie_payload_delete_marker": "D"}
    upsert(tmp_path / "t", rows({"id": "k", "Op": "D", "ord": 2}, {"id": "l", "ord": 2}), **markers)
    assert hoodie.read_table(str(tmp_path / "t"), columns=["id"])["id"].to_pylist() == ["l"]


def test_a_marker_in_a_column_that_is_not_there_is_told_from_the_first_write_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    markers = {"hoodie_payload_delete_field": "Opp", "hoodie_payload_delete_marker": "D"}
    create(tmp_path / "t", TABLES["default"])
    for name in ("k", "l"):
        upsert(tmp_path / "t", rows({"id": name}), **markers)
        assert "field = Opp names a column" in caplog.text
        assert "(did you mean 'Op'?)" in caplog.text
        caplog.clear()
    assert hoodie.read_table(str(tmp_path / "t"), columns=["id"])["id"].to_pylist() == ["k", "l"]


def unflagged(*ids: str, order: int = 1) -> pa.Table:
    return rows(*({"id": name, "ord": order} for name in ids)).drop_columns("_hoodie_is_deleted")


def flagged(name: str, flag: object) -> pa.Table:
    return unflagged("k", order=2).append_column(name, pa.array([flag]))


@pytest.mark.parametrize("flag", ["true", 1])
@pytest.mark.parametrize("payload", ["default", "overwrite", "partial_update"])
def test_a_delete_flag_that_is_not_boolean_is_refused(payload: str, flag: object, tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES[payload])
    for _ in range(2):
        for name in ("_hoodie_is_deleted", "_HOODIE_is_deleted"):
            with pytest.raises(SchemaCompatibilityException, match=f"'{name}' has type .* Make it boolean"):
                upsert(tmp_path / "t", flagged(name, flag))
        upsert(tmp_path / "t", unflagged("k"))


@pytest.mark.parametrize("payload", ["default", "overwrite", "partial_update"])
def test_a_delete_flag_deletes_in_any_case_of_its_name(payload: str, tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES[payload])
    upsert(tmp_path / "t", unflagged("k", "l"))
    upsert(tmp_path / "t", flagged("_Hoodie_Is_Deleted", True))
    assert hoodie.read_table(str(tmp_path / "t"), columns=["id"])["id"].to_pylist() == ["l"]


def test_a_flag_that_a_table_stores_as_text_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create(tmp_path / "t", TABLES["default"])
    with monkeypatch.context() as patched:
        patched.setattr("hoodie.client.write_input.WriteInput._check_delete_flag", lambda self, columns: None)
        upsert(tmp_path / "t", flagged("_hoodie_is_deleted", "false"))
    upsert(tmp_path / "t", flagged("_hoodie_is_deleted", "true"))
    stored = hoodie.read_table(str(tmp_path / "t"), columns=["_hoodie_is_deleted"])
    assert stored["_hoodie_is_deleted"].to_pylist() == ["true"]


def test_a_marker_that_differs_from_the_tables_is_refused(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["default_marker"])
    with pytest.raises(HoodieConfigException, match="hoodie.payload.delete.marker = 'X': the table has 'D'"):
        upsert(tmp_path / "t", rows({"id": "k"}), hoodie_payload_delete_field="Op", hoodie_payload_delete_marker="X")


def test_an_unknown_payload_class_of_a_table_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["overwrite"])
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text().replace("OverwriteWithLatestAvroPayload", "HoodieJsonPayload"))
    with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.compaction\.payload\.class=.*HoodieJsonPayload"):
        upsert(tmp_path / "t", rows({"id": "k"}))
    assert commits_of(tmp_path / "t") == []


def test_the_old_name_of_a_payload_class_of_a_table_is_understood(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["aws_dms"])
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    old_name = "org.apache.hudi.payload.AWSDmsAvroPayload"
    properties.write_text(properties.read_text().replace(TABLES["aws_dms"].payload, old_name))
    upsert(tmp_path / "t", rows({"id": "k"}, {"id": "l", "Op": "d"}))
    assert hoodie.read_table(str(tmp_path / "t"), columns=["id"])["id"].to_pylist() == ["k"]
