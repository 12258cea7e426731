"""A table as a write sees it: its files, its configuration and its index, at one moment.

Hudi: org.apache.hudi.table.HoodieTable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import pyarrow as pa

from hoodie.common.config.storage_config import LogDataBlockFormat
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.model.write_operation_type import REWRITES, HoodieTableType, WriteOperationType
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.engine.engine_context import HoodieEngineContext
from hoodie.index.index import HoodieIndex, Locations
from hoodie.io.merging_reader import LogMerging
from hoodie.io.write_context import RangesOfRows, WriteContext, WrittenRecords
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.record_merger import named_merger
from hoodie.metadata.metadata_table import MetadataTable, MetadataTableUpkeep
from hoodie.metrics.metrics import HoodieMetrics


class HoodieTable:
    """State that the executors of one write share; it lives on the driver and never crosses to tasks.

    Args:
        context: The engine.
        config: The writer's configuration.
        snapshot: The table, its timeline loaded for this write.
        index: The index that finds keys.
        metrics: Times the steps.

    Hudi: org.apache.hudi.table.HoodieTable. Differs: holds no operations; executors take it.
    """

    def __init__(
        self,
        context: HoodieEngineContext,
        config: HoodieWriteConfig,
        snapshot: TableSnapshot,
        index: HoodieIndex,
        metrics: HoodieMetrics,
    ) -> None:
        self.context = context
        self.config = config
        self.snapshot = snapshot
        self.index = index
        self.metrics = metrics
        self.has_begun = False
        """Whether the write of this table has made its instant inflight: from then on files may exist."""
        self.found_locations: Locations | None = None
        """Where the keys of the input are stored, if they were looked up while the input was made."""
        self.view: HoodieTableFileSystemView = snapshot.view()

    @cached_property
    def merge_spec(self) -> MergeSpec:
        """The rule by which records of one key merge; a look-up of keys does not need it.

        Raises:
            HoodieNotSupportedException: The table merges records in a way that hoodie does not know.
        """
        payload = self.config.payload
        return MergeSpec.from_table_config(
            self.snapshot.table_config,
            delete_field=payload.delete_field,
            delete_marker=payload.delete_marker,
            merger=named_merger(payload.merger_class),
        )

    def latest_file_slices(self, partition_paths: Iterable[str]) -> dict[str, Sequence[FileSlice]]:
        """Partition path to its latest committed file slices; partitions that do not exist yet have none."""
        wanted = list(partition_paths)
        self.view.load_partitions(wanted)
        return {partition_path: self.view.latest_file_slices(partition_path) for partition_path in wanted}

    def latest_file_ids(self, partition_paths: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Partition path to the file ids that readers see there, log-only groups included."""
        wanted = list(partition_paths)
        self.view.load_partitions(wanted)
        return {path: tuple(group.file_group_id.file_id for group in self.view.file_groups(path)) for path in wanted}

    def completed_commits_newest_first(self) -> Iterator[HoodieCommitMetadata]:
        """Metadata of the completed commits of the active timeline, read one by one."""
        timeline = self.snapshot.active_timeline
        for instant in reversed(timeline.completed_writes().instants):
            yield timeline.read_commit_metadata(instant)

    def write_context(
        self, instant_time: str, operation: WriteOperationType, schema: pa.Schema, avro_schema_with_meta: str
    ) -> WriteContext:
        """Make the context that the tasks of a write need."""
        return WriteContext(
            base_path=self.snapshot.base_path,
            instant_time=instant_time,
            operation=operation,
            config=self.config,
            table_config=self.snapshot.table_config,
            records=WrittenRecords(schema, avro_schema_with_meta, self.merge_spec, self._log_merging(schema)),
            placement=self.index.record_placement(self.record_key_fields),
            ranges_of_rows=self._ranges_of_rows(operation, avro_schema_with_meta),
        )

    def _ranges_of_rows(self, operation: WriteOperationType, avro_schema: str) -> RangesOfRows | None:
        """Finds the ranges of columns of the log files that the write may make.

        A block of Parquet has them in its footer.
        """
        is_avro = self.config.storage.logfile_data_block_format == LogDataBlockFormat.AVRO
        is_merge_on_read = self.snapshot.table_config.table_type is HoodieTableType.MERGE_ON_READ
        if not is_avro or not is_merge_on_read or operation in REWRITES:
            return None
        upkeep = MetadataTableUpkeep(self.config.metadata, self.context)
        return MetadataTable(self.snapshot, upkeep).log_file_ranges(avro_schema)

    def _log_merging(self, schema: pa.Schema) -> LogMerging | None:
        if self.snapshot.table_config.table_type is not HoodieTableType.MERGE_ON_READ or not len(schema):
            return None
        return LogMerging.of_table(self.snapshot, schema, self.config.log_merge, merger=self.merge_spec.merger)

    @property
    def record_key_fields(self) -> tuple[str, ...]:
        """The fields that make a record's key: the table's, or the writer's where the table does not say."""
        return self.snapshot.table_config.record_key_fields or tuple(self.config.table.record_key_fields or ())
