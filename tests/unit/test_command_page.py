"""The pages of the command: their programs run, and methods, commands and pages name the same."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import click
import pytest

from hoodie import Table
from hoodie.cli.main import SECTIONS
from tests.support.page_programs import read_page

ROOT = Path(__file__).parents[2]
PAGE = read_page("command.md")
COMMANDS = {
    entry.name: entry
    for title, made in SECTIONS.items()
    for entry in made
    if title != "Stream" and not isinstance(entry, click.Group)
}
"""The commands of a table; the streamer has a page of its own."""
GROUPS = {entry.name: entry for made in SECTIONS.values() for entry in made if isinstance(entry, click.Group)}
pytestmark = pytest.mark.table_version(9)


def rows_of(page: str, heading: str) -> list[list[str]]:
    """The rows of the first table below a heading, as cells."""
    text = page.split(f"{heading}\n", 1)[1]
    lines = [line for line in re.search(r"(?:^\|.*\n)+", text, re.MULTILINE)[0].splitlines() if line]  # type: ignore[index]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def options_of(command: click.Command) -> set[str]:
    """The options of a command, in all spellings."""
    return {name for parameter in command.params for name in parameter.opts}


def test_the_programs_of_the_page_do_what_they_say(tmp_path: Path) -> None:
    programs = re.findall(r"^<!-- run -->\n```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(programs) == 6
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, call in (("hoodie", "-m hoodie"), ("python", "")):
        (binaries / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {call} "$@"\n')
        (binaries / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    printed = []
    for program in programs:
        done = subprocess.run(
            ["sh", "-e", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done
        printed.append(done.stdout)
    assert printed[0].splitlines()[-1] == '{"id": 2, "fare": 22.5}'
    assert printed[1].splitlines()[0] == "2"
    assert "rome,30.0" in printed[1].splitlines()
    assert len((tmp_path / "all.jsonl").read_text().splitlines()) == 4
    assert printed[2].splitlines()[-1] == "4"
    assert printed[4].splitlines()[0] == "2 rows would change"


def test_the_page_names_every_method_and_every_command() -> None:
    rows = rows_of(PAGE, "## All commands")
    methods = [name for row in rows for name in re.findall(r"`(\w+)`", row[1])]
    assert sorted(methods) == [name for name in dir(Table) if not name.startswith("_")]
    commands = [call.split() for row in rows for call in re.findall(r"`([^`]+)`", row[2])]
    assert {call[0] for call in commands} == set(COMMANDS)
    for name, *options in commands:
        assert set(options) <= options_of(COMMANDS[name]), (name, options)


def test_the_page_leads_to_the_streamer() -> None:
    (streamer,) = SECTIONS["Stream"]
    assert f"`hoodie {streamer.name}`" in PAGE
    assert "streamer.md" in PAGE


def test_a_command_stands_beside_the_method_of_its_name() -> None:
    beside = {
        call.split()[0]: re.findall(r"`(\w+)`", row[1])
        for row in rows_of(PAGE, "## All commands")
        for call in re.findall(r"`([^`]+)`", row[2])
        if " " not in call
    }
    assert beside.keys() == set(COMMANDS)
    for name, methods in beside.items():
        expected = {"write": "upsert", "add-column": "add_columns", "expire": "expire_partitions"}.get(
            name, name.replace("-", "_")
        )
        assert expected in methods


def test_the_page_names_the_commands_that_ask_and_that_plan() -> None:
    section = PAGE.split("## Plans and questions")[1].split("\n## ")[0]
    asking, planning = section.split("They show their plan", 1)
    named = set(re.findall(r"`([a-z-]+)`", asking))
    assert named == {name for name, entry in COMMANDS.items() if "--yes" in options_of(entry)}
    named = set(re.findall(r"`([a-z-]+)`", planning.split("`--dry-run`")[1]))
    assert named == {name for name, entry in COMMANDS.items() if "--dry-run" in options_of(entry)}


def test_the_options_of_all_commands_are_on_the_page() -> None:
    named = set(re.findall(r"`(--?[a-z]+)[ `]", PAGE.split("## Options of all commands")[1].split("\n## ")[0]))
    common = set.intersection(*map(options_of, COMMANDS.values())) - {"path"}
    assert common <= named
    assert "--csv" in named


def test_the_page_names_the_commands_of_groups() -> None:
    assert GROUPS.keys() == {"catalog"}
    section = PAGE.split("## Catalogs")[1].split("\n## ")[0]
    calls = [shlex.split(call)[1:] for call in re.findall(r"^hoodie .*", section, re.MULTILINE)]
    assert {(group, name) for group, name, *_ in calls} == {
        (group, name) for group, made in GROUPS.items() for name in made.commands
    }
    common = set.intersection(*map(options_of, COMMANDS.values())) - {"path"}
    for group, name, *arguments in calls:
        options = options_of(GROUPS[group].commands[name])
        assert common <= options
        assert {argument for argument in arguments if argument.startswith("-")} <= options


def test_the_page_for_users_of_hudi_cli_names_commands_that_exist() -> None:
    rows = rows_of(read_page("from-hudi-cli.md"), "# From hudi-cli")
    calls = [shlex.split(call) for row in rows for call in re.findall(r"`hoodie ([^`]+)`", row[1])]
    assert len(calls) >= 20
    for name, path, *arguments in calls:
        assert path == "P"
        given = {argument for argument in arguments if argument.startswith("-")}
        assert given <= options_of(COMMANDS[name]), (name, arguments)
    assert all(row[1] for row in rows)
