"""A Spark session for the tests that need a JVM."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from hoodie.index.places_by_hash import HASHES
from hoodie.spark.spark_data import SparkData
from tests.support.kafka_broker import KafkaBroker, running_kafka

# Every JVM of the tests lives for minutes and runs little often: C2, the slower compiler, takes more processor time
# than its code saves. Code that C1 compiled does the same. So do the threads of the concurrent collector, G1.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

PARTITIONS = "4"
"""Of a shuffle."""


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """A session with two cores; its Python workers are this interpreter.

    Modules share it, unless one of them needed another kind of session in between.
    """
    running = SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master == "local[2]":
        return running
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Functions of test modules travel to the workers by name.
    repository = str(Path(__file__).parents[2])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [repository, os.environ.get("PYTHONPATH")]))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("hoodie tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", PARTITIONS)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    return session


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[SparkData]:
    """The rows that a write keeps; hashes of keys do not count."""
    seen: list[SparkData] = []
    persist = SparkData.persist

    def watched(self: SparkData, fixed: Any = ()) -> SparkData:
        if self.schema != HASHES:
            seen.append(self)
        return persist(self, fixed)

    monkeypatch.setattr(SparkData, "persist", watched)
    return seen


@pytest.fixture(scope="session")
def broker() -> Iterator[KafkaBroker]:
    """A Kafka broker; all tests of a run share it, each with topics of its own."""
    with running_kafka() as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def unchanged_session() -> Iterator[None]:
    """See that a module leaves the shared session as it was: with Spark's own 200 partitions all others are slow."""
    yield
    running = SparkSession.getActiveSession()
    if running is not None and running.sparkContext.master == "local[2]":
        assert running.conf.get("spark.sql.shuffle.partitions") == PARTITIONS


@pytest.fixture(scope="session", autouse=True)
def stopped_session() -> Iterator[None]:
    """Stop what runs in the end."""
    yield
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
