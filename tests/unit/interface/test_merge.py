"""`hoodie.Table.merge`: update, delete and insert in one commit, in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient, HoodieTableType, Table
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieKeyException,
    HoodieNotSupportedException,
    HoodieSchemaException,
    HoodieWriteConflictException,
    TableNotFoundException,
)
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.interface.merge import TableMerge

STORED = (("a", "x", 5, 1.0), ("b", "x", 5, 2.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0))
NAMES = ("id", "region", "ts", "fare")
INDEXES: dict[str, dict[str, str]] = {
    "SIMPLE": {},
    "BLOOM": {"hoodie.index.type": "BLOOM"},
    "BUCKET": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
    "INMEMORY": {"hoodie.index.type": "INMEMORY"},
    "GLOBAL_SIMPLE": {"hoodie.index.type": "GLOBAL_SIMPLE"},
    "GLOBAL_BLOOM": {"hoodie.index.type": "GLOBAL_BLOOM"},
    "RECORD_INDEX": {
        "hoodie.index.type": "RECORD_INDEX",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.write.lock.provider": "InProcessLockProvider",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}
MakeTable = Callable[..., Table]
Applies = Callable[[Any, Any], bool]


def rows(*entries: tuple[Any, ...]) -> pa.Table:
    """Rows of the table."""
    types = (pa.string(), pa.string(), pa.int64(), pa.float64())
    schema = pa.schema(list(zip(NAMES, types, strict=True)))
    return pa.Table.from_pylist([dict(zip(NAMES, entry, strict=True)) for entry in entries], schema)


def stored(table: Table) -> list[tuple[Any, ...]]:
    """All rows, sorted."""
    return sorted(tuple(row[name] for name in NAMES) for row in table.read().to_pylist())


@pytest.fixture(params=list(HoodieTableType))
def table_type(request: pytest.FixtureRequest) -> HoodieTableType:
    """Both types of tables."""
    made: HoodieTableType = request.param
    return made


@pytest.fixture
def make(tmp_path: Path, table_type: HoodieTableType, table_version: int) -> MakeTable:
    """Makes the table of `STORED`."""

    def table(data: Any = None, properties: Mapping[str, str] | None = None, **arguments: Any) -> Table:
        given = {"record_key_fields": "id", "partition_fields": "region", "ordering_fields": "ts", **arguments}
        return Table.create(
            tmp_path / "t",
            rows(*STORED) if data is None else data,
            table_type=table_type,
            table_version=table_version,
            properties=properties,
            **given,
        )

    return table


# --- what it does ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", INDEXES)
def test_one_commit_updates_deletes_and_inserts(make: MakeTable, index: str) -> None:
    table = make(properties=INDEXES[index])
    source = rows(("a", "x", 6, 10.0), ("b", "x", 6, -1.0), ("c", "y", 6, 0.0), ("e", "z", 6, 5.0), ("f", "z", 6, -1.0))
    result = (
        table.merge(source)
        .when_matched("s.fare < 0").delete()
        .when_matched("s.fare > t.fare").update({"fare": hoodie.col("t.fare") + hoodie.col("s.fare"), "ts": 6})
        .when_not_matched("s.fare > 0").insert_all()
        .run()
    )  # fmt: skip
    assert (result.operation.value, result.is_committed) == ("UPSERT", True)
    assert stored(table) == [("a", "x", 6, 11.0), ("c", "y", 5, 3.0), ("d", "y", 5, 4.0), ("e", "z", 6, 5.0)]
    assert len(table.history()) == 2
    # The operation of a row is not a column of the table.
    assert table.schema().names == list(NAMES)


def test_common_merges_are_one_line(make: MakeTable) -> None:
    table = make()
    source = rows(("a", "x", 6, 9.0), ("n", "x", 6, 9.0))
    table.merge(source).when_matched().update("fare").run()
    assert stored(table) == [("a", "x", 5, 9.0), *STORED[1:]]
    table.merge(source).when_not_matched().insert_all().run()
    assert stored(table) == [("a", "x", 5, 9.0), *STORED[1:], ("n", "x", 6, 9.0)]
    assert table.merge(source.select(["id", "region"])).when_matched().delete().run().deleted_count == 2
    assert stored(table) == list(STORED[1:])
    table.merge(rows(("b", "x", 7, 1.5), ("m", "z", 7, 1.0))).when_matched().update_all().when_not_matched().insert(
        ["ts"]
    ).run()
    assert stored(table) == [("b", "x", 7, 1.5), *STORED[2:], ("m", "z", 7, None)]


def test_the_first_clause_that_applies_counts(make: MakeTable) -> None:
    table = make()
    source = rows(*((key, region, 6, 0.0) for key, region, _, _ in STORED), ("n", "x", 6, 0.0), ("o", "x", 6, None))
    (
        table.merge(source)
        .when_matched("t.id = 'a'").update({"fare": 11, "ts": hoodie.col("s.ts")})
        .when_matched("t.id in ('a', 'b')").delete()
        .when_matched("t.id = 'b'").update({"fare": 22})
        .when_matched(pc.field("t", "id") == "c").delete()
        .when_matched(pc.scalar(None)).delete()
        .when_not_matched("s.id = 'n'").insert({"ts": 7})
        .when_not_matched("s.fare > 1").insert_all()
        .run()
    )  # fmt: skip
    # A column that an insert does not assign is null, and null conditions are false.
    assert stored(table) == [("a", "x", 6, 11.0), ("d", "y", 5, 4.0), ("n", "x", 7, None)]
    times = {row["id"]: row["_hoodie_commit_time"] for row in table.read(meta_columns=True).to_pylist()}
    assert times["d"] < times["a"] == times["n"]


def _is_least(least: int) -> Applies:
    return lambda old, new: new[3] <= least


def _is_most(most: int) -> Applies:
    return lambda old, new: old[3] < most


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM", "BUCKET", "RECORD_INDEX"])
def test_merges_are_as_a_model_says(make: MakeTable, index: str, seed: int) -> None:
    random = Random(f"{index}{seed}")
    table = make(properties=INDEXES[index])
    model = {row[0]: row for row in STORED}
    home = {key: region for key, region, _, _ in STORED}
    for ts in (6, 7, 8):
        keys = sorted({random.choice("abcdefgh") for _ in range(6)})
        source = [(key, home.setdefault(key, random.choice("xyz")), ts, float(random.randrange(-2, 4))) for key in keys]
        least, most = random.randrange(-2, 2), random.randrange(2, 5)
        clauses: list[tuple[str, str, Applies]] = [
            ("delete", f"s.fare <= {least}", _is_least(least)),
            ("update", f"t.fare < {most}", _is_most(most)),
            ("all", "s.fare = t.fare", lambda old, new: new[3] == old[3]),
            ("insert", "s.fare >= 0", lambda old, new: new[3] >= 0),
            ("delete", "t.id > 'c'", lambda old, new: old[0] > "c"),
            ("insert", "s.id < 'e'", lambda old, new: new[0] < "e"),
        ]
        random.shuffle(clauses)
        merge = table.merge(rows(*source), random.choice([None, "id"]))
        for kind, condition, _ in clauses:
            if kind == "insert":
                merge = merge.when_not_matched(condition).insert_all()
            elif kind == "all":
                merge = merge.when_matched(condition).update_all()
            elif kind == "update":
                merge = merge.when_matched(condition).update(
                    {"fare": hoodie.col("s.fare") - hoodie.col("t.fare"), "ts": hoodie.col("s.ts")}
                )
            else:
                merge = merge.when_matched(condition).delete()
        merge.run()
        for new in source:
            old = model.get(new[0])
            kinds = ("insert",) if old is None else ("update", "delete", "all")
            chosen = next((kind for kind, _, applies in clauses if kind in kinds and applies(old, new)), None)
            if chosen in ("insert", "all"):
                model[new[0]] = new
            elif chosen == "update" and old is not None:
                model[new[0]] = (*new[:3], new[3] - old[3])
            elif chosen == "delete":
                del model[new[0]]
        assert stored(table) == sorted(model.values())


def test_a_clause_after_one_without_a_condition_counts_for_no_row(make: MakeTable) -> None:
    table = make()
    source = rows(("a", "x", 6, 9.0), ("n", "x", 6, 9.0))
    merge = table.merge(source).when_matched().update(["fare"]).when_matched().delete().when_not_matched().insert_all()
    merge.when_not_matched().insert({"ts": 1}).run()
    assert stored(table) == [("a", "x", 5, 9.0), *STORED[1:], ("n", "x", 6, 9.0)]


@pytest.mark.parametrize("index", INDEXES)
def test_rows_are_deleted_by_the_key_alone(make: MakeTable, index: str) -> None:
    table = make(properties=INDEXES[index])
    assert table.merge([{"id": "c"}, {"id": "n"}]).when_matched().delete().run().deleted_count == 1
    assert stored(table) == [*STORED[:2], STORED[3]]


def test_a_source_has_any_form_and_is_read_once(make: MakeTable) -> None:
    table = make()
    batches = iter(rows(("a", "x", 6, 9.0)).to_batches())
    merge = table.merge(batches).when_matched().update({"fare": hoodie.col("t.fare") + hoodie.col("s.fare")})
    for fare in (10.0, 19.0):
        assert merge.run().is_committed
        assert stored(table)[0] == ("a", "x", 5, fare)
    table.merge([{"id": "b", "region": "x", "gone": True}, {"id": "c", "region": "y", "gone": None}]).when_matched(
        "s.gone"
    ).delete().run()
    assert [row[0] for row in stored(table)] == ["a", "c", "d"]
    assert table.merge(rows()).when_matched().delete().when_not_matched().insert_all().run().is_committed
    assert len(stored(table)) == 3


def test_columns_of_the_source_have_other_names_and_order(make: MakeTable) -> None:
    table = make()
    source = pa.table({"FARE": [7, 8], "area": ["x", "z"], "key": ["a", "n"], "ts": pa.array([6, 6], pa.int32())})
    (
        table.merge(source, "t.id = s.key and t.region = s.area")
        .when_matched("s.fare > t.fare").update_all()
        .when_not_matched().insert_all()
        .run()
    )  # fmt: skip
    assert stored(table) == [("a", "x", 6, 7.0), *STORED[1:], ("n", "z", 6, 8.0)]


def test_nested_columns_and_several_key_fields(make: MakeTable) -> None:
    schema = pa.schema(
        [
            ("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()),
            ("tags", pa.list_(pa.string())), ("deep", pa.struct([("n", pa.int64()), ("s", pa.string())])),
        ]
    )  # fmt: skip
    first = pa.Table.from_pylist(
        [
            {"id": "a", "part": None, "ts": 1, "tags": ["p"], "deep": {"n": 1, "s": "one"}},
            {"id": "a", "part": "q", "ts": 1, "tags": None, "deep": None},
        ],
        schema,
    )
    table = make(first, record_key_fields=["id", "part"], partition_fields=())
    source = pa.Table.from_pylist(
        [
            {"id": "a", "part": None, "ts": 2, "tags": ["r", None], "deep": {"n": 5, "s": None}},
            {"id": "n", "part": None, "ts": 2, "tags": [], "deep": None},
        ],
        schema,
    )
    table.merge(source).when_matched("s.deep.n > t.deep.n").update(["tags", "ts"]).when_not_matched().insert_all().run()
    found = {(row["id"], row["part"]): row for row in table.read().to_pylist()}
    assert found["a", None] == {"id": "a", "part": None, "ts": 2, "tags": ["r", None], "deep": {"n": 1, "s": "one"}}
    assert found["a", "q"] == first.to_pylist()[1]
    assert found["n", None] == source.to_pylist()[1]


def test_an_older_update_is_ignored_and_a_delete_is_not(make: MakeTable) -> None:
    table = make()
    late = rows(("a", "x", 4, 9.0), ("b", "x", 4, 9.0))
    table.merge(late).when_matched("t.id = 'b'").delete().when_matched().update_all().run()
    assert stored(table) == [STORED[0], *STORED[2:]]


# --- keys -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("index", "moves"),
    [("SIMPLE", True), ("BLOOM", True), ("GLOBAL_SIMPLE", True), ("GLOBAL_BLOOM", True), ("RECORD_INDEX", False)],
)
def test_a_key_is_found_in_whatever_partition_it_is(make: MakeTable, index: str, moves: bool) -> None:
    table = make(properties=INDEXES[index])
    source = rows(("a", "x", 6, 10.0), ("b", "y", 6, 20.0), ("c", "z", 6, 30.0), ("n", "x", 6, 1.0))
    merge = table.merge(source, "id").when_matched("s.id = 'c'").delete()
    merge.when_matched().update_all().when_not_matched().insert_all().run()
    assert stored(table) == [
        ("a", "x", 6, 10.0), ("b", "y", 6, 20.0), ("d", "y", 5, 4.0), ("n", "x", 6, 1.0)
    ]  # fmt: skip
    places = {row["id"]: row["_hoodie_partition_path"] for row in table.read(meta_columns=True).to_pylist()}
    assert places == {"a": "x", "b": "y" if moves else "x", "d": "y", "n": "x"}
    # Without partition fields in the source the key is looked for everywhere, too.
    table.merge([{"id": "d", "fare": 44.0}, {"id": "o", "fare": 1.0}]).when_matched().update(["fare"]).run()
    assert ("d", "y", 5, 44.0) in stored(table)
    assert len(stored(table)) == 4


def test_buckets_keep_the_partition_of_a_matched_row(make: MakeTable) -> None:
    table = make(properties=INDEXES["BUCKET"])
    source = rows(("a", "y", 6, 10.0), ("c", "x", 6, 30.0), ("n", "x", 6, 1.0))
    merge = table.merge(source, ["id"])
    with pytest.raises(HoodieKeyException, match="1 rows would move to another partition, such as id = 'a', .*BUCKET"):
        merge.when_matched("s.id = 'c'").delete().when_matched().update_all().run()
    writer = merge.when_matched("s.id = 'c'").delete().when_matched().update(["fare", "ts"])
    writer.when_not_matched().insert_all().run()
    assert stored(table) == [("a", "x", 6, 10.0), STORED[1], STORED[3], ("n", "x", 6, 1.0)]


def test_a_key_that_is_stored_twice_is_refused(make: MakeTable) -> None:
    table = make()
    table.insert(rows(("a", "x", 5, 7.0)), properties={"hoodie.parquet.small.file.limit": "0"})
    before = stored(table)
    source = rows(("a", "x", 6, 9.0), ("b", "x", 6, 9.0))
    merge = table.merge(source)
    for refused in (
        merge.when_matched().update_all(),
        merge.when_matched().update(["fare"]),
        merge.when_matched("t.fare = 7").delete(),
    ):
        with pytest.raises(HoodieKeyException, match="1 keys .* stored more than once, such as id = 'a', region = 'x'"):
            refused.run()
    assert stored(table) == before
    merge.when_matched("s.id = 'b'").update_all().run()
    assert ("b", "x", 6, 9.0) in stored(table)


def test_a_key_in_several_partitions_is_an_error_that_names_them(make: MakeTable) -> None:
    table = make()
    table.upsert(rows(("a", "y", 5, 7.0)))
    merge = table.merge(rows(("a", "x", 6, 9.0), ("b", "x", 6, 9.0)), "id")
    for refused in (merge.when_matched().update_all(), merge.when_matched("t.region = 'y'").delete()):
        with pytest.raises(HoodieKeyException, match=r"such as id = 'a' in 'x' and 'y'.*Compare the partition fields"):
            refused.run()
    merge.when_matched("t.id = 'b'").update_all().run()
    both = table.merge(rows(("a", "x", 6, 9.0)), ["id", "region"])
    both.when_matched().update_all().run()
    assert stored(table)[:3] == [("a", "x", 6, 9.0), ("a", "y", 5, 7.0), ("b", "x", 6, 9.0)]


@pytest.mark.parametrize("on", [None, "id"])
@pytest.mark.parametrize("key", ["a", "n"])
def test_several_rows_of_the_source_for_one_key_are_refused(make: MakeTable, key: str, on: str | None) -> None:
    table = make()
    merge = table.merge(rows((key, "x", 6, 1.0), (key, "x", 7, 2.0), ("b", "x", 6, 1.0)), on)
    with pytest.raises(HoodieKeyException, match=f"several rows of the source apply to each of 1 keys, .*id = '{key}'"):
        merge.when_matched().update_all().when_not_matched().insert_all().run()
    assert stored(table) == list(STORED)
    # Rows that no clause applies to are no matter.
    merge.when_matched("s.ts = 7").update_all().when_not_matched("s.ts = 7").insert_all().run()
    assert (key, "x", 7, 2.0) in stored(table)


def test_null_keys_match_nothing_and_are_not_inserted(make: MakeTable) -> None:
    table = make()
    source = rows((None, "x", 6, 1.0), (None, "x", 6, 2.0), ("a", "x", 6, 3.0))
    with pytest.raises(HoodieKeyException, match="no usable key"):
        table.merge(source).when_not_matched().insert_all().run()
    table.merge(source).when_matched().update_all().run()
    assert stored(table) == [("a", "x", 6, 3.0), *STORED[1:]]


@pytest.mark.parametrize(
    "values", [{"id": pc.scalar("q")}, {"region": "z"}, {"id": pc.field("s", "region"), "fare": 1.0}]
)
def test_no_clause_changes_a_key(make: MakeTable, values: dict[str, Any]) -> None:
    table = make()
    source = rows(("a", "x", 6, 1.0), ("n", "x", 6, 1.0))
    for key, merge in (
        ("a", table.merge(source).when_matched().update(values)),
        ("n", table.merge(source).when_not_matched().insert({"ts": 1, **values})),
    ):
        with pytest.raises(HoodieKeyException, match=f"1 rows would get another key .* id = '{key}', region = 'x'"):
            merge.run()
    assert stored(table) == list(STORED)
    same = {"id": hoodie.col("s.id"), "region": hoodie.col("s.region"), "fare": hoodie.col("s.fare") + 1}
    table.merge(source).when_matched().update(same).run()
    assert stored(table)[0] == ("a", "x", 5, 2.0)


def test_times_of_one_day_are_one_partition(make: MakeTable) -> None:
    days = {
        "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator",
        "hoodie.keygen.timebased.timestamp.type": "SCALAR",
        "hoodie.keygen.timebased.timestamp.scalar.time.unit": "microseconds",
        "hoodie.keygen.timebased.output.dateformat": "yyyy-MM-dd",
    }
    type_ = pa.timestamp("us", tz="UTC")
    morning, evening = datetime(2026, 1, 2, 8, tzinfo=UTC), datetime(2026, 1, 2, 20, tzinfo=UTC)

    def one(when: datetime, fare: float) -> pa.Table:
        return pa.table({"id": ["a"], "day": pa.array([when], type_), "ts": [int(fare)], "fare": [fare]})

    table = make(one(morning, 1.0), properties=days, partition_fields="day")
    table.merge(one(evening, 2.0)).when_matched().update(["fare", "ts"]).when_not_matched().insert_all().run()
    assert table.read().to_pylist() == [{"id": "a", "day": morning, "ts": 2, "fare": 2.0}]
    table.merge(one(evening, 3.0)).when_matched().update_all().run()
    assert table.read().to_pylist() == [{"id": "a", "day": evening, "ts": 3, "fare": 3.0}]


# --- refusals -------------------------------------------------------------------------------------------------------

ANY = rows(("a", "x", 6, 9.0), ("n", "x", 6, 9.0))


@pytest.mark.parametrize(
    ("merge", "error", "message"),
    [
        (lambda t: t.merge(ANY), HoodieConfigException, "without clauses does nothing"),
        (lambda t: t.merge(ANY).when_matched("s.fare >"), HoodieConfigException, "not understood at the end"),
        (lambda t: t.merge(ANY).when_matched(7), HoodieConfigException, "the condition is 7"),
        (lambda t: t.merge(ANY).when_matched().update({}), HoodieConfigException, "update takes names of columns"),
        (lambda t: t.merge(ANY).when_not_matched().insert(7), HoodieConfigException, "insert takes names of columns"),
        (lambda t: t.merge(ANY, []).when_matched().delete(), HoodieConfigException, "on is "),
        (lambda t: t.merge(ANY, "ts").when_matched().delete(), HoodieConfigException, "does not compare id"),
        (lambda t: t.merge(ANY, "t.id > s.id = 1").when_matched().delete(), HoodieConfigException, "another form"),
        (lambda t: t.merge(7).when_matched().delete(), HoodieSchemaException, "7"),
        (
            lambda t: t.merge(ANY.drop_columns("id")).when_matched().delete(),
            HoodieSchemaException, "the source lacks the column id",
        ),
        (
            lambda t: t.merge(ANY.set_column(0, "id", pa.array([1, 2]))).when_matched().delete(),
            HoodieSchemaException, "id of type string with id of the source, of type int64",
        ),
        (
            lambda t: t.merge(ANY.drop_columns("fare")).when_matched().update_all(),
            HoodieConfigException, r"clause 1 \(when_matched, update\) takes fare from the source, which lacks it",
        ),
        (
            lambda t: t.merge(ANY.drop_columns("region")).when_not_matched().insert(["fare"]),
            HoodieConfigException, "does not assign region, which is a partition field",
        ),
        (lambda t: t.merge(ANY).when_matched().update(["tip"]), HoodieConfigException, "no column of the table"),
        (lambda t: t.merge(ANY).when_matched().update({"Fares": 1}), HoodieConfigException, "columns are id, region"),
        (lambda t: t.merge(ANY).when_matched().update({"fare": 1, "FARE": 2}), HoodieConfigException, "fare twice"),
        (
            lambda t: t.merge(ANY).when_matched().update({"_hoodie_file_name": "x"}),
            HoodieConfigException, "no column of the table",
        ),
        (lambda t: t.merge(ANY).when_matched().update({"fare": "s.fare"}), HoodieConfigException, "like a column"),
        (lambda t: t.merge(ANY).when_matched().update({"fare": "much"}), HoodieSchemaException, "which is double"),
        (
            lambda t: t.merge(ANY).when_matched().update({"ts": hoodie.col("s.region")}),
            HoodieSchemaException, "'ts', which is int64",
        ),
        (
            lambda t: t.merge(ANY).when_matched().update({"ts": hoodie.col("s.fare") + 0.5}),
            HoodieSchemaException, "'ts', which is int64",
        ),
        (
            lambda t: t.merge(ANY).when_matched("s.fares > 1").delete(),
            HoodieSchemaException, r"condition of clause 1 .* cannot be computed.*s\.fare, t\.",
        ),
        (lambda t: t.merge(ANY).when_matched("fare > 1").delete(), HoodieSchemaException, "cannot be computed"),
        (lambda t: t.merge(ANY).when_matched("s.fare").delete(), HoodieSchemaException, "has the type double"),
        (
            lambda t: t.merge(ANY).when_not_matched("t.fare > 1").insert_all(),
            HoodieSchemaException, "cannot be computed",
        ),
    ],
)  # fmt: skip
def test_a_merge_that_cannot_be_is_refused_and_changes_nothing(
    make: MakeTable, merge: Callable[[Table], TableMerge], error: type[HoodieException], message: str
) -> None:
    table = make()
    with pytest.raises(error, match=message):
        merge(table).run()
    assert stored(table) == list(STORED)
    assert [entry.state for entry in table.history()] == ["COMPLETED"]


def test_a_text_that_looks_like_a_column_is_stored_as_a_scalar(make: MakeTable) -> None:
    table = make(rows(*STORED).append_column("note", pa.array(list("pqrs"))))
    merge = table.merge(ANY)
    with pytest.raises(HoodieConfigException, match=r"the text 't.note', .*hoodie.col\('t.note'\)"):
        merge.when_matched().update({"note": "t.note"}).run()
    merge.when_matched().update({"note": pc.scalar("t.note"), "fare": 1}).run()
    assert table.read("note", "id = 'a'").to_pylist() == [{"note": "t.note"}]
    merge.when_matched().update({"note": "s.nothing"}).run()
    assert table.read("note", "id = 'a'").to_pylist() == [{"note": "s.nothing"}]


def test_a_number_that_becomes_infinite_is_refused(make: MakeTable) -> None:
    table = make(rows(*STORED).set_column(3, "fare", pa.array([1.0, 2.0, 3.0, 4.0], pa.float32())))
    with pytest.raises(HoodieSchemaException, match="'fare', which is float"):
        table.merge(rows(("a", "x", 6, 1e300))).when_matched().update(["fare"]).run()
    with pytest.raises(HoodieSchemaException, match="'fare', which is float"):
        table.update("id = 'a'", {"fare": pc.scalar(1e300)})
    table.merge(rows(("a", "x", 6, float("inf")))).when_matched().update(["fare"]).run()
    assert stored(table)[0] == ("a", "x", 5, float("inf"))


def test_tables_that_cannot_be_merged_into(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundException):
        Table(tmp_path / "nothing").merge(ANY).when_matched().delete().run()
    HoodieTableMetaClient.init_table(str(tmp_path / "new"), table_name="t", record_key_fields="id")
    with pytest.raises(HoodieNotSupportedException, match="no columns"):
        Table(tmp_path / "new").merge(ANY).when_not_matched().insert_all().run()
    with pytest.raises(HoodieConfigException, match=r"hoodie.index.typ\b"):
        Table(tmp_path / "new").merge(ANY, properties={"hoodie.index.typ": "BLOOM"})


def test_the_first_rows_of_a_table_are_merged(make: MakeTable) -> None:
    table = make(rows().schema)
    source = rows(*STORED)
    table.merge(source).when_matched("t.fare > 1").update_all().when_not_matched().insert_all().run()
    assert stored(table) == list(STORED)


# --- the object and the write ---------------------------------------------------------------------------------------


def test_each_method_gives_another_merge(make: MakeTable) -> None:
    merge = make().merge(ANY)
    both = merge.when_matched().delete().when_not_matched().insert_all()
    assert repr(merge).endswith("no clauses yet>")
    assert repr(both).endswith("clause 1 (when_matched, delete), clause 2 (when_not_matched, insert)>")
    assert str(hoodie.col("s.deep.n")) == str(pc.field("s", "deep", "n"))
    for wrong in ("", 7):
        with pytest.raises(HoodieConfigException, match="give its name"):
            hoodie.col(wrong)  # type: ignore[arg-type]


def test_keys_are_looked_up_once(make: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    calls = []
    find = HoodieSimpleIndex.find_locations

    def counted(self: HoodieSimpleIndex, *arguments: Any) -> Any:
        calls.append(self)
        return find(self, *arguments)

    monkeypatch.setattr(HoodieSimpleIndex, "find_locations", counted)
    table.merge(ANY).when_matched().update(["fare"]).when_not_matched().insert_all().run()
    assert len(calls) == 1
    assert stored(table) == [("a", "x", 5, 9.0), *STORED[1:], ("n", "x", 6, 9.0)]


def test_a_merge_conflicts_with_a_write_that_it_did_not_see(make: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make()
    merged = Table(table.path, properties=OPTIMISTIC)
    begun = HoodieLocalWriteClient._begun_table

    def other_writes_first(self: HoodieLocalWriteClient, instant_time: str) -> Any:
        monkeypatch.undo()
        found = begun(self, instant_time)
        # Rows where the merge writes nothing: with another condition it might have.
        Table(table.path, properties=OPTIMISTIC).upsert(rows(("z", "w", 7, 70.0)))
        return found

    merge = merged.merge(rows(("a", "x", 6, 9.0)))
    merge = merge.when_matched().update({"fare": hoodie.col("t.fare") + 1, "ts": 6})
    monkeypatch.setattr(HoodieLocalWriteClient, "_begun_table", other_writes_first)
    with pytest.raises(HoodieWriteConflictException) as raised:
        merge.run()
    assert raised.value.is_retry_safe
    assert stored(table) == [*STORED, ("z", "w", 7, 70.0)]
    merge.run()
    assert stored(table)[0] == ("a", "x", 6, 2.0)


def test_a_merge_is_run_again_on_the_newer_rows(make: MakeTable, monkeypatch: pytest.MonkeyPatch) -> None:
    again = {**OPTIMISTIC, "hoodie.write.lock.wait.retry": "true"}
    table = make()
    begun = HoodieLocalWriteClient._begun_table

    def other_writes_first(self: HoodieLocalWriteClient, instant_time: str) -> Any:
        monkeypatch.undo()
        found = begun(self, instant_time)
        Table(table.path, properties=OPTIMISTIC).upsert(rows(("a", "x", 7, 40.0), ("n", "x", 7, 50.0)))
        return found

    source = rows(("a", "x", 8, 1.0), ("n", "x", 8, 1.0))
    merge = Table(table.path, properties=again).merge(source)
    values = {"fare": hoodie.col("t.fare") + hoodie.col("s.fare"), "ts": hoodie.col("s.ts")}
    monkeypatch.setattr(HoodieLocalWriteClient, "_begun_table", other_writes_first)
    merge.when_matched().update(values).when_not_matched().insert_all().run()
    assert stored(table) == [("a", "x", 8, 41.0), *STORED[1:], ("n", "x", 8, 51.0)]


def test_log_files_are_merged_before_rows_are_matched(make: MakeTable) -> None:
    table = make()
    table.update("id = 'a'", {"fare": 100.0, "ts": 6})
    table.delete([HoodieKey("b", "x")])
    source = rows(("a", "x", 7, 1.0), ("b", "x", 7, 2.5), ("c", "y", 7, 1.0))
    values = {"fare": hoodie.col("t.fare") + hoodie.col("s.fare"), "ts": hoodie.col("s.ts")}
    table.merge(source).when_matched().update(values).when_not_matched().insert_all().run()
    assert stored(table) == [("a", "x", 7, 101.0), ("b", "x", 7, 2.5), ("c", "y", 7, 4.0), STORED[3]]


DELTA_CONDITIONS = ["s.fare > t.fare", "s.fare <= 1", "t.id in ('a', 'c')", "not s.ts > t.ts", "s.fare = t.fare"]


@pytest.mark.parametrize("seed", range(6))
def test_rows_are_those_of_a_merge_of_deltalake(make: MakeTable, tmp_path: Path, seed: int) -> None:
    """Without an ordering field both take the row that the clauses give; deltalake too takes the first clause."""
    deltalake = pytest.importorskip("deltalake")
    random = Random(seed)
    table = make(ordering_fields=())
    deltalake.write_deltalake(str(tmp_path / "delta"), rows(*STORED))
    for ts in (6, 4):
        keys = sorted({random.choice("abcdefgh") for _ in range(6)})
        source = rows(*((key, "x" if key < "c" else "y", ts, float(random.randrange(0, 5))) for key in keys))
        merge = table.merge(source)
        peer = deltalake.DeltaTable(str(tmp_path / "delta")).merge(
            source, "s.id = t.id and s.region = t.region", source_alias="s", target_alias="t"
        )
        for _ in range(random.randrange(2, 5)):
            kind, condition = random.choice(["update", "all", "delete", "insert"]), random.choice(DELTA_CONDITIONS)
            if kind == "update":
                merge = merge.when_matched(condition).update(
                    {"fare": hoodie.col("t.fare") + hoodie.col("s.fare"), "ts": hoodie.col("s.ts")}
                )
                peer = peer.when_matched_update({"fare": "t.fare + s.fare", "ts": "s.ts"}, condition)
            elif kind == "all":
                merge, peer = merge.when_matched(condition).update_all(), peer.when_matched_update_all(condition)
            elif kind == "delete":
                merge, peer = merge.when_matched(condition).delete(), peer.when_matched_delete(condition)
            else:
                merge = merge.when_not_matched("s.fare > 1").insert_all()
                peer = peer.when_not_matched_insert_all("s.fare > 1")
        merge.run()
        peer.execute()
        theirs = pa.table(deltalake.DeltaTable(str(tmp_path / "delta")).to_pyarrow_table()).to_pylist()
        assert stored(table) == sorted(tuple(row[name] for name in NAMES) for row in theirs)
