"""The types of an Avro schema as a tree: each node knows its path and its Arrow type."""

from __future__ import annotations

import functools

import attrs
import pyarrow as pa

NUMBER, SPAN = -1, -2
"""Steps over an integer, and over bytes with their length in front; see `AvroType.steps`."""
UNIONS = frozenset({"union", "variant", "members"})
"""The kinds of unions."""
_STEPS = {"boolean": (1,), "int": (NUMBER,), "long": (NUMBER,), "enum": (NUMBER,), "bytes": (SPAN,), "string": (SPAN,)}
_LEAST_BYTES = {"null": 0, "float": 4, "double": 8}
_FIXED_BYTES = {"null": 0, "float": 4, "double": 8}


@attrs.frozen(slots=False)
class AvroType:
    """One type of a schema, at one place.

    Attributes:
        kind: ``union``, ``variant`` or ``members`` (a union of several types, see `VARIANT` and `member_name`), or the
            name that Avro gives the type, such as ``record`` or ``long``.
        arrow_type: The type that `hoodie.avro.schema_converters.to_arrow` gives it; for a union, that of its values.
        path: The field, for messages; empty for the record at the top.
        logical: The logical type, or None.
        size: The bytes of a fixed.
        symbols: The symbols of an enum.
        names: The names of a record's fields.
        inner: The types of a record's fields, of an array's items, of a map's values, or of a union's branches.
        name: The full name of a record, an enum or a fixed.
        aliases: The aliases of a record's fields, one tuple for each.
        defaults: JSON of the defaults of a record's fields; None for a field without one.
        default_symbol: The symbol of an enum for symbols that it does not know, or None.
    """

    kind: str
    arrow_type: pa.DataType
    path: str
    logical: str | None = None
    size: int = 0
    symbols: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    inner: tuple[AvroType, ...] = ()
    name: str = ""
    aliases: tuple[tuple[str, ...], ...] = ()
    defaults: tuple[str | None, ...] = ()
    default_symbol: str | None = None

    @functools.cached_property
    def least_bytes(self) -> int:
        """The minimum number of bytes of a value."""
        if self.kind in UNIONS:
            return 1 + min(branch.least_bytes for branch in self.inner)
        if self.kind == "record":
            return sum(field.least_bytes for field in self.inner)
        return self.size if self.kind == "fixed" else _LEAST_BYTES.get(self.kind, 1)

    @functools.cached_property
    def fixed_bytes(self) -> int | None:
        """The number of bytes of every value, whatever they are; None if values differ, or bytes may be no value."""
        if self.kind == "record":
            widths = [field.fixed_bytes for field in self.inner]
            return None if None in widths else sum(width for width in widths if width is not None)
        return self.size if self.kind == "fixed" else _FIXED_BYTES.get(self.kind)

    @functools.cached_property
    def steps(self) -> tuple[int, ...] | None:
        """The steps over a value: `NUMBER`, `SPAN` or a count of bytes, one after the other.

        None for a type whose values have several forms, or items.
        """
        if self.kind == "record":
            found: list[int] = []
            for field in self.inner:
                if field.steps is None:
                    return None
                found.extend(field.steps)
            return tuple(found)
        if self.fixed_bytes is not None:
            return (self.fixed_bytes,)
        return _STEPS.get(self.kind)

    @property
    def is_nullable(self) -> bool:
        """Whether a value may be null."""
        return self.kind == "null" or (self.kind in UNIONS and any(branch.kind == "null" for branch in self.inner))

    def field(self, name: str) -> pa.Field:
        """A field of this type."""
        return pa.field(name, self.arrow_type, nullable=self.is_nullable)
