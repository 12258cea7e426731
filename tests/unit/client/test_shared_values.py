"""What tasks are given beside their rows is freed when the write is done, also when it failed."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieTableMetaClient
from hoodie.engine.engine_context import Shared
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import HoodieException
from tests.support.table_builder import init_table, local_client, rows_of_keys

INDEXES = ["SIMPLE", "GLOBAL_SIMPLE", "BLOOM", "GLOBAL_BLOOM", "INMEMORY", "BUCKET"]
KEYS = [f"k{number}" for number in range(100)]

client = partial(local_client, bucket_index_num_buckets=2, parallelism=2)
rows = partial(rows_of_keys, KEYS, region="x")


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


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("operation", ["upsert", "delete", "insert", "bulk_insert", "explain_upsert"])
def test_what_tasks_share_is_freed(tmp_path: Path, shared: list[Shared], index: str, operation: str) -> None:
    path = tmp_path / "t"
    init_table(path)
    with client(path, index_type=index) as c:
        getattr(c, operation)(rows())
        c.upsert(rows(ts=2))
    # Keys that are too many to share are joined with those of the files: then there may be nothing to free.
    assert shared or index in ("SIMPLE", "GLOBAL_SIMPLE")
    assert [value.value for value in shared] == [None] * len(shared)


@pytest.mark.parametrize("index", ["BLOOM", "BUCKET"])
def test_what_tasks_share_is_freed_when_a_write_fails(
    tmp_path: Path, shared: list[Shared], index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(str(path), table_name="t", record_key_fields=["id"], partition_fields=["region"])
    with client(path, index_type=index) as c:
        c.upsert(rows())
        number = len(shared)
        monkeypatch.setattr(
            "hoodie.table.action.commit.copy_on_write_bucket_handler.HoodieMergeHandle.write",
            lambda *args: (_ for _ in ()).throw(HoodieException("the disk is full")),
        )
        with pytest.raises(HoodieException, match="the disk is full"):
            c.upsert(rows())
    assert len(shared) > number
    assert [value.value for value in shared] == [None] * len(shared)
