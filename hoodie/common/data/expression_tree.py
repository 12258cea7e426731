"""What a pyarrow expression consists of.

pyarrow shows an expression as text only. Its pickled form tells everything: a record batch of one row that holds the
literals and options, with the tree in the metadata of its schema, parents first::

    (v < 5) and s in ("a")      call=and_kleene
                                    call=less   field_ref=v   literal=0             end=less
                                    call=is_in  field_ref=s   options=1             end=is_in
                                end=and_kleene

pyarrow gives such metadata as a dict, which drops repeated keys; Arrow's C data interface gives all of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Call", "Field", "Literal", "Node", "columns_of", "parse_expression"]

_CAPSULE_NAME = b"arrow_schema"


@attrs.frozen
class Field:
    """A column; more than one name for a field of a struct."""

    path: tuple[str, ...]


@attrs.frozen(eq=False)
class Literal:
    """A value."""

    value: pa.Scalar


@attrs.frozen(eq=False)
class Call:
    """A function of other nodes.

    Attributes:
        function: Name of the compute function.
        arguments: In their order.
        options: Of the function, a struct; None where it has none.
    """

    function: str
    arguments: tuple[Node, ...]
    options: pa.StructScalar | None = None


Node: TypeAlias = Field | Literal | Call


def parse_expression(expression: pc.Expression) -> Node | None:
    """The tree of an expression; None where this release of pyarrow does not tell it, such as of fields by number.

    Example: ``pc.field("v") < 5`` gives ``Call("less", (Field(("v",)), Literal(5)))``.
    """
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as reader:
            row, metadata = reader.get_batch(0), _metadata_of(reader.schema)
        entries = iter(metadata)
        node = _parse(next(entries), entries, row)
    except (pa.ArrowException, AttributeError, LookupError, StopIteration, TypeError, ValueError):
        # Nothing depends on the tree but speed and the words of messages.
        return None
    return node if next(entries, None) is None else None


def columns_of(node: Node) -> set[str]:
    """The top-level columns that an expression reads."""
    if isinstance(node, Field):
        return {node.path[0]}
    if isinstance(node, Call):
        return {name for argument in node.arguments for name in columns_of(argument)}
    return set()


def _parse(entry: tuple[str, str], entries: Iterator[tuple[str, str]], row: pa.RecordBatch) -> Node:
    key, value = entry
    if key == "literal":
        return Literal(row.column(int(value))[0])
    if key == "field_ref":
        return Field((value,))
    if key == "nested_field_ref":
        parts = [_parse(next(entries), entries, row) for _ in range(int(value))]
        return Field(tuple(name for part in parts if isinstance(part, Field) for name in part.path))
    if key != "call":
        raise ValueError(f"unknown entry {key} in an expression")
    arguments: list[Node] = []
    options = None
    for key_of_part, value_of_part in entries:
        if key_of_part == "end":
            return Call(value, tuple(arguments), options)
        if key_of_part == "options":
            options = row.column(int(value_of_part))[0]
        else:
            arguments.append(_parse((key_of_part, value_of_part), entries, row))
    raise ValueError(f"the call of {value} does not end")


class _CSchema(ctypes.Structure):
    """The head of ArrowSchema, of Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """All metadata of a schema in its order, repeated keys too."""
    capsule: Any = schema.__arrow_c_schema__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype, get_pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    address = _CSchema.from_address(get_pointer(capsule, _CAPSULE_NAME)).metadata
    if not address:
        return []

    def number() -> int:
        nonlocal address
        address += 4
        return ctypes.c_int32.from_address(address - 4).value

    def text() -> str:
        nonlocal address
        length = number()
        address += length
        return ctypes.string_at(address - length, length).decode()

    # The memory is the capsule's, which lives until this returns.
    return [(text(), text()) for _ in range(number())]
