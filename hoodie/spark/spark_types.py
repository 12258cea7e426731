"""Convert types between Spark and Arrow at the border between the JVM and tasks; see `stored_types` for stored types.

    Spark                            Arrow
    byte, short, int, long           int8, int16, int32, int64
    float, double, boolean           float32, float64, bool
    string, char(n), varchar(n)      string
    binary                           binary
    decimal(p, s)                    decimal128(p, s)
    date                             date32
    timestamp                        timestamp(us, UTC)
    timestamp_ntz                    timestamp(us)
    binary                           fixed_size_binary(n) (from Arrow only)
    array, map, struct               list, map, struct
    void                             null (to Arrow only)

Nullability is kept at every level. Any other type is refused; the message names the column.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from hoodie.common.util.parquet_levels import deep_columns
from hoodie.exception import HoodieSchemaException

TIMESTAMP = pa.timestamp("us", tz="UTC")
MAX_PRECISION = 38
"""The maximum number of digits of a decimal in Spark."""
MAX_LEVELS = 62
"""Arrow messages, which carry batches to Python workers, hold 64 levels, including the batch and the values."""

_TO_ARROW: dict[str, pa.DataType] = {
    "ByteType": pa.int8(),
    "ShortType": pa.int16(),
    "IntegerType": pa.int32(),
    "LongType": pa.int64(),
    "FloatType": pa.float32(),
    "DoubleType": pa.float64(),
    "BooleanType": pa.bool_(),
    "StringType": pa.string(),
    "CharType": pa.string(),
    "VarcharType": pa.string(),
    "BinaryType": pa.binary(),
    "DateType": pa.date32(),
    "TimestampType": TIMESTAMP,
    "TimestampNTZType": pa.timestamp("us"),
    "NullType": pa.null(),
}
_TO_SPARK: dict[pa.DataType, st.DataType] = {
    pa.int8(): st.ByteType(),
    pa.int16(): st.ShortType(),
    pa.int32(): st.IntegerType(),
    pa.int64(): st.LongType(),
    pa.float32(): st.FloatType(),
    pa.float64(): st.DoubleType(),
    pa.bool_(): st.BooleanType(),
    pa.string(): st.StringType(),
    pa.binary(): st.BinaryType(),
    pa.date32(): st.DateType(),
    TIMESTAMP: st.TimestampType(),
    pa.timestamp("us"): st.TimestampNTZType(),
}


def arrow_schema(schema: st.StructType) -> pa.Schema:
    """The Arrow schema of a Spark schema.

    Raises:
        HoodieSchemaException: Types cannot be stored; the message names all such columns. Or a type is nested too
            deeply.
    """
    for name, levels in deep_columns(((f.name, f.dataType) for f in schema.fields), _children, MAX_LEVELS):
        raise HoodieSchemaException(
            f"column '{name}' is nested too deeply for Spark: it has {levels} levels, where a struct or array is one "
            f"and a map two, and Spark's Python workers take at most {MAX_LEVELS}; nothing was written. Store its "
            "inner part as a string of JSON, or in columns of its own"
        )
    problems: list[str] = []
    fields = [_arrow_field(field, field.name, problems) for field in schema.fields]
    if problems:
        raise HoodieSchemaException("; ".join(problems))
    return pa.schema(fields)


def spark_schema(schema: pa.Schema) -> st.StructType:
    """The Spark schema of an Arrow schema of normalised types.

    Raises:
        HoodieSchemaException: Spark has no such type; the message names the column and the type.
    """
    return st.StructType([_spark_field(field, field.name) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Convert a batch from the JVM or from a task's function to exactly the types of a schema.

    Time zones are replaced without changing values (they mean the same instants), large strings become plain strings.

    Args:
        batch: The columns of ``schema``, in that order.
        schema: The schema of the result.

    Raises:
        HoodieSchemaException: The columns differ, or a value does not fit its type.
    """
    if batch.schema.equals(schema):
        return batch
    if batch.schema.names != schema.names:
        raise HoodieSchemaException(f"expected columns {schema.names}, got {batch.schema.names}")
    try:
        columns = [
            column if column.type.equals(field.type) else column.cast(field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
    except pa.ArrowException as error:
        raise HoodieSchemaException(f"cannot turn\n{batch.schema}\ninto\n{schema}\n{error}") from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def schema_in_jvm(schema: pa.Schema) -> pa.Schema:
    """The schema of batches for the JVM, which has no fixed-size binary type."""
    return pa.schema([field.with_type(_type_in_jvm(field.type)) for field in schema])


def _type_in_jvm(data_type: pa.DataType) -> pa.DataType:
    if pa.types.is_fixed_size_binary(data_type):
        return pa.binary()
    if pa.types.is_struct(data_type):
        return pa.struct([field.with_type(_type_in_jvm(field.type)) for field in data_type])
    if pa.types.is_map(data_type):
        return pa.map_(data_type.key_type, data_type.item_field.with_type(_type_in_jvm(data_type.item_type)))
    if pa.types.is_list(data_type):
        return pa.list_(data_type.value_field.with_type(_type_in_jvm(data_type.value_type)))
    return data_type


def quoted(name: str) -> str:
    """A column name quoted for Spark's expressions, whatever characters it contains."""
    return "`" + name.replace("`", "``") + "`"


_WAYS_OUT = {
    "VariantType": "tables of versions 6 to 9 have no variant; store to_json(...) of it, or its fields",
    "CalendarIntervalType": "Hudi has no interval; store its parts as numbers",
    "DayTimeIntervalType": "Hudi has no interval; cast it to bigint (microseconds) or string",
    "YearMonthIntervalType": "Hudi has no interval; cast it to int (months) or string",
    "TimeType": "Hudi has no time of day; cast it to string",
    "GeometryType": "Hudi has no geometry; store it as binary (WKB)",
    "GeographyType": "Hudi has no geography; store it as binary (WKB)",
}
_USER_DEFINED = "a user-defined type is not stored; select its fields, or cast it to the type that it is stored as"


def _children(data_type: st.DataType) -> list[tuple[st.DataType, int]]:
    """The children of a type and their depth in Arrow levels, for `deep_columns`."""
    if isinstance(data_type, st.StructType):
        return [(field.dataType, 1) for field in data_type.fields]
    if isinstance(data_type, st.ArrayType):
        return [(data_type.elementType, 1)]
    if isinstance(data_type, st.MapType):
        return [(data_type.keyType, 2), (data_type.valueType, 2)]
    return []


def _arrow_field(field: st.StructField, path: str, problems: list[str]) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType, path, problems), field.nullable)


def _arrow_type(data_type: st.DataType, path: str, problems: list[str]) -> pa.DataType:
    kind = type(data_type).__name__
    if isinstance(data_type, st.DecimalType):
        return pa.decimal128(data_type.precision, data_type.scale)
    if isinstance(data_type, st.StructType):
        return pa.struct([_arrow_field(field, f"{path}.{field.name}", problems) for field in data_type.fields])
    if isinstance(data_type, st.ArrayType):
        element = _arrow_type(data_type.elementType, f"{path}.element", problems)
        return pa.list_(pa.field("element", element, data_type.containsNull))
    if isinstance(data_type, st.MapType):
        key = _arrow_type(data_type.keyType, f"{path}.key", problems)
        value = _arrow_type(data_type.valueType, f"{path}.value", problems)
        return pa.map_(pa.field("key", key, False), pa.field("value", value, data_type.valueContainsNull))
    if kind not in _TO_ARROW:
        is_user_defined = isinstance(data_type, st.UserDefinedType)
        way_out = _USER_DEFINED if is_user_defined else _WAYS_OUT.get(kind, "Avro has no such type; cast the column")
        problems.append(f"column '{path}' of type {data_type.simpleString()} cannot be stored: {way_out}")
        return pa.string()
    return _TO_ARROW[kind]


def _spark_field(field: pa.Field, path: str) -> st.StructField:
    return st.StructField(field.name, _spark_type(field.type, path), field.nullable)


def _spark_type(data_type: pa.DataType, path: str) -> st.DataType:
    if pa.types.is_decimal(data_type) and data_type.precision <= MAX_PRECISION:
        return st.DecimalType(data_type.precision, data_type.scale)
    if pa.types.is_fixed_size_binary(data_type):
        return st.BinaryType()
    if pa.types.is_struct(data_type):
        return st.StructType([_spark_field(field, f"{path}.{field.name}") for field in data_type])
    if pa.types.is_map(data_type):
        key = _spark_type(data_type.key_type, f"{path}.key")
        return st.MapType(key, _spark_type(data_type.item_type, f"{path}.value"), data_type.item_field.nullable)
    if pa.types.is_list(data_type):
        element = data_type.value_field
        return st.ArrayType(_spark_type(element.type, f"{path}.element"), element.nullable)
    if data_type not in _TO_SPARK:
        raise HoodieSchemaException(f"column {path} has the Arrow type {data_type}, which Spark does not take")
    return _TO_SPARK[data_type]
