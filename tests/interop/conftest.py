"""Real Hudi, one JVM a version for the whole test run; started by the first test that uses it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.conftest import spark
from tests.interop.hudi_process import HudiNotFoundError, HudiProcess

__all__ = ["hudi", "hudi_0_15", "hudi_1_2", "spark"]


def _hudi(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiProcess]:
    try:
        process = HudiProcess(version, tmp_path_factory.mktemp(f"hudi_{version}"))
    except HudiNotFoundError as error:
        pytest.skip(str(error))
    yield process
    process.stop()


@pytest.fixture(scope="session")
def hudi_0_15(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiProcess]:
    """Hudi 0.15.0, the last release that writes table version 6 only."""
    yield from _hudi("0.15.0", tmp_path_factory)


@pytest.fixture(scope="session")
def hudi_1_2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiProcess]:
    """Hudi 1.2.0, told to stay at table version 6."""
    yield from _hudi("1.2.0", tmp_path_factory)


@pytest.fixture(params=["0.15.0", "1.2.0"])
def hudi(request: pytest.FixtureRequest) -> HudiProcess:
    """Each version in turn."""
    process: HudiProcess = request.getfixturevalue({"0.15.0": "hudi_0_15", "1.2.0": "hudi_1_2"}[request.param])
    return process
