"""Writer of the file of one file group of a metadata table: a base file, or a log file of HFile and delete
blocks.

Hudi: org.apache.hudi.metadata.HoodieBackedTableMetadataWriter (commit), which uses the handles of all tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.exception import HoodieIOException
from hoodie.io.hfile.block_codec import FAST_LEVEL, SMALL_LEVEL
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.hfile_block import encode_hfile_block
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_log_block
from hoodie.metadata.records.metadata_entries import MetadataEntries
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name, join

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
class MetadataFileGroupWriter:
    """Writes one delta commit's files of a partition; picklable.

    Attributes:
        storage: Where the metadata table is.
        base_path: The folder of the metadata table.
        partition_path: The partition.
        instant_time: The delta commit.
        avro_schema: The schema of the records, meta fields included.
        groups: The file groups by number; those of a partitioned record index part by part.
        is_initial: Whether base files are written, as in the build of a partition; otherwise log files.
        by_commit: Whether log files are named by their delta commit (timeline layout 2), not by their slice.
        write_token: The token of files that are written on the driver; no other attempt has it.
    """

    storage: HoodieStorage
    base_path: str
    partition_path: str
    instant_time: str
    avro_schema: str
    groups: Sequence[MetadataFileGroup]
    is_initial: bool = False
    by_commit: bool = True
    write_token: str = _TOKEN

    def with_new_groups(self, file_ids: Sequence[str]) -> Self:
        """A writer with more file groups after its own. Each of them begins with a log file that holds nothing.

        Args:
            file_ids: The file ids of the new file groups.

        Raises:
            HoodieIOException: Storage failed.
        """
        headers: dict[int, str] = {HeaderMetadataType.INSTANT_TIME: self.instant_time}
        block = encode_log_block(HoodieLogBlockType.DELETE, headers, _EMPTY_DELETES)
        for file_id in file_ids:
            name = make_log_file_name(file_id, self.instant_time, 1, _TOKEN)
            self.storage.create_if_absent(join(self.base_path, self.partition_path, name), block)
        added = [MetadataFileGroup(file_id, self.instant_time) for file_id in file_ids]
        return attrs.evolve(self, groups=(*self.groups, *added))

    @property
    def group_count(self) -> int:
        """The number of file groups, by which keys are hashed."""
        return len(self.groups)

    def write(self, number: int, entries: MetadataEntries, write_token: str | None = None) -> HoodieWriteStat:
        """Write the file of a file group.

        Args:
            number: The number of the file group.
            entries: Its records, not empty. A partition that is being built has no deletes.
            write_token: The token in the name of a task's file, which no other attempt has. Files of a failed attempt
                are deleted before the delta commit is completed.

        Returns:
            The statistics of the file.

        Raises:
            HoodieKeyException: A key cannot be stored.
            HoodieSchemaException: The schema of the metadata table has no field for a record.
            HoodieIOException: Storage failed.
        """
        group, token = self.groups[number], write_token or self.write_token
        if self.is_initial:
            name = make_base_file_name(group.file_id, token, self.instant_time, HFILE)
            keys, values = entries.encoded(self.avro_schema, name)
            content = encode_hfile(keys, values, self.avro_schema, name, level=SMALL_LEVEL)
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
        name_time = self.instant_time if self.by_commit else group.base_instant_time
        version = 1 if self.by_commit else group.next_version
        name = make_log_file_name(group.file_id, name_time, version, token)
        content = self._blocks(entries)
        self._create(name, content)
        return HoodieWriteStat(
            file_id=group.file_id,
            partition_path=self.partition_path,
            path=join(self.partition_path, name),
            prev_commit=name_time,
            num_writes=len(entries.keys),
            num_deletes=len(entries.deleted_keys),
            num_update_writes=len(entries.keys),
            total_write_bytes=len(content),
            file_size_bytes=len(content),
            base_file="" if self.by_commit else group.base_file_name or "",
            log_files=(name,) if self.by_commit else (*group.log_file_names, name),
            log_version=version,
            log_offset=0,
        )

    def _blocks(self, entries: MetadataEntries) -> bytes:
        blocks = []
        if len(entries.keys):
            keys, values = entries.encoded(self.avro_schema)
            blocks.append(encode_hfile_block(keys, values, self.avro_schema, self.instant_time, level=FAST_LEVEL))
        if len(entries.deleted_keys):
            paths = pa.repeat(self.partition_path, len(entries.deleted_keys))
            blocks += encode_delete_blocks(entries.deleted_keys, paths, None, self.avro_schema, self.instant_time)
        return b"".join(blocks)

    def _create(self, name: str, content: bytes) -> None:
        path = join(self.base_path, self.partition_path, name)
        if not self.storage.create_if_absent(path, content):
            raise HoodieIOException(f"Cannot write {path}: there is such a file already, of another writer")
