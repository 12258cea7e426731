"""Look-ups by key in this process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieReadClient, HoodieRecord, HoodieTableMetaClient
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieIndexException,
    HoodieIOException,
    HoodieKeyException,
    HoodieSchemaException,
    TableNotFoundException,
)
from hoodie.index.index import KeyLocations
from hoodie.index.simple import global_simple_index, simple_index
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.parquet.row_taking import RowTaker
from hoodie.storage.local_storage import LocalStorage
from hoodie.table.action.commit import incoming_keys
from hoodie.table.key_lookup import LookedUpKeys
from tests.contract.index_contract import FROM_VERSION, GLOBAL, INDEXES, SMALL
from tests.support.hookable_storage import Call, HookableStorage, hooked, use_for_local_files
from tests.support.pairs import each_pair
from tests.support.table_builder import content, init_table, local_client, rows, rows_of_keys, sorted_rows

VIRTUAL = {"hoodie.populate.meta.fields": "false"}
FIRST = (("a", "x", 1), ("b", "x", 1), ("c", "y", 1), ("d", "z", 1))
SECOND = (("b", "x", 2), ("e", "y", 2))
STORED = {("a", "x"): 1, ("b", "x"): 2, ("c", "y"): 1, ("d", "z"): 1, ("e", "y"): 2}
LOCATION = ["__hoodie_current_instant_time", "__hoodie_current_file_id", "__hoodie_current_row_position"]


def _case(name: str) -> Any:
    """An index, with the version that its tables need."""
    versions = [pytest.mark.table_version(FROM_VERSION[name])] if name in FROM_VERSION else []
    return pytest.param(name, marks=versions)


@pytest.fixture(params=list(map(_case, INDEXES)))
def index(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["keys in memory", "keys joined"])
def size(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether the keys fit in the driver's memory."""
    if request.param == "keys joined":
        join_keys(monkeypatch)
    return str(request.param)


def join_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on no key fits in memory."""
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", -1)
    for module in (simple_index, global_simple_index):
        monkeypatch.setattr(module, "SHARED_KEY_BYTES", -1)


def written(path: Path, options: dict[str, Any]) -> str:
    """The table of `STORED`, written with these options."""
    table = init_table(path)
    with local_client(table, {**SMALL, **options}) as client:
        client.upsert(rows(*FIRST))
        client.upsert(rows(*SECOND))
    return table


def keys_of(*places: tuple[str, str]) -> list[HoodieKey]:
    return [HoodieKey(key, path) for key, path in places]


class ReadOnly(HookableStorage):
    """Refuses every change."""

    __slots__ = ()

    def around(self, call: Call) -> Any:
        assert not call.changes, f"would {call.name} {call.path}"
        return call.apply()


def test_every_index_finds_the_stored_rows_and_their_places_and_writes_nothing(
    tmp_path: Path, index: str, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path / "t", INDEXES[index])
    before = content(path)
    asked = [("e", "y"), ("a", "x"), ("none", "x"), ("b", "x"), ("a", "x"), ("c", "nowhere"), ("d", "z")]
    is_global, is_joined = index in GLOBAL, size == "keys joined"
    stored = [key for key, place in asked if place in STORED_PARTITIONS[key] or (is_global and key != "none")]
    use_for_local_files(monkeypatch, ReadOnly)
    with HoodieReadClient(path, options={**SMALL, **INDEXES[index]}) as client:
        found = client.read(keys_of(*asked))
        everything = hoodie.read_table(path)
        assert found.schema == everything.schema
        wanted = [row for row in everything.to_pylist() if row["id"] in stored]
        assert sorted(found.to_pylist(), key=lambda row: row["id"]) == sorted(wanted, key=lambda row: row["id"])
        assert {(row["id"], row["region"]): row["ts"] for row in found.to_pylist()}.items() <= STORED.items()

        uncolumned = client.read(keys_of(*asked), columns=[])
        assert (uncolumned.num_rows, uncolumned.num_columns) == (len(wanted), 0)

        exist = client.check_exists(keys_of(*asked))
        assert exist.schema.names == ["_hoodie_record_key", "_hoodie_partition_path", "exists"]
        said = [(key, where(key) if is_global else place, key in stored and (is_global or place != "nowhere"))
                for key, place in asked]  # fmt: skip
        given = [tuple(row.values()) for row in exist.to_pylist()]
        assert (sorted(given, key=repr) == sorted(said, key=repr)) if is_joined else (given == said)

        records = pa.table({"id": [k for k, _ in asked], "region": [p for _, p in asked], "more": range(len(asked))})
        new = client.filter_exists(records)
        assert new.schema == records.schema
        assert sorted(new["id"].to_pylist()) == (["none"] if is_global else ["c", "none"])

        tagged = client.tag_location(records)
        assert tagged.schema.names == ["_hoodie_record_key", "_hoodie_partition_path", *records.schema.names, *LOCATION]
        if not is_joined:
            assert tagged.select(records.schema.names) == records
        check_places(path, tagged, {("none", "x")} if is_global else {("none", "x"), ("c", "nowhere")})
    assert content(path) == before


STORED_PARTITIONS = {"a": {"x"}, "b": {"x"}, "c": {"y"}, "d": {"z"}, "e": {"y"}, "none": set()}


def where(key: str) -> str | None:
    return next(iter(STORED_PARTITIONS[key]), None)


def base_files(path: str) -> dict[tuple[str, str], str]:
    """Partition path and file id to the full path of the latest base file."""
    view = HoodieTableMetaClient.load(path).view()
    return {
        (partition, file.file_id): file.path
        for partition in view.list_partitions()
        for file in view.latest_base_files(partition)
    }


def check_places(path: str, tagged: pa.Table, new: set[tuple[str, str]]) -> None:
    """The rows at the places are those of the keys."""
    instants = HoodieTableMetaClient.load(path).active_timeline
    files = base_files(path)
    for row in tagged.to_pylist():
        instant, file_id, position = (row[name] for name in LOCATION)
        key, partition = row["_hoodie_record_key"], row["_hoodie_partition_path"]
        if file_id is None:
            assert (instant, position) == (None, None)
            assert (key, partition) in new
            continue
        assert instants.filter_completed_instants().find(instant) is not None
        with HoodieParquetReader(LocalStorage(path), files[partition, file_id]) as reader:
            assert reader.read_record_keys()[position].as_py() == key


def test_a_key_that_is_stored_twice_gives_both_rows_and_one_answer(tmp_path: Path, size: str) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1)))
        client.bulk_insert(rows(("a", "x", 2), ("b", "x", 2)))
    with HoodieReadClient(path) as client:
        asked = keys_of(("a", "x"), ("a", "x"), ("b", "x"))
        assert sorted(client.read(asked, columns="ts")["ts"].to_pylist()) == [1, 2, 2]
        assert client.check_exists(asked)["exists"].to_pylist() == [True, True, True]
        assert client.filter_exists(rows(("a", "x", 5))).num_rows == 0
        tagged = client.tag_location(rows(("a", "x", 5), ("new", "x", 5)))
    assert sorted(tagged["id"].to_pylist()) == ["a", "a", "new"]
    assert len(set(tagged["__hoodie_current_file_id"].to_pylist())) == 3


def test_a_key_in_two_partitions_is_found_in_both_by_a_global_index(tmp_path: Path, size: str) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1), ("a", "y", 2)))
    with HoodieReadClient(path, options={"hoodie.index.type": "GLOBAL_BLOOM"}) as client:
        assert sorted(client.read("a", columns=["region"])["region"].to_pylist()) == ["x", "y"]
        exist = client.check_exists(["a", "b"]).to_pylist()
        assert sorted((row["_hoodie_record_key"], row["exists"]) for row in exist) == [("a", True), ("b", False)]
        assert {row["_hoodie_partition_path"] for row in exist} <= {"x", "y", None}
        tagged = client.tag_location(rows(("a", "z", 3)))
    assert sorted(tagged["_hoodie_partition_path"].to_pylist()) == ["x", "y"]
    assert tagged["region"].to_pylist() == ["z", "z"]


def test_texts_are_record_keys_where_these_alone_name_a_row(tmp_path: Path) -> None:
    path = init_table(tmp_path / "flat", partition_fields=())
    with local_client(path) as client:
        client.upsert(pa.table({"id": ["a", "b"], "ts": [1, 1]}))
        with HoodieReadClient(path) as reads:
            assert reads.read("a", columns="id")["id"].to_pylist() == ["a"]
            assert reads.check_exists(["b", "z"])["exists"].to_pylist() == [True, False]
        assert client.delete(["b", "z"]).deleted_count == 1
    parted = written(tmp_path / "parted", {})
    with HoodieReadClient(parted) as reads:
        for ask in (reads.read, reads.check_exists):
            with pytest.raises(HoodieKeyException, match=r"has partitions \(region\).*give HoodieKey\("):
                ask(["a"])
    with HoodieReadClient(parted, options={"hoodie.index.type": "GLOBAL_SIMPLE"}) as reads:
        assert reads.read(["a", "e"], columns="region")["region"].to_pylist() == ["x", "y"]
        # For a global index rows with the key column are enough.
        assert reads.check_exists(pa.table({"id": ["a", "z"]}))["exists"].to_pylist() == [True, False]


def test_columns_of_another_type_give_the_keys_that_are_stored(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", partition_fields=())
    with local_client(path) as client:
        client.upsert(pa.table({"id": pa.array([1, 2], pa.int64()), "ts": [1, 1]}))
    with HoodieReadClient(path) as client:
        assert client.read(pa.table({"id": [1.0, 3.0]}), columns="id")["id"].to_pylist() == [1]
        assert client.read(["2"], columns="id")["id"].to_pylist() == [2]
        new = client.filter_exists(pa.table({"id": pa.array([1, 3], pa.int32()), "ts": [1, 1]}))
    assert new.to_pylist() == [{"id": 3, "ts": 1}]
    assert new.schema.field("id").type == pa.int32()


def test_rows_may_come_in_any_form(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    given = rows(("a", "x", 1), ("n", "x", 1))

    class Stream:
        def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
            return given.__arrow_c_stream__(requested_schema)

    forms: list[Any] = [
        given, given.to_pylist(), iter(given.to_batches()), given.to_reader(), given.to_pandas(), Stream(),
        [HoodieRecord(HoodieKey(row["id"], row["region"]), row) for row in given.to_pylist()],
    ]  # fmt: skip
    with HoodieReadClient(path, options={"hoodie.index.type": "SIMPLE"}) as client:
        for form in forms:
            assert client.filter_exists(form)["id"].to_pylist() == ["n"]
        assert client.check_exists(Stream())["exists"].to_pylist() == [True, False]
        assert client.read(iter(given.to_batches()), columns="id")["id"].to_pylist() == ["a"]
        assert client.read([]).num_rows == 0
        assert client.check_exists([]).num_rows == 0


def test_results_go_into_writes(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    records = [HoodieRecord(HoodieKey(key, "x"), {"id": key, "region": "x", "ts": 9}) for key in ("a", "n")]
    with HoodieReadClient(path) as reads, local_client(path) as client:
        client.insert(reads.filter_exists(records))
        assert client.upsert_prepped_records(reads.tag_location(rows(("b", "x", 7), ("m", "y", 7)))).updated_count == 1
        assert client.upsert_prepped_records(reads.tag_location(records)).updated_count == 2
        assert sorted_rows(reads.read(keys_of(("a", "x"), ("n", "x"), ("b", "x"), ("m", "y")), ["id", "ts"])) == [
            ("a", 9), ("b", 7), ("m", 7), ("n", 9),
        ]  # fmt: skip
        assert hoodie.read_table(path).num_rows == len(STORED) + 2


# --- tables without stored keys, or without rows ----------------------------------------------------------------------


@pytest.mark.parametrize("index_type", ["BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY"])
@pytest.mark.parametrize("key_fields", ["id", "id,ts"])
def test_a_table_without_stored_keys_is_looked_up_by_its_columns(
    tmp_path: Path, index_type: str, key_fields: str
) -> None:
    path = init_table(tmp_path / "t", record_key_fields=key_fields.split(","), ordering_fields=(), properties=VIRTUAL)
    with local_client(path) as client:
        client.bulk_insert(rows(*FIRST))
        client.insert(rows(("n", "x", 3)))
    asked = rows(("a", "x", 1), ("z", "x", 1), ("n", "x", 3), ("c", "x", 1), ("a", "x", 1))
    is_global = index_type.startswith("GLOBAL")
    with HoodieReadClient(path, options={"hoodie.index.type": index_type}) as client:
        found = client.read(asked)
        assert sorted(found["id"].to_pylist()) == ["a", "c", "n"][:: 1 if is_global else 2]
        assert found["_hoodie_record_key"].null_count == found.num_rows
        assert client.check_exists(asked)["exists"].to_pylist() == [True, False, True, is_global, True]
        assert client.filter_exists(asked)["id"].to_pylist() == (["z"] if is_global else ["z", "c"])
        assert client.tag_location(asked)[LOCATION[2]].null_count == (1 if is_global else 2)
        key = "a" if key_fields == "id" else "id:a,ts:1"
        assert client.read([HoodieKey(key, "x")], "id")["id"].to_pylist() == ["a"]


def test_many_keys_of_a_table_without_stored_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = init_table(tmp_path / "t", ordering_fields=(), properties=VIRTUAL)
    with local_client(path) as client:
        client.bulk_insert(rows(*FIRST))
    join_keys(monkeypatch)
    with HoodieReadClient(path) as reads:
        assert sorted(reads.read(keys_of(("a", "x"), ("c", "y"), ("c", "x")), "id")["id"].to_pylist()) == ["a", "c"]
    with (
        HoodieReadClient(path, options={"hoodie.index.type": "GLOBAL_BLOOM"}) as reads,
        pytest.raises(HoodieException, match="look them up in parts"),
    ):
        reads.read(["a"])


def test_a_table_that_was_never_written_has_no_rows(tmp_path: Path, size: str) -> None:
    path = init_table(tmp_path / "t")
    given = rows(("a", "x", 1), ("b", "y", 1))
    with HoodieReadClient(path) as client:
        assert client.read(given).schema == hoodie.read_table(path).schema
        assert client.read(given, ["id"]).schema == hoodie.read_table(path, columns=["id"]).schema
        assert client.check_exists(given)["exists"].to_pylist() == [False, False]
        assert sorted_rows(client.filter_exists(given)) == sorted_rows(given)
        assert client.tag_location(given)[LOCATION[0]].null_count == 2


def test_a_table_whose_payload_hoodie_does_not_know_is_looked_up(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    properties = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    known = HoodieTableMetaClient.load(path).table_config
    new = {**known.properties, "hoodie.compaction.payload.class": "com.example.Mine"}
    known.update(HoodieTableMetaClient.load(path).storage, path, new)
    assert "com.example.Mine" in properties.read_text()
    with HoodieReadClient(path) as client:
        assert client.read(keys_of(("a", "x")), "id")["id"].to_pylist() == ["a"]


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Names of the base files that are opened."""
    names: list[str] = []

    def hook(name: str, path: str) -> None:
        if name == "open" and path.endswith(".parquet"):
            names.append(Path(path).name)

    with hooked(monkeypatch, hook):
        yield names


@pytest.fixture
def row_groups(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[int] | None]]:
    """Row groups whose rows are read, and those whose keys are searched."""
    seen: dict[str, list[list[int] | None]] = {"rows": [], "keys": []}
    iter_batches, find = HoodieParquetReader.iter_batches, HoodieParquetReader.find_record_keys
    take = RowTaker.take

    def iterate(self: HoodieParquetReader, columns: Any, schema: Any, row_groups: Any = None, **named: Any) -> Any:
        seen["rows"].append(row_groups)
        return iter_batches(self, columns, schema, row_groups, **named)

    def search(self: HoodieParquetReader, keys: Any, row_groups: Any = None) -> Any:
        seen["keys"].append(row_groups)
        return find(self, keys, row_groups)

    def take_rows(self: RowTaker, row_group: int, *arguments: Any) -> list[pa.Array]:
        seen["rows"].append([row_group])
        return take(self, row_group, *arguments)

    monkeypatch.setattr(RowTaker, "take", take_rows)
    monkeypatch.setattr(HoodieParquetReader, "iter_batches", iterate)
    monkeypatch.setattr(HoodieParquetReader, "find_record_keys", search)
    return seen


def keys_in_row_groups(path: Path) -> str:
    """A table with three files, each with 1,000 keys in ten row groups."""
    table = init_table(path, partition_fields=())
    with local_client(table, {**SMALL, "hoodie.parquet.small.file.limit": 0}) as client:
        for first in range(0, 3000, 1000):
            client.bulk_insert(rows_of_keys([f"k{number:05}" for number in range(first, first + 1000)], text="t"))
    for file in base_files(table).values():
        stored = pq.ParquetFile(file)
        # A file with several row groups, as large ones have them.
        pq.write_table(stored.read().replace_schema_metadata(stored.metadata.metadata), file, row_group_size=100)
    return table


@pytest.mark.without_metadata_table("a base file is replaced by another, of another size")
def test_a_point_lookup_reads_one_row_group_of_one_file(
    tmp_path: Path, opened: list[str], row_groups: dict[str, list[list[int] | None]]
) -> None:
    path = keys_in_row_groups(tmp_path / "t")
    files = base_files(path)
    assert [pq.ParquetFile(file).num_row_groups for file in files.values()] == [10, 10, 10]
    with HoodieReadClient(path) as client:
        assert client.read(["k01500"], "id")["id"].to_pylist() == ["k01500"]
        for kind in row_groups.values():
            kind.clear()
        opened.clear()
        assert client.read(["k01500"], "id")["id"].to_pylist() == ["k01500"]
        (file_id,) = client.tag_location(rows_of_keys(["k01500"]))[LOCATION[1]].to_pylist()
        assert set(opened) == {Path(files["", file_id]).name}
        assert client.index_report.files_read == 1
        assert client.index_report.row_groups_read == 1
        (searched, _), (read,) = row_groups["keys"], row_groups["rows"]
        assert searched == read
        assert read is not None
        assert len(read) == 1
        opened.clear()
        assert client.read(["absent"], "id").num_rows == 0
        assert client.check_exists(["absent"])["exists"].to_pylist() == [False]
        assert opened == []


@pytest.mark.without_metadata_table("a base file is replaced by another, of another size")
def test_rows_of_many_places_are_those_of_their_keys(tmp_path: Path) -> None:
    path = keys_in_row_groups(tmp_path / "t")
    wanted = [f"k{number:05}" for number in np.random.default_rng(7).choice(3000, 300, replace=False)]
    with HoodieReadClient(LocalEngineContext(parallelism=2), path) as client:
        found = client.read(wanted, ["text", "id", "_hoodie_record_key"])
    assert found.schema.names == ["text", "id", "_hoodie_record_key"]
    assert sorted(found["id"].to_pylist()) == sorted(wanted)
    assert found["id"].to_pylist() == found["_hoodie_record_key"].to_pylist()


def test_buckets_are_searched_one_for_each_key(tmp_path: Path, opened: list[str]) -> None:
    options = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": 8}
    path = init_table(tmp_path / "t")
    with local_client(path, {**SMALL, **options}) as client:
        client.upsert(rows(*((f"k{number}", "x", 1) for number in range(100))))
    with HoodieReadClient(path, options=options) as client:
        asked = keys_of(("k7", "x"))
        assert client.read(asked, "id")["id"].to_pylist() == ["k7"]
        opened.clear()
        assert client.read(asked, "id")["id"].to_pylist() == ["k7"]
        assert len(set(opened)) == 1
        assert client.index_report.decided == {"hash": 7, "key check": 1}
    for other in (4, 16):
        with (
            HoodieReadClient(path, options={**options, "hoodie.bucket.index.num.buckets": other}) as client,
            pytest.raises(HoodieIndexException, match="other buckets|more buckets") as caught,
        ):
            client.read(asked)
        assert any("Without hoodie.index.type" in note for note in caught.value.__notes__)
    with HoodieReadClient(path) as client:
        assert client.read(asked, "id")["id"].to_pylist() == ["k7"]
    with HoodieReadClient(path, options={"hoodie.index.type": "INMEMORY"}) as client:
        assert client.check_exists(asked)["exists"].to_pylist() == [True]


WRONG_ROWS = """
import attrs
import pyarrow.compute as pc
from hoodie.index.simple.simple_index import HoodieSimpleIndex

class WrongRows(HoodieSimpleIndex):
    def find_locations(self, keys, context, table):
        found = super().find_locations(keys, context, table)
        moved = {p: t.set_column(2, "position", pc.add(t["position"], 1)) for p, t in found.tables.items()}
        return attrs.evolve(found, tables=moved)
"""


def test_an_index_of_the_user_names_file_groups_and_their_keys_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    (tmp_path / "hoodie_test_wrong_rows.py").write_text(WRONG_ROWS)
    monkeypatch.syspath_prepend(str(tmp_path))
    path = written(tmp_path / "t", {})
    with HoodieReadClient(path, options={"hoodie.index.class": "hoodie_test_wrong_rows.WrongRows"}) as client:
        assert client.read(keys_of(("a", "x"), ("q", "x")), "id")["id"].to_pylist() == ["a"]
        exist = client.check_exists(keys_of(("a", "x"), ("q", "x")))
    assert dict(zip(exist["_hoodie_record_key"].to_pylist(), exist["exists"].to_pylist(), strict=True)) == {
        "a": True,
        "q": False,
    }


def test_columns_that_a_file_lacks_are_null_and_narrow_ones_are_widened(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t", partition_fields=())
    properties = {**SMALL, "hoodie.parquet.small.file.limit": 0}
    with local_client(path, properties) as client:
        client.insert(pa.table({"id": ["a"], "ts": [1], "n": pa.array([1], pa.int32())}))
        client.insert(pa.table({"id": ["b"], "ts": [1], "n": pa.array([1 << 40], pa.int64()), "new": ["v"]}))
    with HoodieReadClient(path) as client:
        found = client.read(["a", "b"], ["id", "n", "new"])
    assert found.schema.field("n").type == pa.int64()
    assert sorted_rows(found) == [("a", 1, None), ("b", 1 << 40, "v")]


# --- beside writers and cleaners --------------------------------------------------------------------------------------


def overwrite_and_clean(path: str) -> None:
    with local_client(path, {**SMALL, "hoodie.cleaner.commits.retained": 1}) as client:
        for ts in (3, 4):
            client.upsert(rows(("a", "x", ts), ("b", "x", ts)))


CALLS: dict[str, Callable[[HoodieReadClient], Any]] = {
    "read": lambda client: sorted(client.read(keys_of(("a", "x"), ("b", "x")), "ts")["ts"].to_pylist()) == [4, 4],
    "check_exists": lambda client: (
        client.check_exists(keys_of(("a", "x"), ("b", "x")))["exists"].to_pylist() == [True, True]
    ),
    "filter_exists": lambda client: client.filter_exists(rows(("a", "x", 9), ("b", "x", 9))).num_rows == 0,
    "tag_location": lambda client: client.tag_location(rows(("a", "x", 9)))[LOCATION[2]].null_count == 0,
}


@each_pair(name=["SIMPLE", "BLOOM", "GLOBAL_BLOOM"], when=["list", "open"], call=list(CALLS))
@pytest.mark.without_metadata_table("others write while a folder is listed")
def test_files_that_a_clean_deletes_meanwhile_are_not_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, when: str, name: str
) -> None:
    path = written(tmp_path / "t", {})
    done = []

    def hook(called: str, touched: str) -> None:
        is_it = Path(touched).name == "x" if when == "list" else Path(touched).parent.name == "x"
        if called in (["list", "walk"] if when == "list" else ["open", "read"]) and is_it and not done:
            done.append(called)
            overwrite_and_clean(path)

    with HoodieReadClient(path, options={"hoodie.index.type": name}) as client, hooked(monkeypatch, hook):
        assert CALLS[call](client)
    assert done


@pytest.mark.without_metadata_table("a file goes that a metadata table would list")
def test_a_file_that_is_gone_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    for file in (tmp_path / "t" / "x").glob("*.parquet"):
        file.unlink()
    with HoodieReadClient(path) as client:
        with pytest.raises(HoodieIOException, match="rows would be missing"):
            client.read(keys_of(("a", "x")))
        assert client.check_exists(keys_of(("c", "y")))["exists"].to_pylist() == [True]


def test_each_call_sees_the_newest_commit(tmp_path: Path, index: str) -> None:
    path = written(tmp_path / "t", INDEXES[index])
    with (
        HoodieReadClient(path, options={**SMALL, **INDEXES[index]}) as reads,
        local_client(path, {**SMALL, **INDEXES[index]}) as client,
    ):
        assert reads.check_exists(keys_of(("n", "x"), ("a", "x")))["exists"].to_pylist() == [False, True]
        client.upsert(rows(("n", "x", 3)))
        client.delete(keys_of(("a", "x")))
        assert reads.check_exists(keys_of(("n", "x"), ("a", "x")))["exists"].to_pylist() == [True, False]
        assert reads.read(keys_of(("n", "x"), ("a", "x")), "id")["id"].to_pylist() == ["n"]


def test_keys_that_were_not_looked_up_are_an_error() -> None:
    looked_up = LookedUpKeys({"x": pa.array(["a"])}, KeyLocations({}, []))
    names = ["__hoodie_record_key", "__hoodie_partition_path"]
    assert looked_up.tag(pa.record_batch([["a"], ["x"]], names)).num_rows == 1
    for key, partition in (("b", "x"), ("a", "y")):
        with pytest.raises(HoodieException, match=r"read twice.*call checkpoint\(\)"):
            looked_up.tag(pa.record_batch([[key], [partition]], names))


# --- wrong arguments --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((None,), None, "base_path of HoodieReadClient is None: give the table's folder"),
        (("one", "two"), None, "HoodieReadClient got two paths, one and two"),
        (("t",), {"hoodie.index.typ": "BLOOM"}, "hoodie.index.typ"),
        (("t",), {"hoodie.index.type": "HBASE"}, "hoodie.index.type = 'HBASE'"),
        (("t",), [], "options|properties"),
        ((5, "t"), None, "5 of type int"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[Any, ...], options: Any, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        HoodieReadClient(*arguments, options=options)


def test_wrong_calls_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    wrong: list[tuple[Callable[[HoodieReadClient], Any], type[Exception], str]] = [
        (lambda c: c.read(keys_of(("a", "x")), ["fare"]), HoodieSchemaException, "has no column fare"),
        (lambda c: c.read(keys_of(("a", "x")), 5), HoodieConfigException, "columns is 5"),
        (lambda c: c.read(None), HoodieSchemaException, "records are None"),
        (lambda c: c.read([HoodieKey("a", 5)]), HoodieKeyException, "must be text"),
        (lambda c: c.read(keys_of(("", "x"), ("a", "x"))), HoodieKeyException, "1 of the records to look up have no"),
        (lambda c: c.check_exists(pa.table({"id": ["a"]})), HoodieKeyException, "partition field 'region'"),
        (
            lambda c: c.filter_exists(rows((None, "x", 1), ("a", "x", 1))),
            HoodieKeyException,
            r"1 of the records to look up have no usable key.*column 'id' is null or empty in 1 record",
        ),
        (lambda c: c.tag_location(rows(("a", "../x", 1))), HoodieKeyException, "have no usable key"),
    ]
    with HoodieReadClient(path) as client:
        for call, error, message in wrong:
            with pytest.raises(error, match=message):
                call(client)
    with pytest.raises(HoodieException, match=re.escape(f"read: this client of {path} is closed")):
        client.read(keys_of(("a", "x")))
    with pytest.raises(TableNotFoundException, match="There is no Hudi table"):
        HoodieReadClient(tmp_path / "none").read(keys_of(("a", "x")))
    with (
        HoodieReadClient(path, options={"hoodie.datasource.write.recordkey.field": "other"}) as client,
        pytest.raises(HoodieConfigException, match="contradict"),
    ):
        client.check_exists(keys_of(("a", "x")))


def test_a_client_shows_its_table_and_index_and_no_secrets(tmp_path: Path) -> None:
    client = HoodieReadClient(base_path=tmp_path / "t", storage_options={"secret_access_key": "hidden"})
    assert repr(client) == f"<HoodieReadClient of {str(tmp_path / 't')!r}, index BLOOM>"
    client.close()
    assert repr(client).endswith("index BLOOM, closed>")


def test_steps_are_those_of_the_newest_call(tmp_path: Path) -> None:
    path = written(tmp_path / "t", {})
    with HoodieReadClient(path) as client:
        for _ in range(2):
            client.check_exists(keys_of(("a", "x")))
            assert [step.name for step in client.metrics.steps if not step.depth] == [
                "load the table", "read the input and its keys", "list base files", "tag location",
            ]  # fmt: skip


def test_a_local_client_is_no_writer(tmp_path: Path) -> None:
    assert not isinstance(HoodieReadClient(tmp_path), HoodieLocalWriteClient)
