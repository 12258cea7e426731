"""What tasks are given beside their rows is freed when the write is done, also when it failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.engine.engine_context import Shared
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieException

INDEXES = ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "INMEMORY", "BUCKET"]


def rows(count: int, ts: int = 1) -> pa.Table:
    ids = [f"k{number}" for number in range(count)]
    return pa.table({"id": ids, "region": ["x"] * count, "ts": pa.array([ts] * count, pa.int64())})


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> list[Shared]:
    """All that is shared with tasks; keys are never few enough to be collected."""
    values: list[Shared] = []
    original = LocalEngineContext.share

    def share(context: LocalEngineContext, value: Any) -> Shared:
        values.append(original(context, value))
        return values[-1]

    monkeypatch.setattr(LocalEngineContext, "share", share)
    monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", 0)
    for module in ("simple.simple_index", "simple.global_simple_index"):
        monkeypatch.setattr(f"hoodie.index.{module}.SHARED_KEY_BYTES", 60)
    monkeypatch.setattr("hoodie.index.bloom.bloom_index.MOST_COMPARISONS", 1000)
    return values


def client(path: Path, index: str) -> HoodieLocalWriteClient:
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 2}
    return HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(path), options), LocalEngineContext(2))


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("operation", ["upsert", "delete", "insert", "bulk_insert", "explain_upsert"])
def test_what_tasks_share_is_freed(tmp_path: Path, shared: list[Shared], index: str, operation: str) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields=["id"], partition_fields=["region"], ordering_fields=["ts"]
    )
    with client(path, index) as c:
        getattr(c, operation)(rows(100))
        c.upsert(rows(100, 2))
    # Keys that are too many to share are joined with those of the files: then there may be nothing to free.
    assert shared or index in ("SIMPLE", "GLOBAL_SIMPLE")
    assert [value.value for value in shared] == [None] * len(shared)


@pytest.mark.parametrize("index", ["BLOOM", "BUCKET"])
def test_what_tasks_share_is_freed_when_a_write_fails(
    tmp_path: Path, shared: list[Shared], index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], partition_fields=["region"])
    with client(path, index) as c:
        c.upsert(rows(100))
        number = len(shared)
        monkeypatch.setattr(
            "hoodie.table.action.commit.copy_on_write_bucket_handler.HoodieMergeHandle.write",
            lambda *args: (_ for _ in ()).throw(HoodieException("the disk is full")),
        )
        with pytest.raises(HoodieException, match="the disk is full"):
            c.upsert(rows(100))
    assert len(shared) > number
    assert [value.value for value in shared] == [None] * len(shared)
