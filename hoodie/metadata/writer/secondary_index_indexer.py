"""Records of secondary indexes: the record keys of every value of a column.

An entry is only a key, ``value$record key``. So an action adds the entries that file groups gained, and deletes those
that file groups lost and no other gained:

    file group F1 had k1 red, has k1 blue     + blue$k1, - red$k1
    F1 had k2 red, F2 has k2 red              nothing: the record moved

Hudi: org.apache.hudi.metadata.index.secondary.SecondaryIndexer, SecondaryIndexRecordGenerationUtils.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY_META
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.engine.data import HoodieData
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieIndexException, HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.index_records import secondary_index_entries
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import file_groups_of_keys, secondary_index_keys
from hoodie.metadata.records.metadata_partition_type import record_index_group_count
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.writer.file_group_writer import MetadataFileGroupWriter
from hoodie.metadata.writer.key_sizes import check_key_sizes
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    PartitionRecords,
)
from hoodie.metadata.writer.slice_keys import FileGroupChange, SliceKeys, changes_of
from hoodie.metadata.writer.table_difference import CatchingUpIndexer, TableDifference
from hoodie.storage.storage import FileStatus

INDEX_TYPE = "secondary_index"
_PAYLOAD = MetadataPayload.SECONDARY_INDEX
_FEW_ROWS = 10_000
"""Up to this number of rows is indexed on the driver: a job of the engine takes longer."""
_ENTRY, _IS_LOST, _GROUP = "entry", "is_lost", "group"
_CHANGES = pa.schema([(_ENTRY, pa.string()), (_IS_LOST, pa.bool_()), (_GROUP, pa.int32())])
_STATS = pa.schema([("stat", pa.binary())])
_NO_ENTRIES = pa.nulls(0, pa.string())


def check_indexed_column(schema: pa.Schema, column: str) -> None:
    """Refuse a column that cannot have a secondary index.

    Args:
        schema: The table's columns.
        column: The column.

    Raises:
        HoodieIndexException: The table has no such column on its top level.
        HoodieNotSupportedException: hoodie does not know how Java prints its values.
    """
    if column not in schema.names:
        hint = spelled_otherwise(schema.names, [column])
        raise HoodieIndexException(
            f"the table has no column {column} on its top level{hint}, which could be indexed: it has "
            + ", ".join(schema.names)
        )
    kind = schema.field(column).type
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise HoodieNotSupportedException(
            f"the column {column} of type {kind} cannot have a secondary index: strings, integers and booleans can"
        )


class SecondaryIndexIndexer(CatchingUpIndexer):
    """Computes the records of a secondary index, whose column its definition names.

    Hudi: org.apache.hudi.metadata.index.secondary.SecondaryIndexer.
    """

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`."""
        table = context.table
        view = table.view()
        paths = [path for path, listed in files.items() if listed]
        view.load_partitions(paths)
        slices = [part for path in paths for part in view.latest_file_slices(path)]
        changes = [FileGroupChange(part.partition_path, part.file_id, None, part) for part in slices]
        # An estimate from above: a row takes more bytes in a file than its entry.
        size = sum(part.size_bytes for part in slices)
        limits = context.config.record_index_min_file_groups, context.config.record_index_max_file_groups
        group_count = record_index_group_count(size // _ROW_BYTES, *limits)
        return InitialRecords(group_count, self._records(context, changes, None, is_few=size < _FEW_ROWS * _ROW_BYTES))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        changes = changes_of(context.table, change, with_updates=True)
        rows = sum(stat.num_writes + stat.num_deletes for stat in change.metadata.write_stats)
        is_few = rows <= _FEW_ROWS and not change.metadata.replaced_file_groups
        return self._records(context, changes, change, is_few=is_few)

    def of_difference(self, context: IndexingContext, difference: TableDifference) -> PartitionRecords:
        """See `CatchingUpIndexer.of_difference`."""
        changes = [
            FileGroupChange(*group, slice_before, slice_after)
            for group, (slice_before, slice_after) in difference.slices.items()
        ]
        size = sum(part.size_bytes for one in changes for part in (one.before, one.after) if part is not None)
        return self._records(context, changes, None, is_few=size < _FEW_ROWS * _ROW_BYTES)

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """No records: a clean deletes no row."""
        return EntriesOnDriver(MetadataEntries.none(self.partition_path, _PAYLOAD))

    def _records(
        self,
        context: IndexingContext,
        changes: Sequence[FileGroupChange],
        change: CommittedChange | None,
        *,
        is_few: bool,
    ) -> PartitionRecords:
        if not changes:
            return EntriesOnDriver(MetadataEntries.none(self.partition_path, _PAYLOAD))
        definition = self._definition(context)
        (column,) = definition.source_fields
        keys = SliceKeys.of(context.table, changes, change, with_columns=True, merger=context.merger)
        try:
            check_indexed_column(keys.schema, column)
        except (HoodieIndexException, HoodieNotSupportedException) as error:
            raise type(error)(
                f"{error}. {self.partition_path} of {context.table.base_path} is such an index: drop it first "
                "(client.drop_index)"
            ) from error
        is_by_value = definition.is_hashed_by_value
        return _SecondaryIndexChanges(self.partition_path, tuple(changes), keys, column, is_by_value, is_few)

    def _definition(self, context: IndexingContext) -> HoodieIndexDefinition:
        found = context.definitions.get(self.partition_path)
        if found is None or len(found.source_fields) != 1:
            raise HoodieIndexException(
                f"{context.table.meta_path}/.index_defs/index.json does not say which column {self.partition_path} "
                "indexes: drop the index (client.drop_index), and create it again"
            )
        return found


_ROW_BYTES = 48


@attrs.frozen(eq=False)
class _SecondaryIndexChanges:
    """The entries that file groups gained and lost; the engine brings those of one file group of the index
    together.

    Attributes:
        partition_path: The partition of the metadata table.
        changes: The changes to the file groups of the table.
        keys: Reads their rows.
        column: The indexed column.
        is_by_value: See `HoodieIndexDefinition.is_hashed_by_value`.
        is_few: Whether the driver does all the work.
    """

    partition_path: str
    changes: tuple[FileGroupChange, ...]
    keys: SliceKeys
    column: str
    is_by_value: bool
    is_few: bool

    def write(self, writer: MetadataFileGroupWriter, engine: HoodieEngineContext) -> list[HoodieWriteStat]:
        """See `PartitionRecords.write`."""
        reading = _ReadEntries(self.keys, self.column, writer.group_count, self.is_by_value)
        writing = _WriteEntries(writer, self.partition_path, self.column)
        if self.is_few:
            batches = [batch for change in self.changes for batch in reading.read(change)]
            return writing.write(pa.Table.from_batches(batches, _CHANGES), None)
        read: HoodieData = engine.generate(self.changes, reading, _CHANGES)
        written = read.route(_GROUP, writer.group_count).map_partitions_with_index(writing, _STATS).collect()
        # Tasks of this application packed the values.
        return [pickle.loads(value) for value in written["stat"].to_pylist()] if written is not None else []


@attrs.frozen(eq=False)
class _ReadEntries:
    """Task: the entries that a file group gained and lost, as `_CHANGES`."""

    keys: SliceKeys
    column: str
    group_count: int
    is_by_value: bool

    def __call__(self, task: TaskIdentity, change: FileGroupChange) -> Iterator[pa.RecordBatch]:
        yield from self.read(change)

    def read(self, change: FileGroupChange) -> Iterator[pa.RecordBatch]:
        """See the class."""
        entries_before, entries_after = (self._entries(part) for part in (change.before, change.after))
        for side, other_side, is_lost in (
            (entries_after, entries_before, False),
            (entries_before, entries_after, True),
        ):
            entries = side.filter(pc.invert(pc.is_in(side, value_set=other_side)))
            groups = file_groups_of_keys(entries, self.group_count, by_secondary_key=self.is_by_value)
            columns = [entries, pa.repeat(is_lost, len(entries)), pa.array(groups.astype(np.int32))]
            yield pa.RecordBatch.from_arrays(columns, schema=_CHANGES)

    def _entries(self, file_slice: FileSlice | None) -> pa.Array:
        """The distinct entries of the rows of a slice."""
        if file_slice is None:
            return _NO_ENTRIES
        keys = self.keys
        reading = HoodieFileGroupReader(
            HoodieReaderContext(keys.storage, keys.schema, [RECORD_KEY_META, self.column], keys.merging), file_slice
        )
        parts = [_NO_ENTRIES]
        for batch in reading.iter_batches():
            record_keys, values = (pc.cast(batch.column(place), pa.string()) for place in range(2))
            parts.append(secondary_index_keys(values, record_keys))
        return pa.concat_arrays(parts).unique()


@attrs.frozen(eq=False)
class _WriteEntries:
    """Task: writes the files of those file groups of the index whose changes it gets; yields packed statistics."""

    writer: MetadataFileGroupWriter
    partition_path: str
    column: str

    def __call__(self, task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found = pa.Table.from_batches([batch for batch in batches if batch.num_rows], _CHANGES)
        stats = self.write(found, task.write_token)
        yield pa.record_batch([pa.array([pickle.dumps(stat) for stat in stats], pa.binary())], schema=_STATS)

    def write(self, changes: pa.Table, write_token: str | None) -> list[HoodieWriteStat]:
        """Write the entries that follow from changes.

        Args:
            changes: All changes of the file groups in it (`_CHANGES`).
            write_token: See `MetadataFileGroupWriter.write`.

        Raises:
            HoodieKeyException: A value together with its record key is too long.
        """
        stats = []
        for number in sorted(pc.unique(changes[_GROUP]).to_pylist()):
            rows = changes.filter(pc.equal(changes[_GROUP], number)).combine_chunks()
            is_lost = rows[_IS_LOST]
            gained = _one(rows.filter(pc.invert(is_lost))[_ENTRY]).unique()
            lost = _one(rows.filter(is_lost)[_ENTRY]).unique()
            lost = lost.filter(pc.invert(pc.is_in(lost, value_set=gained)))
            check_key_sizes(
                gained,
                f"the index {self.partition_path} of the column {self.column} holds values together with record keys",
                f"Store a hash of such values in a column of its own, and index that; client.drop_index"
                f"({self.partition_path.removeprefix(INDEX_TYPE + '_')!r}) drops the index, if it is there",
            )
            entries = attrs.evolve(secondary_index_entries(self.partition_path, gained), deleted_keys=lost)
            if not entries.is_empty:
                stats.append(self.writer.write(number, entries, write_token))
        return stats


def _one(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([_NO_ENTRIES, *column.chunks])
