"""Real Hudi and hoodie write one table at the same time, kept apart by one lock."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import HoodieInstant, State
from hoodie.exception import HoodieWriteConflictException
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.table_invariants import check_table

pytestmark = pytest.mark.interop

SEVERAL = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.archive.automatic": "false",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "200",
}
AGAIN = {"hoodie.write.lock.wait.retry": "true", "hoodie.write.lock.wait.retry.max.attempts": "50"}
ROUNDS = 5


def rows(ids: list[str], region: str, ts: int) -> pa.Table:
    count = len(ids)
    return pa.table({"id": ids, "region": [region] * count, "ts": pa.array([ts] * count), "fare": [float(ts)] * count})


class Several:
    """A table, the lock of all its writers, and a Hudi that is one of them."""

    def __init__(self, path: Path, hudi: HudiProcess, lock: dict[str, str]) -> None:
        self.path = path
        self.hudi = hudi
        self._properties = {**SEVERAL, **lock}
        HoodieTableMetaClient.init_table(str(path), table_name="several", **SIMPLE.init_arguments())

    def client(self, **more: Any) -> HoodieLocalWriteClient:
        return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(self.path), {**self._properties, **more}))

    def write_by_hudi(self, table: pa.Table) -> None:
        self.hudi.write(self.path, table, {**SIMPLE.hudi_options("several"), **self._properties})


@pytest.fixture
def several(request: pytest.FixtureRequest, tmp_path: Path) -> Several:
    """By the name of a release of Hudi and of a lock."""
    release, lock = request.param
    hudi: HudiProcess = request.getfixturevalue({"0.15.0": "hudi_0_15", "1.2.0": "hudi_1_2"}[release])
    path = tmp_path / "t"
    properties = {"hoodie.write.lock.provider": f"org.apache.hudi.client.transaction.lock.{lock}LockProvider"}
    if lock == "ZookeeperBased":
        properties |= {
            "hoodie.write.lock.zookeeper.url": request.getfixturevalue("zookeeper"),
            "hoodie.write.lock.zookeeper.base_path": f"/hudi/{uuid.uuid4().hex}",
            "hoodie.write.lock.zookeeper.lock_key": "several",
        }
    else:
        properties |= {
            "hoodie.write.lock.filesystem.expire": "10",
            "hoodie.write.lock.filesystem.path": str(path / ".hoodie"),
        }
    return Several(path, hudi, properties)


def cases(*found: tuple[str, str, int]) -> Any:
    """For each release, lock and version of tables."""
    given = [
        pytest.param((release, lock), version, id=f"{release}-{lock}-{version}") for release, lock, version in found
    ]
    return pytest.mark.parametrize(("several", "table_version"), given, indirect=True)


@cases(("0.15.0", "FileSystemBased", 6), ("1.2.0", "ZookeeperBased", 6), ("1.2.0", "FileSystemBased", 9))
def test_hudi_and_hoodie_write_at_once_and_lose_nothing(several: Several) -> None:
    path, hudi, client = several.path, several.hudi, several.client
    mine, theirs, both = SIMPLE.regions[:3]
    with client() as c:
        c.upsert(pa.concat_tables([rows(["m"], mine, 0), rows(["t"], theirs, 0), rows(["b"], both, 0)]))

    # Hudi commits while an instant of hoodie is open: of another file group, then of the same one.
    for region, conflicts in ((theirs, False), (mine, True)):
        with client(**{"hoodie.auto.commit": "false"}) as c:
            instant_time = c.start_commit()
            result = c.upsert(rows(["m"], mine, 1), instant_time)
            several.write_by_hudi(rows(["h"], region, 1))
            assert HoodieTableMetaClient.load(str(path)).active_timeline.find(instant_time) is not None
            if conflicts:
                with pytest.raises(HoodieWriteConflictException):
                    c.commit(instant_time, result)
            else:
                assert c.commit(instant_time, result)
    check_table(path)

    # Both at once, round after round, in partitions of their own.
    errors: list[BaseException] = []

    def write_by_hudi() -> None:
        try:
            for ts in range(2, 2 + ROUNDS):
                several.write_by_hudi(rows(["t", f"t{ts}"], theirs, ts))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=write_by_hudi)
    thread.start()
    count = 0
    while thread.is_alive() or count < ROUNDS:
        count += 1
        with client(**AGAIN) as c:
            c.upsert(rows(["b", f"b{count}"], both, count))
    thread.join()
    assert errors == []
    check_table(path, was_cleaned=True)
    found = {row["id"]: row["ts"] for row in hoodie.read_table(str(path), columns=["id", "ts"]).to_pylist()}
    assert {found[f"t{ts}"] for ts in range(2, 2 + ROUNDS)} == set(range(2, 2 + ROUNDS))
    assert [found[f"b{number}"] for number in range(1, count + 1)] == list(range(1, count + 1))
    assert (found["t"], found["b"], found["m"]) == (1 + ROUNDS, count, 1)
    by_hudi = hudi.read(path)
    assert dict(zip(by_hudi["id"].to_pylist(), by_hudi["ts"].to_pylist(), strict=True)) == found
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    assert all(instant.state is State.COMPLETED for instant in timeline)
    print(f"{count} writes of hoodie beside {ROUNDS} of Hudi {hudi.version}")


def below_later_ones(path: Path, ours: set[str]) -> list[tuple[str, bool]]:
    """Completed instants of Hudi in their order, and whether each lies below one of ours that Hudi did not look at.

    Hudi draws its instant time first and looks at the timeline some time later, right before its instant is inflight.
    What was begun and committed in between has a later time and is not compared with: Hudi rewrites that one's file
    under its own, earlier time, and every reader goes on with the later one.
    """
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    commits = {instant.requested_time: instant for instant in timeline.completed_writes()}

    def written(instant: HoodieInstant) -> int:
        return Path(timeline.path_of(instant)).stat().st_mtime_ns

    def is_hidden(theirs: str) -> bool:
        begun = written(commits[theirs].in_state(State.INFLIGHT))
        return any(own > theirs and written(commits[own]) < begun for own in ours)

    return [(theirs, is_hidden(theirs)) for theirs in commits if theirs not in ours]


@cases(("1.2.0", "FileSystemBased", 6), ("0.15.0", "ZookeeperBased", 6), ("1.2.0", "ZookeeperBased", 9))
def test_of_writes_to_one_file_group_all_that_were_committed_are_there(several: Several) -> None:
    path, hudi, client = several.path, several.hudi, several.client
    region = SIMPLE.regions[0]
    with client() as c:
        ours = {c.upsert(rows(["shared"], region, 0)).instant_time}
    committed: list[str] = []
    lost: list[str] = []

    def write_by_hudi() -> None:
        for number in range(ROUNDS):
            try:
                several.write_by_hudi(rows(["shared", f"h{number}"], region, number))
                committed.append(f"h{number}")
            except HudiError as error:
                lost.append(str(error))

    thread = threading.Thread(target=write_by_hudi)
    thread.start()
    count = 0
    while thread.is_alive() or count < ROUNDS:
        count += 1
        with client(**AGAIN) as c:
            ours.add(c.upsert(rows(["shared", f"m{count}"], region, count)).instant_time)
        time.sleep(4)  # Hudi takes seconds for a write, and would lose each time
    thread.join()
    assert all("Conflict" in error for error in lost), lost
    check_table(path, was_cleaned=True)
    below = dict(zip(committed, (is_below for _, is_below in below_later_ones(path, ours)), strict=True))
    found = set(hoodie.read_table(str(path), columns=["id"])["id"].to_pylist())
    stands = {key for key, is_below in below.items() if not is_below}
    assert found == {"shared", *stands, *(f"m{number}" for number in range(1, count + 1))}
    assert set(hudi.read(path)["id"].to_pylist()) == found
    print(
        f"{count} writes of hoodie beside {len(committed)} of Hudi {hudi.version}, of which {len(lost)} more lost "
        f"and {len(below) - len(stands)} hid themselves"
    )
