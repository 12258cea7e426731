"""A source that reads Avro object container files of folders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.avro.container_file import ContainerFile
from hoodie.avro.schema_converters import remove_meta_columns, to_avro
from hoodie.avro.schema_resolution import resolved_columns
from hoodie.exception import HoodieReadFromSourceException, HoodieSchemaException
from hoodie.storage.storage import FileStatus
from hoodie.utilities.sources.dfs_source import DfsFileRead, DFSSource, opened, watched
from hoodie.utilities.sources.helpers.source_listing import each_at_once
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin, SourceContext

_HEADERS_AT_ONCE = 16


@attrs.frozen(eq=False)
class AvroFileRead(DfsFileRead):
    """Avro files that one task reads.

    Attributes:
        avro_schema: The schema to read all files as, as JSON of an Avro record.
    """

    avro_schema: str

    def read_file(self, file: FileStatus) -> Iterator[DecodedBatch]:
        """The rows of a file, in the columns of all; a damaged block is an error. See `DfsFileRead.read_file`."""
        count = 0
        with opened(self.storage, file) as content:
            for rows in ContainerFile(content).rows(self.avro_schema):
                numbers = np.arange(count + 1, count + 1 + len(rows))
                count += len(rows)
                yield DecodedBatch(rows, origin=RowOrigin(numbers, file=file.path))


class AvroDFSSource(DFSSource):
    """Reads Avro object container files, each with the schema that it was written with.

    The columns are those of the schema provider; without one, those of the files of the round.

    Args:
        context: The properties, schemas and storage of the run.

    Hudi: org.apache.hudi.utilities.sources.AvroDFSSource. Differs: it needs no schema provider.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._avro_schema = ""

    def choose_schema(self, files: Sequence[FileStatus]) -> pa.Schema:
        """The columns of the provider, or of the files; see `DFSSource.choose_schema`."""
        provided = self.provided_schema()
        self._avro_schema = self._schema_of_files(files) if provided is None else remove_meta_columns(provided)
        return resolved_columns(self._avro_schema)

    def read_of(self, files: tuple[FileStatus, ...], schema: pa.Schema) -> AvroFileRead:
        """See `DFSSource.read_of`."""
        return AvroFileRead(self.selector.storage, files, schema, self._avro_schema)

    def _schema_of_files(self, files: Sequence[FileStatus]) -> str:
        threads = _HEADERS_AT_ONCE if self.selector.storage.is_remote else 1
        found = dict(zip(each_at_once(self._schema_of, files, threads), (file.path for file in files), strict=True))
        if len(found) == 1:
            return remove_meta_columns(next(iter(found)))
        columns: pa.Schema | None = None
        for schema, path in found.items():
            try:
                own = _nullable(resolved_columns(remove_meta_columns(schema)))
                columns = own if columns is None else pa.unify_schemas([columns, own], promote_options="permissive")
            except (pa.ArrowInvalid, pa.ArrowTypeError, HoodieSchemaException) as error:
                raise HoodieReadFromSourceException(
                    f"{path} has a column of a type that does not fit the one in another file of this round: {error}. "
                    "Nothing was committed. Convert the file; or give the columns by --schemaprovider-class"
                ) from error
        return to_avro(columns or pa.schema([]), "avro_record", "hoodie.streamer")

    def _schema_of(self, file: FileStatus) -> str:
        with watched(self.selector.storage, file), opened(self.selector.storage, file) as content:
            return ContainerFile(content).header.schema


def _nullable(columns: pa.Schema) -> pa.Schema:
    """The columns, of which a file may lack some."""
    return pa.schema([field.with_nullable(True) for field in columns])
