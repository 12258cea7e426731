"""Writers of Avro values: from an Arrow array to the bytes of each row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.avro.avro_type import AvroType
from hoodie.avro.columnar_cursors import Bytes, Flags, Longs
from hoodie.avro.columnar_pieces import Pieces, bounded_spans, numbers, raw_bytes
from hoodie.avro.columnar_schema import variant_column
from hoodie.avro.columnar_values import MICROS_PER_MILLI
from hoodie.avro.schema_reader import VARIANT, VARIANT_COLUMNS
from hoodie.common.util.arrow_buffers import lists_like, pieces_of, without_views
from hoodie.exception import HoodieSchemaException

_DECIMAL_BYTES = 16
_WIDER_INTEGERS = {
    pa.int32(): (pa.int8(), pa.int16(), pa.uint8(), pa.uint16()),
    pa.int64(): (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()),
}
_SAME = {
    pa.string(): (pa.large_string(), pa.string_view()),
    pa.binary(): (pa.large_binary(), pa.binary_view()),
}
Head = tuple[Bytes, Longs | None]
"""The first bytes of each value, rows x bytes, and how many of them count; None for all."""


class RowWriter:
    """Writes arrays of some rows.

    Args:
        rows: The number of the row that each value belongs to, for messages.
        out: Collects the bytes, one row for each value.
    """

    def __init__(self, rows: Longs, out: Pieces) -> None:
        self._rows = rows
        self._out = out

    def write(self, avro: AvroType, values: pa.Array, is_present: Flags | None) -> None:
        """Append the bytes of one value to each row.

        Args:
            avro: The type to write.
            values: One for each row; null where the row has none.
            is_present: Flags of the rows that have a value, which may be a null; None for all. Others get no bytes.

        Raises:
            HoodieSchemaException: The array is of another type, or a value does not fit.
            TooLargeError: The items of arrays take more bytes than one array of Arrow has room for.
        """
        values = _plain(values)
        if avro.kind == "union":
            self._write_union(avro, values, is_present)
        elif avro.kind == "variant":
            self._write_variant(avro, values, is_present)
        else:
            self._write_value(avro, values, self._required(avro, values, is_present), is_present, None)

    def _write_union(self, avro: AvroType, values: pa.Array, is_present: Flags | None) -> None:
        nulls = [number for number, branch in enumerate(avro.inner) if branch.kind == "null"]
        number, branch = next(
            (number, branch)
            for number, branch in enumerate(avro.inner)
            if branch.kind != "null" and branch.arrow_type == avro.arrow_type
        )
        if nulls and values.null_count == len(values) and branch.kind in _HEADS:
            _conformed(branch, values)
            self._add((np.full((len(values), 1), 2 * nulls[0], np.uint8), None), is_present)
            return
        if not values.null_count or not nulls:
            is_valid = self._required(avro, values, is_present)
            codes = np.full(len(values), 2 * number, np.uint8)
        else:
            is_valid = _valid(values)
            codes = np.where(is_valid, 2 * number, 2 * nulls[0]).astype(np.uint8)
        self._write_value(branch, values, is_valid, is_present, codes)

    def _write_variant(self, avro: AvroType, values: pa.Array, is_present: Flags | None) -> None:
        if values.type != VARIANT:
            raise _other_type(avro, values.type)
        is_valid = _valid(values) if is_present is None else _valid(values) & is_present
        null = next((number for number, branch in enumerate(avro.inner) if branch.kind == "null"), None)
        if null is None:
            self._required(avro, values, is_present)
        columns = dict(zip(VARIANT_COLUMNS, values.flatten(), strict=True))
        branches = pc.fill_null(columns["branch"], 0).to_numpy(zero_copy_only=False).astype(np.int64)
        self._refuse(avro, is_valid & ((branches < 0) | (branches >= len(avro.inner))), "there is no such branch")
        self._add(numbers(np.where(is_valid, branches, null or 0)), is_present)
        for number in np.unique(branches[is_valid]).tolist():
            self._write_branch(avro.inner[number], columns, is_valid & (branches == number))

    def _write_branch(self, branch: AvroType, columns: dict[str, pa.Array], is_it: Flags) -> None:
        column, leaf = variant_column(branch)
        values = columns[column].take(pa.array(np.arange(len(is_it)), mask=~is_it))
        self._refuse(branch, is_it & ~_valid(values), f"its column {column} is null")
        if leaf is None:
            self._out.add_binary(values, _sizes(values))
            return
        try:
            values = values.cast(leaf.arrow_type, safe=column != "floating")
        except pa.ArrowInvalid as error:
            raise HoodieSchemaException(f"Column {branch.path!r} cannot be stored: {error}") from error
        self.write(leaf, values, is_it)

    def _required(self, avro: AvroType, values: pa.Array, is_present: Flags | None) -> Flags | None:
        """True for rows with a value that is not null; None for all rows.

        Raises:
            HoodieSchemaException: A value is null.
        """
        if not values.null_count or avro.kind == "null":
            return is_present
        is_valid = _valid(values)
        is_missing = ~is_valid if is_present is None else is_present & ~is_valid
        self._refuse(avro, is_missing, "it is null, and the Avro schema has no null there")
        return is_valid

    def _refuse(self, avro: AvroType, bad: Flags, reason: str) -> None:
        if bad.any():
            row = int(self._rows[int(np.argmax(bad))])
            raise HoodieSchemaException(
                f"Column {avro.path!r} of row {row} (counted from 0) cannot be stored: {reason}."
            )

    def _write_value(
        self, avro: AvroType, values: pa.Array, is_valid: Flags | None, is_present: Flags | None, codes: Bytes | None
    ) -> None:
        if avro.kind in _CONTAINERS:
            if codes is not None:
                self._add((codes[:, None], None), is_present)
            _CONTAINERS[avro.kind](self, avro, values, is_valid)
            return
        if avro.kind == "null":
            given = _valid(values) if is_present is None else is_present & _valid(values)
            self._refuse(avro, given, "the Avro schema has only nulls there")
            return
        head, body = _HEADS[avro.kind](self, avro, _conformed(avro, values), is_valid)
        matrix, lengths = head
        if codes is not None:
            if is_valid is not None and lengths is None:
                lengths = np.full(len(values), matrix.shape[1], np.int64)
            if lengths is not None:
                lengths = lengths + 1 if is_valid is None else np.where(is_valid, lengths + 1, 1)
            self._add((np.hstack([codes[:, None], matrix]), lengths), is_present)
        else:
            self._add(head, is_valid)
        if body is not None:
            sizes = _sizes(body)
            self._out.add_binary(body, sizes if is_valid is None else np.where(is_valid, sizes, 0))

    def _add(self, head: Head, is_there: Flags | None) -> None:
        matrix, lengths = head
        if is_there is not None:
            lengths = np.where(is_there, matrix.shape[1] if lengths is None else lengths, 0)
        self._out.add(matrix, lengths)

    def write_record(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> None:
        """Append the fields of structs."""
        if not pa.types.is_struct(values.type):
            raise _other_type(avro, values.type)
        places = {field.name: place for place, field in enumerate(values.type)}
        columns = values.flatten()
        self.write_fields(avro, {name: columns[place] for name, place in places.items()}, is_valid)

    def write_fields(self, avro: AvroType, columns: dict[str, pa.Array], is_valid: Flags | None) -> None:
        """Append the fields of a record, which are found by name."""
        for name, field in zip(avro.names, avro.inner, strict=True):
            if name not in columns:
                raise HoodieSchemaException(
                    f"Column {field.path!r} of the Avro schema is missing in the rows to store."
                )
            self.write(field, columns[name], is_valid)

    def write_array(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> None:
        """Append the items of lists, as one block each."""
        is_list = pa.types.is_list(values.type) or pa.types.is_large_list(values.type)
        if not is_list and not pa.types.is_fixed_size_list(values.type):
            raise _other_type(avro, values.type)
        self._write_items(avro.inner[0], values, is_valid)

    def write_map(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> None:
        """Append the entries of maps, as one block each."""
        if not pa.types.is_map(values.type):
            raise _other_type(avro, values.type)
        entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        lists = lists_like(values, entries)
        key = AvroType("string", pa.string(), f"{avro.path}.key")
        entry = AvroType("record", entries.type, avro.path, names=("key", "value"), inner=(key, avro.inner[0]))
        self._write_items(entry, lists, is_valid)

    def _write_items(self, item: AvroType, lists: pa.Array, is_valid: Flags | None) -> None:
        counts = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False).astype(np.int64)
        items = lists.flatten()
        blocks = Pieces(len(items))
        RowWriter(np.repeat(self._rows, counts), blocks).write(item, items, None)
        joined = blocks.joined()
        bounds = np.concatenate([[0], np.cumsum(counts)])
        offsets = _offsets(joined).take(bounds)
        body = pieces_of(joined.buffers()[2], offsets)
        self._add(numbers(counts), is_valid)
        self._out.add_binary(body, np.diff(offsets).astype(np.int64))
        # The number 0 ends the blocks; an empty array has written it already.
        self._out.add(np.zeros((len(lists), 1), np.uint8), (counts > 0).astype(np.int64))

    def boolean(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, None]:
        """A byte each."""
        return (raw_bytes(_numpy(values.cast(pa.uint8()), np.uint8)), None), None

    def integer(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, None]:
        """A number each; timestamps in the unit of the schema."""
        found = _numpy(values, np.int32 if values.type.bit_width == 32 else np.int64).astype(np.int64)
        if avro.logical in ("timestamp-millis", "local-timestamp-millis"):
            millis = found // MICROS_PER_MILLI
            bad = millis * MICROS_PER_MILLI != found
            reason = "the Avro schema has milliseconds, and it has microseconds"
            self._refuse(avro, bad if is_valid is None else bad & is_valid, reason)
            found = millis
        return numbers(found), None

    def floating(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, None]:
        """The bytes of each number."""
        return (raw_bytes(_numpy(values, np.uint32 if avro.kind == "float" else np.uint64)), None), None

    def binary(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, pa.Array | None]:
        """The length of each value, then its bytes."""
        if pa.types.is_decimal(values.type):
            return self._binary_decimal(values)
        return numbers(_sizes(values)), values.cast(pa.binary())

    def _binary_decimal(self, values: pa.Array) -> tuple[Head, pa.Array]:
        matrix, signs = _big_endian(values)
        leading = np.logical_and.accumulate(matrix == signs[:, None], axis=1).sum(axis=1)
        leading = np.minimum(leading, _DECIMAL_BYTES - 1)
        # The first bit that stays is the sign.
        next_bit = np.take_along_axis(matrix, leading[:, None], axis=1)[:, 0] >> 7
        leading = leading - ((next_bit != signs >> 7) & (leading > 0))
        ends = np.arange(1, len(values) + 1) * _DECIMAL_BYTES
        body = bounded_spans(matrix, ends - _DECIMAL_BYTES + leading, ends)
        if values.null_count:
            body = pc.if_else(values.is_valid(), body, pa.scalar(b"", pa.binary()))
        return numbers(_DECIMAL_BYTES - leading), body

    def fixed(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, pa.Array | None]:
        """The bytes of each value."""
        if pa.types.is_decimal(values.type):
            return (self._fixed_decimal(avro, values, is_valid), None), None
        found = np.frombuffer(values.buffers()[1], np.uint8) if len(values) else np.empty(0, np.uint8)
        begin = values.offset * avro.size
        return (found[begin : begin + len(values) * avro.size].reshape(len(values), avro.size), None), None

    def _fixed_decimal(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> Bytes:
        matrix, signs = _big_endian(values)
        more = avro.size - _DECIMAL_BYTES
        if more >= 0:
            return np.hstack([np.repeat(signs[:, None], more, axis=1), matrix])
        bad = (matrix[:, :-more] != signs[:, None]).any(axis=1) | (matrix[:, -more] >> 7 != signs >> 7)
        reason = f"it does not fit into the {avro.size} bytes of the Avro schema"
        self._refuse(avro, bad if is_valid is None else bad & is_valid, reason)
        return matrix[:, -more:]

    def symbol(self, avro: AvroType, values: pa.Array, is_valid: Flags | None) -> tuple[Head, None]:
        """The number of each symbol."""
        places = pc.index_in(values, pa.array(avro.symbols, pa.string()))
        if places.null_count > values.null_count:
            bad = ~_valid(places)
            self._refuse(avro, bad & _valid(values), "it is no symbol of the enum of the Avro schema")
        return numbers(pc.fill_null(places, 0).to_numpy(zero_copy_only=False).astype(np.int64)), None


_CONTAINERS: dict[str, Callable[[RowWriter, AvroType, pa.Array, Flags | None], None]] = {
    "record": RowWriter.write_record,
    "array": RowWriter.write_array,
    "map": RowWriter.write_map,
}
_HEADS: dict[str, Callable[[RowWriter, AvroType, pa.Array, Flags | None], tuple[Head, pa.Array | None]]] = {
    "boolean": RowWriter.boolean,
    "int": RowWriter.integer,
    "long": RowWriter.integer,
    "float": RowWriter.floating,
    "double": RowWriter.floating,
    "bytes": RowWriter.binary,
    "string": RowWriter.binary,
    "fixed": RowWriter.fixed,
    "enum": RowWriter.symbol,
}


def _plain(values: pa.Array) -> pa.Array:
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    return values.dictionary_decode() if pa.types.is_dictionary(values.type) else values


def _conformed(avro: AvroType, values: pa.Array) -> pa.Array:
    """Values in the very type that the schema's type is read as.

    Raises:
        HoodieSchemaException: They have another type.
    """
    given, wanted = values.type, avro.arrow_type
    if given == wanted:
        return values
    is_narrower = given in _WIDER_INTEGERS.get(wanted, ()) or pa.types.is_null(given)
    if is_narrower or given in _SAME.get(wanted, ()) or _is_same_instant(given, wanted):
        return without_views(values).cast(wanted)
    is_decimal = pa.types.is_decimal(given) and pa.types.is_decimal(wanted)
    if is_decimal and given.scale == wanted.scale and given.precision <= wanted.precision:
        return values.cast(wanted)
    raise _other_type(avro, given)


def _is_same_instant(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether both are timestamps in microseconds with a time zone, which changes no value."""
    if not pa.types.is_timestamp(given) or not pa.types.is_timestamp(wanted):
        return False
    return given.unit == wanted.unit and given.tz is not None and wanted.tz is not None


def _other_type(avro: AvroType, given: pa.DataType) -> HoodieSchemaException:
    return HoodieSchemaException(
        f"Column {avro.path!r} of type {given} cannot be stored as Avro {avro.kind}, which holds {avro.arrow_type}: "
        "cast the column."
    )


def _valid(values: pa.Array) -> Flags:
    found: Flags = values.is_valid().to_numpy(zero_copy_only=False)
    return found


def _numpy(values: pa.Array, data_type: type[np.generic]) -> np.ndarray:
    """The buffer of values of a fixed size; anything where they are null."""
    if not len(values):
        return np.empty(0, data_type)
    return np.frombuffer(values.buffers()[1], data_type)[values.offset : values.offset + len(values)]


def _offsets(values: pa.Array) -> np.ndarray:
    if not len(values):
        return np.zeros(1, np.int32)
    return np.frombuffer(values.buffers()[1], np.int32)[values.offset : values.offset + len(values) + 1]


def _sizes(values: pa.Array) -> Longs:
    return np.diff(_offsets(values)).astype(np.int64)


def _big_endian(values: pa.Array) -> tuple[Bytes, Bytes]:
    """The 16 bytes of each decimal, and the byte that its sign repeats."""
    if not len(values):
        return np.empty((0, _DECIMAL_BYTES), np.uint8), np.empty(0, np.uint8)
    words = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, _DECIMAL_BYTES)
    matrix = np.ascontiguousarray(words[values.offset : values.offset + len(values), ::-1])
    return matrix, np.where(matrix[:, 0] > 0x7F, 0xFF, 0).astype(np.uint8)
