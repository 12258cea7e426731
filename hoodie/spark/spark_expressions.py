"""Spark expressions that place rows in the JVM as tasks in Python would place them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf
from pyspark.sql import types as st

from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting, KeyColumns, WeightedBuckets
from hoodie.spark.spark_compatibility import ints_literal, java_hash_codes
from hoodie.spark.spark_types import quoted

NULL_VALUE = "__null__"
EMPTY_VALUE = "__empty__"
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"
BUCKET_BITS = 27
"""The bits that a bucket takes in the number of a file group: it has at most eight decimal digits."""
UINT32 = 0xFFFFFFFF
INT32 = 0x7FFFFFFF
MOST_PATHS = 64
"""The most partition paths whose rows are dealt in the JVM: each row is compared with them, one after the other."""
MOST_NUMBERS = 1 << 16
"""The most numbers of buckets that are sent with a plan."""
_SHARE_BITS = 31
_SLOT, _HASH = "__hoodie_slot", "__hoodie_hash"


@attrs.frozen(eq=False)
class BucketExpressions:
    """Expressions over the rows of a frame.

    Attributes:
        file_group: long, equal for all rows of a file group, and as good as never for those of two. Null for a row
            without a key, and for a key whose bucket only Python computes.
        record_key: string, null or empty if the row has no key.
    """

    file_group: Column
    record_key: Column

    def partition(self, file_group: Column, num_partitions: int) -> Column:
        """An int in [0, num_partitions); consecutive buckets of a partition path have different numbers.

        Rows without a file group are spread, so that each task gets some of them if there are many; rows without a key
        go to one task.

        Args:
            file_group: The column with the values of ``file_group``.
            num_partitions: The number of partitions.
        """
        spread = sf.shiftright(file_group, BUCKET_BITS) + file_group.bitwiseAND(sf.lit((1 << BUCKET_BITS) - 1))
        key = self.record_key
        without_group = sf.when(key.isNull() | (key == ""), sf.lit(0)).otherwise(sf.hash(key).cast("long"))
        return sf.pmod(sf.coalesce(spread, without_group), sf.lit(num_partitions)).cast("int")


def bucket_expressions(frame: DataFrame, prepared: pa.Schema, routing: BucketRouting) -> BucketExpressions | None:
    """Compute the file groups of rows in the JVM; None if their columns or this session do not allow it.

    Python writes the strings of keys and partition paths from the prepared columns, so both types must give the same
    strings.

    Args:
        frame: The rows as the caller gave them.
        prepared: The columns as they are written.
        routing: The rule that makes the file groups.
    """
    found = _buckets(frame, prepared, routing)
    if found is None:
        return None
    bucket, is_odd = found
    file_group, columns = bucket, routing.columns
    if columns.partition_columns:
        path = _path(columns)
        file_group = sf.shiftleft(sf.xxhash64(path), BUCKET_BITS).bitwiseOR(bucket)
    return BucketExpressions(sf.when(~is_odd, file_group), _record_key(columns))


def _buckets(frame: DataFrame, prepared: pa.Schema, routing: BucketRouting) -> tuple[Column, Column] | None:
    """The buckets of rows (long), and whether only Python computes that of a row (boolean); see `bucket_expressions`.

    Both are null for a row without a key.
    """
    columns = routing.columns
    if routing.num_buckets >> BUCKET_BITS or not _makes_keys(frame, prepared, columns):
        return None
    known = {name: _string(name) for name in columns.key_columns}
    hashed = [name for name in columns.key_columns if name in routing.hash_columns]
    codes = java_hash_codes(frame, [known[name] for name in hashed])
    if codes is None or not hashed:
        return None
    if columns.is_composite:
        hash_code = _list_hash([_part_hash(known[name], code) for name, code in zip(hashed, codes, strict=True)])
        has_comma = [sf.coalesce(value.contains(","), sf.lit(False)) for value in known.values()]
        is_odd = reduce(Column.__or__, has_comma)
    else:
        hash_code = _list_hash(codes)
        record_key = _record_key(columns)
        is_odd = record_key.contains(":")
        if routing.has_plain_colons:
            is_odd &= record_key.contains(",")
        is_odd |= record_key == ""
    return sf.pmod(hash_code.bitwiseAND(sf.lit(INT32)), sf.lit(routing.num_buckets)), is_odd


def with_bucket_numbers(frame: DataFrame, prepared: pa.Schema, routing: BucketNumbers, number: str) -> DataFrame | None:
    """Number rows by their buckets in the JVM; None if their columns, or many buckets, do not allow it.

    A row without a number gets number 0: one of another bucket, without a key, or whose bucket only Python computes.

    Args:
        frame: The rows as the caller gave them.
        prepared: The columns as they are written.
        routing: The numbers.
        number: The name of the column (int) that is added.
    """
    rule, paths = routing.routing, routing.numbers
    if not 0 < len(paths) <= MOST_PATHS or len(paths) * rule.num_buckets > MOST_NUMBERS:
        return None
    found = _buckets(frame, prepared, rule)
    if found is None:
        return None
    bucket, is_odd = found
    numbers = np.zeros((len(paths), rule.num_buckets), dtype=np.int64)
    for row, known in zip(numbers, paths.values(), strict=True):
        row[list(known)] = list(known.values())
    # Places count from 1; a row of another path has place 0, and no number.
    place = sf.call_function("array_position", sf.array(*map(sf.lit, paths)), _path(rule.columns)).cast("long")
    index = sf.when(~is_odd & (place > 0), (place - 1) * sf.lit(rule.num_buckets) + bucket)
    return frame.withColumn(
        number, sf.coalesce(sf.get(ints_literal(numbers.ravel().tolist()), index.cast("int")), sf.lit(0))
    )


def with_insert_buckets(frame: DataFrame, prepared: pa.Schema, routing: InsertRouting, bucket: str) -> DataFrame | None:
    """Deal rows to the buckets of new keys in the JVM; None if their columns do not allow it.

    A row of a partition path that has no buckets gets some bucket.

    Args:
        frame: The rows as the caller gave them.
        prepared: The columns as they are written.
        routing: The buckets.
        bucket: The name of the column (int) that is added.
    """
    columns, dealt = routing.columns, list(routing.dealt.values())
    if not 0 < len(dealt) <= MOST_PATHS or not _makes_keys(frame, prepared, columns):
        return None
    sizes = [len(buckets.buckets) for buckets in dealt]
    starts = np.cumsum([0, *sizes[:-1]])
    slots = [_Slots.of(buckets) for buckets in dealt]
    # PySpark 3.5 has a function for the places of literals alone.
    place = sf.call_function("array_position", sf.array(*map(sf.lit, routing.dealt)), _path(columns))
    # Places count from 1; rows of other paths get place 0, and the slots of the first path.
    first, size = (
        sf.get(ints_literal([numbers[0], *numbers]), place.cast("int")) for numbers in (starts.tolist(), sizes)
    )
    # Expressions that several others need are columns of their own, which are computed once.
    # The name in front makes the hash another one than that by which a user may have split the rows.
    hashed = frame.select("*", sf.xxhash64(sf.lit(_HASH), _record_key(columns)).alias(_HASH))
    placed = hashed.select("*", (first + sf.pmod(sf.col(_HASH), size)).cast("int").alias(_SLOT))
    share, own, other = (
        sf.get(ints_literal(np.concatenate([getattr(one, name) for one in slots]).tolist()), sf.col(_SLOT))
        for name in ("shares", "own", "other")
    )
    # The slot is made of the last bits of the hash, if they are few, and this of the first.
    is_own = sf.shiftrightunsigned(sf.col(_HASH), 64 - _SHARE_BITS).cast("int") < share
    return placed.select("*", sf.when(is_own, own).otherwise(other).alias(bucket)).drop(_HASH, _SLOT)


@attrs.frozen(eq=False)
class _Slots:
    """Buckets in as many slots of the same size: a slot belongs to one bucket up to its share, then to another one.

    So a row finds its bucket by two numbers, whatever the number of buckets and their weights.

    Attributes:
        shares: The share of the own bucket, of 2^31.
        own: The own bucket of each slot.
        other: The other one.
    """

    shares: npt.NDArray[np.int64]
    own: npt.NDArray[np.int32]
    other: npt.NDArray[np.int32]

    @classmethod
    def of(cls, dealt: WeightedBuckets) -> _Slots:
        """The slots of weighted buckets (Walker's alias method)."""
        number = len(dealt.buckets)
        weights = np.diff(dealt.cumulative_weights, prepend=0.0)
        left = (weights / weights.sum() * number).tolist()
        shares, other = np.ones(number), dealt.buckets.copy()
        small = [slot for slot, weight in enumerate(left) if weight < 1]
        large = [slot for slot, weight in enumerate(left) if weight >= 1]
        while small and large:
            slot, giver = small.pop(), large[-1]
            shares[slot], other[slot] = left[slot], dealt.buckets[giver]
            left[giver] -= 1 - left[slot]
            if left[giver] < 1:
                small.append(large.pop())
        return cls(np.minimum(shares * (1 << _SHARE_BITS), INT32).astype(np.int64), dealt.buckets, other)


def _makes_keys(frame: DataFrame, prepared: pa.Schema, columns: KeyColumns) -> bool:
    """Whether the strings of keys and partition paths in the JVM are those that Python makes."""
    return all(
        _has_strings(frame, prepared, name, is_key)
        for is_key, names in ((True, columns.key_columns), (False, columns.partition_columns))
        for name in names
    )


def _record_key(columns: KeyColumns) -> Column:
    """The record key, for rows that have one."""
    known = {name: _string(name) for name in columns.key_columns}
    if columns.is_composite:
        return sf.concat(*_composite_parts(known))
    (record_key,) = known.values()
    return record_key


def _has_strings(frame: DataFrame, prepared: pa.Schema, name: str, is_key: bool) -> bool:
    """Whether Spark's strings of a column equal those in keys. In partition paths only distinct values must
    stay distinct.
    """
    if name not in frame.columns or name not in prepared.names:
        return False
    given, written = frame.schema[name].dataType, prepared.field(name).type
    if isinstance(given, st.ByteType | st.ShortType | st.IntegerType | st.LongType):
        return bool(pa.types.is_signed_integer(written))
    if given == st.StringType():
        return bool(pa.types.is_string(written))
    is_same = given == st.BooleanType() and pa.types.is_boolean(written)
    return not is_key and (is_same or (given == st.DateType() and pa.types.is_date32(written)))


def _string(name: str) -> Column:
    return sf.col(quoted(name)).cast("string")


def _list_hash(codes: Sequence[Column]) -> Column:
    """Java's ``List.hashCode`` modulo 2**32, as a long: an int would overflow, which ANSI mode refuses."""
    return reduce(
        lambda hashed, code: (hashed * 31 + code.cast("long")).bitwiseAND(sf.lit(UINT32)),
        codes,
        sf.lit(1).cast("long"),
    )


def _part_hash(value: Column, code: Column) -> Column:
    """The hash of a part of a composite key. Null and empty values, and the placeholders for them, have 0."""
    return sf.when(value.isNull() | value.isin("", NULL_VALUE, EMPTY_VALUE), sf.lit(0)).otherwise(code)


def _composite_parts(values: dict[str, Column]) -> list[Column]:
    parts = []
    for number, (name, value) in enumerate(values.items()):
        spelled_out = sf.when(value == "", sf.lit(EMPTY_VALUE)).otherwise(sf.coalesce(value, sf.lit(NULL_VALUE)))
        parts += [sf.lit(f"{',' if number else ''}{name}:"), spelled_out]
    return parts


def _path(columns: KeyColumns) -> Column:
    """A string that is equal for rows of one partition path: the path before its characters are escaped."""
    levels = []
    for name in columns.partition_columns:
        value = _string(name)
        level = sf.when(value == "", sf.lit(DEFAULT_PARTITION)).otherwise(sf.coalesce(value, sf.lit(DEFAULT_PARTITION)))
        levels.append(sf.concat(sf.lit(f"{name}="), level) if columns.hive_style else level)
    return sf.concat_ws("/", *levels)
