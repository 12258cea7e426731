"""A Spark session for the tests that need a JVM."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession


def pytest_configure(config: pytest.Config) -> None:
    """PySpark 3.5 compares versions with distutils, and leaves sockets to the garbage collector as PySpark 4 does."""
    config.addinivalue_line("filterwarnings", "ignore:distutils Version classes:DeprecationWarning")
    config.addinivalue_line("filterwarnings", "ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session with two cores; its Python workers are this interpreter."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    here = Path(__file__).parent
    # Functions of test modules travel to the workers by name.
    os.environ["PYTHONPATH"] = os.pathsep.join([str(here.parents[1]), str(here), os.environ.get("PYTHONPATH", "")])
    session = (
        SparkSession.builder.master("local[2]")
        .appName("hoodie tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()
