"""Avro files of folders."""

from __future__ import annotations

import io
import json
import os
import pickle
import time
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from hoodie.exception import HoodieReadFromSourceException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_providers import make_schema_provider
from hoodie.utilities.sources.avro_dfs_source import AvroDFSSource
from hoodie.utilities.sources.source import SourceContext, read_all
from tests.support.avro_messages import TRIP

SCHEMA_FILE = "hoodie.streamer.schemaprovider.source.schema.file"
LONGER = TRIP | {"fields": [*TRIP["fields"], {"name": "city", "type": "string", "default": "nowhere"}]}


def source(root: Path, schema_file: Path | None = None) -> AvroDFSSource:
    given = {"hoodie.streamer.source.dfs.root": str(root)}
    provider: SchemaProvider | None = None
    if schema_file is not None:
        given[SCHEMA_FILE] = str(schema_file)
        provider = make_schema_provider("FilebasedSchemaProvider", StreamerProperties(given))
    return AvroDFSSource(SourceContext(StreamerProperties(given), provider))


def trip(uuid: str, **more: Any) -> dict[str, Any]:
    return {"uuid": uuid, "fare": None, "tags": []} | more


def write(path: Path, *rows: dict[str, Any], schema: dict[str, Any] = TRIP, codec: str = "null") -> Path:
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), rows, codec)
    path.write_bytes(out.getvalue())
    return path


def file_of(folder: Path, schema: dict[str, Any]) -> Path:
    path = folder / "_schema.avsc"
    path.write_text(json.dumps(schema))
    return path


def test_files_are_read_with_the_schema_of_the_provider(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", trip("1"), trip("2"), codec="deflate")
    write(tmp_path / "b.avro", trip("3", city="x"), schema=LONGER)
    batch = source(tmp_path, file_of(tmp_path, LONGER)).fetch(None, None)
    rows, errors = read_all(batch)
    assert sorted(rows.to_pylist(), key=lambda row: row["uuid"]) == [
        trip("1", city="nowhere"), trip("2", city="nowhere"), trip("3", city="x"),
    ]  # fmt: skip
    assert errors == []


def test_rows_know_their_file_and_number(tmp_path: Path) -> None:
    path = write(tmp_path / "a.avro", trip("1"), trip("2"))
    [read] = source(tmp_path).fetch(None, None).reads
    [decoded] = pickle.loads(pickle.dumps(read)).batches()
    assert decoded.origin is not None
    assert (decoded.origin.file, decoded.origin.numbers.tolist()) == (str(path), [1, 2])


def test_files_tell_the_columns_without_a_provider(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", trip("1"))
    rows, _ = read_all(source(tmp_path).fetch(None, None))
    assert rows.to_pylist() == [trip("1")]
    assert not rows.schema.field("uuid").nullable
    ints = {
        "type": "record",
        "name": "trip",
        "fields": [{"name": "uuid", "type": "string"}, {"name": "n", "type": "int"}],
    }
    write(tmp_path / "b.avro", {"uuid": "2", "n": 5}, schema=ints)
    rows, _ = read_all(source(tmp_path).fetch(None, None))
    assert sorted(rows.to_pylist(), key=lambda row: row["uuid"]) == [
        trip("1", n=None), {"uuid": "2", "fare": None, "tags": None, "n": 5},
    ]  # fmt: skip


def test_columns_that_do_not_fit_each_other_name_a_file(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", trip("1"))
    path = write(
        tmp_path / "b.avro",
        {"uuid": {"x": 1}},
        schema={
            "type": "record",
            "name": "trip",
            "fields": [{"name": "uuid", "type": {"type": "map", "values": "int"}}],
        },
    )
    os.utime(path, (time.time() + 60,) * 2)
    with pytest.raises(HoodieReadFromSourceException, match="b.avro has a column of a type that does not fit"):
        source(tmp_path).fetch(None, None)


def test_a_damaged_block_names_the_file(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", trip("1"))
    path = write(tmp_path / "b.avro", *[trip(str(row)) for row in range(100)])
    content = bytearray(path.read_bytes())
    content[-17] = 0xFF
    path.write_bytes(content)
    with pytest.raises(HoodieReadFromSourceException, match="b.avro is not readable: its block 1 is damaged"):
        read_all(source(tmp_path, file_of(tmp_path, TRIP)).fetch(None, None))


def test_a_file_that_is_none_of_avro_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.avro").write_text('{"uuid": "1"}')
    with pytest.raises(HoodieReadFromSourceException, match="a.avro is not readable: it is no Avro object container"):
        source(tmp_path).fetch(None, None)
    with pytest.raises(HoodieReadFromSourceException, match="a.avro is not readable: it is no Avro object container"):
        read_all(source(tmp_path, file_of(tmp_path, TRIP)).fetch(None, None))


def test_a_file_that_does_not_fit_the_schema_is_named_with_the_field(tmp_path: Path) -> None:
    write(tmp_path / "a.avro", trip("1"))
    other = TRIP | {"fields": [{"name": "uuid", "type": "long"}]}
    with pytest.raises(
        HoodieReadFromSourceException, match="a.avro is not readable: Field 'uuid' is written as string"
    ):
        read_all(source(tmp_path, file_of(tmp_path, other)).fetch(None, None))


def test_a_new_column_of_the_schema_file_appears_in_the_next_round(tmp_path: Path) -> None:
    schema_file = file_of(tmp_path, TRIP)
    reading = source(tmp_path, schema_file)
    write(tmp_path / "a.avro", trip("1"))
    first = reading.fetch(None, None)
    assert first.schema is not None
    assert first.schema.names == ["uuid", "fare", "tags"]
    file_of(tmp_path, LONGER)
    path = write(tmp_path / "b.avro", trip("2", city="x"), schema=LONGER)
    os.utime(path, (time.time() + 60,) * 2)
    assert reading.context.schema_provider is not None
    reading.context.schema_provider.refresh()
    rows, _ = read_all(reading.fetch(first.checkpoint, None))
    assert rows.to_pylist() == [trip("2", city="x")]


def test_many_records_come_in_batches(tmp_path: Path) -> None:
    schema = {"type": "record", "name": "r", "fields": [{"name": "n", "type": "long"}]}
    write(tmp_path / "a.avro", *[{"n": number} for number in range(50_000)], schema=schema)
    [read] = source(tmp_path).fetch(None, None).reads
    sizes, values = [], []
    for decoded in read.batches():
        sizes.append(decoded.rows.num_rows)
        values.append(decoded.rows.column(0))
    assert max(sizes) == 20_000
    assert pa.chunked_array(values).to_pylist() == list(range(50_000))
