"""The rows that a merge writes to a table whose keys are generated: stored rows are found by a scan.

Hudi: org.apache.spark.sql.hudi.command.MergeIntoHoodieTableCommand, for tables without record keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import column_at, top_level_name
from hoodie.common.model.record_columns import (
    FILE_NAME_META,
    OPERATION,
    PARTITION_PATH_META,
    RECORD_KEY_META,
    reserved_field,
)
from hoodie.exception import HoodieKeyException
from hoodie.interface.merge_rows import Matches, MergeRows
from hoodie.query.arrow_reader import scan
from hoodie.query.planner import plan_of
from hoodie.query.table_query import TableQuery
from hoodie.table.table import HoodieTable

_META = (RECORD_KEY_META, PARTITION_PATH_META, FILE_NAME_META)
_NUMBER, _ROW = "number", "row"
_ROWS_AT_ONCE = 1 << 17


@attrs.frozen(eq=False)
class ScannedMergeRows(MergeRows):
    """A merge into a table whose keys are generated; its pairs are any columns.

    The stored rows are scanned for the values of the source's columns. They are written back with their keys and
    places, and a row of the source may match several of them.

    Memory: the rows of the source, about as many stored rows at a time, and those that match.
    """

    def __call__(self, table: HoodieTable) -> pa.Table:
        """The rows to write, as `BaseHoodieWriteClient.upsert_prepped_records` takes them, with the operation of each.

        Args:
            table: The table as the write sees it.

        Raises:
            HoodieKeyException: Several rows of the source apply to one stored row.
            HoodieSchemaException: See `MergeRows.__call__`.
            HoodieConfigException: See `MergeRows.check`.
        """
        schema = table.snapshot.load_schema()
        values = [self._values(number, schema) for number in range(len(self.clauses))]
        key_columns = self._key_columns(schema)
        needed = self._needed(table, schema, values)
        numbers, places, stored = self._scanned(table, key_columns, needed)
        matches = Matches.of(self.source, numbers, places, stored[PARTITION_PATH_META].take(places), stored)
        parts = []
        acting: list[pa.ChunkedArray] = []
        for number, rows in self._clauses_of_rows(matches):
            columns = self._columns(number, schema, values[number], key_columns, rows, stored)
            columns = columns.append_column(reserved_field(OPERATION), self._operations(number, len(rows)))
            for name in _META:
                tags = pa.nulls(len(rows), pa.string()) if rows.places is None else stored[name].take(rows.places)
                columns = columns.append_column(pa.field(name, pa.string()), tags)
            parts.append(columns)
            acting += [] if rows.places is None else [rows.places]
        self._refuse_several(acting, matches)
        if parts:
            return pa.concat_tables(parts)
        fields = [field.with_nullable(True) for field in schema]
        return pa.schema([*fields, reserved_field(OPERATION), *((name, pa.string()) for name in _META)]).empty_table()

    def _needed(self, table: HoodieTable, schema: pa.Schema, values: Sequence[Mapping[str, Any]]) -> list[str]:
        """The stored columns that the clauses need; the partition path of a row is made of its columns again."""
        config = table.snapshot.table_config
        partitions = {top_level_name(schema, field.partition(":")[0]) for field in config.partition_fields}
        compared = {top_level_name(schema, pair.target) for pair in self.pairs}
        wanted = {*super()._needed(table, schema, values), *partitions, *compared}
        return [name for name in schema.names if name in wanted]

    def _scanned(
        self, table: HoodieTable, key_columns: pa.Table, needed: Sequence[str]
    ) -> tuple[pa.ChunkedArray, pa.ChunkedArray, pa.Table]:
        """The pairs of a row of the source and a stored row, as numbers; and these stored rows."""
        schema = table.snapshot.load_schema()
        source = self._keys_of(key_columns).append_column(_NUMBER, pa.array(np.arange(self.source.num_rows)))
        source = source.drop_null()
        numbers: list[pa.ChunkedArray] = []
        places: list[pa.Array] = []
        found: list[pa.Table] = []
        count = 0
        for rows in self._stored_rows(table, source, needed) if source.num_rows else ():
            keys = self._keys_of(rows).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
            names = [name for name in keys.column_names if name != _ROW]
            for name in names:
                keys = keys.filter(pc.is_in(keys[name], value_set=source[name]))
            joined = keys.join(source, names, join_type="inner")
            if not joined.num_rows:
                continue
            matching, where = np.unique(joined[_ROW].to_numpy(), return_inverse=True)
            found.append(rows.take(pa.array(matching)))
            numbers.append(joined[_NUMBER])
            places.append(pa.array(where.astype(np.int64) + count))
            count += len(matching)
        columns = pa.schema([*((name, pa.string()) for name in _META), *(schema.field(name) for name in needed)])
        relaxed = pa.schema([field.with_nullable(True) for field in columns])
        stored = pa.concat_tables([relaxed.empty_table(), *(rows.cast(relaxed) for rows in found)])
        return (
            pa.chunked_array([chunk for part in numbers for chunk in part.chunks], pa.int64()),
            pa.chunked_array(places, pa.int64()),
            stored,
        )

    def _stored_rows(self, table: HoodieTable, source: pa.Table, needed: Sequence[str]) -> Iterator[pa.Table]:
        """The stored rows that may match, in parts that are as large as the source, or larger."""
        query = TableQuery.of(columns=[*_META, *needed], filters=self._bounds(source, table) or None)
        most = max(_ROWS_AT_ONCE, source.num_rows)
        waiting: list[pa.RecordBatch] = []
        count = 0
        reader = scan(plan_of(table.snapshot, query))
        for batch in reader:
            waiting.append(batch)
            count += batch.num_rows
            if count >= most:
                yield pa.Table.from_batches(waiting, reader.schema)
                waiting, count = [], 0
        if count:
            yield pa.Table.from_batches(waiting, reader.schema)

    def _bounds(self, source: pa.Table, table: HoodieTable) -> list[tuple[str, str, Any]]:
        """The ranges of the compared columns, by which files are left out."""
        schema, bounds = table.snapshot.load_schema(), []
        for place, pair in enumerate(self.pairs):
            column = source[str(place)]
            if pair.target in schema.names and _has_bounds(column.type):
                found = pc.min_max(column).as_py()
                bounds += [(pair.target, ">=", found["min"]), (pair.target, "<=", found["max"])]
        return bounds

    def _keys_of(self, rows: pa.Table) -> pa.Table:
        """The compared columns, by the numbers of the pairs."""
        return pa.table({str(place): column_at(rows, pair.target) for place, pair in enumerate(self.pairs)})

    def _refuse_several(self, acting: Sequence[pa.ChunkedArray], matches: Matches) -> None:
        """Refuse stored rows that several rows of the source change."""
        chunks = [chunk for places in acting for chunk in places.chunks]
        places = pa.chunked_array(chunks, pa.int64()).to_numpy()
        once, counts = np.unique(places, return_counts=True)
        several = once[counts > 1]
        if not len(several):
            return
        pairs = matches.matched.table
        numbers = pairs.filter(pc.is_in(pairs["place"], value_set=pa.array(several)))[_NUMBER]
        raise HoodieKeyException(
            f"several rows of the source apply to each of {len(several)} stored rows, such as "
            f"{self._shown(numbers)}; nothing was written. Keep one row of the source for each of them, for example "
            "the newest"
        )


def _has_bounds(data_type: pa.DataType) -> bool:
    """Whether a range of the type can be compared with what files tell."""
    kinds = (pa.types.is_integer, pa.types.is_string, pa.types.is_date, pa.types.is_decimal)
    return any(kind(data_type) for kind in kinds)
