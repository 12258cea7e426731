"""File sizes beside real Hudi: both fill the same small files, and keep the sizes that the other one planned."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE

pytestmark = pytest.mark.interop

MAXIMUM = 1_000_000
LIMIT = 700_000
OPTIONS = {
    "hoodie.parquet.max.file.size": str(MAXIMUM),
    "hoodie.parquet.small.file.limit": str(LIMIT),
    "hoodie.parquet.compression.codec": "uncompressed",
    # Filters of the default size would weigh as much as the records.
    "hoodie.index.bloom.num_entries": "2000",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.copyonwrite.record.size.estimate": "650",
    "hoodie.bulkinsert.shuffle.parallelism": "1",
}
PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("text", pa.string())])
RECORDS_OF_A_FILE = 1500
"""About; each has a text of 500 random characters."""


def rows(first: int, last: int, ts: int = 1) -> pa.Table:
    letters = np.random.default_rng(first).integers(97, 123, (last - first, 500), dtype=np.uint8)
    return pa.table(
        [
            [f"k{number:06d}" for number in range(first, last)],
            ["north"] * (last - first),
            [ts] * (last - first),
            [row.tobytes().decode() for row in letters],
        ],
        schema=SCHEMA,
    )


def write_with_hoodie(base_path: Path, table: pa.Table, operation: str = "upsert") -> None:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path), OPTIONS)) as client:
        getattr(client, operation)(table)


def write_with_hudi(hudi: HudiProcess, base_path: Path, table: pa.Table, operation: str = "upsert") -> None:
    options = {**SIMPLE.hudi_options("trips"), "hoodie.datasource.write.payload.class": PAYLOAD, **OPTIONS}
    hudi.write(base_path, table, options, operation=operation)


def make(base_path: Path) -> None:
    HoodieTableMetaClient.init_table(
        str(base_path),
        table_name="trips",
        **{**SIMPLE.init_arguments(), "properties": {"hoodie.compaction.payload.class": PAYLOAD}},
    )


def sizes(base_path: Path) -> dict[str, int]:
    """File id to the bytes of its latest base file."""
    view = HoodieTableMetaClient.load(str(base_path)).view()
    return {base_file.file_id: base_file.size_bytes for base_file in view.latest_base_files("north")}


def touched(base_path: Path) -> set[str]:
    """File groups that the newest commit wrote."""
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    metadata = timeline.read_commit_metadata(list(timeline.filter_completed_instants())[-1])
    return {stat.file_id for stat in metadata.write_stats}


def ids(base_path: Path) -> list[str]:
    return sorted(hoodie.read_table(str(base_path), columns=["id"])["id"].to_pylist())


def test_both_fill_the_same_small_files(hudi: HudiProcess, tmp_path: Path) -> None:
    """A table of one full and one small file, made by either; then inserts that find room, and inserts that do not."""
    for maker in ("hoodie", "hudi"):
        made = tmp_path / maker
        make(made)
        for first, last in ((0, RECORDS_OF_A_FILE), (RECORDS_OF_A_FILE, 2000)):
            if maker == "hoodie":
                write_with_hoodie(made, rows(first, last), "bulk_insert")
            else:
                write_with_hudi(hudi, made, rows(first, last), "bulk_insert")
        small, full = sorted(sizes(made), key=lambda file_id: sizes(made)[file_id])
        assert sizes(made)[small] < LIMIT < sizes(made)[full] < 1.1 * MAXIMUM, sizes(made)
        for last, groups in ((2300, 1), (5000, None)):
            written = {}
            for writer in ("hoodie", "hudi"):
                base_path = tmp_path / f"{maker}_{writer}_{last}"
                shutil.copytree(made, base_path)
                if writer == "hoodie":
                    write_with_hoodie(base_path, rows(2000, last))
                else:
                    write_with_hudi(hudi, base_path, rows(2000, last))
                written[writer] = touched(base_path)
                assert ids(base_path) == [f"k{number:06d}" for number in range(last)]
            for writer, files in written.items():
                assert full not in files and small in files, (maker, writer)
                assert groups is None or len(files) == groups, (maker, writer)


def test_sizes_hold_where_both_write_in_turn(hudi: HudiProcess, tmp_path: Path) -> None:
    base_path = tmp_path / "t"
    make(base_path)
    write_with_hoodie(base_path, rows(0, 4 * RECORDS_OF_A_FILE), "insert")
    ours = sizes(base_path)
    assert max(ours.values()) <= 1.1 * MAXIMUM
    assert sum(size < LIMIT for size in ours.values()) <= 1
    # Hudi knows the size of a record from hoodie's commit: its files come out as planned.
    write_with_hudi(hudi, base_path, rows(4 * RECORDS_OF_A_FILE - 100, 7 * RECORDS_OF_A_FILE, ts=2))
    theirs = sizes(base_path)
    new = [size for file_id, size in theirs.items() if file_id not in ours]
    assert new and max(theirs.values()) <= 1.25 * MAXIMUM, theirs
    # And hoodie from Hudi's: small files are filled, none becomes too large that was not.
    write_with_hoodie(base_path, rows(7 * RECORDS_OF_A_FILE - 100, 11 * RECORDS_OF_A_FILE, ts=3))
    at_last = sizes(base_path)
    assert all(size <= max(1.1 * MAXIMUM, 1.05 * theirs.get(file_id, 0)) for file_id, size in at_last.items()), at_last
    assert sum(size < LIMIT for size in at_last.values()) <= 1, at_last
    wanted = [f"k{number:06d}" for number in range(11 * RECORDS_OF_A_FILE)]
    assert ids(base_path) == wanted
    assert sorted(hudi.read(base_path)["id"].to_pylist()) == wanted
