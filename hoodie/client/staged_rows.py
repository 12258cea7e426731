"""Rows that tasks put aside in files, for one process that writes them to a table.

Each attempt of a task writes a file of its own, whose name nobody else has. The process reads exactly the files that it
is told, so attempts that failed or ran twice add no rows. A file is an Arrow stream.

The folder is below the table's ``.hoodie/.temp``, where markers are: rollbacks, cleans and the archive, of hoodie and
of Hudi, take folders there only by the names of instants. Where there is no table yet, it is in a folder of its own
beside ``.hoodie``: a folder ``.hoodie`` without properties would look like a damaged table.
"""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import attrs
import pyarrow as pa

from hoodie.common.table.marker.write_markers import TEMP_FOLDER_NAME
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_clock import is_older
from hoodie.storage.storage_path import METAFOLDER_NAME, join, parent
from hoodie.storage.written_file import written_file

logger = logging.getLogger(__name__)

_PREFIX: Final = "staged-"
_SUFFIX: Final = ".arrow"
_NAME: Final = re.compile(rf"{_PREFIX}[0-9a-f]{{32}}")
_NEW_TABLE_FOLDER: Final = ".hoodie_staged"
_ABANDONED_MS: Final = 24 * 3600 * 1000
"""The age of the newest file of a folder above which its write counts as dead."""


@attrs.frozen
class StagedFile:
    """Rows of one attempt of a task.

    Attributes:
        path: The file.
        num_rows: The number of rows.
        num_bytes: Their size in memory.
    """

    path: str
    num_rows: int
    num_bytes: int


@attrs.frozen
class StagingFolder:
    """The folder of one write. It is made by its first file.

    Attributes:
        storage: The table's storage.
        path: The folder.
    """

    storage: HoodieStorage
    path: str

    @classmethod
    def new(cls, storage: HoodieStorage, base_path: str, *, is_table: bool) -> StagingFolder:
        """A folder that no other write has.

        Args:
            storage: The table's storage.
            base_path: The table.
            is_table: Whether the table exists.
        """
        return cls(storage, join(_folders(base_path)[0 if is_table else 1], _PREFIX + uuid.uuid4().hex))

    def write(self, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> StagedFile | None:
        """Put the rows of a task aside; called in tasks.

        Args:
            batches: The rows.
            schema: The schema of each batch.

        Returns:
            The file; None if there are no rows.

        Raises:
            HoodieIOException: Storage failed.
        """
        batches = (batch for batch in batches if batch.num_rows)
        first = next(batches, None)
        if first is None:
            return None
        path = join(self.path, uuid.uuid4().hex + _SUFFIX)
        num_rows = num_bytes = 0
        options = pa.ipc.IpcWriteOptions(compression="lz4")
        try:
            with (
                written_file(self.storage, path) as stream,
                pa.ipc.new_stream(stream, schema, options=options) as writer,
            ):
                for batch in chain([first], batches):
                    num_rows += batch.num_rows
                    num_bytes += batch.nbytes
                    writer.write_batch(batch)
        except BaseException:
            self._delete_quietly(path)
            raise
        return StagedFile(path, num_rows, num_bytes)

    def _delete_quietly(self, path: str) -> None:
        try:
            self.storage.delete_file(path)
        except (HoodieException, OSError) as error:
            logger.warning("the staged file %s was not deleted: %s", path, error)


def read_staged(storage: HoodieStorage, files: Sequence[StagedFile], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of some files, one batch in memory at a time. The first batch has no rows: it shows the columns.

    Args:
        storage: The table's storage.
        files: The files.
        schema: The schema of each batch.

    Raises:
        HoodieCorruptedDataException: A file is cut short or damaged.
        HoodieIOException: A file is not there, or storage failed.
    """
    yield pa.RecordBatch.from_pylist([], schema=schema)
    for file in files:
        num_rows = 0
        try:
            with storage.open_input_stream(file.path) as source, pa.ipc.open_stream(source) as reader:
                for batch in reader:
                    num_rows += batch.num_rows
                    yield batch
        except FileNotFoundError as error:
            raise HoodieIOException(
                f"the staged rows {file.path} are gone: somebody deleted them while they were being written to the "
                "table; nothing was committed. Write again"
            ) from error
        except HoodieException:
            raise
        except (pa.ArrowException, OSError) as error:
            raise HoodieCorruptedDataException(
                f"the staged rows {file.path} cannot be read ({error}); nothing was committed. Write again"
            ) from error
        if num_rows != file.num_rows:
            raise HoodieCorruptedDataException(
                f"the staged file {file.path} has {num_rows} of {file.num_rows} rows; nothing was committed. Write "
                "again"
            )


def delete_staged(
    storage: HoodieStorage, base_path: str, folders: Iterable[str], *, folder_is_new: bool = False
) -> None:
    """Delete the folders of a write. A failure is logged: it changes nothing about the write.

    Args:
        storage: The table's storage.
        base_path: The table.
        folders: The folders.
        folder_is_new: Whether to delete the table's folder too, if it is empty.
    """
    try:
        for folder in sorted({*folders}):
            storage.delete_directory(folder)
        storage.delete_empty_directory(_folders(base_path)[1])
        if folder_is_new:
            storage.delete_empty_directory(base_path)
    except (HoodieException, OSError) as error:
        logger.warning("staged rows of %s were not deleted, a later write will do it: %s", base_path, error)


def delete_abandoned(storage: HoodieStorage, base_path: str) -> None:
    """Delete what killed writes left more than a day ago. A failure is logged.

    Args:
        storage: The table's storage.
        base_path: The table.
    """
    try:
        for folder in _folders(base_path):
            for entry in storage.list_directory(folder):
                if not entry.is_directory or _NAME.fullmatch(entry.name) is None:
                    continue
                files = storage.list_files(entry.path)
                if not all(file.name.endswith(_SUFFIX) for file in files):
                    # It is not of a write: a partition of the table may have such a path.
                    continue
                newest = max(files or [entry], key=lambda file: file.modification_time_ms)
                if is_older(storage, newest, _ABANDONED_MS):
                    logger.warning("deleting %s, which a write left that ended more than a day ago", entry.path)
                    storage.delete_directory(entry.path)
    except (HoodieException, OSError) as error:
        logger.warning("staged rows that were left at %s were not deleted: %s", base_path, error)


def folder_of(file: StagedFile) -> str:
    """The folder of a file's write."""
    return parent(file.path)


def _folders(base_path: str) -> tuple[str, str]:
    """The folders of staged rows: for writes to a table, and for writes that create one."""
    return join(base_path, METAFOLDER_NAME, TEMP_FOLDER_NAME), join(base_path, _NEW_TABLE_FOLDER)
