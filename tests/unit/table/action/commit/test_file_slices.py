"""Writes go on from file slices; what is more than a base file is not passed over."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieRecordLocation, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import make_log_file_name, parse_base_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.exception import HoodieNotSupportedException
from hoodie.index.index import IndexedTable
from hoodie.storage.local_storage import LocalStorage

BASE = HoodieBaseFile("/t/p/f_0-0-0_1.parquet", "f", "0-0-0", "1", 10)
LOG = HoodieLogFile("/t/p/.f_1.log.1_0-0-0", "f", "1", 1, "0-0-0", 10)


def test_a_slice_says_where_its_records_live() -> None:
    assert FileSlice("p", "f", "1", BASE).location == HoodieRecordLocation("1", "f")
    assert FileSlice("p", "f", "1", BASE).sole_base_file == BASE
    # Change data are no records of the slice.
    assert FileSlice("p", "f", "1", BASE, (attrs.evolve(LOG, is_cdc=True),)).sole_base_file == BASE


@pytest.mark.parametrize("file_slice", [FileSlice("p", "f", "1", None, (LOG,)), FileSlice("p", "f", "1", BASE, (LOG,))])
def test_a_slice_with_log_files_is_more_than_its_base_file(file_slice: FileSlice) -> None:
    with pytest.raises(HoodieNotSupportedException, match="file group f of partition 'p' has log files at 1"):
        file_slice.sole_base_file  # noqa: B018


def test_a_table_is_narrowed_down_by_slices() -> None:
    other = attrs.evolve(BASE, path="/t/p/g_0-0-0_1.parquet", file_id="g")
    slices = {"p": [FileSlice("p", "f", "1", BASE), FileSlice("p", "g", "1", other)]}
    table = IndexedTable(LocalStorage("/t"), slices)
    assert table.slices == slices["p"]
    assert table.narrowed_to(slices["p"][1:]).file_slices == {"p": slices["p"][1:]}


@pytest.mark.parametrize("operation", ["upsert", "insert", "delete"])
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BUCKET"])
@pytest.mark.without_metadata_table("a file is added that a metadata table does not list")
def test_a_file_group_with_log_files_is_not_rewritten_without_them(tmp_path: Path, operation: str, index: str) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k")
    properties = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 1}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties)) as client:
        client.upsert([{"k": "a", "v": 1}, {"k": "b", "v": 1}])
        (stored,) = Path(path).glob("*.parquet")
        name = parse_base_file_name(stored.name)
        assert name is not None
        log = stored.parent / make_log_file_name(name.file_id, name.instant_time, 1, "0-0-0")
        log.write_bytes(b"#HUDI#")
        given = [HoodieKey("a")] if operation == "delete" else [{"k": "a", "v": 2}]
        with pytest.raises(HoodieNotSupportedException, match="has log files|is a log file"):
            getattr(client, operation)(given)
        log.unlink()
        getattr(client, operation)(given)
    assert "b" in hoodie.read_table(path, columns=["k"])["k"].to_pylist()


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BUCKET"])
@pytest.mark.without_metadata_table("a file is added that a metadata table does not list")
def test_change_data_beside_a_base_file_keep_no_one_from_reading_and_writing_it(tmp_path: Path, index: str) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="k")
    properties = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 1}
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, properties)) as client:
        client.upsert([{"k": "a", "v": 1}, {"k": "b", "v": 1}])
        (stored,) = Path(path).glob("*.parquet")
        name = parse_base_file_name(stored.name)
        assert name is not None
        changes = make_log_file_name(name.file_id, name.instant_time, 1, name.write_token, is_cdc=True)
        (stored.parent / changes).write_bytes(b"#HUDI#")
        assert hoodie.read_table(path, columns=["k"]).num_rows == 2
        client.upsert([{"k": "a", "v": 2}, {"k": "c", "v": 1}])
        client.delete([HoodieKey("b")])
    rows = hoodie.read_table(path, columns=["k", "v"]).to_pylist()
    assert sorted((row["k"], row["v"]) for row in rows) == [("a", 2), ("c", 1)]
