"""Columns that options change, or that a run refuses to change."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieSchemaException
from tests.support.streamer_runs import KEYS, ListSource, list_source, run_once

NULLABLE = "schema.make.columns.nullable"
STRICT = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("region", pa.string(), nullable=False),
        pa.field("ts", pa.int64(), nullable=False),
        pa.field("s", pa.struct([pa.field("x", pa.int64(), nullable=False)]), nullable=False),
        pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False),
    ]
)
ROW = ("a", "x", 1, {"x": 1}, [1])


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def schema_of(path: Path) -> pa.Schema:
    return HoodieTableMetaClient.load(str(path)).load_schema()


@pytest.mark.parametrize("prefix", ["hoodie.streamer.", "hoodie.deltastreamer."])
@pytest.mark.parametrize("transformer", [(), ("tests.unit.utilities.streamer.test_columns_of_rows:unchanged",)])
def test_columns_may_be_null_if_that_is_asked_for(tmp_path: Path, prefix: str, transformer: tuple[str, ...]) -> None:
    ListSource.SCHEMAS["l"] = STRICT
    properties = list_source("l", ROW)
    run_once(tmp_path / "strict", properties, transformer_classes=transformer)
    assert not any(field.nullable for field in schema_of(tmp_path / "strict"))
    asked = properties | {prefix + NULLABLE: "true"}
    run_once(tmp_path / "t", asked, transformer_classes=transformer)
    found = schema_of(tmp_path / "t")
    assert all(field.nullable for field in found)
    assert found.field("s").type.field(0).nullable
    assert found.field("l").type.value_field.nullable
    rows = hoodie.read_table(str(tmp_path / "t"), columns=["id", "s", "l"]).to_pylist()
    assert rows == [{"id": "a", "s": {"x": 1}, "l": [1]}]


def unchanged(table: pa.Table, properties: object) -> pa.Table:
    return table


def test_columns_of_a_schema_provider_stay_as_it_tells_them(tmp_path: Path) -> None:
    fields = [{"name": "id", "type": "string"}, {"name": "region", "type": "string"}, {"name": "ts", "type": "long"}]
    (tmp_path / "s.avsc").write_text(json.dumps({"type": "record", "name": "r", "fields": fields}))
    properties = list_source("l", ("a", "x", 1)) | {
        f"hoodie.streamer.{NULLABLE}": "true",
        "hoodie.streamer.schemaprovider.source.schema.file": str(tmp_path / "s.avsc"),
    }
    run_once(tmp_path / "t", properties, schema_provider_class="FilebasedSchemaProvider")
    assert not any(field.nullable for field in schema_of(tmp_path / "t"))


@pytest.mark.parametrize("kind", ["CsvDFSSource", "ParquetDFSSource"])
def test_names_that_avro_refuses_get_others_by_a_transformer(tmp_path: Path, kind: str) -> None:
    (tmp_path / "in").mkdir()
    rows = pa.table({"id": ["a"], "region": ["x"], "ts": [1], "unit price": [5], "2nd": [True]})
    if kind == "CsvDFSSource":
        csv.write_csv(rows, tmp_path / "in" / "1.csv")
    else:
        pq.write_table(rows, tmp_path / "in" / "1.parquet")
    properties = KEYS | {"hoodie.streamer.source.dfs.root": str(tmp_path / "in"), "hoodie.streamer.csv.header": "true"}
    properties["hoodie.streamer.csv.inferSchema"] = "true"
    sanitize = "hoodie.deltastreamer.source.sanitize.invalid.schema.field.names"
    with pytest.raises(HoodieConfigException, match=f"{sanitize} = 'true': hoodie does not do that; CSV, Parquet and"):
        run_once(tmp_path / "t", properties | {sanitize: "true"}, source_class=kind)
    with pytest.raises(HoodieSchemaException, match="unit price"):
        run_once(tmp_path / "t", properties, source_class=kind)
    query = 'SELECT id, region, ts, "unit price" AS unit__price, "2nd" AS __nd FROM <SRC>'
    properties["hoodie.streamer.transformer.sql"] = query
    run_once(tmp_path / "t", properties, source_class=kind, transformer_classes=("SqlQueryBasedTransformer",))
    found = hoodie.read_table(str(tmp_path / "t"), columns=["id", "unit__price", "__nd"]).to_pylist()
    assert found == [{"id": "a", "unit__price": 5, "__nd": True}]


def test_a_splitter_of_snapshots_is_refused_with_the_way_out(tmp_path: Path) -> None:
    splitter = "hoodie.deltastreamer.snapshotload.query.splitter.class.name"
    with pytest.raises(HoodieConfigException, match=r"begin with --checkpoint resume.*hoodieincr\.num_instants"):
        run_once(tmp_path / "t", list_source("l", ("a", "x", 1)) | {splitter: "org.example.Splitter"})
