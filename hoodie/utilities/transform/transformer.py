"""The contract of every transformer.

Hudi: org.apache.hudi.utilities.transform.Transformer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodie.spark import load
from hoodie.utilities.config.streamer_properties import StreamerProperties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Transformer(ABC):
    """Changes the rows of each batch before they are written. Made once for a run, without arguments."""

    @abstractmethod
    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """Change the rows of a batch, in this process.

        Args:
            table: The rows.
            properties: The properties of the run; in a chain with ids, those of this transformer (``K.<id>`` is ``K``).

        Returns:
            The rows to write.
        """

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """Change the rows of a batch, on Spark. The default gives the batches of Spark's tasks to `apply`, one by one.

        Args:
            frame: The rows.
            properties: See `apply`.
        """
        # A run in this process needs no PySpark.
        map_batches = load("hoodie", "map_batches", "hoodie.utilities.streamer.spark_frames")
        changed: DataFrame = map_batches(frame, lambda table: self.apply(table, properties))
        return changed


class FunctionTransformer(Transformer):
    """A function of the user's: ``function(table, properties)``.

    Args:
        function: The function; it takes an Arrow table in this process, and a DataFrame on Spark.
    """

    def __init__(self, function: Any) -> None:
        self._function = function

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """See `Transformer.apply`."""
        changed: pa.Table = self._function(table, properties)
        return changed

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """See `Transformer.apply_to_frame`."""
        changed: DataFrame = self._function(frame, properties)
        return changed
