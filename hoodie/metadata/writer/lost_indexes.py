"""The indexes that an action cannot keep up. They are dropped before it is completed.

A reader that trusts an index which lacks an action misses rows. So an action that cannot add its records to an
expression index gives the index up, and a warning says why. The same goes for an index without a definition: a writer
that died has dropped that first.

Hudi: its writers build expressions by Spark, and compute all of them.
"""

from __future__ import annotations

from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, is_expression_index
from hoodie.metadata.writer.expression_index_indexer import ExpressionIndexIndexer
from hoodie.metadata.writer.index_expressions import UnknownValuesError
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext


def may_lose_indexes(partitions: tuple[str, ...]) -> bool:
    """Whether there are indexes that an action may lose.

    Args:
        partitions: The listed partitions of the metadata table.
    """
    kinds = map(MetadataPartitionType.of_path, partitions)
    return any(kind is not None and kind.is_named for kind in kinds)


def lost_indexes(context: IndexingContext, change: CommittedChange | None) -> dict[str, str]:
    """The indexes that are dropped, and the reason of each.

    Args:
        context: The table without the action.
        change: An action that wrote files; None for another one, which keeps up all indexes that are defined.

    Raises:
        HoodieException: A file is missing or damaged, or storage failed.
    """
    found: dict[str, str] = {}
    for path in context.table.table_config.metadata_partitions:
        kind = MetadataPartitionType.of_path(path)
        if kind is None or not kind.is_named:
            continue
        if path not in context.definitions:
            found[path] = "it has no definition"
        elif change is not None and is_expression_index(path):
            try:
                ExpressionIndexIndexer(path).entries_of(context, change)
            except UnknownValuesError as error:
                found[path] = str(error)
    return found
