from __future__ import annotations

import datetime
import ipaddress
import json
import pickle
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hoodie.exception import (
    HoodieConfigException,
    HoodieException,
    HoodieSchemaProviderException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.config.schema_registry_config import SchemaRegistryClientConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.schema.schema_providers import make_schema_provider
from hoodie.utilities.schema.schema_registry_client import (
    SchemaRegistryClient,
    UnknownSchemaException,
    parse_hosts,
)
from tests.support.schema_registry import StubRegistry, schema_registry

FIELDS = [{"name": "uuid", "type": "string"}]
TRIP = json.dumps({"type": "record", "name": "trip", "fields": FIELDS})
LONGER_TRIP = json.dumps(
    {"type": "record", "name": "trip", "fields": [*FIELDS, {"name": "fare", "type": "double", "default": 0}]}
)
URL = "hoodie.streamer.schemaprovider.registry.url"
TARGET_URL = "hoodie.streamer.schemaprovider.registry.targetUrl"
QUICK = {
    "hoodie.streamer.schemaprovider.registry.timeout.ms": "300",
    "hoodie.streamer.schemaprovider.registry.attempts": "2",
}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with schema_registry() as found:
        yield found


def client(urls: str, **properties: str) -> SchemaRegistryClient:
    config = StreamerProperties.of(QUICK | properties).read(SchemaRegistryClientConfig)
    return SchemaRegistryClient(parse_hosts(urls, "schema.registry.url"), config)


def provider(name: str = "SchemaRegistryProvider", **properties: str) -> SchemaProvider:
    found = make_schema_provider(name, StreamerProperties.of(QUICK | properties))
    assert found is not None
    return found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_the_schema_of_an_id_is_asked_for_once(registry: StubRegistry) -> None:
    schema_id = registry.register("trips-value", TRIP)
    asking = client(registry.url)
    assert asking.load_schema(schema_id).schema == TRIP
    assert asking.load_schema(schema_id).schema_type == "AVRO"
    assert registry.requests == ["/schemas/ids/1"]


def test_a_client_can_be_pickled_with_its_schemas(registry: StubRegistry) -> None:
    schema_id = registry.register("trips-value", TRIP)
    asking = client(registry.url)
    asking.load_schema(schema_id)
    copy: SchemaRegistryClient = pickle.loads(pickle.dumps(asking))
    assert copy.load_schema(schema_id).schema == TRIP
    assert len(registry.requests) == 1
    assert copy.load_version("trips-value").schema == TRIP


def test_the_provider_gives_the_newest_version_after_each_refresh(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    found = provider(**{URL: f"{registry.url}/subjects/trips-value/versions/latest"})
    assert found.load_source_schema() == TRIP
    registry.register("trips-value", LONGER_TRIP)
    assert found.load_source_schema() == TRIP
    assert len(registry.requests) == 1
    found.refresh()
    assert found.load_source_schema() == LONGER_TRIP
    assert found.load_target_schema() == LONGER_TRIP
    assert len(registry.requests) == 2


def test_a_number_asks_for_that_version(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    registry.register("trips-value", LONGER_TRIP)
    assert provider(**{URL: f"{registry.url}/subjects/trips-value/versions/1"}).load_source_schema() == TRIP


def test_the_target_has_a_url_of_its_own(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    registry.register("target", LONGER_TRIP)
    urls = {
        URL: f"{registry.url}/subjects/trips-value/versions/latest",
        TARGET_URL: f"{registry.url}/subjects/target/versions/latest",
    }
    assert provider(**urls).load_source_schema() == TRIP
    assert provider(**urls).load_target_schema() == LONGER_TRIP
    assert provider("NullTargetSchemaRegistryProvider", **urls).load_target_schema() is None


def test_user_and_password_in_the_url_are_sent_as_basic_authorization() -> None:
    with schema_registry(user_info="me:s3 cr@t") as registry:
        registry.register("trips-value", TRIP)
        host = f"127.0.0.1:{registry.port}"
        url = f"http://me:s3%20cr%40t@{host}/subjects/trips-value/versions/latest"
        assert provider(**{URL: url}).load_source_schema() == TRIP
        with pytest.raises(HoodieSchemaProviderException, match="status 401.*basic.auth.user.info") as caught:
            provider(**{URL: url.replace("me:", "you:")}).load_source_schema()
        assert "s3" not in str(caught.value)


def test_user_and_password_of_one_host_count_for_those_without() -> None:
    with schema_registry(user_info="me:secret") as registry:
        registry.register("trips-value", TRIP)
        down = f"http://me:secret@127.0.0.1:{free_port()}"
        assert client(f"{down},{registry.url}").load_schema(1).schema == TRIP
        assert client(f"{registry.url},{down}").load_schema(1).schema == TRIP


@pytest.mark.parametrize("prefix", ["", "schema.registry."])
def test_user_and_password_come_from_a_property(prefix: str) -> None:
    with schema_registry(user_info="me:secret") as registry:
        registry.register("trips-value", TRIP)
        given = {f"{prefix}basic.auth.user.info": "me:secret", f"{prefix}basic.auth.credentials.source": "USER_INFO"}
        assert client(registry.url, **given).load_schema(1).schema == TRIP


def test_a_token_is_sent_in_place_of_a_password() -> None:
    with schema_registry(user_info="t0ken") as registry:
        registry.register("trips-value", TRIP)
        asking = client(
            registry.url, **{"bearer.auth.credentials.source": "STATIC_TOKEN", "bearer.auth.token": "t0ken"}
        )
        assert asking.load_schema(1).schema == TRIP
        assert "t0ken" not in repr(asking._config)
    with pytest.raises(HoodieConfigException, match="fetch a token and give it by bearer.auth.token"):
        client("http://h:1", **{"bearer.auth.credentials.source": "OAUTHBEARER"})


def test_no_text_of_a_client_has_the_password() -> None:
    port = free_port()
    asking = client(f"http://me:hunter2@127.0.0.1:{port}", **{"basic.auth.user.info": "me:hunter3"})
    with pytest.raises(HoodieSourceTimeoutException) as caught:
        asking.load_schema(1)
    error: BaseException | None = caught.value
    told = [repr(asking), repr(asking._hosts), repr(asking._config)]
    while error is not None:
        told.append(repr(error))
        error = error.__cause__ or error.__context__
    assert f"http://127.0.0.1:{port}" in told[3]
    assert not any("hunter" in text for text in told)


def test_an_id_that_the_registry_lacks_is_an_error_of_its_own(registry: StubRegistry) -> None:
    with pytest.raises(UnknownSchemaException, match=f"{registry.url} has no /schemas/ids/7"):
        client(registry.url).load_schema(7)
    with pytest.raises(UnknownSchemaException, match="has no /subjects/nobody/versions/latest"):
        provider(**{URL: f"{registry.url}/subjects/nobody/versions/latest"}).load_source_schema()


def test_the_next_host_is_asked_if_one_is_down(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    down = f"http://127.0.0.1:{free_port()}"
    asking = client(f"{down},{registry.url}/")
    assert asking.load_schema(1).schema == TRIP
    assert asking.load_version("trips-value").schema == TRIP
    subject = "/subjects/trips-value/versions/latest"
    assert provider(**{URL: f"{down}{subject},{registry.url}{subject}"}).load_source_schema() == TRIP


def test_a_registry_that_is_down_is_a_timeout_that_names_it() -> None:
    port = free_port()
    with pytest.raises(HoodieSourceTimeoutException, match=f"127.0.0.1:{port}: connection refused.*tried 2 times"):
        client(f"http://127.0.0.1:{port}").load_schema(1)


def test_a_slow_registry_is_given_up_in_time(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    registry.delay_s = 2
    with pytest.raises(HoodieSourceTimeoutException, match="no answer in time"):
        client(registry.url, **{"hoodie.streamer.schemaprovider.registry.attempts": "1"}).load_schema(1)


def test_a_registry_that_is_silent_is_told_in_the_log_before_it_is_given_up(
    registry: StubRegistry, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hoodie.utilities.unanswered._FIRST_LINE_S", 0.1)
    registry.register("trips-value", TRIP)
    client(registry.url).load_schema(1)
    assert not caplog.messages
    registry.delay_s = 2
    with pytest.raises(HoodieSourceTimeoutException):
        client(registry.url.replace("//", "//me:hush@")).load_schema(1)
    assert caplog.messages[0].startswith(f"The schema registry {registry.url} has not answered for 0 s")
    assert "/schemas/ids/1" in caplog.messages[0]
    assert "hush" not in caplog.text


def test_a_registry_with_an_error_of_its_own_is_asked_again(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    registry.status = 503
    with pytest.raises(HoodieSourceTimeoutException, match="status 503"):
        client(registry.url).load_schema(1)
    assert len(registry.requests) == 2


def test_a_host_that_sends_a_byte_now_and_then_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        drip = (
            "import socket, sys, time\n"
            f"s = socket.socket(fileno={server.fileno()})\n"
            "c, _ = s.accept(); c.recv(9999)\n"
            "c.sendall(b'HTTP/1.1 200 OK\\r\\nContent-Length: 1000\\r\\n\\r\\n')\n"
            "for _ in range(200):\n    c.sendall(b' '); time.sleep(0.05)\n"
        )
        with subprocess.Popen(["python3", "-c", drip], pass_fds=[server.fileno()], stderr=subprocess.DEVNULL) as other:
            try:
                with pytest.raises(HoodieSourceTimeoutException, match="no answer in time"):
                    client(
                        f"http://127.0.0.1:{port}", **{"hoodie.streamer.schemaprovider.registry.attempts": "1"}
                    ).load_schema(1)
            finally:
                other.kill()


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b"<html>", b'{"schema": 5}', b"[" * 100_000, b"\xff"])
def test_an_answer_that_is_no_schema_is_refused(registry: StubRegistry, body: bytes) -> None:
    registry.register("trips-value", TRIP)
    registry.body = body
    with pytest.raises(HoodieSchemaProviderException, match="that is no schema"):
        client(registry.url).load_schema(1)


def test_an_answer_without_end_is_refused(registry: StubRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    registry.register("trips-value", TRIP)
    registry.body = b" " * 20_000
    monkeypatch.setattr("hoodie.utilities.schema.schema_registry_client._MAX_BYTES", 10_000)
    with pytest.raises(HoodieSchemaProviderException, match="more than 10000 bytes"):
        client(registry.url).load_schema(1)


def test_redirects_are_not_followed(registry: StubRegistry) -> None:
    registry.register("trips-value", TRIP)
    registry.status = 302
    with schema_registry() as other:
        other.register("trips-value", TRIP)
        registry.location = f"{other.url}/schemas/ids/1"
        with pytest.raises(HoodieSchemaProviderException, match="with status 302"):
            client(registry.url).load_schema(1)
        assert other.requests == []
    assert len(registry.requests) == 1


@pytest.mark.parametrize(
    "url",
    ["", "localhost:8081", "ftp://host", "http://", "http://host:x", "http://a b", "http://host:99999999"],
)
def test_a_url_of_another_form_is_refused(url: str) -> None:
    with pytest.raises(HoodieConfigException, match="schema.registry.url"):
        parse_hosts(url, "schema.registry.url")


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("http://h:1", "must end with /subjects/SUBJECT/versions/latest"),
        ("http://h:1/subjects/s/versions/newest", "must end with"),
        ("http://h:1/subjects/s/versions/1,http://h:2/subjects/s/versions/2", "several subjects or versions"),
        (None, f"set {URL}"),
    ],
)
def test_a_url_of_the_provider_names_subject_and_version(url: str | None, said: str) -> None:
    with pytest.raises(HoodieConfigException, match=said):
        provider(**({} if url is None else {URL: url}))


def test_a_url_with_a_password_is_refused_without_it() -> None:
    with pytest.raises(HoodieConfigException) as caught:
        provider(**{URL: "http://me:hunter2@host:1/subjects/s"})
    assert "http://host:1/subjects/s" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_schema_of_another_kind_is_refused(registry: StubRegistry) -> None:
    registry.register("trips-value", '{"type": "object"}', "JSON")
    with pytest.raises(HoodieSchemaProviderException, match="is a schema of JSON, not of Avro"):
        provider(**{URL: f"{registry.url}/subjects/trips-value/versions/latest"}).load_source_schema()


def test_references_are_put_where_they_are_used_first(registry: StubRegistry) -> None:
    point = json.dumps(
        {"type": "record", "name": "Point", "namespace": "geo", "fields": [{"name": "unit", "type": "Unit"}]}
    )
    unit = json.dumps({"type": "enum", "name": "geo.Unit", "symbols": ["KM", "MI"]})
    plain = json.dumps({"type": "fixed", "name": "Plain", "size": 2})
    registry.register("unit", unit)
    registry.register("plain", plain)
    registry.register("point", point, references=[{"name": "geo.Unit", "subject": "unit", "version": 1}])
    trip: dict[str, Any] = {
        "type": "record",
        "name": "trip",
        "namespace": "t",
        "fields": [
            {"name": "begin", "type": "geo.Point"},
            {"name": "ends", "type": {"type": "array", "items": ["null", "geo.Point"]}},
            {"name": "unit", "type": "geo.Unit"},
            {"name": "plain", "type": {"type": "map", "values": "Plain"}},
        ],
    }
    references = [
        {"name": "geo.Point", "subject": "point", "version": 1},
        {"name": "Plain", "subject": "plain", "version": 1},
    ]
    schema_id = registry.register("trips-value", json.dumps(trip), references=references)
    found = json.loads(client(registry.url).load_schema(schema_id).schema)
    units = {"type": "enum", "name": "Unit", "namespace": "geo", "symbols": ["KM", "MI"]}
    assert found["fields"] == [
        {
            "name": "begin",
            "type": {
                "type": "record",
                "name": "Point",
                "namespace": "geo",
                "fields": [{"name": "unit", "type": units}],
            },
        },
        {"name": "ends", "type": {"type": "array", "items": ["null", "geo.Point"]}},
        {"name": "unit", "type": "geo.Unit"},
        {
            "name": "plain",
            "type": {"type": "map", "values": {"type": "fixed", "name": "Plain", "namespace": "", "size": 2}},
        },
    ]


def test_a_reference_that_is_gone_is_named(registry: StubRegistry) -> None:
    trip = json.dumps({"type": "record", "name": "trip", "fields": [{"name": "a", "type": "A"}]})
    registry.register("trips-value", trip, references=[{"name": "A", "subject": "gone", "version": 3}])
    with pytest.raises(HoodieSchemaProviderException, match="has no /subjects/gone/versions/3"):
        client(registry.url).load_schema(1)
    registry.register("other", trip, references=[{"name": "A"}])
    with pytest.raises(HoodieSchemaProviderException, match="a reference without name, subject and version"):
        client(registry.url).load_schema(2)


def test_schemas_that_refer_to_each_other_end(registry: StubRegistry) -> None:
    one = json.dumps({"type": "record", "name": "A", "fields": [{"name": "b", "type": ["null", "B"]}]})
    other = json.dumps({"type": "record", "name": "B", "fields": [{"name": "a", "type": ["null", "A"]}]})
    registry.register("a", one, references=[{"name": "B", "subject": "b", "version": 1}])
    registry.register("b", other, references=[{"name": "A", "subject": "a", "version": 1}])
    found = json.loads(client(registry.url).load_schema(1).schema)
    assert found["fields"][0]["type"][1]["fields"][0]["type"] == ["null", "A"]


def pem_pair(folder: Path) -> tuple[Path, Path]:
    """A certificate with its key for 127.0.0.1, and the certificate alone."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "registry")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(True, None), True)
        .sign(key, hashes.SHA256())
        .public_bytes(serialization.Encoding.PEM)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    both, alone = folder / "both.pem", folder / "ca.pem"
    both.write_bytes(private + certificate)
    alone.write_bytes(certificate)
    return both, alone


def test_tls_with_certificates_in_pem(tmp_path: Path) -> None:
    both, alone = pem_pair(tmp_path)
    truststore = "schema.registry.ssl.truststore.location"
    with schema_registry(certificate=both) as registry:
        registry.register("trips-value", TRIP)
        asking = client(registry.url, **{truststore: str(alone), "schema.registry.ssl.keystore.location": str(both)})
        assert pickle.loads(pickle.dumps(asking)).load_schema(1).schema == TRIP
        began = time.monotonic()
        with pytest.raises(HoodieSchemaProviderException, match=f"is not trusted.*{truststore}"):
            client(registry.url).load_schema(1)
        assert time.monotonic() - began < 30


@pytest.mark.parametrize("kind", ["truststore", "keystore"])
def test_a_store_of_java_is_refused_with_the_way_out(tmp_path: Path, kind: str) -> None:
    store = tmp_path / "store.jks"
    store.write_bytes(b"\xfe\xed\xfe\xed")
    key = f"schema.registry.ssl.{kind}.location"
    with pytest.raises(HoodieConfigException, match=f"{key}.*keytool -importkeystore.*openssl pkcs12"):
        client("https://127.0.0.1:1", **{key: str(store)})
    with pytest.raises(HoodieConfigException, match="keytool and openssl"):
        client("https://127.0.0.1:1", **{f"schema.registry.ssl.{kind}.type": "JKS"})


def test_certificates_that_are_missing_are_named(tmp_path: Path) -> None:
    with pytest.raises(HoodieConfigException, match="nowhere.pem"):
        client("https://h:1", **{"schema.registry.ssl.truststore.location": f"{tmp_path}/nowhere.pem"})
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nxx\n")
    with pytest.raises(HoodieException, match="certificates of"):
        client("https://h:1", **{"schema.registry.ssl.keystore.location": str(broken)})
