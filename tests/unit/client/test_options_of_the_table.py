"""What a table determines is taken from it where a writer says nothing; the layout of buckets: `test_layout_check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieConfigException

ROWS = pa.table({"id": ["a", "b"], "p": ["x/1", "y"], "ts": [1, 1], "d": [1700000000, 1700090000], "v": [1, 2]})
GENERATOR = "hoodie.datasource.write.keygenerator.class"
PAYLOAD = "hoodie.datasource.write.payload.class"
MODELS = "org.apache.hudi.common.model."
TIMES = {
    GENERATOR: "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
    "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd",
}
MARKER = {"hoodie.payload.delete.field": "v", "hoodie.payload.delete.marker": "2"}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "paths": (
        "p",
        {
            "hoodie.datasource.write.hive_style_partitioning": True,
            "hoodie.datasource.write.partitionpath.urlencode": True,
            "hoodie.datasource.write.table.type": "MERGE_ON_READ",
        },
    ),
    "times": ("d", TIMES | {"hoodie.table.timeline.timezone": "LOCAL"}),
    "custom keys": ("p:SIMPLE", {GENERATOR: "org.apache.hudi.keygen.CustomKeyGenerator"}),
    "payload": ("p", {PAYLOAD: f"{MODELS}PartialUpdateAvroPayload"}),
    "delete marker": ("p", MARKER | {PAYLOAD: f"{MODELS}DefaultHoodieRecordPayload"}),
    "merge mode": ("p", {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}),
    "statistics": (
        "p",
        {"hoodie.metadata.enable": True, "hoodie.metadata.index.column.stats.enable": True},
    ),
}


@pytest.mark.parametrize(("partition_fields", "properties"), CASES.values(), ids=CASES)
def test_a_writer_that_says_nothing_writes_as_the_table_says(
    tmp_path: Path, partition_fields: str, properties: dict[str, Any]
) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(
        ROWS, path, record_key_fields="id", partition_fields=partition_fields, ordering_fields="ts",
        properties=properties,
    )  # fmt: skip
    before = dict(HoodieTableMetaClient.load(path).table_config.properties)
    stored = hoodie.read_table(path).num_rows
    hoodie.write_table(ROWS, path)
    assert dict(HoodieTableMetaClient.load(path).table_config.properties) == before
    assert hoodie.read_table(path).num_rows == stored
    assert stored == (1 if "hoodie.payload.delete.field" in properties else 2)


@pytest.mark.parametrize("table_version", [6, 8, 9])
def test_an_ordering_field_that_the_table_does_not_have_is_refused(tmp_path: Path, table_version: int) -> None:
    path = str(tmp_path / "t")
    hoodie.write_table(ROWS, path, record_key_fields="id", properties={"hoodie.write.table.version": table_version})
    late = pa.table({"id": ["c", "c"], "p": ["x", "x"], "ts": [5, 1], "d": [1, 1], "v": [2, 3]})
    with pytest.raises(HoodieConfigException, match=r"precombine\.field = 'ts': the table has none"):
        hoodie.write_table(late, path, ordering_fields="ts")
    hoodie.write_table(late, path, ordering_fields="ts", mode="overwrite")
    assert hoodie.read_table(path, columns=["id", "v"]).to_pylist() == [{"id": "c", "v": 2}]
