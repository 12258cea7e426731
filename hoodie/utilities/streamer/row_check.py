"""The look at decoded rows before they are written: rows that the table cannot store are errors of their messages.

A write refuses all of its rows for one whose key or partition path cannot be made. Here that row goes to the error
table, or its place is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.client.key_input import RecordKeysAlone
from hoodie.common.model.record_columns import IS_DELETED_FIELD
from hoodie.exception import HoodieKeyException, HoodieReadFromSourceException, HoodieSchemaException
from hoodie.keygen.base_key_generator import KeyGenerator
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch, shown_payload
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin
from hoodie.utilities.streamer.target_columns import with_columns

_SHOWN = 200


@attrs.frozen
class RowCheck:
    """The questions that every row has to pass. Picklable.

    Attributes:
        key_generator: Makes the keys and partition paths of the table, which each row must have; None where nobody
            asks, or where a user's class makes them: it is given rows as the table has them.
        max_key_bytes: The largest size of a key that may be written, in bytes; None for any.
        keeps_errors: Whether errors are kept, for the error table; otherwise the first one fails the round.
        keeps_misfits: Whether rows that do not fit the target schema are errors; otherwise they fail the round.
        ordering_fields: The ordering fields, each of which needs a value in every row.
        fields_of_deletes: Fields that each row that deletes needs a value in, or it does not reach its record.
        round_name: The position that the round began at: a part of the names of errors that have no other place.
    """

    key_generator: KeyGenerator | None = None
    max_key_bytes: int | None = None
    keeps_errors: bool = False
    keeps_misfits: bool = False
    ordering_fields: tuple[str, ...] = ()
    fields_of_deletes: tuple[str, ...] = ()
    round_name: str = ""

    def checked(self, decoded: DecodedBatch, target: pa.Schema | None = None) -> DecodedBatch:
        """A batch without the rows that cannot be stored, which are among its errors; with the target's columns.

        Args:
            decoded: The batch.
            target: The columns that the rows get; None for their own.

        Raises:
            HoodieReadFromSourceException: There is an error, and errors are not kept; it names the place and the way
                out.
            HoodieSchemaException: Rows do not fit the target schema, and are not kept as errors.
        """
        errors = [] if decoded.errors is None or not len(decoded.errors) else [decoded.errors]
        rows, origin = decoded.rows, decoded.origin
        for find in (self._unusable_keys, self._without_ordering, self._deletes_of_nothing):
            reasons = find(rows)
            if not reasons:
                continue
            errors.append(self._errors_of(rows, reasons, origin, ErrorReason.RECORD_CREATION))
            good = np.ones(len(rows), bool)
            good[list(reasons)] = False
            rows = rows.filter(pa.array(good))
            origin = None if origin is None else origin.filter(good)
        if target is not None:
            rows, origin = self._with_columns(rows, origin, target, errors)
        if not errors:
            return DecodedBatch(rows, None, origin)
        joined = pa.Table.from_batches(errors).combine_chunks().to_batches()[0]
        if not self.keeps_errors:
            raise failure_of(joined)
        return DecodedBatch(rows, joined, origin)

    def _unusable_keys(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The rows whose key or partition path cannot be stored: number of the row -> message."""
        found = self._keys_of(rows)
        if found is None:
            return {}
        generator, keys, paths = found
        reasons: dict[int, str] = {}
        if keys.null_count or paths.null_count:
            bad = pc.or_(keys.is_null(), paths.is_null())
            numbers = np.flatnonzero(bad)
            told: dict[int, list[str]] = {number: [] for number in numbers.tolist()}
            for problem in generator.problems(rows.filter(bad)):
                for number in numbers[np.flatnonzero(problem.rows)].tolist():
                    told[number].append(str(problem))
            reasons = {number: f"the record has no usable key: {'; '.join(texts)}" for number, texts in told.items()}
        for number in self._long_keys(rows, keys).tolist():
            if number not in reasons:
                size = len(keys[number].as_py().encode())
                reasons[number] = (
                    f"the record has a key of {size} bytes, and hoodie.write.record.key.max.bytes is "
                    f"{self.max_key_bytes}"
                )
        return dict(sorted(reasons.items()))

    def _keys_of(self, rows: pa.RecordBatch) -> tuple[KeyGenerator, pa.Array, pa.Array] | None:
        """The keys and paths of rows, and what made them; None if a field is no column, which the write tells."""
        if self.key_generator is None:
            return None
        # A delete from a table with a global index may lack the partition fields.
        alone = RecordKeysAlone(
            key_generator=self.key_generator, record_key_fields=self.key_generator.record_key_fields
        )
        for generator in (self.key_generator, alone):
            try:
                return generator, generator.record_keys(rows), generator.partition_paths(rows)
            except HoodieKeyException:
                continue
        return None

    def _long_keys(self, rows: pa.RecordBatch, keys: pa.Array) -> npt.NDArray[np.int64]:
        """The numbers of the rows to write whose keys are too long; such records can be deleted."""
        if self.max_key_bytes is None:
            return np.array([], np.int64)
        is_long = pc.greater(pc.binary_length(keys), self.max_key_bytes).fill_null(False)
        if not pc.any(is_long).as_py():
            return np.array([], np.int64)
        deletes = _column(rows, IS_DELETED_FIELD)
        if deletes is not None and pa.types.is_boolean(deletes.type):
            is_long = pc.and_not(is_long, deletes.fill_null(False))
        return np.flatnonzero(is_long)

    def _without_ordering(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The rows that lack a value of an ordering field: number of the row -> message; none if one is no column."""
        lacking: Any = None
        for field in self.ordering_fields:
            column = _column(rows, field)
            if column is None:
                return {}
            lacking = pc.is_null(column) if lacking is None else pc.or_(lacking, pc.is_null(column))
        if lacking is None or not pc.any(lacking).as_py():
            return {}
        message = f"the record has no value for its ordering ({', '.join(self.ordering_fields)})"
        return dict.fromkeys(np.flatnonzero(lacking).tolist(), message)

    def _deletes_of_nothing(self, rows: pa.RecordBatch) -> dict[int, str]:
        """The rows that delete and do not tell where their record is: number of the row -> message."""
        deletes = _column(rows, IS_DELETED_FIELD)
        if not self.fields_of_deletes or deletes is None or not pa.types.is_boolean(deletes.type):
            return {}
        reasons: dict[int, str] = {}
        for field in self.fields_of_deletes:
            column = _column(rows, field)
            lacking = deletes if column is None else pc.and_(deletes, pc.is_null(column))
            message = f"the row deletes and has no value in the partition field {field}, so it finds no record"
            reasons |= dict.fromkeys(np.flatnonzero(lacking.fill_null(False)).tolist(), message)
        return dict(sorted(reasons.items()))

    def _with_columns(
        self, rows: pa.RecordBatch, origin: RowOrigin | None, target: pa.Schema, errors: list[pa.RecordBatch]
    ) -> tuple[pa.RecordBatch, RowOrigin | None]:
        try:
            return with_columns(rows, target), origin
        except HoodieSchemaException:
            if not self.keeps_misfits:
                raise
        reasons: dict[int, str] = {}
        fitting = []
        for number in range(len(rows)):
            try:
                fitting.append(with_columns(rows.slice(number, 1), target))
            except HoodieSchemaException as error:
                reasons[number] = str(error)
        errors.append(self._errors_of(rows, reasons, origin, ErrorReason.INVALID_RECORD_SCHEMA))
        mask = np.array([number not in reasons for number in range(len(rows))], bool)
        fit = pa.Table.from_batches(fitting, target).combine_chunks().to_batches()
        kept = fit[0] if fit else pa.RecordBatch.from_pylist([], schema=target)
        return kept, None if origin is None else origin.filter(mask)

    def _errors_of(
        self, rows: pa.RecordBatch, reasons: Mapping[int, str], origin: RowOrigin | None, reason: ErrorReason
    ) -> pa.RecordBatch:
        """The errors of some rows: number of the row -> message."""
        events = []
        chosen = rows.take(pa.array(list(reasons), pa.int64())).to_pylist()
        for (number, message), row in zip(reasons.items(), chosen, strict=True):
            payload = json.dumps(row, default=str, ensure_ascii=False)
            if origin is not None:
                events.append(origin.event(number, reason, message, payload))
                continue
            name = f"{self.round_name}\n{number} of {len(rows)}\n{payload}"
            digest = hashlib.sha256((shown_payload(name) or "").encode()).hexdigest()[:32]
            events.append(ErrorEvent(reason, message, payload, key=digest))
        found = error_batch(events)
        assert found is not None
        return found


def failure_of(errors: pa.RecordBatch) -> HoodieReadFromSourceException:
    """The error of a round for rows that could not be decoded, where there is no error table.

    Args:
        errors: The errors; the first one is named.
    """
    first = errors.slice(0, 1).to_pylist()[0]
    event = ErrorEvent(
        ErrorReason(first["reason"]), first["message"], first["payload"], first["topic"], first["partition"],
        first["offset"], first["file"], first["line"], first["error_id"],
    )  # fmt: skip
    payload = event.payload or ""
    shown = payload if len(payload) <= _SHOWN else f"{payload[: _SHOWN - 3]!s}..."
    return HoodieReadFromSourceException(
        f"{event.place}: {event.message} ({event.reason}): {shown!r}. Nothing of this round was committed. To keep "
        "such records aside and go on, give --hoodie-conf hoodie.errortable.enable=true"
    )


def _column(rows: pa.RecordBatch, field: str) -> pa.Array | None:
    names = [field] if field in rows.schema.names else field.split(".")
    if names[0] not in rows.schema.names:
        return None
    column = rows.column(names[0])
    for name in names[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return column
