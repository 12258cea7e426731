"""Partitions of the metadata table that tasks of Spark build, while another writer is at work."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import hoodie
import hoodie.metadata
from hoodie import HoodieKey, SparkRDDWriteClient
from hoodie.metadata.writer import record_index_indexer, secondary_index_indexer
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from tests.support.metadata_table_checks import check_equals_a_new_one, listed_partitions
from tests.support.model import TableModel
from tests.support.table_builder import init_table, local_client, read_rows, rows, spark_rows, write_config

pytestmark = [pytest.mark.spark, pytest.mark.table_version(9), pytest.mark.metadata_table]

SEVERAL = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "FileSystemBasedLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "false",
}
WAIT_S = 120


class Neighbour:
    """A writer in a thread, with a partition of its own."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._end = threading.Event()
        self.has_written = threading.Event()
        self.model = TableModel()
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> TableModel:
        """What it has written."""
        self._end.set()
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive() and self.error is None, self.error
        return self.model

    def _work(self) -> None:
        try:
            with local_client(self._path, SEVERAL) as client:
                for ts in range(100, 10_000):
                    given = [(f"w{ts % 7}", "w", ts), (f"w{ts}", "w", ts)]
                    client.upsert(rows(*given))
                    client.delete([HoodieKey(f"w{ts - 1}", "w")])
                    self.model = self.model.upsert(given).delete([(f"w{ts - 1}", "w")])
                    self.has_written.set()
                    if self._end.is_set():
                        return
        except BaseException as error:
            self.error = error
            self.has_written.set()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
def test_tasks_build_indexes_while_another_writer_is_at_work(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    jobs: list[str] = []
    monkeypatch.setattr(record_index_indexer, "_FEW_ROWS", -1)
    monkeypatch.setattr(secondary_index_indexer, "_FEW_ROWS", 0)
    path = init_table(tmp_path / "t", table_type=table_type)
    neighbour, build = Neighbour(path), HoodieBackedTableMetadataWriter.build

    def beside(self: HoodieBackedTableMetadataWriter, *given: Any) -> Any:
        jobs.append(type(self.engine).__name__)
        built = build(self, *given)
        neighbour.start()
        # It is at work from then on, until all is finished.
        assert neighbour.has_written.wait(WAIT_S)
        return built

    monkeypatch.setattr(HoodieBackedTableMetadataWriter, "build", beside)
    model = TableModel()
    with SparkRDDWriteClient(spark, write_config(path, **SEVERAL)) as client:
        first = [(f"k{number}", "xy"[number % 2], number % 5) for number in range(40)]
        between = [(f"k{number}", "xy"[number % 2], number % 3 + 5) for number in range(30, 60)]
        client.upsert(spark_rows(spark, *first))
        planned = client.schedule_indexing(["record_index"], secondary_indexes={"idx_ts": "ts"})
        client.upsert(spark_rows(spark, *between))
        assert client.index(planned) is not None
        assert jobs == ["HoodieSparkEngineContext"]
        model = model.upsert(first).upsert(between)
        written = neighbour.stop()
        expected = sorted([*model.values(), *written.values()])
        assert read_rows(path) == expected
        assert set(listed_partitions(path)) == {"files", "record_index", "secondary_index_idx_ts"}
        check_equals_a_new_one(path)
        assert client.create_index("idx_region", "region")
        last = [("k1", "y", 50), ("n1", "x", 50)]
        client.upsert(spark_rows(spark, *last))
        client.delete([HoodieKey("k2", "x")])
        model = model.upsert(last).delete([("k2", "x")])
        check_equals_a_new_one(path)
        in_x = sorted(row for row in model.values() if row[1] == "x")
        assert read_rows(path, filters=[("region", "=", "x")]) == in_x
        assert client.drop_index("idx_region") and client.drop_index("idx_ts")
    assert set(listed_partitions(path)) == {"files", "record_index"}
    assert read_rows(path) == sorted([*model.values(), *written.values()])
    assert hoodie.metadata.validate(path).is_right
