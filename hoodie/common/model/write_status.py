"""What one written file came to: its statistics and the records that failed.

Hudi: org.apache.hudi.client.WriteStatus (here, because handles below the client make them).
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import attrs
import pyarrow as pa

from hoodie.common.model.write_stat import HoodieWriteStat

__all__ = [
    "MAX_REPORTED_ERRORS",
    "STATUS_SCHEMA",
    "RecordError",
    "TaskFailure",
    "WithoutEffect",
    "WriteStatus",
    "pack",
    "unpack",
]

MAX_REPORTED_ERRORS = 100
"""How many failed records a `WriteStatus` names; the count is exact beyond."""

STATUS_SCHEMA = pa.schema([pa.field("status", pa.binary(), nullable=False)])
"""The rows that bucket handlers yield: one packed `WriteStatus`, `TaskFailure` or `WithoutEffect` each."""


@attrs.frozen
class RecordError:
    """One record that failed, and why."""

    record_key: str
    partition_path: str
    reason: str


@attrs.frozen
class WithoutEffect:
    """Incoming records that changed no stored value, by reason. Failed records are not among them.

    A record whose key is stored twice meets two stored records, and counts twice, as updates do.

    Attributes:
        ignored: Those that met a stored record which the table's rules call newer.
        kept: Those that met a stored record which a record merger kept, and those of known keys that an insert
            dropped.
        unchanged: Those that replaced a stored record of the same values: it was written again, so they are counted as
            updates too.
        unmatched_deletes: Deletes that met no stored record, and those of an operation that looks for none.
        combined: Those that gave way to another record of their key in the same input; None where that is not known.

    Hudi has nothing like it; none of this is stored.
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
        stat: What goes into commit metadata.
        total_record_count: Incoming records that the file's handle was given.
        error_count: How many of them failed.
        errors: The first `MAX_REPORTED_ERRORS` of them.
        without_effect: Records that the file's handle was given and that changed nothing in it.
    """

    file_id: str
    partition_path: str
    stat: HoodieWriteStat
    total_record_count: int = 0
    error_count: int = 0
    errors: tuple[RecordError, ...] = ()
    without_effect: WithoutEffect = attrs.field(factory=WithoutEffect)

    @property
    def has_errors(self) -> bool:
        """Whether a record failed."""
        return self.error_count > 0


@attrs.frozen
class TaskFailure:
    """A mistake of the user that a task found: a value, because an engine would retry what is raised.

    Attributes:
        error_class: Name of the class in `hoodie.exception` that the client raises.
        message: The whole message; of several failures of one kind the client shows the first.
        count: How many rows are concerned.
    """

    error_class: str
    message: str
    count: int = 1


def pack(values: Sequence[WriteStatus | TaskFailure | WithoutEffect]) -> pa.RecordBatch:
    """Statuses as rows of `STATUS_SCHEMA`, to cross from a task to the driver."""
    return pa.record_batch([pa.array([pickle.dumps(value) for value in values], pa.binary())], schema=STATUS_SCHEMA)


def unpack(table: pa.Table) -> list[WriteStatus | TaskFailure | WithoutEffect]:
    """The statuses in a table of `STATUS_SCHEMA` that this application's own tasks made."""
    return [pickle.loads(value) for value in table["status"].to_pylist()]
