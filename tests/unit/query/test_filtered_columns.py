"""The columns of a filter are read first, and the others only for rows that pass: the rows stay the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from tests.support.table_builder import init_table, local_client

ROWS = 20_000
FILTERS = {
    "few": pc.field("name") == "n00007",
    "none": pc.field("name") == "n0000x",
    "nulls": pc.field("name").is_null() & (pc.field("n") < 40),
    "nested": pc.field("place", "x") == 123,
    "new column": pc.field("extra") == 7,
    "new column is null": pc.field("extra").is_null() & (pc.field("n") == 5),
    "widened": pc.field("n") == 12_345,
    "meta column": pc.field("_hoodie_record_key") == "k00042",
    "half": pc.field("n") < ROWS // 2,
    "all but few": pc.field("n") >= 3,
}
NAMES = ["k", "name", "n", "place", "tags"]


def rows(begin: int, number_type: pa.DataType, *, extra: bool) -> pa.Table:
    """Rows with a null in each third name, a struct, a list, and numbers of a type."""
    numbers = range(begin, begin + ROWS)
    columns: dict[str, Any] = {
        "k": [f"k{number:05}" for number in numbers],
        "name": [None if number % 3 == 0 else f"n{number:05}" for number in numbers],
        "n": pa.array(numbers, number_type),
        "place": [None if number % 5 == 0 else {"x": number, "y": "a" * (number % 7)} for number in numbers],
        "tags": [[f"t{number % 4}"] * (number % 3) for number in numbers],
        "ts": pa.array(np.ones(ROWS, np.int64)),
        "region": ["r"] * ROWS,
    }
    return pa.table(columns | ({"extra": pa.array(range(ROWS), pa.int64())} if extra else {}))


@pytest.fixture(scope="module", params=["COPY_ON_WRITE", "MERGE_ON_READ"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Two files, the older of which lacks a column and has integers of 32 bits, and an update of few rows."""
    path = init_table(
        tmp_path_factory.mktemp("filtered") / "t", record_key_fields=["k"], ordering_fields=["ts"],
        table_type=request.param,
    )  # fmt: skip
    with local_client(path, {"hoodie.parquet.small.file.limit": 0}) as client:
        client.insert(rows(0, pa.int32(), extra=False))
        later = rows(ROWS, pa.int64(), extra=True)
        client.insert(later)
        updates = later.slice(100, 3)
        client.upsert(updates.set_column(1, "name", pa.array(["n00007", None, "new"])))
    return path


@pytest.mark.parametrize("name", FILTERS)
def test_rows_of_a_filter_are_those_that_pass_it(table: str, name: str) -> None:
    expected = hoodie.read_table(table).filter(FILTERS[name])
    found = hoodie.read_table(table, filters=FILTERS[name])
    assert found.schema == expected.schema
    assert found.equals(expected)
    found.validate(full=True)
    for columns in (["tags"], ["name", "k"], ["place"]):
        assert hoodie.read_table(table, columns=columns, filters=FILTERS[name]).equals(expected.select(columns))
    with hoodie.scan_table(table, filters=FILTERS[name]) as reader:
        assert reader.read_all().equals(expected)
    assert hoodie.dataset(table, filters=FILTERS[name]).count_rows() == len(expected)


def test_other_columns_are_decoded_only_where_many_rows_pass(table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if hoodie.plan_read(table).log_files:
        pytest.skip("rows of files with log files are merged first")
    decoded: list[str] = []
    iter_batches = HoodieParquetReader.iter_batches

    def noted(self: HoodieParquetReader, columns: Any, *arguments: Any, **options: Any) -> Any:
        decoded.extend(columns)
        return iter_batches(self, columns, *arguments, **options)

    monkeypatch.setattr(HoodieParquetReader, "iter_batches", noted)
    assert hoodie.read_table(table, filters=FILTERS["few"])["n"].sort().to_pylist() == [7, ROWS + 100]
    assert set(decoded) == {"name"}
    decoded.clear()
    assert len(hoodie.read_table(table, filters=FILTERS["half"])) == ROWS // 2
    assert {"name", "tags", "_hoodie_file_name"} <= set(decoded)
