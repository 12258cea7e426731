"""Changes of the schemas that a provider gives, before anything else sees them."""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final

from hoodie.avro.schema_reader import parse_record
from hoodie.exception import HoodieConfigException, HoodieSchemaProviderException
from hoodie.utilities.config.schema_provider_config import (
    ADD_COLUMN,
    DELETE_COLUMNS,
    POST_PROCESSOR,
    PrimitiveType,
    SchemaProviderPostProcessorConfig,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties

logger = logging.getLogger(__name__)

IS_DELETED: Final = "_hoodie_is_deleted"
KAFKA_OFFSET: Final = "_hoodie_kafka_source_offset"
KAFKA_PARTITION: Final = "_hoodie_kafka_source_partition"
KAFKA_TIMESTAMP: Final = "_hoodie_kafka_source_timestamp"
KAFKA_KEY: Final = "_hoodie_kafka_source_key"
_KAFKA_FIELDS: Final = (
    {"name": KAFKA_OFFSET, "type": "long", "doc": "offset column", "default": 0},
    {"name": KAFKA_PARTITION, "type": "int", "doc": "partition column", "default": 0},
    {"name": KAFKA_TIMESTAMP, "type": "long", "doc": "timestamp column", "default": 0},
    {"name": KAFKA_KEY, "type": ["null", "string"], "doc": "kafka key column", "default": None},
)
_BOOLEANS = {"true": True, "false": False}


class SchemaPostProcessor(ABC):
    """Changes a schema.

    Args:
        properties: The properties of the run.

    Hudi: org.apache.hudi.utilities.schema.SchemaPostProcessor.
    """

    def __init__(self, properties: StreamerProperties) -> None:
        self.properties = properties

    @abstractmethod
    def process_schema(self, schema: str) -> str:
        """The changed schema.

        Args:
            schema: JSON of an Avro record.

        Returns:
            JSON of an Avro record.

        Raises:
            HoodieSchemaProviderException: The schema cannot be changed that way.
        """


class ChainedSchemaPostProcessor(SchemaPostProcessor):
    """Changes a schema by several processors, one after the other.

    Args:
        properties: The properties of the run.
        processors: The processors.

    Raises:
        HoodieConfigException: There are none, as when a property names this class.

    Hudi: org.apache.hudi.utilities.schema.postprocessor.ChainedSchemaPostProcessor.
    """

    def __init__(self, properties: StreamerProperties, processors: Sequence[SchemaPostProcessor] = ()) -> None:
        super().__init__(properties)
        if not processors:
            raise HoodieConfigException(
                f"{POST_PROCESSOR} = ChainedSchemaPostProcessor names no processor: give the processors themselves, "
                "separated by commas"
            )
        self._processors = tuple(processors)

    def process_schema(self, schema: str) -> str:
        """See `SchemaPostProcessor.process_schema`."""
        for processor in self._processors:
            schema = processor.process_schema(schema)
        return schema


class DropColumnSchemaPostProcessor(SchemaPostProcessor):
    """Drops columns at the top; names are compared without case.

    Hudi: org.apache.hudi.utilities.schema.postprocessor.DropColumnSchemaPostProcessor. Differs: columns that the schema
        lacks are named in the log.
    """

    def process_schema(self, schema: str) -> str:
        """See `SchemaPostProcessor.process_schema`."""
        dropped = {name.lower() for name in self.properties.read(SchemaProviderPostProcessorConfig).delete_columns}
        record = parse_record(schema)
        if unknown := dropped - {field["name"].lower() for field in record["fields"]}:
            logger.warning("%s names columns that the schema lacks: %s", DELETE_COLUMNS, ", ".join(sorted(unknown)))
        fields = [field for field in record["fields"] if field["name"].lower() not in dropped]
        if not fields:
            raise HoodieSchemaProviderException(f"{DELETE_COLUMNS} drops all columns of the schema: keep one")
        return json.dumps(record | {"fields": fields})


class AddPrimitiveColumnSchemaPostProcessor(SchemaPostProcessor):
    """Adds a column of a simple type as the last one.

    Hudi: org.apache.hudi.utilities.schema.postprocessor.add.AddPrimitiveColumnSchemaPostProcessor. Differs: the default
        is a value of the column's type; a column without nulls needs one.
    """

    def process_schema(self, schema: str) -> str:
        """See `SchemaPostProcessor.process_schema`."""
        config = self.properties.read(SchemaProviderPostProcessorConfig)
        if config.add_column_name is None or config.add_column_type is None:
            raise HoodieConfigException(
                f"AddPrimitiveColumnSchemaPostProcessor needs {ADD_COLUMN}name and {ADD_COLUMN}type"
            )
        record = parse_record(schema)
        if any(field["name"] == config.add_column_name for field in record["fields"]):
            raise HoodieSchemaProviderException(
                f"{ADD_COLUMN}name = {config.add_column_name}: the schema has that column already"
            )
        kind = config.add_column_type
        default = None if config.add_column_default is None else _value(config.add_column_default, kind)
        if default is None and not config.add_column_nullable:
            raise HoodieConfigException(
                f"The column {config.add_column_name} allows no nulls, so rows that lack it need a value: set "
                f"{ADD_COLUMN}default, or {ADD_COLUMN}nullable = true"
            )
        avro_type: Any = kind.value
        if config.add_column_nullable:
            # The default of a union is a value of its first type.
            avro_type = ["null", kind.value] if default is None else [kind.value, "null"]
        added = {"name": config.add_column_name, "type": avro_type, "default": default}
        if config.add_column_doc is not None:
            added["doc"] = config.add_column_doc
        return json.dumps(record | {"fields": [*record["fields"], added]})


class DeleteSupportSchemaPostProcessor(SchemaPostProcessor):
    """Adds ``_hoodie_is_deleted``, which is false unless a row says otherwise.

    Hudi: org.apache.hudi.utilities.schema.postprocessor.DeleteSupportSchemaPostProcessor.
    """

    def process_schema(self, schema: str) -> str:
        """See `SchemaPostProcessor.process_schema`."""
        record = parse_record(schema)
        if any(field["name"] == IS_DELETED for field in record["fields"]):
            return schema
        added = {"name": IS_DELETED, "type": "boolean", "default": False}
        return json.dumps(record | {"fields": [*record["fields"], added]})


class KafkaOffsetPostProcessor(SchemaPostProcessor):
    """Adds the columns with a message's offset, partition, time and key.

    The property ``hoodie.streamer.source.kafka.append.offsets`` does so by itself.

    Hudi: org.apache.hudi.utilities.schema.KafkaOffsetPostProcessor.
    """

    def process_schema(self, schema: str) -> str:
        """See `SchemaPostProcessor.process_schema`."""
        record = parse_record(schema)
        names = {field["name"] for field in record["fields"]}
        added = [field for field in _KAFKA_FIELDS if field["name"] not in names]
        if not added:
            return schema
        return json.dumps(record | {"name": f"{record['name']}_processed", "fields": [*record["fields"], *added]})


def _value(text: str, kind: PrimitiveType) -> Any:
    """A value of a type of Avro in JSON."""
    parse: Callable[[str], Any] = str
    if kind in (PrimitiveType.INT, PrimitiveType.LONG):
        parse = int
    elif kind in (PrimitiveType.FLOAT, PrimitiveType.DOUBLE):
        parse = float
    elif kind is PrimitiveType.BOOLEAN:
        parse = _boolean
    try:
        return parse(text)
    except ValueError as error:
        raise HoodieConfigException(f"{ADD_COLUMN}default = {text!r} is no {kind.value}") from error


def _boolean(text: str) -> bool:
    if text.lower() not in _BOOLEANS:
        raise ValueError
    return _BOOLEANS[text.lower()]
