"""The commands on tables that real Hudi wrote."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from hoodie.cli.main import SECTIONS, command
from hoodie.cli.pictures import NAMES
from tests.unit.test_tables_of_real_hudi import folders_of_tables

DATA = Path(__file__).parents[2] / "data"
LOOKS = [
    *(entry for entry in SECTIONS["Look"] if entry.name not in ("diff", "export")),
    *(entry for entry in SECTIONS["Read"] if entry.name in ("read", "count", "explain", "changes")),
    *(entry for entry in SECTIONS["Take care"] if entry.name in ("validate", "doctor", "locks")),
]
pytestmark = pytest.mark.table_version(9)


@pytest.fixture(params=["hudi_flights_v6", "hudi_trips_v8", "hudi_trips_v9"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A table of each version."""
    with zipfile.ZipFile(DATA / f"{request.param}.zip") as archive:
        archive.extractall(tmp_path)
    return str(tmp_path / request.param)


def run(*arguments: str) -> str:
    """The output of a command that succeeds."""
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, (arguments, done.output)
    return done.stdout


def test_looking_commands_show_them(table: str) -> None:
    count = int(run("count", table))
    assert count in (25, 500)
    for entry in LOOKS:
        assert entry.name is not None
        assert run(entry.name, table), entry.name
        assert json.loads(run(entry.name, table, "--json")) is not None
    assert len(json.loads(run("read", table, "--json"))) == count


def test_instants_are_shown_compared_and_exported(table: str, tmp_path: Path) -> None:
    every = json.loads(run("history", table, "--archived", "--json"))
    for entry in every:
        shown = json.loads(run("history", table, entry["instant_time"], "--action", entry["action"], "--json"))
        assert shown["operation"] == entry["operation"]
        assert sum(file["rows_inserted"] for file in shown["files"]) == (entry["rows_inserted"] or 0)
        assert run("history", table, entry["instant_time"], "--files")
    run("export", table, str(tmp_path / "out"), "--archived")
    assert len(list((tmp_path / "out").iterdir())) == len(every)
    difference = json.loads(run("diff", table, "20200101000000000", every[0]["instant_time"], "--json"))
    groups = {group["file_id"] for group in difference["file_groups"] if group["change"] == "added"}
    assert groups == {file["file_id"] for file in json.loads(run("files", table, "--json"))}


def test_properties_are_changed_and_nothing_needs_a_repair(table: str) -> None:
    before = json.loads(run("properties", table, "--json"))
    run("properties", table, "--set", "my.owner=ann", "--yes")
    assert json.loads(run("properties", table, "--json")) == {**before, "my.owner": "ann"}
    run("properties", table, "--unset", "my.owner", "--yes")
    assert json.loads(run("properties", table, "--json")) == before
    rows = sorted(run("read", table).splitlines())
    for what in ("duplicates", "orphans", "partitions", "properties"):
        found = run("repair", table, what, "--dry-run")
        assert len(found.splitlines()) == 1 or what == "properties", found
    run("recover", table, "--yes")
    assert sorted(run("read", table).splitlines()) == rows


def test_numbers_and_pictures_of_them(table: str, tmp_path: Path) -> None:
    count = int(run("count", table))
    for name in NAMES:
        assert json.loads(run("stats", table, name, "--json")), name
        ET.fromstring(run("plot", table, name))
    assert json.loads(run("stats", table, "growth", "--json"))[0]["row_count"] == count
    written = json.loads(run("report", table, "--out", str(tmp_path / "r.html"), "--json"))
    assert written["failed_pictures"] == []


def test_rows_are_changed_and_the_change_undone(table: str) -> None:
    before = sorted(run("read", table).splitlines())
    row = json.loads(before[0])
    name = "fare" if "fare" in row else "distance"
    done = json.loads(run("update", table, "--all-rows", "--set", f"{name}=7", "--yes", "--json"))
    assert done["updated_count"] == len(before)
    assert {json.loads(line)[name] for line in run("read", table).splitlines()} == {7}
    run("rollback", table, done["instant_time"], "--yes")
    assert sorted(run("read", table).splitlines()) == before
    newest = json.loads(run("describe", table, "--json"))["newest_commit"]
    run("delete", table, "--where", f"{name} > 0", "--yes")
    run("restore", table, newest, "--yes")
    assert sorted(run("read", table).splitlines()) == before


@pytest.mark.slow
def test_looks_and_repairs_of_all_tables_of_real_hudi_change_nothing(
    shared_tables: Path, later_tables: Path, tmp_path: Path
) -> None:
    versions = set()
    for source in sorted(path for root in (later_tables, shared_tables) for path in root.iterdir() if path.is_dir()):
        for folder in folders_of_tables(source) if source.name != "rows" else ():
            path = str(folder)
            described = CliRunner().invoke(command, ["describe", path, "--json"])
            if described.exit_code != 0:
                # Some tables are there to be refused.
                assert described.stderr.startswith("hoodie: "), (path, described)
                continue
            told = json.loads(described.stdout)
            versions.add((told["table_version"], told["table_type"]))
            before = contents(folder)
            every = json.loads(run("history", path, "--archived", "--json"))
            for entry in every[:3]:
                run("history", path, entry["instant_time"], "--action", entry["action"])
            newest = every[0]["instant_time"] if every else "20200101000000000"
            for arguments in (
                ("diff", path, "20200101000000000", newest),
                ("export", path, str(tmp_path / "out" / source.name)),
                ("markers", path, newest),
                ("locks", path),
                ("doctor", path, "--deep"),
                ("properties", path, "--set", "my.owner=ann", "--dry-run"),
                *(
                    ("repair", path, what, "--dry-run")
                    for what in ("duplicates", "orphans", "partitions", "properties")
                ),
            ):
                done = CliRunner().invoke(command, arguments)
                # What a repair cannot judge is told in one line.
                assert done.exit_code in (0, 1, 3), (arguments, done)
                assert done.exit_code != 1 or "Exception" not in done.stderr.partition(":")[2][:40], (arguments, done)
            assert contents(folder) == before, path
    assert {(version, kind) for version in (6, 8, 9) for kind in ("COPY_ON_WRITE", "MERGE_ON_READ")} <= versions


def contents(folder: Path) -> dict[str, bytes]:
    """The files below a folder."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
