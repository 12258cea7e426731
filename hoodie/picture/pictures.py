"""The eight pictures of a table by their names."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from hoodie.common.util.shown_value import shown_value
from hoodie.exception import HoodieConfigException
from hoodie.picture.commit_pictures import amplification, growth, timeline
from hoodie.picture.file_pictures import overlap, partitions, sizes, slices, versions
from hoodie.picture.picture import Picture
from hoodie.stats.table_numbers import TableNumbers

PICTURES: dict[str, Callable[[TableNumbers], Picture]] = {
    "timeline": lambda numbers: timeline(numbers, datetime.now(UTC)),
    "growth": growth,
    "amplification": amplification,
    "sizes": sizes,
    "partitions": partitions,
    "slices": slices,
    "overlap": overlap,
    "versions": versions,
}
"""Name of a picture -> what draws it."""


def draw(numbers: TableNumbers, name: str) -> Picture:
    """Draw a picture.

    Args:
        numbers: The table.
        name: One of `PICTURES`.

    Raises:
        HoodieConfigException: There is no such picture.
        HoodieException: Numbers cannot be read.
    """
    if name not in PICTURES:
        raise HoodieConfigException(f"there is no picture {shown_value(name)}: give one of {', '.join(PICTURES)}")
    return PICTURES[name](numbers)
