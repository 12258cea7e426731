"""The page of the properties of Kafka's consumer."""

from __future__ import annotations

from pathlib import Path

from hoodie.utilities.sources.helpers.kafka_consumer_properties import load_kafka_keys
from tests.support.kafka_properties_page import render

PAGE = Path(__file__).parents[5] / "docs" / "kafka-properties.md"


def test_the_page_in_docs_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render(), (
        "run: python -m tests.support.kafka_properties_page > docs/kafka-properties.md"
    )


def test_every_property_is_on_the_page_once() -> None:
    lines = [line for line in render().splitlines() if line.startswith("| `")]
    assert sorted(line.split("`")[1] for line in lines) == sorted(load_kafka_keys())
