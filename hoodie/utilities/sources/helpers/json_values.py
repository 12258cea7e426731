"""Values of JSON as values of a schema, one message at a time: what Hudi converts, and what it refuses.

======================  ==================================================================================
type                    values taken
======================  ==================================================================================
boolean                 ``true`` and ``false``
int, long               numbers, their fraction cut off and narrowed as Java's casts do; texts of whole numbers
float, double           numbers, and texts of numbers
string                  texts; of anything else, its JSON
bytes                   texts, in UTF-8
enum                    one of the symbols
fixed                   a list of bytes
decimal                 numbers and their texts, without rounding; unscaled bytes in Base64; a list of bytes for a fixed
date, times             numbers, and ISO texts (`hoodie.utilities.sources.helpers.json_times`)
record, map             objects
array                   lists
======================  ==================================================================================

Java's casts count where a schema provider tells the types. Where nobody told them, a number that is not whole, or is
out of the range of its type, is an error.

Fields that the schema lacks are passed over. A field that is absent is null. Of a name that is there twice, the last
value counts.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from typing import Any

import attrs
import pyarrow as pa

from hoodie.avro.avro_type import AvroType
from hoodie.common.model.record_columns import META_COLUMN_SET
from hoodie.utilities.sources.helpers import json_times

MAX_DEPTH = 200
"""The most levels of objects and lists in a message. More are refused: reading them takes a stack without end."""
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DIGITS = re.compile(r"[+-]?[0-9]{1,19}")
_FLOATING = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_DECIMAL = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_JAVA_BLANKS = "".join(map(chr, range(33)))
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_BRACKETS = re.compile(rb"[\[\]{}]")
_MAX_DIGITS = 1000
_MAX_SHOWN = 80
_ADVICE = "give a schema, or widen the column"

Convert = Callable[[Any], Any]


class JsonValueError(ValueError):
    """A message that is no row of the schema; its text says where and why."""


@attrs.frozen
class Number:
    """A number with a fraction or an exponent, or a very long one, as its text: no digit is lost.

    Attributes:
        text: The text.
    """

    text: str


def parse_object(message: bytes) -> dict[str, Any]:
    """The object of a message.

    Args:
        message: The bytes.

    Raises:
        JsonValueError: They are not one JSON object in UTF-8.
    """
    if message.count(b"[") + message.count(b"{") > MAX_DEPTH and _is_deeper(message, MAX_DEPTH):
        raise JsonValueError(f"it has more than {MAX_DEPTH} levels of objects and lists")
    try:
        found = json.loads(
            message.decode("utf-8"), parse_float=Number, parse_int=_parse_int, parse_constant=_refuse_constant
        )
    except UnicodeDecodeError as error:
        raise JsonValueError(f"it is not UTF-8: byte {error.start} is 0x{message[error.start]:02x}") from error
    except JsonValueError:
        raise
    except ValueError as error:
        raise JsonValueError(f"it is not one JSON object: {error}") from error
    except RecursionError as error:
        raise JsonValueError("it has too many levels of objects and lists") from error
    if type(found) is not dict:
        raise JsonValueError(f"it is not a JSON object but {_shown(found)}")
    return found


def _parse_int(text: str) -> int | Number:
    return int(text) if len(text) <= _MAX_DIGITS else Number(text)


def _refuse_constant(text: str) -> Any:
    raise JsonValueError(f"it is not one JSON object: {text} is no JSON")


def _is_deeper(message: bytes, limit: int) -> bool:
    depth = 0
    for found in _BRACKETS.finditer(_STRINGS.sub(b"", message)):
        depth += 1 if found[0] in b"[{" else -1
        if depth > limit:
            return True
    return False


class MercifulJsonConverter:
    """Makes values of JSON objects, one for each column.

    Args:
        record: The type of the rows; Hudi's meta columns in it are left out.
        is_exact: Whether numbers that do not fit their type are refused.

    Hudi: org.apache.hudi.common.avro.MercifulJsonConverter. Differs: a text of digits for a decimal is a number, and
    only what is no number is read as Base64; a null for a field without nulls, and two objects in a message, are
    refused.
    """

    def __init__(self, record: AvroType, is_exact: bool = False) -> None:
        self._fields = [
            (name, avro.is_nullable, _converter(avro, is_exact), avro.path)
            for name, avro in zip(record.names, record.inner, strict=True)
            if name not in META_COLUMN_SET
        ]

    def values(self, found: Mapping[str, Any]) -> list[Any]:
        """The values of the columns, as `pyarrow.array` takes them.

        Args:
            found: An object, of `parse_object`.

        Raises:
            JsonValueError: A value cannot be converted; the text names the field.
        """
        return [_field_value(found, *field) for field in self._fields]


def _field_value(found: Mapping[str, Any], name: str, is_nullable: bool, convert: Convert, path: str) -> Any:
    value = found.get(name)
    if value is not None:
        return convert(value)
    if not is_nullable:
        raise JsonValueError(f"field {path} is {'null' if name in found else 'missing'}, and its type has no null")
    return None


def _converter(avro: AvroType, is_exact: bool) -> Convert:
    if avro.kind == "union":
        others = [branch for branch in avro.inner if branch.kind != "null"]
        return _converter(next(branch for branch in others if branch.arrow_type == avro.arrow_type), is_exact)
    if avro.kind == "record":
        return _record(avro, is_exact)
    if avro.kind == "array":
        return _array(avro, is_exact)
    if avro.kind == "map":
        return _map(avro, is_exact)
    convert = _of_logical(avro, is_exact) or _OF_KIND[avro.kind](avro, is_exact)
    wanted = f"{avro.kind} ({avro.logical})" if avro.logical else avro.kind

    def checked(value: Any) -> Any:
        try:
            return convert(value)
        except (ValueError, ArithmeticError) as error:
            reason = str(error) if isinstance(error, JsonValueError) else ""
            raise JsonValueError(
                f"field {avro.path}: {reason or f'{_shown(value)} is no value of type {wanted}'}"
            ) from error

    return checked


def _record(avro: AvroType, is_exact: bool) -> Convert:
    fields = [
        (name, inner.is_nullable, _converter(inner, is_exact), inner.path)
        for name, inner in zip(avro.names, avro.inner, strict=True)
    ]

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise JsonValueError(f"field {avro.path}: {_shown(value)} is not an object")
        return {field[0]: _field_value(value, *field) for field in fields}

    return convert


def _array(avro: AvroType, is_exact: bool) -> Convert:
    one = _item(avro.inner[0], is_exact)

    def convert(value: Any) -> Any:
        if type(value) is not list:
            raise JsonValueError(f"field {avro.path}: {_shown(value)} is not a list")
        return [one(item) for item in value]

    return convert


def _map(avro: AvroType, is_exact: bool) -> Convert:
    one = _item(avro.inner[0], is_exact)

    def convert(value: Any) -> Any:
        if type(value) is not dict:
            raise JsonValueError(f"field {avro.path}: {_shown(value)} is not an object")
        return [(_text(key), one(item)) for key, item in value.items()]

    return convert


def _item(avro: AvroType, is_exact: bool) -> Convert:
    convert, is_nullable = _converter(avro, is_exact), avro.is_nullable

    def one(value: Any) -> Any:
        if value is not None:
            return convert(value)
        if not is_nullable:
            raise JsonValueError(f"field {avro.path} is null, and its type has no null")
        return None

    return one


def _boolean(avro: AvroType, is_exact: bool) -> Convert:
    def convert(value: Any) -> bool:
        if type(value) is not bool:
            raise ValueError
        return bool(value)

    return convert


def _whole(bits: int, is_exact: bool) -> Convert:
    bound = 1 << (bits - 1)

    def convert(value: Any) -> int:
        if type(value) is str:
            if not _INTEGER.fullmatch(value) or len(value) > _MAX_DIGITS:
                raise ValueError
            number = int(value)
            if not -bound <= number < bound:
                raise ValueError
            return number
        number = _truncated(value, is_exact)
        if is_exact and not -bound <= number < bound:
            raise JsonValueError(f"{_shown(value)} does not fit a whole number of {bits} bits: {_ADVICE}")
        return (number + bound) % (2 * bound) - bound

    return convert


def _truncated(value: Any, is_exact: bool) -> int:
    if type(value) is int:
        return value
    if type(value) is not Number:
        raise ValueError
    if len(value.text) > _MAX_DIGITS:
        raise JsonValueError(f"a number of {len(value.text)} characters is too long")
    number = Decimal(value.text)
    if number.adjusted() > _MAX_DIGITS:
        raise JsonValueError(f"{_shown(value)} is too large")
    whole = int(number) if number.adjusted() >= 0 else 0
    if is_exact and whole != number:
        raise JsonValueError(f"{_shown(value)} is not a whole number: {_ADVICE}")
    return whole


def _floating(value: Any) -> str:
    """The text of a number, as `float` takes it."""
    if type(value) is str:
        text = value.strip(_JAVA_BLANKS)
        if not _FLOATING.fullmatch(text):
            raise ValueError
        return text if text.endswith(("N", "y")) else text.rstrip("fFdD")
    if type(value) is Number:
        return value.text
    if type(value) is int:
        return str(value)
    raise ValueError


def _double(avro: AvroType, is_exact: bool) -> Convert:
    return _finite(lambda value: float(_floating(value)), is_exact)


def _float(avro: AvroType, is_exact: bool) -> Convert:
    # Of the text, not of a double: two roundings may differ from one.
    return _finite(lambda value: pa.scalar(_floating(value)).cast(pa.float32()).as_py(), is_exact)


def _finite(convert: Convert, is_exact: bool) -> Convert:
    def checked(value: Any) -> float:
        number: float = convert(value)
        if math.isinf(number) and type(value) is not str:
            raise JsonValueError(f"{_shown(value)} is too large for its type: {_ADVICE}")
        return number

    return checked if is_exact else convert


def _string(avro: AvroType, is_exact: bool) -> Convert:
    return lambda value: _text(value if type(value) is str else json_text(value))


def _bytes(avro: AvroType, is_exact: bool) -> Convert:
    return lambda value: _text(value if type(value) is str else json_text(value)).encode()


def _text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise JsonValueError("a text has half of a surrogate pair") from error
    return text


def _enum(avro: AvroType, is_exact: bool) -> Convert:
    symbols = frozenset(avro.symbols)

    def convert(value: Any) -> str:
        text = value if type(value) is str else json_text(value)
        if text not in symbols:
            raise JsonValueError(f"{_shown(value)} is none of its symbols ({', '.join(avro.symbols)})")
        return text

    return convert


def _fixed(avro: AvroType, is_exact: bool) -> Convert:
    def convert(value: Any) -> bytes:
        if type(value) is not list or not all(type(item) is int for item in value):
            raise ValueError
        if is_exact and not (len(value) == avro.size and all(-128 <= item < 256 for item in value)):
            raise ValueError
        return bytes(item % 256 for item in value)[: avro.size].ljust(avro.size, b"\0")

    return convert


def _of_logical(avro: AvroType, is_exact: bool) -> Convert | None:
    if pa.types.is_decimal(avro.arrow_type):
        return _decimal(avro, is_exact)
    bits = 32 if avro.kind == "int" else 64
    of_text = _OF_TEXT.get(avro.logical or "")
    if of_text is None:
        return None
    of_number = _whole(bits, is_exact)
    # Columns are in microseconds.
    factor = 1000 if avro.logical in ("timestamp-millis", "local-timestamp-millis") else 1
    bound = 1 << (bits - 1)

    def convert(value: Any) -> int:
        is_text = type(value) is str and not _DIGITS.fullmatch(value)
        number = of_text(value) if is_text else of_number(value)
        if not -bound <= number * factor < bound:
            raise JsonValueError(f"{_shown(value)} is out of range")
        return number * factor

    return convert


def _decimal(avro: AvroType, is_exact: bool) -> Convert:
    precision, scale = avro.arrow_type.precision, avro.arrow_type.scale
    context = Context(prec=precision, traps=[Inexact, InvalidOperation])
    one = Decimal(1).scaleb(-scale)
    of_list = _fixed(avro, is_exact)

    def convert(value: Any) -> Decimal:
        if type(value) is list and avro.kind == "fixed":
            return _unscaled(of_list(value))
        if type(value) is str and not _DECIMAL.fullmatch(value):
            try:
                return _unscaled(base64.b64decode(value + "=" * (-len(value) % 4), validate=True))
            except binascii.Error as error:
                raise ValueError from error
        return Decimal(_floating(value)).quantize(one, context=context)

    def _unscaled(content: bytes) -> Decimal:
        if not content:
            raise ValueError
        return Decimal(int.from_bytes(content, "big", signed=True)).scaleb(-scale).quantize(one, context=context)

    return convert


_OF_TEXT: Mapping[str, Callable[[str], int]] = {
    "date": json_times.days_of,
    "time-millis": lambda text: json_times.nanos_of_day(text) // 1_000_000,
    "time-micros": lambda text: json_times.nanos_of_day(text) // 1000,
    "timestamp-millis": lambda text: json_times.instant_nanos(text) // 1_000_000,
    "timestamp-micros": lambda text: json_times.to_micros(json_times.instant_nanos(text)),
    "local-timestamp-millis": lambda text: json_times.local_nanos(text) // 1_000_000,
    "local-timestamp-micros": lambda text: json_times.to_micros(json_times.local_nanos(text)),
}
_OF_KIND: Mapping[str, Callable[[AvroType, bool], Convert]] = {
    "boolean": _boolean,
    "int": lambda avro, is_exact: _whole(32, is_exact),
    "long": lambda avro, is_exact: _whole(64, is_exact),
    "float": _float,
    "double": _double,
    "string": _string,
    "bytes": _bytes,
    "enum": _enum,
    "fixed": _fixed,
}


def json_text(value: Any) -> str:
    """The JSON of a parsed value, without blanks; numbers keep their digits.

    Args:
        value: A value of `parse_object`.
    """
    if type(value) is dict:
        return "{" + ",".join([f"{json_text(key)}:{json_text(item)}" for key, item in value.items()]) + "}"
    if type(value) is list:
        return "[" + ",".join([json_text(item) for item in value]) + "]"
    if type(value) is Number:
        try:
            return str(Decimal(value.text))
        except InvalidOperation:
            return value.text
    return json.dumps(value, ensure_ascii=False)


def _shown(value: Any) -> str:
    text = json_text(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 3]}..."
