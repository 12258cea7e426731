"""Columns that begin to allow nulls, and columns with names of every alphabet, with real Hudi writing in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, assert_all_agree
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.with_merge_on_read]

DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
OPTIONS = {
    **SIMPLE.hudi_options("t"),
    "hoodie.datasource.write.payload.class": DEFAULT_PAYLOAD,
}
OLD_LISTS = "parquet.avro.write-old-list-structure"
"""A setting of Hadoop: with its default, Hudi stores no null elements, whoever wrote them first."""


def required(name: str, data_type: pa.DataType) -> pa.Field:
    return pa.field(name, data_type, nullable=False)


KEYS = [("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())]
STRICT = pa.schema(
    [
        *(required(*key) for key in KEYS),
        required("v", pa.string()),
        required("s", pa.struct([required("x", pa.int32())])),
        required("l", pa.list_(required("element", pa.int32()))),
        required("m", pa.map_(pa.string(), required("value", pa.int32()))),
    ]
)
RELAXED = pa.schema(
    [
        *KEYS,
        ("v", pa.string()),
        ("s", pa.struct([("x", pa.int32())])),
        ("l", pa.list_(pa.int32())),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)
FULL: Row = {"v": "a", "s": {"x": 1}, "l": [1, 2], "m": [("k", 1)]}
WITHIN: Row = {"v": "b", "s": {"x": None}, "l": [1, None], "m": [("k", None)]}
NOTHING: Row = {"v": None, "s": None, "l": None, "m": None}


def rows(numbers: Sequence[int], ts: int, values: Row) -> list[Row]:
    return [{"id": f"k{n}", "region": SIMPLE.regions[n % 2], "ts": ts, **values} for n in numbers]


@pytest.fixture
def null_elements(hudis: Sequence[HudiProcess]) -> Iterator[None]:
    """Real Hudi stores null elements of lists."""
    for hudi in hudis:
        hudi.set_hadoop_property(OLD_LISTS, "false")
    yield
    for hudi in hudis:
        hudi.set_hadoop_property(OLD_LISTS, None)


@pytest.mark.usefixtures("null_elements")
def test_columns_that_begin_to_allow_nulls_are_read_and_merged_by_all(
    tmp_path: Path, hudis: Sequence[HudiProcess], table_type: str
) -> None:
    path = tmp_path / "t"
    model = TableModel(SIMPLE, STRICT, event_time=True)
    HoodieTableMetaClient.init_table(str(path), table_name="t", **SIMPLE.init_arguments())
    inline = {"hoodie.compact.inline": "false"} if table_type == "MERGE_ON_READ" else {}

    def by_hoodie(given: list[Row]) -> None:
        model.upsert(given)
        with local_client(path, inline) as client:
            client.upsert(model.table(given))

    by_hoodie(rows(range(12), 1, FULL))
    by_hoodie(rows([0, 1], 2, FULL))
    model.schema = RELAXED
    by_hoodie(rows([1, 2], 3, WITHIN) + rows([3, 4, 20], 3, NOTHING))
    assert_all_agree(path, model, *hudis)
    for turn, hudi in enumerate(hudis):
        given = rows([5 + turn, 1], 4 + turn, WITHIN) + rows([7 + turn, 3], 4 + turn, NOTHING)
        model.upsert(given)
        hudi.write(path, model.table(given), OPTIONS)
        assert_all_agree(path, model, *hudis)
    by_hoodie(rows([0, 9], 9, WITHIN) + rows([5, 10], 9, FULL))
    assert_all_agree(path, model, *hudis)
    if table_type == "MERGE_ON_READ":
        with local_client(path, inline) as client:
            client.compact()
        assert_all_agree(path, model, *hudis)


def test_columns_with_names_of_every_alphabet_and_of_avros_types(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    # Hudi's merge of a base file makes a schema without namespaces, in which no record may be called "long".
    struct_name = "long" if table_type == "MERGE_ON_READ" else "структура"
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "번호",
        "hoodie.datasource.write.partitionpath.field": "größe",
        "hoodie.datasource.write.precombine.field": "время",
        "hoodie.datasource.write.payload.class": DEFAULT_PAYLOAD,
    }
    struct = pa.struct([("値", pa.int32()), ("int", pa.int64())])

    def table(numbers: Sequence[int], ts: int, name: str | None) -> pa.Table:
        columns: dict[str, Any] = {
            "번호": [f"k{n}" for n in numbers],
            "größe": ["ж"] * len(numbers),
            "время": [ts] * len(numbers),
            "名字": pa.array([name] * len(numbers), pa.string()),
            struct_name: pa.array([{"値": n, "int": ts} for n in numbers], struct),
        }
        return pa.table(columns)

    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    fields = {"record_key_fields": "번호", "partition_fields": "größe", "ordering_fields": "время"}
    HoodieTableMetaClient.init_table(str(ours), table_name="t", **fields)
    for path in (ours, theirs):
        expected = {}
        for turn, numbers in enumerate((range(6), [1, 2], [2, 9], [3])):
            given = table(numbers, turn, None if turn == 3 else f"п{turn}")
            expected |= {row["번호"]: row for row in given.to_pylist()}
            if (turn % 2 == 0) == (path == ours):
                with local_client(path, {}) as client:
                    client.upsert(given)
            else:
                hudi.write(path, given, options)
            for found in (hoodie.read_table(str(path)), hudi.read(path)):
                assert {row["번호"]: row for row in found.select(given.column_names).to_pylist()} == expected
