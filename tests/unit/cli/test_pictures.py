"""The commands `stats`, `plot` and `report`."""

from __future__ import annotations

import csv
import io
import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hoodie import Table, stats
from hoodie.cli.main import command
from hoodie.cli.pictures import NAMES
from hoodie.stats.table_numbers import PICTURES
from tests.support.table_builder import init_table, local_client, rows


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory, table_version_of_module: None) -> str:
    """A table of 25 commits, which no test changes."""
    path = init_table(tmp_path_factory.mktemp("stats") / "t")
    with local_client(path) as client:
        for number in range(25):
            client.upsert(rows(("a", "x", number), (f"k{number}", "y", 1)))
    return path


def run(*arguments: object, code: int = 0) -> Result:
    done = CliRunner().invoke(command, [str(argument) for argument in arguments])
    assert done.exit_code == code, done.output
    return done


def records(text: str) -> Sequence[dict[str, object]]:
    found: Sequence[dict[str, object]] = json.loads(text)
    return found


def test_the_command_knows_all_pictures() -> None:
    assert tuple(PICTURES) == NAMES


def test_numbers_of_each_picture_are_text_json_and_csv(path: str) -> None:
    table = Table(path)
    for name in NAMES:
        expected = table.stats(name)
        assert expected.column_names[0] in run("stats", path, name).stdout
        found = records(run("stats", path, name, "--json").stdout)
        assert len(found) == len(expected)
        assert set(expected.column_names) <= {*found[0]}
        lines = list(csv.DictReader(io.StringIO(run("stats", path, name, "--csv").stdout)))
        assert [list(line) for line in lines] == [list(expected.column_names)] * len(expected)


def test_instants_are_shown_the_newest_first_and_twenty_of_them(path: str) -> None:
    growth = stats.growth(path)
    assert len(growth) == 25
    lines = run("stats", path, "growth").stdout.splitlines()
    assert lines[2].startswith(growth[-1].instant_time)
    assert len(lines) == 2 + 20 + 1
    assert lines[-1] == f"... and {len(growth) - 20} more rows"
    assert len(run("stats", path, "growth", "--all").stdout.splitlines()) == 2 + len(growth)
    found = records(run("stats", path, "growth", "--json", "--limit", "2").stdout)
    assert [row["instant_time"] for row in found] == [growth[-1].instant_time, growth[-2].instant_time]


def test_overlap_is_that_of_the_columns(path: str) -> None:
    found = records(run("stats", path, "overlap", "-c", "ts, region", "--json").stdout)
    assert [row["column"] for row in found] == ["ts", "region"]
    assert [row["max_depth"] for row in found] == [row.max_depth for row in stats.overlap(path, ["ts", "region"])]


def test_sizes_are_grouped(path: str) -> None:
    for group in ("commit", "partition"):
        found = records(run("stats", path, "sizes", f"--by-{group}", "--json").stdout)
        assert [row["group"] for row in found] == [row.group for row in stats.sizes_by(path, group)]
        assert found[-1]["group"] == "ALL"
    assert (
        "give --by-commit or --by-partition"
        in run("stats", path, "sizes", "--by-commit", "--by-partition", code=2).output
    )
    assert "growth has no groups" in run("stats", path, "growth", "--by-commit", code=2).output


def test_a_picture_goes_to_a_file_or_to_the_output(path: str, tmp_path: Path) -> None:
    for name in NAMES:
        ET.fromstring(run("plot", path, name).stdout)
        told = run("plot", path, name, "-o", tmp_path / "p.svg").stdout
        assert told.startswith(f"{tmp_path / 'p.svg'}: ")
        ET.parse(tmp_path / "p.svg")
    found = json.loads(run("plot", path, "sizes", "--out", tmp_path / "p.svg", "--json").stdout)
    assert found == {"path": str(tmp_path / "p.svg"), "summary": Table(path).plot("sizes").summary}


def test_json_of_a_picture_needs_a_file(path: str) -> None:
    assert "--json needs --out" in run("plot", path, "sizes", "--json", code=2).output


def test_a_report_is_written(path: str, tmp_path: Path) -> None:
    assert run("report", path, "-o", tmp_path / "r.html").stdout.startswith(f"{tmp_path / 'r.html'}: ")
    found = json.loads(run("report", path, "-o", tmp_path / "r.html", "--json").stdout)
    assert found["size_bytes"] == (tmp_path / "r.html").stat().st_size
    assert found["failed_pictures"] == []
    run("report", path, code=2)


def test_a_file_that_cannot_be_written_is_an_error_of_one_line(path: str, tmp_path: Path) -> None:
    failed = run("report", path, "-o", tmp_path / "nowhere" / "r.html", code=1)
    assert f"there is no such folder: '{tmp_path / 'nowhere'}'" in failed.output
    run("plot", path, "sizs", code=2)
    assert "There is no Hudi table" in run("stats", tmp_path / "nowhere", "sizes", code=1).output
