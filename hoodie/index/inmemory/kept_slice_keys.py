"""Keys of file slices with log files, kept in memory."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence

import attrs
import numpy as np
import pyarrow as pa

from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.index.merged_keys import MergedKeys
from hoodie.io.parquet.key_search import find_keys
from hoodie.io.written_keys import compact_keys
from hoodie.merge.log_merge import rules_of_logs

_MOST_CHUNKS = 16
_Group = tuple[str, str]


@attrs.frozen(eq=False)
class _Kept:
    """The kept keys of a slice.

    Attributes:
        files: The path of the base file, "" if there is none, and the paths of the log files in the order of merging.
        keys: Its keys (string), each once.
        deletes: The number of deletes in the log files.
    """

    files: tuple[str, ...]
    keys: pa.ChunkedArray
    deletes: int


class KeptSliceKeys:
    """A cache of the keys of slices with log files, so that a look-up reads only new log files.

    In tables of versions 8 and 9 the names of the files show whether the kept keys are valid: a log file is written
    once, by one delta commit, and belongs to a slice once that is completed. New log files add keys if there is no
    delete in them or before; otherwise the whole slice is read again. In version 6 a slice has log files of delta
    commits that are not completed, so it is read every time.
    """

    def __init__(self) -> None:
        self._kept: dict[_Group, _Kept] = {}
        self._lock = threading.Lock()

    def forget_replaced(self, partitions: Collection[str], slices: Sequence[FileSlice]) -> None:
        """Drop slices that do not exist any more, or have no log files any more.

        Args:
            partitions: Partition paths.
            slices: All latest slices in these partitions.
        """
        merges = {_group_of(part) for part in slices if not part.is_base_file_alone}
        with self._lock:
            for group in [g for g in self._kept if g[0] in partitions and g not in merges]:
                del self._kept[group]

    def get(self, group: _Group) -> _Kept | None:
        """The kept keys of a file group."""
        with self._lock:
            return self._kept.get(group)

    def put(self, group: _Group, kept: _Kept) -> None:
        """Keep the keys of a file group's slice."""
        with self._lock:
            self._kept[group] = kept


@attrs.frozen(eq=False)
class ReadsNewLogFiles:
    """Reads the keys of slices, as far as they are not kept.

    Attributes:
        kept: The kept keys.
        merged: Reads whole slices.
    """

    kept: KeptSliceKeys
    merged: MergedKeys

    def read(self, file_slice: FileSlice) -> pa.Table:
        """See `MergedKeys.read`."""
        if self.merged.exact or self.merged.log_merging.block_filter.instants is not None:
            return self.merged.read(file_slice)
        base_file, group = file_slice.base_file, _group_of(file_slice)
        paths = [log_file.path for log_file in file_slice.record_log_files]
        files = ("" if base_file is None else base_file.path, *paths)
        before = self.kept.get(group)
        if before is None or before.files != files:
            before = self._grown(before, files, file_slice) or self._whole(files, file_slice)
            self.kept.put(group, before)
        return pa.table([before.keys], schema=pa.schema([pa.field(RECORD_KEY, pa.string())]))

    def _whole(self, files: tuple[str, ...], file_slice: FileSlice) -> _Kept:
        stored, deletes = self.merged.read_with_deletes(file_slice)
        return _Kept(files, compact_keys(stored[RECORD_KEY]), deletes)

    def _grown(self, before: _Kept | None, files: tuple[str, ...], file_slice: FileSlice) -> _Kept | None:
        """The kept keys with those of further log files; None if these may delete keys."""
        # A payload class may drop the record of a key without a delete.
        takes_away = rules_of_logs(self.merged.log_merging.merge_spec) is None
        if before is None or before.deletes or takes_away or files[: len(before.files)] != before.files:
            return None
        newer = attrs.evolve(file_slice, base_file=None, log_files=file_slice.record_log_files[len(before.files) - 1 :])
        stored, deletes = self.merged.read_with_deletes(newer)
        if deletes:
            return None
        more = stored[RECORD_KEY].combine_chunks()
        known, _ = find_keys(before.keys, more)
        is_new = np.ones(len(more), dtype=np.bool_)
        is_new[known] = False
        # Chunks are joined once they are many: each copy costs as much as all keys.
        keys = pa.chunked_array([*before.keys.chunks, more.filter(pa.array(is_new))], pa.string())
        return _Kept(files, compact_keys(keys) if keys.num_chunks > _MOST_CHUNKS else keys, 0)


def _group_of(file_slice: FileSlice) -> _Group:
    return file_slice.partition_path, file_slice.file_id
