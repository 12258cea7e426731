"""The schema of a table in the words of catalogs: Hive types, and Spark's JSON.

Both come from the table's Avro schema, as in Hudi, so that entries agree with those of Hudi's sync tools to the letter.
A required field stays required in Spark's JSON; Hive has no such notion.

Hudi: org.apache.hudi.hive.util.HiveSchemaUtil and org.apache.hudi.sync.common.util.SparkSchemaUtils.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import attrs

from hoodie.avro.schema_reader import parse_record
from hoodie.exception import HoodieSyncException
from hoodie.sync.catalog_entry import CatalogColumn

_HIVE = {
    "int": "int", "long": "bigint", "float": "float", "double": "double", "boolean": "boolean", "string": "string",
    "enum": "string", "bytes": "binary", "fixed": "binary",
}  # fmt: skip
_SPARK = {
    "int": "integer", "long": "long", "float": "float", "double": "double", "boolean": "boolean", "string": "string",
    "enum": "string", "bytes": "binary", "fixed": "binary",
}  # fmt: skip
_TIMESTAMPS = frozenset({"timestamp-millis", "timestamp-micros", "local-timestamp-millis", "local-timestamp-micros"})
_SCHEMA_KEY = "spark.sql.sources.schema"


@attrs.frozen
class _Field:
    name: str
    type: Any
    is_nullable: bool
    comment: str


@attrs.frozen
class TableColumns:
    """The columns of a table, as catalogs are told of them.

    Attributes:
        columns: The columns that files hold, without the partition columns.
        partition_keys: The partition columns, in their order.
        avro: The Avro schema that they come from, with or without Hudi's meta columns.
        text_keys: The partition columns whose values are texts that a key generator derives from the field.
    """

    columns: tuple[CatalogColumn, ...]
    partition_keys: tuple[CatalogColumn, ...]
    avro: str
    text_keys: frozenset[str] = frozenset()

    def spark_properties(
        self, *, piece_length: int = 4000, spark_version: str = "", with_comments: bool = False
    ) -> dict[str, str]:
        """The table parameters by which Spark takes the entry for a table of Hudi, and its schema from it.

        Args:
            piece_length: The number of characters of one piece of the schema: metastores limit values.
            spark_version: ``spark.sql.create.version``; empty text leaves it out.
            with_comments: Whether the comments of the Avro schema become comments of columns.

        Hudi: org.apache.hudi.sync.common.util.SparkDataSourceTableUtils.
        """
        keys = [key.name for key in self.partition_keys]
        fields, named = _fields_of(self.avro)
        by_name = {field.name: field for field in fields}
        text = _Field("", "string", False, "")
        key_fields = [attrs.evolve(by_name.get(key, text), name=key) for key in keys]
        key_fields = [
            attrs.evolve(field, type="string") if field.name in self.text_keys else field for field in key_fields
        ]
        ordered = [field for field in fields if field.name not in keys] + key_fields
        schema = _spark_struct(ordered, named, with_comments)
        pieces = [schema[start : start + piece_length] for start in range(0, len(schema), piece_length)]
        found = {"spark.sql.sources.provider": "hudi", f"{_SCHEMA_KEY}.numParts": str(len(pieces))}
        if spark_version:
            found["spark.sql.create.version"] = spark_version
        found |= {f"{_SCHEMA_KEY}.part.{number}": piece for number, piece in enumerate(pieces)}
        if keys:
            found[f"{_SCHEMA_KEY}.numPartCols"] = str(len(keys))
            found |= {f"{_SCHEMA_KEY}.partCol.{number}": key for number, key in enumerate(keys)}
        return found


def table_columns(
    avro_schema: str,
    partition_fields: Sequence[str],
    *,
    as_timestamp: bool = True,
    text_keys: Iterable[str] = (),
    with_comments: bool = False,
) -> TableColumns:
    """The columns of a table for a catalog.

    Args:
        avro_schema: The table's schema, with Hudi's meta columns if the catalog is to show them.
        partition_fields: The partition fields; one that the schema lacks has the type ``string``.
        as_timestamp: Whether timestamps are ``timestamp``; otherwise ``bigint``, as Hudi's tool does without
            ``hoodie.datasource.hive_sync.support_timestamp``.
        text_keys: The partition fields whose values are derived texts: they have the type ``string``.
        with_comments: Whether the comments of the schema become comments of columns.

    Raises:
        HoodieSyncException: Two columns differ by upper and lower case only, which catalogs do not tell apart.
        HoodieSchemaException: It is not the schema of a record.
    """
    fields, named = _fields_of(avro_schema)
    texts = frozenset(text_keys)
    hive_type = _hive_types(named, as_timestamp)

    def column(field: _Field) -> CatalogColumn:
        return CatalogColumn(field.name.lower(), hive_type(field.type), field.comment if with_comments else "")

    by_name = {field.name: field for field in fields}
    # Catalogs keep names in lower case, so an option may give them like that.
    by_lower_name = {field.name.lower(): field.name for field in fields}
    key_names = [key if key in by_name else by_lower_name.get(key.lower(), key) for key in partition_fields]
    keys = [
        column(by_name[key]) if key in by_name and key not in texts else CatalogColumn(key.lower(), "string")
        for key in key_names
    ]
    columns = [column(field) for field in fields if field.name not in key_names]
    seen: dict[str, str] = {}
    for field in fields:
        other = seen.setdefault(field.name.lower(), field.name)
        if other != field.name:
            raise HoodieSyncException(
                f"the columns {other!r} and {field.name!r} differ by upper and lower case only, and catalogs keep "
                "names in lower case: rename one of them in the table"
            )
    named_keys = tuple(
        attrs.evolve(key, name=name) for key, name in zip(keys, key_names, strict=True)
    )  # Spark's names of the partition columns keep their case.
    return TableColumns(tuple(columns), named_keys, avro_schema, texts)


def _fields_of(avro_schema: str) -> tuple[list[_Field], dict[str, Any]]:
    record = parse_record(avro_schema)
    named: dict[str, Any] = {}
    _collect(record, record.get("namespace", ""), named)
    return _record_fields(record), named


def _collect(avro: Any, namespace: str, named: dict[str, Any]) -> None:
    """Note the named types, by their names with and without namespace: later uses are by name."""
    if isinstance(avro, list):
        for branch in avro:
            _collect(branch, namespace, named)
    elif isinstance(avro, dict):
        if "name" in avro and avro.get("type") in ("record", "enum", "fixed"):
            namespace = avro.get("namespace", namespace)
            name = avro["name"].rpartition(".")[2]
            for form in (avro["name"], name, f"{namespace}.{name}"):
                named.setdefault(form, avro)
        for field in avro.get("fields", ()):
            _collect(field["type"], namespace, named)
        for inner in ("type", "items", "values"):
            if isinstance(avro.get(inner), (dict, list)):
                _collect(avro[inner], namespace, named)


def _record_fields(record: Mapping[str, Any]) -> list[_Field]:
    return [_Field(field["name"], *_without_null(field["type"]), field.get("doc") or "") for field in record["fields"]]


def _without_null(avro: Any) -> tuple[Any, bool]:
    """The type without the null of its union, and whether there was one."""
    if not isinstance(avro, list):
        return avro, avro == "null"
    branches = [branch for branch in avro if branch != "null"]
    return (branches[0] if len(branches) == 1 else branches), len(branches) < len(avro)


def _kind(avro: Any, named: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The name of a type, or its logical type; and the type as a mapping."""
    if isinstance(avro, list):
        raise HoodieSyncException(f"a column is a union of several types, which catalogs do not have: {avro}")
    if isinstance(avro, str):
        return (avro, {}) if avro in _HIVE or avro not in named else _kind(named[avro], named)
    if isinstance(avro.get("type"), (dict, list)):
        return _kind(_without_null(avro["type"])[0], named)
    return avro.get("logicalType") or avro["type"], avro


def _hive_types(named: Mapping[str, Any], as_timestamp: bool) -> Callable[[Any], str]:
    def inner(avro: Any) -> str:
        return hive_type(_without_null(avro)[0])

    def hive_type(avro: Any) -> str:
        kind, details = _kind(avro, named)
        match kind:
            case "decimal":
                return f"decimal({details['precision']},{details.get('scale', 0)})"
            case "date":
                return "date"
            case "uuid":
                return "binary" if details.get("type") == "fixed" else "string"
            case "time-millis":
                return "int"
            case "time-micros":
                return "bigint"
            case "array":
                return f"array<{inner(details['items'])}>"
            case "map":
                return f"map<string,{inner(details['values'])}>"
            case "record":
                fields = ",".join(
                    f"{field['name'].replace('$', '_dollar_')}:{inner(field['type'])}" for field in details["fields"]
                )
                # Hive has no such sign in names of nested fields.
                return f"struct<{fields}>".replace("-", "_").lower()
        if kind in _TIMESTAMPS:
            return "timestamp" if as_timestamp else "bigint"
        return _HIVE[kind if kind in _HIVE else details["type"]]

    return hive_type


def _spark_struct(fields: Iterable[_Field], named: Mapping[str, Any], with_comments: bool) -> str:
    written = ",".join(
        f'{{"name":{_quoted(field.name)},"type":{_spark_type(field.type, named, with_comments)},'
        f'"nullable":{_truth(field.is_nullable)},"metadata":{_metadata(field, with_comments)}}}'
        for field in fields
    )
    return f'{{"type":"struct","fields":[{written}]}}'


def _spark_type(avro: Any, named: Mapping[str, Any], with_comments: bool) -> str:
    kind, details = _kind(avro, named)
    match kind:
        case "decimal":
            return f'"decimal({details["precision"]},{details.get("scale", 0)})"'
        case "date":
            return '"date"'
        case "uuid":
            return '"string"'
        case "time-millis":
            return '"integer"'
        case "time-micros":
            return '"long"'
        case "array":
            item, is_nullable = _without_null(details["items"])
            # The blank after the comma is Hudi's.
            return (
                f'{{"type":"array", "elementType":{_spark_type(item, named, with_comments)},'
                f'"containsNull":{_truth(is_nullable)}}}'
            )
        case "map":
            value, is_nullable = _without_null(details["values"])
            return (
                f'{{"type":"map", "keyType":"string","valueType":{_spark_type(value, named, with_comments)},'
                f'"valueContainsNull":{_truth(is_nullable)}}}'
            )
        case "record":
            return _spark_struct(_record_fields(details), named, with_comments)
    if kind in _TIMESTAMPS:
        # Hudi up to 1.2; its master says timestamp_ntz.
        return '"timestamp"'
    return f'"{_SPARK[kind if kind in _SPARK else details["type"]]}"'


def _metadata(field: _Field, with_comments: bool) -> str:
    return f'{{"comment":{_quoted(field.comment)}}}' if with_comments and field.comment else "{}"


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _truth(value: bool) -> str:
    return "true" if value else "false"
