"""Tables of every merge mode, written in-process, hold what real Hudi 1.2.0 made of the same rows."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from tests.support.merge_mode_cases import GOLDEN, TABLES, ModeTable, Step, commits_of, outcome, steps_of
from tests.support.table_builder import local_client


def create(base_path: Path, table: ModeTable) -> HoodieTableMetaClient:
    return HoodieTableMetaClient.init_table(
        str(base_path),
        table_name=table.name,
        record_key_fields="id",
        ordering_fields=table.ordering_fields,
        payload_class=table.payload,
        properties=table.properties,
        table_version=table.version,
    )


def carry_out(base_path: Path, step: Step) -> None:
    with local_client(base_path, {}) as client:
        if step.operation == "delete":
            client.delete(step.rows)
        else:
            client.upsert(step.rows)


@pytest.fixture(scope="module")
def golden() -> pa.Table:
    return pq.read_table(GOLDEN)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_what_hudi_made_of_the_same_rows(name: str, golden: pa.Table, tmp_path: Path) -> None:
    table = TABLES[name]
    create(tmp_path / "t", table)
    expected = golden.filter(pc.equal(golden["table"], name))
    for number, step in enumerate(steps_of()):
        carry_out(tmp_path / "t", step)
        mine = outcome(hoodie.read_table(str(tmp_path / "t")), commits_of(tmp_path / "t"))
        theirs = expected.filter(pc.equal(expected["step"], number)).select(mine.column_names)
        assert mine.num_rows > 30
        assert mine.to_pylist() == theirs.to_pylist(), f"step {number}"
