"""The page of pictures: its programs run, and it names every picture."""

from __future__ import annotations

import re
import shlex
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from click.testing import CliRunner

from hoodie.cli.main import command
from hoodie.stats.table_numbers import PICTURES
from tests.support.page_programs import programs_of, read_page

PAGE = read_page("pictures.md")
pytestmark = pytest.mark.table_version(9)


def test_the_programs_of_the_page_do_what_they_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (program,) = programs_of("pictures.md", ["python"])
    exec(compile(program.replace("/tmp/", f"{tmp_path}/"), "docs/pictures.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "rows_inserted" in printed
    assert f"{tmp_path}/trips.html: " in printed
    calls = re.search(r"^<!-- run -->\n```sh\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[1]  # type: ignore[index]
    for call in calls.splitlines():
        done = CliRunner().invoke(command, shlex.split(call)[1:])
        assert done.exit_code == 0, (call, done.output)
    for name in ("growth.svg", "trips.html"):
        assert (tmp_path / name).stat().st_size > 4000


def test_the_page_names_every_picture() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", PAGE, re.MULTILINE)
    assert rows == list(PICTURES)


def test_the_picture_of_the_page_is_one_of_ours() -> None:
    drawn = Path(__file__).parents[2] / "docs" / "pictures" / "growth.svg"
    assert ET.parse(drawn).getroot().get("aria-labelledby") == "hp-growth-title hp-growth-desc"
