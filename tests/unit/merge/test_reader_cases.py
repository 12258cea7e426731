"""Every case of who wins in log files, as hoodie, hudi-rs and real Hudi read it: see `tests.support.reader_cases`."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pytest

from hoodie.merge.reader_agreement import differences_between_readers
from tests.support.reader_cases import (
    HOODIE,
    HUDI_RS,
    PAGE,
    READERS,
    TABLES,
    by_hoodie,
    by_hudi_rs,
    compact,
    disagreements,
    golden,
    make_table,
    page_rows,
    properties_of,
)

AS_DOCUMENTED = {"6 Default"}
"""Readers disagree about late rows marked as deleted, which is no matter of the table alone."""
NOT_WRITTEN_BY_HOODIE = {"6 no payload class", *(name for name in TABLES if "null" in name)}
"""`init_table` makes no such table, and writes refuse such rows."""


@pytest.mark.parametrize("name", TABLES)
def test_hoodie_and_hudi_rs_find_what_they_found_beside_real_hudi(name: str, tmp_path: Path) -> None:
    table, expected = TABLES[name], golden()[name]
    make_table(tmp_path / "t", table)
    assert by_hoodie(tmp_path / "t", table) == expected[HOODIE]
    by_keys = {"hoodie.merge.use.record.positions": "false"}
    assert by_hoodie(tmp_path / "t", table, options=by_keys) == expected[HOODIE]
    assert by_hudi_rs(tmp_path / "t", table) == expected[HUDI_RS]
    shutil.copytree(tmp_path / "t", tmp_path / "compacted")
    if "fails" not in expected[HOODIE].values() and name not in NOT_WRITTEN_BY_HOODIE:
        compact(tmp_path / "compacted", table)
        assert by_hoodie(tmp_path / "compacted", table, query_type="read_optimized") == expected[HOODIE]


@pytest.mark.parametrize("name", TABLES)
def test_hoodie_finds_what_the_newest_release_finds_where_that_reads(name: str) -> None:
    """But for a class whose rules are those of 0.15, and null ordering values of base rows."""
    found = golden()[name]
    newest = found[READERS[TABLES[name].version][-1]]
    differ = {case for case, left in newest.items() if left not in ("fails", found[HOODIE][case])}
    assert differ == ({"b100 d50"} if name == "6 EventTime" else set())


@pytest.mark.parametrize("name", [name for name in TABLES if name not in NOT_WRITTEN_BY_HOODIE])
def test_a_table_that_readers_disagree_about_is_made_with_a_warning(name: str, tmp_path: Path) -> None:
    make_table(tmp_path / "t", attrs.evolve(TABLES[name], cases=("b100",)))
    written = [other for other in TABLES if other not in NOT_WRITTEN_BY_HOODIE]
    differ = any(disagreements(other) for other in written if other.partition(",")[0] == name.partition(",")[0])
    assert bool(differences_between_readers(properties_of(tmp_path / "t"))) == (differ and name not in AS_DOCUMENTED)


def test_the_page_lists_every_case_that_readers_disagree_about() -> None:
    expected = page_rows()
    assert len(expected) > 30
    found = [line for line in PAGE.read_text().splitlines() if line.startswith("| 6 ") or line[:4] in ("| 8 ", "| 9 ")]
    assert found == expected
