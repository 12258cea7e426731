"""The way from rows to file groups, in terms that an engine can compute without tasks in Python."""

from __future__ import annotations

import attrs


@attrs.frozen
class BucketRouting:
    """The rows of one file group: they have the same partition path, and their keys have the same bucket.

    A single key is the value of its column. A composite key is ``column:value`` of all columns, joined by commas. The
    bucket is made of Java's ``String.hashCode`` of the hashed values, see
    `hoodie.index.bucket.bucket_identifier.BucketIdentifier`.

    Attributes:
        key_columns: The columns of the record key, in their order.
        hash_columns: The key columns that are hashed.
        is_composite: Whether keys are composite.
        partition_columns: The columns of the partition path, in their order.
        hive_style: Whether a level of the partition path is ``column=value``.
        num_buckets: The number of buckets of a partition.
        has_plain_colons: Whether a single key with a colon and without a comma is hashed like any other, if it is not
            refused.
    """

    key_columns: tuple[str, ...]
    hash_columns: tuple[str, ...]
    is_composite: bool
    partition_columns: tuple[str, ...]
    hive_style: bool
    num_buckets: int
    has_plain_colons: bool = True
