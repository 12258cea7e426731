"""XXH64 is that of Hudi's own vectors, and of the library xxhash."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import xxhash

from hoodie.common.util.xx_hash import xxh64

HUDI_SEED = 0xFFFFFFFFDABADABA


def test_hashes_are_those_of_the_vectors_of_hudi(shared_vectors: Path) -> None:
    folder = shared_vectors / "hudi-common/hash"
    texts = (folder / "magic_input.txt").read_text().splitlines()
    hashes = (folder / "xxhash_BITS_64_for_magic_input.txt").read_text().splitlines()
    assert [f"{xxh64(text.encode(), HUDI_SEED):016X}" for text in texts] == hashes
    assert len(hashes) == 10


@pytest.mark.parametrize("seed", [0, 1, HUDI_SEED, (1 << 64) - 1])
def test_hashes_of_all_lengths_are_those_of_the_library(seed: int) -> None:
    generator = random.Random(seed)
    for length in range(150):
        data = generator.randbytes(length)
        assert xxh64(data, seed) == xxhash.xxh64(data, seed=seed).intdigest(), length
