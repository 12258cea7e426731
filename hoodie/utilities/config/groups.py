"""All groups of properties that the streamer reads, so that a misspelt one is told."""

from __future__ import annotations

from typing import Any, Final

from hoodie.utilities.config.avro_kafka_source_config import AvroKafkaSourceConfig
from hoodie.utilities.config.csv_dfs_source_config import CsvDFSSourceConfig
from hoodie.utilities.config.debezium_source_config import DebeziumSourceConfig
from hoodie.utilities.config.dfs_source_config import (
    DatePartitionPathSelectorConfig,
    DFSPathSelectorConfig,
    DFSSourceConfig,
    ParquetDFSSourceConfig,
)
from hoodie.utilities.config.error_table_config import HoodieErrorTableConfig
from hoodie.utilities.config.hoodie_incr_source_config import HoodieIncrSourceConfig
from hoodie.utilities.config.jdbc_source_config import JdbcSourceConfig
from hoodie.utilities.config.kafka_callback_config import HoodieWriteCommitKafkaCallbackConfig
from hoodie.utilities.config.kafka_source_config import (
    JsonKafkaPostProcessorConfig,
    JsonKafkaSourceConfig,
    KafkaSourceConfig,
)
from hoodie.utilities.config.offset_validator_config import OffsetValidatorConfig
from hoodie.utilities.config.proto_kafka_source_config import ProtoKafkaSourceConfig
from hoodie.utilities.config.schema_provider_config import (
    FilebasedSchemaProviderConfig,
    HoodieSchemaProviderConfig,
    SchemaProviderPostProcessorConfig,
)
from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.config.sql_source_config import SqlSourceConfig
from hoodie.utilities.config.sql_transformer_config import SqlTransformerConfig
from hoodie.utilities.config.streamer_run_config import HoodieStreamerConfig

STREAMER_GROUPS: Final[tuple[type[Any], ...]] = (
    HoodieStreamerConfig,
    HoodieErrorTableConfig,
    KafkaSourceConfig,
    JsonKafkaSourceConfig,
    JsonKafkaPostProcessorConfig,
    AvroKafkaSourceConfig,
    ProtoKafkaSourceConfig,
    DebeziumSourceConfig,
    DFSPathSelectorConfig,
    DFSSourceConfig,
    DatePartitionPathSelectorConfig,
    ParquetDFSSourceConfig,
    CsvDFSSourceConfig,
    HoodieIncrSourceConfig,
    SqlSourceConfig,
    JdbcSourceConfig,
    HoodieSchemaProviderConfig,
    FilebasedSchemaProviderConfig,
    SchemaProviderPostProcessorConfig,
    SchemaRegistryClientConfig,
    SqlTransformerConfig,
    OffsetValidatorConfig,
    HoodieWriteCommitKafkaCallbackConfig,
)
STREAMER_PREFIXES: Final = (
    "hoodie.streamer.ingestion.",
    "hoodie.streamer.jdbc.extra.options.",
    "hoodie.streamer.source.hoodieincr.data.datasource.options.",
    "hoodie.streamer.transformer.",
)
"""The beginnings of names that go on as a user likes: options of other systems, ids of transformers, tables."""
