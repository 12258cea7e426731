"""The base of all key generators: partition paths, explanations of bad rows, and the two forms of a record key.

Hudi: org.apache.hudi.keygen.{KeyGenerator, BaseKeyGenerator}, org.apache.hudi.keygen.KeyGenUtils.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.field_path import column_at, type_at
from hoodie.common.model.key_parts import EMPTY_PLACEHOLDER, NULL_PLACEHOLDER
from hoodie.common.util.shown_value import short_repr
from hoodie.engine.bucket_routing import KeyColumns
from hoodie.exception import HoodieKeyException
from hoodie.keygen.partition_path_encoding import (
    DEFAULT_PARTITION,
    escape_path_name,
    partition_level,
    reason_against_level,
)
from hoodie.keygen.value_strings import can_be_key, nan_rows, over_distinct, value_strings

_EXAMPLES = 3


@attrs.frozen
class BadRows:
    """Rows of one batch whose key or partition path cannot be made, all for the same reason.

    Attributes:
        columns: The columns from which the value is made.
        reason: The problem of the value, as the end of a sentence: "is null or empty".
        count: The number of rows.
        examples: The first of the rows, described by their key and partition columns.
    """

    columns: tuple[str, ...]
    reason: str
    count: int
    examples: tuple[str, ...]

    def __str__(self) -> str:
        """One line for an error message."""
        rows = "record" if self.count == 1 else "records"
        sentence = _sentence(self.columns, self.reason)
        return f"{sentence} in {self.count} {rows}, first: {'; '.join(self.examples)}"


@attrs.frozen(eq=False)
class KeyProblem:
    """One reason why rows of a batch have no key or no partition path.

    Attributes:
        columns: The columns from which the value is made.
        reason: The problem of the value, as the end of a sentence: "is null or empty".
        rows: True for each row that has this problem.
    """

    columns: tuple[str, ...]
    reason: str
    rows: pa.BooleanArray

    def __str__(self) -> str:
        """The columns and the reason, as a sentence."""
        return _sentence(self.columns, self.reason)


@attrs.frozen
class KeyGenerator(ABC):
    """Makes record keys and partition paths for whole batches. Picklable; it is sent to tasks.

    Attributes:
        record_key_fields: Fields of the record key; a dotted name leads into structs.
        partition_fields: Fields of the partition path; () for a table without partitions.
        hive_style: Whether a level is ``<field>=<value>``.
        url_encode: Whether values are escaped in paths.
        consistent_timestamps: Whether keys contain timestamps as ``2026-11-21 10:30:00.0`` instead of as numbers.

    Hudi: org.apache.hudi.keygen.BaseKeyGenerator. Differs: works on batches; a row whose key cannot be made gets a
    null instead of an exception, because tasks return user errors as values.
    """

    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    consistent_timestamps: bool = attrs.field(default=False, kw_only=True)

    @property
    def reads_all_columns(self) -> bool:
        """Whether keys may depend on columns other than the key and partition fields."""
        return False

    @property
    def generates_keys(self) -> bool:
        """Whether the record key is made of no column, but when the row is written."""
        return False

    @property
    def has_plain_paths(self) -> bool:
        """Whether a level of the partition path is the value of its field as a string, escaped or not."""
        return False

    @property
    def has_composite_keys(self) -> bool | None:
        """Whether keys are ``field:value``, joined by commas (True), or the value of the one field (False).

        None: in another way.
        """
        return None

    @property
    def key_columns(self) -> KeyColumns | None:
        """The columns that keys and partition paths are made of, for an engine that makes them without this class.

        None: only this class makes them.
        """
        is_composite = self.has_composite_keys
        if is_composite is None or not self.has_plain_paths:
            return None
        return KeyColumns(self.record_key_fields, is_composite, self.partition_fields, self.hive_style)

    @abstractmethod
    def record_keys(self, batch: pa.RecordBatch) -> pa.StringArray:
        """The record key of each row; null where it cannot be made.

        Raises:
            HoodieKeyException: A field is not in the batch, or has a type that cannot be part of a key.
        """

    def partition_paths(self, batch: pa.RecordBatch) -> pa.StringArray:
        """The partition path of each row; null where it cannot be stored below the table's folder.

        Raises:
            HoodieKeyException: A field is not in the batch, or has a type that cannot be part of a path.
        """
        levels = [self._level(batch, field) for field in self.partition_fields]
        if not levels:
            return pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
        return levels[0] if len(levels) == 1 else pc.binary_join_element_wise(*levels, "/")

    def keys(self, batch: pa.RecordBatch) -> tuple[pa.StringArray, pa.StringArray]:
        """(record keys, partition paths); both are null where either cannot be made, because the row has no key then.

        Raises:
            HoodieKeyException: See `record_keys` and `partition_paths`.
        """
        record_keys, paths = self.record_keys(batch), self.partition_paths(batch)
        if record_keys.null_count or paths.null_count:
            good = pc.and_(record_keys.is_valid(), paths.is_valid())
            nothing = pa.scalar(None, pa.string())
            record_keys, paths = pc.if_else(good, record_keys, nothing), pc.if_else(good, paths, nothing)
        return record_keys, paths

    def bind(self, schema: pa.Schema) -> KeyGenerator:
        """Check that the fields are columns of the input, before anything runs.

        Args:
            schema: The input's columns.

        Returns:
            This generator.

        Raises:
            HoodieKeyException: A field is missing (the message names it and the columns that exist), or its type
                cannot be part of a key.
        """
        for field in self.record_key_fields:
            _check_field(schema, field, "record key")
        for field in self.partition_fields:
            self._check_partition_type(field, _check_field(schema, field, "partition"))
        return self

    def _check_partition_type(self, field: str, data_type: pa.DataType) -> None:  # noqa: B027
        """Refuse a type that a partition field of this generator cannot have; by default none is refused."""

    def problems(self, batch: pa.RecordBatch) -> Iterator[KeyProblem]:
        """Find which rows of a batch have no key or no partition path, and why; a row may have several problems.

        Args:
            batch: The columns of the input.

        Raises:
            HoodieKeyException: See `record_keys` and `partition_paths`.
        """
        missing = self.record_keys(batch).is_null()
        for field in self.record_key_fields:
            is_nan = nan_rows(_readable_column(batch, field, "record key"))
            if is_nan is not None:
                yield KeyProblem((field,), "is NaN", is_nan)
                missing = pc.and_not(missing, is_nan)
        if pc.any(missing).as_py():
            single = len(self.record_key_fields) == 1
            reason = "is null or empty" if single else "are all null or empty"
            yield KeyProblem(self.record_key_fields, reason, missing)
        yield from self.path_problems(batch)

    def path_problems(self, batch: pa.RecordBatch) -> Iterator[KeyProblem]:
        """Find which rows of a batch have no partition path, and why.

        Args:
            batch: The columns of the input.

        Raises:
            HoodieKeyException: See `partition_paths`.
        """
        for field in self.partition_fields:
            bad = self._level(batch, field).is_null()
            if pc.any(bad).as_py():
                yield from self._problems_of_level(batch, field, bad)

    def bad_rows(self, batch: pa.RecordBatch) -> list[BadRows]:
        """Explain which rows of a batch have no key or no partition path; [] if all have both.

        Args:
            batch: The columns of the input.

        Raises:
            HoodieKeyException: See `record_keys` and `partition_paths`.
        """
        return [self._describe(batch, problem) for problem in self.problems(batch)]

    def explain_bad_rows(self, batch: pa.RecordBatch) -> str:
        """The message of the `HoodieKeyException` for a batch with rows without a key; "" if there are none.

        Raises:
            HoodieKeyException: See `record_keys` and `partition_paths`.
        """
        found = self.bad_rows(batch)
        if not found:
            return ""
        lines = "; ".join(str(bad) for bad in found)
        return f"records without a usable key: {lines}. Correct these records or leave them out"

    def _single_key(self, batch: pa.RecordBatch) -> pa.StringArray:
        return single_key(batch, self.record_key_fields[0], self.consistent_timestamps)

    def _composite_key(self, batch: pa.RecordBatch) -> pa.StringArray:
        return composite_key(batch, self.record_key_fields, self.consistent_timestamps)

    def _level(self, batch: pa.RecordBatch, field: str) -> pa.StringArray:
        column = _readable_column(batch, field, "partition")
        return over_distinct(column, lambda values: self._level_of(values, field))

    def _level_of(self, values: pa.Array, field: str) -> pa.StringArray:
        """The level of a partition path for each value; null where it cannot be stored."""
        strings = value_strings(values, self.consistent_timestamps)
        return partition_level(strings, field, self.hive_style, self.url_encode)

    def _problems_of_level(self, batch: pa.RecordBatch, field: str, bad: pa.Array) -> Iterator[KeyProblem]:
        values = field_column(batch, field).filter(bad)
        reasons = [self._reason_against(value, field) for value in self._texts(values, field)]
        column = pc.replace_with_mask(pa.nulls(batch.num_rows, pa.string()), bad, pa.array(reasons, pa.string()))
        for reason in dict.fromkeys(reasons):
            if reason is not None:
                yield KeyProblem((field,), reason, pc.equal(column, reason).fill_null(False))

    def _texts(self, values: pa.Array, field: str) -> list[str | None]:
        """Values of a partition field as texts, for explanations."""
        texts: list[str | None] = value_strings(values, self.consistent_timestamps).to_pylist()
        return texts

    def _reason_against(self, text: str | None, field: str) -> str | None:
        """Why a value of a partition field cannot be a level, as the end of a sentence."""
        level = text or DEFAULT_PARTITION
        prefix = f"{field}=" if self.hive_style else ""
        return reason_against_level(escape_path_name(level) if self.url_encode else level, prefix)

    def _describe(self, batch: pa.RecordBatch, problem: KeyProblem) -> BadRows:
        fields = dict.fromkeys([*self.record_key_fields, *self.partition_fields])
        first = pa.table(
            {field: field_column(batch, field).filter(problem.rows).slice(0, _EXAMPLES) for field in fields}
        )
        examples = tuple(
            "{" + ", ".join(f"{name}: {short_repr(value)}" for name, value in row.items()) + "}"
            for row in first.to_pylist()
        )
        return BadRows(problem.columns, problem.reason, int(pc.sum(problem.rows).as_py()), examples)


def _sentence(columns: Sequence[str], reason: str) -> str:
    names = ", ".join(f"'{name}'" for name in columns)
    return f"{'column' if len(columns) == 1 else 'columns'} {names} {reason}"


def field_column(batch: pa.RecordBatch, field: str) -> pa.Array:
    """A column of a batch by name; a dotted name leads into structs.

    A null struct makes its fields null. A column whose own name contains the dot takes precedence.

    Raises:
        HoodieKeyException: There is no such column.
    """
    column = column_at(batch, field)
    if column is None:
        raise _missing(batch.schema, field, "key or partition")
    return column


def single_key(batch: pa.RecordBatch, field: str, consistent_timestamps: bool = False) -> pa.StringArray:
    """The values of one field as record keys; null where a value is null, empty or NaN.

    NaN equals nothing, not even itself, so rows with NaN do not have the same key.
    """
    column = _readable_column(batch, field, "record key")
    strings, is_nan = value_strings(column, consistent_timestamps), nan_rows(column)
    if is_nan is not None:
        return _null_where(is_nan, strings)
    if pa.types.is_string(strings.type) and pc.any(pc.equal(strings, "")).as_py():
        return _null_where(pc.equal(strings, ""), strings)
    return strings


def composite_key(batch: pa.RecordBatch, fields: Sequence[str], consistent_timestamps: bool = False) -> pa.StringArray:
    """``f1:v1,f2:v2`` for each row; null if all parts are null or empty, or one is NaN."""
    parts: list[pa.Array | pa.Scalar] = []
    usable, unusable = None, None
    for number, field in enumerate(fields):
        column = _readable_column(batch, field, "record key")
        strings, is_nan = value_strings(column, consistent_timestamps), nan_rows(column)
        if is_nan is not None:
            unusable = is_nan if unusable is None else pc.or_(unusable, is_nan)
        has_value = pc.not_equal(strings, "").fill_null(False)
        usable = has_value if usable is None else pc.or_(usable, has_value)
        if not pc.all(has_value).as_py():
            strings = pc.if_else(pc.equal(strings, ""), EMPTY_PLACEHOLDER, strings).fill_null(NULL_PLACEHOLDER)
        parts.extend([pa.scalar(f"{',' if number else ''}{field}:", pa.string()), strings])
    joined = pc.binary_join_element_wise(*parts, pa.scalar("", pa.string()))
    if usable is not None and not pc.all(usable).as_py():
        joined = _null_where(pc.invert(usable), joined)
    return joined if unusable is None else _null_where(unusable, joined)


def _null_where(rows: pa.Array, strings: pa.StringArray) -> pa.StringArray:
    return pc.if_else(rows, pa.scalar(None, pa.string()), strings)


def _readable_column(batch: pa.RecordBatch, field: str, role: str) -> pa.Array:
    column = field_column(batch, field)
    if not can_be_key(column.type):
        raise _wrong_type(field, column.type, role)
    return column


def _check_field(schema: pa.Schema, field: str, role: str) -> pa.DataType:
    data_type = type_at(schema, field)
    if data_type is None:
        raise _missing(schema, field, role)
    if not can_be_key(data_type):
        raise _wrong_type(field, data_type, role)
    return data_type


def _missing(schema: pa.Schema, field: str, role: str) -> HoodieKeyException:
    return HoodieKeyException(
        f"the {role} field '{field}' of the table is not a column of the input"
        f"{spelled_otherwise(schema.names, [field])}; its columns are: "
        f"{', '.join(schema.names) or 'none'}"
    )


def _wrong_type(field: str, data_type: pa.DataType, role: str) -> HoodieKeyException:
    return HoodieKeyException(
        f"the {role} field '{field}' has type {data_type}, whose values cannot be part of a key; "
        "convert it to a string or number"
    )
