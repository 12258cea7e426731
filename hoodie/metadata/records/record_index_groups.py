"""The file groups of a record index, over the whole table or for each of its partitions.

Hudi: org.apache.hudi.metadata.BucketizedMetadataTableFileGroupIndexParser.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.metadata.records.metadata_keys import file_groups_of_keys


@attrs.frozen
class RecordIndexGroups:
    """Which file group has the entry of a key; file groups are numbered over all parts. Crosses to tasks.

    Attributes:
        parts: Partition path of the table, None for the whole table, to the number of its first file group and their
            count.
    """

    parts: Mapping[str | None, tuple[int, int]]

    @classmethod
    def of_counts(cls, counts: Mapping[str | None, int]) -> Self:
        """Groups by their counts, numbered in the order given.

        Args:
            counts: Partition path of the table, None for the whole table, to the count of its file groups.
        """
        parts, first = {}, 0
        for path, count in counts.items():
            parts[path] = first, count
            first += count
        return cls(parts)

    @property
    def is_by_partition(self) -> bool:
        """Whether each partition of the table has file groups of its own."""
        return None not in self.parts

    @property
    def count(self) -> int:
        """All file groups."""
        return sum(count for _, count in self.parts.values())

    def place_of(self, number: int) -> tuple[str | None, int]:
        """The part that a file group belongs to, and its number there.

        Args:
            number: Over all parts.
        """
        for path, (first, count) in self.parts.items():
            if first <= number < first + count:
                return path, number - first
        raise ValueError(f"there is no file group {number} among {self.count}")

    def numbers_of(self, keys: pa.Array, partition_path: str | None) -> npt.NDArray[np.int64]:
        """The file group of each key; -1 where the index has none for the partition.

        Args:
            keys: Record keys (string).
            partition_path: Their partition; of no account in an index of the whole table.
        """
        first, count = self.parts.get(partition_path if self.is_by_partition else None, (0, 0))
        if not count:
            return np.full(len(keys), -1, np.int64)
        return first + file_groups_of_keys(keys, count)
