"""Joda-Time's patterns of dates, such as ``yyyy-MM-dd'T'HH:mm:ssZ``, to write times and to read texts.

Hudi's timestamp key generators name folders by such patterns, so the letters have the same meaning here:

==========  ==============================  ===========================
letter      meaning                         example
==========  ==============================  ===========================
y, Y        year, year of the era           2026; yy: 26
M           month                           7; MM: 07; MMM: Jul; MMMM: July
d, D        day of the month, of the year   5; dd: 05; DDD: 186
x, w, e     year, week, day of ISO weeks    2026, 27, 7
E           name of the day                 E to EEE: Sun; EEEE: Sunday
H, k        hour from 0, from 1             0 to 23, 1 to 24
K, h, a     hour of the half day, and half  0 to 11, 1 to 12, AM
m, s, S     minute, second, fraction        SSS: milliseconds
Z           offset of the zone              +0100; ZZ: +01:00
C, G        century, era (written only)     20, AD
==========  ==============================  ===========================

Names are English, as in a JVM of an English locale. Names of zones (``z``, ``ZZZ``) are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import datetime

import attrs

from hoodie.common.util.gregorian_calendar import civil_from_days, days_from_civil, days_in_month, iso_week, weekday

_DAY_MS = 86_400_000
_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_LETTERS = frozenset("GCxweyYMdDEHkKhamsSzZ")
_REFUSED = {"z": "the name of the time zone"}
_WRITTEN_ONLY = {"G": "the era", "C": "the century"}
_NUMERIC = frozenset("CxweyYdDHkKhmsS")
_MAXIMUM_DIGITS = {"M": 2, "d": 2, "D": 3, "w": 2, "e": 1, "H": 2, "k": 2, "K": 2, "h": 2, "m": 2, "s": 2}
_STEP_MS = {"m": 60_000, "s": 1000, "S": 1, "H": 3_600_000, "k": 3_600_000, "K": 3_600_000, "h": 3_600_000,
            "a": 12 * 3_600_000}  # fmt: skip
_RANGES = {"M": (1, 12), "d": (1, 31), "D": (1, 366), "w": (1, 53), "e": (1, 7), "H": (0, 23), "k": (1, 24),
           "K": (0, 11), "h": (1, 12), "m": (0, 59), "s": (0, 59)}  # fmt: skip
_UNITS = ("y", "M", "d", "H", "m", "s", "S")
"""The units, from the longest to the shortest."""
_FIXED_DIGITS = {"y": 4, "Y": 4, "M": 2, "d": 2, "H": 2, "m": 2, "s": 2, "S": 3}
_OFFSET = re.compile(r"([+-])(\d\d)(?::(\d\d)(?::(\d\d))?|(\d\d)(\d\d)?)?", re.ASCII)
_YEAR_WITHOUT_ONE = 2000


@attrs.frozen
class _Token:
    """A run of one letter, or literal text.

    Attributes:
        letter: The letter; "" for text.
        text: The run, or the text without its quotes.
    """

    letter: str
    text: str

    @property
    def count(self) -> int:
        return len(self.text)

    @property
    def is_numeric(self) -> bool:
        return self.letter in _NUMERIC or (self.letter == "M" and self.count <= 2)


@attrs.frozen
class ParsedTime:
    """The time in a text.

    Attributes:
        local_ms: The time that clocks show, as if it were UTC, in milliseconds since 1970.
        offset_ms: The offset in the text; None if it has none.
    """

    local_ms: int
    offset_ms: int | None


@attrs.frozen
class DatePattern:
    """A parsed pattern.

    Attributes:
        text: The pattern itself.
        tokens: The parts of the pattern.
    """

    text: str
    tokens: tuple[_Token, ...]

    @classmethod
    def of(cls, text: str) -> DatePattern:
        """Parse a pattern.

        Raises:
            ValueError: It has a letter that Joda does not know, or one that is not supported here.
        """
        tokens = tuple(_tokens(text))
        if not tokens:
            raise ValueError("the pattern of dates is empty")
        for token in tokens:
            if token.letter and token.letter not in _LETTERS:
                raise ValueError(
                    f"the letter '{token.letter}' in the pattern {text!r} has no meaning; text stands in quotes: 'T'"
                )
            if token.letter in _REFUSED or (token.letter == "Z" and token.count > 2):
                raise ValueError(
                    f"'{token.text}' in the pattern {text!r}, {_REFUSED.get(token.letter, 'the id of the time zone')}, "
                    "is not supported: use Z (+0100) or ZZ (+01:00), or leave it out"
                )
        return cls(text, tokens)

    @property
    def is_readable(self) -> bool:
        """Whether the pattern can read texts."""
        return not any(token.letter in _WRITTEN_ONLY for token in self.tokens)

    @property
    def has_short_year(self) -> bool:
        """Whether the year has two digits, whose century depends on the day on which a text is read."""
        return any(token.letter in tuple("yYx") and token.count == 2 for token in self.tokens)

    def check_readable(self) -> None:
        """Refuse a pattern that cannot read texts.

        Raises:
            ValueError: The pattern has a letter that can only be written; the message names it.
        """
        for token in self.tokens:
            if token.letter in _WRITTEN_ONLY:
                raise ValueError(
                    f"'{token.text}' in the pattern {self.text!r}, {_WRITTEN_ONLY[token.letter]}, is not supported in "
                    "input formats"
                )

    @property
    def step_ms(self) -> int:
        """All times of one step have the same text; steps begin at multiples of this number on the clock."""
        return min((_STEP_MS.get(token.letter, _DAY_MS) for token in self.tokens), default=_DAY_MS)

    @property
    def folder_count(self) -> int:
        """The number of folders in the path that a text of the pattern names."""
        return 1 + sum(token.text.count("/") for token in self.tokens if not token.letter)

    @property
    def writes_offset(self) -> bool:
        """Whether the zone's offset is written."""
        return any(token.letter == "Z" for token in self.tokens)

    def write(self, local_ms: int, offset_ms: int = 0) -> str:
        """A time as text.

        Args:
            local_ms: The time that clocks show, as if it were UTC, in milliseconds since 1970.
            offset_ms: The offset of the zone from UTC at that time.
        """
        days, ms = divmod(local_ms, _DAY_MS)
        date = civil_from_days(days)
        return "".join(
            token.text if not token.letter else _written(token, days, date, ms, offset_ms) for token in self.tokens
        )

    def times_of(self, text: str) -> tuple[int | None, int] | None:
        """The times with this text: the first one, and the one after the last; None if the text does not decide them.

        It does if the pattern has the year in four digits and all units down to its smallest one, each in a fixed
        number of digits or as the month's name, in any order. Times are local times taken as UTC, in milliseconds since
        1970.

        Args:
            text: A text that `write` made, or any other.

        Returns:
            The first time is None for the year of an era (``Y``), because years before Christ are written as later
            ones.
        """
        letters = ["y" if token.letter == "Y" else token.letter for token in self.tokens if token.letter]
        names_month = any(token.letter == "M" and token.count >= 3 for token in self.tokens)
        is_fixed = all(
            token.count == _FIXED_DIGITS.get(token.letter) or (names_month and token.letter == "M")
            for token in self.tokens
            if token.letter
        )
        if not letters or not is_fixed or sorted(letters) != sorted(_UNITS[: len(letters)]):
            return None
        match = re.fullmatch("".join(map(_expression_of, self.tokens)), text, re.ASCII)
        if match is None:
            return None
        found = [match[letter] for letter in _UNITS[: len(letters)]]
        if names_month and len(found) > 1:
            found[1] = str([name[: len(found[1])] for name in _MONTHS].index(found[1]) + 1)
        numbers = [int(part) for part in found]
        units = [*numbers, *(1, 1, 0, 0, 0, 0)[len(numbers) - 1 :]]
        smallest = len(numbers) - 1
        after = [unit + (place == smallest) for place, unit in enumerate(units)]
        first = _local_ms(units)
        # A 30 February or an hour 24 is never written.
        if not 1 <= units[1] <= 12 or self.write(first) != text:
            return None
        return (None if any(token.letter == "Y" for token in self.tokens) else first), _local_ms(after)

    def read(self, text: str) -> ParsedTime | None:
        """The time in a text; None if the text has another form, or is longer than the pattern.

        Raises:
            ValueError: The text has this form, but there is no such time (month 13, 30 February).
        """
        position = 0
        found: dict[str, int] = {}
        for number, token in enumerate(self.tokens):
            following = self.tokens[number + 1] if number + 1 < len(self.tokens) else None
            end = _read_token(token, following, text, position, found)
            if end is None:
                return None
            position = end
        if position < len(text):
            return None
        return _time_of(found)


def _tokens(pattern: str) -> Sequence[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(pattern):
        letter = pattern[position]
        if letter.isascii() and letter.isalpha():
            end = position
            while end < len(pattern) and pattern[end] == letter:
                end += 1
            tokens.append(_Token(letter, pattern[position:end]))
        else:
            literal, end = _literal(pattern, position)
            tokens.append(_Token("", literal))
        position = end
    return tokens


def _literal(pattern: str, position: int) -> tuple[str, int]:
    """Text up to the next letter outside of quotes; two quotes are one."""
    text, quoted = "", False
    while position < len(pattern):
        character = pattern[position]
        if character == "'":
            if pattern[position + 1 : position + 2] == "'":
                text += "'"
                position += 1
            else:
                quoted = not quoted
        elif not quoted and character.isascii() and character.isalpha():
            break
        else:
            text += character
        position += 1
    return text, position


def _expression_of(token: _Token) -> str:
    """A regular expression for the texts of a token of fixed length."""
    if not token.letter:
        return re.escape(token.text)
    if token.letter == "M" and token.count >= 3:
        return f"(?P<M>{'|'.join(name if token.count > 3 else name[:3] for name in _MONTHS)})"
    return f"(?P<{'y' if token.letter == 'Y' else token.letter}>[0-9]{{{token.count}}})"


def _local_ms(units: Sequence[int]) -> int:
    """Milliseconds since 1970 of a year, month, day, hour, minute, second and millisecond; each may be one too many."""
    year, month, day, hour, minute, second, ms = units
    return days_from_civil(year, month, 1) * _DAY_MS + (
        (((day - 1) * 24 + hour) * 60 + minute) * 60 + second
    ) * 1000 + ms  # fmt: skip


# --- writing ----------------------------------------------------------------------------------------------------------


def _written(token: _Token, days: int, date: tuple[int, int, int], ms: int, offset_ms: int) -> str:
    year, month, day = date
    letter, count = token.letter, token.count
    if letter in "yYx":
        if letter == "x":
            year = iso_week(days)[0]
        elif letter == "Y" and year <= 0:
            year = 1 - year
        return f"{abs(year) % 100:02d}" if count == 2 else _padded(year, count)
    if letter == "M" and count >= 3:
        return _MONTHS[month - 1] if count > 3 else _MONTHS[month - 1][:3]
    if letter == "E":
        return _DAYS[weekday(days) - 1] if count > 3 else _DAYS[weekday(days) - 1][:3]
    if letter == "S":
        return f"{ms % 1000 * 10**count // 1000:0{count}d}"
    if letter == "Z":
        return _written_offset(offset_ms, ":" if count > 1 else "")
    hour = ms // 3_600_000
    if letter == "a":
        return "PM" if hour >= 12 else "AM"
    if letter == "G":
        return "AD" if year > 0 else "BC"
    numbers: dict[str, Callable[[], int]] = {
        "C": lambda: (year if year > 0 else 1 - year) // 100,
        "M": lambda: month,
        "d": lambda: day,
        "D": lambda: days - days_from_civil(year, 1, 1) + 1,
        "w": lambda: iso_week(days)[1],
        "e": lambda: weekday(days),
        "H": lambda: hour,
        "k": lambda: hour or 24,
        "K": lambda: hour % 12,
        "h": lambda: hour % 12 or 12,
        "m": lambda: ms // 60_000 % 60,
        "s": lambda: ms // 1000 % 60,
    }
    return _padded(numbers[letter](), count)


def _padded(number: int, count: int) -> str:
    return f"-{-number:0{count}d}" if number < 0 else f"{number:0{count}d}"


def _written_offset(offset_ms: int, separator: str) -> str:
    minutes = abs(offset_ms) // 60_000
    return f"{'-' if offset_ms < 0 else '+'}{minutes // 60:02d}{separator}{minutes % 60:02d}"


# --- reading ----------------------------------------------------------------------------------------------------------


def _read_token(token: _Token, following: _Token | None, text: str, position: int, found: dict[str, int]) -> int | None:
    """Read one part of a text; the position after it, or None if it is not there."""
    letter, count = token.letter, token.count
    if not letter:
        end = position + count
        return end if text[position:end].lower() == token.text.lower() else None
    if letter in "yYx":
        return _read_year(token, following is not None and following.is_numeric, text, position, found)
    if letter == "M" and count >= 3:
        return _read_name(_MONTHS, text, position, letter, found)
    if letter == "E":
        return _read_name(_DAYS, text, position, "e", found)
    if letter == "a":
        return _read_name(("AM", "PM"), text, position, letter, found)
    if letter == "Z":
        return _read_offset(text, position, found)
    end = _end_of_digits(text, position, count if letter == "S" else _MAXIMUM_DIGITS[letter])
    if end == position:
        return None
    digits = text[position:end]
    found[letter] = int(digits[:3].ljust(3, "0")) if letter == "S" else int(digits)
    return end


def _read_year(token: _Token, next_is_number: bool, text: str, position: int, found: dict[str, int]) -> int | None:
    letter = token.letter
    signed = text[position : position + 1] in ("+", "-") and (letter != "Y" or token.count == 2)
    if token.count == 2:
        if next_is_number:
            signed, end = False, _end_of_digits(text, position, 2)
            if end - position < 2:
                return None
        else:
            end = _end_of_digits(text, position + signed, len(text))
        digits = text[position + signed : end]
        if not digits:
            return None
        if not signed and len(digits) == 2:
            found[letter] = _year_of_two_digits(int(digits))
            return end
    else:
        end = _end_of_digits(text, position + signed, token.count if next_is_number else 9)
        digits = text[position + signed : end]
        if not digits:
            return None
    found[letter] = -int(digits) if text[position] == "-" else int(digits)
    return end


def _year_of_two_digits(digits: int) -> int:
    """The year within the century that ends 19 years from now, as in Joda."""
    first = datetime.now().year - 80
    return first + (digits - first) % 100


def _end_of_digits(text: str, position: int, maximum: int) -> int:
    end = position
    while end < len(text) and end - position < maximum and "0" <= text[end] <= "9":
        end += 1
    return end


def _read_name(names: Sequence[str], text: str, position: int, key: str, found: dict[str, int]) -> int | None:
    """Read a name, long or of three letters, in its own, small or capital letters; the longest match counts."""
    for long in (True, False):
        for number, name in enumerate(names):
            wanted = name if long else name[:3]
            given = text[position : position + len(wanted)]
            if given in (wanted, wanted.lower(), wanted.upper()):
                found[key] = number + (0 if key == "a" else 1)
                return position + len(wanted)
    return None


def _read_offset(text: str, position: int, found: dict[str, int]) -> int | None:
    if text[position : position + 1] in ("Z", "z"):
        found["Z"] = 0
        return position + 1
    match = _OFFSET.match(text, position)
    if match is None:
        return None
    hours, minutes, seconds = int(match[2]), int(match[3] or match[5] or 0), int(match[4] or match[6] or 0)
    if hours > 23 or minutes > 59 or seconds > 59:
        return None
    found["Z"] = (-1 if match[1] == "-" else 1) * ((hours * 60 + minutes) * 60 + seconds) * 1000
    return match.end()


def _time_of(found: dict[str, int]) -> ParsedTime:
    for letter, (low, high) in _RANGES.items():
        if letter in found and not low <= found[letter] <= high:
            raise ValueError(f"there is no {found[letter]} between {low} and {high}")
    if "H" in found:
        hour = found["H"]
    elif "k" in found:
        hour = found["k"] % 24
    else:
        hour = found.get("h", found.get("K", 0)) % 12 + 12 * found.get("a", 0)
    ms = ((hour * 60 + found.get("m", 0)) * 60 + found.get("s", 0)) * 1000 + found.get("S", 0)
    return ParsedTime(_days_of(found) * _DAY_MS + ms, found.get("Z"))


def _days_of(found: dict[str, int]) -> int:
    """The day of the parts of a date; the year is 2000 if there is a month or day but no year."""
    if "x" in found or "w" in found:
        year = found.get("x", 1970)
        first = days_from_civil(year, 1, 4)
        monday = first - weekday(first) + 1
        days = monday + 7 * (found.get("w", 1) - 1)
        if iso_week(days)[0] != year:
            raise ValueError(f"the year {year} has no week {found['w']}")
        # Without a day of the week, the day is that of 1970-01-01, a Thursday.
        return days + found.get("e", 4) - 1
    if "y" not in found and "Y" not in found:
        year = _YEAR_WITHOUT_ONE if found.keys() & {"M", "d", "D", "e"} else 1970
    else:
        year = found.get("y", found.get("Y", 0))
    if "D" in found:
        days = days_from_civil(year, 1, 1) + found["D"] - 1
        if civil_from_days(days)[0] != year:
            raise ValueError(f"the year {year} has no day {found['D']}")
        return days
    month, day = found.get("M", 1), found.get("d", 1)
    if day > days_in_month(year, month):
        raise ValueError(f"{year}-{month:02d} has no day {day}")
    days = days_from_civil(year, month, day)
    # The day of the week moves the date within its week.
    return days - weekday(days) + found["e"] if "e" in found else days
