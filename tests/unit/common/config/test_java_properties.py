from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.common.config.java_properties import format_properties, parse_properties

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("k=v", "k", "v"),
        ("  k = v ", "k", "v "),
        ("k:v", "k", "v"),
        ("k v", "k", "v"),
        ("k\t=\tv", "k", "v"),
        ("k", "k", ""),
        ("k=", "k", ""),
        ("k==v", "k", "=v"),
        ("k=a:b=c", "k", "a:b=c"),
        (r"k=a\:b\=c\#d\!e", "k", "a:b=c#d!e"),
        (r"a\:b\=c\ d=v", "a:b=c d", "v"),
        (r"k=\  v", "k", "  v"),
        (r"k=\t\n\r\f\\", "k", "\t\n\r\f\\"),
        (r"k=\q\"", "k", 'q"'),
        (r"k=caf\u00e9\u4E2D", "k", "caf\u00e9\u4e2d"),
        (r"k=\uD83D\uDE00", "k", "\U0001f600"),
        ("k=a\\\n   b", "k", "ab"),
        ("k=a\\\r\n#b", "k", "a#b"),
        ("k=a\\\\\nx=1", "k", "a\\"),
        ("#k=1\n!k=2\nk=v", "k", "v"),
        ("  # k=1\\\nk=v", "k", "v"),
        ("k=v\\", "k", "v"),
        ("k=1\nk=v", "k", "v"),
        ("\n\r\n \t\nk=v", "k", "v"),
    ],
)
def test_lines_are_read_as_java_reads_them(line: str, key: str, value: str) -> None:
    assert parse_properties(line.encode("latin-1"))[key] == value


def test_bytes_are_latin_1() -> None:
    assert parse_properties(b"k=caf\xe9") == {"k": "caf\u00e9"}


@pytest.mark.parametrize("line", [rb"k=\u12", rb"k=\uZZZZ", rb"k=\u", rb"k=\uD83D"])
def test_a_broken_escape_is_an_error(line: bytes) -> None:
    with pytest.raises(ValueError):
        parse_properties(line)


def test_a_file_is_written_as_java_writes_it() -> None:
    properties = {"a b": " x y", "schema": '{"type":"r"}', "odd": "#!=\\\t\n", "wide": "\u00e9\U0001f600"}
    assert format_properties(properties, ["Updated at now"]).decode("ascii").splitlines() == [
        "#Updated at now",
        r"a\ b=\ x y",
        r'schema={"type"\:"r"}',
        r"odd=\#\!\=\\\t\n",
        r"wide=\u00E9\uD83D\uDE00",
    ]


@given(st.dictionaries(TEXT.filter(bool), TEXT))
def test_what_is_written_is_read_again(properties: dict[str, str]) -> None:
    assert parse_properties(format_properties(properties, ["a comment"])) == properties
