"""Runs of the streamer in tests: a source whose rows are a list, and a run without a command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, RowOrigin, Source, SourceContext, SourceRead

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
KEYS = {
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.streamer.idle.seconds": "0",
}


@attrs.frozen(eq=False)
class ListRead(SourceRead):
    """Rows of a list; a text instead of a row is a message that cannot be decoded."""

    first: int
    entries: Sequence[Any]
    schema: pa.Schema

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`."""
        import numpy as np

        rows, numbers, errors = [], [], []
        for number, entry in enumerate(self.entries, self.first):
            if isinstance(entry, str):
                reason = ErrorReason.JSON_ROW_DESERIALIZATION_FAILURE
                errors.append(ErrorEvent(reason, "it is no row", entry, "list", 0, number))
            else:
                rows.append(dict(zip(self.schema.names, entry, strict=False)))
                numbers.append(number)
        batch = pa.RecordBatch.from_pylist(rows, schema=self.schema)
        yield DecodedBatch(batch, error_batch(errors), RowOrigin(np.array(numbers, np.int64), "list", 0))


class ListSource(Source):
    """Rows of lists by name, in memory: ``LISTS[name]``; the position is the number of the next one.

    ``hoodie.streamer.source.dfs.root`` is the name; the limit is a number of rows.
    """

    LISTS: dict[str, list[Any]] = {}  # noqa: RUF012
    SCHEMAS: dict[str, pa.Schema] = {}  # noqa: RUF012
    fetched: list[tuple[str | None, int]] = []  # noqa: RUF012
    told: list[str] = []  # noqa: RUF012

    @classmethod
    def clear(cls) -> None:
        """Forget all lists, and what sources were asked and told."""
        for kept in (cls.LISTS, cls.SCHEMAS, cls.fetched, cls.told):
            kept.clear()

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.name = context.properties["hoodie.streamer.source.dfs.root"]

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`."""
        rows = self.LISTS[self.name]
        first = 0 if checkpoint is None else int(checkpoint.position)
        until = len(rows) if limit is None else min(len(rows), first + limit)
        self.fetched.append((None if checkpoint is None else checkpoint.position, until))
        position = Checkpoint(str(until))
        if first >= until:
            return InputBatch(position, backlog=0)
        schema = self.SCHEMAS.get(self.name, SCHEMA)
        read = ListRead(first, rows[first:until], schema)
        return InputBatch(position, [read], schema, rows=until - first, backlog=len(rows) - until)

    def on_commit(self, checkpoint: Checkpoint) -> None:
        """See `Source.on_commit`."""
        self.told.append(checkpoint.position)


def list_source(name: str, *rows: Any) -> dict[str, str]:
    """Put rows into a list.

    Args:
        name: The name of the list.
        rows: The rows.

    Returns:
        The properties of a run that reads it.
    """
    ListSource.LISTS[name] = list(rows)
    return {**KEYS, "hoodie.streamer.source.dfs.root": name}


LIST_SOURCE = "tests.support.streamer_runs:ListSource"


def run_once(path: Path, properties: Mapping[str, Any], **flags: Any) -> Any:
    """One round of a new streamer.

    Args:
        path: The table.
        properties: The properties.
        flags: Fields of `StreamerConfig`.

    Returns:
        The outcome.
    """
    from hoodie.utilities.streamer.hoodie_streamer import HoodieStreamer
    from hoodie.utilities.streamer.streamer_config import StreamerConfig

    flags = {"source_class": LIST_SOURCE, **flags}
    return HoodieStreamer(StreamerConfig(target_base_path=str(path), **flags), properties=properties).sync()
