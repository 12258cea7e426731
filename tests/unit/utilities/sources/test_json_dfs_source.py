"""Files of JSON of folders."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie.exception import HoodieReadFromSourceException
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_event import ErrorReason
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.json_dfs_source import JsonDFSSource
from hoodie.utilities.sources.source import RowOrigin, SourceContext, read_all

TRIPS = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [
            {"name": "uuid", "type": "string"},
            {"name": "fare", "type": ["null", "double"], "default": None},
            {"name": "ts", "type": ["null", "long"], "default": None},
        ],
    }
)


class Provider(SchemaProvider):
    """A provider of one schema."""

    def load_source_schema(self) -> str:
        return TRIPS


def source(root: Path, table: pa.Schema | None = None, provided: bool = False) -> JsonDFSSource:
    """A source of a folder."""
    properties = StreamerProperties({"hoodie.streamer.source.dfs.root": str(root)})
    provider = Provider(properties) if provided else None
    return JsonDFSSource(SourceContext(properties, provider, load_table_schema=lambda: table))


def write(path: Path, *rows: Mapping[str, Any] | str) -> Path:
    """A file of lines."""
    lines = [row if isinstance(row, str) else json.dumps(row) for row in rows]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_the_schema_of_the_provider_tells_the_columns(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"uuid": "1", "fare": 5, "other": [1]}, "", {"ts": "7", "uuid": 2})
    rows, errors = read_all(source(tmp_path, provided=True).fetch(None, None))
    assert rows.to_pylist() == [{"uuid": "1", "fare": 5.0, "ts": None}, {"uuid": "2", "fare": None, "ts": 7}]
    assert errors == []


def test_bad_lines_are_errors_of_their_files_and_lines(tmp_path: Path) -> None:
    bad = ["[1]", "null", '{"uuid":null}', '{"uuid":"a"}{"uuid":"b"}', '{"uuid"', "\x00"]
    path = write(tmp_path / "a.json", {"uuid": "1"}, *bad, {"uuid": "2"})
    rows, (errors,) = read_all(source(tmp_path, provided=True).fetch(None, None))
    assert rows["uuid"].to_pylist() == ["1", "2"]
    assert errors["line"].to_pylist() == [2, 3, 4, 5, 6, 7]
    assert set(errors["file"].to_pylist()) == {str(path)}
    assert errors["error_id"][0].as_py() == f"{path}:2"
    assert errors["payload"].to_pylist() == bad
    assert set(errors["reason"].to_pylist()) == {ErrorReason.JSON_AVRO_DESERIALIZATION_FAILURE}


def test_without_a_provider_columns_of_the_table_count_and_new_ones_are_found(tmp_path: Path) -> None:
    item = pa.field("element", pa.struct([("x", pa.float64())]))
    table = pa.schema(
        [("k", pa.string()), ("n", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("l", pa.list_(item))]
    )
    write(tmp_path / "a.json", {"k": 1, "n": 2})
    write(tmp_path / "b.json", {"k": "b", "at": "2026-07-05T10:00:00Z", "l": [{"x": 1, "y": "z"}], "new": True})
    batch = source(tmp_path, table).fetch(None, None)
    assert batch.schema is not None
    assert batch.schema.names == ["k", "n", "at", "l", "new"]
    assert batch.schema.field("n").type == pa.float64()
    assert batch.schema.field("new").type == pa.bool_()
    rows, errors = read_all(batch)
    assert errors == []
    assert [(row["k"], row["n"], row["new"]) for row in rows.to_pylist()] == [("1", 2.0, None), ("b", None, True)]
    assert rows["l"][1].as_py() == [{"x": 1.0, "y": "z"}]
    assert str(rows["at"][1]) == "2026-07-05 10:00:00+00:00"


def test_a_number_that_does_not_fit_its_column_is_cut_only_if_a_schema_says_so(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"uuid": "a", "ts": 1}, {"uuid": "b", "ts": 1.9})
    rows, _ = read_all(source(tmp_path, provided=True).fetch(None, None))
    assert rows["ts"].to_pylist() == [1, 1]
    table = pa.schema([("uuid", pa.string()), ("ts", pa.int64())])
    rows, (errors,) = read_all(source(tmp_path, table).fetch(None, None))
    assert rows["ts"].to_pylist() == [1]
    (message,) = errors["message"].to_pylist()
    assert "ts: 1.9 is not a whole number: give a schema, or widen the column" in message
    rows, errors = read_all(source(tmp_path).fetch(None, None))
    assert (rows["ts"].to_pylist(), errors) == ([1.0, 1.9], [])


def test_texts_of_dates_stay_texts_where_nobody_told_a_type(tmp_path: Path) -> None:
    write(tmp_path / "a.json", {"day": "2026-07-05", "n": 1, "x": 1.5, "code": "007"})
    rows, _ = read_all(source(tmp_path).fetch(None, None))
    assert rows.to_pylist() == [{"day": "2026-07-05", "n": 1, "x": 1.5, "code": "007"}]


def test_compressed_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    line = b'{"k": 1}\n'
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(line) + gzip.compress(line))
    (tmp_path / "b.json.bz2").write_bytes(bz2.compress(line))
    with pa.output_stream(str(tmp_path / "c.json.zst"), compression="zstd") as file:
        file.write(line)
    rows, _ = read_all(source(tmp_path).fetch(None, None))
    assert rows["k"].to_pylist() == [1, 1, 1, 1]


def test_an_unknown_compression_and_a_damaged_one_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json.snappy"
    path.write_bytes(b"x")
    with pytest.raises(HoodieReadFromSourceException, match=r"a\.json\.snappy .*\.snappy.*gzip"):
        source(tmp_path).fetch(None, None)
    path.unlink()
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"k": 1}\n' * 1000)[:-20])
    with pytest.raises(HoodieReadFromSourceException, match=r"a\.json\.gz is not readable"):
        read_all(source(tmp_path).fetch(None, None))


def test_many_small_files_give_few_batches_whose_rows_know_their_places(tmp_path: Path) -> None:
    for number in range(30):
        path = write(tmp_path / f"{number:02d}.json", {"k": number}, "?", {"k": -number})
        os.utime(path, (1000, 1000))
    batch = source(tmp_path).fetch(None, None)
    (read,) = batch.reads
    (decoded,) = pickle.loads(pickle.dumps(read)).batches()
    assert len(decoded.rows) == 60
    assert decoded.errors is not None
    assert len(decoded.errors) == 30
    assert isinstance(decoded.origin, RowOrigin)
    event = decoded.origin.event(41, ErrorReason.RECORD_CREATION, "", None)
    assert (event.file, event.line) == (f"{tmp_path}/20.json", 3)
    kept = decoded.origin.filter(np.arange(60) == 41)
    assert kept.event(0, ErrorReason.RECORD_CREATION, "", None) == event


def test_a_file_without_any_object_gives_errors_only(tmp_path: Path) -> None:
    write(tmp_path / "a.json", "?", "!")
    rows, (errors,) = read_all(source(tmp_path).fetch(None, None))
    assert len(rows) == 0
    assert len(errors) == 2


def test_batches_have_no_more_than_20000_rows(tmp_path: Path) -> None:
    write(tmp_path / "a.json", *[f'{{"k":{number}}}' for number in range(50_000)])
    batch = source(tmp_path).fetch(None, None)
    found = [one for read in batch.reads for one in read.batches()]
    assert [len(one.rows) for one in found] == [20_000, 20_000, 10_000]
    assert found[1].origin is not None
    assert found[1].origin.event(0, ErrorReason.RECORD_CREATION, "", None).line == 20_001
    assert [value for one in found for value in one.rows["k"].to_pylist()] == list(range(50_000))
