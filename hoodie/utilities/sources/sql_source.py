"""The rows of a query, for tables that are filled once or again.

Hudi: org.apache.hudi.utilities.sources.SqlSource.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa

from hoodie.common.model.record_columns import META_COLUMNS, PARTITION_PATH_META
from hoodie.exception import HoodieConfigException, HoodieException, HoodieReadFromSourceException
from hoodie.query.arrow_reader import plan_rows
from hoodie.query.dataset import HoodieDataset
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.sql_source_config import SqlSourceConfig
from hoodie.utilities.duckdb_sql import arrow_reader, gives_rows, open_duckdb, schema_of_relation
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceRead

QUERY: Final = "hoodie.streamer.source.sql.sql.query"
_TABLES: Final = "hoodie.streamer.source.sql.tables"
_BATCH_ROWS = 20_000
_DROPPED = [name for name in META_COLUMNS if name != PARTITION_PATH_META]


class SqlSource(Source):
    """The rows of ``hoodie.streamer.source.sql.sql.query``. It has no positions: each round reads all rows.

    A round commits only with ``--allow-commit-on-no-checkpoint-change``. Meta columns of a Hudi table that the query
    reads are left out, but for ``_hoodie_partition_path``.

    Hudi: org.apache.hudi.utilities.sources.SqlSource. Differs: without Spark, DuckDB runs the query.
    """

    has_positions = False

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`; neither the position nor the limit counts.

        Raises:
            HoodieConfigException: There is no query, or DuckDB is missing.
            HoodieReadFromSourceException: The query fails.
        """
        config = self.context.properties.read(SqlSourceConfig)
        if not config.query:
            raise HoodieConfigException(f"SqlSource needs {QUERY}, such as SELECT * FROM trips")
        query = config.query.rstrip("; \n")
        if self.context.spark is not None:
            if config.tables:
                raise HoodieConfigException(
                    f"{_TABLES} is for --engine local: on Spark the query names tables of the session's catalog"
                )
            with _errors_of_query(query):
                frame = self.context.spark.sql(query)
                return InputBatch(None, frame=frame.drop(*_DROPPED))
        read = SqlRead(query, _paths(config.tables), self.context.storage_options)
        return InputBatch(None, [read], read.load_schema())


class SqlRead(SourceRead):
    """The rows of a query of DuckDB.

    Args:
        query: The query.
        tables: Names of Hudi tables -> their folders.
        storage_options: Options of the storage of these tables.
    """

    def __init__(self, query: str, tables: Mapping[str, str], storage_options: StorageOptions | None) -> None:
        self.query = query
        self.tables = dict(tables)
        self.storage_options = storage_options

    def load_schema(self) -> pa.Schema:
        """The columns of the rows; the query is not run.

        Raises:
            HoodieConfigException: DuckDB is missing.
            HoodieReadFromSourceException: The query is wrong.
        """
        with self._relation() as relation:
            return schema_of_relation(relation, relation.limit(0).to_arrow_table().schema)

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`. Memory: DuckDB's, and one batch.

        Raises:
            HoodieReadFromSourceException: The query fails.
        """
        with self._relation() as relation:
            reader = arrow_reader(relation, _BATCH_ROWS)
            schema = schema_of_relation(relation, reader.schema)
            for batch in reader:
                if batch.num_rows:
                    rows = pa.Table.from_batches([batch]).cast(schema).combine_chunks()
                    yield DecodedBatch(rows.to_batches()[0])

    @contextmanager
    def _relation(self) -> Iterator[Any]:
        with open_duckdb({}, "SqlSource") as connection, _errors_of_query(self.query):
            for name, path in self.tables.items():
                connection.register(name, HoodieDataset(plan_rows(path, storage_options=self.storage_options)))
            if not gives_rows(connection, self.query):
                raise HoodieConfigException(f"{QUERY} is no query, so it gives no rows: {self.query}")
            relation = connection.sql(self.query)
            kept = [name for name in relation.columns if name not in _DROPPED]
            if len(kept) < len(relation.columns):
                relation = relation.project(", ".join('"{}"'.format(name.replace('"', '""')) for name in kept))
            yield relation


@contextmanager
def _errors_of_query(query: str) -> Iterator[None]:
    try:
        yield
    except HoodieException:
        raise
    except Exception as error:  # DuckDB and Spark have many classes of errors.
        raise HoodieReadFromSourceException(
            f"SqlSource: the query failed ({type(error).__name__}: {error}): {query}"
        ) from error


def _paths(tables: tuple[str, ...]) -> dict[str, str]:
    """The folders of tables by their names.

    Raises:
        HoodieConfigException: An entry has no path.
    """
    found = {}
    for entry in tables:
        name, _, path = entry.partition("=")
        if not name.strip() or not path.strip():
            raise HoodieConfigException(f"{_TABLES}: {entry!r} is not name=path")
        found[name.strip()] = path.strip()
    return found
