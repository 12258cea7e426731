"""Merge records with a user's own class.

A merger receives pairs of rows with the same key, an older and a newer one, and says for each pair what stays. It is
called in two places: for rows of one key within the input (the later row is the newer), and for an incoming row and the
stored one. Subclass `HoodieRecordMerger` to decide for whole columns, `HoodieSingleRecordMerger` for one pair at a
time::

    class LargestFare(HoodieRecordMerger):
        def merge(self, older, newer, record_keys):
            return MergeOutcome.choose(pc.greater_equal(newer["fare"], older["fare"]))

A table is created for a merger: see ``hoodie.write.record.merge.custom.implementation.classes``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeGuard

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.model.record import HoodieKey, HoodieRecord
from hoodie.common.util.class_loading import create_object
from hoodie.exception import HoodieException, HoodieSchemaException
from hoodie.merge.merge_properties import MERGER_KEYS

KEEP_STORED = 0
"""The older (stored) row stays unchanged."""
TAKE_INCOMING = 1
"""The outcome's row is written, replacing the stored one if there is one."""
DELETE_STORED = 2
"""The stored row is deleted, and no row is written."""


@attrs.frozen(eq=False)
class MergeOutcome:
    """The result of merging pairs of rows.

    Attributes:
        codes: ``KEEP_STORED``, ``TAKE_INCOMING`` or ``DELETE_STORED`` for each pair (uint8).
        rows: For each pair the row that is written if its code is ``TAKE_INCOMING`` (other rows are ignored). From a
            user's merger: the columns of the newer rows in any order; None: the newer rows as they are.
        errors: Number of a pair -> why it could not be merged. Such a pair is reported as a failed record, and its
            stored row stays.
    """

    codes: npt.NDArray[np.uint8]
    rows: pa.RecordBatch | None = None
    errors: Mapping[int, str] = attrs.field(factory=dict)

    @classmethod
    def choose(cls, take_newer: Any) -> MergeOutcome:
        """Take the newer row of chosen pairs and keep the older row of the others.

        Args:
            take_newer: A boolean for each pair: an Arrow or numpy array, or a list; null counts as False.
        """
        if isinstance(take_newer, pa.ChunkedArray):
            take_newer = take_newer.combine_chunks()
        if isinstance(take_newer, pa.Array):
            take_newer = pc.fill_null(take_newer, False).to_numpy(zero_copy_only=False)
        wanted = np.asarray(take_newer, dtype=np.bool_)
        return cls(np.where(wanted, TAKE_INCOMING, KEEP_STORED).astype(np.uint8))

    @classmethod
    def write(cls, rows: pa.RecordBatch) -> MergeOutcome:
        """Write the given row for each pair.

        Args:
            rows: One row per pair, with the columns of the newer rows.
        """
        return cls(np.full(rows.num_rows, TAKE_INCOMING, dtype=np.uint8), rows)


class HoodieRecordMerger(ABC):
    """Decides what two rows with the same key become; subclass it with a constructor that takes no arguments.

    A merger must be a pure function of its rows: it runs in tasks, and may be called again for the same rows or for any
    subset of them. It is never called for deletes by key; these always delete. A row with ``_hoodie_is_deleted`` is
    treated like any other row; if it is taken, the record is deleted.

    Hudi: org.apache.hudi.common.model.HoodieRecordMerger. Differs: receives columns.
    """

    @abstractmethod
    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        """Merge pairs of rows.

        Args:
            older: The table's columns, no meta columns; row ``i`` is the older row of pair ``i``.
            newer: The same columns.
            record_keys: The key of each pair (string).

        Returns:
            The outcome for each pair.

        Raises:
            Exception: Some rows cannot be merged. hoodie finds the failing pairs by calling again with parts, and
                reports them as failed records; the others are merged.
        """


class HoodieSingleRecordMerger(HoodieRecordMerger):
    """Decides for one pair of records at a time: easy to write, but slow, as every record becomes a Python object."""

    @abstractmethod
    def merge_records(self, older: HoodieRecord, newer: HoodieRecord) -> HoodieRecord | None:
        """Merge two records with the same key.

        Args:
            older: The stored record, or the earlier of two incoming ones; its ``data`` has all columns of the table.
            newer: The incoming record, or the later of two.

        Returns:
            The record that stays: one of the two, or a new one with the same columns. None deletes the record.

        Raises:
            Exception: The pair is reported as a failed record.
        """

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array) -> MergeOutcome:
        """Merge pairs of rows one by one."""
        codes = np.full(newer.num_rows, TAKE_INCOMING, dtype=np.uint8)
        errors: dict[int, str] = {}
        merged: list[Mapping[str, Any]] = []
        pairs = zip(older.to_pylist(), newer.to_pylist(), record_keys.to_pylist(), strict=True)
        for number, (old_data, new_data, record_key) in enumerate(pairs):
            key = HoodieKey(record_key)
            old, new = HoodieRecord(key, old_data), HoodieRecord(key, new_data)
            data: Mapping[str, Any] = new_data
            try:
                result = self.merge_records(old, new)
                if result is None:
                    codes[number] = DELETE_STORED
                elif result is old:
                    codes[number] = KEEP_STORED
                else:
                    data = _checked_data(result, newer.schema)
            except Exception as error:
                codes[number], errors[number] = KEEP_STORED, _reason(self, error)
            merged.append(data)
        return MergeOutcome(codes, pa.RecordBatch.from_pylist(merged, newer.schema), errors)


def _checked_data(record: HoodieRecord, schema: pa.Schema) -> Mapping[str, Any]:
    if not isinstance(record, HoodieRecord):
        raise TypeError(f"merge_records returned a {type(record).__name__}; give a HoodieRecord or None")
    if set(record.data) != set(schema.names):
        raise ValueError(f"merge_records returned the columns {sorted(record.data)}, not {sorted(schema.names)}")
    pa.RecordBatch.from_pylist([record.data], schema)
    return record.data


def merge_pairs(
    merger: HoodieRecordMerger, older: pa.RecordBatch, newer: pa.RecordBatch, record_keys: pa.Array
) -> MergeOutcome:
    """Call a merger, and find the pairs for which it fails.

    Args:
        merger: A user's merger.
        older: See `HoodieRecordMerger.merge`.
        newer: See `HoodieRecordMerger.merge`.
        record_keys: See `HoodieRecordMerger.merge`.

    Returns:
        The outcome; its rows have the schema of the newer rows.

    Raises:
        HoodieException: The merger did not return a valid outcome for these pairs.
        HoodieSchemaException: The returned rows do not have the columns of the newer rows.
    """
    if newer.num_rows == 0:
        return MergeOutcome(np.zeros(0, dtype=np.uint8), newer)
    try:
        outcome = merger.merge(older, newer, record_keys)
    except Exception as error:
        if newer.num_rows == 1:
            return MergeOutcome(np.full(1, KEEP_STORED, dtype=np.uint8), newer, {0: _reason(merger, error)})
        half = newer.num_rows // 2
        parts = [
            merge_pairs(merger, older.slice(start, count), newer.slice(start, count), record_keys.slice(start, count))
            for start, count in ((0, half), (half, newer.num_rows - half))
        ]
        rows = pa.Table.from_batches([part.rows for part in parts]).combine_chunks().to_batches()[0]
        errors = {**parts[0].errors, **{number + half: text for number, text in parts[1].errors.items()}}
        return MergeOutcome(np.concatenate([part.codes for part in parts]), rows, errors)
    return _checked_outcome(merger, outcome, newer)


def _checked_outcome(merger: HoodieRecordMerger, outcome: Any, newer: pa.RecordBatch) -> MergeOutcome:
    name = type(merger).__name__
    if not isinstance(outcome, MergeOutcome):
        raise HoodieException(f"{name}.merge returned a {type(outcome).__name__}: give a MergeOutcome")
    codes = np.asarray(outcome.codes)
    if len(codes) != newer.num_rows or not np.isin(codes, (KEEP_STORED, TAKE_INCOMING, DELETE_STORED)).all():
        raise HoodieException(
            f"{name}.merge returned {len(codes)} codes for {newer.num_rows} pairs, or codes other than KEEP_STORED, "
            "TAKE_INCOMING and DELETE_STORED"
        )
    codes = codes.astype(np.uint8)
    for number in outcome.errors:
        codes[number] = KEEP_STORED
    return MergeOutcome(codes, _checked_rows(name, outcome.rows, newer), dict(outcome.errors))


def _checked_rows(name: str, rows: pa.RecordBatch | None, newer: pa.RecordBatch) -> pa.RecordBatch:
    if rows is None:
        return newer
    if rows.num_rows != newer.num_rows or set(rows.schema.names) != set(newer.schema.names):
        raise HoodieSchemaException(
            f"{name}.merge returned {rows.num_rows} rows of the columns {', '.join(rows.schema.names)} for "
            f"{newer.num_rows} pairs of {', '.join(newer.schema.names)}"
        )
    columns = []
    for field in newer.schema:
        column = rows.column(field.name)
        try:
            columns.append(column if column.type == field.type else column.cast(field.type))
        except pa.ArrowInvalid as error:
            raise HoodieSchemaException(
                f"{name}.merge returned the column '{field.name}' as {column.type}, which is not {field.type}: {error}"
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=newer.schema)


def _reason(merger: HoodieRecordMerger, error: Exception) -> str:
    return f"{type(merger).__name__} failed: {type(error).__name__}: {error}"


def named_merger(name: str | None) -> HoodieRecordMerger | None:
    """The record merger that a property names; None if it names none.

    Args:
        name: ``package.module.Class``, as `merger_class_name` gives it.

    Raises:
        HoodieConfigException: There is no such class, or it cannot be created.
    """
    return None if name is None else create_object(name, MERGER_KEYS[0], HoodieRecordMerger)


def merger_class_name(merger_class: type[HoodieRecordMerger]) -> str:
    """The name of a merger class as in configurations and tables: ``package.module.Class``."""
    return f"{merger_class.__module__}.{merger_class.__qualname__}"


def is_merger_class(candidate: object) -> TypeGuard[type[HoodieRecordMerger]]:
    """Whether the object is a merger class that can be imported by name and instantiated."""
    return (
        isinstance(candidate, type)
        and issubclass(candidate, HoodieRecordMerger)
        and not candidate.__abstractmethods__
        and "<locals>" not in candidate.__qualname__
    )
