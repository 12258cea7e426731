"""Load the user's classes that properties name, before a client does anything else."""

from __future__ import annotations

from hoodie.common.util.class_loading import load_class
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.execution.bulkinsert.bulk_insert_partitioner import create_bulk_insert_partitioner
from hoodie.keygen.user_key_generator import load_user_key_generator
from hoodie.merge.merge_properties import MERGER_KEYS
from hoodie.merge.record_merger import HoodieRecordMerger

__all__ = ["check_named_classes"]


def check_named_classes(config: HoodieWriteConfig) -> None:
    """Load the record merger, the key generator and the partitioner of bulk inserts that properties name.

    The classes of the index, lock, validators and callback are loaded by the parts that use them, when a client is
    created.

    Raises:
        HoodieConfigException: There is no such class, or it does not have the required base class.
    """
    if config.payload.merger_class is not None:
        load_class(config.payload.merger_class, MERGER_KEYS[0], HoodieRecordMerger)
    key_generator = config.table.key_generator_class
    if key_generator is not None and not key_generator.startswith("org.apache.hudi."):
        load_user_key_generator(key_generator, config.properties)
    create_bulk_insert_partitioner(config)
