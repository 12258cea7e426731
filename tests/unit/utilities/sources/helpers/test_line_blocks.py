from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hoodie.exception import HoodieReadFromSourceException
from hoodie.utilities.sources.helpers import line_blocks as module
from hoodie.utilities.sources.helpers.line_blocks import line_blocks


def read(content: bytes, block_bytes: int = 7, quote: bytes | None = None, encoding: str = "utf-8") -> list[object]:
    """Number and text of each line."""
    blocks = line_blocks(pa.BufferReader(content), "f", encoding, quote, block_bytes)
    return [pair for one in blocks for pair in zip(one.numbers.tolist(), one.lines, strict=True)]


@given(st.lists(st.text("ab\r ", max_size=20)), st.integers(1, 40), st.booleans())
def test_lines_are_those_of_the_file(lines: list[str], block_bytes: int, ends: bool) -> None:
    content = "\n".join(lines) + ("\n" if ends else "")
    expected = content.split("\n")
    expected = expected[:-1] if expected[-1] == "" else expected
    wanted = [(number, line.encode().removesuffix(b"\r")) for number, line in enumerate(expected, 1)]
    assert read(content.encode(), block_bytes) == wanted


@given(st.lists(st.text('a"\n', max_size=12), max_size=6), st.integers(1, 40))
def test_a_line_does_not_end_between_quotes(texts: list[str], block_bytes: int) -> None:
    rows = ['"' + text.replace('"', '""') + '"' for text in texts]
    numbers = [1 + sum(row.count("\n") + 1 for row in rows[:place]) for place in range(len(rows))]
    expected = list(zip(numbers, [row.encode() for row in rows], strict=True))
    assert read("\n".join(rows).encode(), block_bytes, b'"') == expected
    assert read("".join(f"{row}\r\n" for row in rows).encode(), block_bytes, b'"') == expected


def test_an_open_quote_takes_the_rest_of_the_file() -> None:
    assert read(b'a\n"b\nc\n', 3, b'"') == [(1, b"a"), (2, b'"b\nc')]


def test_other_encodings_become_utf_8() -> None:
    assert read("ä\nß\n".encode("utf-16"), 3, encoding="utf-16") == [(1, "ä".encode()), (2, "ß".encode())]
    assert read("ä\n".encode("latin-1"), encoding="ISO-8859-1") == [(1, "ä".encode())]
    assert read(b"\xef\xbb\xbfa\n\xef\xbb\xbfb") == [(1, b"a"), (2, b"\xef\xbb\xbfb")]
    with pytest.raises(HoodieReadFromSourceException, match="f is not a text in utf-16"):
        read(b"abc", encoding="utf-16")


def test_a_line_without_an_end_is_refused_before_memory_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_ROW_BYTES", 1000)
    assert len(read(b"x" * 1000)) == 1
    for quote in (None, b'"'):
        with pytest.raises(HoodieReadFromSourceException, match="f, line 2: the line has more than"):
            read(b"a\n" + b"x" * 3000, quote=quote)
