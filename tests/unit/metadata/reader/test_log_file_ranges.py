"""A task that writes a log file knows the ranges of columns that a reader of the file finds."""

from __future__ import annotations

from pathlib import Path

import attrs
import pyarrow as pa
import pytest

from hoodie.avro.schema_converters import fields_in_millis, to_arrow, to_avro
from hoodie.common.model.column_range import StoredColumnRanges, WrittenColumnRanges
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.io.log.data_block import encode_data_blocks
from hoodie.metadata import metadata_table, validate
from hoodie.metadata.reader.log_file_ranges import LogFileRanges
from hoodie.metadata.reader.stored_column_ranges import load_stored_column_ranges
from hoodie.metadata.writer.table_metadata_writer import HoodieBackedTableMetadataWriter
from hoodie.storage.local_storage import LocalStorage
from tests.support.hookable_storage import hooked
from tests.support.table_builder import init_table, local_client, read_rows, rows

LOG = ".f_20260101000000000.log.1_0-0-0"
COLUMNS = ("i", "n", "f", "z", "s", "d", "t", "g.x", "_hoodie_partition_path")
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("n", pa.int32()),
        ("f", pa.float64()),
        ("z", pa.float32()),
        ("s", pa.string()),
        ("d", pa.decimal128(12, 3)),
        ("t", pa.timestamp("us", tz="UTC")),
        ("g", pa.struct([("x", pa.int64())])),
    ]
)
STATISTICS = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "BUCKET",
    "hoodie.bucket.index.num.buckets": "2",
}


PARQUET = {"hoodie.logfile.data.block.format": "parquet"}


def batch_of(**values: pa.Array) -> pa.RecordBatch:
    """A batch as a handle stores it: meta columns as dictionaries of one value, integers that may be narrower."""
    count = len(next(iter(values.values())))
    same = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["p"]))
    columns = {field.name: values.get(field.name, pa.nulls(count, field.type)) for field in SCHEMA}
    return pa.RecordBatch.from_pydict({**dict.fromkeys(META_COLUMNS, same), **columns})


@pytest.mark.parametrize("version", [6, 8, 9])
def test_ranges_of_written_rows_are_those_of_the_file(tmp_path: Path, version: int) -> None:
    parts = [
        batch_of(
            i=pa.array([3, None, 2], pa.int16()),
            f=pa.array([-0.0, 0.0, None]),
            z=pa.array([1.5, float("nan"), -2.0], pa.float32()),
            s=pa.array(["b", "a", None]).dictionary_encode(),
            t=pa.array([-5, 7, None], pa.int64()).cast(pa.timestamp("us", tz="Europe/Rome")),
            g=pa.array([{"x": 4}, None, {"x": None}], pa.struct([("x", pa.int64())])),
        ),
        batch_of(
            i=pa.array([-9], pa.int64()),
            f=pa.array([0.0]),
            s=pa.array(["ä"], pa.large_string()),
            d=pa.array([None], pa.decimal128(12, 3)),
        ),
    ]
    avro = to_avro(SCHEMA, "t", "n", with_meta_columns=True)
    stored = to_arrow(avro, with_meta_columns=True)
    ranges = LogFileRanges(stored, COLUMNS, version, fields_in_millis(avro))
    written: WrittenColumnRanges | None = None
    content = b""
    for part in parts:
        content += b"".join(encode_data_blocks(part, avro, "20260101000000001"))
        written = ranges.of_rows(part, written)
    (tmp_path / LOG).write_bytes(content)
    found = load_stored_column_ranges(LocalStorage("/"), str(tmp_path / LOG), version, COLUMNS)
    assert written is not None
    # As text: NaN is not equal to itself, and 0.0 is equal to -0.0.
    assert repr(written.of_columns(COLUMNS, version)) == repr(found)
    assert found is not None
    assert found.row_count == 4
    assert {one.column_name for one in found.ranges} == set(COLUMNS)


def test_ranges_of_other_columns_or_of_another_form_are_not_known() -> None:
    written = WrittenColumnRanges(("a", "b"), 9, StoredColumnRanges(3, ()))
    assert written.of_columns(["b"], 9) == StoredColumnRanges(3, ())
    assert written.of_columns(["b", "c"], 9) is None
    assert written.of_columns(["b"], 8) is None


def trips_table(path: Path) -> str:
    base = init_table(path, table_type="MERGE_ON_READ", table_version=9)
    with local_client(base, STATISTICS) as client:
        client.bulk_insert(rows(("a", "x", 1), ("b", "x", 5), ("c", "y", 3)))
    return base


def opened_by_an_upsert(base: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The log files of the table that an upsert of two file groups opens."""
    opened: list[str] = []

    def hook(name: str, path: str) -> None:
        if name in ("open", "read") and ".log." in path and "/metadata/" not in path:
            opened.append(path)

    with hooked(monkeypatch, hook), local_client(base, STATISTICS) as client:
        result = client.upsert(rows(("a", "x", 9), ("d", "x", 2), ("c", "y", -7)))
    assert {status.stat.path.rpartition(".log.")[1] for status in result.statuses} == {".log."}
    return opened


def test_a_commit_does_not_read_the_log_files_that_its_tasks_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = trips_table(tmp_path / "t")
    assert opened_by_an_upsert(base, monkeypatch) == []
    assert len(read_rows(base)) == 4
    assert validate(base).is_right


def test_a_commit_reads_log_files_of_whose_columns_the_tasks_do_not_know_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = trips_table(tmp_path / "t")
    make = HoodieBackedTableMetadataWriter.log_file_ranges

    def fewer(writer: HoodieBackedTableMetadataWriter, avro_schema: str) -> LogFileRanges:
        whole = make(writer, avro_schema)
        return attrs.evolve(whole, columns=whole.columns[:2])

    monkeypatch.setattr(HoodieBackedTableMetadataWriter, "log_file_ranges", fewer)
    assert opened_by_an_upsert(base, monkeypatch)
    assert validate(base).is_right


@pytest.mark.parametrize("properties", [{"hoodie.metadata.index.column.stats.enable": "false"}, PARQUET])
def test_tasks_look_for_no_ranges_that_nobody_needs(tmp_path: Path, properties: dict[str, str]) -> None:
    base = trips_table(tmp_path / "t")
    with local_client(base, {**STATISTICS, **properties}) as client:
        result = client.upsert(rows(("a", "x", 9)))
    assert [status.column_ranges for status in result.statuses] == [None]


def test_tasks_tell_the_ranges_of_rows_and_not_those_of_deletes(tmp_path: Path) -> None:
    base = trips_table(tmp_path / "t")
    with local_client(base, STATISTICS) as client:
        (status,) = client.upsert(rows(("a", "x", 9))).statuses
        (deleted,) = client.delete(rows(("a", "x", 10))).statuses
    assert status.column_ranges is not None
    found = {one.column_name: one for one in status.column_ranges.found.ranges}
    assert (found["ts"].min_value, found["ts"].max_value) == (9, 9)
    assert (found["id"].min_value, found["id"].max_value) == (b"a", b"a")
    assert deleted.column_ranges is None
    assert validate(base).is_right


def test_long_texts_stay_with_the_task(tmp_path: Path) -> None:
    base = trips_table(tmp_path / "t")
    with local_client(base, STATISTICS) as client:
        (status,) = client.upsert(rows(("a" * 9000, "x", 9))).statuses
    assert status.column_ranges is None
    assert validate(base).is_right


def test_ranges_of_many_columns_are_read_by_the_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata_table, "MOST_TOLD_COLUMNS", 2)
    base = trips_table(tmp_path / "t")
    assert opened_by_an_upsert(base, monkeypatch)
    assert validate(base).is_right
