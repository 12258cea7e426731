"""Real Hudi and hoodie write one table at the same time, kept apart by one lock file."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.common.table.timeline.instant import State
from hoodie.exception import HoodieWriteConflictException
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE
from tests.table_invariants import check_table

pytestmark = pytest.mark.interop

LOCK = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": "10",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "200",
}
AGAIN = {"hoodie.write.lock.wait.retry": "true", "hoodie.write.lock.wait.retry.max.attempts": "50"}
ROUNDS = 5


def rows(ids: list[str], region: str, ts: int) -> pa.Table:
    count = len(ids)
    return pa.table({"id": ids, "region": [region] * count, "ts": pa.array([ts] * count), "fare": [float(ts)] * count})


def client(path: Path, **more: Any) -> HoodieLocalWriteClient:
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), {**LOCK, **more}))


def hudi_options(path: Path) -> dict[str, str]:
    options = dict(SIMPLE.hudi_options("several"))
    return {**options, **LOCK, "hoodie.write.lock.filesystem.path": str(path / ".hoodie")}


def test_hudi_and_hoodie_write_at_once_and_lose_nothing(tmp_path: Path, hudi_0_15: HudiProcess) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="several", **SIMPLE.init_arguments())
    mine, theirs, both = SIMPLE.regions[:3]
    with client(path) as c:
        c.upsert(pa.concat_tables([rows(["m"], mine, 0), rows(["t"], theirs, 0), rows(["b"], both, 0)]))

    # Hudi commits while an instant of hoodie is open: of another file group, then of the same one.
    for region, conflicts in ((theirs, False), (mine, True)):
        with client(path, **{"hoodie.auto.commit": "false"}) as c:
            instant_time = c.start_commit()
            result = c.upsert(rows(["m"], mine, 1), instant_time)
            hudi_0_15.write(path, rows(["h"], region, 1), hudi_options(path))
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
                hudi_0_15.write(path, rows(["t", f"t{ts}"], theirs, ts), hudi_options(path))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=write_by_hudi)
    thread.start()
    count = 0
    while thread.is_alive() or count < ROUNDS:
        count += 1
        with client(path, **AGAIN) as c:
            c.upsert(rows(["b", f"b{count}"], both, count))
    thread.join()
    assert errors == []
    check_table(path, was_cleaned=True)
    found = {row["id"]: row["ts"] for row in hoodie.read_table(str(path), columns=["id", "ts"]).to_pylist()}
    assert {found[f"t{ts}"] for ts in range(2, 2 + ROUNDS)} == set(range(2, 2 + ROUNDS))
    assert [found[f"b{number}"] for number in range(1, count + 1)] == list(range(1, count + 1))
    assert (found["t"], found["b"], found["m"]) == (1 + ROUNDS, count, 1)
    by_hudi = hudi_0_15.read(path)
    assert dict(zip(by_hudi["id"].to_pylist(), by_hudi["ts"].to_pylist(), strict=True)) == found
    timeline = HoodieTableMetaClient.load(str(path)).active_timeline
    assert all(instant.state is State.COMPLETED for instant in timeline)
    print(f"{count} writes of hoodie beside {ROUNDS} of Hudi")
