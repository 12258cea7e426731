"""Row groups that are copied as they are stored: the same rows and descriptions, and nothing that is not understood."""

from __future__ import annotations

import decimal
import json
import random
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.common.bloom.bloom_filter import DynamicBloomFilter
from hoodie.common.config.storage_config import HoodieStorageConfig, ParquetCompression
from hoodie.common.model.record_columns import FILE_NAME_META, META_COLUMNS, RECORD_KEY_META
from hoodie.exception import HoodieCorruptedDataException, HoodieException, HoodieKeyException
from hoodie.io.parquet.compact_protocol import (
    BINARY,
    I32,
    I64,
    STRUCT,
    Field,
    read_struct,
    read_struct_at,
    write_struct,
)
from hoodie.io.parquet.parquet_footer import KeyRange
from hoodie.io.parquet.parquet_reader import HoodieParquetReader, bytes_of_base_file, read_footer
from hoodie.io.parquet.parquet_writer import HoodieParquetWriter, copied_form, writer_options
from hoodie.io.parquet.splicing import StoredRowGroup, row_groups_to_copy
from hoodie.storage.storage_factory import open_storage

META = [pa.field(name, pa.string()) for name in META_COLUMNS]
SETTINGS = HoodieStorageConfig()
TYPES = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(max_size=12),
    pa.binary(): st.binary(max_size=12),
    pa.date32(): st.dates(),
    pa.decimal128(20, 3): st.integers(-(10**19), 10**19).map(lambda number: decimal.Decimal(number).scaleb(-3)),
    pa.timestamp("us", "UTC"): st.integers(0, 2**50),
    pa.timestamp("us"): st.integers(0, 2**50),
}
NESTED = st.deferred(
    lambda: (
        st.sampled_from(list(TYPES))
        | st.builds(pa.list_, NESTED)
        | st.builds(lambda item: pa.map_(pa.string(), item), NESTED)
        | st.lists(NESTED, min_size=1, max_size=2).map(
            lambda items: pa.struct([(f"s{number}", one) for number, one in enumerate(items)])
        )
    )
)


def values_of(data_type: pa.DataType) -> st.SearchStrategy[Any]:
    """Values of a type; null now and then."""
    if pa.types.is_list(data_type):
        found = st.lists(values_of(data_type.value_type), max_size=3)
    elif pa.types.is_map(data_type):
        found = st.dictionaries(st.text(max_size=3), values_of(data_type.item_type), max_size=2).map(
            lambda entries: list(entries.items())
        )
    elif pa.types.is_struct(data_type):
        found = st.fixed_dictionaries({field.name: values_of(field.type) for field in data_type})
    else:
        found = TYPES[data_type]
    return st.none() | found


@st.composite
def tables(draw: Callable[..., Any]) -> list[pa.Table]:
    """One to three tables of one schema, of a few rows; some of their values repeat."""
    types = draw(st.lists(NESTED, min_size=1, max_size=3))
    fields = [pa.field(f"c{number}", kind, draw(st.booleans())) for number, kind in enumerate(types)]
    counts = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    found = []
    for number, count in enumerate(counts):
        columns = []
        for field in fields:
            values = values_of(field.type) if field.nullable else values_of(field.type).filter(lambda v: v is not None)
            some = draw(st.lists(values, min_size=1, max_size=4))
            columns.append(pa.array([some[row % len(some)] for row in range(count)], field.type))
        meta = pa.array([f"{number}-{row:03}" for row in range(count)])
        found.append(pa.Table.from_arrays([meta] * 5 + columns, schema=pa.schema([*META, *fields])))
    return found


def write_source(path: Path, table: pa.Table, **options: Any) -> None:
    pq.write_table(table, path, **(writer_options(SETTINGS, table.schema.names[5:]) | options))


def groups_of(path: Path, schema: pa.Schema, min_bytes: int = 1, config: HoodieStorageConfig = SETTINGS):
    with HoodieParquetReader(open_storage(str(path.parent)), str(path)) as reader:
        return reader.row_groups_to_copy(copied_form(schema, config, min_bytes))


def new_writer(path: Path, schema: pa.Schema, **options: Any) -> HoodieParquetWriter:
    given = {"bloom_filter": DynamicBloomFilter.create(1000, 0.001, 5000), "avro_schema": "{}", "path": str(path)}
    return HoodieParquetWriter(pa.OSFile(str(path), "w"), schema, SETTINGS, **(given | options))


def copy(writer: HoodieParquetWriter, group: StoredRowGroup) -> None:
    storage = open_storage(str(Path(group.path).parent))
    with (
        HoodieParquetReader(storage, group.path) as reader,
        bytes_of_base_file(storage, group.path, Path(group.path).stat().st_size) as source,
    ):
        writer.copy_row_group(group, source, reader.read_record_keys([group.number]), {FILE_NAME_META: "new"})


def renamed(table: pa.Table) -> pa.Table:
    return table.set_column(4, META[4], pa.array(["new"] * len(table)))


def texts(table: pa.Table) -> list[str]:
    """Rows as text, which compares NaN too."""
    return [str(row) for row in table.to_pylist()]


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    given=tables(),
    copied=st.lists(st.booleans(), min_size=3, max_size=3),
    size=st.integers(1, 12),
    extras=st.sampled_from([{}, {"write_page_index": True}, {"use_dictionary": False}, {"data_page_size": 8}]),
)  # fmt: skip
def test_any_rows_are_copied_among_others(
    tmp_path: Path, given: list[pa.Table], copied: list[bool], size: int, extras: dict[str, Any]
) -> None:
    path = tmp_path / "new.parquet"
    kept: list[Any] = []
    writer = new_writer(path, given[0].schema, kept_keys=kept)
    held: list[pa.Table] = []
    expected: list[pa.Table] = []
    groups = []
    for number, table in enumerate(given):
        source = tmp_path / f"{number}.parquet"
        write_source(source, table, row_group_size=size, **extras)
        if not copied[number]:
            for batch in renamed(table).to_batches():
                writer.write(batch)
            held.append(table)
            continue
        found = groups_of(source, table.schema)
        assert sorted(found) == list(range(pq.read_metadata(source).num_row_groups))
        for group in found.values():
            assert writer.row_group_fits(group, 1 << 30)
            copy(writer, group)
            groups.append((pq.read_metadata(source).row_group(group.number), len(groups)))
        expected.append(table)
    assert writer.close() == path.stat().st_size
    rows = pa.concat_tables([*expected, *held])
    file = pq.ParquetFile(path, page_checksum_verification=True)
    read = file.read()
    assert read.schema.equals(rows.schema)
    assert texts(read) == texts(renamed(rows))
    assert texts(pq.read_table(path, use_threads=False, pre_buffer=True)) == texts(read)
    keys = rows[RECORD_KEY_META].to_pylist()
    assert [key for part in kept for key in part.to_pylist()] == keys
    found = read_footer(open_storage(str(tmp_path)), str(path))
    assert found.key_range == KeyRange(min(keys), max(keys))
    assert found.bloom_filter.might_contain(pa.array(keys)).all()
    assert file.metadata.num_rows == len(rows)
    for old, number in groups:
        check_described(old, file.metadata.row_group(number))
    check_page_indexes_and_places(path)
    if held and len(groups) == 1:
        assert file.metadata.row_group(1).num_rows == sum(map(len, held))


def check_described(old: pq.RowGroupMetaData, new: pq.RowGroupMetaData) -> None:
    assert (new.num_rows, new.num_columns) == (old.num_rows, old.num_columns)
    assert new.total_byte_size == sum(new.column(n).total_uncompressed_size for n in range(new.num_columns))
    for number in range(old.num_columns):
        if old.column(number).path_in_schema == FILE_NAME_META:
            column = new.column(number)
            assert (column.statistics.min, column.statistics.max, column.has_dictionary_page) == ("new", "new", True)
            continue
        one, other = (group.column(number).to_dict() for group in (old, new))
        for moved in ("file_offset", "dictionary_page_offset", "data_page_offset", "index_page_offset"):
            one.pop(moved, None)
            other.pop(moved, None)
        for place in ("has_offset_index", "has_column_index"):
            one.pop(place, None)
            other.pop(place, None)
        assert json.dumps(one, default=str) == json.dumps(other, default=str)


def check_page_indexes_and_places(path: Path) -> None:
    """No index is named, and the chunks stand one behind the other, from the start to the footer at most."""
    metadata = pq.read_metadata(path)
    end = 4
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        places = []
        for column in (group.column(n) for n in range(group.num_columns)):
            assert not column.has_offset_index
            assert not column.has_column_index
            start = column.dictionary_page_offset or column.data_page_offset
            places.append((start, start + column.total_compressed_size))
        places.sort()
        assert places[0][0] >= end
        assert all(first[1] <= second[0] for first, second in pairwise(places))
        end = places[-1][1]
    assert end < path.stat().st_size


# --- what is not copied -----------------------------------------------------------------------------------------------

SCHEMA = pa.schema([*META, pa.field("n", pa.int64()), pa.field("text", pa.string()), pa.field("x", pa.float64())])


def some_rows(count: int = 100, schema: pa.Schema = SCHEMA) -> pa.Table:
    keys = pa.array([f"k{number:05}" for number in range(count)])
    columns = [keys] * 5 + [
        pa.array(range(count)),
        pa.array(["ab", "c"] * (count // 2)),
        pa.array(np.arange(count) / 2),
    ]
    return pa.Table.from_arrays(
        [column.cast(field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.parquet"
    write_source(path, some_rows())
    return path


def changed_schema(name: str, **changes: Any) -> pa.Schema:
    number = SCHEMA.get_field_index(name)
    field = SCHEMA.field(number)
    for what, value in changes.items():
        field = getattr(field, what)(value)
    return SCHEMA.set(number, field)


@pytest.mark.parametrize(
    "wanted",
    [
        changed_schema("n", with_type=pa.int32()),
        changed_schema("n", with_type=pa.timestamp("us", "UTC")),
        changed_schema("n", with_nullable=False),
        changed_schema("x", with_name="y"),
        changed_schema("text", with_type=pa.binary()),
        pa.schema([*SCHEMA, pa.field("new", pa.int64())]),
        pa.schema(list(SCHEMA)[:-1]),
        pa.schema([*META, SCHEMA.field("text"), SCHEMA.field("n"), SCHEMA.field("x")]),
    ],
    ids=lambda schema: str(schema.names[5:]) + str(schema.types[5:]),
)
def test_only_files_of_the_same_schema_are_copied(source: Path, wanted: pa.Schema) -> None:
    assert groups_of(source, SCHEMA)
    assert groups_of(source, wanted) == {}


@pytest.mark.parametrize(
    "options",
    [
        {"compression": "gzip"},
        {"compression": {**dict.fromkeys(SCHEMA.names, "snappy"), "x": "zstd"}},
        {"data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"n": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "column_encoding": {"x": "BYTE_STREAM_SPLIT"}},
        {"write_page_checksum": False},
    ],
    ids=str,
)
def test_only_pages_that_the_writer_makes_are_copied(tmp_path: Path, options: dict[str, Any]) -> None:
    path = tmp_path / "other.parquet"
    write_source(path, some_rows(), **options)
    assert groups_of(path, SCHEMA) == {}


def test_other_writers_of_the_same_columns_are_copied(tmp_path: Path) -> None:
    path = tmp_path / "other.parquet"
    # Field ids, a stored Arrow schema, page indexes, bloom filters, size statistics: none of it matters.
    fields = [field.with_metadata({"PARQUET:field_id": str(number)}) for number, field in enumerate(SCHEMA)]
    rows = some_rows(schema=pa.schema(fields))
    pq.write_table(rows, path, write_page_index=True, store_schema=True, write_page_checksum=True)
    assert list(groups_of(path, SCHEMA)) == [0]


def test_row_groups_below_the_least_size_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "source.parquet"
    write_source(path, some_rows(1000), row_group_size=900)
    large, small = groups_of(path, SCHEMA).values()
    assert (large.rows, small.rows) == (900, 100)
    metadata = pq.read_metadata(path).row_group(0)
    assert large.stored_bytes == sum(metadata.column(n).total_compressed_size for n in range(8))
    assert list(groups_of(path, SCHEMA, large.stored_bytes)) == [0]
    assert groups_of(path, SCHEMA, large.stored_bytes + 1) == {}


def test_long_values_are_copied_although_pages_have_few_rows_and_tiny_pages_are_not(tmp_path: Path) -> None:
    path = tmp_path / "source.parquet"
    long = some_rows(200).set_column(6, "text", pa.array([f"{number}" * 40_000 for number in range(200)]))
    write_source(path, long, write_batch_size=1, data_page_size=1 << 16, use_dictionary=False)
    assert list(groups_of(path, SCHEMA)) == [0]
    write_source(path, some_rows(1000), write_batch_size=1, data_page_size=8, use_dictionary=False)
    assert groups_of(path, SCHEMA) == {}


def with_footer(path: Path, change: Callable[[Any], None]) -> None:
    """Change the footer of a file."""
    data = path.read_bytes()
    length = int.from_bytes(data[-8:-4], "little")
    footer = read_struct(data[-8 - length : -8])
    change(footer)
    changed = write_struct(footer)
    path.write_bytes(data[: -8 - length] + changed + len(changed).to_bytes(4, "little") + b"PAR1")


def chunk(footer: Any, number: int = 5) -> Any:
    return footer[4].value.items[0][1].value.items[number]


def column(footer: Any, number: int = 5) -> Any:
    return chunk(footer, number)[3].value


def put(target: Any, number: int, kind: int, value: Any) -> None:
    target[number] = Field(kind, value)


FOREIGN: dict[str, Callable[[Any], None]] = {
    "an unknown writer": lambda footer: put(footer, 6, BINARY, b"somebody version 1"),
    "a writer of wrong statistics": lambda footer: put(footer, 6, BINARY, b"parquet-mr version 1.8.1 (build 4aba4da)"),
    "no writer": lambda footer: footer.pop(6),
    "no order of values": lambda footer: footer.pop(7),
    "another order of values": lambda footer: put(footer[7].value.items[6], 2, STRUCT, {}),
    "an encrypted file": lambda footer: put(footer, 8, STRUCT, {}),
    "an unknown field of the file": lambda footer: put(footer, 20, I32, 1),
    "an unknown field of the row group": lambda footer: put(footer[4].value.items[0], 9, I32, 1),
    "an unknown field of a chunk": lambda footer: put(chunk(footer), 10, I32, 1),
    "an encrypted column": lambda footer: put(chunk(footer), 8, STRUCT, {}),
    "a chunk in another file": lambda footer: put(chunk(footer), 1, BINARY, b"other"),
    "an unknown field of a column": lambda footer: put(column(footer), 17, STRUCT, {}),
    "an unknown statistic": lambda footer: put(column(footer)[12].value, 9, I64, 1),
    "old statistics only": lambda footer: [column(footer)[12].value.pop(number) for number in (5, 6)],
    "another codec": lambda footer: put(column(footer), 4, I32, 2),
    "another type of values": lambda footer: put(column(footer), 1, I32, 1),
    "an unknown encoding": lambda footer: column(footer)[2].value.items.append(99),
    "pages of an unknown number": lambda footer: column(footer).pop(13),
    "pages of the second version": lambda footer: put(column(footer)[13].value.items[-1], 1, I32, 3),
    "a dictionary without a place": lambda footer: column(footer).pop(11),
    "a dictionary behind the values": lambda footer: put(column(footer), 11, I64, column(footer)[9].value + 1),
    "a dictionary that is not told of": lambda footer: column(footer)[13].value.items.pop(0),
    "fewer values than rows": lambda footer: put(column(footer), 5, I64, 99),
    "a chunk before the start": lambda footer: put(column(footer, 0), 9, I64, -5),
    "a chunk behind the end": lambda footer: put(column(footer), 7, I64, 1 << 20),
    "an empty chunk": lambda footer: put(column(footer), 7, I64, 0),
    "another order of columns": lambda footer: footer[4].value.items[0][1].value.items.reverse(),
    "columns of the same type in another order": lambda footer: footer[4].value.items[0][1].value.items.insert(
        0, footer[4].value.items[0][1].value.items.pop(1)
    ),
    "another schema than columns": lambda footer: footer[4].value.items[0][1].value.items.pop(),
    "an unknown field of the schema": lambda footer: put(footer[2].value.items[6], 11, I32, 1),
    "a row group without columns": lambda footer: footer[4].value.items[0].pop(1),
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_understood_is_not_copied(source: Path, kind: str) -> None:
    assert list(row_groups(source)) == [0]
    with_footer(source, FOREIGN[kind])
    assert row_groups(source) == {}


def row_groups(path: Path) -> dict[int, StoredRowGroup]:
    """As `groups_of`, whatever pyarrow says to the footer."""
    with pa.OSFile(str(path)) as stream:
        return row_groups_to_copy(stream, str(path), copied_form(SCHEMA, SETTINGS, 1))


def test_columns_with_converted_types_only_are_copied(source: Path) -> None:
    def older(footer: Any) -> None:
        for element in footer[2].value.items[1:]:
            element.pop(10, None)

    with_footer(source, older)
    assert list(groups_of(source, SCHEMA)) == [0]


def test_times_of_no_zone_are_not_copied_as_those_of_utc(tmp_path: Path) -> None:
    local, utc = (changed_schema("n", with_type=pa.timestamp("us", zone)) for zone in (None, "UTC"))
    for mine, other in ((local, utc), (utc, local)):
        path = tmp_path / "times.parquet"
        write_source(path, some_rows(schema=mine))
        assert list(groups_of(path, mine)) == [0]
        assert groups_of(path, other) == {}


# --- damage -----------------------------------------------------------------------------------------------------------


def copy_whole(source: Path, target: Path, groups: dict[int, StoredRowGroup] | None = None) -> None:
    found = groups_of(source, SCHEMA) if groups is None else groups
    with new_writer(target, SCHEMA) as writer:
        for group in found.values():
            with bytes_of_base_file(open_storage(str(source.parent)), str(source), 0) as read:
                keys = pa.chunked_array([[f"k{number:05}" for number in range(group.rows)]])
                writer.copy_row_group(group, read, keys, {FILE_NAME_META: "new"})
        writer.close()


def test_damaged_pages_are_not_copied(source: Path, tmp_path: Path) -> None:
    metadata = pq.read_metadata(source).row_group(0)
    data = source.read_bytes()
    for number in range(metadata.num_columns):
        if metadata.column(number).path_in_schema == FILE_NAME_META:
            continue
        place = metadata.column(number).data_page_offset + metadata.column(number).total_compressed_size - 1
        if metadata.column(number).has_dictionary_page:
            place = metadata.column(number).data_page_offset - 1
        source.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        with pytest.raises(HoodieCorruptedDataException, match=r"source\.parquet is damaged in column .*checksum"):
            copy_whole(source, tmp_path / "new.parquet")


def test_damaged_pages_without_checksum_are_not_copied(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only the first pages of some columns are looked at before.
    monkeypatch.setattr("hoodie.io.parquet.splicing.row_groups._first_page_is_known", lambda *_: True)
    write_source(source, some_rows(), write_page_checksum=False)
    copy_whole(source, tmp_path / "new.parquet")
    metadata = pq.read_metadata(source).row_group(0)
    place = next(
        chunk.data_page_offset + chunk.total_compressed_size
        for chunk in map(metadata.column, range(metadata.num_columns))
        if chunk.path_in_schema == "_hoodie_record_key"
    )
    data = source.read_bytes()
    source.write_bytes(data[: place - 40] + bytes(40) + data[place:])
    with pytest.raises(HoodieCorruptedDataException, match=r"_hoodie_record_key: a page (cannot be decompressed|has)"):
        copy_whole(source, tmp_path / "new.parquet")


def header_places(path: Path) -> list[int]:
    """The offsets of all bytes in headers of pages."""
    data, metadata, found = path.read_bytes(), pq.read_metadata(path).row_group(0), []
    for number in range(metadata.num_columns):
        chunk = metadata.column(number)
        at = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset
        end = at + chunk.total_compressed_size
        while at < end and chunk.path_in_schema != FILE_NAME_META:
            header, behind = read_struct_at(data, at)
            found += range(at, behind)
            at = behind + header[3].value
    return found


@pytest.mark.parametrize("compression", ["snappy", "none"])
def test_no_damage_of_a_page_header_is_copied(source: Path, tmp_path: Path, compression: str) -> None:
    """A checksum covers only what is behind the header. Whatever bit is wrong: refused, or the rows are right."""
    seed = random.randrange(1 << 30)
    print("seed", seed)
    rng, target = random.Random(seed), tmp_path / "new.parquet"
    write_source(source, some_rows(), compression=compression, data_page_size=64, write_batch_size=20)
    expected, data = texts(renamed(pq.read_table(source))), source.read_bytes()
    places, refused = header_places(source), 0
    config = attrs.evolve(SETTINGS, parquet_compression_codec=ParquetCompression(compression))
    for _ in range(500):
        place, bit = rng.choice(places), rng.randrange(8)
        source.write_bytes(data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :])
        found = groups_of(source, SCHEMA, config=config)
        try:
            copy_whole(source, target, found)
        except HoodieCorruptedDataException:
            refused += 1
        else:
            assert not found or texts(pq.read_table(target)) == expected, (place, bit)
    assert 100 < refused < 500


def test_a_file_that_is_cut_short_is_not_copied(source: Path, tmp_path: Path) -> None:
    groups = groups_of(source, SCHEMA)
    data = source.read_bytes()
    for length in (10, len(data) // 4, groups[0].columns[-1].start + 5):
        source.write_bytes(data[:length])
        with pytest.raises(HoodieCorruptedDataException, match="the file ends within it"):
            copy_whole(source, tmp_path / "new.parquet", groups)
        with pytest.raises(pa.ArrowInvalid):
            pq.read_metadata(tmp_path / "new.parquet")


def test_pages_are_as_many_as_the_footer_says(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    last = {"n": 5, "text": 6}
    for change, problem in (
        (lambda footer: put(column(footer, last["n"]), 9, I64, column(footer)[9].value + 1), "another place"),
        (lambda footer: put(column(footer, last["n"]), 7, I64, column(footer)[7].value - 1), "more than the column"),
        (lambda footer: put(column(footer, last["n"]), 7, I64, column(footer)[7].value + 3), "header"),
    ):
        source.write_bytes(data)
        with_footer(source, change)
        with pytest.raises(HoodieCorruptedDataException, match=problem):
            copy_whole(source, tmp_path / "new.parquet", row_groups(source))


def as_second_version(path: Path, number: int) -> None:
    """Change the kind that the header of the first data page of a column names."""
    place = pq.read_metadata(path).row_group(0).column(number).data_page_offset
    data = bytearray(path.read_bytes())
    assert data[place : place + 2] == bytes([0x15, 0])
    data[place + 1] = 6
    path.write_bytes(data)


def test_pages_of_the_second_version_are_not_copied_whoever_made_the_keys(source: Path, tmp_path: Path) -> None:
    data = source.read_bytes()
    for number in (0, SCHEMA.get_field_index(RECORD_KEY_META)):
        source.write_bytes(data)
        as_second_version(source, number)
        assert groups_of(source, SCHEMA) == {}
    source.write_bytes(data)
    as_second_version(source, 7)
    with pytest.raises(HoodieCorruptedDataException, match=r"column x: it has a page of kind 3"):
        copy_whole(source, tmp_path / "new.parquet")


def test_lists_have_as_many_values_as_the_footer_says(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    schema = pa.schema([*META, pa.field("n", pa.list_(pa.int64()))])
    table = (
        some_rows()
        .select([0, 1, 2, 3, 4])
        .append_column(schema.field("n"), pa.array([[1, 2], []] * 50, schema.field("n").type))
    )
    write_source(source, table)
    with_footer(source, lambda footer: put(column(footer), 5, I64, 151))
    (group,) = groups_of(source, schema).values()
    with (
        new_writer(tmp_path / "new.parquet", schema) as writer,
        pytest.raises(HoodieCorruptedDataException, match=r"column n\.list\.element: it has 150 values, and 151"),
    ):
        copy(writer, group)


def test_large_pages_are_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "source.parquet"
    random = np.random.default_rng(1)
    large = some_rows(1 << 18).set_column(7, "x", pa.array(random.random(1 << 18)))
    large = large.set_column(
        6, "text", pa.array([f"{'ü' * 9000}{number}" if number < 9 else "x" for number in range(1 << 18)])
    )
    write_source(source, large, use_dictionary=False, data_page_size=1 << 24, write_statistics=True)
    read: list[int] = []
    (group,) = groups_of(source, SCHEMA).values()
    with new_writer(tmp_path / "new.parquet", SCHEMA) as writer, pa.OSFile(str(source)) as stream:
        writer.copy_row_group(
            group, lambda count, at: read.append(count) or stream.read_at(count, at),
            large[RECORD_KEY_META], {FILE_NAME_META: "new"},
        )  # fmt: skip
        writer.close()
    assert max(read) <= 4 << 20
    assert pq.read_table(tmp_path / "new.parquet").equals(renamed(large))


def test_keys_must_be_there_and_columns_not_kept_apart(source: Path, tmp_path: Path) -> None:
    (group,) = groups_of(source, SCHEMA).values()
    with pa.OSFile(str(source)) as stream:
        arguments = (group, lambda count, at: stream.read_at(count, at))
        for keys in (None, pa.chunked_array([["a"]])):
            with new_writer(tmp_path / "new.parquet", SCHEMA) as writer, pytest.raises(HoodieException, match="copied"):
                writer.copy_row_group(*arguments, keys, {})
        with new_writer(tmp_path / "new.parquet", SCHEMA) as writer, pytest.raises(HoodieKeyException):
            writer.copy_row_group(*arguments, pa.chunked_array([[""] * group.rows]), {})
        with new_writer(tmp_path / "new.parquet", SCHEMA, bloom_filter=None) as writer:
            writer.copy_row_group(*arguments, None, {})
            writer.close()
    assert pq.read_table(tmp_path / "new.parquet").equals(some_rows())


def test_a_row_group_fits_by_its_stored_size(tmp_path: Path) -> None:
    source = tmp_path / "source.parquet"
    write_source(source, some_rows(20_000))
    (group,) = groups_of(source, SCHEMA).values()
    limit = int(2.5 * group.stored_bytes) + 100_000
    with new_writer(tmp_path / "new.parquet", SCHEMA) as writer:
        assert writer.row_group_fits(group, 1)
        copy(writer, group)
        assert writer.row_group_fits(group, limit)
        copy(writer, group)
        assert not writer.row_group_fits(group, limit)
        more = renamed(some_rows(2_000)).to_batches()[0]
        assert writer.rows_that_fit(more, limit) == more.num_rows
        writer.write(more)
        assert writer.estimated_size_bytes < limit
        writer.close()
    assert pq.read_metadata(tmp_path / "new.parquet").num_rows == 42_000


# --- files of real Hudi -----------------------------------------------------------------------------------------------


def test_row_groups_of_real_hudi_are_copied(shared_tables: Path, later_tables: Path, tmp_path: Path) -> None:
    copied = 0
    writers = set()
    for path in [*shared_tables.rglob("*.parquet"), *later_tables.rglob("*.parquet")]:
        if path.name.startswith(".") or ".hoodie" in path.parts or path.read_bytes()[-4:] != b"PAR1":
            continue
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if tuple(names[:5]) != META_COLUMNS or not file.metadata.num_rows:
            continue
        codec = file.metadata.row_group(0).column(0).compression.lower()
        config = HoodieStorageConfig(
            parquet_compression_codec=ParquetCompression(codec.replace("uncompressed", "none"))
        )
        schema = pa.schema([pa.field(field.name, field.type, field.nullable) for field in file.schema_arrow])
        groups = groups_of(path, schema, 1, config)
        table = file.read()
        keys = table[RECORD_KEY_META]
        if not groups:
            continue
        target = tmp_path / "new.parquet"
        writer = HoodieParquetWriter(
            pa.OSFile(str(target), "w"), schema, config, bloom_filter=None, avro_schema=None, path=str(target)
        )
        with writer, pa.OSFile(str(path)) as stream:
            for group in groups.values():
                writer.copy_row_group(group, lambda count, at: stream.read_at(count, at), keys, {FILE_NAME_META: "new"})
            writer.close()
        found = pq.ParquetFile(target, page_checksum_verification=True)
        assert texts(found.read()) == texts(renamed(table))
        assert [rows.num_rows for rows in found.iter_batches()] != []
        for number in groups:
            check_described(file.metadata.row_group(number), found.metadata.row_group(number))
        check_page_indexes_and_places(target)
        copied += 1
        writers.add(file.metadata.created_by.partition(" (")[0])
    print(f"{copied} files, {sorted(writers)}")
    assert copied > 100
    assert any(writer.startswith("parquet-mr") for writer in writers)
