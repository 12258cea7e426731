from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from hoodie.storage.fsspec_storage import open_storage
from hoodie.storage.storage import HoodieStorage
from tests.contract.storage_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def base(self, tmp_path: Path) -> str:
        return str(tmp_path)

    @pytest.fixture
    def storage(self, base: str) -> HoodieStorage:
        return open_storage(base)


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def base(self) -> str:
        return f"memory://{uuid.uuid4().hex}/table"

    @pytest.fixture
    def storage(self, base: str) -> HoodieStorage:
        return open_storage(base)
