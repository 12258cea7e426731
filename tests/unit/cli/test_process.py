"""The command `hoodie` as a process: its imports, closed pipes, terminals, completion, exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import Table

ROOT = Path(__file__).parents[3]
HEAVY = ("pyarrow", "numpy", "pandas", "boto3", "obstore")
pytestmark = pytest.mark.table_version(9)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", **more}


def hoodie(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "hoodie", *arguments]
    return subprocess.run(
        program, capture_output=True, text=True, check=False, env=environment(**more), stdin=subprocess.DEVNULL
    )


@pytest.fixture
def table(tmp_path: Path) -> str:
    """A table of 3,000 rows."""
    rows = pa.table({"id": [f"{number:05}" for number in range(3000)], "text": ["x" * 100] * 3000})
    Table.create(tmp_path / "t", rows, record_key_fields="id")
    return str(tmp_path / "t")


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["read", "--help"], ["write", "nothing"]])
def test_help_and_usage_import_no_libraries_of_data(arguments: Sequence[str]) -> None:
    program = f"""
import sys
sys.argv = ["hoodie", *{arguments!r}]
from hoodie.cli.main import main
try:
    main()
except SystemExit:
    pass
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment()
    )
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_shell_completes_without_libraries_of_data(tmp_path: Path) -> None:
    for name in HEAVY:
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit('imports {name}')\n")
    done = hoodie(
        _HOODIE_COMPLETE="bash_complete", COMP_WORDS="hoodie delete-", COMP_CWORD="1",
        PYTHONPATH=f"{tmp_path}:{ROOT}",
    )  # fmt: skip
    assert done.stdout.split() == ["plain,delete-partitions", "plain,delete-savepoint"], done


def test_exit_codes_reach_the_shell(table: str) -> None:
    assert hoodie("count", table).returncode == 0
    assert hoodie("count", f"{table}/nothing").returncode == 1
    assert hoodie("count").returncode == 2
    asked = hoodie("delete", table, "--where", "id < '1'")
    assert asked.returncode == 2
    assert "--yes" in asked.stderr
    assert hoodie("count", table).stdout == "3000\n"


@pytest.mark.parametrize("form", [[], ["--csv"], ["--json"]])
def test_a_closed_pipe_ends_a_read_quietly(table: str, form: Sequence[str]) -> None:
    program = [sys.executable, "-m", "hoodie", "read", table, *form]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as process:
        assert process.stdout is not None and process.stderr is not None
        assert process.stdout.read(20)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 0


def test_a_full_disk_is_no_closed_pipe(table: str) -> None:
    with open("/dev/full", "wb") as full:
        program = [sys.executable, "-m", "hoodie", "read", table]
        done = subprocess.run(program, stdout=full, stderr=subprocess.PIPE, text=True, check=False, env=environment())
    assert done.returncode == 1
    assert "No space left" in done.stderr


def on_terminal(arguments: Sequence[str], answer: bytes = b"", **more: str) -> tuple[int, str]:
    """Run a command on a terminal of 60 columns."""
    pid, terminal = pty.fork()
    if pid == 0:
        program = [sys.executable, "-m", "hoodie", *arguments]
        os.execve(sys.executable, program, environment(COLUMNS="60", TERM="xterm", **more))
    if answer:
        time.sleep(0.1)
        os.write(terminal, answer)
    shown = b""
    while True:
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), shown.decode()


def test_a_terminal_gets_text_of_its_width(table: str) -> None:
    code, shown = on_terminal(["read", table, "--limit", "3"])
    assert code == 0
    lines = shown.splitlines()
    assert lines[0].split() == ["id", "text"]
    assert len(lines) == 5
    assert "…" in shown
    assert max(map(len, lines)) <= 60
    assert "\x1b" not in shown


@pytest.mark.parametrize(("answer", "code", "rows"), [(b"y\n", 0, 2000), (b"n\n", 2, 3000), (b"\n", 2, 3000)])
def test_a_terminal_is_asked(table: str, answer: bytes, code: int, rows: int) -> None:
    ended, shown = on_terminal(["delete", table, "--where", "id < '01000'"], answer)
    assert "1,000 rows" in shown
    assert "[y/N]" in shown
    assert ended == code, shown
    assert Table(table).count() == rows


def test_a_pager_shows_what_a_terminal_shows(table: str) -> None:
    arguments = ["read", table, "--limit", "3"]
    _, plain = on_terminal(arguments)
    code, shown = on_terminal([*arguments, "--pager"], PAGER="sed s/^/p:/")
    assert code == 0
    assert shown.splitlines() == [f"p:{line}" for line in plain.splitlines()]
    code, shown = on_terminal(arguments, PAGER="sed s/^/p:/", HOODIE_PAGER="sed s/^/h:/")
    assert shown.splitlines() == [f"h:{line}" for line in plain.splitlines()]
    assert on_terminal(arguments, PAGER="sed s/^/p:/") == (0, plain)
    assert hoodie(*arguments, "--pager", HOODIE_PAGER="sed s/^/h:/").stdout.startswith("{")


def test_a_pager_that_is_left_ends_a_command_quietly(table: str) -> None:
    code, shown = on_terminal(["read", table, "--format", "jsonl"], HOODIE_PAGER="head -n 2")
    assert (code, len(shown.splitlines())) == (0, 2), shown
    code, shown = on_terminal(["count", f"{table}/nothing"], HOODIE_PAGER="cat")
    assert code == 1 and "no Hudi table" in shown


@pytest.mark.parametrize("program", ["no-such-program -x", "less '"])
def test_a_pager_that_is_not_there_is_named(table: str, program: str) -> None:
    code, shown = on_terminal(["count", table], HOODIE_PAGER=program)
    assert code == 2 and program in shown and "HOODIE_PAGER" in shown


def test_a_question_comes_before_the_pager(table: str) -> None:
    code, shown = on_terminal(["delete", table, "--where", "id < '01000'"], b"y\n", HOODIE_PAGER="sed s/^/h:/")
    assert code == 0 and "[y/N]" in shown and "h:" in shown.split("[y/N]")[1], shown
    assert Table(table).count() == 2000


def test_an_interrupt_at_a_question_changes_nothing(table: str) -> None:
    code, shown = on_terminal(["delete", table, "--where", "id < '01000'"], b"\x04")
    assert code == 130, shown
    assert "Traceback" not in shown
    assert Table(table).count() == 3000


def test_output_for_another_encoding_is_escaped(tmp_path: Path) -> None:
    Table.create(tmp_path / "t", [{"id": "é", "text": "日本"}], record_key_fields="id")
    done = hoodie("read", str(tmp_path / "t"), "--json", PYTHONIOENCODING="ascii")
    assert json.loads(done.stdout) == [{"id": "é", "text": "日本"}]
    assert done.stdout.isascii()
    assert hoodie("read", str(tmp_path / "t"), "--format", "text", PYTHONIOENCODING="ascii").returncode == 0
