"""Merge-on-read tables of real Hudi, slice by slice: the rows that Hudi 1.2.0 and hudi-rs read."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

from hoodie import HoodieTableMetaClient
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.exception import HoodieIOException
from hoodie.io.file_group_reader import HoodieFileGroupReader, count_rows, scan_file_groups
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.query.read_plan import all_columns
from hoodie.storage.storage import HoodieStorage
from tests.support.hookable_storage import Call, storage_with
from tests.unit.test_merge_on_read_tables import is_merge_on_read
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order

NOT_READ_BY_HUDI_RS = {"v9_two_ordering", "hudi-v9-table-mor", "hudi_comprehensive_types_v6_mor"}
"""Several ordering fields; a metadata table that it fails on; a map of structs in a base file and in a log file."""
HIDDEN_FROM_HUDI = {"trap_base", "trap_base_after"}
"""A base file of a failed write hides later log files from Hudi 1.2.0, but not from hudi-rs."""
CASES = 260


@pytest.fixture(scope="module")
def tables(later_tables: Path, shared_tables: Path) -> list[Path]:
    """All merge-on-read tables that were written to."""
    folders = [*folders_of_tables(later_tables), *folders_of_tables(shared_tables)]
    return [folder for folder in folders if is_merge_on_read(folder) and "v9_pay_FirstValue" not in folder.name]


def readers_of(
    folder: Path, config: HoodieLogMergeConfig | None = None, storage: HoodieStorage | None = None
) -> list[HoodieFileGroupReader]:
    snapshot = TableSnapshot.load(str(folder))
    schema = all_columns(snapshot.load_schema())
    merging = LogMerging.of_table(snapshot, schema, config)
    view = snapshot.view()
    view.load_partitions(view.list_partitions())
    context = HoodieReaderContext(storage or snapshot.storage, schema, log_merging=merging)
    return [
        HoodieFileGroupReader(context, file_slice)
        for partition in view.list_partitions()
        for file_slice in view.latest_file_slices(partition)
    ]


def rows_of(batches: Iterable[pa.RecordBatch]) -> list[str]:
    """The rows; without Hudi's columns where a table stores no keys."""
    rows = [r for batch in batches for r in batch.to_pylist()]
    dropped = META_COLUMNS if any(r.get(RECORD_KEY_META) is None for r in rows) else ()
    return in_order([{name: value for name, value in r.items() if name not in dropped} for r in rows])


@pytest.mark.one_in(4)
def test_the_slices_of_each_table_hold_the_rows_that_real_readers_find(tables: list[Path], later_tables: Path) -> None:
    by_hudi = by_rs = with_logs = 0
    for folder in tables:
        readers = readers_of(folder)
        with_logs += any(reader.has_log_files for reader in readers)
        found = rows_of(scan_file_groups(readers))
        assert rows_of(b for reader in readers for b in reader.iter_batches(7)) == found, folder.name
        assert count_rows(readers) == len(found), folder.name
        in_files = readers_of(folder, HoodieLogMergeConfig(merge_max_size=0, use_record_positions=False))
        assert rows_of(scan_file_groups(in_files)) == found, folder.name
        expected = later_tables / "rows" / f"{folder.name}.parquet"
        if expected.exists() and folder.name not in HIDDEN_FROM_HUDI:
            assert rows_of(pq.read_table(expected).to_batches()) == found, folder.name
            by_hudi += 1
        if folder.name not in NOT_READ_BY_HUDI_RS:
            assert rows_of(HudiTableBuilder.from_base_uri(str(folder)).build().read()) == found, folder.name
            by_rs += 1
    assert with_logs >= 24 and by_hudi >= 28 and by_rs >= 40, (with_logs, by_hudi, by_rs)


@pytest.mark.parametrize("mode", ["EVENT", "COMMIT"])
def test_all_sequences_of_rows_and_deletes_end_as_in_real_hudi(later_tables: Path, mode: str) -> None:
    """The log files that Hudi has compacted in the meantime, on top of the first base file."""
    (meta,) = (later_tables / f"hcase_{mode}").rglob(".hoodie")
    snapshot = TableSnapshot.load(str(meta.parent))
    schema = all_columns(snapshot.load_schema())
    first = min((meta.parent / "p0").glob("*.parquet"), key=lambda path: path.stem.rpartition("_")[2])
    logs = []
    for path in (meta.parent / "p0").glob(".*.log.*"):
        name = parse_log_file_name(path.name)
        if name is not None:
            logs.append(
                HoodieLogFile(
                    str(path), name.file_id, name.instant_time, name.version, name.write_token, path.stat().st_size
                )
            )
    file_slice = attrs.evolve(
        FileSlice.of_base_file("p0", str(first), first.stat().st_size), log_files=tuple(reversed(logs))
    )
    merging = LogMerging.of_table(snapshot, schema)
    context = HoodieReaderContext(snapshot.storage, schema, ["id", "ts", "fare"], merging)
    reader = HoodieFileGroupReader(context, file_slice)
    expected = pq.read_table(later_tables / "rows" / f"hcase_{mode}.parquet", columns=["id", "ts", "fare"])
    assert rows_of(reader.scan()) == rows_of(expected.to_batches())
    counts = reader.merged_rows()
    list(counts.batches(10))
    assert counts.counts.rows == expected.num_rows == CASES - counts.counts.deletes
    assert 50 < expected.num_rows < CASES - 50
    assert counts.counts.scanned.log_files == len(logs) == 3 and counts.counts.scanned.log_blocks > len(logs)


@pytest.mark.parametrize("name", ["v9_mor_compact", "v9_mor_commit_time", "mor_6"])
def test_each_failing_call_of_storage_is_an_error_and_never_other_rows(
    name: str, later_tables: Path, tmp_path: Path
) -> None:
    shutil.copytree(later_tables / name, tmp_path / name)
    (folder,) = folders_of_tables(tmp_path / name)
    reader = next(reader for reader in readers_of(folder) if reader.has_log_files)
    right = rows_of(reader.iter_batches())
    calls = 0
    while True:
        made = 0

        def around(call: Call, failing: int = calls) -> Any:
            nonlocal made
            made += 1
            if made > failing:
                raise HoodieIOException("a failing disk")
            return call.apply()

        reader = next(r for r in readers_of(folder, storage=storage_with(folder, around)) if r.has_log_files)
        try:
            assert rows_of(reader.iter_batches()) == right
            break
        except HoodieIOException as error:
            assert "a failing disk" in str(error)
        calls += 1
    assert calls >= 2


def test_a_log_file_that_is_gone_is_an_error(later_tables: Path, tmp_path: Path) -> None:
    shutil.copytree(later_tables / "v9_mor", tmp_path / "v9_mor")
    (folder,) = folders_of_tables(tmp_path / "v9_mor")
    readers = readers_of(folder)
    for log_file in folder.glob("*/.*.log.*"):
        log_file.unlink()
    with pytest.raises(HoodieIOException, match=r"\.log\.\d"):
        list(scan_file_groups(readers))


def test_a_table_without_merge_on_read_needs_no_rules(later_tables: Path) -> None:
    (folder,) = folders_of_tables(later_tables / "v9_cow")
    assert HoodieTableMetaClient.load(str(folder)).table_config.table_type == "COPY_ON_WRITE"
    readers = readers_of(folder)
    assert not any(reader.has_log_files for reader in readers)
    assert rows_of(scan_file_groups(readers)) == rows_of(
        pq.read_table(later_tables / "rows/v9_cow.parquet").to_batches()
    )
