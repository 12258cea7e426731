"""The plan of a query, as a value: the files to read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.config.property import display_value
from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.shown_table import ShownTable, format_bytes, plural
from hoodie.config.read_config import QueryType
from hoodie.exception import HoodieSchemaException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.query.table_query import TableQuery

if TYPE_CHECKING:
    from hoodie.io.merging_reader import LogMerging


@attrs.frozen
class Pruned:
    """Files that hold no row of the result, and are not read.

    Attributes:
        by: The reason, in words.
        files: Their number.
        size_bytes: Their size.
    """

    by: str
    files: int
    size_bytes: int

    @classmethod
    def of(cls, by: str, files: Iterable[HoodieBaseFile | HoodieLogFile]) -> Pruned:
        """The number and the size of the given files.

        Args:
            by: The reason why they hold no row, in words.
            files: The files.
        """
        sizes = [file.size_bytes for file in files]
        return cls(by, len(sizes), sum(sizes))


@attrs.frozen(eq=False)
class PlannedSlice:
    """A file slice of a plan.

    Attributes:
        file_slice: The slice.
        row_groups: The numbers of the row groups of its base file that are read; None for all.
        row_group_count: The number of row groups in its base file, if `row_groups` is given.
        rows: The rows of the base file with a value that the filter names, from 0, ascending; None for all rows.
    """

    file_slice: FileSlice
    row_groups: tuple[int, ...] | None = None
    row_group_count: int = 0
    rows: npt.NDArray[np.int64] | None = None

    def reader(self, context: HoodieReaderContext) -> HoodieFileGroupReader:
        """A reader of the slice.

        Args:
            context: The context of the reader.
        """
        return HoodieFileGroupReader(context, self.file_slice, self.row_groups, self.rows)


@attrs.frozen
class DataSkipping:
    """Files and partitions that a query does not read, because they hold no row of the result.

    Attributes:
        files: Files that the metadata table or their footers tell of.
        partitions: Partitions, as their paths tell; they were not even listed.
        partitions_without_rows: Likewise, as their statistics in the metadata table tell.

    Statistics and indexes are used unless ``hoodie.enable.data.skipping`` is false.
    """

    files: tuple[Pruned, ...] = ()
    partitions: tuple[str, ...] = ()
    partitions_without_rows: tuple[str, ...] = ()


@attrs.frozen(eq=False, repr=False)
class ReadPlan:
    """The plan of a query: the slices to read, the work on their rows, and the pruned files with the reasons.

    The set of files is fixed. A reader opens only these files; it does not list the table, and takes no lock.

    Attributes:
        snapshot: The table when the plan was made.
        query: The query.
        context: The context of the reader. Its filter holds its range of instants too, and it merges log files only if
            a slice has any.
        slices: The slices to read, sorted by partition path and file id.
        skipped: The files that are not read.
        read_at: The state of the table in words, such as ``as of 20260102101530123``.
    """

    snapshot: TableSnapshot
    query: TableQuery
    context: HoodieReaderContext
    slices: tuple[PlannedSlice, ...]
    skipped: DataSkipping = DataSkipping()
    read_at: str = "newest commit"

    @property
    def schema(self) -> pa.Schema:
        """All columns that can be read: Hudi's meta columns (string), then the user's."""
        return self.context.schema

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the result."""
        return tuple(self.context.result_columns)

    @property
    def row_filter(self) -> RowFilter | None:
        """The condition on the rows of the slices, a range of commits included; None for all rows."""
        return self.context.row_filter

    @property
    def log_merging(self) -> LogMerging | None:
        """The merge of log files; None if no slice has log files."""
        return self.context.log_merging

    @property
    def seeks_few(self) -> bool:
        """Whether few rows are expected in the result: the filter names record keys, or rows of some commits."""
        return self.context.seeks_few

    @property
    def searched(self) -> ColumnValues | None:
        """The record keys, or the values of the key field, that the filter demands; None if it names none."""
        return self.context.searched

    @property
    def pruned(self) -> tuple[Pruned, ...]:
        """Files that are not read, as the metadata table or their footers tell."""
        return self.skipped.files

    @property
    def pruned_partitions(self) -> tuple[str, ...]:
        """Partitions that are not read, as their paths tell; they were not even listed."""
        return self.skipped.partitions

    @property
    def partitions_without_rows(self) -> tuple[str, ...]:
        """Partitions that are not read, as their statistics in the metadata table tell."""
        return self.skipped.partitions_without_rows

    @property
    def base_path(self) -> str:
        """The table's folder."""
        return self.snapshot.base_path

    @property
    def result_schema(self) -> pa.Schema:
        """The columns of the result with their types."""
        return pa.schema([self.schema.field(name) for name in self.columns])

    @property
    def file_slices(self) -> tuple[FileSlice, ...]:
        """The slices that are read."""
        return tuple(planned.file_slice for planned in self.slices)

    @property
    def base_files(self) -> tuple[HoodieBaseFile, ...]:
        """The base files that are read."""
        return tuple(slice.base_file for slice in self.file_slices if slice.base_file is not None)

    @property
    def log_files(self) -> tuple[HoodieLogFile, ...]:
        """The log files that are read."""
        return tuple(log_file for file_slice in self.file_slices for log_file in file_slice.record_log_files)

    @property
    def size_bytes(self) -> int:
        """The size of the files that are read."""
        return sum(file_slice.size_bytes for file_slice in self.file_slices)

    def explain(self) -> str:
        """The plan as text: files and bytes that are read, and that were pruned, with the reasons.

        Pruned partitions are listed for this.

        Raises:
            HoodieIOException: Storage failed.
        """
        by_path = Pruned.of(_by_partition(len(self.pruned_partitions)), self._files_of(self.pruned_partitions))
        count = len(self.partitions_without_rows)
        by_statistics = Pruned.of(
            f"pruned by partition statistics of the metadata table, {plural(count, 'partition')}",
            self._files_of(self.partitions_without_rows),
        )
        return self._shown([by_path, by_statistics, *self.pruned]).to_text()

    def _files_of(self, partitions: Sequence[str]) -> list[HoodieBaseFile | HoodieLogFile]:
        """The files in the given partitions that a query of this type would read."""
        view = self.snapshot.view()
        view.load_partitions(partitions)
        as_of = self.query.times.as_of_time(self.snapshot.active_timeline.timezone)
        files: list[HoodieBaseFile | HoodieLogFile] = []
        for partition in partitions:
            if self.query.query_type is QueryType.READ_OPTIMIZED:
                files += view.latest_base_files_before_or_on(partition, as_of)
                continue
            for file_slice in view.latest_file_slices_before_or_on(partition, as_of):
                files += file_slice.record_files
        return files

    def __repr__(self) -> str:
        return self._shown(self.pruned).to_text()

    def _repr_html_(self) -> str:
        return self._shown(self.pruned).to_html()

    def _shown(self, pruned: Sequence[Pruned]) -> ShownTable:
        path = display_value("hoodie.base.path", self.base_path)
        partitions = len({file_slice.partition_path for file_slice in self.file_slices})
        rows = [(found.by, found.files, format_bytes(found.size_bytes)) for found in pruned if found.files]
        read = f"read, of {plural(partitions, 'partition')}"
        rows.append((read, len(self.base_files) + len(self.log_files), format_bytes(self.size_bytes)))
        notes = []
        groups = [planned for planned in self.slices if planned.row_groups is not None]
        if groups:
            count, of = sum(len(p.row_groups or ()) for p in groups), sum(p.row_group_count for p in groups)
            notes.append(f"row groups read: {count} of {of}, as statistics and keys tell")
        if self.log_files:
            size = format_bytes(sum(log_file.size_bytes for log_file in self.log_files))
            merged = sum(not file_slice.is_base_file_alone for file_slice in self.file_slices)
            notes.append(f"log files read: {len(self.log_files)}, {size}, of {plural(merged, 'file slice')}")
        if self.pruned_partitions or self.partitions_without_rows:
            count = len(self.pruned_partitions) + len(self.partitions_without_rows)
            notes.append(f"partitions not read: {count}")
        if self.row_filter is not None:
            notes.append(f"rows: {self.row_filter.described}")
        if self.columns != tuple(self.schema.names):
            notes.append(f"columns: {', '.join(self.columns)}")
        return ShownTable(
            ("files", "count", "size"),
            rows,
            len(rows),
            title=(f"{self.query.query_type} query of {path}, {self.read_at}",),
            notes=tuple(notes),
            max_cell_width=80,
        )


def _by_partition(count: int) -> str:
    return f"pruned by partition, {count} of them"


def all_columns(user_schema: pa.Schema) -> pa.Schema:
    """Hudi's meta columns, then the user's.

    Args:
        user_schema: The user's columns.
    """
    return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *user_schema])


def check_columns(base_path: str, schema: pa.Schema, wanted: Sequence[str]) -> None:
    """Refuse columns that a table does not have.

    Args:
        base_path: The table's folder.
        schema: All columns of the table.
        wanted: The names of the columns.

    Raises:
        HoodieSchemaException: The table lacks one of them.
    """
    known = set(schema.names)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise HoodieSchemaException(
            f"{base_path} has no column {', '.join(unknown)}{spelled_otherwise(schema.names, unknown)}; "
            f"it has {', '.join(schema.names)}"
        )
