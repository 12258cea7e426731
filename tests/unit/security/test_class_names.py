"""A class that a table names is not imported because the table says so."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path

import pytest

import hoodie
from hoodie.exception import HoodieException
from tests.support.services_table import ServicesTable

KEYS = [
    "hoodie.table.keygenerator.class",
    "hoodie.table.keygenerator.type",
    "hoodie.compaction.payload.class",
    "hoodie.compaction.record.merger.strategy",
    "hoodie.record.merge.strategy.id",
    "hoodie.write.record.merge.custom.implementation.classes",
    "hoodie.datasource.write.keygenerator.class",
    "hoodie.datasource.write.payload.class",
    "hoodie.index.class",
    "hoodie.index.type",
    "hoodie.write.lock.provider",
    "hoodie.write.lock.conflict.resolution.strategy",
    "hoodie.write.commit.callback.class",
    "hoodie.precommit.validators",
    "hoodie.metrics.reporter.class",
    "hoodie.bootstrap.index.class",
    "hoodie.bulkinsert.user.defined.partitioner.class",
    "hoodie.bucket.index.class",
]


@pytest.fixture
def bait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module that can be imported, and must not be."""
    (tmp_path / "hostile_module.py").write_text("class Bait:\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "hostile_module"


def set_property(table: ServicesTable, key: str, value: str) -> None:
    file = table.base_path / ".hoodie" / "hoodie.properties"
    lines = [line for line in file.read_text().splitlines() if not line.startswith(f"{key}=")]
    file.write_text("\n".join([*lines, f"{key}={value}", ""]))


@pytest.mark.parametrize("prefix", ["", "python:", "org.apache.hudi.python."])
@pytest.mark.parametrize("key", KEYS)
def test_nothing_is_imported_that_a_table_names(tmp_path: Path, bait: str, key: str, prefix: str) -> None:
    table = ServicesTable(tmp_path / "t")
    table.upsert("a")
    set_property(table, key, f"{prefix}{bait}.Bait")
    calls = (
        lambda: hoodie.read_table(str(table.base_path)),
        lambda: table.upsert("a"),
        lambda: table.client().clean(),
        lambda: table.client().rollback("20200101000000000"),
    )
    for call in calls:
        with suppress(HoodieException):
            call()
    assert bait not in sys.modules
