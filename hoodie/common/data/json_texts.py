"""JSON texts of Arrow values, without a Python object per value except for bytes and for texts that need escapes.

One fixed form::

    struct         {"id":"k1","tags":["a",null]}: no blanks, all fields in their order, nulls too
    map            {"a":1}: keys as texts
    integers       numbers
    floats         numbers in their shortest form, always with a fraction or an exponent; "NaN", "Infinity", "-Infinity"
    decimals       texts with all digits of the scale, "2.50"
    dates          days since 1970; times and timestamps: units since midnight and 1970, in the unit of the type
    binary         texts in Base64
    texts          with escapes for quotes, backslashes and control characters only

Hudi: org.apache.hudi.cdc.InternalRowToJsonStringConverter. Differs: no value is lost.
"""

from __future__ import annotations

import base64
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.util.arrow_buffers import numbers_in

_NULL = "null"
_ESCAPED = '["\\\\\\x00-\\x1f]'


def json_texts(values: pa.Array) -> pa.StringArray:
    """A JSON text for each value; the text ``null`` for a null.

    Args:
        values: Values of any type that tables store.
    """
    data_type = values.type
    if pa.types.is_null(data_type):
        return pa.repeat(pa.scalar(_NULL), len(values))
    if pa.types.is_dictionary(data_type):
        return json_texts(values.dictionary_decode())
    if pa.types.is_struct(data_type):
        names = [field.name for field in data_type]
        columns = values.flatten() if values.null_count else [values.field(i) for i in range(len(names))]
        texts = _objects(names, columns, len(values))
    elif pa.types.is_map(data_type) or pa.types.is_list(data_type) or pa.types.is_large_list(data_type):
        places = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        order = np.zeros(len(values), dtype=np.int64)
        order[places] = np.arange(len(places))
        found = _lists(values.take(pa.array(places))) if len(places) else pa.array([""])
        texts = found.take(pa.array(order))
    else:
        texts = _scalars(values)
    return pc.fill_null(pc.if_else(values.is_valid(), texts, pa.scalar(None, pa.string())), _NULL)


def _objects(names: list[str], columns: list[pa.Array], count: int) -> pa.Array:
    if not names:
        return pa.repeat(pa.scalar("{}"), count)
    parts: list[pa.Array | str] = []
    for number, (name, column) in enumerate(zip(names, columns, strict=True)):
        parts += [f"{'{' if number == 0 else ','}{json.dumps(name, ensure_ascii=False)}:", json_texts(column)]
    return pc.binary_join_element_wise(*parts, "}", "")


def _maps(values: pa.MapArray, first: int, end: int) -> pa.Array:
    keys, items = (part.slice(first, end - first) for part in (values.keys, values.items))
    texts = json_texts(keys)
    if not pa.types.is_string(keys.type):
        texts = pc.if_else(pc.starts_with(texts, '"'), texts, pc.binary_join_element_wise('"', texts, '"', ""))
    return pc.binary_join_element_wise(texts, ":", json_texts(items), "")


def _lists(values: pa.Array) -> pa.Array:
    """The texts of lists or maps, none of them null."""
    is_map = pa.types.is_map(values.type)
    offsets = numbers_in(values.offsets.cast(pa.int64()), np.int64)
    first, end = int(offsets[0]), int(offsets[-1])
    texts = _maps(values, first, end) if is_map else json_texts(values.values.slice(first, end - first))
    lists = pa.ListArray.from_arrays(pa.array((offsets - first).astype(np.int32)), texts)
    opening, closing = "{}" if is_map else "[]"
    return pc.binary_join_element_wise(opening, pc.binary_join(lists, ","), closing, "")


def _scalars(values: pa.Array) -> pa.Array:
    data_type = values.type
    if pa.types.is_boolean(data_type) or pa.types.is_integer(data_type):
        return values.cast(pa.string())
    if pa.types.is_floating(data_type):
        return _floats(values)
    if pa.types.is_decimal(data_type):
        return pc.binary_join_element_wise('"', values.cast(pa.string()), '"', "")
    if pa.types.is_date32(data_type) or pa.types.is_time32(data_type):
        return values.cast(pa.int32()).cast(pa.string())
    if pa.types.is_temporal(data_type):
        return values.cast(pa.int64()).cast(pa.string())
    if pa.types.is_binary(data_type) or pa.types.is_fixed_size_binary(data_type) or pa.types.is_large_binary(data_type):
        encoded = [None if value is None else base64.b64encode(value).decode() for value in values.to_pylist()]
        return pc.binary_join_element_wise('"', pa.array(encoded, pa.string()), '"', "")
    return _texts(values.cast(pa.string()))


def _floats(values: pa.Array) -> pa.Array:
    numbers = values.cast(pa.float32()) if pa.types.is_float16(values.type) else values
    texts = pc.replace_substring_regex(numbers.cast(pa.string()), r"^(-?\d+)$", r"\1.0")
    texts = pc.if_else(pc.is_nan(numbers), '"NaN"', texts)
    infinite = pc.if_else(pc.greater(numbers, 0), '"Infinity"', '"-Infinity"')
    return pc.if_else(pc.is_inf(numbers), infinite, texts)


def _texts(values: pa.Array) -> pa.Array:
    needs_escapes = pc.fill_null(pc.match_substring_regex(values, _ESCAPED), False)
    if pc.any(needs_escapes).as_py():
        rows = values.filter(needs_escapes).to_pylist()
        escaped = pa.array([json.dumps(row, ensure_ascii=False)[1:-1] for row in rows], pa.string())
        values = pc.replace_with_mask(values, needs_escapes, escaped)
    return pc.binary_join_element_wise('"', values, '"', "")
