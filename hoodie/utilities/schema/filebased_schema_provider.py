"""Schemas in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hoodie.avro.schema_reader import parse_record
from hoodie.exception import (
    HoodieConfigException,
    HoodieSchemaException,
    HoodieSchemaProviderException,
)
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.schema_provider_config import (
    SOURCE_SCHEMA_FILE,
    FilebasedSchemaProviderConfig,
    HoodieSchemaProviderConfig,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_converter import convert_schema, load_converter
from hoodie.utilities.schema.schema_files import read_text
from hoodie.utilities.schema.schema_provider import SchemaProvider


class FilebasedSchemaProvider(SchemaProvider):
    """Takes the schema of the source, and that of the table if it is another one, from files on any storage.

    Args:
        properties: The properties of the run.
        storage_options: Options of the storage of the files.

    Raises:
        HoodieConfigException: No file is named.

    Hudi: org.apache.hudi.utilities.schema.FilebasedSchemaProvider. Differs: a file ``*.json`` may have an Avro schema;
        the target without a file of its own is always the source's.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        super().__init__(properties, storage_options)
        config = properties.read(FilebasedSchemaProviderConfig)
        if config.source_schema_file is None:
            raise HoodieConfigException(
                f"FilebasedSchemaProvider needs the file with the schema of the source: set {SOURCE_SCHEMA_FILE}"
            )
        self._source_file = config.source_schema_file
        self._target_file = config.target_schema_file
        self._converter = load_converter(properties.read(HoodieSchemaProviderConfig).schema_converter, properties)
        self._known: dict[str, str] = {}

    def load_source_schema(self) -> str:
        """See `SchemaProvider.load_source_schema`."""
        return self._load(self._source_file)

    def load_target_schema(self) -> str | None:
        """See `SchemaProvider.load_target_schema`."""
        return self._load(self._target_file or self._source_file)

    def refresh(self) -> None:
        """See `SchemaProvider.refresh`."""
        self._known.clear()

    def _load(self, path: str) -> str:
        if path not in self._known:
            self._known[path] = self._read(path)
        return self._known[path]

    def _read(self, path: str) -> str:
        text = read_text(path, self.storage_options)
        is_json_schema = path.endswith(".json") and not _is_avro(text)
        converter = self._converter if is_json_schema else None
        found = convert_schema(converter, text, "JSON" if is_json_schema else "AVRO", f"The schema file {path}")
        return checked_schema(found, f"the schema file {path}")


def checked_schema(schema: str, origin: str) -> str:
    """The schema, if it is an Avro record.

    Args:
        schema: The text.
        origin: Its place, for the message.

    Raises:
        HoodieSchemaProviderException: It is not an Avro record.
    """
    try:
        parse_record(schema)
    except HoodieSchemaException as error:
        raise HoodieSchemaProviderException(f"In {origin} there is no Avro record: {error}") from error
    return schema


def _is_avro(text: str) -> bool:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, Mapping) and found.get("type") == "record"
