from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie.exception import HoodieIOException
from hoodie.storage.object_storage import ObjectStorage
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from tests.contract.storage_contract import StorageContract
from tests.support.object_store_servers import AzureServer, Bucket, GoogleFace, google_options


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


class TestGoogleStorage(StorageContract):
    replaces_versions = False

    @pytest.fixture
    def server(self, s3_bucket: Bucket) -> Iterator[GoogleFace]:
        face = GoogleFace(s3_bucket.endpoint)
        yield face
        face.close()

    @pytest.fixture
    def base(self, s3_bucket: Bucket) -> str:
        return f"gs://{s3_bucket.name}/lake/table"

    @pytest.fixture
    def storage(self, base: str, server: GoogleFace) -> HoodieStorage:
        return open_storage(base, google_options(server.endpoint), RetryPolicy(max_retries=2))

    @pytest.fixture
    def unwritable(self, s3_bucket: Bucket, base: str) -> str:
        s3_bucket.client.delete_bucket(Bucket=s3_bucket.name)
        return f"{base}/file"


class TestAzureStorage(StorageContract):
    @pytest.fixture
    def base(self, azure_server: AzureServer) -> str:
        return f"abfss://{azure_server.new_container()}@devstoreaccount1.dfs.core.windows.net/lake/table"

    @pytest.fixture
    def storage(self, base: str, azure_server: AzureServer) -> HoodieStorage:
        return open_storage(base, azure_server.options())

    @pytest.fixture
    def unwritable(self, base: str, storage: ObjectStorage) -> str:
        pytest.skip("replaced by the test below: a container cannot be taken away from under its storage")

    def test_a_missing_container_is_an_error_that_names_the_path(self, azure_server: AzureServer) -> None:
        base = "abfss://no-such-container@devstoreaccount1.dfs.core.windows.net/table"
        storage = open_storage(base, azure_server.options())
        for call in (storage.read, storage.list_files, lambda path: storage.create_if_absent(path, b"x")):
            with pytest.raises(HoodieIOException, match=f"{base}/file.*does not exist; make it"):
                call(f"{base}/file")
