"""A data source as PySpark's processes use it: each gets what the one before pickled. No session runs."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.support.table_builder import init_table, local_client, rows

pytest.importorskip("pyspark.sql.datasource", reason="PySpark 3.5 has no data sources in Python")

from pyspark.sql.datasource import CaseInsensitiveDict, DataSourceReader, InputPartition

from pyspark_hoodie import DefaultSource


@pytest.fixture
def path(tmp_path: Path) -> str:
    base_path = init_table(tmp_path / "t")
    with local_client(base_path) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    return base_path


def sent(value: Any) -> Any:
    return pickle.loads(pickle.dumps(value))


def rows_of(source: DefaultSource, schema: Any) -> list[tuple[Any, ...]]:
    reader = source.reader(schema)
    partitions = [sent(partition) for partition in reader.partitions()]
    task_reader, _ = sent((reader, source))
    batches = [batch for partition in partitions for batch in task_reader.read(partition)]
    return sorted((row["id"], row["ts"]) for batch in batches for row in batch.to_pylist())


def test_pyspark_finds_the_name() -> None:
    assert DefaultSource.name() == "hoodie"


def test_all_readers_of_a_load_read_the_same_files(path: str) -> None:
    source = DefaultSource(CaseInsensitiveDict({"PATH": path}))
    schema = source.schema()
    loaded = sent(source)
    with local_client(path) as client:
        client.upsert(rows(("a", "x", 2), ("c", "z", 2)))
    for _ in range(2):
        assert rows_of(loaded, schema) == [("a", 1), ("b", 1)]
    assert rows_of(sent(source), schema) == [("a", 1), ("b", 1)]


def test_tasks_do_not_get_the_plan(path: str) -> None:
    source = DefaultSource(CaseInsensitiveDict({"path": path}))
    schema = source.schema()
    assert b"ReadPlan" in pickle.dumps(source)
    reader = source.reader(schema)
    assert b"ReadPlan" not in pickle.dumps((source, reader))
    assert list(reader.read(InputPartition(None))) == []


def test_a_reader_takes_no_filters(path: str) -> None:
    source = DefaultSource(CaseInsensitiveDict({"path": path}))
    reader = source.reader(source.schema())
    push = getattr(DataSourceReader, "pushFilters", None)
    assert getattr(type(reader), "pushFilters", None) is push
