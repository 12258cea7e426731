"""Avro files of the timeline: real ones are read, ours have Hudi's shape, damaged ones are refused."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from avro.datafile import DataFileReader, DataFileWriter
from avro.io import DatumReader, DatumWriter
from avro.schema import parse
from hypothesis import given
from hypothesis import strategies as st

from hoodie.avro.timeline_metadata import (
    NAMESPACE,
    RECORDS,
    HoodieInstantInfo,
    HoodieRequestedReplaceMetadata,
    HoodieRollbackMetadata,
    HoodieRollbackPartitionMetadata,
    HoodieRollbackPlan,
    HoodieRollbackRequest,
    decode,
    decode_datums,
    decode_heads,
    decode_record,
    encode,
    encode_record,
    schema_of,
)
from hoodie.exception import HoodieCorruptedDataException, HoodieException

PLAN = HoodieRollbackPlan(
    HoodieInstantInfo("20240102030405678", "commit"),
    (
        HoodieRollbackRequest("p=1", "f-0", "20240101000000000", log_blocks_to_be_deleted={"/t/p=1/.f-0.log.1": 80}),
        HoodieRollbackRequest("", files_to_be_deleted=("/t/f-0_0-1-2_20240102030405678.parquet",)),
    ),
)
METADATA = HoodieRollbackMetadata(
    start_rollback_time="20240102030405679",
    time_taken_ms=12,
    total_files_deleted=1,
    commits_rollback=("20240102030405678",),
    partition_metadata={"": HoodieRollbackPartitionMetadata("", ("/t/a.parquet",), ("/t/b.parquet",))},
    instants_rollback=(HoodieInstantInfo("20240102030405678", "commit"),),
)
ROLLBACK_SCHEMA_FIELDS = [
    "startRollbackTime",
    "timeTakenInMillis",
    "totalFilesDeleted",
    "commitsRollback",
    "partitionMetadata",
    "version",
    "instantsRollback",
]


def files_of(shared_tables: Path, pattern: str, record: str) -> list[Path]:
    paths = [path for path in shared_tables.rglob(pattern) if path.is_file() and path.stat().st_size]
    return [path for path in paths if f'"name":"{record}"'.encode() in path.read_bytes()[:120]]


def read_with_own_schema(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    reader = DataFileReader(io.BytesIO(data), DatumReader())
    (record,) = reader
    assert isinstance(record, dict)
    return json.loads(reader.schema), record


def without_docs(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_docs(item) for key, item in value.items() if key != "doc"}
    return [without_docs(item) for item in value] if isinstance(value, list) else value


def only_fields_of(value: Any, found: Any) -> Any:
    """What was found, without the fields that a newer Hudi added, and null where an older one had no field."""
    if isinstance(value, dict) and found is not None:
        return {key: only_fields_of(item, found.get(key)) for key, item in value.items()}
    if isinstance(value, list) and found is not None:
        return [only_fields_of(item, other) for item, other in zip(value, found, strict=True)]
    return found


@pytest.mark.parametrize(
    ("pattern", "record", "at_least"),
    [
        ("*.clean", "HoodieCleanMetadata", 4),
        ("*.clean.*", "HoodieCleanerPlan", 7),
        ("*.compaction.requested", "HoodieCompactionPlan", 15),
        ("*.replacecommit.requested", "HoodieRequestedReplaceMetadata", 8),
        ("*.clustering.requested", "HoodieRequestedReplaceMetadata", 3),
    ],
)
def test_real_files_are_read_whole_and_written_again(
    shared_tables: Path, pattern: str, record: str, at_least: int
) -> None:
    paths = files_of(shared_tables, f".hoodie/**/{pattern}", record)
    assert len(paths) >= at_least
    for path in paths:
        _, expected = read_with_own_schema(path.read_bytes())
        value = decode_record(path.read_bytes(), record, str(path))
        assert only_fields_of(value, expected) == value
        assert decode_record(encode_record(record, value), record) == value


@pytest.mark.parametrize(
    ("pattern", "record"),
    [
        ("*.compaction.requested", "HoodieCompactionPlan"),
        ("*.replacecommit.requested", "HoodieRequestedReplaceMetadata"),
    ],
)
def test_schemas_are_those_of_files_that_hudi_0_15_wrote(shared_tables: Path, pattern: str, record: str) -> None:
    paths = files_of(shared_tables, f"*v6*/**/.hoodie/{pattern}", record)
    assert paths
    for path in paths:
        schema, _ = read_with_own_schema(path.read_bytes())
        assert without_docs(schema) == schema_of(record), path


def test_a_clustering_plan_of_a_real_table_is_found_in_its_request(shared_tables: Path) -> None:
    (path,) = shared_tables.rglob("hudi-v6-table-payload-default/.hoodie/20250929001924395.replacecommit.requested")
    requested = decode(path.read_bytes(), HoodieRequestedReplaceMetadata, str(path))
    assert requested.operation_type == "CLUSTER"
    assert requested.version == 1
    assert requested.clustering_plan is not None
    assert requested.clustering_plan.input_groups[0].slices[0].file_id
    assert decode(encode(requested), HoodieRequestedReplaceMetadata) == requested


def test_the_request_of_an_insert_overwrite_is_all_null_as_hudis_is(shared_tables: Path) -> None:
    (path,) = shared_tables.rglob("*overwritetable/.hoodie/*.replacecommit.requested")
    assert decode(path.read_bytes(), HoodieRequestedReplaceMetadata) == HoodieRequestedReplaceMetadata()
    _, record = read_with_own_schema(encode(HoodieRequestedReplaceMetadata()))
    assert record == {"operationType": None, "clusteringPlan": None, "extraMetadata": None, "version": None}


@pytest.mark.parametrize("value", [PLAN, METADATA, HoodieRollbackPlan(None), HoodieRequestedReplaceMetadata("CLUSTER")])
def test_what_is_written_is_read_back(value: Any) -> None:
    assert decode(encode(value), type(value)) == value


def test_a_rollback_has_hudis_fields_in_hudis_order_and_no_compression() -> None:
    data = encode(METADATA)
    schema, record = read_with_own_schema(data)
    assert f"{schema['namespace']}.{schema['name']}" == "org.apache.hudi.avro.model.HoodieRollbackMetadata"
    assert [field["name"] for field in schema["fields"]] == list(record) == ROLLBACK_SCHEMA_FIELDS
    assert record["partitionMetadata"][""] == {
        "partitionPath": "",
        "successDeleteFiles": ["/t/a.parquet"],
        "failedDeleteFiles": ["/t/b.parquet"],
        "rollbackLogFiles": {},
        "logFilesFromFailedCommit": {},
    }
    assert record["version"] == 1
    assert b"/t/a.parquet" in data


@pytest.mark.parametrize("name", RECORDS)
def test_each_schema_is_valid_and_complete(name: str) -> None:
    schema = schema_of(name)
    assert str(parse(json.dumps(schema))) and schema["namespace"] == NAMESPACE and schema["name"] == name
    assert len(schema["fields"]) == RECORDS[name].count(";") + 1


def test_notation_of_schemas_is_read_as_documented() -> None:
    fields = {field["name"]: field for field in schema_of("HoodieRestoreMetadata")["fields"]}
    string = {"type": "string", "avro.java.string": "String"}
    assert fields["instantsToRollback"] == {"name": "instantsToRollback", "type": {"type": "array", "items": string}}
    values = fields["hoodieRestoreMetadata"]["type"]["values"]
    assert values["items"][0] == "null" and values["items"][1]["name"] == "HoodieRollbackMetadata"
    assert fields["version"] == {"name": "version", "type": ["int", "null"], "default": 1}
    assert fields["restoreInstantInfo"]["default"] == []
    assert schema_of("HoodieSliceInfo")["fields"][2] == {"name": "fileId", "type": ["null", string]}
    assert schema_of("HoodieSliceInfo")["fields"][3]["default"] is None
    assert schema_of("HoodieCompactionPlan")["fields"][4] == {
        "name": "preserveHoodieMetadata",
        "type": ["boolean", "null"],
        "default": False,
    }


def test_fields_of_a_newer_writer_are_skipped_and_missing_ones_have_their_default() -> None:
    schema = schema_of("HoodieRollbackPlan")
    del schema["fields"][2]
    schema["fields"].insert(0, {"name": "later", "type": {"type": "array", "items": "long"}})
    record = {"later": [1, 2], "instantToRollback": {"commitTime": "1", "action": "commit"}, "RollbackRequests": None}
    buffer = io.BytesIO()
    writer = DataFileWriter(buffer, DatumWriter(), parse(json.dumps(schema)))
    writer.append(record)
    writer.flush()
    assert decode(buffer.getvalue(), HoodieRollbackPlan) == HoodieRollbackPlan(HoodieInstantInfo("1", "commit"))


def damaged(data: bytes) -> dict[str, bytes]:
    sync = data[-16:]
    return {
        "empty": b"",
        "no avro": b"{}" * 300,
        "text after it": data + b"zz",
        "two records": data + data[data.index(sync) + 16 :],
        "no record": data[: data.index(sync) + 16],
        "another record": encode(HoodieRequestedReplaceMetadata()),
        "another codec": data.replace(b"\x08null\x16avro.schema", b"\x08lzma\x16avro.schema"),
        "a huge length": data[:-40] + b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01" + data[-30:],
    }


@pytest.mark.parametrize("name", damaged(encode(PLAN)))
def test_damaged_files_are_refused_by_the_name_of_their_source(name: str) -> None:
    with pytest.raises(
        HoodieCorruptedDataException, match=r"/t/\.hoodie/1\.rollback\.requested as a HoodieRollbackPlan"
    ):
        decode(damaged(encode(PLAN))[name], HoodieRollbackPlan, "/t/.hoodie/1.rollback.requested")


def test_a_module_that_cannot_be_imported_is_not_told_as_a_damaged_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hoodie.avro.datum_reader", raising=False)
    monkeypatch.delattr("hoodie.avro.datum_reader", raising=False)
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(HoodieException, match=r"/t/1\.rollback as a .*module fastavro .*install it") as caught:
        decode(encode(PLAN), HoodieRollbackPlan, "/t/1.rollback")
    assert not isinstance(caught.value, HoodieCorruptedDataException)


def test_a_file_that_was_cut_anywhere_is_refused() -> None:
    data = encode(PLAN)
    for length in range(0, len(data), 7):
        with pytest.raises(HoodieCorruptedDataException):
            decode(data[:length], HoodieRollbackPlan)
    with pytest.raises(HoodieCorruptedDataException):
        decode(data[:-1], HoodieRollbackPlan)


@given(st.data())
def test_any_changed_byte_is_read_or_refused_and_never_another_error(data: st.DataObject) -> None:
    original = encode(METADATA)
    position = data.draw(st.integers(0, len(original) - 1))
    changed = original[:position] + bytes([data.draw(st.integers(0, 255))]) + original[position + 1 :]
    try:
        decode(changed, HoodieRollbackMetadata)
    except HoodieCorruptedDataException as error:
        assert "HoodieRollbackMetadata" in str(error)


def test_a_plan_that_a_changed_byte_makes_an_empty_one_is_refused() -> None:
    """The first byte of the requests says that there are some; with 0 the rest of the block is left over."""
    request = HoodieRollbackRequest("x", "f", "", ("lost",), {})
    content = encode(HoodieRollbackPlan(HoodieInstantInfo("20200101000000000", "commit"), (request,)))
    place = content.index(b"\x0ccommit\x02") + len(b"\x0ccommit")
    assert decode(content, HoodieRollbackPlan, "the plan").rollback_requests == (request,)
    damaged = content[:place] + b"\x00" + content[place + 1 :]
    with pytest.raises(HoodieCorruptedDataException, match="the plan.* belong to no record"):
        decode(damaged, HoodieRollbackPlan, "the plan")


def test_schemas_that_nest_without_end_are_refused() -> None:
    deep = '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000
    record = f'{{"type":"record","name":"HoodieRollbackPlan","fields":[{{"name":"version","type":{deep}}}]}}'
    with pytest.raises(HoodieCorruptedDataException):
        decode_datums(record, [b"\x00"], "a block")


def test_collections_that_announce_more_than_there_is_are_refused() -> None:
    endless = '{"type":"record","name":"r","fields":[{"name":"a","type":{"type":"array","items":"null"}}]}'
    with pytest.raises(HoodieCorruptedDataException):
        decode_datums(endless, [b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f"], "a block")


def test_values_that_the_schema_does_not_allow_are_refused() -> None:
    with pytest.raises(HoodieException, match="Cannot write a HoodieInstantInfo"):
        encode_record("HoodieInstantInfo", {"commitTime": 1, "action": "commit"})
    with pytest.raises(HoodieException, match="Cannot write a HoodieInstantInfo"):
        encode_record("HoodieInstantInfo", {"commitTime": "1"})


def test_bare_records_are_read_with_the_fields_wanted() -> None:
    schema = json.dumps(schema_of("HoodieInstantInfo"))
    datum = b"\x021\x0ccommit"
    assert decode_datums(schema, [datum]) == [{"commitTime": "1", "action": "commit"}]
    assert decode_heads(schema, [datum, datum], ["commitTime"]) == [{"commitTime": "1"}] * 2
    with pytest.raises(HoodieCorruptedDataException, match="block 3"):
        decode_datums(schema, [datum[:-1]], "block 3")
