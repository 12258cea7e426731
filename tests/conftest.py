"""Fixtures for all tests."""

from __future__ import annotations

import os
import shutil
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from hoodie.storage import storage_factory
from tests.object_store_servers import AzureServer, Bucket, FaultyProxy, S3Server, running_azure, running_s3
from tests.postgres_server import find_postgres, running_postgres
from tests.storage_faults import Faults, FaultyStorage
from tests.zookeeper_server import running_zookeeper

SHARED = Path(__file__).parents[2] / "shared"

# No time limit per example: other processes make a machine slow. Continuous integration runs the same examples always.
settings.register_profile("hoodie", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("hoodie")


@pytest.fixture(scope="session")
def shared_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the tables of version 6 that real Hudi wrote, and of some later ones that are refused.

    One folder per archive; skips where there are none.

    All tests share it: a test that writes copies its table first.
    """
    if not (SHARED / "tables").is_dir():
        pytest.skip("no shared tables beside the repository")
    target = tmp_path_factory.mktemp("shared_tables")
    archives = (archive for folder in ("hudi", "hudi-rs") for archive in (SHARED / "tables" / folder).rglob("*.zip"))
    for archive in sorted(archives):
        with zipfile.ZipFile(archive) as content:
            names = [name for name in content.namelist() if not name.startswith("__MACOSX")]
            content.extractall(target / archive.stem, names)
    return target


@pytest.fixture(scope="session")
def shared_vectors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of all golden vectors; skips where there are none."""
    if not (SHARED / "vectors").is_dir():
        pytest.skip("no shared vectors beside the repository")
    target = tmp_path_factory.mktemp("shared") / "vectors"
    shutil.copytree(SHARED / "vectors", target)
    return target


@pytest.fixture
def faulty_storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every storage of local files is the one that fails (`tests.storage_faults`); nothing waits for the disk."""
    monkeypatch.setitem(storage_factory._STORAGES, "file", FaultyStorage)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    yield
    FaultyStorage.faults = Faults()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """An S3 on this machine."""
    with running_s3() as server:
        yield server


@pytest.fixture
def s3_bucket(s3_server: S3Server) -> Bucket:
    """An empty bucket."""
    return s3_server.new_bucket()


@pytest.fixture
def s3_proxy(s3_server: S3Server) -> Iterator[FaultyProxy]:
    """Something between a client and S3 that fails on demand."""
    proxy = FaultyProxy(s3_server.endpoint)
    yield proxy
    proxy.close()


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """An Azure Storage on this machine; skips without Azurite (``npm install azurite``, named by HOODIE_AZURITE)."""
    program = os.environ.get("HOODIE_AZURITE") or shutil.which("azurite-blob")
    if program is None:
        pytest.skip("no azurite-blob on the PATH nor in HOODIE_AZURITE: npm install -g azurite")
    with running_azure(program) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL on this machine, its password in it; skips where it is not installed."""
    pytest.importorskip("psycopg", reason="no psycopg: pip install 'hoodie[postgresql]'")
    programs = find_postgres()
    if programs is None:
        pytest.skip("no PostgreSQL on the PATH nor in /usr/lib/postgresql: apt-get install postgresql")
    with running_postgres(programs) as url:
        yield url


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[str]:
    """``host:port`` of a ZooKeeper on this machine."""
    with running_zookeeper() as address:
        yield address
