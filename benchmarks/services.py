"""The cost of table services: planning a clean of 10,000 file groups, and the time that they add to each commit.

    python -m benchmarks.services [--groups 10000] [--versions 3] [--commits 60] [--json FILE]

planning   A table with ``--groups`` file groups in 100 partitions, each with ``--versions`` versions (empty files,
           which are never opened). One planned clean reads the whole table, another what one commit wrote.
commits    Upserts of 10 rows into a small table with Hudi's defaults (10 commits stay readable, 20 to 30 active): the
           step ``post-commit`` once the timeline is full, its median and its slowest run, which archives.

The limits apply to CPU seconds, which other work on the machine does not change.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa

from benchmarks.measure import describe_load, describe_machine
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.partition_metadata import PARTITION_METAFILE_NAMES
from hoodie.common.table.timeline.instant import Action
from hoodie.config.clean_config import CleaningPolicy, HoodieCleanConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.table.action.clean.clean_action_executor import CleanActionExecutor

PARTITIONS = 100
MOST_PLANNING_SECONDS, MOST_ADDED_SECONDS = 2.0, 0.150
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64())])


def new_table(path: str) -> HoodieTableMetaClient:
    return HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]
    )


def make_versions(path: str, groups: int, versions: int) -> None:
    """Create the files of commits that rewrote all file groups, and those commits."""
    meta_client = new_table(path)
    file_ids = [f"00000000-0000-4000-8000-{n:012}-0" for n in range(groups)]
    for partition in range(PARTITIONS):
        folder = Path(path) / f"p{partition:03}"
        folder.mkdir()
        (folder / PARTITION_METAFILE_NAMES[0]).touch()
    previous = NULL_COMMIT
    for _ in range(versions):
        timeline = meta_client.reload_active_timeline()
        instant_time = timeline.create_new_instant_time(Action.COMMIT)
        stats: dict[str, list[HoodieWriteStat]] = {}
        for n, file_id in enumerate(file_ids):
            partition_path = f"p{n % PARTITIONS:03}"
            name = make_base_file_name(file_id, "0-0-0", instant_time)
            (Path(path) / partition_path / name).touch()
            stat = HoodieWriteStat(file_id, partition_path, f"{partition_path}/{name}", prev_commit=previous)
            stats.setdefault(partition_path, []).append(stat)
        previous = instant_time
        timeline.transition_requested_to_inflight(instant_time, Action.COMMIT)
        metadata = HoodieCommitMetadata(
            {partition: tuple(group) for partition, group in stats.items()}, operation_type=WriteOperationType.UPSERT
        )
        timeline.save_as_complete(instant_time, Action.COMMIT, metadata.to_json())


def plan(path: str, **options: Any) -> dict[str, float]:
    """The seconds of one plan, and the number of files that it found."""
    started, cpu = time.perf_counter(), time.process_time()
    meta_client = HoodieTableMetaClient.load(path)
    clean = HoodieCleanConfig(**{"commits_retained": 1, **options})
    found = CleanActionExecutor(LocalEngineContext(), clean, meta_client.snapshot).plan()
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - cpu,
        "files": 0 if found is None else found.file_count,
    }


def commits(path: str, count: int) -> dict[str, float]:
    """The seconds of ``post-commit`` once the timeline is full."""
    new_table(path)
    seconds, cpu_seconds, totals = [], [], []

    class Client(HoodieLocalWriteClient):
        """Measures the CPU time of the work after a commit."""

        def post_commit(self, instant_time: str) -> list[str]:
            cpu = time.process_time()
            errors = super().post_commit(instant_time)
            cpu_seconds.append(time.process_time() - cpu)
            return errors

    with Client(HoodieWriteConfig.from_properties(path)) as client:
        for ts in range(count):
            rows = [{"id": f"k{n}", "region": "abc"[n % 3], "ts": ts} for n in range(10)]
            started = time.perf_counter()
            result = client.upsert(pa.Table.from_pylist(rows, SCHEMA))
            totals.append(time.perf_counter() - started)
            seconds.append(sum(step.seconds for step in result.steps if step.name == "post-commit"))
    full, full_cpu = seconds[count // 2 :], cpu_seconds[count // 2 :]
    return {
        "median_seconds": statistics.median(full),
        "median_cpu_seconds": statistics.median(full_cpu),
        "slowest_cpu_seconds": max(full_cpu),
        "median_upsert_seconds": statistics.median(totals[count // 2 :]),
    }


def main() -> None:
    """Run the measurements, print them, and say which figures are over their limits."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--versions", type=int, default=3)
    parser.add_argument("--commits", type=int, default=60)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    print(describe_machine())
    with tempfile.TemporaryDirectory() as folder:
        make_versions(f"{folder}/planning", arguments.groups, arguments.versions)
        figures = {
            "whole table": plan(f"{folder}/planning", incremental=False),
            "by versions": plan(
                f"{folder}/planning", policy=CleaningPolicy.KEEP_LATEST_FILE_VERSIONS, file_versions_retained=1
            ),
            "incremental": plan(f"{folder}/planning"),
            "commits": commits(f"{folder}/commits", arguments.commits),
        }
    for name, figure in figures.items():
        print(f"{name:12}", "  ".join(f"{key} {value:,.3f}" for key, value in figure.items()))
    over = [name for name in ("whole table", "by versions") if figures[name]["cpu_seconds"] > MOST_PLANNING_SECONDS]
    over += ["commits"] * (figures["commits"]["median_cpu_seconds"] > MOST_ADDED_SECONDS)
    print("over the limit:", ", ".join(over) or "none")
    print(describe_load())
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
