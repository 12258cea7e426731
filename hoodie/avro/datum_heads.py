"""Read a few texts of bare Avro records, and step over all else fast: one function for each type, put together once.

The library's own reader steps over what a reader's schema leaves out with checks of every value's schema on the way:
half a second for the archived metadata of ten commits of a few hundred files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

__all__ = ["HeadReader", "head_reader"]

HeadReader = Callable[[bytes], dict[str, str | None]]
"""Gives the wanted fields of a record; raises ValueError or IndexError for one that is cut short or damaged."""

_Skip = Callable[[bytes, int], int]
"""From the position of a value to the one behind it."""

_MAX_DEPTH = 64
_FIXED_BYTES = {"null": 0, "boolean": 1, "float": 4, "double": 8}


def head_reader(schema: Any, names: Sequence[str]) -> HeadReader:
    """The reader of some fields of a record.

    Args:
        schema: The value of the JSON of the record's schema, as it was written with.
        names: Fields of strings, or of unions of strings and null. Those that the schema lacks are read as None.

    Raises:
        ValueError: It is no schema of a record, a wanted field is of another type, or types of several namespaces have
            one name, which the timeline's have not.
    """
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise ValueError("it is not the schema of a record")
    named: dict[str, _Skip] = {}
    steps: list[tuple[str | None, list[str] | None, _Skip]] = []
    missing = set(names)
    for field in schema["fields"]:
        if not missing:
            break
        name, kind = field["name"], field["type"]
        if name in missing:
            missing.discard(name)
            steps.append((name, _branches_of_text(name, kind), _long))
        else:
            steps.append((None, None, _skip_of(kind, named, 1)))

    def read(data: bytes) -> dict[str, str | None]:
        found: dict[str, str | None] = dict.fromkeys(names)
        position = 0
        for name, branches, skip in steps:
            if name is None:
                position = skip(data, position)
                continue
            branch = "string"
            if branches:
                number, position = _read_long(data, position)
                branch = branches[_index(number, branches)]
            if branch == "string":
                length, position = _read_long(data, position)
                end = position + _length(length)
                found[name] = _slice(data, position, end).decode("utf-8")
                position = end
        if position > len(data):
            raise ValueError("the record is cut short")
        return found

    return read


def _branches_of_text(name: str, kind: Any) -> list[str]:
    """The branches of a union, [] for a plain string."""
    branches = kind if isinstance(kind, list) else []
    plain = [part["type"] if isinstance(part, dict) else part for part in (branches or [kind])]
    if any(part not in ("string", "null") for part in plain) or (not branches and plain != ["string"]):
        raise ValueError(f"the field {name} is of type {kind!r}, not a string")
    return plain if branches else []


def _slice(data: bytes, begin: int, end: int) -> bytes:
    if end > len(data):
        raise ValueError("a string is cut short")
    return data[begin:end]


def _read_long(data: bytes, position: int) -> tuple[int, int]:
    byte = data[position]
    position += 1
    number, shift = byte & 0x7F, 7
    while byte & 0x80:
        if shift > 63:
            raise ValueError("a number has more than 64 bits")
        byte = data[position]
        position += 1
        number |= (byte & 0x7F) << shift
        shift += 7
    return (number >> 1) ^ -(number & 1), position


def _length(number: int) -> int:
    if number < 0:
        raise ValueError(f"a length of {number}")
    return number


def _index(number: int, branches: Sequence[Any]) -> int:
    if not 0 <= number < len(branches):
        raise ValueError(f"branch {number} of a union of {len(branches)}")
    return number


def _long(data: bytes, position: int) -> int:
    while data[position] & 0x80:
        position += 1
    return position + 1


def _bytes(data: bytes, position: int) -> int:
    length = data[position]
    if length < 0x80 and not length & 1:
        return position + 1 + (length >> 1)
    number, position = _read_long(data, position)
    return position + _length(number)


def _constant(count: int) -> _Skip:
    return lambda data, position: position + count


def _skip_of(schema: Any, named: dict[str, _Skip], depth: int) -> _Skip:
    if depth > _MAX_DEPTH:
        raise ValueError(f"the schema is nested more than {_MAX_DEPTH} deep")
    if isinstance(schema, list):
        return _union([_skip_of(branch, named, depth + 1) for branch in schema])
    if isinstance(schema, str):
        return _by_name(schema, named)
    match schema["type"]:
        case "record" | "error":
            return _record(schema, named, depth)
        case "array":
            return _blocks(_skip_of(schema["items"], named, depth + 1))
        case "map":
            value = _skip_of(schema["values"], named, depth + 1)
            return _blocks(lambda data, position: value(data, _bytes(data, position)))
        case "enum":
            return _keep(schema, named, _long)
        case "fixed":
            return _keep(schema, named, _constant(_length(int(schema["size"]))))
    return _skip_of(schema["type"], named, depth + 1)


def _by_name(name: str, named: dict[str, _Skip]) -> _Skip:
    if name in ("int", "long"):
        return _long
    if name in ("string", "bytes"):
        return _bytes
    if name in _FIXED_BYTES:
        return _constant(_FIXED_BYTES[name])
    found = named.get(name) or named.get(name.rpartition(".")[2])
    if found is None:
        raise ValueError(f"the schema has no type {name}")
    return found


def _keep(schema: Any, named: dict[str, _Skip], skip: _Skip) -> _Skip:
    name = schema["name"].rpartition(".")[2]
    if name in named:
        raise ValueError(f"two types have the name {name}")
    named[name] = skip
    return skip


def _record(schema: Any, named: dict[str, _Skip], depth: int) -> _Skip:
    fields: list[_Skip] = []

    def skip(data: bytes, position: int) -> int:
        for field in fields:
            position = field(data, position)
        return position

    _keep(schema, named, skip)
    fields += [_skip_of(field["type"], named, depth + 1) for field in schema["fields"]]
    return skip


def _union(branches: list[_Skip]) -> _Skip:
    # Their numbers take one byte.
    by_byte = {2 * number: branch for number, branch in enumerate(branches[:64])}

    def skip(data: bytes, position: int) -> int:
        branch = by_byte.get(data[position])
        if branch is None:
            raise ValueError(f"a union of {len(branches)} has no branch {data[position]}")
        return branch(data, position + 1)

    return skip


def _blocks(item: _Skip) -> _Skip:
    """Of an array or a map: blocks, each with its count, and its bytes where that is negative."""

    def skip(data: bytes, position: int) -> int:
        while True:
            count, position = _read_long(data, position)
            if count == 0:
                return position
            if count < 0:
                size, position = _read_long(data, position)
                position += _length(size)
                continue
            if count > len(data) - position:
                raise ValueError(f"{count} elements in {len(data) - position} bytes")
            for _ in range(count):
                position = item(data, position)

    return skip
