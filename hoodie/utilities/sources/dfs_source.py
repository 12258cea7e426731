"""Sources that read the files of folders, whatever is in them.

    selector.select(checkpoint, limit)    the files of the round, and the position after them
    choose_schema(files)                  the columns of all rows
    DfsFileRead(storage, files, schema)   one for each large file, or for some small ones; picklable

A file must stay as it was listed until it was read: it is compared with its listing after it was read. One that was
deleted or replaced, or that is still being written, fails the round; the next one lists the folder again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieReadFromSourceException,
    HoodieSourceTimeoutException,
)
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.utilities.config.dfs_source_config import DFSSourceConfig
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.dfs_path_selector import create_selector, groups_of
from hoodie.utilities.sources.helpers.file_parts import FilePart, LinesOfPart
from hoodie.utilities.sources.helpers.files_ahead import files_ahead
from hoodie.utilities.sources.source import DecodedBatch, InputBatch, RowOrigin, Source, SourceContext, SourceRead

BATCH_ROWS: Final = 20_000
"""Rows of a batch."""
_GROUP_BYTES: Final = 32 << 20
_GROUP_FILES: Final = 500
_CODECS: Final[Mapping[str, str]] = {
    ".gz": "gzip",
    ".gzip": "gzip",
    ".bz2": "bz2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".lz4": "lz4",
    ".br": "brotli",
}
_UNREADABLE: Final = frozenset({".snappy", ".deflate", ".lzo", ".zip", ".xz", ".7z", ".z", ".rar", ".tar", ".tgz"})


@attrs.frozen(eq=False)
class DfsFileRead(SourceRead):
    """Files that one task reads, one after the other.

    Attributes:
        storage: The storage of the files.
        files: The files, as they were listed.
        schema: The columns of all batches.
    """

    storage: HoodieStorage
    files: tuple[FileStatus, ...]
    schema: pa.Schema

    @abstractmethod
    def read_file(self, file: FileStatus) -> Iterator[DecodedBatch]:
        """Make batches of a file, of any number of rows; `opened` gives its bytes.

        Args:
            file: The file. It is compared with its listing after it was read, and after an error.

        Raises:
            HoodieReadFromSourceException: The file is not of this format; any error of Arrow becomes this one.
        """

    def batches(self) -> Iterator[DecodedBatch]:
        """Read the files; see `SourceRead.batches`.

        Raises:
            HoodieReadFromSourceException: A file is not readable.
            HoodieSourceTimeoutException: A file was deleted or replaced, or storage failed.
        """
        yield from gathered(self._batches_of_files(), self.schema)

    def _batches_of_files(self) -> Iterator[DecodedBatch]:
        with files_ahead(self.storage, self.files) as storage:
            reading = attrs.evolve(self, storage=storage)
            for file in self.files:
                with watched(storage, file):
                    yield from reading.read_file(file)


class DFSSource(Source):
    """The base class of sources that read files of folders.

    Args:
        context: The properties, schemas and storage of the run.

    Attributes:
        selector: The selector of files.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self.selector = create_selector(context.properties, context.storage_options)

    @abstractmethod
    def choose_schema(self, files: Sequence[FileStatus]) -> pa.Schema:
        """The columns of all rows of a round.

        Args:
            files: The files of the round; at least one.

        Raises:
            HoodieReadFromSourceException: Files are not readable, or have columns that do not fit each other.
            HoodieSchemaProviderException: The schema cannot be had.
        """

    def provided_schema(self) -> str | None:
        """The schema of the provider, as JSON of an Avro record; None without a provider.

        Raises:
            HoodieSchemaProviderException: The schema cannot be had.
        """
        provider = self.context.schema_provider
        return None if provider is None else provider.load_source_schema()

    @abstractmethod
    def read_of(self, files: tuple[FileStatus, ...], schema: pa.Schema) -> DfsFileRead:
        """The part of a round that reads some files.

        Args:
            files: The files.
            schema: The columns of all rows.
        """

    def parts_of(self, file: FileStatus, schema: pa.Schema, most_bytes: int) -> Sequence[DfsFileRead]:
        """The parts of a round that read a large file on Spark; one if the file cannot be read in parts.

        Args:
            file: The file.
            schema: The columns of all rows.
            most_bytes: The size of a part, about.
        """
        return [self.read_of((file,), schema)]

    def reads_of(self, files: Sequence[FileStatus], schema: pa.Schema) -> list[DfsFileRead]:
        """The parts of a round: one for each large file, or for some small ones; on Spark, several for a large file.

        Args:
            files: The files, from the oldest on.
            schema: The columns of all rows.
        """
        split_bytes = self.context.properties.read(DFSSourceConfig).split_bytes
        is_split = self.context.spark is not None and split_bytes > 0
        reads: list[DfsFileRead] = []
        for is_large, some in groupby(files, lambda file: is_split and file.size_bytes > split_bytes):
            if is_large:
                reads += [read for file in some for read in self.parts_of(file, schema, split_bytes)]
            else:
                reads += [self.read_of(group, schema) for group in groups_of(list(some), _GROUP_BYTES, _GROUP_FILES)]
        return reads

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """Choose the next files; see `Source.fetch`.

        Args:
            checkpoint: The position to read from.
            limit: The most bytes; a first file that is larger is taken all the same.

        Raises:
            HoodieConfigException: The position is not one of a folder.
            HoodieReadFromSourceException: The folder is missing, or files are not readable.
            HoodieSourceTimeoutException: Storage failed.
        """
        with storage_errors(self.selector.root):
            selection = self.selector.select(checkpoint, limit)
            if not selection.files:
                return InputBatch(selection.checkpoint, size_bytes=0, rows=0, backlog=0)
            schema = self.choose_schema(selection.files)
            reads = self.reads_of(selection.files, schema)
        size = selection.size_bytes
        return InputBatch(
            selection.checkpoint,
            reads,
            schema,
            size_bytes=size,
            backlog=selection.left_files,
            details={
                "sourceParallelism": len(reads),
                "sourceBytesToBeIngestedInSyncRound": size,
                "totalSourceBytesAvailable": size + selection.left_bytes,
            },
        )


@contextmanager
def watched(storage: HoodieStorage, file: FileStatus) -> Iterator[None]:
    """The reading of a file, which must be as it was listed afterwards.

    Args:
        storage: The storage of the file.
        file: The file, as it was listed.

    Raises:
        HoodieReadFromSourceException: The file is not readable.
        HoodieSourceTimeoutException: The file was deleted or replaced, or is being written; or storage failed.
    """
    with storage_errors(file.path):
        try:
            yield
        except (HoodieException, pa.ArrowException, OSError, ValueError) as error:
            check_unchanged(storage, file)
            is_storage = isinstance(error, HoodieIOException) and not isinstance(error, HoodieCorruptedDataException)
            if is_storage or isinstance(error, HoodieReadFromSourceException):
                raise
            raise not_readable(file.path, error) from error
        check_unchanged(storage, file)


@contextmanager
def opened(
    storage: HoodieStorage, file: FileStatus, part: FilePart | None = None
) -> Iterator[pa.NativeFile | LinesOfPart]:
    """The bytes of a file from the beginning on, decompressed if its name says so; or of the lines of a part.

    Args:
        storage: The storage of the file.
        file: The file.
        part: The part; None for all. A file that `is_compressed` has none.

    Raises:
        FileNotFoundError: There is no such file.
        HoodieReadFromSourceException: The name tells a compression that is not known.
        HoodieIOException: Storage failed.
    """
    with storage.open_input_stream(file.path) as content, decompressed(content, file.path) as text:
        yield text if part is None else LinesOfPart(text, part)


def is_compressed(path: str) -> bool:
    """Whether a file is compressed by what its name tells, so that it is read from the beginning only.

    Args:
        path: The file.
    """
    return _suffix(path) in _CODECS or _suffix(path) in _UNREADABLE


@contextmanager
def storage_errors(path: str) -> Iterator[None]:
    """Turn failures of a storage into errors of the round that may be tried again.

    Args:
        path: The file or folder, for messages.

    Raises:
        HoodieSourceTimeoutException: Storage failed.
    """
    try:
        yield
    except HoodieCorruptedDataException as error:
        raise not_readable(path, error) from error
    except HoodieIOException as error:
        raise HoodieSourceTimeoutException(f"Reading the source {path} failed: {error}") from error


def check_unchanged(storage: HoodieStorage, file: FileStatus) -> None:
    """Compare a file with its listing.

    Args:
        storage: The storage of the file.
        file: The file, as it was listed.

    Raises:
        HoodieSourceTimeoutException: The file was deleted or replaced, or is being written.
        HoodieIOException: Storage failed.
    """
    found = storage.file_status(file.path)
    if found is None:
        raise _deleted(file)
    # Stores list times in milliseconds, and tell those of a single object in seconds.
    step_ms = 1000 if storage.is_remote else 1
    is_same_time = found.modification_time_ms // step_ms == file.modification_time_ms // step_ms
    if found.size_bytes != file.size_bytes or not is_same_time:
        raise HoodieSourceTimeoutException(
            f"The file {file.path} was replaced or is still being written: it had {file.size_bytes} bytes of time "
            f"{file.modification_time_ms} when it was listed, and has {found.size_bytes} of time "
            f"{found.modification_time_ms} now. Nothing was committed; the next round lists it again. Let producers "
            "write files under a name that begins with '_' and rename them; or set "
            "hoodie.streamer.source.dfs.min.age.ms"
        )


def _deleted(file: FileStatus) -> HoodieSourceTimeoutException:
    return HoodieSourceTimeoutException(
        f"The file {file.path} was deleted after it was listed ({file.size_bytes} bytes), before its rows were "
        "committed. Nothing was committed; the next round lists the folder again, and goes on without the file if it "
        "is not there. Keep source files until a commit has their rows"
    )


def not_readable(path: str, error: object) -> HoodieReadFromSourceException:
    """The error of a file that is not what it should be.

    Args:
        path: The file.
        error: The reason.
    """
    return HoodieReadFromSourceException(
        f"The file {path} is not readable: {error}. Nothing was committed. Correct the file, or move it away, or "
        "rename it so that its name begins with '_'; then run again"
    )


@contextmanager
def decompressed(content: pa.NativeFile, path: str) -> Iterator[pa.NativeFile]:
    """The bytes of a file without the compression that its name tells.

    Args:
        content: The file.
        path: Its path: ``.gz``, ``.bz2``, ``.zst``, ``.lz4`` and ``.br`` are known.

    Raises:
        HoodieReadFromSourceException: The name tells another compression.
    """
    suffix = _suffix(path)
    if suffix in _UNREADABLE:
        raise HoodieReadFromSourceException(
            f"The file {path} is compressed in a way that is not known ({suffix}): compress it with gzip, bzip2, "
            "zstd, lz4 or brotli, or not at all"
        )
    if suffix not in _CODECS:
        yield content
        return
    with pa.CompressedInputStream(content, _CODECS[suffix]) as text:
        yield text


def _suffix(path: str) -> str:
    name = path.rpartition("/")[2].lower()
    return f".{name.rpartition('.')[2]}" if "." in name else ""


@attrs.frozen(eq=False)
class RowsOfFiles(RowOrigin):
    """The places of rows that come from several files.

    Attributes:
        files: The paths.
        file_numbers: The number of each row's file in ``files``.
    """

    files: tuple[str, ...] = ()
    file_numbers: npt.NDArray[np.int32] = attrs.field(factory=lambda: np.empty(0, np.int32))

    def event(self, row: int, reason: ErrorReason, message: str, payload: bytes | str | None) -> ErrorEvent:
        """See `RowOrigin.event`."""
        return ErrorEvent(
            reason, message, payload, file=self.files[self.file_numbers[row]], line=int(self.numbers[row])
        )

    def filter(self, mask: npt.NDArray[np.bool_]) -> RowsOfFiles:
        """See `RowOrigin.filter`."""
        return attrs.evolve(self, numbers=self.numbers[mask], file_numbers=self.file_numbers[mask])


def gathered(batches: Iterable[DecodedBatch], schema: pa.Schema, most_rows: int = BATCH_ROWS) -> Iterator[DecodedBatch]:
    """Batches of about the same number of rows, made of larger and smaller ones, in their order.

    Args:
        batches: The batches.
        schema: The columns of all of them.
        most_rows: The most rows of a batch that is returned; also of its errors.
    """
    held: list[DecodedBatch] = []
    count = 0
    for batch in batches:
        for part in _parted(batch, most_rows):
            size = _length(part)
            if count and count + size > most_rows:
                yield _together(held, schema)
                held, count = [], 0
            held += [part] if size else []
            count += size
    if count:
        yield _together(held, schema)


def _length(batch: DecodedBatch) -> int:
    return len(batch.rows) + (len(batch.errors) if batch.errors is not None else 0)


def _parted(batch: DecodedBatch, most_rows: int) -> Iterator[DecodedBatch]:
    """A batch in pieces; its errors are with the first one."""
    if len(batch.rows) <= most_rows:
        yield batch
        return
    for start in range(0, len(batch.rows), most_rows):
        origin = batch.origin
        if origin is not None:
            origin = attrs.evolve(origin, numbers=origin.numbers[start : start + most_rows])
        errors = batch.errors if start == 0 else None
        yield DecodedBatch(batch.rows.slice(start, most_rows), errors, origin)


def _together(batches: Sequence[DecodedBatch], schema: pa.Schema) -> DecodedBatch:
    if len(batches) == 1:
        return batches[0]
    errors = [batch.errors for batch in batches if batch.errors is not None and len(batch.errors)]
    return DecodedBatch(
        _one_batch([batch.rows for batch in batches], schema),
        _one_batch(errors, errors[0].schema) if errors else None,
        _one_origin([batch.origin for batch in batches]),
    )


def _one_batch(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    found = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return found[0] if found else pa.RecordBatch.from_pylist([], schema=schema)


def _one_origin(origins: Sequence[RowOrigin | None]) -> RowOrigin | None:
    known = [origin for origin in origins if origin is not None]
    if len(known) != len(origins):
        return None
    numbers = np.concatenate([origin.numbers for origin in known])
    files = list(dict.fromkeys(origin.file or "" for origin in known))
    if len(files) == 1:
        return attrs.evolve(known[0], numbers=numbers)
    place = {file: number for number, file in enumerate(files)}
    file_numbers = [np.full(len(origin.numbers), place[origin.file or ""], np.int32) for origin in known]
    return RowsOfFiles(numbers, files=tuple(files), file_numbers=np.concatenate(file_numbers))
