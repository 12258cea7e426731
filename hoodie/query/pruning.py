"""Pruning of files without rows of a filter: by partition, by statistics, by bloom filter.

Every source only excludes what it can decide: `RowFilter.pushed` is a condition that every row of the result meets, and
that statistics can decide.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.column_values import ColumnValues, values_of
from hoodie.common.data.expression_tree import parse_expression
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.partition_values import PartitionValues
from hoodie.query.read_plan import PlannedSlice, Pruned
from hoodie.storage.storage import HoodieStorage

BY_STATISTICS = "pruned by statistics"
BY_COLUMN_STATISTICS = "pruned by column statistics of the metadata table"
BY_RECORD_INDEX = "pruned by the record index"
BY_SECONDARY_INDEX = "pruned by a secondary index"
BY_BLOOM_FILTER = "pruned by bloom filter"
BY_KEYS = "pruned by record keys"
BY_VALUES = "pruned by values of the key field"


def prune_partitions(
    partitions: Sequence[str], table_config: HoodieTableConfig, schema: pa.Schema, row_filter: RowFilter | None
) -> list[str]:
    """The partitions that may hold rows of a filter, by their paths.

    Args:
        partitions: Partition paths.
        table_config: The properties of the table, which define the paths.
        schema: The table's columns.
        row_filter: The filter; None for all rows.
    """
    if row_filter is None or row_filter.pushed is None:
        return list(partitions)
    values = PartitionValues.of(table_config, schema)
    if row_filter.columns is not None and row_filter.columns.isdisjoint(level.field for level in values.levels):
        return list(partitions)
    # Imported late because it imports pandas, which takes longer than the rest of hoodie.
    import pyarrow.dataset as ds
    from pyarrow import fs

    guarantees = [values.guarantee(partition) for partition in partitions]
    # A dataset of names only: pyarrow decides by the guarantees which of them may have rows of the filter.
    names = [str(number) for number in range(len(partitions))]
    dataset = ds.FileSystemDataset.from_paths(
        names, values.schema, ds.ParquetFileFormat(), fs.LocalFileSystem(), partitions=guarantees
    )
    return [partitions[int(fragment.path)] for fragment in dataset.get_fragments(values.narrowed(row_filter.pushed))]


def prune_by_footers(
    storage: HoodieStorage,
    slices: Sequence[FileSlice],
    schema: pa.Schema,
    row_filter: RowFilter,
    searched: ColumnValues | None = None,
) -> tuple[list[PlannedSlice], list[Pruned]]:
    """The slices, with their row groups, that may hold rows of a filter, by the footers of their base files.

    Args:
        storage: The storage of the files.
        slices: The slices.
        schema: The table's columns.
        row_filter: The filter, with a pushed condition or values of a column.
        searched: The values that the filter names for the key column; None if it names none.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    look = _FooterLook(storage, schema, row_filter, searched)
    planned: list[PlannedSlice] = []
    excluded: dict[str, list[HoodieBaseFile]] = {BY_STATISTICS: [], BY_BLOOM_FILTER: [], BY_KEYS: [], BY_VALUES: []}
    for file_slice, found in zip(slices, map_concurrently(look, slices), strict=True):
        if isinstance(found, PlannedSlice):
            planned.append(found)
        elif file_slice.base_file is not None:
            excluded[found].append(file_slice.base_file)
    return planned, [Pruned.of(by, files) for by, files in excluded.items()]


@attrs.frozen
class _FooterLook:
    """Reads the footer of a slice; returns the planned slice, or the reason why it is excluded."""

    storage: HoodieStorage
    schema: pa.Schema
    row_filter: RowFilter
    searched: ColumnValues | None

    def __call__(self, file_slice: FileSlice) -> PlannedSlice | str:
        base_file = file_slice.base_file
        if base_file is None or any(not log_file.is_cdc for log_file in file_slice.log_files):
            # Log files may add rows that the base file does not have.
            return PlannedSlice(file_slice)
        with HoodieParquetReader(self.storage, base_file.path, size_bytes=base_file.size_bytes) as reader:
            return self._look(file_slice, reader)

    def _look(self, file_slice: FileSlice, reader: HoodieParquetReader) -> PlannedSlice | str:
        row_groups = None
        tree = None if self.row_filter.pushed is None else parse_expression(self.row_filter.pushed)
        if tree is not None and reader.stores(self.schema):
            row_groups = tuple(reader.row_groups_of(tree, self.schema))
            if not row_groups:
                return BY_STATISTICS
        if self.searched is not None:
            is_key = self.searched.column == RECORD_KEY_META
            if is_key and not reader.may_hold_keys(self.searched.values):
                return BY_BLOOM_FILTER
            if reader.stores(self.schema, [self.searched.column]):
                rows = self._searched_rows(reader, row_groups)
                if not len(rows):
                    return BY_KEYS if is_key else BY_VALUES
                numbers = np.searchsorted(np.cumsum(reader.row_group_rows), rows, side="right")
                return PlannedSlice(file_slice, tuple(np.unique(numbers).tolist()), reader.num_row_groups, rows)
        return PlannedSlice(file_slice, row_groups, reader.num_row_groups)

    def _searched_rows(self, reader: HoodieParquetReader, row_groups: tuple[int, ...] | None) -> npt.NDArray[np.int64]:
        """The rows with one of the values. Only the column of the values is read. Empty if the file lacks the
        column.
        """
        assert self.searched is not None
        if self.searched.column not in reader.file_schema.names:
            return np.zeros(0, dtype=np.int64)
        return reader.find_record_keys(self.searched.values, row_groups, self.searched.column)[1]


def searched_values(row_filter: RowFilter, table_config: HoodieTableConfig, schema: pa.Schema) -> ColumnValues | None:
    """The record keys that a filter demands, or else the values that it demands of the key field; None if it
    names none.

    Args:
        row_filter: The filter.
        table_config: The table's properties.
        schema: The table's columns.
    """
    columns = [RECORD_KEY_META] if table_config.populate_meta_fields else []
    field = key_field(table_config, schema)
    for column in columns if field is None else [*columns, field]:
        if (found := values_of(row_filter, column)) is not None:
            return found
    return None


def key_field(table_config: HoodieTableConfig, schema: pa.Schema) -> str | None:
    """The key field, if there is one only and it is a string; None otherwise.

    Its values are not taken for record keys. Key generators make them equal, but callers can give records other keys.

    Args:
        table_config: The table's properties.
        schema: The table's columns.
    """
    fields = table_config.record_key_fields
    is_text = len(fields) == 1 and fields[0] in schema.names and pa.types.is_string(schema.field(fields[0]).type)
    return fields[0] if is_text else None
