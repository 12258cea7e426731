"""The progress line: what it says, where it is drawn, and that it goes away."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, TextIO

import pytest

from hoodie.metrics.metrics import HoodieMetrics
from hoodie.metrics.progress import ProgressEvent, ProgressState
from hoodie.metrics.progress_bar import NotebookDisplay, ProgressBar, TerminalDisplay, bar_line, progress_bar

EVENT = ProgressEvent("write buckets", ProgressState.ADVANCED, 5, 12, 3.0, detail="12", operation="upsert")


class Terminal:
    """The two ends of a pseudo terminal: what is written to one is seen at the other."""

    def __init__(self, columns: int) -> None:
        self.outer, self.inner = pty.openpty()
        self.resize(columns)
        self.stream: TextIO = os.fdopen(os.dup(self.inner), "w")

    def resize(self, columns: int) -> None:
        fcntl.ioctl(self.inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))

    def seen(self) -> str:
        os.write(self.inner, b"\x04")
        text = b""
        while not text.endswith(b"\x04"):
            text += os.read(self.outer, 65536)
        return text[:-1].decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self.inner)
        os.close(self.outer)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    made = Terminal(80)
    yield made
    made.close()


def on_screen(text: str, columns: int) -> list[str]:
    """The lines of a terminal after some text: carriage returns overwrite, full lines wrap."""
    lines, column = [""], 0
    for character in text:
        if character == "\r":
            column = 0
        elif character == "\n":
            lines.append("")
        else:
            if column == columns:
                lines.append("")
                column = 0
            lines[-1] = lines[-1][:column].ljust(column) + character + lines[-1][column + 1 :]
            column += 1
    return [line.rstrip() for line in lines]


class TickedOnly(ProgressBar):
    """A bar that says when it was drawn."""

    def __init__(self, display: Any, delay_seconds: float) -> None:
        super().__init__(display, delay_seconds)
        self.drawn = threading.Event()

    def tick(self) -> None:
        super().tick()
        self.drawn.set()


def test_the_line_names_call_step_tasks_and_time() -> None:
    assert bar_line("upsert", EVENT, 42.9, 100) == (
        "hoodie upsert: write buckets (12) [========>           ] 5/12 tasks, 0:42"
    )
    whole = ProgressEvent("write files", ProgressState.ADVANCED, 3, 3, 1.0)
    assert bar_line("bulk_insert", whole, 3723, 100).endswith(f"[{'=' * 20}] 3/3 tasks, 1:02:03")
    without_tasks = ProgressEvent("commit", ProgressState.STARTED, 0, 0, 0.0)
    assert bar_line("upsert", without_tasks, 2, 100) == "hoodie upsert: commit, 0:02"


@pytest.mark.parametrize("columns", range(1, 90))
def test_the_line_fits_into_every_width(columns: int) -> None:
    line = bar_line("upsert", EVENT, 42, columns)
    assert 0 < len(line) <= columns
    assert line.startswith(("hoodie upsert", "write buckets"[:columns]))


def test_the_line_is_drawn_on_a_terminal_and_a_summary_stays(terminal: Terminal) -> None:
    bar = TickedOnly(TerminalDisplay(terminal.stream), 0.0)
    metrics = HoodieMetrics(listeners=[bar])
    with metrics.operation("upsert") as call:
        with metrics.step("tag location", "SIMPLE"):
            assert bar.drawn.wait(60)
        call.summary = "3 inserted"
    text = terminal.seen()
    assert re.search(r"\rhoodie upsert: tag location \(SIMPLE\), \d+:\d\d", text)
    line, nothing = on_screen(text, 80)
    assert re.fullmatch(r"hoodie: 3 inserted in \d+:\d\d", line) and nothing == ""


def test_an_error_takes_the_line_away(terminal: Terminal) -> None:
    bar = TickedOnly(TerminalDisplay(terminal.stream), 0.0)
    metrics = HoodieMetrics(listeners=[bar])
    with pytest.raises(KeyboardInterrupt), metrics.operation("upsert"), metrics.step("commit"):
        assert bar.drawn.wait(60)
        raise KeyboardInterrupt
    text = terminal.seen()
    assert "commit" in text
    assert on_screen(text, 80) == [""]


@pytest.mark.parametrize("columns", [1, 8, 20, 40, 79])
def test_a_narrow_terminal_never_wraps_and_is_cleared(terminal: Terminal, columns: int) -> None:
    terminal.resize(columns)
    bar = ProgressBar(TerminalDisplay(terminal.stream), 0.0)
    bar.begin("upsert")
    bar.on_event(EVENT)
    bar.tick()
    text = terminal.seen()
    assert len(on_screen(text, columns)) == 1
    bar.on_event(ProgressEvent("commit", ProgressState.STARTED, 0, 0, 0.0))
    bar.tick()
    bar.end("")
    assert on_screen(text + terminal.seen(), columns) == [""]


def test_a_shorter_line_leaves_nothing_of_a_longer_one(terminal: Terminal) -> None:
    display = TerminalDisplay(terminal.stream)
    display.show("a long line")
    display.show("short")
    assert on_screen(terminal.seen(), 80) == ["short"]


def test_a_quick_call_shows_nothing(terminal: Terminal) -> None:
    bar = TickedOnly(TerminalDisplay(terminal.stream), 60.0)
    metrics = HoodieMetrics(listeners=[bar])
    with metrics.operation("upsert") as call, metrics.step("commit"):
        assert bar.drawn.wait(60)
        call.summary = "3 inserted"
    assert terminal.seen() == ""


def test_a_terminal_that_went_away_does_not_fail_the_write(terminal: Terminal) -> None:
    bar = ProgressBar(TerminalDisplay(terminal.stream), 0.0)
    bar.begin("upsert")
    bar.on_event(EVENT)
    terminal.stream.close()
    bar.tick()
    bar.end("done")


def test_the_part_that_runs_is_shown_and_the_step_again_after_it() -> None:
    lines: list[str] = []
    display = SimpleNamespace(columns=79, show=lines.append, clear=lambda: None, leave=lines.append)
    bar = ProgressBar(display, 0.0)
    bar.begin("upsert")
    for name, state, depth in [("commit", "started", 0), ("delete markers", "started", 1)]:
        bar.on_event(ProgressEvent(name, ProgressState(state), 0, 0, 0.0, depth=depth))
    bar.tick()
    bar.on_event(ProgressEvent("delete markers", ProgressState.FINISHED, 0, 0, 0.0, depth=1))
    bar.tick()
    bar.on_event(ProgressEvent("commit", ProgressState.FINISHED, 0, 0, 0.0))
    bar.tick()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == ["delete markers", "commit"]


def test_there_is_a_bar_on_a_terminal_only(terminal: Terminal, tmp_path: Path) -> None:
    quiet: dict[str, str] = {"TERM": "xterm"}
    assert progress_bar(stream=terminal.stream, environment=quiet) is not None
    assert progress_bar(stream=terminal.stream, environment={"TERM": "dumb"}) is None
    assert progress_bar(stream=terminal.stream, environment={"CI": "true"}) is None
    assert progress_bar(stream=terminal.stream, environment={"CI": "false"}) is not None
    assert progress_bar(force=True, stream=terminal.stream, environment={"CI": "true"}) is not None
    assert progress_bar(terminal_is_taken=True, stream=terminal.stream, environment=quiet) is None
    assert progress_bar(force=True, terminal_is_taken=True, stream=terminal.stream, environment=quiet) is not None
    assert progress_bar(stream=io.StringIO(), environment=quiet) is None
    assert progress_bar(force=True, stream=io.StringIO(), environment=quiet) is None
    with (tmp_path / "log").open("w") as file:
        assert progress_bar(force=True, stream=file, environment=quiet) is None
    closed = io.StringIO()
    closed.close()
    assert progress_bar(stream=closed, environment=quiet) is None


def test_a_notebook_replaces_the_text_below_its_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[str, str]] = []

    def display(content: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw and display_id
        shown.append(("display", content["text/plain"]))
        return SimpleNamespace(update=lambda content, raw: shown.append(("update", content["text/plain"])))

    shell = type("ZMQInteractiveShell", (), {})()
    ipython, module = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: shell  # type: ignore[attr-defined]
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    bar = progress_bar(terminal_is_taken=True, stream=io.StringIO(), environment={})
    assert bar is not None
    bar._delay_seconds = 0.0
    bar.begin("upsert")
    bar.on_event(EVENT)
    bar.tick()
    bar.tick()
    bar.end("3 inserted")
    assert [kind for kind, _ in shown] == ["display", "update", "update"]
    assert re.fullmatch(r"hoodie: 3 inserted in \d+:\d\d", shown[-1][1])
    bar = ProgressBar(NotebookDisplay(display), 0.0)
    bar.begin("upsert")
    bar.on_event(EVENT)
    bar.tick()
    bar.end("")
    assert shown[-1] == ("update", "")


PROGRAM = """
import sys, time, pyarrow as pa
import hoodie.metrics.progress_bar as progress_bar
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
progress_bar.ProgressBar.__init__.__defaults__ = (0.0,)
HoodieTableMetaClient.init_table(sys.argv[1], table_name="t", record_key_fields=["id"], ordering_fields=["id"])
def slow():
    for number in range(3):
        time.sleep(0.3)
        yield pa.record_batch({"id": [str(number)]})
with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(sys.argv[1], {"hoodie.write.progress.enable": sys.argv[2]})) as c:
    c.bulk_insert(slow())
"""  # noqa: E501


def run_program(folder: Path, mode: str, stderr: int) -> None:
    environment = {key: value for key, value in os.environ.items() if key != "CI"} | {"TERM": "xterm"}
    repository = str(Path(__file__).parents[3])
    environment["PYTHONPATH"] = repository
    command = [sys.executable, "-c", PROGRAM, str(folder / "t"), mode]
    subprocess.run(command, check=True, stderr=stderr, env=environment, timeout=300)


@pytest.mark.one_in(4)
def test_a_program_on_a_terminal_shows_its_write_and_one_into_a_file_nothing(
    terminal: Terminal, tmp_path: Path
) -> None:
    run_program(tmp_path / "a", "auto", terminal.inner)
    text = terminal.seen()
    assert "hoodie bulk_insert: write files [" in text
    lines = on_screen(text, 80)
    assert len(lines) in (2, 3) and lines[0].startswith("hoodie: BULK_INSERT 2")
    run_program(tmp_path / "b", "false", terminal.inner)
    assert terminal.seen() == ""
    with (tmp_path / "log").open("wb") as log:
        run_program(tmp_path / "c", "true", log.fileno())
    assert (tmp_path / "log").read_text() == ""
