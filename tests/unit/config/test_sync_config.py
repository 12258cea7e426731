"""Properties of catalog syncs."""

from __future__ import annotations

import pytest

from hoodie import HoodieWriteConfig
from hoodie.config.sync_config import (
    HiveSyncConfig,
    HiveSyncMode,
    HoodieSyncConfig,
    HoodieSyncTableStrategy,
    parse_key_values,
)
from hoodie.exception import HoodieConfigException

HIVE = "hoodie.datasource.hive_sync."


@pytest.mark.parametrize(
    ("key", "value", "is_on"),
    [
        ("hoodie.datasource.hive_sync.enable", "true", True),
        ("hoodie.datasource.meta.sync.enable", "true", True),
        ("hoodie.meta.sync.enable", "true", True),
        ("hoodie.datasource.hive_sync.enable", "false", False),
        ("hoodie.datasource.hive_sync.mode", "hms", False),
    ],
)
def test_one_of_three_options_asks_for_a_sync(key: str, value: str, is_on: bool) -> None:
    assert HoodieWriteConfig.from_properties("/t", {key: value}).sync.is_on is is_on


def test_what_is_not_given_is_none() -> None:
    hive = HoodieWriteConfig.from_properties("/t").hive_sync
    assert (hive.mode, hive.use_jdbc, hive.metastore_uris, hive.database, hive.table) == (None,) * 5
    assert (hive.partition_fields, hive.partition_extractor_class, hive.ignore_exceptions) == (None,) * 3
    assert hive.support_timestamp is None
    assert hive.table_strategy is HoodieSyncTableStrategy.ALL


def test_empty_text_is_not_given() -> None:
    names = ("mode", "metastore.uris", "database", "table", "partition_extractor_class", "table_properties")
    config = HoodieWriteConfig.from_properties(
        "/t", {f"{HIVE}{name}": " " for name in names} | {"hoodie.datasource.meta.sync.base.path": ""}
    )
    assert config.hive_sync == HiveSyncConfig()
    assert config.sync == HoodieSyncConfig()


def test_an_entry_without_partition_columns_can_be_asked_for() -> None:
    config = HoodieWriteConfig.from_properties("/t", {f"{HIVE}partition_fields": ""})
    assert config.hive_sync.partition_fields == ()


@pytest.mark.parametrize(
    ("given", "mode"), [("HMS", HiveSyncMode.HMS), ("glue", HiveSyncMode.GLUE), ("jdbc", HiveSyncMode.JDBC)]
)
def test_modes_that_a_sync_refuses_do_not_refuse_a_write(given: str, mode: HiveSyncMode) -> None:
    assert HoodieWriteConfig.from_properties("/t", {f"{HIVE}mode": given}).hive_sync.mode is mode


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", {}),
        ("a=1\nb=2", {"a": "1", "b": "2"}),
        ("  a = 1 \r\n\n \nb\nc=", {"a": "1", "b": "", "c": ""}),
        ("a=1\na=2", {"a": "2"}),
        ("filter=x=1", {"filter": "x=1"}),
    ],
)
def test_lines_of_keys_and_values(text: str, found: dict[str, str]) -> None:
    assert parse_key_values(text) == found


def test_a_line_without_a_key_is_refused() -> None:
    with pytest.raises(
        HoodieConfigException,
        match=r"table_properties = 'a=1\\n=2': must be lines of key=value, and a line has no key",
    ):
        HoodieWriteConfig.from_properties("/t", {f"{HIVE}table_properties": "a=1\n=2"})


def test_parameters_with_secrets_are_not_shown() -> None:
    config = HoodieWriteConfig.from_properties("/t", {f"{HIVE}serde_properties": "x=1\npassword=s3cr3t"})
    assert "s3cr3t" not in repr(config)
