"""Avro messages as a schema registry's serializer writes them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

import fastavro
import numpy as np

from hoodie.utilities.sources.helpers.message_decoder import Messages

TRIP: dict[str, Any] = {
    "type": "record",
    "name": "trip",
    "fields": [
        {"name": "uuid", "type": "string"},
        {"name": "fare", "type": ["null", "double"], "default": None},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": []},
    ],
}


def datum(schema: dict[str, Any], row: dict[str, Any]) -> bytes:
    """A bare record."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return out.getvalue()


def framed(schema_id: int, content: bytes) -> bytes:
    """A record with its frame."""
    return b"\0" + schema_id.to_bytes(4, "big") + content


def messages_of(values: Sequence[bytes | None], first_offset: int = 100) -> Messages:
    """Messages of one partition; offsets have gaps, as those of a compacted topic."""
    count = len(values)
    return Messages(
        "trips", 3, first_offset + 2 * np.arange(count), values, [None] * count, np.full(count, -1, np.int64)
    )
