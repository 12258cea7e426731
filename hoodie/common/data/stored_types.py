"""The types that Hudi stores: every input is converted to them here, in the same way on every engine.

==========================================  ==================  ===============================================
input                                       becomes             refused
==========================================  ==================  ===============================================
string, large_string, string_view, uuid     string
binary, large, view, fixed size             binary
int8, int16, int32, uint8, uint16           int32 (Avro has no smaller integer)
int64, uint32                               int64               uint64: cast it to int64 or decimal
half float, float                           float
double                                      double
bool, bool8                                 bool
decimal32/64/128/256                        decimal128          a precision beyond 38
date32, date64                              date32              a date64 with a time of day
timestamp of any unit, with a time zone     timestamp(us, UTC)  a remainder below microseconds
timestamp of any unit, without one          timestamp(us, UTC)  the same
list, large, view, fixed size               list of "element"
struct, map with string keys                the same            maps with other keys, structs without fields
dictionary, run-end encoded, extension      their values        variants
null, time, duration, interval, union                           always
==========================================  ==================  ===============================================

The same rules apply inside lists, maps and structs; ``docs/types.md`` has a row for each type. A timestamp without a
time zone is taken as UTC: Hudi 0.x refuses local timestamps, or turns stored ones into plain numbers when it next
writes the file. Only a table that already has such a column (`timestamp(us)` in the target schema) gets local
timestamps.

Values never change silently: a conversion that would lose something is refused, naming the column and the first value.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence

import pyarrow as pa

from hoodie.common.model.record_columns import META_COLUMN_SET, RESERVED_COLUMNS
from hoodie.common.util.parquet_levels import check_levels
from hoodie.exception import HoodieSchemaException, NullColumnException

RESERVED_PREFIX = "__hoodie_"
"""The prefix of names that are reserved for hoodie."""
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
UUID_EXTENSION = "arrow.uuid"
BOOL8_EXTENSION = "arrow.bool8"
_NO_VARIANT = "tables of versions 6 to 9 have no such type; store it as a string of JSON, or as a struct"
_REFUSED_EXTENSIONS = {
    "arrow.parquet.variant": _NO_VARIANT,
    "parquet.variant": _NO_VARIANT,
    "pandas.period": "its numbers would be stored without their unit; cast it with .dt.to_timestamp() or .astype(str)",
    "pandas.interval": "which ends belong to it would be lost; store .left and .right, or .astype(str)",
}
"""Extensions whose storage loses the meaning of the values, and the advice for the user."""
_EXTENSION_NAME = b"ARROW:extension:name"
"""The metadata key of a field whose type is an extension for which Arrow has no class."""
_MAX_DECIMAL_PRECISION = 38
_UTC_MICROS = pa.timestamp("us", tz="UTC")
_LOCAL_MICROS = pa.timestamp("us")
_INTEGER_WIDTHS = {pa.int8(): 8, pa.int16(): 16, pa.int32(): 32, pa.int64(): 64}
_PROMOTIONS = {
    pa.int32(): (pa.int64(), pa.float32(), pa.float64()),
    pa.int64(): (pa.float32(), pa.float64()),
    pa.float32(): (pa.float64(),),
}
"""Types that Avro and Hudi read as a wider type."""
_LOSSLESS = frozenset({(pa.int32(), pa.float64()), (pa.float32(), pa.float64())})


def normalise_schema(schema: pa.Schema, known_schema: pa.Schema | None = None) -> pa.Schema:
    """The columns of an input with the types in which they are stored.

    Hudi's meta columns and the index columns that pandas creates are left out. Nullability is kept; metadata is not. A
    name that differs from a known name only in upper and lower case becomes the known name, as in Spark.

    Args:
        schema: Any schema; hoodie's reserved columns keep their names and types.
        known_schema: The table's schema. It gives the spelling of names, the types of columns that hold only nulls, and
            says which timestamps without a time zone are local.

    Raises:
        HoodieSchemaException: A type cannot be stored or is nested too deeply, two columns have the same name (Spark
            ignores upper and lower case), or a name begins with ``__hoodie_``; the message names the columns.
    """
    check_levels(schema)
    fields = [field for field in schema if not is_dropped(field.name)]
    _check_names([field.name for field in fields], "")
    return pa.schema(_normal_fields(fields, "", None if known_schema is None else list(known_schema)))


def find_field(fields: Iterable[pa.Field], name: str) -> pa.Field | None:
    """The field with a name, or one whose name differs only in case; None if there is none."""
    lower, twin = name.lower(), None
    for field in fields:
        if field.name == name:
            return field
        if twin is None and field.name.lower() == lower:
            twin = field
    return twin


def field_finder(fields: Iterable[pa.Field]) -> Callable[[str], pa.Field | None]:
    """`find_field` for many names: a table of 2,000 columns is not searched 2,000 times.

    Args:
        fields: The fields.
    """
    exact: dict[str, pa.Field] = {}
    in_any_case: dict[str, pa.Field] = {}
    for field in fields:
        exact.setdefault(field.name, field)
        in_any_case.setdefault(field.name.lower(), field)

    def find(name: str) -> pa.Field | None:
        found = exact.get(name)
        return in_any_case.get(name.lower()) if found is None else found

    return find


def spelled_otherwise(names: Iterable[str], wanted: Iterable[str]) -> str:
    """A hint for messages about missing columns: for each, the existing column whose name is similar, in any case.

    Returns:
        `` (did you mean 'fare'?)``; empty if there is no such name.
    """
    by_lower = {name.lower(): name for name in names}
    near = (difflib.get_close_matches(name.lower(), by_lower, n=1) for name in wanted)
    found = [repr(by_lower[lower]) for lowers in near for lower in lowers]
    return f" (did you mean {', '.join(dict.fromkeys(found))}?)" if found else ""


def is_dropped(name: str) -> bool:
    """Whether a column of an input is never stored: Hudi's meta columns, and the index that pandas creates."""
    return name in META_COLUMN_SET or _PANDAS_INDEX.fullmatch(name) is not None


def _check_names(names: Sequence[str], path: str) -> None:
    reserved = [name for name in names if name.startswith(RESERVED_PREFIX) and name not in RESERVED_COLUMNS]
    if reserved:
        raise HoodieSchemaException(
            f"columns {', '.join(reserved)}: names beginning with '{RESERVED_PREFIX}' are hoodie's own; rename them"
        )
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            where = f"column '{path}'" if path else "the input"
            kind = "fields" if path else "columns"
            raise HoodieSchemaException(
                f"{where} has the {kind} '{seen[name.lower()]}' and '{name}', which Spark cannot tell apart: names "
                "must differ in more than upper and lower case; rename one of them"
            )
        seen[name.lower()] = name


def _normal_fields(fields: Iterable[pa.Field], prefix: str, known: Sequence[pa.Field] | None) -> list[pa.Field]:
    normal = []
    find = field_finder(known or ())
    for field in fields:
        twin = find(field.name)
        normal.append(_normal_field(field, twin.name if twin else field.name, prefix, twin.type if twin else None))
    return normal


def _normal_field(field: pa.Field, name: str, prefix: str, known: pa.DataType | None) -> pa.Field:
    reserved = RESERVED_COLUMNS.get(prefix + name)
    if reserved is not None and field.type == reserved:
        return pa.field(name, reserved, field.nullable)
    metadata = field.metadata
    _check_extension((metadata or {}).get(_EXTENSION_NAME, b"").decode(), field.type, prefix + name)
    stored = stored_type(field.type, prefix + name, known)
    if metadata is None and name == field.name and stored is _SCALAR_TYPES.get(field.type.id) and stored == field.type:
        return field
    return pa.field(name, stored, field.nullable)


def stored_type(data_type: pa.DataType, path: str, known: pa.DataType | None = None) -> pa.DataType:
    """The type in which values are stored.

    Args:
        data_type: Any type.
        path: The column for messages, as a path if it is nested.
        known: The table's type, if it has the column.

    Raises:
        HoodieSchemaException: The type cannot be stored.
    """
    normal = _SCALAR_TYPES.get(data_type.id)
    if normal is not None:
        return normal
    if pa.types.is_null(data_type):
        if known is None:
            raise NullColumnException(path)
        return known
    if pa.types.is_decimal(data_type):
        if data_type.precision > _MAX_DECIMAL_PRECISION:
            raise _refused(path, data_type, f"decimals have at most {_MAX_DECIMAL_PRECISION} digits; round it")
        return pa.decimal128(data_type.precision, data_type.scale)
    if pa.types.is_timestamp(data_type):
        return _LOCAL_MICROS if data_type.tz is None and known == _LOCAL_MICROS else _UTC_MICROS
    if pa.types.is_dictionary(data_type) or pa.types.is_run_end_encoded(data_type):
        return stored_type(data_type.value_type, path, known)
    if isinstance(data_type, pa.BaseExtensionType):
        _check_extension(data_type.extension_name, data_type, path)
        return _extension_type(data_type, path, known)
    if is_nested(data_type):
        return _normal_nested(data_type, path, known if known and nesting(known) == nesting(data_type) else None)
    raise _refused(path, data_type, _WAYS_OUT.get(data_type.id, "there is no such type in Avro; cast the column"))


def _extension_type(data_type: pa.BaseExtensionType, path: str, known: pa.DataType | None) -> pa.DataType:
    """The storage type of an extension type, except for types whose storage values have another meaning."""
    if data_type.extension_name == UUID_EXTENSION:
        is_bytes = known is not None and (pa.types.is_binary(known) or pa.types.is_fixed_size_binary(known))
        return pa.binary() if is_bytes else pa.string()
    if data_type.extension_name == BOOL8_EXTENSION:
        return pa.bool_()
    return stored_type(data_type.storage_type, path, known)


def _check_extension(name: str, data_type: pa.DataType, path: str) -> None:
    if name in _REFUSED_EXTENSIONS:
        raise _refused(path, name, _REFUSED_EXTENSIONS[name])


def _normal_nested(data_type: pa.DataType, path: str, known: pa.DataType | None) -> pa.DataType:
    if pa.types.is_struct(data_type):
        if not data_type.num_fields and known is None:
            raise _refused(
                path,
                data_type,
                "Parquet has no struct without fields; leave the column out, or give the struct a field",
            )
        _check_names([field.name for field in data_type], path)
        return pa.struct(_normal_fields(data_type, f"{path}.", None if known is None else list(known)))
    if is_list(data_type):
        element, element_known = data_type.value_field, None if known is None else known.value_type
        element_type = stored_type(element.type, f"{path}.element", element_known)
        return pa.list_(pa.field("element", element_type, element.nullable))
    key_type = stored_type(data_type.key_type, f"{path}.key")
    if not pa.types.is_string(key_type):
        raise _refused(path, data_type, "the keys of a map must be strings; cast them, or store a list of structs")
    item, item_known = data_type.item_field, None if known is None else known.item_type
    item_type = stored_type(item.type, f"{path}.value", item_known)
    return pa.map_(pa.string(), pa.field("value", item_type, item.nullable))


def is_nested(data_type: pa.DataType) -> bool:
    """Whether a type is a struct, a list of any kind, or a map."""
    return nesting(data_type) != ""


def nesting(data_type: pa.DataType) -> str:
    """``struct``, ``list`` (of any kind), ``map``, or the empty string."""
    if pa.types.is_struct(data_type):
        return "struct"
    if is_list(data_type):
        return "list"
    return "map" if pa.types.is_map(data_type) else ""


def is_list(data_type: pa.DataType) -> bool:
    """Whether a type is a list of any kind."""
    return data_type.id in _LIST_IDS


# Types are told apart by their numbers: tables of 2,000 columns ask often.
_LIST_IDS = frozenset(
    kind.id
    for kind in (
        pa.list_(pa.null()),
        pa.large_list(pa.null()),
        pa.list_(pa.null(), 1),
        pa.list_view(pa.null()),
        pa.large_list_view(pa.null()),
    )
)
_SCALAR_TYPES: dict[int, pa.DataType] = {
    kind.id: normal
    for normal, kinds in (
        (pa.string(), (pa.string(), pa.large_string(), pa.string_view())),
        (pa.binary(), (pa.binary(), pa.large_binary(), pa.binary_view(), pa.binary(1))),
        (pa.int32(), (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())),
        (pa.int64(), (pa.int64(), pa.uint32())),
        (pa.float32(), (pa.float16(), pa.float32())),
        (pa.float64(), (pa.float64(),)),
        (pa.bool_(), (pa.bool_(),)),
        (pa.date32(), (pa.date32(), pa.date64())),
    )
    for kind in kinds
}
"""The type in which values without parts are stored, by the number of their type."""
_WAYS_OUT = {
    pa.uint64().id: "Avro has no unsigned integers; cast it to int64 where the values fit, or to decimal128(20, 0)",
    pa.time32("s").id: "Hudi cannot store a time of day; cast it to int64 or string",
    pa.time64("us").id: "Hudi cannot store a time of day; cast it to int64 or string",
    pa.duration("us").id: "Hudi cannot store a duration; cast it to int64",
    pa.month_day_nano_interval().id: "Hudi cannot store an interval; cast it to int64 or string",
}


def _refused(path: str, data_type: pa.DataType | str, way_out: str) -> HoodieSchemaException:
    return HoodieSchemaException(f"column '{path}' of type {data_type} cannot be stored: {way_out}")


def fits(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether values of one stored type can be written to a column of the other; single values may still not fit.

    Numbers fit if no value is lost, which is checked for each value: integers in float columns, whole floats in integer
    columns, decimals in columns of other decimals. Bytes fit a string column if they are UTF-8.
    """
    if is_lossless(narrow, wide) or is_promotion(narrow, wide):
        return True
    if pa.types.is_floating(narrow) and pa.types.is_integer(wide):
        return True
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return True
    if pa.types.is_binary(narrow):
        return bool(pa.types.is_fixed_size_binary(wide) or pa.types.is_string(wide))
    return False


def is_promotion(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether a column of one type may become the other type; its files are then read as the wider type.

    int32 -> int64 -> float -> double
    """
    return wide in _PROMOTIONS.get(narrow, ())


def is_lossless(narrow: pa.DataType, wide: pa.DataType) -> bool:
    """Whether one stored type holds every value of the other: double holds int32, but not int64."""
    if narrow == wide or (narrow, wide) in _LOSSLESS:
        return True
    if narrow in _INTEGER_WIDTHS and wide in _INTEGER_WIDTHS:
        # Tables declare int8 or int16 only in Spark's own schema; on storage they are an int.
        return _INTEGER_WIDTHS[narrow] <= max(_INTEGER_WIDTHS[wide], 32)
    if pa.types.is_decimal(narrow) and pa.types.is_decimal(wide):
        return bool(wide.scale >= narrow.scale and wide.precision - wide.scale >= narrow.precision - narrow.scale)
    return bool(pa.types.is_string(narrow) and pa.types.is_binary(wide))
