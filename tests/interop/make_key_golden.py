"""Makes ``tests/data/hudi_keys.json`` with real Hudi 0.15.0: nasty values and what it makes of them.

    python -m tests.interop.make_key_golden tests/data/hudi_keys.json [name of a case ...]

Each case is a table that is written with the default upsert. Where Hudi refuses a table, its rows are written one by
one, so that the file says which of them it refuses. The properties of the table that have to do with keys are kept as
Hudi stored them. `tests.support.key_golden` reads the file.
"""

from __future__ import annotations

import datetime
import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.config.java_properties import parse_properties
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.key_golden import encode_column

PACKAGE = "org.apache.hudi.keygen."
NUMBER = "row_number"
UTC = datetime.UTC
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=UTC)
TIME = "hoodie.keygen.timebased."
URL_ENCODE = "hoodie.datasource.write.partitionpath.urlencode"
HIVE_STYLE = "hoodie.datasource.write.hive_style_partitioning"
CONSISTENT = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"


@attrs.frozen
class Case:
    """A table: how its keys are made, and its rows."""

    name: str
    generator: str
    keys: str
    partitions: str
    columns: Mapping[str, pa.Array]
    options: Mapping[str, str] = attrs.field(factory=dict)

    def hudi_options(self) -> dict[str, str]:
        return {
            "hoodie.table.name": "golden",
            "hoodie.datasource.write.recordkey.field": self.keys,
            "hoodie.datasource.write.partitionpath.field": self.partitions,
            "hoodie.datasource.write.precombine.field": NUMBER,
            "hoodie.datasource.write.keygenerator.class": f"{PACKAGE}{self.generator}",
            **self.options,
        }

    def table(self) -> pa.Table:
        count = len(next(iter(self.columns.values())))
        return pa.table({**self.columns, NUMBER: pa.array(range(count), pa.int64())})


STRINGS = [
    "a",
    "b c",
    "",
    None,
    "ü",
    "日本",
    "a,b",
    "a:b",
    "a/b",
    "a=b",
    "100%",
    "it's",
    'say "x"',
    "x#y",
    "q?",
    "st*r",
    "{x}",
    "[y]",
    "^z",
    "back\\slash",
    "tab\tx",
    "plus+and&",
    "<|>",
    "~`!@$();",
    "__null__",
    "default",
    "\u007f",
    "\u0001",
    "😀",
    "null",
    " lead",
    "trail ",
    "2024-01-02",
    "%2F",
    "..a",
    ".hidden",
]
IN_KEYS_ONLY = ["line\nbreak", "a\u0000b"]
DOUBLES = [
    0.0,
    -0.0,
    1.0,
    -1.5,
    0.001,
    0.00099,
    1e7,
    9999999.0,
    123456.789,
    1.0e10,
    5e-324,
    1.7976931348623157e308,
    0.1,
    float("nan"),
    float("inf"),
    float("-inf"),
    1e21,
    1.1e-5,
    2.0**53,
    100.0,
    None,
    1e23,
    2e-3,
    3.0e15,
    12345678.9,
]
FLOATS = [0.0, -0.0, 0.1, 1e10, 3.4028235e38, 1.4e-45, 16777216.0, 1.5, -2.25e-4, float("nan"), float("inf"), None, 1e7]
INT64 = [0, 1, -1, 2**63 - 1, -(2**63), 10**12, None]
INT32 = [0, 7, -7, 2**31 - 1, -(2**31), None]
DAYS = [0, 1, -1, 19000, 2932896, -719162, None, 11016]
MICROS = [
    0,
    1,
    -1,
    1_700_000_000_000_000,
    1_700_000_000_123_000,
    1_700_000_000_123_456,
    -62135596800000000,
    None,
    1_700_000_000_100_000,
    -1_500_000,
    951_782_400_000_000,
]


def strings(*values: str | None) -> pa.Array:
    return pa.array(values, pa.string())


def ids(count: int) -> pa.Array:
    return pa.array([f"k{number}" for number in range(count)])


def timestamps(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int64()).cast(pa.timestamp("us", "UTC"))


def dates(values: list[int | None]) -> pa.Array:
    return pa.array(values, pa.int32()).cast(pa.date32())


def typed_values() -> dict[str, pa.Array]:
    """Values of every type that can stand in a key."""
    decimals = ["0.00", "12.30", "-12.30", "99999999.99", "0.01", None]
    wide = ["0E-15", "0.000000000000001", "1.500000000000000", "-12345678901234567890.000000000000001", None, "100"]
    tiny = ["0.0000001", "0.0000000", "1.0000000", "0.0000120", None]
    return {
        "string": strings(*STRINGS, *IN_KEYS_ONLY),
        "bool": pa.array([True, False, None]),
        "int8": pa.array([-128, 127, None], pa.int8()),
        "int16": pa.array([-32768, 5, None], pa.int16()),
        "int32": pa.array(INT32, pa.int32()),
        "int64": pa.array(INT64, pa.int64()),
        "float": pa.array(FLOATS, pa.float32()),
        "double": pa.array(DOUBLES, pa.float64()),
        "decimal": pa.array([None if v is None else Decimal(v) for v in decimals], pa.decimal128(10, 2)),
        "wide_decimal": pa.array([None if v is None else Decimal(v) for v in wide], pa.decimal128(38, 15)),
        "tiny_decimal": pa.array([None if v is None else Decimal(v) for v in tiny], pa.decimal128(18, 7)),
        "whole_decimal": pa.array([Decimal(0), Decimal(10) ** 30, Decimal(-7), None], pa.decimal128(38, 0)),
        "date": dates(DAYS),
        "timestamp": timestamps(MICROS),
        "binary": pa.array([b"ab", b"\xff\xfe", b"", None, "ü".encode(), b"a/b"], pa.binary()),
    }


def type_cases() -> Iterator[Case]:
    """Each type as a part of a record key, as the whole of one, and in partition paths."""
    for name, values in typed_values().items():
        columns = {"id": ids(len(values)), "v": values}
        complex_case = Case(f"complex_key_{name}", "ComplexKeyGenerator", "id,v", "p", {**columns, "p": columns["id"]})
        yield attrs.evolve(complex_case, columns={**columns, "p": strings(*["x"] * len(values))})
        good = (
            values.drop_null()
            if name not in ("string", "binary")
            else values.filter(pa.array([value not in (None, "", b"") for value in values.to_pylist()]))
        )
        yield Case(f"simple_key_{name}", "SimpleKeyGenerator", "v", "p", {"v": good, "p": strings(*["x"] * len(good))})
        if name == "string":
            values = strings(*STRINGS)
        columns = {"id": ids(len(values)), "v": values}
        if name == "float" or name == "double":
            # Folders that differ in nothing but NaN are of no use; the values are the same as in keys.
            columns = {"id": ids(3), "v": values.slice(1, 3)}
        yield Case(f"partition_{name}", "SimpleKeyGenerator", "id", "v", columns)
    for name in ("timestamp", "date"):
        values = typed_values()[name]
        columns = {"id": ids(len(values)), "v": values, "p": strings(*["x"] * len(values))}
        yield Case(f"consistent_complex_key_{name}", "ComplexKeyGenerator", "id,v", "p", columns, {CONSISTENT: "true"})
        yield Case(
            f"consistent_partition_{name}",
            "SimpleKeyGenerator",
            "id",
            "v",
            columns,
            {CONSISTENT: "true", URL_ENCODE: "true"},
        )


def partition_cases() -> Iterator[Case]:
    values = strings(*STRINGS, "a//b", "/a", "a/", "a\u0000b")
    columns = {"id": ids(len(values)), "v": values, "w": pa.array([*range(len(values) - 1), None], pa.int32())}
    for hive in ("false", "true"):
        for encode in ("false", "true"):
            if hive == encode == "false":
                continue
            options = {HIVE_STYLE: hive, URL_ENCODE: encode}
            name = f"hive_{hive}_encode_{encode}"
            if encode == "true":
                yield Case(f"partition_strings_{name}", "SimpleKeyGenerator", "id", "v", columns, options)
            yield Case(f"complex_{name}", "ComplexKeyGenerator", "id,w", "w,v", columns, options)
            yield Case(f"custom_{name}", "CustomKeyGenerator", "id", "w:SIMPLE,v:SIMPLE", columns, options)
    yield Case("none_one_key", "NonpartitionedKeyGenerator", "id", "", columns)
    yield Case("none_two_keys", "NonpartitionedKeyGenerator", "id,v", "", columns)
    yield Case("custom_without_partition", "CustomKeyGenerator", "id,w", "", columns)
    yield Case("custom_two_keys", "CustomKeyGenerator", "id,v", "w:simple", columns)
    yield Case("complex_single_key", "ComplexKeyGenerator", "id", "w,id", columns)
    yield Case(
        "null_keys_simple", "SimpleKeyGenerator", "v", "w", {"v": strings("a", None, ""), "w": pa.array([1, 2, 3])}
    )
    nothing = {"v": strings("a", None, "", None), "u": strings("b", None, None, ""), "w": pa.array([1, 2, 3, 4])}
    yield Case("null_keys_complex", "ComplexKeyGenerator", "v,u", "w", nothing)
    yield Case("null_keys_none", "NonpartitionedKeyGenerator", "v", "", nothing)
    yield Case("null_keys_custom", "CustomKeyGenerator", "v", "w:SIMPLE", nothing)


def nested_cases() -> Iterator[Case]:
    kind = pa.struct([("b", pa.string()), ("n", pa.int64()), ("c", pa.struct([("d", pa.date32())]))])
    rows: list[dict[str, Any] | None] = [
        {"b": "x", "n": 5, "c": {"d": datetime.date(2024, 2, 29)}},
        {"b": None, "n": None, "c": None},
        {"b": "", "n": -1, "c": {"d": None}},
        None,
    ]
    columns = {"id": ids(len(rows)), "a": pa.array(rows, kind), "z": pa.array([1.5, 2.5, 3.5, 4.5])}
    yield Case("nested_complex", "ComplexKeyGenerator", "id,a.b,a.c.d", "a.n,a.b", columns, {HIVE_STYLE: "true"})
    yield Case("nested_simple", "SimpleKeyGenerator", "a.b", "a.c.d", columns)
    yield Case("nested_custom", "CustomKeyGenerator", "id", "a.b:SIMPLE,a.c.d:TIMESTAMP", columns, days("yyyy-MM"))
    yield Case("nested_timestamp", "TimestampBasedKeyGenerator", "id", "a.n", columns, time("UNIX_TIMESTAMP", "yyyy"))


def time(kind: str, output: str, **more: str) -> dict[str, str]:
    """Properties of the timestamp key generator; ``input_timezone`` stands for ``input.timezone``."""
    given = {f"{TIME}{name.replace('_', '.')}": value for name, value in more.items()}
    return {f"{TIME}timestamp.type": kind, f"{TIME}output.dateformat": output, **given}


def days(output: str) -> dict[str, str]:
    return time("SCALAR", output, timestamp_scalar_time_unit="DAYS", output_timezone="UTC")


def time_case(name: str, values: pa.Array, options: dict[str, str]) -> Case:
    return Case(f"time_{name}", "TimestampBasedKeyGenerator", "id", "v", {"id": ids(len(values)), "v": values}, options)


SECONDS = [
    0,
    1,
    -1,
    1_700_000_000,
    951_782_399,
    951_782_400,
    -62135596800,
    253402300799,
    253402300800,
    None,
    1_711_846_799,
    1_711_846_800,
    1_729_990_799,
    1_729_990_800,
    -14_000_000_000,
]
ALL_LETTERS = "yyyy/MM/dd HH.mm.ss.SSS D e w xxxx Y K k h"


def time_cases() -> Iterator[Case]:
    seconds = pa.array(SECONDS, pa.int64())
    millis = pa.array([None if v is None else v * 1000 + 7 for v in SECONDS], pa.int64())
    yield time_case("unix", seconds, time("UNIX_TIMESTAMP", "yyyy/MM/dd"))
    yield time_case("unix_utc_letters", seconds, time("UNIX_TIMESTAMP", ALL_LETTERS, output_timezone="UTC"))
    yield time_case("unix_berlin", seconds, time("UNIX_TIMESTAMP", "yyyyMMddHH Z", timezone="Europe/Berlin"))
    yield time_case(
        "unix_both", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd HHmm", timezone="Asia/Kolkata", output_timezone="UTC")
    )
    yield time_case("unix_gmt8", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd HH", output_timezone="GMT+8:00"))
    yield time_case("unix_unknown_zone", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd HH", output_timezone="+08:00"))
    yield time_case("unix_est", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd HH", output_timezone="EST"))
    yield time_case("unix_pst", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd HH", output_timezone="PST"))
    yield time_case(
        "unix_text", seconds, time("UNIX_TIMESTAMP", "yy MMM MMMM E EEEE a 'o''clock' M d H", output_timezone="UTC")
    )
    yield time_case(
        "unix_encoded",
        seconds,
        {**time("UNIX_TIMESTAMP", "yyyy/MM/dd HH:mm", output_timezone="UTC"), URL_ENCODE: "true", HIVE_STYLE: "true"},
    )
    yield time_case(
        "unix_hive", seconds, {**time("UNIX_TIMESTAMP", "yyyy/MM/dd", output_timezone="UTC"), HIVE_STYLE: "true"}
    )
    yield time_case(
        "unix_fraction", seconds, time("UNIX_TIMESTAMP", "yyyy-MM-dd S SS SSSSSS ZZ", output_timezone="UTC")
    )
    yield time_case("millis", millis, time("EPOCHMILLISECONDS", "yyyy-MM-dd HH.mm.ss.SSS", output_timezone="UTC"))
    for unit, values in (
        ("NANOSECONDS", [10**18, -1, -999_999, -1_000_001, None]),
        ("MICROSECONDS", [1_700_000_000_123_456, -1, -1001, None]),
        ("milliseconds", [1_700_000_000_123, -1, None]),
        ("SECONDS", [2**63 - 1, -(2**63), 1_700_000_000]),
        ("MINUTES", [28_333_333, -1, None]),
        ("HOURS", [472_222, -1, None]),
        ("DAYS", [19_000, -1, -719_163, -800_000, 4_000_000, None]),
    ):
        options = time("SCALAR", "yyyy-MM-dd HH.mm.ss.SSS", timestamp_scalar_time_unit=unit, output_timezone="UTC")
        yield time_case(f"scalar_{unit.lower()}", pa.array(values, pa.int64()), options)
    yield time_case("scalar_default", seconds, time("SCALAR", "yyyy-MM-dd", output_timezone="UTC"))
    yield time_case("date_days", dates(DAYS), days("yyyy/MM/dd"))
    yield time_case("date_seconds", dates(DAYS), time("UNIX_TIMESTAMP", "yyyy/MM/dd HH.mm.ss", output_timezone="UTC"))
    yield time_case("date_strings", dates(DAYS), time("DATE_STRING", "yyyy", input_dateformat="yyyy-MM-dd"))
    in_micros = time("SCALAR", "yyyy/MM/dd HH", timestamp_scalar_time_unit="MICROSECONDS", output_timezone="UTC")
    yield time_case("timestamp_micros", timestamps(MICROS), in_micros)
    yield time_case("timestamp_millis", timestamps(MICROS), time("EPOCHMILLISECONDS", "yyyy/MM", output_timezone="UTC"))
    yield time_case(
        "timestamp_consistent",
        timestamps(MICROS),
        {**time("EPOCHMILLISECONDS", "yyyy/MM/dd HH.mm.ss.SSS", output_timezone="UTC"), CONSISTENT: "true"},
    )
    unix = time("UNIX_TIMESTAMP", "yyyy-MM-dd HH.mm.ss", output_timezone="UTC")
    yield time_case("double", pa.array([1.7e9, 0.9, -0.9, float("nan"), 1e300, None, -1e300]), unix)
    yield time_case("float", pa.array([1.7e9, 0.9, None], pa.float32()), unix)
    yield time_case("int32", pa.array([1_700_000_000, -1, None], pa.int32()), unix)
    yield time_case("decimal", pa.array([Decimal("1700000000.99"), Decimal("-0.99"), None], pa.decimal128(20, 2)), unix)
    yield time_case("bool", pa.array([True]), unix)
    yield time_case("string_as_number", strings("1700000000"), unix)
    yield time_case("binary", pa.array([b"1700000000"], pa.binary()), unix)
    yield from string_time_cases()


DATE_TEXTS = [
    "2024-03-31",
    "2024-3-1",
    "0001-01-01",
    "10000-01-01",
    "2024-13-01",
    "2024-02-30",
    "",
    None,
    "2024-03-31x",
    " 2024-03-31",
    "-005-01-01",
    "+2024-01-01",
    "24-01-01",
    "2024-03-311",
]
MOMENTS = [
    "2024-03-31T01:30:00Z",
    "2024-03-31T01:30:00.123Z",
    "2024-03-31T01:30:00.123456Z",
    "2024-03-31T01:30:00+0530",
    "2024-03-31T01:30:00-08:00",
    "2024-03-31T01:30:00+05",
    "2024-03-31T01:30:00",
    "2024-03-31T23:59:59z",
    None,
    "2024-03-31T24:00:00Z",
    "2024-03-31T01:30:00+24:00",
    "2024-03-31T01:30:00+05:30:15",
    "2024-03-31T1:3:0Z",
]


def string_time_cases() -> Iterator[Case]:
    texts, moments = strings(*DATE_TEXTS), strings(*MOMENTS)
    yield time_case("text", texts, time("DATE_STRING", "yyyy/MM/dd HH", input_dateformat="yyyy-MM-dd"))
    zones = {"input_timezone": "America/New_York", "output_timezone": "Asia/Tokyo"}
    yield time_case("text_zones", texts, time("DATE_STRING", "yyyy/MM/dd HH", input_dateformat="yyyy-MM-dd", **zones))
    yield time_case(
        "text_output_zone",
        texts,
        time("DATE_STRING", "yyyy/MM/dd HH", input_dateformat="yyyy-MM-dd", output_timezone="Asia/Tokyo"),
    )
    yield time_case(
        "text_input_zone",
        texts,
        time("DATE_STRING", "yyyy/MM/dd HH", input_dateformat="yyyy-MM-dd", input_timezone="Asia/Tokyo"),
    )
    iso = "yyyy-MM-dd'T'HH:mm:ssZ,yyyy-MM-dd'T'HH:mm:ss.SSSZ"
    yield time_case("moment", moments, time("DATE_STRING", "yyyyMMdd HHmm", input_dateformat=iso))
    yield time_case(
        "moment_utc", moments, time("DATE_STRING", "yyyyMMdd HHmmss.SSS", input_dateformat=iso, timezone="UTC")
    )
    yield time_case(
        "moment_mixed",
        moments,
        time("MIXED", "yyyyMMdd HH Z", input_dateformat=f"{iso}, yyyy-MM-dd'T'HH:mm:ss", timezone="GMT+08:00"),
    )
    yield time_case(
        "moment_delimiter",
        moments,
        time(
            "DATE_STRING",
            "yyyy",
            input_dateformat="yyyy-MM-dd'T'HH:mm:ssZ; yyyy-MM-dd'T'HH:mm:ss",
            input_dateformat_list_delimiter_regex=";",
            timezone="UTC",
        ),
    )
    yield time_case(
        "moment_parsed_zone", moments, time("DATE_STRING", "yyyyMMdd HHmm Z", input_dateformat=iso, output_timezone=" ")
    )
    berlin = ["2024-03-31 02:30", "2024-10-27 02:30", "2024-10-27 01:59", "2024-03-31 03:00", "1893-03-31 23:59", None]
    yield time_case(
        "gap_and_overlap",
        strings(*berlin),
        time(
            "DATE_STRING",
            "yyyyMMdd HHmm",
            input_dateformat="yyyy-MM-dd HH:mm",
            input_timezone="Europe/Berlin",
            output_timezone="UTC",
        ),
    )
    compact = ["20240331", "2024331", "202403311", "20240331120000", "99991231", None]
    yield time_case(
        "compact",
        strings(*compact),
        time("DATE_STRING", "yyyy-MM-dd HH", input_dateformat="yyyyMMdd,yyyyMMddHHmmss", timezone="UTC"),
    )
    words = [
        "Mar 31 2024 11:05 PM",
        "mar 31 2024 12:00 AM",
        "March 31 2024 12:00 pm",
        "MARCH 1 2024 1:00 am",
        "Mrz 1 2024 1:00 am",
    ]
    yield time_case(
        "words",
        strings(*words),
        time("DATE_STRING", "yyyyMMdd HHmm", input_dateformat="MMM d yyyy hh:mm a", timezone="UTC"),
    )
    yield time_case(
        "two_digits",
        strings("24-01-02", "99-01-02", "2024-01-02", "45-01-01", "46-01-01"),
        time("DATE_STRING", "yyyy-MM-dd", input_dateformat="yy-MM-dd", timezone="UTC"),
    )
    yield time_case(
        "week",
        strings("2024-W01-1", "2020-W53-7", "2024-W54-1"),
        time("DATE_STRING", "yyyy-MM-dd", input_dateformat="xxxx-'W'ww-e", timezone="UTC"),
    )
    yield time_case(
        "day_of_year",
        strings("2024-060", "2023-366", "2024-366"),
        time("DATE_STRING", "yyyy-MM-dd", input_dateformat="yyyy-DDD", timezone="UTC"),
    )
    yield time_case(
        "month_only", strings("03", "12"), time("DATE_STRING", "yyyy-MM-dd", input_dateformat="MM", timezone="UTC")
    )
    yield time_case(
        "hour_only", strings("03", "23"), time("DATE_STRING", "yyyy-MM-dd HH", input_dateformat="HH", timezone="UTC")
    )
    yield time_case(
        "year_only",
        strings("2024", "1969"),
        time("DATE_STRING", "yyyy-MM-dd HH", input_dateformat="yyyy", timezone="UTC"),
    )
    yield time_case(
        "weekday",
        strings("Sun 2024-03-31", "Mon 2024-03-31", "Sunday 2024-03-31"),
        time("DATE_STRING", "yyyy-MM-dd", input_dateformat="E yyyy-MM-dd", timezone="UTC"),
    )
    yield time_case(
        "mixed_numbers", pa.array([1, 2], pa.int64()), time("MIXED", "yyyy", input_dateformat="yyyy", timezone="UTC")
    )
    numbers = {
        "id": ids(4),
        "v": strings("a", None, "", "b/c"),
        "ts": pa.array([0, None, 1_700_000_000, 1], pa.int64()),
    }
    unix = time("UNIX_TIMESTAMP", "yyyy/MM/dd", output_timezone="UTC")
    yield Case("custom_time", "CustomKeyGenerator", "id", "v:SIMPLE,ts:TIMESTAMP", numbers, unix)
    yield Case(
        "custom_time_hive", "CustomKeyGenerator", "id,v", "ts:timestamp,v:simple", numbers, {**unix, HIVE_STYLE: "true"}
    )
    yield Case(
        "custom_time_old_names",
        "CustomKeyGenerator",
        "id",
        "ts:TIMESTAMP",
        numbers,
        {name.replace("hoodie.", "hoodie.deltastreamer."): value for name, value in unix.items()},
    )


def cases() -> list[Case]:
    """All of them."""
    return [*type_cases(), *partition_cases(), *nested_cases(), *time_cases()]


def run(hudi: HudiProcess, case: Case, folder: Path) -> dict[str, Any]:
    """What Hudi makes of a case, as it is stored in the file."""
    rows = case.table()
    try:
        found = written(hudi, case, rows, folder / case.name)
        errors: dict[int, str] = {}
    except HudiError as error:
        errors, found = {}, {}
        print(f"  as a whole: {reason(error)!r}", file=sys.stderr)
        for number in range(rows.num_rows):
            try:
                found |= written(hudi, case, rows.slice(number, 1), folder / f"{case.name}_{number}")
            except HudiError as single:
                errors[number] = reason(single)
    stored: dict[str, str] = {}
    for properties in sorted(folder.glob(f"{case.name}*/.hoodie/hoodie.properties"))[:1]:
        stored = {
            key: value
            for key, value in parse_properties(properties.read_bytes()).items()
            if any(part in key for part in ("key", "partition", "hive_style"))
        }
    numbers = range(rows.num_rows)
    return {
        "name": case.name,
        "options": case.hudi_options(),
        "table_properties": dict(sorted(stored.items())),
        "columns": {name: encode_column(values) for name, values in case.columns.items()},
        "record_keys": [found[number][0] if number in found else None for number in numbers],
        "partition_paths": [found[number][1] if number in found else None for number in numbers],
        "errors": {str(number): text for number, text in errors.items()},
    }


def written(hudi: HudiProcess, case: Case, rows: pa.Table, base_path: Path) -> dict[int, tuple[str, str]]:
    hudi.write(base_path, rows, {**case.hudi_options(), "hoodie.combine.before.upsert": "false"}, mode="overwrite")
    # From the files: Hudi 0.15.0 cannot read all that it writes, such as times as folders of a column of numbers.
    wanted = [NUMBER, "_hoodie_record_key", "_hoodie_partition_path"]
    tables = [pq.ParquetFile(file).read(wanted) for file in sorted(base_path.rglob("*.parquet"))]
    found = {
        row[NUMBER]: (row["_hoodie_record_key"], row["_hoodie_partition_path"])
        for table in tables
        for row in table.to_pylist()
    }
    if len(found) != rows.num_rows:
        raise HudiError(f"{rows.num_rows} rows written, {len(found)} read")
    return found


def reason(error: HudiError) -> str:
    """The last cause of a Java error."""
    lines = [line.strip() for line in str(error).split("--- end of its log")[0].splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines)[-1][:160]


def main() -> None:
    path, *names = sys.argv[1:]
    target = Path(path)
    done = {case["name"]: case for case in json.loads(target.read_text())} if target.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        hudi = HudiProcess("0.15.0", Path(folder))
        try:
            for case in cases():
                if case.name in names or (not names and case.name not in done):
                    print(case.name, file=sys.stderr, flush=True)
                    done[case.name] = run(hudi, case, Path(folder))
                    save(target, done)
        finally:
            hudi.stop()


def save(target: Path, done: Mapping[str, dict[str, Any]]) -> None:
    """Write the cases in their order, one a line."""
    ordered = [done[case.name] for case in cases() if case.name in done]
    lines = ",\n".join(json.dumps(case, ensure_ascii=False, sort_keys=True) for case in ordered)
    target.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
