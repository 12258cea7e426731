"""How deep columns may be nested: exactly as deep as they can be read again."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.util.parquet_levels import MAX_LEVELS, check_levels, check_value_levels
from hoodie.exception import HoodieException, HoodieSchemaException
from tests.support.table_builder import local_client

WRAPPED: dict[str, Callable[[pa.DataType], pa.DataType]] = {
    "s": lambda inner: pa.struct([("a", inner)]),
    "l": lambda inner: pa.list_(pa.field("element", inner)),
    "L": lambda inner: pa.large_list(inner),
    "m": lambda inner: pa.map_(pa.string(), inner),
}
VALUES: dict[str, Callable[[Any], Any]] = {
    "s": lambda inner: {"a": inner},
    "l": lambda inner: [inner],
    "m": lambda inner: [("k", inner)],
}
DEEPEST = {"s": 98, "l": 49, "m": 49, "ls": 65, "ms": 65, "lms": 58}
"""Kinds in turn, and how many levels of columns can be read."""
REFUSED = r"column 'c' is nested too deeply to be read again: .* in Parquet.*nothing was written"


def nested(kinds: str, count: int) -> pa.DataType:
    data_type = pa.int64()
    for number in range(count):
        data_type = WRAPPED[kinds[number % len(kinds)]](data_type)
    return data_type


def value(kinds: str, count: int) -> Any:
    made: Any = 1
    for number in range(count):
        made = VALUES[kinds[number % len(kinds)]](made)
    return made


def rows(kinds: str, count: int) -> pa.Table:
    return pa.table({"id": ["a"], "c": pa.array([value(kinds, count)], nested(kinds, count))})


def read_by_arrow(table: pa.Table) -> bool:
    file = io.BytesIO()
    pq.write_table(table, file)
    try:
        return bool(pq.read_table(io.BytesIO(file.getvalue())).num_rows == 1)
    except OSError:
        return False


@pytest.mark.parametrize("kinds", DEEPEST)
def test_what_is_taken_can_be_read_and_what_is_refused_cannot(kinds: str) -> None:
    deepest = DEEPEST[kinds]
    check_levels(rows(kinds, deepest).schema)
    assert read_by_arrow(rows(kinds, deepest))
    with pytest.raises(HoodieSchemaException, match=REFUSED):
        check_levels(rows(kinds, deepest + 1).schema)
    # The least release reads a level more; others that read the table may have any.
    assert not read_by_arrow(rows(kinds, deepest + 1)) or int(pa.__version__.split(".")[0]) < 18


@pytest.mark.parametrize("kinds", DEEPEST)
def test_a_table_as_deep_as_can_be_is_written_changed_and_read(tmp_path: Path, kinds: str) -> None:
    base_path = str(tmp_path / "t")
    table = rows(kinds, DEEPEST[kinds])
    hoodie.write_table(table, base_path, table_name="t", record_key_fields="id")
    hoodie.write_table(table, base_path)
    assert hoodie.read_table(base_path, columns=["id", "c"]).to_pylist() == table.to_pylist()


@pytest.mark.parametrize("count", [1, 2, 40, 400, 2000])
@pytest.mark.parametrize("kinds", DEEPEST)
def test_deeper_columns_are_refused_before_there_is_a_table(tmp_path: Path, kinds: str, count: int) -> None:
    base_path = tmp_path / "t"
    too_deep = nested(kinds, DEEPEST[kinds] + count)
    table = pa.table({"id": ["a"], "c": pa.nulls(1, too_deep)})
    with pytest.raises(HoodieSchemaException, match=REFUSED):
        hoodie.write_table(table, base_path, table_name="t", record_key_fields="id")
    with pytest.raises(HoodieException, match="column 'c' is nested too deeply"):
        HoodieTableMetaClient.init_table(base_path, table_name="t", record_key_fields="id", schema=table.schema)
    assert not base_path.exists()


def test_a_deeper_column_is_not_added_to_a_table(tmp_path: Path) -> None:
    base_path = str(tmp_path / "t")
    hoodie.write_table([{"id": "a", "c": {"n": 1}}], base_path, table_name="t", record_key_fields="id")
    deeper = pa.struct([("n", pa.int64()), ("deep", nested("ls", 65))])
    with local_client(base_path) as client:
        for operation in (client.upsert, client.insert, client.bulk_insert):
            with pytest.raises(HoodieSchemaException, match=REFUSED):
                operation(pa.table({"id": ["a"], "c": pa.nulls(1, deeper)}))
    assert hoodie.read_table(base_path, columns=["c"]).to_pylist() == [{"c": {"n": 1}}]


def avro_of_lists(count: int) -> str:
    inner = '"long"'
    for _ in range(count):
        inner = f'{{"type":"array","items":["null",{inner}]}}'
    fields = f'{{"name":"id","type":"string"}},{{"name":"c","type":["null",{inner}],"default":null}}'
    return f'{{"type":"record","name":"t_record","fields":[{fields}]}}'


def test_deeper_columns_of_an_avro_schema_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HoodieException, match="column 'c' is nested too deeply to be read again"):
        HoodieTableMetaClient.init_table(
            tmp_path / "t", table_name="t", record_key_fields="id", schema=avro_of_lists(50)
        )
    with pytest.raises(HoodieSchemaException, match=REFUSED):
        hoodie.write_table(
            [{"id": "a"}], tmp_path / "u", table_name="u", record_key_fields="id",
            properties={"hoodie.avro.schema": avro_of_lists(50)},
        )  # fmt: skip
    assert not list(tmp_path.rglob("*.parquet"))
    HoodieTableMetaClient.init_table(tmp_path / "v", table_name="t", record_key_fields="id", schema=avro_of_lists(49))
    hoodie.write_table([{"id": "a", "c": None}], tmp_path / "v")
    assert hoodie.read_table(tmp_path / "v", columns=["id"]).to_pylist() == [{"id": "a"}]


@pytest.mark.parametrize("kinds", ["s", "l", "m", "ls"])
@pytest.mark.parametrize("count", [200, 5000])
def test_deeper_dicts_and_lists_are_refused(tmp_path: Path, kinds: str, count: int) -> None:
    with pytest.raises(HoodieSchemaException, match=REFUSED):
        hoodie.write_table(
            [{"id": "a", "c": value(kinds, count)}], tmp_path / "t", table_name="t", record_key_fields="id"
        )
    assert not (tmp_path / "t").exists()


def test_a_list_that_holds_itself_is_refused() -> None:
    itself: list[Any] = []
    itself += [itself, itself]
    with pytest.raises(HoodieSchemaException, match="its values have more than 98 levels"):
        check_value_levels("c", [itself])


def test_values_as_deep_as_can_be_are_let_pass() -> None:
    check_value_levels("c", [value("s", MAX_LEVELS), None, 1, "x", value("l", 49)])


def test_all_branches_of_a_type_count() -> None:
    wide = pa.struct([("x", pa.int64()), ("deep", nested("L", 49)), ("y", pa.dictionary(pa.int8(), pa.string()))])
    with pytest.raises(HoodieSchemaException, match="it has 99 levels"):
        check_levels(pa.schema([("ok", pa.int64()), ("c", wide)]))
