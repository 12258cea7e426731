"""Claims of keys in a file of SQLite, which this process opens."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hoodie.exception import HoodieIndexException
from hoodie.index.external.database_location_store import DatabaseLocationStore

_OF_TABLE = "/.hoodie/"
WAIT_SECONDS = 60
"""The longest time that a writer waits for another writer of the same file."""


class SqliteLocationStore(DatabaseLocationStore):
    """One connection to a file of SQLite. Each statement gets its keys as one JSON text.

    Args:
        path: The file. The connection creates it, and its folder.
        prefix: The prefix of the names of the tables in it.
    """

    place = "?"

    def __init__(self, path: str, prefix: str) -> None:
        super().__init__(prefix)
        self._path = path

    def create(self) -> None:
        with self._transaction() as connection:
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._groups} (number INTEGER PRIMARY KEY AUTOINCREMENT, "
                "partition_path TEXT NOT NULL, file_id TEXT NOT NULL, generation INTEGER NOT NULL DEFAULT 0, "
                "instant_time TEXT NOT NULL, UNIQUE (partition_path, file_id))"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._files} (group_number INTEGER NOT NULL, file_name TEXT NOT NULL, "
                "instant_time TEXT NOT NULL, added INTEGER NOT NULL, removed INTEGER NOT NULL, "
                "PRIMARY KEY (group_number, file_name)) WITHOUT ROWID"
            )
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._keys} (record_key TEXT NOT NULL, group_number INTEGER NOT NULL, "
                "PRIMARY KEY (record_key, group_number)) WITHOUT ROWID"
            )

    def exists(self) -> bool:
        if not os.path.exists(self._path):
            return False
        with self._transaction(reads_only=True) as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (self._keys,)).fetchone()
        return found is not None

    def _insert_groups(self, connection: Any, groups: Sequence[tuple[str, str]], instant_time: str) -> None:
        connection.executemany(
            f"INSERT INTO {self._groups} (partition_path, file_id, instant_time) VALUES (?, ?, ?) "
            "ON CONFLICT DO NOTHING",
            [(*group, instant_time) for group in groups],
        )

    def _find_keys(self, connection: Any, start: int, keys: Sequence[str]) -> Sequence[tuple[int, int]]:
        # CROSS JOIN keeps the order of the tables: SQLite looks each wanted key up in the tree.
        found: Sequence[tuple[int, int]] = connection.execute(
            "SELECT wanted.key + ?, found.group_number FROM json_each(?) wanted "
            f"CROSS JOIN {self._keys} found ON found.record_key = wanted.value",
            (start, json.dumps(keys)),
        ).fetchall()
        return found

    def _insert_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        connection.execute(
            f"INSERT INTO {self._keys} (record_key, group_number) SELECT value, ? FROM json_each(?) WHERE true "
            "ON CONFLICT DO NOTHING",
            (number, json.dumps(keys)),
        )

    def _delete_files(self, connection: Any, files: Sequence[tuple[int, str]]) -> None:
        connection.executemany(f"DELETE FROM {self._files} WHERE group_number = ? AND file_name = ?", files)

    def _delete_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        connection.execute(
            f"DELETE FROM {self._keys} WHERE group_number = ? AND record_key IN (SELECT value FROM json_each(?))",
            (number, json.dumps(keys)),
        )

    def _delete_numbers(self, connection: Any, table: str, column: str, numbers: Sequence[int]) -> None:
        connection.execute(
            f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (json.dumps(numbers),)
        )

    @contextmanager
    def _transaction(self, reads_only: bool = False) -> Iterator[sqlite3.Connection]:
        with self._translated():
            connection = self._connection
            connection.execute("BEGIN DEFERRED" if reads_only else "BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise HoodieIndexException(
                f"the index in the SQLite file {self._path} cannot be used: {error}. If the file is damaged, delete "
                "it; if it belongs to another program, name another file (hoodie.index.database.url). The next write "
                "builds the index again from the table"
            ) from error

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            if _OF_TABLE in self._path and os.path.islink(self._path):
                raise HoodieIndexException(
                    f"{self._path} is a symbolic link in the table's folder, and hoodie does not write through such "
                    "links: name the target of the link by hoodie.index.database.url"
                )
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            connection = sqlite3.connect(
                self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                # A crash of the machine may lose the newest transactions, but never a part of one or an older one. So
                # the keys of all files that the store knows are claimed.
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA cache_size = -65536")
            except BaseException:
                connection.close()
                raise
            self._opened = connection
        return self._opened
