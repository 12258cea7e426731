"""Every index, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.config.index_config import IndexType
from hoodie.engine.local_engine_context import LocalEngineContext
from tests.contract.index_contract import INDEXES, IndexContract


class TestLocalIndexes(IndexContract):
    @contextmanager
    def client(self, path: str, properties: dict[str, Any]) -> Iterator[BaseHoodieWriteClient]:
        config = HoodieWriteConfig.from_properties(path, properties)
        with HoodieLocalWriteClient(config, LocalEngineContext(2)) as client:
            yield client

    def records(self, table: pa.Table) -> pa.Table:
        return table


def test_every_type_of_index_is_held_to_the_contract() -> None:
    assert set(IndexType) <= {properties.get("hoodie.index.type") for properties in INDEXES.values()}
