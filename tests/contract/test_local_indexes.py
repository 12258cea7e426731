"""Every index, in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.client.base_write_client import BaseHoodieWriteClient
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.config.index_config import IndexType
from hoodie.engine.local_engine_context import LocalEngineContext
from tests.contract.index_contract import INDEXES, IndexContract

INTO_LOGS = {
    "INMEMORY into logs": {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"},
    "RECORD_INDEX into logs": {**INDEXES["RECORD_INDEX"], "hoodie.record.index.insert.into.logs": "true"},
}


class TestLocalIndexes(IndexContract):
    @contextmanager
    def client(self, path: str, properties: dict[str, Any]) -> Iterator[BaseHoodieWriteClient]:
        config = HoodieWriteConfig.from_properties(path, properties)
        with HoodieLocalWriteClient(config, LocalEngineContext(2)) as client:
            yield client

    def records(self, table: pa.Table) -> pa.Table:
        return table


class TestLocalIndexesOfMergeOnRead(TestLocalIndexes):
    table_type = HoodieTableType.MERGE_ON_READ
    indexes = INDEXES | INTO_LOGS

    @pytest.fixture(params=[*INDEXES, *INTO_LOGS])
    def index(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)


def test_every_type_of_index_is_held_to_the_contract() -> None:
    assert set(IndexType) <= {properties.get("hoodie.index.type") for properties in INDEXES.values()}
