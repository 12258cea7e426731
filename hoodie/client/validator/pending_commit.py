"""A commit that is written but not completed, and the table as it would be with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs
import pyarrow as pa

from hoodie.avro.schema_converters import to_arrow
from hoodie.client.write_result import HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroupId
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.query.arrow_reader import scan
from hoodie.query.planner import plan_of_slices
from hoodie.query.read_plan import ReadPlan, all_columns
from hoodie.query.table_query import Filters, TableQuery
from hoodie.storage.storage_path import join


class PendingCommit:
    """The argument of a validator: the outcome of a write, and the table without and with it.

    Args:
        snapshot: The table as it is now.
        result: The outcome of the write.
        metadata: The commit metadata, before it is stored.

    Attributes:
        result: The outcome of the write, with statistics and the records that failed.
        metadata: The commit metadata, before it is stored.
    """

    def __init__(self, snapshot: TableSnapshot, result: HoodieWriteResult, metadata: HoodieCommitMetadata) -> None:
        self.result = result
        self.metadata = metadata
        self._snapshot = snapshot
        self._loaded_view: HoodieTableFileSystemView | None = None

    def __repr__(self) -> str:
        return f"<PendingCommit {self.instant_time} of {self.base_path}>"

    @property
    def instant_time(self) -> str:
        """The instant that would be completed."""
        return self.result.instant_time

    @property
    def base_path(self) -> str:
        """The table's folder."""
        return self._snapshot.base_path

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths that the commit writes to or takes file groups from."""
        touched = {*self.metadata.partition_to_write_stats, *self.result.partition_to_replace_file_ids}
        return tuple(sorted(touched))

    def scan_before(
        self,
        columns: str | Sequence[str] | None = None,
        filters: Filters = None,
        *,
        only_touched: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows of the table as it is, as a stream.

        Args:
            columns: See `hoodie.read_table`.
            filters: See `hoodie.read_table`.
            only_touched: Read only `partitions`.
        """
        return self._scan(columns, filters, only_touched, is_after=False)

    def scan_after(
        self,
        columns: str | Sequence[str] | None = None,
        filters: Filters = None,
        *,
        only_touched: bool = False,
    ) -> pa.RecordBatchReader:
        """The rows of the table as it would be with this commit, as a stream; see `scan_before` for the arguments."""
        return self._scan(columns, filters, only_touched, is_after=True)

    def read_before(
        self, columns: str | Sequence[str] | None = None, filters: Filters = None, *, only_touched: bool = False
    ) -> pa.Table:
        """The rows of the table as it is, in memory; see `scan_before` for the arguments."""
        with self.scan_before(columns, filters, only_touched=only_touched) as reader:
            return reader.read_all()

    def read_after(
        self, columns: str | Sequence[str] | None = None, filters: Filters = None, *, only_touched: bool = False
    ) -> pa.Table:
        """The rows of the table as it would be with this commit, in memory; see `scan_before` for the arguments."""
        with self.scan_after(columns, filters, only_touched=only_touched) as reader:
            return reader.read_all()

    def _user_schema(self, is_after: bool) -> pa.Schema:
        """The user's columns; for a table that was never written, the columns of this commit."""
        stored = None if is_after else self._snapshot.load_avro_schema()
        stored = stored or self.metadata.schema
        return to_arrow(stored) if stored is not None else self._snapshot.load_schema()

    def _partitions(self, only_touched: bool) -> list[str]:
        if only_touched:
            return list(self.partitions)
        return sorted({*self._view.list_partitions(), *self.partitions})

    def _slices(self, partitions: Iterable[str], is_after: bool) -> list[FileSlice]:
        existing = set(self._view.list_partitions())
        partitions = list(partitions)
        self._view.load_partitions(partition for partition in partitions if partition in existing)
        found: list[FileSlice] = []
        for partition in partitions:
            slices: dict[HoodieFileGroupId, FileSlice] = {}
            if partition in existing:
                for file_slice in self._view.latest_file_slices(partition):
                    slices[HoodieFileGroupId(partition, file_slice.file_id)] = file_slice
            if is_after:
                for file_id in self.result.partition_to_replace_file_ids.get(partition, ()):
                    slices.pop(HoodieFileGroupId(partition, file_id), None)
                self._add_written(partition, slices)
            found += slices.values()
        return found

    def _add_written(self, partition: str, slices: dict[HoodieFileGroupId, FileSlice]) -> None:
        """Put the files of this commit into the slices of a partition."""
        for stat in self.metadata.partition_to_write_stats.get(partition, ()):
            if stat.path is None:
                continue
            path = join(self.base_path, stat.path)
            group = HoodieFileGroupId(partition, stat.file_id)
            if stat.is_log_file:
                slices[group] = slices[group].with_log_file(path, stat.file_size_bytes)
            else:
                slices[group] = FileSlice.of_base_file(partition, path, stat.file_size_bytes)

    @property
    def _view(self) -> HoodieTableFileSystemView:
        if self._loaded_view is None:
            self._loaded_view = self._snapshot.view()
        return self._loaded_view

    def _scan(
        self, columns: str | Sequence[str] | None, filters: Filters, only_touched: bool, is_after: bool
    ) -> pa.RecordBatchReader:
        return scan(self._plan(TableQuery.of(columns=columns, filters=filters), only_touched, is_after))

    def _plan(self, query: TableQuery, only_touched: bool, is_after: bool, *, reads_footers: bool = True) -> ReadPlan:
        def slices_of(prune: Callable[[Sequence[str]], list[str]]) -> list[FileSlice]:
            return self._slices(prune(self._partitions(only_touched)), is_after)

        instants = self._snapshot.active_timeline.visible_instants
        if is_after:
            instants = attrs.evolve(instants, completed=instants.completed | {self.instant_time})
        return plan_of_slices(
            self._snapshot,
            query,
            all_columns(self._user_schema(is_after)),
            slices_of,
            LogBlockFilter.of(instants),
            reads_footers=reads_footers,
        )
