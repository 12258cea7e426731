"""Tasks find the places of many keys by exchanging hashes: the same places as a look-up of the keys."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen
from hoodie.engine.local_data import LocalData
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index import places_by_hash
from hoodie.index.index import IndexedTable
from hoodie.index.places_by_hash import (
    HASHES,
    ROW_IN_BATCH,
    HashIncoming,
    HashStored,
    LocatedKeys,
    counts_by_partition,
    fits_driver,
    keys_in_tasks,
    locate,
    may_keep_hashes,
    notes_of,
    rows_read,
    rows_seen_by_hash,
)
from tests.support.table_builder import indexed_table, init_table, local_client, rows

UPSERT, DELETE = int(RecordOperation.UPSERT), int(RecordOperation.DELETE)
Row = tuple[str, str, int]
_keeps_hashes = False


@pytest.fixture(autouse=True, params=[False, True], ids=["hashes are left out", "hashes are kept"])
def keeps_hashes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "_keeps_hashes", request.param)


def table_at(path: str) -> IndexedTable:
    return indexed_table(HoodieTableMetaClient.load(path).snapshot)


def incoming(entries: list[Row], is_global: bool = False, partitions: int = 3) -> LocalData:
    table = pa.table(
        {
            RECORD_KEY: pa.array([row[0] for row in entries], pa.string()),
            PARTITION_PATH: pa.array([row[1] for row in entries], pa.string()),
            OPERATION: pa.array([row[2] for row in entries], pa.int8()),
        }
    )
    data = LocalData.from_table(LocalEngineContext(2), table, partitions)
    return data.map_partitions_with_index(HashIncoming(is_global), HASHES).persist()


def located(path: str, entries: list[Row], is_global: bool = False) -> tuple[LocatedKeys, list[str]]:
    table = table_at(path)
    slices = [(part, False) for part in table.slices]
    stored = HashStored(table.storage, is_global, keeps_positions=_keeps_hashes)
    found = locate(incoming(entries, is_global), slices, stored, LocalEngineContext(2), _keeps_hashes)
    return found, [part.file_id for part, _ in slices]


def batch_of(entries: list[Row]) -> pa.RecordBatch:
    return pa.record_batch({RECORD_KEY: [row[0] for row in entries], PARTITION_PATH: [row[1] for row in entries]})


@pytest.fixture
def stored(tmp_path: Path) -> str:
    """Two partitions with two file groups each: keys ``a0`` to ``a199`` and ``b0`` to ``b199`` of each."""
    path = init_table(tmp_path / "t")
    with local_client(path, parquet_small_file_limit=0) as client:
        for letter in "ab":
            client.insert(rows(*((f"{letter}{i}", region, 1) for region in "xy" for i in range(200))))
    return path


def homes_of(path: str) -> dict[tuple[str, str], str]:
    """(key, partition path) to file id."""
    homes = {}
    for part in table_at(path).slices:
        keys = pq.read_table(part.sole_base_file.path, columns=["_hoodie_record_key"]).column(0)
        homes.update({(key, part.partition_path): part.file_id for key in keys.to_pylist()})
    return homes


@pytest.mark.parametrize("count", [1, 10, 5_000])
def test_each_row_goes_to_the_slice_of_its_key(stored: str, count: int) -> None:
    homes = homes_of(stored)
    random = np.random.default_rng(count)
    entries = sorted(
        {
            (f"{'abc'[random.integers(3)]}{random.integers(3_000)}", "xyz"[random.integers(3)], UPSERT)
            for _ in range(count)
        }
    )
    found, _ = located(stored, entries)

    assert found.places is not None
    tagged = found.places.placed(batch_of(entries))
    assert tagged.column(ROW_IN_BATCH.name).to_pylist() == list(range(len(entries)))
    assert tagged.column(CURRENT_FILE_ID).to_pylist() == [homes.get(row[:2]) for row in entries]
    assert found.places.tag(batch_of(entries)).column(CURRENT_FILE_ID).to_pylist() == [
        homes.get(row[:2]) for row in entries
    ]
    new = Counter(path for key, path, _ in entries if (key, path) not in homes)
    assert found.inserts == dict(new)
    assert int(found.updates.sum()) == len(entries) - sum(new.values())
    assert (found.repeated, found.unmatched_deletes) == (0, 0)
    assert rows_seen_by_hash(batch_of(entries)) == found.seen


def test_positions_are_those_of_the_keys_in_their_files(stored: str) -> None:
    rows_of_keys = {}
    for part in table_at(stored).slices:
        keys = pq.read_table(part.sole_base_file.path, columns=["_hoodie_record_key"]).column(0).to_pylist()
        rows_of_keys.update({(key, part.partition_path): row for row, key in enumerate(keys)})
    entries = [(f"{letter}{i}", path, UPSERT) for i in range(250) for letter in "abc" for path in "xyz"]
    entries.insert(7, ("no", "z", DELETE))
    found, _ = located(stored, entries)

    assert found.places is not None
    placed = found.places.placed(batch_of(entries))
    if not _keeps_hashes:
        assert CURRENT_ROW_POSITION not in placed.schema.names
        return
    assert placed.num_rows == len(entries) - 1
    assert placed.column(CURRENT_ROW_POSITION).to_pylist() == [
        rows_of_keys.get(row[:2]) for row in entries if row[2] == UPSERT
    ]


def test_a_key_with_two_positions_in_its_file_has_none_here(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1), ("b", "x", 1), ("a", "x", 2)))
    entries = [("a", "x", UPSERT), ("b", "x", UPSERT), ("new", "x", UPSERT)]
    found, file_ids = located(path, entries)

    assert found.places is not None
    placed = found.places.placed(batch_of(entries))
    assert placed.column(CURRENT_FILE_ID).to_pylist() == [*file_ids, *file_ids, None]
    if _keeps_hashes:
        assert placed.column(CURRENT_ROW_POSITION).to_pylist() == [-1, 1, None]


def test_deletes_of_nothing_go_nowhere(stored: str) -> None:
    entries = [("a1", "x", DELETE), ("no", "x", DELETE), ("no", "z", DELETE), ("new", "x", UPSERT)]
    found, _ = located(stored, entries)

    assert found.places is not None
    assert found.places.placed(batch_of(entries)).column(RECORD_KEY).to_pylist() == ["a1", "new"]
    assert (found.unmatched_deletes, found.inserts, found.seen.count) == (2, {"x": 1}, 2)
    assert found.looked_up == rows_seen_by_hash(batch_of(entries))


def test_a_delete_and_an_upsert_of_a_new_key_go_to_one_place(stored: str) -> None:
    entries = [("new", "x", UPSERT), ("new", "x", DELETE)]
    found, _ = located(stored, entries)

    assert found.places is not None
    assert found.places.placed(batch_of(entries)).num_rows == 2
    assert (found.unmatched_deletes, found.inserts, found.repeated, found.seen.count) == (0, {"x": 1}, 1, 2)


def test_keys_in_several_slices_have_no_place(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, parquet_small_file_limit=0) as client:
        client.insert(rows(("a", "x", 1), ("b", "x", 1)))
        client.insert(rows(("a", "x", 2)))

    assert located(path, [("b", "x", UPSERT), ("c", "x", UPSERT)])[0].places is not None
    assert located(path, [("a", "x", UPSERT), ("c", "x", UPSERT)])[0].places is None


@pytest.mark.parametrize(
    ("entries", "has_places"),
    [
        ([("a1", "x", UPSERT), ("new", "z", UPSERT)], True),
        ([("only", "y", UPSERT)], False),
        ([("new", "x", UPSERT), ("new", "y", UPSERT)], False),
    ],
    ids=["stays", "moves", "comes to two partitions"],
)
def test_keys_of_the_whole_table_have_a_place_if_they_stay(
    tmp_path: Path, entries: list[Row], has_places: bool
) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.insert(rows(("a1", "x", 1), ("only", "x", 1)))

    found, file_ids = located(path, entries, is_global=True)

    assert (found.places is not None) == has_places
    if found.places is not None:
        assert found.places.placed(batch_of(entries)).column(CURRENT_FILE_ID).to_pylist() == [file_ids[0], None]
        assert rows_seen_by_hash(batch_of(entries)) == found.seen
        assert rows_seen_by_hash(batch_of([entries[0], ("new", "y", UPSERT)])) != found.seen


def test_rows_of_another_input_have_another_fingerprint(stored: str) -> None:
    entries = [(f"k{i}", "x", UPSERT) for i in range(100)]
    found, _ = located(stored, entries)

    assert rows_seen_by_hash(batch_of(entries[::-1])) == found.seen
    assert rows_seen_by_hash(batch_of([*entries[:-1], ("k0", "x", UPSERT)])) != found.seen
    assert rows_seen_by_hash(batch_of([*entries[:-1], ("k99", "y", UPSERT)])) != found.seen
    assert found.seen.count == 100
    assert found.seen != RowsSeen(100, 0)


def test_equal_hashes_take_one_place(stored: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keys of one hash: their task looks the keys up, so they need not differ here."""
    monkeypatch.setattr(places_by_hash, "_mixed", lambda hashes: hashes & np.uint64(0xFF00000000000003))
    entries = [(f"k{i}", "x", UPSERT) for i in range(50)]
    table = table_at(stored)
    found = locate(incoming(entries), [], HashStored(table.storage, False), LocalEngineContext(2))

    assert found.places is not None
    assert found.repeated > 0
    assert found.places.placed(batch_of(entries)).num_rows == 50


def test_the_driver_learns_the_partitions_their_counts_and_ranges() -> None:
    table = pa.table(
        {
            RECORD_KEY: pa.array(["b", "a", None, "c"], pa.string()),
            PARTITION_PATH: pa.array(["x", "x", None, "y"], pa.string()),
            OPERATION: pa.array([UPSERT] * 4, pa.int8()),
        }
    )
    data = LocalData.from_table(LocalEngineContext(2), table, 1)
    notes = notes_of(data.map_partitions_with_index(HashIncoming(False), HASHES).persist())

    assert sorted(counts_by_partition(notes).to_pylist(), key=repr) == sorted(
        [{PARTITION_PATH: "x", "count": 2}, {PARTITION_PATH: "y", "count": 1}, {PARTITION_PATH: None, "count": 1}],
        key=repr,
    )
    keys = keys_in_tasks(notes)
    assert keys.ranges == {"x": [("a", "b")], "y": [("c", "c")]}
    assert sorted(keys.sample.to_pylist()) == ["a", "b", "c"]
    assert rows_read(notes).count == 3


def test_places_take_little_more_than_a_byte_for_each_key() -> None:
    entries = [(f"key number {i}", "x", UPSERT) for i in range(200_000)]
    stored = HashStored(None, False)  # type: ignore[arg-type]
    found = locate(incoming(entries), [], stored, LocalEngineContext(2), _keeps_hashes)

    assert found.places is not None
    assert found.places.numbers.nbytes < 1.5 * len(entries)
    assert (found.places.known_hashes is not None) == _keeps_hashes


def test_hashes_are_kept_only_where_tasks_share_memory_and_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    notes = notes_of(incoming([(f"key {i}", "x", UPSERT) for i in range(100)]))
    context = LocalEngineContext(2)
    assert may_keep_hashes(notes, context)
    monkeypatch.setattr(places_by_hash, "MOST_KEPT_BYTES", 1199)
    assert not may_keep_hashes(notes, context)
    monkeypatch.undo()
    monkeypatch.setattr(LocalEngineContext, "shares_memory", False)
    assert not may_keep_hashes(notes, context)


@pytest.mark.parametrize(("slices", "size"), [(0, 1), (253, 1), (254, 2), (1 << 16, 4)])
def test_a_driver_is_asked_for_the_numbers_of_all_rows(slices: int, size: int) -> None:
    notes = notes_of(incoming([(f"k{i}", "xy"[i % 2], UPSERT) for i in range(1000)]))
    assert fits_driver(notes, slices, 1400 * size)
    assert not fits_driver(notes, slices, 1400 * size - 1)
