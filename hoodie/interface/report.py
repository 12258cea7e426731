"""The report of a table: what is wrong with it, what it is, and its pictures, as one HTML file."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime

import attrs

from hoodie.common.config.property import display_value
from hoodie.common.table.table_summary import SummaryTable
from hoodie.common.util.shown_table import ShownTable, format_bytes, plural
from hoodie.exception import HoodieException
from hoodie.interface.description import describe
from hoodie.interface.diagnosis import diagnose
from hoodie.picture.charts import nothing
from hoodie.picture.page import page
from hoodie.picture.picture import Picture, save_text
from hoodie.picture.pictures import PICTURES, draw
from hoodie.stats.table_numbers import TableNumbers

logger = logging.getLogger(__name__)


@attrs.frozen
class Report:
    """A report that was written.

    Attributes:
        path: Its file.
        size_bytes: The size of the file.
        finding_count: The findings at its top; see `hoodie.Table.doctor`.
        failed_pictures: The pictures that could not be drawn; the page says why.
    """

    path: str
    size_bytes: int
    finding_count: int
    failed_pictures: tuple[str, ...] = ()

    def __str__(self) -> str:
        failed = f"; not drawn: {', '.join(self.failed_pictures)}" if self.failed_pictures else ""
        return f"{self.path}: {format_bytes(self.size_bytes)}, {plural(self.finding_count, 'finding')}{failed}"


@attrs.frozen
class _NoRow:
    """A table without rows, of a picture that could not be drawn."""


def write_report(numbers: TableNumbers, path: str | os.PathLike[str]) -> Report:
    """Write the report of a table.

    Of a damaged table, the error stands in the place of a picture whose numbers cannot be read; the others are drawn.

    Args:
        numbers: The table.
        path: The file, which is replaced as a whole.

    Raises:
        HoodieException: `diagnose` cannot look at the table.
        OSError: The file cannot be written.
    """
    snapshot = numbers.snapshot
    found = diagnose(numbers.config)
    facts = _facts(numbers)
    pictures, failed = [], []
    now = datetime.now(UTC)
    for name in PICTURES:
        try:
            pictures.append(draw(numbers, name))
        except HoodieException as error:
            logger.debug("The picture %s of %s could not be drawn", name, snapshot.base_path, exc_info=True)
            failed.append(name)
            none = SummaryTable(_NoRow, ())
            pictures.append(
                Picture(name, name.capitalize(), str(error), none, [nothing("The numbers cannot be read.")])
            )
    html = page(
        f"{snapshot.table_config.table_name}: report of a Hudi table",
        f"{display_value('hoodie.base.path', snapshot.base_path)}, as of {now:%Y-%m-%d %H:%M:%S} UTC",
        facts,
        found.table.shown(len(found.findings)),
        pictures,
        has_findings=not found.is_healthy,
    )
    save_text(path, html)
    return Report(os.fspath(path), len(html.encode()), len(found.findings), tuple(failed))


def _facts(numbers: TableNumbers) -> ShownTable:
    try:
        return describe(numbers.snapshot, numbers.config).shown
    except HoodieException as error:
        logger.debug("%s could not be described", numbers.snapshot.base_path, exc_info=True)
        return ShownTable(("table", "not described"), [("error", str(error))], 1, max_cell_width=1000)
