"""`hoodie.Table.merge` and `hoodie.spark.merge_into` leave the same rows, on random merges."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.spark
from hoodie import Table
from hoodie.exception import HoodieKeyException

pytestmark = [pytest.mark.spark, pytest.mark.metadata_table]

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()), ("note", pa.string())]
)
VALUES: list[tuple[dict[str, str], dict[str, Any]]] = [
    ({"fare": "s.fare", "ts": "s.ts"}, {"fare": hoodie.col("s.fare"), "ts": hoodie.col("s.ts")}),
    ({"fare": "t.fare + s.fare"}, {"fare": hoodie.col("t.fare") + hoodie.col("s.fare")}),
    ({"note": "'x'", "ts": "t.ts + 1"}, {"note": "x", "ts": hoodie.col("t.ts") + 1}),
    ({"note": "coalesce(s.note, t.note)"}, {"note": pc.coalesce(hoodie.col("s.note"), hoodie.col("t.note"))}),
]
"""Assignments of an update, for Spark and in this process."""
CONDITIONS = [
    None, "s.fare > t.fare", "s.fare <= 1", "t.note is null", "s.note = t.note", "not s.ts > t.ts", "s.fare <> 2",
    "t.id in ('a', 'c') or s.note is not null",
]  # fmt: skip
NEW_CONDITIONS = [None, "s.fare > 0", "s.note is not null", "not s.id in ('e', 'f')"]
INDEXES: list[dict[str, str]] = [
    {},
    {"hoodie.index.type": "BLOOM"},
    {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    {"hoodie.index.type": "GLOBAL_SIMPLE"},
    {"hoodie.index.type": "RECORD_INDEX", "hoodie.metadata.global.record.level.index.enable": "true"},
]


def random_rows(random: Random, ts: int, count: int, homes: dict[str, str] | None) -> pa.Table:
    """Rows of distinct keys, each in its own partition; with null values."""
    rows = []
    for key in random.sample("abcdefghij", count):
        region = random.choice("xyz") if homes is None else homes.setdefault(key, random.choice("xyz"))
        fare = random.choice([None, *map(float, range(-1, 4))])
        rows.append({"id": key, "region": region, "ts": ts + random.randrange(-1, 3), "fare": fare,
                     "note": random.choice([None, "p", "q"])})  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


def rows_of(path: str) -> list[tuple[Any, ...]]:
    """The rows, with the partition that each is in."""
    found = hoodie.read_table(path, columns=[*SCHEMA.names, "_hoodie_partition_path"]).to_pylist()
    return sorted((tuple(row.values()) for row in found), key=str)


def outcome(call: Callable[[], Any]) -> str:
    """Whether keys were refused."""
    try:
        call()
    except HoodieKeyException:
        return "refused"
    return "written"


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 24))])
def test_both_engines_leave_the_same_rows(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    options = INDEXES[seed % len(INDEXES)]
    is_global = "GLOBAL" in str(options) or "RECORD" in str(options)
    by_key = is_global or random.random() < 0.5
    homes: dict[str, str] = {}
    path, other = str(tmp_path / "local"), str(tmp_path / "spark")
    table = Table.create(
        path, random_rows(random, 5, 6, homes), record_key_fields="id", partition_fields="region",
        ordering_fields="ts", table_type=random.choice(["COPY_ON_WRITE", "MERGE_ON_READ"]),
        table_version=random.choice([6, 8, 9]), properties={"hoodie.metadata.enable": "true", **options},
    )  # fmt: skip
    if random.random() < 0.5:
        table.update("id < 'e'", {"ts": 6})
    shutil.copytree(path, other)
    for ts in (6, 7):
        moves = by_key and random.random() < 0.5
        source = random_rows(random, ts, 7, None if moves else homes)
        on = ["id"] if by_key else ["id", "region"]
        local = table.merge(source, on)
        frame = spark.createDataFrame(
            [tuple(row.values()) for row in source.to_pylist()],
            "id string, region string, ts bigint, fare double, note string",
        )
        remote = hoodie.spark.merge_into(other, frame, on, {"hoodie.metadata.enable": "true", **options})
        for _ in range(random.randrange(1, 5)):
            kind = random.choice(["update", "all", "delete", "insert", "some"])
            if kind in ("insert", "some"):
                condition = random.choice(NEW_CONDITIONS)
                new, when = local.when_not_matched(condition), remote.whenNotMatched(condition)
                if kind == "insert":
                    local, remote = new.insert_all(), when.insertAll()
                else:
                    local = new.insert({"region": hoodie.col("s.region"), "ts": hoodie.col("s.ts"), "note": "new"})
                    remote = when.insert({"id": "s.id", "region": "s.region", "ts": "s.ts", "note": "'new'"})
                continue
            condition = random.choice(CONDITIONS)
            old, whenever = local.when_matched(condition), remote.whenMatched(condition)
            if kind == "delete":
                local, remote = old.delete(), whenever.delete()
            elif kind == "all":
                local, remote = old.update_all(), whenever.updateAll()
            else:
                texts, values = random.choice(VALUES)
                local, remote = old.update(values), whenever.update(texts)
        assert outcome(local.run) == outcome(remote.merge)
        assert rows_of(path) == rows_of(other)
        for row in hoodie.read_table(path, columns=["id", "region"]).to_pylist():
            homes[row["id"]] = row["region"]


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("table_version", [6, 9])
def test_keys_that_a_log_file_deletes_are_inserted_again(
    spark: SparkSession, tmp_path: Path, index: str, table_version: int
) -> None:
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": "1"}
    table = Table.create(
        tmp_path / "t", [{"id": key, "ts": 1, "fare": 1.0} for key in "abc"], record_key_fields="id",
        ordering_fields="ts", table_type="MERGE_ON_READ", table_version=table_version, properties=options,
    )  # fmt: skip
    table.delete(where="id < 'c'")
    frame = spark.createDataFrame([(key, 2, 2.0) for key in "acd"], "id string, ts bigint, fare double")
    merge = hoodie.spark.merge_into(str(tmp_path / "t"), frame, "id", options)
    merge.whenNotMatched().insertAll().whenMatched().update({"fare": "t.fare + s.fare"}).merge()
    assert sorted(table.read()["fare"].to_pylist()) == [2.0, 2.0, 3.0]
    table.merge([{"id": "b", "ts": 3, "fare": 5.0}]).when_not_matched().insert_all().run()
    assert sorted(zip(*table.read(["id", "fare"]).to_pydict().values(), strict=True)) == [
        ("a", 2.0), ("b", 5.0), ("c", 3.0), ("d", 2.0),
    ]  # fmt: skip
