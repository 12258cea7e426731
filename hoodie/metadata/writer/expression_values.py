"""The contents of an expression index for data files: ranges or bloom filters of the values of its expression.

Hudi: org.apache.hudi.client.utils.SparkMetadataWriterUtils. Differs: nulls and empty texts are left out of bloom
filters, where Hudi's writer fails.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.bloom.bloom_filter import BloomFilter, create_bloom_filter
from hoodie.common.model.column_range import HoodieColumnRange
from hoodie.common.table.table_metadata import map_concurrently
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.committed_log_files import CommittedLogFiles
from hoodie.config.index_config import HoodieIndexConfig
from hoodie.exception import HoodieNotSupportedException
from hoodie.metadata.reader.index_definitions import HoodieIndexDefinition
from hoodie.metadata.reader.stored_column_ranges import united_range
from hoodie.metadata.reader.stored_column_values import PartialRowsError, iter_column_values
from hoodie.metadata.records.column_stats_records import column_ranges_of_rows
from hoodie.metadata.writer.file_statistics import DataFile, is_base_file, merges_whole_rows
from hoodie.metadata.writer.index_expressions import IndexExpression, UnknownValuesError
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join


@attrs.frozen
class FilterForm:
    """The form of the bloom filters of an index.

    Attributes:
        type_code: ``SIMPLE`` or ``DYNAMIC_V0``.
        num_entries: See `hoodie.common.bloom.bloom_filter.create_bloom_filter`.
        fpp: See there.
        max_entries: See there.
    """

    type_code: str
    num_entries: int
    fpp: float
    max_entries: int

    @classmethod
    def of(cls, definition: HoodieIndexDefinition, config: HoodieIndexConfig) -> FilterForm:
        """The form for an index: the options of its definition, and those of the writer for the others.

        Args:
            definition: The definition of the index.
            config: The writer's options of bloom filters.

        Raises:
            UnknownValuesError: The definition has a type or a number that hoodie does not know.
        """
        options = dict(definition.options)
        try:
            form = cls(
                options.get("filtertype", str(config.bloom_filter_type)),
                int(options.get("numentries", config.bloom_num_entries)),
                float(options.get("fpp", config.bloom_fpp)),
                int(options.get("maxentries", config.bloom_dynamic_max_entries)),
            )
            form.create()
        except (ValueError, ArithmeticError, HoodieNotSupportedException) as error:
            raise UnknownValuesError(f"its options describe no bloom filter: {error}") from error
        return form

    def create(self) -> BloomFilter:
        """An empty filter."""
        return create_bloom_filter(self.type_code, self.num_entries, self.fpp, self.max_entries)


@attrs.frozen
class FileExpressionValues:
    """The values of an expression in one data file.

    Attributes:
        file: Partition path and name.
        row_count: The number of its rows.
        column_range: Their range, for an index of ranges.
        bloom_filter: The text of their filter, for an index of bloom filters.
        unknown: The reason why the values are not known; "" if they are.
    """

    file: DataFile
    row_count: int = 0
    column_range: HoodieColumnRange | None = None
    bloom_filter: bytes = b""
    unknown: str = ""


@attrs.frozen
class ExpressionReader:
    """Computes the contents of an index for data files; crosses to tasks.

    Attributes:
        storage: The storage of the table.
        base_path: The table's folder.
        expression: The expression.
        sizes: The size of each file that will be read.
        stats_version: 8 or 9: the form of ranges.
        filter_form: The form of filters; None for an index of ranges.
        has_whole_rows: See `hoodie.metadata.writer.file_statistics.FileStatisticsReader`.
        committed: See there.
    """

    storage: HoodieStorage
    base_path: str
    expression: IndexExpression
    sizes: Mapping[DataFile, int]
    stats_version: int
    filter_form: FilterForm | None
    has_whole_rows: bool
    committed: CommittedLogFiles | None = None

    @classmethod
    def of(
        cls,
        table: TableSnapshot,
        expression: IndexExpression,
        sizes: Mapping[DataFile, int],
        stats_version: int,
        filter_form: FilterForm | None,
    ) -> ExpressionReader:
        """The reader for an index of a table; see the attributes.

        Args:
            table: The table.
            expression: See above.
            sizes: See above.
            stats_version: See above.
            filter_form: See above.
        """
        whole, committed = merges_whole_rows(table), table.committed_log_files
        return cls(table.storage, table.base_path, expression, sizes, stats_version, filter_form, whole, committed)

    def __call__(self, files: Sequence[DataFile]) -> list[FileExpressionValues]:
        """The contents for some files.

        Args:
            files: The files.

        Raises:
            HoodieException: A file is missing or damaged, or storage failed.
        """
        return list(map_concurrently(self._read_file, files))

    def _read_file(self, file: DataFile) -> FileExpressionValues:
        if not self.has_whole_rows and not is_base_file(file):
            return FileExpressionValues(file, unknown="the values of a row may come from several files")
        read = self._range_of if self.filter_form is None else self._filter_of
        try:
            return read(file, self._values_of(file))
        except (UnknownValuesError, PartialRowsError) as error:
            return FileExpressionValues(file, unknown=str(error))

    def _values_of(self, file: DataFile) -> Iterator[pa.Array]:
        path = join(self.base_path, *file)
        for values in iter_column_values(self.storage, path, self.expression.field, self.committed):
            yield self.expression.compute(values)

    def _range_of(self, file: DataFile, values: Iterator[pa.Array]) -> FileExpressionValues:
        name, found = self.expression.field.name, None
        for part in values:
            (own,) = column_ranges_of_rows(pa.table({name: part}), [name], self.stats_version)
            found = own if found is None else united_range(found, own)
        if found is None or not found.value_count:
            return FileExpressionValues(file)
        size = self.sizes[file]
        # Spark counts values, and knows the size of the file only.
        stored = attrs.evolve(
            found,
            value_count=found.value_count - found.null_count,
            total_size=size,
            total_uncompressed_size=2 * size,
        )
        return FileExpressionValues(file, found.value_count, stored)

    def _filter_of(self, file: DataFile, values: Iterator[pa.Array]) -> FileExpressionValues:
        assert self.filter_form is not None
        bloom_filter, row_count = self.filter_form.create(), 0
        for part in values:
            row_count += len(part)
            texts = part.cast(pa.string()).drop_null()
            bloom_filter.add(texts.filter(pc.greater(pc.binary_length(texts), 0)))
        text = bloom_filter.to_base64_bytes() if row_count else b""
        return FileExpressionValues(file, row_count, bloom_filter=bytes(text))
