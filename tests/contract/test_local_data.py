from __future__ import annotations

import pyarrow as pa
import pytest

from hoodie.common.data.data import HoodieData
from hoodie.common.engine.engine_context import HoodieEngineContext
from hoodie.common.engine.local_engine_context import LocalEngineContext
from tests.contract.data_contract import DataContract


class TestLocalData(DataContract):
    @pytest.fixture
    def context(self) -> HoodieEngineContext:
        return LocalEngineContext(parallelism=2)

    def data(self, context: HoodieEngineContext, table: pa.Table) -> HoodieData:
        return context.to_data(table)
