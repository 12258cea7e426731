"""The way from rows to file groups, in terms that an engine can compute without tasks in Python."""

from __future__ import annotations

from collections.abc import Mapping

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


@attrs.frozen
class KeyColumns:
    """The columns that keys are made of, as they are, and in a form that needs no key generator.

    A single key is the value of its column. A composite key is ``column:value`` of all columns, joined by commas. A
    partition path is the values of its columns, joined by slashes, before their characters are escaped.

    Attributes:
        key_columns: The columns of the record key, in their order.
        is_composite: Whether keys are composite.
        partition_columns: The columns of the partition path, in their order.
        hive_style: Whether a level of the partition path is ``column=value``.
    """

    key_columns: tuple[str, ...]
    is_composite: bool
    partition_columns: tuple[str, ...]
    hive_style: bool


@attrs.frozen
class BucketRouting:
    """The rows of one file group: they have the same partition path, and their keys have the same bucket.

    The bucket is made of Java's ``String.hashCode`` of the hashed values, see
    `hoodie.index.bucket.bucket_identifier.BucketIdentifier`.

    Attributes:
        columns: The columns of keys and partition paths.
        hash_columns: The key columns that are hashed.
        num_buckets: The number of buckets of a partition.
        has_plain_colons: Whether a single key with a colon and without a comma is hashed like any other, if it is not
            refused.
    """

    columns: KeyColumns
    hash_columns: tuple[str, ...]
    num_buckets: int
    has_plain_colons: bool = True

    def has_odd_keys(self, record_keys: pa.Array) -> bool:
        """Whether only tasks compute the buckets of some keys.

        Args:
            record_keys: Keys (string).
        """
        columns = self.columns
        if columns.is_composite:
            commas = pc.max(pc.count_substring(record_keys, ",")).as_py()
            return commas is not None and commas >= len(columns.key_columns)
        is_odd = pc.match_substring(record_keys, ":")
        if self.has_plain_colons and pc.any(is_odd).as_py():
            is_odd = pc.and_(is_odd, pc.match_substring(record_keys, ","))
        return bool(pc.any(is_odd).as_py())


@attrs.frozen(eq=False)
class BucketNumbers:
    """The numbers of buckets, which the engine computes from the keys.

    Attributes:
        routing: The rule that makes the buckets.
        numbers: Partition path, before its characters are escaped, to bucket to number.
    """

    routing: BucketRouting
    numbers: Mapping[str, Mapping[int, int]]


@attrs.frozen(eq=False)
class WeightedBuckets:
    """Some buckets, and the share of keys that each gets.

    Attributes:
        buckets: Their numbers (int32).
        cumulative_weights: The share of the buckets up to each of them (float64); the last is 1, but for rounding.
    """

    buckets: npt.NDArray[np.int32]
    cumulative_weights: npt.NDArray[np.float64]


@attrs.frozen(eq=False)
class InsertRouting:
    """The buckets of new keys: a hash of the key, which the engine chooses, deals a partition's keys to its buckets.

    Attributes:
        columns: The columns of keys and partition paths.
        dealt: The buckets of each partition path, before its characters are escaped.
    """

    columns: KeyColumns
    dealt: Mapping[str, WeightedBuckets]
