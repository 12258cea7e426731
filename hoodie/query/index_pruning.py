"""The file slices that hold given record keys or given values of a column, by indexes of the metadata table.

The record index has the present file group of each record. So it is used only for the newest slices with their log
files: at an earlier time a record was elsewhere, or not yet deleted, and base files alone may hold rows that log files
delete.

A secondary index gives the record keys of values; the record index then gives their file groups. A secondary index has
one entry for a key and a value. Where a key may be in several partitions, the entry is deleted with the first of these
rows. So the index is not used beside a partitioned record index.

A filter that names values of all key fields also names record keys, if rows have the keys of their columns. Rows may
have other keys, so the record index answers such filters only if the caller asks for it.

Hudi: org.apache.hudi.{RecordLevelIndexSupport, SecondaryIndexSupport}. Differs: takes the values of key fields for
record keys only if the caller allows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import product
from math import prod

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.common.data.column_values import MAX_VALUES, texts_of, values_of
from hoodie.common.data.expression_tree import Call, Node, parse_expression
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.metadata.reader.backed_table_metadata import HoodieBackedTableMetadata
from hoodie.metadata.reader.metadata_listing import metadata_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType

_RECORD_INDEX = MetadataPartitionType.RECORD_INDEX.partition_path
_MOST_KEYS = 100_000
"""The limit of record keys: with more of them, most file groups hold one."""


def slices_by_record_index(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], record_keys: pa.Array
) -> npt.NDArray[np.bool_] | None:
    """Look record keys up in the record index: the newest slices that hold one of them.

    Args:
        snapshot: The table.
        slices: Its newest slices.
        record_keys: The keys (string).

    Returns:
        A flag for each slice; None if there is no record index, or it names a file group that its partition lacks.
    """
    listing = metadata_of(snapshot)
    if listing is None or _RECORD_INDEX not in snapshot.table_config.metadata_partitions or not slices:
        return None
    locations = listing.ask(lambda metadata: metadata.read_record_index(record_keys))
    if locations is None:
        return None
    places = set(
        zip(locations.column("partition_path").to_pylist(), locations.column("file_id").to_pylist(), strict=True)
    )
    flags = np.array([(part.partition_path, part.file_id) in places for part in slices], np.bool_)
    partitions = {part.partition_path for part in slices}
    named_count = sum(path in partitions for path, _ in places)
    return flags if named_count == int(flags.sum()) else None


def slices_by_key_fields(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], row_filter: RowFilter, schema: pa.Schema
) -> npt.NDArray[np.bool_] | None:
    """Look up the rows with the key field values of a filter: the newest slices that hold one of them.

    Rows whose record keys do not follow from their columns are not found.

    Args:
        snapshot: The table.
        slices: Its newest slices.
        row_filter: The filter.
        schema: The table's columns.

    Returns:
        A flag for each slice; None if there is no record index, or the filter does not name values of all key fields.
    """
    table_config = snapshot.table_config
    if _RECORD_INDEX not in table_config.metadata_partitions:
        return None
    # Imported here: only a record index needs the keys, and reads of tables without one start earlier.
    from hoodie.keygen.key_texts import record_keys_of, told_key_fields

    fields = told_key_fields(table_config, schema)
    tree = parse_expression(row_filter.expression) if fields else None
    values = None if tree is None else _key_values(tree, fields)
    keys = None if values is None or len(values) > MAX_VALUES else record_keys_of(table_config, values)
    return None if keys is None else slices_by_record_index(snapshot, slices, pa.array(keys, pa.string()))


def _key_values(node: Node, fields: Sequence[str]) -> set[tuple[str, ...]] | None:
    """The values of the key fields, as texts, in rows for which an expression is true; None if they are not
    limited.
    """
    if isinstance(node, Call) and node.function == "or_kleene":
        either = [_key_values(part, fields) for part in node.arguments]
        return None if None in either else set().union(*(part for part in either if part is not None))
    each = [texts_of(node, field, _has_text) for field in fields]
    known = [texts for texts in each if texts is not None]
    if len(known) == len(fields):
        return set(product(*known)) if prod(map(len, known)) <= MAX_VALUES else None
    if isinstance(node, Call) and node.function == "and_kleene":
        return next((found for part in node.arguments if (found := _key_values(part, fields)) is not None), None)
    return None


def _has_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_integer(data_type))


def slices_by_secondary_index(
    snapshot: TableSnapshot, slices: Sequence[FileSlice], row_filter: RowFilter, schema: pa.Schema
) -> npt.NDArray[np.bool_] | None:
    """Look up the values that a filter names for an indexed column: the newest slices that hold one of them.

    Args:
        snapshot: The table.
        slices: Its newest slices.
        row_filter: The filter.
        schema: The table's columns.

    Returns:
        A flag for each slice; None if no index has the answer.
    """
    listing = metadata_of(snapshot)
    if listing is None or not slices:
        return None
    for partition in snapshot.table_config.metadata_partitions:
        if MetadataPartitionType.of_path(partition) is not MetadataPartitionType.SECONDARY_INDEX:
            continue
        definitions = listing.ask(lambda metadata: metadata.definitions)
        definition = None if definitions is None else definitions.get(partition)
        fields = () if definition is None else definition.source_fields
        if len(fields) != 1 or fields[0] not in schema.names or not _has_text(schema.field(fields[0]).type):
            continue
        wanted = values_of(row_filter, fields[0], _has_text)
        if wanted is None:
            continue
        if listing.ask(lambda metadata: metadata.is_record_index_by_partition) is not False:
            return None
        values = wanted.values.to_pylist()
        entries = listing.ask(
            partial(HoodieBackedTableMetadata.read_rare_values, index_name=partition, values=values, most=_MOST_KEYS)
        )
        if entries is not None:
            keys = entries.column("record_key").combine_chunks().unique()
            return slices_by_record_index(snapshot, slices, keys)
    return None
