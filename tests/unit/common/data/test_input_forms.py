"""Inputs that people have: files, columns by name, objects, lazy frames, and times as text."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, NamedTuple

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieKey, HoodieRecord, Table
from hoodie.common.data.record_source import record_batches
from hoodie.exception import HoodieSchemaException

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("n", pa.int64()),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("us", "UTC")),
        pa.field("local", pa.timestamp("us")),
    ]
)
DAY = date(2026, 1, 2)
MOMENT = datetime(2026, 1, 2, 10, 15, 30, 123000, tzinfo=UTC)
LOCAL = datetime(2026, 1, 2, 10, 15)
ROWS: list[dict[str, Any]] = [
    {"id": "007", "n": 1, "day": DAY, "at": MOMENT, "local": LOCAL},
    {"id": "8", "n": None, "day": None, "at": None, "local": None},
]
TEXTS: list[dict[str, Any]] = [
    {"id": "007", "n": 1, "day": "2026-01-02", "at": "2026-01-02T10:15:30.123Z", "local": "2026-01-02 10:15"},
    {"id": "8", "n": None, "day": None, "at": None, "local": None},
]  # fmt: skip


def rows_of(records: Any, schema: pa.Schema | None = SCHEMA) -> list[dict[str, Any]]:
    """The rows of an input."""
    source = record_batches(records, schema)
    table = pa.Table.from_batches(source.batches, source.schema)
    assert source.table is None or source.table.schema == source.schema
    return list(table.to_pylist())


@dataclasses.dataclass
class Point:
    id: str
    n: int | None
    day: date | None
    at: datetime | None
    local: datetime | None


@attrs.frozen
class Row:
    id: str
    n: int | None
    day: date | None
    at: datetime | None
    local: datetime | None


class Line(NamedTuple):
    id: str
    n: int | None
    day: date | None
    at: datetime | None
    local: datetime | None


@pytest.mark.parametrize("kind", [Point, Row, Line])
def test_objects_are_rows(kind: Callable[..., Any]) -> None:
    objects = [kind(**row) for row in ROWS]
    assert rows_of(objects) == ROWS
    assert rows_of(iter([objects[:1], objects[1:]])) == ROWS


def test_models_of_pydantic_are_rows() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", id=(str, ...), n=(int | None, None), day=(date | None, None))
    assert rows_of([model(id="a", n=1, day=DAY)], None) == [{"id": "a", "n": 1, "day": DAY}]


def test_nested_objects_are_structs() -> None:
    @dataclasses.dataclass
    class Inner:
        x: int

    @dataclasses.dataclass
    class Outer:
        id: str
        inner: Inner

    assert rows_of([Outer("a", Inner(1))], None) == [{"id": "a", "inner": {"x": 1}}]


@pytest.mark.parametrize("wrong", [[HoodieKey("a", "")], [Point], [{"id": "a"}, HoodieRecord(HoodieKey("a", ""), {})]])
def test_other_objects_are_refused(wrong: Any) -> None:
    with pytest.raises(HoodieSchemaException, match="a list of records holds"):
        record_batches(wrong)


def test_a_dict_of_columns_gives_rows() -> None:
    columns = {name: [row[name] for row in ROWS] for name in SCHEMA.names}
    assert rows_of(columns) == ROWS
    assert rows_of({**columns, "n": pa.array([1, None])}) == ROWS
    arrays = {"id": np.array(["a", "b"]), "n": pa.array([1, 2], pa.int32())}
    assert rows_of(arrays, None) == [{"id": "a", "n": 1}, {"id": "b", "n": 2}]
    assert rows_of({"id": [], "n": []}) == []


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": ["a", "b"], "n": [1]}, "several lengths, id 2, n 1"),
        ({"id": "ab"}, "give a list of values by each name"),
        ({"id": 7}, "give a list of values by each name"),
        ({7: [1]}, "give a list of values by each name"),
        ({}, "empty dict"),
    ],
)
def test_a_dict_that_is_no_columns_is_refused(columns: Any, message: str) -> None:
    with pytest.raises(HoodieSchemaException, match=message):
        record_batches(columns)


def test_a_lazy_frame_is_collected() -> None:
    polars = pytest.importorskip("polars")
    frame = polars.LazyFrame({"id": ["a", "b"], "n": [1, 2]}).filter(polars.col("n") > 1)
    assert rows_of(frame, None) == [{"id": "b", "n": 2}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the same two rows in files of each format."""
    table = pa.Table.from_pylist(ROWS, SCHEMA)
    pq.write_table(table, tmp_path / "rows.parquet")
    feather.write_feather(table, str(tmp_path / "rows.arrow"), compression="uncompressed")
    (tmp_path / "rows.csv").write_text(
        "id,n,day,at,local\n007,1,2026-01-02,2026-01-02T10:15:30.123Z,2026-01-02 10:15:00\n8,,,,\n"
    )
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in TEXTS))
    return tmp_path


def test_codes_with_leading_zeros_are_text_in_a_new_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n,zip,share\n7,1,-01,0.5\n8,0,2,0\n")
    (tmp_path / "b.csv").write_text("id,n,zip,share\n007,2,3,1\n")
    table = Table.create(tmp_path / "t", str(tmp_path / "?.csv"), record_key_fields="id")
    assert table.schema().types == [pa.string(), pa.int64(), pa.string(), pa.float64()]
    assert sorted(table.read("id")["id"].to_pylist()) == ["007", "7", "8"]
    assert sorted(table.read("zip")["zip"].to_pylist()) == ["-01", "2", "3"]


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv", "rows.jsonl"])
def test_files_are_rows_in_the_types_of_the_table(folder: Path, name: str) -> None:
    for given in (folder / name, str(folder / name), [folder / name], str(folder / f"r*{name[4:]}")):
        source = record_batches(given, SCHEMA)
        assert not source.is_one_shot
        assert rows_of(given) == ROWS
    twice = rows_of([folder / name, folder / name])
    assert twice == ROWS + ROWS


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing.csv", "there is no such file"),
        ("*.csv", "no file has such a name"),
        ("s3://lake/rows.csv", r"pyarrow.dataset.dataset\(path, filesystem=...\)"),
        ("notes.txt", "a file of no known format"),
        ("a row", "is the path of a file of rows"),
        (["rows.csv", "rows.parquet"], "several formats"),
        ("broken.parquet", "broken.parquet: .*nothing was written"),
    ],
)
def test_paths_that_are_no_files_of_rows_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: Any, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.txt").write_text("a")
    (tmp_path / "broken.parquet").write_text("a")
    if isinstance(given, list):
        (tmp_path / "rows.csv").write_text("id\n1\n")
        pq.write_table(pa.table({"id": [1]}), tmp_path / "rows.parquet")
    with pytest.raises(HoodieSchemaException, match=message):
        record_batches(given)


def test_text_of_json_lines_that_looks_like_a_time_stays_text(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"id": "2026-01-02"}\n{"id": "2026-01-03"}\n')
    assert rows_of(tmp_path / "rows.jsonl") == [{"id": "2026-01-02"}, {"id": "2026-01-03"}]
    assert record_batches(tmp_path / "rows.jsonl", SCHEMA).schema.names == ["id"]


def test_files_that_differ_in_their_columns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,n\n1,2\n")
    (tmp_path / "b.csv").write_text("id,n,more\n1,2,3\n")
    for order in (["a.csv", "b.csv"], ["b.csv", "a.csv"]):
        with pytest.raises(HoodieSchemaException, match="differ in the columns more"):
            record_batches([tmp_path / name for name in order])


def test_a_column_of_json_lines_may_begin_on_any_line(tmp_path: Path) -> None:
    lines = [f'{{"id": "{number}", "text": "{"x" * 2000}"}}' for number in range(1000)]
    (tmp_path / "a.jsonl").write_text("\n".join([*lines, '{"id": "last", "text": "", "late": 7}']))
    assert rows_of(tmp_path / "a.jsonl", None)[-1] == {"id": "last", "text": "", "late": 7}


def test_one_line_of_json_needs_no_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "7", "n": 1}')
    assert rows_of(tmp_path / "a.jsonl") == [{"id": "7", "n": 1}]


@pytest.mark.parametrize(
    ("name", "text"),
    [("a.jsonl", '{"n": 1}\n{"n": "one"}\n'), ("a.csv", "n\n1\none\n"), ("b.csv", "id,n\n1\n")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(HoodieSchemaException, match=f"{name}: .*nothing was written"):
        rows_of(tmp_path / name)


def test_an_empty_field_of_csv_is_null_and_quotes_are_empty_text(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('id,n,at\n,1,2026-01-02\n"",2,\n')
    assert rows_of(tmp_path / "a.csv") == [
        {"id": None, "n": 1, "at": datetime(2026, 1, 2, tzinfo=UTC)},
        {"id": "", "n": 2, "at": None},
    ]


def test_a_list_of_texts_that_are_no_paths_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="a list of records holds str"):
        record_batches(["a", "b"])


@pytest.mark.parametrize(
    "made",
    [
        lambda: TEXTS,
        lambda: pa.Table.from_pylist(TEXTS),
        lambda: iter([TEXTS[:1], TEXTS[1:]]),
        lambda: iter(pa.Table.from_pylist(TEXTS).to_batches()),
        lambda: pa.Table.from_pylist(TEXTS).cast(pa.schema([
            pa.field(n, pa.int64() if n == "n" else pa.large_string()) for n in SCHEMA.names
        ])),
    ],
    ids=["dicts", "table", "lists", "batches", "large"],
)  # fmt: skip
def test_dates_and_times_may_come_as_text(made: Callable[[], Any]) -> None:
    assert rows_of(made()) == ROWS


def test_text_stays_text_where_the_type_is_not_known() -> None:
    assert rows_of(TEXTS, None) == TEXTS


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2026-01-02", datetime(2026, 1, 2, tzinfo=UTC)),
        ("2026-01-02 10:15", datetime(2026, 1, 2, 10, 15, tzinfo=UTC)),
        ("2026-01-02 10:15:30.123456", datetime(2026, 1, 2, 10, 15, 30, 123456, tzinfo=UTC)),
        ("2026-01-02T10:15:00+02:00", datetime(2026, 1, 2, 10, 15, tzinfo=timezone(timedelta(hours=2)))),
        ("2026-01-02T10:15:00-0330", datetime(2026, 1, 2, 10, 15, tzinfo=timezone(-timedelta(hours=3, minutes=30)))),
        ("2026-01-02T10:15:00Z", datetime(2026, 1, 2, 10, 15, tzinfo=UTC)),
    ],
)
def test_a_moment_is_in_its_zone_or_in_utc(text: str, moment: datetime) -> None:
    both = pa.table({"at": [text, None, "2026-06-01T00:00:00Z"]})
    expected = [moment, None, datetime(2026, 6, 1, tzinfo=UTC)]
    assert [row["at"] for row in rows_of(both)] == expected
    assert [row["at"] for row in rows_of(both.slice(0, 1))] == expected[:1]


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("day", "02.01.2026"), ("day", "2026-02-30"), ("day", "2026-01-02 10:15"), ("day", ""),
        ("at", "yesterday"), ("at", "2026-01-02 10:15:30.123456789"), ("at", "2026-01-02 10:15 Europe/Oslo"),
        ("local", "2026-01-02T10:15:00Z"), ("local", "2026-01-02T10:15:00+01:00"),
    ],
)  # fmt: skip
def test_other_text_is_refused_by_column_and_value(column: str, text: str) -> None:
    for given in (pa.table({column: [None, text]}), [{column: None}, {column: text}]):
        with pytest.raises(HoodieSchemaException, match=f"column '{column}' is .* in the table") as raised:
            rows_of(given)
        assert repr(text) in str(raised.value)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_table_takes_files_and_text(tmp_path: Path, folder: Path, table_type: str) -> None:
    table = Table.create(tmp_path / "t", SCHEMA, record_key_fields="id", table_type=table_type)
    table.upsert(folder / "rows.csv")
    assert table.read().to_pylist() == ROWS
    table.upsert(str(folder / "*.jsonl"))
    assert table.count() == 2
    table.upsert({"id": ["9"], "n": [9], "day": ["2026-03-01"], "at": [None], "local": [None]})
    assert table.read("day", "id = '9'").to_pylist() == [{"day": date(2026, 3, 1)}]
    table.delete(where="id = '9'")
    assert table.count() == 2
