"""Transformers and sources that a user of the streamer could have written, named as module:Class in tests."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.source import InputBatch, Source
from hoodie.utilities.transform.transformer import Transformer

NOT_A_FUNCTION = 7


def double_fares(table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
    """The fares, times the factor of the user's own property."""
    factor = float(properties.get("my.factor", "2"))
    index = table.column_names.index("fare")
    return table.set_column(index, "fare", pc.multiply(table["fare"], factor))


def return_nothing(table: pa.Table, properties: Mapping[str, str]) -> None:
    """Forgets to return the rows."""


def divide_by_zero(table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
    """Fails."""
    raise ZeroDivisionError("of the user's")


class FirstRow:
    """A plain class with apply."""

    def apply(self, table: pa.Table, properties: Mapping[str, str]) -> pa.Table:
        return table.slice(0, 1)


class AddsColumn(Transformer):
    """A subclass of Transformer, which runs in Spark's tasks too."""

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        return table.append_column("added", pa.array([1] * len(table), pa.int64()))


class NeedsArguments(Transformer):
    """A class that cannot be made without arguments."""

    def __init__(self, needed: Any) -> None:
        self.needed = needed

    def apply(self, table: pa.Table, properties: StreamerProperties) -> pa.Table:
        return table


COUNTRIES = pa.table({"code": ["de", "fr", "no"], "people": [84, 68, 5]})


class CountriesSource:
    """A source of tables, whose position is the number of rows that were read."""

    heard: ClassVar[list[str]] = []

    def __init__(self, properties: dict[str, str]) -> None:
        self.step = int(properties.get("my.step", "2"))

    def fetch(self, position: str | None, limit: int | None) -> tuple[pa.Table | None, str]:
        start = int(position or "0")
        rows = COUNTRIES.slice(start, min(self.step, limit or self.step))
        return rows, str(start + len(rows))

    def on_commit(self, position: str) -> None:
        self.heard.append(position)

    def close(self) -> None:
        self.heard.append("closed")


class StreamSource:
    """A source of streams, without arguments; each call makes a new stream."""

    calls = 0

    def fetch(self, position: str | None, limit: int | None) -> tuple[pa.RecordBatchReader, int]:
        type(self).calls += 1
        batches = COUNTRIES.to_batches(max_chunksize=1)
        return pa.RecordBatchReader.from_batches(COUNTRIES.schema, iter(batches)), 3


class MovingSource:
    """A source whose second call reads further than the first one."""

    calls = 0

    def fetch(self, position: str | None, limit: int | None) -> tuple[Iterator[pa.RecordBatch], int]:
        type(self).calls += 1
        return iter(COUNTRIES.to_batches()), type(self).calls


def generated_countries(position: str | None, limit: int | None) -> Generator[pa.Table, None, str]:
    """A source that knows its position at the end."""
    start = int(position or "0")
    count = 0
    for batch in COUNTRIES.slice(start).to_batches(max_chunksize=1):
        count += 1
        yield pa.Table.from_batches([batch])
    return str(start + count)


def wrong_answer(position: str | None, limit: int | None) -> Any:
    """Forgets the position."""
    return COUNTRIES


def wrong_rows(position: str | None, limit: int | None) -> Any:
    """Gives rows of Python."""
    return [{"code": "de"}], "1"


def wrong_position(position: str | None, limit: int | None) -> Any:
    """Gives a position that no commit can hold."""
    return COUNTRIES, {"a": 1}


def slow_answer(position: str | None, limit: int | None) -> Any:
    """Waits for nothing."""
    raise TimeoutError("30 seconds")


def failing_answer(position: str | None, limit: int | None) -> Any:
    """Fails."""
    raise KeyError("token")


def failing_stream(position: str | None, limit: int | None) -> Any:
    """Fails after the first batch."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from COUNTRIES.to_batches()
        raise KeyError("later")

    return batches(), "1"


def other_columns(position: str | None, limit: int | None) -> Any:
    """Gives batches of different columns."""
    return iter([COUNTRIES, COUNTRIES.rename_columns(["code", "persons"])]), "1"


def other_types(position: str | None, limit: int | None) -> Any:
    """Gives batches of other types and another order, whose values fit."""
    second = COUNTRIES.select(["people", "code"]).cast(pa.schema([("people", pa.int32()), ("code", pa.string())]))
    return iter([COUNTRIES, second]), "1"


class NoFetch:
    """A class that is no source."""


class WholeSource(Source):
    """A source with Hudi's contract."""

    def fetch(self, checkpoint: Checkpoint | None, limit: int | None) -> InputBatch:
        return InputBatch(Checkpoint("whole"))


class SparkSource(WholeSource):
    """A source that needs Spark."""

    needs_spark = True


class StandingTable:
    """Gives back the position that it is asked for; there is nothing from 6 on."""

    def fetch(self, position: str | None, limit: int | None) -> Any:
        return COUNTRIES if position == "5" else COUNTRIES.slice(0, 0), position


class StandingStream:
    """The same as a stream."""

    def fetch(self, position: str | None, limit: int | None) -> Any:
        return StandingTable().fetch(position, limit)[0].to_reader(), position


def standing_generator(position: str | None, limit: int | None) -> Any:
    """The same as a generator."""
    yield StandingTable().fetch(position, limit)[0]
    return position
