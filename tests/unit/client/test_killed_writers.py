"""Processes that are killed while they write (kill -9), at random moments; another writer goes on on the same table.

Merge-on-read tables are compacted meanwhile: by the writer, in a thread of it, or by processes beside it that plan,
compact and clean, and are killed too, while the test reads.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table import table_definition
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieMissingFileException
from tests.support.clustered_table import pending as pending_of_clusterings
from tests.support.folders import files_below, make_older
from tests.support.killed_writer import INDEXED, Killed, WriterServer, apply, carry_out, new_client, next_write
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.model import TableModel, read_model
from tests.support.table_builder import init_table
from tests.support.table_invariants import check_table
from tests.support.timeline_files import timeline_folder

# What the killed processes make is that of users.
pytestmark = pytest.mark.metadata_table

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
SOON = {"hoodie.compact.inline.max.delta.commits": 2}
"""After how many delta commits the writer compacts."""
BESIDE = {
    **SEVERAL,
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.log.compaction.blocks.threshold": 2,
    "hoodie.time.generator.max_expected_clock_skew_ms": 1,
}
COMPACTING = {
    "inline": {**SERVICES, **SOON, "hoodie.compact.inline": "true"},
    "thread": {**SERVICES, **SOON, "hoodie.datasource.compaction.async.enable": "true"},
    "beside": BESIDE,
}
"""Who compacts: the writer after a commit, a thread of it, or other processes."""
CLUSTERING: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "beside": (BESIDE, ("clustering planner", "clusterer", "cleaner")),
    "inline": ({**SERVICES, "hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": 2}, ()),
}
"""Who clusters: other processes, or the writer after a commit."""
PROCESSES_BESIDE = ("planner", "compactor", "log_compactor", "cleaner")
INDEXES = {"SIMPLE": {}, "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}}
VERSIONS = (6, 8, 9)
WITH_METADATA = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.compact.max.delta.commits": 3,
}
"""A metadata table that is compacted often."""
EVERY_PARTITION = {
    **WITH_METADATA,
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
}
"""A secondary index is made besides, where the version has them."""
THREAD = {**COMPACTING["thread"], "hoodie.clean.async": "true", "hoodie.archive.async": "true"}
BY_RECORD_INDEX = {"hoodie.index.type": "RECORD_INDEX"}
BY_FILTERS = {"hoodie.index.type": "BLOOM", "hoodie.bloom.index.use.metadata": "true"}
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "cow-inline": ("COPY_ON_WRITE", {**SERVICES, **BY_RECORD_INDEX}),
    "cow-thread": ("COPY_ON_WRITE", {**THREAD, **BY_FILTERS}),
    "mor-inline": ("MERGE_ON_READ", {**COMPACTING["inline"], **BY_FILTERS}),
    "mor-thread": ("MERGE_ON_READ", {**THREAD, **BY_RECORD_INDEX}),
    "mor-beside": ("MERGE_ON_READ", {**COMPACTING["beside"], **BY_RECORD_INDEX}),
}
"""The type of a table, who cleans, archives and compacts, and how keys are found."""
QUICK = ((6, "beside", "SIMPLE"), (8, "thread", "BUCKET"), (9, "inline", "SIMPLE"), (9, "beside", "BUCKET"))
LOGS = [
    pytest.param(*case, marks=[] if case in QUICK else [pytest.mark.soak], id="-".join(map(str, case)))
    for case in ((version, who, index) for version in VERSIONS for who in COMPACTING for index in INDEXES)
]
MAX_DELAY_S = 0.3
MAX_WAIT_S = 2
"""For a moment in a write."""
WRITES = {"COPY_ON_WRITE": 4, "MERGE_ON_READ": 12}
"""As long as so many writes take, processes live at most: some compact in between."""


@pytest.fixture(scope="module")
def server() -> Iterator[WriterServer]:
    with WriterServer(table_definition.DEFAULT_TABLE_VERSION) as server:
        yield server


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, WriterServer]]:
    """For merge-on-read tables; one for each process that is alive at a time."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(WriterServer(table_definition.DEFAULT_TABLE_VERSION, "MERGE_ON_READ"))
            for name in ("writer", *PROCESSES_BESIDE)
        }


@pytest.mark.parametrize(("mode", "loops"), [("one_writer", 8), ("several_writers", 7)])
def test_a_killed_writer_leaves_what_it_was_told_to_be_committed(
    tmp_path: Path, server: WriterServer, mode: str, loops: int
) -> None:
    kill_writers(init_table(tmp_path / "t", ordering_fields=[]), {"writer": server}, MODES[mode], loops)


@pytest.mark.parametrize(("table_version", "who", "index"), LOGS, indirect=["table_version"])
def test_processes_that_are_killed_while_they_write_and_compact_log_files(
    tmp_path: Path, servers: dict[str, WriterServer], table_version: int, who: str, index: str
) -> None:
    kill_compactors(tmp_path / "t", servers, who, index, 6)


def test_a_writer_draws_other_keys_than_the_test_that_gives_it_a_seed(tmp_path: Path, server: WriterServer) -> None:
    """An insert looks no keys up: of a key that the test has written it would store a second row."""
    path = init_table(tmp_path / "t", ordering_fields=[])
    server.begin(path, {}, "8")
    killed = server.kill()
    first = (*killed.done, killed.current)[0]
    assert first is not None
    drawn = next_write(random.Random("8"), 1)
    assert len(drawn["keys"]) == 5
    assert first["keys"] != drawn["keys"]


def test_a_model_refuses_inserts_of_stored_keys() -> None:
    insert = {"kind": "insert", "keys": ["x1", "y1"], "value": 1}
    with pytest.raises(AssertionError, match="these are stored: .'y1'."):
        apply(apply(TableModel(), {"kind": "upsert", "keys": ["y1"], "value": 0}), insert)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("who", CLUSTERING)
@pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
def test_processes_that_are_killed_while_they_write_and_cluster(
    tmp_path: Path, table_version: int, who: str, table_type: str
) -> None:
    kill_clusterers(tmp_path / "t", who, table_type, 6)


@pytest.mark.slow
@pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
@pytest.mark.parametrize("mode", MODES)
def test_killed_writers_leave_a_right_metadata_table(
    tmp_path: Path, server: WriterServer, mode: str, table_version: int
) -> None:
    path = init_table(tmp_path / "t", ordering_fields=[])
    kill_writers(path, {"writer": server}, {**MODES[mode], **WITH_METADATA}, 8)
    assert HoodieTableMetaClient.load(path).table_config.metadata_partitions


@pytest.mark.slow
@pytest.mark.parametrize(("table_version", "who"), [(6, "beside"), (8, "thread"), (9, "inline")],
                         indirect=["table_version"])  # fmt: skip
def test_processes_killed_while_they_compact_leave_a_right_metadata_table(
    tmp_path: Path, servers: dict[str, WriterServer], table_version: int, who: str
) -> None:
    kill_compactors(tmp_path / "t", servers, who, "SIMPLE", 8, WITH_METADATA)
    assert HoodieTableMetaClient.load(str(tmp_path / "t")).table_config.metadata_partitions


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
def test_killed_processes_leave_every_partition_of_the_metadata_table_right(
    tmp_path: Path, server: WriterServer, servers: dict[str, WriterServer], table_version: int, kind: str
) -> None:
    table_type, given = KINDS[kind]
    properties = {**given, **EVERY_PARTITION}
    path = init_table(tmp_path / "t", ordering_fields=[], table_type=table_type)
    partitions = {"files", "column_stats", "bloom_filters", "record_index"}
    first = {"kind": "upsert", "keys": ["x1", "x2", "y1"], "value": 0}
    with new_client(path, properties) as client:
        carry_out(client, first)
        if table_version > 6:
            client.create_index("idx_ts", "ts")
            partitions |= {"partition_stats", "secondary_index_idx_ts"}
    names = ("writer", *PROCESSES_BESIDE) if kind.endswith("beside") else ("writer",)
    processes = {"writer": server} if table_type == "COPY_ON_WRITE" else {name: servers[name] for name in names}
    kill_writers(path, processes, properties, 8, apply(TableModel(), first), slower=3)
    assert set(listed_partitions(path)) == partitions


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_250_killed_writers(tmp_path: Path, server: WriterServer, mode: str) -> None:
    kill_writers(init_table(tmp_path / "t", ordering_fields=[]), {"writer": server}, MODES[mode], 250)


@pytest.mark.soak
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("who", COMPACTING)
@pytest.mark.parametrize("table_version", VERSIONS, indirect=True)
def test_100_kills_while_log_files_are_compacted(
    tmp_path: Path, servers: dict[str, WriterServer], table_version: int, who: str, index: str
) -> None:
    kill_compactors(tmp_path / "t", servers, who, index, 100)


def kill_compactors(
    base_path: Path,
    servers: dict[str, WriterServer],
    who: str,
    index: str,
    loops: int,
    more: Mapping[str, Any] | None = None,
) -> None:
    """`kill_writers` on a merge-on-read table; what is left must have been compacted at least once."""
    path = init_table(base_path, ordering_fields=[], table_type="MERGE_ON_READ")
    names = ("writer", *PROCESSES_BESIDE) if who == "beside" else ("writer",)
    kill_writers(
        path, {name: servers[name] for name in names}, {**COMPACTING[who], **INDEXES[index], **(more or {})}, loops
    )


def kill_clusterers(base_path: Path, who: str, table_type: str, loops: int) -> None:
    """`kill_writers` on a table that is clustered; at least one clustering must have been completed."""
    path = init_table(base_path, ordering_fields=[], table_type=table_type)
    properties, names = CLUSTERING[who]

    def cluster(rng: random.Random) -> None:
        """A plan that a process left is carried out by another one; nobody sees a difference."""
        with new_client(path, properties) as client:
            found = read_model(path)
            client.cluster()
            assert read_model(path) == found
        assert pending_of_clusterings(path) == []

    with ExitStack() as stack:
        servers = {
            name: stack.enter_context(WriterServer(table_definition.DEFAULT_TABLE_VERSION, table_type))
            for name in ("writer", *names)
        }
        kill_writers(path, servers, properties, loops, slower=3, after_all=cluster, compacts=False)
    table = HoodieTableMetaClient.load(path)
    instants = [*table.active_timeline, *table.archived_timeline]
    assert [instant for instant in instants if instant.action is Action.REPLACE_COMMIT]


@attrs.define
class Counts:
    """What became of the writes of killed processes."""

    committed: int = 0
    lost: int = 0
    unfinished: int = 0
    kept: int = 0
    """Of the unfinished ones, those that are there."""
    read: int = 0
    """How often the table was read while processes were at work."""
    missed: int = 0
    """How often its files were cleaned away from under a reader."""


def kill_writers(
    path: str,
    servers: dict[str, WriterServer],
    properties: dict[str, Any],
    loops: int,
    rows: TableModel | None = None,
    slower: float = 1,
    before: Callable[[random.Random, TableModel], TableModel] = lambda rng, rows: rows,
    after_all: Callable[[random.Random], None] = lambda rng: None,
    compacts: bool = True,
) -> None:
    """Kill processes again and again, each time on the table that those before left and another one recovered.

    Args:
        path: The table.
        servers: Of the processes that are alive at a time, by what they do.
        properties: Of all of them.
        loops: How often they are killed.
        rows: What the table holds.
        slower: How much longer they live than `WRITES` says, since their writes take longer.
        before: What is done to the table before each time, given its rows; gives the rows after that.
        after_all: What a recovery is to do besides.
        compacts: Whether a process compacts a merge-on-read table.
    """
    table_type = str(HoodieTableMetaClient.load(path).table_config.table_type)
    first_seed = int(os.environ.get("HOODIE_SEED", time.time_ns() % 1_000_000))
    print(f"HOODIE_SEED={first_seed}")
    rows = TableModel() if rows is None else rows
    counts = Counts()
    for number in range(loops):
        seed = f"{first_seed} {number}"
        rng = random.Random(seed)
        rows = before(rng, rows)
        # A slow machine is given the time for some writes, too.
        longest_s = slower * max(MAX_DELAY_S, WRITES[table_type] * servers["writer"].write_s)
        delay_s = rng.uniform(0, longest_s)
        killed = Killed()
        try:
            killed, seen = work_and_kill(path, servers, properties, seed, delay_s, counts)
            possible = [rows]
            for write in [*killed.done, *([killed.current] if killed.current else [])]:
                possible.append(apply(possible[-1], write))
            check_order(seen, possible)
            rows, possible = possible[len(killed.done)], possible[len(killed.done) :]
            found = read_model(path)
            assert found in possible, f"{found} is neither of {possible}"
            counts.committed += len(killed.done)
            counts.lost += killed.lost
            counts.unfinished += killed.current is not None
            counts.kept += found == possible[-1] != rows
            # Another writer finds out what is to be done about it, whatever the dead ones held.
            let_expire(Path(path))
            after = {**next_write(rng, 0), "kind": "upsert"}
            with new_client(path, properties) as client:
                client.rollback_failed_writes()
                assert read_model(path) == found
                if table_type == "MERGE_ON_READ" and rng.random() < 0.5:
                    finish_compactions(client, found)
                carry_out(client, after)
            rows = apply(found, after)
            with new_client(path, properties) as client:
                finish_compactions(client, rows)
                client.clean()
            after_all(rng)
            check_table(path, rows, was_cleaned=True)
            if table_type == "MERGE_ON_READ":
                assert read_by_hudi_rs(Path(path)) == sorted(rows.values())
            check_nothing_is_left(Path(path))
            check_equals_a_new_one(path, may_be_absent=True)
        except BaseException as error:
            error.add_note(
                f"HOODIE_SEED={first_seed}, process {number}, killed after {delay_s * 1000:.0f} ms and "
                f"{len(killed.done)} commits, in {killed.current}"
            )
            raise
    print(f"{loops} times {', '.join(servers)} killed: {attrs.asdict(counts)}")
    assert counts.committed + counts.unfinished > 0
    if table_type == "MERGE_ON_READ" and compacts:
        timeline = HoodieTableMetaClient.load(path)
        instants = [*timeline.active_timeline, *timeline.archived_timeline]
        assert [instant for instant in instants if instant.action is Action.COMMIT], "nothing was compacted"


def work_and_kill(
    path: str, servers: dict[str, WriterServer], properties: dict[str, Any], seed: str, delay_s: float, counts: Counts
) -> tuple[Killed, list[TableModel]]:
    """Let processes work for a while, and kill them, each at a moment of its own.

    Returns:
        What the writer told, and what was read meanwhile.
    """
    rng = random.Random(f"{seed} moments")
    moments = {name: delay_s if name == "writer" else rng.uniform(0, delay_s) for name in servers}
    killed, seen = Killed(), []
    try:
        for name, server in servers.items():
            server.begin(path, properties, seed, name)
        began = time.monotonic()
        for name in sorted(servers, key=moments.__getitem__):
            while len(servers) > 1 and time.monotonic() < began + moments[name]:
                try:
                    seen.append(read_model(path))
                    counts.read += 1
                except HoodieMissingFileException:
                    counts.missed += 1
            time.sleep(max(0, began + moments[name] - time.monotonic()))
            if name == "indexer":
                wait_for_an_indexing(Path(path), rng)
            elif name == "writer" and "hoodie.metadata.enable" in properties and rng.random() < 0.7:
                wait_for_a_recording(Path(path), rng)
            found = servers[name].kill()
            killed = found if name == "writer" else killed
    finally:
        for server in servers.values():
            if server.is_at_work:
                server.kill()
    return killed, seen


def wait_for_a_recording(base_path: Path, rng: random.Random) -> None:
    """Let the writer come to where it begins to record its action in the metadata table, or has recorded it."""
    ending = rng.choice([".deltacommit.inflight", ".deltacommit", ".deltacommit"])
    folder = timeline_folder(base_path / ".hoodie/metadata")
    deadline = time.monotonic() + MAX_WAIT_S
    with suppress(FileNotFoundError):
        known = set(os.listdir(folder))
        while time.monotonic() < deadline:
            if any(name.endswith(ending) for name in set(os.listdir(folder)) - known):
                break
            time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.02) if ending.endswith("inflight") else rng.choice([0, 0, 0.005]))


def wait_for_an_indexing(base_path: Path, rng: random.Random) -> None:
    """Let the indexer come to one of its steps, which leaves a file; and a little further."""
    metadata = base_path / ".hoodie/metadata"
    step = rng.choice(["plan", "plan", "base file", "base file", "delta commit", "delta commit", "anywhere"])
    folders = {
        "plan": [timeline_folder(base_path)],
        "base file": [metadata / name for name in INDEXED],
        "delta commit": [timeline_folder(metadata)],
    }.get(step, [])
    ending = rng.choice([".requested", ".inflight", ".indexing"] if step == "plan" else ["", ".inflight"])

    def found() -> set[str]:
        names: set[str] = set()
        for folder in folders:
            with suppress(FileNotFoundError, NotADirectoryError):
                names.update(f"{folder.name}/{name}" for name in os.listdir(folder))
        return {name for name in names if step != "plan" or ".indexing" in name}

    known, deadline = found(), time.monotonic() + MAX_WAIT_S / 2
    while folders and time.monotonic() < deadline:
        if any(name.endswith(ending if step != "base file" else "") for name in found() - known):
            break
        time.sleep(0.0005)
    time.sleep(rng.uniform(0, 0.03))


def check_order(seen: list[TableModel], possible: list[TableModel]) -> None:
    """What a reader saw, one time after the other, are states of the table, in their order."""
    number = 0
    for found in seen:
        assert found in possible[number:], f"{found} is none of {possible[number:]}"
        number = possible.index(found, number)


def finish_compactions(client: Any, rows: TableModel) -> None:
    """Compact everything; nobody sees a difference."""
    while client.log_compact() is not None:
        pass
    while client.compact() is not None:
        assert read_model(client.config.base_path) == rows


def let_expire(base_path: Path) -> None:
    """Let heartbeats, locks and temporary files grow old."""
    folder = base_path / ".hoodie"
    temporary = [file for file in files_below(folder) if file.name.startswith(".hoodie_tmp_")]
    make_older([*folder.glob(".heartbeat/*"), *folder.glob("lock*"), *temporary])


def check_nothing_is_left(base_path: Path) -> None:
    """Of dead writers: no pending instant, marker, heartbeat, lock or temporary file."""
    folder = base_path / ".hoodie"
    pending = list(HoodieTableMetaClient.load(str(base_path)).active_timeline.filter_pending())
    assert not pending, pending
    left = [path.name for name in (".temp", ".heartbeat") for path in folder.glob(f"{name}/*")]
    assert not left, left
    # Who died while it broke a lock left its claim on that one, until the next lock is broken.
    assert not [path.name for path in folder.glob("lock*") if ".breaking-" not in path.name]
    assert not list(folder.rglob(".hoodie_tmp_*"))
