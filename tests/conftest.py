"""Fixtures for all tests."""

from __future__ import annotations

import os
import shutil
import zipfile
from pathlib import Path

import pytest
from hypothesis import settings

SHARED = Path(__file__).parents[2] / "shared"

# No time limit per example: other processes make a machine slow. Continuous integration runs the same examples always.
settings.register_profile("hoodie", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("hoodie")


@pytest.fixture(scope="session")
def shared_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a copy of every table that real Hudi wrote, one folder per archive; skips where there are none.

    All tests share it: a test that writes copies its table first.
    """
    if not (SHARED / "tables").is_dir():
        pytest.skip("no shared tables beside the repository")
    target = tmp_path_factory.mktemp("shared_tables")
    for archive in sorted((SHARED / "tables").rglob("*.zip")):
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
