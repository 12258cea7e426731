"""Files that `hoodie write` reads."""

from __future__ import annotations

import gzip
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from hoodie.cli.input_files import load_rows
from hoodie.common.data.record_source import record_batches
from hoodie.exception import HoodieConfigException, HoodieSchemaException

STORED = pa.schema(
    [
        ("id", pa.string()),
        ("day", pa.date32()),
        ("price", pa.decimal128(10, 2)),
        ("n", pa.int32()),
        ("text", pa.string()),
    ]
)


def rows(paths: list[Path], stored: pa.Schema | None = None, form: str | None = None) -> list[dict[str, Any]]:
    """The rows of files."""
    data = load_rows([str(path) for path in paths], lambda: stored, form)
    source = record_batches(data, stored)
    table = pa.Table.from_batches(source.batches, source.schema)
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_csv_has_the_types_of_the_table(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "id,day,price,n,text,more\n007,2026-01-02,1.5,3,2026-01-01,9\n")
    assert rows([path], STORED) == [
        {"id": "007", "day": date(2026, 1, 2), "price": Decimal("1.50"), "n": 3, "text": "2026-01-01", "more": 9}
    ]
    assert rows([path])[0]["id"] == "007"
    assert rows([path], pa.schema([("id", pa.int64())]))[0]["id"] == 7


def test_an_empty_field_is_null_and_quotes_are_empty_text(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", 'id,text,n\na,,1\nb,"",\nNA,null,2\n')
    expected = [
        {"id": "a", "text": None, "n": 1},
        {"id": "b", "text": "", "n": None},
        {"id": "NA", "text": "null", "n": 2},
    ]
    assert rows([path]) == expected
    assert rows([path], STORED) == expected


def test_json_lines_have_the_types_of_the_table(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.jsonl",
        '{"id": "a", "day": "2026-01-02", "price": "1.50", "n": 1, "text": "2026-01-01"}\n{"id": "b"}\n',
    )
    first = {"id": "a", "day": date(2026, 1, 2), "price": Decimal("1.50"), "n": 1, "text": "2026-01-01"}
    assert rows([path], STORED) == [first, {**dict.fromkeys(first), "id": "b"}]


@pytest.mark.parametrize("suffix", [".csv.gz", ".parquet", ".arrow", ".feather"])
def test_files_are_read_by_their_suffix(tmp_path: Path, suffix: str) -> None:
    path, table = tmp_path / f"a{suffix}", pa.table({"id": ["a"], "n": [1]})
    if suffix == ".csv.gz":
        path.write_bytes(gzip.compress(b"id,n\na,1\n"))
    elif suffix == ".parquet":
        pq.write_table(table, path)
    else:
        feather.write_feather(table, str(path), compression="uncompressed")
    assert rows([path]) == [{"id": "a", "n": 1}]


def test_a_format_can_be_given(tmp_path: Path) -> None:
    assert rows([write(tmp_path / "a.txt", "id\nx\n")], form="csv") == [{"id": "x"}]
    with pytest.raises(HoodieConfigException, match="tells no format"):
        rows([tmp_path / "a.txt"])


def test_types_of_several_files_widen(tmp_path: Path) -> None:
    paths = [write(tmp_path / "a.csv", "id,n\na,1\n"), write(tmp_path / "b.csv", "n,id\n2.5,b\n")]
    assert rows(paths) == [{"id": "a", "n": 1.0}, {"id": "b", "n": 2.5}]
    paths = [write(tmp_path / "a.jsonl", '{"id":"a","n":1}\n'), write(tmp_path / "b.jsonl", '{"id":"b","n":2.5}\n')]
    assert rows(paths) == [{"id": "a", "n": 1.0}, {"id": "b", "n": 2.5}]


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_files_with_other_columns_are_refused(tmp_path: Path, form: str) -> None:
    texts = {"csv": ("id,n\na,1\n", "id,m\nb,2\n"), "jsonl": ('{"id":"a","n":1}\n', '{"id":"b","m":2}\n')}
    paths = [tmp_path / f"{name}.{form}" for name in "ab"]
    if form == "parquet":
        pq.write_table(pa.table({"id": ["a"], "n": [1]}), paths[0])
        pq.write_table(pa.table({"id": ["b"], "m": [2]}), paths[1])
    else:
        for path, text in zip(paths, texts[form], strict=True):
            path.write_text(text)
    with pytest.raises(HoodieSchemaException, match="differ in the columns m, n"):
        rows(paths)


def test_columns_of_json_that_begin_late_are_read(tmp_path: Path) -> None:
    lines = ['{"id": "a"}\n'] * 200_000 + ['{"id": "b", "late": 1}\n']
    found = load_rows([str(write(tmp_path / "a.jsonl", "".join(lines)))], lambda: None)
    assert found.num_rows == 200_001
    assert found["late"].to_pylist()[-1] == 1


def test_bad_files_are_refused(tmp_path: Path) -> None:
    bad = write(tmp_path / "a.csv", "id,n\na,1\nb,two\n")
    with pytest.raises(pa.ArrowInvalid, match="two"):
        rows([bad], STORED)
    with pytest.raises(HoodieConfigException, match="there is no file"):
        rows([tmp_path / "none.csv"])
    with pytest.raises(HoodieConfigException, match="several formats"):
        rows([bad, write(tmp_path / "b.jsonl", "{}")])
    with pytest.raises(HoodieSchemaException, match=r"b\.jsonl"):
        rows([write(tmp_path / "b.jsonl", "no json")])
    with pytest.raises(HoodieSchemaException, match="'soon'"):
        rows([write(tmp_path / "c.jsonl", '{"id": "a", "day": "soon"}\n')], STORED)
