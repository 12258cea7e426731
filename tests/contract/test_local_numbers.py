from __future__ import annotations

from typing import Any

import pyarrow as pa

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from tests.contract.number_contract import NumberContract


class TestLocalNumbers(NumberContract):
    def write(self, base_path: str, table: pa.Table, operation: str = "upsert", **properties: str) -> Any:
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(base_path, properties)) as client:
            return getattr(client, operation)(table)
