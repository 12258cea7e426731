"""Real Hudi 1.2.0 and hoodie append to the same file groups with NON_BLOCKING_CONCURRENCY_CONTROL."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.fs.file_names import parse_log_file_name
from hoodie.index.bucket.bucket_identifier import shared_bucket_file_id
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, Row, TableModel, read_with_hudi_rs, rows_of
from tests.interop.test_delta_commits import NO_COMPACTION, made, read_merged
from tests.interop.test_hand_over import SCHEMA
from tests.support.table_builder import local_client

pytestmark = [pytest.mark.interop, pytest.mark.table_versions(8, 9)]

BUCKETS = 2
APPENDING = {
    "hoodie.write.concurrency.mode": "non_blocking_concurrency_control",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": str(BUCKETS),
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.archive.automatic": "false",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.filesystem.expire": "10",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "200",
    "hoodie.write.lock.client.num_retries": "200",
}


class Shared:
    """A table of both writers, and the rows that it must have: of each key the one with the largest ordering value."""

    def __init__(self, base_path: Path, hudi: HudiProcess) -> None:
        self.base_path = base_path
        self.hudi = hudi
        self.options = {**APPENDING, "hoodie.write.lock.filesystem.path": str(base_path / ".hoodie")}
        self.model = TableModel(SIMPLE, SCHEMA, event_time=True)
        arguments = SIMPLE.init_arguments()
        HoodieTableMetaClient.init_table(str(base_path), table_name="shared", table_type="MERGE_ON_READ", **arguments)

    def client(self, **more: Any) -> HoodieLocalWriteClient:
        return local_client(self.base_path, {**self.options, **more})

    def by_hoodie(self, rows: list[Row]) -> None:
        with self.client() as client:
            client.upsert(self.model.table(rows))
        self.model.upsert(rows)

    def by_hudi(self, rows: list[Row]) -> None:
        options = SIMPLE.hudi_options("shared") | self.options | NO_COMPACTION
        options["hoodie.datasource.write.table.type"] = "MERGE_ON_READ"
        self.hudi.write(self.base_path, self.model.table(rows), options)
        self.model.upsert(rows)

    def overlapping(self, mine: list[Row], theirs: list[Row]) -> None:
        """A write of Hudi, from its begin to its end during one of hoodie."""
        with self.client(**{"hoodie.auto.commit": "false"}) as client:
            result = client.upsert(self.model.table(mine))
            self.by_hudi(theirs)
            assert client.commit(result.instant_time, result)
        self.model.upsert(mine)

    def check(self) -> None:
        expected = self.model.expected()
        assert rows_of(read_merged(self.base_path), SCHEMA) == expected, "hoodie"
        assert rows_of(read_with_hudi_rs(self.base_path), SCHEMA) == expected, "hudi-rs"
        assert rows_of(self.hudi.read(self.base_path), SCHEMA) == expected, "Hudi"

    def file_ids(self) -> set[str]:
        view = HoodieTableMetaClient.load(str(self.base_path)).view()
        return {group.file_group_id.file_id for path in view.list_partitions() for group in view.file_groups(path)}


@pytest.mark.parametrize("first", ["hudi", "hoodie", "both"])
def test_hudi_and_hoodie_append_to_the_same_file_groups(tmp_path: Path, hudi_1_2: HudiProcess, first: str) -> None:
    table = Shared(tmp_path / "t", hudi_1_2)
    if first == "both":
        table.overlapping(made(range(12), 100), made(range(6, 18), 200, 1))
    else:
        (table.by_hudi if first == "hudi" else table.by_hoodie)(made(range(12), 100))
    assert not list(table.base_path.rglob("*.parquet"))
    table.by_hoodie(made(range(4, 24), 300, 2))
    table.by_hudi(made(range(8, 28), 400, 3))
    table.check()
    table.overlapping(made(range(16), 600, 4), made(range(8, 32), 500, 5))
    table.check()
    # Both write what the other one compacts.
    with table.client() as client:
        assert client.compact() is not None
    table.check()
    table.overlapping(made(range(10), 700, 6), made(range(5, 20), 800, 7))
    hudi_1_2.sql(
        f"CALL run_compaction(op => 'scheduleandexecute', path => '{table.base_path}', "
        "options => 'hoodie.compact.inline.max.delta.commits=1,hoodie.metadata.enable=false')"
    )
    table.check()
    table.by_hudi(made(range(0, 30, 3), 900, 8))
    table.by_hoodie(made(range(0, 30, 2), 1000, 9))
    table.check()
    assert table.file_ids() == {shared_bucket_file_id(bucket) for bucket in range(BUCKETS)}


def test_hudi_and_hoodie_append_at_once(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    table = Shared(tmp_path / "t", hudi_1_2)
    errors: list[BaseException] = []

    def write_by_hudi() -> None:
        try:
            for number in range(4):
                table.by_hudi(made(range(12), 1000 * number, number))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=write_by_hudi)
    thread.start()
    count = 0
    while thread.is_alive() or count < 4:
        table.by_hoodie(made(range(6, 18), 1000 * (count % 5) + 500 + count, 10 + count))
        count += 1
        if count % 5 == 0:
            with table.client() as client:
                client.compact()
    thread.join()
    assert errors == []
    table.check()
    assert table.file_ids() == {shared_bucket_file_id(bucket) for bucket in range(BUCKETS)}
    names = [parse_log_file_name(path.name) for path in table.base_path.rglob(".*.log.*")]
    print(f"{count} writes of hoodie, {len({name.instant_time for name in names if name is not None})} delta commits")
