from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from hoodie import HoodieTableMetaClient
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.exception import HoodieNotSupportedException
from hoodie.storage.local_storage import LocalStorage
from hoodie.sync.manifest_file_writer import write_manifest
from tests.support.table_builder import init_table, local_client, read_rows, rows

ONE_FILE_A_WRITE = {"hoodie.parquet.small.file.limit": 0}


def manifest_of(table: str, **options: Any) -> list[str]:
    path = write_manifest(TableSnapshot.load(table), **options)
    return Path(path).read_text(encoding="utf-8").splitlines()


def rows_in(files: list[str]) -> list[tuple[str, str, int]]:
    tables = [pq.ParquetFile(file).read(["id", "region", "ts"]).to_pylist() for file in files]
    return sorted((row["id"], row["region"], row["ts"]) for rows in tables for row in rows)


def test_the_files_of_a_manifest_hold_the_rows_of_the_table(tmp_path: Path) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table, ONE_FILE_A_WRITE) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y y%", 1), ("c", "東京", 1)))
        client.upsert(rows(("a", "x", 2), ("d", "x", 2)))
        client.insert_overwrite(rows(("e", "y y%", 3)))
    files = manifest_of(table)
    assert len(files) == 4
    assert rows_in(files) == sorted(read_rows(table))
    assert all(file.startswith(f"{table}/") for file in files)
    assert write_manifest(TableSnapshot.load(table)) == f"{table}/.hoodie/absolute-path-manifest/latest-snapshot.csv"


def test_a_manifest_of_names_has_names_only(tmp_path: Path) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y", 1)))
    names = manifest_of(table, absolute_paths=False)
    assert names == [file.rpartition("/")[2] for file in manifest_of(table)]
    assert (tmp_path / "t/.hoodie/manifest/latest-snapshot.csv").exists()


def test_files_of_a_pending_write_are_left_out(tmp_path: Path) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table, {"hoodie.auto.commit": "false", **ONE_FILE_A_WRITE}) as client:
        instant = client.start_commit()
        result = client.upsert(rows(("a", "x", 1)), instant)
        assert manifest_of(table) == []
        client.commit(instant, result)
    assert len(manifest_of(table)) == 1


def test_a_table_that_became_empty_leaves_no_old_manifest(tmp_path: Path) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1)))
        assert len(manifest_of(table)) == 1
        client.delete_partitions(["x"])
    assert manifest_of(table) == []


def test_a_commit_that_completed_meanwhile_is_in_the_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = init_table(tmp_path / "t", table_type="COPY_ON_WRITE")
    with local_client(table, ONE_FILE_A_WRITE) as client:
        client.upsert(rows(("a", "x", 1)))
        replace = LocalStorage.replace
        replaced: list[str] = []

        def replace_late(self: LocalStorage, path: str, data: bytes) -> None:
            if path.endswith("latest-snapshot.csv"):
                replaced.append(path)
                if len(replaced) == 1:
                    client.upsert(rows(("b", "x", 2)))
            replace(self, path, data)

        monkeypatch.setattr(LocalStorage, "replace", replace_late)
        assert len(manifest_of(table)) == 2
    assert len(replaced) == 2


def test_a_merge_on_read_table_is_refused_unless_its_base_files_are_asked_for(tmp_path: Path) -> None:
    table = init_table(tmp_path / "t", table_type="MERGE_ON_READ")
    with local_client(table, ONE_FILE_A_WRITE) as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("a", "x", 2)))
    with pytest.raises(HoodieNotSupportedException, match="compact the table and say read_optimized=True"):
        manifest_of(table)
    assert rows_in(manifest_of(table, read_optimized=True)) == [("a", "x", 1)]


@pytest.mark.parametrize("version", [6, 8])
def test_tables_of_older_versions_have_manifests(tmp_path: Path, version: int) -> None:
    table = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        table, table_name="t", record_key_fields=["id"], table_type="COPY_ON_WRITE", table_version=version
    )
    with local_client(table) as client:
        client.upsert(rows(("a", "x", 1)))
        client.upsert(rows(("a", "x", 2)))
    assert rows_in(manifest_of(table)) == [("a", "x", 2)]
