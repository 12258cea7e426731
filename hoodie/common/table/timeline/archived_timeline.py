"""Instants that have left the active timeline: read from the log files of ``.hoodie/archived`` (timeline layout 1).

Each file of the archive holds one Avro record per instant and state. The records are the instants' former contents.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from hoodie.avro.timeline_metadata import decode_datums, decode_heads
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.timeline.archived_entry import ROLLING_STAT
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.io.log.avro_block import avro_datums
from hoodie.io.log.log_block import HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.storage.storage import FileStatus, HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

T = TypeVar("T")

_MAX_LISTINGS = 5
_HEAD_FIELDS = ("commitTime", "actionType", "actionState")
"""The fields of an entry that identify its instant; a reader of only these skips the contents."""


@attrs.frozen
class ArchivedEntry:
    """One record of an archive file, still encoded."""

    schema: str = attrs.field(repr=False)
    datum: bytes = attrs.field(repr=False)
    source: str


@attrs.frozen(slots=False, repr=False)
class HoodieArchivedTimeline(HoodieTimeline):
    """The archived instants, each once in the highest state that was archived, and their contents.

    Contents stay encoded until they are read. An archiver that dies leaves a torn block. Reading skips it with a
    warning: its instants are still in the active timeline.

    Hudi: org.apache.hudi.common.table.timeline.HoodieArchivedTimeline. Differs: one instant per time and action, where
    Hudi has one per archived state.
    """

    _entries: Mapping[HoodieInstant, ArchivedEntry] = attrs.field(factory=dict, kw_only=True, eq=False)

    @classmethod
    def load(
        cls,
        storage: HoodieStorage,
        meta_path: str,
        archive_folder: str,
        layout: TimelineLayout,
        newest_files: int | None = None,
    ) -> HoodieArchivedTimeline:
        """Read the archive of a table; a table that was never archived has an empty one.

        While an archiver works, or after it died, an instant can be in both timelines: a caller that combines them must
        count it once.

        Args:
            storage: The storage of the table.
            meta_path: The table's ``.hoodie`` folder.
            archive_folder: The archive's folder in it (``hoodie.archivelog.folder``).
            layout: The table's timeline layout.
            newest_files: The number of files to read, the newest ones; None reads all.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """

        def read(paths: Sequence[str]) -> dict[HoodieInstant, ArchivedEntry]:
            return _read_files(storage, paths[-newest_files:] if newest_files is not None else paths)

        entries = _read_while_merged(storage, join(meta_path, archive_folder), layout, read)
        return cls(tuple(entries), entries=entries)

    def read_entry(self, instant: HoodieInstant) -> dict[str, Any]:
        """An instant's whole archived record: the fields of Hudi's ``HoodieArchivedMetaEntry``, name to value.

        Args:
            instant: An instant of this timeline.

        Raises:
            HoodieIOException: The instant is not in the archive.
            HoodieCorruptedDataException: Its record is damaged.
        """
        entry = self._entry(instant)
        return decode_datums(entry.schema, [entry.datum], entry.source)[0]

    def completion_time(self, instant: HoodieInstant) -> str:
        """The completion time of an instant, as its archiver stored it; without one, its request time.

        Args:
            instant: An instant of this timeline.

        Raises:
            HoodieIOException: The instant is not in the archive.
            HoodieCorruptedDataException: Its record is damaged.
        """
        entry = self._entry(instant)
        (head,) = decode_heads(entry.schema, [entry.datum], ["stateTransitionTime"], entry.source)
        return head["stateTransitionTime"] or instant.requested_time

    def read_commit_metadata(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        """The metadata of a commit, delta commit or replace commit.

        The archive does not keep everything: event times, run times and the fields of log files are missing.

        Args:
            instant: An instant of this timeline.

        Returns:
            The metadata, a `HoodieReplaceCommitMetadata` for a completed replace commit.

        Raises:
            HoodieIOException: The instant is not in the archive.
            HoodieException: Its action has no commit metadata.
            HoodieCorruptedDataException: Its record is damaged.
        """
        source = self._entry(instant).source
        record = self.read_entry(instant)
        if instant.action.completed_action is Action.REPLACE_COMMIT:
            replaced = record.get("hoodieReplaceCommitMetadata")
            if replaced is not None:
                return HoodieReplaceCommitMetadata.from_value(_prepare(replaced), source)
            return HoodieCommitMetadata.from_value(_prepare(record.get("HoodieInflightReplaceMetadata")), source)
        if instant.action.completed_action in (Action.COMMIT, Action.DELTA_COMMIT):
            return HoodieCommitMetadata.from_value(_prepare(record.get("hoodieCommitMetadata")), source)
        raise HoodieException(f"Cannot read commit metadata of {instant}: an action {instant.action} has none")

    @classmethod
    def find_metadata(
        cls, storage: HoodieStorage, folder: str, layout: TimelineLayout, keys: Sequence[str]
    ) -> dict[HoodieInstant, dict[str, str]]:
        """Find values in the extra metadata of all archived commits, with one file of the archive at a time in memory.

        Args:
            storage: The storage of the table.
            folder: Full path of the archive.
            layout: The table's timeline layout.
            keys: Keys of the extra metadata, or beginnings of keys, which end with a dot; commits without any of them
                are left out.

        Returns:
            Completed commit -> key -> value, in no order.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        wanted = [key.encode() for key in keys]

        def read(paths: Sequence[str]) -> dict[HoodieInstant, dict[str, str]]:
            found: dict[HoodieInstant, dict[str, str]] = {}
            for path in paths:
                for instant, entry in read_archive_file(storage, path):
                    # Avro stores text unchanged, so most records need not be decoded.
                    is_commit = instant.is_completed and instant.action.completed_action in COMMIT_ACTIONS
                    if not is_commit or not any(key in entry.datum for key in wanted):
                        continue
                    one = HoodieArchivedTimeline((instant,), entries={instant: entry})
                    extra = one.read_commit_metadata(instant).extra_metadata
                    if chosen := chosen_metadata(extra, keys):
                        found[instant] = chosen
            return found

        return _read_while_merged(storage, folder, layout, read)

    def _entry(self, instant: HoodieInstant) -> ArchivedEntry:
        entry = self._entries.get(instant)
        if entry is None:
            raise HoodieIOException(f"Cannot read the archived content of {instant}: it is not in the archive")
        return entry


def chosen_metadata(extra_metadata: Mapping[str, str], keys: Sequence[str]) -> dict[str, str]:
    """The part of a commit's extra metadata that some keys name.

    Args:
        extra_metadata: The extra metadata.
        keys: Keys, or beginnings of keys, which end with a dot.
    """
    beginnings = tuple(key for key in keys if key.endswith("."))
    return {key: text for key, text in extra_metadata.items() if key in keys or key.startswith(beginnings)}


def archive_files(storage: HoodieStorage, folder: str, layout: TimelineLayout) -> list[FileStatus]:
    """The files of an archive in the order in which they were written.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        layout: The table's timeline layout.

    Raises:
        HoodieIOException: Storage failed.
    """
    numbered = []
    for status in storage.list_directory(folder):
        number = layout.archive_file_number(status.name)
        if number is not None and not status.is_directory:
            numbered.append((number, status.path, status))
    return [status for _, _, status in sorted(numbered)]


def _read_while_merged(
    storage: HoodieStorage, folder: str, layout: TimelineLayout, read: Callable[[Sequence[str]], T]
) -> T:
    """Read the files of an archive, and again if a writer merged some of them meanwhile."""
    for attempt in range(1, _MAX_LISTINGS + 1):
        try:
            return read([status.path for status in archive_files(storage, folder, layout)])
        except FileNotFoundError as error:
            if attempt == _MAX_LISTINGS:
                raise HoodieIOException(f"files of the archive {folder} vanish while it is read") from error
            logger.info("files of the archive %s were merged meanwhile: %s", folder, error)
    raise AssertionError("unreachable")


def _read_files(storage: HoodieStorage, paths: Iterable[str]) -> dict[HoodieInstant, ArchivedEntry]:
    newest: dict[tuple[str, Action], tuple[HoodieInstant, ArchivedEntry]] = {}
    for path in paths:
        for instant, entry in read_archive_file(storage, path):
            if instant.key not in newest or newest[instant.key][0].state <= instant.state:
                newest[instant.key] = instant, entry
    return dict(newest.values())


def read_archive_file(storage: HoodieStorage, path: str) -> Iterator[tuple[HoodieInstant, ArchivedEntry]]:
    """The entries of one file of the archive: instants in each archived state, and their encoded contents.

    Args:
        storage: The storage of the table.
        path: The file.

    Raises:
        FileNotFoundError: The file has been merged into another one meanwhile.
        HoodieCorruptedDataException: The file is damaged. (A torn block is skipped with a warning.)
    """
    data = storage.read(path)
    for block in read_log_blocks(data, path):
        if block.block_type is HoodieLogBlockType.CORRUPT:
            logger.warning(
                "Archive file %s is torn at byte %d: %d bytes are left out",
                path,
                block.offset_bytes,
                len(block.content),
            )
        elif block.block_type is HoodieLogBlockType.AVRO_DATA:
            yield from _read_block(block)


def _read_block(block: HoodieLogBlock) -> Iterator[tuple[HoodieInstant, ArchivedEntry]]:
    if block.schema is None:
        raise HoodieCorruptedDataException(f"Cannot read {block.source}: it has no schema")
    datums = avro_datums(block)
    heads = decode_heads(block.schema, datums, _HEAD_FIELDS, block.source)
    for head, datum in zip(heads, datums, strict=True):
        instant = _instant(head, block)
        if instant is not None:
            yield instant, ArchivedEntry(block.schema, datum, f"the record of {instant} in {block.path}")


def _instant(head: Mapping[str, Any], block: HoodieLogBlock) -> HoodieInstant | None:
    requested_time, action, state = head["commitTime"], head["actionType"], head["actionState"]
    if not requested_time or not action:
        raise HoodieCorruptedDataException(f"Cannot read {block.source}: an entry names no instant: {dict(head)}")
    try:
        return HoodieInstant(requested_time, Action(action), State.COMPLETED if state is None else State[state])
    except (ValueError, KeyError):
        logger.warning("Left out an entry of %s: action %s, state %s are not known", block.source, action, state)
        return None


def _prepare(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Commit metadata of an entry, without the key that the archiver added and with the field that it dropped."""
    if metadata is None:
        return {}
    extra = {key: value for key, value in (metadata.get("extraMetadata") or {}).items() if key != ROLLING_STAT}
    is_compacted = metadata.get("operationType") == WriteOperationType.COMPACT
    return {"compacted": is_compacted, **metadata, "extraMetadata": extra}
