"""Fixtures of the tests with a Kafka broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.kafka_sources import TopicReader


@pytest.fixture(autouse=True)
def closed_sources(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Connections of a test end with it."""
    opened = []
    begin = TopicReader.__init__

    def opening(self: TopicReader, *arguments: object, **named: object) -> None:
        begin(self, *arguments, **named)  # type: ignore[arg-type]
        opened.append(self)

    monkeypatch.setattr(TopicReader, "__init__", opening)
    yield
    for reader in opened:
        reader.source.close()
