"""What indexes note of their work."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.record_columns import PARTITION_PATH, RECORD_KEY
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index.index import HoodieIndex, IndexedTable
from hoodie.index.index_report import Decision, FileGroupLook, IndexReport, IndexWork
from hoodie.index.inmemory.in_memory_hash_index import HoodieInMemoryHashIndex
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from tests.support.table_builder import local_client


def look_up(path: str, index_class: type[HoodieIndex], keys: list[tuple[str, str]], partitions: list[str]) -> IndexWork:
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k", partition_fields="p")
    with local_client(path) as client:
        client.upsert([{"k": f"k{number}", "p": f"p{number % 2}", "n": number} for number in range(10)])
    meta_client = HoodieTableMetaClient.load(path)
    view = meta_client.view()
    table = IndexedTable(meta_client.storage, {p: view.latest_file_slices(p) for p in partitions})
    asked = {RECORD_KEY: pa.array([k for _, k in keys], pa.string()), PARTITION_PATH: [p for p, _ in keys]}
    index = index_class(HoodieWriteConfig.from_properties(path, {}))
    index.find_locations(pa.table(asked), LocalEngineContext(2), table)
    return table.work


@pytest.mark.parametrize(
    ("index_class", "decision"),
    [(HoodieSimpleIndex, Decision.KEY_CHECK), (HoodieInMemoryHashIndex, Decision.MEMORY)],
)
def test_each_file_of_a_partition_is_noted_with_the_keys_it_holds(
    tmp_path: Path, index_class: type[HoodieIndex], decision: str
) -> None:
    keys = [("p0", "k0"), ("p0", "k2"), ("p0", "new"), ("p1", "k0")]
    report = look_up(str(tmp_path / "t"), index_class, keys, ["p0", "p1"]).report()
    assert {(g.partition_path, g.decided_by, g.keys, g.found) for g in report.file_groups} == {
        ("p0", decision, 3, 2), ("p1", decision, 1, 0),
    }  # fmt: skip
    assert report.decided == {decision: 2}
    assert (report.files_read, report.row_groups_read) == (2, 2)


def test_a_global_index_looks_for_all_keys_in_all_files(tmp_path: Path) -> None:
    work = look_up(str(tmp_path / "t"), HoodieGlobalSimpleIndex, [("p0", "k1"), ("p0", "k2")], ["p0", "p1"])
    report = work.report()
    assert {(g.partition_path, g.keys, g.found) for g in report.file_groups} == {("p0", 2, 1), ("p1", 2, 1)}
    assert report.keys_compared == 4


def test_a_later_verdict_takes_the_place_of_an_earlier_one() -> None:
    work = IndexWork()
    work.note(FileGroupLook("p", "a", Decision.FILTER, 7, 0))
    work.note(FileGroupLook("p", "a", Decision.KEY_CHECK, 2, 1, row_groups=5, row_groups_read=2))
    work.note(FileGroupLook("p", "b", Decision.RANGE))
    work.note_reads(footers=2)
    work.note_reads(footers=1, filters=1)
    report = work.report()
    assert report.decided == {"key check": 1, "range": 1}
    assert (report.files_read, report.row_groups_read, report.row_groups_skipped, report.keys_compared) == (1, 2, 3, 2)
    assert (report.footers_read, report.filters_read) == (3, 1)


def test_files_that_a_join_reads_count_as_read_though_nothing_was_counted() -> None:
    read = FileGroupLook("p", "a", Decision.KEY_CHECK)
    assert IndexReport((read, FileGroupLook("p", "b", Decision.KEY_CHECK, found=0))).files_read == 1
