"""The requirements of a secondary index: a name, a definition, and a record index of the whole table.

Hudi's ``CREATE INDEX`` checks the same, except that it allows a partitioned record index.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hoodie.avro.service_metadata import HoodieIndexPlan
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition, load_index_definitions
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, is_secondary_index
from hoodie.metadata.writer.partition_indexer import IndexingContext
from hoodie.metadata.writer.record_index_indexer import RecordIndexIndexer
from hoodie.metadata.writer.secondary_index_indexer import INDEX_TYPE, check_indexed_column

_KIND = MetadataPartitionType.SECONDARY_INDEX
_PREFIX = _KIND.partition_path
_FILES = MetadataPartitionType.FILES.partition_path
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path
COLUMN_KEY = "hoodie.metadata.index.secondary.column"
"""In the plan of an index that hoodie makes: its column. Hudi's option of that name says the same."""
_FIRST_VERSION, _FIRST_HASHED_BY_VALUE = 8, 9


def new_secondary_index(table: TableSnapshot, partition_path: str, column: str) -> HoodieIndexDefinition:
    """The definition of a new secondary index; refuses an index that the table cannot have.

    Args:
        table: The table.
        partition_path: See `secondary_index_partition`.
        column: The column.

    Raises:
        HoodieIndexException: The table has no such column on its top level.
        HoodieNotSupportedException: The version of the table or the type of the column does not allow it.
    """
    version = table.table_config.table_version
    if version < _FIRST_VERSION:
        raise HoodieNotSupportedException(
            f"{table.base_path} is of version {version}, and secondary indexes are for tables of version "
            f"{_FIRST_VERSION} and later: upgrade it with HoodieTableMetaClient.upgrade"
        )
    check_indexed_column(table.load_schema(), column)
    return HoodieIndexDefinition(
        partition_path, INDEX_TYPE, (column,), is_hashed_by_value=version >= _FIRST_HASHED_BY_VALUE
    )


def stored_secondary_indexes(
    table: TableSnapshot, partition_paths: Iterable[str]
) -> Mapping[str, HoodieIndexDefinition]:
    """The stored definitions of those partitions that are secondary indexes.

    Args:
        table: The table, under its lock.
        partition_paths: The partitions; other kinds are passed over.

    Raises:
        HoodieIndexException: An index has no definition with its column.
        HoodieCorruptedDataException: The definitions are damaged.
        HoodieIOException: Storage failed; call again.
    """
    wanted = [path for path in partition_paths if is_secondary_index(path)]
    stored = load_index_definitions(table.storage, table.meta_path) if wanted else {}
    for path in wanted:
        if path not in stored or len(stored[path].source_fields) != 1:
            raise HoodieIndexException(
                f"{table.meta_path}/.index_defs/index.json does not say which column {path} indexes: take the indexing "
                f"back (client.rollback), if there is one, and say it: client.schedule_indexing(secondary_indexes="
                f"{{{path.removeprefix(_PREFIX)!r}: column}})"
            )
    return {path: stored[path] for path in wanted}


def planned_secondary_indexes(table: TableSnapshot, plan: HoodieIndexPlan) -> Mapping[str, HoodieIndexDefinition]:
    """The definitions of the secondary indexes in a plan that the table does not list yet.

    Args:
        table: The table, under its lock.
        plan: A plan of hoodie, which names the columns; or one of Hudi, whose definitions are stored.

    Raises:
        HoodieException: See `new_secondary_index` and `stored_secondary_indexes`.
    """
    listed = table.table_config.metadata_partitions
    unlisted = [info for info in plan.index_partition_infos if info.metadata_partition_path not in listed]
    columns = {info.metadata_partition_path: (info.extra_metadata or {}).get(COLUMN_KEY) for info in unlisted}
    named = {path: new_secondary_index(table, path, column) for path, column in columns.items() if column}
    return {**named, **stored_secondary_indexes(table, [path for path in columns if path not in named])}


def require_record_index(table: TableSnapshot, config: HoodieMetadataConfig, partition_paths: Iterable[str]) -> None:
    """Refuse secondary indexes without a record index of the whole table.

    An index has one entry for a key and a value. It locates a row only if the key is in one place.

    Args:
        table: The table, under its lock.
        config: The partitions that this writer's metadata table gets.
        partition_paths: The partitions to build; without a secondary index among them nothing is checked.

    Raises:
        HoodieIndexException: The table has no record index, and none is to be built.
        HoodieNotSupportedException: The record index is partitioned, or would be.
        HoodieException: The metadata table cannot be read.
    """
    paths = list(partition_paths)
    indexes, listed = [path for path in paths if is_secondary_index(path)], table.table_config.metadata_partitions
    if not indexes:
        return
    if _RECORD_INDEX not in (*listed, *paths):
        raise HoodieIndexException(
            f"{', '.join(indexes)} of {table.base_path} needs a {_RECORD_INDEX}: build it before, or both together"
        )
    definitions = load_index_definitions(table.storage, table.meta_path)
    metadata = HoodieBackedTableMetadata.open(table) if _FILES in listed else None
    context = IndexingContext(table, LocalEngineContext(), config, definitions, metadata)
    if RecordIndexIndexer(_RECORD_INDEX).is_by_partition(context):
        raise HoodieNotSupportedException(
            f"{', '.join(indexes)} of {table.base_path} needs a record index of the whole table, and a key may be in "
            "several partitions with hoodie.metadata.record.level.index.enable: write with that option set to false, "
            "and build one with hoodie.metadata.global.record.level.index.enable=true"
        )
