"""Tables with buckets by consistent hashing are read, and not written to."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.exception import HoodieNotSupportedException
from tests.support.table_builder import content, local_client

REFUSAL = "has buckets with consistent hashing .*consistent_hashing_metadata has their rings.*nothing was written"


@pytest.mark.parametrize("name", ["v6_chash_pending", "v9_chash_pending", "v6_chash_split", "v9_chash_merged"])
def test_they_are_read_and_not_written_to(serviced_tables: Path, tmp_path: Path, name: str) -> None:
    (stored,) = (serviced_tables / name).iterdir()
    table = Path(shutil.copytree(stored, tmp_path / "t"))
    found = hoodie.read_table(str(table))
    expected = pq.read_table(serviced_tables / "rows" / f"{name}.parquet").select(found.column_names)
    assert sorted(map(str, found.to_pylist())) == sorted(map(str, expected.to_pylist()))
    before = content(table)
    rows = found.drop([column for column in found.column_names if column.startswith("_hoodie_")]).slice(0, 1)
    for operation in ("insert", "upsert", "bulk_insert", "delete", "insert_overwrite_table"):
        with local_client(table) as client, pytest.raises(HoodieNotSupportedException, match=REFUSAL):
            getattr(client, operation)(rows)
    assert content(table) == before


def test_a_table_with_other_buckets_is_written_to(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "ts": [1]})
    options = {"hoodie.index.type": "BUCKET", "hoodie.datasource.write.table.type": "MERGE_ON_READ"}
    for _ in range(2):
        hoodie.write_table(rows, str(tmp_path / "t"), record_key_fields="id", ordering_fields="ts", properties=options)
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 1
