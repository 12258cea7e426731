"""MERGE INTO of real Hudi's SQL and `hoodie.spark.merge_into`; options of the data source that choose rows."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.spark.merge_writer import MergeIntoWriter
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, read_with_hudi_rs
from tests.interop.test_operations import DEFAULT_PAYLOAD, LATEST_PAYLOAD, init, rows_of
from tests.support.table_builder import TRIPS, local_client, rows, spark_rows

pytestmark = pytest.mark.interop

STORED = [
    ("a", "north", 5, 1.0),
    ("b", "north", 5, 2.0),
    ("c", "south", 5, 3.0),
    ("d", "south", 5, 4.0),
    ("e", "west", 5, 5.0),
]
Entry = tuple[Any, ...]
Add = Callable[[MergeIntoWriter], MergeIntoWriter]
UPDATE_SQL = "WHEN MATCHED {} THEN UPDATE SET id = s.id, region = s.region, ts = s.ts, fare = s.fare"
INSERT_SQL = "WHEN NOT MATCHED {} THEN INSERT *"


def merge_with_hudi(hudi: HudiProcess, base_path: Path, entries: list[Entry], clauses: str) -> None:
    table = f"merged_{uuid.uuid4().hex}"
    source = " UNION ALL ".join(
        f"SELECT '{key}' id, '{region}' region, {ts}L ts, {fare}D fare" for key, region, ts, fare in entries
    )
    settings = hudi.standing_options()
    for name, value in settings.items():
        hudi.sql(f"SET {name}={value}")
    try:
        hudi.sql(f"CREATE TABLE {table} USING hudi LOCATION '{base_path}'")
        on = "t.id = s.id AND t.region = s.region"
        hudi.sql(f"MERGE INTO {table} t USING ({source}) s ON {on} {clauses}")
    finally:
        hudi.sql(f"DROP TABLE IF EXISTS {table}")
        for name in settings:
            hudi.sql(f"RESET {name}")


@pytest.mark.parametrize(
    ("payload", "entries", "sql", "add"),
    [
        pytest.param(
            DEFAULT_PAYLOAD,
            [("a", "north", 6, 9.0), ("b", "north", 6, -1.0), ("d", "south", 6, 0.0), ("n", "east", 1, 1.0),
             ("o", "north", 1, -1.0)],
            f"{UPDATE_SQL.format('AND s.fare > 1')} WHEN MATCHED AND s.fare < 0 THEN DELETE "
            f"{INSERT_SQL.format('AND s.fare > 0')}",
            lambda w: w.whenMatched("s.fare > 1").update({c: f"s.{c}" for c in TRIPS.names})
            .whenMatched("s.fare < 0").delete().whenNotMatched("s.fare > 0").insertAll(),
            id="all clauses",
            marks=pytest.mark.interop_smoke,
        ),
        pytest.param(
            DEFAULT_PAYLOAD,
            [("a", "north", 4, 9.0), ("b", "north", 4, -1.0), ("c", "south", 5, 9.0), ("n", "east", 0, 9.0)],
            f"{UPDATE_SQL.format('AND s.fare > 0')} WHEN MATCHED THEN DELETE {INSERT_SQL.format('')}",
            lambda w: w.whenMatched("s.fare > 0").updateAll().whenMatched().delete().whenNotMatched().insertAll(),
            id="older rows, the larger ordering value wins",
        ),
        pytest.param(
            DEFAULT_PAYLOAD,
            [("a", "north", 6, 9.0), ("c", "north", 6, 9.0), ("e", "west", 6, 9.0)],
            "WHEN MATCHED AND t.fare < 5 THEN UPDATE SET fare = t.fare + s.fare, ts = s.ts "
            "WHEN MATCHED THEN UPDATE SET fare = -t.fare, ts = t.ts "
            "WHEN NOT MATCHED THEN INSERT (id, region, ts) VALUES (s.id, s.region, s.ts)",
            lambda w: w.whenMatched("t.fare < 5").update({"fare": "t.fare + s.fare", "ts": "s.ts"})
            .whenMatched().update({"fare": "-t.fare", "ts": "t.ts"})
            .whenNotMatched().insert({"id": "s.id", "region": "s.region", "ts": "s.ts"}),
            id="some columns, of both sides",
        ),
    ],
)  # fmt: skip
def test_merges_leave_the_rows_that_hudis_leave(
    hudi: HudiProcess, spark: SparkSession, tmp_path: Path, payload: str, entries: list[Entry], sql: str, add: Add
) -> None:
    hudis, ours = outcomes(hudi, spark, tmp_path, payload, entries, sql, add)
    assert ours == hudis
    assert ours != rows_of_stored()


def test_the_incoming_row_wins_in_merges_as_in_hudi_1_2(
    hudi_0_15: HudiProcess, hudi_1_2: HudiProcess, spark: SparkSession, tmp_path: Path
) -> None:
    entries = [("a", "north", 4, 9.0), ("b", "north", 4, -1.0), ("n", "east", 0, 9.0)]
    sql = f"{UPDATE_SQL.format('AND s.fare > 0')} WHEN MATCHED THEN DELETE {INSERT_SQL.format('')}"

    def add(writer: MergeIntoWriter) -> MergeIntoWriter:
        return writer.whenMatched("s.fare > 0").updateAll().whenMatched().delete().whenNotMatched().insertAll()

    hudis, ours = outcomes(hudi_1_2, spark, tmp_path / "1.2", LATEST_PAYLOAD, entries, sql, add)
    assert ours == hudis
    assert ours[0] == ("a", "north", 4, 9.0, "north")
    # 0.15.0 compares ordering values in merges, whatever the payload class.
    hudis, _ = outcomes(hudi_0_15, spark, tmp_path / "0.15", LATEST_PAYLOAD, entries, sql, add)
    assert hudis == [("a", "north", 5, 1.0, "north"), *ours[1:]]


def outcomes(
    hudi: HudiProcess, spark: SparkSession, folder: Path, payload: str, entries: list[Entry], sql: str, add: Add
) -> tuple[list[Entry], list[Entry]]:
    """The rows after Hudi's merge, and after hoodie's; real Hudi and hudi-rs read the same ones."""
    found = []
    for by_hudi in (True, False):
        base_path = folder / f"by_{'hudi' if by_hudi else 'hoodie'}"
        init(base_path, payload)
        with local_client(base_path) as client:
            client.upsert(rows(*STORED))
        if by_hudi:
            merge_with_hudi(hudi, base_path, entries, sql)
        else:
            on = "t.id = s.id AND t.region = s.region"
            add(hoodie.spark.merge_into(str(base_path), spark_rows(spark, *entries), on)).merge()
        assert len(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_completed_instants()) == 2
        found.append(rows_of(hudi.read(base_path)))
        assert rows_of(read_with_hudi_rs(base_path)) == found[-1]
    return found[0], found[1]


def rows_of_stored() -> list[Entry]:
    return sorted((*entry, entry[1]) for entry in STORED)


@pytest.mark.parametrize(
    ("operation", "options"),
    [
        ("upsert", {"hoodie.datasource.write.insert.drop.duplicates": "true"}),
        ("delete_partition", {"hoodie.datasource.write.partitions.to.delete": "*th,nowhere"}),
        ("delete_partition", {"hoodie.datasource.write.partitions.to.delete": "w%2At"}),
        ("delete_partition", {}),
    ],
)
def test_options_choose_the_rows_that_they_choose_in_hudi(
    hudi: HudiProcess, spark: SparkSession, tmp_path: Path, operation: str, options: dict[str, str]
) -> None:
    assert_same_rows(hudi, spark, tmp_path, operation, options)


@pytest.mark.table_versions(6, 9)
def test_the_policy_for_duplicates_is_that_of_hudi_1_2(
    hudi_1_2: HudiProcess, spark: SparkSession, tmp_path: Path
) -> None:
    # The data source of 0.15.0 does not read it.
    assert_same_rows(hudi_1_2, spark, tmp_path, "insert", {"hoodie.datasource.insert.dup.policy": "drop"})


def assert_same_rows(
    hudi: HudiProcess, spark: SparkSession, folder: Path, operation: str, options: dict[str, str]
) -> None:
    """Real Hudi's data source and `hoodie.spark.write` leave the same rows."""
    entries = [("a", "north", 9, 9.0), ("n", "north", 2, 2.0), ("a", "west", 1, 1.0)]
    found = []
    for by_hudi in (True, False):
        base_path = folder / f"by_{'hudi' if by_hudi else 'hoodie'}"
        init(base_path, DEFAULT_PAYLOAD)
        with local_client(base_path) as client:
            client.upsert(rows(*STORED))
        given = {**SIMPLE.hudi_options("trips"), "hoodie.datasource.write.payload.class": DEFAULT_PAYLOAD, **options}
        if by_hudi:
            hudi.write(base_path, rows(*entries), given, operation=operation)
        else:
            given["hoodie.datasource.write.operation"] = operation
            hoodie.spark.write(spark_rows(spark, *entries), str(base_path), given)
        found.append((rows_of(hudi.read(base_path)), rows_of(read_with_hudi_rs(base_path))))
    assert found[1] == found[0]
    assert found[0][0] != rows_of_stored()
