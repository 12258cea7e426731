"""Batches with more text, or more elements, than an array of a stored type can hold."""

from __future__ import annotations

from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import hoodie
from hoodie.common.data import batch_pieces as module
from hoodie.common.data import normalise, numbered_rows, record_source
from hoodie.common.data.batch_pieces import batch_pieces
from hoodie.common.data.record_source import record_batches
from hoodie.exception import HoodieSchemaException
from hoodie.io import merged_columns

TEXTS = ["a" * 60, None, "b" * 70, "", "c" * 80, "d" * 10]


def of(kind: pa.DataType) -> pa.Array:
    return pa.array(TEXTS, kind)


COLUMNS: dict[str, pa.Array] = {
    "large": of(pa.large_string()),
    "a slice": pa.concat_arrays([of(pa.large_string()), of(pa.large_string())]).slice(6),
    "bytes": of(pa.large_string()).cast(pa.large_binary()),
    "view": of(pa.string_view()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3, 4, 5]), of(pa.string())),
    "struct": pa.StructArray.from_arrays([of(pa.large_string())], names=["x"]),
    "list": pa.array([None if text is None else [text] for text in TEXTS], pa.list_(pa.large_string())),
    "large list": pa.array([None if text is None else [text] for text in TEXTS], pa.large_list(pa.large_string())),
    "map": pa.array([None if t is None else [("k", t)] for t in TEXTS], pa.map_(pa.string(), pa.large_string())),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_the_pieces_are_the_batch_and_fit(kind: str) -> None:
    column = COLUMNS[kind]
    batch = pa.record_batch({"id": pa.array(range(6)), "v": column})
    assert [piece is batch for piece in batch_pieces(batch, 220)] == [True]
    pieces = list(batch_pieces(batch, 219, 100))
    assert pa.Table.from_batches(pieces) == pa.Table.from_batches([batch])
    assert len(pieces) > 2
    assert all(module._size(piece.column(1)) <= 100 for piece in pieces)


def test_elements_of_lists_count_too() -> None:
    column = pa.array([[1] * 10, [2] * 10], pa.large_list(pa.int8()))
    assert [piece.num_rows for piece in batch_pieces(pa.record_batch({"v": column}), 19, 10)] == [1, 1]


def test_one_value_that_no_array_holds_is_refused_by_column() -> None:
    with pytest.raises(HoodieSchemaException, match="column 'v' has a value of 80 bytes"):
        list(batch_pieces(pa.record_batch({"v": COLUMNS["large"]}), 79, 79))


def test_types_that_are_stored_as_they_are_are_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_size", None)
    batch = pa.record_batch({"a": ["x"], "b": [b"x"], "c": [1], "d": [[1.5]], "e": [{"x": "y"}]})
    assert list(batch_pieces(batch, 0)) == [batch]


@pytest.mark.parametrize("kind", ["polars", "large", "a slice", "stream", "pandas"])
def test_every_door_cuts_what_is_too_large_and_keeps_the_rows(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for user in (normalise, record_source):
        monkeypatch.setattr(user, "batch_pieces", partial(batch_pieces, max_bytes=100, piece_bytes=100))
    monkeypatch.setattr(normalise, "MAX_BYTES", 100)
    table = pa.table({"v": COLUMNS["a slice" if kind == "a slice" else "large"]})
    data: Any = table
    if kind == "polars":
        data = pl.DataFrame({"v": TEXTS})
    elif kind == "pandas":
        data = table.to_pandas(types_mapper=dict([(pa.large_string(), _large_strings())]).get)
    elif kind == "stream":
        data = table.to_reader()
    batches = list(record_batches(data).batches)
    assert [batch.schema.types for batch in batches] == [[pa.string()]] * len(batches)
    assert len(batches) > 2
    assert pa.Table.from_batches(batches)["v"].to_pylist() == TEXTS


def _large_strings() -> Any:
    import pandas as pd

    return pd.ArrowDtype(pa.large_string())


def test_updates_that_no_array_holds_are_merged_in_pieces(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    rows = {"id": [f"k{number}" for number in range(50)], "v": ["old"] * 50}
    hoodie.write_table(pa.table(rows), path, record_key_fields="id")
    monkeypatch.setattr(merged_columns, "MOST_BYTES", 500)
    monkeypatch.setattr(numbered_rows, "_ONE_ARRAY", 0)
    monkeypatch.setattr(numbered_rows, "BATCH_BYTES", 500)
    changed = [number for number in range(50) if number % 3]
    ids = [f"k{number}" for number in reversed(changed)]
    hoodie.write_table(pa.table({"id": ids, "v": [f"new {key}" for key in ids]}), path)
    found = {row["id"]: row["v"] for row in hoodie.read_table(path).to_pylist()}
    assert found == {f"k{number}": f"new k{number}" if number in changed else "old" for number in range(50)}
