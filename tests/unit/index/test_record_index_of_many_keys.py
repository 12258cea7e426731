"""RECORD_INDEX with keys that are so many that nearly all base files hold some: it reads these files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    ROW_NUMBER,
)
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieIndexException
from hoodie.index.index import IndexedTable, TagRequest
from hoodie.index.index_factory import create_index
from hoodie.index.index_report import Decision
from hoodie.index.recordindex import record_index
from hoodie.io.key_lookup_handle import HoodieKeyLookupHandle
from hoodie.table.action.commit import located_in_tasks
from tests.support.table_builder import indexed_table, init_table, local_client, read_rows, rows
from tests.support.table_invariants import check_table

INDEXED: dict[str, Any] = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.global.record.level.index.enable": True,
    "hoodie.index.type": "RECORD_INDEX",
}
KEYS = [f"key{number:03d}" for number in range(200)]
REGION = {key: "xy"[number % 2] for number, key in enumerate(KEYS)}


@pytest.fixture(autouse=True)
def _samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_index, "_KEYS_FOR_A_SAMPLE", 50)


def table_of(folder: Path, **arguments: Any) -> str:
    path = init_table(folder / "t", **arguments)
    with local_client(path, **INDEXED) as client:
        client.upsert(rows(*((key, REGION[key], 1) for key in KEYS)))
    return path


def look_up(
    path: str, keys: list[str], moves: bool = False, only: set[str] | None = None, **more: Any
) -> tuple[pa.Table, IndexedTable]:
    """The keys with their places, and what was looked into; only some partitions may be listed."""
    snapshot = HoodieTableMetaClient.load(path).snapshot
    table = indexed_table(snapshot, only, TagRequest(**more))
    incoming = pa.table(
        {
            RECORD_KEY: pa.array(keys, pa.string()),
            PARTITION_PATH: pa.repeat("x", len(keys)),
            OPERATION: pa.array([0] * len(keys), pa.int8()),
            ROW_NUMBER: pa.array(range(len(keys)), pa.int64()),
            ORDERING_VALUE: pa.array([9] * len(keys), pa.int64()),
        }
    )
    options = {**INDEXED, "hoodie.record.index.update.partition.path": moves}
    index = create_index(HoodieWriteConfig.from_properties(path, options))
    locations = index.find_locations(incoming, LocalEngineContext(2), table)
    return pa.Table.from_batches([locations.tag(incoming.to_batches()[0])]), table


def decisions(table: IndexedTable) -> set[Decision]:
    return {look.decided_by for look in table.work.report().file_groups}


def test_keys_of_all_files_are_found_in_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_of(tmp_path)
    wanted = ["absent", *KEYS, "no key"]
    found, table = look_up(path, wanted)
    assert decisions(table) == {Decision.KEY_CHECK}
    assert found[CURRENT_ROW_POSITION].drop_null().to_pylist() == [number // 2 for number in range(len(KEYS))]
    monkeypatch.setattr(record_index, "_KEYS_FOR_A_SAMPLE", len(wanted) + 1)
    by_index, table = look_up(path, wanted)
    assert decisions(table) == {Decision.RECORD_INDEX}
    names = [RECORD_KEY, PARTITION_PATH, CURRENT_FILE_ID]
    assert found.select(names).to_pylist() == by_index.select(names).to_pylist()
    assert found[CURRENT_FILE_ID].null_count == 2 and len(found[CURRENT_FILE_ID].unique()) == 3


def test_small_tables_are_searched_for_many_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_of(tmp_path)
    wanted = [key for key in KEYS if REGION[key] == "y"]
    for name, value in (("_KEYS_FOR_A_SAMPLE", 1000), ("_KEYS_FOR_BASE_FILES", len(wanted))):
        monkeypatch.setattr(record_index, name, value)
    by_files, table = look_up(path, wanted)
    assert decisions(table) == {Decision.KEY_CHECK} and len(table.slices) == 2
    size = sum(part.size_bytes for part in table.slices)
    others = {
        "_KEYS_FOR_BASE_FILES": len(wanted) + 1,
        "_BYTES_OF_A_KEY": (size - 1) / len(wanted),
        "_KEYS_OF_A_PARTITION": len(wanted) / 2 + 1,
    }
    names = [RECORD_KEY, PARTITION_PATH, CURRENT_FILE_ID]
    for name, value in others.items():
        with monkeypatch.context() as patched:
            patched.setattr(record_index, name, value)
            found, table = look_up(path, wanted)
        assert decisions(table) == {Decision.RECORD_INDEX}
        assert found.select(names).to_pylist() == by_files.select(names).to_pylist()
    _, table = look_up(path, wanted, exact=True)
    assert Decision.RECORD_INDEX in decisions(table)


def test_the_index_is_asked_where_some_files_hold_none_of_the_keys(tmp_path: Path) -> None:
    path = table_of(tmp_path)
    for wanted in ([key for key in KEYS if REGION[key] == "y"], [f"new{number}" for number in range(200)]):
        found, table = look_up(path, wanted)
        assert decisions(table) == {Decision.RECORD_INDEX}
        assert found[CURRENT_FILE_ID].null_count == (0 if wanted[0] in REGION else len(wanted))


def test_only_files_that_the_index_names_are_searched_for_exact_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table_of(tmp_path)
    monkeypatch.setattr(record_index.RecordIndexLookup, "sample", lambda *_: pytest.fail("a sample was looked up"))
    found, _ = look_up(path, KEYS, exact=True)
    assert found[CURRENT_ROW_POSITION].to_pylist() == [number // 2 for number in range(len(KEYS))]


def test_the_index_is_asked_where_not_all_partitions_are_listed(tmp_path: Path) -> None:
    path = table_of(tmp_path)
    with pytest.raises(HoodieIndexException, match="file groups which the table does not have"):
        look_up(path, KEYS, only={"x"})


def test_the_index_is_asked_where_files_have_logs(tmp_path: Path) -> None:
    path = table_of(tmp_path, table_type="MERGE_ON_READ")
    with local_client(path, **INDEXED) as client:
        client.upsert(rows((KEYS[0], "x", 2)))
    _, table = look_up(path, KEYS)
    assert decisions(table) == {Decision.RECORD_INDEX}


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("moves", [True, False])
def test_rows_of_partitions_that_the_input_does_not_name_are_found(
    tmp_path: Path, moves: bool, table_type: str
) -> None:
    path = table_of(tmp_path, table_type=table_type)
    options = {**INDEXED, "hoodie.record.index.update.partition.path": moves}
    with local_client(path, **options) as client:
        client.upsert(rows(*((key, "x", 2) for key in [*KEYS[10:], "new"])))
        client.delete(pa.table({"id": KEYS[:100], "region": ["x"] * 100}))
    assert read_rows(path) == [*((key, "x", 2) for key in KEYS[100:]), ("new", "x", 2)]
    stored = hoodie.read_table(path, columns=["_hoodie_record_key", "_hoodie_partition_path"])
    partitions = {key: "x" if moves else REGION[key] for key in KEYS[100:]} | {"new": "x"}
    assert dict(zip(*stored.to_pydict().values(), strict=True)) == partitions
    assert hoodie.metadata.validate(path, ["files", "record_index"]).is_right


def test_the_whole_index_is_not_read_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_of(tmp_path)
    monkeypatch.setattr(record_index.RecordIndexLookup, "find", lambda *_: pytest.fail("the index was asked"))
    found, _ = look_up(path, KEYS)
    assert found[CURRENT_FILE_ID].null_count == 0


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many keys were looked for in each base file, by the index and by the tasks that write."""
    counts: list[int] = []
    look_up = HoodieKeyLookupHandle.lookup

    def spied(self: HoodieKeyLookupHandle, keys: pa.Array, *arguments: Any) -> Any:
        counts.append(len(keys))
        return look_up(self, keys, *arguments)

    monkeypatch.setattr(HoodieKeyLookupHandle, "lookup", spied)
    return counts


def test_files_are_searched_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, searched: list[int]) -> None:
    path = table_of(tmp_path)
    searched.clear()
    wanted = rows(*((key, REGION[key], 2) for key in KEYS), ("new", "x", 2))
    with local_client(path, **INDEXED) as client:
        client.upsert(wanted)
        assert searched == [201, 201]
        searched.clear()
        monkeypatch.setattr(record_index, "_KEYS_FOR_A_SAMPLE", 1000)
        client.upsert(wanted)
        assert sorted(searched) == [100, 101]
    assert read_rows(path) == sorted(zip(*wanted.to_pydict().values(), strict=True))


def test_rows_that_move_do_not_say_that_a_file_was_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = table_of(tmp_path)
    monkeypatch.setattr(record_index, "_KEYS_FOR_A_SAMPLE", 1000)
    found, _ = look_up(path, [*KEYS, "new"], moves=True)
    located = found.filter(found[CURRENT_FILE_ID].is_valid())
    assert located.num_rows == len(KEYS) and set(located[CURRENT_ROW_POSITION].to_pylist()) == {-1}


@pytest.mark.parametrize("share", [1, 200])
def test_keys_that_stay_in_tasks_are_searched_in_base_files_if_most_of_these_hold_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, share: int
) -> None:
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)
    monkeypatch.setattr(record_index, "SHARED_KEY_BYTES", -1)
    monkeypatch.setattr(record_index, "_GROUPS_FOR_A_SAMPLE", 1)
    searched = []
    locate = located_in_tasks.locate
    monkeypatch.setattr(located_in_tasks, "locate", lambda *given: searched.append(given[1]) or locate(*given))
    path = table_of(tmp_path)
    searched.clear()
    keys = KEYS[::share]
    with local_client(path, **INDEXED) as client:
        result = client.upsert(rows(*((key, REGION[key], 2) for key in keys), ("new", "z", 2)))
    assert (result.inserted_count, result.updated_count) == (1, len(keys))
    assert read_rows(path) == sorted([*((key, REGION[key], 2 if key in keys else 1) for key in KEYS), ("new", "z", 2)])
    assert [len(slices) for slices in searched] == ([2] if share == 1 else [])


@pytest.mark.parametrize("index", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
@pytest.mark.parametrize("bytes_of_a_key", [192 << 10, 1])
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_keys_that_stay_in_tasks_are_searched_in_base_files_that_are_small_beside_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, bytes_of_a_key: int, operation: str
) -> None:
    """Whether or not these files hold some; an insert drops known keys."""
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", -1)
    monkeypatch.setattr(record_index, "SHARED_KEY_BYTES", -1)
    monkeypatch.setattr(record_index, "_KEYS_FOR_BASE_FILES", 40)
    monkeypatch.setattr(record_index, "_BYTES_OF_A_KEY", bytes_of_a_key)
    searched = []
    locate = located_in_tasks.locate
    monkeypatch.setattr(located_in_tasks, "locate", lambda *given: searched.append(given[1]) or locate(*given))
    options = {
        "index_type": index,
        "hoodie.datasource.insert.dup.policy": "drop",
        f"hoodie.metadata.{'global.' if index == 'RECORD_INDEX' else ''}record.level.index.enable": "true",
    }
    # Only version 9 has the index of each partition.
    path = init_table(tmp_path / "t", **({"table_version": 9} if index == "RECORD_LEVEL_INDEX" else {}))
    stored = [(f"k{i:02}", "xy"[i % 2], 1) for i in range(40)]
    given = [(f"k{i:02}", "xyz"[2 if i > 70 else i % 2], 2) for i in range(38, 90)]
    with local_client(path, **options) as client:
        client.upsert(rows(*stored))
        searched.clear()
        result = getattr(client, operation)(rows(*given))
    known = stored if operation == "insert" else [*stored[:38], *given[:2]]
    assert read_rows(path) == sorted([*known, *given[2:]])
    assert result.inserted_count == len(given) - 2
    assert (result.updated_count, result.kept_count) == ((2, 0) if operation == "upsert" else (0, result.kept_count))
    assert [len(slices) for slices in searched] == ([2] if bytes_of_a_key > 1 else [])
    check_table(path)
