"""The interface of the stores of external indexes, which are outside of the table.

A store claims that a key lives in a file group. It may claim too much, but never too little. Keys of a failed write,
and keys that were deleted later, may stay in it, because each claim is checked in the base file before it is believed.
But it must not miss a key: a base file is *known* once all of its keys are claimed, and only then.

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

MOST_KEY_BYTES = 256
"""Longer keys are claimed by a digest, because databases limit the size of an index row."""


@attrs.frozen
class KnownFile:
    """A base file whose keys are all claimed.

    Attributes:
        file_name: Its name.
        instant_time: The instant that wrote it.
        added: Whether it has claimed keys that no older version of the file group had.
        removed: Whether it lacks keys of the version before it.
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
        generation: The number of times that keys were removed from it.
        instant_time: The instant that added it.
        files: Its known base files, by name.
    """

    number: int
    partition_path: str
    file_id: str
    generation: int
    instant_time: str
    files: Mapping[str, KnownFile] = attrs.field(factory=dict)


class LocationStore(ABC):
    """One connection to the claims of one table; a context manager, for one thread.

    Every call is complete and durable when it returns, and may be repeated. Several writers may use a store: `know`
    notices if another one removed keys of the group meanwhile.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    @abstractmethod
    def create(self) -> None:
        """Create the store, unless it exists."""

    @abstractmethod
    def exists(self) -> bool:
        """Whether `create` was called before; creates nothing."""

    @abstractmethod
    def groups(self) -> list[KnownGroup]:
        """All file groups."""

    @abstractmethod
    def add_groups(self, groups: Collection[tuple[str, str]], instant_time: str) -> dict[tuple[str, str], KnownGroup]:
        """The groups of (partition path, file id); missing groups are added.

        Args:
            groups: The groups that are wanted.
            instant_time: The instant of the caller; noted for groups that are added.
        """

    @abstractmethod
    def find(self, keys: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Find the groups that keys are claimed for.

        Args:
            keys: Sorted keys, as `claimed_keys` returns them.

        Returns:
            Two arrays (int64) with an entry for each claim: the index into ``keys``, and the number of the group.
        """

    @abstractmethod
    def add_keys(self, number: int, keys: Sequence[str]) -> None:
        """Claim keys for a group.

        Args:
            number: The number of the group.
            keys: Sorted keys, as `claimed_keys` returns them.
        """

    @abstractmethod
    def know(self, group: KnownGroup, file: KnownFile) -> bool:
        """Note that all keys of a base file are claimed.

        Args:
            group: The group as it was before its keys were claimed.
            file: The base file.

        Returns:
            False if keys of the group were removed since, or the group itself; then nothing is noted.
        """

    @abstractmethod
    def forget_files(self, files: Collection[tuple[int, str]]) -> None:
        """Mark base files as unknown; their keys stay claimed.

        Args:
            files: Pairs of group number and file name.
        """

    @abstractmethod
    def remove_keys(self, number: int, keys: Sequence[str], file_name: str) -> None:
        """Remove keys from a group, and mark all of its files but one as unknown, in one transaction.

        Args:
            number: The number of the group.
            keys: Keys that are not in the file that stays known.
            file_name: The name of that file.
        """

    @abstractmethod
    def drop_groups(self, numbers: Collection[int]) -> None:
        """Remove groups with all of their keys; reads all keys of the table.

        Args:
            numbers: The numbers of the groups.
        """


def claimed_keys(keys: pa.Array | pa.ChunkedArray) -> list[str]:
    """Record keys as stores keep them: distinct and sorted; a long key, or one with a NUL, becomes a digest.

    Args:
        keys: Strings; nulls are skipped.
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
