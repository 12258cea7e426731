"""Send a message about each commit to a topic of Kafka."""

from __future__ import annotations

from typing import Any, Final

from hoodie.callback.write_commit_callback import HoodieWriteCommitCallback, HoodieWriteCommitCallbackMessage
from hoodie.config.write_config import HoodieWriteConfig
from hoodie.exception import HoodieCommitCallbackException, HoodieConfigException
from hoodie.utilities.config.kafka_callback_config import HoodieWriteCommitKafkaCallbackConfig
from hoodie.utilities.config.streamer_properties import StreamerProperties

HUDI_NAME: Final = "org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback"
_SECONDS: Final = 60.0


class HoodieWriteCommitKafkaCallback(HoodieWriteCommitCallback):
    """Sends the message as JSON; its key is the table's name, so messages of a table stay in their order.

    Args:
        config: The configuration with ``hoodie.write.commit.callback.kafka.*``.

    Raises:
        HoodieConfigException: No servers or no topic are given, or confluent-kafka is not installed.

    Hudi: org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallback.
    """

    def __init__(self, config: HoodieWriteConfig) -> None:
        super().__init__(config)
        kafka = StreamerProperties(config.properties).read(HoodieWriteCommitKafkaCallbackConfig)
        if kafka.bootstrap_servers is None or kafka.topic is None:
            raise HoodieConfigException(
                "the callback of Kafka needs hoodie.write.commit.callback.kafka.bootstrap.servers and "
                "hoodie.write.commit.callback.kafka.topic"
            )
        self._kafka = kafka
        self._producer_class = _producer_class()

    def call(self, message: HoodieWriteCommitCallbackMessage) -> None:
        """See `HoodieWriteCommitCallback.call`.

        Raises:
            HoodieCommitCallbackException: The broker did not take the message.
        """
        failures: list[str] = []

        def hear(error: Any, _: Any) -> None:
            if error is not None:
                failures.append(str(error))

        kafka = self._kafka
        place = {} if kafka.partition is None else {"partition": kafka.partition}
        producer = self._producer_class(
            {
                "bootstrap.servers": kafka.bootstrap_servers,
                "acks": kafka.acks,
                "retries": kafka.retries,
                "message.timeout.ms": int(_SECONDS * 1000) // 2,
            }
        )
        try:
            producer.produce(kafka.topic, message.to_json(), message.table_name, on_delivery=hear, **place)
            left = producer.flush(_SECONDS)
        except Exception as error:
            raise HoodieCommitCallbackException(
                f"commit {message.commit_time} could not be told to topic {kafka.topic} of {kafka.bootstrap_servers}: "
                f"{error}"
            ) from error
        if failures or left:
            reason = failures[0] if failures else "no answer"
            raise HoodieCommitCallbackException(
                f"commit {message.commit_time} could not be told to topic {kafka.topic} of {kafka.bootstrap_servers}: "
                f"{reason}"
            )


def _producer_class() -> Any:
    try:
        # Imported here: the library is an extra.
        from confluent_kafka import Producer
    except ImportError as error:
        raise HoodieConfigException(
            "the callback of Kafka needs confluent-kafka: pip install 'hoodie[kafka]'"
        ) from error
    return Producer
