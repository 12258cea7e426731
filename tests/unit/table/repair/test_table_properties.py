"""Tables whose hoodie.properties is lost or damaged."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    InvalidTableException,
    TableNotFoundException,
)
from hoodie.table.repair import rebuild_table_properties
from tests.support.services_table import ServicesTable
from tests.support.table_invariants import check_table

GIVEN = {
    "hoodie.table.name": "trips",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "region",
    "hoodie.table.precombine.field": "ts",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.compaction.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.datasource.write.hive_style_partitioning": "false",
    "hoodie.datasource.write.partitionpath.urlencode": "false",
}
ROWS = {"a": {"ts": 1}, "b": {"ts": 2}}


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    made = ServicesTable(tmp_path / "t")
    made.upsert("a")
    made.upsert("b", region="y")
    return made


def properties_file(table: ServicesTable) -> Path:
    return table.base_path / ".hoodie" / "hoodie.properties"


def without_schema(table: ServicesTable) -> dict[str, str]:
    properties = dict(HoodieTableMetaClient.load(str(table.base_path)).table_config.properties)
    properties.pop("hoodie.table.create.schema", None)
    return properties


def test_a_good_file_is_left_alone(table: ServicesTable) -> None:
    before = properties_file(table).read_bytes()
    rebuilt = rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "trips"})
    assert rebuilt.source == "intact"
    assert "nothing to do" in repr(rebuilt)
    with pytest.raises(HoodieConfigException, match=r"hoodie\.table\.name = 'trips'"):
        rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "other"})
    assert properties_file(table).read_bytes() == before


def test_no_new_table_is_made_where_the_properties_of_one_were_lost(table: ServicesTable) -> None:
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
    rebuild_table_properties(path, properties=GIVEN)
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
def test_a_file_is_made_again_of_what_is_given_and_what_files_say(table: ServicesTable, damage: str) -> None:
    expected = without_schema(table)
    hurt(table, damage)
    content = None if damage == "missing" else properties_file(table).read_bytes()
    would = rebuild_table_properties(str(table.base_path), properties=GIVEN, dry_run=True)
    assert (properties_file(table).read_bytes() if properties_file(table).exists() else None) == content
    rebuilt = rebuild_table_properties(str(table.base_path), properties=GIVEN)
    assert rebuilt.source == would.source == "rebuilt"
    assert rebuilt.checked_rows == 2
    assert without_schema(table) == expected
    assert properties_file(table).read_text().splitlines()[-1].startswith("hoodie.table.checksum=")
    sources = {entry.key: entry.source for entry in rebuilt.properties}
    assert sources["hoodie.table.create.schema"] == "the newest commit"
    assert sources["hoodie.table.version"] == "the timeline"
    kept = Path(f"{properties_file(table)}.damaged")
    assert (kept.read_bytes() if kept.exists() else None) == content
    check_table(table.base_path, ROWS)
    table.upsert("a")
    check_table(table.base_path, {**ROWS, "a": {"ts": 3}})


def test_what_is_missing_is_named_all_at_once(table: ServicesTable) -> None:
    properties_file(table).unlink()
    with pytest.raises(HoodieConfigException) as raised:
        rebuild_table_properties(str(table.base_path), properties={"hoodie.table.name": "trips", "ordering": "ts"})
    for key in ("recordkey.fields", "partition.fields", "precombine.field", "keygenerator.class", "payload.class"):
        assert key in str(raised.value)
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
        },
        {
            "hoodie.table.recordkey.fields": "id,ts",
            "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator",
        },
    ],
)
def test_properties_that_stored_rows_contradict_are_refused(table: ServicesTable, wrong: dict[str, str]) -> None:
    properties_file(table).unlink()
    with pytest.raises(InvalidTableException, match="has a row of key"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN | wrong)
    assert not properties_file(table).exists()
    rebuilt = rebuild_table_properties(str(table.base_path), properties=GIVEN | wrong, check_rows=False, dry_run=True)
    assert rebuilt.checked_rows == 0


def test_a_column_that_is_not_there_is_refused(table: ServicesTable) -> None:
    properties_file(table).unlink()
    with pytest.raises(InvalidTableException, match="no column fare; it has id, region, ts"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN | {"hoodie.table.precombine.field": "fare"})


def test_other_kinds_of_tables_are_not_made_copy_on_write(table: ServicesTable) -> None:
    properties_file(table).unlink()
    (table.base_path / ".hoodie" / "timeline").mkdir()
    with pytest.raises(HoodieNotSupportedException, match="version 8"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN)
    (table.base_path / ".hoodie" / "timeline").rmdir()
    log = table.base_path / "x" / ".f-0_20250101000000000.log.1_0-1-2"
    log.touch()
    with pytest.raises(HoodieNotSupportedException, match="log files"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN)
    log.unlink()
    (table.base_path / ".hoodie" / "20250101000000000.deltacommit.requested").touch()
    with pytest.raises(HoodieNotSupportedException, match="delta commits"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN)
    assert not properties_file(table).exists()


def test_where_there_is_no_table_none_is_made(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match="init_table"):
        rebuild_table_properties(str(tmp_path / "nothing"), properties=GIVEN)
    table = ServicesTable(tmp_path / "t")
    properties_file(table).unlink()
    with pytest.raises(InvalidTableException, match="nothing was committed"):
        rebuild_table_properties(str(table.base_path), properties=GIVEN)


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
    tmp_path: Path, table_arguments: dict[str, Any], row: dict[str, Any]
) -> None:
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", **{"record_key_fields": "id", **table_arguments})
    hoodie.write_table(pa.Table.from_pylist([row]), path, operation="insert")
    expected = dict(HoodieTableMetaClient.load(path).table_config.properties)
    (tmp_path / "t" / ".hoodie" / "hoodie.properties").unlink()
    given = {key: expected.get(key, "") for key in GIVEN}
    rebuilt = rebuild_table_properties(path, properties=given)
    assert rebuilt.checked_rows == 1
    found = dict(HoodieTableMetaClient.load(path).table_config.properties)
    found.pop("hoodie.table.create.schema")
    expected.pop("hoodie.table.create.schema", None)
    assert found == expected
    assert hoodie.read_table(path, columns=["id", "region"]).to_pylist() == [row]
