"""The bucket index: real Hudi and hoodie write into each other's tables, and every key stays in its one bucket."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.index.bucket.bucket_identifier import BucketIdentifier, bucket_of_file_id
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import NON_PARTITIONED, SIMPLE, Layout, read_with_hudi_rs

pytestmark = pytest.mark.interop

SCHEMA = pa.schema(
    [("id", pa.string()), ("kind", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())]
)
COMPLEX = Layout(
    "complex",
    ["id", "kind"],
    ["region"],
    lambda row: f"id:{row['id']},kind:{row['kind']}",
    lambda row: row["region"],
)
KEYS = [*(f"k{number}" for number in range(30)), "ü", "日本", "😀😀", "with space", "x" * 500]
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
Rows = dict[tuple[str, str], dict[str, Any]]


def bucket_options(buckets: int, hash_field: str = "") -> dict[str, str]:
    fields = {"hoodie.bucket.index.hash.field": hash_field} if hash_field else {}
    return {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": str(buckets), **fields}


class SharedTable:
    """A table that both write, and what it must hold."""

    def __init__(self, base_path: Path, layout: Layout, options: Mapping[str, str]) -> None:
        self.base_path = base_path
        self.layout = layout
        self.options = dict(options)
        self.rows: Rows = {}
        HoodieTableMetaClient.init_table(
            str(base_path),
            table_name="trips",
            properties={"hoodie.compaction.payload.class": LATEST_PAYLOAD},
            **{key: value for key, value in layout.init_arguments().items() if key != "properties"},
        )

    def write(self, writer: HudiProcess | None, operation: str, keys: list[str], number: int) -> None:
        """By real Hudi, or by hoodie where that is None."""
        rows = [
            {"id": key, "kind": "ab"[place % 2], "region": region, "ts": number, "fare": number + place / 100}
            for place, key in enumerate(keys)
            for region in (["north", "south"] if self.layout.partition_fields else ["north"])
        ]
        table = pa.Table.from_pylist(rows, SCHEMA)
        if writer is None:
            with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(self.base_path), self.options)) as client:
                getattr(client, operation)(table)
        else:
            payload = {"hoodie.datasource.write.payload.class": LATEST_PAYLOAD}
            given = {**self.layout.hudi_options("trips"), **self.options, **payload}
            writer.write(self.base_path, table, given, operation=operation)
        for row in rows:
            place = (self.layout.partition_of(row), self.layout.key_of(row))
            if operation == "delete":
                self.rows.pop(place, None)
            else:
                self.rows[place] = row

    def check(self, hudi: HudiProcess, identifier: BucketIdentifier) -> None:
        """All readers see the rows; each key is in the file of its bucket, and each bucket has one."""
        expected = sorted(tuple(row.values()) for row in self.rows.values())
        for table in (hudi.read(self.base_path), read_with_hudi_rs(self.base_path)):
            assert sorted(tuple(row[name] for name in SCHEMA.names) for row in table.to_pylist()) == expected
        meta_client = HoodieTableMetaClient.load(str(self.base_path))
        view = meta_client.view()
        for partition_path in view.list_partitions():
            files = view.latest_base_files(partition_path)
            buckets = [bucket_of_file_id(base_file.file_id) for base_file in files]
            assert len(set(buckets)) == len(buckets)
            for base_file, bucket in zip(files, buckets, strict=True):
                with HoodieParquetReader(meta_client.storage, base_file.path) as reader:
                    keys = reader.read_record_keys().combine_chunks()
                assert set(identifier.bucket_ids(keys)) <= {bucket}


@pytest.mark.parametrize(
    ("layout", "begins", "hash_field"),
    [(SIMPLE, "hudi", ""), (COMPLEX, "hoodie", "kind,id"), (COMPLEX, "hudi", "kind"), (NON_PARTITIONED, "hoodie", "")],
    ids=["simple", "complex", "complex_subset", "non_partitioned"],
)
def test_both_write_one_table_in_turn(
    hudi: HudiProcess, tmp_path: Path, layout: Layout, begins: str, hash_field: str
) -> None:
    table = SharedTable(tmp_path / "t", layout, bucket_options(5, hash_field))
    writers = [hudi, None] if begins == "hudi" else [None, hudi]
    steps = [
        ("bulk_insert", KEYS[:20]),
        ("upsert", KEYS[10:30]),
        ("upsert", KEYS[25:]),
        ("delete", KEYS[::3]),
        ("insert", [f"new{number}" for number in range(10)]),
        ("upsert", [*KEYS, "new3"]),
    ]
    for number, (operation, keys) in enumerate(steps):
        table.write(writers[number % 2], operation, keys, number)
    fields = tuple(layout.record_key_fields)
    table.check(hudi, BucketIdentifier(5, fields, tuple(hash_field.split(",")) if hash_field else fields))


def test_keys_with_colons_follow_the_release_that_is_named(hudi: HudiProcess, tmp_path: Path) -> None:
    rule = "0.15" if hudi.version == "0.15.0" else "1.x"
    table = SharedTable(tmp_path / "t", SIMPLE, {**bucket_options(6), "hoodie.bucket.index.key.rule": rule})
    keys = ["urn:a:1", "urn:a:2", "id:7", "2024-01-02 03:04:05", "plain"]
    for number, writer in enumerate([hudi, None, hudi]):
        table.write(writer, "upsert", keys, number)
    identifier = HoodieWriteConfig.from_properties("/t", table.options).index.bucket_key_rule
    table.check(hudi, BucketIdentifier(6, ("id",), ("id",), identifier))
