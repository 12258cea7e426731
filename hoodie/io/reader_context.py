"""One frozen value that all readers of a table's file groups share: the way its rows are read.

Hudi: org.apache.hudi.common.engine.HoodieReaderContext.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import COMMIT_TIME_META
from hoodie.storage.storage import HoodieStorage

if TYPE_CHECKING:
    from hoodie.common.table.timeline.instant_range import InstantRange
    from hoodie.io.merging_reader import LogMerging


@attrs.frozen(eq=False)
class HoodieReaderContext:
    """The settings of a reader of file groups, without its file slice; picklable.

    Attributes:
        storage: The storage of the files.
        schema: The table's schema, including meta columns; older files are read in it.
        columns: Names, in the order of the result; None for all of the schema.
        log_merging: The merge of log files; without it, a slice with log files is refused.
        row_filter: The filter of rows; None for all.
        instant_range: The commits whose rows are wanted; None for all. With a range, ``schema`` has the commit time.
        seeks_few: Whether few rows are expected to pass the filter: then the columns of the filter are read first, and
            the others only where these rows are.
        searched: Record keys, or values of the key field, one of which every row has that passes the filter; None if
            the filter names none.
        log_rows_only: Whether rows of base files below log files are left out, so that the result has only rows of log
            files: those that replace rows of the base file, and those whose keys it lacks.

    Hudi: org.apache.hudi.common.engine.HoodieReaderContext. Differs: a value; it opens no file.
    """

    storage: HoodieStorage
    schema: pa.Schema
    columns: Sequence[str] | None = None
    log_merging: LogMerging | None = None
    row_filter: RowFilter | None = None
    instant_range: InstantRange | None = None
    seeks_few: bool = False
    searched: ColumnValues | None = None
    log_rows_only: bool = False

    def skips_base_rows(self, file_slice: FileSlice) -> bool:
        """Whether no row of the base file of a slice with log files is in the result.

        Args:
            file_slice: The slice.
        """
        instants, base_file = self.instant_range, file_slice.base_file
        # No row of a base file is newer than the file.
        is_behind = instants is not None and base_file is not None and instants.is_behind(base_file.instant_time)
        return self.log_rows_only or is_behind

    @property
    def result_columns(self) -> Sequence[str]:
        """The columns of the result, all of the schema if none are named."""
        names: Sequence[str] = self.schema.names if self.columns is None else self.columns
        return names

    @property
    def read_columns(self) -> list[str]:
        """The columns of the result, and those that decide which rows are in it."""
        names = self.result_columns
        if self.row_filter is not None:
            names = self.row_filter.read_columns(list(names), self.schema)
        return list(dict.fromkeys([*names, COMMIT_TIME_META] if self.instant_range is not None else names))

    @property
    def pushed(self) -> pc.Expression | None:
        """The part of the filter that statistics decide."""
        return self.row_filter.pushed if self.row_filter is not None else None

    @property
    def has_all_rows(self) -> bool:
        """Whether every row is in the result."""
        return self.instant_range is None and self.row_filter is None

    @property
    def may_seek(self) -> bool:
        """Whether the columns of the filter may be read before the others."""
        return self.seeks_few and self.row_filter is not None and self.row_filter.columns is not None

    def wanted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows that pass the filter and the range of instants, in the columns of the result.

        Args:
            batches: Rows with `read_columns`.
        """
        for batch in batches:
            rows = batch
            if self.instant_range is not None:
                rows = rows.filter(self.instant_range.holds(rows.column(COMMIT_TIME_META)))
            if self.row_filter is not None:
                yield from self.row_filter.take(rows).select(self.result_columns).to_batches()
            elif rows.num_rows:
                yield rows.select(self.result_columns)
