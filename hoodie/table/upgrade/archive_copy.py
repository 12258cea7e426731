"""The archive of one timeline layout, written again as that of another layout, beside it.

Memory: the times of all archived instants, and the contents of `_HELD_BYTES` of them.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import attrs
import pyarrow as pa

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.archived_entry import completed_content
from hoodie.common.table.timeline.archived_timeline import (
    ArchivedEntry,
    HoodieArchivedTimeline,
    archive_files,
    read_archive_file,
)
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import is_after, newest
from hoodie.common.table.timeline.lsm_archive import LsmArchiveWriter, LsmEntry
from hoodie.common.table.timeline.lsm_manifest import newest_manifest
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage
from hoodie.table.action.archive.archive_files import LogArchiveFiles
from hoodie.table.upgrade.completion_order import CompletedInstant

logger = logging.getLogger(__name__)

_HELD_BYTES = 64 << 20
_ROWS_AT_ONCE = 64
_HEAD = pa.schema([("instantTime", pa.string()), ("completionTime", pa.string()), ("action", pa.string())])
_ROW = pa.schema([*_HEAD, ("metadata", pa.binary())])
_Key = tuple[str, Action]


@attrs.frozen
class ArchiveCopy(ABC):
    """Copies the completed instants of an archive.

    Attributes:
        storage: The storage of the table.
        source: Full path of the archive that is read.
        source_layout: Its layout.
        target: Full path of the archive that is written.
        target_layout: Its layout.
        check: Called right before each step that only one process may take.
    """

    storage: HoodieStorage
    source: str
    source_layout: TimelineLayout
    target: str
    target_layout: TimelineLayout
    check: Callable[[], None]

    @abstractmethod
    def completed(self) -> list[CompletedInstant]:
        """The completed instants of the archive, each once, with their times of completion as far as they are known.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """

    @abstractmethod
    def write(self, times: Mapping[_Key, str], skipped: Collection[_Key]) -> int:
        """Write the instants to the other archive, as far as it lacks them; call `completed` first.

        Args:
            times: Their completion times.
            skipped: Instants that are left out, because the active timeline still has them.

        Returns:
            How many there are in the other archive.

        Raises:
            HoodieCorruptedDataException: A file of an archive is damaged.
            HoodieIOException: Storage failed.
        """


@attrs.frozen
class HistoryOfArchive(ArchiveCopy):
    """Log files (layout 1) become Parquet files of ``history`` (layout 2)."""

    # Where the entry of each instant is that counts: the last one.
    _places: dict[_Key, tuple[str, int]] = attrs.field(init=False, factory=dict)

    def completed(self) -> list[CompletedInstant]:
        """See `ArchiveCopy.completed`."""
        found: dict[_Key, CompletedInstant] = {}
        for place, instant, entry in self._entries():
            one = HoodieArchivedTimeline((instant,), entries={instant: entry})
            found[instant.key] = CompletedInstant(instant, one.completion_time(instant))
            self._places[instant.key] = place
        return list(found.values())

    def write(self, times: Mapping[_Key, str], skipped: Collection[_Key]) -> int:
        """See `ArchiveCopy.write`."""
        writer = LsmArchiveWriter(self.storage, self.target, self.check)
        held: list[LsmEntry] = []
        size_bytes = count = 0
        for place, instant, entry in self._entries():
            if instant.key in skipped or self._places.get(instant.key) != place:
                continue
            action = instant.action.completed_action
            held.append(
                LsmEntry(instant.requested_time, times[instant.key], action, self._content(instant, entry), plan=None)
            )
            count += 1
            size_bytes += held[-1].size_bytes
            if size_bytes >= _HELD_BYTES:
                writer.append(held)
                held, size_bytes = [], 0
        if held:
            writer.append(held)
        return count

    def _entries(self) -> Iterator[tuple[tuple[str, int], HoodieInstant, ArchivedEntry]]:
        """Completed instants with their places; archives can hold an instant several times."""
        for status in archive_files(self.storage, self.source, self.source_layout):
            for number, (instant, entry) in enumerate(read_archive_file(self.storage, status.path)):
                if instant.is_completed:
                    yield (status.path, number), instant, entry

    def _content(self, instant: HoodieInstant, entry: ArchivedEntry) -> bytes | None:
        if instant.action.completed_action in COMMIT_ACTIONS:
            one = HoodieArchivedTimeline((instant,), entries={instant: entry})
            return self.target_layout.encode(one.read_commit_metadata(instant))
        return completed_content(instant, entry.schema, entry.datum, entry.source)


@attrs.frozen
class ArchiveOfHistory(ArchiveCopy):
    """Parquet files of ``history`` (layout 2) become log files (layout 1).

    Attributes:
        archival: Sizes of the blocks.
    """

    archival: HoodieArchivalConfig

    def completed(self) -> list[CompletedInstant]:
        """See `ArchiveCopy.completed`."""
        found: dict[_Key, CompletedInstant] = {}
        for path in self._paths():
            for _, instant, _ in self._rows(path, _HEAD):
                known = found.get(instant.key)
                if known is None or is_after(instant.completion_time or "", known.changed_at):
                    found[instant.key] = CompletedInstant(instant, instant.completion_time or "")
        return list(found.values())

    def write(self, times: Mapping[_Key, str], skipped: Collection[_Key]) -> int:
        """See `ArchiveCopy.write`."""
        done = set(skipped)
        archived = self._archived()
        held: list[bytes] = []
        size_bytes = 0
        files = LogArchiveFiles(self.storage, self.target, self.target_layout, self.archival, self.check)
        files.finish_merge()
        count = 0
        for path in self._paths():
            for row, instant, source in self._rows(path, _ROW):
                if instant.key in done:
                    continue
                done.add(instant.key)
                count += 1
                if instant.key in archived:
                    continue
                held.append(self._encode(instant, row["metadata"], times[instant.key], source))
                size_bytes += len(held[-1])
                if size_bytes >= _HELD_BYTES:
                    files.append(held)
                    held, size_bytes = [], 0
        if held:
            files.append(held)
        return count

    def _paths(self) -> list[str]:
        """The files of the archive, the one with the newest instant last: readers ask the newest files for it."""
        heads = {
            path: newest(instant.requested_time for _, instant, _ in self._rows(path, _HEAD)) or ""
            for path in newest_manifest(self.storage, self.source).paths(self.source)
        }
        return sorted(heads, key=heads.__getitem__)

    def _archived(self) -> set[_Key]:
        """The completed instants that the other archive has: of a time before an upgrade, or of a run that died."""
        return {
            instant.key
            for status in archive_files(self.storage, self.target, self.target_layout)
            for instant, _ in read_archive_file(self.storage, status.path)
            if instant.is_completed
        }

    def _rows(self, path: str, schema: pa.Schema) -> Iterator[tuple[Mapping[str, Any], HoodieInstant, str]]:
        with HoodieParquetReader(self.storage, path) as reader:
            for batch in reader.iter_batches(None, schema, batch_rows=_ROWS_AT_ONCE):
                for row in batch.to_pylist():
                    try:
                        instant = HoodieInstant(
                            row["instantTime"], Action(row["action"]), State.COMPLETED, row["completionTime"]
                        )
                    except ValueError:
                        logger.warning("left out an instant of %s: the action %s is not known", path, row["action"])
                        continue
                    yield row, instant, f"{instant} in {path}"

    def _encode(self, instant: HoodieInstant, content: bytes | None, time: str, source: str) -> bytes:
        if instant.action in COMMIT_ACTIONS:
            if not content:
                raise HoodieCorruptedDataException(f"Cannot read {source}: it has no metadata")
            is_replace = instant.action is Action.REPLACE_COMMIT
            record = HoodieReplaceCommitMetadata if is_replace else HoodieCommitMetadata
            content = self.target_layout.encode(self.source_layout.decode(content, record, source))
        return self.target_layout.encode_archived(instant, content or b"", time, source)
