"""Key ranges and bloom filters of base files from the metadata table, so that their footers need not be read.

Ranges that it lacks, or that have an uncertain order, are read from the footer.

Hudi: org.apache.hudi.index.bloom.HoodieMetadataBloomFilterProbingFunction,
org.apache.hudi.index.bloom.HoodieBloomIndex (loadColumnRangesFromMetaIndex).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.index.bloom.key_ranges import BloomIndexFileInfo
from hoodie.index.index import IndexedTable
from hoodie.metadata.reader.column_bounds import ColumnBounds
from hoodie.metadata.reader.metadata_listing import MetadataListing, metadata_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_BLOOM_FILTERS = MetadataPartitionType.BLOOM_FILTERS.partition_path
_FILTERS_AT_ONCE = 32
"""A filter of Hudi's default size has 430 KB."""


def infos_by_metadata(table: IndexedTable, slices: Sequence[FileSlice]) -> dict[str, BloomIndexFileInfo]:
    """The key ranges of base files in the metadata table, by path.

    Args:
        table: The table.
        slices: The slices of the files.
    """
    listing = _listing_with(table, _COLUMN_STATS)
    if listing is None or not slices:
        return {}
    files = {(part.partition_path, part.key_file.file_name): part.key_file.path for part in slices}
    paths = sorted({path for path, _ in files})
    rows = listing.ask(lambda metadata: metadata.read_column_stats([RECORD_KEY_META], paths))
    if rows is None or not rows.num_rows:
        return {}
    bounds = ColumnBounds.of_statistics(rows, pa.string())
    columns = [rows.column(name).to_pylist() for name in ("partition_path", "file_name")]
    ends = [bounds.low.cast(pa.binary()).to_pylist(), bounds.high.cast(pa.binary()).to_pylist()]
    return {
        files[path, name]: BloomIndexFileInfo(low, high, None)
        for path, name, low, high in zip(*columns, *ends, strict=True)
        if (path, name) in files and low is not None and high is not None
    }


def filters_by_metadata(table: IndexedTable, slices: Sequence[FileSlice]) -> Iterator[tuple[int, BloomFilter]]:
    """The bloom filters of base files that the metadata table has, with the numbers of their slices.

    Args:
        table: The table.
        slices: The slices of the files.
    """
    listing = _listing_with(table, _BLOOM_FILTERS)
    if listing is None:
        return
    for first in range(0, len(slices), _FILTERS_AT_ONCE):
        files = [(part.partition_path, part.key_file.file_name) for part in slices[first : first + _FILTERS_AT_ONCE]]
        found = _filters(listing, files)
        for number, file in enumerate(files, first):
            if file in found:
                yield number, found[file]


def holds_none(bloom_filter: BloomFilter, keys: Sequence[pa.Array]) -> bool:
    """Whether a filter excludes all keys.

    Args:
        bloom_filter: The filter.
        keys: Keys (string), in several arrays.
    """
    return not any(pc.any(pa.array(bloom_filter.might_contain(part))).as_py() for part in keys if len(part))


def _filters(listing: MetadataListing, files: list[tuple[str, str]]) -> dict[tuple[str, str], BloomFilter]:
    return listing.ask(lambda metadata: metadata.read_bloom_filters(files)) or {}


def _listing_with(table: IndexedTable, partition: str) -> MetadataListing | None:
    """The metadata table of a table that lists a partition of it."""
    snapshot = table.listing.snapshot
    if snapshot is None or partition not in snapshot.table_config.metadata_partitions:
        return None
    return metadata_of(snapshot)
