"""Claims of keys in PostgreSQL, through psycopg (``pip install hoodie[postgresql]``)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.index.external.database_location_store import DatabaseLocationStore
from hoodie.index.external.database_url import shown_url

try:
    import psycopg
except ImportError:  # an extra: hoodie[postgresql]
    psycopg = None

CREATE_LOCK = 0x686F6F646965
"""The advisory lock for creating tables: CREATE TABLE IF NOT EXISTS fails if two writers run it at once."""


class PostgresLocationStore(DatabaseLocationStore):
    """One connection to a PostgreSQL database. It creates its tables in the first schema of the search path.

    Args:
        url: ``postgresql://...`` as libpq takes it. libpq reads missing parts from its environment and password file.
        prefix: The prefix of the names of the tables.

    Raises:
        HoodieNotSupportedException: psycopg is not installed.
    """

    place = "%s"
    locks_rows = " FOR SHARE"

    def __init__(self, url: str, prefix: str) -> None:
        if psycopg is None:
            raise HoodieNotSupportedException(
                "an index in PostgreSQL needs psycopg: pip install 'hoodie[postgresql]', here and on the executors"
            )
        super().__init__(prefix)
        self._url = url

    def create(self) -> None:
        with self._transaction() as connection:
            if self._is_there(connection):
                return
            connection.execute("SELECT pg_advisory_xact_lock(%s)", (CREATE_LOCK,))
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._groups} (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "
                "partition_path text NOT NULL, file_id text NOT NULL, generation bigint NOT NULL DEFAULT 0, "
                "instant_time text NOT NULL, UNIQUE (partition_path, file_id))"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._files} (group_number bigint NOT NULL, file_name text NOT NULL, "
                "instant_time text NOT NULL, added boolean NOT NULL, removed boolean NOT NULL, "
                "PRIMARY KEY (group_number, file_name))"
            )
            connection.execute(
                f'CREATE TABLE IF NOT EXISTS {self._keys} (record_key text COLLATE "C" NOT NULL, '
                "group_number bigint NOT NULL, PRIMARY KEY (record_key, group_number))"
            )

    def exists(self) -> bool:
        with self._transaction() as connection:
            return self._is_there(connection)

    def _is_there(self, connection: Any) -> bool:
        return bool(connection.execute("SELECT to_regclass(%s) IS NOT NULL", (self._keys,)).fetchone()[0])

    def _insert_groups(self, connection: Any, groups: Sequence[tuple[str, str]], instant_time: str) -> None:
        connection.execute(
            f"INSERT INTO {self._groups} (partition_path, file_id, instant_time) "
            "SELECT path, id, %s FROM unnest(%s::text[], %s::text[]) AS wanted(path, id) ON CONFLICT DO NOTHING",
            (instant_time, [path for path, _ in groups], [file_id for _, file_id in groups]),
        )

    def _find_keys(self, connection: Any, start: int, keys: Sequence[str]) -> Sequence[tuple[int, int]]:
        connection.execute("SET LOCAL jit = off")
        found: Sequence[tuple[int, int]] = connection.execute(
            # OFFSET stops the planner from scanning all keys: it looks each wanted key up in the tree.
            "SELECT wanted.place - 1 + %s, found.group_number "
            "FROM unnest(%s::text[]) WITH ORDINALITY AS wanted(key, place) CROSS JOIN LATERAL "
            f'(SELECT group_number FROM {self._keys} WHERE record_key = wanted.key COLLATE "C" OFFSET 0) found',
            (start, keys),
            binary=True,
        ).fetchall()
        return found

    def _insert_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        connection.execute(
            f"INSERT INTO {self._keys} (record_key, group_number) "
            "SELECT key, %s FROM unnest(%s::text[]) AS given(key) ON CONFLICT DO NOTHING",
            (number, keys),
        )

    def _delete_files(self, connection: Any, files: Sequence[tuple[int, str]]) -> None:
        connection.execute(
            f"DELETE FROM {self._files} USING unnest(%s::bigint[], %s::text[]) AS given(number, name) "
            "WHERE group_number = given.number AND file_name = given.name",
            ([number for number, _ in files], [name for _, name in files]),
        )

    def _delete_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        connection.execute(
            f"DELETE FROM {self._keys} USING unnest(%s::text[]) AS given(key) "
            'WHERE group_number = %s AND record_key = given.key COLLATE "C"',
            (keys, number),
        )

    def _delete_numbers(self, connection: Any, table: str, column: str, numbers: Sequence[int]) -> None:
        connection.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s::bigint[])", (numbers,))

    @contextmanager
    def _transaction(self, reads_only: bool = False) -> Iterator[Any]:
        try:
            if self._opened is None:
                self._opened = psycopg.connect(self._url, autocommit=True)
            with self._opened.transaction():
                yield self._opened
        except psycopg.Error as error:
            raise HoodieIndexException(
                f"the index in the database {shown_url(self._url)} cannot be used: {str(error).strip()}. Nothing was "
                "committed: write again when the database can be reached"
            ) from error
