"""Files that statistics and the record index of the metadata table leave out."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie.common.data.expression_tree import parse_expression
from hoodie.common.model.column_range import HoodieColumnRange, RangeValue, ValueType, widest_range
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.metadata.reader.column_bounds import ColumnBounds
from hoodie.metadata.records.column_stats_records import FileColumnRanges, column_stats_entries
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.query.arrow_reader import scan
from hoodie.query.range_pruning import may_match
from tests.support.metadata_tampering import Entry, copied, tamper
from tests.support.table_builder import init_table, local_client

WITHOUT = {"hoodie.metadata.enable": False}
BASE = "f-0_0-0-0_20260101000000000.parquet"
LOG = ".f-0_20260101000000000.log.1_0-0-0"
BY_COLUMNS = "pruned by column statistics of the metadata table"
BY_PARTITIONS = "pruned by partition statistics of the metadata table"
BY_INDEX = "pruned by the record index"
KEY = pc.field("_hoodie_record_key")


@pytest.fixture
def table(request: pytest.FixtureRequest, shared_tables: Path, later_tables: Path, tmp_path: Path) -> Path:
    root = shared_tables if (shared_tables / request.param).exists() else later_tables
    return copied(root / request.param / request.param, tmp_path)


def answers(table: Path, condition: pc.Expression, **asked: Any) -> tuple[str, pa.Table, pa.Table]:
    """What a plan says, and the rows with and without the metadata table."""
    plan = hoodie.plan_read(str(table), filters=condition, **asked)
    expected = hoodie.read_table(str(table), filters=condition, options=WITHOUT, **asked)
    return plan.explain(), scan(plan).read_all(), expected


# --- real tables ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "table",
    ["hudi_comprehensive_types_v6_mor", "v6_mor_mdt", "v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt", "v9_cow_rli_part"],
    indirect=True,
)
@pytest.mark.one_in(4)
def test_filters_choose_the_same_rows(table: Path) -> None:
    by_key = [("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")]
    rows = hoodie.read_table(str(table), options=WITHOUT).sort_by(by_key)
    chance = random.Random(20260101)
    pruned = 0
    for field in rows.schema:
        values = [] if pa.types.is_nested(field.type) else [v for v in pc.unique(rows.column(field.name)) if v.is_valid]
        for value in chance.sample(values, min(2, len(values))):
            column = pc.field(field.name)
            comparisons = [column == value, column < value, column <= value, column > value, column >= value]
            for condition in chance.sample(comparisons, 2):
                plan = hoodie.plan_read(str(table), filters=condition)
                assert scan(plan).read_all().sort_by(by_key).equals(rows.filter(condition)), condition
                pruned += "the metadata table" in plan.explain()
    assert pruned > 5 or table.name != "hudi_comprehensive_types_v6_mor", "files that differ in many columns"


@pytest.mark.parametrize("table", ["v9_cow_mdt", "v9_mor_mdt", "v8_cow_mdt", "v6_mor_mdt"], indirect=True)
def test_earlier_times_and_base_files_alone_are_not_judged_by_the_newest_state(table: Path) -> None:
    times = [one.requested_time for one in TableSnapshot.load(str(table)).active_timeline.completed_writes()]
    first = hoodie.read_table(str(table), as_of=times[0], options=WITHOUT)
    now = hoodie.read_table(str(table), options=WITHOUT, columns=["_hoodie_record_key"])
    gone = set(first["_hoodie_record_key"].to_pylist()) - set(now["_hoodie_record_key"].to_pylist())
    assert gone, "keys that were deleted since"
    for asked in ({"as_of": times[0]}, {"query_type": "read_optimized"}):
        for condition in (min(gone) == KEY, KEY.isin(sorted(gone)), pc.field("ts") <= 2):
            shown, found, expected = answers(table, condition, **asked)
            assert found.equals(expected)
            assert BY_PARTITIONS not in shown
            assert BY_INDEX not in shown
    _, found, expected = answers(table, pc.field("ts") <= 2, query_type="incremental", begin="earliest", end=times[0])
    assert found.equals(expected)


# --- lies are seen ----------------------------------------------------------------------------------------------------


def narrow(table: Path, partition: str, column: str) -> None:
    """Let statistics say that a column has nulls alone."""

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if row["column_name"] == column:
            row |= {"min_value": None, "max_value": None, "null_count": 7, "value_count": 7}
        yield key, row

    assert tamper(table, partition, MetadataPayload.COLUMN_STATS, change) > 0


@pytest.mark.parametrize("table", ["v6_mor_mdt", "v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt"], indirect=True)
def test_column_statistics_are_used(table: Path) -> None:
    condition = pc.field("id") > ""
    _, found, expected = answers(table, condition)
    assert found.num_rows == expected.num_rows > 0
    narrow(table, "column_stats", "id")
    shown, found, expected = answers(table, condition)
    assert BY_COLUMNS in shown
    assert found.num_rows < expected.num_rows
    off = hoodie.read_table(str(table), filters=condition, options={"hoodie.enable.data.skipping": "false"})
    assert off.num_rows == expected.num_rows


@pytest.mark.parametrize("table", ["v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt"], indirect=True)
def test_partition_statistics_are_used_first(table: Path) -> None:
    condition = pc.field("id") > ""
    narrow(table, "partition_stats", "id")
    plan = hoodie.plan_read(str(table), filters=condition)
    assert not plan.slices
    assert len(plan.partitions_without_rows) > 1
    assert f"{BY_PARTITIONS}, {len(plan.partitions_without_rows)} partitions" in plan.explain()
    assert BY_COLUMNS not in plan.explain()
    assert hoodie.read_table(str(table), filters=condition, options=WITHOUT).num_rows > 0


@pytest.mark.parametrize("table", ["hudi_comprehensive_types_v6_mor", "v9_mor_mdt", "v9_cow_rli_part"], indirect=True)
def test_the_record_index_is_used(table: Path) -> None:
    keys = hoodie.read_table(str(table), options=WITHOUT)["_hoodie_record_key"].to_pylist()
    off = {"hoodie.enable.data.skipping": "false"}
    for key in keys[:3]:
        shown, found, expected = answers(table, key == KEY)
        assert found.equals(expected)
        assert found.num_rows == 1
        assert BY_INDEX in shown or BY_PARTITIONS in shown

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if key != keys[0]:
            yield key, row

    assert tamper(table, "record_index", MetadataPayload.RECORD_INDEX, change) > 0
    assert hoodie.read_table(str(table), filters=keys[0] == KEY).num_rows == 0
    assert hoodie.read_table(str(table), filters=keys[0] == KEY, options=off).num_rows == 1


@pytest.mark.parametrize("table", ["v9_cow_rli_part", "v9_mor_mdt"], indirect=True)
def test_a_record_index_that_names_unknown_file_groups_decides_nothing(table: Path) -> None:
    keys = hoodie.read_table(str(table), options=WITHOUT)["_hoodie_record_key"].to_pylist()

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        yield key, {**row, "file_id": "00000000-0000-0000-0000-000000000000-0"}

    assert tamper(table, "record_index", MetadataPayload.RECORD_INDEX, change) > 0
    shown, found, expected = answers(table, keys[0] == KEY)
    assert found.equals(expected)
    assert found.num_rows == 1
    assert BY_INDEX not in shown


# --- ranges -----------------------------------------------------------------------------------------------------------


def bounds(
    data_type: pa.DataType, *ranges: HoodieColumnRange, version: int = 9, names: tuple[str, ...] = ()
) -> ColumnBounds:
    files = [
        FileColumnRanges("p", name, (one,)) for name, one in zip(names or (BASE,) * len(ranges), ranges, strict=True)
    ]
    return ColumnBounds.of_statistics(pa.Table.from_batches([column_stats_entries(files, version).rows]), data_type)


def one(
    value_type: ValueType,
    low: RangeValue | None,
    high: RangeValue | None,
    *,
    values: int = 10,
    nulls: int = 0,
    **decimal: int,
) -> HoodieColumnRange:
    return HoodieColumnRange("c", value_type, low, high, values, nulls, **decimal)


NAN = math.nan
UTC = pa.timestamp("us", "UTC")
LOCAL = pa.timestamp("us")
MILLIS = 1_767_225_600_000
NEW_YEAR = datetime(2026, 1, 1)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize(
    ("data_type", "found", "expected"),
    [
        (pa.int32(), one(ValueType.INT, -5, 7), (-5, 7)),
        (pa.int64(), one(ValueType.INT, -5, 7), (-5, 7)),
        (pa.int32(), one(ValueType.LONG, 0, 1 << 40), None),
        (pa.bool_(), one(ValueType.BOOLEAN, 0, 0), (False, False)),
        (pa.string(), one(ValueType.STRING, b"a", "\u00e9".encode()), ("a", "\u00e9")),
        (pa.string(), one(ValueType.STRING, b"a", "\ue000".encode()), None),
        (pa.string(), one(ValueType.STRING, *widest_range(ValueType.STRING)), None),
        (pa.string(), one(ValueType.INT, 1, 2), None),
        (pa.float64(), one(ValueType.INT, 1, 2), None),
        (pa.int64(), one(ValueType.DOUBLE, 1.0, 2.0), None),
        (pa.float64(), one(ValueType.DOUBLE, 1.0, 2.0), (1.0, 2.0)),
        # A float that became a double is read as its decimal digits, which are beside it.
        (pa.float64(), one(ValueType.FLOAT, 1.5, 2.0), (1.5 - 1.5 * 2**-23, 2.0 + 2.0 * 2**-23)),
        (pa.float32(), one(ValueType.DOUBLE, 1.0, 2.0), None),
        (pa.float64(), one(ValueType.DOUBLE, 0.0, 2.0), None),
        (pa.float64(), one(ValueType.DOUBLE, -1.0, 2.0), None),
        (pa.float64(), one(ValueType.DOUBLE, -2.0, -1.0), (-2.0, -1.0)),
        (pa.float64(), one(ValueType.DOUBLE, 1.0, NAN), (1.0, math.inf)),
        (pa.float64(), one(ValueType.DOUBLE, NAN, NAN), None),
        (pa.float64(), one(ValueType.DOUBLE, 3.0, 2.0), None),
        (pa.date32(), one(ValueType.DATE, 0, 1), (date(1970, 1, 1), date(1970, 1, 2))),
        (pa.decimal128(10, 2), one(ValueType.DECIMAL, -125, 99, precision=10, scale=2),
         (Decimal("-1.25"), Decimal("0.99"))),
        (pa.decimal128(10, 1), one(ValueType.DECIMAL, -125, 91, precision=10, scale=2),
         (Decimal("-1.3"), Decimal("1.0"))),
        (pa.decimal128(3, 2), one(ValueType.DECIMAL, 0, 12345, precision=10, scale=2), None),
        (LOCAL, one(ValueType.LOCAL_TIMESTAMP_MICROS, MILLIS * 1000, MILLIS * 1000 + 1),
         (NEW_YEAR, NEW_YEAR.replace(microsecond=1))),
        (pa.binary(), one(ValueType.BYTES, b"a", b"b"), None),
        (pa.time64("us"), one(ValueType.TIME_MICROS, 1, 2), None),
    ],
)  # fmt: skip
def test_ranges_in_the_type_of_their_column(
    version: int, data_type: pa.DataType, found: HoodieColumnRange, expected: tuple[Any, Any] | None
) -> None:
    known = bounds(data_type, found, version=version)
    assert known.low.type == known.high.type == data_type
    assert (known.low[0].as_py(), known.high[0].as_py()) == (expected or (None, None))
    assert not known.is_void[0]


def test_the_unit_of_times_must_be_sure() -> None:
    millis = one(ValueType.TIMESTAMP_MILLIS, MILLIS, MILLIS)
    end = pa.scalar(MILLIS * 1000 + 999, pa.int64()).cast(UTC)
    assert bounds(UTC, millis).high[0] == end
    assert bounds(UTC, millis).low[0] == pa.scalar(MILLIS * 1000, pa.int64()).cast(UTC)
    # Versions 6 and 8 tell no unit.
    assert not bounds(UTC, millis, version=8).low[0].is_valid
    assert bounds(UTC, one(ValueType.TIMESTAMP_MICROS, MILLIS * 1000, MILLIS * 1000), version=8).low[0].is_valid
    assert not bounds(UTC, one(ValueType.LOCAL_TIMESTAMP_MICROS, MILLIS, MILLIS)).low[0].is_valid
    assert not bounds(LOCAL, one(ValueType.TIMESTAMP_MICROS, MILLIS, MILLIS)).low[0].is_valid
    assert not bounds(UTC, one(ValueType.TIMESTAMP_MICROS, 5, MILLIS), version=6).low[0].is_valid


def test_nulls_alone_are_known_and_absent_ends_are_not() -> None:
    nulls = one(ValueType.INT, None, None, nulls=10)
    unknown = one(ValueType.INT, None, None, nulls=9)
    empty = one(ValueType.NULL, None, None, values=0)
    found = bounds(pa.int32(), nulls, unknown, empty, empty, names=(BASE, BASE, LOG, BASE))
    assert found.is_void.tolist() == [True, False, True, False]


def matches(condition: pc.Expression, known: dict[str, ColumnBounds]) -> list[bool]:
    tree = parse_expression(condition)
    assert tree is not None
    return may_match(tree, known, len(next(iter(known.values())).is_void)).tolist()


def test_which_ranges_may_match() -> None:
    c = pc.field("c")
    known = {"c": bounds(pa.int32(), one(ValueType.INT, 3, 5), one(ValueType.INT, None, None, nulls=10))}
    known["c"] = known["c"].take(pa.array([0, 1, None]))
    for condition, expected in (
        (c == pa.scalar(3, pa.int32()), True), (c == pa.scalar(6, pa.int32()), False),
        (c < pa.scalar(3, pa.int32()), False), (c <= pa.scalar(3, pa.int32()), True),
        (c > pa.scalar(5, pa.int32()), False), (c >= pa.scalar(5, pa.int32()), True),
        (c.isin(pa.array([1, 4], pa.int32())), True), (c.isin(pa.array([1, 9], pa.int32())), False),
        (c.isin(pa.array(range(200), pa.int32())), True), (c.isin(pa.array(range(6, 300), pa.int32())), False),
        (c.is_valid(), True),
    ):  # fmt: skip
        assert matches(condition, known) == [expected, False, True], condition
    # What is not understood excludes nothing.
    assert matches(c == pa.scalar(6, pa.int64()), known)[0]
    assert matches(pc.field("d") == 1, known) == [True] * 3
    low, high = c < pa.scalar(3, pa.int32()), c > pa.scalar(4, pa.int32())
    assert matches(low & high, known) == [False, False, True]
    assert matches(low | high, known) == [True, False, True]


def test_a_slice_is_judged_by_all_its_files_together() -> None:
    """A partial update takes one column from the log file, and leaves the other as the base file has it."""
    a = bounds(pa.int32(), one(ValueType.INT, 1, 1), one(ValueType.INT, None, None, nulls=10)).united(np.array([0]))
    b = bounds(pa.int32(), one(ValueType.INT, 1, 1), one(ValueType.INT, 9, 9)).united(np.array([0]))
    wanted = (pc.field("a") == pa.scalar(1, pa.int32())) & (pc.field("b") == pa.scalar(9, pa.int32()))
    assert matches(wanted, {"a": a, "b": b}) == [True]
    assert matches(pc.field("b") == pa.scalar(10, pa.int32()), {"b": b}) == [False]
    ranges = [one(ValueType.STRING, b"c", b"d"), one(ValueType.STRING, b"a", b"b"), one(ValueType.STRING, b"x", b"y")]
    known = bounds(pa.string(), *ranges, ranges[0]).take(pa.array([0, 1, 2, None, 3])).united(np.array([0, 2, 4]))
    assert known.low.to_pylist() == ["a", None, "c"]
    assert known.high.to_pylist() == ["d", None, "d"]


def test_no_footer_is_read_where_the_metadata_table_has_ranges(
    later_tables: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    open_footer = HoodieParquetReader.open

    def watched(reader: HoodieParquetReader) -> HoodieParquetReader:
        opened.append(reader.path)
        return open_footer(reader)

    monkeypatch.setattr(HoodieParquetReader, "open", watched)
    table = str(later_tables / "v9_cow_mdt/v9_cow_mdt")
    hoodie.plan_read(table, filters=pc.field("ts") > 0)
    assert not opened
    hoodie.plan_read(table, filters=pc.field("ts") > 0, options=WITHOUT)
    assert opened


@pytest.mark.parametrize("version", [6, pytest.param(9, marks=pytest.mark.slow)])
@pytest.mark.one_in(4)
def test_floats_of_a_column_that_became_one_of_doubles_are_found(tmp_path: Path, version: int) -> None:
    """A file of floats holds the float next to 0.1, and readers give the double 0.1."""
    path = init_table(tmp_path / "t", table_version=version)
    options = {
        "hoodie.metadata.enable": True,
        "hoodie.metadata.index.column.stats.enable": True,
        "hoodie.parquet.small.file.limit": 0,
    }
    values = [0.1, -0.1, 1e-45, 3.3e38, 7.7]
    with local_client(path, options) as client:
        for data_type in (pa.float32(), pa.float64()):
            for number, value in enumerate(values):
                columns = {"id": f"{data_type}{number}", "region": "x" if number % 2 else "y", "ts": 1}
                row = {name: pa.array([given]) for name, given in columns.items()}
                client.insert(pa.table({**row, "v": pa.array([value], data_type)}))
    stored = hoodie.read_table(path, options=WITHOUT)
    for value in stored["v"].to_pylist():
        for condition in (pc.field("v") == value, pc.field("v") <= value, pc.field("v") >= value):
            text, found, expected = answers(Path(path), condition)
            assert found.num_rows == expected.num_rows > 0, condition
    assert BY_COLUMNS in text
