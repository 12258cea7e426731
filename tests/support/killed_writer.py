"""Processes that write until they are killed: forked from one that has everything imported, as ``WriterServer``.

The server is this module, run as a program. It reads requests, one JSON object a line, and forks a process for each.
A writer tells of each write before and after it, and the server of the process' end, on the same pipe. Other processes
serve the table in the way that their name says (`SERVICES`), and tell nothing.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import (
    HoodieClusteringException,
    HoodieCommitException,
    HoodieCompactionException,
    HoodieException,
    HoodieIndexException,
    HoodieLockException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
    HoodieWriteConflictException,
)
from hoodie.metadata.writer.indexers import is_maintained
from tests.support.model import TableModel
from tests.support.table_builder import init_table, local_client, rows

__all__ = ["INDEXED", "SERVICES", "Killed", "WriterServer", "apply", "carry_out", "new_client", "next_write"]

REGIONS = ("x", "y")
KEYS = 8
KINDS = {
    "COPY_ON_WRITE": ["upsert", "upsert", "upsert", "delete", "insert_overwrite"],
    "MERGE_ON_READ": ["upsert", "upsert", "upsert", "insert", "delete", "delete", "insert_overwrite"],
}
INDEXED = ("column_stats", "partition_stats", "bloom_filters", "record_index", "secondary_index_idx_ts")
"""What the process ``indexer`` builds; in version 6 two less."""


def index_what_is_missing(client: HoodieLocalWriteClient) -> None:
    """Carry pending indexings out, or plan one of all that the table lacks; if it lacks nothing, drop something."""
    table = HoodieTableMetaClient.load(client.config.base_path)
    config = table.table_config
    pending = sorted(table.active_timeline.filter_actions(Action.INDEXING).filter_pending().times)
    if not pending:
        wanted = [path for path in INDEXED if is_maintained(path, config.table_version)]
        noted = (*config.metadata_partitions, *config.metadata_partitions_inflight)
        missing = [path for path in wanted if path not in noted]
        if not missing:
            client.drop_index("idx_ts")
            return
        columns = {"idx_ts": "ts"} if INDEXED[-1] in missing else {}
        pending = [
            client.schedule_indexing([path for path in missing if path != INDEXED[-1]], secondary_indexes=columns)
        ]
    for planned in pending:
        client.index(planned)


SERVICES: dict[str, Callable[[HoodieLocalWriteClient], object]] = {
    "planner": lambda client: client.schedule_compaction(),
    "compactor": lambda client: client.compact(),
    "log_compactor": lambda client: client.log_compact(),
    "cleaner": lambda client: (client.clean(), client.archive()),
    "indexer": index_what_is_missing,
    "clusterer": lambda client: client.cluster(),
    "clustering planner": lambda client: client.schedule_clustering(),
}
"""What a process does again and again that is no writer, by its name."""
LOSING = (HoodieWriteConflictException, HoodieCompactionException, HoodieClusteringException, HoodieCommitException,
          HoodieLockException, HoodieMissingFileException, HoodieIndexException)  # fmt: skip
"""What a service beside others may be told; its next run goes on."""


def new_client(base_path: str, properties: dict[str, Any]) -> HoodieLocalWriteClient:
    """Of the writer that is killed, and of the one that comes after it."""
    return local_client(base_path, properties, parallelism=2)


def next_write(rng: random.Random, number: int, table_type: str = "COPY_ON_WRITE") -> dict[str, Any]:
    """What is written next."""
    kind = rng.choice(KINDS[table_type])
    keys = rng.sample([f"{region}{i}" for region in REGIONS for i in range(KEYS)], rng.choice([1, 2, 5]))
    if kind == "insert_overwrite":
        keys = [key for key in keys if key[0] == keys[0][0]]
    if kind == "insert":
        # They are new, whatever other processes wrote.
        keys = [f"{key}-{rng.randrange(1 << 40)}" for key in keys]
    return {"kind": kind, "keys": sorted(keys), "value": number}


def rows_of(write: dict[str, Any]) -> list[tuple[str, str, int]]:
    """What a write brings; a key belongs to one region."""
    return [(key, key[0], write["value"]) for key in write["keys"]]


def apply(model: TableModel, write: dict[str, Any]) -> TableModel:
    """The rows after a write."""
    if write["kind"] == "delete":
        return model.delete((key, key[0]) for key in write["keys"])
    if write["kind"] == "insert":
        stored = [key for key in write["keys"] if key in model]
        assert not stored, f"an insert looks no keys up, and these are stored: {stored}"
    return (
        model.insert_overwrite(rows_of(write)) if write["kind"] == "insert_overwrite" else model.upsert(rows_of(write))
    )


def carry_out(client: HoodieLocalWriteClient, write: dict[str, Any]) -> None:
    """Carry a write out."""
    if write["kind"] == "delete":
        client.delete([HoodieKey(key, key[0]) for key in write["keys"]])
    else:
        getattr(client, write["kind"])(rows(*rows_of(write)))


@attrs.define
class Killed:
    """What a writer told until it was killed.

    Attributes:
        done: The writes that it was told to be committed, in order.
        current: The write that it was at; None if it was at none.
        lost: How many writes it was told to have lost against others.
    """

    done: list[dict[str, Any]] = attrs.field(factory=list)
    current: dict[str, Any] | None = None
    lost: int = 0


class WriterServer:
    """The program, as a test sees it; a context manager.

    One process of it is alive at a time.

    Args:
        table_version: Of the tables that its writers are going to write.
        table_type: Likewise.

    Attributes:
        write_s: How long a write takes on this machine.
    """

    def __init__(self, table_version: int, table_type: str = "COPY_ON_WRITE") -> None:
        self._arguments = (str(table_version), table_type)
        self._pid: int | None = None
        self._first: dict[str, Any] | None = None

    def __enter__(self) -> Self:
        folder = str(Path(__file__).parents[2])
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.killed_writer", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.write_s = float(self._told()["write_s"])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()

    def begin(self, base_path: str, properties: dict[str, Any], seed: str, work: str = "writer") -> None:
        """Start a new process, and wait for its first sign of life; that of a writer names its first write.

        Args:
            base_path: The table.
            properties: Of the client.
            seed: Decides, with ``work``, what is written. A caller that draws by it draws other keys.
            work: ``writer``, or one of `SERVICES`.
        """
        assert self._process.stdin is not None
        request = {"base_path": base_path, "properties": properties, "seed": f"{seed} {work}", "work": work}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        told = self._told()
        assert "failed" not in told, told["failed"]
        self._pid, self._first = told["begins"], told.get("doing")

    @property
    def is_at_work(self) -> bool:
        """Whether a process was begun and not killed."""
        return self._pid is not None

    def kill(self) -> Killed:
        """Kill the process, and read what it told."""
        assert self._pid is not None
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)
        self._pid = None
        found, failed = Killed(current=self._first), None
        while "ended" not in (told := self._told()):
            if "failed" in told:
                failed = told["failed"]
                continue
            if "doing" in told:
                found.current = told["doing"]
                continue
            assert found.current is not None
            if "done" in told:
                found.done.append(found.current)
            else:
                found.lost += 1
            found.current = None
        assert failed is None, failed
        assert told["ended"] == -signal.SIGKILL
        return found

    def _told(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server is gone"
        return json.loads(line)


def _tell(**what: Any) -> None:
    """One line in one call, so that it is there as a whole or not at all."""
    os.write(1, json.dumps(what).encode() + b"\n")


def _write_for_ever(request: dict[str, Any], table_type: str) -> None:
    rng = random.Random(request["seed"])
    client = new_client(request["base_path"], request["properties"])
    for number in itertools.count(1):
        write = next_write(rng, number, table_type)
        _tell(doing=write, **({"begins": os.getpid()} if number == 1 else {}))
        try:
            carry_out(client, write)
        except HoodieWriteConflictException as error:
            assert error.is_retry_safe, error
            _tell(lost=number)
        except HoodieNotSupportedException as error:
            # A partition is not overwritten while it is being compacted.
            assert "Run the compaction first" in str(error), error
            _tell(lost=number)
        else:
            _tell(done=number)


def _serve_for_ever(request: dict[str, Any]) -> None:
    client, serve = new_client(request["base_path"], request["properties"]), SERVICES[request["work"]]
    _tell(begins=os.getpid())
    while True:
        try:
            serve(client)
        except HoodieException as error:
            if not isinstance(error, LOSING):
                raise
        time.sleep(0.02)


def _warm_up(table_version: int, table_type: str) -> float:
    """Have imported, and made, what the first writes of a process wait for; how long a write takes then."""
    with tempfile.TemporaryDirectory() as folder:
        init_table(folder, ordering_fields=[], table_version=table_version, table_type=table_type)
        with new_client(folder, {}) as client:
            for number in range(3):
                began = time.monotonic()
                carry_out(client, {"kind": "upsert", "keys": ["x1", "y1"], "value": number})
                taken = time.monotonic() - began
            client.compact()
            carry_out(client, {"kind": "delete", "keys": ["x1"]})
            carry_out(client, {"kind": "insert_overwrite", "keys": ["x1"], "value": 1})
    return taken


def _serve(table_version: int, table_type: str) -> None:
    _tell(write_s=_warm_up(table_version, table_type))
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                request = json.loads(line)
                if request["work"] == "writer":
                    _write_for_ever(request, table_type)
                else:
                    _serve_for_ever(request)
            except BaseException:
                _tell(failed=traceback.format_exc())
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        _tell(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2])
