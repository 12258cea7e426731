"""A merge reads only the columns that decide where every stored row gets an incoming one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig, HoodieWriteResult
from hoodie.io import merge_source
from hoodie.io.merge_source import LateColumns, MergeSource

COUNT = 11
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("rider", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
Rows = dict[str, dict[str, Any]]


def row(number: int, ts: int, fare: float | None) -> dict[str, Any]:
    rider = None if number % 4 == 1 else f"rider-{number % 3}"
    return {"id": f"key-{number:02}", "rider": rider, "ts": ts, "fare": fare, "tags": [f"t{number}"] * (number % 3)}


def stored_rows() -> Rows:
    return {made["id"]: made for made in (row(number, 100 + number, float(number)) for number in range(COUNT))}


def newer_rows() -> Rows:
    """A newer row for each stored one, in another order."""
    numbers = sorted(range(COUNT), key=lambda number: number * 7 % COUNT)
    made = (row(number, 500 - number, None if number == 3 else number / 8) for number in numbers)
    return {one["id"]: one for one in made}


@pytest.fixture(params=[True, False], ids=["keys are copied", "keys are decoded"])
def client(request: pytest.FixtureRequest, tmp_path: Path) -> HoodieLocalWriteClient:
    """A client of a table with one base file, of which a merge reads three rows at a time."""
    request.getfixturevalue("splices_small_files" if request.param else "monkeypatch")
    request.getfixturevalue("monkeypatch").setattr(merge_source, "MERGE_BATCH_ROWS", 3)
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(path, table_name="t", record_key_fields=["id"], ordering_fields=["ts"])
    made = HoodieLocalWriteClient(HoodieWriteConfig.from_properties(path, {}))
    upsert(made, stored_rows())
    return made


@pytest.fixture
def late_row_groups(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of row groups of which other columns were read after all."""
    seen: list[int] = []
    read = MergeSource._late_row_group

    def noted(self: MergeSource, number: int, *arguments: Any) -> Any:
        seen.append(number)
        return read(self, number, *arguments)

    monkeypatch.setattr(MergeSource, "_late_row_group", noted)
    return seen


def upsert(client: HoodieLocalWriteClient, rows: Rows) -> HoodieWriteResult:
    return client.upsert(pa.Table.from_pylist(list(rows.values()), SCHEMA))


def base_file(client: HoodieLocalWriteClient) -> pa.Table:
    (file_slice,) = HoodieTableMetaClient.load(client.config.base_path).view().latest_file_slices("")
    assert file_slice.base_file is not None
    return pq.read_table(file_slice.base_file.path)


def check(client: HoodieLocalWriteClient, expected: Rows, new_keys: set[str], instant_time: str) -> None:
    """Compare the base file, with its meta columns and its order, with expected rows."""
    found = base_file(client)
    assert found.select(SCHEMA.names).to_pylist() == list(expected.values())
    assert found["_hoodie_record_key"].to_pylist() == list(expected)
    is_new = [time == instant_time for time in found["_hoodie_commit_time"].to_pylist()]
    assert is_new == [key in new_keys for key in expected]
    numbers = found["_hoodie_commit_seqno"].to_pylist()
    assert len(set(numbers)) == len(numbers)
    assert [number.startswith(instant_time) for number in numbers] == is_new


def test_where_all_rows_are_replaced_no_other_column_is_read(
    client: HoodieLocalWriteClient, late_row_groups: list[int]
) -> None:
    incoming = newer_rows()
    result = upsert(client, incoming)
    check(client, {key: incoming[key] for key in stored_rows()}, set(incoming), result.instant_time)
    assert late_row_groups == []


@pytest.mark.parametrize("number", [0, 4, COUNT - 1])
def test_a_stored_row_that_wins_is_read_whole(
    client: HoodieLocalWriteClient, late_row_groups: list[int], number: int
) -> None:
    key = f"key-{number:02}"
    incoming = newer_rows() | {key: row(number, 1, 99.0)}
    result = upsert(client, incoming)
    expected = {one: incoming[one] for one in stored_rows()} | {key: stored_rows()[key]}
    check(client, expected, set(incoming) - {key}, result.instant_time)
    assert late_row_groups == [0]
    assert result.without_effect.ignored == 1


@pytest.mark.parametrize("fare", [4.0, 5.0])
def test_rows_that_may_equal_stored_ones_are_compared_in_all_columns(
    client: HoodieLocalWriteClient, late_row_groups: list[int], fare: float
) -> None:
    incoming = newer_rows() | {"key-04": row(4, 104, fare)}
    result = upsert(client, incoming)
    check(client, {one: incoming[one] for one in stored_rows()}, set(incoming), result.instant_time)
    assert late_row_groups == [0]
    assert result.without_effect.unchanged == (fare == 4.0)


def test_where_one_row_has_no_incoming_one_all_columns_are_read_at_once(
    client: HoodieLocalWriteClient, late_row_groups: list[int]
) -> None:
    incoming = newer_rows()
    del incoming["key-05"]
    result = upsert(client, incoming)
    check(client, stored_rows() | incoming, set(incoming), result.instant_time)
    assert late_row_groups == []


def test_late_columns_give_any_later_rows_of_batches_with_other_ends() -> None:
    rows = pa.table({"a": range(20)})
    late = LateColumns(["a"], lambda: iter(rows.to_batches(max_chunksize=4)), 100)
    assert late.of_rows(101, 2)["a"].to_pylist() == [1, 2]
    assert late.of_rows(103, 6)["a"].to_pylist() == [3, 4, 5, 6, 7, 8]
    assert late.of_rows(116, 4)["a"].to_pylist() == [16, 17, 18, 19]
