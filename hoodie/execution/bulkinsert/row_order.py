"""The order of rows by columns: linear, or along a space-filling curve.

Hudi: org.apache.hudi.execution.bulkinsert.RowSpatialCurveSortPartitioner and RowCustomColumnsSortPartitioner.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import reduce

import attrs
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.common.data.stored_types import spelled_otherwise
from hoodie.common.model.record_columns import META_COLUMN_SET, META_COLUMNS
from hoodie.config.layout_optimize_config import LayoutOptimizationStrategy, SpatialCurveCompositionStrategyType
from hoodie.exception import HoodieConfigException
from hoodie.execution.bulkinsert.space_curves import (
    HILBERT_BITS,
    Words,
    has_ordinates,
    hilbert_bits,
    hilbert_ordinates,
    mixed_bits,
    mixing_order,
    z_ordinates,
)

SORT_COLUMNS_KEY = "hoodie.clustering.plan.strategy.sort.columns"
_RANK_BITS = 32
_ONE_ARRAY = 1 << 31
"""Keys of fewer bytes are sorted as one array each."""


def _names(columns: Sequence[str]) -> tuple[str, ...]:
    return tuple(columns)


@attrs.frozen
class RowOrder:
    """The order of rows by the values of some columns.

    A linear order is that of Spark: ascending, nulls first, texts by their bytes, NaN the largest number, 0.0 and -0.0
    equal. Curves are those of `hoodie.execution.bulkinsert.space_curves`. One column has the linear order, whatever the
    strategy; Hudi leaves the rows of a file unsorted then. Picklable::

        order = RowOrder(["city", "fare"], LayoutOptimizationStrategy.ZORDER).checked(schema)
        numbers = sorted_numbers(order.sort_keys(batch))

    Attributes:
        columns: The columns, in the order of ``hoodie.clustering.plan.strategy.sort.columns``; those in structs as a
            path with dots. `checked` brings those of a curve into the order in which Hudi mixes their bits.
        strategy: The kind of the order.
        build_method: The way in which a curve makes numbers of values. SAMPLE differs from Hudi: values are compared as
            in a linear order, and no number is random.
        sample_size: The most values of a column that SAMPLE compares others with.
        time_zone: The zone of the midnight with which a date begins on a curve. UTC, as in all of hoodie; Hudi takes
            the zone of the JVM.
        boundaries: The sampled sort keys of each column, ascending; None before `sampled`.

    Raises:
        HoodieConfigException: There are no columns, or one is named twice.
    """

    columns: tuple[str, ...] = attrs.field(converter=_names)
    strategy: LayoutOptimizationStrategy = LayoutOptimizationStrategy.LINEAR
    build_method: SpatialCurveCompositionStrategyType = SpatialCurveCompositionStrategyType.DIRECT
    sample_size: int = 200_000
    time_zone: str = "UTC"
    boundaries: tuple[pa.Array, ...] | None = attrs.field(default=None, eq=False)

    def __attrs_post_init__(self) -> None:
        if not self.columns or len(set(self.columns)) != len(self.columns):
            raise HoodieConfigException(
                f"cannot sort by {', '.join(self.columns) or 'no columns'} ({SORT_COLUMNS_KEY}): name one or more "
                "columns, each once"
            )

    @property
    def is_curve(self) -> bool:
        """Whether rows lie along a curve."""
        return self.strategy is not LayoutOptimizationStrategy.LINEAR and len(self.columns) > 1

    @property
    def needs_sample(self) -> bool:
        """Whether `sampled` must be called before `sort_keys`."""
        is_sample = self.build_method is SpatialCurveCompositionStrategyType.SAMPLE
        return self.is_curve and is_sample and self.boundaries is None

    def checked(self, schema: pa.Schema) -> RowOrder:
        """The order for a table; call it before anything is planned or written.

        Args:
            schema: The table's columns, with or without meta columns.

        Raises:
            HoodieConfigException: A column is not in the table, or its values have no such order; the message names all
                such columns.
        """
        fields = [field for field in schema if field.name not in META_COLUMN_SET]
        whole = pa.schema([*(pa.field(name, pa.string()) for name in META_COLUMNS), *fields])
        problems = [problem for name in self.columns for problem in self._problems(whole, name)]
        if problems:
            raise HoodieConfigException(f"cannot sort by {', '.join(self.columns)}: {'; '.join(problems)}")
        if not self.is_curve or self.build_method is SpatialCurveCompositionStrategyType.SAMPLE:
            return self
        positions = [whole.get_field_index(_path(whole, name)[0]) for name in self.columns]
        mixed: list[str] = [self.columns[number] for number in mixing_order(positions)]
        return attrs.evolve(self, columns=mixed)

    def _problems(self, schema: pa.Schema, name: str) -> list[str]:
        data_type = _type_of(schema, name)
        if data_type is None:
            near = spelled_otherwise(schema.names, [name])
            known = ", ".join(other for other in schema.names if other not in META_COLUMN_SET)
            return [f"the table has no column {name}{near}; give columns of {known} in {SORT_COLUMNS_KEY}"]
        if not _is_ordered(data_type):
            return [f"{name} is of type {data_type}, which has no order; leave it out of {SORT_COLUMNS_KEY}"]
        direct = self.is_curve and self.build_method is SpatialCurveCompositionStrategyType.DIRECT
        if direct and not has_ordinates(data_type):
            return [
                f"{name} is of type {data_type}, which has no place on a curve; leave it out of {SORT_COLUMNS_KEY}, or "
                "give hoodie.layout.optimize.strategy=LINEAR"
            ]
        return []

    def top_columns(self, schema: pa.Schema) -> list[str]:
        """The columns of rows that `sort_keys` reads, those that hold structs among them.

        Args:
            schema: The columns of the rows.
        """
        return list(dict.fromkeys(_path(schema, name)[0] for name in self.columns))

    def sampled(self, rows: Iterable[pa.RecordBatch]) -> RowOrder:
        """The order with the boundaries that SAMPLE compares values with.

        Args:
            rows: Some rows, spread evenly over all that are to be sorted; of their columns those of the order count.
                At most `sample_size` distinct values of a column are kept, evenly spread.
        """
        keys = [self._linear_keys(batch) for batch in rows]
        found = []
        for number in range(len(self.columns)):
            arrays = [of_batch[number].drop_null() for of_batch in keys]
            values = pa.concat_arrays(arrays).unique() if arrays else pa.nulls(0)
            values = values.take(pc.sort_indices(values))
            step = max(1, -(-len(values) // self.sample_size))
            found.append(values.take(pa.array(np.arange(step - 1, len(values), step))))
        return attrs.evolve(self, boundaries=tuple(found))

    def sort_keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The columns by which rows are sorted: ascending, nulls first.

        Args:
            batch: Rows with the columns of the order.

        Returns:
            Arrays as long as the batch: of a curve int64 without nulls; else one array for each column, of int8 to
            int64, bool, decimal, string or binary.
        """
        if not self.is_curve:
            return self._linear_keys(batch)
        is_hilbert = self.strategy is LayoutOptimizationStrategy.HILBERT
        if self.boundaries is not None:
            ordinates = self._ranks(batch)
            bits = _RANK_BITS
        else:
            map_to_numbers = hilbert_ordinates if is_hilbert else z_ordinates
            ordinates = [map_to_numbers(_column(batch, name), self.time_zone) for name in self.columns]
            bits = HILBERT_BITS if is_hilbert else 64
        words = mixed_bits(hilbert_bits(ordinates, bits) if is_hilbert else ordinates, bits)
        # Neither numpy's unsigned numbers nor Spark's are sorted as fast, or at all.
        return [pa.array((word ^ np.uint64(1 << 63)).view(np.int64)) for word in words]

    def _linear_keys(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [_linear_key(_column(batch, name)) for name in self.columns]

    def _ranks(self, batch: pa.RecordBatch) -> list[Words]:
        """The number of boundaries below each value, in all columns up to about the same number."""
        boundaries = self.boundaries or ()
        most = max(map(len, boundaries))
        found = []
        for key, known in zip(self._linear_keys(batch), boundaries, strict=True):
            ranks = _ranks(key, known)
            # A column with few values would decide nothing in the high bits.
            ranks *= max(1, most // max(1, len(known)))
            if key.null_count:
                ranks[pc.is_null(key).to_numpy(zero_copy_only=False)] = most + 1
            found.append(ranks)
        return found


def sorted_numbers(keys: Sequence[pa.Array | pa.ChunkedArray]) -> npt.NDArray[np.int64]:
    """The numbers of rows in ascending order of sort keys, nulls first; equal rows keep their order.

    Args:
        keys: The sort keys, see `RowOrder.sort_keys`.
    """
    columns: list[pa.Array | pa.ChunkedArray] = []
    for key in keys:
        if key.null_count:
            columns.append(key.is_valid())
        columns.append(key)
    names = [str(number) for number in range(len(columns))]
    table = pa.table(columns, names)
    if table.nbytes < _ONE_ARRAY:
        table = table.combine_chunks()
    found = pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy()
    return np.asarray(found).view(np.int64)


def _ranks(key: pa.Array, boundaries: pa.Array) -> Words:
    """For each value, the number of boundaries that are less."""
    if not len(boundaries):
        return np.zeros(len(key), np.uint64)
    # Values stand before boundaries that are equal, as they come first.
    order = sorted_numbers([pa.chunked_array([key, boundaries.cast(key.type)])])
    is_value = order < len(key)
    below = np.cumsum(~is_value).astype(np.uint64)
    found = np.empty(len(key), np.uint64)
    found[order[is_value]] = below[is_value]
    return found


def _linear_key(column: pa.Array) -> pa.Array:
    """A column whose ascending order in Arrow is the order of the values in Spark."""
    kind = column.type
    if pa.types.is_floating(kind):
        whole = pa.int32() if pa.types.is_float32(kind) else pa.int64()
        dtype = np.int32 if pa.types.is_float32(kind) else np.int64
        numbers = column.fill_null(0).to_numpy()
        # Adding 0.0 makes 0.0 of -0.0; numbers that are none have the bits of the largest.
        bits = np.where(np.isnan(numbers), numbers.dtype.type(np.nan), numbers + numbers.dtype.type(0)).view(dtype)
        keys = bits ^ ((bits >> (whole.bit_width - 1)) & np.iinfo(dtype).max)
        return pa.array(keys, whole, mask=pc.is_null(column).to_numpy(zero_copy_only=False))
    if pa.types.is_date32(kind):
        return column.view(pa.int32())
    if pa.types.is_timestamp(kind):
        return column.view(pa.int64())
    return column


def _is_ordered(data_type: pa.DataType) -> bool:
    is_local = pa.types.is_timestamp(data_type) and data_type.tz is None
    return has_ordinates(data_type) or is_local


def _path(schema: pa.Schema, name: str) -> list[str]:
    return [name] if name in schema.names else name.split(".")


def _type_of(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column or of a field in a struct; None if there is none."""
    first, *inner = _path(schema, name)
    if schema.get_field_index(first) < 0:
        return None
    found = schema.field(first).type
    for part in inner:
        if not pa.types.is_struct(found) or found.get_field_index(part) < 0:
            return None
        found = found.field(part).type
    return found


def _column(batch: pa.RecordBatch, name: str) -> pa.Array:
    first, *inner = _path(batch.schema, name)
    column = reduce(lambda found, part: pc.struct_field(found, [part]), inner, batch.column(first))
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
