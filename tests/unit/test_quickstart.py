"""The generator of trips, and its own model against the table that its changes make."""

from __future__ import annotations

import tempfile
import time
import uuid

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.exception import HoodieException
from hoodie.quickstart import DEFAULT_PARTITION_PATHS, TRIP_SCHEMA, DataGenerator

CHANGES = ["inserts", "updates", "unique_updates", "deletes"]


def by_key(table: pa.Table) -> list[dict[str, object]]:
    return table.sort_by("uuid").to_pylist()


def test_inserts_are_new_trips_with_valid_keys_in_every_partition() -> None:
    generator = DataGenerator(seed=1)
    first, second = generator.generate_inserts(300), generator.generate_inserts(300)
    assert first.schema == TRIP_SCHEMA
    keys = [*first["uuid"].to_pylist(), *second["uuid"].to_pylist()]
    assert len(set(keys)) == 600
    assert all(str(uuid.UUID(key)) == key and uuid.UUID(key).version == 4 for key in keys)
    assert set(first["partitionpath"].to_pylist()) == set(DEFAULT_PARTITION_PATHS)
    assert first["rider"].unique().to_pylist() != second["rider"].unique().to_pylist()
    assert by_key(generator.rows) == by_key(pa.concat_tables([first, second]))


def test_times_lie_in_the_seven_days_before_the_end_and_fares_below_100() -> None:
    end = 1_700_000_000_000
    trips = DataGenerator(seed=1, end_time_ms=end).generate_inserts(2000)
    times, fares = trips["ts"].to_pylist(), trips["fare"].to_pylist()
    assert end - 7 * 86_400_000 < min(times) < end - 6 * 86_400_000
    assert end - 86_400_000 < max(times) <= end
    assert 0 <= min(fares) < 10
    assert 90 < max(fares) < 100


def test_the_same_seed_makes_the_same_changes() -> None:
    def changes(seed: int) -> list[pa.Table]:
        generator = DataGenerator(seed=seed)
        return [
            getattr(generator, f"generate_{kind}")(count)
            for kind, count in (("inserts", 20), ("updates", 30), ("deletes", 5), ("unique_updates", 15))
        ]

    assert all(one.equals(other) for one, other in zip(changes(3), changes(3), strict=True))
    assert not changes(3)[0].equals(changes(4)[0])


def test_updates_repeat_keys_and_unique_updates_do_not() -> None:
    generator = DataGenerator(seed=1)
    keys = set(generator.generate_inserts(50)["uuid"].to_pylist())
    updates = generator.generate_updates(200)["uuid"].to_pylist()
    unique = generator.generate_unique_updates(50)["uuid"].to_pylist()
    assert set(updates) <= keys
    assert len(updates) == 200
    assert len(unique) == 50
    assert set(unique) == keys
    assert generator.num_existing_keys == 50


def test_updates_keep_the_newest_version_and_the_later_of_equally_new_ones() -> None:
    generator = DataGenerator(seed=1)
    newest = {row["uuid"]: row for row in generator.generate_inserts(40).to_pylist()}
    for _ in range(5):
        for row in generator.generate_updates(100).to_pylist():
            if row["ts"] >= newest[row["uuid"]]["ts"]:
                newest[row["uuid"]] = row
    assert {row["uuid"]: row for row in generator.rows.to_pylist()} == newest


def test_deletes_are_keys_that_are_never_named_again() -> None:
    generator = DataGenerator(seed=1)
    generator.generate_inserts(50)
    deletes = generator.generate_deletes(20)
    gone = set(deletes["uuid"].to_pylist())
    assert deletes.column_names == ["uuid", "partitionpath"]
    assert len(gone) == 20
    assert generator.num_existing_keys == 30
    assert not gone & set(generator.rows["uuid"].to_pylist())
    assert not gone & set(generator.generate_updates(300)["uuid"].to_pylist())


@pytest.mark.parametrize("kind", CHANGES[1:])
def test_changes_of_trips_that_are_not_there_are_refused(kind: str) -> None:
    generator = DataGenerator()
    change = getattr(generator, f"generate_{kind}")
    with pytest.raises(HoodieException, match="generate_inserts"):
        change(1)
    assert change(0).num_rows == 0
    generator.generate_inserts(2)
    with pytest.raises(HoodieException, match="negative"):
        change(-1)
    assert generator.num_existing_keys == 2


def test_partition_paths_are_a_list_that_is_not_empty() -> None:
    for wrong in ("asia", ()):
        with pytest.raises(HoodieException, match="partition paths"):
            DataGenerator(partition_paths=wrong)
    trips = DataGenerator(partition_paths=["here"]).generate_inserts(3)
    assert trips["partitionpath"].to_pylist() == ["here"] * 3


def test_a_million_trips_take_seconds() -> None:
    started = time.process_time()
    generator = DataGenerator()
    generator.generate_inserts(500_000)
    generator.generate_updates(500_000)
    assert time.process_time() - started < 10


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    changes=st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 40)), min_size=1, max_size=5),
)
def test_a_table_holds_what_the_model_says_after_any_changes(seed: int, changes: list[tuple[str, int]]) -> None:
    generator = DataGenerator(seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        HoodieTableMetaClient.init_table(
            folder, table_name="trips", record_key_fields="uuid", partition_fields="partitionpath", ordering_fields="ts"
        )
        with HoodieLocalWriteClient(HoodieWriteConfig.from_properties(folder)) as client:
            client.bulk_insert(generator.generate_inserts(10))
            for kind, count in changes:
                if kind in ("unique_updates", "deletes"):
                    count = min(count, generator.num_existing_keys)
                if kind == "updates" and not generator.num_existing_keys:
                    continue
                rows = getattr(generator, f"generate_{kind}")(count)
                if kind == "deletes":
                    client.delete(rows)
                else:
                    client.upsert(rows)
        found = hoodie.read_table(folder, columns=TRIP_SCHEMA.names)
    assert by_key(found) == by_key(generator.rows)
