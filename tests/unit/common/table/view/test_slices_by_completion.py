"""Slices of versions 8 and 9: a log file belongs to the newest slice that its delta commit was completed after.

Each rule has a small case here, and each merge-on-read table of real Hudi is compared with a computation of its own.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie import HoodieTableMetaClient
from hoodie.avro.timeline_metadata import encode_record
from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.file_slice import FileSlice, HoodieLogFile
from hoodie.common.table.partition_metadata import ensure_partition_metadata
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline import HoodieTimeline
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView
from hoodie.common.table.view.log_placement import place_log_files
from hoodie.storage.storage_factory import open_storage
from tests.unit.test_tables_of_real_hudi import folders_of_tables

PARTITION = "asia"


def at(number: int) -> str:
    return f"202611211015{number:05}"


class Table:
    """Files and instants of layout 2, all made by hand; times are numbers."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = base_path
        self.storage = open_storage(str(base_path))
        ensure_partition_metadata(self.storage, str(base_path), PARTITION, at(1))
        (base_path / ".hoodie/timeline").mkdir(parents=True)
        self.archived: list[HoodieInstant] = []

    def base(self, instant: int, file_id: str = "f") -> Table:
        (self.base_path / PARTITION / make_base_file_name(file_id, "0-0-0", at(instant))).write_bytes(b"x")
        return self

    def log(self, instant: int, file_id: str = "f", version: int = 1, token: str = "0-0-0", cdc: bool = False) -> Table:
        (self.base_path / PARTITION / make_log_file_name(file_id, at(instant), version, token, cdc)).write_bytes(b"x")
        return self

    def instant(self, name: str, content: bytes = b"") -> Table:
        (self.base_path / ".hoodie/timeline" / name).write_bytes(content)
        return self

    def delta(self, requested: int, completed: int | None = None, action: str = "deltacommit") -> Table:
        self.instant(f"{at(requested)}.{action}.requested").instant(
            f"{at(requested)}.inflight" if action == "commit" else f"{at(requested)}.{action}.inflight"
        )
        return self if completed is None else self.instant(f"{at(requested)}_{at(completed)}.{action}", b"x")

    def compaction(self, requested: int, *file_ids: str, action: str = "compaction") -> Table:
        operation = {
            "baseInstantTime": at(1), "deltaFilePaths": [], "dataFilePath": None, "partitionPath": PARTITION,
            "metrics": None, "bootstrapFilePath": None,
        }  # fmt: skip
        value = {
            "operations": [{**operation, "fileId": file_id} for file_id in file_ids], "extraMetadata": None,
            "version": 2, "strategy": None, "preserveHoodieMetadata": None,
        }  # fmt: skip
        return self.instant(f"{at(requested)}.{action}.requested", encode_record("HoodieCompactionPlan", value))

    def view(self) -> HoodieTableFileSystemView:
        timeline = HoodieActiveTimeline.load(self.storage, str(self.base_path / ".hoodie"), timeline_layout(2))
        metadata = FileSystemBackedTableMetadata(self.storage, str(self.base_path))
        return HoodieTableFileSystemView(metadata, timeline, lambda: HoodieTimeline(self.archived))

    def slices(self, file_id: str = "f") -> list[tuple[int, bool, list[int]]]:
        """Base instant, whether there is a base file, and the instants of log files, newest slice first."""
        (group,) = [g for g in self.view().file_groups(PARTITION) if g.file_group_id.file_id == file_id]
        return [shape(part) for part in group.slices]


def shape(part: FileSlice) -> tuple[int, bool, list[int]]:
    times = [number(log_file.instant_time) for log_file in part.log_files]
    return number(part.base_instant_time), part.base_file is not None, times


def number(time: str) -> int:
    return int(time[-5:])


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def test_a_delta_commit_that_is_completed_after_a_compaction_was_requested_belongs_to_its_slice(table: Table) -> None:
    table.base(1).log(5).log(10).log(30)
    table.delta(1, 2).delta(5, 6).delta(10, 25).delta(30, 31).compaction(20, "f")
    assert table.slices() == [(20, False, [10, 30]), (1, True, [5])]
    (latest,) = table.view().latest_file_slices(PARTITION)
    assert shape(latest) == (1, True, [5, 10, 30])
    table.base(20).instant(f"{at(20)}_{at(40)}.commit", b"x")
    assert table.slices() == [(20, True, [10, 30]), (1, True, [5])]
    (latest,) = table.view().latest_file_slices(PARTITION)
    assert shape(latest) == (20, True, [10, 30])


def test_a_reader_of_an_instant_sees_what_was_requested_up_to_it(table: Table) -> None:
    table.base(1).log(5).log(10).log(30).base(20)
    table.delta(1, 2).delta(5, 6).delta(10, 25).delta(30, 31).compaction(20, "f")
    table.instant(f"{at(20)}_{at(40)}.commit", b"x")

    def seen(time: int) -> list[tuple[int, bool, list[int]]]:
        return [shape(part) for part in table.view().latest_file_slices_before_or_on(PARTITION, at(time))]

    # The compaction did not take 10, which was requested before it: its reader needs the log file.
    assert {time: seen(time) for time in (0, 1, 5, 19, 20, 29, 30)} == {
        0: [], 1: [(1, True, [])], 5: [(1, True, [5])], 19: [(1, True, [5, 10])],
        20: [(20, True, [10])], 29: [(20, True, [10])], 30: [(20, True, [10, 30])],
    }  # fmt: skip


def test_a_pending_compaction_of_other_groups_makes_no_slice(table: Table) -> None:
    table.base(1).log(10).base(1, "g").log(10, "g").delta(1, 2).delta(10, 25).compaction(20, "g")
    assert table.slices("f") == [(1, True, [10])]
    assert table.slices("g") == [(20, False, [10]), (1, True, [])]


def test_the_slice_of_a_pending_compaction_may_be_empty(table: Table) -> None:
    table.base(1).log(5).delta(1, 2).delta(5, 6).compaction(20, "f")
    assert table.slices() == [(20, False, []), (1, True, [5])]
    view = table.view()
    for found in (view.latest_file_slices(PARTITION), view.latest_file_slices_before_or_on(PARTITION, at(30))):
        assert [shape(part) for part in found] == [(1, True, [5])]
    assert [file.instant_time for file in view.latest_base_files(PARTITION)] == [at(1)]


def test_a_pending_log_compaction_makes_no_slice(table: Table) -> None:
    table.base(1).log(5).log(20).delta(1, 2).delta(5, 6).compaction(20, "f", action="logcompaction")
    assert table.slices() == [(1, True, [5])]


def test_what_is_not_completed_counts_for_nothing(table: Table) -> None:
    """Nor does a base file that a crashed write left hide the log files that were completed after it."""
    table.base(1).base(10).log(5).log(10).log(30).delta(1, 2).delta(5, 25).delta(10).delta(30, 31)
    assert table.slices() == [(1, True, [5, 30])]


def test_log_files_without_an_older_base_file_make_a_slice(table: Table) -> None:
    table.log(5).log(7).log(12).delta(5, 6).delta(7, 8).delta(12, 13)
    assert table.slices() == [(5, False, [5, 7, 12])]
    table.base(10).delta(10, 11)
    assert table.slices() == [(10, True, [12]), (5, False, [5, 7])]


def test_log_files_of_a_slice_are_in_the_order_of_the_requests(table: Table) -> None:
    table.base(1).delta(1, 2).delta(5, 30).delta(6, 8).delta(7, 9)
    table.log(7).log(6, version=10).log(6, version=2, token="1-0-0").log(6, version=2, token="0-0-9").log(5)
    ((latest,),) = [group.slices for group in table.view().file_groups(PARTITION)]
    found = [(number(f.instant_time), f.version, f.write_token) for f in latest.log_files]
    assert found == [(5, 1, "0-0-0"), (6, 2, "0-0-9"), (6, 2, "1-0-0"), (6, 10, "0-0-0"), (7, 1, "0-0-0")]


def test_the_archive_tells_when_a_delta_commit_was_completed(table: Table) -> None:
    table.base(1).base(20).log(5).log(10).log(12).delta(20, 21).delta(30, 31)
    table.archived = [
        HoodieInstant(at(5), Action.DELTA_COMMIT, State.COMPLETED, at(6)),
        HoodieInstant(at(10), Action.DELTA_COMMIT, State.COMPLETED, at(25)),
    ]
    # Nothing tells of 12: its rows must not be missing, so they are in the newest slice.
    assert table.slices() == [(20, True, [10, 12]), (1, True, [5])]


def test_the_archive_is_read_only_where_it_decides(table: Table) -> None:
    table.base(1).base(3).log(5).log(10).delta(20, 21)
    view = table.view()
    view._archived = lambda: pytest.fail("the archive was read")
    (group,) = view.file_groups(PARTITION)
    assert [shape(part) for part in group.slices] == [(3, True, [5, 10]), (1, True, [])]


def test_change_data_lies_beside_the_base_file_of_its_commit(table: Table) -> None:
    table.base(5).base(10).log(5, cdc=True).log(10, cdc=True)
    table.delta(5, 12, action="commit").delta(10, 11, action="commit")
    assert table.slices() == [(10, True, [10]), (5, True, [5])]


# --- against a computation of its own ---------------------------------------------------------------------------------


def slices_of(
    bases: set[str], logs: list[tuple[str, int, str, str]], ends: Mapping[str, str], compactions: set[str]
) -> dict[str, list[str]]:
    """The slices of a group as they are described for other writers: base instant to names of log files."""
    found: dict[str, list[str]] = {time: [] for time in bases | compactions}
    for delta, _, _, name in sorted(logs):
        end = ends.get(delta)
        known = [time for time in found if end is None or time <= end]
        found.setdefault(max(known, default=delta), []).append(name)
    return found


@given(
    st.sets(st.integers(0, 9)),
    st.dictionaries(st.integers(0, 9), st.one_of(st.none(), st.integers(1, 6)), max_size=6),
    st.sets(st.integers(0, 9), max_size=1),
)
def test_any_group_has_the_slices_of_the_rule(
    bases: set[int], deltas: dict[int, int | None], compactions: set[int]
) -> None:
    ends = {at(delta): at(delta + later) for delta, later in deltas.items() if later is not None}
    logs = [
        HoodieLogFile(f"/t/.f_{at(delta)}.log.{n}_0-0-0", "f", at(delta), n, "0-0-0", 1)
        for delta in deltas
        for n in (1, 2)
    ]
    found = place_log_files([at(n) for n in bases | compactions], logs, ends.get)
    expected = slices_of(
        {at(n) for n in bases}, [(f.instant_time, f.version, "0-0-0", f.file_name) for f in logs], ends,
        {at(n) for n in compactions},
    )  # fmt: skip
    assert {time: [f.file_name for f in files] for time, files in found.items()} == expected


def avro(content: bytes) -> dict[str, Any]:
    (record,) = fastavro.reader(io.BytesIO(content))
    assert isinstance(record, dict)
    return record


def expected_slices(base_path: Path) -> dict[tuple[str, str], dict[str, tuple[bool, list[str]]]]:
    """Partition and file id to base instant to (has a base file, names of log files), by names and Avro alone."""
    folder = base_path / ".hoodie/timeline"
    ends: dict[str, str] = {}
    pending: dict[str, str] = {}
    savepoints: set[str] = set()
    replaced: set[tuple[str, str]] = set()
    for file in sorted(folder.iterdir()):
        match = re.fullmatch(r"(\d+)(?:_(\d+))?\.(\w+?)(?:\.(requested|inflight))?", file.name)
        if match is None or not file.is_file():
            continue
        time, end, action, state = match.groups()
        action, state = ("commit", "inflight") if action == "inflight" else (action, state)
        if action == "savepoint":
            savepoints.add(time)
        elif action in ("commit", "deltacommit", "replacecommit", "compaction", "logcompaction", "clustering"):
            if state is None:
                ends[time] = end
                if action == "replacecommit":
                    groups = avro(file.read_bytes())["partitionToReplaceFileIds"] or {}
                    replaced |= {(path, file_id) for path, ids in groups.items() for file_id in ids}
            else:
                pending[time] = action
    pending = {time: action for time, action in pending.items() if time not in ends}
    first = min((time for time in {*ends, *pending} if time not in savepoints), default="")
    compactions: dict[tuple[str, str], set[str]] = defaultdict(set)
    for time, action in pending.items():
        if action == "compaction":
            for operation in avro((folder / f"{time}.compaction.requested").read_bytes())["operations"]:
                compactions[operation["partitionPath"], operation["fileId"]].add(time)
    history = folder / "history"
    if (history / "_version_").exists():
        manifest = json.loads((history / f"manifest_{(history / '_version_').read_text()}").read_text())
        for listed in manifest["files"]:
            for row in pq.read_table(history / listed["fileName"]).to_pylist():
                if "commit" in row["action"]:
                    ends.setdefault(row["instantTime"], row["completionTime"])
    bases: dict[tuple[str, str], set[str]] = defaultdict(set)
    logs: dict[tuple[str, str], list[tuple[str, int, str, str]]] = defaultdict(list)
    for file in base_path.rglob("*"):
        path = str(file.parent.relative_to(base_path)).replace(".", "", 1) if file.parent == base_path else str(
            file.parent.relative_to(base_path)
        )  # fmt: skip
        if path.startswith(".hoodie"):
            continue
        base = re.fullmatch(r"([^_.]+)_[\d-]+_(\d+)\.parquet", file.name)
        log = re.fullmatch(r"\.([^_]+)_(\d+)\.log\.(\d+)_([\d-]+)", file.name)
        match = base or log
        if match is None:
            continue
        key, time = (path, match[1]), match[2]
        if key in replaced or (time not in ends and not time < first) or time in pending:
            continue
        if log is not None:
            logs[key].append((time, int(log[3]), log[4], file.name))
        else:
            bases[key].add(time)
    return {
        key: {
            time: (time in bases[key], names)
            for time, names in slices_of(bases[key], logs[key], ends, compactions[key]).items()
        }
        for key in {*bases, *logs}
    }


def test_tables_of_real_hudi_have_the_slices_of_the_rule(
    later_tables: Path, shared_tables: Path, request: pytest.FixtureRequest
) -> None:
    count = with_logs = with_compactions = 0
    for folder in (*folders_of_tables(later_tables), *folders_of_tables(shared_tables)):
        client = HoodieTableMetaClient.load(str(folder))
        config = client.table_config
        if config.table_version < 8 or config.table_type != "MERGE_ON_READ":
            continue
        count += 1
        expected = expected_slices(folder)
        found: dict[tuple[str, str], dict[str, tuple[bool, list[str]]]] = {}
        view = client.view()
        for partition in view.list_partitions():
            for group in view.file_groups(partition):
                found[partition, group.file_group_id.file_id] = {
                    part.base_instant_time: (part.base_file is not None, [f.file_name for f in part.log_files])
                    for part in group.slices
                }
        assert found == expected, folder.name
        with_logs += any(names for slices in found.values() for _, names in slices.values())
        with_compactions += any(not base for slices in found.values() for base, _ in slices.values())
    assert count >= 25 and with_logs >= 15 and with_compactions, (count, with_logs, with_compactions)
