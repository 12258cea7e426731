"""The file groups of a record index, of the whole table or of each of its partitions.

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
    """The numbers of file groups of a record index, counted over all its parts; finds the group of a key.
    Crosses to tasks.

    Attributes:
        parts: Partition path of the table, None for the whole table, to the number of its first file group and their
            count.
    """

    parts: Mapping[str | None, tuple[int, int]]

    @classmethod
    def of_counts(cls, counts: Mapping[str | None, int]) -> Self:
        """File groups by their counts, numbered in the order given.

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
        """The number of all file groups."""
        return sum(count for _, count in self.parts.values())

    def numbers_of(self, keys: pa.Array, partition_path: str | None) -> npt.NDArray[np.int64]:
        """The number of the file group of each key; -1 where the index has no group for the partition.

        Args:
            keys: Record keys (string).
            partition_path: The partition of the keys; ignored in an index of the whole table.
        """
        first, count = self.parts.get(partition_path if self.is_by_partition else None, (0, 0))
        if not count:
            return np.full(len(keys), -1, np.int64)
        return first + file_groups_of_keys(keys, count)
