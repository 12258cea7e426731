"""Declared properties: one field of a frozen class for each of Hudi's property names.

A group of properties is an attrs class whose fields are made by `property_field`. `read_group` turns the strings that a
user gave into such a group. It adds what it cannot accept to a list of problems, so that all are reported at once::

    @attrs.frozen(kw_only=True, repr=False)
    class HoodieStorageConfig(PropertyGroup):
        parquet_max_file_size: int = property_field(
            "hoodie.parquet.max.file.size", integer(minimum=1), 120 * 1024 * 1024)
        "The size of base files, in bytes."

    problems: list[str] = []
    read_group(HoodieStorageConfig, {"hoodie.parquet.max.file.size": "1 GB"}, problems)
    problems  # ["hoodie.parquet.max.file.size = '1 GB': must be a whole number, at least 1"]

Hudi: org.apache.hudi.common.config.ConfigProperty. Differs: a value that does not parse is an error, never the default.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from functools import cache
from typing import Any, Generic, TypeVar

import attrs

from hoodie.exception import HoodieConfigException

T = TypeVar("T")
E = TypeVar("E", bound=StrEnum)
G = TypeVar("G")

_METADATA_KEY = "hoodie.property"
_INTEGER = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_LARGEST_INTEGER = 2**63 - 1
# A password may contain the characters that end it in a URL; digits before a slash are a port.
_PASSWORD_IN_URL = re.compile(r"(://[^:/?\s]*):(?!\d+(?:[/?]|$))\S*@")
_SECRET_OPTION = (
    r"(?:[\w.-]*(?:password|passwd|pwd|passphrase|secret|token|signature|(?:access|account|api)[_-]?key)|sig)"
)
_PASSWORD_IN_OPTIONS = re.compile(
    rf"([?&]{_SECRET_OPTION}=)[^&\s]*|(;\s*{_SECRET_OPTION}\s*=)[^;\s]*"
    rf"|((?:^|\s){_SECRET_OPTION}\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|\S*)",
    re.IGNORECASE,
)
_SENSITIVE_WORDS = (
    "passw",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "credential",
    "accesskey",
    "accountkey",
    "apikey",
    "privatekey",
    # Of Kafka's clients: a login with its password, and keys as text.
    "jaas",
    "keystorekey",
    "keypem",
    "auth",
    "customheaders",
    # The path of a web hook often contains its secret.
    "httpurl",
)


@attrs.frozen
class Parser(Generic[T]):
    """A parser of the text of a value to a typed value.

    Attributes:
        parse: Takes the stripped text; raises ValueError (its message may be empty) if the text is not allowed.
        allowed: The allowed values, as the end of "must be ...".
    """

    parse: Callable[[str], T]
    allowed: str


@attrs.frozen
class ConfigProperty:
    """The definition of one property.

    Attributes:
        key: Hudi's name of the property.
        parser: The parser of its value.
        default: The typed value if the property is not given.
        alternatives: Other keys with the same meaning (older spellings, the name in the table's properties).
        since: The first version of Hudi that has it; "" for "since always".
        is_ours: Whether only hoodie has it.
    """

    key: str
    parser: Parser[Any]
    default: Any
    alternatives: tuple[str, ...] = ()
    since: str = ""
    is_ours: bool = False

    @property
    def keys(self) -> tuple[str, ...]:
        """The key and its alternatives, the preferred one first."""
        return (self.key, *self.alternatives)


def property_field(
    key: str,
    parser: Parser[Any],
    default: T,
    *,
    alternatives: Sequence[str] = (),
    since: str = "",
    is_ours: bool = False,
) -> T:
    """Declare a property as a field of a group.

    The string below the field describes the property in whole sentences.

    Args:
        key: Hudi's name of the property.
        parser: The parser of its value.
        default: The typed value if the property is not given.
        alternatives: Other keys with the same meaning.
        since: The first version of Hudi that has it.
        is_ours: Whether only hoodie has it.

    Returns:
        A field definition for the body of an attrs class (typed as the field's value, like `attrs.field`).
    """
    definition = ConfigProperty(key, parser, default, tuple(alternatives), since, is_ours)
    return attrs.field(default=default, metadata={_METADATA_KEY: definition})


def properties_of(group: type[Any]) -> dict[str, ConfigProperty]:
    """List the properties that a group declares.

    Args:
        group: An attrs class with fields made by `property_field`.

    Returns:
        Field name -> property, in the order of declaration.
    """
    return {
        field.name: field.metadata[_METADATA_KEY] for field in attrs.fields(group) if _METADATA_KEY in field.metadata
    }


class PropertyGroup:
    """A group of properties. It prints as the fields that differ from their defaults, without secrets."""

    __slots__ = ()

    def __repr__(self) -> str:
        declared = properties_of(type(self))
        changed = changed_properties(self)
        shown = [f"{name}={changed[prop.key]}" for name, prop in declared.items() if prop.key in changed]
        return f"{type(self).__name__}({', '.join(shown)})"


def changed_properties(group: object) -> dict[str, str]:
    """List the properties of a group that differ from their defaults.

    Args:
        group: An instance of an attrs class with fields made by `property_field`.

    Returns:
        Key -> value, formatted by `display_value`.
    """
    changed = {}
    for name, prop in properties_of(type(group)).items():
        value = getattr(group, name)
        if value != prop.default:
            changed[prop.key] = display_value(prop.key, ",".join(value) if isinstance(value, tuple) else value)
    return changed


def all_keys(groups: Iterable[type[Any]]) -> dict[str, ConfigProperty]:
    """List every key that the given groups accept, alternatives included.

    Args:
        groups: attrs classes with fields made by `property_field`.

    Returns:
        Key -> property.
    """
    return {key: prop for group in groups for prop in properties_of(group).values() for key in prop.keys}


def read_group(group: type[G], given: Mapping[str, str], problems: list[str]) -> G:
    """Build a group from the values that a user gave.

    Args:
        group: An attrs class with fields made by `property_field`.
        given: Key -> text; keys of other groups are ignored.
        problems: Receives one sentence for each value that is not allowed, and for each property whose keys are given
            with different values. The field then has its default.

    Returns:
        The group.
    """
    if given.keys().isdisjoint(_keys_of(group)):  # type: ignore[arg-type]  # a class is hashable
        return group()
    values: dict[str, Any] = {}
    for name, prop in properties_of(group).items():
        parsed: dict[str, Any] = {}
        for key in prop.keys:
            if key not in given:
                continue
            try:
                parsed[key] = prop.parser.parse(given[key].strip())
            except ValueError as error:
                reason = str(error) or f"must be {prop.parser.allowed}"
                problems.append(f"{key} = {display_value(key, given[key])}: {reason}")
        if not parsed:
            continue
        first, *others = parsed
        values[name] = parsed[first]
        for other in others:
            if parsed[other] != parsed[first]:
                problems.append(
                    f"{first} = {display_value(first, given[first])} and {other} = "
                    f"{display_value(other, given[other])} mean the same property: give one of them"
                )
    return group(**values)


@cache
def _keys_of(group: type[Any]) -> frozenset[str]:
    return frozenset(all_keys([group]))


def check_properties(properties: object, argument: str = "properties") -> None:
    """Refuse anything but a dict of properties, without showing its content.

    Args:
        properties: The caller's argument; None for no properties.
        argument: The argument's name.

    Raises:
        HoodieConfigException: The argument has another type.
    """
    if properties is not None and not isinstance(properties, Mapping):
        raise HoodieConfigException(
            f"{argument} is of type {type(properties).__name__}: give a dict of property names and values, such as "
            '{"hoodie.parquet.max.file.size": 67108864}'
        )


def to_property_value(value: Any) -> str:
    """Format a Python value as Hudi writes it in a properties file.

    Args:
        value: Text, a boolean, a number, a member of a StrEnum, a list or tuple of strings, or a class.

    Returns:
        The text: ``true``, ``1048576``, ``a,b``, ``package.module.Class``. Whole floats lose their fraction (``1e6`` is
        ``1000000``).

    Raises:
        ValueError: The value has another type, or is not finite; the message is the end of "must be ...".
    """
    match value:
        case str():
            return str(value)
        case bool():
            return "true" if value else "false"
        case numbers.Integral():
            return str(int(value))
        case numbers.Real():
            number = float(value)
            if not math.isfinite(number):
                raise ValueError("a finite number")
            return str(int(number)) if number.is_integer() and abs(number) <= _LARGEST_INTEGER else repr(number)
        case list() | tuple() if all(isinstance(item, str) for item in value):
            return ",".join(value)
        case type() if "<locals>" in value.__qualname__:
            raise ValueError("a class at the top of its module, which can be imported")
        case type():
            return f"{value.__module__}.{value.__qualname__}"
    raise ValueError(f"text, a number, a boolean or a list of texts, not {type(value).__name__}")


def display_value(key: str, value: Any) -> str:
    """Format a value for a message, unless its key says that it is a secret.

    Args:
        key: The property's key.
        value: Its value.

    Returns:
        The value's repr without the password of a URL, cut after 100 characters; or ``'***'`` for a secret.
    """
    if is_sensitive(key):
        return "'***'"
    if isinstance(value, str):
        value = _PASSWORD_IN_OPTIONS.sub(r"\1\2\3***", _PASSWORD_IN_URL.sub(r"\1:***@", value))
    shown = repr(str(value)) if isinstance(value, str) else repr(value)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."


def is_sensitive(key: str) -> bool:
    """Whether a property holds a secret, by its key.

    Args:
        key: The property's key.

    Returns:
        True if the value must not be shown.
    """
    plain = re.sub(r"[._-]", "", key.lower())
    return any(word in plain for word in _SENSITIVE_WORDS)


def integer(*, minimum: int | None = None, maximum: int = _LARGEST_INTEGER) -> Parser[int]:
    """A parser of whole numbers.

    Args:
        minimum: The smallest allowed number; None for no limit.
        maximum: The largest allowed number.

    Returns:
        The parser.
    """
    allowed = "a whole number"
    if minimum is not None and maximum != _LARGEST_INTEGER:
        allowed += f" from {minimum} to {maximum}"
    elif minimum is not None:
        allowed += f", at least {minimum}"

    def parse(value: str) -> int:
        if not _INTEGER.fullmatch(value) or len(value) > 20:
            raise ValueError
        number = int(value)
        if number > maximum or (number < minimum if minimum is not None else number < -maximum - 1):
            raise ValueError
        return number

    return Parser(parse, allowed)


def decimal(*, above: float, at_most: float | None = None, below: float | None = None) -> Parser[float]:
    """A parser of numbers with a fraction.

    Args:
        above: The value must be larger than this.
        at_most: The value must not be larger than this.
        below: The value must be smaller than this.

    Returns:
        The parser.
    """
    allowed = f"a number above {above:g}"
    allowed += f", at most {at_most:g}" if at_most is not None else ""
    allowed += f", below {below:g}" if below is not None else ""

    def parse(value: str) -> float:
        if not _DECIMAL.fullmatch(value):
            raise ValueError
        number = float(value)
        if not math.isfinite(number) or number <= above:
            raise ValueError
        if (at_most is not None and number > at_most) or (below is not None and number >= below):
            raise ValueError
        return number

    return Parser(parse, allowed)


def boolean() -> Parser[bool]:
    """A parser of ``true`` and ``false`` in any case. Any other word is an error; Hudi reads it as false.

    Returns:
        The parser.
    """

    def parse(value: str) -> bool:
        match value.lower():
            case "true":
                return True
            case "false":
                return False
        raise ValueError

    return Parser(parse, "true or false")


def text(allowed: str = "text that is not empty", check: Callable[[str], None] | None = None) -> Parser[str]:
    """A parser of text that is not empty.

    Args:
        allowed: The allowed texts, as the end of "must be ...".
        check: Raises ValueError for text that is not allowed.

    Returns:
        The parser.
    """

    def parse(value: str) -> str:
        if not value:
            raise ValueError
        if check is not None:
            check(value)
        return value

    return Parser(parse, allowed)


def column_names(names_of: str = "column names") -> Parser[tuple[str, ...]]:
    """A parser of names separated by commas; empty text gives no names.

    Args:
        names_of: The kind of things that they name.
    """

    def parse(value: str) -> tuple[str, ...]:
        names = tuple(name.strip() for name in value.split(",")) if value else ()
        if not all(names) or len(set(names)) != len(names):
            raise ValueError
        return names

    return Parser(parse, f"{names_of} separated by commas, each once")


def choice(
    members: Iterable[E],
    *,
    aliases: Mapping[str, E] | None = None,
    unsupported: Mapping[str, str] | None = None,
) -> Parser[E]:
    """A parser of a name out of a few, in any case.

    Args:
        members: The names; their values are what users write.
        aliases: More names (upper case) -> the member with the same meaning.
        unsupported: Names (upper case) that Hudi has and hoodie does not support -> the advice for the user, or "".

    Returns:
        The parser.
    """
    by_name = {member.value.upper(): member for member in members}
    names = [member.value for member in by_name.values()]
    by_name |= aliases or {}
    allowed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
    refused = unsupported or {}

    def parse(value: str) -> E:
        name = value.upper()
        if name in by_name:
            return by_name[name]
        if name in refused:
            way_out = f": {refused[name]}" if refused[name] else ""
            raise ValueError(f"Hudi has it, hoodie does not support it yet{way_out}; supported: {allowed}")
        raise ValueError

    return Parser(parse, allowed)
