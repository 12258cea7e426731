"""Base files whose pages are mostly copies, which hoodie makes of its own files and of Hudi's, and Hudi of hoodie's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hoodie.io import merge_source
from hoodie.io.parquet.splicing import RowGroupEdit, splicing_writer
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_with_metadata import TableWithMetadata

pytestmark = pytest.mark.interop

INDEXES = {"hoodie.metadata.index.column.stats.enable": "true", "hoodie.parquet.compression.codec": "snappy"}


def test_hudi_reads_and_updates_files_of_copied_pages(
    tmp_path: Path, hudi: HudiProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited: list[int] = []
    write = RowGroupEdit.write

    def counted(edit: RowGroupEdit, *given: Any) -> Any:
        edited.append(edit.rows)
        return write(edit, *given)

    monkeypatch.setattr(RowGroupEdit, "write", counted)
    monkeypatch.setattr(splicing_writer, "LEAST_SPLICED_BYTES", 0)
    monkeypatch.setattr(merge_source, "MOST_EDITED", 1.0)
    table = TableWithMetadata(tmp_path / "t", hudi, **INDEXES)
    table.by_hoodie(*range(30))
    for step, operation in (((3, 8), "upsert"), ((9, 14), "delete"), ((4, 31, 32), "upsert")):
        before = len(edited)
        table.by_hoodie(*step, operation=operation)
        assert len(edited) > before
    table.check()
    table.by_hudi(2, 4, 33)
    table.by_hudi(6, operation="delete")
    before = len(edited)
    table.by_hoodie(2, 34)
    assert len(edited) > before
    table.check()
    table.by_hudi(2, 35)
    table.check()
