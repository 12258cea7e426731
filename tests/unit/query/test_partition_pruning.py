"""Partitions that a filter excludes, where folders are named by times."""

from __future__ import annotations

import operator
import random
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import HoodieException
from hoodie.keygen.key_generator import create_key_generator
from hoodie.query.pruning import prune_partitions
from tests.support.key_golden import load_golden_keys
from tests.support.table_builder import local_client, sorted_rows

TIME = "hoodie.keygen.timebased."
PARTITION_FIELDS = "hoodie.datasource.write.partitionpath.field"
PACKAGE = "org.apache.hudi.keygen."
UTC_MICROS = pa.timestamp("us", tz="UTC")
DAY = 86_400


def times(**given: str) -> dict[str, str]:
    return {f"{TIME}{name.replace('_', '.')}": value for name, value in given.items()}


def config(*, custom: bool = False, hive: bool = False, encode: bool = False, **given: str) -> HoodieTableConfig:
    generator = "CustomKeyGenerator" if custom else "TimestampBasedKeyGenerator"
    return HoodieTableConfig(
        {
            "hoodie.table.name": "t",
            "hoodie.table.recordkey.fields": "id",
            "hoodie.table.partition.fields": "region:SIMPLE,ts:TIMESTAMP" if custom else "ts",
            "hoodie.table.keygenerator.class": PACKAGE + generator,
            "hoodie.datasource.write.hive_style_partitioning": str(hive).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(encode).lower(),
            **times(**given),
        }
    )


def left(
    table: HoodieTableConfig, partitions: list[str], data_type: pa.DataType, condition: pc.Expression
) -> list[str]:
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", data_type)])
    return prune_partitions(partitions, table, schema, RowFilter.of(condition, schema, "t"))


stamp = pc.field("ts")
SECONDS = {"timestamp_type": "UNIX_TIMESTAMP", "output_timezone": "UTC"}
DAYS = [f"2023/11/{day}" for day in (13, 14, 15, 16)]
NOON = 1_699_963_200
"""2023-11-14 12:00 of UTC."""


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        (stamp == NOON, [14]),
        (stamp.isin([NOON, NOON + DAY]), [14, 15]),
        (stamp >= NOON, [14, 15, 16]),
        (stamp >= NOON + DAY // 2, [15, 16]),
        (stamp > NOON + DAY // 2 - 1, [15, 16]),
        (stamp < NOON - DAY // 2, [13]),
        (stamp <= NOON - DAY // 2, [13, 14]),
        (~(stamp < NOON + DAY), [15, 16]),
        ((stamp == NOON) | (stamp > NOON + DAY), [14, 15, 16]),
        ((stamp == NOON) | (pc.field("region") == "x"), [13, 14, 15, 16]),
        (stamp.is_null(), [13, 14, 15, 16]),
        (stamp != NOON, [13, 14, 15, 16]),
    ],
    ids=str,
)
def test_days_are_excluded_by_seconds(condition: pc.Expression, found: list[int]) -> None:
    table = config(**SECONDS, output_dateformat="yyyy/MM/dd")
    assert left(table, DAYS, pa.int64(), condition) == [f"2023/11/{day}" for day in found]


@pytest.mark.parametrize(
    ("data_type", "unit", "value"),
    [
        (pa.int64(), {"timestamp_type": "EPOCHMILLISECONDS"}, NOON * 1000),
        (pa.int64(), {"timestamp_type": "EPOCHMICROSECONDS"}, NOON * 10**6),
        (pa.int64(), {"timestamp_type": "SCALAR", "timestamp_scalar.time.unit": "NANOSECONDS"}, NOON * 10**9),
        (pa.int32(), {"timestamp_type": "SCALAR", "timestamp_scalar.time.unit": "HOURS"}, NOON // 3600),
        (pa.float64(), {"timestamp_type": "UNIX_TIMESTAMP"}, float(NOON)),
        (UTC_MICROS, {"timestamp_type": "EPOCHMICROSECONDS"}, datetime.fromtimestamp(NOON, UTC)),
        (pa.date32(), {"timestamp_type": "SCALAR", "timestamp_scalar.time.unit": "DAYS"}, date(2023, 11, 14)),
    ],
    ids=str,
)
def test_each_unit_and_type_is_compared_with_days(data_type: pa.DataType, unit: dict[str, str], value: Any) -> None:
    table = config(**unit, output_timezone="UTC", output_dateformat="yyyyMMdd")
    days = ["20231113", "20231114", "20231115", "odd", "__HIVE_DEFAULT_PARTITION__"]
    literal = pa.scalar(value, data_type)
    # What the pattern does not make is not excluded.
    assert left(table, days, data_type, stamp == literal) == ["20231114", *days[3:]]
    assert left(table, days, data_type, stamp >= literal) == ["20231114", "20231115", *days[3:]]
    assert left(table, days, data_type, stamp <= literal) == ["20231113", "20231114", *days[3:]]


@pytest.mark.parametrize(
    ("pattern", "names", "equal", "after"),
    [
        ("yyyy", ["2022", "2023", "2024"], [1], [1, 2]),
        ("dd/MM/yyyy", ["13/11/2023", "14/11/2023", "15/11/2023"], [1], [1, 2]),
        ("dd-MMM-yyyy", ["13-Nov-2023", "14-Nov-2023", "15-Nov-2023", "14-Okt-2023"], [1, 3], [1, 2, 3]),
        ("'h='HH", ["h=11", "h=12", "h=13"], [1], [0, 1, 2]),
        ("yyMM", ["2310", "2311", "2312"], [1], [0, 1, 2]),
        ("yyyy-M-d", ["2023-11-13", "2023-11-14", "2023-11-15"], [1], [0, 1, 2]),
        ("YYYY-MM", ["2022-11", "2023-11", "2024-11"], [1], [1, 2]),
        ("EEE", ["Mon", "Tue", "Wed", "Die"], [1, 3], [0, 1, 2, 3]),
        ("yyyy-MM-dd Z", ["2023-11-13 +0000"], [0], [0]),
        ("C", ["19", "20"], [0, 1], [0, 1]),
    ],
)
def test_patterns_are_excluded_as_far_as_they_tell(
    pattern: str, names: list[str], equal: list[int], after: list[int]
) -> None:
    table = config(**SECONDS, output_dateformat=pattern)
    assert left(table, names, pa.int64(), stamp == NOON) == [names[place] for place in equal]
    assert left(table, names, pa.int64(), stamp > NOON) == [names[place] for place in after]


def test_years_before_christ_are_in_the_folders_of_later_ones() -> None:
    table = config(**SECONDS, output_dateformat="YYYY")
    assert left(table, ["2022", "2024"], pa.int64(), stamp < NOON) == ["2022", "2024"]


def test_texts_are_excluded_where_they_are_equal() -> None:
    table = config(
        timestamp_type="DATE_STRING",
        input_dateformat="yyyy-MM-dd HH:mm",
        input_timezone="UTC",
        output_dateformat="yyyy/MM/dd",
    )
    assert left(table, DAYS, pa.string(), stamp == "2023-11-14 23:59") == ["2023/11/14"]
    assert left(table, DAYS, pa.string(), stamp.isin(["2023-11-14 1:05", "2023-11-16 1:05"])) == [DAYS[1], DAYS[3]]
    # Texts are not in the order of their times: 2023-9-1 is after 2023-11-14.
    assert left(table, DAYS, pa.string(), stamp > "2023-11-14") == DAYS
    assert left(table, DAYS, pa.string(), stamp == "no time") == DAYS
    short = config(timestamp_type="DATE_STRING", input_dateformat="yy-MM-dd", output_dateformat="yyyy/MM/dd")
    assert left(short, DAYS, pa.string(), stamp == "23-11-14") == DAYS


@pytest.mark.parametrize(
    ("table", "data_type"),
    [
        # The zone is that of each writer.
        (config(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy/MM/dd"), pa.int64()),
        (config(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy/MM/dd", timezone=""), pa.int64()),
        # The table has no type, no pattern or no unit.
        (config(output_dateformat="yyyy/MM/dd", timezone="UTC"), pa.int64()),
        (config(**SECONDS), pa.int64()),
        (config(timestamp_type="SCALAR", timezone="UTC", output_dateformat="yyyy/MM/dd"), pa.int64()),
    ],
)
def test_tables_that_do_not_say_how_their_folders_are_named_are_read_whole(
    table: HoodieTableConfig, data_type: pa.DataType
) -> None:
    assert left(table, DAYS, data_type, stamp == NOON) == DAYS


def test_a_timestamp_column_that_writers_may_read_in_two_ways_is_excluded_where_both_agree() -> None:
    table = config(timestamp_type="EPOCHMILLISECONDS", output_timezone="UTC", output_dateformat="yyyy-MM-dd")
    moment = pa.scalar(datetime.fromtimestamp(NOON, UTC), UTC_MICROS)
    names = ["2023-11-14", "2023-11-15", "2020-01-01"]
    as_number = create_key_generator(table).partition_paths(
        pa.record_batch({"id": ["a"], "ts": pa.array([moment.as_py()], UTC_MICROS)})
    )[0].as_py()  # fmt: skip
    assert left(table, [*names, as_number], UTC_MICROS, stamp == moment) == ["2023-11-14", as_number]
    assert left(table, names, UTC_MICROS, stamp > moment) == names


def test_the_fields_of_a_custom_generator_are_excluded_each_by_its_kind() -> None:
    table = config(custom=True, hive=True, **SECONDS, output_dateformat="yyyy/MM/dd")
    names = [f"region={region}/ts={day}" for region in ("x", "y") for day in DAYS[1:3]]
    region = pc.field("region")
    assert left(table, names, pa.int64(), (region == "x") & (stamp == NOON)) == names[:1]
    assert left(table, names, pa.int64(), stamp > NOON + DAY) == [names[1], names[3]]
    either = ((region == "x") & (stamp == NOON)) | ((region == "y") & (stamp == NOON + DAY))
    assert left(table, names, pa.int64(), either) == [names[0], names[3]]
    encoded = config(custom=True, encode=True, **SECONDS, output_dateformat="yyyy/MM/dd")
    assert left(encoded, ["x/2023%2F11%2F14", "x/2023%2F11%2F15", "x/2023/11/15"], pa.int64(), stamp == NOON) == [
        "x/2023%2F11%2F14",
        "x/2023/11/15",
    ]


def test_a_custom_generator_without_its_types_is_not_excluded() -> None:
    stored = dict(config(custom=True, **SECONDS, output_dateformat="yyyy/MM/dd").properties)
    table = HoodieTableConfig(stored | {"hoodie.table.partition.fields": "region,ts"})
    names = [f"x/{day}" for day in DAYS]
    assert left(table, names, pa.int64(), (stamp == NOON) & (pc.field("region") == "y")) == names


def test_hours_that_come_twice_or_never_are_in_the_folders_of_both() -> None:
    table = config(timestamp_type="UNIX_TIMESTAMP", timezone="Europe/Berlin", output_dateformat="yyyy-MM-dd-HH")
    backward = int(datetime(2023, 10, 29, 0, 30, tzinfo=UTC).timestamp())
    hours = [f"2023-10-29-{hour:02}" for hour in range(9)]
    # 02:30 comes at 00:30 and 01:30 of UTC; other databases of zones may differ by up to two hours.
    for moment in (backward, backward + 3600):
        assert "2023-10-29-02" in left(table, hours, pa.int64(), stamp == moment)
        assert "2023-10-29-02" in left(table, hours, pa.int64(), (stamp >= moment) & (stamp <= moment))
    assert left(table, hours, pa.int64(), stamp >= backward + 6 * 3600) == hours[5:]


PATTERNS = [
    "yyyy", "yyyy/MM", "yyyy/MM/dd", "yyyy-MM-dd", "yyyyMMdd", "yyyyMMddHH", "yyyy-MM-dd/HH", "dd/MM/yyyy", "MM", "dd",
    "yyMMdd", "yyyy-M-d", "yyyyMd", "MMM-yyyy", "MMMMyyyydd", "YYYY-MM-dd", "EEE", "xxxx-ww", "yyyy-DDD", "HH", "hh a",
    "yyyy-MM-dd-HH-mm", "yyyy-MM-dd-HH-mm-ss-SSS", "yyyy/dd", "'d'yyyy'x'MM", "yyyy1MM", "kk-yyyy",
]  # fmt: skip
ZONES = [
    "UTC",
    "GMT+08:00",
    "Europe/Berlin",
    "America/New_York",
    "Pacific/Apia",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
]
NUMBERS = {
    "UNIX_TIMESTAMP": 1, "EPOCHMILLISECONDS": 10**3, "EPOCHMICROSECONDS": 10**6, "NANOSECONDS": 10**9,
    "MINUTES": 1 / 60, "HOURS": 1 / 3600, "DAYS": 1 / DAY,
}  # fmt: skip
TYPES = [pa.int64(), pa.int32(), pa.float64(), pa.float32(), pa.decimal128(20, 3), pa.date32(), UTC_MICROS, pa.string()]


def random_values(chance: random.Random, data_type: pa.DataType, factor: float) -> pa.Array:
    """Moments around a few, in the unit of the table; nulls, and numbers that are no dates."""
    centre = chance.choice([0, -1, NOON, 1_698_537_600, 1_325_239_200, -(10**9), 253_402_300_799, -62_135_596_800])
    seconds = [
        centre + chance.choice([0, 1, -1, 0.0005, -0.0005, 3600, -3600]) * chance.randint(0, 900) for _ in range(30)
    ]
    if pa.types.is_string(data_type):
        moments = [datetime(1970, 1, 1) + timedelta(seconds=second % (10**10)) for second in seconds]
        texts: list[str | None] = [f"{moment:%Y-%m-%d %H:%M}" for moment in moments]
        return pa.array([*texts, None, "2023-11-4 1:2"], data_type)
    if pa.types.is_timestamp(data_type):
        years = [min(max(second, -62_135_596_800), 253_402_300_799) for second in seconds]
        return pa.array([*(round(second * 10**6) for second in years), None], pa.int64()).cast(data_type)
    if pa.types.is_date32(data_type):
        years = [min(max(second, -62_135_596_800), 253_402_300_799) for second in seconds]
        return pa.array([*(int(second // DAY) for second in years), None], pa.int32()).cast(data_type)
    if pa.types.is_floating(data_type):
        kind = np.float32 if pa.types.is_float32(data_type) else np.float64
        return pa.array([*(kind(second * factor) for second in seconds), None, float("nan"), -0.0], data_type)
    whole = [int(second * factor) for second in seconds]
    if pa.types.is_decimal(data_type):
        return pa.array([*(Decimal(value % 10**16) for value in whole), None], data_type)
    limit = 1 << (data_type.bit_width - 1)
    return pa.array([*((value + limit) % (2 * limit) - limit for value in whole), None], data_type)


def random_condition(chance: random.Random, values: pa.Array, depth: int = 0) -> pc.Expression:
    kind = chance.random()
    if depth < 2 and kind < 0.4:
        both = [random_condition(chance, values, depth + 1) for _ in range(2)]
        return reduce(chance.choice([operator.and_, operator.or_]), both)
    if depth < 2 and kind < 0.5:
        return ~random_condition(chance, values, depth + 1)
    if kind < 0.6:
        return pc.field("region") == chance.choice(["x", "y"])
    if kind < 0.65:
        return chance.choice([stamp.is_null(), stamp.is_valid()])
    present = values.drop_null()
    if not len(present):
        return stamp.is_valid()
    some = [present[chance.randrange(len(present))] for _ in range(3)]
    if pa.types.is_floating(values.type):
        # pyarrow, which the rows are compared with, has other rules for NaN, and for zeros in sets.
        some = [value if abs(value.as_py()) > 0 else pa.scalar(1.0, values.type) for value in some]
    if kind < 0.75:
        return stamp.isin(pa.array([value.as_py() for value in some], values.type))
    comparison = chance.choice(
        [operator.eq, operator.eq, operator.lt, operator.le, operator.gt, operator.ge, operator.ne]
    )
    condition: pc.Expression = comparison(stamp, some[0])
    return condition


def random_table(chance: random.Random) -> tuple[dict[str, Any], pa.DataType, float]:
    """Properties of a table, the type of its field, and how many of its units a second has."""
    data_type = chance.choice(TYPES)
    given = {"output_dateformat": chance.choice(PATTERNS)}
    factor = 1.0
    if pa.types.is_string(data_type):
        given |= {"timestamp_type": "DATE_STRING", "input_dateformat": "yyyy-MM-dd HH:mm"}
    else:
        kind = chance.choice(list(NUMBERS))
        factor = NUMBERS[kind]
        given["timestamp_type"] = kind
        if kind in ("NANOSECONDS", "MINUTES", "HOURS", "DAYS"):
            given |= {"timestamp_type": "SCALAR", "timestamp_scalar.time.unit": kind}
    if chance.random() < 0.6:
        given["timezone"] = chance.choice(ZONES)
    else:
        given |= {"output_timezone": chance.choice(ZONES), "input_timezone": chance.choice(ZONES)}
    flags = {name: chance.random() < 0.4 for name in ("custom", "hive", "encode")}
    return {**given, **flags}, data_type, factor


SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 10))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_partition_with_a_row_of_the_filter_is_excluded(seed: int) -> None:
    chance = random.Random(seed)
    excluded = 0
    for _ in range(40):
        given, data_type, factor = random_table(chance)
        table = config(**given)
        values = random_values(chance, data_type, factor)
        rows = pa.table(
            {
                "id": [str(number) for number in range(len(values))],
                "region": [chance.choice("xy") for _ in values],
                "ts": values,
            }
        )
        (batch,) = rows.to_batches()
        consistent = pa.types.is_timestamp(data_type) and chance.random() < 0.5
        name = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
        generator = create_key_generator(table, write_properties={name: str(consistent).lower()})
        try:
            paths = generator.bind(rows.schema).partition_paths(batch)
        except HoodieException:
            continue
        rows = rows.append_column("path", paths).filter(pc.field("path").is_valid())
        partitions = sorted(set(rows["path"].to_pylist()))
        for _ in range(8):
            condition = random_condition(chance, values)
            kept = left(table, partitions, data_type, condition)
            excluded += len(partitions) - len(kept)
            assert set(rows.filter(condition)["path"].to_pylist()) <= set(kept), (given, data_type, condition)
    assert excluded > 200


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.one_in(4)
def test_tables_give_the_same_rows_with_and_without_excluded_partitions(tmp_path: Path, seed: int) -> None:
    chance = random.Random(f"tables {seed}")
    folders = 0
    for number in range(4):
        given, data_type, factor = random_table(chance)
        values = random_values(chance, data_type, factor)
        flags = {name: given.pop(name) for name in ("custom", "hive", "encode")}
        path = str(tmp_path / str(number))
        rows = pa.table(
            {
                "id": [str(place) for place in range(len(values))],
                "region": [chance.choice("xy") for _ in values],
                "ts": values,
            }
        )
        properties = {
            **times(**given),
            "hoodie.datasource.write.keygenerator.class": PACKAGE
            + ("CustomKeyGenerator" if flags["custom"] else "TimestampBasedKeyGenerator"),
            "hoodie.datasource.write.partitionpath.field": "region:SIMPLE,ts:TIMESTAMP" if flags["custom"] else "ts",
            "hoodie.datasource.write.hive_style_partitioning": flags["hive"],
            "hoodie.datasource.write.partitionpath.urlencode": flags["encode"],
        }
        try:
            hoodie.write_table(rows, path, record_key_fields="id", properties=properties)
        except HoodieException:
            continue
        everything = hoodie.read_table(path, columns=rows.column_names)
        for _ in range(6):
            condition = random_condition(chance, values)
            plan = hoodie.plan_read(path, filters=condition)
            folders += len(plan.pruned_partitions)
            found = hoodie.read_table(path, columns=["id"], filters=condition)
            assert sorted_rows(found) == sorted_rows(everything.filter(condition).select(["id"])), (given, condition)
    assert folders > 0


@pytest.mark.one_in(4)
def test_no_folder_of_real_hudi_with_a_row_of_the_filter_is_excluded() -> None:
    excluded = 0
    for case in load_golden_keys():
        # Hudi 0.15.0 does not store the type of the values, nor which fields are times.
        told = {key: value for key, value in case.options.items() if key.startswith(TIME) or key == PARTITION_FIELDS}
        if len(told) < 2 or not case.table_properties:
            continue
        table = HoodieTableConfig({**told, **case.table_properties})
        partitions = sorted({path for path in case.partition_paths if path is not None})
        for field in (name.partition(":")[0] for name in table.partition_fields):
            if field not in case.rows.schema.names:
                continue
            for value, path in zip(case.rows.column(field), case.partition_paths, strict=True):
                if path is None or not value.is_valid:
                    continue
                stored = pc.field(field)
                for condition in (stored == value, stored <= value, stored >= value, stored.isin(pa.repeat(value, 1))):
                    row_filter = RowFilter.of(condition, case.rows.schema, "t")
                    kept = prune_partitions(partitions, table, case.rows.schema, row_filter)
                    excluded += len(partitions) - len(kept)
                    # NaN equals nothing.
                    assert path in kept or not case.rows.filter(condition).num_rows, (case.name, condition)
    assert excluded > 500


@pytest.fixture
def trips(tmp_path: Path) -> str:
    """Three days of trips, a commit each."""
    path = str(tmp_path / "trips")
    for day in range(3):
        rows = pa.table({"id": [f"k{day}"], "ts": [NOON + day * DAY], "fare": [1.0]})
        hoodie.write_table(rows, path, record_key_fields="id", partition_fields="ts", properties=TRIPS_BY_DAY)
    return path


TRIPS_BY_DAY = times(timestamp_type="UNIX_TIMESTAMP", output_dateformat="yyyy/MM/dd") | {
    "hoodie.datasource.write.keygenerator.class": f"{PACKAGE}TimestampBasedKeyGenerator"
}


def test_a_plan_tells_which_partitions_are_excluded_by_times(trips: str) -> None:
    plan = hoodie.plan_read(trips, filters=[("ts", ">=", NOON + DAY)])
    assert plan.pruned_partitions == ("2023/11/14",)
    assert "pruned by partition, 1 of them" in plan.explain()
    assert sorted_rows(hoodie.read_table(trips, columns=["id"], filters=[("ts", ">=", NOON + DAY)])) == [
        ("k1",),
        ("k2",),
    ]


def test_a_range_of_commits_leaves_partitions_of_other_times_out(trips: str) -> None:
    asked = {"query_type": "incremental", "begin": "earliest", "filters": [("ts", "=", NOON + DAY)]}
    assert hoodie.plan_read(trips, **asked).pruned_partitions == ("2023/11/14", "2023/11/16")
    assert sorted_rows(hoodie.read_table(trips, columns=["id"], **asked)) == [("k1",)]
    begun = hoodie.read_table(trips, columns=["_hoodie_commit_time"], filters=[("id", "=", "k0")])[0][0].as_py()
    (commit,) = [row for row in HoodieTableMetaClient.load(trips).history() if row.instant_time == begun]
    first = commit.completion_time or begun
    assert hoodie.plan_read(trips, **{**asked, "begin": first}).pruned_partitions == ("2023/11/16",)


def test_deletes_by_a_filter_leave_partitions_of_other_times_alone(trips: str) -> None:
    with local_client(trips) as client:
        client.delete(where=[("ts", "<", NOON + DAY)])
    assert sorted_rows(hoodie.read_table(trips, columns=["id"])) == [("k1",), ("k2",)]
