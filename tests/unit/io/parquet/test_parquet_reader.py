from __future__ import annotations

import datetime
import decimal
import struct
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.common.bloom.bloom_filter import DynamicBloomFilter
from hoodie.exception import (
    HoodieCorruptedDataException,
    HoodieException,
    HoodieMissingFileException,
    MissingSchemaFieldException,
    SchemaCompatibilityException,
)
from hoodie.io.parquet import parquet_reader
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, read_footer
from hoodie.storage.storage_factory import open_storage


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "f.parquet"


def reader_of(path: Path) -> HoodieParquetReader:
    return HoodieParquetReader(open_storage(str(path.parent)), str(path))


def read_as(path: Path, schema: pa.Schema, **arguments: object) -> list[dict]:
    with reader_of(path) as reader:
        batches = list(reader.iter_batches(arguments.pop("columns", None), schema, **arguments))
    return [row for batch in batches for row in batch.to_pylist()]


def base_files(tables: Path) -> list[Path]:
    """Base files of every table, without the metadata tables'."""
    found = [path for path in sorted(tables.rglob("*.parquet")) if ".hoodie" not in path.parts]
    return [path for path in found if not path.name.startswith(".")]


def is_cow_of_version_6(path: Path, tables: Path) -> bool:
    for folder in path.parents:
        properties = folder / ".hoodie" / "hoodie.properties"
        if properties.is_file():
            text = properties.read_text()
            return "hoodie.table.version=6" in text and "COPY_ON_WRITE" in text
        if folder == tables:
            return False
    return False


def test_every_base_file_of_hudis_tables_reads_completely(shared_tables: Path) -> None:
    files = [path for path in base_files(shared_tables) if is_cow_of_version_6(path, shared_tables)]
    assert len(files) > 10
    for path in files:
        with reader_of(path) as reader:
            batches = list(reader.iter_batches(None, reader.file_schema, batch_rows=3))
            assert (
                pa.Table.from_batches(batches, reader.file_schema).to_pylist()
                == pq.read_table(path, partitioning=None).to_pylist()
            )
            assert reader.num_rows == sum(batch.num_rows for batch in batches)


def test_filters_and_ranges_of_hudis_files_are_exactly_what_we_would_write(shared_tables: Path) -> None:
    checked = 0
    for path in base_files(shared_tables):
        with reader_of(path) as reader:
            footer = reader.footer()
            keys = reader.read_record_keys()
        if footer.bloom_filter is None:
            assert footer.key_range is None
            continue
        if not len(keys):
            assert footer.key_range is None
            continue
        stored = footer.bloom_filter.to_bytes()
        assert footer.bloom_filter_type == DynamicBloomFilter.type_code
        assert footer.bloom_filter.might_contain(keys).all()
        assert footer.key_range == KeyRange.of(keys)
        bits, capacity = struct.unpack(">i", stored[9:13])[0], struct.unpack(">i", stored[13:17])[0]
        # An empty filter of the same shape, then the file's keys: the same bytes.
        head = stored[:13]
        rebuilt = DynamicBloomFilter.from_bytes(
            head + struct.pack(">iii", capacity, 0, 1) + head + bytes((bits + 7) // 8)
        )
        rebuilt.add(keys)
        assert rebuilt.to_bytes() == stored
        checked += 1
    assert checked > 20


@pytest.mark.one_in(4)
def test_lists_of_two_levels_of_hudis_avro_writer_come_out_as_lists(shared_tables: Path) -> None:
    seen = 0
    for path in base_files(shared_tables):
        physical = [
            column.path
            for column in (pq.ParquetFile(path).schema.column(i) for i in range(len(pq.ParquetFile(path).schema)))
        ]
        names = {name.split(".")[0] for name in physical if ".array" in name}
        for name in names:
            plain = pq.read_table(path, columns=[name], partitioning=None).column(0)
            if not pa.types.is_list(plain.type):
                continue
            target = pa.schema([(name, pa.list_(plain.type.value_type))])
            assert [row[name] for row in read_as(path, target)] == plain.to_pylist()
            seen += 1
    assert seen > 0


def test_columns_come_in_the_types_of_the_schema(path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5)
    pq.write_table(
        pa.table(
            {
                "i": pa.array([1, None], pa.int32()),
                "j": pa.array([1, 2], pa.int32()),
                "f": pa.array([0.5, None], pa.float32()),
                "d": pa.array([decimal.Decimal("1.25"), None], pa.decimal128(9, 2)),
                "e": pa.array(["x", "x"]).dictionary_encode(),
                "t": pa.array([moment, None], pa.timestamp("ms")),
                "large": pa.array(["y", None], pa.large_string()),
            }
        ),
        path,
        store_decimal_as_integer=True,
    )
    schema = pa.schema(
        [
            ("new", pa.list_(pa.int32())),
            ("large", pa.string()),
            ("i", pa.int64()),
            ("j", pa.float64()),
            ("f", pa.float64()),
            ("d", pa.decimal128(18, 2)),
            ("e", pa.string()),
            ("t", pa.timestamp("us", "UTC")),
        ]
    )
    with reader_of(path) as reader:
        (batch,) = reader.iter_batches(None, schema)
    assert batch.schema == schema
    assert batch.to_pylist() == [
        {
            "new": None,
            "large": "y",
            "i": 1,
            "j": 1.0,
            "f": 0.5,
            "d": decimal.Decimal("1.25"),
            "e": "x",
            "t": moment.replace(tzinfo=datetime.UTC),
        },
        {"new": None, "large": None, "i": None, "j": 2.0, "f": None, "d": None, "e": "x", "t": None},
    ]


def test_int96_timestamps_are_read_in_microseconds(path: Path) -> None:
    moment = datetime.datetime(2024, 1, 2, 3, 4, 5, 678901)
    pq.write_table(pa.table({"t": pa.array([moment], pa.timestamp("us"))}), path, use_deprecated_int96_timestamps=True)
    assert read_as(path, pa.schema([("t", pa.timestamp("us"))])) == [{"t": moment}]


def test_nested_columns_are_matched_by_field_name_also_around_nulls_and_slices(path: Path) -> None:
    old = pa.struct([("gone", pa.int32()), ("x", pa.int32())])
    new = pa.struct([("x", pa.int64()), ("added", pa.string())])
    values = [[{"gone": 1, "x": 2}, None], None, [], [{"gone": 3, "x": None}], [{"gone": 5, "x": 6}]]
    maps = [[("a", {"gone": 1, "x": 2})], None, [], [("b", None)], [("c", {"gone": 5, "x": 6})]]
    structs = [{"gone": 1, "x": 2}, None, {"gone": 1, "x": 3}, {"gone": 1, "x": None}, None]
    pq.write_table(
        pa.table(
            {
                "list": pa.array(values, pa.list_(old)),
                "map": pa.array(maps, pa.map_(pa.string(), old)),
                "struct": pa.array(structs, old),
            }
        ),
        path,
    )
    schema = pa.schema([("list", pa.list_(new)), ("map", pa.map_(pa.string(), new)), ("struct", new)])

    def renewed(value: dict | None) -> dict | None:
        return None if value is None else {"x": value["x"], "added": None}

    expected = [
        {
            "list": None if items is None else [renewed(item) for item in items],
            "map": None if entries is None else [(key, renewed(item)) for key, item in entries],
            "struct": renewed(one),
        }
        for items, entries, one in zip(values, maps, structs, strict=True)
    ]
    for batch_rows in (1, 2, 100):
        assert read_as(path, schema, batch_rows=batch_rows) == expected


def test_columns_come_in_the_order_asked_for(path: Path) -> None:
    pq.write_table(pa.table({"a": [1], "b": [2], "c": [3]}), path)
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("x", pa.int8())])
    assert read_as(path, schema, columns=["x", "b", "a"]) == [{"x": None, "b": 2, "a": 1}]
    assert list(read_as(path, schema, columns=["x", "b", "a"])[0]) == ["x", "b", "a"]


def test_a_file_with_none_of_the_columns_gives_as_many_rows_of_nulls(path: Path) -> None:
    pq.write_table(pa.table({"a": range(5)}), path, row_group_size=3)
    with reader_of(path) as reader:
        batches = list(reader.iter_batches(None, pa.schema([("b", pa.int32())]), batch_rows=2))
    assert [batch.num_rows for batch in batches] == [2, 1, 2]
    assert all(batch.column(0).null_count == batch.num_rows for batch in batches)


def test_row_groups_are_chosen_by_number(path: Path) -> None:
    pq.write_table(pa.table({"a": range(6)}), path, row_group_size=2)
    schema = pa.schema([("a", pa.int64())])
    assert [row["a"] for row in read_as(path, schema, row_groups=[2, 0])] == [4, 5, 0, 1]


def test_columns_that_cannot_be_turned_are_named(path: Path) -> None:
    pq.write_table(pa.table({"a": ["x"]}), path)
    with pytest.raises(SchemaCompatibilityException, match=r"f\.parquet: column a is string.*int64"):
        read_as(path, pa.schema([("a", pa.int64())]))


def test_columns_that_are_nowhere_are_named(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(MissingSchemaFieldException, match="no column z"):
        read_as(path, pa.schema([("a", pa.int64())]), columns=["z"])
    with reader_of(path) as reader:
        with pytest.raises(MissingSchemaFieldException, match="no column z"):
            reader.read_columns(["z"])
        with pytest.raises(MissingSchemaFieldException, match="_hoodie_record_key"):
            reader.read_record_keys()
        assert reader.read_columns(["a"]).to_pylist() == [{"a": 1}]


def test_files_cut_anywhere_are_reported_as_corrupted_with_their_path(path: Path) -> None:
    pq.write_table(pa.table({"a": [str(number) for number in range(5000)]}), path, compression="snappy")
    whole = path.read_bytes()
    for length in (0, 1, 4, 11, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet is cut short.*restore"):
            reader_of(path).open()
        with pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet"):
            read_footer(open_storage(str(path.parent)), str(path))


def test_damaged_pages_are_reported_as_corrupted_with_their_path(path: Path) -> None:
    pq.write_table(pa.table({"a": [str(number) for number in range(5000)]}), path, use_dictionary=False)
    whole = bytearray(path.read_bytes())
    whole[4:2000] = b"\xff" * 1996
    path.write_bytes(whole)
    with pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet"):
        read_as(path, pa.schema([("a", pa.string())]))
    with reader_of(path) as reader, pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet"):
        reader.read_columns(["a"])


def test_a_damaged_filter_is_reported_with_the_path_only_when_it_is_asked_for(path: Path) -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"org.apache.hudi.bloomfilter": "AAAA"})
    pq.write_table(table, path)
    footer = read_footer(open_storage(str(path.parent)), str(path))
    with pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet"):
        _ = footer.bloom_filter


def test_the_filter_is_found_under_its_old_name(path: Path) -> None:
    bloom_filter = DynamicBloomFilter.create(10, 0.01)
    bloom_filter.add(pa.array(["k"]))
    entries = {"com.uber.hoodie.bloomfilter": bloom_filter.to_base64(), "hoodie_bloom_filter_type_code": "DYNAMIC_V0"}
    pq.write_table(pa.table({"a": [1]}).replace_schema_metadata(entries), path)
    with reader_of(path) as reader:
        assert reader.footer().bloom_filter.might_contain(pa.array(["k"])).all()
        reader.footer().bloom_filter.add(pa.array(["other"]))
        assert reader.footer().bloom_filter.to_bytes() == bloom_filter.to_bytes()


def test_a_missing_file_is_named(path: Path) -> None:
    with pytest.raises(HoodieMissingFileException, match=r"f\.parquet is missing") as caught:
        reader_of(path).open()
    assert not isinstance(caught.value, HoodieCorruptedDataException)


def test_a_closed_reader_reads_nothing(path: Path) -> None:
    pq.write_table(pa.table({"a": [1]}), path)
    reader = reader_of(path).open()
    reader.close()
    reader.close()
    with pytest.raises(HoodieException, match="not open"):
        _ = reader.num_rows


def test_a_file_that_does_not_open_leaves_no_handle(path: Path) -> None:
    path.write_bytes(b"rubbish" * 10)
    opened = []

    class Watching:
        def open_input_file(self, name: str) -> pa.NativeFile:
            opened.append(pa.OSFile(name))
            return opened[-1]

    with pytest.raises(HoodieCorruptedDataException):
        HoodieParquetReader(Watching(), str(path)).open()
    assert [file.closed for file in opened] == [True]


def test_batches_of_long_rows_have_fewer_of_them(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_reader, "_BATCH_BYTES", 100_000)
    rows = pa.table({"short": list(range(100)), "long": [str(number) * 5_000 for number in range(100)]})
    pq.write_table(rows, path, use_dictionary=False, row_group_size=60)
    with reader_of(path) as reader:
        batches = list(reader.iter_batches(None, rows.schema))
        assert pa.Table.from_batches(batches).equals(rows)
        assert max(batch.num_rows for batch in batches) < 20
        assert [batch.num_rows for batch in reader.iter_batches(["short"], rows.schema)] == [60, 40]
