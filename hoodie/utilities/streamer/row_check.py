"""The look at decoded rows before they are written: rows without a key are errors of their messages.

A write refuses all of its rows for one without a key. Here that row goes to the error table, or its place is named.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieReadFromSourceException, HoodieSchemaException
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch, shown_payload
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin
from hoodie.utilities.streamer.target_columns import with_columns

_SHOWN = 200


@attrs.frozen
class RowCheck:
    """The questions that every row has to pass. Picklable.

    Attributes:
        key_fields: The fields of the record key; none where a user's class makes the keys. A row needs a value in one
            of them that is not empty text.
        keeps_errors: Whether errors are kept, for the error table; otherwise the first one fails the round.
        keeps_misfits: Whether rows that do not fit the target schema are errors; otherwise they fail the round.
        ordering_fields: The ordering fields, each of which needs a value in every row.
        round_name: The position that the round began at: a part of the names of errors that have no other place.
    """

    key_fields: tuple[str, ...] = ()
    keeps_errors: bool = False
    keeps_misfits: bool = False
    ordering_fields: tuple[str, ...] = ()
    round_name: str = ""

    def checked(self, decoded: DecodedBatch, target: pa.Schema | None = None) -> DecodedBatch:
        """A batch without the rows that lack a key, which are among its errors; with the columns of the target schema.

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
        for what, fields, lacking_of in (
            ("key", self.key_fields, _without_key),
            ("ordering", self.ordering_fields, _without_ordering),
        ):
            lacking = lacking_of(rows, fields)
            if lacking is None:
                continue
            message = f"the record has no value for its {what} ({', '.join(fields)})"
            reasons = dict.fromkeys(np.flatnonzero(lacking).tolist(), message)
            errors.append(self._errors_of(rows, reasons, origin, ErrorReason.RECORD_CREATION))
            rows = rows.filter(pa.array(~lacking))
            origin = None if origin is None else origin.filter(~lacking)
        if target is not None:
            rows, origin = self._with_columns(rows, origin, target, errors)
        if not errors:
            return DecodedBatch(rows, None, origin)
        joined = pa.Table.from_batches(errors).combine_chunks().to_batches()[0]
        if not self.keeps_errors:
            raise failure_of(joined)
        return DecodedBatch(rows, joined, origin)

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


def _without_key(rows: pa.RecordBatch, key_fields: Sequence[str]) -> npt.NDArray[np.bool_] | None:
    """The rows that lack a key, as a mask; None if none does, or if a field is not a column, which the write tells."""
    lacking: Any = None
    for field in key_fields:
        column = _column(rows, field)
        if column is None:
            return None
        is_empty = pc.is_null(column)
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            is_empty = pc.or_(is_empty, pc.fill_null(pc.equal(column, ""), True))
        lacking = is_empty if lacking is None else pc.and_(lacking, is_empty)
    if lacking is None or not pc.any(lacking).as_py():
        return None
    found: npt.NDArray[np.bool_] = lacking.to_numpy(zero_copy_only=False)
    return found


def _without_ordering(rows: pa.RecordBatch, ordering_fields: Sequence[str]) -> npt.NDArray[np.bool_] | None:
    """The rows that lack a value of an ordering field, as a mask; None if none does, or if a field is no column."""
    lacking: Any = None
    for field in ordering_fields:
        column = _column(rows, field)
        if column is None:
            return None
        lacking = pc.is_null(column) if lacking is None else pc.or_(lacking, pc.is_null(column))
    if lacking is None or not pc.any(lacking).as_py():
        return None
    found: npt.NDArray[np.bool_] = lacking.to_numpy(zero_copy_only=False)
    return found


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
