"""Readers of Avro values that hold values: unions, records, arrays and maps; and which types are read as which."""

from __future__ import annotations

from array import array as compact_list
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from hoodie.avro.avro_type import SPAN, AvroType
from hoodie.avro.columnar_cursors import Content, Cursors, Longs
from hoodie.avro.columnar_schema import variant_column
from hoodie.avro.columnar_values import (
    READERS,
    BadValueError,
    DecimalReader,
    Reader,
    step_over_length,
    step_over_number,
)
from hoodie.avro.schema_reader import VARIANT, VARIANT_COLUMNS
from hoodie.common.util.arrow_buffers import numbers_of, structs_of
from hoodie.exception import HoodieSchemaException

_FEW = 32
"""With fewer arrays than that, a loop over their items takes less time than a call of numpy for each item."""
_ITEMS_AT_ONCE = 1 << 14
_WIDER = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
_TEXT = (pa.string(), pa.binary())


def reader_of(avro: AvroType, wanted: pa.DataType) -> Reader:
    """The reader that converts a written type to a wanted one.

    Raises:
        HoodieSchemaException: The type written is not read as the one wanted.
    """
    if avro.kind == "union":
        return UnionReader(avro, wanted)
    if avro.kind == "variant" and wanted == VARIANT:
        return VariantReader(avro, wanted)
    if avro.kind == "record" and pa.types.is_struct(wanted):
        return RecordReader(avro, wanted)
    if avro.kind == "array" and pa.types.is_list(wanted):
        return ArrayReader(avro, wanted)
    if avro.kind == "map" and pa.types.is_map(wanted) and pa.types.is_string(wanted.key_type):
        return MapReader(avro, wanted)
    if not _is_readable(avro, wanted):
        raise HoodieSchemaException(
            f"Field {avro.path!r} is written as {avro.arrow_type}, which cannot be read as {wanted}. Avro widens "
            "int to long, float and double, in this order, and reads string and bytes as each other. Read the field as "
            "it was written, and convert the column."
        )
    is_decimal = pa.types.is_decimal(avro.arrow_type)
    return DecimalReader(avro, wanted) if is_decimal else READERS[avro.kind](avro, wanted)


def _is_readable(avro: AvroType, wanted: pa.DataType) -> bool:
    written = avro.arrow_type
    if avro.kind == "null" or written == wanted or wanted in _WIDER.get(written, ()):
        return True
    if pa.types.is_decimal128(written) and pa.types.is_decimal128(wanted):
        return bool(written.scale == wanted.scale and written.precision <= wanted.precision)
    return avro.kind in ("string", "bytes") and written in _TEXT and wanted in _TEXT


class UnionReader(Reader):
    """Reads unions: null and one other type, or types of numbers of which one is the wider.

    Args:
        avro: The type as written.
        wanted: The Arrow type to make.
        branches: The readers of the branches, all of the type wanted; None for null. Made of the type by default.
    """

    def __init__(self, avro: AvroType, wanted: pa.DataType, branches: Sequence[Reader | None] | None = None) -> None:
        super().__init__(avro, wanted)
        if branches is None:
            branches = [None if node.kind == "null" else reader_of(node, wanted) for node in avro.inner]
        self._branches = branches

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        choices = cursors.choice(len(self._branches), self.path, "branch")
        parts: list[tuple[Longs, pa.Array]] = []
        for number, branch in enumerate(self._branches):
            if branch is None:
                continue
            is_it = choices == number
            if is_it.all():
                return branch.read(cursors, is_wanted)
            places = np.flatnonzero(is_it)
            if not len(places):
                continue
            some = cursors.at(places)
            parts.append((places, branch.read(some, is_wanted)))
            cursors.put(places, some)
        if not is_wanted or cursors.content.is_torn:
            return None
        return _united(len(cursors), self.wanted, parts)

    def step(self, data: memoryview, position: int, end: int) -> int:
        choice, position = step_over_number(data, position, end)
        if not 0 <= choice < len(self._branches):
            raise BadValueError("there is no branch of that number")
        branch = self._branches[choice]
        return position if branch is None else branch.step(data, position, end)


def _united(count: int, wanted: pa.DataType, parts: list[tuple[Longs, pa.Array]]) -> pa.Array:
    """Values put at their places; null elsewhere."""
    if not parts:
        return pa.nulls(count, wanted)
    order = np.zeros(count, np.int32)
    is_null = np.ones(count, np.bool_)
    values, before = [], 0
    for places, array in parts:
        order[places] = np.arange(before, before + len(places), dtype=np.int32)
        is_null[places] = False
        before += len(places)
        values.append(array)
    together = values[0] if len(values) == 1 else pa.concat_arrays(values)
    return together.take(pa.array(order, mask=is_null))


class VariantReader(Reader):
    """Reads unions of several types as `VARIANT`."""

    def __init__(self, avro: AvroType, wanted: pa.DataType) -> None:
        super().__init__(avro, wanted)
        self._branches = [None if node.kind == "null" else _BranchReader(node) for node in avro.inner]

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        choices = cursors.choice(len(self._branches), self.path, "branch")
        parts: dict[str, list[tuple[Longs, pa.Array]]] = {field.name: [] for field in VARIANT}
        is_null = np.zeros(len(cursors), np.bool_)
        for number, branch in enumerate(self._branches):
            places = np.flatnonzero(choices == number)
            if branch is None:
                is_null[places] = True
            elif len(places):
                some = cursors.at(places)
                parts[branch.column].append((places, branch.read(some, is_wanted)))
                cursors.put(places, some)
        if not is_wanted or cursors.content.is_torn:
            return None
        if is_null.all():
            return pa.nulls(len(cursors), VARIANT)
        columns = [pa.array(choices.astype(np.int8))]
        columns += [_united(len(cursors), VARIANT.field(name).type, parts[name]) for name in VARIANT_COLUMNS[1:]]
        return pa.StructArray.from_arrays(columns, fields=list(VARIANT), mask=pa.array(is_null))

    def step(self, data: memoryview, position: int, end: int) -> int:
        choice, position = step_over_number(data, position, end)
        if not 0 <= choice < len(self._branches):
            raise BadValueError("there is no branch of that number")
        branch = self._branches[choice]
        return position if branch is None else branch.reader.step(data, position, end)


class _BranchReader:
    """Reads the values of one branch for a column of `VARIANT`."""

    def __init__(self, avro: AvroType) -> None:
        self.column, leaf = variant_column(avro)
        self._type = VARIANT.field(self.column).type
        self._is_raw = leaf is None
        self.reader = reader_of(avro, avro.arrow_type) if leaf is None else reader_of(leaf, leaf.arrow_type)

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        if not self._is_raw:
            found = self.reader.read(cursors, is_wanted)
            return None if found is None else found.cast(self._type)
        start = cursors.positions.copy()
        self.reader.read(cursors, False)
        if not is_wanted or cursors.content.is_torn:
            return None
        lengths = cursors.positions - start
        return Cursors(cursors.content, start, cursors.ends, cursors.records).spans(lengths, True)


class RecordReader(Reader):
    """Reads records as structs; fields are found by name.

    Args:
        avro: The type as written.
        wanted: The struct to make.
        fields: For each written field, the name in the struct, whether that one is wanted, and the reader. Made of the
            type by default.
        defaults: The values of fields that are not written: an array of one element each; null for the others.
    """

    def __init__(
        self,
        avro: AvroType,
        wanted: pa.StructType,
        fields: Sequence[tuple[str, bool, Reader]] | None = None,
        defaults: Mapping[str, pa.Array] | None = None,
    ) -> None:
        super().__init__(avro, wanted)
        self._defaults = defaults or {}
        self._fields = self._fields_by_name(avro, wanted) if fields is None else list(fields)

    @staticmethod
    def _fields_by_name(avro: AvroType, wanted: pa.StructType) -> list[tuple[str, bool, Reader]]:
        types = {field.name: field.type for field in wanted}
        if len(types) != wanted.num_fields:
            raise HoodieSchemaException(f"The record {avro.path or 'at the top'!r} is wanted with a field twice.")
        return [
            (name, name in types, reader_of(node, types.get(name, node.arrow_type)))
            for name, node in zip(avro.names, avro.inner, strict=True)
        ]

    def columns(self, cursors: Cursors, is_wanted: bool) -> list[pa.Array] | None:
        """The wanted fields, see `read`."""
        found = {}
        for name, field_wanted, reader in self._fields:
            column = reader.read(cursors, is_wanted and field_wanted)
            if field_wanted:
                found[name] = column
        if not is_wanted or cursors.content.is_torn:
            return None
        return [
            found[field.name] if field.name in found else self._missing(field, len(cursors)) for field in self.wanted
        ]

    def _missing(self, field: pa.Field, count: int) -> pa.Array:
        default = self._defaults.get(field.name)
        if default is None:
            return pa.nulls(count, field.type)
        return default.take(numbers_of(np.zeros(count, np.int32), pa.int32()))

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        columns = self.columns(cursors, is_wanted)
        return None if columns is None else structs_of(columns, self.wanted, len(cursors))

    def step(self, data: memoryview, position: int, end: int) -> int:
        for _, _, reader in self._fields:
            position = reader.step(data, position, end)
        return position


class ArrayReader(Reader):
    """Reads arrays as lists.

    The items of all arrays are found first, then read like the values of a column.

    Args:
        avro: The type as written.
        wanted: The Arrow type to make.
        item: The reader of an item, or of a pair of key and value of a map; made of the type by default.
    """

    def __init__(self, avro: AvroType, wanted: pa.ListType, item: Reader | None = None) -> None:
        super().__init__(avro, wanted)
        written = self._item_type()
        self._least_bytes, self._fixed_bytes, self._steps = written.least_bytes, written.fixed_bytes, written.steps
        self._item = reader_of(written, self._wanted_item()) if item is None else item

    def _item_type(self) -> AvroType:
        return self.avro.inner[0]

    def _wanted_item(self) -> pa.DataType:
        return self.wanted.value_type

    def read(self, cursors: Cursors, is_wanted: bool) -> pa.Array | None:
        starts, owners = self._find_items(cursors, is_wanted)
        if not is_wanted or cursors.content.is_torn:
            return None
        offsets = np.zeros(len(cursors) + 1, np.int32)
        np.cumsum(np.bincount(owners, minlength=len(cursors)), out=offsets[1:])
        values = self._read_items(cursors, starts, owners)
        if values is None:
            return None
        return self._joined(numbers_of(offsets, pa.int32()), values)

    def _joined(self, offsets: pa.Array, items: pa.Array) -> pa.Array:
        return pa.ListArray.from_arrays(offsets, items, type=self.wanted)

    def _read_items(self, cursors: Cursors, starts: Longs, owners: Longs) -> pa.Array | None:
        """All items; None if one is damaged. The memory of a step beside the items is bounded, however many
        there are.
        """
        parts = []
        for first in range(0, max(len(starts), 1), _ITEMS_AT_ONCE):
            some = owners[first : first + _ITEMS_AT_ONCE]
            ends, records = cursors.ends.take(some), cursors.records.take(some)
            items = Cursors(cursors.content, starts[first : first + _ITEMS_AT_ONCE].copy(), ends, records)
            parts.append(self._item.read(items, True))
        if cursors.content.is_torn:
            return None
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _find_items(self, cursors: Cursors, are_read: bool) -> tuple[Longs, Longs]:
        """The place of each item, and the number of the cursor that it belongs to; the cursors step over the arrays."""
        search = _ItemSearch(cursors)
        while len(search) >= _FEW:
            self._read_headers(search)
            search.leave_finished()
            if len(search):
                self._take_items(search)
        return search.result(self, are_read)

    def _read_headers(self, search: _ItemSearch) -> None:
        places = np.flatnonzero(search.left == 0)
        if not len(places):
            return
        run = search.run.at(places)
        wrong_end = (search.block_ends[places] >= 0) & (search.block_ends[places] != run.positions)
        if wrong_end.any():
            run.fail(wrong_end, self.path, "a block of items does not have the size that it announces")
        counts = run.number(self.path)
        search.block_ends[places] = -1
        sized = np.flatnonzero(counts < 0)
        if len(sized):
            some = run.at(sized)
            sizes = some.lengths(self.path)
            search.block_ends[places[sized]] = some.positions + sizes
            run.put(sized, some)
            # The smallest number has no opposite; it stays negative and fails below.
            counts[sized] = -counts[sized]
        bad = (counts < 0) | (counts > (run.ends - run.positions) // self._least_bytes)
        if bad.any():
            run.fail(bad, self.path, "there are more items announced than the record has room for")
        counts[run.positions >= search.content.size] = 0
        search.run.put(places, run)
        search.left[places] = counts

    def _take_items(self, search: _ItemSearch) -> None:
        run, remaining = search.run, search.left
        if self._fixed_bytes is not None:
            within = np.arange(remaining.sum()) - np.repeat(np.cumsum(remaining) - remaining, remaining)
            search.add(
                np.repeat(run.positions, remaining) + within * self._fixed_bytes, np.repeat(search.owners, remaining)
            )
            run.positions = run.positions + remaining * self._fixed_bytes
            remaining[:] = 0
            return
        # Cursors may be moved in place.
        search.add(run.positions.copy(), search.owners)
        self._item.read(run, False)
        over = run.positions > run.ends
        if over.any():
            run.fail(over, self.path, "the record is cut short")
        remaining -= 1
        if search.content.is_torn:
            is_past_content = run.positions >= search.content.size
            remaining[is_past_content] = 0
            search.block_ends[is_past_content] = -1

    def step(self, data: memoryview, position: int, end: int) -> int:
        return self.step_over_items(data, position, end, 0, -1, None, are_read=False)

    def step_over_items(
        self,
        data: memoryview,
        position: int,
        end: int,
        left: int,
        block_end: int,
        starts: compact_list[int] | None,
        *,
        are_read: bool,
    ) -> int:
        """The end of an array.

        Args:
            data: The content.
            position: The offset between two items, or the beginning.
            end: The end of the record.
            left: The number of items in the current block that follow.
            block_end: The end that the block announces, or -1.
            starts: Gets the place of each item.
            are_read: Whether the items are read afterwards, which finds damaged ones.

        Raises:
            BadValueError: It is not an array.
        """
        step, fixed = self._item.step, self._fixed_bytes
        while True:
            if fixed is not None:
                if starts is not None:
                    starts.extend(range(position, position + left * fixed, fixed))
                position += left * fixed
            elif are_read and self._steps is not None:
                position = _step_over(data, position, end, left, self._steps, starts)
            else:
                for _ in range(left):
                    if starts is not None:
                        starts.append(position)
                    position = step(data, position, end)
                    if position > end:
                        raise BadValueError("the record is cut short")
            if block_end >= 0 and position != block_end:
                raise BadValueError("a block of items does not have the size that it announces")
            left, position = step_over_number(data, position, end)
            if not left:
                return position
            block_end = -1
            if left < 0:
                left = -left
                size, position = step_over_number(data, position, end)
                block_end = position + size
                if not 0 <= size <= end - position:
                    raise BadValueError("a length is negative, or greater than what is left of the record")
            if left > (end - position) // self._least_bytes:
                raise BadValueError("there are more items announced than the record has room for")


def _step_over(
    data: memoryview, position: int, end: int, count: int, steps: tuple[int, ...], starts: compact_list[int] | None
) -> int:
    """The end of items. Their values are checked later, when they are read.

    Args:
        data: The content.
        position: The first item.
        end: The end of the record.
        count: The number of items.
        steps: See `AvroType.steps`.
        starts: Gets the place of each item.

    Raises:
        BadValueError: The items go beyond their record.
    """
    for _ in range(count):
        if starts is not None:
            starts.append(position)
        for step in steps:
            if step >= 0:
                position += step
                continue
            start = position
            while position < end and data[position] > 0x7F:
                position += 1
            position += 1
            if step == SPAN:
                if position == start + 1 and start < end:
                    length = data[start]
                    position += length >> 1
                    if length & 1:
                        raise BadValueError("a length is negative, or greater than what is left of the record")
                else:
                    position = step_over_length(data, start, end)
        if position > end:
            raise BadValueError("the record is cut short")
    return position


class _ItemSearch:
    """Cursors that step through their arrays at the same time, one item each."""

    def __init__(self, cursors: Cursors) -> None:
        self.cursors = cursors
        self.content: Content = cursors.content
        self.owners: Longs = np.arange(len(cursors))
        self.run = cursors.at(self.owners)
        self.left: Longs = np.zeros(len(cursors), np.int64)
        self.block_ends: Longs = np.full(len(cursors), -1, np.int64)
        self._starts: list[Longs] = []
        self._owners: list[Longs] = []

    def __len__(self) -> int:
        return len(self.owners)

    def add(self, starts: Longs, owners: Longs) -> None:
        """Remember items."""
        self._starts.append(starts)
        self._owners.append(owners)

    def leave_finished(self) -> None:
        """Drop the cursors without items left."""
        is_left = self.left > 0
        if is_left.all():
            return
        places, done = np.flatnonzero(is_left), np.flatnonzero(~is_left)
        self.cursors.put(self.owners[done], self.run.at(done))
        self.run = self.run.at(places)
        self.owners, self.left, self.block_ends = self.owners[places], self.left[places], self.block_ends[places]

    def result(self, reader: ArrayReader, are_read: bool) -> tuple[Longs, Longs]:
        """All items, after a walk through the few arrays that are left."""
        data = self.content.bytes.data
        self.cursors.put(self.owners, self.run)
        for place, owner in enumerate(self.owners.tolist()):
            starts: compact_list[int] = compact_list("q")
            position, end = int(self.run.positions[place]), int(self.run.ends[place])
            if position >= self.content.size and end > self.content.size:
                continue
            try:
                self.cursors.positions[owner] = reader.step_over_items(
                    data, position, end, int(self.left[place]), int(self.block_ends[place]), starts, are_read=are_read
                )
            except BadValueError as error:
                bad = np.zeros(len(self.cursors), np.bool_)
                bad[owner] = True
                self.cursors.fail(bad, reader.path, str(error))
                continue
            self.add(np.frombuffer(starts, np.int64), np.full(len(starts), owner, np.int64))
        if not self._starts:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        if len(self._starts) == 1:
            return self._starts[0], self._owners[0]
        starts_of, owners = np.concatenate(self._starts), np.concatenate(self._owners)
        order = np.argsort(owners, kind="stable")
        return starts_of[order], owners[order]


class MapReader(ArrayReader):
    """Reads maps; their items are pairs of a key and a value."""

    def _item_type(self) -> AvroType:
        key = AvroType("string", pa.string(), f"{self.path}.key")
        names = (self.wanted.key_field.name, self.wanted.item_field.name)
        return AvroType("record", self._wanted_item(), self.path, names=names, inner=(key, self.avro.inner[0]))

    def _wanted_item(self) -> pa.DataType:
        return pa.struct([self.wanted.key_field, self.wanted.item_field])

    def _joined(self, offsets: pa.Array, items: pa.Array) -> pa.Array:
        return pa.MapArray.from_arrays(offsets, *items.flatten(), type=self.wanted)
