"""Save what is whole of a damaged log file.

The damaged bytes are replaced by a block that holds nothing and is as long. So the file has the size that its commits
tell, and all readers of Hudi read it::

    before    | whole | torn, or cut off
    after     | whole | holds nothing    |

The damaged file is kept in ``.hoodie/.damaged``. Hudi has nothing like it: it leaves the rows out, and says nothing.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Collection, Iterator, Sequence
from enum import StrEnum

import attrs
import pyarrow as pa

from hoodie.avro.columnar_block import decode_avro_block
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.view.committed_log_files import CommittedBytes, largest_end
from hoodie.common.util.shown_value import shown_value
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import (
    HoodieConfigException,
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
)
from hoodie.io.log.delete_block import decode_delete_block, encode_empty_block
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import MAGIC, HoodieLogFileReader
from hoodie.io.parquet.parquet_bytes import metadata_of_parquet, read_parquet
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_path import METAFOLDER_NAME, check_inside, join
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult, check_flags

logger = logging.getLogger(__name__)

KEPT_FOLDER = ".damaged"
"""The folder in ``.hoodie`` with damaged log files as they were."""
_LENGTH = struct.Struct(">q")
_MOST_COPIES = 100


class LogFilePartState(StrEnum):
    """The fate of some bytes of a damaged log file."""

    SAVED = "saved"
    LOST = "lost"
    UNCOMMITTED = "of no commit"


@attrs.frozen
class LogFilePart:
    """Consecutive bytes of a log file: a block, or what is no block.

    Attributes:
        start_byte: The first byte.
        end_byte: The byte after the last one, or where that was before the file was cut.
        state: Their fate. Bytes that no commit mentions stay as they are.
        holds: The type of the block; "" for bytes that are no whole block.
        instant_time: The instant that wrote it; "" where it is not known.
        records: The rows or deletes that it holds.
    """

    start_byte: int
    end_byte: int
    state: LogFilePartState
    holds: str = ""
    instant_time: str = ""
    records: int = 0


@attrs.frozen(repr=False)
class SalvagedLogFile(RepairResult):
    """The parts of a log file that can be saved, or were saved.

    Attributes:
        path: The file, with its whole path.
        size_bytes: Its size on storage before it was repaired.
        committed_bytes: The size that commits tell.
        parts: Its parts, in order.
        lost_records: The number of committed rows and deletes that are lost, as far as commits tell.
        kept_as: The path of the copy of the damaged file; None after a dry run, and for a file without damage.
        is_dry_run: Whether nothing was changed.
    """

    path: str
    size_bytes: int
    committed_bytes: int
    parts: tuple[LogFilePart, ...]
    lost_records: int = 0
    kept_as: str | None = None
    is_dry_run: bool = True

    @property
    def is_damaged(self) -> bool:
        """Whether bytes are lost that commits tell of."""
        return any(part.state is LogFilePartState.LOST for part in self.parts)

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        sizes = f"{self.path} has {self.size_bytes} bytes, and commits tell of {self.committed_bytes}"
        if not self.is_damaged:
            return f"{sizes}: nothing is damaged"
        saved = [part for part in self.parts if part.state is LogFilePartState.SAVED]
        records = sum(part.records for part in saved)
        verb = "would be" if self.is_dry_run else "are"
        text = (
            f"{sizes}: {len(saved)} blocks with {records} rows and deletes {verb} saved, {self.lost_records} rows "
            f"and deletes {verb} lost"
        )
        return text if self.kept_as is None else f"{text}; the damaged file is kept as {self.kept_as}"

    @property
    def table(self) -> SummaryTable[LogFilePart]:
        """See `RepairResult`."""
        return SummaryTable(LogFilePart, self.parts)


def salvage_log_file(config: HoodieWriteConfig, path: str, *, dry_run: bool = True) -> SalvagedLogFile:
    """Save the whole blocks of a damaged log file; see `BaseHoodieTableServiceClient.salvage_log_file`."""
    check_flags(dry_run=dry_run)
    repaired = RepairedTable.open(config)
    with repaired.lock("salvage of a log file") as (snapshot, _):
        log_file = _log_file_of(snapshot, path)
        return _salvage(snapshot, log_file, is_dry_run=dry_run)


def _salvage(snapshot: TableSnapshot, log_file: HoodieLogFile, *, is_dry_run: bool) -> SalvagedLogFile:
    storage = snapshot.storage
    try:
        data = storage.read(log_file.path)
    except FileNotFoundError as error:
        raise HoodieMissingFileException(f"log file {log_file.path} is missing: there is nothing to save") from error
    commits = snapshot.committed_log_files.bytes_of(log_file)
    last = largest_end(commits)
    committed = (last.end if last is not None else None) or 0
    parts = tuple(_parts(data, log_file.path, commits, committed))
    result = SalvagedLogFile(log_file.path, len(data), committed, parts, _lost_records(commits, parts))
    if is_dry_run or not result.is_damaged:
        return attrs.evolve(result, is_dry_run=is_dry_run)
    content = _whole_content(data, parts, commits, log_file)
    kept = _keep(snapshot, log_file, data)
    storage.replace(log_file.path, content)
    logger.warning("%s", attrs.evolve(result, kept_as=kept, is_dry_run=False).headline)
    return attrs.evolve(result, kept_as=kept, is_dry_run=False)


def _log_file_of(snapshot: TableSnapshot, path: str) -> HoodieLogFile:
    """A log file of records of the table, by its whole path or the one in the table."""
    if not isinstance(path, str):
        raise HoodieConfigException(f"path is {shown_value(path)}: give the path of a log file")
    relative = path.removeprefix(f"{snapshot.base_path.rstrip('/')}/")
    if relative.startswith(f"{METAFOLDER_NAME}/"):
        raise HoodieNotSupportedException(
            f"{path} is a file of {METAFOLDER_NAME}, and only log files of the table itself are salvaged. A metadata "
            "table is built anew instead: write once with hoodie.metadata.enable=false, then with it"
        )
    try:
        check_inside(relative)
    except ValueError as error:
        raise HoodieConfigException(f"{path} is no path in the table {snapshot.base_path}: {error}") from error
    name = parse_log_file_name(relative.rpartition("/")[2])
    if name is None or name.is_archive or name.is_cdc:
        raise HoodieConfigException(f"{path} is not the path of a log file with records; nothing was changed")
    return HoodieLogFile.of(name, FileStatus(join(snapshot.base_path, relative), 0, 0))


def _parts(data: bytes, path: str, commits: Sequence[CommittedBytes], committed: int) -> Iterator[LogFilePart]:
    """The parts of a file, up to its end or that of its commits."""
    ends = {one.end for one in commits if one.end is not None}
    position = 0
    while position < max(len(data), committed):
        found = _block_at(data, path, position, ends) if position < len(data) else None
        end = found[0] if found is not None else _end_of_damage(data, position, committed, ends)
        is_committed = any(position < (one.end or len(data)) and end > one.start for one in commits)
        state = LogFilePartState.LOST if is_committed else LogFilePartState.UNCOMMITTED
        if found is None:
            yield LogFilePart(position, end, state)
        else:
            _, block, records = found
            state = LogFilePartState.SAVED if is_committed else state
            yield LogFilePart(position, end, state, block.block_type.name, block.instant_time or "", records)
        position = end


def _block_at(data: bytes, path: str, position: int, ends: Collection[int]) -> tuple[int, HoodieLogBlock, int] | None:
    """The end of the block that begins at a byte, the block, and its records; None if there is no whole block."""
    if not data.startswith(MAGIC, position):
        return None
    reader = HoodieLogFileReader(pa.BufferReader(pa.py_buffer(data).slice(position)), path)
    try:
        stored = next(reader.stored_blocks({end - position for end in ends}), None)
        if stored is None or stored.block_type is HoodieLogBlockType.CORRUPT:
            return None
        block = attrs.evolve(reader.read(stored), offset_bytes=position)
        records = _records_of(block)
    except (HoodieCorruptedDataException, HoodieNotSupportedException, HoodieIOException) as error:
        logger.info("%s", error)
        return None
    start = position + len(MAGIC)
    return start + _LENGTH.size + int(_LENGTH.unpack_from(data, start)[0]), block, records


def _end_of_damage(data: bytes, position: int, committed: int, ends: Collection[int]) -> int:
    """The byte at which the next block may begin: the next magic, or the end of a commit."""
    magic = data.find(MAGIC, position + 1)
    found = magic if magic >= 0 else max(len(data), committed)
    return min([found, *(end for end in ends if position < end)])


def _records_of(block: HoodieLogBlock) -> int:
    """The rows or deletes of a block, all of which are decoded."""
    if block.block_type is HoodieLogBlockType.DELETE:
        return sum(len(part.record_keys) for part in decode_delete_block(block))
    if block.block_type is HoodieLogBlockType.PARQUET_DATA:
        schema = metadata_of_parquet(block.content, block.source).schema.to_arrow_schema()
        return sum(batch.num_rows for batch in read_parquet(block.content, block.source, schema))
    if block.block_type is HoodieLogBlockType.AVRO_DATA:
        if block.schema is None:
            raise HoodieCorruptedDataException(f"Cannot read records of {block.source}: it has no schema")
        return int(decode_avro_block(block.content, block.schema, source=block.source).num_rows)
    return 0


def _lost_records(commits: Sequence[CommittedBytes], parts: Sequence[LogFilePart]) -> int:
    """The number of records that commits wrote and that are not saved."""
    times = {one.instant.requested_time for one in commits}
    saved = sum(part.records for part in parts if part.instant_time in times and part.state is LogFilePartState.SAVED)
    return max(sum(one.records for one in commits) - saved, 0)


def _whole_content(
    data: bytes, parts: Sequence[LogFilePart], commits: Sequence[CommittedBytes], log_file: HoodieLogFile
) -> bytes:
    """The file with a block that holds nothing in place of what is lost."""
    pieces: list[bytes] = []
    for start, end, is_lost in _joined(parts):
        if not is_lost:
            pieces.append(data[start:end])
            continue
        owner = next(one for one in commits if start < (one.end or len(data)) and end > one.start)
        try:
            pieces.append(encode_empty_block(owner.instant.requested_time, end - start))
        except ValueError as error:
            raise HoodieNotSupportedException(
                f"Cannot salvage {log_file.path}: its bytes {start} to {end} are damaged, and {error}. Restore the "
                "file from a copy, or undo its commits; nothing was changed"
            ) from error
    return b"".join(pieces)


def _joined(parts: Sequence[LogFilePart]) -> Iterator[tuple[int, int, bool]]:
    """Start and end of parts, and whether they are lost; lost ones that follow each other as one."""
    start, end = 0, 0
    is_lost = False
    for part in parts:
        lost = part.state is LogFilePartState.LOST
        if not (lost and is_lost):
            if end > start:
                yield start, end, is_lost
            start, is_lost = part.start_byte, lost
        end = part.end_byte
    if end > start:
        yield start, end, is_lost


def _keep(snapshot: TableSnapshot, log_file: HoodieLogFile, data: bytes) -> str:
    """Save the damaged file; returns its path."""
    relative = log_file.path.removeprefix(f"{snapshot.base_path.rstrip('/')}/")
    path = join(snapshot.meta_path, KEPT_FOLDER, relative.replace(log_file.file_name, log_file.file_name.lstrip(".")))
    for number in range(_MOST_COPIES):
        kept = path if not number else f"{path}.{number}"
        if snapshot.storage.create_if_absent(kept, data) or snapshot.storage.read(kept) == data:
            return kept
    raise HoodieException(f"Cannot salvage {log_file.path}: there are {_MOST_COPIES} copies of it, such as {path}")
