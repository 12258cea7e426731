"""Entries a second that HFiles take and give, as Arrow arrays.

    python -m benchmarks.hfile [--entries 400000] [--runs 5] [--json FILE]

The entries are those of a record index: random keys of 36 characters, and for each the record of one of 400 files.
``level 1`` is zlib's fastest; Hudi writes with its default. A plain loop over the entries of one block, as a program
without numpy would have it, is a line of its own.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa

from benchmarks.measure import Timing, describe_load, describe_machine, timing, trips, write_json
from hoodie.io.hfile.data_block import decode_data_block, encoded_entries
from hoodie.io.hfile.hfile_reader import HFileReader, open_hfile
from hoodie.io.hfile.hfile_writer import encode_hfile
from hoodie.storage.local_storage import LocalStorage

_FILES = 400
"""The number of base files that the entries of the index point to."""
_SCHEMA = '{"type":"record","name":"HoodieMetadataRecord","fields":[]}'


def index_entries(count: int) -> tuple[pa.StringArray, pa.BinaryArray]:
    """Sorted keys, and for each the record of one of some files."""
    keys = trips(count)["uuid"].combine_chunks()
    keys = keys.take(pa.compute.sort_indices(keys))
    rng = np.random.default_rng(7)
    head, tail = b"\0" * 6 + b"\x0a\0\0\0\2\2\x1asan_francisco\2", b"\2\0\2\0\2\xf0\xae\xb9\xf3\x8b\x65\0"
    files = [head + rng.bytes(9) + b"\2" + rng.bytes(10) + tail for _ in range(_FILES)]
    values = pa.array(files, pa.binary()).take(pa.array(rng.integers(0, _FILES, count)))
    return keys, values


def plain_entries(content: bytes) -> int:
    """Cut a block into Python objects, entry by entry."""
    position, found = 0, []
    while position < len(content):
        key, value, row = struct.unpack_from(">iih", content, position)
        start = position + 8 + key
        found.append((content[position + 10 : position + 10 + row].decode(), content[start : start + value]))
        position = start + value + 1
    return len(found)


def line(found: Timing, entries: int) -> str:
    """Milliseconds, and entries a second of wall clock and of CPU."""
    cpu = sorted(found.cpu)[len(found.cpu) // 2]
    return (
        f"{found.name:<34} {found.median * 1000:8.1f} ms   {entries / found.median:>11,.0f} entries/s   "
        f"{entries / max(cpu, 1e-9):>11,.0f} entries/CPU s"
    )


def main() -> None:
    """Run the measurements and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--entries", type=int, default=400_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    count = arguments.entries
    keys, values = index_entries(count)
    data = encode_hfile(keys, values, _SCHEMA)
    found = HFileReader.of_bytes(data, "f").read_all()
    if not (found["key"].combine_chunks().equals(keys) and found["value"].combine_chunks().equals(values)):
        raise ValueError("the entries that were read are not those that were written")
    rng = np.random.default_rng(9)
    some = keys.take(pa.array(np.sort(rng.choice(count, min(10_000, count), replace=False))))
    one = keys[count // 2 : count // 2 + 1]
    (portion, *_) = encoded_entries(keys[: min(count, 50_000)], values[: min(count, 50_000)])
    block, rows = bytes(portion.data), len(portion.bounds) - 1
    machine = describe_machine("numpy", "pyarrow")
    print(machine)
    print(f"{count} entries, {len(data) / 1e6:.1f} MB; medians of {arguments.runs}")
    runs = arguments.runs
    with TemporaryDirectory() as folder:
        path = Path(folder) / "f.hfile"
        path.write_bytes(data)

        def look_up(wanted: pa.StringArray) -> pa.Table:
            with open_hfile(LocalStorage("/"), str(path)) as reader:
                return reader.look_up(wanted)

        measured = [
            (timing("write", runs, lambda: encode_hfile(keys, values, _SCHEMA)), count),
            (timing("write, level 1", runs, lambda: encode_hfile(keys, values, _SCHEMA, level=1)), count),
            (timing("read all", runs, lambda: HFileReader.of_bytes(data, "f").read_all()), count),
            (timing("open and look up one key", runs, lambda: look_up(one)), 1),
            (timing(f"open and look up {len(some)} keys", runs, lambda: look_up(some)), len(some)),
            (
                timing("entries of one block", runs, lambda: decode_data_block(block, "f").entries()),
                rows,
            ),
            (timing("entries of one block, plain", runs, lambda: plain_entries(block)), rows),
        ]
    for found_timing, entries in measured:
        print(line(found_timing, entries))
    print(describe_load())
    if arguments.json:
        sizes = {"entries": count, "bytes": len(data)}
        write_json(arguments.json, machine, sizes, [found_timing for found_timing, _ in measured])


if __name__ == "__main__":
    main()
