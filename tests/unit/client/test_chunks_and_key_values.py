"""Input in chunks of DataFrames or dicts, and keys as values of the key field."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieKeyException, HoodieSchemaException
from tests.support.table_builder import local_client

CHUNKS: dict[str, list[Any]] = {
    "pandas": [pd.DataFrame({"id": [1, 2], "v": ["a", None]}), pd.DataFrame({"id": [3], "v": ["c"]})],
    "polars": [pl.DataFrame({"id": [1, 2], "v": ["a", None]}), pl.DataFrame({"id": [3], "v": ["c"]})],
    "dicts": [[], [{"id": 1, "v": "a"}, {"id": 2}], [], [{"v": "c", "id": 3}]],
    "dicts without a key": [[{"id": 1, "v": "a"}], [{"id": 2}], ({"v": "c", "id": 3},)],
    "mixed": [pa.table({"id": [1], "v": ["a"]}), [{"id": 2}], pd.DataFrame({"id": [3], "v": ["c"]})],
}


def rows_of(path: str) -> list[tuple[Any, ...]]:
    found = hoodie.read_table(path, columns=["id", "v"]).to_pylist()
    return sorted((row["id"], row["v"]) for row in found)


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
@pytest.mark.parametrize("is_generator", [True, False])
def test_chunks_of_frames_and_of_dicts_are_written(tmp_path: Path, chunks: list[Any], is_generator: bool) -> None:
    def given() -> Iterator[Any]:
        yield from chunks

    path = str(tmp_path / "t")
    hoodie.write_table(given() if is_generator else chunks, path, record_key_fields="id")
    hoodie.write_table(given() if is_generator else chunks, path)
    assert rows_of(path) == [(1, "a"), (2, None), (3, "c")]


def test_a_chunk_that_is_no_rows_is_refused_by_its_number(tmp_path: Path) -> None:
    for wrong in (7, "a", [1, 2], ("a", 1)):
        chunks = iter([[{"id": 1}], wrong])
        with pytest.raises(HoodieSchemaException, match="item 1 of the iterator is"):
            hoodie.write_table(chunks, str(tmp_path / "t"), record_key_fields="id")


VALUES: list[tuple[list[Any], Any, list[int]]] = [
    ([6, 7, 8], [7, 8], [0]),
    ([6, 7, 8], {7}, [0, 2]),
    ([6, 7, 8], range(7, 9), [0]),
    ([6, 7, 8], 7, [0, 2]),
    ([6, 7, 8], np.array([7, 8]), [0]),
    ([6, 7, 8], pd.Series([8]), [0, 1]),
    ([6, 7, 8], pl.Series([8]), [0, 1]),
    ([6, 7, 8], pa.chunked_array([[6], [7]]), [2]),
    ([6, 7, 8], [7.0, np.int32(8)], [0]),
    (["a", "7", "c"], ["7"], [0, 2]),
    (["a", "7", "c"], {"a", "c"}, [1]),
    (["a", "7", "c"], pd.Series(["c"]), [0, 1]),
    ([str(uuid.UUID(int=number)) for number in range(3)], [uuid.UUID(int=1)], [0, 2]),
    ([dt.date(2026, 1, day) for day in (1, 2, 3)], [dt.date(2026, 1, 2)], [0, 2]),
    ([Decimal("1.50"), Decimal("2.50"), Decimal("3.50")], [Decimal("2.5")], [0, 2]),
]


@pytest.mark.parametrize(("ids", "keys", "left"), VALUES, ids=range(len(VALUES)))
def test_records_are_deleted_by_values_of_the_key_field(tmp_path: Path, ids: list[Any], keys: Any, left: Any) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(pa.table({"id": ids, "v": [0, 1, 2]}), path, record_key_fields="id")
    with local_client(path) as client:
        client.delete(keys)
    assert sorted(hoodie.read_table(path)["v"].to_pylist()) == left


def test_values_that_do_not_name_a_record_are_refused(tmp_path: Path) -> None:
    rows = pa.table({"id": [7, 8], "p": ["x", "y"], "v": [1, 2]})
    several, partitioned = str(tmp_path / "several"), str(tmp_path / "partitioned")
    hoodie.write_table(rows, several, record_key_fields=["id", "p"])
    hoodie.write_table(rows, partitioned, record_key_fields="id", partition_fields="p")
    with local_client(several) as client, pytest.raises(HoodieKeyException, match=r"values such as 7.*id, p"):
        client.delete([7])
    with local_client(partitioned) as client, pytest.raises(HoodieKeyException, match="texts or values"):
        client.delete([7])
    with local_client(partitioned, index_type="GLOBAL_SIMPLE") as client:
        client.delete([7])
    assert hoodie.read_table(partitioned)["id"].to_pylist() == [8]
    with local_client(several) as client, pytest.raises(HoodieSchemaException):
        client.delete([("a", 1)])


def composite(path: Path, **properties: str) -> list[str]:
    """A table with two key fields; returns the stored keys."""
    rows = pa.table({"a": [1, 2, 3], "b": ["x", None, "y,b:z\n"], "v": [1, 1, 1]})
    hoodie.write_table(rows, str(path), record_key_fields=["a", "b"], properties=properties)
    return sorted(hoodie.read_table(str(path), columns=["_hoodie_record_key"])["_hoodie_record_key"].to_pylist())


@pytest.mark.parametrize("text", ["1", "x", "1,x", "a:1", "b:x,a:1", "a=1,b=x", "c:1,b:x"])
def test_texts_without_the_parts_of_composite_keys_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "t"
    composite(path)
    message = r"is no record key of .*: its keys are 'a:value,b:value', such as 'a:.*rows with the columns a, b"
    with local_client(path) as client:
        for keys in (text, [text], ["a:1,b:x", text]):
            with pytest.raises(HoodieKeyException, match=message):
                client.delete(keys)
    assert hoodie.read_table(str(path)).num_rows == 3


def test_stored_composite_keys_and_those_that_are_not_there_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "t"
    stored = composite(path)
    assert stored == ["a:1,b:x", "a:2,b:__null__", "a:3,b:y,b:z\n"]
    with local_client(path) as client:
        client.delete(["a:7,b:x", "a:1,b:", "a:,b:"])
        assert hoodie.read_table(str(path)).num_rows == 3
        client.delete(stored)
    assert hoodie.read_table(str(path)).num_rows == 0
    with local_client(path) as client:
        client.delete(["of no form"])


def test_keys_that_records_brought_are_deleted_by_their_texts(tmp_path: Path) -> None:
    path = tmp_path / "t"
    hoodie.HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["a", "b"])
    records = [hoodie.HoodieRecord(hoodie.HoodieKey(f"own{n}"), {"a": n, "b": "x"}) for n in (1, 2)]
    with local_client(path) as client:
        client.insert(records)
        client.delete(["own1"])
    assert hoodie.read_table(str(path), columns=["a"])["a"].to_pylist() == [2]
