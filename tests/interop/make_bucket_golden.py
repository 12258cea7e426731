"""Makes ``tests/data/bucket_hashes.csv`` with the classes of real Hudi.

    python -m tests.interop.make_bucket_golden tests/data

The CSV has a line for each record key and hash field: the hash by 0.15.0 and by 1.2.0, whose remainder by the number of
buckets is the bucket. Keys and fields are JSON strings, so that the file is ASCII. The JSON has the hashing metadata
that 0.15.0 starts partitions with, and the value of the node that each key goes to.
"""

from __future__ import annotations

import csv
import json
import sys
import tempfile
from pathlib import Path

from tests.interop.hudi_process import HudiProcess

STRINGS = [
    "a",
    "key1",
    "abc",
    "0",
    "2147483647",
    "1.5",
    "9c4a2a39-8d7f-4a0c-b0f7-2a1f5d0f3c11",
    "with space",
    "ü",
    "日本語",
    "😀",
    "a😀b",
    "\u007f\u0080\u07ff\u0800\uffff",
    "\U00010000\U0010ffff",
    "\u0001",
    "a\u0000b",
    "line\nbreak",
    "x" * 300,
    "é" * 60,
    "Aa",
    "BB",
    "polygenelubricants",
    "100%",
    "=",
    "__null__",
    "__empty__",
    "null",
    "a,b",
    ",",
    ",,",
    "a,",
    ",a",
]
"""Keys without a colon."""
WITH_COLONS = [
    "a:b",
    "id:",
    "id:7",
    "id:7:8",
    ":",
    "::",
    ":a",
    "urn:isbn:0451450523",
    "2024-01-02 03:04:05",
    "id:__null__",
    "id:__empty__",
    "a,id:7",
    "id:7,",
    "id:7,,",
    "id:7,x",
    "id:x,y",
    "ü:日本",
]
VALUES = ["1", "a b", "ü😀", "10:20", "__null__", "__empty__", "x" * 60, "2024-01-02 03:04:05.006", ":", "="]
WITH_COMMAS = ["x,y", ",", "x,", ",x", "x,y:z", "x,name:z"]


def keys_to_ask() -> list[tuple[str, str]]:
    """(hash fields, record key)."""
    asked = [("id", key) for key in (*STRINGS, *WITH_COLONS)]
    pairs = [(first, second) for first in VALUES for second in VALUES]
    asked += [("id,name", f"id:{first},name:{second}") for first, second in pairs]
    asked += [("name,id", f"id:{first},name:{second}") for first, second in pairs[:20]]
    asked += [("id", f"id:{first},name:{second}") for first, second in pairs if ":" not in second]
    asked += [("name", f"id:{first},name:{second}") for first, second in pairs]
    asked += [("id,name", f"id:{value},name:b") for value in WITH_COMMAS]
    asked += [("id,name", f"id:a,name:{value}") for value in WITH_COMMAS]
    asked += [("a,b,c", f"a:{value},b:2,c:3") for value in VALUES]
    asked += [("a,c", f"a:{value},b:2,c:3") for value in VALUES]
    asked += [("c", f"a:{value},b:2,c:3") for value in VALUES]
    asked += [("a.b,c", f"a.b:{value},c:3") for value in VALUES]
    return asked


def main() -> None:
    """Ask both releases and write the files."""
    folder = Path(sys.argv[1])
    asked = keys_to_ask()
    hashes = []
    with tempfile.TemporaryDirectory() as work:
        for version in ("0.15.0", "1.2.0"):
            hudi = HudiProcess(version, Path(work))
            hashes.append(hudi.bucket_hashes(asked))
            hudi.stop()
    with (folder / "bucket_hashes.csv").open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["hash_fields", "record_key", "hash_0_15", "hash_1_2"])
        for (fields, key), old, new in zip(asked, *hashes, strict=True):
            writer.writerow([json.dumps(fields), json.dumps(key), old, new])


if __name__ == "__main__":
    main()
