"""The contract of every schema provider.

Hudi: org.apache.hudi.utilities.schema.SchemaProvider.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.streamer_properties import StreamerProperties


class SchemaProvider(ABC):
    """Tells the schema of a source, and of the table that it fills. Asked in every round.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage, for providers that read files.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        self.properties = properties
        self.storage_options = storage_options

    @abstractmethod
    def load_source_schema(self) -> str:
        """The schema of the source's rows, as JSON of an Avro record. What is known is not read again until `refresh`.

        Raises:
            HoodieSchemaProviderException: There is none, or it cannot be read.
        """

    def load_target_schema(self) -> str | None:
        """The schema of the rows that are written, as JSON of an Avro record; that of the source by default.

        Returns:
            The schema; None if the rows themselves tell it.

        Raises:
            HoodieSchemaProviderException: It cannot be read.
        """
        return self.load_source_schema()

    def refresh(self) -> None:  # noqa: B027
        """Forget what was read, so that the next round sees a new schema. Called after every round."""
