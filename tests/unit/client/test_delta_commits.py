"""Delta commits: what they write, what other readers see of it, and what is left after failures."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.avro.timeline_metadata import encode_record
from hoodie.common.model.record_columns import CURRENT_FILE_ID, META_COLUMNS
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
    HoodieWriteException,
)
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.io.append_handle import HoodieAppendHandle, LogPlace
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.log.avro_block import avro_records
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.merging_reader import LogMerging
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.io.write_context import WriteContext
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.commit import incoming_keys
from hoodie.table.table import HoodieTable
from tests.support import merge_on_read_table
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.table_builder import SCHEMA, SMALL_FILTERS, TRIPS, init_table, local_client, rows
from tests.support.timeline_files import read_commit, state_files

every_version = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "INMEMORY", "BUCKET")
BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
DATABASE = {"hoodie.index.class": "hoodie.index.external.database_index.HoodieDatabaseIndex"}
NO_SMALL_FILES = {"hoodie.parquet.small.file.limit": "0"}
FIRST = (("a", "x", 10), ("b", "x", 10), ("c", "y", 10))


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def new_client(base_path: Path, properties: dict[str, str] | None = None, **given: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, {**SMALL_FILTERS, **(properties or {})}, **given)


def write(base_path: Path, *entries: tuple[Any, ...], properties: dict[str, str] | None = None) -> str:
    with new_client(base_path, properties) as client:
        return client.upsert(rows(*entries)).instant_time


def read_by_hudi_rs(base_path: Path) -> list[tuple[Any, ...]]:
    """The rows as hudi-rs reads them, which are those that hoodie merges."""
    found = merge_on_read_table.read_by_hudi_rs(base_path, by_metadata_table=False)
    assert found == read_by_hoodie(base_path)
    return found


def read_by_hoodie(base_path: Path) -> list[tuple[Any, ...]]:
    snapshot = TableSnapshot.load(str(base_path))
    view, schema = snapshot.view(), snapshot.load_schema()
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *schema])
    context = HoodieReaderContext(snapshot.storage, schema, SCHEMA.names, LogMerging.of_table(snapshot, schema))
    readers = [
        HoodieFileGroupReader(context, part)
        for path in view.list_partitions()
        for part in view.latest_file_slices(path)
    ]
    found = [row for reader in readers for batch in reader.iter_batches() for row in batch.to_pylist()]
    return sorted(tuple(row.values()) for row in found)


def files_of(base_path: Path, pattern: str = "*.log.*") -> list[str]:
    found = [file for file in base_path.rglob(pattern) if ".hoodie" not in file.parts]
    return sorted(file.relative_to(base_path).as_posix() for file in found)


def base_files(base_path: Path) -> list[str]:
    return files_of(base_path, "*.parquet")


def blocks_of(base_path: Path, name: str) -> list[tuple[str, str | None]]:
    blocks = read_log_blocks((base_path / name).read_bytes(), name)
    return [(block.block_type.name, block.headers.get(HeaderMetadataType.INSTANT_TIME)) for block in blocks]


def stats_of(base_path: Path, instant_time: str) -> list[HoodieWriteStat]:
    return list(read_commit(base_path, instant_time).write_stats)


# --- rows -------------------------------------------------------------------------------------------------------------


@every_version
@pytest.mark.parametrize("index_type", INDEXES)
def test_a_reader_sees_updates_inserts_and_deletes(base_path: Path, index_type: str) -> None:
    properties = {"hoodie.index.type": index_type, "hoodie.bucket.index.num.buckets": "2"}
    if index_type != "BUCKET":
        del properties["hoodie.bucket.index.num.buckets"]
    with new_client(base_path, properties) as client:
        client.upsert(rows(*FIRST))
        client.upsert(rows(("a", "x", 20), ("b", "x", 5)))
        assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 10), ("c", "y", 10)]
        client.upsert(rows(("a", "x", 30), ("d", "x", 1), ("e", "z", 1)))
        client.delete([HoodieKey("c", "y"), HoodieKey("b", "x"), HoodieKey("nobody", "x")])
        assert read_by_hudi_rs(base_path) == [("a", "x", 30), ("d", "x", 1), ("e", "z", 1)]
        client.insert(rows(("f", "x", 1), ("g", "w", 1)))
        client.bulk_insert(rows(("h", "x", 1)))
        client.upsert(rows(("d", "x", 2), ("c", "y", 10), ("h", "x", 2)))
        assert read_by_hudi_rs(base_path) == [
            ("a", "x", 30), ("c", "y", 10), ("d", "x", 2), ("e", "z", 1), ("f", "x", 1), ("g", "w", 1), ("h", "x", 2)
        ]  # fmt: skip
        client.insert_overwrite(rows(("i", "x", 1)))
        client.delete_partitions(["z"])
        assert read_by_hudi_rs(base_path) == [("c", "y", 10), ("g", "w", 1), ("i", "x", 1)]
        client.insert_overwrite_table(rows(("j", "y", 1)))
        assert read_by_hudi_rs(base_path) == [("j", "y", 1)]


@pytest.mark.parametrize("properties", [{}, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_a_flagged_row_deletes_by_its_ordering_value(base_path: Path, properties: dict[str, str]) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    flagged = [(key, "x", ts, True) for key, ts in (("a", 20), ("b", 5))]
    with new_client(base_path, properties) as client:
        client.upsert(rows(*((*row, False) for row in FIRST), schema=schema))
        result = client.upsert(rows(*flagged, schema=schema))
    assert read_by_hudi_rs(base_path) == [("b", "x", 10), ("c", "y", 10)]
    assert (result.deleted_count, result.updated_count) == (2, 0)


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_several_ordering_fields_decide_between_rows_and_deletes(tmp_path: Path, table_version: int) -> None:
    schema = pa.schema([*SCHEMA, ("n", pa.int32()), ("_hoodie_is_deleted", pa.bool_())])
    base_path = Path(init_table(tmp_path / "o", table_type="MERGE_ON_READ", ordering_fields=["ts", "n"]))
    with new_client(base_path) as client:
        client.upsert(rows(*((key, "x", 10, 5, False) for key in "abcd"), schema=schema))
        flags = (("a", "x", 10, 4, True), ("b", "x", 10, 5, True), ("c", "x", 11, 0, True), ("d", "x", 9, 9, True))
        client.upsert(rows(*flags, schema=schema))
        # hudi-rs does not read such tables.
        assert read_by_hoodie(base_path) == [("a", "x", 10), ("d", "x", 10)]
        client.upsert(rows(("a", "x", 10, 6, False), ("c", "x", 11, 1, False), ("d", "x", 10, 4, False), schema=schema))
    assert read_by_hoodie(base_path) == [("a", "x", 10), ("c", "x", 11), ("d", "x", 10)]


def test_a_key_that_moves_is_deleted_in_its_old_partition(base_path: Path) -> None:
    properties = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    write(base_path, *FIRST, properties=properties)
    write(base_path, ("a", "y", 20), ("b", "z", 20), properties=properties)
    assert read_by_hudi_rs(base_path) == [("a", "y", 20), ("b", "z", 20), ("c", "y", 10)]


@pytest.mark.parametrize("index_type", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("few", [True, False], ids=["few_keys", "joined"])
def test_a_moving_key_meets_its_stored_row_in_the_log(
    base_path: Path, index_type: str, few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(global_simple_index, "SHARED_KEY_BYTES", 0)
    properties = {"hoodie.index.type": index_type}
    write(base_path, *FIRST, properties=properties)
    write(base_path, ("a", "x", 30), ("b", "x", 30), properties=properties)
    write(base_path, ("a", "y", 20), ("b", "y", 40), properties=properties)
    assert read_by_hudi_rs(base_path) == [("a", "x", 30), ("b", "y", 40), ("c", "y", 10)]


@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_rows_are_stored_in_the_format_that_is_asked_for(base_path: Path, block_format: str) -> None:
    write(base_path, *FIRST)
    write(base_path, ("a", "x", 20), properties={"hoodie.logfile.data.block.format": block_format})
    (log_file,) = files_of(base_path)
    assert [kind for kind, _ in blocks_of(base_path, log_file)] == [f"{block_format.upper()}_DATA"]
    assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 10), ("c", "y", 10)]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_parquet_in_log_files_has_the_codec_that_is_asked_for(base_path: Path, codec: str) -> None:
    write(base_path, *FIRST)
    asked = {"hoodie.logfile.data.block.format": "parquet", "hoodie.parquet.compression.codec": codec}
    write(base_path, ("a", "x", 20), properties=asked)
    (log_file,) = files_of(base_path)
    (block,) = read_log_blocks((base_path / log_file).read_bytes(), log_file)
    assert pq.read_metadata(pa.BufferReader(block.content)).row_group(0).column(0).compression == codec.upper()


def test_of_rows_of_one_key_that_are_not_combined_the_last_one_is_appended(base_path: Path) -> None:
    write(base_path, *FIRST)
    with new_client(base_path, {"hoodie.combine.before.upsert": "false"}) as client:
        result = client.upsert(rows(("a", "x", 30), ("a", "x", 20), ("b", "x", 11)))
    assert (result.updated_count, result.combined_count) == (2, 1)
    assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 11), ("c", "y", 10)]


# --- files ------------------------------------------------------------------------------------------------------------


@every_version
def test_changes_are_appended_and_base_files_stay(base_path: Path, table_version: int) -> None:
    first = write(base_path, *FIRST)
    before = base_files(base_path)
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with new_client(base_path) as client:
        second = client.upsert(rows(("a", "x", 20, False), ("b", "x", 20, True), schema=schema)).instant_time
        third = client.delete([HoodieKey("a", "x")]).instant_time
    assert base_files(base_path) == before
    (file_id,) = {name.rpartition("/")[2].partition("_")[0] for name in before if name.startswith("x/")}
    named = [(first, 1), (first, 2)] if table_version == 6 else [(second, 1), (third, 1)]
    found = files_of(base_path)
    assert [name.rpartition("_")[0] for name in found] == [f"x/.{file_id}_{time}.log.{v}" for time, v in named]
    assert blocks_of(base_path, found[0]) == [("AVRO_DATA", second), ("DELETE", second)]
    assert blocks_of(base_path, found[1]) == [("DELETE", third)]


def test_stored_rows_have_their_meta_columns(base_path: Path) -> None:
    write(base_path, *FIRST)
    time = write(base_path, ("a", "x", 20), ("b", "x", 20))
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    found = sorted((row for row in pa.Table.from_batches(batches).to_pylist()), key=lambda row: row["id"])
    names = [row["_hoodie_file_name"] for row in found]
    assert [row["_hoodie_commit_time"] == time for row in found] == [True, True, False]
    assert [row["_hoodie_commit_seqno"] for row in found[:2]] == [f"{time}_0_0", f"{time}_0_1"]
    assert [(row["_hoodie_record_key"], row["_hoodie_partition_path"]) for row in found[:2]] == [("a", "x"), ("b", "x")]
    # The file id, as Hudi's append handle writes it; a base file's row has the file's name.
    assert names[0] == names[1] == stats_of(base_path, time)[0].file_id
    assert names[2].endswith(".parquet")


def test_inserts_fill_the_smallest_file_without_logs_and_take_its_updates_along(base_path: Path) -> None:
    for key in "abc":
        write(base_path, (key, "x", 10), properties=NO_SMALL_FILES)
    assert len(base_files(base_path)) == 3
    write(base_path, ("a", "x", 20), properties=NO_SMALL_FILES)
    with new_client(base_path) as client:
        result = client.upsert(rows(("b", "x", 20), ("c", "x", 20), ("d", "x", 1), ("e", "x", 1)))
    kinds = {status.stat.is_log_file: status.stat for status in result.statuses}
    assert len(result.statuses) == len(kinds) == 2
    assert (kinds[False].num_update_writes, kinds[False].num_inserts, kinds[False].num_writes) == (1, 2, 3)
    assert (kinds[True].num_update_writes, kinds[True].num_inserts) == (1, 0)
    assert read_by_hudi_rs(base_path) == [
        ("a", "x", 20), ("b", "x", 20), ("c", "x", 20), ("d", "x", 1), ("e", "x", 1)
    ]  # fmt: skip
    assert len(base_files(base_path)) == 4


def test_as_many_small_files_are_filled_as_the_option_says(base_path: Path) -> None:
    for key in "abc":
        write(base_path, (key, "x", 10), properties=NO_SMALL_FILES)
    for limit, groups in (("0", 4), ("2", 4)):
        properties = {"hoodie.merge.small.file.group.candidates.limit": limit}
        write(base_path, (f"new{limit}", "x", 1), properties=properties)
        view = HoodieTableMetaClient.load(str(base_path)).view()
        assert len(view.latest_file_slices("x")) == groups


def test_a_bucket_takes_everything_into_its_log(base_path: Path) -> None:
    properties = {**BUCKET, "hoodie.bucket.index.num.buckets": "1"}
    write(base_path, ("a", "x", 10), properties=properties)
    with new_client(base_path, properties) as client:
        result = client.upsert(rows(("a", "x", 20), ("b", "x", 20)))
        inserted = client.insert(rows(("c", "x", 1), ("d", "y", 1)))
    (status,) = result.statuses
    # Hudi counts so: the index does not know whether a key is stored.
    assert (status.stat.num_update_writes, status.stat.num_inserts, status.stat.is_log_file) == (2, 0, True)
    assert sorted(status.stat.is_log_file for status in inserted.statuses) == [False, True]
    assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 20), ("c", "x", 1), ("d", "y", 1)]


def test_a_full_log_file_is_followed_by_another_one(base_path: Path) -> None:
    keys = [f"k{number:03}" for number in range(60)]
    write(base_path, *((key, "x", 1) for key in keys))
    limits = {"hoodie.logfile.max.size": "2000", "hoodie.logfile.data.block.max.size": "500"}
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with new_client(base_path, limits) as client:
        result = client.upsert(rows(*((key, "x", 2, key == "k000") for key in keys), schema=schema))
    stats = [status.stat for status in result.statuses]
    assert len(stats) > 2
    assert [stat.log_version for stat in stats] == [*range(1, len(stats) + 1)]
    assert [stat.path for stat in stats] == [f"x/{stat.log_files[-1]}" for stat in stats if stat.log_files]
    assert sum(stat.num_update_writes for stat in stats) == sum(stat.num_writes for stat in stats) == 59
    assert [stat.num_deletes for stat in stats] == [*[0] * (len(stats) - 1), 1]
    assert all(stat.file_size_bytes >= 2000 for stat in stats[:-1])
    assert sorted(str(stat.path) for stat in stats) == files_of(base_path)
    assert read_by_hudi_rs(base_path) == [(key, "x", 2) for key in keys[1:]]


# --- statistics -------------------------------------------------------------------------------------------------------


def test_statistics_of_version_6_are_those_of_hudi(tmp_path: Path, table_version: int) -> None:
    base_path = Path(init_table(tmp_path / "t6", table_type="MERGE_ON_READ", table_version=6))
    first = write(base_path, *FIRST)
    (base_file,) = (name for name in base_files(base_path) if name.startswith("x/"))
    with new_client(base_path) as client:
        times = [client.delete([HoodieKey("a", "x")]).instant_time, client.upsert(rows(("b", "x", 20))).instant_time]
    names = files_of(base_path)
    for number, time in enumerate(times):
        (stat,) = stats_of(base_path, time)
        size = (base_path / names[number]).stat().st_size
        assert stat.runtime_stats is not None and stat.runtime_stats.total_create_time == 0
        assert (stat.path, stat.prev_commit, stat.log_version, stat.log_offset) == (names[number], first, number + 1, 0)
        assert (stat.num_writes, stat.num_deletes, stat.num_update_writes, stat.num_inserts) == (
            (0, 1, 0, 0), (1, 0, 1, 0)
        )[number]  # fmt: skip
        assert (stat.total_write_bytes, stat.file_size_bytes) == (size, size)
        assert stat.base_file == base_file.rpartition("/")[2]
        assert stat.log_files == tuple(name.rpartition("/")[2] for name in names[: number + 1])


@pytest.mark.parametrize("table_version", [8, 9], indirect=True)
def test_statistics_of_later_versions_are_those_of_hudi(base_path: Path) -> None:
    write(base_path, *FIRST)
    for key in "ab":
        time = write(base_path, (key, "x", 20))
        (stat,) = stats_of(base_path, time)
        (name,) = (name for name in files_of(base_path) if time in name)
        assert (stat.path, stat.prev_commit, stat.log_version, stat.log_offset) == (name, time, 1, 0)
        assert (stat.base_file, stat.log_files, stat.prev_base_file) == ("", (name.rpartition("/")[2],), None)


def test_all_writes_are_delta_commits_but_for_those_that_replace(base_path: Path) -> None:
    with new_client(base_path) as client:
        client.bulk_insert(rows(*FIRST))
        client.insert(rows(("d", "x", 1)))
        client.upsert(rows(("a", "x", 20)))
        client.delete([HoodieKey("a", "x")])
        client.insert_overwrite(rows(("e", "x", 1)))
        client.delete_partitions(["y"])
        client.upsert(rows(("e", "x", 2)), client.start_commit())
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert [str(instant.action) for instant in timeline.commits_timeline()] == [
        *["deltacommit"] * 4, "replacecommit", "replacecommit", "deltacommit"
    ]  # fmt: skip


# --- version 6: slices by name ----------------------------------------------------------------------------------------


def plan_compaction(base_path: Path) -> str:
    """Plan a compaction of all slices with log files, as Hudi does."""
    table = HoodieTableMetaClient.load(str(base_path))
    operations = [
        {
            "baseInstantTime": part.base_instant_time,
            "deltaFilePaths": [log.file_name for log in part.log_files],
            "dataFilePath": part.base_file.file_name if part.base_file else None,
            "fileId": part.file_id,
            "partitionPath": part.partition_path,
            "metrics": {"TOTAL_LOG_FILES_SIZE": 1.0},
            "bootstrapFilePath": None,
        }
        for path in table.view().list_partitions()
        for part in table.view().latest_file_slices(path)
        if part.log_files
    ]
    plan = {
        "operations": operations,
        "extraMetadata": None,
        "version": 2,
        "strategy": None,
        "preserveHoodieMetadata": False,
        "missingSchedulePartitions": [],
    }
    layout = table.active_timeline.layout
    name = "HoodieCompactionPlan"
    content = encode_record(name, plan) if not layout.has_completion_times else encode_record(name, plan, layout=2)
    return table.active_timeline.create_new_instant_time(Action.COMPACTION, content)


@pytest.mark.table_version(6)
def test_log_files_go_to_the_slice_of_a_pending_compaction(base_path: Path) -> None:
    first = write(base_path, *FIRST)
    write(base_path, ("a", "x", 20))
    compaction = plan_compaction(base_path)
    times = [write(base_path, ("a", "x", number), ("c", "y", number)) for number in (30, 40)]
    names = [name.rpartition("/")[2].split("_")[1] for name in files_of(base_path)]
    assert names == [f"{first}.log.1", f"{compaction}.log.1", f"{compaction}.log.2", f"{first}.log.1", f"{first}.log.2"]
    stat = next(stat for stat in stats_of(base_path, times[1]) if stat.partition_path == "x")
    assert (stat.prev_commit, stat.base_file, len(stat.log_files or ())) == (compaction, "", 2)


@pytest.mark.table_version(6)
@pytest.mark.parametrize("several_writers", [False, True])
def test_a_compaction_that_was_planned_during_a_write_prevents_its_commit(
    base_path: Path, several_writers: bool
) -> None:
    write(base_path, *FIRST)
    write(base_path, ("a", "x", 20))
    properties = {"hoodie.auto.commit": "false"}
    if several_writers:
        properties |= {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": "InProcessLockProvider",
        }
    client = new_client(base_path, properties)
    started = client.start_commit()
    result = client.upsert(rows(("a", "x", 30)), started)
    plan_compaction(base_path)
    with pytest.raises(HoodieWriteConflictException, match="compaction") as error:
        client.commit(started, result)
    assert error.value.is_retry_safe


@pytest.mark.table_version(6)
def test_another_writers_log_file_of_the_same_name_stays(
    base_path: Path, contexts: list[WriteContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two processes count their tasks from 0: they choose the same name where they list at the same moment."""
    write(base_path, *FIRST)
    write(base_path, ("b", "x", 15))
    (theirs,) = (base_path / name for name in files_of(base_path))
    with new_client(base_path, {"hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("c", "y", 20)), started)
        token = theirs.name.rpartition("_")[2]
        task = TaskIdentity(*map(int, token.split("-")))
        place = LogPlace("x", *theirs.name[1:].partition(".log.")[0].split("_"))
        before = theirs.read_bytes()
        with HoodieAppendHandle(contexts[-1], place, task) as handle:
            handle.write(in_flight(("a", "x", 20)))
            status = handle.close()
        assert status.stat.log_version == 2
        assert theirs.read_bytes() == before
        markers = [path.name for path in base_path.rglob("*.marker.APPEND") if "y" not in path.parts]
        assert markers == [f"{handle.file_name}.marker.APPEND"]
        # As if the attempt had died right after it announced the file of that name.
        handle._markers().create("x", theirs.name, handle.io_type)
        client.commit(started, with_status(result, status))
    assert theirs.read_bytes() == before
    assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 15), ("c", "y", 20)]


def in_flight(*entries: tuple[Any, ...]) -> pa.Table:
    table = rows(*entries)
    operations = pa.array([0] * len(entries), pa.int8())
    return table.append_column("__hoodie_record_key", table["id"]).append_column("__hoodie_operation", operations)


def with_status(result: Any, status: WriteStatus) -> Any:
    import attrs

    stats = dict(result.commit_metadata.partition_to_write_stats)
    stats[status.partition_path] = (*stats.get(status.partition_path, ()), status.stat)
    metadata = attrs.evolve(result.commit_metadata, partition_to_write_stats=stats)
    return attrs.evolve(result, statuses=(*result.statuses, status), commit_metadata=metadata)


# --- attempts ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[WriteContext]:
    """What the tasks of each write were given."""
    given: list[WriteContext] = []
    make = HoodieTable.write_context

    def keep(table: HoodieTable, *arguments: Any) -> WriteContext:
        given.append(make(table, *arguments))
        return given[-1]

    monkeypatch.setattr(HoodieTable, "write_context", keep)
    return given


def second_attempt(base_path: Path, context: WriteContext, stat: HoodieWriteStat) -> HoodieAppendHandle:
    """Another attempt of the task that wrote a log file."""
    name = str(stat.path).rpartition("/")[2][1:].partition(".log.")[0]
    is_of_commit = context.table_config.table_version > 6
    place = LogPlace(stat.partition_path, *name.split("_"), int(stat.log_version or 0), is_of_commit)
    return HoodieAppendHandle(context, place, TaskIdentity(0, 0, 999_999))


def test_the_log_file_of_a_losing_attempt_goes_before_the_commit(base_path: Path, contexts: list[WriteContext]) -> None:
    write(base_path, *FIRST)
    with new_client(base_path, {"hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("a", "x", 20)), started)
        with second_attempt(base_path, contexts[-1], result.statuses[0].stat) as loser:
            loser.write(in_flight(("a", "x", 99)))
            loser.close()
        assert len(files_of(base_path)) == 2
        client.commit(started, result)
    assert files_of(base_path) == [result.statuses[0].stat.path]
    assert read_by_hudi_rs(base_path)[0] == ("a", "x", 20)
    assert not list(base_path.rglob("*.marker.*"))


@pytest.mark.parametrize("begins_late", [True, False])
def test_an_attempt_that_comes_after_the_commit_leaves_nothing(
    base_path: Path, contexts: list[WriteContext], begins_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(base_path, *FIRST)
    with new_client(base_path, {"hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("a", "x", 20)), started)
        loser = second_attempt(base_path, contexts[-1], result.statuses[0].stat)
        if not begins_late:
            loser.open()
            loser.write(in_flight(("a", "x", 99)))
        client.commit(started, result)
        # Not for a moment: readers take every log file of a completed instant.
        monkeypatch.setattr(LocalStorage, "create_if_absent", lambda storage, path, data: pytest.fail(path))
        with pytest.raises(HoodieCommitException, match="too late"):
            loser.open() if begins_late else loser.close()
    assert files_of(base_path) == [result.statuses[0].stat.path]
    assert not list(base_path.rglob("*.marker.*"))


def test_another_writer_sees_by_markers_that_a_file_group_is_being_appended_to(base_path: Path) -> None:
    write(base_path, *FIRST)
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
        "hoodie.write.concurrency.early.conflict.detection.enable": "true",
    }
    first = new_client(base_path, {**several, "hoodie.auto.commit": "false"})
    first.upsert(rows(("a", "x", 20)), first.start_commit())
    with pytest.raises(HoodieException, match="Another writer is rewriting file group"):
        write(base_path, ("b", "x", 20), properties=several)
    write(base_path, ("c", "y", 20), properties=several)


def test_two_writers_of_one_file_group_conflict(base_path: Path) -> None:
    write(base_path, *FIRST)
    several = {
        "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
        "hoodie.write.lock.provider": "InProcessLockProvider",
    }
    first = new_client(base_path, {**several, "hoodie.auto.commit": "false"})
    started = first.start_commit()
    result = first.upsert(rows(("a", "x", 30)), started)
    write(base_path, ("b", "x", 20), ("c", "y", 20), properties=several)
    with pytest.raises(HoodieWriteConflictException):
        first._committer.complete(started, result, {})
    assert read_by_hudi_rs(base_path) == [("a", "x", 10), ("b", "x", 20), ("c", "y", 20)]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["upsert", "insert", "bulk_insert", "insert_overwrite"])
def test_a_null_ordering_value_is_refused_with_its_key(base_path: Path, operation: str) -> None:
    write(base_path, *FIRST)
    with (
        new_client(base_path) as client,
        pytest.raises(HoodieWriteException, match=r"1 records .*'ts'.*among them 'a'"),
    ):
        getattr(client, operation)(rows(("a", "x", None), ("b", "x", 11)))
    assert read_by_hudi_rs(base_path) == sorted(FIRST)


@pytest.mark.table_version(6)
@pytest.mark.parametrize("position", [None, "mysql-bin"])
@pytest.mark.parametrize("operation", ["upsert", "insert"])
def test_a_row_that_could_never_be_merged_is_refused(tmp_path: Path, operation: str, position: str | None) -> None:
    properties = {"hoodie.compaction.payload.class": "MySqlDebeziumAvroPayload"}
    base_path = Path(init_table(tmp_path / "d", table_type="MERGE_ON_READ", properties=properties))
    schema = pa.schema([*SCHEMA, ("_event_seq", pa.string()), ("_change_operation_type", pa.string())])
    with new_client(base_path) as client:
        client.upsert(rows(("a", "x", 1, "1.5", "c"), schema=schema))
        with pytest.raises(HoodieWriteException, match=r"'b': _event_seq of the incoming record is"):
            getattr(client, operation)(rows(("a", "x", 2, "1.6", "u"), ("b", "x", 2, position, "u"), schema=schema))
        client.upsert(rows(("a", "x", 1, "1.4", "u"), ("b", "x", 1, "1.7", "c"), schema=schema))
        client.upsert(rows(("b", "x", 1, "1.8", "d"), schema=schema))
    assert read_by_hoodie(base_path) == [("a", "x", 1)]


def read_trips_by_hudi_rs(base_path: Path) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    return sorted(tuple(row.values()) for row in table.select(TRIPS.names).to_pylist())


# --- partial updates and prepped records ------------------------------------------------------------------------------


@pytest.mark.parametrize("properties", [{}, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_a_partial_update_appends_whole_rows(base_path: Path, properties: dict[str, str]) -> None:
    partial = {**properties, "hoodie.write.partial.update": "true"}
    fares = pa.schema([SCHEMA.field("id"), SCHEMA.field("region"), TRIPS.field("fare")])
    with new_client(base_path, {**properties, **NO_SMALL_FILES}) as client:
        client.upsert(rows(("a", "x", 10, 1.0), ("b", "x", 10, 2.0), ("c", "y", 10, 3.0)))
        client.upsert(rows(("a", "x", 20, 1.5)))
    with new_client(base_path, {**partial, **NO_SMALL_FILES}) as client:
        # The newest values are in the log, in the base file, and lose.
        client.upsert(rows(("a", "x", 30), ("b", "x", 30), ("c", "y", 5)))
        assert read_trips_by_hudi_rs(base_path) == [("a", "x", 30, 1.5), ("b", "x", 30, 2.0), ("c", "y", 10, 3.0)]
        client.upsert(rows(("a", "x", 9.0), ("c", "y", 9.0), schema=fares))
        assert read_trips_by_hudi_rs(base_path) == [("a", "x", 30, 9.0), ("b", "x", 30, 2.0), ("c", "y", 10, 9.0)]
        client.delete([HoodieKey("a", "x")])
        with pytest.raises(HoodieException, match="are not in the table, among them 'a'"):
            client.upsert(rows(("a", "x", 40)))
    with new_client(base_path, {**partial, "hoodie.write.partial.update.missing.keys": "INSERT"}) as client:
        client.upsert(rows(("a", "x", 40), ("b", "x", 40), ("new", "y", 40)))
    assert read_trips_by_hudi_rs(base_path) == [
        ("a", "x", 40, None), ("b", "x", 40, 2.0), ("c", "y", 10, 9.0), ("new", "y", 40, None)
    ]  # fmt: skip


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_absent_columns_are_null_where_a_null_keeps_the_stored_value(tmp_path: Path, table_version: int) -> None:
    properties = {"hoodie.compaction.payload.class": "PartialUpdateAvroPayload"}
    base_path = Path(init_table(tmp_path / "p", table_type="MERGE_ON_READ", properties=properties))
    write(base_path, ("a", "x", 10, 1.0))
    (base_file,) = base_files(base_path)
    write(base_path, ("a", "x", 20))
    # Nothing of the base file is read: its row is merged in when the table is read.
    assert base_files(base_path) == [base_file]
    (log_file,) = files_of(base_path)
    (block,) = read_log_blocks((base_path / log_file).read_bytes(), log_file)
    (record,) = avro_records(block)
    assert (record["id"], record["ts"], record["fare"]) == ("a", 20, None)


def test_rows_are_written_back_to_where_they_were_read(base_path: Path) -> None:
    write(base_path, *FIRST)
    write(base_path, ("a", "x", 20))
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    stored = pa.Table.from_batches(batches)
    changed = stored.set_column(stored.schema.get_field_index("ts"), "ts", pa.array([30] * 3, pa.int64()))
    with new_client(base_path) as client:
        client.upsert_prepped_records(changed)
        assert read_by_hudi_rs(base_path) == [("a", "x", 30), ("b", "x", 30), ("c", "y", 30)]
        client.delete([HoodieKey("b", "x")])
        with pytest.raises(HoodieException, match="does not hold their keys now, such as 'b'"):
            client.upsert_prepped_records(changed)


def test_rows_are_deleted_by_their_places_where_there_are_no_log_files(base_path: Path) -> None:
    with new_client(base_path) as client:
        client.bulk_insert(rows(*FIRST, ("a", "x", 11)))
        stored = hoodie.read_table(str(base_path), columns=["_hoodie_record_key", "_hoodie_partition_path",
            "_hoodie_file_name", "id", "ts"])  # fmt: skip
        places = stored.append_column("_hoodie_row_position", pa.array(range_in_files(stored), pa.int64()))
        is_first = pc.and_(pc.equal(places["id"], "a"), pc.equal(places["ts"], 10))
        client.delete_prepped_records(places.filter(is_first))
        assert read_by_hudi_rs(base_path) == [("a", "x", 11), ("b", "x", 10), ("c", "y", 10)]
        client.upsert(rows(("b", "x", 20)))
        with pytest.raises(HoodieException, match="log files|changed since"):
            client.delete_prepped_records(places.slice(0, 1))
    assert read_by_hudi_rs(base_path) == [("a", "x", 11), ("b", "x", 20), ("c", "y", 10)]


def range_in_files(stored: pa.Table) -> list[int]:
    """The position of each row in its file, of rows in the order of the files."""
    seen: dict[str, int] = {}
    positions = []
    for name in stored["_hoodie_file_name"].to_pylist():
        positions.append(seen.get(name, 0))
        seen[name] = positions[-1] + 1
    return positions


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_bucket_of_a_table_without_stored_keys_takes_inserts(tmp_path: Path, table_version: int) -> None:
    properties = {"hoodie.populate.meta.fields": "false"}
    base_path = Path(init_table(tmp_path / "v", table_type="MERGE_ON_READ", properties=properties))
    options = {**BUCKET, "hoodie.bucket.index.num.buckets": "1", "hoodie.merge.allow.duplicate.on.inserts": "true"}
    with new_client(base_path, options) as client:
        client.insert(rows(("a", "x", 10), ("b", "x", 10)))
        client.insert(rows(("a", "x", 20), ("c", "x", 20)))
    assert len(base_files(base_path)) == len(files_of(base_path)) == 1
    # hudi-rs does not merge log files of such tables.
    assert read_by_hoodie(base_path) == [("a", "x", 20), ("b", "x", 10), ("c", "x", 20)]


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
@pytest.mark.parametrize("block_format", ["avro", "parquet"])
def test_a_column_is_not_widened_over_parquet_blocks_that_hudi_0_15_reads(
    tmp_path: Path, table_version: int, block_format: str
) -> None:
    base_path = Path(init_table(tmp_path / "w", table_type="MERGE_ON_READ"))
    narrow, wide = (SCHEMA.append(pa.field("n", kind)) for kind in (pa.int32(), pa.int64()))
    with new_client(base_path, {"hoodie.logfile.data.block.format": block_format}) as client:
        client.upsert(rows(("a", "x", 10, 1), ("b", "x", 10, 1), schema=narrow))
        client.upsert(rows(("a", "x", 20, 2), schema=narrow))
        if block_format == "parquet" and table_version == 6:
            with pytest.raises(HoodieNotSupportedException, match=r"column n becomes int64.* 1 log files .*Hudi 0\.15"):
                client.upsert(rows(("b", "x", 20, 3), schema=wide))
        else:
            client.upsert(rows(("b", "x", 20, 2**40), schema=wide))
            assert read_by_hudi_rs(base_path) == [("a", "x", 20), ("b", "x", 20)]


# --- keys that only log files hold ------------------------------------------------------------------------------------


def insert_into_logs(base_path: Path, contexts: list[WriteContext], of_new_group: bool) -> None:
    """A commit that puts the new key n into a log file of partition x, as engines do that know all locations."""
    with new_client(base_path, {"hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("c", "y", 11)), started)
        is_of_commit = contexts[-1].table_config.table_version > 6
        (part,) = HoodieTableMetaClient.load(str(base_path)).view().latest_file_slices("x")
        time = started if is_of_commit or of_new_group else part.base_instant_time
        place = LogPlace("x", NEW_GROUP if of_new_group else part.file_id, time, is_of_commit=is_of_commit)
        with HoodieAppendHandle(contexts[-1], place, TaskIdentity(7, 8, 9)) as handle:
            handle.write(in_flight(("n", "x", 20)).append_column(CURRENT_FILE_ID, pa.nulls(1, pa.string())))
            status = handle.close()
        assert status.stat.num_inserts == 1
        client.commit(started, with_status(result, status))


NEW_GROUP = "5d0e7c6a-1d0f-4b0e-8a4b-0123456789ab-0"


@every_version
@pytest.mark.parametrize("index_type", [*(index for index in INDEXES if index != "BUCKET"), "database"])
@pytest.mark.parametrize("of_new_group", [False, True], ids=["existing_group", "log_only_group"])
def test_a_key_that_only_a_log_file_holds_is_found(
    base_path: Path, contexts: list[WriteContext], index_type: str, of_new_group: bool
) -> None:
    write(base_path, *FIRST)
    insert_into_logs(base_path, contexts, of_new_group)
    assert ("n", "x", 20) in read_by_hudi_rs(base_path)
    properties = DATABASE if index_type == "database" else {"hoodie.index.type": index_type}
    with new_client(base_path, properties) as client:
        result = client.upsert(rows(("n", "x", 30), ("b", "x", 30)))
        assert (result.inserted_count, result.updated_count) == (0, 2)
        assert read_by_hudi_rs(base_path) == [("a", "x", 10), ("b", "x", 30), ("c", "y", 11), ("n", "x", 30)]
        assert client.delete([HoodieKey("n", "x")]).deleted_count == 1
        assert read_by_hudi_rs(base_path) == [("a", "x", 10), ("b", "x", 30), ("c", "y", 11)]


@pytest.mark.parametrize("index_type", ["SIMPLE", "BLOOM"])
def test_many_keys_are_joined_with_those_of_log_files(
    base_path: Path, contexts: list[WriteContext], index_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simple_index, "SHARED_KEY_BYTES", 0)
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
    write(base_path, *FIRST)
    insert_into_logs(base_path, contexts, of_new_group=True)
    with new_client(base_path, {"hoodie.index.type": index_type}) as client:
        result = client.upsert(rows(("n", "x", 30), ("b", "x", 30), ("new", "x", 1)))
    assert (result.inserted_count, result.updated_count) == (1, 2)
    assert [row[0] for row in read_by_hudi_rs(base_path)] == ["a", "b", "c", "n", "new"]


@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_inserts_go_to_logs_only_if_an_option_says_so(base_path: Path) -> None:
    properties = {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"}
    write(base_path, *FIRST, properties=properties)
    before = base_files(base_path)
    with new_client(base_path, properties) as client:
        first = client.upsert(rows(("a", "x", 20), ("d", "x", 20), ("e", "x", 20)))
        second = client.insert(rows(("f", "x", 20), ("g", "y", 20)))
        third = client.upsert(rows(("d", "x", 30), ("f", "x", 5), ("h", "z", 30)))
    counts = [(result.inserted_count, result.updated_count) for result in (first, second, third)]
    assert counts == [(2, 1), (2, 0), (1, 2)]
    # Only the new partition got a base file.
    assert set(base_files(base_path)) - set(before) == {n for n in base_files(base_path) if n.startswith("z/")}
    expected = [(key, "x", 20) for key in "aef"] + [("b", "x", 10), ("c", "y", 10), ("d", "x", 30), ("g", "y", 20)]
    assert read_by_hudi_rs(base_path) == sorted([*expected, ("h", "z", 30)])
    # Another index of hoodie finds the new keys.
    with new_client(base_path, {"hoodie.index.type": "BLOOM"}) as client:
        result = client.upsert(rows(("e", "x", 40), ("f", "x", 40), ("g", "y", 40)))
    assert (result.inserted_count, result.updated_count) == (0, 3)
    assert [row[0] for row in read_by_hudi_rs(base_path)] == list("abcdefgh")


def test_a_small_group_takes_inserts_into_its_log_until_it_is_not_small(base_path: Path) -> None:
    properties = {
        "hoodie.index.type": "INMEMORY",
        "hoodie.index.inmemory.insert.into.logs": "true",
        "hoodie.logfile.to.parquet.compression.ratio": "1000",
        "hoodie.parquet.small.file.limit": "500000",
        "hoodie.parquet.max.file.size": "600000",
    }
    write(base_path, ("a", "x", 10), properties=properties)
    (size,) = [(base_path / name).stat().st_size for name in base_files(base_path)]
    assert size < 500_000
    write(base_path, ("b", "x", 10), properties=properties)
    assert (len(base_files(base_path)), len(files_of(base_path))) == (1, 1)
    # Its log counts a thousand times now.
    write(base_path, ("c", "x", 10), properties=properties)
    assert (len(base_files(base_path)), len(files_of(base_path))) == (2, 1)
    assert read_by_hudi_rs(base_path) == [("a", "x", 10), ("b", "x", 10), ("c", "x", 10)]


def test_bucket_groups_without_a_base_file_are_appended_to(base_path: Path, contexts: list[WriteContext]) -> None:
    properties = {**BUCKET, "hoodie.bucket.index.num.buckets": "1"}
    write(base_path, ("c", "y", 10), properties=properties)
    with new_client(base_path, {**properties, "hoodie.auto.commit": "false"}) as client:
        started = client.start_commit()
        result = client.upsert(rows(("c", "y", 11)), started)
        place = LogPlace("x", f"00000000{NEW_GROUP[8:]}", started, is_of_commit=not place_names_base(contexts))
        with HoodieAppendHandle(contexts[-1], place, TaskIdentity(7, 8, 9)) as handle:
            handle.write(in_flight(("n", "x", 20)))
            status = handle.close()
        client.commit(started, with_status(result, status))
    with new_client(base_path, properties) as client:
        result = client.upsert(rows(("n", "x", 30), ("o", "x", 30)))
        assert [status.file_id for status in result.statuses] == [place.file_id]
        assert read_by_hudi_rs(base_path) == [("c", "y", 11), ("n", "x", 30), ("o", "x", 30)]
        client.delete([HoodieKey("n", "x")])
        assert set(client.insert_overwrite(rows(("p", "x", 1))).partition_to_replace_file_ids["x"]) == {place.file_id}
    assert read_by_hudi_rs(base_path) == [("c", "y", 11), ("p", "x", 1)]


def place_names_base(contexts: list[WriteContext]) -> bool:
    return contexts[-1].table_config.table_version == 6


@pytest.mark.parametrize("properties", [{}, BUCKET], ids=["SIMPLE", "BUCKET"])
def test_an_insert_that_drops_stored_keys_knows_those_that_log_files_delete(
    base_path: Path, properties: dict[str, str]
) -> None:
    write(base_path, *FIRST, properties=properties)
    with new_client(base_path, properties) as client:
        client.delete([HoodieKey("a", "x")])
    with new_client(base_path, {**properties, "hoodie.datasource.insert.dup.policy": "drop"}) as client:
        result = client.insert(rows(("a", "x", 20), ("b", "x", 20), ("d", "y", 1)))
    assert (result.kept_count, [row[0] for row in read_by_hudi_rs(base_path)]) == (1, ["a", "b", "c", "d"])


def test_a_row_that_does_not_fit_is_reported_and_the_others_are_appended(tmp_path: Path, table_version: int) -> None:
    schema = pa.schema([*SCHEMA, pa.field("fare", pa.float64(), nullable=False)])
    base_path = Path(init_table(tmp_path / "e", table_type="MERGE_ON_READ", schema=schema))
    with new_client(base_path, {"hoodie.write.commit.on.errors": "true"}) as client:
        client.upsert(rows(("a", "x", 10, 1.0), ("b", "x", 10, 2.0)))
        result = client.upsert(rows(("a", "x", 20, None), ("b", "x", 20, 2.5)))
        assert (result.error_count, result.updated_count) == (1, 1)
        assert read_trips_by_hudi_rs(base_path) == [("a", "x", 10, 1.0), ("b", "x", 20, 2.5)]
        # A log file without blocks.
        result = client.upsert(rows(("a", "x", 20, None)))
        assert (result.error_count, result.updated_count) == (1, 0)
        assert read_trips_by_hudi_rs(base_path) == [("a", "x", 10, 1.0), ("b", "x", 20, 2.5)]
        client.upsert(rows(("a", "x", 30, 3.0)))
    assert read_trips_by_hudi_rs(base_path) == [("a", "x", 30, 3.0), ("b", "x", 20, 2.5)]


# --- crashes ----------------------------------------------------------------------------------------------------------

SWEPT: dict[str, Callable[[HoodieLocalWriteClient], Any]] = {
    "upsert": lambda client: client.upsert(rows(("a", "x", 20), ("b", "x", 20))),
    "upsert with inserts": lambda client: client.upsert(rows(("a", "x", 20), ("d", "x", 1), ("e", "z", 1))),
    "delete": lambda client: client.delete([HoodieKey("a", "x"), HoodieKey("c", "y")]),
    "upsert into buckets": lambda client: client.upsert(rows(("a", "x", 20), ("d", "x", 1), ("e", "z", 1))),
}


def completed_files(base_path: Path) -> list[Path]:
    return [file for file in state_files(base_path) if file.name.endswith(".deltacommit")]


@pytest.mark.parametrize("operation", SWEPT)
@pytest.mark.parametrize(
    "dies", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["process_dies", "one_call_fails"]
)
@pytest.mark.one_in(4)
def test_a_failure_at_any_call_leaves_all_or_nothing(
    tmp_path: Path, base_path: Path, operation: str, dies: bool, faulty_storage: None
) -> None:
    properties = {**SMALL_FILTERS, **(BUCKET if "bucket" in operation else {})}
    write(base_path, *FIRST, properties=properties)

    def attempt(name: str, faults: Faults) -> tuple[Path, BaseException | None]:
        target = tmp_path / name
        shutil.copytree(base_path, target)
        client = local_client(target, properties, parallelism=1)
        return target, run_with_faults(faults, lambda: SWEPT[operation](client))

    healthy = Faults()
    target, error = attempt("healthy", healthy)
    assert error is None
    before, after = read_by_hudi_rs(base_path), read_by_hudi_rs(target)
    assert before != after
    done = len(completed_files(target))
    outcomes = set()
    for number, how in faults_of(healthy.calls, dies):
        target, error = attempt(f"{number}_{how}", Faults(number, how, dies))
        is_committed = len(completed_files(target)) == done
        found = read_by_hudi_rs(target)
        assert found == (after if is_committed else before), (number, how, healthy.calls[number - 1])
        assert is_committed or error is not None
        outcomes.add(is_committed)
        shutil.rmtree(target)
    assert outcomes == {True, False}
