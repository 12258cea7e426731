"""INMEMORY: keys of files are read once, those of the client's own commits never; what others did is noticed."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieUpsertException
from hoodie.index.merged_keys import MergedKeys
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.written_keys import compact_keys
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, rows_of_keys

rows = partial(rows_of_keys, p="x")


@pytest.fixture
def path(tmp_path: Path) -> str:
    return init_table(tmp_path / "t", partition_fields=["p"])


def client(path: str, index: str = "INMEMORY", **properties: Any) -> HoodieLocalWriteClient:
    return local_client(path, {"hoodie.index.type": index, **SMALL_FILTERS}, **properties)


def read(path: str) -> dict[str, int]:
    table = hoodie.read_table(path, columns=["id", "ts"])
    found = table.to_pylist()
    assert len({row["id"] for row in found}) == len(found)
    return {row["id"]: row["ts"] for row in found}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Paths of the base files whose key columns were read."""
    found: list[str] = []
    read_keys = HoodieParquetReader.read_record_keys

    def note(self: Any, *arguments: Any) -> Any:
        found.append(self._path)
        return read_keys(self, *arguments)

    monkeypatch.setattr(HoodieParquetReader, "read_record_keys", note)
    yield found


def test_keys_of_its_own_commits_are_never_read(path: str, reads: list[str]) -> None:
    with client(path) as c:
        c.upsert(rows("abc"))
        c.upsert(rows("cd", 2))
        c.delete([HoodieKey("a", "x")])
        c.bulk_insert(rows("f", 2))
        assert reads == []
        # These look into the file that they add to, whatever the index is.
        c.insert(rows("e", 2))
        c.upsert_prepped_records(hoodie.read_table(path))
        del reads[:]
        result = c.upsert(rows("abcdefg", 3))
        assert (result.updated_count, result.inserted_count) == (5, 2)
    assert reads == []


def test_keys_of_files_that_are_there_are_read_once(path: str, reads: list[str]) -> None:
    with client(path, "SIMPLE") as other:
        other.upsert(rows("ab"))
    with client(path) as c:
        c.upsert(rows("bc", 2))
        c.upsert(rows("ac", 3))
    assert len(reads) == 1
    assert read(path) == {"a": 3, "b": 2, "c": 3}


def test_a_plan_tells_that_keys_must_be_read_which_are_not_kept_yet(path: str) -> None:
    with client(path, "SIMPLE") as other:
        other.upsert(rows("ab"))
    with client(path) as c:
        cold, warm = c.explain_upsert(rows("bc", 2)), c.explain_upsert(rows("bc", 2))
    assert [plan.index_report.files_read for plan in (cold, warm)] == [1, 0]
    assert "keys of 1 file read" in repr(cold)
    assert [group.reason for group in cold.rewritten] == ["memory"]


def test_what_somebody_else_did_is_noticed(path: str, reads: list[str]) -> None:
    with client(path) as c, client(path, "SIMPLE") as other:
        c.upsert(rows("ab"))
        other.upsert(rows("bc", 2))
        del reads[:]
        assert c.upsert(rows("c", 3)).updated_count == 1
        assert len(reads) == 1
        last = c.upsert(rows("d", 4)).instant_time
        assert other.rollback(last)
        assert c.upsert(rows("d", 5)).inserted_count == 1
        assert c.rollback(c.upsert(rows("e", 6)).instant_time)
        assert c.upsert(rows("e", 7)).inserted_count == 1
        assert c._session.index._keys.keys() <= {f"{path}/{name}" for name in base_files(path)}  # type: ignore[attr-defined]


def base_files(path: str) -> set[str]:
    return {str(file.relative_to(path)) for file in Path(path).rglob("*.parquet")}


def test_a_write_that_was_not_completed_is_forgotten(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with client(path) as c:
        c.upsert(rows("ab"))

        complete = HoodieActiveTimeline.save_as_complete

        def fail(self: Any, instant_time: str, action: Action, *arguments: Any, **options: Any) -> bool:
            if action is Action.COMMIT:
                raise HoodieUpsertException("no")
            return complete(self, instant_time, action, *arguments, **options)

        with monkeypatch.context() as patch, pytest.raises(HoodieUpsertException):
            patch.setattr(HoodieActiveTimeline, "save_as_complete", fail)
            c.upsert(rows("bc", 2))
        assert len(c._session.index._keys) == 1  # type: ignore[attr-defined]
        result = c.upsert(rows("bc", 3))
        assert (result.updated_count, result.inserted_count) == (1, 1)


def test_keys_are_held_without_the_table_that_they_came_with() -> None:
    wide = pa.chunked_array([pa.array(["x" * 100] * 1000)])
    kept = compact_keys(wide.slice(10, 5))
    assert kept.to_pylist() == ["x" * 100] * 5
    assert kept.get_total_buffer_size() < 1000 < wide.slice(10, 5).get_total_buffer_size()
    assert compact_keys(wide.slice(0, 0)).to_pylist() == []


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.tuples(st.sampled_from(["mine", "other", "delete"]), st.text("abcde", min_size=1, max_size=3)))
)
def test_the_table_is_as_a_dict(tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]]) -> None:
    path = init_table(tmp_path_factory.mktemp("tables") / "t", partition_fields=["p"])
    model: dict[str, int] = {}
    with client(path) as c, client(path, "SIMPLE") as other:
        for ts, (who, keys) in enumerate(steps, 1):
            if who == "delete":
                c.delete([HoodieKey(key, "x") for key in keys])
                model = {key: value for key, value in model.items() if key not in keys}
            else:
                (c if who == "mine" else other).upsert(rows(keys, ts))
                model.update(dict.fromkeys(keys, ts))
            assert read(path) == model
            for file, keys in c._session.index._keys.items():  # type: ignore[attr-defined]
                assert keys.to_pylist() == pq.read_table(file)["_hoodie_record_key"].to_pylist()


IN_LOGS = {"hoodie.index.inmemory.insert.into.logs": "true"}


@pytest.fixture
def read_slices(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[bool, int]]]:
    """For each reading of the keys of a slice: whether with its base file, and how many log files."""
    found: list[tuple[bool, int]] = []
    read = MergedKeys.read_with_deletes

    def note(self: MergedKeys, file_slice: FileSlice) -> tuple[pa.Table, int]:
        found.append((file_slice.base_file is not None, len(file_slice.log_files)))
        return read(self, file_slice)

    monkeypatch.setattr(MergedKeys, "read_with_deletes", note)
    yield found


@pytest.fixture
def merge_on_read(tmp_path: Path) -> str:
    return init_table(tmp_path / "m", partition_fields=["p"], table_type="MERGE_ON_READ")


def test_of_log_files_with_new_keys_only_new_ones_are_read(
    merge_on_read: str, table_version: int, read_slices: list[tuple[bool, int]]
) -> None:
    with client(merge_on_read, **IN_LOGS) as c:
        c.bulk_insert(rows("ab"))
        c.upsert(rows("bc", 1))
        c.upsert(rows("cd", 2))
        c.upsert(rows("ade", 3))
        c.upsert(rows("e", 4))
        assert read(merge_on_read) == {"a": 3, "b": 1, "c": 2, "d": 3, "e": 4}
    if table_version == 6:
        assert read_slices == [(True, 1), (True, 2), (True, 3)]
    else:
        assert read_slices == [(True, 1), (False, 1), (False, 1)]


def test_after_a_delete_the_whole_slice_is_read(
    merge_on_read: str, table_version: int, read_slices: list[tuple[bool, int]]
) -> None:
    with client(merge_on_read, **IN_LOGS) as c:
        c.bulk_insert(rows("ab"))
        c.upsert(rows("bc", 1))
        c.upsert(rows("d", 2))
        c.delete([HoodieKey("c", "x"), HoodieKey("a", "x")])
        c.upsert(rows("ac", 3))
        c.upsert(rows("ac", 4))
        assert read(merge_on_read) == {"a": 4, "b": 1, "c": 4, "d": 2}
    new = (True, 2) if table_version == 6 else (False, 1)
    assert read_slices[-3:] == [new, (True, 3), (True, 4)]


def test_what_others_wrote_compacted_and_took_back_is_noticed(merge_on_read: str) -> None:
    with client(merge_on_read, **IN_LOGS) as c, client(merge_on_read, **IN_LOGS) as other:
        c.bulk_insert(rows("ab"))
        c.upsert(rows("c", 1))
        c.upsert(rows("c", 2))
        other.upsert(rows("de", 3))
        c.upsert(rows("cd", 4))
        assert read(merge_on_read) == {"a": 1, "b": 1, "c": 4, "d": 4, "e": 3}
        c.delete([HoodieKey("d", "x")])
        other.schedule_compaction()
        other.compact()
        c.upsert(rows("abcde", 5))
        assert read(merge_on_read) == dict.fromkeys("abcde", 5)
        other.upsert(rows("fg", 6))
        other.upsert(rows("h", 6))
        c.upsert(rows("g", 7))
        other.rollback(c.upsert(rows("g", 8)).instant_time)
        c.upsert(rows("fgh", 9))
        assert read(merge_on_read) == {**dict.fromkeys("abcde", 5), **dict.fromkeys("fgh", 9)}


def test_a_commit_that_completes_late_takes_its_place_among_log_files(
    merge_on_read: str, read_slices: list[tuple[bool, int]]
) -> None:
    occ = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    with client(merge_on_read, **IN_LOGS, **occ) as c, client(merge_on_read, **IN_LOGS, **occ) as late:
        c.bulk_insert(rows("ab"))
        c.upsert(rows("c", 1))
        c.upsert(rows("c", 2))
        instant = late.start_commit()
        c.upsert(rows_of_keys("z", p="z"))
        late.upsert(rows("d", 3), instant)
        c.upsert(rows("cd", 4))
    assert read(merge_on_read) == {"a": 1, "b": 1, "c": 4, "d": 4, "z": 1}


def test_keys_of_slices_without_log_files_are_not_kept(merge_on_read: str, table_version: int) -> None:
    def kept(c: HoodieLocalWriteClient) -> list[str]:
        return sorted(partition for partition, _ in c._session.index._of_slices._kept)  # type: ignore[attr-defined]

    with client(merge_on_read, **IN_LOGS) as c:
        for partition in "xy":
            c.bulk_insert(rows_of_keys("ab", p=partition))
            c.upsert(rows_of_keys("bc", 1, p=partition))
            c.upsert(rows_of_keys("c", 2, p=partition))
        assert kept(c) == ([] if table_version == 6 else ["x", "y"])
        c.delete_partitions(["y"])
        c.upsert(rows_of_keys("c", 3, p="y"))
        assert "y" not in kept(c)
        c.schedule_compaction()
        c.compact()
        c.upsert(rows("c", 3))
        assert not kept(c)
