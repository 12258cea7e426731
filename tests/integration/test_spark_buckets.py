"""The first bulk insert with buckets: rows that the JVM places, held against the buckets that Python computes."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

import hoodie
from hoodie import HoodieTableMetaClient, SparkRDDWriteClient
from hoodie.config.index_config import BucketKeyRule
from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting, KeyColumns, WeightedBuckets
from hoodie.exception import HoodieKeyException
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, bucket_of_file_id
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.built_in_key_generators import ComplexKeyGenerator
from hoodie.spark import spark_data
from hoodie.spark.spark_data import SparkData
from hoodie.spark.spark_expressions import (
    BUCKET_BITS,
    BucketExpressions,
    bucket_expressions,
    with_bucket_numbers,
    with_insert_buckets,
)
from hoodie.spark.spark_types import spark_schema
from tests.support.table_builder import write_config
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.spark

BUCKETS = 7
KEYS = pa.schema(
    [("id", pa.string()), ("more", pa.string()), ("long", pa.int64()), ("int", pa.int32()), ("byte", pa.int8())]
)
SPECIAL = [
    "", "a", "trip-7", "é", "ß", "日本語", "\U0001f600", "a\U0001f600b\U0010ffff", "\U00010000" * 50, "\ud7ff\ue000",
    "\x00", "a\x00b", "x" * 100_000, "é\U0001f600" * 20_000, "__null__", "__empty__", "a,b", ",", ",,", "null",
    "é,\U0001f600", "-1", " ", "\n",
]  # fmt: skip
WITH_COLONS = ["a:b", ":", "id:7", "2024-01-01 10:00:00", "a:b,c", "id:1,more:2", ",:", "é:\U0001f600,"]
ALPHABETS = ["ab", "0123456789-", "aé\u07ff\u0800", "\uffff\U00010000\U0001f600\U0010ffffz", "a,b"]


def some_keys(with_colons: bool) -> list[str]:
    randoms = random.Random(7)
    alphabets = [*ALPHABETS, "a:,"] if with_colons else ALPHABETS
    made = ["".join(randoms.choices(randoms.choice(alphabets), k=randoms.randrange(1, 40))) for _ in range(600)]
    return [*SPECIAL, *(WITH_COLONS if with_colons else ()), *made]


def key_table(with_colons: bool) -> pa.Table:
    keys = some_keys(with_colons)
    randoms = random.Random(8)
    longs = [randoms.choice([0, -1, 1, 2**63 - 1, -(2**63), randoms.randrange(-(10**12), 10**12)]) for _ in keys]
    more = [*keys[1:], ""]
    nulls = [None] * 3
    columns = [[*keys, *nulls], [*more, "x", "", None], [*longs, *nulls]]
    columns += [[n % 2**31 * (-1) ** n for n in longs] + nulls, [n % 128 - 64 for n in longs] + nulls]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, KEYS, strict=True)], schema=KEYS)


def frame_of(spark: SparkSession, table: pa.Table) -> DataFrame:
    return spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], spark_schema(table.schema))


def routing_of(columns: Sequence[str], hashed: Sequence[str] = (), **other: Any) -> BucketRouting:
    given = {"partition_columns": (), "hive_style": False, "is_composite": len(columns) > 1}
    given |= {name: other.pop(name) for name in given if name in other}
    return BucketRouting(KeyColumns(tuple(columns), **given), tuple(hashed or columns), BUCKETS, **other)


def buckets_of(keys: pa.Array, columns: Sequence[str], hashed: Sequence[str], rule: BucketKeyRule) -> list[int | None]:
    """The bucket of each key; None for a null, or for a key that the rule refuses."""
    identifier = BucketIdentifier(BUCKETS, tuple(columns), tuple(hashed or columns), rule)
    found: list[int | None] = []
    for number in range(len(keys)):
        try:
            found.append(int(identifier.bucket_ids(keys.slice(number, 1))[0]) if keys[number].is_valid else None)
        except HoodieKeyException:
            found.append(None)
    return found


@pytest.fixture(params=["compiled", "interpreted"])
def evaluated(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[None]:
    """Spark interprets expressions where it cannot compile them."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    if request.param == "interpreted":
        for name, value in settings.items():
            spark.conf.set(name, value)
    yield
    for name in settings:
        spark.conf.unset(name)


@pytest.mark.parametrize("rule", list(BucketKeyRule))
def test_buckets_of_the_jvm_are_those_of_python(spark: SparkSession, evaluated: None, rule: BucketKeyRule) -> None:
    table = key_table(with_colons=True)
    frame = frame_of(spark, table)
    cases: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
        (("id",), ()), (("long",), ()), (("int",), ()), (("byte",), ()),
        (("id", "more"), ()), (("id", "long"), ("long",)), (("id", "more"), ("id",)), (("long", "more", "int"), ()),
    ]  # fmt: skip
    plain = rule is not BucketKeyRule.HUDI_0_15
    expressions = [
        bucket_expressions(frame, KEYS, routing_of(columns, hashed, has_plain_colons=plain))
        for columns, hashed in cases
    ]
    chosen: list[Column] = []
    for number, expression in enumerate(expressions):
        assert expression is not None
        chosen += [expression.file_group.alias(f"g{number}"), expression.record_key.alias(f"k{number}")]
    rows = frame.select(*chosen).collect()
    (batch,) = table.combine_chunks().to_batches()
    for number, (columns, hashed) in enumerate(cases):
        keys = ComplexKeyGenerator(columns, (), single_field_prefix=False).record_keys(batch)
        expected = buckets_of(keys, columns, hashed, rule)
        found = [row[f"g{number}"] for row in rows]
        assert all(
            row[f"k{number}"] in (key, "") or key is None for row, key in zip(rows, keys.to_pylist(), strict=True)
        )
        pairs = [(one, other) for one, other in zip(found, expected, strict=True) if None not in (one, other)]
        assert pairs
        assert all(one == other for one, other in pairs)
        # Those that only Python computes are few: they hold a comma, or a colon.
        left = [key for key, one in zip(keys.to_pylist(), found, strict=True) if one is None and key is not None]
        assert all("," in key if len(columns) == 1 and plain else {",", ":"} & set(key) for key in left)


def test_rows_of_one_partition_path_have_one_file_group(spark: SparkSession) -> None:
    schema = pa.schema(
        [
            ("id", pa.string()),
            ("a", pa.string()),
            ("b", pa.string()),
            ("n", pa.int32()),
            ("t", pa.bool_()),
            ("d", pa.date32()),
        ]
    )
    texts = [None, "", "__HIVE_DEFAULT_PARTITION__", "x", "x/y", "y", "y/b=z", "z", "x/b=y", "é", "%2F", "x%2Fy"]
    rows = [("k", a, b, number % 3 - 1, number % 2 == 0, number % 4) for number, a in enumerate(texts) for b in texts]
    table = pa.table(
        [pa.array(column, field.type) for column, field in zip(zip(*rows, strict=True), schema, strict=True)],
        schema=schema,
    )
    frame = spark.createDataFrame([tuple(row.values()) for row in table.to_pylist()], spark_schema(schema))
    (batch,) = table.combine_chunks().to_batches()
    for fields in (("a",), ("a", "b"), ("n",), ("t", "a"), ("d",), ("a", "n", "b")):
        for hive_style in (False, True):
            for escaped in (False, True):
                generator = ComplexKeyGenerator(("id",), fields, hive_style, escaped, False)
                paths = generator.partition_paths(batch).to_pylist()
                routing = routing_of(["id"], partition_columns=fields, hive_style=hive_style)
                found = bucket_expressions(frame, schema, routing)
                assert found is not None
                groups = [row[0] for row in frame.select(found.file_group).collect()]
                assert len({bucket & ((1 << BUCKET_BITS) - 1) for bucket in groups}) == 1
                by_path = {(path, group) for path, group in zip(paths, groups, strict=True) if path is not None}
                assert len(by_path) == len({path for path, _ in by_path}) > 1


ROWS = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])


def init(path: Path, **arguments: Any) -> str:
    given = dict(record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]) | arguments
    HoodieTableMetaClient.init_table(str(path), table_name="trips", **given)
    return str(path)


def rows_of(keys: Sequence[str | None], regions: int = 3) -> list[tuple[Any, ...]]:
    return [(key, f"r{number % regions}", number, float(number)) for number, key in enumerate(keys)]


def bulk_insert(spark: SparkSession, base_path: str, rows: Sequence[tuple[Any, ...]], **properties: Any) -> Any:
    given = {"index_type": "BUCKET", "bucket_index_num_buckets": BUCKETS, **properties}
    frame = spark.createDataFrame(list(rows), spark_schema(ROWS)).repartition(3)
    with SparkRDDWriteClient(spark, write_config(base_path, **given)) as client:
        return client.bulk_insert(frame)


def stored(base_path: str) -> dict[tuple[str, int], list[str]]:
    """(Partition path, bucket) to the keys of its file, in their order; no bucket has two files."""
    meta_client = HoodieTableMetaClient.load(base_path)
    view = meta_client.view()
    found: dict[tuple[str, int], list[str]] = {}
    for partition_path in view.list_partitions():
        for base_file in view.latest_base_files(partition_path):
            bucket = bucket_of_file_id(base_file.file_id)
            assert bucket is not None
            assert (partition_path, bucket) not in found
            with HoodieParquetReader(meta_client.storage, base_file.path) as reader:
                found[partition_path, bucket] = reader.read_record_keys().to_pylist()
    return found


def assert_stored(base_path: str, rows: Sequence[tuple[Any, ...]], fields: Sequence[str] = ("id",)) -> None:
    """Each row is there once, in the bucket of its key, and no other file is."""
    table = hoodie.read_table(base_path, columns=ROWS.names)
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == sorted(rows)
    identifier = BucketIdentifier(BUCKETS, tuple(fields), tuple(fields))
    files = stored(base_path)
    for (_, bucket), keys in files.items():
        assert set(identifier.bucket_ids(pa.array(keys)).tolist()) == {bucket}
    assert len(list(Path(base_path).rglob("*.parquet"))) == len(files)
    check_table(base_path)


class Routes:
    """What `SparkData.route_by_bucket` and `SparkData.route` were asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[str] = []
        by_bucket, route = SparkData.route_by_bucket, SparkData.route

        def noted_by_bucket(data: SparkData, *arguments: Any) -> SparkData | None:
            found = by_bucket(data, *arguments)
            self.calls.append("engine" if found is not None else "none")
            return found

        def noted_route(data: SparkData, *arguments: Any) -> SparkData:
            self.calls.append("tasks")
            return route(data, *arguments)

        monkeypatch.setattr(SparkData, "route_by_bucket", noted_by_bucket)
        monkeypatch.setattr(SparkData, "route", noted_route)


@pytest.fixture
def routes(monkeypatch: pytest.MonkeyPatch) -> Routes:
    return Routes(monkeypatch)


def weighted(first: int, *weights: float) -> WeightedBuckets:
    """Buckets from ``first`` on."""
    return WeightedBuckets(np.arange(first, first + len(weights), dtype=np.int32), np.cumsum(weights) / sum(weights))


def test_new_keys_are_dealt_by_the_weights_of_their_partition(spark: SparkSession, evaluated: None) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string()), ("n", pa.int64())])
    paths = {"p=x/n=1": weighted(0, 1.0), "p=a,b/n=1": weighted(1, 5, 0.5, 0.5, 30, 14), "p=x/n=2": weighted(6, 2, 1)}
    places = {"p=x/n=1": ("x", 1), "p=a,b/n=1": ("a,b", 1), "p=x/n=2": ("x", 2)}
    rows = [(f"k{number}", *place) for number in range(8000) for place in places.values()]
    frame = spark.createDataFrame([*rows, ("k", "elsewhere", 1)], spark_schema(schema))
    routing = InsertRouting(KeyColumns(("id",), False, ("p", "n"), True), paths)
    dealt = with_insert_buckets(frame, schema, routing, "bucket")
    assert dealt is not None
    assert dealt.columns == ["id", "p", "n", "bucket"]
    counts = {(row.p, row.n, row.bucket): row["count"] for row in dealt.groupBy("p", "n", "bucket").count().collect()}
    assert counts.pop(("elsewhere", 1, 0)) == 1
    for path, place in places.items():
        weights = np.diff(paths[path].cumulative_weights, prepend=0)
        for number, weight in zip(paths[path].buckets.tolist(), weights, strict=True):
            assert counts.pop((*place, number)) == pytest.approx(8000 * weight, abs=6 * (8000 * weight) ** 0.5)
    assert not counts
    # Another number of partitions, and another order of the rows, change nothing.
    again = with_insert_buckets(frame.repartition(3, "n").orderBy(sf.desc("id")), schema, routing, "bucket")
    assert again is not None
    assert sorted(again.collect()) == sorted(dealt.collect())


def test_a_part_of_an_input_by_sparks_own_hash_is_dealt_evenly(spark: SparkSession) -> None:
    routing = InsertRouting(KeyColumns(("id",), False, (), False), {"": weighted(0, *[0.1] * 10)})
    part = spark.range(20_000).selectExpr("cast(id as string) id").where("pmod(xxhash64(id), 10) = 3")
    dealt = with_insert_buckets(part, pa.schema([("id", pa.string())]), routing, "bucket")
    assert dealt is not None
    counts = [row["count"] for row in dealt.groupBy("bucket").count().collect()]
    assert counts == pytest.approx([200] * 10, abs=80)


TEXTS = ["k1", "k2", "ünïcode", "x" * 300, "a:b", "a,b", "", "2024-01-02", *(f"trip-{number}" for number in range(200))]
ODD_TEXTS = ["a:b,c", "id:1,x:2"]


@pytest.mark.parametrize("hash_fields", [("id",), ("id", "day"), ("day",)], ids=",".join)
@pytest.mark.parametrize("is_composite", [False, True], ids=["single", "composite"])
def test_rows_are_numbered_by_their_buckets_as_python_does(
    spark: SparkSession, evaluated: None, is_composite: bool, hash_fields: tuple[str, ...]
) -> None:
    schema = pa.schema([("id", pa.string()), ("day", pa.int64()), ("p", pa.string())])
    # Releases of Hudi differ in composite keys of values with commas.
    usable = [key for key in TEXTS if key and not (is_composite and "," in key)]
    rows = [(key, number % 3, f"p{number % 2}") for number, key in enumerate(usable)]
    names = ("id", "day") if is_composite else ("id",)
    fields = hash_fields if is_composite else ("id",)
    identifier = BucketIdentifier(7, names, fields, BucketKeyRule.HUDI_1_X)
    (batch,) = pa.table(list(zip(*rows, strict=True)), schema=schema).to_batches()
    keys = ComplexKeyGenerator(names, ("p",)).record_keys(batch) if is_composite else batch.column("id")
    columns = KeyColumns(names, is_composite, ("p",), False)
    rule = BucketRouting(columns, fields, 7)
    numbers = {"p0": {bucket: 3 + bucket for bucket in range(7)}, "p1": {2: 1, 5: 2}}
    frame = spark.createDataFrame(rows, spark_schema(schema))
    numbered = with_bucket_numbers(frame, schema, BucketNumbers(rule, numbers), "number")
    assert numbered is not None
    buckets = identifier.bucket_ids(keys).tolist()
    found = [(row.id, row.number) for row in numbered.collect()]
    for (key, _, path), bucket, number in zip(rows, buckets, (number for _, number in found), strict=True):
        assert number == numbers[path].get(bucket, 0), key
    assert not rule.has_odd_keys(keys)
    assert not rule.has_odd_keys(pa.array([], pa.string()))


@pytest.mark.parametrize("key", ODD_TEXTS)
def test_a_row_whose_bucket_only_python_computes_has_no_number(spark: SparkSession, key: str) -> None:
    schema = pa.schema([("id", pa.string())])
    rule = BucketRouting(KeyColumns(("id",), False, (), False), ("id",), 4)
    numbers = BucketNumbers(rule, {"": dict.fromkeys(range(4), 9)})
    frame = spark.createDataFrame([(key,), ("k",), (None,)], spark_schema(schema))
    numbered = with_bucket_numbers(frame, schema, numbers, "number")
    assert numbered is not None
    assert [row.number for row in numbered.collect()] == [0, 9, 0]
    assert rule.has_odd_keys(pa.array(["k", key]))
    assert not rule.has_odd_keys(pa.array(["k", "a:b", "a,b"]))
    composite = BucketRouting(KeyColumns(("id", "day"), True, (), False), ("id",), 4)
    assert composite.has_odd_keys(pa.array(["id:1,day:2", "id:1,2,day:3"]))
    assert not composite.has_odd_keys(pa.array(["id:1,day:2", "id:1:2,day:3"]))
    assert BucketRouting(rule.columns, ("id",), 4, has_plain_colons=False).has_odd_keys(pa.array(["k", "a:b"]))


def test_many_paths_or_buckets_are_not_numbered_by_the_jvm(spark: SparkSession) -> None:
    schema = pa.schema([("id", pa.string()), ("p", pa.string())])
    frame = spark.createDataFrame([("a", "x")], spark_schema(schema))

    def is_numbered(paths: int, buckets: int) -> bool:
        rule = BucketRouting(KeyColumns(("id",), False, ("p",), False), ("id",), buckets)
        numbers = BucketNumbers(rule, {f"p{number}": {0: number} for number in range(paths)})
        return with_bucket_numbers(frame, schema, numbers, "number") is not None

    assert is_numbered(64, 1024)
    assert not is_numbered(65, 4)
    assert not is_numbered(0, 4)
    assert not is_numbered(64, 1025)


def test_equal_composite_keys_are_dealt_to_one_bucket(spark: SparkSession, evaluated: None) -> None:
    schema = pa.schema([("a", pa.string()), ("b", pa.string())])
    rows = [("1,b:2", "3"), ("1", "2,b:3"), (None, "x"), ("__null__", "x"), ("", "y"), ("__empty__", "y")]
    (batch,) = pa.table(list(zip(*rows, strict=True)), names=["a", "b"]).to_batches()
    keys = ComplexKeyGenerator(("a", "b")).record_keys(batch).to_pylist()
    routing = InsertRouting(KeyColumns(("a", "b"), True, (), False), {"": weighted(0, *[1.0] * 1000)})
    dealt = with_insert_buckets(spark.createDataFrame(rows, spark_schema(schema)), schema, routing, "bucket")
    assert dealt is not None
    found = {(key, row.bucket) for key, row in zip(keys, dealt.collect(), strict=True)}
    assert len(found) == len(set(keys)) < len(keys)


def test_keys_that_only_python_makes_are_not_dealt_by_the_jvm(spark: SparkSession) -> None:
    schema = pa.schema([("id", pa.string()), ("real", pa.float64()), ("p", pa.string())])
    frame = spark.createDataFrame([("a", 1.0, "x")], spark_schema(schema))

    def is_dealt(key: str, paths: Sequence[str] = ("x",), written: pa.Schema = schema) -> bool:
        columns = KeyColumns((key,), False, ("p",), False)
        routing = InsertRouting(columns, {path: weighted(0, 1.0) for path in paths})
        return with_insert_buckets(frame, written, routing, "bucket") is not None

    assert is_dealt("id")
    assert not is_dealt("real")
    assert not is_dealt("absent")
    assert not is_dealt("id", written=schema.set(0, pa.field("id", pa.int64())))
    assert is_dealt("id", [f"p{number}" for number in range(64)])
    assert not is_dealt("id", [f"p{number}" for number in range(65)])
    assert not is_dealt("id", [])


def kinds_of_keys() -> list[str]:
    usual = [f"key-{number}" for number in range(400)]
    return [*usual, "é", "\U0001f600", "a\U0001f600b", "日本語", "x" * 3000, "a,b", ",,"]


def test_both_ways_write_the_same_file_groups(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, routes: Routes
) -> None:
    rows = rows_of(kinds_of_keys())
    one, other = init(tmp_path / "one"), init(tmp_path / "other")
    result = bulk_insert(spark, one, rows, bulkinsert_sort_mode="PARTITION_SORT")
    assert routes.calls == ["engine"]
    assert result.inserted_count == len(rows)
    monkeypatch.setattr(SparkData, "route_by_bucket", lambda *arguments: None)
    bulk_insert(spark, other, rows, bulkinsert_sort_mode="PARTITION_SORT")
    assert stored(one) == stored(other)
    assert len(stored(one)) == 3 * BUCKETS
    assert all(keys == sorted(keys, key=str.encode) for keys in stored(one).values())
    assert_stored(one, rows)


@pytest.mark.parametrize("odd", [["a:b,c,d"], [f"k{n}:,{n}" for n in range(300)]], ids=["one", "many"])
def test_keys_that_only_python_places_are_stored_once(
    spark: SparkSession, tmp_path: Path, routes: Routes, odd: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    base_path = init(tmp_path / "t")
    rows = rows_of([*(f"key-{number}" for number in range(400)), *odd])
    with caplog.at_level(logging.INFO, "hoodie"):
        result = bulk_insert(spark, base_path, rows, bucket_index_key_rule="1.x")
    assert result.inserted_count == len(rows)
    assert routes.calls == ["engine", "tasks"]
    assert "routed by Python" in caplog.text
    identifier = BucketIdentifier(BUCKETS, ("id",), ("id",), BucketKeyRule.HUDI_1_X)
    for (_, bucket), keys in stored(base_path).items():
        assert set(identifier.bucket_ids(pa.array(keys)).tolist()) == {bucket}
    table = hoodie.read_table(base_path, columns=ROWS.names)
    assert sorted(tuple(row.values()) for row in table.to_pylist()) == sorted(rows)
    assert len(list(Path(base_path).rglob("*.parquet"))) == len(stored(base_path))


@pytest.mark.parametrize("wrong", ["every second row", "all file groups as one", "no file group"])
def test_rows_that_the_jvm_places_wrongly_are_stored_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, routes: Routes, wrong: str
) -> None:
    other = {
        "every second row": lambda groups: groups + sf.col("ts") % 2,
        "all file groups as one": lambda groups: groups * 0,
        "no file group": lambda groups: sf.lit(None).cast("long"),
    }[wrong]

    def misled(*arguments: Any) -> BucketExpressions | None:
        found = bucket_expressions(*arguments)
        assert found is not None
        return BucketExpressions(other(found.file_group), found.record_key)

    monkeypatch.setattr(spark_data, "bucket_expressions", misled)
    base_path = init(tmp_path / "t")
    rows = rows_of(kinds_of_keys())
    bulk_insert(spark, base_path, rows)
    assert routes.calls == ["engine", "tasks"]
    assert_stored(base_path, rows)


@pytest.mark.parametrize("odd", [[], ["a:b,c"]], ids=["routed by the engine", "routed by tasks"])
def test_rows_without_a_key_fail_with_examples(
    spark: SparkSession, tmp_path: Path, routes: Routes, odd: list[str]
) -> None:
    base_path = init(tmp_path / "t")
    rows = rows_of(["a", "b", None, "c", "", *odd, "d"])
    with pytest.raises(
        HoodieKeyException, match=r"2 of the records to bulk_insert cannot be written.*column 'id' is null"
    ):
        bulk_insert(spark, base_path, rows, bucket_index_key_rule="1.x")
    assert routes.calls[0] == "engine"
    assert not list(Path(base_path).rglob("*.parquet"))


def test_keys_that_releases_of_hudi_place_differently_are_refused(
    spark: SparkSession, tmp_path: Path, routes: Routes
) -> None:
    base_path = init(tmp_path / "t")
    with pytest.raises(HoodieKeyException, match=r"go to one bucket in Hudi 0.15 and to another in Hudi 1.x"):
        bulk_insert(spark, base_path, rows_of(["a", "2024-01-01 10:00:00"]))
    assert routes.calls == ["engine"]
    assert not list(Path(base_path).rglob("*.parquet"))


def test_numbers_composite_keys_and_other_types_are_placed_like_in_python(
    spark: SparkSession, tmp_path: Path, routes: Routes
) -> None:
    rows = [(f"k{n % 5}" if n % 7 else None, f"r{n % 2}", n - 50, float(n)) for n in range(100)]
    for name, fields, partitions, way in (
        ("number", ["ts"], ["region"], "engine"),
        ("composite", ["id", "ts"], ["region"], "engine"),
        ("flat", ["ts"], [], "engine"),
        ("double", ["fare"], ["region"], "none"),
    ):
        base_path = init(tmp_path / name, record_key_fields=fields, partition_fields=partitions)
        routes.calls.clear()
        bulk_insert(spark, base_path, rows)
        assert routes.calls == (["engine"] if way == "engine" else ["none", "tasks"])
        table = hoodie.read_table(base_path, columns=ROWS.names)
        assert sorted(map(repr, (tuple(row.values()) for row in table.to_pylist()))) == sorted(map(repr, rows))
        identifier = BucketIdentifier(BUCKETS, tuple(fields), tuple(fields))
        for (_, bucket), keys in stored(base_path).items():
            assert set(identifier.bucket_ids(pa.array(keys)).tolist()) == {bucket}


def test_rows_that_ask_for_a_delete_are_counted(spark: SparkSession, tmp_path: Path, routes: Routes) -> None:
    base_path = init(tmp_path / "t")
    frame = spark.createDataFrame(rows_of([f"k{n}" for n in range(50)]), spark_schema(ROWS))
    frame = frame.withColumn("_hoodie_is_deleted", sf.col("ts") % 5 == 0)
    with SparkRDDWriteClient(spark, write_config(base_path, index_type="BUCKET")) as client:
        result = client.bulk_insert(frame)
    assert (result.inserted_count, result.unmatched_delete_count) == (40, 10)
    assert routes.calls == ["engine"]


def test_combined_records_are_placed_like_others(spark: SparkSession, tmp_path: Path, routes: Routes) -> None:
    base_path = init(tmp_path / "t")
    rows = [(f"k{n % 60}", f"r{n % 60 % 3}", n, float(n)) for n in range(100)]
    bulk_insert(spark, base_path, rows, combine_before_insert=True)
    assert routes.calls == ["engine"]
    assert_stored(base_path, rows[40:])
