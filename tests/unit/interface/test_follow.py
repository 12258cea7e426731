"""`Table.follow`: a copy has the rows of its source, also the deleted ones' absence, whatever dies on the way."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, Table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
    TableNotFoundException,
)
from hoodie.interface.following import POSITION_KEY, Following, FollowPosition, newest_marked
from hoodie.query.change_plan import ChangePlan
from tests.support.hookable_storage import Faults, FaultyStorage, faults_of, run_with_faults, use_for_local_files
from tests.support.table_builder import instants

pytestmark = pytest.mark.metadata_table

CDC = {"hoodie.table.cdc.enabled": "true"}
SEVERAL = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}
CITIES = ("oslo", "rome", "bern")


def row(number: int, value: int, city: str | None = None) -> dict[str, Any]:
    times = {"ts": value * 7 % 5}
    return {"id": f"k{number}", "city": city or CITIES[number % 3], "v": value, **times, "tags": [f"t{value}", None]}


def make(path: Path, count: int = 12, **arguments: Any) -> Table:
    """A source with rows of the value 0."""
    given: dict[str, Any] = {"record_key_fields": "id", "partition_fields": "city", **arguments}
    return Table.create(path, [row(number, 0) for number in range(count)], **given)


def in_order(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.read().to_pylist()
    return sorted(found, key=lambda entry: (entry["id"], entry.get("city", "")))


def check_same(copy: Table, source: Table) -> None:
    assert in_order(copy) == in_order(source)


# --- what it does -----------------------------------------------------------------------------------------------------


def test_the_first_call_makes_the_copy_and_later_ones_bring_it_up_to_date(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    made = copy.follow(source)
    assert (made.inserted_count, made.updated_count, made.deleted_count, made.since) == (12, 0, 0, None)
    check_same(copy, source)
    assert copy.schema() == source.schema()
    again = copy.follow(source)
    assert (again.instant_time, again.since, again.until) == (None, made.until, made.until)
    source.upsert([row(1, 5), row(20, 5)])
    source.delete(where="id = 'k2'")
    source.delete(where="id = 'k3'")
    source.insert([row(3, 7)])
    followed = copy.follow(source)
    assert (followed.inserted_count, followed.updated_count, followed.deleted_count) == (1, 2, 1)
    assert followed.since == made.until
    check_same(copy, source)
    assert "1 row inserted, 2 updated, 1 deleted" in str(followed)
    assert str(copy.follow(source)) == f"follow: nothing new; the copy holds the source up to {followed.until}"


def test_the_source_is_given_by_its_folder_too(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(str(tmp_path / "source"))
    source.delete(where="id = 'k2'")
    copy.follow(tmp_path / "source")
    check_same(copy, source)


def test_a_row_that_changes_its_partition_is_in_one_partition_of_the_copy(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    source.delete(where="id = 'k1'")
    source.insert([row(1, 9, "paris")])
    copy.follow(source)
    check_same(copy, source)


def test_a_key_of_several_partitions_has_a_row_in_each(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    source.insert([row(1, 9, "paris")])
    copy.follow(source)
    check_same(copy, source)
    source.delete(where="id = 'k1' and city = 'paris'")
    source.upsert([row(2, 9, "paris"), row(2, 8)])
    copy.follow(source)
    check_same(copy, source)


@pytest.mark.parametrize("stored", [{}, CDC], ids=["without change data", "with change data"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_row_that_stays_in_a_folder_of_another_value_is_once_in_the_copy(
    tmp_path: Path, table_type: str, stored: dict[str, str]
) -> None:
    """An index over all partitions may leave a row in its folder when its partition column changes."""
    source = make(tmp_path / "source", table_type=table_type, properties=stored)
    stays = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    copy = Table(tmp_path / "copy")
    copy.follow(source)
    for number, city in enumerate(("paris", "rome", "bern", "paris")):
        source.upsert([row(1, number, city), row(2, number, city)], properties=stays)
        copy.follow(source)
        check_same(copy, source)
    for number, city in enumerate(("oslo", "rome", "bern")):
        source.upsert([row(1, 10 + number, city), row(2, 10 + number, city)], properties=stays)
    source.upsert([row(3, 7, "nice")], properties=stays)
    Table(source.path, properties=stays).delete(where="id = 'k3'")
    copy.follow(source)
    check_same(copy, source)


def test_a_source_that_only_moved_rows_moves_the_position(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    first = copy.follow(source)
    source.overwrite([row(number, 0) for number in range(12)])
    rewritten = copy.follow(source)
    assert rewritten.until != first.until
    check_same(copy, source)
    assert copy.follow(source).instant_time is None


def test_a_new_column_of_the_source_comes_to_the_copy(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    source.upsert([{**row(1, 3), "tip": 2.5}])
    copy.follow(source)
    assert copy.schema().names == [*row(0, 0), "tip"]
    check_same(copy, source)


def test_a_source_without_a_commit_makes_no_copy(tmp_path: Path) -> None:
    source = Table.create(tmp_path / "source", pa.schema([("id", pa.string())]), record_key_fields="id")
    copy = Table(tmp_path / "copy")
    result = copy.follow(source)
    assert (result.until, str(result)) == (None, "follow: the source has no commit yet")
    assert not (tmp_path / "copy").exists()
    source.upsert([{"id": "a"}])
    copy.follow(source)
    check_same(copy, source)


def test_a_source_whose_rows_are_all_gone_empties_the_copy(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    source.delete_partitions([entry.partition_path for entry in source.partitions()])
    copy.follow(source)
    assert in_order(copy) == []
    source.insert([row(1, 1)])
    copy.follow(source)
    check_same(copy, source)


@pytest.mark.parametrize(
    "described",
    [
        {"partition_fields": ()},
        {"record_key_fields": ["id", "city"], "partition_fields": ()},
        {"properties": {"hoodie.datasource.write.hive_style_partitioning": "true"}},
        {"ordering_fields": "v"},
        {
            "partition_fields": "v",
            "properties": {
                "hoodie.datasource.write.keygenerator.class": "TimestampBasedKeyGenerator",
                "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
                "hoodie.keygen.timebased.output.dateformat": "yyyy-MM",
            },
        },
        {"table_version": 6},
        {"table_version": 8, "table_type": "MERGE_ON_READ"},
    ],
    ids=[
        "one folder",
        "two key fields",
        "hive style",
        "ordering field",
        "partitions of times",
        "version 6",
        "version 8",
    ],
)
def test_the_copy_has_the_keys_and_the_partitions_of_its_source(tmp_path: Path, described: dict[str, Any]) -> None:
    source, copy = make(tmp_path / "source", **described), Table(tmp_path / "copy")
    copy.follow(source)
    ours, theirs = copy.properties(), source.properties()
    for name in ("hoodie.table.recordkey.fields", "hoodie.datasource.write.hive_style_partitioning"):
        assert ours[name] == theirs[name]
    assert ours.get("hoodie.table.partition.fields", "") == theirs.get("hoodie.table.partition.fields", "")
    assert "hoodie.table.ordering.fields" not in ours
    assert [entry.partition_path for entry in copy.partitions()] == [
        entry.partition_path for entry in source.partitions()
    ]
    source.upsert([row(1, 0), row(30, 0)])
    source.delete(where="id = 'k2'")
    copy.follow(source)
    check_same(copy, source)


def test_a_lower_ordering_value_of_the_source_comes_to_the_copy(tmp_path: Path) -> None:
    """The source chooses among rows; the copy takes what it chose."""
    source, copy = make(tmp_path / "source", ordering_fields="v"), Table(tmp_path / "copy")
    source.upsert([row(1, 9)])
    copy.follow(source)
    source.delete(where="id = 'k1'")
    source.insert([row(1, 2)])
    copy.follow(source)
    check_same(copy, source)


OTHER_LAYOUTS = {
    "uncombined": {"hoodie.combine.before.upsert": "false", "hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    "merge-on-read": {"hoodie.datasource.write.table.type": "MERGE_ON_READ"},
    "buckets": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}


@pytest.mark.parametrize("properties", OTHER_LAYOUTS.values(), ids=OTHER_LAYOUTS)
def test_the_copy_may_be_stored_in_another_way(tmp_path: Path, properties: dict[str, str]) -> None:
    source, copy = make(tmp_path / "source", properties=CDC), Table(tmp_path / "copy", properties=properties)
    copy.follow(source)
    for number in range(3):
        source.upsert([row(number, 7), row(40 + number, 1)])
        source.delete(where=f"id = 'k{number}'")
        source.insert([row(number, 8)])
        source.delete(where=f"id = 'k{number + 5}'")
        copy.follow(source)
        check_same(copy, source)


# --- any history ------------------------------------------------------------------------------------------------------


class History:
    """Random writes and services of a source."""

    def __init__(self, source: Table, seed: int) -> None:
        self.source = source
        self.random = random.Random(seed)
        self.value = 0

    def step(self) -> str:
        choice = self.random
        self.value += 1
        keys = choice.sample(range(20), choice.randint(1, 6))
        rows = [row(key, self.value) for key in keys]
        name = choice.choice(
            ["upsert", "upsert", "upsert", "delete", "insert", "overwrite", "partitions", "drop", "cluster", "compact",
             "clean", "update", "archive"]
        )  # fmt: skip
        if name == "upsert":
            self.source.upsert(rows)
        elif name == "insert":
            known = {entry["id"] for entry in in_order(self.source)}
            self.source.insert([entry for entry in rows if entry["id"] not in known])
        elif name == "delete":
            self.source.delete(where=[("id", "in", [f"k{key}" for key in keys])])
        elif name == "update":
            self.source.update(where=f"id < 'k{keys[0]}'", set={"v": self.value})
        elif name in ("overwrite", "partitions"):
            self.source.overwrite(rows, scope="table" if name == "overwrite" else "partitions")
        elif name == "drop":
            self.source.delete_partitions([choice.choice(CITIES)])
        elif name == "cluster":
            self.source.optimize()
        elif name == "compact":
            if self.source.describe().table_type == "MERGE_ON_READ":
                self.source.compact()
        elif name == "clean":
            self.source.clean()
        else:
            self.source.archive()
        return name


@pytest.mark.filterwarnings("ignore:.*readers of table")
@pytest.mark.parametrize("ordering", [(), "ts"], ids=["the later row", "the larger value"])
@pytest.mark.parametrize("properties", [{}, CDC], ids=["without change data", "with change data"])
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [9, 6, 8])
@pytest.mark.parametrize("seed", range(4))
def test_a_copy_has_the_rows_of_its_source_after_any_history(
    tmp_path: Path, ordering: Any, properties: dict[str, str], table_type: str, version: int, seed: int
) -> None:
    described = {"table_type": table_type, "table_version": version, "ordering_fields": ordering}
    source = make(tmp_path / "source", properties=properties, **described)
    history, copy = History(source, seed), Table(tmp_path / "copy")
    done: list[str] = []
    for _ in range(14):
        done.append(history.step())
        if history.random.random() < 0.5:
            copy.follow(source)
            done.append("follow")
            assert in_order(copy) == in_order(source), done
    copy.follow(source)
    assert in_order(copy) == in_order(source), done


# --- what dies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("part", range(6))
@pytest.mark.parametrize("is_first", [True, False])
def test_a_call_that_dies_anywhere_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_first: bool, part: int
) -> None:
    source = make(tmp_path / "source")
    stored = tmp_path / "stored"
    stored.mkdir()
    if not is_first:
        Table(stored / "copy").follow(source)
        source.upsert([row(1, 5), row(20, 5)])
        source.delete(where="id = 'k2'")
    use_for_local_files(monkeypatch, FaultyStorage)

    def attempt(faults: Faults) -> tuple[Table, BaseException | None]:
        shutil.rmtree(tmp_path / "work", ignore_errors=True)
        shutil.copytree(stored, tmp_path / "work")
        copy = Table(tmp_path / "work" / "copy")
        return copy, run_with_faults(faults, lambda: copy.follow(source))

    healthy = Faults()
    copy, error = attempt(healthy)
    assert error is None
    check_same(copy, source)
    for number, how in list(faults_of(healthy.calls, dies=True))[part::6]:
        copy, error = attempt(Faults(number, how))
        copy.follow(source)
        assert in_order(copy) == in_order(source), (number, how, healthy.calls[number - 1])
        source_calls = copy.follow(source)
        assert source_calls.instant_time is None


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [9, 6])
def test_a_commit_that_is_pending_comes_later(tmp_path: Path, version: int, table_type: str) -> None:
    source = make(tmp_path / "source", table_version=version, table_type=table_type)
    copy = Table(tmp_path / "copy")
    for is_first in (True, False):
        config = HoodieWriteConfig.from_properties(source.path, {**SEVERAL, "hoodie.auto.commit": "false"})
        with HoodieLocalWriteClient(config) as slow:
            value = 1 + is_first
            late = slow.upsert([row(0, value), row(30, value)])
            Table(source.path, properties=SEVERAL).upsert([row(1, value), row(31, value)])
            copy.follow(source)
            slow.commit(late.instant_time, late)
        copy.follow(source)
        check_same(copy, source)


def test_of_two_calls_at_a_time_one_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    source.upsert([row(1, 5)])
    original = Following._write
    other = Table(tmp_path / "copy", properties=SEVERAL)

    def after_another(self: Following, *arguments: Any) -> Any:
        monkeypatch.setattr(Following, "_write", original)
        source.upsert([row(7, 6)])
        other.follow(source)
        return original(self, *arguments)

    monkeypatch.setattr(Following, "_write", after_another)
    with pytest.raises(HoodieWriteConflictException):
        Table(tmp_path / "copy", properties=SEVERAL).follow(source)
    check_same(copy, source)
    assert copy.follow(source).instant_time is None


# --- what is refused --------------------------------------------------------------------------------------------------


def test_another_source_is_refused_and_a_moved_one_is_named(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    make(tmp_path / "other")
    with pytest.raises(
        HoodieConfigException, match=rf"follows {tmp_path}/source .*not {tmp_path}/other: .*from_scratch"
    ):
        copy.follow(tmp_path / "other")
    shutil.move(tmp_path / "source", tmp_path / "moved")
    moved = Table(tmp_path / "moved")
    moved.delete(where="id = 'k1'")
    copy.follow(moved, identity=str(tmp_path / "source"))
    check_same(copy, moved)
    other = Table(tmp_path / "other")
    result = copy.follow(other, from_scratch=True)
    assert (result.since, result.inserted_count) == (None, 12)
    check_same(copy, other)
    other.delete(where="id = 'k1'")
    copy.follow(other)
    check_same(copy, other)


def test_a_copy_with_rows_of_others_is_refused(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), make(tmp_path / "copy", 3)
    with pytest.raises(HoodieConfigException, match=r"has rows that no follow\(\) wrote"):
        copy.follow(source)
    assert copy.count() == 3
    copy.follow(source, from_scratch=True)
    check_same(copy, source)


@pytest.mark.parametrize(
    ("described", "told"),
    [
        ({"record_key_fields": ["id", "v"]}, r"its record key is id, v, and id in the source"),
        ({"partition_fields": ()}, r"its list of partition fields is none, and city in the source"),
        ({"ordering_fields": "v"}, r"it chooses among rows by an ordering field"),
        ({"table_version": 6, "ordering_fields": "v"}, r"it chooses among rows by an ordering field"),
    ],
)
def test_a_table_that_stores_rows_otherwise_is_refused(tmp_path: Path, described: dict[str, Any], told: str) -> None:
    source = make(tmp_path / "source")
    given: dict[str, Any] = {"record_key_fields": "id", "partition_fields": "city", **described}
    copy = Table.create(tmp_path / "copy", source.schema(), **given)
    with pytest.raises(HoodieConfigException, match=told):
        copy.follow(source)
    assert instants(tmp_path / "copy") == []


def test_properties_that_describe_another_copy_are_refused_before_it_is_made(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    copy = Table(tmp_path / "copy", properties={"hoodie.datasource.write.precombine.field": "v"})
    with pytest.raises(HoodieConfigException, match="chooses among rows"):
        copy.follow(source)
    assert not (tmp_path / "copy").exists()


def test_an_index_over_all_partitions_is_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    copy = Table(tmp_path / "copy", properties={"hoodie.index.type": "GLOBAL_SIMPLE"})
    with pytest.raises(HoodieNotSupportedException, match=r"GLOBAL_SIMPLE finds a key in all partitions"):
        copy.follow(source)
    assert not (tmp_path / "copy").exists()


def test_the_copy_itself_and_missing_sources_are_refused(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    with pytest.raises(HoodieConfigException, match="is the copy itself"):
        source.follow(tmp_path / "source")
    with pytest.raises(TableNotFoundException):
        Table(tmp_path / "copy").follow(tmp_path / "none")


def test_a_source_without_meta_columns_is_refused(tmp_path: Path) -> None:
    HoodieTableMetaClient.init_table(
        str(tmp_path / "source"), table_name="s", record_key_fields="id",
        properties={"hoodie.populate.meta.fields": "false"},
    )  # fmt: skip
    with pytest.raises(HoodieNotSupportedException, match="no meta columns"):
        Table(tmp_path / "copy").follow(tmp_path / "source")


@pytest.mark.parametrize("table_version", [9, 6])
def test_a_source_that_was_restored_is_refused(tmp_path: Path, table_version: int) -> None:
    source, copy = make(tmp_path / "source", table_version=table_version), Table(tmp_path / "copy")
    held = source.savepoint()
    source.upsert([row(1, 5)])
    copy.follow(source)
    source.restore(held.instant_time)
    for _ in range(2):
        with pytest.raises(HoodieException) as raised:
            copy.follow(source)
        assert "from_scratch=True" in raised.value.__notes__[-1]
        source.upsert([row(2, 6)])
    copy.follow(source, from_scratch=True)
    check_same(copy, source)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_source_that_was_upgraded_is_followed_on_and_one_that_was_downgraded_is_not(
    tmp_path: Path, table_type: str
) -> None:
    source, copy = make(tmp_path / "source", table_version=6, table_type=table_type), Table(tmp_path / "copy")
    source.upsert([row(1, 1)])
    copy.follow(source)
    source.upsert([row(2, 2)])
    source.upgrade(9)
    source.delete(where="id = 'k3'")
    source.upsert([row(1, 4)])
    copy.follow(source)
    check_same(copy, source)
    source.upsert([row(1, 5)])
    copy.follow(source)
    check_same(copy, source)
    source.downgrade(6)
    with pytest.raises(HoodieException, match="was brought to version 6") as raised:
        copy.follow(source)
    assert "from_scratch=True" in raised.value.__notes__[-1]
    copy.follow(source, from_scratch=True)
    check_same(copy, source)


def test_an_upgraded_source_without_the_commit_of_the_position_is_refused(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source", table_version=6), Table(tmp_path / "copy")
    held = source.savepoint()
    source.upsert([row(1, 1)])
    copy.follow(source)
    source.restore(held.instant_time)
    source.upgrade(9)
    with pytest.raises(HoodieException, match="it was undone, or the table was made anew"):
        copy.follow(source)


@pytest.mark.parametrize("name", ["hoodie.populate.meta.fields", "hoodie.write.partial.update"])
def test_a_copy_that_could_not_be_brought_up_to_date_is_not_made(tmp_path: Path, name: str) -> None:
    source = make(tmp_path / "source")
    copy = Table(tmp_path / "copy", properties={name: str(name.endswith("update")).lower()})
    with pytest.raises(HoodieConfigException, match=name):
        copy.follow(source)
    assert not (tmp_path / "copy").exists()


def test_a_source_that_was_made_anew_is_refused(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    shutil.rmtree(tmp_path / "source")
    make(tmp_path / "source", 5)
    with pytest.raises(HoodieException) as raised:
        copy.follow(source)
    assert "from_scratch=True" in raised.value.__notes__[-1]
    assert copy.count() == 12


def test_a_position_whose_files_were_cleaned_is_refused(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    for number in range(4):
        source.upsert([row(1, number), row(2, number)])
    keen = Table(tmp_path / "source", properties={"hoodie.clean.commits.retained": "1"})
    assert keen.clean().instant_time is not None
    with pytest.raises(HoodieIOException) as raised:
        copy.follow(source)
    assert "from_scratch=True" in raised.value.__notes__[-1]
    copy.follow(source, from_scratch=True)
    check_same(copy, source)


def test_a_position_is_found_in_the_archive(tmp_path: Path) -> None:
    source = make(tmp_path / "source")
    properties = {"hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3", "hoodie.clean.commits.retained": "1"}
    copy = Table(tmp_path / "copy", properties=properties)
    first = copy.follow(source)
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(tmp_path / "copy"), properties)) as client:
        for number in range(6):
            client.upsert([row(1, number)])
    assert first.instant_time not in instants(tmp_path / "copy")
    marked = newest_marked(copy._load())
    assert marked is not None
    found = FollowPosition.of(marked, "copy")
    assert (found.source, found.until, found.instant_time) == (
        str(tmp_path / "source"), first.until, first.instant_time,
    )  # fmt: skip


def test_a_position_that_is_damaged_is_told(tmp_path: Path) -> None:
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    config = HoodieWriteConfig.from_properties(str(tmp_path / "copy"), {"hoodie.auto.commit": "false"})
    with HoodieLocalWriteClient(config) as client:
        result = client.upsert([row(1, 5)])
        client.commit(result.instant_time, result, extra_metadata={POSITION_KEY: "[]"})
    with pytest.raises(HoodieException, match=r"which is no position of hoodie; follow\(..., from_scratch=True\)"):
        copy.follow(source)
    copy.follow(source, from_scratch=True)
    check_same(copy, source)


def test_the_changes_are_read_when_the_plan_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit of the source during the call belongs to the next call."""
    source, copy = make(tmp_path / "source"), Table(tmp_path / "copy")
    copy.follow(source)
    source.upsert([row(1, 5)])
    original = ChangePlan.batches

    def later(self: ChangePlan) -> Any:
        monkeypatch.setattr(ChangePlan, "batches", original)
        source.upsert([row(2, 6)])
        return original(self)

    monkeypatch.setattr(ChangePlan, "batches", later)
    before = copy.follow(source)
    assert in_order(copy) != in_order(source)
    after = copy.follow(source)
    assert after.since == before.until
    check_same(copy, source)
