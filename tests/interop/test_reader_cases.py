"""What `tests.support.reader_cases` says of real Hudi: which row it finds in each case of who wins in log files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.hudi_process import HudiProcess
from tests.interop.make_reader_agreement import by_hudi
from tests.support.reader_cases import READERS, TABLES, golden, make_table

pytestmark = pytest.mark.interop

SMOKE = ("6 Default", "9 event time, by positions")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.interop_smoke) if name in SMOKE else name for name in TABLES]
)
def test_real_hudi_finds_what_it_found(name: str, processes: Callable[[str], HudiProcess], tmp_path: Path) -> None:
    table = TABLES[name]
    make_table(tmp_path / "t", table)
    for release in READERS[table.version]:
        assert by_hudi(processes(release), tmp_path / "t", table) == golden()[name][release], release
