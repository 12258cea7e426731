"""Record keys that would be in more places than a record index can name: what is refused, and what is not."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.exception import (
    HoodieAmbiguousKeyException,
    HoodieIndexException,
    HoodieWriteConflictException,
)
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer import record_index_indexer
from hoodie.metadata.writer.ambiguous_keys import OnePlaceRule
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from hoodie.table.repair import drop_duplicates
from tests.support.pairs import each_pair
from tests.support.table_builder import init_table, instants, local_client, read_rows, rows

ENABLE = "hoodie.metadata.global.record.level.index.enable"
BY_PARTITION = "hoodie.metadata.record.level.index.enable"
LISTED = {
    "hoodie.metadata.enable": "true",
    "hoodie.index.type": "BLOOM",
    "hoodie.clean.automatic": "false",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
INDEXED = {**LISTED, ENABLE: "true"}
APART = {"hoodie.parquet.small.file.limit": "0"}
"""Inserts begin file groups."""
SEVERAL = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])
BOTH_TYPES = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
EACH_WAY = each_pair(
    way=["on the driver", "in tasks"], table_type=["COPY_ON_WRITE", "MERGE_ON_READ"], version=[6, 8, 9]
)


@pytest.fixture
def in_tasks(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "in tasks":
        monkeypatch.setattr(record_index_indexer, "_FEW_ROWS", -1)


def check(path: str) -> None:
    result = hoodie.metadata.validate(path)
    assert result.is_right, result


def listed(path: str) -> tuple[str, ...]:
    return HoodieTableMetaClient.load(path).table_config.metadata_partitions


def place_of(path: str, key: str) -> tuple[str, str]:
    """What the index says of a key: its partition and file group."""
    found = HoodieBackedTableMetadata.open(HoodieTableMetaClient.load(path).snapshot).read_record_index([key])
    (row,) = found.to_pylist()
    return row["partition_path"], row["file_id"]


def ambiguous_keys(path: str) -> list[str]:
    """The keys that a validation calls ambiguous; there are no other differences."""
    result = hoodie.metadata.validate(path)
    assert {(one.partition, one.kind) for one in result.differences} <= {("record_index", "ambiguous")}, result
    return sorted(one.name for one in result.differences)


def refused(path: str, write: Callable[[], Any], *words: str, ambiguous: Sequence[str] = ()) -> None:
    """The write is refused, and leaves the table as it was, with keys that other writers put in several places."""
    before, rows_before = instants(path), read_rows(path)
    with pytest.raises(HoodieAmbiguousKeyException) as caught:
        write()
    assert all(word in str(caught.value) for word in words), caught.value
    kept = {"rollback"}
    assert [one for one in instants(path) if one[1] not in kept] == [one for one in before if one[1] not in kept]
    assert read_rows(path) == rows_before
    assert ambiguous_keys(path) == list(ambiguous)


class OtherWriter:
    """Writes as Hudi does: nothing keeps a key from having several places."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def __call__(self, path: str, write: Callable[[HoodieLocalWriteClient], Any], **properties: str) -> None:
        with self._patch.context() as patch:
            patch.setattr(OnePlaceRule, "check", lambda *_: None)
            with local_client(path, {**INDEXED, **properties}) as client:
                write(client)


@pytest.fixture
def other_writer(monkeypatch: pytest.MonkeyPatch) -> OtherWriter:
    return OtherWriter(monkeypatch)


# --- commits -------------------------------------------------------------------------------------------------------


@EACH_WAY
@pytest.mark.usefixtures("in_tasks")
def test_a_key_of_another_partition_is_refused(tmp_path: Path, version: int, table_type: str, way: str) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        known = place_of(path, "a")[1]
        for operation in (client.insert, client.bulk_insert, client.upsert, client.insert_overwrite):
            given = rows(("a", "y", 2), ("c", "y", 2), ("b", "x", 2) if operation == client.upsert else ("d", "y", 2))
            refused(path, lambda operation=operation, given=given: operation(given), "'a' in partition 'x'", known)
        assert place_of(path, "a") == ("x", known)
        # The others go on, and so does the same key where it is.
        client.upsert(rows(("a", "x", 3), ("c", "y", 3)))
    assert read_rows(path) == [("a", "x", 3), ("b", "x", 1), ("c", "y", 3)]
    check(path)


@BOTH_TYPES
@pytest.mark.parametrize("index_type", ["SIMPLE", "BUCKET", "INMEMORY"])
def test_every_index_that_looks_in_one_partition_is_checked(tmp_path: Path, table_type: str, index_type: str) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    properties = {**INDEXED, "hoodie.index.type": index_type, "hoodie.bucket.index.num.buckets": "2"}
    with local_client(path, properties) as client:
        client.upsert(rows(("a", "x", 1)))
        refused(path, lambda: client.upsert(rows(("a", "y", 2))), "'a' in partition 'x'")
        client.upsert(rows(("a", "x", 2)))
    assert read_rows(path) == [("a", "x", 2)]


@EACH_WAY
@pytest.mark.usefixtures("in_tasks")
def test_a_key_of_another_file_group_of_its_partition_is_refused(
    tmp_path: Path, version: int, table_type: str, way: str
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    with local_client(path, {**INDEXED, **APART}) as client:
        client.insert(rows(("a", "x", 1)))
        for operation in (client.insert, client.bulk_insert):
            refused(path, lambda operation=operation: operation(rows(("a", "x", 2))), "1 record key of", "'a'")
    check(path)


@VERSIONS
def test_the_same_key_twice_in_the_rows_of_one_write(tmp_path: Path, version: int) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    with local_client(path, INDEXED) as client:
        client.insert(rows(("z", "x", 1)))
        twice = rows(("a", "x", 1), ("a", "y", 1), ("b", "x", 1), ("b", "y", 1), ("c", "x", 1))
        refused(path, lambda: client.insert(twice), "2 record keys", "'a' in partition 'x'", "'b' in partition 'x'")
        refused(path, lambda: client.insert_overwrite_table(twice), "2 record keys")
        # In one file group, the index says where it is.
        client.bulk_insert(rows(("a", "x", 1), ("a", "x", 2)))
    assert read_rows(path) == [("a", "x", 1), ("a", "x", 2), ("z", "x", 1)]
    check(path)


@VERSIONS
@BOTH_TYPES
@pytest.mark.one_in(4)
def test_what_makes_no_second_place(tmp_path: Path, version: int, table_type: str) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    flag = pa.field("_hoodie_is_deleted", pa.bool_())

    def flagged(*given: tuple[Any, ...]) -> pa.Table:
        return rows(*given, schema=rows(("a", "x", 1)).schema.append(flag))

    with local_client(path, INDEXED) as client:
        client.upsert(flagged(("a", "x", 1, False), ("b", "x", 1, False), ("c", "y", 1, False)))
        client.upsert(flagged(("a", "x", 2, True), ("a", "y", 2, False)))
        check(path)
        assert place_of(path, "a")[0] == "y"
        client.delete([HoodieKey("b", "x")])
        client.insert(flagged(("b", "z", 3, False)))
        client.insert_overwrite(flagged(("a", "y", 4, False), ("d", "y", 4, False)))
        check(path)
        client.delete_partitions(["y"])
        client.insert(flagged(("a", "x", 5, False), ("c", "x", 5, False)))
        kept = client.upsert(flagged(("a", "x", 6, False))).instant_time
        client.savepoint(kept)
        gone = client.insert(flagged(("e", "z", 7, False))).instant_time
        client.rollback(gone)
        client.bulk_insert(flagged(("e", "x", 8, False)))
        if table_type == "MERGE_ON_READ":
            client.compact()
        client.clean()
        check(path)
        client.restore_to_savepoint(kept)
        client.upsert(flagged(("e", "y", 9, False)))
        client.insert_overwrite_table(flagged(("a", "y", 10, False), ("e", "z", 10, False)))
    assert read_rows(path) == [("a", "y", 10), ("e", "z", 10)]
    check(path)


def test_an_index_by_partitions_names_a_key_once_in_each(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=9)
    with local_client(path, {**LISTED, **APART, BY_PARTITION: "true"}) as client:
        client.insert(rows(("a", "x", 1), ("a", "y", 1)))
        client.insert(rows(("a", "z", 1)))
        refused(
            path, lambda: client.insert(rows(("a", "y", 2))), "one file group for a key in a partition", BY_PARTITION
        )
        client.upsert(rows(("a", "y", 2), ("a", "w", 2)))
    assert read_rows(path) == [("a", "w", 2), ("a", "x", 1), ("a", "y", 2), ("a", "z", 1)]
    check(path)


# --- ways out ------------------------------------------------------------------------------------------------------


@VERSIONS
@BOTH_TYPES
def test_the_ways_out_of_a_refused_commit(tmp_path: Path, version: int, table_type: str) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    given = rows(("a", "y", 2), ("b", "y", 2))
    with local_client(path, INDEXED) as client:
        client.insert(rows(("a", "x", 1)))
        refused(path, lambda: client.insert(given), "hoodie.index.type=RECORD_INDEX", f"{ENABLE}=false")
    looks = {**INDEXED, "hoodie.index.type": "RECORD_INDEX"}
    with local_client(path, looks) as client:
        client.upsert(given)
    assert read_rows(path) == [("a", "x", 2), ("b", "y", 2)] or read_rows(path) == [("a", "y", 2), ("b", "y", 2)]
    check(path)
    with local_client(path, {**looks, "hoodie.record.index.update.partition.path": "true"}) as client:
        client.upsert(rows(("a", "z", 3)))
    assert read_rows(path) == [("a", "z", 3), ("b", "y", 2)]
    check(path)
    with local_client(path, {**INDEXED, ENABLE: "false"}) as client:
        client.insert(rows(("a", "y", 4)))
    assert "record_index" not in listed(path)
    assert read_rows(path) == [("a", "y", 4), ("a", "z", 3), ("b", "y", 2)]
    if version == 9:
        with local_client(path, {**LISTED, BY_PARTITION: "true"}) as client:
            client.insert(rows(("b", "z", 5)))
            client.upsert(rows(("a", "y", 5), ("a", "x", 5)))
        assert "record_index" in listed(path)
        assert read_rows(path) == [("a", "x", 5), ("a", "y", 5), ("a", "z", 3), ("b", "y", 2), ("b", "z", 5)]
        assert hoodie.read_table(path, filters=[("_hoodie_record_key", "=", "a")]).num_rows == 3
    check(path)


# --- builds --------------------------------------------------------------------------------------------------------


def table_with_copies(path: Path, version: int, table_type: str) -> str:
    """A key in two partitions, and no index."""
    made = init_table(path, table_type=table_type, table_version=version)
    with local_client(made, LISTED) as client:
        client.insert(rows(("a", "x", 1), ("a", "y", 1), ("b", "x", 1)))
    return made


@EACH_WAY
@pytest.mark.usefixtures("in_tasks")
def test_an_index_of_such_keys_is_not_built_and_the_table_works_on(
    tmp_path: Path, version: int, table_type: str, way: str
) -> None:
    path = table_with_copies(tmp_path / "t", version, table_type)
    for properties in (INDEXED, {**LISTED, "hoodie.index.type": "RECORD_INDEX"}):
        with local_client(path, properties) as client:
            refused(
                path,
                lambda client=client: client.upsert(rows(("c", "y", 2))),
                "'a' in partition 'x'",
                f"{ENABLE}=false",
            )
    assert listed(path) == ("files",)
    left = [one for one in instants(f"{path}/.hoodie/metadata") if one[2] != "COMPLETED"]
    assert left == [] and not (tmp_path / "t/.hoodie/metadata/record_index").exists()
    for properties in (LISTED, {**LISTED, ENABLE: "false"}):
        with local_client(path, properties) as client:
            client.upsert(rows(("a", "y", 2), ("b", "x", 2)))
    assert read_rows(path) == [("a", "x", 1), ("a", "y", 2), ("b", "x", 2)]
    check(path)
    if version == 9:
        with local_client(path, {**LISTED, BY_PARTITION: "true"}) as client:
            client.upsert(rows(("a", "x", 3)))
        check(path)
        with local_client(path, {**LISTED, BY_PARTITION: "false"}) as client:
            client.clean()
            client.upsert(rows(("a", "x", 4)))
    with local_client(path, LISTED) as client:
        if table_type == "MERGE_ON_READ":
            client.compact()
        drop_duplicates(client, across_partitions=True)
    kept, other = ("x", "y") if version == 9 else ("y", "x")
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("c", "y", 5)))
        refused(path, lambda: client.upsert(rows(("a", other, 6))), "'a' in partition 'x'", "partition 'y'")
    assert [row[:2] for row in read_rows(path)] == [("a", kept), ("b", "x"), ("c", "y")]
    assert "record_index" in listed(path)
    check(path)


@each_pair(when=["before", "meanwhile"], table_type=["COPY_ON_WRITE", "MERGE_ON_READ"], version=[6, 8, 9])
def test_an_indexing_meets_such_keys(
    tmp_path: Path, version: int, table_type: str, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    with local_client(path, LISTED) as client:
        client.insert(rows(("a", "x", 1), ("b", "x", 1)))
        second = rows(("a", "y", 1))
        planned = client.schedule_indexing(["record_index"])
        if when == "before":
            client.insert(second)
        else:
            build = HoodieBackedTableMetadataWriter.build

            def beside(self: HoodieBackedTableMetadataWriter, *given: Any) -> Any:
                built = build(self, *given)
                monkeypatch.setattr(HoodieBackedTableMetadataWriter, "build", build)
                with local_client(path, LISTED) as other:
                    other.insert(second)
                return built

            monkeypatch.setattr(HoodieBackedTableMetadataWriter, "build", beside)
        with pytest.raises(HoodieAmbiguousKeyException, match="'a' in partition 'x'"):
            client.index(planned)
        with pytest.raises(HoodieAmbiguousKeyException, match="'a' in partition 'x'"):
            client.index(planned)
        assert listed(path) == ("files",)
        client.upsert(rows(("a", "y", 2), ("c", "z", 2)))
        check(path)
        assert read_rows(path) == [("a", "x", 1), ("a", "y", 2), ("b", "x", 1), ("c", "z", 2)]
        if when == "before":
            client.rollback(planned)
            planned = client.schedule_indexing(["record_index"])
        client.delete([HoodieKey("a", "y")])
        client.index(planned)
        assert set(listed(path)) == {"files", "record_index"}
        check(path)
        refused(path, lambda: client.insert(second), "'a'")


# --- several writers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index_type", ["RECORD_INDEX", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "BLOOM"])
@VERSIONS
def test_two_writers_add_the_same_key(tmp_path: Path, version: int, index_type: str) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    properties = {**INDEXED, **SEVERAL, **APART, "hoodie.index.type": index_type}
    with (
        local_client(path, {**properties, "hoodie.auto.commit": "false"}) as late,
        local_client(path, properties) as client,
    ):
        client.upsert(rows(("z", "x", 1)))
        instant_time = late.start_commit()
        result = late.upsert(rows(("a", "x", 2), ("b", "y", 2)), instant_time)
        region = "y" if index_type == "BLOOM" else "x"
        others = client.upsert(rows(("a", region, 3), ("c", "z", 3))).instant_time
        if index_type == "BLOOM":
            # Writing again would not help.
            with pytest.raises(HoodieAmbiguousKeyException, match="'a' in partition 'x'"):
                late.commit(instant_time, result)
            late.rollback(instant_time)
        else:
            with pytest.raises(HoodieWriteConflictException, match="'a' in partition 'x'") as caught:
                late.commit(instant_time, result)
            assert caught.value.is_retry_safe
            assert caught.value.other_instants == (others,)
        assert read_rows(path) == [("a", region, 3), ("c", "z", 3), ("z", "x", 1)]
        check(path)


def test_a_writer_that_may_write_again_updates_the_key_of_the_other_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = init_table(tmp_path / "t")
    properties = {**INDEXED, **SEVERAL, **APART, "hoodie.index.type": "RECORD_INDEX"}
    retrying = {**properties, "hoodie.write.lock.wait.retry": "true"}
    with local_client(path, retrying) as late, local_client(path, properties) as client:
        client.upsert(rows(("z", "x", 1)))
        commit, beside = late._commit, [rows(("a", "x", 2))]

        def commit_after_another(*given: Any) -> bool:
            if beside:
                client.upsert(beside.pop())
            return commit(*given)

        monkeypatch.setattr(late, "_commit", commit_after_another)
        late.upsert(rows(("a", "x", 3)))
    assert not beside
    assert read_rows(path) == [("a", "x", 3), ("z", "x", 1)]
    check(path)


# --- what it costs -------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys that writers look up in the index while they record an action."""
    found: list[str] = []
    find = record_index_indexer._StoredEntries.find

    def noted(self: Any, keys: pa.Array, number: int, may_repeat: bool) -> pa.Table | None:
        found.extend(keys.to_pylist())
        return find(self, keys, number, may_repeat)

    monkeypatch.setattr(record_index_indexer._StoredEntries, "find", noted)
    return found


@BOTH_TYPES
def test_only_new_keys_that_nobody_has_looked_for_are_looked_up(
    tmp_path: Path, table_type: str, asked: list[str]
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)

    def looked_up(operation: str, *given: tuple[str, str, int], **properties: str) -> list[str]:
        asked.clear()
        with local_client(path, {**INDEXED, **properties}) as client:
            getattr(client, operation)(rows(*given))
        return sorted(asked)

    for kind in ("RECORD_INDEX", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"):
        assert looked_up("upsert", (kind, "x", 1), ("both", "x", 1), **{"hoodie.index.type": kind}) == []
    assert looked_up("upsert", ("both", "x", 2), ("new", "x", 2)) == ["new"]
    assert looked_up("insert", ("n1", "x", 2), ("n2", "y", 2)) == ["n1", "n2"]
    assert looked_up("insert_overwrite", ("n2", "y", 3), ("n3", "y", 3)) == ["n3"]
    check(path)


# --- tables of other writers ---------------------------------------------------------------------------------------


@VERSIONS
@BOTH_TYPES
@pytest.mark.one_in(4)
def test_a_table_of_hudi_with_such_keys_is_written_on(
    tmp_path: Path, version: int, table_type: str, other_writer: OtherWriter, caplog: pytest.LogCaptureFixture
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    other_writer(path, lambda client: client.insert(rows(("a", "x", 1), ("a", "y", 1), ("b", "x", 1))))
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 2), ("a", "y", 2), ("c", "y", 2)))
        if table_type == "MERGE_ON_READ":
            client.compact()
        kept = client.insert_overwrite(rows(("a", "x", 3), ("a", "y", 3))).instant_time
        assert read_rows(path) == [("a", "x", 3), ("a", "y", 3)]
        refused(path, lambda: client.upsert(rows(("a", "z", 4))), "'a' in partition", ambiguous=["a"])
        client.clean()
        client.savepoint(kept)
        client.upsert(rows(("d", "x", 4)))
        with caplog.at_level(logging.WARNING):
            client.restore_to_savepoint(kept)
        assert "the record index was not built again after the restore" in caplog.text
        assert read_rows(path) == [("a", "x", 3), ("a", "y", 3)]
        with pytest.raises(HoodieAmbiguousKeyException, match=f"{ENABLE}=false"):
            client.upsert(rows(("d", "x", 5)))
    with local_client(path, LISTED) as client, pytest.raises(HoodieAmbiguousKeyException, match=f"{ENABLE}=false"):
        client.upsert(rows(("d", "x", 5)))
    with local_client(path, {**LISTED, ENABLE: "false"}) as client:
        client.upsert(rows(("d", "x", 5)))
    assert read_rows(path) == [("a", "x", 3), ("a", "y", 3), ("d", "x", 5)]
    assert listed(path) == ("files",)
    with local_client(path, LISTED) as client:
        client.upsert(rows(("d", "x", 6)))
    check(path)


@VERSIONS
@BOTH_TYPES
def test_a_validation_names_such_keys_and_what_repairs_them(
    tmp_path: Path, version: int, table_type: str, other_writer: OtherWriter
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version)
    other_writer(path, lambda client: client.insert(rows(("a", "x", 1), ("b", "x", 1), ("c", "x", 1))))
    other_writer(path, lambda client: client.insert(rows(("a", "x", 2), ("b", "y", 2), ("d", "y", 2))), **APART)
    result = hoodie.metadata.validate(path)
    differences = sorted(result.differences, key=lambda one: one.name)
    assert [(one.partition, one.kind, one.name) for one in differences] == [
        ("record_index", "ambiguous", "a"),
        ("record_index", "ambiguous", "b"),
    ]
    for one in differences:
        first, second = one.expected.split(" and ")
        assert first != second
        assert one.found == "/".join(place_of(path, one.name))
        assert one.found in (first, second)
    assert [place.split("/")[0] for one in differences for place in one.expected.split(" and ")] == ["x", "x", "x", "y"]
    assert f"{ENABLE}=false" in repr(result)
    assert "drop_duplicates(client, across_partitions=True)" in repr(result)
    with local_client(path, {**LISTED, ENABLE: "false"}) as client:
        client.upsert(rows(("d", "y", 3)))
        if table_type == "MERGE_ON_READ":
            client.compact()
        drop_duplicates(client, across_partitions=True)
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("d", "y", 4)))
    assert "record_index" in listed(path)
    check(path)


@BOTH_TYPES
def test_a_validation_of_an_index_by_partitions_allows_a_key_in_each(
    tmp_path: Path, table_type: str, other_writer: OtherWriter
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=9)
    by_partition = {ENABLE: "false", BY_PARTITION: "true", **APART}
    other_writer(path, lambda client: client.insert(rows(("a", "x", 1), ("b", "x", 1))), **by_partition)
    other_writer(path, lambda client: client.insert(rows(("a", "y", 2), ("b", "y", 1))), **by_partition)
    check(path)
    other_writer(path, lambda client: client.insert(rows(("b", "y", 3))), **by_partition)
    result = hoodie.metadata.validate(path)
    (one,) = result.differences
    assert (one.partition, one.kind, one.name) == ("record_index", "ambiguous", "b")
    assert [place.split("/")[0] for place in one.expected.split(" and ")] == ["y", "y"]
    assert f"{BY_PARTITION}=false" in repr(result)
    assert "drop_duplicates(client)" in repr(result)


def test_a_delete_of_one_copy_keeps_the_entry_of_the_other(tmp_path: Path, other_writer: OtherWriter) -> None:
    path = init_table(tmp_path / "t")
    other_writer(path, lambda client: client.insert(rows(("a", "x", 1))))
    other_writer(path, lambda client: client.insert(rows(("a", "y", 1))))
    newest = place_of(path, "a")
    assert newest[0] == "y"
    assert ambiguous_keys(path) == ["a"]
    with local_client(path, INDEXED) as client:
        client.delete([HoodieKey("a", "x")])
        assert place_of(path, "a") == newest
        check(path)


def leave_entries(path: str, monkeypatch: pytest.MonkeyPatch, *keys: str) -> None:
    """Delete rows of the partition x, and leave their entries."""
    with monkeypatch.context() as patch:
        real = record_index_indexer.deleted_record_index_entries
        patch.setattr(record_index_indexer, "deleted_record_index_entries", lambda found: real(found.slice(0, 0)))
        with local_client(path, INDEXED) as client:
            client.delete([HoodieKey(key, "x") for key in keys])


@BOTH_TYPES
@pytest.mark.parametrize("is_gone", [False, True])
def test_an_entry_that_is_wrong_refuses_nothing(
    tmp_path: Path, table_type: str, is_gone: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type)
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1), ("c", "x", 1)))
    leave_entries(path, monkeypatch, "a", "b")
    assert not hoodie.metadata.validate(path).is_right
    with local_client(path, INDEXED) as client:
        if is_gone:
            client.delete_partitions(["x"])
        with caplog.at_level(logging.WARNING):
            client.insert(rows(("a", "y", 2), ("b", "y", 2)))
        assert is_gone or "2 of which" in caplog.text
        if not is_gone:
            refused_at = pytest.raises(HoodieAmbiguousKeyException, match=r"1 record key of .* 'c' in partition 'x'")
            with refused_at:
                client.insert(rows(("c", "y", 3), ("d", "y", 3)))
    check(path)


def test_an_index_with_many_wrong_entries_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, INDEXED) as client:
        client.upsert(rows(*((f"k{number}", "x", 1) for number in range(8)), ("z", "x", 1)))
    leave_entries(path, monkeypatch, *(f"k{number}" for number in range(8)))
    monkeypatch.setattr(record_index_indexer, "MOST_KEYS", 1)
    with local_client(path, INDEXED) as client:
        with pytest.raises(HoodieIndexException, match=f"is wrong: .* {ENABLE}=false drops it") as caught:
            client.insert(rows(*((f"k{number}", "y", 2) for number in range(8))))
        assert not isinstance(caught.value, HoodieAmbiguousKeyException)
    with local_client(path, {**INDEXED, ENABLE: "false"}) as client:
        client.insert(rows(*((f"k{number}", "y", 2) for number in range(8))))
    with local_client(path, INDEXED) as client:
        client.upsert(rows(("z", "x", 2)))
    assert "record_index" in listed(path)
    check(path)
