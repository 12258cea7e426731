"""Tables with all indexes, written and read; `make test-pyarrow` runs this with other releases of Arrow."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
import hoodie.metadata
from hoodie import HoodieLocalWriteClient, HoodieWriteConfig

OPTIONS = {
    "hoodie.metadata.enable": True,
    "hoodie.metadata.index.column.stats.enable": True,
    "hoodie.metadata.index.bloom.filter.enable": True,
    "hoodie.metadata.global.record.level.index.enable": True,
}
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        "day": pa.string(),
        "ts": pa.int64(),
        "price": pa.decimal128(12, 2),
        "at": pa.timestamp("us", "UTC"),
        "on": pa.date32(),
        "tags": pa.list_(pa.string()),
        "counts": pa.map_(pa.string(), pa.struct({"n": pa.int32(), "of": pa.map_(pa.string(), pa.float64())})),
    }
)


def rows(first: int, end: int) -> pa.Table:
    """Rows whose nested values are null, empty or filled."""
    return pa.Table.from_pylist(
        [
            {
                "id": f"k{number}",
                "day": f"d{number % 3}",
                "ts": number,
                "price": Decimal(number).scaleb(-2),
                "at": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number),
                "on": datetime.date(1970, 1, 1) + datetime.timedelta(days=number),
                "tags": [None, [], ["a", None, str(number)]][number % 3],
                "counts": [None, [], [("a", {"n": number, "of": [("x", 0.5)]}), ("b", None)]][number % 3],
            }
            for number in range(first, end)
        ],
        SCHEMA,
    )


@pytest.mark.parametrize("version", [9, 6])
@pytest.mark.parametrize("table_type", ["MERGE_ON_READ", "COPY_ON_WRITE"])
def test_what_is_written_is_read(tmp_path: Path, table_type: str, version: int) -> None:
    table = str(tmp_path / "t")
    options = {
        **OPTIONS,
        "hoodie.datasource.write.table.type": table_type,
        "hoodie.write.table.version": version,
        "hoodie.logfile.data.block.format": "avro",
    }
    hoodie.write_table(
        rows(0, 60), table, record_key_fields="id", partition_fields="day", ordering_fields="ts", properties=options
    )
    hoodie.write_table(rows(30, 80), table, properties=options)
    hoodie.write_table(rows(0, 9).select(["id", "day"]), table, operation="delete", properties=options)
    expected = rows(9, 80).to_pylist()

    def check() -> None:
        found = hoodie.read_table(table, columns=SCHEMA.names).sort_by("ts")
        assert found.to_pylist() == expected
        assert hoodie.read_table(table, filters=[("price", ">", Decimal("0.70")), ("id", "!=", "k75")]).num_rows == 8
        assert hoodie.read_table(table, filters=[("_hoodie_record_key", "=", "k77")]).num_rows == 1

    check()
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(table, {})) as client:
        if table_type == "MERGE_ON_READ":
            client.compact()
        client.clean()
    check()
    assert hoodie.metadata.validate(table).is_right
