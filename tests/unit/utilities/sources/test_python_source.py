from __future__ import annotations

import gc
import pickle
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest

from hoodie.exception import (
    HoodieConfigException,
    HoodieReadFromSourceException,
    HoodieSourceTimeoutException,
)
from hoodie.utilities.config.streamer_properties import StreamerProperties
from hoodie.utilities.sources.checkpoint import Checkpoint
from hoodie.utilities.sources.python_source import BATCH_ROWS, PythonSource
from hoodie.utilities.sources.source import Source, SourceContext, read_all
from hoodie.utilities.sources.sources import make_source
from tests.support import streamer_user_code
from tests.support.streamer_user_code import COUNTRIES, CountriesSource, MovingSource, StreamSource, WholeSource

USER = streamer_user_code.__name__


def source_of(name: str, **properties: str) -> Source:
    return make_source(f"{USER}:{name}", SourceContext(StreamerProperties(properties)))


def test_a_class_gets_its_properties_the_position_and_the_limit() -> None:
    source = source_of("CountriesSource", **{"my.step": "2"})

    first = source.fetch(None, None)
    second = source.fetch(first.checkpoint, 1)
    end = source.fetch(Checkpoint("3"), None)

    assert first.checkpoint == Checkpoint("2")
    assert read_all(first)[0] == COUNTRIES.slice(0, 2)
    assert (first.rows, first.schema) == (2, COUNTRIES.schema)
    assert second.checkpoint == Checkpoint("3")
    assert read_all(second)[0] == COUNTRIES.slice(2)
    assert end.checkpoint == Checkpoint("3")
    assert end.is_empty


def test_commits_and_the_end_are_told_to_the_class() -> None:
    CountriesSource.heard.clear()
    source = source_of("CountriesSource")

    source.on_commit(Checkpoint("2"))
    source.close()

    assert CountriesSource.heard == ["2", "closed"]


def test_a_class_without_those_methods_hears_nothing() -> None:
    source = source_of("StreamSource")

    source.on_commit(Checkpoint("2"))
    source.close()


def test_a_stream_is_read_once_and_fetched_again_for_a_second_reading() -> None:
    StreamSource.calls = 0
    batch = source_of("StreamSource").fetch(None, None)

    assert batch.checkpoint == Checkpoint("3")
    assert read_all(batch)[0].to_pylist() == COUNTRIES.to_pylist()
    assert StreamSource.calls == 1
    assert read_all(batch)[0].to_pylist() == COUNTRIES.to_pylist()
    assert StreamSource.calls == 2


@pytest.mark.parametrize("name", ["StandingTable", "StandingStream", "standing_generator"])
def test_rows_without_a_position_after_them_are_refused(name: str) -> None:
    source = source_of(name)

    assert source.fetch(Checkpoint("6"), None).is_empty
    with pytest.raises(
        HoodieReadFromSourceException,
        match="fetch returned rows and the position '5', which it was asked for: return the position after the rows",
    ):
        source.fetch(Checkpoint("5"), None)


def test_a_stream_that_reads_further_the_second_time_is_refused() -> None:
    MovingSource.calls = 0
    batch = source_of("MovingSource").fetch(None, None)
    read_all(batch)

    with pytest.raises(HoodieReadFromSourceException, match="position '2' after its rows instead of '1'"):
        read_all(batch)


def test_a_generator_returns_its_position_and_its_rows_are_kept_until_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    source = source_of("generated_countries")

    batch = source.fetch(Checkpoint("1"), None)

    assert batch.checkpoint == Checkpoint("3")
    assert batch.rows == 2
    for _ in range(2):
        assert read_all(batch)[0].to_pylist() == COUNTRIES.slice(1).to_pylist()
    assert len(list(tmp_path.iterdir())) == 1
    del batch
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert source.fetch(Checkpoint("3"), None).is_empty
    assert source.fetch(Checkpoint("3"), None).checkpoint == Checkpoint("3")


@pytest.mark.parametrize(("name", "calls"), [("CountriesSource", 0), ("StreamSource", 2), ("generated_countries", 0)])
def test_reads_travel_to_tasks(name: str, calls: int) -> None:
    StreamSource.calls = 0
    batch = source_of(name, **{"my.step": "3"}).fetch(None, None)

    read = pickle.loads(pickle.dumps(batch.reads[0]))

    assert pa.Table.from_batches([one.rows for one in read.batches()]).to_pylist() == COUNTRIES.to_pylist()
    assert StreamSource.calls == calls


def test_batches_have_at_most_20000_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"a": range(BATCH_ROWS + 1)})
    monkeypatch.setattr(streamer_user_code, "COUNTRIES", rows)

    batch = source_of("CountriesSource", **{"my.step": str(len(rows))}).fetch(None, None)

    assert [len(one.rows) for one in batch.reads[0].batches()] == [BATCH_ROWS, 1]


def test_batches_of_other_types_and_order_become_like_the_first_one() -> None:
    batch = source_of("other_types").fetch(None, None)

    assert read_all(batch)[0].to_pylist() == COUNTRIES.to_pylist() * 2
    assert batch.schema == COUNTRIES.schema


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        (
            "wrong_answer",
            HoodieReadFromSourceException,
            r"fetch returned a pyarrow.lib.Table: return \(rows, position\)",
        ),
        ("wrong_rows", HoodieReadFromSourceException, "gave a builtins.dict among its rows"),
        ("wrong_position", HoodieReadFromSourceException, "the position is a builtins.dict"),
        ("slow_answer", HoodieSourceTimeoutException, "does not answer: 30 seconds"),
        ("failing_answer", HoodieReadFromSourceException, "failed .KeyError: 'token'."),
    ],
)
def test_errors_of_fetch_name_the_source(name: str, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as raised:
        source_of(name).fetch(None, None)

    assert f"source {USER}:{name}" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("failing_stream", "failed .KeyError: 'later'."),
        (
            "other_columns",
            "has the columns code string, persons int64, and the first one has code string, people int64",
        ),
    ],
)
def test_errors_of_reading_name_the_source(name: str, message: str) -> None:
    batch = source_of(name).fetch(None, None)

    with pytest.raises(HoodieReadFromSourceException, match=message):
        read_all(batch)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (f"{USER}:NoFetch", "has no fetch"),
        (f"{USER}:missing", "cannot be imported"),
        (f"{USER}:NOT_A_FUNCTION", "is int: name a class with fetch"),
        (f"{USER}:NeedsArguments", "has no fetch"),
        (f"{USER}:SparkSource", "works with Spark only: give --engine spark"),
        ("JsonKafkaSourc", "nearest: JsonKafkaSource"),
        ("org.apache.hudi.utilities.sources.PulsarSource", "Pulsar is not read: write a class with fetch"),
    ],
)
def test_names_of_nothing_that_is_a_source_are_refused(name: str, message: str) -> None:
    with pytest.raises(HoodieConfigException, match=message):
        make_source(name, SourceContext(StreamerProperties()))


def test_subclasses_of_source_are_made_with_the_context() -> None:
    context = SourceContext(StreamerProperties({"a": "b"}))

    source = make_source(f"{USER}.WholeSource", context)

    assert isinstance(source, WholeSource)
    assert source.context is context


def test_properties_are_not_shown() -> None:
    source = source_of("CountriesSource", **{"my.password": "hush"})

    assert isinstance(source, PythonSource)
    assert "hush" not in repr(source.name)
