"""Rows that ask for a delete, where more than an ordering value decides whether they win: merge-on-read tables show
what copy-on-write tables do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieRecordMerger, MergeOutcome
from tests.support.table_builder import SCHEMA, init_table, local_client, rows, sorted_rows

MERGER = "hoodie.write.record.merge.custom.implementation.classes"
FLAGGED = pa.schema([*SCHEMA, ("fare", pa.float64()), ("_hoodie_is_deleted", pa.bool_())])
DEBEZIUM = pa.schema(
    [*SCHEMA, ("_event_seq", pa.string()), ("_event_lsn", pa.int64()), ("_change_operation_type", pa.string())]
)
every_type = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


class LargestFare(HoodieRecordMerger):
    """Keeps the row with the larger fare."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["fare"], older["fare"]))


@every_type
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_a_merger_decides_whether_a_flagged_row_deletes(tmp_path: Path, table_type: str, table_version: int) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, payload_class=LargestFare)
    properties: dict[str, Any] = {MERGER: LargestFare}
    with local_client(path, properties) as client:
        client.upsert(rows(*((key, "x", 5, 10.0, None) for key in "abc"), schema=FLAGGED))
        changes = [("a", "x", 6, 5.0, True), ("b", "x", 6, 20.0, True), ("n", "x", 6, 1.0, True)]
        result = client.upsert(rows(*changes, schema=FLAGGED))
        assert result.updated_count == 0
        found = hoodie.read_table(path, columns=["id", "fare"], options=properties)
        assert sorted_rows(found) == [("a", 10.0), ("c", 10.0)]
        if table_type == "MERGE_ON_READ":
            client.compact()
            assert sorted_rows(hoodie.read_table(path, columns=["id", "fare"])) == [("a", 10.0), ("c", 10.0)]


@every_type
@pytest.mark.parametrize("table_version", [6, 8], indirect=True)
@pytest.mark.parametrize("payload_class", ["MySqlDebeziumAvroPayload", "PostgresDebeziumAvroPayload"])
def test_a_late_delete_of_a_database_loses_whatever_its_ordering_value(
    tmp_path: Path, table_type: str, table_version: int, payload_class: str
) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, payload_class=payload_class)

    def events(ts: int, *given: tuple[str, int, str]) -> pa.Table:
        return rows(*((key, "x", ts, f"{at}.0", at, operation) for key, at, operation in given), schema=DEBEZIUM)

    with local_client(path) as client:
        client.upsert(events(1, *((key, 50, "c") for key in "abcd")))
        client.upsert(events(2, ("c", 70, "u"), ("d", 70, "u")))
        client.upsert(events(3, ("a", 40, "d"), ("b", 60, "d"), ("c", 60, "d"), ("d", 80, "d")))
        found = sorted_rows(hoodie.read_table(path, columns=["id", "_event_lsn"]))
        assert found == [("a", 50), ("c", 70)]


@every_type
@pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
def test_of_equal_ordering_values_the_first_one_stays(tmp_path: Path, table_type: str, table_version: int) -> None:
    path = init_table(tmp_path / "t", table_type=table_type, payload_class="FirstValueAvroPayload")
    with local_client(path) as client:
        client.upsert(rows(*((key, "x", 5, 1.0, None) for key in "abc"), schema=FLAGGED))
        client.upsert(rows(("a", "x", 5, 1.0, True), ("b", "x", 6, 1.0, True), schema=FLAGGED))
    assert sorted_rows(hoodie.read_table(path, columns=["id", "ts"])) == [("a", 5), ("c", 5)]
