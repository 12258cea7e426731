from __future__ import annotations

import datetime
import decimal
import gc
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.bloom.bloom_filter import DynamicBloomFilter, SimpleBloomFilter
from hoodie.common.config.storage_config import HoodieStorageConfig, ParquetCompression
from hoodie.common.model.record_columns import META_COLUMNS
from hoodie.exception import HoodieException, HoodieIOException, HoodieKeyException, HoodieSchemaException
from hoodie.io.parquet import parquet_writer
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, read_footer
from hoodie.io.parquet.parquet_writer import HoodieParquetWriter, writer_options
from hoodie.io.parquet.splicing import StoredChunks, column_chunks, splicing_writer
from hoodie.io.parquet.splicing.splicing_writer import LEAST_SPLICED_BYTES
from hoodie.storage.storage_factory import open_storage

pytestmark = pytest.mark.usefixtures("splices_small_files")

META = [pa.field(name, pa.string()) for name in META_COLUMNS]
SCHEMA = pa.schema([*META, pa.field("n", pa.int64()), pa.field("city", pa.string())])
INSTANT = "20240101000000000"
KEY_COLUMNS = ["_hoodie_record_key", "city"]


def constant(value: str, count: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, dtype=np.int32)), pa.array([value]))


def rows(keys: list[str | None], commit_time_as_dictionary: bool = True) -> pa.RecordBatch:
    count = len(keys)
    commit_time = constant(INSTANT, count)
    return pa.RecordBatch.from_arrays(
        [
            commit_time if commit_time_as_dictionary else commit_time.cast(pa.string()),
            pa.array([f"{INSTANT}_0_{number}" for number in range(count)], pa.string()),
            pa.array(keys, pa.string()),
            constant("p=1", count),
            constant("f.parquet", count),
            pa.array(range(count), pa.int64()),
            pa.array(["Rome", "Oslo"] * count, pa.string())[:count],
        ],
        names=SCHEMA.names,
    )


def new_filter() -> DynamicBloomFilter:
    return DynamicBloomFilter.create(1000, 0.001, 5000)


def open_writer(path: Path, settings: HoodieStorageConfig | None = None, **arguments: object) -> HoodieParquetWriter:
    options = {"bloom_filter": new_filter(), "avro_schema": '{"type": "record"}', "path": str(path), **arguments}
    return HoodieParquetWriter(pa.OSFile(str(path), "w"), SCHEMA, settings or HoodieStorageConfig(), **options)


def footer(path: Path):
    return read_footer(open_storage(str(path.parent)), str(path))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.parquet"


def test_a_file_holds_its_rows_as_plain_strings_and_hudis_footer(path: Path) -> None:
    writer = open_writer(path)
    writer.write(rows(["b", "a"]))
    writer.write(rows(["d", "c"]))
    assert (writer.close(), writer.rows_written) == (path.stat().st_size, 4)
    assert footer(path).key_range == KeyRange("a", "d")
    table = pq.read_table(path)
    assert table.schema == SCHEMA
    assert table.column("_hoodie_record_key").to_pylist() == ["b", "a", "d", "c"]
    assert set(table.column("_hoodie_file_name").to_pylist()) == {"f.parquet"}
    entries = pq.read_metadata(path).metadata
    expected = new_filter()
    expected.add(pa.array(["b", "a", "d", "c"]))
    assert entries == {
        b"org.apache.hudi.bloomfilter": expected.to_base64().encode(),
        b"hoodie_bloom_filter_type_code": b"DYNAMIC_V0",
        b"hoodie_min_record_key": b"a",
        b"hoodie_max_record_key": b"d",
        b"parquet.avro.schema": b'{"type": "record"}',
        b"writer.model.name": b"avro",
    }


def test_the_oldest_supported_pyarrow_writes_files_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # concat_batches came with pyarrow 19.
    monkeypatch.delattr(pa, "concat_batches", raising=False)
    writer = open_writer(path)
    writer.write(rows(["b", "a"]))
    writer.write(rows(["d", "c"], commit_time_as_dictionary=False))
    writer.close()
    assert pq.read_table(path).column("_hoodie_record_key").to_pylist() == ["b", "a", "d", "c"]


def test_a_simple_filter_has_no_type_code(path: Path) -> None:
    with open_writer(path, bloom_filter=SimpleBloomFilter.create(10, 0.01)) as writer:
        writer.write(rows(["a"]))
        writer.close()
    assert b"hoodie_bloom_filter_type_code" not in pq.read_metadata(path).metadata
    assert footer(path).bloom_filter.might_contain(pa.array(["a"])).all()


def test_without_meta_fields_there_is_neither_filter_nor_range(path: Path) -> None:
    writer = open_writer(path, bloom_filter=None)
    writer.write(rows([None, None]))
    writer.close()
    assert footer(path).min_record_key is None
    assert set(pq.read_metadata(path).metadata) == {b"parquet.avro.schema", b"writer.model.name"}


def test_a_file_without_rows_is_a_file(path: Path) -> None:
    writer = open_writer(path)
    writer.close()
    assert (writer.rows_written, footer(path).min_record_key) == (0, None)
    assert pq.read_table(path).schema == SCHEMA
    assert footer(path).key_range is None and footer(path).bloom_filter is not None


def test_columns_are_stored_as_every_hudi_release_reads_them(path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    values = {
        "amount": pa.array([decimal.Decimal("1.50")], pa.decimal128(10, 2)),
        "at": pa.array([moment], pa.timestamp("us", "UTC")),
        "local": pa.array([moment], pa.timestamp("us")),
        "day": pa.array([moment.date()], pa.date32()),
        "tags": pa.array([["a", None]], pa.list_(pa.string())),
        "map": pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int32())),
        "struct": pa.array([{"x": 1, "y": ["z"]}], pa.struct([("x", pa.int32()), ("y", pa.list_(pa.string()))])),
    }
    schema = pa.schema([*META, *(pa.field(name, array.type) for name, array in values.items())])
    meta = [pa.array(["k"]) for _ in META]
    writer = HoodieParquetWriter(
        pa.OSFile(str(path), "w"), schema, HoodieStorageConfig(), bloom_filter=new_filter(), avro_schema=None
    )
    writer.write(pa.RecordBatch.from_arrays([*meta, *values.values()], names=schema.names))
    writer.close()
    file = pq.ParquetFile(path)
    columns = {file.schema.column(index).path: file.schema.column(index) for index in range(len(file.schema))}
    assert (columns["amount"].physical_type, columns["amount"].length) == ("FIXED_LEN_BYTE_ARRAY", 5)
    assert columns["at"].physical_type == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in str(columns["at"].logical_type)
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in str(columns["local"].logical_type)
    assert {"tags.list.element", "map.key_value.key", "map.key_value.value", "struct.y.list.element"} <= set(columns)
    assert file.metadata.format_version == "1.0"
    assert b"ARROW:schema" not in (file.metadata.metadata or {})
    read = pq.read_table(path)
    for name, array in values.items():
        assert read.column(name).to_pylist() == array.to_pylist()


def test_columns_that_repeat_become_dictionaries_and_keys_never_do(path: Path) -> None:
    writer = open_writer(path)
    writer.write(rows([f"k{number}" for number in range(500)], commit_time_as_dictionary=False))
    writer.close()
    group = pq.read_metadata(path).row_group(0)
    has_dictionary = {group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(len(SCHEMA))}
    assert has_dictionary == {
        "_hoodie_commit_time": True,
        "_hoodie_commit_seqno": False,
        "_hoodie_record_key": False,
        "_hoodie_partition_path": True,
        "_hoodie_file_name": True,
        "n": False,
        "city": True,
    }


def test_dictionaries_can_be_switched_off(path: Path) -> None:
    writer = open_writer(path, HoodieStorageConfig(parquet_dictionary_enabled=False))
    writer.write(rows(["a"] * 50, commit_time_as_dictionary=False))
    writer.close()
    group = pq.read_metadata(path).row_group(0)
    plain = {"_hoodie_commit_time", "city"}
    assert not any(group.column(i).has_dictionary_page for i in range(7) if group.column(i).path_in_schema in plain)
    assert pq.read_table(path).column("city").to_pylist() == ["Rome", "Oslo"] * 25


@pytest.mark.parametrize("dictionary_first", [True, False])
def test_batches_with_and_without_dictionaries_mix(path: Path, dictionary_first: bool) -> None:
    writer = open_writer(path, HoodieStorageConfig(parquet_block_size=1))
    writer.write(rows(["a"], commit_time_as_dictionary=dictionary_first))
    writer.write(rows(["b"], commit_time_as_dictionary=not dictionary_first))
    writer.close()
    table = pq.read_table(path)
    assert table.column("_hoodie_commit_time").to_pylist() == [INSTANT, INSTANT]
    assert pq.read_metadata(path).num_row_groups == 2


def keyed(keys: list[str], ids: list[str] | None = None) -> pa.RecordBatch:
    """Rows whose column ``city`` is the record key, or ``ids``."""
    batch = rows(keys)
    return batch.set_column(6, "city", pa.array(ids or keys, pa.string()))


def chunk_places(path: Path, group: int = 0) -> dict[str, tuple[int, int]]:
    columns = pq.read_metadata(path).row_group(group).to_dict()["columns"]
    return {
        column["path_in_schema"]: (column["data_page_offset"], column["total_compressed_size"]) for column in columns
    }


def test_a_column_that_is_the_record_key_is_encoded_once_and_read_like_any_other(path: Path) -> None:
    keys = [f"key {number}" for number in range(5000)]
    with open_writer(path) as writer:
        writer.write(keyed(keys[:3000]))
        writer.write(keyed(keys[3000:]))
        writer.flush()
        writer.write(keyed(["a", "b"], ["other", "value"]))
        writer.close()
    table = pq.read_table(path)
    assert table.schema == SCHEMA
    assert table["_hoodie_record_key"].to_pylist() == [*keys, "a", "b"]
    assert table["city"].to_pylist() == [*keys, "other", "value"]
    assert table["n"].to_pylist() == [*range(3000), *range(2000), 0, 1]
    data, places = path.read_bytes(), chunk_places(path)
    (first, length), (second, its_length) = places["_hoodie_record_key"], places["city"]
    assert data[first : first + length] == data[second : second + its_length]
    assert footer(path).key_range == KeyRange("a", "key 999")


def test_a_small_file_is_written_by_pyarrow_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splicing_writer, "LEAST_SPLICED_BYTES", LEAST_SPLICED_BYTES)
    orders = []
    for count in (100, 20_000):
        with open_writer(path) as writer:
            writer.write(keyed([f"key {number}" for number in range(count)]))
            writer.close()
        places = chunk_places(path)
        orders.append(sorted(places, key=lambda name: places[name][0]))
    small, large = orders
    assert small == SCHEMA.names
    assert large == [*(name for name in SCHEMA.names if name not in KEY_COLUMNS), *KEY_COLUMNS]


@pytest.mark.parametrize("distinct", [1, 3, 12])
def test_long_values_are_written_in_pages_of_some_megabytes(path: Path, distinct: int, monkeypatch) -> None:
    monkeypatch.setattr(column_chunks, "_PAGE_OF_LONG_VALUES", 1 << 20)
    monkeypatch.setattr(parquet_writer, "_LARGE_SAMPLE", 1 << 20)
    values = [None if number == 5 else str(number % distinct) * 400_000 for number in range(12)]
    batch = keyed([f"key {number}" for number in range(12)]).set_column(6, "city", pa.array(values))
    with open_writer(path, HoodieStorageConfig(parquet_compression_codec=ParquetCompression.NONE)) as writer:
        writer.write(batch.slice(0, 7))
        writer.write(batch.slice(7))
        writer.close()
    assert pq.read_table(path)["city"].to_pylist() == values
    chunk = pq.read_metadata(path).row_group(0).column(6)
    # With None, 2 of 12, 4 of 12 and 12 of 12 values are distinct.
    assert chunk.has_dictionary_page is (distinct == 1)
    with HoodieParquetReader(open_storage(str(path.parent)), str(path)) as reader:
        counts = [batch.num_rows for batch in reader.iter_batches(["city"], SCHEMA)]
    assert sum(counts) == 12


def test_a_column_that_begins_and_ends_like_the_record_key_is_its_own(path: Path) -> None:
    with open_writer(path) as writer:
        writer.write(keyed(["a", "b", "c"], ["a", "x", "c"]))
        writer.close()
    assert pq.read_table(path)["city"].to_pylist() == ["a", "x", "c"]


def test_kept_columns_are_copied_and_new_rows_follow(path: Path, tmp_path: Path) -> None:
    keys = [f"key {number}" for number in range(3000)]
    with open_writer(path) as writer:
        writer.write(keyed(keys))
        writer.close()
    old = HoodieParquetReader(open_storage(str(tmp_path)), str(path)).open().stored_columns()
    names = ["_hoodie_record_key", "city"]
    kept = old.chunks(0, names)
    new = tmp_path / "new.parquet"
    with open_writer(
        new, HoodieStorageConfig(parquet_block_size=1000), stored_keys=KeyRange("key 0", "key 999")
    ) as writer:
        writer.keep_apart(names)
        writer.start_row_group(kept)
        placeholders = {2: constant("", 1000), 6: constant("", 1000)}
        for start in range(0, 3000, 1000):
            batch = keyed(keys[start : start + 1000])
            for place, column in placeholders.items():
                batch = batch.set_column(place, names[place // 6], column)
            writer.write(batch)
        writer.write(keyed(["new 1", "new 2"]))
        estimated = writer.estimated_size_bytes
        writer.close()
    table = pq.read_table(new)
    assert table["_hoodie_record_key"].to_pylist() == [*keys, "new 1", "new 2"]
    assert table["city"].to_pylist() == [*keys, "new 1", "new 2"]
    assert table["n"].to_pylist() == [*range(1000)] * 3 + [0, 1]
    # The row group had all kept rows before it ended, however small its limit is.
    assert [pq.read_metadata(new).row_group(number).num_rows for number in range(2)] == [3000, 2]
    assert abs(estimated - new.stat().st_size) < 0.1 * new.stat().st_size


def test_kept_columns_must_have_been_kept_apart_and_have_all_rows(path: Path, tmp_path: Path) -> None:
    with open_writer(path) as writer:
        writer.write(rows(["a", "b"]))
        writer.close()
    old = HoodieParquetReader(open_storage(str(tmp_path)), str(path)).open().stored_columns()
    kept = old.chunks(0, ["_hoodie_record_key"])
    with open_writer(tmp_path / "new.parquet") as writer:
        with pytest.raises(HoodieException, match="kept apart"):
            writer.start_row_group(kept)
        writer.keep_apart(["_hoodie_record_key"])
        with pytest.raises(HoodieException, match="kept apart"):
            writer.start_row_group(StoredChunks())
        writer.start_row_group(kept)
        writer.write(rows(["a"]))
        with pytest.raises(HoodieException, match="2 rows whose columns are kept are missing"):
            writer.flush()


def test_row_groups_end_at_their_size_or_when_asked_for(path: Path) -> None:
    batch = rows(["a", "b"])
    writer = open_writer(path, HoodieStorageConfig(parquet_block_size=2 * batch.nbytes))
    for _ in range(3):
        writer.write(batch)
    assert writer.buffered_bytes == batch.nbytes
    writer.flush()
    assert writer.buffered_bytes == 0
    writer.write(batch)
    assert writer.rows_written == 8
    writer.close()
    metadata = pq.read_metadata(path)
    assert [metadata.row_group(number).num_rows for number in range(3)] == [4, 2, 2]


def test_the_size_is_estimated_near_the_truth_before_and_after_row_groups(path: Path) -> None:
    writer = open_writer(path)
    batch = rows([f"{number:036d}" for number in range(70_000)])
    writer.write(batch)
    before = writer.estimated_size_bytes
    writer.flush()
    written = writer.estimated_size_bytes
    assert written > 100_000
    assert 0.5 * written < before < 2 * written
    writer.write(batch)
    assert 1.8 * written < writer.estimated_size_bytes < 2.2 * written
    assert writer.close() == writer.estimated_size_bytes


def uneven_rows(seed: int, compressible: bool, count: int = 3000) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    keys = ["".join(map(chr, rng.integers(97, 123, 200))) for _ in range(8)] if compressible else None
    random = rng.integers(97, 123, (count, 200), dtype=np.uint8)
    return rows([keys[i % 8] + str(i) for i in range(count)] if keys else [bytes(row).decode() for row in random])


@pytest.mark.parametrize("order", [(True, False), (False, True), (False, False), (True, True)])
def test_a_file_is_filled_to_the_wanted_size_whatever_its_rows_are_like(path: Path, order: tuple[bool, bool]) -> None:
    limit = 2_000_000
    writer = open_writer(path)
    number = 0
    while True:
        batch = uneven_rows(number, order[0] if writer.estimated_size_bytes < limit / 2 else order[1])
        fitting = writer.rows_that_fit(batch, limit)
        assert 0 <= fitting <= batch.num_rows
        if not fitting:
            break
        writer.write(batch.slice(0, fitting))
        number += 1
    size = writer.close()
    assert 0.9 * limit < size < 1.05 * limit
    assert pq.read_metadata(path).num_row_groups <= 6


def test_a_bloom_filter_that_grows_is_foreseen(path: Path) -> None:
    limit = 1_000_000
    writer = open_writer(path, bloom_filter=DynamicBloomFilter.create(1000, 1e-9))
    number = 0
    while fitting := writer.rows_that_fit(batch := rows([f"{number + i:09d}" for i in range(40_000)]), limit):
        writer.write(batch.slice(0, fitting))
        number += fitting
    assert 0.85 * limit < writer.close() < 1.05 * limit


def test_an_empty_file_takes_a_row_however_small_it_is_to_be(path: Path) -> None:
    writer = open_writer(path)
    batch = rows(["a", "b"])
    assert writer.rows_that_fit(batch, 1) == 1
    writer.write(batch.slice(0, 1))
    assert writer.rows_that_fit(batch.slice(1), 1) == 0
    writer.close()


def test_a_merge_adds_only_new_keys_to_the_old_filter_and_range(path: Path) -> None:
    old = new_filter()
    old.add(pa.array(["b", "x"]))
    expected = new_filter()
    expected.add(pa.array(["b", "x", "a"]))
    writer = open_writer(path, bloom_filter=old, stored_keys=KeyRange("b", "x"))
    # Old rows are not looked at: a key that would change filter and range does not.
    writer.write(rows(["b", "z"]))
    writer.write(rows(["a"]), keys=pa.array(["a"]))
    writer.close()
    assert footer(path).key_range == KeyRange("a", "x")
    assert footer(path).bloom_filter.to_bytes() == expected.to_bytes()


def test_without_an_old_range_the_range_covers_all_rows_whatever_keys_are_named(path: Path) -> None:
    writer = open_writer(path)
    writer.write(rows(["c", "a"]), keys=pa.array(["c"]))
    writer.close()
    assert footer(path).min_record_key == "a"


def test_keys_are_ordered_as_java_orders_strings() -> None:
    emoji, full_width = "\U0001f600", "\uff21"
    assert KeyRange.of(pa.array([full_width, emoji])) == KeyRange(emoji, full_width)
    assert KeyRange.of(pa.array(["b", "\u00e9", "a", "c"]).slice(1)) == KeyRange("a", "\u00e9")
    assert KeyRange(emoji, emoji).union(KeyRange(full_width, full_width)) == KeyRange(emoji, full_width)
    assert KeyRange.of(pa.array([], pa.string())) is None


def test_null_keys_are_refused(path: Path) -> None:
    with open_writer(path) as writer, pytest.raises(HoodieKeyException):
        writer.write(rows(["a", None]))


@pytest.mark.parametrize("change", ["missing column", "type", "null"])
def test_batches_that_do_not_fit_are_refused(path: Path, change: str) -> None:
    schema = SCHEMA.set(5, pa.field("n", pa.int64(), nullable=False))
    batch = rows(["a"])
    if change == "missing column":
        batch = batch.drop_columns(["city"])
    else:
        bad = pa.array([1], pa.int32()) if change == "type" else pa.array([None], pa.int64())
        batch = batch.set_column(5, "n", bad)
    stream = pa.OSFile(str(path), "w")
    with (
        HoodieParquetWriter(stream, schema, HoodieStorageConfig(), bloom_filter=None, avro_schema=None) as writer,
        pytest.raises(HoodieSchemaException),
    ):
        writer.write(batch)
    assert stream.closed


def test_a_schema_without_meta_columns_is_refused_and_the_stream_closed(path: Path) -> None:
    stream = pa.OSFile(str(path), "w")
    with pytest.raises(HoodieSchemaException, match="_hoodie_commit_time"):
        HoodieParquetWriter(
            stream, pa.schema([("a", pa.int64())]), HoodieStorageConfig(), bloom_filter=None, avro_schema=None
        )
    assert stream.closed


def test_an_aborted_file_has_no_footer_and_takes_nothing_more(path: Path) -> None:
    writer = open_writer(path, HoodieStorageConfig(parquet_block_size=1))
    writer.write(rows(["a"]))
    writer.abort()
    writer.abort()
    for call in (partial(writer.write, rows(["b"])), writer.flush, writer.close):
        with pytest.raises(HoodieException, match="aborted"):
            call()
    gc.collect()
    assert not path.read_bytes()[4:].endswith(b"PAR1")


class FailingFile:
    """A file on a store that takes some bytes and then fails."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.position = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self.position += len(data)
        if self.position > self.limit:
            raise OSError(28, "No space left on device")
        return len(data)

    def tell(self) -> int:
        return self.position

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("limit", [0, 4, 300, 1500])
def test_a_failing_store_is_reported_with_the_path_and_the_stream_closed(limit: int) -> None:
    file = FailingFile(limit)
    with (
        pytest.raises(HoodieIOException, match=r"writing x/f\.parquet failed.*No space"),
        HoodieParquetWriter(
            pa.PythonFile(file, mode="w"),
            SCHEMA,
            HoodieStorageConfig(parquet_block_size=1),
            bloom_filter=new_filter(),
            avro_schema=None,
            path="x/f.parquet",
        ) as writer,
    ):
        writer.write(rows(["a"]))
        writer.close()
    assert file.closed


def test_settings_come_from_the_configuration() -> None:
    config = HoodieStorageConfig(parquet_page_size=6, parquet_dictionary_enabled=False)
    options = writer_options(config, ["a"])
    assert (options["compression"], options["data_page_size"], options["dictionary_pagesize_limit"]) == ("snappy", 6, 6)
    assert options["use_dictionary"] is False
    assert writer_options(HoodieStorageConfig(), ["a"])["use_dictionary"] == ["a"]


@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd"])
def test_every_codec_round_trips(path: Path, compression: str) -> None:
    writer = open_writer(path, HoodieStorageConfig(parquet_compression_codec=ParquetCompression(compression)))
    writer.write(rows(["a", "b"]))
    writer.close()
    with HoodieParquetReader(open_storage(str(path.parent)), str(path)) as reader:
        assert reader.read_record_keys().to_pylist() == ["a", "b"]
    codec = pq.read_metadata(path).row_group(0).column(0).compression
    assert codec == {"none": "UNCOMPRESSED"}.get(compression, compression.upper())
