"""The numbers of `hoodie stats` are those that real Hudi prints for the same table."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import ROUND_HALF_EVEN, Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner

from hoodie.cli.main import command
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 8, 9), pytest.mark.with_merge_on_read]

OPTIONS = {
    **SIMPLE.hudi_options("counted"),
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.clean.automatic": "false",
}


def rows(start: int, stop: int, ts: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{number:05}" for number in range(start, stop)],
            "region": [("asia", "europe", "america")[number % 3] for number in range(start, stop)],
            "ts": [ts] * (stop - start),
            "text": [f"{number * 7919 % 1000:x}" * (1 + number % 9) for number in range(start, stop)],
        }
    )


@contextmanager
def counted(hudi: HudiProcess, base_path: Path) -> Iterator[str]:
    """A table that real Hudi wrote, known to its catalog."""
    hudi.write(base_path, rows(0, 3000, 1), OPTIONS, operation="insert", mode="overwrite")
    hudi.write(base_path, rows(10, 40, 2), OPTIONS)
    hudi.write(base_path, rows(3000, 3100, 2), OPTIONS, operation="insert")
    hudi.write(base_path, rows(2500, 3050, 3), OPTIONS)
    hudi.write(base_path, rows(0, 3, 3), OPTIONS, operation="delete")
    hudi.write(base_path, rows(5000, 5001, 4), OPTIONS, operation="insert_overwrite")
    hudi.sql(f"CREATE TABLE counted USING hudi LOCATION '{base_path}'")
    try:
        yield "counted"
    finally:
        hudi.sql("DROP TABLE counted")


def ours(*arguments: object) -> list[dict[str, Any]]:
    """The JSON of a command."""
    done = CliRunner().invoke(command, [*map(str, arguments), "--json"])
    assert done.exit_code == 0, done.output
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def as_hudi_prints(written: int, updated: int) -> str:
    """A ratio by Java's ``#.00`` of a float, which rounds halves to even; 0 without updates."""
    if not updated:
        return "0"
    ratio = Decimal(float(np.float32(written) / np.float32(updated)))
    return str(ratio.quantize(Decimal("0.01"), ROUND_HALF_EVEN)).removeprefix("0")


def test_amplification_is_that_of_stats_wa(hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    base_path = tmp_path / "t"
    with counted(hudi_1_2, base_path) as name:
        theirs = hudi_1_2.sql(f"CALL stats_wa(table => '{name}', limit => 100)")
    found = [row for row in ours("stats", base_path, "amplification")[::-1] if row["action"] != "deltacommit"]
    printed = [
        (row["instant_time"], str(row["rows_updated"]), str(row["rows_written"]),
         as_hudi_prints(row["rows_written"], row["rows_updated"]))
        for row in found
    ]  # fmt: skip
    total = [sum(row[name] for row in found) for name in ("rows_updated", "rows_written")]
    printed.append(("Total", str(total[0]), str(total[1]), as_hudi_prints(total[1], total[0])))
    assert printed == [tuple(row) for row in theirs]
    if hudi_1_2.table_type == "COPY_ON_WRITE":
        assert len(printed) == 7
        assert total[0] == 30 + 550
        assert all(
            row["row_amplification"] == row["rows_written"] / row["rows_updated"]
            for row in found
            if row["rows_updated"]
        )


def test_sizes_by_commit_are_those_of_stats_file_sizes(hudi_1_2: HudiProcess, tmp_path: Path) -> None:
    base_path = tmp_path / "t"
    with counted(hudi_1_2, base_path) as name:
        theirs = hudi_1_2.sql(f"CALL stats_file_sizes(table => '{name}', partition_path => '*', limit => 100)")
    assert len(theirs) >= 4
    assert numbers(sorted(map(list, theirs))) == numbers(
        [list(row.values()) for row in without_iso(ours("stats", base_path, "sizes", "--by-commit"))]
    )


def without_iso(found: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if not name.endswith("_iso")} for row in found]


def numbers(found: Sequence[Sequence[Any]]) -> list[tuple[str, list[float]]]:
    """Commit, and the numbers of a row, to a millionth of a byte."""
    return [(str(row[0]), [round(float(value), 6) for value in row[1:]]) for row in found]
