"""Schemas of a schema registry."""

from __future__ import annotations

import re

import attrs

from hoodie.exception import HoodieConfigException
from hoodie.storage.storage_options import StorageOptions
from hoodie.utilities.config.schema_provider_config import (
    REGISTRY_URL,
    TARGET_REGISTRY_URL,
    HoodieSchemaProviderConfig,
)
from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.filebased_schema_provider import checked_schema
from hoodie.utilities.schema.schema_converter import convert_schema, load_converter
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_registry_client import LATEST, SchemaRegistryClient, parse_hosts

_VERSION_URL = re.compile(r"(.*)/subjects/([^/]+)/versions/(latest|-1|[0-9]+)/?")


@attrs.frozen(eq=False)
class _Place:
    """A version of a subject, at a registry."""

    client: SchemaRegistryClient
    subject: str
    version: str

    def __str__(self) -> str:
        return f"subject {self.subject}, version {self.version}, of {self.client!r}"


class SchemaRegistryProvider(SchemaProvider):
    """Takes the schema of the source, and that of the table if it is another one, from a schema registry.

    Args:
        properties: The properties of the run.
        storage_options: Not used.

    Raises:
        HoodieConfigException: The URL is missing or has another form.

    Hudi: org.apache.hudi.utilities.schema.SchemaRegistryProvider. Differs: a schema is asked for once a round.
    """

    def __init__(self, properties: StreamerProperties, storage_options: StorageOptions | None = None) -> None:
        super().__init__(properties, storage_options)
        config = properties.read(HoodieSchemaProviderConfig)
        if config.registry_url is None:
            raise HoodieConfigException(
                f"{type(self).__name__} needs the URL of the source's schema: set {REGISTRY_URL} = "
                "https://HOST/subjects/SUBJECT/versions/latest"
            )
        connection = properties.read(SchemaRegistryClientConfig)
        self._converter = load_converter(config.schema_converter, properties)
        self._source = _place(config.registry_url, REGISTRY_URL, connection)
        self._target = (
            self._source
            if config.target_registry_url in (None, "null", config.registry_url)
            else _place(config.target_registry_url or "", TARGET_REGISTRY_URL, connection)
        )
        self._known: dict[str, str] = {}

    def load_source_schema(self) -> str:
        """See `SchemaProvider.load_source_schema`.

        Raises:
            HoodieSourceTimeoutException: The registry does not answer; the round may be tried again.
        """
        return self._load(self._source)

    def load_target_schema(self) -> str | None:
        """See `SchemaProvider.load_target_schema`.

        Raises:
            HoodieSourceTimeoutException: The registry does not answer; the round may be tried again.
        """
        return self._load(self._target)

    def refresh(self) -> None:
        """See `SchemaProvider.refresh`."""
        self._known.clear()

    def _load(self, place: _Place) -> str:
        key = str(place)
        if key not in self._known:
            found = place.client.load_version(place.subject, place.version)
            avro = convert_schema(self._converter, found.schema, found.schema_type, f"The schema of {place}")
            self._known[key] = checked_schema(avro, f"the schema of {place}")
        return self._known[key]


class NullTargetSchemaRegistryProvider(SchemaRegistryProvider):
    """Takes the schema of the source from a schema registry; the rows tell that of the table.

    Hudi: org.apache.hudi.utilities.schema.NullTargetSchemaRegistryProvider.
    """

    def load_target_schema(self) -> str | None:
        """No schema: see `SchemaProvider.load_target_schema`."""
        return None


def _place(urls: str, key: str, connection: SchemaRegistryClientConfig) -> _Place:
    hosts = []
    places = set()
    for host in parse_hosts(urls, key):
        found = _VERSION_URL.fullmatch(host.url)
        if found is None:
            raise HoodieConfigException(
                f"{key} = {host} is no URL of a schema: it must end with /subjects/SUBJECT/versions/latest, or a "
                "number in place of latest"
            )
        hosts.append(attrs.evolve(host, url=found[1].rstrip("/")))
        places.add((found[2], LATEST if found[3] == "-1" else found[3]))
    if len(places) > 1:
        raise HoodieConfigException(f"{key} names several subjects or versions: all hosts must have the same one")
    subject, version = places.pop()
    return _Place(SchemaRegistryClient(tuple(hosts), connection), subject, version)
