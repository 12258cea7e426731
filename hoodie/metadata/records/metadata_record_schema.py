"""The Avro schema of the records of a metadata table, HoodieMetadataRecord, as releases of Hudi write it.

===========  =====  ==================================================================
release      table  differs
===========  =====  ==================================================================
0.14, 0.15   6
1.0          8      + secondary index, position of a row, isTightBound, LocalDateWrapper
1.1, 1.2     6 - 9  + valueType, ArrayWrapper
===========  =====  ==================================================================

Hudi 1.2.0 writes its own schema into tables of all versions. A new metadata table of version 6 gets the schema of 0.15,
others that of 1.2.0. A metadata table that exists keeps the schema of its newest delta commit: readers such as
hudi-rs 0.5.0 fail on a mix (`with_meta_columns`).

Hudi: HoodieMetadata.avsc.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from hoodie.avro.avro_type import AvroType
from hoodie.avro.columnar_schema import type_tree
from hoodie.avro.schema_converters import add_meta_columns
from hoodie.avro.schema_reader import parse_record
from hoodie.avro.timeline_metadata import NAMESPACE
from hoodie.exception import HoodieNotSupportedException, HoodieSchemaException

RECORD_NAME = "HoodieMetadataRecord"
KEY_FIELD = "key"
TYPE_FIELD = "type"
COLUMN_STATS_FIELD = "ColumnStatsMetadata"
WRAPPERS = (
    "null",
    "BooleanWrapper",
    "IntWrapper",
    "LongWrapper",
    "FloatWrapper",
    "DoubleWrapper",
    "BytesWrapper",
    "StringWrapper",
    "DateWrapper",
    "DecimalWrapper",
    "TimeMicrosWrapper",
    "TimestampMicrosWrapper",
    "LocalDateWrapper",
    "ArrayWrapper",
)
"""The branches of the smallest and largest value of a column, in Hudi's order."""
_WRAPPERS_IN_VERSION_6 = 12
_LATER_VERSION = 8
_STRING = {"type": "string", "avro.java.string": "String"}
_WRAPPED: dict[str, Any] = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": _STRING,
    "DateWrapper": "int",
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicrosWrapper": "long",
    "LocalDateWrapper": "int",
}


@lru_cache(maxsize=8)
def metadata_record_schema(table_version: int) -> str:
    """The schema of the records of a new metadata table, as the extra metadata of its commits stores it.

    Args:
        table_version: 6, 8 or 9.

    Returns:
        JSON without meta columns, see `with_meta_columns`.
    """
    return json.dumps(_record(is_later=table_version >= _LATER_VERSION), separators=(",", ":"))


@lru_cache(maxsize=16)
def with_meta_columns(schema: str) -> str:
    """A schema with meta columns: values are written with it, and log blocks and HFiles store it.

    Args:
        schema: JSON without meta columns: of `metadata_record_schema`, or of the newest delta commit.
    """
    return add_meta_columns(schema)


@lru_cache(maxsize=16)
def record_tree(writer_schema: str) -> AvroType:
    """The types of the records of a writer.

    Args:
        writer_schema: JSON with meta columns.

    Raises:
        HoodieSchemaException: It is not a schema of records of a metadata table.
    """
    tree = type_tree(writer_schema, has_variants=True)
    if tree.names.count(KEY_FIELD) != 1 or TYPE_FIELD not in tree.names:
        raise HoodieSchemaException("Cannot read a schema of metadata records: it lacks the fields key and type")
    return tree


@lru_cache(maxsize=16)
def wrapper_numbers(writer_schema: str, field: str) -> tuple[int, ...]:
    """The place in `WRAPPERS` of each branch of a value in a writer's schema.

    Args:
        writer_schema: JSON with meta columns.
        field: ``minValue`` or ``maxValue``.

    Raises:
        HoodieNotSupportedException: The schema has a wrapper that hoodie does not know.
    """
    stats = _field_type(parse_record(writer_schema), COLUMN_STATS_FIELD)
    branches = _field_type(_one_record(stats), field)
    names = [_short_name(branch) for branch in (branches if isinstance(branches, list) else [branches])]
    unknown = [name for name in names if name not in WRAPPERS]
    if unknown:
        raise HoodieNotSupportedException(
            f"Cannot read column statistics of a metadata table: hoodie does not know the type {unknown[0]!r} of values"
        )
    return tuple(WRAPPERS.index(name) for name in names)


@lru_cache(maxsize=64)
def schema_of_payload(writer_schema: str, payload: str) -> str:
    """A schema with one payload only, whose records have the same bytes as the writer's with the other payloads
    null.

    Args:
        writer_schema: JSON with meta columns.
        payload: The field of that payload.
    """
    record = parse_record(writer_schema)
    fields = []
    for field in record["fields"]:
        if field["name"] in (payload, KEY_FIELD, TYPE_FIELD) or not isinstance(field["type"], list):
            fields.append(field)
            continue
        nulls_first = field["type"][0] == "null"
        fields.append({"name": field["name"], "type": ["null", "string"] if nulls_first else ["string", "null"]})
    return json.dumps({**record, "fields": fields})


def _record(*, is_later: bool) -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": KEY_FIELD, "type": _STRING},
        {"name": TYPE_FIELD, "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", _files()]},
        _optional("BloomFilterMetadata", _bloom_filter()),
        _optional(COLUMN_STATS_FIELD, _column_stats(is_later=is_later)),
        _optional("recordIndexMetadata", _record_index(is_later=is_later)),
    ]
    if is_later:
        deleted = [{"name": "isDeleted", "type": "boolean"}]
        fields.append(_optional("SecondaryIndexMetadata", _named("HoodieSecondaryIndexInfo", deleted)))
    return {"type": "record", "name": RECORD_NAME, "namespace": NAMESPACE, "fields": fields}


def _files() -> dict[str, Any]:
    info = [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}]
    return {"type": "map", "values": _named("HoodieMetadataFileInfo", info), "avro.java.string": "String"}


def _bloom_filter() -> dict[str, Any]:
    fields: list[dict[str, Any]] = [
        {"name": "type", "type": _STRING},
        {"name": "timestamp", "type": _STRING},
        {"name": "bloomFilter", "type": "bytes"},
        {"name": "isDeleted", "type": "boolean"},
    ]
    return _named("HoodieMetadataBloomFilter", fields)


def _column_stats(*, is_later: bool) -> dict[str, Any]:
    names = WRAPPERS if is_later else WRAPPERS[:_WRAPPERS_IN_VERSION_6]
    wrappers: list[Any] = ["null", *(_named(name, [{"name": "value", "type": _WRAPPED[name]}]) for name in names[1:13])]
    if is_later:
        # The items are of all wrappers but this one.
        wrapped = _optional("wrappedValues", {"type": "array", "items": list(WRAPPERS[:-1])})
        wrappers.append(_named(WRAPPERS[-1], [wrapped]))
    fields = [
        _optional("fileName", _STRING),
        _optional("columnName", _STRING),
        {"name": "minValue", "type": wrappers, "default": None},
        {"name": "maxValue", "type": list(names), "default": None},
        *(_optional(name, "long") for name in ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")),
        {"name": "isDeleted", "type": "boolean"},
    ]
    if is_later:
        fields.append({"name": "isTightBound", "type": "boolean", "default": False})
        kind = [{"name": "typeOrdinal", "type": "int"}, _optional("additionalInfo", _STRING)]
        fields.append(_optional("valueType", _named("HoodieValueTypeInfo", kind)))
    return _named("HoodieMetadataColumnStats", fields)


def _record_index(*, is_later: bool) -> dict[str, Any]:
    fields = [
        _optional("partitionName", _STRING),
        _optional("fileIdHighBits", "long"),
        _optional("fileIdLowBits", "long"),
        _optional("fileIndex", "int"),
        _optional("fileId", _STRING),
        _optional("instantTime", "long"),
        {"name": "fileIdEncoding", "type": "int", "default": 0},
    ]
    if is_later:
        fields.append(_optional("position", "long"))
    return _named("HoodieRecordIndexInfo", fields)


def _named(name: str, fields: list[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": fields}


def _optional(name: str, avro_type: Any) -> dict[str, Any]:
    return {"name": name, "type": ["null", avro_type], "default": None}


def _field_type(record: dict[str, Any], name: str) -> Any:
    for field in record["fields"]:
        if field["name"] == name:
            return field["type"]
    raise HoodieSchemaException(f"Cannot read a schema of metadata records: it lacks the field {name}")


def _one_record(avro: Any) -> dict[str, Any]:
    found = [branch for branch in (avro if isinstance(avro, list) else [avro]) if branch != "null"]
    if len(found) != 1 or not isinstance(found[0], dict) or found[0].get("type") != "record":
        raise HoodieSchemaException(f"Cannot read a schema of metadata records: {COLUMN_STATS_FIELD} is no record")
    return found[0]


def _short_name(branch: Any) -> str:
    name = branch if isinstance(branch, str) else str(branch.get("name", branch.get("type")))
    return name.rpartition(".")[2]
