"""A source that reads files of JSON, one object a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa

from hoodie.storage.storage import FileStatus
from hoodie.utilities.sources.dfs_source import DfsFileRead, DFSSource, is_compressed, opened, watched
from hoodie.utilities.sources.helpers.file_parts import FilePart, LineNumbers, parts_of_file
from hoodie.utilities.sources.helpers.files_ahead import files_ahead
from hoodie.utilities.sources.helpers.json_decoder import JsonDecoder
from hoodie.utilities.sources.helpers.json_schema_inference import infer_schema
from hoodie.utilities.sources.helpers.known_columns import with_new_columns
from hoodie.utilities.sources.helpers.line_blocks import line_blocks
from hoodie.utilities.sources.source import DecodedBatch, SourceContext


@attrs.frozen(eq=False)
class JsonFileRead(DfsFileRead):
    """Files of JSON that one task reads.

    Attributes:
        decoder: Makes rows of lines.
        part: The part to read, of a single file; None for all of all files.
    """

    decoder: JsonDecoder
    part: FilePart | None = None

    def read_file(self, file: FileStatus) -> Iterator[DecodedBatch]:
        """The rows of a file; a line that is no object of the schema is an error. See `DfsFileRead.read_file`."""
        lines = LineNumbers(self.storage, file, self.part)
        with opened(self.storage, file, self.part) as content:
            for block in line_blocks(content, lines.shown_path):
                yield lines.corrected(self.decoder.decode_lines(file.path, int(block.numbers[0]), block.lines))


class JsonDFSSource(DFSSource):
    """Reads files of JSON: a line is an object, empty lines do not matter.

    The columns are those of the schema provider. Without one they are those of the table and new ones, which are found
    by a first reading of the files of the round.

    Args:
        context: The properties, schemas and storage of the run.

    Hudi: org.apache.hudi.utilities.sources.JsonDFSSource.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._decoder: JsonDecoder | None = None

    def choose_schema(self, files: Sequence[FileStatus]) -> pa.Schema:
        """The columns of the provider, or those of the table and new ones; see `DFSSource.choose_schema`."""
        provided = self.provided_schema()
        if provided is not None:
            self._decoder = JsonDecoder(provided)
        else:
            columns = with_new_columns(self.context.load_table_schema(), infer_schema(self._lines_of(files)))
            self._decoder = JsonDecoder.of_columns(columns)
        return self._decoder.schema

    def read_of(self, files: tuple[FileStatus, ...], schema: pa.Schema) -> JsonFileRead:
        """See `DFSSource.read_of`."""
        return JsonFileRead(self.selector.storage, files, schema, self._decoder or JsonDecoder.of_columns(schema))

    def parts_of(self, file: FileStatus, schema: pa.Schema, most_bytes: int) -> Sequence[JsonFileRead]:
        """See `DFSSource.parts_of`."""
        read = self.read_of((file,), schema)
        if is_compressed(file.path):
            return [read]
        return [attrs.evolve(read, part=part) for part in parts_of_file(file, most_bytes)]

    def _lines_of(self, files: Sequence[FileStatus]) -> Iterator[bytes]:
        with files_ahead(self.selector.storage, files) as storage:
            for file in files:
                with watched(storage, file), opened(storage, file) as content:
                    for block in line_blocks(content, file.path):
                        yield from block.lines
