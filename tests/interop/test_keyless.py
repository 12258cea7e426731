"""Tables without record keys: hoodie and real Hudi write to each other's."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieTableMetaClient
from tests.interop.hudi_process import HudiError, HudiProcess
from tests.interop.table_model import read_with_hudi_rs

pytestmark = [pytest.mark.interop, pytest.mark.with_version_8, pytest.mark.with_merge_on_read]

KEY, PATH = "_hoodie_record_key", "_hoodie_partition_path"
OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.partitionpath.field": "p",
}
Keyed = dict[str, tuple[str, int]]


def rows(*values: tuple[str, int]) -> pa.Table:
    return pa.table(
        {"p": pa.array([p for p, _ in values], pa.string()), "v": pa.array([v for _, v in values], pa.int64())}
    )


def keyed(table: pa.Table) -> Keyed:
    found = {row[KEY]: (row["p"], row["v"]) for row in table.select([KEY, "p", "v"]).to_pylist()}
    assert len(found) == table.num_rows
    return found


def check(hudi: HudiProcess, path: Path) -> Keyed:
    """What hoodie, real Hudi and hudi-rs read, which is the same."""
    ours = keyed(hoodie.read_table(str(path)))
    assert keyed(hudi.read(path)) == ours
    assert keyed(hudi.read(path, {"hoodie.metadata.enable": "true"})) == ours
    assert keyed(read_with_hudi_rs(path)) == ours
    validated = hoodie.metadata.validate(str(path))
    assert validated.is_right, str(validated)
    return ours


def in_sql(hudi: HudiProcess, path: Path, *statements: str) -> None:
    table = f"keyless_{uuid.uuid4().hex}"
    settings = hudi.standing_options()
    for name, value in settings.items():
        hudi.sql(f"SET {name}={value}")
    try:
        hudi.sql(f"CREATE TABLE {table} USING hudi LOCATION '{path}'")
        for statement in statements:
            hudi.sql(statement.format(t=table))
    finally:
        hudi.sql(f"DROP TABLE IF EXISTS {table}")
        for name in settings:
            hudi.sql(f"RESET {name}")


@pytest.mark.interop_smoke
def test_hudi_goes_on_with_a_table_of_hoodie(hudi: HudiProcess, tmp_path: Path, table_type: str) -> None:
    path = tmp_path / "t"
    given = [("x", 1), ("x", 1), ("y", 2), ("z", 3)]
    hoodie.write_table(
        rows(*given), str(path), record_key_fields="generated", partition_fields="p", table_type=table_type
    )
    hoodie.write_table(rows(*given), str(path), operation="bulk_insert")
    before = check(hudi, path)
    assert sorted(before.values()) == sorted(given * 2)
    in_sql(hudi, path, "UPDATE {t} SET v = v + 10 WHERE p = 'x'")
    assert check(hudi, path) == {key: (p, v + 10 if p == "x" else v) for key, (p, v) in before.items()}
    in_sql(hudi, path, "DELETE FROM {t} WHERE v = 2", "INSERT INTO {t} (v, p) VALUES (7, 'y'), (7, 'y')")
    after = check(hudi, path)
    assert sorted(after.values()) == [("x", 11)] * 4 + [("y", 7)] * 2 + [("z", 3)] * 2
    hoodie.Table(str(path)).update(where="v = 7", set={"v": 8})
    hoodie.Table(str(path)).delete(where="p = 'x'")
    hoodie.write_table(rows(("x", 5)), str(path))
    last = check(hudi, path)
    assert sorted(last.values()) == [("x", 5)] + [("y", 8)] * 2 + [("z", 3)] * 2
    assert {key for key, (p, _) in last.items() if p != "x"} == {key for key, (p, _) in after.items() if p != "x"}


@pytest.mark.interop_smoke
def test_hoodie_goes_on_with_a_table_of_hudi(hudi: HudiProcess, tmp_path: Path) -> None:
    path = tmp_path / "t"
    given = [("x", 1), ("x", 1), ("y", 2), ("z", 3)]
    hudi.write(path, rows(*given), OPTIONS | {"hoodie.datasource.write.operation": "insert"})
    config = HoodieTableMetaClient.load(str(path)).table_config
    assert config.is_keyless
    hoodie.write_table(rows(*given), str(path))
    before = check(hudi, path)
    assert sorted(before.values()) == sorted(given * 2)
    table = hoodie.Table(str(path))
    table.update(where="p = 'x'", set={"v": hoodie.col("v") + 10})
    assert check(hudi, path) == {key: (p, v + 10 if p == "x" else v) for key, (p, v) in before.items()}
    source = pa.table({"v": pa.array([2, 4], pa.int64()), "p": ["y", "w"]})
    table.merge(source, on=["v", "p"]).when_matched().delete().when_not_matched().insert_all().run()
    read = hoodie.read_table(str(path), filters="v = 3")
    changed = read.set_column(read.schema.get_field_index("v"), "v", pc.multiply(read["v"], 100))
    hoodie.write_table(changed, str(path))
    after = check(hudi, path)
    assert sorted(after.values()) == [("w", 4)] + [("x", 11)] * 4 + [("z", 300)] * 2
    assert {key for key, row in after.items() if row != ("w", 4)} <= set(before)
    in_sql(hudi, path, "UPDATE {t} SET v = 1", "DELETE FROM {t} WHERE p = 'z'")
    assert sorted(check(hudi, path).values()) == [("w", 1)] + [("x", 1)] * 4


@pytest.mark.table_versions(8, 9)
def test_properties_are_those_that_hudi_stores(hudi: HudiProcess, tmp_path: Path, table_type: str) -> None:
    ours, hudis = tmp_path / "ours", tmp_path / "hudis"
    hudi.write(hudis, rows(("x", 1)), OPTIONS | {"hoodie.datasource.write.operation": "insert"})
    hoodie.write_table(
        rows(("x", 1)), str(ours), record_key_fields="generated", partition_fields="p", table_type=table_type,
        table_name="t",
    )  # fmt: skip
    names = ("key", "ordering", "precombine", "merge", "partition.fields", "payload.class", "meta.fields")
    found = [
        {
            name: value
            for name, value in HoodieTableMetaClient.load(str(path)).table_config.properties.items()
            if any(part in name for part in names)
        }
        for path in (ours, hudis)
    ]
    assert found[0] == found[1]


@pytest.mark.table_versions(9)
def test_hudi_doubles_rows_at_an_upsert_and_fails_at_a_delete_that_hoodie_refuses(
    hudi: HudiProcess, tmp_path: Path
) -> None:
    path = tmp_path / "t"
    hudi.write(path, rows(("x", 1), ("y", 2)), OPTIONS | {"hoodie.datasource.write.operation": "insert"})
    hudi.write(path, rows(("x", 1), ("y", 2)), OPTIONS | {"hoodie.datasource.write.operation": "upsert"})
    assert sorted(keyed(hoodie.read_table(str(path))).values()) == [("x", 1), ("x", 1), ("y", 2), ("y", 2)]
    with pytest.raises(HudiError):
        hudi.write(path, rows(("x", 1)), OPTIONS | {"hoodie.datasource.write.operation": "delete"})
    for operation in ("upsert", "delete"):
        with pytest.raises(hoodie.exception.HoodieKeyException, match=KEY):
            hoodie.write_table(rows(("x", 1)), str(path), operation=operation)
    assert sorted(check(hudi, path).values()) == [("x", 1), ("x", 1), ("y", 2), ("y", 2)]
