"""Claims of keys in three tables of a database: the common part of the stores of all databases."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np

from hoodie.index.external.location_store import KnownFile, KnownGroup, LocationStore

CHUNK_KEYS = 50_000
"""Keys of one statement."""


class DatabaseLocationStore(LocationStore):
    """One connection to a database, opened when it is first needed.

    Tables: groups (number, partition_path, file_id, generation, instant_time), files (group_number, file_name,
    instant_time, added, removed) and keys (record_key, group_number).

    Args:
        prefix: The prefix of the names of the tables.
    """

    place: ClassVar[str]
    """Stands for a value in a statement."""
    locks_rows: ClassVar[str] = ""
    """The end of a SELECT whose rows no other writer may change before the transaction ends."""

    def __init__(self, prefix: str) -> None:
        self._groups = f"{prefix}_groups"
        self._files = f"{prefix}_files"
        self._keys = f"{prefix}_keys"
        self._opened: Any = None

    def close(self) -> None:
        if self._opened is not None:
            opened, self._opened = self._opened, None
            opened.close()

    def groups(self) -> list[KnownGroup]:
        with self._transaction(reads_only=True) as connection:
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
            self._insert_groups(connection, sorted(groups), instant_time)
        known = {(group.partition_path, group.file_id): group for group in self.groups()}
        return {group: known[group] for group in groups}

    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        rows: list[tuple[int, int]] = []
        for start, chunk in _chunks(keys):
            with self._transaction(reads_only=True) as connection:
                rows += self._find_keys(connection, start, chunk)
        pairs = np.array(rows, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]

    def add_keys(self, number: int, keys: Sequence[str]) -> None:
        for _, chunk in _chunks(keys):
            with self._transaction() as connection:
                self._insert_keys(connection, number, chunk)

    def know(self, group: KnownGroup, file: KnownFile) -> bool:
        with self._transaction() as connection:
            # The lock holds off `remove_keys` and `drop_groups` until the file is noted.
            found = connection.execute(
                f"SELECT 1 FROM {self._groups} WHERE number = {self.place} AND generation = {self.place}"
                f"{self.locks_rows}",
                (group.number, group.generation),
            ).fetchone()
            if found is None:
                return False
            values = ", ".join([self.place] * 5)
            connection.execute(
                f"INSERT INTO {self._files} VALUES ({values}) ON CONFLICT DO NOTHING",
                (group.number, file.file_name, file.instant_time, file.added, file.removed),
            )
        return True

    def forget_files(self, files: Collection[tuple[int, str]]) -> None:
        with self._transaction() as connection:
            self._delete_files(connection, sorted(files))

    def remove_keys(self, number: int, keys: Sequence[str], file_name: str) -> None:
        with self._transaction() as connection:
            connection.execute(
                f"UPDATE {self._groups} SET generation = generation + 1 WHERE number = {self.place}", (number,)
            )
            connection.execute(
                f"DELETE FROM {self._files} WHERE group_number = {self.place} AND file_name <> {self.place}",
                (number, file_name),
            )
            for _, chunk in _chunks(keys):
                self._delete_keys(connection, number, chunk)

    def drop_groups(self, numbers: Collection[int]) -> None:
        listed = sorted(numbers)
        with self._transaction() as connection:
            self._delete_numbers(connection, self._groups, "number", listed)
            for table in (self._files, self._keys):
                self._delete_numbers(connection, table, "group_number", listed)

    @abstractmethod
    def _transaction(self, reads_only: bool = False) -> AbstractContextManager[Any]:
        """A connection within a transaction; an error inside of the context undoes the transaction.

        Args:
            reads_only: Whether nothing is written.

        Raises:
            HoodieIndexException: The database cannot be used.
        """

    @abstractmethod
    def _insert_groups(self, connection: Any, groups: Sequence[tuple[str, str]], instant_time: str) -> None:
        """Add the missing ones of these groups of (partition path, file id)."""

    @abstractmethod
    def _find_keys(self, connection: Any, start: int, keys: Sequence[str]) -> Sequence[tuple[int, int]]:
        """(``start`` and index into ``keys``, group number) for each claim."""

    @abstractmethod
    def _insert_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        """Add the missing keys of a group."""

    @abstractmethod
    def _delete_files(self, connection: Any, files: Sequence[tuple[int, str]]) -> None:
        """Delete files by group number and name."""

    @abstractmethod
    def _delete_keys(self, connection: Any, number: int, keys: Sequence[str]) -> None:
        """Delete keys of a group."""

    @abstractmethod
    def _delete_numbers(self, connection: Any, table: str, column: str, numbers: Sequence[int]) -> None:
        """Delete rows of a table whose column has one of the numbers."""


def _chunks(keys: Sequence[str]) -> Iterator[tuple[int, Sequence[str]]]:
    """(start, keys) of each statement."""
    for start in range(0, len(keys), CHUNK_KEYS):
        yield start, keys[start : start + CHUNK_KEYS]
