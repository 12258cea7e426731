"""Processes that write until they are killed: forked from one that has everything imported, as ``WriterServer``.

The server is this module, run as a program. It reads requests, one JSON object a line, and forks a writer for each; the
writer tells of each write before and after it, and the server of the writer's end, on the same pipe.
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
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hoodie import HoodieKey, HoodieLocalWriteClient
from tests.support.model import TableModel
from tests.support.table_builder import init_table, local_client, rows

__all__ = ["WriterServer", "apply", "carry_out", "new_client", "next_write"]

REGIONS = ("x", "y")
KEYS = 8


def new_client(base_path: str, properties: dict[str, Any]) -> HoodieLocalWriteClient:
    """Of the writer that is killed, and of the one that comes after it."""
    return local_client(base_path, properties, parallelism=2)


def next_write(rng: random.Random, number: int) -> dict[str, Any]:
    """What is written next."""
    kind = rng.choice(["upsert", "upsert", "upsert", "delete", "insert_overwrite"])
    keys = rng.sample([f"{region}{i}" for region in REGIONS for i in range(KEYS)], rng.choice([1, 2, 5]))
    if kind == "insert_overwrite":
        keys = [key for key in keys if key[0] == keys[0][0]]
    return {"kind": kind, "keys": sorted(keys), "value": number}


def rows_of(write: dict[str, Any]) -> list[tuple[str, str, int]]:
    """What a write brings; a key belongs to one region."""
    return [(key, key[0], write["value"]) for key in write["keys"]]


def apply(model: TableModel, write: dict[str, Any]) -> TableModel:
    """The rows after a write."""
    if write["kind"] == "delete":
        return model.delete((key, key[0]) for key in write["keys"])
    return (
        model.insert_overwrite(rows_of(write)) if write["kind"] == "insert_overwrite" else model.upsert(rows_of(write))
    )


def carry_out(client: HoodieLocalWriteClient, write: dict[str, Any]) -> None:
    """Carry a write out."""
    if write["kind"] == "delete":
        client.delete([HoodieKey(key, key[0]) for key in write["keys"]])
    else:
        getattr(client, write["kind"])(rows(*rows_of(write)))


class WriterServer:
    """The program, as a test sees it; a context manager.

    Args:
        table_version: Of the tables that its writers are going to write.

    Attributes:
        write_s: How long a write takes on this machine.
    """

    def __init__(self, table_version: int) -> None:
        self._table_version = table_version

    def __enter__(self) -> Self:
        folder = str(Path(__file__).parents[2])
        path = os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.killed_writer", str(self._table_version)],
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

    def write_and_kill(
        self, base_path: str, properties: dict[str, Any], seed: str, delay_s: float
    ) -> tuple[list[dict[str, Any]], dict[str, Any] | None]:
        """Let a new process write, and kill it.

        Args:
            base_path: The table.
            properties: Of the client.
            seed: Decides what is written.
            delay_s: How long the process lives after its first sign of life.

        Returns:
            The writes that it was told to be committed, and the one that it was at when it died.
        """
        assert self._process.stdin is not None
        request = {"base_path": base_path, "properties": properties, "seed": seed}
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        pid = self._told()["begins"]
        time.sleep(delay_s)
        os.kill(pid, signal.SIGKILL)
        done: list[dict[str, Any]] = []
        current: dict[str, Any] | None = None
        while "ended" not in (told := self._told()):
            assert "failed" not in told, told["failed"]
            if "done" in told:
                assert current is not None
                done.append(current)
                current = None
            else:
                current = told["doing"]
        assert told["ended"] == -signal.SIGKILL
        return done, current

    def _told(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, "the server is gone"
        return json.loads(line)


def _tell(**what: Any) -> None:
    """One line in one call, so that it is there as a whole or not at all."""
    os.write(1, json.dumps(what).encode() + b"\n")


def _write_for_ever(request: dict[str, Any]) -> None:
    rng = random.Random(request["seed"])
    client = new_client(request["base_path"], request["properties"])
    _tell(begins=os.getpid())
    for number in itertools.count(1):
        write = next_write(rng, number)
        _tell(doing=write)
        carry_out(client, write)
        _tell(done=number)


def _warm_up(table_version: int) -> float:
    """Have imported, and made, what the first writes of a process wait for; how long a write takes then."""
    with tempfile.TemporaryDirectory() as folder:
        init_table(folder, ordering_fields=[], table_version=table_version)
        with new_client(folder, {}) as client:
            for number in range(3):
                began = time.monotonic()
                carry_out(client, {"kind": "upsert", "keys": ["x1", "y1"], "value": number})
                taken = time.monotonic() - began
            carry_out(client, {"kind": "delete", "keys": ["x1"]})
            carry_out(client, {"kind": "insert_overwrite", "keys": ["x1"], "value": 1})
    return taken


def _serve(table_version: int) -> None:
    _tell(write_s=_warm_up(table_version))
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                _write_for_ever(json.loads(line))
            except BaseException:
                _tell(failed=traceback.format_exc())
            finally:
                os._exit(1)
        _, status = os.waitpid(pid, 0)
        _tell(ended=os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
