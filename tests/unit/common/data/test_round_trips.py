"""Any nested data through the border, into a base file and back."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hoodie.avro.schema_converters import to_arrow, to_avro
from hoodie.common.data.normalise import normalise_batch
from hoodie.common.data.schema_compatibility import merge_schemas
from hoodie.common.data.stored_types import normalise_schema
from hoodie.io.parquet.column_adaptation import adapt_column

MICROS = st.integers(-(2**53), 2**53)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NAMES = st.lists(st.sampled_from(["a", "b", "c", "long_name", "_x1"]), min_size=1, max_size=3, unique=True)

SCALARS: list[tuple[pa.DataType, pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int8(), pa.int32(), st.integers(-128, 127)),
    (pa.uint16(), pa.int32(), st.integers(0, 2**16 - 1)),
    (pa.uint32(), pa.int64(), st.integers(0, 2**32 - 1)),
    (pa.int64(), pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float32(), pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), pa.float64(), st.floats(allow_nan=False)),
    (pa.bool_(), pa.bool_(), st.booleans()),
    (pa.string(), pa.string(), TEXT),
    (pa.large_string(), pa.string(), TEXT),
    (pa.string_view(), pa.string(), TEXT),
    (pa.dictionary(pa.int8(), pa.string()), pa.string(), TEXT),
    (pa.binary(), pa.binary(), st.binary(max_size=5)),
    (pa.binary(3), pa.binary(), st.binary(min_size=3, max_size=3)),
    (pa.date32(), pa.date32(), st.dates()),
    (pa.decimal128(20, 3), pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
    (pa.decimal256(38, 0), pa.decimal128(38, 0), st.decimals(-(10**9), 10**9, places=0)),
    (pa.timestamp("us", "UTC"), pa.timestamp("us", "UTC"), MICROS),
    (pa.timestamp("ms", "Asia/Tokyo"), pa.timestamp("us", "UTC"), MICROS.map(lambda value: value // 1000)),
]
"""A type, what is stored for it, and its values."""


@st.composite
def columns(draw: st.DrawFn, depth: int = 3) -> tuple[pa.DataType, pa.DataType, st.SearchStrategy[Any]]:
    """A type, nested or not, what is stored for it, and its values."""
    kind = draw(st.sampled_from(["scalar", "struct", "list", "large_list", "map"] if depth else ["scalar"]))
    if kind == "scalar":
        return draw(st.sampled_from(SCALARS))
    if kind == "struct":
        fields = [(name, *draw(columns(depth - 1))) for name in draw(NAMES)]
        return (
            pa.struct([(name, data_type) for name, data_type, _, _ in fields]),
            pa.struct([(name, stored) for name, _, stored, _ in fields]),
            st.fixed_dictionaries({name: st.none() | values for name, _, _, values in fields}),
        )
    data_type, stored, values = draw(columns(depth - 1))
    if kind == "map":
        items = st.lists(st.tuples(TEXT, st.none() | values), max_size=3, unique_by=lambda item: item[0])
        return pa.map_(pa.string(), data_type), pa.map_(pa.string(), stored), items
    make = pa.list_ if kind == "list" else pa.large_list
    return make(data_type), pa.list_(pa.field("element", stored)), st.lists(st.none() | values, max_size=3)


@st.composite
def batches(draw: st.DrawFn) -> tuple[pa.RecordBatch, pa.Schema]:
    """Some rows, perhaps a slice of more, and the schema in which they are stored."""
    chosen = [(name, *draw(columns())) for name in draw(NAMES)]
    rows = draw(st.integers(0, 6))
    arrays, fields = [], []
    for name, data_type, stored, values in chosen:
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        arrays.append(pa.array(drawn, data_type))
        fields.append(pa.field(name, stored))
    start = draw(st.integers(0, rows))
    batch = pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
    return batch.slice(start, draw(st.integers(0, rows - start))), pa.schema(fields)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(batches())
def test_rows_come_back_from_a_file_as_they_went_in(case: tuple[pa.RecordBatch, pa.Schema]) -> None:
    batch, stored = case
    schema = normalise_schema(batch.schema)
    assert schema == stored
    assert merge_schemas(stored, batch.schema).columns == stored
    assert to_arrow(to_avro(schema, "r", "ns")) == schema
    normal = normalise_batch(batch, schema)
    normal.validate(full=True)
    expected = [pa.array(column.to_pylist(), field.type) for column, field in zip(batch.columns, stored, strict=True)]
    assert [column.to_pylist() for column in normal.columns] == [column.to_pylist() for column in expected]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_batches([normal]), sink, store_schema=False)
    found = pq.ParquetFile(sink).read()
    for number, field in enumerate(schema):
        column = found.column(number).combine_chunks()
        adapted = adapt_column(column.chunk(0) if isinstance(column, pa.ChunkedArray) else column, field.type)
        assert adapted.type == field.type
        assert adapted.to_pylist() == expected[number].to_pylist()
