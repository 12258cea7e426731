"""Which record stays when several have one key: within the input, and between the input and what is stored.

Works on whole columns; the rules are those of the table's payload class on copy-on-write tables.

==================================  ===================  ===========================================
payload class                       within the input     incoming row against stored row
==================================  ===================  ===========================================
OverwriteWithLatestAvroPayload      larger ordering,     incoming wins
                                    tie: the later row
DefaultHoodieRecordPayload          the same             stored wins when its ordering is larger
==================================  ===================  ===========================================

A row with ``_hoodie_is_deleted`` competes like any other row of its ordering value. A plain delete (a key without
data) has no ordering value: it deletes whatever is stored, and within the input its place decides:

    input, in order    a5, delete a         -> delete a
                       delete a, a5         -> a5
                       a9, delete a, a5, a3 -> a5
"""

from __future__ import annotations

import logging
from typing import Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record_columns import OPERATION, ORDERING_VALUE, PARTITION_PATH, RECORD_KEY, ROW_NUMBER
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import HoodieException, HoodieNotSupportedException, HoodieSchemaException

__all__ = [
    "DEFAULT_PAYLOAD",
    "DELETE_STORED",
    "KEEP_STORED",
    "OVERWRITE_WITH_LATEST_PAYLOAD",
    "TAKE_INCOMING",
    "MergeSpec",
    "MergeTableConfig",
    "null_ordering_count",
    "null_ordering_message",
]

logger = logging.getLogger(__name__)

KEEP_STORED = 0
"""The stored row stays as it is."""
TAKE_INCOMING = 1
"""The incoming row is written, in place of the stored one if there is one."""
DELETE_STORED = 2
"""The stored row goes, and nothing takes its place."""

PAYLOAD_PROPERTY = "hoodie.compaction.payload.class"
_MODEL_PACKAGE = "org.apache.hudi.common.model."
OVERWRITE_WITH_LATEST_PAYLOAD = _MODEL_PACKAGE + "OverwriteWithLatestAvroPayload"
DEFAULT_PAYLOAD = _MODEL_PACKAGE + "DefaultHoodieRecordPayload"
_COMPETES_WITH_STORED = {OVERWRITE_WITH_LATEST_PAYLOAD: False, DEFAULT_PAYLOAD: True}

_warned_tables: set[str] = set()


class MergeTableConfig(Protocol):
    """The table properties that decide how records merge."""

    @property
    def table_name(self) -> str:
        """Name of the table, for messages."""

    @property
    def ordering_fields(self) -> tuple[str, ...]:
        """The ordering (precombine) fields."""

    @property
    def payload_class(self) -> str | None:
        """The payload class with its package; None when the table stores none."""


@attrs.frozen
class MergeSpec:
    """How records of one key become one; made once from the table's properties, used by every step that merges.

    Attributes:
        ordering_field: Column whose value orders records of one key; None when the table has none.
        competes_with_stored: Whether an incoming row with a smaller ordering value than the stored one loses.

    Hudi: org.apache.hudi.common.model.{OverwriteWithLatestAvroPayload, DefaultHoodieRecordPayload,
    HoodieAvroRecordMerger, HoodiePreCombineAvroRecordMerger}. Differs: decides for columns, and holds no records.
    """

    ordering_field: str | None = None
    competes_with_stored: bool = False

    @classmethod
    def from_table_config(cls, table_config: MergeTableConfig) -> MergeSpec:
        """The rules of a table.

        A table that stores no payload class (Hudi 0.x did not for copy-on-write) is written as Hudi 0.15.0 does: the
        incoming row wins. When it has an ordering field, Hudi 1.2 would keep the row with the larger value instead;
        a warning says so once for each table.

        Args:
            table_config: The table's properties.

        Raises:
            HoodieNotSupportedException: The payload class has other rules, or there are several ordering fields.
        """
        fields = tuple(table_config.ordering_fields)
        if len(fields) > 1:
            raise HoodieNotSupportedException(
                f"table '{table_config.table_name}' orders records by several fields ({', '.join(fields)}), "
                "property hoodie.table.precombine.field; hoodie merges by one ordering field only"
            )
        ordering_field = fields[0] if fields else None
        payload = table_config.payload_class
        if not payload:
            if ordering_field is not None:
                _warn_about_missing_payload(table_config.table_name, ordering_field)
            payload = OVERWRITE_WITH_LATEST_PAYLOAD
        if payload not in _COMPETES_WITH_STORED:
            raise HoodieNotSupportedException(
                f"table '{table_config.table_name}' merges records by {PAYLOAD_PROPERTY} = {payload}; hoodie knows "
                f"{' and '.join(_COMPETES_WITH_STORED)}. Write to this table with Hudi, or create one with one of these"
            )
        return cls(ordering_field, _COMPETES_WITH_STORED[payload] and ordering_field is not None)

    @property
    def needs_stored_ordering(self) -> bool:
        """Whether `resolve` wants the ordering values of stored rows."""
        return self.competes_with_stored

    def combine_duplicates(self, rows: pa.Table) -> pa.Table:
        """One row for each (record key, partition path).

        Among rows of one key the larger ordering value wins, and of equal ones the later row; a null is smaller than
        any value. Plain deletes go by place, as the module's text says.

        Args:
            rows: Columns ``RECORD_KEY``, ``PARTITION_PATH`` and ``ROW_NUMBER``; ``ORDERING_VALUE`` and ``OPERATION``
                where present decide as well.

        Returns:
            Rows of the same schema, in the order of their row numbers.

        Raises:
            HoodieSchemaException: The ordering values have a type without order.
        """
        if rows.num_rows < 2:
            return rows
        names = set(rows.column_names)
        number = rows[ROW_NUMBER].to_numpy()
        keys = _codes(rows[RECORD_KEY])
        if PARTITION_PATH in names:
            paths = _codes(rows[PARTITION_PATH])
            keys = keys * (int(paths.max()) + 1) + paths
        ordering = np.zeros(rows.num_rows, dtype=np.int64)
        if ORDERING_VALUE in names:
            (ordering,) = _sortable([rows[ORDERING_VALUE]])
        stage = np.zeros(rows.num_rows, dtype=np.int8)
        if OPERATION in names:
            deletes = rows[OPERATION].to_numpy() == RecordOperation.DELETE
            if deletes.any():
                stage, ordering = _around_last_delete(keys, number, deletes, ordering)
        order = np.lexsort((number, ordering, stage, keys))
        keys = keys[order]
        winners = order[np.append(keys[1:] != keys[:-1], True)]
        return rows.take(pa.array(winners[np.argsort(number[winners], kind="stable")]))

    def resolve(
        self,
        stored_ordering: pa.Array | pa.ChunkedArray | None,
        incoming_ordering: pa.Array | pa.ChunkedArray | None,
        operations: npt.NDArray[np.int8],
    ) -> npt.NDArray[np.uint8]:
        """What happens to stored rows that an incoming row of the same key meets, pair by pair.

        Args:
            stored_ordering: Ordering values of the stored rows; asked for only when `needs_stored_ordering`. Null: the
                row is older than the column, and any incoming row wins.
            incoming_ordering: Ordering values of the incoming rows, of a type that compares with the stored ones.
            operations: `RecordOperation` of the incoming rows.

        Returns:
            ``KEEP_STORED``, ``TAKE_INCOMING`` or ``DELETE_STORED`` for each pair.

        Raises:
            HoodieException: Ordering values are needed, and absent for rows that are no plain deletes.
            HoodieSchemaException: The ordering values have a type without order, or types that do not compare.
        """
        codes = self.resolve_matched(operations)
        if not self.competes_with_stored:
            return codes
        competing = np.asarray(operations) != RecordOperation.DELETE
        if not competing.any():
            return codes
        if stored_ordering is None or incoming_ordering is None:
            side = "stored" if stored_ordering is None else "incoming"
            raise HoodieException(f"merging by ordering field '{self.ordering_field}': the {side} rows come without it")
        stored, incoming = _sortable([stored_ordering, incoming_ordering])
        codes[competing & (stored > incoming)] = KEEP_STORED
        return codes

    @staticmethod
    def resolve_matched(operations: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
        """The codes of incoming rows that win over the stored row."""
        upserts = np.asarray(operations) == RecordOperation.UPSERT
        return np.where(upserts, TAKE_INCOMING, DELETE_STORED).astype(np.uint8)

    @staticmethod
    def resolve_unmatched(operations: npt.NDArray[np.int8]) -> npt.NDArray[np.uint8]:
        """The codes of incoming rows whose key is not stored: an insert, or a delete of nothing (``KEEP_STORED``)."""
        upserts = np.asarray(operations) == RecordOperation.UPSERT
        return np.where(upserts, TAKE_INCOMING, KEEP_STORED).astype(np.uint8)


def null_ordering_count(
    ordering: pa.Array | pa.ChunkedArray, operations: pa.Array | pa.ChunkedArray | npt.NDArray[np.int8] | None = None
) -> int:
    """How many rows have no ordering value and need one: an upsert of such rows fails, as in Hudi 0.15.0.

    Hudi refuses them where it combines records (upsert; insert when combining is on), by "Ordering value is null for
    record"; insert and bulk_insert that do not combine store them.

    Args:
        ordering: The ordering values.
        operations: `RecordOperation` of the rows; plain deletes need no value. None: no row is one.
    """
    if ordering.null_count == 0:
        return 0
    if operations is None:
        return int(ordering.null_count)
    needed = np.asarray(operations) != RecordOperation.DELETE
    return int((needed & ordering.is_null().to_numpy(zero_copy_only=False)).sum())


def null_ordering_message(ordering_field: str, count: int) -> str:
    """The text of the error for rows that `null_ordering_count` found."""
    return (
        f"{count} records have a null in the ordering field '{ordering_field}' (hoodie.table.precombine.field), so "
        "nobody can tell which record of a key is newer; fill the column, or leave these records out"
    )


def _warn_about_missing_payload(table_name: str, ordering_field: str) -> None:
    if table_name in _warned_tables:
        return
    _warned_tables.add(table_name)
    logger.warning(
        "table '%s' has the ordering field '%s' but stores no %s: incoming records replace stored ones even when they "
        "are older, as in Hudi 0.15.0; Hudi 1.2 would keep the record with the larger value of '%s'. To have one rule "
        "for all writers set %s in hoodie.properties: %s (incoming wins) or %s (larger ordering value wins)",
        table_name,
        ordering_field,
        PAYLOAD_PROPERTY,
        ordering_field,
        PAYLOAD_PROPERTY,
        OVERWRITE_WITH_LATEST_PAYLOAD,
        DEFAULT_PAYLOAD,
    )


def _codes(column: pa.ChunkedArray) -> npt.NDArray[np.int64]:
    """A number for each distinct value, a null included."""
    encoded = _one_array(column).dictionary_encode(null_encoding="encode")
    codes: npt.NDArray[np.int64] = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _around_last_delete(
    keys: npt.NDArray[np.int64],
    number: npt.NDArray[np.int64],
    deletes: npt.NDArray[np.bool_],
    ordering: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int64]]:
    """Stage of each row (0 before its key's last plain delete, 1 that delete, 2 after it), and the ordering to use."""
    _, groups = np.unique(keys, return_inverse=True)
    last = np.full(int(groups.max()) + 1, -1, dtype=np.int64)
    np.maximum.at(last, groups[deletes], number[deletes])
    last_delete = last[groups]
    stage = (1 + np.sign(number - last_delete)).astype(np.int8)
    return stage, np.where(stage == 1, 0, ordering)


def _sortable(columns: list[pa.Array | pa.ChunkedArray]) -> list[npt.NDArray[np.int64]]:
    """Numbers that compare as Java's compareTo compares the values, across all columns; a null is the smallest.

    Raises:
        HoodieSchemaException: The type has no order, or the types differ in kind.
    """
    arrays = [_one_array(column) for column in columns]
    wanted = _common_type([array.type for array in arrays])
    arrays = [array if array.type == wanted else array.cast(wanted) for array in arrays]
    values = pa.concat_arrays(arrays) if len(arrays) > 1 else arrays[0]
    numbers = _numbers(values)
    if values.null_count:
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        if bool((numbers[valid] == np.iinfo(np.int64).min).any()):
            numbers = np.unique(numbers, return_inverse=True)[1].astype(np.int64)
        numbers = np.where(valid, numbers, np.iinfo(np.int64).min)
    bounds = np.cumsum([len(array) for array in arrays])[:-1]
    return [piece for piece in np.split(numbers, bounds)]


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    data_type = values.type
    if pa.types.is_floating(data_type):
        return _float_numbers(values)
    if pa.types.is_string(data_type):
        return _ranks(_utf16_sortable(values))
    if pa.types.is_decimal(data_type):
        return _ranks(values)
    if pa.types.is_boolean(data_type):
        values = values.cast(pa.int8())
    elif pa.types.is_date32(data_type):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(data_type):
        values = values.view(pa.int64())
    numbers: npt.NDArray[np.int64] = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return numbers


def _float_numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    """Double.compareTo: -0.0 before 0.0, NaN after everything and equal to NaN."""
    doubles = values.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False).copy()
    doubles[np.isnan(doubles)] = np.nan
    bits = doubles.view(np.int64)
    numbers: npt.NDArray[np.int64] = np.where(bits < 0, bits ^ np.int64(np.iinfo(np.int64).max), bits)
    return numbers


def _ranks(values: pa.Array) -> npt.NDArray[np.int64]:
    ranks: npt.NDArray[np.int64] = (
        pc.rank(values, sort_keys="ascending", tiebreaker="dense").to_numpy(zero_copy_only=False).astype(np.int64)
    )
    return ranks


def _utf16_sortable(values: pa.Array) -> pa.Array:
    """Strings as bytes that sort as Java compares strings: by UTF-16 units.

    UTF-8 sorts by code point. The two differ only where a character beyond U+FFFF (first byte F0 to F4) meets one of
    U+E000 to U+FFFF (first byte EE or EF): in UTF-16 the surrogates of the former come first. So EE and EF, which are
    never a later byte, are moved behind F4.
    """
    binary = values.cast(pa.binary())
    data = binary.buffers()[2]
    if data is None:
        return binary
    octets = np.frombuffer(data, dtype=np.uint8)
    if not (octets >= 0xF0).any():
        return binary
    table = np.arange(256, dtype=np.uint8)
    table[0xEE], table[0xEF] = 0xFE, 0xFF
    moved = pa.py_buffer(table[octets].tobytes())
    return pa.Array.from_buffers(
        pa.binary(), len(binary), [binary.buffers()[0], binary.buffers()[1], moved], offset=binary.offset
    )


def _common_type(types: list[pa.DataType]) -> pa.DataType:
    first = types[0]
    if all(data_type == first for data_type in types):
        return _checked_type(first)
    kinds = {_kind(_checked_type(data_type)) for data_type in types}
    if kinds == {"integer"}:
        return pa.int64()
    if kinds <= {"integer", "float"}:
        return pa.float64()
    if kinds == {"timestamp"}:
        return pa.timestamp("us", tz="UTC")
    if kinds == {"decimal"}:
        scale = max(data_type.scale for data_type in types)
        return pa.decimal256(max(data_type.precision - data_type.scale for data_type in types) + scale, scale)
    raise HoodieSchemaException(
        f"ordering values of types {' and '.join(str(data_type) for data_type in types)} do not compare: "
        "cast the ordering column of the input to the table's type"
    )


def _checked_type(data_type: pa.DataType) -> pa.DataType:
    if _kind(data_type) == "":
        raise HoodieSchemaException(
            f"ordering values of type {data_type} have no order; use a number, string, boolean, date or timestamp"
        )
    return data_type


def _kind(data_type: pa.DataType) -> str:
    tests = {
        "integer": pa.types.is_signed_integer,
        "float": pa.types.is_floating,
        "decimal": pa.types.is_decimal,
        "string": pa.types.is_string,
        "boolean": pa.types.is_boolean,
        "date": pa.types.is_date32,
        "timestamp": pa.types.is_timestamp,
    }
    return next((kind for kind, test in tests.items() if test(data_type)), "")


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
