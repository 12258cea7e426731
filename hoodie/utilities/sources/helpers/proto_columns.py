"""Columns of Protobuf messages: their types, and the values of many messages.

Columns are those that Hudi gives the same messages:

==========================================  ==========================================================
Protobuf                                    Arrow
==========================================  ==========================================================
int32, sint32, sfixed32, fixed32            int32
int64, sint64, sfixed64, fixed64, uint32    int64
uint64                                      decimal128(20, 0)
float, double, bool, string, bytes          the same
enum                                        string: the name of the value
repeated                                    a list
map                                         a list of structs of key and value
Timestamp                                   timestamp in microseconds, UTC, or null
Int64Value and the other wrappers           their value, or null
another message                             a struct, or null
==========================================  ==========================================================

Fields of a oneof, and ``optional`` fields of proto3, may be null; other fields without a message have their defaults.
A type within itself is unfolded some levels deep; what is deeper is a struct of its name and its bytes.

Source: org.apache.hudi.utilities.sources.helpers.ProtoConversionUtil.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import pyarrow as pa

from hoodie.exception import HoodieSchemaException

_TIMESTAMP: Final = "google.protobuf.Timestamp"
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("String", "Int32", "UInt32", "Int64", "UInt64", "Bool", "Bytes", "Double", "Float")
)
_OVERFLOW: Final = pa.struct(
    [
        pa.field("descriptor_full_name", pa.string(), nullable=False),
        pa.field("proto_bytes", pa.binary(), nullable=False),
    ]
)
"""A message below the deepest level that becomes columns."""
_UNSIGNED_LONG: Final = pa.decimal128(20, 0)
_MAX_COLUMNS = 20_000
_MICROS = 1_000_000
_NANOS_PER_MICRO = 1000

# The numbers of types in google/protobuf/descriptor.proto.
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING = range(1, 10)
_MESSAGE, _BYTES, _UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = range(11, 19)
_TYPES: Mapping[int, pa.DataType] = {
    _DOUBLE: pa.float64(), _FLOAT: pa.float32(), _BOOL: pa.bool_(), _STRING: pa.string(), _BYTES: pa.binary(),
    _INT32: pa.int32(), _SINT32: pa.int32(), _SFIXED32: pa.int32(), _FIXED32: pa.int32(),
    _INT64: pa.int64(), _SINT64: pa.int64(), _SFIXED64: pa.int64(), _FIXED64: pa.int64(), _UINT32: pa.int64(),
    _UINT64: _UNSIGNED_LONG,
}  # fmt: skip


class ProtoValueError(ValueError):
    """A value of a message that its column cannot have; its text is the reason."""


@attrs.frozen
class ProtoOptions:
    """The choices that Hudi leaves.

    Attributes:
        wrappers_as_records: Whether wrappers are structs.
        timestamps_as_records: Whether timestamps are structs.
        max_recursion_depth: The levels of a type within itself that become columns.
    """

    wrappers_as_records: bool = False
    timestamps_as_records: bool = False
    max_recursion_depth: int = 5


class ValueColumn(ABC):
    """Makes an array of values of one type.

    Attributes:
        data_type: The type of the array.
    """

    data_type: pa.DataType

    @abstractmethod
    def array(self, values: Sequence[Any]) -> pa.Array:
        """The array.

        Args:
            values: Values as the runtime gives them; None for null.

        Raises:
            ProtoValueError: A value has no place in the column.
            UnicodeDecodeError: A text is not UTF-8.
        """


@attrs.frozen(eq=False)
class PlainColumn(ValueColumn):
    """Numbers, booleans, texts and bytes.

    Attributes:
        data_type: See `ValueColumn`.
        wraps_at: 2 to the power of the bits of an unsigned number that is read as a signed one; 0 for others.
    """

    data_type: pa.DataType
    wraps_at: int = 0

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        if self.wraps_at:
            half = self.wraps_at // 2
            values = [value - self.wraps_at if value is not None and value >= half else value for value in values]
        return pa.array(values, self.data_type)


@attrs.frozen(eq=False)
class EnumColumn(ValueColumn):
    """The names of an enum's values.

    Attributes:
        name: The name of the enum, for messages.
        names: Number -> name.
        data_type: See `ValueColumn`.
    """

    name: str
    names: Mapping[int, str]
    data_type: pa.DataType = attrs.field(factory=pa.string)

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        try:
            return pa.array([None if value is None else self.names[value] for value in values], self.data_type)
        except KeyError as error:
            raise ProtoValueError(f"the enum {self.name} has no value {error}") from error


@attrs.frozen(eq=False)
class TimestampColumn(ValueColumn):
    """Timestamps in microseconds.

    Attributes:
        data_type: See `ValueColumn`.
    """

    data_type: pa.DataType = attrs.field(factory=lambda: pa.timestamp("us", tz="UTC"))

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        micros = [
            None if value is None else value.seconds * _MICROS + value.nanos // _NANOS_PER_MICRO for value in values
        ]
        try:
            return pa.array(micros, pa.int64()).cast(self.data_type)
        except (OverflowError, pa.ArrowInvalid) as error:
            raise ProtoValueError("a timestamp has no microseconds of 64 bits") from error


@attrs.frozen(eq=False)
class WrappedColumn(ValueColumn):
    """The values in wrappers.

    Attributes:
        inner: The column of the values.
    """

    inner: ValueColumn

    @property
    def data_type(self) -> pa.DataType:
        """See `ValueColumn`."""
        return self.inner.data_type

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        return self.inner.array([None if value is None else value.value for value in values])


@attrs.frozen(eq=False)
class OverflowColumn(ValueColumn):
    """Messages below the deepest level that becomes columns.

    Attributes:
        data_type: See `ValueColumn`.
    """

    data_type: pa.DataType = _OVERFLOW

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        rows = [
            None
            if value is None
            else {"descriptor_full_name": value.DESCRIPTOR.full_name, "proto_bytes": value.SerializeToString()}
            for value in values
        ]
        return pa.array(rows, self.data_type)


@attrs.frozen(eq=False)
class FieldColumn:
    """One field of a message.

    Attributes:
        name: Its name.
        column: The column of one value.
        is_repeated: Whether it has many.
        is_map: Whether these are keys and values.
        may_be_absent: Whether it tells apart that it has none.
    """

    name: str
    column: ValueColumn
    is_repeated: bool = False
    is_map: bool = False
    may_be_absent: bool = False

    @property
    def field(self) -> pa.Field:
        """The column."""
        if not self.is_repeated:
            return pa.field(self.name, self.column.data_type, nullable=self.may_be_absent)
        return pa.field(self.name, pa.list_(pa.field("element", self.column.data_type, nullable=False)), nullable=False)

    def array(self, messages: Sequence[Any]) -> pa.Array:
        """The values of the field.

        Args:
            messages: The messages.

        Raises:
            ProtoValueError: A value has no place in the column.
            UnicodeDecodeError: A text is not UTF-8.
        """
        name = self.name
        if self.is_repeated:
            return self._lists(messages)
        if self.may_be_absent:
            values = [getattr(one, name) if one.HasField(name) else None for one in messages]
        else:
            values = [getattr(one, name) for one in messages]
        return self.column.array(values)

    def _lists(self, messages: Sequence[Any]) -> pa.Array:
        found: list[Any] = []
        offsets = np.zeros(len(messages) + 1, np.int64)
        for number, one in enumerate(messages):
            items = getattr(one, self.name)
            found.extend(sorted(items.items()) if self.is_map else items)
            offsets[number + 1] = len(found)
        items_array = self.column.array(found)
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items_array, type=self.field.type)


@attrs.frozen(eq=False)
class EntryColumn(ValueColumn):
    """The entries of maps, as pairs.

    Attributes:
        key: The keys.
        value: The values.
    """

    key: ValueColumn
    value: FieldColumn

    @property
    def data_type(self) -> pa.DataType:
        """See `ValueColumn`."""
        return pa.struct([pa.field("key", self.key.data_type, nullable=False), self.value.field])

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        columns = [self.key.array([key for key, _ in values]), self.value.column.array([value for _, value in values])]
        return pa.StructArray.from_arrays(columns, fields=list(self.data_type))


@attrs.frozen(eq=False)
class MessageColumn(ValueColumn):
    """Messages of one type.

    Attributes:
        fields: The fields.
        empty: A message without values, for the fields of one that is null.
    """

    fields: tuple[FieldColumn, ...]
    empty: Any

    @property
    def data_type(self) -> pa.DataType:
        """See `ValueColumn`."""
        return pa.struct([one.field for one in self.fields])

    def array(self, values: Sequence[Any]) -> pa.Array:
        """See `ValueColumn.array`."""
        mask = pa.array([value is None for value in values], pa.bool_())
        if not self.fields:
            return pa.array([None if value is None else {} for value in values], self.data_type)
        present = [self.empty if value is None else value for value in values]
        columns = [one.array(present) for one in self.fields]
        return pa.StructArray.from_arrays(columns, fields=list(self.data_type), mask=mask)


def message_column(descriptor: Any, options: ProtoOptions, empty_of: Callable[[Any], Any]) -> MessageColumn:
    """The columns of a message's fields.

    Args:
        descriptor: The descriptor of the message.
        options: The choices.
        empty_of: Makes a message without values of a descriptor.

    Raises:
        HoodieSchemaException: It has no fields, groups, or too many columns.
    """
    made = _Columns(options, empty_of).message(descriptor, {})
    if not isinstance(made, MessageColumn) or not made.fields:
        raise HoodieSchemaException(f"The message {descriptor.full_name} has no fields, so it has no columns")
    return made


class _Columns:
    def __init__(self, options: ProtoOptions, empty_of: Callable[[Any], Any]) -> None:
        self._options = options
        self._empty_of = empty_of
        self._count = 0

    def message(self, descriptor: Any, depths: Mapping[str, int]) -> ValueColumn:
        depth = depths.get(descriptor.full_name, 0)
        if depth >= self._options.max_recursion_depth:
            return OverflowColumn()
        deeper = {**depths, descriptor.full_name: depth + 1}
        fields = tuple(self._field(field, deeper) for field in descriptor.fields)
        return MessageColumn(fields, self._empty_of(descriptor))

    def _field(self, field: Any, depths: Mapping[str, int]) -> FieldColumn:
        self._count += 1
        if self._count > _MAX_COLUMNS:
            raise HoodieSchemaException(
                f"The message has more than {_MAX_COLUMNS} columns: lower "
                "hoodie.streamer.schemaprovider.proto.max.recursion.depth"
            )
        if _is_map(field):
            key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
            entry = EntryColumn(self._value(key, depths), self._map_value(value, depths))
            return FieldColumn(field.name, entry, is_repeated=True, is_map=True)
        column = self._value(field, depths)
        if _is_repeated(field):
            return FieldColumn(field.name, column, is_repeated=True)
        may_be_absent = field.type == _MESSAGE or field.containing_oneof is not None
        return FieldColumn(field.name, column, may_be_absent=may_be_absent)

    def _map_value(self, field: Any, depths: Mapping[str, int]) -> FieldColumn:
        return FieldColumn(field.name, self._value(field, depths), may_be_absent=field.type == _MESSAGE)

    def _value(self, field: Any, depths: Mapping[str, int]) -> ValueColumn:
        if field.type == _ENUM:
            names = {one.number: one.name for one in reversed(field.enum_type.values)}
            return EnumColumn(field.enum_type.full_name, names)
        if field.type == _MESSAGE:
            name = field.message_type.full_name
            if name == _TIMESTAMP and not self._options.timestamps_as_records:
                return TimestampColumn()
            if name in _WRAPPERS and not self._options.wrappers_as_records:
                return WrappedColumn(self._value(field.message_type.fields_by_name["value"], depths))
            return self.message(field.message_type, depths)
        if field.type not in _TYPES:
            raise HoodieSchemaException(f"The field {field.full_name} is a group, which is not read")
        return PlainColumn(_TYPES[field.type], {_FIXED32: 1 << 32, _FIXED64: 1 << 64}.get(field.type, 0))


def _is_repeated(field: Any) -> bool:
    # Releases before 6.31 know the label only, and later ones warn of it.
    repeated = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if repeated is None else repeated)


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and field.message_type.GetOptions().map_entry)
