"""A table as a `pyarrow.dataset.Dataset`, for DuckDB, polars and other tools that query datasets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from hoodie.common.data.expression_tree import columns_of, parse_expression
from hoodie.common.model.file_slice import HoodieBaseFile
from hoodie.exception import HoodieException, HoodieNotSupportedException
from hoodie.io.parquet.parquet_fragments import StorageHandler, parquet_format
from hoodie.query.arrow_reader import count, scan
from hoodie.query.planner import narrowed
from hoodie.query.read_plan import ReadPlan
from hoodie.query.table_query import Filters
from hoodie.storage.storage import HoodieStorage

Columns = Sequence[str] | Mapping[str, pc.Expression] | None


class _HeldFiles(StorageHandler):
    """The storage of a dataset whose files cannot be scanned by themselves: it opens no file."""

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Refuse to open a file.

        Raises:
            HoodieException: Always.
        """
        raise HoodieException(
            "this dataset has a filter, is an incremental query, or merges log files with base files, and pyarrow "
            f"scans its file {path} alone: call to_table() or scanner() of the dataset itself, instead of a union of "
            "datasets, Scanner.from_dataset or acero; get_fragments() gives the files with all their rows, if there "
            "are no log files"
        )

    open_input_stream = open_input_file


class HoodieDataset(ds.FileSystemDataset):  # type: ignore[misc]
    """The rows of a read plan as a dataset.

    Filters select the same rows as those of `hoodie.read_table`: file statistics never decide about NaN and zeros, and
    columns of older files come in the table's types.

    Args:
        plan: The plan of the read.
    """

    def __init__(self, plan: ReadPlan) -> None:
        self.plan = plan
        can_scan_files = plan.row_filter is None and plan.log_merging is None
        self._open(plan.base_files, plan.result_schema, plan.snapshot.storage, can_scan_files=can_scan_files)

    def _open(
        self, files: Sequence[HoodieBaseFile], schema: pa.Schema, storage: HoodieStorage, *, can_scan_files: bool
    ) -> None:
        filesystem = fs.PyFileSystem((StorageHandler if can_scan_files else _HeldFiles)(storage))
        super().__init__(_fragments(files, filesystem), schema, parquet_format(), filesystem)

    def __reduce__(self) -> tuple[Any, ...]:
        return HoodieDataset, (self.plan,)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.plan!r}>"

    def filter(self, expression: Filters) -> HoodieDataset:
        """The dataset with a filter on top of its present ones."""
        return self if expression is None else HoodieDataset(narrowed(self.plan, None, expression))

    def replace_schema(self, schema: pa.Schema) -> HoodieDataset:
        """The dataset with the columns of a schema, which must have the table's types.

        Raises:
            HoodieException: A type differs from the table's.
        """
        for field in schema:
            index = self.schema.get_field_index(field.name)
            if index < 0 or self.schema.field(index).type != field.type:
                raise HoodieException(
                    f"replace_schema: {field.name} {field.type} is not a column of the table: cast the result instead"
                )
        return HoodieDataset(narrowed(self.plan, schema.names, None))

    def get_fragments(self, filter: Filters = None) -> Iterator[ds.Fragment]:
        """The base files that may hold rows of a filter. Their rows are not filtered.

        Raises:
            HoodieNotSupportedException: The plan has log files: base files without them would show old rows.
        """
        plan = narrowed(self.plan, None, filter)
        if plan.log_files:
            raise HoodieNotSupportedException(
                f"{plan.base_path} has log files, such as {plan.log_files[0].path}, whose rows are merged with those "
                "of base files, so its fragments are not its rows: call to_table(), to_batches() or scanner(); or "
                "read the base files alone with query_type='read_optimized'; or compact the table first"
            )
        yield from _fragments(plan.base_files, fs.PyFileSystem(StorageHandler(plan.snapshot.storage)))

    def scanner(self, columns: Columns = None, filter: Filters = None, **options: Any) -> ds.Scanner:
        """A scan of the rows.

        Args:
            columns: Names, or new names with expressions; None for all.
            filter: A condition on rows.
            options: Options of `pyarrow.dataset.Dataset.scanner`; only ``batch_size`` has an effect.
        """
        if not isinstance(columns, Mapping):
            return _scanner(scan(narrowed(self.plan, columns, filter)), options)
        trees = [parse_expression(expression) for expression in columns.values()]
        needed = {name for tree in trees if tree is not None for name in columns_of(tree)}
        # A batch without columns would lose its number of rows.
        names = self.schema.names if None in trees else [n for n in self.schema.names if n in needed]
        plan = narrowed(self.plan, names or self.schema.names[:1], filter)
        return _scanner(scan(plan), options, dict(columns))

    def to_batches(self, columns: Columns = None, filter: Filters = None, **options: Any) -> Iterator[pa.RecordBatch]:
        """The rows as batches; see `scanner`."""
        yield from self.scanner(columns, filter, **options).to_batches()

    def to_table(self, columns: Columns = None, filter: Filters = None, **options: Any) -> pa.Table:
        """The rows in memory; see `scanner`."""
        return self.scanner(columns, filter, **options).to_table()

    def count_rows(self, filter: Filters = None, **options: Any) -> int:
        """The number of rows; without a filter, only footers are read."""
        return count(narrowed(self.plan, None, filter))

    def head(self, num_rows: int, columns: Columns = None, filter: Filters = None, **options: Any) -> pa.Table:
        """The first rows."""
        return self.scanner(columns, filter, **options).head(num_rows)

    def take(self, indices: Any, columns: Columns = None, filter: Filters = None, **options: Any) -> pa.Table:
        """The rows with the given numbers."""
        return self.scanner(columns, filter, **options).take(indices)

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """The rows sorted, in memory."""
        return ds.dataset(self.to_table().sort_by(sorting, **options))

    def join(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """A join with another dataset, in memory; arguments are those of `pyarrow.dataset.Dataset.join`."""
        return ds.dataset(self.to_table().join(right_dataset.to_table(), *arguments, **options))

    def join_asof(self, right_dataset: ds.Dataset, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """An as-of join, in memory; arguments are those of `pyarrow.dataset.Dataset.join_asof`."""
        return ds.dataset(self.to_table().join_asof(right_dataset.to_table(), *arguments, **options))


def _fragments(files: Sequence[HoodieBaseFile], filesystem: fs.FileSystem) -> list[ds.Fragment]:
    return [parquet_format().make_fragment(file.path, filesystem, file_size=file.size_bytes) for file in files]


def _scanner(
    reader: pa.RecordBatchReader, options: Mapping[str, Any], columns: Mapping[str, pc.Expression] | None = None
) -> ds.Scanner:
    known = {"batch_size": options["batch_size"]} if options.get("batch_size") else {}
    return ds.Scanner.from_batches(reader, columns=columns, **known)
