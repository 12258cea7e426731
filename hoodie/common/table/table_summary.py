"""Summaries of a table as rows, which print as an aligned text table, or as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Generic, TypeVar, get_args, get_type_hints, overload

import attrs
import pyarrow as pa

from hoodie.common.util.shown_table import ShownTable
from hoodie.exception import HoodieException

_PRINTED_ROWS_LIMIT = 60
_CELL_WIDTH_LIMIT = 200
_RowT = TypeVar("_RowT", bound=attrs.AttrsInstance)


@attrs.frozen
class InstantSummary:
    """One instant of a table's history.

    Attributes:
        instant_time: The time of its request.
        action: commit, clean, rollback, ...
        state: REQUESTED, INFLIGHT or COMPLETED.
        operation: UPSERT, INSERT, ...; None if the instant is not completed or not a write.
        files_written: Data files; None in the same cases, as are the attributes below.
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Deleted rows.
        bytes_written: The size of the data files.
        completion_time: The time of its completion; None if it is not completed, and in tables of version 6, whose
            timelines do not hold it.
    """

    instant_time: str
    action: str
    state: str
    operation: str | None = None
    files_written: int | None = None
    rows_inserted: int | None = None
    rows_updated: int | None = None
    rows_deleted: int | None = None
    bytes_written: int | None = None
    completion_time: str | None = None


@attrs.frozen
class FileSummary:
    """The newest slice of one file group.

    Attributes:
        partition_path: Its partition, "" in a table without partitions.
        file_id: The file group.
        instant_time: The instant of the slice.
        file_name: Its base file; None for a slice of log files only.
        size_bytes: The size of the base file and the log files.
        log_file_count: The number of log files on top of the base file.
    """

    partition_path: str
    file_id: str
    instant_time: str
    file_name: str | None
    size_bytes: int
    log_file_count: int


@attrs.frozen
class PartitionSummary:
    """One partition.

    Attributes:
        partition_path: Its path, "" in a table without partitions.
        file_group_count: The number of file groups with a committed slice.
        size_bytes: The size of the newest slices.
        newest_instant_time: The newest instant among them; None if the partition has no committed files.
    """

    partition_path: str
    file_group_count: int
    size_bytes: int
    newest_instant_time: str | None


class SummaryTable(Sequence[_RowT], Generic[_RowT]):
    """Rows of one class, as a sequence. Printing shows at most the first 60; the sequence holds all.

    ::

        for instant in meta_client.history():
            print(instant.instant_time, instant.rows_inserted)
        snapshot.files().to_pandas().groupby("partition_path")["size_bytes"].sum()
    """

    def __init__(self, row_class: type[_RowT], rows: Iterable[_RowT]) -> None:
        """Build a table of rows.

        Args:
            row_class: An attrs class; its attributes are the columns.
            rows: Instances of it.
        """
        self._row_class = row_class
        self._column_names = tuple(attribute.name for attribute in attrs.fields(row_class))
        self._rows = tuple(rows)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The attributes of a row."""
        return self._column_names

    def to_arrow(self) -> pa.Table:
        """All rows as an Arrow table of string, int64 and float64 columns, even if there are none."""
        hints = get_type_hints(self._row_class)
        schema = pa.schema([_field(name, hints[name]) for name in self._column_names])
        columns = [[getattr(row, name) for row in self._rows] for name in self._column_names]
        return pa.Table.from_arrays(
            [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
        )

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame; numbers have pandas' ``Int64`` type, which stays integer with missing values.

        Raises:
            HoodieException: pandas is not installed.
        """
        try:
            pd = import_module("pandas")
        except ImportError as error:
            raise HoodieException(
                "to_pandas() needs pandas, which is not installed: pip install pandas, or take to_arrow()"
            ) from error
        return self.to_arrow().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, index: int) -> _RowT: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_RowT]: ...
    def __getitem__(self, index: int | slice) -> _RowT | Sequence[_RowT]:
        return self._rows[index]

    def __iter__(self) -> Iterator[_RowT]:
        return iter(self._rows)

    def shown(self, max_rows: int = _PRINTED_ROWS_LIMIT) -> ShownTable:
        """The table to print.

        Args:
            max_rows: The number of rows to show.
        """
        return ShownTable(
            self._column_names,
            [[getattr(row, name) for name in self._column_names] for row in self._rows[:max_rows]],
            len(self._rows),
            max_rows=max_rows,
            max_cell_width=_CELL_WIDTH_LIMIT,
        )

    def __repr__(self) -> str:
        return self.shown().to_text()

    def _repr_html_(self) -> str:
        return self.shown().to_html()


def _field(name: str, hint: Any) -> pa.Field:
    """The column of an attribute: string, int64 or float64, nullable."""
    kinds = get_args(hint) or (hint,)
    data_type = pa.int64() if int in kinds else pa.float64() if float in kinds else pa.string()
    return pa.field(name, data_type, nullable=type(None) in kinds)
