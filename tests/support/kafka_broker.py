"""A real Kafka broker on this machine, for tests: KRaft mode, loopback only, with listeners for each way to log in."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import confluent_kafka
import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.support.pem_files import PemFiles

__all__ = ["KafkaBroker", "running_kafka"]

CLASS_PATH = Path.home() / ".m2/repository/org/apache/kafka/kafka_2.13/4.1.0/class_path.txt"
"""The file that .ci/fetch_kafka writes."""
USER, PASSWORD = "reader", "letters-of-a-secret"
_HEAP = ("-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Dlog4j2.disable.jmx=true")
_START_TIMEOUT_S = 120
_ANSWER_S = 30


@attrs.define
class KafkaBroker:
    """A broker, which can be stopped and started again on the same ports with the same data.

    Attributes:
        folder: Its files.
        java: The program java.
        ports: Listener -> port: PLAINTEXT; PLAIN, SCRAM and TOKENS (by SASL); TLS; CONTROLLER.
        pem: The certificates.
        process: The process; None while it is stopped.
    """

    folder: Path
    java: str
    ports: Mapping[str, int]
    pem: PemFiles
    process: subprocess.Popen[bytes] | None = None

    def address(self, listener: str = "PLAINTEXT") -> str:
        """The ``host:port`` of a listener.

        Args:
            listener: Its name.
        """
        return f"127.0.0.1:{self.ports[listener]}"

    def format(self) -> None:
        """Prepare the folder of the data."""
        (self.folder / "server.properties").write_text(self._properties(), encoding="utf-8")
        identity = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "x")
        scram = f"[name={USER},password={PASSWORD}]"
        self._run(
            "kafka.tools.StorageTool", "format", "--standalone", "-t", identity, "-c",
            str(self.folder / "server.properties"), "--add-scram", f"SCRAM-SHA-256={scram}",
            "--add-scram", f"SCRAM-SHA-512={scram}",
        )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = (self.folder / "log.txt").open("ab")
        self.process = subprocess.Popen(
            [*self._java(), "kafka.Kafka", str(self.folder / "server.properties")],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self._environment(),
        )
        log.close()
        deadline = time.monotonic() + _START_TIMEOUT_S
        admin = AdminClient({"bootstrap.servers": self.address(), "log_level": 0})
        while True:
            assert self.process.poll() is None, f"Kafka ended: {self._last_lines()}"
            assert time.monotonic() < deadline, f"Kafka does not answer: {self._last_lines()}"
            try:
                if admin.list_topics(timeout=1).brokers:
                    return
            except confluent_kafka.KafkaException:
                time.sleep(0.1)

    def stop(self) -> None:
        """Stop it; its topics and offsets stay."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(10)
            self.process = None

    def admin(self) -> AdminClient:
        """A client for topics. Its answers come as long as it is held."""
        return AdminClient({"bootstrap.servers": self.address(), "log_level": 0})

    def topic(self, partitions: int = 1, name: str | None = None, **config: Any) -> str:
        """Create a topic.

        Args:
            partitions: The number of its partitions.
            name: Its name; a new one by default.
            config: Its settings; an underscore stands for a dot.

        Returns:
            The name.
        """
        name = name or f"topic-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        admin = self.admin()
        for future in admin.create_topics([NewTopic(name, partitions, 1, config=settings)]).values():
            future.result(_ANSWER_S)
        self._await(name, lambda count: count == partitions)
        return name

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone.

        Args:
            name: The topic.
        """
        admin = self.admin()
        for future in admin.delete_topics([name]).values():
            future.result(_ANSWER_S)
        self._await(name, lambda count: count == 0)

    def add_partitions(self, name: str, total: int) -> None:
        """Give a topic more partitions.

        Args:
            name: The topic.
            total: The number that it has then.
        """
        admin = self.admin()
        for future in admin.create_partitions([NewPartitions(name, total)]).values():
            future.result(_ANSWER_S)
        self._await(name, lambda count: count == total)

    def delete_records(self, topic: str, before: Mapping[int, int]) -> None:
        """Delete the oldest records, as retention does.

        Args:
            topic: The topic.
            before: Partition -> the offset that becomes the earliest one.
        """
        places = [TopicPartition(topic, partition, offset) for partition, offset in before.items()]
        admin = self.admin()
        for future in admin.delete_records(places).values():
            future.result(_ANSWER_S)

    def produce(
        self,
        topic: str,
        values: Sequence[bytes | str | None],
        *,
        partition: int = 0,
        keys: Sequence[bytes | str | None] | None = None,
        headers: Sequence[Any] | None = None,
        timestamps: Sequence[int] | None = None,
        **config: Any,
    ) -> None:
        """Write messages, and wait until the broker has them.

        Args:
            topic: The topic.
            values: The values.
            partition: The partition.
            keys: The keys, one each.
            headers: The headers, one list each.
            timestamps: Milliseconds since the epoch, one each.
            config: Settings of the producer; an underscore stands for a dot.
        """
        producer = self.producer(**config)
        for number, value in enumerate(values):
            more: dict[str, Any] = {}
            if timestamps is not None:
                more["timestamp"] = timestamps[number]
            if headers is not None:
                more["headers"] = headers[number]
            producer.produce(topic, value, keys[number] if keys else None, partition, **more)
            if number % 10_000 == 9_999:
                producer.poll(0)
        assert producer.flush(60) == 0

    def producer(self, **config: Any) -> Producer:
        """A producer.

        Args:
            config: Its settings; an underscore stands for a dot.
        """
        settings = {key.replace("_", "."): value for key, value in config.items()}
        return Producer(
            {"bootstrap.servers": self.address(), "linger.ms": 5, "queue.buffering.max.messages": 2_000_000} | settings
        )

    def ends(self, topic: str, isolation: str = "read_uncommitted") -> dict[int, tuple[int, int]]:
        """The earliest offset and the end of each partition.

        Args:
            topic: The topic.
            isolation: Whether messages of open transactions count.
        """
        consumer = Consumer({"bootstrap.servers": self.address(), "group.id": "ends", "isolation.level": isolation})
        try:
            partitions = consumer.list_topics(topic, timeout=_ANSWER_S).topics[topic].partitions
            return {
                number: consumer.get_watermark_offsets(TopicPartition(topic, number), timeout=_ANSWER_S)
                for number in sorted(partitions)
            }
        finally:
            consumer.close()

    def group_offsets(self, group: str, topic: str) -> dict[int, int]:
        """The offsets that a group has committed.

        Args:
            group: The group.
            topic: The topic.
        """
        asked = [ConsumerGroupTopicPartitions(group)]
        admin = self.admin()
        (future,) = admin.list_consumer_group_offsets(asked).values()
        found = future.result(_ANSWER_S).topic_partitions
        return {place.partition: place.offset for place in found if place.topic == topic}

    def topic_id(self, topic: str) -> str:
        """The id of a topic; a topic of the same name made later has another one.

        Args:
            topic: The topic.
        """
        admin = self.admin()
        (future,) = admin.describe_topics(TopicCollection([topic])).values()
        return str(future.result(_ANSWER_S).topic_id)

    def _await(self, name: str, is_done: Any) -> None:
        admin, deadline = self.admin(), time.monotonic() + _ANSWER_S
        while True:
            found = admin.list_topics(timeout=_ANSWER_S).topics.get(name)
            if is_done(len(found.partitions) if found is not None and found.error is None else 0):
                return
            assert time.monotonic() < deadline, f"the broker does not tell of {name}"
            time.sleep(0.05)

    def _properties(self) -> str:
        schemes = {"PLAINTEXT": "PLAINTEXT", "PLAIN": "SASL_PLAINTEXT", "SCRAM": "SASL_PLAINTEXT", "TLS": "SSL",
                   "TOKENS": "SASL_PLAINTEXT", "CONTROLLER": "PLAINTEXT"}  # fmt: skip
        listeners = [f"{name}://{self.address(name)}" for name in schemes]
        module = "org.apache.kafka.common.security"
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "listeners": ",".join(listeners),
            "advertised.listeners": ",".join(listeners[:-1]),
            "listener.security.protocol.map": ",".join(f"{name}:{scheme}" for name, scheme in schemes.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "controller.quorum.bootstrap.servers": self.address("CONTROLLER"),
            "log.dirs": str(self.folder / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            "log.retention.check.interval.ms": "500",
            "log.cleaner.backoff.ms": "200",
            "log.initial.task.delay.ms": "500",
            "log.segment.delete.delay.ms": "100",
            "auto.create.topics.enable": "false",
            "message.max.bytes": "30000000",
            "replica.fetch.max.bytes": "30000000",
            "socket.request.max.bytes": "104857600",
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": f"{module}.plain.PlainLoginModule required "
            f'username="admin" password="admin" user_{USER}="{PASSWORD}";',
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{module}.scram.ScramLoginModule required;",
            "listener.name.tokens.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.tokens.oauthbearer.sasl.jaas.config": f"{module}.oauthbearer.OAuthBearerLoginModule "
            'required unsecuredLoginStringClaim_sub="broker";',
            "listener.name.tokens.oauthbearer.sasl.server.callback.handler.class": f"{module}.oauthbearer.internals."
            "unsecured.OAuthBearerUnsecuredValidatorCallbackHandler",
            "listener.name.tls.ssl.keystore.type": "PEM",
            "listener.name.tls.ssl.keystore.location": str(self.pem.server),
            "listener.name.tls.ssl.truststore.type": "PEM",
            "listener.name.tls.ssl.truststore.location": str(self.pem.authority),
            "listener.name.tls.ssl.client.auth": "requested",
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())

    def _java(self) -> list[str]:
        return [self.java, *_HEAP, "-cp", CLASS_PATH.read_text(encoding="utf-8").strip()]

    def _environment(self) -> dict[str, str]:
        return {key: value for key, value in os.environ.items() if key != "JDK_JAVA_OPTIONS"}

    def _run(self, *command: str) -> None:
        done = subprocess.run([*self._java(), *command], capture_output=True, text=True, env=self._environment())
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]

    def _last_lines(self) -> str:
        return (self.folder / "log.txt").read_text(encoding="utf-8", errors="replace")[-2000:]


@contextmanager
def running_kafka() -> Iterator[KafkaBroker]:
    """A broker; skips where there is no Java, or no jars."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    java = java or shutil.which("java")
    if java is None:
        pytest.skip("no Java for a Kafka broker")
    if not CLASS_PATH.exists():
        pytest.skip("no jars of Kafka: .ci/fetch_kafka brings them")
    with tempfile.TemporaryDirectory(prefix="kafka") as folder:
        path = Path(folder)
        names = ("PLAINTEXT", "PLAIN", "SCRAM", "TLS", "TOKENS", "CONTROLLER")
        broker = KafkaBroker(path, java, dict(zip(names, _free_ports(len(names)), strict=True)), PemFiles.make(path))
        broker.format()
        broker.start()
        try:
            yield broker
        finally:
            broker.stop()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for free in sockets:
            free.bind(("127.0.0.1", 0))
        return [int(free.getsockname()[1]) for free in sockets]
    finally:
        for free in sockets:
            free.close()
