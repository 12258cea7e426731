"""The file groups that hold each record key, as numbers: a table has many keys and few file groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
FileGroup = tuple[str, str]
"""Partition path and file id."""
_UNKNOWN = -1


@attrs.frozen(eq=False)
class KeyPlaces:
    """Pairs of a key of a table and a file group that holds it, each pair once.

    A record index has one entry for a key; a partitioned one has an entry of a key for each partition. Each pair needs
    the entry with this number::

        key   partition   file group   entry   entry of a partitioned index
        a     x           F1           0       0
        a     y           F2           0       1
        b     y           F3           1       3

    Attributes:
        keys: The keys, each once (large_string).
        groups: The file groups, partition by partition.
        key_numbers: The place in ``keys`` of each pair; ascending.
        group_numbers: The place in ``groups`` of each pair; ascending among pairs of a key.
        entries: The number of the entry that each pair needs; ascending.
        partitions: The partition paths, for a partitioned index; empty for an index of the whole table.
    """

    keys: pa.Array
    groups: tuple[FileGroup, ...]
    key_numbers: Longs
    group_numbers: Longs
    entries: Longs
    partitions: tuple[str, ...]

    @classmethod
    def of(cls, found: Iterable[tuple[FileGroup, pa.ChunkedArray]], *, is_by_partition: bool) -> KeyPlaces:
        """The pairs of the rows of file groups.

        Memory: all keys, twice.

        Args:
            found: File groups, partition by partition, and the keys of their rows.
            is_by_partition: Whether a key has an entry for each partition.
        """
        chunks, groups, counts = list[pa.Array](), list[FileGroup](), list[int]()
        for group, keys in found:
            keys = keys.drop_null()
            groups.append(group)
            counts.append(len(keys))
            chunks += keys.cast(pa.large_string()).chunks
        encoded = pa.chunked_array(chunks, pa.large_string()).dictionary_encode()
        del chunks
        distinct = encoded.chunk(0).dictionary if encoded.num_chunks else pa.array([], pa.large_string())
        codes = [np.empty(0, np.int64), *(chunk.indices.to_numpy().astype(np.int64) for chunk in encoded.chunks)]
        del encoded
        width = max(len(groups), 1)
        pairs = np.unique(np.concatenate(codes) * width + np.repeat(np.arange(len(groups)), counts))
        key_numbers, group_numbers = np.divmod(pairs, width)
        partitions = tuple(dict.fromkeys(path for path, _ in groups)) if is_by_partition else ()
        numbers = {path: number for number, path in enumerate(partitions)}
        entries = key_numbers
        if is_by_partition:
            of_groups = np.array([numbers[path] for path, _ in groups], np.int64)
            entries = key_numbers * len(partitions) + of_groups[group_numbers]
        return cls(distinct, tuple(groups), key_numbers, group_numbers, entries, partitions)

    def key_of(self, pair: int) -> str:
        """The key of a pair."""
        return str(self.keys[int(self.key_numbers[pair])].as_py())

    def place_of(self, pair: int) -> str:
        """The file group of a pair, as text."""
        return shown_group(*self.groups[int(self.group_numbers[pair])])

    def ambiguous(self) -> Iterator[tuple[int, int]]:
        """The first pair, and the one after the last, of each entry that would have to name several file groups."""
        starts = np.flatnonzero(np.diff(self.entries, prepend=_UNKNOWN))
        ends = np.append(starts[1:], len(self.entries))[: len(starts)]
        ambiguous = np.flatnonzero(ends - starts > 1)
        yield from zip(starts[ambiguous].tolist(), ends[ambiguous].tolist(), strict=True)

    def numbers_of(self, keys: pa.Array) -> Longs:
        """The places in ``keys`` of the keys of an index; -1 for keys that the table does not have.

        Args:
            keys: The keys of the index (string).
        """
        return _numbers(pc.index_in(keys.cast(pa.large_string()), value_set=self.keys))

    def entries_of(self, numbers: Longs, partition_paths: pa.Array) -> Longs:
        """The numbers of the entries of an index, see the class; -1 where the table has no such key or partition.

        Args:
            numbers: See `numbers_of`.
            partition_paths: The partitions that the entries name (string).
        """
        if not self.partitions:
            return numbers
        places = _numbers(pc.index_in(partition_paths, value_set=pa.array(self.partitions, pa.string())))
        return np.where((numbers < 0) | (places < 0), _UNKNOWN, numbers * len(self.partitions) + places)

    def are_places(self, numbers: Longs, partition_paths: pa.Array, file_ids: pa.Array) -> Flags:
        """Whether keys are in the file groups that entries of an index name.

        Args:
            numbers: See `numbers_of`.
            partition_paths: The partitions that the entries name (string).
            file_ids: The file groups that the entries name (string).
        """
        groups, width = self._group_numbers(partition_paths, file_ids), max(len(self.groups), 1)
        is_pair = np.isin(numbers * width + groups, self.key_numbers * width + self.group_numbers)
        return is_pair & (numbers >= 0) & (groups >= 0)

    def _group_numbers(self, partition_paths: pa.Array, file_ids: pa.Array) -> Longs:
        """The numbers of file groups, many of which repeat; -1 for file groups that the table does not have."""
        known = {group: number for number, group in enumerate(self.groups)}
        paths, ids = (column.dictionary_encode() for column in (partition_paths, file_ids))
        width = len(ids.dictionary) + 1
        named, places = np.unique(_numbers(paths.indices) * width + _numbers(ids.indices), return_inverse=True)
        of_named = [
            known.get((paths.dictionary[number // width].as_py(), ids.dictionary[number % width].as_py()), _UNKNOWN)
            for number in named.tolist()
        ]
        return np.array(of_named, np.int64)[places]


def shown_group(partition_path: str, file_id: str) -> str:
    """A file group, as differences name it."""
    return f"{partition_path}/{file_id}".lstrip("/")


def _numbers(column: pa.Array) -> Longs:
    found: Longs = pc.fill_null(column, _UNKNOWN).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
