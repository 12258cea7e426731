"""Tables that hoodie writes on an object store, and real Hudi.

The bundles bring no connector for S3, so the objects are copied byte by byte to a folder that Hudi reads and writes,
and what it wrote goes back as objects. What is checked is what lies in the store: names, contents, and that nothing is
missing that Hudi would find in a folder (a store has no empty folders, no checksums, no renames).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE
from tests.support.model import table_of
from tests.support.object_store_servers import Bucket
from tests.support.table_builder import TRIPS

pytestmark = pytest.mark.interop

PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
PREFIX = "lake/trips"
Model = dict[str, tuple[Any, ...]]


def trips(first: int, last: int, ts: int) -> Model:
    """Rows of three partitions."""
    return {f"k{n}": (f"k{n}", ("north", "south", "süd ost")[n % 3], ts, float(n * ts)) for n in range(first, last)}


def found(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.select(TRIPS.names).to_pylist())


def download(bucket: Bucket, folder: Path) -> Path:
    """The table's objects as files of a new folder."""
    for key in bucket.list_keys():
        path = folder / key.removeprefix(PREFIX + "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        bucket.client.download_file(bucket.name, key, str(path))
    return folder


def upload(bucket: Bucket, folder: Path) -> None:
    """The files of a folder as the table's objects, but for the checksums that Hadoop adds to local files."""
    known = set(bucket.list_keys())
    files = {f"{PREFIX}/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
    wanted = {key: path for key, path in files.items() if path.suffix != ".crc"}
    for key, path in wanted.items():
        bucket.client.upload_file(str(path), bucket.name, key)
    for key in known - set(wanted):
        bucket.client.delete_object(Bucket=bucket.name, Key=key)


def test_a_table_of_an_object_store_is_read_and_extended_by_hudi_and_back(
    hudi: HudiProcess, s3_bucket: Bucket, tmp_path: Path
) -> None:
    base_path, options = f"s3://{s3_bucket.name}/{PREFIX}", s3_bucket.options()
    HoodieTableMetaClient.init_table(
        base_path,
        table_name="trips",
        storage_options=options,
        **{**SIMPLE.init_arguments(), "properties": {"hoodie.compaction.payload.class": PAYLOAD}},
    )
    config = HoodieWriteConfig.from_properties(base_path, {}, options)
    model = trips(0, 90, 5)
    with HoodieLocalWriteClient(config) as client:
        client.insert(table_of(model))
        client.upsert(table_of({**trips(0, 20, 6), **trips(90, 100, 6), **trips(20, 30, 4)}))
        model |= {**trips(0, 20, 6), **trips(90, 100, 6)}
        client.delete([HoodieKey("k1", "south"), HoodieKey("k2", "süd ost")])
        del model["k1"], model["k2"]
        client.rollback(client.upsert(table_of(trips(0, 50, 99))).instant_time)
    local = download(s3_bucket, tmp_path / "first")
    assert found(hudi.read(local)) == sorted(model.values())

    given = {**SIMPLE.hudi_options("trips"), "hoodie.datasource.write.payload.class": PAYLOAD}
    hudi.write(local, table_of({**trips(40, 60, 7), **trips(100, 120, 7)}), given)
    model |= {**trips(40, 60, 7), **trips(100, 120, 7)}
    hudi.write(local, table_of({"k3": model.pop("k3")}), given, operation="delete")
    upload(s3_bucket, local)
    assert found(hoodie.read_table(base_path, storage_options=options)) == sorted(model.values())

    with HoodieLocalWriteClient(config) as client:
        result = client.upsert(table_of({**trips(50, 70, 8), **trips(120, 125, 8)}))
        assert (result.updated_count, result.inserted_count) == (20, 5)
    model |= {**trips(50, 70, 8), **trips(120, 125, 8)}
    assert found(hudi.read(download(s3_bucket, tmp_path / "second"))) == sorted(model.values())
