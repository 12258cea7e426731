"""DataFrames of Spark whose rows Python makes or changes, a batch at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame

from hoodie.spark.spark_types import arrow_schema, conform, spark_schema
from hoodie.spark.worker_start import prepare_worker


def map_batches(frame: DataFrame, change: Callable[[pa.Table], pa.Table]) -> DataFrame:
    """A frame whose batches a function changes, in the tasks.

    Args:
        frame: The rows.
        change: Picklable. It is called without rows first, to learn the columns that it returns.
    """
    columns = arrow_schema(frame.schema)
    changed = change(columns.empty_table()).schema

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        prepare_worker()
        for batch in batches:
            rows = pa.Table.from_batches([conform(batch, columns)])
            yield from change(rows).cast(changed).to_batches()

    return frame.mapInArrow(run, spark_schema(changed))
