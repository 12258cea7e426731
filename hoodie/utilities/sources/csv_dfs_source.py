"""A source that reads CSV files of folders."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import attrs
import numpy as np
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.config.property import properties_of
from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.utilities.config.csv_dfs_source_config import PREFIX, CsvDFSSourceConfig, CsvMode
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.dfs_source import DfsFileRead, DFSSource, is_compressed, opened, watched
from hoodie.utilities.sources.helpers.csv_rows import CsvDecoder, CsvForm, guess_types
from hoodie.utilities.sources.helpers.file_parts import FilePart, LineNumbers, parts_of_file
from hoodie.utilities.sources.helpers.files_ahead import files_ahead
from hoodie.utilities.sources.helpers.line_blocks import LineBlock, ReadableFile, is_utf8, line_blocks
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, RowOrigin, SourceContext

logger = logging.getLogger(__name__)

_SEPARATORS: Final = ",;\t|"
_WITHOUT_EFFECT: Final = ("samplingRatio", "maxColumns", "maxCharsPerColumn")


@attrs.frozen
class CsvFiles:
    """The way from files to lines and names of columns. Picklable.

    Attributes:
        form: The form of the files.
        encoding: Their encoding.
        comment: The beginning of lines to pass over; empty for none.
        has_header: Whether the first line of each file names its columns.
        names: The columns of all files, in their order; None if the files tell them.
    """

    form: CsvForm
    encoding: str
    comment: bytes
    has_header: bool
    names: tuple[str, ...] | None = None

    @property
    def can_be_parted(self) -> bool:
        """Whether an end of a line is always one of a row, in bytes."""
        return self.form.line_quote is None and is_utf8(self.encoding)

    @contextmanager
    def opened(
        self, storage: HoodieStorage, file: FileStatus, part: FilePart | None = None
    ) -> Iterator[tuple[list[str], Iterator[LineBlock]]]:
        """The names of the columns of a file, and its rows; no name if the file has no row.

        Args:
            storage: The storage of the file.
            file: The file.
            part: The part whose rows are wanted; None for all. The numbers of its lines begin with 1.

        Raises:
            HoodieReadFromSourceException: The header is not one.
            HoodieIOException: Storage failed.
        """
        if part is not None and part.start > 0:
            lines = LineNumbers(storage, file, part)
            names, number = self._first_row(storage, file)
            # A header is the first line, unless comments or blank lines are before it.
            header = number - lines.before if self.has_header and number > 1 else 0
            with opened(storage, file, part) as content:
                yield names, _without_line(self._blocks(content, lines.shown_path), header)
            return
        with opened(storage, file, part) as content:
            blocks = self._blocks(content, file.path)
            first = next(blocks, None)
            if first is None:
                yield [], iter(())
                return
            names = list(self.names or ())
            if not names:
                names = self._named_by(first.lines[0], file.path)
            if self.has_header:
                first = LineBlock(first.lines[1:], first.numbers[1:])

            def rest() -> Iterator[LineBlock]:
                if first.lines:
                    yield first
                yield from blocks

            yield names, rest()

    def _first_row(self, storage: HoodieStorage, file: FileStatus) -> tuple[list[str], int]:
        """The names of the columns of a file, and the line that tells them; no name if the file has no row."""
        with opened(storage, file) as content:
            first = next(self._blocks(content, file.path), None)
            if first is None:
                return [], 0
            return list(self.names or self._named_by(first.lines[0], file.path)), int(first.numbers[0])

    def _blocks(self, content: ReadableFile, path: str) -> Iterator[LineBlock]:
        """The lines that are rows: neither blank nor a comment."""
        for block in line_blocks(content, path, self.encoding, self.form.line_quote):
            kept = [
                place
                for place, line in enumerate(block.lines)
                if line.strip() and not (self.comment and line.startswith(self.comment))
            ]
            if len(kept) == len(block.lines):
                yield block
            elif kept:
                yield LineBlock([block.lines[place] for place in kept], block.numbers[kept])

    def _named_by(self, line: bytes, path: str) -> list[str]:
        try:
            values = self.form.values_of(line)
        except pa.ArrowInvalid as error:
            raise HoodieReadFromSourceException(
                f"The first line of {path} is no row of CSV: {error}. Correct it, or move the file away"
            ) from error
        if not self.has_header:
            return [f"_c{number}" for number in range(len(values))]
        names = [value.strip() for value in values]
        wrong = sorted({name for name in names if names.count(name) > 1 or not name})
        if wrong:
            raise HoodieReadFromSourceException(
                f"The header of {path} has {', '.join(map(repr, wrong))} twice, or columns without a name. Correct it; "
                f"or name the columns by a schema, and give {PREFIX}enforceSchema=true"
            )
        return names


@attrs.frozen(eq=False)
class CsvFileRead(DfsFileRead):
    """CSV files that one task reads.

    Attributes:
        csv: The way to their lines.
        mode: The fate of lines that are no rows.
        part: The part to read, of a single file; None for all of all files.
    """

    csv: CsvFiles
    mode: CsvMode = CsvMode.PERMISSIVE
    part: FilePart | None = None

    def read_file(self, file: FileStatus) -> Iterator[DecodedBatch]:
        """The rows of a file; a line that does not fit the columns is an error. See `DfsFileRead.read_file`."""
        dropped = 0
        lines = LineNumbers(self.storage, file, self.part)
        with self.csv.opened(self.storage, file, self.part) as (names, blocks):
            decoder = CsvDecoder(self.csv.form, names, self.schema)
            for block in blocks:
                found = decoder.decode(block.lines)
                origin = RowOrigin(block.numbers[found.positions], file=file.path)
                events = [
                    ErrorEvent(
                        ErrorReason.INVALID_RECORD_SCHEMA,
                        reason,
                        block.lines[position],
                        file=file.path,
                        line=int(block.numbers[position]),
                    )
                    for position, reason in found.failures
                ]
                if events and self.mode is CsvMode.FAILFAST:
                    first = attrs.evolve(events[0], line=(events[0].line or 0) + lines.before)
                    raise HoodieReadFromSourceException(
                        f"{first.place}: {first.message} ({PREFIX}mode=FAILFAST). Nothing was committed"
                    )
                if self.mode is CsvMode.DROPMALFORMED:
                    dropped += len(events)
                    events = []
                yield lines.corrected(DecodedBatch(found.rows, error_batch(events), origin))
        if dropped:
            logger.warning("%s: %d lines that fit no row were dropped (%smode)", file.path, dropped, PREFIX)


class CsvDFSSource(DFSSource):
    """Reads CSV files, by Spark's options ``hoodie.streamer.csv.*``.

    The columns are those of the schema provider. Without one they are those of the table, and new ones whose types all
    rows of the round tell.

    Args:
        context: The properties, schemas and storage of the run.

    Raises:
        HoodieConfigException: An option is not known, not supported or wrong.

    Hudi: org.apache.hudi.utilities.sources.CsvDFSSource. Differs: lines that do not fit are errors, not rows of nulls.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        _check_names(context)
        config = context.properties.read(CsvDFSSourceConfig)
        self._config = config
        self._csv = CsvFiles(CsvForm.of(config), config.encoding, config.comment.encode(), config.has_header)
        if config.is_multi_line and self._csv.form.escape == "\\":
            raise HoodieConfigException(
                f"{PREFIX}multiLine=true and {PREFIX}escape=\\ are not supported together: double the quotes in "
                "values, or write values without ends of lines"
            )
        for name in _WITHOUT_EFFECT:
            if f"{PREFIX}{name}" in context.properties:
                context.report(f"{PREFIX}{name} has no effect")
        self._is_hinted = False
        if config.mode is CsvMode.PERMISSIVE:
            context.report(f"{PREFIX}mode=PERMISSIVE: lines that do not fit are errors; no value becomes a null")

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `DFSSource.fetch`. Files without a row say nothing about a new table."""
        batch = super().fetch(checkpoint, limit)
        if batch.schema is None or len(batch.schema):
            return batch
        return attrs.evolve(batch, reads=(), schema=None, rows=0)

    def choose_schema(self, files: Sequence[FileStatus]) -> pa.Schema:
        """The columns of the provider, or those of the table and new ones; see `DFSSource.choose_schema`."""
        provided = self.provided_schema()
        if provided is not None:
            schema = to_arrow(provided)
            _refuse_nested(schema)
            if not self._config.has_header or self._config.enforces_schema:
                self._csv = attrs.evolve(self._csv, names=tuple(schema.names))
            else:
                self._check_headers(files, schema)
            return schema
        table = self.context.load_table_schema()
        known = pa.schema([] if table is None else [field for field in table if not pa.types.is_nested(field.type)])
        new = [name for name in self._names_of(files) if known.get_field_index(name) < 0]
        types = dict.fromkeys(new, pa.string()) if not self._config.infers_schema else self._guessed(files, new)
        found = [pa.field(name, pa.string() if pa.types.is_null(types[name]) else types[name]) for name in new]
        return pa.schema([*(field.with_nullable(True) for field in known), *found])

    def read_of(self, files: tuple[FileStatus, ...], schema: pa.Schema) -> CsvFileRead:
        """See `DFSSource.read_of`."""
        return CsvFileRead(self.selector.storage, files, schema, self._csv, self._config.mode or CsvMode.PERMISSIVE)

    def parts_of(self, file: FileStatus, schema: pa.Schema, most_bytes: int) -> Sequence[CsvFileRead]:
        """See `DFSSource.parts_of`."""
        read = self.read_of((file,), schema)
        if is_compressed(file.path) or not self._csv.can_be_parted:
            return [read]
        return [attrs.evolve(read, part=part) for part in parts_of_file(file, most_bytes)]

    def _names_of(self, files: Sequence[FileStatus]) -> list[str]:
        """The columns of all files with rows, in the order in which they first appear."""
        found: dict[str, None] = {}
        for names, blocks in self._opened(files):
            if any(block.lines for block in blocks):
                found |= dict.fromkeys(names)
        return list(found)

    def _guessed(self, files: Sequence[FileStatus], new: Sequence[str]) -> dict[str, pa.DataType]:
        types: dict[str, pa.DataType] = dict.fromkeys(new, pa.null())
        for names, blocks in self._opened(files if new else ()):
            for block in blocks:
                types = guess_types(self._csv.form, names, new, block.lines, types)
        return types

    def _opened(self, files: Sequence[FileStatus]) -> Iterator[tuple[list[str], Iterator[LineBlock]]]:
        """The names of the columns and the rows of each file."""
        with files_ahead(self.selector.storage, files) as storage:
            for file in files:
                with watched(storage, file), self._csv.opened(storage, file) as found:
                    self._hint(file, found[0])
                    yield found

    def _hint(self, file: FileStatus, names: Sequence[str]) -> None:
        """Tell the user once if a header seems to have another separator."""
        if self._is_hinted or not self._config.has_header or len(names) != 1:
            return
        separators = [one for one in _SEPARATORS if one in names[0] and one != self._config.separator]
        if separators:
            self._is_hinted = True
            shown = separators[0].replace("\t", "\\t")
            self.context.report(
                f"{file.path}: its header names one column, {names[0]!r}: if {shown} stands between values, give "
                f"'{PREFIX}sep={shown}'"
            )

    def _check_headers(self, files: Sequence[FileStatus], schema: pa.Schema) -> None:
        for file, (names, _) in zip(files, self._opened(files), strict=True):
            if names and not set(names) & set(schema.names):
                raise HoodieReadFromSourceException(
                    f"The header of {file.path} ({', '.join(names[:5])}) names no column of the schema "
                    f"({', '.join(schema.names[:5])}). Correct one of them; or give {PREFIX}enforceSchema=true if "
                    "columns count by their order"
                )


def _without_line(blocks: Iterator[LineBlock], number: int) -> Iterator[LineBlock]:
    """Blocks without the line of a number, if they have it."""
    for block in blocks:
        kept = np.flatnonzero(block.numbers != number)
        if len(kept) == len(block.lines):
            yield block
        elif len(kept):
            yield LineBlock([block.lines[place] for place in kept], block.numbers[kept])


def _refuse_nested(schema: pa.Schema) -> None:
    nested = [field.name for field in schema if pa.types.is_nested(field.type)]
    if nested:
        raise HoodieConfigException(
            f"CSV has no lists, maps and records, and the schema has them in the column {nested[0]}: leave it out, or "
            "read it as text and convert it in a transformer"
        )


def _check_names(context: SourceContext) -> None:
    known = [prop.key.removeprefix(PREFIX) for prop in properties_of(CsvDFSSourceConfig).values()]
    problems = []
    for name in context.properties.under(PREFIX):
        if name not in known:
            nearest = difflib.get_close_matches(name, known, 1, 0)
            problems.append(f"{PREFIX}{name} is no option of CSV; nearest: {PREFIX}{nearest[0]}")
    if problems:
        raise HoodieConfigException("; ".join(problems))
