"""Schemas of other kinds as Avro schemas, by a class of the user's."""

from __future__ import annotations

from abc import ABC, abstractmethod

from hoodie.common.util.class_loading import create_object
from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.config.schema_provider_config import SCHEMA_CONVERTER
from hoodie.utilities.config.streamer_properties import StreamerProperties


class SchemaConverter(ABC):
    """Makes an Avro schema of a schema of another kind.

    Args:
        properties: The properties of the run.

    Hudi: org.apache.hudi.utilities.schema.SchemaRegistryProvider.SchemaConverter.
    """

    def __init__(self, properties: StreamerProperties) -> None:
        self.properties = properties

    @abstractmethod
    def convert(self, schema: str, schema_type: str) -> str:
        """The Avro schema of a schema.

        Args:
            schema: The text as the registry or the file has it.
            schema_type: ``JSON``, ``PROTOBUF`` or ``AVRO``.
        """


def load_converter(name: str | None, properties: StreamerProperties) -> SchemaConverter | None:
    """The converter that a user names; None for none.

    Args:
        name: A class as ``module:Class`` or ``module.Class``.
        properties: The properties of the run.

    Raises:
        HoodieConfigException: There is no such class, or it is one of Java.
    """
    if name is None:
        return None
    if name.startswith("org.apache.hudi."):
        raise HoodieConfigException(
            f"{SCHEMA_CONVERTER} = {name} is a class of Java: write a subclass of "
            "hoodie.utilities.schema.schema_converter.SchemaConverter and name it as module:Class; or store the schema "
            "as Avro"
        )
    return create_object(name.replace(":", "."), SCHEMA_CONVERTER, SchemaConverter, properties)


def convert_schema(converter: SchemaConverter | None, schema: str, schema_type: str, origin: str) -> str:
    """The Avro schema of a schema of any kind.

    Args:
        converter: The user's converter; without one, only Avro is taken.
        schema: The text.
        schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
        origin: The place of the schema, for messages.

    Raises:
        HoodieSchemaProviderException: It is of another kind and there is no converter, or the converter fails.
    """
    if converter is None:
        if schema_type == "AVRO":
            return schema
        raise HoodieSchemaProviderException(
            f"{origin} is a schema of {schema_type}, not of Avro: store it as Avro, or name a converter with "
            f"{SCHEMA_CONVERTER} = module:Class"
        )
    try:
        return converter.convert(schema, schema_type)
    except Exception as error:  # A class of the user's may raise anything.
        raise HoodieSchemaProviderException(
            f"{SCHEMA_CONVERTER} = {type(converter).__name__} fails for {origin}: {type(error).__name__}: {error}"
        ) from error
