"""The page of the quickstart, run as it is printed: the tabs with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.support.quickstart_page import PAGE, run_tab

pytestmark = pytest.mark.spark


def test_the_spark_tab_prints_what_the_page_says(spark: SparkSession, tmp_path: Path) -> None:
    assert run_tab("spark", tmp_path, {"spark": spark}) == PAGE.count("<!-- tab: spark -->") == 9
