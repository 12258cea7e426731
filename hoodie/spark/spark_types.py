"""Spark's types and Arrow's at the border between the JVM and tasks. What is stored is the business of `stored_types`.

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

Nullability is kept at every level. Everything else is refused by column name.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import types as st

from hoodie.exception import HoodieSchemaException

__all__ = ["arrow_schema", "conform", "quoted", "schema_in_jvm", "spark_schema"]

TIMESTAMP = pa.timestamp("us", tz="UTC")
MAX_PRECISION = 38
"""Digits of a decimal, at most, in Spark."""

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
        HoodieSchemaException: A type has no place in a table; the message names all such columns.
    """
    problems: list[str] = []
    fields = [_arrow_field(field, field.name, problems) for field in schema.fields]
    if problems:
        raise HoodieSchemaException("; ".join(problems))
    return pa.schema(fields)


def spark_schema(schema: pa.Schema) -> st.StructType:
    """The Spark schema of an Arrow schema of normalised types.

    Raises:
        HoodieSchemaException: Spark has no such type; the message names column and type.
    """
    return st.StructType([_spark_field(field, field.name) for field in schema])


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch from the JVM or of a task's function with exactly the types of a schema.

    Time zones are replaced without touching values (they name an instant either way), large strings become plain ones.

    Args:
        batch: Columns as in ``schema``, in that order.
        schema: What the result has.

    Raises:
        HoodieSchemaException: The columns are others, or a value does not fit its type.
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
    """The schema of batches that are handed to the JVM, which has no binary of a fixed length."""
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
    """A column name as Spark's expressions take it, whatever characters it has."""
    return "`" + name.replace("`", "``") + "`"


_WAYS_OUT = {
    "VariantType": "tables of version 6 have no variant; store to_json(...) of it, or its fields",
    "CalendarIntervalType": "Hudi has no interval; store its parts as numbers",
    "DayTimeIntervalType": "Hudi has no interval; cast it to bigint (microseconds) or string",
    "YearMonthIntervalType": "Hudi has no interval; cast it to int (months) or string",
    "TimeType": "Hudi has no time of day; cast it to string",
    "GeometryType": "Hudi has no geometry; store it as binary (WKB)",
    "GeographyType": "Hudi has no geography; store it as binary (WKB)",
}
_USER_DEFINED = "a user-defined type is not stored; select its fields, or cast it to the type that it is stored as"


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
