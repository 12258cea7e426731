"""The guarantee about file sizes: files of the right size from the first commit on, whatever records are like."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import hoodie
from hoodie import HoodieLocalWriteClient, HoodieTableMetaClient, HoodieWriteConfig
from hoodie.client.write_result import HoodieWriteResult
from hoodie.engine.local_engine_context import LocalEngineContext
from tests.support.table_builder import init_table

MAXIMUM = 400_000
Encoding = tuple[str, bool, int]
DEFAULTS: Encoding = ("snappy", True, 120 << 20)
PLAIN: Encoding = ("uncompressed", False, 120 << 20)


def properties(maximum: int = MAXIMUM, limit: int | None = None, encoding: Encoding = DEFAULTS) -> dict[str, object]:
    """Small files, with bloom filters that are small beside them."""
    codec, dictionary, block_bytes = encoding
    return {
        "hoodie.parquet.compression.codec": codec,
        "hoodie.parquet.dictionary.enabled": dictionary,
        "hoodie.parquet.block.size": block_bytes,
        "hoodie.parquet.max.file.size": maximum,
        "hoodie.parquet.small.file.limit": maximum * 100 // 120 if limit is None else limit,
        "hoodie.index.bloom.num_entries": 1000,
        "hoodie.bloom.index.filter.type": "SIMPLE",
        "hoodie.index.type": "SIMPLE",
    }


def rows(keys: np.ndarray, payload_bytes: int, compressible: bool, part: str = "p", seed: int = 1) -> pa.Table:
    """Rows with a text of about so many bytes on storage, or of the same length and next to none."""
    rng = np.random.default_rng(seed)
    length = max(payload_bytes, 1)
    text = rng.integers(33, 126, (len(keys), length), dtype=np.uint8)
    if compressible:
        text[:, 8:] = 120
    offsets = np.arange(0, length * (len(keys) + 1), length, dtype=np.int32)
    payload = pa.Array.from_buffers(pa.string(), len(keys), [None, pa.py_buffer(offsets), pa.py_buffer(text.tobytes())])
    return pa.table(
        {
            "id": pa.array([f"k{key:09d}" for key in keys]),
            "part": pa.array([part] * len(keys)),
            "ts": pa.array(np.zeros(len(keys), dtype=np.int64)),
            "payload": payload,
        }
    )


def sizes(path: str) -> dict[str, list[int]]:
    """Partition path to the sizes of its latest base files."""
    meta_client = HoodieTableMetaClient.load(path)
    view = meta_client.view()
    view.load_partitions(["p", "q"])
    found: dict[str, list[int]] = {}
    for part in ("p", "q"):
        found[part] = sorted(base_file.size_bytes for base_file in view.latest_base_files(part))
    return found


def assert_sized(path: str, maximum: int = MAXIMUM, limit: int | None = None, record_bytes: int = 0) -> None:
    """The guarantee, for partitions of three times the maximum; a record is not divided."""
    limit = maximum * 100 // 120 if limit is None else limit
    for found in sizes(path).values():
        assert all(size <= 1.1 * maximum + record_bytes for size in found), [size / maximum for size in found]
        if sum(found) >= 3 * maximum:
            assert sum(size < limit for size in found) <= 1, [size / maximum for size in found]


step = st.tuples(
    st.sampled_from(["insert", "upsert"]),
    st.integers(10_000, 1_500_000),  # bytes of payload
    st.integers(1, 4000),  # bytes of a record
    st.booleans(),  # whether records compress
    st.sampled_from(["p", "q"]),
)


encodings = st.tuples(
    st.sampled_from(["uncompressed", "snappy", "gzip", "zstd"]), st.booleans(), st.sampled_from([60_000, 120 << 20])
)


@settings(max_examples=8, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@example([("insert", 1_500_000, 10, True, "p"), ("upsert", 1_500_000, 3000, False, "p")], MAXIMUM, DEFAULTS)
@example([("upsert", 1_500_000, 3000, False, "p"), ("insert", 1_000_000, 10, False, "p")], MAXIMUM, DEFAULTS)
@example([("insert", 1_450_000, 150, False, "p"), ("insert", 1_450_000, 151, True, "p")], MAXIMUM, DEFAULTS)
@example([("upsert", 2_500_000, 1000, False, "p"), ("upsert", 1_800_000, 127, True, "p")], 1_000_000, PLAIN)
@example([("upsert", 450_000, 2400, False, "p")], 150_000, ("snappy", True, 60_000))
@example([("upsert", 450_000, 2400, False, "p")], 150_000, DEFAULTS)
@given(st.lists(step, min_size=1, max_size=5), st.sampled_from([150_000, MAXIMUM, 1_000_000]), encodings)
def test_any_sequence_of_inserts_of_any_records_leaves_files_of_the_right_size(
    steps: list[tuple[str, int, int, bool, str]], maximum: int, encoding: Encoding
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        init_table(path, partition_fields=["part"])
        next_key = 0
        config = HoodieWriteConfig.from_properties(path, properties(maximum, encoding=encoding))
        with HoodieLocalWriteClient(config) as client:
            for number, (operation, total, record, compressible, part) in enumerate(steps):
                record = min(record, maximum // 60)
                count = min(max(1, total // record), 30_000)
                keys = np.arange(next_key, next_key + count)
                next_key += count
                getattr(client, operation)(rows(keys, record, compressible, part, seed=number))
                assert_sized(path, maximum, record_bytes=record)
        read = hoodie.read_table(path, columns=["id"])
        assert sorted(read["id"].to_pylist()) == [f"k{key:09d}" for key in range(next_key)]


def test_updates_that_change_no_size_leave_columns_dictionaries(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, partition_fields=["part"])
    encoding = ("uncompressed", True, 120 << 20)
    config = HoodieWriteConfig.from_properties(path, properties(1_000_000, encoding=encoding))
    repeating = rows(np.arange(3000), 600, True)
    repeating = repeating.set_column(3, "payload", pa.array([f"{number % 50:0600}" for number in range(3000)]))
    various = rows(np.arange(3000, 4200), 600, False)
    with HoodieLocalWriteClient(config) as client:
        client.insert(repeating)
        client.insert(various)
        before = sizes(path)["p"]
        client.upsert(pa.concat_tables([repeating.slice(0, 10), various.slice(0, 10)]))
    assert sizes(path)["p"] == pytest.approx(before, rel=0.02)


def test_updates_and_inserts_together_keep_files_in_size(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, properties())
    rng = np.random.default_rng(5)
    with HoodieLocalWriteClient(config) as client:
        client.insert(rows(np.arange(4000), 300, False))
        assert_sized(path)
        total = 4000
        for number in range(8):
            old = rng.choice(total, 300, replace=False)
            new = np.arange(total, total + int(rng.integers(10, 2000)))
            client.upsert(rows(np.concatenate([old, new]), 300, False, seed=number + 10))
            total += len(new)
            assert_sized(path)
    assert hoodie.read_table(path, columns=["id"]).num_rows == total


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_the_guarantee_holds_for_any_small_file_limit(tmp_path: Path, share: float) -> None:
    path, limit = str(tmp_path / "t"), int(share * MAXIMUM)
    init_table(path, partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, properties(limit=limit))
    with HoodieLocalWriteClient(config) as client:
        for number in range(3):
            client.insert(rows(np.arange(number * 7000, (number + 1) * 7000), 200, False, seed=number))
            assert_sized(path, limit=limit)


def test_a_wrong_record_size_of_earlier_commits_is_made_good(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, properties())
    with HoodieLocalWriteClient(config) as client:
        client.insert(rows(np.arange(250), 2000, False))
        before = sizes(path)["p"]
        result = client.upsert(rows(np.arange(250, 20_000), 30, False))
    assert len(before) == 2
    assert_sized(path)
    assert any("small files" in timed.name for timed in result.steps)
    assert result.commit_metadata.total_records_written == 20_000 - kept_rows(path, result)
    assert {status.error_count for status in result.statuses} == {0}
    assert sum(status.stat.num_inserts for status in result.statuses) == 20_000 - 250
    written = {str(status.stat.path) for status in result.statuses}
    on_storage = {str(file.relative_to(path)) for file in Path(path).glob("p/*.parquet")}
    # The joined files are gone: what is there is what the commits say.
    assert written <= on_storage
    assert len(on_storage - written) == len(before)


def kept_rows(path: str, result: HoodieWriteResult) -> int:
    """Rows in files that a commit did not touch."""
    touched = {str(status.stat.path) for status in result.statuses}
    groups = {status.file_id for status in result.statuses}
    others = [file for file in Path(path).glob("p/*.parquet") if str(file.relative_to(path)) not in touched]
    return sum(pq.read_metadata(file).num_rows for file in others if file.name.split("_")[0] not in groups)


def test_bulk_insert_fills_files_to_the_maximum_and_leaves_one_small_file_a_task(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, properties())
    with HoodieLocalWriteClient(config) as client:
        client.bulk_insert(rows(np.arange(20_000), 100, False))
    found = sizes(path)["p"]
    assert max(found) <= 1.1 * MAXIMUM
    assert sum(size < MAXIMUM / 1.2 for size in found) <= LocalEngineContext().default_parallelism


def test_inserts_that_no_longer_fit_into_a_small_file_go_to_a_new_group(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    init_table(path, partition_fields=["part"])
    config = HoodieWriteConfig.from_properties(path, properties())
    with HoodieLocalWriteClient(config) as client:
        client.insert(rows(np.arange(50), 4000, False))
        assert len(sizes(path)["p"]) == 1
        # Updates make the small file larger, and take the room that was planned for inserts.
        both = pa.concat_tables([rows(np.arange(50), 7500, False), rows(np.arange(100, 200), 3500, False)])
        result = client.upsert(both)
    assert_sized(path)
    assert len(sizes(path)["p"]) == 2
    assert sorted(status.stat.prev_commit == "null" for status in result.statuses) == [False, True]
    numbers = hoodie.read_table(path, columns=["_hoodie_commit_seqno"])["_hoodie_commit_seqno"].to_pylist()
    assert len(set(numbers)) == len(numbers) == 150
