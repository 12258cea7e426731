"""Attaching locations to rows by their keys."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.model.record import HoodieRecordLocation
from hoodie.common.model.record_columns import (
    CURRENT_FILE_ID,
    CURRENT_INSTANT_TIME,
    CURRENT_ROW_POSITION,
    PARTITION_PATH,
    RECORD_KEY,
)
from hoodie.index.index import KeyLocations

FILES = [HoodieRecordLocation(f"i{n}", f"f{n}") for n in range(3)]
PLACES = st.tuples(st.sampled_from("xy"), st.sampled_from("abcdé"), st.integers(0, 2), st.integers(0, 9))


def locations(places: list[tuple[str, str, int, int]]) -> KeyLocations:
    tables = {}
    for path in {place[0] for place in places}:
        mine = [place for place in places if place[0] == path]
        tables[path] = pa.table(
            {
                "key": pa.array([place[1] for place in mine], pa.string()),
                "file": pa.array([place[2] for place in mine], pa.int32()),
                "position": pa.array([place[3] for place in mine], pa.int64()),
            }
        )
    return KeyLocations(tables, FILES)


@given(
    st.lists(PLACES, unique_by=lambda place: (place[0], place[2], place[3]), max_size=15),
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from("abcdéf")), max_size=12),
)
def test_every_row_comes_once_for_each_location_and_once_for_none(
    places: list[tuple[str, str, int, int]], rows: list[tuple[str, str]]
) -> None:
    batch = pa.record_batch(
        {
            RECORD_KEY: pa.array([key for _, key in rows], pa.string()),
            PARTITION_PATH: pa.array([path for path, _ in rows], pa.string()),
            "n": pa.array(range(len(rows)), pa.int64()),
        }
    )
    tagged = locations(places).tag(batch)
    expected = []
    for number, (path, key) in enumerate(rows):
        found = [(f"i{file}", f"f{file}", position) for p, k, file, position in places if (p, k) == (path, key)]
        expected += [(number, *place) for place in found or [(None, None, None)]]
    columns = ("n", CURRENT_INSTANT_TIME, CURRENT_FILE_ID, CURRENT_ROW_POSITION)
    got = list(zip(*(tagged.column(name).to_pylist() for name in columns), strict=True))
    assert sorted(got, key=repr) == sorted(expected, key=repr)
    assert [row[0] for row in got] == sorted(row[0] for row in got)
