"""Records that say where they live."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import (
    HoodieKey,
    HoodieLocalWriteClient,
    HoodieRecord,
    HoodieRecordLocation,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.exception import HoodieKeyException, HoodieUpsertException
from tests.support.table_builder import init_table, local_client, read_trips, rows

STORED = [("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return Path(init_table(tmp_path / "t"))


@pytest.fixture
def client(path: Path) -> Iterator[HoodieLocalWriteClient]:
    with local_client(path) as client:
        client.upsert(rows(*STORED))
        yield client


def doubled(path: Path) -> pa.Table:
    table = hoodie.read_table(str(path), filters=[("id", "in", ["a", "c"])])
    return table.set_column(table.schema.get_field_index("fare"), "fare", pc.multiply(table["fare"], 10))


@pytest.mark.parametrize("form", ["table", "pandas", "reader", "batches"])
def test_rows_that_were_read_go_back_to_where_they_came_from(
    path: Path, client: HoodieLocalWriteClient, form: str
) -> None:
    table = doubled(path)
    given = {
        "table": table,
        "pandas": table.to_pandas(),
        "reader": table.to_reader(),
        "batches": iter(table.to_batches()),
    }[form]
    result = client.upsert_prepped_records(given)
    assert read_trips(path) == [("a", "x", 1, 10.0), ("b", "x", 1, 2.0), ("c", "y", 1, 30.0)]
    assert (result.updated_count, result.inserted_count) == (2, 0)
    assert result.commit_metadata.operation_type is WriteOperationType.UPSERT_PREPPED
    assert "tag location" not in {step.name for step in result.steps}


def test_a_row_without_a_file_name_is_new(path: Path, client: HoodieLocalWriteClient) -> None:
    table = doubled(path)
    new = {"_hoodie_record_key": "d", "_hoodie_partition_path": "z", "id": "d", "region": "z", "ts": 4, "fare": 4.0}
    client.upsert_prepped_records(pa.concat_tables([table, pa.Table.from_pylist([new], table.schema)]))
    assert read_trips(path) == [("a", "x", 1, 10.0), ("b", "x", 1, 2.0), ("c", "y", 1, 30.0), ("d", "z", 4, 4.0)]


def test_hoodie_records_say_their_location(path: Path, client: HoodieLocalWriteClient) -> None:
    stored = hoodie.read_table(str(path)).to_pylist()
    place = {row["id"]: row["_hoodie_file_name"].split("_")[0] for row in stored}
    instant_time = stored[0]["_hoodie_commit_time"]
    records = [
        HoodieRecord(
            HoodieKey("a", "x"),
            {"id": "a", "region": "x", "ts": 2, "fare": 9.0},
            current_location=HoodieRecordLocation(instant_time, place["a"]),
        ),
        HoodieRecord(
            HoodieKey("b", "x"),
            operation=RecordOperation.DELETE,
            current_location=HoodieRecordLocation(instant_time, place["b"]),
        ),
        HoodieRecord(HoodieKey("n", "y"), {"id": "n", "region": "y", "ts": 2, "fare": 7.0}),
    ]
    result = client.upsert_prepped_records(records)
    assert read_trips(path) == [("a", "x", 2, 9.0), ("c", "y", 1, 3.0), ("n", "y", 2, 7.0)]
    assert (result.updated_count, result.inserted_count, result.deleted_count) == (1, 1, 1)


def test_a_late_record_loses_as_in_an_upsert(path: Path, client: HoodieLocalWriteClient) -> None:
    table = doubled(path)
    late = table.set_column(table.schema.get_field_index("ts"), "ts", pa.array([0, 0], pa.int64()))
    client.upsert_prepped_records(late)
    assert read_trips(path) == STORED


def test_records_that_are_not_where_they_say_fail_the_write(path: Path, client: HoodieLocalWriteClient) -> None:
    table = doubled(path)
    client.delete([HoodieKey("a", "x")])
    with pytest.raises(HoodieUpsertException, match="does not hold their keys now, such as 'a'.*Read them again"):
        client.upsert_prepped_records(table)
    client.delete([HoodieKey("c", "y")])
    unknown = ["4d0e3c2f-5b1c-4f0a-9f8e-0123456789ab-0_0-1-1_20260101000000000.parquet"] * 2
    elsewhere = table.set_column(
        table.schema.get_field_index("_hoodie_file_name"), "_hoodie_file_name", pa.array(unknown)
    )
    with pytest.raises(HoodieUpsertException, match="2 file groups that the table does not have now"):
        client.upsert_prepped_records(elsewhere)
    assert read_trips(path) == [("b", "x", 1, 2.0)]


def test_input_that_says_too_little_or_a_changed_key_is_refused(path: Path, client: HoodieLocalWriteClient) -> None:
    with pytest.raises(HoodieKeyException, match="do not carry their location.*Or use upsert"):
        client.upsert_prepped_records(rows(*STORED))
    with pytest.raises(HoodieKeyException, match="do not carry their location"):
        client.upsert_prepped_records(pd.DataFrame({"id": ["a"], "region": ["x"], "ts": [1], "fare": [1.0]}))
    table = doubled(path)
    renamed = table.set_column(table.schema.get_field_index("id"), "id", pa.array(["a", "k"]))
    with pytest.raises(HoodieKeyException, match="1 records have another _hoodie_record_key .* 'c' and 'k'"):
        client.upsert_prepped_records(renamed)
    odd = table.set_column(
        table.schema.get_field_index("_hoodie_file_name"), "_hoodie_file_name", pa.array(["part-0", "part-1"])
    )
    with pytest.raises(HoodieKeyException, match="'part-0' in _hoodie_file_name is no name of a base file"):
        client.upsert_prepped_records(odd)
    assert read_trips(path) == STORED


def test_a_changed_partition_is_refused_unless_the_index_lets_records_stay(
    path: Path, client: HoodieLocalWriteClient
) -> None:
    table = doubled(path)
    moved = table.set_column(table.schema.get_field_index("region"), "region", pa.array(["x", "z"]))
    with pytest.raises(HoodieKeyException, match="1 records have another _hoodie_partition_path .* 'y' and 'z'"):
        client.upsert_prepped_records(moved)
    assert read_trips(path) == STORED
    staying = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "false"}
    with local_client(path, staying) as c:
        c.upsert(rows(("c", "z", 2, 3.5)))
        c.upsert_prepped_records(hoodie.read_table(str(path)))
    assert read_trips(path) == [*STORED[:2], ("c", "z", 2, 3.5)]


@pytest.mark.parametrize("operation", ["insert_prepped_records", "bulk_insert_prepped_records"])
def test_prepped_inserts_are_neither_combined_nor_looked_up(path: Path, operation: str) -> None:
    properties = {"hoodie.combine.before.insert": "true", "hoodie.datasource.insert.dup.policy": "fail"}
    with local_client(path, properties) as client:
        client.insert(rows(*STORED))
        result = getattr(client, operation)(rows(("a", "x", 2, 2.0), ("a", "x", 2, 3.0)))
    assert read_trips(path) == sorted([*STORED, ("a", "x", 2, 2.0), ("a", "x", 2, 3.0)])
    assert result.inserted_count == 2
