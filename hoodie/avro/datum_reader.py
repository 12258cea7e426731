"""Read Avro data with the library fastavro, after a check of its schema.

Anybody may have written the files that are read here. fastavro recurses in C and trusts counts: a schema with a record
that contains itself, or one that nests without end, crashes the process, and an array of a billion nulls keeps it busy
for hours. So the package avro parses each schema first, and `_least_bytes` refuses data that no record of a table has.

fastavro also takes a negative number of a branch or symbol, and counts it from the end. `_Choices` refuses it.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import fastavro
from avro.schema import parse as parse_schema

_MAX_DEPTH = 64
_READ_BYTES = {"null": 0, "float": 4, "double": 8}
_STEPPED_OVER_BYTES = dict.fromkeys(("null", "boolean", "float", "double", "fixed"), 0)
"""fastavro steps over these types without a check that the data goes on, so an array of them may never end."""
_SYNC_BYTES = 16
_NAMED = "__named_schemas"
"""The key of a parsed schema under which fastavro finds the named types."""
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": _SYNC_BYTES}},
    ],
}
_BLOCK = {
    "type": "record",
    "name": "Block",
    "fields": [{"name": "count", "type": "long"}, {"name": "data", "type": "bytes"}],
}


def read_datums(schema: str, datums: Sequence[bytes]) -> list[Any]:
    """Read bare Avro records.

    Args:
        schema: The schema that they were written with, of a record, as JSON.
        datums: One record each.

    Raises:
        Exception: One of many classes: the schema or a record is damaged.
    """
    written = _written(schema)
    return [fastavro.schemaless_reader(io.BytesIO(datum), written) for datum in datums]


def read_fields(schema: str, datums: Sequence[bytes], names: Sequence[str]) -> list[dict[str, str | None]]:
    """Read some fields of bare Avro records, and step over the others, which costs little however large they are.

    Args:
        schema: The schema that they were written with, of a record, as JSON.
        datums: One record each.
        names: Fields of strings, or of unions of strings and null. Fields that the schema lacks become None.

    Raises:
        Exception: One of many classes: the schema or a record is damaged, or a field is of another type.
    """
    written = _written(schema)
    wanted = _schema_of_fields(schema, tuple(names))
    heads: list[Any] = [fastavro.schemaless_reader(io.BytesIO(datum), written, wanted) for datum in datums]
    return heads


def read_container(data: bytes, wanted: str, limit: int) -> list[dict[str, Any]]:
    """Read the first records of an Avro object container without compression.

    Args:
        data: The whole content.
        wanted: The schema to read the records with, as JSON.
        limit: The maximum number of records to read.

    Raises:
        Exception: One of many classes: the container is damaged, cut short, compressed, or has other records.
    """
    return _read_container(data, wanted, limit)[1]


def read_container_as_written(data: bytes, limit: int) -> tuple[str, list[dict[str, Any]]]:
    """Read the first records of an Avro object container without compression, with the fields that their writer gave.

    Args:
        data: The whole content.
        limit: The maximum number of records to read.

    Returns:
        The full name of the record, and the records.

    Raises:
        Exception: One of many classes: the container is damaged, cut short or compressed.
    """
    return _read_container(data, None, limit)


def schema_of_container(data: bytes) -> str:
    """The schema of an Avro object container, as JSON.

    Args:
        data: The whole content.

    Raises:
        Exception: One of many classes: the container is damaged, or is none.
    """
    header: Any = fastavro.schemaless_reader(io.BytesIO(data), _HEADER)
    schema: str = header["meta"]["avro.schema"].decode()
    return schema


def _read_container(data: bytes, wanted: str | None, limit: int) -> tuple[str, list[dict[str, Any]]]:
    stream = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(stream, _HEADER)
    if header["magic"] != b"Obj\x01":
        raise ValueError("it is no Avro file")
    codec = header["meta"].get("avro.codec", b"null")
    if codec != b"null":
        raise ValueError(f"it is compressed ({codec.decode()}), which timeline files never are")
    schema = header["meta"]["avro.schema"].decode()
    written, read_as = _written(schema), None if wanted is None or schema == wanted else _parsed(wanted)
    records: list[Any] = []
    while stream.tell() < len(data) and len(records) < limit:
        block: Any = fastavro.schemaless_reader(stream, _BLOCK)
        if stream.read(_SYNC_BYTES) != header["sync"]:
            raise ValueError("the end of a block is missing")
        datums = io.BytesIO(block["data"])
        number = min(block["count"], limit - len(records))
        for _ in range(number):
            records.append(fastavro.schemaless_reader(datums, written, read_as))
        # Only this shows a damaged count or union.
        rest_bytes = len(block["data"]) - datums.tell()
        if number == block["count"] and rest_bytes:
            raise ValueError(f"{rest_bytes} bytes of a block belong to no record")
    if not data.endswith(header["sync"]):
        raise ValueError("its end is missing")
    return written["name"], records


class _Numbered(dict[int, Any]):
    def __missing__(self, number: int) -> Any:
        raise IndexError(f"no branch or symbol has the index {number}")


class _Choices(list[Any]):
    """The branches of a union or the symbols of an enum, without access from the end.

    fastavro takes an element of a list by its number. Some builds add the length to a negative number first, so the
    length here is 0. A dict returns the element, and has no negative keys. A method written in Python would double the
    time of a read.
    """

    __slots__ = ("__getitem__",)

    def __init__(self, choices: Iterable[Any]) -> None:
        super().__init__(choices)
        self.__getitem__ = _Numbered(enumerate(self)).__getitem__  # type: ignore[method-assign,assignment]

    def __len__(self) -> int:
        return 0


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    parse_schema(schema)
    # Now the text is known to be a schema that nests no deeper than Python recurses.
    parsed = fastavro.parse_schema(json.loads(schema))
    _least_bytes(parsed, _READ_BYTES, {}, 1)
    return parsed


@functools.lru_cache(maxsize=64)
def _written(schema: str) -> Any:
    parsed = _parsed(schema)
    if not isinstance(parsed, dict) or parsed["type"] != "record":
        raise ValueError("the schema is of no record")
    return _with_choices(parsed)


def _with_choices(schema: Any) -> Any:
    if isinstance(schema, list):
        return _Choices(map(_with_choices, schema))
    if not isinstance(schema, dict):
        return schema
    changed = {key: _with_choices(schema[key]) for key in ("type", "items", "values", "symbols") if key in schema}
    if "fields" in schema:
        changed["fields"] = [field | {"type": _with_choices(field["type"])} for field in schema["fields"]]
    if _NAMED in schema:
        changed[_NAMED] = {name: _with_choices(named) for name, named in schema[_NAMED].items()}
    return schema | changed


@functools.lru_cache(maxsize=16)
def _schema_of_fields(schema: str, names: tuple[str, ...]) -> Any:
    parsed = _parsed(schema)
    _least_bytes(parsed, _STEPPED_OVER_BYTES, {}, 1)
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    return fastavro.parse_schema({"type": "record", "name": parsed["name"], "fields": fields})


def _least_bytes(schema: Any, sizes: Mapping[str, int], named: dict[str, int | None], depth: int) -> int:
    """The minimum number of bytes of a value whose absence fastavro notices.

    Args:
        schema: A schema parsed by fastavro, with full names of types.
        sizes: Type -> its bytes, for types of a fixed size; other types take at least one byte.
        named: Full name -> bytes; None while the type is being examined.
        depth: The number of schemas around this one, plus one.

    Raises:
        ValueError: A value may nest without end, or contain endless elements in a few bytes.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"the schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(schema, list):
        return 1 + min((_least_bytes(branch, sizes, named, depth + 1) for branch in schema), default=0)
    if isinstance(schema, str):
        least = named[schema] if schema in named else sizes.get(schema, 1)
        if least is None:
            raise ValueError(f"the record {schema} holds itself")
        return least
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = None
            least = sum(_least_bytes(field["type"], sizes, named, depth + 1) for field in schema["fields"])
            named[schema["name"]] = least
            return least
        case "array":
            if not _least_bytes(schema["items"], sizes, named, depth + 1):
                raise ValueError("the schema has an array of elements that take no bytes")
            return 1
        case "map":
            _least_bytes(schema["values"], sizes, named, depth + 1)
            return 1
        case "enum":
            return 1
        case "fixed":
            return sizes.get("fixed", int(schema["size"]))
    return _least_bytes(schema["type"], sizes, named, depth + 1)
