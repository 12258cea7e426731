"""Tables of every merge mode, written in-process, hold what real Hudi 1.2.0 made of the same rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import hoodie
from hoodie import HoodieRecordMerger, HoodieTableMetaClient, MergeOutcome
from hoodie.avro.schema_converters import to_arrow
from hoodie.exception import (
    HoodieConfigException,
    HoodieNotSupportedException,
    HoodieWriteException,
    MissingSchemaFieldException,
)
from hoodie.table.repair import find_duplicates
from tests.support.later_version import change_properties
from tests.support.merge_mode_cases import GOLDEN, SCHEMA, TABLES, Step, commits_of, create, outcome, steps_of
from tests.support.table_builder import content, local_client
from tests.unit.test_tables_of_real_hudi import in_order, read_by_hudi_rs, user_rows


def carry_out(base_path: Path, step: Step) -> None:
    with local_client(base_path, {}) as client:
        if step.operation == "delete":
            client.delete(step.rows)
        else:
            client.upsert(step.rows)


@pytest.fixture(scope="module")
def golden() -> pa.Table:
    return pq.read_table(GOLDEN)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_holds_what_hudi_made_of_the_same_rows(name: str, golden: pa.Table, tmp_path: Path) -> None:
    table = TABLES[name]
    create(tmp_path / "t", table)
    expected = golden.filter(pc.equal(golden["table"], name))
    for number, step in enumerate(steps_of()):
        carry_out(tmp_path / "t", step)
        mine = outcome(hoodie.read_table(str(tmp_path / "t")), commits_of(tmp_path / "t"))
        theirs = expected.filter(pc.equal(expected["step"], number)).select(mine.column_names)
        assert mine.num_rows > 30
        assert mine.to_pylist() == theirs.to_pylist(), f"step {number}"


def rows(*values: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([{"Op": "U", "ord": 1, "small": 1, **value} for value in values], SCHEMA)


def upsert(base_path: Path, given: pa.Table, **properties: str) -> None:
    with local_client(base_path, {key.replace("_", "."): value for key, value in properties.items()}) as client:
        client.upsert(given)


def stored(base_path: Path) -> dict[str, object]:
    return {row["id"]: row["no"] for row in hoodie.read_table(str(base_path), columns=["id", "no"]).to_pylist()}


@pytest.mark.parametrize("field", ["ord", "small"])
def test_a_null_in_one_of_the_ordering_fields_is_refused(field: str, tmp_path: Path) -> None:
    """Hudi fails where such a row meets a stored one."""
    create(tmp_path / "t", TABLES["event_time_by_two"])
    with pytest.raises(HoodieWriteException, match=r"ordering fields 'ord, small' \(hoodie\.table\.ordering\.fields\)"):
        upsert(tmp_path / "t", rows({"id": "k", field: None}))
    with pytest.raises(MissingSchemaFieldException, match=rf"ordering field '{field}'.*ordering\.fields"):
        upsert(tmp_path / "t", rows({"id": "k"}).drop_columns([field]))


def test_a_stored_row_without_one_of_its_ordering_values_loses(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["event_time_by_two"])
    with local_client(tmp_path / "t", {}) as client:
        client.bulk_insert(rows({"id": "k", "ord": 9, "small": None, "no": 1}, {"id": "l", "ord": 9, "no": 1}))
    upsert(tmp_path / "t", rows({"id": "k", "no": 2}, {"id": "l", "no": 2}))
    assert stored(tmp_path / "t") == {"k": 2, "l": 1}


def test_a_null_among_the_32_bit_ordering_values_of_stored_rows_counts_as_0(tmp_path: Path) -> None:
    """As in Hudi 1.2.0, which fails for nulls of other types."""
    create(tmp_path / "t", TABLES["event_time_by_int"])
    with local_client(tmp_path / "t", {}) as client:
        client.bulk_insert(rows(*({"id": key, "small": None, "no": 1} for key in "abc")))
    changes = ({"id": key, "small": small, "no": 2} for key, small in (("a", -3), ("b", 0), ("c", 3)))
    upsert(tmp_path / "t", rows(*changes))
    assert stored(tmp_path / "t") == {"a": 1, "b": 2, "c": 2}


def test_commit_time_looks_at_no_ordering_field(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["commit_time"])
    upsert(tmp_path / "t", rows({"id": "k", "no": 1, "ord": 9}))
    upsert(tmp_path / "t", rows({"id": "k", "no": 3, "ord": 7}, {"id": "k", "no": 2, "ord": None}))
    assert stored(tmp_path / "t") == {"k": 2}


def test_input_without_some_columns_keeps_the_stored_values_where_nulls_are_ignored(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["partial_update"])
    upsert(tmp_path / "t", rows({"id": "k", "ord": 2, "no": 1, "a": "a", "name": "n"}))
    upsert(tmp_path / "t", pa.table({"id": ["k", "l"], "ord": [3, 3], "a": ["b", "c"]}))
    upsert(tmp_path / "t", pa.table({"id": ["k"], "ord": [1], "a": ["old"], "b": pa.array([5], pa.int32())}))
    found = hoodie.read_table(str(tmp_path / "t"), columns=["id", "ord", "no", "a", "b", "name"]).to_pylist()
    assert sorted(found, key=str) == [
        {"id": "k", "ord": 3, "no": 1, "a": "b", "b": 5, "name": "n"},
        {"id": "l", "ord": 3, "no": None, "a": "c", "b": None, "name": None},
    ]


def test_defaults_that_are_one_object_in_java_are_ignored_and_others_are_not(tmp_path: Path) -> None:
    defaults: dict[str, tuple[str, object]] = {
        "small_int": ("int", 7), "large_int": ("int", 1000), "small_long": ("long", -128), "text": ("string", "x"),
        "number": ("double", 1.5), "whole_number": ("double", 0), "flag": ("boolean", False),
    }  # fmt: skip
    fields: list[dict[str, object]] = [
        {"name": name, "type": kind, "default": value} for name, (kind, value) in defaults.items()
    ]
    schema = {"type": "record", "name": "r", "fields": [{"name": "id", "type": "string"}, *fields]}
    path = str(tmp_path / "t")
    HoodieTableMetaClient.init_table(
        path,
        table_name="t",
        record_key_fields="id",
        payload_class="OverwriteNonDefaultsWithLatestAvroPayload",
        schema=json.dumps(schema),
        table_version=9,
    )
    columns = to_arrow(json.dumps(schema))
    old = {"id": "k", "small_int": 1, "large_int": 2, "small_long": 3, "text": "t", "number": 4.0, "flag": True}
    old["whole_number"] = 5.0
    upsert(tmp_path / "t", pa.Table.from_pylist([old], columns))
    new = {"id": "k", **{name: value for name, (_, value) in defaults.items()}}
    upsert(tmp_path / "t", pa.Table.from_pylist([new], columns))
    (found,) = hoodie.read_table(path, columns=columns.names).to_pylist()
    kept = {"small_int", "small_long", "flag"}
    assert found == {name: old[name] if name in kept else new[name] for name in columns.names}


def test_a_delete_marker_of_the_writer_counts_as_that_of_the_table(tmp_path: Path) -> None:
    create(tmp_path / "t", TABLES["event_time"])
    upsert(tmp_path / "t", rows({"id": "k", "no": 1}, {"id": "l", "no": 1}, {"id": "m", "no": 1}))
    change = rows({"id": "k", "Op": "X"}, {"id": "l", "Op": "x"}, {"id": "m", "ord": 0, "Op": "X"})
    upsert(tmp_path / "t", change, hoodie_payload_delete_field="Op", hoodie_payload_delete_marker="X")
    assert stored(tmp_path / "t") == {"l": None, "m": 1}


class LargestNumber(HoodieRecordMerger):
    """Keeps the row with the larger number."""

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        return MergeOutcome.choose(pc.greater_equal(newer["no"], older["no"]))


@pytest.mark.parametrize("version", [8, 9])
def test_a_class_of_ones_own_merges(version: int, tmp_path: Path) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields="id", payload_class=LargestNumber, table_version=version
    )
    named = {"hoodie_write_record_merge_custom_implementation_classes": f"{__name__}.LargestNumber"}
    upsert(path, rows({"id": "k", "no": 5}, {"id": "l", "no": 5}), **named)
    upsert(path, rows({"id": "k", "no": 4}, {"id": "l", "no": 6}, {"id": "l", "no": 7}), **named)
    assert stored(path) == {"k": 5, "l": 7}
    with pytest.raises(HoodieNotSupportedException, match="the writer names none"):
        upsert(path, rows({"id": "k", "no": 9}))


@pytest.mark.parametrize("index", ["GLOBAL_SIMPLE", "GLOBAL_BLOOM"])
def test_records_move_to_another_partition_by_all_ordering_fields(index: str, tmp_path: Path) -> None:
    path = tmp_path / "t"
    HoodieTableMetaClient.init_table(
        str(path), table_name="t", record_key_fields="id", partition_fields="name", ordering_fields=["ord", "small"],
        table_version=9,
    )  # fmt: skip
    properties = {
        "hoodie_index_type": index,
        "hoodie_simple_index_update_partition_path": "true",
        "hoodie_bloom_index_update_partition_path": "true",
    }
    upsert(path, rows(*({"id": key, "name": "p", "no": 1} for key in "abc")), **properties)
    change = rows(
        {"id": "a", "name": "q", "small": 0, "no": 2},
        {"id": "b", "name": "q", "small": 1, "no": 2},
        {"id": "c", "name": "q", "ord": 2, "small": 0, "no": 2},
    )
    upsert(path, change, **properties)
    found = hoodie.read_table(str(path), columns=["id", "name", "no"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [("a", "p", 1), ("b", "q", 2), ("c", "q", 2)]


def test_of_rows_with_one_key_that_stays_which_the_merge_mode_prefers(tmp_path: Path) -> None:
    for name, expected in (("event_time_by_two", [(2, 0), (1, 9), (1, 5)]), ("commit_time", [None] * 3)):
        create(tmp_path / name, TABLES[name])
        for number, (order, small) in enumerate([(1, 5), (2, 0), (1, 9)]):
            with local_client(tmp_path / name, {}) as client:
                client.bulk_insert(rows({"id": "k", "ord": order, "small": small, "no": number}))
        found = find_duplicates(str(tmp_path / name)).rows
        assert [row.ordering_value for row in found] == expected
        assert [row.is_kept for row in found] == [True, False, False]
        times = [row.commit_time for row in found]
        assert sorted(times).index(times[0]) == (1 if name == "event_time_by_two" else 2)


@pytest.mark.parametrize("version", [8, 9])
def test_a_merger_that_hoodie_does_not_have_is_refused_for_writing_only(version: int, tmp_path: Path) -> None:
    table = attrs.evolve(TABLES["event_time"], version=version)
    create(tmp_path / "t", table)
    upsert(tmp_path / "t", rows({"id": "k", "no": 1}))
    changed = {"hoodie.record.merge.mode": "CUSTOM", "hoodie.compaction.payload.class": "com.example.Payload"}
    change_properties(tmp_path / "t", {**changed, "hoodie.record.merge.strategy.id": None})
    assert stored(tmp_path / "t") == {"k": 1}
    before = content(tmp_path / "t")
    with pytest.raises(HoodieNotSupportedException, match=r"payload\.class=com\.example\.Payload"):
        upsert(tmp_path / "t", rows({"id": "k", "no": 2}))
    assert content(tmp_path / "t") == before


@pytest.mark.one_in(4)
def test_a_first_write_makes_a_table_of_the_named_version_and_later_ones_must_not_name_another(tmp_path: Path) -> None:
    for version in (6, 8, 9):
        path, option = str(tmp_path / f"t{version}"), {"hoodie.write.table.version": version}
        given = rows({"id": "k", "no": 1})
        hoodie.write_table(given, path, record_key_fields="id", ordering_fields="ord", properties=option)
        assert HoodieTableMetaClient.load(path).table_config.table_version == version
        for properties in (option, {}):
            hoodie.write_table(rows({"id": "k", "no": 2}), path, properties=properties)
        before = content(Path(path))
        other = {"hoodie.write.table.version": 6 if version == 9 else 9, "hoodie.write.auto.upgrade": False}
        with pytest.raises(HoodieConfigException, match=rf"the table is of version {version}"):
            hoodie.write_table(rows({"id": "k", "no": 3}), path, properties=other)
        assert content(Path(path)) == before and stored(Path(path)) == {"k": 2}


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize(
    ("arguments", "cannot"),
    [
        ({}, None),
        ({"partition_fields": "name"}, None),
        ({"partition_fields": "name", "hive_style_partitioning": True}, None),
        ({"record_key_fields": "id,name", "partition_fields": "name,a"}, None),
        ({"ordering_fields": "ord"}, None),
        ({"ordering_fields": "ord", "payload_class": "PartialUpdateAvroPayload"}, None),
        ({"payload_class": "AWSDmsAvroPayload"}, None),
        ({"payload_class": LargestNumber}, None),
        # Hudi's own tables of these kinds are not read either.
        ({"ordering_fields": "ord,small"}, "Multiple ordering fields"),
        ({"partition_fields": "name,a"}, "Partition field"),
    ],
)
def test_hudi_rs_reads_new_tables_but_for_two_kinds(
    version: int, arguments: dict[str, Any], cannot: str | None, tmp_path: Path
) -> None:
    given = {"table_name": "t", "record_key_fields": "id", "table_version": version} | arguments
    HoodieTableMetaClient.init_table(str(tmp_path / "t"), **given)
    named = {}
    if arguments.get("payload_class") is LargestNumber:
        named = {"hoodie_write_record_merge_custom_implementation_classes": f"{__name__}.LargestNumber"}
    before = ({"id": key, "name": "p", "a": "q", "ord": 2, "no": 1} for key in "abc")
    upsert(tmp_path / "t", rows(*before), **named)
    upsert(tmp_path / "t", rows({"id": "a", "name": "p", "a": "q", "ord": 3, "no": 2}), **named)
    if cannot is None:
        assert in_order(read_by_hudi_rs(tmp_path / "t")) == in_order(user_rows(hoodie.read_table(str(tmp_path / "t"))))
    else:
        with pytest.raises(Exception, match=cannot):
            read_by_hudi_rs(tmp_path / "t")
    assert stored(tmp_path / "t") == {"a": 2, "b": 1, "c": 1}
