"""Expression indexes that writers on Spark keep up by tasks, or drop."""

from __future__ import annotations

from pathlib import Path

import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.metadata
from hoodie import SparkRDDWriteClient
from tests.support.expression_indexes import add_index, check_index, definition_of, indexes_of
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows, spark_rows, write_config

pytestmark = [pytest.mark.spark, pytest.mark.table_version(9), pytest.mark.metadata_table]

INDEXES = (
    definition_of("low", "column_stats", "lower", "id"),
    definition_of("len", "column_stats", "length", "region"),
    definition_of("up", "bloom_filters", "upper", "id"),
)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_compute_indexes_and_a_commit_drops_what_they_cannot(
    spark: SparkSession,
    tmp_path: Path,
    table_type: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hoodie.metadata.writer.file_statistics.FILES_ON_DRIVER", 1)
    path = init_table(tmp_path / "t", table_type=table_type)
    with local_client(path, SMALL_FILTERS) as local:
        local.insert(rows(*((f"Key{n}", f"d{n % 3}", 1) for n in range(12))))
    names = {add_index(path, one) for one in INDEXES}
    with SparkRDDWriteClient(spark, write_config(path, **SMALL_FILTERS)) as client:
        client.upsert(spark_rows(spark, *((f"Key{n}", f"d{n % 3}", 2) for n in range(6, 18))))
        for name in names:
            check_index(path, name)
        assert indexes_of(path) == (names, names, names)
        client.upsert(spark_rows(spark, ("Schlüssel", "d0", 3), ("Key1", "d1", 3)))
    texts = [text for text in caplog.messages if text.startswith("dropping the index")]
    assert {text.split()[3] for text in texts} == {"expr_index_low", "expr_index_up"}
    kept = {"expr_index_len"}
    assert indexes_of(path) == (kept, kept, kept)
    check_index(path, "expr_index_len")
    assert hoodie.metadata.validate(path).is_right
    assert pc.max(hoodie.read_table(path)["ts"]).as_py() == 3
