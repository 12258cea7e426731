"""A client of Confluent's schema registry, and of those that speak as it does: two GETs.

GET /schemas/ids/7                        the schema of the messages with the id 7
GET /subjects/trips-value/versions/latest the newest schema of a subject
"""

from __future__ import annotations

import base64
import json
import random
import re
import socket
import ssl
import time
import urllib.error
import urllib.request
from email.message import Message
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, Final
from urllib.parse import quote, unquote, urlsplit

import attrs

from hoodie.exception import (
    HoodieConfigException,
    HoodieSchemaException,
    HoodieSchemaProviderException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.config.schema_registry_config import (
    BEARER_TOKEN,
    KEYSTORE_LOCATION,
    TRUSTSTORE_LOCATION,
    USER_INFO,
    CredentialsSource,
    SchemaRegistryClientConfig,
)
from hoodie.utilities.schema.schema_references import inline_references
from hoodie.utilities.unanswered import Unanswered

LATEST: Final = "latest"
AVRO: Final = "AVRO"
_MAX_BYTES = 16 << 20
_MAX_REFERENCES = 1000
_MAX_KNOWN = 10_000
_FIRST_PAUSE_S = 0.2
_LONGEST_PAUSE_S = 5.0
_CHUNK_BYTES = 1 << 16
_TRY_AGAIN = (408, 425, 429)
_NOT_FOUND = 404
_BAD_CREDENTIALS = (401, 403)
_URL = re.compile(r"(https?://)(?:([^/@]*:[^@]*|[^/@]*)@)?([^@]*)", re.IGNORECASE)
_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json; q=0.9"


class UnknownSchemaException(HoodieSchemaProviderException):
    """The registry has no schema of an id, or no such subject or version."""


@attrs.frozen(repr=False)
class RegistryHost:
    """One host of a registry. It prints without user and password.

    Attributes:
        url: The URL without user and password, and without a slash at its end.
        user_info: The user and the password, as ``user:password``; None without.
    """

    url: str
    user_info: str | None = None

    def __repr__(self) -> str:
        return self.url


def parse_hosts(urls: str, key: str) -> tuple[RegistryHost, ...]:
    """The hosts of a list of URLs; a user and password of one count for those without.

    Args:
        urls: URLs, separated by commas.
        key: The property that holds them, for messages.

    Raises:
        HoodieConfigException: One is no URL of a registry.
    """
    hosts = []
    for text in re.split(r",\s*(?=https?://)", urls.strip().rstrip(","), flags=re.IGNORECASE):
        found = _URL.fullmatch(text.strip())
        if found is None or not _has_host(found[1] + found[3]):
            raise HoodieConfigException(f"{key} has no URL such as https://host:8081, or a list of these with commas")
        hosts.append(RegistryHost(found[1] + found[3].rstrip("/"), None if found[2] is None else unquote(found[2])))
    shared = next((host.user_info for host in hosts if host.user_info is not None), None)
    return tuple(attrs.evolve(host, user_info=host.user_info or shared) for host in hosts)


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port is None or parts.port > 0) and url.isprintable() and " " not in url
    except ValueError:
        return False


@attrs.frozen
class RegisteredSchema:
    """A schema of the registry.

    Attributes:
        schema: The text; of an Avro schema, with the schemas in it that it refers to.
        schema_type: ``AVRO``, ``JSON`` or ``PROTOBUF``.
    """

    schema: str
    schema_type: str = AVRO


class SchemaRegistryClient:
    """Asks a schema registry. Schemas of ids are kept, since they never change. Picklable.

    A host that is down, slow, or answers with an error of its own (status 500 and above) is left for the next one;
    after all of them, the call is repeated after a pause.

    Args:
        hosts: The hosts, all of the same registry.
        config: The properties of the connection.

    Raises:
        HoodieConfigException: Certificates or keys cannot be read, or are in a form of Java's.
    """

    def __init__(self, hosts: tuple[RegistryHost, ...], config: SchemaRegistryClientConfig) -> None:
        self._hosts = hosts
        self._config = config
        self._known: dict[int, RegisteredSchema] = {}
        self._preferred = 0
        self._opener = self._make_opener()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_opener"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._opener = self._make_opener()

    def __repr__(self) -> str:
        return f"SchemaRegistryClient({', '.join(map(repr, self._hosts))})"

    def load_schema(self, schema_id: int) -> RegisteredSchema:
        """The schema of an id.

        Args:
            schema_id: The id.

        Raises:
            UnknownSchemaException: The registry has no such id.
            HoodieSchemaProviderException: The registry refuses the request, or gives something else.
            HoodieSourceTimeoutException: No host answers.
        """
        if schema_id not in self._known:
            if len(self._known) >= _MAX_KNOWN:
                self._known.clear()
            self._known[schema_id] = self._registered(f"/schemas/ids/{schema_id}")
        return self._known[schema_id]

    def load_version(self, subject: str, version: str | int = LATEST) -> RegisteredSchema:
        """A version of a subject; it is asked for anew in every call.

        Args:
            subject: The subject.
            version: The number of the version; or ``latest``.

        Raises:
            UnknownSchemaException: There is no such subject or version.
            HoodieSchemaProviderException: As for `load_schema`.
            HoodieSourceTimeoutException: No host answers.
        """
        return self._registered(_version_path(subject, version))

    def _registered(self, path: str) -> RegisteredSchema:
        answer = self._get(path)
        schema_type = answer.get("schemaType") or AVRO
        schema = answer["schema"]
        if schema_type == AVRO and answer.get("references"):
            definitions: dict[str, str] = {}
            self._collect(answer["references"], definitions, set())
            try:
                schema = inline_references(schema, definitions)
            except HoodieSchemaException as error:
                raise HoodieSchemaProviderException(
                    f"The schema {self._hosts[self._preferred]}{path} refers to others that do not fit: {error}"
                ) from error
        return RegisteredSchema(schema, schema_type)

    def _collect(self, references: Any, definitions: dict[str, str], seen: set[str]) -> None:
        """The texts of all schemas referred to, by the names that refer to them."""
        waiting = list(references)
        while waiting:
            reference = waiting.pop()
            try:
                name, path = str(reference["name"]), _version_path(str(reference["subject"]), int(reference["version"]))
            except (KeyError, TypeError, ValueError) as error:
                raise HoodieSchemaProviderException(
                    f"The registry {self._hosts[self._preferred]} gives a reference without name, subject and version"
                ) from error
            if path in seen:
                continue
            seen.add(path)
            if len(seen) > _MAX_REFERENCES:
                raise HoodieSchemaProviderException(f"A schema refers to more than {_MAX_REFERENCES} others")
            answer = self._get(path)
            definitions[name] = answer["schema"]
            waiting.extend(answer.get("references") or ())

    def _get(self, path: str) -> dict[str, Any]:
        """The answer to a request, which has a schema."""
        hosts = ", ".join(host.url for host in self._hosts)
        gives_up_s = self._config.attempts * len(self._hosts) * self._config.timeout_ms / 1000
        with Unanswered(f"The schema registry {hosts}", path, gives_up_s).watched():
            return self._get_of_any_host(path)

    def _get_of_any_host(self, path: str) -> dict[str, Any]:
        pause = _FIRST_PAUSE_S
        failures: dict[str, str] = {}
        for attempt in range(self._config.attempts):
            if attempt:
                time.sleep(pause * random.uniform(0.5, 1))
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            for offset in range(len(self._hosts)):
                place = (self._preferred + offset) % len(self._hosts)
                host = self._hosts[place]
                try:
                    body = self._read(host, path)
                except urllib.error.HTTPError as error:
                    error.close()
                    if error.code < 500 and error.code not in _TRY_AGAIN:
                        raise self._refusal(host, path, error.code) from None
                    failures[host.url] = f"status {error.code}"
                except (OSError, HTTPException) as error:
                    reason = error.reason if isinstance(error, urllib.error.URLError) else error
                    if isinstance(reason, ssl.SSLCertVerificationError):
                        raise HoodieSchemaProviderException(
                            f"The certificate of the schema registry {host} is not trusted "
                            f"({reason.verify_message}): give its authority's certificates by {TRUSTSTORE_LOCATION}"
                        ) from None
                    failures[host.url] = _words(reason)
                else:
                    self._preferred = place
                    return _parsed(host, path, body)
        told = "; ".join(f"{url}: {reason}" for url, reason in failures.items())
        raise HoodieSourceTimeoutException(
            f"The schema registry does not answer GET {path} ({told}), tried {self._config.attempts} times: see "
            "whether it runs and can be reached from here"
        )

    def _read(self, host: RegistryHost, path: str) -> bytes:
        timeout_s = self._config.timeout_ms / 1000
        deadline = time.monotonic() + timeout_s
        request = urllib.request.Request(host.url + path, headers={"Accept": _ACCEPT, **self._authorization(host)})
        body = bytearray()
        answer: HTTPResponse
        with self._opener.open(request, timeout=timeout_s) as answer:
            # A host that sends a byte now and then must not hold up the round.
            while chunk := answer.read1(_CHUNK_BYTES):
                body += chunk
                if len(body) > _MAX_BYTES:
                    raise HoodieSchemaProviderException(
                        f"The schema registry {host} answers GET {path} with more than {_MAX_BYTES} bytes"
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError
        return bytes(body)

    def _authorization(self, host: RegistryHost) -> dict[str, str]:
        if self._config.bearer_token is not None:
            return {"Authorization": f"Bearer {self._config.bearer_token}"}
        user_info = host.user_info
        if self._config.user_info is not None and (
            user_info is None or self._config.credentials_source is CredentialsSource.USER_INFO
        ):
            user_info = self._config.user_info
        if user_info is None:
            return {}
        return {"Authorization": f"Basic {base64.b64encode(user_info.encode()).decode()}"}

    def _refusal(self, host: RegistryHost, path: str, status: int) -> HoodieSchemaProviderException:
        if status == _NOT_FOUND:
            return UnknownSchemaException(
                f"The schema registry {host} has no {path}: register the schema, or correct it"
            )
        if status in _BAD_CREDENTIALS:
            return HoodieSchemaProviderException(
                f"The schema registry {host} refuses GET {path} with status {status}: give user and password in its "
                f"URL or by {USER_INFO}, or a token by {BEARER_TOKEN}"
            )
        return HoodieSchemaProviderException(f"The schema registry {host} answers GET {path} with status {status}")

    def _make_opener(self) -> urllib.request.OpenerDirector:
        handlers: list[urllib.request.BaseHandler] = [_NoRedirects()]
        if any(host.url.lower().startswith("https:") for host in self._hosts):
            handlers.append(urllib.request.HTTPSHandler(context=_tls(self._config)))
        return urllib.request.build_opener(*handlers)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirects: another host must not get the password."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return None: the answer then counts as an error."""


def _version_path(subject: str, version: str | int) -> str:
    # A subject may come from a URL, where it is quoted already.
    return f"/subjects/{quote(subject, safe='%')}/versions/{version}"


def _parsed(host: RegistryHost, path: str, body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
        raise HoodieSchemaProviderException(
            f"{host} answers GET {path} with something that is no schema: see whether its URL is that of a schema "
            "registry"
        )
    return answer


def _words(reason: object) -> str:
    if isinstance(reason, TimeoutError):
        return "no answer in time"
    if isinstance(reason, ConnectionRefusedError):
        return "connection refused"
    if isinstance(reason, socket.gaierror):
        return "no such host"
    return f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)


def _tls(config: SchemaRegistryClientConfig) -> ssl.SSLContext:
    try:
        if config.truststore_location is not None:
            _check_pem(config.truststore_location, TRUSTSTORE_LOCATION)
        context = ssl.create_default_context(cafile=config.truststore_location)
        if not config.endpoint_identification:
            context.check_hostname = False
        if config.keystore_location is not None:
            _check_pem(config.keystore_location, KEYSTORE_LOCATION)
            password = config.key_password or config.keystore_password
            # Without a password, the library would ask for one at the terminal.
            context.load_cert_chain(config.keystore_location, password=password or "")
    except (OSError, ValueError) as error:
        raise HoodieConfigException(
            f"The certificates of {TRUSTSTORE_LOCATION} or {KEYSTORE_LOCATION}: {error}"
        ) from error
    return context


def _check_pem(path: str, key: str) -> None:
    with Path(path).open("rb") as file:
        if b"-----BEGIN " in file.read(_MAX_BYTES):
            return
    if key == KEYSTORE_LOCATION:
        openssl = "openssl pkcs12 -in store.p12 -out store.pem"
    else:
        openssl = "openssl pkcs12 -in store.p12 -nokeys -out store.pem"
    raise HoodieConfigException(
        f"{key} = {path} is no PEM file; stores of Java are not read. Convert it: keytool -importkeystore -srckeystore "
        f"{path} -destkeystore store.p12 -deststoretype PKCS12, then {openssl}, and give store.pem"
    )
