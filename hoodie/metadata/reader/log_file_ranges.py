"""The ranges of columns of a log file, found by the task that writes it."""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.common.model.column_range import StoredColumnRanges, WrittenColumnRanges
from hoodie.metadata.reader.stored_column_ranges import united_ranges
from hoodie.metadata.records.column_stats_records import column_ranges_of_rows


@attrs.frozen
class LogFileRanges:
    """Finds the ranges that `hoodie.metadata.reader.stored_column_ranges` would find in a file; crosses to tasks.

    Attributes:
        schema: The columns of the table in the types in which a log file stores them, meta columns included.
        columns: The columns to look at; nested ones as a path with dots.
        table_version: 6, 8 or 9: the table version whose form the ranges have.
        in_millis: The columns of timestamps that the table stores in milliseconds.
    """

    schema: pa.Schema
    columns: tuple[str, ...]
    table_version: int
    in_millis: frozenset[str]

    def of_rows(self, rows: pa.RecordBatch, before: WrittenColumnRanges | None) -> WrittenColumnRanges:
        """See `hoodie.io.write_context.RangesOfRows`."""
        found = column_ranges_of_rows(self._stored(rows), self.columns, self.table_version, self.in_millis)
        ranges = StoredColumnRanges(rows.num_rows, tuple(found))
        if before is not None:
            ranges = united_ranges(before.found, ranges)
        return WrittenColumnRanges(self.columns, self.table_version, ranges)

    def _stored(self, rows: pa.RecordBatch) -> pa.Table:
        """The columns that are looked at, in the types in which they are stored."""
        places = {name: place for place, name in enumerate(rows.schema.names)}
        names = dict.fromkeys(name.partition(".")[0] for name in self.columns)
        fields = [self.schema.field(name) for name in names]
        arrays = [_in_type(rows.column(places[field.name]), field.type) for field in fields]
        return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _in_type(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values if values.type == wanted else values.cast(wanted)
