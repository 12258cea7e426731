"""Queries: hudi-rs and hoodie find the same rows of the same tables.

What hudi-rs 0.5.0 does not have, or has in another way:

- Times are instants, numbers since 1970, and times with a ``T`` and a zone; other forms are errors.
- Time travel shows the columns of today; Hudi on Spark and hoodie show those of that time.
- Ranges have no path globs, no policy for pending commits and no full scan. Streams of ranges are errors.
- Rows that were cleaned, archived or restored away are left out silently.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hudi import HudiQueryType, HudiReadOptions, HudiTableBuilder

import hoodie
from hoodie.exception import HoodieException, HoodieIOException
from tests.support.table_builder import SCHEMA, init_table, local_client, read_rows, rows
from tests.unit.query.test_times import NO_SERVICES, cleaned_table, commits_of, random_history, with_a_hole
from tests.unit.test_tables_of_real_hudi import COPY_ON_WRITE, VIRTUAL_KEYS, copy_of_table, in_order, user_rows

Rows = list[tuple[Any, ...]]


def found_by_hudi_rs(path: str, options: HudiReadOptions | None = None) -> list[dict[str, Any]]:
    batches = HudiTableBuilder.from_base_uri(path).build().read(options)
    return user_rows(pa.Table.from_batches(batches)) if batches else []


def trips(path: str, options: HudiReadOptions | None = None) -> Rows:
    return sorted(tuple(row[name] for name in SCHEMA.names) for row in found_by_hudi_rs(path, options))


def at(time: str) -> HudiReadOptions:
    return HudiReadOptions().with_as_of_timestamp(time)


def between(begin: str | None = None, end: str | None = None) -> HudiReadOptions:
    options = HudiReadOptions().with_query_type(HudiQueryType.Incremental)
    options = options if begin is None else options.with_start_timestamp(begin)
    return options if end is None else options.with_end_timestamp(end)


def written(path: str, begin: str = "earliest", end: str | None = None) -> Rows:
    return read_rows(path, query_type="incremental", begin=begin, end=end)


@pytest.mark.parametrize("seed", range(20, 24))
@pytest.mark.one_in(4)
def test_every_time_and_every_range(tmp_path: Path, seed: int) -> None:
    path = init_table(tmp_path / "t")
    times = [time for time, _, _ in random_history(path, seed, 8)]
    assert trips(path) == read_rows(path)
    assert trips(path, between()) == written(path)
    optimized = HudiReadOptions().with_hudi_option("hoodie.read.use.read_optimized.mode", "true")
    assert trips(path, optimized) == read_rows(path, query_type="read_optimized")
    for number, time in enumerate(times):
        for moment in (time, str(int(time) - 1), str(int(time) + 1)):
            assert trips(path, at(moment)) == read_rows(path, as_of=moment)
        assert trips(path, between(time)) == written(path, time)
        for begin in ["000", *times[:number]]:
            assert trips(path, between(begin, time)) == written(path, begin, time)
            # Limits that are no instants.
            before, after = str(max(int(begin) - 1, 0)), str(int(time) + 1)
            assert trips(path, between(before, after)) == written(path, before, after)


@pytest.mark.table_version(6)
def test_numbers_since_1970_and_times_with_zones(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        for ts, instant in ((1, "20240101101530123"), (2, "20240103101530123")):
            client.start_commit_with_time(instant)
            client.upsert(rows(("a", "x", ts)), instant)
    for form, ts in (
        ("1704104131", 1),
        ("1704104130123", 1),
        ("1704276930123", 2),
        ("2024-01-03T10:15:30.123Z", 2),
        ("2024-01-03T12:15:30.122+02:00", 1),
    ):
        assert trips(path, at(form)) == read_rows(path, as_of=form) == [("a", "x", ts)], form


def test_columns_that_were_added_later(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    with local_client(path, NO_SERVICES) as client:
        first = client.upsert(rows(("a", "x", 1))).instant_time
        client.upsert(rows(("b", "y", 2, 2.5)))
    assert found_by_hudi_rs(path, at(first)) == [{"id": "a", "region": "x", "ts": 1, "fare": None}]
    assert user_rows(hoodie.read_table(path, as_of=first)) == [{"id": "a", "region": "x", "ts": 1}]
    assert found_by_hudi_rs(path, between("000", first)) == user_rows(
        hoodie.read_table(path, query_type="incremental", begin="000", end=first)
    )


@pytest.mark.table_version(6)
def test_what_is_gone_is_left_out_by_hudi_rs_and_refused_by_hoodie(tmp_path: Path) -> None:
    cleaned = init_table(tmp_path / "cleaned")
    times = cleaned_table(cleaned)
    assert trips(cleaned, at(times[0])) == []
    with pytest.raises(HoodieIOException, match="were cleaned"):
        read_rows(cleaned, as_of=times[0])
    assert trips(cleaned, between(times[0], times[1])) == []
    with pytest.raises(HoodieIOException, match="were cleaned"):
        written(cleaned, times[0], times[1])

    archived = init_table(tmp_path / "archived")
    services = {"hoodie.cleaner.commits.retained": 1, "hoodie.keep.min.commits": 2, "hoodie.keep.max.commits": 3}
    with local_client(archived, services) as client:
        first = client.upsert(rows(("k0", "x", 1))).instant_time
        for ts in range(2, 9):
            client.upsert(rows((f"k{ts}", "y", ts)))
    assert ("k2", "y", 2) not in trips(archived, between(first))
    with pytest.raises(HoodieIOException, match="archived"):
        written(archived, first)
    assert ("k0", "x", 1) not in trips(archived, between())
    assert ("k0", "x", 1) in written(archived)

    restored = init_table(tmp_path / "restored")
    with local_client(restored, NO_SERVICES) as client:
        kept, gone = [client.upsert(rows(("a", "x", ts))).instant_time for ts in (1, 2)]
        client.restore_to_instant(kept)
    assert trips(restored, at(gone)) == [("a", "x", 1)]
    with pytest.raises(HoodieException, match="undone"):
        read_rows(restored, as_of=gone)


@pytest.mark.table_version(6)
def test_pending_commits_are_passed_over_by_hudi_rs_and_refused_by_hoodie(tmp_path: Path) -> None:
    path = init_table(tmp_path / "t")
    _, complete = with_a_hole(path)
    assert trips(path, between()) == [("a", "x", 1), ("c", "z", 3)]
    with pytest.raises(HoodieException, match="is pending"):
        written(path)
    complete()
    assert trips(path, between()) == written(path) == [("a", "x", 1), ("b", "y", 2), ("c", "z", 3)]


@pytest.mark.parametrize("name", COPY_ON_WRITE)
def test_tables_that_real_hudi_made(name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    path = str(copy_of_table(name, tmp_path, request))
    times = commits_of(path)
    for time in times:
        assert in_order(found_by_hudi_rs(path, at(time))) == in_order(user_rows(hoodie.read_table(path, as_of=time)))
        for begin in [] if name in VIRTUAL_KEYS else ["000", *times]:
            if begin < time:
                ours = hoodie.read_table(path, query_type="incremental", begin=begin, end=time)
                assert in_order(found_by_hudi_rs(path, between(begin, time))) == in_order(user_rows(ours))
