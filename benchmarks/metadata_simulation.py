"""Plan an upsert of a table of a million base files, whose metadata table is made for it, and which has no data.

    python -m benchmarks.metadata_simulation --files 10000 100000 1000000

Two plans are measured: the newest file slices of the partitions that an upsert touches, as an index over these needs
them, and all of an upsert with RECORD_INDEX, which is global and lists all partitions; then `hoodie.Table.describe` and
`doctor`. The table has as many partitions
as fit 1,000 files each; the upsert goes to 100 of them. Each size runs in a process of
its own, whose peak of memory is told.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from unittest import mock

import pyarrow as pa

from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.fs.file_names import make_base_file_name, make_file_id
from hoodie.common.model.commit_metadata import SCHEMA_KEY, HoodieCommitMetadata
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.common.table.timeline.instant import Action
from hoodie.metadata.writer import table_metadata_writer
from hoodie.storage.storage import FileStatus

FILES_OF_PARTITION = 1000
TOUCHED_PARTITIONS = 100
SCHEMA = (
    '{"type":"record","name":"t","fields":[{"name":"id","type":"string"},{"name":"day","type":"string"},'
    '{"name":"ts","type":"long"}]}'
)


def simulated_files(
    path: str, count: int, instant_time: str, files_of_partition: int = FILES_OF_PARTITION
) -> Mapping[str, Sequence[FileStatus]]:
    """The files of the table by partition, none of which exists."""
    found = {}
    for partition in range(max(1, count // files_of_partition)):
        name = f"day-{partition:04d}"
        files = []
        for number in range(min(count, files_of_partition)):
            prefix = f"a{partition:07x}-0000-4000-8000-{number:012x}"
            file_name = make_base_file_name(make_file_id(prefix, 0), "0-1-2", instant_time)
            files.append(FileStatus(f"{path}/{name}/{file_name}", 120 * 1024 * 1024, 0))
        found[name] = files
    return found


def simulate(count: int) -> None:
    """Make the table, and print how long planning takes."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "t"))
        HoodieTableMetaClient.init_table(
            path, table_name="t", record_key_fields="id", partition_fields="day", ordering_fields="ts"
        )
        timeline = TableSnapshot.load(path).active_timeline
        instant_time = timeline.create_new_instant_time(Action.COMMIT)
        timeline.transition_requested_to_inflight(instant_time, Action.COMMIT)
        files = simulated_files(path, count, instant_time)
        timeline.save_as_complete(instant_time, Action.COMMIT, commit_of_one(files))
        snapshot = TableSnapshot.load(path)
        started = time.perf_counter()
        with mock.patch.object(table_metadata_writer, "committed_files", return_value=files):
            writer = table_metadata_writer.HoodieBackedTableMetadataWriter(snapshot)
            snapshot = writer.initialise(["files"])
        built = time.perf_counter() - started
        del files
        partitions = [f"day-{number:04d}" for number in range(min(TOUCHED_PARTITIONS, count // FILES_OF_PARTITION))]
        count_of_rows = len(partitions)
        rows = pa.table({"id": [f"k{n}" for n in range(count_of_rows)], "day": partitions, "ts": [1] * count_of_rows})
        config = HoodieWriteConfig.from_properties(path, {"hoodie.index.type": "RECORD_INDEX"})
        with mock.patch.object(table_metadata_writer, "committed_files", return_value={}):
            # Nobody reads the keys of files that are not there: the record index is empty.
            table_metadata_writer.HoodieBackedTableMetadataWriter(snapshot).initialise(["record_index"])
        program = (
            "import time\nimport pyarrow as pa\n"
            "from hoodie import HoodieLocalWriteClient, HoodieWriteConfig\n"
            f"rows = pa.table({rows.to_pydict()!r})\n"
            f"config = HoodieWriteConfig.from_properties({path!r}, {dict(config.properties)!r})\n"
            "def peak():\n"
            "    lines = open('/proc/self/status').read().splitlines()\n"
            "    return int(next(line.split()[1] for line in lines if line.startswith('VmHWM')))\n"
            "before = peak()\n"
            "from hoodie.table.open_table import load_table\n"
            "started = time.perf_counter()\n"
            "view = load_table(config).view()\n"
            "view.load_partitions(rows['day'].to_pylist())\n"
            "count = sum(len(view.latest_file_slices(path)) for path in rows['day'].to_pylist())\n"
            "print(f'{count:,} slices in {time.perf_counter() - started:.2f} s, {peak() / 1024:.0f} MiB;', end=' ')\n"
            "started = time.perf_counter()\n"
            "with HoodieLocalWriteClient(config) as client:\n"
            "    plan = client.explain_upsert(rows)\n"
            "taken = time.perf_counter() - started\n"
            "print(f'RECORD_INDEX in {taken:.2f} s, {peak() / 1024:.0f} MiB '\n"
            "      f'({before / 1024:.0f} MiB before);', end=' ')\n"
            "from hoodie import Table\n"
            "for look in (Table.describe, Table.doctor):\n"
            "    started = time.perf_counter()\n"
            f"    look(Table({path!r}))\n"
            "    print(f'{look.__name__} in {time.perf_counter() - started:.2f} s', end=' ')\n"
        )
        told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        print(f"{count:9,} files: built in {built:5.1f} s; upsert to {len(partitions)} partitions: "
              f"{told.stdout.strip()}", flush=True)  # fmt: skip


def commit_of_one(files: Mapping[str, Sequence[FileStatus]]) -> HoodieCommitMetadata:
    """A commit that has written one of the files: the writer looks at those of the newest commit."""
    partition_path, (status, *_) = next(iter(files.items()))
    name = status.path.rsplit("/", 1)[-1]
    stat = HoodieWriteStat(
        file_id=name.split("_")[0], partition_path=partition_path, path=f"{partition_path}/{name}", num_writes=1
    )
    return HoodieCommitMetadata({partition_path: (stat,)}, {SCHEMA_KEY: SCHEMA})


def main() -> None:
    """Simulate tables of several sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    for count in parser.parse_args().files:
        simulate(count)
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
