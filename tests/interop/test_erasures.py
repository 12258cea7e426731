"""A person is erased from a table of both: real Hudi reads the rest, with its archive, and goes on."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient, Table
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.stored_files import files_with
from tests.support.table_builder import TRIPS, rows

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 9), pytest.mark.with_merge_on_read]

PERSON = "zoe.schmidt"
SERVICES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.compact.max.delta.commits": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.timeline.compaction.batch.size": "3",
}
OTHERS = [("a", "north", 1, 1.0), ("b", "south", 1, 1.0)]


@pytest.mark.parametrize("row", [(PERSON, "north", 1, 1.0), ("c", PERSON, 1, 1.0)], ids=["key", "partition"])
def test_real_hudi_goes_on_after_an_erasure(hudi_1_2: HudiProcess, tmp_path: Path, row: tuple[Any, ...]) -> None:
    hudi, base_path = hudi_1_2, tmp_path / "trips"
    options = {**SIMPLE.hudi_options("trips"), **SERVICES}

    def read() -> list[tuple[Any, ...]]:
        found = [hudi.read(base_path, {"hoodie.metadata.enable": flag}) for flag in ("true", "false")]
        one, other = (sorted(tuple(each[name] for name in TRIPS.names) for each in rows.to_pylist()) for rows in found)
        assert one == other
        return one

    hudi.write(base_path, rows(*OTHERS, row), options)
    table = Table(base_path, properties=SERVICES)
    for ts in range(2, 10):
        changed = rows(("a", "north", ts, 1.0), (*row[:2], ts, float(ts)))
        if ts % 3:
            table.upsert(changed)
        else:
            hudi.write(base_path, changed, options)
    held = files_with(PERSON, base_path)
    folder = HoodieTableMetaClient.load(table.path).table_config.archive_folder
    assert any("/metadata/" in name for name in held)
    assert row[0] == PERSON or any(f".hoodie/{folder}/" in name for name in held)
    name = f"erased_{uuid.uuid4().hex}"
    hudi.sql(f"CREATE TABLE {name} USING hudi LOCATION '{base_path}'")

    def archived() -> list[str]:
        return [str(found[0]) for found in hudi.sql(f"CALL show_archived_commits(table => '{name}', limit => 100)")]

    known = archived()

    table.forget(f"{'id' if row[0] == PERSON else 'region'} = '{PERSON}'", yes=True)
    assert files_with(PERSON, base_path) == set()
    expected = [("a", "north", 9, 1.0), OTHERS[1]]
    assert read() == expected
    assert archived() == known
    for ts in range(10, 18):
        hudi.write(base_path, rows(("a", "north", ts, 1.0), ("d", "west", ts, 1.0)), options)
    assert read() == [("a", "north", 17, 1.0), OTHERS[1], ("d", "west", 17, 1.0)]
    assert table.validate().is_right
    assert files_with(PERSON, base_path) == set()
