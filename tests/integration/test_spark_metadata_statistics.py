"""Statistics of hundreds of files: Spark's tasks make the same records of a metadata table as one process does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import HoodieTableMetaClient, SparkRDDWriteClient
from hoodie.exception import HoodieException
from hoodie.metadata import HoodieBackedTableMetadata, validate
from hoodie.metadata.writer.file_statistics import FileStatisticsReader
from tests.support.table_builder import SMALL_FILTERS, TRIPS, init_table, local_client, read_trips, rows, write_config

pytestmark = [pytest.mark.spark, pytest.mark.slow]

FOLDERS = 160
KEPT = ("column_stats", "partition_stats", "bloom_filters")
SPARK_SCHEMA = "id string, region string, ts long, fare double"
BUILDS = {
    **SMALL_FILTERS,
    "hoodie.index.type": "SIMPLE",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}


def trips(ts: int) -> pa.Table:
    """Four rows of each folder, some without a fare."""
    made = [
        (f"{ts}-{number}", f"p{number % FOLDERS:03d}", ts, None if number % 7 == 0 else number / 4)
        for number in range(4 * FOLDERS)
    ]
    return rows(*made, schema=TRIPS)


def entries_of(path: str, partition: str) -> list[tuple[str, str]]:
    """Key and value of each record."""
    found = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot).read_records(partition)
    values = [repr(row) for row in found.rows.to_pylist()]
    return sorted(zip(found.keys.to_pylist(), values, strict=True))


def test_tasks_of_spark_make_the_statistics_of_one_process(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_spark, by_process = init_table(tmp_path / "t"), str(tmp_path / "copy")
    with local_client(by_spark, {**SMALL_FILTERS, "hoodie.parquet.small.file.limit": "0"}) as client:
        for ts in (1, 2):
            client.insert(trips(ts))
    shutil.copytree(by_spark, by_process)
    with local_client(by_process, BUILDS) as client:
        client.start_commit()

    def refuse(self: object, *arguments: object) -> None:
        raise HoodieException("the driver reads no file")

    with SparkRDDWriteClient(spark, write_config(by_spark, **BUILDS)) as client:
        with monkeypatch.context() as patch:
            # Tasks have modules of their own.
            patch.setattr(FileStatisticsReader, "_read_file", refuse)
            time = client.start_commit()
        for partition in KEPT:
            expected = entries_of(by_process, partition)
            assert len(expected) >= (2 * FOLDERS if partition != "partition_stats" else FOLDERS)
            assert entries_of(by_spark, partition) == expected, partition
        with monkeypatch.context() as patch:
            patch.setattr(FileStatisticsReader, "_read_file", refuse)
            changed = trips(2).set_column(2, "ts", pa.array([3] * 4 * FOLDERS, pa.int64()))
            client.upsert(
                spark.createDataFrame(changed.to_pylist(), "id string, region string, ts long, fare double"), time
            )
    result = validate(by_spark)
    assert result.is_right, result
    assert {"files", *KEPT} == set(result.entry_counts)
    assert len(read_trips(by_spark)) == 8 * FOLDERS
