"""Rows of one key that are not combined: a delete takes what stands before it in the input."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.table_builder import init_table, local_client, read_rows

SCHEMA = pa.schema(
    [("id", pa.string()), ("region", pa.string()), ("v", pa.int64()), ("_hoodie_is_deleted", pa.bool_())]
)
Entry = tuple[str, str, int | None]
"""Key, region, and the value, or None for a delete."""
_numbers = itertools.count()


def rows(*entries: Entry) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": k, "region": r, "v": v or 0, "_hoodie_is_deleted": v is None} for k, r, v in entries], SCHEMA
    )


client = partial(local_client, parallelism=2, combine_before_upsert="false")


def make_table(path: Path, *stored: Entry) -> Path:
    init_table(path, ordering_fields=[])
    if stored:
        with client(path) as c:
            c.insert(rows(*stored))
    return path


@pytest.fixture(params=["keys at hand", "keys in tasks"])
def _ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "keys in tasks":
        monkeypatch.setattr("hoodie.table.action.commit.incoming_keys.KEY_BYTES", 0)


@pytest.mark.usefixtures("_ways")
@pytest.mark.parametrize("index", ["SIMPLE", "GLOBAL_SIMPLE", "BUCKET"])
@pytest.mark.parametrize("stored", [[], [("a", "x", 1)]], ids=["new file", "small file"])
def test_a_new_key_that_is_deleted_later_in_the_input_is_not_stored(
    tmp_path: Path, stored: list[Entry], index: str
) -> None:
    path = make_table(tmp_path / "t", *([] if index == "BUCKET" else stored))
    options = {"hoodie.index.type": index, "hoodie.bucket.index.num.buckets": 1}
    with client(path, **options) as c:
        if index == "BUCKET" and stored:
            c.upsert(rows(*stored))
        given_rows = [("b", "x", 1), ("c", "x", 1), ("b", "x", None), ("c", "x", None), ("c", "x", 2), ("d", "x", None)]
        c.upsert(rows(*given_rows))
    assert read_rows(path, ["id", "region", "v"]) == sorted([*stored, ("c", "x", 2)])


def test_a_global_key_is_deleted_in_whatever_partition_it_was_given(tmp_path: Path) -> None:
    path = make_table(tmp_path / "t", ("a", "x", 1))
    entries: list[Entry] = [("b", "x", 1), ("b", "y", None), ("c", "x", 1)]
    with client(path, **{"hoodie.index.type": "GLOBAL_SIMPLE"}) as c:
        c.upsert(rows(*entries))
    assert read_rows(path, ["id", "region", "v"]) == [("a", "x", 1), ("c", "x", 1)]
    with client(path) as c:
        c.upsert(rows(*entries))
    assert read_rows(path, ["id", "region", "v"]) == [("a", "x", 1), ("b", "x", 1), ("c", "x", 1)]


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.sampled_from("xy"), st.one_of(st.none(), st.integers(1, 99))), min_size=1
    )
)
@pytest.mark.usefixtures("_ways")
def test_of_rows_that_meet_existing_files_the_last_one_of_each_key_counts(tmp_path: Path, entries: list[Entry]) -> None:
    stored: list[Entry] = [("a", "x", 0), ("b", "y", 0), ("z", "x", 0), ("z", "y", 0)]
    path = make_table(tmp_path / str(next(_numbers)), *stored)
    expected = {(key, region): value for key, region, value in [*stored, *entries]}
    with client(path) as c:
        c.upsert(rows(*entries))
    assert read_rows(path, ["id", "region", "v"]) == sorted(
        (*key, value) for key, value in expected.items() if value is not None
    )
