"""Real Hudi reads and writes by the entries that hoodie wrote into metadata tables: it believes what a test changes.

Each test holds what Hudi does with a lie against what it does without one. See docs/decisions/0110.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie.metadata import validate
from hoodie.metadata.records.metadata_records import MetadataPayload
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, rows_of
from tests.interop.table_with_metadata import (
    SCHEMA,
    WITH,
    WITHOUT,
    TableWithMetadata,
    leave_out,
    lie,
    rows_in_order,
)
from tests.support.metadata_tampering import Entry, copied

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 8, 9)]

NO_STATISTICS = {
    "hoodie.metadata.index.column.stats.enable": "false",
    "hoodie.metadata.index.partition.stats.enable": "false",
}
COLUMN_STATS = {**NO_STATISTICS, "hoodie.metadata.index.column.stats.enable": "true"}
PARTITION_STATS = {**COLUMN_STATS, "hoodie.metadata.index.partition.stats.enable": "true"}
RECORD_INDEX = {
    **NO_STATISTICS,
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
}
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
SKIPS = {**WITH, "hoodie.enable.data.skipping": "true"}
SKIPS_NOTHING = {**WITH, "hoodie.enable.data.skipping": "false"}


def written_in_turn(tmp_path: Path, hudi: HudiProcess, options: dict[str, str], **writes: str) -> TableWithMetadata:
    """A table of both, whose newest rows are of hoodie; Hudi's first write says what its releases want to know."""
    table = TableWithMetadata(tmp_path / "t", hudi, **options)
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    table.by_hudi(*range(3, 15), **writes)
    table.by_hoodie(*range(20, 26), parquet_small_file_limit="0")
    assert validate(str(table.base_path)).is_right
    assert table.is_marked()
    return table


def check_that_rows_are_hidden(table: TableWithMetadata, liar: Path, hidden: list[bool], rows: pa.Table) -> None:
    """Hudi, asked for all rows by a condition, skips the rows of a lie when it is told to skip."""
    assert any(hidden) and not all(hidden)
    condition, expected = "fare >= 0", table.model.expected()
    seen = [row for row, is_hidden in zip(rows_in_order(rows), hidden, strict=True) if not is_hidden]
    skips = {**table.options, **SKIPS}
    assert rows_of(table.hudi.read(table.base_path, skips, condition), SCHEMA) == expected
    assert rows_of(table.hudi.read(liar, skips, condition), SCHEMA) == sorted(seen)
    for options in (SKIPS_NOTHING, WITHOUT):
        assert rows_of(table.hudi.read(liar, {**table.options, **options}, condition), SCHEMA) == expected


def test_real_hudi_skips_files_by_column_statistics_of_hoodie(tmp_path: Path, hudi: HudiProcess) -> None:
    table = written_in_turn(tmp_path, hudi, COLUMN_STATS)
    victim = table.newest_file_group()

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if row["column_name"] == "fare" and victim in row["file_name"]:
            row |= {"min_value": None, "max_value": None, "null_count": row["value_count"]}
        yield key, row

    liar = copied(table.base_path, tmp_path / "lie")
    assert lie(liar, "column_stats", MetadataPayload.COLUMN_STATS, change) > 0
    rows = hoodie.read_table(str(table.base_path))
    check_that_rows_are_hidden(table, liar, [victim in name for name in rows["_hoodie_file_name"].to_pylist()], rows)


def test_real_hudi_skips_partitions_by_partition_statistics_of_hoodie(
    tmp_path: Path, hudi: HudiProcess, table_version: int
) -> None:
    if table_version == 6:
        pytest.skip("tables of version 6 have no partition_stats")
    table = written_in_turn(tmp_path, hudi, PARTITION_STATS)
    victim = SIMPLE.regions[1]

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if row["column_name"] == "fare" and row["file_name"] == victim:
            row |= {"min_value": None, "max_value": None, "null_count": row["value_count"]}
        yield key, row

    liar = copied(table.base_path, tmp_path / "lie")
    assert lie(liar, "partition_stats", MetadataPayload.COLUMN_STATS, change) > 0
    rows = hoodie.read_table(str(table.base_path))
    check_that_rows_are_hidden(table, liar, [victim == path for path in rows["region"].to_pylist()], rows)


def test_real_hudi_looks_keys_up_in_the_record_index_of_hoodie(tmp_path: Path, hudi: HudiProcess) -> None:
    """A reader finds nothing of a key whose entry names another file; a writer inserts it as a new one."""
    looks_up = {"hoodie.index.type": "RECORD_INDEX", "hoodie.embed.timeline.server": "true"}
    table = written_in_turn(tmp_path, hudi, RECORD_INDEX, **looks_up)
    wrong, gone = "k20", "k21"
    other: dict[str, Any] = {}

    def remember(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if key == "k4":
            other.update(row)
        yield key, row

    def change(key: str, row: dict[str, Any]) -> Iterable[Entry]:
        if key == wrong:
            row |= {name: other[name] for name in ("partition_path", "file_id")}
        if key != gone:
            yield key, row

    liar = copied(table.base_path, tmp_path / "lie")
    assert lie(liar, "record_index", MetadataPayload.RECORD_INDEX, remember) == 0
    assert lie(liar, "record_index", MetadataPayload.RECORD_INDEX, change) == 2
    skips = {**table.options, **SKIPS}
    condition = f"id = '{wrong}'"
    for path, options, count in (
        (table.base_path, skips, 1),
        (liar, skips, 0),
        (liar, {**table.options, **SKIPS_NOTHING}, 1),
    ):
        assert table.hudi.read(path, options, condition).num_rows == count, (path, options)
    for path, count in ((table.base_path, 1), (liar, 2)):
        rows = table.rows(21)
        # A row that goes into the file of its key replaces the row that is there.
        given = {**SIMPLE.hudi_options("listed"), **WITH, **table.options, **looks_up, **NEW_FILES}
        hudi.write(path, table.model.table(rows), given)
        assert hudi.read(path, WITHOUT, f"id = '{gone}'").num_rows == count, path


def test_real_hudi_lists_by_the_metadata_table_of_hoodie_after_it_wrote_to_it(
    tmp_path: Path, hudi: HudiProcess
) -> None:
    """A file of Hudi is left out: its reader sees the rows before it, and its writer does not know the key."""
    table = TableWithMetadata(tmp_path / "t", hudi)
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    before = table.model.expected()
    time = table.by_hudi(0, 3)
    assert table.is_marked()
    table.check()
    (newest,) = table.base_path.glob(f"{SIMPLE.regions[0]}/*_{time}.parquet")
    liar = copied(table.base_path, tmp_path / "older")
    assert leave_out(liar, newest.name) == 1
    assert rows_of(hudi.read(liar, WITH), SCHEMA) == before
    assert rows_of(hudi.read(liar, WITHOUT), SCHEMA) == table.model.expected()
    liar = copied(table.base_path, tmp_path / "unknown")
    assert leave_out(liar, newest.name.partition("_")[0]) > 0
    for path, count in ((table.base_path, 1), (liar, 2)):
        rows = table.rows(0)
        given = {**SIMPLE.hudi_options("listed"), **WITH, **table.options}
        hudi.write(path, table.model.table(rows), given)
        assert hudi.read(path, WITHOUT, "id = 'k0'").num_rows == count, path
