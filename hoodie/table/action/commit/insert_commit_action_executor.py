"""Insert records, filling small files first.

Hudi: org.apache.hudi.table.action.commit.{SparkInsertCommitActionExecutor, SparkInsertPreppedCommitActionExecutor}.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hoodie.common.model.record_columns import DECIDING_COLUMNS, PARTITION_PATH, ROW_NUMBER
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.config.write_options import InsertDupPolicy
from hoodie.engine.data import HoodieData
from hoodie.table.action.commit.inserts_read_twice import InsertsReadTwice
from hoodie.table.action.write_metadata import HoodieWriteMetadata


class InsertCommitActionExecutor(InsertsReadTwice):
    """Insert records without looking their keys up in the table; small files are filled first.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT

    is_prepped: ClassVar[bool] = False

    def execute(self, records: HoodieData) -> HoodieWriteMetadata:
        write = self._config.write
        policy = self._duplicates_policy
        combines = (write.combine_before_insert and not self.is_prepped) or policy is InsertDupPolicy.DROP
        records = self._limited(records, write.insert_shuffle_parallelism)
        is_of_user = self._table.index.names_file_groups and self._write_context.placement.verifies_positions
        if not is_of_user:
            if policy is InsertDupPolicy.NONE:
                execute = partial(self._insert_reading_twice, combines=combines)
            else:
                execute = partial(self._insert_new_keys, policy=policy)
            written = self._without_keeping(records, execute)
            if written is not None:
                return written
        records = records.number_rows(ROW_NUMBER).persist(DECIDING_COLUMNS)
        looks_up = policy is not InsertDupPolicy.NONE
        try:
            keys, counts, number = self._read_input(records, [PARTITION_PATH], collects=looks_up)
            if looks_up and keys is None and not is_of_user:
                written = self._insert_kept(records, policy)
                if written is not None:
                    return written
            new, given = self._without_stored(records, policy, keys, counts, number)
            if not looks_up:
                self._latest_file_slices(counts[PARTITION_PATH].to_pylist())
            return self._write_inserts(self._placed(self._combine(new, combines), counts), given)
        finally:
            records.unpersist()
            self._release_shared()

    @property
    def _duplicates_policy(self) -> InsertDupPolicy:
        """The policy for keys that are in the table."""
        return InsertDupPolicy.NONE if self.is_prepped else self._config.write.duplicates_of_inserts


class InsertPreppedCommitActionExecutor(InsertCommitActionExecutor):
    """Insert records that need no combining and no look-up.

    Hudi: org.apache.hudi.table.action.commit.SparkInsertPreppedCommitActionExecutor.
    """

    operation = WriteOperationType.INSERT_PREPPED
    is_prepped = True
