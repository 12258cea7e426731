"""What hoodie leaves on storage, file by file and field by field, so that two versions of the code can be compared.

    python -m tests.support.storage_fingerprint /tmp/new
    python -m tests.support.storage_fingerprint /tmp/old --code /path/of/an/earlier/tree
    python -m tests.support.storage_fingerprint --compare /tmp/old /tmp/new

The first call writes tables by every operation and service (`tests.support.recorded_tables`), and describes all files
that each step wrote, changed or deleted, decoded by `tests.support.stored_files`. With ``--code`` the hoodie of another
tree writes them. The last call prints what differs, and ends with 1 if anything does. A folder holds:

| file | holds |
|---|---|
| ``fingerprint.json`` | table -> step -> file -> field -> value |
| ``operations.txt`` | calls of the storage that change something, in order; those of threads by path |
| ``recording.json``, ``blobs/`` | the files themselves |

What differs from run to run is replaced:

| what | by |
|---|---|
| times of instants and completions | ``<time 3.1>``: the first one, by the clock, that appears in step 3 |
| UUIDs | ``<id 3.1>``: the first one that appears in step 3 |
| write tokens | ``<token 0>``: the number of the partition within its stage |
| digests of file names | ``<digest of FILE>`` |
| durations, moments, hosts, the table's folder | a name of what it is |
| a size that a field tells of a file | ``<size of the file>``, if it is that |

Sizes are compared where they follow from the contents: Parquet files whose columns are not compressed, log files of
Avro, delete and command blocks. Of other Parquet files and HFiles the sizes before compression are compared. Files of
locks and heartbeats are compared by their names.
"""

from __future__ import annotations

import argparse
import base64
import difflib
import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.support.stored_files import Entries, decode_file, sizes_are_exact

__all__ = ["collect", "compare", "fingerprint"]

Fields = dict[str, Any]
"""Field -> value."""
Fingerprint = dict[str, dict[str, dict[str, Fields]]]
"""Table -> step -> file -> fields."""

_TIME = re.compile(r"(?<!\d)20\d{15}(?=\d{3}(?!\d)|(?!\d))")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TOKEN = re.compile(r"(?<=_)(\d+)-\d+-\d+(?![\d-])")
_DIGEST = re.compile(r"[A-Za-z0-9+/]{22}==")
_MILLISECONDS = re.compile(r"(?<!\d)1[789]\d{11}(?!\d)")
_DATE = re.compile(r"^#.*\d{4}.*$")
_FILE_NAME = re.compile(r"[^/\s\"]+(?:\.parquet|\.hfile|\.log\.\d+_[\d-]+)(?:\.cdc)?")
_COLUMN_BYTES = re.compile(r"parquet\.row groups\[\d+\](\.columns\[\d+\])?\.bytes")
_DURATIONS = frozenset(
    {
        "timeTakenInMillis", "totalScanTime", "totalCreateTime", "totalUpsertTime", "totalLogReadTimeMs",
        "savepointedAt", "minEventTime", "maxEventTime", "startRestoreTimeMs",
    }
)  # fmt: skip
_SIZES = frozenset(
    {
        "totalWriteBytes", "fileSizeInBytes", "size", "fileLen", "totalLogSizeCompacted", "totalSize",
        "TOTAL_LOG_FILES_SIZE", "TOTAL_LOG_FILE_SIZE", "TOTAL_IO_READ_MB", "TOTAL_IO_WRITE_MB", "TOTAL_IO_MB",
    }
)  # fmt: skip


def collect(out: Path, tables: Iterable[str] = (), code: Path | None = None, zone: str | None = None) -> Fingerprint:
    """Record tables in a process of its own, and describe them.

    Args:
        out: The folder that the recording and its description go to.
        tables: Some of `tests.support.recorded_tables.TABLES`; all by default.
        code: A tree of hoodie; this one by default.
        zone: The time zone of the process.

    Raises:
        subprocess.CalledProcessError: The recording failed.
    """
    out = out.resolve()
    here = Path(__file__).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": str(code or here), **({} if zone is None else {"TZ": zone})}
    program = Path(__file__).with_name("recorded_tables.py")
    subprocess.run(
        [sys.executable, "-P", str(program), str(out), *tables], env=environment, cwd=code or here, check=True
    )
    found = fingerprint(out)
    (out / "fingerprint.json").write_text(json.dumps(found, indent=1))
    return found


def fingerprint(out: Path) -> Fingerprint:
    """Describe the files of a recording, and write its operations to ``operations.txt``."""
    found: Fingerprint = {}
    names: dict[str, _Table] = {}
    with (out / "operations.txt").open("w") as operations:
        for step in json.loads((out / "recording.json").read_text()):
            table = names.setdefault(step["table"], _Table(step["base"], out / "blobs"))
            found.setdefault(step["table"], {})[step["step"]] = table.describe(step)
            place = f"{step['table']} / {step['step']}"
            for is_alone, calls in itertools.groupby(step["operations"], key=lambda call: call[2]):
                lines = [f"{place}: {name} {table.plain(path)}\n" for name, path, _ in calls]
                operations.writelines(lines if is_alone else sorted(lines))
    return found


class _Table:
    """The files of one table, step after step; knows the names that it gave to times and UUIDs.

    Args:
        base: The folder that the table was written in.
        blobs: The folder of contents.
    """

    def __init__(self, base: str, blobs: Path) -> None:
        self._base = base
        self._blobs = blobs
        self._files: dict[str, str] = {}
        self._times: dict[str, str] = {}
        self._ids: dict[str, str] = {}
        self._digests: dict[str, str] = {}
        self._sizes: dict[str, set[int]] = {}

    def describe(self, step: Mapping[str, Any]) -> dict[str, Fields]:
        """The files that a step wrote, changed and deleted, by their plain names."""
        number = step["step"].split(" ", 1)[0]
        files: dict[str, str] = step["files"]
        written = {path: self._read(blob) for path, blob in files.items() if self._files.get(path) != blob}
        decoded = {path: decode_file(path, data) for path, data in written.items()}
        for path, data in written.items():
            self._sizes.setdefault(_name_of(path), set()).add(len(data))
        self._name_times(number, [*step["operations"], decoded])
        for name in {name for text in _texts([*files, decoded]) for name in _file_names(text)}:
            self._digests[base64.b64encode(hashlib.md5(name.encode()).digest()).decode()] = name
        ordered = sorted(decoded, key=lambda path: (self.plain(path), self._dump(decoded[path]), _numbers(path)))
        for path in ordered:
            self._name_ids(number, path, decoded[path])
        for text in _texts(step["operations"]):
            self._name_ids(number, text, None)
        found: dict[str, Fields] = {"": {"outcome": step["outcome"]}}
        for path in ordered:
            fields: Fields = {"file": "changed" if path in self._files else "new"}
            fields.update(_flat("", self._plain(decoded[path], (_name_of(path),))))
            if sizes_are_exact(path, decoded[path]):
                fields["size"] = len(written[path])
            else:
                fields = {field: value for field, value in fields.items() if not _COLUMN_BYTES.fullmatch(field)}
            found[self._unique(self.plain(path), found)] = fields
        for path in sorted(self._files.keys() - files.keys(), key=self.plain):
            found[self._unique(self.plain(path), found)] = {"file": "deleted"}
        for folder in sorted(map(self.plain, step["folders"])):
            found[""][f"folder {folder}"] = True
        self._files = files
        return found

    def _read(self, blob: str) -> bytes:
        return (self._blobs / blob).read_bytes()

    @staticmethod
    def _unique(name: str, found: Mapping[str, Any]) -> str:
        return next(text for text in (name, *(f"{name} #{number}" for number in range(2, 10_000))) if text not in found)

    # --- names ------------------------------------------------------------------------------------------------------

    def _name_times(self, number: str, values: Any) -> None:
        found = {match[0] for text in _texts(values) for match in _TIME.finditer(text)}
        for place, time in enumerate(sorted(found - self._times.keys()), 1):
            self._times[time] = f"<time {number}.{place}>"

    def _name_ids(self, number: str, path: str, content: Any) -> None:
        for text in (path, *_texts(self._in_order(content))):
            for match in _UUID.finditer(text):
                if match[0] not in self._ids:
                    place = sum(name.startswith(f"<id {number}.") for name in self._ids.values()) + 1
                    self._ids[match[0]] = f"<id {number}.{place}>"

    def plain(self, text: str) -> str:
        """A text without what differs from run to run; a UUID that has no name yet is ``<id>``."""
        text = text.replace(self._base, "<table>")
        text = _DIGEST.sub(self._digest, text)
        text = _UUID.sub(lambda match: self._ids.get(match[0], "<id>"), text)
        text = _TIME.sub(lambda match: self._times.get(match[0], "<time>"), text)
        text = _TOKEN.sub(r"<token \1>", text)
        if _DATE.match(text):
            return "# <date>"
        return _MILLISECONDS.sub(self._moment, text)

    def _digest(self, match: re.Match[str]) -> str:
        name = self._digests.get(match[0])
        return match[0] if name is None else f"<digest of {name}>"

    def _moment(self, match: re.Match[str]) -> str:
        """The name of the instant that a number of milliseconds stands for, as in the record index."""
        seconds = int(match[0]) / 1000
        for moment in (datetime.fromtimestamp(seconds, UTC), datetime.fromtimestamp(seconds)):
            name = self._times.get(moment.strftime("%Y%m%d%H%M%S%f")[:17])
            if name is not None:
                return name
        return "<moment>"

    def _plain(self, value: Any, context: tuple[str, ...], key: str = "") -> Any:
        """A decoded value without what differs from run to run.

        Args:
            value: The value.
            context: The names of files that its neighbours and the values around it hold.
            key: The field that holds it.
        """
        if isinstance(value, dict):
            near = [text for inner in value.values() if isinstance(inner, str) for text in _file_names(inner)]
            return {
                self.plain(name): self._plain(inner, (*_file_names(name), *near, *context), name)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            plain = [self._plain(inner, context, key) for inner in value]
            return sorted(plain, key=_text_of) if isinstance(value, Entries) else plain
        if isinstance(value, bytes):
            return self.plain(value.decode("latin-1"))
        if key in _DURATIONS and isinstance(value, int):
            return "<duration>"
        if key == "stateTransitionTime" and value is not None:
            return "<time of the file>"
        if isinstance(value, bool) or value is None or isinstance(value, float):
            return value if key not in _SIZES else self._size(value, context)
        if isinstance(value, int):
            if key in _SIZES:
                return self._size(value, context)
            return self.plain(str(value)) if _MILLISECONDS.fullmatch(str(value)) else value
        return self.plain(value)

    def _size(self, value: Any, context: tuple[str, ...]) -> Any:
        if any(value in self._sizes.get(name, ()) for name in context):
            return "<size of the file>"
        return value

    def _in_order(self, value: Any) -> Any:
        """A value whose parts without an order have one, as far as names are known."""
        if isinstance(value, dict):
            return {name: self._in_order(value[name]) for name in sorted(value, key=self.plain)}
        if isinstance(value, list):
            found = [self._in_order(inner) for inner in value]
            return sorted(found, key=self._dump) if isinstance(value, Entries) else found
        return value

    def _dump(self, value: Any) -> str:
        return _text_of(self._plain(value, ()))


def _text_of(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)


def _name_of(path: str) -> str:
    return path.rsplit("/", 1)[-1]


def _file_names(text: str) -> list[str]:
    return _FILE_NAME.findall(text) if len(text) < 4096 else []


def _numbers(path: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", _name_of(path))]


def _texts(value: Any) -> Iterator[str]:
    """All texts of a value, keys included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _texts(inner)


def _flat(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The fields of a value: ``json.partitionToWriteStats.x[0].numWrites``."""
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(f"{path}.{key}" if path else key, inner)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from _flat(f"{path}[{number}]", inner)
    else:
        yield path, value


# --- comparison -------------------------------------------------------------------------------------------------------


def compare(before: Fingerprint, after: Fingerprint) -> list[str]:
    """What differs, a line each: table, step, file, field, and both values."""
    return list(_differences("", before, after))


def _differences(place: str, before: Any, after: Any, depth: int = 0) -> Iterator[str]:
    if depth == 4:
        if before != after:
            yield f"{place}: {_shown(before)} -> {_shown(after)}"
        return
    for key in dict.fromkeys([*before, *after]):
        inner = f"{place} / {key}" if place else key
        if key not in before:
            yield f"{inner}: only after{_summary(after[key])}"
        elif key not in after:
            yield f"{inner}: only before{_summary(before[key])}"
        else:
            yield from _differences(inner, before[key], after[key], depth + 1)


def _shown(value: Any) -> str:
    text = _text_of(value)
    return text if len(text) < 300 else f"{text[:300]}... ({len(text)} characters)"


def _summary(value: Any) -> str:
    return "" if isinstance(value, dict) else f": {_shown(value)}"


def _load(folder: Path) -> Fingerprint:
    found: Fingerprint = json.loads((folder / "fingerprint.json").read_text())
    return found


def main() -> int:
    """Collect or compare; 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="the folder of the recording")
    parser.add_argument("tables", nargs="*", help="of `tests.support.recorded_tables.TABLES`; all by default")
    parser.add_argument("--code", type=Path, help="the tree whose hoodie writes the tables")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"), help="folders of recordings")
    parser.add_argument("--operations", action="store_true", help="compare the order of calls of the storage, too")
    arguments = parser.parse_intermixed_args()
    if arguments.compare is None:
        if arguments.out is None:
            parser.error("give a folder")
        found = collect(arguments.out, arguments.tables, arguments.code)
        files = sum(len(step) - 1 for table in found.values() for step in table.values())
        print(f"{len(found)} tables, {sum(map(len, found.values()))} steps, {files} files written, changed or deleted")
        return 0
    differences = compare(*map(_load, arguments.compare))
    if arguments.operations:
        differences += _line_differences(*((folder / "operations.txt").read_text() for folder in arguments.compare))
    for line in differences:
        print(line)
    print(f"{len(differences)} differences" if differences else "the same")
    return 1 if differences else 0


def _line_differences(before: str, after: str) -> list[str]:
    return list(difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1))


if __name__ == "__main__":
    sys.exit(main())
