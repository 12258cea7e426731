"""The outcome of one written file: its statistics and the records that failed.

Hudi: org.apache.hudi.client.WriteStatus (here, because handles below the client make them).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import attrs
import pyarrow as pa

from hoodie.common.model.column_range import WrittenColumnRanges
from hoodie.common.model.write_stat import HoodieWriteStat

MAX_REPORTED_ERRORS = 100
"""The maximum number of failed records that a `WriteStatus` names; their count stays exact."""

STATUS_SCHEMA = pa.schema([pa.field("status", pa.binary(), nullable=False)])
"""The schema of the rows that tasks return: each is one packed `TaskResult`."""


@attrs.frozen
class RecordError:
    """One record that failed, and the reason."""

    record_key: str
    partition_path: str
    reason: str


@attrs.frozen
class WithoutEffect:
    """Counts of incoming records that changed no stored value, by reason. Failed records are not included.

    A record whose key is stored twice meets two stored records, and counts twice, like an update.

    Attributes:
        ignored: Records whose stored record is newer by the table's rules.
        kept: Records whose stored record a record merger kept, and records that an insert dropped because their key is
            in the table.
        unchanged: Records that replaced a stored record with the same values. They were written again, so they count as
            updates too.
        unmatched_deletes: Deletes of keys that are not stored, and deletes by an operation that looks no keys up.
        combined: Records that were dropped in favour of another record with the same key in the same input; None if not
            known.

    Hudi has no such counts; they are not stored.
    """

    ignored: int = 0
    kept: int = 0
    unchanged: int = 0
    unmatched_deletes: int = 0
    combined: int | None = 0

    def __add__(self, other: WithoutEffect) -> WithoutEffect:
        is_known = self.combined is not None and other.combined is not None
        return WithoutEffect(
            self.ignored + other.ignored,
            self.kept + other.kept,
            self.unchanged + other.unchanged,
            self.unmatched_deletes + other.unmatched_deletes,
            (self.combined or 0) + (other.combined or 0) if is_known else None,
        )


@attrs.frozen
class WriteStatus:
    """The outcome of one file.

    Attributes:
        file_id: The file group.
        partition_path: Its partition.
        stat: The statistics for the commit metadata.
        total_record_count: The number of incoming records for this file.
        error_count: The number of records that failed.
        errors: The first `MAX_REPORTED_ERRORS` failed records.
        without_effect: Counts of incoming records that changed nothing in the file.
        appended_count: Records of a log file whose keys were not looked up: new ones, or updates. In the statistics
            they are updates, as Hudi counts them.
        column_ranges: The ranges of columns of a log file; None of other files, and if no index needs them.
    """

    file_id: str
    partition_path: str
    stat: HoodieWriteStat
    total_record_count: int = 0
    error_count: int = 0
    errors: tuple[RecordError, ...] = ()
    without_effect: WithoutEffect = attrs.field(factory=WithoutEffect)
    appended_count: int = 0
    column_ranges: WrittenColumnRanges | None = attrs.field(default=None, repr=False)

    @property
    def has_errors(self) -> bool:
        """Whether a record failed."""
        return self.error_count > 0


@attrs.frozen
class TaskFailure:
    """A user error that a task found; returned as a value, because an engine would retry after an exception.

    Attributes:
        error_class: The name of the class in `hoodie.exception` that the client raises.
        message: The whole message; of several failures of one kind the client shows the first.
        count: The number of affected rows.
    """

    error_class: str
    message: str
    count: int = 1


@attrs.frozen
class RowsSeen:
    """A fingerprint of the rows that came to tasks: two readings of one input saw the same rows if these are equal.

    Attributes:
        count: The number of rows.
        fingerprint: The hash of the columns that decide which rows are written, and where
            (`hoodie.engine.fingerprint`).
    """

    count: int = 0
    fingerprint: int = 0

    def __add__(self, other: RowsSeen) -> RowsSeen:
        return RowsSeen(self.count + other.count, (self.fingerprint + other.fingerprint) % (1 << 64))


@attrs.frozen
class ScatteredRows:
    """The result of a task that found the rows of a file group in several tasks, and gave up. The job's results
    are void.

    Attributes:
        file_id: The file group.
    """

    file_id: str


TaskResult = WriteStatus | TaskFailure | WithoutEffect | RowsSeen | ScatteredRows
"""The values of rows of `STATUS_SCHEMA`."""


def pack(values: Sequence[TaskResult]) -> pa.RecordBatch:
    """Pack statuses as rows of `STATUS_SCHEMA`, to send them from a task to the driver."""
    return pa.record_batch([pa.array([pickle.dumps(value) for value in values], pa.binary())], schema=STATUS_SCHEMA)


def unpack(table: pa.Table) -> list[TaskResult]:
    """Unpack the statuses in a table of `STATUS_SCHEMA`; only for tables from this application's own tasks."""
    return [pickle.loads(value) for value in table["status"].to_pylist()]
