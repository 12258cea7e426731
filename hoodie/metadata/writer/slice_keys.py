"""The record keys that file groups gain and lose by an action, read from their files.

::

    base file        before a b c    after a c d      gained d, lost b
    log file         a b c           + d, delete of b, row of a
    new file group                   a b              gained a b
    replaced         a b c                            lost a b c

Two versions of a base file are compared by their key columns. A log file without deletes, on top of files that delete
nothing, adds those of its keys that these files lack. In all other cases log files are merged, because the table's
merge rules and ordering values decide whether a delete or a row wins. So they are in a table that merges by a user's
class.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.schema_converters import to_arrow
from hoodie.common.bloom.key_blocks import distinct_keys
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.exception import HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.merge.record_merger import HoodieRecordMerger
from hoodie.metadata.writer.left_out_keys import left_out
from hoodie.metadata.writer.partition_indexer import CommittedChange
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import file_name, join

_NO_KEYS = pa.nulls(0, pa.string())


@attrs.frozen
class FileGroupChange:
    """The change that an action made to a file group.

    Attributes:
        partition_path: Its partition.
        file_id: Its id.
        before: The latest slice before the action; None for a new file group.
        after: The latest slice after the action; None for a replaced file group.
        new_log_files: The log files that the action added to the slice; empty if it wrote a base file.
        row_count: The rows that were added or deleted, by the statistics of the action; 0 for a replaced file group.
        deletes: Whether rows may have been deleted.
    """

    partition_path: str
    file_id: str
    before: FileSlice | None
    after: FileSlice | None
    new_log_files: tuple[HoodieLogFile, ...] = ()
    row_count: int = 0
    deletes: bool = True


def changes_of(table: TableSnapshot, change: CommittedChange, *, with_updates: bool = False) -> list[FileGroupChange]:
    """The file groups whose keys an action may have changed.

    A file group is left out if the action wrote a base file with new versions of old rows only. A compaction changes no
    keys.

    Args:
        table: The table, without the action.
        change: The action.
        with_updates: Whether file groups with such updates are included.

    Raises:
        HoodieException: The files cannot be listed.
    """
    metadata = change.metadata
    if metadata.compacted:
        return []
    view = table.view()
    replaced = set(metadata.replaced_file_groups)
    stats: dict[tuple[str, str], list[HoodieWriteStat]] = {}
    for stat in metadata.write_stats:
        if stat.path is not None:
            stats.setdefault((stat.partition_path, stat.file_id), []).append(stat)
    paths = list(dict.fromkeys(path for path, _ in (*stats, *replaced)))
    slices = _latest_slices(view, paths)
    changes = [
        FileGroupChange(path, file_id, slices[path, file_id], None)
        for path, file_id in sorted(replaced)
        if (path, file_id) in slices and (path, file_id) not in stats
    ]
    for (path, file_id), of_group in stats.items():
        group_change = _change_of(table, change.instant_time, slices.get((path, file_id)), of_group, with_updates)
        if group_change is not None:
            changes.append(group_change)
    return changes


def _latest_slices(view: HoodieTableFileSystemView, paths: Sequence[str]) -> dict[tuple[str, str], FileSlice]:
    view.load_partitions(paths)
    return {(path, part.file_id): part for path in paths for part in view.latest_file_slices(path)}


def _change_of(
    table: TableSnapshot,
    instant_time: str,
    before: FileSlice | None,
    stats: Sequence[HoodieWriteStat],
    with_updates: bool,
) -> FileGroupChange | None:
    """The change that written files made to a file group; None if its keys are the same."""
    path, file_id = stats[0].partition_path, stats[0].file_id
    base = [stat for stat in stats if not stat.is_log_file]
    names = [parse_log_file_name(file_name(str(stat.path))) for stat in stats if stat.is_log_file]
    logs = [stat for stat in stats if stat.is_log_file]
    logs = [stat for stat, name in zip(logs, names, strict=True) if name is None or not name.is_cdc]
    deletes = any(stat.num_deletes for stat in stats)
    row_count = sum(stat.num_inserts + stat.num_deletes for stat in stats)
    if base:
        has_same_keys = before is not None and before.is_base_file_alone and not logs and not row_count
        if has_same_keys and not with_updates:
            return None
        stat = base[-1]
        after = FileSlice.of_base_file(path, join(table.base_path, str(stat.path)), stat.file_size_bytes)
    elif logs:
        if before is not None:
            # In version 6 a listing has the new log files already, since they are named by the slice.
            new = {file_name(str(stat.path)) for stat in logs}
            older = tuple(log_file for log_file in before.log_files if log_file.file_name not in new)
            before = attrs.evolve(before, log_files=older)
        after = before or FileSlice(path, file_id, instant_time)
    else:
        return None
    for stat in logs:
        after = after.with_log_file(join(table.base_path, str(stat.path)), stat.file_size_bytes)
    new_log_files = after.log_files[-len(logs) :] if logs and not base else ()
    if new_log_files:
        row_count = sum(stat.num_writes + stat.num_deletes for stat in logs)
    return FileGroupChange(path, file_id, before, after, new_log_files, row_count, deletes)


@attrs.frozen(eq=False)
class SliceKeys:
    """Reads the keys of the records of file slices; crosses to tasks.

    Attributes:
        storage: The storage of the files.
        schema: The table's columns, with Hudi's.
        merging: The merge of log files, those of the action included; None if there are no log files.
    """

    storage: HoodieStorage
    schema: pa.Schema
    merging: LogMerging | None

    @classmethod
    def of(
        cls,
        table: TableSnapshot,
        changes: Sequence[FileGroupChange],
        change: CommittedChange | None = None,
        *,
        with_columns: bool = False,
        merger: HoodieRecordMerger | None = None,
    ) -> SliceKeys:
        """A reader of the keys of a table.

        Args:
            table: The table.
            changes: The changes whose slices will be read.
            change: An inflight action whose files are read; None for none.
            with_columns: Whether columns beside keys are read, too.
            merger: The record merger that the writer names, in a table that merges by one.

        Raises:
            HoodieNotSupportedException: The table stores no record keys, or merges records in a way that hoodie does
                not know.
        """
        if not table.table_config.populate_meta_fields:
            raise HoodieNotSupportedException(
                f"{table.base_path} stores no record keys (hoodie.populate.meta.fields=false), and cannot have an "
                "index of them"
            )
        slices = [part for one in changes for part in (one.before, one.after) if part is not None]
        meta = [pa.field(name, pa.string()) for name in META_COLUMNS]
        is_plain = all(part.is_base_file_alone for part in slices)
        if is_plain and not with_columns:
            return cls(table.storage, pa.schema(meta), None)
        written = None if change is None else change.metadata.schema
        schema = pa.schema([*meta, *(table.load_schema() if written is None else to_arrow(written))])
        if is_plain:
            return cls(table.storage, schema, None)
        merging = LogMerging.of_table(table, schema, merger=merger)
        instants = merging.block_filter.instants
        if instants is not None and change is not None:
            time = change.instant_time
            instants_after = attrs.evolve(
                instants, completed=instants.completed | {time}, pending=instants.pending - {time}
            )
            merging = attrs.evolve(merging, block_filter=LogBlockFilter(instants_after))
        return cls(table.storage, schema, merging)

    def read(self, file_slice: FileSlice) -> pa.Array:
        """The keys (string) of the records of a slice, in any order; a key may occur several times.

        Args:
            file_slice: The slice.

        Raises:
            HoodieException: A file is missing or damaged, or records cannot be merged.
        """
        if file_slice.is_base_file_alone:
            with HoodieParquetReader(self.storage, file_slice.sole_base_file.path) as reader:
                return _one(reader.read_record_keys())
        return self._read_merged(file_slice)[0]

    def changed(self, change: FileGroupChange) -> tuple[pa.Array, pa.Array]:
        """The keys that a file group gained, and the keys that it lost; each once.

        Args:
            change: The change.

        Raises:
            HoodieException: See `read`.
        """
        before, after = change.before, change.after
        if after is None:
            return _NO_KEYS, _NO_KEYS if before is None else distinct_keys(self.read(before))
        if before is None:
            return distinct_keys(self.read(after)), _NO_KEYS
        if change.new_log_files and not change.deletes and not self._merges_by_class:
            gained = self._added(before, change.new_log_files)
            if gained is not None:
                return gained, _NO_KEYS
        if not change.deletes and before.is_base_file_alone and after.is_base_file_alone:
            gained = self._appended(before, after, change.row_count)
            if gained is not None:
                return gained, _NO_KEYS
        keys_before, keys_after = self.read(before), self.read(after)
        lost = left_out(keys_before, keys_after)
        if lost is not None:
            return _NO_KEYS, lost
        keys_before, keys_after = keys_before.unique(), keys_after.unique()
        gained = keys_after.filter(pc.invert(pc.is_in(keys_after, value_set=keys_before)))
        if len(keys_after) - len(gained) == len(keys_before):
            return gained, _NO_KEYS
        return gained, keys_before.filter(pc.invert(pc.is_in(keys_before, value_set=keys_after)))

    @property
    def _merges_by_class(self) -> bool:
        """Whether a user's class merges rows. Such a class may delete a row although no file has a delete."""
        return self.merging is not None and self.merging.merge_spec.merger is not None

    def _added(self, before: FileSlice, log_files: tuple[HoodieLogFile, ...]) -> pa.Array | None:
        """The keys of new log files that the slice lacks; None if a file has deletes, which may hide keys."""
        keys, deletes = self._read_merged(attrs.evolve(before, base_file=None, log_files=log_files))
        if deletes:
            return None
        if before.record_log_files:
            older, deletes = self._read_merged(attrs.evolve(before, base_file=None))
            if deletes:
                return None
            keys = keys.filter(pc.invert(pc.is_in(keys, value_set=older)))
        keys = keys.unique()
        if before.base_file is None or not len(keys):
            return keys
        with HoodieParquetReader(self.storage, before.base_file.path) as reader:
            stored = _stored(reader, keys)
        return keys.filter(pc.invert(pc.is_in(keys, value_set=stored))) if len(stored) else keys

    def _appended(self, before: FileSlice, after: FileSlice, count: int) -> pa.Array | None:
        """The keys of the last rows of a base file, if these are all that its previous version lacks.

        This is known without reading all keys. If the file has as many more rows as it has new ones, and the previous
        version has none of the keys of its last rows, nothing was deleted. Writers put new rows last; None if not so.

        Args:
            before: A base file.
            after: Its next version.
            count: The rows that were added.
        """
        with HoodieParquetReader(self.storage, after.sole_base_file.path) as new:
            rows, groups, missing_count = new.row_group_rows, list[int](), count
            for number in range(len(rows) - 1, -1, -1):
                if missing_count > 0:
                    groups.insert(0, number)
                    missing_count -= int(rows[number])
            keys = _one(new.read_record_keys(groups)) if groups else _NO_KEYS
            total = new.num_rows
        keys = keys[len(keys) - count :] if count <= len(keys) else _NO_KEYS
        distinct = distinct_keys(keys)
        if len(keys) != count or not count:
            return None
        with HoodieParquetReader(self.storage, before.sole_base_file.path) as old:
            if old.num_rows + count != total or len(_stored(old, distinct)):
                return None
        return distinct

    def _read_merged(self, file_slice: FileSlice) -> tuple[pa.Array, int]:
        """The keys of a slice with log files, and the number of deletes in its log files."""
        reading = HoodieFileGroupReader(
            HoodieReaderContext(self.storage, self.schema, [RECORD_KEY_META], self.merging), file_slice
        ).merged_rows()
        keys = [batch.column(0).cast(pa.string()) for batch in reading.batches(1 << 16)]
        return pa.concat_arrays([_NO_KEYS, *keys]), reading.counts.log_deletes


def _stored(reader: HoodieParquetReader, keys: pa.Array) -> pa.Array:
    """The given keys that a base file has. The key column is read only if the bloom filter may know one of them.

    Args:
        reader: An open reader of the file.
        keys: Distinct keys (string).
    """
    try:
        bloom_filter = reader.footer().bloom_filter
        if bloom_filter is not None:
            keys = keys.filter(pa.array(bloom_filter.might_contain(keys)))
    except (HoodieCorruptedDataException, HoodieKeyException, HoodieNotSupportedException):
        # A filter that cannot be used excludes no key.
        pass
    return keys.take(pa.array(reader.find_record_keys(keys)[0])) if len(keys) else keys


def _one(keys: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays([_NO_KEYS, *(chunk.cast(pa.string()) for chunk in keys.chunks)])
