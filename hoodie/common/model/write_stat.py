"""Statistics of one written file, as commit metadata stores them.

Hudi: org.apache.hudi.common.model.HoodieWriteStat.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from hoodie.common.fs.file_names import parse_log_file_name

NULL_COMMIT = "null"
"""The value of ``prev_commit`` for the first file of a file group: the text "null", not a JSON null."""


@attrs.frozen
class RuntimeStats:
    """The milliseconds that writing one file took."""

    total_scan_time: int = 0
    total_upsert_time: int = 0
    total_create_time: int = 0


@attrs.frozen
class HoodieWriteStat:
    """Statistics of one file. The names are those of the JSON in snake_case (``numWrites`` is ``num_writes``).

    Attributes:
        file_id: The file group.
        path: The path relative to the base path, with the partition; None in an inflight profile.
        partition_path: "" for a table without partitions.
        prev_commit: The instant of the file group's previous base file, or `NULL_COMMIT`; for a log file, the instant
            in its name, or that of its slice if the table stores change data.
        num_writes: All rows of the new file.
        num_deletes: Rows of the old file that were deleted.
        num_update_writes: Rows of the old file that were replaced.
        num_inserts: New rows.
        total_write_bytes: Bytes written.
        total_write_errors: Records that failed.
        file_size_bytes: The size of the file (``fileSizeInBytes``); readers use it.
        min_event_time: The smallest event time in ms since the epoch; None if unknown.
        prev_base_file: The name of the file group's previous base file; None if there was none. Timeline layout 1 does
            not keep it.
        max_event_time: The largest event time in ms since the epoch; None if unknown.
        cdc_stats: For a base file, the path of the ``.cdc`` file of its changes, relative to the base path, to its
            size in bytes; None if there is none.
        base_file: For a log file, the name of its slice's base file; "" if there is none, and in timeline layout 2
            unless the table stores change data.
        log_files: For a log file, the names of the slice's log files up to this one; in layout 2 those of its commit,
            unless the table stores change data.
        log_version: For a log file, the version in its name.
        log_offset: For a log file, the offset of the commit's first block; 0, as hoodie never appends to a file.
    """

    file_id: str
    partition_path: str
    path: str | None = None
    prev_commit: str = NULL_COMMIT
    num_writes: int = 0
    num_deletes: int = 0
    num_update_writes: int = 0
    num_inserts: int = 0
    total_write_bytes: int = 0
    total_write_errors: int = 0
    total_log_records: int = 0
    total_log_files_compacted: int = 0
    total_log_size_compacted: int = 0
    total_updated_records_compacted: int = 0
    total_log_blocks: int = 0
    total_corrupt_log_block: int = 0
    total_rollback_blocks: int = 0
    file_size_bytes: int = 0
    min_event_time: int | None = None
    max_event_time: int | None = None
    runtime_stats: RuntimeStats | None = None
    cdc_stats: Mapping[str, int] | None = None
    base_file: str | None = None
    log_files: tuple[str, ...] | None = None
    log_version: int | None = None
    log_offset: int | None = None
    prev_base_file: str | None = None

    @property
    def is_first_of_group(self) -> bool:
        """Whether the file is the first of its file group. Unknown of log files, which name an instant in any case."""
        return self.prev_commit in (NULL_COMMIT, "", None)

    @property
    def is_log_file(self) -> bool:
        """Whether the file is a log file; otherwise it is a base file."""
        # Upgrades of Hudi lose the version.
        return self.log_version is not None or parse_log_file_name((self.path or "").rpartition("/")[2]) is not None

    @property
    def tells_its_changes(self) -> bool:
        """Whether readers of changes find those of the file: in itself, or in the ``.cdc`` file beside it."""
        return self.is_first_of_group or self.is_log_file or bool(self.cdc_stats)

    @property
    def version_before(self) -> str:
        """The version that the file is on top of: `prev_commit`, but for a log file the instant in its name.

        Both are the same, except in timeline layout 2 where the table stores change data: there `prev_commit` of a log
        file is the slice that its writer saw, and a compaction may have replaced it.
        """
        name = parse_log_file_name((self.path or "").rpartition("/")[2])
        return self.prev_commit if name is None else name.instant_time

    @property
    def is_empty_log_file(self) -> bool:
        """Whether the file is a log file without blocks: none of the rows that it was for fits the table."""
        return self.is_log_file and not (self.file_size_bytes or self.num_writes or self.num_deletes)
