"""Processes that are killed while they write (kill -9), at random moments; another writer goes on on the same table."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table import table_definition
from tests.support.killed_writer import WriterServer, apply, carry_out, new_client, next_write
from tests.support.model import TableModel, read_model
from tests.support.table_builder import init_table
from tests.support.table_invariants import check_table

SERVICES = {
    "hoodie.cleaner.commits.retained": 1,
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.index.bloom.num_entries": 100,
}
SEVERAL = {
    **SERVICES,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": 1,
}
MODES = {"one_writer": SERVICES, "several_writers": SEVERAL}
MAX_DELAY_S = 0.3


@pytest.fixture(scope="module")
def server() -> Iterator[WriterServer]:
    with WriterServer(table_definition.DEFAULT_TABLE_VERSION) as server:
        yield server


@pytest.mark.parametrize(("mode", "loops"), [("one_writer", 8), ("several_writers", 7)])
def test_a_killed_writer_leaves_what_it_was_told_to_be_committed(
    tmp_path: Path, server: WriterServer, mode: str, loops: int
) -> None:
    kill_writers(tmp_path / "t", server, mode, loops)


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_250_killed_writers(tmp_path: Path, server: WriterServer, mode: str) -> None:
    kill_writers(tmp_path / "t", server, mode, 250)


def kill_writers(base_path: Path, server: WriterServer, mode: str, loops: int) -> None:
    """Kill one writer after the other, each on the table that the one before left and another one recovered."""
    path, properties = str(base_path), MODES[mode]
    init_table(path, ordering_fields=[])
    first_seed = int(os.environ.get("HOODIE_SEED", time.time_ns() % 1_000_000))
    print(f"HOODIE_SEED={first_seed}")
    rows = TableModel()
    committed = unfinished = kept = 0
    for number in range(loops):
        seed = f"{first_seed} {number}"
        rng = random.Random(seed)
        # A slow machine is given the time for some writes, too.
        delay_s = rng.uniform(0, max(MAX_DELAY_S, 4 * server.write_s))
        done, current = server.write_and_kill(path, properties, seed, delay_s)
        for write in done:
            rows = apply(rows, write)
        possible = [rows] if current is None else [rows, apply(rows, current)]
        try:
            found = read_model(path)
            assert found in possible, f"{found} is neither of {possible}"
            committed += len(done)
            unfinished += current is not None
            kept += found == possible[-1] != rows
            # Another writer finds out what is to be done about it, whatever the dead one held.
            let_expire(base_path)
            after = {**next_write(rng, 0), "kind": "upsert"}
            with new_client(path, properties) as client:
                client.rollback_failed_writes()
                assert read_model(path) == found
                carry_out(client, after)
            rows = apply(found, after)
            check_table(path, rows, was_cleaned=True)
            check_nothing_is_left(base_path)
        except BaseException as error:
            error.add_note(
                f"HOODIE_SEED={first_seed}, process {number}, killed after {delay_s * 1000:.0f} ms and {len(done)} "
                f"commits, in {current}"
            )
            raise
    print(f"{loops} writers killed: {committed} commits, {unfinished} amid a write, of which {kept} were committed")
    assert committed + unfinished > 0


def let_expire(base_path: Path) -> None:
    """Let heartbeats, locks and temporary files grow old."""
    folder = base_path / ".hoodie"
    old = time.time() - 2 * 3600
    for file in [*folder.glob(".heartbeat/*"), *folder.glob("lock*"), *folder.rglob(".hoodie_tmp_*")]:
        os.utime(file, (old, old))


def check_nothing_is_left(base_path: Path) -> None:
    """Of dead writers: no pending instant, marker, heartbeat, lock or temporary file."""
    folder = base_path / ".hoodie"
    pending = list(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending())
    assert not pending, pending
    left = [path.name for name in (".temp", ".heartbeat") for path in folder.glob(f"{name}/*")]
    assert not left, left
    assert not list(folder.glob("lock*"))
    assert not list(folder.rglob(".hoodie_tmp_*"))
