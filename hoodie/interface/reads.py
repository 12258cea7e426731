"""Functions that read a table in one call, by its path or by its name in a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Unpack

import pyarrow as pa

from hoodie.common.config.property import all_keys, check_properties
from hoodie.config.log_merge_config import HoodieLogMergeConfig
from hoodie.config.read_config import HoodieReadConfig
from hoodie.merge.merge_properties import MERGER_KEYS
from hoodie.query import arrow_reader
from hoodie.query.arrow_reader import scan
from hoodie.query.read_plan import ReadPlan
from hoodie.query.table_query import ReadArguments, shows_arguments
from hoodie.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from hoodie.query.change_plan import ChangePlan
    from hoodie.query.dataset import HoodieDataset
    from hoodie.sync.catalog_tables import CatalogTables

_READ_KEYS = frozenset(key.lower() for key in (*all_keys([HoodieReadConfig, HoodieLogMergeConfig]), *MERGER_KEYS))


def read_options(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The options of reads among properties.

    Args:
        properties: The properties.
    """
    return {key: value for key, value in properties.items() if str(key).lower() in _READ_KEYS}


@shows_arguments
def plan_read(
    base_path: str,
    *,
    catalog: CatalogTables | str | None = None,
    storage_options: StorageOptions | None = None,
    **arguments: Unpack[ReadArguments],
) -> ReadPlan | ChangePlan:
    """Plan a read of a table: the files that `read_table` would read, and the files that it would leave out and why.

    Arguments and errors are those of `read_table`. The plan of changes (``query_format="cdc"``) is a
    `hoodie.query.change_plan.ChangePlan`: its ``next_begin`` is the begin of the query that goes on from there.

        >>> import hoodie
        >>> print(hoodie.plan_read("/data/trips", filters=[("uuid", "=", "t42")]).explain())  # doctest: +SKIP
    """
    if catalog is None:
        return arrow_reader.plan_read(base_path, storage_options=storage_options, **arguments)
    # Imported here: a read by path needs no catalog, and starts earlier without.
    from hoodie.sync.catalog_tables import CatalogTables, read_optimized_options

    given = arguments.get("options") or {}
    check_properties(given, "options")
    tables = CatalogTables.of(catalog, storage_options=storage_options)
    named = tables.resolve(base_path)
    options = {**read_options(named.properties), **given}
    if named.is_read_optimized:
        options = read_optimized_options(named, arguments.get("query_type"), options)
    arguments["options"] = options
    return arrow_reader.plan_read(named.path, storage_options=tables.storage_options, **arguments)


@shows_arguments
def read_table(
    base_path: str,
    *,
    catalog: CatalogTables | str | None = None,
    storage_options: StorageOptions | None = None,
    **arguments: Unpack[ReadArguments],
) -> pa.Table:
    """The committed rows of a table: the newest ones, those as of a time, or those that a range of commits wrote.

    Args:
        base_path: The table's folder; with ``catalog`` its name, ``database.table``.
        columns: Names, or one name, in the order of the result; None for all, Hudi's meta columns first.
        filters: A condition on rows: a text (``"fare > 50 and city = 'oslo'"``, see `hoodie.query.filter_text`), an
            expression, or lists of tuples as `pyarrow.parquet.read_table` takes them; None or an empty list for all
            rows. Partitions, files and row groups without such rows are not read.
        query_type: ``snapshot``; ``incremental``, which needs ``begin``; or ``read_optimized``, which reads only base
            files: of a merge-on-read table the rows of its last compaction.
        query_format: The form of an incremental query: ``latest_state``, or ``cdc`` for the changes of rows, deletes
            included: ``op`` (``i``, ``u`` or ``d``), ``_hoodie_commit_time``, and the rows ``before`` and ``after`` as
            structs of the user's columns. ``columns`` names columns of these rows then, and a change passes ``filters``
            if the row before or after it does. A table that stores no changes gives the difference of its states at
            the begin and at the end.
        as_of: Read the table as it was at this time: an instant (``"20260102101530123"``), a date (``"2026-01-02"``),
            a time (``"2026-01-02 10:15:30.123"``; without a fraction, all of that second), seconds or milliseconds
            since 1970, or a date or datetime of Python. Times without a zone are in the timeline's (UTC, unless the
            table says LOCAL). The result has the columns and types that the table had at that time.
        begin: For an incremental query: rows that were written after this time, in the same forms; ``"earliest"`` for
            all. Each row comes once with its latest value in the range; deleted rows are left out.
        end: For an incremental query: rows that were written up to this time; None for the newest commit.
        options: Hudi's read options (docs/configuration.md lists them). They mean the same as these arguments.
        catalog: The catalog that has the name: what `hoodie.catalog` returns or takes, such as
            ``"thrift://metastore:9083"``. The name of a read optimized view (``trips_ro``) reads base files only.
        storage_options: Options of the storage.

    Returns:
        The rows in memory; see `scan_table` for tables that do not fit.

    Raises:
        TableNotFoundException: There is no table at that path, or of that name.
        HoodieConfigException: ``query_type``, a time, an option, the columns or the filters have a form that is not
            known; or arguments contradict each other.
        HoodieSchemaException: A column is not in the table, or a filter compares one with a value of another type.
        HoodieNotSupportedException: The table has a feature that hoodie does not read.
        HoodieIOException: Rows of that time or range were cleaned or archived. The message names the earliest time that
            can be read, and the options that keep more. Of changes it is a `HoodieMissingChangesException`.
        HoodieSyncException: The catalog refuses, or cannot be reached.
        HoodieException: The time is that of a commit that was rolled back, or a commit in the range is still pending.

        >>> import hoodie
        >>> hoodie.read_table("/data/trips", columns=["rider", "fare"], filters=[("fare", ">", 50)])  # doctest: +SKIP
        >>> hoodie.read_table("rides.trips", catalog="thrift://metastore:9083")  # doctest: +SKIP
        >>> hoodie.read_table("/data/trips", as_of="2026-01-02 10:15:30")  # doctest: +SKIP
        >>> since = {"query_type": "incremental", "begin": "20260102101530123"}
        >>> hoodie.read_table("/data/trips", **since)  # doctest: +SKIP
        >>> hoodie.read_table("/data/trips", query_format="cdc", **since)  # doctest: +SKIP
    """
    plan = plan_read(base_path, catalog=catalog, storage_options=storage_options, **arguments)
    with scan(plan, keeps_all=True) as reader:
        return reader.read_all()


@shows_arguments
def scan_table(
    base_path: str,
    *,
    catalog: CatalogTables | str | None = None,
    storage_options: StorageOptions | None = None,
    **arguments: Unpack[ReadArguments],
) -> pa.RecordBatchReader:
    """The rows of `read_table` as a stream; memory does not grow with the table.

    Arguments and errors are those of `read_table`. The set of files is fixed when the call returns. If a file is
    cleaned before it is read, reading it raises `HoodieMissingFileException`.
    """
    return scan(plan_read(base_path, catalog=catalog, storage_options=storage_options, **arguments))


@shows_arguments
def dataset(
    base_path: str,
    *,
    catalog: CatalogTables | str | None = None,
    storage_options: StorageOptions | None = None,
    **arguments: Unpack[ReadArguments],
) -> HoodieDataset:
    """A table as a dataset of pyarrow, which DuckDB and polars query with their filters and columns pushed down.

    Arguments and errors are those of `hoodie.read_table`. The set of files is fixed: make a new dataset to see later
    commits.

        >>> import duckdb, hoodie
        >>> trips = hoodie.dataset("/data/trips")  # doctest: +SKIP
        >>> duckdb.sql("select rider, sum(fare) from trips where fare > 50 group by rider")  # doctest: +SKIP
        >>> polars.scan_pyarrow_dataset(trips).filter(polars.col("fare") > 50).collect()  # doctest: +SKIP
    """
    # Imported here because it imports pandas, which takes longer than the rest of hoodie.
    from hoodie.query.change_dataset import HoodieChangeDataset
    from hoodie.query.dataset import HoodieDataset

    plan = plan_read(base_path, catalog=catalog, storage_options=storage_options, **arguments)
    return HoodieDataset(plan) if isinstance(plan, ReadPlan) else HoodieChangeDataset(plan)
