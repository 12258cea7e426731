"""Parts of keys: they tell rows apart whose keys of several fields are the same text.

A key joins its fields as ``a:x,b:y``. It is not unique for all values; neither is it in Hudi:

    a          b          key
    x,b:y      z          a:x,b:y,b:z
    x          y,b:z      a:x,b:y,b:z
    null       1          a:__null__,b:1
    __null__   1          a:__null__,b:1
    ""         1          a:__empty__,b:1
    __empty__  1          a:__empty__,b:1

In each such pair, one row at least has a value that can be read in two ways: one with a comma, the name of another
field and a colon, or one that is a placeholder. The *parts* of such a row are its values as text; all other rows have
null for parts. Two rows with one key have the same values exactly if they have the same parts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import column_at, type_at
from hoodie.common.model.record_columns import KEY_PARTS, RECORD_KEY
from hoodie.common.util.shown_value import short_text
from hoodie.exception import HoodieKeyException

EMPTY_PLACEHOLDER = "__empty__"
NULL_PLACEHOLDER = "__null__"


def may_be_ambiguous(schema: pa.Schema, fields: Sequence[str]) -> bool:
    """Whether rows with different values may have one key: it has several fields, and strings among them.

    Args:
        schema: The columns.
        fields: The fields of the record key.
    """
    return len(fields) > 1 and any(_is_string(type_at(schema, field)) for field in fields)


def key_parts(rows: pa.RecordBatch, fields: Sequence[str]) -> pa.StringArray:
    """The parts of each row's key; see the module docstring.

    Args:
        rows: With the fields of the record key.
        fields: These fields, in the order of the key.
    """
    columns = {field: column_at(rows, field) for field in fields}
    ambiguous = np.zeros(rows.num_rows, np.bool_)
    for column in columns.values():
        if column is not None and _is_string(column.type):
            ambiguous |= _can_be_read_in_two_ways(column, fields[1:])
    places = np.flatnonzero(ambiguous)
    if not len(places):
        return pa.nulls(rows.num_rows, pa.string())
    values = {
        field: pa.nulls(len(places)) if column is None else column.take(pa.array(places))
        for field, column in columns.items()
    }
    texts = [", ".join(f"{field} = {value!r}" for field, value in row.items()) for row in pa.table(values).to_pylist()]
    indices = np.full(rows.num_rows, -1)
    indices[places] = np.arange(len(places))
    return pa.array(texts, pa.string()).take(pa.array(indices, mask=indices < 0))


def refuse_other_parts(keys: pa.Array, one: pa.Array, other: pa.Array, others: str) -> None:
    """Refuse pairs of rows that have the same key and different values in its fields.

    Args:
        keys: The key of each pair.
        one: The parts of a row of the input.
        other: The parts of the other row.
        others: A name of the other row: "a stored one".

    Raises:
        HoodieKeyException: There is such a pair.
    """
    if one.null_count == len(one) and other.null_count == len(other):
        return
    same = pc.equal(one, other).fill_null(False)
    differs = pc.and_not(pc.invert(same), pc.and_(one.is_null(), other.is_null()))
    if not pc.any(differs).as_py():
        return
    first = differs.index(True).as_py()
    shown = (
        f"{short_text(keys[first].as_py())!r}: {_described(one[first].as_py())} and {_described(other[first].as_py())}"
    )
    raise HoodieKeyException(
        f"{pc.sum(differs).as_py()} rows of the input have the same key as {others} with other values, the first "
        f"{shown}. Such a key is ambiguous: one of the rows would replace the other, in Hudi too. Values of key fields "
        "that contain a comma, the name of another field and a colon, or that are "
        f"'{NULL_PLACEHOLDER}' or '{EMPTY_PLACEHOLDER}', do that: write them in another way"
    )


def refuse_ambiguous_rows(rows: pa.Table, keys: npt.NDArray[np.int64]) -> None:
    """Refuse rows of one input that have the same key and different values in its fields.

    Args:
        rows: With record key; with parts, if keys can be ambiguous.
        keys: A number for each distinct key.

    Raises:
        HoodieKeyException: There are such rows.
    """
    if KEY_PARTS not in rows.column_names or rows[KEY_PARTS].null_count == rows.num_rows:
        return
    order = np.argsort(keys, kind="stable")
    is_same = keys[order][1:] == keys[order][:-1]
    one, other = pa.array(order[1:][is_same]), pa.array(order[:-1][is_same])
    some = rows.select([RECORD_KEY, KEY_PARTS])
    one, other = some.take(one), some.take(other)
    refuse_other_parts(
        _one_array(one[RECORD_KEY]), _one_array(one[KEY_PARTS]), _one_array(other[KEY_PARTS]), "another one"
    )


def _can_be_read_in_two_ways(column: pa.Array, later_fields: Sequence[str]) -> npt.NDArray[np.bool_]:
    values = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    found = pc.or_(pc.equal(values, NULL_PLACEHOLDER), pc.equal(values, EMPTY_PLACEHOLDER))
    has_comma = pc.match_substring(values, ",")
    if pc.any(has_comma).as_py():
        for field in later_fields:
            found = pc.or_(found, pc.match_substring(values, f",{field}:"))
    flags: npt.NDArray[np.bool_] = found.fill_null(False).to_numpy(zero_copy_only=False)
    return flags


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def _is_string(data_type: pa.DataType | None) -> bool:
    if data_type is not None and pa.types.is_dictionary(data_type):
        data_type = data_type.value_type
    return data_type is not None and bool(pa.types.is_string(data_type))


def _described(parts: str | None) -> str:
    return f"({short_text(parts)})" if parts is not None else "a row with a null or an empty text there"
