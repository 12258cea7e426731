"""The inputs of `benchmarks.spark_upsert`, its check of tables, and its comparisons."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from benchmarks.local_upsert import HoodieWriter, make_table
from benchmarks.measure import Timing, trips
from benchmarks.spark_upsert import BESIDE, ENGINES, beside, check_table, children, make_data
from hoodie import HoodieTableMetaClient


def test_inputs_have_the_rows_that_their_names_say(tmp_path: Path) -> None:
    make_data(tmp_path, 100, [0.2, 1.0], ["upsert", "insert", "delete"])
    stored = pq.read_table(tmp_path / "base")["uuid"]

    def rows_and_stored(name: str) -> tuple[int, int]:
        keys = pq.read_table(tmp_path / name)["uuid"]
        return len(keys), pc.sum(pc.is_in(keys, value_set=stored.combine_chunks())).as_py()

    assert rows_and_stored("upsert 0.2") == (20, 10)
    assert rows_and_stored("upsert 1") == (100, 100)
    assert rows_and_stored("insert 0.2") == (20, 0)
    assert rows_and_stored("delete 0.2") == (20, 20)


def test_a_table_of_users_defaults_passes_the_check(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    HoodieWriter().create(path, trips(10))
    check_table(path)


def test_tables_of_other_versions_and_without_a_metadata_table_stop_the_program(tmp_path: Path) -> None:
    other, bare = str(tmp_path / "6"), str(tmp_path / "bare")
    HoodieTableMetaClient.init_table(other, table_name="t", record_key_fields=["uuid"], table_version=6)
    with pytest.raises(SystemExit, match="is not of version 9"):
        check_table(other)
    HoodieWriter("SIMPLE without metadata table").create(bare, trips(10))
    assert hoodie.read_table(bare).num_rows == 10
    with pytest.raises(SystemExit, match="has no metadata table"):
        check_table(bare)
    with pytest.raises(SystemExit, match="has no metadata table"):
        check_table(make_table(str(tmp_path / "empty")))


def test_each_engine_is_compared_with_its_peer() -> None:
    assert {name: BESIDE.get(name) for name in ENGINES} == {
        "parquet": None, "hoodie": "hudi", "connect": "hoodie", "hudi": None,
    }  # fmt: skip
    ours = Timing("hoodie upsert (SIMPLE)", [2.0], cpu=[4.0])
    hudi, connect = Timing("hudi upsert (SIMPLE)", [10.0], cpu=[12.0]), Timing("connect upsert", [3.0], cpu=[5.0])
    assert beside(ours, hudi).strip() == "5.00 times faster than hudi, 3.00 times less CPU"
    assert beside(connect, ours).strip() == "1.50 times the seconds of hoodie, 1.25 times its CPU"


def test_each_index_and_engine_has_a_process_of_its_own_with_fractions() -> None:
    given = Namespace(engines="parquet,hoodie,connect", index="SIMPLE,BUCKET", fractions="0.1", first=False, runs=3)
    assert [(name, index) for name, index, _ in children(given, ["SIMPLE", "BUCKET"])] == [
        ("hoodie", "SIMPLE"), ("connect", "SIMPLE"), ("hoodie", "BUCKET"), ("connect", "BUCKET"),
    ]  # fmt: skip
