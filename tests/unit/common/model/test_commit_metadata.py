"""Commit metadata: the JSON that Hudi writes, and what is made of other JSON."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.commit_metadata import (
    FileGroupWorkload,
    HoodieCommitMetadata,
    HoodieReplaceCommitMetadata,
    build_workload_profile,
)
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat, RuntimeStats
from hoodie.exception import HoodieCorruptedDataException

STAT = HoodieWriteStat(
    file_id="f-0",
    partition_path="p=1",
    path="p=1/f-0_0-1-2_20240102030405678.parquet",
    num_writes=3,
    num_inserts=3,
    total_write_bytes=440982,
    file_size_bytes=440982,
    runtime_stats=RuntimeStats(total_create_time=85),
)
JSON_OF_ONE_INSERT = """{
  "partitionToWriteStats" : {
    "p=1" : [ {
      "fileId" : "f-0",
      "path" : "p=1/f-0_0-1-2_20240102030405678.parquet",
      "cdcStats" : null,
      "prevCommit" : "null",
      "numWrites" : 3,
      "numDeletes" : 0,
      "numUpdateWrites" : 0,
      "numInserts" : 3,
      "totalWriteBytes" : 440982,
      "totalWriteErrors" : 0,
      "tempPath" : null,
      "partitionPath" : "p=1",
      "totalLogRecords" : 0,
      "totalLogFilesCompacted" : 0,
      "totalLogSizeCompacted" : 0,
      "totalUpdatedRecordsCompacted" : 0,
      "totalLogBlocks" : 0,
      "totalCorruptLogBlock" : 0,
      "totalRollbackBlocks" : 0,
      "fileSizeInBytes" : 440982,
      "minEventTime" : null,
      "maxEventTime" : null,
      "runtimeStats" : {
        "totalScanTime" : 0,
        "totalUpsertTime" : 0,
        "totalCreateTime" : 85
      }
    } ]
  },
  "compacted" : false,
  "extraMetadata" : {
    "schema" : "{\\"type\\":\\"record\\"}"
  },
  "operationType" : "UPSERT"
}"""


def test_a_commit_is_printed_as_hudi_prints_it() -> None:
    metadata = HoodieCommitMetadata({"p=1": (STAT,)}, {"schema": '{"type":"record"}'}, WriteOperationType.UPSERT)
    assert metadata.to_json().decode() == JSON_OF_ONE_INSERT


def test_every_commit_of_real_tables_is_printed_back_byte_for_byte(shared_tables: Path) -> None:
    checked = 0
    for path in shared_tables.rglob(".hoodie/*"):
        data = path.read_bytes() if path.is_file() and path.suffix in (".commit", ".deltacommit", ".inflight") else b""
        if not data.startswith(b"{") or b'"recordsStats" : {\n        "val" : {' in data:
            continue
        assert HoodieCommitMetadata.from_json(data, str(path)).to_json() == data, path
        checked += 1
    for path in shared_tables.rglob(".hoodie/*.replacecommit"):
        assert HoodieReplaceCommitMetadata.from_json(path.read_bytes()).to_json() == path.read_bytes(), path
        checked += 1
    assert checked > 100


def test_column_statistics_of_real_log_files_are_left_out(shared_tables: Path) -> None:
    (path,) = shared_tables.rglob("hudi_comprehensive_types_v6_mor/.hoodie/20250521133218440.deltacommit")
    metadata = HoodieCommitMetadata.from_json(path.read_bytes())
    expected = json.loads(path.read_bytes())
    for stats in expected["partitionToWriteStats"].values():
        for stat in stats:
            stat["recordsStats"] = {"val": None}
    assert json.loads(metadata.to_json()) == expected


def test_only_log_files_have_the_fields_of_log_files() -> None:
    log = attrs.evolve(STAT, log_version=1, log_offset=0, base_file="b.parquet", log_files=(".f-0.log.1",))
    stats = json.loads(HoodieCommitMetadata({"p=1": (STAT, log)}).to_json())["partitionToWriteStats"]["p=1"]
    assert "logFiles" not in stats[0] and "recordsStats" not in stats[0]
    assert {key: stats[1][key] for key in ("logVersion", "logOffset", "baseFile", "logFiles", "recordsStats")} == {
        "logVersion": 1,
        "logOffset": 0,
        "baseFile": "b.parquet",
        "logFiles": [".f-0.log.1"],
        "recordsStats": {"val": None},
    }


def test_a_replace_commit_names_the_replaced_file_groups_last() -> None:
    metadata = HoodieReplaceCommitMetadata(
        {}, {}, WriteOperationType.INSERT_OVERWRITE, partition_to_replace_file_ids={"10": ("a-0", "b-0")}
    )
    assert metadata.to_json().decode() == (
        '{\n  "partitionToWriteStats" : { },\n  "compacted" : false,\n  "extraMetadata" : { },\n'
        '  "operationType" : "INSERT_OVERWRITE",\n'
        '  "partitionToReplaceFileIds" : {\n    "10" : [ "a-0", "b-0" ]\n  }\n}'
    )
    assert HoodieReplaceCommitMetadata.from_json(metadata.to_json()) == metadata
    assert type(HoodieCommitMetadata.from_json(metadata.to_json())) is HoodieCommitMetadata


def test_the_profile_of_an_inflight_instant_has_inserts_first_and_no_paths() -> None:
    profile = build_workload_profile(
        WriteOperationType.UPSERT,
        {"a": 3, "b": 1},
        {"a": [FileGroupWorkload("f-0", "20240101000000000", 2, 1)], "c": [FileGroupWorkload("g-0", "2", 5)]},
    )
    stats = json.loads(profile.to_json())["partitionToWriteStats"]
    picked = ("fileId", "prevCommit", "numInserts", "numUpdateWrites", "path", "partitionPath", "runtimeStats")
    assert {partition: [[stat[key] for key in picked] for stat in stats[partition]] for partition in stats} == {
        "a": [["", "null", 3, 0, None, None, None], ["f-0", "20240101000000000", 1, 2, None, None, None]],
        "b": [["", "null", 1, 0, None, None, None]],
        "c": [["", "null", 0, 0, None, None, None], ["g-0", "2", 0, 5, None, None, None]],
    }
    assert json.loads(profile.to_json())["extraMetadata"] == {}
    assert HoodieCommitMetadata.from_json(profile.to_json()) == profile


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    data = b"""{"partitionToWriteStats": {"": [{"fileId": "f-0", "numUpdates": 3, "prevBaseFile": null}]},
        "operationType": "TELEPORT", "somethingNew": [1], "extraMetadata": null}"""
    assert HoodieCommitMetadata.from_json(data) == HoodieCommitMetadata({"": (HoodieWriteStat("f-0", ""),)})


def test_totals_are_sums_over_all_files() -> None:
    update = attrs.evolve(
        STAT, file_id="g-0", prev_commit="1", num_update_writes=2, num_inserts=1, num_deletes=4, total_write_errors=5
    )
    metadata = HoodieCommitMetadata({"a": (STAT, update), "b": (STAT,)}, {"schema": ""})
    assert metadata.schema is None
    assert metadata.total_partitions_written == 2
    assert metadata.total_files_inserted == 2
    assert metadata.total_files_updated == 1
    assert metadata.total_records_written == 9
    assert metadata.total_inserts == 7
    assert metadata.total_updates == 2
    assert metadata.total_deletes == 4
    assert metadata.total_bytes_written == 3 * 440982
    assert metadata.total_write_errors == 5


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"partitionToWriteStats": []}',
        b'{"partitionToWriteStats": {"": {}}}',
        b'{"partitionToWriteStats": {"": [1]}}',
        b'{"partitionToWriteStats": {"": [{"numWrites": "3"}]}}',
        b'{"partitionToWriteStats": {"": [{"numWrites": true}]}}',
        b'{"partitionToWriteStats": {"": [{"path": 1}]}}',
        b'{"partitionToWriteStats": {"": [{"logFiles": [1]}]}}',
        b'{"operationType": 1}',
        b'{"extraMetadata": "x"}',
        JSON_OF_ONE_INSERT[:-5].encode(),
    ],
)
def test_rubbish_is_refused_by_the_name_of_its_source(data: bytes) -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"/t/\.hoodie/1\.commit"):
        HoodieCommitMetadata.from_json(data, "/t/.hoodie/1.commit")


def test_an_empty_inflight_file_is_empty_metadata_where_that_is_allowed() -> None:
    assert HoodieCommitMetadata.from_json(b"", allow_empty=True) == HoodieCommitMetadata()


texts = st.text(st.characters(exclude_categories=["Cs"]))
paths = texts.filter(lambda text: not (set("/\0:") & set(text)) and text not in ("..", ".hoodie"))
counts = st.integers(0, 2**63 - 1)
stats = st.builds(
    HoodieWriteStat,
    file_id=texts,
    partition_path=st.just("x"),
    path=paths,
    prev_commit=texts.filter(bool),
    num_writes=counts,
    total_write_bytes=counts,
    min_event_time=st.none() | counts,
    cdc_stats=st.none() | st.dictionaries(texts, counts),
    runtime_stats=st.none() | st.builds(RuntimeStats, counts, counts, counts),
)


@given(
    st.builds(
        HoodieReplaceCommitMetadata,
        partition_to_write_stats=st.dictionaries(paths, st.lists(stats, max_size=3).map(tuple), max_size=3),
        extra_metadata=st.dictionaries(texts, texts, max_size=3),
        operation_type=st.sampled_from(WriteOperationType),
        compacted=st.booleans(),
        partition_to_replace_file_ids=st.dictionaries(paths, st.lists(texts, max_size=3).map(tuple), max_size=3),
    )
)
def test_what_is_written_is_read_back(metadata: HoodieReplaceCommitMetadata) -> None:
    assert HoodieReplaceCommitMetadata.from_json(metadata.to_json()) == metadata


def test_metadata_can_be_pickled() -> None:
    metadata = HoodieCommitMetadata({"p=1": (STAT,)}, {"a": "b"}, WriteOperationType.INSERT)
    assert pickle.loads(pickle.dumps(metadata)) == metadata
