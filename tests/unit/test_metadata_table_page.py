"""The programs of the page about the metadata table run as they are printed, one after the other."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient
from tests.support.page_programs import read_page
from tests.support.table_builder import init_table, local_client, read_rows, rows

pytestmark = pytest.mark.table_version(9)

PROGRAMS = re.findall(r"^```python\n(.*?)^```", read_page("metadata-table.md"), re.DOTALL | re.MULTILINE)
INDEXED = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
"""The page looks into partitions that its own table does not have by default."""
FILE_OF_THE_PAGE = "7d4c-0_0-1-2_20260102101530123.parquet"


def test_the_programs_of_the_page_do_what_they_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base_path = str(tmp_path / "trips")
    make, beside, secondary, secondary_beside, validate, _, describe, ask = PROGRAMS
    names: dict[str, Any] = {}

    def run(program: str) -> str:
        text = program.replace("/data/trips", base_path).replace(FILE_OF_THE_PAGE, file_name)
        exec(compile(text, "docs/metadata-table.md", "exec"), names)
        return capsys.readouterr().out

    def partitions() -> set[str]:
        return set(HoodieTableMetaClient.load(base_path).table_config.metadata_partitions)

    file_name = FILE_OF_THE_PAGE
    run(make)
    assert partitions() == {"files"}
    (file_name,) = (path.name for path in Path(base_path, "sf").glob("*.parquet"))
    run(beside)
    assert partitions() == {"files", "column_stats", "record_index"}
    hoodie.write_table(names["trips"], base_path, properties=INDEXED)
    (file_name,) = {
        row.file_name for row in HoodieTableMetaClient.load(base_path).files() if row.partition_path == "sf"
    }
    run(secondary)
    assert partitions() == {"files", "column_stats", "partition_stats", "bloom_filters", "record_index"}
    run(secondary_beside)
    assert "secondary_index_idx_rider" in partitions()
    run(secondary)
    run(secondary.replace('    client.drop_index("idx_rider")\n', ""))
    assert run(validate).startswith(f"0 differences in the metadata table of {base_path}")
    told = run(describe)
    assert all(word in told for word in ("secondary_index_idx_rider", file_name, "sf", "'a'")), told
    run(ask)
    metadata = names["metadata"]
    assert file_name in {file.name for file in metadata.list_files("sf")}
    assert metadata.read_secondary_index("idx_rider", ["rider-A"])["record_key"].to_pylist() == ["a"]


def test_what_commits_wrote_is_written_again(tmp_path: Path) -> None:
    (program,) = (program for program in PROGRAMS if "as_of=time" in program)
    base_path = init_table(tmp_path / "trips", ordering_fields=None)
    with local_client(base_path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
        named = [client.upsert(rows(("a", "x", ts), (f"c{ts}", "x", ts))).instant_time for ts in (2, 3)]
        # As if a writer had built on the first commit.
        client.delete([HoodieKey("c3", "x")])
        client.upsert(rows(("a", "x", 1), ("c2", "x", 1)))
        assert read_rows(base_path) == [("a", "x", 1), ("b", "y", 1), ("c2", "x", 1)]
        text = re.sub(r"\[\"2.*?\]", repr(named), program).replace("/data/trips", base_path)
        exec(compile(text, "docs/metadata-table.md", "exec"), {"hoodie": hoodie, "client": client})
    assert read_rows(base_path) == [("a", "x", 3), ("b", "y", 1), ("c2", "x", 2), ("c3", "x", 3)]
