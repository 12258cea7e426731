"""What a result says of records that changed nothing."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteResult
from hoodie.merge.record_merger import HoodieRecordMerger, MergeOutcome
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import init_table, local_client

SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "region": pa.string(),
        "ts": pa.int64(),
        "fare": pa.float64(),
        "tags": pa.list_(pa.string()),
        "_hoodie_is_deleted": pa.bool_(),
    }
)
SIMPLE, BUCKET = {"hoodie.index.type": "SIMPLE"}, {"hoodie.index.type": "BUCKET"}
GLOBAL = {"hoodie.index.type": "GLOBAL_SIMPLE"}


def rows(*entries: tuple[Any, ...]) -> pa.Table:
    """Rows of id, region, ts and perhaps fare, tags, and the mark of a delete."""
    full = [(*entry, *(None,) * (len(SCHEMA) - len(entry))) for entry in entries]
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, entry, strict=True)) for entry in full], SCHEMA)


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    init_table(path)
    return path


def client_of(base_path: str, properties: dict[str, Any] | None = None) -> HoodieLocalWriteClient:
    return local_client(base_path, properties or {})


def counts(result: HoodieWriteResult) -> dict[str, int | None]:
    found = {
        name: getattr(result, f"{name}_count")
        for name in ("inserted", "updated", "deleted", "unchanged", "ignored", "kept", "unmatched_delete", "combined")
    }
    return {name: count for name, count in found.items() if count != 0}


@pytest.fixture(params=["keys at hand", "keys with the engine"])
def large(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the keys are too many for the driver."""
    if request.param != "keys at hand":
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
    return bool(request.param != "keys at hand")


@pytest.mark.parametrize("properties", [SIMPLE, BUCKET, GLOBAL], ids=["SIMPLE", "BUCKET", "GLOBAL_SIMPLE"])
def test_an_upsert_tells_late_unchanged_and_doubled_records_and_deletes_of_nothing(
    base_path: str, properties: dict[str, Any], large: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with client_of(base_path, properties) as client:
        first = [("late", "x", 5, 1.0), ("same", "x", 5, 1.0, ["t"]), ("tie", "x", 5, 1.0), ("gone", "y", 5, 1.0)]
        assert counts(client.upsert(rows(*first))) == {"inserted": 4}
        result = client.upsert(
            rows(
                ("late", "x", 4, 9.0),
                ("same", "x", 5, 1.0, ["t"]),
                ("tie", "x", 5, 2.0),
                ("gone", "y", 6, 1.0, None, True),
                ("nobody", "x", 1, 1.0, None, True),
                ("nobody else", "new", 1, 1.0, None, True),
                ("twice", "x", 2, 1.0),
                ("twice", "x", 1, 1.0),
            )
        )
    assert counts(result) == {
        "inserted": 1,
        "updated": 2,
        "deleted": 1,
        "unchanged": 1,
        "ignored": 1,
        "unmatched_delete": 2,
        "combined": 1,
    }
    line = "1 inserted, 2 updated (1 unchanged), 1 deleted, 1 ignored as older, 2 deletes found nothing, "
    line += f"1 duplicate combined, {len(result)} files, "
    assert line in repr(result)
    assert line in caplog.text
    stats = list(result.commit_metadata.write_stats)
    assert [sum(getattr(s, name) for s in stats) for name in ("num_inserts", "num_update_writes", "num_deletes")] == [
        1, 2, 1,
    ]  # fmt: skip


def test_late_records_alone_print_as_such(base_path: str) -> None:
    with client_of(base_path) as client:
        client.upsert(rows(*((f"k{n}", "x", 5, 1.0) for n in range(3))))
        result = client.upsert(rows(*((f"k{n}", "x", 4, 2.0) for n in range(3))))
    assert ": 0 inserted, 0 updated, 3 ignored as older, 1 file, " in str(result)
    assert counts(result) == {"ignored": 3}
    assert hoodie.read_table(base_path)["fare"].to_pylist() == [1.0] * 3


def test_the_same_input_again_changes_nothing_and_is_written_again(base_path: str) -> None:
    many = rows(*((f"k{n}", "xyz"[n % 3], n, n / 7, [str(n)]) for n in range(1000)))
    with client_of(base_path) as client:
        client.upsert(many)
        again = client.upsert(many)
        changed = many.set_column(3, "fare", pa.array(np.where(np.arange(1000) % 4 == 0, -1.0, many["fare"])))
        some = client.upsert(changed)
    assert counts(again) == {"updated": 1000, "unchanged": 1000}
    assert counts(some) == {"updated": 1000, "unchanged": 750}
    assert set(hoodie.read_table(base_path)["_hoodie_commit_time"].to_pylist()) == {some.instant_time}


@pytest.mark.parametrize("properties", [SIMPLE, BUCKET, GLOBAL], ids=["SIMPLE", "BUCKET", "GLOBAL_SIMPLE"])
def test_a_delete_tells_keys_that_are_not_there(base_path: str, properties: dict[str, Any], large: bool) -> None:
    with client_of(base_path, properties) as client:
        client.upsert(rows(("a", "x", 5), ("b", "y", 5)))
        keys = [HoodieKey("a", "x"), HoodieKey("nobody", "x"), HoodieKey("nobody", "z")]
        if properties is GLOBAL:
            keys[2] = HoodieKey("no one", "z")
        result = client.delete(keys)
        nothing = client.delete([HoodieKey("nobody", "x")])
    assert counts(result) == {"deleted": 1, "unmatched_delete": 2}
    assert counts(nothing) == {"unmatched_delete": 1}
    assert "0 inserted, 1 delete found nothing" in repr(nothing)


def test_a_key_that_is_stored_twice_counts_twice(base_path: str) -> None:
    with client_of(base_path, {"hoodie.parquet.small.file.limit": 0}) as client:
        client.insert(rows(("a", "x", 5, 1.0)))
        client.insert(rows(("a", "x", 5, 1.0)))
        assert counts(client.upsert(rows(("a", "x", 4, 1.0)))) == {"ignored": 2}
        assert counts(client.upsert(rows(("a", "x", 5, 1.0)))) == {"updated": 2, "unchanged": 2}


def test_duplicates_of_input_that_is_not_combined_give_way_too(base_path: str) -> None:
    with client_of(base_path, {"hoodie.combine.before.upsert": "false"}) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("c", "x", 1, 1.0)))
        entries = [("a", "x", 2, 2.0), ("a", "x", 3, 3.0), ("b", "x", 1, 1.0), ("b", "x", 2, 2.0)]
        result = client.upsert(rows(*entries))
        deleted = client.upsert(rows(("c", "x", 2, 2.0), ("c", "x", 3, 3.0, None, True), ("d", "x", 1, 1.0)))
    assert counts(result) == {"inserted": 1, "updated": 1, "combined": 2}
    assert counts(deleted) == {"inserted": 1, "deleted": 1, "combined": 1}


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
@pytest.mark.parametrize("properties", [SIMPLE, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_inserts_tell_deletes_that_they_pass_over(base_path: str, properties: dict[str, Any], operation: str) -> None:
    given = rows(("a", "x", 1), ("b", "x", 1, None, None, True), ("c", "y", 1, None, None, True))
    with client_of(base_path, properties) as client:
        assert counts(getattr(client, operation)(given)) == {"inserted": 1, "unmatched_delete": 2}
        only = getattr(client, operation)(given[1:])
        assert counts(only) == {"unmatched_delete": 2}


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
@pytest.mark.parametrize("properties", [SIMPLE, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_inserts_tell_duplicates_where_they_combine_them(
    base_path: str, properties: dict[str, Any], operation: str
) -> None:
    given = rows(("a", "x", 1), ("a", "x", 2), ("b", "x", 1), ("d", "x", 1), ("d", "x", 2, None, None, True))
    with client_of(base_path, {**properties, "hoodie.combine.before.insert": "true"}) as client:
        result = getattr(client, operation)(given)
    combined = 2 if operation == "insert" else None
    assert counts(result) == {"inserted": 2, "unmatched_delete": 1, "combined": combined}


def test_inserts_that_drop_known_keys_count_duplicates_of_the_others(base_path: str, large: bool) -> None:
    with client_of(base_path, {"hoodie.parquet.small.file.limit": 0}) as client:
        client.insert(rows(("a", "x", 1)))
        client.insert(rows(("a", "x", 1)))
    with client_of(base_path, {"hoodie.datasource.insert.dup.policy": "drop"}) as client:
        result = client.insert(rows(("a", "x", 2), ("b", "x", 1), ("b", "x", 2)))
    assert counts(result) == {"inserted": 1, **({"combined": None} if large else {"combined": 1, "kept": 1})}


@pytest.mark.parametrize("operation", ["insert", "bulk_insert"])
@pytest.mark.parametrize("properties", [SIMPLE, BUCKET, GLOBAL], ids=["SIMPLE", "BUCKET", "GLOBAL_SIMPLE"])
def test_inserts_tell_records_of_known_keys_that_they_drop(
    base_path: str, properties: dict[str, Any], operation: str
) -> None:
    with client_of(base_path, {**properties, "hoodie.datasource.insert.dup.policy": "drop"}) as client:
        client.insert(rows(("a", "x", 1)))
        result = getattr(client, operation)(rows(("a", "x", 2), ("a", "x", 3, None, None, True), ("b", "x", 1)))
        nothing = client.insert(rows(("a", "x", 2)))
    assert (result.inserted_count, result.kept_count) == (1, 2)
    assert counts(nothing) == {"kept": 1}
    assert ": 0 inserted, 0 updated, 1 kept as stored (committed)" in str(nothing)


class KeepCheaper(HoodieRecordMerger):
    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.less(newer["fare"], older["fare"]))


def test_what_a_merger_keeps_is_not_called_older(tmp_path: Path) -> None:
    path = str(tmp_path / "m")
    given = {"hoodie.write.record.merge.custom.implementation.classes": f"{__name__}.KeepCheaper"}
    table = pa.table({"id": ["a", "b", "c"], "fare": [2.0, 2.0, 2.0]})
    hoodie.write_table(table, path, record_key_fields="id", properties=given)
    result = hoodie.write_table(table.set_column(1, "fare", pa.array([1.0, 2.0, 3.0])), path, properties=given)
    assert counts(result) == {"updated": 1, "kept": 2}
    assert "1 updated, 2 kept as stored" in repr(result)


def test_records_that_failed_are_not_among_those_without_effect(tmp_path: Path) -> None:
    path = str(tmp_path / "n")
    strict = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    HoodieTableMetaClient.init_table(path, table_name="n", record_key_fields="id", schema=strict)
    hoodie.write_table(pa.table({"id": ["a", "b"], "n": [1, 1]}, strict), path)
    loose = pa.table({"id": ["a", "b"], "n": pa.array([None, 2], pa.int64())})
    with client_of(path, {"hoodie.write.commit.on.errors": "true"}) as client:
        result = client.upsert(loose)
    assert (result.error_count, counts(result)) == (1, {"updated": 1})


def test_records_that_a_bucket_index_appends_are_told_as_neither_new_nor_updates(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with client_of(path, {**BUCKET, "hoodie.bucket.index.num.buckets": "2"}) as client:
        first = client.upsert(rows(*((f"k{number}", "x", 1) for number in range(10))))
        result = client.upsert(rows(*((f"k{number}", "x", 2) for number in range(15))))
    assert (first.inserted_count, first.appended_count) == (10, 0)
    assert (result.inserted_count, result.updated_count, result.appended_count, result.written_count) == (0, 0, 15, 15)
    assert "0 inserted, 15 appended (new or updates), 2 files" in result.summary
    # The commit counts as Hudi does.
    assert sum(status.stat.num_update_writes for status in result.statuses) == 15
    assert "updated or appended" in str(result)
