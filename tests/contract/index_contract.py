"""What every index promises, on every engine; a module subclasses `IndexContract` once per engine."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hudi import HudiTableBuilder
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient, HoodieWriteResult, UpsertPlan
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.client.write_input import WriteInput
from hoodie.common.model.record_columns import (
    BUCKET,
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT
from hoodie.exception import HoodieAmbiguousKeyException
from hoodie.table.action.commit.upsert_commit_action_executor import UpsertCommitActionExecutor
from hoodie.table.open_table import load_table
from hoodie.table.table import HoodieTable
from tests.support.model import TableModel

INDEXES: dict[str, dict[str, Any]] = {
    "SIMPLE": {"hoodie.index.type": "SIMPLE"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BLOOM by list, without cache, in small parts": {
        "hoodie.index.type": "BLOOM",
        "hoodie.bloom.index.filter.type": "SIMPLE",
        "hoodie.bloom.index.use.treebased.filter": False,
        "hoodie.bloom.index.use.caching": False,
        "hoodie.bloom.index.keys.per.bucket": 2,
    },
    "BLOOM without ranges": {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.prune.by.ranges": "false"},
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 3},
    "RECORD_INDEX": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.record.index.update.partition.path": "true",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
    "GLOBAL_RECORD_LEVEL_INDEX without an index yet": {
        "hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX",
        "hoodie.metadata.global.record.level.index.enable": "false",
        "hoodie.record.index.update.partition.path": "true",
    },
    "RECORD_LEVEL_INDEX": {
        "hoodie.index.type": "RECORD_LEVEL_INDEX",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.level.index.enable": "true",
    },
    "DATABASE": {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"},
}
"""A name for each index and each of its ways of working, with its properties."""
GLOBAL = {
    "GLOBAL_SIMPLE",
    "GLOBAL_BLOOM",
    "DATABASE",
    "RECORD_INDEX",
    "RECORD_INDEX into logs",
    "GLOBAL_RECORD_LEVEL_INDEX without an index yet",
}
ONE_PLACE = {"RECORD_INDEX", "RECORD_INDEX into logs", "RECORD_LEVEL_INDEX"}
"""Indexes that name one place of a key: writes refuse a second one."""
FROM_VERSION = {"RECORD_LEVEL_INDEX": 9}
HASHED = {"BUCKET"}
"""Indexes that know where a key belongs, and not whether it is there."""

SMALL = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.dynamic.max.entries": 200}
KEYS = (
    "a",
    "b",
    "é",
    "日本",
    "🦊",
    " ",
    "0",
    "00",
    "9",
    "10",
    "-1",
    "1e5",
    "x" * 300,
    "x" * 299 + "y",
    "Z",
    "a b/c=d%",
)
PARTITIONS = ("p1", "p2", "ü")
PLACES = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(KEYS))
STEPS = st.lists(
    st.tuples(st.sampled_from(["upsert", "upsert", "delete"]), st.lists(PLACES, max_size=8)), min_size=1, max_size=3
)
EVERYTHING = [(partition, key) for partition in PARTITIONS for key in KEYS]
SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.string())])


def table_of(places: Sequence[tuple[Any, str]], step: int, key_type: pa.DataType | None = None) -> pa.Table:
    """One row for each place; of equal ones the last is the newest."""
    columns = [
        pa.array([key for _, key in places], key_type or pa.string()),
        pa.array([partition for partition, _ in places], pa.string()),
        pa.array([1000 * step + number for number in range(len(places))], pa.int64()),
        pa.array([f"{step}.{number}" for number in range(len(places))], pa.string()),
    ]
    return pa.table(columns, names=SCHEMA.names)


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as a model takes them."""
    return [(row["k"], row["p"], row["v"]) for row in table.to_pylist()]


def rows_by_partition(model: TableModel) -> list[tuple[Any, Any, str]]:
    """The rows of a model, as `stored_rows` gives those of a table."""
    return sorted((partition, key, value) for key, partition, value in model.values())


def stored_rows(path: str) -> list[tuple[Any, Any, str]]:
    columns = ["_hoodie_partition_path", "k", "p", "v"]
    if HoodieTableMetaClient.load(path).table_config.table_type is HoodieTableType.MERGE_ON_READ:
        batches = HudiTableBuilder.from_base_uri(path).build().read()
        rows = pa.Table.from_batches(batches).select(columns).to_pylist() if batches else []
    else:
        rows = hoodie.read_table(path, columns=columns).to_pylist()
    assert all(row["_hoodie_partition_path"] == row["p"] for row in rows)
    return sorted((row["p"], row["k"], row["v"]) for row in rows)


def base_file_sizes(path: str) -> dict[tuple[str, str], int]:
    """Partition path and file id to the size of the latest base file."""
    files = HoodieTableMetaClient.load(path).files()
    return {(file.partition_path, file.file_id): file.size_bytes for file in files}


def content(path: str) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(Path(path).rglob("*")) if p.is_file()}


def check_plan(plan: UpsertPlan, result: HoodieWriteResult, sizes: dict[tuple[str, str], int]) -> None:
    """What was said is what happened."""
    stats = {(status.partition_path, status.file_id): status.stat for status in result.statuses}
    appended = {key for key, stat in stats.items() if stat.is_log_file}
    rewritten = {k: stat for k, stat in stats.items() if stat.prev_commit != NULL_COMMIT and k not in appended}
    new = {key: stat for key, stat in stats.items() if stat.prev_commit == NULL_COMMIT}
    assert {(group.partition_path, group.file_id) for group in plan.rewritten} == rewritten.keys()
    assert {(group.partition_path, group.file_id) for group in plan.appended} == appended
    assert plan.bytes_to_rewrite == sum(sizes[key] for key in rewritten)
    for group in (*plan.rewritten, *plan.appended):
        key = group.partition_path, group.file_id
        stat = stats[key]
        assert group.bytes_to_rewrite == (0 if key in appended else sizes[key])
        if group.updates_or_inserts:
            assert group.updates == group.inserts == 0
            assert stat.num_inserts + stat.num_update_writes == group.updates_or_inserts
        else:
            assert (stat.num_inserts, stat.num_update_writes, stat.num_deletes) == (
                group.inserts, group.updates, group.deletes,
            )  # fmt: skip
    said = sorted((group.partition_path, group.inserts) for group in plan.new)
    assert said == sorted((partition, stat.num_inserts) for (partition, _), stat in new.items())
    assert all(group.reason in ("new", "hash") for group in plan.new)
    judged = {(look.partition_path, look.file_id) for look in plan.index_report.file_groups}
    assert judged <= sizes.keys()
    assert {(group.partition_path, group.file_id) for group in plan.rewritten if group.reason != "small file"} <= judged


class IndexContract:
    """Subclasses give an engine."""

    table_type = HoodieTableType.COPY_ON_WRITE
    indexes = INDEXES
    examples = 6
    """Beside the one that is written down."""

    @contextmanager
    def client(self, path: str, properties: dict[str, Any]) -> Iterator[BaseHoodieWriteClient]:
        raise NotImplementedError

    def records(self, table: pa.Table) -> Any:
        """A table in a form that the engine takes."""
        raise NotImplementedError

    @pytest.fixture(params=list(INDEXES))
    def index(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @contextmanager
    def table(self, index: str, more: dict[str, Any] | None = None) -> Iterator[tuple[str, BaseHoodieWriteClient]]:
        folder = tempfile.mkdtemp()
        version = {"table_version": FROM_VERSION[index]} if index in FROM_VERSION else {}
        try:
            path = f"{folder}/t"
            HoodieTableMetaClient.init_table(
                path, table_name="t", record_key_fields="k", partition_fields="p", ordering_fields="ts",
                table_type=self.table_type, **version,
            )  # fmt: skip
            with self.client(path, {**SMALL, **self.indexes[index], **(more or {})}) as client:
                yield path, client
        finally:
            shutil.rmtree(folder)

    def test_a_table_is_what_a_dict_would_be_and_plans_come_true(self, index: str) -> None:
        @settings(
            max_examples=max(1, self.examples),
            suppress_health_check=list(HealthCheck),
            phases=[Phase.explicit, Phase.generate, Phase.shrink] if self.examples else [Phase.explicit],
        )
        @example(
            [("upsert", EVERYTHING), ("delete", EVERYTHING[5:]), ("upsert", EVERYTHING[::2]), ("upsert", [])], True
        )
        @given(STEPS, st.booleans())
        def run(steps: list[tuple[str, list[tuple[str, str]]]], fills: bool) -> None:
            model = TableModel(is_global=index in GLOBAL)
            # Without small files to fill, each upsert makes file groups: deletes leave empty ones.
            more = {} if fills else {"hoodie.parquet.small.file.limit": 0}
            with self.table(index, more) as (path, client):
                for number, (operation, places) in enumerate(steps):
                    if operation == "delete":
                        client.delete([HoodieKey(key, partition) for partition, key in places])
                        model = model.delete((key, partition) for partition, key in places)
                    else:
                        rows = table_of(places, number)
                        self.upsert_as_planned(path, client, rows)
                        model = model.upsert(rows_of(rows))
                    if model or number:
                        assert stored_rows(path) == rows_by_partition(model)

        run()

    def upsert_as_planned(self, path: str, client: BaseHoodieWriteClient, rows: pa.Table) -> UpsertPlan:
        before, sizes = content(path), base_file_sizes(path)
        plan = client.explain_upsert(self.records(rows))
        assert content(path) == before
        check_plan(plan, client.upsert(self.records(rows)), sizes)
        return plan

    def test_numeric_keys_are_found_whatever_the_order_of_their_text(self, index: str) -> None:
        numbers = [-(2**63), -10, -9, -1, 0, 1, 2, 9, 10, 99, 100, 2**63 - 1]
        model = TableModel(is_global=index in GLOBAL)
        with self.table(index, {"hoodie.parquet.small.file.limit": 0}) as (path, client):
            for step, keys in enumerate([numbers[::2], numbers[:5], numbers[::-1]]):
                rows = table_of([("p1", key) for key in keys], step, pa.int64())
                self.upsert_as_planned(path, client, rows)
                model = model.upsert(rows_of(rows))
                assert stored_rows(path) == rows_by_partition(model)

    def test_keys_of_ten_thousand_characters_are_told_apart_by_their_last(self, index: str) -> None:
        long = "é" + "x" * 9_998
        with self.table(index) as (path, client):
            client.upsert(self.records(table_of([("p1", long + "a"), ("p1", "m")], 0)))
            plan = client.explain_upsert(self.records(table_of([("p1", long + "b"), ("p1", long + "a")], 1)))
            client.upsert(self.records(table_of([("p1", long + "b"), ("p1", long + "a")], 1)))
            assert stored_rows(path) == [("p1", "m", "0.1"), ("p1", long + "a", "1.1"), ("p1", long + "b", "1.0")]
            if index not in HASHED:
                assert (plan.updates, plan.inserts) == (1, 1)

    def test_a_key_that_lives_twice_is_updated_and_deleted_in_both_places(self, index: str) -> None:
        more = {"hoodie.parquet.small.file.limit": 0, "hoodie.merge.allow.duplicate.on.inserts": "true"}
        with self.table(index, more) as (path, client):
            client.insert(self.records(table_of([("p1", "a"), ("p1", "b")], 0)))
            again = self.records(table_of([("p1", "a"), ("p1", "c")], 1))
            if index in ONE_PLACE:
                with pytest.raises(HoodieAmbiguousKeyException, match="'a' in partition 'p1'"):
                    client.insert(again)
                assert [row[1] for row in stored_rows(path)] == ["a", "b"]
                return
            client.insert(again)
            if index in HASHED and self.table_type is HoodieTableType.MERGE_ON_READ:
                # The second row is in the log file of the first one's bucket, and merged with it.
                assert [row[1] for row in stored_rows(path)] == ["a", "b", "c"]
                return
            assert [row[1] for row in stored_rows(path)] == ["a", "a", "b", "c"]
            rows = table_of([("p1", "a"), ("p1", "d")], 2)
            plan = client.explain_upsert(self.records(rows))
            client.upsert(self.records(rows))
            assert stored_rows(path) == [
                ("p1", "a", "2.0"), ("p1", "a", "2.0"), ("p1", "b", "0.1"), ("p1", "c", "1.1"), ("p1", "d", "2.1"),
            ]  # fmt: skip
            if index not in HASHED:
                assert (plan.updates, plan.inserts) == (2, 1)
            client.delete([HoodieKey("a", "p1")])
            assert [row[1] for row in stored_rows(path)] == ["b", "c", "d"]

    def test_one_key_in_every_partition_is_a_record_for_each_unless_the_index_is_global(self, index: str) -> None:
        with self.table(index) as (path, client):
            for step, partition in enumerate(PARTITIONS):
                self.upsert_as_planned(path, client, table_of([(partition, "k")], step))
            expected = {(partition, "k", f"{step}.0") for step, partition in enumerate(PARTITIONS)}
            if index in GLOBAL:
                expected = {(PARTITIONS[-1], "k", f"{len(PARTITIONS) - 1}.0")}
            assert set(stored_rows(path)) == expected

    def test_what_a_retried_task_tags_and_routes_is_the_same_in_any_order(self, index: str) -> None:
        with self.table(index, {"hoodie.parquet.small.file.limit": 0}) as (_, client):
            client.upsert(self.records(table_of(EVERYTHING[::2], 0)))
            client.upsert(self.records(table_of(EVERYTHING[1::4], 1)))
            given = table_of(EVERYTHING, 2)
            first = self.planned(client, given)
            again = self.planned(client, given.take(pa.array(range(given.num_rows - 1, -1, -1))))
            for one, two in zip(first, again, strict=True):
                assert one == two

    def planned(self, client: BaseHoodieWriteClient, rows: pa.Table) -> list[list[Any]]:
        """Rows with their locations, and which rows share a bucket; computed twice, and with the rows turned round."""
        operation = WriteOperationType.UPSERT
        table = HoodieTable(
            client._session.context, client.config, load_table(client.config), client._session.index, client.metrics
        )
        prepared = WriteInput(table).prepare(operation, self.records(rows))
        context = table.write_context("0" * 17, operation, prepared.schemas.columns, prepared.schemas.avro_with_meta)
        executor = UpsertCommitActionExecutor(table, context, prepared.key_generator)
        with executor._kept(prepared.records) as kept, executor._planned(kept, begins=False) as planned:
            once, twice = planned.records.collect(), planned.records.collect()
            assert once is not None
            assert twice is not None
            assert routed(once) == routed(twice)
            assigner = planned.partitioner.assigner()
            dealt = pa.Table.from_batches([assigner(batch) for batch in once.combine_chunks().to_batches()])
            turned = twice.take(pa.array(range(twice.num_rows - 1, -1, -1)))
            other = pa.Table.from_batches([assigner(batch) for batch in turned.to_batches(max_chunksize=3)])
            assert routed(dealt, BUCKET) == routed(other, BUCKET)
            buckets: dict[int, list[Any]] = {}
            for row in dealt.to_pylist():
                buckets.setdefault(row[BUCKET], []).append((row[PARTITION_PATH], row[RECORD_KEY]))
        stored = once.filter(pc.is_valid(once[CURRENT_INSTANT_TIME]))
        return [routed(stored), sorted(sorted(bucket) for bucket in buckets.values())]


def routed(table: pa.Table, *more: str) -> list[Any]:
    """Each row's key and where it goes."""
    names = [PARTITION_PATH, RECORD_KEY, CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION, *more]
    return sorted((tuple(row.values()) for row in table.select(names).to_pylist()), key=repr)
