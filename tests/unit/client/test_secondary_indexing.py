"""Secondary indexes that are built beside writers: `schedule_indexing` and `index`."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.service_metadata import HoodieIndexPartitionInfo, HoodieIndexPlan
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieAmbiguousKeyException,
    HoodieConfigException,
    HoodieIndexException,
    HoodieNotSupportedException,
)
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.writer.index_definition_writer import delete_index_definition, save_index_definition
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.unit.client.test_indexing import beside_build
from tests.unit.client.test_secondary_indexes import check, client_of, new_table, rows

pytestmark = [pytest.mark.table_version(9), pytest.mark.metadata_table]

BOTH = {"idx_color": "color", "n": "n"}
PATHS = {f"secondary_index_{name}" for name in BOTH}
GLOBAL = {
    "index__type": "RECORD_INDEX",
    "record__index__update__partition__path": "true",
    "metadata__global__record__level__index__enable": "true",
}


def moved(numbers: list[int], ts: int, rng: random.Random) -> pa.Table:
    """Rows that go to other partitions."""
    found = rows(numbers, ts, rng)
    days = pa.array([f"d{rng.randrange(3)}" for _ in numbers])
    return found.set_column(found.schema.get_field_index("day"), "day", days)


def change(client: HoodieLocalWriteClient, rng: random.Random, ts: int, *, rolls_back: bool) -> None:
    """What other writers do: values change, records move, come and go, and come back."""
    path = client.config.base_path
    for turn in range(2):
        client.upsert(moved(rng.sample(range(50), 12), ts + turn, rng))
        stored = rng.sample(hoodie.read_table(path).select(["_hoodie_record_key", "day"]).to_pylist(), 6)
        client.delete([HoodieKey(row["_hoodie_record_key"], row["day"]) for row in stored])
        # One of them comes back.
        client.upsert(moved([int(stored[0]["_hoodie_record_key"][1:])], ts + turn, rng))
    client.delete_partitions([f"d{rng.randrange(3)}"])
    last = client.upsert(moved([1, 2, 99], ts + 5, rng)).instant_time
    if rolls_back:
        client.rollback(last)
    client.compact()


CASES = [
    pytest.param(
        *case,
        id=f"{case[0]}-{case[1]}-{'by_tasks' if case[2] else 'on_driver'}",
        marks=[] if case in ((9, "COPY_ON_WRITE", False), (8, "MERGE_ON_READ", True)) else [pytest.mark.slow],
    )
    for case in itertools.product((8, 9), ("COPY_ON_WRITE", "MERGE_ON_READ"), (False, True))
]


@pytest.mark.parametrize(("version", "table_type", "with_tasks"), CASES)
def test_what_others_write_meanwhile_is_caught_up_with(
    tmp_path: Path, version: int, table_type: str, with_tasks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if with_tasks:
        monkeypatch.setattr("hoodie.metadata.writer.secondary_index_indexer._FEW_ROWS", 0)
    rng, path = random.Random(version), new_table(tmp_path / "t", version, table_type)
    # What a compaction of the metadata table has merged is not rolled back without it.
    given = {**GLOBAL, "cleaner__commits__retained": "20",
             "metadata__compact__max__delta__commits": "3" if with_tasks else "50"}  # fmt: skip

    def change_meanwhile() -> None:
        with client_of(path, **given) as other:
            change(other, rng, 20, rolls_back=not with_tasks)

    beside_build(monkeypatch, change_meanwhile)
    with client_of(path, **given) as client:
        client.upsert(rows(range(30), 1, rng))
        planned = client.schedule_indexing(secondary_indexes=BOTH)
        change(client, rng, 10, rolls_back=not with_tasks)
        assert not PATHS & set(listed_partitions(path))
        done = client.index(planned)
        assert done is not None
        assert {info.metadata_partition_path for info in done.index_partition_infos} == PATHS
        check(path)
        check_equals_a_new_one(path)
        change(client, rng, 30, rolls_back=not with_tasks)
    check(path)
    check_equals_a_new_one(path)


def test_a_plan_of_hudi_is_carried_out(tmp_path: Path) -> None:
    """Hudi stores the definition first, then the plan, which has the name alone."""
    rng, path = random.Random(3), new_table(tmp_path / "t")
    with client_of(path, **GLOBAL) as client:
        client.upsert(rows(range(9), 1, rng))
        table = HoodieTableMetaClient.load(path).snapshot
        partition = "secondary_index_idx_color"
        definition = HoodieIndexDefinition(partition, "secondary_index", ("color",), is_hashed_by_value=True)
        save_index_definition(table, definition)
        plan = HoodieIndexPlan((HoodieIndexPartitionInfo(partition, "00000000000000"),))
        planned = table.active_timeline.create_new_instant_time(Action.INDEXING, plan)
        client.upsert(rows(range(4, 12), 2, rng))
        client.index(planned)
        client.index(client.schedule_indexing(secondary_indexes={"n": "n"}))
        check(path)


def test_the_definition_comes_with_the_index(tmp_path: Path) -> None:
    rng, path = random.Random(3), new_table(tmp_path / "t")

    def defined() -> set[str]:
        table = HoodieTableMetaClient.load(path).snapshot
        return {name for name in load_index_definitions(table.storage, table.meta_path) if name in PATHS}

    with client_of(path) as client:
        client.upsert(rows(range(9), 1, rng))
        planned = client.schedule_indexing(["record_index"], secondary_indexes=BOTH)
        # A writer of Hudi would build what is defined.
        assert defined() == set()
        plan = HoodieTableMetaClient.load(path).active_timeline
        (instant,) = plan.filter_actions(Action.INDEXING)
        infos = plan.read_as(instant, HoodieIndexPlan).index_partition_infos
        key = "hoodie.metadata.index.secondary.column"
        assert [(info.metadata_partition_path, info.extra_metadata) for info in infos] == [
            ("record_index", {}),
            ("secondary_index_idx_color", {key: "color"}),
            ("secondary_index_n", {key: "n"}),
        ]
        with pytest.raises(HoodieIndexException, match=rf"cannot be dropped while indexing {planned}"):
            client.drop_index("n")
        with pytest.raises(HoodieIndexException, match=f"indexing {planned} is pending"):
            client.create_index("n", "n")
        with pytest.raises(HoodieIndexException, match=f"secondary_index_n .indexing {planned}"):
            client.schedule_indexing(secondary_indexes={"n": "color"})
        client.upsert(rows(range(9), 2, rng))
        assert listed_partitions(path) == ("files",)
        assert client.rollback(planned)
        assert defined() == set()
        client.index(client.schedule_indexing(["record_index"], secondary_indexes=BOTH))
        assert defined() == PATHS
        check(path)
        assert client.drop_index("n")


def test_what_cannot_be_planned(tmp_path: Path) -> None:
    rng, path = random.Random(3), new_table(tmp_path / "t")
    with client_of(path) as client:
        client.upsert(rows(range(9), 1, rng))
        with pytest.raises(HoodieConfigException, match="such as idx_rider"):
            client.schedule_indexing(secondary_indexes={"a-b": "color"})
        with pytest.raises(HoodieConfigException, match="its name"):
            client.schedule_indexing(secondary_indexes={"a": None})  # type: ignore[dict-item]
        with pytest.raises(HoodieIndexException, match="secondary_index_n .* needs a record_index"):
            client.schedule_indexing(secondary_indexes={"n": "n"})
        with pytest.raises(HoodieIndexException, match="does not say which column secondary_index_n"):
            client.schedule_indexing(["record_index", "secondary_index_n"])
        with pytest.raises(HoodieIndexException, match="no column colour"):
            client.schedule_indexing(["record_index"], secondary_indexes={"n": "colour"})
        with pytest.raises(HoodieNotSupportedException, match="weight of type double"):
            client.schedule_indexing(["record_index"], secondary_indexes={"n": "n", "w": "weight"})
        client.create_index("n", "n")
        with pytest.raises(HoodieIndexException, match="has secondary_index_n already"):
            client.schedule_indexing(secondary_indexes={"n": "color"})
    table = HoodieTableMetaClient.load(path)
    assert "secondary_index_w" not in load_index_definitions(table.storage, table.snapshot.meta_path)
    assert not table.active_timeline.filter_actions(Action.INDEXING).times
    by_partition = new_table(tmp_path / "p")
    options = {"metadata__record__level__index__enable": "true"}
    with client_of(by_partition) as client:
        client.upsert(rows(range(9), 1, rng))
    refused = pytest.raises(HoodieNotSupportedException, match="record index of the whole table")
    with client_of(by_partition, **options) as client, refused:
        client.schedule_indexing(["record_index"], secondary_indexes={"n": "n"})
    old = new_table(tmp_path / "old", 6)
    with client_of(old, metadata__enable="true") as client:
        client.upsert(rows(range(9), 1, rng))
        with pytest.raises(HoodieNotSupportedException, match="version 6, and secondary_index_n is"):
            client.schedule_indexing(["record_index"], secondary_indexes={"n": "n"})


@pytest.mark.parametrize("change", ["gone", "other"])
def test_a_definition_that_changes_while_its_index_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """By Hudi, which may drop an index at any time."""
    rng, path = random.Random(3), new_table(tmp_path / "t")

    def change_it() -> None:
        table = HoodieTableMetaClient.load(path).snapshot
        if change == "gone":
            delete_index_definition(table, "secondary_index_idx_color")
        else:
            stored = load_index_definitions(table.storage, table.meta_path)["secondary_index_n"]
            save_index_definition(table, HoodieIndexDefinition("secondary_index_idx_color", stored.index_type, ("n",),
                                                               is_hashed_by_value=True))  # fmt: skip

    beside_build(monkeypatch, change_it)
    with client_of(path) as client:
        client.upsert(rows(range(9), 1, rng))
        client.create_index("n", "n")
        definition = HoodieIndexDefinition("secondary_index_idx_color", "secondary_index", ("color",),
                                           is_hashed_by_value=True)  # fmt: skip
        save_index_definition(HoodieTableMetaClient.load(path).snapshot, definition)
        planned = client.schedule_indexing(["secondary_index_idx_color"])
        with pytest.raises(HoodieIndexException, match="does not say which column|changed while these were being"):
            client.index(planned)
        assert "secondary_index_idx_color" not in listed_partitions(path)
        if change == "gone":
            with pytest.raises(HoodieIndexException, match="take the indexing back"):
                client.index(planned)
        assert client.rollback(planned)
        client.upsert(rows(range(4, 12), 2, rng))
        client.index(client.schedule_indexing(secondary_indexes={"idx_color": "color"}))
    check(path)


def test_a_record_index_that_was_dropped_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index is not built without one, nor does it lose entries of keys that came twice."""
    rng, path = random.Random(3), new_table(tmp_path / "t")
    without = {"metadata__global__record__level__index__enable": "false"}

    def red(key: str, day: str) -> pa.Table:
        return pa.table({"id": [key], "day": [day], "ts": [1], "color": ["red"], "n": [1]})

    def add_twice() -> None:
        with client_of(path, **without) as other:
            other.insert(red("a", "y"))

    with client_of(path, **GLOBAL) as client:
        client.upsert(red("a", "x"))
        planned = client.schedule_indexing(secondary_indexes=BOTH)
    with client_of(path, **without) as client:
        client.upsert(red("b", "x"))
        with pytest.raises(HoodieIndexException, match="needs a record_index"):
            client.index(planned)
    with client_of(path, **GLOBAL) as client:
        client.upsert(red("b", "z"))
        beside_build(monkeypatch, add_twice)
        client.index(planned)
        assert set(listed_partitions(path)) >= PATHS
        with pytest.raises(HoodieAmbiguousKeyException):
            client.upsert(red("c", "z"))
    with client_of(path) as client:
        client.delete([HoodieKey("a", "x")])
        assert sorted(hoodie.read_table(path, filters=[("color", "=", "red")])["id"].to_pylist()) == ["a", "b"]
    with client_of(path, **GLOBAL) as client:
        client.upsert(rows(range(5), 2, rng))
        assert sorted(hoodie.read_table(path, filters=[("color", "=", "red")])["id"].to_pylist())[:2] == ["a", "b"]
    check(path)
