"""The Spark client, end to end on local files."""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark
from hoodie import HoodieKey, HoodieTableMetaClient, SparkRDDWriteClient
from hoodie.exception import HoodieConfigException, HoodieKeyException, HoodieSchemaException, HoodieWriteException
from hoodie.index.simple import global_simple_index
from hoodie.table.action.commit import incoming_keys
from hoodie.table.repair import drop_duplicates
from tests.support.hookable_storage import LARGE, watch_writes
from tests.support.table_builder import spark_rows, write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark


def init(path: Path, **arguments: Any) -> str:
    given = dict(record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]) | arguments
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **given)
    return str(path)


def client(spark: SparkSession, base_path: str, **properties: Any) -> SparkRDDWriteClient:
    return SparkRDDWriteClient(spark, write_config(base_path, **properties))


def both_readers(spark: SparkSession, base_path: str) -> list[tuple[Any, ...]]:
    """The rows by hoodie's own reader, which must be those of Spark's."""
    names = ["id", "region", "ts", "fare"]
    local = sorted(tuple(row.values()) for row in hoodie.read_table(base_path, columns=names).to_pylist())
    assert sorted(tuple(row) for row in hoodie.spark.read(spark, base_path).select(names).collect()) == local
    return local


def test_all_operations_against_a_model(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    model = {f"k{i}": (f"k{i}", "xyz"[i % 3], 5, float(i)) for i in range(200)}
    with client(spark, base_path, parquet_small_file_limit=0) as c:
        result = c.bulk_insert(spark_rows(spark, *model.values()))
        assert result.inserted_count == 200
        changes = [(f"k{i}", "xyz"[i % 3], 4 if i % 2 else 5, -1.0) for i in range(150, 250)]
        result = c.upsert(spark_rows(spark, *changes, ("k249", "y"[0], 9, 7.0), ("k249", "y", 8, 6.0)))
        for change in [*changes, ("k249", "y", 9, 7.0)]:
            key = change[0] if change[1] == "xyz"[int(change[0][1:]) % 3] else change[0] + change[1]
            if key not in model or model[key][2] <= change[2]:
                model[key] = change
        assert both_readers(spark, base_path) == sorted(model.values())
        deleted = c.delete(spark_rows(spark, *changes[:10]).select("region", "id"))
        assert deleted.deleted_count == 10
        assert c.delete([HoodieKey("k0", "x"), HoodieKey("nobody", "x")]).deleted_count == 1
        for change in changes[:10]:
            del model[change[0]]
        del model["k0"]
        assert both_readers(spark, base_path) == sorted(model.values())
        c.insert(spark_rows(spark, ("k1", "y", 1, 1.0)))
    assert both_readers(spark, base_path) == sorted([*model.values(), ("k1", "y", 1, 1.0)])


def test_manual_commit(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path, auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(spark_rows(spark, ("a", "x", 1, 1.0)), instant_time)
        assert not result.is_committed
        assert hoodie.read_table(base_path).num_rows == 0
        assert c.commit(instant_time, result)
    assert both_readers(spark, base_path) == [("a", "x", 1, 1.0)]


def test_each_bucket_has_a_task_of_its_own(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path) as c:
        result = c.upsert(spark_rows(spark, *((f"k{i}", f"p{i % 7}", 1, 1.0) for i in range(70))))
        again = c.upsert(spark_rows(spark, *((f"k{i}", f"p{i % 7}", 2, 1.0) for i in range(70))))
    for written in (result, again):
        tokens = {status.stat.path.split("_")[1] for status in written}
        assert len(written) == 7
        assert len({token.split("-")[0] for token in tokens}) == 7
        assert len({token.split("-")[2] for token in tokens}) == 7


def test_a_large_bucket_is_begun_first_and_the_others_do_not_wait_behind_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base_path = init(tmp_path / "t")
    others = [f"p{number}" for number in range(6)]
    sizes = {**dict.fromkeys(others, 10), LARGE: 3000}
    with client(spark, base_path) as c:
        c.insert(spark_rows(spark, *((f"{p}{i}", p, 1, 1.0) for p, count in sizes.items() for i in range(count))))
        storage = watch_writes(monkeypatch, tmp_path / "t", len(others))
        result = c.upsert(spark_rows(spark, *((f"{p}0", p, 2, 2.0) for p in sizes)))
    begun = storage.begun()
    assert sorted(begun) == sorted([LARGE, *others]), "the large bucket waited in vain: others waited behind it"
    (large,) = (status.stat.path for status in result if status.stat.partition_path == LARGE)
    assert large.split("_")[1].startswith("0-"), "tasks start in the order of their numbers"


def test_keys_that_are_too_many_to_share_are_joined(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", 10)
    monkeypatch.setattr("hoodie.index.simple.simple_index.SHARED_KEY_BYTES", 10)
    base_path = init(tmp_path / "t")
    with client(spark, base_path, parquet_small_file_limit=0) as c:
        c.insert(spark_rows(spark, ("a", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        c.insert(spark_rows(spark, ("a", "x", 1, 2.0)))
        result = c.upsert(
            spark_rows(spark, ("a", "x", 2, 3.0), ("a", "y", 1, 4.0), ("b", "y", 2, 5.0), ("b", "y", 1, 6.0))
        )
    assert (result.updated_count, result.inserted_count) == (3, 1)
    assert both_readers(spark, base_path) == [
        ("a", "x", 2, 3.0), ("a", "x", 2, 3.0), ("a", "y", 1, 4.0), ("b", "y", 2, 5.0)
    ]  # fmt: skip


@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("are_shared", [True, False], ids=["keys shared", "keys joined"])
def test_records_without_effect_are_counted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, are_shared: bool
) -> None:
    if not are_shared:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 10)
    base_path = init(tmp_path / "t")
    with client(spark, base_path, index_type=index) as c:
        c.upsert(spark_rows(spark, ("late", "x", 5, 1.0), ("same", "x", 5, 1.0), ("gone", "y", 5, 1.0)))
        given = [("late", "x", 4, 2.0), ("same", "x", 5, 1.0), ("n", "x", 1, 1.0), ("n", "x", 2, 1.0)]
        upserted = c.upsert(spark_rows(spark, *given))
        deleted = c.delete([HoodieKey("gone", "y"), HoodieKey("nobody", "y"), HoodieKey("no one", "z")])
    assert (upserted.inserted_count, upserted.updated_count, upserted.unchanged_count) == (1, 1, 1)
    assert (upserted.ignored_count, upserted.combined_count) == (1, 1)
    assert (deleted.deleted_count, deleted.unmatched_delete_count) == (1, 2)
    assert "1 inserted, 1 updated (1 unchanged), 1 ignored as older, 1 duplicate combined" in repr(upserted)
    assert both_readers(spark, base_path) == [("late", "x", 5, 1.0), ("n", "x", 2, 1.0), ("same", "x", 5, 1.0)]


def test_inserts_count_deletes_that_they_pass_over(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    given = spark_rows(spark, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0))
    marked = given.withColumn("_hoodie_is_deleted", sf.col("id") != "a")
    with client(spark, base_path) as c:
        for result in (c.insert(marked), c.bulk_insert(marked)):
            assert (result.inserted_count, result.unmatched_delete_count) == (1, 2)


@pytest.mark.parametrize("operation", ["bulk_insert", "insert", "upsert"])
def test_bad_keys_are_named_and_nothing_stays(spark: SparkSession, tmp_path: Path, operation: str) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path) as c, pytest.raises(HoodieKeyException, match=r"2 of the records.*id"):
        getattr(c, operation)(spark_rows(spark, ("a", "x", 1, 1.0), (None, "x", 1, 1.0), ("", "y", 1, 1.0)))
    assert not list(Path(base_path).rglob("*.parquet"))
    assert len(HoodieTableMetaClient.load(base_path).active_timeline.filter_pending()) == 0


def test_null_ordering_values_are_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path) as c, pytest.raises(HoodieWriteException, match="ts"):
        c.upsert(spark_rows(spark, ("a", "x", None, 1.0)))


def test_other_input_is_refused_with_a_way_out(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path) as c, pytest.raises(HoodieSchemaException, match="createDataFrame"):
        c.upsert([{"id": "a"}])
    with pytest.raises(HoodieConfigException, match="INMEMORY"):
        client(spark, base_path, index_type="INMEMORY")


@pytest.fixture
def time_zone(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield request.param
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("time_zone", ["UTC", "Asia/Tokyo", "America/New_York"], indirect=True)
def test_timestamps_and_other_types_keep_their_values(spark: SparkSession, tmp_path: Path, time_zone: str) -> None:
    base_path = init(tmp_path / "t", partition_fields=(), ordering_fields=())
    frame = spark.sql(
        "select 'a' id, timestamp'2026-11-01 05:30:00Z' t, date'1969-12-31' d, cast(1.50 as decimal(10,2)) m, "
        "array(1, null) l, map('k', 2L) p, named_struct('s', 'x', 'b', X'00ff') r, 1.5f f, true o, cast(null as int) n"
    )
    with client(spark, base_path) as c:
        c.upsert(frame)
        c.upsert(frame.withColumn("o", ~frame["o"]))
    row = hoodie.read_table(base_path).to_pylist()[0]
    assert row["t"] == dt.datetime(2026, 11, 1, 5, 30, tzinfo=dt.UTC)
    assert (row["d"], str(row["m"]), row["l"], row["p"]) == (dt.date(1969, 12, 31), "1.50", [1, None], [("k", 2)])
    assert (row["r"], row["f"], row["o"], row["n"]) == ({"s": "x", "b": b"\x00\xff"}, 1.5, False, None)
    back = hoodie.spark.read(spark, base_path)
    assert (
        back.where("t = timestamp'2026-11-01 05:30:00Z' and d = date'1969-12-31' and m = 1.50 and r.s = 'x'").count()
        == 1
    )
    assert back.schema["t"].dataType.typeName() == "timestamp"


def test_the_callers_cache_stays(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    frame = spark_rows(spark, ("a", "x", 1, 1.0)).cache()
    frame.count()
    with client(spark, base_path) as c:
        c.upsert(frame)
    assert frame.storageLevel.useMemory
    assert frame.count() == 1
    frame.unpersist()


def test_input_that_differs_each_time_is_written_as_it_was_tagged(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    frame = spark.range(500).selectExpr("uuid() id", "'x' region", "1L ts", "rand() fare")
    with client(spark, base_path) as c:
        result = c.upsert(frame)
    keys = hoodie.read_table(base_path, columns=["id", "_hoodie_record_key"])
    assert result.inserted_count == 500
    assert keys["id"].to_pylist() == keys["_hoodie_record_key"].to_pylist()
    assert len(set(keys["id"].to_pylist())) == 500


SMALL_DRIVER = """
    import sys
    from pyspark.sql import SparkSession
    from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
    import hoodie

    spark = (
        SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g").config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    path = sys.argv[1]
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="region", ordering_fields="ts"
    )
    count = 4_000_000
    frame = spark.range(count).selectExpr(
        "concat('some-longer-key-', id) id", "concat('r', id % 3) region", "1L ts", "cast(id as double) fare"
    )
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
        client.bulk_insert(frame)
        result = client.upsert(frame.withColumn("ts", frame["ts"] + 1))
    assert (result.updated_count, result.inserted_count) == (count, 0), result
    total = 0
    for batch in hoodie.scan_table(path, columns=["ts"]):
        total += batch.num_rows
        assert set(batch["ts"].unique().to_pylist()) <= {2}
    assert total == count, total
    print("upserted", total)
"""

ONE_ATTEMPT = """
    import os, sys
    from pyspark.sql import SparkSession
    from hoodie import HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
    from hoodie.exception import HoodieKeyException

    spark = (
        SparkSession.builder.master("local[2,4]").config("spark.ui.enabled", "false")
        .config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1").getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    folder = sys.argv[1]
    path = folder + "/t"
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields="id")

    def note(batches):
        from pyspark import TaskContext
        context = TaskContext.get()
        open(f"{folder}/attempt-{context.partitionId()}-{context.attemptNumber()}", "w").close()
        yield from batches

    frame = spark.range(0, 10, 1, 2).selectExpr("nullif(cast(id as string), '7') id", "id v")
    frame = frame.mapInArrow(note, "id string, v bigint")
    for operation in ("bulk_insert", "upsert"):
        with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path)) as client:
            try:
                getattr(client, operation)(frame)
            except HoodieKeyException as error:
                assert "id" in str(error), error
            else:
                raise AssertionError("no error")
    print(sorted(name for name in os.listdir(folder) if name.startswith("attempt")))
"""


def run_program(text: str, folder: Path) -> str:
    program = folder / "program.py"
    program.write_text(textwrap.dedent(text))
    root = str(Path(__file__).parents[2])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": root}
    done = subprocess.run(
        [sys.executable, str(program), str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_mistakes_of_the_user_are_not_tried_again(spark: SparkSession, tmp_path: Path) -> None:
    assert run_program(ONE_ATTEMPT, tmp_path).strip() == "['attempt-0-0', 'attempt-1-0']"


@pytest.mark.slow
def test_an_upsert_of_four_million_rows_needs_a_driver_of_one_gigabyte(spark: SparkSession, tmp_path: Path) -> None:
    assert "upserted 4000000" in run_program(SMALL_DRIVER.replace("sys.argv[1]", "sys.argv[1] + '/t'"), tmp_path)


@pytest.mark.parametrize("joins", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_global_index_moves_keys_between_partitions(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joins: bool
) -> None:
    if joins:
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
        monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
    base_path = init(tmp_path / "t")
    with client(spark, base_path, index_type="GLOBAL_SIMPLE") as c:
        c.insert(spark_rows(spark, *((f"k{i}", "xy"[i % 2], 5, 0.0) for i in range(20)), ("k1", "z", 5, 0.0)))
        moves = [(f"k{i}", "z", 4 + i % 3, 1.0) for i in range(12)]
        c.upsert(spark_rows(spark, *moves, ("new", "z", 1, 1.0), ("new", "x", 2, 2.0)))
        c.delete(spark_rows(spark, ("k19", "", 0, 0.0)).select("id"))
    model = {f"k{i}": (f"k{i}", "xy"[i % 2], 5, 0.0) for i in range(19)}
    model |= {move[0]: move for move in moves if move[2] >= 5} | {"new": ("new", "x", 2, 2.0)}
    assert both_readers(spark, base_path) == sorted(model.values())


@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_SORT", "PARTITION_PATH_REPARTITION_AND_SORT"])
def test_bulk_insert_sorts(spark: SparkSession, tmp_path: Path, mode: str) -> None:
    base_path = init(tmp_path / "t")
    entries = [(f"k{i * 7919 % 3000:04d}", "xyz"[i % 3], i, 0.0) for i in range(3000)]
    with client(spark, base_path, bulkinsert_sort_mode=mode, bulkinsert_shuffle_parallelism=2) as c:
        result = c.bulk_insert(spark_rows(spark, *entries).repartition(3))
    assert both_readers(spark, base_path) == sorted(entries)
    ranges = []
    for status in result.statuses:
        keys = pq.read_table(f"{base_path}/{status.stat.path}", columns=["_hoodie_record_key"])[0].to_pylist()
        ranges.append((status.partition_path, keys[0], keys[-1]))
        assert mode.startswith("PARTITION_PATH") or keys == sorted(keys)
    ranges.sort()
    if mode == "GLOBAL_SORT":
        assert all(a[0] != b[0] or a[2] < b[1] for a, b in pairwise(ranges))
        assert len(ranges) <= 4
    if mode == "PARTITION_PATH_REPARTITION_AND_SORT":
        assert len(ranges) == 3
    if mode == "PARTITION_SORT":
        assert len(ranges) == 6


def test_inserts_of_known_keys_are_dropped(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path, datasource_insert_dup_policy="drop") as c:
        c.insert(spark_rows(spark, ("a", "x", 1, 1.0)))
        c.insert(spark_rows(spark, ("a", "x", 2, 2.0), ("b", "x", 2, 2.0), ("b", "x", 3, 3.0)))
        c.bulk_insert(spark_rows(spark, ("a", "x", 2, 2.0), ("c", "x", 2, 2.0)))
    assert both_readers(spark, base_path) == [("a", "x", 1, 1.0), ("b", "x", 3, 3.0), ("c", "x", 2, 2.0)]


def test_rows_that_were_read_go_back_without_a_look_up(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path) as c:
        c.upsert(spark_rows(spark, *((f"k{i}", "xy"[i % 2], 1, float(i)) for i in range(50))))
        stored = hoodie.spark.read(spark, base_path)
        result = c.upsert_prepped_records(stored.where("fare < 20").withColumn("fare", sf.col("fare") + 100))
        assert result.updated_count == 20
        with pytest.raises(HoodieKeyException, match="do not carry their location"):
            c.upsert_prepped_records(spark_rows(spark, ("k1", "y", 1, 1.0)))
    expected = [(f"k{i}", "xy"[i % 2], 1, i + 100.0 if i < 20 else float(i)) for i in range(50)]
    assert both_readers(spark, base_path) == sorted(expected)


def test_duplicates_of_keys_are_dropped_by_their_places(spark: SparkSession, tmp_path: Path) -> None:
    base_path = init(tmp_path / "t")
    with client(spark, base_path, parquet_small_file_limit=0) as c:
        c.insert(spark_rows(spark, ("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "y", 1, 1.0)))
        c.insert(spark_rows(spark, ("a", "x", 3, 3.0), ("a", "x", 2, 2.0), ("c", "x", 1, 1.0)).coalesce(1))
        assert drop_duplicates(c).key_count == 1
        assert drop_duplicates(c).rows == ()
    expected = [("a", "x", 3, 3.0), ("b", "x", 1, 1.0), ("c", "x", 1, 1.0), ("c", "y", 1, 1.0)]
    assert both_readers(spark, base_path) == expected
    check_table(base_path)
