"""Tables that hudi-rs 0.6 wrote are read, and written on; what is odd in them stands in the way of nobody."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.metadata import validate
from tests.support.table_builder import local_client

TABLES = [
    f"v9_{table_type}_{form}_{metadata}"
    for table_type in ("cow", "mor")
    for form in ("city", "flat")
    for metadata in ("default", "no_metadata", "no_record_index")
]


def rows_of(path: Path) -> list[dict[str, Any]]:
    rows = hoodie.read_table(str(path)).to_pylist()
    return sorted(
        ({k: v for k, v in row.items() if not k.startswith("_hoodie_")} for row in rows), key=lambda row: row["id"]
    )


@pytest.fixture(params=TABLES)
def copy(request: pytest.FixtureRequest, hudi_rs_06_tables: Path, tmp_path: Path) -> Path:
    """A copy of one of the tables."""
    return Path(shutil.copytree(hudi_rs_06_tables / request.param / request.param, tmp_path / request.param))


def expected_rows(tables: Path, name: str) -> list[dict[str, Any]]:
    rows = pq.read_table(tables / "rows" / f"{name}.parquet").to_pylist()
    return sorted(rows, key=lambda row: str(row["id"]))


def test_its_tables_are_read_and_written_on(
    copy: Path, hudi_rs_06_tables: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="hoodie")
    expected = expected_rows(hudi_rs_06_tables, copy.name)
    assert rows_of(copy) == expected
    assert validate(str(copy)).is_right
    model = {row["id"]: row for row in expected}
    schema = HoodieTableMetaClient.load(str(copy)).load_schema()
    new = {**expected[0], "id": "new"}
    changed = {**expected[1], "ts": expected[1]["ts"] + 1000, "price": None}
    hoodie.write_table(pa.Table.from_pylist([new, changed], schema=schema), str(copy))
    model |= {"new": new, changed["id"]: changed}
    assert rows_of(copy) == [model[key] for key in sorted(model)]
    with local_client(copy) as client:
        gone = pa.Table.from_pylist([expected[2], new], schema=schema)
        assert client.delete(gone).deleted_count == 2
    del model["new"], model[expected[2]["id"]]
    assert rows_of(copy) == [model[key] for key in sorted(model)]
    assert validate(str(copy)).is_right
    if "flat" in copy.name:
        assert (copy / ".hoodie_partition_metadata").exists()
    assert caplog.messages == []


def test_other_sizes_of_columns_are_a_line_of_their_own(hudi_rs_06_tables: Path) -> None:
    result = validate(str(hudi_rs_06_tables / "v9_mor_city_default" / "v9_mor_city_default"))
    assert result.is_right and result.differences == ()
    assert result.size_counts == {"column_stats": 117}
    assert "column_stats: 117 records with other sizes of columns than here, which change no row" in repr(result)
