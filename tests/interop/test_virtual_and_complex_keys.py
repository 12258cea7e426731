"""Tables without meta fields, and keys of ComplexKeyGenerator with one field, in turns with real Hudi."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from tests.interop.hudi_process import HudiError, HudiProcess

pytestmark = pytest.mark.interop

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("q", pa.int32()), ("ts", pa.int64())])
VIRTUAL = {"hoodie.populate.meta.fields": "false"}


def rows(numbers: range, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{number}", "p": "xy"[number % 2], "q": number % 2, "ts": ts} for number in numbers], SCHEMA
    )


def by_hoodie(base_path: Path, operation: str, given: pa.Table) -> None:
    with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(str(base_path))) as client:
        getattr(client, operation)(given)


def options(generator: str, partitions: str, **more: str) -> dict[str, str]:
    return {
        "hoodie.table.name": "keys",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": partitions,
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
        **{name.replace("__", "."): value for name, value in more.items()},
    }


def ids(table: pa.Table) -> Counter[Any]:
    return Counter(table["id"].to_pylist())


def test_tables_without_meta_fields_go_to_and_fro(tmp_path: Path, hudi: HudiProcess) -> None:
    given = {**options("SimpleKeyGenerator", "p"), **VIRTUAL}
    mine = tmp_path / "mine"
    HoodieTableMetaClient.init_table(
        str(mine), table_name="keys", record_key_fields="id", partition_fields="p", ordering_fields="ts",
        properties=VIRTUAL,
    )  # fmt: skip
    by_hoodie(mine, "bulk_insert", rows(range(4)))
    by_hoodie(mine, "insert", rows(range(4, 6)))
    assert ids(hudi.read(mine)) == Counter(f"k{number}" for number in range(6))
    # Hudi makes the keys of our rows again, and finds them.
    hudi.write(mine, rows(range(2, 8), ts=2), given)
    by_hoodie(mine, "insert", rows(range(8, 9)))
    for found in (hudi.read(mine), hoodie.read_table(str(mine))):
        assert ids(found) == Counter(f"k{number}" for number in range(9))
        assert Counter(found["ts"].to_pylist()) == {1: 3, 2: 6}
    keys = hoodie.read_table(str(mine), columns=["_hoodie_record_key"])
    assert keys["_hoodie_record_key"].null_count == keys.num_rows

    theirs = tmp_path / "theirs"
    hudi.write(theirs, rows(range(4)), given, operation="bulk_insert")
    by_hoodie(theirs, "insert", rows(range(4, 6)))
    hudi.write(theirs, rows(range(2, 8), ts=2), given)
    for found in (hudi.read(theirs), hoodie.read_table(str(theirs))):
        assert ids(found) == Counter(f"k{number}" for number in range(8))


@pytest.mark.parametrize("new_encoding", ["false", "true"])
def test_one_complex_key_field_keeps_the_form_that_the_table_has(
    tmp_path: Path, hudi: HudiProcess, new_encoding: str
) -> None:
    if hudi.version == "0.15.0" and new_encoding == "false":
        pytest.skip("Hudi 0.15.0 writes the value alone, whatever it is told")
    given = options(
        "ComplexKeyGenerator", "p,q", hoodie__write__complex__keygen__validation__enable="false",
        hoodie__write__complex__keygen__new__encoding=new_encoding,
    )  # fmt: skip
    table = tmp_path / "t"
    hudi.write(table, rows(range(6)), given)
    by_hoodie(table, "upsert", rows(range(3, 9), ts=2))
    hudi.write(table, rows(range(6, 12), ts=3), given)
    by_hoodie(table, "upsert", rows(range(11, 12), ts=4))
    found = hoodie.read_table(str(table))
    assert ids(found) == Counter(f"k{number}" for number in range(12))
    assert Counter(found["ts"].to_pylist()) == {1: 3, 2: 3, 3: 5, 4: 1}
    # On tables of version 9, Hudi writes the name whatever it is told.
    prefix = "" if new_encoding == "true" and hudi.table_version < 9 else "id:"
    assert set(found["_hoodie_record_key"].to_pylist()) == {f"{prefix}k{number}" for number in range(12)}


def test_hudi_1_2_refuses_one_complex_key_field_unless_told(tmp_path: Path, hudi_1_2: HudiProcess) -> None:
    with pytest.raises(HudiError, match="complex key generator with a single record key field"):
        hudi_1_2.write(tmp_path / "t", rows(range(2)), options("ComplexKeyGenerator", "p,q"))
        hudi_1_2.write(tmp_path / "t", rows(range(2)), options("ComplexKeyGenerator", "p,q"))
