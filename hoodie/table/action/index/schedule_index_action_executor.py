"""Plan to build partitions of the metadata table beside writers.

The plan alone changes nothing for anybody: the partitions are not listed as being built, because writers of Hudi would
then record their actions in files that are not there yet. Nor is the definition of a secondary index stored, because
writers of Hudi build what is defined; the plan says which column it indexes.

Hudi: org.apache.hudi.table.action.index.ScheduleIndexActionExecutor. Differs: refuses partitions that are built, or
being built, where Hudi leaves them out; and Hudi stores the definition of a secondary index before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hoodie.common.table.index_plans import planned_partitions
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.exception import HoodieConfigException, HoodieIndexException, HoodieNotSupportedException
from hoodie.metadata.metadata_indexes import MetadataIndexes
from hoodie.metadata.metadata_table import MetadataTableUpkeep
from hoodie.metadata.records.metadata_partition_type import (
    MetadataPartitionType,
    is_secondary_index,
    secondary_index_partition,
)

_FILES = MetadataPartitionType.FILES
_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS
_PARTITION_STATS = MetadataPartitionType.PARTITION_STATS
_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS
_KINDS = (_COLUMN_STATS, _PARTITION_STATS, _BLOOM_FILTERS, _RECORD_INDEX)


def index_partitions(
    partition_types: Sequence[str], secondary_indexes: Mapping[str, str] | None = None
) -> dict[str, str | None]:
    """The partitions that can be built beside writers, and the columns of secondary indexes.

        index_partitions(["RECORD_INDEX", "secondary_index_a"], {"b": "rider"})

        {"record_index": None, "secondary_index_a": None, "secondary_index_b": "rider"}

    Args:
        partition_types: Kinds, in small or capital letters, and secondary indexes that are defined.
        secondary_indexes: Columns of secondary indexes by their names.

    Raises:
        HoodieConfigException: None is given, or one is no such kind; the message has their names.
    """
    names = [partition_types] if isinstance(partition_types, str) else list(partition_types)
    known = {kind.partition_path for kind in _KINDS}
    wrong = [
        name
        for name in names
        if not isinstance(name, str) or (name.lower() not in known and not is_secondary_index(name))
    ]
    if wrong or not (names or secondary_indexes):
        raise HoodieConfigException(
            f"the partitions to be built beside writers are {names!r}: give some of "
            f"{', '.join(kind.partition_path for kind in _KINDS)}, or secondary_indexes={{name: column}}. The first "
            "write with hoodie.metadata.enable=true makes files"
        )
    found: dict[str, str | None] = dict.fromkeys(
        secondary_index_partition(name) if is_secondary_index(name) else name.lower() for name in names
    )
    for name, column in (secondary_indexes or {}).items():
        if not isinstance(column, str):
            raise HoodieConfigException(f"the column of the secondary index {name!r} is {column!r}: give its name")
        found[secondary_index_partition(name)] = column
    return found


class ScheduleIndexActionExecutor:
    """Plans an indexing.

    Args:
        snapshot: The table, loaded under its lock.
        config: The partitions that this writer wants in the metadata table.

    Hudi: org.apache.hudi.table.action.index.ScheduleIndexActionExecutor.
    """

    def __init__(self, snapshot: TableSnapshot, config: HoodieMetadataConfig) -> None:
        self._snapshot = snapshot
        self._config = config

    def execute(self, partitions: Mapping[str, str | None]) -> str:
        """Make the requested instant.

        Args:
            partitions: See `index_partitions`.

        Returns:
            Its time.

        Raises:
            HoodieException: See `BaseHoodieTableServiceClient.schedule_indexing`.
        """
        self._refuse(list(partitions))
        return MetadataIndexes(self._snapshot, MetadataTableUpkeep(self._config)).plan(partitions)

    def _refuse(self, partitions: Sequence[str]) -> None:
        path, table_config, config = self._snapshot.base_path, self._snapshot.table_config, self._config
        listed = table_config.metadata_partitions
        switched_off = {
            _COLUMN_STATS.partition_path: config.column_stats_enable is False,
            _PARTITION_STATS.partition_path: False in (config.column_stats_enable, config.partition_stats_enable),
            _BLOOM_FILTERS.partition_path: config.bloom_filter_enable is False,
            _RECORD_INDEX.partition_path: config.record_index_enable is False
            and not config.partitioned_record_index_enable,
        }
        off = [name for name in partitions if switched_off.get(name)]
        if config.enable is False or off:
            raise HoodieConfigException(
                f"the options of this client drop {', '.join(off) or 'the metadata table'} of {path}: leave out the "
                "option that is false"
            )
        if _FILES.partition_path not in listed:
            raise HoodieIndexException(
                f"{path} has no metadata table, of which {', '.join(partitions)} would be part: write with "
                "hoodie.metadata.enable=true first"
            )
        kinds = {name: MetadataPartitionType.of_path(name) for name in partitions}
        version = table_config.table_version
        unknown = [name for name, kind in kinds.items() if kind is None or not kind.is_in_version(version)]
        if unknown:
            raise HoodieNotSupportedException(
                f"{path} is of version {version}, and {', '.join(unknown)} is for tables of version "
                "8 and later: upgrade it with HoodieTableMetaClient.upgrade"
            )
        built = [name for name in partitions if name in listed]
        if built:
            raise HoodieIndexException(f"{path} has {', '.join(built)} already")
        planned = planned_partitions(self._snapshot.active_timeline)
        being_built = [f"{name} (indexing {planned[name]})" for name in partitions if name in planned]
        being_built += [
            name for name in partitions if name not in planned and name in table_config.metadata_partitions_inflight
        ]
        if being_built:
            raise HoodieIndexException(
                f"{', '.join(being_built)} of {path} is being built: call client.index with the instant of the "
                "indexing; what has none, the next write builds"
            )
        if _PARTITION_STATS.partition_path in partitions:
            if not table_config.partition_fields:
                raise HoodieIndexException(f"{path} has no partitions, so it needs no partition_stats")
            if _COLUMN_STATS.partition_path not in (*listed, *partitions):
                raise HoodieIndexException(f"partition_stats of {path} needs column_stats: build both together")
        if _RECORD_INDEX.partition_path in partitions and not table_config.populate_meta_fields:
            raise HoodieNotSupportedException(
                f"{path} stores no record keys (hoodie.populate.meta.fields=false), and cannot have a record_index"
            )
