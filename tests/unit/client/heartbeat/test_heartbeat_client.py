from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from hoodie import HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.heartbeat.heartbeat_client import HoodieHeartbeatClient, heartbeat_age_ms, is_heartbeat_expired
from hoodie.config.write_options import HoodieWriteOptions
from hoodie.exception import HoodieHeartbeatException

INSTANT = "20260101000000000"


@pytest.fixture
def table(tmp_path: Path) -> HoodieTableMetaClient:
    return HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", record_key_fields=["id"])


def options(**properties: object) -> HoodieWriteOptions:
    return HoodieWriteConfig.from_properties("/t", properties).write


def age(table: HoodieTableMetaClient, seconds: float) -> None:
    modified = time.time() - seconds
    os.utime(table.heartbeat_path(INSTANT), (modified, modified))


def test_a_heartbeat_is_a_file_that_its_end_deletes(table: HoodieTableMetaClient) -> None:
    client = HoodieHeartbeatClient(options())
    client.start(table, INSTANT)
    path = Path(table.base_path, ".hoodie", ".heartbeat", INSTANT)
    assert path.is_file()
    assert not client.is_expired(INSTANT)
    assert not is_heartbeat_expired(table, INSTANT, options())
    client.start(table, INSTANT)
    client.stop(INSTANT)
    client.stop(INSTANT)
    assert not path.exists()
    assert client.is_expired(INSTANT)
    assert heartbeat_age_ms(table, INSTANT) == float("inf")
    assert is_heartbeat_expired(table, INSTANT, options())


def test_two_writers_of_one_instant_time_have_one_heartbeat_which_only_its_owner_ends(
    table: HoodieTableMetaClient,
) -> None:
    owner, other = HoodieHeartbeatClient(options()), HoodieHeartbeatClient(options())
    assert owner.start(table, INSTANT)
    assert not other.start(table, INSTANT)
    other.stop(INSTANT)
    assert not is_heartbeat_expired(table, INSTANT, options())
    owner.stop(INSTANT)
    assert other.start(table, INSTANT)
    other.stop(INSTANT)


def test_who_stood_still_does_not_end_the_heartbeat_of_who_took_its_instant_time(table: HoodieTableMetaClient) -> None:
    now_ms = 0.0
    slow, other = HoodieHeartbeatClient(options(), lambda: now_ms), HoodieHeartbeatClient(options())
    assert slow.start(table, INSTANT)
    now_ms += 10_000_000
    # Others delete what is old and belongs to no instant.
    os.unlink(table.heartbeat_path(INSTANT))
    assert other.start(table, INSTANT)
    slow.stop(INSTANT)
    assert not is_heartbeat_expired(table, INSTANT, options())
    other.stop(INSTANT)


def test_it_is_expired_when_it_is_older_than_the_interval_times_the_misses(table: HoodieTableMetaClient) -> None:
    client = HoodieHeartbeatClient(options())
    client.start(table, INSTANT)
    age(table, 115)
    assert not is_heartbeat_expired(table, INSTANT, options())
    age(table, 125)
    assert is_heartbeat_expired(table, INSTANT, options())
    more = options(**{"hoodie.client.heartbeat.tolerable.misses": 3})
    assert not is_heartbeat_expired(table, INSTANT, more)
    client.beat(INSTANT)
    assert not is_heartbeat_expired(table, INSTANT, options())
    client.close()
    assert table.storage.exists(table.heartbeat_path(INSTANT))


@pytest.mark.parametrize("ahead_s", [-7200, 7200])
def test_its_age_is_counted_by_the_clock_of_the_storage(
    table: HoodieTableMetaClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, ahead_s: int
) -> None:
    client = HoodieHeartbeatClient(options())
    client.start(table, INSTANT)
    with monkeypatch.context() as patched:
        patched.setattr(time, "time", lambda now=time.time: now() + ahead_s)
        assert not is_heartbeat_expired(table, INSTANT, options())
        assert heartbeat_age_ms(table, INSTANT) < 60_000
        (record,) = caplog.records
        word = "ahead of" if ahead_s > 0 else "behind"
        assert f"the clock of this machine is 7200 s {word} that of the storage" in record.getMessage()
    age(table, 7200)
    assert is_heartbeat_expired(table, INSTANT, options())
    client.close()


def test_its_own_writer_does_not_go_on_when_it_is_expired(table: HoodieTableMetaClient) -> None:
    now = 0.0
    client = HoodieHeartbeatClient(options(), lambda: now)
    client.start(table, INSTANT)
    now = 120_000
    client.check_alive(INSTANT, table.base_path)
    client.beat(INSTANT)
    now = 240_000
    client.check_alive(INSTANT, table.base_path)
    now = 240_001
    with pytest.raises(HoodieHeartbeatException, match="has expired: .* was written 120 s ago.*Nothing was committed"):
        client.check_alive(INSTANT, table.base_path)
    # Others may have judged: it does not come back to life.
    age(table, 500)
    client.beat(INSTANT)
    assert client.is_expired(INSTANT)
    assert is_heartbeat_expired(table, INSTANT, options())
    with pytest.raises(HoodieHeartbeatException, match="has no heartbeat in this client"):
        client.check_alive("20260101000000001", table.base_path)
    client.close()


def test_a_thread_keeps_it_young(table: HoodieTableMetaClient) -> None:
    # A slow machine may miss a few: that is not what is looked at.
    often = {"hoodie.client.heartbeat.interval_in_ms": 20, "hoodie.client.heartbeat.tolerable.misses": 10_000}
    client = HoodieHeartbeatClient(options(**often))
    client.start(table, INSTANT)
    age(table, 100)
    deadline = time.monotonic() + 30
    while heartbeat_age_ms(table, INSTANT) > 50_000 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert heartbeat_age_ms(table, INSTANT) < 50_000
    client.stop(INSTANT)
    time.sleep(0.05)
    assert not table.storage.exists(table.heartbeat_path(INSTANT))
