"""The classes that flags and properties of the streamer name: Hudi's, and those of users.

A name is one of Hudi's, with or without its Java package, in the old packages too; or ``package.module:Class``, or
``package.module.Class``, of a class that a user wrote.
"""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import Final, TypeVar

from hoodie.common.util.class_loading import load_class
from hoodie.exception import HoodieConfigException

_Base = TypeVar("_Base")
_HERE = "hoodie.utilities"
_PYTHON_SOURCE = "write a class with fetch(position, limit), and name it as module:Class (docs/streamer.md)"

SOURCES: Final[Mapping[str, str]] = {
    "JsonDFSSource": f"{_HERE}.sources.json_dfs_source",
    "ParquetDFSSource": f"{_HERE}.sources.parquet_dfs_source",
    "CsvDFSSource": f"{_HERE}.sources.csv_dfs_source",
    "AvroDFSSource": f"{_HERE}.sources.avro_dfs_source",
    "JsonKafkaSource": f"{_HERE}.sources.json_kafka_source",
    "AvroKafkaSource": f"{_HERE}.sources.avro_kafka_source",
    "ProtoKafkaSource": f"{_HERE}.sources.proto_kafka_source",
    "HoodieIncrSource": f"{_HERE}.sources.hoodie_incr_source",
    "SqlSource": f"{_HERE}.sources.sql_source",
    "JdbcSource": f"{_HERE}.sources.jdbc_source",
    "PostgresDebeziumSource": f"{_HERE}.sources.debezium_source",
    "MysqlDebeziumSource": f"{_HERE}.sources.debezium_source",
}
"""The simple name of a class -> its module; so are the others."""
SCHEMA_PROVIDERS: Final[Mapping[str, str]] = {
    "FilebasedSchemaProvider": f"{_HERE}.schema.filebased_schema_provider",
    "SchemaRegistryProvider": f"{_HERE}.schema.schema_registry_provider",
    "NullTargetSchemaRegistryProvider": f"{_HERE}.schema.schema_registry_provider",
    "RowBasedSchemaProvider": f"{_HERE}.schema.row_based_schema_provider",
}
SCHEMA_POST_PROCESSORS: Final[Mapping[str, str]] = {
    "ChainedSchemaPostProcessor": f"{_HERE}.schema.schema_post_processor",
    "DropColumnSchemaPostProcessor": f"{_HERE}.schema.schema_post_processor",
    "AddPrimitiveColumnSchemaPostProcessor": f"{_HERE}.schema.schema_post_processor",
    "DeleteSupportSchemaPostProcessor": f"{_HERE}.schema.schema_post_processor",
    "KafkaOffsetPostProcessor": f"{_HERE}.schema.schema_post_processor",
}
TRANSFORMERS: Final[Mapping[str, str]] = {
    "SqlQueryBasedTransformer": f"{_HERE}.transform.sql_transformers",
    "SqlFileBasedTransformer": f"{_HERE}.transform.sql_transformers",
    "FlatteningTransformer": f"{_HERE}.transform.flattening_transformer",
    "AWSDmsTransformer": f"{_HERE}.transform.aws_dms_transformer",
}
SELECTORS: Final[Mapping[str, str]] = {
    "DFSPathSelector": f"{_HERE}.sources.helpers.dfs_path_selector",
    "DatePartitionPathSelector": f"{_HERE}.sources.helpers.date_partition_path_selector",
}
INITIAL_CHECKPOINT_PROVIDERS: Final[Mapping[str, str]] = {
    "KafkaConnectHdfsProvider": f"{_HERE}.checkpointing.kafka_connect_hdfs_provider",
    "InitialCheckpointFromAnotherHoodieTimelineProvider": f"{_HERE}.checkpointing.another_timeline_provider",
}
TERMINATION_STRATEGIES: Final[Mapping[str, str]] = {
    "NoNewDataTerminationStrategy": f"{_HERE}.ingestion.termination_strategy",
}

REFUSED: Final[Mapping[str, str]] = {
    "ORCDFSSource": f"ORC files are not read: convert them to Parquet, or {_PYTHON_SOURCE}",
    "PulsarSource": f"Pulsar is not read: {_PYTHON_SOURCE}",
    "JsonKinesisSource": f"Kinesis is not read: {_PYTHON_SOURCE}",
    "S3EventsSource": f"events of S3 are not read; JsonDFSSource and its kin list a bucket; or {_PYTHON_SOURCE}",
    "S3EventsHoodieIncrSource": f"events of S3 are not read; JsonDFSSource lists a bucket; or {_PYTHON_SOURCE}",
    "GcsEventsSource": f"events of GCS are not read; JsonDFSSource and its kin list a bucket; or {_PYTHON_SOURCE}",
    "GcsEventsHoodieIncrSource": f"events of GCS are not read; JsonDFSSource lists a bucket; or {_PYTHON_SOURCE}",
    "SqlFileBasedSource": f"use SqlSource with one query, or {_PYTHON_SOURCE}",
    "HiveIncrPullSource": f"read the table with HoodieIncrSource, or {_PYTHON_SOURCE}",
    "HiveSchemaProvider": "give the schema as a file: FilebasedSchemaProvider",
    "JdbcbasedSchemaProvider": "JdbcSource takes the types of the query; or give a file: FilebasedSchemaProvider",
    "ProtoClassBasedSchemaProvider": "ProtoKafkaSource reads a descriptor set "
    "(hoodie.streamer.source.kafka.proto.descriptor.file), which has the schema",
    "EmbeddingTransformer": "write a function transform(table, properties), and name it as module:function",
    "ErrorTableAwareChainedTransformer": "name the transformers themselves, separated by commas",
    "ChainedTransformer": "name the transformers themselves, separated by commas",
}
"""Classes of Hudi that hoodie does not have -> what to do instead."""


def find_class(name: str, known: Mapping[str, str], flag: str, base_class: type[_Base]) -> type[_Base]:
    """The class that a flag or a property names.

    Args:
        name: The name, as the user wrote it.
        known: Hudi's classes of that kind: one of the maps of this module.
        flag: The flag or property, for messages.
        base_class: The required base class.

    Raises:
        HoodieConfigException: There is no such class, or hoodie does not have it; the message says what to do.
    """
    name = name.strip()
    if ":" in name:
        module, _, attribute = name.partition(":")
        return load_class(f"{module}.{attribute}", flag, base_class)
    simple = name.rpartition(".")[2].rpartition("$")[2]
    is_java = name.startswith("org.apache.hudi.") or "." not in name
    if is_java and simple in known:
        found: type[_Base] = getattr(importlib.import_module(known[simple]), simple)
        return found
    if is_java and simple in REFUSED:
        raise HoodieConfigException(f"{flag} = {name}: {REFUSED[simple]}")
    if is_java:
        nearest = difflib.get_close_matches(simple, known, 1, 0)
        raise HoodieConfigException(
            f"{flag} = {name}: there is no such class. hoodie has {', '.join(known)}; nearest: {nearest[0]}. A class "
            "of yours is named as module:Class"
        )
    return load_class(name, flag, base_class)
