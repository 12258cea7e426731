"""The columns of a table that have statistics, and the form of the statistics.

If a file has statistics of some columns, readers take any other column of it for all null. So each new file gets
statistics of all columns that any reader may look at: those in the table's definition, and those that Hudi would
choose. The definition grows only by columns that older files lack.

Hudi: HoodieTableMetadataUtil.getColumnsToIndex, HoodieMetadataWriteUtils.updateColsToIndex. Differs: Hudi takes the
columns of each commit from the options of its writer, and replaces the definition.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import fields_in_millis, to_arrow
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.config.metadata_config import HoodieMetadataConfig
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.column_stats_records import column_value_type, indexed_columns, leaf_columns
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.writer.partition_indexer import CommittedChange, IndexingContext

_COLUMN_STATS = MetadataPartitionType.COLUMN_STATS.partition_path
_V1, _V2 = 8, 9
"""The table versions whose form the statistics have under definitions of version V1 and V2."""


@attrs.frozen
class IndexedColumns:
    """The columns of a table that have statistics, as of an action.

    Attributes:
        schema: The table's columns, meta columns included if it has them.
        in_millis: The columns of timestamps that the table stores in milliseconds.
        stats_version: 6, 8 or 9: the table version whose form the statistics have. A table that was upgraded to version
            9 may keep the form of version 8.
        written: The columns for which new files get statistics.
        defined: The columns that the definition names; a part of ``written``.
    """

    schema: pa.Schema
    in_millis: frozenset[str]
    stats_version: int
    written: tuple[str, ...]
    defined: tuple[str, ...]

    @property
    def definition(self) -> HoodieIndexDefinition:
        """The definition of ``column_stats``."""
        is_v2 = self.stats_version >= _V2
        return HoodieIndexDefinition(_COLUMN_STATS, _COLUMN_STATS, self.defined, is_hashed_by_value=is_v2)


def indexed_columns_of_table(context: IndexingContext, *, is_new: bool = False) -> IndexedColumns:
    """The indexed columns of a table with its present schema.

    Args:
        context: The table.
        is_new: Whether the index is being built: then the options choose, not an earlier definition.

    Raises:
        HoodieException: Its schema cannot be read.
    """
    return _columns_in(context, context.table.load_avro_schema(), is_new=is_new)


def indexed_columns_of_change(context: IndexingContext, change: CommittedChange) -> IndexedColumns:
    """The indexed columns of files that an action wrote. Its schema may have new columns.

    Args:
        context: The table.
        change: The action.

    Raises:
        HoodieException: A schema cannot be read.
    """
    return _columns_in(context, change.metadata.schema or context.table.load_avro_schema())


def indexed_columns_of_schema(context: IndexingContext, avro_schema: str) -> IndexedColumns:
    """The indexed columns of files that an action is about to write.

    Args:
        context: The table.
        avro_schema: The schema of their rows.

    Raises:
        HoodieException: A schema cannot be read.
    """
    return _columns_in(context, avro_schema)


def _columns_in(context: IndexingContext, avro_schema: str | None, *, is_new: bool = False) -> IndexedColumns:
    """The indexed columns of files with a schema."""
    config, version = context.config, _stats_version(context)
    definition = context.definitions.get(_COLUMN_STATS)
    fields = definition.source_fields if definition is not None and not is_new else ()
    schema = _columns_of(context.table, avro_schema)
    before = _columns_of(context.table, context.table.load_avro_schema()) if fields else schema
    requested = config.column_stats_columns or None
    # The definition of a table of version 6 is for readers of Hudi 1.x.
    chosen, chosen_before = (
        indexed_columns(one, max(version, _V1), requested, config.column_stats_max_columns) if len(one) else []
        for one in (schema, before)
    )
    defined = list(fields)
    if set(chosen_before) <= set(fields) or not fields:
        # Its columns are those that Hudi chooses from the options; it follows the schema.
        known = {*before.names, *leaf_columns(before), *fields} if fields else set()
        defined += [name for name in chosen if name not in known]
    written = [*defined, *_choice_of_any_writer(schema, version, requested, config)]
    exists = {name for name in written if column_value_type(schema, name, version) is not None}
    return IndexedColumns(
        schema,
        fields_in_millis(avro_schema) if avro_schema else frozenset(),
        version,
        tuple(name for name in dict.fromkeys(written) if name in exists),
        tuple(name for name in defined if name in exists or not len(schema)),
    )


def _choice_of_any_writer(
    schema: pa.Schema, version: int, named: Sequence[str] | None, config: HoodieMetadataConfig
) -> list[str]:
    """The columns that a writer may choose, of whatever kind its records are.

    For statistics of the form V1, some of Hudi's writers leave decimal, binary and fixed columns out of their count.
    """
    columns = indexed_columns(schema, version, named, config.column_stats_max_columns)
    if named is not None or version != _V1:
        return columns
    counted_fields = [field for field in schema if field.name not in META_COLUMNS and not _is_binary(field.type)]
    columns_without_binaries = indexed_columns(
        pa.schema(counted_fields), version, None, config.column_stats_max_columns
    )
    return list(dict.fromkeys([*columns, *columns_without_binaries]))


def _is_binary(arrow_type: pa.DataType) -> bool:
    kinds = (pa.types.is_decimal, pa.types.is_binary, pa.types.is_fixed_size_binary)
    return any(is_it(arrow_type) for is_it in kinds)


def _stats_version(context: IndexingContext) -> int:
    version = context.table.table_config.table_version
    definition = context.definitions.get(_COLUMN_STATS)
    has_older_form = definition is not None and not definition.is_hashed_by_value
    return _V1 if version >= _V2 and has_older_form else version


def _columns_of(table: TableSnapshot, avro_schema: str | None) -> pa.Schema:
    """The columns of a schema, with meta columns if the table has them; empty without a schema."""
    if avro_schema is None:
        return pa.schema([])
    has_meta_columns = table.table_config.populate_meta_fields
    meta = [pa.field(name, pa.string()) for name in META_COLUMNS] if has_meta_columns else []
    return pa.schema([*meta, *to_arrow(avro_schema)])
