"""Rows of Protobuf messages, by the runtime of Google."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.helpers.proto_columns import (
    MessageColumn,
    ProtoOptions,
    ProtoValueError,
    message_column,
)
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin

try:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
    from google.protobuf.message import DecodeError
except ImportError:  # an extra: hoodie[protobuf]
    descriptor_pb2 = None

_FRAME_BYTES = 5
_MAX_NESTING = 100
_MAX_PAYLOAD_BYTES = 1 << 20


@attrs.frozen(eq=False)
class _MessageType:
    """A type of messages.

    Attributes:
        parse: Makes a message of bytes.
        columns: The columns.
        path: The numbers of the type in its file, and in the types around it.
    """

    parse: Any
    columns: MessageColumn
    path: tuple[int, ...]


@attrs.frozen
class ProtoDecoder(MessageDecoder):
    """Makes rows of Protobuf messages. Picklable.

    Attributes:
        descriptors: The content of a descriptor set file.
        message_name: The full name of the messages' type.
        options: The choices of columns.
        is_framed: Whether messages begin with a zero, a schema id, and the place of their type in its file.
        origin: The file of the descriptors, for messages.
    """

    descriptors: bytes = attrs.field(repr=False)
    message_name: str
    options: ProtoOptions = attrs.field(factory=ProtoOptions)
    is_framed: bool = False
    origin: str = "the descriptor set"

    @property
    def schema(self) -> pa.Schema:
        """See `MessageDecoder.schema`."""
        return pa.schema(list(self._type.columns.data_type))

    @property
    def _type(self) -> _MessageType:
        return _message_type(self.descriptors, self.message_name, self.options, self.origin)

    def decode(self, messages: Messages) -> DecodedBatch:
        """Make rows of a block of messages; see `MessageDecoder.decode`.

        Args:
            messages: The messages.
        """
        found = self._type
        parsed, places = [], []
        bad: dict[int, str] = {}
        for place, value in enumerate(messages.values):
            if value is None:
                continue
            try:
                parsed.append(found.parse(self._content(value, found.path) if self.is_framed else value))
            except (DecodeError, ProtoValueError) as error:
                bad[place] = str(error) or "it is no message of this type"
            else:
                places.append(place)
        parts: list[pa.Array] = []
        good: list[int] = []
        self._collect(found.columns, parsed, places, parts, good, bad)
        schema = self.schema
        rows = pa.RecordBatch.from_pylist([], schema=schema)
        if parts:
            together = parts[0] if len(parts) == 1 else pa.concat_arrays(parts)
            rows = pa.RecordBatch.from_arrays(together.flatten(), schema=schema)
        offsets = messages.offsets[np.array(good, np.int64)]
        return DecodedBatch(
            rows,
            error_batch([self._event(messages, place, reason) for place, reason in sorted(bad.items())]),
            RowOrigin(offsets, messages.topic, messages.partition),
        )

    def _collect(
        self,
        columns: MessageColumn,
        parsed: Sequence[Any],
        places: Sequence[int],
        parts: list[pa.Array],
        good: list[int],
        bad: dict[int, str],
    ) -> None:
        """Make columns; a block with a bad value is cut into halves, until the message is found."""
        if not parsed:
            return
        try:
            parts.append(columns.array(parsed))
        except (ValueError, OverflowError, pa.ArrowException) as error:
            if len(parsed) == 1:
                bad[places[0]] = str(error)
                return
            half = len(parsed) // 2
            self._collect(columns, parsed[:half], places[:half], parts, good, bad)
            self._collect(columns, parsed[half:], places[half:], parts, good, bad)
        else:
            good.extend(places)

    def _content(self, value: bytes, path: tuple[int, ...]) -> bytes:
        """A message without its frame."""
        if len(value) <= _FRAME_BYTES or value[0]:
            raise ProtoValueError(
                "it does not begin with a zero, a schema id and the place of its type: it was written without the "
                "registry's serializer"
            )
        count, place = _number(value, _FRAME_BYTES)
        if not 0 <= count <= _MAX_NESTING:
            raise ProtoValueError("the place of its type is damaged")
        found = []
        for _ in range(count):
            number, place = _number(value, place)
            found.append(number)
        if tuple(found or [0]) != path:
            raise ProtoValueError(f"it is of another type than {self.message_name} in its file: number {found or [0]}")
        return value[place:]

    def _event(self, messages: Messages, place: int, reason: str) -> ErrorEvent:
        value = messages.values[place]
        return ErrorEvent(
            ErrorReason.AVRO_DESERIALIZATION_FAILURE,
            f"{self.message_name}: {reason}",
            None if value is None else value[:_MAX_PAYLOAD_BYTES],
            messages.topic,
            messages.partition,
            int(messages.offsets[place]),
        )


def require_protobuf() -> None:
    """See that the runtime of Protobuf is there.

    Raises:
        HoodieConfigException: It is missing.
    """
    if descriptor_pb2 is None:
        raise HoodieConfigException("ProtoKafkaSource needs protobuf: pip install 'hoodie[protobuf]'")


@functools.lru_cache(maxsize=16)
def _message_type(descriptors: bytes, message_name: str, options: ProtoOptions, origin: str) -> _MessageType:
    require_protobuf()
    files = descriptor_pb2.FileDescriptorSet()
    try:
        files.ParseFromString(descriptors)
        pool = descriptor_pool.DescriptorPool()
        for file in files.file:
            pool.AddSerializedFile(file.SerializeToString())
    except (DecodeError, TypeError, KeyError) as error:
        raise HoodieSchemaProviderException(
            f"{origin} is no descriptor set, or lacks files that its files import: {error}. Make it by protoc "
            "--include_imports --descriptor_set_out=FILE"
        ) from error
    try:
        descriptor = pool.FindMessageTypeByName(message_name)
    except KeyError as error:
        known = [f"{file.package}.{one.name}".lstrip(".") for file in files.file for one in file.message_type]
        raise HoodieSchemaProviderException(
            f"{origin} has no message {message_name}: it has {', '.join(known[:20]) or 'none'}"
        ) from error
    parse = message_factory.GetMessageClass(descriptor).FromString
    columns = message_column(descriptor, options, lambda inner: message_factory.GetMessageClass(inner)())
    return _MessageType(parse, columns, _path(descriptor))


def _path(descriptor: Any) -> tuple[int, ...]:
    """The numbers of a type in its file and in the types around it."""
    found: list[int] = []
    inner = descriptor
    while inner is not None:
        outer = inner.containing_type
        around = list(inner.file.message_types_by_name.values()) if outer is None else list(outer.nested_types)
        found.append([one.full_name for one in around].index(inner.full_name))
        inner = outer
    return tuple(reversed(found))


def _number(value: bytes, place: int) -> tuple[int, int]:
    """A number of the frame, and its end."""
    raw = 0
    for shift in range(0, 70, 7):
        if place >= len(value):
            break
        byte = value[place]
        place += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (raw >> 1) ^ -(raw & 1), place
    raise ProtoValueError("the place of its type is damaged")
