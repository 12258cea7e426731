"""What a reader is told of a table's past, in a form that all table versions share: `history_of`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieException

__all__ = ["TableHistory", "files_of_timelines", "history_of"]


@attrs.frozen
class TableHistory:
    """What does not change when a table is upgraded or downgraded.

    Attributes:
        rows: All rows, meta columns included.
        instants: Time, action, state, operation and counts of each active instant.
        archived: What is known of each archived instant that was completed.
        as_of: Requested time of each completed commit -> the rows as of it, or the class of the error.
        since: Requested time of each completed commit -> the rows that later commits wrote, likewise.
    """

    rows: list[str]
    instants: list[tuple[Any, ...]]
    archived: list[tuple[Any, ...]]
    as_of: dict[str, Any]
    since: dict[str, Any]


def history_of(base_path: str | Path) -> TableHistory:
    """Read all of it.

    Args:
        base_path: The table.
    """
    path = str(base_path)
    client = HoodieTableMetaClient.load(path)
    has_completion_times = client.active_timeline.layout.has_completion_times
    commits = client.active_timeline.completed_writes()
    begins = {
        i.requested_time: (i.completion_time if has_completion_times else i.requested_time) or "" for i in commits
    }
    return TableHistory(
        rows=_rows(hoodie.read_table(path)),
        instants=[attrs.astuple(attrs.evolve(instant, completion_time=None)) for instant in client.history()],
        archived=_archived(client),
        as_of={time: _tried(path, as_of=time) for time in begins},
        since={time: _tried(path, query_type="incremental", begin=begin) for time, begin in begins.items()},
    )


def _archived(client: HoodieTableMetaClient) -> list[tuple[Any, ...]]:
    archive = client.archived_timeline
    found = []
    for instant in archive.filter_completed_instants():
        told: tuple[Any, ...] = (instant.requested_time, str(instant.action))
        if instant in archive.completed_writes().instants:
            metadata = archive.read_commit_metadata(instant)
            extra = {key: value for key, value in metadata.extra_metadata.items() if key != "ROLLING_STAT"}
            stats = [(stat.path, stat.file_id, stat.num_writes, stat.prev_commit) for stat in metadata.write_stats]
            told += (metadata.operation_type.value, tuple(sorted(extra.items())), tuple(stats))
            told += (metadata.replaced_file_groups,)
        found.append(told)
    return sorted(found, key=repr)


def _tried(path: str, **query: Any) -> Any:
    try:
        return _rows(hoodie.read_table(path, **query))
    except HoodieException as error:
        return type(error).__name__


def _rows(table: pa.Table) -> list[str]:
    return sorted(map(repr, table.to_pylist()))


def files_of_timelines(base_path: str | Path) -> dict[str, bytes]:
    """The files of the table's timelines of both layouts and of both archives, by their paths in ``.hoodie``."""
    meta = Path(base_path) / ".hoodie"
    found = [*meta.glob("2*"), *(meta / "timeline").rglob("*"), *(meta / "timeline").glob(".*")]
    found += [*(meta / "archived").rglob("*"), *(meta / "archived").glob(".*")]
    return {str(path.relative_to(meta)): path.read_bytes() for path in sorted(found) if path.is_file()}
