"""Numbers about a table: what `hoodie.picture` and `hoodie.plot` draw.

`commits` and `file_sizes` give Arrow tables; the other functions give rows that print as a table, one function for each
picture.
"""

from hoodie.stats.arrow_tables import commits, file_sizes
from hoodie.stats.of_path import (
    amplification,
    growth,
    overlap,
    partitions,
    sizes,
    sizes_by,
    slices,
    timeline,
    versions,
)

__all__ = [
    "amplification",
    "commits",
    "file_sizes",
    "growth",
    "overlap",
    "partitions",
    "sizes",
    "sizes_by",
    "slices",
    "timeline",
    "versions",
]
