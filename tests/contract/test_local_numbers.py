from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.contract.number_contract import NumberContract
from tests.support.table_builder import local_client


class TestLocalNumbers(NumberContract):
    def write(self, base_path: str, table: pa.Table, operation: str = "upsert", **properties: str) -> Any:
        with local_client(base_path, properties) as client:
            return getattr(client, operation)(table)
