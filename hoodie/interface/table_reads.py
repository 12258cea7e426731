"""Reading a table by an object: its rows, their number, and the plan of a read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.query.arrow_reader import count, scan
from hoodie.query.planner import narrowed
from hoodie.query.read_plan import ReadPlan
from hoodie.query.table_query import Filters

if TYPE_CHECKING:
    from hoodie.query.dataset import HoodieDataset

Columns = str | Sequence[str] | None
"""The names of the columns of a result, or one name; None for all."""


class TableReads(ABC):
    """The reads of a table.

    Results have the user's columns. Hudi's columns (``_hoodie_record_key``, ``_hoodie_commit_time`` and others) come
    where ``columns`` names them, or with ``meta_columns=True``.

    Errors are those of `hoodie.read_table`.
    """

    @abstractmethod
    def _plan(self, columns: Columns, where: Filters) -> ReadPlan:
        """Plan a read of all columns of the table, Hudi's first, or of those that are named."""

    def explain(self, columns: Columns = None, where: Filters = None, *, meta_columns: bool = False) -> ReadPlan:
        """Plan a read, without reading rows: the files that it would read, and those that it leaves out and why.

        Args:
            columns: See `read`.
            where: See `read`.
            meta_columns: See `read`.

        Returns:
            The plan; prints as a table of files.
        """
        plan = self._plan(columns, where)
        if columns is not None or meta_columns:
            return plan
        return narrowed(plan, [name for name in plan.columns if name not in META_COLUMN_SET], None)

    def read(
        self,
        columns: Columns = None,
        where: Filters = None,
        *,
        limit: int | None = None,
        meta_columns: bool = False,
    ) -> pa.Table:
        """The rows.

        Args:
            columns: Names, or one name, in the order of the result; None for all.
            where: A condition on rows: text (``"fare > 50 and city = 'oslo'"``), an expression of pyarrow, or tuples as
                `pyarrow.parquet.read_table` takes them. Files and row groups without such rows are not read.
            limit: The most rows; None for all. Which rows of more is not defined.
            meta_columns: Whether a result without ``columns`` begins with Hudi's columns.

        Returns:
            The rows in memory; see `scan` for tables that do not fit.
        """
        with self.scan(columns, where, limit=limit, meta_columns=meta_columns) as reader:
            return reader.read_all()

    def scan(
        self,
        columns: Columns = None,
        where: Filters = None,
        *,
        limit: int | None = None,
        meta_columns: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows of `read` as a stream; memory does not grow with the table.

        The set of files is fixed when the call returns. If a file is cleaned before it is read, reading it raises
        `HoodieMissingFileException`.
        """
        check_limit(limit)
        reader = scan(self.explain(columns, where, meta_columns=meta_columns))
        return reader if limit is None else _first_rows(reader, limit)

    def dataset(self, columns: Columns = None, where: Filters = None, *, meta_columns: bool = False) -> HoodieDataset:
        """A `pyarrow.dataset.Dataset`, which DuckDB and polars query with their filters and columns pushed down.

        The set of files is fixed: make a new dataset to see later commits.
        """
        # Imported here because it imports pandas, which takes longer than the rest of hoodie.
        from hoodie.query.dataset import HoodieDataset

        return HoodieDataset(self.explain(columns, where, meta_columns=meta_columns))

    def count(self, where: Filters = None) -> int:
        """The number of rows. Without a condition only footers are read, where a file group has no log files."""
        return count(self._plan([], where))

    def to_pandas(
        self,
        columns: Columns = None,
        where: Filters = None,
        *,
        limit: int | None = None,
        meta_columns: bool = False,
    ) -> Any:
        """The rows of `read` as a pandas DataFrame.

        Raises:
            HoodieException: pandas is not installed; or see the class.
        """
        _needed("pandas", "to_pandas")
        return self.read(columns, where, limit=limit, meta_columns=meta_columns).to_pandas()

    def to_polars(self, columns: Columns = None, where: Filters = None, *, meta_columns: bool = False) -> Any:
        """A polars LazyFrame, which reads when it is collected; filters and columns of its query are pushed down.

        Raises:
            HoodieException: polars is not installed; or see the class.
        """
        polars = _needed("polars", "to_polars")
        return polars.scan_pyarrow_dataset(self.dataset(columns, where, meta_columns=meta_columns))

    def sql(self, query: str, *, limit: int | None = None, meta_columns: bool = False) -> pa.Table:
        """The result of a query in SQL over the table, by the name ``t``, by DuckDB in this process.

            trips.sql("select city, sum(fare) as fares from t group by city")

        Args:
            query: A query in DuckDB's SQL.
            limit: The most rows of the result; None for all.
            meta_columns: Whether ``t`` has Hudi's columns too.

        Raises:
            HoodieConfigException: The query is not text.
            HoodieException: DuckDB is not installed, or refuses the query; or see the class.
        """
        if not isinstance(query, str):
            raise HoodieConfigException(f"query is {shown_value(query)}: give SQL, such as 'select count(*) from t'")
        check_limit(limit)
        duckdb = _needed("duckdb", "sql")
        with duckdb.connect(config={"python_enable_replacements": "false"}) as connection:
            connection.register("t", self.dataset(meta_columns=meta_columns))
            try:
                result = connection.sql(query)
                if result is None:
                    return pa.table({})
                # Its name in DuckDB before 2.0.
                name = "to_arrow_reader" if hasattr(result, "to_arrow_reader") else "fetch_arrow_reader"
                reader = getattr(result, name)()
                return (reader if limit is None else _first_rows(reader, limit)).read_all()
            except duckdb.Error as error:
                raise HoodieException(f"DuckDB refuses the query: {error}") from error


def check_limit(limit: int | None) -> None:
    """Refuse a limit that is no number of rows.

    Raises:
        HoodieConfigException: It is negative, or no integer.
    """
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise HoodieConfigException(f"limit is {shown_value(limit)}: give a number of rows, or None for all")


def _first_rows(reader: pa.RecordBatchReader, limit: int) -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        missing = limit
        with reader:
            while missing > 0:
                try:
                    batch = reader.read_next_batch()
                except StopIteration:
                    return
                yield batch.slice(0, missing)
                missing -= min(missing, batch.num_rows)

    return pa.RecordBatchReader.from_batches(reader.schema, batches())


def _needed(package: str, method: str) -> Any:
    try:
        return import_module(package)
    except ImportError as error:
        raise HoodieException(
            f"{method}() needs {package}, which is not installed: pip install {package}, or call read()"
        ) from error
