"""Queries of merge-on-read tables: what the model holds at each time, whatever lies in log files."""

from __future__ import annotations

import pickle
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import (
    HoodieException,
    HoodieKey,
    HoodieLocalWriteClient,
    HoodieReadClient,
    HoodieRecordMerger,
    HoodieTableMetaClient,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.util.shown_table import format_bytes
from hoodie.exception import HoodieConfigException, HoodieIOException, HoodieNotSupportedException
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.io.merging_reader import MergingReader
from hoodie.io.write_context import WriteContext
from hoodie.merge.record_merger import MergeOutcome
from hoodie.query.arrow_reader import count
from hoodie.query.commit_stream import check_no_late_commits, newest_readable
from hoodie.query.planner import narrowed
from hoodie.query.read_task import tasks_of
from hoodie.table.action.commit import incoming_keys
from tests.support.table_builder import init_table, local_client, read_rows, rows
from tests.unit.client.test_delta_commits import contexts, insert_into_logs, plan_compaction  # noqa: F401
from tests.unit.query.test_times import NO_SERVICES, OCC, random_history, written_between
from tests.unit.query.test_times import State as Rows
from tests.unit.test_tables_of_real_hudi import folders_of_tables, in_order

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
QUICK = (("SIMPLE", 6), ("BUCKET", 9))
some_tables = pytest.mark.parametrize(
    ("table_version", "properties"),
    [
        pytest.param(
            version, properties, id=f"{name}-{version}", marks=[] if (name, version) in QUICK else [pytest.mark.soak]
        )
        for version in (6, 8, 9)
        for name, properties in {"SIMPLE": NO_SMALL_FILES, "BUCKET": BUCKET}.items()
    ],
    indirect=["table_version"],
)
"""Tables whose every time is read, which takes long; the others are soaked."""


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def write(base_path: Path, *entries: tuple[Any, ...], **properties: str) -> str:
    with local_client(base_path, {**NO_SERVICES, **NO_SMALL_FILES, **properties}) as client:
        return client.upsert(rows(*entries)).instant_time


def compact(base_path: Path) -> None:
    with local_client(base_path, NO_SERVICES) as client:
        assert client.compact() is not None


def delete_first_base_file(base_path: Path) -> None:
    first = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes().instants[0].requested_time
    next(path for path in (base_path / "x").glob("*.parquet") if first in path.name).unlink()


def ends_of(base_path: Path) -> list[str]:
    commits = HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()
    return [instant.completion_time or instant.requested_time for instant in commits]


def log_files(base_path: Path) -> list[Path]:
    return sorted(path for path in base_path.rglob(".*.log.*") if ".hoodie" not in path.parts)


# --- every time and every range ---------------------------------------------------------------------------------------


@some_tables
@pytest.mark.one_in(4)
def test_every_time_and_every_range_give_what_the_model_holds(
    base_path: Path, table_version: int, properties: dict[str, str]
) -> None:
    path = str(base_path)
    history: list[tuple[str, str, Rows]] = random_history(path, table_version, 9, **properties)
    assert log_files(base_path)
    ends = [end for _, end, _ in history]
    for number, (time, end, state) in enumerate(history):
        assert read_rows(path, as_of=time) == sorted(row for row, _ in state.values())
        for begin in [None, *ends[: number + 1]]:
            found = read_rows(path, query_type="incremental", begin=begin or "earliest", end=end)
            assert found == written_between(state, begin, end), (begin, end)
    newest = history[-1][2]
    assert (
        read_rows(path) == read_rows(path, query_type="incremental", begin="000") == written_between(newest, None, end)
    )


@pytest.mark.table_version(6)
def test_a_range_of_transition_times_has_the_rows_of_its_commits(base_path: Path) -> None:
    for ts in (1, 2, 3):
        write(base_path, ("a", "x", ts), ("b", "x", 1))
    policy = {"hoodie.read.timeline.holes.resolution.policy": "USE_TRANSITION_TIME"}
    assert read_rows(base_path, query_type="incremental", begin="2020-01-01", options=policy) == [
        ("a", "x", 3),
        ("b", "x", 1),
    ]


@every_version
def test_a_range_may_be_of_some_paths(base_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "y", 1))
    (first,) = ends_of(base_path)
    write(base_path, ("a", "x", 2), ("b", "y", 2))
    for glob, expected in (("/x/*", [("a", "x", 2)]), ("*.log.*", [("a", "x", 2), ("b", "y", 2)]), ("/z/*", [])):
        options = {"hoodie.datasource.read.incr.path.glob": glob}
        assert read_rows(base_path, query_type="incremental", begin=first, options=options) == expected


@every_version
def test_a_range_behind_a_base_file_decodes_no_rows_of_it(base_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what decides about the rows of log files: here, the ordering field."""
    write(base_path, *((f"k{number}", "x", 5) for number in range(9)))
    write(base_path, ("k1", "x", 7), ("k2", "x", 3))
    write(base_path, ("k3", "x", 9))
    first, second, _ = ends_of(base_path)
    read: list[list[str]] = []
    make = MergingReader._base_batches

    def noted(reader: MergingReader, path: str, columns: list[str], *arguments: Any) -> Any:
        read.append(columns)
        return make(reader, path, columns, *arguments)

    monkeypatch.setattr(MergingReader, "_base_batches", noted)
    assert read_rows(base_path, query_type="incremental", begin=first) == [("k1", "x", 7), ("k3", "x", 9)]
    assert read_rows(base_path, query_type="incremental", begin=first, end=second) == [("k1", "x", 7)]
    assert read_rows(base_path, query_type="incremental", begin=first, filters=[("ts", "<", 9)]) == [("k1", "x", 7)]
    assert read == [["ts"]] * 3
    plan = hoodie.plan_read(str(base_path), query_type="incremental", begin=first)
    assert count(narrowed(plan, ["id"], pc.field("ts") > 7)) == 1
    with_base = read_rows(base_path, query_type="incremental", begin=str(int(first[:17]) - 10**9))
    assert len(with_base) == 9 and {"id", "ts"} < set(read[-1])


# --- compactions ------------------------------------------------------------------------------------------------------


@every_version
def test_a_pending_compaction_hides_no_rows_at_any_time(base_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "x", 1))
    write(base_path, ("a", "x", 2))
    plan_compaction(base_path)
    write(base_path, ("a", "x", 3))
    write(base_path, ("b", "x", 3))
    ends = ends_of(base_path)
    times = [i.requested_time for i in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()]
    states = [
        [("a", "x", 1), ("b", "x", 1)], [("a", "x", 2), ("b", "x", 1)], [("a", "x", 3), ("b", "x", 1)],
        [("a", "x", 3), ("b", "x", 3)],
    ]  # fmt: skip
    for time, state in zip(times, states, strict=True):
        assert read_rows(base_path, as_of=time) == state
    assert read_rows(base_path) == states[-1]
    assert read_rows(base_path, query_type="read_optimized") == states[0]
    assert read_rows(base_path, query_type="incremental", begin=ends[0], end=ends[2]) == [("a", "x", 3)]
    assert read_rows(base_path, query_type="incremental", begin=ends[2]) == [("b", "x", 3)]
    assert newest_readable(TableSnapshot.load(str(base_path))) == ends[-1]


def some_compaction(client: HoodieLocalWriteClient, chance: random.Random) -> None:
    """Plan a compaction, or run one that is pending; writes come between both."""
    pending = (
        TableSnapshot.load(client.config.base_path).active_timeline.filter_actions(Action.COMPACTION).first_instant
    )
    if pending is None and chance.random() < 0.6:
        client.schedule_compaction()
    elif pending is not None and chance.random() < 0.6:
        client.compact(pending.requested_time)


@some_tables
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in (1, 2))])
@pytest.mark.one_in(4)
def test_compactions_change_no_time_and_no_range(
    base_path: Path, table_version: int, seed: int, properties: dict[str, str]
) -> None:
    path = str(base_path)
    compactions = {"hoodie.compact.inline.max.delta.commits": "1"}
    kinds = ["upsert", "upsert", "upsert", "delete", "insert"]
    history = random_history(path, seed, 12, kinds=kinds, between=some_compaction, **properties, **compactions)
    timeline = HoodieTableMetaClient.load(path).active_timeline
    assert timeline.filter_actions(Action.COMMIT).filter_completed_instants().instants
    ends = [end for _, end, _ in history]
    for number, (time, end, state) in enumerate(history):
        assert read_rows(path, as_of=time) == sorted(row for row, _ in state.values()), number
        for begin in [None, *ends[: number + 1]]:
            found = read_rows(path, query_type="incremental", begin=begin or "earliest", end=end)
            assert found == written_between(state, begin, end), (begin, end)
    newest = history[-1][2]
    assert read_rows(path) == sorted(row for row, _ in newest.values())
    for begin in ends:
        assert read_rows(path, query_type="incremental", begin=begin) == written_between(newest, begin, ends[-1])


# --- log-only file groups ---------------------------------------------------------------------------------------------


@every_version
def test_file_groups_without_a_base_file_are_read(base_path: Path, contexts: list[WriteContext]) -> None:  # noqa: F811
    write(base_path, ("a", "x", 10), ("b", "x", 10), ("c", "y", 10))
    insert_into_logs(base_path, contexts, of_new_group=True)
    begin, end = ends_of(base_path)
    everything = [("a", "x", 10), ("b", "x", 10), ("c", "y", 11), ("n", "x", 20)]
    assert read_rows(base_path) == everything
    assert ("n", "x", 20) not in read_rows(base_path, query_type="read_optimized")
    assert read_rows(base_path, query_type="incremental", begin=begin) == [("c", "y", 11), ("n", "x", 20)]
    assert read_rows(base_path, query_type="incremental", begin="earliest", end=begin) == read_rows(
        base_path, as_of=begin
    )
    write(base_path, ("n", "x", 30))
    assert read_rows(base_path, query_type="incremental", begin=begin, end=end) == [("c", "y", 11), ("n", "x", 20)]
    assert read_rows(base_path, filters=[("_hoodie_record_key", "=", "n")]) == [("n", "x", 30)]
    assert hoodie.dataset(str(base_path)).count_rows() == 4
    with HoodieReadClient(str(base_path)) as client:
        found = client.read([HoodieKey("n", "x"), HoodieKey("a", "x")])
    assert sorted(found["ts"].to_pylist()) == [10, 30]
    with local_client(base_path, NO_SERVICES) as writer:
        (last,) = ends_of(base_path)[-1:]
        writer.delete_partitions(["x"])
    assert read_rows(base_path) == [("c", "y", 11)]
    assert read_rows(base_path, query_type="incremental", begin=begin, end=last) == [("c", "y", 11), ("n", "x", 30)]
    times = [i.requested_time for i in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()]
    assert read_rows(base_path, as_of=times[2]) == [("a", "x", 10), ("b", "x", 10), ("c", "y", 11), ("n", "x", 30)]
    for log_file in log_files(base_path / "x"):
        log_file.unlink()
    with pytest.raises(HoodieIOException, match="were cleaned, of file group x/5d0e7c6a"):
        read_rows(base_path, as_of=times[2])
    assert read_rows(base_path, as_of=times[0]) == [("a", "x", 10), ("b", "x", 10), ("c", "y", 10)]


# --- what is gone -----------------------------------------------------------------------------------------------------


@every_version
@pytest.mark.without_metadata_table("a file goes that a metadata table would list")
def test_log_files_of_a_time_that_are_gone_are_an_error(base_path: Path) -> None:
    write(base_path, ("a", "x", 1))
    write(base_path, ("a", "x", 2))
    write(base_path, ("a", "x", 3), ("b", "y", 3))
    begin, *_ = ends_of(base_path)
    first, second = log_files(base_path)
    content = first.read_bytes()
    first.unlink()
    with pytest.raises(HoodieIOException, match=r"were cleaned, \S+\.log\.\d"):
        read_rows(base_path, query_type="incremental", begin=begin)
    first.write_bytes(content)
    assert read_rows(base_path, query_type="incremental", begin=begin) == [("a", "x", 3), ("b", "y", 3)]
    second.unlink()
    with pytest.raises(HoodieIOException, match=r"\.log\.\S+ of deltacommit \d+ is not there"):
        read_rows(base_path)


@every_version
def test_a_base_file_that_is_gone_below_the_log_files_of_a_range_is_an_error(base_path: Path) -> None:
    """As a clean that is at work leaves a slice: log files alone would give other rows."""
    write(base_path, ("a", "x", 1), ("b", "x", 1))
    write(base_path, ("a", "x", 2))
    with local_client(base_path, NO_SERVICES) as client:
        client.insert_overwrite(rows(("a", "x", 3)))
    begin, end, _ = ends_of(base_path)
    assert read_rows(base_path, query_type="incremental", begin=begin, end=end) == [("a", "x", 2)]
    times = [i.requested_time for i in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()]
    next(path for path in base_path.rglob("*.parquet") if times[0] in path.name).unlink()
    with pytest.raises(HoodieIOException, match="were cleaned"):
        read_rows(base_path, query_type="incremental", begin=begin, end=end)
    with pytest.raises(HoodieIOException, match="were cleaned"):
        read_rows(base_path, as_of=times[1])
    assert read_rows(base_path) == [("a", "x", 3)]


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_a_base_file_that_is_gone_below_a_range_that_no_instant_names_is_an_error(base_path: Path) -> None:
    """A commit that was requested in the range was completed behind it, so the range has no state of an instant."""
    write(base_path, ("a", "x", 5), ("b", "y", 5))
    with local_client(base_path, {**OCC, **NO_SMALL_FILES, "hoodie.auto.commit": "false"}) as slow:
        late = slow.start_commit()
        result = slow.upsert(rows(("b", "y", 7)), late)
        write(base_path, ("a", "x", 3), **OCC)
        begin, end = ends_of(base_path)
        slow.commit(late, result)
    compact(base_path)
    assert read_rows(base_path, query_type="incremental", begin=begin, end=end) == []
    delete_first_base_file(base_path)
    with pytest.raises(HoodieIOException, match="were cleaned"):
        read_rows(base_path, query_type="incremental", begin=begin, end=end)


@every_version
def test_a_base_file_that_is_gone_below_log_files_that_were_compacted_is_an_error(base_path: Path) -> None:
    """As a clean leaves it that died: by the log files alone, a late row would have won."""
    write(base_path, ("a", "x", 5), ("b", "x", 5))
    write(base_path, ("a", "x", 3))
    write(base_path, ("b", "x", 6))
    compact(base_path)
    times = [i.requested_time for i in HoodieTableMetaClient.load(str(base_path)).active_timeline.completed_writes()]
    begin, middle, end, _ = ends_of(base_path)
    assert read_rows(base_path, as_of=times[2]) == [("a", "x", 5), ("b", "x", 6)]
    assert read_rows(base_path, query_type="incremental", begin=begin, end=end) == [("b", "x", 6)]
    delete_first_base_file(base_path)
    for time in times[:3]:
        with pytest.raises(HoodieIOException, match="were cleaned"):
            read_rows(base_path, as_of=time)
    for end_of_range in (middle, end):
        with pytest.raises(HoodieIOException, match="were cleaned"):
            read_rows(base_path, query_type="incremental", begin=begin, end=end_of_range)
    assert read_rows(base_path) == read_rows(base_path, as_of=times[3]) == [("a", "x", 5), ("b", "x", 6)]


# --- look-ups ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joins", [False, True], ids=["keys_on_the_driver", "keys_joined"])
@pytest.mark.parametrize("index_type", ["SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "INMEMORY"])
def test_each_index_finds_keys_in_log_files(
    base_path: Path,
    contexts: list[WriteContext],  # noqa: F811
    index_type: str,
    joins: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(base_path, ("a", "x", 10), ("b", "x", 10), ("c", "y", 10), ("d", "z", 10))
    insert_into_logs(base_path, contexts, of_new_group=True)
    with local_client(base_path, NO_SERVICES) as writer:
        writer.delete([HoodieKey("b", "x")])
    if joins:
        monkeypatch.setattr(simple_index, "SHARED_KEY_BYTES", -1)
        monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", -1)
        monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    asked = rows(("n", "x", 0), ("a", "x", 0), ("b", "x", 0), ("c", "y", 0), ("d", "z", 0), ("new", "x", 0))
    with HoodieReadClient(str(base_path), options={"hoodie.index.type": index_type}) as client:
        found = client.read(asked, columns=["id", "ts"]).to_pylist()
        assert sorted((row["id"], row["ts"]) for row in found) == [("a", 10), ("c", 11), ("d", 10), ("n", 20)]
        exist = client.check_exists(asked)
        by_key = dict(zip(exist["_hoodie_record_key"].to_pylist(), exist["exists"].to_pylist(), strict=True))
        assert by_key == {"n": True, "a": True, "b": False, "c": True, "d": True, "new": False}
        assert sorted(client.filter_exists(asked)["id"].to_pylist()) == ["b", "new"]
        tagged = {row["_hoodie_record_key"]: row for row in client.tag_location(asked).to_pylist()}
    places = {key: row["__hoodie_current_row_position"] for key, row in tagged.items()}
    assert places == {"n": None, "a": None, "b": None, "c": None, "d": 0, "new": None}
    assert {key for key, row in tagged.items() if row["__hoodie_current_file_id"] is None} == {"b", "new"}


# --- filters ----------------------------------------------------------------------------------------------------------


def some_filter(chance: random.Random, table: pa.Table, depth: int = 2) -> pc.Expression:
    """A filter of any form on columns of a table."""
    if depth and chance.random() < 0.5:
        one, other = (some_filter(chance, table, depth - 1) for _ in range(2))
        return chance.choice([one & other, one | other, ~one])
    name = chance.choice(
        [
            name
            for name in table.schema.names
            if pa.types.is_primitive(table[name].type) or pa.types.is_string(table[name].type)
        ]
    )
    pool = [value for value in table[name].to_pylist() if value is not None]
    field, kind = pc.field(name), table[name].type
    if not pool or chance.random() < 0.1:
        return field.is_null() if chance.random() < 0.5 else field.is_valid()
    value = pa.scalar(chance.choice(pool), kind)
    form = chance.choice(["==", "!=", "<", ">=", "in"])
    if form == "in":
        return field.isin(pa.array(chance.sample(pool, min(3, len(pool))), kind))
    return {"==": field == value, "!=": field != value, "<": field < value, ">=": field >= value}[form]


@pytest.mark.parametrize(
    "name",
    [
        *("v9_mor_compact", "v6_mor_mdt", "v9_bucket_mor"),
        *(pytest.param(name, marks=pytest.mark.soak) for name in ("v9_mor", "v9_sql", "mor_6")),
    ],
)
@pytest.mark.one_in(4)
def test_a_filter_finds_what_filtering_all_rows_finds(name: str, later_tables: Path) -> None:
    """Never what a base file holds, if a log file has changed it."""
    (folder,) = folders_of_tables(later_tables / name)
    path, chance = str(folder), random.Random(name)
    everything = hoodie.read_table(path)
    base_rows = hoodie.read_table(path, query_type="read_optimized")
    hits = 0
    for _ in range(40):
        # Values that only base files hold, too.
        condition = some_filter(chance, chance.choice([everything, base_rows]))
        expected = everything.filter(condition)
        plan = hoodie.plan_read(path, filters=condition, columns=["_hoodie_record_key", "ts"])
        wanted = in_order(expected.select(plan.columns).to_pylist())
        tasks = [pickle.loads(pickle.dumps(task)) for task in tasks_of(plan)]
        in_tasks = [row for task in tasks for batch in task.batches() for row in batch.to_pylist()]
        assert in_order(in_tasks) == wanted, condition
        assert in_order(hoodie.read_table(path, filters=condition).to_pylist()) == in_order(expected.to_pylist())
        dataset = hoodie.dataset(path)
        assert dataset.count_rows(condition) == expected.num_rows
        assert in_order(dataset.filter(condition).to_table(columns=["ts"]).to_pylist()) == in_order(
            expected.select(["ts"]).to_pylist()
        )
        hits += 0 < expected.num_rows < everything.num_rows
    assert hits > 5


@every_version
def test_a_delete_by_a_filter_sees_the_rows_of_log_files(base_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "x", 1), ("c", "y", 1))
    write(base_path, ("a", "x", 5))
    with local_client(base_path, NO_SERVICES) as client:
        assert client.delete(where=[("ts", "=", 1)]).deleted_count == 2
        assert read_rows(base_path) == [("a", "x", 5)]
        assert client.delete(where=[("ts", "=", 5)]).deleted_count == 1
    assert read_rows(base_path) == []


# --- plans, options, datasets -----------------------------------------------------------------------------------------


@every_version
def test_a_plan_counts_log_files(base_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "y", 1))
    write(base_path, ("a", "x", 2))
    write(base_path, ("a", "x", 3))
    plan = hoodie.plan_read(str(base_path))
    sizes = [path.stat().st_size for path in log_files(base_path)]
    assert sorted(log_file.size_bytes for log_file in plan.log_files) == sorted(sizes)
    assert plan.size_bytes == sum(sizes) + sum(file.size_bytes for file in plan.base_files)
    shown = plan.explain()
    assert f"log files read: 2, {format_bytes(sum(sizes))}, of 1 file slice" in shown
    assert re.search(rf"read, of 2 partitions +4 +{format_bytes(plan.size_bytes)}", shown)
    pruned = hoodie.plan_read(str(base_path), filters=[("region", "=", "y")])
    assert not pruned.log_files and pruned.log_merging is None
    assert "pruned by partition, 1 of them" in pruned.explain()
    # A key that only the base file of the slice holds excludes nothing.
    assert len(hoodie.plan_read(str(base_path), filters=[("ts", "=", 99)]).log_files) == 2
    optimized = hoodie.plan_read(str(base_path), query_type="read_optimized")
    assert not optimized.log_files and "log files" not in optimized.explain()


def test_options_say_how_log_files_are_merged(base_path: Path, tmp_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "x", 1))
    write(base_path, ("a", "x", 2))
    folder = tmp_path / "spill"
    folder.mkdir()
    options = {"hoodie.memory.merge.max.size": "0", "hoodie.memory.spillable.map.path": str(folder)}
    plan = hoodie.plan_read(str(base_path), options=options)
    assert plan.log_merging is not None
    assert (plan.log_merging.config.merge_max_size, plan.log_merging.config.spillable_map_path) == (0, str(folder))
    assert read_rows(base_path, options=options) == [("a", "x", 2), ("b", "x", 1)]
    assert list(folder.iterdir()) == []
    with pytest.raises(HoodieConfigException, match=r"hoodie\.memory\.merge\.max\.size"):
        hoodie.plan_read(str(base_path), options={"hoodie.memory.merge.max.size": "much"})


class LargestTime(HoodieRecordMerger):
    """Keeps the row with the larger ts."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["ts"], older["ts"]))


@every_version
def test_a_table_that_merges_by_a_users_class_is_read_with_it(tmp_path: Path, table_version: int) -> None:
    key = "hoodie.write.record.merge.custom.implementation.classes"
    merger = {key: f"{__name__}.LargestTime"}
    base_path = Path(init_table(tmp_path / "m", table_type="MERGE_ON_READ", payload_class=LargestTime))
    write(base_path, ("a", "x", 5), ("b", "x", 5), **merger)
    write(base_path, ("a", "x", 3), ("b", "x", 7), **merger)
    assert log_files(base_path)
    assert read_rows(base_path, options={key.upper(): merger[key]}) == [("a", "x", 5), ("b", "x", 7)]
    assert read_rows(base_path, query_type="read_optimized") == [("a", "x", 5), ("b", "x", 5)]
    with HoodieReadClient(str(base_path), options=merger) as client:
        assert client.read([HoodieKey("b", "x")])["ts"].to_pylist() == [7]
    for of_hudi in ({}, {key: "org.apache.hudi.HoodieSparkRecordMerger"}):
        with pytest.raises(HoodieNotSupportedException, match="LargestTime"):
            read_rows(base_path, options=of_hudi)
    # Where nothing is merged, nothing is loaded.
    assert len(read_rows(base_path, query_type="read_optimized", options={key: "nowhere.Class"})) == 2
    with pytest.raises(HoodieConfigException, match="nowhere"):
        read_rows(base_path, options={key: "nowhere.Class"})


def test_a_dataset_with_log_files_gives_no_fragments(base_path: Path) -> None:
    write(base_path, ("a", "x", 1), ("b", "y", 1))
    write(base_path, ("a", "x", 2))
    dataset = hoodie.dataset(str(base_path))
    assert sorted(dataset.to_table(columns=["id", "ts"]).to_pylist(), key=str) == [
        {"id": "a", "ts": 2},
        {"id": "b", "ts": 1},
    ]
    assert pickle.loads(pickle.dumps(dataset)).count_rows() == 2
    with pytest.raises(HoodieNotSupportedException, match="has log files, such as"):
        list(dataset.get_fragments())
    alone = list(dataset.get_fragments(pc.field("region") == "y"))
    assert [fragment.count_rows() for fragment in alone] == [1]
    with pytest.raises(HoodieException, match="merges log files"):
        pa.dataset.Scanner.from_fragment(next(super(type(dataset), dataset).get_fragments())).to_table()


# --- streams ----------------------------------------------------------------------------------------------------------


@pytest.mark.table_version(6)
def test_a_compaction_that_is_completed_late_does_not_stop_a_stream(base_path: Path) -> None:
    """It gets an instant before those of later delta commits, and writes no new rows."""
    first = write(base_path, ("a", "x", 1))
    snapshot = TableSnapshot.load(str(base_path))
    known = frozenset(snapshot.active_timeline.completed_writes().times)
    second = write(base_path, ("a", "x", 2))
    timeline = snapshot.refreshed().active_timeline
    later = str(int(second) + 1).zfill(17)
    with pytest.raises(HoodieException, match="was not there when the stream passed"):
        check_no_late_commits(timeline, later, known)
    path = next((base_path / ".hoodie").glob(f"{second}.deltacommit"))
    text = path.read_text().replace('"compacted" : false', '"compacted" : true')
    path.rename(path.with_suffix(".commit"))
    path.with_suffix(".commit").write_text(text)
    for state in (State.REQUESTED, State.INFLIGHT):
        assert (base_path / ".hoodie" / f"{second}.deltacommit.{state.name.lower()}").exists()
    timeline = snapshot.refreshed().active_timeline
    assert {i.requested_time: i.action for i in timeline.completed_writes()} == {
        first: Action.DELTA_COMMIT,
        second: Action.COMMIT,
    }
    check_no_late_commits(timeline, later, known)


# --- the archive ------------------------------------------------------------------------------------------------------


@every_version
def test_log_files_of_archived_commits_are_read(base_path: Path, table_version: int) -> None:
    services = {"hoodie.clean.automatic": "false", "hoodie.keep.min.commits": "2", "hoodie.keep.max.commits": "3"}
    services |= {"hoodie.cleaner.commits.retained": "1"} | NO_SMALL_FILES
    ends = []
    with local_client(base_path, services) as client:
        for ts in range(1, 13):
            result = client.upsert(rows(("a", "x", ts), (f"k{ts}", "x", 1)))
            ends.append(result.completion_time or result.instant_time)
    snapshot = TableSnapshot.load(str(base_path))
    assert len(snapshot.archived_timeline.completed_writes()) >= 4
    everything = sorted([("a", "x", 12), *((f"k{ts}", "x", 1) for ts in range(1, 13))])
    assert read_rows(base_path) == read_rows(base_path, query_type="incremental", begin="earliest") == everything
    late = [("a", "x", 12), ("k11", "x", 1), ("k12", "x", 1)]
    assert read_rows(base_path, query_type="incremental", begin=ends[9]) == late
    full_scan = {"hoodie.datasource.read.incr.fallback.fulltablescan.enable": "true"}
    from_archived = [row for row in everything if row[0] != "k1"]
    if table_version == 6:
        with pytest.raises(HoodieIOException, match="are archived"):
            read_rows(base_path, query_type="incremental", begin=ends[0])
        found = read_rows(base_path, query_type="incremental", begin=ends[0], options=full_scan)
        assert found == from_archived
    else:
        assert read_rows(base_path, query_type="incremental", begin=ends[0]) == from_archived
        # A range that ends among archived commits: later ones do not count, archived or not.
        early = read_rows(base_path, query_type="incremental", begin=ends[0], end=ends[2])
        assert early == [("a", "x", 3), ("k2", "x", 1), ("k3", "x", 1)]
