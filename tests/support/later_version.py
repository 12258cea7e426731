"""Tables of hoodie as tables of version 8 or 9: what an upgrade does, with completion times that a test chooses.

commit(base_path, ...)                               # by hoodie, version 6
to_version(base_path, 9, completed={t1: "2026..."})
archive(base_path, [t1], level=0)
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.table.timeline.instant import COMMIT_ACTIONS, Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import next_instant_time
from hoodie.common.table.timeline.timeline_layout import timeline_layout

LONG_AGO = datetime(2000, 1, 1, tzinfo=UTC)
NAMESPACE = "org.apache.hudi.avro.model"
STAT_FIELDS = {
    "fileId": "string", "path": "string", "prevCommit": "string", "numWrites": "long", "numDeletes": "long",
    "numUpdateWrites": "long", "numInserts": "long", "totalWriteBytes": "long", "fileSizeInBytes": "long",
    "partitionPath": "string",
}  # fmt: skip
"""A part of the fields that Hudi writes: readers take any."""


def commit_schema(replaces: bool, stat_fields: Mapping[str, str] = STAT_FIELDS) -> dict[str, Any]:
    """The Avro schema of the metadata of a commit, with some fields of its stats."""
    stat = {
        "type": "record",
        "name": "HoodieWriteStat",
        "fields": [nullable(name, kind) for name, kind in stat_fields.items()],
    }
    fields = [
        nullable("partitionToWriteStats", {"type": "map", "values": {"type": "array", "items": stat}}),
        nullable("compacted", "boolean"),
        nullable("extraMetadata", {"type": "map", "values": "string"}),
        {"name": "version", "type": ["int", "null"], "default": 1},
        nullable("operationType", "string"),
    ]
    if replaces:
        replaced = {"type": "map", "values": {"type": "array", "items": "string"}}
        fields.append(nullable("partitionToReplaceFileIds", replaced))
    name = "HoodieReplaceCommitMetadata" if replaces else "HoodieCommitMetadata"
    return {"type": "record", "name": name, "namespace": NAMESPACE, "fields": fields}


def nullable(name: str, kind: Any) -> dict[str, Any]:
    """An Avro field that may be null."""
    return {"name": name, "type": ["null", kind], "default": None}


def avro_commit(value: Mapping[str, Any], replaces: bool = False, schema: dict[str, Any] | None = None) -> bytes:
    """The metadata of a commit as a timeline of layout 2 holds it."""
    out = io.BytesIO()
    written = fastavro.parse_schema(schema or commit_schema(replaces))
    fastavro.writer(out, written, [{**value, "version": None}], codec="null")
    return out.getvalue()


def to_version(base_path: str | Path, version: int, completed: Mapping[str, str] | None = None) -> dict[str, str]:
    """Turn a table of version 6 into one of 8 or 9; nothing of its archive.

    Args:
        base_path: The table.
        version: 8 or 9.
        completed: Requested to completion time; instants that are left out are completed a millisecond later.

    Returns:
        Requested to completion time of all completed instants.
    """
    meta = Path(base_path) / ".hoodie"
    layouts = timeline_layout(1), timeline_layout(2)
    (meta / "timeline/history").mkdir(parents=True)
    ends: dict[str, str] = {}
    for file in sorted(meta.iterdir()):
        instant = layouts[0].parse_file_name(file.name)
        if instant is None:
            continue
        end, content = None, file.read_bytes()
        if instant.is_completed:
            end = (completed or {}).get(instant.requested_time) or next_instant_time(LONG_AGO, instant.requested_time)
            ends[instant.requested_time] = end
        is_commit = instant.action.completed_action in COMMIT_ACTIONS
        if is_commit and content.startswith(b"{"):
            replaces = instant.action is Action.REPLACE_COMMIT and instant.is_completed
            content = avro_commit(json.loads(content), replaces)
        elif instant.state is State.INFLIGHT:
            content = b""
        name = layouts[1].file_name(instant.requested_time, instant.action, instant.state, end)
        (meta / "timeline" / name).write_bytes(content)
        file.unlink()
    change_properties(
        base_path,
        {
            "hoodie.table.version": str(version),
            "hoodie.table.initial.version": "6",
            "hoodie.timeline.layout.version": "2",
            "hoodie.timeline.path": "timeline",
            "hoodie.timeline.history.path": "history",
            "hoodie.archivelog.folder": "history",
        },
    )
    return ends


def change_properties(base_path: str | Path, changed: Mapping[str, str | None]) -> None:
    """Set properties of a table, and remove those that are None."""
    path = Path(base_path) / ".hoodie/hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if line.partition("=")[0] not in changed]
    lines += [f"{key}={value}" for key, value in changed.items() if value is not None]
    path.write_text("\n".join(lines) + "\n")


def archive(base_path: str | Path, times: Iterable[str], *, level: int = 0, keeps_files: bool = False) -> Path:
    """Move completed instants to the archive, in one file; the next manifest lists it with all earlier ones.

    Args:
        base_path: A table of version 8 or 9.
        times: Requested times; other actions of that time go along.
        level: In the file's name.
        keeps_files: Whether the archiver died before it deleted the files of the timeline.
    """
    folder = Path(base_path) / ".hoodie/timeline"
    layout, wanted = timeline_layout(2), set(times)
    found: list[tuple[HoodieInstant, Path]] = []
    for file in sorted(folder.iterdir()):
        instant = layout.parse_file_name(file.name)
        if instant is not None and instant.requested_time in wanted:
            found.append((instant, file))
    rows = [
        {
            "instantTime": instant.requested_time,
            "completionTime": instant.completion_time,
            "action": str(instant.action),
            "metadata": file.read_bytes() or None,
            "plan": None,
            "version": 1,
        }
        for instant, file in found
        if instant.is_completed
    ]
    path = write_history(base_path, rows, level=level)
    for _, file in () if keeps_files else found:
        file.unlink()
    return path


def write_history(base_path: str | Path, rows: Sequence[Mapping[str, Any]], *, level: int = 0) -> Path:
    """Write one file of an archive, and the manifest that lists it with all earlier ones."""
    history = Path(base_path) / ".hoodie/timeline/history"
    history.mkdir(parents=True, exist_ok=True)
    schema = pa.schema(
        [
            ("instantTime", pa.string()), ("completionTime", pa.string()), ("action", pa.string()),
            ("metadata", pa.binary()), ("plan", pa.binary()), pa.field("version", pa.int32(), nullable=False),
        ]
    )  # fmt: skip
    path = history / f"{rows[0]['instantTime']}_{rows[-1]['instantTime']}_{level}.parquet"
    pq.write_table(pa.Table.from_pylist([dict(row) for row in rows], schema), path, compression="gzip")
    version = history / "_version_"
    number = int(version.read_text()) if version.exists() else 0
    files = json.loads((history / f"manifest_{number}").read_text())["files"] if number else []
    files.append({"fileName": path.name, "fileLen": path.stat().st_size})
    (history / f"manifest_{number + 1}").write_text(json.dumps({"files": files}))
    version.write_text(str(number + 1))
    return path
