"""Take partitions that are gone out of the history of a table: its timeline and its archive.

Commits, cleans, rollbacks and compactions name the partitions whose files they wrote or deleted, and the path of a
partition is made of values of its rows. What they tell of a partition without files is taken out of their files; all
else stays. Each file is replaced as a whole, under the table's lock: a second call goes on where a first one stopped.

Hudi has nothing like it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator
from typing import Any

import attrs

from hoodie.avro.timeline_metadata import changed_datum, changed_record
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.archived_timeline import archive_files
from hoodie.common.table.timeline.lsm_archive import LsmArchiveWriter
from hoodie.exception import HoodieCorruptedDataException, HoodieNotSupportedException
from hoodie.io.log.avro_block import avro_datums
from hoodie.io.log.log_block import HoodieLogBlockType
from hoodie.io.log.log_block_writer import encode_avro_data_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

_AVRO_MAGIC = b"Obj\x01"
_BY_PARTITION = frozenset(
    {
        "partitionToWriteStats", "partitionToReplaceFileIds", "partitionToCompactionWriteStats", "partitionMetadata",
        "bootstrapPartitionMetadata", "filesToBeDeletedPerPartition", "filePathsToBeDeletedPerPartition",
    }
)  # fmt: skip
"""Fields with a map from the path of a partition."""
_PARTITIONS = "partitionsToBeDeleted"
_PARTITION = "partitionPath"
_EXTRA = "extraMetadata"
Change = Callable[[Any], Any]


@attrs.frozen
class HistoryErasure:
    """The history of a table, for the process that holds the table's lock.

    Attributes:
        table: The table, as it is under the lock; no instant is pending.
        check: Called right before each step that only one process may take; raises where the lock was lost.
    """

    table: TableSnapshot
    check: Callable[[], None]

    def erase(self, choose: Callable[[Collection[str]], Collection[str]]) -> tuple[str, ...]:
        """Take partitions out.

        Args:
            choose: Takes the partitions that the history names, and returns those that are to go: they have no files.

        Returns:
            The partitions that are gone.

        Raises:
            HoodieCorruptedDataException: A file is damaged.
            HoodieNotSupportedException: A file names a file of a partition in a place that hoodie does not know.
            HoodieException: Storage failed, or the lock was lost; call again.
        """
        named: set[str] = set()

        def look(value: Any) -> Any:
            named.update(_partitions_in(value))
            return value

        self._rewrite(look)
        gone = frozenset(choose(named))
        folders = tuple(f"{folder}/" for path in gone for folder in (path, join(self.table.base_path, path)))

        def without(value: Any) -> Any:
            changed = _without(value, gone)
            if left := next((text for text in _texts(changed) if text.startswith(folders)), None):
                raise HoodieNotSupportedException(
                    f"the history of {self.table.base_path} names the file {left} in a place that is not known: it "
                    "stays there, and the partition with it"
                )
            return changed

        if gone:
            self._rewrite(without)
            logger.info("took %d partitions out of the history of %s", len(gone), self.table.base_path)
        if self.table.active_timeline.layout.has_completion_times:
            self._lsm_archive.clean(retained_manifests=1)
        return tuple(sorted(gone))

    def _rewrite(self, change: Change) -> None:
        """Replace each file whose decoded content a function changes."""
        storage, timeline = self.table.storage, self.table.active_timeline
        for status in storage.list_directory(timeline.layout.active_path(timeline.meta_path)):
            if timeline.layout.instant_of(status) is not None:
                self._replace(status.path, lambda content, path: _changed_file(content, change, path))
        if timeline.layout.has_completion_times:
            self._lsm_archive.rewrite(lambda content, path: _changed_file(content, change, path))
            return
        for status in archive_files(storage, self._archive_folder, timeline.layout):
            self._replace(status.path, lambda content, path: _changed_log(content, change, path))

    @property
    def _archive_folder(self) -> str:
        return join(self.table.meta_path, self.table.table_config.archive_folder)

    @property
    def _lsm_archive(self) -> LsmArchiveWriter:
        return LsmArchiveWriter(self.table.storage, self._archive_folder, self.check)

    def _replace(self, path: str, change: Callable[[bytes, str], bytes]) -> None:
        content = self.table.storage.read(path)
        changed = change(content, path)
        if changed != content:
            self.check()
            self.table.storage.replace(path, changed)


def _changed_file(content: bytes, change: Change, path: str) -> bytes:
    """The content of an instant's file after a change."""
    if not content:
        return content
    if content.startswith(_AVRO_MAGIC):
        return changed_record(content, change, path)
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise HoodieCorruptedDataException(f"Cannot read {path} as the JSON of a commit: {error}") from error
    changed = change(value)
    return content if changed == value else json.dumps(changed, indent=2).encode()


def _changed_log(content: bytes, change: Change, path: str) -> bytes:
    """A file of the archive of timeline layout 1 after a change."""
    blocks, has_changed = [], False
    for block in read_log_blocks(content, path):
        # A torn block holds nothing that anybody reads, but perhaps a value.
        has_changed |= block.block_type is HoodieLogBlockType.CORRUPT
        if block.block_type is not HoodieLogBlockType.AVRO_DATA or block.schema is None:
            continue
        old = avro_datums(block)
        new = [changed_datum(block.schema, datum, change, block.source) for datum in old]
        has_changed |= new != old
        blocks.append(encode_avro_data_block(block.schema, new))
    return b"".join(blocks) if has_changed else content


def _without(value: Any, gone: Collection[str]) -> Any:
    """A decoded content without what it tells of partitions."""
    if isinstance(value, list):
        return [_without(item, gone) for item in value if not (isinstance(item, dict) and item.get(_PARTITION) in gone)]
    if not isinstance(value, dict):
        return value
    found = {}
    for key, item in value.items():
        if key in _BY_PARTITION and item:
            item = {path: inner for path, inner in item.items() if path not in gone}
        elif key == _PARTITIONS and item:
            item = [path for path in item if path not in gone]
        found[key] = _without(item, gone)
    return found


def _partitions_in(value: Any) -> Iterator[str]:
    """The partitions that a decoded content names."""
    if isinstance(value, list):
        for item in value:
            yield from _partitions_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if (key in _BY_PARTITION or key == _PARTITIONS) and item:
                yield from item
            elif key == _PARTITION and isinstance(item, str):
                yield item
            yield from _partitions_in(item)


def _texts(value: Any) -> Iterator[str]:
    """All texts of a decoded content, but for extra metadata, which is that of users."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key != _EXTRA:
                yield key
                yield from _texts(item)
