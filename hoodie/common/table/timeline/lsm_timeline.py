"""Instants that have left an active timeline of layout 2: read from the Parquet files of its folder ``history``.

::

    _version_                                       "7": the number of the newest manifest
    manifest_7                                      {"files": [{"fileName": ..., "fileLen": ...}, ...]}
    20260102101530123_20260102111530123_0.parquet   one row for each instant: times, action, contents of its files

Only files that the newest manifest lists count. The times in a file's name do not limit its rows for certain, and an
instant may be in several files.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline, chosen_metadata
from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import newest
from hoodie.common.table.timeline.lsm_manifest import LsmFile, LsmManifest, newest_manifest
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieMissingFileException,
    HoodieSchemaException,
)
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

T = TypeVar("T")

_TIMES = ("instantTime", "completionTime")
_HEAD = (*_TIMES, "action")
_CONTENTS = ("metadata", "plan")
_MAX_READS = 5


@attrs.frozen
class _Place:
    """The file and the row with the contents of an instant."""

    path: str
    row: int


@attrs.frozen(slots=False, repr=False)
class HoodieLsmTimeline(HoodieArchivedTimeline):
    """The archived instants of timeline layout 2, all completed, and their contents.

    Contents are read when they are asked for, with those of all instants of the same file.

    Hudi: org.apache.hudi.common.table.timeline.versioning.v2.{ArchivedTimelineV2, LSMTimeline}.
    """

    _storage: HoodieStorage = attrs.field(kw_only=True, eq=False)
    _folder: str = attrs.field(kw_only=True, eq=False)
    _layout: TimelineLayout = attrs.field(kw_only=True, eq=False)
    _places: Mapping[HoodieInstant, _Place] = attrs.field(factory=dict, kw_only=True, eq=False)
    # The contents of the file that was read last.
    _read: dict[str, list[dict[str, Any]]] = attrs.field(factory=dict, init=False, eq=False)

    @classmethod
    def load(
        cls,
        storage: HoodieStorage,
        meta_path: str,
        archive_folder: str,
        layout: TimelineLayout,
        newest_files: int | None = None,
    ) -> HoodieArchivedTimeline:
        """Read the times and actions of the archived instants; a table that was never archived has none.

        Args:
            storage: The storage of the table.
            meta_path: The table's ``.hoodie`` folder.
            archive_folder: The archive's folder in it.
            layout: The table's timeline layout.
            newest_files: Has no effect: names of files do not tell which are the newest.

        Raises:
            HoodieCorruptedDataException: A file of the archive is damaged.
            HoodieIOException: Storage failed.
        """
        folder = join(meta_path, archive_folder)

        def read(manifest: LsmManifest) -> dict[HoodieInstant, _Place]:
            return _places_in(storage, manifest.paths(folder))

        places = read_while_compacted(storage, folder, read)
        return cls(tuple(places), storage=storage, folder=folder, layout=layout, places=places)

    def read_entry(self, instant: HoodieInstant) -> dict[str, Any]:
        """The contents of an instant: ``metadata``, the content of its completed file, and ``plan``; None for
        empty ones.

        Args:
            instant: An instant of this timeline.

        Raises:
            HoodieIOException: The instant is not in the archive.
            HoodieCorruptedDataException: The file that holds it is damaged.
        """
        place = self._place(instant)
        if place.path not in self._read:
            try:
                rows = _rows_of(self._storage, place.path, _CONTENTS)
            except FileNotFoundError:
                # It was compacted into another file, and cleaned.
                return self._as_it_is_now().read_entry(instant)
            self._read.clear()
            self._read[place.path] = rows
        return self._read[place.path][place.row]

    def completion_time(self, instant: HoodieInstant) -> str:
        """The completion time of an instant.

        Args:
            instant: An instant of this timeline.

        Raises:
            HoodieIOException: The instant is not in the archive.
        """
        self._place(instant)
        return instant.completion_time or instant.requested_time

    def read_commit_metadata(self, instant: HoodieInstant) -> HoodieCommitMetadata:
        """The metadata of a commit, delta commit or replace commit, with the full content of its file.

        Args:
            instant: An instant of this timeline.

        Returns:
            The metadata, a `HoodieReplaceCommitMetadata` for a replace commit.

        Raises:
            HoodieIOException: The instant is not in the archive.
            HoodieException: Its action has no commit metadata.
            HoodieCorruptedDataException: Its contents are damaged.
        """
        if instant.action not in COMMIT_ACTIONS:
            raise HoodieException(f"Cannot read commit metadata of {instant}: an action {instant.action} has none")
        content, source = self.read_entry(instant)["metadata"], f"{instant} in {self._place(instant).path}"
        if not content:
            raise HoodieCorruptedDataException(f"Cannot read {source}: it has no metadata")
        is_replace = instant.action is Action.REPLACE_COMMIT
        record = HoodieReplaceCommitMetadata if is_replace else HoodieCommitMetadata
        return self._layout.decode(content, record, source)

    @classmethod
    def find_metadata(
        cls, storage: HoodieStorage, folder: str, layout: TimelineLayout, keys: Sequence[str]
    ) -> dict[HoodieInstant, dict[str, str]]:
        """See `HoodieArchivedTimeline.find_metadata`."""
        wanted = [key.encode() for key in keys]

        def read(manifest: LsmManifest) -> dict[HoodieInstant, dict[str, str]]:
            found: dict[HoodieInstant, dict[str, str]] = {}
            for path in manifest.paths(folder):
                rows = _rows_of(storage, path, (*_HEAD, "metadata"))
                for instant, row in zip(_instants_of(path, rows), rows, strict=True):
                    content = row["metadata"] or b""
                    # Avro stores text unchanged, so most records need not be decoded.
                    if instant is None or instant.action not in COMMIT_ACTIONS:
                        continue
                    if not any(key in content for key in wanted):
                        continue
                    extra = layout.decode(content, HoodieCommitMetadata, f"{instant} in {path}").extra_metadata
                    if chosen := chosen_metadata(extra, keys):
                        found[instant] = chosen
            return found

        return read_while_compacted(storage, folder, read)

    def _place(self, instant: HoodieInstant) -> _Place:
        place = self._places.get(instant)
        if place is None:
            raise HoodieIOException(f"Cannot read the archived content of {instant}: it is not in the archive")
        return place

    def _as_it_is_now(self) -> HoodieArchivedTimeline:
        meta_path, _, folder = self._folder.rpartition("/.hoodie/")
        return HoodieLsmTimeline.load(self._storage, join(meta_path, ".hoodie"), folder, self._layout)


def archive_of(layout: TimelineLayout) -> type[HoodieArchivedTimeline]:
    """The class that reads the archives of a layout.

    Args:
        layout: The table's timeline layout.
    """
    return HoodieLsmTimeline if layout.has_completion_times else HoodieArchivedTimeline


def read_while_compacted(storage: HoodieStorage, folder: str, read: Callable[[LsmManifest], T]) -> T:
    """Read the files of an archive, and again if a writer compacted and cleaned some of them meanwhile.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        read: Reads the files of a manifest; raises FileNotFoundError for a missing one.

    Raises:
        HoodieCorruptedDataException: A file of the archive is damaged.
        HoodieIOException: Storage failed.
    """
    for attempt in range(1, _MAX_READS + 1):
        try:
            return read(newest_manifest(storage, folder))
        except FileNotFoundError as error:
            if attempt == _MAX_READS:
                raise HoodieIOException(
                    f"files of the archive {folder} vanish while it is read, or are lost: {error}. If a second try "
                    "fails too, restore the file from a copy"
                ) from error
            logger.info("files of the archive %s were compacted meanwhile: %s", folder, error)
    raise AssertionError("unreachable")


def newest_lsm_time(storage: HoodieStorage, folder: str, file: LsmFile) -> str:
    """The greatest requested or completion time of the instants in a file.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive.
        file: A file of it; its footer is read, or two of its columns where that lacks statistics.

    Raises:
        FileNotFoundError: The file has been compacted into another one meanwhile.
        HoodieCorruptedDataException: The file is damaged.
        HoodieIOException: Storage failed.
    """
    path = join(folder, file.name)
    try:
        with HoodieParquetReader(storage, path) as reader:
            largest = [reader.largest_text(name) for name in _TIMES]
    except HoodieMissingFileException as error:
        raise FileNotFoundError(path) from error
    except HoodieSchemaException as error:
        raise HoodieCorruptedDataException(f"{path} is no file of an archived timeline: {error}") from error
    return newest(largest) or file.last


def _places_in(storage: HoodieStorage, paths: Iterable[str]) -> dict[HoodieInstant, _Place]:
    """Each instant in the given files, once, with the place of its contents."""
    newest: dict[tuple[str, Action], tuple[HoodieInstant, _Place]] = {}
    for path in paths:
        for row, instant in enumerate(_instants_of(path, _rows_of(storage, path, _HEAD))):
            if instant is None:
                continue
            known = newest.get(instant.key)
            if known is None or (known[0].completion_time or "") <= (instant.completion_time or ""):
                newest[instant.key] = instant, _Place(path, row)
    return dict(newest.values())


def _rows_of(storage: HoodieStorage, path: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    """The given columns of a file of the archive.

    Raises:
        FileNotFoundError: The file has been compacted into another one meanwhile.
        HoodieCorruptedDataException: The file is damaged, or lacks a column.
    """
    try:
        with HoodieParquetReader(storage, path) as reader:
            rows: list[dict[str, Any]] = reader.read_columns(columns).to_pylist()
    except HoodieMissingFileException as error:
        raise FileNotFoundError(path) from error
    except HoodieSchemaException as error:
        raise HoodieCorruptedDataException(f"{path} is no file of an archived timeline: {error}") from error
    return rows


def _instants_of(path: str, rows: Iterable[Mapping[str, Any]]) -> Iterator[HoodieInstant | None]:
    """The instant of each row; None for actions that are not known."""
    for row in rows:
        requested_time, completion_time, action = (row[name] for name in _HEAD)
        if not requested_time or not action:
            raise HoodieCorruptedDataException(f"Cannot read {path}: a row names no instant: {row['action']!r}")
        try:
            yield HoodieInstant(requested_time, Action(action), State.COMPLETED, completion_time or requested_time)
        except ValueError:
            logger.warning("Left out an instant of %s: the action %s is not known", path, action)
            yield None
