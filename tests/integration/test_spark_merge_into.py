"""`hoodie.spark.merge_into`: update, delete and insert in one commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
import hoodie.spark
from hoodie import HoodieTableMetaClient
from hoodie.exception import (
    HoodieConfigException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieValidationException,
    HoodieWriteConflictException,
    TableNotFoundException,
)
from hoodie.spark.merge_writer import MergeIntoWriter
from tests.support.table_builder import (
    init_table,
    instants,
    local_client,
    read_placed_trips,
    read_rows,
    read_trips,
    rows,
    spark_rows,
)

pytestmark = pytest.mark.spark

ON = "t.id = s.id AND t.region = s.region"
STORED = (("a", "x", 5, 1.0), ("b", "x", 5, 2.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0))
OVERWRITE = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(*STORED))
    return path


def kept_frames(spark: SparkSession) -> set[int]:
    return set(spark.sparkContext._jsc.getPersistentRDDs().keySet())  # type: ignore[union-attr]


def merge(
    path: str, source: DataFrame, on: str | list[str] = ON, options: Mapping[str, Any] | None = None, **named: Any
) -> MergeIntoWriter:
    return hoodie.spark.merge_into(path, source, on, options, **named)


def test_one_commit_updates_deletes_and_inserts(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(
        spark, ("a", "x", 6, 10.0), ("b", "x", 6, -1.0), ("c", "y", 6, 0.0), ("e", "z", 6, 5.0), ("f", "z", 6, -1.0)
    )
    seen: list[Any] = []
    writer = merge(base_path, source, on_progress=seen.append)
    result = (
        writer.whenMatched("s.fare < 0").delete()
        .whenMatched("s.fare > t.fare").update({"fare": "t.fare + s.fare", "ts": sf.col("s.ts")})
        .whenNotMatched("s.fare > 0").insertAll()
        .merge()
    )  # fmt: skip
    assert (result.operation.value, result.is_committed, bool(seen)) == ("UPSERT", True, True)
    assert (result.updated_count, result.deleted_count, result.inserted_count) == (1, 1, 1)
    assert read_trips(base_path) == [("a", "x", 6, 11.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0), ("e", "z", 6, 5.0)]
    assert [action for _, action, _ in instants(base_path)] == ["commit", "commit"]
    # The operation of a row is not a column of the table.
    assert HoodieTableMetaClient.load(base_path).load_schema().names == ["id", "region", "ts", "fare"]
    with pytest.raises(HoodieConfigException, match="without clauses does nothing"):
        writer.merge()


def test_the_first_clause_that_applies_counts(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(spark, *((key, region, 6, 0.0) for key, region, _, _ in STORED), ("n", "x", 6, 0.0))
    clauses = (
        merge(base_path, source).whenMatched("t.id = 'a'").update({"fare": 11, "ts": "s.ts"})
        .whenMatched("t.id IN ('a', 'b')").delete()
        .whenMatched("t.id = 'b'").update({"fare": 22})
        .whenMatched(sf.col("t.id") == "c").delete()
        .whenMatched("CAST(NULL AS BOOLEAN)").delete()
        .whenNotMatched("s.id = 'n'").insert({"id": "s.id", "t.region": "s.region", "ts": 7})
        .whenNotMatched().insertAll()
    )  # fmt: skip
    clauses.merge()
    # What no clause applies to stays; a column that an insert does not assign is null.
    assert read_trips(base_path) == [("a", "x", 6, 11.0), ("d", "y", 5, 4.0), ("n", "x", 7, None)]
    commit_times = hoodie.read_table(base_path, columns=["id", "_hoodie_commit_time"]).to_pylist()
    times = {row["id"]: row["_hoodie_commit_time"] for row in commit_times}
    assert times["d"] < times["a"] == times["n"]


def test_a_merge_without_inserts_or_without_rows_that_match(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(spark, ("a", "x", 6, 9.0), ("n", "x", 6, 9.0))
    merge(base_path, source, ["id", "region"]).whenMatched().updateAll().merge()
    assert read_trips(base_path)[0] == ("a", "x", 6, 9.0)
    assert len(read_trips(base_path)) == 4
    result = merge(base_path, source).whenMatched("false").delete().merge()
    assert (result.is_committed, result.statuses) == (True, ())
    merge(base_path, source).whenNotMatched().insertAll().merge()
    assert ("n", "x", 6, 9.0) in read_trips(base_path)


def test_columns_of_the_source_may_have_other_names_types_and_order(spark: SparkSession, base_path: str) -> None:
    source = spark.createDataFrame(
        [("ignored", "x", "a", 6, 7), ("ignored", "z", "n", 6, 8)],
        "more string, area string, `Key` string, TS int, fare int",
    )
    on = "(new.`key` = old.id) AND new.area = old.region"
    writer = merge(base_path, source, on, target_alias="old", source_alias="new")
    writer.whenMatched("new.fare > old.fare").updateAll().whenNotMatched().insertAll().merge()
    assert read_trips(base_path)[0] == ("a", "x", 6, 7.0)
    assert read_trips(base_path)[-1] == ("n", "z", 6, 8.0)


def test_a_source_read_from_the_table_itself(spark: SparkSession, base_path: str) -> None:
    own = hoodie.spark.read(spark, base_path).where("region = 'x'")
    writer = merge(base_path, own).whenMatched("s.id = 'a'").delete()
    writer.whenMatched().update({"fare": "s.fare + t.fare", "ts": "t.ts + 1"}).merge()
    assert read_trips(base_path) == [("b", "x", 6, 4.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0)]


def test_a_source_that_changes_is_computed_once(spark: SparkSession, base_path: str, tmp_path: Path) -> None:
    computed = tmp_path / "computed"

    def count(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            with open(computed, "a") as file:
                file.write("x" * batch.num_rows)
            yield batch

    entries = [("a", "x", 6, 9.0), ("n", "x", 6, 9.0), ("o", "x", 6, 9.0)]
    before = kept_frames(spark)
    source = spark_rows(spark, *entries)
    source = source.mapInArrow(count, source.schema)
    merge(base_path, source).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert read_trips(base_path) == sorted([*entries, *STORED[1:]])
    assert computed.read_text() == "xxx"
    assert kept_frames(spark) == before


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 4))])
def test_merges_are_as_a_model_says(spark: SparkSession, base_path: str, seed: int) -> None:
    random = Random(seed)
    model = {(row[0], row[1]): row for row in STORED}
    options = {"hoodie.index.type": random.choice(["SIMPLE", "BLOOM"])}
    for ts in (6, 7):
        places = {(random.choice("abcdefgh"), random.choice("xyz")) for _ in range(9)}
        source = [(*place, ts, float(random.randrange(-2, 4))) for place in sorted(places)]
        least, most = random.randrange(-2, 2), random.randrange(2, 5)
        clauses = [
            ("delete", f"s.fare <= {least}", lambda old, new, least=least: new[3] <= least),
            ("update", f"t.fare < {most}", lambda old, new, most=most: old[3] < most),
            ("insert", "s.fare >= 0", lambda old, new: new[3] >= 0),
            ("delete", "t.id > 'c'", lambda old, new: old[0] > "c"),
            ("insert", "s.id < 'e'", lambda old, new: new[0] < "e"),
        ]
        random.shuffle(clauses)
        writer = merge(base_path, spark_rows(spark, *source), ON, options)
        for kind, condition, _ in clauses:
            if kind == "insert":
                writer = writer.whenNotMatched(condition).insertAll()
            elif kind == "update":
                writer = writer.whenMatched(condition).update({"fare": "s.fare - t.fare", "ts": "s.ts"})
            else:
                writer = writer.whenMatched(condition).delete()
        writer.merge()
        for new in source:
            old = model.get(new[:2])
            kinds = ("insert",) if old is None else ("update", "delete")
            kind = next((kind for kind, _, applies in clauses if kind in kinds and applies(old, new)), None)
            if kind == "insert":
                model[new[:2]] = new
            elif kind == "update" and old is not None:
                model[new[:2]] = (*new[:3], new[3] - old[3])
            elif kind == "delete":
                del model[new[:2]]
        assert read_trips(base_path) == sorted(model.values())


def test_an_older_update_is_ignored_as_in_an_upsert_and_a_delete_is_not(spark: SparkSession, tmp_path: Path) -> None:
    late = spark_rows(spark, ("a", "x", 4, 9.0), ("b", "x", 4, 9.0))
    for name, payload, fare in (("default", None, 1.0), ("latest", OVERWRITE, 9.0)):
        properties = {} if payload is None else {"hoodie.compaction.payload.class": payload}
        path = init_table(tmp_path / name, properties=properties)
        with local_client(path) as client:
            client.upsert(rows(*STORED[:2]))
        result = merge(path, late).whenMatched("t.id = 'b'").delete().whenMatched().updateAll().merge()
        assert result.deleted_count == 1
        assert [(row[0], row[3]) for row in read_trips(path)] == [("a", fare)]


@pytest.mark.parametrize(
    ("entries", "keys"),
    [
        ((("a", "x", 6, 1.0), ("a", "x", 7, 2.0), ("b", "x", 6, 1.0)), "1 keys of the target, such as id = 'a'"),
        ((("n", "x", 6, 1.0), ("n", "x", 6, 1.0)), "1 keys of the target, such as id = 'n', region = 'x'"),
    ],
)
def test_several_rows_of_the_source_for_one_key_are_refused(
    spark: SparkSession, base_path: str, entries: tuple[Any, ...], keys: str
) -> None:
    writer = merge(base_path, spark_rows(spark, *entries)).whenMatched().updateAll().whenNotMatched().insertAll()
    with pytest.raises(HoodieKeyException, match=f"several rows of the source apply to each of {keys}"):
        writer.merge()
    assert read_trips(base_path) == sorted(STORED)
    assert len(instants(base_path)) == 1


def test_rows_of_one_key_that_no_clause_applies_to_are_no_matter(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(spark, ("a", "x", 6, 1.0), ("a", "x", 7, 2.0), ("n", "x", 1, 0.0), ("n", "x", 1, 0.0))
    merge(base_path, source).whenMatched("s.ts = 7").updateAll().merge()
    assert read_trips(base_path)[0] == ("a", "x", 7, 2.0)


def test_a_key_that_is_stored_twice_is_refused(spark: SparkSession, base_path: str) -> None:
    with local_client(base_path) as client:
        client.insert(rows(("a", "x", 5, 7.0)))
    source = spark_rows(spark, ("a", "x", 6, 9.0), ("b", "x", 6, 9.0))
    with pytest.raises(
        HoodieKeyException, match="1 keys that the merge changes are stored more than once, .* id = 'a'"
    ):
        merge(base_path, source).whenMatched().updateAll().merge()
    # A clause that applies to one of them would change both, whatever becomes of other rows.
    late = spark_rows(spark, ("a", "x", 6, 9.0), ("b", "x", 1, 9.0))
    for writer in (
        merge(base_path, late).whenMatched("t.fare = 7").delete().whenMatched("t.id = 'b'").updateAll(),
        merge(base_path, late).whenMatched("t.fare = 1").updateAll().whenMatched("t.id = 'b'").updateAll(),
    ):
        with pytest.raises(HoodieValidationException, match="it did not match 1 stored rows"):
            writer.merge()
    merge(base_path, source).whenMatched("s.id = 'b'").updateAll().merge()
    assert read_trips(base_path)[:3] == [("a", "x", 5, 1.0), ("a", "x", 5, 7.0), ("b", "x", 6, 9.0)]


@pytest.mark.parametrize("assignments", [{"id": "concat(s.id, '!')"}, {"region": "'z'"}, {"id": "'q'", "fare": 1.0}])
def test_no_clause_changes_a_key(spark: SparkSession, base_path: str, assignments: dict[str, Any]) -> None:
    source = spark_rows(spark, ("a", "x", 6, 1.0), ("n", "x", 6, 1.0))
    with pytest.raises(HoodieKeyException, match=r"1 rows would get another key .* such as id = 'a', region = 'x'"):
        merge(base_path, source).whenMatched().update(assignments).merge()
    whole = {"id": "s.id", "region": "s.region", "ts": "s.ts", **assignments}
    with pytest.raises(HoodieKeyException, match=r"1 rows would get another key .* such as id = 'n', region = 'x'"):
        merge(base_path, source).whenNotMatched().insert(whole).merge()
    assert read_trips(base_path) == sorted(STORED)
    # As Hudi's statements do.
    same = {"id": "s.id", "region": "s.region", "fare": "s.fare + 1", "ts": "s.ts"}
    merge(base_path, source).whenMatched().update(same).merge()
    assert read_trips(base_path)[0] == ("a", "x", 6, 2.0)


def test_null_keys_are_refused_and_match_nothing(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(spark, (None, "x", 6, 1.0), (None, "x", 6, 2.0), ("a", "x", 6, 3.0))
    with pytest.raises(HoodieKeyException, match="have no usable key"):
        merge(base_path, source).whenNotMatched().insertAll().merge()
    merge(base_path, source).whenMatched().updateAll().merge()
    assert read_trips(base_path)[0] == ("a", "x", 6, 3.0)


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_a_global_index_finds_and_moves_rows_by_the_record_key(spark: SparkSession, base_path: str, index: str) -> None:
    source = spark_rows(spark, ("a", "y", 6, 10.0), ("c", "z", 6, 1.0), ("n", "z", 6, 1.0))
    options = {"hoodie.index.type": index}
    with pytest.raises(HoodieConfigException, match="it compares region, and the index finds a key in all"):
        merge(base_path, source, ON, options).whenMatched().updateAll().merge()
    writer = merge(base_path, source, "t.id = s.id", options).whenMatched("s.id = 'c'").delete()
    writer.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert read_placed_trips(base_path) == [
        ("a", "y", 6, 10.0, "y"), ("b", "x", 5, 2.0, "x"), ("d", "y", 5, 4.0, "y"), ("n", "z", 6, 1.0, "z")
    ]  # fmt: skip


def test_rows_with_a_delete_flag_are_deleted_or_left_out(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    columns = "id string, fare double, _hoodie_is_deleted boolean"
    hoodie.spark.write(spark.createDataFrame([("a", 1.0, False), ("b", 2.0, None)], columns), path, options)
    source = spark.createDataFrame([("a", 3.0, True), ("b", 4.0, False), ("n", 5.0, True), ("o", 6.0, False)], columns)
    result = merge(path, source, "t.id = s.id").whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert (result.updated_count, result.deleted_count, result.inserted_count) == (1, 1, 1)
    assert read_rows(path, ["id", "fare"]) == [("b", 4.0), ("o", 6.0)]


def test_rows_that_the_condition_misses_and_the_index_finds_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hour = 3_600_000
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "ts",
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
    }
    hoodie.spark.write(spark_rows(spark, ("a", "x", hour, 1.0)), path, options)
    later = spark_rows(spark, ("a", "x", 2 * hour, 2.0))
    writer = merge(path, later, "t.id = s.id AND t.ts = s.ts").whenNotMatched().insertAll()
    with pytest.raises(HoodieValidationException, match="the condition of the merge: it did not match 1 stored rows"):
        writer.merge()
    assert read_trips(path) == [("a", "x", hour, 1.0)]


SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
}
UNGUARDED = {"hoodie.write.lock.single.writer.enable": "false", "hoodie.cleaner.policy.failed.writes": "NEVER"}


class Interposed:
    """Commits as another writer, between the plan of a merge and its commit."""

    def __init__(self, path: str, options: Mapping[str, Any], *entries: tuple[Any, ...]) -> None:
        self._path, self._options, self._entries = path, options, list(entries)

    def __call__(self, commit: Any) -> None:
        if self._entries:
            with local_client(self._path, self._options) as other:
                other.upsert(rows(self._entries.pop(0)))


@pytest.mark.parametrize(
    ("options", "entry", "text"),
    [
        (SEVERAL, ("a", "x", 7, 77.0), "changed 1 file groups of .* changed as well"),
        # The merge writes nothing where this row is. With another condition it might have.
        (SEVERAL, ("z", "w", 7, 77.0), "computed from the rows of the table, which are others now"),
        (UNGUARDED, ("a", "x", 7, 77.0), "another writer changed"),
        (UNGUARDED, ("z", "w", 7, 77.0), "another writer changed"),
    ],
)
def test_a_commit_of_another_writer_is_a_conflict(
    spark: SparkSession, base_path: str, options: dict[str, Any], entry: tuple[Any, ...], text: str
) -> None:
    source = spark_rows(spark, ("a", "x", 8, 1.0), ("b", "x", 8, 1.0))
    writer = merge(base_path, source, ON, options, validators=[Interposed(base_path, options, entry)])
    with pytest.raises(HoodieWriteConflictException, match=text) as raised:
        writer.whenMatched("t.fare < 2").update({"fare": "t.fare + 1", "ts": "s.ts"}).merge()
    assert raised.value.is_retry_safe
    assert read_trips(base_path) == sorted([*(row for row in STORED if row[0] != entry[0]), entry])


def test_a_merge_is_run_again_on_the_newer_rows(spark: SparkSession, base_path: str) -> None:
    options, before = {**SEVERAL, "hoodie.write.lock.wait.retry": "true"}, kept_frames(spark)
    source = spark_rows(spark, ("a", "x", 8, 1.0), ("n", "x", 8, 1.0))
    other = Interposed(base_path, options, ("a", "x", 7, 40.0), ("n", "x", 7, 50.0))
    writer = merge(base_path, source, ON, options, validators=[other])
    result = writer.whenMatched().update({"fare": "t.fare + s.fare", "ts": "s.ts"}).whenNotMatched().insertAll().merge()
    assert (result.updated_count, result.inserted_count) == (2, 0)
    stored = dict((row[0], row[3]) for row in read_trips(base_path))
    assert (stored["a"], stored["n"]) == (41.0, 51.0)
    assert kept_frames(spark) == before


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_values_that_do_not_fit_the_column_are_refused(
    spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest, ansi: str
) -> None:
    before_test = spark.conf.get("spark.sql.ansi.enabled")
    request.addfinalizer(lambda: spark.conf.set("spark.sql.ansi.enabled", str(before_test)))
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
    stored = spark.createDataFrame(
        [("a", 1, 1, Decimal("1.25"), 1.5, date(2026, 1, 1), "x", (1, "y"))],
        "id string, n int, big bigint, d decimal(5,2), f float, day date, note string, deep struct<a:int,b:string>",
    )
    hoodie.spark.write(stored, path, options)
    source = spark.sql("SELECT 'a' id, 3000000000L huge, 2.5D half")

    def update(**assignments: Any) -> None:
        merge(path, source, "t.id = s.id").whenMatched().update(assignments).merge()

    before = read_rows(path, ["n", "big", "d", "f", "note"])
    for bad, type_name, name in (
        ({"n": "s.huge"}, "bigint", "n"),
        ({"n": "s.half"}, "double", "n"),
        ({"n": "double('NaN')"}, "double", "n"),
        ({"d": "s.huge"}, "bigint", "d"),
        ({"d": "1.255BD"}, r"decimal\(4,3\)", "d"),
        ({"big": "s.half"}, "double", "big"),
        ({"f": "16777217"}, "int", "f"),
        ({"f": "1e300D"}, "double", "f"),
    ):
        text = rf"a value of type {type_name} to {name}, which as .* is another number, in 1 rows, such as id = 'a'"
        with pytest.raises(HoodieSchemaException, match=text):
            update(**bad)
    for bad, text in (
        ({"n": "'7'"}, "assigns a value of type string to n, which has the type int: cast it in the expression"),
        ({"day": "current_timestamp()"}, "type timestamp to day"),
        ({"deep": "named_struct('a', 1)"}, "to deep"),
        ({"n": "nowhere"}, r"clause 1 \(whenMatched, update\) of the merge cannot be resolved"),
        ({"n": "s.nowhere + 1"}, "nowhere"),
    ):
        with pytest.raises(HoodieSchemaException, match=text):
            update(**bad)
    assert read_rows(path, ["n", "big", "d", "f", "note"]) == before
    update(n="t.big + 6L", big="s.huge", d="t.n", f="s.half", note="s.huge", deep="named_struct('a', t.n, 'b', 'z')")
    (row,) = hoodie.read_table(path).to_pylist()
    found = (row["n"], row["big"], str(row["d"]), row["f"], row["note"], row["deep"])
    assert found == (7, 3_000_000_000, "1.00", 2.5, "3000000000", {"a": 1, "b": "z"})
    update(n=None, day=sf.lit(None), note=sf.lit("k"))
    (row,) = hoodie.read_table(path).to_pylist()
    assert (row["n"], row["day"], row["note"], row["big"]) == (None, None, "k", 3_000_000_000)


def test_nested_key_fields(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    options = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "who.id"}
    stored = spark.sql("SELECT named_struct('id', 1, 'name', 'ann') who, 5 fare")
    hoodie.spark.write(stored, path, options)
    source = spark.sql("SELECT smallint(1) id, 7 fare UNION ALL SELECT smallint(2), 8")
    writer = merge(path, source, "t.who.id = s.id").whenMatched().update({"fare": "s.fare"})
    insert = {"who": "named_struct('id', int(s.id), 'name', 'new')", "fare": "s.fare"}
    writer.whenNotMatched().insert(insert).merge()
    assert sorted((row["who"]["name"], row["fare"]) for row in hoodie.read_table(path).to_pylist()) == [
        ("ann", 7), ("new", 8)
    ]  # fmt: skip
    with pytest.raises(HoodieConfigException, match="does not assign who, which is part of the key"):
        merge(path, source, "t.who.id = s.id").whenNotMatched().insert({"fare": "s.fare"}).merge()
    with pytest.raises(HoodieKeyException, match="1 rows would get another key"):
        merge(path, source.where("id = 1"), "t.who.id = s.id").whenMatched().update(
            {"who": "named_struct('id', 3, 'name', t.who.name)"}
        ).merge()


@pytest.mark.parametrize(
    ("on", "add", "error", "text"),
    [
        ("t.region = s.region", lambda w: w.whenMatched().delete(), HoodieConfigException, "does not compare id"),
        (
            f"{ON} AND t.ts = s.ts",
            lambda w: w.whenMatched().delete(),
            HoodieConfigException,
            "it compares ts, which is not part of the key; put it into the condition of a clause",
        ),
        (
            "t.id = s.ts AND t.region = s.region",
            lambda w: w.whenMatched().delete(),
            HoodieSchemaException,
            "compares id of type string with ts of the source, of type bigint",
        ),
        (
            "t.id = s.key AND t.region = s.region",
            lambda w: w.whenMatched().delete(),
            HoodieSchemaException,
            "the condition of the merge cannot be resolved.*key",
        ),
        (
            ON,
            lambda w: w.whenMatched().update({"fair": 1.0}),
            HoodieConfigException,
            r"assigns to 'fair', which is not a column of the target \(did you mean 'fare'\?\); its columns are: id, "
            "region, ts, fare",
        ),
        (
            ON,
            lambda w: w.whenMatched().update({"fare": 1.0, "t.FARE": 2.0}),
            HoodieConfigException,
            r"clause 1 \(whenMatched, update\) assigns to fare more than once",
        ),
        (
            ON,
            lambda w: w.whenMatched().update({"fare": "sum(s.fare)"}),
            HoodieSchemaException,
            "the clauses of the merge cannot be resolved: .*GROUP BY",
        ),
        (ON, lambda w: w.whenMatched("s.ts").delete(), HoodieSchemaException, "has the type bigint: give one that"),
        (ON, lambda w: w.whenMatched("s.tz > 1").delete(), HoodieSchemaException, "clause 1 .* cannot be resolved"),
        (
            ON,
            lambda w: w.whenMatched().delete().whenNotMatched("t.ts > 1").insertAll(),
            HoodieSchemaException,
            r"clause 2 \(whenNotMatched, insert\) of the merge cannot be resolved",
        ),
        (
            ON,
            lambda w: w.whenNotMatched().insert({"id": "s.id", "region": "t.region"}),
            HoodieSchemaException,
            r"clause 1 \(whenNotMatched, insert\) of the merge cannot be resolved",
        ),
        (
            ON,
            lambda w: w.whenNotMatched().insert({"id": "s.id", "ts": "s.ts"}),
            HoodieConfigException,
            "does not assign region, which is part of the key",
        ),
    ],
)
def test_bad_clauses_are_named_before_an_instant_is_started(
    spark: SparkSession,
    base_path: str,
    monkeypatch: pytest.MonkeyPatch,
    on: str,
    add: Callable[[MergeIntoWriter], MergeIntoWriter],
    error: type[Exception],
    text: str,
) -> None:
    def never(*arguments: Any, **named: Any) -> Any:
        raise AssertionError("an instant was started")

    monkeypatch.setattr("hoodie.client.base_write_client.BaseHoodieWriteClient.start_commit", never)
    with pytest.raises(error, match=text):
        add(merge(base_path, spark_rows(spark, ("a", "x", 6, 1.0)), on)).merge()


def test_all_columns_need_all_columns(spark: SparkSession, base_path: str) -> None:
    source = spark_rows(spark, ("a", "x", 6)).withColumnRenamed("ts", "at")
    for writer in (
        merge(base_path, source).whenMatched().updateAll(),
        merge(base_path, source).whenNotMatched().insertAll(),
    ):
        with pytest.raises(HoodieConfigException, match="takes all columns from the source, which lacks ts, fare; its"):
            writer.merge()


def test_a_column_of_the_same_spelling_counts_where_case_does(spark: SparkSession, base_path: str) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        source = spark_rows(spark, ("a", "x", 6, 7.0)).withColumn("FARE", sf.lit(8.0))
        merge(base_path, source).whenMatched().updateAll().merge()
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert read_trips(base_path)[0] == ("a", "x", 6, 7.0)


def test_bad_arguments_are_refused(spark: SparkSession, base_path: str, tmp_path: Path) -> None:
    source = spark_rows(spark, ("a", "x", 6, 1.0))
    with pytest.raises(HoodieSchemaException, match="a merge takes a Spark DataFrame"):
        merge(base_path, source.toPandas())
    with pytest.raises(HoodieSchemaException, match="source is a streaming DataFrame"):
        merge(base_path, spark.readStream.format("rate").load())
    with pytest.raises(HoodieConfigException, match="has another form"):
        merge(base_path, source, "t.id = s.id OR true")
    with pytest.raises(HoodieConfigException, match="same alias, 's'"):
        merge(base_path, source, target_alias="S")
    with pytest.raises(HoodieConfigException, match="target_alias is 'a b'"):
        merge(base_path, source, target_alias="a b")
    for options, text in (
        ({"hoodie.datasource.write.operation": "insert"}, "operation = 'insert', and the argument says 'upsert'"),
        ({"hoodie.write.partial.update": "true"}, "a merge writes whole rows"),
        ({"hoodie.auto.commit": "false"}, "always commits"),
        ({"hoodie.datasource.write.insert.drop.duplicates": "true"}, "says what inserts do with them"),
        ({"hoodie.tabel.name": "t"}, "nearest: hoodie.table.name"),
    ):
        with pytest.raises(HoodieConfigException, match=text):
            merge(base_path, source, ON, options)
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.name = 'u'"):
        merge(base_path, source, ON, {"hoodie.table.name": "u"}).whenMatched().delete().merge()
    for assignments in ({}, ["fare"], None, {3: "s.fare"}):
        with pytest.raises(HoodieConfigException, match=r"update takes a dict of column|assigns to 3"):
            merge(base_path, source).whenMatched().update(assignments).merge()  # type: ignore[arg-type]
    with pytest.raises(TableNotFoundException):
        merge(str(tmp_path / "none"), source).whenMatched().delete().merge()
    empty = init_table(tmp_path / "empty")
    with pytest.raises(HoodieNotSupportedException, match="was never written, so it has no columns"):
        merge(empty, source).whenNotMatched().insertAll().merge()
    assert instants(empty) == []
