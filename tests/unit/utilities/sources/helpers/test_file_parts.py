"""Large files of lines that several tasks read: each line once, with its number in the file."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie.exception import HoodieReadFromSourceException
from hoodie.storage.storage import FileStatus
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.ingestion.error_event import ErrorReason
from hoodie.utilities.sources.helpers.file_parts import FilePart, LinesOfPart, parts_of_file
from hoodie.utilities.sources.source import InputBatch, SourceContext
from hoodie.utilities.sources.sources import make_source
from tests.support.kafka_sources import GivenSchema

SCHEMA = json.dumps(
    {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}]}
)


def lines_of(content: bytes, part: FilePart, size: int = 3) -> bytes:
    lines = LinesOfPart(pa.BufferReader(content), part)
    found = []
    while piece := lines.read(size):
        found.append(piece)
    assert lines.read(size) == b""
    return b"".join(found)


@pytest.mark.parametrize(
    "content", [b"one\ntwo\nthree\nfour\n", b"a", b"\n\n\nx\n\n", b"one\nlonger than all", b"x\r\ny\r\n"]
)
@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_each_line_is_in_the_part_that_has_its_first_byte(content: bytes, size: int) -> None:
    starts = [0, *(place + 1 for place, byte in enumerate(content) if byte == 10 and place + 1 < len(content))]
    for most in range(1, len(content) + 2):
        parts = parts_of_file(FileStatus("f", len(content), 0), most)
        found = [lines_of(content, part, size) for part in parts]
        assert b"".join(found) == content
        for part, text in zip(parts, found, strict=True):
            inside = [start for start in starts if part.start <= start < part.end]
            assert text.count(b"\n") + (not text.endswith(b"\n") and text != b"") == len(inside)


@pytest.mark.parametrize(("size", "most", "count"), [(10, 4, 3), (8, 4, 2), (9, 4, 3), (1, 4, 1), (4, 1, 4)])
def test_parts_are_of_about_the_same_size(size: int, most: int, count: int) -> None:
    parts = parts_of_file(FileStatus("f", size, 0), most)
    assert len(parts) == count
    assert [part.start for part in parts] == [0, *(part.end for part in parts[:-1])]
    assert parts[-1].end == size
    sizes = [part.end - part.start for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= most


def fetched(root: Path, kind: str, split_bytes: int | None, has_schema: bool = True, **more: str) -> InputBatch:
    """A batch of a source, as on Spark with a size of parts, or without."""
    properties = {"hoodie.streamer.source.dfs.root": str(root), **more}
    if split_bytes is not None:
        properties["hoodie.streamer.source.dfs.split.bytes"] = str(split_bytes)
    context: dict[str, Any] = {} if split_bytes is None else {"spark": object()}
    provider = GivenSchema(SCHEMA) if has_schema else None
    return make_source(kind, SourceContext(StreamerProperties(properties), provider, **context)).fetch(None, None)


def found_in(batch: InputBatch) -> tuple[list[Any], list[Any]]:
    """The rows with their places, and the errors."""
    rows: list[Any] = []
    errors: list[Any] = []
    for read in batch.reads:
        for decoded in pickle.loads(pickle.dumps(read)).batches():
            assert decoded.origin is not None
            for number, row in enumerate(decoded.rows.to_pylist()):
                event = decoded.origin.event(number, ErrorReason.RECORD_CREATION, "m", None)
                rows.append((row, event.error_id))
            errors += [] if decoded.errors is None else decoded.errors.to_pylist()
    return rows, errors


def test_parts_of_a_file_of_json_have_the_rows_and_errors_of_the_file(tmp_path: Path) -> None:
    seeded = random.Random(7)
    lines = []
    for number in range(60):
        good = json.dumps({"id": "é" * seeded.randrange(12), "n": number})
        lines.append(seeded.choice([good, good, good, "", "{bad", '{"id": 5}']))
    (tmp_path / "a.json").write_text("\ufeff" + "\n".join(lines))
    (tmp_path / "b.json").write_text('{"id": "b", "n": 1}\nbad\n')
    whole = found_in(fetched(tmp_path, "JsonDFSSource", None))
    assert len(whole[0]) > 20
    assert len(whole[1]) > 5
    size = (tmp_path / "a.json").stat().st_size
    for split_bytes in (1, 2, 3, 10, 33, 100, 500, size - 1):
        batch = fetched(tmp_path, "JsonDFSSource", split_bytes)
        assert len(batch.reads) > 2 - (split_bytes > size // 2)
        assert found_in(batch) == whole
    for split_bytes in (size, 0):
        assert len(fetched(tmp_path, "JsonDFSSource", split_bytes).reads) == 1


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("id,n\n", {"header": "true"}),
        ("# a comment, of which there may be several\n\n# and blank lines\nid,n\n", {"header": "true", "comment": "#"}),
        ("", {}),
    ],
)
@pytest.mark.parametrize("has_schema", [True, False])
def test_parts_of_a_file_of_csv_have_the_rows_and_errors_of_the_file(
    tmp_path: Path, head: str, options: dict[str, str], has_schema: bool
) -> None:
    seeded = random.Random(8)
    rows = [seeded.choice([f"k{number},{number}", f"{number},1", "too,many,values", ""]) for number in range(40)]
    (tmp_path / "a.csv").write_text(head + "\n".join(rows))
    given = {f"hoodie.streamer.csv.{name}": value for name, value in options.items()}
    whole = found_in(fetched(tmp_path, "CsvDFSSource", None, has_schema, **given))
    assert len(whole[0]) > 10
    assert len(whole[1]) > 3
    for split_bytes in (1, 5, 20, 64, 200):
        assert found_in(fetched(tmp_path, "CsvDFSSource", split_bytes, has_schema, **given)) == whole


def test_failfast_names_the_line_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n\n" + "a,1\n" * 50 + "a,b,c\n")
    batch = fetched(
        tmp_path, "CsvDFSSource", 50, **{"hoodie.streamer.csv.header": "true", "hoodie.streamer.csv.mode": "FAILFAST"}
    )
    with pytest.raises(HoodieReadFromSourceException, match=r"a\.csv, line 52: "):
        found_in(batch)


@pytest.mark.parametrize(
    ("name", "options"),
    [("a.csv", {"multiLine": "true"}), ("a.csv", {"encoding": "utf-16"}), ("a.csv.gz", {}), ("a.json.gz", {})],
)
def test_files_that_have_to_be_read_from_the_beginning_are_not_parted(
    tmp_path: Path, name: str, options: dict[str, str]
) -> None:
    content = '{"id": "a", "n": 1}\n' * 50 if "json" in name else "id,n\n" + "a,1\n" * 50
    encoded = content.encode(options.get("encoding", "utf-8"))
    if name.endswith("gz"):
        with pa.CompressedOutputStream(str(tmp_path / name), "gzip") as out:
            out.write(encoded)
    else:
        (tmp_path / name).write_bytes(encoded)
    given = {f"hoodie.streamer.csv.{key}": value for key, value in {"header": "true", **options}.items()}
    kind = "JsonDFSSource" if "json" in name else "CsvDFSSource"
    batch = fetched(tmp_path, kind, 10, **(given if kind == "CsvDFSSource" else {}))
    assert len(batch.reads) == 1
    assert len(found_in(batch)[0]) == 50
