"""Rows of the change events of Debezium: a flat row of each event, as Hudi's payloads of Debezium merge them.

    {"op": "u", "ts_ms": 5, "before": {...}, "after": {"id": 1, "a": "x"}, "source": {"name": "s", "lsn": 7, ...}}

    _change_operation_type  _upstream_event_processed_ts_ms  db_shard_source_partition  ...  _event_lsn  id  a
    u                       5                                s                               7           1   x

Creations, updates and rows of a snapshot (c, u, r) give the row after the change, deletes (d) the row before it.
Messages of the log (m) give no row. An event that tells no row is an error: a delete of a table whose replica identity
has no columns (PostgreSQL), a truncation (t), an unknown operation.

Hudi makes rows of nulls of events without a row and of tombstones, and puts deletes behind all other events; here the
former are errors, tombstones give nothing, and events stay in their order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieSchemaProviderException
from hoodie.utilities.ingestion.error_event import ErrorReason, error_batch
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.source import DecodedBatch

OPERATION: Final = "_change_operation_type"
"""The column with the operation: c, u, r or d."""
SEQUENCE: Final = "_event_seq"
"""The column with the position in MySQL's binlog, ``000012.345``."""
IS_DELETED: Final = "_hoodie_is_deleted"
_DELETE = "d"
_LOG_MESSAGE = "m"
_ROW_OPERATIONS = ("c", "u", "r", "d")
_WORDS = {"t": "a truncation, which is not applied"}


@attrs.frozen
class DebeziumColumns:
    """The columns that a database adds to its rows.

    Attributes:
        of_source: Names in ``source`` of an event -> the column and its type, in their order.
        has_sequence: Whether the position in a binlog is added.
    """

    of_source: Mapping[str, tuple[str, pa.DataType]]
    has_sequence: bool = False

    @property
    def source_type(self) -> pa.StructType:
        """The type of ``source``, as far as it is read."""
        return pa.struct([pa.field(name, kind) for name, (_, kind) in self.of_source.items()])


POSTGRES: Final = DebeziumColumns(
    {
        "name": ("db_shard_source_partition", pa.string()),
        "schema": ("db_schema_source_partition", pa.string()),
        "ts_ms": ("_event_origin_ts_ms", pa.int64()),
        "txId": ("_event_tx_id", pa.int64()),
        "lsn": ("_event_lsn", pa.int64()),
        "xmin": ("_event_xmin", pa.int64()),
    }
)
"""The columns of PostgreSQL."""
MYSQL: Final = DebeziumColumns(
    {
        "name": ("db_shard_source_partition", pa.string()),
        "ts_ms": ("_event_origin_ts_ms", pa.int64()),
        "file": ("_event_bin_file", pa.string()),
        "pos": ("_event_pos", pa.int64()),
        "row": ("_event_row", pa.int32()),
    },
    has_sequence=True,
)
"""The columns of MySQL."""
_OF_EVENT: Final = {"op": (OPERATION, pa.string()), "ts_ms": ("_upstream_event_processed_ts_ms", pa.int64())}


@attrs.frozen
class DebeziumDecoder(MessageDecoder):
    """Makes flat rows of what another decoder makes of the events. Picklable if that one is.

    Attributes:
        events: The decoder of the events: with the columns ``op``, ``ts_ms``, ``source``, ``after`` and ``before``, or
            with these in a column ``payload``.
        columns: The columns of the database.
        marks_deletes: Whether ``_hoodie_is_deleted`` is added, for payloads that do not know Debezium's operations.
    """

    events: MessageDecoder
    columns: DebeziumColumns
    marks_deletes: bool = False

    @property
    def schema(self) -> pa.Schema:
        """See `MessageDecoder.schema`. Arrays of rows are texts, as Hudi writes them.

        Raises:
            HoodieSchemaProviderException: The schema is not one of events.
        """
        fields = [pa.field(name, kind) for name, kind in self._added.values()]
        fields += [pa.field(name, _stored_type(kind)) for name, kind in self._row_types().items()]
        if self.columns.has_sequence:
            fields.append(pa.field(SEQUENCE, pa.string()))
        if self.marks_deletes and IS_DELETED not in self._row_types():
            fields.append(pa.field(IS_DELETED, pa.bool_()))
        names = [field.name for field in fields]
        if twins := sorted({name for name in names if names.count(name) > 1}):
            raise HoodieSchemaProviderException(
                f"the rows of Debezium's events have the columns {', '.join(twins)}, which are added to them: leave "
                "them out by column.exclude.list of the connector"
            )
        return pa.schema(fields)

    def decode(self, messages: Messages) -> DecodedBatch:
        """See `MessageDecoder.decode`."""
        decoded = self.events.decode(messages)
        if not decoded.rows.num_rows:
            return DecodedBatch(_empty(self.schema), decoded.errors, decoded.origin)
        event = _columns_of_event(decoded.rows)
        operation = event["op"].cast(pa.string())
        is_delete = pc.fill_null(pc.equal(operation, _DELETE), False).to_numpy(zero_copy_only=False)
        problems = self._problems(event, operation, is_delete)
        columns = self._flat(event, is_delete)
        is_good = np.array([problem is None for problem in problems])
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema)
        if is_good.all():
            return DecodedBatch(rows, decoded.errors, decoded.origin)
        errors = self._errors(messages, decoded, problems)
        kept = rows.filter(pa.array(is_good))
        return DecodedBatch(kept, errors, None if decoded.origin is None else decoded.origin.filter(is_good))

    @property
    def _added(self) -> dict[str, tuple[str, pa.DataType]]:
        return {f"event.{name}": column for name, column in _OF_EVENT.items()} | dict(self.columns.of_source)

    def _row_types(self) -> dict[str, pa.DataType]:
        event = _types_of_event(self.events.schema)
        types: dict[str, pa.DataType] = {}
        for name in ("after", "before"):
            kind = event.get(name, pa.null())
            if pa.types.is_struct(kind):
                types |= {field.name: field.type for field in kind if field.name not in types}
        if not types:
            raise HoodieSchemaProviderException(
                "the schema is not one of Debezium's events: neither after nor before has columns. The schema of the "
                "subject topic-value describes events; for JSON, the messages"
            )
        return types

    def _flat(self, event: Mapping[str, pa.Array], is_delete: npt.NDArray[np.bool_]) -> list[pa.Array]:
        count = len(is_delete)
        source = event.get("source")
        columns = [_typed(event.get(name), kind, count) for name, (_, kind) in _OF_EVENT.items()]
        columns += [_typed(_child(source, name), kind, count) for name, (_, kind) in self.columns.of_source.items()]
        types = self._row_types()
        places = np.where(is_delete, np.arange(count) + count, np.arange(count))
        for name, kind in types.items():
            values = _typed(_child(event.get("after"), name), kind, count)
            if is_delete.any():
                before = _typed(_child(event.get("before"), name), kind, count)
                values = pa.concat_arrays([values, before]).take(pa.array(places))
            columns.append(_stored(values))
        if self.columns.has_sequence:
            columns.append(_sequence(_child(source, "file"), _child(source, "pos"), count))
        if self.marks_deletes and IS_DELETED not in types:
            columns.append(pa.array(is_delete))
        return columns

    def _problems(
        self, event: Mapping[str, pa.Array], operation: pa.Array, is_delete: npt.NDArray[np.bool_]
    ) -> Sequence[str | None]:
        """The reason why each event gives no row; "" for one that is passed over, None for a good one."""
        count = len(operation)
        is_known = pc.fill_null(pc.is_in(operation, pa.array(_ROW_OPERATIONS)), False).to_numpy(zero_copy_only=False)
        lacks = np.where(is_delete, _is_missing(event.get("before"), count), _is_missing(event.get("after"), count))
        lacks_position = np.zeros(count, dtype=bool)
        if self.columns.has_sequence:
            source = event.get("source")
            lacks_position = _is_no_position(_child(source, "file"), _child(source, "pos"), count)
        problems: list[str | None] = [None] * count
        for row in np.flatnonzero(~is_known | lacks | lacks_position):
            code = operation[row].as_py()
            if code == _LOG_MESSAGE:
                problems[row] = ""
            elif not is_known[row]:
                problems[row] = f"op is {code!r}: {_WORDS.get(code, 'no operation of Debezium')}"
            elif lacks[row] and is_delete[row]:
                problems[row] = (
                    "a delete without before tells no row: set REPLICA IDENTITY FULL for the table in PostgreSQL, or "
                    "binlog_row_image = FULL in MySQL"
                )
            elif lacks[row]:
                problems[row] = f"an event of op {code!r} without after tells no row"
            else:
                problems[row] = "source.file and source.pos tell no position in a binlog"
        return problems

    def _errors(
        self, messages: Messages, decoded: DecodedBatch, problems: Sequence[str | None]
    ) -> pa.RecordBatch | None:
        if decoded.origin is None:
            raise HoodieSchemaProviderException(f"{type(self.events).__name__} does not tell which message a row is of")
        events = []
        for row, problem in enumerate(problems):
            if problem:
                place = int(np.searchsorted(messages.offsets, decoded.origin.numbers[row]))
                events.append(decoded.origin.event(row, ErrorReason.RECORD_CREATION, problem, messages.values[place]))
        found = [batch for batch in (decoded.errors, error_batch(events)) if batch is not None]
        return pa.Table.from_batches(found).combine_chunks().to_batches()[0] if found else None


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _columns_of_event(rows: pa.RecordBatch) -> dict[str, pa.Array]:
    names = rows.schema.names
    if "op" not in names and "payload" in names:
        payload = rows.column(names.index("payload"))
        return {field.name: pc.struct_field(payload, [index]) for index, field in enumerate(payload.type)}
    return dict(zip(names, rows.columns, strict=True))


def _types_of_event(schema: pa.Schema) -> dict[str, pa.DataType]:
    types = {field.name: field.type for field in schema}
    payload = types.get("payload")
    if "op" not in types and payload is not None and pa.types.is_struct(payload):
        types = {field.name: field.type for field in payload}
    if "op" not in types:
        raise HoodieSchemaProviderException(
            f"the schema is not one of Debezium's events: it has the columns {', '.join(schema.names)}, and no op"
        )
    return types


def _child(values: pa.Array | None, name: str) -> pa.Array | None:
    """A field of a struct, null where the struct is; None if there is no such field."""
    if values is None or not pa.types.is_struct(values.type):
        return None
    index = values.type.get_field_index(name)
    return None if index < 0 else pc.struct_field(values, [index])


def _typed(values: pa.Array | None, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if values.type == kind else values.cast(kind)


def _is_missing(values: pa.Array | None, count: int) -> npt.NDArray[np.bool_]:
    if values is None:
        return np.ones(count, dtype=bool)
    found: npt.NDArray[np.bool_] = pc.is_null(values).to_numpy(zero_copy_only=False)
    return found


def _is_no_position(file: pa.Array | None, pos: pa.Array | None, count: int) -> npt.NDArray[np.bool_]:
    if file is None or pos is None:
        return np.ones(count, dtype=bool)
    is_blank = pc.equal(pc.utf8_trim_whitespace(file.cast(pa.string())), "")
    is_wrong = pc.or_(pc.fill_null(is_blank, True), pc.fill_null(pc.less(pos.cast(pa.int64()), 0), True))
    found: npt.NDArray[np.bool_] = is_wrong.to_numpy(zero_copy_only=False)
    return found


def _sequence(file: pa.Array | None, pos: pa.Array | None, count: int) -> pa.Array:
    if file is None or pos is None:
        return pa.nulls(count, pa.string())
    number = pc.replace_substring_regex(file.cast(pa.string()), r"^.*\.", "")
    return pc.binary_join_element_wise(number, pos.cast(pa.string()), ".")


def _stored_type(kind: pa.DataType) -> pa.DataType:
    return pa.string() if pa.types.is_list(kind) or pa.types.is_large_list(kind) else kind


def _stored(values: pa.Array) -> pa.Array:
    """Values as they are stored: arrays are texts as Spark shows them, ``[a, b]``."""
    if _stored_type(values.type) == values.type:
        return values
    return pa.array([None if items is None else _shown(items) for items in values.to_pylist()], pa.string())


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)
