"""Creating tables, opening them, and asking them."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.avro.schema_converters import record_name, record_namespace, to_avro
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.partition_metadata import (
    ensure_partition_metadata,
    partition_depth,
    read_partition_metadata,
)
from hoodie.common.table.table_meta_client import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import State
from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.merge.payload_rules import MergeMode
from tests.support.change_data import with_change_data
from tests.support.timeline_files import make_state, state_file

T1, T2, T3 = "20261121101500001", "20261121101500002", "20261121101500003"
SCHEMA = pa.schema([("id", pa.int64()), ("region", pa.string()), ("ts", pa.int64())])
WIDER_SCHEMA = SCHEMA.append(pa.field("fare", pa.float64()))


def init(base_path: Path, **arguments: Any) -> HoodieTableMetaClient:
    defaults: dict[str, Any] = {"table_name": "trips", "record_key_fields": "id", "partition_fields": "region"}
    return HoodieTableMetaClient.init_table(str(base_path), **(defaults | arguments))


def avro(schema: pa.Schema, with_meta_columns: bool = False) -> str:
    return to_avro(schema, record_name("trips"), record_namespace("trips"), with_meta_columns)


def commit(
    base_path: Path,
    instant_time: str,
    file_ids: list[str],
    schema: pa.Schema | None = SCHEMA,
    operation: WriteOperationType = WriteOperationType.UPSERT,
    write_rows: bool = True,
    avro_footer: bool = True,
) -> None:
    """Complete an instant with a base file of two rows for each file id, in partition asia."""
    client = HoodieTableMetaClient.load(str(base_path))
    ensure_partition_metadata(client.storage, client.base_path, "asia", instant_time)
    stats = []
    columns = schema if schema is not None else SCHEMA
    for file_id in file_ids:
        name = make_base_file_name(file_id, "0-0-0", instant_time)
        path = base_path / "asia" / name
        if write_rows:
            full = pa.schema([*(pa.field(meta, pa.string()) for meta in META_COLUMNS), *columns])
            metadata = {"parquet.avro.schema": avro(columns, True)} if avro_footer else {}
            with pq.ParquetWriter(path, full, store_schema=False) as writer:
                writer.write_table(pa.table([pa.nulls(2, field.type) for field in full], schema=full))
                writer.add_key_value_metadata(metadata)
        else:
            path.write_bytes(b"PAR1 cut short")
        size = path.stat().st_size
        stats.append(
            HoodieWriteStat(
                file_id,
                "asia",
                f"asia/{name}",
                num_writes=2,
                num_inserts=2,
                total_write_bytes=size,
                file_size_bytes=size,
            )
        )
    extra = {"schema": avro(schema)} if schema is not None else {}
    content = client.active_timeline.layout.encode(HoodieCommitMetadata({"asia": tuple(stats)}, extra, operation))
    make_state(base_path, instant_time, "commit", State.COMPLETED, content)


def test_a_new_table_has_the_folders_and_properties_that_hudi_makes(tmp_path: Path, table_version: int) -> None:
    client = init(tmp_path / "trips", ordering_fields="ts", schema=SCHEMA)
    folders = sorted(
        str(path.relative_to(tmp_path / "trips")) for path in (tmp_path / "trips").rglob("*") if path.is_dir()
    )
    assert folders == [
        ".hoodie",
        ".hoodie/.aux",
        ".hoodie/.aux/.bootstrap",
        ".hoodie/.aux/.bootstrap/.fileids",
        ".hoodie/.aux/.bootstrap/.partitions",
        ".hoodie/.schema",
        ".hoodie/.temp",
        *([".hoodie/timeline", ".hoodie/timeline/history"] if table_version >= 8 else [".hoodie/archived"]),
    ]
    assert [path.name for path in (tmp_path / "trips").rglob("*") if path.is_file()] == ["hoodie.properties"]
    config = client.table_config
    assert (config.table_name, config.table_type, config.table_version) == ("trips", "COPY_ON_WRITE", table_version)
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == (
        ("id",),
        ("region",),
        ("ts",),
    )
    if table_version == 9:
        assert (config.payload_class, config.merge_mode) == (None, MergeMode.EVENT_TIME_ORDERING)
    else:
        assert config.payload_class == "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    assert "hoodie.table.checksum=" in (tmp_path / "trips/.hoodie/hoodie.properties").read_text()
    assert client.base_path == str(tmp_path / "trips")
    assert client.meta_path == str(tmp_path / "trips" / ".hoodie")
    assert client.marker_path(T1) == f"{client.meta_path}/.temp/{T1}"
    assert client.heartbeat_path(T1) == f"{client.meta_path}/.heartbeat/{T1}"
    assert repr(client) == f"HoodieTableMetaClient('{tmp_path}/trips', table_name='trips')"


def test_a_new_table_is_empty_and_knows_its_schema(tmp_path: Path) -> None:
    client = init(tmp_path, schema=SCHEMA)
    assert len(client.active_timeline) == len(client.archived_timeline) == 0
    assert list(client.history()) == list(client.files()) == list(client.partitions()) == []
    assert client.view().list_partitions() == []
    assert client.load_schema() == SCHEMA
    assert client.load_avro_schema() == avro(SCHEMA)


def test_a_table_in_memory_is_created_and_opened() -> None:
    path = "memory://meta-client-test/trips"
    client = HoodieTableMetaClient.init_table(path, table_name="trips", record_key_fields="id")
    assert client.base_path == path
    assert HoodieTableMetaClient.load(path).table_config.table_name == "trips"


def test_a_folder_that_is_a_table_is_not_created_again(tmp_path: Path) -> None:
    init(tmp_path)
    before = (tmp_path / ".hoodie/hoodie.properties").read_bytes()
    with pytest.raises(TableExistsException, match=rf"is a Hudi table at {tmp_path}.*HoodieTableMetaClient\.load"):
        init(tmp_path, table_name="other")
    (tmp_path / ".hoodie/hoodie.properties").rename(tmp_path / ".hoodie/hoodie.properties.backup")
    with pytest.raises(TableExistsException):
        init(tmp_path, table_name="other")
    assert (tmp_path / ".hoodie/hoodie.properties.backup").read_bytes() == before


def test_what_a_failed_try_left_behind_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".hoodie/.aux/.bootstrap").mkdir(parents=True)
    (tmp_path / "_notes.txt").write_text("mine")
    assert init(tmp_path).table_config.table_name == "trips"
    assert (tmp_path / "_notes.txt").read_text() == "mine"


def test_nothing_is_created_when_an_argument_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match=r"table_type.*record_key_fields"):
        init(tmp_path / "t", table_type="x", record_key_fields=[])
    with pytest.raises(HoodieNotSupportedException, match="table_version 7"):
        init(tmp_path / "t", table_version=7)
    with pytest.raises(HoodieNotSupportedException, match=r"metafile\.use\.base\.format"):
        init(tmp_path / "t", properties={"hoodie.partition.metafile.use.base.format": "true"})
    with pytest.raises(HoodieConfigException, match=r"cdc\.enabled is 'on': give true or false"):
        init(tmp_path / "t", properties={"hoodie.table.cdc.enabled": "on"})
    with pytest.raises(HoodieConfigException, match="logging.mode=ALL is no mode of change data"):
        init(tmp_path / "t", properties={**with_change_data(), "hoodie.table.cdc.supplemental.logging.mode": "all"})
    assert list(tmp_path.iterdir()) == []


def create_or_lose(base_path: str, barrier: Any, results: Any) -> None:
    barrier.wait()
    try:
        init(Path(base_path))
        results.put("created")
    except TableExistsException:
        results.put("exists")


def test_of_two_processes_that_create_a_table_one_is_told_that_it_exists(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(2), context.Queue()
    processes = [context.Process(target=create_or_lose, args=(str(tmp_path / "t"), barrier, results)) for _ in range(2)]
    for process in processes:
        process.start()
    assert sorted(results.get(timeout=300) for _ in processes) == ["created", "exists"]
    for process in processes:
        process.join()
    assert HoodieTableMetaClient.load(str(tmp_path / "t")).table_config.table_name == "trips"


@pytest.mark.parametrize("name", ["nothing", "nothing/*/*", "folder"])
def test_a_path_without_a_table_is_named_with_what_to_do(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder" / ".hoodie").mkdir(parents=True)
    with pytest.raises(TableNotFoundException) as raised:
        HoodieTableMetaClient.load(str(tmp_path / name))
    assert f"{tmp_path}/{name}" in str(raised.value)
    assert "init_table" in str(raised.value)
    assert isinstance(raised.value, FileNotFoundError)


@pytest.mark.parametrize("suffix", ["/*", "/*/*/*/*", "/**", "/*/*.parquet", "/"])
def test_a_base_path_with_globs_finds_the_table(tmp_path: Path, suffix: str) -> None:
    init(tmp_path / "trips")
    assert HoodieTableMetaClient.load(f"{tmp_path}/trips{suffix}").base_path == str(tmp_path / "trips")
    assert HoodieTableMetaClient.load(f"file://{tmp_path}/trips{suffix}").base_path == str(tmp_path / "trips")


@pytest.mark.parametrize("suffix", ["/{a,b}/*", "/[0-9]*", "/2*/x", "/*/x", "/*/2026*/*", "/?", "/a*.parquet"])
def test_globs_that_name_some_partitions_are_refused(tmp_path: Path, suffix: str) -> None:
    init(tmp_path / "trips")
    with pytest.raises(HoodieNotSupportedException, match=f"^{re.escape(f'{tmp_path}/trips{suffix}')} names some of"):
        HoodieTableMetaClient.load(f"{tmp_path}/trips{suffix}")


def test_a_base_path_that_holds_glob_characters_itself_is_taken_literally(tmp_path: Path) -> None:
    init(tmp_path, table_name="outer")
    init(tmp_path / "a[b]*", table_name="inner")
    assert HoodieTableMetaClient.load(str(tmp_path / "a[b]*")).table_config.table_name == "inner"


@pytest.mark.parametrize("version", ["5", "7", "10"])
def test_a_table_of_another_version_is_refused_by_name(tmp_path: Path, version: str, table_version: int) -> None:
    init(tmp_path)
    path = tmp_path / ".hoodie/hoodie.properties"
    path.write_text(path.read_text().replace(f"table.version={table_version}", f"table.version={version}"))
    with pytest.raises(HoodieNotSupportedException, match=r"hoodie\.table\.version"):
        HoodieTableMetaClient.load(str(tmp_path))


def test_a_reload_sees_what_others_did(tmp_path: Path) -> None:
    client = init(tmp_path)
    commit(tmp_path, T1, ["f"])
    assert len(client.active_timeline) == 0
    assert client.reload_active_timeline() is client.active_timeline
    assert [instant.requested_time for instant in client.active_timeline] == [T1]
    path = tmp_path / ".hoodie/hoodie.properties"
    partitions = "hoodie.table.metadata.partitions=files"
    path.write_text(path.read_text() + partitions + "\n")
    assert client.table_config.metadata_partitions == ()
    assert client.reload_table_config() is client.table_config
    assert client.table_config.metadata_partitions == ("files",)


def test_the_schema_is_that_of_the_newest_commit_which_can_change_it(tmp_path: Path) -> None:
    client = init(tmp_path, schema=SCHEMA.remove(2))
    commit(tmp_path, T1, ["f"], SCHEMA)
    commit(tmp_path, T2, ["f"], WIDER_SCHEMA)
    commit(tmp_path, T3, ["f"], SCHEMA, WriteOperationType.CLUSTER)
    client.reload_active_timeline()
    assert client.load_schema() == WIDER_SCHEMA
    assert client.load_avro_schema() == avro(WIDER_SCHEMA)


@pytest.mark.parametrize("avro_footer", [True, False])
def test_a_table_whose_commits_tell_no_schema_has_that_of_its_newest_file(tmp_path: Path, avro_footer: bool) -> None:
    client = init(tmp_path, schema=WIDER_SCHEMA)
    commit(tmp_path, T1, ["f"], None, avro_footer=avro_footer)
    client.reload_active_timeline()
    assert client.load_schema() == SCHEMA
    assert client.load_avro_schema() == avro(SCHEMA)


def test_a_file_is_found_for_the_schema_when_the_timeline_names_none_that_is_left(tmp_path: Path) -> None:
    client = init(tmp_path)
    commit(tmp_path, T1, ["f"], None)
    commit(tmp_path, T2, ["g"], None)
    state_file(tmp_path, T1).unlink()
    (tmp_path / "asia" / make_base_file_name("g", "0-0-0", T2)).unlink()
    client.reload_active_timeline()
    assert client.load_schema() == SCHEMA


def test_a_table_without_any_schema_says_so(tmp_path: Path) -> None:
    client = init(tmp_path)
    assert client.load_avro_schema() is None
    with pytest.raises(HoodieSchemaException, match=f"{tmp_path} has no schema yet"):
        client.load_schema()


def test_a_file_cut_short_that_is_asked_for_the_schema_is_named(tmp_path: Path) -> None:
    client = init(tmp_path)
    commit(tmp_path, T1, ["f"], None, write_rows=False)
    client.reload_active_timeline()
    with pytest.raises(HoodieCorruptedDataException, match=make_base_file_name("f", "0-0-0", T1)):
        client.load_schema()


def test_history_files_and_partitions_tell_what_was_written(tmp_path: Path) -> None:
    client = init(tmp_path)
    commit(tmp_path, T1, ["f", "g"])
    commit(tmp_path, T2, ["f"])
    make_state(tmp_path, T3, "commit", State.REQUESTED)
    ensure_partition_metadata(client.storage, client.base_path, "europe", T1)
    client.reload_active_timeline()
    history = client.history()
    assert [(row.instant_time, row.action, row.state, row.operation) for row in history] == [
        (T1, "commit", "COMPLETED", "UPSERT"),
        (T2, "commit", "COMPLETED", "UPSERT"),
        (T3, "commit", "REQUESTED", None),
    ]
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "asia").glob("*.parquet")}
    f1, g1, f2 = (make_base_file_name(*parts) for parts in (("f", "0-0-0", T1), ("g", "0-0-0", T1), ("f", "0-0-0", T2)))
    assert (history[0].files_written, history[0].rows_inserted, history[0].bytes_written) == (
        2,
        4,
        sizes[f1] + sizes[g1],
    )
    assert [(row.partition_path, row.file_id, row.file_name, row.size_bytes) for row in client.files()] == [
        ("asia", "f", f2, sizes[f2]),
        ("asia", "g", g1, sizes[g1]),
    ]
    asia, europe = client.partitions()
    assert (asia.partition_path, asia.file_group_count, asia.newest_instant_time) == ("asia", 2, T2)
    assert asia.size_bytes == sizes[f2] + sizes[g1]
    assert (europe.partition_path, europe.file_group_count, europe.newest_instant_time) == ("europe", 0, None)
    assert T1 in repr(history)
    assert "<td>asia</td>" in client.files()._repr_html_()


def test_history_files_and_partitions_are_data(tmp_path: Path) -> None:
    client = init(tmp_path)
    commit(tmp_path, T1, ["f", "g"])
    make_state(tmp_path, T3, "commit", State.REQUESTED)
    client.reload_active_timeline()
    for table in (client.history(), client.files(), client.partitions()):
        rows = table.to_arrow()
        assert rows.to_pylist() == [attrs.asdict(row) for row in table]
        frame = table.to_pandas()
        assert list(frame.columns) == list(table.column_names) == rows.column_names
        assert len(frame) == len(table) > 0
    history = client.history()
    assert history.to_arrow()["rows_inserted"].to_pylist() == [4, None]
    assert history.to_pandas()["rows_inserted"].dtype == "Int64"
    assert [row.instant_time for row in history if row.rows_inserted] == [T1]


def test_tables_without_rows_have_the_types_of_others(tmp_path: Path) -> None:
    client = init(tmp_path)
    for empty, full in ((client.history(), "history"), (client.files(), "files"), (client.partitions(), "partitions")):
        schema = empty.to_arrow().schema
        assert (len(empty), set(schema.types)) == (0, {pa.string(), pa.int64()})
        assert list(empty.to_pandas().columns) == schema.names
        commit(tmp_path, T1, ["f"])
        client.reload_active_timeline()
        assert getattr(client, full)().to_arrow().schema == schema


def test_pandas_that_is_not_there_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HoodieException, match="pip install pandas, or take to_arrow"):
        init(tmp_path).history().to_pandas()


def version_6_tables(shared_tables: Path) -> list[Path]:
    """The base paths of all tables of version 6 that real Hudi wrote; metadata tables are not among them."""
    found = []
    for properties in sorted(shared_tables.rglob("hoodie.properties")):
        base_path = properties.parent.parent
        if ".hoodie" not in base_path.parts and "hoodie.table.version=6" in properties.read_text("latin-1").split():
            found.append(base_path)
    assert len(found) >= 20
    return found


def test_files_of_tables_of_real_hudi_are_those_that_hudi_rs_finds(shared_tables: Path) -> None:
    hudi = pytest.importorskip("hudi")
    for base_path in version_6_tables(shared_tables):
        client = HoodieTableMetaClient.load(str(base_path))
        view = client.view()
        found = {
            (
                partition_path,
                file_slice.file_id,
                file_slice.base_instant_time,
                file_slice.base_file.file_name if file_slice.base_file is not None else None,
                tuple(file.file_name for file in file_slice.log_files),
            )
            for partition_path in view.list_partitions()
            for file_slice in view.latest_file_slices(partition_path)
        }
        expected = {
            (
                file_slice.partition_path,
                file_slice.file_id,
                file_slice.creation_instant_time,
                file_slice.base_file_name or None,
                tuple(file_slice.log_file_names),
            )
            for file_slice in hudi.HudiTableBuilder.from_base_uri(str(base_path)).build().get_file_slices()
        }
        assert found == expected, base_path
        assert {row.file_id for row in client.files()} == {row[1] for row in expected}


def test_rows_of_copy_on_write_tables_of_real_hudi_are_those_that_hudi_rs_reads(shared_tables: Path) -> None:
    hudi = pytest.importorskip("hudi")
    checked = 0
    for base_path in version_6_tables(shared_tables):
        client = HoodieTableMetaClient.load(str(base_path))
        if client.table_config.table_type != "COPY_ON_WRITE":
            continue
        view = client.view()
        rows = sum(
            pq.read_metadata(file.path).num_rows
            for partition_path in view.list_partitions()
            for file in view.latest_base_files(partition_path)
        )
        batches = hudi.HudiTableBuilder.from_base_uri(str(base_path)).build().read()
        assert rows == sum(batch.num_rows for batch in batches), base_path
        checked += 1
    assert checked >= 6


def test_partitions_of_tables_of_real_hudi_are_those_that_their_commits_name(shared_tables: Path) -> None:
    for base_path in version_6_tables(shared_tables):
        client = HoodieTableMetaClient.load(str(base_path))
        named = {
            partition_path
            for instant in client.active_timeline.commits_timeline().filter_completed_instants()
            for partition_path in client.active_timeline.read_commit_metadata(instant).partition_to_write_stats
        }
        partitions = [row.partition_path for row in client.partitions()]
        assert named <= set(partitions), base_path
        assert bool(client.table_config.partition_fields) == (partitions not in ([""], [])) or not named
        depths = {
            metadata.partition_depth
            for partition_path in partitions
            if (metadata := read_partition_metadata(client.storage, client.base_path, partition_path)) is not None
        }
        assert depths == {partition_depth(partition_path) for partition_path in partitions}, base_path


def test_schemas_of_tables_of_real_hudi_name_the_columns_that_hudi_rs_names(shared_tables: Path) -> None:
    hudi = pytest.importorskip("hudi")
    for base_path in version_6_tables(shared_tables):
        client = HoodieTableMetaClient.load(str(base_path))
        expected = hudi.HudiTableBuilder.from_base_uri(str(base_path)).build().get_schema()
        assert client.load_schema().names == expected.names, base_path
        assert client.load_avro_schema() is not None


def test_histories_of_tables_of_real_hudi_count_what_was_written(shared_tables: Path) -> None:
    for base_path in version_6_tables(shared_tables):
        history = HoodieTableMetaClient.load(str(base_path)).history()
        writes = [row for row in history if row.operation in ("INSERT", "UPSERT", "BULK_INSERT")]
        assert all(row.files_written is not None for row in writes), base_path
        assert [row.instant_time for row in history] == sorted(row.instant_time for row in history)
        assert len(repr(history).splitlines()) == len(history) + 2


def test_new_instants_of_a_table_follow_its_archive(shared_tables: Path) -> None:
    client = HoodieTableMetaClient.load(str(shared_tables / "hudi-v6-table-mor" / "hudi-v6-table-mor"))
    archived = client.archived_timeline
    assert client.archived_timeline is archived
    assert archived.last_instant is not None
    newest = client.active_timeline.newest_archived_time
    assert newest() == newest() == archived.last_instant.requested_time
    client.reload_active_timeline()
    assert client.archived_timeline is not archived
    assert client.active_timeline.timezone == client.table_config.timeline_timezone


def test_an_orphan_beside_the_files_of_real_hudi_is_not_seen(shared_tables: Path, tmp_path: Path) -> None:
    source = shared_tables / "sample_table-cow-v6_nonpartitioned"
    base_path = Path(shutil.copytree(source, tmp_path / "copy")) / "v6_nonpartitioned"
    before = list(HoodieTableMetaClient.load(str(base_path)).files())
    assert before
    last = before[0].instant_time
    newer = f"{int(last) + 1:0{len(last)}}"
    for instant_time in (newer, f"{int(last) - 1:0{len(last)}}"):
        for file_id in ("orphan", before[0].file_id):
            (base_path / make_base_file_name(file_id, "9-9-9", instant_time)).write_bytes(b"")
    (base_path / ".hoodie" / f"{newer}.inflight").write_bytes(b"")
    (base_path / ".hoodie" / f"{newer}.commit.requested").write_bytes(b"")
    (base_path / "_SUCCESS").write_bytes(b"")
    hidden = [row for row in HoodieTableMetaClient.load(str(base_path)).files() if row.file_id != "orphan"]
    assert hidden == before
