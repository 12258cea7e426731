"""Find the partitions that a delete_partition deletes: patterns match them, or rows belong to them.

Hudi: HoodieSparkSqlWriter (DELETE_PARTITION, resolvePartitionWildcards).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import attrs

from hoodie.client.write_input import WriteInput
from hoodie.table.table import HoodieTable

_WILDCARD = "*"
_ESCAPED_WILDCARD = "%2A"
"""How Spark SQL and tables with ``hoodie.datasource.write.partitionpath.urlencode`` write a star."""


@attrs.frozen
class MatchingPartitions:
    """The table's partitions that patterns match.

    Attributes:
        patterns: Partition paths. ``*`` stands for any text, slashes included, and so does ``%2A`` in a pattern without
            ``*`` that is not the path of a partition.
    """

    patterns: tuple[str, ...]

    def among(self, partition_paths: Iterable[str]) -> list[str]:
        """The partitions to delete; a pattern without wildcard stays as it is, even if there is no such partition.

        Args:
            partition_paths: The table's partitions.
        """
        existing = sorted(partition_paths)
        found: dict[str, None] = {}
        for pattern in self.patterns:
            wildcard = _WILDCARD if _WILDCARD in pattern else _ESCAPED_WILDCARD
            if wildcard not in pattern or pattern in existing:
                found[pattern] = None
                continue
            matches = re.compile(".*".join(map(re.escape, pattern.split(wildcard))), re.DOTALL).fullmatch
            found |= dict.fromkeys(path for path in existing if matches(path))
        return list(found)


@attrs.frozen(eq=False)
class PartitionsOfRows:
    """The partitions that rows go to.

    Attributes:
        rows: Rows with the record key and partition columns, or `HoodieKey`s.
    """

    rows: Any


Partitions: TypeAlias = MatchingPartitions | PartitionsOfRows | Callable[[HoodieTable], Iterable[str]] | Iterable[str]
"""What a delete_partition deletes; a function finds them in the table that the write begins from."""


def paths_to_delete(partitions: Partitions, table: HoodieTable) -> Iterable[str]:
    """Partition paths of the table.

    Args:
        partitions: The caller's argument; a list of paths is returned as it is.
        table: The table that is written.

    Raises:
        HoodieKeyException: Rows do not say which partitions they go to.
    """
    if isinstance(partitions, MatchingPartitions):
        return partitions.among(table.view.list_partitions())
    if isinstance(partitions, PartitionsOfRows):
        return WriteInput(table).partition_paths(partitions.rows)
    if callable(partitions):
        return partitions(table)
    return partitions
