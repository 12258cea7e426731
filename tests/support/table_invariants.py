"""What must hold for every table at every moment, whatever was done to it: `check_table`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.common.fs.file_names import is_data_file_name, parse_base_file_name, parse_log_file_name
from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.table.marker.write_markers import WriteMarkers
from hoodie.table.repair import find_orphan_files
from tests.support.folders import files_below
from tests.support.model import TableModel

__all__ = ["check_table"]


def check_table(
    base_path: str | Path,
    expected: TableModel | Mapping[Any, Mapping[str, Any]] | None = None,
    key: str = "id",
    was_cleaned: bool = False,
) -> None:
    """Compare a table with a model, and its files with its timeline.

    * Rows equal the model.
    * No key lives in two file groups, or twice in one (those of one partition path, or of all that the model names).
    * The newest files of every file group of completed instants exist; all of them where nothing was cleaned.
    * Every data file is explained by a completed instant or by a marker of a pending one.
    * A metadata table says what storage says.

    Args:
        base_path: The table.
        expected: A model of `tests.support.table_builder`'s rows, or key -> the row's columns; None compares no rows.
        key: The column of the key.
        was_cleaned: Whether files of completed instants may be gone.
    """
    table = HoodieTableMetaClient.load(str(base_path))
    rows = hoodie.read_table(str(base_path))
    places = Counter(
        zip(rows["_hoodie_partition_path"].to_pylist(), rows["_hoodie_record_key"].to_pylist(), strict=True)
    )
    doubled = {place: count for place, count in places.items() if count > 1}
    assert not doubled, f"keys that live more than once: {doubled}"
    if isinstance(expected, TableModel):
        expected = expected.as_dicts()
    if expected is not None:
        found = {row[key]: row for row in rows.to_pylist()}
        columns = {name for row in expected.values() for name in row}
        assert {k: {name: row[name] for name in columns} for k, row in found.items()} == {
            k: {name: row.get(name) for name in columns} for k, row in expected.items()
        }
        assert rows.num_rows == len(expected)
    _check_files(table, was_cleaned)
    found_by_validation = hoodie.metadata.validate(str(base_path))
    assert found_by_validation.is_right, str(found_by_validation)


def _check_files(table: HoodieTableMetaClient, was_cleaned: bool) -> None:
    base_path = Path(table.base_path)
    found = (path.relative_to(base_path) for path in files_below(base_path))
    on_storage = {str(path) for path in found if path.parts[0] != ".hoodie" and is_data_file_name(path.name)}
    committed: set[str] = set()
    ends: dict[str, str] = {}
    replaced: set[str] = set()
    for instant in table.active_timeline.commits_timeline().filter_completed_instants():
        metadata = table.active_timeline.read_commit_metadata(instant)
        committed |= {str(path) for stat in metadata.write_stats for path in (stat.path, *(stat.cdc_stats or ()))}
        ends |= {str(stat.path): instant.newest_time for stat in metadata.write_stats}
        if isinstance(metadata, HoodieReplaceCommitMetadata):
            replaced |= {file_id for ids in metadata.partition_to_replace_file_ids.values() for file_id in ids}
    archived = {instant.requested_time for instant in table.archived_timeline.filter_completed_instants()}
    announced: set[str] = set()
    for instant in table.active_timeline.filter_pending():
        markers = WriteMarkers(table.storage, table.meta_path, instant.requested_time).list_markers()
        announced |= {f"{marker.partition_path}/{marker.file_name}".lstrip("/") for marker in markers}
    names = {path: parse_base_file_name(Path(path).name) for path in on_storage}
    unexplained = {
        path
        for path in on_storage - committed - announced
        if (name := names[path]) is not None and name.instant_time not in archived
    }
    if any(name is None for name in names.values()):
        # In version 6 rollbacks leave log files, and explain them.
        orphans = {file.path for file in find_orphan_files(table.base_path).files}
        unexplained |= {path for path in on_storage - committed - announced if names[path] is None} & orphans
    assert not unexplained, f"files that no instant explains: {sorted(unexplained)}"
    missing = committed - on_storage
    if was_cleaned:
        newest: dict[str, str] = {}
        for path in committed:
            name = parse_base_file_name(Path(path).name)
            if name is not None:
                newest[name.file_id] = max(newest.get(name.file_id, ""), f"{name.instant_time}|{path}")
        # Log files are cleaned once a later compaction has made a base file.
        needed = {entry.split("|", 1)[1] for file_id, entry in newest.items() if file_id not in replaced}
        for path, end in ends.items():
            log = parse_log_file_name(Path(path).name)
            if log is not None and log.file_id not in replaced and newest.get(log.file_id, "") < end:
                needed.add(path)
        missing &= needed
    assert not missing, f"files of completed instants that are gone: {sorted(missing)}"
