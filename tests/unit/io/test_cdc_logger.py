"""The file of changes beside a base file: images of all kinds of rows, blocks, and keys that are stored twice."""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hoodie import HoodieKey, HoodieLocalWriteClient
from hoodie.common.model.supplemental_logging_mode import HoodieCDCSupplementalLoggingMode
from hoodie.io import cdc_logger
from hoodie.io.log.log_file_reader import read_log_blocks
from tests.support.change_data import MODES, as_stored, changes_of_files, init_cdc_table, stored_changes
from tests.support.table_builder import SMALL_FILTERS, TRIPS, local_client, rows, rows_of_keys
from tests.support.timeline_files import read_commit

every_mode = pytest.mark.parametrize("mode", MODES)
KEYS = [f"key-{number:04}" for number in range(2000)]
IDS = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("fare", pa.float64()), ("alias", pa.string())])


def new_client(path: Path, **given: Any) -> HoodieLocalWriteClient:
    return local_client(path, SMALL_FILTERS, parallelism=1, **given)


def cdc_file(path: Path, instant_time: str) -> Path:
    (stat,) = (stat for stat in read_commit(path, instant_time).write_stats if stat.cdc_stats)
    (name,) = stat.cdc_stats or ()
    return path / name


@pytest.mark.usefixtures("splices_small_files")
@every_mode
def test_columns_that_are_copied_as_they_are_stored_are_in_the_images(
    tmp_path: Path, mode: HoodieCDCSupplementalLoggingMode
) -> None:
    path = init_cdc_table(tmp_path / "t", mode, partition_fields=[])

    def rows_with_alias(keys: list[str], ts: int) -> pa.Table:
        return rows_of_keys(keys, ts, fare=ts + 0.5).append_column("alias", [keys])

    with new_client(path, bulkinsert_shuffle_parallelism="1") as client:
        client.bulk_insert(rows_with_alias(KEYS, 1))
        updated = client.upsert(rows_with_alias(["key-0007", "key-1999", "new"], 2)).instant_time
        deleted = client.delete([HoodieKey("key-0007", ""), HoodieKey("key-0008", "")]).instant_time
    for instant_time, ops in ((updated, "iuu"), (deleted, "dd")):
        expected = changes_of_files(path, instant_time, IDS.names)
        assert sorted(op for op, *_ in expected) == list(ops)
        assert stored_changes(path, instant_time, IDS) == as_stored(expected, mode)


TYPES = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("ts", pa.int64()),
        ("amount", pa.decimal128(20, 3)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("local", pa.timestamp("us")),
        ("data", pa.binary()),
        ("small", pa.int32()),
        ("ratio", pa.float32()),
        ("is_good", pa.bool_()),
        ("tags", pa.list_(pa.string())),
        ("counts", pa.map_(pa.string(), pa.int32())),
        ("place", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("word", pa.dictionary(pa.int32(), pa.string())),
    ]
)
FULL = (
    "k", 1, decimal.Decimal("-2.001"), datetime.date(2020, 1, 1),
    datetime.datetime(2020, 1, 1, 2, 40, 0, 123456, datetime.UTC), datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
    b"\x00\x02\xff", -7, 1.5, True, ["a", "", None], [("a", 2)], {"x": 2, "y": "straße"}, "ü",
)  # fmt: skip
NULLS = ("k", 2, *[None] * 12)


@every_mode
def test_images_hold_values_of_all_types(tmp_path: Path, mode: HoodieCDCSupplementalLoggingMode) -> None:
    path = init_cdc_table(tmp_path / "t", mode, partition_fields=[])
    with new_client(path) as client:
        client.upsert(rows(FULL, ("other", *FULL[1:]), schema=TYPES))
        changed = client.upsert(rows(NULLS, ("new", *FULL[1:]), schema=TYPES)).instant_time
        deleted = client.delete([HoodieKey("other", "")]).instant_time
    new, other = ("new", *FULL[1:]), ("other", *FULL[1:])
    expected = [("i", "new", None, new), ("u", "k", FULL, NULLS)]
    schema = TYPES.set(TYPES.names.index("word"), pa.field("word", pa.string()))
    assert stored_changes(path, changed, schema) == as_stored(expected, mode)
    assert stored_changes(path, deleted, schema) == as_stored([("d", "other", other, None)], mode)


def test_images_have_the_columns_and_types_of_their_commit(tmp_path: Path) -> None:
    path = init_cdc_table(tmp_path / "t")
    narrow = pa.schema([("id", pa.string()), ("region", pa.string()), ("ts", pa.int64()), ("n", pa.int32())])
    wide = pa.schema([*narrow.remove(3), ("n", pa.int64()), ("more", pa.string())])
    with new_client(path) as client:
        client.upsert(rows(("a", "x", 1, 7), ("b", "x", 1, 8), schema=narrow))
        first = client.upsert(rows(("b", "x", 2, 9), schema=narrow)).instant_time
        second = client.upsert(rows(("a", "x", 2, 1 << 40, "m"), schema=wide)).instant_time
    changes = [("u", None, ("a", "x", 1, 7, None), ("a", "x", 2, 1 << 40, "m"))]
    assert stored_changes(path, second, wide) == changes
    assert stored_changes(path, first, narrow) == [("u", None, ("b", "x", 1, 8), ("b", "x", 2, 9))]
    assert stored_changes(path, first, wide) == [("u", None, ("b", "x", 1, 8, None), ("b", "x", 2, 9, None))]


def test_the_image_after_a_partial_update_is_the_merged_row(tmp_path: Path) -> None:
    path = init_cdc_table(tmp_path / "t")
    with new_client(path) as client:
        client.upsert(rows(("a", "x", 1, 1.5)))
    with new_client(path, **{"hoodie.write.partial.update": True}) as client:
        changed = client.upsert(rows(("a", "x", 2))).instant_time
    assert stored_changes(path, changed) == [("u", None, ("a", "x", 1, 1.5), ("a", "x", 2, 1.5))]


@every_mode
def test_a_key_that_is_stored_twice_has_one_change(tmp_path: Path, mode: HoodieCDCSupplementalLoggingMode) -> None:
    path = init_cdc_table(tmp_path / "t", mode)
    with new_client(path) as client:
        client.bulk_insert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), ("a", "x", 1, 2.0)))
        updated = client.upsert(rows(("a", "x", 2, 3.0), ("b", "x", 2, 3.0))).instant_time
        found = stored_changes(path, updated)
        deleted = client.delete([HoodieKey("a", "x"), HoodieKey("b", "x")]).instant_time
    after = {key: (key, "x", 2, 3.0) for key in "ab"}
    expected = [("u", "a", ("a", "x", 1, 2.0), after["a"]), ("u", "b", ("b", "x", 1, 1.0), after["b"])]
    assert found == as_stored(expected, mode)
    assert stored_changes(path, deleted) == as_stored([("d", key, after[key], None) for key in "ab"], mode)


@every_mode
def test_many_changes_are_written_in_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: HoodieCDCSupplementalLoggingMode
) -> None:
    monkeypatch.setattr(cdc_logger, "_BUFFERED_BYTES", 10_000)
    path = init_cdc_table(tmp_path / "t", mode, partition_fields=[])
    columns = IDS.remove(3)
    with new_client(path) as client:
        client.bulk_insert(rows_of_keys(KEYS, 1, fare=1.0))
        changed = client.upsert(rows_of_keys(["n", *KEYS[:1500]], 2, fare=2.0)).instant_time
    file = cdc_file(path, changed)
    assert len(list(read_log_blocks(file.read_bytes(), file.name))) > 1
    expected = changes_of_files(path, changed, columns.names)
    assert len(expected) == 1501
    assert stored_changes(path, changed, columns) == as_stored(expected, mode)


def test_a_merge_without_changes_stores_a_block_without_changes(tmp_path: Path) -> None:
    path = init_cdc_table(tmp_path / "t")
    with new_client(path) as client:
        client.upsert(rows(("a", "x", 2, 1.0)))
        losing = client.upsert(rows(("a", "x", 1, 2.0))).instant_time
    assert stored_changes(path, losing) == []
    file = cdc_file(path, losing)
    (block,) = read_log_blocks(file.read_bytes(), file.name)
    assert block.block_type.name == "CDC_DATA"


def test_a_row_that_does_not_fit_is_no_change(tmp_path: Path) -> None:
    schema = pa.schema([*TRIPS.remove(3), pa.field("fare", pa.float64(), nullable=False)])
    path = init_cdc_table(tmp_path / "t", schema=schema)
    with new_client(path, **{"hoodie.write.commit.on.errors": True}) as client:
        client.upsert(rows(("a", "x", 1, 1.0), ("b", "x", 1, 1.0), schema=schema))
        result = client.upsert(rows(("a", "x", 2, None), ("b", "x", 2, 2.0), ("c", "x", 2, None)))
    assert result.error_count == 2
    assert stored_changes(path, result.instant_time) == [("u", None, ("b", "x", 1, 1.0), ("b", "x", 2, 2.0))]


def test_rows_that_are_marked_as_deleted_are_deletes(tmp_path: Path) -> None:
    path = init_cdc_table(tmp_path / "t")
    schema = TRIPS.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    with new_client(path) as client:
        client.upsert(rows(("a", "x", 1, 1.0, False), ("b", "x", 1, 1.0, False), schema=schema))
        changed = client.upsert(
            rows(("a", "x", 2, 9.0, True), ("b", "x", 0, 9.0, True), ("c", "x", 2, 9.0, True), schema=schema)
        ).instant_time
    assert stored_changes(path, changed, schema) == [("d", None, ("a", "x", 1, 1.0, False), None)]
