"""Pages of docs, run as they are printed: the tabs with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.page_programs import read_page, run_tabs

pytestmark = pytest.mark.spark


def test_the_tabs_of_spark_print_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    # PySpark 3.5 has no data sources in Python.
    tabs = ["spark", "format"] if int(spark.version.split(".")[0]) >= 4 else ["spark"]
    count = sum(read_page("quickstart.md").count(f"<!-- tab: {tab} -->") for tab in tabs)
    assert run_tabs("quickstart.md", tabs, tmp_path, {"spark": spark}) == count >= 9


def test_spark_writes_the_merge_on_read_table_of_the_page(spark: SparkSession, tmp_path: Path) -> None:
    assert run_tabs("merge-on-read.md", ["spark"], tmp_path, {"spark": spark}) == 1


def test_the_quickstart_of_hudi_runs_on_a_table_without_keys(spark: SparkSession, tmp_path: Path) -> None:
    if int(spark.version.split(".")[0]) < 4:
        pytest.skip("PySpark 3.5 has no data sources in Python")
    assert run_tabs("keyless-tables.md", ["format"], tmp_path, {"spark": spark}) == 8
