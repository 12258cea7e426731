"""Tables whose hoodie.properties is lost or damaged."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE, HoodieCDCSupplementalLoggingMode
from hoodie.exception import (
    HoodieConfigException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.table.repair import rebuild_table_properties
from tests.support.change_data import MODES, init_cdc_table
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.services_table import ServicesTable
from tests.support.table_builder import local_client, rows
from tests.support.table_invariants import check_table
from tests.support.timeline_files import read_commit, timeline_folder

OF_ALL = {
    "hoodie.table.name": "trips",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "region",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}
OF_6 = {
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
}
OF_LATER = {
    "hoodie.table.ordering.fields": "ts",
    "hoodie.table.keygenerator.type": "SIMPLE",
    "hoodie.record.merge.mode": "EVENT_TIME_ORDERING",
}
ORDERING = {"hoodie.table.precombine.field", "hoodie.table.ordering.fields"}
ROWS = {"a": {"ts": 1}, "b": {"ts": 2}}


def given_for(version: int) -> dict[str, str]:
    """What only the user knows of a table of a version."""
    return OF_ALL | OF_6 if version == 6 else OF_ALL | OF_LATER | {"hoodie.table.version": str(version)}


@pytest.fixture
def given(table_version: int) -> dict[str, str]:
    """What only the user knows of the table."""
    return given_for(table_version)


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    made = ServicesTable(tmp_path / "t")
    made.upsert("a")
    made.upsert("b", region="y")
    return made


def properties_file(table: ServicesTable) -> Path:
    return table.base_path / ".hoodie" / "hoodie.properties"


def told_by_nobody(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties without those that are not made again: the first schema, what only Hive reads, and the metadata table,
    which the next write builds anew.
    """
    gone = (
        "hoodie.table.create.schema",
        "hoodie.table.partition_extractor_class",
        "hoodie.table.metadata.partitions",
    )
    return {key: value for key, value in properties.items() if value and key not in gone}


def without_schema(table: ServicesTable) -> dict[str, str]:
    return told_by_nobody(HoodieTableMetaClient.load(str(table.base_path)).table_config.properties)


def test_a_good_file_is_left_alone(table: ServicesTable) -> None:
    before = properties_file(table).read_bytes()
    rebuilt = rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "trips"})
    assert rebuilt.source == "intact"
    assert "nothing to do" in repr(rebuilt)
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.name = 'trips'"):
        rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "other"})
    assert properties_file(table).read_bytes() == before


def test_no_new_table_is_made_where_the_properties_of_one_were_lost(
    table: ServicesTable, given: dict[str, str]
) -> None:
    path = str(table.base_path)
    properties_file(table).unlink()
    of_version_8 = table.base_path / "of_version_8"
    (of_version_8 / ".hoodie" / "timeline").mkdir(parents=True)
    (of_version_8 / ".hoodie" / "timeline" / "20260101000000000_20260101000001000.commit").touch()
    for where in (path, str(of_version_8)):
        for call in (
            lambda where: hoodie.write_table(pa.table({"id": ["a"]}), where, record_key_fields="id"),
            lambda where: HoodieTableMetaClient.init_table(where, table_name="t", record_key_fields=["id"]),
            HoodieTableMetaClient.load,
            hoodie.read_table,
        ):
            with pytest.raises(InvalidTableException, match=r"it was lost\. Put it back.*rebuild_table_properties"):
                call(where)
    shutil.rmtree(of_version_8)
    assert not properties_file(table).exists()
    rebuild_table_properties(path, properties=given)
    check_table(table.base_path, ROWS)


@pytest.mark.parametrize("damage", ["missing", "empty", "half"])
def test_a_good_backup_is_taken(table: ServicesTable, damage: str) -> None:
    expected = without_schema(table)
    shutil.copy(properties_file(table), f"{properties_file(table)}.backup")
    hurt(table, damage)
    assert "would be made again from their backup" in repr(rebuild_table_properties(str(table.base_path), dry_run=True))
    rebuilt = rebuild_table_properties(str(table.base_path))
    assert rebuilt.source == "backup"
    assert not Path(f"{properties_file(table)}.backup").exists()
    assert without_schema(table) == expected
    check_table(table.base_path, ROWS)


def hurt(table: ServicesTable, damage: str) -> None:
    content = properties_file(table).read_bytes()
    if damage == "missing":
        properties_file(table).unlink()
    else:
        properties_file(table).write_bytes(b"" if damage == "empty" else content[: len(content) // 2])


@pytest.mark.parametrize("damage", ["missing", "empty", "half"])
def test_a_file_is_made_again_of_what_is_given_and_what_files_say(
    table: ServicesTable, damage: str, given: dict[str, str]
) -> None:
    expected = without_schema(table)
    hurt(table, damage)
    content = None if damage == "missing" else properties_file(table).read_bytes()
    would = rebuild_table_properties(str(table.base_path), properties=given, dry_run=True)
    assert (properties_file(table).read_bytes() if properties_file(table).exists() else None) == content
    rebuilt = rebuild_table_properties(str(table.base_path), properties=given)
    assert rebuilt.source == would.source == "rebuilt"
    assert rebuilt.checked_rows == 2
    assert without_schema(table) == expected
    assert properties_file(table).read_text().splitlines()[-1].startswith("hoodie.table.checksum=")
    sources = {entry.key: entry.source for entry in rebuilt.properties}
    assert sources["hoodie.table.create.schema"] == "the newest commit"
    assert sources["hoodie.table.version"] == ("given" if "hoodie.table.version" in given else "the timeline")
    kept = Path(f"{properties_file(table)}.damaged")
    assert (kept.read_bytes() if kept.exists() else None) == content
    check_table(table.base_path, ROWS)
    table.upsert("a")
    check_table(table.base_path, {**ROWS, "a": {"ts": 3}})


def test_what_is_missing_is_named_all_at_once(table: ServicesTable, given: dict[str, str]) -> None:
    properties_file(table).unlink()
    with pytest.raises(HoodieConfigException) as raised:
        rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "trips", "ordering": "ts"})
    for key in given.keys() - {"hoodie.table.name"}:
        assert (key in str(raised.value)) is (not key.startswith("hoodie.datasource.write."))
    assert "leave out ordering" in str(raised.value)
    assert not properties_file(table).exists()


@pytest.mark.parametrize(
    "wrong",
    [
        {"hoodie.datasource.write.hive_style_partitioning": "true"},
        {"hoodie.table.recordkey.fields": "ts"},
        {"hoodie.table.partition.fields": "id"},
        {
            "hoodie.table.partition.fields": "",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
            "hoodie.table.keygenerator.type": "NON_PARTITION",
        },
        {
            "hoodie.table.recordkey.fields": "id,ts",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
            "hoodie.table.keygenerator.type": "COMPLEX",
        },
    ],
)
def test_properties_that_stored_rows_contradict_are_refused(
    table: ServicesTable, wrong: dict[str, str], given: dict[str, str]
) -> None:
    properties_file(table).unlink()
    wrong = {key: value for key, value in wrong.items() if key in given}
    with pytest.raises(InvalidTableException, match="has a row of key"):
        rebuild_table_properties(str(table.base_path), properties=given | wrong)
    assert not properties_file(table).exists()
    rebuilt = rebuild_table_properties(str(table.base_path), properties=given | wrong, check_rows=False, dry_run=True)
    assert rebuilt.checked_rows == 0


def test_a_column_that_is_not_there_is_refused(table: ServicesTable, given: dict[str, str]) -> None:
    properties_file(table).unlink()
    with pytest.raises(InvalidTableException, match="no column fare; it has id, region, ts"):
        rebuild_table_properties(
            str(table.base_path), properties=given | dict.fromkeys(given.keys() & ORDERING, "fare")
        )


@pytest.mark.parametrize("mode", MODES)
def test_the_newest_commit_tells_whether_and_how_change_data_is_stored(
    tmp_path: Path, given: dict[str, str], mode: HoodieCDCSupplementalLoggingMode
) -> None:
    path = init_cdc_table(tmp_path / "cdc", mode)
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1)))
        newest = client.upsert(rows(("a", "x", 2))).instant_time
    (stat,) = read_commit(path, newest).write_stats
    (name,) = stat.cdc_stats or ()
    before = hoodie.Table(str(path)).properties()
    Path(path, ".hoodie/hoodie.properties").unlink()
    given |= {"hoodie.table.name": "t"}
    rebuilt = rebuild_table_properties(str(path), properties=given, dry_run=True)
    found = {entry.key: (entry.value, entry.source) for entry in rebuilt.properties}
    assert found[CDC_ENABLED] == ("true", "the timeline")
    assert found[LOGGING_MODE] == (before[LOGGING_MODE], "the change data") == (mode, "the change data")
    ceased = rebuild_table_properties(str(path), properties={**given, CDC_ENABLED: "false"}, dry_run=True)
    assert LOGGING_MODE not in {entry.key for entry in ceased.properties}
    (path / name).unlink()
    with pytest.raises(HoodieConfigException, match="does not tell which"):
        rebuild_table_properties(str(path), properties=given)


def test_other_kinds_of_tables_are_not_made_copy_on_write(table: ServicesTable, given: dict[str, str]) -> None:
    folder = timeline_folder(table.base_path)
    properties_file(table).unlink()
    (file,) = (table.base_path / "x").glob("*.parquet")
    change_data = file.with_name(f".{file.name.split('_')[0]}_{file.stem.rsplit('_', 1)[1]}.log.1_0-1-2.cdc")
    change_data.touch()

    def type_of(**more: str) -> tuple[str, str]:
        rebuilt = rebuild_table_properties(str(table.base_path), properties={**given, **more}, dry_run=True)
        return next((entry.value, entry.source) for entry in rebuilt.properties if entry.key == "hoodie.table.type")

    assert type_of() == ("COPY_ON_WRITE", "the timeline")
    change_data.unlink()
    log = change_data.with_suffix("")
    log.touch()
    assert type_of() == ("MERGE_ON_READ", "the log files")
    with pytest.raises(HoodieConfigException, match="the log files of .* are those of a MERGE_ON_READ table"):
        type_of(**{"hoodie.table.type": "COPY_ON_WRITE"})
    log.unlink()
    assert type_of(**{"hoodie.table.type": "MERGE_ON_READ"}) == ("MERGE_ON_READ", "given")
    (folder / "20250101000000000.deltacommit.requested").touch()
    assert type_of() == ("MERGE_ON_READ", "the timeline")
    assert not properties_file(table).exists()


@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_those_of_a_merge_on_read_table_are_made_again(
    tmp_path: Path, given: dict[str, str], table_version: int
) -> None:
    table = MergeOnReadTable(tmp_path / "t")
    table.upsert("a")
    table.upsert("b", region="y")
    table.upsert("a")
    before, rows = table.load().table_config.properties, table.read()
    properties_file(table).unlink()
    (table.base_path / ".hoodie" / "hoodie.properties.backup").unlink(missing_ok=True)
    rebuilt = rebuild_table_properties(str(table.base_path), properties=given)
    assert rebuilt.checked_rows == 2
    now = told_by_nobody(table.load().table_config.properties)
    assert {key: value for key, value in now.items() if key in before} == {
        key: value for key, value in told_by_nobody(before).items() if key in now
    }
    assert now["hoodie.table.type"] == "MERGE_ON_READ"
    assert table.read() == rows
    table.upsert("a", "b")


def test_where_there_is_no_table_none_is_made(tmp_path: Path, given: dict[str, str]) -> None:
    with pytest.raises(TableNotFoundException, match="init_table"):
        rebuild_table_properties(str(tmp_path / "nothing"), properties=given)
    table = ServicesTable(tmp_path / "t")
    properties_file(table).unlink()
    with pytest.raises(InvalidTableException, match="nothing was committed"):
        rebuild_table_properties(str(table.base_path), properties=given)


@pytest.mark.parametrize(
    ("table_arguments", "row"),
    [
        ({"partition_fields": ()}, {"id": 1, "region": "x"}),
        ({"partition_fields": "region", "hive_style_partitioning": True}, {"id": 1, "region": "x"}),
        ({"partition_fields": ["region", "id"], "record_key_fields": ["id", "region"]}, {"id": 1, "region": "x"}),
        (
            {"partition_fields": "region", "properties": {"hoodie.datasource.write.partitionpath.urlencode": "true"}},
            {"id": 1, "region": "a/b"},
        ),
        (
            {"partition_fields": "region", "properties": {"hoodie.populate.meta.fields": "false"}},
            {"id": 1, "region": "x"},
        ),
    ],
    ids=["no partitions", "hive style", "complex", "escaped", "virtual keys"],
)
def test_other_tables_are_made_again_by_their_own_properties(
    tmp_path: Path, table_arguments: dict[str, Any], row: dict[str, Any], given: dict[str, str]
) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", **{"record_key_fields": "id", **table_arguments})
    hoodie.write_table(pa.Table.from_pylist([row]), path, operation="insert")
    expected = dict(HoodieTableMetaClient.load(path).table_config.properties)
    (tmp_path / "t" / ".hoodie" / "hoodie.properties").unlink()
    given = {key: expected.get(key, "") for key in given}
    rebuilt = rebuild_table_properties(path, properties=given)
    assert rebuilt.checked_rows == 1
    found = HoodieTableMetaClient.load(path).table_config.properties
    assert told_by_nobody(found) == told_by_nobody(expected)
    assert hoodie.read_table(path, columns=["id", "region"]).to_pylist() == [row]


@pytest.mark.table_version(9)
def test_of_two_timelines_the_given_version_tells_which_one_counts(table: ServicesTable, given: dict[str, str]) -> None:
    """An upgrade that died left the files of both."""
    expected = without_schema(table)
    (table.base_path / ".hoodie" / "20250101000000000.commit.requested").touch()
    properties_file(table).unlink()
    without_version = {key: value for key, value in given.items() if key != "hoodie.table.version"}
    with pytest.raises(HoodieConfigException, match="has two timelines"):
        rebuild_table_properties(str(table.base_path), properties=without_version)
    rebuild_table_properties(str(table.base_path), properties=given)
    assert without_schema(table) == expected


@pytest.mark.table_version(9)
def test_the_timeline_that_an_upgrade_has_half_deleted_is_refused(table: ServicesTable, given: dict[str, str]) -> None:
    timeline = HoodieTableMetaClient.load(str(table.base_path)).active_timeline
    first, second, *_ = timeline.completed_writes().instants
    for state in (".commit.requested", ".inflight", ".commit"):
        (table.base_path / f".hoodie/{first.requested_time}{state}").touch()
    properties_file(table).unlink()
    with pytest.raises(
        HoodieConfigException, match=rf"version=6 lacks .*{second.requested_time} the first; .*version=8 or 9"
    ):
        rebuild_table_properties(str(table.base_path), properties={**given, "hoodie.table.version": "6"})
    assert not properties_file(table).exists()


@pytest.mark.table_version(9)
@pytest.mark.parametrize("version", ["6", "7", "10", ""])
def test_a_version_of_another_timeline_is_refused(table: ServicesTable, given: dict[str, str], version: str) -> None:
    properties_file(table).unlink()
    with pytest.raises(HoodieConfigException, match=rf"hoodie\.table\.version is '{version}'"):
        rebuild_table_properties(str(table.base_path), properties={**given, "hoodie.table.version": version})
    assert not properties_file(table).exists()
