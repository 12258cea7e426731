"""Properties of the callback that tells a topic of Kafka of each commit."""

from __future__ import annotations

from typing import Final

import attrs

from hoodie.common.config.property import PropertyGroup, integer, property_field, text

_PREFIX: Final = "hoodie.write.commit.callback.kafka."


@attrs.frozen(kw_only=True, repr=False)
class HoodieWriteCommitKafkaCallbackConfig(PropertyGroup):
    """The callback to Kafka, after each commit.

    Hudi: org.apache.hudi.utilities.callback.kafka.HoodieWriteCommitKafkaCallbackConfig.
    """

    bootstrap_servers: str | None = property_field(f"{_PREFIX}bootstrap.servers", text("host:port"), None)
    """The brokers."""
    topic: str | None = property_field(f"{_PREFIX}topic", text("a topic"), None)
    """The topic."""
    partition: int | None = property_field(f"{_PREFIX}partition", integer(minimum=0), None)
    """The partition; by default the table's name decides."""
    acks: str = property_field(f"{_PREFIX}acks", text("all, 0 or 1"), "all")
    """The brokers that must have the message."""
    retries: int = property_field(f"{_PREFIX}retries", integer(minimum=0), 3)
    """How often sending is tried again."""
