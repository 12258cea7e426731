from __future__ import annotations

import time
from collections.abc import Iterator

import pyarrow as pa
import pytest

import hoodie
from tests.contract.border_contract import ZONES, BorderContract
from tests.support.table_builder import local_client


class TestLocalBorder(BorderContract):
    @pytest.fixture(params=ZONES)
    def zone(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", request.param)
            time.tzset()
            yield request.param
        time.tzset()

    def upsert(self, base_path: str, table: pa.Table) -> None:
        with local_client(base_path) as client:
            client.upsert(table)

    def read(self, base_path: str) -> pa.Table:
        with hoodie.scan_table(base_path) as reader:
            return reader.read_all()

    def micros(self, base_path: str) -> dict[str, int]:
        table = hoodie.read_table(base_path, columns=["id", "at"])
        return dict(zip(table["id"].to_pylist(), table["at"].cast(pa.int64()).to_pylist(), strict=True))
