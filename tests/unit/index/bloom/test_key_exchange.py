"""Keys that stay in tasks: the rows of one file come in as many batches as the engine makes of them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hoodie.engine.data import HoodieData
from hoodie.engine.local_data import LocalData
from hoodie.engine.task_identity import TaskIdentity
from hoodie.index.bloom import bloom_index
from hoodie.index.simple import simple_index
from tests.unit.index.bloom.base_files import StoredFile
from tests.unit.index.bloom.test_bloom_index import expected_places, indexed, make_index, tag

KEYS = [f"k{number:04}" for number in range(120)]


@given(st.integers(1, 7), st.sampled_from([1, 3]), st.booleans())
@settings(max_examples=8, deadline=None)
def test_keys_of_a_file_are_found_though_they_come_in_many_batches(
    batch_rows: int, tasks: int, has_filter: bool
) -> None:
    """Files of one task follow each other within a batch, and one file's keys are spread over many."""
    filter_type = "DYNAMIC_V0" if has_filter else None
    table = {
        "p": [StoredFile(KEYS[start::3], row_group_rows=5, filter_type=filter_type) for start in range(3)],
        "q": [StoredFile(KEYS[10:30], filter_type=filter_type)],
    }
    rows = [(path, key) for path in ("p", "q", "new") for key in [*KEYS[::2], "k0000x"]]
    sizes: list[list[int]] = []

    def cut(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        sizes.append([])
        for batch in batches:
            for start in range(0, batch.num_rows, batch_rows):
                piece = batch.slice(start, batch_rows)
                sizes[-1].append(piece.num_rows)
                yield piece

    original = LocalData.sort_within

    def sort_within(data: LocalData, columns: list[str]) -> HoodieData:
        return original(data, columns).map_partitions_with_index(cut, data.schema)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(simple_index, "SHARED_KEY_BYTES", 0)
        patch.setattr(bloom_index, "MOST_COMPARISONS", 1000)
        patch.setattr(LocalData, "sort_within", sort_within)
        files = indexed(Path(folder), table)
        index = make_index(parallelism=tasks, **{"keys.per.bucket": 50})
        assert tag(index, files, rows, by_exchange=True) == expected_places(table, rows)
    # More batches than there are files and partitions of rows: some file's keys were in several.
    assert max(map(len, sizes)) > 4
    assert max(map(max, filter(None, sizes))) <= batch_rows
