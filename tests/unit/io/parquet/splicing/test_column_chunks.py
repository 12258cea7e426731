from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hoodie.exception import HoodieCorruptedDataException, HoodieException
from hoodie.io.parquet.splicing import StoredColumns
from hoodie.io.parquet.splicing.column_chunks import WrittenRowGroup, encoded_column, row_groups_of, write_footer

KEY = pa.field("key", pa.string())
OPTIONS = {"version": "1.0", "compression": "snappy", "use_dictionary": False, "store_schema": False}


def chunk_of(values: list[str | None], **options: object):
    return encoded_column(pa.chunked_array([values], pa.string()), KEY, **(OPTIONS | options))


def file_of(chunk, rows: int) -> bytes:
    """A file of a column ``n`` that pyarrow writes, and the chunk as column ``key`` before it."""
    sink = io.BytesIO()
    stream = pa.PythonFile(sink, "w")
    collected: list[pq.FileMetaData] = []
    part = pa.table({"n": list(range(rows))})
    with pq.ParquetWriter(stream, part.schema, metadata_collector=collected, **OPTIONS) as writer:
        writer.write_table(part)
        placed = chunk.write(stream)
    whole: list[pq.FileMetaData] = []
    schema = pa.schema([KEY, ("n", pa.int64())])
    pq.ParquetWriter(pa.BufferOutputStream(), schema, metadata_collector=whole, **OPTIONS).close()
    (group,) = row_groups_of(collected[0])
    group = WrittenRowGroup(group.rows, {**group.chunks, ("key",): placed})
    write_footer(stream, whole[0], [group], {"a": "b", "c": "d"})
    return sink.getvalue()


def test_a_chunk_moves_to_another_file_and_takes_further_rows() -> None:
    first, second = ["b", "ü", None], ["a", None, "c"]
    both = chunk_of(first).followed_by(chunk_of(second))
    data = file_of(both, 6)
    file = pq.ParquetFile(pa.BufferReader(data))
    table = file.read()
    assert table.column_names == ["key", "n"]
    assert table["key"].to_pylist() == [*first, *second]
    assert table["n"].to_pylist() == list(range(6))
    column = file.metadata.row_group(0).column(0)
    assert (column.statistics.min, column.statistics.max, column.statistics.null_count) == ("a", "ü", 2)
    assert column.num_values == 6
    assert file.metadata.num_rows == 6
    group = file.metadata.row_group(0)
    assert group.total_byte_size == sum(group.column(number).total_uncompressed_size for number in range(2))
    assert file.metadata.metadata == {b"a": b"b", b"c": b"d"}


def test_pages_of_plain_values_follow_those_of_a_dictionary_but_not_the_other_way_round() -> None:
    with_dictionary = chunk_of(["x"] * 10, use_dictionary=True)
    plain = chunk_of(["y"])
    table = pq.read_table(pa.BufferReader(file_of(with_dictionary.followed_by(plain), 11)))
    assert table["key"].to_pylist() == ["x"] * 10 + ["y"]
    with pytest.raises(HoodieException, match="dictionary"):
        plain.followed_by(with_dictionary)


def test_nothing_follows_a_chunk_without_change() -> None:
    chunk = chunk_of(["a"])
    assert chunk.followed_by(chunk_of([])) is chunk


def test_statistics_that_one_side_lacks_are_left_out() -> None:
    both = chunk_of(["a"]).followed_by(chunk_of(["b"], write_statistics=False))
    data = file_of(both, 2)
    assert pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0).column(0).statistics is None


def test_chunks_are_found_in_a_file_of_several_row_groups(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    table = pa.table({"key": ["a", "b", "c"], "other": ["a", "b", "x"], "s": [{"key": "z"}] * 3})
    pq.write_table(table, path, row_group_size=2, **OPTIONS)
    stored = StoredColumns(pa.OSFile(str(path)), str(path))
    first, second = stored.chunks(0, ["key", "other"]), stored.chunks(1, ["key"])
    assert (first.rows, second.rows) == (2, 1)
    assert stored.chunks(1, ["key", "other"]) is None
    assert stored.chunks(0, ["s"]) is None
    together = first.chunks["other"].followed_by(second.chunks["key"]).named("key")
    assert pq.read_table(pa.BufferReader(file_of(together, 3)))["key"].to_pylist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("key", "compression", "copied"),
    [
        (KEY, "snappy", ["key", "same"]),
        (KEY, "gzip", []),
        (KEY.with_nullable(False), "snappy", []),
        (pa.field("other", pa.string()), "snappy", ["other"]),
        (pa.field("absent", pa.string()), "snappy", []),
        (pa.field("n", pa.int64()), "snappy", []),
    ],
    ids=str,
)
def test_columns_are_copied_that_the_footer_says_equal_the_key(
    tmp_path: Path, key: pa.Field, compression: str, copied: list[str]
) -> None:
    path = tmp_path / "f.parquet"
    names = ["a", "b", "c"]
    pq.write_table(pa.table({"key": names, "same": names, "other": ["a", "b", "x"], "n": [1, 2, 3]}), path, **OPTIONS)
    stored = StoredColumns(pa.OSFile(str(path)), str(path))
    others = [pa.field("same", pa.string()), pa.field("n", pa.int64())]
    assert stored.copies_of(key, others, compression) == copied


def test_a_chunk_is_kept_only_with_its_codec_and_while_it_has_few_pages() -> None:
    chunk = chunk_of(["a"])
    assert chunk.suits("snappy")
    assert not chunk.suits("gzip")
    many = chunk
    for _ in range(70):
        many = many.followed_by(chunk)
    assert not many.suits("snappy")


def test_a_column_that_is_never_null_is_not_copied_to_one_that_may_be(tmp_path: Path) -> None:
    path = tmp_path / "f.parquet"
    never_null = KEY.with_nullable(False)
    pq.write_table(pa.table({"key": ["a"]}, schema=pa.schema([never_null])), path, **OPTIONS)
    stored = StoredColumns(pa.OSFile(str(path)), str(path))
    assert stored.copies_of(never_null, [], "snappy") == ["key"]
    assert stored.copies_of(KEY, [], "snappy") == []


def test_a_file_without_a_footer_is_damaged() -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"f\.parquet does not end"):
        StoredColumns(pa.BufferReader(b"PAR1 and no more"), "f.parquet")


def test_every_key_column_of_real_hudi_moves_to_another_file(shared_tables: Path) -> None:
    moved = 0
    for path in shared_tables.rglob("*.parquet"):
        if path.name.startswith(".") or path.read_bytes()[-4:] != b"PAR1":
            continue
        file = pq.ParquetFile(path)
        if "_hoodie_record_key" not in file.schema_arrow.names or not file.metadata.num_rows:
            continue
        stored = StoredColumns(pa.OSFile(str(path)), str(path))
        key = pa.field("_hoodie_record_key", pa.string())
        assert stored.copies_of(key, [], codec_of(file)) == [key.name]
        chunk = stored.chunks(0, [key.name]).chunks[key.name]
        more = encoded_column(pa.chunked_array([["~"]]), KEY, **(OPTIONS | {"compression": codec_of(file)}))
        data = file_of(chunk.followed_by(more).named("key"), chunk.rows + 1)
        found = pq.ParquetFile(pa.BufferReader(data))
        keys = file.read_row_group(0, ["_hoodie_record_key"])[0].to_pylist()
        assert found.read()["key"].to_pylist() == [*keys, "~"]
        statistics = found.metadata.row_group(0).column(0).statistics
        if statistics is not None and statistics.has_min_max:
            assert (statistics.min, statistics.max) == (min(keys), "~")
        moved += 1
    assert moved > 50


def codec_of(file: pq.ParquetFile) -> str:
    return {"UNCOMPRESSED": "none"}.get(found := file.metadata.row_group(0).column(0).compression, found.lower())
