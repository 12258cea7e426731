"""Every action keeps statistics and bloom filters as a metadata table that is built anew has them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer import partition_stats_indexer
from hoodie.metadata.writer.indexers import indexer_of
from hoodie.metadata.writer.latest_files import committed_files
from hoodie.metadata.writer.partition_indexer import CommittedChange, EntriesOnDriver, IndexingContext
from tests.support.table_builder import SMALL_FILTERS, TRIPS, init_table, local_client, rows

ALL = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.index.column.stats.enable": True,
    "hoodie.metadata.index.bloom.filter.enable": True,
    "hoodie.clean.commits.retained": 2,
    "hoodie.parquet.small.file.limit": 0,
    **SMALL_FILTERS,
}
WIDER = TRIPS.append(pa.field("extra", pa.string()))
ACTIONS = ("upsert", "upsert", "upsert", "delete", "insert_overwrite", "delete_partitions", "compact")


def random_rows(rng: random.Random, schema: pa.Schema) -> pa.Table:
    fares = (None, 0.0, -0.0, float("nan"), rng.uniform(-5, 5))
    found = {}
    for _ in range(rng.randrange(1, 10)):
        key, region = f"k{rng.randrange(30)}", rng.choice("xyz")
        row = (key, region, rng.randrange(100), rng.choice(fares), rng.choice((None, "a", "zz")))
        found[key, region] = row[: len(schema)]
    return rows(*found.values(), schema=schema)


def open_context(path: str, config: HoodieMetadataConfig | None = None) -> IndexingContext:
    table = TableSnapshot.load(path)
    metadata = HoodieBackedTableMetadata.open(table)
    return IndexingContext(
        table, LocalEngineContext(2), config or HoodieMetadataConfig(), metadata.definitions, metadata
    )


def as_dicts(keys: pa.Array, stored: pa.RecordBatch) -> dict[str, dict[str, Any]]:
    return {
        key: {name: str(value) for name, value in row.items() if name not in ("timestamp",)}
        for key, row in zip(keys.to_pylist(), stored.to_pylist(), strict=True)
    }


def check_equal_to_new_ones(path: str) -> None:
    """Each partition holds what it would hold if it were built now."""
    context = open_context(path)
    assert context.metadata is not None
    files = committed_files(context.table)
    for partition in set(context.table.table_config.metadata_partitions) - {"files"}:
        made = indexer_of(partition, context.table.table_config.table_version).initial(context, files, "")
        assert isinstance(made.records, EntriesOnDriver)
        expected = as_dicts(made.records.entries.keys, made.records.entries.rows)
        found = context.metadata.read_records(partition)
        rows = as_dicts(found.keys, found.rows)
        # The nulls of a new column come with the next commit. Without them nothing is left out.
        later = {key for key in expected.keys() - rows.keys() if expected[key]["min_value"] == "None"}
        assert not later or partition in ("partition_stats", "column_stats")
        assert rows == {key: row for key, row in expected.items() if key not in later}, partition


def check_ranges_of_partitions(path: str) -> None:
    """No row that a reader sees is outside of the range of its partition."""
    context = open_context(path)
    assert context.metadata is not None
    ranges = {
        (row["partition_path"], row["column_name"]): row for row in context.metadata.read_partition_stats().to_pylist()
    }
    for row in hoodie.read_table(path).to_pylist():
        stats = ranges[row["region"], "ts"]
        assert stats["min_value"]["integer"] <= row["ts"] <= stats["max_value"]["integer"]
        stats = ranges[row["region"], "id"]
        assert stats["min_value"]["binary"] <= row["id"].encode() <= stats["max_value"]["binary"]
        stats = ranges[row["region"], "fare"]
        if row["fare"] is None:
            assert stats["null_count"] > 0
        elif row["fare"] == row["fare"]:
            high = stats["max_value"]["floating"]
            assert stats["min_value"]["floating"] <= row["fare"]
            assert high != high or row["fare"] <= high


@pytest.mark.parametrize("table_type", list(HoodieTableType))
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.one_in(4)
def test_they_follow_a_table_through_its_actions(tmp_path: Path, version: int, table_type: HoodieTableType) -> None:
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    path = init_table(tmp_path / "t", table_version=version, table_type=table_type)
    with local_client(path, ALL) as client:
        client.upsert(random_rows(rng, TRIPS))
        for number in range(9):
            given = random_rows(rng, WIDER if number > 4 else TRIPS)
            match rng.choice(ACTIONS):
                case "upsert":
                    client.upsert(given)
                case "delete":
                    client.delete(given)
                case "insert_overwrite":
                    client.insert_overwrite(given)
                case "delete_partitions":
                    client.delete_partitions([rng.choice("xyz")])
                case "compact" if table_type is HoodieTableType.MERGE_ON_READ:
                    instant = client.schedule_compaction()
                    if instant:
                        client.compact(instant)
                case _:
                    client.clean()
    result = hoodie.metadata.validate(path)
    assert result.is_right, result
    assert not result.not_validated
    assert {"column_stats", "bloom_filters"} <= result.entry_counts.keys()
    check_equal_to_new_ones(path)
    if version > 6:
        check_ranges_of_partitions(path)


@pytest.mark.parametrize("version", [8, 9])
def test_a_new_column_is_indexed_from_its_first_commit_on(tmp_path: Path, version: int) -> None:
    path = init_table(tmp_path / "t", table_version=version)
    always = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_record_key")
    with local_client(path, ALL) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        assert set(open_context(path).definitions["column_stats"].source_fields) == {*always, *TRIPS.names}
        client.upsert(rows(("b", "x", 2, None, "m"), schema=WIDER))
    context = open_context(path)
    definition = context.definitions["column_stats"]
    assert set(definition.source_fields) == {*always, *WIDER.names}
    assert definition.is_hashed_by_value == (version == 9)
    assert context.metadata is not None
    (row,) = context.metadata.read_partition_stats(["extra"]).to_pylist()
    assert (row["min_value"]["binary"], row["value_count"]) == (b"m", 2)
    assert (row["null_count"], row["is_tight_bound"]) == (1, True)


def test_columns_of_a_list_stay_those_of_the_list(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", table_version=9)
    listed = {**ALL, "hoodie.metadata.index.column.stats.column.list": "ts"}
    with local_client(path, listed) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
    with local_client(path, ALL) as client:
        client.upsert(rows(("b", "x", 2, 2.0, "m"), schema=WIDER))
    context = open_context(path)
    assert set(context.definitions["column_stats"].source_fields) >= {"ts"}
    assert not {"fare", "extra"} & set(context.definitions["column_stats"].source_fields)
    assert hoodie.metadata.validate(path).is_right


@pytest.mark.parametrize(("action", "is_tight"), [(Action.COMMIT, False), (Action.CLEAN, True), (None, True)])
def test_a_record_of_a_partition_hides_nothing_of_an_older_write_that_is_pending(
    tmp_path: Path, action: Action | None, is_tight: bool
) -> None:
    path = init_table(tmp_path / "t", table_version=9, table_type=HoodieTableType.COPY_ON_WRITE)
    with local_client(path, ALL) as client:
        client.upsert(rows(("a", "x", 1, 1.0)))
        client.upsert(rows(("b", "x", 2, 2.0)))
    timeline = TableSnapshot.load(path).active_timeline
    last = timeline.completed_writes().last_instant
    assert last is not None
    change = CommittedChange(last.requested_time, last.action, timeline.read_commit_metadata(last))
    if action is not None:
        timeline.create_requested(f"{int(last.requested_time) - 1}", action)
    records = indexer_of("partition_stats", 9).of_commit(open_context(path), change)
    assert isinstance(records, EntriesOnDriver)
    assert set(records.entries.rows.column("is_tight_bound").to_pylist()) == {is_tight}


def ranges_read(monkeypatch: pytest.MonkeyPatch, write: Callable[[], object]) -> int:
    """The number of ranges of files and partitions that a write takes from the metadata table."""
    counts: list[int] = []
    read_records = HoodieBackedTableMetadata.read_records

    def counted(self: HoodieBackedTableMetadata, partition: str, **wanted: Any) -> Any:
        found = read_records(self, partition, **wanted)
        if partition in ("column_stats", "partition_stats"):
            counts.append(len(found.keys))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(HoodieBackedTableMetadata, "read_records", counted)
        write()
    return sum(counts)


def table_of_files(path: Path, count: int, **arguments: Any) -> str:
    """A partition of so many files, of two keys each: that of `ts` 0, and others between 10 and 90."""
    table = init_table(path, table_version=9, **arguments)
    with local_client(table, ALL) as client:
        for number in range(count):
            fare = 1.0 + number % 7
            client.insert(
                rows((f"k{number:03}a", "x", 0 if not number else 50, fare), (f"k{number:03}b", "x", 90, 9.0))
            )
    return table


@pytest.mark.table_version(9)
def test_the_ranges_of_a_partition_cost_the_same_with_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for count in (4, 9):
        path = table_of_files(tmp_path / str(count), count)
        with local_client(path, ALL) as client:
            found.append(
                [
                    ranges_read(monkeypatch, lambda: client.insert(rows(("new", "x", 60, 3.0)))),
                    ranges_read(monkeypatch, lambda: client.upsert(rows(("k001a", "x", 55, 3.0)))),
                ]
            )
        check_equal_to_new_ones(path)
    columns = len(TRIPS) + 3
    assert found == [[columns, 2 * columns]] * 2


@pytest.mark.table_version(9)
@pytest.mark.parametrize("table_type", list(HoodieTableType))
def test_all_files_are_looked_at_where_the_end_of_a_range_went(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: HoodieTableType
) -> None:
    path = table_of_files(tmp_path / "t", 4, table_type=table_type)

    def ts_range() -> tuple[int, int]:
        metadata = open_context(path).metadata
        assert metadata is not None
        (row,) = metadata.read_partition_stats(["ts"]).to_pylist()
        return row["min_value"]["integer"], row["max_value"]["integer"]

    assert ts_range() == (0, 90)
    with local_client(path, ALL) as client:
        read = ranges_read(monkeypatch, lambda: client.upsert(rows(("k000a", "x", 70, 3.0))))
        if table_type is HoodieTableType.MERGE_ON_READ:
            assert ts_range() == (0, 90)
            instant = client.schedule_compaction()
            assert instant is not None
            read = ranges_read(monkeypatch, lambda: client.compact(instant))
    assert ts_range() == (50, 90)
    assert read > 3 * (len(TRIPS) + 3)
    check_equal_to_new_ones(path)


@pytest.mark.table_version(9)
@pytest.mark.parametrize("zeros", [(0.0, -0.0), (-0.0, 0.0)])
def test_log_files_of_both_zeros_have_one_order(tmp_path: Path, zeros: tuple[float, float]) -> None:
    """Footers have -0.0 as smallest and 0.0 as largest zero; log files have what was written."""
    path = init_table(tmp_path / "t", table_version=9, table_type=HoodieTableType.MERGE_ON_READ)
    with local_client(path, ALL) as client:
        for number in range(3):
            client.insert(rows((f"k{number}", "x", 1, 0.0)))
        for number, fare in enumerate((*zeros, *zeros)):
            client.upsert(rows((f"k{number % 3}", "x", 2 + number, fare)))
            check_equal_to_new_ones(path)


@pytest.mark.table_version(9)
@pytest.mark.parametrize("table_type", list(HoodieTableType))
def test_ranges_of_partitions_of_many_files_are_those_of_their_files(
    tmp_path: Path, table_type: HoodieTableType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is compared with a metadata table that is built anew."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng = random.Random(seed)
    path = table_of_files(tmp_path / "t", 3, table_type=table_type)
    continued: list[str] = []
    of_stored = partition_stats_indexer.continued_entries

    def noted(*arguments: Any) -> Any:
        entries = of_stored(*arguments)
        continued.extend(set(entries.rows.column("file_name").to_pylist()))
        return entries

    monkeypatch.setattr(partition_stats_indexer, "continued_entries", noted)
    with local_client(path, ALL) as client:
        for number in range(12):
            given = random_rows(rng, WIDER if number > 8 else TRIPS).slice(0, 2)
            match rng.choice(("insert", "upsert", "upsert", "delete", "insert_overwrite", "compact")):
                case "delete":
                    client.delete(given)
                case "insert_overwrite" if number % 3 == 0:
                    client.insert_overwrite(given)
                case "compact" if table_type is HoodieTableType.MERGE_ON_READ:
                    instant = client.schedule_compaction()
                    if instant:
                        client.compact(instant)
                case "insert":
                    client.insert(given)
                case _:
                    client.upsert(given)
            check_equal_to_new_ones(path)
    assert continued
