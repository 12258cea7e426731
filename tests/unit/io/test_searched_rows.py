"""Rows of searched values are merged alone, and are those that a merge of all rows and a filter give."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.avro import columnar_block
from hoodie.avro.schema_converters import to_avro
from hoodie.common.data.column_values import ColumnValues
from hoodie.common.data.row_filter import RowFilter
from hoodie.common.model.file_slice import FileSlice
from hoodie.common.table.timeline.instant_range import InstantRange
from hoodie.exception import HoodieCorruptedDataException
from hoodie.io.file_group_reader import HoodieFileGroupReader, count_rows
from hoodie.io.log.data_block import LogBlockFormat, encode_data_blocks
from hoodie.io.log.delete_block import encode_delete_blocks
from hoodie.io.log.log_records import LogEntries, LogRows
from hoodie.io.merging_reader import LogMerging
from hoodie.io.parquet.parquet_reader import HoodieParquetReader
from hoodie.io.reader_context import HoodieReaderContext
from hoodie.merge.merge_spec import MergeSpec
from hoodie.storage.storage_factory import open_storage
from tests.support.log_files import write_log_file
from tests.support.log_slices import (
    BASE_INSTANT,
    SCHEMA,
    SPECS,
    USER,
    as_table,
    base_rows,
    entries_of,
    instant,
    joined,
    random_cases,
    row,
    slice_of,
    steps,
)  # fmt: skip

KEY, FIELD = "_hoodie_record_key", "id"
AVRO = to_avro(USER, "r", "n", True)


def blocks_of(entry: LogEntries, kind: LogBlockFormat, places: dict[str, int] | None = None) -> Iterator[bytes]:
    """The blocks of an entry; with positions if the place of each key is given."""
    keys = entry.rows[KEY] if isinstance(entry, LogRows) else entry.record_keys
    at: dict[str, Any] = {}
    if places is not None:
        at = {"positions": np.array([places[key] for key in keys.to_pylist()]), "positions_of": BASE_INSTANT}
    if isinstance(entry, LogRows):
        return encode_data_blocks(entry.rows, AVRO, entry.instant_time, kind, 5_000, **at)
    paths = pa.array([""] * len(keys))
    return encode_delete_blocks(keys, paths, entry.ordering, AVRO, entry.instant_time, **at)


def sliced(
    folder: Path, rows: list[dict[str, Any]] | None, entries: Sequence[LogEntries], source: random.Random,
    places: dict[str, int] | None = None,
) -> FileSlice:  # fmt: skip
    """A slice of a base file and a log file for each entry."""
    files = [
        write_log_file(
            folder, *blocks_of(entry, source.choice(list(LogBlockFormat)), places), instant_time=instant(number)
        )
        for number, entry in enumerate(entries)
    ]
    return attrs.evolve(slice_of(folder, rows), log_files=tuple(files))


def filtered(
    file_slice: FileSlice, column: str, values: Sequence[str], spec: MergeSpec, *, searches: bool, **wanted: Any
) -> list[dict[str, Any]]:
    """The rows of a slice that have one of some values."""
    row_filter = RowFilter.of(pc.field(column).isin(list(values)), SCHEMA, "t")
    searched = ColumnValues(column, pa.array(values, pa.string())) if searches else None
    context = HoodieReaderContext(
        open_storage("/"), SCHEMA, log_merging=LogMerging(spec), row_filter=row_filter, searched=searched, **wanted
    )
    reader = HoodieFileGroupReader(context, file_slice)
    found = [r for batch in reader.iter_batches() for r in batch.to_pylist()]
    assert [r for batch in reader.scan() for r in batch.to_pylist()] == found
    assert count_rows([reader]) == len(found)
    return found


@pytest.mark.parametrize("column", [KEY, FIELD])
@pytest.mark.parametrize("seed", range(6))
def test_searched_rows_are_those_of_a_filter(tmp_path: Path, seed: int, column: str) -> None:
    source = random.Random(seed)
    cases, places = random_cases(source, 600), None
    if has_positions := seed % 2 == 1:
        cases = {key: of_key for key, of_key in cases.items() if of_key and of_key[0].kind == "b"}
    rows = base_rows(cases)
    source.shuffle(rows)
    # Some keys are stored twice.
    rows += source.sample(rows, 100)
    if has_positions:
        places = {stored[KEY]: number for number, stored in enumerate(rows)}
    entries = joined(entries_of(cases), source)
    file_slice = sliced(tmp_path, None if seed == 4 else rows, entries, source, places)
    twice = [stored[KEY] for stored in rows[-100:]]
    changed = [key for key, of_key in cases.items() if len(of_key) > 1]
    total = 0
    for spec in SPECS.values():
        for count in (1, 3, 40):
            values = sorted({*source.sample(sorted(cases), count), *source.sample(twice, count), changed[count], "no"})
            wanted = {
                "columns": source.choice([None, ["val", "id"]]),
                "instant_range": source.choice([None, InstantRange(after=BASE_INSTANT)]),
            }
            right = filtered(file_slice, column, values, spec, searches=False, **wanted)
            assert filtered(file_slice, column, values, spec, searches=True, **wanted) == right
            total += len(right)
    assert total


def test_other_rows_are_neither_decoded_nor_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = {f"key{number:05d}": steps("b1 u2") for number in range(3000)}
    (entry,) = entries_of(cases)
    file_slice = sliced(tmp_path, base_rows(cases), [entry], random.Random(0))
    log_file = write_log_file(tmp_path, *blocks_of(entry, LogBlockFormat.AVRO))
    file_slice = attrs.evolve(file_slice, log_files=(log_file,))
    decoded, decode = [], columnar_block.decode_records

    def counting(avro_schema: str, content: Any, starts: Any, *rest: Any) -> Any:
        decoded.append(len(starts))
        return decode(avro_schema, content, starts, *rest)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("all rows are read")

    monkeypatch.setattr(columnar_block, "decode_records", counting)
    monkeypatch.setattr(HoodieParquetReader, "iter_batches", refuse)
    for column in (KEY, FIELD):
        decoded.clear()
        (found,) = filtered(file_slice, column, ["key01234"], SPECS["event time"], searches=True)
        assert found["val"] == "u2"
        assert decoded and sum(decoded) <= 3


def with_id(stored: dict[str, Any], value: str) -> dict[str, Any]:
    """A row whose record key is not its field's value."""
    return {**stored, FIELD: value}


def test_rows_whose_keys_are_other_values_are_merged_too(tmp_path: Path) -> None:
    """The field of a base row is x: a log row of its key gives it another value, or deletes it."""
    cases = {"a": steps("b1 u2"), "b": steps("b1 D"), "c": steps("b1"), "d": steps("b1 u2"), "x": steps("b1 u2")}
    for number, changed in enumerate(("a", "b", "c", "d", "")):
        folder = tmp_path / str(number)
        folder.mkdir()
        rows = [with_id(r, "x") if r[KEY] == changed and changed != "d" else r for r in base_rows(cases)]
        entries = []
        for entry in entries_of(cases):
            if isinstance(entry, LogRows) and changed == "d":
                given = [with_id(r, "x") if r[KEY] == "d" else r for r in entry.rows.to_pylist()]
                entry = attrs.evolve(entry, rows=as_table(given, SCHEMA).combine_chunks().to_batches()[0])
            entries.append(entry)
        file_slice = sliced(folder, rows, entries, random.Random(number))
        right = filtered(file_slice, FIELD, ["x"], SPECS["event time"], searches=False)
        assert filtered(file_slice, FIELD, ["x"], SPECS["event time"], searches=True) == right
        assert [r[KEY] for r in right] == [changed, "x"] if changed in ("c", "d") else [r[KEY] for r in right] == ["x"]


def test_a_row_that_a_log_file_moves_to_a_searched_value_meets_its_base_row(tmp_path: Path) -> None:
    """The base row of key x has another field value, and is newer than the log row that has the value x."""
    rows = [with_id(row("x", steps("b5")[0], BASE_INSTANT), "other"), row("y", steps("b1")[0], BASE_INSTANT)]
    file_slice = sliced(tmp_path, rows, entries_of({"x": steps("u2")}), random.Random(0))
    assert filtered(file_slice, FIELD, ["x"], SPECS["event time"], searches=True) == []
    (found,) = filtered(file_slice, FIELD, ["x"], SPECS["commit time"], searches=True)
    assert found["val"] == "u2"


def test_a_position_behind_the_base_file_is_an_error_of_a_search_too(tmp_path: Path) -> None:
    cases = {"a": steps("b1 u2"), "b": steps("b1")}
    file_slice = sliced(tmp_path, base_rows(cases), entries_of(cases), random.Random(0), {"a": 2})
    with pytest.raises(HoodieCorruptedDataException, match=r"has 2 rows, but log files name its row 2"):
        filtered(file_slice, KEY, ["a"], SPECS["event time"], searches=True)
