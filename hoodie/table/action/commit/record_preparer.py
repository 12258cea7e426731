"""Prepare input rows for a write: the table's columns and types, then key, partition, ordering value, operation.

Hudi: HoodieCreateRecordUtils.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

import attrs
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.normalise import check_text, normalise_batch
from hoodie.common.data.stored_types import find_field
from hoodie.common.fs.file_names import parse_base_file_name
from hoodie.common.model.field_path import top_level_name
from hoodie.common.model.key_parts import key_parts, may_be_ambiguous
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    FILE_NAME_META,
    KEY_PARTS,
    MERGE_ERROR,
    OPERATION,
    ORDERING_VALUE,
    PARTITION_PATH,
    PARTITION_PATH_META,
    RECORD_KEY,
    RECORD_KEY_META,
    ROW_IDENTITY,
    reserved_field,
)
from hoodie.common.model.unprepared_rows import row_of_failure
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.arrow_buffers import numbers_in, numbers_of, scalar_of
from hoodie.common.util.shown_value import short_repr, short_text
from hoodie.exception import HoodieException, HoodieKeyException, HoodieWriteException
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.keygen.partition_path_encoding import reason_against_level, usable_paths
from hoodie.merge.appended_rows import position_errors
from hoodie.merge.merge_spec import MergeSpec
from hoodie.merge.ordering_values import (
    null_ordering_count,
    null_ordering_message,
    ordering_column,
    ordering_type,
)

logger = logging.getLogger(__name__)

_warned_fields: set[tuple[str, ...]] = set()
"""Key fields whose values were warned of in this process."""
_FILE_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-[0-9]+)?")
"""The file name in rows of log files: a UUID, usually with a number."""
_SHOWN_KEYS = 5
"""Keys without an ordering value that a message shows."""


@attrs.frozen
class WriterSchema:
    """The columns to which the rows of an input are converted.

    Attributes:
        columns: The columns that are written; None for a delete, which keeps only record key and partition path.
        key_columns: For a delete, the table's types of the key and partition columns, so that keys are made as they
            are stored (``1``, not ``1.0``).
        fills_missing: Whether columns that the input lacks are null.
        rounded: Columns whose integers may become the nearest floats, as of `normalise_batch`.
    """

    columns: pa.Schema | None = None
    key_columns: pa.Schema | None = None
    fills_missing: bool = False
    rounded: frozenset[str] = frozenset()

    def rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows in these columns; as they are if none are given.

        Args:
            batch: Rows of the input.

        Raises:
            HoodieException: A value does not fit its column.
        """
        if self.columns is not None:
            relaxed = pa.schema([field.with_nullable(True) for field in self.columns])
            rows = normalise_batch(batch, relaxed, self.fills_missing, self.rounded)
        elif self.key_columns is not None:
            rows = normalise_batch(batch, self.key_columns)
        else:
            return batch
        check_text(rows)
        return rows


@attrs.frozen
class RecordChecks:
    """The reasons to refuse a row, beside values that do not fit their columns.

    Attributes:
        ordering: Whether a null ordering value is an error.
        positions: Whether a row that has no position in the log of its source is an error, where the table's rules
            compare these.
        keys: Computes the keys again if the input brings its own; both must be the same.
        partitions: Whether partition paths are compared as well.
        max_key_bytes: The largest size of a key that is written, in bytes; None for any.
    """

    ordering: bool = False
    positions: bool = False
    keys: KeyGenerator | None = None
    partitions: bool = True
    max_key_bytes: int | None = None


@attrs.frozen
class RecordPreparer:
    """Makes a batch of input into a batch in flight; a pure function that crosses to tasks.

    A row whose key or partition path cannot be made has null for both. A batch that cannot be converted becomes one row
    without partition path whose record key says why (see `hoodie.common.model.unprepared_rows`): an engine would retry
    a task that raises.

    Attributes:
        writer_schema: The columns that rows get.
        key_generator: Makes keys and partition paths; None when the input brings its own reserved columns. One that
            generates keys makes them for rows that bring none.
        ordering_fields: The columns whose values decide between records of one key; a dotted path leads into structs.
        operation: The operation of every row if the input has no operation column; a row with ``_hoodie_is_deleted`` is
            a delete all the same.
        merge_spec: Says which rows of data are deletes.
        is_tagged: Whether the input says where records live: file ids, or names of base files, and instants.
        checks: The reasons to refuse rows.
    """

    writer_schema: WriterSchema
    key_generator: KeyGenerator | None
    ordering_fields: tuple[str, ...] = ()
    operation: RecordOperation = RecordOperation.UPSERT
    merge_spec: MergeSpec = attrs.field(factory=MergeSpec)
    is_tagged: bool = False
    checks: RecordChecks = RecordChecks()

    @property
    def schema(self) -> pa.Schema | None:
        """The columns that are written; None for a delete."""
        return self.writer_schema.columns

    def output_schema(self) -> pa.Schema:
        """The schema of a batch in flight; every column is nullable, the writer checks what the table demands."""
        fields = [field.with_nullable(True) for field in self.schema] if self.schema is not None else []
        fields += [reserved_field(RECORD_KEY), reserved_field(PARTITION_PATH)]
        if self._orders and self.schema is not None:
            fields.append(reserved_field(ORDERING_VALUE, ordering_type(self.schema, self.ordering_fields)))
        fields.append(reserved_field(OPERATION))
        if self._tells_parts:
            fields.append(reserved_field(KEY_PARTS))
        if self.merge_spec.can_fail_for_records:
            fields.append(reserved_field(MERGE_ERROR))
        if self.is_tagged:
            fields += [reserved_field(CURRENT_INSTANT_TIME), reserved_field(CURRENT_FILE_ID)]
        return pa.schema(fields)

    @property
    def _tells_parts(self) -> bool:
        """Whether rows with different values may have one key."""
        generator = self.key_generator or self.checks.keys
        columns = self.schema if self.schema is not None else self.writer_schema.key_columns
        if generator is None or columns is None or not generator.has_composite_keys:
            return False
        return may_be_ambiguous(columns, generator.record_key_fields)

    @property
    def _orders(self) -> bool:
        return self.schema is not None and ordering_type(self.schema, self.ordering_fields) is not None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the columns of `output_schema`."""
        try:
            return self._prepare(batch)
        except HoodieException as error:
            return row_of_failure(error, self.output_schema())

    def narrowed_to(
        self, columns: Sequence[str], source: pa.Schema
    ) -> tuple[RecordPreparer, pa.Schema, list[str]] | None:
        """See `NarrowableFunction`: a preparer that reads only the columns which decide about the rows.

        It does not see values of other columns that cannot be converted.
        """
        generator = self.key_generator
        if generator is None or generator.reads_all_columns or self.is_tagged:
            return None
        if self.schema is None:
            return self, self.output_schema(), source.names
        schema = self.schema
        fields = [*generator.record_key_fields, *generator.partition_fields, *columns, *self.ordering_fields]
        wanted = {top_level_name(schema, field) for field in fields} | self.merge_spec.delete_columns(schema)
        fewer = [field for field in schema if field.name in wanted]
        narrow = attrs.evolve(self, writer_schema=attrs.evolve(self.writer_schema, columns=pa.schema(fewer)))
        read = [found.name for field in fewer if (found := find_field(source, field.name)) is not None]
        given = {OPERATION, *((ROW_IDENTITY, RECORD_KEY, PARTITION_PATH) if generator.generates_keys else ())}
        return narrow, narrow.output_schema(), [*read, *(name for name in source.names if name in given)]

    def _prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        rows, checks = self.writer_schema.rows(batch), self.checks
        if self.key_generator is None:
            keys, partitions = batch.column(RECORD_KEY), _usable_partitions(batch)
            keys = pc.if_else(pc.equal(keys, scalar_of("")), scalar_of(None, pa.string()), keys)
        elif self.key_generator.generates_keys:
            keys, partitions = _generated_keys(batch, rows, self.key_generator)
        else:
            keys, partitions = self.key_generator.record_keys(rows), self.key_generator.partition_paths(rows)
        if keys.null_count or partitions.null_count:
            usable = pc.and_(keys.is_valid(), partitions.is_valid())
            nothing = scalar_of(None, pa.string())
            keys, partitions = pc.if_else(usable, keys, nothing), pc.if_else(usable, partitions, nothing)
        columns = list(rows.columns) if self.schema is not None else []
        columns += [keys, partitions]
        operations = self._operations(batch, rows)
        if checks.max_key_bytes is not None:
            _check_lengths(keys, operations, checks.max_key_bytes)
        if self.schema is not None and self.key_generator is None and not self.merge_spec.absent_columns:
            _check_data(rows, keys, operations)
        if self._orders:
            columns.append(self._ordering_values(batch, rows, operations, keys))
        if checks.positions:
            self._check_positions(rows, keys, operations)
        columns.append(operations)
        if self._tells_parts:
            columns.append(self._parts(rows))
        if self.merge_spec.can_fail_for_records:
            columns.append(pa.nulls(len(operations), pa.string()))
        if checks.keys is not None:
            if not checks.keys.generates_keys:
                _check_keys(keys, checks.keys.record_keys(rows), RECORD_KEY_META)
            if checks.partitions:
                _check_keys(partitions, checks.keys.partition_paths(rows), PARTITION_PATH_META)
        if self.is_tagged:
            columns += _locations(batch)
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema())

    def _parts(self, rows: pa.RecordBatch) -> pa.StringArray:
        generator = self.key_generator or self.checks.keys
        assert generator is not None
        fields = generator.record_key_fields
        parts = key_parts(rows, fields)
        if parts.null_count < len(parts) and fields not in _warned_fields:
            _warned_fields.add(fields)
            logger.warning(
                "the key fields %s have values that can make the key of other values too, such as %s. Rows whose keys "
                "are the same are refused where they meet; see 'Keys that look alike' in docs/merging.md",
                ", ".join(fields),
                short_text(parts.drop_null()[0].as_py()),
            )
        return parts

    def _ordering_values(
        self, batch: pa.RecordBatch, rows: pa.RecordBatch, operations: pa.Array, keys: pa.Array
    ) -> pa.Array:
        values = ordering_column(rows, self.ordering_fields)
        assert values is not None
        if self.key_generator is None and ORDERING_VALUE in batch.schema.names:
            # By the rules for columns: a value that does not fit is named, not cut.
            given = pa.RecordBatch.from_arrays([batch.column(ORDERING_VALUE)], names=["ordering_value"])
            given = normalise_batch(given, pa.schema([("ordering_value", values.type)]))
            values = pc.coalesce(given.column(0), values)
        if self.checks.ordering:
            missing = null_ordering_count(values, operations)
            if missing:
                needed = pc.not_equal(operations, int(RecordOperation.DELETE))
                shown = keys.filter(pc.and_(values.is_null(), needed)).slice(0, _SHOWN_KEYS).to_pylist()
                raise HoodieWriteException(null_ordering_message(self.ordering_fields, missing, shown))
        return values

    def _check_positions(self, rows: pa.RecordBatch, keys: pa.Array, operations: pa.Array) -> None:
        errors = position_errors(self.merge_spec, rows, operations.to_numpy())
        if errors:
            shown = "; ".join(
                f"{short_repr(keys[number].as_py())}: {errors[number]}" for number in sorted(errors)[:_SHOWN_KEYS]
            )
            raise HoodieWriteException(
                f"{len(errors)} records could never be merged ({shown}), and readers of the table would fail; nothing "
                "was written. Correct these records, or leave them out"
            )

    def _operations(self, batch: pa.RecordBatch, rows: pa.RecordBatch) -> pa.Array:
        if OPERATION in batch.schema.names:
            operations = numbers_in(batch.column(OPERATION), np.int8).copy()
        else:
            operations = np.full(rows.num_rows, int(self.operation), dtype=np.int8)
        if self.schema is not None:
            flagged = self.merge_spec.flagged_deletes(rows)
            asking = flagged & (operations == RecordOperation.UPSERT)
            operations[asking] = RecordOperation.DELETE_FLAGGED
            if asking.any():
                operations[asking & self.merge_spec.hard_deletes(rows)] = RecordOperation.DELETE
        return numbers_of(operations, pa.int8())


def _generated_keys(
    batch: pa.RecordBatch, rows: pa.RecordBatch, key_generator: KeyGenerator
) -> tuple[pa.StringArray, pa.StringArray]:
    """Keys and partition paths: those that the input brings, and made ones where it brings none."""
    keys, partitions = key_generator.record_keys(batch), key_generator.partition_paths(rows)
    if RECORD_KEY not in batch.schema.names:
        return keys, partitions
    given = batch.column(RECORD_KEY)
    is_stored = given.is_valid()
    _check_keys(pc.if_else(is_stored, batch.column(PARTITION_PATH), partitions), partitions, PARTITION_PATH_META)
    return pc.coalesce(given, keys), partitions


def _check_data(rows: pa.RecordBatch, keys: pa.Array, operations: pa.Array) -> None:
    """Refuse records to write that have a key and no other values: they would be stored as nulls."""
    empty = operations.to_numpy() == RecordOperation.UPSERT
    for column in rows.columns:
        if not empty.any():
            return
        empty &= column.is_null().to_numpy(zero_copy_only=False)
    if empty.any():
        first = keys[int(np.flatnonzero(empty)[0])].as_py()
        raise HoodieWriteException(
            f"{int(empty.sum())} records have a key and no data, the first {short_repr(first)}, and are no deletes; "
            "nothing was written. Give their data, or operation='delete'"
        )


def _check_lengths(keys: pa.Array, operations: pa.Array, most: int) -> None:
    """Refuse records to write whose keys are too long; records with such keys can be deleted."""
    lengths = pc.fill_null(pc.binary_length(keys), 0)
    if not len(keys) or pc.max(lengths).as_py() <= most:
        return
    is_long = (lengths.to_numpy() > most) & (operations.to_numpy() == RecordOperation.UPSERT)
    if is_long.any():
        first = int(np.flatnonzero(is_long)[0])
        count = int(is_long.sum())
        raise HoodieKeyException(
            f"{count} {'record has a key' if count == 1 else 'records have keys'} of more than {most} bytes, the first "
            f"of {lengths[first].as_py()}: {short_repr(keys[first].as_py())}; nothing was written. Store a hash "
            "of such keys, or raise hoodie.write.record.key.max.bytes"
        )


def _check_keys(given: pa.Array, made: pa.Array, name: str) -> None:
    """Refuse records whose columns give another key or partition path than the records carry."""
    differ = pc.fill_null(pc.not_equal(given, made), False)
    if pc.any(differ).as_py():
        first = differ.index(True).as_py()
        raise HoodieKeyException(
            f"{pc.sum(differ).as_py()} records have another {name} than their columns say, the first "
            f"{short_repr(given[first].as_py())} and {short_repr(made[first].as_py())}: key and partition of a stored "
            "record cannot be changed so; delete it and insert another, or upsert it with the index GLOBAL_SIMPLE"
        )


def _usable_partitions(batch: pa.RecordBatch) -> pa.Array:
    """The partition paths that the records bring; null ones stay null.

    Raises:
        HoodieKeyException: Paths that cannot be stored below the table, and why.
    """
    given = batch.column(PARTITION_PATH)
    usable = usable_paths(given)
    if usable.null_count == given.null_count:
        return usable
    bad = batch.filter(pc.and_(given.is_valid(), usable.is_null()))
    keys, path = bad.column(RECORD_KEY), bad.column(PARTITION_PATH)[0].as_py()
    raise HoodieKeyException(
        f"records without a usable key: the partition path {reason_against_level(path)} in {bad.num_rows} "
        f"{'record' if bad.num_rows == 1 else 'records'}, first: {{record key: {short_repr(keys[0].as_py())}, "
        f"partition path: {short_repr(path)}}}. Correct these records or leave them out"
    )


def _locations(batch: pa.RecordBatch) -> list[pa.Array]:
    """Instant times and file ids; both null for new records."""
    files = batch.column(CURRENT_FILE_ID)
    if CURRENT_INSTANT_TIME in batch.schema.names:
        return [batch.column(CURRENT_INSTANT_TIME), files]
    encoded = files.dictionary_encode()
    names = [parse_base_file_name(name) for name in encoded.dictionary.to_pylist()]
    for text, name in zip(encoded.dictionary.to_pylist(), names, strict=True):
        if name is None and not _FILE_ID.fullmatch(text):
            raise HoodieKeyException(f"'{text}' in {FILE_NAME_META} is no name of a base file; read the records again")
    # Rows of log files name the file group alone.
    instants = pa.array([name.instant_time if name is not None else "" for name in names], pa.string())
    texts = encoded.dictionary.to_pylist()
    file_ids = [name.file_id if name is not None else text for name, text in zip(names, texts, strict=True)]
    file_ids = pa.array(file_ids, pa.string())
    return [instants.take(encoded.indices), file_ids.take(encoded.indices)]
