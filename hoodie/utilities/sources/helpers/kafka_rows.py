"""Rows of Kafka's messages with more columns than their values have: where they are from, and deletes of tombstones."""

from __future__ import annotations

import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.config.kafka_source_config import KafkaSourceConfig, Tombstones
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch, shown_payload
from hoodie.utilities.sources.helpers.kafka_received import MessageParts
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.source import DecodedBatch, RowOrigin

OFFSET_COLUMN: Final = "_hoodie_kafka_source_offset"
PARTITION_COLUMN: Final = "_hoodie_kafka_source_partition"
TIMESTAMP_COLUMN: Final = "_hoodie_kafka_source_timestamp"
KEY_COLUMN: Final = "_hoodie_kafka_source_key"
SOURCE_COLUMNS: Final = (OFFSET_COLUMN, PARTITION_COLUMN, TIMESTAMP_COLUMN, KEY_COLUMN)
DELETED_COLUMN: Final = "_hoodie_is_deleted"
_HEADERS: Final = pa.map_(pa.string(), pa.string())


@attrs.frozen
class KafkaColumns:
    """The columns that are added to those of the values.

    Attributes:
        append_offsets: Whether the four columns of Hudi are.
        key_column: The name of a column for the key; None for none.
        headers_column: The name of a column for the headers; None for none.
        key_fields: The fields of the record key, which the keys of tombstones fill; none to drop tombstones.

    Names and types of the four are those of Hudi's KafkaOffsetPostProcessor.
    """

    append_offsets: bool = False
    key_column: str | None = None
    headers_column: str | None = None
    key_fields: tuple[str, ...] = ()

    @classmethod
    def of(cls, config: KafkaSourceConfig, key_fields: Sequence[str]) -> KafkaColumns:
        """The columns that properties ask for.

        Args:
            config: The properties.
            key_fields: The fields of the record key.

        Raises:
            HoodieConfigException: Tombstones are to be deletes, and there is no record key.
        """
        if config.tombstones is Tombstones.DELETE and not key_fields:
            raise HoodieConfigException(
                "hoodie.streamer.source.kafka.tombstones = delete needs hoodie.datasource.write.recordkey.field: the "
                "fields that the key of a message fills"
            )
        deletes = config.tombstones is Tombstones.DELETE
        return cls(
            config.append_offsets, config.key_column, config.headers_column, tuple(key_fields) if deletes else ()
        )

    @property
    def parts(self) -> MessageParts:
        """The parts of messages that these columns need."""
        keys = self.append_offsets or self.key_column is not None or bool(self.key_fields)
        return MessageParts(keys, self.append_offsets, self.headers_column is not None)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is added."""
        return self == KafkaColumns()

    @property
    def added(self) -> list[pa.Field]:
        """The columns, but for that of deletes."""
        found = []
        if self.append_offsets:
            found += [
                pa.field(OFFSET_COLUMN, pa.int64()),
                pa.field(PARTITION_COLUMN, pa.int32()),
                pa.field(TIMESTAMP_COLUMN, pa.int64()),
                pa.field(KEY_COLUMN, pa.string()),
            ]
        if self.key_column is not None:
            found.append(pa.field(self.key_column, pa.string()))
        if self.headers_column is not None:
            found.append(pa.field(self.headers_column, _HEADERS))
        return found

    def target_columns(self, target: pa.Schema, is_own: bool) -> pa.Schema:
        """The columns of a target schema, so that deletes of tombstones, and columns that are asked for, are kept.

        Args:
            target: The columns.
            is_own: Whether they are those of the values, and no transformer changes the rows. Otherwise they alone say
                which of the added columns are wanted.
        """
        fields = list(target)
        if self.key_fields:
            fields = [field if field.name in self.key_fields else field.with_nullable(True) for field in fields]
            if DELETED_COLUMN not in target.names:
                fields.append(pa.field(DELETED_COLUMN, pa.bool_()))
        if is_own:
            fields += [field for field in self.added if field.name not in target.names]
        return pa.schema(fields)


@attrs.frozen
class KafkaRows:
    """Makes rows with all columns of messages. Picklable.

    Attributes:
        decoder: The decoder of the values.
        columns: The columns that are added.
    """

    decoder: MessageDecoder
    columns: KafkaColumns

    @property
    def schema(self) -> pa.Schema:
        """The columns of all rows.

        Raises:
            HoodieConfigException: A column to add is one of the values; or a field of the record key is no column.
        """
        fields = list(self.decoder.schema)
        names = {field.name for field in fields}
        if self.columns.key_fields:
            # A tombstone has no values but those of the key.
            fields = [field if field.name in self.columns.key_fields else field.with_nullable(True) for field in fields]
            lacking = [name for name in self.columns.key_fields if name not in names]
            if lacking:
                raise HoodieConfigException(
                    f"hoodie.streamer.source.kafka.tombstones = delete: the record key field {lacking[0]!r} is not a "
                    f"column of the messages ({', '.join(sorted(names))})"
                )
            if DELETED_COLUMN not in names:
                fields.append(pa.field(DELETED_COLUMN, pa.bool_()))
        taken = [field.name for field in self.columns.added if field.name in names]
        if taken and not set(taken) <= set(SOURCE_COLUMNS):
            raise HoodieConfigException(
                f"the column {taken[0]!r} for keys or headers of messages is one of their values: give it another name"
            )
        return pa.schema([field for field in fields if field.name not in taken] + self.columns.added)

    def decode(self, messages: Messages) -> DecodedBatch:
        """Make rows of a block of messages, in their order.

        Args:
            messages: The messages.

        Raises:
            HoodieReadFromSourceException: The decoder does not tell which message a row is of.
        """
        decoded = self.decoder.decode(messages)
        if self.columns.is_empty:
            return decoded
        if decoded.origin is None:
            raise HoodieReadFromSourceException(
                f"{type(self.decoder).__name__} does not tell which message a row is of: columns of messages cannot be "
                "added"
            )
        places = np.searchsorted(messages.offsets, decoded.origin.numbers)
        deletes, delete_places, events = self._deletes(messages)
        schema = self.schema
        rows = self._with_columns(decoded.rows, messages, places, schema, is_deleted=False)
        if len(delete_places):
            more = self._with_columns(deletes, messages, delete_places, schema, is_deleted=True)
            places = np.concatenate([places, delete_places])
            joined = pa.Table.from_batches([rows, more]).combine_chunks().to_batches()[0]
            order = np.argsort(places, kind="stable")
            rows, places = joined.take(pa.array(order)), places[order]
        errors = [batch for batch in (decoded.errors, error_batch(events)) if batch is not None]
        joined_errors = pa.Table.from_batches(errors).combine_chunks().to_batches()[0] if errors else None
        origin = RowOrigin(messages.offsets[places], messages.topic, messages.partition)
        return DecodedBatch(rows, joined_errors, origin)

    def _with_columns(
        self,
        rows: pa.RecordBatch,
        messages: Messages,
        places: npt.NDArray[np.int64],
        schema: pa.Schema,
        is_deleted: bool,
    ) -> pa.RecordBatch:
        found = dict(zip(rows.schema.names, rows.columns, strict=True))
        if self.columns.key_fields and DELETED_COLUMN not in found:
            found[DELETED_COLUMN] = pa.array(np.full(len(places), is_deleted))
        if self.columns.append_offsets:
            found[OFFSET_COLUMN] = pa.array(messages.offsets[places])
            found[PARTITION_COLUMN] = pa.array(np.full(len(places), messages.partition, np.int32))
            found[TIMESTAMP_COLUMN] = pa.array(messages.timestamps_ms[places])
        keys = [name for name, is_wanted in ((KEY_COLUMN, self.columns.append_offsets),) if is_wanted]
        keys += [self.columns.key_column] if self.columns.key_column is not None else []
        if keys:
            texts = pa.array([shown_payload(messages.keys[place]) for place in places], pa.string())
            found |= dict.fromkeys(keys, texts)
        if self.columns.headers_column is not None:
            headers = messages.headers or [None] * len(messages)
            found[self.columns.headers_column] = pa.array([_headers(headers[place]) for place in places], _HEADERS)
        return pa.RecordBatch.from_arrays([found[field.name] for field in schema], schema=schema)

    def _deletes(self, messages: Messages) -> tuple[pa.RecordBatch, npt.NDArray[np.int64], list[ErrorEvent]]:
        """Rows of the decoder's columns that delete, the numbers of their messages, and keys that are none."""
        rows: list[dict[str, Any]] = []
        places: list[int] = []
        events: list[ErrorEvent] = []
        values: list[pa.Array] = []
        schema = self.decoder.schema
        for place, value in enumerate(messages.values):
            if value is not None or not self.columns.key_fields:
                continue
            try:
                found = self._record_key(messages.keys[place])
                # Converted here, so that a wrong key is told by its message.
                for name, part in found.items():
                    pa.array([part], schema.field(name).type)
            except (ValueError, TypeError, ArithmeticError, RecursionError, pa.ArrowException) as error:
                told = "it is nested too deeply" if isinstance(error, RecursionError) else error
                reason = f"a tombstone's key is not the record key: {told}"
                offset = int(messages.offsets[place])
                events.append(
                    ErrorEvent(
                        ErrorReason.RECORD_CREATION,
                        reason,
                        messages.keys[place],
                        messages.topic,
                        messages.partition,
                        offset,
                    )
                )
            else:
                rows.append(found)
                places.append(place)
        for field in schema:
            if field.name == DELETED_COLUMN:
                values.append(pa.array([True] * len(rows), field.type))
            else:
                values.append(pa.array([row.get(field.name) for row in rows], field.type))
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        return pa.RecordBatch.from_arrays(values, schema=nullable), np.array(places, np.int64), events

    def _record_key(self, key: bytes | None) -> dict[str, Any]:
        if key is None:
            raise ValueError("it has none")
        if key.startswith(b"\0"):
            raise ValueError(
                "it begins with a zero, as keys in binary do and those framed by a schema registry: give keys as text "
                "or JSON (key.serializer StringSerializer)"
            )
        text = key.decode("utf-8")
        found: Any = None
        if text.lstrip().startswith("{"):
            found = json.loads(text, parse_float=Decimal)
        if isinstance(found, dict):
            lacking = [name for name in self.columns.key_fields if found.get(name) is None]
            if lacking:
                raise ValueError(f"{text[:200]} has no {', '.join(lacking)}")
            return {name: self._typed(name, found[name]) for name in self.columns.key_fields}
        if len(self.columns.key_fields) != 1:
            raise ValueError(f"{text[:200]!r} is no JSON object with {', '.join(self.columns.key_fields)}")
        return {self.columns.key_fields[0]: self._typed(self.columns.key_fields[0], _unquoted(text))}

    def _typed(self, name: str, value: Any) -> Any:
        """A value of the column's type: keys in plain text are texts."""
        data_type = self.decoder.schema.field(name).type
        if isinstance(value, str) and not pa.types.is_string(data_type):
            return pa.scalar(value).cast(data_type).as_py()
        if pa.types.is_string(data_type) and not isinstance(value, str):
            return str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
        if pa.types.is_integer(data_type) and isinstance(value, Decimal) and value != int(value):
            raise ValueError(f"{value} in {name} is no whole number")
        return value


def _unquoted(text: str) -> str:
    """The text of a key that is a JSON text; any other key as it is."""
    if not text.startswith('"'):
        return text
    try:
        found = json.loads(text)
    except ValueError:
        return text
    return found if isinstance(found, str) else text


def _headers(headers: Sequence[tuple[str, bytes | None]] | None) -> list[tuple[str, str | None]] | None:
    if headers is None:
        return None
    return list({name: shown_payload(value) for name, value in headers}.items())
