"""A drawn picture of a table, and the file that it is saved into."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import attrs

from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.whole_file import whole_file
from hoodie.picture.charts import Chart, figure
from hoodie.picture.svg import Markup


@attrs.frozen(repr=False)
class Picture:
    """A drawn picture; a notebook shows it.

    Attributes:
        name: Its name, such as ``timeline``.
        title: Its title.
        summary: One sentence that says what it shows, and what was cut.
        numbers: The numbers that it draws.
        charts: Its panels.
        legend: Class and meaning of its colours.
    """

    name: str
    title: str
    summary: str
    numbers: SummaryTable[Any]
    charts: Sequence[Chart]
    legend: tuple[tuple[str, str], ...] = ()

    @property
    def svg(self) -> Markup:
        """The picture as an SVG document that needs nothing else."""
        return self.drawn(is_part=False)

    def drawn(self, *, is_part: bool) -> Markup:
        """The picture as SVG.

        Args:
            is_part: Whether it is part of a page, which has the style of all pictures, title and summary.
        """
        return figure(self.name, self.title, self.summary, self.charts, self.legend, is_part=is_part)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the SVG into a file, which is replaced as a whole.

        Args:
            path: The file.

        Raises:
            OSError: It cannot be written.
        """
        save_text(path, self.svg)

    def __repr__(self) -> str:
        return f"<Picture {self.name!r}: {self.summary}>"

    def _repr_html_(self) -> str:
        return self.svg


def save_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file of text; another program sees it whole or not at all.

    Args:
        path: The file.
        text: Its content.

    Raises:
        OSError: It cannot be written.
    """
    with whole_file(path) as part, open(part, "w", encoding="utf-8") as file:
        file.write(text)
