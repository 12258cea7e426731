"""Writer of the file of one file group of a metadata table: a base file, or a log file of HFile and delete
blocks.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (commit), which uses the handles of all tables.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from typing import Self

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name, parse_base_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.exception import HoodieIOException
from hoodie.io.hfile.block_codec import FAST_LEVEL, SMALL_LEVEL
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.hfile_block_writer import encode_hfile_block
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_log_block
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name, join

logger = logging.getLogger(__name__)

HFILE = ".hfile"
"""The extension of base files of metadata tables."""
_TOKEN = "0-0-0"
_EMPTY_DELETES = bytes.fromhex("000000030000000100")


@attrs.frozen
class MetadataFileGroup:
    """The part of a file group's newest slice that its writer needs.

    Attributes:
        file_id: The file group.
        base_instant_time: The instant of the slice, in the names of its log files in table version 6.
        base_file_name: The name of its base file; None without one.
        log_file_names: The names of its log files, in their order.
        next_version: The version of the next log file.
    """

    file_id: str
    base_instant_time: str
    base_file_name: str | None = None
    log_file_names: tuple[str, ...] = ()
    next_version: int = 1

    @classmethod
    def of(cls, file_slice: FileSlice) -> Self:
        """The newest slice of a stored file group.

        Args:
            file_slice: The newest slice of the file group, with all of its log files.
        """
        base, logs = file_slice.base_file, file_slice.log_files
        return cls(
            file_slice.file_id,
            file_slice.base_instant_time,
            None if base is None else file_name(base.path),
            tuple(log.file_name for log in logs),
            1 + max((log.version for log in logs), default=0),
        )


@attrs.frozen
class MetadataDeltaCommit:
    """A delta commit of a metadata table while its files are written.

    Attributes:
        storage: The storage of the metadata table.
        base_path: The folder of the metadata table.
        instant_time: The delta commit.
        avro_schema: The schema of the records, meta fields included.
        names_log_files: Whether log files are named by it (timeline layout 2), not by their slice.
    """

    storage: HoodieStorage
    base_path: str
    instant_time: str
    avro_schema: str
    names_log_files: bool = True


@attrs.frozen
class MetadataFileGroupWriter:
    """Writes one delta commit's files of a partition; picklable.

    Attributes:
        commit: The delta commit.
        partition_path: The partition.
        groups: The file groups by number, those of all parts of a record index by partitions one after the other.
        is_initial: Whether base files are written, as when a partition is initialised; otherwise log files.
    """

    commit: MetadataDeltaCommit
    partition_path: str
    groups: Sequence[MetadataFileGroup]
    is_initial: bool = False

    def with_new_groups(self, file_ids: Sequence[str]) -> Self:
        """A writer with more file groups after its own. Each of them begins with a log file that holds nothing.

        Args:
            file_ids: The file ids of the new file groups.

        Raises:
            HoodieIOException: Storage failed.
        """
        headers: dict[int, str] = {HeaderMetadataType.INSTANT_TIME: self.commit.instant_time}
        block = encode_log_block(HoodieLogBlockType.DELETE, headers, _EMPTY_DELETES)
        for file_id in file_ids:
            name = make_log_file_name(file_id, self.commit.instant_time, 1, _TOKEN)
            self.commit.storage.create_if_absent(join(self.commit.base_path, self.partition_path, name), block)
        added = [MetadataFileGroup(file_id, self.commit.instant_time) for file_id in file_ids]
        return attrs.evolve(self, groups=(*self.groups, *added))

    @property
    def group_count(self) -> int:
        """The number of file groups, by which keys are hashed."""
        return len(self.groups)

    def write(
        self,
        number: int,
        entries: MetadataEntries,
        write_token: str | None = None,
        *,
        compacted_instants: Sequence[str] = (),
    ) -> HoodieWriteStat:
        """Write the file of a file group.

        Args:
            number: The number of the file group.
            entries: Its records, not empty. A partition that is initialised has no deletes.
            write_token: A part of the file name that no other attempt of the task has; None on the driver. Files of
                failed attempts are deleted before the delta commit is completed.
            compacted_instants: The instants whose blocks a log compaction replaces, ascending.

        Returns:
            The statistics of the file.

        Raises:
            HoodieKeyException: A key cannot be stored.
            HoodieSchemaException: The schema of the metadata table has no field for a record.
            HoodieIOException: Storage failed.
        """
        group, token = self.groups[number], write_token or _TOKEN
        if self.is_initial:
            name = make_base_file_name(group.file_id, token, self.commit.instant_time, HFILE)
            schema = self.commit.avro_schema
            keys, values = entries.encoded(schema, name)
            content = encode_hfile(keys, values, schema, name, level=SMALL_LEVEL)
            self._create(name, content)
            return HoodieWriteStat(
                file_id=group.file_id,
                partition_path=self.partition_path,
                path=join(self.partition_path, name),
                num_writes=len(keys),
                num_inserts=len(keys),
                total_write_bytes=len(content),
                file_size_bytes=len(content),
            )
        by_commit = self.commit.names_log_files
        named = self.commit.instant_time if by_commit else group.base_instant_time
        version = 1 if by_commit else group.next_version
        name = make_log_file_name(group.file_id, named, version, token)
        content = self._blocks(entries, compacted_instants)
        self._create(name, content)
        return HoodieWriteStat(
            file_id=group.file_id,
            partition_path=self.partition_path,
            path=join(self.partition_path, name),
            prev_commit=named,
            num_writes=len(entries.keys),
            num_deletes=len(entries.deleted_keys),
            num_update_writes=len(entries.keys),
            total_write_bytes=len(content),
            file_size_bytes=len(content),
            base_file="" if by_commit else group.base_file_name or "",
            log_files=(name,) if by_commit else (*group.log_file_names, name),
            log_version=version,
            log_offset=0,
        )

    def _blocks(self, entries: MetadataEntries, compacted: Sequence[str]) -> bytes:
        schema, instant_time = self.commit.avro_schema, self.commit.instant_time
        blocks = []
        if len(entries.keys):
            keys, values = entries.encoded(schema)
            blocks.append(
                encode_hfile_block(keys, values, schema, instant_time, level=FAST_LEVEL, compacted_instants=compacted)
            )
        if len(entries.deleted_keys):
            paths = pa.repeat(self.partition_path, len(entries.deleted_keys))
            deleted = entries.deleted_keys
            blocks += encode_delete_blocks(deleted, paths, None, schema, instant_time, compacted_instants=compacted)
        return b"".join(blocks)

    def _create(self, name: str, content: bytes) -> None:
        path = join(self.commit.base_path, self.partition_path, name)
        if not self.commit.storage.create_if_absent(path, content):
            raise HoodieIOException(f"Cannot write {path}: there is such a file already, of another writer")


def delete_other_base_files(
    storage: HoodieStorage,
    folder: str,
    instant_time: str,
    kept: Collection[str],
    check: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Delete the base files of an instant that do not count: those of attempts that failed or lost.

    Args:
        storage: The table's storage.
        folder: Full path of a partition of the metadata table.
        instant_time: The instant.
        kept: The names of the files that count.
        check: Called before each deletion; raises where the lock was lost.

    Returns:
        The names and sizes of the files that count and are there.

    Raises:
        HoodieIOException: Storage failed.
    """
    found = {}
    for status in storage.list_directory(folder):
        parsed = parse_base_file_name(status.name)
        if parsed is None or parsed.instant_time != instant_time:
            continue
        if status.name in kept:
            found[status.name] = status.size_bytes
            continue
        check()
        storage.delete_file(status.path)
        logger.info("deleted %s, which an attempt of %s left", status.path, instant_time)
    return found
