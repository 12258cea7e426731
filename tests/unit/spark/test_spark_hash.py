from __future__ import annotations

import numpy as np
import pytest

from hoodie.spark.spark_hash import hash_ints, numbers_to_hash_inputs


def test_hashes_are_those_of_spark() -> None:
    values = np.array([0, 1, -1, 42, 2**31 - 1, -(2**31)], dtype=np.int32)
    # SELECT hash(0), hash(1), hash(-1), hash(42), hash(2147483647), hash(-2147483648)
    assert hash_ints(values).tolist() == SPARK_HASHES


@pytest.mark.parametrize("num_partitions", [1, 2, 7, 200, 5000])
def test_every_number_has_an_input_that_lands_there(num_partitions: int) -> None:
    inputs = numbers_to_hash_inputs(num_partitions)
    assert (hash_ints(inputs).astype(np.int64) % num_partitions).tolist() == list(range(num_partitions))


SPARK_HASHES = [933211791, -559580957, -1604776387, 29417773, 133916647, 723455942]
