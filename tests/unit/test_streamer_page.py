"""The page of the streamer: its commands and programs, run one after the other in a folder of their own."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import hoodie
from hoodie.cli.main import command
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.streamer.arguments import parse_arguments
from hoodie.utilities.streamer.run_options import unknown_properties
from hoodie.utilities.streamer.streamer_config import FLAGS
from tests.support.page_programs import read_page

PAGE = "streamer.md"
TEXT = read_page(PAGE)
BLOCKS = re.findall(r"^```(sh|python|properties)\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
NEEDS_KAFKA = ("kafka://", "bootstrap.servers=")


def run_commands(block: str, folder: Path) -> None:
    """Run the lines of a block: ``hoodie`` in this process, others in a shell."""
    for line in block.replace("\\\n", " ").splitlines():
        line = line.replace("/tmp/", f"{folder}/")
        if line.startswith("hoodie "):
            result = CliRunner().invoke(command, shlex.split(line)[1:])
            assert result.exit_code == 0, f"{line}\n{result.output}"
        elif line.strip():
            subprocess.run(["sh", "-c", line], check=True)


def test_the_commands_and_programs_of_the_page_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = 0
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for kind, block in BLOCKS:
        if any(word in block for word in NEEDS_KAFKA) or kind == "properties":
            continue
        ran += 1
        if kind == "sh":
            run_commands(block, tmp_path)
            continue
        program = block.replace("/tmp/", f"{tmp_path}/")
        if name := re.match(r"# (\w+)\.py\n", program):
            (tmp_path / f"{name[1]}.py").write_text(program)
            continue
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(program, PAGE, "exec"), names)
    assert ran >= 20
    assert hoodie.read_table(str(tmp_path / "shop/sales")).num_rows == 1
    assert "no JSON" in capsys.readouterr().out


def test_properties_of_the_page_are_ones() -> None:
    words = ["/t"]
    for kind, block in BLOCKS:
        if kind == "properties":
            words += [word for line in block.split() for word in ("--hoodie-conf", line)]
    config = parse_arguments(words)
    assert unknown_properties(StreamerProperties(config.hoodie_conf)) == []


def test_flags_and_properties_of_the_page_exist() -> None:
    known = {name for flag in FLAGS for name in flag.names}
    # Of the command for several tables, and of spark-submit.
    known |= {"--config-folder", "--base-path-prefix", "--parallelism"}
    named = set(re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", TEXT))
    assert named <= known
