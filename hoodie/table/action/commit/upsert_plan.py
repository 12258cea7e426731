"""The plan of an upsert: what it would do, before it writes a byte.

Hudi has nothing like it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import attrs
import pyarrow as pa

from hoodie.common.data.schema_compatibility import ColumnChange
from hoodie.common.model.record_columns import BUCKET, CURRENT_FILE_ID, OPERATION
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.shown_table import MAX_ROWS, ShownTable, format_bytes, plural
from hoodie.index.index_report import Decision, FileGroupLook, IndexReport
from hoodie.metrics.metrics import StepDuration
from hoodie.table.action.commit.bucket_info import BucketInfo, BucketType

SMALL_FILE = "small file"
"""The reason of a file group that holds none of the keys and gets new records."""
NEW_FILE_GROUP = "new"
"""The reason of a file group that does not exist yet."""

_KINDS = ("updates", "deletes", "inserts", "updates_or_inserts")


@attrs.frozen
class PlannedFileGroup:
    """One file group that the upsert would write.

    Attributes:
        partition_path: Its partition.
        file_id: Its id. For a new file group the beginning of an id; the upsert makes another one.
        is_new: Whether it does not exist yet.
        is_appended: Whether its records are appended in a log file; its base file stays as it is.
        reason: Why it is touched: the check that showed that it holds incoming keys
            (`hoodie.index.index_report.Decision`), ``small file`` or ``new``.
        updates: Records whose key it holds. Some of them may be older than the stored record, and change nothing.
        deletes: Records that ask for a delete of a key that it holds, and records that move from it to another
            partition. With the reason ``hash`` the file group may not hold the key.
        inserts: New records.
        updates_or_inserts: Records that are an update or an insert. With the reason ``hash`` the index knows the file
            group of a key, but not whether the key is stored.
        bytes_to_rewrite: The size of its base file, which is read and written again; 0 for a new file group, and for
            one that is appended to.
    """

    partition_path: str
    file_id: str
    is_new: bool
    reason: str
    updates: int
    deletes: int
    inserts: int
    updates_or_inserts: int
    bytes_to_rewrite: int
    is_appended: bool = False


@attrs.frozen(repr=False)
class UpsertPlan:
    """The file groups that an upsert of some records would touch; prints as a table.

    The planner of the upsert makes it, on the table as it is now. Two things are known only while files are written, so
    the plan lacks them: a file group that overflows opens another one, and new files that are too small are joined.

    Attributes:
        base_path: The table.
        index: The index that looked the keys up, such as ``BLOOM``.
        records: The number of records in the input.
        file_groups: The file groups that would be written, the one with the most bytes to rewrite first.
        index_report: The work of the index for finding the keys; the upsert does that work again.
        record_size: The expected size of a new record, in bytes.
        steps: The steps of the planning and their durations.
        column_changes: Columns of the input that the table lacks or has with another type, and their treatment.
        folders_not_listed: The number of partitions whose files the metadata table listed.
    """

    base_path: str
    index: str
    records: int
    file_groups: tuple[PlannedFileGroup, ...]
    index_report: IndexReport
    record_size: int
    steps: tuple[StepDuration, ...] = ()
    column_changes: tuple[ColumnChange, ...] = ()
    folders_not_listed: int = 0

    @property
    def rewritten(self) -> tuple[PlannedFileGroup, ...]:
        """The file groups whose base file is written again."""
        return tuple(group for group in self.file_groups if not group.is_new and not group.is_appended)

    @property
    def appended(self) -> tuple[PlannedFileGroup, ...]:
        """The file groups whose changes are appended in log files."""
        return tuple(group for group in self.file_groups if group.is_appended)

    @property
    def new(self) -> tuple[PlannedFileGroup, ...]:
        """The file groups that do not exist yet."""
        return tuple(group for group in self.file_groups if group.is_new)

    @property
    def bytes_to_rewrite(self) -> int:
        """The total size of the base files that are read and written again."""
        return sum(group.bytes_to_rewrite for group in self.file_groups)

    @property
    def bytes_to_add(self) -> int:
        """The expected size of the new records. With ``hash`` their number is not known, and they do not count."""
        return self.inserts * self.record_size

    @property
    def updates(self) -> int:
        """Records whose key is in the table. A key that is stored twice counts twice."""
        return sum(group.updates for group in self.file_groups)

    @property
    def deletes(self) -> int:
        """Stored records that would be deleted."""
        return sum(group.deletes for group in self.file_groups)

    @property
    def inserts(self) -> int:
        """New records."""
        return sum(group.inserts for group in self.file_groups)

    @property
    def updates_or_inserts(self) -> int:
        """Records that are an update or an insert; only the write finds out whether their keys are in the table."""
        return sum(group.updates_or_inserts for group in self.file_groups)

    @property
    def untouched(self) -> tuple[FileGroupLook, ...]:
        """File groups that the index judged and that stay as they are; ``decided_by`` names the check that decided."""
        written = {(group.partition_path, group.file_id) for group in self.file_groups}
        looks = self.index_report.file_groups
        return tuple(look for look in looks if (look.partition_path, look.file_id) not in written)

    @property
    def summary(self) -> str:
        """The plan in one line."""
        rewritten, appended, new = len(self.rewritten), len(self.appended), len(self.new)
        if not self.file_groups:
            return f"upsert of {plural(self.records, 'record')} would write no file"
        parts = []
        if appended:
            parts.append(f"append to {plural(appended, 'file group')}")
        if rewritten:
            parts.append(f"rewrite {plural(rewritten, 'file group')} ({format_bytes(self.bytes_to_rewrite)})")
        if new:
            parts.append(f"start {plural(new, 'file group')}")
        return f"upsert of {plural(self.records, 'record')} would {' and '.join(parts)}"

    def __repr__(self) -> str:
        return self._table.to_text()

    def _repr_html_(self) -> str:
        return self._table.to_html()

    @property
    def _table(self) -> ShownTable:
        kinds = [kind for kind in _KINDS if kind != "updates_or_inserts" or self.updates_or_inserts]
        shown, hidden = self.file_groups[:MAX_ROWS], self.file_groups[MAX_ROWS:]
        rest = [f"{sum(getattr(group, kind) for group in hidden):,} {_title(kind)}" for kind in kinds]
        rewritten = format_bytes(sum(group.bytes_to_rewrite for group in hidden))
        figures = ", ".join(f"{getattr(self, kind):,} {_title(kind)}" for kind in kinds)
        return ShownTable(
            title=(self.summary, f"{figures} into {self.base_path}, index {self.index}"),
            header=("partition", "file group", "reason", *map(_title, kinds), "rewritten bytes"),
            rows=[
                (
                    group.partition_path,
                    "(new)" if group.is_new else group.file_id,
                    group.reason,
                    *(getattr(group, kind) for kind in kinds),
                    group.bytes_to_rewrite,
                )
                for group in shown
            ],
            count=len(self.file_groups),
            rest=", ".join([*rest, f"{rewritten} rewritten"]),
            notes=self._notes(),
        )

    def _notes(self) -> tuple[str, ...]:
        report = self.index_report
        notes = [f"column {change}" for change in self.column_changes[:MAX_ROWS]]
        if len(self.column_changes) > MAX_ROWS:
            notes.append(
                f"{plural(len(self.column_changes) - MAX_ROWS, 'more column')} of other types than the table's"
            )
        untouched = self.untouched
        if untouched:
            by = ", ".join(f"{count:,} by {reason}" for reason, count in IndexReport(untouched).decided.items())
            stay = "stays as it is" if len(untouched) == 1 else "stay as they are"
            notes.append(f"{plural(len(untouched), 'file group')} of those looked at {stay}: {by}")
        work = [f"{plural(len(report.file_groups), 'file group')} judged" if report.file_groups else "none"]
        if report.footers_read:
            work.append(plural(report.footers_read, "footer") + " read")
        if report.filters_read:
            work.append(plural(report.filters_read, "bloom filter") + " read")
        if report.files_read:
            work.append(f"keys of {plural(report.files_read, 'file')} read")
        if report.row_groups_skipped:
            read = report.row_groups_read
            work.append(f"{plural(read, 'row group')} of {read + report.row_groups_skipped:,}")
        notes.append(f"index work: {', '.join(work)}")
        if self.folders_not_listed:
            notes.append(f"the metadata table saves the listing of {plural(self.folders_not_listed, 'folder')}")
        return tuple(notes)


def plan_file_groups(
    buckets: Iterable[BucketInfo], counts: pa.Table, report: IndexReport
) -> tuple[PlannedFileGroup, ...]:
    """The file groups that buckets write, the one with the most bytes to rewrite first.

    Args:
        buckets: The partitioner's buckets, by number.
        counts: Numbers of rows that go to each bucket: bucket, current file id, operation and ``count``.
        report: The report of the index.
    """
    looks = {(look.partition_path, look.file_id): look for look in report.file_groups}
    columns = (counts[name].to_pylist() for name in (BUCKET, CURRENT_FILE_ID, OPERATION, "count"))
    dealt: dict[int, Counter[str]] = defaultdict(Counter)
    buckets = tuple(buckets)
    for number, file_id, operation, count in zip(*columns, strict=True):
        bucket = buckets[number]
        look = looks.get((bucket.partition_path, bucket.file_id))
        if file_id is None or bucket.bucket_type is BucketType.INSERT:
            kind = "inserts"
        elif operation != RecordOperation.UPSERT:
            kind = "deletes"
        else:
            is_hash = look is not None and look.decided_by == Decision.HASH and look.found is None
            kind = "updates_or_inserts" if is_hash else "updates"
        dealt[number][kind] += count
    groups = [
        PlannedFileGroup(
            partition_path=bucket.partition_path,
            file_id=bucket.file_id,
            is_new=bucket.bucket_type is BucketType.INSERT,
            reason=_reason(bucket, dealt[number], looks),
            bytes_to_rewrite=_bytes_to_rewrite(bucket),
            is_appended=bucket.log_place is not None and bucket.bucket_type is BucketType.UPDATE,
            **{kind: dealt[number][kind] for kind in _KINDS},
        )
        for number, bucket in enumerate(buckets)
    ]
    return tuple(sorted(groups, key=lambda g: (-g.bytes_to_rewrite, -g.inserts, g.partition_path, g.file_id)))


def _bytes_to_rewrite(bucket: BucketInfo) -> int:
    if bucket.file_slice is None or bucket.log_place is not None:
        return 0
    return bucket.file_slice.sole_base_file.size_bytes


def _reason(bucket: BucketInfo, dealt: Counter[str], looks: Mapping[tuple[str, str], FileGroupLook]) -> str:
    found = sum(dealt[kind] for kind in _KINDS if kind != "inserts")
    look = looks.get((bucket.partition_path, bucket.file_id))
    if look is not None and (found or look.decided_by == Decision.HASH):
        return look.decided_by
    if bucket.bucket_type is BucketType.INSERT:
        return NEW_FILE_GROUP
    return "index" if found else SMALL_FILE


def _title(kind: str) -> str:
    return kind.replace("_", " ")
