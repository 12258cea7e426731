"""Tables of real Hudi with clusterings, log compactions and an expiry are read, written on, and clustered again.

Clusterings that real Hudi planned, and did not carry out or did not finish, are carried out by hoodie.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieLocalWriteClient
from hoodie.exception import HoodieNotSupportedException
from tests.support.clustered_table import MANY_FILES, clusterings, latest_slices, pending, rows_with_meta
from tests.support.folders import files_below, make_older
from tests.support.table_builder import content, local_client
from tests.support.table_invariants import check_table

PENDING = ["v6_clu_cow_pending", "v9_clu_mor_pending", "v6_clu_cow_crashed"]
CLUSTERED = [
    "v6_clu_cow", "v9_clu_cow_rli", "v6_clu_cow_rolledback", "v9_clu_cow_cleaned", "v6_clu_mor", "v8_clu_mor",
    "v9_clu_zorder", "v9_clu_hilbert",
]  # fmt: skip
OTHERS = ["v6_logcompact", "v9_logcompact", "v9_ttl"]


@pytest.fixture
def table(serviced_tables: Path, tmp_path: Path, name: str) -> Path:
    """A copy, in another folder than that of which the plan knows."""
    (stored,) = (serviced_tables / name).iterdir()
    copy = Path(shutil.copytree(stored, tmp_path / "t"))
    # The process of Hudi that died has no heartbeat: the age of its files tells.
    make_older(files_below(copy))
    return copy


def new_client(table: Path) -> HoodieLocalWriteClient:
    return local_client(table, {key: value for key, value in MANY_FILES.items() if "bloom" not in key})


def check(table: Path, name: str, serviced_tables: Path) -> None:
    """The rows are those that the same Hudi read before, whose names of files differ."""
    found = hoodie.read_table(str(table))
    # Spark wrote times as nanoseconds.
    expected = pq.read_table(serviced_tables / "rows" / f"{name}.parquet").select(found.column_names).cast(found.schema)
    file_name = ["_hoodie_file_name"]
    assert texts(found.drop(file_name)) == texts(expected.drop(file_name))
    by_hudi_rs = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(table)).build().read())
    assert texts(by_hudi_rs.select(["_hoodie_record_key"])) == texts(found.select(["_hoodie_record_key"]))


def texts(table: pa.Table) -> list[str]:
    return sorted(map(str, table.to_pylist()))


@pytest.mark.parametrize("name", [*PENDING, *CLUSTERED, *OTHERS])
def test_tables_are_read_as_by_hudi(table: Path, name: str, serviced_tables: Path) -> None:
    check(table, name, serviced_tables)
    validated = hoodie.metadata.validate(str(table))
    assert validated.is_right, str(validated)


@pytest.mark.parametrize("name", PENDING)
def test_plans_of_hudi_are_carried_out(table: Path, name: str, serviced_tables: Path) -> None:
    (planned,) = pending(table)
    ids = {part.file_id for part in latest_slices(table)}
    with new_client(table) as client:
        assert client.schedule_clustering() is None or name.endswith("_pending")
        result = client.cluster(planned)
    assert result is not None
    assert result.instant_time == planned
    assert planned in clusterings(table)
    check(table, name, serviced_tables)
    assert len({part.file_id for part in latest_slices(table)}) < len(ids)
    check_table(table)


@pytest.mark.parametrize("name", [*PENDING, *CLUSTERED, *OTHERS])
def test_tables_are_written_on_and_clustered_again(table: Path, name: str, serviced_tables: Path) -> None:
    expected = rows_with_meta(table)
    with new_client(table) as client:
        if pending(table):
            assert client.cluster() is not None
            assert pending(table) == []
        first = hoodie.read_table(str(table)).slice(0, 2)
        change = first.drop([column for column in first.column_names if column.startswith("_hoodie_")])
        written = client.upsert(change).instant_time
        check_table(table, was_cleaned=True)
        assert keys(rows_with_meta(table)) == keys(expected)
        assert client.cluster() is not None
        assert pending(table) == []
    found = rows_with_meta(table)
    assert keys(found) == keys(expected)
    assert sum(row["_hoodie_commit_time"] == written for row in found) == 2
    changed = {row["_hoodie_record_key"] for row in found if row["_hoodie_commit_time"] == written}
    assert [row for row in found if row["_hoodie_record_key"] not in changed] == [
        row for row in expected if row["_hoodie_record_key"] not in changed
    ]
    check_table(table, was_cleaned=True)


def keys(rows: list[dict[str, Any]]) -> list[str]:
    return [row["_hoodie_record_key"] for row in rows]


@pytest.mark.parametrize("name", ["v6_chash_pending", "v9_chash_pending", "v6_chash_split", "v9_chash_merged"])
def test_buckets_on_a_ring_are_not_clustered(table: Path, name: str) -> None:
    before = content(table)
    with local_client(table) as client:
        for call in (client.schedule_clustering, client.cluster, client.explain_clustering):
            with pytest.raises(HoodieNotSupportedException, match="consistent hashing"):
                call()
    assert content(table) == before
