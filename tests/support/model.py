"""What a table must hold, as a dict: random tests do each step on both and compare them.

Tables of other layouts, and real Hudi, are held against `tests.interop.table_model`; writers that are interleaved
against `tests.support.interleaved_writers`, whose model knows which instant wrote each row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.table_builder import TRIPS, read_rows, rows

__all__ = ["TableModel", "model", "read_model", "table_of"]

Row = tuple[Any, ...]


class TableModel(dict[Any, Row]):
    """Key -> row, whose first value is the key and whose second is the partition.

    Each step gives a new model and leaves this one as it is.

    Args:
        rows: What the table holds; of rows of one key the last stays.
        is_global: Whether a key lives once in the table, and not once in each partition.
    """

    def __init__(self, rows: Iterable[Row] = (), *, is_global: bool = True) -> None:
        super().__init__((row[0] if is_global else (row[1], row[0]), row) for row in rows)
        self.is_global = is_global

    def upsert(self, rows: Iterable[Row]) -> TableModel:
        """Rows come in; they replace those of their keys."""
        return self._of([*self.values(), *rows])

    def delete(self, places: Iterable[tuple[Any, ...]]) -> TableModel:
        """Keys go; each is given as the beginning of a row."""
        gone = self._of(places)
        return self._of(row for key, row in self.items() if key not in gone)

    def delete_partitions(self, partitions: Iterable[Any]) -> TableModel:
        """All rows of some partitions go."""
        gone = set(partitions)
        return self._of(row for row in self.values() if row[1] not in gone)

    def insert_overwrite(self, rows: Sequence[Row]) -> TableModel:
        """Rows take the place of all those of their partitions."""
        return self.delete_partitions(row[1] for row in rows).upsert(rows)

    def insert_overwrite_table(self, rows: Iterable[Row]) -> TableModel:
        """Rows take the place of all."""
        return self._of(rows)

    def as_dicts(self, columns: Sequence[str] = TRIPS.names) -> dict[Any, dict[str, Any]]:
        """Key -> the row by its columns, as `tests.support.table_invariants.check_table` takes it."""
        return {key: dict(zip(columns[: len(row)], row, strict=True)) for key, row in self.items()}

    def _of(self, rows: Iterable[Row]) -> TableModel:
        return TableModel(rows, is_global=self.is_global)


def model(*entries: Row) -> TableModel:
    """The model of a table of some rows."""
    return TableModel(entries)


def table_of(expected: Mapping[Any, Row]) -> pa.Table:
    """The rows of a model, to be written."""
    return rows(*expected.values())


def read_model(path: str | Path, columns: Sequence[str] = TRIPS.names[:3], **options: Any) -> TableModel:
    """What a table holds; a key that lives twice is an error.

    Args:
        path: The table.
        columns: What is read; the first is the key, the second the partition.
        options: For `hoodie.read_table`.
    """
    found = read_rows(path, columns, **options)
    expected = TableModel(found)
    assert len(expected) == len(found), f"keys that live twice: {found}"
    return expected
