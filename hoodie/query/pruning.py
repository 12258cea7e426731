"""Which files cannot hold rows of a filter: by partition, by statistics, by bloom filter.

Nothing here decides more than its source can tell: `RowFilter.pushed` is a condition that every row of the result
fulfils and that statistics can decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.expression_tree import Call, Field, Literal, Node, parse_expression
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice, HoodieBaseFile
from hoodie.common.model.key_generator_type import KEY_GENERATOR_PACKAGE
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.parquet.parquet_footer import parse_footer
from hoodie.io.parquet.parquet_fragments import ParquetFragment
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.keygen.partition_values import partition_expression
from hoodie.query.read_plan import PlannedSlice, Pruned
from hoodie.storage.storage import HoodieStorage

MAX_KEYS = 1000
"""More keys than this are not asked of bloom filters."""
BY_STATISTICS = "pruned by statistics"
BY_BLOOM_FILTER = "pruned by bloom filter"
BY_KEYS = "pruned by record keys"
_GENERATORS_OF_PLAIN_KEYS = frozenset(
    {"SimpleKeyGenerator", "NonpartitionedKeyGenerator", "TimestampBasedKeyGenerator"}
)
"""Key generators whose record key is the text of the only key field. That of others may begin with the field's name."""


def prune_partitions(
    partitions: Sequence[str], table_config: HoodieTableConfig, schema: pa.Schema, row_filter: RowFilter | None
) -> list[str]:
    """The partitions that can hold rows of a filter, as their paths tell.

    Args:
        partitions: Partition paths.
        table_config: How the paths are made.
        schema: The table's columns.
        row_filter: The filter; None for all rows.
    """
    if row_filter is None or row_filter.pushed is None:
        return list(partitions)
    # Loaded when something is read: it loads pandas, which takes longer than all of hoodie.
    import pyarrow.dataset as ds
    from pyarrow import fs

    guarantees = [partition_expression(partition, table_config, schema) for partition in partitions]
    # A dataset of names only: pyarrow decides by the guarantees which of them the filter can meet.
    names = [str(number) for number in range(len(partitions))]
    dataset = ds.FileSystemDataset.from_paths(
        names, schema, ds.ParquetFileFormat(), fs.LocalFileSystem(), partitions=guarantees
    )
    return [partitions[int(fragment.path)] for fragment in dataset.get_fragments(row_filter.pushed)]


def prune_by_footers(
    storage: HoodieStorage,
    slices: Sequence[FileSlice],
    schema: pa.Schema,
    row_filter: RowFilter,
    keys: pa.Array | None,
    key_fields: Sequence[str] = (),
    searched: str | None = None,
) -> tuple[list[PlannedSlice], list[Pruned]]:
    """The slices, and their row groups, that can hold rows of a filter, as the footers of their base files tell.

    Args:
        storage: Where the files are.
        slices: The slices.
        schema: The table's columns.
        row_filter: The filter, with a pushed condition or keys.
        keys: The record keys that rows of the result have (string); None for any.
        key_fields: Columns whose text the keys are taken to be. Callers of Hudi can give records other keys: files in
            which the range of such a column is not that of the keys are not pruned by keys.
        searched: The column in which rows of the result have one of the keys; None if it may be one of several.

    Raises:
        HoodieIOException: A file is missing, or storage failed.
        HoodieCorruptedDataException: A file is damaged.
    """
    look = _FooterLook(storage, schema, row_filter, keys, tuple(key_fields), searched)
    planned: list[PlannedSlice] = []
    excluded: dict[str, list[HoodieBaseFile]] = {BY_STATISTICS: [], BY_BLOOM_FILTER: [], BY_KEYS: []}
    for file_slice, found in zip(slices, map_concurrently(look, slices), strict=True):
        if isinstance(found, PlannedSlice):
            planned.append(found)
        elif file_slice.base_file is not None:
            excluded[found].append(file_slice.base_file)
    return planned, [Pruned.of(by, files) for by, files in excluded.items()]


@attrs.frozen
class _FooterLook:
    """Reads a footer; says what is to be read of the slice, or by what it is excluded."""

    storage: HoodieStorage
    schema: pa.Schema
    row_filter: RowFilter
    keys: pa.Array | None
    key_fields: tuple[str, ...]
    searched: str | None

    def __call__(self, file_slice: FileSlice) -> PlannedSlice | str:
        base_file = file_slice.base_file
        if base_file is None or any(not log_file.is_cdc for log_file in file_slice.log_files):
            # Log files may add rows that the base file knows nothing of.
            return PlannedSlice(file_slice)
        fragment = ParquetFragment.open(self.storage, base_file.path)
        row_groups = None
        if self.row_filter.pushed is not None and fragment.stores(self.schema):
            row_groups = tuple(fragment.row_groups_of(self.row_filter.pushed, self.schema))
            if not row_groups:
                return BY_STATISTICS
        if self.keys is not None and all(fragment.have_same_range(name, RECORD_KEY_META) for name in self.key_fields):
            if not self._may_hold_keys(fragment):
                return BY_BLOOM_FILTER
            if self.searched is not None and fragment.stores(self.schema, [self.searched]):
                rows = self._rows_of_keys(fragment, row_groups)
                numbers = np.searchsorted(np.cumsum(fragment.row_counts), rows, side="right")
                if not len(rows):
                    return BY_KEYS
                return PlannedSlice(file_slice, tuple(np.unique(numbers).tolist()), fragment.num_row_groups, rows)
        return PlannedSlice(file_slice, row_groups, fragment.num_row_groups)

    def _rows_of_keys(self, fragment: ParquetFragment, row_groups: tuple[int, ...] | None) -> npt.NDArray[np.int64]:
        """The rows that hold one of the keys, of which only the column is read; none if the file lacks it."""
        assert self.searched is not None
        with HoodieParquetReader(self.storage, fragment.path) as reader:
            if self.searched not in reader.file_schema.names:
                return np.zeros(0, dtype=np.int64)
            return reader.find_record_keys(self.keys, row_groups, self.searched)[1]

    def _may_hold_keys(self, fragment: ParquetFragment) -> bool:
        """Whether the bloom filter knows one of the keys; a filter that cannot be read excludes nothing."""
        assert self.keys is not None
        try:
            bloom_filter = parse_footer(fragment.path, fragment.entries).bloom_filter
        except (HoodieCorruptedDataException, HoodieNotSupportedException):
            return True
        return bloom_filter is None or bool(bloom_filter.might_contain(self.keys).any())


def keys_of(row_filter: RowFilter, key_columns: Iterable[str]) -> pa.Array | None:
    """The record keys that every row of a filter's result has one of (string); None if the filter does not tell.

    Args:
        row_filter: The filter.
        key_columns: Columns of strings that equal the record key.
    """
    tree = parse_expression(row_filter.expression)
    found = _values_of(tree, frozenset(key_columns)) if tree is not None else None
    return None if found is None or len(found) > MAX_KEYS else pa.array(sorted(found), pa.string())


def _values_of(node: Node, columns: frozenset[str]) -> set[str] | None:
    """The values that one of the columns has where an expression is true; None for any."""
    if not isinstance(node, Call):
        return None
    match node.function:
        case "and_kleene":
            parts = [found for part in node.arguments if (found := _values_of(part, columns)) is not None]
            return min(parts, key=len) if parts else None
        case "or_kleene":
            either = [_values_of(part, columns) for part in node.arguments]
            return None if None in either else set().union(*(part for part in either if part is not None))
        case "equal":
            left, right = node.arguments
            if isinstance(left, Literal):
                left, right = right, left
            is_key = isinstance(left, Field) and len(left.path) == 1 and left.path[0] in columns
            is_text = isinstance(right, Literal) and right.value.is_valid and pa.types.is_string(right.value.type)
            return {right.value.as_py()} if is_key and is_text and isinstance(right, Literal) else None
        case "is_in":
            field = node.arguments[0]
            if not isinstance(field, Field) or len(field.path) > 1 or field.path[0] not in columns:
                return None
            values = node.options["value_set"].values if node.options is not None else None
            if values is None or not pa.types.is_string(values.type) or values.null_count:
                return None
            return set(values.to_pylist())
    return None


def key_columns(table_config: HoodieTableConfig, schema: pa.Schema) -> list[str]:
    """The columns whose text is the record key: the meta column, and the only key field if it is a string.

    Args:
        table_config: The table's properties.
        schema: The table's columns.
    """
    if not table_config.populate_meta_fields:
        return []
    names = [RECORD_KEY_META]
    fields = table_config.record_key_fields
    generator = (table_config.key_generator_class or "").removeprefix(KEY_GENERATOR_PACKAGE)
    is_plain = len(fields) == 1 and generator in _GENERATORS_OF_PLAIN_KEYS
    if is_plain and fields[0] in schema.names and pa.types.is_string(schema.field(fields[0]).type):
        names.append(fields[0])
    return names
