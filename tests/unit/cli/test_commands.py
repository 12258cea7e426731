"""The commands of `hoodie`: results, questions, exit codes."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableType, HoodieWriteConfig, Table
from hoodie.cli import command as command_module
from hoodie.cli import looking
from hoodie.cli.main import SECTIONS, command
from hoodie.exception import HoodieHeartbeatException, HoodieLockException, HoodieWriteConflictException
from hoodie.transaction.transaction_manager import TransactionManager

MONDAY = 'id,city,ts,fare,day\n1,oslo,1,10.5,2026-01-01\n2,rome,1,20.5,2026-01-02\n3,oslo,1,,"2026-01-03"\n'
TUESDAY = "id,city,ts,fare,day\n2,rome,2,22,2026-01-02\n4,rome,2,7,\n"
FARES = {1: 10.5, 2: 20.5, 3: None}


@attrs.frozen
class Outcome:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The output as JSON."""
        return json.loads(self.out)


Run = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test is in a folder of its own."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command line in this process."""

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            command.main([str(argument) for argument in arguments], prog_name="hoodie")
        captured = capsys.readouterr()
        assert isinstance(end.value.code, int)
        return Outcome(end.value.code, captured.out, captured.err)

    return call


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> str:
    """Both types of tables."""
    return str(request.param)


@pytest.fixture
def trips(run: Run, table_type: str, table_version: int) -> Table:
    """The table of `MONDAY`."""
    Path("monday.csv").write_text(MONDAY)
    Path("tuesday.csv").write_text(TUESDAY)
    done = run(
        "create", "trips", "monday.csv", "--key", "id", "--partition", "city", "--ordering", "ts",
        "--type", table_type, "--version", table_version,
    )  # fmt: skip
    assert done.code == 0, done
    return Table("trips")


def fares(table: Table) -> dict[int, float | None]:
    """Id -> fare."""
    rows = table.read(["id", "fare"]).to_pylist()
    return {row["id"]: row["fare"] for row in sorted(rows, key=lambda row: row["id"])}


def state_of(table: Table) -> tuple[int, int]:
    """The number of instants and of rows."""
    return len(table.history()), table.count()


# --- writing and reading ----------------------------------------------------------------------------------------------


def test_a_table_is_created_of_files(trips: Table, table_type: str, table_version: int, run: Run) -> None:
    assert fares(trips) == FARES
    shown = run("describe", "trips", "--json").json
    assert (shown["table_type"], shown["table_version"]) == (table_type, table_version)
    assert shown["record_key_fields"] == ["id"]
    assert shown["newest_commit_iso"].endswith("Z")
    text = run("describe", "trips").out
    assert "3 rows" in text
    assert "partitioned by  city" in text


def test_a_table_without_record_keys_is_created(trips: Table, run: Run) -> None:
    assert run("create", "log", "monday.csv", "--key", "generated", "--partition", "city").code == 0
    assert "record key      generated" in run("describe", "log").out
    table = Table("log")
    count = table.count()
    refused = run("write", "log", "monday.csv")
    assert refused.code == 1
    assert "insert adds them" in refused.err
    assert run("write", "log", "monday.csv", "--operation", "insert").code == 0
    assert table.count() == 2 * count > 0


def test_a_created_table_is_not_created_again(trips: Table, run: Run) -> None:
    done = run("create", "trips", "tuesday.csv", "--key", "id")
    assert (done.code, done.out) == (1, "")
    assert fares(trips) == FARES


def test_files_are_upserted_in_the_types_of_the_table(trips: Table, run: Run) -> None:
    done = run("write", "trips", "tuesday.csv", "--json")
    assert done.code == 0, done
    assert (done.json["inserted_count"], done.json["updated_count"], done.json["is_committed"]) == (1, 1, True)
    assert done.json["instant_time_iso"][:4] == done.json["instant_time"][:4]
    assert fares(trips) == {1: 10.5, 2: 22.0, 3: None, 4: 7.0}
    assert trips.read("day", "id = 4")["day"].to_pylist() == [None]


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
def test_files_are_inserted(trips: Table, run: Run, operation: str) -> None:
    Path("more.jsonl").write_text('{"id": 7, "city": "2026-01-01", "ts": 1, "fare": 3, "day": "2026-01-05"}\n')
    done = run("write", "trips", "more.jsonl", "--operation", operation)
    assert done.code == 0, done
    assert "1 inserted" in done.out
    assert trips.read(["city", "fare"], "id = 7").to_pylist() == [{"city": "2026-01-01", "fare": 3.0}]


def test_the_plan_of_a_write_is_shown_and_nothing_written(trips: Table, run: Run) -> None:
    before = state_of(trips)
    done = run("write", "trips", "tuesday.csv", "--dry-run")
    assert done.code == 0
    assert "upsert of 2 records would" in done.out
    assert run("write", "trips", "tuesday.csv", "--dry-run", "--json").json["records"] == 2
    assert run("write", "trips", "tuesday.csv", "--dry-run", "--operation", "insert").code == 2
    assert state_of(trips) == before


def test_rows_are_printed_in_each_form(trips: Table, run: Run) -> None:
    expected = [{"id": 1, "fare": 10.5}]
    given = ("read", "trips", "--columns", "id, fare", "--where", "fare < 15 and city = 'oslo'")
    assert run(*given).json == expected[0]
    assert run(*given, "--json").json == expected
    assert run(*given, "--csv").out == "id,fare\n1,10.5\n"
    assert run(*given, "--format", "text").out.split() == ["id", "fare", "--", "----", "1", "10.5"]
    for name in ("r.jsonl", "r.csv", "r.parquet", "r.arrow"):
        assert run(*given, "-o", name) == Outcome(0, "", "")
    assert json.loads(Path("r.jsonl").read_text()) == expected[0]
    assert pa_csv.read_csv("r.csv").to_pylist() == expected
    assert pq.read_table("r.parquet").to_pylist() == expected
    assert pa.ipc.open_file("r.arrow").read_all().to_pylist() == expected
    assert not list(Path().glob("*.part"))


def test_a_read_that_fails_leaves_the_file_as_it_was(trips: Table, run: Run) -> None:
    Path("r.csv").write_text("before")
    assert run("read", "trips", "--where", "nope = 1", "-o", "r.csv").code == 1
    assert run("read", "trips", "-o", "r.xyz").code == 2
    assert run("read", "trips", "--format", "parquet").code == 2
    assert run("read", "trips", "--json", "--format", "csv").code == 2
    assert Path("r.csv").read_text() == "before"
    assert not list(Path().glob("*.part"))


def test_rows_are_limited(trips: Table, run: Run) -> None:
    assert len(run("read", "trips", "--limit", 2).out.splitlines()) == 2
    assert run("read", "trips", "--limit", -1).code == 2
    many = [{"id": number, "city": "bern", "ts": 1, "fare": None, "day": None} for number in range(10, 60)]
    trips.upsert(pa.Table.from_pylist(many, trips.schema()))
    assert run("read", "trips", "--format", "text").out.endswith("... and more rows: --limit N\n")
    assert len(run("read", "trips", "--format", "text", "--limit", 100).out.splitlines()) == 2 + 53
    assert len(run("read", "trips").out.splitlines()) == 53


def test_rows_are_counted_as_they_are_and_as_they_were(trips: Table, run: Run) -> None:
    then = trips.history()[0].instant_time
    run("write", "trips", "tuesday.csv")
    assert run("count", "trips").out == "4\n"
    assert run("count", "trips", "--where", "city = 'rome'", "--json").json == {"count": 2}
    assert run("count", "trips", "--as-of", then).out == "3\n"
    assert len(run("read", "trips", "--as-of", then).out.splitlines()) == 3
    assert run("count", "trips", "--as-of", "yesterday").code == 2


def test_changes_tell_where_the_next_range_begins(trips: Table, run: Run) -> None:
    first = run("changes", "trips", "--json").json
    assert len(first["rows"]) == 3
    run("write", "trips", "tuesday.csv")
    done = run("changes", "trips", "--since", first["until"], "--columns", "id")
    assert sorted(json.loads(line)["id"] for line in done.out.splitlines()) == [2, 4]
    assert done.err.startswith("next: --since ")
    nothing = run("changes", "trips", "--since", done.err.split()[-1])
    assert (nothing.out, nothing.err) == ("", done.err)


def test_changes_with_deletes_have_the_rows_before_and_after(trips: Table, run: Run) -> None:
    last = run("changes", "trips", "--json").json["until"]
    run("delete", "trips", "--where", "id = 2", "--yes")
    done = run("changes", "trips", "--since", last, "--deletes", "--columns", "id,fare")
    (change,) = [json.loads(line) for line in done.out.splitlines()]
    assert (change["op"], change["before"], change["after"]) == ("d", {"id": 2, "fare": 20.5}, None)
    found = run("changes", "trips", "--since", last, "--deletes", "--json").json
    assert [row["before"]["id"] for row in found["rows"]] == [2]
    assert found["until"] == done.err.split()[-1]
    assert run("changes", "trips", "--since", found["until"], "--deletes").out == ""


def test_rows_are_looked_up_by_key(trips: Table, run: Run) -> None:
    assert run("lookup", "trips", 2, "--in-partition", "rome", "--columns", "fare").json == {"fare": 20.5}
    assert run("lookup", "trips", 2, "--in-partition", "oslo").out == ""
    assert run("lookup", "trips", 2).code == 1


def test_a_query_in_sql_is_printed(trips: Table, run: Run) -> None:
    pytest.importorskip("duckdb")
    assert run("sql", "trips", "select count(*) as n from t where city = 'oslo'").json == {"n": 2}
    assert run("sql", "trips", "selec").code == 1


def test_a_read_is_explained(trips: Table, run: Run) -> None:
    assert "of 1 partition" in run("explain", "trips", "--where", "city = 'rome'").out
    plan = run("explain", "trips", "--where", "city = 'rome'", "--json").json
    assert len(plan["base_files"]) + len(plan["log_files"]) == 1
    assert plan["columns"] == ["id", "city", "ts", "fare", "day"]


# --- looking ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["history", "files", "partitions"])
def test_summaries_are_shown_in_each_form(trips: Table, run: Run, name: str) -> None:
    run("write", "trips", "tuesday.csv")
    expected = getattr(trips, name)()
    shown = run(name, "trips", "--json").json
    assert len(shown) == len(expected) == 2
    first = {key: value for key, value in shown[0].items() if not key.endswith("_iso")}
    assert first == attrs.asdict(expected[0])
    lines = run(name, "trips", "--csv").out.splitlines()
    assert lines[0] == ",".join(expected.column_names)
    assert len(lines) == 3
    assert len(run(name, "trips", "--csv", "--limit", 1).out.splitlines()) == 2
    assert run(name, "trips", "--limit", 1).out.endswith("... and 1 more rows\n")
    assert run(name, "trips", "--csv", "--json").code == 2


def test_one_instant_is_shown_in_each_form(trips: Table, run: Run) -> None:
    done = run("write", "trips", "tuesday.csv", "--json").json
    time = done["instant_time"]
    shown = run("history", "trips", time, "--json").json
    assert (shown["instant_time"], shown["operation"]) == (time, "UPSERT")
    assert shown["instant_time_iso"].endswith("Z")
    assert [file["partition_path"] for file in shown["files"]] == ["rome"]
    assert shown["contents"]["COMPLETED"]["operationType"] == "UPSERT"
    assert run("history", "trips", time, "--csv").out.splitlines()[0].startswith("partition_path,files_added")
    assert len(run("history", "trips", time, "--csv", "--files").out.splitlines()) == 1 + len(shown["files"])
    assert "columns: id int64, city string" in run("history", "trips", time).out
    saved = run("savepoint", "trips", "--user", "ann", "--json").json["instant_time"]
    assert '"savepointedBy": "ann"' in run("history", "trips", saved, "--action", "savepoint").out
    wrong = run("history", "trips", "20200101000000000")
    assert wrong.code == 2 and "has no instant" in wrong.err
    assert run("history", "trips", time, "--pending").code == 2
    assert run("history", "trips", "--files").code == 2
    assert run("history", "trips", "--pending", "--json").json == []
    assert len(run("history", "trips", "--archived", "--json").json) == 3


def test_the_difference_of_two_instants_is_shown_in_each_form(trips: Table, run: Run) -> None:
    first = trips.history()[0].instant_time
    second = run("write", "trips", "tuesday.csv", "--json").json["instant_time"]
    found = run("diff", "trips", first, second, "--json").json
    assert found["commits"] == [second]
    assert {group["partition_path"] for group in found["file_groups"]} == {"rome"}
    lines = run("diff", "trips", first, second, "--csv").out.splitlines()
    assert len(lines) == 1 + len(found["file_groups"])
    assert "1 commit, " in run("diff", "trips", first, second).out
    assert run("diff", "trips", second, first).code == 2


def test_instants_are_exported(trips: Table, run: Run) -> None:
    assert run("export", "trips", "out", "--json").json == {"folder": "out", "count": 1}
    (path,) = Path("out").iterdir()
    assert json.loads(path.read_text())["state"] == "COMPLETED"
    assert run("export", "trips", "monday.csv").code == 1


def test_a_watch_shows_what_is_new(trips: Table, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 3:
            raise KeyboardInterrupt
        trips.upsert(trips.read(limit=1))

    monkeypatch.setattr(looking, "time", SimpleNamespace(sleep=sleep))
    shown = run("history", "trips", "--watch", "--csv")
    assert shown.code == 130
    lines = shown.out.splitlines()
    assert lines[0].startswith("instant_time,action,state")
    assert [line.split(",")[0] for line in lines[1:]] == [entry.instant_time for entry in trips.history()][::-1]
    sleeps.clear()
    shown = run("history", "trips", "--watch", "--json")
    assert [json.loads(line)["instant_time"] for line in shown.out.splitlines()] == [
        entry.instant_time for entry in trips.history()
    ][::-1]
    sleeps.clear()
    assert "state=COMPLETED" in run("history", "trips", "--watch", "--limit", 1).out.splitlines()[0]


def test_text_shows_20_rows_and_all_on_demand(trips: Table, run: Run) -> None:
    many = [{"id": number, "city": f"c{number}", "ts": 1, "fare": None, "day": None} for number in range(10, 40)]
    trips.upsert(pa.Table.from_pylist(many, trips.schema()))
    assert run("partitions", "trips").out.endswith("... and 12 more rows\n")
    assert len(run("partitions", "trips", "--all").out.splitlines()) == 2 + 32
    assert len(run("partitions", "trips", "--json").json) == 32


def test_the_columns_are_shown(trips: Table, run: Run) -> None:
    assert run("schema", "trips", "--json").json[3] == {"name": "fare", "type": "double", "is_nullable": True}
    assert run("schema", "trips", "--arrow").out.splitlines()[3] == "fare: double"
    stored = json.loads(run("schema", "trips", "--avro").out)
    assert "fare" in [field["name"] for field in stored["fields"]]
    assert run("schema", "trips", "--avro", "--arrow").code == 2
    assert run("schema", "trips").out.split()[:2] == ["name", "type"]


def test_properties_indexes_and_savepoints_are_shown(trips: Table, table_version: int, run: Run) -> None:
    assert run("properties", "trips", "--json").json == trips.properties()
    assert f"hoodie.table.version,{table_version}" in run("properties", "trips", "--csv").out.splitlines()
    assert run("indexes", "trips", "--json").json == [attrs.asdict(index) for index in trips.indexes()]
    assert run("properties", "trips", "--set", "my.owner=ann", "--dry-run").code == 0
    assert "my.owner" not in trips.properties()
    assert run("properties", "trips", "--set", "my.owner=ann", "--set", "my.aim=", "--yes").code == 0
    assert (trips.properties()["my.owner"], trips.properties()["my.aim"]) == ("ann", "")
    (changed,) = run("properties", "trips", "--unset", "my.owner", "--yes", "--json").json["properties"]
    assert changed == {"key": "my.owner", "before": "ann", "after": None}
    assert run("properties", "trips", "--unset", "hoodie.table.name", "--yes").code == 2
    made = run("savepoint", "trips", "--user", "ann", "--comment", "before the load", "--json").json
    assert made["user"] == "ann"
    (shown,) = run("savepoints", "trips", "--json").json
    assert shown == made
    assert "before the load" in run("savepoints", "trips").out


# --- asking -----------------------------------------------------------------------------------------------------------

EXPIRES_OSLO = "hoodie.partition.ttl.strategy.class=tests.support.partition_strategies.Oslo"
MUTATING = {
    "overwrite": ("overwrite", "trips", "tuesday.csv"),
    "update": ("update", "trips", "--where", "id = 1", "--set", "fare=1"),
    "delete": ("delete", "trips", "--where", "id = 1"),
    "delete keys": ("delete", "trips", "1", "--in-partition", "oslo"),
    "delete-partitions": ("delete-partitions", "trips", "oslo"),
    "clean": ("clean", "trips", "-p", "hoodie.clean.commits.retained=1"),
    "expire": ("expire", "trips", "-p", EXPIRES_OSLO),
    "archive": ("archive", "trips"),
    "forget": ("forget", "trips", "--where", "id = 1"),
    "drop": ("drop", "trips"),
    "follow": ("follow", "trips", "other", "--from-scratch"),
    "drop-index": ("drop-index", "trips", "fare"),
    "upgrade": ("upgrade", "trips"),
    "downgrade": ("downgrade", "trips"),
    "delete-savepoint": ("delete-savepoint", "trips", "20260101000000000"),
    "restore": ("restore", "trips", "20260101000000000"),
    "rollback": ("rollback", "trips"),
    "properties": ("properties", "trips", "--set", "my.owner=ann"),
    "repair": ("repair", "trips", "duplicates"),
    "recover": ("recover", "trips"),
    "locks": ("locks", "trips", "--break"),
}


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_what_asks_is_tested() -> None:
    asking = {entry.name for made in SECTIONS.values() for entry in made if any(p.name == "yes" for p in entry.params)}
    assert asking == {arguments[0] for arguments in MUTATING.values()}


@pytest.mark.parametrize("name", MUTATING)
def test_nothing_is_changed_where_nobody_can_answer(trips: Table, run: Run, name: str) -> None:
    run("write", "trips", "tuesday.csv", "-p", "hoodie.clean.automatic=false")
    run("write", "trips", "tuesday.csv", "-p", "hoodie.clean.automatic=false", "--operation", "insert")
    Path("trips/.hoodie/lock").write_text("of a Java writer")
    before = contents(Path("trips"))
    done = run(*MUTATING[name])
    assert (done.code, done.out) == (2, ""), done
    assert "--yes" in done.err
    assert contents(Path("trips")) == before


@pytest.mark.parametrize(("answer", "expected"), [("y", {2: 20.5, 3: None}), ("n", FARES), ("", FARES)])
def test_an_answer_decides(
    trips: Table, run: Run, monkeypatch: pytest.MonkeyPatch, answer: str, expected: dict[int, float | None]
) -> None:
    monkeypatch.setattr(command_module, "is_terminal", lambda: True)
    monkeypatch.setattr("sys.stdin", io.StringIO(f"{answer}\n"))
    done = run("delete", "trips", "--where", "id = 1")
    assert "delete from trips: 1 row" in done.err
    assert done.code == (0 if answer == "y" else 2)
    assert fares(trips) == expected


def test_rows_are_updated(trips: Table, run: Run) -> None:
    told = run("update", "trips", "--where", "city = 'oslo'", "--set", "fare=1", "--dry-run")
    assert (told.code, told.out) == (0, "2 rows would change\n")
    done = run(
        "update",
        "trips",
        "--where",
        "city = 'oslo'",
        "--set",
        "fare=1.25",
        "--set",
        "day=2026-05-05",
        "--yes",
        "--json",
    )
    assert done.json["updated_count"] == 2, done
    assert fares(trips) == {1: 1.25, 2: 20.5, 3: 1.25}
    assert run("update", "trips", "--all-rows", "--set-null", "fare", "--yes").code == 0
    assert fares(trips) == {1: None, 2: None, 3: None}
    assert [str(day) for day in trips.read("day", "id = 1")["day"].to_pylist()] == ["2026-05-05"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["read", "trips", "--columns", "id,fear"],
        ["read", "trips", "--where", "fear > 1"],
        ["count", "trips", "--where", "fear > 1"],
        ["delete", "trips", "--where", "fear > 1", "--yes"],
        ["update", "trips", "--where", "id = 1", "--set", "fear=1", "--yes"],
        ["update", "trips", "--where", "fear = 1", "--set", "fare=1", "--yes"],
        ["update", "trips", "--all-rows", "--set-null", "fear", "--yes"],
        ["changes", "trips", "--columns", "fear"],
        ["lookup", "trips", "1", "--in-partition", "oslo", "--columns", "fear"],
        ["create", "other", "monday.csv", "--key", "fear"],
        ["create", "other", "monday.csv", "--key", "id", "--partition", "fear"],
        ["create", "other", "monday.csv", "--key", "id", "--ordering", "fear"],
    ],
)
def test_a_misspelt_column_is_answered_with_the_nearest(trips: Table, run: Run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.code != 0 and "did you mean 'fare'?" in done.err, done
    assert fares(trips) == FARES and not Path("other").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--set", "fare=1"], 2),
        (["--where", "id = 1", "--all-rows", "--set", "fare=1"], 2),
        (["--where", "id = 1"], 2),
        (["--where", "id = 1", "--set", "fare"], 2),
        (["--where", "id = 1", "--set", "fare=1", "--set-null", "fare"], 2),
        (["--where", "id = 1", "--set", "fare=dear"], 2),
        (["--where", "id = 1", "--set", "city=bern", "--yes"], 1),
        (["--where", "id = 1", "--set", "nope=1", "--yes"], 1),
        (["--where", "id = 'a", "--set", "fare=1", "--yes"], 2),
    ],
)
def test_a_wrong_update_is_refused(trips: Table, run: Run, arguments: list[str], code: int) -> None:
    done = run("update", "trips", *arguments)
    assert (done.code, done.out) == (code, ""), done
    assert fares(trips) == FARES


def test_rows_are_deleted_by_condition_and_by_key(trips: Table, run: Run) -> None:
    assert run("delete", "trips", "--where", "id < 3", "--dry-run", "--json").json == {"row_count": 2}
    assert run("delete", "trips", "1", "9", "--in-partition", "oslo", "--dry-run").out == "1 row would change\n"
    assert run("delete", "trips", "1", "9", "--in-partition", "oslo", "--yes", "--json").json["deleted_count"] == 1
    assert fares(trips) == {2: 20.5, 3: None}
    assert run("delete", "trips", "--where", "city = 'rome'", "--yes").code == 0
    assert fares(trips) == {3: None}
    assert run("delete", "trips", "--yes").code == 2
    assert run("delete", "trips", "3", "--where", "id = 3", "--yes").code == 2


def test_partitions_are_deleted_and_rows_replaced(trips: Table, run: Run) -> None:
    plan = run("delete-partitions", "trips", "oslo", "bern", "--dry-run").out
    assert plan.startswith("delete 1 partition of trips:\n  'oslo': 1 file group")
    assert "'bern': not in the table" in plan
    assert run("delete-partitions", "trips", "oslo", "--yes").code == 0
    assert fares(trips) == {2: 20.5}
    assert run("overwrite", "trips", "monday.csv", "--yes").code == 0
    assert fares(trips) == FARES
    assert run("overwrite", "trips", "tuesday.csv", "--scope", "partitions", "--yes").code == 0
    assert fares(trips) == {1: 10.5, 2: 22.0, 3: None, 4: 7.0}


def test_a_copy_is_brought_up_to_date(trips: Table, run: Run) -> None:
    assert run("follow", "copy", "trips", "--json").json["inserted_count"] == 3
    trips.delete(where="id = 1")
    followed = run("follow", "copy", "trips", "--json").json
    assert (followed["deleted_count"], followed["inserted_count"]) == (1, 0)
    assert run("follow", "copy", "trips").out.startswith("follow: nothing new; the copy holds the source up to ")
    assert fares(Table("copy")) == fares(trips) == {2: 20.5, 3: None}
    shutil.move("trips", "moved")
    assert "--identity" in run("follow", "copy", "moved").err or "identity=" in run("follow", "copy", "moved").err
    name = str(Path("trips").absolute())
    assert run("follow", "copy", "moved", "--identity", name).code == 0
    assert run("follow", "copy", "moved", "--from-scratch", "--yes", "--json").json["since"] is None


def test_columns_are_added(trips: Table, run: Run) -> None:
    shown = run("add-column", "trips", "tip:float64", "note:string", "price:decimal(10,2)", "--json").json
    assert [column["name"] for column in shown][-3:] == ["tip", "note", "price"]
    assert trips.schema().field("price").type == pa.decimal128(10, 2)
    assert run("update", "trips", "--where", "id = 1", "--set", "price=12.50", "--set", "note=a=b", "-y").code == 0
    assert [str(price) for price in trips.read("price", "note = 'a=b'")["price"].to_pylist()] == ["12.50"]
    for wrong in ("tip", "tip:number", ":string", "x:decimal(50,2)"):
        assert run("add-column", "trips", wrong).code == 2
    assert run("add-column", "trips", "tip:float64").code == 2


# --- care and undo ----------------------------------------------------------------------------------------------------


def test_old_versions_are_cleaned(trips: Table, run: Run) -> None:
    for _ in range(2):
        assert run("write", "trips", "tuesday.csv", "-p", "hoodie.clean.automatic=false").code == 0
    assert run("compact", "trips").code == 0
    kept = ("-p", "hoodie.clean.commits.retained=1")
    planned = run("clean", "trips", *kept, "--dry-run", "--json").json
    assert planned["is_dry_run"] is True
    assert planned["files"] > 0
    before = contents(Path("trips/rome"))
    done = run("clean", "trips", *kept, "--yes", "--json")
    assert (done.json["files"], done.json["is_dry_run"]) == (planned["files"], False)
    assert f"would delete {planned['files']} file" in done.err
    assert len(before) - len(contents(Path("trips/rome"))) == planned["files"]
    assert run("clean", "trips", *kept).out == "clean: nothing to delete\n"
    assert run("archive", "trips", "--yes").out == "archive: nothing to archive\n"


def test_a_dry_run_of_optimize_tells_the_overlap_that_would_be_left(trips: Table, run: Run) -> None:
    command = ("optimize", "trips", "--sort-by", "fare", "--dry-run")
    assert "; a value of fare lies in 1.0 files, then in about 1.0" in run(*command).out
    planned = run(*command, "--json").json
    assert planned["is_dry_run"] is True
    assert [found["column"] for found in planned["overlap_before"]] == ["fare"]
    assert planned["overlap_after"][0]["source"].startswith("estimated from ")


def test_partitions_expire(trips: Table, run: Run) -> None:
    option = "hoodie.partition.ttl.strategy.days.retain"
    assert run("expire", "trips", "-p", f"{option}=30").out == "expire: no partition is too old\n"
    assert option in run("expire", "trips").out
    assert run("write", "trips", "tuesday.csv").code == 0
    planned = run("expire", "trips", "-p", EXPIRES_OSLO, "--dry-run", "--json").json
    assert (planned["is_dry_run"], planned["rows"], planned["instant_time"]) == (True, 2, None)
    assert [partition["partition_path"] for partition in planned["partitions"]] == ["oslo"]
    assert planned["partitions"][0]["aged_since_iso"].endswith("Z")
    assert trips.count() == 4
    done = run("expire", "trips", "-p", EXPIRES_OSLO, "--yes", "--json")
    assert done.json == planned | {"is_dry_run": False, "instant_time": done.json["instant_time"]} | {
        "instant_time_iso": done.json["instant_time_iso"]
    }
    assert "expire: would delete 1 partition (2 rows, " in done.err
    assert set(fares(trips)) == {2, 4}
    refused = run("expire", "trips", "-p", EXPIRES_OSLO.replace("Oslo", "Rome"), "--yes")
    assert (refused.code, refused.out) == (1, "")
    assert "all 1 partition" in refused.err


def test_rows_are_erased(trips: Table, run: Run) -> None:
    saved = run("savepoint", "trips", "--json").json["instant_time"]
    where = ("forget", "trips", "--where", "id = 1")
    before = contents(Path("trips"))
    refused = run(*where, "--yes")
    assert (refused.code, refused.out) == (4, "")
    assert f"prevented: savepoint {saved} holds old files" in refused.err
    planned = run(*where, "--dry-run", "--json", "--give-up-savepoint", saved).json
    assert (planned["rows"], planned["given_up"], planned["is_dry_run"]) == (1, [saved], True)
    assert planned["earliest_commit"] == saved and planned["earliest_commit_iso"]
    assert contents(Path("trips")) == before
    done = run(*where, "--yes", "--json", "--give-up-savepoint", saved)
    assert (done.json["rows"], done.json["obstacles"], done.json["is_dry_run"]) == (1, [], False)
    assert "would erase 1 row in 1 file group" in done.err
    assert fares(trips) == {2: 20.5, 3: None}
    assert run(*where).code == 2


def test_a_table_is_dropped(trips: Table, run: Run) -> None:
    note = Path("trips/notes.txt")
    note.write_text("mine")
    assert "notes.txt" in run("drop", "trips", "--dry-run").out
    refused = run("drop", "trips", "--yes")
    assert (refused.code, refused.out) == (2, "")
    assert "nothing was deleted, because files that are not the table's are in its folder: notes.txt" in refused.err
    note.unlink()
    planned = run("drop", "trips", "--dry-run", "--json").json
    assert planned["files"] == len(contents(Path("trips")))
    done = run("drop", "trips", "--yes", "--json")
    assert (done.json["files"], done.json["is_dry_run"]) == (planned["files"], False)
    assert not Path("trips").exists()
    assert run("drop", "trips", "--yes").code == 1


def test_a_metadata_table_that_is_right_and_one_that_is_not(trips: Table, table_version: int, run: Run) -> None:
    done = run("validate", "trips", "-p", "hoodie.metadata.enable=true")
    assert done.code == 0
    if not trips.describe().metadata_partitions:
        return
    assert run("validate", "trips", "--json").json["is_right"] is True
    lost = next(path for path in Path("trips/rome").iterdir() if not path.name.startswith("."))
    lost.unlink()
    done = run("validate", "trips")
    assert done.code == 3
    assert lost.name in done.out


def test_a_healthy_table_and_one_with_a_finding(trips: Table, run: Run) -> None:
    done = run("doctor", "trips", "--json")
    assert (done.code, done.json["is_healthy"], done.json["is_deep"]) == (0, True, False), done
    (Path("trips/rome") / ".hoodie_partition_metadata").unlink()
    assert run("doctor", "trips").code == 0
    done = run("doctor", "trips", "--deep")
    assert done.code == 3
    assert "bad metadata file" in done.out


def test_a_table_is_repaired(trips: Table, run: Run, table_type: str) -> None:
    run("write", "trips", "tuesday.csv", "--operation", "insert")
    told = run("repair", "trips", "duplicates", "--dry-run", "--json").json
    assert len(told["rows"]) == 2 and told["instant_time"] is None
    done = run("repair", "trips", "duplicates", "--across-partitions", "--yes")
    assert done.code == 0 and "1 rows would be deleted" in done.err, done
    assert trips.count() == 4
    assert "0 keys" in run("repair", "trips", "duplicates").out
    Path("trips/rome/.hoodie_partition_metadata").unlink()
    assert run("repair", "trips", "partitions", "--yes", "--json").json["is_dry_run"] is False
    assert Path("trips/rome/.hoodie_partition_metadata").exists()
    assert run("repair", "trips", "orphans").code == 2
    assert "0 orphan" in run("repair", "trips", "orphans", "--delete").out
    assert run("repair", "trips", "partitions", "--delete", "--yes").code == 2


def test_lost_properties_are_told_and_made_again(trips: Table, run: Run) -> None:
    properties = Path("trips/.hoodie/hoodie.properties")
    trips.set_properties({"my.password": "pearl"})
    properties.rename(properties.with_name("hoodie.properties.backup"))
    done = run("repair", "trips", "properties", "--yes")
    assert done.code == 0 and "from their backup" in done.out and "pearl" not in done.out + done.err
    kept = trips.properties()
    properties.unlink()
    missing = run("repair", "trips", "properties")
    assert missing.code == 2 and "hoodie.table.name" in missing.err
    left_out = ("hoodie.table.checksum", "hoodie.table.metadata.partitions.inflight", "my.password")
    known = {key: value for key, value in kept.items() if key not in left_out}
    given = [f"--set={key}={value}" for key, value in known.items()]
    done = run("repair", "trips", "properties", *given, "--yes", "--json")
    assert done.code == 0, done
    assert trips.properties().items() >= known.items()
    assert "nothing to do" in run("repair", "trips", "properties").out


def test_failed_writes_are_shown_by_their_markers_and_undone(trips: Table, run: Run) -> None:
    config = HoodieWriteConfig.from_properties("trips", {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        left = client.start_commit()
        client.upsert(trips.read(), left)
    (pending,) = run("history", "trips", "--pending", "--json").json
    assert pending["instant_time"] == left
    marked = run("markers", "trips", left, "--json").json
    assert {file["partition_path"] for file in marked} == {"oslo", "rome"}
    done = run("recover", "trips", "--yes")
    assert done.code == 0 and left in done.err and f"1 instant undone: {left}" in done.out, done
    assert run("markers", "trips", left, "--json").json == []
    assert run("markers", "trips", "monday").code == 2


def test_locks_are_shown_and_broken(trips: Table, run: Run) -> None:
    (lock,) = run("locks", "trips", "--json").json
    assert (lock["kind"], lock["state"]) == ("single writer", "free")
    assert run("locks", "trips", "--break").out == "locks broken: none is held\n"
    path = Path("trips/.hoodie/lock")
    path.write_text("of Java")
    assert "a writer that is not hoodie" in run("locks", "trips", "--csv").out
    done = run("locks", "trips", "--break", "--yes", "--json")
    assert done.code == 0 and len(done.json["broken"]) == 1 and not path.exists(), done
    with TransactionManager(HoodieWriteConfig.from_properties("trips", {})).alone():
        refused = run("locks", "trips", "--break", "--yes")
        assert refused.code == 4 and "cannot be broken" in refused.err


def test_commits_are_undone(trips: Table, run: Run) -> None:
    first = trips.history()[0].instant_time
    run("write", "trips", "tuesday.csv")
    newest = trips.history()[0].instant_time
    done = run("rollback", "trips", newest, "--yes", "--json")
    assert done.json == {"action": "rollback", "instant_times": [newest]}
    assert f"  {newest} " in done.err
    assert fares(trips) == FARES
    assert run("rollback", "trips", "--yes").out == "rollback: nothing to undo\n"
    unknown = run("rollback", "trips", newest, "--yes")
    assert unknown.code == 4 and f"no instant {newest}" in unknown.err
    run("write", "trips", "tuesday.csv")
    assert run("savepoint", "trips", first).code == 0
    undone = trips.history()[0].instant_time
    done = run("restore", "trips", first, "--yes")
    assert (done.code, done.out.startswith("restore: ")) == (0, True), done
    assert undone in done.err
    assert fares(trips) == FARES
    assert run("delete-savepoint", "trips", first, "--yes", "--json").json == {"deleted": True}
    assert run("delete-savepoint", "trips", first, "--yes").out.endswith("there is none\n")


def test_a_restore_to_nowhere_is_refused(trips: Table, run: Run) -> None:
    assert run("restore", "trips", "20200101000000000", "--yes").code == 4
    assert fares(trips) == FARES


def test_the_version_of_a_table_is_changed(trips: Table, table_version: int, run: Run) -> None:
    other = 8 if table_version == 9 else 9
    name = "downgrade" if other < table_version else "upgrade"
    planned = run(name, "trips", "--to", other, "--dry-run", "--json").json
    assert (planned["from_version"], planned["to_version"], planned["is_dry_run"]) == (table_version, other, True)
    assert trips.describe().table_version == table_version
    done = run(name, "trips", "--to", other, "--yes")
    assert done.code == 0, done
    assert trips.describe().table_version == other
    assert fares(trips) == FARES


@pytest.mark.table_version(9)
@pytest.mark.metadata_table
def test_an_index_is_made_and_dropped(tmp_path: Path, run: Run) -> None:
    Table.create(
        "indexed",
        [{"id": "a", "city": "oslo"}],
        record_key_fields="id",
        properties={"hoodie.metadata.record.index.enable": "true"},
    )
    assert run("create-index", "indexed", "city", "--json").json == {"created": True}
    assert run("create-index", "indexed", "city").out == "index city: is there already\n"
    assert "secondary_index_city" in run("indexes", "indexed").out
    assert run("drop-index", "indexed", "city", "--yes").out == "index city: dropped\n"
    assert "secondary_index_city" not in run("indexes", "indexed").out


# --- errors, secrets, odd values ------------------------------------------------------------------------------------


def test_errors_are_one_line(run: Run) -> None:
    done = run("count", "nothing")
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("hoodie: ")
    assert "nothing" in done.err
    assert len(done.err.splitlines()) == 1
    debugged = run("count", "nothing", "--debug")
    assert "Traceback" in debugged.err
    assert debugged.err.splitlines()[-1] == done.err.strip()
    assert run("count", "nothing", "-p", "hoodie.nope=1").code == 2
    assert run("nope", "nothing").code == 2
    assert run("write", "nothing", "no.csv").code == 2


@pytest.mark.parametrize("error", [HoodieLockException, HoodieWriteConflictException, HoodieHeartbeatException])
def test_what_another_writer_refuses_leaves_with_4(
    run: Run, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise error("another writer\nis here")

    monkeypatch.setattr(Table, "compact", refuse)
    assert run("compact", "trips") == Outcome(4, "", "hoodie: another writer; is here\n")


def test_an_interrupt_leaves_with_130(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Table, "compact", interrupt)
    assert run("compact", "trips") == Outcome(130, "", "interrupted\n")


def test_secrets_are_never_printed(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Table, *_: object, **__: object) -> None:
        raise OSError(f"the store refuses {self._storage_options} and {self._properties}")

    monkeypatch.setattr(Table, "count", fail)
    monkeypatch.setenv("HOODIE_STORAGE_SESSION_TOKEN", "from-environment")
    password = "hoodie.write.lock.zookeeper.password"
    for more in ([], ["--debug"]):
        done = run(
            "count", "t", "-s", "secret_access_key=s3cr3t-key", "-s", "region=eu", "-p", f"{password}=pa55", *more
        )
        assert done.code in (1, 2)
        for secret in ("s3cr3t-key", "from-environment", "pa55"):
            assert secret not in done.out + done.err, done
    done = run("count", "t", "-s", "secret_access_key=s3cr3t-key", "-s", "region=eu")
    assert "region" in done.err
    assert "***" in done.err
    for given in (["-s", "s3cr3t-key"], ["-p", "pa55"]):
        done = run("count", "t", *given)
        assert done.code == 2
        assert given[1] not in done.err


def test_secrets_among_the_properties_of_a_table_are_hidden(trips: Table, run: Run, table_version: int) -> None:
    with open("trips/.hoodie/hoodie.properties", "a") as file:
        file.write("hoodie.some.password=pa55word\n")
    for form in ([], ["--json"], ["--csv"]):
        done = run("properties", "trips", *form)
        assert done.code == 0
        assert "hoodie.some.password" in done.out
        assert "pa55word" not in done.out


def test_properties_come_from_a_file_and_options_win(trips: Table, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("hudi.properties").write_text("# Hudi's\nhoodie.clean.automatic = nonsense\n")
    assert run("write", "trips", "tuesday.csv", "--props", "hudi.properties").code == 2
    assert run("write", "trips", "tuesday.csv", "--props", "none.properties").code == 2
    given = ("write", "trips", "tuesday.csv", "-p", "hoodie.clean.automatic=false")
    assert run(*given, "--props", "hudi.properties").code == 0
    monkeypatch.setenv("HOODIE_PROPS", "hudi.properties")
    assert run("write", "trips", "tuesday.csv").code == 2


def test_odd_values_are_data_and_no_commands(run: Run, table_version: int) -> None:
    odd = 'it\'s \u202e "x" \u202d'
    key = f"{odd} \x1b[31mred \x9b\n"
    rows = [{"id": "a", "city": odd, "text": key, "fare": float("nan")}, {"id": "b", "city": "b", "fare": 1.0}]
    Table.create("odd", rows, record_key_fields="id", partition_fields="city", table_version=table_version)
    for shown in (run("partitions", "odd"), run("files", "odd"), run("read", "odd", "--format", "text")):
        assert shown.code == 0
        assert "it's" in shown.out
        assert not {"\x1b", "\x9b", "\u202e"} & set(shown.out)
    assert odd in [entry["partition_path"] for entry in run("partitions", "odd", "--json").json]
    quoted = odd.replace("'", "''")
    assert run("count", "odd", "--where", f"city = '{quoted}'").out == "1\n"
    found = run("read", "odd", "--where", f"city = '{quoted}'").json
    assert found == {"id": "a", "city": odd, "text": key, "fare": "NaN"}
    assert run("count", "odd", "--where", f"city = '{odd}'").code == 2
    asked = run("delete-partitions", "odd", odd)
    assert asked.code == 2
    assert "\u202e" not in asked.err
    assert run("delete-partitions", "odd", odd, "--yes").code == 0
    assert run("count", "odd").out == "1\n"


def test_a_file_that_is_bad_in_its_middle_writes_nothing(trips: Table, run: Run) -> None:
    Path("bad.csv").write_text("id,city,ts,fare,day\n8,oslo,1,1,\n9,oslo,1,dear,\n")
    before = trips.history()[0].instant_time
    done = run("write", "trips", "bad.csv")
    assert (done.code, done.out) == (1, "")
    assert "dear" in done.err
    assert fares(trips) == FARES
    assert before == next(
        entry.instant_time for entry in trips.history() if entry.state == "COMPLETED" and entry.operation
    )
