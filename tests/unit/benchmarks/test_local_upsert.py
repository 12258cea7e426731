"""Tables, timings and peaks of `benchmarks.local_upsert`."""

from __future__ import annotations

from pathlib import Path

import pytest

import hoodie
from benchmarks import local_upsert
from benchmarks.goals import goal_lines
from benchmarks.local_upsert import (
    MEASURED,
    MERGE_ON_READ,
    NO_METADATA,
    HoodieWriter,
    client,
    goals_of,
    index_properties,
    peaks_of,
    time_kind,
)
from benchmarks.measure import Timing, trip_updates, trips
from hoodie import HoodieTableMetaClient

TABLE = trips(40)
DATA = {
    "table": TABLE,
    "upsert": trip_updates(TABLE, 4, 4),
    "upsert of all rows": trip_updates(TABLE, 40, 0),
    "upsert of one row": trip_updates(TABLE, 1, 0),
}


def test_names_of_indexes_are_options() -> None:
    assert index_properties("SIMPLE without metadata table") == {
        "hoodie.index.type": "SIMPLE", "hoodie.metadata.enable": "false",
    }  # fmt: skip
    assert index_properties("RECORD_INDEX and statistics") == {
        "hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.index.column.stats.enable": "true",
    }  # fmt: skip


def test_a_writer_compacts_its_log_files(tmp_path: Path) -> None:
    path, writer = str(tmp_path / "t"), HoodieWriter("SIMPLE", "MERGE_ON_READ")
    writer.create(path, TABLE)
    writer.upsert(path, DATA["upsert of one row"])
    writer.compact(path)
    assert [instant.action for instant in HoodieTableMetaClient.load(path).active_timeline][-1] == "commit"
    with pytest.raises(ValueError, match="compacted nothing"):
        writer.compact(path)
    assert hoodie.read_table(path).num_rows == 40


@pytest.mark.parametrize(
    ("kind", "writer", "works"),
    [
        (
            MERGE_ON_READ,
            HoodieWriter("SIMPLE", "MERGE_ON_READ"),
            ["create", "upsert", "upsert of one row", "compaction"],
        ),
        (NO_METADATA, HoodieWriter("SIMPLE without metadata table"), ["create", "upsert", "upsert of one row"]),
    ],
)
def test_each_write_of_a_kind_of_tables_is_timed(
    tmp_path: Path, kind: str, writer: HoodieWriter, works: list[str]
) -> None:
    shown: list[Timing] = []
    time_kind(str(tmp_path), DATA, [writer], kind, 2, lambda timing, other: shown.append(timing))
    assert [timing.name for timing in shown] == [f"hoodie {kind} {work} ({writer.index})" for work in works]
    assert {len(timing.seconds) for timing in shown} == {2}
    assert list(tmp_path.iterdir()) == []


def test_writes_of_other_tables_have_goals_beside_hudi_rs() -> None:
    ours = [Timing(goal.name, [1.0]) for goal in goals_of(40)]
    theirs = [Timing(goal.beside, [2.0]) for goal in goals_of(40) if goal.beside]
    lines = list(goal_lines(goals_of(40), [*theirs, *ours]))
    assert len(lines) == len(goals_of(40))
    assert any("merge-on-read compaction" in line and line.endswith("goal 3: missed") for line in lines)


def test_peaks_are_those_of_processes_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_upsert, "MEASURED", [*MEASURED[:2], MEASURED[-1]])
    found = peaks_of(str(tmp_path), DATA, with_hudi_rs=False, runs=1)
    assert list(found) == [
        "pyarrow create (floor)", "pyarrow upsert (floor)", "hoodie create (SIMPLE)", "hoodie upsert (SIMPLE)",
    ]  # fmt: skip
    for figures in found.values():
        assert 0 < figures["above"] < figures["whole"]
    assert found["hoodie create (SIMPLE)"]["above"] > found["pyarrow create (floor)"]["above"]


def test_the_metadata_table_is_left_out_by_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieWriter("SIMPLE without metadata table").create(path, TABLE)
    assert not (tmp_path / "t" / ".hoodie" / "metadata").exists()
    with client(path) as writer:
        assert writer.upsert(DATA["upsert"]).inserted_count == 4
