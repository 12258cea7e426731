"""Rows whose keys tasks find in the table are dropped or refused, by their keys and not by hashes of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieDuplicateKeyException
from hoodie.index import places_by_hash
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.commit import known_rows
from hoodie.table.action.commit.inserts_read_twice import InsertsReadTwice
from hoodie.table.action.commit.known_rows import SliceKeys
from tests.support.table_builder import content, init_table, local_client, read_rows, rows
from tests.support.table_invariants import check_table

DROP = {"hoodie.datasource.insert.dup.policy": "drop"}
FAIL = {"hoodie.datasource.insert.dup.policy": "fail"}
BUCKETS = {"index_type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}


@pytest.fixture(autouse=True)
def _keys_in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """An entry for each insert that compared the rows themselves with the table."""
    found: list[object] = []
    without_stored = InsertsReadTwice._without_stored

    def watched(self: InsertsReadTwice, *given: Any) -> Any:
        found.append(given)
        return without_stored(self, *given)

    monkeypatch.setattr(InsertsReadTwice, "_without_stored", watched)
    return found


def last_digits(keys: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """A hash that keys with one last character share."""
    return np.array([ord(key[-1]) for key in keys.to_pylist()], dtype=np.uint64)


@pytest.mark.parametrize("persist", ["ALWAYS", "AUTO"])
def test_a_key_with_the_hash_of_a_stored_one_is_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[object], persist: str
) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, **DROP, **{"hoodie.write.input.persist": persist}) as client:
        client.insert(rows(("a1", "x", 1), ("a2", "x", 1)))
        monkeypatch.setattr(places_by_hash, "quick_hashes", last_digits)
        del kept[:]
        result = client.insert(rows(("a1", "x", 2), ("b1", "x", 2), ("b3", "x", 2)))
    assert kept
    assert (result.inserted_count, result.is_committed) == (2, True)
    assert read_rows(path) == [("a1", "x", 1), ("a2", "x", 1), ("b1", "x", 2), ("b3", "x", 2)]
    check_table(path)


@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["SIMPLE", "BUCKET"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_an_insert_of_known_keys_alone_writes_no_file(
    tmp_path: Path, kept: list[object], options: dict[str, Any], table_type: str
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    given = [(f"k{i:03}", "xy"[i % 2], 1) for i in range(100)]
    with local_client(path, **DROP, **options) as client:
        client.insert(rows(*given))
        before = sorted(Path(path).glob("[xy]/*"))
        result = client.insert(rows(*[(key, region, 2) for key, region, _ in given]))
    assert not kept
    assert (result.inserted_count, result.updated_count, result.kept_count) == (0, 0, 100)
    assert sorted(Path(path).glob("[xy]/*")) == before
    assert read_rows(path) == given


@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["SIMPLE", "BUCKET"])
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
@pytest.mark.parametrize("combines", ["false", "true"], ids=["rows", "combined rows"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_refused_keys_leave_the_table_as_it_was(
    tmp_path: Path, kept: list[object], options: dict[str, Any], operation: str, combines: str, table_type: str
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    given = [(f"k{i:03}", "xy"[i % 2], 1) for i in range(100)]
    new = [(f"n{i}", "xz"[i % 2], 2) for i in range(50)]
    with local_client(path, **FAIL, **options, **{"hoodie.combine.before.insert": combines}) as client:
        client.insert(rows(*given))
        before = content(path)
        bad = rows(("k001", "y", 2), ("k001", "y", 3), ("k002", "x", 2), *new)
        deletes = pa.array([True, False, True] + [False] * 50)
        for one in (bad, bad.append_column("_hoodie_is_deleted", deletes)):
            with pytest.raises(HoodieDuplicateKeyException, match=r"the keys of 3 of the records.*policy=drop"):
                getattr(client, operation)(one)
        assert not {name for name in content(path) if name.endswith((".parquet", ".log"))} - before.keys()
        assert read_rows(path) == given
        assert getattr(client, operation)(rows(("n1", "x", 2))).inserted_count in (0, 1)
    assert read_rows(path) == [*given, ("n1", "x", 2)]
    check_table(path)


@pytest.mark.parametrize("persist", ["ALWAYS", "AUTO"])
def test_a_new_key_with_the_hash_of_a_stored_one_is_not_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: list[object], persist: str
) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, **FAIL, **{"hoodie.write.input.persist": persist}) as client:
        client.insert(rows(("a1", "x", 1), ("a2", "x", 1)))
        monkeypatch.setattr(places_by_hash, "quick_hashes", last_digits)
        assert client.insert(rows(("b1", "x", 2), ("b3", "x", 2))).inserted_count == 2
    assert kept
    assert read_rows(path) == [("a1", "x", 1), ("a2", "x", 1), ("b1", "x", 2), ("b3", "x", 2)]


@pytest.mark.parametrize("options", [{}, BUCKETS], ids=["SIMPLE", "BUCKET"])
@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
@pytest.mark.parametrize("policy", [DROP, FAIL], ids=["drop", "fail"])
def test_no_rows_and_deletes_alone_are_inserted_nowhere(
    tmp_path: Path, options: dict[str, Any], operation: str, policy: dict[str, Any]
) -> None:
    path = init_table(tmp_path / "t")
    nothing = rows(("n", "x", 1)).slice(0, 0)
    deletes = rows(("n", "x", 1), ("m", "y", 1)).append_column("_hoodie_is_deleted", pa.array([True, True]))
    with local_client(path, **policy, **options) as client:
        client.insert(rows(("a", "x", 1)))
        for given, unmatched in ((nothing, 0), (deletes, 2)):
            result = getattr(client, operation)(given)
            assert (result.inserted_count, result.kept_count, result.unmatched_delete_count) == (0, 0, unmatched)
    assert read_rows(path) == [("a", "x", 1)]


def test_keys_are_looked_up_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of a part, not of all rows of a slice."""
    monkeypatch.setattr(known_rows, "CHECKED_ROWS", 10)
    most: list[int] = []
    has = SliceKeys.has

    def watched(self: SliceKeys, file_slice: Any, keys: pa.Array) -> pa.Array:
        most.append(len(keys))
        return has(self, file_slice, keys)

    monkeypatch.setattr(SliceKeys, "has", watched)
    path = init_table(tmp_path / "t")
    given = [(f"k{i:03}", "x", 1) for i in range(100)]
    batches = [rows(*given[start : start + 7]) for start in range(0, 100, 7)]
    with local_client(path, **DROP, **BUCKETS) as client:
        client.insert(rows(*given[:50]))
        result = client.insert(pa.concat_tables(batches))
    assert (result.inserted_count, result.kept_count) == (50, 50)
    assert sum(most) == 100
    assert max(most) < 20
    assert read_rows(path) == given


def test_keys_may_repeat_among_those_that_are_looked_up(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.insert(rows(("a", "x", 1), ("b", "x", 1)))
    (file_slice,) = HoodieTableMetaClient.load(path).snapshot.view().latest_file_slices("x")
    found = SliceKeys(LocalStorage(path)).has(file_slice, pa.array(["b", "c", "b", "a", "c"]))
    assert found.to_pylist() == [True, False, True, True, False]
