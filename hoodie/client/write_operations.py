"""The executor, action, error and result of each write operation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hoodie.avro.timeline_metadata import HoodieRequestedReplaceMetadata
from hoodie.client.write_result import SHOWN_ERRORS, HoodieWriteResult
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.timeline.active_timeline import Content
from hoodie.common.table.timeline.instant import Action, commit_action
from hoodie.common.table.timeline.instant_time import in_order
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_layout import TimelineLayout
from hoodie.exception import (
    HoodieDeleteException,
    HoodieInsertException,
    HoodieNotSupportedException,
    HoodieUpsertException,
    HoodieWriteException,
)
from hoodie.index.index import HoodieIndex
from hoodie.metadata.records.key_look_up import KeyLookUp, KeyScope
from hoodie.metrics.metrics import StepDuration
from hoodie.table.action.commit.base_commit_action_executor import BaseCommitActionExecutor
from hoodie.table.action.commit.bulk_insert_commit_action_executor import (
    BulkInsertCommitActionExecutor,
    BulkInsertPreppedCommitActionExecutor,
)
from hoodie.table.action.commit.delete_commit_action_executor import DeleteCommitActionExecutor
from hoodie.table.action.commit.delete_partition_commit_action_executor import DeletePartitionCommitActionExecutor
from hoodie.table.action.commit.delete_prepped_commit_action_executor import DeletePreppedCommitActionExecutor
from hoodie.table.action.commit.insert_commit_action_executor import (
    InsertCommitActionExecutor,
    InsertPreppedCommitActionExecutor,
)
from hoodie.table.action.commit.insert_overwrite_commit_action_executor import (
    InsertOverwriteCommitActionExecutor,
    InsertOverwriteTableCommitActionExecutor,
)
from hoodie.table.action.commit.upsert_commit_action_executor import (
    UpsertCommitActionExecutor,
    UpsertPreppedCommitActionExecutor,
)
from hoodie.table.action.write_metadata import HoodieWriteMetadata
from hoodie.transaction.concurrent_operation import WriteStart

EXECUTORS: dict[WriteOperationType, type[BaseCommitActionExecutor]] = {
    WriteOperationType.UPSERT: UpsertCommitActionExecutor,
    WriteOperationType.INSERT: InsertCommitActionExecutor,
    WriteOperationType.BULK_INSERT: BulkInsertCommitActionExecutor,
    WriteOperationType.DELETE: DeleteCommitActionExecutor,
    WriteOperationType.UPSERT_PREPPED: UpsertPreppedCommitActionExecutor,
    WriteOperationType.INSERT_PREPPED: InsertPreppedCommitActionExecutor,
    WriteOperationType.BULK_INSERT_PREPPED: BulkInsertPreppedCommitActionExecutor,
    WriteOperationType.INSERT_OVERWRITE: InsertOverwriteCommitActionExecutor,
    WriteOperationType.INSERT_OVERWRITE_TABLE: InsertOverwriteTableCommitActionExecutor,
    WriteOperationType.DELETE_PARTITION: DeletePartitionCommitActionExecutor,
    WriteOperationType.DELETE_PREPPED: DeletePreppedCommitActionExecutor,
}
_ERRORS: dict[WriteOperationType, type[HoodieWriteException]] = {
    WriteOperationType.UPSERT: HoodieUpsertException,
    WriteOperationType.UPSERT_PREPPED: HoodieUpsertException,
    WriteOperationType.DELETE: HoodieDeleteException,
    WriteOperationType.DELETE_PARTITION: HoodieDeleteException,
    WriteOperationType.DELETE_PREPPED: HoodieDeleteException,
}
"""The error of each operation; all others insert."""
_ASK_THE_INDEX = frozenset({WriteOperationType.UPSERT, WriteOperationType.DELETE})
"""Operations that ask the index for all of their keys."""


def check_operation(operation: WriteOperationType | str | None) -> None:
    """Refuse what is no operation.

    Raises:
        HoodieNotSupportedException: There is no such operation.
    """
    if operation is not None and str(operation).upper() not in EXECUTORS:
        raise HoodieNotSupportedException(
            f"operation {operation} is not supported: {', '.join(sorted(o.value for o in EXECUTORS))} are"
        )


def action_of(operation: WriteOperationType | str | None, table_type: HoodieTableType) -> Action:
    """The action of an operation's instant.

    Args:
        operation: One that `check_operation` accepts; None for one that adds or changes rows.
        table_type: The type of the table.
    """
    if operation is None:
        return commit_action(table_type)
    return EXECUTORS[WriteOperationType(str(operation).upper())].action_on(table_type)


def requested_content(action: Action, operation: WriteOperationType | str | None, layout: TimelineLayout) -> Content:
    """The content that Hudi writes to the requested file of a write without a plan.

    Args:
        action: The action of the instant.
        operation: The operation to come; None if it is not known.
        layout: The layout of the timeline; only Hudi 1.x names the operation.
    """
    if action is not Action.REPLACE_COMMIT:
        return b""
    deletes = str(operation).upper() == WriteOperationType.DELETE_PARTITION.value
    if deletes and layout.has_completion_times:
        return HoodieRequestedReplaceMetadata(WriteOperationType.DELETE_PARTITION.value, None, {}, 1)
    return HoodieRequestedReplaceMetadata()


def replaces_all(operation: WriteOperationType | str | None) -> bool:
    """Whether the operation replaces all file groups, so that the new ones may have another bucket layout."""
    return str(operation).upper() == WriteOperationType.INSERT_OVERWRITE_TABLE.value.upper()


def key_look_up(
    operation: WriteOperationType, index: HoodieIndex, start: WriteStart | None, timeline: HoodieTimeline
) -> KeyLookUp:
    """The places that a writer has searched for the keys that it adds, and the writes that were completed since.

    Args:
        operation: The operation of the write.
        index: The writer's index.
        start: The table when its write began; None if that is not known.
        timeline: The table's timeline now, under the lock.
    """
    if start is None or operation not in _ASK_THE_INDEX:
        return KeyLookUp()
    others = timeline.completed_writes().times - start.completed - start.compactions
    return KeyLookUp(KeyScope.TABLE if index.is_global else KeyScope.PARTITION, tuple(in_order(others)))


def make_result(
    instant_time: str,
    metadata: HoodieWriteMetadata,
    extra_metadata: Mapping[str, str],
    steps: tuple[StepDuration, ...],
) -> HoodieWriteResult:
    """Build the result of a write that is not committed yet.

    Args:
        instant_time: The write's instant.
        metadata: The outcome of the executor.
        extra_metadata: Extra metadata that the commit stores, including the schema.
        steps: The duration of each step.
    """
    stats: dict[str, list[HoodieWriteStat]] = {}
    for status in metadata.statuses:
        stats.setdefault(status.partition_path, []).append(status.stat)
    fields: dict[str, Any] = {
        "partition_to_write_stats": {path: tuple(group) for path, group in sorted(stats.items())},
        "extra_metadata": extra_metadata,
        "operation_type": metadata.operation,
    }
    if EXECUTORS[metadata.operation].replaces:
        replaced = {path: tuple(ids) for path, ids in sorted(metadata.partition_to_replace_file_ids.items())}
        commit_metadata: HoodieCommitMetadata = HoodieReplaceCommitMetadata(
            **fields, partition_to_replace_file_ids=replaced
        )
    else:
        commit_metadata = HoodieCommitMetadata(**fields)
    return HoodieWriteResult(
        instant_time=instant_time,
        operation=metadata.operation,
        statuses=tuple(metadata.statuses),
        commit_metadata=commit_metadata,
        partition_to_replace_file_ids=metadata.partition_to_replace_file_ids,
        without_effect=sum((status.without_effect for status in metadata.statuses), metadata.without_effect),
        steps=steps,
    )


def refuse_errors(result: HoodieWriteResult, way_out: str) -> None:
    """Raise if records failed.

    Args:
        result: The write's result.
        way_out: The end of the message: what the caller can do about it.

    Raises:
        HoodieWriteException: Records failed; the class is that of the operation.
    """
    if result.has_errors:
        shown = "; ".join(f"{error.record_key}: {error.reason}" for error in result.errors[:SHOWN_ERRORS])
        raise _ERRORS.get(result.operation, HoodieInsertException)(
            f"{result.error_count} records of instant {result.instant_time} failed ({shown}){way_out}"
        )
