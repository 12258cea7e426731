"""Keys in a database, with Spark: found on the driver and by tasks, written by the driver (SQLite) or by tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import hoodie
from hoodie import HoodieWriteConfig, SparkRDDWriteClient
from hoodie.index.simple import global_simple_index
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import init_table

pytestmark = pytest.mark.spark
COLUMNS = "id string, region string, ts bigint"


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_keys_are_found_and_moved(
    spark: SparkSession,
    tmp_path: Path,
    database: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    base_path = str(tmp_path / "t")
    init_table(base_path)
    properties = {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
    if database == "postgresql":
        properties["hoodie.index.database.url"] = request.getfixturevalue("postgres_url")
    model = {f"k{number}": (f"k{number}", "xyz"[number % 3], 1) for number in range(60)}
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, properties)) as client:
        client.bulk_insert(spark.createDataFrame(list(model.values()), COLUMNS))
        for ts in (2, 3):
            if ts == 3:
                # More keys than the driver takes.
                monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
                monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
            changes = {f"k{n}": (f"k{n}", "xyz"[(n + ts) % 3], ts) for n in range(20 * ts, 20 * ts + 30)}
            result = client.upsert(spark.createDataFrame(list(changes.values()), COLUMNS))
            known = changes.keys() & model.keys()
            moved = {key for key in known if changes[key][1] != model[key][1]}
            assert (result.deleted_count, result.updated_count) == (len(moved), len(known) - len(moved))
            model |= changes
    stored = hoodie.read_table(base_path, columns=["id", "region", "ts"]).to_pylist()
    assert sorted(tuple(row.values()) for row in stored) == sorted(model.values())
