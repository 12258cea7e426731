"""Find keys that two writers added at the same time, each to its own file group.

Hudi has no such check: it stores such a key twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import COMMIT_TIME_META, RECORD_KEY_META
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.exception import HoodieIOException, HoodieWriteConflictException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join

_CHUNK_KEYS = 2_000_000
"""The number of own keys in memory at once, next to the keys of one file of another write."""

_SCHEMA = pa.schema([(COMMIT_TIME_META, pa.string()), (RECORD_KEY_META, pa.string())])


@attrs.frozen
class SharedKey:
    """A key that two writes have added.

    Attributes:
        record_key: The key.
        partition_path: The partition of this write's row.
        other_path: The file of the other write's row, relative to the table.
        count: The number of such keys in the two files.
    """

    record_key: str
    partition_path: str
    other_path: str
    count: int


@attrs.frozen
class _File:
    partition_path: str
    file_id: str
    path: str
    size_bytes: int


def find_shared_key(
    storage: HoodieStorage,
    base_path: str,
    instant_time: str,
    own: HoodieCommitMetadata,
    others: Mapping[str, HoodieCommitMetadata],
    is_global: bool,
) -> SharedKey | None:
    """A key that this write and another one added, each to its own file group.

    The function reads only the columns of key and commit time, and only files with new records: this write's files, and
    of each file group of other writes the newest file, which still holds all their rows.

    Args:
        storage: The table's storage.
        base_path: The table's folder.
        instant_time: This write's instant.
        own: Its commit metadata.
        others: Instant time -> metadata of the commits since the write began.
        is_global: Whether a key is unique in the table, not only in its partition.

    Raises:
        HoodieWriteConflictException: A file of another write was cleaned meanwhile.
        HoodieIOException: A file cannot be read.
    """
    own_files = [file for file, inserts in _files(own) if inserts]
    other_files = _newest_files(others)
    if not is_global:
        paths = {file.partition_path for file in own_files}
        other_files = [file for file in other_files if file.partition_path in paths]
    if not own_files or not other_files:
        return None
    times = frozenset(others)
    for partition_path, chunk in _chunks(storage, base_path, own_files, instant_time, is_global):
        for file in other_files:
            if not is_global and file.partition_path != partition_path:
                continue
            keys = pa.chunked_array(list(_keys(storage, base_path, file, times)), pa.string())
            shared = keys.filter(pc.is_in(keys, value_set=chunk)) if len(keys) else keys
            if len(shared):
                return SharedKey(shared[0].as_py(), partition_path, file.path, len(shared))
    return None


def _files(metadata: HoodieCommitMetadata) -> Iterator[tuple[_File, int]]:
    for path, stats in metadata.partition_to_write_stats.items():
        for stat in stats:
            if stat.path and stat.path.endswith(".parquet"):
                yield _File(path, str(stat.file_id), stat.path, stat.file_size_bytes), stat.num_inserts


def _newest_files(others: Mapping[str, HoodieCommitMetadata]) -> list[_File]:
    """The newest file of each file group that got new records."""
    newest: dict[tuple[str, str], _File] = {}
    grown: set[tuple[str, str]] = set()
    for time in in_order(others):
        for file, inserts in _files(others[time]):
            group = (file.partition_path, file.file_id)
            newest[group] = file
            if inserts:
                grown.add(group)
    return [newest[group] for group in sorted(grown)]


def _chunks(
    storage: HoodieStorage, base_path: str, files: list[_File], instant_time: str, is_global: bool
) -> Iterator[tuple[str, pa.Array]]:
    """Partition path and own keys, a bounded number at a time; a global index takes all partitions together."""
    collected: list[pa.Array] = []
    count = 0
    partition_path = ""
    for file in sorted(files, key=lambda file: file.partition_path):
        if collected and not is_global and file.partition_path != partition_path:
            yield partition_path, pa.concat_arrays(collected)
            collected, count = [], 0
        partition_path = file.partition_path
        for keys in _keys(storage, base_path, file, frozenset([instant_time])):
            collected.append(keys)
            count += len(keys)
            if count >= _CHUNK_KEYS:
                yield partition_path, pa.concat_arrays(collected)
                collected, count = [], 0
    if collected:
        yield partition_path, pa.concat_arrays(collected)


def _keys(storage: HoodieStorage, base_path: str, file: _File, instants: frozenset[str]) -> Iterator[pa.Array]:
    """The keys of the rows that certain instants wrote."""
    path = join(base_path, file.path)
    of_commits = HoodieReaderContext(storage, _SCHEMA, [RECORD_KEY_META], instant_range=InstantRange(named=instants))
    reader = HoodieFileGroupReader(of_commits, FileSlice.of_base_file(file.partition_path, path, file.size_bytes))
    try:
        for batch in reader.iter_batches():
            yield batch.column(0)
    except HoodieIOException as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise HoodieWriteConflictException(
            f"comparing keys with {path} failed: it was deleted meanwhile, as another write changed it. Nothing was "
            "committed. Write again: that is safe",
            is_retry_safe=True,
        ) from error
