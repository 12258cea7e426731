"""The schema that the rows themselves have."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from hoodie.avro.schema_converters import to_avro
from hoodie.exception import HoodieSchemaProviderException
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider

RECORD_NAME: Final = "hoodie_source"
RECORD_NAMESPACE: Final = "hoodie.source"


class RowBasedSchemaProvider(SchemaProvider):
    """Gives the schema of rows, as the record ``hoodie.source.hoodie_source``.

    Args:
        properties: The properties of the run.
        storage_options: Not used.
        columns: The columns of the rows.

    Hudi: org.apache.hudi.utilities.schema.RowBasedSchemaProvider.
    """

    def __init__(
        self,
        properties: StreamerProperties,
        storage_options: StorageOptions | None = None,
        columns: pa.Schema | None = None,
    ) -> None:
        super().__init__(properties, storage_options)
        self.columns = columns

    def load_source_schema(self) -> str:
        """See `SchemaProvider.load_source_schema`.

        Raises:
            HoodieSchemaProviderException: No rows were given, as when a flag names this class.
        """
        if self.columns is None:
            raise HoodieSchemaProviderException(
                "RowBasedSchemaProvider takes the schema of rows that are there already: leave out "
                "--schemaprovider-class for a source whose rows tell their types (Parquet, SQL, JDBC, another table); "
                "for messages and JSON files, give FilebasedSchemaProvider or SchemaRegistryProvider"
            )
        return to_avro(self.columns, RECORD_NAME, RECORD_NAMESPACE)
