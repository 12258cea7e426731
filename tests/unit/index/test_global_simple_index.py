"""GLOBAL_SIMPLE and GLOBAL_BLOOM: a key is unique in the whole table, and moves or stays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index.simple import global_simple_index
from hoodie.merge.merge_spec import DEFAULT_PAYLOAD, OVERWRITE_WITH_LATEST_PAYLOAD
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import TRIPS, init_table, local_client, read_placed_trips, rows

Rows = list[tuple[Any, ...]]
Run = Callable[..., Rows]
INDEX: dict[str, str] = {}
"""The index of a test, and the name in its options."""


@pytest.fixture(params=["GLOBAL_SIMPLE", "GLOBAL_BLOOM"], autouse=True)
def index(request: pytest.FixtureRequest) -> None:
    INDEX.update(type=request.param, option=request.param.removeprefix("GLOBAL_").lower())


def make_table(path: Path, payload: str = DEFAULT_PAYLOAD, **properties: str) -> None:
    init_table(path, properties={"hoodie.compaction.payload.class": payload, **properties})


def make_client(path: Path, moves: bool = True, **properties: Any) -> HoodieLocalWriteClient:
    given_properties = {
        "hoodie.index.type": INDEX["type"],
        f"hoodie.{INDEX['option']}.index.update.partition.path": moves,
        **properties,
    }
    return local_client(path, given_properties)


@pytest.fixture(params=["shared keys", "join"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to look keys up: with the keys at hand, and by a join of the engine."""
    if request.param == "join":
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
        monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
    name: str = request.param
    return name


def test_a_key_that_comes_in_another_partition_moves_there(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0)))
        result = client.upsert(rows(("a", "y", 2, 2.0), ("c", "y", 1, 3.0)))
        assert read_placed_trips(tmp_path / "t") == [
            ("a", "y", 2, 2.0, "y"),
            ("b", "x", 1, 1.0, "x"),
            ("c", "y", 1, 3.0, "y"),
        ]
        assert (result.inserted_count, result.deleted_count) == (2, 1)
        client.upsert(rows(("a", "z", 3, 3.0)))
        client.upsert(rows(("a", "x", 4, 4.0)))
    assert read_placed_trips(tmp_path / "t") == [
        ("a", "x", 4, 4.0, "x"),
        ("b", "x", 1, 1.0, "x"),
        ("c", "y", 1, 3.0, "y"),
    ]


def test_a_key_stays_when_partition_paths_are_not_to_change(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t", moves=False) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        client.upsert(rows(("a", "y", 2, 2.0)))
        client.upsert(rows(("a", "z", 3, 3.0), ("b", "z", 3, 3.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "z", 3, 3.0, "x"), ("b", "z", 3, 3.0, "z")]


def test_stored_columns_of_moving_keys_come_with_their_locations_and_those_of_copies_in_one_more_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs: list[int] = []
    run_tasks = LocalEngineContext.run_tasks

    def counted(self: LocalEngineContext, items: Sequence[Any], function: Any) -> list[Any]:
        if items and type(function).__module__.startswith("hoodie.index."):
            jobs.append(len(items))
        return run_tasks(self, items, function)

    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.insert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("c", "x", 1, 1.0)))
        client.insert(rows(("b", "y", 7, 7.0), ("d", "z", 1, 1.0)))
        client.explain_upsert(rows(("d", "z", 2, 2.0)))
        monkeypatch.setattr(LocalEngineContext, "run_tasks", counted)
        client.explain_upsert(rows(("a", "y", 2, 2.0), ("d", "z", 2, 2.0)))
        # GLOBAL_BLOOM knows which files hold keys before it reads stored columns of these alone.
        assert jobs == ([3] if INDEX["type"] == "GLOBAL_SIMPLE" else [2, 1])
        jobs.clear()
        client.explain_upsert(rows(("b", "y", 8, 8.0)))
        assert jobs == ([3, 1] if INDEX["type"] == "GLOBAL_SIMPLE" else [2, 2])


@pytest.mark.parametrize("moves", [True, False])
def test_a_late_row_changes_nothing_and_moves_nothing(tmp_path: Path, way: str, moves: bool) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t", moves) as client:
        client.upsert(rows(("a", "x", 5, 1.0)))
        client.upsert(rows(("a", "y", 4, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "x", 5, 1.0, "x")]


def test_where_the_incoming_row_always_wins_a_late_row_moves_the_key(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t", OVERWRITE_WITH_LATEST_PAYLOAD)
    with make_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 5, 1.0)))
        client.upsert(rows(("a", "y", 4, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 4, 2.0, "y")]


def test_of_one_key_in_several_partitions_of_the_input_one_is_kept(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("a", "y", 3, 3.0), ("a", "z", 2, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 3, 3.0, "y")]


def test_a_delete_needs_no_partition(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 5, 1.0), ("b", "y", 5, 1.0), ("c", "z", 5, 1.0)))
        client.delete([HoodieKey("a", "elsewhere")])
        client.delete(pa.table({"id": ["b", "nobody"]}))
    assert read_placed_trips(tmp_path / "t") == [("c", "z", 5, 1.0, "z")]


def test_a_flagged_delete_finds_the_key_where_it_is(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    flagged = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    stored = pa.Table.from_pylist([{"id": "a", "region": "x", "ts": 1, "fare": 1.0}], flagged)
    with make_client(tmp_path / "t") as client:
        client.upsert(stored)
        gone = {"id": "a", "region": "y", "ts": 2, "fare": 1.0, "_hoodie_is_deleted": True}
        client.upsert(pa.Table.from_pylist([gone], flagged))
    assert read_placed_trips(tmp_path / "t") == []


def test_a_key_that_lives_in_several_partitions_ends_up_in_one(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.insert(rows(("a", "x", 1, 1.0), ("a", "y", 1, 1.0), ("b", "x", 1, 1.0), ("b", "y", 1, 1.0)))
        client.upsert(rows(("a", "y", 2, 2.0), ("b", "z", 2, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 2, 2.0, "y"), ("b", "z", 2, 2.0, "z")]


COPIES = (("a", "x", 5, 1.0), ("a", "y", 7, 2.0))


@pytest.mark.parametrize(
    ("incoming", "left"),
    [
        (("a", "z", 9, 3.0), ("a", "z", 9, 3.0, "z")),
        (("a", "z", 6, 3.0), (*COPIES[1], "y")),
        (("a", "z", 4, 3.0), (*COPIES[1], "y")),
        (("a", "x", 9, 3.0), ("a", "x", 9, 3.0, "x")),
        (("a", "x", 6, 3.0), (*COPIES[1], "y")),
        (("a", "y", 9, 3.0), ("a", "y", 9, 3.0, "y")),
        (("a", "y", 6, 3.0), (*COPIES[1], "y")),
    ],
)
def test_copies_of_a_key_are_one_record_which_is_the_newest(
    tmp_path: Path, way: str, incoming: tuple[Any, ...], left: tuple[Any, ...]
) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t") as client:
        client.insert(rows(*COPIES, ("b", "x", 1, 1.0)))
        client.upsert(rows(incoming))
    assert read_placed_trips(tmp_path / "t") == [left, ("b", "x", 1, 1.0, "x")]


def test_copies_are_told_apart_by_their_age_where_ordering_values_decide_nothing(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t", OVERWRITE_WITH_LATEST_PAYLOAD)
    properties = {"hoodie.write.partial.update": "true"}
    with make_client(tmp_path / "t", **{"hoodie.parquet.small.file.limit": 0}) as client:
        client.insert(rows(("a", "y", 7, 1.0), ("b", "x", 7, 1.0)))
        client.insert(rows(("a", "x", 5, 2.0), ("b", "y", 5, 2.0)))
    with make_client(tmp_path / "t", **properties) as client:
        client.upsert(pa.table({"id": ["a", "b"], "region": ["z", "z"], "ts": pa.array([1, 1], pa.int64())}))
    assert read_placed_trips(tmp_path / "t") == [("a", "z", 1, 2.0, "z"), ("b", "z", 1, 2.0, "z")]


def test_each_copy_meets_the_incoming_row_where_records_stay(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t", moves=False) as client:
        client.insert(rows(*COPIES))
        client.upsert(rows(("a", "z", 6, 3.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 7, 2.0, "y"), ("a", "z", 6, 3.0, "x")]


def test_a_flagged_delete_meets_every_copy(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    flagged = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    gone = {"id": "a", "region": "z", "ts": 6, "fare": 1.0, "_hoodie_is_deleted": True}
    with make_client(tmp_path / "t") as client:
        client.insert(rows(*COPIES))
        client.upsert(pa.Table.from_pylist([gone], flagged))
        assert read_placed_trips(tmp_path / "t") == [(*COPIES[1], "y")]
        client.upsert(pa.Table.from_pylist([{**gone, "ts": 7}], flagged))
    assert read_placed_trips(tmp_path / "t") == []


def test_the_ordering_value_may_be_of_a_younger_column(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t")
    with make_client(tmp_path / "t", **{"hoodie.combine.before.upsert": "false"}) as client:
        client.insert(rows(("a", "x", None, 1.0)))
        client.upsert(rows(("a", "y", 1, 2.0)))
    assert read_placed_trips(tmp_path / "t") == [("a", "y", 1, 2.0, "y")]


def test_a_record_that_moves_takes_the_fields_along_that_it_does_not_give(tmp_path: Path, way: str) -> None:
    make_table(tmp_path / "t", "org.apache.hudi.common.model.PartialUpdateAvroPayload")
    with make_client(tmp_path / "t") as client:
        client.upsert(rows(("a", "x", 5, 1.0), ("b", "x", 5, 1.0), ("c", "x", 5, 1.0)))
        client.upsert(rows(("a", "y", 6, None), ("b", "y", 4, 9.0), ("c", "x", 6, None), ("d", "y", 6, None)))
    assert read_placed_trips(tmp_path / "t") == [
        ("a", "y", 6, 1.0, "y"),
        ("b", "x", 5, 1.0, "x"),
        ("c", "x", 6, 1.0, "x"),
        ("d", "y", 6, None, "y"),
    ]


KEYS = st.sampled_from(["a", "b", "c", "dé", "e" * 40])
WRITES = st.lists(
    st.lists(st.tuples(KEYS, st.sampled_from("xyz"), st.integers(0, 5), st.booleans()), min_size=1, max_size=8),
    min_size=1,
    max_size=4,
)


@given(writes=WRITES, moves=st.booleans(), competes=st.booleans(), join=st.booleans())
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_sequence_of_writes_leaves_what_a_dict_says(
    tmp_path_factory: pytest.TempPathFactory, writes: list[Rows], moves: bool, competes: bool, join: bool
) -> None:
    path = tmp_path_factory.mktemp("model") / "t"
    make_table(path, DEFAULT_PAYLOAD if competes else OVERWRITE_WITH_LATEST_PAYLOAD)
    # In later versions COMMIT_TIME_ORDERING takes the last of several records of one write, too.
    ignores_ordering = not competes and HoodieTableMetaClient.load(str(path)).table_config.table_version > 6
    model: dict[str, tuple[Any, ...]] = {}
    with pytest.MonkeyPatch.context() as patch, make_client(path, moves) as client:
        if join:
            patch.setattr(incoming_keys, "KEY_BYTES", 0)
            patch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
        for number, write in enumerate(writes):
            deletes = [(key, region) for key, region, _, is_delete in write if is_delete]
            upserts = [
                (key, region, ts, float(100 * number + place))
                for place, (key, region, ts, is_delete) in enumerate(write)
                if not is_delete
            ]
            if upserts:
                client.upsert(rows(*upserts))
                winners: dict[str, tuple[Any, ...]] = {}
                for row in upserts:
                    if ignores_ordering or row[0] not in winners or row[2] >= winners[row[0]][2]:
                        winners[row[0]] = row
                for key, row in winners.items():
                    stored = model.get(key)
                    if stored is None:
                        model[key] = (*row, row[1])
                    elif not competes or row[2] >= stored[2]:
                        model[key] = (*row, row[1] if moves else stored[4])
            if deletes:
                client.delete([HoodieKey(key, region) for key, region in deletes])
                for key, _ in deletes:
                    model.pop(key, None)
    assert read_placed_trips(path) == sorted(model.values())
