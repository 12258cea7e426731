"""Manifests of latest base files: hoodie's are those of real Hudi."""

from __future__ import annotations

from pathlib import Path

import pytest

from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.sync.manifest_file_writer import write_manifest
from tests.interop.hudi_process import HudiProcess
from tests.support.table_builder import init_table, local_client, rows

pytestmark = [pytest.mark.interop, pytest.mark.metadata_table]


@pytest.mark.parametrize("absolute_paths", [True, False])
def test_a_manifest_has_the_lines_of_real_hudis(tmp_path: Path, hudi: HudiProcess, absolute_paths: bool) -> None:
    table = init_table(tmp_path / "t")
    with local_client(table, {"hoodie.parquet.small.file.limit": 0}) as client:
        client.upsert(rows(("a", "x", 1), ("b", "y y", 1), ("c", "東京", 1), ("z", "gone", 1)))
        client.upsert(rows(("a", "x", 2), ("d", "x", 2)))
        client.insert_overwrite(rows(("e", "y y", 3)))
        client.delete_partitions(["gone"])

    manifest = Path(write_manifest(TableSnapshot.load(table), absolute_paths))
    ours = manifest.read_bytes().decode()
    for by_metadata_table in (False, True):
        manifest.unlink()
        hudi.write_manifest(table, absolute_paths=absolute_paths, by_metadata_table=by_metadata_table)
        theirs = manifest.read_bytes().decode()
        # Hadoop makes a URI of a local path where it lists it, and gives no order of partitions.
        assert sorted(theirs.replace("file:", "").splitlines(keepends=True)) == sorted(ours.splitlines(keepends=True))
    assert len(ours.splitlines()) == 4
