"""What the options of the two kinds of record index, and of dropping indexes, do to the index that is there."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from tests.support.table_builder import init_table, local_client, read_rows, rows

WHOLE = "hoodie.metadata.global.record.level.index.enable"
BY_PARTITION = "hoodie.metadata.record.level.index.enable"
NOTHING = "no record index"

pytestmark = pytest.mark.table_version(9)


def kind_of_index(path: str) -> str:
    """What the metadata table has: the option that makes such an index."""
    if "record_index" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions:
        return NOTHING
    assert hoodie.metadata.validate(path).is_right
    names = [file.name for file in Path(path, ".hoodie/metadata/record_index").iterdir()]
    groups = [name for name in names if "record-index" in name]
    return WHOLE if all("record-index-0" in name for name in groups) else BY_PARTITION


def write(path: str, number: int, **options: bool) -> None:
    with local_client(path, {"hoodie.metadata.enable": True, **options}) as client:
        client.upsert(rows((f"k{number}", "x", 1), (f"l{number}", "y", 1)))


@pytest.mark.parametrize(
    ("first", "then", "expected"),
    [
        (WHOLE, {BY_PARTITION: False}, WHOLE),
        (WHOLE, {WHOLE: False}, NOTHING),
        (WHOLE, {WHOLE: False, BY_PARTITION: False}, NOTHING),
        (WHOLE, {WHOLE: False, BY_PARTITION: True}, BY_PARTITION),
        (WHOLE, {BY_PARTITION: True}, WHOLE),
        (BY_PARTITION, {WHOLE: False}, BY_PARTITION),
        (BY_PARTITION, {BY_PARTITION: False}, NOTHING),
        (BY_PARTITION, {WHOLE: True, BY_PARTITION: False}, WHOLE),
        (BY_PARTITION, {WHOLE: True}, BY_PARTITION),
    ],
)
def test_an_option_says_something_of_its_own_kind_only(
    tmp_path: Path, first: str, then: dict[str, bool], expected: str
) -> None:
    path = init_table(tmp_path / "t")
    write(path, 1, **{first: True})
    assert kind_of_index(path) == first
    write(path, 2, **then)
    assert kind_of_index(path) == expected
    write(path, 3)
    assert kind_of_index(path) == expected
    assert len(read_rows(path)) == 6


@pytest.mark.table_version(6)
def test_where_no_index_by_partitions_can_be_its_option_touches_nothing(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    write(path, 1, **{WHOLE: True})
    write(path, 2, **{BY_PARTITION: False})
    assert kind_of_index(path) == WHOLE
    with pytest.raises(HoodieNotSupportedException, match="is for tables of version 9, and .* has version 6"):
        write(path, 3, **{BY_PARTITION: True})
    assert len(read_rows(path)) == 4


def test_an_index_that_is_kept_although_the_other_kind_is_wanted_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = init_table(tmp_path / "t")
    write(path, 1, **{WHOLE: True})
    write(path, 2, **{BY_PARTITION: True})
    assert f"keeps its record index, which is one of the whole table: a table has one. To replace it, give {WHOLE}" in (
        caplog.text
    )


@pytest.mark.parametrize(
    "given", [{WHOLE: True, BY_PARTITION: True}, {"hoodie.index.type": "RECORD_INDEX", BY_PARTITION: True}]
)
def test_two_kinds_at_once_contradict_each_other(given: dict[str, Any]) -> None:
    with pytest.raises(HoodieConfigException, match="a table has one record index, and"):
        HoodieWriteConfig.from_properties("/data/t", given)


@pytest.mark.parametrize("infix", ["global.", ""])
def test_a_range_of_counts_that_no_number_is_in_is_refused(infix: str) -> None:
    key = f"hoodie.metadata.{infix}record.level.index"
    given = {f"{key}.min.filegroup.count": 20, f"{key}.max.filegroup.count": 11}
    with pytest.raises(HoodieConfigException, match=f"{key}.min.filegroup.count = 20 is more than"):
        HoodieWriteConfig.from_properties("/data/t", given)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("option", [WHOLE, BY_PARTITION])
def test_a_table_without_record_keys_gets_no_record_index_before_its_first_row_either(
    tmp_path: Path, version: int, option: str
) -> None:
    path = init_table(tmp_path / "t", table_version=version, properties={"hoodie.populate.meta.fields": "false"})
    asked = {"hoodie.metadata.enable": True, option: True}
    with (
        local_client(path, asked) as client,
        pytest.raises(HoodieNotSupportedException, match="and so has no record index|is for tables of version 9"),
    ):
        client.insert(rows(("a", "x", 1)))
    assert kind_of_index(path) == NOTHING
    with local_client(path, {"hoodie.metadata.enable": True}) as client:
        client.insert(rows(("a", "x", 1)))
    assert hoodie.read_table(path).num_rows == 1


def test_an_index_to_drop_may_be_named_as_when_it_was_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = init_table(tmp_path / "t")
    write(path, 1, **{WHOLE: True})
    with local_client(path) as client:
        client.create_index("by_ts", "ts")
    caplog.set_level(logging.INFO)
    with local_client(path, {"hoodie.metadata.index.drop": "by_tss"}) as client:
        client.upsert(rows(("a", "x", 1)))
    listed = HoodieTableMetaClient.load(path).table_config.metadata_partitions
    assert "secondary_index_by_ts" in listed and "has no index by_tss to drop: it has" in caplog.text
    with local_client(path, {"hoodie.metadata.index.drop": "by_ts"}) as client:
        client.upsert(rows(("a", "x", 2)))
    assert "secondary_index_by_ts" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions


def test_ranges_of_partitions_come_to_a_table_that_has_those_of_files(tmp_path: Path) -> None:
    ranges = "hoodie.metadata.index.column.stats.enable"
    of_partitions = "hoodie.metadata.index.partition.stats.enable"
    path = init_table(tmp_path / "t")
    write(path, 1, **{ranges: True, of_partitions: False})
    assert "partition_stats" not in HoodieTableMetaClient.load(path).table_config.metadata_partitions
    write(path, 2, **{of_partitions: True})
    assert "partition_stats" in HoodieTableMetaClient.load(path).table_config.metadata_partitions
    assert hoodie.metadata.validate(path).is_right
