"""Arrow schemas as Avro schemas and back.

Commits and the footers of base files store Avro schemas. Names are those of Hudi's Spark conversion: a column
``c`` of the record ``ns.r`` that is a struct (or a list or map of structs) is the record ``ns.r.c``, a decimal is the
fixed ``ns.r.c.fixed``. A nullable field is ``["null", T]`` with the default null.

==================================  ==============================  ======================================
Arrow                               Avro written                    read back as
==================================  ==============================  ======================================
int8, int16, int32                  int                             int32 (Avro has no smaller integer)
int64, float, double, bool          long, float, double, boolean    the same
string, binary                      string, bytes                   the same
fixed_size_binary(n)                fixed of n bytes                the same
decimal128(p, s)                    fixed with decimal(p, s)        the same
date32                              int with date                   the same
timestamp(us, UTC)                  long with timestamp-micros      the same
timestamp(us)                       long with local-timestamp-...   the same
struct, list, map (string keys)     record, array, map              the same
==================================  ==============================  ======================================

Other types are refused here; `hoodie.common.data.normalise` turns what it can into these first. Schemas of other
writers may also have unions in either order, timestamp-millis (read as microseconds), decimals in bytes, enum and uuid
(read as string), time-millis and time-micros (which can be read, but not written).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import pyarrow as pa

from hoodie.avro.schema_reader import NULLS, PRIMITIVES, AvroReader, check_path, child, full_name, parse_record
from hoodie.common.model.record_columns import META_COLUMN_SET, META_COLUMNS
from hoodie.common.util.parquet_levels import check_levels
from hoodie.exception import HoodieSchemaException

_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo"})
_LETTERS_AND_DIGITS = _LETTERS | {"Nd"}
"""The categories of Unicode that Java's Character.isLetter and isDigit take."""
_LAST_OF_ONE_UNIT = "\uffff"
"""Avro for Java checks units of UTF-16, and refuses the pairs of units for later characters."""
_INVALID_CHARACTER = re.compile(r"[^A-Za-z0-9_]")
_INVALID_FIRST_CHARACTER = re.compile(r"^[^A-Za-z_]")
_MASK = "__"

_SCHEMAS_KEPT = 16
"""A write asks for its table's schema several times, and of 2,000 columns each answer takes 50 ms."""

_SIMPLE_TO_AVRO: dict[pa.DataType, Any] = {
    pa.string(): "string",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.binary(): "bytes",
    pa.date32(): {"type": "int", "logicalType": "date"},
    pa.timestamp("us"): {"type": "long", "logicalType": "local-timestamp-micros"},
    pa.timestamp("us", tz="UTC"): {"type": "long", "logicalType": "timestamp-micros"},
}
_MILLIS = frozenset({"timestamp-millis", "local-timestamp-millis"})
_READ_ONLY_LOGICAL_TYPES = _MILLIS | {"time-millis", "time-micros"}


def sanitize_name(name: str) -> str:
    """A name that Avro accepts: each invalid character becomes two underscores.

        sanitize_name("2024-trips")   "__024__trips"

    Hudi: org.apache.hudi.avro.HoodieAvroUtils.sanitizeName.
    """
    return _INVALID_CHARACTER.sub(_MASK, _INVALID_FIRST_CHARACTER.sub(_MASK, name))


def record_name(table_name: str) -> str:
    """The name of a table's Avro record."""
    return f"{sanitize_name(table_name)}_record"


def record_namespace(table_name: str) -> str:
    """The namespace of a table's Avro record."""
    return f"hoodie.{sanitize_name(table_name)}"


def to_avro(schema: pa.Schema, record_name: str, namespace: str, with_meta_columns: bool = False) -> str:
    """The Avro schema of a table's rows.

    Args:
        schema: The columns; Hudi's meta columns among them are left out.
        record_name: Name of the record, see `record_name`.
        namespace: Its namespace, see `record_namespace`.
        with_meta_columns: Whether Hudi's five meta columns come first, as in a base file's footer.

    Returns:
        JSON.

    Raises:
        HoodieSchemaException: A column has a type or name that cannot be stored, or is nested too deeply; the message
            names the field.
    """
    check_levels(schema)
    fields = [field for field in schema if field.name not in META_COLUMN_SET]
    avro = _record_to_avro(fields, record_name, namespace, "")
    if with_meta_columns:
        avro["fields"] = _meta_fields() + avro["fields"]
    return _dump(avro)


@lru_cache(maxsize=_SCHEMAS_KEPT)
def to_arrow(avro_schema: str, with_meta_columns: bool = False) -> pa.Schema:
    """The Arrow schema of an Avro record.

    Args:
        avro_schema: JSON, of Hudi or hoodie.
        with_meta_columns: Whether Hudi's meta columns stay in.

    Raises:
        HoodieSchemaException: It is not the schema of a record, or a field's type has no Arrow type that hoodie knows.
    """
    return pa.schema(
        field
        for field in AvroReader().read(parse_record(avro_schema)).arrow_type
        if with_meta_columns or field.name not in META_COLUMN_SET
    )


@lru_cache(maxsize=_SCHEMAS_KEPT)
def add_meta_columns(avro_schema: str) -> str:
    """The schema with Hudi's five meta columns in front; unchanged when it has them.

    Raises:
        HoodieSchemaException: It is not the schema of a record.
    """
    record = parse_record(avro_schema)
    if any(field["name"] == META_COLUMNS[0] for field in record["fields"]):
        return avro_schema
    return _dump(record | {"fields": _meta_fields() + record["fields"]})


def remove_meta_columns(avro_schema: str) -> str:
    """The schema without Hudi's meta columns; unchanged when it has none.

    Raises:
        HoodieSchemaException: It is not the schema of a record.
    """
    record = parse_record(avro_schema)
    fields = [field for field in record["fields"] if field["name"] not in META_COLUMN_SET]
    return avro_schema if len(fields) == len(record["fields"]) else _dump(record | {"fields": fields})


@lru_cache(maxsize=_SCHEMAS_KEPT)
def check_writable(avro_schema: str) -> None:
    """Refuse a schema with types that hoodie reads, but would store in another form than the schema promises.

    These are timestamps in milliseconds (hoodie writes microseconds), times, and decimals in more bytes than they need.

    Raises:
        HoodieSchemaException: There is such a field; the message names it.
    """
    for field in parse_record(avro_schema)["fields"]:
        _check_writable(field.get("type"), field["name"])


def fields_in_millis(avro_schema: str) -> frozenset[str]:
    """The dotted paths of the fields, of structs too, whose values are timestamps in milliseconds.

    Args:
        avro_schema: The schema of a record as JSON.

    Raises:
        HoodieSchemaException: It is not the schema of a record.
    """
    if not any(f'"{name}"' in avro_schema for name in _MILLIS):
        return frozenset()
    return frozenset(_paths_in_millis(parse_record(avro_schema), ""))


@lru_cache(maxsize=_SCHEMAS_KEPT)
def without_enums(avro_schema: str) -> str:
    """The schema with strings for enums, which is how their columns are written: new symbols do not break it.

    Hudi: AvroInternalSchemaConverter does the same to the schemas of its own writers.

    Returns:
        JSON; the very text of ``avro_schema`` when it has no enum.

    Raises:
        HoodieSchemaException: It is not the schema of a record.
    """
    if '"enum"' not in avro_schema:
        return avro_schema
    record = parse_record(avro_schema)
    return _dump(_without_enums(record, "", set()))


def evolve(table_avro_schema: str, new_schema: pa.Schema) -> str:
    """The table's Avro schema with the additions of a new schema; all other parts keep their text.

    A column of the table keeps its text (names, order of unions, docs) as long as its type is the same; a column of
    another type gets the new type. A column without nulls gets a union with null if the new schema allows nulls;
    otherwise the table's type stays. Columns that the table lacks come last, in their order and nullable. Columns that
    only the table has stay. The same holds for the fields of structs, also in lists and maps.
    `hoodie.common.data.schema_compatibility` decides whether a change of type is allowed.

        table    a ["int", "null"], b "string"
        new      c int64, a int32, b string
        result   a ["int", "null"], b "string", c ["null", "long"]

    Args:
        table_avro_schema: The schema in the newest commit.
        new_schema: The columns wanted; Hudi's meta columns are ignored.

    Returns:
        JSON; the very text of ``table_avro_schema`` when nothing is new.

    Raises:
        HoodieSchemaException: A new column cannot be stored, or the table's schema cannot be read.
    """
    check_levels(new_schema)
    record = parse_record(table_avro_schema)
    wanted = [field for field in new_schema if field.name not in META_COLUMN_SET]
    changed = _evolve_record(record, wanted, AvroReader(), "", "")
    return table_avro_schema if changed == record else _dump(changed)


def _record_to_avro(fields: list[pa.Field], name: str, namespace: str, path: str) -> dict[str, Any]:
    _check_names(fields, path)
    full_name = f"{namespace}.{name}" if namespace else name
    avro = {"type": "record", "name": name} | ({"namespace": namespace} if namespace else {})
    return avro | {"fields": [_field_to_avro(field, full_name, path) for field in fields]}


def _check_names(fields: list[pa.Field], path: str) -> None:
    seen: set[str] = set()
    for field in fields:
        if field.name in seen:
            raise HoodieSchemaException(
                f"Column {child(path, field.name)!r} is there twice; rename or drop one of them."
            )
        seen.add(field.name)
    renamed = {field.name: "" for field in fields if not is_avro_name(field.name)}
    if not renamed:
        return
    for name in renamed:
        renamed[name] = _free_name(name, {other.lower() for other in (*seen, *renamed.values())})
    wrong = ", ".join(repr(child(path, name)) for name in renamed)
    raise HoodieSchemaException(
        f"Column{'s' * (len(renamed) > 1)} {wrong} cannot be stored: a name in the table's Avro schema has letters and "
        "digits of any alphabet and underscores, and begins with no digit; accents must be part of their letters "
        f"(Unicode NFC). Rename, for example to {', '.join(map(repr, renamed.values()))}."
    )


def is_avro_name(name: str) -> bool:
    """Whether Avro for Java, and so Hudi, accepts a name: letters, digits and underscores, not beginning with a digit.

        is_avro_name("größe2"), is_avro_name("名字")   True, True
        is_avro_name("2a"), is_avro_name("a-b")        False, False

    Letters are those of every alphabet. A separate vowel sign or accent is not a letter, nor is a character after the
    first 65,536 of Unicode. The letters are those of `org.apache.avro.NameValidator.UTF_VALIDATOR`.
    """
    if name.isascii():
        return name.isidentifier()
    return _is_in(name[0], _LETTERS) and all(_is_in(character, _LETTERS_AND_DIGITS) for character in name)


def _is_in(character: str, categories: frozenset[str]) -> bool:
    return character == "_" or (character <= _LAST_OF_ONE_UNIT and unicodedata.category(character) in categories)


def _free_name(name: str, taken: set[str]) -> str:
    """A name that Avro accepts and no other column has, in place of one that it refuses."""
    name = unicodedata.normalize("NFC", name)
    stem = "".join(character if _is_in(character, _LETTERS_AND_DIGITS) else "_" for character in name)
    stem = stem if stem and _is_in(stem[0], _LETTERS) else f"_{stem}"
    return next(
        free
        for free in (stem, *(f"{stem}_{number}" for number in range(2, len(taken) + 3)))
        if free.lower() not in taken
    )


def _field_to_avro(field: pa.Field, parent_name: str, path: str) -> dict[str, Any]:
    avro = {"name": field.name, "type": _item_to_avro(field, field.name, parent_name, child(path, field.name))}
    return avro | {"default": None} if field.nullable else avro


def _item_to_avro(field: pa.Field, name: str, namespace: str, path: str) -> Any:
    avro_type = _type_to_avro(field.type, name, namespace, path)
    return ["null", avro_type] if field.nullable else avro_type


def _type_to_avro(data_type: pa.DataType, name: str, namespace: str, path: str) -> Any:
    if data_type in _SIMPLE_TO_AVRO:
        return _SIMPLE_TO_AVRO[data_type]
    if pa.types.is_timestamp(data_type):
        if data_type.unit != "us":
            raise _cannot_store(path, data_type, "timestamps are stored in microseconds; cast it to 'us'")
        raise _cannot_store(path, data_type, "timestamps with a time zone are stored in UTC; cast it")
    if pa.types.is_decimal128(data_type):
        return _decimal_to_avro(data_type, name, namespace, path)
    if pa.types.is_fixed_size_binary(data_type):
        return _fixed(name, namespace, data_type.byte_width)
    if pa.types.is_struct(data_type):
        if not data_type.num_fields:
            raise _cannot_store(path, data_type, "Parquet has no struct without fields; give it a field")
        return _record_to_avro(list(data_type), name, namespace, path)
    if pa.types.is_list(data_type):
        items = _item_to_avro(data_type.value_field, name, namespace, f"{path}.element")
        return {"type": "array", "items": items}
    if pa.types.is_map(data_type):
        if not pa.types.is_string(data_type.key_type):
            raise _cannot_store(path, data_type, "the keys of a map must be strings")
        return {"type": "map", "values": _item_to_avro(data_type.item_field, name, namespace, f"{path}.value")}
    raise _cannot_store(path, data_type, "Avro has no type for it that Hudi reads; cast the column")


def _decimal_to_avro(data_type: pa.Decimal128Type, name: str, namespace: str, path: str) -> dict[str, Any]:
    if not 0 <= data_type.scale <= data_type.precision:
        raise _cannot_store(path, data_type, "the scale of a decimal must lie between 0 and its precision")
    size = _decimal_size_bytes(data_type.precision)
    decimal = {"logicalType": "decimal", "precision": data_type.precision, "scale": data_type.scale}
    return _fixed(name, namespace, size) | decimal


def _fixed(name: str, namespace: str, size_bytes: int) -> dict[str, Any]:
    return {"type": "fixed", "name": "fixed", "namespace": f"{namespace}.{name}", "size": size_bytes}


def _decimal_size_bytes(precision: int) -> int:
    """The fewest bytes whose signed integers hold every number of that many digits."""
    largest: int = 10**precision - 1
    return (largest.bit_length() + 8) // 8


def _cannot_store(path: str, data_type: pa.DataType, reason: str) -> HoodieSchemaException:
    return HoodieSchemaException(f"Column {path!r} of type {data_type} cannot be stored: {reason}.")


def _meta_fields() -> list[dict[str, Any]]:
    return [{"name": name, "type": ["null", "string"], "doc": "", "default": None} for name in META_COLUMNS]


def _check_writable(avro: Any, path: str) -> None:
    check_path(path)
    if isinstance(avro, list):
        for branch in avro:
            _check_writable(branch, path)
    if not isinstance(avro, dict):
        return
    logical, precision = avro.get("logicalType"), avro.get("precision")
    is_padded = avro.get("type") == "fixed" and logical == "decimal" and isinstance(precision, int)
    if logical in _READ_ONLY_LOGICAL_TYPES or (is_padded and avro.get("size") != _decimal_size_bytes(precision or 0)):
        raise HoodieSchemaException(
            f"Column {path!r} is stored as Avro {json.dumps(avro)}, which hoodie reads but does not write: "
            "write this table with another writer, or rewrite the column."
        )
    for field in avro.get("fields", ()):
        _check_writable(field.get("type"), child(path, field["name"]))
    _check_writable(avro.get("type"), path)
    _check_writable(avro.get("items"), f"{path}.element")
    _check_writable(avro.get("values"), f"{path}.value")


def _paths_in_millis(avro: Any, path: str) -> Iterator[str]:
    for branch in avro if isinstance(avro, list) else [avro]:
        if not isinstance(branch, dict):
            continue
        if branch.get("logicalType") in _MILLIS:
            yield path
        for field in branch.get("fields", ()):
            yield from _paths_in_millis(field.get("type"), child(path, field["name"]))
        yield from _paths_in_millis(branch.get("type"), path)


def _without_enums(avro: Any, namespace: str, enums: set[str]) -> Any:
    if isinstance(avro, list):
        return [_without_enums(branch, namespace, enums) for branch in avro]
    if isinstance(avro, str):
        return "string" if avro not in PRIMITIVES and {avro, f"{namespace}.{avro}"} & enums else avro
    if not isinstance(avro, dict):
        return avro
    if avro.get("type") == "enum":
        enums.add(full_name(avro, namespace)[0])
        return "string"
    if avro.get("type") == "record":
        inner = full_name(avro, namespace)[1]
        fields = [field | {"type": _without_enums(field["type"], inner, enums)} for field in avro["fields"]]
        return avro | {"fields": fields}
    changed = {key: _without_enums(avro[key], namespace, enums) for key in ("type", "items", "values") if key in avro}
    return changed["type"] if list(avro) == ["type"] else avro | changed


def _evolve_record(
    record: dict[str, Any], wanted: list[pa.Field], reader: AvroReader, namespace: str, path: str
) -> dict[str, Any]:
    name, namespace = full_name(record, namespace)
    by_name = {field.name: field for field in wanted}
    fields = []
    for field in record["fields"]:
        new = by_name.pop(field["name"], None)
        where = child(path, field["name"])
        old = reader.read_field(field, namespace, path)
        if new is not None and not _is_same(old, new):
            changed = _evolve_item(field["type"], old, new, field["name"], name, namespace, reader, where)
            begins_to_allow_nulls = new.nullable and not old.nullable
            field = _nullable_field(field, changed) if begins_to_allow_nulls else field | {"type": changed}
        fields.append(field)
    added = [field.with_nullable(True) for field in wanted if field.name in by_name]
    _check_names(added, path)
    fields += [_field_to_avro(field, name, path) for field in added]
    return record | {"fields": fields}


def _evolve_item(
    avro: Any, old: pa.Field, new: pa.Field, name: str, parent_name: str, namespace: str, reader: AvroReader, path: str
) -> Any:
    """The type of a field, element or value that changed; the order of its union stays."""
    branches = avro if isinstance(avro, list) else [avro]
    if not _same_type(old.type, new.type):
        changed = [
            branch if branch in NULLS else _evolve_type(branch, new, name, parent_name, namespace, reader, path)
            for branch in branches
        ]
        branches = [branch for number, branch in enumerate(changed) if branch not in changed[:number]]
    if new.nullable and not old.nullable:
        branches = ["null", *branches]
    return branches if isinstance(avro, list) or len(branches) > 1 else branches[0]


def _evolve_type(
    avro: Any, new: pa.Field, name: str, parent_name: str, namespace: str, reader: AvroReader, path: str
) -> Any:
    kind = avro.get("type") if isinstance(avro, dict) else None
    if kind == "record" and pa.types.is_struct(new.type):
        return _evolve_record(avro, list(new.type), reader, namespace, path)
    if kind == "array" and pa.types.is_list(new.type):
        key, inner, where = "items", new.type.value_field, f"{path}.element"
    elif kind == "map" and pa.types.is_map(new.type):
        key, inner, where = "values", new.type.item_field, f"{path}.value"
    else:
        return _type_to_avro(new.type, name, parent_name, path)
    old = reader.read_item(avro[key], namespace, where).field(inner.name)
    return avro | {key: _evolve_item(avro[key], old, inner, name, parent_name, namespace, reader, where)}


def _nullable_field(field: dict[str, Any], union: list[Any]) -> dict[str, Any]:
    """A field that allows nulls from now on; the default of a field is a value of the first type of its union."""
    if field.get("default") is None:
        return field | {"type": union, "default": None}
    return field | {"type": [*(branch for branch in union if branch not in NULLS), "null"]}


def _is_same(stored: pa.Field, wanted: pa.Field) -> bool:
    """Whether a field, element or value is the same on storage, or only the wanted one refuses nulls."""
    return (stored.nullable or not wanted.nullable) and _same_type(stored.type, wanted.type)


def _same_type(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether two types are one on storage: the names of list elements aside, int8 being an int."""
    if pa.types.is_struct(stored) and pa.types.is_struct(wanted):
        old, new = {field.name: field for field in stored}, {field.name: field for field in wanted}
        return new.keys() <= old.keys() and all(_is_same(old[name], new[name]) for name in new)
    if pa.types.is_list(stored) and pa.types.is_list(wanted):
        return _is_same(stored.value_field, wanted.value_field)
    if pa.types.is_map(stored) and pa.types.is_map(wanted):
        return _same_type(stored.key_type, wanted.key_type) and _is_same(stored.item_field, wanted.item_field)
    if pa.types.is_int8(wanted) or pa.types.is_int16(wanted):
        return bool(pa.types.is_int32(stored))
    return bool(stored == wanted)


def _dump(avro: dict[str, Any]) -> str:
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
