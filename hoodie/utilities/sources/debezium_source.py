"""Change events of databases in topics of Kafka, as Debezium writes them: flat rows, deletes included.

Events are Avro with a schema registry, or JSON (``hoodie.streamer.source.kafka.value.deserializer.class`` =
StringDeserializer) with or without Connect's schema around them.
"""

from __future__ import annotations

from typing import ClassVar, Final

import attrs
import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.config.avro_kafka_source_config import DESERIALIZER_CLASS
from hoodie.utilities.config.debezium_source_config import DebeziumSourceConfig
from hoodie.utilities.config.schema_registry_config import REGISTRY_URL
from hoodie.utilities.schema.schema_registry_provider import SchemaRegistryProvider
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.helpers.avro_decoders import AvroDecoders
from hoodie.utilities.sources.helpers.debezium_decoder import (
    IS_DELETED,
    MYSQL,
    POSTGRES,
    DebeziumColumns,
    DebeziumDecoder,
)
from hoodie.utilities.sources.helpers.json_decoder import JsonDecoder
from hoodie.utilities.sources.helpers.json_schema_inference import infer_schema
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder
from hoodie.utilities.sources.kafka_source import FirstMessages, KafkaSource
from hoodie.utilities.sources.source import InputBatch, SourceContext

_TEXTS: Final = "StringDeserializer"
_PROVIDER_URL: Final = "hoodie.streamer.schemaprovider.registry.url"


class DebeziumSource(KafkaSource):
    """A topic of change events.

    The schema is that of the schema provider or, with Avro, of ``hoodie.streamer.schemaprovider.registry.url``, or of
    the registry's subject ``<topic>-value``. JSON without a provider has the columns of the table and of the first
    events.

    Hudi: org.apache.hudi.utilities.sources.debezium.DebeziumSource. Differs: texts of dates stay texts
    (``custom.debezium.DateString``); deletes work without a payload of Debezium too.

    Args:
        context: The context of the run.

    Raises:
        HoodieConfigException: Properties are missing or wrong.
    """

    database: ClassVar[DebeziumColumns]
    """The columns of the database."""

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._config = context.properties.read(DebeziumSourceConfig)
        self._provider = context.schema_provider
        self._own_provider: SchemaRegistryProvider | None = None
        self._avro: AvroDecoders | None = None
        if context.properties.get(DESERIALIZER_CLASS, "").endswith(_TEXTS):
            return
        if DESERIALIZER_CLASS not in context.properties and REGISTRY_URL not in context.properties:
            raise HoodieConfigException(
                f"{type(self).__name__} reads Avro events of a schema registry: give {REGISTRY_URL}; for events in "
                f"JSON give {DESERIALIZER_CLASS} = {_TEXTS}"
            )
        if self._provider is None and _PROVIDER_URL in context.properties:
            self._own_provider = SchemaRegistryProvider(context.properties, context.storage_options)
            self._provider = self._own_provider
        self._avro = AvroDecoders(attrs.evolve(context, schema_provider=self._provider), self.topic)

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        """See `KafkaSource.fetch`."""
        if self._own_provider is not None:
            self._own_provider.refresh()
        batch = super().fetch(checkpoint, limit)
        if self._config.override_checkpoint is None or batch.checkpoint is None:
            return batch
        return attrs.evolve(batch, checkpoint=Checkpoint(self._config.override_checkpoint))

    def make_decoder(self, first_messages: FirstMessages) -> MessageDecoder:
        """See `KafkaSource.make_decoder`."""
        events: MessageDecoder = self._json(first_messages) if self._avro is None else self._avro.decoder()
        return DebeziumDecoder(events, self.database, self._marks_deletes())

    def _json(self, first_messages: FirstMessages) -> JsonDecoder:
        if self._provider is not None:
            return JsonDecoder(self._provider.load_source_schema())
        found = infer_schema(first_messages())
        events = json_columns(found, self.context.load_table_schema(), self.database)
        if events is None:
            raise HoodieSchemaProviderException(
                f"the columns of topic {self.topic} are not known: none of its first events has a row in after or "
                "before. Give a schema: --schemaprovider-class FilebasedSchemaProvider with the schema of the events"
            )
        return JsonDecoder.of_columns(events)

    def _marks_deletes(self) -> bool:
        if self._config.marks_deletes is not None:
            return self._config.marks_deletes
        columns = self.context.load_table_schema()
        return columns is None or IS_DELETED in columns.names


class PostgresDebeziumSource(DebeziumSource):
    """Change events of PostgreSQL; ``_event_lsn`` orders them.

    Hudi: org.apache.hudi.utilities.sources.debezium.PostgresDebeziumSource.
    """

    database = POSTGRES


class MysqlDebeziumSource(DebeziumSource):
    """Change events of MySQL; ``_event_seq`` orders them.

    Hudi: org.apache.hudi.utilities.sources.debezium.MysqlDebeziumSource.
    """

    database = MYSQL


def json_columns(found: pa.Schema | None, table: pa.Schema | None, database: DebeziumColumns) -> pa.Schema | None:
    """The columns of events in JSON whose schema nobody told.

    Args:
        found: The columns of some events; None for none.
        table: The columns of the table, whose types count; None for a new table.
        database: The columns of the database.

    Returns:
        The columns of the events; None if no event has a row.
    """
    types = {} if found is None else {field.name: field.type for field in found}
    payload = types.get("payload")
    is_wrapped = "op" not in types and payload is not None and pa.types.is_struct(payload)
    if is_wrapped and payload is not None:
        types = {field.name: field.type for field in payload}
    row: dict[str, pa.DataType] = {}
    for kind in (types.get("before"), types.get("after")):
        if kind is not None and pa.types.is_struct(kind):
            row |= {field.name: field.type for field in kind}
    if table is not None:
        added = {name for name, _ in database.of_source.values()}
        of_table = {field.name: field.type for field in table if field.name in row or not field.name.startswith("_")}
        row |= {name: kind for name, kind in of_table.items() if name not in added and not _is_list(row.get(name))}
    if not row:
        return None
    after = pa.struct([pa.field(name, kind) for name, kind in row.items()])
    event = [
        pa.field("before", after),
        pa.field("after", after),
        pa.field("source", database.source_type),
        pa.field("op", pa.string()),
        pa.field("ts_ms", pa.int64()),
    ]
    return pa.schema([pa.field("payload", pa.struct(event))] if is_wrapped else event)


def _is_list(kind: pa.DataType | None) -> bool:
    return kind is not None and pa.types.is_list(kind)
