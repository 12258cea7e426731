"""Tables whose columns have names of every alphabet, or the names of Avro's own types."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from tests.support.table_builder import local_client

STATISTICS = {"hoodie.metadata.index.column.stats.enable": "true"}


def written_in_turn(path: Path, rows: pa.Table, changed: pa.Table, table_type: str, **fields: str) -> pa.Table:
    """What is read after an insert, an update and, in a merge-on-read table, a compaction."""
    HoodieTableMetaClient.init_table(str(path), table_name="t", table_type=table_type, **fields)
    is_merge_on_read = table_type == "MERGE_ON_READ"
    with local_client(path, {**STATISTICS, **({"hoodie.compact.inline": "false"} if is_merge_on_read else {})}) as c:
        c.upsert(rows)
        c.upsert(changed)
        before = hoodie.read_table(str(path), columns=rows.column_names)
        if is_merge_on_read:
            c.compact()
            assert hoodie.read_table(str(path), columns=rows.column_names).equals(before)
    return before


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("table_version", [6, 9], indirect=True)
def test_names_of_every_alphabet_are_keys_folders_orders_and_values(tmp_path: Path, table_type: str) -> None:
    rows = pa.table(
        {
            "번호": ["a", "b"],
            "größe": ["ж", "x"],
            "время": [1, 1],
            "名字": ["v", None],
            "s": pa.array([{"値": 1, "naïve": [{"имя": "y"}]}, None]),
        }
    )
    changed = rows.slice(0, 1).set_column(2, "время", pa.array([2])).set_column(3, "名字", pa.array(["w"]))
    fields = {"record_key_fields": "번호", "partition_fields": "größe", "ordering_fields": "время"}
    found = written_in_turn(tmp_path / "t", rows, changed, table_type, **fields)
    assert found.sort_by("번호").to_pylist() == [*changed.to_pylist(), *rows.slice(1).to_pylist()]
    for filters in ([("名字", "==", "w")], [("größe", "==", "ж")]):
        assert hoodie.read_table(str(tmp_path / "t"), columns=["번호"], filters=filters).to_pylist() == [{"번호": "a"}]


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_structs_with_the_names_of_avros_types_stand_beside_columns_of_these_types(
    tmp_path: Path, table_type: str
) -> None:
    names = ("int", "long", "float", "double", "bytes", "string", "boolean", "null", "record", "array", "union")
    inner = pa.struct([("x", pa.int32()), ("long", pa.int64()), ("string", pa.struct([("string", pa.string())]))])
    value = {"x": 1, "long": 2, "string": {"string": "y"}}
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], **{name: pa.array([value, None], inner) for name in names}})
    rows = rows.append_column("n", pa.array([1, 2], pa.int32())).append_column("text", pa.array(["x", "y"]))
    changed = rows.slice(1).set_column(1, "ts", pa.array([2])).set_column(2, "int", pa.array([value], inner))
    fields = {"record_key_fields": "id", "ordering_fields": "ts"}
    found = written_in_turn(tmp_path / "t", rows, changed, table_type, **fields)
    assert found.sort_by("id").to_pylist() == [*rows.slice(0, 1).to_pylist(), *changed.to_pylist()]
