"""Operations and their options: the same writes by real Hudi and by hoodie leave the same rows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, read_with_hudi_rs
from tests.support.table_builder import TRIPS, rows

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8]

DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
Write = tuple[str, dict[str, str], list[tuple[Any, ...]]]
Rows = list[tuple[Any, ...]]


def rows_of(table: pa.Table) -> Rows:
    """Rows and the partition path that they lie in."""
    names = [*TRIPS.names, "_hoodie_partition_path"]
    return sorted(tuple(row[name] for name in names) for row in table.to_pylist())


def init(base_path: Path, payload: str) -> None:
    HoodieTableMetaClient.init_table(
        str(base_path),
        table_name="trips",
        properties={"hoodie.compaction.payload.class": payload},
        **{key: value for key, value in SIMPLE.init_arguments().items() if key != "properties"},
    )


def write_with_hoodie(base_path: Path, write: Write, payload: str) -> None:
    operation, options, entries = write
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path), options)) as client:
        getattr(client, operation)(rows(*entries))


def write_with_hudi(hudi: HudiProcess, base_path: Path, write: Write, payload: str) -> None:
    operation, options, entries = write
    given = {**SIMPLE.hudi_options("trips"), "hoodie.datasource.write.payload.class": payload, **options}
    hudi.write(base_path, rows(*entries), given, operation=operation)


def assert_same_outcome(hudi: HudiProcess, folder: Path, payload: str, writes: list[Write]) -> Rows:
    """Real Hudi alone, hoodie alone, and both in turn leave the same rows; they are returned."""
    found = {}
    for name, is_hudi in {
        "hudi": [True] * len(writes),
        "hoodie": [False] * len(writes),
        "in turn": [number % 2 == 0 for number in range(len(writes))],
    }.items():
        base_path = folder / name.replace(" ", "_")
        init(base_path, payload)
        for write, by_hudi in zip(writes, is_hudi, strict=True):
            if by_hudi:
                write_with_hudi(hudi, base_path, write, payload)
            else:
                write_with_hoodie(base_path, write, payload)
        # Hudi takes partition columns from the path, hudi-rs from the file: both are as real Hudi alone left them.
        found[name] = (rows_of(hudi.read(base_path)), rows_of(read_with_hudi_rs(base_path)))
    assert found["hoodie"] == found["hudi"]
    assert found["in turn"] == found["hudi"]
    return found["hudi"][0]


@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, LATEST_PAYLOAD])
@pytest.mark.parametrize("moves", [True, False])
def test_a_global_index_moves_keys_as_hudi_does(hudi: HudiProcess, tmp_path: Path, moves: bool, payload: str) -> None:
    options = {
        "hoodie.index.type": "GLOBAL_SIMPLE",
        "hoodie.simple.index.update.partition.path": str(moves).lower(),
    }
    writes: list[Write] = [
        ("insert", options, [(key, "north", 5, 0.0) for key in "abcdef"] + [("s", "south", 5, 0.0)]),
        (
            "upsert",
            options,
            [
                ("a", "south", 6, 1.0),
                ("b", "south", 4, 1.0),
                ("c", "south", 5, 1.0),
                ("d", "north", 6, 1.0),
                ("n", "south", 1, 1.0),
                ("m", "north", 1, 1.0),
                ("m", "south", 2, 2.0),
            ],
        ),
        (
            "upsert",
            options,
            [("a", "west", 7, 3.0), ("b", "west", 7, 3.0), ("n", "north", 0, 3.0), ("d", "west", 5, 3.0)],
        ),
        ("upsert", options, [("a", "north", 8, 4.0), ("c", "north", 5, 4.0)]),
    ]
    found = assert_same_outcome(hudi, tmp_path, payload, writes)
    keys = [row[0] for row in found]
    assert sorted(keys) == sorted("abcdefsnm")


@pytest.mark.interop_smoke
def test_inserts_of_known_keys_are_dropped_as_hudi_does(hudi: HudiProcess, tmp_path: Path) -> None:
    drop = {"hoodie.datasource.write.insert.drop.duplicates": "true"}
    writes: list[Write] = [
        ("insert", drop, [("a", "north", 1, 1.0), ("b", "south", 1, 1.0)]),
        (
            "insert",
            drop,
            [("a", "north", 2, 2.0), ("c", "north", 2, 2.0), ("c", "north", 3, 3.0), ("b", "north", 2, 2.0)],
        ),
        ("insert", drop, [("c", "north", 4, 4.0), ("d", "south", 2, 2.0), ("d", "south", 1, 1.0)]),
    ]
    assert_same_outcome(hudi, tmp_path, DEFAULT_PAYLOAD, writes)


@pytest.mark.parametrize(
    "options",
    [
        {"hoodie.merge.allow.duplicate.on.inserts": "true"},
        {"hoodie.merge.allow.duplicate.on.inserts": "false"},
        {"hoodie.combine.before.insert": "true", "hoodie.merge.allow.duplicate.on.inserts": "false"},
    ],
)
def test_inserts_into_small_files_add_or_replace_as_hudi_does(
    hudi_0_15: HudiProcess, tmp_path: Path, options: dict[str, str]
) -> None:
    writes: list[Write] = [
        ("insert", options, [("a", "north", 5, 1.0), ("b", "north", 5, 1.0)]),
        ("insert", options, [("a", "north", 6, 2.0), ("b", "north", 4, 2.0), ("c", "north", 1, 2.0)]),
        (
            "insert",
            options,
            [("e", "north", 6, 3.0), ("e", "north", 4, 4.0), ("a", "north", 9, 3.0), ("a", "north", 8, 4.0)],
        ),
        ("upsert", options, [("a", "north", 7, 3.0), ("d", "north", 1, 3.0)]),
    ]
    assert_same_outcome(hudi_0_15, tmp_path, DEFAULT_PAYLOAD, writes)


def test_input_that_is_not_combined_is_written_as_hudi_does(hudi_0_15: HudiProcess, tmp_path: Path) -> None:
    """Where a key comes more than once, 1.2.0 keeps other rows than 0.15.0, on tables of version 6 as well."""
    plain = {"hoodie.combine.before.upsert": "false"}
    writes: list[Write] = [
        ("upsert", plain, [("a", "north", 5, 1.0), ("a", "north", 6, 2.0), ("b", "north", 5, 1.0)]),
        ("upsert", plain, [("b", "north", 7, 2.0), ("b", "north", 6, 3.0)]),
        ("upsert", plain, [("n", "north", 7, 2.0), ("n", "north", 6, 3.0), ("b", "north", 9, 4.0)]),
    ]
    assert_same_outcome(hudi_0_15, tmp_path, DEFAULT_PAYLOAD, writes)


@pytest.mark.table_versions(6, 8, 9)
@pytest.mark.parametrize("mode", ["GLOBAL_SORT", "PARTITION_PATH_REPARTITION_AND_SORT"])
def test_sorted_bulk_inserts_are_extended_by_hudi(hudi_1_2: HudiProcess, tmp_path: Path, mode: str) -> None:
    options = {"hoodie.bulkinsert.sort.mode": mode}
    entries = [(f"k{i * 37 % 100:03d}", ["north", "south"][i % 2], 1, float(i)) for i in range(100)]
    writes: list[Write] = [
        ("bulk_insert", options, entries),
        ("upsert", {}, [(*entry[:2], 2, -1.0) for entry in entries[::3]]),
        ("bulk_insert", options, [("z", "west", 1, 1.0)]),
    ]
    assert len(assert_same_outcome(hudi_1_2, tmp_path, DEFAULT_PAYLOAD, writes)) == 101
