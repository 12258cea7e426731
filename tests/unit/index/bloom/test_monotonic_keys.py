"""A new day into a table of 365 days: footers are read once, and base files of that day only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.model.record_columns import RECORD_KEY
from hoodie.engine.data import HoodieData
from hoodie.execution.bulkinsert.bulk_insert_partitioner import BulkInsertPartitioner
from hoodie.index.index_report import Decision
from hoodie.storage.local_storage import LocalStorage
from tests.support.table_builder import local_client

KEYS_PER_DAY = 4


class FileADay(BulkInsertPartitioner):
    """One task, and so one file, for each day."""

    days = 0

    def repartition_records(self, records: HoodieData, output_partitions: int) -> HoodieData:
        return records.sort_by([RECORD_KEY], self.days)


def rows(first_day: int, days: int, ts: int = 1) -> pa.Table:
    numbers = range(first_day, first_day + days)
    keys = [f"{day:04d}-{number}" for day in numbers for number in range(KEYS_PER_DAY)]
    return pa.table({"id": keys, "day": [key[:4] for key in keys], "ts": pa.array([ts] * len(keys), pa.int64())})


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """How often each base file was opened for reading, by the folder's name and the instant."""
    counter: Counter[str] = Counter()
    original = LocalStorage.open_input_file

    def counted(storage: LocalStorage, path: str) -> pa.NativeFile:
        counter[path] += path.endswith(".parquet")
        return original(storage, path)

    monkeypatch.setattr(LocalStorage, "open_input_file", counted)
    return counter


def make_client(path: Path, index: str, is_partitioned: bool) -> HoodieLocalWriteClient:
    HoodieTableMetaClient.init_table(
        str(path),
        table_name="t",
        record_key_fields=["id"],
        partition_fields=["day"] if is_partitioned else [],
        ordering_fields=["ts"],
    )
    properties = {
        "hoodie.index.type": index,
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.parquet.small.file.limit": "0",
    }
    return local_client(path, properties)


@pytest.mark.parametrize(("index", "days"), [("BLOOM", 365), ("GLOBAL_BLOOM", 40)])
@pytest.mark.parametrize("is_partitioned", [True, False], ids=["partition a day", "file a day"])
def test_a_day_reads_the_footers_once_and_the_files_of_that_day(
    tmp_path: Path, opened: Counter[str], index: str, days: int, is_partitioned: bool
) -> None:
    by_day = FileADay()
    by_day.days = days
    with make_client(tmp_path / "t", index, is_partitioned) as client:
        assert len(client.bulk_insert(rows(0, days), partitioner=by_day)) == days
        opened.clear()

        new_day = client.upsert(rows(days, 1))
        looked_at = 0 if is_partitioned and index == "BLOOM" else days
        assert (len(opened), sum(opened.values())) == (looked_at, looked_at), "footers, once each"
        assert new_day.inserted_count == KEYS_PER_DAY
        opened.clear()

        plan = client.explain_upsert(rows(days, 1, ts=2)).index_report
        same_day = client.upsert(rows(days, 1, ts=2))
        assert (same_day.updated_count, same_day.inserted_count) == (KEYS_PER_DAY, 0)
        assert len(opened) == 1, "the file of that day, to know its range, to find its keys, and to merge it"
        assert plan.files_read == plan.footers_read == plan.filters_read == 1
        others = plan.decided.get(Decision.RANGE, 0)
        assert others == looked_at
        opened.clear()

        late = client.upsert(rows(20, 1, ts=3))
        assert late.updated_count == KEYS_PER_DAY
        assert len(opened) == 1 + (looked_at != 0), "the file of day 20, and the footer that the last write made"
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == (days + 1) * KEYS_PER_DAY
