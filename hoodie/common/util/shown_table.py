"""Tables for people: aligned text, and HTML for notebooks. The last line of a cut table counts the missing rows."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape

import attrs

MAX_ROWS = 20
"""The number of rows that are shown of a longer table."""
MAX_CELL_WIDTH = 48
"""The maximum width of a cell, in columns of a terminal."""

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


Cell = str | int | float | None


@attrs.frozen
class ShownTable:
    """A table to print.

    Attributes:
        header: Names of the columns.
        rows: Text; numbers, which are shown with separators and stand on the right, fractions with two digits; or None,
            shown as a hyphen. The rows that matter most come first.
        count: The number of all rows; ``rows`` may hold only the shown ones.
        title: Lines above the table.
        rest: Text for the line below a cut table, such as the sums of the rows that are not shown.
        notes: Lines below the table.
        max_rows: The number of rows to show.
        max_cell_width: The maximum width of a cell, in columns of a terminal.
    """

    header: tuple[str, ...]
    rows: Sequence[Sequence[Cell]]
    count: int
    title: tuple[str, ...] = ()
    rest: str = ""
    notes: tuple[str, ...] = ()
    max_rows: int = MAX_ROWS
    max_cell_width: int = MAX_CELL_WIDTH

    def to_text(self) -> str:
        """The table for a terminal."""
        lines = [*map(visible, self.title)]
        grid = [list(self.header), *([self._cell(value) for value in row] for row in self._shown)]
        if self.rows or not self.title:
            widths = [max(map(text_width, column)) for column in zip(*grid, strict=True)]
            grid.insert(1, ["-" * width for width in widths])
            if self.title:
                lines.append("")
            for row in grid:
                cells = (_pad(*cell) for cell in zip(row, widths, self._numeric, strict=True))
                lines.append("  ".join(cells).rstrip())
            if self._cut:
                lines.append(visible(self._cut))
        if self.notes:
            lines += ["", *map(visible, self.notes)]
        return "\n".join(lines)

    def to_html(self, *, inline_style: bool = True) -> str:
        """The table for a notebook; all text is escaped.

        Args:
            inline_style: Whether numbers stand on the right by a style of their own; otherwise their cells have the
                class ``number``, for a page whose content policy forbids inline styles.
        """
        right = ' style="text-align:right"' if inline_style else ' class="number"'
        parts = [f"<div>{escape(visible(line))}</div>" for line in self.title]
        if self.rows or not self.title:
            head = "".join(f"<th>{escape(name)}</th>" for name in self.header)
            parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
            for row in self._shown:
                parts.append(
                    "<tr>"
                    + "".join(
                        self._html_cell(value, right if numeric else "")
                        for value, numeric in zip(row, self._numeric, strict=True)
                    )
                    + "</tr>"
                )
            parts.append("</tbody></table>")
            if self._cut:
                parts.append(f"<div>{escape(visible(self._cut))}</div>")
        parts += [f"<div>{escape(visible(line))}</div>" for line in self.notes]
        return "".join(parts)

    @property
    def _shown(self) -> Sequence[Sequence[Cell]]:
        return self.rows[: self.max_rows]

    @property
    def _numeric(self) -> list[bool]:
        return [any(isinstance(row[number], int | float) for row in self._shown) for number in range(len(self.header))]

    @property
    def _cut(self) -> str:
        more = self.count - len(self._shown)
        return f"... and {more:,} more rows" + (f": {self.rest}" if self.rest else "") if more > 0 else ""

    def _cell(self, value: Cell) -> str:
        if value is None:
            return "-"
        if isinstance(value, str):
            return shortened(visible(value), self.max_cell_width)
        return f"{value:,}" if isinstance(value, int) else f"{value:,.2f}"

    def _html_cell(self, value: Cell, style: str) -> str:
        shown = self._cell(value)
        title = f' title="{escape(visible(value))}"' if isinstance(value, str) and shown != visible(value) else ""
        return f"<td{style}{title}>{escape(shown)}</td>"


def format_bytes(count: int) -> str:
    """A size as people read it: ``12.3 MiB``.

    Args:
        count: Bytes.
    """
    value = float(count)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{count:,} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:,.1f} {_UNITS[-1]}"


def plural(count: int, noun: str) -> str:
    """A count with its noun: ``1 file``, ``2,000 files``.

    Args:
        count: The number.
        noun: The noun for one; its plural is formed with an ``s``.
    """
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def visible(text: str) -> str:
    """The text with escapes for characters that would move the cursor or change the direction of writing."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, width: int) -> str:
    """The text, without its middle if it is too wide.

    Args:
        text: Text of visible characters.
        width: The most columns of a terminal.
    """
    if text_width(text) <= width:
        return text
    half = (width - 1) // 2
    start, end = 0, len(text)
    taken = 0
    while taken + text_width(text[start]) <= half:
        taken += text_width(text[start])
        start += 1
    taken = 0
    while taken + text_width(text[end - 1]) <= half:
        end -= 1
        taken += text_width(text[end])
    return f"{text[:start]}…{text[end:]}"


def text_width(text: str) -> int:
    """The width of the text, in columns of a terminal."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space
