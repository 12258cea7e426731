"""Seconds per million record keys to fill a bloom filter and to look up keys in it; the median of five runs."""

from __future__ import annotations

import platform
import statistics
import subprocess
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

from hoodie.common.bloom.bloom_filter import DynamicBloomFilter
from hoodie.common.bloom.murmur_hash import hash_keys

ROWS = 1_000_000
REPEATS = 5
SEED = 20240601


def random_keys(count: int, seed: int) -> pa.Array:
    """Keys of 36 characters, the length of a UUID."""
    random = Random(seed)
    return pa.array([str(uuid.UUID(int=random.getrandbits(128), version=4)) for _ in range(count)])


def mixed_keys(keys: pa.Array) -> pa.Array:
    """Keys of 5 to 36 characters."""
    lengths = np.random.default_rng(SEED).integers(5, 37, len(keys))
    return pa.array([key[:length] for key, length in zip(keys.to_pylist(), lengths, strict=True)])


def new_filter() -> DynamicBloomFilter:
    """A filter with Hudi's defaults: 60,000 keys per row, fpp 1e-9, at most 100,000 keys: 30 hashes, two rows."""
    return DynamicBloomFilter.create(60_000, 1e-9, 100_000)


def median_seconds(run: Callable[[], object]) -> float:
    """The median of `REPEATS` runs."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def add_and_store(keys: pa.Array) -> None:
    """Fill a new filter and encode it for a footer."""
    bloom_filter = new_filter()
    bloom_filter.add(keys)
    bloom_filter.to_base64()


def main() -> None:
    """Run the measurements and print them."""
    keys, others = random_keys(ROWS, SEED), random_keys(ROWS, SEED + 1)
    mixed = mixed_keys(keys)
    filled = new_filter()
    filled.add(keys.slice(0, 60_000))
    stored = filled.to_bytes()
    runs: dict[str, Callable[[], object]] = {
        "add, 36 characters": lambda: add_and_store(keys),
        "add, 5 to 36 characters": lambda: add_and_store(mixed),
        "add to a stored filter": lambda: DynamicBloomFilter.from_bytes(stored).add(keys),
        "look up, none is there": lambda: filled.might_contain(others),
        "one hash": lambda: hash_keys(keys),
    }
    revision = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    ).stdout.strip()
    print(f"revision {revision}, Python {platform.python_version()}, numpy {np.__version__}, pyarrow {pa.__version__}")
    print(f"{ROWS} keys, median of {REPEATS}, seconds per million keys")
    for name, run in runs.items():
        print(f"{median_seconds(run) * 1_000_000 / ROWS:8.3f}  {name}")


if __name__ == "__main__":
    main()
