"""Tables by name, while others change the entries meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import HoodieConfigException, HoodieSyncException
from tests.support.fake_metastore import FakeMetastore


@pytest.fixture
def metastore() -> Iterator[FakeMetastore]:
    with FakeMetastore() as started:
        yield started


def rows(*keys: str) -> pa.Table:
    return pa.table({"id": list(keys), "ts": [1] * len(keys)})


def make(metastore: FakeMetastore, path: Path, name: str = "default.t", **arguments: str) -> None:
    hoodie.write_table(
        rows("a"), name, catalog=metastore.uri, location=path, record_key_fields="id", ordering_fields="ts",
        table_type=arguments.get("table_type", "COPY_ON_WRITE"),
    )  # fmt: skip


def test_a_table_does_not_take_its_name_back(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "old")
    table = hoodie.Table("default.t", catalog=metastore.uri)
    hoodie.catalog(metastore.uri).drop("default.t")
    make(metastore, tmp_path / "new")
    (error,) = table.upsert(rows("b")).service_errors
    assert "is the table at" in error
    assert hoodie.catalog(metastore.uri).path("default.t") == str(tmp_path / "new")
    with pytest.raises(HoodieSyncException, match="by now"):
        table.sync()
    assert hoodie.Table(tmp_path / "old").count() == 2


def test_a_name_that_is_taken_during_the_write_stays(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "other", "default.race")
    other = metastore.entries.pop(("default", "race"))

    def take() -> None:
        metastore.entries["default", "race"] = other

    metastore.on("get_table_req", 2, does=take)
    with pytest.raises(HoodieSyncException, match="The table stays"):
        make(metastore, tmp_path / "mine", "default.race")
    assert hoodie.catalog(metastore.uri).path("default.race") == str(tmp_path / "other")
    assert hoodie.Table(tmp_path / "mine").count() == 1


def test_a_drop_takes_all_names_though_one_is_gone(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "t", table_type="MERGE_ON_READ")
    catalog = hoodie.catalog(metastore.uri)
    catalog.drop("default.t_ro")
    hoodie.write_table(rows("b"), "default.t", catalog=metastore.uri)
    times = {entry.parameters["last_commit_time_sync"] for entry in metastore.entries.values()}
    assert len(times) == 1
    hoodie.Table("default.t", catalog=metastore.uri).drop()
    assert catalog.tables() == []


def test_a_folder_within_the_files_of_another_table_is_refused(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "t")
    with pytest.raises(HoodieConfigException, match="belongs to another table"):
        make(metastore, tmp_path / "t" / ".hoodie" / "x", "default.inner")


def test_an_entry_with_two_folders_is_told(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "t")
    metastore.entry("t").sd.location = "file:/elsewhere"
    with pytest.raises(HoodieSyncException, match="names two folders"):
        hoodie.Table("default.t", catalog=metastore.uri)


def test_a_view_is_not_dropped(tmp_path: Path, metastore: FakeMetastore) -> None:
    make(metastore, tmp_path / "t")
    metastore.entry("t").tableType = "VIRTUAL_VIEW"
    with pytest.raises(hoodie.HoodieException):
        hoodie.catalog(metastore.uri).drop("default.t")
    assert ("default", "t") in metastore.entries
