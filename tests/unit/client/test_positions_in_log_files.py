"""``hoodie.write.record.positions``: blocks of log files name rows of the base file; every reader finds the same."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient, HoodieReadClient
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.table.table_snapshot import TableSnapshot
from hoodie.index.simple import simple_index
from hoodie.index.simple.simple_index import HoodieSimpleIndex
from hoodie.io import merging_reader
from hoodie.io.log.data_block import DataBlockReader
from hoodie.io.log.delete_block import decode_delete_block
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlock, HoodieLogBlockType
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.record_positions import decode_positions
from hoodie.query.read_plan import all_columns
from hoodie.table.action.commit import incoming_keys
from tests.support.log_files import log_files_in
from tests.support.merge_on_read_table import read_by_hudi_rs
from tests.support.table_builder import SMALL_FILTERS, init_table, local_client, read_rows, rows

pytestmark = pytest.mark.table_version(9)  # Version 6 has no positions.

POSITIONS = {"hoodie.write.record.positions": "true"}
BY_KEYS = {"hoodie.merge.use.record.positions": "false"}
LOOKS_UP = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "INMEMORY")
KEYS = tuple(f"k{number:02d}" for number in range(30))

later_versions = pytest.mark.parametrize("table_version", [8, 9], indirect=True)


@pytest.fixture
def base_path(tmp_path: Path, table_version: int) -> Path:
    return Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ"))


def client_of(base_path: Path, properties: Mapping[str, str] | None = None, **given: Any) -> HoodieLocalWriteClient:
    no_compaction = {"hoodie.compact.inline": "false"}
    return local_client(base_path, {**SMALL_FILTERS, **no_compaction, **POSITIONS, **(properties or {})}, **given)


def upsert(base_path: Path, *entries: tuple[Any, ...], **properties: Any) -> None:
    with client_of(base_path, **properties) as client:
        client.upsert(rows(*entries))


def some_keys(ts: int, *numbers: int) -> list[tuple[Any, ...]]:
    return [(KEYS[number], "x", ts) for number in numbers]


def keys_of(block: HoodieLogBlock, base_path: Path) -> list[str]:
    """The record keys of a block, in its order."""
    if block.block_type is HoodieLogBlockType.DELETE:
        return [key for entries in decode_delete_block(block) for key in entries.record_keys.to_pylist()]
    schema = all_columns(TableSnapshot.load(str(base_path)).load_schema())
    found = DataBlockReader(schema, ["_hoodie_record_key"]).read(block)
    return [key for batch in found for key in batch.column(0).to_pylist()]


def blocks_in(base_path: Path) -> Iterator[tuple[Path, HoodieLogBlock]]:
    for path in log_files_in(base_path):
        for block in read_log_blocks(path.read_bytes(), str(path)):
            yield path, block


def positioned_blocks(base_path: Path) -> list[bool]:
    """Whether each block has positions; those are checked by the keys of the base file that it names."""
    found = []
    for path, block in blocks_in(base_path):
        header = block.headers.get(HeaderMetadataType.RECORD_POSITIONS)
        instant = block.headers.get(HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS)
        assert (header is None) == (instant is None)
        found.append(header is not None)
        if header is None:
            continue
        file_id = path.name[1:].partition("_")[0]
        names = [parse_base_file_name(file.name) for file in path.parent.glob(f"{file_id}*.parquet")]
        (name,) = [n for n in names if n is not None and n.instant_time == instant]
        (base_file,) = path.parent.glob(f"{file_id}_{name.write_token}_{instant}.parquet")
        keys = keys_of(block, base_path)
        stored = pq.ParquetFile(base_file).read(["_hoodie_record_key"]).column(0)
        assert stored.take(decode_positions(header, len(keys))).to_pylist() == keys
    return found


def check(base_path: Path) -> list[tuple[Any, ...]]:
    """The rows; all readers find the same."""
    found = read_rows(base_path)
    assert read_rows(base_path, options=BY_KEYS) == found
    assert read_by_hudi_rs(base_path) == found
    return found


# --- what blocks say --------------------------------------------------------------------------------------------------


@later_versions
@pytest.mark.parametrize("block_format", ["avro", "parquet"])
@pytest.mark.parametrize("index_type", LOOKS_UP)
def test_each_block_names_the_rows_of_its_records(base_path: Path, index_type: str, block_format: str) -> None:
    upsert(base_path, *some_keys(10, *range(30)), ("other", "y", 10))
    given = {"hoodie.index.type": index_type, "hoodie.logfile.data.block.format": block_format}
    with client_of(base_path, given) as client:
        client.upsert(rows(*some_keys(20, 17, 3, 29, 4), *some_keys(5, 0), ("other", "y", 20)))
    assert positioned_blocks(base_path) == [True, True]
    assert check(base_path) == [
        (key, "x", 20 if number in (3, 4, 17, 29) else 10) for number, key in enumerate(KEYS)
    ] + [("other", "y", 20)]  # fmt: skip


@later_versions
def test_deletes_have_positions_whatever_their_ordering_values(base_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()),
                        ("_hoodie_is_deleted", pa.bool_())])  # fmt: skip
    with client_of(base_path) as client:
        client.upsert(rows(*((*row, None) for row in some_keys(10, *range(30))), schema=schema))
        flagged = [(*row, True) for row in some_keys(20, 5, 2)] + [(*some_keys(1, 9)[0], True)]
        client.upsert(rows(*flagged, (*some_keys(20, 1)[0], None), schema=schema))
        client.delete([HoodieKey(KEYS[number], "x") for number in (29, 7)])
    # Rows, deletes with values, deletes without.
    assert [block.block_type.name for _, block in blocks_in(base_path)] == ["AVRO_DATA", "DELETE", "DELETE"]
    assert positioned_blocks(base_path) == [True] * 3
    assert [row[0] for row in check(base_path)] == [key for n, key in enumerate(KEYS) if n not in (2, 5, 7, 29)]


def test_all_blocks_of_a_full_file_have_their_part(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(30)))
    small = {"hoodie.logfile.data.block.max.size": "1200", "hoodie.logfile.max.size": "3000"}
    with client_of(base_path, small) as client:
        client.upsert(rows(*some_keys(20, *range(29, -1, -1))))
        client.delete([HoodieKey(key, "x") for key in KEYS[::2]])
    found = positioned_blocks(base_path)
    assert len(log_files_in(base_path)) > 2 and len(found) > 4 and all(found)
    assert check(base_path) == some_keys(20, *range(1, 30, 2))


@pytest.mark.table_version(6)
def test_version_6_has_no_such_headers(base_path: Path) -> None:
    """Hudi 0.15 fails on one of them."""
    upsert(base_path, *some_keys(10, *range(30)))
    upsert(base_path, *some_keys(20, 4))
    assert positioned_blocks(base_path) == [False]


def test_by_default_there_are_none(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(30)))
    with local_client(base_path, SMALL_FILTERS) as client:
        client.upsert(rows(*some_keys(20, 4)))
    assert positioned_blocks(base_path) == [False]


def test_a_bucket_index_knows_no_positions(base_path: Path) -> None:
    bucket = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "1"}
    with client_of(base_path, bucket) as client:
        client.bulk_insert(rows(*some_keys(10, *range(30))))
        client.upsert(rows(*some_keys(20, 4)))
    assert positioned_blocks(base_path) == [False]
    assert check(base_path) == some_keys(10, *range(4)) + some_keys(20, 4) + some_keys(10, *range(5, 30))


def test_rows_of_one_key_that_are_not_combined_have_the_position_of_the_key(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(30)))
    with client_of(base_path, combine_before_upsert="false") as client:
        client.upsert(rows(*some_keys(20, 4, 7), *some_keys(30, 4)))
    assert positioned_blocks(base_path) == [True]
    assert [row for row in check(base_path) if row[2] > 10] == [*some_keys(30, 4), *some_keys(20, 7)]


def test_a_key_that_the_base_file_holds_twice_keeps_positions_out(base_path: Path) -> None:
    """By a position only one of its rows would change."""
    with client_of(base_path, combine_before_insert="false") as client:
        client.insert(rows(*some_keys(10, 1, 2, 2, 3)))
        client.upsert(rows(*some_keys(20, 3)))
        client.upsert(rows(*some_keys(20, 2, 1)))
    assert positioned_blocks(base_path) == [True, False]
    expected = [*some_keys(20, 1, 2, 2, 3)]
    assert read_rows(base_path) == read_rows(base_path, options=BY_KEYS) == expected


def test_new_records_in_a_log_file_keep_positions_out_of_their_block_alone(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(10)))
    given = {"hoodie.index.type": "INMEMORY", "hoodie.index.inmemory.insert.into.logs": "true"}
    with client_of(base_path, given) as client:
        client.upsert(rows(*some_keys(20, 4, 11)))
        client.delete([HoodieKey(KEYS[5], "x")])
    assert positioned_blocks(base_path)[0] is False
    assert check(base_path) == sorted([*some_keys(10, 0, 1, 2, 3, 6, 7, 8, 9), *some_keys(20, 4, 11)])


def test_positions_that_the_caller_gives_are_not_stored(base_path: Path) -> None:
    """`upsert_prepped_records` checks where keys are, not at which row."""
    upsert(base_path, *some_keys(10, *range(30)))
    with HoodieReadClient(str(base_path)) as reader:
        tagged = reader.tag_location(rows(*some_keys(20, 4, 7)))
    with client_of(base_path) as client:
        client.upsert_prepped_records(tagged)
    assert positioned_blocks(base_path) == [False]
    assert [row for row in check(base_path) if row[2] > 10] == some_keys(20, 4, 7)


class MyIndex(HoodieSimpleIndex):
    """An index of a user, whose positions are compared with the keys there."""


def test_positions_of_a_users_index_are_stored_since_they_are_checked(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(30)))
    with client_of(base_path, {"hoodie.index.class": f"{__name__}.MyIndex"}) as client:
        client.upsert(rows(*some_keys(20, 4, 7)))
    assert positioned_blocks(base_path) == [True]


def test_keys_that_are_joined_by_the_engine_have_positions_too(
    base_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simple_index, "SHARED_KEY_BYTES", 0)
    monkeypatch.setattr(incoming_keys, "KEY_BYTES", 0)
    upsert(base_path, *some_keys(10, *range(30)))
    upsert(base_path, *some_keys(20, 17, 4, 7))
    assert positioned_blocks(base_path) == [True]


def test_a_record_that_does_not_fit_takes_its_position_along(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), pa.field("n", pa.int64(), nullable=False)])
    path = Path(init_table(tmp_path / "t", table_type="MERGE_ON_READ", partition_fields=[], schema=schema))
    with client_of(path, {"hoodie.write.commit.on.errors": "true"}) as client:
        client.upsert(rows(*((key, 10, 1) for key in KEYS), schema=schema))
        loose = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("n", pa.int64())])
        result = client.upsert(rows((KEYS[9], 20, 2), (KEYS[3], 20, None), (KEYS[4], 20, 2), schema=loose))
    assert result.error_count == 1
    assert positioned_blocks(path) == [True]


# --- what the table goes through --------------------------------------------------------------------------------------


@later_versions
def test_writes_beside_a_compaction_name_the_base_file_that_they_saw(base_path: Path) -> None:
    upsert(base_path, *some_keys(10, *range(30)))
    upsert(base_path, *some_keys(20, 9, 3))
    (first,) = base_path.rglob("*.parquet")
    with client_of(base_path) as client:
        client.delete([HoodieKey(KEYS[0], "x")])
        planned = client.schedule_compaction()
        client.upsert(rows(*some_keys(30, 3, 20)))
        assert planned is not None
        before = check(base_path)
        # The deleted row is gone from the new base file: all rows have other positions there.
        client.compact(planned)
    assert positioned_blocks(base_path) == [True] * 3
    assert check(base_path) == before
    assert {block.headers[HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS]
            for _, block in blocks_in(base_path)} == {first.stem.rpartition("_")[2]}  # fmt: skip
    # Such a log file may hold keys that the new base file lacks: keys are looked for in both, without positions.
    upsert(base_path, *some_keys(40, 29, 1))
    assert positioned_blocks(base_path) == [True] * 3 + [False]
    changed = {row[0]: row for row in some_keys(40, 29, 1)}
    assert check(base_path) == [changed.get(row[0], row) for row in before]
    with client_of(base_path) as client:
        client.compact(client.schedule_compaction() or "")
    upsert(base_path, *some_keys(50, 29))
    assert positioned_blocks(base_path) == [True] * 3 + [False, True]
    assert check(base_path)[-1] == some_keys(50, 29)[0]


def test_a_table_that_goes_back_has_positions_of_the_base_file_that_is_left(base_path: Path) -> None:
    with client_of(base_path) as client:
        client.upsert(rows(*some_keys(10, *range(30))))
        first = client.upsert(rows(*some_keys(20, 9, 3))).instant_time
        client.savepoint(first, "me", "")
        before = check(base_path)
        client.delete([HoodieKey(KEYS[0], "x")])
        last = client.upsert(rows(*some_keys(30, 4))).instant_time
        client.rollback(last)
        assert check(base_path) == before[1:]
        client.compact(client.schedule_compaction() or "")
        client.upsert(rows(*some_keys(40, 5, 6)))
        client.restore_to_savepoint(first)
        assert check(base_path) == before
        client.upsert(rows(*some_keys(50, 29, 0)))
    assert all(positioned_blocks(base_path))
    assert [row for row in check(base_path) if row[2] > 20] == some_keys(50, 0, 29)


def test_a_base_file_that_takes_inserts_has_positions_of_its_own(base_path: Path) -> None:
    with client_of(base_path) as client:
        client.upsert(rows(*some_keys(10, *range(5, 30))))
        # A small file without log files is rewritten.
        client.upsert(rows(*some_keys(20, *range(5), 9)))
        client.upsert(rows(*some_keys(30, 2, 8)))
    assert positioned_blocks(base_path) == [True]
    assert [row for row in check(base_path) if row[2] == 30] == some_keys(30, 2, 8)


def test_positions_outlive_a_change_of_the_schema(base_path: Path) -> None:
    wider = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("tip", pa.float64())])
    upsert(base_path, *some_keys(10, *range(30)))
    upsert(base_path, *some_keys(20, 3, 9))
    with client_of(base_path) as client:
        client.upsert(rows(*((*row, 1.5) for row in some_keys(30, 9, 1)), schema=wider))
    assert all(positioned_blocks(base_path))
    check(base_path)
    found = {row[0]: row[3] for row in read_rows(base_path, wider.names) if row[3] is not None}
    assert found == {KEYS[1]: 1.5, KEYS[9]: 1.5}


# --- with and without -------------------------------------------------------------------------------------------------


def changes(source: random.Random, client: HoodieLocalWriteClient, step: int) -> None:
    chosen = source.sample(KEYS, 9)
    kind = source.choice(["upsert", "upsert", "delete", "insert", "compact", "rollback"])
    if kind == "upsert":
        client.upsert(rows(*((key, source.choice("xy"), source.randint(0, 12)) for key in chosen)))
    elif kind == "delete":
        client.delete([HoodieKey(key, region) for key in chosen for region in "xy"])
    elif kind == "insert":
        client.insert(rows((f"n{step}", "x", 1)))
    elif kind == "compact":
        planned = client.schedule_compaction()
        if planned is not None:
            client.upsert(rows(*((key, "x", source.randint(0, 12)) for key in chosen)))
            client.compact(planned)
    else:
        client.rollback(client.upsert(rows(*((key, "x", 99) for key in chosen))).instant_time)


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.soak)])
@pytest.mark.parametrize("mode", ["EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING"])
@later_versions
def test_random_tables_have_the_same_rows_with_positions_and_without(
    tmp_path: Path, table_version: int, mode: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of the writers of the first table store positions; those of its twin do not."""
    by_position = 0
    collect = merging_reader.MergedLogRecords.collect

    def counted(self: Any, entries: Any) -> Any:
        nonlocal by_position
        collected = collect(self, entries)
        by_position += self.positions is not None
        return collected

    monkeypatch.setattr(merging_reader.MergedLogRecords, "collect", counted)
    properties = {"hoodie.record.merge.mode": mode}
    found = []
    for name in ("with", "without"):
        source = random.Random(seed)
        base_path = Path(init_table(tmp_path / name, table_type="MERGE_ON_READ", properties=properties))
        steps = []
        for step in range(8):
            index = source.choice(["SIMPLE", "SIMPLE", "BLOOM", "GLOBAL_BLOOM"]) if step else "SIMPLE"
            on = source.random() < 0.8 and name == "with"
            given = {"hoodie.index.type": index, "hoodie.write.record.positions": str(on).lower()}
            with client_of(base_path, given) as client:
                if step:
                    changes(source, client, step)
                else:
                    client.upsert(rows(*((key, "xy"[number % 2], 5) for number, key in enumerate(KEYS))))
            steps.append(check(base_path))
        assert any(positioned_blocks(base_path)) == (name == "with")
        found.append(steps)
    assert found[0] == found[1]
    assert by_position > 3
