"""Tables that were repaired: real Hudi reads them and goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.table.repair import drop_duplicates, find_orphan_files, rebuild_table_properties
from tests.interop.hudi_process import HudiProcess
from tests.interop.table_model import SIMPLE, read_with_hudi_rs
from tests.support.table_builder import TRIPS, local_client, rows

pytestmark = pytest.mark.interop


def read(hudi: HudiProcess, base_path: Path) -> list[tuple[Any, ...]]:
    """Rows as real Hudi and hudi-rs read them, which agree."""
    names = TRIPS.names
    found = sorted(tuple(row[name] for name in names) for row in hudi.read(base_path).to_pylist())
    assert sorted(tuple(row[name] for name in names) for row in read_with_hudi_rs(base_path).to_pylist()) == found
    return found


def test_real_hudi_reads_a_table_whose_duplicates_were_dropped(hudi_0_15: HudiProcess, tmp_path: Path) -> None:
    hudi, base_path, options = hudi_0_15, tmp_path / "trips", SIMPLE.hudi_options("trips")
    hudi.write(base_path, rows(("a", "north", 1, 1.0), ("b", "north", 1, 1.0), ("c", "south", 1, 1.0)), options)
    again = rows(("a", "north", 3, 3.0), ("a", "north", 2, 2.0))
    with local_client(
        base_path,
        hoodie__merge__allow__duplicate__on__inserts="true",
        hoodie__parquet__small__file__limit=0,
        hoodie__combine__before__insert="false",
    ) as writer:
        writer.insert(again)
    assert len(read(hudi, base_path)) == 5
    assert find_orphan_files(str(base_path)).files == ()
    with local_client(base_path) as writer:
        assert drop_duplicates(writer).key_count == 1
    expected = [("a", "north", 3, 3.0), ("b", "north", 1, 1.0), ("c", "south", 1, 1.0)]
    assert read(hudi, base_path) == expected

    properties = dict(HoodieTableMetaClient.load(str(base_path)).table_config.properties)
    (base_path / ".hoodie" / "hoodie.properties").unlink()
    (base_path / ".hoodie" / ".hoodie.properties.crc").unlink(missing_ok=True)
    told = ("table.name", "table.recordkey.fields", "table.partition.fields", "table.precombine.field")
    told += ("table.keygenerator.class", "compaction.payload.class", "table.timeline.timezone")
    told += ("datasource.write.hive_style_partitioning", "datasource.write.partitionpath.urlencode")
    given = {f"hoodie.{key}": properties.get(f"hoodie.{key}", "") for key in told}
    given["hoodie.table.timeline.timezone"] = properties.get("hoodie.table.timeline.timezone", "LOCAL")
    assert rebuild_table_properties(str(base_path), properties=given).checked_rows == 2
    stored = HoodieTableMetaClient.load(str(base_path)).table_config.properties
    assert {key: stored.get(key, "") for key in given} == given
    assert hoodie.read_table(str(base_path)).num_rows == len(expected)
