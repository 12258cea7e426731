"""Answers to what people ask a table, as rows that print as an aligned text table, or as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, TypeVar, overload

import attrs

from hoodie.common.util.shown_table import ShownTable

__all__ = ["FileSummary", "InstantSummary", "PartitionSummary", "SummaryTable"]

_PRINTED_ROWS_LIMIT = 60
_CELL_WIDTH_LIMIT = 200
_RowT = TypeVar("_RowT", bound=attrs.AttrsInstance)


@attrs.frozen
class InstantSummary:
    """One instant of a table's history.

    Attributes:
        instant_time: When it was requested.
        action: commit, clean, rollback, ...
        state: REQUESTED, INFLIGHT or COMPLETED.
        operation: UPSERT, INSERT, ...; None where the instant is not completed or no write.
        files_written: Data files; None likewise, as the rest.
        rows_inserted: New rows.
        rows_updated: Replaced rows.
        rows_deleted: Rows that went away.
        bytes_written: Bytes of the data files.
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


@attrs.frozen
class FileSummary:
    """The newest slice of one file group.

    Attributes:
        partition_path: Its partition, "" in a table without partitions.
        file_id: The file group.
        instant_time: The instant of the slice.
        file_name: Its base file; None for a slice of log files only.
        size_bytes: Length of the base file and the log files.
        log_file_count: Log files on top of the base file.
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
        file_group_count: File groups with a committed slice.
        size_bytes: Length of the newest slices.
        newest_instant_time: The newest instant among them; None in a partition without committed files.
    """

    partition_path: str
    file_group_count: int
    size_bytes: int
    newest_instant_time: str | None


class SummaryTable(Sequence[_RowT], Generic[_RowT]):
    """Rows of one class, a sequence. Printing shows at most the first 60; the rows are all there."""

    def __init__(self, row_class: type[_RowT], rows: Iterable[_RowT]) -> None:
        """A table of rows.

        Args:
            row_class: An attrs class; its attributes are the columns.
            rows: Instances of it.
        """
        self._column_names = tuple(attribute.name for attribute in attrs.fields(row_class))
        self._rows = tuple(rows)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The attributes of a row."""
        return self._column_names

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

    def __repr__(self) -> str:
        return self._shown.to_text()

    def _repr_html_(self) -> str:
        return self._shown.to_html()

    @property
    def _shown(self) -> ShownTable:
        return ShownTable(
            self._column_names,
            [[getattr(row, name) for name in self._column_names] for row in self._rows[:_PRINTED_ROWS_LIMIT]],
            len(self._rows),
            max_rows=_PRINTED_ROWS_LIMIT,
            max_cell_width=_CELL_WIDTH_LIMIT,
        )
