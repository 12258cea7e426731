"""Tables that store change data, and what their ``.cdc`` files hold.

A change is a tuple ``(op, key, before, after)`` of rows as tuples, without what the mode of the table leaves out:
`stored_changes` reads the changes of a commit, `changes_between` makes them of two models, and `as_stored` leaves out
what a mode does not store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import hoodie
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.supplemental_logging_mode import CDC_ENABLED, LOGGING_MODE, HoodieCDCSupplementalLoggingMode
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.io.log.cdc_block import decode_cdc_block
from hoodie.io.log.log_file_reader import read_log_blocks
from tests.support.model import Row, TableModel
from tests.support.table_builder import TRIPS, init_table
from tests.support.timeline_files import read_commit

__all__ = [
    "MODES",
    "Change",
    "as_stored",
    "changes_between",
    "changes_of_files",
    "check_stored_changes",
    "init_cdc_table",
    "mode_of",
    "new_rows",
    "stored_changes",
    "with_change_data",
]

MODES = tuple(HoodieCDCSupplementalLoggingMode)
Change = tuple[str, str | None, Row | None, Row | None]


def with_change_data(mode: str = HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER) -> dict[str, str]:
    """The properties of a table that stores change data."""
    return {CDC_ENABLED: "true", LOGGING_MODE: mode}


def init_cdc_table(
    path: str | Path, mode: str = HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER, **arguments: Any
) -> Path:
    """A table of `tests.support.table_builder` that stores change data."""
    return Path(init_table(path, properties=with_change_data(mode), **arguments))


def mode_of(path: str | Path) -> HoodieCDCSupplementalLoggingMode:
    """The mode of a table that stores change data."""
    mode = hoodie.HoodieTableMetaClient.load(str(path)).table_config.logging_mode
    assert mode is not None
    return mode


def stored_changes(path: str | Path, instant_time: str, schema: pa.Schema = TRIPS) -> list[Change]:
    """The changes in the ``.cdc`` files of a commit, in order.

    Each file is where, and as large as, the statistics say, and has the name of its base file.
    """
    return sorted(
        (change for stat in read_commit(path, instant_time).write_stats for change in _changes(path, stat, schema)),
        key=repr,
    )


def _changes(path: str | Path, stat: HoodieWriteStat, schema: pa.Schema) -> Iterable[Change]:
    for name, size in (stat.cdc_stats or {}).items():
        base, cdc = Path(str(stat.path)), parse_log_file_name(Path(name).name)
        assert cdc is not None and cdc.is_cdc and cdc.version == 1
        assert base.name == f"{cdc.file_id}_{cdc.write_token}_{cdc.instant_time}.parquet"
        assert Path(name).parent == base.parent
        data = Path(path, name).read_bytes()
        assert len(data) == size
        for block in read_log_blocks(data, name):
            for row in decode_cdc_block(block, schema).to_pylist():
                yield row["op"], row["record_key"], _values(row["before"]), _values(row["after"])


def _values(row: Mapping[str, Any] | None) -> Row | None:
    return None if row is None else tuple(row.values())


def changes_between(before: TableModel, after: TableModel, written: Iterable[Any] = ()) -> list[Change]:
    """The changes from one model to another, with all that may be stored of each.

    Args:
        before: The rows before.
        after: The rows after.
        written: Keys whose row was replaced, though perhaps by an equal one.
    """
    replaced = set(written)
    return [
        ("u" if key in before and key in after else "i" if key in after else "d", key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if before.get(key) != after.get(key) or (key in replaced and key in before and key in after)
    ]


def as_stored(changes: Iterable[Change], mode: HoodieCDCSupplementalLoggingMode) -> list[Change]:
    """Changes without what a mode does not store, in order."""
    has_before = mode is not HoodieCDCSupplementalLoggingMode.OP_KEY_ONLY
    has_after = mode is HoodieCDCSupplementalLoggingMode.DATA_BEFORE_AFTER
    found: list[Change] = [
        (op, None if has_after else key, before if has_before else None, after if has_after else None)
        for op, key, before, after in changes
    ]
    return sorted(found, key=repr)


def check_stored_changes(path: str | Path, instant_time: str) -> None:
    """Compare the stored changes of a commit with `changes_of_files`: exactly the rewritten base files have some."""
    expected = changes_of_files(path, instant_time)
    assert stored_changes(path, instant_time) == as_stored(expected, mode_of(path))
    for stat in read_commit(path, instant_time).write_stats:
        is_rewritten = not stat.is_log_file and not stat.is_first_of_group
        assert bool(stat.cdc_stats) == is_rewritten, stat


def changes_of_files(path: str | Path, instant_time: str, columns: Sequence[str] = TRIPS.names) -> list[Change]:
    """The changes from the base files that a commit rewrote to the new ones, as the rows of both tell them."""
    found: list[Change] = []
    for stat in read_commit(path, instant_time).write_stats:
        if stat.is_log_file or stat.is_first_of_group:
            continue
        pattern = f"{stat.file_id}_*_{stat.prev_commit}.parquet"
        (older,) = Path(path, stat.partition_path).glob(pattern)
        before = _rows_of_file(older, columns)
        after = _rows_of_file(Path(path, str(stat.path)), columns)
        old, new = ({key: row for key, (_, row) in rows.items()} for rows in (before, after))
        written = [key for key, (time, _) in after.items() if time == instant_time]
        for key in old.keys() | set(written):
            if key in written or key not in new:
                op = "d" if key not in new else "u" if key in old else "i"
                found.append((op, key, old.get(key), new.get(key)))
    return found


def _rows_of_file(path: Path, columns: Sequence[str]) -> dict[str, tuple[str, Row]]:
    rows = pq.ParquetFile(path).read()
    return {
        row["_hoodie_record_key"]: (row["_hoodie_commit_time"], tuple(row.get(name) for name in columns))
        for row in rows.to_pylist()
    }


def new_rows(path: str | Path, instant_time: str, columns: Sequence[str] = TRIPS.names) -> list[Change]:
    """The rows of new file groups of a commit, as inserts."""
    return [
        ("i", key, None, row)
        for stat in read_commit(path, instant_time).write_stats
        if stat.is_first_of_group and not stat.is_log_file
        for key, (_, row) in _rows_of_file(Path(path, str(stat.path)), columns).items()
    ]
