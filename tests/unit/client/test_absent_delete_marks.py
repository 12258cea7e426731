"""Columns that mark deletes are never demanded: where the input lacks one, no row of it is a delete."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from tests.support.pairs import each_pair

MARKED = pa.table(
    {
        "id": ["a", "b"],
        "ts": pa.array([2, 2], pa.int64()),
        "_hoodie_is_deleted": pa.array([None, True]),
        "Op": ["U", "I"],
        "fare": [20.0, 20.0],
    }
)
PAYLOADS = {
    "flag": {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload"},
    "marker": {
        "hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
        "hoodie.payload.delete.field": "Op",
        "hoodie.payload.delete.marker": "D",
    },
    "dms": {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.AWSDmsAvroPayload"},
    "partial": {"hoodie.datasource.write.payload.class": "org.apache.hudi.common.model.PartialUpdateAvroPayload"},
}


def loads(*names: str) -> list[pa.Table]:
    """Full load without marks, changes with all of them, and later rows with some."""
    plain = pa.table({"id": ["a", "b", "c"], "ts": pa.array([1, 1, 1], pa.int64()), "fare": [1.0, 1.0, 1.0]})
    later = pa.table({"id": ["a", "d"], "ts": pa.array([3, 3], pa.int64()), "fare": [30.0, 30.0]})
    for name in names:
        later = later.append_column(name, pa.nulls(2, MARKED.schema.field(name).type))
    return [plain, MARKED, later]


@each_pair(
    version=[6, 9],
    kind=["COPY_ON_WRITE", "MERGE_ON_READ"],
    payload=list(PAYLOADS),
    given=[(), ("Op",), ("_hoodie_is_deleted",)],
)
def test_a_load_without_marks_is_taken_before_and_after_loads_with_them(
    tmp_path: Path, version: int, kind: str, payload: str, given: tuple[str, ...]
) -> None:
    path = str(tmp_path / "t")
    properties = {
        "hoodie.write.table.version": version, "hoodie.datasource.write.table.type": kind, **PAYLOADS[payload]
    }  # fmt: skip
    marked = MARKED.set_column(3, "Op", [["U", "D"]]) if payload == "marker" else MARKED
    if payload in ("flag", "partial"):
        marked = marked.drop_columns(["Op"])
        given = tuple(name for name in given if name != "Op")
    plain, _, later = loads(*given)
    options = {"record_key_fields": "id", "ordering_fields": "ts", "properties": properties}
    hoodie.write_table(plain, path, **options)
    hoodie.write_table(marked, path, properties=properties)
    hoodie.write_table(later, path, properties=properties)
    found = {row["id"]: row["fare"] for row in hoodie.read_table(path).to_pylist()}
    assert found == {"a": 30.0, "c": 1.0, "d": 30.0}


@pytest.mark.parametrize("kind", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_a_mark_that_the_first_load_says_is_never_null_is_not_demanded_later(tmp_path: Path, kind: str) -> None:
    path = str(tmp_path / "t")
    flag = pa.field("_hoodie_is_deleted", pa.bool_(), nullable=False)
    first = pa.table(
        [["a", "b"], [1.0, 1.0], [False, False]],
        schema=pa.schema([("id", pa.string()), ("fare", pa.float64()), flag]),
    )
    properties = {"hoodie.datasource.write.table.type": kind}
    hoodie.write_table(first, path, record_key_fields="id", properties=properties)
    hoodie.write_table(pa.table({"id": ["a"], "fare": [2.0]}), path)
    deletes = first.slice(1, 1).set_column(2, flag, [[True]])
    hoodie.write_table(deletes, path)
    assert hoodie.read_table(path).select(["id", "fare"]).to_pylist() == [{"id": "a", "fare": 2.0}]


def test_a_first_load_with_a_marker_that_no_column_has_is_taken_and_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(loads()[0], path, record_key_fields="id", ordering_fields="ts", properties=PAYLOADS["marker"])
    assert "hoodie.payload.delete.field = Op names a column that neither the input nor the table has" in caplog.text
    assert hoodie.read_table(path).num_rows == 3
