"""The cost of a long history: opening a table, finding a time in its archive, and taking a new time.

    python -m benchmarks.timeline [--archived 10000] [--active 100] [--runs 7] [--json FILE]

Two tables with the same instants, one of version 6 and one of version 9, each with ``--archived`` archived and
``--active`` active commits of one file; archives as their archivers leave them after runs of 10 commits, with the
compaction of levels in version 9.

open          Load the table: properties and active timeline.
find          Find the completion time of one archived instant; the archive is loaded for it.
new instant   Take a new instant time on a table that was just opened, and delete its file again.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from benchmarks.measure import Timing, describe_load, describe_machine, write_json
from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.timeline.instant import Action, State
from hoodie.common.table.timeline.instant_time import next_instant_time
from hoodie.table.action.archive.timeline_archiver import HoodieTimelineArchiver

SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
RUN = 10
"""Commits that one run of an archiver moves."""


def make_table(path: str, version: int, archived: int, active: int) -> str:
    """Make a table; returns the time of an archived commit."""
    meta_client = HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"],
        table_version=version,
    )  # fmt: skip
    properties = {
        "hoodie.keep.min.commits": active, "hoodie.keep.max.commits": active + RUN - 1,
        "hoodie.cleaner.commits.retained": 1,
    }  # fmt: skip
    config = HoodieWriteConfig.from_properties(path, properties)
    timeline, layout = meta_client.active_timeline, meta_client.active_timeline.layout
    folder = Path(layout.active_path(meta_client.meta_path))
    last, found = next_instant_time(BEGIN, None), ""
    for number in range(archived + active):
        requested = last = next_instant_time(BEGIN, last)
        stat = HoodieWriteStat(f"f{number}", "r", f"r/f{number}_0-0-0_{requested}.parquet", prev_commit=NULL_COMMIT)
        metadata = HoodieCommitMetadata({"r": (stat,)}, operation_type=WriteOperationType.INSERT)
        if layout.has_completion_times:
            last = next_instant_time(BEGIN, last)
        for state in (State.REQUESTED, State.INFLIGHT, State.COMPLETED):
            content = layout.encode(metadata) if state is State.COMPLETED else b""
            (folder / layout.file_name(requested, Action.COMMIT, state, last)).write_bytes(content)
        if number == archived // 2:
            found = requested
        if number >= active and (number - active) % RUN == RUN - 1:
            HoodieTimelineArchiver(config, meta_client.snapshot.refreshed()).archive_if_required()
    timeline = timeline.reload()
    print(f"version {version}: {len(meta_client.archived_timeline)} archived, {len(timeline)} active instants")
    return found


def measured(name: str, runs: int, run: Callable[[], object]) -> Timing:
    seconds = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - started)
    return Timing(name, seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--archived", type=int, default=10_000)
    parser.add_argument("--active", type=int, default=100)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    machine = describe_machine("pyarrow")
    print(machine)
    timings: dict[int, list[Timing]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for version in (6, 9):
            path = f"{folder}/v{version}"
            wanted = make_table(path, version, arguments.archived, arguments.active)

            def find(path: str = path, wanted: str = wanted) -> None:
                archive = HoodieTableMetaClient.load(path).archived_timeline
                instant = archive.find(wanted)
                assert instant is not None and archive.completion_time(instant)

            def take(path: str = path) -> None:
                timeline = HoodieTableMetaClient.load(path).active_timeline
                timeline.delete_pending(timeline.create_new_instant_time(Action.COMMIT), Action.COMMIT)

            def load(path: str = path) -> None:
                assert len(HoodieTableMetaClient.load(path).active_timeline)

            works = {"open": load, "find": find, "new instant": take}
            timings[version] = [
                measured(f"version {version}: {name}", arguments.runs, work) for name, work in works.items()
            ]
    for before, now in zip(timings[6], timings[9], strict=True):
        for timing, other in ((before, None), (now, before)):
            ratio = f"   {timing.median / other.median:5.2f} x" if other is not None else ""
            print(f"{timing.name:<28} {timing.median * 1000:9.1f} ms{ratio}")
    print(describe_load())
    if arguments.json:
        sizes = {"archived": arguments.archived, "active": arguments.active}
        write_json(arguments.json, machine, sizes, [timing for group in timings.values() for timing in group])


if __name__ == "__main__":
    main()
