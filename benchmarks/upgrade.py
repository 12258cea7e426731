"""The time of an upgrade from version 6 to 9, and of the downgrade back.

    python -m benchmarks.upgrade [--instants 1000] [--archived 1000] [--files 20] [--runs 3] [--json FILE]

The table has ``--instants`` commits in its active timeline and ``--archived`` in its archive. Each names ``--files``
files, with the statistics that a write stores; the files themselves are not needed. A cycle upgrades the table and
downgrades it. A peer is measured in the same run: the same files of the timeline, copied byte by byte through the same
storage, one after the other.

The limit, 10 seconds for an upgrade, applies to 1,000 active instants.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from datetime import UTC, datetime, timedelta

from benchmarks.measure import Timing, describe_load, describe_machine, write_json
from hoodie import HoodieTableMetaClient
from hoodie.common.fs.file_names import make_base_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import NULL_COMMIT, HoodieWriteStat
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_time import format_instant_time
from hoodie.config.archival_config import HoodieArchivalConfig
from hoodie.storage.storage import HoodieStorage
from hoodie.storage.storage_path import join
from hoodie.table.action.archive.archive_files import LogArchiveFiles

MOST_SECONDS = 10.0
ARCHIVED_AT_ONCE = 10
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def metadata_of(instant_time: str, files: int) -> HoodieCommitMetadata:
    """What a commit that rewrote some files stores."""
    stats = []
    for number in range(files):
        file_id = f"00000000-0000-4000-8000-{number:012}-0"
        path = f"p/{make_base_file_name(file_id, '0-0-0', instant_time)}"
        stats.append(
            HoodieWriteStat(
                file_id, "p", path, prev_commit=NULL_COMMIT, num_writes=1000, num_update_writes=10,
                total_write_bytes=500_000, file_size_bytes=500_000,
            )
        )  # fmt: skip
    schema = '{"type":"record","name":"t","fields":[{"name":"id","type":"string"}]}'
    return HoodieCommitMetadata({"p": tuple(stats)}, {"schema": schema}, WriteOperationType.UPSERT)


def make_table(path: str, instants: int, archived: int, files: int) -> None:
    """A table of version 6 without data files."""
    client = HoodieTableMetaClient.init_table(
        path, table_name="t", record_key_fields="id", partition_fields="p", ordering_fields="ts", table_version=6
    )
    timeline, storage = client.active_timeline, client.storage
    times = [format_instant_time(BEGIN + timedelta(seconds=number)) for number in range(archived + instants)]
    folder = join(client.meta_path, client.table_config.archive_folder)
    archive = LogArchiveFiles(storage, folder, timeline.layout, HoodieArchivalConfig(), lambda: None)
    for begin in range(0, archived, ARCHIVED_AT_ONCE):
        entries = []
        for time_ in times[begin : min(begin + ARCHIVED_AT_ONCE, archived)]:
            instant = HoodieInstant(time_, Action.COMMIT, State.COMPLETED)
            content = metadata_of(time_, files).to_json()
            entries.append(timeline.layout.encode_archived(instant, content, time_, "an entry"))
        archive.append(entries)
    for time_ in times[archived:]:
        timeline.create_requested(time_, Action.COMMIT)
        timeline.transition_requested_to_inflight(time_, Action.COMMIT, metadata_of(time_, files))
        timeline.save_as_complete(time_, Action.COMMIT, metadata_of(time_, files))


def copy_timeline(storage: HoodieStorage, meta_path: str, target: str) -> float:
    """The seconds of a copy of all files of the timeline."""
    began = time.perf_counter()
    for status in storage.list_directory(meta_path):
        if not status.is_directory:
            storage.create_if_absent(join(target, status.name), storage.read(status.path))
    return time.perf_counter() - began


def main() -> None:
    """Run the measurements, and print them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--instants", type=int, default=1000)
    parser.add_argument("--archived", type=int, default=1000)
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    machine = describe_machine()
    print(machine)
    seconds: dict[str, list[float]] = {"copy of the timeline's files": [], "upgrade to 9": [], "downgrade to 6": []}
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        make_table(path, arguments.instants, arguments.archived, arguments.files)
        for _ in range(arguments.runs):
            client = HoodieTableMetaClient.load(path)
            seconds["copy of the timeline's files"].append(
                copy_timeline(client.storage, client.meta_path, f"{path}/.hoodie/.copied")
            )
            shutil.rmtree(f"{path}/.hoodie/.copied")
            for name, change in (
                ("upgrade to 9", HoodieTableMetaClient.upgrade),
                ("downgrade to 6", HoodieTableMetaClient.downgrade),
            ):
                began = time.perf_counter()
                result = change(path)
                seconds[name].append(time.perf_counter() - began)
                assert (result.instants, result.archived_instants) == (arguments.instants, arguments.archived)
    print(f"{arguments.instants} active and {arguments.archived} archived commits of {arguments.files} files each")
    timings = [Timing(name, found) for name, found in seconds.items()]
    for timing in timings:
        print(timing.line(timings[0]))
    if timings[1].median > MOST_SECONDS * max(arguments.instants / 1000, 1):
        print(f"OVER THE LIMIT of {MOST_SECONDS:.0f} s for 1,000 instants")
    print(describe_load())
    if arguments.json:
        sizes = {"instants": arguments.instants, "archived": arguments.archived, "files": arguments.files}
        write_json(arguments.json, machine, sizes, timings)


if __name__ == "__main__":
    main()
