"""The lines of a file of text, in blocks of some megabytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Final, Protocol

import attrs
import numpy as np
import numpy.typing as npt

from hoodie.exception import HoodieReadFromSourceException

BLOCK_BYTES: Final = 4 << 20
"""About 20,000 lines of 200 bytes."""
MOST_ROW_BYTES: Final = 256 << 20
"""A longer line is refused, so that memory stays bounded."""
_UTF8 = frozenset({"utf-8", "utf8", "ascii", "us-ascii"})
_BOM = codecs.BOM_UTF8
_NEWLINE, _RETURN = 10, 13


@attrs.frozen(eq=False)
class LineBlock:
    """Lines that follow each other.

    Attributes:
        lines: The lines, without their ends.
        numbers: int64: the number of each line, from 1 on; of a row of several lines, that of its first one.
    """

    lines: list[bytes]
    numbers: npt.NDArray[np.int64]


class ReadableFile(Protocol):
    """Bytes that are read from the beginning on."""

    def read(self, size: int) -> bytes:
        """The next bytes; none at the end.

        Args:
            size: The most bytes.
        """


def line_blocks(
    content: ReadableFile,
    path: str,
    encoding: str = "utf-8",
    quote: bytes | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[LineBlock]:
    r"""The lines of a file; a line ends with ``\n``, ``\r\n``, or the end of the file.

    Args:
        content: The file, from its beginning on.
        path: Its path, for messages.
        encoding: Its encoding; lines come in UTF-8.
        quote: A character between two of which a line does not end; None for none. A quote in a quoted text is doubled.
        block_bytes: The size of a block, apart from longer lines.

    Raises:
        HoodieReadFromSourceException: A line is too long, or the file is not of this encoding.
    """
    held: list[bytes] = []
    size, wanted, first = 0, 0, 1
    for piece in _pieces(content, path, encoding, block_bytes):
        held.append(piece)
        size += len(piece)
        # Bytes without an end are looked at again only when there are twice as many.
        if size < wanted or (quote is None and b"\n" not in piece):
            _check_length(size, path, first, quote)
            continue
        found = b"".join(held)
        end = _last_end(found, quote)
        if end < 0:
            _check_length(size, path, first, quote)
            held, wanted = [found], 2 * size
            continue
        yield _block(found[: end + 1], first, quote)
        first += found.count(b"\n", 0, end + 1)
        held, size, wanted = [found[end + 1 :]], len(found) - end - 1, 0
    if size:
        rest = b"".join(held)
        yield _block(rest if rest.endswith(b"\n") else rest + b"\n", first, quote)


def is_utf8(encoding: str) -> bool:
    """Whether texts of an encoding are UTF-8.

    Args:
        encoding: The name of the encoding.
    """
    return encoding.lower() in _UTF8


def _check_length(size: int, path: str, line: int, quote: bytes | None) -> None:
    if size > MOST_ROW_BYTES:
        raise HoodieReadFromSourceException(
            f"{path}, line {line}: the line has more than {MOST_ROW_BYTES >> 20} MB. Is it a file of lines"
            f"{', with every quote closed' if quote else ''}?"
        )


def _pieces(content: ReadableFile, path: str, encoding: str, size: int) -> Iterator[bytes]:
    decoder = None if is_utf8(encoding) else codecs.getincrementaldecoder(encoding)()
    is_first = True
    while True:
        piece: bytes = content.read(size)
        if decoder is not None:
            try:
                text = decoder.decode(piece, not piece)
            except UnicodeError as error:
                raise HoodieReadFromSourceException(f"{path} is not a text in {encoding}: {error}") from error
            found = text.removeprefix("\ufeff") if is_first else text
            yield found.encode("utf-8")
        else:
            yield piece.removeprefix(_BOM) if is_first else piece
        is_first = False
        if not piece:
            return


def _last_end(found: bytes, quote: bytes | None) -> int:
    """The place of the last line's end; -1 if there is none."""
    if quote is None:
        return found.rfind(b"\n")
    ends = _ends_outside_quotes(found, quote)
    return int(ends[-1]) if len(ends) else -1


def _ends_outside_quotes(block: bytes, quote: bytes) -> npt.NDArray[np.int64]:
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content == _NEWLINE)
    quotes = np.flatnonzero(content == quote[0])
    outside: npt.NDArray[np.int64] = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return outside


def _block(block: bytes, first: int, quote: bytes | None) -> LineBlock:
    """The lines of a block that ends with a line's end."""
    if quote is None or quote not in block:
        lines = block.split(b"\n")
        lines.pop()
        numbers = np.arange(first, first + len(lines), dtype=np.int64)
    else:
        ends = _ends_outside_quotes(block, quote)
        if not len(ends) or ends[-1] != len(block) - 1:  # the end of the file is in a quoted text
            ends = np.append(ends, len(block) - 1)
        starts = np.concatenate([[0], ends[:-1] + 1])
        lines = [block[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        breaks = np.flatnonzero(np.frombuffer(block, np.uint8) == _NEWLINE)
        numbers = first + np.searchsorted(breaks, starts).astype(np.int64)
    if b"\r" in block:
        lines = [line[:-1] if line and line[-1] == _RETURN else line for line in lines]
    return LineBlock(lines, numbers)
