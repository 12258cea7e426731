"""Avro messages of a topic of Kafka."""

from __future__ import annotations

from hoodie.utilities.sources.helpers.avro_decoders import AvroDecoders
from hoodie.utilities.sources.helpers.message_decoder import MessageDecoder
from hoodie.utilities.sources.kafka_source import FirstMessages, KafkaSource
from hoodie.utilities.sources.source import SourceContext


class AvroKafkaSource(KafkaSource):
    """A topic whose messages are Avro records, as a schema registry's serializer writes them, or bare.

    Columns are those of the schema provider; without one, those of the newest schema of the subject ``TOPIC-value``.

    Args:
        context: The properties, schemas and storage of the run.

    Raises:
        HoodieConfigException: Properties are missing or wrong.

    Hudi: org.apache.hudi.utilities.sources.AvroKafkaSource. Differs: a message that cannot be decoded becomes an error,
        and does not stop the others; without a schema provider, the registry tells the schema.
    """

    def __init__(self, context: SourceContext) -> None:
        super().__init__(context)
        self._decoders = AvroDecoders(context, self.topic)

    def make_decoder(self, first_messages: FirstMessages) -> MessageDecoder:
        """The decoder of this round; see `KafkaSource.make_decoder`.

        Args:
            first_messages: Not used.
        """
        return self._decoders.decoder()
