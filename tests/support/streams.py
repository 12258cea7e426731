"""A query that reads files and writes them to a table, one file a batch; and what the table says of streams."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hoodie import HoodieTableMetaClient
from hoodie.client.streaming_checkpoint import SINK_CHECKPOINT_KEY, StreamBatch, StreamingCheckpoint
from hoodie.common.table.table_snapshot import TableSnapshot
from tests.support.table_builder import read_rows, rows

__all__ = ["Stream", "Write", "batches", "keys", "state"]

Write = Callable[[Any, int], None]
"""What `foreachBatch` calls."""


class Stream:
    """Files that come in, a query that reads them, and the table that it writes.

    Args:
        spark: The session.
        folder: For the source, the checkpoint and the table.
        name: Of the source and of the checkpoint.
    """

    def __init__(self, spark: Any, folder: Path, name: str = "one") -> None:
        self.spark = spark
        self.source, self.checkpoint = folder / f"{name}_source", folder / f"{name}_checkpoint"
        self.path = str(folder / "t")
        self.source.mkdir()
        self._files = 0

    def add(self, *keys: str, ts: int = 1) -> None:
        """One file, which is one batch."""
        self._files += 1
        name = f"{self._files:04d}.parquet"
        pq.write_table(rows(*((key, key[0], ts) for key in keys)), self.source / f".{name}")
        (self.source / f".{name}").rename(self.source / name)
        # Spark takes the oldest files first.
        os.utime(self.source / name, (1_000_000_000 + self._files,) * 2)

    def rows(self) -> Any:
        """The frame of what comes in."""
        reader = self.spark.readStream.schema("id string, region string, ts bigint")
        return reader.option("maxFilesPerTrigger", 1).parquet(str(self.source))

    def start(self, write: Write | Mapping[str, Any]) -> Any:
        """Start a query that ends when it has written what came in.

        Args:
            write: The function of `foreachBatch`, or the options of ``format("hoodie")``.
        """
        writer = self.rows().writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if callable(write):
            return writer.foreachBatch(write).start()
        return writer.format("hoodie").options(**write).start(self.path)

    def run(self, write: Write | Mapping[str, Any]) -> None:
        """Write what came in, with a new query."""
        assert self.start(write).awaitTermination(120)

    def commits(self) -> list[Path]:
        """The files that say which batches are done, named by their numbers."""
        return list((self.checkpoint / "commits").glob("[0-9]*"))

    def forget_newest_batch(self) -> None:
        """Leave the checkpoint as a query leaves it that dies after its last batch was written."""
        newest = max(self.commits(), key=lambda file: int(file.name))
        newest.unlink()
        newest.with_name(f".{newest.name}.crc").unlink()


def keys(path: str) -> list[str]:
    """The keys of all rows of a table, in order; a row that is there twice gives its key twice."""
    return [row[0] for row in read_rows(path)]


def batches(path: str) -> list[str | None]:
    """What the commits say, the oldest first."""
    timeline = HoodieTableMetaClient.load(path).active_timeline
    found = [timeline.read_commit_metadata(instant) for instant in timeline.completed_writes()]
    return [metadata.extra_metadata.get(SINK_CHECKPOINT_KEY) for metadata in found]


def state(path: str, identifier: str = "default_single_writer") -> StreamBatch | None:
    """The newest batch of a stream in a table."""
    return StreamingCheckpoint.load(TableSnapshot.load(path), identifier).batch
