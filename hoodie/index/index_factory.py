"""Create the index that a configuration names.

Hudi: org.apache.hudi.index.HoodieIndexFactory.
"""

from __future__ import annotations

from collections.abc import Callable

from hoodie.common.util.class_loading import create_object
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.index.bloom.bloom_index import HoodieBloomIndex
from hoodie.index.bloom.global_bloom_index import HoodieGlobalBloomIndex
from hoodie.index.bucket.simple_bucket_index import HoodieSimpleBucketIndex
from hoodie.index.index import HoodieIndex
from hoodie.index.inmemory.in_memory_hash_index import HoodieInMemoryHashIndex
from hoodie.index.recordindex.record_index import HoodieRecordIndex, HoodieRecordLevelIndex
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.index.simple.simple_index import HoodieSimpleIndex

_CLASS_KEY = "hoodie.index.class"


_INDEXES: dict[IndexType, Callable[[HoodieWriteConfig], HoodieIndex]] = {
    IndexType.SIMPLE: HoodieSimpleIndex,
    IndexType.GLOBAL_SIMPLE: HoodieGlobalSimpleIndex,
    IndexType.BLOOM: HoodieBloomIndex,
    IndexType.GLOBAL_BLOOM: HoodieGlobalBloomIndex,
    IndexType.INMEMORY: HoodieInMemoryHashIndex,
    IndexType.BUCKET: HoodieSimpleBucketIndex,
    IndexType.RECORD_INDEX: HoodieRecordIndex,
    IndexType.GLOBAL_RECORD_LEVEL_INDEX: HoodieRecordIndex,
    IndexType.RECORD_LEVEL_INDEX: HoodieRecordLevelIndex,
}


def create_index(config: HoodieWriteConfig) -> HoodieIndex:
    """Create the index of a writer's configuration.

    Args:
        config: Names the index by ``hoodie.index.class`` or ``hoodie.index.type``.

    Raises:
        HoodieConfigException: The class cannot be loaded or created, or is not a `HoodieIndex`.
    """
    if config.index.index_class is not None:
        return create_object(config.index.index_class, _CLASS_KEY, HoodieIndex, config)
    return _INDEXES[config.index.index_type](config)
