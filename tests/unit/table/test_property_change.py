"""Changes of a table's properties by `hoodie.Table.set_properties`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieTableType, HoodieWriteConfig, Table
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieConfigException, HoodieLockException
from hoodie.transaction.transaction_manager import TransactionManager

ROWS = pa.table({"id": ["a"], "city": ["oslo"], "ts": [5]})
MakeTable = Callable[..., Table]


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> HoodieTableType:
    """Both types of tables."""
    found: HoodieTableType = request.param
    return found


@pytest.fixture
def table(tmp_path: Path, table_version: int, table_type: HoodieTableType) -> Table:
    """A table of one row."""
    return Table.create(
        tmp_path / "trips", ROWS, record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=table_type, table_version=table_version,
    )  # fmt: skip


def stored(table: Table) -> bytes:
    """The properties file."""
    return Path(table.path, ".hoodie", "hoodie.properties").read_bytes()


def test_properties_are_set_and_unset(table: Table) -> None:
    before, file = table.properties(), stored(table)
    planned = table.set_properties({"my.owner": "ann"}, dry_run=True)
    assert (planned.is_dry_run, stored(table)) == (True, file)
    done = table.set_properties({"my.owner": "ann", "my.copies": 2, "my.flag": True})
    assert [(change.key, change.after) for change in done.properties] == [
        ("my.copies", "2"), ("my.flag", "true"), ("my.owner", "ann"),
    ]  # fmt: skip
    assert table.properties() == {**before, "my.owner": "ann", "my.copies": "2", "my.flag": "true"}
    file = stored(table)
    assert table.set_properties({"my.owner": "ann"}, unset=["my.none"]).properties == ()
    assert stored(table) == file
    table.set_properties({"my.owner": "bob"}, unset=["my.copies", "my.flag"])
    assert table.properties() == {**before, "my.owner": "bob"}
    table.upsert(ROWS)
    assert table.properties()["my.owner"] == "bob"


@pytest.mark.parametrize(
    ("change", "instead"),
    [
        ({"hoodie.table.version": 8.5}, "call upgrade or downgrade"),
        ({"hoodie.table.recordkey.fields": "city"}, "copy the rows into a new table"),
        ({"hoodie.table.partition.fields": ""}, "copy the rows into a new table"),
        ({"hoodie.datasource.write.hive_style_partitioning": "maybe"}, "copy the rows into a new table"),
        ({"hoodie.table.name": "other"}, "locks and writers go by it"),
        ({"hoodie.table.metadata.partitions": "none"}, "create_index"),
        ({"hoodie.table.create.schema": "{}"}, "add_columns"),
        ({"hoodie.table.cdc.enabled": "perhaps"}, "true and false are supported"),
        ({"hoodie.table.news": 1}, "does not know this property"),
        ({"HOODIE.table.name": "other"}, "in lower case"),
        ({"hoodie.table.cdc.supplemental.logging.mode": "all"}, "it is OP_KEY_ONLY, DATA_BEFORE or"),
        ({"hoodie.table.cdc.supplemental.logging.mode": "data_before"}, "has no meaning without"),
        ({"my.list": {}}, "must be"),
        ({7: "a"}, "give text"),
        ([("a", "b")], "give a dict"),
    ],
)
def test_what_would_break_the_table_is_refused(table: Table, change: Any, instead: str) -> None:
    file = stored(table)
    with pytest.raises(HoodieConfigException, match=instead) as refused:
        table.set_properties(change)
    assert "nothing was changed" in str(refused.value) or "give a dict" in str(refused.value)
    assert stored(table) == file


@pytest.mark.parametrize("key", ["hoodie.table.name", "hoodie.table.type", "hoodie.table.recordkey.fields"])
def test_what_a_table_needs_is_not_unset(table: Table, key: str) -> None:
    with pytest.raises(HoodieConfigException, match=key):
        table.set_properties(unset=[key])
    with pytest.raises(HoodieConfigException, match="set too"):
        table.set_properties({"my.key": 1}, unset=["my.key"])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"hoodie.table.precombine.field": "ts.x"}, "no column ts.x"),
        ({"hoodie.table.ordering.fields": "ts.x"}, "no column ts.x"),
        ({"hoodie.payload.delete.field": "nope", "hoodie.payload.delete.marker": "D"}, "no column nope"),
        ({"hoodie.record.merge.property.hoodie.payload.delete.field": "nope"}, "no column nope"),
        ({"hoodie.payload.delete.field": "city"}, "go together|not the value that marks them"),
    ],
)
def test_a_table_whose_records_could_not_be_merged_is_refused(
    table: Table, table_type: str, change: dict[str, str], why: str
) -> None:
    file = stored(table)
    with pytest.raises(HoodieConfigException, match="would merge otherwise" if table_type == "MERGE_ON_READ" else why):
        table.set_properties(change)
    with pytest.raises(HoodieConfigException, match="set too"):
        table.set_properties({" my.key": 1}, unset=["my.key "])
    assert stored(table) == file


def test_another_ordering_field_counts_from_then_on(table: Table, table_type: str, table_version: int) -> None:
    key = "hoodie.table.precombine.field" if table_version == 6 else "hoodie.table.ordering.fields"
    if table_type == "MERGE_ON_READ":
        with pytest.raises(HoodieConfigException, match="would merge otherwise"):
            table.set_properties({key: "city"})
        return
    with pytest.raises(HoodieConfigException, match="no column when"):
        table.set_properties({key: "when"})
    later = {"id": ["a"], "city": ["oslo"], "ts": [1]}
    table.upsert(pa.table(later))
    assert table.read("ts")["ts"].to_pylist() == [5]
    table.set_properties({key: "city"})
    table.upsert(pa.table(later))
    assert table.read("ts")["ts"].to_pylist() == [1]


def test_a_property_that_hoodie_does_not_know_may_be_removed(table: Table) -> None:
    path = Path(table.path, ".hoodie", "hoodie.properties")
    path.write_text(f"hoodie.table.news=1\n{path.read_text()}")
    with pytest.raises(Exception, match="does not know this property"):
        table.upsert(ROWS)
    table.set_properties({"my.owner": "ann"}, unset=["hoodie.table.news"])
    table.upsert(ROWS)


def test_a_secret_is_not_shown(table: Table) -> None:
    shown = repr(table.set_properties({"my.password": "pearl"}))
    assert "my.password" in shown and "pearl" not in shown
    assert table.properties()["my.password"] == "pearl"


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
            "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
        },
    ],
)
def test_a_change_waits_for_the_lock(table: Table, options: Mapping[str, str]) -> None:
    waiting = {"hoodie.write.lock.wait_time_ms": "300", "hoodie.write.lock.client.num_retries": "0", **options}
    other = Table(table.path, properties=waiting)
    file = stored(table)
    manager = TransactionManager(HoodieWriteConfig.from_properties(table.path, options))
    with manager.held(TableSnapshot.load(table.path, None), "a test"):
        if options:
            with pytest.raises(HoodieLockException):
                other.set_properties({"my.owner": "ann"})
        else:
            # Clients of one process share the lock of a single writer; the mutex of the table keeps threads apart.
            thread = threading.Thread(target=lambda: other.set_properties({"my.owner": "ann"}))
            thread.start()
            time.sleep(0.3)
        assert stored(table) == file
    manager.close()
    if not options:
        thread.join()
    other.set_properties({"my.owner": "ann"})
    assert table.properties()["my.owner"] == "ann"
