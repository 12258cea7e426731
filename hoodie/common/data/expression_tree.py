"""Read the tree of a pyarrow expression.

pyarrow prints an expression as text only. Its pickled form contains all of it: a record batch with one row of literals
and options, and the tree in the metadata of its schema, parents first::

    (v < 5) and s in ("a")      call=and_kleene
                                    call=less   field_ref=v   literal=0             end=less
                                    call=is_in  field_ref=s   options=1             end=is_in
                                end=and_kleene

pyarrow returns such metadata as a dict, which drops repeated keys; Arrow's C data interface returns all of it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from typing import Any, TypeAlias

import attrs
import pyarrow as pa
import pyarrow.compute as pc

_CAPSULE_NAME = b"arrow_schema"
_CHAINED = frozenset({"and_kleene", "or_kleene"})
_MAX_DEPTH = 100
"""The maximum depth of a tree, because the functions here are recursive."""


@attrs.frozen
class Field:
    """A column; several names lead to a field of a struct."""

    path: tuple[str, ...]


@attrs.frozen(eq=False)
class Literal:
    """A value."""

    value: pa.Scalar


@attrs.frozen(eq=False)
class Call:
    """A function call.

    Attributes:
        function: The name of the compute function.
        arguments: The arguments, in their order.
        options: The function's options, a struct; None if it has none.
    """

    function: str
    arguments: tuple[Node, ...]
    options: pa.StructScalar | None = None


Node: TypeAlias = Field | Literal | Call


def parse_expression(expression: pc.Expression) -> Node | None:
    """The tree of an expression; None if pyarrow does not give it (fields by number, for example) or it is very deep.

    Example: ``pc.field("v") < 5`` gives ``Call("less", (Field(("v",)), Literal(5)))``.
    """
    try:
        _, (buffer,) = expression.__reduce__()
        with pa.ipc.open_file(buffer) as reader:
            return _parse(_metadata_of(reader.schema), reader.get_batch(0))
    except (pa.ArrowException, AttributeError, LookupError, TypeError, ValueError):
        # Only speed and the wording of messages depend on the tree.
        return None


def columns_of(node: Node) -> set[str]:
    """The top-level columns that an expression reads."""
    if isinstance(node, Field):
        return {node.path[0]}
    if isinstance(node, Call):
        return {name for argument in node.arguments for name in columns_of(argument)}
    return set()


def build_expression(node: Node) -> pc.Expression | None:
    """The expression of a tree, in the way of `parse_expression`; None if pyarrow does not take it.

    Args:
        node: The tree; its functions may be any of Arrow's.
    """
    entries: list[tuple[str, str]] = []
    values: list[pa.Scalar] = []
    _write(node, entries, values)
    columns = [pa.repeat(value, 1) for value in values]
    schema = pa.schema([pa.field("", column.type) for column in columns], pa.KeyValueMetadata(entries))
    rows = pa.StructArray.from_arrays(columns, fields=list(schema)) if columns else pa.array([{}], pa.struct([]))
    sink = pa.BufferOutputStream()
    try:
        deserialize, _ = pc.scalar(True).__reduce__()
        with pa.ipc.new_file(sink, schema) as writer:
            writer.write_batch(pa.RecordBatch.from_struct_array(rows).replace_schema_metadata(schema.metadata))
        built: pc.Expression = deserialize(sink.getvalue())
    except (pa.ArrowException, AttributeError, TypeError, ValueError):
        return None
    return built


def _write(node: Node, entries: list[tuple[str, str]], values: list[pa.Scalar]) -> None:
    """Add the entries of a tree, and the values that they name by number."""
    if isinstance(node, Field):
        if len(node.path) > 1:
            entries.append(("nested_field_ref", str(len(node.path))))
        entries.extend(("field_ref", name) for name in node.path)
        return
    if isinstance(node, Literal):
        entries.append(("literal", str(len(values))))
        values.append(node.value)
        return
    if node.function in _CHAINED and len(node.arguments) > 2:
        # Halves, because pyarrow takes two arguments, and is recursive.
        middle = len(node.arguments) // 2
        halves = (node.arguments[:middle], node.arguments[middle:])
        parts = (half[0] if len(half) == 1 else Call(node.function, half) for half in halves)
        node = Call(node.function, tuple(parts))
    entries.append(("call", node.function))
    for argument in node.arguments:
        _write(argument, entries, values)
    if node.options is not None:
        entries.append(("options", str(len(values))))
        values.append(node.options)
    entries.append(("end", node.function))


_ENDS_AT_EXTENSIONS = int(pa.__version__.split(".")[0]) < 21
"""Whether Arrow ends the process when it shows a value of an extension type, as 17 to 20 do."""


def shown_expression(expression: pc.Expression, most: int = 200) -> str:
    """An expression in one line of text for messages; never fails.

    Args:
        expression: The expression.
        most: The most characters; a longer text is cut.
    """
    tree = parse_expression(expression) if _ENDS_AT_EXTENSIONS else None
    if _ENDS_AT_EXTENSIONS and (tree is None or _has_extension(tree)):
        return _shown_columns(tree)
    try:
        text = " ".join(str(expression).split())
    except UnicodeDecodeError:
        # Arrow cuts long texts without regard to characters of several bytes.
        text = _shown_columns(parse_expression(expression))
    return text if len(text) <= most else f"{text[:most]}..."


def _shown_columns(tree: Node | None) -> str:
    return "on " + ", ".join(sorted(columns_of(tree))) if tree is not None else "of values that cannot be shown"


def _has_extension(node: Node) -> bool:
    """Whether a value of a comparison has an extension type."""
    if isinstance(node, Literal):
        return isinstance(node.value.type, pa.BaseExtensionType)
    return isinstance(node, Call) and any(map(_has_extension, node.arguments))


def _parse(entries: Iterable[tuple[str, str]], row: pa.RecordBatch) -> Node:
    """Build the tree from the entries; a chain of ands or of ors becomes one call, however long it is.

    Raises:
        ValueError: The entries are not one tree, or the tree is too deep for recursive functions.
        LookupError: The entries name a literal that does not exist.
    """
    # Function, arguments so far, and options of each open call; the first entry is the root.
    open_calls: list[tuple[str, list[Node], list[pa.StructScalar]]] = [("", [], [])]
    names: list[str] = []
    names_left = 1
    for key, value in entries:
        function, arguments, options = open_calls[-1]
        match key:
            case "field_ref":
                names.append(value)
                if len(names) == names_left:
                    arguments.append(Field(tuple(names)))
                    names, names_left = [], 1
            case "nested_field_ref":
                names_left = int(value)
            case "literal":
                arguments.append(Literal(row.column(int(value))[0]))
            case "options":
                options.append(row.column(int(value))[0])
            case "call":
                open_calls.append((value, [], []))
            case "end" if value == function and len(open_calls) > 1:
                open_calls.pop()
                outer, outer_arguments, _ = open_calls[-1]
                is_chain = function == outer and function in _CHAINED
                call = Call(function, tuple(arguments), options[0] if options else None)
                outer_arguments.extend(arguments if is_chain else [call])
            case _:
                raise ValueError(f"unknown entry {key}={value} in an expression")
    (node,) = open_calls[0][1]
    if len(open_calls) > 1 or names or _depth(node) > _MAX_DEPTH:
        raise ValueError("not a whole expression, or a very deep one")
    return node


def _depth(node: Node) -> int:
    depth, level = 0, [node]
    while level:
        depth += 1
        level = [argument for node in level if isinstance(node, Call) for argument in node.arguments]
    return depth


class _CSchema(ctypes.Structure):
    """The first fields of ArrowSchema in Arrow's C data interface."""

    _fields_ = (("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_void_p))


def _metadata_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """All metadata of a schema in its order, including repeated keys."""
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

    # The memory belongs to the capsule, which lives until this function returns.
    return [(text(), text()) for _ in range(number())]
