"""A storage that notes when each data file is begun, and lets the large one wait until all others have been.

It goes to tasks inside of the `WriteContext`. Nothing here measures time: a task that waits in vain says so.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from hoodie.storage.local_storage import LocalStorage
from hoodie.table.table import HoodieTable

__all__ = ["LARGE", "WatchedStorage", "watch_writes"]

LARGE = "the large one"
"""The partition whose file waits; its name comes after those of the others."""
WAIT_SECONDS = 90
GAVE_UP = "gave up"


@attrs.frozen(eq=False, kw_only=True)
class WatchedStorage(LocalStorage):
    """Local files; the data file of the partition `LARGE` is begun, and waits for those of the others.

    Attributes:
        log: File with the partition of each data file, in the order in which they were begun.
        others: How many other files there will be.
    """

    log: str
    others: int

    def open_output_stream(self, path: str) -> pa.NativeFile:
        partition_path = Path(path).parent.name
        self._note(partition_path)
        if partition_path == LARGE:
            deadline = time.monotonic() + WAIT_SECONDS
            while len(self.begun()) <= self.others:
                if time.monotonic() > deadline:
                    self._note(GAVE_UP)
                    break
                time.sleep(0.01)
        return super().open_output_stream(path)

    def begun(self) -> list[str]:
        """Partitions in the order in which their files were begun."""
        return Path(self.log).read_text().split("\n")[:-1]

    def _note(self, text: str) -> None:
        # One call: lines of several processes do not mix.
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, f"{text}\n".encode())
        finally:
            os.close(file)


def watch_writes(monkeypatch: pytest.MonkeyPatch, base_path: Path, others: int) -> WatchedStorage:
    """From now on writes of this process go through a `WatchedStorage`, which is returned."""
    log = base_path.with_name(f"{base_path.name}.begun")
    log.touch()
    storage = WatchedStorage(base_path=str(base_path), log=str(log), others=others)
    make = HoodieTable.write_context

    def make_watched(table: HoodieTable, *arguments: Any) -> Any:
        context = make(table, *arguments)
        vars(context)["storage"] = storage
        return context

    monkeypatch.setattr(HoodieTable, "write_context", make_watched)
    return storage
