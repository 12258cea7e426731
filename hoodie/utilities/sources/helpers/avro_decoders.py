"""The decoders of Avro messages that the properties of a run ask for."""

from __future__ import annotations

from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.avro_kafka_source_config import (
    DESERIALIZER_CLASS,
    AvroDeserializer,
    AvroKafkaSourceConfig,
)
from hoodie.utilities.config.schema_registry_config import REGISTRY_URL, SchemaRegistryClientConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.filebased_schema_provider import checked_schema
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_providers import SchemaProviderWithPostProcessor
from hoodie.utilities.schema.schema_registry_client import SchemaRegistryClient, parse_hosts
from hoodie.utilities.sources.helpers.avro_decoder import AvroDecoder
from hoodie.utilities.sources.source import SourceContext


class AvroDecoders:
    """Makes the decoder of each round of a topic.

    Args:
        context: The properties and the schema provider of the run.
        topic: The topic.

    Raises:
        HoodieConfigException: The registry's URL is missing, or properties are wrong.
    """

    def __init__(self, context: SourceContext, topic: str) -> None:
        self._context = context
        self._topic = topic
        self._config = context.properties.read(AvroKafkaSourceConfig)
        is_bare = self._config.deserializer_class is AvroDeserializer.BARE
        self._client = None if is_bare else registry_client(context.properties)

    def decoder(self) -> AvroDecoder:
        """The decoder for the schema that counts now.

        Raises:
            HoodieConfigException: Nobody tells the schema of bare messages.
            HoodieSchemaProviderException: There is no schema.
            HoodieSourceTimeoutException: The registry does not answer.
            HoodieSchemaException: The schema has types without columns.
        """
        provider = self._context.schema_provider
        if self._client is None:
            provider = self._context.require_schema_provider(f"{DESERIALIZER_CLASS} = ByteArrayDeserializer")
            return AvroDecoder(provider.load_source_schema(), None, _original(provider).load_source_schema())
        return AvroDecoder(self._wanted_schema(provider, self._client), self._client)

    def _wanted_schema(self, provider: SchemaProvider | None, client: SchemaRegistryClient) -> str:
        if provider is not None:
            return provider.load_source_schema()
        if self._config.deserializer_schema is not None:
            return self._config.deserializer_schema
        subject = f"{self._topic}-value"
        return checked_schema(client.load_version(subject).schema, f"the registry's subject {subject}")


def registry_client(properties: StreamerProperties) -> SchemaRegistryClient:
    """The client of the registry with the schemas of messages.

    Args:
        properties: The properties of the run.

    Raises:
        HoodieConfigException: Its URL is missing or wrong.
    """
    config = properties.read(SchemaRegistryClientConfig)
    if config.url is None:
        raise HoodieConfigException(
            f"Avro messages with a schema id need {REGISTRY_URL}, the URL of the schema registry; for bare Avro "
            f"messages set {DESERIALIZER_CLASS} = ByteArrayDeserializer and give a schema provider"
        )
    return SchemaRegistryClient(parse_hosts(config.url, REGISTRY_URL), config)


def _original(provider: SchemaProvider) -> SchemaProvider:
    """The provider of the schema that messages are written with, which post-processors do not change."""
    return provider.original if isinstance(provider, SchemaProviderWithPostProcessor) else provider
