"""Keys of the metadata table, and the file groups that they belong to."""

from __future__ import annotations

import base64
import hashlib

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieCorruptedDataException
from hoodie.metadata.records import metadata_keys as keys_of
from hoodie.metadata.records.metadata_partition_type import MetadataPartitionType, file_group_number
from hoodie.metadata.records.metadata_records import MetadataPayload, decode_values
from tests.support.metadata_table_files import StoredRecords

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6) | st.sampled_from(
    ["\\", "$", "\0", "a$b\\", "\\$"]
)


def java_hash(text: str) -> int:
    """Java's String.hashCode, a unit of UTF-16 at a time."""
    found, units = 0, text.encode("utf-16-be")
    for place in range(0, len(units), 2):
        found = (31 * found + int.from_bytes(units[place : place + 2], "big")) & 0xFFFFFFFF
    return found - (1 << 32) if found >> 31 else found


def escaped(text: str | None) -> str:
    if text is None:
        return "\0"
    return "".join(f"\\{character}" if character in "\\$\0" else character for character in text)


def test_a_key_of_column_statistics_has_its_three_parts() -> None:
    found = keys_of.column_stats_keys(
        pa.array(["country", "country"]), pa.array(["country=US", ""]), pa.array(["a.parquet", "b.parquet"])
    )
    digests = [base64.b64encode(hashlib.md5(name).digest()).decode() for name in (b"a.parquet", b"b.parquet")]
    assert found.to_pylist() == [
        "DjJJ9z40AYM=" + "eh5KI0Jhw9Q=" + digests[0],
        "DjJJ9z40AYM=" + keys_of.name_id(".") + digests[1],
    ]
    assert found[0].as_py().startswith(keys_of.column_stats_prefix("country", "country=US"))
    assert found[1].as_py().startswith(keys_of.column_stats_prefix("country"))


@given(st.lists(TEXTS.filter(bool), max_size=30))
def test_ids_of_file_names_are_the_base64_of_their_md5(names: list[str]) -> None:
    expected = [base64.b64encode(hashlib.md5(name.encode()).digest()).decode() for name in names]
    assert keys_of.file_name_ids(pa.array(names, pa.string())).to_pylist() == expected


@pytest.mark.one_in(4)
def test_keys_of_the_statistics_of_real_tables_are_made_of_what_they_hold(real_records: list[StoredRecords]) -> None:
    counts = dict.fromkeys(("column_stats", "partition_stats", "expr_index_idx_ts"), 0)
    for records in real_records:
        if records.partition not in counts:
            continue
        rows = decode_values(records.values, records.schema, MetadataPayload.COLUMN_STATS)
        partitions = sorted({path.relative_to(records.table).parent.as_posix() for path in data_files(records)})
        for key, row in zip(records.keys.to_pylist(), rows.to_pylist(), strict=True):
            column, file_name = pa.array([row["column_name"]]), pa.array([row["file_name"]])
            if row["type"] == 6:
                of_expression = records.partition.startswith("expr")
                made = keys_of.partition_stats_keys(column, file_name, of_expression=of_expression).to_pylist()
            else:
                made = [
                    keys_of.column_stats_keys(column, pa.array([partition]), file_name)[0].as_py()
                    for partition in ("", *partitions)
                ]
            assert key in made, (records.path, row)
            counts[records.partition] += 1
    assert min(counts.values()) >= 6


def data_files(records: StoredRecords) -> list:
    return [path for path in records.table.rglob("*.parquet") if ".hoodie" not in path.parts]


def test_every_key_of_real_tables_is_in_its_file_group(real_records: list[StoredRecords]) -> None:
    counts: dict[tuple[str, str], set[int]] = {}
    for records in real_records:
        groups = counts.setdefault((str(records.path.parent), records.file_id[: -len("0000-0")]), set())
        for path in records.path.parent.iterdir():
            name = path.name.lstrip(".")
            if name.startswith(records.file_id[: -len("0000-0")]) and path.suffix != ".crc":
                groups.add(file_group_number(name.split("_")[0]))
    checked = set()
    for records in real_records:
        count = len(counts[str(records.path.parent), records.file_id[: -len("0000-0")]])
        by_secondary_key = records.partition.startswith("secondary_index_") and records.table_version == 9
        found = keys_of.file_groups_of_keys(records.keys, count, by_secondary_key=by_secondary_key)
        assert set(found.tolist()) == {file_group_number(records.file_id)}, records.path
        assert (keys_of.file_groups_of_keys(records.keys.cast(pa.binary()), count) >= 0).all()
        checked.add((MetadataPartitionType.of_path(records.partition), count))
    assert {kind for kind, count in checked if count > 1} >= {
        MetadataPartitionType.RECORD_INDEX, MetadataPartitionType.SECONDARY_INDEX, MetadataPartitionType.COLUMN_STATS,
        MetadataPartitionType.BLOOM_FILTERS,
    }  # fmt: skip


@given(st.lists(st.text(max_size=8).filter(lambda text: text.isprintable()), max_size=20), st.integers(1, 50))
def test_file_groups_are_those_of_javas_hash(keys: list[str], count: int) -> None:
    found = keys_of.file_groups_of_keys(pa.array([*keys, "\U0001f600x"], pa.string()), count)
    # abs of the smallest int is itself in Java, and its remainder has the same size.
    assert found.tolist() == [abs(java_hash(key)) % count for key in (*keys, "\U0001f600x")]


def test_the_key_with_the_smallest_hash_has_a_file_group() -> None:
    key = "polygenelubricants"
    assert java_hash(key) == -(1 << 31)
    assert keys_of.file_groups_of_keys(pa.array([key]), 7).tolist() == [(1 << 31) % 7]


def test_a_partition_without_file_groups_is_an_error() -> None:
    with pytest.raises(ValueError, match="0 file groups"):
        keys_of.file_groups_of_keys(pa.array(["a"]), 0)


@given(st.lists(st.tuples(st.none() | TEXTS, TEXTS), max_size=20))
def test_keys_of_secondary_indexes_are_escaped_and_split_again(pairs: list[tuple[str | None, str]]) -> None:
    values = pa.array([value for value, _ in pairs], pa.string())
    record_keys = pa.array([key for _, key in pairs], pa.string())
    made = keys_of.secondary_index_keys(values, record_keys)
    assert made.to_pylist() == [f"{escaped(value)}${escaped(key)}" for value, key in pairs]
    found = keys_of.split_secondary_index_keys(made)
    assert (found[0].to_pylist(), found[1].to_pylist()) == (values.to_pylist(), record_keys.to_pylist())
    prefixes = keys_of.secondary_key_prefixes(values)
    assert prefixes.to_pylist() == [f"{escaped(value)}$" for value, _ in pairs]
    by_value = keys_of.file_groups_of_keys(made, 10, by_secondary_key=True)
    assert np.array_equal(by_value, keys_of.file_groups_of_keys(prefixes, 10))


def test_a_key_of_a_secondary_index_without_separator_is_corrupted() -> None:
    with pytest.raises(HoodieCorruptedDataException, match=r"'a\\\\\$b' of a secondary index has no separator"):
        keys_of.split_secondary_index_keys(pa.array(["a$b", "a\\$b"]))
