"""Delete rows by their places.

Hudi: org.apache.hudi.table.action.commit.SparkDeletePreppedCommitActionExecutor.
"""

from __future__ import annotations

import attrs
import pyarrow as pa

from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    FILE_NAME_META,
    OPERATION,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    reserved_field,
)
from hoodie.common.model.write_operation_type import RecordOperation, WriteOperationType
from hoodie.common.table.partition_metadata import check_partition_path
from hoodie.engine.data import HoodieData
from hoodie.exception import HoodieDeleteException, HoodieKeyException, HoodieNotSupportedException
from hoodie.io.write_context import WriteContext
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.table.table import HoodieTable

ROW_POSITION = "_hoodie_row_position"
"""Column of `StoredRows`: the number of the row in its base file, from 0."""
_IN_FLIGHT = pa.schema(
    [
        reserved_field(name)
        for name in (
            RECORD_KEY, PARTITION_PATH, OPERATION, CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION
        )
    ]
)  # fmt: skip


@attrs.frozen(eq=False)
class StoredRows:
    """Rows of base files, by their places.

    Attributes:
        rows: Columns ``_hoodie_record_key``, ``_hoodie_partition_path``, ``_hoodie_file_name`` (string) and
            ``_hoodie_row_position`` (int64, the number of the row in its base file, from 0).
        unchanged: Partition path and name of more base files that must still be the newest of their file groups.
    """

    rows: pa.Table
    unchanged: frozenset[tuple[str, str]] = frozenset()

    def in_flight(self) -> pa.RecordBatch:
        """The rows as a batch in flight.

        Raises:
            HoodieKeyException: A column is missing, or something in it is no place.
        """
        names = (RECORD_KEY_META, PARTITION_PATH_META, FILE_NAME_META, ROW_POSITION)
        missing = [name for name in names if name not in self.rows.column_names]
        if missing:
            raise HoodieKeyException(f"the rows to delete do not say where they are: {', '.join(missing)} is missing")
        keys, paths, files, positions = (self.rows[name].combine_chunks() for name in names)
        if any(column.null_count for column in (keys, paths, files, positions)):
            raise HoodieKeyException(f"the rows to delete have nulls in {', '.join(names)}")
        for path in paths.unique().to_pylist():
            check_partition_path(path)
        parsed = [parse_base_file_name(name) for name in files.to_pylist()]
        bad = next((name for name, found in zip(files.to_pylist(), parsed, strict=True) if found is None), None)
        if bad is not None:
            raise HoodieKeyException(f"'{bad}' in {FILE_NAME_META} is no name of a base file; read the rows again")
        operations = pa.array([int(RecordOperation.DELETE)] * len(parsed), pa.int8())
        instants = pa.array([name.instant_time for name in parsed if name is not None], pa.string())
        file_ids = pa.array([name.file_id for name in parsed if name is not None], pa.string())
        columns = [keys, paths, operations, instants, file_ids, positions.cast(pa.int64())]
        return pa.RecordBatch.from_arrays(columns, schema=_IN_FLIGHT)


class DeletePreppedCommitActionExecutor(BaseCommitActionExecutor):
    """Delete rows by their places; of a key that stands at several places only the row of the place goes.

    Args:
        unchanged: See `StoredRows`.

    Other arguments are those of `BaseCommitActionExecutor`.

    Hudi: org.apache.hudi.table.action.commit.SparkDeletePreppedCommitActionExecutor. Differs: takes the number of a
        row, so that of rows of one key in one file some may stay.
    """

    operation = WriteOperationType.DELETE_PREPPED
    # A delete in a log file would delete every row of the key.
    rewrites = True

    def __init__(
        self,
        table: HoodieTable,
        write_context: WriteContext,
        key_generator: KeyGenerator | None,
        unchanged: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        super().__init__(table, write_context, key_generator)
        self._unchanged = unchanged

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        with self._metrics.step("build workload profile") as step:
            counts = records.count_by([PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME])
            self._refuse_changed_files(counts)
            partitioner = self._plan_buckets(records, counts, step)
        return HoodieWriteMetadata(self.operation, self._write_buckets(records, partitioner))

    def _refuse_changed_files(self, counts: pa.Table) -> None:
        """Places are rows of base files: these must be the newest of their file groups."""
        columns = (counts[name].to_pylist() for name in (PARTITION_PATH, CURRENT_FILE_ID, CURRENT_INSTANT_TIME))
        named = set(zip(*columns, strict=True))
        for partition_path, file_name in self._unchanged:
            name = parse_base_file_name(file_name)
            if name is not None:
                named.add((partition_path, name.file_id, name.instant_time))
        slices = self._latest_file_slices(sorted({partition_path for partition_path, _, _ in named}))
        with_logs = [part for group in slices.values() for part in group if not part.is_base_file_alone]
        appended = [part for part in with_logs if (part.partition_path, part.file_id) in {(p, f) for p, f, _ in named}]
        if appended:
            raise HoodieNotSupportedException(
                f"rows are to be deleted by their places in base files, and {len(appended)} of the file groups have "
                f"log files, such as {appended[0].file_id} of partition '{appended[0].partition_path}': compact the "
                "table first; nothing was deleted"
            )
        known = {(path, part.file_id, part.base_instant_time) for path, group in slices.items() for part in group}
        changed = sorted(named - known)
        if changed:
            partition_path, file_id, instant_time = changed[0]
            raise HoodieDeleteException(
                f"{len(changed)} base files are not the newest of their file groups any more, such as that of "
                f"{file_id} of instant {instant_time} in partition '{partition_path}': the table was changed since "
                "they were read. Read them again; nothing was deleted"
            )
