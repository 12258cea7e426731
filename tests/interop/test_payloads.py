"""Every payload class beside real Hudi 0.15.0: the same rows make the same tables, alone and in turn."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieRecordMerger, HoodieTableMetaClient, HoodieWriteConfig, MergeOutcome
from hoodie.exception import HoodieWriteException
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.support.payload_cases import SCHEMA, TABLES, PayloadTable, commits_of, hudi_options, outcome, steps_of

pytestmark = [pytest.mark.interop, pytest.mark.table_version(6)]

SEED = 2026
"""Other rows than those of the stored results."""
MERGER = "hoodie.write.record.merge.custom.implementation.classes"


class LargestNumber(HoodieRecordMerger):
    """Keeps the row with the larger number."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["no"], older["no"]))


def create(base_path: Path, table: PayloadTable) -> None:
    HoodieTableMetaClient.init_table(
        str(base_path),
        table_name=table.name,
        record_key_fields="id",
        ordering_fields=table.ordering_field,
        properties={"hoodie.compaction.payload.class": table.payload, **table.properties},
    )


def by_hoodie(base_path: Path, rows: pa.Table) -> None:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path))) as client:
        client.upsert(rows)


def options_that_say_nothing_about_merging(table: PayloadTable) -> dict[str, str]:
    left_out = {"hoodie.datasource.write.payload.class", *table.properties}
    return {key: value for key, value in hudi_options(table).items() if key not in left_out}


def rows_of(base_path: Path) -> list[dict[str, object]]:
    return list(outcome(hoodie.read_table(str(base_path)), commits_of(base_path)).to_pylist())


def check_same_tables(table: PayloadTable, hudi: HudiProcess, folder: Path) -> None:
    """One table by Hudi alone; one by hoodie, then Hudi (which is told nothing about merging), then hoodie."""
    alone, shared = folder / "alone", folder / "shared"
    create(shared, table)
    for step, rows in enumerate(steps_of(table, SEED)):
        hudi.write(alone, rows, hudi_options(table))
        if step == 1:
            hudi.write(shared, rows, options_that_say_nothing_about_merging(table))
        else:
            by_hoodie(shared, rows)
        expected = outcome(hudi.read(alone), commits_of(alone)).to_pylist()
        assert len(expected) > 50
        assert rows_of(shared) == expected, f"step {step}"


@pytest.mark.interop_smoke
@pytest.mark.parametrize("name", ["partial_update", "default_marker"])
def test_rows_merge_as_in_hudi_for_a_start(name: str, hudi_0_15: HudiProcess, tmp_path: Path) -> None:
    check_same_tables(TABLES[name], hudi_0_15, tmp_path)


@pytest.mark.parametrize("name", [name for name in TABLES if name not in ("partial_update", "default_marker")])
def test_rows_merge_as_in_hudi(name: str, hudi_0_15: HudiProcess, tmp_path: Path) -> None:
    check_same_tables(TABLES[name], hudi_0_15, tmp_path)


@pytest.mark.parametrize("name", ["overwrite", "first_value", "partial_update", "mysql"])
def test_hudi_fails_for_a_null_in_the_ordering_field_and_hoodie_refuses_it(
    name: str, hudi_0_15: HudiProcess, tmp_path: Path
) -> None:
    table = TABLES[name]
    rows = pa.Table.from_pylist([{"id": "k", "Op": "U", "_event_seq": "1.1", "ord": None}], SCHEMA)
    with pytest.raises(HudiError, match="Ordering value is null"):
        hudi_0_15.write(tmp_path / "by_hudi", rows, hudi_options(table))
    create(tmp_path / "by_hoodie", table)
    with pytest.raises(HoodieWriteException, match="null in the ordering field 'ord'"):
        by_hoodie(tmp_path / "by_hoodie", rows)


def test_hudi_reads_a_table_of_a_python_merger_and_fails_to_upsert_into_it(hudi: HudiProcess, tmp_path: Path) -> None:
    """It must not merge by other rules, silently."""
    base_path = tmp_path / "merged"
    rows = pa.Table.from_pylist([{"id": "a", "no": 5, "ord": 1}, {"id": "b", "no": 5, "ord": 1}], SCHEMA)
    properties = {MERGER: LargestNumber}
    hoodie.write_table(rows, str(base_path), record_key_fields="id", ordering_fields="ord", properties=properties)
    changes = pa.Table.from_pylist([{"id": "a", "no": 4, "ord": 2}, {"id": "b", "no": 6, "ord": 0}], SCHEMA)
    hoodie.write_table(changes, str(base_path), properties=properties)
    stored = {row["id"]: row["no"] for row in hudi.read(base_path).to_pylist()}
    assert stored == {"a": 5, "b": 6}
    options = options_that_say_nothing_about_merging(PayloadTable("merged", ""))
    with pytest.raises(HudiError, match="python:"):
        hudi.write(base_path, changes, options)
    assert {row["id"]: row["no"] for row in hudi.read(base_path).to_pylist()} == stored
