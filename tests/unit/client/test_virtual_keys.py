"""Tables that store no record keys (``hoodie.populate.meta.fields=false``)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieNotSupportedException
from tests.support.table_builder import local_client

VIRTUAL = {"hoodie.populate.meta.fields": "false"}


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="p", ordering_fields="ts", properties=VIRTUAL
    )
    return path


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [{"id": f"k{number}", "p": "x", "ts": number} for number in numbers]


def test_inserts_store_the_files_name_only_and_fill_small_files(base_path: str) -> None:
    with local_client(base_path) as c:
        c.bulk_insert(rows(1, 2))
        c.insert(rows(3))
        c.insert(rows(3, 4))
    view = HoodieTableMetaClient.load(base_path).view()
    view.load_partitions(["x"])
    (file,) = view.latest_base_files("x")
    stored = pq.ParquetFile(file.path)
    table = stored.read()
    assert sorted(table["id"].to_pylist()) == ["k1", "k2", "k3", "k3", "k4"]
    assert set(table["_hoodie_file_name"].to_pylist()) == {file.path.rsplit("/", 1)[-1]}
    for name in table.schema.names[:4]:
        assert table[name].null_count == table.num_rows
    footer = {key.decode() for key in stored.metadata.metadata}
    assert not {name for name in footer if "bloom" in name or "record_key" in name}
    by_hudi_rs = pa.Table.from_batches(HudiTableBuilder.from_base_uri(base_path).build().read())
    assert sorted(by_hudi_rs["id"].to_pylist()) == ["k1", "k2", "k3", "k3", "k4"]
    assert hoodie.read_table(base_path, filters=[("p", "=", "x"), ("ts", ">", 3)])["id"].to_pylist() == ["k4"]


def test_what_needs_stored_keys_is_refused_and_leaves_nothing(base_path: str) -> None:
    with local_client(base_path) as c:
        c.insert(rows(1))
        for change in (
            lambda: c.upsert(rows(1)),
            lambda: c.delete([HoodieKey("k1", "x")]),
            lambda: c.delete(where=[("id", "=", "k1")]),
        ):
            with pytest.raises(HoodieNotSupportedException, match="insert and bulk_insert work"):
                change()
        with pytest.raises(HoodieKeyException):
            c.insert([{"id": None, "p": "x", "ts": 1}])
    with (
        local_client(base_path, hoodie__datasource__write__insert__drop__duplicates="true") as c,
        pytest.raises(HoodieNotSupportedException, match=r"Leave out hoodie\.datasource\.write\.insert\.drop"),
    ):
        c.insert(rows(1))
    assert hoodie.read_table(base_path)["id"].to_pylist() == ["k1"]
    assert len(HoodieTableMetaClient.load(base_path).active_timeline.filter_pending()) == 0


def test_write_table_makes_such_a_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(rows(1), path, operation="insert", record_key_fields="id", properties=VIRTUAL)
    hoodie.write_table(rows(2), path, operation="bulk_insert")
    assert hoodie.read_table(path)["_hoodie_record_key"].to_pylist() == [None, None]
    with pytest.raises(HoodieConfigException, match=r"hoodie\.populate\.meta\.fields = true: the table has false"):
        hoodie.write_table(rows(3), path, operation="insert", properties={"hoodie.populate.meta.fields": "true"})


def test_key_generators_that_hudi_does_not_take_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="the key generator is CustomKeyGenerator"):
        HoodieTableMetaClient.init_table(
            str(tmp_path), table_name="t", record_key_fields="id", partition_fields="a,b", properties=VIRTUAL
        )
