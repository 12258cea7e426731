"""Records at the edges of hoodie: the public API takes and gives them, pipelines use Arrow batches.

Hudi: org.apache.hudi.common.model.{HoodieKey, HoodieRecord, HoodieRecordLocation}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.exception import HoodieConfigException

__all__ = ["HoodieKey", "HoodieRecord", "HoodieRecordLocation"]


@attrs.frozen
class HoodieKey:
    """What identifies a record: its key, and the partition it lives in ("" in a table without partitions)."""

    record_key: str
    partition_path: str = ""


@attrs.frozen
class HoodieRecordLocation:
    """Where a record lives: the file group, and the instant of the base file it was found in.

    Attributes:
        instant_time: The instant.
        file_id: The file group's id.
        position: The row in the base file, from 0; None where it is not known, or where all rows are meant.
    """

    instant_time: str
    file_id: str
    position: int | None = None


def _operation(value: RecordOperation | int | str) -> RecordOperation:
    """The operation of a name (``delete``), of Hudi's short name (``I``, ``U``, ``D``) or of a number."""
    named = _OPERATIONS.get(value.upper(), value) if isinstance(value, str) else value
    try:
        return RecordOperation(int(named))
    except ValueError:
        raise HoodieConfigException(
            f"operation {value!r} of a record is not one of insert, update, upsert, delete (or I, U, D)"
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
        key: The key; the table's key generator is not asked again, and the columns in ``data`` are not compared with
            it (nor does Hudi): a key that they contradict lives beside the one that they say.
        data: Column name to Python value; {} for a delete.
        ordering_value: Decides between records of one key; None leaves it to the ordering column in ``data``.
        operation: Insert, update (both are an upsert to hoodie) or delete.
        current_location: Where the record lives, None for a new one; the prepped operations ask for it.
    """

    key: HoodieKey
    data: Mapping[str, Any] = attrs.field(factory=dict)
    ordering_value: Any = None
    operation: RecordOperation = attrs.field(default=RecordOperation.UPSERT, converter=_operation)
    current_location: HoodieRecordLocation | None = None
