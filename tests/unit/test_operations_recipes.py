"""The programs of the page of operations are run, each on a table that is in the state it is for.

A program is a block of Python below a comment ``<!-- recipe: name -->``. The function of that name here makes the
table, yields the names that the program finds (``base_path`` and ``properties`` at least), and afterwards looks at what
became of the table; the program's own names are in the same dictionary then. Programs ``setup...`` run first.
"""

from __future__ import annotations

import re
import shutil
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.write_operation_type import HoodieTableType, WriteOperationType
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieIOException,
    HoodieLockException,
    HoodiePendingOverwriteException,
    HoodieValidationException,
)
from hoodie.table.table_overwrite import TableOverwrite
from hoodie.transaction.lock.file_system_based_lock_provider import FileSystemBasedLockProvider
from tests.contract.lock_contract import lock_configuration
from tests.support.change_data import check_stored_changes
from tests.support.log_files import log_files_in
from tests.support.moved_clock import days_ago
from tests.support.table_invariants import check_table
from tests.support.timeline_files import state_files

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"(?:^<!-- recipe: (?P<name>\w+) -->\n)?^```python\n(?P<program>.*?)^```", re.DOTALL | re.MULTILINE)
PROGRAMS = {found["name"]: found["program"] for found in BLOCK.finditer(PAGE)}
SETUPS = [name for name in PROGRAMS if name and name.startswith("setup")]
MODULE = "program_of_the_page"

Names = dict[str, Any]
Situation = Callable[[Path], Iterator[Names]]
SITUATIONS: dict[str, Situation] = {}


def situation(function: Situation) -> Situation:
    """The state of a table that the program of this name is for."""
    SITUATIONS[function.__name__] = function
    return function


def run(name: str, names: Names) -> None:
    """Run a program; what it defines is in ``names`` afterwards, and can be imported from a module."""
    exec(compile(PROGRAMS[name], f"docs/operations.md: {name}", "exec"), names)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in SETUPS])
def test_a_program_of_the_page_does_what_it_is_for(
    name: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert name is not None, "a program of the page has no comment <!-- recipe: name --> above it"
    assert name in SITUATIONS, f"no function {name} makes the table for this program of the page"
    module = types.ModuleType(MODULE)
    monkeypatch.setitem(sys.modules, MODULE, module)
    steps = SITUATIONS[name](tmp_path)
    vars(module).update(next(steps))
    for program in (*SETUPS, name):
        run(program, vars(module))
    vars(module)["printed"] = capsys.readouterr().out
    with pytest.raises(StopIteration):
        steps.send(None)


def test_every_program_of_the_page_has_a_name_of_its_own_and_every_situation_a_program() -> None:
    assert len(PROGRAMS) == PAGE.count("```python")
    assert set(SITUATIONS) == set(PROGRAMS) - set(SETUPS)


class Table:
    """A table with rows ``a`` and ``b`` in ``north``, ``c`` and ``d`` in ``south``; each commit is one number."""

    def __init__(
        self, folder: Path, table_type: HoodieTableType = HoodieTableType.COPY_ON_WRITE, **properties: Any
    ) -> None:
        self.base_path = str(folder / "trips")
        self.properties = {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            **{"hoodie." + key.replace("__", "."): value for key, value in properties.items()},
        }
        HoodieTableMetaClient.init_table(
            self.base_path, table_name="trips", record_key_fields=["id"], partition_fields=["region"],
            ordering_fields=["ts"], table_type=table_type,
        )  # fmt: skip
        self.commits = [self.upsert("abcd", 1)]

    @staticmethod
    def rows(keys: str, ts: int) -> pa.Table:
        regions = ["north" if key in "ab" else "south" for key in keys]
        return pa.table({"id": list(keys), "region": regions, "ts": [ts] * len(keys), "fare": [float(ts)] * len(keys)})

    def client(self, **properties: Any) -> HoodieLocalWriteClient:
        given = {"hoodie." + key.replace("__", "."): value for key, value in properties.items()}
        return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(self.base_path, {**self.properties, **given}))

    def upsert(self, keys: str, ts: int, **properties: Any) -> str:
        with self.client(**properties) as client:
            return client.upsert(self.rows(keys, ts)).instant_time

    def leave_dead(self, keys: str, ts: int) -> str:
        """A write whose process ended before the commit; its heartbeat is not rewritten any more."""
        client = self.client(auto__commit="false")
        instant_time = client.upsert(self.rows(keys, ts)).instant_time
        client._heartbeats.abandon(instant_time)
        return instant_time

    def names(self, **more: Any) -> Names:
        return {"base_path": self.base_path, "path": self.base_path, "properties": self.properties, **more}

    def pending(self) -> list[str]:
        timeline = HoodieTableMetaClient.load(self.base_path).active_timeline
        return [instant.requested_time for instant in timeline.filter_pending()]

    def check(self, expected: dict[str, int], was_cleaned: bool = False) -> None:
        """Key -> number; everything else is as it must be, and the table takes writes."""
        rows = {key: {"ts": ts, "fare": float(ts)} for key, ts in expected.items()}
        check_table(self.base_path, rows, was_cleaned=was_cleaned)
        assert self.pending() == []
        self.upsert("a", 99)
        check_table(self.base_path, {**rows, "a": {"ts": 99, "fare": 99.0}}, was_cleaned=was_cleaned)


@situation
def change_data(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    newest = table.upsert("a", 2)
    names = table.names()
    yield names
    assert vars(sys.modules[MODULE])["begin"] == newest
    check_stored_changes(table.base_path, table.upsert("ab", 3))
    table.check({"a": 3, "b": 3, "c": 1, "d": 1})


@situation
def expiring(folder: Path) -> Iterator[Names]:
    with days_ago(40):
        table = Table(folder)
    table.upsert("cd", 2)
    yield table.names()
    program = sys.modules[MODULE]
    assert program.expired.partition_paths == ["north"]
    assert "would delete 1 partition (2 rows, " in program.printed
    table.check({"c": 2, "d": 2})


@situation
def cleaning(folder: Path) -> Iterator[Names]:
    table = Table(folder, cleaner__commits__retained=1)
    for ts in (2, 3, 4):
        table.upsert("ac", ts)
    names = table.names()
    yield names
    deleted = len(list(Path(table.base_path).rglob("*.parquet")))
    assert deleted == 4  # of eight
    table.check({"a": 4, "b": 1, "c": 4, "d": 1}, was_cleaned=True)


@situation
def archiving(folder: Path) -> Iterator[Names]:
    table = Table(
        folder,
        cleaner__commits__retained=1,
        keep__min__commits=2,
        keep__max__commits=3,
        # Archiving does not pass the last compaction of the metadata table.
        metadata__compact__max__delta__commits=1,
    )
    for ts in (2, 3, 4, 5):
        table.upsert("ac", ts)
    with table.client() as client:
        client.clean()
    yield table.names()
    assert len(HoodieTableMetaClient.load(table.base_path).archived_timeline.filter_actions(Action.COMMIT)) == 3
    table.check({"a": 5, "b": 1, "c": 5, "d": 1}, was_cleaned=True)


@situation
def compacting(folder: Path) -> Iterator[Names]:
    HoodieTableMetaClient.init_table(
        str(folder / "t"), table_name="t", record_key_fields=["id"], ordering_fields=["ts"],
        table_type="MERGE_ON_READ",
    )  # fmt: skip
    config = HoodieWriteConfig.from_properties(folder / "t")
    with HoodieLocalWriteClient(config) as client:
        for ts in (1, 2):
            client.upsert(pa.table({"id": ["a"], "ts": [ts]}))
    yield {"base_path": str(folder / "t"), "properties": {}}
    assert now()["result"].instant_time == now()["instant_time"]
    assert [status.stat.num_writes for status in now()["result"]] == [1]


@situation
def compacting_logs(folder: Path) -> Iterator[Names]:
    HoodieTableMetaClient.init_table(
        str(folder / "t"), table_name="t", record_key_fields=["id"], ordering_fields=["ts"],
        table_type="MERGE_ON_READ",
    )  # fmt: skip
    config = HoodieWriteConfig.from_properties(folder / "t")
    with HoodieLocalWriteClient(config) as client:
        for ts in range(6):
            client.upsert(pa.table({"id": ["a"], "ts": [ts]}))
    yield {"base_path": str(folder / "t"), "properties": {}}
    timeline = HoodieTableMetaClient.load(str(folder / "t")).active_timeline
    (done,) = [one for one in timeline if one.requested_time == now()["instant_time"]]
    assert timeline.read_commit_metadata(done).operation_type is WriteOperationType.LOG_COMPACT
    assert hoodie.read_table(str(folder / "t"), columns=["id", "ts"]).to_pylist() == [{"id": "a", "ts": 5}]


@situation
def clustering(folder: Path) -> Iterator[Names]:
    HoodieTableMetaClient.init_table(
        str(folder / "t"), table_name="t", record_key_fields=["id"], ordering_fields=["ts"]
    )  # fmt: skip
    config = HoodieWriteConfig.from_properties(folder / "t")
    with HoodieLocalWriteClient(config) as client:
        for key, rider in (("a", "zoe"), ("b", "ann")):
            client.bulk_insert(pa.table({"id": [key], "ts": [1], "rider": [rider]}))
    yield {"base_path": str(folder / "t"), "properties": {}, "path": str(folder / "t")}
    assert now()["result"].instant_time == now()["instant_time"]
    assert [status.stat.num_writes for status in now()["result"]] == [2]
    assert hoodie.read_table(str(folder / "t"))["rider"].to_pylist() == ["ann", "zoe"]


@situation
def undoing(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    older = table.commits[0]
    table.upsert("a", 2)
    yield table.names(newest=table.upsert("b", 3), older=older, backfill=table.rows("cd", 4))
    table.check({"a": 1, "b": 1, "c": 1, "d": 1})


@situation
def callback_by_http(folder: Path) -> Iterator[Names]:
    names = {"base_path": str(folder), "properties": {}, "key": "secret"}
    yield names
    callback = HoodieWriteConfig.from_properties(str(folder), now()["properties"]).callback
    assert callback.http_url == "https://example.com/commits"


@situation
def callback_class(folder: Path) -> Iterator[Names]:
    sent: list[str] = []
    queue = types.SimpleNamespace(send=sent.append)
    table = Table(folder)
    yield table.names(queue=queue)
    callback = {"write__commit__callback__on": "true", "write__commit__callback__class": f"{MODULE}.TellQueue"}
    instant_time = table.upsert("a", 2, **callback)
    (message,) = sent
    assert instant_time in message


@situation
def validators(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    names = table.names(table=table.rows("a", 2))
    yield names
    assert len(HoodieTableMetaClient.load(table.base_path).active_timeline) == 2
    program = sys.modules[MODULE]
    config = HoodieWriteConfig.from_properties(table.base_path, table.properties)
    with (
        HoodieLocalWriteClient(config, validators=[program.fares_are_not_negative]) as client,
        pytest.raises(HoodieValidationException, match=r"negative fares: \['b'\]"),
    ):
        client.upsert(table.rows("b", -1).set_column(2, "ts", pa.array([9])))
    table.check({"a": 2, "b": 1, "c": 1, "d": 1})


def now() -> dict[str, Any]:
    """What the program left."""
    return vars(sys.modules[MODULE])


@situation
def overwrite(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    with pytest.MonkeyPatch.context() as patch, pytest.raises(HoodieIOException):
        patch.setattr(TableOverwrite, "delete_old", _die)
        hoodie.write_table(table.rows("bc", 2), table.base_path, mode="overwrite", table_name="other")
    with pytest.raises(HoodiePendingOverwriteException):
        hoodie.read_table(table.base_path)
    yield table.names()
    table.check({"b": 2, "c": 2})


def _die(*arguments: Any) -> None:
    raise HoodieIOException("the process is gone")


@situation
def dead_writer(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    dead = table.leave_dead("ae", 2)
    yield table.names()
    assert re.search(rf"{dead} +commit +INFLIGHT", now()["printed"])
    assert now()["rolled_back"] == [dead]
    table.check({"a": 1, "b": 1, "c": 1, "d": 1})


@situation
def dead_writer_of_several(folder: Path) -> Iterator[Names]:
    table = Table(
        folder,
        write__concurrency__mode="OPTIMISTIC_CONCURRENCY_CONTROL",
        write__lock__provider="FileSystemBasedLockProvider",
    )
    dead = table.leave_dead("ae", 2)
    assert table.upsert("b", 2)
    assert table.pending() == [dead]
    yield table.names(dead=dead)
    table.check({"a": 1, "b": 2, "c": 1, "d": 1})


@situation
def stuck_lock(folder: Path) -> Iterator[Names]:
    table = Table(
        folder,
        write__concurrency__mode="OPTIMISTIC_CONCURRENCY_CONTROL",
        write__lock__provider="FileSystemBasedLockProvider",
        write__lock__wait_time_ms=50,
        write__lock__client__num_retries=1,
        write__lock__client__wait_time_ms_between_retry=10,
    )
    dead = FileSystemBasedLockProvider(lock_configuration(table.base_path, {}))
    assert dead.try_lock(0)
    with pytest.raises(HoodieLockException):
        table.upsert("a", 2)
    yield table.names(table=table.rows("a", 2))
    assert str(Path(table.base_path, ".hoodie", "lock")) in now()["printed"]
    # What waited in vain is a failed write like any other.
    with table.client() as client:
        assert all([client.rollback(instant_time) for instant_time in table.pending()])
    table.check({"a": 2, "b": 1, "c": 1, "d": 1})


def damage_newest_file(table: Table, region: str) -> str:
    """Cut the newest data file of a partition; its path as the error says it."""
    newest = max(Path(table.base_path, region).glob("*.parquet"), key=lambda path: path.stem.rsplit("_", 1)[1])
    newest.write_bytes(newest.read_bytes()[:100])
    with pytest.raises(HoodieCorruptedDataException, match=re.escape(str(newest))):
        hoodie.read_table(table.base_path)
    return str(newest)


@situation
def corrupt_file_of_the_newest_commit(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    wrong = table.upsert("a", 2)
    yield table.names(damaged=damage_newest_file(table, "north"), table=table.rows("a", 2))
    assert wrong not in commits_of(table)
    table.check({"a": 2, "b": 1, "c": 1, "d": 1})


@situation
def corrupt_file_without_a_copy(folder: Path) -> Iterator[Names]:
    # A metadata table has the size that the damaged file had, until the file is cleaned.
    table = Table(folder, parquet__small__file__limit=0, metadata__enable="false")
    with table.client() as client:
        client.insert(table.rows("a", 2).set_column(0, "id", pa.array(["e"])))
    damaged = damage_newest_file(table, "north")
    table.upsert("c", 3)
    yield table.names(damaged=damaged)
    # What is lost is known: the key that lived in that file.
    table.check({"a": 1, "b": 1, "c": 3, "d": 1})


@situation
def damaged_log_file(folder: Path) -> Iterator[Names]:
    table = Table(folder, HoodieTableType.MERGE_ON_READ, compact__inline="false")
    table.upsert("a", 2)
    table.upsert("b", 3)
    log = next(path for path in log_files_in(Path(table.base_path)) if b"north" in path.read_bytes())
    log.write_bytes(log.read_bytes()[:-1])
    with pytest.raises(HoodieCorruptedDataException, match="salvage_log_file tells"):
        hoodie.read_table(table.base_path)
    yield table.names(damaged=str(log), table=table.rows("a", 2))
    assert "1 rows and deletes would be lost" in now()["printed"]
    table.check({"a": 2, "b": 3, "c": 1, "d": 1})


@situation
def commit_to_undo(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    good = table.upsert("ab", 2)
    wrong: Sequence[str] = [table.upsert("ac", 3), table.upsert("cd", 4)]
    yield table.names(good=good)
    assert list(now()["undone"]) == list(reversed(wrong))
    assert good in now()["printed"]
    table.check({"a": 2, "b": 2, "c": 1, "d": 1})


@situation
def orphan_files(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    instant_time = table.leave_dead("ae", 2)
    for path in state_files(table.base_path, instant_time):
        path.unlink()
    shutil.rmtree(Path(table.base_path, ".hoodie", ".temp"))
    orphans = {path.name for path in Path(table.base_path).rglob(f"*_{instant_time}.parquet")}
    assert orphans
    yield table.names(backup=str(folder / "backup"))
    assert {path.name for path in (folder / "backup").rglob("*.parquet")} == orphans
    assert all(name in now()["printed"] for name in orphans)
    table.check({"a": 1, "b": 1, "c": 1, "d": 1})


@situation
def lost_properties_with_a_backup(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    properties = Path(table.base_path, ".hoodie", "hoodie.properties")
    stored = HoodieTableMetaClient.load(table.base_path).table_config.properties
    properties.rename(properties.with_name("hoodie.properties.backup"))
    yield table.names()
    assert HoodieTableMetaClient.load(table.base_path).table_config.properties == stored
    table.check({"a": 1, "b": 1, "c": 1, "d": 1})


@situation
def lost_properties(folder: Path) -> Iterator[Names]:
    path = str(folder / "trips")
    HoodieTableMetaClient.init_table(
        path, table_name="trips", record_key_fields=["uuid"], partition_fields=["region"], ordering_fields=["ts"]
    )
    rows = pa.table({"uuid": ["a", "b"], "region": ["north", "south"], "ts": [1, 1]})
    config = HoodieWriteConfig.from_properties(path)
    with HoodieLocalWriteClient(config) as client:
        client.upsert(rows)
    stored = HoodieTableMetaClient.load(path).table_config.properties
    Path(path, ".hoodie", "hoodie.properties").unlink()
    yield {"base_path": path, "path": path, "properties": {}}
    rebuilt = HoodieTableMetaClient.load(path).table_config.properties
    only_of_hive = "hoodie.table.partition_extractor_class"
    told = {key: value for key, value in stored.items() if key.startswith("hoodie.table.") and key != only_of_hive}
    # No metadata table is listed: nothing tells whether one that is there is right.
    assert told.pop("hoodie.table.metadata.partitions") == "files"
    told.pop("hoodie.table.metadata.partitions.inflight", None)
    assert {key: rebuilt[key] for key in told} == told
    assert not rebuilt.get("hoodie.table.metadata.partitions")
    with HoodieLocalWriteClient(config) as client:
        assert client.upsert(rows).updated_count == 2
    check_table(path)


@situation
def duplicate_keys(folder: Path) -> Iterator[Names]:
    table = Table(folder)
    with table.client(parquet__small__file__limit=0) as client:
        client.insert(table.rows("a", 2))
    yield table.names()
    assert now()["printed"].count("north") >= 1
    table.check({"a": 2, "b": 1, "c": 1, "d": 1})


def commits_of(table: Table) -> list[str]:
    timeline = HoodieTableMetaClient.load(table.base_path).active_timeline
    return [instant.requested_time for instant in timeline.commits_timeline()]
