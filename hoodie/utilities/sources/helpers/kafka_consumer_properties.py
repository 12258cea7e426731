"""Properties of Kafka's Java consumer, as settings of librdkafka.

Keys that do not begin with ``hoodie.`` are for the consumer. ``kafka_properties.csv`` beside the groups of properties
has each one that Java's consumer knows, and what becomes of it:

- *same*: librdkafka has it by the same name.
- *translated*: it becomes other settings.
- *no_effect*: it changes nothing here; one line of the log names all of these.
- *refused*: hoodie cannot do what it asks for; the message says what to do.
- *librdkafka*: a setting of librdkafka's own, which may be given as it is.
- *other*: not the consumer's: the schema registry's, Spark's.

A key that is in none of them is an error, with the nearest known one. All errors are told at once.
"""

from __future__ import annotations

import csv
import difflib
import functools
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from importlib import resources
from typing import Any, Final

import attrs

from hoodie.common.config.property import display_value
from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.kafka_source_config import IGNORED_PREFIXES, OAUTH_CALLBACK, KafkaSourceConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.user_code import load_attribute

API_TIMEOUT: Final = "default.api.timeout.ms"
GROUP_ID: Final = "group.id"
_NO_GROUP: Final = "hoodie-streamer"
_DEFAULTS: Final[Mapping[str, str]] = {
    "client.id": "hoodie-streamer",
    "isolation.level": "read_committed",
    # The most that waits in memory, in kilobytes, and the pause after it was full.
    "queued.max.messages.kbytes": "65536",
    "fetch.queue.backoff.ms": "10",
    # Ranges hold messages that are there. A request that waits for others delays the next range by as long.
    "fetch.wait.max.ms": "10",
    "log_level": "3",
}
_ALWAYS: Final[Mapping[str, str]] = {
    "enable.auto.commit": "false",
    "enable.auto.offset.store": "false",
    "enable.partition.eof": "true",
    "auto.offset.reset": "error",
    "allow.auto.create.topics": "false",
}
_MODULE = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b(.*?);?\s*", re.DOTALL | re.IGNORECASE
)
_OPTION = re.compile(r"""([\w.-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;"']+))""", re.DOTALL)
_LOGIN_MODULES = ("PlainLoginModule", "ScramLoginModule")
_TOKEN_MODULES = ("OAuthBearerLoginModule", "IAMLoginModule")
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
_TOKENS = "give hoodie.streamer.source.kafka.oauth.callback = module:function, which returns a token and the time at "
_TOKENS_END = "which it ends"
_SECRETS = ("sasl.password", "ssl.key.pem", "ssl.key.password", "ssl.keystore.password", "sasl.oauthbearer.config")
_JKS_MAGIC, _PEM_START = b"\xfe\xed\xfe\xed", b"-----BEGIN"


class KafkaKeyClass(StrEnum):
    """The fate of a property of Kafka's consumer."""

    SAME = "same"
    TRANSLATED = "translated"
    NO_EFFECT = "no_effect"
    REFUSED = "refused"
    LIBRDKAFKA = "librdkafka"
    OTHER = "other"


@attrs.frozen
class KafkaKey:
    """A property of Kafka's consumer.

    Attributes:
        key: The name; one that ends in ``*`` stands for all names with that prefix.
        key_class: The fate of it.
        becomes: The settings of librdkafka that it becomes.
        note: More about it; for a refused one, what to do.
    """

    key: str
    key_class: KafkaKeyClass
    becomes: str
    note: str


@functools.cache
def load_kafka_keys() -> Mapping[str, KafkaKey]:
    """All properties that are known, by name."""
    with resources.files("hoodie.utilities.config").joinpath("kafka_properties.csv").open(encoding="utf-8") as file:
        return {
            row["key"]: KafkaKey(row["key"], KafkaKeyClass(row["class"]), row["becomes"], row["note"])
            for row in csv.DictReader(file)
        }


def find_kafka_key(key: str) -> KafkaKey | None:
    """The property of a name; None for an unknown one.

    Args:
        key: The name.
    """
    known = load_kafka_keys()
    if key in known:
        return known[key]
    return next((found for name, found in known.items() if name.endswith("*") and key.startswith(name[:-1])), None)


@attrs.frozen(repr=False)
class KafkaClientSettings:
    """Settings of librdkafka, for consumers. Picklable; prints without secrets.

    Attributes:
        settings: Name -> value.
        oauth_callback: The function that gives tokens, as ``module:function``.
        timeout_s: The seconds after which a cluster that does not answer is given up.
        has_group: Whether the user gave a group.
        lines: Lines for the log.
    """

    settings: Mapping[str, str]
    oauth_callback: str | None = None
    timeout_s: float = 60.0
    has_group: bool = False
    lines: Sequence[str] = ()

    def __repr__(self) -> str:
        shown = ", ".join(f"{key}={_shown(key, value)}" for key, value in sorted(self.settings.items()))
        return f"KafkaClientSettings({shown})"

    @property
    def servers(self) -> str:
        """The addresses, for messages."""
        return self.settings.get("bootstrap.servers", self.settings.get("metadata.broker.list", ""))

    def for_consumer(self) -> dict[str, Any]:
        """The settings as a consumer takes them.

        Raises:
            HoodieConfigException: The function for tokens cannot be imported.
        """
        return {**self.settings, **self._callback()}

    def for_admin(self) -> dict[str, Any]:
        """The settings as a client for topics takes them: without those of consumers.

        Raises:
            HoodieConfigException: The function for tokens cannot be imported.
        """
        return {key: value for key, value in self.settings.items() if not _is_for_consumers(key)} | self._callback()

    def _callback(self) -> dict[str, Any]:
        if self.oauth_callback is None:
            return {}
        module, _, attribute = self.oauth_callback.partition(":")
        return {"oauth_cb": load_attribute(module, attribute, f"{OAUTH_CALLBACK} = {self.oauth_callback}")}


def _is_for_consumers(key: str) -> bool:
    return key.startswith(("fetch.", "queued.", "group.", "enable.auto", "enable.partition", "auto.offset")) or key in (
        "isolation.level", "check.crcs", "max.partition.fetch.bytes"
    )  # fmt: skip


def kafka_client_settings(properties: StreamerProperties) -> KafkaClientSettings:
    """The settings of the consumers of a run.

    Args:
        properties: The properties of the run.

    Raises:
        HoodieConfigException: Properties are unknown, refused or wrong; one message names all of them.
    """
    config = properties.read(KafkaSourceConfig)
    translation = _Translation(properties.given, config)
    if translation.problems:
        raise HoodieConfigException("; ".join(translation.problems))
    return translation.result()


def kafka_property_problems(properties: StreamerProperties) -> list[str]:
    """All that is wrong with the properties for Kafka, one sentence each; for a check of all properties of a run.

    Args:
        properties: The properties of the run.
    """
    return _Translation(properties.given, properties.read(KafkaSourceConfig)).problems


class _Translation:
    def __init__(self, given: Mapping[str, str], config: KafkaSourceConfig) -> None:
        self.problems: list[str] = []
        self._config = config
        self._settings: dict[str, str] = {}
        self._unused: list[str] = []
        self._timeout_s = 60.0
        self._given = {
            key: value.strip()
            for key, value in given.items()
            if not key.startswith(("hoodie.", *config.ignore_prefixes))
        }
        for key, value in self._given.items():
            self._take(key, value)
        self._take_stores()
        self._check()

    def result(self) -> KafkaClientSettings:
        settings = {**_DEFAULTS, GROUP_ID: _NO_GROUP, **self._settings, **_ALWAYS}
        lines = []
        if self._unused:
            lines.append(f"properties of Kafka's consumer that change nothing here: {', '.join(sorted(self._unused))}")
        return KafkaClientSettings(
            settings, self._config.oauth_callback, self._timeout_s, GROUP_ID in self._settings, lines
        )

    def _take(self, key: str, value: str) -> None:
        found = find_kafka_key(key)
        if found is None:
            nearest = difflib.get_close_matches(key, load_kafka_keys(), 1, 0)[0]
            self.problems.append(
                f"{key}: neither Kafka's consumer nor librdkafka has this property; nearest: {nearest}. One of another "
                f"program is left out by its prefix in {IGNORED_PREFIXES}"
            )
        elif found.key_class is KafkaKeyClass.REFUSED:
            if found.note.startswith("give hoodie.streamer.source.kafka.oauth") and self._config.oauth_callback:
                self._unused.append(key)
            else:
                self.problems.append(f"{key} is not supported: {found.note}")
        elif found.key_class is KafkaKeyClass.NO_EFFECT:
            self._unused.append(key)
        elif found.key_class in (KafkaKeyClass.SAME, KafkaKeyClass.LIBRDKAFKA):
            self._settings[key] = value
        elif key in _TRANSLATIONS:
            _TRANSLATIONS[key](self, key, value)

    def rename(self, key: str, value: str) -> None:
        """Give it the name that the list says."""
        self._settings[load_kafka_keys()[key].becomes] = value

    def take_buffer(self, key: str, value: str) -> None:
        """-1 stands for the system's own."""
        self.rename(key, "0" if value == "-1" else value)

    def take_timeout(self, key: str, value: str) -> None:
        """The limit of all questions."""
        if not value.isascii() or not value.isdigit() or not int(value):
            self.problems.append(f"{key} = {value!r}: must be a whole number of milliseconds, at least 1")
        else:
            self._timeout_s = int(value) / 1000

    def take_host_check(self, key: str, value: str) -> None:
        """Empty is none."""
        self._settings[key] = value.lower() or "none"

    def take_ciphers(self, key: str, value: str) -> None:
        """OpenSSL has names of its own."""
        java = [name for name in re.split(r"[,:\s]+", value) if "_WITH_" in name]
        if java:
            self.problems.append(
                f"{key} has names of Java ({', '.join(java)}): give those of OpenSSL, as 'openssl ciphers -stdname' "
                "shows, separated by colons"
            )
        else:
            self._settings[key] = value.replace(",", ":")

    def take_mechanism(self, key: str, value: str) -> None:
        """Amazon's own mechanism is OAUTHBEARER for all but Java."""
        mechanism = value.upper()
        if mechanism == "AWS_MSK_IAM":
            mechanism = "OAUTHBEARER"
        if mechanism not in _MECHANISMS:
            self.problems.append(
                f"{key} = {value!r}: must be {', '.join(_MECHANISMS)} or AWS_MSK_IAM; the client has no Kerberos"
            )
        elif mechanism == "OAUTHBEARER" and self._config.oauth_callback is None:
            self.problems.append(f"{key} = {value} needs tokens: {_TOKENS}{_TOKENS_END}")
        self._settings["sasl.mechanisms"] = mechanism

    def take_login(self, key: str, value: str) -> None:
        """User and password of the two modules that have them."""
        found = _MODULE.fullmatch(value)
        module = found[1].rpartition(".")[2] if found else ""
        if found is None or (module not in _LOGIN_MODULES and module not in _TOKEN_MODULES):
            self.problems.append(
                f"{key} cannot be read: it must be PlainLoginModule or ScramLoginModule, then required, "
                'username="..." and password="...", and a semicolon; or give sasl.username and sasl.password instead'
            )
            return
        if module in _TOKEN_MODULES:
            if self._config.oauth_callback is None:
                self.problems.append(f"{key} names {module}, a Java class: {_TOKENS}{_TOKENS_END}")
            return
        options = {
            name: re.sub(r"\\(.)", r"\1", double or single) or bare
            for name, double, single, bare in _OPTION.findall(found[2])
        }
        if not {"username", "password"} <= options.keys():
            self.problems.append(f"{key} names {module} without username and password")
            return
        self._settings |= {"sasl.username": options["username"], "sasl.password": options["password"]}

    def _take_stores(self) -> None:
        truststore = self._given.get("ssl.truststore.location")
        if truststore and self._is_pem("ssl.truststore", truststore):
            self._settings["ssl.ca.location"] = truststore
        keystore = self._given.get("ssl.keystore.location")
        if not keystore:
            return
        if _store_type(keystore, self._given.get("ssl.keystore.type", "")) == "PKCS12":
            self._settings["ssl.keystore.location"] = keystore
            self._settings["ssl.keystore.password"] = self._given.get("ssl.keystore.password", "")
        elif self._is_pem("ssl.keystore", keystore):
            self._settings |= {"ssl.certificate.location": keystore, "ssl.key.location": keystore}

    def _is_pem(self, store: str, path: str) -> bool:
        kind = _store_type(path, self._given.get(f"{store}.type", ""))
        if kind == "PEM":
            return True
        pkcs12 = path if kind == "PKCS12" else f"{path}.p12"
        lines = []
        if kind != "PKCS12":
            stores = f"-srckeystore {path} -destkeystore {pkcs12}"
            lines.append(f"keytool -importkeystore {stores} -deststoretype PKCS12")
        what = "-nokeys " if store == "ssl.truststore" else "-nodes "
        lines.append(f"openssl pkcs12 -in {pkcs12} {what}-out {path}.pem")
        self.problems.append(
            f"{store}.location = {path!r} is a {kind} file, which only Java reads. Make a PEM file of it: "
            f"{' && '.join(lines)} and give {store}.location={path}.pem and {store}.type=PEM"
        )
        return False

    def _check(self) -> None:
        if not self._settings.get("bootstrap.servers") and not self._settings.get("metadata.broker.list"):
            self.problems.append(
                "bootstrap.servers is not given: the addresses of brokers, host:port separated by commas"
            )
        protocol = self._settings.get("security.protocol", "PLAINTEXT").upper()
        self._settings["security.protocol"] = protocol
        if protocol not in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            self.problems.append(
                f"security.protocol = {protocol!r}: must be PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL"
            )
        if not protocol.startswith("SASL_"):
            return
        mechanism = self._settings.get("sasl.mechanisms")
        if mechanism is None:
            self.problems.append(
                f"security.protocol = {protocol} without sasl.mechanism means Kerberos, which the client does not "
                f"have: give sasl.mechanism = {', '.join(_MECHANISMS)} or AWS_MSK_IAM"
            )
        elif (
            mechanism != "OAUTHBEARER"
            and "sasl.username" not in self._settings
            and "sasl.jaas.config" not in self._given
        ):
            self.problems.append(
                f"sasl.mechanism = {mechanism} needs sasl.jaas.config, or sasl.username and sasl.password"
            )


_TRANSLATIONS: Mapping[str, Callable[[_Translation, str, str], None]] = {
    "request.timeout.ms": _Translation.rename,
    "fetch.max.wait.ms": _Translation.rename,
    "ssl.keystore.certificate.chain": _Translation.rename,
    "ssl.keystore.key": _Translation.rename,
    "ssl.truststore.certificates": _Translation.rename,
    "receive.buffer.bytes": _Translation.take_buffer,
    "send.buffer.bytes": _Translation.take_buffer,
    API_TIMEOUT: _Translation.take_timeout,
    "ssl.endpoint.identification.algorithm": _Translation.take_host_check,
    "ssl.cipher.suites": _Translation.take_ciphers,
    "sasl.mechanism": _Translation.take_mechanism,
    "sasl.jaas.config": _Translation.take_login,
}


def _store_type(path: str, given: str) -> str:
    """The form of a store, by its first bytes; by its type and its name if it cannot be read here."""
    try:
        with open(path, "rb") as file:
            start = file.read(4096)
    except OSError:
        if given:
            return given.upper()
        return {"pem": "PEM", "crt": "PEM", "p12": "PKCS12", "pfx": "PKCS12"}.get(
            path.rpartition(".")[2].lower(), "JKS"
        )
    if start.startswith(_JKS_MAGIC):
        return "JKS"
    return "PEM" if _PEM_START in start else "PKCS12"


def _shown(key: str, value: str) -> str:
    return "'***'" if key in _SECRETS else display_value(key, value)
