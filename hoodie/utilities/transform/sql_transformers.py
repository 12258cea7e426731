"""Transformers that are SQL: a query, or a file of statements. ``<SRC>`` stands for the rows of the batch.

Hudi: org.apache.hudi.utilities.transform.SqlQueryBasedTransformer, SqlFileBasedTransformer.
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections import deque
from typing import TYPE_CHECKING

import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieException, HoodieTransformException
from hoodie.storage.storage_factory import open_storage
from hoodie.utilities.config.sql_transformer_config import SqlTransformerConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.duckdb_sql import run_statements, split_statements
from hoodie.utilities.transform.transformer import Transformer

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SOURCE = "<SRC>"
"""The name of the rows in the SQL."""
_VIEW = "HOODIE_SRC_TMP_TABLE_"
_VIEWS_KEPT = 4
"""Frames of Spark Connect are read later than they are made, and need their views until then."""


class _SqlTransformer(Transformer):
    """Statements, the last of which gives the rows. DuckDB runs them in this process, Spark SQL on Spark."""

    def __init__(self) -> None:
        self._views: deque[str] = deque()

    @abstractmethod
    def statements(self, properties: StreamerProperties) -> list[str]:
        """The statements, at least one."""

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        """See `Transformer.apply`."""
        view = f"{_VIEW}{uuid.uuid4().hex}"
        statements = [one.replace(SOURCE, view) for one in self.statements(properties)]
        return run_statements(statements, {view: table}, type(self).__name__)

    def apply_to_frame(self, frame: DataFrame, properties: StreamerProperties) -> DataFrame:
        """See `Transformer.apply_to_frame`."""
        view = f"{_VIEW}{uuid.uuid4().hex}"
        statements = self.statements(properties)
        frame.createOrReplaceTempView(view)
        self._views.append(view)
        if len(self._views) > _VIEWS_KEPT:
            frame.sparkSession.catalog.dropTempView(self._views.popleft())
        for statement in statements:
            changed = frame.sparkSession.sql(statement.replace(SOURCE, view))
        return changed


class SqlQueryBasedTransformer(_SqlTransformer):
    """The query of ``hoodie.streamer.transformer.sql``.

    Hudi: org.apache.hudi.utilities.transform.SqlQueryBasedTransformer. Differs: without Spark, the dialect is DuckDB's.
    """

    def statements(self, properties: StreamerProperties) -> list[str]:
        """The query alone.

        Raises:
            HoodieConfigException: There is none.
        """
        query = properties.read(SqlTransformerConfig).sql
        if not query:
            raise HoodieConfigException(
                "SqlQueryBasedTransformer needs hoodie.streamer.transformer.sql, such as SELECT a, b FROM <SRC>"
            )
        return [query.rstrip("; \n")]


class SqlFileBasedTransformer(_SqlTransformer):
    """The statements of the file of ``hoodie.streamer.transformer.sql.file``, which is read in every round.

    Hudi: org.apache.hudi.utilities.transform.SqlFileBasedTransformer. Differs: ``;`` in quotes and comments ends no
    statement; without Spark, the dialect is DuckDB's.
    """

    def statements(self, properties: StreamerProperties) -> list[str]:
        """The statements of the file.

        Raises:
            HoodieConfigException: No file is named.
            HoodieTransformException: The file is missing, cannot be read, or has no statement.
        """
        path = properties.read(SqlTransformerConfig).sql_file
        if not path:
            raise HoodieConfigException("SqlFileBasedTransformer needs hoodie.streamer.transformer.sql.file")
        try:
            sql = open_storage(path).read(path).decode("utf-8")
        except (OSError, HoodieException, UnicodeDecodeError) as error:
            raise HoodieTransformException(
                f"hoodie.streamer.transformer.sql.file = {path} cannot be read ({type(error).__name__}: {error})"
            ) from error
        if not (found := split_statements(sql)):
            raise HoodieTransformException(f"hoodie.streamer.transformer.sql.file = {path} has no statement")
        return found
