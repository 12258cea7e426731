"""Filters give the rows that they give of the same rows in memory, whatever statistics say of row groups."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import COMMIT_TIME_META
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.exception import HoodieIOException, HoodieNotSupportedException, HoodieSchemaException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.query.table_query import to_expression
from hoodie.storage.storage_factory import open_storage
from tests.support.filter_cases import GROUP_ROWS, SCHEMA, filters, in_memory, tables

NAN = math.nan


def row_filter_of(wanted: Any, schema: pa.Schema = SCHEMA) -> RowFilter | None:
    expression = to_expression(wanted)
    return None if expression is None else RowFilter.of(expression, schema, "t")


def reader_of(folder: Path, table: pa.Table, schema: pa.Schema = SCHEMA, **wanted: Any) -> HoodieFileGroupReader:
    path = folder / "f-0_0-0-0_20240101000000000.parquet"
    # Then the encodings of a column chunk tell that all of its values are in its dictionary, as in hoodie's files.
    pq.write_table(table, path, row_group_size=GROUP_ROWS, version="1.0", store_schema=False)
    file_slice = FileSlice.of_base_file("", str(path), path.stat().st_size)
    return HoodieFileGroupReader(HoodieReaderContext(open_storage(str(folder)), schema, **wanted), file_slice)


def ids(folder: Path, table: pa.Table, row_filter: RowFilter | None) -> list[int]:
    """The rows of a filter, which all ways to read give."""
    reader = reader_of(folder, table, columns=["id"], row_filter=row_filter)
    found = rows_of(reader.scan(), "id")
    assert rows_of(reader.iter_batches(3), "id") == found
    seeking = reader_of(folder, table, columns=["id"], row_filter=row_filter, seeks_few=True)
    assert rows_of(seeking.scan(), "id") == found
    assert rows_of(seeking.iter_batches(3), "id") == found
    return found


def rows_of(batches: Iterator[pa.RecordBatch], column: str) -> list[Any]:
    return [row for batch in batches for row in batch[column].to_pylist()]


def rows(**columns: list[Any]) -> pa.Table:
    size = len(next(iter(columns.values())))
    full = {name: columns.get(name, [None] * size) for name in SCHEMA.names}
    return pa.table({**full, "id": list(range(size))}, schema=SCHEMA)


ZEROS = rows(f=[0.0, -0.0, 0.0], g=[-0.0, -0.0, 0.0])
WITH_NAN = rows(f=[1.0, NAN, 1.0], g=[1.0, NAN, 1.0])


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(table=tables(), wanted=filters())
@example(ZEROS, [("f", "in", [0.0, 7.0])])
@example(ZEROS, [("g", "in", [0.0])])
@example(ZEROS, [("f", "not in", [0.0])])
@example(WITH_NAN, [("f", "!=", 1.0)])
@example(WITH_NAN, [("f", "not in", [1.0])])
@example(WITH_NAN, ~(pc.field("f") < 5))
@example(WITH_NAN, pc.field("g").is_null(nan_is_null=True))
@example(WITH_NAN, pc.field("f").isin([NAN]))
@pytest.mark.one_in(4)
def test_a_filter_gives_the_rows_that_it_gives_in_memory(tmp_path: Path, table: pa.Table, wanted: Any) -> None:
    expected = in_memory(table, wanted)
    try:
        found = ids(tmp_path, table, row_filter_of(wanted))
    except HoodieSchemaException:
        assert expected is None
        event("refused")
        return
    assume(expected is not None)
    event("rows" if found else "no rows")
    assert found == expected


@pytest.mark.parametrize(
    ("wanted", "pushed"),
    [
        (pc.field("s") == "a", pc.field("s") == "a"),
        (~(pc.field("i") < 5), pc.field("i") >= pa.scalar(5, pa.int32())),
        ((pc.field("s") == "a") & (pc.field("f") != 1.0), pc.field("s") == "a"),
        (pc.field("f") > 5, pc.field("f") > 5.0),
        (pc.scalar(5) < pc.field("l"), pc.field("l") > 5),
        ([("s", "in", ["a", "b"])], pc.field("s").isin(["a", "b"])),
        ([("f", "in", [0.0, 7.0])], (pc.field("f") >= 0.0) & (pc.field("f") <= 7.0)),
        ([("f", "!=", 1.0)], None),
        (~(pc.field("f") < 5), None),
        ((pc.field("s") == "a") | (pc.field("f") != 1.0), None),
    ],
    ids=str,
)
def test_statistics_decide_what_they_know_and_nothing_else(wanted: Any, pushed: pc.Expression | None) -> None:
    found = row_filter_of(wanted)
    assert found is not None
    assert str(found.pushed) == str(pushed)


@pytest.mark.parametrize("count", [2, 150])
@pytest.mark.one_in(4)
def test_long_chains_and_deep_trees_are_filters_too(tmp_path: Path, count: int) -> None:
    table = rows(i=list(range(count + 3)), f=[1.0] * (count + 3))
    chain = row_filter_of([[("i", "==", number)] for number in range(count)])
    assert chain is not None
    assert chain.is_exact
    assert ids(tmp_path, table, chain) == list(range(count))
    deep = pc.field("i") == 0
    for number in range(1, count):
        deep = (deep | (pc.field("i") == number)) & (pc.field("f") == 1.0)
    assert ids(tmp_path, table, row_filter_of(deep)) == list(range(count))


def test_row_groups_that_a_key_is_not_in_are_not_read(tmp_path: Path) -> None:
    table = rows(s=[f"key{number:03}" for number in range(3 * GROUP_ROWS)], f=[1.0] * 3 * GROUP_ROWS)
    wanted = (pc.field("s") == "key007") & ~(pc.field("f") != 1.0)
    reader = reader_of(tmp_path, table, columns=["id"], row_filter=row_filter_of(wanted))
    path = next(tmp_path.glob("*.parquet"))
    second = pq.ParquetFile(path).metadata.row_group(1)
    damaged = bytearray(path.read_bytes())
    for number in range(second.num_columns):
        column = second.column(number)
        start = column.dictionary_page_offset or column.data_page_offset
        damaged[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(damaged)
    assert rows_of(reader.scan(), "id") == [7]


def test_a_filter_of_a_column_that_an_old_file_has_in_another_type_or_not_at_all(tmp_path: Path) -> None:
    old = pa.table({"id": pa.array([0, 1], pa.int64()), "f": pa.array([0.1, None], pa.float32())})
    assert ids(tmp_path, old, row_filter_of([("f", "==", 0.1)])) == [0]
    assert ids(tmp_path, old, row_filter_of(pc.field("s").is_null() & pc.field("f").is_valid())) == [0]
    assert ids(tmp_path, old, row_filter_of([("s", "==", "a")])) == []


def test_a_filter_that_arrow_cannot_compute_of_the_rows_is_no_damaged_file(tmp_path: Path) -> None:
    table = rows(i=[0, 1, 2], l=[2**53 + 1] * 3)
    with pytest.raises(HoodieSchemaException, match=r"i is int32, l is int64.*cannot be computed.*divide by") as caught:
        ids(tmp_path, table, row_filter_of(pc.field("l") / pc.field("i") > 1))
    assert "roll" not in str(caught.value)


COMMITS = pa.schema([(COMMIT_TIME_META, pa.string()), ("id", pa.int64()), ("f", pa.float64())])
TIMES = ["20240101000000000", "20240102000000000", "20240103000000000", None]


@pytest.mark.parametrize("old_type", [pa.float64(), pa.float32()], ids=str)
@pytest.mark.parametrize(
    ("instants", "expected"),
    [
        (InstantRange(), [0, 1, 2]),
        (InstantRange(after=TIMES[0]), [1, 2]),
        (InstantRange(until=TIMES[1]), [0, 1]),
        (InstantRange(after=TIMES[0], until=TIMES[1]), [1]),
        (InstantRange(named=frozenset([TIMES[0], TIMES[2], "20250101000000000"])), [0, 2]),
        (InstantRange(after=TIMES[0], named=frozenset([TIMES[0], TIMES[2]])), [2]),
        (InstantRange(named=frozenset()), []),
    ],
)
def test_only_rows_of_an_instant_range_are_read(
    tmp_path: Path, old_type: pa.DataType, instants: InstantRange, expected: list[int]
) -> None:
    """Also beside a filter, and in a file whose columns are narrower, which is read in another way."""
    table = pa.table({COMMIT_TIME_META: TIMES, "id": [0, 1, 2, 3], "f": pa.array([0.5] * 4, old_type)})
    row_filter = row_filter_of([("f", "==", 0.5), ("id", "!=", 1)], COMMITS)
    all_rows = reader_of(tmp_path, table, COMMITS, columns=["id"], instant_range=instants)
    filtered = reader_of(tmp_path, table, COMMITS, columns=["id"], instant_range=instants, row_filter=row_filter)
    for reader, ids_of_reader in ((all_rows, expected), (filtered, [row for row in expected if row != 1])):
        assert rows_of(reader.scan(), "id") == ids_of_reader
        batches = list(reader.iter_batches(1))
        assert rows_of(iter(batches), "id") == ids_of_reader
        assert all(batch.schema.names == ["id"] for batch in batches)


@pytest.mark.parametrize("columns", [["s", "id"], ["id", "s"], None], ids=str)
@pytest.mark.parametrize("filtered", [True, False])
def test_columns_come_in_the_order_that_is_asked_for(tmp_path: Path, columns: list[str] | None, filtered: bool) -> None:
    row_filter = row_filter_of([("f", "!=", 2.0)]) if filtered else None
    table = rows(f=[1.0, 3.0], s=["a", "b"])
    reader = reader_of(tmp_path, table, columns=columns, row_filter=row_filter)
    for batches in (reader.scan(), reader.iter_batches()):
        assert [batch.schema.names for batch in batches] == [columns or SCHEMA.names]


def test_batches_have_at_most_the_rows_that_are_asked_for(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, rows(i=list(range(GROUP_ROWS + 1))), columns=["i"])
    sizes = [batch.num_rows for batch in reader.iter_batches(2)]
    assert max(sizes) == 2
    assert sum(sizes) == GROUP_ROWS + 1


def test_a_slice_with_log_files_is_refused(tmp_path: Path) -> None:
    log_file = HoodieLogFile(str(tmp_path / ".f-0_1.log.1_0-0-0"), "f-0", "1", 1, "0-0-0", 10)
    path = str(tmp_path / "f-0_0-0-0_1.parquet")
    for file_slice in (
        attrs.evolve(FileSlice.of_base_file("p", path, 10), log_files=(log_file,)),
        FileSlice("p", "f-0", "1", None, (log_file,)),
    ):
        with pytest.raises(HoodieNotSupportedException, match="file group f-0 of partition 'p' has log files"):
            HoodieFileGroupReader(HoodieReaderContext(open_storage(str(tmp_path)), SCHEMA), file_slice)


def test_a_path_that_is_no_base_file_makes_no_slice() -> None:
    with pytest.raises(HoodieIOException, match=r"/t/p/x\.parquet .* not that of a base file"):
        FileSlice.of_base_file("p", "/t/p/x.parquet", 1)


@pytest.mark.parametrize("positions", [[], [0], [6], [2, 3], [0, 1, 2, 3, 4, 5, 6], [1, 4, 6]])
def test_rows_at_positions_are_those_of_their_row_groups_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, positions: list[int]
) -> None:
    table = rows(s=["a", "b", None, "d", "e", "f", "g"])
    groups: list[int] = []
    iter_batches = HoodieParquetReader.iter_batches

    def iterate(self: HoodieParquetReader, columns: Any, schema: Any, row_groups: Any, **named: Any) -> Any:
        groups.extend(row_groups)
        return iter_batches(self, columns, schema, row_groups, **named)

    monkeypatch.setattr(HoodieParquetReader, "iter_batches", iterate)
    reader = reader_of(tmp_path, table, columns=["id"])
    assert rows_of(reader.take(np.array(positions, dtype=np.int64)), "id") == positions
    assert groups == sorted({position // GROUP_ROWS for position in positions})


def test_rows_at_positions_pass_the_filter_and_have_the_tables_types(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("new", pa.string())])
    table = pa.table({"id": pa.array([0, 1, 2, 3], pa.int32())})
    wanted = row_filter_of([("id", ">", 1)], schema)
    reader = reader_of(tmp_path, table, schema, row_filter=wanted)
    (batch,) = reader.take(np.array([1, 2]))
    assert batch.schema == schema
    assert batch.to_pylist() == [{"id": 2, "new": None}]


@pytest.mark.parametrize(
    "wanted",
    [
        pc.field("s") == "name7",
        pc.field("s").isin(["name3", "no", "name99"]),
        pc.field("s").is_null(),
        (pc.field("s") < "name2") & (pc.field("s") != "name1"),
        pc.match_substring(pc.field("s"), "99"),
        # Text that is no number is met first in the dictionary, then in a row.
        pc.field("s").cast(pa.int64()) > 5,
    ],
    ids=str,
)
def test_values_that_repeat_are_compared_once(
    tmp_path: Path, wanted: pc.Expression, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"name{number % 100}" if number % 13 else None for number in range(GROUP_ROWS * 3)]
    table = rows(s=names)
    compared, by_dictionary = [], RowFilter._places_by_dictionary

    def counting(row_filter: RowFilter, batch: pa.RecordBatch) -> Any:
        compared.append(len(batch.column(0).dictionary))
        return by_dictionary(row_filter, batch)

    monkeypatch.setattr(RowFilter, "_places_by_dictionary", counting)
    expected = in_memory(table, wanted)
    if expected is None:
        with pytest.raises(HoodieSchemaException, match="cannot be computed on the rows"):
            ids(tmp_path, table, row_filter_of(wanted))
    else:
        assert ids(tmp_path, table, row_filter_of(wanted)) == expected
    assert compared and max(compared) <= 100
