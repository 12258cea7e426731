"""`schedule_indexing` and `index`, or a writer beside them, die at every call to the storage, or meet one failure.

Readers see nothing of what is not ready. A second `index`, or a rollback of the indexing, and the next write leave a
metadata table that equals one that is built anew.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from hoodie.exception import HoodieException
from tests.support.hookable_storage import Faults, faults_of, run_with_faults
from tests.support.merge_on_read_table import MergeOnReadTable
from tests.support.metadata_table_checks import MetadataReader, check_equals_a_new_one, listed_partitions
from tests.support.services_table import ServicesTable
from tests.support.table_builder import read_rows
from tests.unit.client.test_indexing import beside_build

pytestmark = pytest.mark.usefixtures("faulty_storage")

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": 1,
    "hoodie.metadata.index.bloom.filter.file.group.count": 1,
    "hoodie.metadata.index.column.stats.file.group.count": 1,
}
KINDS = ("column_stats", "bloom_filters", "record_index")


def at(table: ServicesTable, base_path: Path) -> ServicesTable:
    copy = type(table).__new__(type(table))
    copy.base_path, copy._ts = base_path, 1000
    return copy


def cases() -> list[object]:
    found = []
    for dies in (True, False):
        for is_mor in (False, True):
            for version in (6, 8, 9):
                name = f"{'dies' if dies else 'one_call_fails'}-{'mor' if is_mor else 'cow'}-{version}"
                if (dies, is_mor, version) in ((True, False, 9), (True, True, 6)):
                    found.append(pytest.param(dies, is_mor, 7, version, id=f"{name}-some"))
                mark = pytest.mark.slow if dies and version != 8 else pytest.mark.soak
                found.append(pytest.param(dies, is_mor, 1, version, marks=mark, id=name))
    return found


@pytest.mark.parametrize(("dies", "is_merge_on_read", "share", "table_version"), cases(), indirect=["table_version"])
@pytest.mark.one_in(4)
def test_an_indexing_that_fails_at_any_call(
    tmp_path: Path, dies: bool, is_merge_on_read: bool, share: int, table_version: int
) -> None:
    table = (MergeOnReadTable if is_merge_on_read else ServicesTable)(tmp_path / "t")
    with table.client(**ON, **{"hoodie.metadata.index.column.stats.enable": "false"}) as client:
        table.upsert("a", "b", client=client)
        table.upsert("c", region="y", client=client)
        table.upsert("a", client=client)
    template = table.base_path.rename(tmp_path / "template")
    kinds = KINDS if table_version == 6 else (*KINDS, "partition_stats")

    secondary = {} if table_version == 6 else {"idx_ts": "ts"}
    ready = (*kinds, *(f"secondary_index_{name}" for name in secondary))

    def index(copy: ServicesTable) -> None:
        client = copy.client(**ON)
        planned = client.schedule_indexing(kinds, secondary_indexes=secondary)
        client.index(planned)

    def attempt(faults: Faults) -> ServicesTable:
        shutil.rmtree(table.base_path, ignore_errors=True)
        shutil.copytree(template, table.base_path)
        copy = at(table, table.base_path)
        error = run_with_faults(faults, lambda: index(copy))
        assert faults.fired or error is None, error
        # The dead process gives no sign of life for a long time.
        for file in (copy.base_path / ".hoodie/.heartbeat").glob("*"):
            os.utime(file, (1, 1))
        return copy

    healthy = Faults()
    recover_and_check(attempt(healthy), ready, is_taken_back=False)
    ends = set()
    for place, (number, how) in enumerate(list(faults_of(healthy.calls, dies))[::share]):
        for is_taken_back in (False, True):
            faults = Faults(number, how, dies)
            copy = attempt(faults)
            what = f"call {number} of {len(healthy.calls)}, {how}: {faults.calls[number - 1][0]}, {is_taken_back}"
            assert faults.fired, what
            try:
                ends.add(recover_and_check(copy, ready, is_taken_back=is_taken_back))
            except (AssertionError, HoodieException) as problem:
                problem.add_note(what)
                raise
            if place % 2:
                break
    print(f"{len(healthy.calls)} calls, ends {ends}")


def recover_and_check(table: ServicesTable, kinds: tuple[str, ...], *, is_taken_back: bool) -> bool:
    """Whether the indexing was pending."""
    reader = MetadataReader.open(table.base_path)
    reader.check()
    listed = listed_partitions(table.base_path)
    assert listed == ("files",) or set(listed) == {"files", *kinds}
    timeline = HoodieTableMetaClient.load(str(table.base_path)).active_timeline
    pending = timeline.filter_actions(Action.INDEXING).filter_pending().times
    with table.client(**ON) as client:
        table.upsert("a", "n", client=client)
        for planned in pending:
            if is_taken_back:
                assert client.rollback(planned)
            else:
                client.index(planned)
        reader.check()
        if pending and not is_taken_back:
            assert set(listed_partitions(table.base_path)) == {"files", *kinds}
        table.upsert("a", "m", client=client)
    reader.check()
    assert not HoodieTableMetaClient.load(str(table.base_path)).active_timeline.filter_pending().times
    check_equals_a_new_one(table.base_path)
    return bool(pending)


BESIDE = [
    pytest.param(is_mor, share, version, id=f"{'mor' if is_mor else 'cow'}-{version}{name}", marks=marks)
    for share, name, marks in ((60, "-some", []), (1, "", [pytest.mark.soak]))
    for is_mor, version in ((True, 9), (False, 8), (True, 6), (False, 9), (True, 8), (False, 6))
    if share == 1 or (is_mor, version) in ((True, 9), (False, 6))
]


@pytest.mark.parametrize(("is_merge_on_read", "share", "table_version"), BESIDE, indirect=["table_version"])
@pytest.mark.one_in(4)
def test_a_writer_that_dies_while_partitions_are_built(
    tmp_path: Path, is_merge_on_read: bool, share: int, table_version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is dead when the building ends: what it recorded, and did not complete, is no part of what was built."""
    table = (MergeOnReadTable if is_merge_on_read else ServicesTable)(tmp_path / "t")
    with table.client(**ON, **{"hoodie.metadata.index.column.stats.enable": "false"}) as client:
        table.upsert("a", "b", client=client)
        table.upsert("c", region="y", client=client)
    template = table.base_path.rename(tmp_path / "template")
    kinds = KINDS if table_version == 6 else (*KINDS, "partition_stats")
    secondary = {} if table_version == 6 else {"idx_ts": "ts"}
    ready = (*kinds, *(f"secondary_index_{name}" for name in secondary))

    def attempt(faults: Faults, *, is_before: bool) -> tuple[ServicesTable, set[tuple[str, str, int]]]:
        """An indexing with a writer beside it; the rows that there may be of its keys."""
        shutil.rmtree(table.base_path, ignore_errors=True)
        shutil.copytree(template, table.base_path)
        copy = at(table, table.base_path)
        before = set(read_rows(copy.base_path))

        def die() -> None:
            copy._ts = 2000
            error = run_with_faults(faults, lambda: copy.upsert("a", "d", client=copy.client(**ON)))
            assert faults.fired or error is None, error

        with monkeypatch.context() as patch, copy.client(**ON) as client:
            beside_build(patch, die, before=is_before)
            client.index(client.schedule_indexing(kinds, secondary_indexes=secondary))
        after = {(key, region, 2001 if key in "ad" else ts) for key, region, ts in {*before, ("d", "x", 0)}}
        found = set(read_rows(copy.base_path))
        assert found in (before, after)
        return copy, found

    healthy = Faults()
    attempt(healthy, is_before=False)
    for place, (number, how) in enumerate(list(faults_of(healthy.calls))[::share]):
        faults = Faults(number, how)
        what = f"call {number} of {len(healthy.calls)}, {how}: {healthy.calls[number - 1][0]}"
        try:
            copy, found = attempt(faults, is_before=place % 2 == 1)
            assert faults.fired
            MetadataReader.open(copy.base_path).check()
            assert set(listed_partitions(copy.base_path)) == {"files", *ready}
            for file in (copy.base_path / ".hoodie/.heartbeat").glob("*"):
                os.utime(file, (1, 1))
            with copy.client(**ON) as client:
                client.rollback_failed_writes()
                assert set(read_rows(copy.base_path)) == found
                check_equals_a_new_one(copy.base_path)
                copy.upsert("a", "m", client=client)
            check_equals_a_new_one(copy.base_path)
            assert set(listed_partitions(copy.base_path)) == {"files", *ready}, "it was built anew"
        except (AssertionError, HoodieException) as problem:
            problem.add_note(what)
            raise
