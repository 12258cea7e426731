"""Claims of keys in a file of SQLite, in this process."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from hoodie.exception import HoodieIndexException
from hoodie.index.external.location_store import KnownFile, KnownGroup, LocationStore

__all__ = ["SqliteLocationStore"]

_OF_TABLE = "/.hoodie/"
CHUNK_KEYS = 50_000
"""Keys of one statement: they travel as one JSON text."""
WAIT_SECONDS = 60
"""How long a writer waits for another one that writes to the same file."""


class SqliteLocationStore(LocationStore):
    """One connection to a file of SQLite.

    Args:
        path: The file; it and its folder are made.
        prefix: Begins the names of the tables in it.
    """

    def __init__(self, path: str, prefix: str) -> None:
        self._path = path
        self._groups = f"{prefix}_groups"
        self._files = f"{prefix}_files"
        self._keys = f"{prefix}_keys"
        self._opened: sqlite3.Connection | None = None

    def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened.close()

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
        with self._transaction("DEFERRED") as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (self._keys,)).fetchone()
        return found is not None

    def groups(self) -> list[KnownGroup]:
        with self._transaction("DEFERRED") as connection:
            files: dict[int, dict[str, KnownFile]] = {}
            for number, name, instant_time, added, removed in connection.execute(
                f"SELECT group_number, file_name, instant_time, added, removed FROM {self._files}"
            ):
                files.setdefault(number, {})[name] = KnownFile(name, instant_time, bool(added), bool(removed))
            return [
                KnownGroup(number, path, file_id, generation, instant_time, files.get(number, {}))
                for number, path, file_id, generation, instant_time in connection.execute(
                    f"SELECT number, partition_path, file_id, generation, instant_time FROM {self._groups}"
                )
            ]

    def add_groups(self, groups: Collection[tuple[str, str]], instant_time: str) -> dict[tuple[str, str], KnownGroup]:
        with self._transaction() as connection:
            connection.executemany(
                f"INSERT INTO {self._groups} (partition_path, file_id, instant_time) VALUES (?, ?, ?) "
                "ON CONFLICT DO NOTHING",
                [(*group, instant_time) for group in sorted(groups)],
            )
        known = {(group.partition_path, group.file_id): group for group in self.groups()}
        return {group: known[group] for group in groups}

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        rows: list[tuple[int, int]] = []
        for start in range(0, len(keys), CHUNK_KEYS):
            chunk = json.dumps(keys[start : start + CHUNK_KEYS])
            with self._transaction("DEFERRED") as connection:
                # CROSS JOIN keeps the order: one look into the tree for each wanted key.
                rows += connection.execute(
                    "SELECT wanted.key + ?, found.group_number FROM json_each(?) wanted "
                    f"CROSS JOIN {self._keys} found ON found.record_key = wanted.value",
                    (start, chunk),
                ).fetchall()
        pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def add_keys(self, number: int, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), CHUNK_KEYS):
            with self._transaction() as connection:
                connection.execute(
                    f"INSERT INTO {self._keys} (record_key, group_number) SELECT value, ? FROM json_each(?) WHERE true "
                    "ON CONFLICT DO NOTHING",
                    (number, json.dumps(keys[start : start + CHUNK_KEYS])),
                )

    def know(self, group: KnownGroup, file: KnownFile) -> bool:
        with self._transaction() as connection:
            found = connection.execute(
                f"SELECT 1 FROM {self._groups} WHERE number = ? AND generation = ?", (group.number, group.generation)
            ).fetchone()
            if found is None:
                return False
            connection.execute(
                f"INSERT INTO {self._files} VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
                (group.number, file.file_name, file.instant_time, file.added, file.removed),
            )
        return True

    def forget_files(self, files: Collection[tuple[int, str]]) -> None:
        with self._transaction() as connection:
            connection.executemany(f"DELETE FROM {self._files} WHERE group_number = ? AND file_name = ?", sorted(files))

    def remove_keys(self, number: int, keys: Sequence[str], file_name: str) -> None:
        with self._transaction() as connection:
            connection.execute(f"UPDATE {self._groups} SET generation = generation + 1 WHERE number = ?", (number,))
            connection.execute(
                f"DELETE FROM {self._files} WHERE group_number = ? AND file_name <> ?", (number, file_name)
            )
            for start in range(0, len(keys), CHUNK_KEYS):
                connection.execute(
                    f"DELETE FROM {self._keys} WHERE group_number = ? AND record_key IN (SELECT value FROM "
                    "json_each(?))",
                    (number, json.dumps(keys[start : start + CHUNK_KEYS])),
                )

    def drop_groups(self, numbers: Collection[int]) -> None:
        listed = json.dumps(sorted(numbers))
        with self._transaction() as connection:
            for table, column in (
                (self._groups, "number"),
                (self._files, "group_number"),
                (self._keys, "group_number"),
            ):
                connection.execute(f"DELETE FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))", (listed,))

    @contextmanager
    def _transaction(self, mode: str = "IMMEDIATE") -> Iterator[sqlite3.Connection]:
        with self._translated():
            connection = self._connection
            connection.execute(f"BEGIN {mode}")
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
                f"the index in the SQLite file {self._path} cannot be used: {error}. A file that is damaged or of "
                "another program may be deleted or named otherwise (hoodie.index.database.url): the index is built "
                "again from the table"
            ) from error

    @property
    def _connection(self) -> Any:
        if self._opened is None:
            if _OF_TABLE in self._path and os.path.islink(self._path):
                raise HoodieIndexException(
                    f"{self._path} is a symbolic link in the folder of the table, and links there are not written "
                    "through: name the file that it leads to by hoodie.index.database.url"
                )
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            connection = sqlite3.connect(
                self._path, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            try:
                # A crash of the machine loses the newest transactions, never a part of one nor an older one: what is
                # known stays claimed.
                connection.execute("PRAGMA journal_mode = WAL")
                connection.execute("PRAGMA synchronous = NORMAL")
                connection.execute("PRAGMA cache_size = -65536")
            except BaseException:
                connection.close()
                raise
            self._opened = connection
        return self._opened
