"""Whole syncs with a metastore in the process, by Thrift."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.exception import CatalogChangeRefusedException, HoodieSyncException
from tests.support.fake_metastore import FakeMetastore

_PREFIX = "hoodie.datasource.hive_sync."


@pytest.fixture
def metastore() -> Iterator[FakeMetastore]:
    with FakeMetastore() as started:
        yield started


def create(path: Path, **columns: pa.Array) -> hoodie.Table:
    rows = pa.table({"id": ["1", "2"], "day": ["a", "b"], "ts": [1, 1], **columns})
    return hoodie.Table.create(
        path, rows, record_key_fields="id", partition_fields="day", ordering_fields="ts", table_name="trips",
        table_type="COPY_ON_WRITE",
    )  # fmt: skip


def sync(
    synced: hoodie.Table, metastore: FakeMetastore, *, full: bool = False, check: bool = False, **options: Any
) -> Any:
    given = {"metastore.uris": metastore.uri, **options}
    (result,) = synced.sync(
        "hms", properties={_PREFIX + key: value for key, value in given.items()}, full=full, check=check
    )
    return result


def test_parts_that_an_entry_lacks_are_made(tmp_path: Path, metastore: FakeMetastore) -> None:
    """Programs of others write entries without a serde, and partitions without a descriptor."""
    table = create(tmp_path)
    sync(table, metastore)
    metastore.entry("trips").sd.serdeInfo = None
    for partition in metastore.parts["default", "trips"].values():
        partition.sd.location = None
    checked = sync(table, metastore, check=True)
    assert "the partition a is at " in checked.entries[0].differences
    sync(table, metastore, full=True)
    assert not sync(table, metastore, check=True).has_differences
    assert metastore.entry("trips").sd.serdeInfo.parameters["path"] == str(tmp_path)


def test_a_struct_with_another_field_is_refused_or_made_anew(tmp_path: Path, metastore: FakeMetastore) -> None:
    table = create(tmp_path, place=pa.array([{"x": 1}] * 2))
    sync(table, metastore)
    wider = pa.array([{"x": 1, "y": 2}], pa.struct([("x", pa.int64()), ("y", pa.int64())]))
    table.upsert(pa.table({"id": ["3"], "day": ["c"], "ts": [1], "place": wider}))
    with pytest.raises(CatalogChangeRefusedException) as refused:
        sync(table, metastore)
    text = str(refused.value)
    assert "column place is struct<x:bigint>, and struct<x:bigint,y:bigint> in the table" in text
    assert "recreate_table_on_error" in text
    assert len(metastore.parts["default", "trips"]) == 2
    result = sync(table, metastore, recreate_table_on_error=True)
    assert result.entries[0].is_recreated
    assert len(metastore.parts["default", "trips"]) == 3
    assert not sync(table, metastore, check=True).has_differences


def test_names_that_a_metastore_does_not_take_are_told(tmp_path: Path, metastore: FakeMetastore) -> None:
    table = create(tmp_path)
    with pytest.raises(HoodieSyncException, match=r"letters, digits and underscores: set .*hive_sync.table"):
        sync(table, metastore, table="my trips")


def test_upper_case_names_are_the_same_entry(tmp_path: Path, metastore: FakeMetastore) -> None:
    table = create(tmp_path)
    sync(table, metastore, table="Trips", database="Rides")
    result = sync(table, metastore, table="TRIPS", database="RIDES")
    assert not result.entries[0].is_changed
    assert list(metastore.entries) == [("rides", "trips")]
