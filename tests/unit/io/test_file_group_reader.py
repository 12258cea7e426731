"""Filters give the rows that they give of the same rows in memory, whatever statistics say of row groups."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, event, example, given, settings

from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.exception import HoodieSchemaException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.storage.storage_factory import open_storage
from hoodie.table.table_scan import to_row_filter
from tests.filter_cases import GROUP_ROWS, SCHEMA, filters, tables

NAN = math.nan


def reader_of(folder: Path, table: pa.Table, schema: pa.Schema = SCHEMA) -> HoodieFileGroupReader:
    path = folder / "f-0_0-0-0_20240101000000000.parquet"
    pq.write_table(table, path, row_group_size=GROUP_ROWS)
    base_file = HoodieBaseFile(str(path), "f-0", "0-0-0", "20240101000000000", path.stat().st_size)
    file_slice = FileSlice("", "f-0", "20240101000000000", base_file)
    return HoodieFileGroupReader(open_storage(str(folder)), file_slice, schema)


def ids(reader: HoodieFileGroupReader, row_filter: RowFilter | None) -> list[int]:
    return [row for batch in reader.iter_batches(["id"], row_filter) for row in batch["id"].to_pylist()]


def in_memory(table: pa.Table, wanted: Any) -> list[int] | None:
    """What the filter gives of rows in memory; None where Arrow cannot compute it."""
    expression = wanted if isinstance(wanted, pc.Expression) else pq.filters_to_expression(wanted)
    try:
        return table.filter(expression)["id"].to_pylist()
    except (pa.ArrowException, TypeError):
        return None


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
def test_a_filter_gives_the_rows_that_it_gives_in_memory(tmp_path: Path, table: pa.Table, wanted: Any) -> None:
    expected = in_memory(table, wanted)
    reader = reader_of(tmp_path, table)
    try:
        found = ids(reader, to_row_filter(wanted, SCHEMA, "t"))
    except HoodieSchemaException as error:
        # Where the type of a column does not hold a value, Arrow's answer depends on the rows.
        assert expected is None or "does not hold" in str(error)
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
    found = to_row_filter(wanted, SCHEMA, "t")
    assert found is not None
    assert str(found.pushed) == str(pushed)


@pytest.mark.parametrize("count", [2, 300])
def test_long_chains_and_deep_trees_are_filters_too(tmp_path: Path, count: int) -> None:
    reader = reader_of(tmp_path, rows(i=list(range(count + 3)), f=[1.0] * (count + 3)))
    chain = to_row_filter([[("i", "==", number)] for number in range(count)], SCHEMA, "t")
    assert chain is not None
    assert chain.is_exact
    assert ids(reader, chain) == list(range(count))
    deep = pc.field("i") == 0
    for number in range(1, count):
        deep = (deep | (pc.field("i") == number)) & (pc.field("f") == 1.0)
    assert ids(reader, to_row_filter(deep, SCHEMA, "t")) == list(range(count))


def test_row_groups_that_a_key_is_not_in_are_not_read(tmp_path: Path) -> None:
    table = rows(s=[f"key{number:03}" for number in range(3 * GROUP_ROWS)], f=[1.0] * 3 * GROUP_ROWS)
    reader = reader_of(tmp_path, table)
    path = next(tmp_path.glob("*.parquet"))
    second = pq.ParquetFile(path).metadata.row_group(1)
    damaged = bytearray(path.read_bytes())
    for number in range(second.num_columns):
        column = second.column(number)
        start = column.dictionary_page_offset or column.data_page_offset
        damaged[start : start + column.total_compressed_size] = b"\xff" * column.total_compressed_size
    path.write_bytes(damaged)
    wanted = (pc.field("s") == "key007") & ~(pc.field("f") != 1.0)
    assert ids(reader, to_row_filter(wanted, SCHEMA, "t")) == [7]


def test_a_filter_of_a_column_that_an_old_file_has_in_another_type_or_not_at_all(tmp_path: Path) -> None:
    old = pa.table({"id": pa.array([0, 1], pa.int64()), "f": pa.array([0.1, None], pa.float32())})
    reader = reader_of(tmp_path, old)
    assert ids(reader, to_row_filter([("f", "==", 0.1)], SCHEMA, "t")) == [0]
    assert ids(reader, to_row_filter(pc.field("s").is_null() & pc.field("f").is_valid(), SCHEMA, "t")) == [0]
    assert ids(reader, to_row_filter([("s", "==", "a")], SCHEMA, "t")) == []


def test_a_filter_that_arrow_cannot_compute_of_the_rows_is_no_damaged_file(tmp_path: Path) -> None:
    reader = reader_of(tmp_path, rows(i=[0, 1, 2], l=[2**53 + 1] * 3))
    with pytest.raises(HoodieSchemaException, match=r"l is int64.*cannot be computed.*9007199254740993") as caught:
        ids(reader, to_row_filter([("l", ">", 5.5)], SCHEMA, "t"))
    assert "roll" not in str(caught.value)
