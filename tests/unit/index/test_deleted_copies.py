"""Upserts of keys whose earlier copies log files have deleted: a row goes to one file group alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient
from tests.support.pairs import each_pair
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_rows, rows

INDEXES = ["SIMPLE", "BLOOM", "INMEMORY", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
MOVING = ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
MOVES = {
    "hoodie.simple.index.update.partition.path": "true",
    "hoodie.bloom.index.update.partition.path": "true",
}
LATEST_WINS = {"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING"}


def client_of(path: str, index_type: str, **given: str) -> HoodieLocalWriteClient:
    return local_client(path, {**SMALL_FILTERS, **given}, index_type=index_type, parquet_small_file_limit="0")


@pytest.fixture
def path(tmp_path: Path, table_version: int) -> str:
    return init_table(tmp_path / "t", table_type="MERGE_ON_READ")


@each_pair(["table_version"], index_type=INDEXES, operation=["insert", "bulk_insert"], table_version=[6, 8, 9])
def test_a_row_meets_the_record_that_lives(path: str, index_type: str, operation: str) -> None:
    with client_of(path, index_type) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        client.delete([HoodieKey("a", "x")])
        getattr(client, operation)(rows(("a", "x", 2)))
        client.upsert(rows(("a", "x", 3)))
        assert read_rows(path) == [("a", "x", 3), ("b", "x", 1)]
        client.delete([HoodieKey("a", "x")])
        assert read_rows(path) == [("b", "x", 1)]
        client.upsert(rows(("a", "x", 4)))
        assert read_rows(path) == [("a", "x", 4), ("b", "x", 1)]


@pytest.mark.parametrize("index_type", INDEXES)
def test_records_that_inserts_doubled_are_changed_both(path: str, index_type: str) -> None:
    with client_of(path, index_type) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 1)))
        client.upsert(rows(("b", "x", 2)))
        client.insert(rows(("a", "x", 2)))
        client.upsert(rows(("a", "x", 3)))
        assert read_rows(path) == [("a", "x", 3), ("a", "x", 3), ("b", "x", 2)]


@pytest.mark.parametrize("latest_wins", [True, False])
@pytest.mark.parametrize("index_type", MOVING)
def test_a_record_moves_back_to_where_copies_of_it_were_deleted(
    tmp_path: Path, index_type: str, latest_wins: bool
) -> None:
    path = init_table(tmp_path / "t", table_type="MERGE_ON_READ", properties=LATEST_WINS if latest_wins else {})
    with client_of(
        path, index_type, **{name: value for name, value in MOVES.items() if index_type[7:].lower() in name}
    ) as client:
        client.upsert(rows(("a", "y", 1), ("b", "y", 1)))
        client.delete([HoodieKey("a", "y")])
        client.insert(rows(("a", "y", 2)))
        client.delete([HoodieKey("a", "y")])
        client.upsert(rows(("a", "x", 3)))
        assert read_rows(path) == [("a", "x", 3), ("b", "y", 1)]
        client.upsert(rows(("a", "y", 4)))
        assert read_rows(path) == [("a", "y", 4), ("b", "y", 1)]
