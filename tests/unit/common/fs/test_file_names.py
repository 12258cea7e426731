"""Names of data files and markers, made and parsed."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.fs.file_names import (
    BaseFileName,
    LogFileName,
    MarkerName,
    file_id_prefix,
    is_data_file_name,
    make_base_file_name,
    make_file_id,
    make_log_file_name,
    make_marker_name,
    new_file_id_prefix,
    parse_base_file_name,
    parse_log_file_name,
    parse_marker_name,
)
from hoodie.common.model.write_operation_type import IOType

FILE_ID = "0712b9f9-d2d5-4cae-bcf4-8fd7146af503-0"
INSTANT = "20250126040823628"
BASE_NAME = f"{FILE_ID}_0-13-23_{INSTANT}.parquet"

file_ids = st.from_regex(r"[A-Za-z0-9-]{1,40}", fullmatch=True)
tokens = st.builds("{}-{}-{}".format, *([st.integers(0, 10**9)] * 3))
instants = st.from_regex(r"[0-9]{14}|[0-9]{17}", fullmatch=True)


def test_a_base_file_name_of_real_hudi_is_parsed_into_its_parts() -> None:
    assert parse_base_file_name(BASE_NAME) == BaseFileName(FILE_ID, "0-13-23", INSTANT, ".parquet")


@given(file_ids, tokens, instants, st.sampled_from([".parquet", ".orc", ".hfile", ".lance"]))
def test_a_base_file_name_that_was_made_is_parsed_into_the_same_parts(
    file_id: str, token: str, instant: str, extension: str
) -> None:
    name = make_base_file_name(file_id, token, instant, extension)
    assert parse_base_file_name(name) == BaseFileName(file_id, token, instant, extension)
    assert is_data_file_name(name)


@pytest.mark.parametrize(
    "name",
    [
        f".{BASE_NAME}.crc",
        f"{BASE_NAME}.crc",
        f"{BASE_NAME}.tmp",
        f".{BASE_NAME}",
        f"{BASE_NAME}\n",
        f"a/{BASE_NAME}",
        f"{FILE_ID}_0-13-23_{INSTANT}.txt",
        f"{FILE_ID}_0-13-23_.parquet",
        f"{FILE_ID}_0-13-23.parquet",
        f"x_{FILE_ID}_0-13-23_{INSTANT}.parquet",
        f"{FILE_ID}_0-13-23_٣.parquet",
        "part-00000-aa.snappy.parquet",
        "_SUCCESS",
        "",
    ],
)
def test_a_name_that_only_resembles_a_base_file_is_none(name: str) -> None:
    assert parse_base_file_name(name) is None
    assert not is_data_file_name(name)


@pytest.mark.parametrize(
    ("file_id", "token", "instant", "extension"),
    [
        ("a_b", "0-0-0", INSTANT, ".parquet"),
        ("a/b", "0-0-0", INSTANT, ".parquet"),
        ("", "0-0-0", INSTANT, ".parquet"),
        ("a", "0-0", INSTANT, ".parquet"),
        ("a", "0-0-0", "now", ".parquet"),
        ("a", "0-0-0", INSTANT, ".csv"),
        ("a", "0-0-0", INSTANT, "parquet"),
    ],
)
def test_parts_that_would_not_come_back_make_no_base_file_name(
    file_id: str, token: str, instant: str, extension: str
) -> None:
    with pytest.raises(ValueError, match="Cannot make a base file name"):
        make_base_file_name(file_id, token, instant, extension)


@given(file_ids, instants, st.integers(1, 10**6), tokens, st.booleans())
def test_a_log_file_name_that_was_made_is_parsed_into_the_same_parts(
    file_id: str, instant: str, version: int, token: str, is_cdc: bool
) -> None:
    name = make_log_file_name(file_id, instant, version, token, is_cdc)
    assert parse_log_file_name(name) == LogFileName(file_id, instant, version, token, is_cdc)
    assert is_data_file_name(name)
    assert parse_log_file_name(f".{name}.crc") is None


def test_old_log_names_without_a_write_token_are_parsed() -> None:
    assert parse_log_file_name(f".{FILE_ID}_{INSTANT}.log.12") == LogFileName(FILE_ID, INSTANT, 12, None)


def test_an_archive_file_is_a_log_file_but_no_data_file() -> None:
    name = ".commits_.archive.3_1-0-1"
    assert parse_log_file_name(name) == LogFileName("commits", "", 3, "1-0-1", is_archive=True)
    assert not is_data_file_name(name)


@pytest.mark.parametrize(
    "name",
    [
        f"..{FILE_ID}_{INSTANT}.log.1_0-1-2.crc",
        f"..{FILE_ID}_{INSTANT}.log.1_0-1-2.cdc.crc",
        f"{FILE_ID}_{INSTANT}.log.1_0-1-2",
        f".{FILE_ID}_{INSTANT}.log.1_0-1",
        f".{FILE_ID}_{INSTANT}.log.1_0-1-2.cdx",
        f".{FILE_ID}_{INSTANT}.log.",
        f".{FILE_ID}_{INSTANT}.log.{'9' * 5000}_0-1-2",
        f".a/b_{INSTANT}.log.1_0-1-2",
        ".hoodie_partition_metadata",
    ],
)
def test_a_name_that_only_resembles_a_log_file_is_none(name: str) -> None:
    assert parse_log_file_name(name) is None


@pytest.mark.parametrize(
    ("file_id", "instant", "version", "token"),
    [("a_b", INSTANT, 1, "0-0-0"), ("a", "", 1, "0-0-0"), ("a", INSTANT, 0, "0-0-0"), ("a", INSTANT, 1, "0")],
)
def test_parts_that_would_not_come_back_make_no_log_file_name(
    file_id: str, instant: str, version: int, token: str
) -> None:
    with pytest.raises(ValueError, match="Cannot make a log file name"):
        make_log_file_name(file_id, instant, version, token)


def test_a_file_id_is_a_lower_case_uuid_and_a_number() -> None:
    prefix = new_file_id_prefix()
    assert uuid.UUID(prefix).version == 4
    assert prefix == prefix.lower()
    assert make_file_id(prefix, 3) == f"{prefix}-3"
    assert new_file_id_prefix() != prefix
    with pytest.raises(ValueError, match="negative"):
        make_file_id(prefix, -1)


@pytest.mark.parametrize("io_type", list(IOType))
def test_a_marker_name_that_was_made_is_parsed_into_the_same_parts(io_type: IOType) -> None:
    name = make_marker_name(BASE_NAME, io_type)
    assert name == f"{BASE_NAME}.marker.{io_type.value}"
    assert parse_marker_name(name) == MarkerName(BASE_NAME, io_type.value)


@pytest.mark.parametrize(
    "name",
    [BASE_NAME, f"{BASE_NAME}.marker.", f"{BASE_NAME}.marker.CRE", ".marker.CREATE", f"p/{BASE_NAME}.marker.MERGE"],
)
def test_a_name_that_is_no_marker_is_none(name: str) -> None:
    assert parse_marker_name(name) is None


def test_a_marker_of_an_unknown_kind_or_of_a_path_is_not_made() -> None:
    with pytest.raises(ValueError, match=re.escape("'DELETE'")):
        make_marker_name(BASE_NAME, "DELETE")
    with pytest.raises(ValueError, match="not the name of a file"):
        make_marker_name(f"../{BASE_NAME}", IOType.CREATE)


def test_a_first_file_id_gives_its_prefix_back_and_others_are_refused() -> None:
    assert file_id_prefix(make_file_id("7d4c", 0)) == "7d4c"
    for file_id in (make_file_id("7d4c", 1), "7d4c"):
        with pytest.raises(ValueError, match="is not the first file id of a prefix"):
            file_id_prefix(file_id)
