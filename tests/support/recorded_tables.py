"""Write tables by every operation and service, and keep a copy of all files after each step.

This program runs with the hoodie of any tree, also of an earlier one: it uses public names of hoodie, and the storage
of tests of the same tree (`tests.support.hookable_storage`). It decodes nothing. `tests.support.storage_fingerprint`
starts it, and decodes what it kept.

The clock stands still within a step, so that instants follow each other by milliseconds however long the code takes,
and UUIDs and random bytes come from a generator that begins anew with each step. So file groups and times have the same
order in each run. No file is flushed to the disk.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import importlib
import itertools
import json
import os
import pkgutil
import random
import shutil
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.engine import local_engine_context
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieException, HoodieIOException
from hoodie.storage import storage_factory
from tests.support.hookable_storage import Call, HookableStorage

__all__ = ["TABLES", "Recorder"]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("fare", pa.float64()),
        ("tags", pa.list_(pa.string())),
    ]
)
UNCOMPRESSED = {"hoodie.parquet.compression.codec": "uncompressed"}
"""Sizes of files do not depend on what times and UUIDs compress to."""
BY_HAND = {
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.compact.inline": "false",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.bloom.index.filter.type": "SIMPLE",
}
"""Services run when a step says so; small filters."""
INDEXES = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.file.group.count": "1",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.index.bloom.filter.file.group.count": "1",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
}
"""All indexes that a writer can ask for; where a record lies by its file's name, the kind has one file group, because
names differ from run to run."""
TIGHT = {
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.commits.archival.batch": "2",
}


class _AnyDatetime(type):
    """Lets datetimes that C code made be instances, too."""

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, _REAL)

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, _REAL)


_REAL = datetime.datetime
_FIRST = _REAL(2026, 2, 3, 4, 0, tzinfo=datetime.UTC)


class StandingClock(_REAL, metaclass=_AnyDatetime):
    """Takes the place of `datetime.datetime` in the modules of hoodie.

    Attributes:
        minutes: How far the clock is from its beginning.
    """

    minutes = 0

    @classmethod
    def now(cls, tz: Any = None) -> Any:
        """The moment of the step."""
        moment = _FIRST + datetime.timedelta(minutes=cls.minutes)
        return moment.astimezone(tz) if tz is not None else moment.astimezone().replace(tzinfo=None)

    @classmethod
    def take_over(cls) -> None:
        """Be the clock of all modules of hoodie but those of Spark."""
        for found in pkgutil.walk_packages(hoodie.__path__, "hoodie.", onerror=lambda name: None):
            if not found.name.startswith(("hoodie.spark", "hoodie.examples", "hoodie.plot")):
                with suppress(ImportError):
                    importlib.import_module(found.name)
        for name, module in [*sys.modules.items()]:
            if name.startswith("hoodie.") and getattr(module, "datetime", None) is _REAL:
                module.datetime = cls  # type: ignore[attr-defined]


class RecordingStorage(HookableStorage):
    """Local files; notes the calls that change something, and fails one if it is told to."""

    __slots__ = ()

    def around(self, call: Call) -> Any:
        if call.changes and not call.is_bare and call.name != "touch":
            # Threads of a pool come in any order.
            is_alone = threading.current_thread() is threading.main_thread()
            OPERATIONS.append((call.name, call.path, is_alone))
            if FAILING and FAILING[0](call.name, call.path):
                FAILING.clear()
                raise HoodieIOException(f"{call.name}: failed by the recording")
        return call.apply()


OPERATIONS: list[tuple[str, str, bool]] = []
FAILING: list[Callable[[str, str], bool]] = []


def rows(*keys: str, region: str | None = None, ts: int = 1) -> pa.Table:
    """Rows of some keys, each in the region that its key begins with, or in a given one."""
    return pa.Table.from_pylist(
        [
            {"id": key, "region": region or key[0], "ts": ts, "fare": ts * 1.5 + number, "tags": [key, str(ts)]}
            for number, key in enumerate(keys)
        ],
        SCHEMA,
    )


class Recorder:
    """Writes tables below a folder, and keeps what their files hold after each step.

    Args:
        out: The folder of the recording.
    """

    def __init__(self, out: Path) -> None:
        self._blobs = out / "blobs"
        self._blobs.mkdir(parents=True, exist_ok=True)
        self._folder = out / "tables"
        self._steps: list[dict[str, Any]] = []
        self._table = ""
        self._known: dict[tuple[str, int, int, int], str] = {}

    def record(self, name: str) -> None:
        """Write one of `TABLES`."""
        self._table = name
        kind, *arguments = name.split("-")
        KINDS[kind](Steps(self, str(self._folder / name), arguments))
        shutil.rmtree(self._folder / name)

    def keep(self, step: str, outcome: str, operations: list[tuple[str, str, bool]]) -> None:
        """Copy what is new in the files of a table."""
        base = self._folder / self._table
        files, folders = {}, []
        for root, names, found in os.walk(base):
            folders += [Path(root, name).relative_to(base).as_posix() for name in names]
            for name in found:
                path = Path(root, name)
                files[path.relative_to(base).as_posix()] = self._blob(path)
        self._steps.append(
            {
                "table": self._table, "base": str(base), "step": step, "outcome": outcome, "files": files,
                "folders": sorted(folders), "operations": operations,
            }
        )  # fmt: skip

    def _blob(self, path: Path) -> str:
        data = path.read_bytes()
        name = hashlib.sha256(data).hexdigest()
        if not (self._blobs / name).exists():
            (self._blobs / name).write_bytes(data)
        return name

    def save(self, path: Path) -> None:
        """Write the list of steps."""
        path.write_text(json.dumps(self._steps))


class Steps:
    """The steps of one table.

    Args:
        recorder: Keeps what each step leaves.
        path: The table.
        arguments: Of the kind of table: type and version.
    """

    def __init__(self, recorder: Recorder, path: str, arguments: list[str]) -> None:
        self.path = path
        self.table_type = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[arguments[0]]
        self.version = int(arguments[1])
        self._recorder = recorder
        self._number = 0
        self._ts = 0

    @property
    def is_merge_on_read(self) -> bool:
        """Whether writes may append to log files."""
        return self.table_type == "MERGE_ON_READ"

    def rows(self, *keys: str, region: str | None = None) -> pa.Table:
        """`rows` with an ordering value above all earlier ones."""
        self._ts += 1
        return rows(*keys, region=region, ts=self._ts)

    def create(self, **arguments: Any) -> None:
        """Make the table."""
        given = {"table_name": "trips", "record_key_fields": ["id"], "partition_fields": ["region"],
                 "ordering_fields": ["ts"], "table_type": self.table_type, "table_version": self.version,
                 **arguments}  # fmt: skip
        with self.step("create"):
            HoodieTableMetaClient.init_table(self.path, **given)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """What is done within is one step; an error of hoodie is its outcome."""
        self._number += 1
        generator = random.Random(self._number)
        uuid.uuid4 = lambda: uuid.UUID(int=generator.getrandbits(128), version=4)
        os.urandom = generator.randbytes
        StandingClock.minutes = self._number
        OPERATIONS.clear()
        outcome = "done"
        try:
            yield
        except HoodieException as error:
            outcome = type(error).__name__
        FAILING.clear()
        self._recorder.keep(f"{self._number:02} {name}", outcome, list(OPERATIONS))

    def client(self, properties: Mapping[str, Any] = {}) -> HoodieLocalWriteClient:
        """A client whose services run by hand."""
        config = HoodieWriteConfig.from_properties(self.path, {**BY_HAND, **properties})
        engine = LocalEngineContext(parallelism=1)
        if hasattr(engine, "_stages"):
            # Write tokens of one length, so that sizes are the same though there is one task more before a write.
            engine._stages = itertools.count(1000)
        return HoodieLocalWriteClient(config, engine)

    def do(self, name: str, call: Callable[[HoodieLocalWriteClient], Any], properties: Mapping[str, Any] = {}) -> Any:
        """One call of a new client as a step."""
        result = None
        with self.step(name), self.client(properties) as client:
            result = call(client)
        return result

    def call(self, name: str, call: Callable[[], Any]) -> None:
        """One call as a step."""
        with self.step(name):
            call()

    def read(self) -> pa.Table:
        """The rows of the table with their meta columns, in the order of their keys."""
        return hoodie.read_table(self.path).sort_by("_hoodie_record_key")


def record_life(steps: Steps) -> None:
    """Each operation and each service once, in a table as users make it; sizes are compared."""
    steps.create()
    do, rows = steps.do, steps.rows
    none = UNCOMPRESSED
    do("bulk_insert", lambda client: client.bulk_insert(rows("x1", "x2", "x3", "y1", "y2")), none)
    do("upsert", lambda client: client.upsert(rows("x1", "x4", "y1", "z1")), none)
    do("insert", lambda client: client.insert(rows("x5", "z2")), none)
    do("delete", lambda client: client.delete([HoodieKey("x2", "x"), HoodieKey("y2", "y")]), none)
    read = steps.read().slice(0, 2)
    do("upsert_prepped", lambda client: client.upsert_prepped_records(read), none)
    do("insert_prepped", lambda client: client.insert_prepped_records(rows("x6", "z3")), none)
    do("bulk_insert_prepped", lambda client: client.bulk_insert_prepped_records(rows("x7")), none)
    do("delete where", lambda client: client.delete(where=[("id", "=", "x6")]), none)
    do("insert_overwrite", lambda client: client.insert_overwrite(rows("y7", "y8")), none)
    do("delete_partitions", lambda client: client.delete_partitions(["z"]), none)
    saved = do("upsert before the savepoint", lambda client: client.upsert(rows("x4", "y7")), none)
    do("savepoint", lambda client: client.savepoint(saved.instant_time, "me", "why"), none)
    do("upsert after the savepoint", lambda client: client.upsert(rows("x4", "y7", "z9")), none)
    do("schedule a compaction", lambda client: client.schedule_compaction(), none)
    do("upsert beside the compaction", lambda client: client.upsert(rows("x4", "y8")), none)
    do("restore", lambda client: client.restore_to_savepoint(saved.instant_time), none)
    do("delete_savepoint", lambda client: client.delete_savepoint(saved.instant_time), none)
    do("upsert", lambda client: client.upsert(rows("x4", "y7", "w1")), none)
    fail_at_commit(steps)
    do("roll the failed write back", lambda client: client.rollback_failed_writes(), none)
    leave_pending(steps)
    last = do("upsert over a pending write", lambda client: client.upsert(rows("x4", "w1")), none)
    do("rollback of a commit", lambda client: client.rollback(last.instant_time), none)
    if steps.is_merge_on_read:
        do("upsert", lambda client: client.upsert(rows("x4", "y7", "w1")), none)
        do("schedule a compaction", lambda client: client.schedule_compaction(), none)
        do("upsert beside the compaction", lambda client: client.upsert(rows("x4", "y8")), none)
        die_in_a_compaction(steps)
        do("take the compaction over", lambda client: client.compact(), none)
        do("upsert", lambda client: client.upsert(rows("x4", "y8")), none)
        do("plan and run a compaction", lambda client: client.compact(), none)
    do("clean", lambda client: client.clean(), {**TIGHT, **none})
    do("archive", lambda client: client.archive(), {**TIGHT, **none})
    do("insert_overwrite_table", lambda client: client.insert_overwrite_table(rows("x1", "v1")), none)
    due = {
        "hoodie.clean.automatic": "true", "hoodie.archive.automatic": "true", "hoodie.compact.inline": "true",
        "hoodie.compact.inline.max.delta.commits": "2", "hoodie.metadata.compact.max.delta.commits": "3",
    }  # fmt: skip
    for number in range(6):
        given = rows(f"x{number % 3}", "v1")
        do("upsert with services", partial(HoodieLocalWriteClient.upsert, records=given), {**TIGHT, **none, **due})
    do("delete the metadata table", lambda client: client.upsert(rows("x1")), {"hoodie.metadata.enable": "false"})


def fail_at_commit(steps: Steps) -> None:
    """A write whose writer dies as it writes a data file."""

    def dies(name: str, path: str) -> bool:
        return name == "finish" and "/.hoodie/" not in path

    def call(client: HoodieLocalWriteClient) -> None:
        FAILING[:] = [dies]
        client.upsert(steps.rows("x4", "y7"))

    steps.do("a write that fails", call, {**UNCOMPRESSED, "hoodie.cleaner.policy.failed.writes": "NEVER"})


def leave_pending(steps: Steps) -> None:
    """A write that is never committed: its data files are there."""
    with steps.step("a write without a commit"):
        client = steps.client({"hoodie.auto.commit": "false", **UNCOMPRESSED})
        client.upsert(steps.rows("x4", "w1"))
        client.close()


def die_in_a_compaction(steps: Steps) -> None:
    """A compaction that fails as it writes a base file."""

    def dies(name: str, path: str) -> bool:
        return name == "finish" and path.endswith(".parquet") and "/.hoodie/" not in path

    def call(client: HoodieLocalWriteClient) -> None:
        FAILING[:] = [dies]
        client.compact()

    steps.do("a compaction that fails", call, UNCOMPRESSED)


def record_indexed(steps: Steps) -> None:
    """A table with all indexes, kept up by writers and services; secondary indexes from version 8 on."""
    steps.create()
    do, rows = steps.do, steps.rows
    wanted = {**UNCOMPRESSED, **INDEXES, "hoodie.metadata.compact.max.delta.commits": "4"}
    do("bulk_insert", lambda client: client.bulk_insert(rows("x1", "x2", "y1", "y2", "z1")), wanted)
    if steps.version > 6:
        do("create_index", lambda client: client.create_index("idx_ts", "ts"), wanted)
    do("upsert", lambda client: client.upsert(rows("x1", "x3", "y1")), wanted)
    do("delete", lambda client: client.delete([HoodieKey("x2", "x")]), wanted)
    by_index = {**wanted, "hoodie.index.type": "RECORD_INDEX" if steps.version < 9 else "GLOBAL_RECORD_LEVEL_INDEX"}
    saved = do("upsert by the record index", lambda client: client.upsert(rows("x1", "z1")), by_index)
    do("savepoint", lambda client: client.savepoint(), wanted)
    do("insert_overwrite", lambda client: client.insert_overwrite(rows("y5")), wanted)
    do("delete_partitions", lambda client: client.delete_partitions(["z"]), wanted)
    last = do("upsert", lambda client: client.upsert(rows("x1", "y5")), wanted)
    do("rollback of a commit", lambda client: client.rollback(last.instant_time), wanted)
    do("upsert", lambda client: client.upsert(rows("x1", "y5")), wanted)
    if steps.is_merge_on_read:
        do("compaction", lambda client: client.compact(), wanted)
    do("clean", lambda client: client.clean(), {**TIGHT, **wanted})
    if steps.version > 6:
        do("drop_index", lambda client: client.drop_index("idx_ts"), wanted)
    no_stats = {"hoodie.metadata.index.column.stats.enable": "false"}
    do("upsert without column stats", lambda client: client.upsert(rows("x1")), {**wanted, **no_stats})
    do("restore", lambda client: client.restore_to_instant(saved.instant_time), wanted)
    do("upsert", lambda client: client.upsert(rows("x1", "w1")), wanted)


def record_indexing(steps: Steps) -> None:
    """Indexes built by plans beside writers, one of them by a process that takes it over."""
    steps.create()
    do, rows = steps.do, steps.rows
    with_files = {**UNCOMPRESSED, "hoodie.metadata.enable": "true"}
    built = {key: value for key, value in INDEXES.items() if key.endswith("count")} | with_files
    do("insert", lambda client: client.insert(rows("x1", "x2", "y1")), with_files)
    do("upsert", lambda client: client.upsert(rows("x1", "y2")), with_files)
    kinds = ["record_index", "column_stats", "bloom_filters"]
    planned = do("schedule an indexing", lambda client: client.schedule_indexing(kinds), built)
    do("upsert beside the indexing", lambda client: client.upsert(rows("x1", "x3")), built)

    def dies(client: HoodieLocalWriteClient) -> None:
        FAILING[:] = [lambda name, path: name == "create" and "/.hoodie/metadata/bloom_filters/" in path]
        client.index(planned)

    do("an indexing that fails", dies, built)
    do("take the indexing over", lambda client: client.index(planned), built)
    do("upsert", lambda client: client.upsert(rows("x1", "y1")), built)
    if steps.version > 6:
        given = {"idx_ts": "ts"}
        planned = do("schedule another", lambda client: client.schedule_indexing(secondary_indexes=given), built)
        do("take it back", lambda client: client.rollback(planned), built)
    do("upsert", lambda client: client.upsert(rows("x2")), built)


def record_versions(steps: Steps) -> None:
    """A table that is upgraded and downgraded, by call and by a writer."""
    steps.create()
    do, rows = steps.do, steps.rows
    do("insert", lambda client: client.insert(rows("x1", "x2", "y1")), UNCOMPRESSED)
    do("upsert", lambda client: client.upsert(rows("x1", "y2")), UNCOMPRESSED)
    for version in (8, 9):
        with steps.step(f"upgrade to {version}"):
            HoodieTableMetaClient.upgrade(steps.path, version)
        do(f"upsert in version {version}", lambda client: client.upsert(rows("x1", "y2")), UNCOMPRESSED)
    do("clean", lambda client: client.clean(), {**TIGHT, **UNCOMPRESSED})
    do("archive", lambda client: client.archive(), {**TIGHT, **UNCOMPRESSED})
    for version in (8, 6):
        with steps.step(f"downgrade to {version}"):
            HoodieTableMetaClient.downgrade(steps.path, version)
        do(f"upsert in version {version}", lambda client: client.upsert(rows("x1", "y2")), UNCOMPRESSED)
    asked = {**UNCOMPRESSED, "hoodie.write.auto.upgrade": "true", "hoodie.write.table.version": "9"}
    do("upsert by a writer that upgrades", lambda client: client.upsert(rows("x1", "y2")), asked)


def record_writers(steps: Steps) -> None:
    """Several writers under a lock, with heartbeats and markers; no partitions, no ordering."""
    steps.create(partition_fields=[], ordering_fields=[])
    do, rows = steps.do, steps.rows
    shared = {
        **UNCOMPRESSED, "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.lock.provider": "InProcessLockProvider", "hoodie.cleaner.policy.failed.writes": "LAZY",
        "hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2",
    }  # fmt: skip
    do("upsert", lambda client: client.upsert(rows("x1", "x2", "y1")), shared)
    by_hand = {**shared, "hoodie.auto.commit": "false"}
    with steps.step("two writers at once"), steps.client(by_hand) as first, steps.client(by_hand) as second:
        times = first.start_commit(), second.start_commit()
        written = first.upsert(rows("x1"), times[0]), second.upsert(rows("x1"), times[1])
        first.commit(times[0], written[0])
        second.commit(times[1], written[1])
    do("clean after the conflict", lambda client: client.clean(), shared)
    do("upsert", lambda client: client.upsert(rows("x3", "x1")), shared)
    do("delete", lambda client: client.delete([HoodieKey("x2", "")]), shared)


def record_modes(steps: Steps) -> None:
    """What `hoodie.write_table` makes and writes by default; services as users have them."""
    rows = steps.rows
    write = partial(
        hoodie.write_table,
        base_path=steps.path,
        table_name="trips",
        record_key_fields="id",
        partition_fields="region",
        ordering_fields="ts",
        properties={
            "hoodie.write.table.version": str(steps.version),
            "hoodie.datasource.write.table.type": steps.table_type,
            "hoodie.cleaner.commits.retained": "2",
            "hoodie.keep.min.commits": "3",
            "hoodie.keep.max.commits": "4",
            **UNCOMPRESSED,
        },
    )
    for number in range(3):
        steps.call("append", partial(write, rows(f"x{number}", "y1")))
    steps.call("overwrite", partial(write, rows("x1"), mode="overwrite"))
    for number in range(6):
        steps.call("append", partial(write, rows(f"x{number}", "y1")))


def record_few(steps: Steps) -> None:
    """A few steps, for the test of the comparison itself."""
    steps.create()
    steps.do("insert", lambda client: client.insert(steps.rows("x1", "x2", "y1")), UNCOMPRESSED)
    steps.do("upsert", lambda client: client.upsert(steps.rows("x1", "z1")), INDEXES)
    steps.do("compaction", lambda client: client.compact())


KINDS: dict[str, Callable[[Steps], None]] = {
    "life": record_life,
    "indexed": record_indexed,
    "indexing": record_indexing,
    "versions": record_versions,
    "writers": record_writers,
    "modes": record_modes,
    "few": record_few,
}
_OF_VERSIONS = {"life": (6, 8, 9), "indexed": (6, 8, 9), "indexing": (6, 9), "versions": (6,), "writers": (6, 9),
                "modes": (9,)}  # fmt: skip
TABLES = [
    f"{kind}-{table_type}-{version}"
    for kind, versions in _OF_VERSIONS.items()
    for table_type in ("cow", "mor")
    for version in versions
]
"""What is recorded: a kind of table, and its type and version."""


def main() -> None:
    """Record some tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder of the recording")
    parser.add_argument("tables", nargs="*", default=TABLES)
    arguments = parser.parse_args()
    os.fsync = lambda descriptor: None
    os.sched_getaffinity = lambda pid: {0}
    StandingClock.take_over()
    storage_factory._STORAGES["file"] = RecordingStorage
    if hasattr(local_engine_context, "_ATTEMPTS"):
        local_engine_context._ATTEMPTS = itertools.count(100_000)
    recorder = Recorder(arguments.out)
    for name in arguments.tables or TABLES:
        recorder.record(name)
    recorder.save(arguments.out / "recording.json")


if __name__ == "__main__":
    main()
