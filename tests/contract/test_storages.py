from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from hoodie.storage.fsspec_storage import open_storage
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.storage import HoodieStorage
from tests.contract.storage_contract import StorageContract
from tests.object_store_servers import Bucket


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


class TestS3Storage(StorageContract):
    @pytest.fixture
    def base(self, s3_bucket: Bucket) -> str:
        return f"s3://{s3_bucket.name}/lake/table"

    @pytest.fixture
    def storage(self, base: str, s3_bucket: Bucket) -> HoodieStorage:
        return open_storage(base, s3_bucket.options())

    @pytest.fixture
    def unwritable(self, storage: ObjectStorage, s3_bucket: Bucket) -> str:
        s3_bucket.client.delete_bucket(Bucket=s3_bucket.name)
        return f"s3://{s3_bucket.name}/lake/table/file"
