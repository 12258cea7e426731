"""Claims of keys in PostgreSQL, through psycopg (``pip install hoodie[postgresql]``)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.index.external.database_url import shown_url
from hoodie.index.external.location_store import KnownFile, KnownGroup, LocationStore

try:
    import psycopg
except ImportError:  # said by the constructor
    psycopg = None

__all__ = ["PostgresLocationStore"]

CHUNK_KEYS = 50_000
"""Keys of one statement."""
CREATE_LOCK = 0x686F6F646965
"""Advisory lock of those that make tables: CREATE TABLE IF NOT EXISTS fails when two do it at once."""


class PostgresLocationStore(LocationStore):
    """One connection to a PostgreSQL database; its tables are made in the first schema of the search path.

    Args:
        url: ``postgresql://...`` as libpq takes it; what it lacks is taken from libpq's environment and password file.
        prefix: Begins the names of the tables.

    Raises:
        HoodieNotSupportedException: psycopg is not installed.
    """

    def __init__(self, url: str, prefix: str) -> None:
        if psycopg is None:
            raise HoodieNotSupportedException(
                "an index in PostgreSQL needs psycopg: pip install 'hoodie[postgresql]', here and on the executors"
            )
        self._url = url
        self._groups = f"{prefix}_groups"
        self._files = f"{prefix}_files"
        self._keys = f"{prefix}_keys"
        self._opened: Any = None

    def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened.close()

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

    def groups(self) -> list[KnownGroup]:
        with self._transaction() as connection:
            files: dict[int, dict[str, KnownFile]] = {}
            for number, name, instant_time, added, removed in connection.execute(
                f"SELECT group_number, file_name, instant_time, added, removed FROM {self._files}"
            ):
                files.setdefault(number, {})[name] = KnownFile(name, instant_time, added, removed)
            return [
                KnownGroup(number, path, file_id, generation, instant_time, files.get(number, {}))
                for number, path, file_id, generation, instant_time in connection.execute(
                    f"SELECT number, partition_path, file_id, generation, instant_time FROM {self._groups}"
                )
            ]

    def add_groups(self, groups: Collection[tuple[str, str]], instant_time: str) -> dict[tuple[str, str], KnownGroup]:
        wanted = sorted(groups)
        with self._transaction() as connection:
            connection.execute(
                f"INSERT INTO {self._groups} (partition_path, file_id, instant_time) "
                "SELECT path, id, %s FROM unnest(%s::text[], %s::text[]) AS wanted(path, id) ON CONFLICT DO NOTHING",
                (instant_time, [path for path, _ in wanted], [file_id for _, file_id in wanted]),
            )
        known = {(group.partition_path, group.file_id): group for group in self.groups()}
        return {group: known[group] for group in groups}

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        rows: list[tuple[int, int]] = []
        for start in range(0, len(keys), CHUNK_KEYS):
            with self._transaction() as connection:
                connection.execute("SET LOCAL jit = off")
                rows += connection.execute(
                    # OFFSET keeps the planner from reading through all keys: one look into the tree for each.
                    "SELECT wanted.place - 1 + %s, found.group_number "
                    "FROM unnest(%s::text[]) WITH ORDINALITY AS wanted(key, place) CROSS JOIN LATERAL "
                    f'(SELECT group_number FROM {self._keys} WHERE record_key = wanted.key COLLATE "C" OFFSET 0) found',
                    (start, keys[start : start + CHUNK_KEYS]),
                    binary=True,
                ).fetchall()
        pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def add_keys(self, number: int, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), CHUNK_KEYS):
            with self._transaction() as connection:
                connection.execute(
                    f"INSERT INTO {self._keys} (record_key, group_number) "
                    "SELECT key, %s FROM unnest(%s::text[]) AS given(key) ON CONFLICT DO NOTHING",
                    (number, keys[start : start + CHUNK_KEYS]),
                )

    def know(self, group: KnownGroup, file: KnownFile) -> bool:
        with self._transaction() as connection:
            # The lock holds off `remove_keys` and `drop_groups` until the file is noted.
            found = connection.execute(
                f"SELECT 1 FROM {self._groups} WHERE number = %s AND generation = %s FOR SHARE",
                (group.number, group.generation),
            ).fetchone()
            if found is None:
                return False
            connection.execute(
                f"INSERT INTO {self._files} VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING",
                (group.number, file.file_name, file.instant_time, file.added, file.removed),
            )
        return True

    def forget_files(self, files: Collection[tuple[int, str]]) -> None:
        listed = sorted(files)
        with self._transaction() as connection:
            connection.execute(
                f"DELETE FROM {self._files} USING unnest(%s::bigint[], %s::text[]) AS given(number, name) "
                "WHERE group_number = given.number AND file_name = given.name",
                ([number for number, _ in listed], [name for _, name in listed]),
            )

    def remove_keys(self, number: int, keys: Sequence[str], file_name: str) -> None:
        with self._transaction() as connection:
            connection.execute(f"UPDATE {self._groups} SET generation = generation + 1 WHERE number = %s", (number,))
            connection.execute(
                f"DELETE FROM {self._files} WHERE group_number = %s AND file_name <> %s", (number, file_name)
            )
            for start in range(0, len(keys), CHUNK_KEYS):
                connection.execute(
                    f"DELETE FROM {self._keys} USING unnest(%s::text[]) AS given(key) "
                    'WHERE group_number = %s AND record_key = given.key COLLATE "C"',
                    (keys[start : start + CHUNK_KEYS], number),
                )

    def drop_groups(self, numbers: Collection[int]) -> None:
        listed = sorted(numbers)
        with self._transaction() as connection:
            for table, column in (
                (self._groups, "number"),
                (self._files, "group_number"),
                (self._keys, "group_number"),
            ):
                connection.execute(f"DELETE FROM {table} WHERE {column} = ANY(%s::bigint[])", (listed,))

    @contextmanager
    def _transaction(self) -> Iterator[Any]:
        try:
            if self._opened is None:
                self._opened = psycopg.connect(self._url, autocommit=True)
            with self._opened.transaction():
                yield self._opened
        except psycopg.Error as error:
            raise HoodieIndexException(
                f"the index in the database {shown_url(self._url)} cannot be used: {str(error).strip()}. Nothing was "
                "committed: write again when it is there"
            ) from error
