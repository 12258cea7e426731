"""The archived timeline of layout 2: which files count, what they hold, and writers that change them meanwhile."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hoodie.common.model.commit_metadata import HoodieReplaceCommitMetadata
from hoodie.common.table.timeline.archived_timeline import HoodieArchivedTimeline
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.lsm_timeline import HoodieLsmTimeline, archive_of
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieIOException
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import Call, storage_with
from tests.support.later_version import avro_commit, write_history

T = [f"2026010210{number:07d}" for number in range(10)]
LAYOUT = timeline_layout(2)
Row = dict[str, Any]


def row(number: int, action: str = "commit", metadata: bytes | None = None, completed: str | None = None) -> Row:
    replaces = action == "replacecommit"
    value = {
        "partitionToWriteStats": {},
        "compacted": None,
        "extraMetadata": {"number": str(number)},
        "operationType": "UPSERT",
        "partitionToReplaceFileIds": {"p": ["f"]},
    }
    return {
        "instantTime": T[number],
        "completionTime": completed or f"{T[number]}5"[-17:],
        "action": action,
        "metadata": avro_commit(value, replaces) if metadata is None and action.endswith("commit") else metadata,
        "plan": None,
        "version": 1,
    }


def load(table: Path, storage: LocalStorage | None = None) -> HoodieArchivedTimeline:
    return archive_of(LAYOUT).load(storage or LocalStorage(str(table)), f"{table}/.hoodie", "timeline/history", LAYOUT)


def history(table: Path) -> Path:
    return table / ".hoodie/timeline/history"


def times_of(timeline: HoodieArchivedTimeline) -> list[str]:
    return [instant.requested_time for instant in timeline]


def test_a_table_that_was_never_archived_has_no_archived_instants(tmp_path: Path) -> None:
    assert len(load(tmp_path)) == 0
    history(tmp_path).mkdir(parents=True)
    assert len(load(tmp_path)) == 0
    (history(tmp_path) / "20_30_0.parquet").write_bytes(b"a file that no manifest lists")
    assert len(load(tmp_path)) == 0


def test_each_layout_has_its_class() -> None:
    assert archive_of(timeline_layout(1)) is HoodieArchivedTimeline and archive_of(LAYOUT) is HoodieLsmTimeline


def test_instants_have_both_times_and_their_contents(tmp_path: Path) -> None:
    write_history(tmp_path, [row(2), row(1), row(0, "clean")])
    write_history(tmp_path, [row(3, "replacecommit")], level=1)
    timeline = load(tmp_path)
    assert [(i.requested_time, str(i.action)) for i in timeline] == [
        (T[0], "clean"), (T[1], "commit"), (T[2], "commit"), (T[3], "replacecommit"),
    ]  # fmt: skip
    clean, first, second, replaced = timeline
    assert timeline.completion_time(first) == first.completion_time == row(1)["completionTime"]
    assert timeline.read_commit_metadata(second).extra_metadata == {"number": "2"}
    metadata = timeline.read_commit_metadata(replaced)
    assert isinstance(metadata, HoodieReplaceCommitMetadata) and metadata.replaced_file_groups == (("p", "f"),)
    assert timeline.read_entry(clean) == {"metadata": None, "plan": None}
    with pytest.raises(HoodieException, match="clean has none"):
        timeline.read_commit_metadata(clean)
    assert timeline.find(T[3], Action.CLUSTERING) == replaced


def test_an_instant_in_several_files_is_one_instant(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1), row(2)])
    write_history(tmp_path, [row(2, completed="20270101000000000"), row(3)])
    timeline = load(tmp_path)
    assert times_of(timeline) == T[1:4]
    assert timeline.instants[1].completion_time == "20270101000000000"


def test_an_instant_of_another_table_is_not_in_the_archive(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1)])
    write_history(tmp_path / "other", [row(2)])
    with pytest.raises(HoodieIOException, match="not in the archive"):
        load(tmp_path).read_commit_metadata(load(tmp_path / "other").instants[0])


@pytest.mark.parametrize("version", [None, b"", b"x"])
def test_without_a_version_the_newest_manifest_counts(tmp_path: Path, version: bytes | None) -> None:
    """Writers delete the version and make it anew."""
    for number in range(1, 11):
        write_history(tmp_path, [row(number - 1)], level=number % 10)
    file = history(tmp_path) / "_version_"
    file.unlink() if version is None else file.write_bytes(version)
    assert times_of(load(tmp_path)) == T


def test_only_files_of_the_manifest_count(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1)])
    write_history(tmp_path, [row(2)])
    (history(tmp_path) / "_version_").write_text("1")
    assert times_of(load(tmp_path)) == [T[1]]


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"files":[{}]}', b'{"files":[{"fileName":"../../x"}]}', b'{"files":[{"fileName":1}]}']
)
def test_a_damaged_manifest_is_named(tmp_path: Path, content: bytes) -> None:
    write_history(tmp_path, [row(1)])
    (history(tmp_path) / "manifest_1").write_bytes(content)
    with pytest.raises(HoodieCorruptedDataException, match="manifest_1"):
        load(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = write_history(tmp_path, [row(1)])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(HoodieCorruptedDataException, match=path.name):
        load(tmp_path)


def test_a_commit_without_metadata_is_damaged(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1, metadata=b"")])
    timeline = load(tmp_path)
    with pytest.raises(HoodieCorruptedDataException, match=T[1]):
        timeline.read_commit_metadata(timeline.instants[0])


def test_unknown_actions_are_left_out(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1, "dance"), row(2)])
    assert times_of(load(tmp_path)) == [T[2]]


# --- while a writer compacts --------------------------------------------------------------------------------------


def compact(table: Path) -> None:
    """What a writer does: one file for two, another manifest, the old files away."""
    old = sorted(history(table).glob("*.parquet"))
    write_history(table, [row(1), row(2)], level=1)
    number = int((history(table) / "_version_").read_text())
    newest = history(table) / f"manifest_{number}"
    files = json.loads(newest.read_text())["files"][-1:]
    newest.write_text(json.dumps({"files": files}))
    for path in (*old, *(history(table) / f"manifest_{n}" for n in range(1, number))):
        path.unlink()


@pytest.mark.parametrize("wanted", ["manifest_2", "_0.parquet"])
def test_files_that_are_compacted_while_they_are_read_are_read_again(tmp_path: Path, wanted: str) -> None:
    write_history(tmp_path, [row(1)])
    write_history(tmp_path, [row(2)])
    calls: list[str] = []

    def around(call: Call) -> Any:
        if wanted in call.path and not calls:
            calls.append(call.name)
            compact(tmp_path)
        return call.apply()

    timeline = load(tmp_path, storage_with(tmp_path, around))
    assert calls
    assert times_of(timeline) == T[1:3]
    assert timeline.read_commit_metadata(timeline.instants[1]).extra_metadata == {"number": "2"}


def test_contents_that_were_compacted_since_are_found(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1)])
    write_history(tmp_path, [row(2)])
    timeline = load(tmp_path)
    compact(tmp_path)
    assert timeline.read_commit_metadata(timeline.instants[0]).extra_metadata == {"number": "1"}


def test_a_listed_file_that_is_lost_is_an_error(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1)]).unlink()
    with pytest.raises(HoodieIOException, match="vanish"):
        load(tmp_path)


def test_values_of_commits_are_found(tmp_path: Path) -> None:
    write_history(tmp_path, [row(1), row(2, "clean", b"number")])
    write_history(tmp_path, [row(3, "replacecommit")])
    storage, folder = LocalStorage(str(tmp_path)), str(history(tmp_path))
    found = archive_of(LAYOUT).find_metadata(storage, folder, LAYOUT, ["number", "other"])
    assert {instant.requested_time: values for instant, values in found.items()} == {
        T[1]: {"number": "1"}, T[3]: {"number": "3"},
    }  # fmt: skip
    assert archive_of(LAYOUT).find_metadata(storage, folder, LAYOUT, ["nobody"]) == {}


# --- tables of others ---------------------------------------------------------------------------------------------


def test_archives_of_real_tables_are_read(later_tables: Path) -> None:
    count = 0
    for folder in sorted(later_tables.rglob(".hoodie/timeline/history")):
        timeline = load(folder.parents[2])
        for instant in timeline.completed_writes():
            assert instant.completion_time is not None
            timeline.read_commit_metadata(instant)
            count += 1
    assert count >= 4
