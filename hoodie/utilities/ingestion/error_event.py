"""Messages and lines that could not be made rows, as rows of the error table.

Hudi: org.apache.hudi.utilities.streamer.ErrorEvent (payload and reason). Differs: an event also says where it is from.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final

import attrs
import pyarrow as pa


class ErrorReason(StrEnum):
    """Hudi's reasons (``ErrorEvent.ErrorReason``)."""

    JSON_AVRO_DESERIALIZATION_FAILURE = "JSON_AVRO_DESERIALIZATION_FAILURE"
    JSON_ROW_DESERIALIZATION_FAILURE = "JSON_ROW_DESERIALIZATION_FAILURE"
    AVRO_DESERIALIZATION_FAILURE = "AVRO_DESERIALIZATION_FAILURE"
    HUDI_WRITE_FAILURES = "HUDI_WRITE_FAILURES"
    CUSTOM_TRANSFORMER_FAILURE = "CUSTOM_TRANSFORMER_FAILURE"
    INVALID_RECORD_SCHEMA = "INVALID_RECORD_SCHEMA"
    RECORD_CREATION = "RECORD_CREATION"


ERROR_SCHEMA: Final = pa.schema(
    [
        pa.field("error_id", pa.string(), nullable=False),
        pa.field("reason", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("payload", pa.string()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
    ]
)
"""The columns of an error.

``error_id`` names the message (``topic/partition/offset``, ``file:line``): the same message has the same one in each
run. ``payload`` is its text; bytes that are not UTF-8 are written as ``\\xNN``.
"""


@attrs.frozen
class ErrorEvent:
    """One message or line that could not be made a row.

    Attributes:
        reason: Hudi's reason.
        message: The details: which field, which value, for a person.
        payload: The bytes or the text, as it came; None if it had none.
        topic: The topic of Kafka.
        partition: The partition of the topic.
        offset: The offset in the partition.
        file: The path of the file.
        line: The line in the file, from 1 on.
        key: The error_id of an event that is neither a message nor a line.
    """

    reason: ErrorReason
    message: str
    payload: bytes | str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    file: str | None = None
    line: int | None = None
    key: str | None = None

    @property
    def error_id(self) -> str:
        """The name of the message, the same in each run."""
        if self.key is not None:
            return self.key
        if self.topic is not None:
            return f"{self.topic}/{self.partition}/{self.offset}"
        return f"{self.file}:{self.line}"

    @property
    def place(self) -> str:
        """The place of the message, for error messages."""
        if self.topic is not None:
            return f"topic {self.topic}, partition {self.partition}, offset {self.offset}"
        if self.file is not None:
            return self.file if self.line is None else f"{self.file}, line {self.line}"
        return f"record {self.key}"


def error_batch(events: Sequence[ErrorEvent]) -> pa.RecordBatch | None:
    """Errors as a batch of `ERROR_SCHEMA`.

    Args:
        events: The errors.

    Returns:
        The batch; None without errors.
    """
    if not events:
        return None
    return pa.RecordBatch.from_pylist(
        [
            {
                "error_id": event.error_id, "reason": event.reason.value, "message": event.message,
                "payload": shown_payload(event.payload), "topic": event.topic, "partition": event.partition,
                "offset": event.offset, "file": event.file, "line": event.line,
            }
            for event in events
        ],
        schema=ERROR_SCHEMA,
    )  # fmt: skip


def shown_payload(payload: bytes | str | None) -> str | None:
    r"""The text of a payload; bytes that are not UTF-8 become ``\xNN``.

    Args:
        payload: The payload.
    """
    if payload is None or isinstance(payload, str):
        return payload if payload is None else payload.encode("utf-8", "backslashreplace").decode("utf-8")
    return payload.decode("utf-8", "backslashreplace")
