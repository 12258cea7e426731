"""Upserts whose keys stay in tasks give the tables and results of those whose keys come to the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from hoodie import HoodieKey
from hoodie.common.bloom.key_blocks import UInt64Array
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieKeyException, HoodieUpsertException
from hoodie.index import places_by_hash
from hoodie.index.places_by_hash import BYTES_FOR_NUMBER, LocatedKeys
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.table.action.commit import incoming_keys, located_in_tasks
from hoodie.table.action.commit.two_readings import InputReadOtherwise
from tests.support.table_builder import init_table, local_client, read_rows, rows

INDEXES = ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "BUCKET"]
MERGE_ON_READ = {"table_type": "MERGE_ON_READ"}


def options_of(index: str) -> dict[str, Any]:
    return {"index_type": index, "hoodie.bucket.index.num.buckets": 2}


@pytest.fixture
def _in_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_results_count_the_same_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, table_type: str
) -> None:
    stored = [(f"k{i}", "xy"[i % 2], 5) for i in range(40)]
    given = [(f"k{i}", "xy"[i % 2], 4 + i % 3) for i in range(20, 60)] + [("k50", "x", 9), ("new", "z", 1)]
    outcomes = []
    for limit in (incoming_keys.KEY_BYTES, -1):
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", limit)
        path = init_table(tmp_path / f"t{limit}", table_type=table_type)
        with local_client(path, **options_of(index)) as client:
            client.upsert(rows(*stored))
            results = [client.upsert(rows(*given)), client.delete([HoodieKey("k1", "y"), HoodieKey("none", "y")])]
        counts = [
            {name: getattr(result, name) for name in dir(result) if name.endswith("_count")} for result in results
        ]
        stats = [[(status.stat.num_inserts, status.stat.num_update_writes) for status in result] for result in results]
        outcomes.append((counts, [sorted(of_result) for of_result in stats], read_rows(path)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.usefixtures("_in_tasks")
@pytest.mark.parametrize("index", INDEXES)
def test_a_partial_update_of_a_record_that_a_log_file_deleted_is_refused(tmp_path: Path, index: str) -> None:
    path = init_table(tmp_path / "t", **MERGE_ON_READ)
    with local_client(path, **options_of(index)) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        client.delete([HoodieKey("a", "x")])
    options = {**options_of(index), "hoodie.write.partial.update": "true"}
    with local_client(path, **options) as client, pytest.raises(HoodieKeyException, match="not in the table"):
        client.upsert(pa.table({"id": ["a"], "region": ["x"], "ts": [9]}))
    assert read_rows(path) == [("b", "x", 1)]


@pytest.mark.usefixtures("_in_tasks")
def test_a_failure_of_kept_rows_is_told_as_it_is(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", **MERGE_ON_READ)
    fares = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), schema=fares))
        client.delete([HoodieKey("a", "x")])
    options = {"hoodie.write.partial.update": "true", "hoodie.write.partial.update.missing.keys": "INSERT"}
    with local_client(path, **options) as client, pytest.raises(HoodieUpsertException) as error:
        client.upsert(pa.table({"id": ["a"], "region": ["x"], "fare": [3.0]}))
    assert not isinstance(error.value, InputReadOtherwise)


@pytest.mark.usefixtures("_in_tasks")
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE"])
@pytest.mark.parametrize(
    ("stored", "given"),
    [
        ([], [("one", "x", 1), ("two", "y", 1)]),
        ([("one", "x", 1)], [("one", "x", 2), ("two", "y", 1), ("o", "z", 1)]),
        ([("one", "x", 1)], [("two", "y", 1), ("o", "z", 1)]),
        ([("one", "x", 1)], [("one", "x", 2), ("two", "x", 1)]),
        ([("one", "x", 1)], [("two", "x", 1)]),
    ],
    ids=["both new", "one is stored", "one is stored and does not come", "one partition", "one partition, one comes"],
)
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_two_keys_of_one_hash_are_two_records(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    index: str,
    stored: list[tuple[Any, ...]],
    given: list[tuple[Any, ...]],
    table_type: str,
) -> None:
    def collide(hashes: UInt64Array, keys: pa.Array) -> UInt64Array:
        hashes[[key in ("one", "two") for key in keys.to_pylist()]] = 1 << 40
        return hashes

    def patch(name: str) -> None:
        function = getattr(places_by_hash, name)
        monkeypatch.setattr(
            places_by_hash, name, lambda keys, *more, **named: collide(np.array(function(keys, *more, **named)), keys)
        )

    # A hash of a key with its partition path is made of two.
    for name in ["quick_hashes"] if index == "GLOBAL_SIMPLE" else ["hashes_of_rows", "_hashes_in_partition"]:
        patch(name)
    path = init_table(tmp_path / "t", table_type=table_type)
    with local_client(path, index_type=index) as client:
        if stored:
            client.insert(rows(*stored))
        result = client.upsert(rows(*given))
    expected = {row[0]: row for row in [*stored, *given]}
    assert read_rows(path) == sorted(expected.values())
    assert read_rows(path, ["id", "_hoodie_partition_path"]) == sorted((row[0], row[1]) for row in expected.values())
    assert result.inserted_count == len(expected) - len(stored)
    for region in "xyz":
        found = [row for row in read_rows(path, filters=[("region", "=", region)])]
        assert found == sorted(row for row in expected.values() if row[1] == region)


@pytest.mark.usefixtures("_in_tasks")
@pytest.mark.parametrize("fits", [True, False])
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_rows_are_looked_up_themselves_where_their_places_are_too_large_to_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, table_type: str, fits: bool
) -> None:
    stored = [(f"k{i}", "xy"[i % 2], 5) for i in range(40)]
    given = [(f"k{i}", "xy"[i % 2], 4 + i % 3) for i in range(20, 60)] + [("k50", "x", 9), ("new", "z", 1)]
    path = init_table(tmp_path / "t", table_type=table_type)
    options = {**options_of(index), "hoodie.metadata.global.record.level.index.enable": str(index == "RECORD_INDEX")}
    looked_up: list[int] = []
    locate = located_in_tasks.locate

    def watched(*arguments: Any) -> LocatedKeys:
        looked_up.append(1)
        return locate(*arguments)

    with local_client(path, **options) as client:
        client.upsert(rows(*stored))
        monkeypatch.setattr(located_in_tasks, "locate", watched)
        size = len(given) * BYTES_FOR_NUMBER
        monkeypatch.setattr(LocalEngineContext, "max_shared_bytes", size if fits else size - 1)
        result = client.upsert(rows(*given))
    expected = {row[0]: row for row in stored}
    for row in given:
        if row[2] >= expected.get(row[0], row)[2]:
            expected[row[0]] = row
    assert read_rows(path) == sorted(expected.values())
    assert (result.inserted_count, result.combined_count) == (len(expected) - len(stored), 1)
    assert looked_up == ([1] if fits else [])


@pytest.mark.usefixtures("_in_tasks")
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE"])
def test_keys_are_not_searched_a_second_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    path = init_table(tmp_path / "t")
    stored = [(f"k{i}", "xy"[i % 2], 1) for i in range(40)]
    given = [(f"k{i}", "xy"[i % 2], 2) for i in range(59, 10, -1)] + [("new", "z", 2)]
    gone = [HoodieKey(row[0], row[1]) for row in stored[:3]]
    with local_client(path, index_type=index) as client:
        client.upsert(rows(*stored))
        with monkeypatch.context() as patches:
            patches.setattr(HoodieKeyLookupHandle, "lookup", lambda *arguments: pytest.fail("searched"))
            result = client.upsert(rows(*given))
        client.delete(gone)
    expected = {row[0]: row for row in [*stored, *given]}
    for key in gone:
        del expected[key.record_key]
    assert read_rows(path) == sorted(expected.values())
    assert (result.inserted_count, result.updated_count) == (21, 29)
