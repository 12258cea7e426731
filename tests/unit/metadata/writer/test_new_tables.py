"""New tables have a metadata table, unless their version or their writer says otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path

import attrs
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieWriteConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.metadata.writer.due_partitions import DuePartitions, due_partitions
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.metadata_table_checks import MetadataReader, check_equals_a_new_one, listed_partitions
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, init_table, local_client, read_rows, read_trips, rows

pytestmark = pytest.mark.metadata_table

OFF = {"hoodie.metadata.enable": "false"}
STATISTICS = {"hoodie.metadata.index.column.stats.enable": "true"}
SHARE = 5
"""In quick runs one failure of so many is looked at."""
TYPES = ("COPY_ON_WRITE", "MERGE_ON_READ")


class EngineWithRanges(LocalEngineContext):
    """Of the default of Spark."""

    @property
    def ranges_by_default(self) -> bool:
        return True


@pytest.mark.parametrize("table_type", TYPES)
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_the_first_write_makes_one_from_version_8_on(tmp_path: Path, table_version: int, table_type: str) -> None:
    path = str(tmp_path / "t")
    for ts in (1, 2):
        hoodie.write_table(
            rows(("a", "x", ts), (f"b{ts}", "y", ts)),
            path,
            record_key_fields="id",
            partition_fields="region",
            ordering_fields="ts",
            properties={"hoodie.datasource.write.table.type": table_type},
        )
        assert listed_partitions(path) == (() if table_version == 6 else ("files",))
        if table_version > 6:
            check_equals_a_new_one(path)
    assert read_rows(path) == [("a", "x", 2), ("b1", "y", 1), ("b2", "y", 2)]


def test_a_table_without_a_write_has_none(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.clean()
        client.archive()
    assert listed_partitions(path) == () and not (tmp_path / "t/.hoodie/metadata").exists()


def test_a_writer_that_refuses_one_leaves_a_table_that_stays_without(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    for ts, given in enumerate((OFF, {}, {})):
        with local_client(path, given) as client:
            client.upsert(rows(("a", "x", ts)))
        assert listed_partitions(path) == () and not (tmp_path / "t/.hoodie/metadata").exists()


def test_a_table_whose_instants_are_all_archived_is_not_new(tmp_path: Path) -> None:
    table = TableSnapshot.load(init_table(tmp_path / "t"))
    assert due_partitions(table, HoodieMetadataConfig()) == DuePartitions(("files",))
    timeline = attrs.evolve(table.active_timeline, newest_archived_time=lambda: "20260101000000000")
    assert due_partitions(attrs.evolve(table, active_timeline=timeline), HoodieMetadataConfig()) == DuePartitions()


@pytest.mark.parametrize("given", [{}, {"hoodie.metadata.enable": "true"}])
@pytest.mark.parametrize("partition_fields", [["region"], []])
def test_an_engine_may_have_ranges_by_default(
    tmp_path: Path, given: dict[str, str], partition_fields: list[str]
) -> None:
    path = init_table(tmp_path / "t", partition_fields=partition_fields)
    table = TableSnapshot.load(path)
    config = HoodieWriteConfig.from_properties(path, given).metadata
    of_partitions = ("partition_stats",) if partition_fields else ()
    due = due_partitions(table, config, EngineWithRanges())
    assert due.missing == ("column_stats", "files", *of_partitions)
    without = attrs.evolve(config, column_stats_enable=False)
    assert due_partitions(table, without, EngineWithRanges()).missing == ("files",)
    assert due_partitions(table, config, LocalEngineContext()).missing == ("files",)
    with local_client(path, given) as client:
        client.upsert(rows(("a", "x", 1)))
    assert due_partitions(TableSnapshot.load(path), config, EngineWithRanges()) == DuePartitions()


@pytest.mark.usefixtures("faulty_storage")
@pytest.mark.parametrize(
    ("table_type", "properties", "share"),
    [
        (TYPES[0], {}, SHARE),
        pytest.param(TYPES[0], {}, 1, marks=pytest.mark.slow),
        pytest.param(TYPES[0], STATISTICS, 1, marks=pytest.mark.soak),
        pytest.param(TYPES[1], STATISTICS, 1, marks=pytest.mark.soak),
    ],
)
def test_a_first_write_that_died_at_any_call_is_followed_by_one_with_a_right_metadata_table(
    tmp_path: Path, table_type: str, properties: dict[str, str], share: int
) -> None:
    template = tmp_path / "template"
    init_table(template, table_type=table_type)

    def write(base_path: Path, ts: int) -> None:
        with local_client(base_path, {**SMALL_FILTERS, **properties}, parallelism=1) as client:
            client.upsert(rows(("a", "x", ts)))

    def attempt(name: str, faults: Faults) -> Path:
        base_path = tmp_path / name
        shutil.copytree(template, base_path)
        run_with_faults(faults, lambda: write(base_path, 1))
        return base_path

    healthy = Faults()
    expected = listed_partitions(attempt("healthy", healthy))
    assert "files" in expected
    for number, how in list(faults_of(healthy.calls, dies=True))[::share]:
        base_path = attempt(f"{number}_{how}", Faults(number, how))
        reader = MetadataReader.open(base_path)
        reader.check()
        assert read_rows(base_path) in ([], [("a", "x", 1)])
        write(base_path, 2)
        reader.check()
        assert listed_partitions(base_path) == expected, (number, how)
        assert read_rows(base_path) == [("a", "x", 2)]
        check_equals_a_new_one(base_path)
        shutil.rmtree(base_path)


def test_what_died_between_two_partitions_is_built_by_the_next_write(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.start_commit()
    table = TableSnapshot.load(path)
    assert listed_partitions(path) == ("files",)
    assert due_partitions(table, HoodieMetadataConfig(), EngineWithRanges()).missing == (
        "column_stats", "partition_stats",
    )  # fmt: skip


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_a_log_file_whose_rows_were_all_refused_is_not_listed(tmp_path: Path, table_version: int) -> None:
    schema = pa.schema([*SCHEMA, pa.field("fare", pa.float64(), nullable=False)])
    path = init_table(tmp_path / "t", table_type=TYPES[1], schema=schema)
    everything = {
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.write.commit.on.errors": "true",
        **STATISTICS,
    }
    with local_client(path, everything) as client:
        client.upsert(rows(("a", "x", 10, 1.0), ("b", "x", 10, 2.0)))
        result = client.upsert(rows(("a", "x", 20, None)))
        assert (result.error_count, result.updated_count) == (1, 0)
        empty = [
            file for file in Path(path).rglob(".*.log.*") if "metadata" not in file.parts and not file.stat().st_size
        ]
        assert len([file for file in empty if not file.name.endswith(".crc")]) == 1
        assert read_trips(path) == [("a", "x", 10, 1.0), ("b", "x", 10, 2.0)]
        check_equals_a_new_one(path)
        client.upsert(rows(("a", "x", 30, 3.0)))
        client.schedule_compaction()
        client.compact()
    assert read_trips(path) == [("a", "x", 30, 3.0), ("b", "x", 10, 2.0)]
    check_equals_a_new_one(path)
