"""Every merge mode beside real Hudi 1.2.0: the same rows make the same tables, by Hudi alone and in turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieRecordMerger, HoodieTableMetaClient, MergeOutcome
from hoodie.common.config.java_properties import parse_properties
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.merge_mode_cases import (
    GOLDEN,
    TABLES,
    ModeTable,
    by_hudi,
    commits_of,
    create,
    hudi_options,
    outcome,
    steps_of,
)
from tests.support.table_builder import local_client

pytestmark = pytest.mark.interop

SMOKE = ("event_time_marker", "partial_update_by_string")
FAILS_IN_TURN = "partial_update_8"
"""With this payload class, Hudi 1.2.0 fails for some flagged rows ("No value present in Option")."""
LEFT_AS_IT_IS = ("postgres", 4, "raw")
"""Behind a delete of its key, Hudi shows what stands for an unavailable value in a column of bytes; hoodie takes
the value of the base file."""
NOT_SAID = ("hoodie.datasource.write.payload.class", "hoodie.datasource.write.precombine.field")
MERGER = "hoodie.write.record.merge.custom.implementation.classes"


class LargestNumber(HoodieRecordMerger):
    """Keeps the row with the larger number."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["no"], older["no"]))


def properties_of(base_path: Path) -> dict[str, str]:
    return parse_properties((base_path / ".hoodie/hoodie.properties").read_bytes())


def check_table_in_turn(table: ModeTable, hudi: HudiProcess, base_path: Path, results: Sequence[pa.Table]) -> None:
    """Write by hoodie, and with Hudi (which is told nothing about merging) in turn: each step gives its result."""
    create(base_path, table)
    said = {*NOT_SAID, *table.properties, *table.told}
    options = {key: value for key, value in hudi_options(table).items() if key not in said}
    for number, (step, expected) in enumerate(zip(steps_of(), results, strict=True)):
        if number in (1, 4):
            hudi.write(base_path, step.rows, options, operation=step.operation, standing_options=False)
        else:
            with local_client(base_path, {}) as client:
                (client.delete if step.operation == "delete" else client.upsert)(step.rows)
        assert expected.num_rows > 30
        found = outcome(hoodie.read_table(str(base_path)), commits_of(base_path))
        assert found.to_pylist() == expected.select(found.column_names).to_pylist(), f"step {number}"
    read = outcome(hudi.read(base_path), commits_of(base_path))
    assert read.to_pylist() == found.to_pylist()


@pytest.mark.interop_smoke
@pytest.mark.parametrize("name", SMOKE)
def test_rows_merge_as_in_hudi_for_a_start(name: str, hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    """Hudi makes the table alone, too: its properties, and its rows."""
    table, alone, shared = TABLES[name], tmp_path / "alone", tmp_path / "shared"
    results = by_hudi(table, hudi_1_2, alone)
    check_table_in_turn(table, hudi_1_2, shared, in_steps(results))
    made, expected = properties_of(shared), properties_of(alone)
    assert made.pop("hoodie.table.timeline.timezone") == "UTC" and expected.pop("hoodie.table.timeline.timezone")
    assert made == expected


@pytest.mark.parametrize("name", [name for name in TABLES if name not in (*SMOKE, FAILS_IN_TURN)])
def test_rows_merge_as_in_hudi(name: str, hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    golden = pq.read_table(GOLDEN)
    check_table_in_turn(
        TABLES[name], hudi_1_2, tmp_path / "t", in_steps(golden.filter(pc.equal(golden["table"], name)))
    )


@pytest.mark.parametrize("name", TABLES)
def test_log_files_merge_as_in_hudi(name: str, hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    """The rows of a merge-on-read table of hoodie, and those that hoodie reads from one of Hudi."""
    table, alone, mine = attrs.evolve(TABLES[name], table_type="MERGE_ON_READ"), tmp_path / "alone", tmp_path / "mine"
    results = in_steps(by_hudi(table, hudi_1_2, alone))
    create(mine, table)
    columns: list[str] = []
    for number, (step, expected) in enumerate(zip(steps_of(), results, strict=True)):
        with local_client(mine, {}) as client:
            (client.delete if step.operation == "delete" else client.upsert)(step.rows)
        found = outcome(hoodie.read_table(str(mine)), commits_of(mine))
        columns = [column for column in found.column_names if (name, number, column) != LEFT_AS_IT_IS]
        assert found.select(columns).to_pylist() == expected.select(columns).to_pylist(), f"step {number}"
    read = outcome(hoodie.read_table(str(alone)), commits_of(alone))
    assert read.select(columns).to_pylist() == results[-1].select(columns).to_pylist()


def in_steps(results: pa.Table) -> list[pa.Table]:
    """The results of all steps, apart."""
    return [results.filter(pc.equal(results["step"], number)) for number in range(len(steps_of()))]


@pytest.mark.parametrize("version", [8, 9])
def test_hudi_fails_to_upsert_into_a_table_of_a_python_merger(
    version: int, hudi_1_2: HudiProcess, tmp_path: Path
) -> None:
    """It must not merge by other rules, silently."""
    base_path = tmp_path / "merged"
    HoodieTableMetaClient.init_table(
        str(base_path), table_name="merged", record_key_fields="id", payload_class=LargestNumber, table_version=version
    )
    rows = pa.table({"id": ["a", "b"], "no": [5, 5]})
    hoodie.write_table(rows, str(base_path), properties={MERGER: LargestNumber})
    changes = pa.table({"id": ["a", "b"], "no": [4, 6]})
    hoodie.write_table(changes, str(base_path), properties={MERGER: LargestNumber})
    assert {row["id"]: row["no"] for row in hudi_1_2.read(base_path).to_pylist()} == {"a": 5, "b": 6}
    options = {
        key: value for key, value in hudi_options(ModeTable("merged", None, "", version=version)).items()
        if key not in NOT_SAID
    }  # fmt: skip
    with pytest.raises(HudiError, match="python:"):
        hudi_1_2.write(base_path, changes, options, standing_options=False)
    assert {row["id"]: row["no"] for row in hudi_1_2.read(base_path).to_pylist()} == {"a": 5, "b": 6}
