"""Writes without a client that delete partitions."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.client.partitions_to_delete import MatchingPartitions
from hoodie.exception import HoodieConfigException, HoodieKeyException, TableNotFoundException
from tests.support.table_builder import instants, read_rows, rows

PATHS = ["2026/11/20", "2026/11/21", "2026/12/01", "a%2Ab", "aXb", "a.b", "*"]
PARTITIONS = "hoodie.datasource.write.partitions.to.delete"
OPERATION = "hoodie.datasource.write.operation"


@pytest.mark.parametrize(
    ("patterns", "found"),
    [
        (("2026/11/20",), ["2026/11/20"]),
        (("2026/11/*",), ["2026/11/20", "2026/11/21"]),
        (("2026*1",), ["2026/11/21", "2026/12/01"]),
        (("2026%2F11/*", "nowhere"), ["nowhere"]),
        (("2026/11/%2A",), ["2026/11/20", "2026/11/21"]),
        # A star of a value is escaped like this: the partition itself is meant.
        (("a%2Ab",), ["a%2Ab"]),
        (("a.*",), ["a.b"]),
        (("*",), ["*"]),
        (("**",), sorted(PATHS)),
        (("aXb", "a*b"), ["aXb", "a%2Ab", "a.b"]),
        (("*/9*",), []),
    ],
)
def test_a_star_stands_for_any_text(patterns: tuple[str, ...], found: list[str]) -> None:
    assert MatchingPartitions(patterns).among(PATHS) == found


@pytest.fixture
def base_path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    data = rows(("a", "eu", 1), ("b", "us", 1), ("c", "uk", 1), ("d", "eu", 1))
    hoodie.write_table(data, path, record_key_fields="id", partition_fields="region", ordering_fields="ts")
    return path


def test_named_partitions_are_deleted_and_the_data_is_not_read(base_path: str) -> None:
    given = {PARTITIONS: "u*,nowhere"}
    result = hoodie.write_table(None, base_path, operation="delete_partition", properties=given)
    replaced = sorted(path for path, file_ids in result.partition_to_replace_file_ids.items() if file_ids)
    assert (result.operation.value, replaced) == ("DELETE_PARTITION", ["uk", "us"])
    assert read_rows(base_path) == [("a", "eu", 1), ("d", "eu", 1)]
    assert [action for _, action, _ in instants(base_path)] == ["commit", "replacecommit"]


def test_without_names_the_partitions_of_the_rows_are_deleted(base_path: str) -> None:
    given = {OPERATION: "DELETE_PARTITION"}
    hoodie.write_table(rows(("x", "eu", 9), ("y", "eu", 9), ("c", "uk", 9)), base_path, properties=given)
    assert read_rows(base_path) == [("b", "us", 1)]
    hoodie.write_table([hoodie.HoodieKey("b", "us")], base_path, properties=given)
    assert read_rows(base_path) == []


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (rows((None, "eu", 1), ("b", "us", 1)), "1 of the rows have no usable record key or partition path"),
        (pa.table({"id": ["a"], "ts": [1]}), "region"),
    ],
)
def test_rows_without_key_or_partition_delete_nothing(base_path: str, data: Any, text: str) -> None:
    with pytest.raises(HoodieKeyException, match=text):
        hoodie.write_table(data, base_path, operation="delete_partition")
    # A global index needs no partition of a delete; the partitions to delete must be known all the same.
    with pytest.raises(HoodieKeyException, match=text):
        hoodie.write_table(
            data, base_path, operation="delete_partition", properties={"hoodie.index.type": "GLOBAL_SIMPLE"}
        )
    assert len(read_rows(base_path)) == 4


@pytest.mark.parametrize("value", ["", " "])
def test_an_empty_list_of_partitions_is_not_taken_for_those_of_the_rows(base_path: str, value: str) -> None:
    with pytest.raises(HoodieConfigException, match=rf"{PARTITIONS} = '{value}' names no partition"):
        hoodie.write_table(
            rows(("a", "eu", 1)), base_path, operation="delete_partition", properties={PARTITIONS: value}
        )
    assert len(read_rows(base_path)) == 4


def test_no_partitions_are_deleted_of_a_table_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException, match="to delete from"):
        hoodie.write_table(None, str(tmp_path / "t"), operation="delete_partition", properties={PARTITIONS: "eu"})
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("operation", "properties", "warned"),
    [
        ("upsert", {PARTITIONS: "eu"}, f"{PARTITIONS} = eu has no effect on operation upsert"),
        (
            "insert",
            {"hoodie.static.overwrite.partition.paths": "eu"},
            "hoodie.static.overwrite.partition.paths = eu has no effect on operation insert",
        ),
        (
            "insert_overwrite",
            {"hoodie.datasource.insert.dup.policy": "drop"},
            "hoodie.datasource.insert.dup.policy = drop has no effect on operation insert_overwrite",
        ),
        ("insert_overwrite", {"hoodie.static.overwrite.partition.paths": "eu"}, None),
        ("insert", {"hoodie.datasource.insert.dup.policy": "drop"}, None),
    ],
)
def test_an_option_of_another_operation_is_told(
    base_path: str, caplog: pytest.LogCaptureFixture, operation: str, properties: dict[str, str], warned: str | None
) -> None:
    with caplog.at_level(logging.WARNING, logger="hoodie.client.chosen_operation"):
        hoodie.write_table(rows(("n", "eu", 1)), base_path, operation=operation, properties=properties)
    assert caplog.messages == ([] if warned is None else [warned])


def test_contradictory_options_are_named_together(base_path: str) -> None:
    given = {"hoodie.auto.commit": "false", OPERATION: "insert", PARTITIONS: ""}
    with pytest.raises(HoodieConfigException) as raised:
        hoodie.write_table(rows(("n", "eu", 1)), base_path, operation="delete_partition", properties=given)
    for part in ("hoodie.auto.commit = false", f"{OPERATION} = 'insert', and the argument says", "names no partition"):
        assert part in str(raised.value)
