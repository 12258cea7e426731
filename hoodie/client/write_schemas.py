"""The schemas of a write: the table's columns, and those that the input adds or widens."""

from __future__ import annotations

from collections.abc import Iterable

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import (
    add_meta_columns,
    check_writable,
    evolve,
    record_name,
    record_namespace,
    to_arrow,
    to_avro,
    without_enums,
)
from hoodie.common.data.schema_compatibility import ColumnChange, merge_schemas
from hoodie.common.model.write_operation_type import HoodieTableType
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.util.parquet_levels import check_levels
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieNotSupportedException, HoodieSchemaException
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_file_reader import open_log_file
from hoodie.merge.merge_spec import MergeSpec

_MOST_EMPTY_COMMITS = 20
"""A table with more commits than that keeps its columns."""


@attrs.frozen
class WriteSchemas:
    """The schemas of one write: columns, Avro schema text without and with meta columns, and changes to the table's."""

    columns: pa.Schema
    avro: str
    avro_with_meta: str
    changes: tuple[ColumnChange, ...] = ()

    @classmethod
    def of(
        cls,
        snapshot: TableSnapshot,
        config: HoodieWriteConfig,
        input_schema: pa.Schema,
        absent: frozenset[str] = frozenset(),
    ) -> WriteSchemas:
        """The table's columns and the input's new ones; a table's first write takes the input's columns.

        On the first write, the columns of ``hoodie.avro.schema`` count as the table's, and the input may leave them
        out. The columns of a table that never had a row are not binding: nobody chose the types of empty frames.

        Args:
            snapshot: The table.
            config: The writer's configuration.
            input_schema: The input's columns, as they are stored.
            absent: The table's columns that a partial update leaves unchanged.

        Raises:
            SchemaCompatibilityException, MissingSchemaFieldException: The columns do not fit the table's.
            HoodieNotSupportedException: See `refuse_widening_of_parquet_blocks`.
        """
        table_config = snapshot.table_config
        table_avro = snapshot.load_avro_schema()
        if table_avro is not None and has_no_rows_ever(snapshot) and not _takes(table_avro, input_schema):
            table_avro = None
        if table_avro is not None:
            table_schema = to_arrow(table_avro)
        else:
            table_schema = to_arrow(config.write.avro_schema) if config.write.avro_schema else None
        expected = table_schema
        if table_schema is not None and absent:
            expected = pa.schema([field for field in table_schema if field.name not in absent])
        partition_fields = (name.partition(":")[0] for name in table_config.partition_fields)
        merged = merge_schemas(
            expected,
            input_schema,
            config.write.nulls_missing_columns or table_avro is None,
            key_fields={*table_config.record_key_fields, *partition_fields},
            widens_lossy=config.write.schema_widen_lossy,
            declared=_declared_schema(snapshot, config),
        )
        refuse_widening_of_parquet_blocks(snapshot, merged.changes)
        columns = merged.columns
        if table_schema is not None and absent:
            checked = {field.name: field for field in columns}
            table_fields = [checked.pop(field.name, field) for field in table_schema]
            columns = pa.schema([*table_fields, *checked.values()])
        check_levels(columns)
        if table_avro is not None:
            check_writable(table_avro)
            table_avro = without_enums(table_avro)
            avro = table_avro if columns == table_schema else evolve(table_avro, columns)
        else:
            name = table_config.table_name
            avro = to_avro(columns, record_name(name), record_namespace(name))
        return cls(columns, avro, add_meta_columns(avro), merged.changes)


def _declared_schema(snapshot: TableSnapshot, config: HoodieWriteConfig) -> pa.Schema | None:
    """The columns as a user declared them: in this writer's properties, or when the table was made."""
    declared = config.write.avro_schema or snapshot.table_config.create_schema
    return to_arrow(declared) if declared else None


def _takes(table_avro: str, input_schema: pa.Schema) -> bool:
    """Whether the columns of an input fit those of a table, or can be made to fit."""
    try:
        merge_schemas(to_arrow(table_avro), input_schema, False)
    except HoodieSchemaException:
        return False
    return True


def has_no_rows_ever(snapshot: TableSnapshot) -> bool:
    """Whether only empty frames gave a table its columns: no commit wrote a file, and no user declared the columns.

    Args:
        snapshot: The table.

    Raises:
        HoodieCorruptedDataException: Commit metadata is damaged.
        HoodieIOException: Storage failed.
    """
    if snapshot.table_config.create_schema is not None or snapshot.load_avro_schema() is None:
        return False
    # Usually the newest commit, which was read for the schema, wrote a file.
    at_hand = snapshot.commits_at_hand
    if any(any(True for _ in metadata.write_stats) for metadata in at_hand.values()):
        return False
    timeline = snapshot.active_timeline
    commits = list(timeline.completed_writes())
    if len(commits) > _MOST_EMPTY_COMMITS or timeline.newest_archived_time() is not None:
        return False
    read = (at_hand.get(commit) or timeline.read_commit_metadata(commit) for commit in commits)
    return not any(any(True for _ in metadata.write_stats) for metadata in read)


def absent_marks(snapshot: TableSnapshot, merge_spec: MergeSpec, given: Iterable[str]) -> list[pa.Field]:
    """Columns of a table that mark deletes and that an input lacks: they are null in all of its rows.

    Args:
        snapshot: The table.
        merge_spec: The rule by which its records merge.
        given: The input's columns, and those that keep their stored values.
    """
    if snapshot.load_avro_schema() is None:
        return []
    names = {name.lower() for name in given}
    marks = {name.lower() for name in merge_spec.delete_marks} - names
    return [field.with_nullable(True) for field in snapshot.load_schema() if field.name.lower() in marks]


def refuse_widening_of_parquet_blocks(snapshot: TableSnapshot, changes: Iterable[ColumnChange]) -> None:
    """Refuse a write that widens a column while log files hold Parquet blocks, in version 6.

    Hudi 0.15 reads Avro blocks of log files in a wider type than they were written in, and fails at Parquet blocks, in
    queries and compactions, until they are compacted. It reads tables of version 6 only. Hudi has no such check.

    The heads of all log files are read, if a column is widened.

    Args:
        snapshot: The table.
        changes: The changes of the input's columns.

    Raises:
        HoodieNotSupportedException: A log file has such a block.
        HoodieException: A log file cannot be read.
    """
    config = snapshot.table_config
    if config.table_type is not HoodieTableType.MERGE_ON_READ or snapshot.active_timeline.layout.has_completion_times:
        return
    widened = [change for change in changes if change.stored is not None and change.stored != change.becomes]
    if not widened:
        return
    view = snapshot.view()
    paths = [
        log_file.path
        for partition_path in view.load_all_partitions()
        for file_slice in view.latest_file_slices(partition_path)
        for log_file in file_slice.record_log_files
    ]

    def has_parquet(path: str) -> bool:
        with open_log_file(snapshot.storage, path) as reader:
            return any(block.block_type is HoodieLogBlockType.PARQUET_DATA for block in reader.stored_blocks())

    found = [path for path, has_some in zip(paths, map_concurrently(has_parquet, paths), strict=True) if has_some]
    if found:
        raise HoodieNotSupportedException(
            f"column {widened[0]}, and {len(found)} log files of {snapshot.base_path} hold Parquet blocks of the older "
            f"type, such as {found[0]}: Hudi 0.15 would fail to read them. Compact the table first, or cast the column "
            f"to {widened[0].stored}; nothing was written"
        )
