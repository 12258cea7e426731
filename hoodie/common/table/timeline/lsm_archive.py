"""Write the archive of timeline layout 2: append files, compact their levels, delete those that are not needed.

Each change has three steps, and readers see it after the last one:

1. a data file, which no manifest lists yet;
2. the next manifest, which lists it;
3. ``_version_``, which names that manifest; it is replaced at once, so readers never miss it.

A writer that dies leaves a data file or a manifest that nothing refers to. The next writer reuses or deletes it. Only
one writer at a time may work: the caller holds the table's lock.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence

import attrs
import pyarrow as pa

from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.lsm_manifest import (
    MAX_LEVEL,
    VERSION_FILE,
    LsmFile,
    LsmManifest,
    encode_manifest,
    manifest_name,
    manifest_numbers,
    newest_manifest,
    read_manifest,
    version_of,
)
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.parquet_writer import write_rows
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

logger = logging.getLogger(__name__)

_SCHEMA = pa.schema(
    [
        ("instantTime", pa.string()), ("completionTime", pa.string()), ("action", pa.string()),
        ("metadata", pa.binary()), ("plan", pa.binary()), pa.field("version", pa.int32(), nullable=False),
    ]
)  # fmt: skip
_ENTRY_VERSION = 1
_JAVA_STRING = {"type": "string", "avro.java.string": "String"}
_AVRO_SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "HoodieLSMTimelineInstant",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {"name": "instantTime", "type": ["null", _JAVA_STRING], "default": None},
            {"name": "completionTime", "type": ["null", _JAVA_STRING], "default": None},
            {"name": "action", "type": ["null", _JAVA_STRING], "default": None},
            {"name": "metadata", "type": ["null", "bytes"], "default": None},
            {"name": "plan", "type": ["null", "bytes"], "default": None},
            {"name": "version", "type": "int", "default": _ENTRY_VERSION},
        ],
    },
    separators=(",", ":"),
)
_ROWS_AT_ONCE = 64
_ROW_GROUP_BYTES = 32 << 20
"""Bytes of rows that a compaction holds: a row can have the metadata of a commit to thousands of files."""
_LEAST_COMPACTED = 2


@attrs.frozen
class LsmEntry:
    """An archived instant.

    Attributes:
        requested_time: Its requested time.
        completion_time: Its completion time.
        action: The action that its completed file names.
        metadata: The content of the completed file; None if that is empty.
        plan: The plan of a clean, a compaction, a log compaction or a replace commit; None for the others.
    """

    requested_time: str
    completion_time: str
    action: Action
    metadata: bytes | None = attrs.field(repr=False)
    plan: bytes | None = attrs.field(repr=False)

    @property
    def key(self) -> tuple[str, str]:
        """The identity of the instant."""
        return self.requested_time, str(self.action)

    @property
    def size_bytes(self) -> int:
        """Bytes of the contents."""
        return len(self.metadata or b"") + len(self.plan or b"")


def _no_check() -> None:
    pass


class LsmArchiveWriter:
    """The archive of one table, for the writer that holds the table's lock.

    Args:
        storage: The storage of the table.
        folder: Full path of the archive: ``.hoodie/timeline/history``.
        check: Called right before each step that only one writer at a time may do; raises where its lock was lost.

    Hudi: org.apache.hudi.client.timeline.versioning.v2.LSMTimelineWriter. Differs: an instant that is in the archive is
    not written again when an archiver died before it had deleted the instant's files; ``_version_`` is replaced, where
    Hudi deletes it and makes it anew.
    """

    def __init__(self, storage: HoodieStorage, folder: str, check: Callable[[], None] = _no_check) -> None:
        self._storage = storage
        self._folder = folder
        self._check = check

    def append(self, entries: Sequence[LsmEntry]) -> str | None:
        """Write instants to one new file of level 0, those that the archive does not hold yet.

        After a failure, call again with the same entries.

        Args:
            entries: The instants; all are held in memory, so the caller passes many in several calls, oldest first.

        Returns:
            The path of the file; None if the archive holds all of the instants.

        Raises:
            HoodieCorruptedDataException: A manifest or a file of the archive is damaged.
            HoodieIOException: Storage failed, or another writer changed the archive meanwhile.
        """
        manifest = self._begin()
        missing = self._not_archived(entries, manifest)
        if not missing:
            return None
        name = LsmFile.name_of(missing[0].requested_time, missing[-1].requested_time, 0)
        path = join(self._folder, name)
        if any(file.name == name for file in manifest.files):
            raise HoodieCorruptedDataException(
                f"Cannot archive {missing[0].requested_time} to {missing[-1].requested_time}: the archive has the file "
                f"{path}, which lacks {missing[0].action} {missing[0].requested_time}"
            )
        content = _encoded(missing, path)
        self._check()
        if not self._storage.create_if_absent(path, content) and self._storage.read(path) != content:
            # A writer died after it had written other rows under this name.
            self._refuse_changes(manifest)
            self._check()
            self._storage.delete_file(path)
            if not self._storage.create_if_absent(path, content):
                raise self._rival(path)
        self._publish(manifest, (*manifest.files, LsmFile(*_ends(missing), 0, name, len(content))))
        return path

    def compact(self, batch_size: int = 10, target_file_max_bytes: int = 1 << 30) -> int:
        """Make one file of the oldest files of each level that has enough of them, beginning with level 0.

        Memory: `_ROW_GROUP_BYTES` of rows, or one row if that is larger.

        Args:
            batch_size: As many files of one level become one file of the next level.
            target_file_max_bytes: Fewer files, but at least two, are taken if they are larger than this together.

        Returns:
            How many files were made.

        Raises:
            HoodieCorruptedDataException: A manifest or a file that is compacted is damaged.
            HoodieIOException: Storage failed, or another writer changed the archive meanwhile.
        """
        count = 0
        manifest = self._begin()
        for level in range(MAX_LEVEL):
            while chosen := _to_compact(manifest, level, batch_size, target_file_max_bytes):
                manifest = self._compact(manifest, chosen, level + 1)
                count += 1
        return count

    def clean(self, retained_manifests: int = 3) -> None:
        """Delete old manifests, and then the files that no manifest lists.

        Args:
            retained_manifests: The number of newest manifests that stay: readers may be using them.

        Raises:
            HoodieCorruptedDataException: A manifest that stays is damaged; no data file was deleted.
            HoodieIOException: Storage failed; call again.
        """
        numbers = manifest_numbers(self._storage, self._folder)
        newest = self._newest()
        if not newest.number:
            return
        older = [number for number in numbers if number < newest.number]
        kept = [*older, newest.number][-max(retained_manifests, 1) :]
        for number in older:
            if number not in kept:
                self._check()
                self._storage.delete_file(self._path_of(number))
        try:
            listed = {file.name for number in kept for file in read_manifest(self._storage, self._folder, number)}
        except FileNotFoundError as error:
            raise self._rival(str(error)) from error
        unlisted = [
            status.path
            for status in self._storage.list_directory(self._folder)
            if LsmFile.of(status.name, status.size_bytes) is not None and status.name not in listed
        ]
        if unlisted:
            self._check()
            self._refuse_changes(newest)
            self._storage.delete_files(unlisted)
            logger.info("deleted %d files of the archive %s that were compacted", len(unlisted), self._folder)

    def rewrite(self, change: Callable[[bytes, str], bytes]) -> None:
        """Change the contents of archived instants; a later `clean` deletes what holds the old ones.

        Each file with a change becomes another file, of the same instants, which takes its place in a new manifest.

        Args:
            change: Takes the content or the plan of an instant and the path of its file, and returns it changed, or
                equal.

        Raises:
            HoodieCorruptedDataException: A manifest or a file is damaged.
            HoodieIOException: Storage failed, or another writer changed the archive meanwhile; call again.
        """
        manifest = self._begin()
        for file in manifest.files:
            path = join(self._folder, file.name)
            rows = [_changed_rows(batch, change, path) for batch in _rows_of(self._storage, [path])]
            if any(has_changed for _, has_changed in rows):
                manifest = self._put_in_place(manifest, file, [batch for batch, _ in rows])

    # --- steps --------------------------------------------------------------------------------------------------

    def _put_in_place(self, manifest: LsmManifest, old: LsmFile, rows: Sequence[pa.RecordBatch]) -> LsmManifest:
        """Write other rows of the same instants, under the name of the nearest level that is free."""
        taken = {file.name for file in manifest.files}
        levels = sorted(range(MAX_LEVEL + 1), key=lambda level: (abs(level - old.level), level))
        free = (LsmFile.name_of(old.first, old.last, level) for level in levels)
        name = next((name for name in free if name not in taken), None)
        if name is None:
            raise HoodieIOException(f"{join(self._folder, old.name)} cannot be written again: no level is free")
        path = join(self._folder, name)
        self._check()
        # A writer that died, or an older manifest.
        self._refuse_changes(manifest)
        self._storage.delete_file(path)
        size_bytes = write_rows(self._storage.open_output_stream(path), rows, _SCHEMA, _AVRO_SCHEMA, path)
        new = LsmFile(old.first, old.last, int(name.rpartition("_")[2].removesuffix(".parquet")), name, size_bytes)
        return self._publish(manifest, [new if file == old else file for file in manifest.files])

    def _begin(self) -> LsmManifest:
        """The newest manifest, after leftovers of dead writers were cleaned up."""
        # Listed before the version is read: so the manifest of a writer that is alive is not taken for a left-over.
        numbers = manifest_numbers(self._storage, self._folder)
        manifest = self._newest()
        if manifest.number and not manifest.has_version:
            self._check()
            self._write_version(manifest.number)
        for number in numbers:
            if number > manifest.number:
                self._check()
                self._storage.delete_file(self._path_of(number))
                logger.warning("deleted the manifest %d of %s, whose writer died", number, self._folder)
        return manifest

    def _publish(self, manifest: LsmManifest, files: Sequence[LsmFile]) -> LsmManifest:
        """Make other files than those of a manifest visible to readers; returns the new manifest."""
        number = manifest.number + 1
        path = self._path_of(number)
        self._check()
        if not self._storage.create_if_absent(path, encode_manifest(files)):
            raise self._rival(path)
        self._check()
        # If another writer cleaned manifests, the number can be free although the archive has newer ones.
        if version_of(self._storage, self._folder) not in (None, manifest.number):
            raise self._rival(path)
        self._write_version(number)
        published = LsmManifest(number, tuple(files))
        if self._newest() != published:
            raise self._rival(path)
        return published

    def _write_version(self, number: int) -> None:
        """Name the newest manifest.

        Raises:
            HoodieIOException: This writer stood still right before, and others have made newer manifests meanwhile. The
                newest one is named again: instants that it lists are in no other place.
        """
        path = join(self._folder, VERSION_FILE)
        self._storage.replace(path, str(number).encode())
        newest = max(manifest_numbers(self._storage, self._folder), default=0)
        if newest > number:
            self._storage.replace(path, str(newest).encode())
            raise self._rival(self._path_of(newest))

    def _not_archived(self, entries: Sequence[LsmEntry], manifest: LsmManifest) -> list[LsmEntry]:
        """The entries, in the order of their times, that no file of the archive holds."""
        if not entries:
            return []
        known: set[tuple[str, str]] = set()
        times = [entry.requested_time for entry in entries]
        for file in manifest.files:
            if file.first <= max(times) and file.last >= min(times):
                with HoodieParquetReader(self._storage, join(self._folder, file.name)) as reader:
                    heads = reader.read_columns(["instantTime", "action"])
                known.update(zip(*(column.to_pylist() for column in heads.columns), strict=True))
        missing = {entry.key: entry for entry in sorted(entries, key=lambda e: (e.key, e.completion_time))}
        return [entry for key, entry in missing.items() if key not in known]

    def _compact(self, manifest: LsmManifest, chosen: Sequence[LsmFile], level: int) -> LsmManifest:
        name = _compacted_name(chosen, level)
        path = join(self._folder, name)
        self._check()
        if self._storage.exists(path):
            # A writer died while it was writing this file.
            self._refuse_changes(manifest)
            self._storage.delete_file(path)
        paths = [join(self._folder, file.name) for file in chosen]
        rows = _rows_of(self._storage, paths)
        size_bytes = write_rows(self._storage.open_output_stream(path), rows, _SCHEMA, _AVRO_SCHEMA, path)
        remaining_files = [file for file in manifest.files if file not in chosen]
        first, last = chosen[0].first, max(file.last for file in chosen)
        published = self._publish(manifest, (*remaining_files, LsmFile(first, last, level, name, size_bytes)))
        logger.info("compacted %d files of the archive into %s", len(chosen), path)
        return published

    # --- other writers ------------------------------------------------------------------------------------------

    def _newest(self) -> LsmManifest:
        try:
            return newest_manifest(self._storage, self._folder)
        except FileNotFoundError as error:
            raise self._rival(str(error)) from error

    def _refuse_changes(self, manifest: LsmManifest) -> None:
        """Stop before a file is deleted that another writer may have listed since a manifest was read."""
        if self._newest().number != manifest.number:
            raise self._rival(self._path_of(manifest.number + 1))

    def _rival(self, path: str) -> HoodieIOException:
        return HoodieIOException(
            f"Another writer changed the archive {self._folder} meanwhile ({path}); no instant was deleted from the "
            "active timeline. Call again"
        )

    def _path_of(self, number: int) -> str:
        return join(self._folder, manifest_name(number))


def _ends(entries: Sequence[LsmEntry]) -> tuple[str, str]:
    return entries[0].requested_time, entries[-1].requested_time


def _encoded(entries: Sequence[LsmEntry], path: str) -> bytes:
    """The content of a file of level 0."""
    columns = zip(
        *(
            (e.requested_time, e.completion_time, str(e.action), e.metadata or None, e.plan or None, _ENTRY_VERSION)
            for e in entries
        ),
        strict=True,
    )
    arrays = [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    sink = pa.BufferOutputStream()
    write_rows(sink, [pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)], _SCHEMA, _AVRO_SCHEMA, path)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _to_compact(manifest: LsmManifest, level: int, batch_size: int, max_bytes: int) -> list[LsmFile]:
    """The oldest files of a level, if there are enough for a compaction; otherwise []."""
    files = sorted(file for file in manifest.files if file.level == level)
    if len(files) < max(batch_size, _LEAST_COMPACTED):
        return []
    chosen: list[LsmFile] = []
    for file in files[:batch_size]:
        if len(chosen) >= _LEAST_COMPACTED and sum(one.size_bytes for one in chosen) + file.size_bytes > max_bytes:
            break
        chosen.append(file)
    name = _compacted_name(chosen, level + 1)
    if any(file.name == name for file in manifest.files):
        logger.warning("left level %d of an archive as it is: a file %s is there already", level, name)
        return []
    return chosen


def _compacted_name(files: Sequence[LsmFile], level: int) -> str:
    return LsmFile.name_of(files[0].first, max(file.last for file in files), level)


def _rows_of(storage: HoodieStorage, paths: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of the given files in their order, in batches for row groups."""
    held: list[pa.RecordBatch] = []
    for path in paths:
        with HoodieParquetReader(storage, path) as reader:
            for batch in reader.iter_batches(None, _SCHEMA, batch_rows=_ROWS_AT_ONCE):
                held.append(batch)
                if sum(one.nbytes for one in held) >= _ROW_GROUP_BYTES:
                    yield _joined(held)
                    held = []
    if held:
        yield _joined(held)


def _changed_rows(
    batch: pa.RecordBatch, change: Callable[[bytes, str], bytes], path: str
) -> tuple[pa.RecordBatch, bool]:
    """Rows with other contents, and whether one differs."""
    has_changed = False
    columns = list(batch.columns)
    for name in ("metadata", "plan"):
        number = _SCHEMA.get_field_index(name)
        old = batch.column(number).to_pylist()
        new = [content and change(content, path) for content in old]
        if new != old:
            has_changed = True
            columns[number] = pa.array(new, pa.binary())
    return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA), has_changed


def _joined(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    return pa.Table.from_batches(batches, _SCHEMA).combine_chunks().to_batches()[0]
