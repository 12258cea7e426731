"""The list of Hudi's property names."""

from __future__ import annotations

import pytest

from hoodie.common.config.property import all_keys
from hoodie.config.hudi_keys import KeyClass, find_hudi_key, load_hudi_keys
from hoodie.config.write_config import GROUPS


def test_the_names_in_use_are_those_that_fields_read() -> None:
    listed = {key for key, entry in load_hudi_keys().items() if entry.key_class is KeyClass.USED}
    assert listed == {key for key, prop in all_keys(GROUPS.values()).items() if not prop.is_ours}


def test_no_key_is_read_by_two_fields() -> None:
    keys = [key for group in GROUPS.values() for key in all_keys([group])]
    assert len(keys) == len(set(keys))


def test_every_name_that_is_not_used_says_why() -> None:
    for entry in load_hudi_keys().values():
        assert (entry.note != "") == (entry.key_class is not KeyClass.USED), entry.key
        assert set(entry.versions) <= {"0.13", "0.15", "1.x"}
        assert entry.versions
        if entry.key_class not in (KeyClass.REFUSED, KeyClass.IGNORED):
            assert not entry.harmless_values


@pytest.mark.parametrize(
    ("key", "key_class"),
    [
        ("hoodie.datasource.hive_sync.enable", KeyClass.USED),
        ("hoodie.datasource.hive_sync.use_spark_catalog", KeyClass.IGNORED),
        ("hoodie.datasource.hive_sync.jdbcurl", KeyClass.HARMLESS),
        ("hoodie.cleaner.commits.retained", KeyClass.USED),
        ("hoodie.clean.commits.retained", KeyClass.USED),
        ("hoodie.write.lock.dynamodb.table", KeyClass.USED),
        ("hoodie.streamer.ingestion.db.table.configFile", KeyClass.HARMLESS),
        ("hoodie.record.merge.property.something.else", KeyClass.REFUSED),
        ("hoodie.schema.on.read.enable", KeyClass.REFUSED),
        ("hoodie.auto.commit", KeyClass.USED),
        ("hoodie.clustering.preserve.commit.metadata", KeyClass.IGNORED),
        ("hoodie.compaction.preserve.commit.metadata", KeyClass.IGNORED),
    ],
)
def test_names_are_found_with_their_class(key: str, key_class: KeyClass) -> None:
    entry = find_hudi_key(key)
    assert entry is not None
    assert entry.key_class is key_class


def test_a_name_that_hudi_does_not_have_is_not_found() -> None:
    assert find_hudi_key("hoodie.record.merge.propertie.x") is None
