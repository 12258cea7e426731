"""CSV files of folders, with Spark's options."""

from __future__ import annotations

import csv
import datetime
import decimal
import gzip
import io
import json
import logging
import pickle
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.config.csv_dfs_source_config import CsvDFSSourceConfig, time_format
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.csv_dfs_source import CsvDFSSource
from hoodie.utilities.sources.helpers.csv_rows import CsvDecoder, CsvForm
from hoodie.utilities.sources.source import SourceContext, read_all

HEADER = MappingProxyType({"header": "true"})
FIELDS = [
    {"name": "uuid", "type": "string"},
    {"name": "fare", "type": ["null", "double"]},
    {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}]},
    {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
    {"name": "tax", "type": ["null", {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}]},
    {"name": "paid", "type": ["null", "boolean"]},
]


class Provider(SchemaProvider):
    """A provider of the fields of a property."""

    def load_source_schema(self) -> str:
        fields = json.loads(self.properties["hoodie.test.fields"])
        return json.dumps({"type": "record", "name": "trip", "fields": fields})


def source(
    root: Path,
    options: Mapping[str, str] = MappingProxyType({}),
    table: pa.Schema | None = None,
    fields: Any = None,
    report: list[str] | None = None,
) -> CsvDFSSource:
    """A source of a folder, with options of ``hoodie.streamer.csv.``."""
    given = {f"hoodie.streamer.csv.{name}": value for name, value in options.items()}
    properties = StreamerProperties(
        {"hoodie.streamer.source.dfs.root": str(root), "hoodie.test.fields": json.dumps(fields), **given}
    )
    provider = Provider(properties) if fields is not None else None
    told: list[str] = [] if report is None else report
    return CsvDFSSource(SourceContext(properties, provider, load_table_schema=lambda: table, report=told.append))


def rows_of(files: CsvDFSSource) -> list[dict[str, Any]]:
    """The rows of a folder; there are no errors."""
    batch = files.fetch(None, None)
    rows, errors = read_all(batch)
    assert errors == []
    return rows.to_pylist()


def test_a_header_names_columns_and_types_are_guessed(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('k,n,x,code,day,at,t,e\na,1,1.5,007,2026-07-05,2026-07-05 10:00:00,"",\n')
    (row,) = rows_of(source(tmp_path, HEADER))
    assert row == {
        "k": "a", "n": 1, "x": 1.5, "code": "007", "day": datetime.date(2026, 7, 5),
        "at": datetime.datetime(2026, 7, 5, 10), "t": "", "e": None,
    }  # fmt: skip


def test_times_of_day_are_texts(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,at\na,10:00:00\nb,10:30\n")
    assert rows_of(source(tmp_path, HEADER)) == [{"k": "a", "at": "10:00:00"}, {"k": "b", "at": "10:30"}]


def test_headers_without_rows_make_no_table_and_no_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("k,n\n")
    for options in (HEADER, {**HEADER, "inferSchema": "false"}):
        batch = source(tmp_path, options).fetch(None, None)
        assert (batch.is_empty, batch.schema) == (True, None)
        assert batch.checkpoint is not None and int(batch.checkpoint.position) > 0
    of_table = source(tmp_path, HEADER, pa.schema([("k", pa.string())])).fetch(None, None)
    assert of_table.schema is not None and of_table.schema.names == ["k"]
    (tmp_path / "b.csv").write_text("k,m\na,1\n")
    assert rows_of(source(tmp_path, HEADER)) == [{"k": "a", "m": 1}]


@pytest.mark.parametrize(("separator", "shown"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
def test_a_header_of_one_column_with_another_separator_gets_a_hint(tmp_path: Path, separator: str, shown: str) -> None:
    (tmp_path / "a.csv").write_text(f"id{separator}v\n1{separator}2\n")
    told: list[str] = []
    source(tmp_path, HEADER, report=told).fetch(None, None)
    (line,) = told
    assert "a.csv: its header names one column" in line
    assert line.endswith(f"'hoodie.streamer.csv.sep={shown}'")
    told.clear()
    assert rows_of(source(tmp_path, {**HEADER, "sep": shown}, report=told)) == [{"id": 1, "v": 2}]
    assert told == []


def test_without_a_header_columns_have_sparks_names(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,1\nb,2\n")
    assert rows_of(source(tmp_path)) == [{"_c0": "a", "_c1": 1}, {"_c0": "b", "_c1": 2}]


def test_types_are_guessed_by_all_rows_of_all_files(tmp_path: Path) -> None:
    lines = [f"{number},{number},{number}\n" for number in range(300_000)]
    (tmp_path / "a.csv").write_text("a,b,c\n" + "".join(lines) + "300000,1.5,x\n")
    (tmp_path / "b.csv").write_text("a,b,c,d\n1,2,3,007\n")
    batch = source(tmp_path, HEADER).fetch(None, None)
    assert batch.schema == pa.schema([("a", pa.int64()), ("b", pa.float64()), ("c", pa.string()), ("d", pa.string())])
    rows, errors = read_all(batch)
    assert errors == []
    assert len(rows) == 300_002


def test_types_of_the_table_count(tmp_path: Path) -> None:
    table = pa.schema(
        [("k", pa.string()), ("n", pa.float64()), ("at", pa.timestamp("us", "UTC")), ("gone", pa.int32())]
    )
    (tmp_path / "a.csv").write_text("at,k,n,new\n2026-07-05T10:00:00+02:00,7,1,true\n2026-07-05 10:00:00,8,2,false\n")
    rows = rows_of(source(tmp_path, HEADER, table))
    assert rows == [
        {"k": "7", "n": 1.0, "at": datetime.datetime(2026, 7, 5, 8, tzinfo=datetime.UTC), "gone": None, "new": True},
        {"k": "8", "n": 2.0, "at": datetime.datetime(2026, 7, 5, 10, tzinfo=datetime.UTC), "gone": None, "new": False},
    ]


def test_the_schema_of_the_provider_tells_columns_by_name_or_order(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "tax,uuid,other,paid,day,fare,at\n12.5,u1,x,true,2026-07-05,3,2026-07-05 10:00:00.5\n"
    )
    (row,) = rows_of(source(tmp_path, HEADER, fields=FIELDS))
    assert row == {
        "uuid": "u1", "fare": 3.0, "day": datetime.date(2026, 7, 5), "tax": decimal.Decimal("12.50"), "paid": True,
        "at": datetime.datetime(2026, 7, 5, 10, 0, 0, 500_000, tzinfo=datetime.UTC),
    }  # fmt: skip
    (tmp_path / "a.csv").write_text("x,y\nu1,3\n")
    by_order = source(tmp_path, {**HEADER, "enforceSchema": "true"}, fields=FIELDS[:2])
    assert rows_of(by_order) == [{"uuid": "u1", "fare": 3.0}]
    with pytest.raises(HoodieReadFromSourceException, match=r"a\.csv \(x, y\) names no column.*enforceSchema"):
        source(tmp_path, HEADER, fields=FIELDS[:2]).fetch(None, None)
    (tmp_path / "a.csv").write_text("u1,3\n")
    assert rows_of(source(tmp_path, fields=FIELDS[:2])) == [{"uuid": "u1", "fare": 3.0}]


def test_lines_that_do_not_fit_are_errors_of_their_files_and_lines(tmp_path: Path) -> None:
    bad = ["u1,x", "u2", "u3,1,2", ",3", '"u4,5', 'u5,"6', 'u6,\\"7', "\xff,8"]
    path = tmp_path / "a.csv"
    lines = ["uuid,fare", "first,1", "", *bad, "last,9"]
    path.write_bytes("\n".join(lines).encode("latin-1"))
    rows, (errors,) = read_all(source(tmp_path, HEADER, fields=FIELDS[:2]).fetch(None, None))
    assert rows["uuid"].to_pylist() == ["first", "last"]
    assert errors["line"].to_pylist() == [4, 5, 6, 7, 8, 9, 10, 11]
    assert errors["payload"].to_pylist() == [*bad[:-1], "\\xff,8"]
    assert set(errors["reason"].to_pylist()) == {"INVALID_RECORD_SCHEMA"}
    assert set(errors["file"].to_pylist()) == {str(path)}
    reasons = errors["message"].to_pylist()
    assert "invalid value 'x'" in reasons[0]
    assert "Expected 2 columns, got 1" in reasons[1]
    assert reasons[3] == "column uuid has no value, and its type has no null"
    assert "quote" in reasons[5]
    assert "hoodie.streamer.csv.escape=" in reasons[6]


def test_good_rows_around_bad_ones_stay_in_order(tmp_path: Path) -> None:
    lines = [f"u{number},{'x' if number % 997 == 3 else number}" for number in range(30_000)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    batch = source(tmp_path, fields=FIELDS[:2]).fetch(None, None)
    (read,) = batch.reads
    found = list(pickle.loads(pickle.dumps(read)).batches())
    kept = [row["fare"] for one in found for row in one.rows.to_pylist()]
    assert kept == [float(number) for number in range(30_000) if number % 997 != 3]
    lines_of_errors = [line for one in found if one.errors is not None for line in one.errors["line"].to_pylist()]
    assert lines_of_errors == [number + 1 for number in range(30_000) if number % 997 == 3]
    assert found[0].origin is not None
    assert found[0].origin.numbers[:5].tolist() == [1, 2, 3, 5, 6]


def test_the_mode_tells_the_fate_of_bad_lines(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a.csv").write_text("u1,x\nu2,2\n")
    with caplog.at_level(logging.WARNING):
        dropping = source(tmp_path, {"mode": "DROPMALFORMED"}, fields=FIELDS[:2])
        assert rows_of(dropping) == [{"uuid": "u2", "fare": 2.0}]
    assert "a.csv: 1 lines that fit no row were dropped" in caplog.text
    with pytest.raises(HoodieReadFromSourceException, match=r"a\.csv, line 1: .*mode=FAILFAST"):
        read_all(source(tmp_path, {"mode": "failfast"}, fields=FIELDS[:2]).fetch(None, None))
    told: list[str] = []
    source(tmp_path, {"mode": "PERMISSIVE", "maxColumns": "9"}, report=told)
    assert [line.split("=")[0].split(" ")[0] for line in told] == [
        "hoodie.streamer.csv.maxColumns", "hoodie.streamer.csv.mode",
    ]  # fmt: skip


def test_options_of_the_form_of_files(tmp_path: Path) -> None:
    def rows(text: str, **options: str) -> list[list[Any]]:
        (tmp_path / "a.csv").write_text(text, encoding=options.get("encoding", "utf-8"), newline="")
        return [list(row.values()) for row in rows_of(source(tmp_path, {"inferSchema": "false", **options}))]

    assert rows("a\tb\n", sep="\\t") == [["a", "b"]]
    assert rows("a|'b|c'\n", sep="|", quote="'") == [["a", "b|c"]]
    assert rows('a,"b\n', quote="\\0") == [["a", '"b']]
    assert rows('"a ""b""",c\r\n') == [['a "b"', "c"]]
    assert rows('"a \\"b\\"",C:\\d\\\\e\n', escape="\\") == [['a "b"', "C:\\d\\e"]]
    assert rows('"C:\\",a\n', escape='"') == [["C:\\", "a"]]
    assert rows("#x\na,NA\n#y,z\n,\n", comment="#", nullValue="NA") == [["a", None], [None, None]]
    assert rows("ä,ß\n", encoding="ISO-8859-1") == [["ä", "ß"]]
    assert rows('"a\nb",c\nd,e\n', multiLine="true") == [["a\nb", "c"], ["d", "e"]]
    assert rows("007,1\n") == [["007", "1"]]


def test_errors_of_rows_of_several_lines_name_the_first_one(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('uuid,fare\n"a\n\nb",1\n"c\nd",x\ne,2\n')
    options = {**HEADER, "multiLine": "true"}
    rows, (errors,) = read_all(source(tmp_path, options, fields=FIELDS[:2]).fetch(None, None))
    assert rows["uuid"].to_pylist() == ["a\n\nb", "e"]
    assert errors["line"].to_pylist() == [5]
    assert errors["payload"].to_pylist() == ['"c\nd",x']


def test_formats_of_dates_and_times(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("uuid,day,at\nu,05.07.2026,05.07.2026 10:15:30\n")
    options = {**HEADER, "dateFormat": "dd.MM.yyyy", "timestampFormat": "dd.MM.yyyy HH:mm:ss"}
    day, at = datetime.date(2026, 7, 5), datetime.datetime(2026, 7, 5, 10, 15, 30)
    fields = [FIELDS[0], FIELDS[2], FIELDS[3]]
    moment = at.replace(tzinfo=datetime.UTC)
    assert rows_of(source(tmp_path, options, fields=fields)) == [{"uuid": "u", "day": day, "at": moment}]
    (guessed,) = rows_of(source(tmp_path, options))
    assert guessed["at"] == at
    assert time_format("yyyy'T'MM%") == "%YT%m%%"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("sep", "||", "one character"),
        ("sep", "\\0", "one character"),
        ("quote", "''", "one character"),
        ("encoding", "klingon", "an encoding"),
        ("charToEscapeQuoteEscaping", "x", "leave the option out"),
        ("ignoreLeadingWhiteSpace", "true", "ltrim"),
        ("ignoreTrailingWhiteSpace", "true", "rtrim"),
        ("emptyValue", "-", "replace"),
        ("nanValue", "-", "only NaN"),
        ("positiveInf", "-", "only Inf"),
        ("negativeInf", "-", "only -Inf"),
        ("timestampFormat", "yyyy-MM-dd HH:mm:ss.SSS", "'SSS' is not supported"),
        ("dateFormat", "d.M.yy", "'d' is not supported"),
        ("mode", "SLOPPY", "PERMISSIVE"),
        ("columnNameOfCorruptRecord", "_bad", "error table"),
        ("heather", "true", "nearest: hoodie.streamer.csv.header"),
    ],
)
def test_options_that_are_not_supported_are_refused_by_name(
    name: str, value: str, message: str, tmp_path: Path
) -> None:
    with pytest.raises(HoodieConfigException, match=f"hoodie.streamer.csv.{name}.*{message}"):
        source(tmp_path, {name: value})


def test_there_are_sparks_24_options_in_both_spellings(tmp_path: Path) -> None:
    from hoodie.common.config.property import properties_of

    assert len(properties_of(CsvDFSSourceConfig)) == 24
    (tmp_path / "a.csv").write_text("a;b\n")
    properties = {"hoodie.deltastreamer.source.dfs.root": str(tmp_path), "hoodie.deltastreamer.csv.sep": ";"}
    assert rows_of(CsvDFSSource(SourceContext(StreamerProperties(properties)))) == [{"_c0": "a", "_c1": "b"}]


def test_what_csv_cannot_hold_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\n")
    nested = [{"name": "l", "type": {"type": "array", "items": "int"}}]
    with pytest.raises(HoodieConfigException, match="the schema has them in the column l"):
        source(tmp_path, fields=nested).fetch(None, None)
    with pytest.raises(HoodieConfigException, match="multiLine=true and .*escape"):
        source(tmp_path, {"multiLine": "true", "escape": "\\"})
    for header in ("a,a\n", "a,\n"):
        (tmp_path / "a.csv").write_text(header)
        with pytest.raises(HoodieReadFromSourceException, match=r"The header of .*a\.csv"):
            source(tmp_path, HEADER).fetch(None, None)


def test_compressed_and_empty_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"k\n1\n"))
    (tmp_path / "b.csv").write_text("k\n")
    (tmp_path / "c.csv").write_text("\n")
    assert rows_of(source(tmp_path, HEADER)) == [{"k": 1}]


_VALUES = st.text(st.sampled_from("ab\",\n\r \\'\tä"), max_size=8)


@given(st.lists(st.tuples(_VALUES, _VALUES), max_size=20))
def test_rows_that_python_writes_are_read_as_they_were(rows: list[tuple[str, str]]) -> None:
    form = CsvForm(escape="", is_multi_line=True)
    decoder = CsvDecoder(form, ["a", "b"], pa.schema([("a", pa.string()), ("b", pa.string())]))
    texts = []
    for row in rows:
        out = io.StringIO()
        csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="").writerow(row)
        texts.append(out.getvalue().encode())
    found = decoder.decode(texts)
    assert found.failures == []
    assert [(row["a"], row["b"]) for row in found.rows.to_pylist()] == rows


@given(st.lists(st.text(st.sampled_from('ab",\r\\'), min_size=1, max_size=8), max_size=30))
def test_each_text_is_one_row_or_one_error(texts: list[str]) -> None:
    """The neighbours of a text never change what becomes of it."""
    decoder = CsvDecoder(CsvForm(escape=""), ["a", "b"], pa.schema([("a", pa.string()), ("b", pa.string())]))
    lines = [text.encode() for text in texts]
    found = decoder.decode(lines)
    assert sorted([*found.positions.tolist(), *(number for number, _ in found.failures)]) == list(range(len(lines)))
    alone = [decoder.decode([line]) for line in lines]
    assert found.rows.to_pylist() == [row for one in alone for row in one.rows.to_pylist()]
    assert len(found.failures) == sum(len(one.failures) for one in alone)
