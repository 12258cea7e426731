"""The table of most tests: its rows, its clients, what it holds, its files and its timeline.

Rows are tuples of ``id``, ``region``, ``ts`` and, where a test wants one more column, ``fare``; the key is ``id``, the
partition ``region``, the ordering ``ts``:

    path = init_table(tmp_path / "t")
    with local_client(path, index_type="BLOOM") as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    assert read_rows(path) == [("a", "x", 1), ("b", "y", 1)]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.index.index import IndexedRecords, IndexedTable, SnapshotListing, TagRequest
from hoodie.io.merging_reader import LogMerging
from hoodie.merge.merge_spec import MergeSpec
from tests.support.folders import files_below

__all__ = [
    "SCHEMA",
    "SMALL_FILTERS",
    "TRIPS",
    "content",
    "indexed_table",
    "init_table",
    "instants",
    "local_client",
    "properties_of",
    "read_placed_trips",
    "read_rows",
    "read_trips",
    "rows",
    "rows_of_keys",
    "sorted_rows",
    "spark_rows",
    "write_action",
    "write_config",
]

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
TRIPS = SCHEMA.append(pa.field("fare", pa.float64()))
"""`SCHEMA` and a value."""
SMALL_FILTERS = {"hoodie.index.bloom.num_entries": 100, "hoodie.bloom.index.filter.type": "SIMPLE"}
"""A filter for the default of 60,000 keys is most of a tiny file, which sweeps copy, write and read at each failure."""


def rows(*entries: Iterable[Any], schema: pa.Schema | None = None) -> pa.Table:
    """Rows to write.

    Args:
        entries: The values of each row, in the order of the schema.
        schema: Of the rows; by default `TRIPS` where the first row has as many values, else `SCHEMA`.
    """
    columns = [list(entry) for entry in entries]
    if schema is None:
        schema = TRIPS if columns and len(columns[0]) == len(TRIPS) else SCHEMA
    return pa.Table.from_pylist([dict(zip(schema.names, values, strict=True)) for values in columns], schema)


def rows_of_keys(keys: Iterable[str], ts: int = 1, **values: Any) -> pa.Table:
    """Rows that differ in their keys only: ``id``, ``ts``, and columns of one value each."""
    ids = list(keys)
    columns = {"id": ids, "ts": pa.array([ts] * len(ids), pa.int64())}
    return pa.table(columns | {name: [value] * len(ids) for name, value in values.items()})


def spark_rows(spark: Any, *entries: tuple[Any, ...]) -> Any:
    """`rows` as a frame of Spark."""
    columns = "id string, region string, ts bigint"
    return spark.createDataFrame(
        list(entries), columns if len(entries[0]) == len(SCHEMA) else f"{columns}, fare double"
    )


def init_table(path: str | Path, **arguments: Any) -> str:
    """Make an empty table of `rows`, and give its path.

    Args:
        path: Its folder.
        arguments: For `HoodieTableMetaClient.init_table`, instead of the defaults.
    """
    defaults: dict[str, Any] = {
        "table_name": "t",
        "record_key_fields": ["id"],
        "partition_fields": ["region"],
        "ordering_fields": ["ts"],
    }
    HoodieTableMetaClient.init_table(str(path), **{**defaults, **arguments})
    return str(path)


def write_action() -> Action:
    """The action of upserts, inserts and deletes, on tables that tests make without naming a type."""
    table_type = HoodieTableMetaClient.init_table.__kwdefaults__["table_type"]
    return Action.DELTA_COMMIT if table_type == HoodieTableType.MERGE_ON_READ else Action.COMMIT


def properties_of(**given: Any) -> dict[str, Any]:
    """Properties by short names.

    ``index_type`` is ``hoodie.index.type``; where the property's own name has an underscore, each of its dots is
    written as two: ``hoodie__index__bloom__num_entries``. Names with dots are left as they are.
    """

    def name_of(short: str) -> str:
        if "." in short:
            return short
        return short.replace("__", ".") if "__" in short else "hoodie." + short.replace("_", ".")

    return {name_of(short): value for short, value in given.items()}


def write_config(path: str | Path, **given: Any) -> HoodieWriteConfig:
    """A configuration by `properties_of`."""
    return HoodieWriteConfig.from_properties(str(path), properties_of(**given))


def local_client(
    path: str | Path,
    properties: Mapping[str, Any] | None = None,
    *,
    parallelism: int | None = None,
    storage_options: Any = None,
    **given: Any,
) -> HoodieLocalWriteClient:
    """A client of the local engine.

    Args:
        path: The table.
        properties: By their own names.
        parallelism: Of the engine; its default otherwise.
        storage_options: Of the table's storage.
        given: More properties, by `properties_of`.
    """
    config = HoodieWriteConfig.from_properties(
        str(path), {**(properties or {}), **properties_of(**given)}, storage_options
    )
    return HoodieLocalWriteClient(config, None if parallelism is None else LocalEngineContext(parallelism=parallelism))


def read_rows(path: str | Path, columns: Sequence[str] = SCHEMA.names, **options: Any) -> list[tuple[Any, ...]]:
    """What a table holds, in order.

    Args:
        path: The table.
        columns: What is read of each row.
        options: For `hoodie.read_table`.
    """
    return sorted_rows(hoodie.read_table(str(path), columns=list(columns), **options))


def read_trips(path: str | Path, **options: Any) -> list[tuple[Any, ...]]:
    """What a table of `TRIPS` holds; see `read_rows`."""
    return read_rows(path, TRIPS.names, **options)


def read_placed_trips(path: str | Path) -> list[tuple[Any, ...]]:
    """What a table of `TRIPS` holds, and the partition path that each row lies in."""
    return read_rows(path, [*TRIPS.names, "_hoodie_partition_path"])


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as tuples, in order."""
    return sorted(tuple(row.values()) for row in table.to_pylist())


def content(path: str | Path) -> dict[str, bytes]:
    """All files of a table by their paths in it, but the notes of the process that holds the table now."""
    files = (file for file in sorted(files_below(path)) if file.parent.name != ".locks")
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in files}


def instants(path: str | Path) -> list[tuple[str, str, str]]:
    """The active timeline: time, action and state of each instant, in order."""
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    return [(instant.requested_time, str(instant.action), instant.state.name) for instant in timeline]


def indexed_table(
    snapshot: TableSnapshot, partitions: Iterable[str] | None = None, request: TagRequest | None = None
) -> IndexedTable:
    """The latest slices of a table, as an index searches them.

    Args:
        snapshot: The table.
        partitions: The partitions to search; by default all.
        request: The caller's request.
    """
    view, schema = snapshot.view(), snapshot.load_schema()
    return IndexedTable(
        snapshot.storage,
        {path: view.latest_file_slices(path) for path in partitions or view.list_partitions()},
        snapshot.base_path,
        IndexedRecords(
            schema,
            merge_spec=MergeSpec.from_table_config(snapshot.table_config),
            log_merging=LogMerging.of_table(snapshot, schema),
        ),
        request or TagRequest(),
        SnapshotListing(snapshot),
    )
