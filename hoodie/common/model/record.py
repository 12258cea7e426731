"""Records at the edges of hoodie: the public API takes and returns them, pipelines use Arrow batches.

Hudi: org.apache.hudi.common.model.{HoodieKey, HoodieRecord, HoodieRecordLocation}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.util.shown_value import short_repr
from hoodie.exception import HoodieConfigException


@attrs.frozen
class HoodieKey:
    """The identity of a record: its key, and the partition it is in ("" in a table without partitions)."""

    record_key: str
    partition_path: str = ""


@attrs.frozen
class HoodieRecordLocation:
    """The place of a record: the file group, and the instant of the base file in which it was found.

    Attributes:
        instant_time: The instant.
        file_id: The file group's id.
        position: The row in the base file, from 0; None if it is unknown, or if all rows are meant.
    """

    instant_time: str
    file_id: str
    position: int | None = None


def _operation(value: RecordOperation | int | str) -> RecordOperation:
    """Parse an operation from its name (``delete``), Hudi's short name (``I``, ``U``, ``D``) or a number."""
    named = _OPERATIONS.get(value.upper(), value) if isinstance(value, str) else value
    try:
        return RecordOperation(int(named))
    except ValueError:
        raise HoodieConfigException(
            f"operation {short_repr(value)} of a record is not one of insert, update, upsert, delete (or I, U, D)"
        ) from None


_OPERATIONS = {
    "I": RecordOperation.UPSERT,
    "INSERT": RecordOperation.UPSERT,
    "U": RecordOperation.UPSERT,
    "UPDATE": RecordOperation.UPSERT,
    "UPSERT": RecordOperation.UPSERT,
    "D": RecordOperation.DELETE,
    "DELETE": RecordOperation.DELETE,
}


@attrs.frozen
class HoodieRecord:
    """One record with its key.

    Attributes:
        key: The key. The table's key generator is not called, and the columns in ``data`` are not compared with the key
            (nor does Hudi): if they contradict it, the record is stored under this key, beside the other key.
        data: Column name -> Python value; {} for a delete.
        ordering_value: Decides between records with the same key; None: the ordering column in ``data`` decides.
        operation: Insert, update (both are an upsert in hoodie) or delete.
        current_location: The place of the stored record, None for a new one; the prepped operations need it.
    """

    key: HoodieKey
    data: Mapping[str, Any] = attrs.field(factory=dict)
    ordering_value: Any = None
    operation: RecordOperation = attrs.field(default=RecordOperation.UPSERT, converter=_operation)
    current_location: HoodieRecordLocation | None = None
