"""File groups and slices: what of a listing a reader may see."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.fs.file_names import make_base_file_name, make_log_file_name
from hoodie.common.model.commit_metadata import HoodieCommitMetadata, HoodieReplaceCommitMetadata
from hoodie.common.model.file_slice import FileSlice, HoodieFileGroup, HoodieFileGroupId
from hoodie.common.model.write_operation_type import WriteOperationType
from hoodie.common.model.write_stat import HoodieWriteStat
from hoodie.common.table.partition_metadata import ensure_partition_metadata
from hoodie.common.table.table_metadata import FileSystemBackedTableMetadata
from hoodie.common.table.timeline.active_timeline import HoodieActiveTimeline
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.common.table.view.file_system_view import HoodieTableFileSystemView, build_file_groups
from hoodie.storage.storage import FileStatus
from hoodie.storage.storage_factory import open_storage

PARTITION = "asia"


def instant_time(number: int) -> str:
    return f"202611211015{number:05}"


T1, T2, T3, T4, T5 = (instant_time(number) for number in range(1, 6))


def completed(*times: str, action: Action = Action.COMMIT) -> list[HoodieInstant]:
    return [HoodieInstant(time, action, State.COMPLETED) for time in times]


def pending(time: str, action: Action = Action.COMMIT, state: State = State.INFLIGHT) -> list[HoodieInstant]:
    return [HoodieInstant(time, action, state)]


def status(name: str, size_bytes: int = 10) -> FileStatus:
    return FileStatus(f"/t/{PARTITION}/{name}", size_bytes, 0)


def base(file_id: str, time: str, token: str = "0-0-0") -> FileStatus:
    return status(make_base_file_name(file_id, token, time))


def log(file_id: str, time: str, version: int = 1, token: str = "0-0-0", is_cdc: bool = False) -> FileStatus:
    return status(make_log_file_name(file_id, time, version, token, is_cdc))


def shape(groups: list[HoodieFileGroup]) -> dict[str, list[tuple[str, bool, int]]]:
    """File id to (instant, has a base file, number of log files) of its slices."""
    return {
        group.file_group_id.file_id: [
            (part.base_instant_time, part.base_file is not None, len(part.log_files)) for part in group.slices
        ]
        for group in groups
    }


def test_committed_base_files_of_a_group_are_slices_newest_first() -> None:
    files = [base("g", T1), base("f", T1), base("f", T3), base("f", T2)]
    groups = build_file_groups(PARTITION, files, completed(T1, T2, T3))
    assert shape(groups) == {
        "f": [(T3, True, 0), (T2, True, 0), (T1, True, 0)],
        "g": [(T1, True, 0)],
    }
    latest = groups[0].slices[0]
    assert latest is not None and latest.base_file is not None
    assert (latest.base_file.path, latest.base_file.size_bytes) == (files[2].path, 10)
    assert groups[0].file_group_id == HoodieFileGroupId(PARTITION, "f")


@pytest.mark.parametrize("state", [State.REQUESTED, State.INFLIGHT])
@pytest.mark.parametrize("action", [Action.COMMIT, Action.DELTA_COMMIT, Action.REPLACE_COMMIT])
def test_files_of_an_instant_that_is_not_completed_are_hidden(action: Action, state: State) -> None:
    files = [base("f", T1), base("f", T2), base("g", T2), log("h", T2)]
    assert shape(build_file_groups(PARTITION, files, completed(T1) + pending(T2, action, state))) == {
        "f": [(T1, True, 0)]
    }


def test_files_that_no_instant_explains_are_hidden() -> None:
    files = [base("f", T1), base("f", T2), base("g", T2), base("h", T4)]
    assert shape(build_file_groups(PARTITION, files, completed(T1, T3))) == {"f": [(T1, True, 0)]}


def test_files_of_a_clean_or_rollback_are_not_thought_committed() -> None:
    timeline = completed(T1) + completed(T2, action=Action.ROLLBACK) + completed(T3, action=Action.CLEAN)
    assert shape(build_file_groups(PARTITION, [base("f", T2), base("g", T3)], timeline)) == {}


def test_files_older_than_the_timeline_are_committed() -> None:
    assert shape(build_file_groups(PARTITION, [base("f", T1)], completed(T2))) == {"f": [(T1, True, 0)]}


def test_a_failed_write_older_than_the_first_completed_commit_is_hidden() -> None:
    files = [base("f", T1), base("f", T2)]
    assert shape(build_file_groups(PARTITION, files, pending(T1) + completed(T2))) == {"f": [(T2, True, 0)]}


def test_commits_archived_behind_a_savepoint_are_committed() -> None:
    timeline = completed(T1) + completed(T1, action=Action.SAVEPOINT) + completed(T3)
    assert shape(build_file_groups(PARTITION, [base("f", T1), base("f", T2)], timeline)) == {
        "f": [(T2, True, 0), (T1, True, 0)]
    }


def test_nothing_is_visible_without_a_completed_commit() -> None:
    assert build_file_groups(PARTITION, [base("f", T1), log("g", T1)], pending(T2)) == []
    assert build_file_groups(PARTITION, [base("f", T1)], []) == []


def test_replaced_file_groups_are_dropped() -> None:
    replaced = {HoodieFileGroupId(PARTITION, "f"), HoodieFileGroupId("europe", "g")}
    groups = build_file_groups(PARTITION, [base("f", T1), base("g", T1)], completed(T1, T2), replaced)
    assert shape(groups) == {"g": [(T1, True, 0)]}


def test_log_files_join_the_slice_of_their_base_instant_in_merge_order() -> None:
    files = [
        base("f", T1),
        log("f", T1, 10),
        log("f", T1, 9, "1-0-0"),
        log("f", T1, 9, "0-0-0", is_cdc=True),
        log("f", T1, 9, "0-0-0"),
        status(f".f_{T1}.log.9"),
        log("g", T2),
        status("..f_20261121101500001.log.1_0-0-0.crc"),
        status(".commits_.archive.1_1-0-1"),
    ]
    timeline = completed(T1, T2, action=Action.DELTA_COMMIT)
    groups = build_file_groups(PARTITION, files, timeline)
    assert shape(groups) == {"f": [(T1, True, 5)], "g": [(T2, False, 1)]}
    assert [(file.version, file.write_token, file.is_cdc) for file in groups[0].slices[0].log_files] == [
        (9, None, False),
        (9, "0-0-0", False),
        (9, "0-0-0", True),
        (9, "1-0-0", False),
        (10, "0-0-0", False),
    ]


def test_of_two_base_files_of_one_instant_the_committed_one_counts() -> None:
    files = [base("f", T1, "0-1-7"), base("f", T1, "0-1-3"), base("f", T1, "0-1-5")]
    asked = []

    def committed_file_name(group_id: HoodieFileGroupId, time: str) -> str | None:
        asked.append((group_id, time))
        return files[1].name

    groups = build_file_groups(PARTITION, [*files, base("g", T1)], completed(T1), (), committed_file_name)
    assert [group.slices[0].base_file.path for group in groups if group.slices[0].base_file] == [
        files[1].path,
        base("g", T1).path,
    ]
    assert asked == [(HoodieFileGroupId(PARTITION, "f"), T1)]


def test_of_two_base_files_that_no_metadata_names_the_newest_attempt_counts(
    caplog: pytest.LogCaptureFixture,
) -> None:
    files = [base("f", T1, "0-1-9"), base("f", T1, "0-1-10")]
    with caplog.at_level(logging.WARNING):
        groups = build_file_groups(PARTITION, files, completed(T2), (), lambda *_: None)
    base_file = groups[0].slices[0].base_file
    assert base_file is not None and base_file.path == files[1].path
    assert "has 2 base files" in caplog.text


file_ids = st.sampled_from(["a", "b", "c"])
numbers = st.integers(1, 8)


@given(
    files=st.sets(st.tuples(file_ids, numbers, st.integers(0, 2)), max_size=20),
    states=st.dictionaries(numbers, st.sampled_from(["commit", "inflight", "requested", "compaction", "clean"])),
    savepoints=st.sets(numbers, max_size=2),
    replaced=st.sets(file_ids, max_size=2),
)
def test_a_view_agrees_with_a_model_that_asks_for_each_file_alone(
    files: set[tuple[str, int, int]], states: dict[int, str], savepoints: set[int], replaced: set[str]
) -> None:
    """Version 0 of a file is the base file, others are log files of that version."""
    instants = []
    for number, state in states.items():
        time = instant_time(number)
        if state == "commit":
            instants += completed(time)
            if number in savepoints:
                instants += completed(time, action=Action.SAVEPOINT)
        elif state == "clean":
            instants += completed(time, action=Action.CLEAN)
        elif state == "compaction":
            instants += pending(time, Action.COMPACTION, State.REQUESTED)
        else:
            instants += pending(time, Action.COMMIT, State[state.upper()])

    def is_visible(number: int, version: int) -> bool:
        state = states.get(number)
        if state == "compaction":
            return version > 0
        if state in ("commit", "inflight", "requested"):
            return state == "commit"
        writes = [other for other, kind in states.items() if kind in ("compaction", "commit")]
        starts = [other for other in writes if states[other] == "compaction" or other not in savepoints]
        # Where savepoints hold all, as after a restore to one, what is older than the last was archived.
        return number < min(starts, default=max(writes, default=0))

    visible = sorted(file for file in files if file[0] not in replaced and is_visible(*file[1:]))

    def slice_of(file_id: str, number: int) -> int:
        """A base file or a pending compaction begins a slice on top of another one; log files alone do not."""
        begun = [other for name, other, version in visible if name == file_id and (version == 0 or is_coming(other))]
        first = min(other for name, other, _ in visible if name == file_id)
        return max(other for other in (first, *begun) if other <= number)

    def is_coming(number: int) -> bool:
        return states.get(number) == "compaction"

    expected: dict[str, dict[int, set[tuple[int, int]]]] = defaultdict(lambda: defaultdict(set))
    for file_id, number, version in visible:
        expected[file_id][slice_of(file_id, number)].add((number, version))
    listing = [
        base(file_id, instant_time(number)) if version == 0 else log(file_id, instant_time(number), version)
        for file_id, number, version in sorted(files)
    ]
    groups = build_file_groups(PARTITION, listing, instants, {HoodieFileGroupId(PARTITION, name) for name in replaced})
    assert shape(groups) == {
        file_id: [
            (instant_time(number), (number, 0) in parts, sum(version > 0 for _, version in parts))
            for number, parts in sorted(slices.items(), reverse=True)
        ]
        for file_id, slices in expected.items()
    }


class Table:
    """A table on disk, of empty data files and real timeline files."""

    def __init__(self, base_path: Path) -> None:
        self.base_path = base_path
        self.storage = open_storage(str(base_path))

    def add(self, partition_path: str, *files: FileStatus) -> None:
        ensure_partition_metadata(self.storage, str(self.base_path), partition_path, T1)
        for file in files:
            (self.base_path / partition_path / file.name).write_bytes(b"x" * file.size_bytes)

    def instant(self, name: str, content: bytes = b"") -> None:
        meta_path = self.base_path / ".hoodie"
        meta_path.mkdir(exist_ok=True)
        (meta_path / name).write_bytes(content)

    def commit(self, time: str, names: Mapping[str, str] | None = None) -> None:
        stats = {
            PARTITION: tuple(
                HoodieWriteStat(file_id=file_id, partition_path=PARTITION, path=f"{PARTITION}/{name}")
                for file_id, name in (names or {}).items()
            )
        }
        metadata = HoodieCommitMetadata(stats, operation_type=WriteOperationType.UPSERT)
        self.instant(f"{time}.commit", metadata.to_json())

    def replace(self, time: str, replaced: Mapping[str, tuple[str, ...]]) -> None:
        metadata = HoodieReplaceCommitMetadata(
            operation_type=WriteOperationType.INSERT_OVERWRITE, partition_to_replace_file_ids=replaced
        )
        self.instant(f"{time}.replacecommit", metadata.to_json())

    def view(self) -> HoodieTableFileSystemView:
        timeline = HoodieActiveTimeline.load(self.storage, str(self.base_path / ".hoodie"), timeline_layout(1))
        return HoodieTableFileSystemView(FileSystemBackedTableMetadata(self.storage, str(self.base_path)), timeline)


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path)


def instants_of(view: HoodieTableFileSystemView, as_of: str | None = None) -> dict[str, str]:
    files = (
        view.latest_base_files(PARTITION) if as_of is None else view.latest_base_files_before_or_on(PARTITION, as_of)
    )
    return {file.file_id: file.instant_time for file in files}


def test_latest_base_files_are_those_of_the_newest_commit_that_touched_the_group(table: Table) -> None:
    table.add(PARTITION, base("f", T1), base("f", T2), base("g", T1), base("g", T3))
    table.commit(T1)
    table.commit(T2)
    table.instant(f"{T3}.commit.requested")
    table.instant(f"{T3}.inflight")
    assert instants_of(table.view()) == {"f": T2, "g": T1}


def test_time_travel_sees_older_files_and_groups_replaced_since(table: Table) -> None:
    table.add(PARTITION, base("f", T1), base("f", T2), base("g", T4))
    table.commit(T1)
    table.commit(T2)
    table.replace(T4, {PARTITION: ("f",), "elsewhere": ("g",)})
    view = table.view()
    assert instants_of(view) == {"g": T4}
    assert instants_of(view, T5) == {"g": T4}
    assert instants_of(view, T4) == {"g": T4}
    assert instants_of(view, T3) == {"f": T2}
    assert instants_of(view, T1) == {"f": T1}
    assert instants_of(view, instant_time(0)) == {}
    assert dict(view.replaced_file_groups()) == {
        HoodieFileGroupId(PARTITION, "f"): T4,
        HoodieFileGroupId("elsewhere", "g"): T4,
    }
    assert [group.file_group_id.file_id for group in view.file_groups(PARTITION)] == ["g"]


def test_a_pending_replace_commit_replaces_nothing(table: Table) -> None:
    table.add(PARTITION, base("f", T1), base("g", T2))
    table.commit(T1)
    table.instant(f"{T2}.replacecommit.requested")
    assert instants_of(table.view()) == {"f": T1}


def test_a_file_of_a_lost_attempt_is_told_by_the_commit_metadata(table: Table) -> None:
    lost, kept = base("f", T1, "0-1-9"), base("f", T1, "0-1-2")
    table.add(PARTITION, lost, kept)
    table.commit(T1, {"f": kept.name})
    assert [file.file_name for file in table.view().latest_base_files(PARTITION)] == [kept.name]


def test_a_view_keeps_what_it_saw(table: Table) -> None:
    table.add(PARTITION, base("f", T1))
    table.commit(T1)
    view = table.view()
    assert instants_of(view) == {"f": T1}
    assert view.list_partitions() == [PARTITION]
    table.add(PARTITION, base("f", T2))
    table.add("europe", base("g", T2))
    table.commit(T2)
    assert instants_of(view) == {"f": T1}
    assert view.list_partitions() == [PARTITION]
    assert instants_of(table.view()) == {"f": T2}


def test_partitions_can_be_loaded_together(table: Table) -> None:
    table.add(PARTITION, base("f", T1))
    table.add("europe/france", base("g", T1))
    table.commit(T1)
    view = table.view()
    view.load_partitions(["europe/france", PARTITION, PARTITION, "nowhere"])
    for path in (PARTITION, "europe/france"):
        for file in (table.base_path / path).glob("*.parquet"):
            file.unlink()
    assert instants_of(view) == {"f": T1}
    assert [file.file_id for file in view.latest_base_files("europe/france")] == ["g"]
    assert view.latest_base_files("nowhere") == []


def slices_of(view: HoodieTableFileSystemView) -> list[FileSlice]:
    return view.latest_file_slices(PARTITION)


def test_the_slice_of_a_pending_compaction_is_merged_with_the_one_before(table: Table) -> None:
    table.add(PARTITION, base("f", T1), log("f", T1, 1), log("f", T2, 1), base("f", T2), log("g", T2, 1))
    table.commit(T1)
    table.instant(f"{T2}.compaction.requested")
    slices = slices_of(table.view())
    assert [(part.file_id, part.base_instant_time) for part in slices] == [("f", T1), ("g", T2)]
    assert slices[0].base_file is not None
    assert [file.instant_time for file in slices[0].log_files] == [T1, T2]
    assert instants_of(table.view()) == {"f": T1}
    table.commit(T2)
    slices = slices_of(table.view())
    assert [(part.base_instant_time, len(part.log_files)) for part in slices] == [(T2, 1), (T2, 1)]
    assert instants_of(table.view()) == {"f": T2}
