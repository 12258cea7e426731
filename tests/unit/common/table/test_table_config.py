from __future__ import annotations

import errno
import multiprocessing
import multiprocessing.synchronize
import pickle
import threading
import zlib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from hoodie.common.config.java_properties import format_properties, parse_properties
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.exception import (
    HoodieCommitException,
    HoodieException,
    HoodieIOException,
    HoodieNotSupportedException,
    InvalidTableException,
    TableExistsException,
    TableNotFoundException,
)
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import Call, losing_answers, storage_with

MINIMAL = {
    "hoodie.table.name": "trips",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.timeline.layout.version": "1",
}


@pytest.fixture
def storage(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.fixture
def main_file(tmp_path: Path) -> Path:
    (tmp_path / ".hoodie").mkdir()
    return tmp_path / ".hoodie" / "hoodie.properties"


@pytest.fixture
def backup_file(main_file: Path) -> Path:
    return main_file.with_name("hoodie.properties.backup")


def content(**properties: str) -> bytes:
    stored = MINIMAL | {f"hoodie.{key.replace('_', '.')}": value for key, value in properties.items()}
    database = stored.get("hoodie.database.name", "")
    return format_properties(stored | {"hoodie.table.checksum": str(zlib.crc32(f"{database}.trips".encode()))})


def load(storage: LocalStorage) -> HoodieTableConfig:
    return HoodieTableConfig.load(storage, storage.base_path)


# --- loading ----------------------------------------------------------------------------------------------------------


def test_what_was_created_is_loaded(storage: LocalStorage, tmp_path: Path) -> None:
    schema = '{"type":"record","name":"r","fields":[{"name":"caf\u00e9","type":"int"}]}'
    created = HoodieTableConfig.create(storage, str(tmp_path), MINIMAL | {"hoodie.table.create.schema": schema})
    assert load(storage) == created
    assert created.create_schema == schema
    lines = (tmp_path / ".hoodie/hoodie.properties").read_text("ascii").splitlines()
    assert lines[0].startswith("#Updated at 20") and lines[1].startswith("#")
    assert lines[-1] == f"hoodie.table.checksum={zlib.crc32(b'.trips')}"


def test_the_checksum_covers_database_and_name(storage: LocalStorage, tmp_path: Path) -> None:
    named = {"hoodie.database.name": "default", "hoodie.table.name": "v6_complexkeygen_hivestyle"}
    created = HoodieTableConfig.create(storage, str(tmp_path), MINIMAL | named)
    assert created.properties["hoodie.table.checksum"] == "281415413"


def test_every_real_table_loads_and_its_file_is_written_again_alike(shared_tables: Path) -> None:
    files = sorted(shared_tables.rglob(".hoodie/hoodie.properties"))
    assert len(files) > 20
    for file in files:
        base_path = str(file.parent.parent)
        config = HoodieTableConfig.load(LocalStorage(base_path), base_path)
        assert parse_properties(config.to_bytes()) == dict(config.properties)
        java_lines = {line for line in file.read_text("latin-1").splitlines() if not line.startswith("#")}
        our_lines = {line for line in config.to_bytes().decode("latin-1").splitlines() if not line.startswith("#")}
        assert our_lines == java_lines


def test_a_missing_table_is_named(storage: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match=str(tmp_path)):
        load(storage)


def test_an_old_file_without_checksum_loads(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(format_properties(MINIMAL | {"hoodie.table.version": "3"}))
    assert load(storage).table_name == "trips"


@pytest.mark.parametrize(
    "main", [None, b"", b"hoodie.table.na", format_properties(MINIMAL), b"hoodie.table.name=x\\u1"]
)
def test_a_reader_in_the_middle_of_a_java_update_takes_the_backup(
    storage: LocalStorage, main_file: Path, backup_file: Path, main: bytes | None
) -> None:
    backup_file.write_bytes(content(database_name="db"))
    if main is not None:
        main_file.write_bytes(main)
    assert load(storage).database_name == "db"
    assert main_file.exists() is (main is not None), "a reader changes nothing"


def test_a_good_file_is_taken_before_the_backup(storage: LocalStorage, main_file: Path, backup_file: Path) -> None:
    main_file.write_bytes(content(database_name="new"))
    backup_file.write_bytes(content(database_name="old"))
    assert load(storage).database_name == "new"


@pytest.mark.parametrize(
    ("damaged", "problem"),
    [
        (b"", "empty"),
        (b"hoodie.table.type=COPY_ON_WRITE", "hoodie.table.name is missing"),
        (b"hoodie.table.name=x\nhoodie.table.checksum=17", "hoodie.table.checksum is 17"),
        (b"hoodie.table.name=\\u12", "hexadecimal"),
        (format_properties(MINIMAL), "hoodie.table.checksum is missing"),
    ],
)
def test_a_damaged_file_without_backup_is_named(
    storage: LocalStorage, main_file: Path, damaged: bytes, problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.common.table.table_config._SECONDS_BETWEEN_ATTEMPTS", 0)
    main_file.write_bytes(damaged)
    with pytest.raises(InvalidTableException, match=f"{main_file}.*{problem}"):
        load(storage)


def test_a_reader_that_misses_both_files_in_turn_looks_again(
    tmp_path: Path, storage: LocalStorage, backup_file: Path
) -> None:
    def replace_after_reading(call: Call) -> Any:
        """A writer gives the file back just after a reader missed it, and deletes the backup before it looks there."""
        try:
            return call.apply()
        finally:
            if call.name == "read" and call.path.endswith("hoodie.properties"):
                storage.replace(call.path, content(database_name="new"))
                storage.delete_file(f"{call.path}.backup")

    backup_file.write_bytes(content())
    assert load(storage_with(tmp_path, replace_after_reading)).database_name == "new"


def test_reading_goes_on_while_a_java_writer_replaces_the_file(storage: LocalStorage, main_file: Path) -> None:
    backup_file = main_file.with_name("hoodie.properties.backup")
    main_file.write_bytes(content(database_name="0"))
    stop = threading.Event()

    def update_as_java_does() -> None:
        number = 0
        while not stop.is_set():
            number += 1
            backup_file.write_bytes(main_file.read_bytes())
            main_file.unlink()
            main_file.write_bytes(content(database_name=str(number)))
            backup_file.unlink()

    writer = threading.Thread(target=update_as_java_does)
    writer.start()
    try:
        for _ in range(300):
            assert load(storage).table_name == "trips"
    finally:
        stop.set()
        writer.join()


# --- creating ---------------------------------------------------------------------------------------------------------


def test_a_table_is_created_once(storage: LocalStorage, tmp_path: Path) -> None:
    HoodieTableConfig.create(storage, str(tmp_path), MINIMAL)
    with pytest.raises(TableExistsException, match=str(tmp_path)):
        HoodieTableConfig.create(storage, str(tmp_path), MINIMAL | {"hoodie.table.name": "other"})
    assert load(storage).table_name == "trips"


def test_a_table_whose_properties_are_being_replaced_exists(storage: LocalStorage, backup_file: Path) -> None:
    backup_file.write_bytes(content())
    with pytest.raises(TableExistsException):
        HoodieTableConfig.create(storage, storage.base_path, MINIMAL)


def test_a_table_has_a_name(storage: LocalStorage, tmp_path: Path) -> None:
    with pytest.raises(InvalidTableException, match=r"hoodie\.table\.name"):
        HoodieTableConfig.create(storage, str(tmp_path), {"hoodie.table.type": "COPY_ON_WRITE"})


def _create(base_path: str, number: int, start: multiprocessing.synchronize.Event, answers: Any) -> None:
    start.wait()
    try:
        HoodieTableConfig.create(LocalStorage(base_path), base_path, MINIMAL | {"hoodie.table.name": f"t{number}"})
        answers.put(f"t{number}")
    except TableExistsException:
        answers.put(None)


def test_of_two_processes_one_creates_the_table(storage: LocalStorage, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    start, answers = context.Event(), context.Queue()
    processes = [context.Process(target=_create, args=(str(tmp_path), number, start, answers)) for number in range(2)]
    for process in processes:
        process.start()
    start.set()
    results = [answers.get(timeout=300) for _ in processes]
    for process in processes:
        process.join()
    winners = [name for name in results if name is not None]
    assert winners == [load(storage).table_name]


# --- updating ---------------------------------------------------------------------------------------------------------


def test_properties_are_set_and_removed_and_the_others_kept(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(content(database_name="db", table_metadata_partitions="files", odd_key="x"))
    (main_file.parent / ".hoodie.properties.crc").write_bytes(b"stale")
    updated = HoodieTableConfig.update(
        storage, storage.base_path, {"hoodie.table.metadata.partitions": ""}, ["hoodie.odd.key", "not.there"]
    )
    assert updated == load(storage)
    assert updated.metadata_partitions == ()
    assert "hoodie.odd.key" not in updated.properties
    assert updated.database_name == "db"
    assert sorted(file.name for file in main_file.parent.iterdir()) == ["hoodie.properties"]


def test_a_new_name_gets_a_new_checksum(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(content())
    HoodieTableConfig.update(storage, storage.base_path, {"hoodie.database.name": "other"})
    assert load(storage).properties["hoodie.table.checksum"] == str(zlib.crc32(b"other.trips"))


@pytest.mark.parametrize("main", [None, b"", b"hoodie.table.name=tr"])
def test_an_update_repairs_what_a_dead_writer_left(
    storage: LocalStorage, main_file: Path, backup_file: Path, main: bytes | None
) -> None:
    backup_file.write_bytes(content(database_name="db"))
    if main is not None:
        main_file.write_bytes(main)
    HoodieTableConfig.update(storage, storage.base_path, {"hoodie.x": "1"})
    assert load(storage).properties["hoodie.x"] == "1"
    assert load(storage).database_name == "db"
    assert not backup_file.exists()


def test_an_update_that_changes_nothing_leaves_the_file_alone(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(content(database_name="db"))
    before = main_file.read_bytes(), main_file.stat().st_ino
    HoodieTableConfig.update(storage, storage.base_path, {"hoodie.database.name": "db"})
    assert (main_file.read_bytes(), main_file.stat().st_ino) == before


def test_an_update_whose_answer_was_lost_tells_the_truth(tmp_path: Path, main_file: Path) -> None:
    main_file.write_bytes(content())
    with pytest.raises(HoodieIOException):
        HoodieTableConfig.update(losing_answers(tmp_path, is_applied=False), str(tmp_path), {"a": "1"})
    assert main_file.read_bytes() == content()
    HoodieTableConfig.update(losing_answers(tmp_path, is_applied=True), str(tmp_path), {"a": "1"})
    assert load(LocalStorage(str(tmp_path))).properties["a"] == "1"


def test_readers_never_miss_the_file_while_it_is_updated(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(content(n="0"))
    stop = threading.Event()

    def read(_: int) -> int:
        seen = 0
        while not stop.is_set():
            parse_properties(main_file.read_bytes())["hoodie.table.checksum"]
            seen += 1
        return seen

    with ThreadPoolExecutor(2) as pool:
        readers = pool.map(read, range(2))
        for number in range(50):
            HoodieTableConfig.update(storage, storage.base_path, {"hoodie.n": str(number)})
        stop.set()
        assert all(readers)


# --- typed ------------------------------------------------------------------------------------------------------------


def test_absent_properties_have_hudis_defaults() -> None:
    config = HoodieTableConfig({"hoodie.table.name": "t"})
    assert config.table_type is HoodieTableType.COPY_ON_WRITE
    assert (config.table_version, config.timeline_layout_version) == (0, 0)
    assert (config.record_key_fields, config.partition_fields, config.ordering_fields) == ((), (), ())
    assert (config.key_generator_class, config.payload_class, config.create_schema) == (None, None, None)
    assert (config.hive_style_partitioning, config.url_encode_partitioning) == (False, False)
    assert (config.populate_meta_fields, config.partition_metafile_use_base_format) == (True, False)
    assert (config.timeline_timezone, config.archive_folder) == ("LOCAL", "archived")
    assert (config.metadata_partitions, config.metadata_partitions_inflight) == ((), ())
    assert config.database_name == ""


def test_lists_and_flags_are_parsed() -> None:
    config = HoodieTableConfig(
        {
            "hoodie.table.recordkey.fields": "a, b.c,",
            "hoodie.table.partition.fields": "",
            "hoodie.table.precombine.field": "ts",
            "hoodie.datasource.write.hive_style_partitioning": "TRUE",
            "hoodie.populate.meta.fields": "false",
            "hoodie.table.timeline.timezone": "utc",
            "hoodie.table.metadata.partitions": "column_stats,files",
        }
    )
    assert config.record_key_fields == ("a", "b.c")
    assert config.partition_fields == ()
    assert config.ordering_fields == ("ts",)
    assert config.hive_style_partitioning and not config.populate_meta_fields
    assert config.timeline_timezone == "UTC"
    assert config.metadata_partitions == ("column_stats", "files")


@pytest.mark.parametrize(
    ("key", "value", "read"),
    [
        ("hoodie.table.version", "six", lambda config: config.table_version),
        ("hoodie.populate.meta.fields", "yes", lambda config: config.populate_meta_fields),
        ("hoodie.table.type", "COPY_ON_READ", lambda config: config.table_type),
    ],
)
def test_a_value_that_does_not_parse_is_named(
    key: str, value: str, read: Callable[[HoodieTableConfig], object]
) -> None:
    with pytest.raises(InvalidTableException, match=f"{key}={value}"):
        read(HoodieTableConfig({"hoodie.table.name": "t", key: value}))


def test_a_config_crosses_to_tasks_and_does_not_follow_its_source() -> None:
    source = dict(MINIMAL)
    config = HoodieTableConfig(source)
    source["hoodie.table.name"] = "other"
    assert config.table_name == "trips"
    assert pickle.loads(pickle.dumps(config)) == config


# --- features ---------------------------------------------------------------------------------------------------------


def refused(check: Callable[[], None]) -> str:
    try:
        check()
    except HoodieNotSupportedException as error:
        return str(error)
    except HoodieException as error:  # pragma: no cover
        pytest.fail(f"wrong error {error!r}")
    return ""


def test_a_minimal_table_is_read_and_written() -> None:
    config = HoodieTableConfig(MINIMAL)
    config.check_readable()
    config.check_writable()


@pytest.mark.parametrize(
    ("key", "value", "is_readable"),
    [
        ("hoodie.table.version", "7", False),
        ("hoodie.table.version", "10", False),
        ("hoodie.table.version", "5", False),
        ("hoodie.table.version", "", False),
        ("hoodie.timeline.layout.version", "2", False),
        ("hoodie.table.base.file.format", "ORC", False),
        ("hoodie.table.base.file.format", "HFILE", False),
        ("hoodie.table.multiple.base.file.formats.enable", "true", False),
        ("hoodie.bootstrap.base.path", "/old", False),
        ("hoodie.datasource.write.drop.partition.columns", "true", False),
        ("hoodie.table.timeline.timezone", "Asia/Tokyo", False),
        ("hoodie.table.storage.layout", "lsm_tree", False),
        ("hoodie.table.format", "iceberg", False),
        ("hoodie.table.cdc.enabled", "perhaps", True),
        ("hoodie.table.cdc.supplemental.logging.mode", "all", True),
        ("hoodie.partition.metafile.use.base.format", "true", True),
        ("hoodie.table.keygenerator.class", "org.apache.hudi.keygen.GlobalDeleteKeyGenerator", True),
        ("hoodie.table.keygenerator.type", "USER_PROVIDED", True),
        ("hoodie.compaction.payload.class", "org.apache.hudi.common.model.HoodieAvroPayload", True),
        ("hoodie.compaction.payload.type", "HOODIE_METADATA", True),
        ("hoodie.compaction.record.merger.strategy", "11111111-2222-3333-4444-555555555555", True),
        ("hoodie.record.merge.mode", "CUSTOM", True),
        ("hoodie.table.precombine.field", "a,b", True),
        ("hoodie.table.ordering.fields", "a,b", True),
        ("hoodie.table.partial.update.mode", "IGNORE_DEFAULTS", True),
        ("hoodie.record.merge.property.something.else", "op", True),
        ("hoodie.table.some.future.feature", "on", True),
        ("hoodie.something.else", "on", True),
    ],
)
def test_what_a_write_would_break_is_refused_by_name(key: str, value: str, is_readable: bool) -> None:
    config = HoodieTableConfig(MINIMAL | {key: value})
    message = refused(config.check_writable)
    assert f"{key}={value} (" in message and "'trips'" in message
    assert (refused(config.check_readable) == "") is is_readable


def test_a_table_without_a_version_is_refused() -> None:
    config = HoodieTableConfig({"hoodie.table.name": "t"})
    assert "hoodie.table.version=(absent)" in refused(config.check_readable)


def test_all_problems_are_named_at_once_but_of_another_version_only_the_version() -> None:
    two = {"hoodie.partition.metafile.use.base.format": "true", "hoodie.table.x": "y"}
    message = refused(HoodieTableConfig(MINIMAL | two).check_writable)
    assert "hoodie.partition.metafile.use.base.format=true" in message and "hoodie.table.x=y" in message
    assert "hoodie.table.x" not in refused(
        HoodieTableConfig(MINIMAL | two | {"hoodie.table.version": "10"}).check_writable
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *[
            ("hoodie.table.keygenerator.class", f"org.apache.hudi.keygen.{name}")
            for name in (
                "SimpleKeyGenerator",
                "SimpleAvroKeyGenerator",
                "ComplexKeyGenerator",
                "ComplexAvroKeyGenerator",
                "NonpartitionedKeyGenerator",
                "NonpartitionedAvroKeyGenerator",
            )
        ],
        ("hoodie.compaction.payload.class", "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"),
        ("hoodie.compaction.payload.class", "org.apache.hudi.common.model.DefaultHoodieRecordPayload"),
        ("hoodie.compaction.record.merger.strategy", "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"),
        ("hoodie.table.base.file.format", "parquet"),
        ("hoodie.table.metadata.partitions", "column_stats,files"),
        ("hoodie.table.index.defs.path", ".hoodie/.index_defs/index.json"),
        ("hoodie.bootstrap.index.enable", "false"),
        ("hoodie.table.cdc.enabled", "false"),
        ("hoodie.keygen.timebased.input.dateformat", "yyyy"),
        ("hoodie.table.timeline.timezone", "local"),
        ("flink.something", "x"),
    ],
)
def test_what_does_no_harm_passes(key: str, value: str) -> None:
    HoodieTableConfig(MINIMAL | {key: value}).check_writable()


def test_a_merge_mode_must_say_what_the_payload_class_says() -> None:
    payload = {"hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"}
    HoodieTableConfig(MINIMAL | payload | {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}).check_writable()
    other = HoodieTableConfig(MINIMAL | payload | {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"})
    assert "hoodie.record.merge.mode=COMMIT_TIME_ORDERING" in refused(other.check_writable)


def test_real_tables_are_writable_but_no_metadata_table(shared_tables: Path) -> None:
    writable: Counter[tuple[int, HoodieTableType]] = Counter()
    for file in sorted(shared_tables.rglob(".hoodie/hoodie.properties")):
        base_path = str(file.parent.parent)
        config = HoodieTableConfig.load(LocalStorage(base_path), base_path)
        if base_path.endswith("/.hoodie/metadata"):
            assert refused(config.check_writable)
        else:
            config.check_readable()
            config.check_writable()
            writable[(config.table_version, config.table_type)] += 1
    assert writable == {
        (6, HoodieTableType.COPY_ON_WRITE): 6,
        (6, HoodieTableType.MERGE_ON_READ): 14,
        (8, HoodieTableType.MERGE_ON_READ): 2,
        (9, HoodieTableType.MERGE_ON_READ): 1,
    }


def test_the_metadata_table_is_switched_off_as_hudi_does(storage: LocalStorage, main_file: Path) -> None:
    main_file.write_bytes(content(table_metadata_partitions="files", table_metadata_partitions_inflight="column_stats"))
    config = load(storage)
    updated = HoodieTableConfig.update(storage, storage.base_path, config.without_metadata_table())
    assert (updated.metadata_partitions, updated.metadata_partitions_inflight) == ((), ())
    assert b"hoodie.table.metadata.partitions=\n" in main_file.read_bytes()


# --- one process changes them -----------------------------------------------------------------------------------------


def test_properties_that_were_changed_or_fenced_meanwhile_are_not_replaced(tmp_path: Path) -> None:
    storage, path = LocalStorage(str(tmp_path)), str(tmp_path)
    config = HoodieTableConfig.create(storage, path, {"hoodie.table.name": "t"})
    version = config.fence(storage, path)
    changed = HoodieTableConfig({**config.properties, "hoodie.table.version": "9"})
    later = config.fence(storage, path)
    with pytest.raises(HoodieCommitException, match="changed by another process meanwhile"):
        changed.switch(storage, path, version)
    assert HoodieTableConfig.load(storage, path) == config
    changed.switch(storage, path, later)
    assert HoodieTableConfig.load(storage, path).table_version == 9
    HoodieTableConfig.forget_fence(storage, path)
    assert sorted(file.name for file in (tmp_path / ".hoodie").iterdir()) == ["hoodie.properties"]
    with pytest.raises(HoodieCommitException, match="changed by another process meanwhile"):
        config.fence(storage, path)


def test_two_fences_of_one_moment_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, path = LocalStorage(str(tmp_path)), str(tmp_path)
    config = HoodieTableConfig.create(storage, path, {"hoodie.table.name": "t"})
    content = config.to_bytes()
    monkeypatch.setattr(HoodieTableConfig, "to_bytes", lambda self: content)
    assert config.fence(storage, path) != config.fence(storage, path)
    assert HoodieTableConfig.load(storage, path) == config


def test_a_file_system_without_locks_has_no_fence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage, path = LocalStorage(str(tmp_path)), str(tmp_path)
    config = HoodieTableConfig.create(storage, path, {"hoodie.table.name": "t"})

    def no_locks(descriptor: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no locks")

    monkeypatch.setattr("hoodie.storage.local_files.fcntl.flock", no_locks)
    assert config.fence(storage, path) is None
    HoodieTableConfig({**config.properties, "hoodie.table.version": "9"}).switch(storage, path, None)
    assert HoodieTableConfig.load(storage, path).table_version == 9
