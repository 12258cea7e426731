"""JSON messages of a topic of Kafka.

Hudi: org.apache.hudi.utilities.sources.JsonKafkaSource.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.config.kafka_source_config import (
    POST_PROCESSOR,
    JsonDeserializer,
    JsonKafkaPostProcessorConfig,
    JsonKafkaSourceConfig,
)
from hoodie.utilities.sources.helpers.json_decoder import LOOKS_FRAMED, JsonDecoder, without_frame
from hoodie.utilities.sources.helpers.json_schema_inference import infer_schema
from hoodie.utilities.sources.helpers.kafka_rows import SOURCE_COLUMNS
from hoodie.utilities.sources.helpers.known_columns import with_new_columns
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder
from hoodie.utilities.sources.kafka_source import FirstMessages, KafkaSource
from hoodie.utilities.sources.source import SourceContext

_MAXWELL: Final = "MaxwellJsonKafkaSourcePostProcessor"


class JsonKafkaSource(KafkaSource):
    """A topic whose messages are JSON objects.

    Columns are those of the schema provider; without one, those of the table and new ones that the first messages of a
    round have.

    Args:
        context: The properties, schemas and storage of the run.

    Raises:
        HoodieConfigException: Properties are missing or wrong, or name a class that changes messages.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        processor = context.properties.read(JsonKafkaPostProcessorConfig).processor_class
        if processor is not None:
            what = "messages of Maxwell are not read" if _MAXWELL in processor else "no Java class runs here"
            raise HoodieConfigException(
                f"{POST_PROCESSOR} = {processor}: {what}. Change rows with a transformer (--transformer-class "
                "module:function), or write a class with fetch(position, limit) and name it as --source-class "
                "module:Class"
            )
        form = context.properties.read(JsonKafkaSourceConfig).deserializer_class
        self._is_framed = form is JsonDeserializer.REGISTRY
        self._announced: pa.Schema | None = None

    def make_decoder(self, first_messages: FirstMessages) -> MessageDecoder:
        """The decoder of this round; see `KafkaSource.make_decoder`.

        Args:
            first_messages: Reads some of the first messages, for columns that nobody told.

        Raises:
            HoodieSchemaProviderException: Nobody told the columns, and no message has any.
        """
        if self.context.schema_provider is not None:
            return JsonDecoder(self.context.schema_provider.load_source_schema(), self._is_framed)
        known = self._of_messages(self.context.load_table_schema())
        messages = first_messages()
        found = infer_schema(map(without_frame, messages) if self._is_framed else messages)
        if known is not None:
            columns = with_new_columns(known, self._of_messages(found))
            self._announce(columns, f"those of the table, and new ones of the first {len(messages)} messages")
            return JsonDecoder.of_columns(columns, self._is_framed)
        if found is None:
            looks_framed = not self._is_framed and any(message[:1] == b"\0" for message in messages)
            hint = f" ({LOOKS_FRAMED})" if looks_framed else ""
            raise HoodieSchemaProviderException(
                f"the columns of topic {self.topic} are not known: none of the first {len(messages)} messages is a "
                f"JSON object with fields{hint}. Give a schema: --schemaprovider-class FilebasedSchemaProvider with "
                "hoodie.streamer.schemaprovider.source.schema.file, or --schema FILE"
            )
        self._announce(found, f"taken from the first {len(messages)} messages; a schema file tells them for certain")
        return JsonDecoder.of_columns(found, self._is_framed)

    def _of_messages(self, columns: pa.Schema | None) -> pa.Schema | None:
        """Columns without those that are added to messages."""
        if columns is None:
            return None
        added = {field.name for field in self.columns.added} | set(SOURCE_COLUMNS)
        return pa.schema([field.with_nullable(True) for field in columns if field.name not in added])

    def _announce(self, columns: pa.Schema, whence: str) -> None:
        if columns != self._announced:
            self._announced = columns
            named = ", ".join(f"{field.name} {field.type}" for field in columns)
            self.context.report(f"topic {self.topic}: no schema provider: columns are {whence}: {named}")
