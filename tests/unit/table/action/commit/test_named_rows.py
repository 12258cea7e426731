"""Rows counted by the file groups that an index names: one count for each place, however many batches come."""

from __future__ import annotations

from collections import defaultdict

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hoodie.common.model.record_columns import CURRENT_FILE_ID, OPERATION, PARTITION_PATH, RECORD_KEY
from hoodie.common.model.write_operation_type import RecordOperation
from hoodie.common.model.write_status import RowsSeen
from hoodie.config.index_config import BucketKeyRule
from hoodie.engine.bucket_routing import BucketRouting, KeyColumns
from hoodie.engine.local_engine_context import LocalEngineContext
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.bucket.bucket_identifier import BucketIdentifier
from hoodie.index.bucket.simple_bucket_index import BucketLocations
from hoodie.index.places_by_hash import rows_seen_by_hash
from hoodie.table.action.commit import named_rows
from hoodie.table.action.commit.named_rows import COUNTS, CountNamed, NamedCounts, added_up

LOCATIONS = BucketLocations(BucketIdentifier(3, ("id",), ("id",), BucketKeyRule.HUDI_1_X), {}, "seed")
ROUTING = BucketRouting(KeyColumns(("id",), False, ("p",), False), ("id",), 3)
Row = tuple[str, str | None, int]


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    keys, paths, operations = zip(*rows, strict=True)
    columns = [pa.array(keys, pa.string()), pa.array(paths, pa.string()), pa.array(operations, pa.int8())]
    return pa.record_batch(columns, names=[RECORD_KEY, PARTITION_PATH, OPERATION])


def counted(batches: list[pa.RecordBatch], routing: BucketRouting | None = None) -> pa.Table:
    shared = LocalEngineContext().share(LOCATIONS)
    return pa.Table.from_batches(CountNamed(shared, routing)(TaskIdentity(0, 0, 0), iter(batches)), COUNTS)


@pytest.mark.parametrize("held", [1, 5, 1 << 16])
def test_a_place_has_one_count_for_all_batches_of_a_task(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    monkeypatch.setattr(named_rows, "HELD_COUNTS", held)
    upsert, delete = int(RecordOperation.UPSERT), int(RecordOperation.DELETE)
    rows: list[Row] = [(f"k{i % 90}", f"p{i % 2}", delete if i % 11 == 0 else upsert) for i in range(400)]
    rows += [("", None, upsert)] * 3
    batches = [batch_of(rows[start : start + 20]) for start in range(0, len(rows), 20)]
    found = counted(batches)
    expected: dict[tuple[str | None, str | None, bool | None], int] = defaultdict(int)
    for key, path, operation in rows:
        if path is None:
            expected[None, None, None] += 1
            continue
        tagged = LOCATIONS.tag(batch_of([(key, path, operation)]))
        expected[path, tagged.column(CURRENT_FILE_ID)[0].as_py(), operation == delete] += 1
    assert found.num_rows == len(expected) == 13
    assert {(r[PARTITION_PATH], r[CURRENT_FILE_ID], r["is_delete"]): r["count"] for r in found.to_pylist()} == expected
    placed = found.filter(pc.is_valid(found[PARTITION_PATH]))
    assert pc.all(pc.is_valid(placed[RECORD_KEY])).as_py()
    inserted = NamedCounts.of_inserts(placed, LOCATIONS, combines=False)
    given = [row for row in rows if row[1] is not None and row[2] == upsert]
    # Fingerprints are added modulo 2^64.
    assert inserted.seen == rows_seen_by_hash(batch_of(given))
    assert inserted.unmatched_deletes == sum(row[2] == delete for row in rows)
    twice = NamedCounts.of_inserts(added_up(pa.concat_tables([placed, placed])), LOCATIONS, combines=False)
    assert twice.seen == sum([inserted.seen] * 2, RowsSeen())
    # If the newest row of a key stays, it may be a delete, which comes to the rows of its key.
    for locations in (LOCATIONS, None):
        combined = NamedCounts.of_inserts(placed, locations, combines=True)
        assert combined.seen == rows_seen_by_hash(batch_of([row for row in rows if row[1] is not None]))
        assert combined.unmatched_deletes == 0


def test_odd_keys_of_any_batch_are_noticed() -> None:
    batches = [batch_of([(key, "p", int(RecordOperation.UPSERT))]) for key in ("a", "b", "id:1,x:2", "c")]
    assert pc.any(counted(batches, ROUTING)["has_odd_keys"]).as_py()
    assert not pc.any(counted(batches)["has_odd_keys"]).as_py()
    assert not pc.any(counted([batches[0], batches[3]], ROUTING)["has_odd_keys"]).as_py()


def test_an_input_without_rows_has_no_counts() -> None:
    assert counted([]).num_rows == 0
    assert added_up(counted([])).schema == COUNTS
