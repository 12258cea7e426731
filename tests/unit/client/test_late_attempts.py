"""Attempts of tasks that live on after the driver went on without them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.client import committer
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieCommitException
from hoodie.io.create_handle import HoodieCreateHandle
from hoodie.io.merge_handle import HoodieMergeHandle
from hoodie.io.write_context import WriteContext
from hoodie.table.table import HoodieTable
from tests.support.change_data import init_cdc_table
from tests.support.table_builder import local_client, rows

LATE = TaskIdentity(0, 0, 999_999)


@pytest.fixture
def base_path(tmp_path: Path) -> Path:
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", record_key_fields=["id"])
    return tmp_path / "t"


@pytest.fixture
def client(base_path: Path) -> HoodieLocalWriteClient:
    return local_client(base_path, auto_commit="false")


@pytest.fixture
def contexts(monkeypatch: pytest.MonkeyPatch) -> list[WriteContext]:
    """What the tasks of each write were given."""
    given: list[WriteContext] = []
    make = HoodieTable.write_context

    def keep(table: HoodieTable, *arguments: Any) -> WriteContext:
        given.append(make(table, *arguments))
        return given[-1]

    monkeypatch.setattr(HoodieTable, "write_context", keep)
    return given


def late_handle(context: WriteContext) -> HoodieCreateHandle:
    return HoodieCreateHandle(context, "", "late-0", LATE)


def end_it(client: HoodieLocalWriteClient, end: str, instant_time: str, result: Any) -> None:
    if end == "commit":
        client.commit(instant_time, result)
    else:
        client.rollback(instant_time)


def files(base_path: Path) -> list[Path]:
    return [*base_path.glob("*.parquet"), *(base_path / ".hoodie" / ".temp").rglob("*.*")]


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_attempt_that_begins_after_the_end_writes_nothing(
    base_path: Path, client: HoodieLocalWriteClient, contexts: list[WriteContext], end: str
) -> None:
    instant_time = client.start_commit()
    result = client.upsert([{"id": "a"}], instant_time)
    end_it(client, end, instant_time, result)
    before = files(base_path)
    with pytest.raises(HoodieCommitException, match="came too late"), late_handle(contexts[0]):
        pass
    assert files(base_path) == before


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_merge_that_ends_after_the_end_deletes_its_change_data(
    tmp_path: Path, contexts: list[WriteContext], end: str
) -> None:
    base_path = init_cdc_table(tmp_path / "t", partition_fields=[])
    with local_client(base_path) as first:
        first.upsert(rows(("a", "x", 1)))
    client = local_client(base_path, auto_commit="false")
    instant_time = client.start_commit()
    result = client.upsert(rows(("a", "x", 2)), instant_time)
    (file_slice,) = TableSnapshot.load(str(base_path)).view().latest_file_slices("")
    with HoodieMergeHandle(contexts[-1], file_slice, LATE) as handle:
        (change_data,) = base_path.glob(f".*{LATE.write_token}.cdc")
        end_it(client, end, instant_time, result)
        # On a store that shows a file while it is written it is there again.
        change_data.touch()
        before = files(base_path)
        with pytest.raises(HoodieCommitException, match="came too late"):
            handle.close()
    assert files(base_path) == before
    assert not list(base_path.rglob(f"*{LATE.write_token}*"))


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_attempt_that_ends_after_the_end_deletes_its_file(
    base_path: Path, client: HoodieLocalWriteClient, contexts: list[WriteContext], end: str
) -> None:
    instant_time = client.start_commit()
    result = client.upsert([{"id": "a"}], instant_time)
    with late_handle(contexts[0]) as handle:
        end_it(client, end, instant_time, result)
        before = files(base_path)
        with pytest.raises(HoodieCommitException, match="came too late"):
            handle.close()
    assert files(base_path) == before


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_an_attempt_that_fails_after_the_end_deletes_its_unfinished_file(
    base_path: Path, client: HoodieLocalWriteClient, contexts: list[WriteContext], end: str
) -> None:
    instant_time = client.start_commit()
    result = client.upsert([{"id": "a"}], instant_time)
    handle = late_handle(contexts[0])
    with pytest.raises(EOFError), handle:
        end_it(client, end, instant_time, result)
        # On a store that shows a file while it is written it is there again, as after a slow start.
        Path(handle.path).touch()
        raise EOFError("the engine has closed the connection")
    assert not Path(handle.path).exists()
    assert len(files(base_path)) == (1 if end == "commit" else 0)


def test_an_attempt_that_announces_its_file_while_the_driver_completes_deletes_both(
    base_path: Path, client: HoodieLocalWriteClient, contexts: list[WriteContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    instant_time = client.start_commit()
    result = client.upsert([{"id": "a"}], instant_time)
    handle = late_handle(contexts[0])
    handle.open()
    # The driver has listed the markers without this one: as if it was made a moment later.
    reconcile = committer.reconcile_with_markers

    def too_early(*arguments: Any) -> int:
        handle._markers().delete("", handle.file_name, handle.io_type)
        deleted = reconcile(*arguments)
        handle._markers().create("", handle.file_name, handle.io_type)
        return deleted

    monkeypatch.setattr(committer, "reconcile_with_markers", too_early)
    client.commit(instant_time, result)
    handle._markers().create("", handle.file_name, handle.io_type)
    with pytest.raises(HoodieCommitException, match="came too late"):
        handle.close()
    assert len(files(base_path)) == 1
    assert hoodie.read_table(str(base_path), columns=["id"])["id"].to_pylist() == ["a"]


def test_what_a_dead_writer_left_open_is_cleared(base_path: Path, client: HoodieLocalWriteClient) -> None:
    temp = base_path / ".hoodie" / ".temp"
    temp.mkdir(exist_ok=True)
    (temp / "20250101000000000.open").touch()
    client.start_commit()
    assert not list(temp.iterdir())


def test_an_attempt_in_time_writes(contexts: list[WriteContext], client: HoodieLocalWriteClient) -> None:
    """The handle of these tests can write: it is refused for coming late and for nothing else."""
    client.upsert([{"id": "a"}], client.start_commit())
    with late_handle(contexts[0]) as handle:
        assert handle.close().file_id == "late-0"
