"""Tables on an object store, written and read with Spark."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import hoodie
import hoodie.spark
from hoodie import HoodieKey, HoodieTableMetaClient, HoodieWriteConfig, SparkRDDWriteClient
from hoodie.exception import HoodieException, HoodieNotSupportedException
from tests.support.model import read_model
from tests.support.object_store_servers import SECRET_KEY, Bucket, FaultyProxy
from tests.support.table_builder import TRIPS

pytestmark = pytest.mark.spark
NAMES = ["id", "region", "ts", "fare"]
Model = dict[str, tuple[str, str, int, float]]


def trips(count: int, fare: float = 1.0, ts: int = 1) -> Model:
    return {f"k{n}": (f"k{n}", "xyz"[n % 3], ts, fare) for n in range(count)}


def frame(spark: SparkSession, model: Model) -> DataFrame:
    return spark.createDataFrame(list(model.values()), "id string, region string, ts bigint, fare double")


def make(base_path: str, options: Any) -> None:
    HoodieTableMetaClient.init_table(
        base_path,
        table_name="trips",
        record_key_fields=["id"],
        partition_fields=["region"],
        ordering_fields=["ts"],
        storage_options=options,
    )


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """A provider that tasks can import; asked in each process."""
    return options


@pytest.fixture
def base_path(s3_bucket: Bucket) -> str:
    return f"s3a://{s3_bucket.name}/lake/trips"


@pytest.mark.parametrize("kind", ["dict", "function"])
def test_spark_writes_a_table_on_s3_by_its_tasks(
    spark: SparkSession, base_path: str, s3_bucket: Bucket, kind: str
) -> None:
    options: Any = s3_bucket.options()
    if kind == "function":
        options = partial(given_options, options)
    make(base_path, options)
    model = trips(60)
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, {}, options)) as client:
        assert client.insert(frame(spark, model)).inserted_count == 60
        change = trips(12, fare=2.0, ts=2)
        assert client.upsert(frame(spark, change)).updated_count == 12
        model |= change
        client.delete([HoodieKey("k0", "x")])
        del model["k0"]
        assert read_model(base_path, TRIPS.names, storage_options=options) == model
        mistake = client.upsert(frame(spark, trips(3, fare=-1.0, ts=9)))
        assert client.rollback(mistake.instant_time)
    assert read_model(base_path, TRIPS.names, storage_options=options) == model
    assert s3_bucket.unfinished_uploads() == []
    assert not [key for key in s3_bucket.list_keys() if ".temp/" in key]


def test_a_failed_spark_write_on_s3_is_rolled_back_by_the_next(
    spark: SparkSession, base_path: str, s3_bucket: Bucket, s3_proxy: FaultyProxy
) -> None:
    direct = s3_bucket.options()
    make(base_path, direct)
    once = {"hoodie.filesystem.operation.retry.enable": "false"}
    s3_proxy.fault = lambda request: 503 if request.path.endswith(".commit") and request.method == "PUT" else None
    config = HoodieWriteConfig.from_properties(base_path, once, s3_bucket.options(s3_proxy.endpoint))
    with pytest.raises(HoodieException) as raised, SparkRDDWriteClient(spark, config) as client:
        client.insert(frame(spark, trips(30)))
    assert SECRET_KEY not in repr(raised.value) + str(raised.value)
    assert read_model(base_path, TRIPS.names, storage_options=direct) == {}
    with SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties(base_path, {}, direct)) as client:
        client.insert(frame(spark, trips(6)))
    assert read_model(base_path, TRIPS.names, storage_options=direct) == trips(6)


def test_a_failing_task_shows_no_secret(
    spark: SparkSession,
    base_path: str,
    s3_bucket: Bucket,
    s3_proxy: FaultyProxy,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "hoodie")
    make(base_path, s3_bucket.options())
    s3_proxy.fault = lambda request: 403 if ".parquet" in request.path and request.method == "PUT" else None
    config = HoodieWriteConfig.from_properties(base_path, {}, s3_bucket.options(s3_proxy.endpoint))
    with pytest.raises(HoodieException) as raised, SparkRDDWriteClient(spark, config) as client:
        client.insert(frame(spark, trips(6)))
    chain: BaseException | None = raised.value
    shown = [caplog.text, *capfd.readouterr()]
    while chain is not None:
        shown.append(f"{chain!r} {chain}")
        chain = chain.__cause__ or chain.__context__
    assert "403" in "".join(shown)
    assert SECRET_KEY not in "".join(shown)


def test_reading_by_spark_needs_a_connector_and_says_which(
    spark: SparkSession, base_path: str, s3_bucket: Bucket
) -> None:
    options = s3_bucket.options()
    hoodie.write_table(frame(spark, trips(3)).toPandas(), base_path, record_key_fields="id", storage_options=options)
    for scheme in ("s3", "s3a"):
        path = base_path.replace("s3a://", f"{scheme}://")
        with pytest.raises(HoodieException, match=r"org\.apache\.hadoop:hadoop-aws.*spark\.jars\.packages") as raised:
            hoodie.spark.read(spark, path, storage_options=options).collect()
        assert SECRET_KEY not in str(raised.value)


def test_memory_is_no_place_for_spark(spark: SparkSession) -> None:
    make("memory://spark_cannot/t", None)
    with pytest.raises(HoodieNotSupportedException, match="memory"):
        hoodie.spark.read(spark, "memory://spark_cannot/t")
    with pytest.raises(HoodieNotSupportedException, match="memory"):
        SparkRDDWriteClient(spark, HoodieWriteConfig.from_properties("memory://spark_cannot/t"))
