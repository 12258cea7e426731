"""The choice of the files that a round reads from a folder.

A position is the newest modification time that was taken, in milliseconds. Files with newer times are taken from the
oldest on, until the limit of bytes is reached; files of the same time are never parted. A file may get its name after
a newer one was taken: a rename keeps the time, clocks differ, times of stores are rough (S3 tells seconds), and a
listing takes a while. Beside the position, under a key of hoodie's own, stand the names of the files that were taken
and whose times lie in a window before the position. A late file with a time in the window is taken once.

    window 1500 ms            limit   taken   position   names beside it
    a 10 MB at 1000           25 MB   a b c   2000       a b c
    b  5 MB at 1000
    c  5 MB at 2000
    d 10 MB at 3000                   d       3000       c d
    e  1 MB at 1500, late             e       3000       c d e
    f  1 MB at 1400, too late         -       3000       c d e
"""

from __future__ import annotations

import base64
import hashlib
import json
import logging
import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from hoodie.exception import HoodieConfigException, HoodieNotSupportedException, HoodieReadFromSourceException
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions
from hoodie.storage.storage_path import normalise_path
from hoodie.utilities.class_names import SELECTORS, find_class
from hoodie.utilities.config.dfs_source_config import DFSPathSelectorConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.source_listing import files_below, glob_root, is_hidden, matches_of

logger = logging.getLogger(__name__)

NEWEST_FILES_KEY: Final = "hoodie.streamer.dfs.newest.files"
"""The key, beside the position, of the names of the files that were taken last."""
NOTHING_TAKEN: Final = -(2**63)
"""The position before the first file, as Hudi writes it (``Long.MIN_VALUE``)."""
_LARGEST: Final = 2**63 - 1
_ROOT_KEY: Final = "hoodie.streamer.source.dfs.root"
_SELECTOR_KEY: Final = "hoodie.streamer.source.input.selector"
_CLOCKS_DIFFER_MS: Final = 3_600_000
"""Files whose time is further ahead of this machine's clock wait."""
_NAMES_BYTES: Final = 64 * 1024
"""A longer text of names is written as hashes."""
_HASH_BYTES: Final = 8
_HASHED: Final = struct.Struct(f">{_HASH_BYTES}sI")
"""A hash, and the milliseconds from the beginning of the window to the file's time."""
MOST_NAMES: Final = 10_000
"""More files than these make the window shorter; files of the position's time are always kept."""


@attrs.frozen
class Selection:
    """The files of a round.

    Attributes:
        files: The files, from the oldest on.
        checkpoint: The position after them.
        left_files: The number of files that are there now, and wait for a later round.
        left_bytes: Their size.
    """

    files: tuple[FileStatus, ...]
    checkpoint: Checkpoint
    left_files: int = 0
    left_bytes: int = 0

    @property
    def size_bytes(self) -> int:
        """The size of the files."""
        return sum(file.size_bytes for file in self.files)


class DFSPathSelector:
    """Chooses the files of a round by their modification times.

    A selector of your own overrides `list_files`, to look at other folders, or `select`.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage of the files.

    Attributes:
        properties: The properties of the run.
        root: The normalised folder, file or glob.
        storage: Its storage.

    Raises:
        HoodieConfigException: Properties are wrong, there is no root, or no storage for it.

    Hudi: org.apache.hudi.utilities.sources.helpers.DFSPathSelector. Differs: a first file larger than the limit is
    taken alone, where Hudi waits for ever; files that appear late, in a window before the position, are taken; files of
    the future wait, since they would hide all others; globs.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        self.properties = properties
        self._known_times: dict[str, int] = {}
        """The times of files that were taken before and lie in the window, as they were listed last."""
        self._config = properties.read(DFSPathSelectorConfig)
        if self._config.root is None:
            raise HoodieConfigException(
                f"{_ROOT_KEY} is missing: give the folder whose files are read, such as s3://bucket/in"
            )
        try:
            self.root = normalise_path(self._config.root)
            self.storage = open_storage(glob_root(self.root), storage_options)
        except (HoodieConfigException, HoodieNotSupportedException) as error:
            raise HoodieConfigException(f"{_ROOT_KEY} = {self._config.root}: {error}") from error

    @property
    def parallelism(self) -> int:
        """The number of folders that are listed at once."""
        return 1

    def list_files(self) -> Iterable[FileStatus]:
        """All files that may be read now or were read before, in any order; hidden and empty ones may be among them.

        Raises:
            HoodieReadFromSourceException: The folder is missing.
            HoodieIOException: Storage failed.
        """
        for start in self.list_roots():
            if start.is_directory:
                yield from files_below(self.storage, start.path)
            else:
                yield start

    def list_roots(self) -> Sequence[FileStatus]:
        """The folders and files that the root names.

        Raises:
            HoodieReadFromSourceException: The root, or the folder above its first glob, is one of this machine, and is
                missing.
            HoodieIOException: Storage failed.
        """
        found = matches_of(self.storage, self.root, self.parallelism)
        if not found:
            start = glob_root(self.root)
            if "://" not in start and self.storage.file_status(start) is None:
                missing = "such folder" if start == self.root else f"folder {start}"
                raise HoodieReadFromSourceException(
                    f"Listing {self.root} ({_ROOT_KEY}) failed: there is no {missing}. Create it, or correct the "
                    "property"
                )
            logger.warning("%s (%s): there is no file", self.root, _ROOT_KEY)
        return found

    def list_eligible_files(self, checkpoint: Checkpoint | None) -> list[FileStatus]:
        """The files that were not taken before, from the oldest on.

        Args:
            checkpoint: The position; None before the first round.

        Raises:
            HoodieConfigException: The position is not one of a folder.
            HoodieReadFromSourceException: The folder is missing.
            HoodieIOException: Storage failed.
        """
        taken = TakenFiles.of(checkpoint, self.root, self._config.late_window_ms)
        after = taken.time_ms
        now = time.time_ns() // 1_000_000
        future = now + _CLOCKS_DIFFER_MS
        before = now - self._config.min_age_ms if self._config.min_age_ms else future
        if after > future:
            logger.warning(
                "the position %d is %d s in the future: files of earlier times are not read. If a file with a wrong "
                "time was read, give --checkpoint TIME", after, (after - now) // 1000,
            )  # fmt: skip
        found: dict[str, FileStatus] = {}
        early: list[FileStatus] = []
        for file in self.list_files():
            if not file.size_bytes or file.modification_time_ms < taken.since_ms or is_hidden(file.name):
                continue
            if file.modification_time_ms <= before:
                found[file.path] = file
            elif file.modification_time_ms > future:
                early.append(file)
        if early:
            logger.warning(
                "%d files wait until their time: the last change of %s is %d s in the future. Read now, it would hide "
                "all files that come before then; correct its time, or the clock",
                len(early), early[0].path, (early[0].modification_time_ms - now) // 1000,
            )  # fmt: skip
        eligible: list[FileStatus] = []
        self._known_times = {}
        for file in found.values():
            if file.modification_time_ms <= after and taken.has(name := self.name_of(file)):
                self._known_times[name] = file.modification_time_ms
            else:
                eligible.append(file)
        return sorted(eligible, key=lambda file: (file.modification_time_ms, file.path))

    def select(self, checkpoint: Checkpoint | None, limit: int | None) -> Selection:
        """Choose the files of a round.

        Args:
            checkpoint: The position; None before the first round.
            limit: The most bytes; None for no limit. A first file that is larger is taken, and so are files of the same
                time as the last one.

        Raises:
            HoodieConfigException: The position is not one of a folder.
            HoodieReadFromSourceException: The folder is missing.
            HoodieIOException: Storage failed.
        """
        eligible = self.list_eligible_files(checkpoint)
        last = NOTHING_TAKEN
        count = size = 0
        for file in eligible:
            is_over = limit is not None and size + file.size_bytes >= limit
            if is_over and count and file.modification_time_ms > last:
                break
            last = file.modification_time_ms
            size += file.size_bytes
            count += 1
        if not count:
            return Selection((), attrs.evolve(checkpoint or Checkpoint(str(NOTHING_TAKEN)), is_given=False))
        files, left = tuple(eligible[:count]), eligible[count:]
        window_ms = self._config.late_window_ms
        times = self._known_times | {self.name_of(file): file.modification_time_ms for file in files}
        taken = TakenFiles.of(checkpoint, self.root, window_ms).with_files(times, window_ms)
        own = {NEWEST_FILES_KEY: taken.to_text()}
        return Selection(files, Checkpoint(str(taken.time_ms), own=own), len(left), sum(f.size_bytes for f in left))

    def name_of(self, file: FileStatus) -> str:
        """The name of a file beside the position: its path from the root on.

        Args:
            file: The file.
        """
        start = f"{glob_root(self.root).rstrip('/')}/"
        return file.path.removeprefix(start)


def create_selector(properties: StreamerProperties, storage_options: StorageOptions | None) -> DFSPathSelector:
    """The selector that the properties name.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage of the files.

    Raises:
        HoodieConfigException: There is no such class, or its properties are wrong.
    """
    name = properties.read(DFSPathSelectorConfig).selector
    found = DFSPathSelector if name is None else find_class(name, SELECTORS, _SELECTOR_KEY, DFSPathSelector)
    return found(properties, storage_options)


def position_of(checkpoint: Checkpoint | None) -> int:
    """The time that a position tells, in milliseconds since 1970.

    Args:
        checkpoint: The position; None for the one before the first file.

    Raises:
        HoodieConfigException: The position is no time.
    """
    if checkpoint is None or not checkpoint.position:
        return NOTHING_TAKEN
    text = checkpoint.position.strip()
    digits = text.removeprefix("-").removeprefix("+")
    number = int(text) if digits.isascii() and digits.isdigit() and len(digits) < 20 else None
    if number is None or not NOTHING_TAKEN <= number <= _LARGEST:
        raise HoodieConfigException(
            f"The position {checkpoint.position[:100]!r} is none of a folder: that is the modification time of the "
            "newest file that was read, in milliseconds since 1970, such as 1785920400000. The table may have been "
            "filled from another source: give --checkpoint TIME to read newer files only, or --checkpoint 0 for all"
        )
    return number


@attrs.frozen
class TakenFiles:
    """The files in the window before a position that were taken.

    They are written as JSON: ``{"time": 2000, "since": 500, "root": "s3://bucket/in", "names": {"a.json": 1000}}``. For
    many files the names are hashes in base64, ``"hashes": "..."``: for each file 8 bytes of its name, and 4 of the
    milliseconds from ``since`` to its time.

    Attributes:
        time_ms: The position.
        root: The root that the names are of.
        since_ms: The beginning of the window. The names of all files taken are known from this time on; a file with an
            earlier time is not taken. Without names it is the time after the position.
        names: The times of files by their names.
        hashes: The times of the others by their hashes.
    """

    time_ms: int
    root: str
    since_ms: int
    names: Mapping[str, int] = attrs.field(factory=dict)
    hashes: Mapping[bytes, int] = attrs.field(factory=dict)

    @classmethod
    def of(cls, checkpoint: Checkpoint | None, root: str, window_ms: int) -> TakenFiles:
        """The files that stand beside a position; none if it says nothing of them, or speaks of another root.

        Args:
            checkpoint: The position; None for the one before the first file.
            root: The root.
            window_ms: The longest window.

        Raises:
            HoodieConfigException: The position is not one of a folder.
        """
        position = position_of(checkpoint)
        nothing = cls(position, root, position + 1)
        text = None if checkpoint is None or checkpoint.is_given else checkpoint.own.get(NEWEST_FILES_KEY)
        if not text:
            return nothing
        try:
            found: Any = json.loads(text)
            time_ms, since_ms, named = int(found["time"]), int(found["since"]), str(found["root"])
            names = {str(name): min(int(ms), position) for name, ms in found.get("names", {}).items()}
            packed = base64.b64decode(str(found.get("hashes", "")), validate=True)
            hashes = {hashed: min(since_ms + ms, position) for hashed, ms in _HASHED.iter_unpack(packed)}
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError, struct.error):
            logger.warning("%s beside the position %s is not readable", NEWEST_FILES_KEY, position)
            return nothing
        if time_ms != position or since_ms > position or named != root:
            return nothing
        return cls(position, root, max(since_ms, position - window_ms), names, hashes)

    def has(self, name: str) -> bool:
        """Whether a file is among them.

        Args:
            name: Its name.
        """
        return name in self.names or (bool(self.hashes) and _hash(name) in self.hashes)

    def with_files(self, times: Mapping[str, int], window_ms: int) -> TakenFiles:
        """These files and others, as far as they are in the window before the newest.

        Args:
            times: The times of the others by their names, or new times of these.
            window_ms: The length of the window. It is shorter if it begins at a position without names, or if there
                are too many files.
        """
        newest = max([self.time_ms, *times.values()])
        since = max(self.since_ms, newest - window_ms)
        names, hashes = {**self.names, **times}, dict(self.hashes)
        if hashes:
            hashes |= {_hash(name): ms for name, ms in names.items()}
            names = {}
        found = sorted((ms for ms in (*names.values(), *hashes.values()) if ms >= since), reverse=True)
        if len(found) > MOST_NAMES:
            since = min(found[MOST_NAMES] + 1, newest)
            logger.info(
                "more than %d files were read that changed in the %d ms before %d: late files are read if they changed "
                "in the last %d ms of these", MOST_NAMES, window_ms, newest, newest - since,
            )  # fmt: skip
        return TakenFiles(
            newest,
            self.root,
            since,
            {name: ms for name, ms in names.items() if ms >= since},
            {hashed: ms for hashed, ms in hashes.items() if ms >= since},
        )

    def to_text(self) -> str:
        """The text beside the position."""
        head: dict[str, Any] = {"time": self.time_ms, "since": self.since_ms, "root": self.root}
        if not self.hashes:
            text = json.dumps({**head, "names": dict(sorted(self.names.items()))})
            if len(text) <= _NAMES_BYTES:
                return text
        hashes = {**self.hashes, **{_hash(name): ms for name, ms in self.names.items()}}
        packed = b"".join(_HASHED.pack(hashed, ms - self.since_ms) for hashed, ms in sorted(hashes.items()))
        return json.dumps({**head, "hashes": base64.b64encode(packed).decode("ascii")})


def _hash(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_HASH_BYTES).digest()


def groups_of(files: Sequence[FileStatus], most_bytes: int, most_files: int) -> Iterator[tuple[FileStatus, ...]]:
    """Neighbours of a list, put together until they are large enough.

    Args:
        files: The files.
        most_bytes: The size of a group; a larger file is alone.
        most_files: The number of files of a group.
    """
    group: list[FileStatus] = []
    size = 0
    for file in files:
        if group and (size + file.size_bytes > most_bytes or len(group) == most_files):
            yield tuple(group)
            group, size = [], 0
        group.append(file)
        size += file.size_bytes
    if group:
        yield tuple(group)
