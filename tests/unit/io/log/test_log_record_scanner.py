"""Which blocks of a slice's log files count, in which order, and what is read for them."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.common.model.file_slice import HoodieLogFile
from hoodie.common.model.record_columns import META_COLUMNS, RECORD_KEY_META
from hoodie.common.table.timeline.instant import Action, HoodieInstant, State
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.common.table.timeline.visible_instants import VisibleInstants
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieIOException,
    HoodieMissingFileException,
    HoodieNotSupportedException,
)
from hoodie.io.log import log_block_scanner
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_block import HeaderMetadataType, HoodieLogBlockType
from hoodie.io.log.log_block_filter import LogBlockFilter
from hoodie.io.log.log_block_scanner import EVERY_BLOCK, LogScanCounts
from hoodie.io.log.log_block_writer import encode_log_block, encode_rollback_block
from hoodie.io.log.log_file_reader import read_log_blocks
from hoodie.io.log.log_record_scanner import HoodieLogRecordScanner
from hoodie.io.log.log_records import LogDeletes, LogRows
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import Call, HookableStorage, storage_with
from tests.support.log_files import counted_storage, log_file, log_files_in, write_log_file

COLUMNS = pa.schema([("id", pa.string()), ("number", pa.int64())])
SCHEMA = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *COLUMNS])
AVRO = to_avro(COLUMNS, "r", "ns", with_meta_columns=True)


def data(
    instant_time: str,
    *keys: str,
    headers: dict[int, str] | None = None,
    block_format: LogBlockFormat = LogBlockFormat.AVRO,
    **options: Any,
) -> bytes:
    """A data block whose rows have these keys."""
    column = pa.array(keys, pa.string())
    numbers = pa.array(range(len(keys)), pa.int64())
    rows = pa.RecordBatch.from_arrays([column] * 6 + [numbers], schema=SCHEMA)
    (part,) = encode_data_blocks(rows, AVRO, instant_time, block_format, **options)
    return with_headers(part, headers)


def deletes(instant_time: str, *keys: str, headers: dict[int, str] | None = None, **options: Any) -> bytes:
    """A delete block of these keys."""
    column = pa.array(keys, pa.string())
    (part,) = encode_delete_blocks(column, column, None, AVRO, instant_time, **options)
    return with_headers(part, headers)


def with_headers(part: bytes, headers: dict[int, str] | None) -> bytes:
    """The same block with further headers; those with an empty text are taken away."""
    (block,) = read_log_blocks(part, "/t")
    merged = {key: text for key, text in {**block.headers, **(headers or {})}.items() if text}
    return encode_log_block(block.block_type, merged, block.content)


def compacted(instant_time: str, instants: str, *keys: str) -> bytes:
    return data(instant_time, *keys, headers={HeaderMetadataType.COMPACTED_BLOCK_TIMES: instants})


def identified(instant_time: str, attempt: int, number: int, *keys: str) -> bytes:
    return data(instant_time, *keys, headers={HeaderMetadataType.BLOCK_IDENTIFIER: f"{attempt},{number}"})


def scanner(
    files: Sequence[HoodieLogFile], block_filter: LogBlockFilter = EVERY_BLOCK, **options: Any
) -> HoodieLogRecordScanner:
    storage = options.pop("storage", None) or LocalStorage("/")
    return HoodieLogRecordScanner(storage, files, SCHEMA, block_filter=block_filter, **options)


def entries(found: HoodieLogRecordScanner) -> list[str]:
    """All records: ``+key`` of a row and ``-key`` of a delete, each with its instant."""
    told = []
    for entry in found.scan():
        if isinstance(entry, LogRows):
            told += [f"{entry.instant_time}+{key}" for key in entry.rows.column(RECORD_KEY_META).to_pylist()]
        else:
            told += [f"{entry.instant_time}-{key}" for key in entry.record_keys.to_pylist()]
    return told


def visible(**states: State) -> VisibleInstants:
    """Delta commits of a timeline of layout 1; each argument is ``t`` and a time."""
    return VisibleInstants.of(HoodieInstant(time[1:], Action.DELTA_COMMIT, state) for time, state in states.items())


# --- order ------------------------------------------------------------------------------------------------------------


def test_files_come_by_instant_version_as_a_number_and_token(tmp_path: Path) -> None:
    named = [
        ("002", 1, "0-1-0"),
        ("001", 10, "0-1-0"),
        ("001", 9, "1-1-0"),
        ("001", 9, "0-9-0"),
        ("001", 2, "0-1-0"),
    ]
    files = [
        write_log_file(
            tmp_path, data(f"1{number}", f"{time}.{version}.{token}"), instant_time=time, version=version, token=token
        )
        for number, (time, version, token) in enumerate(named)
    ]
    assert [entry.partition("+")[2] for entry in entries(scanner(files))] == [
        "001.2.0-1-0", "001.9.0-9-0", "001.9.1-1-0", "001.10.0-1-0", "002.1.0-1-0"
    ]  # fmt: skip


def test_blocks_come_in_the_order_of_their_file_and_those_of_one_instant_together(tmp_path: Path) -> None:
    first = write_log_file(tmp_path, data("11", "a", "b"), deletes("11", "a"), data("12", "c"))
    second = write_log_file(tmp_path, data("11", "d"), data("13", "e"), version=2)
    assert entries(scanner([second, first])) == ["11+a", "11+b", "11-a", "11+d", "12+c", "13+e"]


def test_both_formats_stand_beside_each_other(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, data("11", "a"), data("12", "b", block_format=LogBlockFormat.PARQUET))
    assert entries(scanner([file])) == ["11+a", "12+b"]


def test_no_files_and_files_without_blocks_have_no_records(tmp_path: Path) -> None:
    assert entries(scanner([])) == []
    assert entries(scanner([write_log_file(tmp_path), write_log_file(tmp_path, b"#HU", version=2)])) == []


def test_cdc_files_and_blocks_are_left_out(tmp_path: Path) -> None:
    change = encode_log_block(HoodieLogBlockType.CDC_DATA, {0: "11"}, b"abc")
    file = write_log_file(tmp_path, change, data("11", "a"))
    cdc_file = write_log_file(tmp_path, b"no log file", version=2, suffix=".cdc")
    assert entries(scanner([file, cdc_file])) == ["11+a"]


# --- which blocks count -----------------------------------------------------------------------------------------------


def test_blocks_of_instants_that_are_not_completed_do_not_count(tmp_path: Path) -> None:
    instants = visible(t12=State.COMPLETED, t13=State.INFLIGHT, t14=State.COMPLETED, t16=State.REQUESTED)
    parts = [data(str(time), f"at {time}") for time in range(11, 18)]
    found = entries(scanner([write_log_file(tmp_path, *parts)], LogBlockFilter.of(instants)))
    # 11 was archived; 15 and 17 are unknown.
    assert found == ["11+at 11", "12+at 12", "14+at 14"]


def test_deletes_of_instants_that_are_not_completed_do_not_count(tmp_path: Path) -> None:
    instants = visible(t12=State.COMPLETED, t13=State.INFLIGHT)
    file = write_log_file(tmp_path, deletes("12", "a"), deletes("13", "b"))
    assert entries(scanner([file], LogBlockFilter.of(instants))) == ["12-a"]


def test_a_time_travel_goes_on_behind_a_block_that_is_too_new(tmp_path: Path) -> None:
    instants = visible(t11=State.COMPLETED, t12=State.COMPLETED, t13=State.COMPLETED)
    file = write_log_file(tmp_path, data("11", "a"), data("13", "b"), data("12", "c"))
    assert entries(scanner([file], LogBlockFilter.of(instants, as_of="12"))) == ["11+a", "12+c"]


def test_a_range_leaves_out_blocks_of_other_instants(tmp_path: Path) -> None:
    instants = visible(t11=State.COMPLETED, t12=State.COMPLETED, t13=State.COMPLETED)
    file = write_log_file(tmp_path, data("11", "a"), data("12", "b"), data("13", "c"))
    for kind, expected in (
        (InstantRange(after="11", until="12"), ["12+b"]),
        (InstantRange(named=frozenset({"11", "13"})), ["11+a", "13+c"]),
        (InstantRange(), ["11+a", "12+b", "13+c"]),
    ):
        assert entries(scanner([file], LogBlockFilter.of(instants, instant_range=kind))) == expected
        later = attrs.evolve(instants, has_completion_times=True)
        assert entries(scanner([file], LogBlockFilter.of(later, instant_range=kind))) == expected


def test_later_versions_choose_whole_files_so_every_block_counts(tmp_path: Path) -> None:
    instants = attrs.evolve(visible(t12=State.COMPLETED, t13=State.INFLIGHT), has_completion_times=True)
    file = write_log_file(tmp_path, data("12", "a"), data("13", "b"))
    assert entries(scanner([file], LogBlockFilter.of(instants))) == ["12+a", "13+b"]
    # A slice may come from before an upgrade, with files of several instants.
    assert entries(scanner([file], LogBlockFilter.of(instants, as_of="12"))) == ["12+a"]


def test_a_filter_goes_to_tasks(tmp_path: Path) -> None:
    instants = visible(t12=State.COMPLETED, t13=State.INFLIGHT)
    found = LogBlockFilter.of(instants, as_of="12", instant_range=InstantRange(after="11"))
    assert pickle.loads(pickle.dumps(found)) == found


def test_a_data_block_without_an_instant_is_refused(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, data("11", "a", headers={0: ""}))
    with pytest.raises(HoodieCorruptedDataException, match=r"the block at byte 0 of .*does not tell its instant"):
        entries(scanner([file]))


# --- rollbacks --------------------------------------------------------------------------------------------------------


def test_a_rollback_takes_back_the_blocks_of_its_target_before_it(tmp_path: Path) -> None:
    first = write_log_file(tmp_path, data("11", "a"), data("12", "b"), deletes("12", "a"), data("13", "c"))
    second = write_log_file(tmp_path, encode_rollback_block("14", "12"), data("15", "d"), version=2)
    assert entries(scanner([first, second])) == ["11+a", "13+c", "15+d"]
    third = write_log_file(tmp_path, data("12", "e"), version=3)
    assert entries(scanner([first, second, third])) == ["11+a", "13+c", "15+d", "12+e"]


def test_a_rollback_counts_whatever_its_own_instant(tmp_path: Path) -> None:
    instants = visible(t11=State.COMPLETED, t12=State.COMPLETED, t13=State.COMPLETED)
    # The rollback is newer than the newest commit, but what a commit wrote behind it counts.
    file = write_log_file(
        tmp_path, data("11", "a"), data("12", "b"), encode_rollback_block("19", "12"), data("13", "c")
    )
    assert entries(scanner([file], LogBlockFilter.of(instants))) == ["11+a", "13+c"]
    assert entries(scanner([file], LogBlockFilter.of(instants, as_of="12"))) == ["11+a"]


def test_rollbacks_of_instants_without_blocks_change_nothing(tmp_path: Path) -> None:
    file = write_log_file(
        tmp_path, encode_rollback_block("12", "11"), data("11", "a"), encode_rollback_block("13", "9")
    )
    assert entries(scanner([file])) == ["11+a"]


def test_other_commands_are_refused(tmp_path: Path) -> None:
    command = with_headers(encode_rollback_block("12", "11"), {HeaderMetadataType.COMMAND_BLOCK_TYPE: "7"})
    with pytest.raises(HoodieNotSupportedException, match=r"the block at byte 0 of .*command '7'"):
        entries(scanner([write_log_file(tmp_path, command)]))
    command = with_headers(encode_rollback_block("12", "11"), {HeaderMetadataType.TARGET_INSTANT_TIME: ""})
    with pytest.raises(HoodieCorruptedDataException, match="which instant it rolls back"):
        entries(scanner([write_log_file(tmp_path, command)]))


# --- several attempts of a task ---------------------------------------------------------------------------------------


def test_blocks_of_all_attempts_of_a_task_count_the_later_ones_last(tmp_path: Path) -> None:
    first = write_log_file(tmp_path, identified("11", 0, 1, "a"), identified("11", 0, 2, "b"))
    second = write_log_file(tmp_path, identified("11", 1, 1, "a"), token="0-1-1")
    third = write_log_file(tmp_path, data("12", "c"), version=2)
    assert entries(scanner([third, second, first])) == ["11+a", "11+b", "11+a", "12+c"]


# --- log compactions --------------------------------------------------------------------------------------------------


def test_a_log_compaction_stands_where_the_newest_compacted_block_was(tmp_path: Path) -> None:
    parts = [data("11", "a"), data("12", "b"), data("13", "c"), compacted("14", "11,12", "ab"), data("15", "d")]
    assert entries(scanner([write_log_file(tmp_path, *parts)])) == ["14+ab", "13+c", "15+d"]


def test_a_log_compaction_of_log_compactions_replaces_them_all(tmp_path: Path) -> None:
    parts = [
        data("11", "a"), data("12", "b"), compacted("13", "11,12", "ab"), data("14", "c"),
        compacted("15", "13,14", "abc"), data("16", "d"),
    ]  # fmt: skip
    assert entries(scanner([write_log_file(tmp_path, *parts)])) == ["15+abc", "16+d"]
    assert entries(scanner([write_log_file(tmp_path, *parts[:4])])) == ["13+ab", "14+c"]


def test_a_log_compaction_that_was_rolled_back_or_does_not_count_replaces_nothing(tmp_path: Path) -> None:
    parts = [data("11", "a"), data("12", "b"), compacted("14", "11,12", "ab")]
    rolled_back = write_log_file(tmp_path, *parts, encode_rollback_block("15", "14"))
    assert entries(scanner([rolled_back])) == ["11+a", "12+b"]
    instants = visible(t11=State.COMPLETED, t12=State.COMPLETED, t14=State.INFLIGHT)
    file = write_log_file(tmp_path, *parts)
    assert entries(scanner([file], LogBlockFilter.of(instants))) == ["11+a", "12+b"]


def test_a_log_compaction_without_what_it_compacted_keeps_its_place(tmp_path: Path) -> None:
    parts = [data("13", "c"), compacted("14", "11,12", "ab"), data("15", "d")]
    assert entries(scanner([write_log_file(tmp_path, *parts)])) == ["13+c", "14+ab", "15+d"]


def test_a_log_compaction_that_lists_itself_or_later_blocks_is_refused(tmp_path: Path) -> None:
    for instants in ("14", "11,15"):
        file = write_log_file(tmp_path, data("11", "a"), compacted("14", instants, "b"), compacted("15", "11", "c"))
        with pytest.raises(HoodieCorruptedDataException, match="not before it"):
            entries(scanner([file]))


def test_the_log_compactions_of_a_real_table_replace_their_sources(later_tables: Path) -> None:
    found = {}
    for partition in sorted((later_tables / "v9_mor_logcompact").rglob("p?")):
        paths = log_files_in(partition)
        for file_id in {log_file(path).file_id for path in paths}:
            files = [log_file(path) for path in paths if log_file(path).file_id == file_id]
            instants = [str(block.instant_time) for block in scanner(files).blocks()]
            found[tuple(file.instant_time for file in files)] = instants
    compacted_twice = [counted for counted in found.values() if "20261122070129877" in counted]
    assert compacted_twice
    replaced = {"20261122070109684", "20261122070113444", "20261122070115568", "20261122070117776", "20261122070120621"}
    for instants in compacted_twice:
        assert not replaced & set(instants)
        assert instants == sorted(instants)


# --- positions and partial blocks -------------------------------------------------------------------------------------


def test_positions_in_the_base_file_of_the_slice_come_with_rows_and_deletes(tmp_path: Path) -> None:
    at = {"positions": np.array([3, 1]), "positions_of": "001"}
    file = write_log_file(tmp_path, data("11", "a", "b", **at), deletes("11", "c", "d", **at), data("12", "e"))
    found = list(scanner([file], base_instant_time="001").scan())
    assert [entry.positions.tolist() if entry.positions is not None else None for entry in found] == [
        [1, 3], [1, 3], None
    ]  # fmt: skip
    assert [entry.positions_of for entry in found] == ["001", "001", None]
    for other in ("002", None):
        assert {entry.positions_of for entry in scanner([file], base_instant_time=other).scan()} == {None}
        assert all(entry.positions is None for entry in scanner([file], base_instant_time=other).scan())


def test_positions_are_split_as_the_records_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hoodie.io.parquet.parquet_bytes._BATCH_ROWS", 2)
    at = {"positions": np.array([7, 8, 9, 11, 15]), "positions_of": "001"}
    rows = data("11", *"abcde", block_format=LogBlockFormat.PARQUET, **at)
    found = list(scanner([write_log_file(tmp_path, rows)], base_instant_time="001").scan())
    assert [entry.positions.tolist() for entry in found if entry.positions is not None] == [[7, 8], [9, 11], [15]]


def test_positions_that_do_not_fit_are_ignored_with_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    headers: dict[int, str] = {
        HeaderMetadataType.RECORD_POSITIONS: "AQAAAAAAAAAAAAAAOjAAAAEAAAAAAAIAEAAAAAAAAQACAA==",
        HeaderMetadataType.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS: "001",
    }
    file = write_log_file(tmp_path, data("11", "a", "b", headers=headers), data("12", "c", "d", "e", headers=headers))
    first, second = scanner([file], base_instant_time="001").scan()
    assert first.positions is None and first.positions_of is None
    assert second.positions is not None and second.positions.tolist() == [0, 1, 2]
    assert "the block at byte 0" in caplog.text and "ignored" in caplog.text


def test_a_partial_block_names_the_columns_that_it_has(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, data("11", "a", headers={HeaderMetadataType.IS_PARTIAL: "true"}), data("12", "b"))
    wide = pa.schema([*SCHEMA, ("other", pa.int64())])
    first, second = HoodieLogRecordScanner(LocalStorage("/"), [file], wide).scan()
    assert isinstance(first, LogRows) and isinstance(second, LogRows)
    assert first.partial_columns == frozenset(SCHEMA.names)
    assert first.rows.column("other").null_count == 1
    assert second.partial_columns is None


def test_partial_blocks_of_a_real_table_have_the_columns_that_were_updated(later_tables: Path) -> None:
    schema = pa.schema(
        [*(pa.field(name, pa.string()) for name in META_COLUMNS), ("fare", pa.float64()), ("ts", pa.int64()),
         ("rider", pa.string())]
    )  # fmt: skip
    partial = [
        entry
        for path in log_files_in(later_tables / "v9_sql")
        for entry in HoodieLogRecordScanner(LocalStorage("/"), [log_file(path)], schema).scan()
        if isinstance(entry, LogRows) and entry.partial_columns is not None
    ]
    assert len(partial) == 2
    for entry in partial:
        assert entry.partial_columns == frozenset({*META_COLUMNS, "fare", "ts"})
        assert entry.rows.column("fare").null_count == 0
        assert entry.rows.column("rider").null_count == entry.rows.num_rows


# --- other blocks -----------------------------------------------------------------------------------------------------


def test_hfile_blocks_are_refused_before_any_record_comes(tmp_path: Path) -> None:
    hfile = encode_log_block(HoodieLogBlockType.HFILE_DATA, {0: "12"}, b"abc")
    file = write_log_file(tmp_path, data("11", "a"), hfile)
    found = scanner([file]).scan()
    with pytest.raises(HoodieNotSupportedException, match=r"HFile block, met outside a metadata table"):
        next(found)
    instants = LogBlockFilter.of(visible(t11=State.COMPLETED))
    assert entries(scanner([file], instants)) == ["11+a"]


def test_unknown_types_of_blocks_are_refused(tmp_path: Path) -> None:
    unknown = bytearray(data("11", "a"))
    unknown[18:22] = (9).to_bytes(4, "big")
    with pytest.raises(HoodieNotSupportedException, match="has type 9"):
        entries(scanner([write_log_file(tmp_path, bytes(unknown))]))


def test_torn_blocks_are_left_out_with_a_warning_that_names_file_and_byte(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole, torn = data("11", "a"), data("12", "b")
    file = write_log_file(tmp_path, whole, torn[:-20], data("13", "c"))
    with caplog.at_level(logging.WARNING):
        assert entries(scanner([file])) == ["11+a", "13+c"]
    assert f"{file.path} is torn at byte {len(whole)}: {len(torn) - 20} bytes" in caplog.text


def test_a_file_that_ends_anywhere_keeps_the_blocks_before(tmp_path: Path) -> None:
    first, second = data("11", "a"), deletes("12", "b")
    for length in range(len(second)):
        file = write_log_file(tmp_path, first, second[:length])
        assert entries(scanner([file])) == ["11+a"]
    assert entries(scanner([write_log_file(tmp_path, first, second)])) == ["11+a", "12-b"]


def test_any_changed_byte_is_told_left_out_or_changes_one_block(tmp_path: Path) -> None:
    parts = [data("11", "a"), deletes("12", "b"), data("13", "c")]
    original = b"".join(parts)
    rng = np.random.default_rng(11)
    for place in range(0, len(original), 3):
        changed = original[:place] + bytes([original[place] ^ (1 << int(rng.integers(8)))]) + original[place + 1 :]
        try:
            found = entries(scanner([write_log_file(tmp_path, changed)]))
        except HoodieException as error:
            assert str(tmp_path) in str(error)
            continue
        if place < len(parts[0]):
            assert "12-b" in found or "13+c" in found
        elif place >= len(original) - len(parts[2]):
            assert found[:1] == ["11+a"]


# --- storage ----------------------------------------------------------------------------------------------------------


def large(instant_time: str, key: str, **options: Any) -> bytes:
    """A block of more than the reader reads at a time."""
    return data(instant_time, *(f"{key}{number:05}{'x' * 50}" for number in range(2000)), **options)


def test_contents_that_do_not_count_are_not_read(tmp_path: Path) -> None:
    parts = [large("11", "a"), large("12", "b"), large("13", "c")]
    file = write_log_file(tmp_path, *parts)
    assert len(parts[0]) > 500_000
    storage, reads = counted_storage(tmp_path)
    instants = LogBlockFilter.of(visible(t11=State.COMPLETED, t12=State.INFLIGHT, t13=State.INFLIGHT))
    assert len(entries(scanner([file], instants, storage=storage))) == 2000
    assert sum(count for _, _, count in reads) < len(parts[0]) + 1_000_000
    assert max(count for _, _, count in reads) < len(parts[0])
    reads.clear()
    assert len(entries(scanner([file], storage=storage))) == 6000
    assert max(count for _, _, count in reads) < len(parts[0])


def test_small_files_are_opened_once(tmp_path: Path) -> None:
    files = [write_log_file(tmp_path, data(f"1{n}", "a"), deletes(f"1{n}", "b"), version=n) for n in range(1, 6)]
    storage, reads = counted_storage(tmp_path)
    assert len(entries(scanner(files, storage=storage))) == 10
    assert len(reads) == 5


def test_small_contents_above_the_limit_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [write_log_file(tmp_path, data(f"1{n}", "a"), deletes(f"1{n}", "b"), version=n) for n in range(1, 6)]
    expected = entries(scanner(files))
    for limit in ("_KEPT_BYTES", "_KEPT_BYTES_OF_FILE"):
        with monkeypatch.context() as patch:
            patch.setattr(log_block_scanner, limit, 0)
            storage, reads = counted_storage(tmp_path)
            assert entries(scanner(files, storage=storage)) == expected
            assert len(reads) == 10


def test_only_one_block_is_in_memory_at_a_time(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, *(large(f"1{number}", "k") for number in range(5)))
    storage, reads = counted_storage(tmp_path)
    found = scanner([file], storage=storage).scan()
    next(found)
    seen = len(reads)
    for _ in range(4):
        next(found)
        assert len(reads) == seen + 1
        seen = len(reads)


def test_blocks_share_the_text_of_their_schema(tmp_path: Path) -> None:
    files = [write_log_file(tmp_path, data(f"1{n}", "a"), deletes(f"1{n}", "b"), version=n) for n in range(1, 4)]
    assert len({id(block.schema) for block in scanner(files).blocks()}) == 1


def test_a_missing_file_is_told_by_name(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, data("11", "a"))
    Path(file.path).unlink()
    with pytest.raises(HoodieMissingFileException, match=r"\.f-0_001\.log\.1_0-1-0 is missing"):
        entries(scanner([file]))


def test_a_file_that_goes_or_shrinks_between_headers_and_contents_is_told(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, large("11", "a"), large("12", "b"))
    path = Path(file.path)
    content = path.read_bytes()
    found = scanner([file])
    blocks = found.blocks()
    path.unlink()
    with pytest.raises(HoodieMissingFileException):
        list(found._block_scanner.loaded(blocks))
    path.write_bytes(content[:-100_000])
    with pytest.raises(HoodieIOException, match="was cut short meanwhile"):
        list(found._block_scanner.loaded(blocks))


def test_a_storage_that_fails_at_any_call_is_told_with_the_file(tmp_path: Path) -> None:
    files = [write_log_file(tmp_path, large(f"1{n}", "a"), version=n) for n in (1, 2)]
    expected = entries(scanner(files))

    def failing_at(number: int | None) -> tuple[HookableStorage, list[Call]]:
        calls: list[Call] = []

        def around(call: Call) -> Any:
            calls.append(call)
            if len(calls) == number:
                raise HoodieIOException(f"opening {call.path} failed")
            return call.apply()

        return storage_with(tmp_path, around), calls

    storage, calls = failing_at(None)
    assert entries(scanner(files, storage=storage)) == expected
    assert len(calls) == 4
    for number in range(1, 5):
        with pytest.raises(HoodieIOException, match=r"opening .*\.log\."):
            entries(scanner(files, storage=failing_at(number)[0]))


def test_a_consumer_that_stops_closes_the_file(tmp_path: Path) -> None:
    file = write_log_file(tmp_path, large("11", "a"), large("12", "b"))
    opened: list[pa.NativeFile] = []

    def around(call: Call) -> Any:
        opened.append(call.apply())
        return opened[-1]

    found = scanner([file], storage=storage_with(tmp_path, around)).scan()
    next(found)
    assert not opened[-1].closed
    found.close()  # type: ignore[attr-defined]
    assert all(stream.closed for stream in opened) and len(opened) == 2


def test_a_scan_tells_what_it_met(tmp_path: Path) -> None:
    torn = data("13", "c")[:-20]
    first = write_log_file(tmp_path, data("11", "a"), deletes("12", "b"), torn)
    second = write_log_file(tmp_path, encode_rollback_block("14", "12"), version=2)
    found = scanner([first, second, write_log_file(tmp_path, version=3, suffix=".cdc")])
    assert found.counts == LogScanCounts()
    assert entries(found) == ["11+a"]
    assert found.counts == LogScanCounts(log_files=2, log_blocks=4, corrupt_blocks=1, rollback_blocks=1)


# --- real tables ------------------------------------------------------------------------------------------------------


def test_all_slices_of_real_tables_are_scanned(shared_tables: Path, later_tables: Path) -> None:
    rows = hard = typed = 0
    for folder in (shared_tables, later_tables):
        for path in log_files_in(folder):
            schemas = [
                block.schema
                for block in read_log_blocks(path.read_bytes(), str(path))
                if block.block_type in (HoodieLogBlockType.AVRO_DATA, HoodieLogBlockType.PARQUET_DATA)
            ]
            schema = to_arrow(schemas[0], with_meta_columns=True) if schemas and schemas[0] else SCHEMA
            for entry in HoodieLogRecordScanner(LocalStorage("/"), [log_file(path)], schema).scan():
                if isinstance(entry, LogDeletes):
                    hard += entry.ordering.null_count
                    typed += len(entry.ordering) - entry.ordering.null_count
                else:
                    assert entry.rows.schema.names == schema.names
                    rows += entry.rows.num_rows
    assert rows > 1000 and hard > 200 and typed > 100


def test_deletes_tell_which_times_their_writer_counts_in_milliseconds(tmp_path: Path) -> None:
    millis = AVRO.replace(
        '"name":"number","type":["null","long"]',
        '"name":"number","type":["null",{"type":"long","logicalType":"timestamp-millis"}]',
    )
    assert "timestamp-millis" in millis
    file = write_log_file(tmp_path, deletes("11", "a", headers={HeaderMetadataType.SCHEMA: millis}), deletes("12", "b"))
    found = [entry.fields_in_millis for entry in scanner([file]).scan() if not isinstance(entry, LogRows)]
    assert found == [{"number"}, frozenset()]
