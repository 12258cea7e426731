"""The outcome of a write.

Hudi: org.apache.hudi.client.HoodieWriteResult.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.model.write_status import RecordError, WithoutEffect, WriteStatus
from hoodie.common.util.shown_table import MAX_ROWS, ShownTable, format_bytes, plural
from hoodie.metrics.metrics import StepDuration

SHOWN_ERRORS = 3
"""The number of failed records that are shown."""


@attrs.define
class CommitState:
    """The state of an instant after it was written; the only part of a result that changes.

    The client that commits the instant sets it, and copies of the result share it.

    Attributes:
        is_committed: See `HoodieWriteResult.is_committed`.
        completion_time: See `HoodieWriteResult.completion_time`.
        service_errors: See `HoodieWriteResult.service_errors`.
    """

    is_committed: bool = False
    completion_time: str | None = None
    service_errors: tuple[str, ...] = ()


@attrs.frozen(repr=False)
class HoodieWriteResult:
    """The outcome of one write. Iterates over its `WriteStatus`es, one for each written file; prints as a table.

    Counts are numbers of records. The statistics in the commit (`HoodieWriteStat`) are as Hudi defines them. Records
    without effect appear only here and in the logged summary.

    Attributes:
        instant_time: The instant.
        operation: The operation.
        statuses: One for each written file.
        commit_metadata: The metadata that the commit stores, or would store.
        partition_to_replace_file_ids: File groups that the commit replaces.
        without_effect: Incoming records that changed no stored value.
        steps: The steps of the write and their durations; ``docs/progress-and-metrics.md`` lists them.
        commit_state: The state of the instant since then; see `is_committed` and `service_errors`.
    """

    instant_time: str
    operation: WriteOperationType
    statuses: tuple[WriteStatus, ...]
    commit_metadata: HoodieCommitMetadata
    partition_to_replace_file_ids: Mapping[str, Sequence[str]] = attrs.field(factory=dict)
    without_effect: WithoutEffect = attrs.field(factory=WithoutEffect)
    steps: tuple[StepDuration, ...] = ()
    commit_state: CommitState = attrs.field(factory=CommitState)

    def __iter__(self) -> Iterator[WriteStatus]:
        return iter(self.statuses)

    def __len__(self) -> int:
        return len(self.statuses)

    def __bool__(self) -> bool:
        return True

    @property
    def is_committed(self) -> bool:
        """Whether the instant was completed, by the write itself (auto-commit) or by a call of `commit`.

        A later rollback or restore does not change it.
        """
        return self.commit_state.is_committed

    @property
    def completion_time(self) -> str | None:
        """The completion time of the instant, 17 digits. Incremental queries of tables of versions 8 and 9 name it.

        None until it is committed, and in tables of version 6, whose timelines hold no such times.
        """
        return self.commit_state.completion_time if self.is_committed else None

    @property
    def service_errors(self) -> tuple[str, ...]:
        """Errors after the commit, in a callback or in services of the table or of its metadata table.

        The commit stands, and the next run of the service continues its work.
        """
        return self.commit_state.service_errors

    @property
    def error_count(self) -> int:
        """Records that failed."""
        return sum(status.error_count for status in self.statuses)

    @property
    def has_errors(self) -> bool:
        """Whether a record failed."""
        return self.error_count > 0

    @property
    def errors(self) -> list[RecordError]:
        """Failed records, at most 100 for each file."""
        return [error for status in self.statuses for error in status.errors]

    @property
    def written_count(self) -> int:
        """Records that were inserted, updated or appended."""
        return self.inserted_count + self.updated_count + self.appended_count

    @property
    def inserted_count(self) -> int:
        """Records that are new."""
        return sum(status.stat.num_inserts for status in self.statuses)

    @property
    def updated_count(self) -> int:
        """Records that replaced a stored one; `unchanged_count` of them had the same values."""
        return sum(status.stat.num_update_writes for status in self.statuses) - self.appended_count

    @property
    def appended_count(self) -> int:
        """Records that were appended to log files without a look-up of their key: they are new, or updates.

        A bucket index (``hoodie.index.type=BUCKET``) of a merge-on-read table appends so. The commit stores them as
        updates, as Hudi does.
        """
        return sum(status.appended_count for status in self.statuses)

    @property
    def unchanged_count(self) -> int:
        """Updates with the same values as the stored record, in all columns; the record was written again.

        Floats are compared bit by bit. Such a record gets this instant's ``_hoodie_commit_time`` nevertheless.
        """
        return self.without_effect.unchanged

    @property
    def ignored_count(self) -> int:
        """Records that were ignored because the stored record of their key is newer: its ordering value is larger.

        If the table's payload class orders records in another way, such as by a log position, that order counts. Marked
        deletes (``_hoodie_is_deleted``) that came late are included.
        """
        return self.without_effect.ignored

    @property
    def kept_count(self) -> int:
        """Records whose stored record stays, because your record merger kept it, or because the write is an insert that
        drops keys in the table (``hoodie.datasource.insert.dup.policy=drop``).

        Dropped records are not counted where an engine joined keys that take more than 64 MiB together.
        """
        return self.without_effect.kept

    @property
    def unmatched_delete_count(self) -> int:
        """Deletes without effect: their key is not in the table, or the operation is an insert, which looks no keys up.

        The prepped operations, whose records carry their location, do not count them.
        """
        return self.without_effect.unmatched_deletes

    @property
    def combined_count(self) -> int | None:
        """Records that were dropped in favour of another record with the same key in the same input.

        None if they were not counted: Spark joined keys that take more than 64 MiB together, or a bulk insert combined
        its input.
        """
        return self.without_effect.combined

    @property
    def deleted_count(self) -> int:
        """Stored records that were deleted."""
        return sum(status.stat.num_deletes for status in self.statuses)

    @property
    def written_bytes(self) -> int:
        """The size of the written files, in bytes."""
        return sum(status.stat.total_write_bytes for status in self.statuses)

    @property
    def summary(self) -> str:
        """The outcome in one line."""
        parts = ", ".join(self._figures())
        state = "committed" if self.is_committed else "not committed"
        note = f"; failed after the commit: {'; '.join(self.service_errors)}" if self.service_errors else ""
        return f"{self.operation.value} {self.instant_time}: {parts} ({state}{note})"

    def __repr__(self) -> str:
        return f"<HoodieWriteResult {self.summary}>"

    def __str__(self) -> str:
        return self._table.to_text()

    def _repr_html_(self) -> str:
        return self._table.to_html()

    @property
    def _table(self) -> ShownTable:
        largest = sorted(self.statuses, key=lambda s: (-s.stat.file_size_bytes, s.partition_path, s.file_id))
        hidden = [status.stat for status in largest[MAX_ROWS:]]
        inserted, updated = sum(stat.num_inserts for stat in hidden), sum(stat.num_update_writes for stat in hidden)
        deleted, size = sum(stat.num_deletes for stat in hidden), sum(stat.file_size_bytes for stat in hidden)
        changed = "updated or appended" if self.appended_count else "updated"
        return ShownTable(
            title=(self.summary,),
            header=("partition", "file group", "kind", "inserted", changed, "deleted", "rows", "bytes"),
            rows=[
                (
                    status.partition_path,
                    status.file_id,
                    _kind(status.stat),
                    status.stat.num_inserts,
                    status.stat.num_update_writes,
                    status.stat.num_deletes,
                    status.stat.num_writes,
                    status.stat.file_size_bytes,
                )
                for status in largest[:MAX_ROWS]
            ],
            count=len(largest),
            rest=f"{inserted:,} inserted, {updated:,} {changed}, {deleted:,} deleted, {format_bytes(size)}",
            notes=tuple(f"failed: {error.record_key}: {error.reason}" for error in self.errors[:SHOWN_ERRORS]),
        )

    def _figures(self) -> list[str]:
        counts = self.without_effect
        figures = [f"{self.inserted_count:,} inserted"]
        if self.updated_count or counts.ignored or counts.kept:
            unchanged = f" ({counts.unchanged:,} unchanged)" if counts.unchanged else ""
            figures.append(f"{self.updated_count:,} updated{unchanged}")
        if self.appended_count:
            figures.append(f"{self.appended_count:,} appended (new or updates)")
        others = [
            (self.deleted_count, f"{self.deleted_count:,} deleted"),
            (counts.ignored, f"{counts.ignored:,} ignored as older"),
            (counts.kept, f"{counts.kept:,} kept as stored"),
            (counts.unmatched_deletes, f"{plural(counts.unmatched_deletes, 'delete')} found nothing"),
            (counts.combined, f"{plural(counts.combined or 0, 'duplicate')} combined"),
            (self.error_count, f"{self.error_count:,} failed"),
            (len(self.statuses), plural(len(self.statuses), "file")),
            (self.written_bytes, plural(self.written_bytes, "byte")),
        ]
        return figures + [text for count, text in others if count]


def _kind(stat: HoodieWriteStat) -> str:
    """The kind of a change: a file group is new, rewritten or appended to."""
    if stat.is_log_file:
        return "appended"
    return "new" if stat.prev_commit == NULL_COMMIT else "rewritten"
