"""Make clients of the library obstore from a user's storage options: S3, Google Cloud Storage, Azure.

Options have the names that obstore, delta-rs, polars and hudi-rs give them, with or without their prefix (``aws_``,
``google_``, ``azure_``); the usual names of s3fs, gcsfs and adlfs mean the same. obstore takes missing options from the
environment (``AWS_ACCESS_KEY_ID``, ...) or from the machine's own identity.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import attrs

from hoodie.exception import HoodieConfigException, HoodieNotSupportedException
from hoodie.storage import storage_path
from hoodie.storage.retry import RetryPolicy
from hoodie.storage.storage_options import StorageOptions, redact, resolve_options, secrets_of

_STREAM_TIMEOUT = timedelta(minutes=3)
_EARLY = timedelta(minutes=2)
"""Credentials are renewed that long before they expire."""

# Options of the HTTP client that are given beside the others.
_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "default_headers",
        "http1_only",
        "http2_only",
        "pool_idle_timeout",
        "pool_max_idle_per_host",
        "proxy_ca_certificate",
        "proxy_excludes",
        "proxy_url",
        "read_timeout",
        "root_certificate",
        "timeout",
        "user_agent",
    }
)
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AZURE_STORAGE_ENDPOINT")
_CLIENT_DEFAULTS = {"timeout": "120s", "connect_timeout": "10s"}


@attrs.frozen
class _Kind:
    """One kind of store.

    Attributes:
        name: The name for people.
        store_class: The class in `obstore.store`.
        extra: The extra of the package hoodie that installs its library.
        bucket_argument: The name of the bucket's argument in its class.
        prefixes: Prefixes of option names, which hoodie removes.
        aliases: Names of other libraries -> obstore's.
        expiring: Names of credentials that a provider renews -> their name in obstore's credential.
    """

    name: str
    store_class: str
    extra: str
    bucket_argument: str
    prefixes: tuple[str, ...]
    aliases: Mapping[str, str]
    expiring: Mapping[str, str]


_S3 = _Kind(
    "S3",
    "S3Store",
    "s3",
    "bucket",
    ("aws_",),
    {
        "key": "access_key_id",
        "secret": "secret_access_key",
        "token": "session_token",
        "anon": "skip_signature",
        "endpoint_url": "endpoint",
        "region_name": "region",
    },
    {"access_key_id": "access_key_id", "secret_access_key": "secret_access_key", "session_token": "token"},
)
_GCS = _Kind(
    "Google Cloud Storage",
    "GCSStore",
    "gcs",
    "bucket",
    ("google_",),
    {"anon": "skip_signature", "endpoint_url": "base_url", "token": "bearer_token"},
    {"bearer_token": "token"},
)
_AZURE = _Kind(
    "Azure Storage",
    "AzureStore",
    "azure",
    "container_name",
    ("azure_storage_", "azure_"),
    {"anon": "skip_signature", "endpoint_url": "endpoint", "sas_token": "sas_key", "bearer_token": "token"},
    {"token": "token", "sas_key": "sas_token", "account_key": "access_key"},
)
OBJECT_STORE_SCHEMES: Mapping[str, _Kind] = {"s3": _S3, "gs": _GCS, "abfss": _AZURE, "az": _AZURE}


@attrs.frozen(eq=False)
class ObjectStores:
    """Clients of one bucket, and their secrets.

    Attributes:
        plain: For single calls; it never repeats a call by itself.
        streaming: For uploads in parts; it repeats their calls a limited number of times.
        secrets: See `redact`.
        valid_until: The time at which hoodie must ask for credentials again; None if they do not expire, or renew
            themselves.
    """

    plain: Any
    streaming: Any
    secrets: frozenset[str] = attrs.field(repr=False)
    valid_until: datetime | None


def split_bucket(path: str) -> tuple[str, str]:
    """The bucket (for Azure: ``container@account...``) and the key of a URL; the key may be empty."""
    bucket, _, key = path.partition("://")[2].partition("/")
    return bucket, key


def open_stores(base_path: str, options: StorageOptions | None, retry: RetryPolicy) -> ObjectStores:
    """Make the clients of the bucket of a table.

    Args:
        base_path: The normalised URL of the table.
        options: As the user gave them; a function is called.
        retry: For the client that streams.

    Raises:
        HoodieNotSupportedException: The library is not installed.
        HoodieConfigException: An option is unknown, or the options cannot be used together. No value is shown.
    """
    kind = OBJECT_STORE_SCHEMES[storage_path.scheme(base_path)]
    try:
        # Here, so that a start without a table on an object store does not take as long.
        import obstore.store
    except ImportError as error:
        raise HoodieNotSupportedException(
            f"Opening {base_path}: tables on {kind.name} need the package obstore; pip install 'hoodie[{kind.extra}]'"
        ) from error
    given = resolve_options(options)
    secrets = secrets_of(given)
    try:
        config, client_options, expires_at = _sorted_options(kind, base_path, given)
        provider = None
        if expires_at is not None and callable(options) and set(config) & set(kind.expiring):
            for name in kind.expiring:
                config.pop(name, None)
            provider = _Renewing(kind, base_path, options, given)
            expires_at = None
        arguments = {"config": config, "client_options": client_options, "credential_provider": provider}
        store_class = getattr(obstore.store, kind.store_class)
        return ObjectStores(
            plain=store_class(**arguments, retry_config={"max_retries": 0, "retry_timeout": _STREAM_TIMEOUT}),
            streaming=store_class(**arguments, retry_config=_retry_config(retry)),
            secrets=secrets,
            valid_until=expires_at - _EARLY if expires_at is not None else None,
        )
    except HoodieConfigException:
        raise
    except Exception as error:
        message = redact(str(error).partition("\n")[0], secrets)
    # Outside of the handler: the library's own error holds the values, and must not hang on ours.
    raise HoodieConfigException(f"the storage_options for {base_path} cannot be used: {message}")


def _retry_config(retry: RetryPolicy) -> dict[str, Any]:
    backoff = {
        "init_backoff": timedelta(milliseconds=max(retry.initial_interval_ms, 1)),
        "max_backoff": timedelta(milliseconds=max(retry.max_interval_ms, 2)),
        "base": 2,
    }
    return {"max_retries": retry.max_retries, "backoff": backoff, "retry_timeout": _STREAM_TIMEOUT}


def _sorted_options(
    kind: _Kind, base_path: str, given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any], datetime | None]:
    """Options of the store, options of its HTTP client, and when credentials expire."""
    config: dict[str, Any] = {}
    client: dict[str, Any] = dict(_CLIENT_DEFAULTS)
    expires_at = None
    flat = {**given, **given.get("client_kwargs", {})}
    flat.pop("client_kwargs", None)
    client.update(flat.pop("client_options", {}))
    for name, value in flat.items():
        if value is None:
            continue
        if name == "expires_at":
            expires_at = _moment(value)
        elif name in _CLIENT_OPTIONS:
            client[name] = value
        else:
            short = _without_prefix(name.lower(), kind.prefixes)
            config[kind.aliases.get(short, short)] = _plain(value)
    _add_place(kind, base_path, config)
    endpoints = [
        config.get("endpoint"),
        config.get("base_url"),
        *(os.environ.get(name) for name in _ENDPOINT_VARIABLES),
    ]
    if any(str(endpoint).startswith("http://") for endpoint in endpoints):
        client.setdefault("allow_http", True)
    return config, client, expires_at


def _add_place(kind: _Kind, base_path: str, config: dict[str, Any]) -> None:
    bucket, _ = split_bucket(base_path)
    if kind is _AZURE:
        bucket, _, host = bucket.partition("@")
        if host:
            config["account_name"] = host.partition(".")[0]
    if config.get(kind.bucket_argument, bucket) != bucket:
        raise HoodieConfigException(
            f"the storage_options name another {kind.bucket_argument} than the path {base_path}"
        )
    config[kind.bucket_argument] = bucket


def _without_prefix(name: str, prefixes: tuple[str, ...]) -> str:
    return next((name.removeprefix(prefix) for prefix in prefixes if name.startswith(prefix)), name)


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, Mapping) else value


def _moment(value: Any) -> datetime:
    """A moment given as datetime, ISO text, or seconds since the epoch."""
    if isinstance(value, int | float):
        return datetime.fromtimestamp(value, UTC)
    moment = value if isinstance(value, datetime) else datetime.fromisoformat(str(value))
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


class _Renewing:
    """obstore's credential provider: calls the user's function, whose first answer is known already."""

    def __init__(
        self,
        kind: _Kind,
        base_path: str,
        options: Callable[[], Mapping[str, Any]],
        first: Mapping[str, Any],
    ) -> None:
        self._kind = kind
        self._base_path = base_path
        self._options = options
        self._first: Mapping[str, Any] | None = first

    def __call__(self) -> dict[str, Any]:
        first, self._first = self._first, None
        given = resolve_options(self._options) if first is None else first
        config, _, expires_at = _sorted_options(self._kind, self._base_path, given)
        credential = {name: config[short] for short, name in self._kind.expiring.items() if short in config}
        return {**credential, "expires_at": expires_at}
