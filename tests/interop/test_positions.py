"""Positions in log files beside real Hudi: the same bytes, and the same rows by positions and by keys."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieKey
from hoodie.io.log.log_block import HeaderMetadataType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.record_positions import decode_positions
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.log_files import log_files_in
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import SCHEMA, init_table, local_client, read_rows, rows, sorted_rows

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(8, 9)]

HEADERS = (HeaderMetadataType.RECORD_POSITIONS, HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
POSITIONS = {"hoodie.write.record.positions": "true", "hoodie.compact.inline": "false"}
USES = "hoodie.merge.use.record.positions"
BASE_ROWS = 70_000
"""More than a container of a bitmap covers."""


def hudi_options(**more: str) -> dict[str, str]:
    options = {
        **SIMPLE.hudi_options("t"),
        **POSITIONS,
        "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        "hoodie.compact.inline.max.delta.commits": "100",
    }
    return options | more


def headers_of(base_path: Path) -> list[tuple[str, ...]]:
    """Kind and positions of each block."""
    blocks = [block for path in log_files_in(base_path) for block in read_log_blocks(path.read_bytes(), str(path))]
    return sorted((block.block_type.name, *(block.headers.get(name, "") for name in HEADERS)) for block in blocks)


def made(numbers: Sequence[int], ts: int) -> pa.Table:
    return rows(*((f"k{number:06d}", "x", ts) for number in numbers))


@pytest.mark.interop_smoke(9)
@pytest.mark.parametrize("operation", ["upsert", "delete"])
def test_blocks_have_the_positions_that_hudi_writes(tmp_path: Path, hudi_1_2: HudiProcess, operation: str) -> None:
    """Few positions (arrays), many (bitmaps), and neighbours (runs)."""
    source = random.Random(7)
    base_path = Path(init_table(tmp_path / "base", table_type="MERGE_ON_READ"))
    with local_client(base_path, POSITIONS, parallelism=1) as client:
        client.bulk_insert(made(range(BASE_ROWS), 1))
    kinds = {
        "few": source.sample(range(BASE_ROWS), 20),
        "many": source.sample(range(BASE_ROWS), 12_000),
        "neighbours": [*range(100, 9000), *range(65_000, 66_500)],
    }
    for kind, numbers in kinds.items():
        ours, theirs = tmp_path / f"{kind}_ours", tmp_path / f"{kind}_theirs"
        for folder in (ours, theirs):
            shutil.copytree(base_path, folder)
        changed = made(source.sample(numbers, len(numbers)), 2)
        with local_client(ours, POSITIONS) as client:
            (client.delete if operation == "delete" else client.upsert)(changed)
        hudi_1_2.write(theirs, changed, hudi_options(), operation=operation)
        (header,) = headers_of(theirs)
        assert len(decode_positions(header[1], len(numbers))) == len(numbers)
        assert headers_of(ours) == [header], kind
        # Each of both reads what the other wrote.
        expected = [row for row in read_rows(ours) if row[2] == 2]
        assert len(expected) == (0 if operation == "delete" else len(numbers))
        for folder in (ours, theirs):
            assert read_rows(folder) == sorted_rows(hudi_1_2.read(folder, {USES: "true"}).select(SCHEMA.names))
        assert read_rows(ours) == read_rows(theirs)


def changed_table(base_path: Path, mode: str, seed: int, hudi: HudiProcess) -> None:
    """Delta commits of hoodie with and without positions, and one of Hudi with them."""
    source = random.Random(seed)
    keys = [f"k{number:02d}" for number in range(40)]
    init_table(base_path, table_type="MERGE_ON_READ", properties={"hoodie.record.merge.mode": mode})
    with local_client(base_path, POSITIONS) as client:
        client.upsert(rows(*((key, "x", 10) for key in keys)))
    for step in range(7):
        chosen = source.sample(keys, 15)
        changes = rows(*((key, "x", source.choice([5, 10, 20, 30])) for key in chosen))
        if step == 3:
            hudi.write(base_path, changes, hudi_options(**{"hoodie.record.merge.mode": mode}))
            continue
        on = str(source.random() < 0.75).lower()
        with local_client(base_path, {**POSITIONS, "hoodie.write.record.positions": on}) as client:
            if source.random() < 0.6:
                client.upsert(changes)
            else:
                client.delete([HoodieKey(key, "x") for key in chosen])


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
def test_all_readers_find_the_same_rows_by_positions_and_by_keys(
    tmp_path: Path, hudis: Sequence[HudiProcess], mode: str, seed: int
) -> None:
    base_path = tmp_path / "t"
    changed_table(base_path, mode, seed, hudis[-1])
    assert any(header[1] for header in headers_of(base_path))
    for compacts in (False, True):
        if compacts:
            hudis[-1].sql(
                f"CALL run_compaction(op => 'scheduleandexecute', path => '{base_path}', "
                "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false')"
            )
        found = read_rows(base_path)
        assert read_rows(base_path, options={USES: "false"}) == found
        assert read_by_hudi_rs(base_path) == found
        for hudi in hudis:
            for read in hudi.read_each(base_path, [{USES: "true"}, {USES: "false"}]):
                if isinstance(read, HudiError):
                    # By event time it fails where a row follows a delete by key.
                    assert hudi.version == "1.0.2" and mode == "EVENT_TIME_ORDERING" and not compacts, read
                else:
                    assert sorted_rows(read.select(SCHEMA.names)) == found, hudi.version
