"""A look at what the next round would do.

Hudi has no such thing.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

import attrs
import pyarrow as pa

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.streamer.run_options import shown_properties
from hoodie.utilities.streamer.stream_sync import StreamSync


@attrs.frozen(kw_only=True)
class DryRun:
    """The next round, as it would be.

    Attributes:
        options: The properties, as texts without secrets.
        position: The position to begin at; None for a source that begins as it likes.
        position_after: The position after the round.
        rows: The number of rows of the round, where the source knows it.
        backlog: The rows, files or instants after those of the round.
        first_rows: The first decoded rows.
        errors: Messages among these that cannot be decoded: place and reason.
        new_columns: Columns that the table does not have yet, with their types.
        missing_columns: Columns of the table that the rows do not have.
    """

    options: tuple[str, ...]
    position: str | None
    position_after: str | None
    rows: int | None
    backlog: int | None
    first_rows: tuple[Mapping[str, Any], ...]
    errors: tuple[str, ...]
    new_columns: tuple[str, ...]
    missing_columns: tuple[str, ...]

    def __str__(self) -> str:
        lines = ["options:", *(f"  {option}" for option in self.options)]
        lines.append(f"begins at: {self.position if self.position is not None else 'no position'}")
        lines.append(f"ends at: {self.position_after if self.position_after is not None else 'no position'}")
        lines.append(f"rows: {_shown(self.rows)}; waiting after that: {_shown(self.backlog)}")
        lines += [f"new column: {column}" for column in self.new_columns]
        lines += [f"column that the rows lack: {column}" for column in self.missing_columns]
        lines += [f"first rows ({len(self.first_rows)}):", *(f"  {dict(row)!r}" for row in self.first_rows)]
        lines += [f"cannot be decoded: {error}" for error in self.errors]
        lines.append("nothing was written")
        return "\n".join(lines)


def look_ahead(
    sync: StreamSync, properties: StreamerProperties, rows: int, table_schema: pa.Schema | None = None
) -> DryRun:
    """Find what the next round would do, and change nothing.

    Args:
        sync: Makes the rounds.
        properties: The properties.
        rows: The most rows to decode.
        table_schema: The columns of the table; None if there is none.
    """
    point, batch = sync.peek()
    first: list[Mapping[str, Any]] = []
    errors: list[str] = []
    for decoded in islice((one for read in batch.reads for one in read.batches()), 5):
        first += decoded.rows.slice(0, rows - len(first)).to_pylist()
        if decoded.errors is not None:
            errors += [f"{error['error_id']}: {error['message']}" for error in decoded.errors.slice(0, 5).to_pylist()]
        if len(first) >= rows:
            break
    columns = pa.schema([]) if batch.schema is None else batch.schema
    known = table_schema
    return DryRun(
        options=tuple(shown_properties(properties)),
        position=None if point.checkpoint is None else point.checkpoint.position,
        position_after=None if batch.checkpoint is None else batch.checkpoint.position,
        rows=batch.rows,
        backlog=batch.backlog,
        first_rows=tuple(first),
        errors=tuple(errors),
        new_columns=() if known is None else tuple(
            f"{field.name} {field.type}" for field in columns if field.name not in known.names
        ),
        missing_columns=() if known is None or batch.schema is None else tuple(
            name for name in known.names if name not in columns.names
        ),
    )  # fmt: skip


def _shown(count: int | None) -> str:
    return "not known before they are read" if count is None else str(count)
