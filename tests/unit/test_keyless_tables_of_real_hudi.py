"""Tables without record keys that real Hudi wrote: they are read as by Hudi, and written on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieTableMetaClient
from hoodie.exception import HoodieKeyException
from tests.support.table_invariants import check_table

NAMES = ["v6_keyless_mor", "v9_keyless_cow"]
KEY = "_hoodie_record_key"


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def path(serviced_tables: Path, tmp_path: Path, name: str) -> str:
    (stored,) = (serviced_tables / name).iterdir()
    return str(shutil.copytree(stored, tmp_path / "t"))


def keyed(path: str) -> dict[str, tuple[str, float]]:
    return {row[KEY]: (row["id"], row["fare"]) for row in hoodie.read_table(path).to_pylist()}


def check(path: str) -> None:
    by_hudi_rs = pa.Table.from_batches(HudiTableBuilder.from_base_uri(path).build().read())
    assert {row[KEY]: (row["id"], row["fare"]) for row in by_hudi_rs.to_pylist()} == keyed(path)
    validated = hoodie.metadata.validate(path)
    assert validated.is_right, str(validated)
    check_table(Path(path))


def test_rows_are_those_that_hudi_reads(path: str, name: str, serviced_tables: Path) -> None:
    found = hoodie.read_table(path)
    assert HoodieTableMetaClient.load(path).table_config.is_keyless
    expected = pq.read_table(serviced_tables / "rows" / f"{name}.parquet").select(found.column_names).cast(found.schema)
    rows = [sorted(map(str, table.drop(["_hoodie_file_name"]).to_pylist())) for table in (found, expected)]
    assert rows[0] == rows[1]
    assert len(keyed(path)) == found.num_rows > 0


def test_rows_are_changed_by_conditions_merges_and_their_keys(path: str) -> None:
    before, table = keyed(path), hoodie.Table(path)
    first, second, third, fourth = sorted({row[0] for row in before.values()})[:4]
    table.update(where=f"id = '{first}'", set={"fare": -1.0})
    table.delete(where=f"id = '{second}'")
    source = pa.table({"id": [third, "new"], "add": [1000.0, 1.0], "p": ["p0", "p0"]})
    (
        table.merge(source, on=["id"])
        .when_matched().update({"fare": hoodie.col("s.add")})
        .when_not_matched().insert({"id": hoodie.col("s.id"), "p": hoodie.col("s.p"), "fare": hoodie.col("s.add")})
        .run()
    )  # fmt: skip
    rows = hoodie.read_table(path, filters=f"id = '{fourth}'")
    fares = pa.array([-4.0] * rows.num_rows)
    hoodie.write_table(rows.set_column(rows.schema.get_field_index("fare"), "fare", fares), path)
    after = keyed(path)
    (new,) = set(after) - set(before)
    assert after.pop(new) == ("new", 1.0)
    fare_of = {first: -1.0, third: 1000.0, fourth: -4.0}
    expected = {key: (id, fare_of.get(id, fare)) for key, (id, fare) in before.items() if id != second}
    assert after == expected != before
    check(path)


def test_rows_are_added_and_services_keep_them(path: str) -> None:
    before = keyed(path)
    given = pa.table({"id": ["new", "new"], "ts": [1, 1], "fare": [1.0, 1.0], "name": ["n", "n"], "p": ["p0", "p1"]})
    hoodie.write_table(given, path)
    hoodie.write_table(given, path, operation="bulk_insert")
    with pytest.raises(HoodieKeyException, match="insert adds them"):
        hoodie.write_table(given, path, operation="upsert")
    after, table = keyed(path), hoodie.Table(path)
    assert sorted(after[key] for key in set(after) - set(before)) == [("new", 1.0)] * 4
    table.compact()
    table.optimize()
    assert keyed(path) == after
    check(path)


def test_a_table_of_version_6_is_upgraded(serviced_tables: Path, tmp_path: Path) -> None:
    (stored,) = (serviced_tables / "v6_keyless_mor").iterdir()
    path = str(shutil.copytree(stored, tmp_path / "t"))
    before, table = keyed(path), hoodie.Table(path)
    table.upgrade()
    assert keyed(path) == before
    config = HoodieTableMetaClient.load(path).table_config
    assert (config.table_version, config.is_keyless) == (9, True)
    table.update(where="fare > 0", set={"fare": 0.0})
    assert set(keyed(path)) == set(before)
    check(path)
    table.downgrade()
    assert set(keyed(path)) == set(before)
