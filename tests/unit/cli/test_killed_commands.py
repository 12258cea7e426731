"""Commands that are killed at a random point: the table is as before or as after, and the same command works then."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig, Table

ROOT = Path(__file__).parents[3]
EXPIRES_OSLO = "hoodie.partition.ttl.strategy.class=tests.support.partition_strategies.Oslo"
COMMANDS = {
    "write": ["write", "{table}", "{files}/tuesday.csv"],
    "overwrite": ["overwrite", "{table}", "{files}/tuesday.csv", "--yes"],
    "update": ["update", "{table}", "--all-rows", "--set", "fare=7", "--yes"],
    "delete": ["delete", "{table}", "--where", "id < 3", "--yes"],
    "delete-partitions": ["delete-partitions", "{table}", "oslo", "--yes"],
    "add-column": ["add-column", "{table}", "tip:float64"],
    "compact": ["compact", "{table}"],
    "clean": ["clean", "{table}", "-p", "hoodie.clean.commits.retained=1", "--yes"],
    "expire": ["expire", "{table}", "-p", EXPIRES_OSLO, "--yes"],
    "forget": ["forget", "{table}", "--where", "id < 3", "--yes"],
    "rollback": ["rollback", "{table}", "{newest}", "--yes"],
    "restore": ["restore", "{table}", "{oldest}", "--yes"],
    "savepoint": ["savepoint", "{table}"],
    "properties": ["properties", "{table}", "--set", "my.owner=ann", "--yes"],
    "repair": ["repair", "{table}", "properties", "--yes"],
    "recover": ["recover", "{table}", "--yes"],
    "locks": ["locks", "{table}", "--break", "--yes"],
    "downgrade": ["downgrade", "{table}", "--to", "8", "--yes"],
}
TWICE = {"add-column": 2, "rollback": 4, "savepoint": 1}
"""Commands that are refused once they are done, and the exit codes of that."""
pytestmark = [pytest.mark.slow, pytest.mark.table_version(9)]


def start(arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process of the command."""
    return subprocess.Popen(
        [sys.executable, "-m", "hoodie", *arguments],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """The exit code and the words of a process."""
    _, words = process.communicate(timeout=300)
    return process.returncode, words.decode()


def leave_a_write(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows that are never committed."""
    config = HoodieWriteConfig.from_properties(str(path), {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        client.upsert(rows, client.start_commit())


def rows_of(path: Path) -> list[str]:
    """The rows, as text, without columns of nulls."""
    rows = Table(path).read().to_pylist()
    return sorted(str({name: value for name, value in row.items() if name != "tip"}) for row in rows)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_the_table_as_before_or_as_after(tmp_path: Path, name: str, table_type: str) -> None:
    (tmp_path / "tuesday.csv").write_text("id,city,ts,fare\n2,rome,2,22\n4,rome,2,7\n")
    path, done = tmp_path / "t", tmp_path / "done" / "t"
    rows = [{"id": number, "city": ["oslo", "rome"][number % 2], "ts": 1, "fare": 1.5} for number in range(1, 7)]
    keeps = {"hoodie.clean.automatic": "false"}
    table = Table.create(
        path, rows, record_key_fields="id", partition_fields="city", table_type=table_type, properties=keeps
    )
    for fare in (2.5, 3.5):
        table.upsert([{**row, "fare": fare} for row in rows], properties=keeps)
    times = [entry.instant_time for entry in table.history()]
    if name == "repair":
        stored = path / ".hoodie" / "hoodie.properties"
        stored.rename(stored.with_name("hoodie.properties.backup"))
    if name == "expire":
        table.upsert([row for row in rows if row["city"] == "rome"])
    if name == "recover":
        leave_a_write(path, rows)
    if name == "locks":
        (path / ".hoodie" / "lock").write_text("of a Java writer")
    shutil.copytree(path, done)

    def arguments(of: Path) -> list[str]:
        given = {"table": of, "files": tmp_path, "newest": times[0], "oldest": times[-1]}
        return [argument.format(**given) for argument in COMMANDS[name]]

    began = time.monotonic()
    code, words = ended(start(arguments(done)))
    assert code == 0, words
    took = time.monotonic() - began
    before, after = rows_of(path), rows_of(done)
    # The first part of the time goes to imports.
    delay = random.Random(f"{name} {table_type} {time.strftime('%j')}").uniform(took / 3, took)
    process = start(arguments(path))
    time.sleep(delay)
    process.kill()
    process.communicate()
    assert rows_of(path) in (before, after), delay
    code, words = ended(start(arguments(path)))
    assert code == 0 or code == TWICE.get(name), (delay, words)
    assert rows_of(path) == after, delay
    assert ended(start(["validate", str(path)]))[0] == 0
