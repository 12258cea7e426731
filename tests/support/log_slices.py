"""File slices with log files, in a short notation: ``b100 u50 d(50) f70 D``.

`b` is the base row, `u` a row of a data block, `f` such a row with ``_hoodie_is_deleted``, `d` a record of a delete
block, each with its ordering value; `D` is a delete without one. They come in the order of time, each in a block of its
own. What is left is written in the same way: the `b` or `u` that stays, or ``-``.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq

from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.io.log.log_records import LogDeletes, LogEntries, LogRows
from hoodie.merge.merge_modes import TableMerging
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.mode_rules import rules_of_mode
from hoodie.merge.payload_rules import PAYLOADS, MergeMode

BASE_INSTANT = "20240101000000000"
FILE_ID = "f-0"
USER = pa.schema(
    [
        ("id", pa.string()),
        ("ts", pa.int64()),
        ("val", pa.string()),
        ("n", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *USER])


@attrs.frozen
class Step:
    """One entry of a log file, or a base row.

    Attributes:
        kind: `b`, `u`, `f`, `d` or `D`.
        ordering: Its ordering value; None for `D`, or for a null.
    """

    kind: str
    ordering: int | None = None

    @property
    def text(self) -> str:
        """The step as it is written."""
        return self.kind if self.kind == "D" else f"{self.kind}{'null' if self.ordering is None else self.ordering}"


def steps(text: str) -> list[Step]:
    """Read steps, separated by blanks."""
    return [Step(word[0], None if word in ("D", f"{word[0]}null") else int(word[1:])) for word in text.split()]


def instant(number: int) -> str:
    """The instant of the n-th delta commit."""
    return f"202401020000{number:05d}"


def row(key: str, step: Step, commit: str, **values: Any) -> dict[str, Any]:
    """A row in all columns."""
    return {
        "_hoodie_commit_time": commit, "_hoodie_commit_seqno": f"{commit}_{key}", "_hoodie_record_key": key,
        "_hoodie_partition_path": "", "_hoodie_file_name": FILE_ID, "id": key, "ts": step.ordering,
        "val": step.text, "n": None, "_hoodie_is_deleted": True if step.kind == "f" else None, **values,
    }  # fmt: skip


def entries_of(cases: Mapping[str, Sequence[Step]], schema: pa.Schema = SCHEMA) -> list[LogEntries]:
    """The log entries of some keys: the first steps of all keys, then the second ones, and so on."""
    found: list[LogEntries] = []
    logs = [[(key, step) for step in of_key if step.kind != "b"] for key, of_key in cases.items()]
    for number, level in enumerate(itertools.zip_longest(*logs)):
        now = [pair for pair in level if pair is not None]
        rows = [row(key, step, instant(number)) for key, step in now if step.kind in "uf"]
        if rows:
            batch = as_table(rows, schema).combine_chunks().to_batches()[0]
            found.append(LogRows(instant(number), batch))
        for kind in "dD":
            deleted = [(key, step.ordering) for key, step in now if step.kind == kind]
            if deleted:
                keys = pa.array([key for key, _ in deleted], pa.string())
                values = pa.array([value for _, value in deleted], pa.int64() if kind == "d" else pa.null())
                found.append(LogDeletes(instant(number), keys, pa.nulls(len(keys), pa.string()), values))
    return found


def as_table(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Rows in a schema whose ordering field may have any type."""
    table = pa.Table.from_pylist(list(rows), SCHEMA)
    kind = schema.field("ts").type
    values = table["ts"].cast(pa.int32()) if pa.types.is_date(kind) else table["ts"]
    return table.set_column(table.schema.get_field_index("ts"), schema.field("ts"), values.cast(kind)).cast(schema)


def base_rows(cases: Mapping[str, Sequence[Step]]) -> list[dict[str, Any]]:
    """The base rows of some keys."""
    return [row(key, step, BASE_INSTANT) for key, of_key in cases.items() for step in of_key if step.kind == "b"]


def slice_of(folder: Path, rows: Iterable[Mapping[str, Any]] | None, schema: pa.Schema = SCHEMA) -> FileSlice:
    """A slice with a base file of these rows, or without; and with one log file, which is not written."""
    log = HoodieLogFile(f"{folder}/.{FILE_ID}_{instant(0)}.log.1_0-0-0", FILE_ID, instant(0), 1, "0-0-0", 1)
    if rows is None:
        return FileSlice("", FILE_ID, BASE_INSTANT, None, (log,))
    path = folder / f"{FILE_ID}_0-0-0_{BASE_INSTANT}.parquet"
    pq.write_table(as_table(rows, schema), path, row_group_size=1000)
    return attrs.evolve(FileSlice.of_base_file("", str(path), path.stat().st_size), log_files=(log,))


def spec_of(payload: str, ordering: str | None = "ts") -> MergeSpec:
    """The rules of a table of version 6."""
    rules = next(rules for rules in PAYLOADS.values() if rules.short_name == payload)
    return MergeSpec(ordering, rules)


SPECS = {
    "event time": MergeSpec("ts", rules_of_mode(TableMerging(MergeMode.EVENT_TIME_ORDERING), True)),
    "commit time": MergeSpec((), rules_of_mode(TableMerging(MergeMode.COMMIT_TIME_ORDERING), True)),
    "payload": spec_of("PartialUpdateAvroPayload"),
}
"""Rules of both merge modes, and of a payload class."""


def left(rows: Iterable[pa.RecordBatch], keys: Iterable[str]) -> dict[str, str]:
    """What is left of each key."""
    found = {r["id"]: r["val"] for batch in rows for r in batch.to_pylist()}
    return {key: found.get(key, "-") for key in keys}


# --- a slow model, one entry after the other --------------------------------------------------------------------------


def expected(of_key: Sequence[Step], by_event_time: bool) -> str:
    """What is left of the steps of one key."""
    base = next((step for step in of_key if step.kind == "b"), None)
    state: Step | None = None
    for step in of_key:
        if step.kind != "b":
            state = step if state is None or not by_event_time else _later(state, step)
    if state is None:
        winner = base
    elif base is None or not by_event_time or state.kind == "D":
        winner = state
    else:
        assert base.ordering is not None and state.ordering is not None
        winner = state if state.ordering >= base.ordering else base
    return winner.text if winner is not None and winner.kind in "bu" else "-"


def _later(state: Step, step: Step) -> Step:
    if step.kind == "D":
        return step
    if state.kind == "D":
        return state if step.kind == "d" else step
    assert state.ordering is not None and step.ordering is not None
    return state if state.ordering > step.ordering else step


def random_cases(source: random.Random, count: int, longest: int = 6, most: int = 4) -> dict[str, list[Step]]:
    """Steps of some keys; most have few."""
    cases = {}
    for number in range(count):
        of_key = [Step("b", source.randint(1, most))] if source.random() < 0.6 else []
        for _ in range(source.choice([0, 1, 1, 2, longest])):
            kind = source.choice("uuufdD")
            of_key.append(Step(kind, None if kind == "D" else source.randint(1, most)))
        cases[f"k{number:05d}"] = of_key
    return cases


def joined(entries: Sequence[LogEntries], source: random.Random) -> list[LogEntries]:
    """The same entries, with some neighbours in one block."""
    found: list[LogEntries] = []
    for entry in entries:
        last = found[-1] if found else None
        if isinstance(last, LogRows) and isinstance(entry, LogRows) and source.random() < 0.5:
            table = pa.Table.from_batches([last.rows, entry.rows]).combine_chunks()
            found[-1] = LogRows(entry.instant_time, table.to_batches()[0])
        else:
            found.append(entry)
    return found
