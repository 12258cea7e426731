"""The data of the Spark engine: a DataFrame whose rows reach tasks as Arrow batches.

Hudi: org.apache.hudi.data.HoodieJavaRDD.
"""

from __future__ import annotations

import re
import sys
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from hoodie.common.util.class_loading import error_of_class
from hoodie.engine.bucket_routing import BucketNumbers, BucketRouting, InsertRouting
from hoodie.engine.data import (
    BatchFunction,
    HoodieData,
    NarrowableFunction,
    PartitionFunction,
    Rereading,
    RowNumbers,
    TableFunction,
)
from hoodie.engine.task_identity import TaskIdentity
from hoodie.exception import HoodieException, HoodieSchemaException
from hoodie.spark.spark_compatibility import (
    collect_arrow,
    ints_literal,
    partition_count,
    repartition_by_number,
    spark_context,
)
from hoodie.spark.spark_expressions import bucket_expressions, with_bucket_numbers, with_insert_buckets
from hoodie.spark.spark_plans import ShuffledQuery, known_to_fit, planned_bytes
from hoodie.spark.spark_steps import (
    FINGERPRINT,
    FINGERPRINT_FIELD,
    SIZES,
    SIZES_FIELD,
    AddFingerprints,
    BesideSteps,
    EachBatch,
    NumberRows,
    SelectColumns,
    Step,
    Steps,
    WholePartition,
    conformed,
    gathered,
)
from hoodie.spark.spark_types import arrow_schema, conform, quoted, spark_schema
from hoodie.spark.worker_start import prepare_worker

CLIENT_BYTES = 1 << 20
"""The most Arrow bytes that a Spark Connect client collects instead of leaving them to Spark.

Spark Connect has no broadcasts, so the client shares them with tasks inside each plan that it sends; and its memory
must not grow with the input.
"""
BROADCAST_KEYS = 100_000
"""Up to this many repeated keys are sent to all tasks, so that the other rows need not move."""

COMPUTED_ANEW = (
    "hoodie.exception.HoodieWriteException: an executor that kept rows of the input was lost, and the input was "
    "computed again with other record keys, partition paths or ordering values: it is not deterministic (for example "
    "keys from a Python function such as uuid4). Nothing was committed: write the input to a table or call "
    "checkpoint() on it, and write that"
)
"""The error that is raised before rows are written that differ from those that were looked up, counted and routed."""

FILE_GROUP = "__hoodie_file_group"
KEY = "__hoodie_key"

NO_BROADCAST = "merge"
"""A join that never needs a whole side in memory. Adaptive execution decides by compressed sizes: it would broadcast
keys that compress well, although the driver has no room for them."""

_BYTES_KEPT_IN_MEMORY = 128 << 20
"""Kept rows that may take more, by the planner's estimate, are kept on disk alone."""
_HOODIE_ERROR = re.compile(r"hoodie\.exception\.(Hoodie\w+|\w+Exception): (.*)")


class SparkData(HoodieData):
    """A DataFrame, and the Python steps that its rows still have to go through.

    Steps without a shuffle between them run in one Python process, one after the other, so rows cross the border
    between JVM and Python once.

    If an executor is lost, Spark computes the rows that it kept again. With ``fixed`` columns each partition is kept
    together with its `fingerprint`: the rows that a task reads later must have the fingerprint that the first job saw,
    or the task fails.

    Two notes on the contract. Adaptive execution drops the tasks of a shuffle that moved no rows: functions of
    partitions are called for empty partitions only if some partition has a row. And Spark computes rows again that are
    not persisted, so persist data that is not deterministic before `combine_by_key`.

    Args:
        frame: The rows. It stays the caller's: this class never caches or releases it.
        schema: The schema of ``frame``, if it is known.
        num_partitions: The number of partitions of ``frame``, if it is known.
        rereading: Whether ``frame`` may be computed twice.

    Hudi: org.apache.hudi.data.HoodieJavaRDD.
    """

    def __init__(
        self,
        frame: DataFrame,
        schema: pa.Schema | None = None,
        num_partitions: int | None = None,
        rereading: Rereading = Rereading.NO,
    ) -> None:
        self._source = frame
        self._rereading = rereading
        self._source_schema = schema if schema is not None else arrow_schema(frame.schema)
        self._steps: tuple[Step, ...] = ()
        self._num_partitions = num_partitions
        self._kept: DataFrame | None = None
        self._unchecked: Column | None = None
        self._bytes: dict[str, int] | None = None
        self._numbered: tuple[SparkData, str] | None = None
        self._stepped: DataFrame | None = None
        self._reads_little = False
        self._query: ShuffledQuery | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows as a DataFrame."""
        self._check_kept()
        if not self._steps:
            return self._source
        if self._stepped is None:
            stepped = Steps(self._source_schema, self._steps)
            self._stepped = self._source.mapInArrow(stepped, spark_schema(self.schema))
        return self._stepped

    @property
    def schema(self) -> pa.Schema:
        return self._steps[-1].schema if self._steps else self._source_schema

    @property
    def num_partitions(self) -> int:
        """See the contract; if Spark does not know the number (Spark Connect), a job counts the tasks."""
        if self._num_partitions is None:
            self._num_partitions = partition_count(self._source)
        if self._num_partitions is None:
            with hoodie_errors():
                counted = self._source.select(sf.lit(1).alias("one")).mapInArrow(_one_row, "one int")
                self._num_partitions = counted.count()
        return self._num_partitions

    @property
    def rereading(self) -> Rereading:
        return self._rereading if self._kept is None else Rereading.NO

    @property
    def has_shuffles(self) -> bool:
        if self.rereading is not Rereading.POSSIBLE:
            return False
        if self._query is None:
            self._query = ShuffledQuery.of(self._source)
        return self._query is not None

    def shuffled(self) -> SparkData:
        if not self.has_shuffles or self._query is None:
            return self
        with hoodie_errors():
            source, rereading = self._query.run()
        data = SparkData(source, self._source_schema, rereading=rereading)
        data._steps = self._steps
        return data

    def select(self, columns: Sequence[str]) -> SparkData:
        if self._steps:
            return self._narrowed(list(columns))
        schema = pa.schema([self.schema.field(name) for name in columns])
        data = self._derived(self.frame.select([_column(name) for name in columns]), schema)
        if self._bytes is not None and not self._steps:
            data._bytes = {name: self._bytes[name] for name in columns}
        return data

    def _narrowed(self, columns: list[str]) -> SparkData:
        """The given columns of the results of the steps; as few columns as possible go through the steps."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        steps, needed = list(self._steps), columns
        narrowed: list[Step] = []
        while steps:
            before = steps[-2].schema if len(steps) > 1 else self._source_schema
            function = steps[-1].function.function if isinstance(steps[-1].function, EachBatch) else None
            found = function.narrowed_to(needed, before) if isinstance(function, NarrowableFunction) else None
            if found is None:
                break
            steps.pop()
            function, result, read = found
            narrowed.append(Step(EachBatch(function), result))
            needed = list(read)
        data = self._derived(self._source, self._source_schema)
        if not steps:
            read = set(needed)
            data = data.select([name for name in self._source_schema.names if name in read])
        if steps or any(pa.types.is_nested(data_type) for data_type in data._source_schema.types):
            # A part of the columns costs as much as all of them, and nested columns are measured in Python.
            data._rereading = min(data._rereading, Rereading.POSSIBLE)
        data._steps = (*steps, *reversed(narrowed), Step(EachBatch(SelectColumns(tuple(columns))), schema))
        data._reads_little = not steps
        return data

    def map_batches(self, function: BatchFunction, schema: pa.Schema) -> SparkData:
        return self._then(Step(EachBatch(function), schema))

    def map_partitions_with_index(self, function: PartitionFunction, schema: pa.Schema) -> SparkData:
        return self._then(Step(function, schema))

    def number_rows(self, column: str) -> SparkData:
        # Spark's function never returns null, but other engines give a nullable column.
        numbered = self.frame.withColumn(column, sf.monotonically_increasing_id())
        data = self._derived(numbered, self.schema.append(pa.field(column, pa.int64())))
        data._numbered = self, column
        return data

    def identify_rows(self, column: str, is_unique: bool) -> SparkData:
        """See the contract. The identity is a hash of all columns; a unique one has the number of the row after it."""
        parts = [sf.xxhash64(*map(_hashable, self.schema)), *([sf.monotonically_increasing_id()] if is_unique else [])]
        identified = self.frame.withColumn(column, sf.concat_ws("_", *(part.cast("string") for part in parts)))
        return self._derived(identified, self.schema.append(pa.field(column, pa.string())))

    def combine_by_key(self, keys: Sequence[str], function: TableFunction) -> SparkData:
        """See the contract. Whether a key repeats is computed at once, by an action over hashes of the keys alone."""
        hashed = self.frame.select(sf.xxhash64(*map(_column, keys)).alias("__hoodie_hash"))
        with hoodie_errors():
            if not _repeated(hashed, ["__hoodie_hash"]).count():
                return self
        names = [f"__hoodie_key_{number}" for number in range(len(keys))]
        repeated = _repeated(self.frame, keys).select(
            [_column(key).alias(name) for key, name in zip(keys, names, strict=True)]
        )
        with hoodie_errors():
            repeated_count = repeated.count()
        if not repeated_count:
            return self
        repeated = sf.broadcast(repeated) if repeated_count <= BROADCAST_KEYS else repeated.hint(NO_BROADCAST)
        same_key = reduce(
            Column.__and__,
            (_column(key).eqNullSafe(sf.col(name)) for key, name in zip(keys, names, strict=True)),
        )
        single_rows = self.frame.join(repeated, same_key, "left_anti")
        together = self.frame.join(repeated, same_key, "left_semi").repartition(*map(_column, keys))
        combined = SparkData(together, self.schema)._then(Step(WholePartition(function, self.schema), self.schema))
        return SparkData(single_rows.union(combined.frame), self.schema)

    def count_by(self, columns: Sequence[str]) -> pa.Table:
        names = list(columns)
        schema = pa.schema([*(self.schema.field(name) for name in names), pa.field("count", pa.int64())])
        counted = self.frame.groupBy(*map(_column, names)).agg(sf.count(sf.lit(1)).alias("__hoodie_count"))
        with hoodie_errors():
            batches = collect_arrow(counted)
        return _table((batch.rename_columns(schema.names) for batch in batches), schema)

    def join(self, other: HoodieData, on: Sequence[str], how: str) -> SparkData:
        if not isinstance(other, SparkData):
            raise HoodieException(f"cannot join Spark data with {type(other).__name__}")
        if how not in ("inner", "left"):
            raise HoodieException(f"join {how!r} is not one of ['inner', 'left']")
        added = [field for field in other.schema if field.name not in set(on)]
        twice = sorted({field.name for field in added} & set(self.schema.names))
        if twice:
            raise HoodieSchemaException(f"columns {', '.join(twice)} are on both sides of a join; rename those of one")
        # New names on the right: both sides may come from one frame, and Spark could not tell their columns apart.
        names = {name: f"__hoodie_right_{number}" for number, name in enumerate(other.schema.names)}
        right = other.frame.select([_column(name).alias(new) for name, new in names.items()]).hint(NO_BROADCAST)
        same_key = reduce(Column.__and__, (_column(name) == sf.col(names[name]) for name in on))
        joined = self.frame.join(right, same_key, how).select(
            [_column(name) for name in self.schema.names]
            + [sf.col(names[field.name]).alias(field.name) for field in added]
        )
        fields = [field.with_nullable(True) for field in added] if how == "left" else added
        return SparkData(joined, pa.schema([*self.schema, *fields]))

    def union(self, other: HoodieData) -> SparkData:
        if not isinstance(other, SparkData):
            raise HoodieException(f"cannot unite Spark data with {type(other).__name__}")
        pairs = list(zip(self.schema, other.schema, strict=False))
        if len(self.schema) != len(other.schema) or any(a.name != b.name or a.type != b.type for a, b in pairs):
            raise HoodieSchemaException(f"cannot unite data of different schemas:\n{self.schema}\nand\n{other.schema}")
        fields = [mine.with_nullable(mine.nullable or theirs.nullable) for mine, theirs in pairs]
        return SparkData(self.frame.union(other.frame), pa.schema(fields))

    def route(self, column: str, num_partitions: int, partition_of: Sequence[int] | None = None) -> SparkData:
        most = num_partitions if partition_of is None else len(partition_of)
        number = _column(column)
        wrong = number.isNull() | (number < 0) | (number >= most)
        problem = sf.concat(
            sf.lit(f"hoodie.exception.HoodieException: {column} must be in [0, {most}), found "),
            sf.coalesce(number.cast("string"), sf.lit("null")),
        )
        checked = sf.when(wrong, sf.raise_error(problem).cast("int")).otherwise(number)
        routed = _moved(self.frame, checked, column, num_partitions, partition_of)
        return SparkData(routed, self.schema, num_partitions)

    def route_by(
        self,
        columns: Sequence[str],
        numbers: RowNumbers,
        column: str,
        num_partitions: int,
        row_numbers: str | None = None,
        partition_of: Sequence[int] | None = None,
    ) -> SparkData:
        """See the contract. Rows have fewer columns before the mapped functions, so these run after the move."""
        if not self._steps or not self._works_by_batches:
            routed = super().route_by(columns, numbers, column, num_partitions, row_numbers, partition_of)
            assert isinstance(routed, SparkData)
            return routed
        source, field = self._derived(self._source, self._source_schema), pa.field(column, pa.int32())
        if row_numbers is not None:
            source = source.number_rows(row_numbers)
        narrowed = self._narrowed(list(columns))
        number = NumberRows(narrowed._source_schema, narrowed._steps, numbers, field)
        moved = source._then(Step(number, source.schema.append(field))).route(column, num_partitions, partition_of)
        return self._steps_after(moved)

    def _steps_after(self, moved: SparkData) -> SparkData:
        """The steps of this data, for its rows before them with further columns, which pass by."""
        passing = tuple(name for name in moved.schema.names if name not in self._source_schema.names)
        schema = pa.schema([*self.schema, *(moved.schema.field(name) for name in passing)])
        return moved._then(Step(BesideSteps(self._source_schema, self._steps, passing), schema))

    def route_in_engine(
        self,
        routing: InsertRouting | BucketNumbers,
        column: str,
        num_partitions: int,
        row_numbers: str | None = None,
        partition_of: Sequence[int] | None = None,
    ) -> SparkData | None:
        """See the contract. Rows cross to Python once, after they were moved."""
        if self._kept is not None or not self._works_by_batches:
            return None
        source = self._derived(self._source, self._source_schema)
        if row_numbers is not None:
            source = source.number_rows(row_numbers)
        if isinstance(routing, InsertRouting):
            dealt = with_insert_buckets(source.frame, self.schema, routing, column)
        else:
            dealt = with_bucket_numbers(source.frame, self.schema, routing, column)
        if dealt is None:
            return None
        moved = _moved(dealt, _column(column), column, num_partitions, partition_of)
        schema = source.schema.append(pa.field(column, pa.int32()))
        return self._steps_after(SparkData(moved, schema, num_partitions))

    def route_by_bucket(self, routing: BucketRouting, num_partitions: int, by_key: bool) -> SparkData | None:
        """See the contract. Rows cross to Python once, after they were moved, so functions of partitions see others."""
        if self._kept is not None or not self._works_by_batches:
            return None
        found = bucket_expressions(self._source, self.schema, routing)
        if found is None:
            return None
        added = {FILE_GROUP: found.file_group, **({KEY: found.record_key} if by_key else {})}
        frame = self._source.select("*", *(value.alias(name) for name, value in added.items()))
        number = found.partition(sf.col(FILE_GROUP), num_partitions)
        moved = repartition_by_number(frame, number, num_partitions).sortWithinPartitions(*added)
        data = SparkData(moved.drop(*added), self._source_schema, num_partitions)
        data._steps = self._steps
        return data

    def coalesce(self, num_partitions: int) -> SparkData:
        if not self._works_by_batches:
            return SparkData(self.frame.coalesce(num_partitions), self.schema)
        self._check_kept()
        joined = self._source.coalesce(num_partitions)
        data = SparkData(joined, self._source_schema, rereading=self.rereading)
        data._steps = self._steps
        return data

    def repartition_by(self, columns: Sequence[str], num_partitions: int) -> SparkData:
        # Rows without any partition have none to be moved into either.
        number = max(1, num_partitions)
        moved = self.frame.repartition(number, *map(_column, columns))
        return SparkData(moved, self.schema, number)

    def sort_by(self, columns: Sequence[str], num_partitions: int) -> SparkData:
        """See the contract. Spark samples the rows first, so it computes them twice unless they are persisted."""
        names = [_column(name) for name in columns]
        number = max(1, num_partitions)
        return SparkData(self.frame.repartitionByRange(number, *names), self.schema).sort_within(columns)

    def sort_within(self, columns: Sequence[str]) -> SparkData:
        names = [_column(name) for name in columns]
        return self._derived(self.frame.sortWithinPartitions(*names), self.schema)

    def persist(self, fixed: Sequence[str] = ()) -> SparkData:
        """See the contract. The first action afterwards computes the rows, and notes their fingerprints."""
        if self._kept is None:
            schema, frame = self.schema, self.frame
            if fixed:
                frame, self._unchecked = self._with_fingerprints([name for name in fixed if name in schema.names])
            # Spark finds cached rows by their plan. One more column makes this plan unique, so that releasing it never
            # releases rows that the caller has cached.
            self._kept = frame.withColumn("__hoodie_kept", sf.lit(uuid.uuid4().int >> 65))
            self._kept.persist(self._storage_level(frame))
            self._source = self._kept.select([_column(name) for name in schema.names])
            self._source_schema, self._steps, self._stepped = schema, (), None
        return self

    def _storage_level(self, frame: DataFrame) -> StorageLevel:
        """The storage level of kept rows: the disks of executors alone if they may be many.

        Beyond its storage memory Spark would write them to disk too, but an executor whose memory is full of kept rows
        has no room left to compute further ones.
        """
        if spark_context(frame.sparkSession) is None or planned_bytes(frame) > _BYTES_KEPT_IN_MEMORY:
            return StorageLevel.DISK_ONLY
        return StorageLevel.MEMORY_AND_DISK

    def _with_fingerprints(self, columns: list[str]) -> tuple[DataFrame, Column]:
        """The rows, with a fingerprint in the last row of each partition, and the column that identifies the partition.

        The last row also holds the partition's sizes, so that `collect` does not need a job for them.
        """
        data, number = self._numbered if self._numbered is not None and not self._steps else (self, None)
        schema = data.schema.append(FINGERPRINT_FIELD).append(SIZES_FIELD)
        marked = data._then(Step(AddFingerprints(tuple(columns)), schema))
        if number is None:
            return marked.frame, sf.xxhash64(_column(FINGERPRINT))
        # The number in the last row identifies the partition and gives its row count.
        frame = marked.frame.withColumn(number, sf.monotonically_increasing_id())
        return frame, sf.xxhash64(_column(number), _column(FINGERPRINT))

    def _check_kept(self) -> None:
        """Compute the kept rows once, and refuse any other rows from now on."""
        if self._unchecked is None or self._kept is None:
            return
        identity, self._unchecked = self._unchecked, None
        is_last = _column(FINGERPRINT).isNotNull()
        with hoodie_errors():
            found = (
                self._kept.where(is_last).select(identity.alias("identity"), _column(SIZES).alias("sizes")).collect()
            )
        self._bytes = self._sum_of_sizes([row.sizes for row in found])
        # One literal that Spark folds into an array: thousands of literals would slow down planning.
        known = sf.split(sf.lit(",".join(["0", *(str(row.identity) for row in found)])), ",").cast("array<bigint>")
        is_new = is_last & ~sf.array_contains(known, identity)
        checked = sf.when(is_new, sf.raise_error(sf.lit(COMPUTED_ANEW)).cast("boolean")).otherwise(sf.lit(True))
        self._source = self._kept.where(checked).select([_column(name) for name in self._source_schema.names])

    def _sum_of_sizes(self, sizes: list[str]) -> dict[str, int]:
        """Bytes of each column over all partitions; the column of row numbers, which Spark has added, takes 8 each."""
        totals = np.array([[int(number) for number in text.split(",")] for text in sizes], dtype=np.int64)
        rows, *columns = totals.sum(axis=0).tolist() if len(totals) else [0]
        names = self._source_schema.names
        return dict(zip(names, [*columns, *[8 * rows] * (len(names) - len(columns))], strict=True))

    def unpersist(self) -> None:
        if self._kept is not None:
            self._kept.unpersist()
            self._kept = None

    def collect(self, max_bytes: int | None = None) -> pa.Table | None:
        """See the contract. With ``max_bytes`` a job computes the size first, unless Spark knows that it is small.

        On Spark Connect the limit is never above `CLIENT_BYTES`. Within ``max_bytes``, functions of batches run on the
        driver if they read single columns: that costs less than a pass through Python workers.
        """
        if max_bytes is None:
            with hoodie_errors():
                return _table(collect_arrow(self.frame), self.schema)
        most = min(max_bytes, self._client_bytes())
        if self._steps and self._reads_little:
            source = self._derived(self._source, self._source_schema).collect(most)
            return None if source is None else self._through_steps(source, most)
        with hoodie_errors():
            if not self._fits(most):
                return None
            return _table(collect_arrow(self.frame), self.schema)

    @property
    def _works_by_batches(self) -> bool:
        """Whether all steps are functions of a batch, so that they may run anywhere."""
        return all(isinstance(step.function, EachBatch) for step in self._steps)

    def _through_steps(self, source: pa.Table, most: int) -> pa.Table | None:
        """The results of the steps for all rows of the source, computed here; None if they are larger than allowed."""
        flow = gathered(iter(source.to_batches()))
        for step in self._steps:
            assert isinstance(step.function, EachBatch)
            flow = conformed(map(step.function.function, flow), step.schema)
        table = _table(flow, self.schema)
        return None if table.nbytes > most else table

    def _fits(self, most: int) -> bool:
        """Whether the rows have at most the given number of Arrow bytes; a job measures them unless Spark's
        plan suffices.
        """
        is_known = self.rereading is Rereading.CHEAP and not self._steps
        fits = known_to_fit(self._source, most) if is_known else None
        return self._estimate_bytes() <= most if fits is None else fits

    def count(self) -> int:
        with hoodie_errors():
            return int(self.frame.count())

    def _derived(self, frame: DataFrame, schema: pa.Schema) -> SparkData:
        """Data with the same partitions."""
        return SparkData(frame, schema, self._num_partitions, self.rereading)

    def _then(self, step: Step) -> SparkData:
        self._check_kept()
        data = self._derived(self._source, self._source_schema)
        data._steps = (*self._steps, step)
        return data

    def _client_bytes(self) -> int:
        """The bytes that this process may hold in addition to those that it must hold."""
        return CLIENT_BYTES if spark_context(self._source.sparkSession) is None else sys.maxsize

    def _estimate_bytes(self) -> int:
        """The Arrow bytes of all rows: noted when they were kept, or from the JVM (flat columns), or from tasks."""
        if self._bytes is not None and not self._steps:
            return sum(self._bytes.values())
        row_bits = 0
        sizes = []
        for field in self.schema:
            if pa.types.is_nested(field.type):
                sizes_by_task = self._then(Step(_batch_bytes, pa.schema([pa.field("bytes", pa.int64())]))).frame
                return int(sizes_by_task.agg(sf.sum("bytes")).collect()[0][0] or 0)
            if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
                row_bits += 32
                sizes.append(sf.coalesce(sf.sum(sf.octet_length(_column(field.name))), sf.lit(0)))
            else:
                row_bits += field.type.bit_width
        count, *values = self.frame.agg(sf.count(sf.lit(1)), *sizes).collect()[0]
        return int(count) * row_bits // 8 + sum(map(int, values))


@contextmanager
def hoodie_errors() -> Iterator[None]:
    """Raise a hoodie error that ended a Spark job with its own class: Spark only passes on its text.

    Raises:
        HoodieException: An error of the class that the task raised.
    """
    try:
        yield
    except HoodieException:
        raise
    except Exception as error:
        found = _HOODIE_ERROR.findall(str(error))
        if not found:
            raise
        name, text = found[-1]
        raise error_of_class(name, text.split(" SQLSTATE: ")[0].strip()) from error


def _table(batches: Iterator[pa.RecordBatch] | Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_batches([conform(batch, schema) for batch in batches], schema)


def _repeated(frame: DataFrame, columns: Sequence[str]) -> DataFrame:
    """The values of columns that occur in several rows."""
    counted = frame.groupBy(*map(_column, columns)).agg(sf.count(sf.lit(1)).alias("__hoodie_count"))
    return counted.where(sf.col("__hoodie_count") > 1).select([_column(name) for name in columns])


def _column(name: str) -> Column:
    return sf.col(quoted(name))


def _hashable(field: pa.Field) -> Column:
    """A column as Spark can hash it; it hashes no maps."""
    return sf.to_json(_column(field.name)) if _has_maps(field.type) else _column(field.name)


def _has_maps(data_type: pa.DataType) -> bool:
    if pa.types.is_map(data_type):
        return True
    return any(_has_maps(data_type.field(place).type) for place in range(data_type.num_fields))


def _one_row(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: always return one row."""
    prepare_worker()
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"one": pa.array([1], pa.int32())})


def _batch_bytes(task: TaskIdentity, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Task: return the Arrow bytes of the partition."""
    yield pa.RecordBatch.from_pydict({"bytes": pa.array([sum(batch.nbytes for batch in batches)], pa.int64())})


def _moved(
    frame: DataFrame, number: Column, column: str, num_partitions: int, partition_of: Sequence[int] | None
) -> DataFrame:
    """Rows in the partition of their number; see `HoodieData.route`.

    Args:
        frame: The rows.
        number: The number of each row (int).
        column: The column of the frame with the numbers.
        num_partitions: See `HoodieData.route`.
        partition_of: See `HoodieData.route`.
    """
    if partition_of is None:
        return repartition_by_number(frame, number, num_partitions)
    partition = sf.get(ints_literal(partition_of), number)
    return repartition_by_number(frame, partition, num_partitions).sortWithinPartitions(_column(column))
