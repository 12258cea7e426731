"""Metadata tables that hoodie and real Hudi keep up to date in turn: neither builds anew what the other one wrote."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from hoodie import HoodieTableType
from hoodie.common.table.timeline.instant import Action
from hoodie.metadata import validate
from hoodie.metadata.metadata_table import MetadataTable
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE, Row, rows_of
from tests.interop.table_with_metadata import OFF, SCHEMA, WITH, WITHOUT, TableWithMetadata, leave_out
from tests.interop.test_interleaved_commits import Kind, Writers, merge_on_read
from tests.support.hookable_storage import hooked

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(6, 8, 9), pytest.mark.with_merge_on_read]

COMPACT = "hoodie.compact.inline.max.delta.commits"


@pytest.fixture
def table(tmp_path: Path, hudi: HudiProcess) -> TableWithMetadata:
    return TableWithMetadata(tmp_path / "t", hudi)


@pytest.fixture
def has_log_files(table_type: str) -> bool:
    return table_type == HoodieTableType.MERGE_ON_READ


@pytest.mark.interop_smoke
def test_real_hudi_reads_by_what_hoodie_kept_in_every_action(
    tmp_path: Path, table: TableWithMetadata, has_log_files: bool
) -> None:
    table.by_hoodie(*range(12), metadata_enable="true")
    table.check(by_hudi=False)
    table.mark()
    with table.client(cleaner_commits_retained="1", parquet_small_file_limit="0") as client:
        table.write_with(client, table.rows(*range(4, 15)))
        table.check_that_hudi_reads_by_it(tmp_path / "upsert")
        table.write_with(client, table.rows(20, 23), "insert")
        table.write_with(client, table.rows(0, 3, 30), "insert_overwrite")
        table.write_with(client, table.rows(1, 4), "delete")
        table.check()
        if has_log_files:
            assert client.schedule_compaction() is not None
            table.write_with(client, table.rows(*range(5, 11)))
            assert client.compact() is not None
            table.write_with(client, table.rows(7, 8))
            table.check()
        table.write_with(client, table.rows(2), "delete_partition")
        assert client.clean() is not None
        table.check()
        kept = table.write_with(client, table.rows(*range(10)))
        client.savepoint(kept)
        table.check(by_hudi=False)
    state = list(table.model.rows)
    failed = table.client(auto_commit="false")
    dead = failed.start_commit()
    failed.upsert(table.model.table(table.rows(*range(3, 21))), dead)
    table.check()
    # Rolling back a commit after which the metadata table was compacted builds it anew, with the next write.
    with table.client(metadata_compact_max_delta_commits="100") as client:
        assert client.rollback_failed_writes() == [dead]
        table.check()
        undone = table.write_with(client, table.rows(*range(6)))
        assert client.rollback(undone)
        table.model.rows = list(state)
        table.check()
        table.validate_by_hudi()
        table.check_that_hudi_reads_by_it(tmp_path / "rollback")
        assert table.is_marked()
        table.write_with(client, table.rows(0, 33), "insert_overwrite")
        table.write_with(client, table.rows(*range(5)))
        client.restore_to_savepoint(kept)
        table.model.rows = list(state)
        table.check()
        table.write_with(client, table.rows(*range(5)))
    table.check()
    table.validate_by_hudi()
    table.check_that_hudi_reads_by_it(tmp_path / "end")


def test_the_procedure_of_real_hudi_tells_a_lie(table: TableWithMetadata) -> None:
    table.by_hoodie(*range(12), metadata_enable="true")
    table.by_hoodie(*range(6), parquet_small_file_limit="0")
    table.validate_by_hudi()
    assert leave_out(table.base_path, table.newest_file_group())
    with pytest.raises(AssertionError):
        table.validate_by_hudi()


KILLS = 5
COMPACTS = {"hoodie.metadata.compact.max.delta.commits": "2"}
"""Hudi compacts the metadata table after two delta commits.

Not for the first write of a JVM: 1.2.0 fails there (ArrayIndexOutOfBoundsException) when it has compacted a metadata
table before it wrote one, its own tables too. Its next write goes on.
"""
ARCHIVES = {
    "hoodie.clean.automatic": "true",
    "hoodie.archive.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
}


def test_each_goes_on_from_the_metadata_table_of_the_other(tmp_path: Path, table: TableWithMetadata) -> None:
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    for turn in range(2):
        table.by_hudi(*range(3 + turn, 15), **(COMPACTS if turn else {}))
        table.check()
        table.by_hoodie(*range(turn, 9), parquet_small_file_limit="0")
        table.check()
    table.by_hudi(0, 3, operation="delete", **COMPACTS)
    table.check()
    table.by_hoodie(1, 2, operation="delete")
    assert table.is_marked()
    assert any(action in ("commit", "compaction") for _, action, _ in table.metadata_instants())
    table.check()
    table.check_that_hudi_reads_by_it(tmp_path / "end")


def test_real_hudi_compacts_and_archives_the_metadata_table_between_writes_of_hoodie(
    tmp_path: Path, table: TableWithMetadata, has_log_files: bool
) -> None:
    inline = {"hoodie.compact.inline": "true", COMPACT: "2"} if has_log_files else {}
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    first = table.metadata_instants()[0][0]
    table.by_hudi(*range(3))
    for turn in range(12):
        numbers = range(turn, turn + 7)
        if turn % 3 == 2:
            table.by_hoodie(*numbers, **{"clean_automatic": "true", "parquet_small_file_limit": "0"})
        else:
            table.by_hudi(*numbers, **COMPACTS, **ARCHIVES, **inline)
        table.check(by_hudi=turn % 3 == 2)
    active = table.metadata_instants()
    assert first not in [time for time, _, _ in active]
    assert "commit" in {action for _, action, _ in active}
    assert table.is_marked()
    table.validate_by_hudi()
    table.check_that_hudi_reads_by_it(tmp_path / "end")


# --- interleavings -----------------------------------------------------------------------------------------------

INDEXED = {
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "3",
    "hoodie.metadata.compact.max.delta.commits": "4",
}
"""For both: both find the rows of keys by the record index."""
LOOKS_UP = {"hoodie.embed.timeline.server": "true"}
"""For Hudi alone; see `EMBEDDED` in `test_metadata_tables`."""
BUILT = {"files", "column_stats", "bloom_filters", "record_index"}


def kind_of(table_type: str) -> Kind:
    """All services of both, and all partitions of the metadata table."""
    if table_type == HoodieTableType.COPY_ON_WRITE:
        return Kind(options=INDEXED, hudi_options=LOOKS_UP)
    return attrs.evolve(merge_on_read("RECORD_INDEX", **INDEXED), hudi_options=LOOKS_UP)


CLUSTERED = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "3",
    "hoodie.clustering.plan.strategy.sort.columns": "fare",
    "hoodie.parquet.small.file.limit": "0",
}
"""For both: each write makes new files, and every third one is followed by a clustering of the whole table."""


def commit_in_turn(
    base_path: Path, hudi: HudiProcess, table_type: str, commits: int, read_every: int, **options: str
) -> Writers:
    """Commits of both in a seeded order; after each the metadata table is right, and after some Hudi reads by it."""
    kind = kind_of(table_type)
    table = Writers(base_path, hudi, attrs.evolve(kind, options=kind.options | options))
    listed = TableWithMetadata(base_path, hudi, **INDEXED)
    listed.model = table.model
    built = BUILT | ({"partition_stats"} if hudi.table_version > 6 else set())
    for number in range(commits):
        table.commit(number)
        result = validate(str(base_path))
        assert result.is_right, (number, result)
        assert result.not_validated == {} and set(result.entry_counts) == built, (number, result)
        listed.check_rows()
        if number % read_every == read_every - 1:
            for options in (WITH, WITHOUT):
                assert rows_of(hudi.read(base_path, options), SCHEMA) == table.model.expected(), (number, options)
    listed.validate_by_hudi()
    listed.check_that_hudi_reads_by_it(base_path.parent / "lie")
    return table


@pytest.mark.interop_smoke
def test_all_partitions_are_right_after_each_of_six_commits_in_turn(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    commit_in_turn(tmp_path / "t", hudi, table_type, 6, 6)


def test_all_partitions_are_right_after_each_of_fifty_commits_in_turn(
    tmp_path: Path, hudi: HudiProcess, table_type: str
) -> None:
    table = commit_in_turn(tmp_path / "t", hudi, table_type, 50, 5)
    done = [table.cleaned, table.archived, table.metadata_compacted, table.metadata_archived]
    print(*(dict(counter) for counter in done), dict(table.compacted))
    for writer in ("hoodie", hudi.version):
        assert all(counter[writer] for counter in done), done
        assert table.compacted[writer] >= (2 if table.kind.has_log_files else 0)


@pytest.mark.table_versions(6, 9)
def test_fifty_commits_in_turn_with_clusterings_by_both(tmp_path: Path, hudi_1_2: HudiProcess, table_type: str) -> None:
    table = commit_in_turn(tmp_path / "t", hudi_1_2, table_type, 50, 5, **CLUSTERED)
    print(dict(table.clustered), dict(table.compacted), dict(table.cleaned), dict(table.archived))
    for writer in ("hoodie", hudi_1_2.version):
        assert table.clustered[writer] >= 4
        assert table.cleaned[writer] and table.archived[writer]


# --- deaths ------------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """Nothing handles it."""


@contextmanager
def dying(table: TableWithMetadata, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A client of hoodie that is made within dies between the completion in the metadata table and its own."""
    dead: list[str] = []

    record = MetadataTable.record

    def record_and_die(metadata_table: MetadataTable, instant_time: str, *arguments: Any, **given: Any) -> None:
        record(metadata_table, instant_time, *arguments, **given)
        dead.append(instant_time)
        raise Killed

    def fail_when_dead(name: str, path: str) -> None:
        if dead:
            raise Killed

    with hooked(monkeypatch, fail_when_dead), monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(MetadataTable, "record", record_and_die)
        yield
    assert dead[0] in table.pending()
    assert (dead[0], "deltacommit", "COMPLETED") in table.metadata_instants()


@pytest.mark.parametrize("operation", ["upsert", "delete", "insert_overwrite"])
def test_real_hudi_rolls_back_a_write_of_hoodie_that_died_between_both_completions(
    tmp_path: Path, table: TableWithMetadata, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    table.by_hoodie(*range(12), metadata_enable="true")
    table.by_hoodie(*range(6))
    table.mark()
    rows = table.rows(*range(3, 9))
    state = list(table.model.rows)
    with dying(table, monkeypatch):
        table.write_with(table.client(), rows, operation)
    table.model.rows = state
    (dead,) = table.pending()
    table.check_rows()
    table.check_by_hudi()
    table.by_hudi(*range(5, 15))
    assert table.pending() == [] and table.is_marked()
    assert (dead, "deltacommit", "COMPLETED") not in table.metadata_instants()
    table.check()
    table.validate_by_hudi()
    table.by_hoodie(*range(9))
    table.check()
    table.check_that_hudi_reads_by_it(tmp_path / "end")


def test_real_hudi_finishes_a_clean_of_hoodie_that_died_between_both_completions(
    table: TableWithMetadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    for _ in range(2):
        table.by_hoodie(*range(12), operation="insert_overwrite")
    with dying(table, monkeypatch), table.client(cleaner_commits_retained="1") as client:
        client.clean()
    table.by_hudi(*range(5, 15), **ARCHIVES)
    assert table.pending() == [] and table.is_marked()
    table.check()
    table.validate_by_hudi()
    table.by_hoodie(*range(9))
    table.check()


def test_a_compaction_of_hoodie_that_died_between_both_completions_is_finished_by_either(
    table: TableWithMetadata, monkeypatch: pytest.MonkeyPatch, has_log_files: bool
) -> None:
    if not has_log_files:
        pytest.skip("copy-on-write tables have no compactions")
    table.by_hoodie(*range(12), metadata_enable="true")
    table.mark()
    for finisher in ("hoodie", "hudi"):
        table.by_hoodie(*range(12))
        with table.client() as client:
            time = client.schedule_compaction()
            assert time is not None
        with dying(table, monkeypatch), table.client() as client:
            client.compact(time)
        table.check_rows()
        table.check_by_hudi()
        if finisher == "hoodie":
            with table.client() as client:
                assert client.compact(time) is not None
        else:
            table.call(f"run_compaction(op => 'run', path => '{table.base_path}', timestamp => {time})")
        assert table.pending() == [] and table.is_marked()
        table.check()
        table.validate_by_hudi()
        table.by_hudi(*range(3, 9))
        table.check()


@pytest.mark.parametrize("state", ["completed", "inflight", "requested"])
def test_hoodie_rolls_back_a_write_of_real_hudi_that_died_around_its_completion_in_the_metadata_table(
    table: TableWithMetadata, state: str, table_type: str
) -> None:
    table.by_hoodie(*range(9), metadata_enable="true")
    table.mark()
    table.by_hudi(*range(3, 12))
    rows = list(table.model.rows)
    dead = table.by_hudi(*range(12))
    undo_completion(table, dead, state)
    table.model.rows = rows
    table.check_rows()
    table.by_hoodie(*range(6, 15))
    assert table.pending() == [] and not list(table.base_path.glob(f"*/*_{dead}*"))
    assert dead not in [time for time, _, _ in table.metadata_instants()]
    assert table.is_marked()
    table.check()
    table.validate_by_hudi()
    table.by_hudi(*range(9, 18))
    assert table.is_marked()
    table.check()


def undo_completion(table: TableWithMetadata, instant_time: str, state: str) -> None:
    """Leave of a write of real Hudi what its death leaves, with its instant of the metadata table in this state."""
    timeline = table.load().active_timeline
    (instant,) = [one for one in timeline.commits_timeline() if one.requested_time == instant_time]
    stats = timeline.read_commit_metadata(instant).write_stats
    remove(Path(timeline.path_of(instant)))
    markers = table.base_path / ".hoodie/.temp" / instant_time
    shutil.rmtree(markers, ignore_errors=True)
    for stat in stats:
        kind = "APPEND" if ".log." in (stat.path or "") else "MERGE"
        path = markers / f"{stat.path}.marker.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    inner = table.metadata_table().active_timeline
    recorded = inner.find(instant_time, Action.DELTA_COMMIT)
    assert recorded is not None and recorded.is_completed
    if state == "completed":
        return
    written = [
        Path(inner.meta_path).parent / str(stat.path) for stat in inner.read_commit_metadata(recorded).write_stats
    ]
    remove(Path(inner.path_of(recorded)))
    if state == "requested":
        folder = Path(inner.layout.active_path(inner.meta_path))
        for path in [*folder.glob(f"{instant_time}.deltacommit.inflight"), *written]:
            remove(path)


def remove(path: Path) -> None:
    """Delete a file and its checksum."""
    path.unlink()
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("reached", ["requested", "inflight", "completed"])
def test_hoodie_goes_on_where_real_hudi_was_killed_while_it_wrote_the_metadata_table(
    table: TableWithMetadata, reached: str
) -> None:
    table.by_hoodie(*range(9), metadata_enable="true")
    table.by_hudi(*range(3, 12))
    table.mark()
    for _ in range(KILLS):
        state, ts = list(table.model.rows), table.load().active_timeline.commits_timeline().last_instant
        rows = table.rows(*range(12))
        if killed_when(table, rows, reached):
            table.model.rows = state
            break
        # It was faster: the write is complete.
        assert table.load().active_timeline.commits_timeline().filter_completed_instants().last_instant != ts
        table.note("upsert", rows)
    else:
        pytest.skip(f"{KILLS} writes were complete before they were killed")
    assert len(table.pending()) == 1
    table.check_rows()
    table.by_hoodie(*range(6, 15))
    assert table.pending() == [] and table.is_marked()
    assert {state for _, action, state in table.metadata_instants() if action == "deltacommit"} == {"COMPLETED"}
    table.check()
    table.validate_by_hudi()
    table.by_hudi(*range(9, 18))
    assert table.is_marked()
    table.check()


def killed_when(table: TableWithMetadata, rows: list[Row], reached: str) -> bool:
    """Kill a write of real Hudi at this state of its metadata delta commit; whether it was not complete."""
    timeline = table.metadata_table().active_timeline
    folder = Path(timeline.layout.active_path(timeline.meta_path))
    known = {path.name for path in folder.iterdir()}
    ending = f".deltacommit{'' if reached == 'completed' else '.' + reached}"
    errors: list[HudiError] = []

    def write() -> None:
        given = {**SIMPLE.hudi_options("listed"), **OFF, **WITH, **table.options}
        try:
            table.hudi.write(table.base_path, table.model.table(rows), given)
        except HudiError as error:
            errors.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive():
        if any(path.name.endswith(ending) and path.name not in known for path in folder.iterdir()):
            table.hudi.kill()
            break
    writer.join()
    return bool(errors) and bool(table.pending())
