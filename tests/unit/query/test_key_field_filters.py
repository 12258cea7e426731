"""Filters on the key fields that the record index answers, and those that it must not answer."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieRecord
from hoodie.common.table.table_config import HoodieTableConfig
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.keygen.key_texts import record_keys_of, told_key_fields
from hoodie.query import index_pruning
from hoodie.query.read_plan import ReadPlan
from tests.support.metadata_tampering import copied
from tests.support.table_builder import init_table, local_client, read_rows, rows

INDEXED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "2",
}
BY_INDEX = "pruned by the record index"
TRUST = {"hoodie.read.trust.record.key.fields": "true"}
REGIONS = "xyz"
SOME = rows(*((f"k{number}", REGIONS[number % 3], 1) for number in range(30)))
FIELD = pc.field("id")
WIDE = pa.schema([("id", pa.string()), ("number", pa.int32()), ("region", pa.string()), ("ts", pa.int64())])
PACKAGE = "org.apache.hudi.keygen."


def wide_rows(first: int = 0, ts: int = 1) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": f"k{n // 2}", "number": n % 2 - 1, "region": REGIONS[n % 3], "ts": ts}
            for n in range(first, first + 30)
        ],
        WIDE,
    )


def indexed(path: Path, given: pa.Table = SOME, **arguments: Any) -> str:
    """A table with a record index."""
    made = init_table(path, **arguments)
    with local_client(made, INDEXED) as client:
        # The second write begins while nothing is pending, and builds what the first one did not.
        client.upsert(given)
        client.upsert(given.slice(0, 3))
    assert "record_index" in TableSnapshot.load(made).table_config.metadata_partitions
    return made


def checked(path: str, condition: Any, options: dict[str, str] | None = TRUST) -> ReadPlan:
    """The plan of a filter whose rows are those that are found without any index."""
    found = read_rows(path, ["_hoodie_record_key"], filters=condition, options=options)
    assert found == read_rows(
        path, ["_hoodie_record_key"], filters=condition, options={"hoodie.metadata.enable": "false"}
    )
    return hoodie.plan_read(path, filters=condition, options=options)


def is_answered(path: str, condition: Any, options: dict[str, str] | None = TRUST) -> bool:
    return BY_INDEX in checked(path, condition, options).explain()


@pytest.mark.parametrize("table_type", ["COPY_ON_WRITE", "MERGE_ON_READ"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_values_of_the_key_field_are_looked_up(tmp_path: Path, version: int, table_type: str) -> None:
    path = indexed(tmp_path / "t", table_version=version, table_type=table_type)
    plan = checked(path, [("id", "=", "k7")])
    assert BY_INDEX in plan.explain()
    assert [one.partition_path for one in plan.file_slices] == ["y"]
    assert read_rows(path, filters=[("id", "=", "k7")], options=TRUST) == [("k7", "y", 1)]
    plan = checked(path, [("id", "in", ["k0", "k1", "none"])])
    assert [one.partition_path for one in plan.file_slices] == ["x", "y"]
    assert checked(path, [("id", "=", "none")]).slices == ()
    assert is_answered(path, [("id", "=", "k7"), ("ts", ">", 0)])
    assert is_answered(path, [[("id", "=", "k7")], [("id", "=", "k9"), ("ts", "=", 1)]])
    # Nothing is left to leave out.
    assert not is_answered(path, [("id", "=", "k7"), ("region", "=", "y")])
    assert not is_answered(path, [("id", "=", "k7")], None)
    assert not is_answered(path, [("id", "=", "k7")], {"hoodie.read.trust.record.key.fields": "false"})
    assert not is_answered(path, [("id", "=", "k7")], {**TRUST, "hoodie.enable.data.skipping": "false"})


def test_filters_that_do_not_name_all_values_are_not_answered(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t")
    conditions = [
        ~(FIELD == "k7"),
        FIELD != "k7",
        ~FIELD.isin(["k1", "k7"]),
        (FIELD == "k7") | (pc.field("ts") > 0),
        (FIELD == "k7") | FIELD.is_null(),
        FIELD.isin(["k7", None]),
        FIELD.isin(["k7", ""]),
        FIELD == "",
        FIELD >= "k7",
        pc.utf8_upper(FIELD) == "K7",
        ~((FIELD == "k7") & (pc.field("ts") > 0)),
        (FIELD == "k7").is_null(),
        FIELD.isin([f"k{number}" for number in range(1001)]),
    ]
    for condition in conditions:
        assert not is_answered(path, condition), condition
    assert is_answered(path, FIELD.isin([f"k{number}" for number in range(0, 2000, 3)]))
    assert is_answered(path, (FIELD == "k7") & ~(FIELD == "k1"))


@pytest.mark.parametrize("partition_fields", [["region"], []])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_values_of_several_key_fields_are_looked_up_together(
    tmp_path: Path, version: int, partition_fields: list[str]
) -> None:
    path = indexed(
        tmp_path / "t",
        wide_rows(),
        record_key_fields=["id", "number"],
        partition_fields=partition_fields,
        table_version=version,
    )
    number = pc.field("number")
    both = (FIELD == "k7") & (number == -1)
    assert [row[0] for row in read_rows(path, ["_hoodie_record_key"], filters=both)] == ["id:k7,number:-1"]
    is_partitioned = bool(partition_fields)
    for condition, count in (
        (both, 1),
        ((number == -1) & (pc.field("ts") == 1) & (FIELD == "k7"), 1),
        (both | ((FIELD == "k8") & (number == 0)), 2),
        (FIELD.isin(["k1", "k7"]) & number.isin([0, -1]), 4),
        ((FIELD == "k7") & (number == 5), 0),
        (((FIELD == "k7") | (FIELD == "k8")) & (number == 0) & (pc.field("region") != "q"), 2),
    ):
        plan = checked(path, condition)
        assert read_rows(path, ["ts"], filters=condition, options=TRUST) == [(1,)] * count
        assert not is_partitioned or len(plan.slices) <= count
        assert BY_INDEX in plan.explain() or not is_partitioned
    for condition in (FIELD == "k7", number == 0, both | (FIELD == "k8"), ~both, (FIELD == "k7") & (number > -5)):
        assert not is_answered(path, condition)


@pytest.mark.parametrize("key_type", [pa.int32(), pa.int64()])
def test_integers_are_looked_up(tmp_path: Path, key_type: pa.DataType) -> None:
    given = pa.table(
        {
            "id": pa.array(range(-15, 15), key_type),
            "region": [REGIONS[number % 3] for number in range(30)],
            "ts": [1] * 30,
        }
    )
    path = indexed(tmp_path / "t", given)
    assert len(checked(path, [("id", "=", -7)]).slices) == 1
    assert is_answered(path, FIELD.isin([3, -3]))
    assert is_answered(path, pa.scalar(3, pa.int16()) == FIELD)
    assert is_answered(path, FIELD == 3.0)
    assert not is_answered(path, FIELD.cast(pa.string()) == "3")


@pytest.mark.parametrize(
    ("key_type", "values"),
    [
        (pa.float64(), [1.0, 2.0]),
        (pa.bool_(), [True, False]),
        (pa.date32(), [date(2026, 1, 2), date(2026, 1, 3)]),
        (pa.timestamp("us", "UTC"), [datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 3, tzinfo=UTC)]),
        (pa.decimal128(4, 2), [Decimal("1.00"), Decimal("2.00")]),
        (pa.binary(), [b"a", b"b"]),
    ],
    ids=str,
)
def test_types_whose_texts_differ_between_writers_are_not_looked_up(
    tmp_path: Path, key_type: pa.DataType, values: list[Any]
) -> None:
    given = pa.table({"id": pa.array(values, key_type), "region": ["x", "y"], "ts": [1, 1]})
    path = indexed(tmp_path / "t", given)
    value = given["id"][0]
    assert read_rows(path, ["region"], filters=value == FIELD) == [("x",)]
    assert not is_answered(path, value == FIELD, TRUST)


@pytest.mark.parametrize(
    ("arguments", "texts"),
    [
        ({"hoodie.table.keygenerator.class": f"{PACKAGE}SimpleKeyGenerator"}, ["a"]),
        ({"hoodie.table.keygenerator.type": "NON_PARTITION"}, ["a"]),
        ({"hoodie.table.keygenerator.type": "TIMESTAMP_AVRO"}, ["a"]),
        ({"hoodie.table.keygenerator.type": "CUSTOM"}, ["a", "id:a"]),
        ({"hoodie.table.keygenerator.class": f"{PACKAGE}ComplexAvroKeyGenerator"}, ["a", "id:a"]),
        ({}, ["a", "id:a"]),
        ({"hoodie.table.keygenerator.class": f"{PACKAGE}GlobalDeleteKeyGenerator"}, None),
        ({"hoodie.table.keygenerator.class": "org.apache.spark.sql.hudi.command.SqlKeyGenerator"}, None),
        ({"hoodie.table.keygenerator.class": "shop.keys.ByInitial"}, None),
        ({"hoodie.table.recordkey.fields": ""}, None),
        ({"hoodie.table.recordkey.fields": "address.id"}, None),
        ({"hoodie.table.recordkey.fields": "ID"}, None),
        ({"hoodie.table.recordkey.fields": "id,number", "hoodie.table.keygenerator.type": "SIMPLE"}, None),
        ({"hoodie.populate.meta.fields": "false"}, None),
    ],
)
def test_the_key_generator_tells_the_forms_of_keys(arguments: dict[str, str], texts: list[str] | None) -> None:
    config = HoodieTableConfig({"hoodie.table.name": "t", "hoodie.table.recordkey.fields": "id", **arguments})
    fields = told_key_fields(config, WIDE)
    assert fields == (() if texts is None else ("id",))
    if texts is not None:
        assert record_keys_of(config, [("a",)]) == texts
        assert record_keys_of(config, [("a",), ("",)]) is None


@pytest.mark.parametrize("new_encoding", ["true", "false"])
def test_both_forms_of_complex_keys_of_one_field_are_found(tmp_path: Path, new_encoding: str) -> None:
    encoding = {
        "hoodie.write.complex.keygen.new.encoding": new_encoding,
        "hoodie.write.complex.keygen.validation.enable": "false",
    }
    path = init_table(tmp_path / "t", table_version=8)
    # As Hudi makes such tables; hoodie makes none.
    update = {"hoodie.table.keygenerator.type": "COMPLEX"}
    HoodieTableConfig.update(TableSnapshot.load(path).storage, path, update)
    with local_client(path, {**INDEXED, **encoding}) as client:
        client.upsert(SOME)
        client.upsert(SOME.slice(0, 3))
    key = {"true": "k7", "false": "id:k7"}[new_encoding]
    assert read_rows(path, ["_hoodie_record_key"], filters=[("id", "=", "k7")]) == [(key,)]
    plan = checked(path, [("id", "=", "k7")])
    assert BY_INDEX in plan.explain()
    assert len(plan.slices) == 1


def test_rows_of_other_partitions_and_times_are_not_asked_of_the_index(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t")
    with local_client(path, {**INDEXED, "hoodie.index.type": "RECORD_INDEX"}) as client:
        first = client.upsert(rows(("k7", "y", 2))).instant_time
        client.delete(pa.table({"id": ["k7"], "region": ["y"]}))
        client.upsert(rows(("n", "x", 3)))
    assert read_rows(path, filters=[("id", "=", "k7")]) == []
    for asked in ({"as_of": first}, {"query_type": "incremental", "begin": "000"}, {"query_type": "read_optimized"}):
        plan = hoodie.plan_read(path, filters=[("id", "=", "k7")], options=TRUST, **asked)
        assert BY_INDEX not in plan.explain()
    assert read_rows(path, filters=[("id", "=", "k7")], as_of=first) == [("k7", "y", 2)]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_with_keys_of_their_own_are_found_unless_the_caller_trusts_keys(tmp_path: Path, version: int) -> None:
    path = indexed(tmp_path / "t", table_version=version)
    with local_client(path, INDEXED) as client:
        client.upsert([HoodieRecord(HoodieKey("own", "x"), {"id": "k7", "region": "x", "ts": 9})])
    both, one = [("k7", "x", 9), ("k7", "y", 1)], [("k7", "y", 1)]
    assert read_rows(path, filters=FIELD == "k7") == both
    assert read_rows(path, filters=FIELD == "k7", options=TRUST) == one
    assert is_answered(path, pc.field("_hoodie_record_key") == "own", None)


# --- tables of real Hudi ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["v6_mor_mdt", "v8_cow_mdt", "v9_cow_mdt", "v9_mor_mdt", "v9_cow_rli_part"])
def test_rows_of_real_tables_are_found_by_their_key_fields(
    shared_tables: Path, later_tables: Path, tmp_path: Path, name: str
) -> None:
    root = shared_tables if (shared_tables / name).exists() else later_tables
    path = str(copied(root / name / name, tmp_path))
    snapshot = TableSnapshot.load(path)
    config = snapshot.table_config
    fields = told_key_fields(config, snapshot.load_schema())
    assert fields == tuple(config.record_key_fields) != ()
    stored = hoodie.read_table(path, columns=[*fields, "_hoodie_record_key"])
    has_index = "record_index" in config.metadata_partitions
    answered = 0
    for row in stored.slice(0, 6).to_pylist():
        key = row.pop("_hoodie_record_key")
        assert key in (record_keys_of(config, [[str(value) for value in row.values()]]) or ())
        condition = [(field, "=", value) for field, value in row.items()]
        assert not is_answered(path, condition, None)
        answered += is_answered(path, condition)
    assert (answered > 0) is (has_index and len(hoodie.plan_read(path).slices) > 1)


def test_the_limit_of_values_holds_for_all_fields_together(tmp_path: Path) -> None:
    path = indexed(tmp_path / "t", wide_rows(), record_key_fields=["id", "number"])
    ids, numbers = ["k7", *(f"nowhere{n}" for n in range(39))], list(range(30))
    assert len(ids) * len(numbers) > index_pruning.MAX_VALUES
    assert not is_answered(path, FIELD.isin(ids) & pc.field("number").isin(numbers))
    assert is_answered(path, FIELD.isin(ids[:30]) & pc.field("number").isin(numbers))
