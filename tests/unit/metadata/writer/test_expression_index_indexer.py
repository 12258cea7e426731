"""Expression indexes: kept up through every action, as real Hudi has them, or dropped."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import BloomFilterType, HoodieIndexConfig
from hoodie.metadata import HoodieBackedTableMetadata
from hoodie.metadata.writer.index_expressions import IndexExpression
from tests.support.expression_indexes import (
    add_index,
    check_index,
    computed_values,
    definition_of,
    indexes_of,
    is_whole,
    stored_values,
)
from tests.support.table_builder import init_table, local_client

pytestmark = [pytest.mark.table_version(9), pytest.mark.metadata_table]

RANGES, FILTERS = "column_stats", "bloom_filters"
SMALL = {"numentries": "100", "fpp": "0.001", "filtertype": "SIMPLE"}
KNOWN = (
    definition_of("low", RANGES, "lower", "name"),
    definition_of("len", RANGES, "length", "word"),
    definition_of("same", RANGES, "identity", "n"),
    definition_of("up", FILTERS, "upper", "name", **SMALL),
    definition_of("n", FILTERS, "identity", "n", **SMALL),
)
UNKNOWN = definition_of("day", RANGES, "from_unixtime", "n", format="yyyy-MM-dd")
SERVICES = {
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.compact.inline": "true",
    "hoodie.compact.inline.max.delta.commits": "3",
    "hoodie.cleaner.commits.retained": "2",
    "hoodie.metadata.index.column.stats.enable": "true",
}


def rows(numbers: Sequence[int], ts: int, name: str = "Name") -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n}" for n in numbers],
            "region": [f"d{n % 3}" for n in numbers],
            "ts": pa.array([ts] * len(numbers), pa.int64()),
            "name": pa.array([None if n % 7 == 3 else "" if n % 7 == 4 else f"{name}{n}-{ts}" for n in numbers]),
            "word": pa.array(["é" * (n % 5) + "z" * ts for n in numbers]),
            "n": pa.array([n * 10 - ts for n in numbers], pa.int32()),
        }
    )


def new_table(tmp_path: Path, table_type: str = "COPY_ON_WRITE", version: int = 9, **arguments: Any) -> str:
    path = init_table(tmp_path / "t", table_type=table_type, table_version=version, **arguments)
    with local_client(path, SERVICES) as client:
        client.insert(rows(range(30), 1))
    return path


def dropped(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if message.startswith("dropping the index")]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [8, 9])
def test_every_action_keeps_indexes_right(
    tmp_path: Path, version: int, table_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path, table_type, version)
    is_second = version == 9
    names = [add_index(path, attrs.evolve(one, is_hashed_by_value=is_second)) for one in KNOWN]

    def check() -> None:
        for name in names:
            check_index(path, name)
        assert hoodie.metadata.validate(path).is_right, hoodie.metadata.validate(path)

    check()
    with local_client(path, SERVICES) as client:
        kept = ""
        for ts in range(2, 7):
            kept = client.upsert(rows(range(ts, 60, ts), ts)).instant_time
            check()
        client.delete([HoodieKey(f"k{n}", f"d{n % 3}") for n in range(0, 60, 4)])
        check()
        client.insert_overwrite(rows(range(0, 60, 6), 8))
        check()
        client.delete_partitions(["d1"])
        check()
        client.rollback(client.upsert(rows(range(9), 9)).instant_time)
        client.upsert(rows(range(4), 9))
        check()
        client.insert_overwrite_table(rows(range(70), 10))
        check()
        assert client.schedule_clustering() is not None
        client.cluster()
        check()
        kept = client.upsert(rows(range(80), 11)).instant_time
        client.savepoint(kept)
        client.upsert(rows(range(9), 12))
        client.restore_to_savepoint(kept)
        client.upsert(rows(range(5), 13))
        check()
        client.clean()
        check()
    assert not dropped(caplog)


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_clean_deletes_what_an_index_has_of_deleted_files(tmp_path: Path, table_type: str) -> None:
    path = new_table(tmp_path, table_type)
    names = [add_index(path, one) for one in KNOWN]
    with local_client(path, {**SERVICES, "hoodie.clean.automatic": "false"}) as client:
        for ts in range(2, 6):
            client.upsert(rows(range(30), ts))
        if table_type == "MERGE_ON_READ":
            client.schedule_compaction()
            client.compact()
        before = {name: stored_values(path, name) for name in names}
    with local_client(path, {**SERVICES, "hoodie.cleaner.commits.retained": "1"}) as client:
        assert client.clean() is not None
    for name in names:
        after = stored_values(path, name)
        assert after.keys() < before[name].keys() or after == before[name]
        assert len(after) < len(before[name]), name
        check_index(path, name)


def test_an_index_of_a_table_without_partitions_is_kept_up(tmp_path: Path) -> None:
    path = new_table(tmp_path, partition_fields=[])
    names = [add_index(path, one) for one in KNOWN]
    with local_client(path, SERVICES) as client:
        client.upsert(rows(range(20, 40), 2))
    for name in names:
        check_index(path, name)


# --- the records of real Hudi -----------------------------------------------------------------------------------------


@pytest.fixture
def real_table(serviced_tables: Path, tmp_path: Path) -> Path:
    (stored,) = (serviced_tables / "v9_expr_index").iterdir()
    return Path(shutil.copytree(stored, tmp_path / "real"))


COMPUTED_BY_SPARK: dict[str, Callable[[pa.Array], pa.Array]] = {
    "from_unixtime": lambda values: pc.strftime(pc.cast(values, pa.timestamp("s")), "%Y-%m-%d"),
    "upper": lambda values: pc.utf8_upper(values),
}


@pytest.fixture
def spark_functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The functions of the real table, computed in place of Spark: its session was in UTC, its values have no rules of
    their own."""

    def of(definition: Any, schema: pa.Schema) -> IndexExpression:
        field = schema.field(definition.source_fields[0])
        return IndexExpression(definition.function, field, definition.index_type == FILTERS)

    def compute(self: IndexExpression, values: pa.Array) -> pa.Array:
        return COMPUTED_BY_SPARK[self.function](values)

    monkeypatch.setattr(IndexExpression, "of", of)
    monkeypatch.setattr(IndexExpression, "compute", compute)
    yield


@pytest.mark.usefixtures("spark_functions")
def test_ranges_are_those_of_real_hudi_byte_by_byte(real_table: Path) -> None:
    stored, computed = (values(real_table, "expr_index_day_of") for values in (stored_values, computed_values))
    assert len(computed) == 4
    assert {key: stored[key] for key in computed} == computed


@pytest.mark.usefixtures("spark_functions")
def test_bloom_filters_are_those_of_real_hudi_byte_by_byte(real_table: Path) -> None:
    """The later writer of that table had small filters."""
    metadata = HoodieBackedTableMetadata.open(TableSnapshot.load(str(real_table)))
    found = metadata.read_records("expr_index_low").rows.to_pylist()
    assert {row["bloom_type"] for row in found} == {"DYNAMIC_V0", "SIMPLE"}
    config = HoodieIndexConfig(bloom_filter_type=BloomFilterType.SIMPLE, bloom_num_entries=100, bloom_fpp=0.000000001)
    stored, computed = (
        stored_values(real_table, "expr_index_low"),
        computed_values(real_table, "expr_index_low", config),
    )
    assert len(computed) == 2
    assert {key: stored[key] for key in computed} == computed


def test_a_write_drops_the_indexes_of_the_real_table_and_keeps_its_rows(
    real_table: Path, serviced_tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    before = hoodie.read_table(str(real_table))
    data = before.drop_columns([name for name in before.column_names if name.startswith("_hoodie")])
    with local_client(real_table) as client:
        client.upsert(data.slice(0, 3))
    texts = dropped(caplog)
    assert len(texts) == 2
    assert "expr_index_day_of" in texts[0]
    assert "from_unixtime(ts)" in texts[0]
    assert "expr_index_low" in texts[1]
    assert "not ASCII" in texts[1]
    assert indexes_of(real_table) == (set(), set(), set())
    assert hoodie.metadata.validate(str(real_table)).is_right
    assert hoodie.read_table(str(real_table)).num_rows == before.num_rows


# --- what cannot be kept up -------------------------------------------------------------------------------------------


def test_an_index_of_another_function_is_dropped_by_a_commit_and_the_others_are_kept(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path)
    kept = [add_index(path, one) for one in KNOWN]
    lost = add_index(path, UNKNOWN, built_as="identity")
    with local_client(path, SERVICES) as client:
        client.upsert(rows(range(5), 2))
        (text,) = dropped(caplog)
        assert lost in text
        assert "from_unixtime(n)" in text
        assert indexes_of(path) == (set(kept), set(kept), set(kept))
        client.upsert(rows(range(5), 3))
        client.clean()
    assert len(dropped(caplog)) == 1
    for name in kept:
        check_index(path, name)
    assert hoodie.metadata.validate(path).is_right


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_values_that_are_not_ascii_drop_the_indexes_that_change_them(
    tmp_path: Path, table_type: str, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path, table_type)
    names = {one.name: add_index(path, one) for one in KNOWN}
    with local_client(path, SERVICES) as client:
        client.upsert(rows(range(3, 9), 2, name="Straße"))
    assert {text.split()[3] for text in dropped(caplog)} == {"expr_index_low", "expr_index_up"}
    kept = set(names) - {"expr_index_low", "expr_index_up"}
    assert indexes_of(path) == (kept, kept, kept)
    for name in kept:
        check_index(path, name)


def roll_a_dead_write_back(client: HoodieLocalWriteClient, path: str) -> bool:
    with local_client(path, {**SERVICES, "hoodie.auto.commit": "false"}) as dead:
        time = dead.upsert(rows(range(9), 9)).instant_time
    return client.rollback(time)


@pytest.mark.parametrize(
    "action",
    [
        lambda client, path: client.clean(),
        lambda client, path: client.delete_partitions(["d1"]),
        roll_a_dead_write_back,
    ],
    ids=["clean", "delete_partitions", "rollback"],
)
def test_an_action_that_writes_no_data_file_keeps_an_index_of_any_function(
    tmp_path: Path, action: Callable[[HoodieLocalWriteClient, str], Any], caplog: pytest.LogCaptureFixture
) -> None:
    path, quiet = new_table(tmp_path), {"hoodie.metadata.compact.max.delta.commits": "100"}
    with local_client(path, {**SERVICES, **quiet, "hoodie.clean.automatic": "false"}) as client:
        for ts in range(2, 5):
            client.upsert(rows(range(30), ts))
    name = add_index(path, UNKNOWN, built_as="identity")
    with local_client(path, {**SERVICES, **quiet, "hoodie.cleaner.commits.retained": "1"}) as client:
        assert action(client, path)
    assert not dropped(caplog)
    assert is_whole(path, name)
    assert hoodie.metadata.validate(path).is_right


def test_an_index_that_was_set_aside_is_built_again_or_dropped(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = new_table(tmp_path)
    known, lost = [add_index(path, one) for one in KNOWN], add_index(path, UNKNOWN, built_as="identity")
    with local_client(path, {**SERVICES, "hoodie.clean.automatic": "false"}) as client:
        first = TableSnapshot.load(path).active_timeline.completed_writes().last_instant
        assert first is not None
        client.delete_partitions(["d1"])
        assert is_whole(path, lost)
        client.restore_to_instant(first.requested_time)
        client.upsert(rows(range(5), 2))
    assert lost in "".join(dropped(caplog))
    assert indexes_of(path) == (set(known), set(known), set(known))
    for name in known:
        check_index(path, name)


def test_logs_of_partial_rows_drop_indexes(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = new_table(tmp_path, "MERGE_ON_READ", payload_class="PartialUpdateAvroPayload")
    names = [add_index(path, one) for one in KNOWN]
    with local_client(path, SERVICES) as client:
        client.upsert(rows(range(5), 2))
    texts = dropped(caplog)
    assert len(texts) == len(names)
    assert all("several files" in text for text in texts)


def test_an_index_is_spread_over_tasks_as_few_files_are_on_the_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.metadata.writer.file_statistics.FILES_ON_DRIVER", 1)
    path = new_table(tmp_path)
    names = [add_index(path, one) for one in KNOWN]
    with local_client(path, SERVICES) as client:
        client.upsert(rows(range(30), 2))
    for name in names:
        check_index(path, name)
