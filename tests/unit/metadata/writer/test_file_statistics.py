"""Ranges of data files hold all of their rows, whoever reads them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.avro.schema_converters import to_avro
from hoodie.common.model.column_range import HoodieColumnRange, StoredColumnRanges
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCorruptedDataException, HoodieMissingFileException
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_writer import data_headers, encode_log_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.metadata.reader.stored_column_ranges import load_stored_column_ranges
from hoodie.metadata.writer.file_statistics import FILES_ON_DRIVER, FileStatisticsReader
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import Call, storage_with
from tests.support.table_builder import init_table, local_client, rows

LOG = ".f_20260101000000000.log.1_0-0-0"
TIMES = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    [
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("b", pa.bool_()),
        ("d", pa.decimal128(12, 3)),
        ("t", TIMES),
        ("n", pa.struct([("x", pa.int64()), ("y", pa.list_(pa.int32()))])),
    ]
)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "i": st.integers(-(1 << 31), (1 << 31) - 1),
    "l": st.integers(-(1 << 63), (1 << 63) - 1),
    "f": st.floats(),
    "s": st.text(max_size=5),
    "b": st.booleans(),
    "d": st.decimals(min_value=-(10**8), max_value=10**8, places=3),
    "t": st.integers(-(1 << 50), 1 << 50),
    "n": st.fixed_dictionaries({"x": st.none() | st.integers(0, 9), "y": st.none() | st.lists(st.integers(0, 5))}),
}
ROWS = st.lists(st.fixed_dictionaries({name: st.none() | value for name, value in VALUES.items()}), min_size=1)
COLUMNS = [*SCHEMA.names[:-1], "n.x"]


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    columns = {field.name: pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA}
    return pa.table({**{name: ["k"] * len(rows) for name in META_COLUMNS}, **columns})


def blocks_of(rows: pa.Table, block_format: LogBlockFormat = LogBlockFormat.AVRO) -> bytes:
    schema = to_avro(SCHEMA, "t", "n", with_meta_columns=True)
    return b"".join(encode_data_blocks(rows, schema, "20260101000000001", block_format))


def ranges_in(content: bytes, folder: Path, columns: Sequence[str] | None = COLUMNS) -> StoredColumnRanges | None:
    (folder / LOG).write_bytes(content)
    return load_stored_column_ranges(LocalStorage("/"), str(folder / LOG), 9, columns)


def values_of(rows: pa.Table, name: str) -> list[Any]:
    first, *path = name.split(".")
    values = rows.column(first)
    if first == "t":
        values = values.cast(pa.int64())
    found = values.to_pylist()
    for part in path:
        found = [None if value is None else value[part] for value in found]
    if first == "d":
        found = [None if value is None else int(value.scaleb(3)) for value in found]
    return [value.encode() if isinstance(value, str) else value for value in found]


def check(ranges: Sequence[HoodieColumnRange], rows: pa.Table, *, knows_nan: bool) -> None:
    """Each column has a range that holds its values; footers of Parquet pass over NaN."""
    assert [found.column_name for found in ranges] == COLUMNS
    for found in ranges:
        values = values_of(rows, found.column_name)
        present = [value for value in values if value is not None]
        assert (found.value_count, found.null_count) == (len(values), len(values) - len(present))
        if not present:
            assert (found.min_value, found.max_value) == (None, None)
            continue
        numbers = [value for value in present if value == value]
        low: Any = found.min_value
        high: Any = found.max_value
        assert all(low <= value for value in numbers)
        assert high != high or all(value <= high for value in numbers)
        if len(numbers) < len(present):
            assert math.isnan(high) or not knows_nan
        elif high == high:
            assert (low, high) == (min(present), max(present))


@settings(max_examples=25, deadline=None)
@given(first=ROWS, second=ROWS, formats=st.tuples(*[st.sampled_from(list(LogBlockFormat))] * 2))
def test_ranges_of_a_log_file_hold_the_rows_of_all_of_its_blocks(
    tmp_path_factory: pytest.TempPathFactory, first: list[Any], second: list[Any], formats: tuple[Any, Any]
) -> None:
    folder = tmp_path_factory.mktemp("logs")
    parts = [table_of(first), table_of(second)]
    content = b"".join(blocks_of(part, kind) for part, kind in zip(parts, formats, strict=True))
    found = ranges_in(content, folder)
    assert found is not None
    rows = pa.concat_tables(parts)
    assert found.row_count == len(rows)
    by_name = {one.column_name: one for one in found.ranges}
    is_avro = set(formats) == {LogBlockFormat.AVRO}
    check([by_name[name] for name in COLUMNS], rows, knows_nan=is_avro)
    assert all(one.total_size == 0 for one in found.ranges)


def test_a_column_that_one_block_lacks_is_null_there(tmp_path: Path) -> None:
    short = pa.schema([("i", pa.int32())])
    rows = pa.table({**{name: ["k"] for name in META_COLUMNS}, "i": pa.array([7], pa.int32())})
    avro = to_avro(short, "t", "n", with_meta_columns=True)
    older = b"".join(encode_data_blocks(rows, avro, "20260101000000001"))
    newer = blocks_of(table_of([dict.fromkeys(SCHEMA.names, None) | {"i": 3, "l": 5}]))
    for content in (older + newer, newer + older):
        found = ranges_in(content, tmp_path, ["i", "l"])
        assert found is not None
        i, ell = found.ranges
        assert (i.min_value, i.max_value, i.value_count, i.null_count) == (3, 7, 2, 0)
        assert (ell.min_value, ell.max_value, ell.value_count, ell.null_count) == (5, 5, 2, 1)


def test_a_column_whose_type_changed_within_a_file_has_the_widest_range(tmp_path: Path) -> None:
    def block(values: pa.Array) -> bytes:
        rows = pa.table({**{name: ["k"] for name in META_COLUMNS}, "c": values})
        schema = to_avro(pa.schema([("c", values.type)]), "t", "n", with_meta_columns=True)
        return b"".join(encode_data_blocks(rows, schema, "20260101000000001"))

    found = ranges_in(block(pa.array([7], pa.int32())) + block(pa.array([1.5])), tmp_path, ["c"])
    assert found is not None
    (only,) = found.ranges
    assert only.min_value == -math.inf
    assert isinstance(only.max_value, float)
    assert math.isnan(only.max_value)


def test_nothing_is_known_of_a_log_file_with_parts_of_rows(tmp_path: Path) -> None:
    rows = table_of([dict.fromkeys(SCHEMA.names, None) | {"i": 3}])
    (block,) = read_log_blocks(blocks_of(rows), "x")
    headers = {
        **data_headers("20260101000000001", str(block.schema), None, None),
        HeaderMetadataType.IS_PARTIAL: "true",
    }
    partial = encode_log_block(HoodieLogBlockType.AVRO_DATA, headers, block.content)
    assert ranges_in(partial, tmp_path) is None
    assert ranges_in(blocks_of(rows) + partial, tmp_path) is None
    assert ranges_in(blocks_of(rows), tmp_path) is not None


def test_a_log_file_with_deletes_alone_has_no_rows(tmp_path: Path) -> None:
    empty = encode_log_block(HoodieLogBlockType.DELETE, {HeaderMetadataType.INSTANT_TIME: "1"}, bytes(9))
    assert ranges_in(empty, tmp_path) == StoredColumnRanges(0, ())


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    (tmp_path / "f_0-0-0_1.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(HoodieCorruptedDataException):
        load_stored_column_ranges(LocalStorage("/"), str(tmp_path / "f_0-0-0_1.parquet"), 9)
    with pytest.raises(HoodieMissingFileException):
        load_stored_column_ranges(LocalStorage("/"), str(tmp_path / "g_0-0-0_1.parquet"), 9)


# --- many files -------------------------------------------------------------------------------------------------------


class CountingEngine(LocalEngineContext):
    """Counts the items of tasks."""

    def __init__(self) -> None:
        super().__init__(2)
        self.items: list[int] = []

    def run_tasks(self, items: Sequence[Any], function: Callable[[TaskIdentity, Any], Any]) -> list[Any]:
        self.items.append(len(items))
        return super().run_tasks(items, function)


def base_files(folder: Path, count: int) -> list[tuple[str, str]]:
    files = []
    for number in range(count):
        name = f"{uuid.UUID(int=number)}-0_0-0-0_20260101000000000.parquet"
        (folder / f"p{number % 3}").mkdir(exist_ok=True)
        pq.write_table(
            pa.table({"i": [number, number + 1], "s": [None, str(number)]}), folder / f"p{number % 3}" / name
        )
        files.append((f"p{number % 3}", name))
    return files


@pytest.fixture
def reader(tmp_path: Path) -> FileStatisticsReader:
    return FileStatisticsReader(LocalStorage("/"), str(tmp_path), ("i", "s"), 9, True)


def test_a_few_files_are_read_on_the_driver_and_many_by_few_tasks(tmp_path: Path, reader: FileStatisticsReader) -> None:
    files, engine = base_files(tmp_path, 700), CountingEngine()
    few = reader.read(files[:FILES_ON_DRIVER], engine)
    assert engine.items == []
    many = reader.read(files, engine)
    assert len(engine.items) == 1
    assert 2 <= engine.items[0] <= 16
    assert many.entries.rows.num_rows == 1400 == len(many.entries.keys)
    assert many.entries.rows.slice(0, few.entries.rows.num_rows) == few.entries.rows
    assert many.partition_paths.to_pylist()[:4] == ["p0", "p0", "p1", "p1"]
    assert many.row_counts == dict.fromkeys(files, 2)
    rows = many.entries.rows.to_pylist()
    assert [row["min_value"]["integer"] for row in rows[::2]] == list(range(700))
    assert reader.read([], engine).entries.is_empty


def test_nothing_is_known_of_log_files_whose_rows_are_merged_column_by_column(
    tmp_path: Path, reader: FileStatisticsReader
) -> None:
    (base,) = base_files(tmp_path, 1)
    (tmp_path / "p0" / LOG).write_bytes(blocks_of(table_of([dict.fromkeys(SCHEMA.names, None) | {"i": 3}])))
    files = [base, ("p0", LOG)]
    assert reader.read_batch(files).row_counts == {base: 2, ("p0", LOG): 1}
    merging = attrs.evolve(reader, has_whole_rows=False)
    assert merging.read_batch(files).row_counts == {base: 2}


def test_a_footer_is_opened_once(tmp_path: Path, reader: FileStatisticsReader) -> None:
    opened: list[str] = []

    def around(call: Call) -> Any:
        opened.append(call.name)
        return call.apply()

    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1), ("b", "x", 2)))
    (file,) = (tmp_path / "t/x").glob("*.parquet")
    assert file.stat().st_size > 400_000
    counting = attrs.evolve(reader, base_path=path, columns=("ts",), storage=storage_with(path, around))
    assert counting.read_batch([("x", file.name)]).row_counts == {("x", file.name): 2}
    assert opened == ["open"]
