from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieSchemaProviderException
from hoodie.utilities.sources.helpers.debezium_decoder import MYSQL, POSTGRES, DebeziumColumns, DebeziumDecoder
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin
from tests.support.table_builder import init_table, local_client

ROW = pa.struct([("id", pa.int64()), ("name", pa.string()), ("tags", pa.list_(pa.string()))])


@attrs.frozen
class PlainDecoder(MessageDecoder):
    """Takes events as Python's JSON reads them; passes over tombstones."""

    columns: pa.Schema

    @property
    def schema(self) -> pa.Schema:
        return self.columns

    def decode(self, messages: Messages) -> DecodedBatch:
        rows = [json.loads(value) for value in messages.values if value is not None]
        places = [place for place, value in enumerate(messages.values) if value is not None]
        batch = pa.RecordBatch.from_pylist(rows, schema=self.columns)
        return DecodedBatch(batch, None, RowOrigin(messages.offsets[places], messages.topic, messages.partition))


def event_schema(columns: DebeziumColumns, before: pa.DataType = ROW) -> pa.Schema:
    return pa.schema(
        [
            ("before", before), ("after", ROW), ("source", columns.source_type), ("op", pa.string()),
            ("ts_ms", pa.int64()), ("transaction", pa.string()),
        ]
    )  # fmt: skip


def messages_of(events: Sequence[Any]) -> Messages:
    count = len(events)
    values = [None if event is None else json.dumps(event).encode() for event in events]
    numbers = np.arange(100, 100 + count)
    return Messages("db.public.t", 3, numbers, values, [None] * count, numbers)


def row(number: int, name: str | None = None, tags: list[str | None] | None = None) -> dict[str, Any]:
    return {"id": number, "name": name, "tags": tags}


def of_postgres(op: str | None, before: Any = None, after: Any = None, lsn: int = 7) -> dict[str, Any]:
    source = {"name": "server", "schema": "public", "ts_ms": 4, "txId": 5, "lsn": lsn, "xmin": None, "db": "d"}
    return {"op": op, "ts_ms": 6, "before": before, "after": after, "source": source}


def of_mysql(op: str, before: Any = None, after: Any = None, file: Any = "mysql-bin.000012", pos: Any = 345) -> Any:
    return {
        "op": op, "ts_ms": 6, "before": before, "after": after,
        "source": {"name": "server", "ts_ms": 4, "file": file, "pos": pos, "row": 1},
    }  # fmt: skip


def test_events_of_postgresql_become_flat_rows_in_their_order() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES)), POSTGRES)

    decoded = decoder.decode(
        messages_of(
            [
                of_postgres("r", None, row(1, "a")),
                None,
                of_postgres("u", row(1, "a"), row(1, "b", ["x", None])),
                of_postgres("d", row(1, "b"), None),
                of_postgres("c", None, row(2, "c")),
            ]
        )
    )

    added = {
        "_upstream_event_processed_ts_ms": 6, "db_shard_source_partition": "server",
        "db_schema_source_partition": "public", "_event_origin_ts_ms": 4, "_event_tx_id": 5, "_event_lsn": 7,
        "_event_xmin": None,
    }  # fmt: skip
    assert decoded.rows.to_pylist() == [
        {"_change_operation_type": "r", **added, "id": 1, "name": "a", "tags": None},
        {"_change_operation_type": "u", **added, "id": 1, "name": "b", "tags": "[x, null]"},
        {"_change_operation_type": "d", **added, "id": 1, "name": "b", "tags": None},
        {"_change_operation_type": "c", **added, "id": 2, "name": "c", "tags": None},
    ]
    assert decoded.rows.schema == decoder.schema
    assert decoded.origin is not None
    assert decoded.origin.numbers.tolist() == [100, 102, 103, 104]
    assert decoded.errors is None


def test_events_of_mysql_have_their_position_in_the_binlog() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(MYSQL)), MYSQL)

    decoded = decoder.decode(messages_of([of_mysql("c", None, row(1, "a")), of_mysql("d", row(1, "a"), file="a.b.7")]))

    assert decoded.rows.schema.names == [
        "_change_operation_type", "_upstream_event_processed_ts_ms", "db_shard_source_partition", "_event_origin_ts_ms",
        "_event_bin_file", "_event_pos", "_event_row", "id", "name", "tags", "_event_seq",
    ]  # fmt: skip
    assert decoded.rows["_event_seq"].to_pylist() == ["000012.345", "7.345"]
    assert decoded.rows["_event_row"].to_pylist() == [1, 1]
    assert decoded.rows["id"].to_pylist() == [1, 1]


def test_events_in_a_payload_of_connect_are_read_too() -> None:
    schema = pa.schema([("payload", pa.struct(list(event_schema(POSTGRES))))])
    decoder = DebeziumDecoder(PlainDecoder(schema), POSTGRES, marks_deletes=True)

    decoded = decoder.decode(
        messages_of([{"payload": of_postgres("d", row(1)), "schema": {}}, {"payload": of_postgres("c", None, row(2))}])
    )

    assert decoded.rows["id"].to_pylist() == [1, 2]
    assert decoded.rows["_hoodie_is_deleted"].to_pylist() == [True, False]


def test_events_that_tell_no_row_are_errors_and_the_others_are_rows() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES)), POSTGRES)
    events = [
        of_postgres("d", None, None),
        of_postgres("c", None, row(2)),
        of_postgres("t"),
        of_postgres("m"),
        of_postgres(None, None, row(3)),
        of_postgres("x", None, row(3)),
        of_postgres("u", row(1), None),
    ]

    decoded = decoder.decode(messages_of(events))

    assert decoded.rows["id"].to_pylist() == [2]
    assert decoded.origin is not None
    assert decoded.origin.numbers.tolist() == [101]
    assert decoded.errors is not None
    found = decoded.errors.to_pylist()
    assert [(error["offset"], error["topic"], error["partition"]) for error in found] == [
        (offset, "db.public.t", 3) for offset in (100, 102, 104, 105, 106)
    ]
    assert [error["message"].split(":")[0] for error in found] == [
        "a delete without before tells no row", "op is 't'", "op is None", "op is 'x'",
        "an event of op 'u' without after tells no row",
    ]  # fmt: skip
    assert json.loads(found[0]["payload"]) == events[0]


@pytest.mark.parametrize(("file", "pos"), [(None, 1), (" ", 1), ("f.1", None), ("f.1", -1)])
def test_an_event_of_mysql_without_a_position_is_an_error(file: Any, pos: Any) -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(MYSQL)), MYSQL)

    decoded = decoder.decode(messages_of([of_mysql("c", None, row(1), file, pos)]))

    assert len(decoded.rows) == 0
    assert decoded.errors is not None
    assert decoded.errors["message"].to_pylist() == ["source.file and source.pos tell no position in a binlog"]


def test_a_block_of_tombstones_gives_nothing() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES)), POSTGRES)

    decoded = decoder.decode(messages_of([None, None]))

    assert len(decoded.rows) == 0
    assert decoded.rows.schema == decoder.schema


def test_events_without_columns_before_are_rows() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES, pa.string())), POSTGRES)

    assert decoder.decode(messages_of([of_postgres("c", None, row(1))])).rows["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (pa.schema([("id", pa.int64())]), "has the columns id, and no op"),
        (pa.schema([("op", pa.string())]), "neither after nor before has columns"),
        (
            pa.schema([("op", pa.string()), ("after", pa.struct([("_event_lsn", pa.int64())]))]),
            "_event_lsn, which are added",
        ),
    ],
)
def test_a_schema_of_something_else_is_refused(schema: pa.Schema, message: str) -> None:
    with pytest.raises(HoodieSchemaProviderException, match=message):
        _ = DebeziumDecoder(PlainDecoder(schema), POSTGRES).schema


def test_the_decoder_travels_to_tasks() -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES)), POSTGRES)

    copy = pickle.loads(pickle.dumps(decoder))

    assert copy.schema == decoder.schema


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("columns", "make", "payload"),
    [(POSTGRES, of_postgres, "PostgresDebeziumAvroPayload"), (MYSQL, of_mysql, "MySqlDebeziumAvroPayload")],
)
def test_tables_with_the_payloads_of_debezium_take_the_rows(
    tmp_path: Path, version: int, columns: DebeziumColumns, make: Any, payload: str
) -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(columns)), columns)
    ordering = "_event_lsn" if columns is POSTGRES else "_event_seq"
    init_table(
        tmp_path / "t", record_key_fields=["id"], partition_fields=[], ordering_fields=[ordering],
        payload_class=f"org.apache.hudi.common.model.debezium.{payload}", table_version=version,
    )  # fmt: skip

    def at(number: int) -> dict[str, int]:
        return {"lsn" if columns is POSTGRES else "pos": number}

    rounds = [
        [make("c", None, row(number, name), **at(number)) for number, name in enumerate("abc", 1)],
        [make("u", row(1), row(1, "later"), **at(9)), make("d", row(2), None, **at(10))],
        [make("u", row(1), row(1, "late"), **at(8))],
    ]  # fmt: skip
    with local_client(tmp_path / "t") as client:
        for events in rounds:
            client.upsert(pa.Table.from_batches([decoder.decode(messages_of(events)).rows]))

    found = hoodie.read_table(str(tmp_path / "t"), columns=["id", "name"]).sort_by("id").to_pylist()
    assert found == [{"id": 1, "name": "later"}, {"id": 3, "name": "c"}]


def test_without_such_a_payload_the_mark_deletes(tmp_path: Path) -> None:
    decoder = DebeziumDecoder(PlainDecoder(event_schema(POSTGRES)), POSTGRES, marks_deletes=True)
    init_table(tmp_path / "t", record_key_fields=["id"], partition_fields=[], ordering_fields=["_event_lsn"])
    events = [of_postgres("c", None, row(1)), of_postgres("c", None, row(2)), of_postgres("d", row(1), None, lsn=9)]
    with local_client(tmp_path / "t") as client:
        for event in events:
            client.upsert(pa.Table.from_batches([decoder.decode(messages_of([event])).rows]))

    assert hoodie.read_table(str(tmp_path / "t"), columns="id").to_pylist() == [{"id": 2}]
