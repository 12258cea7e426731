"""Partial updates of merge-on-read tables: rows that readers could not merge, or that would have no effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieKeyException, HoodieUpsertException, MissingSchemaFieldException
from tests.support.table_builder import SCHEMA, TRIPS, init_table, local_client, read_trips, rows

PARTIAL = {"hoodie.write.partial.update": "true"}
INSERTS_KEYS = {**PARTIAL, "hoodie.write.partial.update.missing.keys": "INSERT"}
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)


def fares(**fares: float) -> pa.Table:
    return pa.table({"id": list(fares), "region": ["x"] * len(fares), "fare": list(fares.values())})


def make(tmp_path: Path, payload_class: str | None = None, **properties: Any) -> Path:
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", payload_class=payload_class))
    with local_client(path, properties) as client:
        client.upsert(rows(("a", "x", 10, 1.0), ("b", "x", 10, 1.0)))
    return path


@every_version
def test_a_change_that_would_lose_by_its_stored_ordering_value_is_refused(tmp_path: Path, table_version: int) -> None:
    path = make(tmp_path, "FirstValueAvroPayload")
    with local_client(path, PARTIAL) as client:
        with pytest.raises(MissingSchemaFieldException, match=r"without the column 'ts'.*FirstValueAvroPayload"):
            client.upsert(fares(a=5.0))
        client.upsert(fares(a=5.0).append_column("ts", pa.array([11], pa.int64())))
    assert read_trips(path) == [("a", "x", 11, 5.0), ("b", "x", 10, 1.0)]


@pytest.mark.parametrize("table_version", [6, 8], indirect=True)
def test_a_change_without_binlog_position_is_refused(tmp_path: Path, table_version: int) -> None:
    schema = SCHEMA.append(pa.field("_event_seq", pa.string())).append(pa.field("_change_operation_type", pa.string()))
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", payload_class="MySqlDebeziumAvroPayload")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1, "1.1", "c"), schema=schema))
    with (
        local_client(path, PARTIAL) as client,
        pytest.raises(MissingSchemaFieldException, match="without the column '_event_seq'"),
    ):
        client.upsert(pa.table({"id": ["a"], "region": ["x"], "ts": [2]}))


@every_version
def test_a_change_without_log_sequence_number_gets_the_stored_one(tmp_path: Path, table_version: int) -> None:
    schema = pa.schema(
        [*SCHEMA, ("fare", pa.float64()), ("_event_lsn", pa.int64()), ("_change_operation_type", pa.string())]
    )
    arguments: dict[str, Any] = {"payload_class": "PostgresDebeziumAvroPayload"}
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", **arguments)
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1, 1.0, 7, "c"), ("b", "x", 1, 1.0, 7, "c"), schema=schema))
    with local_client(path, PARTIAL) as client:
        client.upsert(fares(a=5.0))
    assert read_trips(path) == [("a", "x", 1, 5.0), ("b", "x", 1, 1.0)]


@every_version
@pytest.mark.parametrize("payload_class", [None, "PartialUpdateAvroPayload"])
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET"])
def test_a_new_record_without_ordering_value_is_refused(
    tmp_path: Path, table_version: int, payload_class: str | None, index: str
) -> None:
    properties = BUCKET if index == "BUCKET" else {"hoodie.index.type": index}
    path = make(tmp_path, payload_class, **properties)
    with local_client(path, {**properties, **INSERTS_KEYS}) as client:
        client.upsert(fares(a=5.0))
        with pytest.raises((HoodieKeyException, HoodieUpsertException), match="'ts'.*'n'|'n'.*'ts'"):
            client.upsert(fares(n=5.0, a=6.0))
        assert read_trips(path) == [("a", "x", 10, 5.0), ("b", "x", 10, 1.0)]
        client.upsert(fares(n=5.0).append_column("ts", pa.array([3], pa.int64())))
        client.upsert(rows(("n", "x", 4, 7.0)))
    assert read_trips(path) == [("a", "x", 10, 5.0), ("b", "x", 10, 1.0), ("n", "x", 4, 7.0)]


@pytest.mark.parametrize("changes", [rows(), rows(("a", "x", 1))], ids=["no rows", "one row"])
def test_a_table_that_never_had_rows_takes_the_columns_of_a_partial_update(tmp_path: Path, changes: pa.Table) -> None:
    payload_class = "PartialUpdateAvroPayload"
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", payload_class=payload_class)
    with local_client(path, BUCKET) as client:
        client.upsert(rows(schema=TRIPS))
    with local_client(path, {**BUCKET, **INSERTS_KEYS}) as client:
        client.upsert(changes)
    assert hoodie.read_table(path, columns=SCHEMA.names).to_pylist() == changes.to_pylist()
    assert "fare" not in hoodie.read_table(path).column_names
