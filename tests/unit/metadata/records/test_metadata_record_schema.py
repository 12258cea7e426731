"""Schemas of the records of metadata tables."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hoodie.exception import HoodieNotSupportedException, HoodieSchemaException
from hoodie.metadata.records.metadata_record_schema import (
    WRAPPERS,
    metadata_record_schema,
    record_tree,
    with_meta_columns,
    wrapper_numbers,
)
from tests.support.metadata_table_files import StoredRecords


def bare(schema: Any) -> Any:
    """A schema without texts for people and for Java."""
    if isinstance(schema, dict):
        return {key: bare(value) for key, value in schema.items() if key not in ("doc", "avro.java.string")}
    return [bare(value) for value in schema] if isinstance(schema, list) else schema


def test_schemas_are_those_that_hudi_writes(real_records: list[StoredRecords]) -> None:
    written = [json.dumps(bare(json.loads(schema))) for schema in {records.schema for records in real_records}]
    for version in (6, 8, 9):
        assert json.dumps(bare(json.loads(with_meta_columns(metadata_record_schema(version))))) in written
    # Releases 0.15, 1.0, a snapshot of 1.1, 1.2.
    assert len(set(written)) == 4


def test_branches_are_found_by_their_names() -> None:
    schema = json.loads(with_meta_columns(metadata_record_schema(6)))
    stats = next(field for field in schema["fields"] if field["name"] == "ColumnStatsMetadata")["type"][1]
    branches = next(field for field in stats["fields"] if field["name"] == "maxValue")["type"]
    assert wrapper_numbers(json.dumps(schema), "maxValue") == tuple(range(12))
    branches[1], branches[7] = branches[7], branches[1]
    assert wrapper_numbers(json.dumps(schema), "maxValue") == (0, 7, 2, 3, 4, 5, 6, 1, 8, 9, 10, 11)
    branches[3] = {"type": "record", "name": "org.x.UuidWrapper", "fields": [{"name": "value", "type": "string"}]}
    with pytest.raises(HoodieNotSupportedException, match="does not know the type 'UuidWrapper' of values"):
        wrapper_numbers(json.dumps(schema), "maxValue")


def test_a_schema_of_other_records_is_refused() -> None:
    with pytest.raises(HoodieSchemaException, match="lacks the fields key and type"):
        record_tree('{"type": "record", "name": "r", "fields": [{"name": "key", "type": "string"}]}')
    assert WRAPPERS.index("StringWrapper") == 7
