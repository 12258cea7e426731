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
