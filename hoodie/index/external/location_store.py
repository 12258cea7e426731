"""What an external index keeps outside of the table, and the calls by which it does.

A store claims that a key lives in a file group. It claims too much rather than too little: keys that a failed write
left, or that are deleted since, may stand in it, because what it claims is looked up in the base file before it is
believed. What it must not do is to miss one: a base file is *known* once all of its keys are claimed, and only then.

    group 7 = partition p, file id F     known files of it: F_0-1-1_20260101120000000.parquet
    key "a" -> group 7                   key "b" -> group 7
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Self

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["MOST_KEY_BYTES", "KnownFile", "KnownGroup", "LocationStore", "claimed_keys"]

MOST_KEY_BYTES = 256
"""Longer keys are claimed by a digest: databases limit what a row of an index may hold."""


@attrs.frozen
class KnownFile:
    """A base file whose keys are all claimed.

    Attributes:
        file_name: Its name.
        instant_time: The instant that wrote it.
        added: Whether keys were claimed for it that no older version of the file group had.
        removed: Whether keys of the version before it are not in it.
    """

    file_name: str
    instant_time: str
    added: bool = True
    removed: bool = False


@attrs.frozen
class KnownGroup:
    """A file group in a store.

    Attributes:
        number: Its number, never used again.
        partition_path: Its partition.
        file_id: Its id.
        generation: Counts how often keys were taken away from it.
        instant_time: The instant that brought it in.
        files: The known ones of its base files, by name.
    """

    number: int
    partition_path: str
    file_id: str
    generation: int
    instant_time: str
    files: Mapping[str, KnownFile] = attrs.field(factory=dict)


class LocationStore(ABC):
    """One connection to the claims of one table; a context manager, for one thread.

    Every call is done, and durable, when it returns, and may be made again. Several writers may be at work: `know`
    notices when another one took keys of the group away meanwhile.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Give the connection back."""

    @abstractmethod
    def create(self) -> None:
        """Make what the store needs, where it is not there yet."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether `create` was called once; makes nothing."""

    @abstractmethod
    def groups(self) -> list[KnownGroup]:
        """All file groups."""

    @abstractmethod
    def add_groups(self, groups: Collection[tuple[str, str]], instant_time: str) -> dict[tuple[str, str], KnownGroup]:
        """The groups of (partition path, file id), made where they are not there.

        Args:
            groups: What is asked for.
            instant_time: Who asks; noted for those that are made.
        """

    @abstractmethod
    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which groups keys are claimed for.

        Args:
            keys: As `claimed_keys` gives them, sorted.

        Returns:
            Index into ``keys`` and number of the group (int64), a pair for each claim.
        """

    @abstractmethod
    def add_keys(self, number: int, keys: Sequence[str]) -> None:
        """Claim keys for a group.

        Args:
            number: Of the group.
            keys: As `claimed_keys` gives them, sorted.
        """

    @abstractmethod
    def know(self, group: KnownGroup, file: KnownFile) -> bool:
        """Note that all keys of a base file are claimed.

        Args:
            group: As it was before its keys were claimed.
            file: The base file.

        Returns:
            False, and nothing is noted, when keys were taken away from the group since, or it is gone.
        """

    @abstractmethod
    def forget_files(self, files: Collection[tuple[int, str]]) -> None:
        """Take base files for unknown; their keys stay claimed.

        Args:
            files: Number of the group and file name.
        """

    @abstractmethod
    def remove_keys(self, number: int, keys: Sequence[str], file_name: str) -> None:
        """Take keys away from a group, in one transaction with taking all of its files but one for unknown.

        Args:
            number: Of the group.
            keys: None of them is in the file that stays known.
            file_name: That file.
        """

    @abstractmethod
    def drop_groups(self, numbers: Collection[int]) -> None:
        """Take groups away with all of their keys; reads through all keys of the table.

        Args:
            numbers: Of the groups.
        """


def claimed_keys(keys: pa.Array | pa.ChunkedArray) -> list[str]:
    """Record keys as stores keep them: distinct, sorted; a long one, or one with a NUL, as a digest.

    Args:
        keys: Strings; nulls are passed over.
    """
    distinct = pc.drop_null(keys).unique()
    unfit = pc.or_(pc.greater(pc.binary_length(distinct), MOST_KEY_BYTES), pc.match_substring(distinct, "\0"))
    listed: list[str] = distinct.to_pylist()
    if pc.any(unfit).as_py():
        for place in np.flatnonzero(unfit.to_numpy(zero_copy_only=False)):
            listed[place] = _digest(listed[place])
    listed.sort()
    return listed


def _digest(key: str) -> str:
    return "blake2b:" + hashlib.blake2b(key.encode(), digest_size=32).hexdigest()
