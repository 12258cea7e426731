"""The archive of timeline layout 2 as it is written: its files, deaths at each call, and other writers."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hoodie.common.table.timeline import lsm_archive
from hoodie.common.table.timeline.instant import Action
from hoodie.common.table.timeline.lsm_archive import LsmArchiveWriter, LsmEntry
from hoodie.common.table.timeline.lsm_manifest import LsmFile, manifest_numbers, newest_manifest
from hoodie.common.table.timeline.lsm_timeline import archive_of
from hoodie.common.table.timeline.timeline_layout import timeline_layout
from hoodie.exception import HoodieCorruptedDataException, HoodieIOException, HoodieLockException
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import (
    Call,
    Faults,
    FaultyStorage,
    faults_of,
    run_with_faults,
    storage_with,
)
from tests.support.later_version import write_history

DATA = Path(__file__).parents[4] / "data"
LAYOUT = timeline_layout(2)
Rows = list[tuple[str, str, str, bytes | None, bytes | None]]


def time_of(number: int) -> str:
    return f"2026010210{number:07d}"


def entry(number: int, action: Action = Action.COMMIT, content: bytes = b"metadata") -> LsmEntry:
    plan = b"plan" if action is Action.CLEAN else None
    return LsmEntry(time_of(number), time_of(number + 500), action, content + b"%d" % number, plan)


def entries(*numbers: int) -> list[LsmEntry]:
    return [entry(number) for number in numbers]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / ".hoodie/timeline/history"


@pytest.fixture
def writer(tmp_path: Path, folder: Path) -> LsmArchiveWriter:
    return LsmArchiveWriter(LocalStorage(str(tmp_path)), str(folder))


def rows_of(table: Path, storage: LocalStorage | None = None) -> Rows:
    """What readers find, in the order of the timeline."""
    timeline = archive_of(LAYOUT).load(
        storage or LocalStorage(str(table)), f"{table}/.hoodie", "timeline/history", LAYOUT
    )
    found = []
    for instant in timeline:
        read = timeline.read_entry(instant)
        ended = instant.completion_time or ""
        found.append((instant.requested_time, ended, str(instant.action), read["metadata"], read["plan"]))
    return found


def as_rows(*written: LsmEntry) -> Rows:
    return [(e.requested_time, e.completion_time, str(e.action), e.metadata, e.plan) for e in written]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def listed(folder: Path) -> list[str]:
    return [file.name for file in newest_manifest(LocalStorage(str(folder)), str(folder)).files]


# --- files ------------------------------------------------------------------------------------------------------------


def test_instants_are_appended_in_one_file_each_time(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    first = [entry(3), entry(1), entry(2, Action.CLEAN)]
    path = writer.append(first)
    assert path == f"{folder}/{time_of(1)}_{time_of(3)}_0.parquet"
    assert names(folder) == [f"{time_of(1)}_{time_of(3)}_0.parquet", "_version_", "manifest_1"]
    assert (folder / "_version_").read_bytes() == b"1"
    writer.append(entries(4))
    assert (folder / "_version_").read_bytes() == b"2"
    manifest = json.loads((folder / "manifest_2").read_text())
    assert manifest == {
        "files": [
            {"fileName": name, "fileLen": (folder / name).stat().st_size}
            for name in (f"{time_of(1)}_{time_of(3)}_0.parquet", f"{time_of(4)}_{time_of(4)}_0.parquet")
        ]
    }
    assert rows_of(tmp_path) == as_rows(first[1], first[2], first[0], entry(4))


def test_a_file_has_the_form_of_hudi(tmp_path: Path, writer: LsmArchiveWriter) -> None:
    with zipfile.ZipFile(DATA / "hudi_trips_v9.zip") as archive:
        archive.extractall(tmp_path / "hudi")
    (example, *_) = sorted((tmp_path / "hudi").rglob("timeline/history/*_0.parquet"))
    path = writer.append([LsmEntry(time_of(1), time_of(2), Action.ROLLBACK, None, None), entry(3, Action.CLEAN)])
    assert path is not None
    ours, theirs = pq.ParquetFile(path), pq.ParquetFile(example)
    assert [str(ours.schema.column(n)) for n in range(6)] == [str(theirs.schema.column(n)) for n in range(6)]
    assert ours.metadata.metadata.keys() == theirs.metadata.metadata.keys()
    for key in (b"parquet.avro.schema", b"writer.model.name"):
        assert ours.metadata.metadata[key] == theirs.metadata.metadata[key]
    assert ours.metadata.num_row_groups == 1 and ours.metadata.format_version == "1.0"
    assert {ours.metadata.row_group(0).column(n).compression for n in range(6)} == {"GZIP"}
    assert ours.read().to_pylist()[0] == {
        "instantTime": time_of(1), "completionTime": time_of(2), "action": "rollback",
        "metadata": None, "plan": None, "version": 1,
    }  # fmt: skip


def test_what_is_in_the_archive_is_not_written_again(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    """An archiver died while it was deleting instants, and the next one has the others and new ones to archive."""
    writer.append(entries(1, 2, 3))
    before = names(folder)
    assert writer.append(entries(1, 2, 3)) is None and writer.append(entries(3)) is None and writer.append([]) is None
    assert names(folder) == before
    path = writer.append(entries(2, 3, 4))
    assert path == f"{folder}/{time_of(4)}_{time_of(4)}_0.parquet"
    assert rows_of(tmp_path) == as_rows(*entries(1, 2, 3, 4))


def test_an_instant_that_was_left_out_is_written_though_a_file_has_its_time(
    tmp_path: Path, writer: LsmArchiveWriter
) -> None:
    """A savepoint had kept it while younger ones were archived."""
    writer.append(entries(1, 2, 4, 5))
    writer.append(entries(1, 2, 3, 4, 5))
    assert rows_of(tmp_path) == as_rows(*entries(1, 2, 3, 4, 5))


def test_a_name_that_is_taken_by_other_instants_is_refused(tmp_path: Path, writer: LsmArchiveWriter) -> None:
    writer.append(entries(1))
    with pytest.raises(HoodieCorruptedDataException, match=time_of(1)):
        writer.append([entry(1, Action.CLEAN)])
    assert rows_of(tmp_path) == as_rows(entry(1))


def test_the_archive_of_another_writer_is_extended(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    row = {"instantTime": time_of(1), "completionTime": time_of(2), "action": "commit", "metadata": b"m", "plan": None}
    write_history(tmp_path, [{**row, "version": 1}])
    writer.append(entries(5))
    assert listed(folder) == [f"{time_of(1)}_{time_of(1)}_0.parquet", f"{time_of(5)}_{time_of(5)}_0.parquet"]
    assert [found[0] for found in rows_of(tmp_path)] == [time_of(1), time_of(5)]


# --- compaction and cleaning ------------------------------------------------------------------------------------------


def fill(writer: LsmArchiveWriter, count: int, start: int = 0) -> list[LsmEntry]:
    written = [entry(number) for number in range(start, start + count)]
    for one in written:
        writer.append([one])
    return written


def test_enough_files_of_a_level_become_one_of_the_next(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    written = fill(writer, 9)
    assert writer.compact() == 0
    written += fill(writer, 2, 9)
    assert writer.compact() == 1
    assert listed(folder) == [f"{time_of(10)}_{time_of(10)}_0.parquet", f"{time_of(0)}_{time_of(9)}_1.parquet"]
    assert rows_of(tmp_path) == as_rows(*written)


def test_levels_are_compacted_one_after_the_other(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    written = []
    for number in range(9):
        written += fill(writer, 1, number)
        writer.compact(batch_size=2)
        assert rows_of(tmp_path) == as_rows(*written)
    assert sorted(LsmFile.of(name, 0).level for name in listed(folder)) == [0, 3]  # type: ignore[union-attr]
    assert f"{time_of(0)}_{time_of(7)}_3.parquet" in listed(folder)


def test_large_files_are_compacted_by_twos(tmp_path: Path, folder: Path, writer: LsmArchiveWriter) -> None:
    written = fill(writer, 4)
    assert writer.compact(batch_size=3, target_file_max_bytes=1) == 1
    assert f"{time_of(0)}_{time_of(1)}_1.parquet" in listed(folder)
    assert rows_of(tmp_path) == as_rows(*written)


def test_long_files_are_compacted_in_parts(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lsm_archive, "_ROWS_AT_ONCE", 3)
    monkeypatch.setattr(lsm_archive, "_ROW_GROUP_BYTES", 10_000)
    large = [entry(number, content=b"%d" % number * 1000) for number in range(30)]
    writer.append(large[:15])
    writer.append(large[15:])
    writer.compact(batch_size=2)
    (name,) = listed(folder)
    assert pq.ParquetFile(folder / name).metadata.num_row_groups > 3
    assert rows_of(tmp_path) == as_rows(*large)


def test_a_level_stays_where_the_name_of_its_compaction_is_taken(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter
) -> None:
    row = {"completionTime": time_of(2), "action": "commit", "metadata": b"m", "plan": None, "version": 1}
    rows = [{"instantTime": time_of(number), **row} for number in range(2)]
    write_history(tmp_path, rows, level=1)
    for one in rows:
        write_history(tmp_path, [one])
    before = listed(folder)
    assert writer.compact(batch_size=2) == 0
    assert listed(folder) == before and len(rows_of(tmp_path)) == 2


def test_old_manifests_go_and_then_the_files_that_none_lists(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter
) -> None:
    written = fill(writer, 10)
    writer.compact()
    (folder / f"{time_of(70)}_{time_of(71)}_0.parquet").write_bytes(b"of a writer that died")
    writer.clean(3)
    assert manifest_numbers(LocalStorage(str(tmp_path)), str(folder)) == [9, 10, 11]
    # The manifests that stay list the ten files, for readers that have begun with them.
    assert sum(name.endswith("_0.parquet") for name in names(folder)) == 10
    writer.clean(1)
    assert names(folder) == [f"{time_of(0)}_{time_of(9)}_1.parquet", "_version_", "manifest_11"]
    assert rows_of(tmp_path) == as_rows(*written)


def test_an_archive_without_files_is_cleaned_and_compacted(folder: Path, writer: LsmArchiveWriter) -> None:
    assert writer.compact() == 0
    writer.clean()
    assert not folder.exists() or names(folder) == []


def test_nothing_is_deleted_if_a_manifest_that_stays_is_damaged(folder: Path, writer: LsmArchiveWriter) -> None:
    fill(writer, 10)
    writer.compact()
    (folder / "manifest_10").write_bytes(b"{")
    before = [name for name in names(folder) if name.endswith(".parquet")]
    with pytest.raises(HoodieCorruptedDataException, match="manifest_10"):
        writer.clean(2)
    assert [name for name in names(folder) if name.endswith(".parquet")] == before


# --- deaths -----------------------------------------------------------------------------------------------------------


def append_more(writer: LsmArchiveWriter) -> None:
    writer.append(entries(7, 8, 9))


def compact_all(writer: LsmArchiveWriter) -> None:
    writer.compact(batch_size=2)


def clean_all(writer: LsmArchiveWriter) -> None:
    writer.clean(1)


def append_others(writer: LsmArchiveWriter) -> None:
    writer.append(entries(8, 9, 10))


def append_others_one_by_one(writer: LsmArchiveWriter) -> None:
    for number in (8, 9, 10):
        writer.append(entries(number))


def everything(writer: LsmArchiveWriter) -> None:
    """What the archiver does in one run."""
    append_more(writer)
    writer.clean(3 + writer.compact(batch_size=2))


def sweep(
    tmp_path: Path, prepare: Callable[[LsmArchiveWriter], None], work: Callable[[LsmArchiveWriter], None], end: Rows
) -> int:
    """Let a writer die at each of its calls; readers see a whole archive then, and a second run ends as one whole."""

    def table(name: str) -> tuple[Path, Path]:
        shutil.copytree(tmp_path / "prepared", tmp_path / name)
        return tmp_path / name, tmp_path / name / ".hoodie/timeline/history"

    prepared = tmp_path / "prepared/.hoodie/timeline/history"
    prepared.mkdir(parents=True)
    prepare(LsmArchiveWriter(LocalStorage(str(tmp_path)), str(prepared)))
    base, folder = table("whole")
    begin = rows_of(base)
    faults = Faults()
    assert run_with_faults(faults, lambda: work(LsmArchiveWriter(FaultyStorage(str(base)), str(folder)))) is None
    assert rows_of(base) == end
    expected = names(folder)
    contents = {name: (folder / name).read_bytes() for name in expected}
    ways = list(faults_of(faults.calls))
    for number, how in ways:
        base, folder = table(f"{number}-{how}")
        faults = Faults(number, how)
        error = run_with_faults(faults, lambda: work(LsmArchiveWriter(FaultyStorage(str(base)), str(folder))))  # noqa: B023
        assert faults.fired and error is not None
        assert rows_of(base) in (begin, end), (number, how)
        work(LsmArchiveWriter(LocalStorage(str(base)), str(folder)))
        assert rows_of(base) == end, (number, how)
        kept = {name for name in names(folder) if name in expected}
        assert all((folder / name).read_bytes() == contents[name] for name in kept if name.endswith(".parquet"))
        assert set(listed(folder)) <= set(names(folder))
        LsmArchiveWriter(LocalStorage(str(base)), str(folder)).clean(1)
        assert [name for name in names(folder) if name.endswith(".parquet")] == sorted(listed(folder)), (number, how)
    return len(ways)


def test_a_writer_that_dies_while_it_appends(tmp_path: Path) -> None:
    def prepare(writer: LsmArchiveWriter) -> None:
        writer.append(entries(1, 2))

    assert sweep(tmp_path, prepare, append_more, as_rows(*entries(1, 2, 7, 8, 9))) > 10


def test_a_writer_that_dies_while_it_makes_the_archive(tmp_path: Path) -> None:
    assert sweep(tmp_path, lambda writer: None, append_more, as_rows(*entries(7, 8, 9))) > 10


def test_a_writer_that_dies_while_it_compacts(tmp_path: Path) -> None:
    def prepare(writer: LsmArchiveWriter) -> None:
        fill(writer, 4)

    assert sweep(tmp_path, prepare, compact_all, as_rows(*entries(*range(4)))) > 30


def test_a_writer_that_dies_while_it_cleans(tmp_path: Path) -> None:
    def prepare(writer: LsmArchiveWriter) -> None:
        fill(writer, 4)
        compact_all(writer)

    assert sweep(tmp_path, prepare, clean_all, as_rows(*entries(*range(4)))) > 5


def other_content(writer: LsmArchiveWriter) -> None:
    writer.rewrite(lambda content, path: content.replace(b"metadata2", b"other").replace(b"plan", b"other plan"))


def with_other_content(*written: LsmEntry) -> Rows:
    return [(*row[:3], *(b"other" if text == b"metadata2" else text for text in row[3:])) for row in as_rows(*written)]


def test_a_writer_that_dies_while_it_changes_contents(tmp_path: Path) -> None:
    def prepare(writer: LsmArchiveWriter) -> None:
        writer.append(entries(1, 2))
        writer.append(entries(3))

    assert sweep(tmp_path, prepare, other_content, with_other_content(*entries(1, 2, 3))) > 10


def test_contents_change_in_files_of_other_levels_and_the_old_ones_go(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter
) -> None:
    writer.append([*entries(1, 2), entry(3, Action.CLEAN)])
    writer.append(entries(4))
    old, staying = listed(folder)
    other_content(writer)
    writer.clean(retained_manifests=1)
    assert rows_of(tmp_path) == [
        *with_other_content(*entries(1, 2)),
        (*as_rows(entry(3, Action.CLEAN))[0][:4], b"other plan"),
        *as_rows(*entries(4)),
    ]
    assert listed(folder) == [old.replace("_0.parquet", "_1.parquet"), staying]
    assert not any(b"metadata2" in (folder / name).read_bytes() for name in names(folder))
    assert [name for name in names(folder) if name.startswith("manifest")] == ["manifest_3"]
    # The name of the old file is free again.
    writer.rewrite(lambda content, path: content.replace(b"other", b"third"))
    assert listed(folder) == [old, staying]
    before = names(folder)
    writer.rewrite(lambda content, path: content)
    assert names(folder) == before


def test_a_writer_that_dies_in_any_step_of_an_archiving(tmp_path: Path) -> None:
    def prepare(writer: LsmArchiveWriter) -> None:
        fill(writer, 3)

    assert sweep(tmp_path, prepare, everything, as_rows(*entries(0, 1, 2, 7, 8, 9))) > 40


def test_the_version_of_a_writer_of_hudi_that_died_is_made_again(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter
) -> None:
    writer.append(entries(1))
    (folder / "_version_").unlink()
    writer.append(entries(2))
    assert (folder / "_version_").read_bytes() == b"2"
    assert rows_of(tmp_path) == as_rows(*entries(1, 2))


@pytest.mark.parametrize("manifest", [b"", b'{"files": ['], ids=["empty", "torn"])
def test_a_manifest_that_was_not_finished_is_replaced(
    tmp_path: Path, folder: Path, writer: LsmArchiveWriter, manifest: bytes
) -> None:
    writer.append(entries(1))
    (folder / "manifest_2").write_bytes(manifest)
    (folder / f"{time_of(2)}_{time_of(2)}_0.parquet").write_bytes(b"torn")
    writer.append(entries(2))
    assert rows_of(tmp_path) == as_rows(*entries(1, 2))


# --- other writers ----------------------------------------------------------------------------------------------------


def test_a_writer_without_its_lock_changes_nothing_more(tmp_path: Path, folder: Path) -> None:
    """The lock is lost before each of the steps in turn."""
    LsmArchiveWriter(LocalStorage(str(tmp_path)), str(folder)).append(entries(0))
    for steps in range(3):
        left = iter(range(steps))

        def check(left: Any = left) -> None:
            if next(left, None) is None:
                raise HoodieLockException("the lock was lost")

        with pytest.raises(HoodieLockException):
            LsmArchiveWriter(LocalStorage(str(tmp_path)), str(folder), check).append(entries(1))
        assert rows_of(tmp_path) == as_rows(entry(0))
    assert LsmArchiveWriter(LocalStorage(str(tmp_path)), str(folder)).append(entries(1)) is not None
    assert rows_of(tmp_path) == as_rows(*entries(0, 1))


@pytest.mark.parametrize("work", [append_more, compact_all, clean_all, everything])
@pytest.mark.parametrize("rival", [everything, append_others, append_others_one_by_one])
def test_another_writer_in_between_loses_nothing(
    tmp_path: Path, work: Callable[[LsmArchiveWriter], None], rival: Callable[[LsmArchiveWriter], None]
) -> None:
    """Two writers at once, as if the lock of the first one had run out and it had not noticed.

    A writer that returns has its rows in the archive.
    """
    prepared = tmp_path / "prepared"
    fill(LsmArchiveWriter(LocalStorage(str(tmp_path)), str(prepared)), 3)
    number = 0
    while True:
        number += 1
        base = tmp_path / str(number)
        folder = str(base / ".hoodie/timeline/history")
        shutil.copytree(prepared, folder)
        calls = 0

        def around(call: Call) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:  # noqa: B023
                rival(LsmArchiveWriter(LocalStorage(str(base)), folder))  # noqa: B023
                done.append(rival)  # noqa: B023
            return call.apply()

        done: list[Any] = []
        try:
            work(LsmArchiveWriter(storage_with(base, around), folder))
            done.append(work)
        except HoodieIOException:
            pass
        found = {row[0] for row in rows_of(base)}
        if append_more in done or everything in done:
            assert {time_of(n) for n in (7, 8, 9)} <= found, number
        if append_others in done or append_others_one_by_one in done:
            assert {time_of(n) for n in (8, 9, 10)} <= found, number
        assert {time_of(n) for n in range(3)} <= found, number
        if calls < number:
            break
    assert number > 5


def test_readers_see_a_whole_archive_at_each_moment(tmp_path: Path, folder: Path) -> None:
    fill(LsmArchiveWriter(LocalStorage(str(tmp_path)), str(folder)), 3)
    begin, end = as_rows(*entries(0, 1, 2)), as_rows(*entries(0, 1, 2, 7, 8, 9))
    seen = []

    def around(call: Call) -> Any:
        seen.append(rows_of(tmp_path))
        return call.apply()

    everything(LsmArchiveWriter(storage_with(tmp_path, around), str(folder)))
    assert all(rows in (begin, end) for rows in seen) and begin in seen and end in seen


def test_a_reader_goes_on_while_the_archive_is_written(tmp_path: Path, folder: Path) -> None:
    """At each call of the reader, the writer does all its work."""
    prepared = tmp_path / "prepared"
    fill(LsmArchiveWriter(LocalStorage(str(tmp_path)), str(prepared)), 3)
    number = 0
    while True:
        number += 1
        base = tmp_path / str(number)
        history = str(base / ".hoodie/timeline/history")
        shutil.copytree(prepared, history)
        calls = 0

        def around(call: Call) -> Any:
            nonlocal calls
            calls += 1
            if calls == number:  # noqa: B023
                everything(LsmArchiveWriter(LocalStorage(str(base)), history))  # noqa: B023
            return call.apply()

        found = rows_of(base, storage_with(base, around))
        assert found in (as_rows(*entries(0, 1, 2)), as_rows(*entries(0, 1, 2, 7, 8, 9))), number
        if calls < number:
            break
    assert number > 5
