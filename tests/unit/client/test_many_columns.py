"""What a write and a read of a wide table do grows as the number of its columns, not as its square."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.io.parquet.compact_protocol import read_struct
from hoodie.io.parquet.splicing import column_chunks
from hoodie.io.parquet.splicing.splicing_writer import MOST_SPLICED_COLUMNS


def calls_of(action: Callable[[], Any]) -> int:
    """How many functions are called, which a busy machine does not change."""
    profile = cProfile.Profile()
    profile.runcall(action)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_calls_grow_as_the_columns_do(tmp_path: Path, kind: str) -> None:
    counts = []
    for columns in (100, 400):
        path = str(tmp_path / str(columns))
        texts: dict[str, Any] = {f"c{number}": [f"v{number}", None] for number in range(columns)}
        rows = pa.table({"id": ["a", "b"], "ts": [1, 1], **texts})
        properties = {
            "hoodie.datasource.write.table.type": kind,
            "hoodie.metadata.index.column.stats.enable": True,
            "hoodie.metadata.index.column.stats.max.columns.to.index": columns,
        }
        hoodie.write_table(rows, path, record_key_fields="id", ordering_fields="ts", properties=properties)
        one = rows.slice(0, 1)
        hoodie.write_table(one, path, properties=properties)
        counts.append(
            (
                calls_of(lambda path=path, one=one, given=properties: hoodie.write_table(one, path, properties=given)),
                calls_of(lambda path=path: hoodie.read_table(path)),
            )
        )
    (write, read), (wide_write, wide_read) = counts
    assert wide_write < 5 * write
    assert wide_read < 5 * read


@pytest.mark.usefixtures("splices_small_files")
def test_a_wide_file_is_written_and_merged_without_taking_its_footer_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    monkeypatch.setattr(column_chunks, "read_struct", lambda data: taken.append(len(data)) or read_struct(data))
    for columns in (MOST_SPLICED_COLUMNS - len(META_COLUMNS) - 2, MOST_SPLICED_COLUMNS):
        taken.clear()
        path = str(tmp_path / str(columns))
        rows = pa.table({"id": ["a", "b"], "ts": [1, 1], **{f"c{number}": [number, None] for number in range(columns)}})
        hoodie.write_table(rows, path, record_key_fields="id", ordering_fields="ts")
        hoodie.write_table(rows.slice(1).set_column(2, "c0", [pa.array([7])]), path)
        assert bool(taken) is (columns < MOST_SPLICED_COLUMNS)
        found = hoodie.read_table(path, columns=["id", "_hoodie_record_key", "c0", "c9"]).sort_by("id").to_pylist()
        assert [tuple(row.values()) for row in found] == [("a", "a", 0, 9), ("b", "b", 7, None)]
