"""The context of a write for its tasks, as one frozen value made on the driver."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import attrs
import pyarrow as pa

from hoodie.common.model.column_range import WrittenColumnRanges
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.io.record_placement import RecordPlacement
from hoodie.keygen.generated_keys import GeneratedKeys
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage

if TYPE_CHECKING:
    from hoodie.io.merging_reader import LogMerging


@attrs.frozen
class WrittenRecords:
    """The records of a write: their columns, and how they are merged with stored ones.

    Attributes:
        schema: The user's columns as they are written, without meta columns.
        avro_schema: The writer schema with meta columns as Avro JSON, for the footer ``parquet.avro.schema``.
        merge_spec: The rule by which an incoming record is merged with a stored one.
        log_merging: The merge of the log files of a merge-on-read table.
    """

    schema: pa.Schema
    avro_schema: str
    merge_spec: MergeSpec
    log_merging: LogMerging | None = attrs.field(default=None, repr=False)


class RangesOfRows(Protocol):
    """Finds the ranges of columns of the rows of a log file, which the metadata table stores. Crosses to tasks."""

    def of_rows(self, rows: pa.RecordBatch, before: WrittenColumnRanges | None) -> WrittenColumnRanges:
        """The ranges of the rows of a file so far.

        Args:
            rows: Further rows, with all columns of the table, meta columns included.
            before: The ranges of the rows before them; None for the first rows, which may be none.
        """
        ...


@attrs.define(slots=False, frozen=True)
class WriteContext:
    """The table, the operation and the settings of a write, for handles and bucket handlers.

    It takes the place of Hudi's HoodieTable, which refers back to the client.

    Attributes:
        base_path: The table's folder.
        instant_time: The instant being written.
        operation: The operation being done.
        config: The writer's configuration.
        table_config: The table's own properties.
        records: The records that are written.
        placement: The placement of records by the index.
        ranges_of_rows: Finds the ranges of columns of log files; None if no index needs them.
    """

    base_path: str
    instant_time: str
    operation: WriteOperationType
    config: HoodieWriteConfig
    table_config: HoodieTableConfig
    records: WrittenRecords
    placement: RecordPlacement
    ranges_of_rows: RangesOfRows | None = None

    @property
    def has_virtual_keys(self) -> bool:
        """Whether the table stores only the file name of the meta columns (``hoodie.populate.meta.fields=false``)."""
        return not self.table_config.populate_meta_fields

    def with_record_keys(self, task_number: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of a task, with record keys for new rows where the table generates them.

        Args:
            task_number: See `GeneratedKeys`.
            batches: The rows in flight.
        """
        if not self.table_config.is_keyless:
            return batches
        return map(GeneratedKeys(self.instant_time, task_number).of_rows, batches)

    @cached_property
    def logging_mode(self) -> HoodieCDCSupplementalLoggingMode | None:
        """The part of each change that the table stores; None if it stores no change data."""
        return self.table_config.logging_mode

    @cached_property
    def storage(self) -> HoodieStorage:
        """The table's storage, opened once in each process."""
        return open_storage(self.base_path, self.config.storage_options, self.config.retry.policy)

    @cached_property
    def schema_with_meta(self) -> pa.Schema:
        """The schema of base files: Hudi's five meta columns, then the user's."""
        return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *self.records.schema])
