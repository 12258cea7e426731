"""Validators that run Spark SQL queries before and after a commit.

Hudi: org.apache.hudi.client.validator.SqlQueryPreCommitValidator. Differs: rows are compared with their counts and in
both directions; Hudi only checks whether the distinct rows of the first result are all in the second.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from hoodie.client.validator.pending_commit import PendingCommit
from hoodie.client.validator.pre_commit_validators import HoodiePreCommitValidator
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieValidationException
from hoodie.query.table_query import TableQuery
from hoodie.spark.reader import frame_of
from hoodie.spark.spark_types import quoted

TABLE_NAME = "<TABLE_NAME>"
SHOWN_ROWS = 3


class SparkPendingCommit(PendingCommit):
    """A commit written with Spark: the table without and with it can also be read as DataFrames.

    Attributes:
        spark: The session.
    """

    spark: SparkSession

    def dataframe_before(self, *, only_touched: bool = False) -> DataFrame:
        """The rows of the table before this commit, with Hudi's meta columns first.

        Args:
            only_touched: Read only `partitions`.
        """
        return self._dataframe(only_touched, is_after=False)

    def dataframe_after(self, *, only_touched: bool = False) -> DataFrame:
        """The rows of the table after this commit; see `dataframe_before` for the arguments."""
        return self._dataframe(only_touched, is_after=True)

    def _dataframe(self, only_touched: bool, is_after: bool) -> DataFrame:
        plan = self._plan(TableQuery(), only_touched, is_after, reads_footers=False)
        return frame_of(self.spark, self.base_path, plan)


class SqlQueryPreCommitValidator(HoodiePreCommitValidator):
    """Runs the queries of one property; ``<TABLE_NAME>`` in them stands for the partitions that a commit touches.

    Args:
        config: The configuration with the queries.

    Raises:
        HoodieConfigException: There are no queries, or one has another form.

    Hudi: org.apache.hudi.client.validator.SqlQueryPreCommitValidator.
    """

    key: ClassVar[str]

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        text = config.properties.get(self.key, "")
        self._queries = [query.strip() for query in text.split(";") if query.strip()]
        if not self._queries:
            raise HoodieConfigException(f"{type(self).__name__} needs {self.key}: give one query or more")
        for query in self._queries:
            if TABLE_NAME not in query:
                raise HoodieConfigException(f"{self.key}: the query {query!r} does not read {TABLE_NAME}")

    def validate(self, commit: PendingCommit) -> None:
        """Run each query.

        Raises:
            HoodieValidationException: A result is not as required.
        """
        if not isinstance(commit, SparkPendingCommit):
            raise HoodieValidationException(f"{type(self).__name__} needs Spark")
        before, after = commit.dataframe_before(only_touched=True), commit.dataframe_after(only_touched=True)
        with _view(commit.spark, before) as table_before, _view(commit.spark, after) as table_after:
            for query in self._queries:
                self.validate_query(commit.spark, query, table_before, table_after)

    @abstractmethod
    def validate_query(self, spark: SparkSession, query: str, before: str, after: str) -> None:
        """Run one query.

        Args:
            spark: The session.
            query: The query, with the placeholder.
            before: The name of the view of the table before the commit.
            after: The name of the view of the table after the commit.

        Raises:
            HoodieValidationException: The result is not as required.
        """


class SqlQueryEqualityPreCommitValidator(SqlQueryPreCommitValidator):
    """Each query must return the same rows before and after the commit.

    Hudi: org.apache.hudi.client.validator.SqlQueryEqualityPreCommitValidator.
    """

    key = "hoodie.precommit.validators.equality.sql.queries"

    def validate_query(self, spark: SparkSession, query: str, before: str, after: str) -> None:
        """Compare the rows in any order."""
        only_before, only_after = _differences(spark, query, before, after)
        if only_before or only_after:
            raise HoodieValidationException(
                f"the query {query!r} returns other rows after the commit; only before: {only_before}, only after: "
                f"{only_after}"
            )


class SqlQueryInequalityPreCommitValidator(SqlQueryPreCommitValidator):
    """Each query must return other rows after the commit than before.

    Hudi: org.apache.hudi.client.validator.SqlQueryInequalityPreCommitValidator.
    """

    key = "hoodie.precommit.validators.inequality.sql.queries"

    def validate_query(self, spark: SparkSession, query: str, before: str, after: str) -> None:
        """Compare the rows in any order."""
        if not any(_differences(spark, query, before, after)):
            raise HoodieValidationException(f"the query {query!r} returns the same rows before and after the commit")


class SqlQuerySingleResultPreCommitValidator(SqlQueryPreCommitValidator):
    """Each query must return one value after the commit: the value after its ``#``.

    Hudi: org.apache.hudi.client.validator.SqlQuerySingleResultPreCommitValidator.
    """

    key = "hoodie.precommit.validators.single.value.sql.queries"

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        for query in self._queries:
            if query.count("#") != 1:
                raise HoodieConfigException(f"{self.key}: {query!r} must be a query, one #, and the result")

    def validate_query(self, spark: SparkSession, query: str, before: str, after: str) -> None:
        """Compare the value as text."""
        sql, expected = (part.strip() for part in query.split("#"))
        frame = _result(spark, sql, after)
        if len(frame.columns) != 1:
            raise HoodieValidationException(f"the query {sql!r} must return one column, not {len(frame.columns)}")
        rows = frame.select(sf.col(quoted(frame.columns[0])).cast("string")).limit(2).collect()
        if len(rows) != 1 or rows[0][0] != expected:
            found = repr(rows[0][0]) if len(rows) == 1 else ("more than one row" if rows else "no row")
            raise HoodieValidationException(f"the query {sql!r} returns {found} after the commit, not {expected!r}")


@contextmanager
def _view(spark: SparkSession, frame: DataFrame) -> Iterator[str]:
    name = f"hoodie_staged_table_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        spark.catalog.dropTempView(name)


def _result(spark: SparkSession, query: str, table: str) -> DataFrame:
    try:
        frame = spark.sql(query.replace(TABLE_NAME, table))
        # Spark Connect analyses a query only when its columns are requested.
        frame.columns  # noqa: B018
    except PySparkException as error:
        reason = str(error).replace(table, TABLE_NAME).strip().splitlines()[0]
        raise HoodieValidationException(f"the query {query!r} cannot be run: {reason}") from error
    return frame


def _differences(spark: SparkSession, query: str, before: str, after: str) -> tuple[list[tuple[object, ...]], ...]:
    """Some rows that only the first result has, and some that only the second result has."""
    first, second = (_result(spark, query, table) for table in (before, after))
    return tuple(
        [tuple(row) for row in one.exceptAll(other).limit(SHOWN_ROWS).collect()]
        for one, other in ((first, second), (second, first))
    )
