"""Merge rows of one key field by field, on whole columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.field_path import name_in_any_case
from hoodie.common.model.record_columns import IS_DELETED_FIELD, user_column_names
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieSchemaException
from hoodie.merge.ordering_values import one_array
from hoodie.merge.payload_rules import BINLOG_POSITION, LOG_SEQUENCE_NUMBER

IsEmpty = Callable[[pa.Array, str], "npt.NDArray[np.bool_]"]
"""Takes a column and its name; returns true for values that give way to those of the other row."""

_NULL, _FALSE, _TRUE = -1, 0, 1


def empty_by_defaults(default_values: Mapping[str, object]) -> IsEmpty:
    """The rule that nulls and default values are empty.

    Args:
        default_values: For each of these columns, the value that counts as empty (None for none); in other columns null
            counts as empty.
    """
    return lambda column, name: _is_default(column, name, default_values)


def empty_by_marker(marker: str | None) -> IsEmpty:
    """The rule that a marker text for an unknown value counts as empty, in string and binary columns.

    Args:
        marker: The text; None: no value is empty.
    """
    return lambda column, name: _is_marker(column, marker)


def fill_from_stored(
    stored: pa.RecordBatch,
    incoming: pa.RecordBatch,
    stored_first: npt.NDArray[np.bool_],
    is_empty: IsEmpty,
) -> tuple[pa.RecordBatch, npt.NDArray[np.bool_]]:
    """Fill the empty fields of incoming rows with stored values; for some rows, the other way round.

    Args:
        stored: The user's columns.
        incoming: The user's columns and others, which stay as they are.
        stored_first: Rows whose stored fields stay; only their empty ones are filled with incoming values.
        is_empty: Flags of the empty fields.

    Returns:
        Rows with the columns of ``incoming``; and which of them took fields from both sides.
    """
    mixed = np.zeros(incoming.num_rows, dtype=np.bool_)
    count = incoming.num_rows
    numbers = np.arange(count)
    columns = list(incoming.columns)
    for index, name in enumerate(incoming.schema.names):
        if name not in stored.schema.names:
            continue
        old, new = stored.column(name), columns[index]
        takes_old = np.where(stored_first, ~is_empty(old, name), is_empty(new, name))
        mixed |= takes_old != stored_first
        if takes_old.any():
            both = pa.concat_arrays([old if old.type == new.type else old.cast(new.type), new])
            columns[index] = both.take(pa.array(np.where(takes_old, numbers, count + numbers)))
    return pa.RecordBatch.from_arrays(columns, schema=incoming.schema), mixed


def _is_default(column: pa.Array, name: str, default_values: Mapping[str, object]) -> npt.NDArray[np.bool_]:
    if name in default_values:
        if default_values[name] is None:
            return np.zeros(len(column), dtype=np.bool_)
        equal = pc.equal(column, pa.scalar(default_values[name], column.type))
        empty: npt.NDArray[np.bool_] = pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
        return empty
    nulls: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return nulls


def _is_marker(column: pa.Array, marker: str | None) -> npt.NDArray[np.bool_]:
    is_text = pa.types.is_string(column.type)
    if marker is None or not (is_text or pa.types.is_binary(column.type)):
        return np.zeros(len(column), dtype=np.bool_)
    equal = pc.equal(column, pa.scalar(marker if is_text else marker.encode(), column.type))
    marked: npt.NDArray[np.bool_] = pc.fill_null(equal, False).to_numpy(zero_copy_only=False)
    return marked


def boxed_defaults(default_values: Mapping[str, object], schema: pa.Schema) -> dict[str, object]:
    """The default values of columns that count as empty in tables of version 9; None for columns where none does.

    Hudi compares a value with its default by the identity of Java's objects: null, booleans and small integers are
    the same object each time, other values never are.

    Args:
        default_values: Columns with a default other than null -> the default.
        schema: The columns.
    """
    boxed = {field.name for field in schema if pa.types.is_integer(field.type) or pa.types.is_boolean(field.type)}
    return {
        name: value if name in boxed and isinstance(value, int) and -128 <= value <= 127 else None
        for name, value in default_values.items()
    }


# --- log positions of databases -----------------------------------------------------------------------------------


def binlog_wins(
    stored: pa.RecordBatch, incoming: pa.RecordBatch, competing: npt.NDArray[np.bool_], errors: dict[int, str]
) -> npt.NDArray[np.bool_]:
    """True where the stored row's MySQL binlog position is not smaller; positions are ``file.offset``, both numbers.

    A stored row without a position loses. An incoming row without a position, or with text that is not one, is an
    error.

    Args:
        stored: Rows with the column ``_event_seq``.
        incoming: Rows with the same column.
        competing: The rows to compare.
        errors: Gets the reason for each row number that cannot be merged.
    """
    old_texts, new_texts = (one_array(rows.column(BINLOG_POSITION)).cast(pa.string()) for rows in (stored, incoming))
    old_file, old_offset, old_bad = _positions(old_texts)
    new_file, new_offset, new_bad = _positions(new_texts)
    old_missing, new_missing = old_texts.is_null().to_numpy(False), new_texts.is_null().to_numpy(False)
    for number in np.flatnonzero(competing & (new_missing | new_bad | old_bad)):
        text = (old_texts if old_bad[number] else new_texts)[int(number)].as_py()
        side = "stored" if old_bad[number] else "incoming"
        problem = "is null" if text is None else f"is {short_repr(text)}, not the numbers 'file.offset'"
        errors[int(number)] = f"{BINLOG_POSITION} of the {side} record {problem}"
    smaller = (new_file < old_file) | ((new_file == old_file) & (new_offset <= old_offset))
    wins: npt.NDArray[np.bool_] = smaller & ~old_missing & competing
    return wins


def _positions(texts: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """File and offset of each position (0 where there is none), and where a text is not a position."""
    good = pc.fill_null(pc.match_substring_regex(texts, r"^[0-9]{1,18}\.[0-9]{1,18}(\.|$)"), False)
    parts = pc.split_pattern(pc.if_else(good, texts, "0.0"), ".")
    numbers = [pc.list_element(parts, index).cast(pa.int64()).to_numpy(zero_copy_only=False) for index in (0, 1)]
    bad = texts.is_valid().to_numpy(zero_copy_only=False) & ~good.to_numpy(zero_copy_only=False)
    return numbers[0], numbers[1], bad


def log_sequence_wins(
    stored: pa.RecordBatch, incoming: pa.RecordBatch, competing: npt.NDArray[np.bool_], errors: dict[int, str]
) -> npt.NDArray[np.bool_]:
    """True where the stored row's PostgreSQL log sequence number is larger; see `binlog_wins` for the arguments.

    Raises:
        HoodieSchemaException: The column does not hold longs.
    """
    old, new = one_array(stored.column(LOG_SEQUENCE_NUMBER)), one_array(incoming.column(LOG_SEQUENCE_NUMBER))
    if new.type != pa.int64() or old.type != pa.int64():
        raise HoodieSchemaException(f"{LOG_SEQUENCE_NUMBER} has the type {new.type}: it must be a long")
    for number in np.flatnonzero(competing & new.is_null().to_numpy(zero_copy_only=False)):
        errors[int(number)] = f"{LOG_SEQUENCE_NUMBER} of the incoming record is null"
    larger: npt.NDArray[np.bool_] = pc.fill_null(pc.greater(old, new), False).to_numpy(zero_copy_only=False)
    return larger & competing


# --- within the input ---------------------------------------------------------------------------------------------


def combine_fields(
    rows: pa.Table, keys: npt.NDArray[np.int64], ordering: npt.NDArray[np.int64], names: Sequence[str]
) -> pa.Table:
    """Merge the rows of each key into one, as PartialUpdateAvroPayload does.

    The rows are applied in order. A row that is not older than all rows before it overwrites their values; an older row
    only fills fields that are still null::

        (1, x, null), (3, null, 7), (2, y, 8)  ->  (3, x, 7)

    A row marked as deleted replaces everything before it. An older row that comes after it replaces it in turn.

    Args:
        rows: All rows; the rows of one key are together and in their order.
        keys: The key of each row.
        ordering: The ordering value of each row.
        names: The columns to merge; other columns are taken from the last row that replaces or overwrites others.

    Returns:
        One row per key, in the order of the keys.
    """
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    flags = _flags(rows)
    begins, covers = _segments(starts, len(keys), ordering, flags)
    nothing = empty_by_defaults({})
    return _columns_combined(rows, starts, names, begins, covers, np.ones(len(keys), dtype=np.bool_), nothing)


def combine_by_mode(
    rows: pa.Table,
    keys: npt.NDArray[np.int64],
    ordering: npt.NDArray[np.int64],
    deletes: npt.NDArray[np.bool_],
    names: Sequence[str],
    is_empty: IsEmpty,
) -> pa.Table:
    """Merge the rows of each key into one, by the rules of a merge mode.

    The rows are applied in order. A row that is not older than the result so far replaces it, and fills its own empty
    fields from it. An older row only fills empty fields. A delete neither gives nor takes fields: it drops the rows
    against which it wins, and older rows after it have no effect.

    Args:
        rows: All rows; the rows of one key are together and in their order.
        keys: The key of each row.
        ordering: The ordering value of each row.
        deletes: True for rows that ask for a delete.
        names: The columns to merge; other columns are taken from the last row that won.
        is_empty: The rule which fields are empty.

    Returns:
        One row per key, in the order of the keys.
    """
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    counts = np.diff(np.append(starts, len(keys)))
    begins, covers = starts.copy(), np.zeros(len(keys), dtype=np.bool_)
    covers[starts] = True
    has_effect = np.ones(len(keys), dtype=np.bool_)
    largest, is_deleted = ordering[starts].copy(), deletes[starts].copy()
    for step in range(1, int(counts.max()) if len(counts) else 0):
        going_on = np.flatnonzero(counts > step)
        row = starts[going_on] + step
        wins = ordering[row] >= largest[going_on]
        takes_no_fields = deletes[row] | is_deleted[going_on]
        covers[row] = wins
        has_effect[row] = wins | ~takes_no_fields
        begins[going_on[wins & takes_no_fields]] = row[wins & takes_no_fields]
        largest[going_on] = np.where(wins, ordering[row], largest[going_on])
        is_deleted[going_on] = np.where(wins, deletes[row], is_deleted[going_on])
    return _columns_combined(rows, starts, names, begins, covers, has_effect, is_empty)


def _columns_combined(
    rows: pa.Table,
    starts: npt.NDArray[np.int64],
    names: Sequence[str],
    begins: npt.NDArray[np.int64],
    covers: npt.NDArray[np.bool_],
    has_effect: npt.NDArray[np.bool_],
    is_empty: IsEmpty,
) -> pa.Table:
    """One row for each key: the last one that overwrites others, with empty fields filled from the rest of its
    segment.

    Args:
        rows: All rows; the rows of one key are together and in their order.
        starts: The first row of each key.
        names: The columns to merge.
        begins: The first row of each key that counts.
        covers: True for rows that overwrite those before them.
        has_effect: True for those of the other rows that fill empty fields.
        is_empty: The rule which fields are empty.
    """
    count = rows.num_rows
    group = np.repeat(np.arange(len(starts)), np.diff(np.append(starts, count)))
    position = np.arange(count)
    in_segment = (position >= begins[group]) & has_effect
    base = np.zeros(len(starts), dtype=np.int64)
    np.maximum.at(base, group[covers & in_segment], position[covers & in_segment])
    result = rows.take(pa.array(base))
    for name in names:
        column = one_array(rows[name])
        usable = in_segment & ~is_empty(column, name)
        # The last value that overwrites, or the first that fills, or the empty one of the base row.
        rank = np.where(covers, count + position, count - 1 - position)
        best = np.full(len(starts), -1, dtype=np.int64)
        np.maximum.at(best, group[usable], rank[usable])
        chosen = np.where(best >= count, best - count, count - 1 - best)
        chosen = np.where(best < 0, base, chosen)
        index = result.schema.get_field_index(name)
        result = result.set_column(index, result.schema.field(index), column.take(pa.array(chosen)))
    return result


def _flags(rows: pa.Table) -> npt.NDArray[np.int8]:
    """``_hoodie_is_deleted`` of each row: null, false or true."""
    name = name_in_any_case(user_column_names(rows.schema), IS_DELETED_FIELD)
    if name is None or not pa.types.is_boolean(rows.schema.field(name).type):
        return np.full(rows.num_rows, _NULL, dtype=np.int8)
    flags = pc.fill_null(one_array(rows[name]).cast(pa.int8()), _NULL)
    values: npt.NDArray[np.int8] = flags.to_numpy(zero_copy_only=False)
    return values


def _segments(
    starts: npt.NDArray[np.int64], count: int, ordering: npt.NDArray[np.int64], flags: npt.NDArray[np.int8]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The first row of each key that counts, and for each row whether it overwrites the rows before it.

    All keys are processed together: first their second rows, then their third rows, and so on.
    """
    counts = np.diff(np.append(starts, count))
    begins = starts.copy()
    covers = np.zeros(count, dtype=np.bool_)
    covers[starts] = True
    largest, state = ordering[starts].copy(), flags[starts].copy()
    for step in range(1, int(counts.max()) if len(counts) else 0):
        going_on = np.flatnonzero(counts > step)
        row = starts[going_on] + step
        flag, previous_flag = flags[row], state[going_on]
        older = ordering[row] < largest[going_on]
        replaces = np.where(older, previous_flag == _TRUE, flag == _TRUE)
        covers[row] = ~older | replaces
        begins[going_on[replaces]] = row[replaces]
        largest[going_on] = np.where(older & ~replaces, largest[going_on], ordering[row])
        filled = np.where(
            older, np.where(previous_flag == _NULL, flag, previous_flag), np.where(flag == _NULL, previous_flag, flag)
        )
        state[going_on] = np.where(replaces, flag, filled)
    return begins, covers
