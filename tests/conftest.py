"""Fixtures for all tests."""

from __future__ import annotations

import os
import shutil
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table import table_definition
from hoodie.io.parquet.splicing import splicing_writer
from hoodie.metadata.writer import due_partitions
from hoodie.table import open_table
from hoodie.transaction.lock.lock_manager import clock_skew_ms
from tests.support import cases
from tests.support.hookable_storage import Faults, FaultyStorage, use_for_local_files
from tests.support.kafka_tests import kafka_line
from tests.support.object_store_servers import AzureServer, Bucket, FaultyProxy, S3Server, running_azure, running_s3
from tests.support.postgres_server import find_postgres, running_postgres
from tests.support.services_table import ServicesTable
from tests.support.table_builder import init_table, local_client
from tests.support.zookeeper_server import running_zookeeper

VERSIONS = (6, 8, 9)
_DEFAULT_VERSION = 9
_MADE_FROM_VERSION, _NO_VERSION = due_partitions.MADE_FROM_VERSION, 1000
"""From which version on new tables have a metadata table: for users, and in tests that go without."""
_NOT_YET_WITH_METADATA_TABLE = (
    "tests/integration/",
    "tests/interop/",
    "tests/unit/client/test_delayed_calls.py",
    "tests/unit/client/test_scenarios_of_history.py",
    "tests/unit/client/test_three_processes.py",
    "tests/unit/test_hudi_rs_of_log_files.py",
    "tests/unit/transaction/test_locks_of_metadata_tables.py",
)
"""Tests that were written without a metadata table, and not seen with one: these, and those that are slow. In them the
mark ``metadata_table`` asks for one. A module that passes with one leaves this list."""
_ZONE = "Europe/Berlin"
"""Where the tests run. It is not UTC, which instant times are in: in UTC a time that is wrong by a zone would be right.
Those of times run in a zone west of UTC as well (``make test-zones``)."""
SHARED = Path(__file__).parents[2] / "shared"

# No time limit per example: other processes make a machine slow. Continuous integration runs the same examples always.
settings.register_profile("hoodie", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("hoodie")


def pytest_addoption(parser: pytest.Parser) -> None:
    """What the tables that tests make without saying so are like."""
    types, default = list(HoodieTableType), HoodieTableType.COPY_ON_WRITE
    parser.addoption("--table-type", choices=types, default=default, help="of the tables that tests make by init_table")
    parser.addoption(
        "--table-version", type=int, choices=VERSIONS, default=_DEFAULT_VERSION, help="of the tables that tests make"
    )
    parser.addoption("--zone", default=_ZONE, help="the time zone of the tests and of all processes that they start")
    cases.add_options(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Fixtures of a whole run make tables of that version too, and no test begins in another zone."""
    os.environ["TZ"] = config.getoption("--zone")
    time.tzset()
    table_definition.DEFAULT_TABLE_VERSION = config.getoption("--table-version")
    if config.getoption("--table-type") == HoodieTableType.MERGE_ON_READ:
        HoodieTableMetaClient.init_table.__kwdefaults__["table_type"] = HoodieTableType.MERGE_ON_READ


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what another run does.

    That is what is true of copy-on-write tables alone where tests make others; tests that name what the command line
    gives other tests, which they do without it as well; and cases that other seeds choose (``--cases``).
    """
    _check_reasons(items)
    left_out = set()
    if config.getoption("--table-version") != _DEFAULT_VERSION:
        left_out.update(item for item in items if _names_its_version(item))
    if config.getoption("--table-type") != HoodieTableType.COPY_ON_WRITE:
        left_out.update(item for item in items if item.get_closest_marker("copy_on_write"))
    seed = config.getoption("--cases")
    if seed is not None:
        kept = [item for item in items if item not in left_out]
        left_out |= cases.not_chosen(kept, seed, config.getoption("--one-in"))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: TerminalReporter, config: pytest.Config) -> None:
    """Say which cases ran, how those that failed are run again, and whether tests with Kafka ran."""
    reports = [*terminalreporter.stats.get("failed", []), *terminalreporter.stats.get("error", [])]
    for line in cases.last_lines(config, [report.nodeid for report in reports]):
        terminalreporter.write_line(line)
    if (told := kafka_line(terminalreporter.stats)) is not None:
        terminalreporter.write_line(told)


def _check_reasons(items: Sequence[pytest.Item]) -> None:
    """Refuse a mark ``without_metadata_table`` that does not say why."""
    for item in items:
        for mark in item.iter_markers("without_metadata_table"):
            if len(mark.args) != 1 or not isinstance(mark.args[0], str) or mark.kwargs:
                raise pytest.UsageError(f"{item.nodeid}: give without_metadata_table one argument, the reason")


def _names_its_version(item: pytest.Item) -> bool:
    given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
    return "table_version" in given or item.get_closest_marker("table_version") is not None


@pytest.fixture(autouse=True, scope="session")
def nothing_waits_for_the_disk() -> Iterator[None]:
    """`os.fsync` is a fifth of a small upsert. No test outlives a power cut; those of durability look at its calls."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def writers_share_a_clock() -> Iterator[None]:
    """All writers run on this machine: those that do not say how far their clocks differ wait 1 ms, not 200 ms."""

    def skew_ms(config: HoodieWriteConfig) -> int:
        found = clock_skew_ms(config)
        return found if config.lock.max_expected_clock_skew_ms is not None else min(found, 1)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(open_table, "clock_skew_ms", skew_ms)
        yield


@pytest.fixture(autouse=True, scope="module")
def table_version_of_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """The version of the tables that fixtures of a module make: that of its marker, or of the command line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table_definition, "DEFAULT_TABLE_VERSION", _table_version(request))
        yield


@pytest.fixture(autouse=True, scope="module")
def metadata_table_of_module(request: pytest.FixtureRequest) -> Iterator[None]:
    """New tables have a metadata table as those of users, but in a module with the mark ``without_metadata_table``."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(due_partitions, "MADE_FROM_VERSION", _made_from_version(request))
        yield


@pytest.fixture(autouse=True)
def metadata_table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `metadata_table_of_module`, for a test."""
    monkeypatch.setattr(due_partitions, "MADE_FROM_VERSION", _made_from_version(request))


def _made_from_version(request: pytest.FixtureRequest) -> int:
    def is_marked(*names: str) -> bool:
        return any(request.node.get_closest_marker(name) is not None for name in names)

    is_not_yet = request.node.nodeid.startswith(_NOT_YET_WITH_METADATA_TABLE) or is_marked("slow", "soak")
    goes_without = is_marked("without_metadata_table") or (is_not_yet and not is_marked("metadata_table"))
    return _NO_VERSION if goes_without else _MADE_FROM_VERSION


@pytest.fixture(autouse=True)
def table_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of the tables that the test makes without naming one.

    It is that of the test's parameter, of its marker, or of the command line.
    """
    version: int = getattr(request, "param", _table_version(request))
    monkeypatch.setattr(table_definition, "DEFAULT_TABLE_VERSION", version)
    return version


def _table_version(request: pytest.FixtureRequest) -> int:
    marker = request.node.get_closest_marker("table_version")
    version: int = marker.args[0] if marker is not None else request.config.getoption("--table-version")
    return version


@pytest.fixture(scope="session")
def shared_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of the tables of version 6 that real Hudi wrote, and of some later ones that are refused.

    One folder per archive; skips where there are none.

    All tests share it: a test that writes copies its table first.
    """
    return _extracted(("hudi", "hudi-rs"), tmp_path_factory.mktemp("shared_tables"))


@pytest.fixture(scope="session")
def later_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `shared_tables`: the tables of versions 8 and 9, of real Hudi and made by hand, and what they came from.

    What real Hudi reads of a table is in ``rows/<name>.parquet``.
    """
    target = _extracted(("versions-8-and-9",), tmp_path_factory.mktemp("later_tables"))
    shutil.copytree(SHARED / "tables/versions-8-and-9/rows", target / "rows")
    return target


@pytest.fixture(scope="session")
def hudi_rs_06_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `shared_tables`: the tables of hudi-rs 0.6; the rows of each are in ``rows/<name>.parquet``."""
    target = _extracted(("hudi-rs-0.6",), tmp_path_factory.mktemp("hudi_rs_06_tables"))
    shutil.copytree(SHARED / "tables/hudi-rs-0.6/rows", target / "rows")
    return target


@pytest.fixture(scope="session")
def serviced_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As `later_tables`: tables of real Hudi with clustering, change data, log compactions, resized buckets."""
    target = _extracted(("clustering-and-cdc",), tmp_path_factory.mktemp("serviced_tables"))
    shutil.copytree(SHARED / "tables/clustering-and-cdc/rows", target / "rows")
    return target


def _extracted(folders: Sequence[str], target: Path) -> Path:
    """Extract the shared tables of some folders, each archive into a folder of its name; skip where there are none."""
    if not all((SHARED / "tables" / folder).is_dir() for folder in folders):
        pytest.skip("no shared tables beside the repository")
    archives = (archive for folder in folders for archive in (SHARED / "tables" / folder).rglob("*.zip"))
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
def splices_small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few rows share and copy the pages of record keys, as only larger files do otherwise."""
    monkeypatch.setattr(splicing_writer, "LEAST_SPLICED_BYTES", 0)


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    """An empty table, to be written with `rows`; a module with another table has a fixture of this name."""
    return Path(init_table(tmp_path / "t"))


@pytest.fixture
def client(base_path: Path | str) -> Callable[..., HoodieLocalWriteClient]:
    """Makes clients of the table `base_path`, as `local_client` does."""
    return partial(local_client, base_path)


@pytest.fixture
def table(tmp_path: Path) -> ServicesTable:
    """A table whose services are tested; it is empty."""
    return ServicesTable(tmp_path / "t")


@pytest.fixture
def faulty_storage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local files are those that fail (`tests.support.hookable_storage`)."""
    use_for_local_files(monkeypatch, FaultyStorage)
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
