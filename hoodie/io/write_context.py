"""The context of a write for its tasks, as one frozen value made on the driver."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.common.model.record_placement import RecordPlacement
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.io.written_keys import WrittenKeys
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_factory import open_storage
from hoodie.storage.storage_options import StorageOptions

if TYPE_CHECKING:
    from hoodie.io.merging_reader import LogMerging


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
        schema: The user's columns as they are written, without meta columns.
        avro_schema: The writer schema with meta columns as Avro JSON, for the footer ``parquet.avro.schema``.
        merge_spec: The merge of an incoming record with a stored one.
        placement: The placement of records by the index.
        written_keys: Collects the record keys that handles write, for an index in the same process; None without such
            an index.
        log_merging: The merge of log files, in a merge-on-read table.
        storage_options: Options and credentials of the storage; never printed.
    """

    base_path: str
    instant_time: str
    operation: WriteOperationType
    config: HoodieWriteConfig
    table_config: HoodieTableConfig
    schema: pa.Schema
    avro_schema: str
    merge_spec: MergeSpec
    placement: RecordPlacement = attrs.field(factory=RecordPlacement)
    written_keys: WrittenKeys | None = attrs.field(default=None, repr=False, eq=False)
    log_merging: LogMerging | None = attrs.field(default=None, repr=False)
    storage_options: StorageOptions | None = attrs.field(default=None, repr=False)

    @property
    def has_virtual_keys(self) -> bool:
        """Whether the table stores only the file name of the meta columns (``hoodie.populate.meta.fields=false``)."""
        return not self.table_config.populate_meta_fields

    @cached_property
    def storage(self) -> HoodieStorage:
        """The table's storage, opened once in each process."""
        return open_storage(self.base_path, self.storage_options, self.config.retry.policy)

    @cached_property
    def schema_with_meta(self) -> pa.Schema:
        """The schema of base files: Hudi's five meta columns, then the user's."""
        return pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *self.schema])
