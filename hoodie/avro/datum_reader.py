"""Read Avro data with the library fastavro, once its schema is known to do no harm.

What is read comes from files that anybody may have written. fastavro recurses in C and trusts counts: a schema of a
record that holds itself, or one that nests without end, crashes the process, and an array of a billion nulls keeps it
busy for hours. So the package avro parses each schema first, and `_least_bytes` refuses what no record of a table has.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
from avro.schema import parse as parse_schema

__all__ = ["read_container", "read_datums", "read_fields"]

_MAX_DEPTH = 64
_FIXED_BYTES = {"null": 0, "float": 4, "double": 8}
_HEADER = {
    "type": "record",
    "name": "Header",
    "fields": [
        {"name": "magic", "type": {"type": "fixed", "name": "Magic", "size": 4}},
        {"name": "meta", "type": {"type": "map", "values": "bytes"}},
        {"name": "sync", "type": {"type": "fixed", "name": "Sync", "size": 16}},
    ],
}
_LONG = fastavro.parse_schema({"type": "long"})


def read_datums(schema: str, datums: Sequence[bytes]) -> list[Any]:
    """Bare Avro values.

    Args:
        schema: The schema that they were written with, as JSON.
        datums: One value each.

    Raises:
        Exception: Of many classes: the schema or a value is damaged.
    """
    written = _parsed(schema)
    return [fastavro.schemaless_reader(io.BytesIO(datum), written) for datum in datums]


def read_fields(schema: str, datums: Sequence[bytes], names: Sequence[str]) -> list[dict[str, str | None]]:
    """Some fields of bare Avro records; the others are stepped over, which costs little however large they are.

    Args:
        schema: The schema that they were written with, of a record, as JSON.
        datums: One record each.
        names: Fields of strings, or of unions of strings and null. Those that the schema lacks are read as None.

    Raises:
        Exception: Of many classes: the schema or a record is damaged, or a field is of another type.
    """
    written = _parsed(schema)
    wanted = _schema_of_fields(schema, tuple(names))
    heads: list[Any] = [fastavro.schemaless_reader(io.BytesIO(datum), written, wanted) for datum in datums]
    return heads


def read_container(data: bytes, wanted: str, limit: int) -> list[Any]:
    """The first records of an Avro object container without compression.

    Args:
        data: The whole content.
        wanted: The schema to read them with, as JSON.
        limit: Records that are read at most.

    Raises:
        Exception: Of many classes: it is damaged, cut short, compressed, or holds other records.
    """
    stream = io.BytesIO(data)
    header: Any = fastavro.schemaless_reader(stream, fastavro.parse_schema(_HEADER))
    if header["magic"] != b"Obj\x01":
        raise ValueError("it is no Avro file")
    codec = header["meta"].get("avro.codec", b"null")
    if codec != b"null":
        raise ValueError(f"it is compressed ({codec.decode()}), which timeline files never are")
    written = _parsed(header["meta"]["avro.schema"].decode())
    if not data.endswith(header["sync"]):
        raise ValueError("its end is missing")
    records: list[Any] = []
    while len(records) < limit and stream.tell() < len(data):
        lengths: Any = [fastavro.schemaless_reader(stream, _LONG) for _ in range(2)]
        count, size = lengths
        block = io.BytesIO(stream.read(max(size, 0)))
        part = [fastavro.schemaless_reader(block, written, _parsed(wanted)) for _ in range(min(count, limit))]
        # A damaged count or union shows here only: what it hides is left over.
        if len(part) == count and block.tell() != size:
            raise ValueError(f"{size - block.tell()} bytes of a block belong to no record")
        records += part
        if stream.read(len(header["sync"])) != header["sync"]:
            raise ValueError("a block does not end where it says")
    return records[:limit]


@functools.lru_cache(maxsize=64)
def _parsed(schema: str) -> Any:
    parse_schema(schema)
    # Now it is known to be one, and to nest no deeper than Python recurses.
    parsed = fastavro.parse_schema(json.loads(schema))
    _least_bytes(parsed, {}, 1)
    return parsed


@functools.lru_cache(maxsize=16)
def _schema_of_fields(schema: str, names: tuple[str, ...]) -> Any:
    fields = [{"name": name, "type": ["null", "string"], "default": None} for name in names]
    return fastavro.parse_schema({"type": "record", "name": _parsed(schema)["name"], "fields": fields})


def _least_bytes(schema: Any, named: dict[str, int | None], depth: int) -> int:
    """The bytes that a value of a schema takes at least.

    Args:
        schema: As fastavro parsed it: types are named by their full names.
        named: Full name -> bytes, None while a type is being looked at.
        depth: How deep the schema stands in others.

    Raises:
        ValueError: A value may nest without end, or hold elements without end in a few bytes.
    """
    if depth > _MAX_DEPTH:
        raise ValueError(f"the schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(schema, list):
        return 1 + min((_least_bytes(branch, named, depth + 1) for branch in schema), default=0)
    if isinstance(schema, str):
        least = named[schema] if schema in named else _FIXED_BYTES.get(schema, 1)
        if least is None:
            raise ValueError(f"the record {schema} holds itself")
        return least
    match schema["type"]:
        case "record" | "error":
            named[schema["name"]] = None
            least = sum(_least_bytes(field["type"], named, depth + 1) for field in schema["fields"])
            named[schema["name"]] = least
            return least
        case "array":
            if not _least_bytes(schema["items"], named, depth + 1):
                raise ValueError("the schema has an array of elements that take no bytes")
            return 1
        case "map":
            _least_bytes(schema["values"], named, depth + 1)
            return 1
        case "enum":
            return 1
        case "fixed":
            return int(schema["size"])
    return _least_bytes(schema["type"], named, depth + 1)
