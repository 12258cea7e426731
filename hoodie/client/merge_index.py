"""The index of a merge whose condition compares the record key alone: it finds a key in any partition.

Hudi: MergeIntoHoodieTableCommand leaves it to the user to choose a global index.
"""

from __future__ import annotations

import attrs

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.index_config import HoodieIndexConfig, IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException
from hoodie.index.index_factory import create_index
from hoodie.index.recordindex.record_index_lookup import has_record_index_of_table

_MOVES = {
    "hoodie.record.index.update.partition.path": "record_index_update_partition_path",
    "hoodie.simple.index.update.partition.path": "simple_index_update_partition_path",
    "hoodie.bloom.index.update.partition.path": "bloom_update_partition_path",
}
"""The options that decide whether an update moves a row to another partition -> their fields."""
_BLOOMS = (IndexType.BLOOM, IndexType.GLOBAL_BLOOM)

_PLAIN_KEY_GENERATORS = (
    "", "SimpleKeyGenerator", "ComplexKeyGenerator", "CustomKeyGenerator", "NonpartitionedKeyGenerator",
    "SimpleAvroKeyGenerator", "ComplexAvroKeyGenerator", "CustomAvroKeyGenerator", "NonpartitionedAvroKeyGenerator",
)  # fmt: skip


def config_by_record_key(config: HoodieWriteConfig, snapshot: TableSnapshot) -> HoodieWriteConfig:
    """The configuration of such a merge: the index finds the table's record keys, whatever the writer configures.

    The record index of the whole table finds the keys if there is one. Otherwise all partitions are searched, by
    GLOBAL_BLOOM for a writer with BLOOM, and by GLOBAL_SIMPLE. A bucket index stays: the file group of a key follows
    from it, and the merge itself knows the partition of each row.

    Args:
        config: The writer's configuration.
        snapshot: The table, which has partition fields.

    Raises:
        HoodieConfigException: The index is a class of the user's that is not global, or the options that say whether
            rows move contradict each other.
        HoodieException: The metadata table cannot be read.
    """
    index = create_index(config)
    if index.is_global or index.names_file_groups:
        return config
    if config.index.index_class is not None:
        raise HoodieConfigException(
            f"the condition of the merge compares the record key alone, and hoodie.index.class = "
            f"{config.index.index_class} finds a key in its own partition only, and may keep state that another index "
            "would not update: compare the partition fields too, or leave hoodie.index.class out"
        )
    metadata = config.metadata
    is_dropped = metadata.enable is False or metadata.record_index_enable is False
    if not is_dropped and not metadata.partitioned_record_index_enable and has_record_index_of_table(snapshot):
        index_type = IndexType.RECORD_INDEX
    else:
        index_type = IndexType.GLOBAL_BLOOM if config.index.index_type in _BLOOMS else IndexType.GLOBAL_SIMPLE
    return attrs.evolve(config, index=attrs.evolve(_with_one_rule_of_moves(config), index_type=index_type))


def _with_one_rule_of_moves(config: HoodieWriteConfig) -> HoodieIndexConfig:
    """The index's options, in which the user's one rule about moving rows holds for every index."""
    given = {key: getattr(config.index, field) for key, field in _MOVES.items() if key in config.properties}
    if len(set(given.values())) > 1:
        shown = ", ".join(f"{key} = {str(value).lower()}" for key, value in given.items())
        raise HoodieConfigException(
            f"{shown}: the condition of the merge compares the record key alone, and any of these says whether an "
            "update moves a row to another partition; give one of them"
        )
    value = next(iter(given.values()), None)
    return config.index if value is None else attrs.evolve(config.index, **dict.fromkeys(_MOVES.values(), value))


def has_plain_paths(snapshot: TableSnapshot) -> bool:
    """Whether the table's partition paths are made of the values of columns as they are.

    Args:
        snapshot: The table.
    """
    table = snapshot.table_config
    kinds = {field.partition(":")[2].upper() for field in table.partition_fields}
    name = (table.key_generator_class or "").rpartition(".")[2]
    return kinds <= {"", "SIMPLE"} and name in _PLAIN_KEY_GENERATORS
