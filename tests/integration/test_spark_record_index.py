"""The record index on Spark, with more keys and rows than its driver takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie.metadata
from hoodie import HoodieKey, SparkRDDWriteClient
from hoodie.exception import HoodieAmbiguousKeyException
from hoodie.index.recordindex import record_index, record_index_lookup
from hoodie.metadata.writer import record_index_indexer
from hoodie.table.action.commit import incoming_keys
from tests.support.model import TableModel
from tests.support.table_builder import init_table, read_rows, spark_rows, write_config

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("kind", ["global.record.level", "record.level"])
def test_keys_and_entries_go_to_tasks_by_a_shuffle(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str, kind: str
) -> None:
    for module, name, value in (
        (incoming_keys, "KEY_BYTES", 0),
        (record_index, "SHARED_KEY_BYTES", 0),
        (record_index_lookup, "_KEYS_WITHOUT_TASKS", 0),
        (record_index_indexer, "_FEW_ROWS", -1),
    ):
        monkeypatch.setattr(module, name, value)
    is_global = kind == "global.record.level"
    config = write_config(
        init_table(tmp_path / "t", table_type=table_type),
        index_type="RECORD_INDEX" if is_global else "RECORD_LEVEL_INDEX",
        **{
            "hoodie.metadata.enable": "true",
            f"hoodie.metadata.{kind}.index.enable": "true",
            "hoodie.record.index.update.partition.path": "true",
        },
    )
    model = TableModel(is_global=is_global)
    with SparkRDDWriteClient(spark, config) as client:
        for step in (
            [(f"k{number}", "xy"[number % 2], 1) for number in range(40)],
            [(f"k{number}", "xyz"[number % 3], 2) for number in range(20, 60)],
        ):
            client.upsert(spark_rows(spark, *step))
            model = model.upsert(step)
            result = hoodie.metadata.validate(config.base_path, ["files", "record_index"])
            assert result.is_right, result
            assert read_rows(config.base_path) == sorted(model.values())
        gone = sorted(model.values())[::3]
        client.delete([HoodieKey(key, region) for key, region, _ in gone])
        model = model.delete(row[:2] for row in gone)
    result = hoodie.metadata.validate(config.base_path, ["files", "record_index"])
    assert result.is_right, result
    assert read_rows(config.base_path) == sorted(model.values())


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_find_keys_that_would_be_in_two_places(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    monkeypatch.setattr(record_index_indexer, "_FEW_ROWS", -1)
    enable = "hoodie.metadata.global.record.level.index.enable"
    path = init_table(tmp_path / "t", table_type=table_type)
    first = [(f"k{number}", "xy"[number % 2], 1) for number in range(40)]
    with SparkRDDWriteClient(spark, write_config(path, index_type="BLOOM", **{enable: "true"})) as client:
        client.insert(spark_rows(spark, *first))
        for write in (client.insert, client.bulk_insert, client.upsert):
            with pytest.raises(HoodieAmbiguousKeyException, match="1 record key .* 'k1' in partition 'x'"):
                write(spark_rows(spark, ("k1", "x", 2), ("n1", "x", 2)))
        client.upsert(spark_rows(spark, ("k1", "y", 2), ("n1", "x", 2)))
        assert read_rows(path) == sorted([*first[:1], ("k1", "y", 2), *first[2:], ("n1", "x", 2)])
        assert hoodie.metadata.validate(path).is_right
    with SparkRDDWriteClient(spark, write_config(path, index_type="BLOOM", **{enable: "false"})) as client:
        client.insert(spark_rows(spark, ("k1", "x", 3)))
    refused = pytest.raises(HoodieAmbiguousKeyException, match="1 record key in several file groups: 'k1'")
    with SparkRDDWriteClient(spark, write_config(path, index_type="RECORD_INDEX")) as client, refused:
        client.upsert(spark_rows(spark, ("k2", "x", 4)))
    assert ("k1", "x", 3) in read_rows(path) and ("k1", "y", 2) in read_rows(path)
    assert hoodie.metadata.validate(path).is_right
