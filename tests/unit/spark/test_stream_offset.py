"""Offsets of streams, without Spark."""

from __future__ import annotations

import json

import pytest

from hoodie.exception import HoodieConfigException, HoodieException
from hoodie.spark.stream_offset import OffsetKind, StreamOffset

COMMIT = "20260102101530123"


@pytest.mark.parametrize(
    ("text", "offset", "time"),
    [
        ("earliest", {"kind": "start", "at": "earliest"}, None),
        ("000", {"kind": "start", "at": "earliest"}, None),
        (" Latest", {"kind": "start", "at": "latest"}, None),
        (COMMIT, {"kind": "start", "at": COMMIT}, COMMIT),
        ("2026-01-02 10:15:30.123", {"kind": "start", "at": COMMIT}, COMMIT),
        ("2026-01-02", {"kind": "start", "at": "20260102000000000"}, "20260102000000000"),
    ],
)
def test_a_stream_begins_where_the_option_says(text: str, offset: dict[str, str], time: str | None) -> None:
    found = StreamOffset.start(text, "UTC")
    assert found.to_json() == offset
    assert StreamOffset.of(json.loads(json.dumps(offset))) == found
    assert (found.time, found.commit) == (time, None)
    assert found.begins_at_latest == (offset["at"] == "latest")


@pytest.mark.parametrize("kind", ["requested", "completed"])
def test_an_offset_after_a_commit_says_its_kind(kind: str) -> None:
    offset = StreamOffset.after(COMMIT, OffsetKind(kind))
    assert offset.to_json() == {"kind": kind, "instant": COMMIT}
    assert StreamOffset.of(offset.to_json()) == offset
    assert (offset.time, offset.commit, offset.begins_at_latest) == (COMMIT, COMMIT, False)


def test_a_table_without_commits_has_an_offset() -> None:
    offset = StreamOffset.after(None)
    assert StreamOffset.of(offset.to_json()) == offset
    assert (offset.time, offset.commit) == (None, None)


@pytest.mark.parametrize("text", ["soon", "", "2026-13-01"])
def test_other_beginnings_are_refused(text: str) -> None:
    with pytest.raises(HoodieConfigException, match=r"hoodie\.datasource\.streaming\.startOffset"):
        StreamOffset.start(text, "UTC")


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"offset": 3},
        {"kind": "finished", "instant": COMMIT},
        {"kind": "completed", "instant": "soon"},
        {"kind": "requested", "instant": "soon"},
        {"kind": "requested", "instant": 5},
        {"kind": "start", "at": "soon"},
    ],
)
def test_offsets_of_another_kind_are_refused(value: dict[str, object]) -> None:
    with pytest.raises(HoodieException, match="start the query with a new checkpoint folder"):
        StreamOffset.of(value)
