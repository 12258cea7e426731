"""The records of the metadata tables that real Hudi wrote, read once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.metadata_table_files import StoredRecords, stored_records


@pytest.fixture(scope="package")
def real_records(shared_tables: Path, later_tables: Path) -> list[StoredRecords]:
    """The records of all metadata tables of the shared tables."""
    found = list(stored_records(shared_tables, later_tables))
    assert sum(len(records.keys) for records in found) > 3500
    return found
