"""Base files with chosen row groups and footers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.bloom.bloom_filter import create_bloom_filter
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.io.parquet.parquet_footer import KeyRange, footer_entries


@attrs.frozen
class StoredFile:
    """One base file to be made.

    Attributes:
        keys: Its keys, row by row.
        row_group_rows: Rows of a row group.
        has_range: Whether the footer tells smallest and largest key.
        filter_type: Kind of the filter; None for none.
        has_statistics: Whether row groups have statistics.
        entries: Further entries of the footer, or such that replace others.
    """

    keys: Sequence[str]
    row_group_rows: int = 1 << 20
    has_range: bool = True
    filter_type: str | None = "DYNAMIC_V0"
    has_statistics: bool = True
    entries: Mapping[str, str] = attrs.field(factory=dict)


def slice_of(partition_path: str, base_file: HoodieBaseFile) -> FileSlice:
    """The slice that is nothing but a base file."""
    return FileSlice(partition_path, base_file.file_id, base_file.instant_time, base_file)


def write_slice(folder: Path, partition_path: str, file_id: str, file: StoredFile) -> FileSlice:
    """Make a base file of a table; its slice."""
    return slice_of(partition_path, write_base_file(folder / partition_path, file_id, file))


def write_base_file(path: Path, file_id: str, file: StoredFile) -> HoodieBaseFile:
    """Make a base file."""
    path.mkdir(parents=True, exist_ok=True)
    target = path / f"{file_id}_0-0-0_001.parquet"
    keys = pa.array(file.keys, pa.string())
    columns = {name: keys if name == RECORD_KEY_META else pa.nulls(len(keys), pa.string()) for name in META_COLUMNS}
    bloom_filter = None
    if file.filter_type is not None:
        bloom_filter = create_bloom_filter(file.filter_type, max(len(keys), 1), 1e-6)
        bloom_filter.add(keys)
    entries = footer_entries(bloom_filter, KeyRange.of(keys) if file.has_range else None, None) | dict(file.entries)
    table = pa.table(columns)
    with pq.ParquetWriter(target, table.schema, write_statistics=file.has_statistics, store_schema=False) as writer:
        writer.write_table(table, row_group_size=file.row_group_rows)
        writer.add_key_value_metadata(entries)
    return HoodieBaseFile(str(target), file_id, "0-0-0", "001", target.stat().st_size)
