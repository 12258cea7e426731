"""Writers that die, or meet one failure of the store, at every single call to the storage; and what is found after."""

from __future__ import annotations

import random
import re
import shutil
import sys
import traceback
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.exception import HoodieException, TableExistsException, TableNotFoundException
from hoodie.table.repair import find_orphan_files
from tests.support.change_data import check_stored_changes, with_change_data
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.model import TableModel, model
from tests.support.table_builder import SMALL_FILTERS, TRIPS, local_client, read_trips, rows
from tests.support.timeline_files import instant_of_path, read_commit, state_files

INIT: dict[str, Any] = {
    "table_name": "trips",
    "record_key_fields": ["id"],
    "partition_fields": ["region"],
    "ordering_fields": ["ts"],
}


# --- what is done -----------------------------------------------------------------------------------------------------


def new_client(base_path: Path, **properties: Any) -> HoodieLocalWriteClient:
    return local_client(base_path, SMALL_FILTERS, parallelism=1, **properties)


FIRST = (("a", "x", 1, 1.0), ("b", "x", 1, 2.0), ("c", "y", 1, 3.0))
CHANGES = (("a", "x", 2, 10.0), ("d", "x", 1, 4.0), ("e", "z", 1, 5.0))
NEW = (("d", "x", 1, 4.0), ("e", "z", 1, 5.0))
OVERWRITING = (("b", "x", 2, 20.0), ("e", "z", 1, 5.0))


@attrs.frozen
class Operation:
    """One thing to do on the table of `FIRST`, and the rows before and after it."""

    name: str
    run: Callable[[HoodieLocalWriteClient, str], Any]
    before: TableModel
    after: TableModel
    prepare: Callable[[Path], str] = lambda base_path: ""
    only_changes: bool = False
    """Whether only calls fail that change something: there are many others, which leave what those leave."""
    properties: Mapping[str, Any] = attrs.field(factory=dict)
    """Of all writers of the table."""
    table_type: str | None = None
    """By default that of the command line."""
    table_properties: Mapping[str, str] = attrs.field(factory=dict)

    def is_done(self, base_path: Path, committed_before: list[str]) -> bool:
        """By the file that decides: the completed commit, or the plan of a rollback, which the next writer executes."""
        if self.prepare in (commit_changes, commit_overwrite):
            return any(action == "rollback" for _, action in instants(base_path))
        return completed_commits(base_path) != committed_before


def leave_pending(base_path: Path, **properties: str) -> str:
    client = new_client(base_path, **{"hoodie.auto.commit": "false", **properties})
    instant_time = client.start_commit()
    client.upsert(rows(*CHANGES), instant_time)
    return instant_time


def commit_changes(base_path: Path) -> str:
    with new_client(base_path) as client:
        return client.upsert(rows(*CHANGES)).instant_time


def commit_overwrite(base_path: Path) -> str:
    with new_client(base_path) as client:
        return client.insert_overwrite(rows(*OVERWRITING)).instant_time


def renew_other_partition(base_path: Path) -> str:
    with new_client(base_path) as client:
        client.upsert(rows(FIRST[2]))
    return ""


SMALL_FILES = {
    "hoodie.parquet.max.file.size": 40_000,
    "hoodie.parquet.small.file.limit": 30_000,
}
LARGE = tuple((f"k{random.Random(i).randbytes(800).hex()}", "x", 1, 1.0) for i in range(30))
TINY = tuple((f"n{i:03}", "x", 1, 1.0) for i in range(60))
"""Enough for several files that are too small, and several that they are joined to: more make the same calls again."""


def write_large_records(base_path: Path) -> str:
    with new_client(base_path, **SMALL_FILES) as client:
        client.upsert(rows(*LARGE))
    return ""


def join_small_files(client: HoodieLocalWriteClient) -> None:
    """An upsert that expects large records, makes files that are too small of them, and joins those."""
    with new_client(Path(client.config.base_path), **SMALL_FILES) as other:
        result = other.upsert(rows(*TINY))
    assert any(step.name == "join small files" for step in result.steps)


def move_keys(client: HoodieLocalWriteClient) -> None:
    with new_client(Path(client.config.base_path), **{"hoodie.index.type": "GLOBAL_SIMPLE"}) as other:
        other.upsert(rows(("a", "y", 2, 10.0), ("c", "z", 2, 30.0)))


def write_back(client: HoodieLocalWriteClient) -> None:
    stored = hoodie.read_table(client.config.base_path, filters=[("region", "=", "x")])
    fares = pa.array([10.0, 20.0])
    client.upsert_prepped_records(stored.set_column(stored.schema.get_field_index("fare"), "fare", fares))


OPERATIONS = [
    Operation("upsert", lambda c, _: c.upsert(rows(*CHANGES)), model(*FIRST), model(*FIRST, *CHANGES)),
    Operation("insert", lambda c, _: c.insert(rows(*NEW)), model(*FIRST), model(*FIRST, *NEW)),
    Operation("bulk_insert", lambda c, _: c.bulk_insert(rows(*NEW)), model(*FIRST), model(*FIRST, *NEW)),
    Operation(
        "delete",
        lambda c, _: c.delete([HoodieKey("a", "x"), HoodieKey("c", "y")]),
        model(*FIRST),
        model(FIRST[1]),
    ),
    Operation("rollback of a failed write", lambda c, t: c.rollback(t), model(*FIRST), model(*FIRST), leave_pending),
    Operation(
        "rollback of a commit", lambda c, t: c.rollback(t), model(*FIRST, *CHANGES), model(*FIRST), commit_changes
    ),
    Operation(
        "upsert after a failed write",
        lambda c, _: c.upsert(rows(*CHANGES)),
        model(*FIRST),
        model(*FIRST, *CHANGES),
        leave_pending,
    ),
    Operation(
        "insert_overwrite",
        lambda c, _: c.insert_overwrite(rows(*OVERWRITING)),
        model(*FIRST),
        model(FIRST[2], *OVERWRITING),
    ),
    Operation(
        "insert_overwrite_table",
        lambda c, _: c.insert_overwrite_table(rows(*OVERWRITING)),
        model(*FIRST),
        model(*OVERWRITING),
    ),
    Operation(
        "delete_partitions",
        lambda c, _: c.delete_partitions(["x", "nowhere"]),
        model(*FIRST),
        model(FIRST[2]),
    ),
    Operation(
        "rollback of an overwrite",
        lambda c, t: c.rollback(t),
        model(FIRST[2], *OVERWRITING),
        model(*FIRST),
        commit_overwrite,
    ),
]
ONLY_DEATHS = [
    Operation(
        "upsert that joins small files",
        lambda c, _: join_small_files(c),
        model(*FIRST, *LARGE),
        model(*FIRST, *LARGE, *TINY),
        write_large_records,
        only_changes=True,
    ),
    Operation(
        "upsert that moves keys",
        lambda c, _: move_keys(c),
        model(*FIRST),
        model(FIRST[1], ("a", "y", 2, 10.0), ("c", "z", 2, 30.0)),
    ),
    Operation(
        "upsert into buckets",
        lambda c, _: c.upsert(rows(*CHANGES)),
        model(*FIRST),
        model(*FIRST, *CHANGES),
        properties={"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2},
    ),
    Operation(
        "expiry of a partition",
        lambda c, _: c.expire_partitions(),
        model(*FIRST),
        model(FIRST[2]),
        renew_other_partition,
        properties={"hoodie.partition.ttl.strategy.class": "tests.support.partition_strategies.X"},
    ),
    Operation(
        "prepped upsert",
        lambda c, _: write_back(c),
        model(*FIRST),
        model(FIRST[2], ("a", "x", 1, 10.0), ("b", "x", 1, 20.0)),
    ),
]


BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 2}
COMPACTING = {"hoodie.compact.inline.max.delta.commits": 1}
INLINE = {**COMPACTING, "hoodie.compact.inline": "true"}
IN_THREAD = {**COMPACTING, "hoodie.datasource.compaction.async.enable": "true"}
BY_HAND = {**COMPACTING, "hoodie.compact.schedule.inline": "true"}


def delta_commit(name: str, keys: list[HoodieKey] | None = None, **given: Any) -> Operation:
    """A delete of keys, else an upsert of `CHANGES`, on a merge-on-read table; the client is closed."""
    changed = [*FIRST, *CHANGES]
    if keys is not None:
        changed = [row for row in FIRST if HoodieKey(row[0], row[1]) not in keys]

    def run(client: HoodieLocalWriteClient, _: str) -> None:
        with client:
            client.upsert(rows(*CHANGES)) if keys is None else client.delete(keys)

    return Operation(name, run, model(*FIRST), model(*changed), table_type="MERGE_ON_READ", **given)


GONE = [HoodieKey("a", "x"), HoodieKey("c", "y")]
DELTA_COMMITS = [
    delta_commit("upsert into log files"),
    delta_commit("upsert of a bucket's log files", properties=BUCKETS),
    delta_commit("delete in log files", GONE),
    delta_commit("delete in a bucket's log files", GONE, properties=BUCKETS),
    delta_commit("upsert after a failed one", prepare=partial(leave_pending, **BUCKETS), properties=BUCKETS),
    delta_commit("upsert and compaction", properties={**INLINE, **BUCKETS}),
    delta_commit("upsert and compaction in a thread", properties=IN_THREAD),
    delta_commit("upsert and planned compaction", properties=BY_HAND),
    attrs.evolve(
        next(operation for operation in ONLY_DEATHS if operation.name == "upsert that moves keys"),
        name="upsert that moves keys between log files",
        table_type="MERGE_ON_READ",
    ),
    *(
        delta_commit(f"upsert by {index_type}", only_changes=True, properties={"hoodie.index.type": index_type})
        for index_type in ("BLOOM", "INMEMORY", "GLOBAL_BLOOM")
    ),
]
"""Each index, and who compacts."""
QUICK = ("upsert into log files", "delete in a bucket's log files", "upsert and compaction")


@pytest.fixture(autouse=True)
def failing(faulty_storage: None) -> None:
    """Every storage of local files is the one that fails."""


# --- what must hold afterwards ----------------------------------------------------------------------------------------


def instants(base_path: Path) -> dict[tuple[str, str], set[str]]:
    """States of each (time, action), by file names alone."""
    found: dict[tuple[str, str], set[str]] = {}
    for file in state_files(base_path):
        instant = instant_of_path(file)
        assert instant is not None
        found.setdefault((instant.requested_time, str(instant.action)), set()).add(instant.state.name.lower())
    return found


def completed_commits(base_path: Path) -> list[str]:
    return sorted(
        time for (time, action), states in instants(base_path).items() if action != "rollback" and "completed" in states
    )


def read_by_hudi_rs(base_path: Path) -> list[tuple[Any, ...]]:
    table = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(base_path)).build().read())
    return sorted(tuple(row.values()) for row in table.select(TRIPS.names).to_pylist())


def check_files(base_path: Path) -> None:
    """No instant is pending, no marker is left; the data files are exactly those of the completed commits."""
    states = instants(base_path)
    # A compaction is completed as a commit.
    completed = {time for (time, action), found in states.items() if "completed" in found}
    pending = {key: found for key, found in states.items() if key[0] not in completed}
    assert not pending
    assert list((base_path / ".hoodie" / ".temp").iterdir()) == []
    explained = set()
    for time in completed_commits(base_path):
        stats = read_commit(base_path, time).write_stats
        explained |= {str(path) for stat in stats for path in (stat.path, *(stat.cdc_stats or ()))}
    found = [file for pattern in ("*.parquet", ".*.log.*") for file in base_path.rglob(pattern)]
    files = {str(file.relative_to(base_path)) for file in found if ".hoodie" not in file.parts}
    if HoodieTableMetaClient.load(str(base_path)).table_config.table_version < 8:
        # A rollback leaves log files, and explains them.
        logs = {file for file in files - explained if ".log." in file}
        explained |= logs - {file.path for file in find_orphan_files(str(base_path)).files}
    assert files == explained


def shape_of(base_path: Path) -> tuple[str, ...]:
    """All files and folders, their random names and attempt numbers left out, instant times by their order."""
    names = [str(path.relative_to(base_path)) for path in base_path.rglob("*")]
    times = sorted({time for name in names for time in re.findall(r"\d{17}", name)})
    names = [re.sub(r"[0-9a-f-]{36}-\d+_[\d-]+_", "file_", name) for name in names]
    names = [re.sub(r"(\.log\.\d+)_[\d-]+", r"\1", name) for name in names]
    return tuple(sorted(re.sub(r"\d{17}", lambda match: f"t{times.index(match[0])}", name) for name in names))


def recover_and_check(base_path: Path, expected: TableModel, properties: Mapping[str, Any]) -> None:
    """Another writer goes on; everything is as if the operation had been done, or never begun."""
    later = (("b", "x", 9, 90.0), ("new", "z", 1, 9.0))
    with new_client(base_path, **properties) as client:
        client.upsert(rows(*later))
        if COMPACTING.items() <= properties.items():
            assert read_trips(base_path) == sorted({**expected, **model(*later)}.values())
            while client.compact() is not None:
                pass
    check_files(base_path)
    if HoodieTableMetaClient.load(str(base_path)).table_config.logging_mode is not None:
        for time in completed_commits(base_path):
            check_stored_changes(base_path, time)
    found = read_trips(base_path)
    assert found == sorted({**expected, **model(*later)}.values())
    assert read_by_hudi_rs(base_path) == found


CHANGE_DATA = [
    attrs.evolve(
        operation,
        name=f"{operation.name}, with change data",
        table_properties=with_change_data(),
        only_changes=True,
        table_type="COPY_ON_WRITE",
    )
    for operation in [*OPERATIONS, *ONLY_DEATHS]
    if operation.name
    in (
        "upsert",
        "insert",
        "delete",
        "rollback of a failed write",
        "rollback of a commit",
        "upsert that joins small files",
    )
]
CHANGE_DATA.append(
    attrs.evolve(CHANGE_DATA[0], name="upsert of a merge-on-read table, with change data", table_type="MERGE_ON_READ")
)
PAIRS = [
    *((operation, True) for operation in [*OPERATIONS, *ONLY_DEATHS, *CHANGE_DATA]),
    (attrs.evolve(CHANGE_DATA[0], only_changes=False), False),
    # Upsert and insert alone make no calls that the others do not.
    *((operation, False) for operation in OPERATIONS if operation.name not in ("upsert", "insert")),
]
CASES = [
    pytest.param(operation, dies, marks=[] if dies and not operation.only_changes else [pytest.mark.slow])
    for operation, dies in PAIRS
]


def id_of(operation: Operation, dies: bool) -> str:
    return f"{operation.name.replace(' ', '_')}-{'process_dies' if dies else 'one_call_fails'}"


@pytest.mark.parametrize(("operation", "dies"), CASES, ids=[id_of(*pair) for pair in PAIRS])
@pytest.mark.one_in(4)
def test_a_failure_at_any_call_leaves_all_or_nothing(tmp_path: Path, operation: Operation, dies: bool) -> None:
    let_fail(tmp_path, operation, dies)


@pytest.mark.parametrize(
    ("operation", "dies", "table_version"),
    [
        pytest.param(
            operation, dies, version, id=f"{id_of(operation, dies)}-{version}",
            marks=[] if dies and operation.name in QUICK and version != 8
            else [pytest.mark.slow] if operation.name in QUICK and version == 9 else [pytest.mark.soak],
        )
        for operation in DELTA_COMMITS for dies in (True, False) for version in (6, 8, 9)
    ],
    indirect=["table_version"],
)  # fmt: skip
@pytest.mark.one_in(4)
def test_a_failure_at_any_call_leaves_all_or_nothing_of_a_delta_commit(
    tmp_path: Path, operation: Operation, dies: bool, table_version: int
) -> None:
    let_fail(tmp_path, operation, dies)


def let_fail(tmp_path: Path, operation: Operation, dies: bool) -> None:
    """Let an operation fail at each call, and recover from each state that is left."""
    template = tmp_path / "template"
    table_type = {} if operation.table_type is None else {"table_type": operation.table_type}
    HoodieTableMetaClient.init_table(str(template), **INIT, **table_type, properties=operation.table_properties)
    with new_client(template, **operation.properties) as client:
        client.upsert(rows(*FIRST))
    target = operation.prepare(template)
    committed_before = completed_commits(template)

    def attempt(name: str, faults: Faults) -> tuple[Path, BaseException | None]:
        base_path = tmp_path / name
        shutil.copytree(template, base_path)
        return base_path, run_with_faults(
            faults, lambda: operation.run(new_client(base_path, **operation.properties), target)
        )

    healthy = Faults()
    base_path, error = attempt("healthy", healthy)
    assert error is None
    recover_and_check(base_path, operation.after, operation.properties)

    recovered: set[tuple[tuple[str, ...], bool]] = set()
    for number, how in faults_of(healthy.calls, dies):
        if operation.only_changes and not healthy.calls[number - 1][1]:
            continue
        faults = Faults(number, how, dies)
        base_path, error = attempt(f"{number}_{how}", faults)
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        is_done = operation.is_done(base_path, committed_before)
        assert is_done or error is not None or operation.before == operation.after, what
        # Most calls read: what their failure leaves is what another's left, and is looked at once.
        state = (shape_of(base_path), how == "torn")
        if state not in recovered:
            recovered.add(state)
            committed = completed_commits(base_path)
            try:
                recover_and_check(base_path, operation.after if is_done else operation.before, operation.properties)
                assert operation.prepare in (commit_changes, commit_overwrite) or set(committed) <= set(
                    completed_commits(base_path)
                )
            except (AssertionError, HoodieException) as problem:
                problem.add_note(what)
                raise
        shutil.rmtree(base_path)
    print(f"{operation.name}: {len(healthy.calls)} calls, {len(recovered)} states on storage")


@pytest.mark.slow
@pytest.mark.parametrize("operation", OPERATIONS, ids=[operation.name.replace(" ", "_") for operation in OPERATIONS])
def test_a_death_at_any_call_leaves_what_one_at_a_change_leaves(tmp_path: Path, operation: Operation) -> None:
    template = tmp_path / "template"
    HoodieTableMetaClient.init_table(str(template), **INIT)
    with new_client(template) as client:
        client.upsert(rows(*FIRST))
    target = operation.prepare(template)

    def left_by(faults: Faults) -> tuple[str, ...]:
        base_path = tmp_path / "t"
        shutil.copytree(template, base_path)
        run_with_faults(faults, lambda: operation.run(new_client(base_path), target))
        shape = shape_of(base_path)
        shutil.rmtree(base_path)
        return shape

    left_by(healthy := Faults())
    every, chosen = set(faults_of(healthy.calls)), set(faults_of(healthy.calls, dies=True))
    assert chosen < every
    states = {moment: left_by(Faults(*moment)) for moment in every}
    assert {states[moment] for moment in every} == {states[moment] for moment in chosen}
    print(f"{operation.name}: {len(chosen)} of {len(every)} deaths leave {len(set(states.values()))} states")


class CallSites(Faults):
    """No failure; each call with the lines of hoodie that lead to it, random names and times in its path left out."""

    def __init__(self, base_path: Path) -> None:
        super().__init__()
        self.sites: set[tuple[str, tuple[str, ...]]] = set()
        self._base_path = str(base_path)

    def step(self, name: str, *given: Any, **options: Any) -> Any:
        kind = re.sub(r"\d{17}", "time", re.sub(r"[0-9a-f-]{36}-\d+_[\d-]+_", "file_", name))
        frames = traceback.extract_stack()
        lines = tuple(f"{frame.filename}:{frame.lineno}" for frame in frames if "/hoodie/" in frame.filename)
        self.sites.add((kind.replace(self._base_path, ""), lines))
        return super().step(name, *given, **options)


@pytest.mark.one_in(4)
def test_more_small_files_are_joined_by_the_same_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def calls_of(count: int, number: int) -> set[tuple[str, tuple[str, ...]]]:
        monkeypatch.setattr(sys.modules[__name__], "TINY", [(f"n{i:03}", "x", 1, 1.0) for i in range(count)])
        base_path = tmp_path / f"{count}-{number}"
        # Into log files, rows of a partition go by the same calls, however many they are.
        HoodieTableMetaClient.init_table(str(base_path), **INIT, table_type="COPY_ON_WRITE")
        with new_client(base_path) as client:
            client.upsert(rows(*FIRST))
        write_large_records(base_path)
        faults = CallSites(base_path)
        assert run_with_faults(faults, partial(join_small_files, new_client(base_path))) is None
        return faults.sites

    few_rows = len(TINY)
    # Some bytes of a file's size decide whether it has room for a row, and so about some calls, now and then.
    many = set.intersection(*(calls_of(260, number) for number in range(3)))
    few: set[tuple[str, tuple[str, ...]]] = set()
    for number in range(8):
        few |= calls_of(few_rows, number)
        if many <= few:
            break
    assert many <= few
    print(f"joining small files: {len(few)} calls from different lines")


@pytest.mark.parametrize("dies", [True, False], ids=["process_dies", "one_call_fails"])
def test_a_table_whose_creation_failed_at_any_call_is_there_or_can_be_created(tmp_path: Path, dies: bool) -> None:
    healthy = Faults()
    assert run_with_faults(healthy, lambda: HoodieTableMetaClient.init_table(str(tmp_path / "t"), **INIT)) is None
    for number, how in faults_of(healthy.calls, dies):
        base_path = tmp_path / f"{number}_{how}"
        faults = Faults(number, how, dies)
        error = run_with_faults(faults, partial(HoodieTableMetaClient.init_table, str(base_path), **INIT))
        what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}"
        assert faults.fired, what
        is_table = (base_path / ".hoodie" / "hoodie.properties").exists()
        assert error is not None or is_table, what
        if is_table:
            with pytest.raises(TableExistsException):
                HoodieTableMetaClient.init_table(str(base_path), **INIT)
        else:
            with pytest.raises(TableNotFoundException):
                HoodieTableMetaClient.load(str(base_path))
            HoodieTableMetaClient.init_table(str(base_path), **INIT)
        recover_and_check(base_path, {}, {})
    print(f"init_table: {len(healthy.calls)} calls")
