"""Properties of Kafka's Java consumer as settings of librdkafka."""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest

from hoodie.common.config.property import all_keys
from hoodie.exception import HoodieConfigException
from hoodie.utilities.config.kafka_source_config import KafkaSourceConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.helpers.kafka_consumer_properties import (
    KafkaClientSettings,
    KafkaKeyClass,
    kafka_client_settings,
    kafka_property_problems,
    load_kafka_keys,
)
from tests.support.pem_files import PemFiles

SERVERS = {"bootstrap.servers": "a:9092,b:9092"}
CALLBACK = {"hoodie.streamer.source.kafka.oauth.callback": f"{__name__}:give_token"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="me" password="a \\"b\\";c";'
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required password='p' username=me;"
MSK = "software.amazon.msk.auth.iam.IAMLoginModule required;"


def give_token(config: str) -> tuple[str, float]:
    return "token", 4_000_000_000.0


def settings(**given: str) -> KafkaClientSettings:
    return of({key.replace("_", "."): value for key, value in given.items()})


def of(given: Mapping[str, str]) -> KafkaClientSettings:
    return kafka_client_settings(StreamerProperties({**SERVERS, **given}))


def refused(given: Mapping[str, str]) -> str:
    with pytest.raises(HoodieConfigException) as error:
        of(given)
    return str(error.value)


def opens(found: KafkaClientSettings) -> None:
    """A consumer takes the settings."""
    confluent_kafka.Consumer({**found.for_consumer(), "log_level": 0}).close()


def test_pasted_properties_of_java_become_settings_that_a_consumer_takes() -> None:
    found = of(
        {
            "group.id": "trips", "client.id": "me", "fetch.max.wait.ms": "100", "request.timeout.ms": "40000",
            "receive.buffer.bytes": "-1", "send.buffer.bytes": "131072", "auto.offset.reset": "earliest",
            "enable.auto.commit": "true", "max.poll.records": "500", "default.api.timeout.ms": "1500",
            "key.deserializer": "org.apache.kafka.common.serialization.StringDeserializer",
            "isolation.level": "read_uncommitted", "schema.registry.url": "http://localhost:8081",
            "spark.executor.memory": "1g", "queued.max.messages.kbytes": "1000",
        }
    )  # fmt: skip
    opens(found)
    expected = {
        "fetch.wait.max.ms": "100", "socket.timeout.ms": "40000", "socket.receive.buffer.bytes": "0",
        "socket.send.buffer.bytes": "131072", "auto.offset.reset": "error", "enable.auto.commit": "false",
        "isolation.level": "read_uncommitted", "group.id": "trips", "queued.max.messages.kbytes": "1000",
    }  # fmt: skip
    assert expected.items() <= found.settings.items()
    assert not {"max.poll.records", "key.deserializer", "schema.registry.url"} & set(found.settings)
    assert found.timeout_s == 1.5
    assert found.lines == [
        "properties of Kafka's consumer that change nothing here: "
        "enable.auto.commit, key.deserializer, max.poll.records"
    ]


def test_nothing_but_addresses_is_needed() -> None:
    found = settings()
    opens(found)
    assert found.settings["isolation.level"] == "read_committed"
    assert found.settings["queued.max.messages.kbytes"] == "65536"
    assert not found.has_group
    assert not found.lines


@pytest.mark.parametrize(
    ("jaas", "user", "password"), [(PLAIN, "me", 'a "b";c'), (SCRAM, "me", "p"), (SCRAM.rstrip(";"), "me", "p")]
)
def test_logins_of_java_become_user_and_password(jaas: str, user: str, password: str) -> None:
    found = of({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512", "sasl.jaas.config": jaas})
    opens(found)
    assert found.settings["sasl.username"] == user
    assert found.settings["sasl.password"] == password
    assert found.settings["sasl.mechanisms"] == "SCRAM-SHA-512"
    assert "sasl.jaas.config" not in found.settings


def test_secrets_are_not_shown() -> None:
    given = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": PLAIN,
             "ssl.keystore.key": "-----BEGIN PRIVATE KEY----- secret", "ssl.key.password": "secret"}  # fmt: skip
    found = of(given)
    for shown in (repr(found), repr(StreamerProperties(given))):
        assert "secret" not in shown
        assert 'a "b"' not in shown
        assert "a \\" not in shown
    assert "'***'" in repr(found)


def test_logins_of_other_modules_are_refused_without_showing_them() -> None:
    jaas = "com.example.MyLoginModule required secret=x;"
    shown = refused({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": jaas})
    assert "sasl.jaas.config cannot be read: it must be PlainLoginModule or ScramLoginModule" in shown
    assert "secret" not in shown
    assert "without username and password" in refused(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.jaas.config": SCRAM.replace("username", "u")}
    )


def test_tokens_need_a_function_of_the_users() -> None:
    msk = {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": MSK,
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }  # fmt: skip
    shown = refused(msk)
    for part in ("AWS_MSK_IAM needs tokens", "IAMLoginModule, a Java class",
                 "sasl.client.callback.handler.class is not",
                 "hoodie.streamer.source.kafka.oauth.callback = module:function"):  # fmt: skip
        assert part in shown
    found = of({**msk, **CALLBACK})
    opens(found)
    assert found.settings["sasl.mechanisms"] == "OAUTHBEARER"
    assert pickle.loads(pickle.dumps(found)).for_consumer()["oauth_cb"] is give_token


def test_kerberos_is_refused() -> None:
    assert "the client has no Kerberos" in refused({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
    assert "without sasl.mechanism means Kerberos" in refused({"security.protocol": "SASL_PLAINTEXT"})


def test_pem_stores_become_files_of_openssl(tmp_path: Path) -> None:
    pem = PemFiles.make(tmp_path)
    both = tmp_path / "both.pem"
    both.write_bytes(pem.client_key.read_bytes() + pem.client_certificate.read_bytes())
    found = of(
        {
            "security.protocol": "SSL", "ssl.truststore.location": str(pem.authority), "ssl.truststore.type": "PEM",
            "ssl.truststore.password": "", "ssl.keystore.location": str(both), "ssl.keystore.type": "PEM",
            "ssl.endpoint.identification.algorithm": "",
        }
    )  # fmt: skip
    opens(found)
    assert found.settings["ssl.ca.location"] == str(pem.authority)
    assert found.settings["ssl.key.location"] == found.settings["ssl.certificate.location"] == str(both)
    assert found.settings["ssl.endpoint.identification.algorithm"] == "none"
    texts = of(
        {
            "security.protocol": "SSL", "ssl.truststore.certificates": pem.authority.read_text(),
            "ssl.keystore.key": pem.client_key.read_text(),
            "ssl.keystore.certificate.chain": pem.client_certificate.read_text(),
        }
    )  # fmt: skip
    opens(texts)
    assert texts.settings["ssl.ca.pem"].startswith("-----BEGIN CERTIFICATE")


def test_stores_of_java_are_refused_with_the_commands_that_convert_them(tmp_path: Path) -> None:
    store = tmp_path / "trust.store"
    store.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    shown = refused({"security.protocol": "SSL", "ssl.truststore.location": str(store)})
    assert f"ssl.truststore.location = '{store}' is a JKS file, which only Java reads" in shown
    assert f"keytool -importkeystore -srckeystore {store} -destkeystore {store}.p12 -deststoretype PKCS12" in shown
    assert f"openssl pkcs12 -in {store}.p12 -nokeys -out {store}.pem" in shown
    assert "ssl.truststore.type=PEM" in shown
    elsewhere = {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/no/trust.p12",
        "ssl.truststore.type": "PKCS12",
    }
    assert "openssl pkcs12 -in /no/trust.p12 -nokeys" in refused(elsewhere)
    assert "keytool" not in refused(elsewhere)
    key = of({"security.protocol": "SSL", "ssl.keystore.location": "/no/k.p12", "ssl.keystore.password": "x"})
    assert key.settings["ssl.keystore.location"] == "/no/k.p12"


def test_unknown_and_refused_properties_are_told_at_once_with_the_nearest_known_one() -> None:
    shown = refused({"bootstrap.severs": "x", "intercepter.classes": "y", "interceptor.classes": "z",
                     "ssl.cipher.suites": "TLS_RSA_WITH_AES_128_GCM_SHA256", "security.protocol": "TLS"})  # fmt: skip
    for part in ("bootstrap.severs: neither Kafka's consumer nor", "has this property; nearest: bootstrap.servers",
                 "intercepter.classes: neither", "interceptor.classes is not supported: no Java class runs here",
                 "ssl.cipher.suites has names of Java", "security.protocol = 'TLS': must be PLAINTEXT"):  # fmt: skip
        assert part in shown
    problems = kafka_property_problems(StreamerProperties({"bootstrap.severs": "x"}))
    assert any("bootstrap.severs" in problem for problem in problems)
    assert any("bootstrap.servers is not given" in problem for problem in problems)


def test_properties_with_ignored_prefixes_are_not_kafkas() -> None:
    given = {"my.app.name": "x", "other.y": "z"}
    ignored = {"hoodie.streamer.source.kafka.ignore.prefix.config.list": "my.app.,other."}
    assert "my.app.name: neither" in refused(given)
    opens(of({**given, **ignored}))


def test_settings_that_librdkafka_refuses_are_named() -> None:
    found = settings(fetch_min_bytes="many")
    with pytest.raises(confluent_kafka.KafkaException, match=re.escape("fetch.min.bytes")):
        opens(found)


def test_the_list_has_only_names_that_librdkafka_takes() -> None:
    passed = (KafkaKeyClass.SAME, KafkaKeyClass.LIBRDKAFKA)
    for key in load_kafka_keys().values():
        for name in [key.key] if key.key_class in passed else [one for one in key.becomes.split(", ") if one]:
            given: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "group.id": "x", "log_level": 0, name: "1"}
            try:
                confluent_kafka.Consumer(given).close()
            except confluent_kafka.KafkaException as error:
                assert "No such configuration property" not in str(error), name


def test_no_key_of_the_list_is_one_of_hoodies() -> None:
    ours = [key for key in all_keys([KafkaSourceConfig]) if not key.startswith("hoodie.")]
    assert ours == ["auto.offset.reset"]
    assert not [key for key in load_kafka_keys() if key.startswith("hoodie.")]
