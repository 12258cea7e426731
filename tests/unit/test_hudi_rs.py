"""hudi-rs reads every kind of table that hoodie makes, with log files and without; the rows are the tests' own.

What hudi-rs 0.5.0 cannot read is tested at the end, by name.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieException, HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from tests.support.table_builder import local_client

KINDS_OF_FILES = [(6, "COPY_ON_WRITE"), (9, "COPY_ON_WRITE")] + [(version, "MERGE_ON_READ") for version in (6, 8, 9)]
pytestmark = pytest.mark.parametrize(("table_version", "table_type"), KINDS_OF_FILES, indirect=True)

Row = dict[str, Any]
META_COLUMNS = {
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
}
DEFAULT_PAYLOAD = "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
LATEST_PAYLOAD = "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload"
SCHEMA = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("fare", pa.float64())])

UTC = datetime.UTC
TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["", "süd ☃ 'x' \"y\"\n", "x" * 5000]),
    "int32": (pa.int32(), [-(2**31), 2**31 - 1, 0]),
    "int64": (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    "float32": (pa.float32(), [1.5, float("-inf"), -0.0]),
    "float64": (pa.float64(), [1e300, float("inf"), 5e-324]),
    "boolean": (pa.bool_(), [True, False, True]),
    "binary": (pa.binary(), [b"", b"\x00\xff", b"x" * 5000]),
    "decimal": (pa.decimal128(10, 2), [Decimal("12345678.90"), Decimal("-0.01"), Decimal("0.00")]),
    "wide_decimal": (
        pa.decimal128(38, 10),
        [Decimal("1234567890123456789012345678.0123456789"), Decimal("-1.0000000000"), Decimal("0E-10")],
    ),
    "date": (pa.date32(), [datetime.date(1969, 12, 31), datetime.date(2026, 2, 28), datetime.date(9999, 12, 31)]),
    "timestamp": (
        pa.timestamp("us", "UTC"),
        [
            datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC),
            datetime.datetime(2026, 2, 28, 1, 2, 3, 456789, UTC),
            datetime.datetime(9999, 12, 31, tzinfo=UTC),
        ],
    ),
    "struct": (
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.string())]))]),
        [{"a": 1, "b": {"c": "x"}}, {"a": None, "b": {"c": None}}, {"a": 2, "b": None}],
    ),
    "list": (pa.list_(pa.int64()), [[1, 2], [], [3, None]]),
    "list_of_structs": (pa.list_(pa.struct([("a", pa.string())])), [[{"a": "x"}, {"a": None}], [], [{"a": ""}]]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1), ("b", None)], [], [("", 2)]]),
    "map_of_lists": (
        pa.map_(pa.string(), pa.list_(pa.string())),
        [[("a", ["x", "y"])], [("b", [])], [("c", ["z"]), ("d", [None])]],
    ),
}
"""Column types, each with three values."""


@pytest.fixture(autouse=True)
def table_type(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Of the tables that the test makes."""
    monkeypatch.setitem(HoodieTableMetaClient.init_table.__kwdefaults__, "table_type", request.param)
    return str(request.param)


def plain(value: Any) -> Any:
    """A value in one form, whichever reader it came from; a map is a sorted list of pairs."""
    if isinstance(value, Mapping):
        return {name: plain(inner) for name, inner in value.items()}
    if isinstance(value, list):
        if value and all(isinstance(entry, tuple) for entry in value):
            return sorted((key, plain(inner)) for key, inner in value)
        return [plain(inner) for inner in value]
    if isinstance(value, datetime.datetime):
        return value.astimezone(UTC).isoformat()
    return value


def in_order(rows: list[Row]) -> list[str]:
    return sorted(repr({name: plain(row[name]) for name in sorted(row)}) for row in rows)


def assert_readers_find(base_path: Path, expected: list[Row]) -> None:
    """hudi-rs and hoodie read exactly these rows, and the same types."""
    batches = HudiTableBuilder.from_base_uri(str(base_path)).build().read()
    found = pa.Table.from_batches(batches) if batches else pa.table({})
    ours = hoodie.read_table(str(base_path))
    if batches:
        assert set(found.schema.names) == set(ours.schema.names)
    for table in (found, ours):
        columns = [name for name in table.schema.names if name not in META_COLUMNS]
        assert in_order(table.select(columns).to_pylist()) == in_order(expected)
    for row in found.to_pylist():
        folder, name = base_path / row["_hoodie_partition_path"], row["_hoodie_file_name"]
        # A row of a log file names its file group.
        assert (folder / name).is_file() or list(folder.glob(f".{name}_*.log.*"))


def create(base_path: Path, **arguments: Any) -> HoodieLocalWriteClient:
    given = {"record_key_fields": ["id"], "ordering_fields": ["ts"], "partition_fields": ["region"], **arguments}
    HoodieTableMetaClient.init_table(str(base_path), table_name="trips", **given)
    return local_client(base_path)


def row(key: str, region: str | None = "x", ts: int = 1, fare: float | None = 1.0) -> Row:
    return {"id": key, "region": region, "ts": ts, "fare": fare}


def table(*rows: Row) -> pa.Table:
    return pa.Table.from_pylist(list(rows), SCHEMA)


# --- kinds of tables --------------------------------------------------------------------------------------------------

ENCODED = {"hive_style_partitioning": True, "properties": {"hoodie.datasource.write.partitionpath.urlencode": "true"}}
KINDS: dict[str, dict[str, Any]] = {
    "non_partitioned": {"partition_fields": []},
    "simple": {},
    "simple_hive": {"hive_style_partitioning": True},
    "simple_hive_encoded": ENCODED,
    "complex": {"record_key_fields": ["id", "region"], "partition_fields": ["region", "id"]},
    "complex_hive_encoded": {"record_key_fields": ["id", "region"], "partition_fields": ["region", "id"], **ENCODED},
    "without_ordering_field": {"ordering_fields": []},
}


@pytest.mark.parametrize("kind", KINDS)
def test_rows_after_an_insert_an_update_and_a_delete(tmp_path: Path, kind: str) -> None:
    odd = "a/b=c:d é" if "encoded" in kind else "süd ost"
    with create(tmp_path / "t", **KINDS[kind]) as c:
        c.bulk_insert(table(row("a"), row("b", "y"), row("c", odd), row("d", odd)))
        assert_readers_find(tmp_path / "t", [row("a"), row("b", "y"), row("c", odd), row("d", odd)])
        c.upsert(table(row("a", fare=2.0, ts=2), row("d", odd, fare=2.0, ts=2), row("e", "z")))
        c.delete(table(row("c", odd)))
        c.insert(table(row("f", "y", fare=None)))
    expected = [
        row("a", fare=2.0, ts=2), row("b", "y"), row("d", odd, fare=2.0, ts=2), row("e", "z"), row("f", "y", fare=None)
    ]  # fmt: skip
    assert_readers_find(tmp_path / "t", expected)


@pytest.mark.parametrize("payload", [DEFAULT_PAYLOAD, LATEST_PAYLOAD])
def test_late_rows_and_ties(tmp_path: Path, payload: str) -> None:
    with create(tmp_path / "t", properties={"hoodie.compaction.payload.class": payload}) as c:
        c.upsert(table(row("late", ts=5), row("tie", ts=5), row("newer", ts=5)))
        c.upsert(table(row("late", ts=4, fare=2.0), row("tie", ts=5, fare=2.0), row("newer", ts=6, fare=2.0)))
    late = row("late", ts=5) if payload == DEFAULT_PAYLOAD else row("late", ts=4, fare=2.0)
    assert_readers_find(tmp_path / "t", [late, row("tie", ts=5, fare=2.0), row("newer", ts=6, fare=2.0)])


def test_null_and_empty_partition_values(tmp_path: Path) -> None:
    with create(tmp_path / "t") as c:
        c.upsert(table(row("a", None), row("b", ""), row("c", "x")))
        c.upsert(table(row("a", None, ts=2), row("b", "", ts=2)))
    assert_readers_find(tmp_path / "t", [row("a", None, ts=2), row("b", "", ts=2), row("c", "x")])


# --- columns ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitioned", [False, True], ids=["non_partitioned", "partitioned"])
def test_all_column_types_with_nulls_before_and_after_a_merge(tmp_path: Path, partitioned: bool) -> None:
    schema = pa.schema([*SCHEMA, *(pa.field(f"c_{name}", data_type) for name, (data_type, _) in TYPES.items())])
    rows = [
        {**row(f"k{number}"), **{f"c_{name}": values[number] for name, (_, values) in TYPES.items()}}
        for number in range(3)
    ]
    rows.append({**row("nulls"), **{f"c_{name}": None for name in TYPES}})
    with create(tmp_path / "t", **({} if partitioned else KINDS["non_partitioned"])) as c:
        c.upsert(pa.Table.from_pylist(rows, schema))
        assert_readers_find(tmp_path / "t", rows)
        moved = {**rows[1], "id": "nulls", "ts": 2}
        emptied = {**rows[3], "id": "k1", "ts": 2}
        c.upsert(pa.Table.from_pylist([moved, emptied], schema))
    assert_readers_find(tmp_path / "t", [rows[0], emptied, rows[2], moved])


@pytest.mark.parametrize("name", TYPES)
def test_a_column_type_by_itself(tmp_path: Path, name: str) -> None:
    data_type, values = TYPES[name]
    schema = pa.schema([("id", pa.int64()), ("v", data_type)])
    rows = [{"id": number, "v": value} for number, value in enumerate([*values, None])]
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", record_key_fields="id")
    with local_client(tmp_path / "t") as c:
        c.insert(pa.Table.from_pylist(rows, schema))
        assert_readers_find(tmp_path / "t", rows)
        changed = [{"id": number, "v": value} for number, value in enumerate([None, *values])]
        c.upsert(pa.Table.from_pylist(changed, schema))
    assert_readers_find(tmp_path / "t", changed)


def test_a_column_that_is_never_null(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("n", pa.int64(), nullable=False)])
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", record_key_fields="id", schema=schema)
    with local_client(tmp_path / "t") as c:
        c.upsert(pa.Table.from_pylist([{"id": "a", "n": 1}, {"id": "b", "n": 2}], schema))
        c.upsert(pa.Table.from_pylist([{"id": "b", "n": 3}], schema))
    assert_readers_find(tmp_path / "t", [{"id": "a", "n": 1}, {"id": "b", "n": 3}])


def test_structs_that_are_called_like_avros_types(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], "long": pa.array([{"x": 1}, None]), "n": [1, 2]})
    with create(tmp_path / "t", partition_fields=[]) as c:
        c.upsert(rows)
        c.upsert(rows.slice(1))
    assert_readers_find(tmp_path / "t", rows.to_pylist())


def test_an_added_column_is_null_in_rows_that_were_not_written_since(tmp_path: Path) -> None:
    wider = SCHEMA.append(pa.field("tip", pa.struct([("amount", pa.float64())])))
    with create(tmp_path / "t") as c:
        c.upsert(table(row("a"), row("b"), row("c", "y")))
        c.upsert(pa.Table.from_pylist([{**row("b", ts=2), "tip": {"amount": 1.5}}], wider))
    none = {"tip": None}
    expected = [{**row("a"), **none}, {**row("b", ts=2), "tip": {"amount": 1.5}}, {**row("c", "y"), **none}]
    assert_readers_find(tmp_path / "t", expected)


def test_rows_flagged_as_deleted_are_gone(tmp_path: Path) -> None:
    schema = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with create(tmp_path / "t") as c:
        c.upsert(pa.Table.from_pylist([{**row(key), "_hoodie_is_deleted": None} for key in "abc"], schema))
        flagged = [{**row("a", ts=2), "_hoodie_is_deleted": True}, {**row("b", ts=2), "_hoodie_is_deleted": False}]
        c.upsert(pa.Table.from_pylist(flagged, schema))
    expected = [flagged[1], {**row("c"), "_hoodie_is_deleted": None}]
    assert_readers_find(tmp_path / "t", expected)


# --- what a table goes through ----------------------------------------------------------------------------------------


def test_a_table_that_nothing_was_written_to(tmp_path: Path) -> None:
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), table_name="t", record_key_fields="id", schema=SCHEMA)
    assert HudiTableBuilder.from_base_uri(str(tmp_path / "t")).build().read() == []
    assert hoodie.read_table(str(tmp_path / "t")).num_rows == 0


def test_a_table_with_one_empty_commit(tmp_path: Path) -> None:
    with create(tmp_path / "t") as c:
        assert c.upsert(SCHEMA.empty_table()).is_committed
    assert_readers_find(tmp_path / "t", [])


def test_file_groups_whose_rows_were_all_deleted(tmp_path: Path) -> None:
    with create(tmp_path / "t") as c:
        c.upsert(table(row("a"), row("b"), row("c", "y")))
        c.delete([HoodieKey("a", "x"), HoodieKey("b", "x")])
        assert_readers_find(tmp_path / "t", [row("c", "y")])
        c.delete([HoodieKey("c", "y")])
        assert_readers_find(tmp_path / "t", [])
        c.upsert(table(row("a", ts=9)))
    assert_readers_find(tmp_path / "t", [row("a", ts=9)])


def test_many_file_groups_and_versions(tmp_path: Path) -> None:
    expected: dict[str, Row] = {}
    create(tmp_path / "t").close()
    with local_client(tmp_path / "t", parquet_small_file_limit="0") as c:
        for number in range(4):
            batch = [row(f"k{key}", "xyz"[key % 3], ts=number) for key in range(number, number + 7)]
            expected.update((entry["id"], entry) for entry in batch)
            c.upsert(table(*batch))
    assert len({file.name.split("_")[0] for file in (tmp_path / "t").rglob("*.parquet")}) > 3
    assert_readers_find(tmp_path / "t", list(expected.values()))


def test_keys_that_live_twice(tmp_path: Path) -> None:
    create(tmp_path / "t").close()
    with local_client(tmp_path / "t", parquet_small_file_limit="0") as c:
        c.insert(table(row("a"), row("b")))
        c.insert(table(row("a", fare=2.0)))
        assert_readers_find(tmp_path / "t", [row("a"), row("b"), row("a", fare=2.0)])
        c.upsert(table(row("a", ts=2, fare=3.0)))
    assert_readers_find(tmp_path / "t", [row("a", ts=2, fare=3.0), row("b"), row("a", ts=2, fare=3.0)])


def test_writes_that_are_pending_and_rolled_back(tmp_path: Path) -> None:
    base_path = tmp_path / "t"
    with create(base_path) as c:
        c.upsert(table(row("a"), row("b")))
    failed = local_client(base_path, auto_commit="false")
    instant_time = failed.start_commit()
    failed.upsert(table(row("a", ts=5), row("c"), row("d", "new")), instant_time)
    assert_readers_find(base_path, [row("a"), row("b")])
    with local_client(base_path) as c:
        c.rollback(instant_time)
        assert_readers_find(base_path, [row("a"), row("b")])
        second = c.upsert(table(row("b", ts=6), row("e")))
        assert_readers_find(base_path, [row("a"), row("b", ts=6), row("e")])
        c.rollback(second.instant_time)
        assert_readers_find(base_path, [row("a"), row("b")])
        c.upsert(table(row("e", ts=7)))
    assert_readers_find(base_path, [row("a"), row("b"), row("e", ts=7)])


@pytest.mark.parametrize("codec", ["snappy", "gzip", "zstd", "uncompressed"])
def test_codecs_of_base_files(tmp_path: Path, codec: str) -> None:
    create(tmp_path / "t").close()
    with local_client(tmp_path / "t", parquet_compression_codec=codec) as c:
        c.upsert(table(row("a"), row("b", "y")))
    assert_readers_find(tmp_path / "t", [row("a"), row("b", "y")])


@pytest.mark.parametrize("delete", ["keys", "filter", "partitions", "by hand"])
def test_a_delete_from_a_table_that_was_never_written(tmp_path: Path, delete: str) -> None:
    """A commit without columns would keep hudi-rs from opening the table."""
    with create(tmp_path / "t") as c:
        if delete == "keys":
            result = c.delete(table(row("a")))
        elif delete == "filter":
            result = c.delete(where=[("id", "=", "a")])
        elif delete == "partitions":
            result = c.delete_partitions(["x"])
        else:
            by_hand = local_client(tmp_path / "t", auto_commit="false")
            instant_time = by_hand.start_commit("delete")
            result = by_hand.delete(table(row("a")), instant_time)
            assert by_hand.commit(instant_time, result) is False
        assert not result.is_committed
        assert len(HoodieTableMetaClient.load(str(tmp_path / "t")).active_timeline) == 0
        assert_readers_find(tmp_path / "t", [])
        c.upsert(table(row("a"), row("b", "y")))
        c.delete(table(row("a")))
    assert_readers_find(tmp_path / "t", [row("b", "y")])


# --- kinds of version 9 -----------------------------------------------------------------------------------------------


def test_rows_that_are_replaced_and_partitions_that_are_deleted(tmp_path: Path) -> None:
    with create(tmp_path / "t") as c:
        c.upsert(table(row("a"), row("b", "y"), row("c", "z")))
        c.insert_overwrite(table(row("d"), row("e")))
        assert_readers_find(tmp_path / "t", [row("d"), row("e"), row("b", "y"), row("c", "z")])
        c.delete_partitions(["y"])
        c.upsert(table(row("d", ts=2, fare=2.0), row("b", "y", ts=2)))
        assert_readers_find(tmp_path / "t", [row("d", ts=2, fare=2.0), row("e"), row("b", "y", ts=2), row("c", "z")])
        c.insert_overwrite_table(table(row("f", "w")))
    assert_readers_find(tmp_path / "t", [row("f", "w")])


def test_commits_that_were_cleaned_saved_and_restored(tmp_path: Path) -> None:
    create(tmp_path / "t").close()
    with local_client(tmp_path / "t", cleaner_commits_retained="1") as c:
        for ts in range(1, 6):
            kept = c.upsert(table(row("a", ts=ts), row(f"k{ts}", "y"))).instant_time
        stored = [row("a", ts=5), *(row(f"k{ts}", "y") for ts in range(1, 6))]
        assert_readers_find(tmp_path / "t", stored)
        c.savepoint(kept)
        c.insert_overwrite(table(row("z", "y")))
        c.upsert(table(row("a", ts=9)))
        c.restore_to_savepoint(kept)
        assert_readers_find(tmp_path / "t", stored)
        c.upsert(table(row("a", ts=10)))
    assert_readers_find(tmp_path / "t", [row("a", ts=10), *stored[1:]])


# --- what hudi-rs does not read ---------------------------------------------------------------------------------------


def test_several_ordering_fields(tmp_path: Path, table_version: int) -> None:
    """hudi-rs 0.5.0 opens no table that has them; version 6 cannot have them."""
    if table_version == 6:
        with pytest.raises(HoodieException, match="table_version=9"):
            create(tmp_path / "t", ordering_fields=["ts", "fare"])
        return
    with create(tmp_path / "t", ordering_fields=["ts", "fare"]) as c:
        c.upsert(table(row("a", fare=2.0), row("b")))
        c.upsert(table(row("a", fare=1.0), row("b", fare=3.0)))
    found = hoodie.read_table(str(tmp_path / "t"), columns=SCHEMA.names)
    assert in_order(found.to_pylist()) == in_order([row("a", fare=2.0), row("b", fare=3.0)])
    with pytest.raises(Exception, match="(?i)multiple ordering fields"):
        HudiTableBuilder.from_base_uri(str(tmp_path / "t")).build().read()
