"""Rows that are taken out of a file are those that a whole read gives, in whatever form their columns are stored."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.exception import SchemaCompatibilityException
from hoodie.io.parquet import row_taking
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage_factory import open_storage

ROWS = 5000
GROUP_ROWS = 2000
NUMBERS = np.arange(ROWS)


def some_nulls(values: Sequence[Any], data_type: pa.DataType) -> pa.Array:
    return pa.array([None if number % 7 == 3 else value for number, value in enumerate(values)], data_type)


def every_type() -> pa.Table:
    day = datetime.date(1969, 12, 1)
    fixed = [f"key-{number:08}" for number in NUMBERS]
    micros = pa.array(NUMBERS * 1_000_001 - 10**9, pa.int64())
    return pa.table(
        {
            "fixed": fixed,
            "several_lengths": [f"key-{number}" for number in NUMBERS],
            "not_ascii": [f"é{number:08}" for number in NUMBERS],
            "few": [f"city {number % 5}" for number in NUMBERS],
            "nulls": some_nulls(fixed, pa.string()),
            "empty": pa.array([""] * ROWS),
            "binary": pa.array([text.encode() for text in fixed]),
            "int8": pa.array(NUMBERS % 100, pa.int8()),
            "int32": pa.array(NUMBERS, pa.int32()),
            "uint32": pa.array(NUMBERS, pa.uint32()),
            "int64": pa.array(NUMBERS - 2500, pa.int64()),
            "int64_nulls": some_nulls(NUMBERS.tolist(), pa.int64()),
            "float32": pa.array(NUMBERS / 3, pa.float32()),
            "float64": pa.array(NUMBERS / 3, pa.float64()),
            "boolean": pa.array(NUMBERS % 3 == 0),
            "date": pa.array([day + datetime.timedelta(int(number)) for number in NUMBERS]),
            "us_utc": micros.cast(pa.timestamp("us", "UTC")),
            "us": micros.cast(pa.timestamp("us")),
            "ms": pa.array(NUMBERS, pa.int64()).cast(pa.timestamp("ms")),
            "s": pa.array(NUMBERS, pa.int64()).cast(pa.timestamp("s", "UTC")),
            "decimal": pa.array([decimal.Decimal(int(number)).scaleb(-2) for number in NUMBERS], pa.decimal128(10, 2)),
            "fixed_bytes": pa.array([text[:8].encode() for text in fixed], pa.binary(8)),
            "list": pa.array([[int(number)] * (number % 3) for number in NUMBERS], pa.list_(pa.int64())),
            "struct": pa.array([{"a": int(number), "b": None if number % 2 else "x"} for number in NUMBERS]),
            "map": pa.array([[("k", int(number))] for number in NUMBERS], pa.map_(pa.string(), pa.int64())),
        }
    )


TABLE = every_type()
REQUIRED = TABLE.cast(pa.schema([field.with_nullable(TABLE[field.name].null_count > 0) for field in TABLE.schema]))


def reader_of(path: Path) -> HoodieParquetReader:
    return HoodieParquetReader(open_storage(str(path.parent)), str(path))


def taken(path: Path, rows: Sequence[int], schema: pa.Schema, columns: Sequence[str] | None = None) -> pa.Table:
    with reader_of(path) as reader:
        batches = list(reader.take_rows(columns, schema, np.array(rows, dtype=np.int64)))
    wanted = schema if columns is None else pa.schema([schema.field(name) for name in columns])
    return pa.Table.from_batches(batches, wanted)


def test_threads_take_rows_of_one_open_file(tmp_path: Path) -> None:
    path, columns = tmp_path / "f.parquet", ["fixed", "int64", "float64"]
    rows = REQUIRED.select(columns)
    pq.write_table(rows, path, row_group_size=250, use_dictionary=False)
    groups = [np.arange(first, first + 250, 5) for first in range(0, ROWS, 250)]
    with reader_of(path) as reader, ThreadPoolExecutor(4) as pool:
        for _ in range(10):
            found = list(pool.map(lambda places: list(reader.take_rows(columns, rows.schema, places)), groups))
            taken_rows = pa.Table.from_batches([batch for batches in found for batch in batches])
            assert taken_rows == rows.take(pa.array(np.concatenate(groups)))


def scanned(path: Path, rows: Sequence[int], schema: pa.Schema) -> pa.Table:
    """The same by way of all rows."""
    with reader_of(path) as reader:
        return pa.Table.from_batches(list(reader.iter_batches(None, schema)), schema).take(pa.array(rows, pa.int64()))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.sets(st.integers(0, ROWS - 1), max_size=40).map(sorted),
    codec=st.sampled_from(["none", "snappy", "zstd", "gzip"]),
    dictionary=st.sampled_from([True, False, ["few"]]),
    version=st.sampled_from(["1.0", "2.0"]),
    page_bytes=st.sampled_from([1 << 10, 1 << 14, 1 << 20]),
    required=st.booleans(),
    stores_schema=st.booleans(),
)
@pytest.mark.one_in(4)
def test_taken_rows_are_those_of_a_whole_read(
    tmp_path: Path,
    rows: list[int],
    codec: str,
    dictionary: Any,
    version: str,
    page_bytes: int,
    required: bool,
    stores_schema: bool,
) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(
        REQUIRED if required else TABLE, path, row_group_size=GROUP_ROWS, compression=codec, use_dictionary=dictionary,
        data_page_version=version, data_page_size=page_bytes,
        store_schema=stores_schema, dictionary_pagesize_limit=4096,
    )  # fmt: skip
    with reader_of(path) as reader:
        schema = pa.schema([field.with_nullable(True) for field in reader.file_schema])
    found = taken(path, rows, schema)
    found.validate(full=True)
    assert found.equals(scanned(path, rows, schema))


@pytest.mark.parametrize("required", [False, True])
def test_plain_columns_are_not_decoded_for_few_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    path = tmp_path / "f.parquet"
    names = ["fixed", "not_ascii", "int32", "int64", "float32", "float64", "date", "us_utc", "us"]
    table = (REQUIRED if required else TABLE).select(names)
    pq.write_table(table, path, row_group_size=GROUP_ROWS, use_dictionary=False, data_page_size=1 << 12)

    def refuse(*_: object) -> None:
        raise AssertionError("decoded")

    monkeypatch.setattr(row_taking, "_decoded", refuse)
    rows = [0, 1999, 2000, 4999]
    found = taken(path, rows, table.schema)
    assert found.equals(table.take(pa.array(rows)))


def test_columns_in_a_dictionary_come_without_making_all_their_strings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE.select(["few"]), path, row_group_size=GROUP_ROWS, version="1.0")
    types = []
    decoded = row_taking._decoded

    def noted(*arguments: Any) -> dict[str, pa.Array]:
        found = decoded(*arguments)
        types.extend(column.type for column in found.values())
        return found

    monkeypatch.setattr(row_taking, "_decoded", noted)
    rows = [3, 1700, 2500]
    assert taken(path, rows, TABLE.schema, ["few"])["few"].to_pylist() == [f"city {row % 5}" for row in rows]
    assert types == [pa.dictionary(pa.int32(), pa.string())] * 2


def test_rows_come_in_the_types_of_the_schema_and_missing_columns_are_null(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    pq.write_table(TABLE.select(["int32", "float32"]), path, row_group_size=GROUP_ROWS)
    schema = pa.schema([("later", pa.string()), ("float32", pa.float64()), ("int32", pa.int64())])
    assert taken(path, [1, 4000], schema).to_pylist() == scanned(path, [1, 4000], schema).to_pylist()
    assert taken(path, [1, 4000], schema)["int32"].to_pylist() == [1, 4000]
    assert taken(path, [1, 4000], schema, ["later"]).to_pylist() == [{"later": None}] * 2
    with pytest.raises(SchemaCompatibilityException, match="float32"):
        taken(path, [1], pa.schema([("float32", pa.string())]))


def test_rows_of_columns_that_are_read_as_views_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    texts = [None if number % 7 == 3 else f"text {number}" for number in NUMBERS]
    views = {
        "text": pa.array(texts, pa.string_view()),
        "binary": pa.array([f"{number}".encode() for number in NUMBERS], pa.binary_view()),
        "list": pa.array([[text] for text in texts], pa.list_(pa.string_view())),
    }
    try:
        pq.write_table(pa.table(views), path, row_group_size=GROUP_ROWS)
    except pa.ArrowNotImplementedError:
        pytest.skip("this release of Arrow has no views in Parquet")
    schema = pa.schema([("text", pa.string()), ("binary", pa.binary()), ("list", pa.list_(pa.string()))])
    rows = [3, 4, 1999, 4999]
    assert taken(path, rows, schema).equals(scanned(path, rows, schema))


@pytest.mark.parametrize("alike", [True, False])
def test_columns_with_the_same_bytes_are_taken_once(
    tmp_path: Path, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"key{number:05d}" for number in range(3000)]
    others = keys if alike else keys[::-1]
    table = pa.table({"key": keys, "number": list(range(3000)), "id": others})
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, use_dictionary=False, compression="none")
    taken, take_strings = [], row_taking.take_strings

    def counting(*arguments: Any) -> Any:
        taken.append(arguments)
        return take_strings(*arguments)

    monkeypatch.setattr(row_taking, "take_strings", counting)
    rows = np.array([0, 7, 2999])
    with HoodieParquetReader(open_storage(str(tmp_path)), str(path)) as reader:
        (found,) = reader.take_rows(None, table.schema, rows)
    assert found.to_pylist() == table.take(pa.array(rows)).to_pylist()
    assert len(taken) == (1 if alike else 2)


def test_columns_are_not_compared_as_a_whole_for_a_row_of_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_taking, "_PAGE_BYTES", 1 << 10)
    keys = [f"key{number:05d}" for number in range(3000)]
    table = pa.table({"key": keys, "id": keys})
    path = tmp_path / "file.parquet"
    pq.write_table(table, path, use_dictionary=False, compression="none", data_page_size=1 << 10)
    compared = []
    monkeypatch.setattr(row_taking, "stored_bytes", lambda *arguments: compared.append(arguments))
    with HoodieParquetReader(open_storage(str(tmp_path)), str(path)) as reader:
        (found,) = reader.take_rows(None, table.schema, np.array([1500]))
        assert not compared
        (others,) = reader.take_rows(None, table.schema, np.arange(0, 3000, 10))
    assert compared
    assert found.to_pylist() == [{"key": keys[1500], "id": keys[1500]}]
    assert others["id"].to_pylist() == others["key"].to_pylist() == keys[::10]
