"""The records of an expression index: ranges or bloom filters of the values of a function of a column.

An index of ranges has the records of ``column_stats`` and ``partition_stats`` for one column: one for each data file,
and one for each partition, which is the union over its latest files. Readers of Hudi skip partitions without a record.
An index of bloom filters has one for each data file.

A clean keeps up any index. An action that writes data files keeps up those whose values hoodie computes; see
`hoodie.metadata.writer.index_expressions`. All others are dropped before the action is completed; see
`hoodie.metadata.writer.lost_indexes`.

Hudi: org.apache.hudi.metadata.index.expression.ExpressionIndexer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_converters import to_arrow
from hoodie.avro.service_metadata import HoodieCleanMetadata
from hoodie.exception import HoodieIndexException
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.records.bloom_filter_records import deleted_bloom_filter_entries, filter_entries
from hoodie.metadata.records.column_stats_records import (
    FileColumnRanges,
    column_stats_entries,
    deleted_column_stats_entries,
    partition_stats_entries,
)
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.metadata.records.metadata_keys import column_stats_prefix, partition_stats_keys
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType
from hoodie.metadata.records.metadata_records import MetadataPayload
from hoodie.metadata.writer.expression_values import ExpressionReader, FileExpressionValues, FilterForm
from hoodie.metadata.writer.file_statistics import DataFile, cleaned_files, read_by_batches, written_files
from hoodie.metadata.writer.index_expressions import BLOOM_FILTERS, IndexExpression, UnknownValuesError
from hoodie.metadata.writer.latest_files import ChangedPartitions, latest_files
from hoodie.metadata.writer.partition_indexer import (
    CommittedChange,
    EntriesOnDriver,
    IndexingContext,
    InitialRecords,
    MetadataPartitionIndexer,
    PartitionRecords,
)
from hoodie.metadata.writer.partition_stats_indexer import may_complete_later
from hoodie.storage.storage import FileStatus

_V1, _V2 = 8, 9
"""The table versions whose form the statistics have under definitions of version V1 and V2."""


class ExpressionIndexIndexer(MetadataPartitionIndexer):
    """Computes the records of an expression index, whose expression its definition names.

    Memory: the records of the files of an action; for ranges, also those of the latest files of its partitions.
    """

    def initial(
        self, context: IndexingContext, files: Mapping[str, Sequence[FileStatus]], instant_time: str
    ) -> InitialRecords:
        """See `MetadataPartitionIndexer.initial`. Only an index that was set aside is built.

        Raises:
            UnknownValuesError: hoodie does not know its values.
        """
        latest = [file for found in latest_files(context, files).values() for file in found]
        contents = _Contents.of(context, self._definition(context), context.table.load_schema())
        found = contents.read(latest, _sizes_of(files))
        entries = [contents.file_entries(found, instant_time)]
        if contents.filter_form is None:
            entries.append(contents.partition_entries(contents.rows_of(found), is_tight=True))
        group_count = MetadataPartitionType.EXPRESSION_INDEX.default_group_count or 1
        return InitialRecords(group_count, EntriesOnDriver(MetadataEntries.joined(entries)))

    def of_commit(self, context: IndexingContext, change: CommittedChange) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_commit`."""
        try:
            return EntriesOnDriver(self.entries_of(context, change))
        except UnknownValuesError as error:
            raise HoodieIndexException(f"{self.partition_path} of {context.table.base_path}: {error}") from error

    def of_clean(self, context: IndexingContext, clean: HoodieCleanMetadata, instant_time: str) -> PartitionRecords:
        """See `MetadataPartitionIndexer.of_clean`."""
        definition, files = context.definitions[self.partition_path], cleaned_files(clean)
        version = context.table.table_config.table_version
        if definition.index_type == BLOOM_FILTERS:
            deleted = deleted_bloom_filter_entries(files, instant_time, version)
        else:
            deleted = deleted_column_stats_entries(files, definition.source_fields, version)
        return EntriesOnDriver(attrs.evolve(deleted, partition_path=self.partition_path))

    def entries_of(self, context: IndexingContext, change: CommittedChange) -> MetadataEntries:
        """The records of an action that wrote files; they are computed once.

        Args:
            context: The table without the action.
            change: The action.

        Raises:
            UnknownValuesError: hoodie does not know the values of the files that it wrote.
            HoodieException: A file is missing or damaged, or storage failed.
        """
        found = change.found.get(self.partition_path)
        if not isinstance(found, MetadataEntries):
            change.found[self.partition_path] = found = self._computed(context, change)
        return found

    def _computed(self, context: IndexingContext, change: CommittedChange) -> MetadataEntries:
        definition, written = self._definition(context), written_files(change.metadata)
        avro_schema = change.metadata.schema
        schema = context.table.load_schema() if avro_schema is None else to_arrow(avro_schema)
        try:
            contents = _Contents.of(context, definition, schema)
        except UnknownValuesError:
            if written:
                raise
            # Files that are replaced hide nothing: the ranges of their partitions are wider than need be.
            payload = (
                MetadataPayload.BLOOM_FILTER if definition.index_type == BLOOM_FILTERS else MetadataPayload.COLUMN_STATS
            )
            return MetadataEntries.none(self.partition_path, payload)
        sizes = {
            (stat.partition_path, str(stat.path).rpartition("/")[2]): stat.file_size_bytes
            for stat in change.metadata.write_stats
        }
        found = contents.read(written, sizes)
        entries = contents.file_entries(found, change.instant_time)
        if contents.filter_form is not None:
            return entries
        return MetadataEntries.joined([entries, contents.partitions_after(change, found)])

    def _definition(self, context: IndexingContext) -> HoodieIndexDefinition:
        found = context.definitions.get(self.partition_path)
        if found is None:
            raise UnknownValuesError("it has no definition")
        return found


@attrs.frozen(eq=False)
class _Contents:
    """The contents of one index.

    Attributes:
        context: The table.
        partition_path: The partition of the index.
        expression: Its expression.
        stats_version: 8 or 9: the form of ranges.
        filter_form: The form of filters; None for an index of ranges.
    """

    context: IndexingContext
    partition_path: str
    expression: IndexExpression
    stats_version: int
    filter_form: FilterForm | None

    @classmethod
    def of(cls, context: IndexingContext, definition: HoodieIndexDefinition, schema: pa.Schema) -> _Contents:
        """The contents of the index of a definition; see `IndexExpression.of` and `FilterForm.of`."""
        expression = IndexExpression.of(definition, schema)
        form = FilterForm.of(definition, context.index_config) if expression.is_bloom_filter else None
        return cls(context, definition.name, expression, _V2 if definition.is_hashed_by_value else _V1, form)

    @property
    def column(self) -> str:
        """The column."""
        name: str = self.expression.field.name
        return name

    def read(self, files: Sequence[DataFile], sizes: Mapping[DataFile, int]) -> list[FileExpressionValues]:
        """The values of files, on the driver or by tasks; files without rows are left out.

        Raises:
            UnknownValuesError: The values of a file are not known.
        """
        own_sizes = {file: sizes[file] for file in files}
        reader = ExpressionReader.of(
            self.context.table, self.expression, own_sizes, self.stats_version, self.filter_form
        )
        found = [one for part in read_by_batches(files, reader, self.context.engine) for one in part]
        unknown = next((one for one in found if one.unknown), None)
        if unknown is not None:
            raise UnknownValuesError(f"{unknown.unknown} ({'/'.join(unknown.file)})")
        return [one for one in found if one.row_count]

    def file_entries(self, found: Sequence[FileExpressionValues], instant_time: str) -> MetadataEntries:
        """The records of files."""
        if self.filter_form is None:
            entries = column_stats_entries(_ranges_of(found), self.stats_version)
        else:
            types = [self.filter_form.type_code] * len(found)
            filters = [one.bloom_filter for one in found]
            entries = filter_entries([one.file for one in found], types, instant_time, filters)
        return attrs.evolve(entries, partition_path=self.partition_path)

    def rows_of(self, found: Sequence[FileExpressionValues]) -> tuple[pa.Array, pa.RecordBatch]:
        """The partition of each file (string), and the ranges."""
        paths = pa.array([one.file[0] for one in found], pa.string())
        return paths, column_stats_entries(_ranges_of(found), self.stats_version).rows

    def partition_entries(self, *parts: tuple[pa.Array, pa.RecordBatch], is_tight: bool) -> MetadataEntries:
        """The records of partitions; see `rows_of` for the parts."""
        paths = pa.concat_arrays([path for path, _ in parts])
        rows = pa.Table.from_batches([rows for _, rows in parts]).combine_chunks().to_batches()
        stats = rows[0] if rows else parts[0][1]
        entries = partition_stats_entries(paths, stats, is_tight=is_tight, of_expression=True)
        return attrs.evolve(entries, partition_path=self.partition_path)

    def partitions_after(self, change: CommittedChange, found: Sequence[FileExpressionValues]) -> MetadataEntries:
        """The records of the partitions that an action changed: unions over the latest files after it.

        Args:
            change: The action.
            found: The values of the files that it wrote.

        Raises:
            UnknownValuesError: The values of an older file are not stored, and not known.
        """
        changed = ChangedPartitions.listed(self.context, change)
        paths = list(changed.files)
        latest = [file for files in changed.latest_after(paths).values() for file in files]
        written = set(written_files(change.metadata))
        stored = self._stored(paths, [file for file in latest if file not in written])
        known = {*zip(stored[0].to_pylist(), stored[1].column("file_name").to_pylist(), strict=True), *written}
        unread = [file for file in latest if file not in known]
        read = self.read(unread, _sizes_of(changed.files)) if unread else []
        own = [one for one in found if one.file in set(latest)]
        hides_older = not may_complete_later(self.context, change)
        entries = self.partition_entries(stored, self.rows_of([*own, *read]), is_tight=hides_older)
        if not hides_older:
            # A delete would hide the records of the older write as well. Ranges that are too wide do no harm.
            return entries
        keys = partition_stats_keys(
            pa.repeat(pa.scalar(self.column, pa.string()), len(paths)), pa.array(paths, pa.string()), of_expression=True
        )
        keys_without_rows = keys.filter(pc.invert(pc.is_in(keys, value_set=entries.keys)))
        return attrs.evolve(entries, deleted_keys=keys_without_rows)

    def _stored(self, paths: Sequence[str], files: Sequence[DataFile]) -> tuple[pa.Array, pa.RecordBatch]:
        """The stored ranges of files; see `rows_of`."""
        metadata, schema = self.context.metadata, MetadataPayload.COLUMN_STATS.schema
        if metadata is None or not files:
            return pa.array([], pa.string()), pa.RecordBatch.from_pylist([], schema=schema)
        prefixes = [column_stats_prefix(self.column, path) for path in paths]
        table = metadata.with_partitions(metadata.read_records(self.partition_path, prefixes=prefixes), paths)
        places = pc.binary_join_element_wise(table.column("partition_path"), table.column("file_name"), "/")
        wanted = pa.array(["/".join(file) for file in files], pa.string())
        table = table.filter(pc.is_in(places, value_set=wanted)).combine_chunks()
        batches = table.to_batches()
        batch = batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)
        return batch.column(0), pa.RecordBatch.from_arrays(batch.columns[1:], schema=schema)


def _ranges_of(found: Iterable[FileExpressionValues]) -> list[FileColumnRanges]:
    return [FileColumnRanges(*one.file, (one.column_range,)) for one in found if one.column_range is not None]


def _sizes_of(files: Mapping[str, Sequence[FileStatus]]) -> dict[DataFile, int]:
    return {(path, status.name): status.size_bytes for path, listed in files.items() for status in listed}
