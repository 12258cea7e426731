r"""Read and write files of java.util.Properties as Java does.

The text is Latin-1 with one ``key=value`` per line; ``:`` or blanks are separators too. A backslash escapes other
characters and those with a meaning: ``\uXXXX`` (UTF-16), ``\t``, ``\:``. A backslash at the end of a line continues the
line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

_BLANKS = " \t\f"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|[^u]|u|$)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_ESCAPED_LETTERS = {character: f"\\{letter}" for letter, character in _LETTERS.items()}


def parse_properties(data: bytes) -> dict[str, str]:
    r"""Parse a properties file.

    Args:
        data: The file's content.

    Returns:
        The properties in the order of the file; of a repeated key the last value counts.

    Raises:
        ValueError: A ``\u`` escape lacks its four digits, or is half of a surrogate pair.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(_BLANKS)
        properties[_unescape(line[:end])] = _unescape(rest)
    return properties


def format_properties(properties: Mapping[str, str], comments: Sequence[str] = ()) -> bytes:
    """Format a properties file.

    Args:
        properties: The properties, written in this order.
        comments: Lines for the top of the file, without line breaks and ``#``.

    Returns:
        The file's content.
    """
    lines = [f"#{comment}" for comment in comments]
    lines += [f"{_escape(key, is_key=True)}={_escape(value, is_key=False)}" for key, value in properties.items()]
    return "".join(f"{line}\n" for line in lines).encode("latin-1", "replace")


def _logical_lines(text: str) -> Iterator[str]:
    """The lines without comments, blank lines and leading blanks; continued lines are joined."""
    pending: str | None = None
    for natural_line in re.split(r"\r\n|\n|\r", text):
        line = natural_line.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        joined = (pending or "") + line
        if (len(line) - len(line.rstrip("\\"))) % 2:
            pending = joined[:-1]
        else:
            pending = None
            yield joined
    if pending:
        yield pending


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    unescaped = _ESCAPE.sub(_unescape_one, text)
    # A character beyond 16 bits is escaped as two surrogates.
    return unescaped.encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _unescape_one(match: re.Match[str]) -> str:
    escaped = match.group(1)
    if escaped == "u":
        raise ValueError(f"the escape {match.string[match.start() : match.end() + 4]!r} lacks four hexadecimal digits")
    if len(escaped) == 5:
        return chr(int(escaped[1:], 16))
    return _LETTERS.get(escaped, escaped)


def _escape(text: str, is_key: bool) -> str:
    escaped = []
    for position, character in enumerate(text):
        if character == " ":
            escaped.append("\\ " if is_key or position == 0 else " ")
        elif character in "\\=:#!":
            escaped.append(f"\\{character}")
        elif character in _ESCAPED_LETTERS:
            escaped.append(_ESCAPED_LETTERS[character])
        elif " " < character <= "~":
            escaped.append(character)
        else:
            code_units = character.encode("utf-16-be", "surrogatepass")
            escaped += [f"\\u{code_units[i : i + 2].hex().upper()}" for i in range(0, len(code_units), 2)]
    return "".join(escaped)
