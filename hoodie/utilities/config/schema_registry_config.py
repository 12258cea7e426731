"""Properties of the client of the schema registry. Most have no prefix: they are those of Kafka's deserializers."""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import attrs

from hoodie.common.config.property import Parser, PropertyGroup, choice, integer, property_field, text

REGISTRY_URL: Final = "schema.registry.url"
USER_INFO: Final = "basic.auth.user.info"
BEARER_TOKEN: Final = "bearer.auth.token"
CREDENTIALS_SOURCE: Final = "basic.auth.credentials.source"
_SSL: Final = "schema.registry.ssl."
TRUSTSTORE_LOCATION: Final = f"{_SSL}truststore.location"
KEYSTORE_LOCATION: Final = f"{_SSL}keystore.location"


class CredentialsSource(StrEnum):
    """The places that user and password come from."""

    URL = "URL"
    USER_INFO = "USER_INFO"


class BearerCredentialsSource(StrEnum):
    """The places that a token comes from."""

    STATIC_TOKEN = "STATIC_TOKEN"


class StoreType(StrEnum):
    """The forms of files with certificates and keys that hoodie reads."""

    PEM = "PEM"


_JAVA_STORES = dict.fromkeys(
    ("JKS", "PKCS12"), "convert the store to PEM with keytool and openssl (docs/kafka-properties.md has the lines)"
)


def _any_text(value: str) -> str:
    return value


@attrs.frozen(kw_only=True, repr=False)
class SchemaRegistryClientConfig(PropertyGroup):
    """Properties of the connection to a schema registry."""

    url: str | None = property_field(REGISTRY_URL, text("a URL"), None)
    """The URL of the registry that has the schemas of messages; several hosts are separated by commas. A user and a
    password may be in it: ``https://user:password@host``."""
    credentials_source: CredentialsSource = property_field(
        CREDENTIALS_SOURCE,
        choice(CredentialsSource, unsupported={"SASL_INHERIT": f"give user and password by {USER_INFO}"}),
        CredentialsSource.URL,
        alternatives=("schema.registry.basic.auth.credentials.source",),
    )
    """The place of user and password. `basic.auth.user.info` counts also if this says ``URL`` and the URL has none."""
    user_info: str | None = property_field(
        USER_INFO, text("user:password"), None, alternatives=("schema.registry.basic.auth.user.info",)
    )
    """The user and the password, as ``user:password``."""
    bearer_credentials_source: BearerCredentialsSource = property_field(
        "bearer.auth.credentials.source",
        choice(
            BearerCredentialsSource,
            unsupported=dict.fromkeys(
                ("OAUTHBEARER", "SASL_OAUTHBEARER_INHERIT", "CUSTOM"), f"fetch a token and give it by {BEARER_TOKEN}"
            ),
        ),
        BearerCredentialsSource.STATIC_TOKEN,
        alternatives=("schema.registry.bearer.auth.credentials.source",),
    )
    """The place that a token comes from."""
    bearer_token: str | None = property_field(
        BEARER_TOKEN, text("a token"), None, alternatives=("schema.registry.bearer.auth.token",)
    )
    """A token to log in with, in place of user and password."""
    truststore_location: str | None = property_field(TRUSTSTORE_LOCATION, text("a path"), None)
    """A PEM file with the certificates of the authorities to trust; those of the system by default."""
    truststore_type: StoreType = property_field(
        f"{_SSL}truststore.type", choice(StoreType, unsupported=_JAVA_STORES), StoreType.PEM
    )
    """The form of the truststore."""
    truststore_password: str | None = property_field(f"{_SSL}truststore.password", text(), None)
    """Not used: a PEM file with certificates has no password."""
    keystore_location: str | None = property_field(KEYSTORE_LOCATION, text("a path"), None)
    """A PEM file with the certificate and the key of this client."""
    keystore_type: StoreType = property_field(
        f"{_SSL}keystore.type", choice(StoreType, unsupported=_JAVA_STORES), StoreType.PEM
    )
    """The form of the keystore."""
    keystore_password: str | None = property_field(f"{_SSL}keystore.password", text(), None)
    """The password of the key in the keystore, if it has no password of its own."""
    key_password: str | None = property_field(f"{_SSL}key.password", text(), None)
    """The password of the key in the keystore."""
    endpoint_identification: str = property_field(
        f"{_SSL}endpoint.identification.algorithm", Parser(_any_text, "https, or empty"), "https"
    )
    """The check of the host's name in its certificate; empty for none."""
    timeout_ms: int = property_field(
        "hoodie.streamer.schemaprovider.registry.timeout.ms", integer(minimum=1), 10_000, is_ours=True
    )
    """Milliseconds until a host that does not answer is given up."""
    attempts: int = property_field(
        "hoodie.streamer.schemaprovider.registry.attempts", integer(minimum=1, maximum=100), 3, is_ours=True
    )
    """The number of times that all hosts are tried, with growing pauses, before the round fails."""
