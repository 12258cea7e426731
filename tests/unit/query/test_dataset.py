"""`hoodie.dataset`, by itself and below DuckDB and polars."""

from __future__ import annotations

import math
import pickle
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from hypothesis import HealthCheck, given, settings

import hoodie
from hoodie.exception import HoodieException, HoodieSchemaException
from hoodie.query.dataset import HoodieDataset
from tests.support.filter_cases import SCHEMA, expressions, in_memory, tables
from tests.support.table_builder import init_table, local_client, rows

NAN = math.nan
FLOATS = [1.0, NAN, 1.0, -0.0, 0.0, None, 7.0, NAN]


def dataset_of(path: Path, table: pa.Table, **options: Any) -> HoodieDataset:
    hoodie.write_table(table, str(path), record_key_fields="id", **options)
    return hoodie.dataset(str(path))


@pytest.fixture
def floats(tmp_path: Path) -> tuple[HoodieDataset, pa.Table]:
    """Floats whose statistics leave out NaN and the sign of zero, each in a file of its own and together."""
    count = len(FLOATS)
    table = pa.table({"id": list(range(2 * count)), "p": ["one"] * count + list("abcdefgh"), "v": FLOATS * 2})
    return dataset_of(tmp_path / "t", table, partition_fields="p"), table


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), wanted=expressions())
@pytest.mark.one_in(4)
def test_a_filter_of_a_dataset_chooses_the_rows_that_it_chooses_in_memory(
    tmp_path_factory: pytest.TempPathFactory, table: pa.Table, wanted: pc.Expression
) -> None:
    if not table.num_rows:
        return
    found = dataset_of(tmp_path_factory.mktemp("t") / "t", table)
    try:
        chosen = found.to_table(columns=["id"], filter=wanted)
    except (pa.ArrowException, HoodieSchemaException):
        return
    expected = in_memory(table, wanted)
    if expected is None:
        return
    assert sorted(chosen["id"].to_pylist()) == sorted(expected)
    assert found.count_rows(filter=wanted) == len(expected)
    assert sorted(found.filter(wanted).to_table()["id"].to_pylist()) == sorted(expected)


CONDITIONS = [
    "v = 1", "v <> 1", "v > 0.5", "v < 0.5", "v >= 1", "not (v < 5)", "v = 0", "v in (0, 7)", "v is null", "isnan(v)",
    "v = 'nan'::double", "v > 5 or id = 3", "p = 'one' and v >= 7", "p in ('b', 'd')", "id between 3 and 9",
]  # fmt: skip


@pytest.mark.parametrize("condition", CONDITIONS)
def test_duckdb_finds_the_same_rows_as_in_memory(floats: tuple[HoodieDataset, pa.Table], condition: str) -> None:
    stored, table = floats
    # A table of DuckDB's own is the judge: there it hands no filter to Arrow.
    values = table.to_pydict()
    connection = duckdb.connect()
    connection.execute("create table plain (id bigint, p varchar, v double)")
    connection.executemany("insert into plain values (?, ?, ?)", list(zip(*values.values(), strict=True)))
    expected = connection.execute(f"select id from plain where {condition} order by id").fetchall()
    connection.register("arrow", ds.dataset(table))
    of_arrow = connection.execute(f"select id from arrow where {condition} order by id").fetchall()
    connection.register("stored", stored)
    found = connection.execute(f"select id from stored where {condition} order by id").fetchall()
    # DuckDB 1 overlooks NaN in comparisons with any dataset of Arrow.
    is_old = int(duckdb.__version__.partition(".")[0]) < 2
    assert found == expected or (is_old and found == of_arrow)


POLARS = [
    pl.col("v") == 1.0, pl.col("v") != 1.0, pl.col("v") > 0.5, pl.col("v") < 0.5, ~(pl.col("v") < 5.0),
    pl.col("v") == 0.0, pl.col("v").is_in([0.0, 7.0]), pl.col("v").is_null(), pl.col("v").is_nan(),
    pl.col("p") == "one", (pl.col("p") == "b") | (pl.col("id") == 3), pl.col("id").is_between(3, 9),
]  # fmt: skip


@pytest.mark.parametrize("condition", POLARS, ids=str)
def test_polars_finds_the_same_rows_as_in_memory(floats: tuple[HoodieDataset, pa.Table], condition: pl.Expr) -> None:
    # polars hands filters to Arrow, for which NaN exceeds nothing; only for Arrow's sets are zeros different.
    is_set = "is_in" in str(condition)
    judge = pl.LazyFrame(floats[1]) if is_set else pl.scan_pyarrow_dataset(ds.dataset(floats[1]))
    stored, expected = (
        one.filter(condition).select("id").collect()["id"].sort().to_list()
        for one in (pl.scan_pyarrow_dataset(floats[0]), judge)
    )
    assert stored == expected


def test_filters_and_columns_of_duckdb_are_pushed_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"id": ["a", "b"], "p": ["x", "y"], "v": [1, 2]})
    connection = duckdb.connect()
    connection.register("trips", dataset_of(tmp_path / "t", table, partition_fields="p"))
    asked: list[tuple[Any, str]] = []
    scanner = HoodieDataset.scanner

    def noted(self: HoodieDataset, columns: Any = None, filter: Any = None, **options: Any) -> ds.Scanner:
        asked.append((columns, str(filter)))
        return scanner(self, columns, filter, **options)

    monkeypatch.setattr(HoodieDataset, "scanner", noted)
    assert connection.execute("select v from trips where p = 'y'").fetchall() == [(2,)]
    ((columns, condition),) = asked
    assert "id" not in columns
    assert "p ==" in condition


def test_a_dataset_does_what_those_of_pyarrow_do(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "x", 2), ("c", "y", 3)))
    found = hoodie.dataset(path, columns=["id", "ts"])
    assert found.schema.names == ["id", "ts"]
    assert found.count_rows() == 3
    assert sorted(found.to_table()["ts"].to_pylist()) == [1, 2, 3]
    assert found.to_table(columns={"double": pc.field("ts") * 2}, filter=pc.field("id") == "b").to_pylist() == [
        {"double": 4}
    ]
    assert found.to_table(columns={"one": pc.scalar(1)}).num_rows == 3
    assert found.head(1).num_rows == 1
    assert found.take([2, 0]).num_rows == 2
    assert sum(batch.num_rows for batch in found.to_batches(batch_size=1)) == 3
    assert [row["id"] for row in found.sort_by([("ts", "descending")]).to_table().to_pylist()] == ["c", "b", "a"]
    other = ds.dataset(pa.table({"id": ["b"], "name": ["Bo"]}))
    assert found.join(other, "id", join_type="inner").to_table()["name"].to_pylist() == ["Bo"]
    assert found.replace_schema(pa.schema([("ts", pa.int64())])).to_table().column_names == ["ts"]
    with pytest.raises(HoodieException, match="cast the result"):
        found.replace_schema(pa.schema([("ts", pa.string())]))
    with pytest.raises(HoodieSchemaException, match="no column fare"):
        found.to_table(columns=["fare"])
    assert len(list(found.get_fragments())) == 2
    assert len(list(found.get_fragments(pc.field("region") == "x"))) == 1
    assert "2 partitions" in repr(found)
    copy = pickle.loads(pickle.dumps(found))
    assert copy.to_table().num_rows == 3


def test_scans_that_would_leave_out_the_filter_of_a_dataset_are_refused(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        written = client.upsert(rows(("a", "x", 1), ("b", "x", 2)))
        first = written.completion_time or written.instant_time
        client.upsert(rows(("b", "x", 3)))
    for found in (
        hoodie.dataset(path, filters=[("ts", ">", 1)]),
        hoodie.dataset(path).filter(pc.field("ts") > 1),
        hoodie.dataset(path, query_type="incremental", begin=first),
    ):
        assert found.to_table(columns=["id"]).to_pylist() == [{"id": "b"}]
        # The datasets below scan the files in C++, without the methods of the dataset.
        for scan in (
            lambda found=found: ds.dataset([found, found]).to_table(),
            lambda found=found: ds.dataset([found, found]).count_rows(),
            lambda found=found: ds.Scanner.from_dataset(found).to_table(),
        ):
            with pytest.raises(HoodieException, match=r"has a filter.*to_table\(\) or scanner\(\) of the dataset"):
                scan()
        assert sum(fragment.count_rows() for fragment in found.get_fragments()) == 2
    whole = hoodie.dataset(path)
    assert ds.dataset([whole, whole]).to_table().num_rows == 4


def test_a_dataset_holds_its_files_and_knows_older_times(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        before = hoodie.dataset(path)
        client.upsert(rows(("a", "x", 2), ("b", "y", 2)))
    assert before.to_table(columns=["ts"])["ts"].to_pylist() == [1]
    assert hoodie.dataset(path).count_rows() == 2
    assert hoodie.dataset(path, as_of=first).count_rows() == 1
    changes = hoodie.dataset(path, query_type="incremental", begin=first, filters=[("id", "=", "b")])
    assert changes.to_table(columns=["id"]).to_pylist() == [{"id": "b"}]
    assert changes.count_rows(filter=pc.field("id") == "a") == 0


def test_older_types_come_in_the_types_of_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(
        pa.table({"id": ["a"], "p": ["x"], "v": pa.array([1], pa.int32())}),
        path,
        record_key_fields="id",
        partition_fields="p",
    )
    hoodie.write_table(pa.table({"id": ["b"], "p": ["y"], "v": pa.array([2**40], pa.int64())}), path)
    found = hoodie.dataset(path)
    assert found.schema.field("v").type == pa.int64()
    assert duckdb.sql("select sum(v) from found").fetchall() == [(2**40 + 1,)]
    assert found.count_rows(filter=pc.field("v") > 1) == 1


def test_all_types_survive_duckdb_and_polars(tmp_path: Path) -> None:
    columns = [name for name in SCHEMA.names if name not in ("id", "n")]
    table = pa.table({"id": [1, 2], **{name: pa.nulls(2, SCHEMA.field(name).type) for name in columns}})
    found = dataset_of(tmp_path / "t", table)
    assert duckdb.sql("select * from found").to_arrow_table().num_rows == 2
    assert pl.scan_pyarrow_dataset(found).collect().height == 2
