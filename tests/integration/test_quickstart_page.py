"""The page of the quickstart, run as it is printed: the tabs with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.quickstart_page import PAGE, run_tabs

pytestmark = pytest.mark.spark


def test_the_tabs_of_spark_print_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    # PySpark 3.5 has no data sources in Python.
    tabs = ["spark", "format"] if int(spark.version.split(".")[0]) >= 4 else ["spark"]
    count = sum(PAGE.count(f"<!-- tab: {tab} -->") for tab in tabs)
    assert run_tabs(tabs, tmp_path, {"spark": spark}) == count >= 9
