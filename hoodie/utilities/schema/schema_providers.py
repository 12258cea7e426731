"""The schema provider of a run, by the name that the user gave."""

from __future__ import annotations

from typing import Any, TypeVar

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.class_names import SCHEMA_POST_PROCESSORS, SCHEMA_PROVIDERS, find_class
from hoodie.utilities.config.schema_provider_config import (
    POST_PROCESSOR,
    SchemaProviderPostProcessorConfig,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_post_processor import ChainedSchemaPostProcessor, SchemaPostProcessor
from hoodie.utilities.schema.schema_provider import SchemaProvider

_FLAG = "--schemaprovider-class"
_Made = TypeVar("_Made", SchemaProvider, SchemaPostProcessor)


class SchemaProviderWithPostProcessor(SchemaProvider):
    """Gives the schemas of another provider, changed by a processor.

    Args:
        original: The other provider.
        processor: The processor.

    Attributes:
        original: The other provider, whose source schema is the one that messages without a schema id are written in.

    Hudi: org.apache.hudi.utilities.schema.SchemaProviderWithPostProcessor. Differs: an original without a target schema
        has none with a processor either.
    """

    def __init__(self, original: SchemaProvider, processor: SchemaPostProcessor) -> None:
        super().__init__(original.properties, original.storage_options)
        self.original = original
        self._processor = processor

    def load_source_schema(self) -> str:
        """See `SchemaProvider.load_source_schema`."""
        return self._processor.process_schema(self.original.load_source_schema())

    def load_target_schema(self) -> str | None:
        """See `SchemaProvider.load_target_schema`."""
        schema = self.original.load_target_schema()
        return None if schema is None else self._processor.process_schema(schema)

    def refresh(self) -> None:
        """See `SchemaProvider.refresh`."""
        self.original.refresh()


def make_schema_provider(
    name: str | None, properties: StreamerProperties, storage_options: StorageOptions | None = None
) -> SchemaProvider | None:
    """The schema provider that a user names, with the post-processors of the properties.

    Args:
        name: The value of ``--schemaprovider-class``: a class of Hudi, with or without its package, or
            ``module:Class``; None for none.
        properties: The properties of the run.
        storage_options: Options of the storage, for schemas in files.

    Returns:
        The provider; None without a name.

    Raises:
        HoodieConfigException: There is no such class, its properties are missing or wrong, or post-processors are given
            without a provider.
    """
    names = properties.read(SchemaProviderPostProcessorConfig).schema_post_processor
    if name is None:
        if names:
            raise HoodieConfigException(
                f"{POST_PROCESSOR} = {', '.join(names)} has no effect without {_FLAG}: give one"
            )
        return None
    provider = _made(
        name, _FLAG, find_class(name, SCHEMA_PROVIDERS, _FLAG, SchemaProvider), properties, storage_options
    )
    processors = [
        _made(
            one,
            POST_PROCESSOR,
            find_class(one, SCHEMA_POST_PROCESSORS, POST_PROCESSOR, SchemaPostProcessor),
            properties,
        )
        for one in names
    ]
    if not processors:
        return provider
    return SchemaProviderWithPostProcessor(provider, ChainedSchemaPostProcessor(properties, processors))


def _made(name: str, flag: str, found: type[_Made], *arguments: Any) -> _Made:
    try:
        return found(*arguments)
    except HoodieException:
        raise
    except Exception as error:  # A class of the user's may raise anything.
        raise HoodieConfigException(
            f"{flag} = {name} cannot be created ({type(error).__name__}: {error}): its constructor is called with "
            f"{' and '.join(type(argument).__name__ for argument in arguments)}"
        ) from error
