"""Every merge mode beside real Hudi 1.2.0: the same rows make the same tables, alone and in turn."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieRecordMerger, HoodieTableMetaClient, MergeOutcome
from hoodie.common.config.java_properties import parse_properties
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.merge_mode_cases import TABLES, ModeTable, commits_of, create, hudi_options, outcome, steps_of
from tests.support.table_builder import local_client

pytestmark = pytest.mark.interop

SEED = 2026
"""Other rows than those of the stored results."""
SMOKE = ("event_time_marker", "partial_update_by_string")
NOT_SAID = ("hoodie.datasource.write.payload.class", "hoodie.datasource.write.precombine.field")
MERGER = "hoodie.write.record.merge.custom.implementation.classes"


class LargestNumber(HoodieRecordMerger):
    """Keeps the row with the larger number."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["no"], older["no"]))


def properties_of(base_path: Path) -> dict[str, str]:
    return parse_properties((base_path / ".hoodie/hoodie.properties").read_bytes())


def rows_of(base_path: Path) -> list[dict[str, object]]:
    return list(outcome(hoodie.read_table(str(base_path)), commits_of(base_path)).to_pylist())


def check_same_tables(table: ModeTable, hudi: HudiProcess, folder: Path) -> None:
    """One table by Hudi alone; one by hoodie, with Hudi (which is told nothing about merging) in turn."""
    alone, shared = folder / "alone", folder / "shared"
    create(shared, table)
    options = hudi_options(table)
    little = {key: value for key, value in options.items() if key not in {*NOT_SAID, *table.properties, *table.told}}
    for number, step in enumerate(steps_of(SEED)):
        hudi.write(alone, step.rows, options, operation=step.operation, standing_options=False)
        if number == 0:
            made, expected = properties_of(shared), properties_of(alone)
            if table.version == 8 and table.ordering_fields:
                del made["hoodie.table.precombine.field"]
            assert made.pop("hoodie.table.timeline.timezone") == "UTC" and expected.pop(
                "hoodie.table.timeline.timezone"
            )
            assert made == expected
        if number in (1, 4):
            hudi.write(shared, step.rows, little, operation=step.operation, standing_options=False)
        else:
            with local_client(shared, {}) as client:
                (client.delete if step.operation == "delete" else client.upsert)(step.rows)
        theirs = outcome(hudi.read(alone), commits_of(alone)).to_pylist()
        assert len(theirs) > 30
        assert rows_of(shared) == theirs, f"step {number}"
        assert outcome(hudi.read(shared), commits_of(shared)).to_pylist() == theirs


@pytest.mark.interop_smoke
@pytest.mark.parametrize("name", SMOKE)
def test_rows_merge_as_in_hudi_for_a_start(name: str, hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    check_same_tables(TABLES[name], hudi_1_2, tmp_path)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in SMOKE])
def test_rows_merge_as_in_hudi(name: str, hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    check_same_tables(TABLES[name], hudi_1_2, tmp_path)


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
