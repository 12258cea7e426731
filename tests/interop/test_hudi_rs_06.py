"""hudi-rs 0.6 and hoodie write one table in turn; each reads the rows of a dictionary after every commit.

What hudi-rs 0.6 does wrong by itself is left out: it moves keys that are written with another partition, puts keys of
bucket tables into wrong buckets, and two of its processes lose rows.
"""

from __future__ import annotations

import importlib.util
import lzma
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from tests.conftest import SHARED
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.metadata_table]

MODULE = "hudi_rs06"
ARCHIVE = SHARED / "peers/hudi_rs06/hudi_rs06.abi3.so.xz"
SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64()), ("n", pa.int64())])
COMMITS_OF_EACH = 20
Row = dict[str, Any]


@pytest.fixture(scope="session")
def hudi_rs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """hudi-rs 0.6 as a Python module; skips where it is absent."""
    if not ARCHIVE.exists() or not sys.platform.startswith("linux"):
        pytest.skip("no hudi-rs 0.6 beside the repository")
    path = tmp_path_factory.mktemp("peers") / f"{MODULE}.abi3.so"
    path.write_bytes(lzma.decompress(ARCHIVE.read_bytes()))
    spec = importlib.util.spec_from_file_location(MODULE, path)
    assert spec is not None and spec.loader is not None
    try:
        module = importlib.util.module_from_spec(spec)
    except ImportError as error:
        pytest.skip(f"hudi-rs 0.6 does not run here: {error}")
    spec.loader.exec_module(module)
    return module


def rows_of(batches: pa.Table | list[pa.RecordBatch]) -> list[Row]:
    table = pa.Table.from_batches(batches) if isinstance(batches, list) else batches
    return sorted(table.select(SCHEMA.names).to_pylist(), key=lambda row: str(row["id"]))


CASES = [
    pytest.param("mor", True, True, marks=pytest.mark.interop_smoke),
    ("mor", True, False),
    ("mor", False, True),
    ("mor", False, False),
    ("cow", True, True),
    ("cow", True, False),
    ("cow", False, True),
    ("cow", False, False),
]


@pytest.mark.parametrize(("kind", "is_partitioned", "has_record_index"), CASES)
def test_tables_are_written_in_turn(
    tmp_path: Path, hudi_rs: Any, kind: str, is_partitioned: bool, has_record_index: bool
) -> None:
    path, chosen = str(tmp_path / "t"), random.Random(f"{kind}{is_partitioned}{has_record_index}")
    fields = ["city"] if is_partitioned else []
    hudi_rs.create(path, ["id"], fields, ["ts"], kind, record_index=has_record_index)
    model: dict[str, Row] = {}
    for number in range(2 * COMMITS_OF_EACH):
        known = chosen.sample(sorted(model), min(3, len(model)))
        keys = [*known, *(f"k{3 * number + new:04d}" for new in range(3))]
        rows: list[Row] = [
            {
                "id": key,
                "city": model[key]["city"] if key in model else chosen.choice("abc"),
                # A late row: the stored one stays.
                "ts": number - 3 if key == "".join(known[:1]) else number,
                "n": chosen.randrange(1000),
            }
            for key in keys
        ]
        gone = [key for key in chosen.sample(sorted(model), min(2, len(model))) if key not in keys and number % 3 == 0]
        table = pa.Table.from_pylist(rows, schema=SCHEMA)
        if number % 2 == 0:
            theirs = hudi_rs.open(path)
            theirs.upsert(table)
            if gone:
                hudi_rs.open(path).delete_keys(
                    [(key, f"city={model[key]['city']}" if is_partitioned else "") for key in gone]
                )
        else:
            hoodie.write_table(table, path)
            if gone:
                with local_client(path) as client:
                    client.delete(pa.Table.from_pylist([model[key] for key in gone], schema=SCHEMA))
        model |= {row["id"]: row for row in rows if row["id"] not in model or row["ts"] >= model[row["id"]]["ts"]}
        for key in gone:
            del model[key]
        expected = [model[key] for key in sorted(model)]
        step = f"commit {number} of {'hudi-rs' if number % 2 == 0 else 'hoodie'}"
        assert rows_of(hoodie.read_table(path)) == expected, step
        assert rows_of(hudi_rs.open(path).read()) == expected, step
    result = hoodie.metadata.validate(path)
    assert result.is_right, result
