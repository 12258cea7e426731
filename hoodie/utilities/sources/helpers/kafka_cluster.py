"""Questions to a Kafka cluster that the driver asks: partitions, offsets, ids of topics, offsets of groups."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import attrs

from hoodie.exception import HoodieConfigException, HoodieReadFromSourceException, HoodieSourceTimeoutException
from hoodie.utilities.config.kafka_source_config import KafkaSourceConfig
from hoodie.utilities.sources.helpers.kafka_consumer_properties import KafkaClientSettings
from hoodie.utilities.unanswered import Unanswered

try:
    import confluent_kafka
    from confluent_kafka import admin
except ImportError:  # an extra: hoodie[kafka]
    confluent_kafka = None

logger = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_S = 0.2
_NO_ID = ("", "AAAAAAAAAAAAAAAAAAAAAA", "None")


def require_confluent_kafka() -> Any:
    """The library confluent_kafka.

    Raises:
        HoodieConfigException: It is missing.
    """
    if confluent_kafka is None:
        raise HoodieConfigException("sources of Kafka need confluent-kafka: pip install 'hoodie[kafka]'")
    return confluent_kafka


class QuietLogger:
    """A logger for the lines of librdkafka, which repeats twice a second what it cannot do: they are for debugging."""

    def log(self, level: int, *line: Any) -> None:
        """Take a line.

        Args:
            level: Its level, which does not count.
            line: Its format, and the values.
        """
        logger.debug(*line)


@attrs.frozen
class TopicDescription:
    """A topic of a cluster.

    Attributes:
        name: The topic.
        partitions: Its partitions.
        topic_id: Its id, which a topic of the same name that is made later does not have; None from an old broker.
    """

    name: str
    partitions: tuple[int, ...]
    topic_id: str | None


class KafkaCluster:
    """A cluster, asked by one client that stays connected.

    Args:
        settings: The settings of clients.
        config: The properties, for pauses between attempts.
        topic: The topic that questions are about.
    """

    def __init__(self, settings: KafkaClientSettings, config: KafkaSourceConfig, topic: str) -> None:
        self._settings = settings
        self._config = config
        self._topic = topic
        self._client: Any = None
        self._topic_id: str | None = None
        self._last_problem: tuple[bool, str] | None = None
        self._silence = self._silence_of("anything")
        self._is_committed_only = settings.settings.get("isolation.level") != "read_uncommitted"

    def close(self) -> None:
        """Give back the connection; may be called twice, and a question opens it again."""
        self._client = None

    def describe(self) -> TopicDescription:
        """The partitions and the id of the topic.

        Raises:
            HoodieReadFromSourceException: There is no such topic, or it may not be read.
            HoodieSourceTimeoutException: The cluster does not answer.
        """

        def ask(timeout_s: float) -> TopicDescription:
            topics = confluent_kafka.TopicCollection([self._topic])
            found = self._one(self._open().describe_topics(topics, request_timeout=timeout_s), timeout_s)
            topic_id = str(found.topic_id)
            if self._topic_id not in (None, topic_id):
                # Older clients go on asking for the leaders of the topic that is gone.
                self.close()
            self._topic_id = topic_id
            partitions = tuple(sorted(one.id for one in found.partitions))
            return TopicDescription(self._topic, partitions, None if topic_id in _NO_ID else topic_id)

        return self._asked("the partitions", ask)

    def earliest(self, partitions: Iterable[int]) -> dict[int, int]:
        """The earliest offset of partitions.

        Args:
            partitions: The partitions.

        Raises:
            HoodieReadFromSourceException: The cluster refuses the question.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        return self._offsets(partitions, "the earliest offsets", lambda: admin.OffsetSpec.earliest())

    def ends(self, partitions: Iterable[int], with_open_transactions: bool = False) -> dict[int, int]:
        """The offset after the last message of partitions that may be read now.

        Args:
            partitions: The partitions.
            with_open_transactions: Whether messages of transactions that are still open count, whatever the isolation.

        Raises:
            HoodieReadFromSourceException: The cluster refuses the question.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        committed_only = self._is_committed_only and not with_open_transactions
        return self._offsets(partitions, "the ends", lambda: admin.OffsetSpec.latest(), committed_only)

    def at(self, partitions: Iterable[int], timestamp_ms: int) -> dict[int, int | None]:
        """The offset of the first message at or after a time; None where there is none.

        Args:
            partitions: The partitions.
            timestamp_ms: Milliseconds since the epoch.

        Raises:
            HoodieReadFromSourceException: The cluster refuses the question.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        found = self._offsets(partitions, "the offsets of a time", lambda: admin.OffsetSpec.for_timestamp(timestamp_ms))
        return {partition: offset if offset >= 0 else None for partition, offset in found.items()}

    def committed(self, group: str, partitions: Iterable[int]) -> dict[int, int]:
        """The offsets that a group has committed; partitions without one are left out.

        Args:
            group: The group.
            partitions: The partitions.

        Raises:
            HoodieReadFromSourceException: The cluster refuses the question.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        places = [confluent_kafka.TopicPartition(self._topic, partition) for partition in partitions]

        def ask(timeout_s: float) -> dict[int, int]:
            asked = [confluent_kafka.ConsumerGroupTopicPartitions(group, places)]
            found = self._one(
                self._open().list_consumer_group_offsets(asked, request_timeout=timeout_s), timeout_s
            ).topic_partitions
            return {place.partition: place.offset for place in found if place.offset >= 0}

        return self._asked(f"the offsets of group {group}", ask)

    def commit(self, group: str, offsets: Mapping[int, int]) -> None:
        """Store the offsets of a group.

        Args:
            group: The group.
            offsets: Partition -> the offset to read next.

        Raises:
            HoodieReadFromSourceException: The cluster refuses it.
            HoodieSourceTimeoutException: The cluster does not answer.
        """
        places = [confluent_kafka.TopicPartition(self._topic, *pair) for pair in offsets.items()]

        def ask(timeout_s: float) -> None:
            asked = [confluent_kafka.ConsumerGroupTopicPartitions(group, places)]
            answer = self._one(self._open().alter_consumer_group_offsets(asked, request_timeout=timeout_s), timeout_s)
            for place in answer.topic_partitions:
                if place.error is not None:
                    raise confluent_kafka.KafkaException(place.error)

        self._asked(f"to store offsets of group {group}", ask)

    def retention_ms(self) -> int | None:
        """The milliseconds after which messages of the topic expire; None if they do not, or not by time.

        Raises:
            HoodieReadFromSourceException: The cluster refuses the question.
            HoodieSourceTimeoutException: The cluster does not answer.
        """

        def ask(timeout_s: float) -> int | None:
            resource = admin.ConfigResource(admin.ResourceType.TOPIC, self._topic)
            found = self._one(self._open().describe_configs([resource], request_timeout=timeout_s), timeout_s)
            entry = found.get("retention.ms")
            value = int(entry.value) if entry is not None and entry.value is not None else -1
            return value if value > 0 else None

        return self._asked("the retention", ask)

    def _offsets(
        self, partitions: Iterable[int], what: str, make_spec: Callable[[], Any], committed_only: bool = False
    ) -> dict[int, int]:
        wanted = list(partitions)
        if not wanted:
            return {}

        def ask(timeout_s: float) -> dict[int, int]:
            specs = {confluent_kafka.TopicPartition(self._topic, partition): make_spec() for partition in wanted}
            level = confluent_kafka.IsolationLevel
            answers = self._open().list_offsets(
                specs,
                isolation_level=level.READ_COMMITTED if committed_only else level.READ_UNCOMMITTED,
                request_timeout=timeout_s,
            )
            return {place.partition: self._wait(answer, timeout_s).offset for place, answer in answers.items()}

        return self._asked(what, ask)

    def _one(self, answers: Mapping[Any, Any], timeout_s: float) -> Any:
        (answer,) = answers.values()
        return self._wait(answer, timeout_s)

    def _wait(self, answer: Any, timeout_s: float) -> Any:
        """The answer; a login that is refused ends the wait."""
        deadline = time.monotonic() + timeout_s + 1
        while True:
            try:
                return answer.result(_LOOK_S)
            except TimeoutError:
                # Errors are told, and tokens are asked for, while the client is polled.
                self._client.poll(0)
                self._silence.look(self._last_problem[1] if self._last_problem else None)
                if self._is_refused or time.monotonic() >= deadline:
                    raise

    def _open(self) -> Any:
        if self._client is None:
            self._last_problem = None
            callbacks = {"error_cb": self._hear}
            try:
                self._client = admin.AdminClient(self._settings.for_admin() | callbacks, logger=QuietLogger())
            except confluent_kafka.KafkaException as error:
                raise HoodieConfigException(f"Kafka's client refuses its properties: {error.args[0].str()}") from error
        self._client.poll(0)
        return self._client

    @property
    def _is_refused(self) -> bool:
        return self._last_problem is not None and self._last_problem[0]

    def _hear(self, error: Any) -> None:
        is_login = error.code() in (confluent_kafka.KafkaError._AUTHENTICATION, confluent_kafka.KafkaError._SSL)
        self._last_problem = (is_login, error.str())

    def _asked(self, what: str, ask: Callable[[float], T]) -> T:
        deadline = time.monotonic() + self._settings.timeout_s
        self._silence = self._silence_of(what)
        pause_s = self._config.initial_retry_interval_ms / 1000
        attempt = 0
        while True:
            left_s = max(0.1, deadline - time.monotonic())
            try:
                return ask(min(left_s, 30.0))
            except confluent_kafka.KafkaException as error:
                cause = error.args[0]
            except TimeoutError:
                cause = None
            self._client.poll(0)
            if self._last_problem is not None and self._is_refused:
                raise self._refused(what, self._last_problem[1])
            if cause is not None and not _may_pass(cause):
                raise self._refused(what, cause.str())
            attempt += 1
            if attempt > self._config.max_retry_count or time.monotonic() + pause_s >= deadline:
                detail = self._last_problem[1] if self._last_problem else cause.str() if cause else "no answer"
                # A client whose cluster was away may wait long before it connects again.
                self._client = None
                raise HoodieSourceTimeoutException(
                    f"Kafka at {self._settings.servers} was asked for {what} of topic {self._topic}, and does not "
                    f"answer: {detail}. Look at the brokers and at bootstrap.servers; default.api.timeout.ms is how "
                    "long one waits"
                )
            self._silence.look(self._last_problem[1] if self._last_problem else None)
            time.sleep(pause_s)
            pause_s = min(pause_s * 2, self._config.max_retry_interval_ms / 1000)

    def _silence_of(self, what: str) -> Unanswered:
        place = f"Kafka at {self._settings.servers}"
        return Unanswered(place, f"{what} of topic {self._topic}", self._settings.timeout_s)

    def _refused(self, what: str, detail: str) -> HoodieReadFromSourceException:
        return HoodieReadFromSourceException(
            f"Kafka at {self._settings.servers} was asked for {what} of topic {self._topic}, and refuses: {detail}"
        )


def _may_pass(error: Any) -> bool:
    """Whether a question may be asked again."""
    codes = confluent_kafka.KafkaError
    if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC, codes._UNKNOWN_PARTITION):
        return False
    return bool(error.retriable()) or error.code() in (
        codes._TIMED_OUT, codes._TRANSPORT, codes._ALL_BROKERS_DOWN, codes._WAIT_COORD, codes.REQUEST_TIMED_OUT,
        codes.LEADER_NOT_AVAILABLE, codes.NOT_LEADER_FOR_PARTITION, codes.COORDINATOR_NOT_AVAILABLE,
        codes.COORDINATOR_LOAD_IN_PROGRESS, codes.NOT_COORDINATOR, codes._RESOLVE, codes.NETWORK_EXCEPTION,
    )  # fmt: skip
