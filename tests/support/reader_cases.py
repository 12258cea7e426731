"""Merge-on-read tables in which every case of who wins is a key, and what each reader makes of them.

A case is written as in `tests.support.log_slices`: ``b100 u50`` is a base row and a later row of a log file. hoodie
writes the tables. ``tests/data/reader_agreement.json`` holds the rows that hoodie, hudi-rs, and the releases of real
Hudi find in them::

    python -m tests.interop.make_reader_agreement tests/data/reader_agreement.json     # makes it again
"""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import attrs
import numpy as np
import pyarrow as pa
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieTableMetaClient
from hoodie.common.config.java_properties import format_properties, parse_properties
from hoodie.common.model.record_columns import OPERATION
from hoodie.table.action.commit.merge_on_read_bucket_handler import MergeOnReadBucketHandler
from tests.support.log_slices import Step, steps
from tests.support.table_builder import local_client

__all__ = [
    "FAILS", "GOLDEN", "HOODIE", "HUDI_RS", "PAGE", "READERS", "TABLES", "CaseTable", "Found", "by_hoodie",
    "by_hudi_rs", "compact", "disagreements", "golden", "left_of", "make_table", "page_rows", "properties_of",
]  # fmt: skip

GOLDEN = Path(__file__).parents[1] / "data" / "reader_agreement.json"
PAGE = Path(__file__).parents[2] / "docs" / "merging.md"
HOODIE, HUDI_RS = "hoodie", "hudi-rs"
READERS = {6: ("0.15.0", "1.2.0"), 8: ("1.0.2", "1.2.0"), 9: ("1.2.0",)}
"""The releases of real Hudi that read tables of a version."""
FAILS = "fails"
"""What a reader finds that cannot read a table."""

Found = dict[str, str]
"""Case -> the row that is left, or ``-``; several where a reader shows several. `FAILS` for all if it cannot read."""

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("val", pa.string()), ("_hoodie_is_deleted", pa.bool_())])
MAIN = (
    "b100",
    "b100 u50",
    "b100 u100",
    "b100 u150",
    "b100 u50 u70",
    "b100 u150 u120",
    "b100 u150 u150",
    "u200",
    "u200 u100",
    "u100 u200",
    "u100 u100",
    "b10 u200 u100",
    "b300 u200 u100",
    "b100 D",
    "u100 D",
    "b100 u200 D",
    "b100 u50 D",
    "b100 d50",
    "b100 d0",
    "b100 d100",
    "b100 d150",
    "b100 f50",
    "b100 f100",
    "b100 f150",
    "u200 d100",
    "u200 f100",
    "u200 d200",
    "u200 f200",
    "u200 d300",
    "u200 f300",
    "b100 u200 d150",
    "b100 u200 f150",
    "b100 u50 d70",
    "b100 u50 f70",
    "b10 d200 u100",
    "b10 f200 u100",
    "b10 d200 u200",
    "b10 f200 u200",
    "b10 d200 u300",
    "b10 f200 u300",
    "b100 d50 u70",
    "b100 f50 u70",
    "b100 d150 u120",
    "b100 f150 u120",
    "b100 d150 d200",
    "b100 d150 D",
)
AFTER_A_DELETE_BY_KEY = (
    "b10 D u50",
    "b10 D u5",
    "b10 D u10",
    "u10 D u5",
    "b10 u50 D u20",
    "b10 D u5 u20",
    "b10 D d5 u7",
)
"""A row that comes after a delete by key; 1.0.2 fails on them."""
NULLS_IN_LOGS = ("b100 unull",)
NULLS_IN_BASE = ("bnull u5",)
"""hoodie refuses to write such rows into a table whose ordering field decides."""
FEW = ("b100", "b100 u50", "b100 u150", "b100 u150 u120", "b100 D", "b100 d50", "b100 d150")
PARTS = ("b100 p150", "b100 p50", "b100 u150 p120", "b100 p120 u150", "u100 p150", "b100 D p150")
"""With rows whose column ``val`` is null, for tables in which that keeps another value."""
_DEFAULT, _LATEST = "DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload"
_MODE = "hoodie.record.merge.mode"
_POSITIONS = {"hoodie.write.record.positions": "true"}
_EVENT, _COMMIT = {_MODE: "EVENT_TIME_ORDERING"}, {_MODE: "COMMIT_TIME_ORDERING"}

_BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
"""One file group, whose log files take new keys too."""
_NO_COMPACTION = {"hoodie.compact.inline": "false"}


@attrs.frozen
class CaseTable:
    """A table whose keys are cases.

    Attributes:
        version: Of the table.
        cases: Its keys.
        ordering_fields: For `init_table`.
        payload: For `init_table`.
        properties: For `init_table`.
        index: Properties of writes: the index, and what goes into blocks.
        becomes: The table whose properties it gets when all is written.
        later: Properties that it gets then; "" takes one away.
        absent: The value of ``val`` in rows `p`.
    """

    version: int
    cases: Sequence[str]
    ordering_fields: str = "ts"
    payload: str | None = None
    properties: Mapping[str, str] = attrs.field(factory=dict)
    index: Mapping[str, str] = _BUCKET
    becomes: CaseTable | None = None
    later: Mapping[str, str] = attrs.field(factory=dict)
    absent: str | None = None


def _tables() -> Iterator[tuple[str, CaseTable]]:
    everything = (*MAIN, *AFTER_A_DELETE_BY_KEY)
    nulls = {"null in logs": NULLS_IN_LOGS, "null in base": NULLS_IN_BASE}
    default = CaseTable(6, everything, payload=_DEFAULT)
    latest = attrs.evolve(default, payload=_LATEST)
    yield "6 Default", default
    yield "6 Latest with ordering field", latest
    yield "6 Latest", CaseTable(6, everything, "", _LATEST)
    yield "6 no payload class", CaseTable(6, FEW, later={"hoodie.compaction.payload.class": ""})
    for name, cases in nulls.items():
        yield f"6 Default, {name}", CaseTable(6, cases, "", becomes=default)
        yield f"6 Latest with ordering field, {name}", CaseTable(6, cases, "", becomes=latest)
        yield f"6 Latest, {name}", CaseTable(6, cases, "", _LATEST)
    for payload in ("EventTime", "FirstValue", "PartialUpdate", "OverwriteNonDefaultsWithLatest"):
        parts = PARTS if payload.startswith(("Partial", "OverwriteNon")) else ()
        yield f"6 {payload}", CaseTable(6, (*FEW, *parts), payload=f"{payload}AvroPayload")
    for version in (8, 9):
        event = CaseTable(version, MAIN, properties=_EVENT)
        yield f"{version} event time", event
        yield f"{version} event time, after a delete by key", attrs.evolve(event, cases=("b10", *AFTER_A_DELETE_BY_KEY))
        yield f"{version} commit time with ordering field", CaseTable(version, everything, properties=_COMMIT)
        yield f"{version} commit time", CaseTable(version, everything, "")
        in_base = tuple(case for case in MAIN if case.startswith("b"))
        after = tuple(case for case in AFTER_A_DELETE_BY_KEY if case.startswith("b"))
        yield f"{version} event time, by positions", attrs.evolve(event, cases=in_base, index=_POSITIONS)
        yield (
            f"{version} event time, after a delete by key, by positions",
            attrs.evolve(event, cases=("b10", *after), index=_POSITIONS),
        )
        yield f"{version} commit time, by positions", CaseTable(version, (*in_base, *after), "", index=_POSITIONS)
        for name, cases in nulls.items():
            yield f"{version} event time, {name}", CaseTable(version, cases, "", becomes=event)
            yield f"{version} commit time, {name}", CaseTable(version, cases, "")
        yield f"{version} two ordering fields", CaseTable(version, FEW, "ts,val")
        yield f"{version} FirstValue", CaseTable(version, FEW, payload="FirstValueAvroPayload")
        yield f"{version} PartialUpdate", CaseTable(version, (*FEW, *PARTS), payload="PartialUpdateAvroPayload")
    overwrite = "OverwriteNonDefaultsWithLatestAvroPayload"
    yield "9 OverwriteNonDefaultsWithLatest", CaseTable(9, (*FEW, *PARTS), payload=overwrite)
    filling = {
        "hoodie.table.partial.update.mode": "FILL_UNAVAILABLE",
        "hoodie.record.merge.property.hoodie.write.partial.update.unavailable.value": "x",
    }
    yield "9 fill unavailable", CaseTable(9, (*FEW, *PARTS), properties=_EVENT, later=filling, absent="x")


TABLES: Mapping[str, CaseTable] = dict(_tables())


def make_table(base_path: Path, table: CaseTable) -> None:
    """Write a table by hoodie: all base rows, then the first entries of all keys, then the second ones, and so on."""
    _init(base_path, table)
    of_keys = {case: steps(case) for case in table.cases}
    with local_client(base_path, {**table.index, **_NO_COMPACTION}) as client:
        client.bulk_insert(_rows([(key, step) for key, found in of_keys.items() for step in found if step.kind == "b"]))
        logs = [[(key, step) for step in found if step.kind != "b"] for key, found in of_keys.items()]
        for level in itertools.zip_longest(*logs):
            now = [pair for pair in level if pair is not None]
            written = _rows([pair for pair in now if pair[1].kind in "upd"], table.absent)
            flagged = _rows([pair for pair in now if pair[1].kind == "f"])
            deleted = [HoodieKey(key, "") for key, step in now if step.kind == "D"]
            if written.num_rows:
                client.upsert(written)
            if flagged.num_rows:
                with _flags_in_rows():
                    client.upsert(flagged)
            if deleted:
                client.delete(deleted)
    properties = properties_of(base_path)
    if table.becomes is not None:
        _init(base_path / ".hoodie" / "twin", table.becomes)
        properties = properties_of(base_path / ".hoodie" / "twin")
        shutil.rmtree(base_path / ".hoodie" / "twin")
    properties = {key: value for key, value in {**properties, **table.later}.items() if value}
    (base_path / ".hoodie" / "hoodie.properties").write_bytes(format_properties(properties))


def _init(base_path: Path, table: CaseTable) -> None:
    HoodieTableMetaClient.init_table(
        str(base_path),
        table_name="cases",
        table_type="MERGE_ON_READ",
        table_version=table.version,
        record_key_fields="id",
        ordering_fields=table.ordering_fields,
        payload_class=table.payload,
        properties=table.properties,
        schema=SCHEMA,
    )


def properties_of(base_path: Path) -> dict[str, str]:
    """The properties of a table."""
    return parse_properties((base_path / ".hoodie" / "hoodie.properties").read_bytes())


def _rows(pairs: Sequence[tuple[str, Step]], absent: str | None = None) -> pa.Table:
    rows = [
        {
            "id": key, "ts": step.ordering, "val": {"d": "u", "p": absent}.get(step.kind, step.kind),
            "_hoodie_is_deleted": True if step.kind in "df" else None,
        }
        for key, step in pairs
    ]  # fmt: skip
    return pa.Table.from_pylist(rows, SCHEMA)


@contextmanager
def _flags_in_rows() -> Iterator[None]:
    """Rows with ``_hoodie_is_deleted`` go into data blocks, as some writers store them; hoodie deletes by them."""
    append = MergeOnReadBucketHandler._append

    def append_rows(
        self: MergeOnReadBucketHandler, task: Any, place: Any, file_slice: Any, incoming: pa.Table, *more: Any
    ) -> Any:
        number = incoming.schema.get_field_index(OPERATION)
        upserts = pa.array(np.zeros(incoming.num_rows, dtype=np.int8))
        return append(self, task, place, file_slice, incoming.set_column(number, OPERATION, upserts), *more)

    with mock.patch.object(MergeOnReadBucketHandler, "_append", append_rows):
        yield


def left_of(rows: pa.Table | None, table: CaseTable) -> Found:
    """What a reader found.

    Args:
        rows: Its rows; None if it failed.
        table: The table.
    """
    if rows is None:
        return dict.fromkeys(table.cases, FAILS)
    found: dict[str, list[str]] = {case: [] for case in table.cases}
    for row in rows.to_pylist():
        kind = "p" if row["val"] == table.absent else row["val"]
        found[row["id"]].append(f"{kind}{'null' if row['ts'] is None else row['ts']}")
    return {case: " and ".join(sorted(left)) or "-" for case, left in found.items()}


def by_hoodie(base_path: Path, table: CaseTable, **options: Any) -> Found:
    """What hoodie finds."""
    try:
        return left_of(hoodie.read_table(str(base_path), **options), table)
    except hoodie.HoodieException:
        return left_of(None, table)


def by_hudi_rs(base_path: Path, table: CaseTable) -> Found:
    """What hudi-rs finds."""
    try:
        batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    except Exception:
        return left_of(None, table)
    return left_of(pa.Table.from_batches(batches) if batches else SCHEMA.empty_table(), table)


@cache
def golden() -> Mapping[str, Mapping[str, Found]]:
    """Table -> reader -> what it finds."""
    stored = json.loads(GOLDEN.read_text())
    found: dict[str, dict[str, Found]] = {}
    for name, cases in stored.items():
        readers = (HOODIE, HUDI_RS, *READERS[TABLES[name].version])
        found[name] = {
            reader: {case: left if isinstance(left, str) else left[reader] for case, left in cases.items()}
            for reader in readers
        }
    return found


def compact(base_path: Path, table: CaseTable) -> None:
    """Compact a table by hoodie."""
    with local_client(base_path, {**table.index, **_NO_COMPACTION}) as client:
        planned = client.schedule_compaction()
        assert planned is not None
        client.compact(planned)


def disagreements(name: str) -> dict[str, Found]:
    """The cases of a table in which readers disagree: case -> reader -> row."""
    found = golden()[name]
    by_case = {case: {reader: left[case] for reader, left in found.items()} for case in TABLES[name].cases}
    return {case: left for case, left in by_case.items() if len(set(left.values())) > 1}


def page_rows() -> list[str]:
    """The rows of the table in ``docs/merging.md``; one for all cases of a table that a reader fails to read."""
    readers = (HOODIE, HUDI_RS, *sorted({release for releases in READERS.values() for release in releases}))
    lines = []
    for name, table in TABLES.items():
        cases = disagreements(name)
        failing = {reader for reader, left in golden()[name].items() if set(left.values()) == {FAILS}}
        if len(cases) == len(table.cases) > 1 and failing:
            reads = {reader: "fails" if reader in failing else "reads" for reader in golden()[name]}
            lines.append(_page_row(name, "all", reads, readers))
        for case, left in cases.items():
            others = {of_case for reader, of_case in left.items() if reader not in failing}
            if len(others) > 1 or len(table.cases) == 1:
                lines.append(_page_row(name, ", ".join(case.split()), left, readers))
    return lines


def _page_row(name: str, case: str, found: Found, readers: Sequence[str]) -> str:
    cells = [found.get(reader, "") for reader in readers]
    return f"| {name} | {case} | " + " | ".join({"-": "deleted"}.get(cell, cell) for cell in cells) + " |"


if __name__ == "__main__":
    print("\n".join(page_rows()))
