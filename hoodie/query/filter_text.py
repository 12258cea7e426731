"""Filters written as text in the words of SQL, for options that are strings.

::

    fare > 50 and rider in ('ann', 'bob') and not day < date '2026-01-02'
    `trip id` = 't42' or driver is null

Grammar: comparisons (``=``, ``==``, ``!=``, ``<>``, ``<``, ``<=``, ``>``, ``>=``) of a column with a literal, ``in``,
``not in``, ``is null``, ``is not null``, joined by ``and``, ``or``, ``not`` and parentheses. Literals: numbers, texts
in single quotes (a doubled quote is a quote), ``true``, ``false``, ``date '...'``, ``timestamp '...'`` (UTC if the
text has no zone), ``timestamp_ntz '...'``, ``decimal '...'``. Names with other characters are put in backquotes; a dot
leads to a field of a struct.

A comparison with null is never true, and neither is its negation, as in SQL. NaN is compared as in `hoodie.read_table`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from functools import reduce
from typing import Any, NoReturn

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from hoodie.exception import HoodieConfigException

_TOKEN = re.compile(
    r"\s*(?:(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w`]))"
    r"|'(?P<text>(?:[^']|'')*)'"
    r"|(?P<name>(?:`(?:[^`]|``)+`|[^\W\d]\w*)(?:\.(?:`(?:[^`]|``)+`|[^\W\d]\w*))*)"
    r"|(?P<sign><>|<=|>=|==|!=|[=<>(),]))"
)
_INTEGER = re.compile(r"[+-]?\d+")
_SMALLEST, _LARGEST = -(1 << 63), (1 << 63) - 1
_MAX_COMPARISONS = 1000
"""The maximum number of comparisons: pyarrow is recursive, and some thousands would end the process."""
_LONG_LIST = 100
"""Longer lists of values are searched as sets."""
_SHOWN = 300
_MAX_DEPTH = 100
"""The maximum depth of parentheses and of ``not``, because the parser is recursive."""
_PART = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_COMPARISONS: Mapping[str, Callable[[pc.Expression, Any], pc.Expression]] = {
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _to_timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _to_local_timestamp(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is not None:
        raise ValueError
    return moment


def _to_decimal(text: str) -> Decimal:
    number = Decimal(text)
    if not number.is_finite():
        raise ValueError
    pa.scalar(number)
    return number


def _to_number(text: str) -> int | float | Decimal:
    if not _INTEGER.fullmatch(text):
        return float(text)
    number = int(text)
    if _SMALLEST <= number <= _LARGEST:
        return number
    return _to_decimal(text)


_TYPED: Mapping[str, Callable[[str], Any]] = {
    "date": date.fromisoformat,
    "timestamp": _to_timestamp,
    "timestamp_ntz": _to_local_timestamp,
    "decimal": _to_decimal,
    "number": _to_number,
}
"""The kind of a literal -> its value; ValueError, InvalidOperation or ArrowInvalid for a text that is no such value."""


def parse_filter(text: str, *, compares_columns: bool = False) -> pc.Expression:
    """The expression of a filter in text form.

    Args:
        text: See the module.
        compares_columns: Whether a column may also stand where a literal does, if its name has a dot
            (``s.fare > t.fare``), and whether a column alone is a condition (``s.is_cancelled``).

    Raises:
        HoodieConfigException: The text is not of this form; the message names the position.
    """
    return _Parser.of(text, compares_columns).parse()


@attrs.frozen
class _Token:
    """A piece of the text: its kind (``number``, ``text``, ``name``, ``sign``), its text, and its position."""

    kind: str
    text: str
    start: int


@attrs.define
class _Parser:
    """Reads tokens from left to right; ``or`` binds weaker than ``and``, ``and`` weaker than ``not``."""

    text: str
    tokens: list[_Token]
    compares_columns: bool = False
    position: int = 0
    depth: int = 0
    comparisons: int = 0

    @classmethod
    def of(cls, text: str, compares_columns: bool = False) -> _Parser:
        tokens = []
        start, end = 0, len(text.rstrip())
        while start < end:
            match = _TOKEN.match(text, start)
            if match is None:
                start += len(text[start:]) - len(text[start:].lstrip())
                raise _error(text, start, "this is no name, literal or comparison")
            kind = str(match.lastgroup)
            tokens.append(_Token(kind, match.group(kind), match.start(kind)))
            start = match.end()
        return cls(text, tokens, compares_columns)

    def parse(self) -> pc.Expression:
        found = self._any_of()
        if self.position < len(self.tokens):
            self._fail("expected and, or, or the end")
        return found

    def _any_of(self) -> pc.Expression:
        found = self._all_of()
        while self._take("or"):
            found = found | self._all_of()
        return found

    def _all_of(self) -> pc.Expression:
        found = self._negated()
        while self._take("and"):
            found = found & self._negated()
        return found

    def _negated(self) -> pc.Expression:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self._fail(f"more than {_MAX_DEPTH} parentheses and nots in each other")
        found = self._of_one_row()
        self.depth -= 1
        return found

    def _of_one_row(self) -> pc.Expression:
        if self._take("not"):
            return ~self._negated()
        if self._take("("):
            found = self._any_of()
            self._expect(")")
            return found
        return self._comparison()

    def _comparison(self) -> pc.Expression:
        column = self._column()
        self._count()
        if self.compares_columns and self._is_complete():
            return column
        if self._take("is"):
            negated = self._take("not")
            self._expect("null")
            return column.is_valid() if negated else column.is_null()
        negated = self._take("not")
        if self._take("in"):
            self._expect("(")
            values = [self._literal()]
            while self._take(","):
                values.append(self._literal())
            self._expect(")")
            # Null where the column is null, so that a further "not" gives null, too.
            found = self._equal_to_any(column, values)
            return ~found if negated else found
        if negated:
            self._fail("expected in")
        token = self._next("expected a comparison such as = or >, in, or is null")
        if token.kind != "sign" or token.text not in _COMPARISONS:
            self._fail("expected a comparison such as = or >, in, or is null", back=1)
        return _COMPARISONS[token.text](column, self._compared())

    def _is_complete(self) -> bool:
        """Whether a condition may end here."""
        return self.position == len(self.tokens) or self.tokens[self.position].text.lower() in ("and", "or", ")")

    def _compared(self) -> Any:
        is_column = self.compares_columns and self.position < len(self.tokens)
        if is_column and self.tokens[self.position].kind == "name" and "." in self.tokens[self.position].text:
            return self._column()
        return self._literal()

    def _equal_to_any(self, column: pc.Expression, values: list[Any]) -> pc.Expression:
        found = []
        for kind in dict.fromkeys(map(type, values)):
            compared = [value for value in values if type(value) is kind]
            if len(compared) > _LONG_LIST:
                found.append(column.isin(pa.array(compared)))
                # A search in a set never gives null, and does not find -0.0 by 0.
                compared = [compared[0], *(value for value in compared if value == 0)][:2]
            found += [column == value for value in compared]
        self._count(len(found))
        return reduce(operator.or_, found)

    def _count(self, comparisons: int = 1) -> None:
        self.comparisons += comparisons
        if self.comparisons > _MAX_COMPARISONS:
            self._fail(f"more than {_MAX_COMPARISONS} comparisons; write those of one column as one in (...)", back=1)

    def _column(self) -> pc.Expression:
        token = self._next("expected a column")
        if token.kind != "name":
            self._fail("expected a column", back=1)
        parts = [quoted.replace("``", "`") or plain for quoted, plain in _PART.findall(token.text)]
        return pc.field(*parts)

    def _literal(self) -> Any:
        token = self._next("expected a literal")
        word = token.text.lower()
        if token.kind == "text":
            return token.text.replace("''", "'")
        if token.kind == "number":
            return self._value("number", token.text)
        if token.kind == "name" and word in ("true", "false"):
            return word == "true"
        if token.kind == "name" and word in _TYPED and word != "number":
            value = self._next(f"expected a text in quotes after {word}")
            if value.kind != "text":
                self._fail(f"expected a text in quotes after {word}", back=1)
            return self._value(word, value.text)
        if word == "null":
            self._fail("a comparison with null is never true: write is null, or is not null", back=1)
        self._fail("expected a literal: a number, a text in single quotes, true, false, or date '2026-01-02'", back=1)

    def _value(self, kind: str, text: str) -> Any:
        try:
            return _TYPED[kind](text)
        except (ValueError, InvalidOperation, pa.ArrowInvalid):
            self._fail(f"this is no {kind}", back=1)

    def _next(self, expected: str) -> _Token:
        if self.position == len(self.tokens):
            self._fail(expected)
        self.position += 1
        return self.tokens[self.position - 1]

    def _take(self, word: str) -> bool:
        """Read a keyword or sign if it comes next, and tell whether it did."""
        if self.position == len(self.tokens):
            return False
        token = self.tokens[self.position]
        if token.kind not in ("name", "sign") or token.text.lower() != word:
            return False
        self.position += 1
        return True

    def _expect(self, word: str) -> None:
        if not self._take(word):
            self._fail(f"expected {word}")

    def _fail(self, problem: str, back: int = 0) -> NoReturn:
        position = self.position - back
        start = self.tokens[position].start if position < len(self.tokens) else len(self.text.rstrip())
        raise _error(self.text, start, problem)


def _error(text: str, start: int, problem: str) -> HoodieConfigException:
    place = f"at {text[start : start + 20]!r}" if start < len(text.rstrip()) else "at the end"
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
    return HoodieConfigException(
        f"the filter {shown!r} is not understood {place}: {problem}. Write comparisons as in SQL, such as "
        "fare > 50 and rider = 'ann' and day >= date '2026-01-02'"
    )
