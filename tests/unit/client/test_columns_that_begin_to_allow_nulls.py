"""Columns that the first input said are never null, and that a later input has nulls in."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieException, MissingSchemaFieldException
from tests.support.pairs import each_pair
from tests.support.table_builder import local_client

Row = dict[str, Any]
KEYS = [pa.field(name, pa.string(), nullable=False) for name in ("id", "part")]
STATISTICS = {"hoodie.metadata.enable": "true", "hoodie.metadata.index.column.stats.enable": "true"}


def field(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


def schema_of(data_type: pa.DataType, *, is_required: bool = False) -> pa.Schema:
    required = [*KEYS, field("ts", pa.int64()), field("v", data_type)]
    return pa.schema(required if is_required else [f.with_nullable(True) for f in required])


MAP = pa.map_(pa.string(), field("value", pa.int32()))
FORMS: dict[str, tuple[pa.DataType, pa.DataType, Any, list[Any]]] = {
    "column": (pa.string(), pa.string(), "x", [None]),
    "element": (pa.list_(field("element", pa.int32())), pa.list_(pa.int32()), [1, 2], [[1, None], None, []]),
    "field": (pa.struct([field("x", pa.int32())]), pa.struct([("x", pa.int32())]), {"x": 1}, [{"x": None}, None]),
    "value": (MAP, pa.map_(pa.string(), pa.int32()), [("k", 1)], [[("k", None), ("l", 1)], None, []]),
    "deep": (
        pa.list_(field("element", pa.struct([field("x", MAP)]))),
        pa.list_(pa.struct([("x", pa.map_(pa.string(), pa.int32()))])),
        [{"x": [("k", 1)]}],
        [[{"x": [("k", None)]}, None, {"x": None}], None],
    ),
}
"""Types that allow no nulls, the same types that do, a value of the ones and values of the others."""


def rows(schema: pa.Schema, first: int, values: list[Any], ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{first + n}", "part": "x", "ts": ts, "v": value} for n, value in enumerate(values)], schema
    )


def schema_in(path: Path) -> pa.Schema:
    schema = hoodie.read_table(str(path)).schema
    return pa.schema([schema.field(name) for name in ("id", "part", "ts", "v")])


@pytest.fixture
def made(tmp_path: Path, table_type: str) -> Iterator[Any]:
    def make(schema: pa.Schema, value: Any, **properties: str) -> Any:
        fields = {"record_key_fields": "id", "partition_fields": "part", "ordering_fields": "ts"}
        HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", table_type=table_type, **fields)
        inline = {"hoodie.compact.inline": "false"} if table_type == "MERGE_ON_READ" else {}
        client = local_client(tmp_path / "t", {**STATISTICS, **inline, **properties})
        client.upsert(rows(schema, 0, [value] * 6, 1))
        return client

    return make


@pytest.fixture(params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table_type(request: pytest.FixtureRequest) -> str:
    """Of the table of the test."""
    return str(request.param)


@each_pair(
    indirect=["table_version", "table_type"],
    form=list(FORMS),
    as_dicts=[False, True],
    table_version=[6, 9],
    table_type=["COPY_ON_WRITE", "MERGE_ON_READ"],
)
def test_nulls_are_taken_merged_and_compacted_beside_files_of_the_older_schema(
    tmp_path: Path, made: Any, table_type: str, form: str, as_dicts: bool
) -> None:
    strict, relaxed, value, nulls = FORMS[form]
    required, nullable = schema_of(strict, is_required=True), schema_of(relaxed)
    expected: dict[str, Row] = {row["id"]: row for row in rows(required, 0, [value] * 6, 1).to_pylist()}

    def check() -> None:
        path = str(tmp_path / "t")
        found = hoodie.read_table(path, columns=required.names)
        assert {row["id"]: row for row in found.to_pylist()} == expected
        found = hoodie.read_table(path, columns=["id"], filters=pc.field("v").is_null())
        assert set(found["id"].to_pylist()) == {key for key, row in expected.items() if row["v"] is None}

    with made(required, value) as client:
        # Log files of the older schema, in a merge-on-read table.
        for table in (
            rows(required, 0, [value] * 2, 2),
            rows(nullable, 1, nulls, 3),
            rows(nullable, 9, nulls, 3),
            rows(required, 0, [value], 4),
        ):
            is_null = table.schema.field("v").nullable
            client.upsert(table.to_pylist() if as_dicts and is_null else table)
            expected |= {row["id"]: row for row in table.to_pylist()}
            check()
        if table_type == "MERGE_ON_READ":
            client.compact()
            check()
            table = rows(nullable, 2, nulls, 5)
            client.upsert(table.to_pylist() if as_dicts else table)
            expected |= {row["id"]: row for row in table.to_pylist()}
            check()
    wanted = [*KEYS, field("ts", pa.int64()).with_nullable(not as_dicts)]
    has_null = None in nulls or not as_dicts
    found = schema_in(tmp_path / "t")
    assert found.equals(pa.schema([*wanted, pa.field("v", relaxed, nullable=has_null)]))


def test_a_column_goes_into_a_union_with_null_and_nothing_else_changes(tmp_path: Path, made: Any, caplog: Any) -> None:
    path = tmp_path / "t"
    with made(schema_of(pa.string(), is_required=True), "x") as client, caplog.at_level(logging.INFO, "hoodie"):
        before = json.loads(HoodieTableMetaClient.load(str(path)).load_avro_schema() or "")
        plan = client.explain_upsert(rows(schema_of(pa.string()), 0, [None], 2))
        assert [str(change) for change in plan.column_changes] == [
            "ts allows nulls from now on",
            "v allows nulls from now on",
        ]
        client.upsert(rows(schema_of(pa.string()), 0, [None], 2))
    assert "columns ts, v allow nulls from now on" in caplog.text
    after = json.loads(HoodieTableMetaClient.load(str(path)).load_avro_schema() or "")
    assert after["fields"][:2] == before["fields"][:2]
    assert after["fields"][3] == {"name": "v", "type": ["null", "string"], "default": None}


def test_key_and_partition_columns_never_begin_to_allow_nulls(tmp_path: Path, made: Any) -> None:
    with made(schema_of(pa.string(), is_required=True), "x") as client:
        for name in ("id", "part"):
            row: Row = {"id": "k0", "part": "x", "ts": 2, "v": "y"}
            with pytest.raises(HoodieException, match=name):
                client.upsert([row | {name: None}])
            with pytest.raises(HoodieException, match=name):
                client.upsert(pa.Table.from_pylist([row | {name: None}], schema_of(pa.string())))
        client.upsert(rows(schema_of(pa.string()), 0, ["y"], 2))
    schema = schema_in(tmp_path / "t")
    assert [f.name for f in schema if not f.nullable] == ["id", "part"]


def test_a_missing_column_is_null_only_where_that_is_asked_for(tmp_path: Path, made: Any) -> None:
    schema = schema_of(pa.string(), is_required=True)
    fewer = rows(schema, 0, ["y"], 2).drop_columns(["v"])
    with made(schema, "x") as client, pytest.raises(MissingSchemaFieldException, match=r"lacks columns .*: v\."):
        client.upsert(fewer)
    with local_client(tmp_path / "t", {"hoodie.write.set.null.for.missing.columns": "true"}) as client:
        client.upsert(fewer)
    assert hoodie.read_table(str(tmp_path / "t"), columns=["v"])["v"].to_pylist().count(None) == 1


def test_what_a_user_declared_stays_until_a_writer_declares_otherwise(tmp_path: Path, table_type: str) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path,
        table_name="t",
        table_type=table_type,
        record_key_fields="id",
        schema=schema_of(pa.string(), is_required=True),
    )
    with_null = rows(schema_of(pa.string()), 0, [None], 1)
    with local_client(path, {}) as client:
        client.upsert(rows(schema_of(pa.string()), 1, ["x"], 1))
        with pytest.raises(HoodieException, match="column v is null, but the table says it never is"):
            client.upsert(with_null)
    declared = HoodieTableMetaClient.load(path).load_avro_schema() or ""
    relaxed = declared.replace('{"name":"v","type":"string"}', '{"name":"v","type":["null","string"],"default":null}')
    with local_client(path, {"hoodie.avro.schema": relaxed}) as client:
        client.upsert(with_null)
    # The table's own schema says it now.
    with local_client(path, {}) as client:
        client.upsert(rows(schema_of(pa.string()), 2, [None], 1))
    assert hoodie.read_table(path, columns=["v"])["v"].to_pylist().count(None) == 2
