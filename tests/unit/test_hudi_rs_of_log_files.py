"""hudi-rs reads every kind of log file that hoodie writes, and what rollbacks, compactions and cleans make of them.

Tables of the kinds of `tests.unit.test_hudi_rs` are tested there, with log files too. What hudi-rs 0.5.0 cannot read,
or reads in another way, is tested at the end, by name.
"""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiTableBuilder

import hoodie
from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieTableMetaClient
from hoodie.common.table.timeline.instant import Action
from tests.support.table_builder import TRIPS, init_table, local_client, read_trips, rows
from tests.unit.query.test_queries_of_hudi_rs import at, between, found_by_hudi_rs
from tests.unit.test_hudi_rs import TYPES, assert_readers_find

pytestmark = pytest.mark.parametrize("table_version", [6, 8, 9], indirect=True)
both_formats = pytest.mark.parametrize("block_format", ["avro", "parquet"])

BUCKET = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
FORMAT = "hoodie.logfile.data.block.format"
Trip = tuple[str, str, int, float]


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def trip(key: str, ts: int = 1, region: str = "x") -> Trip:
    return key, region, ts, ts / 4


def read_by_hudi_rs(base_path: Path, options: Any = None) -> list[Trip]:
    found = found_by_hudi_rs(str(base_path), options)
    return sorted((row["id"], row["region"], row["ts"], row["fare"]) for row in found)


def assert_found(base_path: Path, *expected: Trip) -> None:
    assert read_by_hudi_rs(base_path) == read_trips(base_path) == sorted(expected)


def log_files(base_path: Path) -> list[Path]:
    return sorted(path for path in base_path.rglob(".*.log.*") if path.suffix != ".crc")


def client_of(base_path: Path, **given: str) -> HoodieLocalWriteClient:
    """Updates go to log files. The limits are small, so that services run after few commits; none runs by itself."""
    return local_client(
        base_path,
        {
            "hoodie.clean.automatic": "false",
            "hoodie.archive.automatic": "false",
            "hoodie.parquet.small.file.limit": "0",
        },
        **{"cleaner_commits_retained": "1", "keep_min_commits": "2", "keep_max_commits": "3", **given},
    )


# --- blocks -----------------------------------------------------------------------------------------------------------


@both_formats
def test_all_column_types_in_blocks(tmp_path: Path, block_format: str) -> None:
    """Rows whose columns are null get values in a log file, and the other way round; then both meet in a second one."""
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), *((f"c_{n}", kind) for n, (kind, _) in TYPES.items())])
    init_table(tmp_path / "t", table_type="MERGE_ON_READ", partition_fields=[])

    def made(key: str, ts: int, number: int | None) -> dict[str, Any]:
        values = {f"c_{name}": None if number is None else given[number] for name, (_, given) in TYPES.items()}
        return {"id": key, "ts": ts, **values}

    expected = {"a": made("a", 1, 0), "b": made("b", 1, None), "c": made("c", 1, 1)}
    with local_client(tmp_path / "t", {FORMAT: block_format}) as client:
        client.insert(pa.Table.from_pylist(list(expected.values()), schema))
        for changed in ([made("a", 2, None), made("b", 2, 2)], [made("b", 3, 1), made("c", 3, 0)]):
            expected |= {row["id"]: row for row in changed}
            client.upsert(pa.Table.from_pylist(changed, schema))
            assert_readers_find(tmp_path / "t", list(expected.values()))
    assert len(log_files(tmp_path / "t")) == 2


@both_formats
def test_blocks_of_both_formats_in_one_slice(base_path: Path, block_format: str) -> None:
    other = {"avro": "parquet", "parquet": "avro"}[block_format]
    for ts, given in ((1, block_format), (2, other), (3, block_format)):
        with client_of(base_path, **{FORMAT: given}) as client:
            client.upsert(rows(*(trip(key, ts) for key in "abcd"[: 5 - ts])))
            if ts == 2:
                client.delete([HoodieKey("c", "x")])
    assert_found(base_path, trip("a", 3), trip("b", 3), trip("d", 1))


@both_formats
def test_many_blocks_and_files_of_one_commit(base_path: Path, block_format: str) -> None:
    limits = {"hoodie.logfile.max.size": "4000", "hoodie.logfile.data.block.max.size": "500", FORMAT: block_format}
    keys = [f"k{number:03}" for number in range(60)]
    with client_of(base_path, **limits) as client:
        client.insert(rows(*(trip(key) for key in keys)))
        client.upsert(rows(*(trip(key, 2) for key in keys)))
        client.delete([HoodieKey(key, "x") for key in keys[::7]])
    assert len(log_files(base_path)) > 2
    assert_found(base_path, *(trip(key, 2) for key in keys if key not in keys[::7]))


def test_an_added_column_is_null_in_older_blocks(base_path: Path) -> None:
    wider = TRIPS.append(pa.field("tip", pa.decimal128(8, 3)))
    with client_of(base_path) as client:
        client.upsert(rows(*(trip(key) for key in "abc")))
        client.upsert(rows(trip("b", 2)))
        client.upsert(rows((*trip("c", 3), Decimal("1.125")), schema=wider))
        names = (*TRIPS.names, "tip")
        expected = [(*trip("a"), None), (*trip("b", 2), None), (*trip("c", 3), Decimal("1.125"))]
        assert_readers_find(base_path, [dict(zip(names, row, strict=True)) for row in expected])


def test_a_widened_column_is_converted_in_older_blocks(base_path: Path) -> None:
    narrow = pa.schema([*TRIPS, ("n", pa.int32())])
    wide = pa.schema([*TRIPS, ("n", pa.int64())])
    with client_of(base_path) as client:
        client.upsert(rows(*((*trip(key), 1) for key in "abc"), schema=narrow))
        client.upsert(rows((*trip("b", 2), -5), schema=narrow))
        client.upsert(rows((*trip("c", 3), 2**40), schema=wide))
        names = (*TRIPS.names, "n")
        expected = [(*trip("a"), 1), (*trip("b", 2), -5), (*trip("c", 3), 2**40)]
        assert_readers_find(base_path, [dict(zip(names, row, strict=True)) for row in expected])


def test_a_map_of_structs_in_a_base_file_and_in_a_log_file(tmp_path: Path) -> None:
    """In a table of real Hudi it fails, because the base file gives the entries other names than the log file."""
    kind = pa.map_(pa.string(), pa.struct([("a", pa.int32())]))
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("m", kind)])
    init_table(tmp_path / "t", table_type="MERGE_ON_READ", partition_fields=[])
    stored = [{"id": key, "ts": 1, "m": [("k", {"a": 1})]} for key in "ab"]
    changed = {"id": "b", "ts": 2, "m": [("k", {"a": 2}), ("l", {"a": None})]}
    with client_of(tmp_path / "t") as client:
        client.upsert(pa.Table.from_pylist(stored, schema))
        client.upsert(pa.Table.from_pylist([changed], schema))
    assert_readers_find(tmp_path / "t", [stored[0], changed])


# --- which row wins ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ordering", ["ts", ""], ids=["event_time", "commit_time"])
def test_random_rows_and_deletes_of_few_keys(tmp_path: Path, ordering: str) -> None:
    """Late rows, ties, deletes by key and by flag; hudi-rs and hoodie agree after each commit."""
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", ordering_fields=ordering or []))
    schema = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    chance = random.Random(7)
    with client_of(base_path) as client:
        client.upsert(rows(*((*trip(key, 5), False) for key in "abcdefgh"), schema=schema))
        for number in range(10):
            keys = chance.sample("abcdefgh", 3)
            if number % 4 == 3:
                client.delete([HoodieKey(key, "x") for key in keys])
            else:
                given = [(key, "x", chance.randint(1, 10), number / 4, chance.random() < 0.2) for key in keys]
                client.upsert(rows(*given, schema=schema))
            assert read_by_hudi_rs(base_path) == read_trips(base_path), number
        assert log_files(base_path)


@pytest.mark.parametrize(
    "value",
    [pa.scalar(5, pa.int32()), "b", 1.5, Decimal("5.00"), datetime.date(2026, 1, 2), datetime.datetime(2026, 1, 2)],
    ids=["int32", "string", "float64", "decimal", "date", "timestamp"],
)
def test_ordering_values_of_each_type(tmp_path: Path, value: Any) -> None:
    """A flagged row deletes by its ordering value: one that is older does nothing."""
    array = pa.array([value.as_py() if isinstance(value, pa.Scalar) else value])
    array = array.cast(pa.int32()) if isinstance(value, pa.Scalar) else array
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", partition_fields=[]))
    older, newer = {"b": ("a", "c")}.get(value, (None, None)) if isinstance(value, str) else (None, None)
    plain = array[0].as_py()
    if older is None:
        step = datetime.timedelta(days=1) if isinstance(plain, datetime.date) else 1
        older, newer = plain - step, plain + step

    def table(*given: tuple[str, Any, bool]) -> pa.Table:
        columns = {"id": [key for key, _, _ in given], "ts": pa.array([ts for _, ts, _ in given], array.type)}
        return pa.table({**columns, "_hoodie_is_deleted": [deleted for _, _, deleted in given]})

    with client_of(base_path) as client:
        client.upsert(table(*((key, plain, False) for key in "abcde")))
        client.upsert(table(("a", older, True), ("b", newer, True), ("c", older, False), ("d", newer, False)))
        found = [row["id"] for row in found_by_hudi_rs(str(base_path))]
        assert sorted(found) == sorted(hoodie.read_table(str(base_path))["id"].to_pylist()) == ["a", "c", "d", "e"]


# --- places -----------------------------------------------------------------------------------------------------------


@both_formats
def test_buckets_take_inserts_into_their_logs(base_path: Path, block_format: str) -> None:
    expected: dict[str, Trip] = {}
    with client_of(base_path, **BUCKET, **{FORMAT: block_format}) as client:
        for ts in range(1, 5):
            written = [trip(f"k{number}", ts, "xy"[number % 2]) for number in range(ts, ts + 9)]
            expected.update((row[0], row) for row in written)
            client.upsert(rows(*written))
        client.delete([HoodieKey("k2", "x"), HoodieKey("k3", "y")])
        del expected["k2"], expected["k3"]
        assert_found(base_path, *expected.values())
        assert client.schedule_compaction() is not None
        client.compact()
        client.insert(rows(trip("z", 9)))
    assert_found(base_path, *expected.values(), trip("z", 9))


def test_inserts_that_an_option_sends_to_logs(base_path: Path) -> None:
    index = {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"}
    with client_of(base_path, **index) as client:
        client.upsert(rows(trip("a"), trip("b")))
        client.upsert(rows(trip("a", 2), trip("c", 2)))
        client.insert(rows(trip("d", 3)))
        client.upsert(rows(trip("c", 4), trip("d", 1)))
    assert_found(base_path, trip("a", 2), trip("b"), trip("c", 4), trip("d", 3))


def test_a_key_that_moves_to_another_partition(base_path: Path) -> None:
    moves = {"hoodie.index.type": "GLOBAL_SIMPLE", "hoodie.simple.index.update.partition.path": "true"}
    with client_of(base_path, **moves) as client:
        client.upsert(rows(trip("a"), trip("b"), trip("c", 1, "y")))
        client.upsert(rows(trip("a", 2, "y"), trip("c", 2, "z")))
    assert_found(base_path, trip("a", 2, "y"), trip("b"), trip("c", 2, "z"))


# --- services ---------------------------------------------------------------------------------------------------------


def test_each_state_of_compactions_cleans_and_archives(base_path: Path) -> None:
    """Compactions after every second commit, and what is cleaned and archived behind them."""
    expected: dict[str, Trip] = {}
    cleaned = archived = 0
    with client_of(base_path, **{"hoodie.compact.inline.max.delta.commits": "2"}) as client:
        for ts in range(1, 11):
            written = [trip(f"k{number}", ts) for number in range(ts, ts + 4)]
            expected.update((row[0], row) for row in written)
            client.upsert(rows(*written))
            assert_found(base_path, *expected.values())
            if client.schedule_compaction() is not None:
                client.compact()
                assert_found(base_path, *expected.values())
            done = client.clean()
            cleaned += done is not None and done.total_files_deleted > 0
            archived += client.archive() > 0
            assert_found(base_path, *expected.values())
    timeline = HoodieTableMetaClient.load(str(base_path)).archived_timeline
    assert cleaned >= 2 and archived >= 2 and timeline.filter_actions(Action.COMMIT).times


def test_rollbacks_of_pending_and_completed_delta_commits(base_path: Path) -> None:
    stored = [trip("a"), trip("b", 2)]
    with client_of(base_path) as client:
        client.upsert(rows(trip("a"), trip("b")))
        client.upsert(rows(trip("b", 2)))
    failed = client_of(base_path, auto_commit="false")
    pending = failed.start_commit()
    failed.upsert(rows(trip("a", 9), trip("new", 9)), pending)
    assert_found(base_path, *stored)
    with client_of(base_path) as client:
        client.rollback(pending)
        assert_found(base_path, *stored)
        undone = client.upsert(rows(trip("a", 8), trip("b", 8))).instant_time
        client.rollback(undone)
        assert_found(base_path, *stored)
        client.upsert(rows(trip("a", 3)))
        client.delete([HoodieKey("b", "x")])
        assert_found(base_path, trip("a", 3))
        assert client.schedule_compaction() is None or client.compact()
        client.upsert(rows(trip("b", 4)))
    assert_found(base_path, trip("a", 3), trip("b", 4))


def test_restores_over_compactions_and_delta_commits(base_path: Path) -> None:
    with client_of(base_path, **{"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        client.upsert(rows(trip("a"), trip("b")))
        saved = client.upsert(rows(trip("b", 2))).instant_time
        client.savepoint(saved)
        client.upsert(rows(trip("a", 3), trip("c", 3)))
        assert client.schedule_compaction() is not None
        client.compact()
        client.upsert(rows(trip("a", 4)))
        client.insert_overwrite(rows(trip("z", 5)))
        client.restore_to_savepoint(saved)
        assert_found(base_path, trip("a"), trip("b", 2))
        client.upsert(rows(trip("a", 6), trip("d", 6)))
    assert_found(base_path, trip("a", 6), trip("b", 2), trip("d", 6))


def test_time_travel_and_ranges_over_compactions(base_path: Path) -> None:
    """As of each commit, and from each to each, beside the rows that were written then."""
    states: list[tuple[str, list[Trip]]] = []
    expected: dict[str, Trip] = {}
    with client_of(base_path, **{"hoodie.compact.inline.max.delta.commits": "2"}) as client:
        for ts in range(1, 7):
            written = [trip(f"k{number}", ts) for number in range(ts, ts + 3)]
            expected.update((row[0], row) for row in written)
            instant_time = client.upsert(rows(*written)).instant_time
            states.append((instant_time, sorted(expected.values())))
            if client.schedule_compaction() is not None:
                client.compact()
    timeline = HoodieTableMetaClient.load(str(base_path)).active_timeline
    assert len(timeline.filter_actions(Action.COMMIT)) >= 2
    ends = {instant.requested_time: instant.completion_time for instant in timeline.completed_writes()}
    for number, (time, state) in enumerate(states):
        assert read_by_hudi_rs(base_path, at(time)) == read_trips(base_path, as_of=time) == state
        for older, _ in states[:number]:
            begin, end = ends[older] or older, ends[time] or time
            found = read_trips(base_path, query_type="incremental", begin=begin, end=end)
            first = states.index(next(entry for entry in states if entry[0] == older))
            assert found == [row for row in state if row[2] > first + 1]
            assert read_by_hudi_rs(base_path, between(begin, end)) == found


# --- what hudi-rs does not read, or in another way --------------------------------------------------------------------


def test_log_files_behind_a_planned_compaction(base_path: Path, table_version: int) -> None:
    """In version 6 they are in a slice that hudi-rs 0.5.0 does not see before the compaction is completed."""
    with client_of(base_path, **{"hoodie.compact.inline.max.delta.commits": "1"}) as client:
        client.upsert(rows(trip("a"), trip("b")))
        client.upsert(rows(trip("a", 2)))
        assert client.schedule_compaction() is not None
        client.upsert(rows(trip("b", 3)))
        expected = [trip("a", 2), trip("b", 3)]
        assert read_trips(base_path) == expected
        assert read_by_hudi_rs(base_path) == ([trip("a", 2), trip("b")] if table_version == 6 else expected)
        client.compact()
        assert_found(base_path, *expected)


def test_a_payload_class_that_is_no_merge_mode(tmp_path: Path) -> None:
    """hudi-rs 0.5.0 refuses slices with log files of merge mode CUSTOM, and of such payload classes."""
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", payload_class="FirstValueAvroPayload"))
    with client_of(base_path) as client:
        client.upsert(rows(trip("a", 5), trip("b", 5)))
        client.upsert(rows(("a", "x", 5, 9.0), trip("b", 6)))
    # Of two rows with the same ordering value the first one stays.
    assert read_trips(base_path) == [trip("a", 5), trip("b", 6)]
    with pytest.raises(Exception, match="needs its own merger|a merger of its own"):
        read_by_hudi_rs(base_path)


def test_several_ordering_fields(tmp_path: Path, table_version: int) -> None:
    """hudi-rs 0.5.0 opens no table that has them; version 6 cannot have them."""
    if table_version == 6:
        return
    base_path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", ordering_fields=["ts", "fare"]))
    with client_of(base_path) as client:
        client.upsert(rows(("a", "x", 1, 2.0), ("b", "x", 1, 1.0)))
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 3.0)))
    assert read_trips(base_path) == [("a", "x", 1, 2.0), ("b", "x", 1, 3.0)]
    with pytest.raises(Exception, match="(?i)multiple ordering fields"):
        HudiTableBuilder.from_base_uri(str(base_path)).build().read()
