"""`Table.optimize`: small files put together, rows in order, and what it tells."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie.exception import HoodieConfigException
from tests.support.table_builder import SMALL_FILTERS

every_type = pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])


def rows(first: int, count: int, ts: int = 1) -> pa.Table:
    ids = range(first, first + count)
    return pa.table({
        "id": [f"k{number:04d}" for number in ids], "ts": [ts] * count, "city": [f"c{number % 2}" for number in ids],
        "fare": [float(number * 7919 % 1000) for number in ids], "age": [number * 31 % 97 for number in ids],
    })  # fmt: skip


@pytest.fixture
def table_type() -> str:
    return "COPY_ON_WRITE"


@pytest.fixture
def table(tmp_path: Path, table_type: str, table_version: int) -> hoodie.Table:
    """A table of three files in each of two partitions."""
    made = hoodie.Table.create(
        str(tmp_path / "t"), rows(0, 40), record_key_fields="id", partition_fields="city", ordering_fields="ts",
        table_type=table_type, properties=SMALL_FILTERS,
    )  # fmt: skip
    for number in (1, 2):
        made.bulk_insert(rows(number * 40, 40))
    return made


def stored(table: hoodie.Table) -> list[dict[str, object]]:
    return table.read(meta_columns=True).drop_columns(["_hoodie_file_name"]).sort_by("id").to_pylist()


@every_type
def test_small_files_are_put_together_once(table: hoodie.Table) -> None:
    before = stored(table)
    planned = table.optimize(dry_run=True)
    assert (planned.files_before, planned.files_after, planned.is_dry_run) == (6, 2, True)
    assert "optimize: 6 files in 2 partitions would become about 2" in str(planned)
    assert len(table.files()) == 6
    done = table.optimize()
    assert (done.files_before, done.files_after) == (6, 2)
    assert done.instant_time is not None and done.instant_time in str(done)
    assert stored(table) == before
    assert len(table.files()) == 2
    assert not table.validate().differences
    again = table.optimize()
    assert again.instant_time is None and str(again) == "optimize: nothing to put together"


@every_type
def test_rows_are_ordered_by_columns_and_the_overlap_shrinks(table: hoodie.Table) -> None:
    before = stored(table)
    small = {"hoodie.clustering.plan.strategy.target.file.max.bytes": 1 << 10, **SMALL_FILTERS}
    planned = table.optimize(["fare", "age"], properties=small, dry_run=True)
    done = table.optimize(["fare", "age"], properties=small)
    assert planned.overlap_before == done.overlap_before
    assert [one.column for one in planned.overlap_after] == ["fare", "age"]
    assert "a value of fare lies in" in planned.headline and "then in about 1.0" in planned.headline
    assert stored(table) == before
    assert done.sort_columns == ("fare", "age") and done.layout == "LINEAR"
    for file in table.files():
        fares = pq.read_table(Path(table.path, file.partition_path, file.file_name), columns=["fare"])["fare"]
        assert fares.to_pylist() == sorted(fares.to_pylist())
    depth = {found.column: found.mean_depth for found in done.overlap_before}
    now = {found.column: found.mean_depth for found in done.overlap_after}
    assert depth.keys() == now.keys() == {"fare", "age"}
    assert (now["fare"] or 0) < (depth["fare"] or 0)
    assert "a value of fare lies in" in done.headline


@pytest.mark.parametrize("layout", ["zorder", "hilbert", "Z-ORDER"])
def test_rows_lie_along_curves(table: hoodie.Table, layout: str) -> None:
    before = stored(table)
    done = table.optimize(["fare", "age"], layout=layout)
    assert done.layout == layout.upper().replace("-", "")
    assert stored(table) == before


def test_partitions_that_are_named_alone(table: hoodie.Table) -> None:
    done = table.optimize(partitions=["c1"])
    assert [(one.partition_path, one.files_before, one.files_after) for one in done.partitions] == [("c1", 3, 1)]
    assert len(table.files()) == 4
    assert table.optimize(partitions=[]).instant_time is None
    assert table.optimize(partitions=["nowhere"]).instant_time is None


def test_a_file_that_is_alone_is_rewritten_for_its_order_only(table: hoodie.Table) -> None:
    table.optimize()
    assert table.optimize(dry_run=True).files_before == 0
    assert table.optimize("fare").files_before == 2


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (["nowhere"], {}, "the table has no column nowhere; give columns of id, ts, city, fare, age"),
        (["fare", "fare"], {}, "each once"),
        (None, {}, "give the names of columns"),
        ([1], {}, "give the names of columns"),
        (["fare"], {"layout": "spiral"}, "hoodie.layout.optimize.strategy"),
        ([], {"properties": {"hoodie.clustering.plan.strategy.class": "SparkMine"}}, "is not supported"),
    ],
)
def test_wrong_arguments_are_told_before_anything_is_planned(
    table: hoodie.Table, columns: list[str], options: dict[str, object], message: str
) -> None:
    for dry_run in (True, False):
        with pytest.raises(HoodieConfigException, match=message):
            table.optimize(columns, dry_run=dry_run, **options)  # type: ignore[arg-type]
    assert not [one for one in table.history() if "cluster" in one.action or one.action == "replacecommit"]


def test_a_partition_whose_name_has_a_comma(tmp_path: Path) -> None:
    data = rows(0, 30).set_column(2, "city", pa.array([("a", "b", "a,b")[number % 3] for number in range(30)]))
    made = hoodie.Table.create(
        str(tmp_path / "t"), data, record_key_fields="id", partition_fields="city", properties=SMALL_FILTERS
    )
    made.bulk_insert(data)
    done = made.optimize(partitions=["a,b"])
    assert [(one.partition_path, one.files_before, one.files_after) for one in done.partitions] == [("a,b", 2, 1)]


def test_a_partition_that_is_not_there_is_told(table: hoodie.Table, caplog: pytest.LogCaptureFixture) -> None:
    assert table.optimize(partitions=["nowhere"]).instant_time is None
    assert "has no partition 'nowhere'" in caplog.text


def test_a_plan_that_is_pending_is_told(table: hoodie.Table) -> None:
    with hoodie.HoodieLocalWriteClient(hoodie.HoodieWriteConfig.from_properties(table.path)) as client:
        planned = client.schedule_clustering()
        assert client.pending_clusterings() == [planned]
    for told in (table.optimize(dry_run=True), table.optimize()):
        assert told.pending == (planned,)
        assert f"nothing to put together; clustering {planned} is pending" in str(told)
