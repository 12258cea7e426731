"""Turn records in any Python form (frames, streams, dicts, `HoodieRecord`s) into batches of stored types."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.batch_pieces import batch_pieces
from hoodie.common.data.file_rows import batches_of_files
from hoodie.common.data.frame_values import frame_table
from hoodie.common.data.input_forms import (
    as_dict,
    collected,
    columns_by_name,
    is_file_input,
    is_lazy_frame,
    opened_files,
)
from hoodie.common.data.iso_times import is_time_of_text, parsed_columns, parsed_times, with_times
from hoodie.common.data.normalise import normalise_batch, normalise_table
from hoodie.common.data.nullability import relaxed_where_null
from hoodie.common.data.python_values import check_name, is_storable, python_values
from hoodie.common.data.stored_types import RESERVED_PREFIX, find_field, is_dropped, normalise_schema
from hoodie.common.data.unknown_columns import unknown_columns
from hoodie.common.model.record import HoodieKey, HoodieRecord, HoodieRecordLocation
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    META_COLUMN_SET,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    RECORD_KEY,
    TAGS,
)
from hoodie.common.util.arrow_buffers import array_of
from hoodie.common.util.class_loading import error_of_class
from hoodie.common.util.shown_value import short_repr, shown_value
from hoodie.exception import HoodieException, HoodieKeyException, HoodieSchemaException

_FRAME_MODULES = ("pandas", "polars")
_TAKEN = (
    "give a pyarrow Table, a pandas or polars DataFrame, a pyarrow Dataset, a list of dicts, a list of HoodieRecord, "
    "or an iterator of record batches, of DataFrames or of lists of dicts"
)


_OWN_ERROR = re.compile(r"^hoodie\.exception\.(?P<name>\w+): (?P<message>.*?)(?=^hoodie\.exception\.|\Z)", re.M | re.S)
"""The last line of a traceback of one of hoodie's errors, with the lines of its message."""


@attrs.define
class RecordSource:
    """An input whose rows are available as batches of stored types.

    Attributes:
        schema: The schema of every batch.
        table: All rows, if the input holds them in memory; else None.
        is_one_shot: Whether the batches can be read only once, because the input is an iterator or a stream.
    """

    schema: pa.Schema
    table: pa.Table | None
    is_one_shot: bool
    _open: Callable[[], Iterator[pa.RecordBatch]]
    _is_consumed: bool = attrs.field(default=False, init=False)

    @property
    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows, from the first one; each access starts again if that is possible.

        Raises:
            HoodieException: The input can be read only once, and was read before.
        """
        if self.is_one_shot and self._is_consumed:
            raise HoodieException("the input is a stream that can be read only once, and it has been read already")
        self._is_consumed = True
        return self._open()


def _is_dataset(records: Any) -> bool:
    """Whether the input is a pyarrow dataset; does not import that module, because it imports pandas."""
    dataset = sys.modules.get("pyarrow.dataset")
    return dataset is not None and isinstance(records, dataset.Dataset)


def record_batches(records: Any, schema: pa.Schema | None = None) -> RecordSource:
    """Turn records in any form that the in-process engine accepts into batches of stored types.

    ======================================================  ==========  ========================================
    input                                                   in memory   types
    ======================================================  ==========  ========================================
    pyarrow Table, RecordBatch; pandas, polars DataFrame    yes         its own
    LazyFrame of polars, by its streaming engine            yes         its own
    list of dicts, list of HoodieRecord                     yes         of ``schema``, else inferred
    list of instances of dataclasses, attrs classes or      yes         of ``schema``, else inferred
    pydantic models, or of named tuples
    dict of name to list or array                           yes         of ``schema``, else inferred; of arrays theirs
    pyarrow.dataset.Dataset                                 no          its own; can be read again
    path, glob or list of paths of CSV, JSON lines,         no          its own; can be read again. CSV: of ``schema``,
    Parquet or Arrow files                                              else inferred
    RecordBatchReader, other ``__arrow_c_stream__`` (a      no          its own; can be read once
    DuckDB relation), an iterator of batches or tables
    an iterator of DataFrames or of lists of dicts          no          those of the first item with rows
    ======================================================  ==========  ========================================

    Text in a column that has dates or times in ``schema`` is parsed, see `hoodie.common.data.iso_times`.

    The first item of an iterator that has rows determines the columns; a later one with further columns fails the
    write. Items without rows are passed over; if no item has rows, the first one with columns determines them.

    A list of `HoodieRecord` has its own keys: in addition to the columns of the data there are ``RECORD_KEY``,
    ``PARTITION_PATH`` and ``OPERATION``, and ``ORDERING_VALUE`` if any record has one (null for the others). The
    columns of the data are then nullable, because a delete has no data.

    Args:
        records: The input.
        schema: The table's schema, or that of ``hoodie.avro.schema``. It gives the types of dicts and `HoodieRecord`s,
            and of columns of Arrow input that hold only nulls.

    Raises:
        HoodieSchemaException: The input has another type, a column's type cannot be stored, or values of a column of
            dicts have no common type.
    """
    if is_lazy_frame(records):
        records = collected(records)
    elif isinstance(records, Mapping):
        records = columns_by_name(records)
    elif is_file_input(records):
        records = opened_files(records, schema)
        if not isinstance(records, pa.Table):
            return _from_stream(records.schema, partial(batches_of_files, records), schema, is_one_shot=False)
    if isinstance(records, pa.RecordBatch):
        return _from_table(pa.Table.from_batches([records]), schema)
    if isinstance(records, pa.Table):
        return _from_table(records, schema)
    if _is_dataset(records):
        return _from_stream(records.schema, records.to_batches, schema, is_one_shot=False)
    if _is_frame(records) and _gives_arrow(records):
        return _from_table(_frame_table(records, schema), schema)
    if hasattr(records, "__arrow_c_stream__"):
        reader = _reader_of(records)
        return _from_stream(reader.schema, partial(iter, reader), schema, is_one_shot=True)
    if isinstance(records, list | tuple):
        return _from_list(records, schema)
    if isinstance(records, Iterator):
        return _from_iterator(records, schema)
    raise HoodieSchemaException(f"records are {shown_value(records)}, which is not supported; {_TAKEN}")


def with_tags(records: Any, schema: pa.Schema | None = None) -> Any:
    """Rows as read from a table, with Hudi's meta columns under their reserved names (`TAGS`).

    Args:
        records: See `record_batches`; lists of `HoodieRecord` and files are returned unchanged.
        schema: See `record_batches`.
    """
    if _is_dataset(records):
        records = records.scanner().to_reader()
    if is_lazy_frame(records):
        records = collected(records)
    if isinstance(records, Mapping):
        return with_tags(columns_by_name(records), schema)
    if isinstance(records, list | tuple):
        return _tagged_dicts(records, schema)
    if isinstance(records, pa.Table | pa.RecordBatch):
        return records.rename_columns(_tagged_names(records.schema))
    if _is_frame(records) and _gives_arrow(records):
        return with_tags(_frame_table(records))
    if hasattr(records, "__arrow_c_stream__"):
        reader = _reader_of(records)
        names = _tagged_names(reader.schema)
        schema = pa.schema([f.with_name(name) for f, name in zip(reader.schema, names, strict=True)])
        return pa.RecordBatchReader.from_batches(schema, (batch.rename_columns(names) for batch in reader))
    if isinstance(records, Iterator):
        return (with_tags(item, schema) for item in records)
    return records


def _is_frame(records: Any) -> bool:
    """Whether the object is a pandas or polars DataFrame, which holds all rows in memory."""
    return type(records).__module__.partition(".")[0] in _FRAME_MODULES


def _gives_arrow(frame: Any) -> bool:
    """Whether an object of pandas or polars is a stream of Arrow, or has a method for it as polars before 1.3 has."""
    return hasattr(frame, "__arrow_c_stream__") or hasattr(frame, "to_arrow")


def _frame_table(frame: Any, schema: pa.Schema | None = None) -> pa.Table:
    """Convert a pandas or polars DataFrame to a table.

    Raises:
        HoodieSchemaException: It is a single column, has duplicate column names, or see `frame_table`.
    """
    if len(getattr(frame, "shape", (0, 0))) != 2:
        raise HoodieSchemaException(f"records are {shown_value(frame)}, a column without a name; {_TAKEN}")
    names = list(frame.columns)
    if twins := sorted({str(name) for name in names if names.count(name) > 1}):
        raise HoodieSchemaException(
            f"the DataFrame has several columns of the name {', '.join(map(repr, twins))}: rename them, or drop all "
            "but one"
        )
    return frame_table(frame, schema)


def _reader_of(stream: Any) -> pa.RecordBatchReader:
    if isinstance(stream, pa.RecordBatchReader):
        # Errors of a reader's Python code keep their class; after the C stream they would be OSErrors.
        return stream
    try:
        reader = pa.RecordBatchReader.from_stream(stream)
    except pa.ArrowInvalid as error:
        raise HoodieSchemaException(
            f"records are {shown_value(stream)}, whose Arrow stream has no columns ({error}); {_TAKEN}"
        ) from error
    return pa.RecordBatchReader.from_batches(reader.schema, _with_own_errors(reader))


def _with_own_errors(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    """The batches of a C stream. If Arrow reports an error of hoodie as text, it is raised with its own class
    again.
    """
    try:
        yield from reader
    except (pa.ArrowException, OSError) as error:
        found = list(_OWN_ERROR.finditer(str(error)))
        if not found:
            raise
        raise error_of_class(found[-1]["name"], found[-1]["message"].rstrip("\n")) from error


def _tagged_dicts(rows: Sequence[Any], schema: pa.Schema | None) -> Any:
    """Dicts with meta columns as a table; any other list as it is."""
    if not all(isinstance(row, Mapping) for row in rows):
        return rows
    tags = [name for name in TAGS if any(name in row for row in rows)]
    if not tags:
        return rows
    others = [{name: value for name, value in row.items() if name not in META_COLUMN_SET} for row in rows]
    table = record_batches(others, schema).table if any(others) else None
    columns = {} if table is None else dict(zip(table.column_names, table.columns, strict=True))
    return pa.table(columns | {TAGS[name]: pa.array([row.get(name) for row in rows], pa.string()) for name in tags})


def _tagged_names(schema: pa.Schema) -> list[str]:
    return [TAGS.get(name, name) for name in schema.names]


def _from_table(table: pa.Table, schema: pa.Schema | None) -> RecordSource:
    table = parsed_columns(table, with_times(table.schema, schema))
    table = normalise_table(table, normalise_schema(table.schema, schema))
    return RecordSource(table.schema, table, False, lambda: iter(table.to_batches()))


def _from_stream(
    stream_schema: pa.Schema,
    open_batches: Callable[[], Iterator[pa.RecordBatch]],
    schema: pa.Schema | None,
    is_one_shot: bool,
) -> RecordSource:
    parsed = with_times(stream_schema, schema)
    target = normalise_schema(parsed, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in open_batches():
            own = parsed if batch.schema == stream_schema else with_times(batch.schema, schema)
            for piece in batch_pieces(parsed_columns(batch, own)):
                yield normalise_batch(piece, target)

    return RecordSource(target, None, is_one_shot, batches)


def _from_iterator(iterator: Iterator[Any], schema: pa.Schema | None) -> RecordSource:
    items = enumerate(iterator)
    number, first = _first_item(items)
    if first is None:
        if schema is None:
            raise HoodieSchemaException("the iterator of record batches is empty, so its columns are unknown")
        return _from_table(schema.empty_table(), schema)
    begin = _item_rows(first, number, schema)
    columns: pa.Schema = begin.schema
    known = normalise_schema(columns, schema)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from begin.to_batches() if isinstance(begin, pa.Table) else [begin]
        for number, item in items:
            if _is_empty(item):
                continue
            rows = _item_rows(item, number, known)
            if rows.schema != columns:
                _check_columns(rows.schema, columns, number)
            if isinstance(item, list | tuple):
                # A key that no dict of the list has is null in all of them.
                rows = normalise_table(rows, known, fill_missing=True)
            yield from rows.to_batches() if isinstance(rows, pa.Table) else [rows]

    return _from_stream(columns, batches, schema, is_one_shot=True)


def _first_item(items: Iterator[tuple[int, Any]]) -> tuple[int, Any]:
    """The first item with rows, and its number; without one, the first item with columns, or None."""
    empty = 0, None
    for number, item in items:
        if not _is_empty(item):
            return number, item
        if empty[1] is None and not isinstance(item, list | tuple):
            empty = number, item
    return empty


def _is_empty(item: Any) -> bool:
    """Whether an item of an iterator has no rows, and so decides no types."""
    if isinstance(item, pa.RecordBatch | pa.Table):
        return bool(item.num_rows == 0)
    if _is_frame(item):
        shape: tuple[int, ...] = getattr(item, "shape", ())
        return len(shape) == 2 and shape[0] == 0
    return isinstance(item, list | tuple) and not item


def _are_rows(item: Any) -> bool:
    is_list = isinstance(item, list | tuple) and all(as_dict(row) is not None for row in item)
    return isinstance(item, pa.RecordBatch | pa.Table) or is_list or _is_frame(item)


def _item_rows(item: Any, number: int, schema: pa.Schema | None) -> pa.Table | pa.RecordBatch:
    """The rows of an item of an iterator; the schema gives the types of values without types."""
    if isinstance(item, pa.RecordBatch | pa.Table):
        return item
    if _is_frame(item):
        return _frame_table(item, schema)
    if _are_rows(item):
        return _dicts_table([as_dict(row) for row in item], schema)
    raise HoodieSchemaException(
        f"item {number} of the iterator is {shown_value(item)}: give pyarrow RecordBatches or Tables, DataFrames of "
        "pandas or polars, or lists of dicts; for HoodieRecords give one list"
    )


def _check_columns(schema: pa.Schema, columns: pa.Schema, number: int) -> None:
    """Refuse columns that the first item of an iterator does not have: they would be left out."""
    unknown = unknown_columns(columns, schema)
    if unknown:
        names = ", ".join(repr(column.path) for column in unknown)
        raise HoodieSchemaException(
            f"item {number} of the iterator has columns that its first item does not have: {names}. The first item "
            "with rows determines the columns: give all items the same ones, with nulls where an item has no values"
        )


def _from_list(records: Sequence[Any], schema: pa.Schema | None) -> RecordSource:
    if not records:
        if schema is None:
            raise HoodieSchemaException("the list of records is empty, so its columns are unknown")
        return _from_table(schema.empty_table(), schema)
    if all(isinstance(record, HoodieRecord) for record in records):
        return _from_table(_hoodie_records_table(records, schema), schema)
    dicts = [as_dict(record) for record in records]
    if None not in dicts:
        return _from_table(_dicts_table(dicts, schema), schema)
    if all(map(_are_rows, records)):
        return _from_iterator(iter(records), schema)
    kinds = sorted({type(record).__qualname__ for record in records})
    raise HoodieSchemaException(
        f"a list of records holds {', '.join(kinds)}; give only dicts, or only HoodieRecords, or only record batches"
    )


def _hoodie_records_table(records: Sequence[HoodieRecord], schema: pa.Schema | None) -> pa.Table:
    for number, record in enumerate(records):
        _check_hoodie_record(record, number)
    data = _dicts_table([{} if record.data is None else record.data for record in records], schema, all_nullable=True)
    record_keys, partition_paths = key_arrays([record.key for record in records])
    record_keys = pc.if_else(pc.equal(record_keys, ""), pa.scalar(None, pa.string()), record_keys)
    table = data.append_column(pa.field(RECORD_KEY, pa.string()), record_keys)
    table = table.append_column(pa.field(PARTITION_PATH, pa.string()), partition_paths)
    ordering = [record.ordering_value for record in records]
    if any(value is not None for value in ordering):
        table = table.append_column(ORDERING_VALUE, python_values(ordering, "ordering_value"))
    operations = pa.array([int(record.operation) for record in records], pa.int8())
    table = table.append_column(pa.field(OPERATION, pa.int8()), operations)
    places = [record.current_location for record in records]
    if any(place is not None for place in places):
        instants = pa.array([None if place is None else place.instant_time for place in places], pa.string())
        file_ids = pa.array([None if place is None else place.file_id for place in places], pa.string())
        table = table.append_column(CURRENT_INSTANT_TIME, instants).append_column(CURRENT_FILE_ID, file_ids)
    return table


def _check_hoodie_record(record: HoodieRecord, number: int) -> None:
    problem = None
    if not isinstance(record.key, HoodieKey):
        problem = f"key is {shown_value(record.key)}: give a HoodieKey"
    elif not isinstance(record.data, Mapping | None):
        problem = f"data is {shown_value(record.data)}: give a dict of column name to value, {{}} for a delete"
    elif not isinstance(record.current_location, HoodieRecordLocation | None):
        problem = f"current_location is {shown_value(record.current_location)}: give a HoodieRecordLocation, or None"
    if problem is not None:
        raise HoodieSchemaException(f"record {number} is a HoodieRecord whose {problem}")


def key_arrays(keys: Sequence[HoodieKey]) -> tuple[pa.Array, pa.Array]:
    """Record keys and partition paths, as strings.

    Raises:
        HoodieKeyException: A key is not text, or no text that UTF-8 can hold.
    """
    try:
        return (
            array_of([key.record_key for key in keys], pa.string()),
            array_of([key.partition_path for key in keys], pa.string()),
        )
    except UnicodeError as error:
        parts = chain.from_iterable((key.record_key, key.partition_path) for key in keys)
        found = next(part for part in parts if isinstance(part, str) and not is_storable(part))
        raise HoodieKeyException(
            f"the key or partition path {short_repr(found)} is no text that UTF-8 can hold"
        ) from error
    except (pa.ArrowException, TypeError) as error:
        wrong = next(
            (key for key in keys if not all(isinstance(part, str | None) for part in attrs.astuple(key))), None
        )
        raise HoodieKeyException(
            f"the key {wrong} cannot be stored: record_key and partition_path must be text"
        ) from error


def _are_times_of_text(values: Sequence[Any], known: pa.DataType) -> bool:
    """Whether values are text, and the column has dates or times."""
    return is_time_of_text(pa.string(), known) and {type(value) for value in values} - {type(None)} == {str}


def _dicts_table(dicts: Sequence[Any], schema: pa.Schema | None, all_nullable: bool = False) -> pa.Table:
    names = dict.fromkeys(name for item in dicts for name in item)
    for name in names:
        if not isinstance(name, str):
            raise HoodieSchemaException(
                f"the key {short_repr(name)} of a dict is not a column name: it must be a string"
            )
        check_name(name)
    names = {name: None for name in names if not is_dropped(name)}
    for name in names:
        if name.startswith(RESERVED_PREFIX):
            raise HoodieSchemaException(f"column '{name}': names beginning with '{RESERVED_PREFIX}' are hoodie's own")
    known = {name: field for name in names if (field := find_field(schema or (), name)) is not None}
    order = {field.name: number for number, field in enumerate(schema or ())}
    fields, columns = [], []
    for name in sorted(names, key=lambda name: order[known[name].name] if name in known else len(order)):
        values = [item.get(name) for item in dicts]
        if name in known and _are_times_of_text(values, known[name].type):
            values = parsed_times(pa.array(values, pa.string()), known[name].type, name).to_pylist()
        column = python_values(values, name, known[name].type if name in known else None)
        relaxed = relaxed_where_null(column)
        if relaxed != column.type:
            column = python_values(values, name, relaxed)
        nullable = all_nullable or name not in known or known[name].nullable or column.null_count > 0
        fields.append(pa.field(name, column.type, nullable))
        columns.append(column)
    if not columns:
        # Only deletes, without data: the same number of rows, with the columns that are known.
        known_fields = [field.with_nullable(True) for field in schema or ()]
        nulls = pa.table(
            [pa.nulls(len(dicts)), *(pa.nulls(len(dicts), field.type) for field in known_fields)],
            pa.schema([pa.field("", pa.null()), *known_fields]),
        )
        return nulls.select([field.name for field in known_fields])
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))
