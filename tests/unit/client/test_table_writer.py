"""`write_table` on a path without a table: what it checks before it makes one, and what it makes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieConfigException, HoodieException, HoodieKeyException, HoodieNotSupportedException

DATA = pa.table({"k": ["a", "b"], "region": ["x:y", "z"], "ts": [1, 2]})


@pytest.mark.parametrize(
    ("properties", "error"),
    [
        ({"hoodie.parquet.max.file.sise": "1"}, HoodieConfigException),
        ({"hoodie.parquet.small.file.limit": "2000", "hoodie.parquet.max.file.size": "1000"}, HoodieConfigException),
        ({"hoodie.datasource.write.recordkey.field": "region"}, HoodieConfigException),
        ({"hoodie.table.name": "others"}, HoodieConfigException),
        ({"hoodie.datasource.write.keygenerator.class": "com.example.Mine"}, HoodieConfigException),
        ({"hoodie.datasource.write.payload.class": "com.example.Mine"}, HoodieNotSupportedException),
        ({"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}, HoodieNotSupportedException),
    ],
)
def test_wrong_properties_leave_no_table(
    tmp_path: Path, properties: dict[str, str], error: type[HoodieException]
) -> None:
    path = tmp_path / "trips"
    with pytest.raises(error):
        hoodie.write_table(DATA, str(path), table_name="trips", record_key_fields="k", properties=properties)
    assert not path.exists()


@pytest.mark.parametrize(
    "make_data",
    [
        lambda: DATA,
        DATA.to_pylist,
        DATA.to_batches,
        DATA.to_reader,
        lambda: iter(DATA.to_batches()),
        lambda: pd.DataFrame({"k": ["a"], "region": ["x"], "ts": [1]}),
    ],
    ids=["table", "dicts", "batches", "reader", "iterator", "pandas"],
)
@pytest.mark.parametrize("argument", ["record_key_fields", "partition_fields", "ordering_fields"])
def test_a_field_that_is_not_a_column_leaves_no_table(
    tmp_path: Path, make_data: Callable[[], Any], argument: str
) -> None:
    path = tmp_path / "trips"
    with pytest.raises(HoodieKeyException, match="'missing' is not a column of the data; its columns are: k, region"):
        hoodie.write_table(make_data(), str(path), **{"record_key_fields": "k", argument: "missing"})
    assert not path.exists()


def test_an_iterator_of_batches_is_written_whole(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(iter([*DATA[:1].to_batches(), *DATA[1:].to_batches()]), path, record_key_fields="k")
    assert sorted(hoodie.read_table(path)["k"].to_pylist()) == ["a", "b"]


def test_a_named_index_of_pandas_may_be_the_key(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    hoodie.write_table(pd.DataFrame({"ts": [1]}, index=pd.Index(["a"], name="k")), path, record_key_fields="k")
    assert hoodie.read_table(path, columns=["k"])["k"].to_pylist() == ["a"]


def test_properties_of_the_table_are_those_of_the_new_one(tmp_path: Path) -> None:
    path = str(tmp_path / "trips")
    properties = {
        "hoodie.table.name": "rides",
        "hoodie.database.name": "city",
        "hoodie.datasource.write.recordkey.field": "k,region",
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "true",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        "hoodie.datasource.write.payload.class": "OverwriteWithLatestAvroPayload",
    }
    for _ in range(2):
        hoodie.write_table(DATA, path, partition_fields="region", ordering_fields="ts", properties=properties)
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_name, config.database_name) == ("rides", "city")
    assert config.record_key_fields == ("k", "region")
    assert config.hive_style_partitioning
    assert config.url_encode_partitioning
    assert str(config.key_generator_class).endswith("ComplexKeyGenerator")
    assert str(config.payload_class).endswith("OverwriteWithLatestAvroPayload")
    assert HoodieTableMetaClient.load(path).view().list_partitions() == ["region=x%3Ay", "region=z"]
    assert hoodie.read_table(path).num_rows == 2


def test_the_operation_may_be_a_property(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    data = pa.table({"id": ["a", "a"], "fare": [1.0, 2.0]})
    given = {"hoodie.datasource.write.operation": "insert"}
    result = hoodie.write_table(data, base_path, record_key_fields="id", properties=given)
    assert result.commit_metadata.operation_type == "INSERT"
    assert hoodie.read_table(base_path).num_rows == 2
    assert hoodie.write_table(data, base_path, operation="upsert", properties=given).updated_count == 2
