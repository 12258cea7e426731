"""A handle that writes one log file of a file group.

Hudi: org.apache.hudi.io.HoodieAppendHandle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Self

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.fs.file_names import make_log_file_name
from hoodie.common.model.column_range import WrittenColumnRanges
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_ROW_POSITION,
    OPERATION,
    ORDERING_VALUE,
    RECORD_KEY,
)
from hoodie.common.model.write_operation_type import IOType, RecordOperation
from hoodie.common.model.write_stat import HoodieWriteStat, RuntimeStats
from hoodie.common.model.write_status import WriteStatus
from hoodie.common.table.timeline.instant_time import newest
from hoodie.engine.task_identity import TaskIdentity
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_file_owner import is_log_file_of
from hoodie.io.write_context import WriteContext
from hoodie.io.write_handle import HoodieWriteHandle, RowCounter
from hoodie.merge.ordering_values import one_array


@attrs.frozen
class LogPlace:
    """The place of the next log file of a file group that a delta commit appends. Crosses to tasks.

    Attributes:
        partition_path: The partition.
        file_id: The file group.
        instant_time: The instant in the file's name. Table version 6: the base instant of the slice, or the newest
            pending compaction of the file group, whose slice has no base file yet. Versions 8 and 9: the delta commit.
        version: The version in the file's name; higher ones follow if the file is full.
        is_of_commit: Whether the name has the delta commit's own instant (versions 8 and 9).
        previous: The base instant of the slice, for the statistics, where it differs from the instant in the name; else
            "".
        base_file: The name of the slice's base file, for the statistics; "" where Hudi stores none.
        log_files: Names of the log files before this one, for the statistics.
    """

    partition_path: str
    file_id: str
    instant_time: str
    version: int = 1
    is_of_commit: bool = False
    previous: str = ""
    base_file: str = ""
    log_files: tuple[str, ...] = ()

    def after(self, file_name: str) -> Self:
        """The place after a log file of this name, which was written here or exists already.

        Args:
            file_name: Its name.
        """
        return attrs.evolve(self, version=self.version + 1, log_files=(*self.log_files, file_name))


@attrs.frozen
class LogPlaces:
    """Finds the places of new log files.

    Table version 6 keeps a rule: once a compaction is planned, new log files of its file groups belong to the slice
    that it will make. Log files of the older slice would be lost with that slice.

    ::

        version 6     slice 10: f_10.parquet  .f_10.log.1    next: .f_10.log.2
                      compaction 20 is planned               next: .f_20.log.1
        versions 8, 9 slice 10: f_10.parquet  .f_12.log.1    delta commit 15: .f_15.log.1

    Attributes:
        instant_time: The delta commit.
        has_completion_times: Whether the table is of timeline layout 2 (versions 8 and 9).
        compactions: File groups of pending compactions, each with the instants of its compactions.
        names_slices: Whether statistics of layout 2 name the files of the slice, as those of version 6 do: where the
            table stores change data, readers find the changes of a log file by them.
    """

    instant_time: str
    has_completion_times: bool
    compactions: Mapping[HoodieFileGroupId, Collection[str]] = attrs.field(factory=dict)
    names_slices: bool = False

    def is_compacted(self, file_slice: FileSlice) -> bool:
        """Whether a pending compaction will rewrite the slice's file group."""
        return HoodieFileGroupId(file_slice.partition_path, file_slice.file_id) in self.compactions

    def of(self, file_slice: FileSlice) -> LogPlace:
        """The place of the next log file.

        Args:
            file_slice: The latest slice of a file group; if its compaction is pending, merged with the previous slice.
        """
        partition_path, file_id = file_slice.partition_path, file_slice.file_id
        if self.has_completion_times:
            place = self.first(partition_path, file_id)
            return self._with_slice(place, file_slice) if self.names_slices else place
        pending = newest(self.compactions.get(HoodieFileGroupId(partition_path, file_id), ()))
        slice_time = pending or file_slice.base_instant_time
        logs = [log_file for log_file in file_slice.log_files if log_file.instant_time == slice_time]
        base_file = file_slice.base_file
        return LogPlace(
            partition_path,
            file_id,
            slice_time,
            # The highest version over all write tokens: Hudi takes an instant and a version for one file.
            max((log_file.version for log_file in logs), default=0) + 1,
            base_file=base_file.file_name if base_file is not None and pending is None else "",
            log_files=tuple(log_file.file_name for log_file in logs),
        )

    @staticmethod
    def _with_slice(place: LogPlace, file_slice: FileSlice) -> LogPlace:
        """The place with the files of its slice.

        Source: HoodieAppendHandle.populateWriteStatAndFetchFileSlice. Differs: while a compaction is pending, the files
        that it rewrites are among them, so that the stored rows can be found when it is completed.
        """
        return attrs.evolve(
            place,
            previous=file_slice.base_instant_time,
            base_file=file_slice.base_file.file_name if file_slice.base_file is not None else "",
            log_files=tuple(log_file.file_name for log_file in file_slice.log_files),
        )

    def first(self, partition_path: str, file_id: str) -> LogPlace:
        """The place of the delta commit's first log file of a file group, which may be new; versions 8 and 9.

        Args:
            partition_path: The partition.
            file_id: The file group.
        """
        return LogPlace(partition_path, file_id, self.instant_time, is_of_commit=True)


class HoodieAppendHandle(HoodieWriteHandle):
    """Write one log file of a file group: its data blocks, then its delete blocks.

    The file appears as a whole when the handle is closed, and is never appended to. If another file has its name by
    then, it gets the next version: in table version 6 two writers may choose the same name.

    Rows have all columns of the table, meta columns included; ``_hoodie_file_name`` is the file id, as Hudi writes it.
    Nothing is merged here: readers merge new rows with stored ones by the table's rules.

    Memory: the file.

    Args:
        context: The write.
        place: The place of the file.
        task: The task that writes.
        row_counter: See `HoodieWriteHandle`.
        positions_of: The instant of the base file to which row positions of records refer. A block gets positions if
            all its records have one. None: no block gets positions.

    Hudi: org.apache.hudi.io.HoodieAppendHandle. Differs: one handle writes one file; if that is full, it returns the
    remaining rows, like `HoodieCreateHandle`.
    """

    def __init__(
        self,
        context: WriteContext,
        place: LogPlace,
        task: TaskIdentity,
        row_counter: RowCounter | None = None,
        positions_of: str | None = None,
    ) -> None:
        self.place = place
        self.io_type = IOType.CREATE if place.is_of_commit else IOType.APPEND
        super().__init__(context, place.partition_path, place.file_id, self._name(place, task), task, row_counter)
        self._positions_of = positions_of
        self._blocks: list[bytes] = []
        self._size_bytes = self._rows = 0
        self._ranges: WrittenColumnRanges | None = None
        self._is_open = False

    @staticmethod
    def _name(place: LogPlace, task: TaskIdentity) -> str:
        return make_log_file_name(place.file_id, place.instant_time, place.version, task.write_token)

    @property
    def next_place(self) -> LogPlace:
        """The place of the next log file of the file group, once this one is closed."""
        return self.place.after(self.file_name)

    def write(self, rows: pa.Table) -> pa.Table:
        """Append rows until the file has reached ``hoodie.logfile.max.size``.

        Args:
            rows: User columns of the write's schema (any order), the reserved record key and, where keys were looked
                up, the current file id and row position. A row without a file id is new. Rows that ask for a delete
                are allowed only if readers need their columns (`hoodie.merge.appended_rows.deletes_are_rows`).

        Returns:
            The rows for the next file; usually none.
        """
        storage = self.context.config.storage
        most_bytes = min(storage.logfile_data_block_max_size, storage.logfile_max_size)
        most_rows = max(1, most_bytes * rows.num_rows // max(1, rows.nbytes))
        done = 0
        while done < rows.num_rows and self._size_bytes < storage.logfile_max_size:
            part = rows.slice(done, most_rows)
            # A column above 2 GiB comes in several chunks, so this is a loop.
            for batch in part.combine_chunks().to_batches():
                self._append_rows(batch)
            done += part.num_rows
        self._records += done
        return rows.slice(done)

    def delete(self, rows: pa.Table) -> None:
        """Append the deletes of records.

        Args:
            rows: The reserved record key and operation, and the ordering value if the table has ordering fields. A
                plain delete has no ordering value, and deletes any stored row. The row position if it is known.
        """
        count = rows.num_rows
        ordering = None
        if ORDERING_VALUE in rows.column_names:
            values = one_array(rows[ORDERING_VALUE])
            is_plain = pc.equal(one_array(rows[OPERATION]), int(RecordOperation.DELETE))
            ordering = pc.if_else(is_plain, pa.scalar(None, values.type), values)
        self._add(
            encode_delete_blocks(
                one_array(rows[RECORD_KEY]),
                pa.repeat(self.partition_path, count),
                ordering,
                self.context.records.avro_schema,
                self.context.instant_time,
                self.context.config.storage.logfile_data_block_max_size,
                positions=self._positions(rows),
                positions_of=self._positions_of,
            )
        )
        self._deletes += count
        self._records += count

    def _append_rows(self, rows: pa.RecordBatch) -> None:
        good = self._errors.without_bad_records(rows)
        if not good.num_rows:
            return
        stored = pa.RecordBatch.from_arrays(self._new_rows(good), names=self.context.schema_with_meta.names)
        storage = self.context.config.storage
        self._add(
            encode_data_blocks(
                stored,
                self.context.records.avro_schema,
                self.context.instant_time,
                LogBlockFormat(storage.logfile_data_block_format),
                storage.logfile_data_block_max_size,
                positions=self._positions(good),
                positions_of=self._positions_of,
                config=storage,
            )
        )
        self._rows += good.num_rows
        if self.context.ranges_of_rows is not None:
            self._ranges = self.context.ranges_of_rows.of_rows(stored, self._ranges)
        # The other columns may be large.
        good = good.select([name for name in (OPERATION, CURRENT_FILE_ID, RECORD_KEY) if name in good.schema.names])
        if OPERATION in good.schema.names:
            count = good.num_rows
            good = good.filter(pc.equal(good.column(OPERATION), int(RecordOperation.UPSERT)))
            self._deletes += count - good.num_rows
        is_tagged = CURRENT_FILE_ID in good.schema.names
        new = good.column(CURRENT_FILE_ID).null_count if is_tagged else good.num_rows
        self._inserts += new
        self._updates += good.num_rows - new
        if self.context.placement.names_file_groups:
            # The index named the file group without looking for the key in it.
            self._appended += good.num_rows - new

    def close(self) -> WriteStatus:
        """See `HoodieWriteHandle.close`. The status has the ranges of columns an index needs, if they are small."""
        status = super().close()
        ranges = self._ranges
        if ranges is None or ranges.found.row_count != self._rows or not ranges.is_small:
            return status
        return attrs.evolve(status, column_ranges=ranges)

    def _positions(self, rows: pa.Table | pa.RecordBatch) -> npt.NDArray[np.int64] | None:
        """The row positions of the records in the base file; None if one of them is not known."""
        if self._positions_of is None or CURRENT_ROW_POSITION not in rows.schema.names:
            return None
        column = rows[CURRENT_ROW_POSITION]
        positions: npt.NDArray[np.int64] = column.to_numpy() if not column.null_count else np.full(1, -1)
        return positions if len(positions) and positions.min() >= 0 else None

    def _add(self, blocks: Iterable[bytes]) -> None:
        for block in blocks:
            self._blocks.append(block)
            self._size_bytes += len(block)

    @property
    def _stored_file_name(self) -> str:
        return self.file_id

    def _open_file(self) -> None:
        self._is_open = True

    def _close_file(self) -> tuple[int, int]:
        # Readers take every log file of a completed instant, so a late file must not appear even for a moment.
        if not self._is_wanted():
            raise self._too_late()
        content = self._blocks[0] if len(self._blocks) == 1 else b"".join(self._blocks)
        self._blocks.clear()
        while not self.context.storage.create_if_absent(self.path, content):
            self._move_on()
        self._is_open = False
        return self._rows, len(content)

    def _move_on(self) -> None:
        """Take the next version of the name, because another writer's file has this one."""
        taken = self.file_name
        self.place = self.place.after(taken)
        self._set_file_name(self._name(self.place, self.task))
        self._markers().create(self.partition_path, self.file_name, self.io_type)
        # The marker of the taken name must go: a rollback of this write would delete the other writer's file.
        self._markers().delete(self.partition_path, taken, self.io_type)

    def _abort_file(self) -> bool:
        was_open, self._is_open = self._is_open, False
        return was_open

    def _delete_file(self) -> None:
        # If storage failed during the creation of the file, another writer's file may have the name.
        if is_log_file_of(self.context.storage, self.path, self.context.instant_time):
            super()._delete_file()

    def _stat(self, rows: int, size_bytes: int, elapsed_ms: int) -> HoodieWriteStat:
        return attrs.evolve(
            super()._stat(rows, size_bytes, elapsed_ms),
            prev_commit=self.place.previous or self.place.instant_time,
            runtime_stats=RuntimeStats(total_upsert_time=elapsed_ms),
            base_file=self.place.base_file,
            log_files=(*self.place.log_files, self.file_name),
            log_version=self.place.version,
            log_offset=0,
        )
