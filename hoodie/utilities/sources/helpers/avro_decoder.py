"""Rows of Avro messages.

A message of a schema registry has a frame: a zero, four bytes with the id of the schema it was written with, and the
Avro record. Messages are grouped by that id, and each group is decoded a column at a time, as records of the one schema
that all rows have. A bare message has no frame, and all are written with one schema.

    00 0000 0007 | 0c ...      schema 7, then the record
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from typing import Any, Protocol

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.avro.columnar_decoder import DecodedRecords, decode_resolved
from hoodie.avro.datum_reader import read_datums
from hoodie.avro.schema_converters import remove_meta_columns
from hoodie.avro.schema_resolution import resolved_columns
from hoodie.exception import HoodieReadFromSourceException, HoodieSchemaException
from hoodie.utilities.config.avro_kafka_source_config import DESERIALIZER_CLASS
from hoodie.utilities.config.schema_registry_config import REGISTRY_URL
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.schema.schema_registry_client import AVRO, RegisteredSchema, UnknownSchemaException
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin

Longs = npt.NDArray[np.int64]

_FRAME_BYTES = 5
_PIECE_BYTES = 64 << 20
"""Messages are copied into one buffer, up to so many bytes at a time."""
_MAX_PAYLOAD_BYTES = 1 << 20
_MAX_JSON_BYTES = 1 << 16
_MAX_UNKNOWN = 1000
_MAX_JSON_TEXTS = 1000
"""The JSON texts of bad messages are made one by one; of many or large ones, the bytes must do."""


@attrs.frozen
class _Bad:
    """The reason why a message is bad.

    Attributes:
        reason: The reason.
        schema: The schema that it was written with, if it is known.
        start: The place of its record.
    """

    reason: str
    schema: str | None = None
    start: int = 0


@attrs.frozen(eq=False)
class _Piece:
    """Rows of some messages.

    Attributes:
        rows: The good ones, in the order of the messages.
        good: The numbers of their messages.
        bad: The others, by the numbers of their messages.
    """

    rows: pa.RecordBatch
    good: Longs
    bad: dict[int, _Bad]


class SchemasOfIds(Protocol):
    """Knows the schemas that messages name, as `SchemaRegistryClient` does."""

    def load_schema(self, schema_id: int) -> RegisteredSchema:
        """See `SchemaRegistryClient.load_schema`.

        Args:
            schema_id: The id.
        """


class AvroDecoder(MessageDecoder):
    """Makes rows of Avro messages. Picklable.

    Args:
        wanted_schema: The schema of the rows, as JSON of an Avro record; meta columns of a table are left out.
        client: The schema registry that has the schemas of messages; None for bare messages.
        written_schema: The schema of bare messages; the one of the rows by default.

    Raises:
        HoodieSchemaException: The schema has no Arrow schema.
    """

    def __init__(
        self, wanted_schema: str, client: SchemasOfIds | None = None, written_schema: str | None = None
    ) -> None:
        self._wanted_schema = remove_meta_columns(wanted_schema)
        self._client = client
        self._written_schema = wanted_schema if written_schema is None else written_schema
        self._schema = resolved_columns(self._wanted_schema)

    @property
    def schema(self) -> pa.Schema:
        """See `MessageDecoder.schema`."""
        return self._schema

    def decode(self, messages: Messages) -> DecodedBatch:
        """Make rows of a block of messages; see `MessageDecoder.decode`.

        Args:
            messages: The messages.

        Raises:
            HoodieSourceTimeoutException: The schema registry does not answer.
            HoodieSchemaProviderException: The schema registry refuses to answer.
            HoodieReadFromSourceException: The registry knows none of very many schemas: the messages are not its own.
        """
        values = messages.values
        present = np.array([number for number, value in enumerate(values) if value is not None], np.int64)
        contents = [value for value in values if value is not None]
        where = f"topic {messages.topic}, partition {messages.partition}"
        pieces = [
            (present[first:until], contents[first:until], self._decode_piece(contents[first:until], where))
            for first, until in _pieces(contents)
        ]
        events = [
            ErrorEvent(
                ErrorReason.AVRO_DESERIALIZATION_FAILURE,
                bad.reason,
                _payload(some[number], bad, is_text=place < _MAX_JSON_TEXTS),
                messages.topic,
                messages.partition,
                int(messages.offsets[numbers[number]]),
            )
            for numbers, some, piece in pieces
            for place, (number, bad) in enumerate(sorted(piece.bad.items()))
        ]
        rows = _one_batch([piece.rows for *_, piece in pieces], self._schema)
        kept = [numbers[piece.good] for numbers, _, piece in pieces] or [np.empty(0, np.int64)]
        offsets = messages.offsets[np.concatenate(kept)]
        return DecodedBatch(rows, error_batch(events), RowOrigin(offsets, messages.topic, messages.partition))

    def _decode_piece(self, contents: list[bytes], where: str) -> _Piece:
        content = b"".join(contents)
        ends = np.cumsum(np.fromiter(map(len, contents), np.int64, len(contents)))
        starts = np.concatenate([[0], ends[:-1]]).astype(np.int64)
        if self._client is None:
            everything = np.arange(len(contents))
            return self._joined([self._group(self._written_schema, content, starts, ends, everything, "", 0)], {})
        data = np.frombuffer(content, np.uint8)
        is_framed = ends - starts >= _FRAME_BYTES
        framed = np.flatnonzero(is_framed)
        is_framed[framed] = data[starts[framed]] == 0
        framed = np.flatnonzero(is_framed)
        bad: dict[int, _Bad] = {
            number: _Bad(_no_frame(contents[number])) for number in np.flatnonzero(~is_framed).tolist()
        }
        ids = data[(starts[framed] + 1)[:, None] + np.arange(4)].view(">i4").ravel().astype(np.int64)
        groups: list[_Piece] = []
        unknown = 0
        # The most frequent one first.
        found, counts = np.unique(ids, return_counts=True)
        for schema_id in found[np.argsort(-counts, kind="stable")].tolist():
            places = framed[ids == schema_id]
            written, reason = self._schema_of(schema_id)
            if written is None:
                bad |= dict.fromkeys(places.tolist(), _Bad(reason))
                unknown += 1
                if unknown > _MAX_UNKNOWN and not groups:
                    raise HoodieReadFromSourceException(
                        f"The registry lacks all of {unknown} schema ids of messages of {where}: they are not written "
                        f"with {self._client!r}. Correct {REGISTRY_URL}; or set {DESERIALIZER_CLASS} = "
                        "ByteArrayDeserializer for bare Avro messages"
                    )
                continue
            told = f"schema {schema_id}: "
            groups.append(self._group(written, content, starts, ends, places, told, _FRAME_BYTES))
        return self._joined(groups, bad)

    def _schema_of(self, schema_id: int) -> tuple[str | None, str]:
        """The schema of an id, or the reason why there is none."""
        assert self._client is not None
        try:
            found = self._client.load_schema(schema_id)
        except UnknownSchemaException as error:
            return None, f"schema {schema_id}: {error}"
        if found.schema_type != AVRO:
            return None, f"schema {schema_id} is one of {found.schema_type}, not of Avro"
        return found.schema, ""

    def _group(
        self, written: str, content: bytes, starts: Longs, ends: Longs, places: Longs, told: str, frame_bytes: int
    ) -> _Piece:
        """The rows of the messages of one schema."""
        begins = starts[places] + frame_bytes
        try:
            found: DecodedRecords = decode_resolved(written, self._wanted_schema, content, begins, ends[places])
        except HoodieSchemaException as error:
            reason = f"{told}it cannot be read as the schema of the source: {error}"
            return _Piece(
                _no_rows(self._schema), places[:0], dict.fromkeys(places.tolist(), _Bad(reason, written, frame_bytes))
            )
        bad = {
            int(places[number]): _Bad(f"{told}{found.reason(int(number))}", written, frame_bytes)
            for number in found.bad
        }
        return _Piece(found.rows, places[found.reason_of < 0], bad)

    def _joined(self, groups: list[_Piece], bad: dict[int, _Bad]) -> _Piece:
        """All groups, in the order of the messages."""
        for group in groups:
            bad |= group.bad
        if len(groups) == 1:
            return _Piece(groups[0].rows, groups[0].good, bad)
        if not groups:
            return _Piece(_no_rows(self._schema), np.empty(0, np.int64), bad)
        good = np.concatenate([group.good for group in groups])
        order = np.argsort(good, kind="stable")
        rows = _one_batch([group.rows for group in groups], self._schema)
        return _Piece(rows.take(pa.array(order)), good[order], bad)


def _pieces(contents: list[bytes]) -> Iterator[tuple[int, int]]:
    """The bounds of messages that have a bounded size together."""
    first = size = 0
    for number, content in enumerate(contents):
        if size and size + len(content) > _PIECE_BYTES:
            yield first, number
            first, size = number, 0
        size += len(content)
    if first < len(contents):
        yield first, len(contents)


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)


def _one_batch(batches: list[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    found = pa.Table.from_batches(batches, schema).combine_chunks().to_batches()
    return found[0] if found else _no_rows(schema)


def _no_frame(content: bytes) -> str:
    if len(content) < _FRAME_BYTES:
        return (
            f"it has {len(content)} bytes, and a message of a schema registry begins with a zero and a schema id of "
            "four bytes"
        )
    return (
        f"it begins with the byte {content[0]:#04x}, and a message of a schema registry with a zero and a schema id: "
        "it was written without the registry's serializer"
    )


def _payload(content: bytes, bad: _Bad, is_text: bool) -> bytes | str:
    """JSON of a bad message, if Avro can read it; its bytes otherwise."""
    if bad.schema is not None and is_text and len(content) <= _MAX_JSON_BYTES:
        try:
            [record] = read_datums(bad.schema, [content[bad.start :]])
            return json.dumps(record, default=_json_value, ensure_ascii=False)
        except Exception:  # Of many classes: the message is damaged.
            pass
    if len(content) <= _MAX_PAYLOAD_BYTES:
        return content
    return content[:_MAX_PAYLOAD_BYTES] + f"... ({len(content)} bytes)".encode()


def _json_value(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    return str(value)
