from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.exception import HoodieConfigException
from hoodie.utilities.user_code import error_told, load_attribute, make_object


def test_a_module_of_the_working_folder_is_found_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "module_of_the_working_folder.py").write_text("VALUE = 3\n")
    (tmp_path / "json.py").write_text("raise RuntimeError\n")
    program = (
        "import sys; sys.path = [part for part in sys.path if part]; "
        "from hoodie.utilities.user_code import load_attribute; "
        "print(load_attribute('module_of_the_working_folder', 'VALUE', ''), load_attribute('json', 'dumps', '')(1))"
    )
    root = str(Path(__file__).parents[3])

    found = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env={"PYTHONPATH": root}, capture_output=True, text=True
    )

    assert found.stdout.split() == ["3", "1"], found.stderr


def test_what_cannot_be_imported_or_made_names_the_flag() -> None:
    with pytest.raises(
        HoodieConfigException, match=r"--flag = a:b cannot be imported \(ModuleNotFoundError.*; try c\."
    ):
        load_attribute("no_such_module_at_all", "b", "--flag = a:b", "; try c")
    with pytest.raises(HoodieConfigException, match="--flag = int cannot be made with str .ValueError"):
        make_object(int, "--flag = int", "x")


def test_an_error_names_the_innermost_line_of_the_user() -> None:
    with pytest.raises(pa.ArrowInvalid) as raised:
        pc.cast(pa.array(["x"]), pa.int64())
    line = raised.traceback[0].lineno + 1
    assert error_told(raised.value).endswith(f", test_user_code.py line {line}")
    assert error_told(ValueError("boo")) == "ValueError: boo"
