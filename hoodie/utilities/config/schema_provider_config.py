"""Properties of schema providers, and of the processors of their schemas.

Hudi: org.apache.hudi.utilities.config.{HoodieSchemaProviderConfig, FilebasedSchemaProviderConfig,
SchemaProviderPostProcessorConfig}.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, boolean, choice, column_names, property_field, text

PREFIX: Final = "hoodie.streamer.schemaprovider."
REGISTRY_URL: Final = f"{PREFIX}registry.url"
TARGET_REGISTRY_URL: Final = f"{PREFIX}registry.targetUrl"
SCHEMA_CONVERTER: Final = f"{PREFIX}registry.schemaconverter"
SOURCE_SCHEMA_FILE: Final = f"{PREFIX}source.schema.file"
TARGET_SCHEMA_FILE: Final = f"{PREFIX}target.schema.file"
POST_PROCESSOR: Final = f"{PREFIX}schema_post_processor"
DELETE_COLUMNS: Final = f"{POST_PROCESSOR}.delete.columns"
ADD_COLUMN: Final = f"{POST_PROCESSOR}.add.column."


class PrimitiveType(StrEnum):
    """The types of Avro that an added column may have."""

    STRING = "string"
    BYTES = "bytes"
    INT = "int"
    LONG = "long"
    FLOAT = "float"
    DOUBLE = "double"
    BOOLEAN = "boolean"


@attrs.frozen(kw_only=True, repr=False)
class HoodieSchemaProviderConfig(PropertyGroup):
    """Properties of the schema registry as a provider."""

    registry_url: str | None = property_field(REGISTRY_URL, text("a URL"), None)
    """The URL of the source's schema: ``https://user:password@host/subjects/SUBJECT/versions/latest``, or with a number
    in place of ``latest``. Several hosts are separated by commas."""
    target_registry_url: str | None = property_field(TARGET_REGISTRY_URL, text("a URL"), None)
    """The URL of the schema to write, if it is another one than the source's."""
    schema_converter: str | None = property_field(SCHEMA_CONVERTER, text("a class as module:Class"), None)
    """A class that makes an Avro schema of a schema of another kind: a subclass of
    `hoodie.utilities.schema.schema_converter.SchemaConverter`, as ``module:Class``."""
    registry_base_url: str | None = property_field(f"{PREFIX}registry.baseUrl", text("a URL"), None)
    """The begin of the URLs of all tables, in a run of several tables; the topic and a suffix follow it."""
    registry_url_suffix: str | None = property_field(f"{PREFIX}registry.urlSuffix", text(), None)
    """The end of the URLs of all tables, in a run of several tables."""
    registry_source_url_suffix: str | None = property_field(f"{PREFIX}registry.sourceUrlSuffix", text(), None)
    """The end of the URLs of the sources' schemas, in a run of several tables."""
    registry_target_url_suffix: str | None = property_field(f"{PREFIX}registry.targetUrlSuffix", text(), None)
    """The end of the URLs of the schemas to write, in a run of several tables."""


@attrs.frozen(kw_only=True, repr=False)
class FilebasedSchemaProviderConfig(PropertyGroup):
    """Properties of schemas in files."""

    source_schema_file: str | None = property_field(SOURCE_SCHEMA_FILE, text("a path"), None)
    """The file with the Avro schema of the source, on any storage."""
    target_schema_file: str | None = property_field(TARGET_SCHEMA_FILE, text("a path"), None)
    """The file with the Avro schema to write, if it is another one than the source's."""


@attrs.frozen(kw_only=True, repr=False)
class SchemaProviderPostProcessorConfig(PropertyGroup):
    """Properties of the processors that change the schemas of a provider."""

    schema_post_processor: tuple[str, ...] = property_field(POST_PROCESSOR, column_names("class names"), ())
    """The classes that change the schemas of the provider, one after the other, separated by commas."""
    delete_columns: tuple[str, ...] = property_field(DELETE_COLUMNS, column_names(), ())
    """The columns that DropColumnSchemaPostProcessor drops, in any case."""
    add_column_name: str | None = property_field(f"{ADD_COLUMN}name", text("a column name"), None)
    """The column that AddPrimitiveColumnSchemaPostProcessor adds."""
    add_column_type: PrimitiveType | None = property_field(f"{ADD_COLUMN}type", choice(PrimitiveType), None)
    """The type of the added column."""
    add_column_nullable: bool = property_field(f"{ADD_COLUMN}nullable", boolean(), True)
    """Whether the added column allows nulls."""
    add_column_default: str | None = property_field(f"{ADD_COLUMN}default", text(), None)
    """The value of the added column in rows that lack it; null if it allows nulls and has no default."""
    add_column_doc: str | None = property_field(f"{ADD_COLUMN}doc", text(), None)
    """The description of the added column."""
