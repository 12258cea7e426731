"""The rows of a table or query of a database, all of them or the new ones.

A round of an incremental source asks the database first where it ends, so the position is known before rows are read:

    position 5, limit 3      column  6 7 8 8 8 9     the third value is 8: the round reads 5 < column <= 8, position 8

Rows of the same value stay together, so none is lost at the limit. The column must grow with each new or changed row:
a row that appears later with a smaller value is not seen.

Hudi: org.apache.hudi.utilities.sources.JdbcSource.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import partial
from itertools import count, pairwise
from typing import Any, Final
from uuid import UUID

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.exception import HoodieConfigException, HoodieException, HoodieReadFromSourceException
from hoodie.io.parquet.batches_ahead import batches_ahead
from hoodie.storage.storage_factory import open_storage
from hoodie.utilities.config.jdbc_source_config import EXTRA_OPTIONS, JdbcSourceConfig
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.jdbc_connection import Connection, Database
from hoodie.utilities.sources.helpers.jdbc_partitions import PartitionOptions
from hoodie.utilities.sources.helpers.jdbc_types import inferred_type, mysql_types, sqlite_types, to_batch, told_types
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, Source, SourceContext, SourceRead

_BATCH_ROWS: Final = 20_000
_MOST_CONNECTIONS: Final = 16
"""The most connections of this process to a database."""
_WAITING_BYTES: Final = 32 << 20
_PLAIN_NAME: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")


class JdbcSource(Source):
    """The rows of a table or query of a database, by a module of Python's DB-API.

    With the options ``partitionColumn``, ``lowerBound``, ``upperBound`` and ``numPartitions`` of Spark's reader, a
    round is read by several tasks, or by several threads of this process.

    Hudi: org.apache.hudi.utilities.sources.JdbcSource. Differs: rows of the same value at the limit are not lost;
    values are parameters, never part of the SQL; rows are not kept in memory.

    Args:
        context: The context of the run.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        config = context.properties.read(JdbcSourceConfig)
        missing = [
            key
            for key, value in {
                "hoodie.streamer.jdbc.url": config.url,
                "hoodie.streamer.jdbc.table.name": config.table_name,
                "hoodie.streamer.jdbc.table.incr.column.name": config.incremental_column or not config.is_incremental,
            }.items()
            if not value
        ]
        if missing:
            raise HoodieConfigException(f"JdbcSource needs {', '.join(missing)}")
        extra = context.properties.under(EXTRA_OPTIONS)
        self._partitions = PartitionOptions.of(extra)
        self._config = config
        self.has_positions = config.is_incremental
        self._database = Database.of(
            config.url,
            config.user,
            config.password or self._read_password(config.password_file),
            extra,
            config.driver_module,
        )

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `Source.fetch`. The limit is one of rows.

        Raises:
            HoodieConfigException: The position is no value of the column; or the module of the database is missing.
            HoodieReadFromSourceException: A query fails.
            HoodieSourceTimeoutException: The database does not answer.
        """
        with self._database.connect() as connection:
            if not self._config.is_incremental:
                return self._batch(connection, None, _Range(self._config.table_name, limit=limit))
            if checkpoint is None or not checkpoint.position:
                return self._all(connection, checkpoint, limit)
            try:
                return self._following(connection, checkpoint, limit)
            except HoodieException as error:
                if not self._config.falls_back_to_full_fetch:
                    raise
                self.context.report(
                    f"{error}; all rows are read, as hoodie.streamer.jdbc.incr.fallback.to.full.fetch says"
                )
        # A failed query may have ended the transaction of the connection.
        with self._database.connect() as connection:
            return self._all(connection, checkpoint, limit)

    def _all(self, connection: Connection, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """The rows up to the limit, rows without a value of the column included."""
        column, table = self._config.incremental_column, self._config.table_name
        end = _end_of_round(connection, table, column, None, limit)
        if end is None:
            return InputBatch(checkpoint or Checkpoint(""))
        return self._batch(connection, Checkpoint(position_text(end)), _Range(table, column, None, end))

    def _following(self, connection: Connection, checkpoint: Checkpoint, limit: int | None) -> InputBatch:
        config = self._config
        column, table = config.incremental_column, config.table_name
        example = self._example(connection, column)
        if example is None:
            return InputBatch(checkpoint)
        begin = parse_position(checkpoint.position, example, column)
        end = _end_of_round(connection, table, column, begin, limit)
        if end is None:
            return InputBatch(checkpoint)
        return self._batch(connection, Checkpoint(position_text(end)), _Range(table, column, begin, end))

    def _batch(self, connection: Connection, checkpoint: Checkpoint | None, rows: _Range) -> InputBatch:
        """The rows of a range: in one part, or in those that options ask for."""
        schema = self._schema(connection, rows)
        parts = [JdbcRead(self._database, part, schema) for part in self._parts(connection, rows)]
        details = {"sourceParallelism": len(parts)}
        if len(parts) == 1 or self.context.spark is not None:
            return InputBatch(checkpoint, parts, schema, details=details)
        return InputBatch(checkpoint, [JdbcReadAtOnce(parts)], schema, details=details)

    def _parts(self, connection: Connection, rows: _Range) -> list[_Range]:
        """The parts of a range; a number of rows is asked for by one query."""
        wish = self._partitions
        if wish is None or rows.limit is not None:
            return [rows]
        example = self._example(connection, wish.column)
        if example is None:
            return [rows]
        borders = wish.borders(*(_bound(text, example, wish.column) for text in (wish.lower, wish.upper)))
        return [
            attrs.evolve(rows, part_column=wish.column, least=least, below=below)
            for least, below in pairwise([None, *borders, None])
        ]

    def _example(self, connection: Connection, column: str) -> Any:
        """A value of a column; None if it has none."""
        limit = " LIMIT 1" if self._database.has_limit else ""
        return connection.first(f"SELECT {column} FROM {self._config.table_name} WHERE {column} IS NOT NULL{limit}")

    def _schema(self, connection: Connection, rows: _Range) -> pa.Schema:
        """The columns of a range."""
        with connection.run(
            *_Range(rows.table, limit=0 if self._database.has_limit else None).query(connection)
        ) as cursor:
            description = list(cursor.description)
            sample: Sequence[Any] = ()
        types = told_types(self._database.kind, description)
        if _PLAIN_NAME.fullmatch(rows.table):
            types |= self._declared_types(connection, rows.table)
        types |= self._provided_types()
        names = [column[0] for column in description]
        if twins := sorted({name for name in names if names.count(name) > 1}):
            raise HoodieConfigException(
                f"JdbcSource: {rows.table} gives several columns of the name {', '.join(twins)}"
            )
        if any(name not in types for name in names):
            with connection.run(*rows.query(connection), streams=True) as cursor:
                sample = cursor.fetchmany(_BATCH_ROWS)
            filled = self.context.load_table_schema()
            for index, name in enumerate(names):
                if name not in types:
                    known = filled.field(name).type if filled is not None and name in filled.names else None
                    types[name] = known or inferred_type([row[index] for row in sample]) or pa.string()
        column = self._config.incremental_column
        if types.get(column) == pa.float32():
            raise HoodieConfigException(
                f"JdbcSource: {column} has the type {types[column]}, whose values are not exact, so rows at a position "
                "could be lost: choose another column"
            )
        return pa.schema([pa.field(name, types[name]) for name in names])

    def _declared_types(self, connection: Connection, table: str) -> dict[str, pa.DataType]:
        match self._database.kind:
            case "sqlite":
                with connection.run(f"PRAGMA table_info({table})") as cursor:
                    return sqlite_types([(row[1], row[2]) for row in cursor.fetchall()])
            case "mysql" | "mariadb":
                with connection.run(f"SHOW COLUMNS FROM {table}") as cursor:
                    return mysql_types([(row[0], row[1]) for row in cursor.fetchall()])
        return {}

    def _provided_types(self) -> dict[str, pa.DataType]:
        if self.context.schema_provider is None:
            return {}
        return {field.name: field.type for field in to_arrow(self.context.schema_provider.load_source_schema())}

    def _read_password(self, path: str) -> str:
        if not path:
            return ""
        try:
            return open_storage(path, self.context.storage_options).read(path).decode("utf-8").rstrip("\r\n")
        except (OSError, HoodieException, UnicodeDecodeError) as error:
            raise HoodieConfigException(
                f"hoodie.streamer.jdbc.password.file = {path} cannot be read ({type(error).__name__})"
            ) from error


class JdbcRead(SourceRead):
    """The rows of a range of a table.

    Args:
        database: The database.
        rows: The range.
        schema: The columns.
    """

    def __init__(self, database: Database, rows: _Range, schema: pa.Schema) -> None:
        self.database = database
        self.rows = rows
        self.schema = schema

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`. Memory: one batch; with modules other than psycopg and pymysql, what these keep.

        Raises:
            HoodieReadFromSourceException: The query fails, or gives other columns or values than before.
            HoodieSourceTimeoutException: The database does not answer.
        """
        left = self.rows.limit
        with (
            self.database.connect() as connection,
            connection.run(*self.rows.query(connection), streams=True) as cursor,
        ):
            while left is None or left > 0:
                rows = cursor.fetchmany(_BATCH_ROWS if left is None else min(_BATCH_ROWS, left))
                if not rows:
                    break
                names = [column[0] for column in cursor.description]
                if names != self.schema.names:
                    raise HoodieReadFromSourceException(
                        f"JdbcSource: the columns of {self.rows.table} changed from {', '.join(self.schema.names)} to "
                        f"{', '.join(names)} while they were read; the next round has the new ones"
                    )
                left = None if left is None else left - len(rows)
                yield DecodedBatch(to_batch(rows, self.schema))


class JdbcReadAtOnce(SourceRead):
    """Parts of a table that connections of their own read side by side in this process.

    Args:
        parts: The parts.
    """

    def __init__(self, parts: Sequence[JdbcRead]) -> None:
        self.parts = parts

    def batches(self) -> Iterator[DecodedBatch]:
        """See `SourceRead.batches`. Memory: some megabytes that wait, and a batch of each connection.

        Raises:
            HoodieReadFromSourceException: See `JdbcRead.batches`.
            HoodieSourceTimeoutException: The database does not answer.
        """
        sources = [partial(_rows_of, part) for part in self.parts]
        for rows in batches_ahead(sources, _WAITING_BYTES, min(len(sources), _MOST_CONNECTIONS)):
            yield DecodedBatch(rows)


def _rows_of(read: JdbcRead) -> Iterator[pa.RecordBatch]:
    for decoded in read.batches():
        yield decoded.rows


@attrs.frozen
class _Range:
    """The rows of a table that a round reads. Picklable.

    Attributes:
        table: The table or query.
        column: The incremental column; None for all rows.
        begin: Rows with larger values; None for all, those without a value included.
        end: Rows with values up to this one; None for all.
        limit: The most rows; None for no limit.
        part_column: The column that decides which part of the range a row is in; None for all of the range.
        least: Rows with this value of it and larger ones; None for all, those without a value included.
        below: Rows with smaller values than this one; None for all.
    """

    table: str
    column: str | None = None
    begin: Any = None
    end: Any = None
    limit: int | None = None
    part_column: str | None = None
    least: Any = None
    below: Any = None

    def query(self, connection: Connection) -> tuple[str, tuple[Any, ...]]:
        """The query and its parameters."""
        conditions: list[str] = []
        parameters = tuple(value for value in (self.begin, self.end, self.least, self.below) if value is not None)
        numbers = count(1)

        def compared(column: str | None, operator: str) -> str:
            return f"{connection.escape(column or '')} {operator} {connection.placeholder(next(numbers))}"

        if self.begin is not None:
            conditions += [compared(self.column, ">"), compared(self.column, "<=")]
        elif self.end is not None:
            conditions.append(f"({compared(self.column, '<=')} OR {connection.escape(self.column or '')} IS NULL)")
        if self.least is not None:
            conditions.append(compared(self.part_column, ">="))
        if self.below is not None:
            is_first = self.least is None
            below = compared(self.part_column, "<")
            conditions.append(
                f"({below} OR {connection.escape(self.part_column or '')} IS NULL)" if is_first else below
            )
        sql = f"SELECT * FROM {connection.escape(self.table) if parameters else self.table}"
        if conditions:
            sql += f" WHERE {' AND '.join(conditions)}"
        if self.limit is not None and connection.database.has_limit:
            sql += f" LIMIT {self.limit:d}"
        return sql, parameters


def _end_of_round(connection: Connection, table: str, column: str, begin: Any, limit: int | None) -> Any:
    """The largest value of the column that a round reads; None if there is none.

    Args:
        connection: The connection.
        table: The table or query.
        column: The incremental column.
        begin: Rows with larger values; None for all.
        limit: The most rows, but for those of the same value as the last one.
    """
    parameters = () if begin is None else (begin,)
    if parameters:
        table, column = connection.escape(table), connection.escape(column)
    newer = f" WHERE {column} > {connection.placeholder(1)}" if parameters else f" WHERE {column} IS NOT NULL"
    if limit is not None and limit > 0:
        ordered = f"SELECT {column} FROM {table}{newer} ORDER BY {column}"
        if connection.database.has_limit:
            end = connection.first(f"{ordered} LIMIT 1 OFFSET {limit - 1:d}", parameters)
        else:
            end = _nth(connection, ordered, parameters, limit)
        if end is not None:
            return end
    if connection.database.has_limit:
        # Some types have an order and no MAX, such as uuid in PostgreSQL.
        return connection.first(f"SELECT {column} FROM {table}{newer} ORDER BY {column} DESC LIMIT 1", parameters)
    return connection.first(f"SELECT MAX({column}) FROM {table}{newer}", parameters)


def _nth(connection: Connection, sql: str, parameters: Sequence[Any], number: int) -> Any:
    with connection.run(sql, parameters, streams=True) as cursor:
        while number > 0:
            rows = cursor.fetchmany(min(number, _BATCH_ROWS))
            if not rows:
                return None
            number -= len(rows)
            last = rows[-1][0]
        return last


def _bound(text: str, example: Any, column: str) -> Any:
    """A bound of parts as a value of the type of the column.

    Raises:
        HoodieConfigException: It is none.
    """
    try:
        return parse_position(text, example, column)
    except HoodieConfigException:
        raise HoodieConfigException(
            f"{EXTRA_OPTIONS}partitionColumn = {column} has values such as {example!r}, and the bound {text!r} is no "
            "such value: correct lowerBound and upperBound"
        ) from None


def position_text(value: Any) -> str:
    """The position of a value of the incremental column.

    Args:
        value: The value, as the module of the database gives it.

    Raises:
        HoodieReadFromSourceException: It has a type that has no order as text, such as bytes.

        >>> position_text(datetime(2026, 1, 2, 10, 15, 30, 120000))
        '2026-01-02 10:15:30.12'
    """
    if isinstance(value, datetime):
        zone = "" if value.tzinfo is None else "+00:00"
        moment = value if value.tzinfo is None else value.astimezone(UTC)
        fraction = f".{moment.microsecond:06d}".rstrip("0") if moment.microsecond else ""
        return f"{moment:%Y-%m-%d %H:%M:%S}{fraction}{zone}"
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, int | str | UUID) and not isinstance(value, bool):
        return str(value)
    raise HoodieReadFromSourceException(
        f"JdbcSource: the incremental column has values of the type {type(value).__name__}, of which no position can "
        "be made: choose a column of numbers, times or texts"
    )


def parse_position(text: str, example: Any, column: str) -> Any:
    """The value of a position, of the type of the column.

    Args:
        text: The position.
        example: A value of the column.
        column: The name of the column, for the message.

    Raises:
        HoodieConfigException: The text is no value of that type.
    """
    with suppress(ValueError, InvalidOperation):
        if isinstance(example, datetime):
            moment = datetime.fromisoformat(text)
            if example.tzinfo is not None:
                return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
            return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
        if isinstance(example, date):
            return date.fromisoformat(text)
        for kind in (int, float, UUID, Decimal):
            if isinstance(example, kind) and not isinstance(example, bool):
                return kind(text)
        if isinstance(example, str):
            return text
    raise HoodieConfigException(
        f"JdbcSource: the position {text!r} is no value of {column}, which has values such as {example!r}: give "
        "--checkpoint with a value of the column, or --ignore-checkpoint"
    )
