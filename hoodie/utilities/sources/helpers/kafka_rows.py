"""Rows of Kafka's messages with more columns than their values have: where they are from, and deletes of tombstones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException
from hoodie.utilities.config.kafka_source_config import KafkaSourceConfig
from hoodie.utilities.ingestion.error_event import ErrorEvent, ErrorReason, error_batch, shown_payload
from hoodie.utilities.sources.helpers.kafka_received import MessageParts
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder, Messages
from hoodie.utilities.sources.helpers.tombstone_keys import TombstoneKeys
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
        tombstones: Reads the record keys of tombstones; None to drop these.

    Names and types of the four are those of Hudi's KafkaOffsetPostProcessor.
    """

    append_offsets: bool = False
    key_column: str | None = None
    headers_column: str | None = None
    tombstones: TombstoneKeys | None = None

    @classmethod
    def of(cls, config: KafkaSourceConfig, tombstones: TombstoneKeys | None) -> KafkaColumns:
        """The columns that properties ask for.

        Args:
            config: The properties.
            tombstones: Reads the record keys of tombstones; None to drop these.
        """
        return cls(config.append_offsets, config.key_column, config.headers_column, tombstones)

    @property
    def key_fields(self) -> tuple[str, ...]:
        """The fields of the record key, which the keys of tombstones fill; none if these are dropped."""
        return () if self.tombstones is None else self.tombstones.fields

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
        schema = self.decoder.schema
        nullable = pa.schema([field.with_nullable(True) for field in schema])
        if self.columns.tombstones is None:
            return pa.RecordBatch.from_pylist([], schema=nullable), np.empty(0, np.int64), []
        found = self.columns.tombstones.read(messages, schema)
        count = len(found.rows)
        values = {field.name: pa.nulls(count, field.type) for field in schema}
        values |= dict(zip(found.rows.schema.names, found.rows.columns, strict=True))
        if DELETED_COLUMN in values:
            values[DELETED_COLUMN] = pa.array([True] * count, schema.field(DELETED_COLUMN).type)
        events = [
            ErrorEvent(
                ErrorReason.RECORD_CREATION,
                f"a tombstone's key is not the record key: {reason}",
                messages.keys[place],
                messages.topic,
                messages.partition,
                int(messages.offsets[place]),
            )
            for place, reason in sorted(found.failures.items())
        ]
        return (
            pa.RecordBatch.from_arrays([values[name] for name in schema.names], schema=nullable),
            found.places,
            events,
        )


def _headers(headers: Sequence[tuple[str, bytes | None]] | None) -> list[tuple[str, str | None]] | None:
    if headers is None:
        return None
    return list({name: shown_payload(value) for name, value in headers}.items())
