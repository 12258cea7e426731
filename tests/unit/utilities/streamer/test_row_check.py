"""Rows that a table cannot store are errors of their messages and lines, not of their round."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieReadFromSourceException
from hoodie.keygen.user_key_generator import UserRecordKeyGenerator
from hoodie.utilities.config.error_table_config import HoodieErrorTableConfig
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin
from hoodie.utilities.streamer.check_of_table import check_of_table, key_generator_of_table
from hoodie.utilities.streamer.row_check import RowCheck
from tests.support.streamer_runs import KEYS, ListSource, list_source, run_once

KEEPS = {"hoodie.errortable.enable": "true"}
BAD_PARTITIONS = {
    "..": "contains '.' or '..'",
    "a/../b": "contains '.' or '..'",
    "a\nb": "contains a control character",
    "/a": "starts with a slash",
    "a/": "ends with a slash",
    "s3://a": "contains a colon",
    ".hoodie": "is a name that Hudi uses",
    "x" * 300: "makes a folder name of 300 bytes",
}


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def errors_of(path: Path) -> dict[int, str]:
    """The messages of the error table of a table, by their offsets."""
    rows = hoodie.read_table(f"{path}_errors").to_pylist()
    assert {row["reason"] for row in rows} == {"RECORD_CREATION"}
    return {row["offset"]: row["message"] for row in rows}


def ids(path: Path) -> list[str]:
    return sorted(hoodie.read_table(str(path), columns=["id"])["id"].to_pylist())


def test_partitions_that_cannot_be_stored_are_errors_of_their_messages(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    bad = [(f"b{number}", value, 1) for number, value in enumerate(BAD_PARTITIONS)]
    properties = list_source("l", ("a", "x", 1), *bad, ("e", "", 1), ("n", None, 1), ("z", "y/2", 1)) | KEEPS
    result = run_once(path, properties)
    assert (result.rows, result.error_count) == (4, len(BAD_PARTITIONS))
    assert ids(path) == ["a", "e", "n", "z"]
    found = errors_of(path)
    assert sorted(found) == list(range(1, 1 + len(bad)))
    for offset, reason in enumerate(BAD_PARTITIONS.values(), 1):
        assert found[offset].startswith(f"the record has no usable key: column 'region' {reason}")


@pytest.mark.parametrize("value", ["..", "a\nb"])
def test_without_an_error_table_such_a_partition_fails_the_round_and_names_its_message(
    tmp_path: Path, value: str
) -> None:
    properties = list_source("l", ("a", "x", 1), ("b", value, 1))
    with pytest.raises(HoodieReadFromSourceException) as caught:
        run_once(tmp_path / "trips", properties)
    assert "topic list, partition 0, offset 1: the record has no usable key: column 'region'" in str(caught.value)
    assert "hoodie.errortable.enable=true" in str(caught.value)
    assert not (tmp_path / "trips").exists()


def test_lines_of_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    lines = [{"id": "a", "region": "x", "ts": 1}, {"id": "b", "region": "../..", "ts": 1}]
    (tmp_path / "in" / "1.json").write_text("\n".join(map(json.dumps, lines)))
    properties = KEYS | {"hoodie.streamer.source.dfs.root": str(tmp_path / "in")}
    with pytest.raises(HoodieReadFromSourceException, match=r"1\.json, line 2: .* column 'region'"):
        run_once(tmp_path / "trips", properties, source_class="JsonDFSSource")
    assert run_once(tmp_path / "trips", properties | KEEPS, source_class="JsonDFSSource").error_count == 1
    assert ids(tmp_path / "trips") == ["a"]
    assert hoodie.read_table(f"{tmp_path}/trips_errors")["line"].to_pylist() == [2]


def test_an_existing_table_decides_and_not_the_options(tmp_path: Path) -> None:
    """A table whose paths are escaped stores what others cannot."""
    path = tmp_path / "trips"
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    run_once(path, list_source("l", ("a", "x", 1)) | encoded | KEEPS)
    ListSource.LISTS["l"] += [("b", "s3://a\nb", 1), ("c", "..", 1)]
    result = run_once(path, {**KEYS, **KEEPS, "hoodie.streamer.source.dfs.root": "l"})
    assert (result.rows, result.error_count) == (1, 1)
    assert ids(path) == ["a", "b"]
    assert list(errors_of(path)) == [2]


def test_keys_that_are_nan_empty_or_too_long_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "x", 1), ("k" * 40, "x", 1), ("", "x", 1), (None, "..", 1)) | KEEPS
    assert run_once(path, properties | {"hoodie.write.record.key.max.bytes": 32}).error_count == 3
    found = errors_of(path)
    assert found[1] == "the record has a key of 40 bytes, and hoodie.write.record.key.max.bytes is 32"
    assert found[2] == "the record has no usable key: column 'id' is null or empty"
    assert found[3].startswith("the record has no usable key: column 'id' is null or empty; column 'region' contains")
    ListSource.SCHEMAS["f"] = pa.schema([("id", pa.float64()), ("region", pa.string()), ("ts", pa.int64())])
    path = tmp_path / "floats"
    assert run_once(path, list_source("f", (float("nan"), "x", 1), (1.5, "x", 1)) | KEEPS).error_count == 1
    assert errors_of(path) == {0: "the record has no usable key: column 'id' is NaN"}


def test_a_delete_may_have_a_long_key(tmp_path: Path) -> None:
    ListSource.SCHEMAS["l"] = pa.schema(
        [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
    )
    rows = [("k" * 40, "x", 1, False), ("k" * 40, "x", 1, True), ("k" * 40, "x", 1, None), ("a", "x", 1, None)]
    short = KEEPS | {"hoodie.write.record.key.max.bytes": "32"}
    assert run_once(tmp_path / "trips", list_source("l", *rows) | short).error_count == 2
    assert sorted(errors_of(tmp_path / "trips")) == [0, 2]


def test_keys_of_several_fields_need_one_value(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "", 1), ("", "", 1), (None, "x", 1), (None, "", 1))
    properties |= {"hoodie.datasource.write.recordkey.field": "id,region"} | KEEPS
    properties |= {"hoodie.datasource.write.partitionpath.field": ""}
    assert run_once(path, properties).error_count == 2
    assert errors_of(path) == dict.fromkeys(
        (1, 3), "the record has no usable key: columns 'id', 'region' are all null or empty"
    )


def test_times_that_make_no_folder_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    properties = list_source("l", ("a", "2026-07-05", 1), ("b", "yesterday", 1)) | KEEPS | {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
        "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
        "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
        "hoodie.keygen.timebased.timezone": "UTC",
    }  # fmt: skip
    assert run_once(path, properties).error_count == 1
    assert ids(path) == ["a"]
    assert list(errors_of(path)) == [1]


def test_deletes_by_a_global_index_need_no_partition_fields(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"} | KEEPS
    run_once(path, list_source("l", ("a", "x", 1), ("b", "y", 1)) | options)
    ListSource.SCHEMAS["l"] = pa.schema([("id", pa.string())])
    ListSource.LISTS["l"] += [("a",), ("",), ("k" * 5000,)]
    result = run_once(path, {**KEYS, **options, "hoodie.streamer.source.dfs.root": "l"}, op="DELETE")
    assert result.error_count == 1
    assert ids(path) == ["b"]
    assert list(errors_of(path)) == [3]


class Initials(UserRecordKeyGenerator):
    """A generator of a user."""

    def record_key(self, record: Any) -> str:
        return str(record["id"])

    def partition_path(self, record: Any) -> str:
        return str(record["region"])


def config_of(**more: Any) -> HoodieWriteConfig:
    properties = {"hoodie.table.name": "t", **KEYS} | {name.replace("_", "."): text for name, text in more.items()}
    kept = {key: value for key, value in properties.items() if "streamer" not in key}
    return HoodieWriteConfig.from_properties("/t", kept)


def test_rows_are_not_asked_where_a_class_of_the_user_makes_keys_or_the_error_table_does_not_want_them() -> None:
    own = config_of(hoodie_datasource_write_keygenerator_class=f"{__name__}.Initials")
    assert key_generator_of_table(None, own) is None
    assert key_generator_of_table(None, config_of()) is not None
    unasked = HoodieErrorTableConfig(validates_record_creation=False)
    check = check_of_table(None, config_of(), unasked)
    assert (check.key_generator, check.ordering_fields) == (None, ())
    assert check_of_table(None, config_of(), None).ordering_fields == ("ts",)


def test_a_check_crosses_to_tasks_and_keeps_rows_and_places_together() -> None:
    check = pickle.loads(pickle.dumps(check_of_table(None, config_of(), HoodieErrorTableConfig())))
    rows = pa.RecordBatch.from_pylist(
        [{"id": f"k{n}", "region": "x" if n % 2 else "..", "ts": None if n % 3 == 1 else n} for n in range(12)]
    )
    checked = check.checked(DecodedBatch(rows, None, RowOrigin(np.arange(100, 112), "t", 7)))
    assert checked.rows["id"].to_pylist() == ["k3", "k5", "k9", "k11"]
    assert checked.origin.numbers.tolist() == [103, 105, 109, 111]
    assert sorted(checked.errors["offset"].to_pylist()) == [100, 101, 102, 104, 106, 107, 108, 110]


def test_deletes_that_do_not_tell_where_their_record_is_are_errors() -> None:
    rows = pa.RecordBatch.from_pydict(
        {"id": list("abcd"), "p": [None, "x", None, None], "_hoodie_is_deleted": [True, True, False, None]}
    )
    check = RowCheck(keeps_errors=True, fields_of_deletes=("p",))
    found = check.checked(DecodedBatch(rows, origin=RowOrigin(np.arange(4), "t", 0)))
    assert found.rows["id"].to_pylist() == ["b", "c", "d"]
    assert found.origin is not None
    assert found.origin.numbers.tolist() == [1, 2, 3]
    assert found.errors is not None
    (error,) = found.errors.to_pylist()
    assert (error["offset"], error["reason"]) == (0, "RECORD_CREATION")
    assert "has no value in the partition field p" in error["message"]
    without = check.checked(DecodedBatch(rows.drop_columns(["p"])))
    assert without.rows["id"].to_pylist() == ["c", "d"]
    assert RowCheck(keeps_errors=True).checked(DecodedBatch(rows)).rows.equals(rows)
