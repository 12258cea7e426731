"""Makes ``tests/data/hudi_trips_v8.zip`` and ``..._v9.zip`` with real Hudi 1.2.0: two small copy-on-write tables.

    python -m tests.interop.make_later_tables tests/data

It needs what the interop tests need. A table has inserts, upserts, deletes, an insert_overwrite, a clustering, and so
many commits that its history was archived, compacted and cleaned. Each archive also holds what Hudi reads of the table,
in ``expected.json``: a snapshot, the table as of each instant, and the range between each two completions. Hudi gives
fewer rows where files were cleaned, so these queries are left out.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.hudi_process import HudiError, HudiProcess

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])
TYPE, AS_OF = "hoodie.datasource.query.type", "as.of.instant"
BEGIN, END = "hoodie.datasource.read.begin.instanttime", "hoodie.datasource.read.end.instanttime"
KEPT_COMMITS = 4
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "region",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.table.timeline.timezone": "UTC",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.metadata.enable": "false",
    "hoodie.parquet.compression.codec": "gzip",
    # The filter of 60,000 keys would be most of a file.
    "hoodie.index.bloom.num_entries": "10",
    "hoodie.bloom.index.filter.type": "SIMPLE",
    "hoodie.cleaner.commits.retained": str(KEPT_COMMITS - 1),
    "hoodie.keep.min.commits": str(KEPT_COMMITS),
    "hoodie.keep.max.commits": str(KEPT_COMMITS + 1),
    "hoodie.timeline.compaction.batch.size": "2",
}
CLUSTERING = {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "1"}


def rows(numbers: Iterable[int], ts: int) -> pa.Table:
    """Trips in two regions; the fare tells the time."""
    found = [
        {"id": f"k{number:02d}", "region": ("east", "west")[number % 2], "ts": ts, "fare": ts + number / 100}
        for number in numbers
    ]
    return pa.Table.from_pylist(found, SCHEMA)


def make_table(hudi: HudiProcess, base_path: Path, version: int) -> None:
    """Write the table."""
    options = {**OPTIONS, "hoodie.write.table.version": str(version)}

    def write(table: pa.Table, operation: str = "upsert", mode: str = "append", **more: str) -> None:
        given = {**options, **{name.replace("__", "."): value for name, value in more.items()}}
        hudi.write(base_path, table, given, operation=operation, mode=mode, standing_options=False)

    write(rows(range(20), 1), "insert", "overwrite")
    write(rows(range(5, 25), 2))
    write(rows(range(3), 3), "delete")
    write(rows(range(1, 9, 2), 4), "insert_overwrite")
    hudi.write(base_path, rows(range(30, 34), 5), {**options, **CLUSTERING}, standing_options=False)
    for number in range(6):
        write(rows([number * 2 + 6, 40 + number], 6 + number))


def instants(base_path: Path) -> list[tuple[str, str]]:
    """Requested and completion time of each commit of the active timeline, the first first."""
    names = [path.name for path in (base_path / ".hoodie/timeline").iterdir()]
    matches = (re.fullmatch(r"(\d+)_(\d+)\.(commit|replacecommit)", name) for name in names)
    return sorted((match[1], match[2]) for match in matches if match is not None)


def expected_of(hudi: HudiProcess, base_path: Path) -> list[dict[str, Any]]:
    """Queries with their results, of times whose files are retained."""
    commits = instants(base_path)[-KEPT_COMMITS + 1 :]
    ends = [completion for _, completion in commits]
    queries: list[dict[str, str]] = [{}]
    queries += [{AS_OF: requested} for requested, _ in commits]
    queries += [{TYPE: "incremental", BEGIN: begin, END: end} for begin in ends for end in ends if begin < end]
    queries += [{TYPE: "incremental", BEGIN: begin} for begin in ends]
    found = []
    for query, result in zip(queries, hudi.read_each(base_path, queries), strict=True):
        if isinstance(result, HudiError):
            raise SystemExit(f"{query}: {result}")
        found.append({"query": query, "rows": plain_rows(result)})
    return found


def plain_rows(table: pa.Table) -> list[Sequence[Any]]:
    """Rows as lists, in order: when they were written, and their columns."""
    names = ["_hoodie_commit_time", "_hoodie_partition_path", *SCHEMA.names]
    return sorted([row[name] for name in names] for row in table.to_pylist())


def main(target: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hudi = HudiProcess("1.2.0", Path(folder))
        try:
            for version in (8, 9):
                base_path = Path(folder) / f"hudi_trips_v{version}"
                make_table(hudi, base_path, version)
                expected = expected_of(hudi, base_path)
                with zipfile.ZipFile(target / f"{base_path.name}.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                    for path in sorted(base_path.rglob("*")):
                        if path.suffix != ".crc":
                            archive.write(path, path.relative_to(base_path.parent))
                    archive.writestr("expected.json", json.dumps(expected))
        finally:
            hudi.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
