"""Make the index that a configuration names.

Hudi: org.apache.hudi.index.HoodieIndexFactory.
"""

from __future__ import annotations

from collections.abc import Callable

from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.index.index import HoodieIndex
from hoodie.index.inmemory.in_memory_hash_index import HoodieInMemoryHashIndex
from hoodie.index.simple.global_simple_index import HoodieGlobalSimpleIndex
from hoodie.index.simple.simple_index import HoodieSimpleIndex

__all__ = ["create_index"]

_INDEXES: dict[IndexType, Callable[[HoodieWriteConfig], HoodieIndex]] = {
    IndexType.SIMPLE: HoodieSimpleIndex,
    IndexType.GLOBAL_SIMPLE: HoodieGlobalSimpleIndex,
    IndexType.INMEMORY: HoodieInMemoryHashIndex,
}


def create_index(config: HoodieWriteConfig) -> HoodieIndex:
    """The index of a writer's configuration.

    Args:
        config: Names it by ``hoodie.index.type``.
    """
    return _INDEXES[config.index.index_type](config)
