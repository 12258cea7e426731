"""The order in which the buckets of a write are begun: no core is idle while buckets wait."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieWriteConfig
from hoodie.engine.local_engine_context import LocalEngineContext
from tests.support.hookable_storage import LARGE, watch_writes
from tests.support.table_builder import init_table

OTHERS = [f"p{number}" for number in range(6)]


def rows(counts: dict[str, int], ts: int) -> pa.Table:
    places = [(region, number) for region, count in counts.items() for number in range(count)]
    return pa.table(
        {
            "id": [f"{region}-{number:06d}" for region, number in places],
            "region": [region for region, _ in places],
            "ts": pa.array([ts] * len(places), pa.int64()),
        }
    )


@pytest.mark.parametrize("operation", ["insert", "upsert"])
def test_a_large_bucket_is_begun_first_and_the_others_do_not_wait_behind_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    base_path = tmp_path / "t"
    init_table(base_path)
    config = HoodieWriteConfig.from_properties(str(base_path), {})
    sizes = {**dict.fromkeys(OTHERS, 10), LARGE: 3000}
    with HoodieLocalWriteClient(config, LocalEngineContext(parallelism=2)) as client:
        given = rows(sizes, 1)
        if operation == "upsert":
            # One row each: the size of the files tells, not the number of incoming rows.
            client.insert(given)
            given = rows({**dict.fromkeys(OTHERS, 1), LARGE: 1}, 2)
        storage = watch_writes(monkeypatch, base_path, len(OTHERS))
        result = getattr(client, operation)(given)
    begun = storage.begun()
    assert len(result.statuses) == 1 + len(OTHERS)
    assert sorted(begun) == sorted([LARGE, *OTHERS]), "the large bucket waited in vain: others waited behind it"
    (large,) = (status.stat.path for status in result if status.stat.partition_path == LARGE)
    assert large.split("_")[1].startswith("0-"), "tasks start in the order of their numbers"
