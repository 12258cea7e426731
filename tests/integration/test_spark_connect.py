"""The Spark client over Spark Connect.

A process has sessions of one kind, so each program here is a process of its own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pyspark
import pytest

HAS_CONNECT = int(pyspark.__version__.split(".")[0]) >= 4 and importlib.util.find_spec("grpc") is not None
pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(not HAS_CONNECT, reason="needs PySpark 4 with the packages of its extra 'connect'"),
]

PREAMBLE = """
    import json, os, sys, warnings
    warnings.simplefilter("ignore")
    from pyspark.sql import SparkSession
    import hoodie, hoodie.metadata, hoodie.spark
    from hoodie import HoodieKey, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
    from hoodie.exception import HoodieException

    spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "4").getOrCreate()
    assert "connect" in type(spark).__module__, type(spark)
    path = sys.argv[1] + "/t"
    HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="region", ordering_fields="ts"
    )
    facts = {}

    def client(**properties):
        given = {"hoodie." + key.replace("_", "."): value for key, value in properties.items()}
        return SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(path, given))

    def rows(count, ts):
        return spark.range(count).selectExpr(
            "concat('some-key-', id) id", "concat('r', id % 3) region", f"{ts}L ts", "double(id) fare"
        )

    def stored():
        columns = ["id", "region", "ts", "fare"]
        local = sorted(tuple(row.values()) for row in hoodie.read_table(path, columns=columns).to_pylist())
        assert sorted(map(tuple, hoodie.spark.read(spark, path).select(columns).collect())) == local
        return local
"""
OPERATIONS = """
    facts["empty"] = hoodie.spark.read(spark, path).count()
    with client() as c:
        facts["bulk_insert"] = c.bulk_insert(rows(300, 1)).inserted_count
        facts["stored after bulk_insert"] = stored()
        upserted = c.upsert(rows(400, 2).where("id > 'some-key-2'").union(rows(9, 1)))
        facts["upsert"] = [upserted.updated_count, upserted.inserted_count]
        facts["stored after upsert"] = stored()
        facts["delete"] = c.delete(rows(200, 0).select("id", "region")).deleted_count
        facts["delete by key"] = c.delete([HoodieKey("some-key-200", "r2"), HoodieKey("nobody", "r1")]).deleted_count
        facts["delete by filter"] = c.delete(where=[("fare", ">=", 390.0)]).deleted_count
        facts["insert"] = c.insert(rows(10, 7)).inserted_count
        facts["stored after insert"] = stored()
        try:
            c.upsert(rows(5, 1).selectExpr("nullif(id, 'some-key-3') id", "region", "ts", "fare"))
        except HoodieException as error:
            facts["null key"] = [type(error).__name__, str(error)]
    other = path + "_buckets"
    HoodieTableMetaClient.init_table(other, table_name="t", record_key_fields="id", partition_fields="region")
    buckets = HoodieWriteConfig.from_properties(other, {"hoodie.index.type": "BUCKET"})
    with SparkRDDWriteClient(spark, buckets) as c:
        c.bulk_insert(rows(300, 1))
        c.upsert(rows(310, 2).where("id > 'some-key-2'"))
    stored_rows = hoodie.read_table(other, columns=["id", "region", "ts", "fare"]).to_pylist()
    facts["buckets"] = sorted(tuple(row.values()) for row in stored_rows)
    with client(auto_commit=False) as c:
        instant_time = c.start_commit()
        result = c.upsert(rows(5, 9), instant_time)
        facts["before commit"] = len([row for row in stored() if row[2] == 9])
        c.commit(instant_time, result)
        facts["after commit"] = len([row for row in stored() if row[2] == 9])
    # Above the limit everything is left to Spark.
    import hoodie.spark.spark_data
    hoodie.spark.spark_data.CLIENT_BYTES = 10
    with client() as c:
        joined = c.upsert(rows(20, 11).union(rows(5, 10)))
        facts["joined upsert"] = [joined.updated_count, joined.inserted_count]
        facts["after joined upsert"] = len([row for row in stored() if row[2] == 11])
    frame, stopped = rows(5, 12), []
    with client() as c:
        spark.stop()
        for call in (lambda: c.upsert(frame), client, lambda: hoodie.spark.read(spark, path)):
            try:
                call()
            except HoodieException as error:
                stopped.append(str(error))
    facts["stopped"] = stopped
    print(json.dumps(facts))
"""
LARGE_INPUTS = """
    import inspect
    import hoodie.spark.spark_data
    from hoodie.index.recordindex import record_index
    from hoodie.table.action.commit import incoming_keys
    from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor

    incoming_keys.KEY_BYTES = record_index.SHARED_KEY_BYTES = -1
    hoodie.spark.spark_data.CLIENT_BYTES = 10
    by_keys = []
    write_by_keys = BaseCommitActionExecutor._write_by_keys

    def watched(*arguments, **named):
        by_keys.append(inspect.signature(write_by_keys).bind(*arguments, **named).arguments["is_kept"])
        return write_by_keys(*arguments, **named)

    BaseCommitActionExecutor._write_by_keys = watched
    for name in ("RECORD_INDEX COPY_ON_WRITE", "BUCKET COPY_ON_WRITE", "BUCKET MERGE_ON_READ"):
        index, table_type = name.split()
        path = f"{sys.argv[1]}/{index}_{table_type}"
        HoodieTableMetaClient.init_table(
            path, table_name="t", record_key_fields="id", partition_fields="region", ordering_fields="ts",
            table_type=table_type,
        )
        properties = {"index_type": index}
        if index == "RECORD_INDEX":
            # The sample of a file group of the index has keys of all base files: then these are searched.
            properties["metadata_global_record_level_index_enable"] = "true"
            properties["metadata_global_record_level_index_min_filegroup_count"] = "1"
            properties["metadata_global_record_level_index_max_filegroup_count"] = "1"
        found = facts[name] = []
        with client(**properties) as c:
            for operation, given in (
                ("insert", rows(300, 1)),
                ("upsert", rows(400, 2).where("id > 'some-key-2'").union(rows(9, 1)).union(rows(300, 0))),
                ("delete", rows(500, 0).where("fare >= 200").select("id", "region")),
            ):
                result = getattr(c, operation)(given)
                columns = ["id", "region", "ts", "fare"]
                stored = sorted(tuple(row.values()) for row in hoodie.read_table(path, columns=columns).to_pylist())
                counts = [result.written_count, result.combined_count, result.unmatched_delete_count]
                found.append([operation, stored, counts, by_keys[:], hoodie.metadata.validate(path).is_right])
                del by_keys[:]
    print(json.dumps(facts))
"""
LOOKUPS = """
    with client() as c:
        c.upsert(rows(30, 1))
    given = rows(3, 5).union(rows(40, 5).where("id = 'some-key-39'"))
    for size in (None, -1):
        if size is not None:
            from hoodie.index.simple import simple_index
            from hoodie.table.action.commit import incoming_keys
            simple_index.SHARED_KEY_BYTES = incoming_keys.KEY_BYTES = size
        with hoodie.HoodieReadClient(spark, path) as c:
            found = c.read(given, ["id", "ts"]).collect()
            exist = c.check_exists([HoodieKey("some-key-1", "r1"), HoodieKey("some-key-1", "r2")]).collect()
            facts[str(size)] = {
                "read": sorted(map(tuple, found)),
                "check_exists": sorted(row.exists for row in exist),
                "filter_exists": [row.id for row in c.filter_exists(given).collect()],
                "tag_location": c.tag_location(given).where("__hoodie_current_file_id is null").count(),
            }
    print(json.dumps(facts))
"""
STREAM = """
    import shutil
    source, checkpoint = sys.argv[1] + "/source", sys.argv[1] + "/checkpoint"
    os.mkdir(source)
    options = {
        "hoodie.datasource.write.operation": "insert",
        "hoodie.datasource.write.streaming.checkpoint.identifier": "connected",
    }

    def add(number):
        with open(f"{source}/.{number}", "w") as file:
            print(json.dumps({"id": f"k{number}", "region": "r", "ts": number, "fare": 1.0}), file=file)
        os.rename(f"{source}/.{number}", f"{source}/{number}.json")

    def stream():
        frame = spark.readStream.schema("id string, region string, ts bigint, fare double")
        query = (
            frame.option("maxFilesPerTrigger", 1).json(source).writeStream
            .foreachBatch(hoodie.spark.foreach_batch_writer(path, options))
            .option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )
        try:
            query.awaitTermination(120)
        except Exception as error:
            return str(error)

    def found():
        commits = HoodieTableMetaClient.load(path).active_timeline.completed_writes()
        return [[row[0] for row in stored()], len(commits)]

    add(0)
    add(1)
    stream()
    facts["streamed"] = found()
    # The query died after its last batch was written.
    for name in ("1", ".1.crc"):
        os.remove(f"{checkpoint}/commits/{name}")
    stream()
    facts["repeated"] = found()
    add(2)
    stream()
    facts["continued"] = found()
    shutil.rmtree(checkpoint)
    facts["new folder"] = stream()
    facts["refused"] = found()
    print(json.dumps(facts))
"""
RDD_INPUT = """
    from pyspark import RDD
    with client() as c:
        try:
            c.upsert(object.__new__(RDD))
        except HoodieException as error:
            print(json.dumps([type(error).__name__, str(error)]))
"""
MERGE = """
    from pyspark.sql import functions as sf

    with client() as c:
        c.bulk_insert(rows(300, 1))
    source = rows(310, 2).where("id > 'some-key-2'")
    on = "t.id = s.id AND t.region = s.region"
    result = (
        hoodie.spark.merge_into(path, source, on)
        .whenMatched("s.fare >= 250").delete()
        .whenMatched(sf.col("s.fare") >= 200).update({"fare": "t.fare + 1000", "ts": sf.col("s.ts")})
        .whenNotMatched().insertAll()
        .merge()
    )
    facts["merge"] = [result.updated_count, result.deleted_count, result.inserted_count]
    facts["stored"] = stored()
    for writer, name in (
        (hoodie.spark.merge_into(path, source.union(source), on).whenMatched().updateAll(), "twice"),
        (hoodie.spark.merge_into(path, source, on).whenNotMatched().insert({"id": "t.id"}), "unresolved"),
    ):
        try:
            writer.merge()
        except HoodieException as error:
            facts[name] = [type(error).__name__, str(error)]
    hoodie.spark.write(source, path, {
        "hoodie.datasource.write.operation": "delete_partition", "hoodie.datasource.write.partitions.to.delete": "r*",
    })
    facts["left"] = stored()
    print(json.dumps(facts))
"""
PEAKS = """
    def peak():
        lines = open("/proc/self/status").read().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

    facts["peaks"] = []
    # The first writes load what is loaded once.
    for count in (20_000, 20_000, 200_000):
        with client() as c:
            c.bulk_insert(rows(count, 1))
            c.upsert(rows(count, 2))
            c.delete(rows(count, 2).select("id", "region"))
        facts["peaks"].append(peak())
    print(json.dumps(facts["peaks"]))
"""

DATA_SOURCE = """
    with client() as c:
        c.bulk_insert(rows(30, 1))
    source = spark.read.format("hoodie").option("filter", "fare >= 10").load(path)
    facts["same types"] = source.schema == hoodie.spark.read(spark, path).schema
    facts["read"] = source.count()
    stream = spark.readStream.format("hoodie").load(path).writeStream.format("memory").queryName("seen")
    stream.option("checkpointLocation", sys.argv[1] + "/c").trigger(availableNow=True).start().awaitTermination()
    facts["stream"] = spark.table("seen").count()
    rows(40, 2).write.format("hoodie").mode("append").save(path)
    facts["written"] = hoodie.spark.read(spark, path).count()
    copy = {
        "hoodie.table.name": "copy", "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.operation": "insert",
    }
    frame = spark.readStream.format("hoodie").load(path).select("id", "region", "ts", "fare")
    for checkpoint in ("d", "d", "e"):
        query = frame.writeStream.format("hoodie").options(**copy).trigger(availableNow=True)
        try:
            query.option("checkpointLocation", sys.argv[1] + "/" + checkpoint).start(path + "_copy").awaitTermination()
        except Exception as error:
            facts["new folder"] = str(error)
    facts["copied"] = hoodie.spark.read(spark, path + "_copy").count()
    print(json.dumps(facts))
"""


STREAMER = """
    from hoodie.utilities.streamer import HoodieStreamer, StreamerConfig

    source = sys.argv[1] + "/source"
    os.mkdir(source)
    for number in range(3):
        with open(f"{source}/{number}.json", "w") as file:
            print(json.dumps({"id": f"k{number}", "region": "r", "ts": number, "fare": 1.0}), file=file)
            print("no JSON", file=file)
    config = StreamerConfig(
        target_base_path=path, source_class="JsonDFSSource", ignore_checkpoint="first",
        transformer_classes=("SqlQueryBasedTransformer",),
    )
    properties = {
        "hoodie.streamer.source.dfs.root": source,
        "hoodie.streamer.transformer.sql": "select *, fare + 1 as more from <SRC> where id <> 'k1'",
        "hoodie.errortable.enable": "true",
    }
    result = HoodieStreamer(config, spark, properties).sync()
    facts["round"] = [result.rows, result.error_count, stored()]
    facts["again"] = HoodieStreamer(config, spark, properties).sync().is_committed
    print(json.dumps(facts))
"""


def run(program: str, folder: Path) -> Any:
    """What a program prints last."""
    file = folder / "program.py"
    file.write_text(textwrap.dedent(PREAMBLE) + textwrap.dedent(program))
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(Path(__file__).parents[2])}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_LOCAL_HOSTNAME": "127.0.0.1"}
    environment["PYSPARK_SUBMIT_ARGS"] = "--conf spark.ui.enabled=false pyspark-shell"
    done = subprocess.run(
        [sys.executable, str(file), str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_a_session_that_was_stopped_is_named(facts: dict[str, Any]) -> None:
    assert len(facts["stopped"]) == 3
    assert all(text.startswith("the Spark session was stopped") for text in facts["stopped"])


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the program of all operations found out."""
    found: dict[str, Any] = run(OPERATIONS, tmp_path_factory.mktemp("connect"))
    return found


def row(number: int, ts: int) -> list[Any]:
    return [f"some-key-{number}", f"r{number % 3}", ts, float(number)]


def test_rows_are_as_a_model_says_after_each_operation(facts: dict[str, Any]) -> None:
    model = {number: row(number, 1) for number in range(300)}
    assert (facts["empty"], facts["bulk_insert"]) == (0, 300)
    assert facts["stored after bulk_insert"] == sorted(model.values())
    changed = [number for number in range(400) if f"some-key-{number}" > "some-key-2"]
    assert facts["upsert"] == [len({n for n in changed if n < 300} | set(range(9))), sum(n >= 300 for n in changed)]
    model |= {number: row(number, 2) for number in changed}
    assert facts["stored after upsert"] == sorted(model.values())
    gone = {*range(201), *range(390, 400)}
    assert (facts["delete"], facts["delete by key"], facts["delete by filter"]) == (200, 1, 10)
    left = [values for number, values in model.items() if number not in gone]
    assert facts["insert"] == 10
    assert facts["stored after insert"] == sorted([*left, *(row(number, 7) for number in range(10))])


def test_buckets_are_those_of_python(facts: dict[str, Any]) -> None:
    changed = {number for number in range(310) if f"some-key-{number}" > "some-key-2"}
    assert facts["buckets"] == sorted(row(number, 2 if number in changed else 1) for number in {*range(300), *changed})


def test_a_row_without_a_key_is_named(facts: dict[str, Any]) -> None:
    name, text = facts["null key"]
    assert name == "HoodieKeyException"
    assert "1 of the records" in text


def test_manual_commit(facts: dict[str, Any]) -> None:
    assert (facts["before commit"], facts["after commit"]) == (0, 5)


def test_keys_above_the_limit_are_left_to_spark(facts: dict[str, Any]) -> None:
    assert facts["joined upsert"] == [10, 10]
    assert facts["after joined upsert"] == 20


@pytest.mark.slow
def test_many_keys_are_placed_by_tasks(tmp_path: Path) -> None:
    facts = run(LARGE_INPUTS, tmp_path)
    stored = {number: row(number, 1) for number in range(300)}
    changed = [number for number in range(400) if f"some-key-{number}" > "some-key-2"]
    upserted = {**stored, **{number: row(number, 2) for number in changed}}
    left = [values for number, values in upserted.items() if number < 200]
    given = {*changed, *range(300)}
    combined = len(changed) + 9 + 300 - len(given)
    assert len(facts) == 3
    for name, found in facts.items():
        ignored = 0 if "MERGE_ON_READ" in name else len(given) - len({*changed, *range(9)})
        assert [one[1] for one in found] == [sorted(stored.values()), sorted(upserted.values()), sorted(left)], name
        if "MERGE_ON_READ" in name:
            # Deletes are appended to the log files of their buckets without a look-up.
            found[2][2][2] = 300 - (len(upserted) - len(left))
        assert found == [
            ["insert", sorted(stored.values()), [300, 0, 0], [], True],
            ["upsert", sorted(upserted.values()), [len(given) - ignored, combined, 0], [True], True],
            ["delete", sorted(left), [0, 0, 300 - (len(upserted) - len(left))], [True], True],
        ], name


def test_a_stream_writes_each_batch_once(tmp_path: Path) -> None:
    facts = run(STREAM, tmp_path)
    assert facts["streamed"] == facts["repeated"] == [["k0", "k1"], 2]
    assert facts["continued"] == facts["refused"] == [["k0", "k1", "k2"], 3]
    assert "repeats its newest batch only" in facts["new folder"]


def test_the_streamer_reads_files_in_tasks(tmp_path: Path) -> None:
    facts = run(STREAMER, tmp_path)
    assert facts["round"] == [2, 3, [["k0", "r", 0, 1.0], ["k2", "r", 2, 1.0]]]
    assert facts["again"] is False


def test_merges_are_as_a_model_says(tmp_path: Path) -> None:
    facts = run(MERGE, tmp_path)
    model = {f"some-key-{number}": row(number, 1) for number in range(300)}
    counts = [0, 0, 0]
    for number in range(310):
        key = f"some-key-{number}"
        if key <= "some-key-2":
            continue
        if number >= 300:
            counts[2] += 1
            model[key] = row(number, 2)
        elif number >= 250:
            counts[1] += 1
            del model[key]
        elif number >= 200:
            counts[0] += 1
            model[key] = [*row(number, 2)[:3], number + 1000.0]
    assert facts["merge"] == counts and min(counts) > 0
    assert facts["stored"] == sorted(model.values())
    assert facts["twice"][0] == "HoodieKeyException" and "several rows of the source" in facts["twice"][1]
    assert facts["unresolved"][0] == "HoodieSchemaException" and "cannot be resolved" in facts["unresolved"][1]
    assert facts["left"] == []


FEW_ROWS = """
    with client() as c:
        c.upsert(rows(5000, 1))
        before = c.upsert(rows(6, 2))
        c.upsert(rows(3, 3))
    queries = {
        "key": {"filters": [("id", "in", ["some-key-7", "some-key-1", "nobody"])]},
        "nobody": {"filters": [("id", "=", "nobody")]},
        "commit": {"query_type": "incremental", "begin": before.completion_time or before.instant_time},
    }
    for name, query in queries.items():
        frames = [
            hoodie.spark.read(spark, path, {"hoodie.spark.read.driver.max.bytes": limit}, **query)
            for limit in (0, 1 << 20)
        ]
        scanned, by_driver = (sorted(map(repr, frame.collect())) for frame in frames)
        facts[name] = [len(by_driver), scanned == by_driver, frames[0].columns == frames[1].columns]
    print(json.dumps(facts))
"""


def test_the_driver_gives_few_rows(tmp_path: Path) -> None:
    assert run(FEW_ROWS, tmp_path) == {"key": [2, True, True], "nobody": [0, True, True], "commit": [3, True, True]}


def test_an_rdd_is_refused_with_the_way_out(tmp_path: Path) -> None:
    name, text = run(RDD_INPUT, tmp_path)
    assert name == "HoodieSchemaException"
    assert "no RDDs" in text and "DataFrame" in text


def test_keys_are_looked_up(tmp_path: Path) -> None:
    found = run(LOOKUPS, tmp_path)
    wanted = {
        "read": [[f"some-key-{number}", 1] for number in range(3)],
        "check_exists": [False, True],
        "filter_exists": ["some-key-39"],
        "tag_location": 1,
    }
    assert found == {"None": wanted, "-1": wanted}


def test_ten_times_the_input_needs_no_more_memory_of_the_client(tmp_path: Path) -> None:
    _, once, ten_times = run(PEAKS, tmp_path)
    assert ten_times <= 1.1 * once, (once, ten_times)


def test_tables_are_read_and_written_by_format(tmp_path: Path) -> None:
    facts = run(DATA_SOURCE, tmp_path)
    # The tasks know the id of the query, so a new checkpoint folder is found.
    assert "another checkpoint folder" in facts.pop("new folder")
    assert facts == {"same types": True, "read": 20, "stream": 30, "written": 40, "copied": 40}
