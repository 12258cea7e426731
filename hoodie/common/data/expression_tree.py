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
_CHAINED = ("and_kleene", "or_kleene")
_MOST_LEVELS = 100
"""Deeper trees are not told: what walks them calls itself, and Python ends that with RecursionError."""


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
        arguments: In their order; of ``and_kleene`` and ``or_kleene`` two or more.
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
        node = _parse(entries, row)
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


@attrs.define(eq=False)
class _OpenCall:
    """A call whose end is still to come.

    Attributes:
        depth: How many levels of calls its arguments have.
    """

    function: str
    arguments: list[Node] = attrs.field(factory=list)
    options: pa.StructScalar | None = None
    depth: int = 0


def _parse(entries: Iterator[tuple[str, str]], row: pa.RecordBatch) -> Node:
    """The next node. Chains of the same ``and`` or ``or``, which may be thousands long, become one call.

    Raises:
        ValueError: An entry is unknown, calls do not end, or they nest too deep for functions that call themselves.
    """
    calls: list[_OpenCall] = []
    for key, value in entries:
        depth = 0
        node: Node
        match key:
            case "call":
                calls.append(_OpenCall(value))
                continue
            case "options":
                calls[-1].options = row.column(int(value))[0]
                continue
            case "end":
                call = calls.pop()
                depth = call.depth + 1
                if calls and calls[-1].function == call.function and call.function in _CHAINED:
                    calls[-1].arguments += call.arguments
                    calls[-1].depth = max(calls[-1].depth, call.depth)
                    continue
                if depth > _MOST_LEVELS:
                    raise ValueError(f"calls of more than {_MOST_LEVELS} levels")
                node = Call(call.function, tuple(call.arguments), call.options)
            case "literal":
                node = Literal(row.column(int(value))[0])
            case "field_ref":
                node = Field((value,))
            case "nested_field_ref":
                node = Field(tuple(_name(*next(entries)) for _ in range(int(value))))
            case _:
                raise ValueError(f"unknown entry {key} in an expression")
        if not calls:
            return node
        calls[-1].arguments.append(node)
        calls[-1].depth = max(calls[-1].depth, depth)
    raise ValueError("the expression does not end")


def _name(key: str, value: str) -> str:
    if key != "field_ref":
        raise ValueError(f"{key} where a field of a struct is named")
    return value


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
