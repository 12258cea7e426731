"""Log files of tests: what real Hudi wrote, and files made of blocks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa

from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.common.model.file_slice import HoodieLogFile
from tests.support.hookable_storage import Call, HookableStorage, storage_with

__all__ = ["counted_storage", "log_file", "log_files_in", "write_log_file"]


def log_files_in(folder: Path, *, with_metadata_tables: bool = False) -> list[Path]:
    """The log files below a folder, CDC files included."""
    return [
        path
        for path in sorted(folder.rglob(".*.log.*"))
        if path.is_file() and path.suffix != ".crc" and (with_metadata_tables or ".hoodie" not in path.parts)
    ]


def log_file(path: Path) -> HoodieLogFile:
    """What a listing tells of a log file."""
    name = parse_log_file_name(path.name)
    assert name is not None
    return HoodieLogFile(
        str(path), name.file_id, name.instant_time, name.version, name.write_token, path.stat().st_size, name.is_cdc
    )


def write_log_file(
    folder: Path, *blocks: bytes, instant_time: str = "001", version: int = 1, token: str = "0-1-0", suffix: str = ""
) -> HoodieLogFile:
    """A log file of some blocks."""
    path = folder / f".f-0_{instant_time}.log.{version}_{token}{suffix}"
    path.write_bytes(b"".join(blocks))
    return HoodieLogFile(str(path), "f-0", instant_time, version, token, path.stat().st_size, is_cdc=suffix == ".cdc")


def counted_storage(folder: Path) -> tuple[HookableStorage, list[tuple[str, int, int]]]:
    """Local files, and a list that gets each read of them: file name, offset, bytes."""
    reads: list[tuple[str, int, int]] = []

    def around(call: Call) -> Any:
        if call.name == "read":
            reads.append((Path(call.path).name, 0, -1))
        return pa.PythonFile(_CountedFile(call.path, reads), mode="r") if call.name == "open" else call.apply()

    return storage_with(folder, around), reads


class _CountedFile(io.FileIO):
    def __init__(self, path: str, reads: list[tuple[str, int, int]]) -> None:
        super().__init__(path)
        self._name = Path(path).name
        self._reads = reads

    def read(self, size: int | None = -1) -> bytes:
        self._reads.append((self._name, self.tell(), -1 if size is None else size))
        return super().read(size) or b""
