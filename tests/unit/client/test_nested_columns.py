"""Writes of lists, structs and maps whose keys are too many to be handed to every task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.merge.payload_rules import (
    DEFAULT_PAYLOAD,
    OVERWRITE_NON_DEFAULTS_PAYLOAD,
    PARTIAL_UPDATE_PAYLOAD,
)
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import local_client

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("items", pa.list_(pa.field("element", pa.int64()))),
        ("place", pa.struct([("city", pa.string()), ("tags", pa.list_(pa.field("element", pa.string())))])),
        ("prices", pa.map_(pa.string(), pa.float64())),
    ]
)
Row = dict[str, Any]


def row(key: str, region: str, ts: int, value: int | None) -> Row:
    nested: Row = {"items": None, "place": None, "prices": None}
    if value is not None:
        nested = {
            "items": [value, None],
            "place": {"city": f"c{value}", "tags": [str(value)]},
            "prices": [("p", value)],
        }
    return {"id": key, "region": region, "ts": ts, **nested}


def table_of(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


def read(base_path: Path) -> list[Row]:
    return hoodie.read_table(str(base_path), columns=SCHEMA.names).sort_by("id").to_pylist()


@pytest.fixture(autouse=True)
def many_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of keys counts as too many."""
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
    monkeypatch.setattr(simple_index, "SHARED_KEY_BYTES", 0)
    monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)


def client_of(base_path: Path, payload: str, index: str) -> HoodieLocalWriteClient:
    HoodieTableMetaClient.init_table(
        str(base_path),
        table_name="nested",
        record_key_fields=["id"],
        partition_fields=["region"],
        ordering_fields=["ts"],
        properties={"hoodie.compaction.payload.class": payload},
    )
    properties = {"hoodie.index.type": index, "hoodie.simple.index.update.partition.path": "true"}
    return local_client(base_path, properties)


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, OVERWRITE_NON_DEFAULTS_PAYLOAD, PARTIAL_UPDATE_PAYLOAD])
def test_records_with_nested_columns_are_updated_and_deleted(
    tmp_path: Path, payload: str, index: str, table_version: int
) -> None:
    with client_of(tmp_path / "t", payload, index) as client:
        client.upsert(table_of(row("a", "x", 1, 1), row("b", "x", 1, 2), row("c", "y", 1, 3), row("d", "y", 1, None)))
        assert read(tmp_path / "t")[1] == row("b", "x", 1, 2)
        given = [row("a", "x", 2, 10), row("b", "x", 2, None), row("d", "y", 2, 40), row("e", "y", 2, 50)]
        last = row("e", "y", 1, 49)
        result = client.upsert(table_of(*given, last))
        assert (result.inserted_count, result.updated_count) == (1, 3)
        kept = row("b", "x", 2, None if payload == DEFAULT_PAYLOAD else 2)
        # In version 9 this payload stands for an order by commit time.
        is_by_time = table_version == 9 and payload == OVERWRITE_NON_DEFAULTS_PAYLOAD
        expected = [given[0], kept, row("c", "y", 1, 3), given[2], last if is_by_time else given[3]]
        assert read(tmp_path / "t") == expected
        client.delete(table_of(given[0], given[3]).select(["id", "region"]))
        assert read(tmp_path / "t") == expected[1:4]


@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, OVERWRITE_NON_DEFAULTS_PAYLOAD, PARTIAL_UPDATE_PAYLOAD])
def test_records_with_nested_columns_move_to_another_partition(tmp_path: Path, payload: str) -> None:
    with client_of(tmp_path / "t", payload, "GLOBAL_SIMPLE") as client:
        client.upsert(table_of(row("a", "x", 1, 1), row("b", "x", 1, 2)))
        client.upsert(table_of(row("a", "y", 2, 10), row("b", "y", 2, None)))
    kept = row("b", "y", 2, None if payload == DEFAULT_PAYLOAD else 2)
    assert read(tmp_path / "t") == [row("a", "y", 2, 10), kept]


def test_columns_that_view_the_same_values_from_different_rows_stay_apart(tmp_path: Path) -> None:
    HoodieTableMetaClient.init_table(
        str(tmp_path), table_name="t", record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]
    )
    values = pa.array(range(5), pa.int64())
    before, after = (pa.StructArray.from_arrays([values.slice(start, 4)], ["value"]) for start in (0, 1))
    keys, regions = pa.array(["a", "b", "c", "d"]), pa.array(["n", "s", "n", "s"])
    records = pa.table({"id": keys, "region": regions, "ts": values.slice(0, 4), "before": before, "after": after})

    with local_client(tmp_path) as client:
        client.bulk_insert(records)

    stored = hoodie.read_table(str(tmp_path), columns=records.column_names).sort_by("id")
    assert stored["before"].to_pylist() == [{"value": number} for number in range(4)]
    assert stored["after"].to_pylist() == [{"value": number} for number in range(1, 5)]
