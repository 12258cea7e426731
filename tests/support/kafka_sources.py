"""Sources of Kafka for tests, and the rows that they give."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.schema.schema_provider import SchemaProvider
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.json_kafka_source import JsonKafkaSource
from hoodie.utilities.sources.source import InputBatch, SourceContext, read_all
from tests.support.kafka_broker import KafkaBroker

TRIP = json.dumps(
    {
        "type": "record",
        "name": "trip",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "n", "type": ["null", "long"], "default": None},
        ],
    }
)


class GivenSchema(SchemaProvider):
    """A provider of one schema."""

    def __init__(self, schema: str = TRIP) -> None:
        super().__init__(StreamerProperties({}))
        self.schema = schema

    def load_source_schema(self) -> str:
        """The schema."""
        return self.schema


def trips(first: int, count: int) -> list[bytes]:
    """JSON messages with numbers from ``first`` on."""
    return [json.dumps({"id": f"k{number}", "n": number}).encode() for number in range(first, first + count)]


class TopicReader:
    """A source of a topic, whose rounds follow each other as those of the streamer do.

    Args:
        broker: The broker.
        topic: The topic.
        schema: The Avro schema of the messages; None for no provider.
        table: The columns of the table; None for none.
        properties: Properties; a key without a dot is one of ``hoodie.streamer.source.kafka.``.
    """

    def __init__(
        self,
        broker: KafkaBroker,
        topic: str,
        schema: str | None = TRIP,
        table: pa.Schema | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        given = {
            "bootstrap.servers": broker.address(),
            "auto.offset.reset": "earliest",
            "default.api.timeout.ms": "20000",
            "hoodie.streamer.source.kafka.topic": topic,
        } | dict(properties or {})
        self.lines: list[str] = []
        self.source = JsonKafkaSource(
            SourceContext(
                StreamerProperties({key: value for key, value in given.items() if value != ""}),
                None if schema is None else GivenSchema(schema),
                load_table_schema=lambda: table,
                report=self.lines.append,
            )
        )
        self.checkpoint: Checkpoint | None = None
        self.errors: list[dict[str, Any]] = []
        self.batch: InputBatch | None = None

    def fetch(self, limit: int | None = None) -> InputBatch:
        """Find the next messages, without moving on."""
        return self.source.fetch(self.checkpoint, limit)

    def round(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Read the next messages; the position moves.

        Args:
            limit: The most messages.

        Returns:
            The rows.
        """
        batch = self.fetch(limit)
        rows, errors = read_all(batch) if batch.schema is not None else (pa.table({}), [])
        self.errors = [row for one in errors for row in one.to_pylist()]
        self.checkpoint = batch.checkpoint
        self.batch = batch
        found: list[dict[str, Any]] = rows.to_pylist()
        return found

    def numbers(self, limit: int | None = None) -> Sequence[int]:
        """The column n of a round."""
        return [row["n"] for row in self.round(limit)]

    @property
    def position(self) -> str | None:
        """The position as it is stored."""
        return None if self.checkpoint is None else self.checkpoint.position
