"""The first read of a process imports neither pandas nor pyarrow's datasets nor what it does not need of hoodie."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.table_builder import init_table, local_client, rows_of_keys

PROGRAM = """
import json, sys
import hoodie
found = hoodie.read_table(sys.argv[1], filters={filters})
assert found.num_rows == {count}, found.num_rows
print(json.dumps([name for name in sys.modules if name == "pandas" or name.startswith(("pyarrow.", "hoodie."))]))
"""
READ_CLIENT = """
import json, sys
import hoodie
found = hoodie.HoodieReadClient(sys.argv[1]).read([hoodie.HoodieKey("b", "x")])
assert found["id"].to_pylist() == ["b"], found
print(json.dumps([*sys.modules]))
"""
FILTERS = [(None, 3), ([("id", "=", "b")], 1), ([("_hoodie_record_key", "=", "c")], 1), ([("ts", "<", 9)], 3)]
BRANCHES = (
    "avro.service_metadata",
    "cli",
    "client",
    "common.table.marker.directory_write_markers",
    "common.table.timeline.archived_timeline",
    "common.table.timeline.lsm_timeline",
    "config.write_config",
    "engine",
    "execution",
    "index",
    "io.hfile.hfile_writer",
    "io.log.data_block",
    "io.log.delete_block",
    "io.log_row_store",
    "io.merge_source",
    "io.merging_reader",
    "io.parquet.parquet_writer",
    "io.parquet.splicing",
    "keygen.base_key_generator",
    "merge.merge_spec",
    "merge.record_merger",
    "metadata.metadata_table",
    "metadata.reader.index_definitions",
    "metadata.records.metadata_entries",
    "metadata.writer",
    "query.change_plan",
    "query.commit_range",
    "query.filter_text",
    "spark",
    "sync",
    "table.action",
    "transaction",
)
"""Modules and packages that a read of base files does not need."""
MOST_MODULES = {"COPY_ON_WRITE": 174, "MERGE_ON_READ": 202}
"""More modules of hoodie than this show that a read imports a further branch. Each takes 0.5 to 1 ms."""

has_pandas = pytest.mark.skipif(find_spec("pandas") is None, reason="pandas is not installed, so nothing imports it")


def modules_of_a_first_read(path: str, filters: object, count: int) -> list[str]:
    """The modules that a new process has imported after a read."""
    return modules_after(PROGRAM.format(filters=filters, count=count), path)


def modules_after(program: str, path: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", program, path], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def table_with_log_files(folder: Path) -> str:
    path = init_table(folder, table_type="MERGE_ON_READ")
    with local_client(path) as client:
        client.upsert(rows_of_keys("abcd", region="x"))
        client.upsert(rows_of_keys("b", region="x"))
        client.delete(rows_of_keys("d", region="x").select(["id", "region"]))
    return path


@has_pandas
@pytest.mark.table_version(9)
@pytest.mark.metadata_table
@pytest.mark.parametrize(("filters", "count"), FILTERS)
def test_the_first_read_of_a_process_imports_no_pandas(tmp_path: Path, filters: object, count: int) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows_of_keys("abc", region="x"))
    assert not {"pandas", "pyarrow.dataset"}.intersection(modules_of_a_first_read(path, filters, count))


@has_pandas
@pytest.mark.table_version(9)
@pytest.mark.metadata_table
@pytest.mark.parametrize(("filters", "count"), FILTERS)
def test_the_first_read_of_log_files_imports_no_pandas(tmp_path: Path, filters: object, count: int) -> None:
    path = table_with_log_files(tmp_path / "t")
    assert not {"pandas", "pyarrow.dataset"}.intersection(modules_of_a_first_read(path, filters, count))


@pytest.mark.table_version(9)
@pytest.mark.metadata_table
def test_a_read_of_base_files_imports_nothing_of_writes_and_merges(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows_of_keys("abc", region="x"))
    imported = modules_of_a_first_read(path, FILTERS[1][0], 1)
    found = [name.removeprefix("hoodie.") for name in imported if name.startswith("hoodie.")]
    unneeded = [name for name in found if any(name == branch or name.startswith(f"{branch}.") for branch in BRANCHES)]
    assert not unneeded
    assert len(found) <= MOST_MODULES["COPY_ON_WRITE"]


@pytest.mark.table_version(9)
@pytest.mark.metadata_table
def test_a_read_of_log_files_imports_nothing_of_writes(tmp_path: Path) -> None:
    found = modules_of_a_first_read(table_with_log_files(tmp_path / "t"), None, 3)
    packages = ("client", "index", "io.parquet.splicing", "keygen.base", "metadata.writer", "table.action")
    modules = ("io.merge_source", "io.parquet.parquet_writer", "query.change_plan", "query.commit_range")
    unneeded = tuple(f"hoodie.{name}" for name in (*packages, *modules))
    assert not [name for name in found if name.startswith(unneeded)]
    assert sum(name.startswith("hoodie.") for name in found) <= MOST_MODULES["MERGE_ON_READ"]


@has_pandas
@pytest.mark.table_version(9)
@pytest.mark.metadata_table
def test_the_first_call_of_a_read_client_imports_neither_pandas_nor_writes(tmp_path: Path) -> None:
    found = modules_after(READ_CLIENT, table_with_log_files(tmp_path / "t"))
    unneeded = ("pandas", "pyarrow.dataset", "hoodie.client.write_input", "hoodie.table.action.commit.base_commit")
    assert not [name for name in found if name.startswith(unneeded)]
