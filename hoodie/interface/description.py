"""A table at one look: what it is, what it holds, and which of its services lag."""

from __future__ import annotations

import attrs

from hoodie.common.model.key_generator_type import GENERATED_KEYS
from hoodie.common.model.supplemental_logging_mode import logging_mode_of
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action, HoodieInstant
from hoodie.common.util.shown_table import ShownTable, format_bytes, plural
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.query.arrow_reader import count
from hoodie.query.change_planner import earliest_begin
from hoodie.query.planner import plan_of
from hoodie.query.table_query import TableQuery
from hoodie.table.action.savepoint.savepoint_action_executor import savepoints

COUNTED_FILES = 1000
"""Rows are counted by the footers of so many files at most."""
_FIRST_RELEASES = {6: "Hudi 0.14", 8: "Hudi 1.0", 9: "Hudi 1.1"}
"""Table version -> the first release of Hudi that reads it. Source: org.apache.hudi.common.table.HoodieTableVersion."""
_SERVICES = {Action.CLEAN: "clean", Action.ROLLBACK: "rollback", Action.RESTORE: "restore"}


@attrs.frozen
class DescribedColumn:
    """A column of a table.

    Attributes:
        name: Its name.
        type: Its Arrow type as text.
        is_nullable: Whether it may hold nulls.
    """

    name: str
    type: str
    is_nullable: bool


@attrs.frozen(kw_only=True, repr=False)
class TableDescription:
    """The facts of a table at one moment; prints as a list, one line for each fact.

    Sizes are in bytes.

    Attributes:
        path: Its folder.
        name: ``hoodie.table.name``.
        table_type: ``COPY_ON_WRITE`` or ``MERGE_ON_READ``.
        table_version: 6, 8 or 9.
        record_key_fields: The columns that identify a row.
        is_keyless: Whether there are none, and the record keys are generated.
        partition_fields: The columns that name folders.
        ordering_fields: The columns whose larger value wins.
        columns: The user's columns; empty if the table was never written and created without them.
        partition_count: The number of partitions.
        file_group_count: The number of file groups with rows.
        base_file_count: The number of newest base files.
        log_file_count: The number of log files on top of them.
        live_bytes: The size of the newest slices, which a query reads.
        log_bytes: The size of the log files among them.
        old_bytes: The size of older slices, and of replaced file groups, which a clean deletes one day.
        small_file_count: Base files below ``hoodie.parquet.small.file.limit``.
        row_count: The rows, counted by the footers of the base files. None where log files may add or remove some, or
            there are more than 1,000 files: ``Table.count`` reads them.
        newest_commit: The newest completed write; None if there is none.
        instant_count: The instants of the active timeline.
        pending: The instants that are not completed, the oldest first.
        newest_services: ``clean``, ``compaction``, ``rollback``, ``restore`` -> the newest completed one.
        savepoints: The commits with a savepoint.
        metadata_partitions: The partitions of the metadata table that are ready.
        change_logging_mode: The part of each change that the table stores; None for a table that stores none.
        earliest_changes: The earliest time at which a range of changes can begin; ``earliest`` for the beginning, None
            if the table has no commit or tells no changes.
    """

    path: str
    name: str
    table_type: str
    table_version: int
    record_key_fields: tuple[str, ...]
    is_keyless: bool
    partition_fields: tuple[str, ...]
    ordering_fields: tuple[str, ...]
    columns: tuple[DescribedColumn, ...]
    partition_count: int
    file_group_count: int
    base_file_count: int
    log_file_count: int
    live_bytes: int
    log_bytes: int
    old_bytes: int
    small_file_count: int
    row_count: int | None
    newest_commit: str | None
    instant_count: int
    pending: tuple[str, ...]
    newest_services: dict[str, str]
    savepoints: tuple[str, ...]
    metadata_partitions: tuple[str, ...]
    change_logging_mode: str | None
    earliest_changes: str | None

    @property
    def readers(self) -> str:
        """The first release of Hudi that reads the table."""
        return f"{_FIRST_RELEASES[self.table_version]} and later"

    def __repr__(self) -> str:
        return f"<TableDescription of {self.path!r}: {self._rows_and_size}>"

    def __str__(self) -> str:
        return self.shown.to_text()

    def _repr_html_(self) -> str:
        return self.shown.to_html()

    @property
    def _rows_and_size(self) -> str:
        rows = "rows not counted" if self.row_count is None else plural(self.row_count, "row")
        return f"{rows}, {format_bytes(self.live_bytes)} in {plural(self.file_group_count, 'file group')}"

    @property
    def _files(self) -> str:
        text = plural(self.base_file_count, "base file")
        if self.log_file_count:
            text += f", {plural(self.log_file_count, 'log file')} ({format_bytes(self.log_bytes)})"
        if self.small_file_count:
            share = round(100 * self.small_file_count / self.base_file_count)
            text += f"; {share}% of the base files are small"
        return text

    @property
    def _changes(self) -> str | None:
        if self.earliest_changes is None:
            return None
        how = "by comparison of rows" if self.change_logging_mode is None else f"stored ({self.change_logging_mode})"
        return f"{how}, since {self.earliest_changes}"

    @property
    def shown(self) -> ShownTable:
        """The table to print."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        facts = [
            ("path", self.path),
            ("record key", ", ".join(self.record_key_fields) or (GENERATED_KEYS if self.is_keyless else None)),
            ("partitioned by", ", ".join(self.partition_fields) or None),
            ("ordered by", ", ".join(self.ordering_fields) or None),
            ("columns", columns or None),
            ("holds", f"{self._rows_and_size} of {plural(self.partition_count, 'partition')}"),
            ("files", self._files),
            ("old versions", format_bytes(self.old_bytes)),
            ("newest commit", self.newest_commit),
            ("timeline", f"{plural(self.instant_count, 'instant')} not archived"),
            ("pending", ", ".join(self.pending) or None),
            *((f"newest {name}", time) for name, time in self.newest_services.items()),
            ("savepoints", ", ".join(self.savepoints) or None),
            ("metadata table", ", ".join(self.metadata_partitions) or None),
            ("changes", self._changes),
            ("read by", self.readers),
        ]
        name = f"{self.name}, {self.table_type}, version {self.table_version}"
        return ShownTable(("table", name), facts, len(facts), max_rows=len(facts), max_cell_width=200)


def describe(table: TableSnapshot, config: HoodieWriteConfig) -> TableDescription:
    """Describe a table.

    Args:
        table: The table.
        config: A writer's configuration, for the size below which a file is small.

    Raises:
        HoodieCorruptedDataException: A savepoint or the newest commit is damaged.
        HoodieIOException: Storage failed.
    """
    stored, timeline = table.table_config, table.active_timeline
    view = table.view()
    partitions = view.list_partitions()
    view.load_partitions(partitions)
    live = [file_slice for path in partitions for file_slice in view.latest_file_slices(path)]
    every = [file_slice for path in partitions for group in view.all_file_groups(path) for file_slice in group.slices]
    bases = [file_slice.base_file for file_slice in live if file_slice.base_file is not None]
    logs = [log_file for file_slice in live for log_file in file_slice.record_log_files]
    live_bytes = sum(file_slice.size_bytes for file_slice in live)
    avro_schema = table.load_avro_schema()
    columns = [] if avro_schema is None else list(table.load_schema())
    completed = timeline.filter_completed_instants()
    newest = timeline.completed_writes().last_instant
    return TableDescription(
        path=table.base_path,
        name=stored.table_name,
        table_type=str(stored.table_type),
        table_version=stored.table_version,
        record_key_fields=stored.record_key_fields,
        is_keyless=stored.is_keyless,
        partition_fields=stored.partition_fields,
        ordering_fields=stored.ordering_fields,
        columns=tuple(DescribedColumn(field.name, str(field.type), field.nullable) for field in columns),
        partition_count=len(partitions),
        file_group_count=len(live),
        base_file_count=len(bases),
        log_file_count=len(logs),
        live_bytes=live_bytes,
        log_bytes=sum(log_file.size_bytes for log_file in logs),
        old_bytes=sum(file_slice.size_bytes for file_slice in every) - live_bytes,
        small_file_count=sum(base.size_bytes < config.compaction.parquet_small_file_limit for base in bases),
        row_count=None if logs or len(bases) > COUNTED_FILES else count(plan_of(table, TableQuery.of(columns=[]))),
        newest_commit=None if newest is None else newest.requested_time,
        instant_count=len(timeline),
        pending=tuple(f"{instant.action} {instant.requested_time}" for instant in timeline.filter_pending()),
        newest_services=_newest_services(table, list(completed)),
        savepoints=tuple(savepoint.instant_time for savepoint in savepoints(timeline)),
        metadata_partitions=stored.metadata_partitions,
        change_logging_mode=logging_mode_of(stored.properties),
        earliest_changes=earliest_begin(table),
    )


def _newest_services(table: TableSnapshot, completed: list[HoodieInstant]) -> dict[str, str]:
    found = {}
    for action, name in _SERVICES.items():
        times = [instant.requested_time for instant in completed if instant.action is action]
        if times:
            found[name] = times[-1]
    if str(table.table_config.table_type) == "MERGE_ON_READ":
        times = [instant.requested_time for instant in completed if instant.action is Action.COMMIT]
        if times:
            found["compaction"] = times[-1]
    return found
