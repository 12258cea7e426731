"""A source that reads Parquet files of folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import attrs
import pyarrow as pa

from hoodie.exception import HoodieReadFromSourceException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import FileStatus
from hoodie.utilities.config.dfs_source_config import ParquetDFSSourceConfig
from hoodie.utilities.sources.dfs_source import BATCH_ROWS, DfsFileRead, DFSSource, watched
from hoodie.utilities.sources.helpers.source_listing import each_at_once
from hoodie.utilities.sources.source import DecodedBatch, SourceContext

_FOOTERS_AT_ONCE = 16
_MERGE_KEY = "hoodie.streamer.source.parquet.dfs.merge.schema.enable"


@attrs.frozen(eq=False)
class ParquetFileRead(DfsFileRead):
    """Parquet files that one task reads.

    Attributes:
        row_groups: The numbers of the row groups to read, of a single file; None for all of all files.
    """

    row_groups: tuple[int, ...] | None = None

    def read_file(self, file: FileStatus) -> Iterator[DecodedBatch]:
        """The rows of a file, in the columns of all; see `DfsFileRead.read_file`."""
        with HoodieParquetReader(self.storage, file.path, size_bytes=file.size_bytes) as reader:
            for batch in reader.iter_batches(None, self.schema, self.row_groups, BATCH_ROWS):
                yield DecodedBatch(batch)


class ParquetDFSSource(DFSSource):
    """Reads Parquet files. Their own columns count; numbers widen where files differ.

    Args:
        context: The properties, schemas and storage of the run.

    Hudi: org.apache.hudi.utilities.sources.ParquetDFSSource.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._merges_schema = context.properties.read(ParquetDFSSourceConfig).merges_schema

    def choose_schema(self, files: Sequence[FileStatus]) -> pa.Schema:
        """The columns of all files, or of the first one; see `DFSSource.choose_schema`."""
        threads = _FOOTERS_AT_ONCE if self.selector.storage.is_remote else 1
        schemas = each_at_once(self._schema_of, files if self._merges_schema else files[:1], threads)
        kinds: dict[pa.Schema, str] = {}
        for file, schema in zip(files, schemas, strict=False):
            kinds.setdefault(schema, file.path)
        return unified(kinds)

    def read_of(self, files: tuple[FileStatus, ...], schema: pa.Schema) -> ParquetFileRead:
        """See `DFSSource.read_of`."""
        return ParquetFileRead(self.selector.storage, files, schema)

    def parts_of(self, file: FileStatus, schema: pa.Schema, most_bytes: int) -> list[ParquetFileRead]:
        """Row groups of a large file, together until they are large enough; see `DFSSource.parts_of`."""
        with self._opened(file) as reader:
            sizes = [size for _, size in reader.row_groups]
        parts: list[tuple[int, ...]] = []
        part: tuple[int, ...] = ()
        for number in range(len(sizes)):
            part += (number,)
            if sum(sizes[one] for one in part) >= most_bytes or number == len(sizes) - 1:
                parts.append(part)
                part = ()
        return [ParquetFileRead(self.selector.storage, (file,), schema, one) for one in parts]

    def _schema_of(self, file: FileStatus) -> pa.Schema:
        with self._opened(file) as reader:
            return pa.schema([_without_metadata(field) for field in reader.file_schema])

    @contextmanager
    def _opened(self, file: FileStatus) -> Iterator[HoodieParquetReader]:
        storage = self.selector.storage
        with watched(storage, file), HoodieParquetReader(storage, file.path, size_bytes=file.size_bytes) as reader:
            yield reader


def unified(schemas: dict[pa.Schema, str]) -> pa.Schema:
    """The columns of all files.

    Args:
        schemas: Schema -> a file that has it.

    Raises:
        HoodieReadFromSourceException: A column has types that do not fit each other.
    """
    found: pa.Schema | None = None
    first = ""
    for schema, path in schemas.items():
        if found is None:
            found, first = schema, path
            continue
        try:
            found = pa.unify_schemas([found, schema], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise HoodieReadFromSourceException(
                f"{path} has a column of a type that does not fit the one in {first} or in another file of this round: "
                f"{error}. Nothing was committed. Convert the file; or set {_MERGE_KEY}=false, so that the first file "
                "tells the columns"
            ) from error
    return found if found is not None else pa.schema([])


def _without_metadata(field: pa.Field) -> pa.Field:
    return field.remove_metadata().with_nullable(True)
