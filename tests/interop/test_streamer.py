"""Tables that the streamer fills, beside real Hudi: the rows, and the positions that Hudi's commits hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from tests.interop.hudi_process import HudiProcess
from tests.support.streamer_runs import KEYS, SCHEMA, ListSource, list_source, run_once

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8, pytest.mark.with_merge_on_read]

V1, V2 = "deltastreamer.checkpoint.key", "streamer.checkpoint.key.v2"
FLAGGED = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))


@pytest.fixture(autouse=True)
def lists() -> Iterator[None]:
    yield
    ListSource.clear()


def some(first: int, count: int) -> list[tuple[Any, ...]]:
    """Updates of eleven keys; each fifth one is a delete."""
    return [(f"k{n % 11}", f"p{n % 11 % 2}", n, n % 5 == 4) for n in range(first, first + count)]


def newest(rows: list[tuple[Any, ...]]) -> list[tuple[str, str, int]]:
    """The rows of a table that got these: the newest of each key, unless it is a delete."""
    last = {row[0]: row for row in rows}
    return sorted(row[:3] for row in last.values() if not row[3])


def check(hudi: HudiProcess, path: Path, rows: list[tuple[Any, ...]]) -> None:
    """Compare what Hudi, hudi-rs and hoodie read with what was written."""
    expected = newest(rows)

    def of(table: pa.Table) -> list[tuple[Any, ...]]:
        return sorted(tuple(row.values()) for row in table.select(SCHEMA.names).to_pylist())

    assert of(hoodie.read_table(str(path))) == expected
    assert of(hudi.read(path)) == expected
    batches = HudiTableBuilder.from_base_uri(str(path)).build().read()
    assert of(pa.Table.from_batches(pa.RecordBatch.from_arrays(one.columns, one.schema.names) for one in batches)) == (
        expected
    )


@pytest.mark.interop_smoke(6)
def test_the_streamer_and_hudi_fill_one_table_in_turn(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    path = tmp_path / "t"
    rows = some(0, 60)
    properties = list_source("l", *rows[:20])
    ListSource.SCHEMAS["l"] = FLAGGED
    flags = {"table_type": str(table_type), "source_ordering_fields": "ts"}
    run_once(path, properties, source_limit=12, **flags)
    run_once(path, properties, **flags)
    check(hudi, path, rows[:20])
    # Hudi's streamer stores its position in the commit of the rows, as this does.
    part = pa.Table.from_pylist([dict(zip(FLAGGED.names, row, strict=True)) for row in rows[20:40]], schema=FLAGGED)
    stored = {"hoodie.datasource.write.commitmeta.key.prefix": V1, V1: "40"}
    hudi.write(path, part, {**KEYS, "hoodie.table.name": "t", **stored})
    ListSource.LISTS["l"] = rows
    result = run_once(path, properties, **flags)
    assert (result.position_before, result.position_after, result.rows) == ("40", "60", 20)
    check(hudi, path, rows)
    hudi.write(path, part, {**KEYS, "hoodie.table.name": "t"})
    assert not run_once(path, properties, **flags).is_committed


def test_a_position_of_version_2_that_hudi_stored_is_taken(tmp_path: Path, hudi: HudiProcess, table_type: str) -> None:
    path = tmp_path / "t"
    rows = some(0, 30)
    properties = list_source("l", *rows[:10])
    ListSource.SCHEMAS["l"] = FLAGGED
    flags = {"table_type": str(table_type), "source_ordering_fields": "ts"}
    run_once(path, properties, **flags)
    part = pa.Table.from_pylist([dict(zip(FLAGGED.names, row, strict=True)) for row in rows[10:20]], schema=FLAGGED)
    stored = {"hoodie.datasource.write.commitmeta.key.prefix": V2, V2: "20"}
    hudi.write(path, part, {**KEYS, "hoodie.table.name": "t", **stored})
    ListSource.LISTS["l"] = rows
    assert run_once(path, properties, **flags).position_before == "20"
    check(hudi, path, rows)
