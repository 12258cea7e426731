"""Find keys that have several rows, and keep one row of each.

Such rows come from two inserts of one key, or from two writers that no lock kept apart.

Hudi: org.apache.hudi.cli.DeDupeType, org.apache.hudi.cli.commands.RepairsCommand.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.record_columns import (
    COMMIT_SEQNO_META,
    COMMIT_TIME_META,
    FILE_NAME_META,
    META_COLUMNS,
    PARTITION_PATH_META,
    RECORD_KEY_META,
)
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.config.index_config import IndexType
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.io.file_group_reader import HoodieFileGroupReader
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.merge.ordering_values import ordering_column, ordering_type, sortable
from hoodie.merge.payload_rules import MergeMode
from hoodie.storage.storage_options import StorageOptions
from hoodie.table.action.commit.delete_prepped_commit_action_executor import ROW_POSITION, StoredRows
from hoodie.table.action.commit.replaced_file_groups import check_partition_paths
from hoodie.table.repair.repaired_table import RepairedTable, RepairResult, check_flags

logger = logging.getLogger(__name__)

_ORDERING = "ordering_value"


class _Committed(Protocol):
    @property
    def instant_time(self) -> str: ...

    @property
    def is_committed(self) -> bool: ...


class DuplicatesWriter(Protocol):
    """The write client of `drop_duplicates`: a `HoodieLocalWriteClient` or a `SparkRDDWriteClient`."""

    @property
    def config(self) -> HoodieWriteConfig:
        """The configuration of the client."""

    def delete_prepped_records(self, rows: StoredRows) -> _Committed:
        """Delete rows by their places, and commit that."""


@attrs.frozen
class DuplicateRow:
    """One of several rows of a key.

    Attributes:
        record_key: The key.
        partition_path: The partition that the row is in.
        file_name: Its base file, or the last log file of a file group without one.
        row_position: Number of the row in it, from 0; of a file group with log files, among its merged rows.
        commit_time: The instant that wrote the row.
        ordering_value: Its value in the table's ordering field; a tuple of the values of several fields; None without
            one, and where the table merges by commit time.
        is_kept: Whether this row stays.
    """

    record_key: str
    partition_path: str
    file_name: str
    row_position: int
    commit_time: str
    ordering_value: Any
    is_kept: bool


@attrs.frozen(repr=False)
class DuplicateKeys(RepairResult):
    """The duplicate rows that were found, and the commit that deleted them.

    Attributes:
        base_path: The table.
        rows: All rows of keys that live more than once; rows of one key stand together, the kept one first.
        instant_time: The commit that deleted all but the kept rows; None where nothing was changed.
    """

    base_path: str
    rows: tuple[DuplicateRow, ...]
    instant_time: str | None = None

    @property
    def key_count(self) -> int:
        """The number of keys that live more than once."""
        return sum(row.is_kept for row in self.rows)

    @property
    def dropped(self) -> tuple[DuplicateRow, ...]:
        """The rows that are, or would be, deleted."""
        return tuple(row for row in self.rows if not row.is_kept)

    @property
    def headline(self) -> str:
        """See `RepairResult`."""
        done = "would be deleted" if self.instant_time is None else f"deleted by commit {self.instant_time}"
        text = f"{self.key_count} keys of {self.base_path} live more than once"
        return f"{text}; {len(self.dropped)} rows {done}" if self.rows else text

    @property
    def table(self) -> SummaryTable[DuplicateRow]:
        """See `RepairResult`."""
        return SummaryTable(DuplicateRow, self.rows)


def find_duplicates(
    table: str | HoodieWriteConfig,
    *,
    partitions: Iterable[str] | None = None,
    across_partitions: bool = False,
    storage_options: StorageOptions | None = None,
) -> DuplicateKeys:
    """Find keys that live more than once; nothing is changed.

    The row with the largest ordering value stays. Among equal values, and where the table merges by commit time, the
    row of the latest commit stays, and among these the row that was written last. Memory: keys and ordering values of
    one partition, or of all.

    Args:
        table: The table's folder, or the configuration of its writers.
        partitions: Partition paths to look at; None for all.
        across_partitions: Whether a key may live in one partition only, as with a global index.
        storage_options: Options of the storage, where the folder is given.

    Raises:
        TableNotFoundException: There is no table.
        HoodieNotSupportedException: The table stores no record keys, or has another feature that hoodie cannot judge.
    """
    check_flags(across_partitions=across_partitions)
    repaired = RepairedTable.open(table, storage_options)
    return _find(repaired.snapshot, partitions, across_partitions)


def drop_duplicates(
    client: DuplicatesWriter,
    *,
    partitions: Iterable[str] | None = None,
    across_partitions: bool = False,
    dry_run: bool = False,
) -> DuplicateKeys:
    """Delete all rows of a key but one, as a commit of its own; see `find_duplicates` for which one stays.

    The commit deletes all the rows or none: rows are deleted by their places, and only when neither their files nor
    those of the rows that stay were changed since they were read. Like any other commit it can be rolled back, and the
    old files stay until they are cleaned.

    Args:
        client: Writes the commit.
        partitions: See `find_duplicates`.
        across_partitions: See `find_duplicates`. Let no other writer write meanwhile: one that replaces a partition at
            that moment may delete the row that stays.
        dry_run: Change nothing, and report what would be done.

    Raises:
        HoodieConfigException: The client leaves commits to its caller, or is no write client.
        HoodieNotSupportedException: The table stores no record keys; or its file groups are buckets of keys, and a key
            lives in several of them; or one of the rows is in a file group with log files.
        HoodieDeleteException: The table was changed meanwhile; call again.
        HoodieWriteConflictException: Another writer's commit conflicts, as with other writes.
    """
    check_flags(across_partitions=across_partitions, dry_run=dry_run)
    if not hasattr(client, "config"):
        raise HoodieConfigException(
            f"drop_duplicates writes a commit: give it a client, such as HoodieLocalWriteClient(config), not {client!r}"
        )
    if not client.config.write.auto_commit and not dry_run:
        raise HoodieConfigException(
            f"drop_duplicates commits what it deletes from {client.config.base_path}, and hoodie.auto.commit = false "
            "leaves commits to the caller: give a client that commits by itself"
        )
    repaired = RepairedTable.open(client.config)
    found = _find(repaired.snapshot, partitions, across_partitions)
    if repaired.config.index.index_type is IndexType.BUCKET and repaired.config.index.index_class is None:
        _refuse_several_buckets(found)
    if dry_run or not found.rows:
        return found
    _refuse_log_files(repaired.snapshot, found)
    dropped = found.dropped
    rows = pa.table(
        {
            RECORD_KEY_META: pa.array([row.record_key for row in dropped], pa.string()),
            PARTITION_PATH_META: pa.array([row.partition_path for row in dropped], pa.string()),
            FILE_NAME_META: pa.array([row.file_name for row in dropped], pa.string()),
            ROW_POSITION: pa.array([row.row_position for row in dropped], pa.int64()),
        }
    )
    kept = frozenset((row.partition_path, row.file_name) for row in found.rows if row.is_kept)
    result = client.delete_prepped_records(StoredRows(rows, kept))
    logger.info("deleted %d rows of keys that lived twice in %s", len(dropped), found.base_path)
    return attrs.evolve(found, instant_time=result.instant_time)


def _refuse_several_buckets(found: DuplicateKeys) -> None:
    files: dict[tuple[str, str], str] = {}
    for row in found.rows:
        if files.setdefault((row.partition_path, row.record_key), row.file_name) != row.file_name:
            raise HoodieNotSupportedException(
                f"the key '{row.record_key}' of {found.base_path} lives in {row.file_name} and in another file, but "
                "with the bucket index a key has one bucket: somebody wrote with another index or number of buckets. "
                "Delete the key and write it again"
            )


def _refuse_log_files(snapshot: TableSnapshot, found: DuplicateKeys) -> None:
    """Refuse rows of file groups with log files: rows are deleted by their places in base files."""
    view = snapshot.view()
    for partition_path in dict.fromkeys(row.partition_path for row in found.rows):
        with_logs = {
            _file_name(part): part for part in view.latest_file_slices(partition_path) if not part.is_base_file_alone
        }
        for row in found.rows:
            if row.partition_path == partition_path and row.file_name in with_logs:
                raise HoodieNotSupportedException(
                    f"the key '{row.record_key}' of {found.base_path} lives more than once, and its file group "
                    f"{with_logs[row.file_name].file_id} of partition '{partition_path}' has log files, so its rows "
                    "have no places yet: compact the table, then call drop_duplicates again; nothing was deleted"
                )


def _find(snapshot: TableSnapshot, partitions: Iterable[str] | None, across_partitions: bool) -> DuplicateKeys:
    if not snapshot.table_config.populate_meta_fields:
        raise HoodieNotSupportedException(
            f"{snapshot.base_path} stores no record keys (hoodie.populate.meta.fields=false), so those that live "
            "twice cannot be found by them"
        )
    view = snapshot.view()
    paths = check_partition_paths(partitions) if partitions is not None else view.list_partitions()
    looked_at_once = [paths] if across_partitions else [[path] for path in paths]
    rows = [row for group in looked_at_once for row in _duplicates_in(snapshot, view, group)]
    return DuplicateKeys(snapshot.base_path, tuple(rows))


def _duplicates_in(
    snapshot: TableSnapshot, view: HoodieTableFileSystemView, partition_paths: Sequence[str]
) -> Iterator[DuplicateRow]:
    view.load_partitions(partition_paths)
    slices = [file_slice for path in partition_paths for file_slice in view.latest_file_slices(path)]
    if not slices:
        return
    counts_of_rows, codes = _keys_of(snapshot, slices)
    counts = np.bincount(codes, minlength=1)
    doubled = np.flatnonzero(counts > 1)
    if not len(doubled):
        return
    wanted = np.isin(codes, doubled)
    starts = np.concatenate([[0], np.cumsum(counts_of_rows)])
    tables = [
        _read_rows(snapshot, file_slice, np.flatnonzero(wanted[start:end]))
        for file_slice, start, end in zip(slices, starts[:-1], starts[1:], strict=True)
    ]
    order = [
        (RECORD_KEY_META, "ascending"), (_ORDERING, "descending"), (COMMIT_TIME_META, "descending"),
        (COMMIT_SEQNO_META, "descending"), (FILE_NAME_META, "descending"), (ROW_POSITION, "descending"),
    ]  # fmt: skip
    rows = pa.concat_tables([table for table in tables if table.num_rows], promote_options="permissive")
    # Nulls come last.
    sorted_by = rows
    if pa.types.is_struct(rows[_ORDERING].type):
        (numbers,) = sortable([rows[_ORDERING]])
        sorted_by = rows.drop_columns([_ORDERING]).append_column(_ORDERING, pa.array(numbers))
    indices = pc.sort_indices(sorted_by, sort_keys=order)
    before: str | None = None
    for row in rows.take(indices).to_pylist():
        yield DuplicateRow(
            record_key=row[RECORD_KEY_META],
            partition_path=row[PARTITION_PATH_META],
            file_name=row[FILE_NAME_META],
            row_position=row[ROW_POSITION],
            commit_time=row[COMMIT_TIME_META],
            ordering_value=tuple(row[_ORDERING].values()) if isinstance(row[_ORDERING], dict) else row[_ORDERING],
            is_kept=row[RECORD_KEY_META] != before,
        )
        before = row[RECORD_KEY_META]


def _keys_of(snapshot: TableSnapshot, slices: Sequence[FileSlice]) -> tuple[list[int], np.ndarray]:
    """The number of rows of each slice, and a code for each row, which is equal for equal keys."""
    chunks: list[pa.Array] = []
    counts: list[int] = []
    for file_slice in slices:
        if file_slice.base_file is not None and file_slice.is_base_file_alone:
            with HoodieParquetReader(snapshot.storage, file_slice.base_file.path) as reader:
                found = reader.read_record_keys().chunks
        else:
            batches = _reader(snapshot, file_slice, [RECORD_KEY_META]).iter_batches()
            found = [batch.column(0) for batch in batches]
        counts.append(sum(map(len, found)))
        chunks += found
    encoded = pa.chunked_array(chunks, pa.string()).cast(pa.large_string()).combine_chunks().dictionary_encode()
    codes: np.ndarray = encoded.indices.to_numpy()
    return counts, codes


def _reader(snapshot: TableSnapshot, file_slice: FileSlice, columns: Sequence[str]) -> HoodieFileGroupReader:
    """Reads columns of a slice, its log files merged."""
    user_schema = snapshot.load_schema()
    schema = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *user_schema])
    merging = None if file_slice.is_base_file_alone else LogMerging.of_table(snapshot, schema)
    return HoodieFileGroupReader(HoodieReaderContext(snapshot.storage, schema, columns, merging), file_slice)


def _file_name(file_slice: FileSlice) -> str:
    return file_slice.shown_path.rpartition("/")[2]


def _read_rows(snapshot: TableSnapshot, file_slice: FileSlice, positions: np.ndarray) -> pa.Table:
    """Some rows of a file slice: meta columns, position, ordering value."""
    config = snapshot.table_config
    fields = config.ordering_fields if config.merge_mode is not MergeMode.COMMIT_TIME_ORDERING else ()
    user_schema = snapshot.load_schema()
    if ordering_type(user_schema, fields) is None:
        fields = ()
    ordering = dict.fromkeys(top_level_name(user_schema, field) for field in fields)
    found, start = [], 0
    reader = _reader(snapshot, file_slice, [*META_COLUMNS, *ordering])
    for batch in reader.iter_batches() if len(positions) else ():
        low, high = np.searchsorted(positions, [start, start + batch.num_rows])
        if high > low:
            rows = batch.take(pa.array(positions[low:high] - start))
            value = ordering_column(rows, fields)
            columns = {name: rows.column(name) for name in (RECORD_KEY_META, COMMIT_TIME_META, COMMIT_SEQNO_META)}
            columns[PARTITION_PATH_META] = pa.array([file_slice.partition_path] * rows.num_rows, pa.string())
            columns[FILE_NAME_META] = pa.array([_file_name(file_slice)] * rows.num_rows, pa.string())
            columns[ROW_POSITION] = pa.array(positions[low:high], pa.int64())
            columns[_ORDERING] = value if value is not None else pa.nulls(rows.num_rows, pa.int8())
            found.append(pa.table(columns))
        start += batch.num_rows
    return pa.concat_tables(found) if found else pa.table({})
