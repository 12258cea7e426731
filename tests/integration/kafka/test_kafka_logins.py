"""Logins and TLS, by the properties of Java's consumer, at a real broker."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Mapping

import pytest

from hoodie.exception import HoodieReadFromSourceException
from hoodie.utilities.sources.source import read_all
from tests.support.kafka_broker import PASSWORD, USER, KafkaBroker
from tests.support.kafka_sources import TopicReader, trips

pytestmark = pytest.mark.kafka

MODULES = "org.apache.kafka.common.security"


def login(module: str, password: str = PASSWORD) -> str:
    return f'{MODULES}.{module} required username="{USER}" password="{password}";'


def sasl(broker: KafkaBroker, listener: str, mechanism: str, jaas: str) -> Mapping[str, str]:
    return {
        "bootstrap.servers": broker.address(listener),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": jaas,
    }


def give_token(config: str) -> tuple[str, float]:
    """A token that nobody signed, which the broker of tests takes."""
    ends = time.time() + 300

    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"sub": config or USER, "iat": int(time.time()) - 10, "exp": int(ends)}
    return f"{part({'alg': 'none'})}.{part(claims)}.", ends


@pytest.mark.parametrize(
    ("listener", "mechanism", "module"),
    [
        ("PLAIN", "PLAIN", "plain.PlainLoginModule"),
        ("SCRAM", "SCRAM-SHA-256", "scram.ScramLoginModule"),
        ("SCRAM", "SCRAM-SHA-512", "scram.ScramLoginModule"),
    ],
)
def test_logins_with_a_password_work_and_wrong_ones_are_refused_at_once(
    broker: KafkaBroker, listener: str, mechanism: str, module: str
) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    reader = TopicReader(broker, topic, properties=sasl(broker, listener, mechanism, login(module)))
    assert reader.numbers() == [0, 1, 2]
    wrong = sasl(broker, listener, mechanism, login(module, "not-the-secret"))
    began = time.monotonic()
    with pytest.raises(HoodieReadFromSourceException, match=r"(?i)authentication") as refused:
        TopicReader(broker, topic, properties=wrong).fetch()
    assert time.monotonic() - began < 15
    assert "not-the-secret" not in str(refused.value)


def test_a_login_that_is_lost_between_the_driver_and_a_task_is_named(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    reader = TopicReader(broker, topic, properties=sasl(broker, "PLAIN", "PLAIN", login("plain.PlainLoginModule")))
    batch = reader.fetch()
    batch.reads[0].ranges.settings.settings["sasl.password"] = "another"  # type: ignore[attr-defined]
    with pytest.raises(HoodieReadFromSourceException, match="refuses the login"):
        read_all(batch)


def test_tokens_of_a_function_of_the_user_work(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    properties = {
        **sasl(broker, "TOKENS", "OAUTHBEARER", f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"),
        "sasl.login.callback.handler.class": "com.example.MyTokens",
        "hoodie.streamer.source.kafka.oauth.callback": f"{__name__}:give_token",
    }
    reader = TopicReader(broker, topic, properties=properties)
    assert reader.numbers() == [0, 1, 2]


def test_tls_with_pem_files_works_and_an_unknown_authority_is_refused(broker: KafkaBroker) -> None:
    topic = broker.topic(1)
    broker.produce(topic, trips(0, 3))
    pem = broker.pem
    properties = {
        "bootstrap.servers": broker.address("TLS"),
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(pem.authority),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": pem.client_key.read_text(),
        "ssl.keystore.certificate.chain": pem.client_certificate.read_text(),
    }
    assert TopicReader(broker, topic, properties=properties).numbers() == [0, 1, 2]
    unknown = {**properties, "ssl.truststore.location": str(pem.client_certificate)}
    with pytest.raises(HoodieReadFromSourceException, match="certificate verify failed|SSL handshake failed"):
        TopicReader(broker, topic, properties=unknown).fetch()
