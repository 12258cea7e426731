"""Real Hudi, one JVM a release for the whole test run; started by the first test that uses it.

A test that takes ``hudi`` runs for pairs of a release of Hudi and a version of tables. One that takes ``hudis`` runs
once a version, with all releases that write tables of it. In a module that is marked ``with_version_8`` both run for
version 8 too; in one that is marked ``with_merge_on_read`` all tests run for merge-on-read tables too.
``table_versions`` names the versions of any other test; without it the tables are of version 6. The
tables that hoodie makes are of the same version. Of a test that is marked ``interop_smoke``, those of version 8 are no
smoke tests; the mark can name the only versions that are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table import table_definition
from tests.integration.conftest import spark
from tests.interop.hive_metastore import HiveMetastore
from tests.interop.hudi_process import HudiNotFoundError, HudiProcess
from tests.support.zones import in_zone

__all__ = ["hudi", "hudi_0_15", "hudi_1_2", "hudis", "spark", "table_type", "table_version", "zone_of_hudi"]

RELEASES = {6: ("0.15.0", "1.2.0"), 8: ("1.0.2", "1.2.0"), 9: ("1.2.0",)}
"""The releases that write tables of a version."""
NOT_IN_SMOKE = [("1.2.0", 6), ("1.0.2", 8), ("1.2.0", 8), (None, 8)]
"""Pairs that the smoke tests leave out, because they say what the others say."""


@pytest.fixture(scope="session", autouse=True)
def zone_of_hudi() -> Iterator[None]:
    """The zone of Hudi's JVM: writers of a table whose times are local must be in one zone."""
    with in_zone("UTC"):
        yield


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give tests their versions of tables, and releases of Hudi."""
    versions = (6, 8, 9) if metafunc.definition.get_closest_marker("with_version_8") is not None else (6, 9)
    named = metafunc.definition.get_closest_marker("table_versions")
    if named is not None:
        versions = named.args
    if "hudi" in metafunc.fixturenames:
        pairs = [(release, version) for version in versions for release in RELEASES[version]]
        metafunc.parametrize(("hudi", "table_version"), pairs, indirect=True)
    elif "hudis" in metafunc.fixturenames or named is not None:
        metafunc.parametrize("table_version", versions, indirect=True)
    if metafunc.definition.get_closest_marker("with_merge_on_read") is not None:
        metafunc.parametrize("table_type", list(HoodieTableType), indirect=True)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep some pairs out of the smoke tests."""
    for item in items:
        smoke = item.get_closest_marker("interop_smoke")
        given = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        version = given.get("table_version", given.get("version", 6))
        if smoke is not None and (
            (given.get("hudi"), given.get("table_version")) in NOT_IN_SMOKE
            or (smoke.args and version not in smoke.args)
            or given.get("table_type") == HoodieTableType.MERGE_ON_READ
        ):
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "interop_smoke"]


@pytest.fixture(autouse=True)
def table_version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """The version of all tables of the test."""
    version: int = getattr(request, "param", 6)
    monkeypatch.setattr(table_definition, "DEFAULT_TABLE_VERSION", version)
    return version


@pytest.fixture(autouse=True)
def table_type(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The type of all tables of the test that it gives no other one."""
    found: str = getattr(request, "param", HoodieTableType.COPY_ON_WRITE)
    monkeypatch.setitem(HoodieTableMetaClient.init_table.__kwdefaults__, "table_type", HoodieTableType(found))
    return found


@pytest.fixture(scope="session")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], HudiProcess]]:
    """Gives the process of a release."""
    started: dict[str, HudiProcess] = {}

    def process_of(release: str) -> HudiProcess:
        if release not in started:
            try:
                started[release] = HudiProcess(release, tmp_path_factory.mktemp(f"hudi_{release}"))
            except HudiNotFoundError as error:
                pytest.skip(str(error))
        return started[release]

    yield process_of
    for process in started.values():
        process.stop()


@pytest.fixture(scope="session")
def hive_metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HiveMetastore]:
    """A real Hive Metastore."""
    try:
        metastore = HiveMetastore(tmp_path_factory.mktemp("metastore"))
    except HudiNotFoundError as error:
        pytest.skip(str(error))
    with metastore:
        yield metastore


@pytest.fixture
def hudi_0_15(processes: Callable[[str], HudiProcess], table_type: str) -> HudiProcess:
    """Hudi 0.15.0, the last release that writes table version 6 only."""
    return processes("0.15.0").for_tables_of(6, table_type)


@pytest.fixture
def hudi_1_2(processes: Callable[[str], HudiProcess], table_version: int, table_type: str) -> HudiProcess:
    """Hudi 1.2.0, told to stay at the version of the test's tables."""
    return processes("1.2.0").for_tables_of(table_version, table_type)


@pytest.fixture
def hudi(
    request: pytest.FixtureRequest, processes: Callable[[str], HudiProcess], table_version: int, table_type: str
) -> HudiProcess:
    """The release of a pair, told to stay at the pair's version of tables."""
    return processes(request.param).for_tables_of(table_version, table_type)


@pytest.fixture
def hudis(processes: Callable[[str], HudiProcess], table_version: int, table_type: str) -> Sequence[HudiProcess]:
    """All releases that write tables of the version, told to stay at it."""
    return [processes(release).for_tables_of(table_version, table_type) for release in RELEASES[table_version]]
