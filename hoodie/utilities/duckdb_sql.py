"""SQL in this process, by DuckDB: queries of transformers and of SqlSource.

Rows come and go as Arrow. DuckDB fetches nothing from the network, and knows no variables of Python. Its dialect is not
Spark's: a name is quoted as ``"a"``, and functions have names of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieTransformException

try:
    import duckdb
except ImportError:  # an extra: hoodie[sql]
    duckdb = None

_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "python_enable_replacements": "false",
}
_PARTS = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|--[^\n]*|/\*.*?\*/|(;)""", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
_CACHED = re.compile(r"CACHE\s+(?:LAZY\s+)?TABLE\s+(\S+)(?:\s+AS)?\s+(?=SELECT|WITH|FROM|\()", re.IGNORECASE)


def split_statements(sql: str) -> list[str]:
    r"""The statements of a text of SQL, which end with ``;`` outside of quotes and comments; empty ones are left out.

    Args:
        sql: The text.

        >>> split_statements("SELECT ';' AS a; -- not here;\\nSELECT 2;")
        ["SELECT ';' AS a", '-- not here;\\nSELECT 2']
    """
    ends = [match.start() for match in _PARTS.finditer(sql) if match.group(1)]
    parts = (sql[start:end].strip() for start, end in zip([0, *(end + 1 for end in ends)], [*ends, None], strict=True))
    return [part for part in parts if _COMMENT.sub("", part).strip()]


@contextmanager
def open_duckdb(tables: Mapping[str, pa.Table], needed_by: str) -> Iterator[Any]:
    """A connection of its own, without a file.

    Args:
        tables: Names of tables -> their rows.
        needed_by: The name of the part that needs DuckDB, for the message.

    Raises:
        HoodieConfigException: DuckDB is missing.
    """
    if duckdb is None:
        raise HoodieConfigException(
            f"{needed_by} needs DuckDB in this process: pip install 'hoodie[sql]', or use --engine spark"
        )
    connection = duckdb.connect(config=_SETTINGS)
    try:
        connection.execute("SET TimeZone = 'UTC'")
        for name, rows in tables.items():
            connection.register(name, rows)
        yield connection
    finally:
        connection.close()


def run_statements(statements: Sequence[str], tables: Mapping[str, pa.Table], needed_by: str) -> pa.Table:
    """The rows of the last statement, after the others have been run, in order.

    Args:
        statements: At least one. ``CACHE TABLE a AS SELECT ...`` of Spark is a temporary table.
        tables: Names of tables -> their rows.
        needed_by: The name of the part that needs DuckDB, for messages.

    Raises:
        HoodieConfigException: DuckDB is missing.
        HoodieTransformException: A statement fails, or the last one has no rows.
    """
    with open_duckdb(tables, needed_by) as connection:
        for number, statement in enumerate(statements, 1):
            try:
                text = _CACHED.sub(r"CREATE OR REPLACE TEMP TABLE \1 AS ", statement, 1)
                if number == len(statements) and gives_rows(connection, text):
                    return rows_of_relation(connection.sql(text))
                connection.execute(text)
            except Exception as error:
                which = "the query" if len(statements) == 1 else f"statement {number} of {len(statements)}"
                raise HoodieTransformException(
                    f"{needed_by}: {which} failed in DuckDB ({type(error).__name__}: {error}): {statement}"
                ) from error
    raise HoodieTransformException(
        f"{needed_by}: the last statement gives no rows: end with a SELECT, not with {statements[-1]}"
    )


def gives_rows(connection: Any, statement: str) -> bool:
    """Whether a statement is a query.

    Args:
        connection: A connection of DuckDB.
        statement: The statement.
    """
    kinds = [kind for one in connection.extract_statements(statement) for kind in one.expected_result_type]
    return kinds == [duckdb.ExpectedResultType.QUERY_RESULT]


def rows_of_relation(relation: Any) -> pa.Table:
    """The rows of a query, where sums of whole numbers have 64 bits, as they have in Spark.

    Args:
        relation: DuckDB's relation.
    """
    rows: pa.Table = relation.to_arrow_table()
    return rows.cast(schema_of_relation(relation, rows.schema))


def schema_of_relation(relation: Any, schema: pa.Schema) -> pa.Schema:
    """The columns of a query, where sums of whole numbers have 64 bits.

    Args:
        relation: DuckDB's relation.
        schema: The columns as DuckDB gives them to Arrow.
    """
    for index, kind in enumerate(relation.types):
        if str(kind) in ("HUGEINT", "UHUGEINT"):
            schema = schema.set(index, pa.field(schema.field(index).name, pa.int64()))
    return schema


def arrow_reader(relation: Any, batch_rows: int) -> pa.RecordBatchReader:
    """The rows of a query as a stream.

    Args:
        relation: DuckDB's relation.
        batch_rows: The rows of a batch.
    """
    # DuckDB 1.1 has the older name alone.
    reader = getattr(relation, "to_arrow_reader", None) or relation.fetch_arrow_reader
    stream: pa.RecordBatchReader = reader(batch_rows)
    return stream
