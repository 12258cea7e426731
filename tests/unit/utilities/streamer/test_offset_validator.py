from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import attrs
import pyarrow as pa
import pytest

from hoodie.exception import HoodieValidationException
from hoodie.utilities.streamer.offset_validator import CLASS_NAMES, offsets_between, offsets_of
from tests.support.streamer_runs import SCHEMA, ListSource, list_source, run_once


@pytest.fixture(autouse=True)
def lists(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lists whose positions have the form of Kafka's."""
    fetch = ListSource.fetch

    def fetch_offsets(self: ListSource, checkpoint: Any, limit: int | None) -> Any:
        plain = (
            None if checkpoint is None else attrs.evolve(checkpoint, position=checkpoint.position.rpartition(":")[2])
        )
        batch = fetch(self, plain, limit)
        assert batch.checkpoint is not None
        position = f"list,0:{batch.checkpoint.position}"
        return attrs.evolve(batch, checkpoint=attrs.evolve(batch.checkpoint, position=position))

    monkeypatch.setattr(ListSource, "fetch", fetch_offsets)
    yield
    ListSource.clear()


@pytest.mark.parametrize("name", CLASS_NAMES)
def test_rows_that_are_fewer_than_the_offsets_prevent_the_commit(tmp_path: Path, name: str) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("b", "x", 1), ("c", "x", 1), ("c", "x", 2))
    properties["hoodie.precommit.validators"] = name
    run_once(path, properties, source_limit=1)
    assert run_once(path, properties, source_limit=1).rows == 1
    with pytest.raises(HoodieValidationException, match="by 2 offsets, and 1 rows were written: a deviation of 50"):
        run_once(path, properties)
    properties["hoodie.precommit.validators.streaming.offset.tolerance.percentage"] = "50"
    assert run_once(path, properties).is_committed


def test_the_policy_warns_instead(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1), ("c", "x", 1), ("c", "x", 2))
    properties["hoodie.precommit.validators"] = "SparkKafkaOffsetValidator"
    properties["hoodie.precommit.validators.failure.policy"] = "WARN_LOG"
    run_once(path, properties, source_limit=1)
    with caplog.at_level(logging.WARNING):
        assert run_once(path, properties).is_committed
    assert "a deviation of 50.00 percent" in caplog.text


def test_messages_that_became_errors_and_deletes_count(tmp_path: Path) -> None:
    path = tmp_path / "t"
    properties = list_source("l", ("a", "x", 1, False), "bad", ("a", "x", 2, True))
    ListSource.SCHEMAS["l"] = SCHEMA.append(pa.field("_hoodie_is_deleted", pa.bool_()))
    properties |= {"hoodie.precommit.validators": "SparkKafkaOffsetValidator", "hoodie.errortable.enable": "true"}
    run_once(path, properties, source_limit=1)
    result = run_once(path, properties)
    assert (result.is_committed, result.error_count) == (True, 1)


def test_offsets_of_positions() -> None:
    assert offsets_of("a,0:1,2:5") == {0: 1, 2: 5}
    assert [offsets_of(text) for text in (None, "", "1795985855083", "a,b", "a,0:x", "a,")] == [None] * 6
    assert offsets_between({0: 1, 1: 9}, {0: 4, 1: 9, 2: 5}) == 8
    assert offsets_between({0: 10}, {0: 3}) == 3
